"""Tests of softmax and cross-entropies on devices, compared with the Ops for the host."""

import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile import DebugMode
from theano_ng.compile.mode import get_default_mode, get_mode
from theano_ng.configdefaults import config
from theano_ng.gpuarray import nnet
from theano_ng.gpuarray.kernels.row_loop import ELEMENT, ONE, ROW, RowInput
from theano_ng.gpuarray.kernels.rows import row_kernel
from theano_ng.gpuarray.kernels.scalar_code import SupportCodeError
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.rows import LoopBuilder
from theano_ng.gpuarray.tests.device import LAYOUTS, context, gpu_variable, other_context, placed
from theano_ng.gpuarray.transfers import GpuFromHost, HostFromGpu
from theano_ng.gpuarray.type import get_context, gpuarray_shared_constructor
from theano_ng.scalar import basic as scalar
from theano_ng.tensor.nnet.crossentropy import (
    crossentropy_categorical_1hot,
    crossentropy_categorical_1hot_grad,
    crossentropy_softmax_1hot_with_bias_dx,
    crossentropy_softmax_argmax_1hot_with_bias,
)
from theano_ng.tensor.nnet.softmax import LogSoftmax, softmax_grad, softmax_op, softmax_with_bias

DTYPES = ("float16", "float32", "float64")
TOLERANCE = {"float16": 4e-3, "float32": 2e-6, "float64": 1e-14}
SHAPES = ((0, 3), (3, 0), (1, 1), (3, 7), (5, 31), (4, 32), (2, 33), (300, 10), (2, 1000), (1, 5000))


class Rows(unittest.TestCase):
    def setUp(self):
        self.name = context()
        self.rng = np.random.default_rng(7)

    def array(self, dtype, *shape, scale=1):
        return (scale * self.rng.normal(size=shape)).astype(dtype)

    def close(self, result, expected, dtype):
        expected = np.asarray(expected)
        np.testing.assert_allclose(
            np.asarray(result, "float64"),
            expected.astype("float64"),
            TOLERANCE[dtype],
            TOLERANCE[dtype] * max(1, np.abs(expected[np.isfinite(expected)]).max(initial=0)),
        )


class TestOps(Rows):
    PAIRS = (
        (nnet.gpu_softmax, softmax_op, 1),
        (nnet.gpu_log_softmax, LogSoftmax(), 1),
        (nnet.gpu_softmax_grad, softmax_grad, 2),
        (nnet.gpu_softmax_with_bias, softmax_with_bias, 2),
    )

    def compare(self, dtype, op, host, values, layouts):
        inputs = [gpu_variable(dtype, v.ndim) for v in values]
        # The Ops for the host compute float16 in float16. Compare with float64, rounded.
        wide = [T.TensorType("float64", (False,) * v.ndim)() for v in values]
        f = theano.function(inputs, op(*inputs))
        expected = theano.function(wide, host(*wide), mode="FAST_COMPILE")(*[v.astype("float64") for v in values])
        for layout in layouts:
            self.close(f(*[placed(v, layout) for v in values]), expected, dtype)

    def test_softmax(self):
        for dtype, (op, host, count), shape in itertools.product(DTYPES, self.PAIRS, SHAPES):
            with self.subTest(dtype=dtype, op=op, shape=shape):
                values = [self.array(dtype, *shape) for _ in range(count)]
                if op is nnet.gpu_softmax_with_bias:
                    values[1] = self.array(dtype, shape[1])
                self.compare(dtype, op, host, values, LAYOUTS)

    def test_different_dtypes(self):
        """Inputs of different dtypes are computed with the larger dtype. The result has the dtype of the Op for the host."""
        for dtypes in itertools.permutations(DTYPES, 2):
            x, y, b = gpu_variable(dtypes[0], 2), gpu_variable(dtypes[1], 2), gpu_variable(dtypes[1], 1)
            for op, host, other in (
                (nnet.gpu_softmax_grad, softmax_grad, y),
                (nnet.gpu_softmax_with_bias, softmax_with_bias, b),
            ):
                values = self.array(dtypes[0], 3, 40), self.array(dtypes[1], *(3, 40)[2 - other.ndim :])
                result = theano.function([x, other], op(x, other))(*[placed(v, "C") for v in values])
                wide = [T.TensorType("float64", (False,) * v.ndim)() for v in values]
                expected = theano.function(wide, host(*wide), mode="FAST_COMPILE")(*values)
                narrow = [T.TensorType(v.dtype.name, (False,) * v.ndim)() for v in values]
                with self.subTest(op, dtypes=dtypes):
                    self.assertEqual(result.dtype, host(*narrow).dtype)
                    self.close(result, expected, "float16" if "float16" in dtypes else "float32")

    def test_vectors(self):
        """A vector is a matrix of one row."""
        x = gpu_variable("float32", 1)
        value = self.array("float32", 50)
        result = theano.function([x], nnet.gpu_softmax(x))(placed(value, "C"))
        self.close(result, [np.exp(value) / np.exp(value).sum()], "float32")

    def test_special_values(self):
        """Saturated arguments, infinities and NaN give the results of the host."""
        rows = np.array(
            [
                [1e4, 0, -1e4, 1e4],
                [-np.inf, 0, 1, -np.inf],
                [np.inf, 0, 1, 2],
                [np.nan, 0, 1, 2],
                [-np.inf] * 4,
                [np.inf, -np.inf, np.nan, 0],
                [-0.0, 0.0, -0.0, 0.0],
            ]
        )
        for dtype in ("float32", "float64"):
            x, there = T.matrix(dtype=dtype), gpu_variable(dtype, 2)
            for op, host, _ in self.PAIRS[:2]:
                f, g = theano.function([there], op(there)), theano.function([x], host(x), mode="FAST_COMPILE")
                for repeats in (1, 20):
                    value = np.tile(rows, (1, repeats)).astype(dtype)
                    with np.errstate(all="ignore"):
                        expected = g(value)
                    np.testing.assert_allclose(np.asarray(f(placed(value, "C"))), expected, rtol=1e-5)

    def test_crossentropy(self):
        shapes = [shape for shape in SHAPES if shape[1]]
        for dtype, index, shape in itertools.product(DTYPES, ("int32", "int64", "uint8"), shapes):
            x, b, y = T.dmatrix(), T.dvector(), T.vector(dtype=index)
            host = theano.function([x, b, y], crossentropy_softmax_argmax_1hot_with_bias(x, b, y), mode="FAST_COMPILE")
            values = self.array(dtype, *shape), self.array(dtype, shape[1])
            labels = self.rng.integers(0, min(shape[1], 200), shape[0]).astype(index)
            expected = host(*[v.astype("float64") for v in values], labels)
            if dtype == "float16":  # sums of float16 numbers may have equal maxima
                expected[2] = (values[0].astype("float32") + values[1].astype("float32")).argmax(1).astype(index)
            there = gpu_variable(dtype, 2), gpu_variable(dtype, 1)
            for on_device in (False, True):
                y = gpu_variable(index, 1) if on_device else T.vector(dtype=index)
                f = theano.function([*there, y], nnet.gpu_crossentropy_softmax_argmax_1hot_with_bias(*there, y))
                for layout in LAYOUTS:
                    with self.subTest(dtype=dtype, index=index, shape=shape, on_device=on_device, layout=layout):
                        given = placed(labels, layout) if on_device else labels
                        results = f(*[placed(v, layout) for v in values], given)
                        self.assertEqual([r.dtype for r in results], [dtype, dtype, index])
                        for result, right in zip(results[:2], expected):
                            self.close(result, right, dtype)
                        np.testing.assert_array_equal(results[2], expected[2])

    def test_crossentropy_gradient(self):
        shapes = [shape for shape in SHAPES if shape[1]]
        for dtype, shape, single in itertools.product(DTYPES, shapes, ("all", "vector", "scalar")):
            host_factor = T.dscalar() if single == "scalar" else T.dvector()
            sm, y = T.dmatrix(), T.lvector()
            host = theano.function(
                [host_factor, sm, y], crossentropy_softmax_1hot_with_bias_dx(host_factor, sm, y), mode="FAST_COMPILE"
            )
            factor = self.array(dtype, *{"all": shape[:1], "vector": (1,), "scalar": ()}[single])
            if single == "all" and len(factor) > 1:
                factor[1] = 0
            values = factor, self.array(dtype, *shape), self.rng.integers(0, shape[1], shape[0])
            if single == "all" and len(factor) > 1:
                values[1][1, 0] = np.nan
            expected = host(values[0].astype("float64"), values[1].astype("float64"), values[2])
            there = gpu_variable(dtype, factor.ndim), gpu_variable(dtype, 2)
            for on_device in (False, True):
                y = gpu_variable("int64", 1) if on_device else T.lvector()
                f = theano.function([*there, y], nnet.gpu_crossentropy_softmax_1hot_with_bias_dx(*there, y))
                for layout in LAYOUTS:
                    with self.subTest(dtype=dtype, shape=shape, factor=single, on_device=on_device, layout=layout):
                        given = placed(values[2], layout) if on_device else values[2]
                        self.close(f(placed(factor, "C"), placed(values[1], layout), given), expected, dtype)

    def test_crossentropy_of_distributions(self):
        shapes = [shape for shape in SHAPES if shape[1]]
        for dtype, index, shape in itertools.product(DTYPES, ("int64", "uint8"), shapes):
            g, q, y = T.dvector(), T.dmatrix(), T.vector(dtype=index)
            host = theano.function(
                [g, q, y],
                [crossentropy_categorical_1hot(q, y), crossentropy_categorical_1hot_grad(g, q, y)],
                mode="FAST_COMPILE",
            )
            factor, distributions = self.array(dtype, shape[0]), self.rng.uniform(0.1, 1, shape).astype(dtype)
            labels = self.rng.integers(0, min(shape[1], 200), shape[0]).astype(index)
            if shape[0] > 2:  # elements without a label do not count
                distributions[1, labels[1]], distributions[2] = 0, np.nan
                distributions[2, labels[2]] = 0.5
            expected = host(factor.astype("float64"), distributions.astype("float64"), labels)
            there = gpu_variable(dtype, 1), gpu_variable(dtype, 2)
            for on_device in (False, True):
                y = gpu_variable(index, 1) if on_device else T.vector(dtype=index)
                entropy = nnet.gpu_crossentropy_categorical_1hot(there[1], y)
                gradient = nnet.gpu_crossentropy_categorical_1hot_grad(*there, y)
                f = theano.function([*there, y], [entropy, gradient])
                for layout in LAYOUTS:
                    with self.subTest(dtype=dtype, index=index, shape=shape, on_device=on_device, layout=layout):
                        given = placed(labels, layout) if on_device else labels
                        results = f(placed(factor, "C"), placed(distributions, layout), given)
                        for result, right in zip(results, expected):
                            self.assertEqual(result.dtype, dtype)
                            self.close(result, right, dtype)

    def test_labels_in_another_context(self):
        """Labels on another device are moved to the device of the matrix."""
        other, labels = other_context(self), np.array([2, 0], "int32")
        x, b, y = gpu_variable("float32", 2), gpu_variable("float32", 1), gpu_variable("int32", 1, other)
        entropy = nnet.gpu_crossentropy_softmax_argmax_1hot_with_bias
        gradient = nnet.gpu_crossentropy_softmax_1hot_with_bias_dx
        nll, sm, _ = entropy(x, b, y)
        f = theano.function([x, b, y], [nll, gradient(nll, sm, y)])
        matrix, vector = self.array("float32", 2, 3), self.array("float32", 3)
        results = f(placed(matrix, "C"), placed(vector, "C"), placed(labels, "C", other))
        expected = crossentropy_softmax_argmax_1hot_with_bias(matrix, vector, labels)[:2]
        expected[1] = crossentropy_softmax_1hot_with_bias_dx(*expected, labels)
        for result, symbol in zip(results, expected):
            self.close(result, symbol.eval(), "float32")

    def test_argmax_of_nan(self):
        """The argmax of a row with NaN is the position of the first NaN, as in NumPy."""
        x, b = gpu_variable("float32", 2), gpu_variable("float32", 1)
        y = T.ivector()
        f = theano.function([x, b, y], nnet.gpu_crossentropy_softmax_argmax_1hot_with_bias(x, b, y)[2])
        value = self.array("float32", 3, 70)
        value[0, [5, 40]] = np.nan
        value[2, 69] = np.nan
        found = f(placed(value, "C"), placed(np.zeros(70, "float32"), "C"), np.zeros(3, "int32"))
        np.testing.assert_array_equal(found, value.argmax(1))

    def test_errors(self):
        x, b, v, y = gpu_variable("float32", 2), gpu_variable("float32", 1), gpu_variable("float32", 1), T.lvector()
        there = gpu_variable("int64", 1)
        matrix, vector = placed(self.array("float32", 3, 4), "C"), placed(self.array("float32", 4), "C")
        short, three = placed(self.array("float32", 3), "C"), placed(self.array("float32", 3), "C")
        labels = np.zeros(3, "int64")
        entropy, gradient = (
            nnet.gpu_crossentropy_softmax_argmax_1hot_with_bias,
            nnet.gpu_crossentropy_softmax_1hot_with_bias_dx,
        )
        two = placed(self.array("float32", 2), "C")
        cases = [
            (
                [x, b],
                nnet.gpu_softmax_with_bias(x, b),
                [matrix, short],
                r"as many elements as x has columns \(3 and 4\)",
            ),
            ([x, b, y], entropy(x, b, y), [matrix, short, labels], r"as many elements as x has columns \(3 and 4\)"),
            ([x, b, y], entropy(x, b, y), [matrix, vector, labels[:2]], r"as many elements as x has rows \(2 and 3\)"),
            ([v, x, y], gradient(v, x, y), [two, matrix, labels], r"one element or as many as sm has rows \(2 and 3\)"),
            ([v, x, y], gradient(v, x, y), [three, matrix, labels[:2]], r"as many elements as sm has rows \(2 and 3\)"),
        ]
        onehot, onehot_grad = nnet.gpu_crossentropy_categorical_1hot, nnet.gpu_crossentropy_categorical_1hot_grad
        message = r"true_one_of_n must have as many elements as coding_dist has rows \(2 and 3\)"
        cases += [
            ([x, y], onehot(x, y), [matrix, labels[:2]], "^" + message),
            ([v, x, y], onehot_grad(v, x, y), [three, matrix, labels[:2]], "^g_y and " + message),
            ([v, x, y], onehot_grad(v, x, y), [two, matrix, labels], "^g_y and " + message),
        ]
        z = gpu_variable("float32", 2)
        cases.append(([x, z], nnet.gpu_softmax_grad(x, z), [matrix, matrix[:2]], "dy and sm must have the same shape"))
        # DebugMode runs the Ops for the host first, whose messages in Python are shorter.
        in_debug_mode = isinstance(get_default_mode(), DebugMode)
        for inputs, output, values, message in cases:
            with self.subTest(message), self.assertRaisesRegex(ValueError, "must have" if in_debug_mode else message):
                theano.function(inputs, output)(*values)
        for wrong in (4, -1):
            bad = np.array([0, wrong, 0])
            message = r"y_i value out of bounds: y\[1\] is %d, but there are 4 classes" % wrong
            for labels, given in ((y, bad), (there, placed(bad, "C"))):
                f = theano.function([x, b, labels], entropy(x, b, labels))
                g = theano.function([v, x, labels], gradient(v, x, labels))
                p = theano.function([x, labels], [onehot(x, labels)])
                q = theano.function([v, x, labels], onehot_grad(v, x, labels))
                given_to = (f, [matrix, vector]), (g, [three, matrix]), (p, [matrix]), (q, [three, matrix])
                for function, values in given_to:
                    with self.assertRaisesRegex(ValueError, message) as caught:
                        results = function(*values, given)
                        self.assertTrue(
                            labels is there and not in_debug_mode
                        )  # labels from the host are checked by the call
                        np.asarray(results[0])  # a call that waits reports labels on the device
                    text = str(caught.exception)
                    self.assertEqual("found this on the device" in text, labels is there and not in_debug_mode, text)
                    good = placed(abs(bad) % 4, "C") if labels is there else abs(bad) % 4
                    np.asarray(function(*values, good)[0])  # the function works afterwards
        with self.assertRaises(ValueError):
            nnet.gpu_softmax(gpu_variable("int32", 2))

    def test_derivatives(self):
        values = [self.array("float64", 3, 4), self.array("float64", 4), self.array("float64", 3, 4)]

        def on_host(op):
            return lambda *inputs: HostFromGpu()(op(*inputs))

        for op, points in (
            (nnet.gpu_softmax, values[:1]),
            (nnet.gpu_softmax_with_bias, values[:2]),
            (nnet.gpu_log_softmax, values[:1]),
            (nnet.gpu_softmax_grad, values[::2]),
        ):
            theano.gradient.verify_grad(on_host(op), points, rng=np.random.RandomState(3))
        labels = np.array([0, 3, 1])
        entropy = nnet.gpu_crossentropy_softmax_argmax_1hot_with_bias
        theano.gradient.verify_grad(
            lambda x, b: HostFromGpu()(entropy(x, b, labels)[0]), values[:2], rng=np.random.RandomState(3)
        )
        theano.gradient.verify_grad(
            lambda d, sm: HostFromGpu()(nnet.gpu_crossentropy_softmax_1hot_with_bias_dx(d, sm, labels)),
            [self.array("float64", 3), values[0]],
            rng=np.random.RandomState(3),
        )


class TestKernels(Rows):
    def compute(self, loop, values, rows, length, group=None):
        """Run the kernel of a program on contiguous arrays. With `group`, run the code for GPUs in groups of this shape."""
        ctx = get_context(self.name)
        made = row_kernel(loop, ctx)
        if group is not None:
            made = made._replace(support=("#undef GA_PROCESSOR\n", *made.support))
        outputs = []
        for k in loop.stores:
            step = loop.values[k]
            outputs.append(pygpu.zeros((rows, length) if step.level == ELEMENT else (rows,), step.dtype, context=ctx))
        given = [rows, length]
        for x, value in zip(loop.inputs, values):
            a = placed(value, "C")
            strides = {ONE: [], ROW: [1], ELEMENT: [length, 1]}[x.level]
            given += [a, a.offset, *strides]
        for out in outputs:
            given += [out, out.offset]
        made.build()(*given, gs=(3, 1), ls=group or (1, 1))
        return [np.asarray(out) for out in outputs]

    def test_groups(self):
        """Groups of any shape give the results of a single thread."""
        for dtype in DTYPES:
            program = nnet.gpu_softmax.loop([dtype], dtype)
            for rows, length in ((1, 1), (7, 3), (5, 100), (3, 257)):
                x = self.array(dtype, rows, length)
                (expected,) = self.compute(program, [x], rows, length)
                for group in ((1, 1), (4, 2), (32, 8), (256, 1), (2, 128)):
                    with self.subTest(dtype=dtype, shape=(rows, length), group=group):
                        (result,) = self.compute(program, [x], rows, length, group)
                        self.close(result, expected, dtype)

    def test_values_per_row(self):
        """Programs may read and store values per row, and compute with values per row between the passes."""
        program = LoopBuilder([RowInput("float64", ELEMENT), RowInput("float64", ROW), RowInput("float64", ONE)])
        mean = program.map(scalar.true_div, program.fold(scalar.add, 0), 1)
        centred = program.map(scalar.sub, 0, mean)
        square = program.fold(scalar.add, program.map(scalar.mul, centred, centred))
        scaled = program.map(scalar.mul, program.map(scalar.add, centred, 2), square)
        least = program.fold(scalar.minimum, scaled)
        loop = program.loop(mean, scaled, least, centred)
        for rows, length in ((1, 1), (4, 40), (3, 70)):
            x, n, s = self.array("float64", rows, length), np.full(rows, float(length)), self.array("float64")
            m = x.mean(1)
            c = x - m[:, None]
            expected = (c + s) * (c * c).sum(1)[:, None]
            for group in (None, (8, 4), (64, 1)):
                found = self.compute(loop, [x, n, s], rows, length, group)
                for result, right in zip(found, (m, expected, expected.min(1), c)):
                    np.testing.assert_allclose(result, right, rtol=1e-12, atol=1e-13)

    def test_programs_that_kernels_cannot_compute(self):
        program = LoopBuilder([RowInput("complex64", ELEMENT)])
        with self.assertRaises(SupportCodeError):
            row_kernel(program.loop(program.fold(scalar.add, 0)), None)


class TestRules(Rows):
    def test_classifier(self):
        """A step of a classifier computes on the device. The labels are checked on the host, and copied once."""
        for dtype in ("float32", "float64"):
            values = [self.array(dtype, 6, 3), self.array(dtype, 3)]
            x, y = T.matrix(dtype=dtype), T.ivector()
            results = []
            for there in (False, True):
                make = gpuarray_shared_constructor if there else theano.shared
                w, b = [make(v.copy()) for v in values]
                cost = -T.mean(T.log(T.nnet.softmax(T.dot(x, w) + b))[T.arange(y.shape[0]), y])
                updates = [(p, p - np.asarray(0.1, dtype) * g) for p, g in zip((w, b), T.grad(cost, [w, b]))]
                mode = get_mode("FAST_RUN").including("gpuarray") if there else get_mode("FAST_RUN")
                f = theano.function([x, y], cost, updates=updates, mode=mode)
                rng = np.random.default_rng(1)
                costs = [
                    f(rng.normal(size=(20, 6)).astype(dtype), rng.integers(0, 3, 20).astype("int32")) for _ in range(9)
                ]
                results.append([*costs, w.get_value(), b.get_value()])
            for here, device in zip(*results):
                np.testing.assert_allclose(device, here, rtol=1e-4 if dtype == "float32" else 1e-11)
            ops = [n.op for n in f.maker.fgraph.toposort()]
            self.assertIn(nnet.gpu_crossentropy_softmax_argmax_1hot_with_bias, ops)
            self.assertIn(nnet.gpu_crossentropy_softmax_1hot_with_bias_dx, ops)
            self.assertEqual(sum(isinstance(op, HostFromGpu) for op in ops), 1)
            self.assertEqual(sum(isinstance(op, GpuFromHost) for op in ops), 1)
            self.assertEqual(sum(isinstance(op, nnet.GpuLabels) for op in ops), 1)
            with self.assertRaisesRegex(ValueError, "y_i value out of bounds"):
                f(np.zeros((2, 6), dtype), np.array([0, 3], "int32"))

    def test_distributions_without_softmax(self):
        """The cross-entropy of probabilities that are no softmax, and its gradient, are computed on the device."""
        x, y = T.matrix(dtype="float64"), T.ivector()
        p = T.nnet.sigmoid(x)
        p = p / p.sum(axis=1, keepdims=True)
        cost = T.nnet.categorical_crossentropy(p, y).mean()
        outputs = [cost, T.grad(cost, x)]
        values = self.array("float64", 5, 4), np.array([3, 0, 1, 1, 2], "int32")
        f = theano.function([x, y], outputs, mode=get_mode("FAST_RUN").including("gpuarray"))
        for found, expected in zip(f(*values), theano.function([x, y], outputs, mode="FAST_RUN")(*values)):
            np.testing.assert_allclose(found, expected, rtol=1e-12)
        names = [type(n.op).__name__ for n in f.maker.fgraph.toposort()]
        self.assertEqual([name for name in names if name.startswith("Crossentropy")], [])
        self.assertIn("GpuCrossentropyCategorical1Hot", names)

    @config.change_flags({"DebugMode.check_preallocated_output": "ALL"})
    def test_debug_mode(self):
        x, b, y = T.fmatrix(), T.fvector(), T.ivector()
        outputs = [T.nnet.softmax(x), T.nnet.logsoftmax(x), T.nnet.softmax(x + b)]
        cost = T.nnet.categorical_crossentropy(T.nnet.softmax(x + b), y).mean()
        outputs += [cost, *T.grad(cost, [x, b]), T.grad(T.sqr(T.nnet.softmax(x)).sum(), x)]
        f = theano.function([x, b, y], outputs, mode=get_mode("DebugMode").including("gpuarray"))
        g = theano.function([x, b, y], outputs, mode="FAST_COMPILE")
        values = self.array("float32", 4, 5), self.array("float32", 5), np.array([0, 4, 2, 2], "int32")
        for result, expected in zip(f(*values), g(*values)):
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    unittest.main()
