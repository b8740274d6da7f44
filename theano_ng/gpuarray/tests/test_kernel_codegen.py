"""Tests that run generated kernels with fewer and with more threads than elements."""

import unittest

import numpy as np

from theano_ng.gpuarray import kernel_codegen as codegen
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.tests.device import context
from theano_ng.gpuarray.type import get_context

LENGTHS = 1, 2, 7, 16, 45
THREADS = 5, 16
REDUCTIONS = ("sum", "prod", "max", "min")


class TestTexts(unittest.TestCase):
    def test_kernel(self):
        self.assertEqual(
            codegen.nvcc_kernel("k", ["ga_size n", "ga_size m"], ["a", ["b", ("c",)], "d"]),
            "KERNEL void k(ga_size n, ga_size m) {\n    a;\n    b;\n    c;\n    d;\n}\n",
        )

        self.assertEqual(codegen.nvcc_kernel("k", "ga_size n", ["a"]), "KERNEL void k(ga_size n) {\n    a;\n}\n")

    def test_versions(self):
        @codegen.code_version((3,))
        def text():
            return ""

        self.assertEqual((text.code_version, text(), codegen.UNVERSIONED), ((3,), "", ()))
        for name in ("inline_reduce", "inline_softmax", "inline_reduce_fixed_shared", "inline_softmax_fixed_shared"):
            self.assertTrue(getattr(codegen, name).code_version)

    def test_combinations_are_the_callers(self):
        text = codegen.inline_reduce("N", "buf", "t", "T", lambda a, b: "both(%s, %s)" % (a, b))
        self.assertIn("both(buf[t], buf[__k])", text)


class TestRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = get_context(context())
        samples = codegen.kernel_samples()
        array, number = pygpu.GpuArray, np.uint32
        cls.kernels, flags = {}, 0
        for sample in samples:
            flags |= sample.flags
            cls.kernels[sample.name] = [array] * (3 if "fixed" in sample.name else 2) + [number]
        built = pygpu.build("\n".join(sample.text for sample in samples), list(cls.kernels.items()), cls.context, flags)
        cls.kernels = dict(zip(cls.kernels, built))
        cls.rng = np.random.RandomState(3)

    def row(self, n, dtype="float32"):
        return pygpu.array((self.rng.rand(n) + 0.5).astype(dtype), context=self.context)

    def test_reductions(self):
        z = pygpu.zeros(1, "float32", context=self.context)
        for n in LENGTHS:
            x = self.row(n)
            for threads in THREADS:
                for name in REDUCTIONS:
                    self.kernels["reduce_" + name](x, z, n, gs=1, ls=threads)
                    np.testing.assert_allclose(
                        np.asarray(z)[0], getattr(np, name)(np.asarray(x)), rtol=1e-5, err_msg=name
                    )

    def test_softmax(self):
        for n in LENGTHS:
            x, z = self.row(n), pygpu.zeros(n, "float32", context=self.context)
            expected = np.exp(np.asarray(x)) / np.exp(np.asarray(x)).sum()
            for threads in THREADS:
                self.kernels["softmax"](x, z, n, gs=1, ls=threads)
                np.testing.assert_allclose(z, expected, rtol=1e-5)

    def test_softmax_in_little_memory(self):
        for dtype, rtol in (("float32", 1e-5), ("float16", 2e-3)):
            for n in LENGTHS:
                x, b, z = self.row(2 * n, dtype), self.row(n, dtype), pygpu.zeros(n, dtype, context=self.context)
                both = np.asarray(x)[::2].astype("float32") + np.asarray(b)
                for threads in THREADS:
                    self.kernels["softmax_fixed_" + dtype](x, b, z, n, gs=1, ls=threads)
                    np.testing.assert_allclose(z, np.exp(both) / np.exp(both).sum(), rtol=rtol)
