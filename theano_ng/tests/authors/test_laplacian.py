"""Tests of Laplacian."""

import itertools
import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.tests import unittest_tools as utt
from theano_ng.tests.authors.laplacian import Laplacian
from theano_ng.tests.authors.ways import BothWays, layouts, special
from theano_ng.tests.test_rop import RopLop_checker

BOUNDARIES = "zero periodic insulated".split()


def expected(x, weights, boundary):
    """Return the right value for an array, as the sum of products with three matrices."""
    total = np.zeros(x.shape)
    for axis, weight in enumerate(weights):
        n = x.shape[axis]
        matrix = -2.0 * np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1)
        if n and boundary == "periodic":
            matrix[0, -1] += 1
            matrix[-1, 0] += 1
        elif n and boundary == "insulated":
            matrix[0, 0] += 1
            matrix[-1, -1] += 1
        total += weight * np.moveaxis(np.tensordot(matrix, x.astype("float64"), (1, axis)), 0, axis)
    return total


class TestLaplacian(utt.InferShapeTester):
    def test_values(self):
        for dtype, boundary, openmp in itertools.product(("float64", "float32"), BOUNDARIES, (False, True)):
            for weights in ((1, 1, 1), (0.5, -2, 3)):
                both = BothWays(Laplacian(weights, boundary, openmp), T.tensor3(dtype=dtype))
                for shape in ((2, 3, 4), (1, 1, 1), (2, 2, 2), (1, 5, 1), (0, 3, 2), (3, 0, 2), (3, 2, 0), (67, 3, 5)):
                    x = np.random.normal(size=shape).astype(dtype)
                    (y,) = both(x)
                    right = expected(x, weights, boundary)
                    np.testing.assert_allclose(y, right, rtol=20 * np.finfo(dtype).eps, atol=40 * np.finfo(dtype).eps)

    def test_layouts_and_special_values(self):
        for boundary, openmp in itertools.product(BOUNDARIES, (False, True)):
            both = BothWays(Laplacian((1, 2, 3), boundary, openmp), T.dtensor3())
            for x in layouts(np.random.normal(size=(3, 4, 5))):
                both(x)
            both(np.random.normal(size=(3, 4, 5)).transpose(2, 0, 1))
            for dtype in ("float64", "float32"):
                values = np.resize(special(dtype), (3, 3, 3 * special(dtype).size))
                BothWays(Laplacian((1, 0, 0.5), boundary, openmp), T.tensor3(dtype=dtype))(values)

    def test_threads(self):
        both = BothWays(Laplacian(openmp=True), T.dtensor3())
        for _ in range(5):
            both(np.random.normal(size=(64, 16, 64)))

    def test_shape(self):
        x = T.tensor3()
        value = np.ones((3, 4, 5), theano.config.floatX)
        self._compile_and_check([x], [Laplacian()(x)], [value], Laplacian)

    def test_gradient(self):
        for boundary in BOUNDARIES:
            for shape in ((2, 3, 4), (1, 2, 1)):
                utt.verify_grad(Laplacian((0.5, -1, 2), boundary), [np.random.normal(size=shape)])
        utt.verify_grad(lambda x: Laplacian()(T.addbroadcast(x, 0)), [np.random.normal(size=(1, 3, 2))])

    def test_arguments(self):
        ops = {
            Laplacian(openmp=False),
            Laplacian((1, 1, 2), openmp=False),
            Laplacian(boundary="periodic", openmp=False),
        }
        self.assertEqual(len(ops), 3)
        self.assertEqual(Laplacian([1, -0.0, 2]), Laplacian(np.array([1, 0, 2])))
        self.assertEqual(hash(Laplacian([1, 0, 2])), hash(Laplacian((1.0, 0.0, 2.0))))
        self.assertEqual(pickle.loads(pickle.dumps(Laplacian((1, 2, 3)))), Laplacian((1, 2, 3)))
        for bad in ((1, 2), (1, 2, np.inf), (1, 2, 3, 4)):
            self.assertRaises(ValueError, Laplacian, bad)
        self.assertRaises(ValueError, Laplacian, (1, 1, 1), "open")
        for bad in (T.dmatrix(), T.tensor3(dtype="int64")):
            self.assertRaisesRegex(TypeError, "Laplacian needs", Laplacian(), bad)


class TestRop(RopLop_checker):
    def test_rop(self):
        for boundary in BOUNDARIES:
            y = Laplacian((1, 2, 3), boundary)(self.x.dimshuffle("x", 0, "x")).flatten()
            self.check_rop_lop(y, self.in_shape)


if __name__ == "__main__":
    unittest.main()
