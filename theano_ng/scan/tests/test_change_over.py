"""Tests of loops that are called while kernels are compiled, in a new process with an empty cache.

The process runs `scan.tests.change_over`.
"""

import os
import subprocess
import sys
import tempfile
import unittest

from theano_ng.configdefaults import config
from theano_ng.gof.compiler.background import AVAILABLE


@unittest.skipUnless(config.cxx and AVAILABLE, "there is no compiler that could run in the background")
class TestChangeOver(unittest.TestCase):
    def run_loops(self, flags, count):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            environment = dict(os.environ, THEANO_FLAGS="base_compiledir=%s,%s" % (folder, flags))
            command = [sys.executable, "-m", "theano_ng.scan.tests.change_over", "--first", "0", "--count", str(count)]
            done = subprocess.run(command, env=environment, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_random_loops(self):
        """A loop gives the same bits before and after its kernel is compiled, and the values of NumPy up to rounding.

        The loops have scalar, vector and matrix states, several taps, and some have an `until` condition.
        """
        self.run_loops("tiered=auto", 53)


if __name__ == "__main__":
    unittest.main()
