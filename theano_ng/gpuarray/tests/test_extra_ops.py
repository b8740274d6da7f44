"""Tests of cumulative sums and products, and of maxima with their indices, on devices."""

import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gpuarray import extra_ops, reduction
from theano_ng.gpuarray.basic_ops import as_gpuarray_variable, host_from_gpu
from theano_ng.gpuarray.extra_ops import GpuCumOp, GpuCumsumOp
from theano_ng.gpuarray.reduction import GpuMaxAndArgmax
from theano_ng.gpuarray.tests.device import LAYOUTS, allow_nan, context, gpu_variable, placed


class TestCumulation(unittest.TestCase):
    def setUp(self):
        self.context = context()
        self.rng = np.random.default_rng(4)

    def test_against_numpy(self):
        x = gpu_variable("float64", 3, self.context)
        axes = (0, 1, -1, None)
        f = theano.function([x], [host_from_gpu(GpuCumOp(axis, mode)(x)) for axis in axes for mode in ("add", "mul")])
        for layout, shape in zip(LAYOUTS, ((3, 4, 5), (2, 1, 7), (1, 3, 2), (4, 2, 3))):
            value = self.rng.standard_normal(shape)
            expected = [function(value, axis) for axis in axes for function in (np.cumsum, np.cumprod)]
            for result, right in zip(f(placed(value, layout, self.context)), expected):
                np.testing.assert_array_equal(result, right)  # NumPy adds the terms in the same order
        for shape in ((0, 2, 3), (2, 3, 0)):
            for result, axis in zip(f(np.ones(shape))[::2], axes):
                self.assertEqual(result.shape, np.cumsum(np.ones(shape), axis).shape)

    def function(self, dtype, mode, shortest):
        """Return a function that computes cumulative sums or products of rows by work groups.

        `_THREADS` is so high that every array has too few lines for one thread per line. A row is cut into pieces of at
        least `shortest` elements, which several groups process.
        """
        x = gpu_variable(dtype, 2, self.context)
        with mock.patch.multiple(extra_ops, _THREADS=1000, _SHORTEST=shortest):
            return theano.function([x], host_from_gpu(GpuCumOp(1, mode)(x)))

    def test_by_groups(self):
        """Cumulative sums and products are correct if work groups compute them."""
        for dtype, mode in (("float32", "add"), ("float64", "mul"), ("int32", "add"), ("uint8", "add")):
            for shortest, lengths in ((4096, (512, 777, 3000)), (64, (512, 777, 3000))):
                f = self.function(dtype, mode, shortest)
                for length in lengths:
                    value = (
                        (self.rng.random((3, length)) + 0.5).astype(dtype)
                        if dtype.startswith("f")
                        else self.rng.integers(0, 9, (3, length)).astype(dtype)
                    )
                    function = np.cumsum if mode == "add" else np.cumprod
                    expected = function(value, 1, dtype=dtype)
                    given = placed(value, "reversed", self.context)
                    result = f(given)
                    if dtype.startswith("f"):
                        np.testing.assert_allclose(result, expected, rtol=1e-4 if dtype == "float32" else 1e-11)
                        np.testing.assert_array_equal(f(given), result)  # the order of additions is always the same
                    else:
                        np.testing.assert_array_equal(result, expected)

    def test_nan_in_a_piece(self):
        """NaN and infinity occur from their place on, also in the pieces of other groups."""
        allow_nan(self)
        value = np.ones((2, 1000), "float32")
        value[0, 100], value[1, 130], value[1, 600] = np.nan, np.inf, -np.inf
        with np.errstate(invalid="ignore"):
            expected = np.cumsum(value, 1)
        np.testing.assert_array_equal(self.function("float32", "add", 64)(value), expected)

    def test_dtypes(self):
        for dtype in ("bool", "int8", "uint16", "float16", "uint64"):
            x = gpu_variable(dtype, 1, self.context)
            z = GpuCumsumOp(0)(x)
            self.assertEqual(z.dtype, "int64" if dtype == "bool" else dtype)
            value = np.array([1, 0, 100, 3, 50, 1]).astype(dtype)
            np.testing.assert_array_equal(
                theano.function([x], host_from_gpu(z))(value), np.cumsum(value, dtype=z.dtype)
            )

    def test_derivatives(self):
        x, v = T.dvectors("x", "v")
        y = host_from_gpu(GpuCumOp(0, "mul")(as_gpuarray_variable(x, self.context)))
        f = theano.function([x, v], [theano.grad((y * np.arange(1.0, 4)).sum(), x), T.Rop(y, x, v)])
        gradient, direction = f([2, 3, 5], [1, 1, 1])
        np.testing.assert_allclose(gradient, [1 + 6 + 45, 4 + 30, 18])
        np.testing.assert_allclose(direction, [1, 5, 31])

    def test_wrong(self):
        with self.assertRaisesRegex(ValueError, "Unknown mode"):
            GpuCumOp(0, "div")
        with self.assertRaisesRegex(ValueError, "out of bounds"):
            GpuCumOp(1)(gpu_variable("float32", 1, self.context))


class TestMaxAndArgmax(unittest.TestCase):
    def setUp(self):
        self.context = context()
        self.rng = np.random.default_rng(5)

    def check(self, f, op_axes, value, layout):
        kept = [i for i in range(value.ndim) if i not in op_axes]
        rows = value.transpose(kept + list(op_axes))
        rows = rows.reshape([*rows.shape[: len(kept)], -1])
        largest, place = f(placed(value, layout, self.context))
        self.assertEqual((largest.dtype, place.dtype), (value.dtype, np.int64))
        np.testing.assert_array_equal(place, rows.argmax(-1))
        np.testing.assert_array_equal(largest, rows.max(-1))

    def compiled(self, dtype, ndim, axes):
        x = gpu_variable(dtype, ndim, self.context)
        # The arrays contain NaN, which DebugMode treats as an error by default.
        mode = theano.compile.mode.get_default_mode()
        mode = theano.compile.DebugMode(check_isfinite=False) if isinstance(mode, theano.compile.DebugMode) else mode
        return theano.function([x], [host_from_gpu(v) for v in GpuMaxAndArgmax(axes)(x)], mode=mode)

    def value(self, shape):
        """Return an array with NaN and equal elements."""
        value = self.rng.integers(0, 6, shape).astype("float32")
        value[self.rng.random(shape) < 0.02] = np.nan
        return value

    def test_against_numpy(self):
        for threads, shortest in ((-1, 4096), (1000, 4096), (1000, 64)):
            with mock.patch.multiple(reduction, _THREADS=threads, _SHORTEST=shortest):
                for axes in ((0,), (1,), (0, 2), None):
                    f = self.compiled("float32", 3, axes)
                    for layout, shape in zip(LAYOUTS, ((4, 5, 3), (7, 1, 2), (1, 300, 2), (20, 3, 30))):
                        self.check(f, (0, 1, 2) if axes is None else axes, self.value(shape), layout)

    def test_pieces_of_a_line(self):
        """Several groups search a line. The first of equal maxima wins, and so does the first NaN, in any piece."""
        for dtype in ("float32", "float16", "int64", "bool"):
            with mock.patch.multiple(reduction, _THREADS=4000, _SHORTEST=64):
                f = self.compiled(dtype, 2, (1,))
            value = np.zeros((2, 3000), dtype)
            self.check(f, (1,), value, "C")
            for places in ((2999,), (64, 63), (2000, 700, 1900)):
                value[:, places] = 1
                self.check(f, (1,), value, "reversed")
                if dtype.startswith("f"):
                    value[1, places] = np.nan
                    self.check(f, (1,), value, "strided")

    def test_dtypes(self):
        for dtype in ("bool", "int8", "uint64", "float16"):
            f = self.compiled(dtype, 2, (1,))
            self.check(f, (1,), self.rng.integers(0, 100, (3, 9)).astype(dtype), "C")

    def test_infinities(self):
        f = self.compiled("float32", 2, (1,))
        value = np.array([[-np.inf, -np.inf], [np.inf, np.nan], [-np.inf, np.inf], [np.nan, np.nan]], "float32")
        self.check(f, (1,), value, "C")

    def test_nothing(self):
        f = self.compiled("float32", 2, (1,))
        self.assertEqual(f(np.zeros((0, 3), "float32"))[0].shape, (0,))
        self.assertEqual(f(np.zeros((0, 0), "float32"))[0].shape, (0,))
        with self.assertRaisesRegex(ValueError, "empty dimension"):
            f(np.zeros((2, 0), "float32"))

    def test_axes(self):
        with self.assertRaisesRegex(ValueError, "out of range"):
            GpuMaxAndArgmax((2,))(gpu_variable("float32", 2, self.context))
        x = gpu_variable("float32", 2, self.context)
        largest, place = GpuMaxAndArgmax((0,))(x)
        self.assertEqual((largest.type.context_name, place.dtype), (self.context, "int64"))
        np.testing.assert_array_equal(theano.function([x], place.shape)(np.zeros((2, 3), "float32")), [3])

    def test_gradient(self):
        x = T.matrix(dtype="float64")
        largest = host_from_gpu(GpuMaxAndArgmax((1,))(as_gpuarray_variable(x, self.context))[0])
        gradient = theano.grad((largest * np.array([1.0, 10.0])).sum(), x)
        np.testing.assert_array_equal(gradient.eval({x: np.array([[1.0, 3, 2], [5, 4, 3]])}), [[0, 1, 0], [10, 0, 0]])
