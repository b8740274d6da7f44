"""Tests of nodes that only move elements: they do not take arrays from the host to a device and back."""

import itertools
import pickle
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.configparser import change_flags
from theano_ng.gpuarray.advanced_subtensor import GpuAdvancedSubtensor1
from theano_ng.gpuarray.elemwise import GpuElemwise, GpuElemwiseOfNumbers
from theano_ng.gpuarray.opt.movement import _element_inputs, only_moves
from theano_ng.gpuarray.tests.device import context, other_context
from theano_ng.gpuarray.transfers import GpuFromHost, HostFromGpu
from theano_ng.gpuarray.type import GpuArrayType, gpuarray_shared_constructor

N = 3  # all arrays of the random programs are N x N matrices

MOVES = [
    lambda a, b: a.T,
    lambda a, b: a[::-1],
    lambda a, b: a.reshape((N * N,)).reshape((N, N)),
    lambda a, b: T.alloc(a, 2, N, N)[1],
    lambda a, b: T.alloc(a[0], N, N),
    lambda a, b: T.alloc(np.float32(2), N, N),
    lambda a, b: T.eye(N, dtype="float32"),
    lambda a, b: T.join(0, a[1:], b[:1]),
    lambda a, b: T.split(T.join(1, a, b), [N, N], 2, 1)[1],
    lambda a, b: a[[2, 0, 0]],
    lambda a, b: a[[2, 0, 0], [[0], [1], [2]]],
    lambda a, b: T.set_subtensor(a[1:], b[:-1]),
    lambda a, b: T.set_subtensor(a[[0, 2]], b[:2]),
    lambda a, b: T.nlinalg.alloc_diag(T.diagonal(a)),
    lambda a, b: T.specify_shape(a, (N, N)),
    lambda a, b: T.unbroadcast(T.addbroadcast(a[:1], 0), 0)[[0, 0, 0]],
]
COMPUTES = [
    lambda a, b: T.tanh(a),
    lambda a, b: a - b,
    lambda a, b: a * a.sum(axis=0),
    lambda a, b: T.inc_subtensor(a[1:], b[:-1]),
    lambda a, b: T.dot(a, b),
]


def path_without_computation(node):
    """Return True if the elements that a transfer to the host returns came from the host, and were only moved."""
    todo = list(node.inputs)
    while todo:
        v = todo.pop()
        if v.owner is None:
            continue
        if isinstance(v.owner.op, GpuFromHost):
            return True
        if only_moves(v.owner.op):
            todo.extend(w for w in _element_inputs(v.owner) if isinstance(w.type, GpuArrayType))
    return False


class TestMovement(unittest.TestCase):
    def setUp(self):
        self.name = context()
        self.mode = get_mode("FAST_RUN").including("gpuarray")

    def nodes(self, inputs, outputs):
        return theano.function(inputs, outputs, mode=self.mode).maker.fgraph.toposort()

    def test_random_programs(self):
        """Programs that move and compute elements have no such path, and return the same values as on the host."""
        device_nodes = 0
        for seed in range(60):
            rng = np.random.default_rng(seed)
            with self.subTest(seed):
                x, y = T.fmatrices("x", "y")
                start = rng.uniform(-1, 1, (N, N)).astype("float32")
                results = []
                for placed in (False, True):
                    rng = np.random.default_rng(seed)
                    shared = gpuarray_shared_constructor(start, target=self.name) if placed else theano.shared(start)
                    values = [x, y, shared * 1 if placed else shared]
                    for _ in range(rng.integers(2, 9)):
                        table = MOVES if rng.random() < 0.75 else COMPUTES
                        step = table[rng.integers(len(table))]
                        values.append(step(values[rng.integers(len(values))], values[rng.integers(len(values))]))
                    mode = self.mode if placed else get_mode("FAST_COMPILE")
                    f = theano.function([x, y], values[3:], mode=mode, on_unused_input="ignore")
                    arguments = rng.uniform(-1, 1, (2, N, N)).astype("float32")
                    results.append([np.asarray(value) for value in f(*arguments)])
                    if placed:
                        nodes = f.maker.fgraph.toposort()
                        device_nodes += sum(isinstance(v.type, GpuArrayType) for n in nodes for v in n.outputs)
                        bad = [n for n in nodes if isinstance(n.op, HostFromGpu) and path_without_computation(n)]
                        self.assertEqual(bad, [])
                for expected, actual in zip(*results):
                    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
        self.assertGreater(device_nodes, 60)

    def test_inputs_are_sent_to_the_device_of_the_other_operands(self):
        other = other_context(self)
        w = gpuarray_shared_constructor(np.eye(N, dtype="float32"), target=other)
        x = T.fmatrix()
        for out in (T.dot(x, w), T.dot(x.transfer(other), w), x - w, T.tanh(w * x), T.dot(w, T.exp(x + w))):
            f = theano.function([x], out, mode=self.mode)
            nodes = f.maker.fgraph.toposort()
            names = {v.type.context_name for n in nodes for v in n.outputs if isinstance(v.type, GpuArrayType)}
            self.assertEqual(names, {other})
            value = np.arange(N * N, dtype="float32").reshape(N, N)
            np.testing.assert_allclose(f(value), out.eval({x: value}), rtol=1e-6)

    def test_other_readers_stay_on_the_device(self):
        """A view that a kernel and a host node read is made on both sides. The input is transferred once."""
        x = T.fmatrix()
        nodes = self.nodes([x], [T.tanh(x.T), T.nlinalg.eigh(x.T)[0]])
        transfers = [type(n.op).__name__ for n in nodes if isinstance(n.op, (GpuFromHost, HostFromGpu))]
        self.assertEqual(transfers, ["GpuFromHost", "HostFromGpu"])

    def test_parts_of_device_arrays(self):
        """Elements that are computed on the device are moved there, so that only the result is transferred."""
        x, i = T.fmatrix(), T.lvector()
        nodes = self.nodes([x, i], T.tanh(x)[i][1:].T)
        self.assertEqual([i for i, n in enumerate(nodes) if isinstance(n.op, HostFromGpu)], [len(nodes) - 1])

    def test_a_table_on_the_device(self):
        """A lookup by indices from the host does not transfer the table."""
        table = gpuarray_shared_constructor(np.ones((1000, 3), "float32"), target=self.name)
        i = T.lvector()
        nodes = self.nodes([i], table[i])
        returned = [n.inputs[0] for n in nodes if isinstance(n.op, HostFromGpu)]
        self.assertEqual([type(v.owner and v.owner.op) for v in returned], [GpuAdvancedSubtensor1])

    def test_numbers(self):
        """Numbers from the host are combined on the host. The kernel receives the result by value, without a transfer."""
        x, n, s = T.fmatrix(), T.lscalar(), T.fscalar()
        f = theano.function([x, n, s], T.tanh(x) * (T.exp(s) / T.cast(n, "float32") + 1), mode=self.mode)
        nodes = f.maker.fgraph.toposort()
        self.assertEqual(sum(isinstance(n.op, GpuFromHost) for n in nodes), 1)
        self.assertEqual(sum(isinstance(n.op, GpuElemwise) for n in nodes), 1)
        value = np.ones((2, 3), "float32")
        np.testing.assert_allclose(f(value, 4, 0.5), np.tanh(value) * (np.exp(0.5) / 4 + 1), rtol=1e-6)
        # A result is transferred before it is combined with numbers from the host.
        mean = theano.function([x, n], -(x.sum() / T.cast(n, "float32")), mode=self.mode)
        self.assertEqual(sum(isinstance(n.op, GpuFromHost) for n in mean.maker.fgraph.toposort()), 1)
        self.assertEqual([k for k in mean.maker.fgraph.toposort() if isinstance(k.op, GpuElemwise)], [])
        np.testing.assert_allclose(mean(value, 4), -6 / 4, rtol=1e-6)
        # A division of integers by zero raises an error on the host, and gives 0 on devices.
        m = T.lscalar()
        g = theano.function([x, n, m], T.tanh(x) + T.cast(n // m, "float32"), mode=self.mode)
        np.testing.assert_allclose(g(value, 7, 2), np.tanh(value) + 3, rtol=1e-6)


class TestNumbers(unittest.TestCase):
    def setUp(self):
        context()
        self.mode = get_mode("FAST_RUN").including("gpuarray")
        self.rng = np.random.default_rng(3)

    def test_dtypes(self):
        """Numbers of each dtype are passed by value, to kernels for contiguous and for strided arrays."""
        for dtype, of_number in itertools.product(("float16", "float64", "int8", "int64", "bool", "uint16"), repeat=2):
            x, s = T.matrix(dtype=dtype), T.scalar(dtype=of_number)
            outputs = [T.switch(T.neq(x, 0), x, s), T.switch(T.neq(x[:, ::2].T, 0), s, x[:, ::2].T)]
            f = theano.function([x, s], outputs, mode=self.mode)
            g = theano.function([x, s], outputs, mode="FAST_COMPILE")
            ops = [type(n.op) for n in f.maker.fgraph.toposort()]
            self.assertIn(GpuElemwiseOfNumbers, ops)
            for shape in ((4, 5), (1, 1), (0, 2), (3, 300)):
                value, number = self.rng.uniform(-3, 3, shape).astype(dtype), np.asarray(2.6).astype(of_number)
                with self.subTest(dtype=dtype, number=of_number, shape=shape):
                    for result, expected in zip(f(value, number), g(value, number)):
                        np.testing.assert_array_equal(result, expected)

    def test_in_place_and_copies(self):
        """A function with numbers works in place, and can be copied, pickled and compiled in DebugMode."""
        x, s = T.fmatrix(), T.fscalar()
        output = T.exp(x * 2) * s + T.cast(x.shape[0], "float32")
        value = self.rng.uniform(-1, 1, (3, 4)).astype("float32")
        expected = np.exp(value * 2) * 1.5 + 3
        f = theano.function([x, s], output, mode=self.mode)
        debug = get_mode("DebugMode").including("gpuarray")
        for function in (f, f.copy(), pickle.loads(pickle.dumps(f)), theano.function([x, s], output, mode=debug)):
            for _ in range(2):
                result = function(value, 1.5)  # a copy returns a list
                np.testing.assert_allclose(np.reshape(result, (3, 4)), expected, rtol=1e-6)

    def test_numbers_that_the_host_overwrites(self):
        """A number that a node on the host overwrites stays on the device. Other numbers of the node do not."""
        a, b, c, x = *T.fscalars("abc"), T.fmatrix()
        product = a * b
        power = T.exp(product)  # computed in the memory of the product
        with change_flags(on_opt_error="raise"):
            f = theano.function([a, b, c, x], [T.maximum(x * product - power, c), power], mode=self.mode)
        (node,) = [n for n in f.maker.fgraph.toposort() if isinstance(n.op, GpuElemwise)]
        self.assertIsInstance(node.op, GpuElemwiseOfNumbers)
        value = self.rng.uniform(-1, 1, (3, 4)).astype("float32")
        result, last = f(2, 0.25, -1.5, value)
        np.testing.assert_allclose(last, np.exp(0.5), rtol=1e-6)
        np.testing.assert_allclose(result, np.maximum(value * 0.5 - np.exp(0.5), -1.5), rtol=1e-5)

    def test_random_programs(self):
        """Numbers that are computed from each other, used by kernels, returned and written to shared variables."""
        for _ in range(40):
            numbers = list(T.fscalars("abc"))
            start = len(numbers)
            for _ in range(self.rng.integers(2, 6)):
                make = [T.exp, T.tanh, T.sqr, T.neg, T.add, T.mul][self.rng.integers(6)]
                chosen = [numbers[k] for k in self.rng.integers(len(numbers), size=2)]
                numbers.append(make(*chosen) if make in (T.add, T.mul) else make(chosen[0]))
            x = T.fmatrix()
            matrix, outputs = x, []
            for k in self.rng.integers(start, len(numbers), size=3):
                matrix = T.tanh(matrix * numbers[k] - numbers[self.rng.integers(len(numbers))])
                outputs += [matrix, numbers[k]] if self.rng.integers(2) else [matrix]
            state = [theano.shared(np.ones((2, 3), "float32")) for _ in range(2)]
            new = [s * numbers[self.rng.integers(start, len(numbers))] for s in state]
            inputs = [*numbers[:start], x]
            with change_flags(on_opt_error="raise", on_unused_input="ignore"):
                f = theano.function(inputs, outputs, updates=list(zip(state, new)), mode=self.mode)
                g = theano.function(inputs, outputs + new, mode="FAST_COMPILE")
            values = [*self.rng.uniform(-1, 1, 3).astype("float32"), self.rng.uniform(-1, 1, (2, 3)).astype("float32")]
            for _ in range(2):
                expected = g(*values)
                results = f(*values) + [s.get_value() for s in state]
                for result, right in zip(results, expected):
                    np.testing.assert_allclose(result, right, rtol=1e-5, atol=1e-6)

    def test_wrong_values(self):
        """A value that is no number raises an error, and the function works afterwards."""
        x, s = T.fmatrix(), T.TensorType("float32", (True, True))()
        f = theano.function([x, s], T.tanh(x) * s, mode=self.mode)
        value = np.ones((3, 4), "float32")
        for _ in range(2):
            with self.assertRaises((TypeError, ValueError)):
                f(value, np.ones((2, 1), "float32"))
            np.testing.assert_allclose(f(value, np.full((1, 1), 2, "float32")), 2 * np.tanh(value), rtol=1e-6)


if __name__ == "__main__":
    unittest.main()
