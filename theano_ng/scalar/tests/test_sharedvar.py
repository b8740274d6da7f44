"""Tests of shared scalars."""

import unittest

import numpy as np

from theano_ng.scalar import float64, sharedvar
from theano_ng.scalar.sharedvar import ScalarSharedVariable, shared


class TestShared(unittest.TestCase):
    def test_types(self):
        for value, dtype in (
            (1, "int64"),
            (0.1, "float64"),
            (1j, "complex128"),
            (np.float32(2), "float32"),
            (True, "bool"),
        ):
            s = shared(value, name="s")
            self.assertIsInstance(s, ScalarSharedVariable)
            self.assertEqual((s.dtype, s.name, s.get_value()), (dtype, "s", value))
        self.assertRaises(TypeError, shared, [1])
        self.assertIs(sharedvar.shared, shared)

    def test_value_and_operators(self):
        s = shared(1.5)
        s.set_value(2.5)
        self.assertEqual(s.get_value(), 2.5)
        self.assertEqual((s + float64("x")).dtype, "float64")
        self.assertRaises(TypeError, shared(np.int8(1), strict=True).set_value, 2.5)


if __name__ == "__main__":
    unittest.main()
