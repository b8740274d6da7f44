"""Operators and methods of sparse variables. This module adds them to the mixin of the classes of sparse variables."""

from theano_ng.compile.ops import shape
from theano_ng.sparse import arithmetic, comparisons, conversion, indexing, products, shaping, structured
from theano_ng.sparse.var import _sparse_py_operators


class _Methods:
    """The methods that this module adds to `_sparse_py_operators`."""

    T = property(lambda self: shaping.transpose(self), doc="The transpose, in the other format.")
    shape = property(lambda self: shape(self), doc="The shape, as an int64 vector.")
    real = property(lambda self: structured.real(self), doc="The real parts of the elements.")
    size = property(lambda self: conversion.csm_properties(self)[0].shape[0], doc="The number of stored elements.")

    def __neg__(self):
        return arithmetic.neg(self)

    def __add__(left, right):
        return arithmetic.add(left, right)

    def __radd__(right, left):
        return arithmetic.add(left, right)

    def __sub__(left, right):
        return arithmetic.sub(left, right)

    def __rsub__(right, left):
        return arithmetic.sub(left, right)

    def __mul__(left, right):
        return arithmetic.mul(left, right)

    def __rmul__(left, right):
        return arithmetic.mul(left, right)

    def __lt__(self, other):
        return comparisons.lt(self, other)

    def __le__(self, other):
        return comparisons.le(self, other)

    def __gt__(self, other):
        return comparisons.gt(self, other)

    def __ge__(self, other):
        return comparisons.ge(self, other)

    # theano.dot(x, y) calls these methods.

    def __dot__(left, right):
        return products.structured_dot(left, right)

    def __rdot__(right, left):
        return products.structured_dot(left, right)

    __matmul__ = __dot__
    __rmatmul__ = __rdot__

    def __getitem__(self, args):
        """Return rows, blocks or elements, as for SciPy's matrices.

        The indices are integers, slices and vectors of integers, which may be symbolic.
        """
        return indexing.index_sparse(self, args)

    def toarray(self):
        """Return the dense matrix; see `dense_from_sparse`."""
        return conversion.dense_from_sparse(self)

    def astype(self, dtype):
        """Return the matrix converted to another dtype; see `cast`."""
        return conversion.cast(self, dtype)

    def zeros_like(model, dtype=None):
        """Return a sparse matrix of this shape without entries; see `sp_zeros_like`."""
        return conversion.sp_zeros_like(model, dtype)


for _name, _value in vars(_Methods).items():
    if _name not in ("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__"):
        setattr(_sparse_py_operators, _name, _value)
del _name, _value
