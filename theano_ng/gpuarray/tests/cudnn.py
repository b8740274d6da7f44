"""A base class for tests of Ops that use cuDNN."""

import ctypes
import unittest

import numpy as np

import theano_ng as theano
from theano_ng.compile.debugmode import DebugMode
from theano_ng.compile.mode import Mode, get_default_mode, get_mode
from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.device.tests.cudnn import CODES, FakeDnn
from theano_ng.gpuarray.device.tests.test_cuda import FakeState
from theano_ng.gpuarray.dnn import dnn_available
from theano_ng.gpuarray.tests import fake_cuda
from theano_ng.gpuarray.tests.device import LAYOUTS, placed
from theano_ng.gpuarray.type import GpuArrayType

DTYPES = tuple(CODES)
TOLERANCE = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-12}


class Fakes:
    """The fake driver and the fake cuDNN of this process.

    Attributes
    ----------
    cuda, cudnn : ctypes.CDLL
    state : FakeState
    dnn : FakeDnn
    """

    def __init__(self):
        self.cuda, self.cudnn = fake_cuda.fakes["cuda"], fake_cuda.fakes["cudnn"]
        self.cuda.fake_state.restype = ctypes.POINTER(FakeState)
        self.cudnn.fake_dnn_state.restype = ctypes.POINTER(FakeDnn)
        self.state, self.dnn = self.cuda.fake_state().contents, self.cudnn.fake_dnn_state().contents

    def calls(self):
        """Return the calls of the driver and of cuDNN since the last request."""
        return self.cuda.fake_calls().decode().splitlines()

    def fail(self, name, status, after=0):
        """Let a function fail once."""
        self.cuda.fake_fail(name.encode(), status, after)


class CudnnTest(fake_cuda.CudaTest):
    """A test on a CUDA device with cuDNN.

    Attributes
    ----------
    name : str
        The name of the context.
    fakes : Fakes or None
        None on a real device.
    """

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.fakes = None if fake_cuda.is_real else Fakes()
        for which, path in fake_cuda.paths.items():
            loader.use(which, path)
            cls.addClassCleanup(loader.use, which, None)
        if not dnn_available(cls.name):
            raise unittest.SkipTest("needs cuDNN: " + dnn_available.msg)

    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(3)

    def needs_fakes(self):
        """Skip a test on a real device."""
        if self.fakes is None:
            self.skipTest("needs the fake library, which fails on demand")

    def needs_single_runs(self):
        """Skip a test in DebugMode."""
        if isinstance(get_default_mode(), DebugMode):
            self.skipTest("DebugMode runs a node several times, and copies its inputs")

    def assert_device_refuses(self, error, message):
        """Return a context in which a node must raise an error at run time, with a message that matches a pattern.

        In DebugMode, every error is accepted: the computation on the host fails first, with its own error.
        """
        if isinstance(get_default_mode(), DebugMode):
            return self.assertRaises(Exception)
        return self.assertRaisesRegex(error, message)

    def random(self, dtype, *shape):
        return self.rng.uniform(-2, 2, shape).astype(dtype)

    def variable(self, dtype, ndim, name=None):
        return GpuArrayType(dtype, (False,) * ndim, self.name)(name)

    def placed(self, value, layout="C"):
        return placed(value, layout, self.name)

    def compile(self, inputs, outputs, **options):
        """Compile a function. Its nodes for the device stay there."""
        return theano.function(inputs, outputs, **options)

    def both_ways(self, inputs, outputs):
        """Yield pairs of a function and a layout for its inputs. The first functions use cuDNN. The last function computes
        the formulas of the nodes on the host, as DebugMode does.
        """
        f = self.compile(inputs, outputs)
        for layout in LAYOUTS:
            yield f, layout
        yield theano.function(inputs, outputs, mode=Mode("py", None)), "C"

    def device_mode(self, *including):
        """Return a mode that moves graphs to the device of a variable, with the rules of these tags."""
        return get_mode("FAST_RUN").including("gpuarray", *including)

    def check(self, found, expected, tolerance=None):
        found = np.asarray(found)
        tolerance = TOLERANCE.get(found.dtype.name, 0) if tolerance is None else tolerance
        np.testing.assert_allclose(found, expected, tolerance, tolerance)

    def ops(self, f):
        """Return the names of the Ops of a function."""
        return [type(node.op).__name__ for node in f.maker.fgraph.toposort()]
