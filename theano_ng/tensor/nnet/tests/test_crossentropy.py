"""Cross-entropies compared with NumPy: values, labels out of range, gradients, shapes."""

import unittest

import numpy as np
import scipy.special

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.tensor import nnet
from theano_ng.tensor.nnet.crossentropy import CrossentropyCategorical1HotGrad
from theano_ng.tensor.nnet.tests.nodes import REFERENCE, TOL, both, layouts, softmax
from theano_ng.tests import unittest_tools as utt

FUSED = nnet.crossentropy_softmax_argmax_1hot_with_bias
DX = nnet.crossentropy_softmax_1hot_with_bias_dx
ONEHOT = nnet.crossentropy_categorical_1hot
ONEHOT_GRAD = nnet.crossentropy_categorical_1hot_grad


def fused(x, b, y):
    sm = softmax(x + b)
    return [scipy.special.logsumexp(x + b, axis=1) - (x + b)[np.arange(len(y)), y], sm, (x + b).argmax(1)]


def onehot(y, n):
    return np.eye(n)[y]


class TestLabels(unittest.TestCase):
    def check(self, op, values, expected):
        dtype = str(values[0].dtype)
        wide = [v.astype(REFERENCE[dtype]) if v.dtype.kind == "f" else v.astype("int64") for v in values]
        expected = expected(*wide)
        for got in both(op, *values):
            for a, e in zip(got, expected if isinstance(expected, list) else [expected]):
                if a.dtype.kind == "f":
                    self.assertEqual(a.dtype, dtype)
                    np.testing.assert_allclose(a, e, rtol=2 * TOL[dtype], atol=TOL[dtype])
                else:
                    np.testing.assert_array_equal(a, e)

    def test_against_numpy(self):
        rng = np.random.RandomState(1)
        for dtype in ("float16", "float32", "float64"):
            for labels in ("int8", "uint8", "int16", "int32", "int64", "uint64"):
                x, b = rng.randn(5, 4).astype(dtype), rng.randn(4).astype(dtype)
                y = rng.randint(0, 4, 5).astype(labels)
                dy = rng.randn(5).astype(dtype)
                sm = softmax(x.astype("float64")).astype(dtype)
                self.check(FUSED, [x, b, y], fused)
                self.assertEqual(both(FUSED, x, b, y)[-1][2].dtype, labels)
                for d in (dy, dy[:1], dy[0:1].reshape(())):
                    self.check(DX, [d, sm, y], lambda d, sm, y: d.reshape(-1, 1) * (sm - onehot(y, 4)))
                self.check(ONEHOT, [sm, y], lambda q, y: -np.log(q[np.arange(5), y]))
                self.check(ONEHOT_GRAD, [dy, sm, y], lambda d, q, y: -d[:, None] * onehot(y, 4) / q)

    def test_layouts_and_empty(self):
        rng = np.random.RandomState(2)
        x, b, y, d = rng.randn(3, 4), rng.randn(4), np.array([3, 0, 2]), rng.randn(3)
        for x_, b_, y_, d_ in zip(layouts(x), layouts(b), layouts(y), layouts(d)):
            self.check(FUSED, [x_, b_, y_], fused)
            self.check(DX, [d_, x_, y_], lambda d, sm, y: d[:, None] * (sm - onehot(y, 4)))
            self.check(ONEHOT, [x_**2, y_], lambda q, y: -np.log(q[np.arange(3), y]))
            self.check(ONEHOT_GRAD, [d_, x_, y_], lambda d, q, y: -d[:, None] * onehot(y, 4) / q)
        none = np.zeros(0, "int64")
        for n in (0, 4):
            empty = np.zeros((0, n))
            for got in both(FUSED, empty, np.zeros(n), none):
                self.assertEqual([g.shape for g in got], [(0,), (0, n), (0,)])
            for op, values, shape in (
                (DX, [np.zeros(0), empty, none], (0, n)),
                (ONEHOT, [empty, none], (0,)),
                (ONEHOT_GRAD, [np.zeros(0), empty, none], (0, n)),
            ):
                for (got,) in both(op, *values):
                    self.assertEqual(got.shape, shape)

    def test_extreme_values(self):
        x = np.array([[1e4, 0.0, -1e4], [-1e300, 1e300, 0.0], [np.nan, 1.0, 2.0], [1.0, np.nan, 2.0]])
        y = np.array([2, 0, 1, 2])
        for nll, sm, am in both(FUSED, x, np.zeros(3), y):
            np.testing.assert_allclose(nll[:2], [2e4, 2e300])
            self.assertTrue(np.isnan(nll[2:]).all() and np.isnan(sm[2:]).all())
            np.testing.assert_array_equal(am, x.argmax(1))
        # A row whose output gradient is 0 has the input gradient 0, even if its probabilities are NaN.
        for (dx,) in both(DX, np.array([0.0, 1.0]), np.array([[np.nan, np.inf], [0.5, 0.5]]), np.array([0, 1])):
            np.testing.assert_array_equal(dx, [[0, 0], [0.5, -0.5]])

    def test_labels_out_of_range(self):
        x, b = np.full((2, 3), 1 / 3.0), np.zeros(3)
        for dtype, bad in (("int64", -1), ("int64", 3), ("uint8", 255), ("int8", -128), ("uint64", 2**63 + 1)):
            y = np.array([0, bad], dtype)
            for op, values in (
                (FUSED, (x, b, y)),
                (DX, (b[:2] + 1, x, y)),
                (ONEHOT, (x, y)),
                (ONEHOT_GRAD, (b[:2], x, y)),
            ):
                inputs = [T.TensorType(v.dtype, (False,) * v.ndim)() for v in values]
                for linker in ("cvm", "py"):
                    f = theano.function(inputs, op(*inputs), mode=theano.Mode(linker, None))
                    with self.assertRaisesRegex(ValueError, r"y_i value out of bounds"):
                        f(*values)

    def test_mismatched_lengths(self):
        x, b, y = np.zeros((2, 3)), np.zeros(3), np.zeros(2, "int64")
        for op, values, lengths in (
            (FUSED, (x, b[:2], y), (2, 3)),
            (FUSED, (x, b, y[:1]), (1, 2)),
            (DX, (b, x, y), (3, 2)),
            (DX, (b[:2], x, y[:1]), (1, 2)),
            (ONEHOT, (x, y[:1]), (1, 2)),
            (ONEHOT_GRAD, (b, x, y), (3, 2)),
            (ONEHOT_GRAD, (b[:2], x, y[:1]), (1, 2)),
        ):
            inputs = [T.TensorType(v.dtype, (False,) * v.ndim)() for v in values]
            for linker, says in (("cvm", r"\(%d and %d\)" % lengths), ("py", "")):
                f = theano.function(inputs, op(*inputs), mode=theano.Mode(linker, None))
                with self.assertRaisesRegex(ValueError, says):
                    f(*values)

    def test_types_are_refused(self):
        x, b, y = T.matrix(), T.vector(), T.lvector()
        for op, inputs in (
            (FUSED, (b, b, y)),
            (FUSED, (x, x, y)),
            (FUSED, (x, b, b)),
            (FUSED, (T.lmatrix(), b, y)),
            (DX, (x, x, y)),
            (DX, (b, b, y)),
            (DX, (b, x, b)),
            (ONEHOT_GRAD, (b, b, y)),
            (ONEHOT, (b, y)),
        ):
            self.assertRaises(ValueError, op, *inputs)
        self.assertRaises(TypeError, ONEHOT, x, b)


class TestGradients(utt.InferShapeTester):
    def test_verify_grad(self):
        rng = np.random.RandomState(3)
        x, b, y, d = rng.randn(3, 4), rng.randn(4), np.array([3, 0, 2]), rng.rand(3) + 0.5
        sm = softmax(x)
        utt.verify_grad(lambda x, b: FUSED(x, b, y)[0], [x, b], rng=rng)
        utt.verify_grad(lambda x, b: FUSED(x, b, y)[1], [x, b], rng=rng)
        utt.verify_grad(lambda x, b: FUSED(x, b, y)[1].sum(axis=1) + FUSED(x, b, y)[0], [x, b], rng=rng)
        utt.verify_grad(lambda d, sm: DX(d, sm, y), [d, sm], rng=rng)
        utt.verify_grad(lambda d, sm: DX(d, sm, y), [d[:1], sm], rng=rng)
        utt.verify_grad(lambda d, sm: DX(d, sm, y), [d[0], sm], rng=rng)
        utt.verify_grad(lambda q: ONEHOT(q, y), [sm], rng=rng)
        utt.verify_grad(lambda d, q: ONEHOT_GRAD(d, q, y), [d, sm], rng=rng)

    def test_argmax_and_labels_have_no_gradient(self):
        x, b, y = T.matrix(), T.vector(), T.lvector()
        nll, sm, am = FUSED(x, b, y)
        g = T.grad(nll.sum() + T.cast(am, "float64").sum(), x)
        rng = np.random.RandomState(4)
        values = rng.randn(3, 4), rng.randn(4), np.array([1, 2, 3])
        np.testing.assert_allclose(
            theano.function([x, b, y], g)(*values), softmax(values[0] + values[1]) - onehot(values[2], 4)
        )
        self.assertRaises(theano.gradient.DisconnectedInputError, T.grad, nll.sum(), y)

    def test_r_op(self):
        rng = np.random.RandomState(5)
        q, v, y = T.matrix(), T.matrix(), np.array([1, 0, 2])
        f = theano.function([q, v], T.Rop(ONEHOT(q, y), q, v))
        a, d = rng.rand(3, 4) + 0.1, rng.randn(3, 4)
        rows = np.arange(3)
        np.testing.assert_allclose(f(a, d), -d[rows, y] / a[rows, y])

    def test_infer_shape(self):
        x, b, y, d = T.matrix(), T.vector(), T.lvector(), T.vector()
        xv, yv = np.random.RandomState(6).rand(3, 4), np.array([1, 0, 2])
        self._compile_and_check([x, b, y], list(FUSED(x, b, y)), [xv, xv[0], yv], type(FUSED), warn=False)
        self._compile_and_check([d, x, y], [DX(d, x, y)], [xv[:, 0], xv, yv], type(DX), warn=False)
        self._compile_and_check([x, y], [ONEHOT(x, y)], [xv, yv], type(ONEHOT), warn=False)
        self._compile_and_check(
            [d, x, y], [ONEHOT_GRAD(d, x, y)], [xv[:, 0], xv, yv], CrossentropyCategorical1HotGrad, warn=False
        )


class TestFunctions(unittest.TestCase):
    def test_wrappers(self):
        rng = np.random.RandomState(7)
        x, b, y = T.matrix(), T.vector(), T.lvector()
        xv, bv, yv = rng.randn(3, 4), rng.randn(4), np.array([1, 3, 0])
        nll, sm, am = fused(xv, bv, yv)
        nll0, sm0, am0 = fused(xv, 0 * bv, yv)
        rows = np.arange(3)
        f = theano.function(
            [x, b, y],
            nnet.crossentropy_softmax_1hot_with_bias(x, b, y)
            + nnet.crossentropy_softmax_1hot(x, y)
            + list(nnet.crossentropy_softmax_max_and_argmax_1hot_with_bias(x, b, y))
            + list(nnet.crossentropy_softmax_max_and_argmax_1hot(x, y)),
        )
        expected = [nll, sm, nll0, sm0, nll, sm, sm[rows, am], am, nll0, sm0, sm0[rows, am0], am0]
        for got, want in zip(f(xv, bv, yv), expected):
            np.testing.assert_allclose(got, want)

    def test_categorical(self):
        q, p, y = T.matrix(), T.matrix(), T.ivector()
        rng = np.random.RandomState(8)
        qv, pv, yv = softmax(rng.randn(3, 4)), softmax(rng.randn(3, 4)), np.array([1, 3, 0], "int32")
        np.testing.assert_allclose(
            theano.function([q, p], nnet.categorical_crossentropy(q, p))(qv, pv), -(pv * np.log(qv)).sum(1)
        )
        np.testing.assert_allclose(
            theano.function([q, y], nnet.categorical_crossentropy(q, y))(qv, yv), -np.log(qv[np.arange(3), yv])
        )
        # Labels and their one-hot rows give equal cross-entropies.
        np.testing.assert_allclose(
            nnet.categorical_crossentropy(q, onehot(yv, 4)).eval({q: qv}),
            nnet.categorical_crossentropy(q, yv).eval({q: qv}),
        )
        self.assertRaisesRegex(TypeError, "rank mismatch", nnet.categorical_crossentropy, q, T.tensor3())

    def test_binary(self):
        o, t = T.matrix(), T.matrix()
        rng = np.random.RandomState(9)
        ov, tv = rng.uniform(0.01, 0.99, (3, 4)), rng.uniform(0, 1, (3, 4))
        cost = nnet.binary_crossentropy(o, t)
        np.testing.assert_allclose(
            theano.function([o, t], cost)(ov, tv), -(tv * np.log(ov) + (1 - tv) * np.log(1 - ov))
        )
        np.testing.assert_allclose(
            theano.function([o, t], T.grad(cost.mean(), o))(ov, tv), (ov - tv) / (ov * (1 - ov)) / 12
        )

    def test_binary_of_sigmoid_is_stable(self):
        # log(sigmoid) and log(1 - sigmoid) are rewritten, so that large inputs give neither inf nor NaN.
        x, t = T.vector("x"), T.vector("t")
        xv, tv = np.array([-800.0, -30.0, 0.0, 30.0, 800.0]), np.array([0.25, 1.0, 0.5, 0.0, 0.75])
        expected = np.logaddexp(0, xv) - tv * xv
        for cost in (nnet.binary_crossentropy(nnet.sigmoid(x), t), nnet.sigmoid_binary_crossentropy(x, t)):
            f = theano.function([x, t], [cost, T.grad(cost.sum(), x)])
            value, gradient = f(xv, tv)
            np.testing.assert_allclose(value, expected, rtol=1e-12)
            np.testing.assert_allclose(gradient, scipy.special.expit(xv) - tv, rtol=1e-12, atol=1e-15)

    def test_gradients_of_binary_of_sigmoid_have_the_types_of_its_arguments(self):
        rng = np.random.RandomState(9)
        types = {"scalar": (), "vector": (4,), "row": (1, 4), "col": (3, 1), "matrix": (3, 4)}
        for first, first_shape in types.items():
            for second, second_shape in types.items():
                with self.subTest(output=first, target=second):
                    x, t = getattr(T, first)(dtype="float64"), getattr(T, second)(dtype="float64")
                    gradients = T.grad(nnet.sigmoid_binary_crossentropy(x, t).sum(), [x, t])
                    self.assertEqual([g.type for g in gradients], [x.type, t.type])
                    expected = T.grad(nnet.binary_crossentropy(nnet.sigmoid(x), t).sum(), [x, t])
                    values = rng.normal(size=first_shape), rng.uniform(0.2, 0.8, second_shape)
                    found = theano.function([x, t], gradients + expected)(*values)
                    for i in range(2):
                        np.testing.assert_allclose(found[i], found[2 + i], rtol=1e-10)

    def test_confusion_matrix(self):
        a, p = T.lvector(), T.lvector()
        conf, order = theano.function([a, p], nnet.confusion_matrix(a, p))([0, 1, 2, 1, 0, 7], [0, 0, 2, 1, 2, 2])
        np.testing.assert_array_equal(conf, [[1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0]])
        np.testing.assert_array_equal(order, [0, 1, 2, 7])
        self.assertRaises(ValueError, nnet.confusion_matrix, T.lmatrix(), p)


if __name__ == "__main__":
    unittest.main()
