"""Tests of the comparison of computations with corresponding inputs."""

import unittest

import theano_ng.tensor as T
from theano_ng.gof.graph import equal_computations


class TestEqualComputations(unittest.TestCase):
    def test_all(self):
        x, y, z = T.dvectors("x", "y", "z")
        self.assertTrue(equal_computations([x + 1, x], [x + 1, x]))
        self.assertFalse(equal_computations([x + 1], [y + 1]))
        self.assertTrue(equal_computations([x + 1], [y + 1], in_xs=[x], in_ys=[y]))
        self.assertTrue(equal_computations([x * z, z], [y * x, x], in_xs=[x, z], in_ys=[y, x]))
        self.assertFalse(equal_computations([x * z], [y * x], in_xs=[x, z], in_ys=[x, y]))
        self.assertFalse(equal_computations([x], [x, x]))
        self.assertFalse(equal_computations([x + 1], [T.fvector() + 1]))
        self.assertFalse(equal_computations([x + y], [y + x]))
        self.assertRaises(ValueError, equal_computations, [x], [x], [x], [])

    def test_deep(self):
        a = b = T.dscalar()
        for _ in range(5000):
            a, b = a + 1, b + 1
        self.assertTrue(equal_computations([a], [b]))
        self.assertFalse(equal_computations([a], [b + 1]))


if __name__ == "__main__":
    unittest.main()
