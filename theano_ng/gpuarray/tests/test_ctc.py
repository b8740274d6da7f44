"""Tests of connectionist temporal classification on devices."""

import itertools
import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.configdefaults import config
from theano_ng.gpuarray import ctc
from theano_ng.gpuarray.ctc import GpuConnectionistTemporalClassification, gpu_ctc
from theano_ng.gpuarray.tests.device import LAYOUTS, allow_nan, context, gpu_variable, placed
from theano_ng.gpuarray.transfers import GpuFromHost, HostFromGpu
from theano_ng.gpuarray.type import gpuarray_shared_constructor
from theano_ng.tensor.nnet.ctc import ConnectionistTemporalClassification

TOLERANCE = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-13}
# Steps, examples, symbols, columns of the matrix of labels
SHAPES = ((7, 4, 5, 3), (1, 1, 2, 1), (0, 2, 3, 2), (5, 0, 3, 2), (5, 3, 1, 0), (20, 6, 30, 12), (40, 3, 4, 15))


def enumerated(frames, labels):
    """Return the cost of labels from the definition: sum the probabilities of all alignments."""
    probabilities = np.exp(frames) / np.exp(frames).sum(1, keepdims=True)
    total = 0.0
    for path in itertools.product(range(frames.shape[1]), repeat=len(frames)):
        merged = [k for k, _ in itertools.groupby(path) if k]
        if merged == list(labels):
            total += np.prod([probabilities[t, k] for t, k in enumerate(path)])
    return -np.log(total) if total else np.inf


class Examples(unittest.TestCase):
    def setUp(self):
        self.name = context()
        allow_nan(self)
        self.rng = np.random.default_rng(4)

    def example(self, dtype, steps, batch, symbols, width):
        values = (3 * self.rng.normal(size=(steps, batch, symbols))).astype(dtype)
        labels = self.rng.integers(-2, symbols, (batch, width)).astype("int32")
        labels[labels == 0] = -1
        return values, labels, self.rng.integers(0, steps + 1, batch).astype("int32")

    def function(self, dtype, compute_grad=True, group=-1):
        x, labels, lengths = gpu_variable(dtype, 3), T.imatrix(), T.ivector()
        op = GpuConnectionistTemporalClassification(compute_grad)
        with mock.patch.object(ctc, "_GROUP", group):
            return theano.function([x, labels, lengths], op(x, labels, lengths, return_list=True))

    def on_host(self, dtype):
        x, labels, lengths = T.TensorType(dtype, (False,) * 3)(), T.imatrix(), T.ivector()
        return theano.function([x, labels, lengths], ConnectionistTemporalClassification()(x, labels, lengths))


class TestOp(Examples):
    def test_definition(self):
        f = self.function("float64")
        values = self.rng.normal(size=(4, 6, 3))
        labels = np.array([[1, 2], [1, 1], [-1, -1], [2, -1], [-1, 1], [2, 2]], "int32")
        lengths = np.array([4, 4, 3, 1, 2, 2], "int32")
        costs = np.asarray(f(placed(values, "C"), labels, lengths)[0])
        for i, cost in enumerate(costs):
            expected = enumerated(values[: lengths[i], i], [k for k in labels[i] if k > 0])
            np.testing.assert_allclose(cost, expected, rtol=1e-12)

    def test_results(self):
        """Costs and gradients equal those of the host, with and without the gradient and for any size of groups."""
        for dtype, tolerance in TOLERANCE.items():
            g = self.on_host(dtype)
            functions = [(self.function(dtype, grad, group), grad) for grad in (True, False) for group in (-1, 4, 32)]
            for shape in SHAPES:
                values, labels, lengths = self.example(dtype, *shape)
                expected = g(values, labels, lengths)
                for (f, grad), layout in itertools.product(functions, LAYOUTS if shape == SHAPES[0] else ("C", "F")):
                    with self.subTest(dtype=dtype, shape=shape, layout=layout, grad=grad):
                        found = f(placed(values, layout), labels, lengths)
                        for result, right in zip(found, expected[: 1 + grad], strict=True):
                            self.assertEqual(result.dtype, dtype)
                            np.testing.assert_allclose(result, right, tolerance, tolerance)

    def test_special_values(self):
        """NaN, infinities, saturated activations, and labels without any alignment give the results of the host."""
        values, labels, lengths = self.example("float32", 6, 7, 4, 3)
        labels[:], lengths[:] = [1, 2, 2], 6
        values[2, 0, 1] = np.nan
        values[2, 1, 1] = np.inf
        values[3, 2] = -np.inf
        values[1, 3, :2] = -np.inf
        values[:, 4] *= 1e30
        lengths[5:] = 3, 0
        expected = self.on_host("float32")(values, labels, lengths)
        self.assertTrue(np.isinf(expected[0][5:]).all())
        for group in (-1, 8):
            for result, right in zip(
                self.function("float32", group=group)(placed(values, "C"), labels, lengths), expected
            ):
                np.testing.assert_allclose(np.asarray(result), right, 1e-6, 1e-6)

    def test_label_dtypes(self):
        values, labels, lengths = self.example("float32", *SHAPES[0])
        labels = abs(labels)
        expected = self.on_host("float32")(values, labels, lengths)[0]
        x, there = gpu_variable("float32", 3), gpu_variable("int64", 2)
        for dtype in ("int8", "uint8", "int64", "uint64"):
            f = theano.function([x], gpu_ctc(x, labels.astype(dtype), lengths.astype(dtype)))
            np.testing.assert_allclose(f(placed(values, "C")), expected, rtol=1e-6)
        f = theano.function([x, there], gpu_ctc(x, there, lengths))  # labels on the device are copied to the host
        np.testing.assert_allclose(f(placed(values, "C"), placed(labels.astype("int64"), "F")), expected, rtol=1e-6)

    def test_errors(self):
        f, g = self.function("float32"), self.on_host("float32")
        x, labels, lengths = np.zeros((5, 2, 3), "float32"), np.ones((2, 2), "int32"), np.full(2, 5, "int32")
        for args in (
            (x, labels[:1], lengths),
            (x, labels, lengths[:1]),
            (x[:, :, :0], labels, lengths),
            (x, labels * 3, lengths),
            (x, labels * 0, lengths),
            (x, labels, lengths + 1),
            (x, labels, -lengths),
        ):
            with self.assertRaises(ValueError) as expected:
                g(*args)
            with self.assertRaises(ValueError) as found:
                f(placed(args[0], "C"), *args[1:])
            self.assertEqual(str(found.exception).split("\n")[0], str(expected.exception).split("\n")[0])
        self.assertEqual(f(placed(x, "C"), labels, lengths)[0].shape, (2,))  # the function works afterwards
        there = gpu_variable("float32", 3)
        for wrong, error in (
            ((gpu_variable("float32", 2), labels, lengths), ValueError),
            ((gpu_variable("int32", 3), labels, lengths), TypeError),
            ((there, labels.astype("float32"), lengths), TypeError),
            ((there, labels, labels), ValueError),
        ):
            with self.assertRaises(error):
                gpu_ctc(*wrong)

    def test_derivatives(self):
        values, labels, lengths = self.example("float64", 5, 3, 4, 2)
        lengths[:] = 5, 4, 5
        for grad in (True, False):
            op = GpuConnectionistTemporalClassification(grad)

            def costs(x, op=op):
                return HostFromGpu()(op(x, labels, lengths, return_list=True)[0])

            theano.gradient.verify_grad(costs, [values], rng=np.random.RandomState(1))
            x, v, d = T.dtensor3(), self.rng.normal(size=values.shape), 1e-6
            f = theano.function([x], T.Rop(costs(x), x, theano.shared(v)))
            g = theano.function([x], costs(x))
            np.testing.assert_allclose(f(values), (g(values + d * v) - g(values - d * v)) / (2 * d), rtol=1e-5)
        x = T.dtensor3()
        gradient = T.grad(gpu_ctc(x, labels, lengths).transfer("cpu").sum(), x)
        with self.assertRaisesRegex(NotImplementedError, "second derivative"):
            T.grad(gradient.sum(), x)


class TestRules(Examples):
    def test_training_step(self):
        """A step of a layer computes on the device. Labels and lengths stay on the host, and the costs are not computed
        twice."""
        for dtype in ("float32", "float16"):
            values, labels, lengths = self.example(dtype, 6, 3, 5, 2)
            weights = self.rng.normal(size=(5,)).astype(dtype)
            results = []
            for there in (False, True):
                w = (gpuarray_shared_constructor if there else theano.shared)(weights.copy())
                x, i, n = T.TensorType(dtype, (False,) * 3)(), T.imatrix(), T.ivector()
                costs = T.nnet.ctc.ctc(x * w, i, n)
                updates = [(w, w - np.asarray(0.1, dtype) * T.grad(costs.sum(), w))]
                mode = get_mode("FAST_RUN").including("gpuarray") if there else get_mode("FAST_RUN")
                with config.change_flags(on_opt_error="raise"):
                    f = theano.function([x, i, n], costs, updates=updates, mode=mode)
                results.append([f(values, labels, lengths) for _ in range(2)] + [w.get_value()])
            for device, host in zip(results[1], results[0]):
                np.testing.assert_allclose(device, host, *{"float32": (1e-4, 1e-5), "float16": (2e-2, 2e-2)}[dtype])
            nodes = f.maker.fgraph.toposort()
            ops = [n.op for n in nodes]
            self.assertEqual(ops.count(GpuConnectionistTemporalClassification(True)), 1)
            self.assertEqual(sum(isinstance(op, (ConnectionistTemporalClassification)) for op in ops), 0)
            self.assertEqual([n.inputs[0].ndim for n in nodes if isinstance(n.op, GpuFromHost)], [3])
            self.assertEqual(sum(isinstance(op, HostFromGpu) for op in ops), 1)
            with self.assertRaisesRegex(ValueError, "labels must be from 1 to 4"):
                f(values, labels * 0, lengths)

    def test_costs_only(self):
        """Gradients are not computed if nothing uses them."""
        x, there, i, n = T.ftensor3(), gpu_variable("float32", 3), T.imatrix(), T.ivector()
        for inputs, costs in (([x, i, n], T.nnet.ctc.ctc(x, i, n)), ([there, i, n], gpu_ctc(there, i, n))):
            f = theano.function(inputs, costs, mode=get_mode("FAST_RUN").including("gpuarray"))
            self.assertIn(GpuConnectionistTemporalClassification(False), [n.op for n in f.maker.fgraph.toposort()])
        self.assertEqual(ctc.local_gpu_ctc_no_grad.__name__, "local_gpu_ctc_no_grad")
        self.assertTrue(ctc.ctc_available() and ctc.ctc_present())

    @config.change_flags({"DebugMode.check_preallocated_output": "ALL"})
    def test_debug_mode(self):
        x, i, n = T.ftensor3(), T.imatrix(), T.ivector()
        costs = T.nnet.ctc.ctc(x, i, n)
        outputs = [costs, T.grad(costs.sum(), x)]
        f = theano.function([x, i, n], outputs, mode=get_mode("DebugMode").including("gpuarray"))
        g = theano.function([x, i, n], outputs, mode="FAST_COMPILE")
        values = self.example("float32", *SHAPES[0])
        for result, expected in zip(f(*values), g(*values)):
            np.testing.assert_allclose(result, expected, 1e-5, 1e-6)


if __name__ == "__main__":
    unittest.main()
