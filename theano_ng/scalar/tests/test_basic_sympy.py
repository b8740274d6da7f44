"""Tests of scalar Ops made from SymPy expressions."""

import unittest

import numpy as np

from theano_ng.scalar import float64
from theano_ng.scalar.basic_sympy import SymPyCCode, imported_sympy, include_line


class TestSymPy(unittest.TestCase):
    def test_without_sympy(self):
        if imported_sympy:
            self.skipTest("sympy is installed")
        self.assertRaises(ImportError, SymPyCCode, [], None)

    def test_include_line(self):
        self.assertEqual(
            [include_line(t) for t in ("#include <math.h>", "/* a", " * b */", "double f;")],
            [False, False, False, True],
        )

    def test_expression(self):
        if not imported_sympy:
            self.skipTest("sympy is not installed")
        import sympy

        x, y = sympy.symbols("x y", real=True)
        op = SymPyCCode([x, y], x * y + sympy.sin(x))
        node = op.make_node(float64("a"), float64("b"))
        cell = [None]
        op.perform(node, [np.float64(2), np.float64(3)], [cell])
        np.testing.assert_allclose(cell[0], 6 + np.sin(2))
        self.assertIn("sin(x)", op.c_support_code())
        self.assertEqual(op.c_code(node, "n", ["p", "q"], ["r"], {"fail": ""}), "r = %s(p, q);" % op.name)


if __name__ == "__main__":
    unittest.main()
