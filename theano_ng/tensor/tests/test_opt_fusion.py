"""Elementwise operations are fused into one loop; only cheap values are computed in several loops."""

import functools
import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.optdb import Query
from theano_ng.scalar import Composite, ScalarOp
from theano_ng.tensor.opt import elemwise_max_input_fct
from theano_ng.tensor.opt.fusion import MAX_OPERATIONS, MAX_REPEATED
from theano_ng.tensor.tests.rewriting import RewriteCase, shown

FUSION = Query(["fusion", "canonicalize_db"])


def loops_of(function):
    return [node for node in function.maker.fgraph.apply_nodes if not isinstance(node.op, T.DimShuffle)]


def count_of(node, name):
    """Return the number of operations of a class in a loop."""
    inner = getattr(node.op.scalar_op, "fgraph", None)
    ops = [node.op.scalar_op] if inner is None else [n.op for n in inner.toposort()]
    return sum(type(op).__name__ == name for op in ops)


class SumAndProduct(ScalarOp):
    """A scalar Op with the outputs x + y and x * y."""

    nin, nout = 2, 2

    def output_types(self, types):
        return list(types)

    def impl(self, x, y):
        return x + y, x * y

    def c_code(self, node, name, inputs, outputs, sub):
        return "{0} = {2} + {3}; {1} = {2} * {3};".format(*outputs, *inputs)

    def c_code_cache_version(self):
        return (1,)


class TestFusion(RewriteCase):
    query = FUSION

    def test_texts(self):
        x, y, z = T.dvectors("xyz")
        s, m = T.dscalar("s"), T.dmatrix("m")
        for out, expected in [
            (T.exp(x) * y - z, "Elemwise{Composite{((exp(i0) * i1) - i2)}}(x, y, z)"),
            (T.tanh(x + s), "Elemwise{Composite{tanh((i0 + i1))}}(x, InplaceDimShuffle{x}(s))"),
            (T.exp(T.exp(x) + T.exp(x)), "Elemwise{Composite{exp((i0 + i0))}}(exp(x))"),
            ((x + y) + z, "add(x, y, z)"),
            (T.exp(x) + m, "add(InplaceDimShuffle{x,0}(exp(x)), m)"),
        ]:
            values = {"m": np.ones((2, 3))}
            f = self.check(out, None if "i0 + i0" in expected else expected, values)
            self.assertLessEqual(len(f.maker.fgraph.apply_nodes), 3)
        self.assertEqual(elemwise_max_input_fct(None), 32)

    def test_reductions_take_in_what_nothing_else_reads(self):
        x, y = T.dvectors("xy")
        for inner, fused in ((x + y, True), (x + 1, False), (T.exp(x), True), (x + 1 + y, True), (x * 2, True)):
            f = theano_ng.function(
                [x, y],
                inner.sum(),
                on_unused_input="ignore",
                mode=Mode("cvm", Query(["fusion", "elemwise_fusion", "merge"])),
            )
            ops = [type(node.op).__name__ for node in f.maker.fgraph.apply_nodes]
            self.assertEqual("ReducedElemwise" in ops, fused, shown(f.maker.fgraph))
            self.assertAlmostEqual(
                float(f([0.5, 1.0], [2.0, 3.0])),
                float(
                    theano_ng.function([x, y], inner.sum(), on_unused_input="ignore", mode=Mode("py", None))(
                        [0.5, 1.0], [2.0, 3.0]
                    )
                ),
            )

    def test_dtypes(self):
        f, d, i, b = T.fvector("f"), T.dvector("d"), T.ivector("i"), T.bvector("b")
        for out in (T.exp(f) * d + i, T.cast(f * d, "int8") + b, (i > b) * f, T.switch(f > d, i, b) + 0.5):
            g = self.check(out, None)
            loops = [n for n in g.maker.fgraph.apply_nodes if isinstance(n.op, T.Elemwise)]
            self.assertEqual(len(loops), 1, shown(g.maker.fgraph))

    def test_clients(self):
        x, y = T.dvectors("xy")
        shared = T.exp(x)
        f = theano_ng.function([x, y], [shared + y, shared * y, T.tanh(shared * 2)], mode=Mode("py", FUSION))
        self.assertEqual(shown(f.maker.fgraph).count("exp("), 1)
        for got, want in zip(
            f([0, 1], [2, 3]), (np.exp([0, 1]) + [2, 3], np.exp([0, 1]) * [2, 3], np.tanh(np.exp([0, 1]) * 2))
        ):
            np.testing.assert_allclose(got, want)
        # all clients of `shared` are inside the loop, so the node that computes it joins the loop
        f = self.check(T.tanh(shared) + shared * y, None)
        self.assertEqual(len(f.maker.fgraph.apply_nodes), 1)
        # an operation that needs a reduction of the loop's result stays outside
        self.check(shared + T.exp(shared.sum() + shared), None)

    def test_cheap_values_are_computed_again(self):
        """A value that only loops read is computed in each loop, unless storing it takes fewer passes over memory."""
        x, y, z = T.dvectors("xyz")

        def loops(outputs, expected):
            f = theano_ng.function([x, y, z], outputs, mode=Mode("vm", FUSION), on_unused_input="ignore")
            plain = theano_ng.function([x, y, z], outputs, mode=Mode("py", None), on_unused_input="ignore")
            self.assertEqual(len(loops_of(f)), expected, shown(f.maker.fgraph))
            values = [[0.1, -1e308, 3.0, np.nan], [0.7, 2.0, -np.inf, 1.0], [-0.0, 1e-310, 1 / 3, 5.0]]
            with np.errstate(all="ignore"):
                for got, want in zip(f(*values), plain(*values)):
                    np.testing.assert_array_equal(got.view("int64"), want.view("int64"))

        one, two, three = abs(x), x + y - 1.5, x + y + z
        loops([T.sqrt(one), one + y, T.maximum(one, z)], 3)
        loops([T.sqrt(two), two + z, T.maximum(two, z)], 3)
        loops(
            [T.sqrt(two), two + z, two - x, T.maximum(two, z)], 5
        )  # keeping the values in memory takes 1 + 2 + 4 passes, computing them again takes 4 * 2
        loops([T.sqrt(three), three + z], 2)
        loops([T.sqrt(three), three + z, three - x], 4)
        loops([one, T.sqrt(one)], 2)  # the value is a result, so it is in memory
        loops([T.cumsum(one), T.sqrt(one), one + y], 4)  # CumOp is not a loop, so it needs the value in memory
        loops([one.sum(), T.sqrt(one), one + y], 3)  # one reduction can recompute the value
        loops([one.sum(), one.prod(), one + y], 4)  # two reductions cannot recompute it
        root = T.sqrt(abs(y))
        half = -root

        def negations(outputs):
            f = theano_ng.function([x, y], outputs, mode=Mode("vm", FUSION))
            return sum(count_of(node, "Neg") for node in loops_of(f))

        loops([T.sqrt(half), half + x], 3)  # if `half` were recomputed, `root` would be stored instead
        self.assertEqual(negations([T.sqrt(half), half + x]), 1)
        loops([T.sqrt(half), half + x, root * x], 4)  # the product also reads `root`, so `root` is stored anyway
        self.assertEqual(negations([T.sqrt(half), half + x, root * x]), 2)
        inner = abs(one - 2) - z
        loops([T.sqrt(one), T.sqrt(inner), inner + y], 3)

    def test_values_that_a_longer_loop_reads_are_not_repeated(self):
        """A value that a larger loop broadcasts is stored in memory once, and the other loops read it there."""
        x, y = T.dvectors("xy")
        for one, m in ((T.drow("r"), T.dmatrix("m")), (T.dcol("c"), T.dmatrix("m")), (x, y)):
            value = abs(one)
            f = theano_ng.function([one, m], [T.sqrt(value), value + m], mode=Mode("py", FUSION))
            self.assertEqual("Composite" in shown(f.maker.fgraph), one is x)
            given = np.full([1 if b else 3 for b in one.broadcastable], -4.0), np.ones((3,) * m.ndim)
            for got, want in zip(f(*given), (np.sqrt(abs(given[0])), abs(given[0]) + given[1])):
                np.testing.assert_array_equal(got, want)

    def test_operations_with_several_results(self):
        """An operation with several results is a separate loop, which is not fused with other operations."""
        x, y = T.dvectors("xy")
        total, product = T.Elemwise(SumAndProduct())(T.exp(x), T.exp(y))
        outputs = [T.exp(total), T.sqrt(product) + T.tanh(total), T.log(product) * total, total - product]
        given = [np.array([0.25, 1.5, -0.5]), np.array([0.75, -1.0, 0.125])]
        plain = theano_ng.function([x, y], outputs, mode=Mode("py", None))
        for kept in ([0], [1], [2], [3], [0, 1, 2, 3]):
            f = theano_ng.function([x, y], [outputs[k] for k in kept], mode=Mode("vm", "fast_run"))
            self.assertEqual(sum(len(node.outputs) == 2 for node in f.maker.fgraph.apply_nodes), 1)
            for k, got in zip(kept, f(*given)):
                np.testing.assert_allclose(got, plain(*given)[k], rtol=1e-12)

    def test_repeated_values_have_the_same_bits(self):
        """A value that several loops compute has the same bits in each loop.

        Compilers may contract a product with a sum. Nevertheless, no element exceeds the maximum of all elements.
        """
        rng = np.random.RandomState(5)
        for dtype in ("float16", "float32", "float64", "int32"):
            x, y, z = (T.vector(name, dtype=dtype) for name in "xyz")
            values = [(9 * rng.uniform(0.1, 1, 3000)).astype(dtype) for _ in "xyz"]
            for s in (
                x * y,
                T.sqr(x),
                x * y + z,
                x * y - z * x,
                abs(x) - y,
                T.maximum(x * y, z),
                -(x * y),
                T.sqr(x - y),
            ):
                outputs = [(s.max() - s).min(), (s - s.max()).max(), T.eq(s, s.max()).sum(), (s - s.min()).min()]
                f = theano_ng.function([x, y, z], outputs, mode=Mode("cvm", "fast_run"), on_unused_input="ignore")
                zeros = [0, 0, 1, 0]
                for n in (1, 2, 3000):
                    found = f(*[value[:n] for value in values])
                    self.assertEqual([np.sign(a) for a in found], zeros, (dtype, n, shown(f.maker.fgraph)))

    def test_products_in_products(self):
        """If loops only multiply a product of floats that they share, each loop computes it, with the same bits.

        If a loop uses the product in another way, for instance adds it, the product is computed once and stored.
        """
        x, y, z = T.dvectors("xyz")
        rng = np.random.RandomState(6)
        values = [rng.uniform(-9, 9, 3000) for _ in "xyz"]
        p = x * y

        def computed(outputs):
            f = theano_ng.function([x, y, z], outputs, mode=Mode("cvm", "fast_run"), on_unused_input="ignore")
            return f(*values), any(node.op.scalar_op == theano_ng.scalar.mul for node in loops_of(f))

        two = [p * z + x, T.sqr(p) / z - y]
        found, is_kept = computed(two)
        self.assertFalse(is_kept)
        for alone, together in zip(two, found):
            self.assertEqual(computed([alone])[0][0].tobytes(), together.tobytes())
        for kept in ([p * z, p + x], [p * z, p * T.constant(-1.0) + x], [p * z, -p - y], [p * z, T.exp(p)]):
            self.assertTrue(computed(kept)[1], kept)
        # Multiplying the rounded product p by a power of two adds no rounding error, so the difference from z is 0. It
        # would not be 0 if a compiler contracted a multiplication and the subtraction to one operation.
        rounded = values[0] * values[1]
        for number in (2.0, 0.5, -2.0, -0.25):
            values[2] = rounded * number
            (difference, _), is_kept = computed([p * T.constant(number) - z, p * z])
            self.assertFalse(is_kept)
            np.testing.assert_array_equal(difference, 0)

    def test_repetition_ends(self):
        """If each step of a chain is also used outside the chain, each loop repeats only a few steps."""
        x = h = T.dvector("x")
        outputs = []
        for _ in range(60):
            h = abs(h - 0.1)
            outputs.append(T.sqrt(h))
        f = theano_ng.function([x], outputs, mode=Mode("py", FUSION))
        scalar_ops = [node.op.scalar_op for node in loops_of(f)]
        sizes = [len(op.fgraph.apply_nodes) if isinstance(op, Composite) else 1 for op in scalar_ops]
        self.assertLessEqual(max(sizes), 1 + MAX_REPEATED + 2)
        self.assertLess(len(sizes), 100)

    def test_long_loops_take_in_no_more(self):
        """A loop that computes values again has at most MAX_OPERATIONS function calls."""
        x = T.dvector("x")
        values = [abs(abs(x - float(k)) - 0.5) for k in range(28)]
        for roots in (60, 100):
            outputs = [functools.reduce(choose, values) for choose in (T.maximum, T.minimum)]
            for _ in range(roots):
                outputs = [T.sqrt(out) for out in outputs]
            f = theano_ng.function([x], outputs, mode=Mode("py", "fast_run"))
            scalar_ops = [node.op.scalar_op for node in loops_of(f)]
            calls = [
                sum(node.op not in (theano_ng.scalar.add, theano_ng.scalar.sub) for node in op.fgraph.apply_nodes)
                for op in scalar_ops
                if isinstance(op, Composite)
            ]
            self.assertGreater(max(calls), 2 * roots / 3 + 28)
            self.assertLessEqual(max(calls), MAX_OPERATIONS)

    def test_higher_derivative(self):
        # All operations are one loop, since every intermediate result is used inside it.
        x = T.dvector("x")
        y = T.tanh(T.tanh(x))
        for _ in range(5):
            y = T.grad(y.sum(), x)
        f = theano_ng.function([x], y, mode=Mode("vm", "fast_run"))
        self.assertEqual(len(f.maker.fgraph.apply_nodes), 1)
        plain = theano_ng.function([x], y, mode=Mode("py", None))
        np.testing.assert_allclose(f([-0.3, 0.2, 1.1]), plain([-0.3, 0.2, 1.1]), rtol=1e-9)

    def test_inputs_of_a_loop(self):
        # If a node joins a loop, the inputs of the node become inputs of the loop. The number of inputs is limited,
        # because compilers need minutes for a loop over hundreds of arrays of several types.
        small, large = [T.bvector() for _ in range(120)], [T.dvector() for _ in range(120)]
        sums = [
            T.add(*[T.cast(s, "float64") * v for s, v in zip(small[k : k + 30], large[k : k + 30])])
            for k in range(0, 120, 30)
        ]
        out = T.tanh(sums[0]) * T.tanh(sums[1]) * T.tanh(sums[2]) * T.tanh(sums[3])
        f = theano_ng.function(small + large, out, mode=Mode("py", FUSION))
        sizes = [len(node.inputs) for node in f.maker.fgraph.apply_nodes]
        self.assertEqual(max(sizes), elemwise_max_input_fct(None))
        numbers = [np.array([k % 5, -1], "int8") for k in range(120)], [np.array([0.01, 0.001 * k]) for k in range(120)]
        products = np.array(numbers[0]) * numbers[1]
        want = np.prod(np.tanh(products.reshape(4, 30, 2).sum(1)), axis=0)
        np.testing.assert_allclose(f(*numbers[0], *numbers[1]), want, rtol=1e-13)

    def test_limits(self):
        xs = T.dvectors(["x%d" % i for i in range(70)])
        out = xs[0]
        for v in xs[1:]:
            out = T.tanh(out) * v
        f = self.check(out, None)
        self.assertLessEqual(max(len(n.inputs) for n in f.maker.fgraph.apply_nodes), 32)
        self.assertLessEqual(len(f.maker.fgraph.apply_nodes), 5)
        x = h = T.dvector("x")
        for _ in range(300):
            h = T.tanh(h + x)
        self.assertLessEqual(len(self.check(h, None).maker.fgraph.apply_nodes), 8)


if __name__ == "__main__":
    unittest.main()
