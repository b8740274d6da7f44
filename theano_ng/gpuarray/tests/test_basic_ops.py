"""Tests of Ops that create, join, split and reshape arrays on devices."""

import pickle
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gpuarray.alloc import GpuAlloc, GpuAllocEmpty, empty_like
from theano_ng.gpuarray.basic_ops import as_gpuarray_variable, gpu_contiguous, host_from_gpu
from theano_ng.gpuarray.creation import GpuEye, GpuTri
from theano_ng.gpuarray.joining import GpuJoin, GpuSplit, gpu_join
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.reshaping import GpuReshape
from theano_ng.gpuarray.tests.device import LAYOUTS, context, gpu_variable, placed
from theano_ng.gpuarray.type import GpuArrayType


def compiled(inputs, outputs, **kwargs):
    return theano.function(inputs, [theano.Out(host_from_gpu(v), borrow=True) for v in outputs], **kwargs)


class WithDevice(unittest.TestCase):
    def setUp(self):
        self.context = context()
        self.rng = np.random.default_rng(6)


class TestAlloc(WithDevice):
    def test_values(self):
        x, n = gpu_variable("float32", 2, self.context), T.lscalar()
        row = GpuArrayType("float32", (True, False), self.context)()
        f = compiled(
            [x, row, n],
            [
                GpuAlloc(self.context)(x, n, 2, 3),
                GpuAlloc(self.context)(row, n, 3),
                GpuAlloc(self.context)(np.int8(5), n, n),
            ],
        )
        for layout in LAYOUTS:
            value, line = self.rng.random((2, 3)).astype("float32"), self.rng.random((1, 3)).astype("float32")
            for count in (4, 1, 0):
                got = f(placed(value, layout, self.context), placed(line, layout, self.context), count)
                expected = [
                    np.broadcast_to(value, (count, 2, 3)),
                    np.broadcast_to(line, (count, 3)),
                    np.full((count, count), 5, "int8"),
                ]
                for result, right in zip(got, expected):
                    np.testing.assert_array_equal(result, right)
        with self.assertRaisesRegex(ValueError, "negative dimensions are not allowed"):
            f(np.ones((2, 3), "float32"), np.ones((1, 3), "float32"), -1)
        with self.assertRaisesRegex(
            ValueError, r"could not broadcast input array from shape \(4, ?3\) into shape \(1, ?2, ?3\)"
        ):
            f(np.ones((4, 3), "float32"), np.ones((1, 3), "float32"), 1)
        with self.assertRaisesRegex(TypeError, "more dimensions"):
            GpuAlloc(self.context)(x, n)
        with self.assertRaisesRegex(TypeError, "must be integers"):
            GpuAlloc(self.context)(x, 2.5, 2)

    def test_zeros(self):
        n = T.lscalar()
        for dtype in ("float16", "int64", "bool"):
            z = GpuAlloc(self.context, memset_0=True)(np.zeros((), dtype), n, 3)
            result = compiled([n], [z])(2)[0]
            self.assertEqual(result.dtype, dtype)
            np.testing.assert_array_equal(result, np.zeros((2, 3)))
        self.assertNotEqual(GpuAlloc(self.context), GpuAlloc(self.context, memset_0=True))
        self.assertEqual(str(GpuAlloc("a", True)), "GpuAlloc<a>{memset_0=True}")

    def test_empty(self):
        n = T.lscalar()
        z = GpuAllocEmpty("float32", self.context)(n, 3)
        f = theano.function([n], theano.Out(z, borrow=True))
        self.assertEqual((f(5).shape, f(5).dtype), ((5, 3), "float32"))
        x = gpu_variable("int16", 2, self.context)
        same = empty_like(x)
        self.assertEqual(same.type, x.type)
        self.assertEqual(theano.function([x], theano.Out(same, borrow=True))(np.ones((2, 5), "int16")).shape, (2, 5))
        with self.assertRaises(TypeError):
            empty_like(T.vector())

    def test_gradient(self):
        x = T.vector(dtype="float64")
        z = host_from_gpu(GpuAlloc(self.context)(as_gpuarray_variable(x, self.context), 2, 3))
        gradient = theano.grad((z * np.arange(6.0).reshape(2, 3)).sum(), x)
        np.testing.assert_array_equal(gradient.eval({x: np.ones(3)}), [3, 5, 7])


class TestDiagonalMatrices(WithDevice):
    def test_against_numpy(self):
        n, m, k = T.lscalars("n", "m", "k")
        dtypes = ("float32", "float16", "bool", "int64")
        f = compiled([n, m, k], [cls(dtype, self.context)(n, m, k) for dtype in dtypes for cls in (GpuEye, GpuTri)])
        for rows, columns, diagonal in (
            (3, 5, 0),
            (5, 3, 1),
            (4, 4, -2),
            (2, 3, 9),
            (2, 3, -9),
            (1, 1, 2**62),
            (0, 3, 0),
            (2, 2, -(2**63)),
        ):
            got = f(rows, columns, diagonal)
            near = min(max(diagonal, -20), 20)
            expected = [function(rows, columns, near, dtype=dtype) for dtype in dtypes for function in (np.eye, np.tri)]
            for result, right in zip(got, expected):
                self.assertEqual(result.dtype, right.dtype)
                np.testing.assert_array_equal(result, right)

    def test_props(self):
        self.assertEqual(GpuEye("float32", "a"), GpuEye("float32", "a"))
        self.assertNotEqual(GpuEye("float32", "a"), GpuEye("float32", "b"))
        self.assertEqual(GpuEye().dtype, theano.config.floatX)
        n = T.lscalar()
        z = GpuTri("float32", self.context)(n, 3, 0)
        np.testing.assert_array_equal(theano.function([n], z.shape)(2), [2, 3])
        again = pickle.loads(pickle.dumps(GpuEye("int8", "a")))
        self.assertEqual(again, GpuEye("int8", "a"))


class TestJoin(WithDevice):
    def test_against_numpy(self):
        axis = T.lscalar()
        x, y, z = [gpu_variable(dtype, 3, self.context) for dtype in ("float32", "float32", "int16")]
        f = compiled(
            [axis, x, y, z],
            [gpu_join(axis, x, y), gpu_join(axis, x, z), gpu_join(-1, x, y, z)],
            on_unused_input="ignore",
        )
        for layout in LAYOUTS:
            shape = (2, 3, 4)
            values = [self.rng.integers(0, 99, shape).astype(v.dtype) for v in (x, y, z)]
            for a in (0, 1, -1):
                got = f(a, *[placed(v, layout, self.context) for v in values])
                expected = [
                    np.concatenate([values[i] for i in places], b)
                    for places, b in (((0, 1), a), ((0, 2), a), ((0, 1, 2), -1))
                ]
                for result, right in zip(got, expected):
                    np.testing.assert_array_equal(result, right)
                    self.assertEqual(result.dtype, "float32")
        with self.assertRaisesRegex(
            ValueError, "along dimension 1, the array at index 0 has size 3 and the array at index 1 has size 2"
        ):
            f(0, np.zeros((2, 3, 4), "float32"), np.zeros((2, 2, 4), "float32"), np.zeros((2, 3, 4), "int16"))
        with self.assertRaisesRegex(IndexError, "axis 3 is out of bounds"):
            f(3, *[np.zeros((2, 3, 4), v.dtype) for v in (x, y, z)])

    def test_view(self):
        x, y = [gpu_variable("float32", 1, self.context) for _ in range(2)]
        f = compiled([x, y], [GpuJoin(view=0)(0, x, y)])
        for n, m in ((3, 0), (3, 2), (0, 2), (0, 0)):
            a, b = np.arange(n, dtype="float32"), np.arange(m, dtype="float32")
            np.testing.assert_array_equal(f(a, b)[0], np.concatenate([a, b]))
        self.assertEqual(GpuJoin(0).view_map, {0: [1]})

    def test_wrong(self):
        x = gpu_variable("float32", 1, self.context)
        with self.assertRaisesRegex(ValueError, "empty list"):
            gpu_join(0)
        with self.assertRaisesRegex(TypeError, "same number of dimensions"):
            gpu_join(0, x, gpu_variable("float32", 2, self.context))
        with self.assertRaises(IndexError):
            gpu_join(1, x, x)

    def test_split(self):
        x, axis, sizes = gpu_variable("int16", 2, self.context), T.lscalar(), T.ivector()
        f = compiled([x, axis, sizes], GpuSplit(3)(x, axis, sizes))
        for layout in LAYOUTS:
            value = self.rng.integers(0, 99, (6, 7)).astype("int16")
            for a, lengths in ((0, [1, 0, 5]), (1, [2, 3, 2]), (-1, [7, 0, 0])):
                got = f(placed(value, layout, self.context), a, lengths)
                for result, right in zip(got, np.split(value, np.cumsum(lengths)[:-1], a)):
                    np.testing.assert_array_equal(result, right)
        value = np.zeros((6, 7), "int16")
        for lengths, message in (
            ([1, 2], "expected 3 split sizes, got 2"),
            ([7, -1, 0], "negative number"),
            ([1, 1, 1], "The splits sum to 3, expected 6"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                f(value, 0, lengths)

    def test_gradients(self):
        x = T.vector(dtype="float64")
        g = as_gpuarray_variable(x, self.context)
        whole = host_from_gpu(gpu_join(0, g, g))
        gradient = theano.grad((whole * np.arange(6.0)).sum(), x)
        np.testing.assert_array_equal(gradient.eval({x: np.ones(3)}), [3, 5, 7])
        first, last = GpuSplit(2)(g, 0, [1, 2])
        gradient = theano.grad((host_from_gpu(first) * 10).sum() + host_from_gpu(last).sum(), x)
        np.testing.assert_array_equal(gradient.eval({x: np.ones(3)}), [10, 1, 1])


class TestReshape(WithDevice):
    def test_against_numpy(self):
        x, shape = gpu_variable("float32", 3, self.context), T.lvector()
        f = compiled([x, shape], [GpuReshape(2)(x, shape)])
        for layout in LAYOUTS:
            value = self.rng.random((2, 3, 4)).astype("float32")
            for lengths in ((6, 4), (-1, 8), (24, 1), (4, -1)):
                np.testing.assert_array_equal(
                    f(placed(value, layout, self.context), lengths)[0], value.reshape(lengths)
                )
        empty = np.zeros((2, 0, 4), "float32")
        self.assertEqual(f(empty, (0, 5))[0].shape, (0, 5))
        self.assertEqual(f(empty, (-1, 5))[0].shape, (0, 5))
        for wrong in ((5, 5), (-1, 7), (-1, -1), (-2, 12), (2**33, 2**33)):
            with self.assertRaisesRegex(
                ValueError, r"Cannot reshape input of shape \(2, 3, 4\) to shape \(%d, %d\)" % wrong
            ):
                f(value, wrong)
        with self.assertRaisesRegex(ValueError, "incorrect length 3, should be 2"):
            f(value, (2, 3, 4))
        z = GpuReshape(3)(x, [1, -1, shape[0]])
        self.assertEqual(z.broadcastable, (True, False, False))
        self.assertEqual(compiled([x], [GpuReshape(0)(x, [])])(np.ones((1, 1, 1), "float32"))[0].shape, ())

    def test_gradient(self):
        x = T.matrix(dtype="float64")
        z = host_from_gpu(GpuReshape(1)(as_gpuarray_variable(x, self.context), [-1]))
        gradient = theano.grad((z * np.arange(6.0)).sum(), x)
        np.testing.assert_array_equal(gradient.eval({x: np.ones((2, 3))}), np.arange(6.0).reshape(2, 3))


class TestReuse(WithDevice):
    def test_inputs_of_earlier_calls_stay(self):
        """If a call returns one of its inputs without a copy, later calls do not overwrite this array."""
        x, y = gpu_variable("float32", 2, self.context), gpu_variable("float32", 2, self.context)
        mode = theano.Mode(theano.gof.vm.VM_Linker(allow_gc=False), "fast_run")
        f = compiled([x, y], [gpu_contiguous(x), GpuJoin(view=0)(0, x, y), GpuReshape(1)(x, [-1])], mode=mode)
        zeros, ones = (
            placed(np.zeros((2, 3), "float32"), "C", self.context),
            placed(np.ones((2, 3), "float32"), "F", self.context),
        )
        nothing, one = np.zeros((0, 3), "float32"), np.ones((1, 3), "float32")
        for first, second in ((zeros, ones), (zeros, zeros[::-1])):
            f(first, nothing)
            f(second, nothing)
            f(second[:1], one)
            np.testing.assert_array_equal(np.asarray(zeros), np.zeros((2, 3)))

    def test_calls_do_not_disturb_each_other(self):
        """Calls reuse memory, but arrays that an earlier call returned keep their values."""
        x, n = gpu_variable("float32", 1, self.context), T.lscalar()
        f = theano.function(
            [x, n],
            [gpu_join(0, x, x), GpuAlloc(self.context)(x, n, 3), GpuReshape(2)(x, [n, -1])],
            on_unused_input="ignore",
        )
        first = f(np.arange(3, dtype="float32"), 1)
        kept = [np.asarray(v) for v in first]
        f(np.arange(3, dtype="float32") + 7, 1)
        for value, before in zip(first, kept):
            np.testing.assert_array_equal(np.asarray(value), before)
        self.assertIsInstance(first[0], pygpu.GpuArray)
