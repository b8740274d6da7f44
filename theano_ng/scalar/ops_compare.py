"""Comparisons and predicates, whose result is bool, and bitwise operations."""

import numpy as np

from theano_ng.scalar.op import BinaryScalarOp, UnaryScalarOp, c_cast, is_complex, is_discrete, zeros_for
from theano_ng.scalar.out_types import same_out, upcast_out
from theano_ng.scalar.types import bool_, c_type, discrete_types, upcast


class LogicalComparison(BinaryScalarOp):
    """A comparison of two scalars. The result is bool.

    Operands of different dtypes are compared in the promoted dtype, as in NumPy. Complex numbers are compared by their
    real parts. If the real parts are equal, they are compared by their imaginary parts.
    """

    c_operator = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

    def output_types(self, *input_dtypes):
        """Return bool, or for an in-place version, the types that its `output_types_preference` returns."""
        if "output_types_preference" in self.__dict__:
            return self.output_types_preference(*input_dtypes[0])
        return [bool_]

    def impl(self, x, y):
        with np.errstate(all="ignore"):
            return getattr(np, self.nfunc_spec[0])(x, y)

    def c_expression(self, args, dtypes, out):
        return _comparison(self.c_operator, args, dtypes)

    def L_op(self, inputs, outputs, output_gradients):
        return zeros_for(inputs)

    def grad(self, inputs, output_gradients):
        return zeros_for(inputs)


_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}


def _comparison(operator, args, dtypes):
    """Return a C expression that compares two numbers in their promoted dtype."""
    common = upcast(*dtypes)
    # C compares bools as uint8 and float16 values as float32.
    common = {"bool": "uint8", "float16": "float32"}.get(common, common)
    if common == "float64" and is_discrete(dtypes[0]) and is_discrete(dtypes[1]):
        return _compare_signs(operator, args, dtypes)
    x, y = (c_cast(a, d, common) for a, d in zip(args, dtypes))
    if is_complex(common) and operator not in ("==", "!="):
        return compare_complex(operator, x, y)
    return "(%s %s %s)" % (x, operator, y)


def compare_complex(operator, x, y):
    """Return a C expression that compares two complex numbers in NumPy's order.

    The comparison is false if a real or imaginary part is NaN.
    """
    if operator in (">", ">="):
        operator, x, y = _MIRRORED[operator], y, x
    parts = {"xr": "TNG_RE(%s)" % x, "xi": "TNG_IM(%s)" % x, "yr": "TNG_RE(%s)" % y, "yi": "TNG_IM(%s)" % y}
    return "(({xr} < {yr} && {xi} == {xi} && {yi} == {yi}) || ({xr} == {yr} && {xi} {operator} {yi}))".format(
        operator=operator, **parts
    )


def _compare_signs(operator, args, dtypes):
    """Return a C expression that compares a signed integer with a uint64 exactly.

    A conversion to float64, their promoted dtype, would round.
    """
    signed, unsigned = args
    if dtypes[0] == "uint64":
        unsigned, signed = args
        operator = _MIRRORED[operator]
    # A negative number is smaller than every unsigned number.
    if operator in ("<", "<=", "!="):
        return "((%s) < 0 || (npy_uint64)(%s) %s (%s))" % (signed, signed, operator, unsigned)
    return "((%s) >= 0 && (npy_uint64)(%s) %s (%s))" % (signed, signed, operator, unsigned)


class FixedLogicalComparison(UnaryScalarOp):
    """A predicate of one scalar. The result is bool."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

    def output_types(self, *input_dtypes):
        """Return bool, or for an in-place version, the types that its `output_types_preference` returns."""
        if "output_types_preference" in self.__dict__:
            return self.output_types_preference(*input_dtypes[0])
        return [bool_]

    def L_op(self, inputs, outputs, output_gradients):
        return zeros_for(inputs)

    def grad(self, inputs, output_gradients):
        return zeros_for(inputs)


class LT(LogicalComparison):
    """The comparison ``x < y``."""

    nfunc_spec = ("less", 2, 1)
    c_operator = "<"


class GT(LogicalComparison):
    """The comparison ``x > y``."""

    nfunc_spec = ("greater", 2, 1)
    c_operator = ">"


class LE(LogicalComparison):
    """The comparison ``x <= y``."""

    nfunc_spec = ("less_equal", 2, 1)
    c_operator = "<="


class GE(LogicalComparison):
    """The comparison ``x >= y``."""

    nfunc_spec = ("greater_equal", 2, 1)
    c_operator = ">="


class EQ(LogicalComparison):
    """The comparison ``x == y``, by value."""

    commutative = True
    nfunc_spec = ("equal", 2, 1)
    c_operator = "=="


class NEQ(LogicalComparison):
    """The comparison ``x != y``, by value."""

    commutative = True
    nfunc_spec = ("not_equal", 2, 1)
    c_operator = "!="


def _float_predicate(function, arg, dtype):
    """Return a C expression for isnan or isinf of `arg`. It is always false for a discrete dtype."""
    if is_discrete(dtype):
        return "0"
    if is_complex(dtype):
        return "(%s(TNG_RE(%s)) || %s(TNG_IM(%s)))" % (function, arg, function, arg)
    return "(%s(%s) != 0)" % (function, arg)


class IsNan(FixedLogicalComparison):
    """A test of whether x is NaN."""

    nfunc_spec = ("isnan", 1, 1)

    def impl(self, x):
        return np.isnan(x)

    def c_expression(self, args, dtypes, out):
        return _float_predicate("__builtin_isnan", args[0], dtypes[0])


class IsInf(FixedLogicalComparison):
    """A test of whether x is infinite."""

    nfunc_spec = ("isinf", 1, 1)

    def impl(self, x):
        return np.isinf(x)

    def c_expression(self, args, dtypes, out):
        return _float_predicate("__builtin_isinf", args[0], dtypes[0])


class InRange(LogicalComparison):
    """A test of whether x is in an interval: ``low < x < hi``, with ``<=`` at an end that is not open.

    Parameters
    ----------
    openlow, openhi : bool
        If True, the interval does not contain its lower end (`openlow`) or its upper end (`openhi`).
    """

    nin = 3
    __props__ = ("openlow", "openhi")

    def __init__(self, openlow, openhi):
        self.openlow = openlow
        self.openhi = openhi
        super().__init__()

    def __str__(self):
        return "InRange{openlow=%s, openhi=%s}" % (self.openlow, self.openhi)

    def impl(self, x, low, hi):
        above = x > low if self.openlow else x >= low
        below = x < hi if self.openhi else x <= hi
        return bool(above) and bool(below)

    def c_expression(self, args, dtypes, out):
        above = _comparison(">" if self.openlow else ">=", args[:2], dtypes[:2])
        below = _comparison("<" if self.openhi else "<=", (args[0], args[2]), (dtypes[0], dtypes[2]))
        return "%s & %s" % (above, below)

    def get_grad(self, elem):
        """Return the gradient for the input `elem`, which is zero. It has the dtype floatX if `elem` is discrete."""
        return zeros_for([elem])[0]

    def L_op(self, inputs, outputs, gout):
        return [self.get_grad(elem) for elem in inputs]


class _BitTypes:
    """A mixin with the output types of bitwise ops, which accept only discrete inputs."""

    def output_types(self, *input_types):
        types = input_types[0]
        for t in types:
            if t not in discrete_types:
                raise TypeError(
                    "input to a bitwise operation must have an integer or bool dtype: %s got inputs of types %s"
                    % (self, list(types))
                )
        result = super().output_types(types)
        if any(t not in discrete_types for t in result):
            raise TypeError(
                "%s: no integer dtype holds both of %s; cast one of the inputs to the dtype of the other"
                % (self, list(types))
            )
        return result

    def grad(self, inputs, output_gradients):
        return zeros_for(inputs)


class UnaryBitOp(_BitTypes, UnaryScalarOp):
    """A bitwise op on one integer or bool."""

    output_types_preference = staticmethod(same_out)


class BinaryBitOp(_BitTypes, BinaryScalarOp):
    """A bitwise op on two integers or bools."""

    output_types_preference = staticmethod(upcast_out)
    commutative = True
    associative = True
    c_operator = None

    def impl(self, x, y):
        return getattr(np, self.nfunc_spec[0])(x, y)

    def c_expression(self, args, dtypes, out):
        return "(%s)(%s %s %s)" % (
            c_type(out),
            c_cast(args[0], dtypes[0], out),
            self.c_operator,
            c_cast(args[1], dtypes[1], out),
        )


class OR(BinaryBitOp):
    """Bitwise or. For bools: logical or."""

    identity = 0
    nfunc_spec = ("bitwise_or", 2, 1)
    c_operator = "|"


class XOR(BinaryBitOp):
    """Bitwise exclusive or."""

    identity = 0
    nfunc_spec = ("bitwise_xor", 2, 1)
    c_operator = "^"


class AND(BinaryBitOp):
    """Bitwise and. For bools: logical and."""

    identity = -1
    nfunc_spec = ("bitwise_and", 2, 1)
    c_operator = "&"


class Invert(UnaryBitOp):
    """Bitwise complement. For a bool: logical not."""

    nfunc_spec = ("invert", 1, 1)

    def impl(self, x):
        return np.invert(x)

    def c_expression(self, args, dtypes, out):
        if dtypes[0] == "bool":
            return "(!(%s))" % args[0]
        return "(%s)(~(%s))" % (c_type(out), c_cast(args[0], dtypes[0], out))
