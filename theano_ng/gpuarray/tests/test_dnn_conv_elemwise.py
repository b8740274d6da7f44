"""Tests of convolutions by cuDNN with a bias and an activation. See `tests.cudnn`."""

import itertools
import pickle
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.compile.mode import Mode, get_mode
from theano_ng.configparser import change_flags
from theano_ng.gpuarray import contexts, dnn
from theano_ng.gpuarray.dnn import _dnn_conv
from theano_ng.gpuarray.elemwise import GpuElemwise
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.tests.cudnn import DTYPES
from theano_ng.gpuarray.tests.device import LAYOUTS, allow_nan, placed
from theano_ng.gpuarray.tests.test_dnn_conv import Case, ConvolutionTest
from theano_ng.gpuarray.tests.test_graphs import deep
from theano_ng.gpuarray.transfers import as_gpuarray_variable
from theano_ng.gpuarray.type import GpuArrayType, gpuarray_shared_constructor
from theano_ng.tensor.nnet import conv2d, conv3d

# Name of a form -> the activation, the expression, and the value
FORMS = {
    "sum": ("identity", lambda x: x, lambda x: x),
    "relu": ("relu", T.nnet.relu, lambda x: np.maximum(x, 0)),
    "maximum": ("relu", lambda x: T.maximum(x, np.zeros((), x.dtype)), lambda x: np.maximum(x, 0)),
    "zero first": ("relu", lambda x: T.maximum(np.zeros((), x.dtype), x), lambda x: np.maximum(x, 0)),
    "magnitude": ("relu", lambda x: np.asarray(0.5, x.dtype) * (x + abs(x)), lambda x: np.maximum(x, 0)),
    "half": ("relu", lambda x: (abs(x) + x) / np.asarray(2, x.dtype), lambda x: np.maximum(x, 0)),
    "tanh": ("tanh", T.tanh, np.tanh),
    "sigmoid": ("sigmoid", T.nnet.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
}
OP = "GpuDnnConvElemwise"
# The engines of the fake library (fake_cudnn_backend.c)
TENSOR_CORES, VARYING, PLAIN, SMALL, SLOW = 0, 5, 6, 7, 8


def added(y, b):
    """Return the sum of images and of a vector with an element for each channel."""
    return y + b.dimshuffle("x", 0, *["x"] * (y.ndim - 2))


class FusionTest(ConvolutionTest):
    def variables(self, dtype="float32", axes=2):
        """Return variables for images, kernels and bias."""
        return [self.variable(dtype, n) for n in (2 + axes, 2 + axes, 1)]

    def values(self, dtype="float32", rows=3, columns=3):
        shapes = (2, 4, 8, 9), (4, 4, rows, columns), (4,)
        return [self.random(dtype, *shape) for shape in shapes]

    def on_device(self, inputs, output, **options):
        """Compile a function. The rules move the graph to the device."""
        return theano.function(inputs, output, mode=options.pop("mode", self.device_mode()), **options)

    def plain(self, inputs, output):
        """Compile a function without the fusion."""
        with change_flags({"gpuarray.epilogue": "off"}):
            f = self.on_device(inputs, output)
        self.assertNotIn(OP, self.ops(f))
        return f

    def fused(self, f):
        """Return the node with a bias and an activation."""
        (found,) = [node for node in f.maker.fgraph.apply_nodes if type(node.op).__name__ == OP]
        return found

    def engines(self):
        """Return the numbers of the engines that have computed since the last request."""
        calls = self.fakes.calls()
        return [int(call.split()[2]) for call in calls if call.startswith("cudnnBackendExecute")]

    def run_on(self, f, values):
        return np.asarray(f(*map(self.placed, values)))


class TestNumbers(FusionTest):
    def test_random_programs(self):
        """Random shapes, border modes, strides, dilation, groups, modes, dtypes and activations; native and Python code."""
        for number, (name, form) in zip(range(64), itertools.cycle(FORMS.items())):
            case = Case(self.rng, number)
            activation, expression, value = form
            options = dict(case.options, filter_flip=case.options["conv_mode"] == "conv")
            options["filter_dilation"] = options.pop("dilation")
            del options["conv_mode"]
            inputs = self.variables(case.dtype, case.axes)
            convolution = (conv2d if case.axes == 2 else conv3d)(*inputs[:2], **options)
            output = expression(added(convolution, inputs[2]))
            bias = case.random(self.rng, len(case.kernels))
            total = added(T.constant(case.value(0, case.images, case.kernels)), T.constant(bias.astype("float64")))
            expected = value(total.eval())
            flag = "on" if number % 2 else "auto"
            with change_flags({"gpuarray.epilogue": flag}):
                f = self.on_device(inputs, output)
            self.assertEqual(self.fused(f).op.activation, activation)
            self.assertNotIn("GpuElemwise", self.ops(f))
            with self.subTest(number=number, form=name, dtype=case.dtype, flag=flag, **options):
                for layout in LAYOUTS:
                    found = f(*[self.placed(v, layout) for v in (case.images, case.kernels, bias)])
                    self.assertEqual((found.shape, found.dtype.name), (expected.shape, case.dtype))
                    self.near(np.asarray(found), expected, case.dtype)
                if number < 24:
                    self.near(self.python_value(self.fused(f), case, bias), expected, case.dtype)

    def python_value(self, node, case, bias):
        """Return the result of a node by the Python code of its Op."""
        wide = bias.reshape(1, -1, *[1] * case.axes)
        values = [self.placed(v) for v in (case.images, case.kernels, np.empty_like(case.top), wide)]
        arrays = [v.type() for v in (*node.inputs[:3], node.inputs[5])]
        out = node.op.with_options(inplace=False)(*arrays[:3], *node.inputs[3:5], arrays[3])
        return np.asarray(theano.function(arrays, out, mode=Mode("py", None))(*values))

    def test_alpha(self):
        """A constant factor of the convolution becomes alpha; a factor that varies prevents the fusion."""
        for dtype in DTYPES:
            inputs, values = self.variables(dtype), self.values(dtype)
            convolution = conv2d(*inputs[:2])
            for factor in (2, -0.5, 0):
                output = T.tanh(added(convolution * np.asarray(factor, dtype), inputs[2]))
                f = self.on_device(inputs, output)
                if factor:
                    self.assertEqual(float(self.fused(f).inputs[4].data), factor)
                exact = conv2d(*[v.astype("float64") for v in values[:2]]).eval() * factor
                expected = np.tanh(exact + values[2].astype("float64")[:, None, None])
                self.near(self.run_on(f, values), expected, dtype, 4)
        number = T.fscalar()
        inputs = self.variables()
        f = self.on_device([*inputs, number], added(conv2d(*inputs[:2]) * number, inputs[2]))
        self.assertNotIn(OP, self.ops(f))

    def test_precision(self):
        """No plan sums in float16: the convolution that sums in float16 is a separate one."""
        x, w, b = self.variables("float16")
        values = self.values("float16")
        for precision, compute in (("float32", 0), ("float16", 2)):
            y = added(dnn.dnn_conv(x, w, precision=precision).transfer("cpu"), b)
            f = self.on_device([x, w, b], y)
            self.assertEqual(self.fused(f).op.algo, "small")
            if self.fakes:
                self.fakes.calls()
            self.run_on(f, values)
            if self.fakes:
                found = [call for call in self.fakes.calls() if "compute" in call]
                self.assertEqual([int(call.split()[-1]) for call in found], [compute])
                self.assertEqual("Execute" in found[0], precision == "float32")

    def test_special_values(self):
        """NaN and infinity pass through the activations as on the host."""
        allow_nan(self)
        x, w, b = self.variables()
        values = np.zeros((1, 1, 1, 5), "float32"), np.ones((1, 1, 1, 1), "float32"), np.zeros(1, "float32")
        values[0][0, 0, 0] = np.nan, np.inf, -np.inf, -0.0, 3e38
        for name in ("sum", "relu", "maximum", "tanh", "sigmoid"):
            output = FORMS[name][1](added(conv2d(x, w), b))
            f = self.on_device([x, w, b], output)
            self.assertIn(OP, self.ops(f))
            with np.errstate(over="ignore"):
                np.testing.assert_allclose(self.run_on(f, values), FORMS[name][2](values[0]), 1e-6, err_msg=name)

    def test_no_elements(self):
        """Without channels, the result is the activation of the bias."""
        inputs = self.variables()
        f = self.on_device(inputs, T.tanh(added(conv2d(*inputs[:2]), inputs[2])))
        self.assertIn(OP, self.ops(f))
        bias = self.random("float32", 4)
        found = self.run_on(f, [np.ones((2, 0, 5, 5), "float32"), np.ones((4, 0, 3, 3), "float32"), bias])
        self.check(found, np.broadcast_to(np.tanh(bias)[:, None, None], (2, 4, 3, 3)))
        for shapes, expected in (
            (((0, 3, 5, 5), (4, 3, 3, 3), (4,)), (0, 4, 3, 3)),
            (((2, 3, 5, 5), (0, 3, 3, 3), (0,)), (2, 0, 3, 3)),
        ):
            self.assertEqual(self.run_on(f, [np.ones(s, "float32") for s in shapes]).shape, expected)

    def test_equal_inputs(self):
        """One array may be several inputs, and a view of an earlier result may be an input."""
        x, w, b = self.variables()
        f = self.on_device([x, b], T.nnet.relu(added(conv2d(x, x), b)))
        image, bias = self.random("float32", 3, 3, 2, 2), self.random("float32", 3)
        expected = np.maximum(conv2d(image, image).eval() + bias[:, None, None], 0)
        self.near(self.run_on(f, [image, bias]), expected, "float32")
        out = theano.Out(as_gpuarray_variable(T.nnet.relu(added(conv2d(x, w), b)), self.name), borrow=True)
        f = self.on_device([x, w, theano.In(b, borrow=True)], out)
        self.assertIn(OP, self.ops(f))
        values = self.values()
        first = f(*map(self.placed, values))
        kept = np.asarray(first).copy()
        again = f(self.placed(values[0]), self.placed(values[1]), first[0, :, 0, 0])
        expected = conv2d(*values[:2]).eval() + kept[0, :, 0, 0][:, None, None]
        self.near(np.asarray(again), np.maximum(expected, 0), "float32")


class TestRule(FusionTest):
    def compiled(self, output, inputs, **options):
        return self.on_device(inputs, output, on_unused_input="ignore", **options)

    def test_other_expressions(self):
        """Other expressions stay, with the same results."""
        x, w, b = inputs = self.variables()
        values = self.values()
        convolution = conv2d(x, w)
        total, zero = added(convolution, b), np.float32(0)
        for name, output in (
            ("a vector along another axis", convolution + T.concatenate([b, b[:3]]).dimshuffle("x", "x", "x", 0)),
            ("a number", convolution + b[0]),
            ("an array", convolution + T.alloc(b[0], *[convolution.shape[i] for i in range(4)])),
            ("twice", added(convolution + convolution, b) * convolution),
            ("square", convolution * added(convolution, b)),
            ("a product", convolution * b.dimshuffle("x", 0, "x", "x")),
            ("a difference", convolution - b.dimshuffle("x", 0, "x", "x")),
            ("two vectors", T.tanh(total + b.dimshuffle("x", 0, "x", "x") ** 2)),
            ("switch", T.switch(total > 0, total, zero)),
            ("product with a condition", total * (total > 0)),
            ("minimum", T.minimum(total, zero)),
            ("larger than 1", T.maximum(total, np.float32(1))),
            ("another factor", np.float32(0.25) * (total + abs(total))),
            ("a leaky rectifier", T.nnet.relu(total, 0.1)),
            ("softplus", T.nnet.softplus(total)),
            ("hard sigmoid", T.nnet.hard_sigmoid(total)),
            ("exp", T.exp(total)),
            ("tanh twice", T.tanh(T.tanh(total))),
            ("a wider result", T.tanh(added(convolution, b.astype("float64")))),
            ("a result of another dtype", T.tanh(total).astype("float64")),
        ):
            f, g = self.compiled(output, inputs), self.plain(inputs, output)
            with self.subTest(name):
                self.assertNotIn(OP, self.ops(f))
                self.check(self.run_on(f, values), self.run_on(g, values))

    def test_several_clients(self):
        """The convolution or the sum may be needed elsewhere."""
        x, w, b = inputs = self.variables()
        convolution = conv2d(x, w)
        total = added(convolution, b)
        for outputs in ([convolution, T.tanh(total)], [T.tanh(total), T.exp(convolution)]):
            f = self.compiled(outputs, inputs)
            self.assertNotIn(OP, self.ops(f))
        # The result may be needed several times.
        for outputs, expected in (
            ([T.tanh(total), T.tanh(total) * 2], "tanh"),
            ([total, T.nnet.relu(total)], "identity"),
        ):
            f = self.compiled(outputs, inputs)
            self.assertEqual(self.fused(f).op.activation, expected)

    def test_training(self):
        """The gradients of tanh and of the logistic function need only the result, that of the rectifier needs the sum."""
        values = self.values()
        for name, fuses in (("tanh", True), ("sigmoid", True), ("relu", False), ("sum", True)):
            x, w, b = inputs = self.variables()
            cost = (FORMS[name][1](added(conv2d(x, w), b)) ** 2).sum()
            outputs = [cost, *theano.grad(cost, inputs)]
            f = self.compiled(outputs, inputs)
            with self.subTest(name):
                self.assertEqual(OP in self.ops(f), fuses)
                for found, expected in zip(
                    f(*map(self.placed, values)), self.plain(inputs, outputs)(*map(self.placed, values))
                ):
                    self.check(np.asarray(found), np.asarray(expected), 1e-4)

    def test_other_convolutions(self):
        """A convolution to which an array is added, and algorithms that were asked for, stay."""
        x, w, b = self.variables()
        wide = b.dimshuffle("x", 0, "x", "x")
        top, add = self.variable("float32", 4), GpuElemwise(scalar.add)
        for y, fuses in (
            (_dnn_conv(x, w, 1, 1, top), False),
            (_dnn_conv(x, w, 1, 0.5, top), False),
            (_dnn_conv(x, w, 1, 0, top), True),
            (_dnn_conv(x, w, np.nan), False),
            *[(dnn.dnn_conv(x, w, algo=algo), False) for algo in ("none", "fft", "winograd", "time_once")],
            *[(dnn.dnn_conv(x, w, algo=algo), True) for algo in ("small", "guess_once", "guess_on_shape_change")],
            (dnn.dnn_gradinput(w, top, (2, 3, 5, 5)), False),
        ):
            f = self.compiled(add(y, as_gpuarray_variable(wide, self.name)), [x, w, b, top])
            self.assertEqual(OP in self.ops(f), fuses, y.owner)

    def test_patterns(self):
        """The broadcast pattern of the bias must be known."""
        x, w, _ = self.variables()
        add = GpuElemwise(scalar.add)
        for pattern, fuses in (
            ((True, False, True, True), True),
            ((True, True, True, True), False),
            ((False, False, True, True), False),
            ((True, False, False, True), False),
            ((False,) * 4, False),
        ):
            bias = GpuArrayType("float32", pattern, self.name)()
            f = self.compiled(add(bias, dnn.dnn_conv(x, w)), [x, w, bias])
            self.assertEqual(OP in self.ops(f), fuses, pattern)
        # If the pattern is not known, the lengths must be equal.
        values = self.values()
        with self.assertRaisesRegex(
            ValueError, "the output has the shape 1 4 1 1, but the result has the shape 2 4 6 7"
        ):
            f(*map(self.placed, values[:2]), self.placed(values[2].reshape(1, 4, 1, 1)))
        # The convolution may be broadcast, too.
        one = GpuArrayType("float32", (False, True, False, False), self.name)()
        f = self.compiled(add(dnn.dnn_conv(x, one, "valid"), bias), [x, one, bias])
        self.assertNotIn(OP, self.ops(f))

    def test_flags_and_tags(self):
        inputs = self.variables()
        output = T.tanh(added(conv2d(*inputs[:2]), inputs[2]))
        for flag, fuses in (("auto", True), ("on", True), ("off", False)):
            with change_flags({"gpuarray.epilogue": flag}):
                self.assertEqual(OP in self.ops(self.compiled(output, inputs)), fuses)
        for tag in ("cudnn", "fusion", "conv_dnn", "gpua_dnn_conv_elemwise"):
            f = self.compiled(output, inputs, mode=self.device_mode().excluding(tag))
            self.assertNotIn(OP, self.ops(f))

    def test_in_place(self):
        """The result overwrites new memory. Inputs of the function stay."""
        inputs, values = self.variables(), self.values()
        f = self.compiled(T.tanh(added(conv2d(*inputs[:2]), inputs[2])), inputs)
        self.assertTrue(self.fused(f).op.inplace)
        arrays = [self.placed(v) for v in values]
        first = f(*arrays)
        np.testing.assert_array_equal(np.asarray(f(*arrays)), first)
        for array, value in zip(arrays, values):
            np.testing.assert_array_equal(np.asarray(array), value)
        f = self.compiled([T.tanh(added(conv2d(*inputs[:2]), inputs[2]))] * 2, inputs)
        one, two = f(*arrays)
        np.testing.assert_array_equal(np.asarray(one), two)

    def test_loops(self):
        x, w, b = self.variables()
        states, _ = theano.scan(
            lambda v, w, b: T.tanh(added(conv2d(v, w, border_mode="half"), b)).transfer(self.name),
            outputs_info=[x],
            non_sequences=[w, b],
            n_steps=3,
        )
        f = self.compiled(states[-1], [x, w, b])
        image, kernel, bias = [self.random("float32", *s) for s in ((1, 2, 5, 5), (2, 2, 3, 3), (2,))]
        expected = image
        for _ in range(3):
            expected = np.tanh(conv2d(expected, kernel, border_mode="half").eval() + bias[:, None, None])
        self.near(self.run_on(f, [image, kernel, bias]), expected, "float32", 4)

    def test_debug_mode(self):
        for dtype in ("float32", "float64"):
            inputs, values = self.variables(dtype), self.values(dtype)
            output = T.nnet.relu(added(conv2d(*inputs[:2]), inputs[2]))
            f = self.compiled(output, inputs, mode=get_mode("DebugMode").including("gpuarray"))
            self.check(self.run_on(f, values), self.run_on(self.plain(inputs, output), values))


class TestPlans(FusionTest):
    def setUp(self):
        super().setUp()
        self.needs_fakes()
        self.addCleanup(setattr, self.fakes.dnn, "workspace", 0)
        self.inputs = self.variables()
        self.output = T.tanh(added(conv2d(*self.inputs[:2]), self.inputs[2]))

    def expected(self, values):
        return np.tanh(conv2d(*values[:2]).eval() + values[2][:, None, None])

    def test_chosen_once(self):
        """There is a plan for each combination of shapes."""
        f = self.on_device(self.inputs, self.output)
        made = []
        for columns in (3, 4, 3, 4):
            values = self.values(columns=columns)
            self.fakes.calls()
            self.near(self.run_on(f, values), self.run_on(self.plain(self.inputs, self.output), values), "float32")
            made.append(len([call for call in self.fakes.calls() if call.startswith("cudnnBackendFinalize plan")]))
        self.assertEqual(made, [1, 1, 0, 0])

    def test_filters(self):
        """The flags decide which plans are allowed when the function is compiled."""
        for flags, expected in (
            ({}, VARYING),
            ({"deterministic": "more"}, PLAIN),
            ({"gpuarray.allow_tf32": True}, TENSOR_CORES),
        ):
            with change_flags(flags):
                f = self.on_device(self.inputs, self.output)
            self.fakes.calls()
            self.run_on(f, self.values())
            self.assertEqual(self.engines(), [expected], flags)

    def test_without_a_plan(self):
        """A separate convolution and a kernel give the numbers of the separate nodes."""
        for dtype, rows, columns in (("float32", 7, 3), ("float32", 3, 7), ("float16", 7, 3), ("float64", 3, 3)):
            for name in FORMS:
                inputs, values = self.variables(dtype), self.values(dtype, rows, columns)
                output = FORMS[name][1](added(conv2d(*inputs[:2]), inputs[2]))
                f, g = self.on_device(inputs, output), self.plain(inputs, output)
                self.fused(f)
                self.fakes.calls()
                for layout in LAYOUTS:
                    arrays = [self.placed(v, layout) for v in values]
                    np.testing.assert_array_equal(np.asarray(f(*arrays)), np.asarray(g(*arrays)))
                self.assertEqual(self.engines(), [])

    def test_own_kernels(self):
        """If cuDNN does not compute the convolution either, the package's kernels do."""
        x, w, b = inputs = self.variables("float64")
        f = self.on_device(inputs, T.nnet.relu(added(dnn.dnn_conv(x, w, algo="small").transfer("cpu"), b)))
        self.fused(f)
        values = self.values("float64", 5, 5)
        for name in ("cudnnGetConvolutionForwardAlgorithm_v7", "cudnnConvolutionForward"):
            self.fakes.fail(name, 3000)
        expected = np.maximum(conv2d(*values[:2]).eval() + values[2][:, None, None], 0)
        self.near(self.run_on(f, values), expected, "float64")

    def test_no_memory(self):
        """Without memory for a workspace, another plan or a separate convolution computes."""
        with change_flags(deterministic="more"):
            f = self.on_device(self.inputs, self.output)
        for number, (tenths, expected) in enumerate(((4, [PLAIN]), (6, [SMALL]), (12, []))):
            values = self.values(rows=2, columns=2 + number)
            self.fakes.dnn.workspace = self.fakes.state.capacity * tenths // 10
            self.fakes.calls()
            self.near(self.run_on(f, values), self.expected(values), "float32")
            self.assertEqual(self.engines(), expected)
        # The allocation of the result fails, too.
        self.fakes.fail("cudnnConvolutionForward", 4004)
        self.fakes.dnn.workspace = 2 * self.fakes.state.capacity
        with self.assertRaisesRegex(MemoryError, "(?s)in a convolution of arrays with shapes.*GpuDnnConvElemwise"):
            self.run_on(f, self.values(rows=4, columns=4))
        self.fakes.dnn.workspace = 0
        values = self.values(rows=4, columns=5)
        self.near(self.run_on(f, values), self.expected(values), "float32")

    def test_failing_calls(self):
        """The error names node, call, status and shapes, and the function works afterwards."""
        f = self.on_device(self.inputs, self.output)
        for number, name in enumerate(("CreateDescriptor", "SetAttribute", "Finalize", "GetAttribute", "Execute")):
            values = self.values(rows=1, columns=1 + number)
            for said in (
                r"cudnnBackend%s: CUDNN_STATUS_EXECUTION_FAILED \(the reason\), in a convolution with a bias and"
                % name,
                r"shapes \(2, 4, 8, 9\) float32, \(4, 4, 1, %d\) float32, \(1, 4, 1, 1\) float32, \(2, 4, 8"
                % (1 + number),
                r"GpuDnnConvElemwise\{activation='tanh', algo='small', inplace=True, num_groups=1\}",
            ):
                self.fakes.fail("cudnnBackend" + name, 5000)
                with self.assertRaisesRegex(RuntimeError, said):
                    self.run_on(f, values)
            self.near(self.run_on(f, values), self.expected(values), "float32")

    def test_graphs(self):
        """Launches before and behind the convolution are recorded; the library is called in between."""
        x, values = T.fmatrix(), [self.random("float32", 6, 6) / 3 for _ in range(10)]
        weights = [gpuarray_shared_constructor(v, target=self.name) for v in values]
        kernel, bias = [gpuarray_shared_constructor(v, target=self.name) for v in self.values()[1:]]
        h = deep(x.transfer(self.name), weights).reshape((1, 4, 3, 3))
        h = T.tanh(added(conv2d(h, kernel, border_mode="half"), bias))
        output = deep(h.reshape((6, 6)), weights)
        with change_flags({"gpuarray.graph": "on"}):
            f = self.on_device([x], output)
        with change_flags({"gpuarray.graph": "off", "gpuarray.epilogue": "off"}):
            g = self.on_device([x], output)
        self.assertFalse(self.fused(f).op.native_uses_queue)
        before = contexts.get_context(self.name).graphs["runs"]
        for _ in range(6):
            value = self.random("float32", 6, 6)
            self.check(f(value), g(value), 1e-4)
        self.assertGreater(contexts.get_context(self.name).graphs["runs"], before)

    def test_two_contexts(self):
        """Each device has its own plans."""
        other = "other " + self.name
        contexts.reg_context(other, pygpu.init("cuda1"))
        self.addCleanup(contexts.unregister, other)
        values, found = self.values(), []
        for name in (self.name, other):
            x, w, b = inputs = [GpuArrayType("float32", (False,) * v.ndim, name)() for v in values]
            f = self.on_device(inputs, T.tanh(added(conv2d(x, w), b)))
            self.assertEqual(self.fused(f).outputs[0].type.context_name, name)
            self.fakes.calls()
            found.append(np.asarray(f(*[placed(v, "C", name) for v in values])))
            self.assertEqual(self.engines(), [VARYING])
        np.testing.assert_array_equal(*found)


class TestOp(FusionTest):
    def node(self, op=None, dtype="float32", axes=2):
        """Return a node, and its variables without the descriptor."""
        x, w, out = [self.variable(dtype, 2 + axes) for _ in range(3)]
        bias = GpuArrayType(dtype, (True, False, *[True] * axes), self.name)()
        ones = (1,) * axes
        precision = "float32" if dtype == "float16" else dtype
        desc = dnn.GpuDnnConvDesc("valid", ones, ones, precision=precision).constant()
        op = dnn.GpuDnnConvElemwise("tanh") if op is None else op
        return op.make_node(x, w, out, desc, 1.0, bias)

    def test_parameters(self):
        op = dnn.GpuDnnConvElemwise("relu", "none", True, 2)
        self.assertEqual(str(op), "GpuDnnConvElemwise{activation='relu', algo='none', inplace=True, num_groups=2}")
        self.assertEqual(op.destroy_map, {0: [2]})
        self.assertEqual(pickle.loads(pickle.dumps(op)), op)
        self.assertEqual(pickle.loads(pickle.dumps(op)).destroy_map, {0: [2]})
        self.assertEqual(op.with_options(inplace=False), dnn.GpuDnnConvElemwise("relu", "none", num_groups=2))
        self.assertNotEqual(op, dnn.GpuDnnConvElemwise("tanh", "none", True, 2))
        self.assertEqual(dnn.GpuDnnConvElemwise().algo, "small")
        with self.assertRaisesRegex(
            ValueError, "activation must be one of 'identity', 'relu', 'tanh', 'sigmoid', not 'elu'"
        ):
            dnn.GpuDnnConvElemwise("elu")
        with self.assertRaisesRegex(ValueError, "algo must be one of 'small', .*, not 'deterministic'"):
            dnn.GpuDnnConvElemwise("relu", "deterministic")

    def test_types_that_do_not_fit(self):
        node = self.node()
        *inputs, bias = node.inputs
        self.assertEqual(node.outputs[0].type, inputs[2].type)
        for wrong in (
            self.variable("float32", 4),
            self.variable("float32", 1),
            GpuArrayType("float64", (True, False, True, True), self.name)(),
            GpuArrayType("float32", (True, False, True), self.name)(),
        ):
            with self.assertRaisesRegex(
                TypeError,
                "the bias must have dtype float32 and 4 dimensions, and be broadcastable along all of them but",
            ):
                node.op(*inputs, wrong)
        with self.assertRaisesRegex(TypeError, "desc must be the output of GpuDnnConvDesc"):
            node.op(*inputs[:3], T.dvector(), 1.0, bias)
        # A bias of one element is broadcastable along its second axis, too.
        one = GpuArrayType("float32", (True,) * 4, self.name)()
        f = self.compile([*inputs[:3], one], node.op(*inputs, one))
        arrays = [np.ones(s, "float32") for s in ((1, 1, 2, 2), (1, 1, 2, 2), (1, 1, 1, 1), (1, 1, 1, 1))]
        self.check(f(*map(self.placed, arrays)), np.tanh(5).reshape(1, 1, 1, 1))

    def test_shapes_that_do_not_fit(self):
        node = self.node()
        variables = [v for v in node.inputs if isinstance(v.type, GpuArrayType)]
        modes = ["FAST_RUN", Mode("py", None)]
        for mode, (shapes, said) in itertools.product(
            modes,
            (
                (
                    ((1, 3, 4, 4), (2, 3, 2, 2), (1, 2, 3, 3), (1, 3, 1, 1)),
                    "Input dimension mis-match. .the bias has the",
                ),
                (((1, 3, 4, 4), (2, 3, 2, 2), (1, 2, 3, 4), (1, 2, 1, 1)), "the output has the shape 1 2 3 4, but"),
                (((1, 3, 4, 4), (2, 2, 2, 2), (1, 2, 3, 3), (1, 2, 1, 1)), "same stack size|the number of channels"),
            ),
        ):
            f = theano.function(variables, node.outputs[0], mode=mode)
            with self.assertRaisesRegex(ValueError, said):
                f(*[self.placed(np.ones(s, "float32")) for s in shapes])

    def test_shape(self):
        """The shape needs no convolution."""
        node = self.node()
        variables = [v for v in node.inputs if isinstance(v.type, GpuArrayType)]
        f = theano.function(variables, node.outputs[0].shape, on_unused_input="ignore")
        self.assertNotIn(OP, self.ops(f))
        arrays = [np.ones(s, "float32") for s in ((1, 3, 4, 4), (2, 3, 2, 2), (1, 2, 3, 3), (1, 2, 1, 1))]
        self.assertEqual(list(f(*map(self.placed, arrays))), [1, 2, 3, 3])

    def test_derivatives(self):
        """Derivatives agree with finite differences."""
        shapes = (2, 2, 4, 5), (3, 2, 2, 3), (1, 3, 1, 1)
        values = [*[self.random("float64", *shape) for shape in shapes], np.float64(0.7)]
        like = self.random("float64", 2, 3, 3, 3)
        desc = dnn.GpuDnnConvDesc("valid", precision="float64").constant()
        for activation in ("identity", "tanh", "sigmoid", "relu"):
            op = dnn.GpuDnnConvElemwise(activation)

            def on_device(x, w, b, alpha, op=op):
                x, w, b, out = [v.transfer(self.name) for v in (x, w, b, T.constant(like))]
                return op(x, w, out, desc, alpha, b).transfer("cpu")

            x = [T.TensorType("float64", [n == 1 for n in np.shape(v)])() for v in values]
            d = [v.type() for v in x]
            out = on_device(*x)
            weights = self.random("float64", *like.shape)
            gradients = theano.function(x, theano.grad((out * weights).sum(), x))(*values)
            f = theano.function(x, out)
            self.assertIn(OP, self.ops(f))
            step = [self.random("float64", *np.shape(v)) for v in values]
            ahead, behind = [f(*[v + e * s for v, s in zip(values, step)]) for e in (1e-6, -1e-6)]
            along = theano.function([*x, *d], theano.gradient.Rop(out, x, d), on_unused_input="ignore")(*values, *step)
            with self.subTest(activation):
                np.testing.assert_allclose(along, (ahead - behind) / 2e-6, 1e-5, 1e-6)
                total = sum((g * s).sum() for g, s in zip(gradients, step))
                np.testing.assert_allclose(total, (weights * along).sum(), 1e-8)

    def test_disconnected_inputs(self):
        node = self.node()
        self.assertEqual(node.op.connection_pattern(node), [[True], [True], [False], [False], [True], [True]])
        self.assertEqual(node.op.R_op(node.inputs, [None] * 6), [None])

    def test_pickled_function(self):
        inputs, values = self.variables(), self.values()
        f = self.on_device(inputs, T.nnet.relu(added(conv2d(*inputs[:2]), inputs[2])))
        g = pickle.loads(pickle.dumps(f))
        self.assertIn(OP, self.ops(g))
        np.testing.assert_array_equal(self.run_on(f, values), self.run_on(g, values))


if __name__ == "__main__":
    unittest.main()
