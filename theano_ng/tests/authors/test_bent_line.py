"""Tests of BentLine."""

import math
import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.tests import unittest_tools as utt
from theano_ng.tests.authors.bent_line import BentLine
from theano_ng.tests.authors.ways import BothWays, layouts, special
from theano_ng.tests.test_rop import RopLop_checker

SHAPES = "linear exponential logarithmic".split()


def expected(x, alpha, shape):
    """Return the right value for a number x."""
    if x >= 0 or math.isnan(x):
        return x
    if alpha == 0:
        return 0.0
    return {"linear": lambda: alpha * x, "exponential": lambda: alpha * math.expm1(x)}.get(
        shape, lambda: -alpha * math.log1p(-x)
    )()


class TestBentLine(utt.InferShapeTester):
    def test_values(self):
        for dtype in ("float64", "float32"):
            values = special(dtype)
            for shape in SHAPES:
                for alpha in (0.3, -2.0, 0.0):
                    op = BentLine(alpha, shape)
                    (y,) = BothWays(op, T.vector(dtype=dtype), ulps=4)(values)
                    right = np.array([expected(float(x), op.alpha, shape) for x in values]).astype(dtype)
                    np.testing.assert_allclose(y, right, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).tiny)
                    (mirrored,) = BothWays(BentLine(alpha, shape, True), T.vector(dtype=dtype), ulps=4)(-values)
                    np.testing.assert_array_equal(mirrored, -y)

    def test_layouts(self):
        both = BothWays(BentLine(0.5, "exponential"), T.dmatrix(), ulps=4)
        for shape in ((3, 4), (0, 3), (1, 5), (1, 1)):
            for x in layouts(np.random.uniform(-3, 3, shape)):
                both(x)
        BothWays(BentLine(0.5), T.fscalar(), ulps=4)(np.array(-3, "float32"))
        BothWays(BentLine(0.5), T.dtensor3(), ulps=4)(np.random.uniform(-3, 3, (4, 3, 2)).transpose(1, 2, 0))

    def test_shape(self):
        x = T.matrix()
        self._compile_and_check([x], [BentLine()(x)], [np.ones((3, 4), theano.config.floatX)], BentLine)

    def test_gradient(self):
        point = np.array([[-3.0, -0.5], [0.25, 2.0]])
        for shape in SHAPES:
            for alpha, mirrored in ((0.3, False), (-2.0, True), (0.0, False)):
                utt.verify_grad(BentLine(alpha, shape, mirrored), [point])
        x = T.dvector()
        for shape in SHAPES:  # values that overflow on the side that is not chosen
            y = BentLine(0.5, shape)(x)
            first = T.grad(y.sum(), x)
            values = theano.function([x], [first, T.grad(first.sum(), x)])(np.array([1.0, 1000.0, 0.0]))
            np.testing.assert_array_equal(values, [[1, 1, 1], [0, 0, 0]])

    def test_arguments(self):
        self.assertEqual(BentLine(-0.0), BentLine(0))
        self.assertEqual(hash(BentLine(1)), hash(BentLine(1.0)))
        self.assertEqual(pickle.loads(pickle.dumps(BentLine(2))), BentLine(2))
        self.assertNotEqual(BentLine(1), BentLine(1, mirrored=True))
        self.assertNotEqual(BentLine(1), BentLine(1, "exponential"))
        self.assertRaises(ValueError, BentLine, np.nan)
        self.assertRaises(ValueError, BentLine, 1, "round")
        for bad in (T.lvector(), T.zvector(), T.vector(dtype="float16")):
            self.assertRaisesRegex(TypeError, "float32 or float64", BentLine(), bad)


class TestRop(RopLop_checker):
    def test_rop(self):
        for shape in SHAPES:
            self.check_rop_lop(BentLine(0.3, shape, True)(self.x - 0.5), self.in_shape)


if __name__ == "__main__":
    unittest.main()
