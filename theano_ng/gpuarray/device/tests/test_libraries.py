"""Tests of cuSOLVER, cuBLAS's triangular systems and cuFFT on a fake driver and fake libraries (`stub_cuda`): loading,
calls, memory, failures. ``gpuarray/tests/test_linalg.py`` and ``test_fft.py`` test the numbers.
"""

import ctypes
import os
import re
import unittest
from ctypes import POINTER, byref, c_char, c_int, c_int64, c_size_t, c_uint64, c_void_p

import numpy as np

from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.device.tests.test_cuda import WithFake, compile_fake

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"float32": native.GA_FLOAT, "float64": native.GA_DOUBLE}

SIZE, MEMORY = c_size_t, c_uint64
PROTOTYPES = {
    "cublas_solve_open": [POINTER(c_size_t)],
    "cusolver_open": [POINTER(c_size_t)],
    "cufft_open": [POINTER(c_size_t)],
    "cusolver_lu": [c_int, SIZE, MEMORY, SIZE, MEMORY, MEMORY],
    "cusolver_lu_solve": [c_int, c_int, SIZE, SIZE, MEMORY, SIZE, MEMORY, MEMORY, MEMORY],
    "cusolver_cholesky": [c_int, c_int, SIZE, MEMORY, SIZE, MEMORY],
    "cusolver_cholesky_solve": [c_int, c_int, SIZE, SIZE, MEMORY, MEMORY, MEMORY],
    "cusolver_qr": [c_int, SIZE, SIZE, MEMORY, MEMORY, MEMORY],
    "cusolver_qr_columns": [c_int, SIZE, SIZE, MEMORY, MEMORY, MEMORY],
    "cusolver_svd": [c_int, c_char, SIZE, SIZE, MEMORY, MEMORY, MEMORY, MEMORY, MEMORY],
    "cusolver_eigh": [c_int, c_int, c_int, SIZE, MEMORY, MEMORY, MEMORY],
    "cublas_solve_triangular": [c_void_p],
    "cufft_transform": [c_void_p, MEMORY, MEMORY],
}


class Triangular(ctypes.Structure):
    """The C structure `triangular_system`."""

    _fields_ = [
        *[(name, c_int) for name in "typecode from_right upper transposed".split()],
        *[(name, c_size_t) for name in ("rows", "columns")],
        *[(name, c_uint64) for name in "ab"],
        *[(name, c_size_t) for name in ("a_leading", "b_leading")],
    ]


class FftForm(ctypes.Structure):
    """The C structure `fft_form`."""

    _fields_ = [
        *[(name, c_int64) for name in ("kind", "typecode", "rank")],
        ("lengths", c_int64 * 3),
        *[(name, c_int64) for name in ("stride", "step", "batch")],
    ]


class FakeLibrary(ctypes.Structure):
    """The first members of the states of the fake libraries."""

    _fields_ = [("version", c_int * 3), ("count", c_int)]


class SolverState(ctypes.Structure):
    """The C structure `fake_solver`."""

    _fields_ = [("version", c_int * 3), *[(n, c_int) for n in ("handles", "workspace", "wrong", "ignores_nan")]]


class FftState(ctypes.Structure):
    """The C structure `fake_fft`."""

    _fields_ = [("version", c_int * 3), ("plans", c_int), ("workspace", c_size_t)]


# Name of a library -> source file of the fake, name of its file, functions for its state, type of the state
FAKES = {
    "cublas": ("fake_cublas_solve.c", "libcublas.so.12", "fake_triangular", FakeLibrary),
    "cusolver": ("fake_cusolver.c", "libcusolver.so.11", "fake_solver", SolverState),
    "cufft": ("fake_cufft.c", "libcufft.so.11", "fake_fft", FftState),
}


class WithLibraries(WithFake):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.paths, cls.fakes, cls.states = {}, {}, {}
        for which, (source, file, prefix, state) in FAKES.items():
            cls.paths[which] = compile_fake(cls.folder, cls.path, "-lm", source=source, name=file)
            cls.fakes[which] = ctypes.CDLL(cls.paths[which])
            found = getattr(cls.fakes[which], prefix + "_state")
            found.restype = POINTER(state)
            cls.states[which] = found().contents
        cls.use(cls.library)

    @classmethod
    def use(cls, library):
        """Let a library of the device code use the fakes."""
        native.set_libraries(library, cuda=cls.path, nvrtc=cls.path, **cls.paths)
        for name, arguments in PROTOTYPES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = c_int, [c_void_p, *arguments]

    def setUp(self):
        super().setUp()
        for which, (_, _, prefix, _) in FAKES.items():
            getattr(self.fakes[which], prefix + "_reset")()

    def nothing_is_left(self):
        super().nothing_is_left()
        left = [self.states["cublas"].count, self.states["cusolver"].handles, self.states["cufft"].plans]
        self.assertEqual(left, [0, 0, 0])

    def memory(self, content):
        """Return the address of device memory with the content of an array."""
        content = np.ascontiguousarray(content)
        data = self.context.alloc(max(content.nbytes, 1))
        self.addCleanup(self.context.free, data)
        self.context.write(data, content.tobytes())
        return native.memory_of(data)

    def content(self, address, like):
        """Read an array with the shape and dtype of `like`."""
        return np.frombuffer(self.context.device.read(address, like.nbytes), like.dtype).reshape(like.shape)

    def call(self, name, *arguments):
        self.context.check(getattr(self.library, name)(self.context.pointer, *arguments))

    def every_call(self, dtype="float64"):
        """Return a dict from the name of a function to the arguments of a correct call, for a matrix of 3 x 3."""
        code = DTYPES[dtype]
        a = self.memory(np.eye(3, dtype=dtype) * 4)
        b, s, u, vt = [self.memory(np.ones((3, 3), dtype)) for _ in range(4)]
        info, pivots = self.memory(np.zeros(1, "int32")), self.memory(np.arange(1, 4, dtype="int32"))
        system = Triangular(code, 0, 0, 0, 3, 3, a, b, 3, 3)
        form = FftForm(0, code, 1, (c_int64 * 3)(4), 1, 0, 1)
        return {
            "cusolver_lu": (code, 3, a, 3, pivots, info),
            "cusolver_lu_solve": (code, 0, 3, 3, a, 3, pivots, b, info),
            "cusolver_cholesky": (code, 0, 3, a, 3, info),
            "cusolver_cholesky_solve": (code, 0, 3, 3, a, b, info),
            "cusolver_qr": (code, 3, 3, a, s, info),
            "cusolver_qr_columns": (code, 3, 3, a, s, info),
            "cusolver_svd": (code, b"A", 3, 3, a, s, u, vt, info),
            "cusolver_eigh": (code, 1, 0, 3, a, s, info),
            "cublas_solve_triangular": (byref(system),),
            "cufft_transform": (byref(form), b, u),
        }


# Function -> functions of the library that can fail in it, without the letter of the precision, and their statuses
CALLS = {
    "cusolver_lu": ("cusolverDn%sgetrf_bufferSize", "cusolverDn%sgetrf"),
    "cusolver_lu_solve": ("cusolverDn%sgetrs",),
    "cusolver_cholesky": ("cusolverDn%spotrf_bufferSize", "cusolverDn%spotrf"),
    "cusolver_cholesky_solve": ("cusolverDn%spotrs",),
    "cusolver_qr": ("cusolverDn%sgeqrf_bufferSize", "cusolverDn%sgeqrf"),
    "cusolver_qr_columns": ("cusolverDn%sorgqr_bufferSize", "cusolverDn%sorgqr"),
    "cusolver_svd": ("cusolverDn%sgesvd_bufferSize", "cusolverDn%sgesvd"),
    "cusolver_eigh": ("cusolverDn%ssyevd_bufferSize", "cusolverDn%ssyevd"),
    "cublas_solve_triangular": ("cublasSetWorkspace", "cublas%strsm"),
    "cufft_transform": (
        "cufftCreate",
        "cufftSetAutoAllocation",
        "cufftSetStream",
        "cufftMakePlanMany64",
        "cufftSetWorkArea",
        "cufftExec%s",
    ),
}


class TestCalls(WithLibraries):
    def setUp(self):
        super().setUp()
        self.context = self.open()

    def test_all_calls(self):
        """All routines run in both precisions, in the stream of the device, and no call waits."""
        for dtype in DTYPES:
            calls = self.every_call(dtype)
            self.assertEqual(set(calls), set(CALLS))
            for name, arguments in calls.items():
                with self.subTest(name, dtype=dtype):
                    self.calls()
                    self.call(name, *arguments)
                    noted = [line.split()[0] for line in self.calls()]
                    letter = "D" if dtype == "float64" else "S"
                    last = "cufftExec" if name == "cufft_transform" else CALLS[name][-1] % letter
                    self.assertIn(last, noted)
                    self.assertEqual([line for line in noted if "Synchronize" in line or "DtoH" in line], [])

    def test_failing_calls(self):
        """The error names the call, its status, the shape and the dtype. The next call works."""
        for dtype, letter in (("float32", "S"), ("float64", "D")):
            for name, names in CALLS.items():
                for one in names:
                    one = one.replace("Exec%s", "Exec" + ("D2Z" if letter == "D" else "R2C")).replace("%s", letter)
                    with self.subTest(one):
                        arguments = self.every_call(dtype)[name]
                        status, text = (
                            (6, r"%s: CUFFT_EXEC_FAILED \(6\), for 1 transforms of shape \(4,\), ")
                            if name == "cufft_transform"
                            else (13, "%s: CUBLAS_STATUS_EXECUTION_FAILED")
                            if name == "cublas_solve_triangular"
                            else (6, r"%s: CUSOLVER_STATUS_EXECUTION_FAILED \(6\), for a matrix of shape \(3, 3\), ")
                        )
                        if one == "cublas%strsm" % letter:
                            text += r" \(the GPU .*\), for a matrix of shape \(3, 3\) and 3 right-hand sides, "
                        if one != "cublasSetWorkspace":
                            text = text % one + (dtype if "shape" in text else "")
                        else:
                            text %= one
                        plans = self.states["cufft"].plans
                        if one in names[:4] and plans:
                            continue  # there is a plan already
                        self.fake.fake_fail(one.encode(), status, 0)
                        with self.assertRaisesRegex(native.DeviceError, "^" + text) as caught:
                            self.call(name, *arguments)
                        self.assertEqual(caught.exception.code, native.GA_BLAS_ERROR)
                        self.call(name, *self.every_call(dtype)[name])
                        self.context.device.call("sync")

    def test_failing_plans(self):
        """A plan that cannot be set up is destroyed."""
        for i, one in enumerate(CALLS["cufft_transform"][:4]):
            form = FftForm(0, native.GA_FLOAT, 1, (c_int64 * 3)(5 + i), 1, 0, 1)
            memory = self.memory(np.zeros(40))
            self.fake.fake_fail(one.encode(), 8, 0)
            with self.assertRaisesRegex(native.DeviceError, r"^%s: CUFFT_INVALID_SIZE \(8\), for 1 transforms" % one):
                self.call("cufft_transform", byref(form), memory, memory + 160)
            self.assertEqual(self.states["cufft"].plans, i)
            self.call("cufft_transform", byref(form), memory, memory + 160)

    def test_no_memory_for_a_plan(self):
        """If cuFFT finds no memory, unused memory is given back, and the plan is made again."""
        form = FftForm(0, native.GA_FLOAT, 1, (c_int64 * 3)(5), 1, 0, 1)
        memory = self.memory(np.zeros(40))
        self.fake.fake_fail(b"cufftMakePlanMany64", 2, 0)
        self.call("cufft_transform", byref(form), memory, memory + 160)
        self.assertEqual(self.states["cufft"].plans, 1)

    def test_workspaces(self):
        """A workspace is a block of the pool, which is released at once. Without memory for it, the error is a memory error,
        and later calls work.
        """
        self.states["cusolver"].workspace = 3 << 20
        self.states["cufft"].workspace = 24 << 20
        for name, arguments in self.every_call().items():
            if name in ("cusolver_lu_solve", "cusolver_cholesky_solve"):
                continue
            with self.subTest(name):
                before = self.context.counts().in_use
                self.call(name, *arguments)
                self.assertEqual(self.context.counts().in_use, before)
                self.context.trim()
                self.state.capacity = self.state.held + (128 << 10)
                if name == "cublas_solve_triangular":
                    self.calls()
                    self.call(name, *arguments)
                    self.assertIn("cublasDtrsm 3 3 %d" % (64 << 10), self.calls())
                    self.state.capacity = self.state.held + 1000
                with self.assertRaises(native.DeviceError) as caught:
                    self.call(name, *arguments)
                self.assertEqual(caught.exception.code, native.GA_MEMORY_ERROR)
                self.state.capacity = 1 << 30
                self.call(name, *arguments)

    def test_workspace_of_triangular_systems(self):
        for capability, size in ((90, 32 << 20), (80, 4 << 20)):
            self.state.capability = capability
            self.context = self.open()
            arguments = self.every_call()["cublas_solve_triangular"]
            self.calls()
            self.call("cublas_solve_triangular", *arguments)
            self.assertIn("cublasDtrsm 3 3 %d" % size, self.calls())

    def test_calls_are_not_recorded(self):
        """While a graph is recorded, a call is made at once, and is no part of the graph."""
        self.context = self.open(preallocate=0.0)
        a, b = 4 * np.eye(3), np.arange(9.0).reshape(3, 3)
        matrix, right = self.memory(a), self.memory(b)
        system = Triangular(native.GA_DOUBLE, 0, 0, 0, 3, 3, matrix, right, 3, 3)
        device, graph = self.context.device, c_void_p()
        device.call("graph", 0, byref(graph))
        self.call("cublas_solve_triangular", byref(system))
        device.call("graph", 1, byref(graph))
        device.call("graph", 2, byref(graph))
        found = self.content(right, b)
        device.call("graph", 3, byref(graph))
        np.testing.assert_allclose(found, b / 4)

    def test_checked_contexts_wait(self):
        self.context = self.open(flags=native.GA_CTX_CHECKED)
        for name, arguments in self.every_call().items():
            self.calls()
            self.call(name, *arguments)
            self.assertEqual(self.calls()[-1], "cuStreamSynchronize", name)

    def test_two_devices(self):
        """Each device has handles and plans of its own."""
        first, second = self.context, self.open("cuda1")
        for self.context in (first, second, first):
            for name, arguments in self.every_call().items():
                self.call(name, *arguments)
        self.assertEqual(self.states["cusolver"].handles, 2)
        self.assertEqual(self.states["cublas"].count, 2)
        self.assertEqual(self.states["cufft"].plans, 2)


OPENERS = {
    "cublas": ("cublas_solve_open", "cuBLAS"),
    "cusolver": ("cusolver_open", "cuSOLVER"),
    "cufft": ("cufft_open", "cuFFT"),
}


class TestLoading(WithLibraries):
    """Tests of the libraries themselves: missing, too old, of another version of CUDA."""

    def setUp(self):
        super().setUp()
        self.library = native.load(fresh=True)
        self.use(self.library)

    def version(self, which, context):
        version = c_size_t()
        context.check(getattr(self.library, OPENERS[which][0])(context.pointer, byref(version)))
        return version.value

    def refused(self, which):
        context = native.Context(self.library, "cuda0", 0, -1.0)
        try:
            with self.assertRaises(native.DeviceError) as caught:
                self.version(which, context)
        finally:
            context.close()
        return caught.exception.code, str(caught.exception)

    def test_versions(self):
        context = self.open()
        for _ in range(2):
            self.assertEqual([self.version(which, context) for which in OPENERS], [120903, 110701, 110303])
        self.assertEqual((self.states["cublas"].count, self.states["cusolver"].handles), (1, 1))

    def test_other_devices(self):
        context = native.Context(self.library, "stub0", 0, -1.0)
        self.addCleanup(context.close)
        for which, (_, title) in OPENERS.items():
            with self.assertRaises(native.DeviceError) as caught:
                self.version(which, context)
            self.assertEqual(caught.exception.code, native.GA_UNSUPPORTED_ERROR)
            self.assertEqual(str(caught.exception), "stub0 is no CUDA device, so %s does not run on it" % title)

    def test_missing(self):
        for which, (_, title) in OPENERS.items():
            native.set_libraries(self.library, **{which: "/nowhere/lib%s.so.12" % which})
            code, text = self.refused(which)
            self.assertEqual(code, native.GA_LOAD_ERROR)
            self.assertRegex(
                text, r"^%s cannot be loaded \(/nowhere/.*\); pip install 'theano_ng\[cuda12\]' or " % title
            )

    def test_too_old(self):
        for which, old, oldest in (
            ("cublas", (11, 11, 3), "12.0.0"),
            ("cusolver", (11, 4, 1), "11.4.2"),
            ("cufft", (10, 9, 0), "11.0.0"),
        ):
            self.states[which].version[:] = old
            code, text = self.refused(which)
            self.assertEqual(code, native.GA_LOAD_ERROR)
            said = r"^%s %d.%d.%d \(%s\) is too old: %s is the oldest that can be used; pip install"
            self.assertRegex(text, said % (OPENERS[which][1], *old, re.escape(self.paths[which]), oldest))

    def test_for_a_newer_driver(self):
        for which, version in (("cublas", (13, 1, 0)), ("cusolver", (12, 0, 4)), ("cufft", (12, 0, 0))):
            self.states[which].version[:] = version
            said = (
                "%s %d.%d.%d (%s) is for CUDA 13, but the driver is of CUDA 12.4: pip install 'theano_ng[cuda12]' installs "
                "the version for this driver" % (OPENERS[which][1], *version, self.paths[which])
            )
            self.assertEqual(self.refused(which), (native.GA_LOAD_ERROR, said))
        self.state.driver = 13000
        context = self.open()
        self.assertEqual([self.version(which, context) for which in OPENERS], [130100, 120004, 120000])

    def test_other_libraries(self):
        for which, option, missing in (
            ("cublas", "-DFAKE_WITHOUT_DOUBLE", "cublasDtrsm_v2"),
            ("cusolver", "-DFAKE_WITHOUT_SVD", "cusolverDnSgesvd"),
            ("cufft", "-DFAKE_WITHOUT_INVERSE", "cufftExecZ2D"),
        ):
            source, file, _, _ = FAKES[which]
            path = compile_fake(self.folder, self.path, "-lm", option, source=source, name=file)
            native.set_libraries(self.library, **{which: path})
            code, text = self.refused(which)
            self.assertEqual(code, native.GA_LOAD_ERROR)
            said = r"^%s has no function %s: %s \d+\.\d+\.\d+ is the oldest that can be used; pip install"
            self.assertRegex(text, said % (re.escape(path), missing, OPENERS[which][1]))
            native.set_libraries(self.library, **{which: self.path})  # the driver is no such library
            self.assertRegex(self.refused(which)[1], "has no function %sGetProperty: " % which)

    def test_failing_starts(self):
        for which, call, statuses in (
            ("cublas", "cublasCreate", (1, 3)),
            ("cublas", "cublasSetStream", (1, 3)),
            ("cusolver", "cusolverDnCreate", (1, 2)),
            ("cusolver", "cusolverDnSetStream", (1, 2)),
        ):
            for status, code in zip(statuses, (native.GA_BLAS_ERROR, native.GA_MEMORY_ERROR)):
                self.fake.fake_fail(call.encode(), status, 0)
                found, text = self.refused(which)
                self.assertEqual(found, code)
                self.assertRegex(text, r"^%s: CU\w+_STATUS_\w+ \(" % call)
        context = self.open()
        for which in OPENERS:
            self.version(which, context)


class TestInterface(unittest.TestCase):
    """Tests of the declarations, with NVIDIA's libraries and headers, if they are installed."""

    def found(self, name, versions):
        path = loader.nvidia(name, versions.values() if isinstance(versions, dict) else versions)
        if path is None:
            self.skipTest("needs lib%s: pip install 'theano_ng[cuda13]'" % name)
        return path, os.path.join(os.path.dirname(os.path.dirname(path)), "include")

    def compare(self, path, folder, header, theirs, prefix, letters, least):
        """Compare the constants of a header with NVIDIA's headers, and look up the functions in the library."""
        text = ""
        for name in theirs:
            for place in (folder, *[os.path.join(f, "nvidia", "cublas", "include") for f in os.sys.path]):
                if os.path.exists(os.path.join(place, name)):
                    with open(os.path.join(place, name), encoding="utf-8") as file:
                        text += file.read()
                    break
        with open(os.path.join(os.path.dirname(HERE), header), encoding="ascii") as file:
            ours = file.read()
        constants = re.findall(r"^    ([A-Z]\w+) = (-?\w+),", ours, re.MULTILINE)
        self.assertGreater(len(constants), least)
        for name, value in constants:
            found = re.search(r"\b%s\s*=?\s*(-?(0x)?\w+)" % name, text)
            self.assertEqual(int(found[1], 0), int(value, 0), name)
        library = ctypes.CDLL(path)
        for name in re.findall(r"X\((\w+),", ours):
            if name != "name":
                for letter in letters if prefix else [""]:
                    full = prefix + letter + name if prefix and not name.startswith("cu") else name
                    getattr(library, full)

    def test_cusolver(self):
        path, folder = self.found("cusolver", loader.CUSOLVER_VERSIONS)
        names = ("cusolver_common.h", "cublas_api.h")
        self.compare(path, folder, "cusolver_api.h", names, "cusolverDn", "SD", 10)

    def test_cublas(self):
        path, folder = self.found("cublas", loader.CUBLAS_VERSIONS)
        self.compare(path, folder, "cublas_api.h", ("cublas_api.h",), "", "", 8)

    def test_cufft(self):
        path, folder = self.found("cufft", loader.CUFFT_VERSIONS)
        self.compare(path, folder, "cufft_api.h", ("cufft.h",), "", "", 12)


if __name__ == "__main__":
    unittest.main()
