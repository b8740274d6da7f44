"""Tests of native Ops on sparse matrices: dense operands of every width, dtype and layout, and mismatched shapes."""

import itertools
import unittest

import numpy as np
import scipy.sparse as sp

import theano_ng.tensor as T
from theano_ng.audit import forms
from theano_ng.sparse import all_dtypes, fields, sdg_csc, sdg_csr
from theano_ng.tensor.tests.single_node import run_node

LAYOUTS = (forms.contiguous, forms.fortran, forms.strided, forms.reversed_)


class PartsCase(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.RandomState(19)

    def numbers(self, shape, dtype):
        """Return small integer values, whose sums are exact."""
        numbers = self.rng.randint(0, 3, shape)
        return (numbers + (1j * self.rng.randint(0, 3, shape) if dtype[0] == "c" else 0)).astype(dtype)

    def run_parts(self, op, *values):
        values = [np.asarray(v) for v in values]
        variables = [T.TensorType(v.dtype, [n == 1 for n in v.shape])() for v in values]
        return run_node(op(*variables), dict(zip(variables, values)), "c")[0]


class TestWidths(PartsCase):
    def check(self, width, dtype, layout):
        x = self.numbers((6, 5), dtype)
        right, left = [layout(self.numbers((n, width), dtype)) for n in (5, 6)]
        rows, columns = [(m.data, m.indices, m.indptr) for m in (sp.csr_matrix(x), sp.csc_matrix(x))]
        want = np.dot(x, right)
        np.testing.assert_array_equal(self.run_parts(fields.sd_csr, *rows, right), want)
        np.testing.assert_array_equal(self.run_parts(fields.sd_csc, *columns, 6, right), want)
        got = self.run_parts(fields.usmm_csc_dense, np.full((1, 1), 2, dtype), *columns, 6, right, left)
        np.testing.assert_array_equal(got, (2 * want + left).astype(dtype))
        got = self.run_parts(lambda *v: fields.sampling_dot_csr(*v)[0], left, right, *rows, 5)
        places = x.nonzero()
        np.testing.assert_array_equal(got, x[places] * np.dot(left, right.T)[places])

    def test_all(self):
        for k, (width, dtype) in enumerate(itertools.product((*range(1, 20), 31, 33, 65), all_dtypes)):
            self.check(width, str(dtype), LAYOUTS[k % 4])


class TestNoEntries(PartsCase):
    def test_products(self):
        """A product is zero if the sparse matrix has no rows, no columns or no entries."""
        for (n, m), width, dtype in itertools.product(
            ((0, 3), (3, 0), (0, 0), (3, 4)), (0, 1, 2, 17), ("f4", "f8", "i8")
        ):
            x = np.zeros((n, m), dtype)
            right, left = self.numbers((m, width), dtype), self.numbers((n, width), dtype)
            rows, columns = [(a.data, a.indices, a.indptr) for a in (sp.csr_matrix(x), sp.csc_matrix(x))]
            zeros = np.zeros((n, width), dtype)
            np.testing.assert_array_equal(self.run_parts(fields.sd_csr, *rows, right), zeros)
            np.testing.assert_array_equal(self.run_parts(fields.sd_csc, *columns, n, right), zeros)
            got = self.run_parts(fields.usmm_csc_dense, np.full((1, 1), 2, dtype), *columns, n, right, left)
            np.testing.assert_array_equal(got, left)
            dense, row = self.numbers((n, m), dtype), self.numbers((m,), dtype)
            for got in (
                self.run_parts(lambda *v: fields.sampling_dot_csr(*v)[0], left, right, *rows, m),
                self.run_parts(fields.mul_s_d_csr, *rows, dense),
                self.run_parts(fields.mul_s_d_csc, *columns, dense),
                self.run_parts(fields.mul_s_v_csr, *rows, row),
                self.run_parts(fields.structured_add_s_v_csr, *rows, row),
            ):
                self.assertEqual((got.shape, got.dtype), ((0,), dtype))
            same = (*rows, np.array([n, m]))
            self.assertEqual(self.run_parts(fields.csm_grad_c, *same, *same).shape, (0,))


class TestLengths(PartsCase):
    def test_what_is_no_length(self):
        """A number of rows or columns is refused if negative, too large for an int64, or too small for the entries."""
        x, right = sp.csc_matrix(np.eye(3)), np.ones((3, 2))
        nothing = sp.csc_matrix((3, 3))
        for m, length, error in (
            (x, np.array(2**63, "uint64"), OverflowError),
            (nothing, np.array(2**63, "uint64"), OverflowError),
            (x, np.array(-1), ValueError),
            (nothing, np.array(-1), ValueError),
            (x, np.array(2), ValueError),
            (x, np.array(2, "int8"), ValueError),
        ):
            parts = m.data, m.indices, m.indptr, length
            for op, values in (
                (fields.sd_csc, (*parts, right)),
                (fields.usmm_csc_dense, (np.ones((1, 1)), *parts, right, right)),
                (lambda *v: fields.sampling_dot_csr(*v)[0], (right, right, *parts)),
            ):
                with self.assertRaises(error, msg=(op, length)):
                    self.run_parts(op, *values)


class TestInPlace(PartsCase):
    def test_operands_that_share_memory(self):
        """The in-place sum z += 2 x y is correct if y and z share rows of one array, also in reversed order."""
        for dtype, (rows, columns) in itertools.product(("float64", "complex64"), ((6, 5), (4, 7), (1, 3))):
            x = self.numbers((rows, columns), dtype)
            parts = (lambda m: (m.data, m.indices, m.indptr))(sp.csc_matrix(x))
            for at_y, at_z, step_y, step_z in itertools.product((0, 3, 8), (0, 2, 9), (1, -1, 2), (1, -1)):
                memory = self.numbers((24, 3), dtype)
                y = memory[at_y : at_y + columns * abs(step_y)][::step_y]
                z = memory[at_z : at_z + rows][::step_z]
                want = memory.copy()
                want[at_z : at_z + rows][::step_z] += 2 * np.dot(x, y)
                got = self.run_parts(fields.usmm_csc_dense_inplace, np.full((1, 1), 2, dtype), *parts, rows, y, z)
                np.testing.assert_array_equal(memory, want, str((at_y, at_z, step_y, step_z)))
                np.testing.assert_array_equal(got, z)


class TestGradients(PartsCase):
    def test_dense_operands_that_do_not_fit(self):
        """The gradient of a product refuses dense matrices with too few or too many rows, or with different widths."""
        x = sp.random(5, 4, 0.6, "csr", random_state=3)
        right, g = self.numbers((4, 3), "float64"), self.numbers((5, 3), "float64")
        for op, matrix in ((sdg_csr, x), (sdg_csc, x.tocsc())):
            parts, at = (matrix.indices, matrix.indptr), matrix.tocoo()
            np.testing.assert_array_equal(self.run_parts(op, *parts, right, g), np.dot(g, right.T)[at.row, at.col])
            for a, b in (
                (right, g[:-1]),
                (right, g[:0]),
                (right[:-1], g),
                (right[:0], g),
                (right[:, :2], g),
                (right, g[:, :2]),
            ):
                refused = self.assertRaises((ValueError, IndexError))
                with self.subTest(op=str(op), shapes=(a.shape, b.shape)), refused:
                    self.run_parts(op, *parts, a, b)
            a, b = (right, np.vstack([g, g])) if op is sdg_csr else (np.vstack([right, right]), g)
            with self.assertRaisesRegex(ValueError, "shape mismatch: the sparse matrix has"):
                self.run_parts(op, *parts, a, b)

    def test_shapes_that_differ(self):
        """A gradient with another shape than its matrix raises ValueError, in both compressed formats."""
        for make, (rows, columns) in itertools.product((sp.csr_matrix, sp.csc_matrix), ((5, 3), (3, 5), (4, 4))):
            x, g = make(np.eye(rows, columns)), np.arange(1.0, 1 + rows * columns).reshape(rows, columns)
            parts = x.data, x.indices, x.indptr, np.array(x.shape)
            same = make(g)
            got = self.run_parts(fields.csm_grad_c, *parts, same.data, same.indices, same.indptr, np.array(same.shape))
            np.testing.assert_array_equal(got, g[x.nonzero()])
            for shape in ((rows - 1, columns), (rows, columns - 1), (rows + 1, columns), (rows, columns + 1)):
                other = make(np.eye(*shape))
                values = (*parts, other.data, other.indices, other.indptr, np.array(other.shape))
                with self.assertRaisesRegex(ValueError, "shape mismatch"):
                    self.run_parts(fields.csm_grad_c, *values)


if __name__ == "__main__":
    unittest.main()
