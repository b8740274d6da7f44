"""Tests of products by cuBLASLt on a fake driver and a fake cuBLASLt (`stub_cuda`), which computes in the conventions of
the library.
"""

import ctypes
import itertools
import os
import re
import subprocess
import sys
import textwrap
import unittest
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.device.tests.test_cuda import WithFake, compile_fake

HERE = os.path.dirname(os.path.abspath(__file__))
CODES = {"float16": native.GA_HALF, "float32": native.GA_FLOAT, "float64": native.GA_DOUBLE}
TOLERANCE = {"float16": 2e-2, "float32": 1e-5, "float64": 1e-12}
EXECUTION_FAILED = 13

# The functions of the library that can fail when the first product of a form is computed
CALLS = (
    "cublasLtMatmulDescCreate cublasLtMatmulDescSetAttribute cublasLtMatrixLayoutCreate "
    "cublasLtMatrixLayoutSetAttribute cublasLtMatmulPreferenceCreate cublasLtMatmulPreferenceSetAttribute "
    "cublasLtMatmulAlgoGetHeuristic cublasLtMatmul"
).split()


class FakeBlas(ctypes.Structure):
    _fields_ = [
        ("version", c_int),
        ("handles", c_int),
        ("descriptors", c_int),
        ("none", c_int),
        ("refuses", c_int),
        ("workspace", c_uint64),
    ]


class WithCublas(WithFake):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cublas_path = compile_fake(cls.folder, cls.path, source="fake_cublas.c", name="libcublasLt.so.12")
        cls.cublas = ctypes.CDLL(cls.cublas_path)
        cls.cublas.fake_blas_state.restype = POINTER(FakeBlas)
        cls.blas = cls.cublas.fake_blas_state().contents
        native.set_libraries(cls.library, cublasLt=cls.cublas_path)

    def setUp(self):
        super().setUp()
        self.cublas.fake_blas_reset()
        self.rng = np.random.default_rng(8)

    def nothing_is_left(self):
        super().nothing_is_left()
        self.assertEqual((self.blas.handles, self.blas.descriptors), (0, 0))

    def memory(self, context, content):
        """Return device memory with the content of an array."""
        data = context.alloc(max(content.nbytes, 1))
        self.addCleanup(context.free, data)
        context.write(data, content.tobytes())
        return data


class Operand:
    """A stack of matrices in device memory, together with its elements on the host.

    Attributes
    ----------
    memory : numpy.ndarray
        The elements of the device memory when the operand was made.
    value : numpy.ndarray
        A view of `memory`, with shape (batch, rows, columns).
    stack : native.MatrixStack
    """

    def __init__(self, test, context, dtype, shape, order="C", extra=0, start=0, same=False):
        """`order`: "C", "F", or "strided", without unit strides. `extra`: unused elements at the end of each row or column.
        `start`: unused elements in front. `same`: all matrices of the stack are the same memory.
        """
        batch, rows, columns = shape
        inner = {
            "C": (rows, columns + extra),
            "F": (columns, rows + extra),
            "strided": (rows + extra, 2 * columns + 1),
        }[order]
        count = 1 if same else batch
        self.memory = test.rng.uniform(-1, 1, start + count * inner[0] * inner[1]).astype(dtype)
        view = self.memory[start:].reshape(count, *inner)
        view = view.transpose(0, 2, 1) if order == "F" else view
        view = view[:, :rows, : 2 * columns : 2] if order == "strided" else view[:, :rows, :columns]
        self.value = np.broadcast_to(view, shape) if same else view
        strides = [stride // self.memory.itemsize for stride in self.value.strides]
        data = test.memory(context, self.memory)
        self.stack = native.MatrixStack(
            data, start * self.memory.itemsize, (c_size_t * 3)(*shape), (ctypes.c_ssize_t * 3)(*strides)
        )


class TestNumbers(WithCublas):
    def setUp(self):
        super().setUp()
        self.context = self.open()
        self.calls()

    def factor(self, value, dtype, on_device):
        dtype = "float32" if dtype == "float16" else dtype
        data = self.memory(self.context, np.array([7, value], dtype)) if on_device else None
        return native.MatrixFactor(0 if on_device else value, data, np.dtype(dtype).itemsize)

    def product(self, dtype, a, b, c, out, alpha=(1.5, False), beta=(0.0, False), tf32=0):
        """Let the library compute a product; return the error code. alpha, beta: value, and whether it is on the device."""
        return self.library.cublas_product(
            self.context.pointer,
            CODES[dtype],
            tf32,
            byref(self.factor(*alpha[:1], dtype, alpha[1])),
            byref(a.stack),
            byref(b.stack),
            byref(self.factor(*beta[:1], dtype, beta[1])),
            byref(c.stack),
            byref(out.stack),
        )

    def check(self, dtype, shape, orders=("C",) * 4, extra=(0,) * 4, start=0, same=False, in_place=False, **factors):
        """Compute a product, and compare the whole memory of the result."""
        batch, m, k, n = shape
        shapes = [(batch, m, k), (batch, k, n), (batch, m, n), (batch, m, n)]
        a, b, c, out = [
            Operand(self, self.context, dtype, one, order, more, start, same and i < 2)
            for i, (one, order, more) in enumerate(zip(shapes, orders, extra))
        ]
        if in_place:
            out = c
        alpha, beta = factors.get("alpha", (1.5, False)), factors.get("beta", (0.0, False))
        product = alpha[0] * np.matmul(a.value.astype("float64"), b.value.astype("float64"))
        if beta[0]:
            product = product + beta[0] * c.value
        self.context.check(self.product(dtype, a, b, c, out, **factors))
        found = np.frombuffer(self.context.read(out.stack.data, out.memory.nbytes), dtype)
        out.value[...] = product
        np.testing.assert_allclose(found, out.memory, TOLERANCE[dtype], TOLERANCE[dtype])

    def test_layouts(self):
        """All orders, and rows and columns that are apart. Where the order of c is not that of the result, the library is
        not used.
        """
        for dtype, orders, extra in itertools.product(
            CODES, itertools.product("CF", repeat=3), ((0, 0, 0), (3, 0, 1), (0, 2, 2))
        ):
            with self.subTest(dtype=dtype, orders=orders, extra=extra):
                self.check(dtype, (1, 5, 3, 4), (*orders, orders[2]), (*extra, 1), beta=(0.5, False))
                self.check(dtype, (2, 5, 3, 4), (*orders, orders[2]), (*extra, 2), start=3)
                self.check(dtype, (3, 2, 7, 6), (*orders, orders[2]), (*extra, 0), beta=(-2.0, False), in_place=True)

    def test_lengths_of_one(self):
        """Along an axis of length 1, the stride has no meaning, also that of a column of a larger matrix."""
        for (m, k, n), orders, extra in itertools.product(
            itertools.product((1, 4), repeat=3), itertools.product("CF", repeat=3), (0, 3)
        ):
            with self.subTest(shape=(m, k, n), orders=orders, extra=extra):
                self.check("float32", (1, m, k, n), (*orders, orders[2]), (extra,) * 4, beta=(2.0, False))

    def test_one_matrix_in_all_products(self):
        for orders in itertools.product("CF", repeat=3):
            self.check("float64", (3, 4, 2, 5), (*orders, orders[2]), same=True)

    def test_factors(self):
        """Factors on the host and on the device, and both."""
        for dtype in CODES:
            for places in itertools.product((False, True), repeat=2):
                for alpha, beta in ((2.5, 0.5), (-1.0, 1.0), (2.0, 0.0)):
                    with self.subTest(dtype=dtype, places=places, factors=(alpha, beta)):
                        self.check(dtype, (2, 3, 4, 5), alpha=(alpha, places[0]), beta=(beta, places[1]))
        self.assertNotIn("cuStreamSynchronize", self.calls())

    def test_a_factor_on_the_device_is_read_by_the_device(self):
        """A factor may change until the device computes the product, and no call waits for it."""
        a, b, c = [Operand(self, self.context, "float32", (1, 2, 2)) for _ in range(3)]
        alpha = self.memory(self.context, np.float32([7]))
        self.calls()
        self.context.write(alpha, np.float32([3]).tobytes())
        factor, one = native.MatrixFactor(0, alpha, 0), native.MatrixFactor(1, None, 0)
        for _ in range(2):
            stacks = [byref(v) for v in (factor, a.stack, b.stack, one, c.stack, c.stack)]
            self.context.check(self.library.cublas_product(self.context.pointer, native.GA_FLOAT, 0, *stacks))
        calls = self.calls()
        self.assertEqual([call for call in calls if "Synchronize" in call or "DtoH" in call], [])
        self.assertEqual(len([call for call in calls if "HtoD" in call]), 2)  # the factor, and 1.0 once
        found = np.frombuffer(self.context.read(c.stack.data, 16), "float32").reshape(2, 2)
        np.testing.assert_allclose(found, c.value[0] + 6 * (a.value[0] @ b.value[0]), rtol=1e-5)

    def test_numbers_beside_factors_on_the_device(self):
        """When the memory for numbers of the host is full, the library is not used for more of them."""
        for i in range(32):
            self.check("float32", (1, 2, 2, 2), alpha=(2.0, True), beta=(i + 1.0, False))
        a = Operand(self, self.context, "float32", (1, 2, 2))
        for value, code in ((77.0, native.GA_UNSUPPORTED_ERROR), (5.0, native.GA_NO_ERROR)):
            self.assertEqual(self.product("float32", a, a, a, a, (2.0, True), (value, False)), code)

    def test_no_memory_for_numbers(self):
        a = Operand(self, self.context, "float32", (1, 2, 2))
        for status, code in ((2, native.GA_UNSUPPORTED_ERROR), (1, 3)):
            self.fake.fake_fail(b"cuMemAlloc", status, 1)  # the first allocation is that of the factor
            self.assertEqual(self.product("float32", a, a, a, a, (2.0, True), (1.0, False)), code)
        self.check("float32", (1, 2, 2, 2), alpha=(2.0, True), beta=(1.0, False))

    def test_alignments(self):
        """Algorithms are chosen for the alignment of each array."""
        for dtype, start in itertools.product(CODES, (1, 2, 4, 8, 64, 63)):
            self.check(dtype, (2, 4, 4, 4), start=start)

    def test_tf32(self):
        """TF32 is used for float32 only, and only where it is allowed."""
        for dtype, tf32 in itertools.product(CODES, (0, 1)):
            self.check(dtype, (1, 2, 3, 4), tf32=tf32)
        compute = [call.split()[1] for call in self.calls() if "Heuristic" in call]
        self.assertEqual(compute, ["68", "68", "77", "70"])

    def test_what_the_library_does_not_compute(self):
        def operand(*shape, order="C"):
            return Operand(self, self.context, "float32", shape, order)

        square = operand(2, 3, 3)
        strided = operand(2, 3, 3, order="strided")
        backwards = operand(2, 3, 3)
        backwards.stack.strides[0] = -9
        backwards.stack.offset = 36
        overlapping = operand(2, 3, 3)
        overlapping.stack.strides[1] = 1
        repeated = operand(2, 3, 3, order="C")
        repeated.stack.strides[0] = 0
        cases = [
            ("float32", (strided, square, square, square), {}),
            ("float32", (square, strided, square, square), {}),
            ("float32", (square, square, strided, square), {"beta": (1.0, False)}),
            ("float32", (square, square, square, strided), {}),
            ("float32", (square, square, operand(2, 3, 3, order="F"), square), {"beta": (1.0, False)}),
            ("float32", (backwards, square, square, square), {}),
            ("float32", (overlapping, square, square, square), {}),
            ("float32", (square, square, square, repeated), {}),
            ("float32", (operand(2, 3, 0), operand(2, 0, 3), square, square), {}),
            ("float32", (square, square, square, square), {"alpha": (0.0, False)}),
        ]
        for i, (dtype, operands, factors) in enumerate(cases):
            with self.subTest(case=i):
                self.assertEqual(self.product(dtype, *operands, **factors), native.GA_UNSUPPORTED_ERROR)
        self.assertEqual([call for call in self.calls() if "cublas" in call], [])
        # The strides of c do not matter if nothing is added.
        self.context.check(self.product("float32", square, square, strided, square))

    def test_no_algorithm(self):
        """The heuristic may find no algorithm, or the library may refuse the product later."""
        a = Operand(self, self.context, "float32", (1, 3, 3))
        self.blas.none = 1
        for _ in range(2):
            self.assertEqual(self.product("float32", a, a, a, a), native.GA_UNSUPPORTED_ERROR)
        self.assertEqual(len([call for call in self.calls() if "Heuristic" in call]), 1)
        self.blas.none = 0
        for status, call in ((15, "cublasLtMatmulAlgoGetHeuristic"), (15, "cublasLtMatmul"), (8, "cublasLtMatmul")):
            b = Operand(self, self.context, "float32", (1, 3, 3), start=status * (call == "cublasLtMatmul"))
            self.fake.fake_fail(call.encode(), status, 0)
            self.assertEqual(self.product("float32", b, b, a, b), native.GA_UNSUPPORTED_ERROR)

    def test_failing_calls(self):
        """The error names call, status and shapes, and the next product works."""
        for i, call in enumerate(CALLS):
            with self.subTest(call):
                a = Operand(self, self.context, "float32", (2, 3, 4 + i))
                b = Operand(self, self.context, "float32", (2, 4 + i, 5))
                c = Operand(self, self.context, "float32", (2, 3, 5))
                self.fake.fake_fail(call.encode(), EXECUTION_FAILED, 0)
                with self.assertRaises(native.DeviceError) as caught:
                    self.context.check(self.product("float32", a, b, c, c))
                self.assertEqual(caught.exception.code, native.GA_BLAS_ERROR)
                self.assertEqual(
                    str(caught.exception),
                    "%s: CUBLAS_STATUS_EXECUTION_FAILED (the GPU program failed to execute), for 2 products of matrices "
                    "with shapes (5, %d) and (%d, 3), float32" % (call, 4 + i, 4 + i),
                )
                self.check("float32", (2, 3, 4 + i, 5))

    def test_many_forms(self):
        """The table of forms does not grow without bound."""
        for n in range(4110):
            a = native.MatrixStack(self.scratch(), 0, (c_size_t * 3)(1, 1, 1), (ctypes.c_ssize_t * 3)(0, 1, 1))
            b = native.MatrixStack(a.data, 0, (c_size_t * 3)(1, 1, n + 1), (ctypes.c_ssize_t * 3)(0, n + 1, 1))
            one = native.MatrixFactor(1, None, 0)
            stacks = [byref(v) for v in (one, a, b, native.MatrixFactor(), b, b)]
            self.context.check(self.library.cublas_product(self.context.pointer, native.GA_FLOAT, 0, *stacks))
        self.assertLessEqual(self.blas.descriptors, 5 * 4096)
        self.check("float32", (1, 2, 3, 4))

    def scratch(self):
        if not hasattr(self, "block"):
            self.block = self.memory(self.context, np.zeros(5000, "float32"))
        return self.block

    def test_recorded_products(self):
        a, c = [Operand(self, self.context, "float32", (1, 2, 2)) for _ in range(2)]
        alpha, beta = native.MatrixFactor(3.0, None, 0), native.MatrixFactor(1, None, 0)
        device, graph = self.context.device, c_void_p()
        device.call("graph", 0, byref(graph))
        stacks = [byref(v) for v in (alpha, a.stack, a.stack, beta, c.stack, c.stack)]
        code = self.library.cublas_product(self.context.pointer, native.GA_FLOAT, 0, *stacks)
        self.assertEqual(code, native.GA_NO_ERROR)
        device.call("graph", 1, byref(graph))
        for _ in range(2):
            device.call("graph", 2, byref(graph))
        found = np.frombuffer(self.context.read(c.stack.data, 16), "float32").reshape(2, 2)
        device.call("graph", 3, byref(graph))
        np.testing.assert_allclose(found, c.value[0] + 6 * (a.value[0] @ a.value[0]), rtol=1e-5)

    def test_checked_contexts_wait(self):
        self.context = self.open(flags=native.GA_CTX_CHECKED)
        self.check("float32", (1, 2, 2, 2))
        calls = self.calls()
        self.assertEqual(calls[calls.index("cublasLtMatmul 2 2 1 0") + 1], "cuStreamSynchronize")


class TestWorkspace(WithCublas):
    def test_workspace(self):
        """The workspace is a block of the pool. Without memory for it, the library chooses an algorithm without one, and
        the next product uses the workspace again.
        """
        self.context = context = self.open()
        self.blas.workspace = 8 << 20
        a = Operand(self, context, "float32", (1, 2, 2))
        for capacity, used in ((1 << 30, 8 << 20), (1 << 20, 0), (1 << 30, 8 << 20)):
            with self.subTest(capacity=capacity):
                self.state.capacity = capacity
                out = Operand(self, context, "float32", (1, 2, 2))
                self.calls()
                one, zero = native.MatrixFactor(1, None, 0), native.MatrixFactor(0, None, 0)
                stacks = [byref(v) for v in (one, a.stack, a.stack, zero, out.stack, out.stack)]
                context.check(self.library.cublas_product(context.pointer, native.GA_FLOAT, 0, *stacks))
                self.assertIn("cublasLtMatmul 2 2 1 %d" % used, self.calls())
                found = np.frombuffer(context.read(out.stack.data, 16), "float32").reshape(2, 2)
                np.testing.assert_allclose(found, a.value[0] @ a.value[0], rtol=1e-5)

    def test_limits(self):
        """Workspaces have at most 32 MiB, and 4 MiB on devices before compute capability 9.0."""
        for capability, workspace, used in ((90, 32 << 20, 32 << 20), (80, 32 << 20, 0), (80, 4 << 20, 4 << 20)):
            self.state.capability, self.blas.workspace = capability, workspace
            context = self.open()
            a = Operand(self, context, "float32", (1, 2, 2))
            stacks = [
                byref(v) for v in (native.MatrixFactor(1), a.stack, a.stack, native.MatrixFactor(), a.stack, a.stack)
            ]
            self.calls()
            context.check(self.library.cublas_product(context.pointer, native.GA_FLOAT, 0, *stacks))
            self.assertIn("cublasLtMatmul 2 2 1 %d" % used, self.calls())


class TestCache(WithCublas):
    """Tests of algorithms that are kept for later processes."""

    def setUp(self):
        super().setUp()
        self.kept = {}
        libc = ctypes.CDLL(None)
        libc.malloc.restype = c_void_p
        libc.malloc.argtypes = [c_size_t]

        def find(ctx, text, flags, options, size):
            found = self.kept.get(text)
            if found is None:
                return None
            size[0] = len(found)
            memory = libc.malloc(len(found))
            ctypes.memmove(memory, found, len(found))
            return memory

        def keep(ctx, text, flags, options, binary, size):
            self.kept[text] = ctypes.string_at(binary, size)

        self.functions = (
            CFUNCTYPE(c_void_p, c_void_p, c_char_p, c_int, c_char_p, POINTER(c_size_t))(find),
            CFUNCTYPE(None, c_void_p, c_char_p, c_int, c_char_p, c_void_p, c_size_t)(keep),
        )
        self.use_cache(self.library)

    def use_cache(self, library):
        cache = (c_void_p * 2).in_dll(library, "device_program_cache")
        cache[:] = [ctypes.cast(f, c_void_p).value for f in self.functions]
        self.addCleanup(cache.__setitem__, slice(None), [None, None])

    def used(self, name="cuda0", library=None):
        """Compute two equal products in a new context; return the calls that concern algorithms."""
        library = library or self.library
        context = native.Context(library, name, 0, -1.0)
        data = context.alloc(64)
        context.write(data, np.arange(16, dtype="float32").tobytes())
        shape, strides = (c_size_t * 3)(1, 2, 2), (ctypes.c_ssize_t * 3)(4, 2, 1)
        a, out = native.MatrixStack(data, 0, shape, strides), native.MatrixStack(data, 32, shape, strides)
        self.calls()
        for _ in range(2):
            stacks = [byref(v) for v in (native.MatrixFactor(1), a, a, native.MatrixFactor(), out, out)]
            context.check(library.cublas_product(context.pointer, native.GA_FLOAT, 0, *stacks))
        calls = [call.split()[0] for call in self.calls() if "Algo" in call]
        np.testing.assert_array_equal(np.frombuffer(context.read(data, 64), "float32")[8:12], [2, 3, 6, 11])
        context.free(data)
        context.close()
        return calls

    def test_reuse(self):
        chosen, checked = ["cublasLtMatmulAlgoGetHeuristic"], ["cublasLtMatmulAlgoCheck"]
        self.assertEqual(self.used(), chosen)
        self.assertEqual(len(self.kept), 1)
        self.assertEqual(self.used(), checked)
        # another version of the library, and another device
        self.blas.version = 120904
        another = native.load(fresh=True)
        native.set_libraries(another, cuda=self.path, nvrtc=self.path, cublasLt=self.cublas_path)
        self.use_cache(another)
        self.assertEqual(self.used(library=another), chosen)
        self.assertEqual(self.used("cuda1"), chosen)
        self.assertEqual(len(self.kept), 3)
        # an algorithm that the library refuses, and an entry of another size
        self.blas.refuses = 1
        self.assertEqual(self.used(), checked + chosen)
        self.kept = {text: b"short" for text in self.kept}
        self.assertEqual(self.used(), chosen)
        self.assertEqual({len(binary) for binary in self.kept.values()}, {5, 64})

    def test_workspace(self):
        """The workspace of an algorithm from the cache is that which the library reports for it."""
        self.blas.workspace = 512
        self.used()
        self.blas.workspace = 0
        self.assertEqual(self.used(), ["cublasLtMatmulAlgoCheck"])


class TestLibrary(WithCublas):
    """Tests of the library itself: missing, too old, of another CUDA version."""

    def setUp(self):
        super().setUp()
        self.library = native.load(fresh=True)
        native.set_libraries(self.library, cuda=self.path, nvrtc=self.path, cublasLt=self.cublas_path)

    def refused_library(self):
        context = native.Context(self.library, "cuda0", 0, -1.0)
        try:
            with self.assertRaises(native.DeviceError) as caught:
                context.check(self.library.cublas_open(context.pointer, byref(c_size_t())))
        finally:
            context.close()
        return caught.exception.code, str(caught.exception)

    def test_version(self):
        context, version = self.open(), c_size_t()
        for _ in range(2):
            context.check(self.library.cublas_open(context.pointer, byref(version)))
        self.assertEqual((version.value, self.blas.handles), (120903, 1))

    def test_other_devices(self):
        context = native.Context(self.library, "stub0", 0, -1.0)
        self.addCleanup(context.close)
        with self.assertRaisesRegex(native.DeviceError, "^stub0 is no CUDA device") as caught:
            context.check(self.library.cublas_open(context.pointer, byref(c_size_t())))
        self.assertEqual(caught.exception.code, native.GA_UNSUPPORTED_ERROR)

    def test_missing(self):
        native.set_libraries(self.library, cublasLt="/nowhere/libcublasLt.so.12")
        code, text = self.refused_library()
        self.assertEqual(code, native.GA_LOAD_ERROR)
        self.assertRegex(text, r"^cuBLASLt cannot be loaded \(/nowhere/.*\); pip install 'theano_ng\[cuda12\]' or ")

    def test_too_old(self):
        self.blas.version = 111103
        code, text = self.refused_library()
        self.assertEqual(code, native.GA_LOAD_ERROR)
        self.assertRegex(
            text,
            r"^cuBLASLt 11.11.3 \(%s\) is too old: 12.0.0 is the oldest .*pip install" % re.escape(self.cublas_path),
        )

    def test_for_a_newer_driver(self):
        self.blas.version = 131000
        self.assertEqual(
            self.refused_library(),
            (
                native.GA_LOAD_ERROR,
                "cuBLASLt 13.10.0 (%s) is for CUDA 13, but the driver is of CUDA 12.4: pip install 'theano_ng[cuda12]' "
                "installs the version for this driver" % self.cublas_path,
            ),
        )
        self.state.driver = 13000
        self.open().check(0)

    def test_another_library(self):
        path = compile_fake(
            self.folder, self.path, "-DFAKE_WITHOUT_CHECK", source="fake_cublas.c", name="libcublasLt.so.12"
        )
        native.set_libraries(self.library, cublasLt=path)
        code, text = self.refused_library()
        self.assertEqual(code, native.GA_LOAD_ERROR)
        self.assertRegex(text, "^%s has no function cublasLtMatmulAlgoCheck: cuBLASLt 12.0.0 is the " % re.escape(path))

    def test_a_failing_start(self):
        for status, code in ((1, native.GA_BLAS_ERROR), (3, native.GA_MEMORY_ERROR)):
            self.fake.fake_fail(b"cublasLtCreate", status, 0)
            found, text = self.refused_library()
            self.assertEqual((found, text), (code, "cublasLtCreate: CUBLAS_STATUS_OTHER (another error)"))
        context = self.open()
        context.check(self.library.cublas_open(context.pointer, byref(c_size_t())))


class TestPrograms(WithCublas):
    """Functions and pygpu, in a process of their own, because a process keeps the driver that it has loaded."""

    PROGRAM = """
        import logging
        import sys
        import numpy as np
        logging.basicConfig(level=logging.WARNING, format="LOG %(message)s", stream=sys.stdout)
        import theano_ng as theano
        import theano_ng.tensor as T
        from theano_ng.gpuarray.device import loader
        cuda, cublas = sys.argv[1:]
        for which, path in (("cuda", cuda), ("nvrtc", cuda), ("cublasLt", cublas)):
            loader.use(which, path)
        import ctypes
        driver = ctypes.CDLL(cuda)
        driver.fake_calls.restype = ctypes.c_char_p
        driver.fake_start(0)
        if "libcublasLt" in cublas:
            ctypes.CDLL(cublas).fake_blas_reset()
        from theano_ng.gpuarray import devices
        from theano_ng.gpuarray.blas import gpugemm_no_inplace
        from theano_ng.gpuarray.contexts import get_context
        from theano_ng.gpuarray.pygpu import blas
        from theano_ng.gpuarray.type import gpuarray_shared_constructor
        from theano_ng.gpuarray.pygpu import gpuarray as pygpu
        devices.use("cuda0")
        rng = np.random.default_rng(3)
        a, b, c = [rng.uniform(-1, 1, shape).astype("float32") for shape in ((3, 4), (4, 5), (3, 5))]
        x, y, z = [pygpu.array(v, context=get_context(None)) for v in (a, b, c)]
    """
    USE = """
        print("version", get_context(None).cublas)
        np.testing.assert_allclose(blas.gemm(2, x, y, 0.5, z), 2 * (a @ b) + 0.5 * c, rtol=1e-5)
        np.testing.assert_allclose(blas.gemm(1, y, x, trans_a=True, trans_b=True), b.T @ a.T, rtol=1e-5)
        np.testing.assert_allclose(blas.gemv(1, x, y[:, 0]), a @ b[:, 0], rtol=1e-5)
        np.testing.assert_allclose(blas.ger(1, x[0], y[:, 1]), np.outer(a[0], b[:, 1]), rtol=1e-5)
        w, rate = theano.shared(c), gpuarray_shared_constructor(np.array(0.25, "float32"), target=None)
        u, v = T.fmatrix(), T.fmatrix()
        step = theano.function([u, v], updates=[(w, w + rate * T.dot(u, v))])
        print([str(n.op) for n in step.maker.fgraph.toposort() if "Gemm" in str(n.op)], type(rate.type).__name__)
        step(a, b)
        driver.fake_calls()
        step(a, b)
        print(*[call for call in driver.fake_calls().decode().splitlines() if "Launch" in call or "Synch" in call or "cublas" in call])
        np.testing.assert_allclose(w.get_value(), c + 0.5 * (a @ b), rtol=1e-4, atol=1e-6)
        # cuBLASLt expects float32 factors of float16 matrices: a kernel converts the rate.
        w, rate = theano.shared(c.astype("float16")), gpuarray_shared_constructor(np.array(0.25, "float16"), target=None)
        u, v = T.matrix(dtype="float16"), T.matrix(dtype="float16")
        step = theano.function([u, v], updates=[(w, gpugemm_no_inplace(w, rate, u, v, 1.0))])
        step(a.astype("float16"), b.astype("float16"))
        driver.fake_calls()
        step(a.astype("float16"), b.astype("float16"))
        print(*[call.split()[0] for call in driver.fake_calls().decode().splitlines() if "Launch" in call or "cublas" in call])
        print(get_context(None).memory["blocks"])
    """
    MISSING = """
        for dtype in ("float32", "float64"):
            u, v = T.matrix(dtype=dtype), T.matrix(dtype=dtype)
            theano.function([u, v], T.dot(u, v))
    """

    EPILOGUES = """
        for flag in ("auto", "on"):
            theano.config.gpuarray.epilogue = flag
            u, v = T.fmatrix(), T.fmatrix()
            f = theano.function([u, v], T.tanh(T.dot(u, v)).transfer(None))
            for n in (100, 200):
                square = np.ones((n, n), "float32")
                f(square, square)
                driver.fake_calls()
                f(square, square)
                calls = [call.split()[0] for call in driver.fake_calls().decode().splitlines()]
                print(flag, n, *[call for call in calls if "cublas" in call or "Launch" in call])
        print(get_context(None).memory["blocks"])
    """

    def run_program(self, text, cublas):
        program = textwrap.dedent(self.PROGRAM) + textwrap.dedent(text)
        flags = "base_compiledir=%s,gpuarray.cache_path=%s" % (
            config.base_compiledir,
            os.path.join(self.folder, "cache"),
        )
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, self.path, cublas],
            capture_output=True,
            text=True,
            timeout=300,
            env=dict(os.environ, THEANO_FLAGS=flags),
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.splitlines()

    def test_functions(self):
        """A step with a shared learning rate computes its product in one call, and does not wait."""
        for _ in range(2):  # the second process finds the algorithms in the cache
            said = self.run_program(self.USE, self.cublas_path)
            self.assertEqual(
                said[:-1],
                [
                    "version 12.9.3",
                    "['GpuGemm{inplace=True}'] GpuArrayType",
                    "cublasLtMatmul 5 3 1 0",
                    "cuLaunchKernel cublasLtMatmul",
                ],
            )
            self.assertLess(int(said[-1]), 12)
        self.assertTrue(os.listdir(os.path.join(self.folder, "cache")))

    def test_epilogues(self):
        """An elementwise operation on a large product is a second kernel after the library, which computes into memory
        that is freed. With gpuarray.epilogue=on, it is part of the product's kernel.
        """
        said = self.run_program(self.EPILOGUES, self.cublas_path)
        self.assertEqual(
            said[:-1],
            [
                "auto 100 cuLaunchKernel",
                "auto 200 cublasLtMatmul cuLaunchKernel",
                "on 100 cuLaunchKernel",
                "on 200 cuLaunchKernel",
            ],
        )
        self.assertLess(int(said[-1]), 12)

    def test_missing(self):
        """Without the library, the log says so once, and the products have other kernels."""
        said = self.run_program(self.MISSING, "/nowhere/libcublas.so.12")
        self.assertEqual(len(said), 1)
        self.assertRegex(said[0], "^LOG Fake 0: products of matrices run without cuBLASLt: cuBLASLt cannot be loaded")


class TestInterface(unittest.TestCase):
    """Tests of the declarations in cublas_lt.h, with NVIDIA's library and headers, if they are installed."""

    def setUp(self):
        self.path = loader.nvidia("cublasLt", loader.CUBLAS_VERSIONS)
        if self.path is None:
            self.skipTest("needs cuBLASLt: pip install 'theano_ng[cuda13]'")
        with open(os.path.join(os.path.dirname(HERE), "cublas_lt.h"), encoding="ascii") as file:
            self.ours = file.read()

    def test_constants(self):
        """The constants have the values of the headers."""
        folder = os.path.join(os.path.dirname(os.path.dirname(self.path)), "include")
        theirs = ""
        for name in ("cublasLt.h", "cublas_api.h"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                theirs += file.read()
        constants = dict(re.findall(r"^    (CUBLAS\w+) = (\d+),", self.ours, re.MULTILINE))
        self.assertGreater(len(constants), 20)
        for name, value in constants.items():
            # an enumerator, such as "CUBLAS_OP_T = 1", "... = 0x02" or "... = CUBLAS_POINTER_MODE_DEVICE"
            found = re.search(r"\b%s\s*=\s*(\w+)" % name, theirs)[1]
            found = found if found[0].isdigit() else re.search(r"\b%s\s*=\s*(\w+)" % found, theirs)[1]
            self.assertEqual(int(found, 0), int(value), name)

    def test_descriptors(self):
        """The library has all functions, and accepts all attributes that cublas.c sets. This needs no device."""
        library = ctypes.CDLL(self.path)
        for name in re.findall(r"X\((cublasLt\w+)", self.ours):
            getattr(library, name)
        product, layout, preference = c_void_p(), c_void_p(), c_void_p()
        self.assertEqual(library.cublasLtMatmulDescCreate(byref(product), 68, 0), 0)
        self.assertEqual(
            library.cublasLtMatrixLayoutCreate(byref(layout), 2, c_uint64(3), c_uint64(4), ctypes.c_int64(5)), 0
        )
        self.assertEqual(library.cublasLtMatmulPreferenceCreate(byref(preference)), 0)
        kinds = {
            "MATMUL_DESC": ("cublasLtMatmulDescSetAttribute", product),
            "MATRIX_LAYOUT": ("cublasLtMatrixLayoutSetAttribute", layout),
            "MATMUL_PREF": ("cublasLtMatmulPreferenceSetAttribute", preference),
        }
        attributes = re.findall(r"CUBLASLT_(MATMUL_DESC|MATRIX_LAYOUT|MATMUL_PREF)_\w+ = (\d+),\s*/\* (\w+)", self.ours)
        self.assertEqual(len(attributes), 8)
        for kind, number, type_ in attributes:
            function, descriptor = kinds[kind]
            value = np.ones(1, type_.removesuffix("_t"))
            arguments = descriptor, int(number), c_void_p(value.ctypes.data)
            self.assertEqual(getattr(library, function)(*arguments, c_size_t(value.nbytes)), 0, (kind, number))
            self.assertNotEqual(getattr(library, function)(*arguments, c_size_t(value.nbytes + 4)), 0, (kind, number))


if __name__ == "__main__":
    unittest.main()
