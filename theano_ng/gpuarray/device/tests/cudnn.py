"""A base class for tests of computations by cuDNN, on a fake driver and a fake cuDNN (`stub_cuda`), which computes in the
conventions of the library.
"""

import ctypes
import glob
import os
from ctypes import POINTER, byref, c_int, c_size_t, c_uint64

import numpy as np

from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.device.tests.test_cuda import HERE, WithFake, compile_fake

CODES = {"float16": native.GA_HALF, "float32": native.GA_FLOAT, "float64": native.GA_DOUBLE}
TOLERANCE = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}
# The libraries that libcudnn.so.9 loads from its folder
PARTS = tuple(["libcudnn_%s.so.9" % part for part in ("graph", "ops", "cnn", "adv")])
GRAPH_PARTS = tuple(
    ["libcudnn_%s.so.9" % part for part in ("heuristic", "engines_precompiled", "engines_runtime_compiled")]
)
NOT_SUPPORTED, EXECUTION_FAILED = 3000, 5000


class FakeDnn(ctypes.Structure):
    """The C structure `fake_dnn`."""

    _fields_ = [
        ("version", c_int),
        ("runtime", c_int),
        ("handles", c_int),
        ("descriptors", c_int),
        ("workspace", c_uint64),
    ]


def compile_fake_cudnn(folder, cuda, *options):
    """Compile all files of the fake cuDNN to one library that is linked with the fake driver; return its path."""
    families = sorted(glob.glob(os.path.join(HERE, "stub_cuda", "fake_cudnn_*.c")))
    path = compile_fake(folder, *families, cuda, "-lm", *options, source="fake_cudnn.c", name="libcudnn.so.9")
    for part in PARTS + GRAPH_PARTS:
        os.symlink(path, os.path.join(os.path.dirname(path), part))
    return path


class WithCudnn(WithFake):
    """A test with a fake library. After each test, no handle and no descriptor may be left."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cudnn_path = compile_fake_cudnn(cls.folder, cls.path)
        cls.cudnn = ctypes.CDLL(cls.cudnn_path)
        cls.cudnn.fake_dnn_state.restype = POINTER(FakeDnn)
        cls.dnn = cls.cudnn.fake_dnn_state().contents
        native.set_libraries(cls.library, cudnn=cls.cudnn_path)

    def setUp(self):
        super().setUp()
        self.cudnn.fake_dnn_reset()
        self.rng = np.random.default_rng(8)

    def nothing_is_left(self):
        super().nothing_is_left()
        self.assertEqual((self.dnn.handles, self.dnn.descriptors), (0, 0))

    def memory(self, context, content):
        """Return device memory with the content of an array."""
        data = context.alloc(max(content.nbytes, 1))
        self.addCleanup(context.free, data)
        context.write(data, content.tobytes())
        return data

    def dnn_calls(self):
        """Return the calls of the fake cuDNN since the last request."""
        return [call for call in self.calls() if call.startswith("cudnn")]


class Tensor:
    """An array in device memory, together with its elements on the host.

    Parameters
    ----------
    test : WithCudnn
    context : native.Context
    value : numpy.ndarray
    order : sequence of int, optional
        The axes in the order in which they are in memory. Default: C order.
    extra : int
        The number of unused elements behind each line of elements.
    start : int
        The number of unused elements in front.

    Attributes
    ----------
    memory : numpy.ndarray
        The elements of the device memory when the tensor was made.
    value : numpy.ndarray
        A view of `memory`.
    tensor : native.DnnTensor
    """

    def __init__(self, test, context, value, order=None, extra=0, start=0):
        order = tuple(range(value.ndim)) if order is None else tuple(order)
        shape = [value.shape[axis] for axis in order]
        inner = [*shape[:-1], shape[-1] + extra]
        self.memory = np.full(start + int(np.prod(inner)), 7, value.dtype)
        view = self.memory[start:].reshape(inner)[..., : shape[-1]]
        self.value = view.transpose(np.argsort(order))
        self.value[...] = value
        self.context = context
        self.tensor = native.DnnTensor(
            test.memory(context, self.memory), start * value.itemsize, CODES[value.dtype.name], value.ndim
        )
        for axis, (dim, stride) in enumerate(zip(value.shape, self.value.strides)):
            self.tensor.dims[axis], self.tensor.strides[axis] = dim, stride // value.itemsize

    @property
    def pointer(self):
        return byref(self.tensor)

    def read(self):
        """Return all elements of the device memory."""
        return np.frombuffer(self.context.read(self.tensor.data, self.memory.nbytes), self.memory.dtype)

    def read_value(self):
        """Return the elements of the tensor in the device memory."""
        start = self.tensor.offset // self.memory.itemsize
        return np.lib.stride_tricks.as_strided(self.read()[start:], self.value.shape, self.value.strides)

    def check(self, expected, tolerance=None):
        """Compare the memory of a result: the elements behind the lines must not have changed."""
        tolerance = TOLERANCE[self.memory.dtype.name] if tolerance is None else tolerance
        self.value[...] = expected
        np.testing.assert_allclose(self.read(), self.memory, tolerance, tolerance)


def version_of(context, library):
    """Return the version of the fake library that a context reports."""
    version = c_size_t()
    context.check(library.cudnn_open(context.pointer, byref(version)))
    return version.value
