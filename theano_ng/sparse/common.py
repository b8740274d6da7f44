"""Functions that several Ops on sparse matrices use: checks of operands, gradients of integers, formats."""

from theano_ng.configdefaults import config
from theano_ng.sparse.conversion import as_format, sp_zeros_like
from theano_ng.sparse.type import SparseType
from theano_ng.sparse.var import as_sparse_variable
from theano_ng.tensor.dtypes import DISCRETE

__all__ = ["compressed", "in_type_of", "same_shapes", "zero_gradient"]


def compressed(x, op):
    """Convert `x` to a sparse variable, and check that its format is csr or csc.

    Parameters
    ----------
    x : SparseVariable or sparse matrix
    op : Op or str
        The Op or function that the error message names.

    Raises
    ------
    TypeError
        If `x` is not sparse, or has another format.
    """
    x = as_sparse_variable(x)
    if x.format not in ("csr", "csc"):
        raise TypeError("%s: expected a sparse matrix in format csr or csc, got %s" % (op, x.type))
    return x


def zero_gradient(x):
    """Return zeros as the gradient of a variable that has an integer dtype, or that is an operand of a comparison."""
    dtype = config.floatX if x.dtype in DISCRETE else x.dtype
    return sp_zeros_like(x, dtype) if isinstance(x.type, SparseType) else x.zeros_like(dtype=dtype)


def in_type_of(x, gradient):
    """Convert a gradient with respect to the sparse variable `x` to the format of `x`.

    A dense gradient, such as the gradient of a product, stays dense. If `x` has an integer dtype, return zeros.
    """
    if x.dtype in DISCRETE:
        return zero_gradient(x)
    return as_format(gradient, x.format) if isinstance(gradient.type, SparseType) else gradient


def same_shapes(op, x, y):
    """Raise ValueError if two values have different shapes."""
    if x.shape != y.shape:
        raise ValueError("%s: the operands have different shapes, %s and %s" % (op, x.shape, y.shape))
