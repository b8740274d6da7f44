"""Tests of products on devices, compared with NumPy."""

import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.configdefaults import config
from theano_ng.configparser import change_flags
from theano_ng.gpuarray import blas
from theano_ng.gpuarray.kernels.product import DTYPES, has_library, product, tiles
from theano_ng.gpuarray.product_elemwise import GpuProductElemwise
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.tests.device import LAYOUTS, gpu_variable, other_context, placed
from theano_ng.gpuarray.tests.products import ProductTest
from theano_ng.gpuarray.transfers import HostFromGpu
from theano_ng.gpuarray.type import GpuArrayType, get_context, gpuarray_shared_constructor

SIZES = (0, 1, 3, 17, 40)


class TestKernels(ProductTest):
    def test_tiles(self):
        """Each kernel computes results of any size, also kernels for other devices than the one that runs the test."""
        ctx = get_context(self.name)
        shapes = ((1, 1, 1, 1), (2, 9, 7, 33), (3, 5, 64, 3), (1, 17, 0, 40), (1, 129, 3, 65))
        for dtype in DTYPES:
            for vector_bytes in sorted({0, 16, 32, 64, ctx.vector_bytes}):
                for tile in tiles(dtype, vector_bytes):
                    if tile.width and not ctx.vector_bytes:
                        continue  # vector types of OpenCL, on CUDA
                    kernel = product(dtype, tile, ctx).build()
                    for batch, m, k, n in shapes:
                        with self.subTest(tile=tile, dtype=dtype, shape=(batch, m, k, n)):
                            self.check_tile(kernel, tile, dtype, batch, m, k, n)

    def check_tile(self, kernel, tile, dtype, batch, m, k, n):
        a, b, c = [self.array(dtype, batch, *shape) for shape in ((m, k), (k, n), (m, n))]
        x, y, z = [placed(v, "C", self.name) for v in (a, b, c)]
        if tile.along:
            y = placed(b.transpose(0, 2, 1), "C", self.name).transpose(0, 2, 1)
        out = pygpu.zeros(c.shape, dtype, context=x.context)
        given = []
        for v in (x, y, z, out):
            given += [v, v.offset, *[stride // v.itemsize for stride in v.strides]]
        padded = -(-n // tile.columns) * tile.columns
        whole = max((k * n - padded) // n + 1, 0) if k * n >= padded else 0
        group = (1, 1) if tile.width else (16, 16)
        for alpha, beta in ((1, 0), (2, 0.5), (0, 1)):
            kernel(batch, m, n, k, whole, alpha, beta, 0, out, 0, out, 0, *given, gs=(7, 1), ls=group)
            expected = alpha * np.matmul(a.astype("float64"), b.astype("float64")) + beta * c.astype("float64")
            self.check(out, expected, dtype)


class TestOps(ProductTest):
    """Tests of the Ops for all sizes, memory layouts and dtypes."""

    def each(self):
        for dtype in DTYPES:
            for m, k, n in itertools.product(SIZES, repeat=3):
                yield dtype, m, k, n

    def test_matrices(self):
        functions = {}
        for dtype in DTYPES:
            x, y, z, s = *[gpu_variable(dtype, 2) for _ in range(3)], T.scalar(dtype=dtype)
            functions[dtype] = (
                theano.function([x, y], blas.gpu_dot22(x, y)),
                theano.function([z, s, x, y], blas.gpugemm_no_inplace(z, s, x, y, 0.5)),
            )
        for dtype, m, k, n in self.each():
            dot, gemm = functions[dtype]
            a, b, c = self.array(dtype, m, k), self.array(dtype, k, n), self.array(dtype, m, n)
            expected = a.astype("float64") @ b.astype("float64")
            for first, second in itertools.product(LAYOUTS, repeat=2):
                with self.subTest(dtype=dtype, shape=(m, k, n), layouts=(first, second)):
                    x, y, z = placed(a, first), placed(b, second), placed(c, first)
                    self.check(dot(x, y), expected, dtype)
                    for alpha in (2, 0):
                        self.check(gemm(z, alpha, x, y), 0.5 * c.astype("float64") + alpha * expected, dtype)
                    np.testing.assert_array_equal(np.asarray(z), c)

    def test_vectors(self):
        functions = {}
        for dtype in DTYPES:
            a, v, w, s = gpu_variable(dtype, 2), gpu_variable(dtype, 1), gpu_variable(dtype, 1), T.scalar(dtype=dtype)
            functions[dtype] = (
                theano.function([v, s, a, w], blas.gpugemv_no_inplace(v, s, a, w, 0.5)),
                theano.function([a, s, v, w], blas.gpuger_no_inplace(a, s, v, w)),
            )
        for dtype, (m, n) in itertools.product(DTYPES, itertools.product((*SIZES, 300), repeat=2)):
            gemv, ger = functions[dtype]
            a, v, w = self.array(dtype, m, n), self.array(dtype, m), self.array(dtype, n)
            exact = a.astype("float64")
            for first, second in itertools.product(LAYOUTS, repeat=2):
                with self.subTest(dtype=dtype, shape=(m, n), layouts=(first, second)):
                    x, y, z = placed(a, first), placed(v, second), placed(w, second)
                    self.check(gemv(y, 2, x, z), 0.5 * v.astype("float64") + 2 * exact @ w.astype("float64"), dtype)
                    self.check(ger(x, 2, y, z), exact + 2 * np.outer(v.astype("float64"), w), dtype)

    def test_stacks(self):
        for dtype in DTYPES:
            x, y, z, s = *[gpu_variable(dtype, 3) for _ in range(3)], T.scalar(dtype=dtype)
            f = theano.function([z, s, x, y], blas.gpugemmbatch_no_inplace(z, s, x, y, 0.5))
            for (m, k, n), batch in itertools.product(itertools.product((0, 1, 5, 33), repeat=3), (0, 1, 3)):
                a, b, c = [self.array(dtype, batch, *shape) for shape in ((m, k), (k, n), (m, n))]
                expected = 0.5 * c.astype("float64") + 2 * np.matmul(a.astype("float64"), b.astype("float64"))
                for first, second in itertools.product(LAYOUTS, repeat=2):
                    with self.subTest(dtype=dtype, shape=(batch, m, k, n), layouts=(first, second)):
                        self.check(f(placed(c, second), 2, placed(a, first), placed(b, second)), expected, dtype)

    def test_in_place(self):
        """An Op that works in place writes into its first input, and other elements of that memory do not change."""
        for cls, ranks in (
            (blas.GpuGemm, (2, 0, 2, 2, 0)),
            (blas.GpuGemv, (1, 0, 2, 1, 0)),
            (blas.GpuGer, (2, 0, 1, 1)),
            (blas.GpuGemmBatch, (3, 0, 3, 3, 0)),
        ):
            for layout in LAYOUTS:
                with self.subTest(cls, layout=layout):
                    op, inputs = cls(inplace=True), [gpu_variable("float32", rank) for rank in ranks]
                    target = theano.In(inputs[0], mutable=True)
                    f = theano.function([target, *inputs[1:]], op(*inputs), accept_inplace=True, mode="FAST_RUN")
                    inner = (slice(1, 4),) * ranks[0]
                    memory, others = (
                        self.array("float32", *[5] * ranks[0]),
                        [self.array("float32", *[3] * r) for r in ranks[1:]],
                    )
                    there = placed(memory, layout)
                    result = f(there[inner], *[placed(value, layout) for value in others])
                    self.assertTrue(pygpu.may_share_memory(result, there))
                    memory[inner] = op.formula(memory[inner], *map(np.asarray, others))
                    np.testing.assert_allclose(there, memory, rtol=1e-5, atol=1e-6)

    def test_in_row(self):
        """A product overwrites one matrix of a stack. It is broadcast to this matrix, or raises an error like NumPy's."""
        for dtype, mode in itertools.product(DTYPES, ("FAST_RUN", theano.Mode("py", None))):
            z, x, y = gpu_variable(dtype, 3), gpu_variable(dtype, 2), gpu_variable(dtype, 2)
            output = blas.GpuDot22InRow(1)(z, x, y)
            f = theano.function([theano.In(z, mutable=True), x, y], output, accept_inplace=True, mode=mode)
            for (m, k, n), layout in itertools.product(itertools.product((0, 1, 3, 17), repeat=3), LAYOUTS):
                a, b = self.array(dtype, m, k), self.array(dtype, k, n)
                for shape in {(3, m, n), (2, 3, n), (2, 1, 1), (2, m, 17)}:
                    with self.subTest(dtype=dtype, mode=str(mode), stack=shape, shape=(m, k, n), layout=layout):
                        stack = self.array(dtype, *shape)
                        there, expected = placed(stack, layout), stack.astype("float64")
                        try:
                            expected[1] = a.astype("float64") @ b
                        except ValueError:
                            with self.assertRaises(ValueError):
                                f(there, placed(a, layout), placed(b, "C"))
                            np.testing.assert_array_equal(np.asarray(there), stack)
                        else:
                            result = f(there, placed(a, layout), placed(b, "C"))
                            self.check(result, expected, dtype)
                            self.assertEqual(result.gpudata, there.gpudata)
            with self.assertRaisesRegex(ValueError, r"x has 3 cols \(and 2 rows\) but y has 4 rows \(and 5 cols\)"):
                f(*[placed(self.array(dtype, *shape), "C") for shape in ((2, 2, 5), (2, 3), (4, 5))])
            with self.assertRaisesRegex(IndexError, "index 1 is out of bounds for axis 0 with size 1"):
                f(*[placed(self.array(dtype, *shape), "C") for shape in ((1, 2, 2), (2, 2), (2, 2))])
        with self.assertRaisesRegex(ValueError, "must not be negative"):
            blas.GpuDot22InRow(-1)

    def test_factors(self):
        """Factors may be on the host or on the device. An array whose factor is 0 is not read. (cuBLAS cannot know whether a
        factor on the device is 0, and multiplies by it.)
        """
        by_library = has_library(get_context(self.name))
        a, b, c = [self.array("float32", 5, 5) for _ in range(3)]
        x, y, z = [gpu_variable("float32", 2) for _ in range(3)]
        for places in itertools.product((False, True), repeat=2):
            factors = [gpu_variable("float32", 0) if there else T.fscalar() for there in places]
            f = theano.function([z, x, y, *factors], blas.GpuGemm()(z, factors[0], x, y, factors[1]))
            for alpha, beta in itertools.product((0, 2, -0.5), repeat=2):
                values = [placed(np.float32(v), "C") if there else v for v, there in zip((alpha, beta), places)]
                for bad in (False, True):
                    if bad and by_library and any(places):
                        continue
                    first, last = a.copy(), c.copy()
                    if bad and alpha == 0:
                        first[2] = np.nan
                    if bad and beta == 0:
                        last[1] = np.inf
                    result = f(placed(last, "C"), placed(first, "C"), placed(b, "C"), *values)
                    self.check(result, alpha * (a.astype("float64") @ b) + beta * c, "float32")

    def test_shapes_that_do_not_fit(self):
        """The errors are those of the Ops for the host, and the function works afterwards."""
        x, y, z = [gpu_variable("float32", 2) for _ in range(3)]
        v, w = gpu_variable("float32", 1), gpu_variable("float32", 1)
        x3, y3, z3 = [gpu_variable("float32", 3) for _ in range(3)]
        cases = (
            (
                [x, y],
                blas.gpu_dot22(x, y),
                [(2, 3), (4, 5)],
                r"x has 3 cols \(and 2 rows\) but y has 4 rows \(and 5 cols\)",
            ),
            ([z, x, y], blas.GpuGemm()(z, 1, x, y, 1), [(2, 5), (2, 3), (4, 5)], "x has 3 cols"),
            (
                [z, x, y],
                blas.GpuGemm()(z, 1, x, y, 1),
                [(5, 2), (2, 3), (3, 5)],
                r"z has shape \(5, 2\) but the product",
            ),
            (
                [v, x, w],
                blas.GpuGemv()(v, 1, x, w, 1),
                [(2,), (2, 3), (4,)],
                r"for gemv .* y: \(2,\), A: \(2, 3\), x: \(4,\)",
            ),
            (
                [v, x, w],
                blas.GpuGemv()(v, 1, x, w, 1),
                [(3,), (2, 3), (3,)],
                r"for gemv .* y: \(3,\), A: \(2, 3\), x: \(3,\)",
            ),
            (
                [x, v, w],
                blas.GpuGer()(x, 1, v, w),
                [(2, 3), (2,), (4,)],
                r"A has shape \(2, 3\), x \(2,\) and y \(4,\)",
            ),
            (
                [z3, x3, y3],
                blas.GpuGemmBatch()(z3, 1, x3, y3, 1),
                [(2, 2, 2), (2, 2, 3), (3, 3, 2)],
                r"z has shape \(2, 2, 2\), x \(2, 2, 3\) and y \(3, 3, 2\)",
            ),
        )
        for inputs, output, shapes, message in cases:
            for mode in ("FAST_RUN", theano.Mode("py", None)):
                with self.subTest(output=output.owner.op, mode=str(mode)):
                    f = theano.function(inputs, output, mode=mode)
                    with self.assertRaisesRegex(ValueError, message):
                        f(*[placed(self.array("float32", *shape), "C") for shape in shapes])
                    squares = [placed(self.array("float32", *[3] * len(shape)), "C") for shape in shapes]
                    self.assertEqual(f(*squares).shape[0], 3)

    def test_factors_in_other_contexts(self):
        """A factor on another device is moved to the device of the matrices."""
        a, b, c = [self.array("float32", 5, 5) for _ in range(3)]
        x, y, z = [gpu_variable("float32", 2) for _ in range(3)]
        other = other_context(self)
        factors = [GpuArrayType("float32", (), other)() for _ in range(2)]
        f = theano.function([z, x, y, *factors], blas.GpuGemm()(z, factors[0], x, y, factors[1]))
        values = [placed(np.float32(v), "C", other) for v in (2, -0.5)]
        result = f(*[placed(v, "C") for v in (c, a, b)], *values)
        self.check(result, 2 * (a.astype("float64") @ b) - 0.5 * c, "float32")
        self.assertEqual({v.type.context_name for v in f.maker.fgraph.outputs[0].owner.inputs}, {self.name})

    def test_types_that_do_not_fit(self):
        x, y, v = gpu_variable("float32", 2), gpu_variable("float64", 2), gpu_variable("float32", 1)
        i = gpu_variable("int32", 2)
        for make, message in (
            (lambda: blas.gpu_dot22(x, y), "all inputs must have one dtype among .*got x: float32, y: float64"),
            (lambda: blas.gpu_dot22(i, i), "all inputs must have one dtype"),
            (lambda: blas.gpu_dot22(x, v), "y must have 2 dimensions"),
            (lambda: blas.GpuGemm()(x, v, x, x, 1), "alpha must have 0 dimensions"),
            (lambda: blas.GpuGemm()(x, 1j, x, x, 1), "complex"),
            (lambda: blas.GpuGemm()(x, 1, x), r"takes 5 inputs \(C, alpha, A, B, beta\), got 3"),
        ):
            with self.assertRaisesRegex(TypeError, message):
                make()

    def test_derivatives(self):
        a, b, c = self.array("float64", 3, 4), self.array("float64", 4, 2), self.array("float64", 3, 2)
        v, w, s = self.array("float64", 3), self.array("float64", 4), np.float64(0.7)
        stacks = [self.array("float64", 2, *shape) for shape in ((3, 2), (3, 4), (4, 2))]

        def on_host(op):
            return lambda *inputs: HostFromGpu()(op(*[T.as_tensor_variable(i) for i in inputs]))

        for op, values in (
            (blas.gpu_dot22, [a, b]),
            (blas.GpuGemm(), [c, s, a, b, s]),
            (blas.GpuGemv(), [v, s, a, w, s]),
            (blas.GpuGer(), [a, s, v, w]),
            (blas.GpuGemmBatch(), [stacks[0], s, stacks[1], stacks[2], s]),
        ):
            with self.subTest(op):
                theano.gradient.verify_grad(on_host(op), values, rng=np.random.RandomState(3))
                inputs = [T.TensorType("float64", (False,) * np.ndim(value))() for value in values]
                points = [i.type() for i in inputs]
                forward = T.Rop(on_host(op)(*inputs), inputs, points)
                f = theano.function([*inputs, *points], forward, on_unused_input="ignore")
                moves = [self.array("float64", *np.shape(value)) for value in values]
                step = 1e-6
                value = theano.function(inputs, on_host(op)(*inputs))
                up, down = [value(*[x + d * step * m for x, m in zip(values, moves)]) for d in (1, -1)]
                np.testing.assert_allclose(f(*values, *moves), (up - down) / (2 * step), rtol=1e-5, atol=1e-6)


class TestRules(ProductTest):
    """Tests of whole graphs: all products run on the device, with the values of the host."""

    def compare(self, inputs, outputs, values, names):
        """Compare a function on the device with a function on the host. `names` are the expected products."""
        mode = get_mode("FAST_RUN").including("gpuarray")
        f = theano.function(inputs, outputs, mode=mode)
        expected = theano.function(inputs, outputs, mode="FAST_RUN")(*values)
        for result, right in zip(f(*values), expected):
            np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-4)
        nodes = f.maker.fgraph.toposort()
        self.assertEqual([n.op for n in nodes if "ot" in type(n.op).__name__ and not isinstance(n.op, blas.BlasOp)], [])
        self.assertEqual(sorted(str(n.op) for n in nodes if isinstance(n.op, blas.BlasOp)), sorted(names))

    def test_product_in_row(self):
        """The product of which a loop's initial state consists is computed in the memory of the states."""
        x, y = T.fmatrices("x", "y")
        states = theano.scan(lambda h: T.tanh(h * 2), outputs_info=[T.dot(x, y)], n_steps=4)[0]
        names = ["GpuDot22InRow{row=0}"]
        self.compare([x, y], [states[-1]], [self.array("float32", 3, 4), self.array("float32", 4, 5)], names)
        # The product has another reader, or is one of two values of the states.
        product = T.dot(x, y)
        states = theano.scan(lambda h: T.tanh(h * 2), outputs_info=[product], n_steps=4)[0]
        values = [self.array("float32", 4, 4) for _ in range(2)]
        self.compare([x, y], [states[-1], product], values, ["GpuDot22"])
        pair = T.stack([T.dot(x, y), T.dot(y, x)])
        states = theano.scan(lambda a, b: a + b, outputs_info=[dict(initial=pair, taps=[-2, -1])], n_steps=4)[0]
        self.compare([x, y], [states[-1]], values, ["GpuDot22"] * 2)

    def test_each_product(self):
        for dtype in ("float32", "float64"):
            x, y, z = [T.matrix(dtype=dtype) for _ in range(3)]
            v, w = T.vector(dtype=dtype), T.vector(dtype=dtype)
            p, q = T.tensor3(dtype=dtype), T.tensor3(dtype=dtype)
            a, b = self.array(dtype, 6, 6), self.array(dtype, 6, 6)
            u, t = self.array(dtype, 6), self.array(dtype, 6)
            c, d = self.array(dtype, 6, 6, 6), self.array(dtype, 6, 6, 6)
            gemm, gemv = "GpuGemm{inplace=True}", "GpuGemv{inplace=True}"
            for inputs, output, values, names in (
                ([x, y], T.dot(x, y), [a, b], ["GpuDot22"]),
                ([x, y], 3 * T.dot(x, y.T), [a, b], [gemm]),
                ([x, y, z], T.exp(z) + 2 * T.dot(x.T, y), [a, b, a], [gemm]),
                ([x, v], T.dot(x, v), [a, u], [gemv]),
                ([x, v], T.dot(v, x), [a, u], [gemv]),
                ([x, v, w], T.exp(w) - 2 * T.dot(x, v), [a, u, t], [gemv]),
                ([v, w], T.dot(v, w), [u, t], [gemv]),
                ([x, v, w], T.exp(x) + T.outer(v, w), [a, u, t], ["GpuGer{inplace=True}"]),
                ([p, q], T.batched_dot(p, q), [c, d], ["GpuGemmBatch{inplace=True}"]),
                ([p, x], T.batched_dot(p, x), [c, a], ["GpuGemmBatch{inplace=True}"]),
                ([p, x], T.batched_dot(x, p), [c, a], ["GpuGemmBatch{inplace=True}"]),
                ([x, y], T.batched_dot(x, y), [a, b], ["GpuGemmBatch{inplace=True}"]),
                ([p, q], T.tensordot(p, q, [[1, 2], [0, 2]]), [c, d], ["GpuDot22"]),
            ):
                with self.subTest(output=theano.pp(output), dtype=dtype):
                    self.compare(inputs, [output], values, names)

    @config.change_flags({"DebugMode.check_preallocated_output": "ALL"})
    def test_factors_of_other_dtypes(self):
        """A factor that enlarges the dtype of the result is not merged into a product."""
        mode = get_mode("FAST_RUN").including("gpuarray")
        factors = ("float64", "float32", "int32", "int8")
        for dtype, of_factor in itertools.product(("float16", "float32", "float64"), factors):
            a, b = self.array(dtype, 2, 3, 4), self.array(dtype, 2, 4, 5)
            x, y = [T.TensorType(dtype, (False,) * 3)() for _ in range(2)]
            s = T.scalar(dtype=of_factor)
            products = [T.batched_dot(x, y) * s, s * T.dot(x[0], y[0])]
            with self.subTest(arrays=dtype, factor=of_factor), change_flags(on_opt_error="raise"):
                results = theano.function([x, y, s], products, mode=mode)(a, b, 3)
                expected = 3 * (a.astype("float64") @ b.astype("float64"))
                for result, symbol, right in zip(results, products, (expected, expected[0])):
                    self.assertEqual(result.dtype, symbol.dtype)
                    self.check(result, right, dtype)

    def test_debug_mode(self):
        """Python code and kernels agree, for previous outputs of every kind."""
        x, y, v, w, s = T.fmatrix(), T.fmatrix(), T.fvector(), T.fvector(), T.fscalar()
        p, q = T.ftensor3(), T.ftensor3()
        outputs = [
            T.dot(x, y),
            T.exp(x) + s * T.dot(x, y.T),
            T.exp(v) - s * T.dot(x, w),
            T.exp(x) + s * T.outer(v, w),
            T.batched_dot(p, q.dimshuffle(0, 2, 1)),
        ]
        f = theano.function([x, y, v, w, s, p, q], outputs, mode=get_mode("DebugMode").including("gpuarray"))
        arrays = [self.array("float32", *[4] * rank) for rank in (2, 2, 1, 1, 0, 3, 3)]
        results = theano.function([x, y, v, w, s, p, q], outputs, mode="FAST_COMPILE")(*arrays)
        for result, expected in zip(f(*arrays), results):
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)

    def test_broadcast_patterns(self):
        """Rows and columns keep their patterns, so that sums with the product broadcast."""
        row, column, x = T.frow(), T.fcol(), T.fmatrix()
        values = [self.array("float32", 1, 4), self.array("float32", 4, 1), self.array("float32", 4, 4)]
        outputs = [
            T.dot(row, x) + x,
            T.dot(x, column) * x,
            T.dot(row, column) + x,
            T.dot(column, row) + 1,
            T.batched_dot(column, row.T) + 1,
        ]
        f = theano.function([row, column, x], outputs, mode=get_mode("FAST_RUN").including("gpuarray"))
        g = theano.function([row, column, x], outputs, mode="FAST_COMPILE")
        for result, expected in zip(f(*values), g(*values)):
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)

    def test_halves(self):
        x, y = T.matrix(dtype="float16"), T.matrix(dtype="float16")
        a, b = self.array("float16", 20, 30), self.array("float16", 30, 10)
        f = theano.function([x, y], T.dot(x, y), mode=get_mode("FAST_RUN").including("gpuarray"))
        self.assertIn(blas.gpu_dot22, [n.op for n in f.maker.fgraph.toposort()])
        self.check(f(a, b), a.astype("float64") @ b.astype("float64"), "float16")

    def test_training_step(self):
        """A step of a network updates its weights in place, and each product is one node."""
        rng, parameters = np.random.default_rng(1), {}
        values = [rng.uniform(-0.5, 0.5, shape) for shape in ((7, 5), (5,), (5, 3), (3,))]
        x, y = T.dmatrix(), T.dmatrix()
        for placed_there in (False, True):
            make = gpuarray_shared_constructor if placed_there else theano.shared
            w, b, u, c = parameters[placed_there] = [make(value.copy()) for value in values]
            cost = T.sqr(T.dot(T.tanh(T.dot(x, w) + b), u) + c - y).mean()
            updates = [(p, p - 0.1 * g) for p, g in zip((w, b, u, c), T.grad(cost, [w, b, u, c]))]
            mode = get_mode("FAST_RUN").including("gpuarray") if placed_there else get_mode("FAST_RUN")
            f = theano.function([x, y], cost, updates=updates, mode=mode)
            data = np.random.default_rng(2)
            for _ in range(50):
                f(data.uniform(-1, 1, (8, 7)), data.uniform(-1, 1, (8, 3)))
        for there, here in zip(parameters[True], parameters[False]):
            np.testing.assert_allclose(there.get_value(), here.get_value(), rtol=1e-10, atol=1e-10)
        nodes = f.maker.fgraph.toposort()
        products = [str(n.op) for n in nodes if isinstance(n.op, blas.BlasOp)]
        self.assertEqual(products, ["GpuGemm{inplace=True}"] * 2)
        self.assertEqual(sum(isinstance(n.op, GpuProductElemwise) for n in nodes), 3)


if __name__ == "__main__":
    unittest.main()
