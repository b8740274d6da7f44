"""Tests of the fusion of reductions of rows with elementwise operations on devices."""

import copy
import pickle
import random
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.configdefaults import config
from theano_ng.gpuarray.row_program import GpuRowProgram
from theano_ng.gpuarray.tests.device import LAYOUTS, context, placed
from theano_ng.gpuarray.type import GpuArrayType, gpuarray_shared_constructor
from theano_ng.tensor.tests import test_row_fusion

TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "float16": 3e-2}


def programs_of(f):
    return [node for node in f.maker.fgraph.toposort() if isinstance(node.op, GpuRowProgram)]


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
        for seed in range(60):
            choose = random.Random(seed)
            dtype, rank = choose.choice(["float64", "float64", "float32"]), choose.choice([2, 2, 3])
            inputs, outputs = test_row_fusion.TestGenerated().generated(choose, dtype, rank)
            if not outputs:
                continue
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
