"""Tests of products with elementwise operations in their kernels, compared with NumPy and with the host."""

import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.compile.mode import get_mode
from theano_ng.configparser import change_flags
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import inputs as inputs_of
from theano_ng.gpuarray import blas
from theano_ng.gpuarray.basic_ops import GpuAllocEmpty
from theano_ng.gpuarray.elemwise import GpuElemwise
from theano_ng.gpuarray.kernels.product import DTYPES, product, tiles
from theano_ng.gpuarray.kernels.product_ending import Ending
from theano_ng.gpuarray.product_elemwise import MOST_OPERANDS, GpuProductElemwise
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.tests.device import LAYOUTS, gpu_variable, placed
from theano_ng.gpuarray.tests.products import ProductTest
from theano_ng.gpuarray.transfers import GpuFromHost, HostFromGpu
from theano_ng.gpuarray.type import GpuArrayType, get_context, gpuarray_shared_constructor

ON_DEVICE = get_mode("FAST_RUN").including("gpuarray")


def gate(*dtypes, out=None):
    """Return a Composite of a product and operands of these dtypes: tanh(product + ...) * last."""
    values = [scalar.get_scalar_type(dtype)() for dtype in dtypes]
    total = values[0]
    for value in values[1:]:
        total = total + value
    result = scalar.tanh(total) * values[-1]
    return scalar.Composite(values, [result if out is None else scalar.basic.Cast(scalar.get_scalar_type(out))(result)])


def gated(*values):
    values = [value.astype("float64") for value in values]
    return np.tanh(sum(values)) * values[-1]


class TestKernels(ProductTest):
    def test_tiles(self):
        """Each kernel computes results of any size and any strides, also kernels for graphics cards."""
        ctx = get_context(self.name)
        for dtype in DTYPES:
            wide = "float64" if dtype == "float64" else "float32"
            ending = Ending(gate(dtype, wide, dtype, out=wide), (dtype, wide, dtype), wide, 0)
            for tile in [*tiles(dtype, ctx.vector_bytes or 16), tiles(dtype, 0)[-1]]:
                if tile.width and not ctx.vector_bytes:
                    continue  # vector types of OpenCL, on CUDA
                kernel = product(dtype, tile, ctx, ending).build()
                for shape in ((1, 1, 1, 1), (2, 9, 7, 33), (1, 17, 0, 40), (1, 3, 3, 70)):
                    for alpha, beta, transposed in ((1, 0, False), (2, 0.5, True), (0, 1, False)):
                        with self.subTest(tile=tile, dtype=dtype, shape=shape, alpha=alpha):
                            self.check_tile(kernel, tile, dtype, shape, alpha, beta, transposed)

    def check_tile(self, kernel, tile, dtype, shape, alpha, beta, transposed):
        batch, m, k, n = shape
        a, b, c = [self.array(dtype, batch, *lengths) for lengths in ((m, k), (k, n), (m, n))]
        wide = "float64" if dtype == "float64" else "float32"
        row, full = self.array(wide, 1, 1, n), self.array(dtype, batch, m, n)
        x, y, z = [placed(v, "C", self.name) for v in (a, b, c)]
        if tile.along:
            y = placed(b.transpose(0, 2, 1), "C", self.name).transpose(0, 2, 1)
        out = placed(np.zeros(c.shape, wide), "F" if transposed else "C", self.name)
        given = []
        for v in (
            x,
            y,
            z,
            out,
            placed(row, "C", self.name),
            placed(full, "reversed" if transposed else "C", self.name),
        ):
            strides = [0 if length == 1 else stride // v.itemsize for length, stride in zip(v.shape, v.strides)]
            given += [v, v.offset, *strides]
        padded = -(-n // tile.columns) * tile.columns
        whole = max((k * n - padded) // n + 1, 0) if k * n >= padded else 0
        group = (1, 1) if tile.width else (16, 16)
        # the kernels read rows of b in vectors
        given[7:10] = y.strides[0] // y.itemsize, y.strides[1] // y.itemsize, y.strides[2] // y.itemsize
        kernel(batch, m, n, k, whole, alpha, beta, 0, out, 0, out, 0, *given, gs=(3, 1), ls=group)
        total = alpha * np.matmul(a.astype("float64"), b.astype("float64")) + beta * c.astype("float64")
        self.check(out, gated(total, row, full), dtype)


# Each kind of product: the Op, the shapes of its inputs for m, k and n, and a function with its value
PRODUCTS = {
    "dot": (blas.gpu_dot22, lambda m, k, n: [(m, k), (k, n)], lambda a, b: a @ b),
    "gemm": (
        blas.GpuGemm(),
        lambda m, k, n: [(m, n), (), (m, k), (k, n), ()],
        lambda c, alpha, a, b, beta: beta * c + alpha * (a @ b),
    ),
    "gemv": (
        blas.GpuGemv(),
        lambda m, k, n: [(m,), (), (m, k), (k,), ()],
        lambda y, alpha, a, x, beta: beta * y + alpha * (a @ x),
    ),
    "ger": (blas.GpuGer(), lambda m, k, n: [(m, n), (), (m,), (n,)], lambda c, alpha, x, y: c + alpha * np.outer(x, y)),
    "batch": (
        blas.GpuGemmBatch(),
        lambda m, k, n: [(3, m, n), (), (3, m, k), (3, k, n), ()],
        lambda c, alpha, a, b, beta: beta * c + alpha * np.matmul(a, b),
    ),
}


class TestOp(ProductTest):
    def variables(self, kind, dtype):
        ranks = [len(shape) for shape in PRODUCTS[kind][1](1, 1, 1)]
        return [gpu_variable(dtype, rank) if rank else T.scalar(dtype=dtype) for rank in ranks]

    def values(self, kind, dtype, m, k, n):
        return [self.array(dtype, *shape) for shape in PRODUCTS[kind][1](m, k, n)]

    def expected(self, kind, values):
        return PRODUCTS[kind][2](*[v.astype("float64") for v in values])

    def test_products(self):
        """All kinds of products, all dtypes and all memory layouts, with a row, a number on the device, and a whole operand."""
        cases = [("float32", kind) for kind in PRODUCTS] + [("float16", "gemm"), ("float64", "dot")]
        for dtype, kind in cases:
            inputs = self.variables(kind, dtype)
            rank = inputs[0].ndim
            row = GpuArrayType(dtype, (True,) * (rank - 1) + (False,), self.name)()
            one, full = GpuArrayType(dtype, (True,) * rank, self.name)(), gpu_variable(dtype, rank)
            op = GpuProductElemwise(PRODUCTS[kind][0], gate(*[dtype] * 4), 1)
            f = theano.function([*inputs, row, one, full], op(*inputs, row, one, full))
            for m, k, n in ((17, 40, 33), (1, 3, 70), (40, 1, 1), (3, 0, 5), (0, 3, 4), (6, 5, 0)):
                values = self.values(kind, dtype, m, k, n)
                result = self.expected(kind, values)
                r, o, w = [self.array(dtype, *shape) for shape in (result.shape[-1:], (), result.shape)]
                r, o = r.reshape((1,) * (rank - 1) + r.shape), o.reshape((1,) * rank)
                for layout in LAYOUTS:
                    with self.subTest(kind=kind, dtype=dtype, shape=(m, k, n), layout=layout):
                        arrays = [placed(v, layout) if v.ndim else v for v in values]
                        rest = [placed(r, "C"), placed(o, "C"), placed(w, layout)]
                        self.check(f(*arrays, *rest), gated(r, result, o, w), dtype)

    def test_operands_of_every_kind(self):
        """Rows, columns, numbers on the host, and arrays of other dtypes, at every position of the product."""
        x, y = gpu_variable("float32", 2), gpu_variable("float32", 2)
        a, b = self.array("float32", 9, 5), self.array("float32", 5, 20)
        operands = [
            (0, scalar.mul, np.multiply, self.array("float32", 1, 20)),
            (1, scalar.sub, np.subtract, self.array("float64", 9, 1)),
            (1, scalar.mul, np.multiply, self.rng.integers(-3, 3, (9, 20)).astype("int8")),
            (0, scalar.mul, np.multiply, self.rng.integers(0, 2, (9, 20)).astype(bool)),
            (1, scalar.lt, np.less, self.array("float16", 9, 20)),
        ]
        product, inputs, outputs, expected = a.astype("float64") @ b.astype("float64"), [], [], []
        for position, op, function, value in operands:
            v = GpuArrayType(value.dtype.name, tuple(length == 1 for length in value.shape), self.name)()
            inputs.append(v)
            outputs.append(GpuProductElemwise(blas.gpu_dot22, op, position)(x, y, v))
            expected.append(function(*[(product, value), (value, product)][position]))
        f = theano.function([x, y, *inputs], outputs)
        for result, out, right in zip(
            f(*[placed(u, "C") for u in (a, b, *[row[-1] for row in operands])]), outputs, expected
        ):
            with self.subTest(out=str(out.owner.inputs), op=str(out.owner.op)):
                self.assertEqual(result.dtype, out.dtype)
                np.testing.assert_allclose(np.asarray(result), right, 1e-3, 1e-3)
        s = T.TensorType("float32", (True, True))()
        out = GpuProductElemwise(blas.gpu_dot22, scalar.sub, 1)(x, y, s)
        self.assertNotIsInstance(out.owner.inputs[2].type, GpuArrayType)
        result = theano.function([x, y, s], out)(placed(a, "C"), placed(b, "C"), np.float32([[3]]))
        self.check(result, 3 - a.astype("float64") @ b, "float32")

    def test_factors(self):
        """As in BLAS, arrays whose factor is 0 are not read, also for factors on the device. (cuBLAS does not compute such
        small products with an elementwise operation.)
        """
        z, x, y = [gpu_variable("float32", 2) for _ in range(3)]
        a, b, c = [self.array("float32", 5, 5) for _ in range(3)]
        for there in (False, True):
            alpha, beta = [gpu_variable("float32", 0) if there else T.fscalar() for _ in range(2)]
            f = theano.function(
                [z, alpha, x, y, beta], GpuProductElemwise(blas.GpuGemm(), scalar.exp, 0)(z, alpha, x, y, beta)
            )
            for first, second in itertools.product((0, 1, 2, -0.5), repeat=2):
                left, last = a * (np.nan if first == 0 else 1), c * (np.inf if second == 0 else 1)
                values = [placed(np.float32(v), "C") if there else np.float32(v) for v in (first, second)]
                result = f(placed(last, "C"), values[0], placed(left, "C"), placed(b, "C"), values[1])
                expected = (first * (a.astype("float64") @ b) if first else 0) + (second * c if second else 0)
                self.check(result, np.exp(expected) * np.ones((5, 5)), "float32")

    def test_in_place(self):
        """The result overwrites the first input, inside a larger array."""
        for kind, layout in itertools.product(("gemm", "gemv", "ger", "batch"), LAYOUTS):
            with self.subTest(kind=kind, layout=layout):
                inputs = self.variables(kind, "float32")
                full = gpu_variable("float32", inputs[0].ndim)
                op = GpuProductElemwise(PRODUCTS[kind][0], gate("float32", "float32"), 0, inplace=True)
                target = theano.In(inputs[0], mutable=True)
                f = theano.function(
                    [target, *inputs[1:], full], op(*inputs, full), accept_inplace=True, mode="FAST_RUN"
                )
                values = self.values(kind, "float32", 3, 3, 3)
                memory = self.array("float32", *[5] * inputs[0].ndim)
                inner = (slice(1, 4),) * inputs[0].ndim
                values[0], w = memory[inner].copy(), self.array("float32", *values[0].shape)
                there = placed(memory, layout)
                result = f(there[inner], *[placed(v, layout) if v.ndim else v for v in values[1:]], placed(w, layout))
                self.assertTrue(pygpu.may_share_memory(result, there))
                memory[inner] = gated(self.expected(kind, values), w)
                self.check(there, memory, "float32")

    def test_shapes_that_do_not_fit(self):
        """The errors are those of the product and of the elementwise operation. The function works afterwards."""
        x, y, w = [gpu_variable("float32", 2) for _ in range(3)]
        out = GpuProductElemwise(blas.gpu_dot22, scalar.add, 0)(x, y, w)
        for mode in ("FAST_RUN", theano.Mode("py", None)):
            f = theano.function([x, y, w], out, mode=mode)
            for shapes, message in (
                (((2, 3), (4, 5), (2, 5)), r"x has 3 cols \(and 2 rows\) but y has 4 rows"),
                (((2, 3), (3, 5), (2, 4)), "Input dimension mis-match"),
                (((2, 3), (3, 5), (1, 5)), "Input dimension mis-match"),
            ):
                with self.assertRaisesRegex(ValueError, message):
                    f(*[placed(self.array("float32", *shape), "C") for shape in shapes])
            self.assertEqual(f(*[placed(self.array("float32", 2, 2), "C")] * 3).shape, (2, 2))

    def test_types_that_do_not_fit(self):
        x, v, row = gpu_variable("float32", 2), gpu_variable("float32", 1), GpuArrayType("float32", (True, False))()
        cube, small = gpu_variable("float32", 3), gpu_variable("float16", 2)
        many = scalar.Add(scalar.upgrade_to_float)
        for product_op, op, inputs, message in (
            (blas.gpu_dot22, scalar.add, [x, v, x], "y must have 2 dimensions"),
            (blas.gpu_dot22, scalar.add, [x, x, cube], "one output with the shape of the product"),
            (blas.gpu_dot22, scalar.add, [row, x, x], "one output with the shape of the product"),
            (blas.gpu_dot22, many, [x] * (MOST_OPERANDS + 3), "needs at most 16 operands"),
        ):
            with self.assertRaisesRegex(TypeError, message):
                GpuProductElemwise(product_op, op, 0)(*inputs)
        with self.assertRaisesRegex(TypeError, "cannot overwrite the first input"):
            GpuProductElemwise(blas.gpu_dot22, scalar.exp, 0, inplace=True)(x, x)
        with self.assertRaisesRegex(TypeError, "cannot overwrite the first input"):
            GpuProductElemwise(blas.GpuGemm(), scalar.add, 0, inplace=True)(small, 1, small, small, 1, x)

    def test_derivatives(self):
        def on_host(op):
            return lambda *inputs: HostFromGpu()(op(*[T.as_tensor_variable(i) for i in inputs]))

        for kind in PRODUCTS:
            with self.subTest(kind):
                values = self.values(kind, "float64", 3, 4, 2)
                values.append(self.array("float64", *self.expected(kind, values).shape))
                op = on_host(GpuProductElemwise(PRODUCTS[kind][0], gate("float64", "float64"), 0))
                theano.gradient.verify_grad(op, values, rng=np.random.RandomState(3))
                inputs = [T.TensorType("float64", (False,) * v.ndim)() for v in values]
                points, moves = [i.type() for i in inputs], [self.array("float64", *v.shape) for v in values]
                forward = T.Rop(op(*inputs), inputs, points)
                f = theano.function([*inputs, *points], forward, on_unused_input="ignore")
                value, step = theano.function(inputs, op(*inputs)), 1e-6
                up, down = [value(*[x + d * step * m for x, m in zip(values, moves)]) for d in (1, -1)]
                np.testing.assert_allclose(f(*values, *moves), (up - down) / (2 * step), rtol=1e-5, atol=1e-6)

    def test_shape(self):
        """The shape is known without computing the product."""
        for kind in PRODUCTS:
            inputs = self.variables(kind, "float32")
            f = theano.function(
                inputs, GpuProductElemwise(PRODUCTS[kind][0], scalar.exp, 0)(*inputs).shape, on_unused_input="ignore"
            )
            self.assertFalse(any(isinstance(n.op, GpuProductElemwise) for n in f.maker.fgraph.apply_nodes))
            values = self.values(kind, "float32", 3, 4, 5)
            shape = self.expected(kind, values).shape
            self.assertEqual(tuple(f(*[placed(v, "C") if v.ndim else v for v in values])), shape)


class TestRule(ProductTest):
    """Tests of the rule that makes these Ops."""

    def operations(self, f):
        return [type(n.op).__name__ for n in f.maker.fgraph.toposort() if "DimShuffle" not in str(n.op)]

    def compiled(self, inputs, outputs, **keywords):
        with change_flags(on_opt_error="raise"):
            return theano.function(inputs, outputs, mode=ON_DEVICE, **keywords)

    def check_function(self, inputs, outputs, values, fused, dtype="float32"):
        """Compare a function with the host, and the number of fused products with `fused`. Count the transfers, too."""
        f = self.compiled(inputs, outputs)
        expected = theano.function(inputs, outputs, mode="FAST_COMPILE")(*values)
        for result, right in zip(f(*values), expected):
            self.check(result, right.astype("float64"), dtype)
        nodes = f.maker.fgraph.apply_nodes
        self.assertEqual(sum(isinstance(n.op, GpuProductElemwise) for n in nodes), fused, [str(n.op) for n in nodes])
        arrays = [v for v in inputs if v.ndim]
        self.assertLessEqual(sum(isinstance(n.op, GpuFromHost) for n in nodes), len(arrays))
        self.assertEqual(sum(isinstance(n.op, HostFromGpu) for n in nodes), len(outputs))
        return f

    def test_expressions(self):
        """Expressions, the number of fused products in each, and their values on the device and on the host."""
        for dtype, count in (("float32", None), ("float16", 2)):
            given = {}

            def new(*shape, dtype=dtype, given=given):
                value = np.asarray(self.array(dtype, *shape))
                variable = T.TensorType(dtype, [length == 1 for length in shape])()
                given[variable] = value
                return variable

            shared = T.dot(new(6, 7), new(7, 5))
            rows = (
                (T.tanh(T.dot(new(6, 7), new(7, 5)) + new(5)), 1),
                (T.nnet.sigmoid(T.dot(new(6, 7), new(7, 5)) * new()), 1),
                (T.nnet.relu(new(6, 5) - 2 * T.dot(new(6, 7), new(7, 5))), 1),
                (T.dot(new(6, 7), new(7, 5)) * (1 - new(6, 5) ** 2), 1),
                (T.exp(T.dot(new(6, 5), new(5))), 1),
                (T.sqr(T.batched_dot(new(2, 6, 7), new(2, 7, 5))) - 1, 1),
                # a product that is also needed otherwise, or that broadcasts
                (T.exp(shared).sum() + shared[0].sum(), 0),
                (T.dot(new(1, 7), new(7, 5)) + new(6, 5), 0),
                (T.exp(T.dot(new(5), new(5))) + new(6, 5), 0),
            )[:count]
            for row_output, fused in rows:
                inputs = [u for u in given if u in set(inputs_of([row_output]))]
                fgraph = FunctionGraph(inputs, [row_output], clone=True)
                # Exclude `add_destroy_handler`, which needs a graph that belongs to a function.
                with change_flags(on_opt_error="raise"):
                    ON_DEVICE.excluding("add_destroy_handler").optimizer.optimize(fgraph)
                ops = [n.op for n in fgraph.apply_nodes]
                with self.subTest(output=theano.pp(row_output), dtype=dtype):
                    self.assertEqual(sum(isinstance(op, GpuProductElemwise) for op in ops), fused, ops)
            outputs = [output for output, _ in rows]
            inputs = [u for u in given if u in set(inputs_of(outputs))]
            self.check_function(inputs, outputs, [given[u] for u in inputs], sum(k for _, k in rows), dtype)

    def test_networks(self):
        """Layers of a network and their gradients, in training steps: each product has the operations that follow it."""
        x, target = T.matrix(dtype="float64"), T.matrix(dtype="float64")
        a, b = self.array("float64", 8, 6), self.array("float64", 8, 2)
        weights = [self.array("float64", *shape) for shape in ((6, 7), (7,), (7, 5), (5,), (5, 2))]
        for activation, fused in ((T.tanh, 4), (T.nnet.sigmoid, 4)):
            found = []
            for make, mode in ((gpuarray_shared_constructor, ON_DEVICE), (theano.shared, get_mode("FAST_RUN"))):
                w1, b1, w2, b2, w3 = parameters = [make(w.copy()) for w in weights]
                hidden = activation(T.dot(activation(T.dot(x, w1) + b1), w2) + b2)
                cost = T.sqr(T.dot(hidden, w3) - target).sum()
                updates = [(p, p - 0.05 * g) for p, g in zip(parameters, T.grad(cost, parameters))]
                with change_flags(on_opt_error="raise"):
                    f = theano.function([x, target], cost, updates=updates, mode=mode)
                costs = [f(a, b) for _ in range(20)]
                found.append([costs, *[p.get_value() for p in parameters]])
                if mode is ON_DEVICE:
                    names = [str(n.op) for n in f.maker.fgraph.apply_nodes if isinstance(n.op, GpuProductElemwise)]
                    self.assertEqual(len(names), fused, names)
            for there, here in zip(*found):
                np.testing.assert_allclose(there, here, rtol=1e-10, atol=1e-12)

    def test_loops(self):
        """The products of a recurrent network are fused inside the loop."""
        x, w, u = T.dtensor3(), T.dmatrix(), T.dmatrix()
        h, _ = theano.scan(
            lambda now, before, w, u: T.tanh(T.dot(now, w) + T.dot(before, u)),
            sequences=x,
            outputs_info=T.zeros_like(T.dot(x[0], w)),
            non_sequences=[w, u],
        )
        values = [self.array("float64", *shape) for shape in ((4, 3, 5), (5, 6), (6, 6))]
        f = self.compiled([x, w, u], h[-1])
        (loop,) = [n.op for n in f.maker.fgraph.apply_nodes if hasattr(n.op, "fn")]
        names = [type(n.op).__name__ for n in loop.fn.maker.fgraph.apply_nodes]
        self.assertIn("GpuProductElemwise", names)
        self.assertNotIn("GpuElemwise", names)
        np.testing.assert_allclose(f(*values), theano.function([x, w, u], h[-1], mode="FAST_RUN")(*values), rtol=1e-10)

    def test_memory(self):
        """A product into memory without elements overwrites that memory, also if several products share it."""
        x, y = T.fmatrix(), T.fmatrix()
        outputs = [T.exp(3 * T.dot(x, y)), T.exp(3 * T.dot(y, x))]
        f = self.check_function([x, y], outputs, [self.array("float32", 4, 4)] * 2, 2)
        ops = [n.op for n in f.maker.fgraph.apply_nodes]
        self.assertTrue(all(op.inplace for op in ops if isinstance(op, GpuProductElemwise)))
        self.assertEqual(sum(isinstance(op, GpuAllocEmpty) for op in ops), 2)

    def test_numbers_of_the_host(self):
        x, y, s = T.fmatrix(), T.fmatrix(), T.fscalar()
        values = [self.array("float32", 4, 6), self.array("float32", 6, 3), np.float32(2.5)]
        f = self.check_function([x, y, s], [T.tanh(T.dot(x, y) ** 2 + s)], values, 1)
        (node,) = [n for n in f.maker.fgraph.apply_nodes if isinstance(n.op, GpuProductElemwise)]
        self.assertEqual([isinstance(v.type, GpuArrayType) for v in node.inputs], [True, True, False])

    def test_flag(self):
        x, y = T.fmatrix(), T.fmatrix()
        for value, fused in (("auto", 1), ("on", 1), ("off", 0)):
            with change_flags({"gpuarray.epilogue": value}):
                self.check_function([x, y], [T.exp(T.dot(x, y))], [self.array("float32", 4, 4)] * 2, fused)

    def test_same_result_each_time(self):
        """Repeated calls give the same bits."""
        x, y = gpu_variable("float32", 2), gpu_variable("float32", 2)
        f = theano.function([x, y], GpuProductElemwise(blas.gpu_dot22, scalar.tanh, 0)(x, y))
        a, b = placed(self.array("float32", 50, 200), "C"), placed(self.array("float32", 200, 70), "C")
        self.assertEqual(len({np.asarray(f(a, b)).tobytes() for _ in range(3)}), 1)

    def test_debug_mode(self):
        """Python code and kernels agree, for previous outputs of every kind."""
        x, y, v, s = T.fmatrix(), T.fmatrix(), T.fvector(), T.fscalar()
        outputs = [T.tanh(T.dot(x, y) + v), T.exp(2 * T.dot(x, y.T) * s), T.dot(x, v) ** 2 + s, T.lt(T.dot(x, y), s)]
        mode = get_mode("DebugMode").including("gpuarray")
        arrays = [self.array("float32", *[4] * rank) for rank in (2, 2, 1, 0)]
        f = theano.function([x, y, v, s], outputs, mode=mode)
        for result, right in zip(f(*arrays), theano.function([x, y, v, s], outputs, mode="FAST_COMPILE")(*arrays)):
            np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-4)

    def test_elementwise_nodes_that_stay(self):
        """Nodes with several outputs, or that overwrite an input, are left alone."""
        x, y = gpu_variable("float32", 2), gpu_variable("float32", 2)
        values = [scalar.float32() for _ in range(2)]
        two = scalar.Composite(values, [values[0] + values[1], values[0] * values[1]])
        f = self.compiled([x, y], GpuElemwise(two)(blas.gpu_dot22(x, y), x))
        self.assertEqual(self.operations(f), ["GpuDot22", "GpuElemwise"])


if __name__ == "__main__":
    unittest.main()
