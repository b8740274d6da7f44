"""Tests of batch normalization on devices, compared with the Ops for the host."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.configdefaults import config
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Constant
from theano_ng.gof.graph import inputs as inputs_of
from theano_ng.gof.rewriting import in2out
from theano_ng.gpuarray.batchnorm import GpuBatchNormTrain, GpuBatchNormTrainGrad
from theano_ng.gpuarray.blas import GpuDot22
from theano_ng.gpuarray.elemwise import GpuElemwise
from theano_ng.gpuarray.kernels import batchnorm as kernels
from theano_ng.gpuarray.opt import abstract_batch_norm_db, abstract_batch_norm_db2
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.tests.device import LAYOUTS, allow_nan, context, gpu_variable, placed
from theano_ng.gpuarray.transfers import GpuFromHost, HostFromGpu
from theano_ng.gpuarray.type import GpuArrayType, get_context, gpuarray_shared_constructor
from theano_ng.tensor.nnet import bn
from theano_ng.tensor.nnet.bn_ops import (
    AbstractBatchNormInference,
    AbstractBatchNormTrain,
    AbstractBatchNormTrainGrad,
    BatchNormTrain,
    BatchNormTrainGrad,
)

TOLERANCE = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-13}
# Averaged axes, and shapes. The averaged and the kept axes alternate in all ways.
CASES = (
    ((0, 2, 3), ((5, 3, 4, 6), (2, 1, 3, 31), (1, 4, 1, 1), (3, 5, 8, 32), (0, 3, 2, 2), (2, 0, 2, 2))),
    ((0,), ((5, 3, 4, 6), (1, 2, 2, 2), (70, 1, 1, 3), (0, 2, 2, 2), (3, 0, 1, 2))),
    ((0,), ((4, 33), (100, 3), (3, 64), (1, 1))),
    ((0, 1), ((3, 70), (1, 1), (0, 2))),
    ((1, 3), ((2, 3, 4, 5, 2), (1, 40, 2, 2, 3))),
)


class Norms(unittest.TestCase):
    def setUp(self):
        self.name = context()
        allow_nan(self)
        self.rng = np.random.default_rng(6)

    def variables(self, dtype, axes, ndim, there):
        """Return functions that make a variable for an array, and for a statistic."""
        made = []
        for flags in ((False,) * ndim, [i in axes for i in range(ndim)]):
            type_ = GpuArrayType(dtype, flags, self.name)
            made.append(type_ if there else type_.host_type())
        return made

    def functions(self, dtype, axes, ndim):
        """Return the functions that normalize and that compute the gradient, on the device and on the host."""
        found = []
        for there in (True, False):
            array, statistic = self.variables(dtype, axes, ndim, there)
            train = GpuBatchNormTrain if there else BatchNormTrain
            grad = GpuBatchNormTrainGrad if there else BatchNormTrainGrad
            inputs = [array(), statistic(), statistic()]
            found.append(theano.function(inputs, train(axes)(*inputs, 1e-4)))
            inputs = [array(), array(), statistic(), statistic(), statistic()]
            found.append(theano.function(inputs, grad(axes)(*inputs, 1e-4)))
        return found

    def values(self, dtype, axes, shape):
        """Return x, dy, scale and bias."""
        small = tuple(1 if i in axes else n for i, n in enumerate(shape))
        found = [self.rng.normal(size=size) for size in (shape, shape, small, small)]
        return [v.astype(dtype) for v in (2 * found[0] + 1, *found[1:])]

    def close(self, results, expected, dtype):
        for result, right in zip(results, expected, strict=True):
            result = np.asarray(result)
            self.assertEqual((result.dtype, result.shape), (right.dtype, right.shape))
            with np.errstate(invalid="ignore"):
                scale = np.abs(right[np.isfinite(right)].astype("float64")).max(initial=1)
            np.testing.assert_allclose(result, right, TOLERANCE[dtype], TOLERANCE[dtype] * scale)


class TestOps(Norms):
    def test_results(self):
        for dtype in TOLERANCE:
            for axes, shapes in CASES if dtype == "float32" else CASES[:2]:
                train, grad, host_train, host_grad = self.functions(dtype, axes, len(shapes[0]))
                for shape in shapes:
                    x, dy, scale, bias = self.values(dtype, axes, shape)
                    expected = host_train(x, scale, bias)
                    gradients = host_grad(x, dy, scale, *expected[1:3])
                    for layout in LAYOUTS:
                        with self.subTest(dtype=dtype, axes=axes, shape=shape, layout=layout):
                            given = [placed(v, layout) for v in (x, dy, scale, bias, *expected[1:3])]
                            self.close(train(given[0], *given[2:4]), expected, dtype)
                            self.close(grad(*given[:3], *given[4:]), gradients, dtype)

    def test_precision(self):
        """Sums are computed in float64: a mean far from 0 does not spoil the variance, and factors do not overflow."""
        train, grad, host_train, host_grad = self.functions("float32", (0,), 2)
        for x, scale in (
            (self.rng.normal(size=(3000, 5)) + 1e4, 1.0),
            (1e-20 * self.rng.normal(size=(50, 5)), 1e38),
            (1e30 * self.rng.normal(size=(50, 5)), 1.0),
        ):
            x, bias = x.astype("float32"), np.zeros((1, 5), "float32")
            scale, dy = np.full((1, 5), scale, "float32"), self.rng.normal(size=x.shape).astype("float32")
            expected = host_train(x, scale, bias)
            for result, right in zip(train(*[placed(v, "C") for v in (x, scale, bias)]), expected):
                np.testing.assert_allclose(result, right, 1e-5, 1e-5 * np.abs(right).max())
            gradients = host_grad(x, dy, scale, *expected[1:3])
            for result, right in zip(grad(*[placed(v, "C") for v in (x, dy, scale, *expected[1:3])]), gradients):
                np.testing.assert_allclose(result, right, 1e-5, 1e-5 * np.abs(right).max())

    def test_special_values(self):
        train, grad, host_train, host_grad = self.functions("float32", (0, 2, 3), 4)
        x, dy, scale, bias = self.values("float32", (0, 2, 3), (3, 5, 4, 40))
        x[0, 0, 0, 0], x[1, 1, 2, 3], dy[2, 2, 1, 1], scale[0, 3, 0, 0] = np.nan, np.inf, np.nan, np.inf
        expected = host_train(x, scale, bias)
        self.close(train(*[placed(v, "C") for v in (x, scale, bias)]), expected, "float32")
        gradients = host_grad(x, dy, scale, *expected[1:3])
        self.close(grad(*[placed(v, "C") for v in (x, dy, scale, *expected[1:3])]), gradients, "float32")

    def test_errors(self):
        train, grad, host_train, host_grad = self.functions("float32", (0, 2, 3), 4)
        x, dy, scale, bias = self.values("float32", (0, 2, 3), (3, 5, 4, 2))
        for f, g, values in (
            (train, host_train, (x, scale[:, :4], bias)),
            (train, host_train, (x, scale, bias[:, :0])),
            (grad, host_grad, (x, dy[:2], scale, bias, bias)),
            (grad, host_grad, (x, dy, scale, bias[:, 1:], bias)),
            (grad, host_grad, (x, dy, scale, bias, bias[:, 1:])),
        ):
            with self.assertRaises(ValueError) as expected:
                g(*values)
            with self.assertRaises(ValueError) as found:
                f(*[placed(v, "C") for v in values])
            self.assertEqual(str(found.exception).split("\n")[0], str(expected.exception).split("\n")[0])
        array, statistic = self.variables("float32", (0,), 2, True)
        with self.assertRaises(TypeError):
            GpuBatchNormTrain((0,))(array(), gpu_variable("float32", 1), statistic(), 1e-4)
        with self.assertRaises(ValueError):
            GpuBatchNormTrain((2,))(array(), statistic(), statistic(), 1e-4)

    def test_derivatives(self):
        x, dy, scale, bias = self.values("float64", (0, 2), (3, 2, 4))
        mean, invstd = x.mean((0, 2), keepdims=True), 1 / x.std((0, 2), keepdims=True)
        rng = np.random.RandomState(2)
        for k in range(4):
            theano.gradient.verify_grad(
                lambda x, s, b, k=k: HostFromGpu()(GpuBatchNormTrain((0, 2))(x, s, b, 0.1)[k]),
                [x, scale, bias],
                rng=rng,
            )
        for k in range(3):
            theano.gradient.verify_grad(
                lambda *inputs, k=k: HostFromGpu()(GpuBatchNormTrainGrad((0, 2))(*inputs)[k]),
                [x, dy, scale, mean, invstd],
                rng=rng,
            )


class TestKernelsForGpus(Norms):
    def run_kernel(self, norm, axes, arrays, rows, epsilon, across, lanes):
        """Run the code for GPUs in groups of ``across * lanes`` threads, and return the outputs."""
        ctx, x = get_context(self.name), arrays[0]
        kernel = kernels.kernel(norm, "float32", x.ndim, axes, ctx)
        kernel = kernel._replace(support=("#undef GA_PROCESSOR\n", *kernel.support)).build()
        kept = [i for i in range(x.ndim) if i not in axes]
        small = [1 if i in axes else n for i, n in enumerate(x.shape)]
        outputs = [pygpu.zeros(x.shape, "float32", context=ctx)]
        outputs += [pygpu.zeros(small, "float32", context=ctx) for _ in norm.outputs]
        given = [int(np.prod([x.shape[i] for i in kept])), int(np.prod([x.shape[i] for i in axes])), across]
        for v in [placed(v, "C") for v in (*arrays, *rows)] + outputs:
            given += [v, 0]
        given += [epsilon] * bool(norm.number)
        for kind in (False, True):
            for merged in kernels.blocks(x.ndim, axes):
                if (merged[0] in axes) == kind:
                    given += [int(np.prod([x.shape[i] for i in merged])), int(np.prod(x.shape[merged[-1] + 1 :]))]
        kernel(*given, gs=3, ls=across * lanes)
        return [np.asarray(v) for v in outputs]

    def test_groups(self):
        for axes, shapes in CASES[:2] + CASES[3:4]:
            host_train, host_grad = self.functions("float32", axes, len(shapes[0]))[2:]
            for shape in shapes:
                if 0 in shape:
                    continue
                x, dy, scale, bias = self.values("float32", axes, shape)
                expected = host_train(x, scale, bias)
                gradients = host_grad(x, dy, scale, *expected[1:3])
                for across, lanes in ((1, 1), (1, 32), (4, 8), (32, 4), (2, 512)):
                    with self.subTest(axes=axes, shape=shape, across=across, lanes=lanes):
                        found = self.run_kernel(kernels.TRAIN, axes, [x], [scale, bias], 1e-4, across, lanes)
                        self.close(found, expected, "float32")
                        rows = [scale, *expected[1:3]]
                        found = self.run_kernel(kernels.TRAIN_GRAD, axes, [x, dy], rows, None, across, lanes)
                        self.close(found, gradients, "float32")


class TestRules(Norms):
    def mode(self, there):
        return get_mode("FAST_RUN").including("gpuarray") if there else get_mode("FAST_RUN")

    def test_training_step(self):
        """A step, forward and backward, takes few kernels, and nothing but the input and the results is transferred."""
        for dtype, axes, shape in (
            ("float32", "spatial", (3,)),
            ("float32", "per-activation", (1, 3, 4, 5)),
            ("float64", "spatial", (1, 3, 1, 1)),
            ("float16", "spatial", (3,)),
        ):
            broadcastable = [n == 1 for n in shape] if len(shape) == 4 else [False]
            results = []
            for there in (False, True):
                rng = np.random.default_rng(1)
                make = gpuarray_shared_constructor if there else theano.shared
                params = [
                    make(rng.uniform(0.5, 1.5, shape).astype(dtype), broadcastable=tuple(broadcastable))
                    for _ in range(4)
                ]
                gamma, beta, mean, var = params
                x = T.TensorType(dtype, (False,) * 4)()
                out, *_, new_mean, new_var = bn.batch_normalization_train(
                    x, gamma, beta, axes, running_mean=mean, running_var=var
                )
                cost = T.tanh(out).sum(dtype="float32" if dtype == "float16" else dtype)
                gx, *gradients = T.grad(cost, [x, gamma, beta])
                updates = [(p, p - np.asarray(0.1, dtype) * g) for p, g in zip((gamma, beta), gradients)]
                updates += [(mean, new_mean), (var, new_var)]
                with config.change_flags(on_opt_error="raise"):
                    f = theano.function([x], [out, gx], updates=updates, mode=self.mode(there))
                values = [v for _ in range(3) for v in f(rng.normal(size=(6, 3, 4, 5)).astype(dtype))]
                results.append([*values, *[p.get_value() for p in params]])
            for device, host in zip(results[1], results[0]):
                tolerance = {"float64": 1e-11, "float32": 1e-4, "float16": 2e-2}[dtype]
                np.testing.assert_allclose(device, host, tolerance, tolerance)
            nodes = f.maker.fgraph.toposort()
            kinds = [type(n.op) for n in nodes]
            self.assertEqual((kinds.count(GpuBatchNormTrain), kinds.count(GpuBatchNormTrainGrad)), (1, 1))
            # The gradient of tanh, two running averages, two updates of parameters
            self.assertLessEqual(sum(issubclass(kind, GpuElemwise) for kind in kinds), 5)
            self.assertEqual((kinds.count(GpuFromHost), kinds.count(HostFromGpu)), (1, 2))

    def test_inference(self):
        """A normalization with given statistics needs at most two kernels: one of them computes factors per row."""
        for dtype, axes in (("float32", "spatial"), ("float16", "per-activation"), ("float64", (1, 3))):
            shape = {"spatial": (3,), "per-activation": (3, 4, 5)}.get(axes, (6, 4))
            results = []
            for there in (False, True):
                rng = np.random.default_rng(1)
                make = gpuarray_shared_constructor if there else theano.shared
                given = [make(rng.uniform(0.5, 1.5, shape).astype(dtype)) for _ in range(4)]
                x = T.TensorType(dtype, (False,) * 4)()
                epsilon = T.scalar(dtype=dtype) if axes == "spatial" else 1e-3
                inputs = [x, epsilon] if axes == "spatial" else [x]
                with config.change_flags(on_opt_error="raise"):
                    out = bn.batch_normalization_test(x, *given, axes, epsilon)
                    f = theano.function(inputs, out, mode=self.mode(there))
                value = rng.normal(size=(6, 3, 4, 5)).astype(dtype)
                results.append(f(*[value, np.asarray(1e-3, dtype)][: len(inputs)]))
            self.close(results[1:], results[:1], dtype)
            kinds = [type(n.op) for n in f.maker.fgraph.toposort()]
            self.assertLessEqual(sum(issubclass(kind, GpuElemwise) for kind in kinds), 2)
            self.assertEqual((kinds.count(GpuFromHost), kinds.count(HostFromGpu)), (1, 1))

    def test_network(self):
        """Two layers with products of matrices compute on the device. The running average's factor is an input."""
        values = []
        for there in (False, True):
            rng = np.random.default_rng(2)
            make = gpuarray_shared_constructor if there else theano.shared
            weights = [make(rng.normal(size=(4, 4)).astype("float32")) for _ in range(2)]
            gamma, beta, mean, var = [make(np.ones(4, "float32")) for _ in range(4)]
            x, factor = T.fmatrix(), T.fscalar()
            out, *_, new_mean, new_var = bn.batch_normalization_train(
                x.dot(weights[0]), gamma, beta, (0,), 1e-3, factor, mean, var
            )
            cost = (out.dot(weights[1]) ** 2).mean()
            params = [*weights, gamma, beta]
            updates = [(p, p - np.float32(0.01) * g) for p, g in zip(params, T.grad(cost, params))]
            with config.change_flags(on_opt_error="raise"):
                f = theano.function(
                    [x, factor], cost, updates=[*updates, (mean, new_mean), (var, new_var)], mode=self.mode(there)
                )
            costs = [f(rng.normal(size=(20, 4)).astype("float32"), np.float32(0.3)) for _ in range(5)]
            values.append([*costs, *[p.get_value() for p in (*params, mean, var)]])
        for device, host in zip(values[1], values[0]):
            np.testing.assert_allclose(device, host, 1e-4, 1e-5)
        kinds = [type(n.op) for n in f.maker.fgraph.toposort()]
        self.assertIn(GpuDot22, kinds)
        self.assertEqual((kinds.count(GpuFromHost), kinds.count(HostFromGpu)), (1, 1))

    def test_databases(self):
        """The rules have their documented names. Each of them moves a node between transfers."""
        array, statistic = self.variables("float64", (0,), 2, True)
        x, dy, s = HostFromGpu()(array()), HostFromGpu()(array()), HostFromGpu()(statistic())
        for name, outputs in (
            ("train", AbstractBatchNormTrain((0,))(x, s, s)),
            ("train_grad", AbstractBatchNormTrainGrad((0,))(x, dy, s, s, s)),
            ("inference", [AbstractBatchNormInference((0,))(x, s, s, s, s)]),
        ):
            name = "local_abstract_batch_norm_" + name
            self.assertEqual(abstract_batch_norm_db2[name].name, name)
            given = [v for v in inputs_of(outputs) if not isinstance(v, Constant)]
            fgraph = FunctionGraph(given, outputs, clone=True)
            with config.change_flags(on_opt_error="raise"):
                in2out(abstract_batch_norm_db.query("+gpuarray")).optimize(fgraph)
            self.assertTrue(all(isinstance(v.owner.op, HostFromGpu) for v in fgraph.outputs))

    @config.change_flags({"DebugMode.check_preallocated_output": "ALL"})
    def test_debug_mode(self):
        x, gamma, beta, mean, var = T.ftensor4(), *T.fvectors("gamma", "beta", "mean", "var")
        results = bn.batch_normalization_train(x, gamma, beta, "spatial", running_mean=mean, running_var=var)
        outputs = [*results, *T.grad((results[0] ** 2).sum(), [x, gamma, beta])]
        outputs.append(bn.batch_normalization_test(x, gamma, beta, mean, var, "spatial"))
        inputs = [x, gamma, beta, mean, var]
        f = theano.function(inputs, outputs, mode=get_mode("DebugMode").including("gpuarray"))
        g = theano.function(inputs, outputs, mode="FAST_COMPILE")
        values = [self.rng.uniform(1, 2, shape).astype("float32") for shape in ((2, 3, 2, 4), *[(3,)] * 4)]
        for result, expected in zip(f(*values), g(*values)):
            np.testing.assert_allclose(result, expected, 1e-4, 1e-4)


if __name__ == "__main__":
    unittest.main()
