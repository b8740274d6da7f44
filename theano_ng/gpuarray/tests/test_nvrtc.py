"""Tests that all device code of the package compiles for CUDA devices; the compiler NVRTC needs no device."""

import ctypes
import unittest

import numpy as np

from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.kernels import samples
from theano_ng.gpuarray.pygpu import gpuarray
from theano_ng.gpuarray.tests.cluda_kernels import CLUDA

# Turing (sm_75) is the oldest architecture that all compilers support. The code for Hopper (sm_90) and Blackwell
# (sm_100) differs most from the code for Turing.
ARCHITECTURES = ("sm_75", "sm_90", "sm_100")

DTYPES = "bool int8 uint16 int64 float16 float32 float64 complex64 complex128".split()


class Nvrtc:
    """The compiler library NVRTC, loaded from a path."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.nvrtcCreateProgram.argtypes = [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.c_int,
        ] + 2 * [ctypes.POINTER(ctypes.c_char_p)]

    def compile(self, text, flags, options, architecture):
        """Compile as cuda_program.c does; return the size of the binary (0 after an error) and the compiler's log."""
        nvrtc = self.library
        front = loader.cluda("cuda")
        words = [b"--gpu-architecture=" + architecture.encode(), *options.encode().split()]
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        text = ("" if flags & native.GA_USE_CUDA else front) + text
        headers = (ctypes.c_char_p * 1)(front.encode()), (ctypes.c_char_p * 1)(b"cluda.h")
        assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernels", 1, *headers) == 0
        status = nvrtc.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        said = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, said)
        size.value = 0
        if status == 0:
            nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
        return size.value, said.value.decode()


class TestNvrtc(unittest.TestCase):
    version = 13

    @classmethod
    def setUpClass(cls):
        path = loader.nvidia("nvrtc", [cls.version])
        if path is None:
            raise unittest.SkipTest("needs NVIDIA's compiler: pip install 'theano_ng[cuda%d]'" % cls.version)
        cls.compiler = Nvrtc(path)

    def check(self, name, text, flags=0, options="", architectures=ARCHITECTURES):
        for architecture in architectures:
            with self.subTest(name, architecture=architecture):
                size, said = self.compiler.compile(text, flags, options, architecture)
                self.assertGreater(size, 0, said)

    def test_the_names_of_cluda(self):
        self.check("cluda", CLUDA)

    def test_the_names_of_cluda_in_texts_of_cuda(self):
        # The compiler does not add cluda.h to CUDA source code, but the code may include cluda.h.
        self.check("include", CLUDA, native.GA_USE_CUDA)

    def test_lines_are_those_of_the_text(self):
        for first in ("", '#include "cluda.h"'):
            size, said = self.compiler.compile(first + "\n\nKERNEL void f() { nobody(); }", 0, "", "sm_90")
            self.assertEqual(size, 0)
            self.assertRegex(said, r"kernels\(3\): error")

    def test_copies(self):
        # The copy kernels that array.c generates on demand, for all pairs of dtypes, are compiled as one program.
        context = gpuarray.init("stub2")
        library = native.load()
        library.stub_reset(2)
        library.stub_of(2).contents.recording = True
        for dtype in DTYPES:
            matrix = gpuarray.empty((4, 6), dtype, context=context)
            matrix[:, ::2].copy()
            gpuarray.empty((4, 6, 3), dtype, context=context)[::-1, ::2].copy()
            for other in DTYPES:
                if np.dtype(other).kind == "c" or np.dtype(dtype).kind != "c":
                    matrix.astype(other)
        texts = [library.stub_program(2, i) for i in range(library.stub_of(2).contents.count("build"))]
        self.assertGreater(len(texts), len(DTYPES) ** 2 // 2)
        self.check(
            "copies", "\n".join(text.decode().replace("copy_elements", "copy_%d" % i) for i, text in enumerate(texts))
        )

    def test_samples(self):
        for module, sample in samples.collect():
            self.check("%s: %s" % (module, sample.name), sample.text, sample.flags, sample.options)


class TestNvrtc12(TestNvrtc):
    version = 12


if __name__ == "__main__":
    unittest.main()
