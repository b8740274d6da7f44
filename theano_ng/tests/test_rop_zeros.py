"""Tests of `Rop` in cases with a zero result (constant derivatives, constants, integers) or an undefined result."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gradient import DisconnectedInputError, DisconnectedType
from theano_ng.tensor.extra_ops import Unique


class TestZeros(unittest.TestCase):
    def setUp(self):
        self.x, self.v = T.dvector("x"), T.dvector("v")

    def tangent(self, out, **more):
        found = T.Rop(out, self.x, self.v, **more)
        f = theano.function([self.x, self.v], found, on_unused_input="ignore", mode="FAST_COMPILE")
        return f([0.5, 2.0, -1.0], [1.0, 2.0, 3.0])

    def test_of_what_is_constant(self):
        x, v = self.x, self.v
        weights = theano.shared(np.arange(6.0).reshape(3, 2))
        outputs = {
            "likes": [T.ones_like(x), T.zeros_like(x), T.fill(x, 3.0), T.alloc(1.5, x.shape[0])],
            "gradients": [
                theano.grad(x.sum(), x),
                theano.grad((3 * x).sum(), x),
                theano.grad((x * v).sum(), x),
                theano.grad(T.dot(x, weights).sum(), x),
                theano.grad(x[1:].sum() + x.mean(), x),
                theano.grad(T.dot(x, v), x) * 2 + 1,
                theano.grad(T.grad((x**2).sum(), x).sum(), x),
            ],
            "whole numbers": [
                x > 0,
                T.isnan(x),
                (x > 0) & (x < 1),
                T.cast(x, "int32"),
                T.iround(x),
                T.floor(x),
                T.sgn(x),
                T.argsort(x),
                T.cast(x, "int32").astype("float64"),
            ],
            "positions": [
                x.argmax(),
                x.argmin(),
                T.max_and_argmax(x)[1],
                x.argmax().astype("float64"),
                T.argmax(x.dimshuffle(0, "x"), axis=1),
                T.any(x > 0),
                (x > 0).sum(),
                x.nonzero()[0].sum(),
            ],
            "lengths as floats": [x.size * 1.0, x.shape.astype("float64").sum()],
        }
        for kind, group in outputs.items():
            for i, out in enumerate(group):
                tangent = self.tangent(out)
                self.assertEqual(tangent.dtype, out.dtype if out.dtype.startswith("float") else theano.config.floatX)
                value = theano.function([x, v], out, on_unused_input="ignore", mode="FAST_COMPILE")(
                    [0.5, 2, -1], [1, 2, 3]
                )
                np.testing.assert_array_equal(tangent, np.zeros(value.shape), err_msg=str((kind, i)))
        # The Hessian of the linear part of the cost is zero.
        hessian = T.Rop(theano.grad((x**2).sum() + (x * 3).sum(), x), x, v)
        np.testing.assert_array_equal(hessian.eval({x: [1.0, 2.0], v: [3.0, 4.0]}), [6.0, 8.0])

    def test_there_is_none(self):
        x, v = self.x, self.v
        for out in (T.constant(3.0), v, x.shape, x.shape[0], T.arange(x.shape[0]), Unique()(x), Unique()(x) * 2):
            self.assertRaises(DisconnectedInputError, T.Rop, out, x, v)
            self.assertIsNone(T.Rop(out, x, v, disconnected_outputs="ignore", return_disconnected="None"))
            found = T.Rop(out, x, v, disconnected_outputs="ignore", return_disconnected="Disconnected")
            self.assertIsInstance(found.type, DisconnectedType)

    def test_gradients_through_positions(self):
        x = self.x
        m = T.dmatrix("m")
        for out, wrt, expected in (
            (x.argmax(), x, [0, 0, 0]),
            (x.argmin().astype("float64"), x, [0, 0, 0]),
            (T.max_and_argmax(x)[1], x, [0, 0, 0]),
            (T.argmax(m, axis=1).sum(), m, [[0, 0, 0]]),
            (T.max_and_argmax(m, axis=(0, 1))[1], m, [[0, 0, 0]]),
            ((x.argmax() * x).sum(), x, [1, 1, 1]),
            (x[x.argmax()], x, [0, 1, 0]),
            (sum(T.max_and_argmax(x)), x, [0, 1, 0]),
        ):
            gradient = theano.grad(out, wrt)
            values = np.array([0.5, 2.0, -1.0]).reshape((-1,) if wrt is x else (1, -1))
            np.testing.assert_array_equal(theano.function([wrt], gradient, on_unused_input="ignore")(values), expected)
