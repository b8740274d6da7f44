"""What Ops on sparse matrices share: checks of their operands, gradients of integers, formats."""

from theano_ng.configdefaults import config
from theano_ng.sparse.conversion import as_format, sp_zeros_like
from theano_ng.sparse.type import SparseType
from theano_ng.sparse.var import as_sparse_variable
from theano_ng.tensor.dtypes import DISCRETE

__all__ = ["compressed", "in_type_of", "no_gradient", "same_shapes"]


def compressed(x, op):
    """`x` as a sparse variable in format csr or csc.

    Parameters
    ----------
    x : SparseVariable or sparse matrix
    op : Op
        For the message.

    Raises
    ------
    TypeError
        For another format, and for what is not sparse.
    """
    x = as_sparse_variable(x)
    if x.format not in ("csr", "csc"):
        raise TypeError("%s: expected a sparse matrix in format csr or csc, got %s" % (op, x.type))
    return x


def no_gradient(x):
    """Zeros in the place of the gradient of a variable that has none, because it is of integers or only compared."""
    dtype = config.floatX if x.dtype in DISCRETE else x.dtype
    return sp_zeros_like(x, dtype) if isinstance(x.type, SparseType) else x.zeros_like(dtype=dtype)


def in_type_of(x, gradient):
    """A gradient with respect to the sparse variable `x`: in its format if it is sparse too, zero if `x` has integers.

    Gradients of products are dense: they stay so.
    """
    if x.dtype in DISCRETE:
        return no_gradient(x)
    return as_format(gradient, x.format) if isinstance(gradient.type, SparseType) else gradient


def same_shapes(op, x, y):
    """Refuse two values of different shapes (ValueError)."""
    if x.shape != y.shape:
        raise ValueError("%s: the operands have different shapes, %s and %s" % (op, x.shape, y.shape))
