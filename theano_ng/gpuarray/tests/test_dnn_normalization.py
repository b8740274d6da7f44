"""Tests of batch normalization by cuDNN. See `tests.cudnn`."""

import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gpuarray import dnn
from theano_ng.gpuarray.device.tests.test_cudnn_normalize import PER_ACTIVATION, SPATIAL, axes_of
from theano_ng.gpuarray.tests.cudnn import DTYPES, CudnnTest
from theano_ng.gpuarray.tests.device import LAYOUTS, context, gpu_variable
from theano_ng.gpuarray.type import GpuArrayType, gpuarray_shared_constructor
from theano_ng.tensor.nnet.bn import batch_normalization_test, batch_normalization_train

MODES = {"per-activation": PER_ACTIVATION, "spatial": SPATIAL}
SHAPES = ((4, 3, 2, 5), (2, 1, 3, 2, 2), (6, 2, 1, 1))
EPSILON, FACTOR = 1e-3, 0.3


def wide(dtype):
    return "float64" if dtype == "float64" else "float32"


def normalized(x, scale, bias, axes):
    """Return the outputs of a normalization without running averages, in float64."""
    x = x.astype("float64")
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    invstd = 1 / np.sqrt(variance + EPSILON)
    return [(x - mean) * invstd * scale + bias, mean, invstd]


class NormalizationTest(CudnnTest):
    def statistics(self, dtype, mode, shape, count):
        """Return arrays with the shape of a statistic."""
        kept = [1 if axis in axes_of(MODES[mode], len(shape)) else n for axis, n in enumerate(shape)]
        return [self.rng.uniform(0.5, 2, kept).astype(wide(dtype)) for _ in range(count)]

    def variables(self, dtype, ndim, count):
        """Return a variable for images, and variables for statistics."""
        return [self.variable(dtype, ndim), *[self.variable(wide(dtype), ndim) for _ in range(count)]]

    def on_device(self, values, layout="C"):
        return [self.placed(v, layout) for v in values]

    def each(self, count):
        """Yield cases with `count` statistics."""
        for dtype, mode, shape in itertools.product(DTYPES, MODES, SHAPES):
            with self.subTest(dtype=dtype, mode=mode, shape=shape):
                yield dtype, mode, self.random(dtype, *shape), self.statistics(dtype, mode, shape, count)

    def both(self, inputs, outputs):
        """Return a function that uses cuDNN, and one that computes on the host."""
        return [self.compile(inputs, outputs), theano.function(inputs, outputs, mode=Mode("py", None))]

    def tolerance(self, dtype, scale=1):
        return scale * {"float16": 2e-2, "float32": 1e-4, "float64": 1e-11}[dtype]


class TestTraining(NormalizationTest):
    def test_numbers(self):
        for dtype, mode, value, statistics in self.each(2):
            inputs = self.variables(dtype, value.ndim, 2)
            found = dnn.dnn_batch_normalization_train(*inputs, mode, EPSILON)
            self.assertEqual([v.dtype for v in found], [dtype, wide(dtype), wide(dtype)])
            axes = axes_of(MODES[mode], value.ndim)
            self.assertEqual(found[1].broadcastable, tuple([axis in axes for axis in range(value.ndim)]))
            expected = normalized(value, *statistics, axes)
            for f, layout in itertools.product(self.both(inputs, found), LAYOUTS):
                for one, right in zip(f(*self.on_device([value, *statistics], layout)), expected):
                    self.check(one, right, self.tolerance(dtype))

    def test_running_averages(self):
        for dtype, mode, value, statistics in self.each(4):
            inputs = self.variables(dtype, value.ndim, 4)
            found = dnn.dnn_batch_normalization_train(*inputs[:3], mode, EPSILON, FACTOR, *inputs[3:])
            axes = axes_of(MODES[mode], value.ndim)
            x, (_, _, old_mean, old_variance) = value.astype("float64"), statistics
            m = value.size / old_mean.size
            expected = normalized(value, *statistics[:2], axes) + [
                old_mean * (1 - FACTOR) + x.mean(axes, keepdims=True) * FACTOR,
                old_variance * (1 - FACTOR) + m / (m - 1) * x.var(axes, keepdims=True) * FACTOR,
            ]
            for f in self.both(inputs, found):
                given = self.on_device([value, *statistics])
                for one, right in zip(f(*given), expected):
                    self.check(one, right, self.tolerance(dtype))
                # The inputs of the function are not overwritten.
                self.check(given[3], old_mean, 0)
                self.check(given[4], old_variance, 0)

    def test_gradient(self):
        for dtype, mode, value, statistics in self.each(2):
            inputs = self.variables(dtype, value.ndim, 2)
            g = self.variable(dtype, value.ndim)
            out = dnn.dnn_batch_normalization_train(*inputs, mode, EPSILON)[0]
            grads = theano.grad(None, inputs, known_grads={out: g})
            self.assertEqual([v.dtype for v in grads], [v.dtype for v in inputs])
            weight = self.random(dtype, *value.shape)
            dy, x, axes = weight.astype("float64"), value.astype("float64"), axes_of(MODES[mode], value.ndim)
            _, mean, invstd = normalized(value, *statistics, axes)
            normal, m = (x - mean) * invstd, value.size / statistics[0].size
            total, product = [v.sum(axes, keepdims=True) for v in (dy, dy * normal)]
            expected = [statistics[0] * invstd * (dy - total / m - normal * product / m), product, total]
            for f, layout in itertools.product(self.both([*inputs, g], grads), LAYOUTS):
                for one, right in zip(f(*self.on_device([value, *statistics, weight], layout)), expected):
                    self.check(one, right, self.tolerance(dtype, 5))

    def test_broadcast_patterns(self):
        """The gradients have the types of the inputs: the only channel of a statistic may be known to be the only one."""
        image, statistic = (False, False, True, False), (True,) * 4
        x, scale, bias, mean, var = [GpuArrayType("float64", flags, self.name)() for flags in (image, *[statistic] * 4)]
        train = dnn.dnn_batch_normalization_train(x, scale, bias, "spatial")
        infer = dnn.dnn_batch_normalization_test(x, scale, bias, mean, var, "spatial")
        for outputs, inputs in (
            (train[:1], [x, scale, bias]),
            (train, [x, scale, bias]),
            ([infer], [x, scale, bias, mean, var]),
        ):
            gradients = theano.grad(sum(v.transfer("cpu").sum() for v in outputs), inputs)
            self.assertEqual([v.type for v in gradients], [v.type for v in inputs])

    def test_derivatives(self):
        """Derivatives of all outputs, also second and directional ones, are those of the host."""
        for mode, axes in (("per-activation", (0,)), ("spatial", (0, 2, 3))):
            shape = (3, 2, 2, 1)
            value, statistics = self.random("float64", *shape), self.statistics("float64", mode, shape, 4)
            x, *others = [T.tensor4(dtype="float64") for _ in range(5)]
            factor, epsilon = T.dscalar(), T.dscalar()
            there = [v.transfer(self.name) for v in (x, *others)]
            op = dnn.GpuDnnBatchNorm(mode, running_averages=True)
            device = op(*there[:3], epsilon, factor, *there[3:])
            host = batch_normalization_train(x, *others[:2], axes, epsilon, factor, *others[2:])
            weights = [self.rng.uniform(-1, 1, v.shape) for v in [value, *statistics]]
            numbers = [value, *statistics, EPSILON, FACTOR]
            variables = [x, *others, epsilon, factor]
            for count in (1, 5):
                results = []
                for outputs in (device, host):
                    cost = sum(
                        (v.transfer("cpu") * w).sum() for v, w in zip(outputs[:count], [weights[0], *weights[1:]])
                    )
                    found = theano.grad(cost, variables, disconnected_inputs="ignore")
                    again = theano.grad(sum((v**2).sum() for v in found[:3]), x)
                    along = theano.gradient.Rop(cost, x, x + 1)
                    f = theano.function(variables, [*found, again, along], on_unused_input="ignore")
                    results.append(f(*numbers))
                for one, right in zip(*results):
                    np.testing.assert_allclose(one, right, 1e-8, 1e-8)

    def test_few_axes(self):
        """Arrays with fewer than four axes are images with one pixel."""
        for shape in ((5, 3), (4, 2, 3), (6,)):
            for mode in MODES:
                value = self.random("float64", *shape)
                inputs = self.variables("float64", len(shape), 2)
                axes = axes_of(MODES[mode], len(shape)) if len(shape) > 1 else (0,)
                kept = [1 if axis in axes else n for axis, n in enumerate(shape)]
                statistics = [self.rng.uniform(0.5, 2, kept) for _ in range(2)]
                found = dnn.dnn_batch_normalization_train(*inputs, mode, EPSILON)
                f = self.compile(inputs, found)
                for one, right in zip(f(*self.on_device([value, *statistics])), normalized(value, *statistics, axes)):
                    self.check(one, right, 1e-10)

    def test_no_elements(self):
        """Without examples, the statistics are NaN, and so is the unbiased variance of one example."""
        for n in (0, 1):
            value, statistics = np.ones((n, 2, 3, 1)), self.statistics("float64", "per-activation", (n, 2, 3, 1), 4)
            inputs = self.variables("float64", 4, 4)
            f = self.compile(
                inputs, dnn.dnn_batch_normalization_train(*inputs[:3], "per-activation", EPSILON, FACTOR, *inputs[3:])
            )
            out, mean, invstd, running_mean, running_var = map(np.asarray, f(*self.on_device([value, *statistics])))
            self.assertEqual(out.shape, value.shape)
            self.assertTrue(np.isnan(running_var).all())
            for v in (mean, invstd, running_mean):
                self.assertEqual(np.isnan(v).all(), n == 0)
            g = self.variable("float64", 4)
            out = dnn.dnn_batch_normalization_train(*inputs[:3])[0]
            f = self.compile([*inputs[:3], g], theano.grad(None, inputs[:3], known_grads={out: g}))
            found = f(*self.on_device([value, *statistics[:2], value]))
            self.assertEqual(found[0].shape, value.shape)
            self.check(found[2], np.full((1, 2, 3, 1), n))
        inputs = self.variables("float32", 4, 2)
        f = self.compile(inputs, dnn.dnn_batch_normalization_train(*inputs, "spatial"))
        empty = np.ones((2, 0, 3, 1), "float32")
        found = f(*self.on_device([empty, *self.statistics("float32", "spatial", empty.shape, 2)]))
        self.assertEqual([v.shape for v in found], [(2, 0, 3, 1), (1, 0, 1, 1), (1, 0, 1, 1)])

    def test_in_place(self):
        """Outputs overwrite inputs that no other node needs: running averages in updates, and temporary images."""
        value, statistics = self.random("float32", 4, 3, 2, 1), self.statistics("float32", "spatial", (4, 3, 2, 1), 4)
        inputs = self.variables("float32", 4, 2)
        pattern = (True, False, True, True)
        shared = [gpuarray_shared_constructor(v, target=self.name, broadcastable=pattern) for v in statistics[2:]]
        outputs = dnn.dnn_batch_normalization_train(*inputs, "spatial", EPSILON, FACTOR, *shared)
        updates = list(zip(shared, outputs[3:]))
        f = theano.function(inputs, outputs[0], updates=updates, mode=self.device_mode())
        (op,) = [node.op for node in f.maker.fgraph.toposort() if isinstance(node.op, dnn.GpuDnnBatchNorm)]
        self.assertTrue(op.inplace_running_mean and op.inplace_running_var and not op.inplace_output)
        places = [v.get_value(borrow=True, return_internal_type=True).gpudata for v in shared]
        mean, variance = [v.astype("float64") for v in statistics[2:]]
        for _ in range(3):
            out = f(*self.on_device([value, *statistics[:2]]))
            self.check(out, normalized(value, *statistics[:2], (0, 2, 3))[0], 1e-4)
            x = value.astype("float64")
            mean = mean * (1 - FACTOR) + x.mean((0, 2, 3), keepdims=True) * FACTOR
            variance = variance * (1 - FACTOR) + 8 / 7 * x.var((0, 2, 3), keepdims=True) * FACTOR
            for v, expected in zip(shared, (mean, variance)):
                self.check(v.get_value(), expected, 1e-4)
        self.assertEqual(places, [v.get_value(borrow=True, return_internal_type=True).gpudata for v in shared])
        twice = dnn.dnn_batch_normalization_train(
            dnn.dnn_batch_normalization_train(*inputs, "spatial", EPSILON)[0], *inputs[1:], "spatial", EPSILON
        )[0]
        f = theano.function(inputs, twice, mode=self.device_mode())
        self.assertEqual([node.op.inplace_output for node in f.maker.fgraph.toposort()], [False, True])
        once = normalized(value, *statistics[:2], (0, 2, 3))[0]
        self.check(f(*self.on_device([value, *statistics[:2]])), normalized(once, *statistics[:2], (0, 2, 3))[0], 1e-3)

    def test_bad_arguments(self):
        x, scale, bias = self.variables("float32", 4, 2)
        train = dnn.dnn_batch_normalization_train
        with self.assertRaisesRegex(ValueError, "GpuDnnBatchNorm: mode must be one of .*, not 'all'"):
            train(x, scale, bias, "all")
        with self.assertRaisesRegex(ValueError, "epsilon must be at least 1e-05, got 1e-06"):
            train(x, scale, bias, epsilon=1e-6)
        with self.assertRaisesRegex(ValueError, "running_mean and running_var must either both be given or both"):
            train(x, scale, bias, running_mean=scale)
        with self.assertRaisesRegex(ValueError, "must both be given if running_averages is true, else neither"):
            dnn.GpuDnnBatchNorm(running_averages=True)(x, scale, bias)
        with self.assertRaisesRegex(ValueError, "cuDNN normalizes arrays of at most 5 axes, got 6"):
            train(*self.variables("float32", 6, 2))
        with self.assertRaisesRegex(ValueError, "all arrays must have as many axes as the inputs"):
            train(x, self.variable("float32", 1), bias)
        with self.assertRaisesRegex(TypeError, "dtypes among float16, float32, float64; got x of type"):
            train(self.variable("int32", 4), scale, bias)
        with self.assertRaisesRegex(TypeError, "dy must have the dtype float32; got"):
            dnn.GpuDnnBatchNormGrad()(x, self.variable("float64", 4), scale, scale, scale)
        with self.assertRaisesRegex(TypeError, "epsilon must be a number"):
            dnn.GpuDnnBatchNorm()(x, scale, bias, T.dvector())
        f = self.compile([x, scale, bias], train(x, scale, bias))
        image, right, wrong = [self.placed(np.ones(s, "float32")) for s in ((2, 3, 1, 2), (1, 3, 1, 2), (1, 3, 1, 1))]
        message = r"GpuDnnBatchNorm: .*bias has shape \(1, 3, 1, 1\), expected \(1, 3, 1, 2\)"
        with self.assert_device_refuses(ValueError, message):
            f(image, right, wrong)
        self.assertEqual(f(image, right, right)[0].shape, (2, 3, 1, 2))

    def test_failing_call(self):
        self.needs_fakes()
        inputs = self.variables("float32", 4, 2)
        f = self.compile(inputs, dnn.dnn_batch_normalization_train(*inputs))
        given = self.on_device(
            [self.random("float32", 4, 3, 2, 1), *self.statistics("float32", "per-activation", (4, 3, 2, 1), 2)]
        )
        f(*given)
        self.fakes.fail("cudnnBatchNormalizationForwardTraining", 5000)
        with self.assertRaisesRegex(
            RuntimeError, "(?s)cudnnBatchNormalizationForwardTraining: .*EXECUTION_FAILED.*GpuDnnBatchNorm"
        ):
            f(*given)
        f(*given)


class TestGivenStatistics(NormalizationTest):
    def test_numbers(self):
        for dtype, mode, value, statistics in self.each(4):
            inputs = self.variables(dtype, value.ndim, 4)
            out = dnn.dnn_batch_normalization_test(*inputs, mode, EPSILON)
            self.assertEqual((out.dtype, out.ndim), (dtype, value.ndim))
            scale, bias, mean, variance = statistics
            expected = (value.astype("float64") - mean) * scale / np.sqrt(variance + EPSILON) + bias
            for f in self.both(inputs, out):
                self.check(f(*self.on_device([value, *statistics])), expected, self.tolerance(dtype))

    def test_derivatives(self):
        for mode, axes in (("per-activation", (0,)), ("spatial", (0, 2, 3))):
            value, statistics = self.random("float64", 3, 2, 2, 1), self.statistics("float64", mode, (3, 2, 2, 1), 4)
            variables = [T.tensor4(dtype="float64") for _ in range(5)]
            device = dnn.dnn_batch_normalization_test(*[v.transfer(self.name) for v in variables], mode, EPSILON)
            host = batch_normalization_test(*variables, axes, EPSILON)
            weight, results = self.random("float64", 3, 2, 2, 1), []
            for out in (device.transfer("cpu"), host):
                cost = (out * weight).sum()
                along = theano.gradient.Rop(cost, variables[0], weight)
                f = theano.function(variables, [*theano.grad(cost, variables), along])
                results.append(f(value, *statistics))
            for one, right in zip(*results):
                np.testing.assert_allclose(one, right, 1e-9, 1e-9)

    def test_in_place(self):
        inputs = self.variables("float32", 4, 4)
        once = dnn.dnn_batch_normalization_test(*inputs, "spatial", EPSILON)
        f = theano.function(
            inputs, dnn.dnn_batch_normalization_test(once, *inputs[1:], "spatial", EPSILON), mode=self.device_mode()
        )
        self.assertEqual([node.op.inplace for node in f.maker.fgraph.toposort()], [False, True])
        value, statistics = self.random("float32", 4, 3, 2, 1), self.statistics("float32", "spatial", (4, 3, 2, 1), 4)
        scale, bias, mean, variance = statistics
        expected = value
        for _ in range(2):
            expected = (expected - mean) * scale / np.sqrt(variance + EPSILON) + bias
        given = self.on_device([value, *statistics])
        self.check(f(*given), expected, 1e-4)
        self.check(given[0], value, 0)


class TestRules(NormalizationTest):
    def test_rules(self):
        """With the tag ``cudnn``, normalization over the axes that cuDNN supports is done by it."""
        for axes, ndim, expected in (
            ((0,), 4, "per-activation"),
            ((0, 2, 3), 4, "spatial"),
            ((0, 2, 3, 4), 5, "spatial"),
            ((0,), 2, "per-activation"),
            ((0, 2), 4, None),
            ((1,), 4, None),
        ):
            x, g = self.variable("float32", ndim), self.variable("float32", ndim)
            statistics = [gpu_row(axes, ndim, self.name) for _ in range(4)]
            host = [T.as_tensor_variable(v) for v in (x, *statistics)]
            trained = batch_normalization_train(host[0], *host[1:3], axes, EPSILON, FACTOR, *host[3:])
            dx = theano.grad(None, x, known_grads={trained[0]: T.as_tensor_variable(g)})
            tested = batch_normalization_test(*host, axes, EPSILON)
            with self.subTest(axes=axes, ndim=ndim):
                f = theano.function([x, g, *statistics], [*trained, dx, tested], mode=self.device_mode("cudnn"))
                modes = [node.op.mode for node in f.maker.fgraph.toposort() if "GpuDnn" in type(node.op).__name__]
                self.assertEqual(modes, [expected] * 3 if expected else [])
                f = theano.function([x, g, *statistics], [*trained, dx, tested], mode=self.device_mode())
                self.assertFalse([name for name in self.ops(f) if "Dnn" in name])

    def test_numbers(self):
        x, statistics = self.variable("float32", 4), [gpu_row((0, 2, 3), 4, self.name) for _ in range(2)]
        host = [T.as_tensor_variable(v) for v in (x, *statistics)]
        f = theano.function(
            [x, *statistics],
            batch_normalization_train(*host, "spatial", EPSILON),
            mode=self.device_mode("batchnorm_dnn"),
        )
        self.assertIn("GpuDnnBatchNorm", self.ops(f))
        value, given = self.random("float32", 4, 3, 2, 1), self.statistics("float32", "spatial", (4, 3, 2, 1), 2)
        for one, right in zip(f(*self.on_device([value, *given])), normalized(value, *given, (0, 2, 3))):
            self.check(one, right, 1e-4)

    def test_random_programs(self):
        """Programs for the host give the same numbers when the rules move them to cuDNN."""
        for case in range(24):
            ndim, mode = 4 + case % 2, list(MODES)[case // 2 % 2]
            shape = (int(self.rng.integers(2, 5)), *map(int, self.rng.integers(1, 4, ndim - 1)))
            axes = axes_of(MODES[mode], ndim)
            values = [self.random("float64", *shape), *self.statistics("float64", mode, shape, 4)]
            weight, there = self.random("float64", *shape), [self.variable("float64", ndim)]
            there += [gpu_row(axes, ndim, self.name, "float64") for _ in range(4)]
            x, scale, bias, mean, variance = [v.type.host_type()() for v in there]
            g, device_g = T.TensorType("float64", (False,) * ndim)(), self.variable("float64", ndim)
            trained = batch_normalization_train(x, scale, bias, axes, EPSILON, FACTOR, mean, variance)
            outputs = [
                *trained,
                *theano.grad(None, [x, scale, bias], known_grads={trained[0]: g}),
                batch_normalization_test(x, scale, bias, mean, variance, axes, EPSILON),
            ]
            inputs = [x, scale, bias, mean, variance, g]
            with self.subTest(shape=shape, mode=mode):
                expected = theano.function(inputs, outputs)(*values, weight)
                replaced = dict(zip(inputs, map(T.as_tensor_variable, [*there, device_g])))
                f = theano.function(
                    [*there, device_g], theano.clone(outputs, replace=replaced), mode=self.device_mode("cudnn")
                )
                self.assertEqual(
                    sorted([name for name in self.ops(f) if "Dnn" in name]),
                    ["GpuDnnBatchNorm", "GpuDnnBatchNormGrad", "GpuDnnBatchNormInference"],
                )
                for one, right in zip(f(*self.on_device([*values, weight])), expected):
                    self.check(one, right, 1e-9)

    def test_unknown_epsilon(self):
        """cuDNN needs an epsilon that is not negative, so the number must be known."""
        x, statistics = self.variable("float32", 4), [gpu_row((0, 2, 3), 4, self.name) for _ in range(2)]
        host = [T.as_tensor_variable(v) for v in (x, *statistics)]
        epsilon = T.dscalar()
        f = theano.function(
            [x, *statistics, epsilon],
            batch_normalization_train(*host, "spatial", epsilon),
            mode=self.device_mode("cudnn"),
        )
        self.assertNotIn("GpuDnnBatchNorm", self.ops(f))

    def test_other_devices(self):
        name = context()
        if self.fakes is None:
            self.skipTest("needs an OpenCL device")
        x = gpu_variable("float32", 4, name)
        with self.assertRaisesRegex(RuntimeError, "cuDNN cannot be used on the context test: .* is no CUDA device"):
            theano.function([x], dnn.dnn_batch_normalization_train(x, x, x))


def gpu_row(axes, ndim, name, dtype="float32"):
    """Return a variable for a statistic."""
    return GpuArrayType(dtype, [axis in axes for axis in range(ndim)], name)()


if __name__ == "__main__":
    unittest.main()
