"""Rewritten graphs on disk: a hit gives what a miss gives, keys are stable and tell everything apart, bad entries are passed over."""

import glob
import json
import os
import re
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
from theano_ng.compile.io import In, Out
from theano_ng.compile.mode import get_mode
from theano_ng.gof.later import later
from theano_ng.tensor.nnet.corr import CorrMM
from theano_ng.tensor.signal.pool import Pool


def run_process(folder, seed, *names, code="from theano_ng.compile.tests.graph_cache_functions import main; main()"):
    """What graph_cache_functions.py reports from a process of its own."""
    flags = os.environ.get("THEANO_FLAGS", "")
    # DebugMode rewrites anew each time: it keeps no graphs
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
        with tempfile.TemporaryDirectory() as folder:
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
        """Truncated, foreign and older entries are rewritten again, and the new entry serves the next process."""
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
theano.function([x], x + 1)
print(json.dumps("theano_ng.tensor.opt" in sys.modules))
"""
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual([run_process(folder, 0, code=code) for _ in range(2)], [True, False])

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
        with tempfile.TemporaryDirectory() as folder:
            plain = run_process(folder, 0, "elementwise", code=code % "")["elementwise"]
            with_rule = run_process(folder, 0, "elementwise", code=code % rule)["elementwise"]
            self.assertEqual(with_rule["looked"], 0)
            self.assertNotEqual(with_rule["results"], plain["results"])


def key_of(inputs, outputs, mode="FAST_RUN", accept_inplace=False):
    """The file name of a function's entry; None when it is not cached."""
    inputs = [i if isinstance(i, In) else In(i) for i in inputs]
    outputs = [o if isinstance(o, Out) else Out(o) for o in (outputs if isinstance(outputs, list) else [outputs])]
    found = graph_cache.find(get_mode(mode), inputs, outputs, accept_inplace, std_fgraph.features)
    return None if found is None else os.path.basename(found.path)


class TestKeys(unittest.TestCase):
    def setUp(self):
        # Rules that other tests of this process have registered are none of these tests' business.
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
        self.assertIn(key_of(*plain), keys)  # flags are back

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
        with tempfile.TemporaryDirectory() as folder:
            blocked = os.path.join(folder, "file")
            open(blocked, "w").close()
            found.path = os.path.join(blocked, "graphs", "entry")
            fgraph, _ = std_fgraph([In(x)], [Out(x + 1)])
            found.save(fgraph)
            self.assertEqual(str(found.load()), str(fgraph))  # written in a moment
            later.finish()
            self.assertIsNone(found.load())
            found.path = os.path.join(folder, "graphs", "entry")
            found.save(fgraph)
            later.finish()
            self.assertEqual(str(found.load()), str(fgraph))
            with unittest.mock.patch.object(graph_cache, "package_fingerprint", lambda: b"another package      "[:20]):
                self.assertIsNone(found.load())
            self.assertEqual(os.listdir(os.path.join(folder, "graphs")), ["entry"])


if __name__ == "__main__":
    unittest.main()
