"""The C code of the operators of arrays: expressions of the operands ``a`` and ``b``, and functions that they call."""

import numpy as np

from theano_ng.gpuarray.kernels.samples import KernelSample
from theano_ng.gpuarray.pygpu._elemwise import arg, kernel_text, work_type

__all__ = ["OPERATIONS", "code", "comparison", "wrapping_type"]


def comparison(op, first, second):
    """Return the expression that compares values, which are converted to two dtypes.

    The dtypes only differ for int64 and uint64, for which C would convert negative numbers to large ones.
    """
    if first == second:
        return "res = (%(t)s)a %(op)s (%(t)s)b" % {"t": work_type(first), "op": op}
    negative = "a < 0 ? -1 %s 0" % op if first.kind == "i" else "b < 0 ? 0 %s -1" % op
    return "res = %s : (ga_ulong)a %s (ga_ulong)b" % (negative, op)


def wrapping_type(dtype):
    """Return the type in which + - * of a dtype are computed: for integers an unsigned type, which may overflow."""
    if dtype.kind in "iu":
        return "ga_ulong" if dtype.itemsize == 8 else "ga_uint"
    return work_type(dtype)


# Functions of kernels. T is the type of the operands, W its wrapping type.
QUOTIENT_OF_SIGNED = """
WITHIN_KERNEL T floor_quotient(T a, T b)
{
    if (b == 0)
        return 0;
    if (b == -1)
        return (T)((W)0 - (W)a); /* a / b overflows if a is the minimum */
    const T q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
"""
REMAINDER_OF_SIGNED = """
WITHIN_KERNEL T floor_remainder(T a, T b)
{
    if (b == 0 || b == -1)
        return 0;
    const T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
"""
QUOTIENT_OF_UNSIGNED = """
WITHIN_KERNEL T floor_quotient(T a, T b)
{
    return b == 0 ? 0 : a / b;
}
"""
REMAINDER_OF_UNSIGNED = """
WITHIN_KERNEL T floor_remainder(T a, T b)
{
    return b == 0 ? 0 : a % b;
}
"""
REMAINDER_OF_FLOATS = """
WITHIN_KERNEL T floor_remainder(T a, T b)
{
    const T r = fmod(a, b);
    if (b == 0)
        return r;
    if (r == 0)
        return copysign((T)0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}
"""
# The rounded quotient a / b may be an integer that is larger than the exact quotient. (a - r) / b is almost an integer.
QUOTIENT_OF_FLOATS = """
WITHIN_KERNEL T floor_quotient(T a, T b)
{
    if (b == 0)
        return a / b;
    const T r = fmod(a, b);
    T q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0))
        q -= 1;
    if (q == 0)
        return copysign((T)0, a / b);
    const T below = floor(q);
    return q - below > (T)0.5f ? below + 1 : below;
}
"""
# As an unsigned number, a negative distance is larger than all numbers of bits.
SHIFTS = """
WITHIN_KERNEL T shifted_left(T a, T b)
{
    return (ga_ulong)b >= 8 * sizeof(T) ? 0 : (T)((W)a << b);
}
WITHIN_KERNEL T shifted_right(T a, T b)
{
    return (ga_ulong)b >= 8 * sizeof(T) ? (T)(a < 0 ? -1 : 0) : (T)(a >> b);
}
"""
POWER_OF_INTEGERS = """
WITHIN_KERNEL T integer_power(T a, T b)
{
    W result = 1, square = (W)a;
    for (T rest = b; rest > 0; rest >>= 1) {
        if (rest & 1)
            result *= square;
        square *= square;
    }
    return (T)result;
}
"""


def _arithmetic(symbol, dtype):
    return "", "(W)a %s (W)b" % symbol


def _sum(symbol, dtype):
    return "", "a || b" if dtype.kind == "b" else "(W)a + (W)b"


def _product(symbol, dtype):
    return "", "a && b" if dtype.kind == "b" else "(W)a * (W)b"


def _plain(symbol, dtype):
    return "", "(T)a %s (T)b" % symbol


def _floor_quotient(symbol, dtype):
    functions = {"f": QUOTIENT_OF_FLOATS, "i": QUOTIENT_OF_SIGNED, "u": QUOTIENT_OF_UNSIGNED}
    return functions[dtype.kind], "floor_quotient((T)a, (T)b)"


def _floor_remainder(symbol, dtype):
    functions = {"f": REMAINDER_OF_FLOATS, "i": REMAINDER_OF_SIGNED, "u": REMAINDER_OF_UNSIGNED}
    return functions[dtype.kind], "floor_remainder((T)a, (T)b)"


def _shift(symbol, dtype):
    return SHIFTS, "%s((T)a, (T)b)" % ("shifted_left" if symbol == "<<" else "shifted_right")


def _general_power(symbol, dtype):
    if dtype.kind == "f":
        return "", "pow((T)a, (T)b)"
    return POWER_OF_INTEGERS, "integer_power((T)a, (T)b)"


# Name of an operator -> its symbol, the ufunc of NumPy, and a function that returns its C functions and expression.
OPERATIONS = {
    "add": ("+", np.add, _sum),
    "sub": ("-", np.subtract, _arithmetic),
    "mul": ("*", np.multiply, _product),
    "truediv": ("/", np.true_divide, _plain),
    "floordiv": ("//", np.floor_divide, _floor_quotient),
    "mod": ("%", np.remainder, _floor_remainder),
    "pow": ("**", np.power, _general_power),
    "and": ("&", np.bitwise_and, _plain),
    "or": ("|", np.bitwise_or, _plain),
    "xor": ("^", np.bitwise_xor, _plain),
    "lshift": ("<<", np.left_shift, _shift),
    "rshift": (">>", np.right_shift, _shift),
}
# Powers that NumPy computes by other functions, which are exact, if the exponent is a Python number.
EXACT_POWERS = {-1: "1 / (T)a", 0.5: "sqrt((T)a)", 2: "(T)a * (T)a"}


def code(name, dtype, exponent):
    """Return the functions and the expression of an operation in a dtype. `exponent` is only used for powers."""
    symbol, _, build = OPERATIONS[name]
    functions, expr = build(symbol, dtype)
    if name == "pow" and dtype.kind == "f" and isinstance(exponent, (int, float)):
        expr = EXACT_POWERS.get(exponent, expr)
    definitions = "#define T %s\n#define W %s\n" % (work_type(dtype), wrapping_type(dtype))
    return definitions + functions, expr


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    found = []
    for name in ("floordiv", "mod", "pow", "lshift"):
        for dtype in map(
            np.dtype, ("int8", "uint64") if name == "lshift" else ("int8", "uint64", "float16", "float64")
        ):
            functions, expr = code(name, dtype, None)
            args = (arg("res", dtype, write=True), arg("a", dtype, read=True), arg("b", dtype, scalar=True))
            found.append(KernelSample("%s, %s" % (name, dtype), kernel_text("res = " + expr, args, functions, 1)[0]))
    return found
