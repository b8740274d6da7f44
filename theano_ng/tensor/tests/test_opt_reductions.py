"""Rules for sums, products and other reductions."""

import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.optdb import Query
from theano_ng.gof.rewriting import in2out
from theano_ng.tensor.elemwise import Elemwise
from theano_ng.tensor.opt import reductions
from theano_ng.tensor.opt.reductions import _runs_through
from theano_ng.tensor.reductions.careduce import CAReduce, ProdWithoutZeros, Sum
from theano_ng.tensor.tests.rewriting import RewriteCase


class TestFactors(RewriteCase):
    def test_scalars(self):
        x, s, m = T.dvector("x"), T.dscalar("s"), T.dmatrix("m")
        for out, expected in [
            (T.sum(2 * x), "mul(2.0, Sum(x))"),
            (T.sum(s * x), "mul(s, Sum(x))"),
            (T.sum(-x), "neg(Sum(x))"),
            (T.sum(s * m, axis=0), None),
            (T.prod(2 * x), None),
            (T.prod(-x), None),
            (T.prod(s * m, axis=1), None),
            (T.prod(s * m, axis=1, keepdims=True), None),
            # The rule leaves the scalar in the product, since one pass over both factors is cheaper than a power.
            # Besides, a power of a float32 with an int64 exponent is not float32.
            (T.prod(s * x * T.exp(x)), "Prod(mul(InplaceDimShuffle{x}(s), x, exp(x)))"),
            (T.prod(T.fscalar("h") * T.fvector("f")), "Prod(mul(InplaceDimShuffle{x}(h), f))"),
            (T.prod(T.cscalar("q") * T.cvector("c")), "Prod(mul(InplaceDimShuffle{x}(q), c))"),
            (T.sum(s * x * T.exp(x)), None),
            (T.sum(T.fvector("f") * 2), None),
            (T.sum(T.ivector("i") * 2), None),
            (T.sum(T.ivector("i") * s), None),
            (T.prod(-T.ivector("i")), None),
        ]:
            self.check(out, expected)
        for shape in ((0,), (5,)):
            self.check(T.prod(3 * x), None, {"x": np.ones(shape)})
            self.check(T.sum(3 * x), None, {"x": np.ones(shape)})

    def test_no_axes(self):
        """If a product is reduced over no axes, each element is multiplied exactly once by each scalar factor."""
        for dtype in ("float64", "float32", "complex128", "int64"):
            m, s = T.TensorType(dtype, (False, False))("m"), T.TensorType(dtype, ())("s")
            values = np.array([[1, -2, 3], [0, 5, -1]], dtype), np.array(3, dtype)
            for product, factor in ((s * m, 3), (-m, -1), (s * m * s, 9)):
                for out in (T.sum(product, axis=()), T.prod(product, axis=())):
                    fgraph = FunctionGraph([m, s], [out], clone=True)
                    in2out(reductions.local_sum_prod_mul_by_scalar, ignore_newtrees=True).optimize(fgraph)
                    for inputs, o, query in ((fgraph.inputs, fgraph.outputs[0], None), ([m, s], out, self.query)):
                        f = theano_ng.function(inputs, o, mode=Mode("py", query), on_unused_input="ignore")
                        np.testing.assert_array_equal(f(*values), factor * values[0])

    def test_powers_of_scalars(self):
        x, s, m = T.dvector("x"), T.dscalar("s"), T.dmatrix("m")
        l, k = T.lscalar("l"), T.lvector("k")
        query = Query(["fast_run"], exclude=["inplace", "fusion", "BlasOpt"])
        for out, expected in [
            (T.prod(2 * x), "mul(pow(2.0, Shape_i{0}(x)), Prod(x))"),
            (T.prod(-x), "mul(pow(-1.0, Shape_i{0}(x)), Prod(x))"),
            (T.prod(s * m * 3), "mul(pow(mul(3.0, s), mul(Shape_i{0}(m), Shape_i{1}(m))), Prod(m))"),
            (T.prod(l * k), "mul(pow(l, Shape_i{0}(k)), Prod(k))"),
        ]:
            self.check(out, expected, query=query)
            empty = {"x": np.zeros(0), "m": np.zeros((0, 2)), "k": np.zeros(0)}
            self.check(out, expected, empty, query=query)

    def test_divisor_along_the_axis(self):
        m, v, t = T.dmatrix("m"), T.dvector("v"), T.dtensor3("t")
        for axis in (0, 1, None):
            for reduce_ in (T.sum, T.prod):
                self.check(reduce_(m / v.dimshuffle(0, "x"), axis=axis), None)
                self.check(reduce_(m / v, axis=axis), None)
        self.check(T.sum(t / v.dimshuffle("x", 0, "x"), axis=[0, 1]), None)
        f = self.check(T.sum(m / v.dimshuffle(0, "x"), axis=1), None)
        self.assertEqual(f.maker.fgraph.outputs[0].owner.op, T.true_div)

    def test_divisor_that_is_the_length_of_the_batch(self):
        """Row sums of ``-m / m.shape[0]`` are computed from m and divided afterwards.

        The length is an integer that is cast to a float. The quotient has another user, for instance the derivative of
        a mean.
        """
        m = T.dmatrix("m")
        scaled = -m / m.shape[0]
        f = theano_ng.function([m], [scaled.sum(axis=1), scaled])
        sums = [node for node in f.maker.fgraph.apply_nodes if isinstance(node.op, Sum)]
        self.assertEqual([node.inputs[0] for node in sums], f.maker.fgraph.inputs)
        value = np.arange(6.0).reshape(3, 2)
        np.testing.assert_allclose(f(value)[0], -value.sum(axis=1) / 3)

    def test_product_that_is_computed_anyway(self):
        """A scaled array that a dot product and a sum use is computed once, with the factor.

        The gradients of weights and of a bias use such an array.
        """
        m, v = T.dmatrix("m"), T.dvector("v")
        for factor in (-1, 3):
            scaled = T.exp(v) * factor
            f = theano_ng.function([m, v], [T.dot(m.T, scaled), scaled.sum()])
            below = [node.inputs[0] for node in f.maker.fgraph.apply_nodes if isinstance(node.op, Sum)]
            self.assertEqual(len(below), 1)
            self.assertGreater(len(below[0].clients), 1)
            self.assertEqual(sum(isinstance(node.op, Elemwise) for node in f.maker.fgraph.apply_nodes), 1)
            value = np.arange(3.0)
            np.testing.assert_allclose(f(np.eye(3), value)[1], factor * np.exp(value).sum())

    def test_narrow_integers(self):
        b, s = T.bvector("b"), T.bscalar("s")
        for op in (T.sum, T.prod):
            for out in (
                op(b * 100),
                op(b * s),
                op(-b),
                op(b * s, dtype="int8"),
                op(-b, dtype="int8"),
                op(-T.vector("u", dtype="uint8")),
            ):
                self.check(out, None, {"b": [100, -128, 3], "s": 2, "u": [1, 2, 255]})

    def test_squares(self):
        W, G = T.dmatrix("W"), T.dmatrix("G")
        out = T.sqr(W.dimshuffle("x", 0, 1) * G.dimshuffle(0, "x", 1)).sum(axis=(1, 2))
        f = self.check(out, None)
        self.assertTrue(all(n.outputs[0].ndim < 3 for n in f.maker.fgraph.toposort()))

    def test_sums_that_are_bools(self):
        """A sum of dtype bool tests whether products are nonzero, so rules must not move a factor out of the sum.

        A product may be zero or NaN although no factor is.
        """
        x, s = T.dmatrix("x"), T.dscalar("s")
        for factor, row in ((0.0, np.inf), (1e-200, 1e-200), (1e300, 1e300), (-2.0, 3.0), (0.0, 1.0)):
            for axis in (None, 0, 1):
                out = T.sum(s * x, axis=axis, dtype="bool")
                self.check(out, None, {"x": np.full((2, 2), row), "s": factor})
                self.check(T.prod(s * x, axis=axis, dtype="bool"), None, {"x": np.full((2, 2), row), "s": factor})
        b, c = T.TensorType("bool", (False, False))("b"), T.TensorType("bool", ())("c")
        for truth in (True, False):
            self.check(T.sum(b & c, axis=0, dtype="bool"), None, {"b": [[True, False], [False, False]], "c": truth})
            self.check(T.sum(b * c, axis=0, dtype="bool"), None, {"b": [[True, False], [False, False]], "c": truth})


class TestAxes(RewriteCase):
    def test_nested(self):
        t, m = T.dtensor3("t"), T.dmatrix("m")
        for op in (T.sum, T.prod):
            for a in (0, 1, 2, [0, 2]):
                inner = op(t, axis=a)
                for b in range(inner.ndim):
                    f = self.check(op(inner, axis=b), None)
                    self.assertEqual(len(f.maker.fgraph.apply_nodes), 1)
        self.check(m.sum(axis=0).sum(), "Sum(m)")
        self.check(m.sum(axis=[0, 1]), "Sum(m)")
        self.check(T.prod(m.sum(axis=0)), None)
        self.check(T.sum(T.sum(m, axis=0, dtype="float32"), dtype="float64"), None)

    def test_length_one(self):
        c, r, s = T.dcol("c"), T.drow("r"), T.dscalar("s")
        for out, expected in [
            (c.sum(axis=1), "InplaceDimShuffle{0}(c)"),
            (r.sum(axis=0), "InplaceDimShuffle{1}(r)"),
            (c.max(axis=1), None),
            (c.sum(), None),
            (c.prod(axis=[0, 1]), None),
            (T.any(T.gt(c, 1), axis=1), None),
            (T.all(T.icol("i"), axis=1), None),
            (T.icol("i").sum(axis=1), None),
        ]:
            self.check(out, expected)
        from theano_ng.compile import optdb

        for database in ("canonicalize", "specialize", "uncanonicalize"):
            self.assertTrue(optdb[database]["local_reduce_broadcastable"])
        self.check(ProdWithoutZeros(axis=1)(c), None, {"c": [[0.0], [2.0], [0.0]]})
        self.check(T.sum(s, axis=[]), "s")
        self.check(CAReduce(T.maximum.scalar_op, axis=1)(c), "InplaceDimShuffle{0}(c)")

    def test_join(self):
        x, y, z = T.dvectors("x", "y", "z")
        rows = [v.dimshuffle("x", 0) for v in (x, y, z)]
        for op, expected in [(T.sum, "add(x, y, z)"), (T.prod, "mul(x, y, z)")]:
            self.check(op(T.join(0, *rows), axis=0), expected)
        self.check(CAReduce(T.maximum.scalar_op, axis=0)(T.join(0, *rows[:2])), "maximum(x, y)")
        self.check(CAReduce(T.maximum.scalar_op, axis=0)(T.join(0, *rows)), None)
        self.check(T.sum(T.join(0, *rows), axis=1), None)
        self.check(T.sum(T.join(0, T.dmatrix("m"), rows[0]), axis=0), None)

    def test_constants(self):
        x, f = T.dmatrix("x"), T.fmatrix("f")
        for out in (
            T.sum(T.alloc(2.0, x.shape[0], x.shape[1])),
            T.sum(T.alloc(2.0, x.shape[0], x.shape[1]), axis=0),
            T.prod(T.alloc(2.0, x.shape[0], x.shape[1]), axis=1),
            T.prod(T.alloc(2.0, x.shape[0])),
            T.sum(T.alloc(np.float32(0.5), f.shape[0], f.shape[1])),
        ):
            g = self.check(out, None)
            self.assertFalse(any(isinstance(n.op, CAReduce) for n in g.maker.fgraph.toposort()))

    def test_what_may_not_fit_is_repeated(self):
        """A sum of an Alloc is replaced by a multiple of the value only if the value is 0-d.

        Other values must have the length that the Alloc checks.
        """
        x, n = T.dvector("x"), T.lscalar("n")
        for value, repeated in ((T.fill(x, 2.0), True), (T.alloc(2.0, x.shape[0]), True), (T.constant(2.0), False)):
            for reduce, numeric in ((T.sum, 8.0), (T.prod, 16.0)):
                fgraph = FunctionGraph([x, n], [reduce(T.alloc(value, n))], clone=True)
                in2out(reductions.local_opt_alloc).optimize(fgraph)
                self.assertEqual(any(isinstance(node.op, CAReduce) for node in fgraph.apply_nodes), repeated)
                (out,), mode = fgraph.outputs, Mode("py", None)
                f = theano_ng.function(fgraph.inputs, out, mode=mode, on_unused_input="ignore")
                self.assertEqual(f([0.5] * 4, 4), numeric)
                if repeated:
                    self.assertRaises(ValueError, f, [0.5] * 3, 4)


class TestGradients(unittest.TestCase):
    def test_numbers(self):
        # The rules are tested on graphs that gradients build.
        x, s = T.dmatrix("x"), T.dscalar("s")
        cost = (T.sum(s * x, axis=0) ** 2).sum() + T.log(1 + T.exp(-s * x)).mean()
        grads = theano_ng.grad(cost, [x, s])
        args = [np.linspace(-1, 1, 6).reshape(2, 3), 0.7]
        plain = theano_ng.function([x, s], grads, mode=Mode("py", None))(*args)
        for a, b in zip(plain, theano_ng.function([x, s], grads, mode=Mode("py", "fast_run"))(*args)):
            np.testing.assert_allclose(a, b)


class TestReaders(unittest.TestCase):
    def test_what_takes_in_a_product(self):
        """`_runs_through` returns True for a loop, and for a view whose only client is a loop.

        Such a loop can itself compute a product that it reads.
        """
        A = T.dmatrix("A")
        view = A.T
        for outputs, takes_in in (
            ([T.exp(A)], True),
            ([A.sum()], True),
            ([T.exp(view)], True),
            ([view.sum(axis=0)], True),
            ([T.exp(view.dimshuffle("x", 0, 1))], True),
            ([T.exp(view), view + 1], False),
            ([view], False),
            ([T.dot(view, view)], False),
            ([T.sort(A)], False),
        ):
            fgraph = FunctionGraph([A], outputs, clone=True)
            self.assertIs(_runs_through(fgraph.inputs[0].clients[0][0]), takes_in, outputs)


class TestJoinedParts(RewriteCase):
    def test_one_of_another_length(self):
        """A sum over a join raises an error if one part has length one and the other parts are longer.

        Rules must not replace the sum by a sum that broadcasts this part. The part is at any position.
        """
        vectors = T.dvectors("a", "b", "c")
        one = T.TensorType("float64", (True,))("one")
        for place in range(3):
            parts = [*vectors[:place], one, *vectors[place + 1 :]]
            joined = T.join(0, *[part.dimshuffle("x", 0) for part in parts])
            for reduce, numeric in ((T.sum, np.sum), (T.prod, np.prod)):
                f = theano_ng.function(parts, reduce(joined, axis=0), mode=Mode("py", "fast_run"))
                np.testing.assert_array_equal(f([2.0], [3.0], [4.0]), [numeric([2.0, 3, 4])])
                values = [[3.0, 4]] * 3
                values[place] = [2.0]
                self.assertRaises(ValueError, f, *values)

    def test_factors_of_reductions_that_are_there(self):
        """If the graph contains the sum of x, the rule for sums of products s * x reuses this sum."""
        s, x = T.dscalar("s"), T.dmatrix("x")
        for reduced, total in ((-x, T.sum(x)), (s * x, T.sum(x))):
            fgraph = FunctionGraph([s, x], [T.sum(reduced), total, T.exp(x)])
            (new,) = reductions.local_sum_prod_mul_by_scalar.transform(fgraph.outputs[0].owner)
            self.assertIn(fgraph.outputs[1], new.owner.inputs)


if __name__ == "__main__":
    unittest.main()
