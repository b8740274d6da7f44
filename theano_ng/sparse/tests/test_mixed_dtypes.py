"""Compare operations on sparse and dense operands of different dtypes with NumPy, with and without rewriting."""

import itertools
import unittest

import numpy as np
import scipy.sparse

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import sparse
from theano_ng.sparse.opt.common import in_dtype

DTYPES = ("int8", "float32", "float64", "complex64")
FORMATS = ("csr", "csc")


class TestInDtype(unittest.TestCase):
    def test_other_dtypes_only(self):
        x = T.dvector("x")
        self.assertIs(in_dtype(x, "float64"), x)
        self.assertEqual(in_dtype(x, "float32").type, T.fvector)


class TestMixed(unittest.TestCase):
    def setUp(self):
        rng = np.random.RandomState(3)
        self.entries = rng.randint(-3, 4, size=(3, 4)) * (rng.uniform(size=(3, 4)) < 0.6)
        self.dense = rng.randint(-3, 4, size=(3, 4))

    def check(self, make, compute, dense, format, dtype, other):
        m = sparse.matrix(format, "m", dtype)
        d = T.TensorType(other, [False] * dense.ndim)("d")
        numbers = self.entries.astype(dtype), dense.astype(other)
        value = getattr(scipy.sparse, format + "_matrix")(numbers[0])
        expected = compute(*numbers)
        out = make(m, d)
        for inputs, mode in (
            ([m, d], None),
            ([m, d], "FAST_COMPILE"),
            ([theano.In(m), theano.In(d, mutable=True)], None),
        ):
            got = theano.function(inputs, out, mode=mode)(value.copy(), numbers[1].copy())
            got = got.toarray() if scipy.sparse.issparse(got) else np.asarray(got)
            self.assertEqual(got.dtype, out.dtype)
            np.testing.assert_allclose(got, expected.astype(out.dtype), rtol=1e-5, err_msg=str((format, dtype, other)))

    def all(self, make, compute, dense):
        for format, dtype, other in itertools.product(FORMATS, DTYPES, DTYPES):
            self.check(make, compute, dense, format, dtype, other)

    def test_sums(self):
        self.all(sparse.add, np.add, self.dense)

    def test_elementwise_products(self):
        self.all(sparse.mul, np.multiply, self.dense)

    def test_products(self):
        self.all(lambda m, d: sparse.dot(m, d.T), lambda a, b: a @ b.T, self.dense)

    def test_products_from_the_left(self):
        self.all(lambda m, d: sparse.dot(d.T, m), lambda a, b: b.T @ a, self.dense)

    def test_gradients_of_sums(self):
        for format, dtype, other in itertools.product(FORMATS, ("float32", "float64"), ("float32", "float64")):
            self.check(
                lambda m, d: theano.grad((sparse.add(m, d) ** 2).sum(), d),
                lambda a, b: 2 * (a + b),
                self.dense, format, dtype, other,
            )  # fmt: skip


class TestTypesOfGradients(unittest.TestCase):
    def setUp(self):
        self.value = np.array([[1.5], [0.0], [2.0]])

    def check(self, make, *variables):
        """Check the types of gradients and of second gradients."""
        cost = make(*variables).sum()
        for _ in range(2):
            gradients = theano.grad(cost, list(variables), disconnected_inputs="ignore")
            self.assertEqual([g.type for g in gradients], [v.type for v in variables])
            cost = sum((g * g).sum() for g in gradients)

    def test_scale_factors(self):
        for dtype, flags in (("float32", [False]), ("float64", [False]), ("complex128", [False]), ("float64", [True])):
            s = T.TensorType(dtype, flags)("s")
            value = np.asarray(self.value, "complex64" if dtype == "complex128" else "float32")
            x = sparse.csc_from_dense(T.constant(value.T if flags[0] else value))
            for scale in (sparse.row_scale,) if flags[0] else (sparse.row_scale, sparse.col_scale):
                with self.subTest(scale=scale.__name__, dtype=dtype, broadcastable=flags[0]):
                    y = sparse.dense_from_sparse(scale(x, s)) ** 2
                    self.assertEqual(theano.grad(y.sum(), s).type, s.type)

    def test_factors_that_the_matrix_cannot_contain(self):
        """The result has the dtype of the matrix. Factors are not cut off."""
        for matrix, factors in (("int64", T.dvector()), ("float64", T.zvector()), ("uint8", T.lvector())):
            for scale in (sparse.row_scale, sparse.col_scale):
                with self.assertRaisesRegex(TypeError, "cast the matrix first"):
                    scale(sparse.csc_matrix(dtype=matrix), factors)

    def test_broadcastable_operands(self):
        one, col = T.TensorType("float64", [True])("one"), T.dcol("col")
        dense = sparse.dense_from_sparse
        x = sparse.csr_from_dense(T.constant(self.value))
        self.check(lambda s: dense(sparse.col_scale(x, s)) ** 2, one)
        self.check(lambda s: dense(sparse.mul_s_v(x, s)) ** 2, one)
        self.check(lambda s: dense(sparse.structured_add_s_v(x, s)) ** 2, one)
        self.check(lambda s: dense(sparse.square_diagonal(s)) ** 2, one)
        self.check(lambda s: dense(sparse.CSC(s, [0], [0, 1], [1, 1])) ** 2, one)
        self.check(lambda d: dense(sparse.mul(x, d)) ** 2, col)
        self.check(lambda d: sparse.add(x, d) ** 2, col)
        self.check(lambda d: dense(sparse.sqr(sparse.csc_from_dense(d))), col)

    def test_element(self):
        x = T.dmatrix("x")
        element = sparse.csr_from_dense(x)[2, 1]
        second = theano.grad(theano.grad(element**3, x).sum(), x)
        expected = np.zeros((3, 3))
        expected[2, 1] = 12
        np.testing.assert_allclose(second.eval({x: np.full((3, 3), 2.0)}), expected)


if __name__ == "__main__":
    unittest.main()
