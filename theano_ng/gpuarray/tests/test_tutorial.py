"""Tests of the programs on the tutorial's page about devices."""

import os
import re
import subprocess
import sys
import unittest

from theano_ng.configdefaults import config
from theano_ng.gpuarray.tests import mpi
from theano_ng.gpuarray.tests.device import DEVICE, context

CODE = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", "..", "..", "doc", "tutorial", "code"))
PROGRAM = os.path.join(CODE, "using_gpu.py")


class TestProgram(unittest.TestCase):
    def run_on(self, device):
        flags = "device=%s,force_device=%s,floatX=float32,print_active_device=False" % (device, device != "cpu")
        environment = dict(os.environ, THEANO_FLAGS="base_compiledir=%s,%s" % (config.base_compiledir, flags))
        done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, env=environment, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        cost, *rest = done.stdout.splitlines()
        return float(re.fullmatch(r"cost (\d\.\d+)", cost)[1]), rest

    @unittest.skipUnless(os.path.exists(PROGRAM), "needs the manual, which is not installed with the package")
    def test_with_and_without_a_device(self):
        context()  # skips the test if there is no device
        cost, said = self.run_on(DEVICE)
        self.assertEqual(said, ["w is a GpuArray", "nodes on a device: True"])
        of_host, said = self.run_on("cpu")
        self.assertEqual(said, ["w is a ndarray", "nodes on a device: False"])
        self.assertAlmostEqual(cost, of_host, delta=2e-4)

    @unittest.skipUnless(os.path.exists(PROGRAM), "needs the manual, which is not installed with the package")
    def test_several_processes(self):
        context()
        flags = "base_compiledir=%s,print_active_device=False" % config.base_compiledir
        said = mpi.run(2, os.path.join(CODE, "several_processes.py"), DEVICE, DEVICE, THEANO_FLAGS=flags)
        found = re.findall(r"process (\d) of 2, by host: \[1.0, -2.0, 3.0\]", said)
        self.assertEqual(sorted(found), ["0", "1"], said)


if __name__ == "__main__":
    unittest.main()
