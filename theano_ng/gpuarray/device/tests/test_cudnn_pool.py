"""Tests of pooling by cuDNN, on a fake library."""

import itertools
import unittest
from ctypes import byref, c_int

import numpy as np

from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.device.tests.cudnn import CODES, EXECUTION_FAILED, Tensor, WithCudnn

MAX, WITH_MARGIN, WITHOUT_MARGIN, DETERMINISTIC = range(4)
MODES = (MAX, WITH_MARGIN, WITHOUT_MARGIN, DETERMINISTIC)


def windows_of(shape, ws, stride, pad):
    """Yield, for each complete window of an image with this shape, its index and the slices of its elements."""
    nd = len(ws)
    counts = [max(0, (n + 2 * p - w) // s + 1) for n, w, s, p in zip(shape[-nd:], ws, stride, pad)]
    for index in itertools.product(*map(range, counts)):
        firsts = [i * s - p for i, s, p in zip(index, stride, pad)]
        region = [slice(max(first, 0), min(first + w, n)) for first, w, n in zip(firsts, ws, shape[-nd:])]
        yield (Ellipsis, *index), (Ellipsis, *region)


def shape_of(shape, ws, stride, pad):
    nd = len(ws)
    return (*shape[:-nd], *[(n + 2 * p - w) // s + 1 for n, w, s, p in zip(shape[-nd:], ws, stride, pad)])


def pooled(x, mode, ws, stride, pad):
    """Return the pooled array, and for each window the number by which sums are divided."""
    nd = len(ws)
    axes = tuple(range(-nd, 0))
    y = np.empty(shape_of(x.shape, ws, stride, pad))
    for place, region in windows_of(x.shape, ws, stride, pad):
        if mode in (MAX, DETERMINISTIC):
            y[place] = x[region].max(axes)
        else:
            y[place] = x[region].sum(axes) / divisor(x[region], mode, ws)
    return y


def divisor(part, mode, ws):
    return np.prod(ws) if mode == WITH_MARGIN else np.prod(part.shape[-len(ws) :])


def gradient(x, y, dy, mode, ws, stride, pad):
    """Return the gradient with respect to x, whose elements are all different."""
    dx, spread = np.zeros(x.shape), (Ellipsis, *[None] * len(ws))
    for place, region in windows_of(x.shape, ws, stride, pad):
        if mode in (MAX, DETERMINISTIC):
            dx[region] += np.where(x[region] == y[place][spread], dy[place][spread], 0)
        else:
            dx[region] += dy[place][spread] / divisor(x[region], mode, ws)
    return dx


class TestPooling(WithCudnn):
    def setUp(self):
        super().setUp()
        self.context = self.open()

    def windows(self, mode, ws, stride, pad):
        as_three = [(c_int * 3)(*values) for values in (ws, pad, stride)]
        return native.DnnWindows(mode, len(ws), *as_three)

    def different(self, dtype, shape):
        """Return random elements of which no two are equal."""
        n = int(np.prod(shape))
        return (self.rng.permutation(n).reshape(shape) / 32 - n / 64).astype(dtype)

    def forward(self, windows, x, y):
        self.context.check(self.library.cudnn_pool(self.context.pointer, byref(windows), x.pointer, y.pointer))

    def backward(self, windows, *tensors):
        pointers = [t.pointer for t in tensors]
        self.context.check(self.library.cudnn_pool_gradient(self.context.pointer, byref(windows), *pointers))

    def check(self, dtype, mode, shape, ws, stride, pad):
        windows = self.windows(mode, ws, stride, pad)
        value = self.different(dtype, shape)
        exact = pooled(value.astype("float64"), mode, ws, stride, pad)
        x, y = Tensor(self, self.context, value), Tensor(self, self.context, np.zeros(exact.shape, dtype))
        self.forward(windows, x, y)
        y.check(exact, 1e-2 if dtype == "float16" else None)
        dy = Tensor(self, self.context, self.rng.uniform(-1, 1, exact.shape).astype(dtype))
        dx = Tensor(self, self.context, np.zeros(shape, dtype))
        self.backward(windows, y, dy, x, dx)
        expected = gradient(
            value.astype("float64"), y.read_value().astype("float64"), dy.value.astype("float64"), mode, ws, stride, pad
        )
        dx.check(expected, 1e-2 if dtype == "float16" else None)

    def test_numbers(self):
        for dtype, mode in itertools.product(CODES, MODES):
            for shape, ws, stride, pad in (
                ((2, 3, 4, 6), (2, 2), (2, 2), (0, 0)),
                ((2, 1, 5, 4), (3, 2), (1, 2), (1, 0)),
                ((1, 2, 4, 5, 3), (2, 3, 1), (1, 2, 1), (1, 2, 0)),
            ):
                with self.subTest(dtype=dtype, mode=mode, shape=shape):
                    self.check(dtype, mode, shape, ws, stride, pad)

    def test_random_windows(self):
        for case in range(150):
            nd = int(self.rng.integers(2, 4))
            shape = tuple(self.rng.integers(1, 7, 2 + nd))
            ws = self.rng.integers(1, 5, nd)
            pad = np.array([self.rng.integers(0, w) for w in ws])
            ws = np.minimum(ws, np.array(shape[2:]) + 2 * pad)
            pad = np.minimum(pad, ws - 1)
            stride = self.rng.integers(1, 5, nd)
            arguments = list(CODES)[case % 3], case // 3 % 4, shape, *[tuple(map(int, v)) for v in (ws, stride, pad)]
            with self.subTest(arguments):
                self.check(*arguments)

    def test_nan_and_infinity(self):
        """NaN is kept, also by maxima."""
        value = self.different("float32", (1, 1, 4, 8))
        value[..., 0, 0], value[..., 1, 2], value[..., 2:, 4:6], value[..., 0, 6] = np.nan, np.inf, -np.inf, -np.inf
        for mode in MODES:
            windows = self.windows(mode, (2, 2), (2, 2), (0, 0))
            x = Tensor(self, self.context, value)
            y = Tensor(self, self.context, np.zeros((1, 1, 2, 4), "float32"))
            self.forward(windows, x, y)
            y.check(pooled(value.astype("float64"), mode, (2, 2), (2, 2), (0, 0)))

    def test_descriptors_are_kept(self):
        for _ in range(3):
            self.check("float32", MAX, (2, 3, 4, 4), (2, 2), (2, 2), (0, 0))
        self.assertEqual(self.dnn.descriptors, 3)

    def test_failing_calls(self):
        windows, others = [self.windows(mode, (2, 2), (2, 2), (0, 0)) for mode in (MAX, DETERMINISTIC)]
        x, dx = [Tensor(self, self.context, self.different("float32", (2, 3, 4, 4))) for _ in range(2)]
        y, dy = [Tensor(self, self.context, np.zeros((2, 3, 2, 2), "float32")) for _ in range(2)]
        for name, call, what in (
            ("cudnnCreatePoolingDescriptor", lambda: self.forward(windows, x, y), "pooling"),
            ("cudnnSetPoolingNdDescriptor", lambda: self.forward(others, x, y), "pooling"),
            ("cudnnPoolingForward", lambda: self.forward(windows, x, y), "pooling"),
            ("cudnnPoolingBackward", lambda: self.backward(windows, y, dy, x, dx), "the gradient of pooling"),
        ):
            self.fake.fake_fail(name.encode(), EXECUTION_FAILED, 0)
            said = r"%s: CUDNN_STATUS_EXECUTION_FAILED \(the reason\), in %s of arrays with shapes \(2, 3, " % (
                name,
                what,
            )
            with self.assertRaisesRegex(native.DeviceError, said):
                call()
            call()
        y.check(pooled(x.value, MAX, (2, 2), (2, 2), (0, 0)))

    def test_strides_of_the_last_axis(self):
        """The library refuses elements that are not adjacent."""
        x = Tensor(self, self.context, self.different("float32", (2, 3, 4, 4)), (0, 2, 3, 1))
        y = Tensor(self, self.context, np.zeros((2, 3, 2, 2), "float32"))
        with self.assertRaises(native.DeviceError) as caught:
            self.forward(self.windows(MAX, (2, 2), (2, 2), (0, 0)), x, y)
        self.assertEqual(caught.exception.code, native.GA_UNSUPPORTED_ERROR)


if __name__ == "__main__":
    unittest.main()
