"""Tests of functions that recognize equal variables, sums of a variable along some axes, and terms of sums."""

import unittest

import numpy as np

import theano_ng.tensor as T
from theano_ng.tensor.equality import equal_expressions, is_term_of, summed_along

X = np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]])


class TestSame(unittest.TestCase):
    def test_same(self):
        x, y, i = T.dmatrix("x"), T.dmatrix("y"), T.lvector("i")
        for a, b in (
            (x, x),
            (x.T.T, x),
            (T.exp(x), T.exp(x)),
            (x[1:], x[1:]),
            (x[i], x[i]),
            (x.reshape((6,)), x.reshape((6,))),
            (x.dimshuffle(0, "x", 1).dimshuffle(2, 0), x.T),
        ):
            self.assertTrue(equal_expressions(a, b))
        for a, b in (
            (x, y),
            (x.T, x),
            (T.exp(x), T.exp(y)),
            (x[1:], x[2:]),
            (x[i], x[i + 1]),
            (T.exp(x), T.log(x)),
            (x, T.constant(X)),
        ):
            self.assertFalse(equal_expressions(a, b))

    def test_sums(self):
        x, t = T.dmatrix("x"), T.dtensor3("t")
        self.assertEqual(summed_along(x, x.sum(axis=1, keepdims=True)), (1,))
        self.assertEqual(summed_along(x, x.sum(axis=0)), None)  # the sum has another rank
        self.assertEqual(summed_along(x, x.sum(axis=0).dimshuffle("x", 0)), (0,))
        self.assertEqual(summed_along(x.T, x.sum(axis=1).dimshuffle("x", 0)), (0,))
        self.assertEqual(summed_along(x, x.sum().dimshuffle("x", "x")), (0, 1))
        self.assertEqual(summed_along(x, x.T.sum(axis=1).dimshuffle(0, "x")), None)
        self.assertEqual(summed_along(t, t.sum(axis=(0, 2), keepdims=True)), (0, 2))
        # Both reshaped tensors have the elements of x, but their sums combine different elements.
        other = x.reshape((4, 3, 2)).sum(axis=(0, 2)).dimshuffle("x", 0, "x")
        self.assertIsNone(summed_along(x.reshape((2, 3, 4)), other))
        self.assertEqual(summed_along(x.reshape((4, 3, 2)), other), (0, 2))
        self.assertTrue(is_term_of(x, (x + x**2) + T.exp(x)))
        self.assertFalse(is_term_of(x, x**2 + T.exp(x)))
        self.assertFalse(is_term_of(x, x + 1))


if __name__ == "__main__":
    unittest.main()
