"""Tests of the analysis of logarithms: shifted variables, shares of sums, expressions with a known logarithm, and
intermediate variables that gradients skip.
"""

import unittest

import numpy as np
from scipy import special

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.tensor import logarithms
from theano_ng.tensor.logarithms import is_shifted, log_of, reading
from theano_ng.tensor.nnet import softmax
from theano_ng.tensor.reductions.careduce import CAReduce
from theano_ng.tensor.reductions.extremes import MaxAndArgmax


class TestForms(unittest.TestCase):
    def test_shifted(self):
        """A shifted variable is the variable minus its own maximum along the summed dimensions.

        The maximum keeps these dimensions with length 1.
        """
        x, y, column = T.dmatrix("x"), T.dmatrix("y"), T.dcol("column")

        def largest(v, axis):
            return T.makeKeepDims(v, MaxAndArgmax(axis)(v)[0], axis)

        def reduced(op, v, axis):
            return T.makeKeepDims(v, CAReduce(op, axis)(v), axis)

        for v, axis, shifted in (
            (x - largest(x, (1,)), (1,), True),
            (x - largest(x, (0,)), (0,), True),
            (x - largest(x, (0, 1)), (0, 1), True),
            (x - reduced(scalar.maximum, x, (1,)), (1,), True),
            (x - x.max(axis=0, keepdims=True), (0,), True),
            # maxima along other dimensions
            (x - largest(x, (1,)), (0,), False),
            (x - largest(x, (1,)), (0, 1), False),
            (x - largest(x, (0, 1)), (1,), False),
            (x - reduced(scalar.maximum, x, (0,)), (1,), False),
            # The subtracted term is not a maximum of x, or nothing is subtracted.
            (x - largest(y, (1,)), (1,), False),
            (x - reduced(scalar.minimum, x, (1,)), (1,), False),
            (x - reduced(scalar.add, x, (1,)), (1,), False),
            (x - T.makeKeepDims(x, T.argmax(x, axis=1), 1), (1,), False),
            (x - T.exp(largest(x, (1,))), (1,), False),
            (x - column.dimshuffle(1, 0), (0,), False),
            (x - T.dvector().dimshuffle("x", 0), (0,), False),
            (x - column, (1,), False),
            (x + largest(x, (1,)), (1,), False),
            (x, (1,), False),
        ):
            self.assertEqual(is_shifted(v, axis), shifted, (theano.pp(v), axis))

    def test_what_may_be_known(self):
        """Numbers, some functions, Ops with a rule, and products, sums and views of these have a known logarithm; other
        expressions have none.
        """
        x, y = T.dmatrix("x"), T.dmatrix("y")
        e, s, number, row = T.exp(x), softmax(x), T.exp(T.dscalar("number")), T.exp(T.dvector("row"))
        for v, known in (
            (e, True),
            (s, True),
            (e * 2, True),
            (T.constant(2.0) * e, True),
            (number * 2, True),
            (0.5 / number, True),
            (row * T.constant(np.array([3.0])), True),
            (number * T.dscalar("other"), False),
            (row * T.dvector("other"), False),
            (e * s, True),
            (s * 3, True),
            (e / T.nnet.sigmoid(y), True),
            (e.sum(axis=1) * 2, True),
            (T.sqrt(s.T), True),
            (T.inv(s), True),
            (T.inv(s) * e, True),
            (T.sqr(T.inv(s.T)), True),
            (e / T.inv(s), True),
            (T.inv(s) * y, False),
            (e * y, False),
            (y * e, False),
            (e * T.sin(x), False),
            (s * T.cos(y), False),
            (e / y, False),
        ):
            whole = reading(v, whole=True)
            self.assertEqual(whole is not None, known, theano.pp(v))
            self.assertTrue(whole is None or whole.is_known)
            part = reading(v)
            self.assertIsNotNone(part)
            self.assertEqual(part.is_known, known, theano.pp(v))
        for v in (x, y * 2, T.sin(x), x * y, T.inv(y)):
            self.assertIsNone(reading(v))
            self.assertIsNone(reading(v, whole=True))

    def test_sums_within_sums(self):
        """`reading` analyzes nested sums if they are nested less than `MAX_SUMS` deep.

        Factors that multiply a nested sum do not change this limit.
        """
        x, y = T.dmatrix("x"), T.dmatrix("y")
        e, nested = T.exp(x), T.exp(y)
        for depth in range(1, 6):
            nested = (nested * T.exp(x * depth)).sum(axis=0, keepdims=True) * T.exp(x * 0.5)
            for v in (nested, e * nested, nested * e, e * softmax(x) * T.nnet.sigmoid(y) * nested):
                self.assertEqual(reading(v, whole=True) is not None, depth < logarithms.MAX_SUMS)

    def test_what_gradients_go_past(self):
        """`passed` returns an expression and the variables between the expression and its leaves, but no leaf."""
        x, y, z = T.dvectors("x", "y", "z")
        e, p = T.exp(x), T.nnet.sigmoid(y)
        ez = e * z
        for v, passed, leaves in (
            (e, [e], [x]),
            (e * p, [e, p], [x, y]),
            (ez, [e], [x, z]),
            (e / z, [e], [x, z]),
            (T.sqrt(ez) * p, [e, ez, p], [x, y, z]),
        ):
            read = reading(v)
            self.assertEqual(set(read.leaves), set(leaves), theano.pp(v))
            found = set(read.passed())
            self.assertTrue({v, *passed} <= found, theano.pp(v))
            self.assertTrue(found.isdisjoint([x, y, z]), theano.pp(v))

    def test_shares(self):
        """`_share_atom` recognizes a term divided by its sum, or multiplied by the inverse of the sum, in any order."""
        x = T.dmatrix("x")
        e = T.exp(x)
        for axis, shuffled in ((1, (0, "x")), (0, ("x", 0))):
            total = e.sum(axis=axis).dimshuffle(*shuffled)
            kept = e.sum(axis=axis, keepdims=True)
            for share, is_share in (
                (e / total, True),
                (e / kept, True),
                (e * T.inv(total), True),
                (T.inv(total) * e, True),
                (e * (1.0 / kept), True),
                ((1.0 / kept) * e, True),
                (e * (2.0 / kept), False),
                (e * total, False),
                (total / e, False),
                (T.inv(e) * total, False),
                (T.sqr(e) / total, False),
                (e * T.inv(T.exp(2 * x).sum(axis=axis, keepdims=True)), False),
            ):
                made = logarithms._share_atom(share, logarithms._Atoms())
                self.assertEqual(made is not None, is_share, theano.pp(share))
            for share in (e / kept, e * T.inv(total), T.inv(total) * e, (1.0 / kept) * e):
                values = np.array([[0.0, 1000.0, -1000.0], [1000.0, 1000.0, 3.0]])
                f = theano.function([x], T.grad(T.log(share)[0, 2], x))
                wanted = np.zeros((2, 3))
                wanted[0, 2] = 1
                columns = values[:1] if axis else values[:, 2:]
                softened = np.exp(columns - columns.max(axis=axis, keepdims=True))
                softened /= softened.sum(axis=axis, keepdims=True)
                wanted[(slice(0, 1), slice(None)) if axis else (slice(None), slice(2, 3))] -= softened
                np.testing.assert_allclose(f(values), wanted, atol=1e-12)

    def test_products_of_several(self):
        """The gradient of the logarithm of a product is right for two, three and four factors.

        A product of three factors is not a share of a sum, even if one factor is the inverse of the sum.
        """
        x = T.dvector("x")
        e, p = T.exp(x), T.nnet.sigmoid(x)
        share = T.inv(e.sum(keepdims=True))
        values = np.array([0.5, 1000.0, -1000.0])
        for factors, slope in (
            ([e, p], lambda s: 2 - s),
            ([e, p, e], lambda s: 3 - s),
            ([p, e, p], lambda s: 3 - 2 * s),
            ([e, p, e, p], lambda s: 4 - 2 * s),
        ):
            v = T.mul(*factors)
            self.assertEqual(len(v.owner.inputs), len(factors))
            self.assertTrue(reading(v).is_known)
            f = theano.function([x], T.grad(T.log(v).sum(), x))
            np.testing.assert_allclose(f(values), slope(special.expit(values)))
        for v in (T.mul(e, share, p), T.mul(share, e, p), T.mul(p, e, share)):
            self.assertIsNone(logarithms._share_atom(v, logarithms._Atoms()))


class TestHalves(unittest.TestCase):
    def test_logarithms_of_erfc(self):
        """`log_of` rewrites a logarithm with an erfc factor in float32 and float64, but not in float16."""
        for dtype in ("float16", "float32", "float64"):
            x, y = T.vector("x", dtype=dtype), T.vector("y", dtype=dtype)
            for v, has_erfc in (
                (T.erfc(x), True),
                (T.exp(x) * T.erfc(x), True),
                (T.erfc(y) / T.exp(x), True),
                (T.exp(x) / T.exp(y), False),
                (T.nnet.sigmoid(x) * T.exp(y), False),
            ):
                made = log_of(v)
                self.assertEqual(made is None, has_erfc and dtype == "float16", (theano.pp(v), dtype))
                if made is None:
                    continue
                values = [np.array(numbers, dtype) for numbers in ([0.25, -1.0, 2.0], [1.5, 0.5, -0.75])]
                found, wanted = [theano.function([x, y], u, on_unused_input="ignore") for u in (made, T.log(v))]
                np.testing.assert_allclose(found(*values), wanted(*values), rtol=3e-3 if dtype == "float16" else 1e-5)


if __name__ == "__main__":
    unittest.main()
