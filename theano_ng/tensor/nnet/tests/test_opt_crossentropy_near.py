"""Expressions that resemble gradients of cross-entropies have NumPy's values.

No rule may mistake them for gradients of cross-entropies.
"""

import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T


def softmax(a):
    e = np.exp(a - a.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


class TestNearlyGradients(unittest.TestCase):
    def setUp(self):
        rng = np.random.RandomState(3)
        self.labels = np.array([2, 0, 0])
        self.a, self.b, self.v = rng.rand(3, 3), rng.rand(3, 3), rng.rand(3)

    def increments(self, a, b, labels, v):
        """Yield symbolic matrices with increments at the elements of the labels, and their values."""
        rows = T.arange(3)
        zero, full = np.zeros((3, 3)), self.b.copy()
        at, turned = (np.arange(3), self.labels), (self.labels, np.arange(3))

        def added(base, places, values):
            result = base.copy()
            np.add.at(result, places, values)
            return result

        yield T.inc_subtensor(T.zeros_like(a)[rows, labels], 2.0), added(zero, at, 2.0)
        yield T.inc_subtensor(T.zeros_like(a)[rows, labels], v), added(zero, at, self.v)
        yield T.inc_subtensor(T.zeros_like(a)[labels, rows], v), added(zero, turned, self.v)
        yield T.inc_subtensor(b[rows, labels], v), added(full, at, self.v)
        yield T.inc_subtensor(T.zeros_like(a)[rows, labels], v[0]), added(zero, at, self.v[0])

    def check(self, factor, number, total, sum_of, sign):
        a, b, labels, v = T.dmatrix("a"), T.dmatrix("b"), T.lvector("labels"), T.dvector("v")
        outputs, expected = [], []
        for increment, value in self.increments(a, b, labels, v):
            outputs.append(sign * (increment - factor(a) * total(increment)))
            expected.append(sign * (value - number * sum_of(value)))
        fn = theano.function([a, b, labels, v], outputs)
        for got, wanted in zip(fn(self.a, self.b, self.labels, self.v), expected):
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-14)

    def test_all(self):
        factors = [
            (T.nnet.softmax, softmax(self.a)),
            (T.nnet.sigmoid, 1 / (1 + np.exp(-self.a))),
            (lambda a: T.nnet.softmax(a.T).T, softmax(self.a.T).T),
            (lambda a: 2 * T.nnet.softmax(a), 2 * softmax(self.a)),
            (lambda a: a, self.a),
        ]
        totals = [
            (lambda w: w.sum(axis=1, keepdims=True), lambda w: w.sum(axis=1, keepdims=True)),
            (lambda w: w.sum(axis=0, keepdims=True), lambda w: w.sum(axis=0, keepdims=True)),
            (lambda w: w.sum(axis=1), lambda w: w.sum(axis=1)),
            (lambda w: w.sum(), lambda w: w.sum()),
            (lambda w: (w * w).sum(axis=1, keepdims=True), lambda w: (w * w).sum(axis=1, keepdims=True)),
        ]
        for (factor, number), (total, sum_of), sign in itertools.product(factors, totals, (1, -1)):
            with self.subTest(factor=number[0, 0], total=float(np.sum(sum_of(self.b))), sign=sign):
                self.check(factor, number, total, sum_of, sign)

    def test_increments_of_other_dtypes(self):
        a, labels = T.dmatrix("a"), T.lvector("labels")
        softmax_of_a, sign = softmax(self.a), np.array([1, 0, 1])
        for dtype in ("bool", "int8", "uint8", "float32"):
            v = T.vector("v", dtype=dtype)
            g = T.inc_subtensor(T.zeros_like(a)[T.arange(labels.shape[0]), labels], v)
            fn = theano.function([a, labels, v], g - T.nnet.softmax(a) * g.sum(axis=1, keepdims=True))
            expected = np.zeros((3, 3))
            expected[np.arange(3), self.labels] = sign
            expected -= softmax_of_a * expected.sum(axis=1, keepdims=True)
            with self.subTest(dtype):
                np.testing.assert_allclose(
                    fn(self.a, self.labels, sign.astype(dtype)), expected, rtol=1e-12, atol=1e-15
                )


if __name__ == "__main__":
    unittest.main()
