"""Tests of the rules that move convolutions and whole networks to devices."""

import itertools
import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.configparser import change_flags
from theano_ng.gpuarray import corr
from theano_ng.gpuarray.opt import conv as rules
from theano_ng.gpuarray.tests.device import context, placed
from theano_ng.gpuarray.transfers import GpuFromHost, HostFromGpu
from theano_ng.gpuarray.type import GpuArrayType, gpuarray_shared_constructor
from theano_ng.scan.op import Scan
from theano_ng.tensor.nnet import conv2d, conv3d
from theano_ng.tensor.nnet.convolution import abstract, conv3d2d, functions, legacy
from theano_ng.tensor.signal.pool import pool_2d

HERE = get_mode("FAST_RUN").excluding("gpuarray")
THERE = get_mode("FAST_RUN").including("gpuarray")
TOLERANCE = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-10}


def crossing(f):
    """Return the numbers of transfers to the device and to the host in a function."""
    ops = [node.op for node in f.maker.fgraph.apply_nodes]
    return tuple(sum(isinstance(op, cls) for op in ops) for cls in (GpuFromHost, HostFromGpu))


def convolutions(f):
    """Return the sorted names of the classes of all Ops of convolutions in a function."""
    names = [type(node.op).__name__ for node in f.maker.fgraph.apply_nodes]
    return sorted(name for name in names if "Corr" in name or "Conv" in name)


class Convolutions(unittest.TestCase):
    def setUp(self):
        context()
        self.rng = np.random.default_rng(3)

    def numbers(self, dtype, *shape):
        return self.rng.uniform(-1, 1, shape).astype(dtype)

    def compare(self, inputs, outputs, values, mode=THERE):
        """Return a function on the device whose results have been compared with those of the host."""
        with change_flags(on_opt_error="raise"):
            f = theano.function(inputs, outputs, mode=mode)
            expected = theano.function(inputs, outputs, mode=HERE)(*values)
        for result, right in zip(f(*values), expected, strict=True):
            self.assertEqual((result.dtype, result.shape), (right.dtype, right.shape))
            tolerance = TOLERANCE[str(right.dtype)]
            np.testing.assert_allclose(result, right, tolerance, tolerance)
        return f


class TestConvolutions(Convolutions):
    def test_two_dimensions(self):
        """A convolution and its gradients are computed on the device, and nothing else crosses the bus."""
        for dtype, options in zip(
            itertools.cycle(("float64", "float16", "float32")),
            (
                {},
                dict(border_mode="half", subsample=(2, 1)),
                dict(border_mode="full", filter_flip=False),
                dict(border_mode=(1, 2), filter_dilation=(2, 1), num_groups=2),
                dict(border_mode=((1, 0), (0, 2)), filter_flip=False, subsample=(2, 3)),
            ),
        ):
            x, w = T.TensorType(dtype, (False,) * 4)(), T.TensorType(dtype, (False,) * 4)()
            y = conv2d(x, w, **options)
            outputs = [y, *theano.grad(T.sqr(y).sum(dtype=dtype), [x, w])]
            values = self.numbers(dtype, 2, 4, 7, 8), self.numbers(dtype, 6, 4 // options.get("num_groups", 1), 3, 2)
            with self.subTest(dtype=dtype, **options):
                f = self.compare([x, w], outputs, [v / 4 for v in values])
                self.assertEqual(convolutions(f), ["GpuCorrMM", "GpuCorrMM_gradInputs", "GpuCorrMM_gradWeights"])
                self.assertEqual(crossing(f), (2, 3))

    def test_unshared(self):
        x, w = T.dtensor4(), T.TensorType("float64", (False,) * 6)()
        y = conv2d(x, w, filter_shape=(3, 5, 4, 2, 2, 3), unshared=True)
        outputs = [y, *theano.grad(T.sqr(y).sum(), [x, w])]
        f = self.compare(
            [x, w], outputs, [self.numbers("float64", 2, 2, 6, 6), self.numbers("float64", 3, 5, 4, 2, 2, 3)]
        )
        self.assertEqual(crossing(f), (2, 3))

    def test_three_dimensions(self):
        for options in ({}, dict(border_mode="half", subsample=(1, 2, 1)), dict(filter_flip=False, num_groups=2)):
            x, w = T.dtensor5(), T.dtensor5()
            y = conv3d(x, w, **options)
            outputs = [y, *theano.grad(T.sqr(y).sum(), [x, w])]
            values = [self.numbers("float64", 2, 2, 4, 5, 3)]
            values.append(self.numbers("float64", 4, 2 // options.get("num_groups", 1), 2, 3, 2))
            with self.subTest(**options):
                f = self.compare([x, w], outputs, values)
                self.assertEqual(convolutions(f), ["GpuCorr3dMM", "GpuCorr3dMM_gradInputs", "GpuCorr3dMM_gradWeights"])
                self.assertEqual(crossing(f), (2, 3))

    def test_other_interfaces(self):
        """The functions that are made of convolutions run on the device, too."""
        x, w = T.dtensor4(), T.dtensor4()
        image, kernel = self.numbers("float64", 2, 3, 8, 9), self.numbers("float64", 4, 3, 3, 3)
        depth, point = T.dtensor4(), T.dtensor4()
        five, six = T.dtensor5(), T.dtensor5()
        films, cubes = self.numbers("float64", 2, 4, 3, 6, 5), self.numbers("float64", 2, 2, 3, 2, 3)
        for inputs, output, values in (
            ([x, w], legacy.conv2d(x, w, border_mode="full"), [image, kernel]),
            ([x, w], legacy.ConvOp(output_mode="valid", dx=2, dy=1)(x, w), [image, kernel]),
            (
                [x, depth, point],
                functions.separable_conv2d(x, depth, point, num_channels=3),
                [image, self.numbers("float64", 6, 1, 2, 3), self.numbers("float64", 4, 6, 1, 1)],
            ),
            (
                [x, w],
                functions.conv2d_transpose(
                    x, w, output_shape=(2, 5, 17, 19), border_mode=(1, 1), input_dilation=(2, 2), filter_flip=False
                ),
                [image, self.numbers("float64", 3, 5, 4, 4)][:2],
            ),
            ([five, six], conv3d2d.conv3d(five, six), [films, cubes]),
        ):
            outputs = [output, *theano.grad(T.sqr(output).sum(), inputs)]
            with self.subTest(output=theano.pp(output)[:60]):
                f = self.compare(inputs, outputs, values)
                self.assertTrue(all(name.startswith("Gpu") for name in convolutions(f)), convolutions(f))
                self.assertTrue(convolutions(f))

    def test_loop(self):
        """A loop of convolutions and its gradient run on the device, without transfers in the steps."""
        x, w = T.dtensor4(), T.dtensor4()

        def step(v, w):
            averages = pool_2d(v, (3, 3), ignore_border=True, stride=(1, 1), pad=(1, 1), mode="average_inc_pad")
            return T.tanh(conv2d(v, w, border_mode="half") + averages)

        states, _ = theano.scan(step, outputs_info=[x], non_sequences=[w], n_steps=3)
        outputs = [states[-1], *theano.grad(states[-1].sum(), [x, w])]
        f = self.compare(
            [x, w], outputs, [self.numbers("float64", 2, 3, 6, 5), self.numbers("float64", 3, 3, 3, 3) / 4]
        )
        self.assertEqual(crossing(f), (2, 3))
        loops = [node.op for node in f.maker.fgraph.apply_nodes if isinstance(node.op, Scan)]
        self.assertEqual([crossing(loop.fn) for loop in loops], [(0, 0), (0, 0)])
        found = sorted(name for loop in loops for name in convolutions(loop.fn))
        self.assertEqual(found, ["GpuCorrMM", "GpuCorrMM_gradInputs", "GpuCorrMM_gradWeights"])

    def test_integers(self):
        """Convolutions of integers, which have no kernels, stay on the host."""
        x, w = T.itensor4(), T.itensor4()
        values = [self.rng.integers(-5, 5, shape).astype("int32") for shape in ((2, 3, 5, 5), (4, 3, 2, 2))]
        f = theano.function([x, w], conv2d(x * 2, w), mode=THERE)
        self.assertEqual(convolutions(f), ["ConvMM"])
        np.testing.assert_array_equal(f(*values), theano.function([x, w], conv2d(x * 2, w), mode=HERE)(*values))

    def test_lengths_on_the_device(self):
        """The lengths of a gradient may come from the device."""
        w, y, lengths = T.dtensor4(), T.dtensor4(), T.lvector()
        op = abstract.AbstractConv2d_gradInputs(subsample=(2, 2))
        values = self.numbers("float64", 4, 3, 2, 2), self.numbers("float64", 2, 4, 3, 3)
        for given in (lengths, lengths + 1):
            self.compare([w, y, lengths], [op(w, y, given)], [*values, [6, 6]])

    def test_broadcast_patterns(self):
        x = T.TensorType("float64", (True, False, False, False))()
        w = T.TensorType("float64", (False, True, False, False))()
        y = conv2d(x, w)
        outputs = [y, *theano.grad(T.sqr(y).sum(), [x, w])]
        self.compare([x, w], outputs, [self.numbers("float64", 1, 1, 5, 6), self.numbers("float64", 3, 1, 2, 2)])

    def test_tags(self):
        """The tag conv_gemm selects the rules. Without conv_dnn, convolutions are moved, too."""
        x, w = T.ftensor4(), T.ftensor4()
        f = theano.function([x, w], conv2d(x, w), mode=THERE.excluding("conv_dnn", "cudnn"))
        self.assertEqual(convolutions(f), ["GpuCorrMM"])
        with change_flags(on_opt_error="raise"), self.assertRaisesRegex(AssertionError, "conv_gemm"):
            theano.function([x, w], conv2d(x, w), mode=THERE.excluding("conv_gemm"))
        f = theano.function([x, w], conv2d(x, w), mode=get_mode("FAST_COMPILE").including("gpuarray"))
        self.assertEqual(convolutions(f), ["GpuCorrMM"])

    def test_abstract_convolution_on_the_device(self):
        """If no rule replaces a convolution on the device, Python code computes it."""
        x, w = T.dtensor4(), T.dtensor4()
        values = self.numbers("float64", 2, 3, 5, 5), self.numbers("float64", 4, 3, 2, 2)
        f = theano.function([x, w], conv2d(x, w), mode=THERE.excluding("conv_gemm", "AbstractConvCheck", "conv_opts"))
        self.assertEqual(convolutions(f), ["AbstractConv2d"])
        self.assertIsInstance(f.maker.fgraph.outputs[0].owner.op, HostFromGpu)
        expected = theano.function([x, w], conv2d(x, w), mode=HERE)(*values)
        np.testing.assert_allclose(f(*values), expected, rtol=1e-10)

    def test_debug_mode(self):
        x, w = T.ftensor4(), T.ftensor4()
        y = conv2d(x, w, border_mode="half", subsample=(2, 1))
        outputs = [y, *theano.grad(T.sqr(y).sum(), [x, w])]
        values = [self.numbers("float32", 2, 2, 5, 6), self.numbers("float32", 3, 2, 3, 2)]
        self.compare([x, w], outputs, values, get_mode("DebugMode").including("gpuarray"))


class TestMetaOptimizer(Convolutions):
    def candidates(self, op, *inputs):
        """Return the results of all rules that `conv_metaopt` tries for a node on the device."""
        arrays = [GpuArrayType(v.dtype, v.broadcastable, None)() for v in inputs]
        lengths = {"forward": 0}.get(op.direction, 1)
        node = rules._moved(
            op, None, [*arrays, *[T.lvector()] * lengths], op.make_node(*inputs, *[T.lvector()] * lengths).outputs
        )[0].owner
        found = {rule.__name__: rule.transform(node) for rule in rules.conv_metaopt.get_opts(node)}
        return node, {name: result[0] for name, result in found.items() if result}

    def test_alternatives(self):
        """All rules that apply to a convolution give the same results."""
        for convdim, options, count in (
            (2, dict(), 2),
            (2, dict(filter_flip=False, filter_dilation=(1, 2)), 2),
            (2, dict(border_mode="full"), 2),
            (2, dict(border_mode="full", filter_flip=False, filter_dilation=(2, 1)), 2),
            (2, dict(border_mode=(1, 2)), 2),
            (2, dict(border_mode="half"), 1),
            (2, dict(subsample=(2, 1)), 1),
            (2, dict(num_groups=2), 1),
            (3, dict(), 2),
            (3, dict(border_mode="full", filter_flip=False), 2),
            (3, dict(kshp=(4, 2, 1, 3, 2), subsample=(1, 2, 1)), 2),
            (3, dict(kshp=(4, 2, 2, 1, 2), border_mode="full"), 3),
            (3, dict(kshp=(4, 1, 2, 3, 1), border_mode=(1, 0, 0), num_groups=2, filter_flip=False), 2),
        ):
            kernel = options.get("kshp", (4, 2 // options.get("num_groups", 1), 2, 3, 2)[: 2 + convdim])
            image = (3, 2, 5, 6, 4)[: 2 + convdim]
            family = {2: abstract.AbstractConv2d, 3: abstract.AbstractConv3d}[convdim].family
            x, w = self.numbers("float64", *image), self.numbers("float64", *kernel)
            y = family[0](**options)(x, w).eval()
            g = self.numbers("float64", *y.shape)
            for cls, first, second, lengths in (
                (family[0], x, w, None),
                (family[1], x, g, kernel[2:]),
                (family[2], w, g, image[2:]),
            ):
                op = cls(**options)
                variables = [T.TensorType("float64", (False,) * v.ndim)() for v in (first, second)]
                node, results = self.candidates(op, *variables)
                given = [] if lengths is None else [lengths]
                expected = op.value([first, second, *given], "float64")
                arrays = [placed(v, "C", None) for v in (first, second)]
                with self.subTest(op, options=options):
                    if cls is family[0]:
                        self.assertEqual(len(results), count, list(results))
                    self.assertTrue(results)
                    for name, result in results.items():
                        f = theano.function(node.inputs, result, mode="FAST_COMPILE", on_unused_input="ignore")
                        np.testing.assert_allclose(f(*arrays, *given), expected, rtol=1e-9, atol=1e-9, err_msg=name)

    def test_choice(self):
        """With the tag conv_meta, the fastest Op is used, if the shapes are known."""
        x, w = T.ftensor4(), T.ftensor4()
        y = conv2d(x, w, (2, 3, 8, 8), (4, 3, 3, 3))
        outputs = [y, *theano.grad(T.sqr(y).sum(), [x, w])]
        values = [self.numbers("float32", 2, 3, 8, 8), self.numbers("float32", 4, 3, 3, 3)]
        for slow, expected in (
            ("default", {"GpuCorrMM", "GpuCorrMM_gradWeights"}),
            ("alternative", {"GpuCorrMM", "GpuCorrMM_gradWeights", "GpuCorrMM_gradInputs"}),
        ):
            counted = []

            def time_call(optimizer, fn, counted=counted, slow=slow):
                (op,) = [
                    n.op
                    for n in fn.maker.fgraph.apply_nodes
                    if isinstance(n.op, (corr.BaseGpuCorrMM, corr.BaseGpuCorr3dMM))
                ]
                counted.append(op)
                fn()
                is_default = len(counted) % 4 in (1, 2)  # two calls of each of two candidates
                return float(is_default == (slow == "default"))

            with mock.patch.object(rules.ConvMetaOptimizer, "time_call", time_call), change_flags(cache_graphs=False):
                f = self.compare([x, w], outputs, values, THERE.including("conv_meta"))
            self.assertEqual(len(counted), 12)
            self.assertEqual(set(convolutions(f)), expected)

    def test_measurement(self):
        """The measured function runs on the device. Unknown shapes are reported."""
        x, w = T.ftensor4(), T.ftensor4()
        values = [self.numbers("float32", 2, 3, 8, 8), self.numbers("float32", 4, 3, 3, 3)]
        for shapes in (((2, 3, 8, 8), (4, 3, 3, 3)), ()):
            with mock.patch("builtins.print") as printed, mock.patch.object(rules.conv_metaopt, "verbose", 2):
                self.compare([x, w], [conv2d(x, w, *shapes)], values, THERE.including("conv_meta"))
            text = "\n".join(str(call.args[0]) for call in printed.call_args_list if call.args)
            self.assertNotIn("exception", text)
            self.assertEqual("cannot meta-optimize" in text, not shapes, text)
            self.assertEqual("sec" in text, bool(shapes), text)

    @change_flags({"metaopt.optimizer_excluding": "conv_gemm"})
    def test_excluded(self):
        node, results = self.candidates(abstract.AbstractConv2d(), T.dtensor4(), T.dtensor4())
        self.assertEqual(results, {})


class TestNetwork(Convolutions):
    def lenet(self, make, values, dtype):
        """Return the inputs, cost and updates of a training step of LeNet, with two convolutions."""
        x, y = T.TensorType(dtype, (False,) * 4)("x"), T.ivector("y")
        parameters = [make(v.copy()) for v in values]
        w1, b1, w2, b2, w3, b3, w4, b4 = parameters
        first = T.tanh(pool_2d(conv2d(x, w1), (2, 2), ignore_border=True) + b1.dimshuffle("x", 0, "x", "x"))
        second = T.tanh(pool_2d(conv2d(first, w2), (2, 2), ignore_border=True) + b2.dimshuffle("x", 0, "x", "x"))
        hidden = T.tanh(T.dot(second.flatten(2), w3) + b3)
        cost = T.nnet.categorical_crossentropy(T.nnet.softmax(T.dot(hidden, w4) + b4), y).mean(dtype=dtype)
        updates = [(p, p - np.asarray(0.1, dtype) * g) for p, g in zip(parameters, T.grad(cost, parameters))]
        return [x, y], cost, updates

    def test_training(self):
        """A training step of LeNet transfers its inputs and its cost only, and gives the parameters of the host."""
        shapes = ((4, 1, 3, 3), (4,), (5, 4, 3, 3), (5,), (5 * 2 * 2, 8), (8,), (8, 3), (3,))
        for dtype, steps, tolerance in (("float64", 20, 1e-10),):
            values = [self.numbers(dtype, *shape) / 2 for shape in shapes]
            shared = {}
            for there in (False, True):

                def make(v, there=there):
                    shared.setdefault(there, []).append(gpuarray_shared_constructor(v) if there else theano.shared(v))
                    return shared[there][-1]

                inputs, cost, updates = self.lenet(make, values, dtype)
                with change_flags(on_opt_error="raise"):
                    f = theano.function(inputs, cost, updates=updates, mode=THERE if there else HERE)
                data = np.random.default_rng(2)
                for _ in range(steps):
                    images = data.uniform(-1, 1, (6, 1, 14, 14)).astype(dtype)
                    f(images, data.integers(0, 3, 6).astype("int32"))
            self.assertEqual(crossing(f)[1], 1)
            self.assertLessEqual(crossing(f)[0], 2)
            names = [type(n.op).__name__ for n in f.maker.fgraph.apply_nodes]
            self.assertEqual([names.count(n) for n in ("GpuPool", "GpuMaxPoolGrad")], [2, 2])
            self.assertEqual(
                convolutions(f), ["GpuCorrMM"] * 2 + ["GpuCorrMM_gradInputs"] + ["GpuCorrMM_gradWeights"] * 2
            )
            for a, b in zip(shared[True], shared[False]):
                np.testing.assert_allclose(a.get_value(), b.get_value(), tolerance, tolerance)


if __name__ == "__main__":
    unittest.main()
