"""Tests of convolutions by cuDNN. See `tests.cudnn`."""

import itertools
import pickle
import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.compile.mode import Mode
from theano_ng.configparser import change_flags
from theano_ng.gpuarray import dnn
from theano_ng.gpuarray.dnn import _dnn_conv, _dnn_gradinput, _dnn_gradweight
from theano_ng.gpuarray.dnn.conv import by_own_kernels
from theano_ng.gpuarray.elemwise import GpuDimShuffle, GpuElemwise
from theano_ng.gpuarray.opt import conv as conv_rules
from theano_ng.gpuarray.tests.cudnn import DTYPES, CudnnTest
from theano_ng.gpuarray.tests.device import DEVICE, LAYOUTS, context, gpu_variable
from theano_ng.gpuarray.transfers import as_gpuarray_variable
from theano_ng.tensor.nnet import conv2d, conv3d
from theano_ng.tensor.nnet.convolution import abstract

OPS = {"GpuDnnConv", "GpuDnnConvGradW", "GpuDnnConvGradI"}
FAMILIES = {
    2: (abstract.AbstractConv2d, abstract.AbstractConv2d_gradWeights, abstract.AbstractConv2d_gradInputs),
    3: (abstract.AbstractConv3d, abstract.AbstractConv3d_gradWeights, abstract.AbstractConv3d_gradInputs),
}
_DEFAULT = {
    "forward": "local_abstractconv_cudnn",
    "backprop weights": "local_abstractconv_gw_cudnn",
    "backprop inputs": "local_abstractconv_gi_cudnn",
}
TOLERANCE = {"float16": 3e-2, "float32": 1e-4, "float64": 1e-10}


class Case:
    """A convolution with random parameters and arrays.

    Attributes
    ----------
    options : dict
        The parameters of `dnn_conv` and the other functions.
    images, kernels, top : numpy.ndarray
    """

    def __init__(self, rng, number):
        self.axes, self.dtype = 2 + number % 2, DTYPES[number % 3]
        axes, groups = self.axes, int(rng.integers(1, 4))
        kernel = rng.integers(1, 4, axes)
        pads = tuple(rng.integers(0, 3, axes).tolist())
        mode = ("valid", "full", "half", int(rng.integers(0, 3)), pads)[number % 5]
        self.options = dict(
            border_mode=mode,
            subsample=tuple(rng.integers(1, 4, axes).tolist()),
            dilation=tuple(rng.integers(1, 3, axes).tolist()),
            conv_mode=("conv", "cross")[number // 2 % 2],
            num_groups=groups,
        )
        image = (kernel - 1) * self.options["dilation"] + 1 + rng.integers(0, 5, axes)
        channels, filters = int(rng.integers(1, 3)), groups * int(rng.integers(1, 3))
        self.images = self.random(rng, int(rng.integers(1, 4)), groups * channels, *image)
        self.kernels = self.random(rng, filters, channels, *kernel)
        self.top = self.random(rng, *self.value(0, self.images, self.kernels).shape)

    def random(self, rng, *shape):
        return rng.uniform(-1, 1, shape).astype(self.dtype)

    def value(self, direction, *inputs):
        """Return the result of the Op on the host."""
        options = dict(self.options, filter_flip=self.options["conv_mode"] == "conv")
        options["filter_dilation"] = options.pop("dilation")
        del options["conv_mode"]
        op = FAMILIES[self.axes][direction](**options)
        wide = [v.astype("float64") if isinstance(v, np.ndarray) and v.dtype.kind == "f" else v for v in inputs]
        return op.value(wide, "float64")


class ConvolutionTest(CudnnTest):
    def outputs(self, axes, options, images, kernels, top):
        """Return the expressions of a convolution and both gradients."""
        functions = {
            2: (dnn.dnn_conv, dnn.dnn_gradweight, dnn.dnn_gradinput),
            3: (dnn.dnn_conv3d, dnn.dnn_gradweight3d, dnn.dnn_gradinput3d),
        }[axes]
        return [
            functions[0](images, kernels, direction_hint="forward!", **options),
            functions[1](images, top, [kernels.shape[i] for i in range(2 + axes)], **options),
            functions[2](kernels, top, images.shape, **options),
        ]

    def near(self, found, expected, dtype, exponent=1):
        self.check(found, expected, TOLERANCE[dtype] * exponent)

    def with_algorithms(self, f):
        """Return the names of the Ops of cuDNN in a function."""
        return sorted(name for name in self.ops(f) if name in OPS)


class TestNumbers(ConvolutionTest):
    def test_random_programs(self):
        """Random shapes, border modes, strides, dilation, groups, modes and dtypes; native code and Python code."""
        for number in range(60):
            case = Case(self.rng, number)
            variables = [self.variable(case.dtype, 2 + case.axes) for _ in range(3)]
            outputs = self.outputs(case.axes, case.options, *variables)
            arrays = [case.images, case.kernels, case.top]
            kernel, image = case.kernels.shape[2:], case.images.shape[2:]
            expected = [
                case.value(0, case.images, case.kernels),
                case.value(1, case.images, case.top, kernel),
                case.value(2, case.kernels, case.top, image),
            ]
            native = self.compile(variables, outputs)
            python = theano.function(variables, outputs, mode=Mode("py", None)) if number < 20 else native
            for f, layout in itertools.product((native, python), LAYOUTS):
                with self.subTest(number=number, layout=layout, dtype=case.dtype, **case.options):
                    found = f(*[self.placed(v, layout) for v in arrays])
                    for one, right in zip(found, expected):
                        self.assertEqual((one.shape, one.dtype.name), (right.shape, case.dtype))
                        self.near(one, right, case.dtype)

    def test_algorithms(self):
        """All algorithms give the same numbers."""
        case = Case(self.rng, 0)
        case.options = dict(border_mode=(1, 1), subsample=(1, 1), dilation=(1, 1), conv_mode="conv", num_groups=1)
        case.images, case.kernels = case.random(self.rng, 2, 3, 6, 7), case.random(self.rng, 4, 3, 3, 3)
        case.top = case.random(self.rng, 2, 4, 6, 7)
        images, kernels, top = [self.variable("float16", 4) for _ in range(3)]
        for cls, inputs, values, direction in (
            (dnn.GpuDnnConv, (images, kernels), (case.images, case.kernels), 0),
            (dnn.GpuDnnConvGradW, (images, top), (case.images, case.top), 1),
            (dnn.GpuDnnConvGradI, (kernels, top), (case.kernels, case.top), 2),
        ):
            given = [(), case.kernels.shape[2:], case.images.shape[2:]][direction]
            expected = case.value(direction, *values, *([given] if given else []))
            function = (dnn.dnn_conv, dnn.dnn_gradweight, dnn.dnn_gradinput)[direction]
            shape = [(), (case.kernels.shape,), (case.images.shape,)][direction]
            for algo in cls.supported:
                f = self.compile(list(inputs), function(*inputs, *shape, border_mode=(1, 1), algo=algo))
                for _ in range(2):
                    self.near(f(*map(self.placed, values)), expected, "float16")

    def test_alpha_and_beta(self):
        for dtype in DTYPES:
            images, kernels, top = [self.variable(dtype, 4) for _ in range(3)]
            alpha, beta = T.dscalar(), T.fscalar()
            values = [self.random(dtype, *shape) for shape in ((2, 3, 5, 6), (4, 3, 2, 3), (2, 4, 4, 4))]
            case = Case(self.rng, 0)
            case.options = dict(border_mode="valid", subsample=(1, 1), dilation=(1, 1), conv_mode="conv", num_groups=1)
            outputs = [
                _dnn_conv(images, kernels, alpha, beta, top),
                _dnn_gradweight(images, top, kernels.shape, alpha, beta, kernels),
                _dnn_gradinput(kernels, top, images.shape, alpha, beta, images),
            ]
            expected = [
                (values[2], case.value(0, values[0], values[1])),
                (values[1], case.value(1, values[0], values[2], (2, 3))),
                (values[0], case.value(2, values[1], values[2], (5, 6))),
            ]
            for mode in ("FAST_RUN", Mode("py", None)):
                f = theano.function([images, kernels, top, alpha, beta], outputs, mode=mode)
                for a, b in ((1, 0), (0.5, 1), (2, -0.25)):
                    for found, (old, right) in zip(f(*map(self.placed, values), a, b), expected):
                        self.near(found, a * right + b * old.astype("float64"), dtype, 4)

    def test_alignment(self):
        """Arrays that are not aligned for loads of vectors are copied."""
        self.needs_single_runs()
        x, w = self.variable("float32", 4), self.variable("float32", 4)
        f = self.compile([x, w], dnn.dnn_conv(x, w))
        image, kernel = self.random("float32", 2, 3, 5, 6), self.random("float32", 4, 3, 3, 3)
        expected = conv2d(image, kernel).eval()
        for start in range(6):
            arrays = [
                self.placed(np.concatenate([np.zeros(start, "float32"), v.ravel()]))[start:].reshape(v.shape)
                for v in (image, kernel)
            ]
            if self.fakes:
                self.fakes.calls()
            self.near(f(*arrays), expected, "float32")
            if self.fakes:
                copies = [call for call in self.fakes.calls() if call.startswith("cuMemcpyAsync")]
                self.assertEqual(len(copies), 0 if start % 4 == 0 else 2, start)

    def test_overlapping_inputs(self):
        """The array that is overwritten may be given as an image, too."""
        x, w, out = [self.variable("float32", 4) for _ in range(3)]
        desc = dnn.GpuDnnConvDesc("half").constant()
        y = dnn.GpuDnnConv("none")(x, w, out, desc, 1.0, 1.0)
        f = self.compile([x, w, theano.In(out, mutable=True)], y)
        self.assertTrue(f.maker.fgraph.outputs[0].owner.op.inplace)
        image, kernel = self.random("float32", 2, 3, 5, 6), self.random("float32", 3, 3, 3, 3)
        expected = image + conv2d(image, kernel, border_mode="half").eval()
        both = self.placed(image)
        self.near(f(both, self.placed(kernel), both), expected, "float32")

    def test_no_elements(self):
        images, kernels, top = [self.variable("float32", 4) for _ in range(3)]
        options = dict(border_mode="half")
        f = self.compile([images, kernels, top], self.outputs(2, options, images, kernels, top))
        for image, kernel, out in (
            ((0, 3, 5, 5), (4, 3, 3, 3), (0, 4, 5, 5)),
            ((2, 0, 5, 5), (4, 0, 3, 3), (2, 4, 5, 5)),
            ((2, 3, 5, 5), (0, 3, 3, 3), (2, 0, 5, 5)),
        ):
            found = f(*[self.placed(np.ones(shape, "float32")) for shape in (image, kernel, out)])
            for one, shape in zip(found, (out, kernel, image)):
                self.check(one, np.zeros(shape))

    def test_precision(self):
        """float16 arrays may be computed in float16."""
        images, kernels, top = [self.variable("float16", 4) for _ in range(3)]
        values = [self.random("float16", *shape) for shape in ((2, 3, 5, 6), (4, 3, 3, 3))]
        for precision, compute in (("as_input", 2), ("float16", 2), ("as_input_f32", 0), ("float32", 0), (None, 0)):
            y = dnn.dnn_conv(images, kernels, precision=precision)
            gradients = theano.grad(None, [images, kernels], known_grads={y: top})
            f = self.compile([images, kernels, top], [y, *gradients])
            if self.fakes:
                self.fakes.calls()
            f(*map(self.placed, values), self.placed(self.random("float16", 2, 4, 3, 4)))
            if self.fakes:
                calls = [call.split() for call in self.fakes.calls() if "math" in call]
                computed = {call[0]: int(call[-1]) for call in calls}
                self.assertEqual(computed.pop("cudnnConvolutionForward"), compute)
                self.assertEqual(set(computed.values()), {0})

    def test_get_precision(self):
        x, h, d = [self.variable(dtype, 4) for dtype in ("float32", "float16", "float64")]
        for precision, inputs, expected in (
            ("as_input", [h, h], ("float16", "float16")),
            ("as_input_f32", [h, h], ("float32", "float16")),
            ("as_input_f32", [x, d], ("float64", "float64")),
            ("float32", [h], ("float32", "float16")),
            (None, [x], ("float32", "float32")),
        ):
            self.assertEqual(dnn.get_precision(precision, inputs), expected)
        with self.assertRaisesRegex(TypeError, "a gradient of a convolution is not computed in float16"):
            dnn.get_precision("as_input", [h], for_grad=True)
        with self.assertRaisesRegex(ValueError, "precision must be one of 'as_input_f32', .*, not 'double'"):
            dnn.get_precision("double", [x])
        with self.assertRaisesRegex(TypeError, "float16, float32 and float64 only; got int8, int8"):
            dnn.get_precision(None, [self.variable("int8", 4)] * 2)
        with self.assertRaisesRegex(ValueError, "cuDNN does not convolve float32 arrays in float64"):
            dnn.dnn_conv(x, x, precision="float64")


class TestHints(ConvolutionTest):
    def test_direction(self):
        x, w = self.variable("float64", 4), self.variable("float64", 4)
        image, kernel = self.random("float64", 2, 3, 6, 7), self.random("float64", 4, 3, 3, 2)
        for mode, hint, conv_mode, steps, op in (
            ("valid", None, "conv", (1, 1), "GpuDnnConv"),
            ("valid", "bprop weights", "conv", (1, 1), "GpuDnnConvGradW"),
            ("valid", "bprop weights", "cross", (1, 1), "GpuDnnConvGradW"),
            ("valid", "bprop weights", "cross", (2, 1), "GpuDnnConv"),
            ("full", None, "conv", (1, 1), "GpuDnnConvGradI"),
            ("full", "forward", "cross", (1, 1), "GpuDnnConvGradI"),
            ("full", "forward!", "cross", (1, 1), "GpuDnnConv"),
            ("full", None, "conv", (1, 2), "GpuDnnConv"),
            ("half", "bprop weights", "conv", (1, 1), "GpuDnnConv"),
        ):
            for axes, flip in itertools.product((2, 3), ("conv", "cross")):
                if axes == 2:
                    y = dnn.dnn_conv(x, w, mode, steps, conv_mode=conv_mode, direction_hint=hint)
                    expected = conv2d(image, kernel, None, None, mode, steps, conv_mode == "conv").eval()
                    inputs, values = [x, w], [image, kernel]
                else:
                    v, u = self.variable("float64", 5), self.variable("float64", 5)
                    steps3 = (*steps, 1)
                    y = dnn.dnn_conv3d(v, u, mode, steps3, conv_mode=flip, direction_hint=hint)
                    inputs, values = (
                        [v, u],
                        [self.random("float64", 2, 3, 4, 4, 3), self.random("float64", 2, 3, 2, 3, 2)],
                    )
                    expected = conv3d(*values, None, None, mode, steps3, flip == "conv").eval()
                f = self.compile(inputs, y)
                with self.subTest(mode=mode, hint=hint, axes=axes, flip=flip):
                    self.assertEqual(self.with_algorithms(f), [op])
                    self.near(f(*map(self.placed, values)), expected, "float64")

    def test_other_devices(self):
        """On other devices, the rules leave convolutions to the package's kernels, and the Ops name the reason."""
        if DEVICE.startswith("cuda"):
            self.skipTest("needs a device that is no CUDA device")
        x, w = [gpu_variable("float32", 4, context()) for _ in range(2)]
        with self.assertRaisesRegex(RuntimeError, "cuDNN cannot be used on the context test: .* is no CUDA device"):
            theano.function([x, w], dnn.dnn_conv(x, w), mode="FAST_RUN")
        f = theano.function([x, w], conv2d(x, w), mode=self.device_mode())
        self.assertIn("GpuCorrMM", self.ops(f))

    def test_workmem(self):
        x = self.variable("float32", 4)
        with self.assertWarnsRegex(DeprecationWarning, "workmem of dnn_conv is deprecated; use algo"):
            y = dnn.dnn_conv(x, x, workmem="none")
        self.assertEqual(y.owner.op.algo, "none")
        with self.assertRaisesRegex(ValueError, "workmem is the former name of algo"):
            dnn.dnn_conv(x, x, workmem="none", algo="small")

    def test_get_out_shape(self):
        shape = dnn.GpuDnnConv.get_out_shape((2, 3, 8, 9), (4, 3, 3, 2), "half", (2, 1), (1, 2))
        self.assertEqual(shape, (2, 4, 4, 9))
        n = T.lscalar()
        shape = dnn.GpuDnnConv.get_out_shape((n, 3, n, 9), (4, 3, 3, 2), (1, 0), (1, 1), (1, 1))
        self.assertEqual([int(v.eval({n: 5})) if isinstance(v, theano.Variable) else v for v in shape], [5, 4, 5, 8])


class TestDerivatives(ConvolutionTest):
    def test_gradients(self):
        """First and second derivatives agree with finite differences."""
        shapes = (2, 2, 4, 5), (2, 1, 2, 3)
        options = dict(border_mode=(1, 0), subsample=(1, 2), dilation=(2, 1), num_groups=2)
        top = dnn.GpuDnnConv.get_out_shape(*shapes, (1, 0), (1, 2), (2, 1))
        values = [self.random("float64", *shape) for shape in (*shapes, top)]

        def on_device(function):
            return lambda *v: function(*[x.transfer(self.name) if x.ndim else x for x in v]).transfer("cpu")

        numbers = [np.float64(0.7), np.float64(-0.4)]
        for function, inputs, memory in (
            (lambda x, w, o, a, b: _dnn_conv(x, w, a, b, o, **options), values[:2], values[2]),
            (
                lambda x, y, o, a, b: _dnn_gradweight(x, y, shapes[1], a, b, o, **options),
                [values[0], values[2]],
                values[1],
            ),
            (lambda w, y, o, a, b: _dnn_gradinput(w, y, shapes[0], a, b, o, **options), values[1:], values[0]),
        ):
            theano.gradient.verify_grad(on_device(function), [*inputs, memory, *numbers], rng=np.random.RandomState(3))
            x, d = [
                [T.TensorType("float64", (False,) * v.ndim)() for v in (*inputs, memory, *numbers)] for _ in range(2)
            ]
            out = on_device(function)(*x)
            step = [self.random("float64", *np.shape(v)) for v in (*inputs, memory, *numbers)]
            f = theano.function(x, out)
            start = [*inputs, memory, *numbers]
            along = theano.function([*x, *d], theano.gradient.Rop(out, x, d))(*start, *step)
            ahead, behind = [f(*[v + e * s for v, s in zip(start, step)]) for e in (1e-6, -1e-6)]
            np.testing.assert_allclose(along, (ahead - behind) / 2e-6, 1e-6, 1e-6)

    def test_second_derivatives(self):
        x, w = T.dtensor4(), T.dtensor4()
        values = self.random("float64", 1, 2, 4, 3), self.random("float64", 2, 2, 2, 2)

        def gradient(x, w):
            y = dnn.dnn_conv(x.transfer(self.name), w.transfer(self.name)).transfer("cpu")
            return T.concatenate([T.flatten(g) for g in theano.grad((y**2).sum(), [x, w])])

        theano.gradient.verify_grad(gradient, values, rng=np.random.RandomState(3))
        f = theano.function([x, w], gradient(x, w))
        self.assertLessEqual(OPS, set(self.ops(f)))

    def test_ops_of_gradients(self):
        """The gradients are Ops of cuDNN with the default algorithms. In three dimensions these must be possible."""
        with change_flags({"dnn.conv.algo_bwd_data": "winograd", "dnn.conv.algo_bwd_filter": "fft"}):
            for axes, algos in ((2, {"winograd", "fft"}), (3, {"none"})):
                x, w, g = [self.variable("float32", 2 + axes) for _ in range(3)]
                function = dnn.dnn_conv if axes == 2 else dnn.dnn_conv3d
                y = function(x, w)
                gradients = theano.grad(None, [x, w], known_grads={y: g})
                f = self.compile([x, w, g], gradients)
                self.assertEqual(self.with_algorithms(f), ["GpuDnnConvGradI", "GpuDnnConvGradW"])
                found = {n.op.algo for n in f.maker.fgraph.apply_nodes if type(n.op).__name__ in OPS}
                self.assertEqual(found, algos)


class TestParameters(ConvolutionTest):
    def test_descriptor(self):
        desc = dnn.GpuDnnConvDesc((1, 2), (2, 1), (1, 3), "cross", "float16", 4)
        out = desc(T.lvector())
        self.assertEqual(out.type, T.lvector)
        np.testing.assert_array_equal(out.eval(), desc.descriptor())
        self.assertEqual(desc, dnn.GpuDnnConvDesc(((1, 1), (2, 2)), [2, 1], (1, 3), "cross", "float16", 4))
        self.assertEqual(dnn.GpuDnnConvDesc(2).border_mode, (2, 2))
        for options, said in (
            (dict(border_mode="same"), "invalid border_mode same, which must be 'valid', 'full', 'half'"),
            (dict(border_mode=((1, 2), 0)), "cuDNN pads both ends of an axis equally"),
            (dict(border_mode=-1), "invalid border_mode -1"),
            (dict(border_mode=(1, 1, 1)), "or a tuple of 2 such integers"),
            (dict(border_mode="valid", subsample=(1, 0)), "subsample must contain 2 or 3 positive integers"),
            (dict(border_mode="valid", subsample=(1,)), "subsample must contain 2 or 3 positive integers"),
            (dict(border_mode="valid", dilation=(1, 1, 1)), "dilation must contain 2 positive integers"),
            (dict(border_mode="valid", conv_mode="flip"), "conv_mode must be 'conv' or 'cross', not 'flip'"),
            (dict(border_mode="valid", precision="as_input"), "precision must be one of 'float16', .*, not 'as_input'"),
            (dict(border_mode="valid", num_groups=0), "num_groups must be a positive integer, not 0"),
        ):
            with self.assertRaisesRegex(ValueError, said):
                dnn.GpuDnnConvDesc(**options)
        with self.assertRaisesRegex(TypeError, "kern_shape must be a vector of integers"):
            desc(T.dvector())

    def test_ops(self):
        x, desc = self.variable("float32", 4), dnn.GpuDnnConvDesc("valid")(T.lvector())
        op = dnn.GpuDnnConv()
        self.assertEqual((op.algo, op.inplace, op.num_groups), ("small", False, 1))
        self.assertEqual(dnn.GpuDnnConvGradW().algo, "none")
        self.assertEqual(dnn.GpuDnnConvGradI(True).destroy_map, {0: [2]})
        self.assertEqual(pickle.loads(pickle.dumps(dnn.GpuDnnConvGradI(True))).destroy_map, {0: [2]})
        self.assertEqual(dnn.GpuDnnConv("fft"), dnn.GpuDnnConv("fft"))
        self.assertNotEqual(dnn.GpuDnnConv("fft"), dnn.GpuDnnConv("fft", True))
        self.assertFalse(dnn.GpuDnnConvGradW().op_may_fail_with_subsample(x, desc))
        self.assertFalse(dnn.GpuDnnConvGradW().op_may_fail_with_beta(x, 1.0))
        with change_flags({"dnn.conv.algo_fwd": "time_once"}):
            self.assertEqual(dnn.GpuDnnConv().algo, "time_once")
        with self.assertRaisesRegex(ValueError, "GpuDnnConvGradI: algo must be one of 'none', .*, not 'small'"):
            dnn.GpuDnnConvGradI(algo="small")
        with self.assertRaisesRegex(ValueError, "num_groups must be a positive integer, not 0"):
            dnn.GpuDnnConv(num_groups=0)
        with self.assertRaisesRegex(TypeError, "kern must have 4 or 5 dimensions; got"):
            op(x, self.variable("float32", 3), x, desc)
        with self.assertRaisesRegex(TypeError, "img: float32, kern: float64, output: float32"):
            op(x, self.variable("float64", 4), x, desc)
        volume = self.variable("float32", 5)
        with self.assertRaisesRegex(TypeError, "must have equal numbers of dimensions; got img: 4, kern: 5, output: 4"):
            op(x, volume, x, desc)
        with self.assertRaisesRegex(TypeError, "desc must be the output of GpuDnnConvDesc"):
            op(x, x, x, T.dvector())
        with self.assertRaisesRegex(ValueError, "desc is for 4 dimensions"):
            op(volume, volume, volume, desc)
        with self.assertRaisesRegex(ValueError, "desc is for num_groups=1"):
            dnn.GpuDnnConv(num_groups=2)(x, x, x, desc)
        with self.assertRaisesRegex(ValueError, "desc is for num_groups=1"):
            dnn.GpuDnnConv(num_groups=2)(x, x, x, T.constant(dnn.GpuDnnConvDesc("valid").descriptor()))
        with self.assertRaisesRegex(
            ValueError, "'winograd' cannot compute convolutions of volumes; use one of 'none', "
        ):
            dnn.dnn_conv3d(volume, volume, algo="winograd")
        with self.assertRaisesRegex(TypeError, "alpha: expected a scalar value, got"):
            op(x, x, x, desc, T.fvector())
        with self.assertRaisesRegex(ValueError, "beta is not 0, so the array `out` must be given"):
            _dnn_conv(x, x, beta=1)
        for zero in (0, 0.0, np.float32(0), np.int8(0)):
            self.assertEqual(type(_dnn_conv(x, x, beta=zero).owner.inputs[2].owner.op).__name__, "GpuAllocEmpty")

    def test_numbers(self):
        for value in (2, 2.0, np.float32(2), T.constant(2.0), scalar.float64("s") + 0, self.variable("float32", 0)):
            found = dnn.ensure_dt(value, 1.0, "alpha", "float16")
            self.assertEqual((found.type.dtype, found.ndim), ("float32", 0))
        self.assertEqual(dnn.ensure_dt(None, 1.0, "alpha", "float64").eval(), 1.0)
        with self.assertRaisesRegex(TypeError, "beta: expected a scalar value, got"):
            dnn.ensure_dt(T.dvector(), 0.0, "beta", "float64")

    def test_bad_shapes(self):
        """The messages are those of the host. Nothing is launched."""
        images, kernels, top = [self.variable("float32", 4) for _ in range(3)]
        f = self.compile([images, kernels], dnn.dnn_conv(images, kernels, num_groups=2))
        g = self.compile([images, top], dnn.dnn_gradweight(images, top, (4, 3, 2, 2)))
        h = self.compile([kernels, top], dnn.dnn_gradinput(kernels, top, (2, 3, 5, 5)))
        alpha = self.compile([images, kernels, top], _dnn_conv(images, kernels, beta=1, out=top))
        python = theano.function(
            [images, kernels, top], _dnn_conv(images, kernels, beta=1, out=top), mode=Mode("py", None)
        )
        for function, shapes, said in (
            (f, ((2, 4, 5, 5), (4, 3, 2, 2)), "CorrMM images and kernel must have the same stack size"),
            (f, ((2, 4, 5, 5), (3, 2, 2, 2)), "the number of filters must be divisible by the number of groups"),
            (f, ((2, 4, 5, 5), (4, 2, 6, 2)), "CorrMM: impossible output shape\n  bottom shape: 2 x 4 x 5 x 5"),
            (g, ((2, 3, 5, 5), (2, 4, 4, 5)), "CorrMM shape inconsistency"),
            (g, ((2, 3, 5, 5), (2, 5, 4, 4)), "the output has the shape 4 3 2 2, but the result has the shape 5 3 2 2"),
            (h, ((4, 3, 2, 2), (2, 4, 4, 3)), "CorrMM shape inconsistency"),
            (alpha, ((2, 3, 5, 5), (4, 3, 2, 2), (2, 4, 4, 5)), "the output has the shape 2 4 4 5, but the result has"),
            (
                python,
                ((2, 3, 5, 5), (4, 3, 2, 2), (2, 4, 4, 5)),
                "the output has the shape 2 4 4 5, but the result has",
            ),
        ):
            values = [self.placed(np.ones(shape, "float32")) for shape in shapes]
            if self.fakes:
                self.fakes.calls()
            with self.assertRaisesRegex(ValueError, said):
                function(*values)
            if self.fakes:
                self.assertEqual([call for call in self.fakes.calls() if "cudnn" in call or "Launch" in call], [])
        self.check(
            f(*[self.placed(np.ones(s, "float32")) for s in ((1, 4, 2, 2), (2, 2, 2, 2))]), np.full((1, 2, 1, 1), 8)
        )

    def test_bad_descriptors(self):
        x, desc = self.variable("float32", 4), T.lvector()
        f = self.compile([x, desc], dnn.GpuDnnConv()(x, x, x, desc))
        value, right = np.ones((1, 1, 1, 1), "float32"), dnn.GpuDnnConvDesc("valid").descriptor()
        self.check(f(self.placed(value), right), value)
        for place, number in ((0, 4), (2, 3), (3, 0), (4, -3), (7, 0), (10, 0)):
            wrong = right.copy()
            wrong[place] = number
            with self.assertRaisesRegex(ValueError, "desc is no valid descriptor"):
                f(self.placed(value), wrong)
        with self.assertRaisesRegex(TypeError, "desc must be the descriptor that GpuDnnConvDesc makes"):
            f(self.placed(value), right[:5])
        volumes = dnn.GpuDnnConvDesc("valid", (1, 1, 1), (1, 1, 1)).descriptor()
        with self.assertRaisesRegex(ValueError, "the descriptor is for arrays with 5 axes, but an array has 4 axes"):
            f(self.placed(value), volumes)

    def test_failing_calls(self):
        """The error names node, call, status and shapes, and the function works afterwards."""
        self.needs_fakes()
        x, w = self.variable("float32", 4), self.variable("float32", 4)
        f = self.compile([x, w], dnn.dnn_conv(x, w))
        values = [self.placed(np.ones(shape, "float32")) for shape in ((1, 1, 3, 11), (1, 1, 3, 11))]
        for status, error, said in (
            (
                5000,
                RuntimeError,
                r"cudnnConvolutionForward: CUDNN_STATUS_EXECUTION_FAILED \(the reason\), in a convoluti",
            ),
            (5000, RuntimeError, r"shapes \(1, 1, 3, 11\) float32, \(1, 1, 3, 11\) float32, \(1, 1, 1, 1\) float32"),
            (5000, RuntimeError, r"GpuDnnConv\{algo='small', inplace=True, num_groups=1\}"),
        ):
            self.fakes.fail("cudnnConvolutionForward", status)
            with self.assertRaisesRegex(error, said):
                f(*values)
            self.check(f(*values), np.full((1, 1, 1, 1), 33))
        # An algorithm that cannot compute the form is replaced.
        self.fakes.fail("cudnnConvolutionForward", 3000)
        self.check(f(*values), np.full((1, 1, 1, 1), 33))

    def test_without_cudnn(self):
        x = self.variable("float32", 4)
        y = dnn.dnn_conv(x, x)
        with (
            change_flags({"dnn.enabled": "False"}),
            self.assertRaisesRegex(RuntimeError, "cuDNN is disabled by the flag"),
        ):
            self.compile([x], y)


class TestAlgorithms(ConvolutionTest):
    def setUp(self):
        super().setUp()
        self.needs_fakes()

    def algorithms(self, f, *values):
        self.fakes.calls()
        f(*map(self.placed, values))
        return [tuple(call.split()[:2]) for call in self.fakes.calls() if "math" in call]

    def test_deterministic(self):
        """With deterministic=more, no algorithm is used that gives other bits each time."""
        x, w, g = [self.variable("float32", 4) for _ in range(3)]
        values = [self.random("float32", *shape) for shape in ((2, 3, 6, 7), (4, 3, 2, 3), (2, 4, 3, 5))]
        for flag, algos, expected in (
            ("default", ("none", "none"), {"BackwardFilter 0", "BackwardData 0"}),
            ("default", ("small", "none"), {"BackwardFilter 3", "BackwardData 0"}),
            ("more", ("none", "none"), {"BackwardFilter 1", "BackwardData 1"}),
            ("more", ("small", "none"), {"BackwardFilter 1", "BackwardData 1"}),
            ("default", ("deterministic", "deterministic"), {"BackwardFilter 1", "BackwardData 1"}),
            ("more", ("guess_once", "time_once"), {"BackwardFilter 1", "BackwardData 1"}),
            ("default", ("guess_on_shape_change", "time_on_shape_change"), {"BackwardFilter 3", "BackwardData 0"}),
        ):
            y = dnn.dnn_conv(x, w, subsample=(2, 1))
            with change_flags({"dnn.conv.algo_bwd_filter": algos[0], "dnn.conv.algo_bwd_data": algos[1]}):
                gradients = theano.grad(None, [w, x], known_grads={y: g})
            with change_flags(deterministic=flag):
                f = self.compile([x, w, g], gradients)
            found = {"%s %s" % (name.removeprefix("cudnnConvolution"), n) for name, n in self.algorithms(f, *values)}
            self.assertEqual(found, expected, (flag, algos))

    def test_no_algorithm(self):
        """The package's own kernels compute a convolution that cuDNN cannot compute; a warning gives the reason."""
        self.needs_single_runs()
        x, g, alpha = self.variable("float32", 4), self.variable("float32", 4), T.fscalar()
        out = _dnn_gradweight(x, g, (1, 1, 7, 2), alpha, subsample=(2, 1), algo="deterministic")
        f = self.compile([x, g, alpha], out)
        image, top = np.ones((1, 1, 9, 3), "float32"), np.ones((1, 1, 2, 2), "float32")
        asked = []

        def computed(kind, desc, first, second, alpha, beta, result, reason):
            asked.append((kind, desc.tolist(), np.asarray(first), np.asarray(second), alpha, beta, reason))
            result[...] = self.placed(np.full((1, 1, 7, 2), 5, "float32"))

        with mock.patch("theano_ng.gpuarray.dnn.conv.by_own_kernels", computed):
            for _ in range(2):
                self.check(f(self.placed(image), self.placed(top), 0.5), np.full((1, 1, 7, 2), 5))
        for kind, desc, first, second, factor, beta, reason in asked:
            self.assertEqual((kind, factor, beta), (1, 0.5, 0))
            self.assertEqual(desc, [2, 1, 11, 1, 0, 0, 0, 2, 1, 1, 1, 1, 1])
            np.testing.assert_array_equal(first, image)
            np.testing.assert_array_equal(second, top)
            self.assertRegex(reason, "^cuDNN has no deterministic algorithm for this form")
        # The second time, the library is not asked.
        self.assertEqual(len([call for call in self.fakes.calls() if call.startswith("cudnn")]), 1)
        error = mock.Mock(side_effect=ValueError("no kernel"))
        with (
            mock.patch("theano_ng.gpuarray.dnn.conv.by_own_kernels", error),
            self.assertRaisesRegex(ValueError, "(?s)no kernel.*GpuDnnConvGradW"),
        ):
            f(self.placed(image), self.placed(top), 0.5)

    def test_no_memory(self):
        """Without memory for a workspace, another algorithm computes."""
        self.needs_single_runs()
        x, w = self.variable("float32", 4), self.variable("float32", 4)
        values = [self.placed(np.ones(shape, "float32")) for shape in ((1, 1, 5, 5), (1, 1, 3, 3))]
        self.addCleanup(setattr, self.fakes.dnn, "workspace", 0)
        for algo, expected in (("winograd", "1"), ("time_once", "0")):
            f = self.compile([x, w], dnn.dnn_conv(x, w, algo=algo))
            self.fakes.dnn.workspace = self.fakes.state.capacity * 6 // 10
            self.fakes.calls()
            self.check(f(*values), np.full((1, 1, 3, 3), 9))
            self.assertEqual([c.split()[1] for c in self.fakes.calls() if "math" in c], [expected])
        f = self.compile([x, w], dnn.dnn_gradinput(w, x, (1, 1, 7, 7), algo="deterministic"))
        self.fakes.dnn.workspace = 2 * self.fakes.state.capacity
        with self.assertRaisesRegex(
            MemoryError, r"(?s)in the gradient of a convolution for its images.*GpuDnnConvGradI"
        ):
            f(*values)
        self.fakes.dnn.workspace = 0
        self.check(np.asarray(f(*values))[0, 0, 3, 3], 9)

    def test_choices_at_run_time(self):
        """The first choice is kept, or there is a choice for each combination of shapes."""
        x, w = self.variable("float32", 4), self.variable("float32", 4)
        kernel = self.random("float32", 4, 3, 3, 3)
        for algo, found in (
            ("guess_once", 7),
            ("time_once", 2),
            ("guess_on_shape_change", 7),
            ("time_on_shape_change", 2),
        ):
            f = self.compile([x, w], dnn.dnn_conv(x, w, algo=algo))
            asks = []
            for rows in (5, 6, 5, 7):
                image = self.random("float32", 1, 3, rows, len(algo))
                self.fakes.calls()
                f(self.placed(image), self.placed(kernel))
                calls = self.fakes.calls()
                asks.append(any(("Find" if "time" in algo else "_v7") in call for call in calls))
                self.assertIn("cudnnConvolutionForward %d math 3 compute 0" % found, calls)
            self.assertEqual(asks, [True, False, False, False] if algo.endswith("once") else [True, True, False, True])

    def test_tf32(self):
        self.needs_single_runs()
        x = self.variable("float32", 4)
        for flag, math in ((False, "3"), (True, "0")):
            with change_flags({"gpuarray.allow_tf32": flag}):
                f = self.compile([x], dnn.dnn_conv(x, x))
            self.fakes.calls()
            f(self.placed(np.ones((1, 1, 2, 2), "float32")))
            self.assertEqual([c.split()[3] for c in self.fakes.calls() if "math" in c], [math])


class TestRules(ConvolutionTest):
    def setUp(self):
        super().setUp()
        self.x, self.w = self.variable("float32", 4), self.variable("float32", 4)
        self.values = self.random("float32", 2, 4, 6, 5), self.random("float32", 4, 4, 3, 3)

    def test_abstract_convolutions(self):
        """cuDNN computes convolutions and their gradients on CUDA devices, without any flag."""
        for axes, number in itertools.product((2, 3), range(6)):
            case = Case(self.rng, 2 * number + axes - 2)
            options = dict(case.options, filter_flip=case.options["conv_mode"] == "conv")
            options["filter_dilation"] = options.pop("dilation")
            del options["conv_mode"]
            x, w, g = [self.variable(case.dtype, 2 + axes) for _ in range(3)]
            y = (conv2d if axes == 2 else conv3d)(x, w, **options)
            gradients = theano.grad(None, [x, w], known_grads={y: g.transfer("cpu")})
            f = theano.function([x, w, g], [y, *gradients], mode=self.device_mode())
            with self.subTest(axes=axes, dtype=case.dtype, **options):
                self.assertEqual(self.with_algorithms(f), sorted(OPS))
                self.assertEqual([name for name in self.ops(f) if "Corr" in name or "Abstract" in name], [])
                expected = [
                    case.value(0, case.images, case.kernels),
                    case.value(2, case.kernels, case.top, case.images.shape[2:]),
                    case.value(1, case.images, case.top, case.kernels.shape[2:]),
                ]
                for found, right in zip(f(*map(self.placed, (case.images, case.kernels, case.top))), expected):
                    self.near(np.asarray(found), right, case.dtype)

    def test_other_convolutions(self):
        """The package's own kernels compute convolutions that cuDNN cannot compute, and those that tags exclude."""
        for options, excluded in (
            (dict(border_mode=((1, 0), (0, 2))), ()),
            (dict(filter_shape=(4, 4, 3, 4, 3, 3), unshared=True), ()),
            (dict(), ("conv_dnn",)),
            (dict(), ("cudnn",)),
        ):
            w = self.variable("float32", 6 if "unshared" in options else 4)
            f = theano.function([self.x, w], conv2d(self.x, w, **options), mode=self.device_mode().excluding(*excluded))
            self.assertEqual([name for name in self.ops(f) if "Corr" in name or name in OPS], ["GpuCorrMM"], options)
        with change_flags({"dnn.enabled": "False"}):
            f = theano.function([self.x, self.w], conv2d(self.x, self.w), mode=self.device_mode())
        self.assertIn("GpuCorrMM", self.ops(f))
        with change_flags({"dnn.conv.precision": "float64"}):
            f = theano.function([self.x, self.w], conv2d(self.x, self.w), mode=self.device_mode())
        self.assertIn("GpuCorrMM", self.ops(f))
        f = theano.function([self.x, self.w], conv2d(self.x, self.w), mode=self.device_mode().excluding("conv_gemm"))
        self.assertIn("GpuDnnConv", self.ops(f))

    def test_float16_precision(self):
        """In float16, only the convolution itself is computed."""
        x, w = self.variable("float16", 4), self.variable("float16", 4)
        y = conv2d(x, w)
        with change_flags({"dnn.conv.precision": "as_input"}):
            f = theano.function([x, w], [y, *theano.grad(y.sum(dtype="float32"), [x, w])], mode=self.device_mode())
        self.assertEqual(self.with_algorithms(f), sorted(OPS))
        descriptors = {
            type(n.op).__name__: n.inputs[3].data[2] for n in f.maker.fgraph.apply_nodes if type(n.op).__name__ in OPS
        }
        self.assertEqual(descriptors, {"GpuDnnConv": 23, "GpuDnnConvGradW": 11, "GpuDnnConvGradI": 11})

    def expressions(self):
        """Yield convolutions and gradients, an array like each, and the values of the inputs."""
        image, kernel = self.values
        top = self.random("float32", 2, 4, 4, 3)
        y = self.variable("float32", 4)
        yield dnn.dnn_conv(self.x, self.w), [self.x, self.w], [image, kernel], top
        yield dnn.dnn_gradweight(self.x, y, (4, 4, 3, 3)), [self.x, y], [image, top], kernel
        yield dnn.dnn_gradinput(self.w, y, (2, 4, 6, 5)), [self.w, y], [kernel, top], image

    def test_factors_and_sums(self):
        """A factor and an added array become parts of the convolution."""
        for expression, inputs, values, like in self.expressions():
            factor, added = T.fscalar(), self.variable("float32", 4)
            name = type(expression.owner.op).__name__
            plain = self.compile(inputs, expression)
            exact = np.asarray(plain(*map(self.placed, values)))
            wide = GpuDimShuffle((), ("x",) * 4)(as_gpuarray_variable(factor, self.name))
            mul, add = GpuElemwise(scalar.mul), GpuElemwise(scalar.add)
            for output, expected in (
                (mul(expression, wide), 2 * exact),
                (add(expression, added), exact + like),
                (mul(wide, add(added, expression)), None),
                (add(mul(expression, wide), added), 2 * exact + like),
            ):
                f = theano.function([*inputs, factor, added], output, mode=self.device_mode(), on_unused_input="ignore")
                with self.subTest(name, output=theano.pp(output)):
                    if expected is None:
                        continue
                    self.assertNotIn("GpuElemwise", self.ops(f))
                    found = f(*map(self.placed, values), 2.0, self.placed(like))
                    self.near(found, expected, "float32")
            # A smaller array would be broadcast.
            row = theano.gpuarray.type.GpuArrayType("float32", (True, False, False, False), self.name)()
            f = theano.function([*inputs, row], add(expression, row), mode=self.device_mode())
            self.assertIn("GpuElemwise", self.ops(f))

    def test_in_place(self):
        """The result overwrites new memory; an input of the function is copied."""
        for expression, inputs, values, like in self.expressions():
            added = self.variable("float32", 4)
            total = GpuElemwise(scalar.add)(expression, added)
            f = theano.function([*inputs, added], total, mode=self.device_mode())
            old = self.placed(like)
            first = f(*map(self.placed, values), old)
            np.testing.assert_array_equal(np.asarray(old), like)
            self.check(f(*map(self.placed, values), old), np.asarray(first))
            self.assertFalse(any(n.op.inplace for n in f.maker.fgraph.apply_nodes if type(n.op).__name__ in OPS))
            f = theano.function(inputs, [expression, expression * 1], mode=self.device_mode())
            self.assertTrue(all(n.op.inplace for n in f.maker.fgraph.apply_nodes if type(n.op).__name__ in OPS))
            state = theano.shared(like, target=self.name)
            f = theano.function(
                inputs, [], updates=[(state, GpuElemwise(scalar.add)(expression, state))], mode=self.device_mode()
            )
            (op,) = [n.op for n in f.maker.fgraph.apply_nodes if type(n.op).__name__ in OPS]
            self.assertTrue(op.inplace)
            f(*map(self.placed, values))
            self.near(np.asarray(state.get_value()), first, "float32")

    def test_meta_optimizer(self):
        """The meta-optimizer tries cuDNN, unless metaopt.optimizer_excluding names it."""
        op = abstract.AbstractConv2d()
        arrays = [self.variable("float32", 4) for _ in range(2)]
        hosts = [T.ftensor4(), T.ftensor4()]
        node = conv_rules._moved(op, self.name, arrays, op.make_node(*hosts).outputs)[0].owner
        for flag, expected in (("", True), ("conv_dnn", False)):
            with change_flags({"metaopt.optimizer_excluding": flag}):
                names = [rule.__name__ for rule in conv_rules.conv_metaopt.get_opts(node)]
            self.assertEqual("local_abstractconv_cudnn" in names, expected)
            self.assertEqual("local_abstractconv_cudnn_alt" in names, expected)

    def test_graph_rules(self):
        op = abstract.AbstractConv2d(border_mode="half")
        hosts = [T.ftensor4(), T.ftensor4()]
        outputs = conv_rules._moved(op, self.name, [self.x, self.w], op.make_node(*hosts).outputs)
        (found,) = dnn.local_abstractconv_cudnn_graph(op, self.name, [self.x, self.w], outputs)
        self.assertIsInstance(found.owner.op, dnn.GpuDnnConv)
        self.assertIsNone(dnn.local_abstractconv3d_cudnn_graph(op, self.name, [self.x, self.w], outputs))


class TestCopies(ConvolutionTest):
    def test_own_kernels(self):
        """The package's own kernels give the numbers of cuDNN."""
        for number in range(12):
            case = Case(self.rng, number)
            options = {k: v for k, v in case.options.items() if k != "num_groups"}
            precision = "float32" if case.dtype == "float16" else case.dtype
            desc = dnn.GpuDnnConvDesc(
                **options, precision=precision, num_groups=case.options["num_groups"]
            ).descriptor()
            for kind, first, second, like in (
                (0, case.images, case.kernels, case.top),
                (1, case.images, case.top, case.kernels),
                (2, case.kernels, case.top, case.images),
            ):
                for alpha, beta in ((1.0, 0.0), (0.5, 0.0), (2.0, -0.5)):
                    old = like if beta else np.full_like(like, np.nan)
                    result, arrays = self.placed(old.copy()), [self.placed(v) for v in (first, second)]
                    with self.assertWarnsRegex(RuntimeWarning, "^the reason. The kernels of this package compute it.$"):
                        by_own_kernels(kind, desc, *arrays, alpha, beta, result, "the reason")
                    lengths = [] if kind == 0 else [like.shape[2:]]
                    expected = alpha * case.value(kind, first, second, *lengths)
                    expected = expected + beta * like.astype("float64") if beta else expected
                    with self.subTest(kind=kind, alpha=alpha, dtype=case.dtype, **case.options):
                        self.near(result, expected, case.dtype, 4)
        x = self.placed(np.ones((1, 1, 1, 1), "float32"))
        desc = dnn.GpuDnnConvDesc("valid", precision="float64").descriptor()
        with self.assertRaisesRegex(ValueError, "cuDNN does not convolve float32 arrays in float64"):
            by_own_kernels(0, desc, x, x, 1.0, 0.0, x, "the reason")

    def test_loop(self):
        """A loop may move the descriptor out of its steps."""
        x, w = self.variable("float32", 4), self.variable("float32", 4)
        states, _ = theano.scan(lambda v, w: dnn.dnn_conv(v, w, "half"), outputs_info=[x], non_sequences=[w], n_steps=3)
        f = self.compile([x, w], states[-1])
        image, kernel = self.random("float32", 1, 2, 5, 5), self.random("float32", 2, 2, 3, 3)
        expected = image
        for _ in range(3):
            expected = conv2d(expected, kernel, border_mode="half").eval()
        self.near(f(self.placed(image), self.placed(kernel)), expected, "float32")

    def test_alternatives(self):
        """All rules that the meta-optimizer tries give the same results."""
        for axes, options, count in (
            (2, dict(), 4),
            (2, dict(filter_flip=False, filter_dilation=(1, 2)), 4),
            (2, dict(border_mode="full"), 4),
            (2, dict(border_mode="full", filter_flip=False, filter_dilation=(2, 1)), 3),
            (2, dict(border_mode=(1, 2)), 4),
            (2, dict(border_mode="half"), 2),
            (2, dict(subsample=(2, 1)), 2),
            (2, dict(num_groups=2), 2),
            (3, dict(), 4),
            (3, dict(border_mode="full", filter_flip=False), 4),
        ):
            kernel = (4, 2 // options.get("num_groups", 1), 2, 3, 2)[: 2 + axes]
            image = (3, 2, 5, 6, 4)[: 2 + axes]
            family = FAMILIES[axes]
            x, w = self.random("float64", *image), self.random("float64", *kernel)
            y = family[0](**options)(x, w).eval()
            g = self.random("float64", *y.shape)
            for cls, first, second, lengths in (
                (family[0], x, w, None),
                (family[1], x, g, kernel[2:]),
                (family[2], w, g, image[2:]),
            ):
                op = cls(**options)
                given = [] if lengths is None else [T.lvector()]
                hosts = [T.TensorType("float64", (False,) * v.ndim)() for v in (first, second)]
                arrays = [self.variable("float64", v.ndim) for v in (first, second)]
                node = conv_rules._moved(op, self.name, [*arrays, *given], op.make_node(*hosts, *given).outputs)[
                    0
                ].owner
                results = {rule.__name__: rule.transform(node) for rule in conv_rules.conv_metaopt.get_opts(node)}
                results = {name: result[0] for name, result in results.items() if result}
                expected = op.value([first, second, *([] if lengths is None else [lengths])], "float64")
                with self.subTest(op, options=options):
                    self.assertIn(_DEFAULT[op.direction], results)
                    if cls is family[0]:
                        self.assertEqual(len(results), count, list(results))
                    for name, result in results.items():
                        if "cudnn" not in name:
                            continue
                        f = self.compile(node.inputs, result, on_unused_input="ignore")
                        self.assertTrue(self.with_algorithms(f))
                        values = map(self.placed, (first, second))
                        found = f(*values, *([] if lengths is None else [lengths]))
                        np.testing.assert_allclose(np.asarray(found), expected, 1e-9, 1e-9, err_msg=name)


if __name__ == "__main__":
    unittest.main()
