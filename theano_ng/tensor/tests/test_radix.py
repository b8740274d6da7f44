"""Tests of the C code that sorts more keys than 32 bits can count. The tests compile this code with a smaller limit."""

import ctypes
import os
import subprocess
import sysconfig
import tempfile
import unittest

import numpy as np

from theano_ng.gof.compiler import find_toolchain
from theano_ng.tensor import native

LIMIT = 1000
NATIVE = os.path.dirname(native.__file__)
GOF = os.path.join(os.path.dirname(os.path.dirname(NATIVE)), "gof")

SOURCE = """
#include "native.h"
#undef UINT32_MAX
#define UINT32_MAX %d
#include "sorting/radix.h"

int64_t counters(void)
{
    return RADIX_COUNTERS;
}

void order(const uint64_t *keys, int64_t n, int64_t *order, uint64_t *work, int64_t *count)
{
    order_of_keys(keys, n, order, work, count);
}
"""


def array(dtype):
    return np.ctypeslib.ndpointer(dtype, flags="C_CONTIGUOUS")


HAS_SOURCES = os.path.exists(os.path.join(NATIVE, "sorting", "radix.h"))


@unittest.skipUnless(find_toolchain() and HAS_SOURCES, "needs a C compiler and the sources")
class TestManyKeys(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            source, library = os.path.join(folder, "radix.c"), os.path.join(folder, "radix.so")
            with open(source, "w") as file:
                file.write(SOURCE % LIMIT)
            folders = GOF, NATIVE, sysconfig.get_path("include"), np.get_include()
            command = [find_toolchain().cc, "-O1", "-shared", "-fPIC", *["-I" + name for name in folders]]
            made = subprocess.run([*command, "-o", library, source], capture_output=True, text=True)
            if made.returncode:
                raise AssertionError(made.stderr)
            cls.library = ctypes.CDLL(library)
        cls.library.counters.restype = ctypes.c_int64
        cls.library.order.restype = None
        cls.library.order.argtypes = [
            array("uint64"), ctypes.c_int64, array("int64"), array("uint64"), array("int64")
        ]  # fmt: skip

    def order(self, keys):
        n = len(keys)
        got, work = np.full(n, -1), np.zeros(n, "uint64")
        self.library.order(keys, n, got, work, np.full(self.library.counters(), -1))
        return got

    def test_order(self):
        """The sort is stable for keys of 1 to 8 bytes.

        Some bytes are equal in all keys.
        """
        rng = np.random.RandomState(4)
        for n in (LIMIT + 1, 3000):
            for bits in (1, 5, 8, 9, 16, 23, 32, 40, 57, 64):
                keys = rng.randint(0, 2**64, n, "uint64") >> np.uint64(64 - bits)
                for low, step in ((0, 1), (3, 1), (0, 256), (2**40 - 1, 2**16)):
                    if bits + int(step).bit_length() > 64:
                        continue
                    before = keys * np.uint64(step) + np.uint64(low)
                    given = before.copy()
                    np.testing.assert_array_equal(self.order(given), np.argsort(before, kind="stable"))
                    np.testing.assert_array_equal(given, before)

    def test_equal_keys(self):
        for key in (0, 7, 2**64 - 1):
            keys = np.full(LIMIT + 500, key, "uint64")
            np.testing.assert_array_equal(self.order(keys), np.arange(len(keys)))
            keys[3] -= np.uint64(1) if key else np.uint64(2**64 - 9)
            np.testing.assert_array_equal(self.order(keys), np.argsort(keys, kind="stable"))


if __name__ == "__main__":
    unittest.main()
