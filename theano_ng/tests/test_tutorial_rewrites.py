"""Tests of the guides to graph rewriting and to the profile of compilation."""

import io
import re
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import gof
from theano_ng.compile import optdb
from theano_ng.gof import Query
from theano_ng.gof.rewriting import MergeOptimizer, OpRemove, OpSub, PatternSub
from theano_ng.scalar import add, float64, identity, mul, true_div
from theano_ng.tests.unittest_tools import assert_allclose

MODES = ("FAST_COMPILE", "FAST_RUN", "DebugMode")


def quotient_of_product(node):
    """Return the remaining factor of ``(a * b) / a`` or ``(a * b) / b``. Return None for any other node."""
    if node.op == true_div:
        product, divisor = node.inputs
        if product.owner is not None and product.owner.op == mul:
            factors = list(product.owner.inputs)
            if len(factors) == 2 and divisor in factors:
                factors.remove(divisor)
                return factors[0]
    return None


class CancelEverywhere(gof.Optimizer):
    """An optimizer of whole graphs; `add_requirements` attaches the feature that it needs."""

    def add_requirements(self, fgraph):
        fgraph.attach_feature(gof.toolbox.ReplaceValidate())

    def apply(self, fgraph):
        for node in fgraph.toposort():
            factor = quotient_of_product(node)
            if factor is not None:
                fgraph.replace_validate(node.outputs[0], factor, reason="cancel")


class CancelHere(gof.LocalOptimizer):
    """`CancelEverywhere` as a rule for single nodes, which a navigator applies to each node."""

    def tracks(self):
        return []

    def transform(self, node):
        factor = quotient_of_product(node)
        return factor is not None and [factor]


cancel_everywhere = CancelEverywhere()
cancel_here = CancelHere()


class OwnRewrites(unittest.TestCase):
    def setUp(self):
        self.x, self.y, self.z = float64("x"), float64("y"), float64("z")

    def graph(self, a):
        return gof.FunctionGraph([self.x, self.y, self.z], [a])

    def products(self):
        x, y, z = self.x, self.y, self.z
        return self.graph(mul(true_div(mul(z, y), z), add(x, true_div(y, x))))

    def test_global(self):
        e = self.products()
        self.assertEqual(repr(e), "[mul(true_div(mul(z, y), z), add(x, true_div(y, x)))]")
        cancel_everywhere.optimize(e)
        self.assertEqual(repr(e), "[mul(y, add(x, true_div(y, x)))]")

    def test_equal_nodes_have_to_be_merged(self):
        x, y, z = self.x, self.y, self.z
        e = self.graph(true_div(mul(x, mul(y, z)), mul(y, z)))
        cancel_everywhere.optimize(e)
        self.assertEqual(repr(e), "[true_div(mul(x, mul(y, z)), mul(y, z))]")
        result = MergeOptimizer().optimize(e)
        self.assertEqual((result[0],) + result[2:], (0, None, None, {}, 1, 0))
        self.assertEqual(repr(e), "[true_div(mul(x, *1 -> mul(y, z)), *1)]")
        cancel_everywhere.optimize(e)
        self.assertEqual(repr(e), "[x]")
        e = self.graph(add(add(x, y), add(y, x)))
        MergeOptimizer().optimize(e)
        self.assertEqual(len(e.apply_nodes), 3)

    def test_local(self):
        e = self.products()
        result = gof.TopoOptimizer(cancel_here).optimize(e)
        self.assertRegex(
            repr(result), r"^\(<theano_ng\.gof\.opt\.TopoOptimizer object at 0x[0-9a-f]+>, 1, 5, 3, .*, .*, .*\)$"
        )
        self.assertEqual(repr(e), "[mul(y, add(x, true_div(y, x)))]")

    def test_shortcuts(self):
        x, y, z = self.x, self.y, self.z
        for rule, before, after in (
            (OpSub(mul, add), mul(mul(x, y), z), "[add(add(x, y), z)]"),
            (OpRemove(identity), true_div(x, identity(identity(y))), "[true_div(x, y)]"),
            (PatternSub((true_div, (mul, "a", "b"), "b"), "a"), true_div(mul(z, y), y), "[z]"),
            (PatternSub((true_div, (mul, "a", "b"), "a"), "b"), add(x, true_div(mul(z, y), z)), "[add(x, y)]"),
        ):
            e = self.graph(before)
            gof.TopoOptimizer(rule).optimize(e)
            self.assertEqual(repr(e), after)


class Database(unittest.TestCase):
    """Tests of `optdb`. Tests that add tags to `optdb` remove these tags at the end."""

    def test_queries(self):
        fast_run = optdb.query(Query(include=["fast_run"]))
        fast_compile = optdb.query(Query(include=["fast_compile"]))
        fast_run_no_inplace = optdb.query(Query(include=["fast_run"], exclude=["inplace"]))
        x, y = T.dmatrices("x", "y")
        nodes = {}
        for name, optimizer in (
            ("fast_run", fast_run),
            ("fast_compile", fast_compile),
            ("no_inplace", fast_run_no_inplace),
        ):
            fgraph = gof.FunctionGraph([x, y], [T.exp(T.dot(x, y)) + x.sum(axis=1, keepdims=True) * 2])
            optimizer.optimize(fgraph)
            nodes[name] = [node.op for node in fgraph.toposort()]
        self.assertTrue(any(getattr(op, "destroy_map", None) for op in nodes["fast_run"]))
        self.assertFalse(any(getattr(op, "destroy_map", None) for op in nodes["no_inplace"] + nodes["fast_compile"]))
        self.assertGreater(len(nodes["fast_compile"]), len(nodes["fast_run"]))

    def test_positions(self):
        places = {
            name: optdb.__position__[name]
            for name in ("merge1", "canonicalize", "specialize", "merge2", "add_destroy_handler", "merge3")
        }
        self.assertEqual(
            [places[name] for name in ("merge1", "merge2", "add_destroy_handler", "merge3")], [0, 49, 49.5, 100]
        )
        self.assertEqual(
            sorted(places, key=places.get),
            ["merge1", "canonicalize", "specialize", "merge2", "add_destroy_handler", "merge3"],
        )

    def test_registered_rules_are_used(self):
        @gof.local_optimizer([T.sqrt])
        def local_sqrt_of_square(node):
            if node.op == T.sqrt and node.inputs[0].owner and node.inputs[0].owner.op == T.sqr:
                return [abs(node.inputs[0].owner.inputs[0])]

        x = T.dvector("x")
        before = theano.function([x], T.sqrt(T.sqr(x)), mode="FAST_RUN")
        optdb.register("guide_simplify", gof.TopoOptimizer(local_sqrt_of_square), 0.5, "fast_run", "fast_compile")
        self.addCleanup(optdb.remove_tags, "guide_simplify", "fast_run", "fast_compile")
        for mode in MODES:
            f = theano.function([x], T.sqrt(T.sqr(x)), mode=mode)
            ops = [str(node.op) for node in f.maker.fgraph.toposort()]
            self.assertEqual(len(ops), 1, mode)
            self.assertIn("abs", ops[0])
            self.assertEqual(f([-1.5, 2.0]).tolist(), [1.5, 2.0])
        self.assertNotIn("abs", str(before.maker.fgraph.toposort()))  # compiled before the registration


class PromisedRewrites(unittest.TestCase):
    """Tests of the documented rewrites: the final graphs, and their values."""

    def ops(self, inputs, output, values=None, mode="FAST_RUN"):
        f = theano.function(inputs, output, mode=mode)
        if values is not None:
            assert_allclose(theano.function(inputs, output, mode=theano.Mode("py", None))(*values), f(*values))
        return [
            re.sub("[{,].*", "", str(node.op)) if not str(node.op).startswith("Elemwise") else str(node.op)
            for node in f.maker.fgraph.toposort()
        ]

    def test_common_parts_are_computed_once(self):
        x, y = T.dvectors("x", "y")
        mode = theano.compile.mode.get_mode("FAST_RUN").excluding("fusion", "inplace")
        f = theano.function([x, y], [(x + y) * 2, (x + y) * 3], mode=mode)
        self.assertEqual(sum("add" in str(node.op) for node in f.maker.fgraph.toposort()), 1)

    def test_algebra(self):
        x = T.dvector("x")
        v = np.array([0.5, -2.0, 3.0])
        for output, expected in ((T.pow(x, 1), ["DeepCopyOp"]), (x + 0, ["DeepCopyOp"]), (-(-x), ["DeepCopyOp"])):
            self.assertEqual(self.ops([x], output, [v]), expected)
        self.assertIn("sqr", self.ops([x], x * x, [v])[0])
        self.assertIn("neg", self.ops([x], x * -1, [v])[0])
        self.assertIn("sqrt", self.ops([x], x**-0.5, [np.abs(v)])[0])
        for output in (x * 0, x**0):
            self.assertIn("Alloc", self.ops([x], output, [v]))
        y = T.dvector("y")
        self.assertNotIn("neg", " ".join(self.ops([x, y], (-x) / (-y), [v, v + 0.25])))

    def test_sums_and_products(self):
        x, a = T.dmatrix("x"), T.dscalar("a")
        ops = self.ops([x, a], T.sum(a * x), [np.ones((2, 3)), 2.0])
        self.assertLess(ops.index("Sum"), next(i for i, op in enumerate(ops) if "Mul" in op))
        y = T.dmatrix("y")
        self.assertEqual(self.ops([x, y], T.dot(x, y), [np.ones((2, 3)), np.ones((3, 2))]), ["Dot22"])
        w = theano.shared(np.zeros((2, 2)))
        f = theano.function([x, y], updates=[(w, w - 0.5 * T.dot(x, y))], mode="FAST_RUN")
        self.assertEqual([type(node.op).__name__ for node in f.maker.fgraph.toposort()], ["Gemm"])
        self.assertEqual(self.ops([x], T.log(x).shape[0], [np.ones((2, 3))]), ["Shape_i"])

    def test_increments_in_a_row(self):
        a, b, c = T.dvectors("abc")
        f = theano.function([a, b, c], T.inc_subtensor(a[:2], b) + T.inc_subtensor(a[:2], c), mode="FAST_RUN")
        assert_allclose(np.array([4.0, 4.0, 2.0]), f(np.ones(3), np.ones(2), np.ones(2)))
        increments = [node for node in f.maker.fgraph.toposort() if isinstance(node.op, T.subtensor.IncSubtensor)]
        self.assertEqual(len(increments), 2)
        self.assertIs(increments[1].inputs[0].owner, increments[0])  # the second increments the output of the first
        f = theano.function([a], T.reshape(T.reshape(a, (2, 6)), (3, 4)), mode="FAST_RUN")
        self.assertEqual(sum("Reshape" in str(node.op) for node in f.maker.fgraph.toposort()), 1)
        self.assertEqual(f(np.arange(12.0)).tolist(), np.arange(12.0).reshape(3, 4).tolist())

    def test_log_of_softmax_is_stable(self):
        x = T.dmatrix("x")
        for mode in ("FAST_RUN", theano.Mode(optimizer="o3"), theano.Mode(optimizer="Stabilization")):
            f = theano.function([x], T.log(T.nnet.softmax(x)), mode=mode)
            self.assertEqual(f([[0.0, -1000.0]]).tolist(), [[0.0, -1000.0]])


class CompileProfile(unittest.TestCase):
    def test_sections(self):
        x, y = T.dmatrices("x", "y")
        with theano.config.change_flags(profile_optimizer=True, cache_graphs=False):
            f = theano.function(
                [x, y], T.log(T.nnet.softmax(T.dot(x, y) + 1)) * 2 + T.fill(x, 2).sum(), profile=True, mode="FAST_RUN"
            )
        self.addCleanup(theano.compile.profiling._atexit_print_list.remove, f.profile)
        out = io.StringIO()
        f.profile.summary(file=out)
        text = out.getvalue()
        for line in (
            r"^Function profiling$",
            r"^=+$",
            r"^  Message: .*test_tutorial_rewrites\.py:\d+$",
            r"^  Time in 0 calls to Function\.__call__: 0\.000000e\+00s$",
            r"^  Total compile time: \d\.\d+e[-+]\d\ds$",
            r"^    Number of Apply nodes: %d$" % len(f.maker.fgraph.apply_nodes),
            r"^    Theano Optimizer time: \d",
            r"^       Theano validate time: \d",
            r"^    Theano Linker time \(includes C, CUDA code generation/compiling\): \d",
            r"^       Import time \d",
            r"^Time in all call to theano\.grad\(\) \d",
            r"^Optimizer Profile$",
            r"^SeqOptimizer +OPT_FAST_RUN +time \d+\.\d+s for \d+/\d+ nodes before/after optimization$",
            r"^  \d\.\d+s for fgraph\.validate\(\)$",
            r"^  \d\.\d+s for callback$",
            r"^time      - \(name, class, index\) - validate time$",
            r"^  \d\.\d+s - \('canonicalize', 'EquilibriumOptimizer', \d+\) - \d",
            r"^    EquilibriumOptimizer      canonicalize$",
            r"^      time \d\.\d+s for \d+ passes$",
            r"^      nb nodes \(start, end, max\) \d+ \d+ \d+$",
            r"^      time io_toposort \d",
            r"^      time in local optimizers \d",
            r"^      time in global optimizers \d",
            r"^       0 - \d\.\d+s \d+ \(\d.*s in global opts",
        ):
            self.assertRegex(text, re.compile(line, re.M), line)


if __name__ == "__main__":
    unittest.main()
