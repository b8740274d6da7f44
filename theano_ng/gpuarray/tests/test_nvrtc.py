"""Tests that all device code of the package compiles for CUDA devices; the compiler NVRTC needs no device."""

import ctypes
import glob
import itertools
import os
import re
import subprocess
import tempfile
import unittest
from collections import Counter

import numpy as np

from theano_ng import scalar
from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.kernels import device_kernel, samples
from theano_ng.gpuarray.kernels.elemwise import elemwise_kernels
from theano_ng.gpuarray.kernels.reduce import reduce_kernels, reduction_program
from theano_ng.gpuarray.kernels.row_loop import ELEMENT, ONE, RowInput
from theano_ng.gpuarray.kernels.rows import row_kernel
from theano_ng.gpuarray.nnet import (
    gpu_crossentropy_softmax_1hot_with_bias_dx,
    gpu_crossentropy_softmax_argmax_1hot_with_bias,
    gpu_softmax,
    gpu_softmax_grad,
)
from theano_ng.gpuarray.pygpu import gpuarray
from theano_ng.gpuarray.rows import LoopBuilder
from theano_ng.gpuarray.tests.cluda_kernels import CLUDA
from theano_ng.loops.program import elementwise_program

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
        """Compile as cuda_program.c does. Return the binary, which is empty after an error, and the compiler's log, which
        describes each kernel.
        """
        nvrtc = self.library
        front = loader.cluda("cuda")
        words = [b"--gpu-architecture=" + architecture.encode(), b"--ptxas-options=-v", *options.encode().split()]
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
        binary = ctypes.create_string_buffer(size.value)
        if status == 0:
            nvrtc.nvrtcGetCUBIN(program, binary)
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
        return binary.raw, said.value.decode()


# Registers of a processor. A thread of a group of 256 threads may have 256 registers. The kernels that mostly access
# memory need fewer, so that a processor has room for several groups: while some groups wait for memory, the others go
# on. (Kernels of pooling keep places in windows in registers.)
REGISTERS, GROUP = 65536, 256
GROUPS_PER_PROCESSOR = dict.fromkeys(
    ["theano_ng.gpuarray.kernels." + name for name in ("product", "correlation", "pooling")], 1
)


def usage(said):
    """Return the registers of the kernels in a compiler's log, and the bytes that they spill."""
    registers, spilled = [
        [int(number) for number in re.findall(pattern, said)]
        for pattern in (r"Used (\d+) registers", r"(\d+) bytes spill (?:stores|loads)")
    ]
    return registers, spilled


class TestNvrtc(unittest.TestCase):
    version = 13

    @classmethod
    def setUpClass(cls):
        path = loader.nvidia("nvrtc", [cls.version])
        if path is None:
            raise unittest.SkipTest("needs NVIDIA's compiler: pip install 'theano_ng[cuda%d]'" % cls.version)
        cls.compiler = Nvrtc(path)

    def check(self, name, text, flags=0, options="", groups=2):
        """Compile a program. Check that nothing is spilled, and that the registers suffice for a number of groups."""
        for architecture in ARCHITECTURES:
            with self.subTest(name, architecture=architecture):
                binary, said = self.compiler.compile(text, flags, options, architecture)
                self.assertTrue(binary, said)
                registers, spilled = usage(said)
                self.assertEqual(len(registers), len(re.findall(r"\bKERNEL void", text)), said)
                self.assertGreaterEqual(len(spilled), 2 * len(registers), said)
                self.assertFalse([line for line in said.splitlines() if any(usage(line)[1])])
                self.assertLessEqual(max(registers) * GROUP * groups, REGISTERS, said)

    def test_the_names_of_cluda(self):
        self.check("cluda", CLUDA)

    def test_the_names_of_cluda_in_texts_of_cuda(self):
        # The compiler does not add cluda.h to CUDA source code, but the code may include cluda.h.
        self.check("include", CLUDA, native.GA_USE_CUDA)

    def test_lines_are_those_of_the_text(self):
        for first in ("", '#include "cluda.h"'):
            binary, said = self.compiler.compile(first + "\n\nKERNEL void f() { nobody(); }", 0, "", "sm_90")
            self.assertFalse(binary)
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
            gpuarray.empty((40, 35), dtype, context=context).T.copy()
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
            groups = GROUPS_PER_PROCESSOR.get(module, 2)
            self.check("%s: %s" % (module, sample.name), sample.text, sample.flags, sample.options, groups)

    def test_spills_are_found(self):
        module, sample = next(pair for pair in samples.collect() if pair[0].endswith(".product"))
        _, said = self.compiler.compile(sample.text, sample.flags, "--maxrregcount=32", "sm_90")
        self.assertTrue(any(usage(said)[1]), said)


class TestNvrtc12(TestNvrtc):
    version = 12


def row_loops(dtype):
    """Return row programs: name -> the program, and the number of operands that its first pass loads."""
    builder = LoopBuilder([RowInput(dtype, ELEMENT), RowInput(dtype, ELEMENT), RowInput("float32", ONE)])
    centred = builder.map(scalar.sub, 0, builder.map(scalar.true_div, builder.fold(scalar.add, 0, "float32"), 2))
    squares = builder.fold(scalar.add, builder.map(scalar.sqr, centred), "float32")
    deviation = builder.map(scalar.sqrt, builder.map(scalar.true_div, squares, 2))
    scaled = builder.map(scalar.mul, builder.map(scalar.true_div, centred, deviation), 1, dtype=dtype)
    entropy, gradient = gpu_crossentropy_softmax_argmax_1hot_with_bias, gpu_crossentropy_softmax_1hot_with_bias_dx
    return {
        "normalization": (builder.loop(scaled), 1),
        "softmax": (gpu_softmax.loop([dtype], dtype), 1),
        "gradient of softmax": (gpu_softmax_grad.loop([dtype] * 2, dtype), 2),
        "cross-entropy": (entropy.loop([dtype, dtype, "int32"], [dtype, dtype, "int32"]), 2),
        "gradient of cross-entropy": (gradient.loop([dtype, dtype, "int32"], [dtype]), 1),
    }


class TestInstructions(unittest.TestCase):
    """Tests of the instructions by which kernels access memory, as the disassembler nvdisasm prints them."""

    @classmethod
    def setUpClass(cls):
        folders = map(glob.escape, loader._package_folders("nvidia"))
        found = [path for folder in folders for path in glob.glob(os.path.join(folder, "*", "bin", "nvdisasm"))]
        library = loader.nvidia("nvrtc", [13, 12])
        if not found or library is None:
            raise unittest.SkipTest("needs NVIDIA's disassembler and compiler: pip install 'theano_ng[test]'")
        cls.disassembler, cls.compiler = found[0], Nvrtc(library)

    def instructions(self, text, architecture):
        """Return the names of the instructions of a program, in order."""
        return self.compiled(text, architecture)[0]

    def compiled(self, text, architecture):
        """Return the names of the instructions of a program, and the compiler's log."""
        binary, said = self.compiler.compile(text, 0, "", architecture)
        self.assertTrue(binary, said)
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(binary)
            file.flush()
            command = [self.disassembler, "-c", file.name]
            listing = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        return re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?\w+\s+)?([A-Z][\w.]*)", listing), said

    def of_kernel(self, kernel, architecture):
        return self.instructions(device_kernel.program([kernel])[0], architecture)

    def test_contiguous_operands(self):
        """Elements are loaded and stored 16 bytes at a time."""
        for dtype in ("float32", "float16", "float64", "int8"):
            for op, nin in ((scalar.add, 2), (scalar.exp if dtype.startswith("f") else scalar.neg, 1)):
                kernel = elemwise_kernels(elementwise_program(op, (dtype,) * nin, (dtype,)), 0, None)[0]
                for architecture in ARCHITECTURES:
                    with self.subTest(dtype=dtype, op=op, architecture=architecture):
                        count = Counter(name[:9] for name in self.of_kernel(kernel, architecture))
                        self.assertEqual((count["LDG.E.128"], count["STG.E.128"]), (nin, 1))

    def test_sums(self):
        """Four loads of 16 bytes follow each other, and the threads of a warp add by shuffles."""
        for dtype, acc in (("float32", "float32"), ("float16", "float32"), ("int8", "int64"), ("float64", "float64")):
            program = reduction_program(scalar.add, None, dtype, acc, dtype)
            kernel = reduce_kernels(program, 1, 1, None)[0]
            for architecture in ARCHITECTURES:
                with self.subTest(dtype=dtype, architecture=architecture):
                    names = self.of_kernel(kernel, architecture)
                    first = next(i for i, name in enumerate(names) if name.startswith("LDG.E.128"))
                    following = [
                        name for name in names[first : first + 60] if name.startswith(("LDG.E.128", "FADD", "DADD"))
                    ]
                    self.assertTrue(all(name.startswith("LDG.E.128") for name in following[:4]), following)
                    self.assertTrue(any(name.startswith("SHFL.DOWN") for name in names))

    def test_rows(self):
        """Two vectors of each operand are loaded before the first of them is used, and results are stored as vectors."""
        for dtype, architecture in itertools.product(("float32", "float16"), ARCHITECTURES):
            for name, (loop, operands) in row_loops(dtype).items():
                with self.subTest(name, dtype=dtype, architecture=architecture):
                    names, said = self.compiled(device_kernel.program([row_kernel(loop, None)])[0], architecture)
                    (registers,), spilled = usage(said)
                    self.assertFalse(any(spilled), said)
                    self.assertLessEqual(registers * GROUP * 2, REGISTERS)
                    first = next(i for i, name in enumerate(names) if name.startswith("LDG.E.128"))
                    kinds = ("LDG.E.128", "FADD", "FMUL", "FFMA", "FSETP", "FMNMX", "HADD2")
                    following = [name for name in names[first:] if name.startswith(kinds)][: 2 * operands]
                    self.assertTrue(all(name.startswith("LDG.E.128") for name in following), following)
                    self.assertTrue(any(name.startswith("STG.E.128") for name in names))

    def test_transposition(self):
        """A thread loads its four elements of a tile before it stores the first of them."""
        context = gpuarray.init("stub2")
        library = native.load()
        library.stub_reset(2)
        library.stub_of(2).contents.recording = True
        gpuarray.empty((40, 35), "float32", context=context).T.copy()
        text = library.stub_program(2, library.stub_of(2).contents.count("build") - 1).decode()
        for architecture in ARCHITECTURES:
            memory = [
                name for name in self.instructions(text, architecture) if name.startswith(("LDG", "STG", "STS", "LDS"))
            ]
            kinds = [kind for kind, _ in itertools.groupby(name[:3] for name in memory)]
            self.assertEqual(kinds[:2], ["LDG", "STS"])
            self.assertEqual([name[:3] for name in memory[:4]], ["LDG"] * 4)


if __name__ == "__main__":
    unittest.main()
