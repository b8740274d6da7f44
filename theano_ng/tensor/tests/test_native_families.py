"""Tests of the declared parameters of native tensor functions, and of the contents of loaded extension modules."""

import glob
import importlib
import importlib.machinery
import importlib.util
import os
import pkgutil
import unittest
from concurrent import futures

import numpy as np

import theano_ng.tensor.native
from theano_ng.gof.native import native_function
from theano_ng.gof.native_params import SCRATCH


class TestDeclarations(unittest.TestCase):
    def test_all(self):
        """Python can read the declarations of every native function, and only two functions request scratch memory."""
        folder = os.path.dirname(theano_ng.tensor.native.__file__)
        paths = glob.glob(os.path.join(folder, "*", "*.c"))
        families = sorted({os.path.basename(path)[:-2] for path in paths} - {"alloc"})
        found = {}
        for family in families:
            module = importlib.import_module("theano_ng.tensor.native." + family)
            for name in module.params:
                if hasattr(module, name):
                    found[family, name] = native_function("theano_ng.tensor.native.%s:%s" % (family, name)).record
        self.assertEqual(
            {key for key, record in found.items() if SCRATCH in record.offsets},
            {("elemwise", "elemwise"), ("reduce", "reduce_elemwise")},
        )
        # The parameters of an elementwise operation have the same declaration inside a reduction and alone.
        outer, inner = found["reduce", "reduce_elemwise"].row, found["elemwise", "elemwise"].row
        self.assertEqual(outer.offsets, inner.offsets)


def loaded_anew(module):
    """Load an extension module once more under another name, so that its initialization runs again."""
    name = "anew." + module.__spec__.name.rpartition(".")[2]
    loader = importlib.machinery.ExtensionFileLoader(name, module.__file__)
    made = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, module.__file__, loader=loader))
    loader.exec_module(made)
    return made


class TestLoading(unittest.TestCase):
    def modules(self):
        names = [found.name for found in pkgutil.iter_modules(theano_ng.tensor.native.__path__)]
        return [importlib.import_module("theano_ng.tensor.native." + name) for name in sorted(names)]

    def test_all(self):
        """Every module can be loaded a second time. Both loaded modules define the same names."""
        modules = self.modules()
        self.assertGreater(len(modules), 20)
        for module in modules:
            made = loaded_anew(module)
            self.assertIsNot(made, module)
            self.assertEqual(
                *[{n for n in dir(m) if not n.startswith("__")} for m in (made, module)], msg=module.__spec__.name
            )

    def test_instructions(self):
        """Each module of the interpreter maps the same names of instructions and kernels to addresses."""
        blocks = [loaded_anew(m) for m in self.modules() if ".blocks_v" in m.__spec__.name]
        self.assertGreater(len(blocks), 0)
        for module in blocks:
            self.assertEqual(set(module.kernels), {"", "loop", "int64", "uint64", "float32", "float64"})
            self.assertGreater(len(module.instructions), 500)
            self.assertEqual(set(module.instructions), set(blocks[0].instructions))
            for address in (*module.kernels.values(), *module.instructions.values()):
                self.assertIsInstance(address, int)
                self.assertGreater(address, 0)


class TestFilledMemory(unittest.TestCase):
    """Tests of `alloc.fill`: after a call, new uninitialized memory is filled with the given byte."""

    def setUp(self):
        self.alloc = importlib.import_module("theano_ng.tensor.native.alloc")

    def fill(self, byte):
        self.addCleanup(self.alloc.restore, self.alloc.fill(byte))

    def test_bytes(self):
        for byte in (0, 1, 0x3A, 255):
            previous = self.alloc.fill(byte)
            try:
                for array in (np.empty(3, "int8"), np.empty((40, 70)), self.alloc.empty((600, 700), "float64")):
                    self.assertEqual(set(array.tobytes()), {byte})
                self.assertEqual(np.zeros((40, 70)).any(), False)
            finally:
                self.alloc.restore(previous)

    def test_what_is_no_byte(self):
        for wrong in (-1, 256, 2**40, -(2**40)):
            with self.assertRaisesRegex(ValueError, "expected a byte from 0 to 255, got %d" % wrong):
                self.alloc.fill(wrong)
        for wrong in ("a", 1.5, None):
            self.assertRaises(TypeError, self.alloc.fill, wrong)
        self.assertRaises(OverflowError, self.alloc.fill, 2**80)

    def test_nesting(self):
        """After `restore`, new memory is filled with the previous byte again."""
        self.fill(7)
        inner = self.alloc.fill(9)
        self.assertEqual(set(np.empty(100, "int8").tolist()), {9})
        self.alloc.restore(inner)
        self.assertEqual(set(np.empty(100, "int8").tolist()), {7})

    def test_threads(self):
        """Each thread has its own fill byte. If the first thread to set a byte also restores first, no byte remains."""

        def bytes_of_new_arrays():
            arrays = np.empty(100, "int8"), self.alloc.empty((600, 700), "float64")
            return {byte for array in arrays for byte in array.tobytes()}

        with futures.ThreadPoolExecutor(1) as other:
            first = self.alloc.fill(1)
            second = other.submit(self.alloc.fill, 2).result()
            try:
                self.assertEqual(bytes_of_new_arrays(), {1})
                self.assertEqual(other.submit(bytes_of_new_arrays).result(), {2})
            finally:
                self.alloc.restore(first)
                other.submit(self.alloc.restore, second).result()
        self.test_recycled_memory_stays_as_it_is()

    def test_recycled_memory_stays_as_it_is(self):
        self.alloc.trim()
        for _ in range(3):
            made = self.alloc.empty((600, 700), "float64")
            made[:] = 5
            where = made.ctypes.data
            del made
            made = self.alloc.empty((600, 700), "float64")
            self.assertEqual(made.ctypes.data, where)
            self.assertEqual(set(made.ravel().tolist()), {5.0})

    def test_more_memory_than_there_is(self):
        """Requests of more memory than exists raise MemoryError, with a fill byte and without."""
        for shape in ((2**46,), (2**30, 2**28)):
            self.assertRaises(MemoryError, self.alloc.empty, shape, "float64")
        self.fill(3)
        self.assertRaises(MemoryError, self.alloc.empty, (2**46,), "float64")
        self.assertRaises(MemoryError, np.empty, 2**46, "float64")
        self.assertRaises(MemoryError, np.zeros, 2**46, "float64")


if __name__ == "__main__":
    unittest.main()
