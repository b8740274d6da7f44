"""Pieces of kernels, in kernels that are compiled and run; and the helpers of float16."""

import unittest

import numpy as np

from theano_ng.gpuarray import fp16_help, kernel_codegen
from theano_ng.gpuarray.tests.device import context

# Threads of the groups: fewer and more than the 32 elements of a fixed buffer, none a power of two.
COUNTS = (1, 12, 70)


class TestText(unittest.TestCase):
    def test_kernels_of_nested_statements(self):
        text = kernel_codegen.nvcc_kernel(
            "f", ["GLOBAL_MEM float *x", "ga_size n"], ["float a = 0", ["x[0] = a", ["x[1] = a"]]]
        )
        self.assertEqual(
            text,
            "KERNEL void f (GLOBAL_MEM float *x, ga_size n)\n{\n    float a = 0;\n    x[0] = a;\n    x[1] = a;\n}\n",
        )
        self.assertIn("(int n)", kernel_codegen.nvcc_kernel("f", "int n", "n = 0"))

    def test_versions(self):
        @kernel_codegen.code_version((2, 1))
        def generator():
            return "x"

        self.assertEqual((generator.code_version, generator()), ((2, 1), "x"))
        self.assertEqual(kernel_codegen.UNVERSIONED, ())
        self.assertRaises(TypeError, kernel_codegen.code_version, 1)
        for name in kernel_codegen.__all__[2:]:
            self.assertIsInstance(getattr(kernel_codegen, name).code_version, tuple)

    def test_halves(self):
        self.assertEqual(
            [fp16_help.work_dtype(d) for d in ("float16", "float32", "int8")], ["float32", "float32", "int8"]
        )
        self.assertEqual([fp16_help.load_w(d) for d in ("float16", "float64")], ["ga_half2float", ""])
        self.assertEqual([fp16_help.write_w(d) for d in ("float16", "float64")], ["ga_float2half", ""])


class TestKernels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        from theano_ng.gpuarray.contexts import get_context
        from theano_ng.gpuarray.pygpu import gpuarray as pygpu

        cls.pygpu, cls.context = pygpu, get_context(context())
        params = "GLOBAL_MEM float *x, ga_int n, GLOBAL_MEM float *b, GLOBAL_MEM float *z"
        fill = ["for (int i = LID_0; i < n; i += LDIM_0) buf[i] = x[i]", "local_barrier()"]
        texts = {}
        for name in ("sum", "prod", "max", "min"):
            reduce = getattr(kernel_codegen, "inline_reduce_" + name)
            texts[name] = [
                "LOCAL_MEM float buf[256]",
                *fill,
                reduce("n", "buf", "LID_0", "LDIM_0"),
                "if (LID_0 == 0) z[0] = buf[0]",
            ]
        texts["softmax"] = [
            "LOCAL_MEM float buf[256]",
            "LOCAL_MEM float buf2[256]",
            "for (int i = LID_0; i < n; i += LDIM_0) { buf[i] = x[i]; buf2[i] = x[i]; }",
            "local_barrier()",
            kernel_codegen.inline_softmax("n", "buf", "buf2", "LID_0", "LDIM_0"),
            "for (int i = LID_0; i < n; i += LDIM_0) { z[i] = buf[i]; b[i] = buf2[i]; }",
        ]
        fixed = ["LOCAL_MEM float buf[32]"]
        # Every second number, from memory.
        texts["fixed_max"] = fixed + [
            kernel_codegen.inline_reduce_fixed_shared_max("n", "buf", "x", "2", "", "LID_0", "LDIM_0", "b", "1", ""),
            "if (LID_0 == 0) z[0] = buf[0]",
        ]
        texts["fixed_softmax"] = fixed + [
            kernel_codegen.inline_softmax_fixed_shared(
                "n", "buf", "x", "2", "", "z", "3", "", "LID_0", "LDIM_0", "b", "1", ""
            )
        ]
        names = list(texts)
        source = "\n".join(kernel_codegen.nvcc_kernel("k_" + name, params, texts[name]) for name in names)
        built = pygpu.build(source, [("k_" + name, ("*", "int32", "*", "*")) for name in names], cls.context)
        cls.kernels = dict(zip(names, built))

    def run_kernel(self, name, count, x, n, b=(0,), size=1):
        x, b, z = [self.pygpu.array(np.asarray(a, "float32"), context=self.context) for a in (x, b, np.zeros(size))]
        self.kernels[name](x, np.int32(n), b, z, gs=1, ls=count)
        return np.asarray(z), np.asarray(b)

    def test_reductions(self):
        rng = np.random.default_rng(0)
        for count in COUNTS:
            for n in (1, 2, 31, 200):
                a = rng.random(n, dtype="f") + 0.5
                for name, function in (("sum", np.sum), ("prod", np.prod), ("max", np.max), ("min", np.min)):
                    with self.subTest(name, n=n, count=count):
                        np.testing.assert_allclose(
                            self.run_kernel(name, count, a, n)[0], function(a.astype("d")), rtol=1e-5
                        )
        a[17] = np.nan
        self.assertTrue(np.isnan(self.run_kernel("max", 12, a, 200)[0]))

    def test_softmax(self):
        a = np.random.default_rng(1).standard_normal(101).astype("f") * 9
        e = np.exp(a - a.max())
        for count in COUNTS:
            found, exponentials = self.run_kernel("softmax", count, a, 101, np.zeros(101), 101)
            np.testing.assert_allclose(found, e / e.sum(), rtol=2e-5, atol=1e-9)
            np.testing.assert_allclose(exponentials, e, rtol=2e-5, atol=1e-9)

    def test_fixed_buffers(self):
        rng = np.random.default_rng(2)
        for n in (1, 20, 150):
            x, b = rng.standard_normal(2 * n).astype("f"), rng.standard_normal(n).astype("f")
            a = x[::2] + b
            e = np.exp(a - a.max())
            for count in COUNTS:
                with self.subTest(n=n, count=count):
                    self.assertEqual(self.run_kernel("fixed_max", count, x, n, b)[0], a.max())
                    found = self.run_kernel("fixed_softmax", count, x, n, b, 3 * n)[0]
                    np.testing.assert_allclose(found[::3], e / e.sum(), rtol=2e-5)
                    self.assertFalse(found[1::3].any() or found[2::3].any())


if __name__ == "__main__":
    unittest.main()
