"""Elementwise operations on arrays. The operators of `GpuArray` call these functions."""

import numpy as np

from theano_ng.gpuarray.pygpu import gpuarray
from theano_ng.gpuarray.pygpu._elemwise import GpuElemwise, arg
from theano_ng.gpuarray.pygpu.dtypes import dtype_to_ctype, get_common_dtype
from theano_ng.gpuarray.pygpu.gpuarray import GpuArray

__all__ = ["as_argument", "compare", "elemwise1", "elemwise2", "ielemwise2"]


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
    if odtype is None:
        odtype = get_common_dtype(a, b, True)
    odtype = np.dtype(odtype)
    shape = np.broadcast_shapes(*[v.shape for v in (a, b) if isinstance(v, GpuArray)])
    out = gpuarray.empty(shape, odtype, context=ary.context, cls=type(ary))
    names = {"op": op, "out_t": "float" if odtype == np.float16 else dtype_to_ctype(odtype)}
    values = [value if isinstance(value, GpuArray) else _number(value, odtype) for value in (a, b)]
    arguments = (arg("res", odtype, write=True), *(as_argument(v, n, read=True) for v, n in zip(values, "ab")))
    GpuElemwise(ary.context, oper or op_tmpl % names, arguments)(out, *values, broadcast=broadcast)
    return out


def ielemwise2(a, op, b, oper=None, op_tmpl="a = a %(op)s b", broadcast=True, convert_f16=True):
    """Apply an operation in place: the result overwrites the first array.

    For the parameters, see `elemwise2`. If `b` is not `a` itself but shares memory with `a`, `b` is copied first.
    """
    b = _operand(b, a)
    if isinstance(b, GpuArray) and gpuarray.may_share_memory(a, b) and b is not a:
        b = b.copy()
    value = b if isinstance(b, GpuArray) else _number(b, a.dtype)
    arguments = (arg("a", a.dtype, read=True, write=True), as_argument(value, "b", read=True))
    GpuElemwise(a.context, oper or op_tmpl % {"op": op, "out_t": dtype_to_ctype(a.dtype)}, arguments)(
        a, value, broadcast=broadcast
    )
    return a


def compare(a, op, b, broadcast=True, convert_f16=True):
    """Compare arrays elementwise. Return an array of bools."""
    common = get_common_dtype(_operand(a, a), _operand(b, a), True)
    ctype = "float" if common == np.float16 else dtype_to_ctype(common)
    return elemwise2(
        a, op, b, a, odtype="bool", op_tmpl="res = ((%s)a %%(op)s (%s)b)" % (ctype, ctype), broadcast=broadcast
    )


def _operand(value, like):
    """Return a device array in the context of `like`, or a Python number."""
    if isinstance(value, GpuArray):
        return value
    if isinstance(value, (bool, int, float, complex)):
        return value
    host = np.asarray(value)
    return gpuarray.array(host, context=like.context)


def _number(value, dtype):
    kind = np.dtype(dtype)
    return np.asarray(
        value, dtype="float32" if kind == np.float16 else np.result_type(kind, value) if kind.kind != "b" else None
    )


# ---- the operators ----


def _divided(a, b, ary):
    common = get_common_dtype(_operand(a, ary), _operand(b, ary), True)
    odtype = common if common.kind in "fc" else np.dtype("float64")
    return elemwise2(a, "/", b, ary, odtype=odtype)


def _floored(a, b, ary):
    common = get_common_dtype(_operand(a, ary), _operand(b, ary), True)
    return elemwise2(a, None, b, ary, odtype=common, oper=_floor_text("res", common))


def _floor_text(result, dtype):
    ctype = "float" if dtype == np.float16 else dtype_to_ctype(dtype)
    if dtype.kind == "f":
        return "%s = floor((%s)a / (%s)b)" % (result, ctype, ctype)
    if dtype.kind == "u":
        return "%s = (%s)b == 0 ? 0 : (%s)a / (%s)b" % (result, ctype, ctype, ctype)
    return (
        "%(c)s q_ = (%(c)s)b == 0 ? 0 : (%(c)s)a / (%(c)s)b; if ((%(c)s)b != 0 && q_ * (%(c)s)b != (%(c)s)a && (((%(c)s)a < 0) != ((%(c)s)b < 0))) q_ -= 1; %(r)s = q_"
        % {"c": ctype, "r": result}
    )


def _remainder_text(result, dtype):
    ctype = "float" if dtype == np.float16 else dtype_to_ctype(dtype)
    if dtype.kind == "f":
        return (
            "%(c)s m_ = fmod((%(c)s)a, (%(c)s)b); if (m_ != 0 && ((m_ < 0) != ((%(c)s)b < 0))) m_ += (%(c)s)b; %(r)s = m_"
            % {"c": ctype, "r": result}
        )
    if dtype.kind == "u":
        return "%s = (%s)b == 0 ? 0 : (%s)a %% (%s)b" % (result, ctype, ctype, ctype)
    return (
        "%(c)s m_ = (%(c)s)b == 0 ? 0 : (%(c)s)a %% (%(c)s)b; if (m_ != 0 && ((m_ < 0) != ((%(c)s)b < 0))) m_ += (%(c)s)b; %(r)s = m_"
        % {"c": ctype, "r": result}
    )


def _remainder(a, b, ary):
    common = get_common_dtype(_operand(a, ary), _operand(b, ary), True)
    return elemwise2(a, None, b, ary, odtype=common, oper=_remainder_text("res", common))


def _power(a, b, ary):
    common = get_common_dtype(_operand(a, ary), _operand(b, ary), True)
    if common.kind != "f":
        return (
            _power(a, b, ary.astype("float64")).astype(common)
            if isinstance(a, GpuArray)
            else elemwise2(a, None, b, ary, odtype=common, oper="res = pow((ga_double)a, (ga_double)b)")
        )
    ctype = "float" if common == np.float16 else dtype_to_ctype(common)
    return elemwise2(a, None, b, ary, odtype=common, oper="res = pow((%s)a, (%s)b)" % (ctype, ctype))


def _plain(op):
    return lambda a, b, ary: elemwise2(a, op, b, ary)


BINARY = {
    "add": _plain("+"),
    "sub": _plain("-"),
    "mul": _plain("*"),
    "truediv": _divided,
    "floordiv": _floored,
    "mod": _remainder,
    "pow": _power,
    "and": _plain("&"),
    "or": _plain("|"),
    "xor": _plain("^"),
    "lshift": _plain("<<"),
    "rshift": _plain(">>"),
}


def _in_place(name, a, b):
    dtype = a.dtype
    if name == "truediv" and dtype.kind != "f":
        raise TypeError("an array of %s cannot store a quotient; use //= or a / b" % dtype)
    texts = {"floordiv": _floor_text("a", dtype), "mod": _remainder_text("a", dtype), "pow": "a = pow(a, b)"}
    symbols = {
        "add": "+",
        "sub": "-",
        "mul": "*",
        "truediv": "/",
        "and": "&",
        "or": "|",
        "xor": "^",
        "lshift": "<<",
        "rshift": ">>",
    }
    return ielemwise2(a, symbols.get(name), b, oper=texts.get(name))


def _unary(name, a):
    if name == "pos":
        return a.copy()
    if name == "neg":
        return elemwise1(a, "-")
    if name == "invert":
        return elemwise1(a, "!" if a.dtype == bool else "~")
    if a.dtype.kind in "ub":
        return a.copy()
    return elemwise1(a, None, oper="res = fabs(a)" if a.dtype.kind == "f" else "res = a < 0 ? -a : a")


def _divmod(a, b, ary):
    return _floored(a, b, ary), _remainder(a, b, ary)


gpuarray.set_operators(BINARY, _in_place, compare, _unary, _divmod)
