"""A base class for tests of Ops that use cuDNN.

If the tests run on a CUDA device (``make test-gpu``), they use its cuDNN. Otherwise they run on a fake CUDA device with a
fake cuDNN (`device/tests/stub_cuda`), whose kernels compute nothing: only transfers and calls of cuDNN give numbers there.
A test must therefore pass arrays that the library reads without a copy, or ask `kernels_run`.
"""

import atexit
import ctypes
import shutil
import tempfile
import unittest

import numpy as np

import theano_ng as theano
from theano_ng.compile.mode import Mode, get_mode
from theano_ng.gpuarray.contexts import list_contexts, reg_context
from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.device.tests.cudnn import CODES, FakeDnn, compile_fake_cudnn
from theano_ng.gpuarray.dnn import dnn_available
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.tests.device import DEVICE, context, placed
from theano_ng.gpuarray.tests.fake_driver import fake_driver
from theano_ng.gpuarray.type import GpuArrayType

DTYPES = tuple(CODES)
TOLERANCE = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-12}
LAYOUTS = ("C", "F", "strided")  # the layouts of `placed` that cuDNN reads without a copy

_fakes = []


class Fakes:
    """The fake driver and the fake cuDNN of this process.

    Attributes
    ----------
    cuda, cudnn : ctypes.CDLL
    state : FakeState
    dnn : FakeDnn
    """

    def __init__(self):
        folder = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        cuda, self.cuda = fake_driver()
        cudnn = compile_fake_cudnn(folder, cuda)
        for which, path in (("cuda", cuda), ("nvrtc", cuda), ("cudnn", cudnn), ("cublasLt", cudnn)):
            loader.use(which, path)
        self.cudnn = ctypes.CDLL(cudnn)
        self.cudnn.fake_dnn_state.restype = ctypes.POINTER(FakeDnn)
        self.cudnn.fake_dnn_reset()
        self.state, self.dnn = self.cuda.fake_state().contents, self.cudnn.fake_dnn_state().contents

    def calls(self):
        """Return the calls of the driver and of cuDNN since the last request."""
        return self.cuda.fake_calls().decode().splitlines()

    def fail(self, name, status, after=0):
        """Let a function fail once."""
        self.cuda.fake_fail(name.encode(), status, after)


class CudnnTest(unittest.TestCase):
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
        if DEVICE.startswith("cuda"):
            cls.name, cls.fakes = context(), None
            if not dnn_available(cls.name):
                raise unittest.SkipTest("needs cuDNN: " + dnn_available.msg)
            return
        if not _fakes:
            _fakes.append(Fakes())
        cls.name, cls.fakes = "fake", _fakes[0]
        if cls.name not in list_contexts():
            reg_context(cls.name, pygpu.init("cuda0"))

    def setUp(self):
        self.rng = np.random.default_rng(3)

    @property
    def kernels_run(self):
        """True if kernels compute on the device."""
        return self.fakes is None

    def needs_fakes(self):
        """Skip a test on a real device."""
        if self.fakes is None:
            self.skipTest("needs the fake library, which fails on demand")

    def random(self, dtype, *shape):
        return self.rng.uniform(-2, 2, shape).astype(dtype)

    def variable(self, dtype, ndim, name=None):
        return GpuArrayType(dtype, (False,) * ndim, self.name)(name)

    def placed(self, value, layout="C"):
        return placed(value, layout, self.name)

    def compile(self, inputs, outputs, **options):
        """Compile a function. Its nodes for the device stay there.

        On the fake device, the mode is never DebugMode, which needs kernels that copy.
        """
        return theano.function(inputs, outputs, mode=None if self.kernels_run else "FAST_RUN", **options)

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
