"""Tests of the fusion of reductions of rows with elementwise operations on devices."""

import copy
import itertools
import pickle
import random
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.configdefaults import config
from theano_ng.gpuarray import nnet
from theano_ng.gpuarray.basic_ops import host_from_gpu
from theano_ng.gpuarray.careduce import GpuCAReduceCuda
from theano_ng.gpuarray.contexts import get_context
from theano_ng.gpuarray.kernels.rows import elements_per_pack
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.row_program import GpuRowProgram
from theano_ng.gpuarray.tests.device import LAYOUTS, context, gpu_variable, placed
from theano_ng.gpuarray.tests.fake_cuda import CudaTest
from theano_ng.gpuarray.tests.test_gpu_code import OnGpu
from theano_ng.gpuarray.type import GpuArrayType, gpuarray_shared_constructor
from theano_ng.tensor.tests import test_row_fusion

TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "float16": 3e-2}


def programs_of(f):
    return [node for node in f.maker.fgraph.toposort() if isinstance(node.op, GpuRowProgram)]


def generated_programs():
    """Yield random expressions of rows: seed, generator of random numbers, dtype, rank, inputs, outputs."""
    for seed in range(60):
        choose = random.Random(seed)
        dtype, rank = choose.choice(["float64", "float64", "float32"]), choose.choice([2, 2, 3])
        inputs, outputs = test_row_fusion.TestGenerated().generated(choose, dtype, rank)
        if outputs:
            yield seed, choose, dtype, rank, inputs, outputs


class TestValues(unittest.TestCase):
    def setUp(self):
        self.name = context()
        self.mode = get_mode("FAST_RUN").including("gpuarray")
        self.rng = np.random.default_rng(5)

    def test_functions_of_rows(self):
        shapes = (1, 1), (3, 5), (300, 7), (7, 300), (5, 48), (3, 2049), (0, 4)
        for name, (make, expected) in test_row_fusion.FUNCTIONS.items():
            for dtype in ("float64", "float32"):
                x = GpuArrayType(dtype, (False, False), self.name)("x")
                f = theano.function([x], make(x), mode=self.mode)
                self.assertEqual(len(programs_of(f)), 1, name)
                for shape in shapes:
                    value = self.rng.uniform(-2, 2, shape).astype(dtype)
                    for layout in LAYOUTS:
                        with self.subTest(name=name, dtype=dtype, shape=shape, layout=layout):
                            result = np.asarray(f(placed(value, layout)))
                            self.assertEqual(result.dtype, np.dtype(dtype))
                            want = expected(value.astype("float64"))
                            np.testing.assert_allclose(result, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])

    def test_arrays_of_higher_rank(self):
        x = GpuArrayType("float64", (False,) * 4, self.name)("x")
        gain = T.dmatrix()
        centred = x - x.mean((2, 3), keepdims=True)
        outputs = [centred / T.sqrt(T.sqr(centred).mean((2, 3), keepdims=True)) * gain, centred.max((2, 3))]
        f = theano.function([x, gain], outputs, mode=self.mode)
        self.assertEqual(len(programs_of(f)), 1)
        for shape in ((2, 3, 4, 5), (3, 1, 2, 7), (1, 2, 40, 60), (2, 2, 1, 1)):
            value, factor = self.rng.normal(size=shape), self.rng.normal(size=shape[2:])
            middle = value - value.mean((2, 3), keepdims=True)
            with np.errstate(all="ignore"):
                want = middle / np.sqrt((middle**2).mean((2, 3), keepdims=True)) * factor
            for layout in LAYOUTS:
                with self.subTest(shape=shape, layout=layout):
                    result, largest = f(placed(value, layout), factor)
                    np.testing.assert_allclose(result, want, rtol=1e-9, atol=1e-12)
                    np.testing.assert_allclose(largest, middle.max((2, 3)), rtol=1e-12, atol=1e-15)

    def test_generated_programs(self):
        """Random expressions of rows give the results of separate nodes, and their gradients do, too."""
        found = 0
        for seed, choose, dtype, rank, inputs, outputs in generated_programs():
            functions = [
                theano.function(inputs, outputs, mode=mode, on_unused_input="ignore")
                for mode in (self.mode, self.mode.excluding("fusion"))
            ]
            found += len(programs_of(functions[0]))
            lengths = [choose.choice([1, 2, 3, 33, 70]) for _ in range(rank)]
            shapes = [[1 if b else n for b, n in zip(v.broadcastable, lengths)] for v in inputs]
            values = [self.rng.uniform(-1, 1, shape).astype(v.dtype) for shape, v in zip(shapes, inputs)]
            with self.subTest(seed):
                for result, expected in zip(*[f(*values) for f in functions]):
                    np.testing.assert_allclose(result, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        self.assertGreater(found, 10)

    def test_normalization_and_its_gradient(self):
        """A layer normalization is one program. It stays on the device in both directions."""
        weights = [gpuarray_shared_constructor(self.rng.normal(size=40), target=self.name) for _ in range(2)]
        host = [theano.shared(w.get_value()) for w in weights]
        x, results = T.dmatrix(), []
        for gain, bias in (weights, host):
            y = test_row_fusion.normalized(x) * gain + bias
            cost = T.sqr(y).sum()
            mode = self.mode if gain is weights[0] else get_mode("FAST_RUN")
            results.append(theano.function([x], [y, *T.grad(cost, [x, gain, bias])], mode=mode))
        self.assertGreaterEqual(len(programs_of(results[0])), 1)
        value = self.rng.normal(size=(7, 40))
        for result, expected in zip(*[f(value) for f in results]):
            np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-9)

    @config.change_flags({"DebugMode.check_preallocated_output": "ALL"})
    def test_debug_mode(self):
        x = T.fmatrix()
        outputs = [make(x) for make, _ in test_row_fusion.FUNCTIONS.values()]
        mode = get_mode("DebugMode").including("gpuarray", "fusion")
        f = theano.function([x], outputs, mode=mode)
        self.assertGreater(len(programs_of(f)), 0)
        value = self.rng.uniform(-2, 2, (4, 5)).astype("float32")
        for result, (_, expected) in zip(f(value), test_row_fusion.FUNCTIONS.values()):
            np.testing.assert_allclose(result, expected(value.astype("float64")), rtol=1e-4, atol=1e-4)


def softmax(x, y, b):
    powers = T.exp(x + b - (x + b).max(1, keepdims=True))
    return [powers / powers.sum(1, keepdims=True) * y]


def normalization(x, y, b):
    return [test_row_fusion.normalized(x) * b + y]


def gradients(x, y, b):
    return T.grad((test_row_fusion.normalized(x) * b * y).sum(), [x, y])


def extremes(x, y, b):
    largest = x.max(1, keepdims=True)
    return [T.eq(x, largest), (x * b).min(1), y - largest, T.any(x > b, axis=1)]


class TestPacks(CudaTest, OnGpu):
    """Kernels for GPUs load packs of elements. Results do not depend on the memory in which the operands are.

    These tests use CUDA, because PoCL needs up to half a minute to compile such a kernel.
    """

    SHAPES = (1, 1), (3, 3), (5, 4), (70, 8), (2, 31), (3, 264), (2, 2056)
    DTYPES = (
        ("float32", "float32", "float32"),
        ("float16", "float16", "float16"),
        ("float64", "float64", "float64"),
        ("float16", "float32", "float64"),
        ("float32", "int8", "float16"),
    )

    def program(self, make, dtypes):
        """Return a function of two matrices and a vector that is one row program, and the length of its packs."""
        patterns = (False, False), (False, False), (False,)
        inputs = [GpuArrayType(dtype, pattern, self.name)() for dtype, pattern in zip(dtypes, patterns)]
        mode = get_mode("FAST_RUN").including("gpuarray")
        f = theano.function(inputs, make(*inputs), mode=mode, on_unused_input="ignore")
        (node,) = programs_of(f)
        return f, elements_per_pack(node.op.loop(node.inputs))

    def host(self, make, dtypes):
        """Return the same function on the host, in float64."""
        inputs = T.dmatrix(), T.dmatrix(), T.dvector()
        mode = get_mode("FAST_RUN").excluding("gpuarray")
        return theano.function(inputs, make(*inputs), mode=mode, on_unused_input="ignore")

    def views(self, value, width):
        """Yield arrays on the device with this value: at offsets, as parts of larger arrays, and in other orders."""
        for offset in (1, width, 2 * width - 1):
            yield self.placed(value, offset)
        for layout in LAYOUTS[1:]:
            yield placed(value, layout, self.name)
        yield self.placed(value[::-1])[::-1]
        length = value.shape[-1]
        for first in (0, 1):
            wider = np.zeros((*value.shape[:-1], length + 3), value.dtype)
            wider[..., first : first + length] = value
            yield self.placed(wider)[..., first : first + length]

    def test_the_same_bits_in_all_views(self):
        for make in (softmax, normalization, gradients, extremes):
            for dtypes in self.DTYPES:
                f, width = self.program(make, dtypes)
                self.assertGreater(width, 1)
                g = self.host(make, dtypes)
                for shape in self.SHAPES:
                    values = [
                        self.rng.uniform(-2, 2, n).astype(dtype) for n, dtype in zip((shape, shape, shape[1:]), dtypes)
                    ]
                    given = [self.placed(v) for v in values]
                    results = [np.asarray(r) for r in f(*given)]
                    loose = TOLERANCE["float16" if "float16" in dtypes else "float32"]
                    for result, right in zip(results, g(*values)):
                        np.testing.assert_allclose(result, right, rtol=loose, atol=loose * 4)
                    for number, views in enumerate(zip(*[self.views(v, width) for v in values])):
                        for k in range(3) if number == 0 else [number % 3]:
                            with self.subTest(make=make.__name__, dtypes=dtypes, shape=shape, view=number, operand=k):
                                again = f(*given[:k], views[k], *given[k + 1 :])
                                self.assertEqual(
                                    [np.asarray(r).tobytes() for r in again], [r.tobytes() for r in results]
                                )

    def test_generated_programs(self):
        """Random expressions of rows give the results of the host, and the same bits if the inputs are not aligned.

        Kernels for single reductions find the first vector by its address, so that the order of a sum varies.
        """
        mode, found = get_mode("FAST_RUN").including("gpuarray"), 0
        for seed, _, dtype, rank, inputs, outputs in generated_programs():
            there = [GpuArrayType(dtype, v.broadcastable, self.name)() for v in inputs]
            moved = theano.clone(outputs, replace={v: host_from_gpu(g) for v, g in zip(inputs, there)})
            f = theano.function(there, moved, mode=mode, on_unused_input="ignore")
            if not programs_of(f):
                continue
            found += 1
            has_single = any([type(node.op) is GpuCAReduceCuda for node in f.maker.fgraph.toposort()])
            g = theano.function(inputs, outputs, mode=mode.excluding("gpuarray"), on_unused_input="ignore")
            for lengths in ((3, 5, 16)[:rank], (2, 1, 8)[-rank:], (4, 33, 20)[-rank:]):
                shapes = [[1 if b else n for b, n in zip(v.broadcastable, lengths)] for v in inputs]
                values = [self.rng.uniform(-1, 1, shape).astype(dtype) for shape in shapes]
                first = None
                with self.subTest(seed=seed, lengths=lengths):
                    for offset in (0, 1, 4):
                        results = f(*[self.placed(v, offset) for v in values])
                        first = first or results
                        for result, same, right in zip(results, first, g(*values)):
                            if not has_single:
                                self.assertEqual(np.asarray(result).tobytes(), np.asarray(same).tobytes())
                            np.testing.assert_allclose(result, right, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        self.assertGreater(found, 5)

    def test_repeated_rows_and_elements(self):
        """Operands whose rows are the same memory, or all elements of a row."""
        f, _ = self.program(softmax, self.DTYPES[0])
        for n, m in ((3, 31), (3, 64)):
            y, b = self.numbers("float32", n, m), self.numbers("float32", m)
            memory = self.placed(self.rng.normal(size=n * m).astype("float32"))
            for strides in ((0, 4), (4, 0), (0, 0), (4, 4)):
                x = pygpu.from_gpudata(
                    memory.gpudata, 0, "float32", (n, m), get_context(self.name), strides, base=memory
                )
                plain = self.placed(np.asarray(x))
                (result,), (right,) = [f(a, self.placed(y), self.placed(b)) for a in (x, plain)]
                self.assertEqual(np.asarray(result).tobytes(), np.asarray(right).tobytes())

    def test_outputs_at_offsets(self):
        """Results overwrite the memory of previous results, and no other memory."""
        for dtype, (n, m) in itertools.product(("float16", "float32"), ((3, 7), (3, 64), (1, 8))):
            f = self.thunk(nnet.gpu_softmax(gpu_variable(dtype, 2, self.name)).owner)
            a = self.placed(self.rng.normal(size=(n, m)).astype(dtype))
            (expected,) = f(a)
            for offset in (0, 1, 8):
                memory = self.placed(np.zeros(offset + n * m + 20, dtype))
                f(a, before=[memory[offset : offset + n * m].reshape((n, m))])
                values = np.zeros(memory.shape, dtype)
                values[offset : offset + n * m] = expected.ravel()
                np.testing.assert_array_equal(np.asarray(memory), values)
            (result,) = f(a, before=[self.placed(np.zeros((m, n), dtype)).T])
            np.testing.assert_array_equal(result, expected)

    def test_crossentropy(self):
        op, gradient = (
            nnet.gpu_crossentropy_softmax_argmax_1hot_with_bias,
            nnet.gpu_crossentropy_softmax_1hot_with_bias_dx,
        )
        for dtype, (n, m) in itertools.product(("float16", "float32"), ((3, 31), (70, 16), (2, 1000))):
            x, b, y = [gpu_variable(d, r, self.name) for d, r in ((dtype, 2), (dtype, 1), ("int32", 1))]
            f, g = [self.thunk(v.owner) for v in (op(x, b, y)[0], gradient(b, x, y))]
            values = [self.rng.normal(size=s).astype(dtype) for s in ((n, m), (m,), (n,))]
            labels, factors = self.placed(self.rng.integers(0, m, n).astype("int32")), self.placed(values.pop())
            powers = np.exp(values[0].astype("float64") + values[1])
            shares = powers / powers.sum(1, keepdims=True)
            first = None
            for offset in (0, 1, 8):
                a, bias = [self.placed(v, offset) for v in values]
                nll, sm, argmax = found = [*f(a, bias, labels)]
                found += g(factors, self.placed(sm, offset), labels)
                rows = np.arange(n), np.asarray(labels)
                np.testing.assert_allclose(sm, shares, rtol=0.03, atol=1e-5)
                np.testing.assert_allclose(nll, -np.log(shares[rows]), rtol=0.03, atol=0.03)
                np.testing.assert_array_equal(argmax, powers.argmax(1))
                first = first or found
                for one, other in zip(found, first):
                    np.testing.assert_array_equal(one, other)

    def test_a_long_row(self):
        f = self.thunk(nnet.gpu_softmax(gpu_variable("float32", 2, self.name)).owner)
        for m in (10**6, 10**6 + 1):
            a = self.rng.normal(size=(1, m)).astype("float32")
            (result,) = f(self.placed(a))
            powers = np.exp(a.astype("float64"))
            np.testing.assert_allclose(result, powers / powers.sum(), rtol=1e-4)
            self.assertEqual(f(self.placed(a, 1))[0].tobytes(), result.tobytes())


class TestOp(unittest.TestCase):
    def node(self):
        context()
        x = GpuArrayType("float32", (False, False), None)("x")
        f = theano.function([x], test_row_fusion.normalized(x), mode=get_mode("FAST_RUN").including("gpuarray"))
        (node,) = programs_of(f)
        return node

    def test_equality_and_pickles(self):
        op = self.node().op
        for twin in (copy.copy(op), pickle.loads(pickle.dumps(op))):
            self.assertEqual(op, twin)
            self.assertEqual(hash(op), hash(twin))

    def test_shapes_that_do_not_fit(self):
        context()
        x, y = [GpuArrayType("float64", (False, False), None)() for _ in range(2)]
        z = x / (x + y).sum(1, keepdims=True) * y.sum(1, keepdims=True)
        f = theano.function([x, y], z, mode=get_mode("FAST_RUN").including("gpuarray"))
        self.assertEqual(len(programs_of(f)), 1)
        a, b = placed(np.ones((3, 4)), "C"), placed(np.ones((3, 5)), "C")
        with self.assertRaisesRegex(ValueError, "Input dimension mis-match"):
            f(a, b)
        self.assertEqual(f(a, a).shape, (3, 4))

    def test_wrong_steps(self):
        node = self.node()
        with self.assertRaisesRegex(TypeError, "GpuRowProgram: step 0"):
            node.op(*[GpuArrayType(v.dtype, (True, False), None)() for v in node.inputs])


if __name__ == "__main__":
    unittest.main()
