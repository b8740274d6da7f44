"""Tests of expressions of every kind: their Ops on a device, and results equal to those of the host."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Constant
from theano_ng.gof.graph import inputs as inputs_of
from theano_ng.gpuarray.tests.device import context
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.ifelse import ifelse

MODE = get_mode("FAST_RUN").including("gpuarray")
HOST = get_mode("FAST_RUN").excluding("gpuarray")

x, y, c = T.dmatrix("x"), T.dmatrix("y"), T.TensorType("float64", (False,) * 3)("c")
v, i, s = T.dvector("v"), T.lvector("i"), T.iscalar("s")
w = x * 2  # an expression that is computed on the device

# Pairs: an expression, and the Ops that compute it on the device. GpuElemwise, GpuDimShuffle and transfers are omitted.
ELEMENTWISE = [
    ((x + y) * v, ""),
    (T.switch(x > 0, x, y), ""),
    ((i // 2) + i, ""),
    (T.erfinv(x * 0.9), ""),
    (T.round(x * 10), ""),
    (theano.grad((T.tanh(x) * y).sum(), x), ""),
    (x.T + 1, ""),
    (x.dimshuffle(0, "x", 1) * 2, ""),
    (T.arange(5) + v, ""),
]
REDUCTIONS = [
    (x.sum(0), "GpuCAReduceCuda"),
    (x.mean(1), "GpuCAReduceCuda"),
    (x.prod(1), "GpuCAReduceCuda"),
    (x.min(), "GpuCAReduceCuda"),
    (T.all(x > 0, axis=0), "GpuCAReduceCuda"),
    (T.any(x > 0), "GpuCAReduceCuda"),
    (x.norm(2), "GpuCAReduceCuda"),
    (x.argmax(1), "GpuMaxAndArgmax"),
    (T.cumsum(w, axis=1), "GpuCumOp"),
    (T.cumprod(w), "GpuReshape GpuCumOp"),
]
SHAPES = [
    (w.reshape((2, 10)), "GpuReshape"),
    ((c * 2).flatten(2), "GpuReshape"),
    (w.shape, ""),
    (T.specify_shape(w, (4, 5)) * 3, "SpecifyShape"),
    (T.concatenate([w, y], axis=1) * 2, "GpuJoin"),
    (T.split(w, [2, 3], 2, axis=1)[1], "GpuSplit"),
    (T.alloc(v * 2, 3, 5), "GpuAlloc"),
    (T.diag(w[:, :4]), "GpuExtractDiag"),
    (T.diag(v * 2), "GpuAllocDiag"),
    (ifelse(s > 0, w, y * 3), "IfElse"),
]
INDICES = [
    (w[s], ""),  # only this row is transferred
    (T.exp(w)[1:, ::-1] + w.sum(), "GpuSubtensor GpuCAReduceCuda"),
    (T.inc_subtensor(w[1:], y[1:] + y.sum()), "GpuIncSubtensor GpuSubtensor GpuCAReduceCuda"),
    (T.set_subtensor(w[:, s], v[:4] * v.sum()), "GpuIncSubtensor GpuSubtensor GpuCAReduceCuda"),
    (w[i], "GpuAdvancedSubtensor1"),
    (w[i, i], "GpuAdvancedSubtensor"),
    (w[x > 0], "GpuAdvancedBooleanSubtensor"),
    (T.inc_subtensor(w[i], T.exp(v)), "GpuAdvancedIncSubtensor1"),
    (T.inc_subtensor(w[i, i], 1.0), "GpuAdvancedIncSubtensor"),
    (T.inc_subtensor(w[x > 0], 5.0), "GpuAdvancedBooleanIncSubtensor"),
]

VALUES = {x: (4, 5), y: (4, 5), c: (2, 3, 4), v: (5,), i: np.array([2, 0, 2]), s: np.int32(1)}
PLAIN = {"GpuElemwise", "GpuElemwiseOfNumbers", "GpuDimShuffle", "GpuFromHost", "HostFromGpu"}


class TestRows(unittest.TestCase):
    def setUp(self):
        context()
        rng = np.random.default_rng(1)
        self.values = {k: rng.uniform(-1, 1, n) if isinstance(n, tuple) else n for k, n in VALUES.items()}

    def check(self, rows):
        outputs = [row for row, _ in rows]
        for row, expected in rows:
            fgraph = FunctionGraph([u for u in inputs_of([row]) if not isinstance(u, Constant)], [row], clone=True)
            # Exclude `add_destroy_handler`, which needs a graph that belongs to a function.
            MODE.excluding("add_destroy_handler").optimizer.optimize(fgraph)
            found = {
                type(node.op).__name__
                for node in fgraph.apply_nodes
                if any(isinstance(u.type, GpuArrayType) for u in [*node.inputs, *node.outputs])
            }
            with self.subTest(row=str(row)):
                self.assertEqual(found - PLAIN, set(expected.split()))
        needed = set(inputs_of(outputs))
        inputs = [u for u in self.values if u in needed]
        here, there = [theano.function(inputs, outputs, mode=mode) for mode in (MODE, HOST)]
        values = [self.values[u] for u in inputs]
        for row, result, expected in zip(outputs, here(*values), there(*values)):
            with self.subTest(numbers=str(row)):
                self.assertEqual((result.dtype, result.shape), (expected.dtype, expected.shape))
                np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)

    def test_elementwise(self):
        self.check(ELEMENTWISE)

    def test_reductions(self):
        self.check(REDUCTIONS)

    def test_shapes(self):
        self.check(SHAPES)

    def test_flattened_arrays_without_elements(self):
        tensor = T.dtensor3("tensor")
        f = theano.function([tensor], (tensor * 2).flatten(2), mode=MODE)
        for shape in ((0, 3, 2), (2, 0, 3), (2, 3, 0)):
            self.assertEqual(f(np.ones(shape)).shape, (shape[0], shape[1] * shape[2]))

    def test_indices(self):
        self.check(INDICES)
