"""Tests of the programs in examples/on_device.py: they run wholly on a device, and give the results of the host."""

import os
import subprocess
import sys
import unittest

import numpy as np

import theano_ng as theano
from theano_ng.compile.mode import get_mode
from theano_ng.compile.sharedvalue import shared
from theano_ng.configdefaults import config
from theano_ng.gpuarray import devices
from theano_ng.gpuarray.nnet import GpuLabels
from theano_ng.gpuarray.tests import program_counts
from theano_ng.gpuarray.tests.device import context
from theano_ng.gpuarray.transfers import GpuFromHost, HostFromGpu
from theano_ng.scan.op import Scan

STEPS = 50


@unittest.skipUnless(os.path.exists(program_counts.EXAMPLES), "needs the folder examples of the repository")
class TestPrograms(unittest.TestCase):
    def run_steps(self, module, name, mode):
        """Return the costs of some steps, the final values of the shared variables, and the function."""
        inputs, cost, updates, draw = module.program(name, batch=20)
        f = theano.function(inputs, cost, updates=updates, mode=mode)
        costs = [f(*draw()) for _ in range(STEPS)]
        return costs, [variable.get_value() for variable, _ in updates], f

    def check_graph(self, f):
        """Arrays cross the bus only as inputs and as the cost. The loops move nothing, and the last node waits."""
        ops = [node.op for node in f.maker.fgraph.toposort()]
        uploads = sum(isinstance(op, (GpuFromHost, GpuLabels)) for op in ops)
        self.assertEqual(
            uploads,
            sum(
                not hasattr(v, "get_value")
                for v in f.maker.fgraph.inputs
                if v.ndim > 0 and not hasattr(v.type, "context")
            ),
        )
        self.assertEqual(sum(isinstance(op, HostFromGpu) for op in ops), 1)
        for op in ops:
            if isinstance(op, Scan):
                inner = [node.op for node in op.fn.maker.fgraph.toposort()]
                self.assertFalse([o for o in inner if isinstance(o, (GpuFromHost, HostFromGpu))])
        order = [type(node.op) for node in f.fn.nodes]
        self.assertGreaterEqual(order.index(HostFromGpu), len(order) - 2)

    # The loops inside the programs are compiled in the default mode. DebugMode would need hours.
    @config.change_flags(floatX="float64", on_opt_error="raise", assert_no_cpu_op="raise", mode="FAST_RUN")
    def test_equal_the_host(self):
        context()
        module = program_counts.programs()
        there = get_mode("FAST_RUN").including("gpuarray", "assert_no_cpu_op")
        for name in module.PROGRAMS:
            with self.subTest(name):
                here = self.run_steps(module, name, get_mode("FAST_RUN"))
                before = list(shared.constructors)
                devices._first(devices.gpuarray_shared_constructor)
                try:
                    device = self.run_steps(module, name, there)
                finally:
                    shared.constructors[:] = before
                np.testing.assert_allclose(device[0], here[0], rtol=1e-10)
                for a, b in zip(device[1], here[1]):
                    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
                self.check_graph(device[2])

    def test_counts(self):
        """The counts of calls of a step equal those in program_counts.txt."""
        command = [sys.executable, "-m", program_counts.__name__]
        flags = (
            "floatX=float32,print_active_device=False,device=cpu,init_gpu_device=,base_compiledir=%s"
            % config.base_compiledir
        )
        environment = dict(os.environ, THEANO_FLAGS=flags)
        found = subprocess.run(command, capture_output=True, text=True, env=environment)
        self.assertEqual(found.returncode, 0, found.stderr)
        with open(program_counts.TABLE) as file:
            self.assertEqual(found.stdout, file.read())
