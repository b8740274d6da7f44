"""Tests that the names of ``cluda.h`` behave as libgpuarray documents; the kernels run on a device."""

import unittest

import numpy as np

from theano_ng.gpuarray.contexts import get_context
from theano_ng.gpuarray.pygpu import gpuarray
from theano_ng.gpuarray.tests.cluda_kernels import CLUDA
from theano_ng.gpuarray.tests.device import context

GROUP, GROUPS = 64, 4
THREADS = GROUP * GROUPS


class TestCluda(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = get_context(context())

    def kernel(self, name, types, **flags):
        return gpuarray.GpuKernel(CLUDA, name, types, context=self.context, **flags)

    def array(self, dtype, n=16):
        return gpuarray.zeros(n, dtype, context=self.context)

    def test_atomics(self):
        # All threads add to one element of global memory and one of local memory. Two float16 elements share a word of
        # 4 bytes.
        dtypes = "int32 uint32 int64 uint64 float32 float64 float16".split()
        arrays = [self.array(dtype) for dtype in dtypes]
        kernel = self.kernel("atomics", [gpuarray.GpuArray] * 7, have_double=True, have_half=True)
        kernel(*arrays, gs=(GROUPS,), ls=(GROUP,), shared=4)
        i, I, l, L, f, d, e = (np.asarray(array) for array in arrays)
        for k, values in enumerate((i, I, l, L, f, d)):
            self.assertEqual(values[0], (k + 1) * THREADS)
            self.assertEqual(values[1], GROUP)
            self.assertEqual(values[2], np.inf if values is f else 9)
        self.assertEqual((i[3], i[4]), (GROUP, 7))  # xchg returns the old value
        self.assertEqual(list(e[:4]), [THREADS / 2, THREADS, GROUP, 2 * GROUP])
        self.assertEqual(list(e[4:7]), [0, 9, 2 * GROUP])
        self.assertEqual(e[7], 1.0009765625)  # rounded once; two roundings would give 1
        self.assertTrue(np.isnan(f[3]))
        self.assertEqual(f[4], 2)

    def test_types_and_numbers_of_threads(self):
        n = 2 * 3 * 5 * 7 - 1  # the last thread has nothing to do
        dtypes = "bool int8 uint8 int16 uint16 complex64 complex128".split()
        arrays = [self.array(dtype, n) for dtype in dtypes]
        kernel = self.kernel(
            "types",
            [gpuarray.GpuArray] * 7 + [gpuarray.SIZE, gpuarray.SSIZE],
            have_double=True,
            have_small=True,
            have_complex=True,
        )
        kernel(*arrays, n, -3, gs=(7, 1, 1), ls=(2, 3, 5))
        b, c, C, h, H, z, Z = (np.asarray(array) for array in arrays)
        np.testing.assert_array_equal(b, np.arange(n) > 0)
        for values, expected in ((c, -1), (C, 255), (h, -1), (H, 65535), (z, 1 - 1j)):
            np.testing.assert_array_equal(values, expected)
        # The imaginary part of Z is max(-3, 0) + min(n + 3, n - 3) + the number of threads in a warp.
        warp = 32 if self.context.kind == b"cuda" else 1
        np.testing.assert_array_equal(Z, -1 + 1j * (n - 3 + warp))

    def test_halves_round_to_even(self):
        text = """KERNEL void halves(GLOBAL_MEM ga_float *from, GLOBAL_MEM ga_half *to, GLOBAL_MEM ga_float *back) {
            to[GID_0] = ga_float2half(from[GID_0]);
            back[GID_0] = load_half(to + GID_0);
        }"""
        values = np.array(
            [
                0,
                -0.0,
                1,
                1 + 2**-11,
                1 + 3 * 2**-11,
                65504,
                65519.99,
                65520,
                2**-24,
                2**-25,
                -np.inf,
                np.nan,
                0.1,
                1e-7,
            ],
            "float32",
        )
        given = gpuarray.asarray(values, context=self.context)
        to, back = self.array("float16", len(values)), self.array("float32", len(values))
        kernel = gpuarray.GpuKernel(text, "halves", [gpuarray.GpuArray] * 3, context=self.context, have_half=True)
        kernel(given, to, back, gs=(len(values),), ls=(1,))
        with np.errstate(over="ignore"):
            expected = values.astype("float16")
        np.testing.assert_array_equal(np.asarray(to), expected)
        np.testing.assert_array_equal(np.asarray(back), expected.astype("float32"))
        np.testing.assert_array_equal(np.signbit(np.asarray(to)), np.signbit(expected))

    def test_split(self):
        """`ga_split` returns quotients and remainders of numbers below and above 2**32."""
        text = """KERNEL void split(GLOBAL_MEM ga_ulong *number, GLOBAL_MEM ga_ulong *by) {
            ga_size rest = number[GID_0];
            number[GID_0] = ga_split(&rest, by[GID_0]);
            by[GID_0] = rest;
        }"""
        pairs = [(a, b) for a in (0, 1, 7, 2**32 - 1, 2**32, 2**40 + 3) for b in (1, 3, 2**32 - 1, 2**32, 2**33 + 1)]
        number, by = (gpuarray.asarray(np.array(side, "uint64"), context=self.context) for side in zip(*pairs))
        kernel = gpuarray.GpuKernel(text, "split", [gpuarray.GpuArray] * 2, context=self.context)
        kernel(number, by, gs=(len(pairs),), ls=(1,))
        found = zip(np.asarray(by).tolist(), np.asarray(number).tolist())
        self.assertEqual(list(found), [divmod(a, b) for a, b in pairs])

    def test_lines_are_those_of_the_text(self):
        for text in (
            "\n\nKERNEL void f() { nobody(); }",
            '#include "cluda.h"\n  #  include <cluda.h>\nKERNEL void f() { nobody(); }',
        ):
            with self.assertRaisesRegex(gpuarray.GpuArrayException, r"(?s)[:(]3[:)].*nobody"):
                gpuarray.GpuKernel(text, "f", [], context=self.context)


if __name__ == "__main__":
    unittest.main()
