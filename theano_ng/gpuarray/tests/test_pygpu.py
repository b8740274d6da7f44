"""Tests of pygpu's interface, compared with NumPy."""

import ast
import gc
import os
import threading
import unittest
import warnings

import numpy as np

from theano_ng.gpuarray.contexts import get_context
from theano_ng.gpuarray.tests.device import DEVICE, context

DTYPES = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
)


def setUpModule():
    global pygpu, ctx
    ctx = get_context(context())
    from theano_ng.gpuarray import pygpu


class TestArrays(unittest.TestCase):
    """Tests of creating, indexing, converting and copying arrays."""

    def setUp(self):
        self.host = np.arange(24.0).reshape(2, 3, 4)
        self.array = pygpu.array(self.host, context=ctx)

    def test_empty_pinned(self):
        """Arrays in page-locked memory are NumPy arrays, also if they outlive the variable of their context."""
        for device in (get_context("test"), pygpu.init("stub6")):
            a = pygpu.empty_pinned((3, 4), "float32", device)
            self.assertEqual(
                (a.shape, a.dtype, a.flags.c_contiguous, a.flags.writeable), ((3, 4), "float32", True, True)
            )
            a[...] = np.arange(12).reshape(3, 4)
            np.testing.assert_array_equal(np.asarray(pygpu.array(a, context=device)), np.arange(12).reshape(3, 4))
            self.assertEqual(pygpu.empty_pinned((0, 4), "int8", device).shape, (0, 4))
            self.assertEqual(pygpu.empty_pinned(5, context=device).dtype, "float64")
        view = a[1:]
        del a, device
        gc.collect()
        np.testing.assert_array_equal(view[0], np.arange(4, 8))
        with self.assertRaises(ValueError):
            pygpu.empty_pinned(-1, context=get_context("test"))

    def test_attributes(self):
        a, h = self.array, self.host
        for name in ("shape", "strides", "ndim", "size", "dtype", "itemsize", "nbytes"):
            self.assertEqual(getattr(a, name), getattr(h, name), name)
        self.assertEqual(len(a), 2)
        self.assertTrue(a.flags.c_contiguous and a.flags["WRITEABLE"] and not a.flags.f_contiguous)
        self.assertTrue(a.T.flags.f_contiguous)
        self.assertIs(a[0].base, a)
        self.assertIs(a[0].T.base, a)

    def test_basic_indices(self):
        s = np.s_
        for key in (
            s[0],
            s[-1],
            s[..., 1],
            s[::-1, 1:, ::2],
            s[None, 1, ..., None, 3],
            s[:, -1],
            s[5:],
            s[1, 2, 3],
            s[()],
            s[1:1],
            s[::-2, ::-1],
        ):
            with self.subTest(key):
                np.testing.assert_array_equal(self.array[key], self.host[key])

    def test_bad_indices(self):
        bools = (True, False, np.True_, np.False_, np.array(True), (True, 0), (0, False), (..., True))
        for key in ((0, 0, 0, 0), 2, (0, 3), (Ellipsis, Ellipsis), [0, 1], "a", 1.5, *bools):
            with self.subTest(key):
                with self.assertRaises(IndexError):
                    self.array[key]
                with self.assertRaises(IndexError):
                    self.array[key] = 5
        np.testing.assert_array_equal(self.array, self.host)

    def test_reshape_and_transpose(self):
        for h, a in ((self.host, self.array), (self.host.T, self.array.T), (self.host[:, ::2], self.array[:, ::2])):
            for shape in ((2, -1), (-1,), (4, 1, -1), h.shape):
                for order in "CF":
                    with self.subTest(shape=shape, order=order, strides=h.strides):
                        np.testing.assert_array_equal(a.reshape(shape, order=order), h.reshape(shape, order=order))
        np.testing.assert_array_equal(self.array.transpose(1, 2, 0), self.host.transpose(1, 2, 0))
        np.testing.assert_array_equal(self.array[:1].squeeze(), self.host[:1].squeeze())
        with self.assertRaises(ValueError):
            self.array.reshape(5, 5)
        with self.assertRaises(ValueError):
            self.array.transpose(0, 0, 1)

    def _layouts(self):
        h, a = self.host, self.array
        yield from ((h, a), (h.T, a.T), (h.transpose(1, 0, 2), a.transpose(1, 0, 2)), (h[:, ::-1].T, a[:, ::-1].T))
        yield from ((h[:, :1].T, a[:, :1].T), (h[..., 1], a[..., 1]), (h[1, 2, 3:], a[1, 2, 3:]), (h[:0].T, a[:0].T))

    def test_orders_of_reading(self):
        for h, a in self._layouts():
            for order in "CFAKcfak":
                with self.subTest(strides=h.strides, order=order):
                    np.testing.assert_array_equal(a.ravel(order), h.ravel(order))
                    np.testing.assert_array_equal(a.flatten(order), h.flatten(order))
                    if order in "Kk":
                        with self.assertRaisesRegex(ValueError, "order"):
                            a.reshape((-1,), order=order)
                    elif h.size == 24:
                        np.testing.assert_array_equal(a.reshape(6, 4, order=order), h.reshape(6, 4, order=order))

    def test_flatten_copies(self):
        for h, a in self._layouts():
            for order in "CFAK":
                with self.subTest(strides=h.strides, order=order):
                    flat = a.flatten(order)
                    self.assertFalse(pygpu.may_share_memory(flat, a))
                    flat[...] = 99
                    np.testing.assert_array_equal(a, h)
        self.assertTrue(pygpu.may_share_memory(self.array.ravel(), self.array))
        self.assertTrue(pygpu.may_share_memory(self.array.T.ravel("A"), self.array))

    def test_conversions(self):
        host = np.array([[0, 1, 2], [250, 3, 127]])
        array = pygpu.array(host, context=ctx)
        for source in DTYPES:
            a = array.astype(source)
            np.testing.assert_array_equal(a, host.astype(source))
        for source, target in (("uint8", "float16"), ("float16", "float64"), ("float32", "bool"), ("int64", "int8")):
            with self.subTest(source=source, target=target):
                wanted = host.astype(source)[:, ::-1].astype(target)
                np.testing.assert_array_equal(array.astype(source)[:, ::-1].astype(target), wanted)
        z = pygpu.array(self.host + 1j, context=ctx)
        np.testing.assert_array_equal(z[::-1].astype("complex64"), (self.host + 1j)[::-1])
        with self.assertRaises(TypeError):
            z.astype("float64")

    def test_a_double_becomes_a_half_in_one_step(self):
        x = np.array(
            [2049.0000001, 1 + 2**-11 + 2**-40, 65520 - 1e-7, 65520, 2**-25 * (1 + 2**-30), -(3 + 2**-9), np.nan]
        )
        with np.errstate(over="ignore"):
            wanted = x.astype("float16")
        a, stored = pygpu.array(x, context=ctx), pygpu.empty(7, "float16", context=ctx)
        stored[...] = a
        for got in (a.astype("float16"), pygpu.array(a, "float16"), a[::-1].astype("float16")[::-1], stored):
            np.testing.assert_array_equal(got, wanted)
        for dtype in ("float32", "int64", "uint64", "int32"):
            y = np.array([2049, 2051, 4097, 65519]).astype(dtype)
            np.testing.assert_array_equal(pygpu.array(y, context=ctx).astype("float16"), y.astype("float16"))

    def test_numbers_are_stored_as_numpy_stores_them(self):
        values = (300, -1, 2.7, 300.0, np.nan, np.inf, 1j, 1e6, 10**30, None, True, np.int64(300), np.complex64(2 + 1j))
        for dtype in DTYPES + ("complex64",):
            for value in (*values, np.array(1j), np.array(300), [1, 300], [1, -1], [1, 2.5], [1, 1j], (0, 1)):
                with self.subTest(dtype=dtype, value=value):
                    self._check_stored(dtype, value)

    def _check_stored(self, dtype, value):
        host = np.ones((2, 2), dtype)
        array = pygpu.array(host, context=ctx)
        where = 0 if np.ndim(value) else (0, 1)
        outcomes = []
        for target in (host, array):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                try:
                    target[where] = value
                    outcomes.append([warning.category for warning in told])
                except (OverflowError, TypeError, ValueError) as error:
                    outcomes.append(type(error))
        self.assertEqual(outcomes[1], outcomes[0])
        np.testing.assert_array_equal(array, host)

    def test_arrays_of_another_kind_are_not_stored(self):
        for dtype, value in (
            ("uint8", np.array([1, 2])),
            ("int32", np.array([0.5, 1])),
            ("float32", np.array([1j, 2])),
        ):
            with self.subTest(dtype), self.assertRaisesRegex(TypeError, "cannot be stored in an array of %s" % dtype):
                pygpu.zeros((2,), dtype, context=ctx)[...] = value

    def test_assignment(self):
        a, h = self.array, self.host.copy()
        a[:, 1], h[:, 1] = 7, 7
        a[0], h[0] = a[1], h[1]
        a[..., ::-1], h[..., ::-1] = np.arange(4), np.arange(4)
        np.testing.assert_array_equal(a, h)
        a[0, 1:], h[0, 1:] = a[0, :-1], h[0, :-1].copy()  # overlapping
        np.testing.assert_array_equal(a, h)
        with self.assertRaises(ValueError):
            a[0] = np.zeros(3)

    def test_copies_are_their_own(self):
        b = self.array.copy()
        c = pygpu.array(self.array, copy=False)
        self.array[...] = 0
        np.testing.assert_array_equal(b, self.host)
        self.assertIs(c, self.array)
        self.assertFalse(pygpu.may_share_memory(b, self.array))
        self.assertTrue(pygpu.may_share_memory(self.array[0], self.array))

    def test_read_and_write(self):
        out = np.empty_like(self.host)
        self.array.read(out)
        np.testing.assert_array_equal(out, self.host)
        f = pygpu.empty((2, 3, 4), order="F", context=ctx)
        f.write(self.host)
        np.testing.assert_array_equal(f, self.host)
        for bad in (np.empty((2, 3)), np.empty((2, 3, 4), "float32"), out[:, ::-1]):
            with self.assertRaises(ValueError):
                self.array.read(bad)
        for dtype in ("float32", "int64", ">f8"):
            with self.assertRaisesRegex(
                ValueError, "cannot be written into an array of dtype float64: convert it first"
            ):
                self.array.write(self.host.astype(dtype))

    def test_flags(self):
        """Flags have NumPy's names, including the short names."""
        names = "C F O W A FNC FORC BEHAVED B CARRAY CA"
        host = self.host.copy()
        for a, h in ((self.array, host), (self.array.T, host.T), (self.array[:, 1], host[:, 1])):
            self.assertEqual([a.flags[n] for n in names.split()], [h.flags[n] for n in names.split()])
            self.assertFalse(a.flags["U"] or a.flags["UPDATEIFCOPY"])
            self.assertEqual(a.flags["FA"], a.flags["FNC"])
            self.assertEqual(a.flags["FARRAY"], a.flags["FNC"])
        with self.assertRaises(KeyError):
            self.array.flags["Z"]

    def test_strides(self):
        """New strides select other elements of the memory, as in NumPy, and must not leave the memory."""
        a, h = self.array[0].view(), self.host[0]
        for strides in ((8, 8), (0, 16), (40, 0)):
            a.strides = strides
            self.assertEqual(a.strides, strides)
            np.testing.assert_array_equal(a, np.lib.stride_tricks.as_strided(h, strides=strides))
        for strides in ((800, 8), (-8, 8), (8,), (8, 8, 8)):
            with self.assertRaises(ValueError):
                a.strides = strides
        self.assertEqual(a.strides, (40, 0))

    def test_empty_like(self):
        class Mine(pygpu.GpuArray):
            pass

        a = self.array.view(Mine)
        for order in "CF":
            made = a._empty_like_me(order=order)
            self.assertEqual((type(made), made.shape, made.dtype), (Mine, a.shape, a.dtype))
            self.assertTrue(made.flags[order])
        self.assertEqual(a._empty_like_me("int8").dtype, np.int8)

    def test_triangles(self):
        for name in ("tril", "triu"):
            triangle = getattr(pygpu.basic, name)
            for dtype in DTYPES:
                for shape in ((3, 5), (5, 3), (4, 4), (0, 3), (1, 1)):
                    h = np.ones(shape, dtype)
                    a = pygpu.array(h, context=ctx)
                    np.testing.assert_array_equal(triangle(a), getattr(np, name)(h))
                    np.testing.assert_array_equal(a, h)
            h = np.arange(1.0, 49.0).reshape(6, 8)
            a = pygpu.array(h, context=ctx)
            part = a[::-2, 1::2].T
            expected = getattr(np, name)(h[::-2, 1::2].T)
            np.testing.assert_array_equal(triangle(part), expected)
            self.assertIs(triangle(part, inplace=True), part)
            np.testing.assert_array_equal(part, expected)
            h[::-2, 1::2].T[:] = expected
            np.testing.assert_array_equal(a, h)
            with self.assertRaisesRegex(ValueError, "expected a matrix, got an array with 3 axes"):
                triangle(self.array)

    def test_rows(self):
        for dtype in DTYPES:
            for index in ("int8", "int32", "int64", "uint8"):
                h = np.arange(30).reshape(5, 2, 3).astype(dtype)
                i = np.array([4, 0, 0, 3] if index == "uint8" else [4, -1, 0, -5], index)
                a, places = pygpu.array(h, context=ctx), pygpu.array(i, context=ctx)
                np.testing.assert_array_equal(a.take1(places), h[i])
                np.testing.assert_array_equal(a[::-1, :, ::2].take1(places[::-2]), h[::-1, :, ::2][i[::-2]])
                self.assertEqual(a.take1(places[:0]).shape, (0, 2, 3))
                for wrong in ([5], [0, 100] if index == "uint8" else [0, -6]):
                    for rows in (a, a[:, :0]):
                        with self.assertRaisesRegex(IndexError, "out of bounds for axis 0 with size 5"):
                            rows.take1(pygpu.array(np.array(wrong, index), context=ctx))
        np.testing.assert_array_equal(pygpu.array([3, 4], context=ctx).take1(pygpu.array([1], context=ctx)), [4])
        for bad in (np.array([1]), [1], 1, pygpu.array([1.0], context=ctx)):
            with self.assertRaises(TypeError):
                a.take1(bad)
        for rows, bad in ((a, pygpu.array([[1]], context=ctx)), (pygpu.array(1, context=ctx), places)):
            with self.assertRaises(ValueError):
                rows.take1(bad)

    def test_may_share_memory_is_for_device_arrays(self):
        for other in (self.host, 3, None):
            with self.assertRaisesRegex(TypeError, "expected two device arrays"):
                pygpu.may_share_memory(self.array, other)

    def test_numbers(self):
        self.assertEqual(float(pygpu.array(2.5, context=ctx)), 2.5)
        self.assertEqual(int(pygpu.array([3], context=ctx)), 3)
        self.assertEqual([10, 11, 12][pygpu.array(2, context=ctx)], 12)
        self.assertTrue(pygpu.array(True, context=ctx))
        self.assertFalse(pygpu.empty((0, 3), context=ctx))
        with self.assertRaises(ValueError):
            bool(self.array)
        with self.assertRaises(TypeError):
            float(self.array)

    def test_empty_arrays(self):
        a = pygpu.empty((0, 3), context=ctx)
        self.assertEqual(np.asarray(a).shape, (0, 3))
        self.assertEqual((a + 1).shape, (0, 3))
        self.assertEqual(a.reshape(3, 0).shape, (3, 0))
        self.assertEqual(pygpu.concatenate([a, a]).shape, (0, 3))

    def test_what_cannot_be(self):
        with self.assertRaises(ValueError):
            pygpu.array(["a"], context=ctx)
        with self.assertRaises(ValueError):
            pygpu.empty((-1,), context=ctx)
        with self.assertRaises(ValueError):
            pygpu.empty((2**40, 2**40), context=ctx)

    def test_out_of_memory_leaves_all_as_it_was(self):
        before = ctx.memory["in_use"]
        with self.assertRaisesRegex(MemoryError, "Error allocating"):
            pygpu.empty((2**45,), "uint8", context=ctx)
        self.assertEqual(ctx.memory["in_use"], before)
        np.testing.assert_array_equal(self.array + 1, self.host + 1)


class TestOtherLibraries(unittest.TestCase):
    """Tests of memory that is shared with other libraries."""

    def test_dlpack(self):
        h = np.arange(24.0, dtype="float32").reshape(4, 6)
        a = pygpu.array(h, context=ctx)
        for view, wanted in ((a, h), (a[1:, ::2], h[1:, ::2]), (a.T, h.T), (a[2, 3], h[2, 3])):
            b = pygpu.from_dlpack(view, context=ctx)
            self.assertEqual(b.strides, wanted.strides)
            np.testing.assert_array_equal(b, wanted)
        b = pygpu.from_dlpack(a[::-1], context=ctx) if ctx.kind == b"cuda" else pygpu.from_dlpack(a, context=ctx)
        b[...] = 7
        np.testing.assert_array_equal(a, np.full_like(h, 7))
        used = ctx.memory["in_use"]
        del a
        gc.collect()
        np.testing.assert_array_equal(b[0], np.full(6, 7))  # the view keeps the memory
        del b, view
        gc.collect()
        self.assertLess(ctx.memory["in_use"], used)

    def test_a_capsule_nobody_takes(self):
        a = pygpu.zeros((1000,), context=ctx)
        used = ctx.memory["in_use"]
        capsule = a.__dlpack__()
        del a, capsule
        gc.collect()
        self.assertLess(ctx.memory["in_use"], used)

    def test_what_does_not_fit(self):
        with self.assertRaisesRegex(ValueError, "device"):
            pygpu.from_dlpack(np.zeros(3), context=ctx)
        with self.assertRaises(BufferError):
            pygpu.zeros((3,), context=ctx).__dlpack__(dl_device=(1, 0))
        if ctx.kind != b"cuda":
            self.assertFalse(hasattr(pygpu.zeros((3,), context=ctx), "__cuda_array_interface__"))


class TestOperators(unittest.TestCase):
    """Tests of operators, compared with those of NumPy."""

    def test_pairs_of_dtypes(self):
        rng = np.random.RandomState(3)
        h = {d: (rng.randint(0, 5, (2, 3)) if d != "bool" else rng.randint(0, 2, (2, 3))).astype(d) for d in DTYPES}
        a = {d: pygpu.array(v, context=ctx) for d, v in h.items()}
        pairs = (("int32", "int32"), ("float32", "int16"), ("float16", "float16"))
        for pair, names in zip(
            pairs, (("add", "truediv", "mod", "lt"), ("sub", "floordiv", "ge"), ("mul", "eq", "ne"))
        ):
            for name in names:
                (first, second), name = pair, "__%s__" % name
                x, y = h[first] + np.asarray(1, first), h[second] + np.asarray(1, second)
                with self.subTest(name=name, dtypes=(first, second)):
                    wanted = getattr(x, name)(y)
                    got = getattr(a[first] + 1, name)(a[second] + 1)
                    if name != "__truediv__" or wanted.dtype != "float64":
                        self.assertEqual(got.dtype, wanted.dtype)
                    np.testing.assert_allclose(
                        np.asarray(got), wanted, rtol=1e-3 if "float16" in (first, second) else 1e-6
                    )

    def test_signs_of_quotients(self):
        for dtype in ("int32", "float64"):
            x, y = np.array([7, -7, 7, -7, 0], dtype), np.array([2, 2, -2, -2, 3], dtype)
            a, b = pygpu.array(x, context=ctx), pygpu.array(y, context=ctx)
            np.testing.assert_array_equal(a // b, x // y)
            np.testing.assert_array_equal(a % b, x % y)
            for got, wanted in zip(divmod(a, b), divmod(x, y)):
                np.testing.assert_array_equal(got, wanted)

    def test_broadcasting_and_numbers(self):
        h = np.arange(6.0, dtype="float32").reshape(2, 3)
        a = pygpu.array(h, context=ctx)
        row = pygpu.array(h[0], context=ctx)
        np.testing.assert_array_equal(a + row, h + h[0])
        np.testing.assert_array_equal(row[:, None] * row, h[0][:, None] * h[0])
        for got, wanted in ((a + 1, h + 1), (2 - a, 2 - h), (a**2, h**2), (np.float32(2) * a, 2 * h), (h + a, h + h)):
            self.assertEqual(got.dtype, wanted.dtype)
            np.testing.assert_allclose(np.asarray(got), wanted)
        with self.assertRaises(ValueError):
            a + pygpu.zeros((4,), "float32", context=ctx)

    def test_in_place(self):
        h = np.arange(6.0).reshape(2, 3)
        a = pygpu.array(h, context=ctx)
        for name, value in (("__iadd__", 2), ("__imul__", h[0]), ("__isub__", 1), ("__itruediv__", 4)):
            a, h = getattr(a, name)(value), getattr(h, name)(value)
        np.testing.assert_array_equal(a, h)
        b = a[::-1]
        b += a
        np.testing.assert_array_equal(a, h[::-1] + h)
        with self.assertRaises(TypeError):
            pygpu.zeros(3, "int32", context=ctx).__itruediv__(2)

    def test_results_that_overlap_operands(self):
        places = ((np.s_[1:], np.s_[:-1]), (np.s_[:-1], np.s_[1:]), (np.s_[::-1], np.s_[:]), (np.s_[:], np.s_[:]))
        for written, read in places:
            for columns in (np.s_[:], np.s_[::-1]):
                with self.subTest(written=written, read=read, columns=columns):
                    h = np.arange(400, dtype="float32").reshape(100, 4)
                    a = pygpu.array(h, context=ctx)
                    np.negative(h[read], out=h[written][:, columns])
                    pygpu.elemwise.elemwise1(a[read], "-", out=a[written][:, columns])
                    np.testing.assert_array_equal(a, h)

    def test_result_that_overlaps_a_broadcast_or_transposed_operand(self):
        arguments = [pygpu._elemwise.arg("z", "int64", write=True)]
        arguments += [pygpu._elemwise.arg(name, "int64", read=True) for name in "xy"]
        add = pygpu._elemwise.GpuElemwise(ctx, "z = x + 2 * y", arguments)
        for x, y in ((np.s_[:1], np.s_[:, :1]), (np.s_[5], np.s_[:]), (np.s_[:, 3:4], np.s_[::-1, ::-1])):
            h = np.arange(64).reshape(8, 8)
            a = pygpu.array(h, context=ctx)
            add(a.T, a[x], a[y])
            np.testing.assert_array_equal(a.T, h[x] + 2 * h[y])

    def test_unary_and_bits(self):
        h = np.array([-3, 0, 5], "int32")
        a = pygpu.array(h, context=ctx)
        for got, wanted in (
            (-a, -h),
            (abs(a), abs(h)),
            (~a, ~h),
            (a & 3, h & 3),
            (a | 1, h | 1),
            (a ^ a, h ^ h),
            (a << 2, h << 2),
            (a >> 1, h >> 1),
        ):
            np.testing.assert_array_equal(got, wanted)


class TestReductions(unittest.TestCase):
    def test_axes(self):
        h = np.random.RandomState(0).uniform(-1, 1, (4, 5, 6)).astype("float32")
        a = pygpu.array(h, context=ctx, cls=pygpu.ndgpuarray)
        for axis in (None, 0, 1, -1, (0, 2), (0, 1, 2)):
            with self.subTest(axis=axis):
                np.testing.assert_allclose(a.sum(axis), h.sum(axis), rtol=1e-5)
        np.testing.assert_array_equal(a[:, ::-2].max((0, 2)), h[:, ::-2].max((0, 2)))
        np.testing.assert_array_equal(a.T.min(1), h.T.min(1))
        np.testing.assert_allclose(a.prod(0), h.prod(0), rtol=1e-5)
        self.assertFalse(bool((a > 0).all()))
        self.assertTrue(bool((a > 0).any()))

    def test_nan_and_nothing(self):
        a = pygpu.array([1.0, np.nan, 3.0], context=ctx, cls=pygpu.ndgpuarray)
        self.assertTrue(np.isnan(float(a.max())) and np.isnan(float(a.min())))
        nothing = pygpu.empty((0,), context=ctx, cls=pygpu.ndgpuarray)
        self.assertEqual(float(nothing.sum()), 0)
        with self.assertRaises(ValueError):
            nothing.max()
        self.assertEqual(pygpu.array([250, 250], "uint8", context=ctx, cls=pygpu.ndgpuarray).sum().dtype, "uint64")

    def test_axis_given_twice(self):
        a = pygpu.array(np.ones((2, 3), "float32"), context=ctx, cls=pygpu.ndgpuarray)
        for axis in ((0, 0), [1, 1], (0, -2), (1, 0, -1)):
            for name in ("sum", "prod", "max", "min", "any", "all"):
                with (
                    self.subTest(axis=axis, name=name),
                    self.assertRaisesRegex(ValueError, "duplicate value in 'axis'"),
                ):
                    getattr(a, name)(axis)

    def test_no_axis(self):
        for h in (np.array([[0, 2, 3], [4, 5, 6]], "float32"), np.zeros((0, 3), "int32"), np.array(2.5), np.array(7)):
            a = pygpu.array(h, context=ctx, cls=pygpu.ndgpuarray)
            for name in ("sum", "prod", "max", "min", "any", "all"):
                for axis in ((), []):
                    with self.subTest(name=name, shape=h.shape, axis=axis):
                        got, wanted = getattr(a, name)(axis), getattr(h, name)(tuple(axis))
                        self.assertEqual((got.dtype, got.shape), (wanted.dtype, wanted.shape))
                        np.testing.assert_array_equal(got, wanted)
                        self.assertFalse(pygpu.may_share_memory(got, a))
                        out = pygpu.empty(h.shape, wanted.dtype, context=ctx)
                        self.assertIs(getattr(a, name)((), out=out), out)
                        np.testing.assert_array_equal(out, wanted)
            with self.assertRaisesRegex(ValueError, "the result must"):
                a.max((), out=pygpu.empty((5, *h.shape), h.dtype, context=ctx))

    def test_types_of_arguments(self):
        kernel = pygpu.reduction.ReductionKernel(
            ctx, "float32", "0", "a + b", [True], "x[i] * f + k", "float *x, float f, int k"
        )
        h = np.array([1, 2, 3])
        x = pygpu.array(h.astype("float32"), context=ctx)
        for f, k in ((2.0, 1), (2, True), (np.float64(2), np.int64(1)), (np.array(2), np.uint8(1))):
            np.testing.assert_array_equal(kernel(x, f, k), (h * 2 + 1).sum())
        for dtype in set(DTYPES) - {"float32"} | {"complex64"}:
            message = "argument x .*float32, got GpuArray of %s" % dtype
            with self.subTest(dtype), self.assertRaisesRegex(TypeError, message):
                kernel(pygpu.array(h.astype(dtype), context=ctx), 1.0, 1)
        for bad, name in (
            ((h, 1.0, 1), "x"),
            ((x, x, 1), "f"),
            ((x, 1j, 1), "f"),
            ((x, 1.0, 2.7), "k"),
            ((x, "1", 1), "f"),
        ):
            with self.subTest(name), self.assertRaisesRegex(TypeError, "argument %s of the reduction" % name):
                kernel(*bad)
        for few in ((x,), (x, 1.0), (x, 1.0, 1, 1)):
            with self.assertRaisesRegex(TypeError, "expected 3 arguments"):
                kernel(*few)

    def test_results(self):
        h = np.arange(600, dtype="float32").reshape(2, 300)
        kernel = pygpu.reduction.ReductionKernel(ctx, "float32", "0", "a + b", [True, False], None, "float *x")
        for row in (0, 1):
            a = pygpu.array(h, context=ctx)
            kernel(a[:, ::-1], out=a[row])  # the result overlaps the argument
            np.testing.assert_array_equal(a[row], h[:, ::-1].sum(0))
        read_only = pygpu.empty((300,), "float32", context=ctx)
        read_only = pygpu.from_gpudata(read_only.gpudata, 0, "float32", (300,), ctx, None, False, read_only)
        for bad in (
            pygpu.empty((300,), context=ctx),
            pygpu.empty((299,), "float32", context=ctx),
            a[0, ::-1],
            read_only,
        ):
            with self.assertRaisesRegex(ValueError, "the result must be a writeable array of shape"):
                kernel(a, out=bad)

    def test_default_argument(self):
        """Without arguments, the kernel reduces one array of the result's dtype."""
        kernel = pygpu.reduction.ReductionKernel(ctx, "float32", "0", "a + b", [True, False])
        h = np.arange(6, dtype="float32").reshape(2, 3)
        np.testing.assert_array_equal(kernel(pygpu.array(h, context=ctx)), h.sum(0))

    def test_broadcast(self):
        kernel = pygpu.reduction.ReductionKernel(
            ctx, "float32", "0", "a + b", [False, True], "x[i] * y[i]", "float *x, float *y"
        )
        h = np.arange(6, dtype="float32").reshape(2, 3)
        for other in (h[:1], h[:, :1], h[:1, :1], h):
            x, y = pygpu.array(h, context=ctx), pygpu.array(other, context=ctx)
            np.testing.assert_array_equal(kernel(x, y, broadcast=True), (h * other).sum(1))
            np.testing.assert_array_equal(kernel(y, x, broadcast=True), (h * other).sum(1))
        with self.assertRaises(ValueError):
            kernel(x, pygpu.array(h[:, :2], context=ctx), broadcast=True)

    def test_of_an_expression(self):
        h = np.arange(6.0, dtype="float32").reshape(2, 3)
        a = pygpu.array(h, context=ctx)
        kernel = pygpu.reduction.ReductionKernel(
            ctx, "float32", "0", "a + b", [False, True], "x[i] * y[i] * f", "float *x, float *y, float f"
        )
        np.testing.assert_allclose(kernel(a, a, 2.0), 2 * (h * h).sum(1))
        with self.assertRaises(ValueError):
            kernel(a[:, 0], a[:, 0], 1.0)
        with self.assertRaises(ValueError):
            pygpu.reduction.parse_c_args("strange *x")


class TestOperations(unittest.TestCase):
    def test_like_numpy(self):
        h = np.arange(12.0).reshape(2, 6)
        a = pygpu.array(h, context=ctx)
        for name in ("vstack", "hstack", "dstack"):
            np.testing.assert_array_equal(getattr(pygpu, name)([a, a]), getattr(np, name)([h, h]))
            np.testing.assert_array_equal(getattr(pygpu, name)([a[0], a[1]]), getattr(np, name)([h[0], h[1]]))
        np.testing.assert_array_equal(
            pygpu.concatenate([a, a[:, :1].astype("float32")], 1), np.concatenate([h, h[:, :1]], 1)
        )
        for sections in (3, [1, 4]):
            for got, wanted in zip(pygpu.split(a, sections, 1), np.split(h, sections, 1)):
                np.testing.assert_array_equal(got, wanted)
        for got, wanted in zip(pygpu.array_split(a, 4, 1), np.array_split(h, 4, 1)):
            np.testing.assert_array_equal(got, wanted)
        for n in (0, 1, 2):
            x = pygpu.zeros((2,) * n, context=ctx)
            for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
                self.assertEqual(getattr(pygpu, name)(x).shape, getattr(np, name)(np.zeros((2,) * n)).shape)
        for bad in (
            lambda: pygpu.concatenate([]),
            lambda: pygpu.concatenate([a, a[:, :2]]),
            lambda: pygpu.split(a, 4, 1),
        ):
            with self.assertRaises(ValueError):
                bad()


class TestProducts(unittest.TestCase):
    def test_like_numpy(self):
        rng = np.random.RandomState(1)
        for dtype, rtol in (("float32", 1e-5), ("float64", 1e-12), ("float16", 1e-2)):
            x, y, z = (rng.uniform(0, 1, s).astype(dtype) for s in ((3, 4), (4, 5), (3, 5)))
            a, b, c = (pygpu.array(v, context=ctx) for v in (x, y, z))
            with self.subTest(dtype):
                np.testing.assert_allclose(pygpu.blas.gemm(2, a, b, 0.5, c), 2 * x @ y + z / 2, rtol=rtol)
                np.testing.assert_allclose(pygpu.blas.gemm(1, a, c, trans_a=True), x.T @ z, rtol=rtol)
                np.testing.assert_allclose(pygpu.blas.gemv(1, a, b[:, 0]), x @ y[:, 0], rtol=rtol)
                np.testing.assert_allclose(
                    pygpu.blas.ger(2, a[0], b[0], pygpu.zeros((4, 5), dtype, context=ctx)),
                    2 * np.outer(x[0], y[0]),
                    rtol=rtol,
                )
                np.testing.assert_allclose(pygpu.blas.dot(a[0], a[1]), x[0] @ x[1], rtol=rtol)
                np.testing.assert_allclose(pygpu.blas.dot(a[0], b), x[0] @ y, rtol=rtol)
                np.testing.assert_allclose(pygpu.blas.gemmBatch_3d(1, a[None], b[None]), (x @ y)[None], rtol=rtol)
        self.assertIs(pygpu.blas.gemm(1, a, b, 1, c, overwrite_c=True), c)
        for bad in (lambda: pygpu.blas.gemm(1, a, a), lambda: pygpu.blas.gemm(1, a, b, 1.0)):
            with self.assertRaises(ValueError):
                bad()
        with self.assertRaises(TypeError):
            pygpu.blas.gemm(1, a, b.astype("float32"))

    def test_results_that_overlap_factors(self):
        blas, h = pygpu.blas, np.random.RandomState(2).randint(-4, 5, (3, 40, 40)).astype("float64")
        m = h[0]
        for case, compute, wanted in (
            ("gemm", lambda a: blas.gemm(1, a[0], a[0], 0, a[0], overwrite_c=True), m @ m),
            (
                "gemm, transposed",
                lambda a: blas.gemm(2, a[1], a[0].T, 3, a[0], overwrite_c=True),
                2 * h[1] @ m.T + 3 * m,
            ),
            ("gemv", lambda a: blas.gemv(1, a[0], a[0, 0], 2, a[0, 0], overwrite_y=True), m @ m[0] + 2 * m[0]),
            ("gemv, column", lambda a: blas.gemv(1, a[0], a[1, 0], 0, a[0, :, 1], overwrite_y=True), m @ h[1, 0]),
            (
                "ger",
                lambda a: blas.ger(2, a[0, 1], a[0, :, 3], a[0], overwrite_a=True),
                m + 2 * np.outer(m[1], m[:, 3]),
            ),
            ("dot", lambda a: blas.dot(a[0], a[0, ::-1], a[0, ::-1].T, overwrite_z=True), m @ m[::-1]),
            ("stacks", lambda a: blas.gemmBatch_3d(1, a[:2], a[1:], 0, a[1:], overwrite_c=True), h[:2] @ h[1:]),
        ):
            with self.subTest(case):
                np.testing.assert_array_equal(compute(pygpu.array(h, context=ctx)), wanted)


class TestKernels(unittest.TestCase):
    TEXT = """#include "cluda.h"
KERNEL void scale(GLOBAL_MEM ga_float *x, ga_size x_offset, ga_float f, ga_size n)
{
    x = (GLOBAL_MEM ga_float *)((GLOBAL_MEM char *)x + x_offset);
    for (ga_size i = GID_0 * LDIM_0 + LID_0; i < n; i += GDIM_0 * LDIM_0)
        x[i] *= f;
}"""

    def test_call(self):
        k = pygpu.GpuKernel(self.TEXT, "scale", [pygpu.GpuArray, pygpu.SIZE, "float32", pygpu.SIZE], ctx)
        a = pygpu.array(np.arange(10, dtype="float32"), context=ctx)
        k(a[2:], a[2:].offset, 3.0, 8, n=8)
        np.testing.assert_array_equal(a, [0, 1, *range(6, 30, 3)])
        k(a, 0, 2.0, 10, gs=2, ls=1)
        self.assertEqual(k.numargs, 4)
        for bad in ((a, 0, 1j, 10), (a, 0, 1.0, 9.5), (a, np.float32(0), 1.0, 10)):
            with self.assertRaisesRegex(TypeError, "argument . of kernel scale is a number of"):
                k(*bad, n=10)
        with self.assertRaises(TypeError):
            k(a, 0, 1.0, n=1)
        with self.assertRaises(TypeError):
            k(0, 0, 1.0, 1, n=1)
        with self.assertRaises(ValueError):
            k(a, 0, 1.0, 1)

    def test_a_text_that_is_wrong(self):
        with self.assertRaisesRegex(pygpu.GpuArrayException, r"(?s)   3\t.*nonsense.*3:"):
            pygpu.GpuKernel(
                '#include "cluda.h"\nKERNEL void f(GLOBAL_MEM ga_int *x)\n{ x[0] = nonsense; }',
                "f",
                [pygpu.GpuArray],
                ctx,
            )

    def test_memory_of_another_context(self):
        other = pygpu.init(DEVICE)
        k = pygpu.GpuKernel(self.TEXT, "scale", [pygpu.GpuArray, pygpu.SIZE, "float32", pygpu.SIZE], ctx)
        a = pygpu.zeros((3,), "float32", context=other)
        with self.assertRaisesRegex(pygpu.GpuArrayException, "argument 0"):
            k(a, 0, 1.0, 3, n=3)
        with self.assertRaises(ValueError):
            pygpu.zeros((3,), "float32", context=ctx)[...] = a
        np.testing.assert_array_equal((a + 1).transfer(ctx), np.ones(3))


class TestContexts(unittest.TestCase):
    def test_many_are_opened_and_closed(self):
        before = [x for x in gc.get_objects() if type(x) is pygpu.GpuContext]
        for i in range(200):
            c = pygpu.init(DEVICE)
            a = pygpu.zeros((1000,), "float32", context=c)
            if i % 50 == 0:
                a += 1  # builds a kernel
            np.testing.assert_array_equal(a[:3], np.full(3, i % 50 == 0))
        del a, c
        gc.collect()
        self.assertEqual([x for x in gc.get_objects() if type(x) is pygpu.GpuContext], before)

    def test_children(self):
        """A forked child process cannot use a context of its parent, but it can open a context of its own."""
        old = pygpu.init("stub0")
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            found = []
            try:
                pygpu.zeros((3,), context=old)
            except pygpu.GpuArrayException as error:
                found.append(str(error))
            new = pygpu.init("stub0")
            found.append(pygpu.zeros((3,), context=new).tolist())
            os.write(write, repr(found).encode())
            os._exit(0)
        os.close(write)
        with open(read) as file:
            error, values = ast.literal_eval(file.read())
        os.waitpid(child, 0)
        self.assertIn("before this process was forked", error)
        self.assertEqual(values, [0.0, 0.0, 0.0])
        np.testing.assert_array_equal(pygpu.zeros((3,), context=old), np.zeros(3))

    def test_default(self):
        self.assertIsNone(pygpu.get_default_context())
        with self.assertRaises(TypeError):
            pygpu.zeros(3)
        with ctx:
            self.assertIs(pygpu.zeros(3).context, ctx)
        self.assertIsNone(pygpu.get_default_context())

    def test_no_such_device(self):
        for name, error in (
            ("nonsense", ValueError),
            ("opencl99", pygpu.GpuArrayException),
            ("opencl0:99", pygpu.GpuArrayException),
            ("cuda77x", ValueError),
        ):
            with self.subTest(name), self.assertRaises(error):
                pygpu.init(name)

    def test_two_threads(self):
        results = []

        def work(k):
            a = pygpu.array(np.full(1000, float(k)), context=ctx)
            for _ in range(20):
                a = a + 1
            results.append((k, np.asarray(a)))

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(results), 4)
        for k, a in results:
            np.testing.assert_array_equal(a, k + 20)


class TestCollectives(unittest.TestCase):
    def test_threads(self):
        contexts = [pygpu.init(DEVICE) for _ in range(3)]
        cid = pygpu.collectives.GpuCommCliqueId(contexts[0])
        found = {}

        def member(rank):
            with_id = pygpu.collectives.GpuCommCliqueId(contexts[rank], cid.comm_id)
            comm = pygpu.collectives.GpuComm(with_id, 3, rank)
            a = pygpu.array(np.arange(6.0) + rank, context=contexts[rank])
            found[rank] = [
                np.asarray(comm.all_reduce(a, "sum")),
                np.asarray(comm.all_gather(a)),
                np.asarray(comm.reduce_scatter(a, "max")),
                np.asarray(comm.broadcast(pygpu.array(a), root=1)),
                comm.reduce(a, "prod", root=0 if rank else -1),
            ]

        threads = [threading.Thread(target=member, args=(rank,)) for rank in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        rows = np.stack([np.arange(6.0) + rank for rank in range(3)])
        for rank in range(3):
            total, gathered, part, one, product = found[rank]
            np.testing.assert_array_equal(total, rows.sum(0))
            np.testing.assert_array_equal(gathered, rows)
            np.testing.assert_array_equal(part, rows.max(0)[2 * rank : 2 * rank + 2])
            np.testing.assert_array_equal(one, rows[1])
            if rank == 0:
                np.testing.assert_array_equal(product, rows.prod(0))
            else:
                self.assertIsNone(product)
        with self.assertRaises(ValueError):
            pygpu.collectives.GpuComm(cid, 3, 5)
