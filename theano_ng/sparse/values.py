"""Functions on values, which are SciPy's sparse matrices: validity checks, comparison and construction."""

import numpy as np
import scipy.sparse

from theano_ng.tensor.type import values_eq_approx as arrays_agree

__all__ = ["check_pattern", "copy_if_shared", "matrix_of", "rebuilt", "same_values", "nearly_same_values"]

CLASSES = {"csr": scipy.sparse.csr_matrix, "csc": scipy.sparse.csc_matrix, "bsr": scipy.sparse.bsr_matrix}


def _is_sparse(x):
    """Return True if `x` is a sparse matrix or sparse array of SciPy.

    Raises
    ------
    NotImplementedError
        If `x` is neither sparse nor an array, list or tuple.
    """
    if not isinstance(x, (scipy.sparse.sparray, scipy.sparse.spmatrix, np.ndarray, tuple, list)):
        raise NotImplementedError(
            "this function should only be called on sparse.scipy.sparse.spmatrix or numpy.ndarray, not %r" % (x,)
        )
    return scipy.sparse.issparse(x)


def matrix_of(value):
    """Return a sparse matrix or array as a sparse matrix that shares its memory.

    The exception is a sparse array whose format is neither csr, csc nor bsr: it is converted to a new csr matrix.

    Parameters
    ----------
    value : scipy.sparse.spmatrix or scipy.sparse.sparray

    Returns
    -------
    scipy.sparse.spmatrix
        `value` itself if it is a matrix. The operator ``*`` of the result is the matrix product. (For sparse arrays,
        ``*`` is the elementwise product.)
    """
    if isinstance(value, scipy.sparse.spmatrix):
        return value
    if value.format not in CLASSES:
        return scipy.sparse.csr_matrix(value)
    return rebuilt(value.format, value.data, value.indices, value.indptr, value.shape)


def rebuilt(format, data, indices, indptr, shape):
    """Return a sparse matrix made from its parts, which are not copied."""
    return CLASSES[format]((data, indices, indptr), shape=tuple(int(n) for n in shape), copy=False)


def check_pattern(value):
    """Raise ValueError if the indices or the indptr of a matrix are not valid.

    The compiled code of SciPy and of this package uses the indices as memory offsets without checks.

    Parameters
    ----------
    value : csr, csc or bsr matrix

    Raises
    ------
    ValueError
        If indices or indptr is not a vector of integers. If the length of indptr does not match the number of rows
        (csr), columns (csc) or rows of blocks (bsr). If indptr does not start with 0, if it decreases, or if its last
        element exceeds the length of indices or data. If an index is negative or too large.
    """
    indices, indptr, shape = value.indices, value.indptr, value.shape
    major, minor = shape[::-1] if value.format == "csc" else shape
    if value.format == "bsr":
        height, width = value.data.shape[1:]
        major, minor = major // height, minor // width
    if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu" or indices.ndim != 1 or indptr.ndim != 1:
        raise ValueError(
            "indices and indptr of a sparse matrix must be vectors of integers, not %d-d %s and %d-d %s"
            % (indices.ndim, indices.dtype, indptr.ndim, indptr.dtype)
        )
    if len(indptr) != major + 1 or not len(indptr):
        raise ValueError(
            "index pointer size (%d) should be (%d): a %s matrix of shape %s has one index pointer for each %s, and "
            "one more" % (len(indptr), major + 1, value.format, shape, "column" if value.format == "csc" else "row")
        )
    if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise ValueError(
            "indptr of a sparse matrix must start with 0 and must not decrease; it starts with %s" % indptr[:5]
        )
    entries = int(indptr[-1])
    if entries > min(len(indices), len(value.data)):
        raise ValueError(
            "Last value of index pointer should be less than the size of index and data arrays: it is %d, and there are %d indices and %d"
            " elements" % (entries, len(indices), len(value.data))
        )
    if entries:
        used = indices[:entries]
        least, most = int(used.min()), int(used.max())
        if least < 0 or most >= minor:
            raise ValueError(
                "indices of a sparse %s matrix of shape %s go from %d to %d, outside of 0 to %d"
                % (value.format, shape, least, most, minor - 1)
            )


def shares_memory(a, b):
    """Return True if two values (sparse matrices or arrays) may share memory.

    Only the bounds of arrays are compared.
    """

    def buffers(value):
        return (value,) if isinstance(value, np.ndarray) else (value.data, value.indices, value.indptr)

    return any(np.may_share_memory(x, y) for x in buffers(a) for y in buffers(b))


def copy_if_shared(result, *inputs):
    """Return a copy of `result` if it shares memory with one of `inputs`. Otherwise return `result` itself.

    Some SciPy functions return views of their arguments.
    """
    return result.copy() if any(result is value or shares_memory(result, value) for value in inputs) else result


def _canonical(value):
    """Return a csr copy with sorted indices and without duplicate entries."""
    value = scipy.sparse.csr_matrix(value, copy=True)
    value.sum_duplicates()
    return value


def _elements(value):
    """Return the positions of the entries, as int64 offsets in row-major order, and the values of the entries."""
    rows = np.repeat(np.arange(value.shape[0], dtype="int64"), np.diff(value.indptr))
    return rows * max(value.shape[1], 1) + value.indices, value.data


def _side_by_side(a, b):
    """Return two vectors: the elements of both matrices at all positions at which at least one matrix has an entry."""
    a, b = _canonical(a), _canonical(b)
    (at_a, in_a), (at_b, in_b) = _elements(a), _elements(b)
    places = np.union1d(at_a, at_b)
    columns = []
    for at, elements in ((at_a, in_a), (at_b, in_b)):
        column = np.zeros(len(places), dtype=elements.dtype)
        column[np.searchsorted(places, at)] = elements
        columns.append(column)
    return columns


def _alike(a, b):
    return a.format == b.format and a.shape == b.shape and a.dtype == b.dtype


def same_values(a, b):
    """Return True if two matrices have the same format, shape and dtype, and equal elements.

    NaN equals NaN, and a stored zero equals a zero that is not stored.
    """
    if not (scipy.sparse.issparse(a) and scipy.sparse.issparse(b) and _alike(a, b)):
        return False
    x, y = _side_by_side(a, b)
    return bool(np.array_equal(x, y, equal_nan=x.dtype.kind in "fc"))


def nearly_same_values(a, b, eps=None):
    """Return True if two matrices have the same format, shape and dtype, and elements that agree up to rounding.

    Parameters
    ----------
    a, b : sparse matrix
    eps : float, optional
        The absolute tolerance. Default: the tolerance for tensors of the dtype.
    """
    if not (scipy.sparse.issparse(a) and scipy.sparse.issparse(b) and _alike(a, b)):
        return False
    x, y = _side_by_side(a, b)
    return arrays_agree(x, y, atol=eps)
