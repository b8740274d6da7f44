"""Tests of batch normalization by cuDNN, on a fake library."""

import unittest
from ctypes import POINTER, byref, cast

import numpy as np

from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.device.tests.cudnn import CODES, EXECUTION_FAILED, Tensor, WithCudnn

PER_ACTIVATION, SPATIAL = range(2)


def axes_of(mode, ndim):
    return (0,) if mode == PER_ACTIVATION else (0, *range(2, ndim))


class Case:
    """Random arrays of a normalization.

    Attributes
    ----------
    x, y, dy, dx : Tensor
        Arrays with one shape, and different orders in memory.
    scale, bias, mean, spread, running_mean, running_variance, dscale, dbias : Tensor
        The statistics.
    """

    def __init__(self, test, dtype, mode, shape):
        rng, wide = test.rng, "float64" if dtype == "float64" else "float32"
        self.test, self.mode, self.axes, self.epsilon = test, mode, axes_of(mode, len(shape)), 1e-3
        for name in ("x", "y", "dy", "dx"):
            order, extra = rng.permutation(len(shape)), int(rng.integers(0, 3))
            setattr(
                self, name, Tensor(test, test.context, rng.uniform(-2, 2, shape).astype(dtype), order, extra, extra)
            )
        kept = [1 if axis in self.axes else n for axis, n in enumerate(shape)]
        for name in "scale bias mean spread running_mean running_variance dscale dbias".split():
            setattr(self, name, Tensor(test, test.context, rng.uniform(0.5, 2, kept).astype(wide)))
        self.m = np.prod(shape) // np.prod(kept)
        self.tolerance = 1e-2 if dtype == "float16" else 1e-4 if dtype == "float32" else None

    def value(self, name):
        return getattr(self, name).value.astype("float64")

    def arguments(self):
        tensors = [
            cast(getattr(self, name).pointer, POINTER(native.DnnTensor))
            for name in ("x", "y", "scale", "bias", "mean", "spread")
        ]
        return byref(native.DnnNormalization(self.mode, self.epsilon, *tensors))

    def train(self, factor=None):
        running = [None, None] if factor is None else [self.running_mean.pointer, self.running_variance.pointer]
        context = self.test.context
        context.check(self.test.library.cudnn_normalize(context.pointer, self.arguments(), factor or 0, *running))

    def by_given(self):
        self.test.context.check(self.test.library.cudnn_normalize_by(self.test.context.pointer, self.arguments()))

    def gradient(self):
        tensors = [getattr(self, name).pointer for name in ("dy", "dx", "dscale", "dbias")]
        self.test.context.check(
            self.test.library.cudnn_normalize_gradient(self.test.context.pointer, self.arguments(), *tensors)
        )

    def check_train(self, factor=None):
        x, old_mean, old_variance = [self.value(name) for name in ("x", "running_mean", "running_variance")]
        mean, variance = x.mean(self.axes, keepdims=True), x.var(self.axes, keepdims=True)
        invstd = 1 / np.sqrt(variance + self.epsilon)
        self.train(factor)
        self.mean.check(mean, self.tolerance)
        self.spread.check(invstd, self.tolerance)
        self.y.check((x - mean) * invstd * self.value("scale") + self.value("bias"), self.tolerance)
        if factor is not None:
            self.running_mean.check(old_mean * (1 - factor) + mean * factor, self.tolerance)
            unbiased = variance * self.m / (self.m - 1)
            self.running_variance.check(old_variance * (1 - factor) + unbiased * factor, self.tolerance)

    def check_gradient(self):
        self.gradient()
        x, dy, scale, mean, invstd = [self.value(name) for name in ("x", "dy", "scale", "mean", "spread")]
        normal = (x - mean) * invstd
        total, product = [v.sum(self.axes, keepdims=True) for v in (dy, dy * normal)]
        self.dbias.check(total, self.tolerance)
        self.dscale.check(product, self.tolerance)
        tolerance = 0.05 if self.dx.memory.dtype == "float16" else self.tolerance
        self.dx.check(scale * invstd * (dy - total / self.m - normal * product / self.m), tolerance)


class TestNormalization(WithCudnn):
    def setUp(self):
        super().setUp()
        self.context = self.open()

    def cases(self):
        for case in range(60):
            nd, mode = 4 + case % 2, case // 2 % 2
            shape = (int(self.rng.integers(2, 6)), *map(int, self.rng.integers(1, 5, nd - 1)))
            dtype = list(CODES)[case // 4 % 3]
            with self.subTest(shape=shape, mode=mode, dtype=dtype):
                yield Case(self, dtype, mode, shape)

    def test_training(self):
        for k, case in enumerate(self.cases()):
            case.check_train(None if k % 3 == 0 else 0.3)

    def test_given_statistics(self):
        for case in self.cases():
            case.by_given()
            x, scale, bias, mean, variance = [case.value(name) for name in "x scale bias mean spread".split()]
            case.y.check((x - mean) * scale / np.sqrt(variance + case.epsilon) + bias, case.tolerance)

    def test_gradient(self):
        for case in self.cases():
            case.check_gradient()

    def test_in_place(self):
        case = Case(self, "float32", SPATIAL, (3, 2, 4, 2))
        case.y = case.x
        case.check_train()

    def test_failing_calls(self):
        case = Case(self, "float32", SPATIAL, (3, 2, 4, 2))
        for name, call in (
            ("ForwardTraining", case.check_train),
            ("ForwardInference", case.by_given),
            ("Backward", case.check_gradient),
        ):
            name = "cudnnBatchNormalization" + name
            self.fake.fake_fail(name.encode(), EXECUTION_FAILED, 0)
            with self.assertRaisesRegex(
                native.DeviceError,
                name + r": .*EXECUTION_FAILED.*batch normalization of arrays with shapes \(3, 2, 4, 2\) float32, \(",
            ):
                call()
            call()

    def test_negative_epsilon(self):
        case = Case(self, "float32", SPATIAL, (3, 2, 4, 2))
        case.epsilon = -1.0
        with self.assertRaisesRegex(native.DeviceError, "BAD_PARAM"):
            case.train()


if __name__ == "__main__":
    unittest.main()
