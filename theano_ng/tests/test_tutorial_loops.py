"""Tests of the tutorial's listings and their documented results: loops.

Derivatives of loops are tested in `scan/tests/test_gradient.py`.
"""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import function
from theano_ng.configdefaults import config
from theano_ng.tests.closeness import assert_close


class Loops(unittest.TestCase):
    def test_rows_of_a_matrix(self):
        X, W, b = T.matrix("X"), T.matrix("W"), T.vector("b")
        res, _ = theano.scan(lambda v: T.tanh(T.dot(v, W) + b), sequences=X)
        f = function([X, W, b], res)
        assert_close(f(np.eye(2), np.ones((2, 2)), np.array([1.0, 2.0])), [[0.96402758, 0.99505475]] * 2)

    def test_two_sequences_one_reversed(self):
        X, W, Y, U, P, V = T.vector(), T.matrix(), T.matrix(), T.matrix(), T.matrix(), T.matrix()
        res, _ = theano.scan(
            lambda y, p, h: T.tanh(T.dot(h, W) + T.dot(y, U) + T.dot(p, V)), sequences=[Y, P[::-1]], outputs_info=[X]
        )
        f = function([X, W, Y, U, P, V], res)
        y = np.ones((5, 2))
        y[0] = -3
        p = np.ones((5, 2))
        p[0] = 3
        one = np.ones((2, 2))
        assert_close(
            f(np.array([0.0, 1.0]), one, y, one, p, one),
            np.repeat([[-0.99505475], [0.96471973], [0.99998585], [0.99998771], [1.0]], 2, 1),
        )

    def test_norms_of_rows_and_of_columns(self):
        X = T.matrix("X")

        def step(r):
            return T.sqrt((r**2).sum())

        rows = function([X], theano.scan(step, sequences=[X])[0])
        cols = function([X], theano.scan(step, sequences=[X.T])[0])
        m = np.diag(np.arange(1, 6, dtype="float64"), 1)
        assert_close(rows(m), [1, 2, 3, 4, 5, 0])
        assert_close(cols(m), [0, 1, 2, 3, 4, 5])

    def test_trace(self):
        """A loop may have two sequences of indices, a NumPy array as initial state, and a cast in its step."""
        X = T.matrix("X")
        res, _ = theano.scan(
            lambda i, j, acc: T.cast(X[i, j] + acc, "float32"),
            sequences=[T.arange(X.shape[0]), T.arange(X.shape[1])],
            outputs_info=np.asarray(0.0, dtype="float32"),
        )
        m = np.eye(5)
        m[0] = np.arange(5)
        self.assertEqual(function([X], res[-1])(m), 4.0)

    def test_two_taps(self):
        X, U, V, W, b, n = T.matrix(), T.matrix(), T.matrix(), T.matrix(), T.vector(), T.iscalar()
        res, _ = theano.scan(
            lambda t2, t1: T.dot(t2, U) + T.dot(t1, V) + T.tanh(T.dot(t1, W) + b),
            n_steps=n,
            outputs_info=[dict(initial=X, taps=[-2, -1])],
        )
        f = function([X, U, V, W, b, n], res)
        half = 0.5 * np.ones((2, 2))
        found = f(np.array([[0.0, 0.0], [0.0, 1.0]]), half - 0.5 * np.eye(2), half, half, np.ones(2), 10)
        assert_close(
            found,
            [
                [1.40514825, 1.40514825],
                [2.88898899, 2.38898899],
                [4.34018291, 4.34018291],
                [6.53463142, 6.78463142],
                [9.82972243, 9.82972243],
                [14.22203814, 14.09703814],
                [20.07439936, 20.07439936],
                [28.12291843, 28.18541843],
                [39.1913681, 39.1913681],
                [54.28407732, 54.25282732],
            ],
        )

    def test_jacobian_of_what_the_step_captures(self):
        v, A = T.vector(), T.matrix()
        y = T.tanh(T.dot(v, A))
        res, _ = theano.scan(lambda i: T.grad(y[i], v), sequences=[T.arange(y.shape[0])])
        f = function([A, v], res, allow_input_downcast=True)
        w = np.eye(5, 3)
        w[2] = 1
        assert_close(f(w, np.eye(5)[0]), [[0.41997434, 0, 0.41997434, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 0, 0]])

    def test_a_step_that_returns_updates_only(self):
        k, n = theano.shared(0), T.iscalar("n")
        _, upd = theano.scan(lambda: {k: k + 1}, n_steps=n)
        acc = function([n], [], updates=upd, allow_input_downcast=True)
        self.assertEqual(k.get_value(), 0)
        acc(5)
        self.assertEqual(k.get_value(), 5)

    def test_powers(self):
        """A function accepts a Python range as a vector, and programs can set the flag `warn.subtensor_merge_bug`."""
        before = config.warn.subtensor_merge_bug
        self.addCleanup(setattr, config.warn, "subtensor_merge_bug", before)
        config.warn.subtensor_merge_bug = False
        k, A = T.iscalar("k"), T.vector("A")
        res, upd = theano.scan(fn=lambda prior, B: prior * B, outputs_info=T.ones_like(A), non_sequences=A, n_steps=k)
        assert_close(function([A, k], res[-1], updates=upd)(range(10), 2), np.arange(10) ** 2)

    def test_polynomial(self):
        c, x = T.vector("c"), T.scalar("x")
        value = np.asarray([1, 0, 2], dtype="float32")
        comp, _ = theano.scan(
            fn=lambda coef, pw, fv: coef * (fv**pw), outputs_info=None, sequences=[c, T.arange(10000)], non_sequences=x
        )
        self.assertEqual(function([c, x], comp.sum())(value, 3), 19.0)
        acc, _ = theano.scan(
            fn=lambda coef, pw, tot, fv: tot + coef * (fv**pw),
            outputs_info=T.as_tensor_variable(np.asarray(0.0, config.floatX)),
            sequences=[c, T.arange(10000)],
            non_sequences=x,
        )
        self.assertEqual(function([c, x], acc[-1])(value, 3), 19.0)


class Book(unittest.TestCase):
    """Tests of the book's chapter about loops, which sets floatX to float32."""

    def setUp(self):
        flags = config.change_flags(floatX="float32")
        flags.__enter__()
        self.addCleanup(flags.__exit__)

    def test_map(self):
        a = T.matrix()
        r, u = theano.scan(lambda x: x + 1, sequences=a)
        assert_close(function([a], r, updates=u)(np.ones((2, 3), config.floatX)), np.full((2, 3), 2.0))

    def test_sums(self):
        v, m, s0 = T.vector(), T.matrix(), T.scalar("s0")
        r, u = theano.scan(fn=lambda cur, prior: prior + cur, outputs_info=s0, sequences=v)
        assert_close(function([v, s0], r, updates=u)([0, 3, 5], 0), [0, 3, 8])
        r, u = theano.scan(fn=lambda cur, prior: prior + cur.sum(), outputs_info=s0, sequences=m)
        assert_close(function([m, s0], r, updates=u)(np.ones((20, 5), config.floatX), 0), np.arange(5, 101, 5))

    def test_fewer_steps_than_rows(self):
        v, s0 = T.vector(), T.scalar("s0")
        r, u = theano.scan(
            fn=lambda cur, prior, k: k * prior + cur,
            n_steps=10,
            sequences=v,
            outputs_info=T.constant(0.0),
            non_sequences=s0,
        )
        o = function([v, s0], r, updates=u)(np.ones(20, config.floatX), 5)
        self.assertEqual((o.dtype, o.shape), (np.float32, (10,)))
        assert_close(o, [1, 6, 31, 156, 781, 3906, 19531, 97656, 488281, 2441406])
