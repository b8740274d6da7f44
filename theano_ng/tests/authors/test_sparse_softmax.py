"""Tests of SparseSoftmax."""

import itertools
import pickle
import unittest

import numpy as np
import scipy.sparse

import theano_ng as theano
from theano_ng import sparse
from theano_ng import tensor as T
from theano_ng.sparse.tests.test_basic import verify_grad_sparse
from theano_ng.tests import unittest_tools as utt
from theano_ng.tests.authors.sparse_softmax import SparseSoftmax
from theano_ng.tests.authors.ways import Way

FORMATS = {"csr": sparse.csr_matrix, "csc": sparse.csc_matrix}


def random_matrix(format, shape, dtype="float64", density=0.4):
    """Return a sparse matrix with random entries."""
    stored = np.random.uniform(size=shape) < density
    return scipy.sparse.coo_matrix(np.where(stored, np.random.normal(size=shape), 0)).astype(dtype).asformat(format)


def expected(x, axis, scale):
    """Return the right value as a dense array."""
    stored = np.zeros(x.shape, bool)
    coordinates = x.tocoo()
    stored[coordinates.row, coordinates.col] = True
    with np.errstate(all="ignore"):
        logits = np.where(stored, scale * x.toarray().astype("float64"), -np.inf)
        largest = logits.max(axis=axis, keepdims=True, initial=-np.inf)
        powers = np.where(stored, np.exp(logits - largest), 0)
        return np.where(stored, powers / powers.sum(axis=axis, keepdims=True), 0)


def check(x, axis=1, scale=1.0):
    """Compare the value of the Op with `expected`. Return the value."""
    way = Way(SparseSoftmax(axis, scale), FORMATS[x.format](dtype=x.dtype.name), impl="py")
    before = [one.copy() for one in (x.data, x.indices, x.indptr)]
    (y,) = way(x)
    assert way.node.outputs[0].type.is_valid_value(y)
    assert y.format == x.format and y.dtype == x.dtype and y.has_canonical_format
    info = np.finfo(x.dtype)
    np.testing.assert_allclose(y.toarray(), expected(x, axis, scale), rtol=4 * info.eps, atol=info.tiny)
    for one, copy in zip((x.data, x.indices, x.indptr), before):
        np.testing.assert_array_equal(one, copy)
        assert not any(np.shares_memory(one, other) for other in (y.data, y.indices, y.indptr))
    return y


class TestSparseSoftmax(utt.InferShapeTester):
    def test_values(self):
        for format, dtype, axis in itertools.product(FORMATS, ("float64", "float32"), (0, 1)):
            for shape in ((3, 4), (0, 3), (3, 0), (1, 1), (1, 7), (300, 2)):
                for density in (0, 0.2, 1):
                    check(random_matrix(format, shape, dtype, density), axis, 1.0)
            for scale in (0.0, -1.5, 1000.0):
                y = check(random_matrix(format, (5, 6), dtype), axis, scale)
                sums = np.asarray(y.sum(axis=axis)).ravel()
                np.testing.assert_allclose(sums[sums != 0], 1, rtol=1e-6)

    def test_ranges(self):
        for format, dtype in itertools.product(FORMATS, ("float64", "float32")):
            x = random_matrix(format, (4, 5), dtype, 1)
            x = x + scipy.sparse.csr_matrix(np.array([[0.0], [-5000], [5000], [1e30]], dtype) @ np.ones((1, 5), dtype))
            check(x.asformat(format))
            for special in (np.inf, -np.inf, np.nan):
                y = x.asformat(format).copy()
                y.data[3] = special
                check(y)

    def test_structure(self):
        for format, axis in itertools.product(FORMATS, (0, 1)):
            classes = {"csr": scipy.sparse.csr_matrix, "csc": scipy.sparse.csc_matrix}
            data, indices, indptr = np.arange(1.0, 7), [2, 0, 2, 1, 1, 1], [0, 3, 3, 6]
            x = classes[format]((data, indices, indptr), (3, 3))  # unsorted, with duplicates and an empty row
            self.assertEqual(check(x, axis).nnz, 3)
            x = random_matrix(format, (3, 4))
            x.data[:2] = 0  # stored zeros stay entries
            self.assertEqual(check(x, axis).nnz, x.nnz)
            x.indices, x.indptr = x.indices.astype("int64"), x.indptr.astype("int64")
            check(x, axis)

    def test_repeated_calls(self):
        way = Way(SparseSoftmax(), sparse.csr_matrix(dtype="float64"), impl="py")
        matrices = [random_matrix("csr", (3, 4), density=1) for _ in range(3)]
        matrices[2].indices = matrices[2].indices[::-1].copy()
        results = [way(x)[0] for x in matrices]
        for x, y in zip(matrices, results):
            np.testing.assert_allclose(y.toarray(), expected(x, 1, 1.0))

    def test_shape(self):
        for format in FORMATS:
            x = FORMATS[format](dtype=theano.config.floatX)
            value = random_matrix(format, (3, 4), theano.config.floatX)
            self._compile_and_check([x], [SparseSoftmax()(x)], [value], SparseSoftmax)

    def test_gradient(self):
        for format, axis, scale in itertools.product(FORMATS, (0, 1), (1.0, -0.5, 0.0)):
            point = random_matrix(format, (3, 4), density=0.7)
            verify_grad_sparse(
                SparseSoftmax(axis, scale), [point], structured=True, rng=np.random.RandomState(utt.fetch_seed())
            )
        x = sparse.csr_matrix(dtype="float32")
        gradient = T.grad(sparse.sp_sum(SparseSoftmax(scale=0.1)(x), sparse_grad=True), x)
        self.assertEqual(gradient.type, x.type)

    def test_r_op(self):
        for format, axis in itertools.product(FORMATS, (0, 1)):
            x, v = FORMATS[format]("x", dtype="float64"), FORMATS[format]("v", dtype="float64")
            y = SparseSoftmax(axis, -0.5)(x)
            f, product = theano.function([x], y), theano.function([x, v], T.Rop(y, x, v))
            point = random_matrix(format, (3, 4), density=0.7)
            direction = point.copy()
            direction.data = np.random.normal(size=point.nnz)
            quotient = (f(point + 1e-6 * direction) - f(point - 1e-6 * direction)) / 2e-6
            np.testing.assert_allclose(product(point, direction).toarray(), quotient.toarray(), atol=1e-8)

    def test_arguments(self):
        self.assertEqual(len({SparseSoftmax(), SparseSoftmax(0), SparseSoftmax(scale=2)}), 3)
        self.assertEqual(SparseSoftmax(scale=-0.0), SparseSoftmax(np.int64(1), 0))
        self.assertEqual(pickle.loads(pickle.dumps(SparseSoftmax(0, 2))), SparseSoftmax(0, 2))
        self.assertRaises(ValueError, SparseSoftmax, 2)
        self.assertRaises(ValueError, SparseSoftmax, 1, np.nan)
        for bad in (sparse.csr_matrix(dtype="int64"), sparse.bsr_matrix(dtype="float64")):
            self.assertRaisesRegex(TypeError, "SparseSoftmax needs a matrix", SparseSoftmax(), bad)


if __name__ == "__main__":
    unittest.main()
