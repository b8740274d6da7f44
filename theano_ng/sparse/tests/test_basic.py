"""Helpers for tests of sparse matrices: random matrices, and the comparison of gradients with finite differences."""

import unittest

import numpy as np
import scipy.sparse as sp

import theano_ng as theano
from theano_ng import config, sparse
from theano_ng.gradient import verify_grad
from theano_ng.tests import unittest_tools as utt


def as_sparse_format(data, format):
    """Return `data` as a SciPy matrix in a format.

    Parameters
    ----------
    data : array_like or sparse matrix
    format : {'csr', 'csc', 'bsr'}

    Raises
    ------
    NotImplementedError
        If `format` is none of these.
    """
    classes = {"csc": sp.csc_matrix, "csr": sp.csr_matrix, "bsr": sp.bsr_matrix}
    if format not in classes:
        raise NotImplementedError("the format has to be csr, csc or bsr, not %r" % (format,))
    return classes[format](data)


def eval_outputs(outputs):
    """Return the value of the only output, for a graph without inputs."""
    return theano.function([], outputs)()[0]


def random_lil(shape, dtype, nnz):
    """Return a SciPy matrix in format lil with up to `nnz` random elements: multiples of 0.1, or integers.

    Parameters
    ----------
    shape : tuple of int
    dtype : str
    nnz : int
    """
    rng = np.random.RandomState(utt.fetch_seed())
    result = sp.lil_matrix(shape, dtype=dtype)
    for _ in range(nnz):
        row, column = (rng.randint(n) for n in shape)
        value = rng.rand() * 100
        result[row, column] = np.array(int(value) if dtype in sparse.integer_dtypes else value).astype(dtype)
    return result


def sparse_random_inputs(
    format, shape, n=1, out_dtype=None, p=0.5, gap=None, explicit_zero=False, unsorted_indices=False
):
    """Return sparse variables and random values for them.

    Parameters
    ----------
    format : {'csr', 'csc', 'bsr'}
    shape : tuple of int
    n : int
        The number of variables.
    out_dtype : str, optional
        By default `config.floatX`.
    p : float
        The probability that an element is stored.
    gap : tuple, optional
        ``(max,)`` or ``(min, max)`` of the values; max is exclusive. By default ``(0, 1)``; for integers ``(0, 50)``.
    explicit_zero : bool
        Whether at least one entry is zero.
    unsorted_indices : bool
        Whether the indices of a row (csr) or column (csc) are unsorted.

    Returns
    -------
    variables : list of SparseVariable
    data : list of sparse matrix

    Examples
    --------
    >>> from theano_ng.sparse.tests.test_basic import sparse_random_inputs
    >>> variables, data = sparse_random_inputs("csr", shape=(3, 4), n=2, out_dtype="int32")
    >>> variables[0].type, data[1].shape
    (Sparse[int32, csr], (3, 4))
    """
    if out_dtype is None:
        out_dtype = config.floatX
    if not 0 <= p <= 1:
        raise ValueError("p is a probability, not %r" % (p,))
    if gap is not None and not isinstance(gap, (tuple, list)):
        raise ValueError("gap is (max,) or (min, max), not %r" % (gap,))
    if format == "bsr" and (unsorted_indices or explicit_zero):
        raise ValueError("unsorted_indices and explicit_zero are not supported for the format bsr")
    if unsorted_indices and min(shape) < 3:
        raise ValueError("a matrix of shape %s has too few elements in a line for unsorted indices" % (shape,))
    rng = np.random.RandomState(utt.fetch_seed())

    def numbers():
        if gap is None:
            low, high = (0, 50) if out_dtype in sparse.discrete_dtypes else (0, 1)
        else:
            low, high = (0, gap[0]) if len(gap) == 1 else gap
        if out_dtype in sparse.discrete_dtypes:
            return rng.randint(low, high, size=shape).astype(out_dtype)
        drawn = rng.uniform(low, high, size=shape)
        if out_dtype in sparse.complex_dtypes:
            drawn = drawn + 1j * rng.uniform(low, high, size=shape)
        return drawn.astype(out_dtype)

    variables, data = [], []
    for _ in range(n):
        variables.append(sparse.matrix(format, dtype=out_dtype))
        value = as_sparse_format((rng.uniform(size=shape) < p) * numbers(), format).astype(out_dtype)
        if unsorted_indices:
            lines = shape[0] if format == "csr" else shape[1]
            if value.indptr[1] < 2:
                # Add entries to the first line, so that their order can be reversed.
                dense = value.toarray()
                dense[(0, slice(0, 3)) if format == "csr" else (slice(0, 3), 0)] = 1
                value = as_sparse_format(dense, format)
            for i in range(lines):
                part = slice(value.indptr[i], value.indptr[i + 1])
                value.indices[part] = value.indices[part][::-1].copy()
                value.data[part] = value.data[part][::-1].copy()
            value.has_sorted_indices = False
        if explicit_zero:
            if value.nnz == 0:
                raise ValueError("explicit_zero needs an entry, but a random matrix has no entries")
            value.data[rng.randint(value.nnz)] = 0
        data.append(value)
    return variables, data


def verify_grad_sparse(op, pt, structured=False, *args, **kwargs):
    """Compare the gradient of an operation on sparse matrices with finite differences.

    Parameters
    ----------
    op : callable
        A function of variables for `pt` with a sparse or dense result.
    pt : list of sparse matrix or ndarray
    structured : bool
        If True, the gradient is with respect to the entries alone; otherwise with respect to all elements.
    *args, **kwargs
        Arguments of `gradient.verify_grad`.
    """

    def dense_like(build):
        """Return (make, value) such that ``make(v)`` is the operand if the dense variable v has the value `value`.

        `value` is the array of stored entries if `structured` is true; otherwise, it is the dense matrix.
        """
        if structured:
            parts = [v.copy() for v in (build.indices, build.indptr)]
            make = sparse.CSR if build.format == "csr" else sparse.CSC
            return (lambda v: make(v, parts[0], parts[1], build.shape)), build.data
        make = sparse.csr_from_dense if build.format == "csr" else sparse.csc_from_dense
        return make, build.toarray()

    makers, points = [], []
    for value in pt:
        if sp.issparse(value):
            make, point = dense_like(value)
            makers.append(make)
            points.append(point)
        else:
            makers.append(lambda v: v)
            points.append(value)

    def dense_op(*inputs):
        result = op(*[make(v) for make, v in zip(makers, inputs)])
        if isinstance(result.type, sparse.SparseType):
            if structured:
                return sparse.csm_data(result)
            # Use the regular gradient, which also has values for elements that are not stored.
            return sparse.DenseFromSparse(structured=False)(result)
        return result

    return verify_grad(dense_op, points, *args, **kwargs)


def dense(value):
    """Return a value as an array."""
    return value.toarray() if sp.issparse(value) else np.asarray(value)


class TestHelpers(unittest.TestCase):
    """Tests of the helpers that other test modules use."""

    def test_random_inputs(self):
        for format in ("csr", "csc"):
            for dtype in sorted(sparse.all_dtypes):
                variables, data = sparse_random_inputs(
                    format, (4, 5), 2, dtype, explicit_zero=True, unsorted_indices=True
                )
                for variable, value in zip(variables, data):
                    self.assertEqual(variable.type, sparse.SparseType(format, dtype))
                    self.assertTrue(variable.type.is_valid_value(value))
                    self.assertEqual(value.shape, (4, 5))
                    self.assertTrue((value.data == 0).any())
                    self.assertFalse(value.has_sorted_indices)
        self.assertEqual(sparse_random_inputs("csr", (3, 3))[0][0].dtype, config.floatX)
        (_,), (value,) = sparse_random_inputs("csr", (40, 40), out_dtype="int32", gap=(2, 5))
        self.assertEqual(set(value.data), {2, 3, 4})
        (_,), (value,) = sparse_random_inputs("csc", (40, 40), gap=(3,), p=1)
        self.assertTrue(2 < value.max() < 3 and value.min() < 0.5)
        self.assertEqual(sparse_random_inputs("csr", (5, 5), p=0)[1][0].nnz, 0)
        for wrong in (dict(p=2), dict(gap=3), dict(unsorted_indices=True, shape=(2, 2)), dict(p=0, explicit_zero=True)):
            with self.assertRaises(ValueError):
                sparse_random_inputs(**{"format": "csr", "shape": (5, 5), **wrong})
        with self.assertRaises(ValueError):
            sparse_random_inputs("bsr", (4, 4), explicit_zero=True)

    def test_other_helpers(self):
        for format in ("csr", "csc", "bsr"):
            self.assertEqual(as_sparse_format(np.eye(2), format).format, format)
        with self.assertRaises(NotImplementedError):
            as_sparse_format(np.eye(2), "coo")
        value = random_lil((4, 5), "int32", 3)
        self.assertEqual((value.format, value.dtype, value.shape), ("lil", np.int32, (4, 5)))
        self.assertLessEqual(value.nnz, 3)

    def test_wrong_gradients_are_found(self):
        class Wrong(sparse.Neg):
            def grad(self, inputs, gout):
                return [gout[0]]

        value = as_sparse_format(np.array([[0.0, 1], [2, 0]]), "csr")
        for structured in (False, True):
            verify_grad_sparse(sparse.neg, [value], structured, rng=np.random.RandomState(0))
            with self.assertRaises(verify_grad.E_grad):
                verify_grad_sparse(Wrong(), [value], structured, rng=np.random.RandomState(0))


if __name__ == "__main__":
    unittest.main()
