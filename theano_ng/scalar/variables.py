"""Scalar variables and their Python operators."""

# The operators look up ops in the namespace `ops` at each call. This module cannot import the modules that define the
# ops, because those modules import this module.
from theano_ng.gof.graph import Constant, Variable
from theano_ng.scalar.instances import ops


class _scalar_py_operators:
    """Python operators and attributes of scalar variables."""

    ndim = 0

    dtype = property(lambda self: self.type.dtype, doc="The dtype of the variable, a string.")

    # UNARY
    def __abs__(self):
        return ops.abs_(self)

    def __neg__(self):
        return ops.neg(self)

    def __invert__(self):
        return ops.invert(self)

    # CASTS
    def astype(self, dtype):
        """Return the variable, converted to `dtype`."""
        return ops.cast(self, dtype)

    def zeros_like(self, dtype=None):
        """Return zero as a function of self, so that the graph stays connected.

        The default of `dtype` is the dtype of self.
        """
        return ops.second(self, ops.constant(0, dtype=self.type.dtype if dtype is None else str(dtype)))

    def ones_like(self, dtype=None):
        """Return one as a function of self, so that the graph stays connected.

        The default of `dtype` is the dtype of self.
        """
        return ops.second(self, ops.constant(1, dtype=self.type.dtype if dtype is None else str(dtype)))

    # COMPARISONS; == and != keep the identity semantics of variables
    def __lt__(self, other):
        return ops.lt(self, other)

    def __le__(self, other):
        return ops.le(self, other)

    def __gt__(self, other):
        return ops.gt(self, other)

    def __ge__(self, other):
        return ops.ge(self, other)

    # BITWISE
    def __and__(self, other):
        return ops.and_(self, other)

    def __or__(self, other):
        return ops.or_(self, other)

    def __xor__(self, other):
        return ops.xor(self, other)

    def __rand__(self, other):
        return ops.and_(other, self)

    def __ror__(self, other):
        return ops.or_(other, self)

    def __rxor__(self, other):
        return ops.xor(other, self)

    # ARITHMETIC
    def __add__(self, other):
        return ops.add(self, other)

    def __radd__(self, other):
        return ops.add(other, self)

    def __sub__(self, other):
        return ops.sub(self, other)

    def __rsub__(self, other):
        return ops.sub(other, self)

    def __mul__(self, other):
        return ops.mul(self, other)

    def __rmul__(self, other):
        return ops.mul(other, self)

    def __truediv__(self, other):
        return ops.div_proxy(self, other)

    def __rtruediv__(self, other):
        return ops.div_proxy(other, self)

    __div__ = __truediv__
    __rdiv__ = __rtruediv__

    def __floordiv__(self, other):
        return ops.int_div(self, other)

    def __rfloordiv__(self, other):
        return ops.int_div(other, self)

    def __mod__(self, other):
        return ops.mod_check(self, other)

    def __rmod__(self, other):
        return ops.mod_check(other, self)

    def __pow__(self, other):
        return ops.pow(self, other)

    def __rpow__(self, other):
        return ops.pow(other, self)


class ScalarVariable(_scalar_py_operators, Variable):
    """A symbolic number."""


class ScalarConstant(_scalar_py_operators, Constant):
    """A symbolic number with a known value."""

    def merge_signature(self):
        # Compare bits: quotients by 0.0 and -0.0 differ, and NaN must equal itself.
        return (self.type, self.data.tobytes())
