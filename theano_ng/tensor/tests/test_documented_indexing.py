"""The documented behavior of indexing, and of assignment by set_subtensor and inc_subtensor."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.tests import unittest_tools as utt


class TestIndexing(unittest.TestCase):
    def setUp(self):
        self.x, self.v = T.dtensor3("x"), np.arange(60.0).reshape(3, 4, 5)
        self.m = T.matrix("m", dtype="bool")

    def test_basic(self):
        x, v = self.x, self.v
        i, j = T.lscalars("ij")
        keys = [
            np.s_[0],
            np.s_[-1],
            np.s_[1, 2],
            np.s_[1:],
            np.s_[::-1],
            np.s_[:, 1:3],
            np.s_[..., 0],
            np.s_[None, 0],
            np.s_[:, None, 1],
            np.s_[2:0:-1, ..., ::2],
            np.s_[5:],
            np.s_[-100:100],
            np.s_[1, 2, 3],
            np.s_[...],
            np.s_[:0],
            np.s_[np.int8(1)],
        ]
        outs = [x[key] for key in keys]
        for key, got in zip(keys, theano.function([x], outs)(v)):
            np.testing.assert_array_equal(got, v[key])
        f = theano.function([x, i, j], [x[i], x[i:j], x[:, j:i:-1], x[i, ..., j]])
        for a, b in ((0, 2), (-2, 3), (2, 0), (1, -1)):
            for got, want in zip(f(v, a, b), (v[a], v[a:b], v[:, b:a:-1], v[a, ..., b])):
                np.testing.assert_array_equal(got, want)
        self.assertRaises(IndexError, f, v, 3, 0)
        self.assertRaises(IndexError, lambda: x[0, 0, 0, 0])
        self.assertRaises((TypeError, IndexError), lambda: x[1.5])
        self.assertRaises((TypeError, IndexError), lambda: x[T.dscalar()])

    def test_advanced(self):
        x, v = self.x, self.v
        idx, jdx = T.lvectors("ij")
        a, b = np.array([2, 0, -1]), np.array([1, 1, 3])
        f = theano.function(
            [x, idx, jdx],
            [x[idx], x[idx, jdx], x[:, idx], x[idx, :, jdx], x[idx, 1:3], x[1, idx, jdx], x[idx, None, jdx]],
            on_unused_input="ignore",
        )
        for got, want in zip(f(v, a, b), (v[a], v[a, b], v[:, a], v[a, :, b], v[a, 1:3], v[1, a, b], v[a, None, b])):
            np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(x[[0, 2]].eval({x: v}), v[[0, 2]])
        np.testing.assert_array_equal(x[np.array([[0, 2], [1, 1]])].eval({x: v}), v[[[0, 2], [1, 1]]])
        self.assertRaises(IndexError, theano.function([x, idx], x[idx]), v, [3])

    def test_boolean(self):
        x, v, m = self.x, self.v, self.m
        mask = v[:, :, 0] % 10 == 0
        f = theano.function([x, m], [x[m], x[m, 1], x[T.gt(x, 30)], x[(T.gt(x, 5) & T.lt(x, 9)).nonzero()]])
        for got, want in zip(f(v, mask), (v[mask], v[mask, 1], v[v > 30], v[(v > 5) & (v < 9)])):
            np.testing.assert_array_equal(got, want)
        self.assertRaises(IndexError, f, v, mask[:2])
        # integers are indices, never a mask, whatever their values
        k = T.matrix(dtype="int8")
        np.testing.assert_array_equal(x[k].eval({x: v, k: mask.astype("int8")}), v[mask.astype("int8")])

    def test_assignment_is_refused(self):
        with self.assertRaisesRegex(TypeError, "set_subtensor|item assignment"):
            self.x[0] = 1
        with self.assertRaises(TypeError):
            self.x[0] += 1


class TestSetAndInc(unittest.TestCase):
    def test_against_numpy(self):
        x, v = T.dmatrix("x"), np.arange(12.0).reshape(3, 4)
        y, w = T.dvector("y"), np.array([10.0, 20, 30])
        idx = T.lvector("idx")
        i = np.array([2, 0, 2])
        for take, key, value, number in (
            (lambda: x[1], np.s_[1], y[0], w[0]),
            (lambda: x[:, 1], np.s_[:, 1], y, w),
            (lambda: x[::-1, ::2], np.s_[::-1, ::2], 3.0, 3.0),
            (lambda: x[1:, 2], np.s_[1:, 2], y[:2], w[:2]),
            (lambda: x[idx], i, 1.5, 1.5),
            (lambda: x[:, idx], (slice(None), i), y, w),
            (lambda: x[idx, idx], (i, i), y, w),
            (lambda: x[T.gt(x, 6)], v > 6, -1.0, -1.0),
        ):
            inc, put = v.copy(), v.copy()
            np.add.at(inc, key, number)
            put[key] = number
            outs = [T.inc_subtensor(take(), value), T.set_subtensor(take(), value)]
            f = theano.function([x, y, idx], outs, on_unused_input="ignore")
            given = v.copy()
            for got, want in zip(f(given, w, i), (inc, put)):
                np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(given, v)  # x is unchanged

    def test_documented_example(self):
        s = theano.shared(np.zeros((3, 3)), "s")
        theano.function([], updates=[(s, T.inc_subtensor(s[1], [1.0, 2, 3]))])()
        theano.function([], updates=[(s, T.set_subtensor(s[:, 0], 7.0))])()
        np.testing.assert_array_equal(s.get_value(), [[7, 0, 0], [7, 2, 3], [7, 0, 0]])

    def test_refused(self):
        x = T.dmatrix()
        self.assertRaises(TypeError, T.set_subtensor, x, 1.0)
        self.assertRaises(TypeError, T.inc_subtensor, x + 1, 1.0)
        self.assertRaises(TypeError, T.set_subtensor, x[0], T.dmatrix())
        self.assertRaises(ValueError, theano.function([x], T.set_subtensor(x[0], np.ones(3))), np.ones((2, 2)))

    def test_gradients(self):
        rng = np.random.RandomState(1)
        v, w = rng.randn(3, 4), rng.randn(4)
        for take in (
            lambda x: x[1],
            lambda x: x[::-1],
            lambda x: x[[0, 2, 0]],
            lambda x: x[[0, 1], [3, 3]],
            lambda x: x[:, None, 1:3],
            lambda x: x[np.array([True, False, True])],
        ):
            utt.verify_grad(take, [v], rng=rng)
        for assign in (T.inc_subtensor, T.set_subtensor):
            utt.verify_grad(lambda x, y: assign(x[1], y), [v, w], rng=rng)
            utt.verify_grad(lambda x, y: assign(x[[0, 2]], y), [v, w], rng=rng)
            utt.verify_grad(lambda x, y: assign(x[[0, 2], [1, 1]], y[:2]), [v, w], rng=rng)


if __name__ == "__main__":
    unittest.main()
