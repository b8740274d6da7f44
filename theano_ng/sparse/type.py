"""The class `SparseType`: the type of sparse matrices with a format and a dtype."""

import numpy as np
import scipy.sparse

from theano_ng.gof.graph import Variable
from theano_ng.gof.type import Generic, Type
from theano_ng.sparse.values import (
    CLASSES,
    _is_sparse,
    check_pattern,
    matrix_of,
    nearly_same_values,
    same_values,
    shares_memory,
)

__all__ = ["SparseType", "_is_sparse"]

imported_scipy = True
string_types = (str,)

_DTYPES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split()


class SparseType(Type):
    """The type of SciPy's sparse matrices with a given format and dtype.

    Parameters
    ----------
    format : {'csr', 'csc', 'bsr'}
        The storage format. Most operations support csr and csc only.
    dtype : str
        A dtype in `dtype_set`, for instance ``'float32'``.

    Raises
    ------
    NotImplementedError
        For an unsupported format or dtype.

    Notes
    -----
    Types are equal if format and dtype are equal. Matrices have two dimensions, and are not broadcast. Indices need not
    be sorted. Several entries may have the same position. The element is then their sum. Entries may be zero.
    `ensure_sorted_indices` sorts indices, `remove0` removes zeros, and `clean` does both. SciPy's sparse arrays are
    also accepted, and are converted to matrices that share memory with the arrays.

    In C code, a value is a ``PyObject *``. Ops with C code read its parts; see `csm_properties`.

    Examples
    --------
    >>> from theano_ng import sparse
    >>> sparse.SparseType(dtype="float32", format="csr").make_variable()
    SparseVariable{csr,float32}
    """

    format_cls = CLASSES
    dtype_set = set(_DTYPES)
    ndim = 2

    # The classes of variables and constants. The module `var` sets them.
    Variable = None
    Constant = None

    def __init__(self, format, dtype):
        dtype = np.dtype(dtype).name if isinstance(dtype, (type, np.dtype)) else str(dtype)
        if dtype not in self.dtype_set:
            raise NotImplementedError('unsupported dtype "%s" not in list' % dtype, sorted(self.dtype_set))
        if not isinstance(format, str) or format not in self.format_cls:
            raise NotImplementedError('unsupported format "%s" not in list' % (format,), list(self.format_cls))
        self.dtype = dtype
        self.format = format

    def clone(self, format=None, dtype=None):
        """Return a copy of this type with another format or dtype."""
        return type(self)(format or self.format, dtype or self.dtype)

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented if not isinstance(other, Type) else False
        return self.format == other.format and self.dtype == other.dtype

    def __ne__(self, other):
        result = self.__eq__(other)
        return result if result is NotImplemented else not result

    def __hash__(self):
        return hash((type(self).__module__, type(self).__qualname__, self.format, self.dtype))

    def __str__(self):
        return "Sparse[%s, %s]" % (self.dtype, self.format)

    __repr__ = __str__

    def make_variable(self, name=None):
        """Return a new `SparseVariable` of this type."""
        return self.Variable(self, name=name)

    # -- values --------------------------------------------------------------------------------------------------

    def _fits(self, value):
        return scipy.sparse.issparse(value) and value.format == self.format and value.dtype == self.dtype

    def filter(self, value, strict=False, allow_downcast=None):
        """Convert `value` to a sparse matrix of this type.

        Parameters
        ----------
        value : sparse matrix or array, or array_like
            A value that SciPy can convert to a sparse matrix: a matrix in another format, a dense matrix, nested lists.
        strict : bool
            If True, `value` must be of this type, and is returned itself.
        allow_downcast : bool, optional
            Whether the dtype may be converted.

        Returns
        -------
        scipy.sparse.spmatrix
            `value` itself if it is a matrix of this type, otherwise a new matrix. If `value` is a sparse array with
            this format and dtype, the new matrix shares memory with `value`.

        Raises
        ------
        TypeError
            If `value` is a variable or is not a matrix, or if `strict` is True and `value` is not of this type.
        NotImplementedError
            If `value` has another dtype, and `allow_downcast` is not true.
        ValueError
            If an index is outside of the matrix.
        """
        if isinstance(value, Variable):
            raise TypeError(
                "Expected a sparse matrix, but found a Variable: maybe you are trying to call a function on a (possibly shared) variable "
                "instead of a numeric value?"
            )
        if self._fits(value):
            check_pattern(value)
            return value if strict else matrix_of(value)
        if strict:
            raise TypeError(
                "%s is not sparse, or not the right dtype (is %s, expected %s), or not in format %s"
                % (value, getattr(value, "dtype", type(value).__name__), self.dtype, self.format)
            )
        if scipy.sparse.issparse(value) and value.format in self.format_cls:
            check_pattern(value)
        converted = self.format_cls[self.format](value)
        if converted.dtype != self.dtype:
            if not allow_downcast:
                raise NotImplementedError("Expected %s dtype but got %s" % (self.dtype, converted.dtype))
            converted = converted.astype(self.dtype)
        check_pattern(converted)
        return converted

    def is_valid_value(self, a):
        """Return True if `a` is a sparse matrix of this type, with all indices inside of the matrix."""
        if not self._fits(a):
            return False
        try:
            check_pattern(a)
        except ValueError:
            return False
        return True

    def value_validity_msg(self, a):
        """Return the reason why `a` is not a valid value of this type, or ``'value is valid'``."""
        try:
            self.filter(a, strict=True)
        except (TypeError, ValueError) as failure:
            return str(failure)
        return "value is valid"

    @staticmethod
    def may_share_memory(a, b):
        """Return True if changing one value may change the other. A value may be an array, such as a matrix's data."""
        if a is b:
            return a is not None
        if not scipy.sparse.issparse(a):
            a, b = b, a
        return (
            scipy.sparse.issparse(a) and (scipy.sparse.issparse(b) or isinstance(b, np.ndarray)) and shares_memory(a, b)
        )

    def values_eq(self, a, b):
        """Return True if two values have the same format, shape, dtype and elements. Entries may differ in order."""
        return same_values(a, b)

    def have_equal_arrays(self, a, b):
        """Return True if two values are equal, and if their entries are stored in the same order."""
        return same_values(a, b) and all(
            np.array_equal(getattr(a, part), getattr(b, part), equal_nan=part == "data" and a.dtype.kind in "fc")
            for part in ("data", "indices", "indptr")
        )

    def values_eq_approx(self, a, b, eps=1e-6):
        """Return True if two values have the same format, shape and dtype, and ``|a - b| <= eps + rtol * |b|``.

        `rtol` is the relative tolerance for tensors of this dtype.
        """
        return nearly_same_values(a, b, eps)

    def get_shape_info(self, obj):
        """Return the argument of `get_size`: shape, lengths of data, indices and indptr, and the number of entries."""
        return obj.shape, obj.data.size, obj.indices.size, obj.indptr.size, obj.nnz

    def get_size(self, shape_info):
        """Return the size of a value in bytes, given the result of `get_shape_info`. An index counts as four bytes."""
        _, data, indices, indptr, _ = shape_info
        return data * np.dtype(self.dtype).itemsize + (indices + indptr) * np.dtype("int32").itemsize

    # In C, a value is a Python object, as for the type Generic.
    c_declare = Generic.c_declare
    c_init = Generic.c_init
    c_cleanup = Generic.c_cleanup
    c_extract = Generic.c_extract
    c_sync = Generic.c_sync
    c_code_cache_version = Generic.c_code_cache_version
