"""Sparse variables and constants, and the functions that make them."""

import scipy.sparse

from theano_ng.configdefaults import config
from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.utils import hashtype
from theano_ng.sparse.type import SparseType
from theano_ng.sparse.utils import hash_from_sparse
from theano_ng.sparse.values import matrix_of
from theano_ng.tensor.constant import as_tensor_variable

__all__ = [
    "SparseConstant",
    "SparseConstantSignature",
    "SparseVariable",
    "_is_dense",
    "_is_dense_variable",
    "_is_sparse_variable",
    "_mtype_to_str",
    "_mtypes",
    "_sparse_py_operators",
    "all_dtypes",
    "as_sparse",
    "as_sparse_or_tensor_variable",
    "as_sparse_variable",
    "bsr_dmatrix",
    "bsr_fmatrix",
    "bsr_matrix",
    "complex_dtypes",
    "constant",
    "continuous_dtypes",
    "csc_dmatrix",
    "csc_fmatrix",
    "csc_matrix",
    "csr_dmatrix",
    "csr_fmatrix",
    "csr_matrix",
    "discrete_dtypes",
    "float_dtypes",
    "integer_dtypes",
    "matrix",
    "sparse_formats",
]

sparse_formats = ["csc", "csr"]
_mtypes = [scipy.sparse.csc_matrix, scipy.sparse.csr_matrix]
_mtype_to_str = {scipy.sparse.csc_matrix: "csc", scipy.sparse.csr_matrix: "csr"}

all_dtypes = SparseType.dtype_set
float_dtypes = [dtype for dtype in sorted(all_dtypes) if dtype.startswith("float")]
complex_dtypes = [dtype for dtype in sorted(all_dtypes) if dtype.startswith("complex")]
integer_dtypes = [dtype for dtype in sorted(all_dtypes) if dtype.startswith(("int", "uint"))]
discrete_dtypes = integer_dtypes
continuous_dtypes = sorted([*complex_dtypes, *float_dtypes])


class _sparse_py_operators:
    """A mixin with the attributes, methods and operators of sparse variables.

    The module `theano_ng.sparse.methods` adds further methods to this class: the methods that apply Ops.
    """

    @property
    def dtype(self):
        """The name of the dtype of the elements."""
        return self.type.dtype

    @property
    def format(self):
        """The storage format: ``'csr'``, ``'csc'`` or ``'bsr'``."""
        return self.type.format

    @property
    def ndim(self):
        """The number of dimensions: 2."""
        return self.type.ndim


class SparseVariable(_sparse_py_operators, Variable):
    """A variable whose type is a `SparseType`."""

    def __str__(self):
        return "%s{%s,%s}" % (type(self).__name__, self.format, self.dtype)

    def __repr__(self, firstPass=True):
        return str(self)


class SparseConstantSignature(tuple):
    """The type and the matrix of a `SparseConstant`. Rewriting merges constants with equal signatures."""

    def _bits(self):
        found = self.__dict__.get("_hash")
        if found is None:
            found = self.__dict__["_hash"] = hash_from_sparse(self[1])
        return found

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return self[0] == other[0] and (self[1] is other[1] or self._bits() == other._bits())

    def __ne__(self, other):
        result = self.__eq__(other)
        return result if result is NotImplemented else not result

    def __hash__(self):
        type_, data = self
        return hash((hashtype(self), type_, data.shape, self._bits()))

    def theano_hash(self):
        """Return a hash that is equal in all processes."""
        return self._bits()


class SparseConstant(Constant, _sparse_py_operators):
    """A constant whose type is a `SparseType`."""

    def signature(self):
        """Return the `SparseConstantSignature`, which is equal for constants of equal type and value."""
        return SparseConstantSignature((self.type, self.data))

    def __str__(self):
        return "%s{%s,%s,shape=%s,nnz=%s}" % (
            type(self).__name__,
            self.format,
            self.dtype,
            self.data.shape,
            self.data.nnz,
        )

    def __repr__(self, firstPass=True):
        return str(self)


SparseType.Variable = SparseVariable
SparseType.Constant = SparseConstant


# ---------------------------------------------------------------------------


def _is_sparse_variable(x):
    """Return True if `x` is a variable with a `SparseType`.

    Raises
    ------
    NotImplementedError
        If `x` is not a variable.
    """
    if not isinstance(x, Variable):
        raise NotImplementedError(
            "this function should only be called on *variables* (of type SparseType or TensorType), not on %r" % (x,)
        )
    return isinstance(x.type, SparseType)


def _is_dense_variable(x):
    """Return True if `x` is a tensor variable. Raise NotImplementedError if it is not a variable."""
    return not _is_sparse_variable(x) and hasattr(x.type, "broadcastable")


def _is_dense(x):
    """Return True if `x` is an array, and False if it is a sparse matrix.

    Raises
    ------
    NotImplementedError
        If `x` is neither an array nor a sparse matrix.
    """
    if not (scipy.sparse.issparse(x) or hasattr(x, "__array_interface__")):
        raise NotImplementedError(
            "this function should only be called on sparse.scipy.sparse.spmatrix or numpy.ndarray, not %r" % (x,)
        )
    return not scipy.sparse.issparse(x)


def as_sparse_variable(x, name=None):
    """Convert `x` to a sparse variable.

    Parameters
    ----------
    x : SparseVariable, Apply or sparse matrix
        A variable is returned unchanged. For an Apply, its only output is returned. A matrix in format csr, csc or bsr
        becomes a constant of the same format and dtype.
    name : str, optional
        The name of the constant.

    Returns
    -------
    SparseVariable

    Raises
    ------
    TypeError
        If `x` is not sparse.
    ValueError
        If `x` is an Apply with several outputs.
    """
    if isinstance(x, Apply):
        if len(x.outputs) != 1:
            raise ValueError("It is ambiguous which output of a multi-output Op has to be fetched.", x)
        x = x.outputs[0]
    if isinstance(x, Variable):
        if not isinstance(x.type, SparseType):
            raise TypeError("Variable type field must be a SparseType.", x, x.type)
        return x
    try:
        return constant(x, name=name)
    except TypeError as failure:
        raise TypeError("Cannot convert %s to SparseType" % (x,), type(x)) from failure


as_sparse = as_sparse_variable


def as_sparse_or_tensor_variable(x, name=None):
    """Convert `x` to a sparse variable or, if that is not possible, to a tensor variable.

    Parameters
    ----------
    x : object
        The object; see `as_sparse_variable` and `tensor.as_tensor_variable`.
    name : str, optional
        The name of the constant, if one is made.
    """
    try:
        return as_sparse_variable(x, name)
    except (ValueError, TypeError):
        return as_tensor_variable(x, name)


def constant(x, name=None):
    """Return a constant for a sparse matrix.

    Parameters
    ----------
    x : scipy.sparse.spmatrix or scipy.sparse.sparray
        A matrix in format csr, csc or bsr. It is copied.
    name : str, optional

    Raises
    ------
    TypeError
        If `x` is not sparse.
    NotImplementedError
        If the format or the dtype is not supported.
    """
    if not scipy.sparse.issparse(x):
        raise TypeError("sparse.constant must be called on a scipy.sparse.spmatrix")
    type_ = SparseType(format=x.format, dtype=x.dtype)
    return SparseConstant(type_, type_.filter(matrix_of(x).copy()), name=name)


# ---------------------------------------------------------------------------


def matrix(format, name=None, dtype=None):
    """Return a new sparse variable.

    Parameters
    ----------
    format : {'csr', 'csc', 'bsr'}
    name : str, optional
    dtype : str, optional
        The dtype. Default: `config.floatX`.
    """
    return SparseType(format=format, dtype=config.floatX if dtype is None else dtype)(name)


def csc_matrix(name=None, dtype=None):
    """Return a new sparse variable in format csc; see `matrix`."""
    return matrix("csc", name, dtype)


def csr_matrix(name=None, dtype=None):
    """Return a new sparse variable in format csr; see `matrix`."""
    return matrix("csr", name, dtype)


def bsr_matrix(name=None, dtype=None):
    """Return a new sparse variable in format bsr; see `matrix`."""
    return matrix("bsr", name, dtype)


# Types of sparse matrices. Calling a type with a name makes a variable.
csc_dmatrix = SparseType(format="csc", dtype="float64")
csr_dmatrix = SparseType(format="csr", dtype="float64")
bsr_dmatrix = SparseType(format="bsr", dtype="float64")
csc_fmatrix = SparseType(format="csc", dtype="float32")
csr_fmatrix = SparseType(format="csr", dtype="float32")
bsr_fmatrix = SparseType(format="bsr", dtype="float32")
