"""Tests of the graph cache: cached graphs equal new ones, keys are stable and distinct, bad entries are ignored."""

import functools
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np

import theano_ng as theano
from theano_ng import tensor as tt
from theano_ng.compile import graph_cache
from theano_ng.compile.functions.maker import std_fgraph
from theano_ng.compile.io import In, Out, SymbolicInput
from theano_ng.compile.mode import Mode, get_mode
from theano_ng.gof import optdb
from theano_ng.gof.deferred import run_later
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.optdb import Query
from theano_ng.tensor.nnet.corr import CorrMM
from theano_ng.tensor.signal.pool import Pool


def run_process(folder, seed, *names, code="from theano_ng.compile.tests.graph_cache_functions import main; main()"):
    """Return the report of graph_cache_functions.py from a separate process."""
    flags = os.environ.get("THEANO_FLAGS", "")
    # DebugMode rewrites each time, so it caches no graphs
    mode = ",mode=Mode" if theano.config.mode == "DebugMode" else ""
    environment = dict(os.environ, PYTHONHASHSEED=str(seed), THEANO_FLAGS=flags + ",base_compiledir=" + folder + mode)
    root = os.path.dirname(os.path.dirname(os.path.abspath(theano.__file__)))
    environment["PYTHONPATH"] = root + os.pathsep + environment.get("PYTHONPATH", "")
    done = subprocess.run([sys.executable, "-c", code, *names], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


class TestSecondProcess(unittest.TestCase):
    def test_hits_equal_misses(self):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            first = run_process(folder, 1)
            # another process with another hash seed
            second = run_process(folder, 2)
            self.assertGreaterEqual(len(first), 15)
            for name, miss in first.items():
                hit = second[name]
                with self.subTest(function=name):
                    self.assertEqual(miss["looked"], 1)
                    self.assertEqual((miss["hit"], hit["hit"]), (False, True))
                    for field in ("graph", "results", "names", "inputs", "path"):
                        self.assertEqual(*[re.sub("0x[0-9a-f]+", "", str(record[field])) for record in (miss, hit)])
            self.assertEqual(first["error_names_the_line"]["results"], ["True", "True"])
            self.check_damage(folder, first)

    def check_damage(self, folder, first):
        """Check that functions whose cache entries are truncated, foreign or outdated are rewritten.

        The process that rewrites the functions replaces their bad entries, so the next process finds valid entries.
        """
        entries = sorted(glob.glob(os.path.join(folder, "*", "graphs", "*")))
        self.assertEqual(len(entries), len(first))
        for i, path in enumerate(entries):
            with open(path, "rb") as f:
                content = f.read()
            with open(path, "wb") as f:
                f.write(
                    [
                        content[: len(content) // 2],
                        b"",
                        b"theano_ng graph 0\n" + content[len(graph_cache.MAGIC) :],
                        content[:-1] + bytes([content[-1] ^ 1]),
                        os.urandom(100),
                    ][i % 5]
                )
        third, fourth = run_process(folder, 3), run_process(folder, 3)
        for name in first:
            self.assertEqual((third[name]["hit"], fourth[name]["hit"]), (False, True), name)
            self.assertEqual(third[name]["results"], first[name]["results"])

    def test_a_hit_needs_no_rules(self):
        code = """
import json, sys
import theano_ng as theano
x = theano.tensor.dvector()
theano.function([x], %s)([2.0])
print(json.dumps("theano_ng.tensor.opt" in sys.modules))
"""
        for output in (
            "x + 1",
            "theano.scan(lambda s: s * x, outputs_info=[x], n_steps=3)[0][-1]",
            "theano.gradient.jacobian(x ** 2, x)",
        ):
            with self.subTest(output=output), tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                self.assertEqual([run_process(folder, 0, code=code % output) for _ in range(2)], [True, False])

    def test_rules_of_users_are_never_passed_over(self):
        code = """
import theano_ng as theano
from theano_ng import tensor as tt, gof
from theano_ng.compile.tests import graph_cache_functions
%s
graph_cache_functions.main()
"""
        rule = """
@tt.opt.register_canonicalize
@gof.local_optimizer([tt.exp])
def local_exp_to_two(node):
    if node.op == tt.exp:
        return [node.inputs[0] * 0 + 2]
"""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            plain = run_process(folder, 0, "elementwise", code=code % "")["elementwise"]
            with_rule = run_process(folder, 0, "elementwise", code=code % rule)["elementwise"]
            self.assertEqual(with_rule["looked"], 0)
            self.assertNotEqual(with_rule["results"], plain["results"])


_world = {"answer": True}


def _question(name):
    return _world[name]


class TestAnswers(unittest.TestCase):
    """Rules may ask questions whose answers change from one process to the next."""

    def test_other_answers(self):
        """An entry is used only while the questions have the answers with which the graph was rewritten."""
        x = tt.dvector("x")
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.addCleanup(optdb._answers.pop, (_question, ("answer",)), None)
        self.addCleanup(_world.update, answer=True)
        entry = graph_cache.CachedGraph(os.path.join(folder, "entry"), [x], 1, {})
        self.assertIs(optdb.consult(_question, "answer"), True)
        entry.save(FunctionGraph([x], [x + 1], clone=True))
        run_later.finish()
        self.assertIsNotNone(entry.load())
        _world["answer"] = False
        self.assertIsNone(entry.load())
        self.assertIn((_question, ("answer",), False), optdb.answers())
        del _world["answer"]  # the question has no answer any longer, as for a context that does not exist
        self.assertIsNone(entry.load())
        _world["answer"] = True
        self.assertIsNotNone(entry.load())


def key_of(inputs, outputs, mode="FAST_RUN", accept_inplace=False):
    """Return the file name of a function's entry, or None if the function is not cached."""
    inputs = [i if isinstance(i, SymbolicInput) else In(i) for i in inputs]
    outputs = [o if isinstance(o, Out) else Out(o) for o in (outputs if isinstance(outputs, list) else [outputs])]
    found = graph_cache.find(get_mode(mode), inputs, outputs, accept_inplace, std_fgraph.features)
    return None if found is None else os.path.basename(found.path)


class TestKeys(unittest.TestCase):
    def setUp(self):
        # Ignore the rules that other tests of this process have registered.
        patch = unittest.mock.patch.object(graph_cache.gof_optdb, "has_foreign_rules", lambda: False)
        patch.start()
        self.addCleanup(patch.stop)

    def test_what_differs_has_another_key(self):
        x, y, i = tt.dvector("x"), tt.dvector("y"), tt.dvector("x")
        quiet = np.array([0x7FF8000000000001], "uint64").view("float64")
        other = np.array([0x7FF8000000000002], "uint64").view("float64")
        named = x + 1
        named.name = "sum"
        tagged = x + 1
        tagged.tag.nan_guard_mode_check = False
        functions = {
            "plain": ([x], x + 1),
            "other constant": ([x], x + 2),
            "other dtype": ([x], x + np.float32(1)),
            "other op": ([x], x * 1),
            "named output": ([x], named),
            "tagged": ([x], tagged),
            "other name": ([y], y + 1),
            "float32": ([z := tt.fvector("x")], z + 1),
            "broadcast": ([r := tt.TensorType("float64", (True,))("x")], r + 1),
            "mutable": ([In(x, mutable=True)], x + 1),
            "borrowed": ([In(x, borrow=True)], x + 1),
            "borrowed output": ([x], Out(x + 1, borrow=True)),
            "twice": ([x], [x + 1, x + 1]),
            "update": ([In(x, update=x + 1)], []),
            "update of another": ([In(x, update=x + 1), y], [y]),
            "0.0": ([x], x + 0.0),
            "-0.0": ([x], x + -0.0),
            "nan": ([x], x + quiet),
            "another nan": ([x], x + other),
            "sub": ([x, y], x - y),
            "reversed": ([x, y], y - x),
            "inputs swapped": ([y, x], x - y),
            "other variable": ([x, i], x - i),
            "sum": ([m := tt.matrix("x")], m.sum(axis=0)),
            "sum 1": ([m], m.sum(axis=1)),
            "int sum": ([n := tt.lmatrix("x")], tt.sum(n, dtype="int64")),
            "float sum": ([n], tt.sum(n, dtype="float64")),
            "slice": ([m], m[1:]),
            "slice 2": ([m], m[2:]),
            "named op": ([x], tt.Elemwise(theano.scalar.sqr, name="A")(x)),
            "op with another name": ([x], tt.Elemwise(theano.scalar.sqr, name="B")(x)),
            "one thread": ([x], tt.Elemwise(theano.scalar.cosh, openmp=False)(x)),
            "threads": ([x], tt.Elemwise(theano.scalar.cosh, openmp=True)(x)),
            "pooled by one thread": ([m], Pool(True, openmp=False)(m, (2, 2))),
            "pooled by threads": ([m], Pool(True, openmp=True)(m, (2, 2))),
            "correlated by one thread": ([v4 := tt.tensor4("x")], CorrMM(openmp=False)(v4, v4)),
            "correlated by threads": ([v4], CorrMM(openmp=True)(v4, v4)),
            "print": ([x], theano.printing.Print("a")(x)),
            "print b": ([x], theano.printing.Print("b")(x)),
        }
        keys = {}
        for name, (inputs, outputs) in functions.items():
            key = key_of(inputs, outputs)
            self.assertIsNotNone(key, name)
            self.assertNotIn(key, keys, "%s and %s have one key" % (name, keys.get(key)))
            keys[key] = name
            self.assertEqual(key, key_of(inputs, outputs), name)
        plain = [x], x + 1
        for mode in (
            "FAST_COMPILE",
            get_mode("FAST_RUN").excluding("inplace"),
            get_mode("FAST_RUN").including("local_x"),
            get_mode("FAST_RUN").requiring("fast_run"),
        ):
            self.assertNotIn(key_of(*plain, mode=mode), keys)
        self.assertNotIn(key_of(*plain, accept_inplace=True), keys)
        for flags in (
            {"floatX": "float32"},
            {"warn_float64": "warn"},
            *([{"cxx": ""}] if theano.config.cxx else []),
            {"openmp": not theano.config.openmp},
        ):
            with theano.config.change_flags(flags):
                self.assertNotIn(key_of(*plain), keys, flags)
        self.assertIn(key_of(*plain), keys)  # flags are restored

    def test_what_cannot_be_described_is_not_cached(self):
        x = tt.dvector("x")

        class Mine(theano.Op):
            __props__ = ()

            def make_node(self, x):
                return theano.Apply(self, [x], [x.type()])

        marked = x + 1
        marked.tag.values_eq_approx = lambda a, b: True
        for name, (inputs, output) in {
            "op of a user": ([x], Mine()(x)),
            "callback": ([x], theano.printing.Print("m", global_fn=lambda op, v: None)(x)),
            "missing input": ([], x + 1),
            "tag": ([x], marked),
            "large constant": ([x], x + np.ones(200000)),
        }.items():
            self.assertIsNone(key_of(inputs, output), name)
        self.assertIsNone(key_of([x], x + 1, mode=theano.compile.Mode("py", theano.gof.OpSub(tt.exp, tt.log))))
        plain = x + 1
        for flags in (
            {"cache_graphs": False},
            {"compute_test_value": "warn"},
            {"optimizer_verbose": True},
            {"check_stack_trace": "log"},
        ):
            with theano.config.change_flags(flags):
                self.assertIsNone(key_of([x], plain), flags)

    def test_entry_that_cannot_be_written(self):
        x = tt.dvector("x")
        found = graph_cache.find(get_mode("FAST_RUN"), [In(x)], [Out(x + 1)], False, std_fgraph.features)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            blocked = os.path.join(folder, "file")
            open(blocked, "w").close()
            found.path = os.path.join(blocked, "graphs", "entry")
            fgraph, _ = std_fgraph([In(x)], [Out(x + 1)])
            found.save(fgraph)
            # The entry is read from memory, because it is not yet written.
            self.assertEqual(str(found.load()), str(fgraph))
            run_later.finish()
            self.assertIsNone(found.load())
            found.path = os.path.join(folder, "graphs", "entry")
            found.save(fgraph)
            run_later.finish()
            self.assertEqual(str(found.load()), str(fgraph))
            with unittest.mock.patch.object(graph_cache, "package_fingerprint", lambda: b"another package      "[:20]):
                self.assertIsNone(found.load())
            self.assertEqual(os.listdir(os.path.join(folder, "graphs")), ["entry"])


# The parts of the key of a function that adds a constant to its only input.
PARTS = (
    "include require exclude position_cutoff flags decided_by cxx subquery accept_inplace input outputs variable constant node result order"
).split()
FLAGS_OF_INPUTS = "mutable borrow implicit shared update kind".split()


class TestMemoryRunsOut(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "graphs", "entry")

    def test_an_entry_that_is_written_in_part_is_removed(self):
        with unittest.mock.patch.object(graph_cache.trust, "publish", side_effect=MemoryError):
            self.assertRaises(MemoryError, graph_cache._write, self.path, b"body")
        self.assertEqual(os.listdir(os.path.dirname(self.path)), [])

    def test_an_entry_that_nobody_is_to_write_is_not_kept(self):
        x = tt.dvector()
        entry = graph_cache.CachedGraph(self.path, [x], 1, {})
        with unittest.mock.patch.object(graph_cache, "run_later", side_effect=MemoryError):
            self.assertRaises(MemoryError, entry.save, theano.gof.FunctionGraph([x], [x], clone=False))
        self.assertNotIn(self.path, graph_cache._pending_entries)


def forgetting(part, flag=None):
    """Return a patch that removes one part from all keys.

    If `flag` is given, the patch removes only this flag from the parts that describe inputs.
    """
    digest, place = graph_cache._Key.digest, PARTS.index(part)

    def forgetful(key):
        if flag is None:
            del key.parts[place]
        for i, text in enumerate(key.parts):
            if flag is not None and text.startswith("tuple(bool:"):
                words = text.split(",")
                del words[FLAGS_OF_INPUTS.index(flag)]
                key.parts[i] = ",".join(words)
        return digest(key)

    return unittest.mock.patch.object(graph_cache._Key, "digest", forgetful)


class TestParts(unittest.TestCase):
    """Tests that each part of a key is needed.

    If a part is left out, functions that differ only in this part have equal keys.
    """

    def setUp(self):
        patch = unittest.mock.patch.object(graph_cache.gof_optdb, "has_foreign_rules", lambda: False)
        patch.start()
        self.addCleanup(patch.stop)
        self.x = tt.dscalar("x")

    def check(self, first, second, part, flag=None):
        self.assertNotEqual(first(), second())
        with forgetting(part, flag):
            self.assertIsNotNone(first())
            self.assertEqual(first(), second(), "not %s alone tells them apart" % (flag or part))

    def of_query(self, **arguments):
        query = Query(**{"include": ["fast_run"], **arguments})
        return lambda: key_of([self.x], self.x + 1, mode=Mode("py", query))

    def of_flags(self, target, value):
        def key():
            with unittest.mock.patch.object(graph_cache, "flags_in_effect", lambda: []), target(value):
                return key_of([self.x], self.x + 1)

        return key

    def test_rewriting(self):
        usual = self.of_query()
        for part, arguments in (
            ("include", {"include": ["fast_run", "more"]}),
            ("require", {"require": ["x"]}),
            ("exclude", {"exclude": ["x"]}),
            ("position_cutoff", {"position_cutoff": 2}),
            ("subquery", {"subquery": {"canonicalize": Query(["x"])}}),
        ):
            self.check(usual, self.of_query(**arguments), part)

    def test_surroundings(self):
        decided = lambda words: unittest.mock.patch.object(graph_cache.gof_optdb, "decided_by", lambda: words)
        self.check(self.of_flags(decided, []), self.of_flags(decided, [("a", "b")]), "decided_by")
        cxx = lambda value: theano.config.change_flags(cxx=value)
        self.check(self.of_flags(cxx, ""), self.of_flags(cxx, "g++"), "cxx")

        def key(floatX):
            with theano.config.change_flags(floatX=floatX):
                return key_of([self.x], self.x + 1)

        self.check(lambda: key("float64"), lambda: key("float32"), "flags")

    def test_what_functions_may_do(self):
        usual = lambda: key_of([self.x], self.x + 1)
        self.check(usual, lambda: key_of([self.x], self.x + 1, accept_inplace=True), "accept_inplace")
        self.check(usual, lambda: key_of([self.x], Out(self.x + 1, borrow=True)), "outputs")
        for flag in ("mutable", "borrow", "implicit", "shared"):

            def changed():
                spec = In(self.x)
                setattr(spec, flag, not getattr(spec, flag, False))
                return key_of([spec], self.x + 1)

            self.check(usual, changed, "input", flag)
            self.check(usual, changed, "input")
        self.check(usual, lambda: key_of([SymbolicInput(self.x)], self.x + 1), "input", "kind")
        y = tt.dscalar("y")
        usual, updated = In(self.x, mutable=True), In(self.x, mutable=True, update=self.x + y)
        usual_y, updated_y = In(y, mutable=True), In(y, mutable=True, update=self.x + y)
        of_first, of_second = lambda: key_of([updated, usual_y], [y]), lambda: key_of([usual, updated_y], [y])
        self.check(of_first, of_second, "input", "update")

    def test_graphs(self):
        x, y, named = self.x, tt.dscalar("y"), self.x + 1
        named.name = "sum"
        for part, inputs, outputs in (
            ("variable", [y], y + 1),
            ("constant", [x], x + 2),
            ("node", [x], x * 1),
            ("result", [x], named),
        ):
            self.check(lambda: key_of([x], x + 1), functools.partial(key_of, inputs, outputs), part)
        result = x + 1
        self.check(lambda: key_of([x], [result, x]), lambda: key_of([x], [x, result]), "order")

    def test_all_parts_are_named(self):
        key = graph_cache._Key
        with unittest.mock.patch.object(key, "digest", autospec=True) as digest:
            key_of([self.x], self.x + 1)
        ((made,), _) = digest.call_args
        self.assertEqual(len(made.parts), len(PARTS))
        self.assertEqual(made.parts[PARTS.index("input")].count("bool:"), len(FLAGS_OF_INPUTS))


if __name__ == "__main__":
    unittest.main()
