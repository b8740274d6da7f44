"""Tests of products of selected blocks on devices, compared with loops in NumPy."""

import itertools
import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.configdefaults import config
from theano_ng.gpuarray import blocksparse
from theano_ng.gpuarray.kernels import blocksparse as kernels
from theano_ng.gpuarray.tests.device import LAYOUTS, context, gpu_variable, other_context, placed
from theano_ng.gpuarray.transfers import GpuFromHost, HostFromGpu
from theano_ng.gpuarray.type import gpuarray_shared_constructor
from theano_ng.tensor.nnet.blocksparse import sparse_block_dot, sparse_block_gemv, sparse_block_outer

TOLERANCE = {"float16": 3e-3, "float32": 3e-6, "float64": 1e-14}
# Batch, windows of the input and of the output, blocks of the input and of the output, sizes of the vectors
SHAPES = (
    (4, 2, 3, 5, 6, 21, 37),
    (3, 3, 2, 2, 1, 16, 16),
    (1, 1, 1, 1, 1, 1, 1),
    (2, 5, 5, 3, 4, 3, 50),
    (0, 2, 3, 5, 6, 3, 4),
    (2, 0, 3, 5, 6, 3, 4),
    (2, 2, 0, 5, 6, 3, 4),
    (2, 2, 2, 3, 3, 0, 4),
    (2, 2, 2, 3, 3, 4, 0),
)


def gemv(o, W, h, rows, columns):
    """Compute the reference result in float64."""
    o = o.astype("float64")
    for b, j, i in itertools.product(range(o.shape[0]), range(o.shape[1]), range(h.shape[1])):
        o[b, j] += h[b, i].astype("float64") @ W[rows[b, i], columns[b, j]].astype("float64")
    return o


def outer(o, x, y, rows, columns, alpha=1.0):
    """Compute the reference result in float64."""
    o = o.astype("float64")
    for b, i, j in itertools.product(range(x.shape[0]), range(x.shape[1]), range(y.shape[1])):
        o[rows[b, i], columns[b, j]] += alpha * np.outer(x[b, i].astype("float64"), y[b, j].astype("float64"))
    return o


class Blocks(unittest.TestCase):
    def setUp(self):
        self.name = context()
        self.rng = np.random.default_rng(3)

    def arrays(self, dtype, batch, inputs, outputs, rows, columns, m, n):
        """Return o, W, h and the two matrices of indices, some of which are negative or occur several times."""
        o, W, h = [
            self.rng.normal(size=shape).astype(dtype)
            for shape in ((batch, outputs, n), (rows, columns, m, n), (batch, inputs, m))
        ]
        indices = [self.rng.integers(-k, k, (batch, windows)) for k, windows in ((rows, inputs), (columns, outputs))]
        return o, W, h, *indices

    def close(self, result, expected, dtype):
        result = np.asarray(result)
        self.assertEqual(result.dtype, dtype)
        scale = np.abs(expected).max(initial=1)
        np.testing.assert_allclose(result.astype("float64"), expected, 0, TOLERANCE[dtype] * scale)

    def function(self, op, dtype, ranks, index="int64", on_device=False, mode=None, **kwargs):
        arrays = [gpu_variable(dtype, k) for k in ranks]
        indices = [gpu_variable(index, 2) if on_device else T.TensorType(index, (False, False))() for _ in range(2)]
        return theano.function([*arrays, *indices], op(*arrays, *indices, **kwargs), mode=mode)


class TestOps(Blocks):
    def check(self, shape, dtype, index, on_device, layouts, lanes=None, threads=-1):
        o, W, h, rows, columns = self.arrays(dtype, *shape)
        if index.startswith("u"):
            rows, columns = abs(rows) % max(shape[3], 1), abs(columns) % max(shape[4], 1)
        rows, columns = rows.astype(index), columns.astype(index)
        forced = {} if lanes is None else {"return_value": lanes}
        with (
            mock.patch.object(kernels, "lanes", wraps=kernels.lanes, **forced),
            mock.patch.object(blocksparse, "_THREADS", threads),
        ):
            f = self.function(blocksparse.gpu_sparse_block_gemv, dtype, (3, 4, 3), index, on_device)
            g = self.function(blocksparse.gpu_sparse_block_outer, dtype, (4, 3, 3), index, on_device, alpha=0.5)
        first, second = gemv(o, W, h, rows, columns), outer(W, h, o, rows, columns, 0.5)
        for layout in layouts:
            indices = [placed(v, layout) if on_device else v for v in (rows, columns)]
            o_, W_, h_ = [placed(v, layout) for v in (o, W, h)]
            with self.subTest(shape=shape, dtype=dtype, index=index, on_device=on_device, layout=layout, lanes=lanes):
                self.close(f(o_, W_, h_, *indices), first, dtype)
                self.close(g(W_, h_, o_, *indices), second, dtype)
                np.testing.assert_array_equal(o_, o)  # the inputs are not overwritten
                np.testing.assert_array_equal(W_, W)

    def test_results(self):
        for shape, dtype in itertools.product(SHAPES, TOLERANCE):
            self.check(shape, dtype, "int64", False, LAYOUTS)

    def test_indices(self):
        for index, on_device in itertools.product(("int64", "int32", "uint8", "int8"), (False, True)):
            self.check(SHAPES[0], "float32", index, on_device, LAYOUTS if on_device else ("C",))

    def test_kernels_for_gpus(self):
        """The kernels in which a thread computes one element give the same results."""
        for shape in SHAPES[:4]:
            self.check(shape, "float32", "int64", False, ("C", "F"), lanes=1)

    def test_order_of_sums(self):
        """Outer products are added in the same order, whatever the number of threads is. All indices are equal."""
        o, x, y = [np.zeros((4, 4, 3, 5)), *[self.rng.normal(size=(50, 2, n)) for n in (3, 5)]]
        o, x, y = [v.astype("float32") for v in (o, x, y)]
        indices = [np.full((50, 2), k) for k in (3, 2)]
        results = []
        for threads in (-1, 10, 50, 100, 10000):
            with mock.patch.object(blocksparse, "_THREADS", threads):
                f = self.function(blocksparse.gpu_sparse_block_outer, "float32", (4, 3, 3))
            results.append(np.asarray(f(placed(o, "C"), placed(x, "C"), placed(y, "C"), *indices)))
        self.close(results[0], outer(o, x, y, *indices), "float32")
        for result in results[1:]:
            np.testing.assert_array_equal(result, results[0])

    def test_factor(self):
        """The factor may be a number of any real dtype on the host, or an array on the device."""
        o, W, h, rows, columns = self.arrays("float32", *SHAPES[0])
        expected = outer(W, h, o, rows, columns, 3)
        arrays = [gpu_variable("float32", k) for k in (4, 3, 3)]
        given = [placed(v, "C") for v in (W, h, o)]
        factors = [(T.scalar(dtype=dtype), np.asarray(3, dtype)) for dtype in ("float32", "float64", "int8", "float16")]
        factors += [(gpu_variable(dtype, 0), placed(np.asarray(3, dtype), "C")) for dtype in ("float32", "float64")]
        for variable, value in factors:
            f = theano.function(
                [*arrays, variable], blocksparse.gpu_sparse_block_outer(*arrays, rows, columns, variable)
            )
            self.close(f(*given, value), expected, "float32")

    def test_in_place(self):
        o, W, h, rows, columns = self.arrays("float32", *SHAPES[0])
        for op, values, reference in (
            (blocksparse.gpu_sparse_block_gemv_inplace, (o, W, h), gemv),
            (blocksparse.gpu_sparse_block_outer_inplace, (W, h, o), outer),
        ):
            arrays = [gpu_variable("float32", v.ndim) for v in values]
            inputs = [theano.In(arrays[0], mutable=True), *arrays[1:]]
            f = theano.function(inputs, op(*arrays, rows, columns), mode="FAST_RUN", accept_inplace=True)
            for layout in LAYOUTS:
                given = [placed(v, layout) for v in values]
                f(*given)
                self.close(given[0], reference(*values, rows, columns), "float32")

    def test_perform(self):
        """The computation in Python, with which DebugMode compares, also sums float16 in float32."""
        for dtype in TOLERANCE:
            o, W, h, rows, columns = self.arrays(dtype, 3, 20, 2, 2, 2, 10, 5)
            for op, values, reference in (
                (blocksparse.gpu_sparse_block_gemv_inplace, (o, W, h), gemv),
                (blocksparse.gpu_sparse_block_outer_inplace, (W, h, o), outer),
            ):
                arrays = [gpu_variable(dtype, v.ndim) for v in values]
                inputs = [theano.In(arrays[0], mutable=True), *arrays[1:]]
                f = theano.function(
                    inputs, op(*arrays, rows, columns), accept_inplace=True, mode=theano.Mode("py", None)
                )
                given = [placed(v, "C") for v in values]
                self.close(f(*given), reference(*values, rows, columns), dtype)
                self.close(given[0], reference(*values, rows, columns), dtype)

    def test_errors(self):
        shape = (2, 2, 3, 4, 5, 6, 7)
        o, W, h, rows, columns = self.arrays("float32", *shape)
        wide, wrong, low = rows[:, :1].repeat(3, 1), columns.copy(), rows.copy()
        wrong[1, 2], low[0, 1] = 5, -5
        cases = (
            (gemv, (o, W, h[:1], rows, columns), ValueError, "h has length 1 along axis 0, expected 2"),
            (gemv, (o, W, h[..., :3], rows, columns), ValueError, "h has length 3 along axis 2, expected 6"),
            (gemv, (o[..., :3], W, h, rows, columns), ValueError, "o has length 3 along axis 2, expected 7"),
            (gemv, (o, W, h, wide, columns), ValueError, r"inputIdx has shape \(2, 3\), expected \(2, 2\)"),
            (gemv, (o, W, h, rows, wrong), IndexError, "index 5 is out of bounds for (5 blocks|axis 0 with size 5)"),
            (gemv, (o, W, h, low, columns), IndexError, "index -5 is out of bounds for (4 blocks|axis 0 with size 4)"),
            (gemv, (o, W[:0], h, rows, columns), IndexError, "out of bounds for 0 blocks"),
            (outer, (W, h[:1], o, rows, columns), ValueError, "y has length 2 along axis 0, expected 1"),
            (outer, (W, h[..., :3], o, rows, columns), ValueError, "x has length 3 along axis 2, expected 6"),
            (outer, (W, h, o[..., :3], rows, columns), ValueError, "y has length 3 along axis 2, expected 7"),
            (outer, (W, h, o, low, columns), IndexError, "index -5 is out of bounds for (4 blocks|axis 0 with size 4)"),
            (outer, (W[:, :0], h, o, rows, columns), IndexError, "out of bounds for 0 blocks"),
        )
        for on_device, (kind, values, error, message) in itertools.product((False, True), cases):
            op = blocksparse.gpu_sparse_block_gemv if kind is gemv else blocksparse.gpu_sparse_block_outer
            f = self.function(op, "float32", [v.ndim for v in values[:3]], on_device=on_device)
            given = [placed(v, "C") for v in values[:3]]
            indices = [placed(v, "C") if on_device else v for v in values[3:]]
            with self.subTest(message, on_device=on_device), self.assertRaisesRegex(error, message):
                np.asarray(f(*given, *indices))
        other = gpu_variable("float32", 4, other_context(self))
        with self.assertRaises(TypeError):
            blocksparse.gpu_sparse_block_gemv(
                gpu_variable("float32", 2), other, gpu_variable("float32", 3), rows, columns
            )

    def test_wrong_indices_on_the_device(self):
        """Products with blocks that do not exist are left out, and the error is raised by the next call that waits."""
        o, W, h, rows, columns = self.arrays("float32", 2, 2, 3, 4, 5, 6, 7)
        low, high = rows.copy(), columns.copy()
        low[0, 1], high[1, 2] = -5, 5
        for op, values in (
            (blocksparse.gpu_sparse_block_gemv, (o, W, h)),
            (blocksparse.gpu_sparse_block_outer, (W, h, o)),
        ):
            # The default mode may be DebugMode, which waits for every node.
            f = self.function(op, "float32", [v.ndim for v in values], on_device=True, mode="FAST_RUN")
            found = f(*[placed(v, "C") for v in values], placed(low, "C"), placed(high, "C"))
            with self.assertRaisesRegex(IndexError, "index -5 is out of bounds for 4 blocks. The node Gpu"):
                np.asarray(found)
            expected = values[0].astype("float64")
            for b, i, j in np.ndindex(2, 2, 3):
                row, column = low[b, i], high[b, j]
                if -4 <= row < 4 and -5 <= column < 5:
                    if op is blocksparse.gpu_sparse_block_gemv:
                        expected[b, j] += h[b, i].astype("float64") @ W[row, column]
                    else:
                        expected[row, column] += np.outer(h[b, i].astype("float64"), o[b, j])
            np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4, atol=1e-4)

    def test_derivatives(self):
        o, W, h, rows, columns = self.arrays("float64", 2, 2, 3, 3, 2, 2, 4)
        rng = np.random.RandomState(1)

        def products(o, W, h):
            return HostFromGpu()(blocksparse.gpu_sparse_block_gemv(o, W, h, rows, columns))

        def outer_products(o, x, y, alpha):
            return HostFromGpu()(blocksparse.gpu_sparse_block_outer(o, x, y, rows, columns, alpha))

        theano.gradient.verify_grad(products, [o, W, h], rng=rng)
        theano.gradient.verify_grad(outer_products, [W, h, o, np.array(0.7)], rng=rng)
        v, d = T.dtensor3(), self.rng.normal(size=h.shape)
        f = theano.function(
            [v], T.Rop(products(theano.shared(o), theano.shared(W), v), v, theano.shared(d)), on_unused_input="ignore"
        )
        self.close(f(h), gemv(np.zeros_like(o), W, d, rows, columns), "float64")


class TestRules(Blocks):
    def test_training_step(self):
        """A step of a layer computes on the device. The indices stay on the host, where they are checked."""
        for dtype in ("float32", "float16"):
            o, W, h, rows, columns = self.arrays(dtype, 6, 2, 3, 4, 5, 7, 9)
            bias = self.rng.normal(size=(5, 9)).astype(dtype)
            results = []
            for there in (False, True):
                make = gpuarray_shared_constructor if there else theano.shared
                weights, b = make(W.copy()), make(bias.copy())
                x, i, j = T.TensorType(dtype, (False,) * 3)(), T.lmatrix(), T.imatrix()
                out = T.tanh(sparse_block_dot(weights, x, i, b, j))
                cost = (out * out).sum(dtype="float32")
                gradients = T.grad(cost, [weights, b, x])
                updates = [(p, p - np.asarray(0.1, dtype) * g) for p, g in zip((weights, b), gradients)]
                mode = get_mode("FAST_RUN").including("gpuarray") if there else get_mode("FAST_RUN")
                with config.change_flags(on_opt_error="raise"):
                    f = theano.function([x, i, j], [cost, gradients[2]], updates=updates, mode=mode)
                found = [f(h, rows, columns.astype("int32")) for _ in range(2)]
                results.append([np.asarray(v, "float64") for pair in found for v in pair])
                results[-1] += [np.asarray(p.get_value(), "float64") for p in (weights, b)]
            for device, host in zip(results[1], results[0]):
                scale = np.abs(host).max()
                np.testing.assert_allclose(device, host, 0, {"float32": 1e-5, "float16": 2e-2}[dtype] * scale)
            nodes = f.maker.fgraph.toposort()
            ops = [n.op for n in nodes]
            self.assertIn(blocksparse.gpu_sparse_block_gemv_inplace, ops)
            self.assertIn(blocksparse.gpu_sparse_block_outer_inplace, ops)
            self.assertEqual([n.inputs[0].dtype for n in nodes if isinstance(n.op, GpuFromHost)].count(dtype), 1)
            self.assertEqual(sum(isinstance(op, HostFromGpu) for op in ops), 2)
            with self.assertRaisesRegex(IndexError, "out of bounds"):
                f(h, rows + 4, columns.astype("int32"))

    def test_other_dtypes(self):
        """Products of different dtypes, and of integers, are computed on the host."""
        for dtypes in (("float64", "float32", "float64"), ("int32", "int32", "int32")):
            o, W, h, rows, columns = self.arrays("float64", *SHAPES[0])
            values = [(v * 3).astype(dtype) for v, dtype in zip((o, W, h), dtypes)]
            inputs = [T.TensorType(v.dtype.name, (False,) * v.ndim)() for v in values]
            f = theano.function(
                inputs, sparse_block_gemv(*inputs, rows, columns), mode=get_mode("FAST_RUN").including("gpuarray")
            )
            np.testing.assert_allclose(f(*values), gemv(*values, rows, columns), rtol=1e-6)

    @config.change_flags({"DebugMode.check_preallocated_output": "ALL"})
    def test_debug_mode(self):
        o, W, h, rows, columns = self.arrays("float32", 2, 2, 3, 3, 2, 4, 5)
        inputs = [T.TensorType("float32", (False,) * v.ndim)() for v in (o, W, h)]
        out = sparse_block_gemv(*inputs, rows, columns)
        outputs = [out, *T.grad((out**2).sum(), inputs), sparse_block_outer(inputs[1], inputs[2], out, rows, columns)]
        f = theano.function(inputs, outputs, mode=get_mode("DebugMode").including("gpuarray"))
        g = theano.function(inputs, outputs, mode="FAST_COMPILE")
        for result, expected in zip(f(o, W, h), g(o, W, h)):
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    unittest.main()
