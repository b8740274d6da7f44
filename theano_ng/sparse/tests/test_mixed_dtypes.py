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


if __name__ == "__main__":
    unittest.main()
