"""Batch normalization against NumPy, its derivatives against finite differences, native code against `perform`."""

import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.differentiate import DisconnectedInputError, Rop, grad
from theano_ng.tensor.nnet import batch_normalization, bn
from theano_ng.tensor.nnet.bn import (
    AbstractBatchNormInference,
    AbstractBatchNormTrain,
    AbstractBatchNormTrainGrad,
    BatchNormTrain,
    BatchNormTrainGrad,
    batch_normalization_test,
    batch_normalization_train,
)
from theano_ng.tensor.nnet.tests.nodes import layouts
from theano_ng.tensor.tests.single_node import run_node
from theano_ng.tests import unittest_tools as utt

TOL = {"float16": 4e-3, "float32": 2e-6, "float64": 1e-12}
UNREWRITTEN = Mode(linker="py", optimizer=None)
AXES = {"per-activation": lambda ndim: (0,), "spatial": lambda ndim: (0,) + tuple(range(2, ndim))}


def statistics(x, axes, epsilon):
    """Return mean, variance, and 1 / sqrt(variance + epsilon)."""
    mean = x.mean(axes, keepdims=True)
    var = ((x - mean) ** 2).mean(axes, keepdims=True)
    return mean, var, 1 / np.sqrt(var + epsilon)


def normalized(x, scale, bias, axes, epsilon=1e-4):
    """Return the result of the documented formula, with mean, 1 / deviation and variance, in float64."""
    x, scale, bias = (v.astype("float64") for v in (x, scale, bias))
    mean, var, invstd = statistics(x, axes, epsilon)
    return [(x - mean) * scale * invstd + bias, mean, invstd, var]


def gradients(x, dy, scale, mean, invstd, axes):
    """Return the gradients with respect to x, scale and shift, by the formulas of Ioffe and Szegedy (2015), section 3."""
    x, dy, scale, mean, invstd = (v.astype("float64") for v in (x, dy, scale, mean, invstd))
    count = x.size // max(1, mean.size)
    d_normal = dy * scale
    d_var = (d_normal * (x - mean)).sum(axes, keepdims=True) * -0.5 * invstd**3
    d_mean = -(d_normal * invstd).sum(axes, keepdims=True)
    dx = d_normal * invstd + d_var * 2 * (x - mean) / count + d_mean / count
    return [dx, (dy * (x - mean) * invstd).sum(axes, keepdims=True), dy.sum(axes, keepdims=True)]


def variables(*values, flags=None):
    """Return variables for arrays; all but the first have the broadcast pattern `flags`, if it is given."""
    return [T.TensorType(v.dtype, flags if flags and i else (False,) * v.ndim)() for i, v in enumerate(values)]


class TestNodes(unittest.TestCase):
    """Single nodes give equal results in native code and in `perform`."""

    CASES = [
        ((4, 3), (0,)),
        ((4, 3), (1,)),
        ((4, 3), (0, 1)),
        ((5,), (0,)),
        ((2, 3, 4, 5), (0, 2, 3)),
        ((2, 3, 4, 5), (1,)),
        ((2, 3, 4, 5), (0, 2)),
        ((2, 3, 4, 5), (1, 3)),
        ((3, 1, 4, 1), (0, 2, 3)),
        ((1, 3, 1, 1), (0, 2, 3)),
        ((3, 2, 7, 11), (0, 2, 3)),
        ((300, 130), (0,)),
        ((2, 3, 40, 41), (0, 2, 3)),
        ((3, 0), (0,)),
        ((1, 1), (0,)),
    ]

    def values(self, rng, shape, axes, dtype):
        small = [1 if i in axes else n for i, n in enumerate(shape)]
        x, dy = (rng.randn(*shape).astype(dtype) * 2 + 1 for _ in range(2))
        scale, bias = rng.uniform(0.5, 2, small).astype(dtype), rng.randn(*small).astype(dtype)
        return x.astype(dtype), dy.astype(dtype), scale, bias, [i in axes for i in range(len(shape))]

    def compare(self, got, want, dtype):
        for a, b in zip(got, want):
            self.assertEqual((str(a.dtype), a.shape), (dtype, b.shape))
            self.assertTrue(a.flags.c_contiguous)
            np.testing.assert_allclose(a.astype("float64"), b, rtol=TOL[dtype], atol=TOL[dtype] * 10)

    def test_train(self):
        rng = np.random.RandomState(1)
        for dtype in TOL:
            for shape, axes in self.CASES:
                x, _, scale, bias, flags = self.values(rng, shape, axes, dtype)
                symbols = variables(x, scale, bias, flags=flags)
                want = normalized(x, scale, bias, axes)
                for op, n in ((BatchNormTrain(axes), 4), (AbstractBatchNormTrain(axes), 3)):
                    out = op(*symbols, T.constant(1e-4))[0]
                    for impl in ("c", "py") if n == 4 else ("py",):
                        got = run_node(out, dict(zip(symbols, (x, scale, bias))), impl)
                        self.compare(got, want[:n], dtype)

    def test_gradient(self):
        rng = np.random.RandomState(2)
        for dtype in TOL:
            for shape, axes in self.CASES:
                x, dy, scale, bias, flags = self.values(rng, shape, axes, dtype)
                mean, invstd = (v.astype(dtype) for v in normalized(x, scale, bias, axes)[1:3])
                values = (x, dy, scale, mean, invstd)
                symbols = variables(x, flags=flags) + variables(dy) + variables(x, scale, mean, invstd, flags=flags)[1:]
                want = gradients(*values, axes)
                for op in (BatchNormTrainGrad(axes), AbstractBatchNormTrainGrad(axes)):
                    out = op(*symbols, T.constant(1e-4))[0]
                    for impl in ("c", "py") if type(op) is BatchNormTrainGrad else ("py",):
                        got = run_node(out, dict(zip(symbols, values)), impl)
                        size = max(1, x.size // max(1, mean.size))
                        for a, b, many in zip(got, want, (1, size, size)):
                            self.assertEqual((str(a.dtype), a.shape), (dtype, b.shape))
                            np.testing.assert_allclose(
                                a.astype("float64"), b, rtol=TOL[dtype], atol=TOL[dtype] * 10 * many
                            )

    def test_layouts_of_memory(self):
        rng = np.random.RandomState(3)
        x, scale, bias = rng.randn(4, 3, 5), rng.randn(1, 3, 1), rng.randn(1, 3, 1)
        symbols = variables(x, scale, bias, flags=(True, False, True))
        out = BatchNormTrain((0, 2))(*symbols, T.constant(1e-4))[0]
        again = BatchNormTrainGrad((0, 2))(symbols[0], symbols[0], *symbols[1:], symbols[2], T.constant(1e-4))[0]
        want = run_node(out, dict(zip(symbols, (x, scale, bias))), "py")
        wanted = run_node(again, dict(zip(symbols, (x, scale, bias))), "py")
        for values in zip(layouts(x), layouts(scale), layouts(bias)):
            for a, b in zip(run_node(out, dict(zip(symbols, values)), "c"), want):
                utt.assert_allclose(a, b)
            for a, b in zip(run_node(again, dict(zip(symbols, values)), "c"), wanted):
                utt.assert_allclose(a, b)

    def test_large_mean(self):
        # The mean is 1e4 times the deviations. An algorithm with one pass in float32 would lose the deviations.
        rng = np.random.RandomState(4)
        x = (rng.randn(64, 8, 9) + 1e4).astype("float32")
        one, zero = np.ones((1, 8, 1), "float32"), np.zeros((1, 8, 1), "float32")
        symbols = variables(x, one, zero, flags=(True, False, True))
        got = run_node(BatchNormTrain((0, 2))(*symbols, T.constant(1e-4))[0], dict(zip(symbols, (x, one, zero))), "c")
        want = normalized(x, one, zero, (0, 2))
        np.testing.assert_allclose(got[0], want[0], rtol=2e-6, atol=2e-6)
        np.testing.assert_allclose(got[3], want[3], rtol=2e-7)

    def test_factors_beyond_float32(self):
        # The factors scale * invstd and the slope of the gradient overflow float32, but the products with small or zero
        # factors do not.
        for shape, axes in (((4, 2), (0,)), ((2, 2, 3), (0, 2))):
            flags = [i in axes for i in range(len(shape))]
            x = np.zeros(shape, "float32")
            x[0] = 1e-25
            big, zero = (np.full([1 if f else n for f, n in zip(flags, shape)], v, "float32") for v in (3e38, 0))
            symbols = variables(x, big, zero, flags=flags)
            native, python = (
                run_node(BatchNormTrain(axes)(*symbols, T.constant(1e-4))[0], dict(zip(symbols, (x, big, zero))), impl)
                for impl in ("c", "py")
            )
            np.testing.assert_allclose(native[0], normalized(x, big, zero, axes)[0], rtol=1e-5)
            np.testing.assert_allclose(native[0], python[0], rtol=1e-6)
            huge = np.full_like(big, 4e18)
            dx = BatchNormTrainGrad(axes)(symbols[0], symbols[0], symbols[1], symbols[2], symbols[1], T.constant(1e-4))[
                0
            ]
            x[0] = 4e18
            values = dict(zip(symbols, (x, huge, huge)))
            with np.errstate(over="ignore"):
                native, python = (run_node(dx, values, impl) for impl in ("c", "py"))
            for a, b in zip(native, python):
                np.testing.assert_allclose(a, b, rtol=1e-6)

    def test_some_factors_beyond_float32(self):
        """Only channels with factors beyond float32 are computed in double; other channels do not change."""
        rng = np.random.RandomState(5)
        for shape, axes in (((4, 5), (0,)), ((3, 2, 6), (0,)), ((4, 70), (0,)), ((5, 4), (1,)), ((2, 5, 3), (0, 2))):
            flags = [i in axes for i in range(len(shape))]
            small = [1 if f else n for f, n in zip(flags, shape)]
            for first in (0, 1):
                wide = (np.arange(np.prod(small)) % 2 == first).reshape(small)
                x = np.where(wide, np.where(rng.rand(*shape) < 0.5, 1e-25, 0), rng.randn(*shape)).astype("float32")
                scale, bias = (np.where(wide, number, rng.rand(*small)).astype("float32") for number in (3e38, 0))
                symbols = variables(x, scale, bias, flags=flags)
                out = BatchNormTrain(axes)(*symbols, T.constant(1e-4))[0]
                got = run_node(out, dict(zip(symbols, (x, scale, bias))), "c")[0]
                np.testing.assert_allclose(got, normalized(x, scale, bias, axes)[0], rtol=1e-5, atol=1e-6)
                # For the gradient, some channels have an element, a scale and an inverse deviation of 4e18.
                x, mean = np.where(wide, 0, rng.randn(*shape)).astype("float32"), np.zeros_like(scale)
                np.copyto(x[0], 4e18, where=wide[0])
                scale, invstd = (np.where(wide, 4e18, rng.rand(*small) + 0.5).astype("float32") for _ in range(2))
                symbols = variables(x, flags=flags) + variables(x) + variables(x, scale, mean, invstd, flags=flags)[1:]
                values = dict(zip(symbols, (x, x, scale, mean, invstd)))
                dx = BatchNormTrainGrad(axes)(*symbols, T.constant(1e-4))[0]
                with np.errstate(over="ignore"):
                    got, want = (run_node(dx, values, impl)[0] for impl in ("c", "py"))
                    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
                    ordinary = np.broadcast_to(~wide, shape)
                    exact = gradients(x, x, scale, mean, invstd, axes)[0]
                    np.testing.assert_allclose(got[ordinary], exact[ordinary], rtol=1e-4, atol=1e-5)

    def test_gradient_factors_beyond_float32(self):
        """The gradient fits float32, although scale * invstd does not."""
        rng = np.random.RandomState(9)
        for shape, axes in (((4, 2), (0,)), ((2, 2, 3), (0, 2)), ((3, 5), (0, 1)), ((2, 70), (0,)), ((5, 3, 40), (2,))):
            flags = [i in axes for i in range(len(shape))]
            x, dy = (rng.randn(*shape) * v for v in (1e-20, 1e-10))
            mean = x.mean(axes, keepdims=True)
            scale = rng.uniform(1e20, 2e20, mean.shape) * np.where(
                np.arange(mean.size).reshape(mean.shape) % 3, 1, 1e-19
            )
            values = [v.astype("float32") for v in (x, dy, scale, mean, np.full_like(mean, 1e20))]
            symbols = [T.TensorType("float32", flags if v.shape == mean.shape else [False] * x.ndim)() for v in values]
            dx = BatchNormTrainGrad(axes)(*symbols, T.constant(1e-4))[0]
            want = gradients(*values, axes)
            for impl in ("c", "py"):
                with np.errstate(over="ignore"):
                    got = run_node(dx, dict(zip(symbols, values)), impl)
                for a, b in zip(got, want):
                    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6 * abs(b).max(), err_msg=impl)

    def test_no_elements(self):
        x, one = np.zeros((0, 3)), np.ones((1, 3))
        symbols = variables(x, one, one, flags=(True, False))
        dx = BatchNormTrainGrad((0,))(symbols[0], symbols[0], symbols[1], symbols[1], symbols[2], T.constant(1e-4))[0]
        for impl in ("c", "py"):
            out, *rest = run_node(
                BatchNormTrain((0,))(*symbols, T.constant(1e-4))[0], dict(zip(symbols, (x, one, one))), impl
            )
            self.assertEqual(out.shape, (0, 3))
            for statistic in rest:
                self.assertEqual(statistic.shape, (1, 3))
                self.assertTrue(np.isnan(statistic).all())
            got = run_node(dx, dict(zip(symbols, (x, one, one))), impl)
            self.assertEqual(got[0].shape, (0, 3))
            np.testing.assert_array_equal(got[1:], np.zeros((2, 1, 3)))

    def test_shapes_that_do_not_match(self):
        x, row, long = np.zeros((4, 3)), np.ones((1, 3)), np.ones((1, 4))
        for impl in ("c", "py"):
            for values in ((x, long, row), (x, row, long)):
                symbols = variables(*values, flags=(True, False))
                out = BatchNormTrain((0,))(*symbols, T.constant(1e-4))[0]
                with self.assertRaisesRegex(ValueError, r"(scale|bias) has shape \(1, 4\), expected \(1, 3\)"):
                    run_node(out, dict(zip(symbols, values)), impl)
            symbols = variables(x, x[:2])
            stats = variables(x, row, row, row, flags=(True, False))[1:]
            dx = BatchNormTrainGrad((0,))(*symbols, *stats, T.constant(1e-4))[0]
            with self.assertRaisesRegex(ValueError, "x and dy do not have the same shape"):
                run_node(dx, dict(zip(symbols + stats, (x, x[:2], row, row, row))), impl)

    def test_nonfinite(self):
        x = np.array([[1.0, np.nan, np.inf, 3e38], [2.0, 1.0, 1.0, -3e38]], "float32")
        one, zero = np.ones((1, 4), "float32"), np.zeros((1, 4), "float32")
        symbols = variables(x, one, zero, flags=(True, False))
        node = BatchNormTrain((0,))(*symbols, T.constant(1e-4))[0]
        with np.errstate(all="ignore"):
            native, python = (run_node(node, dict(zip(symbols, (x, one, zero))), impl) for impl in ("c", "py"))
        for a, b in zip(native, python):
            np.testing.assert_allclose(a, b, rtol=1e-6)
        np.testing.assert_array_equal(np.isnan(native[0]), [[False, True, True, False]] * 2)


class TestTrain(unittest.TestCase):
    def test_documented_formula(self):
        rng = np.random.RandomState(5)
        for ndim, axes in (
            (2, "per-activation"),
            (3, "per-activation"),
            (4, "spatial"),
            (4, "per-activation"),
            (5, "spatial"),
            (4, (0, 1)),
            (3, (2,)),
            (2, [1]),
            (4, (3, 0, 2)),
        ):
            numbers = AXES[axes](ndim) if isinstance(axes, str) else tuple(sorted(axes))
            shape = (4, 3, 2, 5, 2)[:ndim]
            for skipped in (False, True):
                small = [1 if i in numbers else n for i, n in enumerate(shape) if not (skipped and i in numbers)]
                x = T.TensorType("float64", (False,) * ndim)("x")
                stats = [T.TensorType("float64", (False,) * len(small))(name) for name in ("g", "b", "m", "v")]
                g, b, m, v = stats
                outputs = batch_normalization_train(x, g, b, axes, 1e-3, 0.3, m, v)
                self.assertIsInstance(outputs, tuple)
                test = batch_normalization_test(x, g, b, m, v, axes, 1e-3)
                f = theano.function([x, *stats], [*outputs, test])
                X, values = rng.randn(*shape) + 2, [rng.uniform(0.5, 2, small) for _ in stats]
                full = [value.reshape([1 if i in numbers else n for i, n in enumerate(shape)]) for value in values]
                out, mean, invstd, var = normalized(X, full[0], full[1], numbers, 1e-3)
                count = X.size // mean.size
                want = [
                    out,
                    mean.reshape(small),
                    invstd.reshape(small),
                    values[2] * 0.7 + 0.3 * mean.reshape(small),
                    values[3] * 0.7 + 0.3 * count / (count - 1) * var.reshape(small),
                    (X - full[2]) * full[0] / np.sqrt(full[3] + 1e-3) + full[1],
                ]
                for got, expected in zip(f(X, *values), want):
                    self.assertEqual(got.shape, expected.shape)
                    utt.assert_allclose(got, expected)
                for got, expected in zip(
                    theano.function([x, *stats], [*outputs, test], mode=UNREWRITTEN)(X, *values), want
                ):
                    utt.assert_allclose(got, expected)

    def test_what_it_becomes(self):
        x, g, b, m, v = T.ftensor4(), *T.fvectors(4)
        out = batch_normalization_train(x, g, b, "spatial")[0]
        dx = grad(out.sum(), x)
        for mode in ("FAST_RUN", "FAST_COMPILE"):
            ops = [type(n.op) for n in theano.function([x, g, b], [out, dx], mode=mode).maker.fgraph.toposort()]
            self.assertEqual(ops.count(BatchNormTrain), 1)
            self.assertEqual(ops.count(BatchNormTrainGrad), 1)
            self.assertFalse({AbstractBatchNormTrain, AbstractBatchNormTrainGrad} & set(ops))
        # One fused loop computes the normalized activation and applies relu to it.
        f = theano.function([x, g, b, m, v], T.nnet.relu(batch_normalization_test(x, g, b, m, v, "spatial")))
        big = [n for n in f.maker.fgraph.toposort() if not any(n.outputs[0].broadcastable) and n.outputs[0].ndim == 4]
        self.assertEqual(len(big), 1)

    def test_updates_of_running_averages(self):
        rng = np.random.RandomState(6)
        x = T.matrix()
        mean, var = theano.shared(np.zeros(3)), theano.shared(np.ones(3))
        new = batch_normalization_train(x, np.ones(3), np.zeros(3), running_mean=mean, running_var=var)
        f = theano.function([x], new[0], updates=[(mean, new[3]), (var, new[4])])
        m, v = np.zeros(3), np.ones(3)
        for _ in range(3):
            X = rng.randn(7, 3) + 1
            f(X)
            m, v = 0.9 * m + 0.1 * X.mean(0), 0.9 * v + 0.1 * X.var(0, ddof=1)
        utt.assert_allclose(mean.get_value(), m)
        utt.assert_allclose(var.get_value(), v)

    def test_types(self):
        flags = (False, True, False, False)
        x = T.TensorType("float32", flags)()
        out, mean, invstd = batch_normalization_train(x, T.fvector(), T.fvector(), "spatial")
        self.assertEqual(out.type, x.type)
        self.assertEqual(mean.type, T.TensorType("float32", (True,)))
        out, mean, invstd = batch_normalization_train(T.ftensor4(), T.ftensor4(), T.ftensor4(), "spatial")
        self.assertEqual(invstd.type, T.TensorType("float32", (True, False, True, True)))
        for dtypes, expected in (
            (("float32", "float64"), "float64"),
            (("float64", "float32"), "float64"),
            (("float16", "float16"), "float16"),
            (("int32", "float32"), "float64"),
            (("int8", "int8"), "float64"),
        ):
            x, g = T.TensorType(dtypes[0], (False,) * 2)(), T.TensorType(dtypes[1], (False,))()
            for v in (*batch_normalization_train(x, g, g), batch_normalization_test(x, g, g, g, g)):
                self.assertEqual(v.dtype, expected)

    def test_one_statistic_for_all(self):
        # The scale has length 1 along an axis that is not reduced.
        x, s = T.matrix(), T.TensorType("float64", (True, True))()
        X = np.random.RandomState(7).randn(5, 3)
        out, mean, _ = batch_normalization_train(x, s, s)
        f = theano.function([x, s], [out, mean, *grad((out**2).sum(), [x, s])])
        got = f(X, [[2.0]])
        want = normalized(X, np.full((1, 3), 2.0), np.full((1, 3), 2.0), (0,))
        utt.assert_allclose(got[0], want[0])
        self.assertEqual((got[1].shape, got[3].shape), ((1, 3), (1, 1)))

    def test_errors(self):
        x, v, m = T.matrix(), T.vector(), T.matrix()
        x4 = T.tensor4()
        for message, arguments in (
            ("invalid axes: foo", (x, v, v, "foo")),
            ("invalid axes: 0", (x, v, v, 0)),
            ("invalid axes", (x, v, v, (0.5,))),
            (r"axes should be less than ndim \(<2\)", (x, v, v, (2,))),
            (r"axes should be less than ndim \(<2\)", (x, v, v, (-1,))),
            ("at least one normalization axis", (x, m, m, ())),
            ("got 2 and 2 instead of 1", (x4, m, m, "spatial")),
            ("got 1 and 4 instead of 1", (x4, v, x4, "spatial")),
            ("epsilon must be at least 1e-5, got 1e-06", (x, v, v, (0,), 1e-6)),
            ("must either both be given", (x, v, v, (0,), 1e-4, 0.1, v)),
            ("running_mean must be of the same dimensionality", (x, v, v, (0,), 1e-4, 0.1, m, v)),
            ("running_var must be of the same dimensionality", (x, v, v, (0,), 1e-4, 0.1, v, m)),
        ):
            with self.assertRaisesRegex(ValueError, message):
                batch_normalization_train(*arguments)
        batch_normalization_train(x, v, v, epsilon=1e-5)
        with self.assertRaisesRegex(ValueError, "mean and var must be of the same dimensionality"):
            batch_normalization_test(x, v, v, v, m)
        with self.assertRaisesRegex(ValueError, "epsilon"):
            batch_normalization_test(x, v, v, v, v, epsilon=0)
        with self.assertRaisesRegex(TypeError, "complex"):
            batch_normalization_train(T.zmatrix(), v, v)
        with self.assertRaisesRegex(TypeError, "complex"):
            AbstractBatchNormTrainGrad((0,))(x, T.zmatrix(), *[T.row() for _ in range(3)])
        with self.assertRaisesRegex(ValueError, "axes must be a tuple"):
            AbstractBatchNormTrain(0)

    def test_identity_and_pickles(self):
        for op in (
            AbstractBatchNormTrain,
            AbstractBatchNormTrainGrad,
            AbstractBatchNormInference,
            BatchNormTrain,
            BatchNormTrainGrad,
        ):
            self.assertEqual(op((0, 2)), pickle.loads(pickle.dumps(op((0, 2)))))
            self.assertNotEqual(op((0, 2)), op((0,)))
            self.assertEqual(op((0,)).axes, (0,))


class TestDerivatives(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.RandomState(8)
        self.x, self.row = self.rng.randn(4, 3), (1, 3)
        self.stats = [self.rng.uniform(0.5, 2, self.row) for _ in range(4)]

    def test_train(self):
        op = AbstractBatchNormTrain((0,))
        rows = lambda *v: [v[0]] + [T.addbroadcast(s, 0) for s in v[1:]]
        train = lambda *v: op(*rows(*v[:3]), 1e-2, 0.3, *rows(*v[2:])[1:])
        utt.verify_grad(lambda x, s, b: train(x, s, b, *self.stats[2:])[0], [self.x, *self.stats[:2]], rng=self.rng)
        for i in (1, 2):
            utt.verify_grad(lambda x, i=i: train(x, *self.stats)[i], [self.x], rng=self.rng)
        for i in (3, 4):
            utt.verify_grad(
                lambda x, r, i=i: train(x, *self.stats[:2], *[r if k == i else self.stats[k - 1] for k in (3, 4)])[i],
                [self.x, self.stats[2]],
                rng=self.rng,
            )
        # check derivatives with respect to epsilon and to the factor of the running average
        utt.verify_grad(lambda x, e: op(x, *[s for s in self.stats[:2]], e)[0], [self.x, np.array(0.1)], rng=self.rng)
        utt.verify_grad(lambda e: op(self.x, *self.stats[:2], e)[2], [np.array(0.1)], rng=self.rng)
        for i in (3, 4):
            utt.verify_grad(
                lambda f, i=i: op(self.x, *self.stats[:2], 0.1, f, *self.stats[2:])[i], [np.array(0.3)], rng=self.rng
            )

    def test_second_derivatives(self):
        op = AbstractBatchNormTrainGrad((0,))
        values = [self.x, self.rng.randn(4, 3), *self.stats[:3]]
        rows = lambda v: [*v[:2], *[T.addbroadcast(s, 0) for s in v[2:]]]
        utt.verify_grad(lambda *v: op(*rows(v), 1e-4)[0], values, rng=self.rng)
        utt.verify_grad(
            lambda x, dy, m, r: op(*rows([x, dy, self.stats[0], m, r]), 1e-4)[1], values[:2] + values[3:], rng=self.rng
        )
        utt.verify_grad(lambda dy: op(*rows([self.x, dy, *self.stats[:3]]), 1e-4)[2], values[1:2], rng=self.rng)
        # Check the second derivative of the whole normalization.
        whole = lambda x: grad((batch_normalization_train(x, np.ones(3), np.zeros(3))[0] ** 3).sum(), x)
        utt.verify_grad(whole, [self.x], rng=self.rng)

    def test_given_statistics(self):
        op = AbstractBatchNormInference((0,))
        test = lambda x, *s: op(x, *[T.addbroadcast(v, 0) for v in s[:4]], *s[4:])
        utt.verify_grad(test, [self.x, *self.stats], rng=self.rng)
        utt.verify_grad(lambda e: op(self.x, *self.stats, e), [np.array(0.5)], rng=self.rng)

    def test_rewritten_as_unrewritten(self):
        x, g, b, m, v = T.matrix(), *T.vectors(4)
        out, mean, invstd, new_mean, new_var = batch_normalization_train(x, g, b, running_mean=m, running_var=v)
        cost = (out**3).sum() + (mean * invstd).sum() + (new_mean * new_var).sum()
        wrt = [x, g, b, m, v]
        graph = [cost, *grad(cost, wrt), grad((grad(cost, x) ** 2).sum(), g)]
        test = (batch_normalization_test(x, g, b, m, v) ** 3).sum()
        graph += [test, *grad(test, wrt)]
        values = [self.x, *[s[0] for s in self.stats]]
        fast = theano.function(wrt, graph)(*values)
        slow = theano.function(wrt, graph, mode=UNREWRITTEN)(*values)
        for a, b in zip(fast, slow):
            utt.assert_allclose(a, b)

    def test_directions(self):
        """R_op of every Op is the transpose of its gradient, for single inputs and for all inputs together."""
        x, dy, stats = T.matrix(), T.matrix(), [T.row() for _ in range(4)]
        e, f = T.dscalar(), T.dscalar()
        values = {
            x: self.x,
            dy: self.rng.randn(4, 3),
            e: np.array(0.1),
            f: np.array(0.3),
            **dict(zip(stats, self.stats)),
        }
        for op, inputs in (
            (AbstractBatchNormTrain((0,)), [x, *stats[:2], e, f, *stats[2:]]),
            (BatchNormTrain((0,)), [x, *stats[:2], e]),
            (AbstractBatchNormTrainGrad((0,)), [x, dy, *stats[:3]]),
            (BatchNormTrainGrad((0,)), [x, dy, *stats[:3], e]),
            (AbstractBatchNormInference((0,)), [x, *stats, e]),
        ):
            outputs = op(*inputs)
            outputs = outputs if isinstance(outputs, list) else [outputs]
            moved = [i for i in inputs if not (isinstance(op, AbstractBatchNormTrainGrad) and i is e)]
            for one_by_one in (False, True):
                for group in [[i] for i in moved] if one_by_one else [moved]:
                    directions = [np.asarray(self.rng.standard_normal(values[i].shape)) for i in group]
                    for out in outputs:
                        weight = (
                            self.rng.standard_normal((4, 3))
                            if out.broadcastable == (False, False)
                            else self.rng.randn(1, 3)
                        )
                        forward = Rop(
                            out,
                            group,
                            [T.patternbroadcast(T.constant(d), i.broadcastable) for d, i in zip(directions, group)],
                        )
                        backward = grad((out * weight).sum(), group, disconnected_inputs="ignore")
                        left, *right = theano.function(
                            inputs, [(forward * weight).sum()] + backward, mode=UNREWRITTEN, on_unused_input="ignore"
                        )(*[values[i] for i in inputs])
                        utt.assert_allclose(left, sum((a * d).sum() for a, d in zip(right, directions)))

    def test_not_connected(self):
        x, g, b = T.matrix(), T.vector(), T.vector()
        out, mean, invstd = batch_normalization_train(x, g, b)
        for statistic in (mean, invstd):
            grad(statistic.sum(), x)
            with self.assertRaises(DisconnectedInputError):
                grad(statistic.sum(), g)


class TestGivenMeanAndDeviation(unittest.TestCase):
    """Tests of `batch_normalization`."""

    def test_both_modes(self):
        rng = np.random.RandomState(9)
        x, g, b, m, s = T.matrix(), *[T.row() for _ in range(4)]
        X, values = rng.randn(4, 3), [rng.uniform(0.5, 2, (1, 3)) for _ in range(4)]
        want = (X - values[2]) * values[0] / values[3] + values[1]
        for mode in ("low_mem", "high_mem"):
            out = batch_normalization(x, g, b, m, s, mode=mode)
            utt.assert_allclose(theano.function([x, g, b, m, s], out)(X, *values), want)
            utt.verify_grad(
                lambda *v: batch_normalization(v[0], *[T.addbroadcast(a, 0) for a in v[1:]], mode=mode),
                [X, *values],
                rng=rng,
                mode=UNREWRITTEN,
            )
        self.assertEqual(
            len(theano.function([x, g, b, m, s], batch_normalization(x, g, b, m, s)).maker.fgraph.apply_nodes), 1
        )

    def test_dtypes_and_ranks(self):
        v = T.vector()
        self.assertEqual(batch_normalization(T.matrix(), v, v, v, v).ndim, 2)
        for dtypes, expected in (
            (("float32",) * 2, "float32"),
            (("float32", "float64"), "float64"),
            (("int32", "float32"), "float64"),
        ):
            x, row = T.TensorType(dtypes[0], (False,) * 2)(), T.TensorType(dtypes[1], (True, False))()
            self.assertEqual(batch_normalization(x, row, row, row, row).dtype, expected)
        self.assertEqual(bn.BNComposite("float32"), bn.BNComposite("float32"))
        self.assertEqual(pickle.loads(pickle.dumps(bn.BNComposite("float32"))), bn.BNComposite("float32"))

    def test_unknown_mode(self):
        row = T.row()
        with self.assertRaisesRegex(ValueError, '"low_mem" or "high_mem"'):
            batch_normalization(T.matrix(), row, row, row, row, mode="no_mem")


if __name__ == "__main__":
    unittest.main()
