"""Tests of the fusion of elementwise nodes whose results are all needed, and of kernels that write into slices."""

import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.configdefaults import config
from theano_ng.gpuarray.elemwise import GpuElemwise, GpuElemwiseInSlices
from theano_ng.gpuarray.tests.device import context, gpu_variable, placed
from theano_ng.gpuarray.type import gpuarray_shared_constructor
from theano_ng.ifelse import ifelse

UNARY = (T.tanh, T.sin, abs, T.nnet.sigmoid, T.sqr, lambda x: T.exp(-abs(x)), lambda x: -x)
BINARY = (T.add, T.sub, T.mul, T.maximum, lambda x, y: T.switch(x > y, x, y / 2), lambda x, y: x / (1 + abs(y)))


def in_slices(f):
    return [n for n in f.maker.fgraph.toposort() if isinstance(n.op, GpuElemwiseInSlices)]


def on_device(*without):
    return get_mode("FAST_RUN").including("gpuarray").excluding(*without)


def elementwise(f):
    return [n for n in f.maker.fgraph.toposort() if isinstance(n.op, GpuElemwise)]


class Fusion(unittest.TestCase):
    def setUp(self):
        context()
        flags = config.change_flags(on_opt_error="raise")
        flags.__enter__()
        self.addCleanup(flags.__exit__)
        self.rng = np.random.default_rng(8)

    def array(self, *shape, dtype="float32"):
        return self.rng.normal(size=shape).astype(dtype)

    def check(self, inputs, outputs, values, count=None, rtol=1e-5, without=()):
        """Compare a function on the device with the function on the host; check the number of elementwise nodes."""
        f = theano.function(inputs, outputs, mode=on_device(*without), on_unused_input="ignore")
        g = theano.function(inputs, outputs, mode="FAST_COMPILE", on_unused_input="ignore")
        for result, expected in zip(f(*values), g(*values)):
            np.testing.assert_allclose(result, expected, rtol=rtol, atol=rtol)
        if count is not None:
            self.assertEqual(len(elementwise(f)), count, f.maker.fgraph)
        return f


class TestFusion(Fusion):
    def test_gates(self):
        """The gates of an LSTM, and all values that its gradient needs, are one node."""
        gates, cell = T.fmatrix(), T.fmatrix()
        forget, enter, leave = [T.nnet.sigmoid(gates[:, 4 * k : 4 * k + 4]) for k in range(3)]
        candidate = T.tanh(gates[:, 12:])
        new = forget * cell + enter * candidate
        outputs = [new, leave * T.tanh(new), forget, enter, leave, candidate]
        f = self.check([gates, cell], outputs, [self.array(3, 16), self.array(3, 4)], 1)
        (node,) = elementwise(f)
        self.assertEqual(len(node.outputs), 6)

    def test_adam(self):
        """The three updates of Adam are one node, which works in place."""
        values = [self.array(5, 7) for _ in range(3)]
        results = []
        for make, mode in ((theano.shared, get_mode("FAST_RUN")), (gpuarray_shared_constructor, on_device())):
            p, mean, square = [make(v.copy()) for v in values]
            g, rate = T.fmatrix(), np.float32(0.1)
            gradient = T.dot(g, p)
            new_mean = np.float32(0.9) * mean + rate * gradient
            new_square = np.float32(0.9) * abs(square) + rate * gradient**2
            step = new_mean / (T.sqrt(new_square) + np.float32(1e-3))
            updates = [(mean, new_mean), (square, new_square), (p, p - rate * step)]
            f = theano.function([g], [], updates=updates, mode=mode)
            for _ in range(3):
                f(np.eye(5, dtype="float32"))
            results.append([v.get_value() for v in (p, mean, square)])
        for here, there in zip(*results):
            np.testing.assert_allclose(there, here, rtol=1e-5, atol=1e-6)
        (node,) = elementwise(f)
        # Each new value overwrites the old value of the same variable.
        targets = {
            f.maker.fgraph.outputs[o]: f.maker.fgraph.inputs[i] for o, i in f.maker.fgraph.update_mapping.items()
        }
        for k, place in node.op.inplace_pattern.items():
            self.assertIs(node.inputs[place], targets.pop(node.outputs[k]))
        self.assertEqual(targets, {})

    def test_path_through_another_node(self):
        """Nodes are not joined if a path leads from one to the other through a node of another kind."""
        x, y = T.fmatrix(), T.fmatrix()
        first = T.tanh(x)
        second = T.exp(x) * T.cumsum(first, axis=0)
        self.check([x, y], [first, second], [self.array(4, 4), self.array(4, 4)], 2)
        # With a third node that reads x, one group is possible, either with the first or with the second node.
        third = T.cos(x)
        self.check([x, y], [first, second, third], [self.array(4, 4), self.array(4, 4)], 2)

    def test_paths_through_groups(self):
        """Two groups must not depend on each other. Here each group could contain a node that reads the other."""
        a, b = T.fmatrix(), T.fmatrix()
        a1, b1 = T.tanh(a), T.tanh(b)
        a2, b2 = T.sin(a) + T.dot(b1, b1), T.sin(b) + T.dot(a1, a1)
        self.check([a, b], [a1, b1, a2, b2], [self.array(3, 3), self.array(3, 3)])

    def test_products_are_not_contracted(self):
        """A stored product is the product that its reader uses, also if a compiler could contract the reader."""
        x, y, z = [T.fvector() for _ in range(3)]
        product = x * y
        f = theano.function([x, y, z], [product, product + z, abs(product - z)], mode=on_device())
        values = [self.array(1000) for _ in range(3)]
        stored, added, difference = f(*values)
        np.testing.assert_array_equal(added, stored + values[2])
        np.testing.assert_array_equal(difference, abs(stored - values[2]))
        self.assertEqual(len(elementwise(f)), 2)  # NVRTC contracts, PoCL does not

    def test_limits(self):
        x, v = T.fmatrix(), T.fmatrix()
        outputs = [T.tanh(x * np.float32(k)) for k in range(20)]
        f = self.check([x], outputs, [self.array(3, 4)])
        self.assertLessEqual(max(len(n.outputs) for n in elementwise(f)), 8)
        self.assertLessEqual(len(elementwise(f)), 4)
        row = T.frow()  # a broadcast input does not show that shapes are equal
        outputs = [T.tanh(x + row), T.exp(v + row)]
        self.check([x, v, row], outputs, [self.array(3, 4), self.array(5, 4), self.array(1, 4)], 2)
        other = T.dmatrix()
        self.check([x, other], [T.tanh(x), T.exp(x) + other], [self.array(3, 4), self.array(3, 4, dtype="float64")], 1)

    def test_flag(self):
        x = T.fmatrix()
        with config.change_flags({"gpu.local_elemwise_fusion": False}):
            f = theano.function([x], [T.tanh(x), T.exp(x)], mode=on_device())
        self.assertEqual(len(elementwise(f)), 2)

    def test_conditionals(self):
        """Nodes are not joined if one of them may be needed without the other. (A node that overwrites its input needs all
        other readers of the input, so in-place nodes are excluded here.)
        """
        c, d = T.iscalar(), T.iscalar()
        x, y, z = [T.fmatrix() for _ in range(3)]
        first, second = T.exp(x) + y, T.sin(x) * z
        right, wrong = self.array(2, 3), self.array(4, 3)
        one, two = [1, 0, right, right, wrong], [0, 0, right, wrong, right]
        for outputs, calls, count in (
            ([ifelse(c, first, second)], [one, two], 2),
            ([second, ifelse(c, first, x)], [two], 2),
            ([second, ifelse(c, first, x), ifelse(d, x, first)], [[0, 1, *two[2:]]], 2),
            ([ifelse(c, x, ifelse(d, first, second))], [two, [0, 1, *one[2:]], [1, 0, right, wrong, wrong]], 2),
            ([ifelse(c, first + second, x)], [[0, 0, right, wrong, wrong]], 1),
            (
                [ifelse(c, [first, second], [x, y])[0], ifelse(T.eq(c, 0), first, x)],
                [[1, 0, right, right, right]],
                None,
            ),
        ):
            for values in calls:
                self.check([c, d, x, y, z], outputs, values, count, without=("inplace",))

    def test_generated_graphs(self):
        """Random graphs give the results of the host. Their nodes are elementwise, products, sums and views."""
        for dtype, seed in itertools.product(("float64", "float32"), range(12)):
            rng = np.random.default_rng(seed)
            square, row, number = T.matrix(dtype=dtype), T.row(dtype=dtype), T.scalar(dtype=dtype)
            pool = [square, square.T]
            for _ in range(rng.integers(6, 25)):
                kind, x = rng.integers(0, 10), pool[rng.integers(len(pool))]
                y = [*pool, row, number][rng.integers(len(pool) + 2)]
                if kind < 3:
                    new = UNARY[rng.integers(len(UNARY))](x)
                elif kind < 8:
                    new = BINARY[rng.integers(len(BINARY))](x, y)
                else:
                    new = (T.tanh(T.dot(x, x)), x.T, x + x.sum(axis=0), x[::-1])[rng.integers(4)]
                pool.append(new)
            outputs = [pool[k] for k in sorted(set(rng.integers(2, len(pool), 6)))]
            values = [rng.normal(size=(5, 5)), rng.normal(size=(1, 5)), rng.normal()]
            values = [np.asarray(v, dtype) for v in values]
            with self.subTest(dtype=dtype, seed=seed):
                self.check([square, row, number], outputs, values, rtol=1e-3 if dtype == "float32" else 1e-9)


class TestSlices(Fusion):
    def set_slices(self, x, lengths, slices, axis=1):
        """Return an array of zeros in whose slices along an axis elementwise results are set."""
        array = T.zeros(lengths, x.dtype)
        for k, bounds in enumerate(slices):
            index = (slice(None),) * axis + (slice(*bounds),)
            array = T.set_subtensor(array[index], UNARY[k](x))
        return T.cumsum(array, axis=axis)  # an Op that computes on the device

    def test_applied(self):
        """Slices that do not overlap are set by one kernel, which also computes results in no slice."""
        x = T.fmatrix()
        for slices in (
            [(0, 3), (3, 6), (6, 9)],
            [(6, None), (0, 3), (3, 6)],
            [(0, 3), (5, 8), (8, 9)],
            [(1, 4), (5, 8)],
        ):
            lengths = (x.shape[0], 9)
            if slices[2:] == [(8, 9)]:  # the result of the third slice has one column
                array = self.set_slices(x, lengths, slices[:2])
                slices = slices[:2]
            array = self.set_slices(x, lengths, slices)
            f = self.check([x], [array, T.tanh(x) * T.exp(x)], [self.array(4, 3)])
            (node,) = in_slices(f)
            self.assertEqual(len(node.outputs), 2)
            self.assertEqual(elementwise(f), [])
        y = T.ftensor3()
        f = self.check(
            [y], [self.set_slices(y, (7, y.shape[1], y.shape[2]), [(4, 7), (0, 3)], axis=0)], [self.array(3, 2, 5)]
        )
        self.assertEqual(len(in_slices(f)), 1)

    def test_gradients_of_gates(self):
        x = T.dmatrix()
        gates = [x[:, :4], x[:, 4:8], x[:, 8:]]
        cost = (T.nnet.sigmoid(gates[0]) * T.tanh(gates[1]) * T.exp(-gates[2])).sum()
        f = self.check([x], [T.cumsum(T.grad(cost, x), axis=0)], [self.array(3, 12, dtype="float64")], rtol=1e-12)
        self.assertEqual(len(in_slices(f)), 1)

    def test_not_applied(self):
        """Overlapping slices, other axes, steps, and values or arrays with other readers."""
        x = T.fmatrix()
        wide = (x.shape[0], 9)
        value = T.tanh(x)
        stepped = T.set_subtensor(T.zeros(wide, "float32")[:, 0:6:2], value)
        other = T.set_subtensor(T.set_subtensor(T.zeros((9, 9), "float32")[:4, 0:3], value)[:, 3:6], 1)
        twice = T.set_subtensor(T.set_subtensor(T.zeros(wide, "float32")[:, 0:3], value)[:, 3:6], value)
        cases = [[self.set_slices(x, wide, [(0, 3), (2, 5)])], *[[T.cumsum(a)] for a in (stepped, other, twice)]]
        for outputs in cases:
            f = self.check([x], outputs, [self.array(4, 3)])
            self.assertEqual(in_slices(f), [])
        start = T.set_subtensor(T.zeros(wide, "float32")[:, 0:3], value)
        both = T.set_subtensor(start[:, 3:6], T.exp(x))
        added = T.inc_subtensor(start[:, 0:3], T.exp(x))
        for outputs in ([both, T.cumsum(start)], [T.cumsum(both), T.cumsum(start)], [T.cumsum(added)]):
            self.check([x], outputs, [self.array(4, 3)])

    def test_lengths(self):
        """The lengths of the array may cut off slices. Values broadcast to slices, or raise the error of the host."""
        x, n = T.fmatrix(), T.lscalar()
        array = self.set_slices(x, (3, n), [(0, 4), (4, 8)])
        f = theano.function([x, n], array, mode=on_device())
        g = theano.function([x, n], array, mode="FAST_COMPILE")
        self.assertEqual(len(in_slices(f)), 1)
        for shape, length in (
            ((3, 4), 8),
            ((3, 4), 11),
            ((3, 1), 5),
            ((1, 4), 8),
            ((1, 1), 3),
            ((1, 1), 0),
            ((3, 4), 7),
            ((2, 4), 8),
        ):
            value = self.array(*shape)
            with self.subTest(shape=shape, length=length):
                try:
                    expected = g(value, length)
                except ValueError:
                    with self.assertRaises(ValueError):
                        f(value, length)
                else:
                    np.testing.assert_allclose(f(value, length), expected, rtol=1e-5, atol=1e-6)
        with self.assertRaises(ValueError):
            f(self.array(3, 4), -1)

    def test_no_elements(self):
        """An array without rows has slices with columns, whose places are behind the end of its memory."""
        x = T.dmatrix()
        cost = (T.nnet.sigmoid(x[:, :4]) * T.tanh(x[:, 4:8]) * T.exp(-x[:, 8:])).sum()
        f = self.check([x], [T.cumsum(T.grad(cost, x), axis=0)], [self.array(0, 12, dtype="float64")])
        self.assertEqual(len(in_slices(f)), 1)
        y = T.fmatrix()
        f = self.check([y], [self.set_slices(y, (9, y.shape[1]), [(5, 8), (2, 5)], axis=0)], [self.array(3, 0)])
        self.assertEqual(len(in_slices(f)), 1)

    def test_op(self):
        """The Op has derivatives and a shape, and Python code with the same results."""
        a, b = theano.scalar.float64("a"), theano.scalar.float64("b")
        scalar_op = theano.scalar.Composite([a, b], [a * b, a + b, a - b])
        op = GpuElemwiseInSlices(scalar_op, 1, [(0, 2), None, (2, 4)])
        x, y = gpu_variable("float64", 2), gpu_variable("float64", 2)
        values = self.array(3, 2, dtype="float64"), self.array(3, 2, dtype="float64")
        array, plain = op(3, 5, x, y)
        expected = np.zeros((3, 5))
        expected[:, :2], expected[:, 2:4] = values[0] * values[1], values[0] - values[1]
        for linker in ("vm", "py"):
            f = theano.function([x, y], [array, plain, array.shape], mode=theano.Mode(linker, "fast_compile"))
            found = f(*[placed(v, "C") for v in values])
            for result, right in zip(found, (expected, values[0] + values[1], (3, 5))):
                np.testing.assert_allclose(np.asarray(result), right)
        a, b, u, w = [T.dmatrix() for _ in range(4)]
        moved = [theano.gpuarray.basic_ops.as_gpuarray_variable(v, "test") for v in (a, b)]
        array, plain = [theano.gpuarray.basic_ops.host_from_gpu(v) for v in op(3, 5, *moved)]
        cost = (array**2).sum() + T.exp(plain).sum()
        plainly = ((a * b) ** 2).sum() + ((a - b) ** 2).sum() + T.exp(a + b).sum()
        directions = [self.array(3, 2, dtype="float64") for _ in range(2)]
        for given, right in (
            (T.grad(cost, [a, b]), T.grad(plainly, [a, b])),
            ([T.Rop(cost, [a, b], [u, w])], [T.Rop(plainly, [a, b], [u, w])]),
        ):
            results = theano.function([a, b, u, w], [*given, *right], on_unused_input="ignore")(*values, *directions)
            half = len(results) // 2
            for result, expected in zip(results[:half], results[half:]):
                np.testing.assert_allclose(result, expected, rtol=1e-10)
        with self.assertRaisesRegex(TypeError, "must have one type"):
            GpuElemwiseInSlices(theano.scalar.exp, 1, [None])(3, 5, x)
