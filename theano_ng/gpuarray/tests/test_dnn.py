"""Tests of cuDNN's availability, and of softmax and reductions by cuDNN. See `tests.cudnn`."""

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.compile.mode import Mode
from theano_ng.configdefaults import config
from theano_ng.configparser import change_flags
from theano_ng.gof.graph import Apply
from theano_ng.gpuarray import contexts, cudnn_defs, devices, dnn
from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.device.tests.test_cudnn import gradient, softmax
from theano_ng.gpuarray.elemwise import GpuCAReduceCuda, GpuElemwise
from theano_ng.gpuarray.nnet import gpu_log_softmax, gpu_softmax, gpu_softmax_grad
from theano_ng.gpuarray.reduction import GpuMaxAndArgmax
from theano_ng.gpuarray.tests.cudnn import DTYPES, CudnnTest
from theano_ng.gpuarray.tests.device import context, gpu_variable

# The softmax of a vector, which is one image with one channel for each element
USERS_CODE = """#section support_code_apply

extern "C" {
#define X(name, result, arguments) result name arguments;
CUDNN_FUNCTIONS(X)
#undef X
}

int APPLY_SPECIFIC(call)(PyGpuArrayObject *x, PyGpuArrayObject **out, cudnnHandle_t handle)
{
    cudnnTensorDescriptor_t tensor;
    float one = 1, zero = 0;
    int n = (int)PyGpuArray_DIM(x, 0), dims[] = {1, n, 1, 1}, strides[] = {n, 1, 1, 1};
    Py_XDECREF(*out);
    *out = pygpu_copy(x, GA_C_ORDER);
    if (*out == NULL)
        return -1;
    char *memory = (char *)*(uint64_t *)((char **)(*out)->ga.data + 1);
    cudnnCreateTensorDescriptor(&tensor);
    cudnnSetTensorNdDescriptor(tensor, 0, 4, dims, strides);
    int status = cudnnSoftmaxForward(handle, 1, 1, &one, tensor, memory, &zero, tensor, memory);
    cudnnDestroyTensorDescriptor(tensor);
    if (status != 0)
        PyErr_SetString(PyExc_RuntimeError, "cudnnSoftmaxForward failed");
    return status;
}
"""

ALGORITHMS = {"fast": 0, "accurate": 1, "log": 2}
MODES = {"instance": 0, "channel": 1}
SHAPES = ((2, 3, 4, 5), (1, 1, 1, 1), (3, 1, 2, 1), (2, 7, 1, 1))
EMPTY = ((0, 3, 2, 2), (2, 0, 2, 2), (2, 3, 0, 2))


class TestSoftmax(CudnnTest):
    def each(self):
        yield from itertools.product(DTYPES, ALGORITHMS, MODES)

    def test_softmax(self):
        for dtype, algo, mode in self.each():
            x = self.variable(dtype, 4)
            out = dnn.GpuDnnSoftmax(algo, mode)(x)
            self.assertEqual((out.type, out.dtype), (x.type, dtype))
            for (f, layout), shape in itertools.product(self.both_ways([x], out), SHAPES):
                with self.subTest(dtype=dtype, algo=algo, mode=mode, shape=shape, layout=layout):
                    value = self.random(dtype, *shape)
                    expected = softmax(value.astype("float64"), ALGORITHMS[algo], MODES[mode])
                    self.check(f(self.placed(value, layout)), expected)

    def test_gradient(self):
        for dtype, algo, mode in self.each():
            x, g = self.variable(dtype, 4), self.variable(dtype, 4)
            y = dnn.GpuDnnSoftmax(algo, mode)(x)
            dx = theano.grad(None, x, known_grads={y: g})
            self.assertIsInstance(dx.owner.op, dnn.GpuDnnSoftmaxGrad)
            for (f, layout), shape in itertools.product(self.both_ways([x, g], dx), SHAPES):
                value, weight = self.random(dtype, *shape), self.random(dtype, *shape)
                exact = softmax(value.astype("float64"), ALGORITHMS[algo], MODES[mode])
                expected = gradient(exact, weight.astype("float64"), ALGORITHMS[algo], MODES[mode])
                tolerance = 0.1 if dtype == "float16" else None
                self.check(f(self.placed(value), self.placed(weight, layout)), expected, tolerance)

    def test_second_derivatives(self):
        """The derivatives of the gradient, and directional derivatives, agree with finite differences."""
        for algo, mode in itertools.product(ALGORITHMS, MODES):
            value, weight = self.random("float64", 2, 3, 2, 1), self.random("float64", 2, 3, 2, 1)

            def host(x, w):
                x, w = [v.transfer(self.name) for v in (x, w)]
                y = dnn.GpuDnnSoftmax(algo, mode)(x)
                return dnn.GpuDnnSoftmaxGrad(algo, mode)(w, y).transfer("cpu")

            theano.gradient.verify_grad(host, [value, weight], rng=np.random.RandomState(3))
            x, d = T.tensor4(dtype="float64"), T.tensor4(dtype="float64")
            y = dnn.GpuDnnSoftmax(algo, mode)(x.transfer(self.name)).transfer("cpu")
            along = theano.function([x, d], theano.gradient.Rop(y, x, d))(value, weight)
            exact = softmax(value, ALGORITHMS[algo], MODES[mode])
            step = 1e-6 * weight
            after = softmax(value + step, ALGORITHMS[algo], MODES[mode])
            np.testing.assert_allclose(along, (after - exact) / 1e-6, 1e-4, 1e-5)

    def test_no_elements(self):
        x, g = self.variable("float32", 4), self.variable("float32", 4)
        outputs = [dnn.GpuDnnSoftmax("accurate", "channel")(x), dnn.GpuDnnSoftmaxGrad("log", "instance")(g, x)]
        for f in (self.compile([x, g], outputs), theano.function([x, g], outputs, mode=Mode("py", None))):
            for shape in EMPTY:
                value = self.placed(np.zeros(shape, "float32"))
                self.assertEqual([v.shape for v in f(value, value)], [shape, shape])

    def test_shapes(self):
        x = self.variable("float32", 4)
        f = self.compile([x], dnn.GpuDnnSoftmax("fast", "channel")(x).shape)
        self.assertNotIn("GpuDnnSoftmax", self.ops(f))
        self.assertEqual(tuple(f(self.placed(np.zeros((2, 3, 4, 5), "float32")))), (2, 3, 4, 5))
        g = self.variable("float32", 4)
        f = self.compile([g, x], dnn.GpuDnnSoftmaxGrad("fast", "channel")(g, x))
        value, other = [self.placed(np.ones(shape, "float32")) for shape in ((2, 3, 4, 5), (2, 3, 4, 4))]
        with self.assert_device_refuses(ValueError, "dy and sm must have the same shape"):
            f(other, value)
        self.check(f(value, value), -2)

    def test_parameters(self):
        with self.assertRaisesRegex(ValueError, "GpuDnnSoftmax: algo must be one of .*'accurate'.*, not 'exact'"):
            dnn.GpuDnnSoftmax("exact", "channel")
        with self.assertRaisesRegex(ValueError, "GpuDnnSoftmaxGrad: mode must be one of .*, not 'row'"):
            dnn.GpuDnnSoftmaxGrad("log", "row")
        self.assertEqual(dnn.GpuDnnSoftmax("log", "channel"), dnn.GpuDnnSoftmax("log", "channel"))
        self.assertNotEqual(dnn.GpuDnnSoftmax("log", "channel"), dnn.GpuDnnSoftmax("log", "instance"))
        with self.assertRaisesRegex(TypeError, "x must have 4 dimensions; got"):
            dnn.GpuDnnSoftmax("log", "channel")(self.variable("float32", 3))
        with self.assertRaisesRegex(
            TypeError, "one dtype among float16, float32, float64; got dy: float32, sm: float64"
        ):
            dnn.GpuDnnSoftmaxGrad("log", "channel")(self.variable("float32", 4), self.variable("float64", 4))

    def test_arrays_that_need_a_copy(self):
        x = self.variable("float32", 4)
        f = self.compile([x], dnn.GpuDnnSoftmax("accurate", "channel")(x))
        value = self.random("float32", 2, 3, 4, 5)
        if self.fakes:
            self.fakes.calls()
        found = f(self.placed(value, "reversed"))
        self.check(found, softmax(value, 1, 1))
        if self.fakes:
            calls = [call.split()[0] for call in self.fakes.calls()]
            self.assertLess(calls.index("cuLaunchKernel"), calls.index("cudnnSoftmaxForward"))

    def test_failing_calls(self):
        """The error names node, call, status and shapes, and the function works afterwards."""
        self.needs_fakes()
        x = self.variable("float32", 4, "x")
        f = self.compile([x], dnn.GpuDnnSoftmax("accurate", "channel")(x))
        value = self.random("float32", 2, 3, 1, 6)
        for status, error, said in (
            (
                5000,
                RuntimeError,
                r"cudnnSoftmaxForward: CUDNN_STATUS_EXECUTION_FAILED \(the reason\), in softmax of arrays",
            ),
            (3000, RuntimeError, r"with shapes \(2, 3, 1, 6\) float32, \(2, 3, 1, 6\) float32"),
            (4004, MemoryError, r"(?s)cudnnSoftmaxForward.*GpuDnnSoftmax\{mode='channel', algo='accurate'\}"),
        ):
            self.fakes.fail("cudnnSoftmaxForward", status)
            with self.assertRaisesRegex(error, said):
                f(self.placed(value))
            self.check(f(self.placed(value)), softmax(value, 1, 1))

    def test_rules(self):
        """The rules apply if the mode includes the tag cudnn."""
        x, g = self.variable("float32", 2), self.variable("float32", 2)
        outputs = [gpu_softmax(x), gpu_log_softmax(x), gpu_softmax_grad(g, x)]
        f = theano.function([x, g], outputs, mode=self.device_mode("cudnn"))
        self.assertEqual(
            sorted(op for op in self.ops(f) if "Softmax" in op), ["GpuDnnSoftmax", "GpuDnnSoftmax", "GpuDnnSoftmaxGrad"]
        )
        value, weight = self.random("float32", 3, 5), self.random("float32", 3, 5)
        found = f(self.placed(value), self.placed(weight))
        four = value[:, :, None, None].astype("float64")
        self.check(found[0], softmax(four, 1, 1)[:, :, 0, 0])
        self.check(found[1], softmax(four, 2, 1)[:, :, 0, 0])
        self.check(found[2], (weight - (weight * value).sum(1, keepdims=True)) * value, 1e-5)
        for mode in (self.device_mode(), self.device_mode("cudnn").excluding("cudnn")):
            f = theano.function([x, g], outputs, mode=mode)
            self.assertEqual([op for op in self.ops(f) if "Dnn" in op], [])

    def test_logarithms(self):
        """The logarithm of a softmax becomes a log-softmax, if nothing else reads the softmax."""
        x = self.variable("float32", 4)
        y = dnn.GpuDnnSoftmax("accurate", "channel")(x)
        f = theano.function([x], GpuElemwise(scalar.log)(y), mode=self.device_mode("cudnn"))
        (node,) = f.maker.fgraph.toposort()
        self.assertEqual(node.op, dnn.GpuDnnSoftmax("log", "channel"))
        value = self.random("float32", 2, 3, 4, 5) - 500 * (np.arange(3) == 1)[:, None, None].astype("float32")
        self.check(f(self.placed(value)), softmax(value.astype("float64"), 2, 1))
        m = self.variable("float32", 2)
        f = theano.function([m], GpuElemwise(scalar.log)(gpu_softmax(m)), mode=self.device_mode("cudnn"))
        self.assertIn(dnn.GpuDnnSoftmax("log", "channel"), [node.op for node in f.maker.fgraph.toposort()])
        self.assertNotIn("GpuElemwise", self.ops(f))
        f = theano.function([x], [GpuElemwise(scalar.log)(y), y], mode=self.device_mode("cudnn"))
        self.assertIn("GpuElemwise", self.ops(f))


REDUCTIONS = {
    "add": np.sum,
    "mul": np.prod,
    "maximum": np.max,
    "minimum": np.min,
    "absmax": lambda x, axes: np.abs(x).max(axes),
    "avg": np.mean,
    "norm1": lambda x, axes: np.abs(x).sum(axes),
    "norm2": lambda x, axes: np.sqrt((x**2).sum(axes)),
}


class TestReduction(CudnnTest):
    def op(self, name, axis, dtype, indices=False):
        return dnn.GpuDnnReduction(name, axis, "float64" if dtype == "float64" else "float32", dtype, indices)

    def test_numbers(self):
        for name, dtype in itertools.product(REDUCTIONS, DTYPES):
            for shape, axis in (((2, 3, 4), (1,)), ((2, 3, 4), (0, -1)), ((5,), None), ((2, 1, 2, 1, 3), (1, 4))):
                x = self.variable(dtype, len(shape))
                out = self.op(name, axis, dtype)(x)
                for f, layout in self.both_ways([x], out):
                    with self.subTest(name, dtype=dtype, shape=shape, axis=axis, layout=layout):
                        value = self.random(dtype, *shape)
                        expected = REDUCTIONS[name](value.astype("float64"), axis)
                        self.check(f(self.placed(value, layout)), expected)

    def test_indices(self):
        for name, best in (("maximum", np.argmax), ("minimum", np.argmin)):
            x = self.variable("float32", 3)
            outputs = self.op(name, (0, 2), "float32", True)(x)
            self.assertEqual(outputs[1].dtype, "uint32")
            value = self.random("float32", 3, 4, 5)
            for f, layout in self.both_ways([x], outputs):
                found, index = f(self.placed(value, layout))
                self.check(found, REDUCTIONS[name](value, (0, 2)))
                np.testing.assert_array_equal(index, best(value.transpose(1, 0, 2).reshape(4, 15), 1))

    def test_nan(self):
        value = self.random("float32", 3, 4)
        value[1, 2], value[2, 0] = np.nan, np.inf
        x = self.variable("float32", 2)
        names = list(REDUCTIONS)
        found = self.compile([x], [self.op(name, (1,), "float32")(x) for name in names])(self.placed(value))
        for name, one in zip(names, found):
            self.check(one, REDUCTIONS[name](value.astype("float64"), 1))

    def test_axes_of_length_1(self):
        """Nothing is combined; the library refuses such reductions."""
        x = self.variable("float32", 3)
        value = self.random("float32", 2, 1, 3)
        for name in ("add", "mul", "maximum", "minimum", "avg"):
            f = self.compile([x], self.op(name, (1,), "float32", name == "maximum")(x))
            found = f(self.placed(value))
            if name == "maximum":
                found, index = found
                np.testing.assert_array_equal(index, np.zeros((2, 3)))
            self.check(found, value[:, 0])
        for name in ("absmax", "norm1", "norm2"):
            self.check(self.compile([x], self.op(name, (1,), "float32")(x))(self.placed(value)), abs(value[:, 0]))

    def test_no_elements(self):
        for dtype in DTYPES:
            x = self.variable(dtype, 2)
            for name, expected in (("add", 0), ("mul", 1), ("avg", np.nan), ("norm1", 0), ("norm2", 0)):
                f = self.compile([x], self.op(name, (0,), dtype)(x))
                self.check(f(self.placed(np.zeros((0, 3), dtype))), [expected] * 3)
                self.assertEqual(f(self.placed(np.zeros((3, 0), dtype))).shape, (0,))
            f = self.compile([x], self.op("maximum", (0,), dtype)(x))
            message = "length 0 in dimension 0, and a maximum or minimum of zero elem"
            with self.assert_device_refuses(ValueError, message):
                f(self.placed(np.zeros((0, 3), dtype)))
            self.check(f(self.placed(np.ones((2, 3), dtype))), [1] * 3)

    def test_derivatives(self):
        for name in REDUCTIONS:
            op = self.op(name, (0, 2), "float64")
            value = self.random("float64", 2, 3, 4)
            theano.gradient.verify_grad(
                lambda x: op(x.transfer(self.name)).transfer("cpu"), [value], rng=np.random.RandomState(3)
            )

    def test_parameters(self):
        x = self.variable("float32", 3)
        with self.assertRaisesRegex(ValueError, "red_op must be one of .*'norm2'.*, not 'median'"):
            self.op("median", None, "float32")
        with self.assertRaisesRegex(ValueError, "only .*'absmax'.* have indices, not 'add'"):
            self.op("add", None, "float32", True)
        for axis in ((3,), (-4,), (0, 0), (0, -3)):
            with self.assertRaisesRegex(ValueError, "an array with 3 axes has no such axes, or one is given twice"):
                self.op("add", axis, "float32")(x)
        with self.assertRaisesRegex(
            TypeError, "cuDNN reduces float32 arrays with acc_dtype 'float32' to dtype 'float32'"
        ):
            self.op("add", None, "float64")(x)
        with self.assertRaisesRegex(TypeError, "inp must have 0 or 1 .* dimensions"):
            self.op("add", None, "float32")(self.variable("float32", 9))

    def test_no_memory_for_the_workspace(self):
        self.needs_fakes()
        x = self.variable("float32", 2)
        f = self.compile([x], self.op("add", (1,), "float32")(x))
        value = self.placed(np.ones((2, 3), "float32"))
        self.check(f(value), [3, 3])
        self.fakes.dnn.workspace, capacity = 64 << 20, self.fakes.state.capacity
        self.addCleanup(setattr, self.fakes.dnn, "workspace", 0)
        self.fakes.state.capacity = self.fakes.state.held + (1 << 20)
        with self.assertRaisesRegex(
            MemoryError, r"(?s)in a reduction of arrays with shapes \(2, 3\) float32.*GpuDnnReduction"
        ):
            f(value)
        self.fakes.state.capacity = capacity
        self.check(f(value), [3, 3])

    def test_rules(self):
        x = self.variable("float32", 2)
        mode = self.device_mode("cudnn")
        value = self.random("float32", 3, 5)
        for scalar_op, before, name in (
            (scalar.add, None, "add"),
            (scalar.mul, None, "mul"),
            (scalar.maximum, None, "maximum"),
            (scalar.minimum, None, "minimum"),
            (scalar.maximum, scalar.abs_, "absmax"),
            (scalar.add, scalar.abs_, "norm1"),
        ):
            out = GpuCAReduceCuda(scalar_op, axis=(1,), dtype="float32", acc_dtype="float32", pre_scalar_op=before)(x)
            f = theano.function([x], out, mode=mode)
            self.assertEqual([node.op for node in f.maker.fgraph.toposort()], [self.op(name, (1,), "float32")])
            self.check(f(self.placed(value)), REDUCTIONS[name](value, 1))
            self.assertEqual(self.ops(theano.function([x], out, mode=self.device_mode())), ["GpuCAReduceCuda"])
        for out in (
            GpuCAReduceCuda(scalar.add, axis=(1,), dtype="float64", acc_dtype="float64")(x),
            GpuCAReduceCuda(scalar.add, axis=(1,), dtype="float32", acc_dtype="float32", pre_scalar_op=scalar.sqr)(x),
        ):
            self.assertEqual(self.ops(theano.function([x], out, mode=mode)), ["GpuCAReduceCuda"])
        most, index = GpuMaxAndArgmax((1,))(x)
        f = theano.function([x], [most, index], mode=mode)
        self.assertIn("GpuDnnReduction", self.ops(f))
        self.assertEqual(f.maker.fgraph.outputs[1].dtype, "int64")
        f = theano.function([x], T.argmax(T.as_tensor_variable(x), 1), mode=mode)
        self.assertIn("GpuDnnReduction", self.ops(f))


class TestAvailability(CudnnTest):
    def test_fake(self):
        self.needs_fakes()
        self.assertTrue(dnn.dnn_present())
        self.assertTrue(dnn.dnn_available(self.name))
        self.assertEqual((dnn.dnn_present.msg, dnn.dnn_available.msg, dnn.version()), (None, None, 92800))
        self.assertEqual(theano.function([], dnn.DnnVersion()())(), 92800)

    def test_flags(self):
        self.needs_fakes()
        with change_flags({"dnn.enabled": "False"}):
            self.assertFalse(dnn.dnn_present() or dnn.dnn_available(self.name))
            self.assertEqual(dnn.dnn_available.msg, "cuDNN is disabled by the flag dnn.enabled")
            self.assertEqual(dnn.version(raises=False), -1)
            with self.assertRaisesRegex(RuntimeError, "no version of cuDNN: cuDNN is disabled"):
                dnn.version()
            x = self.variable("float32", 2)
            with self.assertRaisesRegex(AssertionError, "cuDNN optimization was enabled, but cuDNN cannot be used on"):
                theano.function([x], gpu_softmax(x), mode=self.device_mode("cudnn"), on_unused_input="ignore")
        path = loader.cudnn()
        self.addCleanup(loader.use, "cudnn", path)
        loader.use("cudnn", "/nowhere/libcudnn.so.9")
        self.assertFalse(dnn.dnn_present())
        self.assertRegex(dnn.dnn_present.msg, r"cannot be loaded \(/nowhere.*9.0.0 or later is needed: pip install")
        with change_flags({"dnn.enabled": "no_check"}):
            self.assertTrue(dnn.dnn_present() and dnn.dnn_available(self.name))

    def test_required(self):
        """With dnn.enabled=True, a device opens only if it can use cuDNN."""
        self.needs_fakes()
        with change_flags({"dnn.enabled": "True"}):
            devices.init_dev("cuda0", "with cuDNN")
            self.addCleanup(contexts.unregister, "with cuDNN")
            self.addCleanup(loader.use, "cudnn", loader.cudnn())
            loader.use("cudnn", "/nowhere/libcudnn.so.9")
            for device, said in (
                (
                    "cuda1",
                    "flag dnn.enabled is True, but cuDNN cannot be used on the context other: cuDNN cannot be loaded .*; cuDNN 9",
                ),
                ("stub0", "cuDNN cannot be used on the context other: cuDNN cannot be loaded"),
            ):
                with self.assertRaisesRegex(RuntimeError, said):
                    devices.init_dev(device, "other")
                self.assertNotIn("other", contexts.list_contexts())
        devices.init_dev("cuda1", "other")
        contexts.unregister("other")

    def test_required_by_flags(self):
        """The error appears when the package is imported, although force_device is False."""
        context()  # skip the test if there is no OpenCL device
        flags = "device=opencl0:0,dnn.enabled=True"
        done = subprocess.run(
            [sys.executable, "-c", "import theano_ng"],
            capture_output=True,
            text=True,
            env=dict(os.environ, THEANO_FLAGS="%s,%s" % (os.environ.get("THEANO_FLAGS", ""), flags)),
        )
        self.assertEqual(done.returncode, 1)
        self.assertRegex(
            done.stderr,
            "TheanoConfigError: device=opencl0:0: the flag dnn.enabled is True, but cuDNN cannot be used on",
        )

    @unittest.skipUnless(config.cxx, "needs a C++ compiler")
    def test_c_code_of_users(self):
        """A user's Op gets the handle, includes cudnn.h, and is linked with the library."""
        self.needs_fakes()
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        shutil.copy(os.path.join(os.path.dirname(loader.__file__), "cudnn_library.h"), os.path.join(folder, "cudnn.h"))
        with open(os.path.join(folder, "op.c"), "w") as file:
            file.write(USERS_CODE)

        class Version(dnn.DnnBase):
            __props__ = ()

            def __init__(self):
                super().__init__([os.path.join(folder, "op.c")], "APPLY_SPECIFIC(call)")

            def make_node(self, x):
                return Apply(self, [x], [x.type()])

        x = self.variable("float32", 1)
        with change_flags({"dnn.include_path": folder}):
            f = theano.function([x], Version()(x))
            given = self.placed(np.ones(3, "float32"))
            self.fakes.calls()
            self.assertEqual(f(given).shape, (3,))
        self.assertIn("cudnnSoftmaxForward 1 1", self.fakes.calls())

    def test_other_devices(self):
        """On OpenCL, the rules leave the nodes alone, and an Op that was made by hand says that it needs CUDA."""
        name = context()
        if self.fakes is None:
            self.skipTest("needs an OpenCL device")
        self.assertFalse(dnn.dnn_available(name))
        self.assertRegex(dnn.dnn_available.msg, "is no CUDA device, so cuDNN does not run on it")
        x = gpu_variable("float32", 4, name)
        with self.assertRaisesRegex(RuntimeError, "cuDNN cannot be used on the context test: .* is no CUDA device"):
            theano.function([x], dnn.GpuDnnSoftmax("accurate", "channel")(x))


class TestDefinitions(unittest.TestCase):
    def test_versions(self):
        for number, class_ in ((5110, cudnn_defs.CuDNNV51), (6021, cudnn_defs.CuDNNV6), (7005, cudnn_defs.CuDNNV7)):
            self.assertIs(type(cudnn_defs.get_definitions(number)), class_)
        for number in (92800, None):
            self.assertIsInstance(cudnn_defs.get_definitions(number), cudnn_defs.CuDNNV7)

    def test_configurations(self):
        definitions = cudnn_defs.get_definitions()
        configs = definitions.get_supported_dtype_configs()
        self.assertEqual(len(configs), 4)
        no_half = definitions.get_supported_dtype_configs(lambda dtype, precision: precision != "float16")
        self.assertEqual(no_half, configs[1:])
        self.assertTrue(cudnn_defs.is_true_half_config(*configs[0]) and cudnn_defs.is_pseudo_half_config(*configs[1]))
        self.assertTrue(cudnn_defs.is_float_config(*configs[2]) and cudnn_defs.is_double_config(*configs[3]))
        self.assertTrue(definitions.fwd_algo_supports_dtype_config("none", "float64", "float64", 3))
        self.assertFalse(definitions.fwd_algo_supports_dtype_config("winograd", "float64", "float64", 2))
        self.assertFalse(definitions.fwd_algo_supports_dtype_config("winograd", "float32", "float32", 3))
        self.assertTrue(definitions.bwd_data_algo_supports_dtype_config("time_once", "float16", "float16", 3))
        self.assertFalse(definitions.bwd_filter_algo_supports_dtype_config("none", "float16", "float16", 2))

    def test_algorithms(self):
        """The names of algorithms are those of the flags."""
        definitions = cudnn_defs.get_definitions()
        for flag, enumeration in (
            (theano.configdefaults.SUPPORTED_DNN_CONV_ALGO_FWD, definitions.cudnnConvolutionFwdAlgo_t),
            (theano.configdefaults.SUPPORTED_DNN_CONV_ALGO_BWD_DATA, definitions.cudnnConvolutionBwdDataAlgo_t),
            (theano.configdefaults.SUPPORTED_DNN_CONV_ALGO_BWD_FILTER, definitions.cudnnConvolutionBwdFilterAlgo_t),
        ):
            self.assertEqual({*flag} - {*dnn.SUPPORTED_DNN_CONV_ALGO_RUNTIME}, {*enumeration.aliases})


if __name__ == "__main__":
    unittest.main()
