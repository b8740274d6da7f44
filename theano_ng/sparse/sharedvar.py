"""Shared variables whose values are sparse matrices."""

import copy

import scipy.sparse

from theano_ng.compile.sharedvalue import SharedVariable, shared_constructor
from theano_ng.sparse.type import SparseType
from theano_ng.sparse.var import _sparse_py_operators

__all__ = ["SparseTensorSharedVariable", "shared", "sparse_constructor"]


class SparseTensorSharedVariable(_sparse_py_operators, SharedVariable):
    """A shared variable whose type is a `SparseType`. The function `shared` creates such variables."""


@shared_constructor
def sparse_constructor(value, name=None, strict=False, allow_downcast=None, borrow=False, format=None):
    """Make a shared variable from a sparse matrix.

    Parameters
    ----------
    value : scipy.sparse.spmatrix or scipy.sparse.sparray
    name : str, optional
    strict, allow_downcast
        The conversion of values that are set later; see `SparseType.filter`.
    borrow : bool
        If True, `value` itself is kept. Otherwise a copy is kept.
    format : {'csr', 'csc', 'bsr'}, optional
        The format of the variable. Default: the format of `value`.

    Raises
    ------
    TypeError
        If `value` is not sparse.
    NotImplementedError
        For an unsupported format or dtype.
    """
    if not scipy.sparse.issparse(value):
        raise TypeError("Expected a sparse matrix in the sparse shared variable constructor. Received: ", type(value))
    type_ = SparseType(format=value.format if format is None else format, dtype=value.dtype)
    return SparseTensorSharedVariable(
        type=type_,
        value=value if borrow else copy.deepcopy(value),
        name=name,
        strict=strict,
        allow_downcast=allow_downcast,
    )


shared = sparse_constructor
