"""Tests of cuDNN itself (loading, handles, descriptors, errors), and of softmax and reductions, on a fake library."""

import ctypes
import itertools
import os
import re
import shutil
import tempfile
import unittest
from ctypes import byref, c_void_p

import numpy as np

from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.device.tests.cudnn import (
    CODES,
    EXECUTION_FAILED,
    NOT_SUPPORTED,
    PARTS,
    Tensor,
    WithCudnn,
    compile_fake_cudnn,
    version_of,
)
from theano_ng.gpuarray.device.tests.test_cuda import HERE

FAST, ACCURATE, LOG = range(3)
INSTANCE, CHANNEL = range(2)
ADD, MUL, MIN, MAX, AMAX, AVG, NORM1, NORM2, MUL_NO_ZEROS = range(9)

# Orders of the axes in memory, unused elements behind each line, and unused elements in front
LAYOUTS = (((0, 1, 2, 3), 0, 0), ((0, 2, 3, 1), 0, 0), ((3, 1, 0, 2), 2, 3), ((0, 1, 2, 3), 1, 5))


def groups_of(value, mode):
    """Return the axes over which one softmax is computed."""
    return (1, 2, 3) if mode == INSTANCE else (1,)


def softmax(x, algorithm, mode):
    axes = groups_of(x, mode)
    shifted = x if algorithm == FAST else x - x.max(axes, keepdims=True)
    powers = np.exp(shifted)
    total = powers.sum(axes, keepdims=True)
    return shifted - np.log(total) if algorithm == LOG else powers / total


def gradient(y, dy, algorithm, mode):
    axes = groups_of(y, mode)
    if algorithm == LOG:
        return dy - np.exp(y) * dy.sum(axes, keepdims=True)
    return (dy - (y * dy).sum(axes, keepdims=True)) * y


class TestSoftmax(WithCudnn):
    def setUp(self):
        super().setUp()
        self.context = self.open()

    def random(self, dtype, *shape):
        return self.rng.uniform(-2, 2, shape).astype(dtype)

    def forward(self, algorithm, mode, x, y):
        self.context.check(self.library.cudnn_softmax(self.context.pointer, algorithm, mode, x.pointer, y.pointer))

    def test_forward(self):
        for dtype, algorithm, mode in itertools.product(CODES, range(3), range(2)):
            for shape, layout, other in (
                ((2, 3, 4, 5), LAYOUTS[0], LAYOUTS[0]),
                ((2, 3, 4, 5), LAYOUTS[1], LAYOUTS[2]),
                ((3, 1, 4, 1), LAYOUTS[2], LAYOUTS[0]),
                ((1, 6, 1, 1), LAYOUTS[3], LAYOUTS[1]),
            ):
                with self.subTest(dtype=dtype, algorithm=algorithm, mode=mode, shape=shape, layout=layout):
                    x = Tensor(self, self.context, self.random(dtype, *shape), *layout)
                    y = Tensor(self, self.context, self.random(dtype, *shape), *other)
                    self.forward(algorithm, mode, x, y)
                    y.check(softmax(x.value.astype("float64"), algorithm, mode))

    def test_random_forms(self):
        """Random shapes, orders in memory, and unused elements."""
        for case in range(150):
            shape, algorithm, mode = tuple(self.rng.integers(1, 6, 4)), case % 3, case // 3 % 2
            dtype = list(CODES)[case // 6 % 3]
            a, b, c = [
                (self.rng.permutation(4), int(self.rng.integers(0, 3)), int(self.rng.integers(0, 9))) for _ in range(3)
            ]
            with self.subTest(shape=shape, algorithm=algorithm, mode=mode, dtype=dtype, layouts=(a, b, c)):
                x, y, dx = [Tensor(self, self.context, self.random(dtype, *shape), *layout) for layout in (a, b, c)]
                self.forward(algorithm, mode, x, y)
                exact = softmax(x.value.astype("float64"), algorithm, mode)
                y.check(exact)
                self.context.check(
                    self.library.cudnn_softmax_gradient(
                        self.context.pointer, algorithm, mode, y.pointer, x.pointer, dx.pointer
                    )
                )
                expected = gradient(y.read_value().astype("float64"), x.value.astype("float64"), algorithm, mode)
                dx.check(expected, 2e-2 if dtype == "float16" else None)

    def test_gradient(self):
        for dtype, algorithm, mode, (a, b, c) in itertools.product(
            CODES, range(3), range(2), itertools.permutations(LAYOUTS, 3)
        ):
            y, dy, dx = [Tensor(self, self.context, self.random(dtype, 2, 3, 4, 5), *layout) for layout in (a, b, c)]
            self.context.check(
                self.library.cudnn_softmax_gradient(
                    self.context.pointer, algorithm, mode, y.pointer, dy.pointer, dx.pointer
                )
            )
            expected = gradient(y.value.astype("float64"), dy.value.astype("float64"), algorithm, mode)
            dx.check(
                expected, 5e-2 if dtype == "float16" and algorithm == LOG else 1e-2 if dtype == "float16" else None
            )

    def test_nan_and_infinity(self):
        """A softmax with NaN or infinity is that of the formula, which the host computes."""
        x = self.random("float32", 4, 3, 1, 1)
        x[0, 1], x[1, 2], x[2, :], x[3, 0] = np.nan, np.inf, -np.inf, -np.inf
        for algorithm in (ACCURATE, LOG):
            given, y = Tensor(self, self.context, x), Tensor(self, self.context, np.zeros_like(x))
            self.forward(algorithm, CHANNEL, given, y)
            with np.errstate(invalid="ignore", divide="ignore"):
                y.check(softmax(x.astype("float64"), algorithm, CHANNEL))

    def test_unsupported_forms(self):
        """Strides that are not positive, and extents that the library cannot describe, are refused before the call."""
        x, y = [Tensor(self, self.context, self.random("float32", 2, 3, 4, 5)) for _ in range(2)]
        self.calls()
        for axis, dim, stride in ((0, 2, 0), (1, 3, -20), (0, 2, 1 << 31), (0, 1 << 32, 1), (0, 3, 1 << 30)):
            bad = native.DnnTensor.from_buffer_copy(x.tensor)
            bad.dims[axis], bad.strides[axis] = dim, stride
            with self.assertRaisesRegex(native.DeviceError, "positive strides.*in softmax of arrays with sh") as caught:
                self.context.check(
                    self.library.cudnn_softmax(self.context.pointer, ACCURATE, CHANNEL, byref(bad), y.pointer)
                )
            self.assertEqual(caught.exception.code, native.GA_UNSUPPORTED_ERROR)
        bad = native.DnnTensor.from_buffer_copy(x.tensor)
        bad.typecode = native.GA_INT
        with self.assertRaisesRegex(native.DeviceError, "float16, float32 and float64 only") as caught:
            self.context.check(self.library.cudnn_softmax(self.context.pointer, 1, 1, byref(bad), y.pointer))
        self.assertEqual(self.dnn_calls(), [])

    def test_lengths_of_one(self):
        """Along an axis of length 1, the stride has no meaning."""
        x, y = [Tensor(self, self.context, self.random("float32", 1, 3, 1, 1)) for _ in range(2)]
        for axis, stride in ((0, 0), (2, -7), (3, 1 << 40)):
            x.tensor.strides[axis] = y.tensor.strides[axis] = stride
        self.forward(ACCURATE, CHANNEL, x, y)
        y.check(softmax(x.value, ACCURATE, CHANNEL))

    def test_failing_calls(self):
        """The error names call, status and shapes, and the next call works."""
        names = "cudnnCreateTensorDescriptor cudnnSetTensorNdDescriptor cudnnSoftmaxForward".split()
        for i, name in enumerate(names):
            for status, code, said in (
                (EXECUTION_FAILED, native.GA_RUN_ERROR, "CUDNN_STATUS_EXECUTION_FAILED"),
                (NOT_SUPPORTED, native.GA_UNSUPPORTED_ERROR, "CUDNN_STATUS_OTHER"),
                (4004, native.GA_MEMORY_ERROR, "CUDNN_STATUS_OTHER"),
            ):
                with self.subTest(name, status=status):
                    x, y = [Tensor(self, self.context, self.random("float32", 2, 3, 4, 5 + i)) for _ in range(2)]
                    self.fake.fake_fail(name.encode(), status, 0)
                    with self.assertRaises(native.DeviceError) as caught:
                        self.forward(ACCURATE, CHANNEL, x, y)
                    self.assertEqual(caught.exception.code, code)
                    self.assertEqual(
                        str(caught.exception),
                        "%s: %s (the reason), in softmax of arrays with shapes (2, 3, 4, %d) float32, "
                        "(2, 3, 4, %d) float32" % (name, said, 5 + i, 5 + i),
                    )
                    self.forward(ACCURATE, CHANNEL, x, y)
                    y.check(softmax(x.value, ACCURATE, CHANNEL))
                    # The next status needs a form that is not known yet.
                    self.context.close()
                    self.context = native.Context(self.library, "cuda0", 0, -1.0)
        self.addCleanup(self.context.close)


class TestReductions(WithCudnn):
    FUNCTIONS = {
        ADD: np.sum,
        MUL: np.prod,
        MIN: np.min,
        MAX: np.max,
        AMAX: lambda x, axes, keepdims: np.abs(x).max(axes, keepdims=keepdims),
        AVG: np.mean,
        NORM1: lambda x, axes, keepdims: np.abs(x).sum(axes, keepdims=keepdims),
        NORM2: lambda x, axes, keepdims: np.sqrt((x**2).sum(axes, keepdims=keepdims)),
        MUL_NO_ZEROS: lambda x, axes, keepdims: np.where(x == 0, 1, x).prod(axes, keepdims=keepdims),
    }

    def setUp(self):
        super().setUp()
        self.context = self.open()

    def reduce(self, operation, x, y, indices=None):
        code = native.GA_DOUBLE if x.value.dtype == "float64" else native.GA_FLOAT
        self.context.check(
            self.library.cudnn_reduce(self.context.pointer, operation, code, x.pointer, y.pointer, indices)
        )

    def test_numbers(self):
        for dtype, operation, workspace in itertools.product(CODES, self.FUNCTIONS, (0, 256)):
            self.dnn.workspace = workspace
            for axes, layout in itertools.product(((0,), (1, 3), (0, 1, 2, 3)), LAYOUTS):
                with self.subTest(dtype=dtype, operation=operation, axes=axes, layout=layout):
                    value = self.rng.uniform(-1.5, 1.5, (2, 3, 2, 3)).astype(dtype)
                    value[0, 0, 0, 0] = 0
                    x = Tensor(self, self.context, value, *layout)
                    expected = self.FUNCTIONS[operation](value.astype("float64"), axes, keepdims=True)
                    y = Tensor(self, self.context, np.zeros(expected.shape, dtype))
                    self.reduce(operation, x, y)
                    y.check(expected, 1e-2 if dtype == "float16" else None)

    def test_random_forms(self):
        """Random shapes, axes, orders in memory, and unused elements."""
        for case in range(150):
            nd = int(self.rng.integers(1, 9))
            shape = tuple(self.rng.integers(1, 4, nd))
            axes = tuple(np.flatnonzero(self.rng.random(nd) < 0.5))
            dtype = list(CODES)[case % 3]
            layout = self.rng.permutation(nd), int(self.rng.integers(0, 3)), int(self.rng.integers(0, 9))
            operation = list(self.FUNCTIONS)[case % 9]
            with self.subTest(shape=shape, axes=axes, layout=layout, dtype=dtype, operation=operation):
                value = self.rng.uniform(0.5, 1.2, shape).astype(dtype)
                x = Tensor(self, self.context, value, *layout)
                expected = self.FUNCTIONS[operation](value.astype("float64"), axes, keepdims=True) if axes else value
                y = Tensor(self, self.context, np.zeros(expected.shape, dtype), *layout)
                self.reduce(operation, x, y)
                y.check(expected, 1e-2 if dtype == "float16" else None)

    def test_few_and_many_axes(self):
        for shape in ((5,), (2, 3), (2, 3, 2, 1, 2), (2, 1, 2, 1, 2, 1, 2, 3)):
            value = self.rng.uniform(-1, 1, shape).astype("float32")
            x = Tensor(self, self.context, value)
            y = Tensor(self, self.context, np.zeros((*shape[:-1], 1), "float32"))
            self.reduce(ADD, x, y)
            y.check(value.sum(-1, keepdims=True))

    def test_indices(self):
        """The index of the first extreme, counted in C order over the reduced axes."""
        value = self.rng.integers(0, 4, (3, 4, 5, 2)).astype("float32")
        value[1, 2, 3, 0] = np.nan
        for operation, best in ((MAX, np.argmax), (MIN, np.argmin)):
            for layout in LAYOUTS:
                x = Tensor(self, self.context, value, *layout)
                y = Tensor(self, self.context, np.zeros((3, 1, 1, 2), "float32"))
                indices = self.memory(self.context, np.zeros(6, "uint32"))
                self.reduce(operation, x, y, indices)
                flat = value.transpose(0, 3, 1, 2).reshape(3, 2, 20)
                found = np.frombuffer(self.context.read(indices, 24), "uint32")
                np.testing.assert_array_equal(found.reshape(3, 2), best(flat, -1))
                y.check((np.max if operation == MAX else np.min)(value, (1, 2), keepdims=True))

    def test_no_memory_for_the_workspace(self):
        """The error is a memory error, and later calls work."""
        x = Tensor(self, self.context, np.ones((2, 3), "float32"))
        y = Tensor(self, self.context, np.zeros((2, 1), "float32"))
        self.dnn.workspace = 8 << 20
        self.state.capacity = 1 << 20
        with self.assertRaisesRegex(native.DeviceError, "in a reduction of arrays with shapes .2, 3. fl") as caught:
            self.reduce(ADD, x, y)
        self.assertEqual(caught.exception.code, native.GA_MEMORY_ERROR)
        self.state.capacity = 1 << 30
        self.reduce(ADD, x, y)
        y.check(3)


class TestCalls(WithCudnn):
    def softmax(self, context, *shape):
        x, y = [Tensor(self, context, self.rng.uniform(-1, 1, shape).astype("float32")) for _ in range(2)]
        context.check(self.library.cudnn_softmax(context.pointer, ACCURATE, CHANNEL, x.pointer, y.pointer))
        y.check(softmax(x.value, ACCURATE, CHANNEL))

    def test_descriptors_are_kept(self):
        context = self.open()
        for _ in range(3):
            self.softmax(context, 2, 3, 4, 5)
        self.assertEqual((self.dnn.handles, self.dnn.descriptors), (1, 1))
        self.softmax(context, 2, 3, 4, 6)
        self.assertEqual((self.dnn.handles, self.dnn.descriptors), (1, 2))

    def test_many_forms(self):
        """The table of descriptors does not grow without bound, and no descriptor is destroyed during a call."""
        context = self.open()
        block = self.memory(context, np.zeros(6000, "float32"))
        for n in range(1, 5000):
            x = native.DnnTensor(block, 0, native.GA_FLOAT, 2)
            x.dims[0], x.dims[1], x.strides[0], x.strides[1] = 1, n, n, 1
            context.check(self.library.cudnn_softmax(context.pointer, ACCURATE, CHANNEL, byref(x), byref(x)))
        self.assertLessEqual(self.dnn.descriptors, 4097)
        self.softmax(context, 2, 3, 4, 5)

    def test_devices_have_their_own_handles(self):
        first, second = self.open(), self.open("cuda1")
        for context in (first, second, first):
            self.softmax(context, 2, 3, 4, 5)
        self.assertEqual((self.dnn.handles, self.dnn.descriptors), (2, 2))

    def test_nothing_waits(self):
        context = self.open()
        x, y = [Tensor(self, context, np.ones((1, 2, 3, 4), "float32")) for _ in range(2)]
        self.calls()
        context.check(self.library.cudnn_softmax(context.pointer, ACCURATE, CHANNEL, x.pointer, y.pointer))
        self.assertEqual([call for call in self.calls() if "Synch" in call], [])

    def test_checked_contexts_wait(self):
        context = self.open(flags=native.GA_CTX_CHECKED)
        x, y = [Tensor(self, context, np.ones((1, 2, 3, 4), "float32")) for _ in range(2)]
        self.calls()
        context.check(self.library.cudnn_softmax(context.pointer, ACCURATE, CHANNEL, x.pointer, y.pointer))
        self.assertEqual(self.calls()[-2:], ["cudnnSoftmaxForward 1 1", "cuStreamSynchronize"])

    def test_calls_are_not_recorded(self):
        """While a graph is recorded, a call is made at once, and is no part of the graph."""
        context = self.open()
        x, y = [Tensor(self, context, np.ones((1, 2, 3, 4), "float32")) for _ in range(2)]
        device, graph = context.device, c_void_p()
        device.call("graph", 0, byref(graph))
        context.check(self.library.cudnn_softmax(context.pointer, ACCURATE, CHANNEL, x.pointer, y.pointer))
        device.call("graph", 1, byref(graph))
        y.check(0.5)
        context.write(x.tensor.data, np.arange(24, dtype="float32").tobytes())
        device.call("graph", 2, byref(graph))
        y.check(0.5)
        device.call("graph", 3, byref(graph))


class TestLibrary(WithCudnn):
    """Tests of the library itself: missing, too old, of another CUDA version."""

    def setUp(self):
        super().setUp()
        self.library = native.load(fresh=True)
        native.set_libraries(self.library, cuda=self.path, nvrtc=self.path, cudnn=self.cudnn_path)

    def refused_library(self):
        context = native.Context(self.library, "cuda0", 0, -1.0)
        try:
            with self.assertRaises(native.DeviceError) as caught:
                version_of(context, self.library)
        finally:
            context.close()
        return caught.exception.code, str(caught.exception)

    def test_version_and_handle(self):
        context, handle = self.open(), c_void_p()
        for _ in range(2):
            self.assertEqual(version_of(context, self.library), 92800)
        context.check(self.library.cudnn_handle(context.pointer, byref(handle)))
        self.assertTrue(handle.value)
        self.assertEqual(self.dnn.handles, 1)

    def test_other_devices(self):
        context = native.Context(self.library, "stub0", 0, -1.0)
        self.addCleanup(context.close)
        with self.assertRaisesRegex(native.DeviceError, "^stub0 is no CUDA device, so cuDNN does not run") as caught:
            version_of(context, self.library)
        self.assertEqual(caught.exception.code, native.GA_UNSUPPORTED_ERROR)

    def test_missing(self):
        native.set_libraries(self.library, cudnn="/nowhere/libcudnn.so.9")
        code, text = self.refused_library()
        self.assertEqual(code, native.GA_LOAD_ERROR)
        self.assertRegex(
            text,
            r"^cuDNN cannot be loaded \(/nowhere/.*\); cuDNN 9.0.0 or later is needed: pip install 'theano_ng\[cuda12\]' or ",
        )

    def test_incomplete(self):
        """The real library ends the process if it does not find a part of it. The parts are loaded first."""
        for part in PARTS:
            path = compile_fake_cudnn(self.folder, self.path)
            os.remove(os.path.join(os.path.dirname(path), part))
            native.set_libraries(self.library, cudnn=path)
            code, text = self.refused_library()
            self.assertEqual(code, native.GA_LOAD_ERROR)
            self.assertRegex(
                text,
                r"^cuDNN \(%s\) is incomplete: %s: .*; cuDNN 9.0.0 or later is needed: pip install"
                % (re.escape(path), part),
            )

    def test_too_old(self):
        for version, said in ((8907, "8.9.7"), (7605, "7.6.5")):
            self.dnn.version = version
            code, text = self.refused_library()
            self.assertEqual(code, native.GA_LOAD_ERROR)
            self.assertRegex(
                text,
                r"^cuDNN %s \(%s\) is too old: 9.0.0 is the oldest that can be used; pip install"
                % (re.escape(said), re.escape(self.cudnn_path)),
            )

    def test_for_a_newer_driver(self):
        self.dnn.runtime = 13010
        self.assertEqual(
            self.refused_library(),
            (
                native.GA_LOAD_ERROR,
                "cuDNN 9.28.0 (%s) is for CUDA 13, but the driver is of CUDA 12.4: pip install 'theano_ng[cuda12]' "
                "installs the version for this driver" % self.cudnn_path,
            ),
        )
        self.state.driver = 13000
        self.assertEqual(version_of(self.open(), self.library), 92800)

    def test_another_library(self):
        path = compile_fake_cudnn(self.folder, self.path, "-DFAKE_WITHOUT_TENSORS")
        ctypes.CDLL(path).fake_dnn_reset()
        # The driver has no function of cuDNN. Its folder gets parts, so that it does not appear to be incomplete.
        other = os.path.join(tempfile.mkdtemp(dir=self.folder), "libcudnn.so.9")
        shutil.copy(self.path, other)
        for part in PARTS:
            os.symlink(other, os.path.join(os.path.dirname(other), part))
        for which, said in (
            (path, "%s has no function cudnnSetTensorNdDescriptor: cuDNN 9.0.0 is the oldest"),
            (other, "%s is no cuDNN library: it has no function cudnnGetVersion; pip install"),
        ):
            native.set_libraries(self.library, cudnn=which)
            code, text = self.refused_library()
            self.assertEqual(code, native.GA_LOAD_ERROR)
            self.assertRegex(text, "^" + said % re.escape(which))

    def test_a_failing_start(self):
        for call, status, code, end in (
            (b"cudnnCreate", 1001, native.GA_RUN_ERROR, ""),
            (b"cudnnSetStream", 2000, native.GA_RUN_ERROR, ""),
            (b"cudnnCreate", 1008, native.GA_LOAD_ERROR, "; reinstall cuDNN: all its files must be of one version"),
            (b"cudnnCreate", 4003, native.GA_MEMORY_ERROR, ""),
        ):
            self.fake.fake_fail(call, status, 0)
            found, text = self.refused_library()
            self.assertEqual(found, code)
            self.assertRegex(text, r"^%s: CUDNN_STATUS_\w+ \(the reason\)%s$" % (call.decode(), end))
        self.assertEqual(version_of(self.open(), self.library), 92800)


class TestInterface(unittest.TestCase):
    """Tests of the declarations in cudnn_library.h, with NVIDIA's library and headers, if they are installed."""

    def setUp(self):
        self.path = loader.nvidia("cudnn", loader.CUDNN_VERSIONS)
        if self.path is None:
            self.skipTest("needs cuDNN: pip install 'theano_ng[cuda13]'")
        with open(os.path.join(os.path.dirname(HERE), "cudnn_library.h"), encoding="ascii") as file:
            self.ours = file.read()

    def test_constants(self):
        """The constants have the values of the headers."""
        folder, theirs = os.path.join(os.path.dirname(os.path.dirname(self.path)), "include"), ""
        for name in sorted(os.listdir(folder)):
            if re.fullmatch(r"cudnn\w*\.h", name) and not name.endswith("_v9.h"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    theirs += file.read()
        constants = dict(re.findall(r"^    (CUDNN_\w+) = (\d+),", self.ours, re.MULTILINE))
        self.assertGreater(len(constants), 30)
        for name, value in constants.items():
            found = re.search(r"\b%s(?: CUDNN_DEPRECATED_ENUM)?\s*=\s*(\d+)|#define %s (\d+)" % (name, name), theirs)
            self.assertEqual(int(found[1] or found[2]), int(value), name)

    def test_functions(self):
        """The library has all functions."""
        library = ctypes.CDLL(self.path)
        names = re.findall(r"X\((cudnn\w+)", self.ours)
        self.assertGreater(len(names), 15)
        for name in names:
            getattr(library, name)

    def test_convolutions(self):
        """The library accepts the descriptors that cudnn_conv.c sets. No device is needed."""
        library, filter_, convolution = ctypes.CDLL(self.path), c_void_p(), c_void_p()
        self.assertEqual(library.cudnnCreateFilterDescriptor(byref(filter_)), 0)
        self.assertEqual(library.cudnnCreateConvolutionDescriptor(byref(convolution)), 0)
        for axes, dtype, mode in itertools.product((2, 3), range(3), range(2)):
            numbers = (ctypes.c_int * 5)(6, 4, 3, 2, 1)
            self.assertEqual(library.cudnnSetFilterNdDescriptor(filter_, dtype, 0, 2 + axes, numbers), 0)
            rows = [(ctypes.c_int * 3)(*row) for row in ((1, 0, 2), (1, 2, 1), (2, 1, 3))]
            self.assertEqual(library.cudnnSetConvolutionNdDescriptor(convolution, axes, *rows, mode, dtype), 0)
            for math in (0, 1, 3):
                self.assertEqual(library.cudnnSetConvolutionMathType(convolution, math), 0)
            self.assertEqual(library.cudnnSetConvolutionGroupCount(convolution, 2), 0)
        self.assertEqual(library.cudnnDestroyConvolutionDescriptor(convolution), 0)
        self.assertEqual(library.cudnnDestroyFilterDescriptor(filter_), 0)

    def test_descriptors(self):
        """The library accepts the descriptors that cudnn_*.c set, and refuses what the code refuses. No device is needed."""
        library, tensor, reduction = ctypes.CDLL(self.path), c_void_p(), c_void_p()
        self.assertEqual(library.cudnnCreateTensorDescriptor(byref(tensor)), 0)
        for dims, strides, status in (((2, 3, 4, 5), (70, 1, 15, 3), 0), ((2, 3, 4, 5), (0, 20, 5, 1), 2000)):
            lengths = (ctypes.c_int * 4)(*dims), (ctypes.c_int * 4)(*strides)
            for dtype in range(3):
                self.assertEqual(library.cudnnSetTensorNdDescriptor(tensor, dtype, 4, *lengths), status)
        self.assertEqual(library.cudnnDestroyTensorDescriptor(tensor), 0)
        self.assertEqual(library.cudnnCreateReduceTensorDescriptor(byref(reduction)), 0)
        for operation, compute in itertools.product(range(9), range(2)):
            self.assertEqual(library.cudnnSetReduceTensorDescriptor(reduction, operation, compute, 1, 0, 0), 0)
        self.assertEqual(library.cudnnSetReduceTensorDescriptor(reduction, MAX, 0, 1, 1, 0), 0)
        self.assertEqual(library.cudnnDestroyReduceTensorDescriptor(reduction), 0)


if __name__ == "__main__":
    unittest.main()
