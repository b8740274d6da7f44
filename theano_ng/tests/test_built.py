"""Tests of the libraries and symbols that built extension modules require from the system."""

import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

import theano_ng

PACKAGE = os.path.dirname(os.path.abspath(theano_ng.__file__))

# A program that checks sums, pooling, a convolution and CTC, whose native code uses threads. At the end, the program
# prints whether the process has loaded an OpenMP library.
THREADED = """
import numpy as np
import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.tensor.nnet.ctc import ctc
from theano_ng.tensor.signal.pool import pool_2d
x = np.random.RandomState(0).rand(4, 3, 128, 128)
i, k = T.tensor4s("i", "k")
images, kernels = x.astype(i.dtype), np.ones((2, 3, 3, 3), k.dtype)
total, rows, pooled, convolved = theano.function([i, k], [i.sum(), i.sum(axis=(1, 3)), pool_2d(i, (2, 2), True), T.nnet.conv2d(i, k)])(images, kernels)
np.testing.assert_allclose(total, x.sum(), rtol=1e-4)
np.testing.assert_allclose(rows, x.sum(axis=(1, 3)), rtol=1e-4)
np.testing.assert_allclose(pooled, x.reshape(4, 3, 64, 2, 64, 2).max(axis=(3, 5)), rtol=1e-6)
one = x.sum(1)
expected = sum(one[:, a:a + 126, b:b + 126] for a in range(3) for b in range(3))
np.testing.assert_allclose(convolved[:, 1], expected, rtol=1e-4)
a, l, n = T.ftensor3(), T.imatrix(), T.ivector()
cost = theano.function([a, l, n], ctc(a, l, n))(np.zeros((3, 8, 4), "f"), np.full((8, 1), 1, "i"), np.full(8, 3, "i"))
np.testing.assert_allclose(cost, -np.log(6 / 64), rtol=1e-5)
with open("/proc/self/maps") as file:
    print("with library" if "/libgomp" in file.read() else "without library")
"""


def extension_files():
    return sorted(glob.glob(os.path.join(PACKAGE, "**", "*.so"), recursive=True))


@unittest.skipUnless(sys.platform == "linux", "about the dynamic linker of Linux")
class Requirements(unittest.TestCase):
    def test_versions_of_glibc(self):
        """With theano_ng/gof/old_symbols.h, extension modules need no newer glibc than 2.28 (manylinux_2_28)."""
        files = extension_files()
        self.assertGreater(len(files), 20)
        for name in files:
            with open(name, "rb") as file:
                versions = re.findall(rb"GLIBC_(\d+)\.(\d+)", file.read())
            newest = max([(int(a), int(b)) for a, b in versions], default=(2, 0))
            self.assertLessEqual(newest, (2, 28), name)

    def test_modules_load_without_a_library_for_threads(self):
        """No module is linked to an OpenMP library: tensor/native/common/gomp.h loads the library at run time."""
        for name in extension_files():
            with open(name, "rb") as file:
                self.assertEqual(re.findall(rb"\0G?OMP_\d[\d.]*\0", file.read()), [], name)

    def run_threaded(self, **environment):
        done = subprocess.run(
            [sys.executable, "-c", THREADED],
            env={
                **os.environ,
                "THEANO_FLAGS": os.environ.get("THEANO_FLAGS", "") + ",openmp=True,openmp_elemwise_minsize=1,cxx=",
                "OMP_NUM_THREADS": "2",
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_threads(self):
        self.run_threaded()

    def test_loops_are_sequential_without_a_library_for_threads(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "libgomp.so.1"), "w") as file:
                file.write("no library\n")
            self.assertEqual(self.run_threaded(LD_LIBRARY_PATH=folder), "without library\n")
