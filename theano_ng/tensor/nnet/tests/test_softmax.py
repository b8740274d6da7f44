"""Softmax, its logarithm and its gradient, compared with NumPy and SciPy in native code and in `perform`."""

import unittest
import warnings

import numpy as np
import scipy.special

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.tensor.nnet import (
    crossentropy_softmax_1hot_with_bias,
    logsoftmax,
    logsoftmax_op,
    softmax,
    softmax_grad,
    softmax_graph,
    softmax_op,
    softmax_with_bias,
)
from theano_ng.tensor.nnet.tests.nodes import REFERENCE, TOL, both, layouts
from theano_ng.tests import unittest_tools as utt


class TestValues(unittest.TestCase):
    def check(self, op, values, expected):
        dtype = str(values[0].dtype)
        for (got,) in both(op, *values):
            self.assertEqual(got.dtype, dtype)
            np.testing.assert_allclose(
                got, expected(*[v.astype(REFERENCE[dtype]) for v in values]), rtol=TOL[dtype], atol=TOL[dtype] * 1e-1
            )

    def test_against_scipy(self):
        rng = np.random.RandomState(1)
        for dtype in ("float16", "float32", "float64"):
            for shape in ((3, 5), (1, 1), (4, 1), (2, 33), (0, 3), (3, 0), (0, 0)):
                x, g = rng.randn(*shape).astype(dtype), rng.randn(*shape).astype(dtype)
                b = rng.randn(shape[1]).astype(dtype)
                if x.size:
                    sm = scipy.special.softmax(x.astype("float64"), axis=1).astype(dtype)
                else:
                    sm = x
                self.check(softmax_op, [x], lambda x: scipy.special.softmax(x, axis=1) if x.size else x)
                self.check(logsoftmax_op, [x], lambda x: scipy.special.log_softmax(x, axis=1) if x.size else x)
                self.check(
                    softmax_with_bias, [x, b], lambda x, b: scipy.special.softmax(x + b, axis=1) if x.size else x
                )
                self.check(softmax_grad, [g, sm], lambda g, sm: (g - (g * sm).sum(1, keepdims=True)) * sm)

    def test_layouts(self):
        rng = np.random.RandomState(2)
        x, b = rng.randn(3, 7), rng.randn(7)
        for a, c in zip(layouts(x), layouts(b)):
            self.check(softmax_op, [a], lambda x: scipy.special.softmax(x, axis=1))
            self.check(softmax_with_bias, [a, c], lambda x, b: scipy.special.softmax(x + b, axis=1))
            self.check(softmax_grad, [a, a], lambda g, sm: (g - (g * sm).sum(1, keepdims=True)) * sm)

    def test_extreme_values(self):
        x = np.array(
            [
                [1e308, -1e308, 0],
                [-1e308] * 3,
                [1000, 1000, 999],
                [-np.inf, 0, 0],
                [np.nan, 0, 1],
                [0, 1, np.nan],
                [np.inf, 0, 0],
                [-np.inf] * 3,
            ]
        )
        with np.errstate(all="ignore"):
            e = np.exp(x - x.max(axis=1, keepdims=True))
            expected = e / e.sum(axis=1, keepdims=True)
        for (got,) in both(softmax_op, x):
            np.testing.assert_allclose(got, expected, rtol=1e-14)
        self.assertFalse(np.isnan(expected[:4]).any())
        # The logarithm of a probability that underflows is finite.
        x = np.array([[0.0, -2000.0, 5.0], [1e4, 0.0, 0.0], [1e15, 1e15 + 1, 1e15]])
        for (got,) in both(logsoftmax_op, x):
            np.testing.assert_allclose(got, scipy.special.log_softmax(x, axis=1), rtol=1e-12)

    def test_mismatched_shapes_are_refused(self):
        x = np.zeros((3, 4))
        for op, values in ((softmax_with_bias, (x, np.zeros(3))), (softmax_grad, (x, np.zeros((3, 5))))):
            f = theano.function([v := T.matrix(), w := T.TensorType("float64", (False,) * values[1].ndim)()], op(v, w))
            self.assertRaises(ValueError, f, *values)


class TestGraphs(unittest.TestCase):
    def test_types(self):
        self.assertEqual(softmax(T.fmatrix()).type, T.fmatrix)
        row = softmax(T.vector())  # a vector is treated as one row
        self.assertEqual(row.broadcastable, (True, False))
        np.testing.assert_allclose(row.eval({row.owner.inputs[0].owner.inputs[0]: [1.0, 1.0, 1.0, 1.0]}), [[0.25] * 4])
        self.assertEqual(logsoftmax(T.vector()).broadcastable, (True, False))
        for bad in (T.lmatrix(), T.tensor3(), T.scalar(), T.zmatrix()):
            self.assertRaises(ValueError, softmax_op, bad)
        self.assertRaises(ValueError, softmax_with_bias, T.matrix(), T.matrix())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            softmax(T.col())
        self.assertIn("does not have a semantic meaning", str(caught[0].message))

    def test_gradients_of_biases_have_the_types_of_the_biases(self):
        x, labels = T.fmatrix("x"), T.lvector("labels")
        for b in (T.fvector("b"), T.dvector("b"), T.TensorType("float64", [True])("b")):
            sm = softmax_with_bias(x, b)
            for y in (sm, T.log(sm), crossentropy_softmax_1hot_with_bias(x, b, labels)[0]):
                self.assertEqual(T.grad((y**2).sum(), b).type, b.type)

    def test_gradients(self):
        rng = np.random.RandomState(3)
        x, b, g = rng.randn(3, 4), rng.randn(4), rng.randn(3, 4)
        utt.verify_grad(softmax_op, [x], rng=rng)
        utt.verify_grad(softmax, [b], rng=rng)
        utt.verify_grad(logsoftmax_op, [x], rng=rng)
        utt.verify_grad(softmax_with_bias, [x, b], rng=rng)
        utt.verify_grad(softmax_grad, [g, scipy.special.softmax(x, axis=1)], rng=rng)
        utt.verify_grad(softmax_graph, [x], rng=rng)
        # second derivatives go through SoftmaxGrad's gradient
        utt.verify_grad(lambda v: T.grad((softmax_op(v) ** 2).sum(), v), [x], rng=rng)

    def test_r_op(self):
        rng = np.random.RandomState(4)
        x, v, b, w = T.matrix("x"), T.matrix("v"), T.vector("b"), T.vector("w")
        values = dict(x=rng.randn(3, 4), v=rng.randn(3, 4), b=rng.randn(4), w=rng.randn(4))
        step = 1e-6
        for out in (
            softmax_op(x),
            logsoftmax_op(x),
            softmax_with_bias(x, b),
            softmax_with_bias(v * v, b),
            softmax_grad(x * b, x),
        ):
            inputs = [i for i in (x, b) if i in theano.gof.graph.inputs([out])]
            directions = [{x: v, b: w}[i] for i in inputs]
            f = theano.function([x, b, v, w], theano.tensor.Rop(out, inputs, directions), on_unused_input="ignore")
            value = theano.function([x, b, v], out, on_unused_input="ignore")

            def at(t):
                return value(values["x"] + t * values["v"], values["b"] + t * values["w"], values["v"])

            np.testing.assert_allclose(
                f(values["x"], values["b"], values["v"], values["w"]),
                (at(step) - at(-step)) / (2 * step),
                rtol=1e-6,
                atol=1e-7,
            )


class TestShapes(utt.InferShapeTester):
    def test_infer_shape(self):
        x, b, g = T.matrix(), T.vector(), T.matrix()
        values = np.random.RandomState(5).randn(3, 4)
        for out, inputs, arrays in (
            (softmax_op(x), [x], [values]),
            (logsoftmax_op(x), [x], [values]),
            (softmax_with_bias(x, b), [x, b], [values, values[0]]),
            (softmax_grad(g, x), [g, x], [values, values]),
        ):
            self._compile_and_check(inputs, [out], arrays, type(out.owner.op), warn=False)


if __name__ == "__main__":
    unittest.main()
