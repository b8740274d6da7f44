"""Tests of nodes that only move elements: they do not take arrays from the host to a device and back."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.gpuarray.advanced_subtensor import GpuAdvancedSubtensor1
from theano_ng.gpuarray.opt.movement import _element_inputs, only_moves
from theano_ng.gpuarray.tests.device import context
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


if __name__ == "__main__":
    unittest.main()
