"""Elementwise operations on arrays. The operators of `GpuArray` call these functions.

The operators take the dtypes of their loops from NumPy's ufuncs, so that their results have NumPy's dtypes. They differ
from NumPy in that they issue no warnings and do not compute complex numbers.
"""

import operator

import numpy as np

from theano_ng.gpuarray.pygpu import gpuarray, reduction
from theano_ng.gpuarray.pygpu._elemwise import GpuElemwise, arg, work_type
from theano_ng.gpuarray.pygpu._operator_code import OPERATIONS, code, comparison, wrapping_type
from theano_ng.gpuarray.pygpu.dtypes import get_common_dtype
from theano_ng.gpuarray.pygpu.gpuarray import GpuArray

__all__ = ["as_argument", "compare", "elemwise1", "elemwise2", "ielemwise2"]

# Name of a unary operator -> its symbol, and the ufunc of NumPy.
UNARY = {"neg": ("-", np.negative), "pos": ("+", np.positive), "invert": ("~", np.invert), "abs": ("abs", np.absolute)}
# Symbol of a comparison -> the ufunc of NumPy, and the function for Python numbers.
COMPARISONS = {
    "<": (np.less, operator.lt),
    "<=": (np.less_equal, operator.le),
    "==": (np.equal, operator.eq),
    "!=": (np.not_equal, operator.ne),
    ">": (np.greater, operator.gt),
    ">=": (np.greater_equal, operator.ge),
}


def as_argument(obj, name, read=False, write=False):
    """Return the kernel argument (an `arg`) that represents an array or a number."""
    if isinstance(obj, GpuArray):
        return arg(name, obj.dtype, read=read, write=write)
    return arg(name, np.asarray(obj).dtype, scalar=True)


def elemwise1(a, op, oper=None, op_tmpl="res = %(op)sa", out=None, convert_f16=True):
    """Apply an operation to one array.

    Parameters
    ----------
    a : GpuArray
    op : str
        The operator that replaces ``%(op)s`` in `op_tmpl`.
    oper : str, optional
        The whole expression, instead of `op_tmpl`.
    op_tmpl : str
        A template of the C expression, which assigns the result for an element ``a`` to ``res``.
    out : GpuArray, optional
        The array for the result.

    Returns
    -------
    GpuArray
    """
    if oper is None:
        _refuse_complex(op, a)
    if out is None:
        out = gpuarray.empty(a.shape, a.dtype, "F" if a.flags.fnc else "C", a.context, type(a))
    expr = oper or op_tmpl % {"op": op}
    GpuElemwise(a.context, expr, (arg("res", out.dtype, write=True), arg("a", a.dtype, read=True)))(out, a)
    return out


def elemwise2(
    a,
    op,
    b,
    ary,
    odtype=None,
    oper=None,
    op_tmpl="res = (%(out_t)s)a %(op)s (%(out_t)s)b",
    broadcast=True,
    convert_f16=True,
):
    """Apply an operation to two arrays, or to an array and a number.

    Parameters
    ----------
    a, b : GpuArray, array or number
    op : str
        The operator that replaces ``%(op)s`` in `op_tmpl`.
    ary : GpuArray
        The operand that determines the context and class of the result.
    odtype : dtype, optional
        Dtype of the result.
    oper : str, optional
        The whole expression, instead of `op_tmpl`.
    op_tmpl : str
        A template of the expression, in which ``%(out_t)s`` is the type of the result.
    broadcast : bool
        If True, axes of length 1 are broadcast.

    Returns
    -------
    GpuArray
    """
    a, b = (_operand(value, ary) for value in (a, b))
    if oper is None:
        _refuse_complex(op, a, b)
    odtype = np.dtype(get_common_dtype(a, b, True) if odtype is None else odtype)
    expr = oper or op_tmpl % {"op": op, "out_t": work_type(odtype)}
    return _new_result(expr, _number(a, odtype), _number(b, odtype), odtype, ary, broadcast)


def ielemwise2(a, op, b, oper=None, op_tmpl="a = a %(op)s b", broadcast=True, convert_f16=True):
    """Apply an operation in place: the result overwrites the first array.

    For the parameters, see `elemwise2`. If the elements of `b` overlap other elements of `a`, `b` is copied first.
    """
    b = _operand(b, a)
    if oper is None:
        _refuse_complex(op, a, b)
    return _overwrite(a, oper or op_tmpl % {"op": op, "out_t": work_type(a.dtype)}, _number(b, a.dtype), broadcast)


def compare(a, op, b, broadcast=True, convert_f16=True):
    """Compare arrays elementwise. Return an array of bools.

    Integers are compared exactly, also with Python integers that the dtype of the array cannot hold.
    """
    b = _operand(b, a)
    ufunc, holds = COMPARISONS[op]
    first, second, odtype = _loop(ufunc, op, a, b)
    if second.kind in "iu" and _is_python_int(b) and not _can_store(second, b):
        return _filled(a, holds(0, b))  # all elements are on the same side of b as 0
    return _new_result(comparison(op, first, second), a, _converted(b, second), odtype, a, broadcast)


def _operand(value, like):
    """Return a device array in the context of `like`, or a number: a Python number or a NumPy scalar."""
    if isinstance(value, (GpuArray, np.generic, bool, int, float, complex)):
        return value
    host = np.asarray(value)
    if host.dtype.kind not in "biufc":
        raise TypeError("an operand is %s, expected a number or an array of numbers" % type(value).__name__)
    return gpuarray.array(host, context=like.context) if host.ndim else host[()]


def _number(value, dtype):
    """Give a Python number the dtype that it has in operations on arrays of `dtype`. Return other values unchanged."""
    if isinstance(value, (GpuArray, np.generic)):
        return value
    return np.asarray(value, dtype=None if dtype.kind == "b" else np.result_type(dtype, value))


def _converted(value, dtype):
    """Convert a number to a dtype. Return an array unchanged: kernels convert its elements."""
    return value if isinstance(value, GpuArray) else np.asarray(value, dtype=dtype)


def _new_result(expr, a, b, dtype, like, broadcast=True, preamble=""):
    """Compute an expression of ``a`` and ``b`` in a new array, ``res``."""
    shape = np.broadcast_shapes(*[v.shape for v in (a, b) if isinstance(v, GpuArray)])
    out = gpuarray.empty(shape, dtype, context=like.context, cls=type(like))
    arguments = (arg("res", dtype, write=True), *(as_argument(v, n, read=True) for v, n in zip((a, b), "ab")))
    GpuElemwise(like.context, expr, arguments, preamble)(out, a, b, broadcast=broadcast)
    return out


def _overwrite(a, expr, b, broadcast=True, preamble=""):
    """Compute an expression that assigns to ``a``, the first array. Return this array."""
    arguments = (arg("a", a.dtype, read=True, write=True), as_argument(b, "b", read=True))
    GpuElemwise(a.context, expr, arguments, preamble)(a, b, broadcast=broadcast)
    return a


# ---- dtypes of operations ----


def _described(operand):
    """Return what NumPy's promotion accepts for an operand: a dtype, or the class of a Python number."""
    if isinstance(operand, (GpuArray, np.generic)):
        return operand.dtype
    if isinstance(operand, bool):
        return np.dtype("bool")
    return next(kind for kind in (int, float, complex) if isinstance(operand, kind))


def _names(operands):
    kinds = [_described(operand) for operand in operands]
    return " and ".join([kind.__name__ if isinstance(kind, type) else kind.name for kind in kinds])


def _refuse_complex(symbol, *operands):
    if any(np.dtype(_described(operand)).kind == "c" for operand in operands):
        raise TypeError(
            "operator %s got %s, but devices do not compute complex numbers; compute on the host: numpy.asarray(a)"
            % (symbol, _names(operands))
        )


def _loop(ufunc, symbol, *operands):
    """Return the dtypes to which NumPy's ufunc converts the operands, and the dtype of its result."""
    _refuse_complex(symbol, *operands)
    try:
        return ufunc.resolve_dtypes((*map(_described, operands), None))
    except TypeError as error:
        raise TypeError("operator %s is not defined for %s: %s" % (symbol, _names(operands), error)) from None


def _is_python_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def _can_store(dtype, number):
    return np.iinfo(dtype).min <= number <= np.iinfo(dtype).max


def _refuse_negative_exponents(a, b, dtype):
    """Raise ValueError if an exponent of integers is negative, as NumPy does. This reads the exponents of arrays."""
    if dtype.kind != "i" or 0 in [length for v in (a, b) if isinstance(v, GpuArray) for length in v.shape]:
        return
    if (int(reduction.extreme(b, "<")) if isinstance(b, GpuArray) else b) < 0:
        raise ValueError("integers to negative integer powers are not allowed: convert the base to floats (astype)")


# ---- the operators ----


def _filled(like, value):
    """Return an array of bools that all have one value, with the shape of `like`."""
    out = gpuarray.empty(like.shape, "bool", context=like.context, cls=type(like))
    out[...] = value
    return out


def _computed(name, a, b, like):
    """Return the result of an operator, as a new array in the context and of the class of `like`."""
    a, b = (_operand(value, like) for value in (a, b))
    symbol, ufunc, _ = OPERATIONS[name]
    first, second, odtype = _loop(ufunc, symbol, a, b)
    if name == "pow":
        _refuse_negative_exponents(a, b, odtype)
    functions, expr = code(name, first, b)
    return _new_result("res = " + expr, _converted(a, first), _converted(b, second), odtype, like, preamble=functions)


def _operator(name):
    return lambda a, b, like: _computed(name, a, b, like)


BINARY = {name: _operator(name) for name in OPERATIONS}


def _in_place(name, a, b):
    """Store the result of an operator in `a`. A result of a wider dtype of the same kind is converted, as in NumPy."""
    b = _operand(b, a)
    symbol, ufunc, _ = OPERATIONS[name]
    first, second, odtype = _loop(ufunc, symbol, a, b)
    if not np.can_cast(odtype, a.dtype, "same_kind"):
        raise TypeError(
            "the result of %s of %s has dtype %s, which an array of %s cannot store: write a = a %s b instead of a %s= b"
            % (symbol, _names((a, b)), odtype, a.dtype, symbol, symbol)
        )
    if odtype == a.dtype and first == a.dtype:
        if name == "pow":
            _refuse_negative_exponents(a, b, odtype)
        functions, expr = code(name, first, b)
        return _overwrite(a, "a = " + expr, _converted(b, second), preamble=functions)
    result = _computed(name, a, b, a)
    if result.shape != a.shape:
        raise ValueError("the result of %s= has shape %s, expected %s" % (symbol, result.shape, a.shape))
    a[...] = result
    return a


def _unary(name, a):
    symbol, ufunc = UNARY[name]
    if name != "pos" or a.dtype.kind != "c":
        _loop(ufunc, symbol, a)
    if name == "pos" or name == "abs" and a.dtype.kind in "ub":
        return a.copy()
    if name == "invert":
        return elemwise1(a, "!" if a.dtype == bool else "~")
    if a.dtype.kind == "f":
        return elemwise1(a, None, oper="res = fabs(a)" if name == "abs" else "res = -a")
    negative = "(%s)0 - a" % wrapping_type(a.dtype)  # -a overflows if a is the minimum
    return elemwise1(a, None, oper="res = a < 0 ? %s : a" % negative if name == "abs" else "res = " + negative)


def _divmod(a, b, like):
    a, b = (_operand(value, like) for value in (a, b))
    return _computed("floordiv", a, b, like), _computed("mod", a, b, like)


gpuarray.set_operators(BINARY, _in_place, compare, _unary, _divmod)
