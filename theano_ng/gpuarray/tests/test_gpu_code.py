"""Tests of the code for GPUs, which an OpenCL device of the CPU runs as if it were a GPU: elements that are loaded as
vectors, lines that are cut into pieces for groups of threads, and transpositions through tiles of local memory.
"""

import itertools
import unittest

import numpy as np

from theano_ng import scalar
from theano_ng.gof.native import make_native_thunk
from theano_ng.gpuarray.contexts import get_context
from theano_ng.gpuarray.elemwise import GpuCAReduceCuda, GpuElemwise
from theano_ng.gpuarray.extra_ops import GpuCumOp
from theano_ng.gpuarray.kernels.elemwise import vector_width
from theano_ng.gpuarray.kernels.scalar_code import PROLOGUE
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.reduction import GpuMaxAndArgmax
from theano_ng.gpuarray.tests.device import gpu_context, gpu_variable


class OnGpu(unittest.TestCase):
    def setUp(self):
        self.name = gpu_context()
        self.rng = np.random.default_rng(7)

    def numbers(self, dtype, *shape):
        """Return small integers, whose sums are exact in every dtype and order."""
        return self.rng.integers(0 if dtype.startswith("u") else -3, 4, shape).astype(dtype)

    def placed(self, value, offset=0):
        """Return a contiguous array on the device that begins `offset` elements behind the beginning of its memory."""
        flat = np.concatenate([np.zeros(offset, value.dtype), value.ravel()])
        return pygpu.array(flat, context=get_context(self.name))[offset:].reshape(value.shape)

    def thunk(self, node):
        """Return a function that runs a node, given its inputs and the previous values of its outputs."""
        inputs, outputs = [[None] for _ in node.inputs], [[None] for _ in node.outputs]
        run = make_native_thunk(node, node.op.native_code(node), inputs, outputs)

        def call(*values, before=()):
            for cell, value in zip([*inputs, *outputs], itertools.chain(values, before, itertools.repeat(None))):
                cell[0] = value
            run()
            return [np.asarray(cell[0]) for cell in outputs]

        return call


class TestIndices(OnGpu):
    def test_blocks_of_indices(self):
        """TNG_EACH counts in blocks of 2^31 indices. With blocks of 16 indices, each index below n occurs once, too."""
        text = "KERNEL void count(GLOBAL_MEM ga_uint *seen, ga_size n)\n{\n    TNG_EACH(i, n, 0) {\n        ++seen[i];\n    }\n}\n"
        self.assertEqual(PROLOGUE.count("0x80000000u"), 3)
        small = PROLOGUE.replace("0x80000000u", "16u")
        kernel = pygpu.GpuKernel(small + text, "count", [pygpu.GpuArray, pygpu.SIZE], get_context(self.name))
        for n in (0, 1, 15, 16, 17, 32, 95, 96):
            for groups, group in ((1, 1), (1, 16), (3, 2), (2, 16)):
                seen = pygpu.zeros(100, "uint32", context=get_context(self.name))
                kernel(seen, n, gs=groups, ls=group)
                np.testing.assert_array_equal(np.asarray(seen), np.arange(100) < n)


class TestVectors(OnGpu):
    """Elementwise kernels load and store vectors if all operands are aligned alike."""

    DTYPES = [
        ("float32", "float32", "float32"),
        ("float16", "float16", "float16"),
        ("int8", "int8", "int8"),
        ("float64", "float64", "float64"),
        ("float16", "float32", "float32"),
        ("int8", "float64", "float64"),
        ("uint8", "int16", "int16"),
    ]

    def test_sizes_and_offsets(self):
        for a_dtype, b_dtype, z_dtype in self.DTYPES:
            node = GpuElemwise(scalar.add)(
                gpu_variable(a_dtype, 1, self.name), gpu_variable(b_dtype, 1, self.name)
            ).owner
            self.assertEqual(node.outputs[0].dtype, z_dtype)
            f, width = self.thunk(node), vector_width((a_dtype, b_dtype, z_dtype))
            self.assertGreaterEqual(width, 2)
            for n in (1, width - 1, width, width + 1, 5 * width, 1000):
                a, b = self.numbers(a_dtype, n), self.numbers(b_dtype, n)
                for first, second, third in ((0, 0, 0), (1, 1, 1), (width - 1,) * 3, (0, 1, 0), (1, 1, 0)):
                    z = self.placed(np.zeros(n, z_dtype), third)
                    (result,) = f(self.placed(a, first), self.placed(b, second), before=[z])
                    np.testing.assert_array_equal(result, a + b, str((n, first, second, third)))
                    np.testing.assert_array_equal(np.asarray(z), a + b)  # the memory at the offset was overwritten

    def test_only_the_elements_of_the_output_are_written(self):
        f = self.thunk(GpuElemwise(scalar.neg)(gpu_variable("float16", 1, self.name)).owner)
        for offset, n in itertools.product(range(9), (1, 7, 30)):
            memory = pygpu.zeros(64, "float16", context=get_context(self.name))
            f(self.placed(np.ones(n, "float16"), offset), before=[memory[offset : offset + n]])
            expected = np.zeros(64)
            expected[offset : offset + n] = -1
            np.testing.assert_array_equal(np.asarray(memory), expected)

    def test_in_place(self):
        x, y = gpu_variable("float32", 2, self.name), gpu_variable("float32", 2, self.name)
        f = self.thunk(GpuElemwise(scalar.mul, {0: 1})(x, y).owner)
        a, b = self.numbers("float32", 9, 7), self.numbers("float32", 9, 7)
        for offset in (0, 3):
            target = self.placed(b, offset)
            f(self.placed(a, offset), target)
            np.testing.assert_array_equal(np.asarray(target), a * b)

    def test_fortran_order_and_repeated_elements(self):
        x, y = gpu_variable("float16", 2, self.name), gpu_variable("float16", 2, self.name)
        f = self.thunk(GpuElemwise(scalar.add)(x, y).owner)
        a, b = self.numbers("float16", 33, 9), self.numbers("float16", 33, 9)
        (result,) = f(self.placed(a.T).T, self.placed(b.T).T)
        np.testing.assert_array_equal(result, a + b)
        one = GpuElemwise(scalar.add)(x, y.type.clone(broadcastable=(True, True))())
        (result,) = self.thunk(one.owner)(self.placed(a), self.placed(b[:1, :1]))
        np.testing.assert_array_equal(result, a + b[:1, :1])

    def test_width(self):
        """The narrowest operand fills 16 bytes, within the limits of registers and of code."""
        for dtypes, ops, width in (
            (["float32"] * 3, 1, 4),
            (["int8"] * 2, 1, 16),
            (["int8", "float64"], 1, 8),
            (["float32"] * 40, 1, 1),
            (["float16"] * 20, 1, 4),
            (["float32"] * 2, 256, 1),
            (["complex128"], 1, 1),
            ([], 1, 1),
        ):
            self.assertEqual(vector_width(dtypes, ops), width, (dtypes, ops))


class TestReductions(OnGpu):
    def test_rows(self):
        """Rows of any length and alignment, and rows of several axes, are summed right."""
        for dtype, axes, shapes in (
            ("float32", (2,), ((2, 3, 31), (3, 2, 64), (2, 2, 1000))),
            ("float32", (0, 2), ((3, 2, 64), (2, 3, 31), (1, 1, 1))),
            ("int8", (2,), ((2, 2, 1000), (2, 3, 31))),
            ("float16", (0, 1, 2), ((1, 1, 40001), (2, 3, 31))),
        ):
            f = self.thunk(GpuCAReduceCuda(scalar.add, axes)(gpu_variable(dtype, 3, self.name)).owner)
            for shape, offset in itertools.product(shapes, (0, 1, 5)):
                a = self.numbers(dtype, *shape)
                (result,) = f(self.placed(a, offset))
                np.testing.assert_array_equal(result, a.sum(axes, "float64"), str((dtype, axes, shape, offset)))

    def test_views(self):
        x = gpu_variable("float32", 3, self.name)
        a = self.numbers("float32", 8, 12, 64)
        views = [np.s_[:, ::2], np.s_[:, :, ::-1], np.s_[::-1, :, 4:], np.s_[:, :, :7], np.s_[1::3, 1:, 8:40]]
        for op, expected in ((scalar.add, np.sum), (scalar.maximum, np.max)):
            for axes in ((0,), (0, 2)) if op == scalar.add else ((0, 2),):
                f = self.thunk(GpuCAReduceCuda(op, axes)(x).owner)
                for view in views:
                    (result,) = f(self.placed(a)[view])
                    np.testing.assert_array_equal(result, expected(a[view], axes), str((axes, view)))

    def test_nan_and_infinity(self):
        f = self.thunk(GpuCAReduceCuda(scalar.maximum)(gpu_variable("float32", 1, self.name)).owner)
        for place in (0, 3, 4, 500, 998, 999):
            a = -np.ones(1000, "float32")
            a[place] = np.nan
            self.assertTrue(np.isnan(f(self.placed(a, 1))[0]))
            a[place] = np.inf
            self.assertEqual(f(self.placed(a, 1))[0], np.inf)

    def test_the_order_is_fixed(self):
        f = self.thunk(GpuCAReduceCuda(scalar.add)(gpu_variable("float32", 1, self.name)).owner)
        a = self.placed(self.rng.standard_normal(100000).astype("float32"))
        self.assertEqual(f(a)[0], f(a)[0])


class TestLongLines(OnGpu):
    """The device itself decides that groups of threads search and add up pieces of long lines."""

    def test_maxima(self):
        f = self.thunk(GpuMaxAndArgmax((1,))(gpu_variable("float32", 2, self.name))[0].owner)
        a = self.rng.integers(0, 1000, (2, 30000)).astype("float32")
        values, places = f(self.placed(a))
        np.testing.assert_array_equal(values, a.max(1))
        np.testing.assert_array_equal(places, a.argmax(1))

    def test_cumulative_sums(self):
        f = self.thunk(GpuCumOp(1, "add")(gpu_variable("int32", 2, self.name)).owner)
        a = self.numbers("int32", 2, 30001)
        np.testing.assert_array_equal(f(self.placed(a))[0], np.cumsum(a, 1))


class TestTranspositions(OnGpu):
    SHAPES = ((33, 40), (16, 100), (3, 40, 35), (2, 3, 50, 17), (70, 1, 32), (15, 64))

    def test_copies(self):
        for dtype in ("int8", "float16", "float32", "complex128"):
            for shape in self.SHAPES if dtype == "float32" else self.SHAPES[:1]:
                a = self.numbers(dtype, *shape)
                given = self.placed(a)
                for order in itertools.permutations(range(a.ndim)):
                    for step in (1, -1):
                        view, right = given.transpose(*order)[..., ::step], a.transpose(order)[..., ::step]
                        np.testing.assert_array_equal(np.asarray(view.copy()), right)

    def test_conversions(self):
        a = self.numbers("float32", 40, 33)
        for dtype in ("float16", "float64", "int8", "bool", "complex64"):
            np.testing.assert_array_equal(np.asarray(self.placed(a).T.astype(dtype)), a.T.astype(dtype))

    def test_parts_of_a_larger_array(self):
        a, larger = self.numbers("float32", 33, 50), pygpu.zeros((60, 70), "float32", context=get_context(self.name))
        larger[5:55, 20:53] = self.placed(a).T
        expected = np.zeros((60, 70), "float32")
        expected[5:55, 20:53] = a.T
        np.testing.assert_array_equal(np.asarray(larger), expected)


if __name__ == "__main__":
    unittest.main()
