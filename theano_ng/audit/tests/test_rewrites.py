"""Tests of the oracle of rewriting rules: it finds planted faults, its verdicts are right, and its page is up to date."""

import io
import json
import os
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

import numpy as np
import scipy.sparse

try:
    import mpmath  # noqa: F401, tests whether mpmath is installed
except ImportError:
    raise unittest.SkipTest("needs mpmath: pip install 'theano_ng[test]'") from None

import theano_ng
import theano_ng.tensor as T
from theano_ng.audit.rewrites import accepted, comparing, page, proofs, reference, special_values
from theano_ng.audit.rewrites.applying import Computation, rewritten
from theano_ng.audit.rewrites.command import main
from theano_ng.audit.rewrites.examples import examples_of
from theano_ng.audit.rewrites.instances import Setting, build, settings
from theano_ng.audit.rewrites.oracle import Coverage, Effort, Judge, judge
from theano_ng.audit.rewrites.registry import Registered, name_of, registered
from theano_ng.audit.rewrites.templates import leaves, variations
from theano_ng.audit.tests.planted_rules import PLANTED
from theano_ng.gof.rewriting import local_optimizer
from theano_ng.gpuarray.tests.device import context
from theano_ng.tensor.opt import local_mul_to_sqr

SMALL = Effort(24, 4, 2, 24)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(theano_ng.__file__)))
PAGE = os.path.join(ROOT, "doc", "internal", "rules.rst")


def _graph(text, variable):
    """Return the inputs and outputs of the graph that a source text builds from a given variable."""
    instance = build(text, Setting("", ((variable.name, variable, ""),)))
    return instance.inputs, instance.outputs


def kinds_of(verdict):
    return {found.difference.kind for found in verdict.findings}


class TestPlanted(unittest.TestCase):
    def test_every_fault_is_seen(self):
        for rule, kinds in PLANTED:
            with self.subTest(rule=name_of(rule)):
                verdict = judge(Registered(name_of(rule), rule), SMALL)
                self.assertEqual(verdict.status, "wrong")
                self.assertTrue(kinds_of(verdict) & set(kinds), "%s, not %s" % (kinds_of(verdict), kinds))

    def test_programs_show_what_was_found(self):
        shown = ("drops_multiplicity", "negates_unsigned_numbers", "is_off_by_one")
        for rule, _ in PLANTED:
            if name_of(rule) not in shown:
                continue
            found = judge(Registered(name_of(rule), rule), SMALL).findings[0]
            name = "from theano_ng.audit.tests.planted_rules import %s" % name_of(rule)
            text = found.program.replace("rule_named(%r)" % name_of(rule), name_of(rule))
            printed = io.StringIO()
            with self.subTest(rule=name_of(rule)), redirect_stdout(printed):
                exec(name + "\n" + text, {})
                before, after = printed.getvalue().split("after: ")
                self.assertNotEqual(before.split("]", 1)[1].strip(), after.split("]", 1)[1].strip())

    def test_a_rule_that_another_one_undoes(self):
        @local_optimizer([T.sqr])
        def local_sqr_to_mul(node):
            """sqr(x)  ->  x * x"""
            return [T.mul(node.inputs[0], node.inputs[0])]

        one = Judge(Registered("local_sqr_to_mul", local_sqr_to_mul), SMALL)
        one.partners = [[local_mul_to_sqr, local_sqr_to_mul]]
        self.assertIn("endless", kinds_of(one.run()))


class TestRules(unittest.TestCase):
    """Tests of a few rules with the checks of ``make oracle``."""

    def test_registered_rules(self):
        names = "local_neg_neg local_mul_to_sqr local_useless_slice local_shape_to_shape_i local_cast_cast"
        for one in registered():
            if one.name in names.split():
                with self.subTest(rule=one.name):
                    verdict = judge(one, Effort(10, 10, 5, 64))
                    self.assertEqual(verdict.findings, [])
                    self.assertIn(verdict.status, ("proved", "exhausted"))

    def test_every_rule_keeps_stack_traces(self):
        """The new variables have stack traces in the graphs of all examples, also if inner variables have clients."""
        rules = [one for one in registered() if one.name not in accepted.NOT_COMPARED]
        for one in rules:
            for text, _, _ in examples_of(one.name, one.rule):
                for instance in (build(text), build(text, Setting("inner outputs", more="inner"))):
                    if instance is not None:
                        with self.subTest(rule=one.name, text=text, setting=instance.setting.kind):
                            change = rewritten(one.rule, instance.inputs, instance.outputs)
                            self.assertTrue(change.traced)
                            self.assertEqual((change.overwritten, change.mutated), ("", False))

    def test_the_same_seed_gives_the_same_verdict(self):
        (one,) = [one for one in registered() if one.name == "local_subtensor_merge"]
        first, second = [judge(one, Effort(10, 10, 5, 20), seed=5) for _ in range(2)]
        self.assertEqual(first, second)

    def test_accepted_differences_name_rules_and_kinds(self):
        names = {one.name for one in registered(devices=True)}
        self.assertEqual(set(accepted.NOT_COMPARED) - names, set())
        for row in accepted.TABLE:
            self.assertEqual(row.rules - names, set())
            self.assertEqual(set(row.kinds) - set(comparing.KINDS), set())

    def test_page_of_the_manual_names_every_rule(self):
        path = os.path.join(os.path.dirname(T.__file__), "..", "..", "doc", "internal", "rules.rst")
        if not os.path.exists(path):
            self.skipTest("the manual is not beside the package")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual([one.name for one in registered(devices=True) if "``%s``" % one.name not in text], [])


class TestDevices(unittest.TestCase):
    def test_rules_about_devices(self):
        context()
        from theano_ng.audit.rewrites.devices import DeviceJudge

        untried = set()
        for one in registered(devices=True):
            if one.on_devices:
                with self.subTest(rule=one.name, databases=list(one.databases.values())):
                    verdict = DeviceJudge(one, SMALL).run()
                    self.assertEqual(verdict.findings, [])
                    if "none of the graphs" in verdict.reason:
                        untried.add(one.name)
        self.assertEqual(untried, set())


class TestParts(unittest.TestCase):
    def test_special_values(self):
        for dtype in special_values.DTYPES:
            values = special_values.special(dtype)
            self.assertEqual(values.dtype, dtype)
        numbers = special_values.special("float32")
        self.assertTrue(np.isnan(numbers).any() and np.isinf(numbers).any() and np.signbit(numbers[numbers == 0]).any())
        self.assertTrue((np.abs(numbers[numbers != 0]) < np.finfo("float32").tiny).any())

    def test_combinations(self):
        rng = np.random.default_rng(0)
        vectors, over = special_values.combinations(["int8", "int8"], rng)
        self.assertEqual(over, "all pairs of values of int8")
        self.assertEqual(len(set(zip(*[v.tolist() for v in vectors]))), 1 << 16)
        vectors, over = special_values.combinations(["float16"], rng)
        self.assertEqual(over, "all values of float16")
        self.assertEqual(len(vectors[0]), 1 << 16)
        vectors, over = special_values.combinations(["float64"] * 4, rng)
        self.assertEqual(over, "all combinations of 4 of 16 special values of float64")
        self.assertLessEqual(len(vectors[0]), special_values.MAX_COMBINATIONS)
        vectors, over = special_values.combinations(["float64", "float64"], rng, 100)
        self.assertEqual(over, "")
        self.assertLessEqual(len(vectors[0]), 100)

    def test_leaves_and_variations(self):
        self.assertEqual(leaves("scan(lambda a, b: exp(a) * b, [A, x])[0]"), ["A", "x"])
        texts = [text for _, text in variations("sum(x[1:], axis=0)")]
        self.assertIn("sum(x[1:], axis=1)", texts)
        self.assertIn("sum(x[::-1], axis=0)", texts)
        self.assertIn("sum(abs(x)[1:], axis=0)", texts)
        self.assertEqual(len(texts), len(set(texts)))

    def test_settings(self):
        found = list(settings("x + y"))
        self.assertTrue(any(s.kind == "the same variable" for s in found))
        dtypes = {s.given[0][1].dtype for s in found if s.kind == "dtype"}
        self.assertEqual(dtypes | {"float64"}, set(special_values.DTYPES))
        self.assertTrue(all(build("x + y", s) is None or build("x + y", s).outputs for s in found))

    def test_what_makes_no_graph(self):
        self.assertIsNone(build("x + nothing"))
        self.assertIsNone(build("dot(A, x, y)"))

    def test_true_values(self):
        x = T.fvector("x")
        instance = build("(x + 1) - 1", Setting("", (("x", x, ""),)))
        change = rewritten(local_mul_to_sqr, instance.inputs, instance.outputs)
        value = np.array([1e-8], "float32")
        (known,), *_ = reference.bounds(change.before, [value])
        self.assertAlmostEqual(float(known.value[0]), float(value[0]), delta=1e-17)
        computed = Computation(change.before)([value])[0]
        self.assertLessEqual(abs(computed[0] - known.value[0]), known.error[0])
        (exact,) = reference.exact(change.before, [value[0]])
        self.assertEqual(float(exact), float(value[0]))

    def test_errors_of_a_loop_are_bounded(self):
        instance = build("scan(lambda row, h: h * exp(row) + row, A, v)[0]")
        change = rewritten(local_mul_to_sqr, instance.inputs, instance.outputs)
        rows, state = np.linspace(-1, 2, 12).reshape(4, 3), np.array([0.1, -3.0, 7.0])
        (known,), *_ = reference.bounds(change.before, [rows, state])
        expected, h = [], state.astype(np.longdouble)
        for row in rows.astype(np.longdouble):
            h = h * np.exp(row) + row
            expected.append(h)
        np.testing.assert_allclose(known.value, np.array(expected), rtol=1e-17)
        (computed,) = Computation(change.before)([rows, state])
        self.assertTrue(np.all(np.abs(computed - known.value) <= known.error))
        self.assertTrue(np.all(known.error <= 64 * np.finfo("float64").eps * np.abs(known.value).max()))

    def test_errors_of_sums_of_products_are_bounded(self):
        rng = np.random.default_rng(0)
        A, B, x, y = rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=3)
        N = scipy.sparse.csc_matrix(np.diag([0.1, 0.0, 0.3]))
        wide = A.astype(np.longdouble)
        for text, values, expected in (
            ("ger(A, a, x, y)", {"A": A, "a": 0.1, "x": x, "y": y}, wide + 0.1 * np.outer(x.astype(np.longdouble), y)),
            ("usmm(one, N, B, A)", {"A": A, "B": B, "N": N, "one": [[0.1]]}, wide + 0.1 * (N.toarray().astype(np.longdouble) @ B)),
        ):  # fmt: skip
            instance = build(text)
            given = [values[v.name] if v.name == "N" else np.asarray(values[v.name]) for v in instance.inputs]
            fgraph = rewritten(local_mul_to_sqr, instance.inputs, instance.outputs).before
            (known,), *_ = reference.bounds(fgraph, given)
            with self.subTest(text):
                np.testing.assert_allclose(known.value, expected, rtol=1e-15)
                self.assertTrue(np.all(np.abs(Computation(fgraph)(given)[0] - known.value) <= known.error))
                self.assertLess(known.error.max(), 1e-13)

    def test_integers_that_wrap_around(self):
        k = T.bvector("k")
        values = [np.array([1, 100, -128], "int8")]
        for text, wraps in (
            ("k + k", [False, True, True]),
            ("-k", [False, False, True]),
            ("abs(k)", [False, False, True]),
            ("k * k", [False, True, True]),
            ("cast(k, 'uint8')", [False, False, True]),
            ("exp(k * k)", [False, True, True]),
            ("sum(k + k)", True),
            ("sum(k)", False),
            ("cast(k, 'float32') * 100", [False, False, False]),
        ):
            fgraph = rewritten(local_mul_to_sqr, *_graph(text, k)).before
            with self.subTest(text):
                found = reference.ranges(reference.bounds(fgraph, values), ([], [], []), np.shape(wraps))
                self.assertEqual(found.wrapped.tolist(), wraps)
                same = reference.bounds(fgraph, values)
                self.assertFalse(reference.ranges(same, same, np.shape(wraps)).wrapped.any())

    def test_what_is_said_of_a_rule(self):
        """The status of a rule is the weakest status among the kinds of dtypes of its examples."""
        one = Judge(Registered("local_mul_to_sqr", local_mul_to_sqr), SMALL)
        proof, some, none = Coverage(proof="bits"), Coverage(over="all values of int8"), Coverage()
        for coverages, status in (
            ({("int",): [proof], ("float",): [proof]}, "proved"),
            ({("int",): [proof], ("float",): [proof, some]}, "exhausted"),
            ({("int",): [proof], ("float",): [none, some]}, "exhausted"),
            ({("int",): [some], ("float",): [proof, none]}, "sampled"),
        ):
            one.covered = {"x * x": coverages}
            self.assertEqual(one._status(["x * x"]), status)
        self.assertEqual(one._status(["x * x", "y * y"]), "sampled")

    def test_proofs(self):
        def theory(text, rule, dtype):
            variables = [T.TensorType(dtype, (False,))(name) for name in ("x", "y")]
            given = tuple((v.name, v, "") for v in variables)
            instance = build(text, Setting("", given))
            change = rewritten(rule, instance.inputs, instance.outputs)
            self.assertTrue(change.applied)
            return proofs.prove(change, [v.name for v in instance.inputs])

        for dtype in ("int8", "uint64"):
            self.assertEqual(theory("x * x", local_mul_to_sqr, dtype), "bits")
        self.assertEqual(theory("x * x", local_mul_to_sqr, "float16"), "IEEE")
        self.assertEqual(theory("x * x", local_mul_to_sqr, "complex64"), "complex numbers")
        wrong = {name_of(rule): rule for rule, _ in PLANTED}["negates_unsigned_numbers"]
        self.assertEqual(theory("cast(-x, 'int64')", wrong, "uint8"), "")

    def test_comparison_of_floats(self):
        def kinds(a, b):
            return [d.kind for d in comparing.compare([np.array(a)], [np.array(b)])]

        self.assertEqual(kinds([1.0, np.nan], [1.0, np.nan]), [])
        self.assertEqual(kinds([np.nan], [1.0]), ["nan"])
        self.assertEqual(kinds([1.0], [np.nan]), ["new nan"])
        self.assertEqual(kinds([1.0], [np.inf]), ["infinity"])
        self.assertEqual(kinds([0.0], [-0.0]), ["sign of zero"])
        self.assertEqual(kinds([1.0], [1.5]), ["rounding"])
        self.assertEqual(kinds([1], [2]), ["value"])
        self.assertEqual(kinds([1.0], np.float32([1])), ["type"])
        self.assertEqual(kinds([1.0], [1.0, 1.0]), ["shape"])
        self.assertEqual([d.kind for d in comparing.compare(ValueError("a"), [1])], ["lost error"])
        self.assertEqual([d.kind for d in comparing.compare([1], ValueError("a"))], ["new error"])


class TestCommand(unittest.TestCase):
    def run_command(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = main(list(arguments))
        return status, out.getvalue(), err.getvalue()

    def test_a_rule_by_name(self):
        status, out, _ = self.run_command("local_neg_neg", "--effort", "quick")
        self.assertEqual(status, 0)
        self.assertIn("1 rules: 1 ", out)

    def test_a_rule_about_devices_by_name(self):
        context()
        status, out, _ = self.run_command("local_gpua_join", "--devices", "--effort", "quick")
        self.assertEqual(status, 0)
        self.assertRegex(out, "(?m)^local_gpua_join ")

    def test_rules_of_a_module(self):
        target = "theano_ng.audit.tests.planted_rules:swaps_operands"
        status, out, _ = self.run_command(target, "--effort", "quick", "--json", "-")
        self.assertEqual(status, 1)
        document = json.loads(out)
        self.assertFalse(document["ok"])
        (rule,) = document["rules"]
        self.assertEqual((rule["name"], rule["status"]), ("swaps_operands", "wrong"))
        self.assertIn("rewritten(", rule["findings"][0]["program"])

    def test_several_processes(self):
        """With several processes, rules about devices are judged in the parent process.

        A forked process cannot use a device that its parent has opened.
        """
        context()
        names = ("local_neg_neg", "local_gpua_join", "local_cut_gpu_transfers", "local_useless_slice")
        with mock.patch("theano_ng.audit.rewrites.command.registered", _some_registered(names)):
            status, out, _ = self.run_command("--devices", "--processes", "2", "--effort", "quick")
        self.assertEqual(status, 0)
        for name in names:
            self.assertIn(name, out)

    def test_page(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.rst")
            self.run_command("local_neg_neg", "--effort", "quick", "--page", path)
            with open(path, encoding="utf-8") as file:
                text = file.read()
        self.assertIn("``local_neg_neg``", text)
        self.assertIn(page.summary([judge_named("local_neg_neg")])[:8], text)

    def test_update_of_a_page(self):
        """An update of a page tests only the rules that have no row on the page.

        The update keeps the rows of rules that still exist, and removes the rows of deleted rules.
        """
        names = "local_neg_neg local_useless_slice local_zero_div".split()
        old = (("proved", "z3", "nan: a number"), ("exhausted", "all values", ""))
        rows = {name: ("``%s``" % name, *cells) for name, cells in zip([*names[:1], "gone"], old)}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.rst")
            with open(path, "w", encoding="utf-8") as file:
                file.write(page.page([], rows))
            with mock.patch("theano_ng.audit.rewrites.command.registered", _some_registered(names)):
                status, out, _ = self.run_command("--update", "--effort", "quick", "--page", path)
            with open(path, encoding="utf-8") as file:
                text = file.read()
        found = page.rows_of(text)
        self.assertEqual((status, out.count("\nlocal_neg_neg"), sorted(found)), (0, 0, names))
        self.assertEqual(found["local_neg_neg"], rows["local_neg_neg"])
        self.assertIn("\n3 rules: ", text)
        self.assertIn("\nnan\n    ", text)
        self.assertEqual(page.page([], found), text)
        self.assertEqual(self.run_command("--update")[0], 2)

    @unittest.skipUnless(os.path.exists(PAGE), "doc/ is in a checkout only, not in an installed package")
    def test_rows_of_the_page_of_the_manual(self):
        with open(PAGE, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(page.page([], page.rows_of(text)), text)

    def test_what_is_not_understood(self):
        for target in ("no_such_rule", "theano_ng.tensor:no_such_rule", "json"):
            status, _, err = self.run_command(target)
            self.assertEqual(status, 2)
            self.assertIn("no", err)


def _some_registered(names):
    return lambda devices=False: [one for one in registered(devices) if one.name in names]


def judge_named(name):
    (one,) = [one for one in registered() if one.name == name]
    return judge(one, Effort(4, 4, 4, 10))


if __name__ == "__main__":
    unittest.main()
