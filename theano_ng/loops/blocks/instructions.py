"""The instructions of the interpreter in tensor/native/elementwise/blocks: operations on blocks of elements.

An instruction is a scalar op on operands of one dtype, a conversion, or the rounding to float16. Instructions are
compiled with the package, from the C code of the scalar ops: `misc.write_instructions` writes this code to
native/elementwise/blocks/instructions.h, with one row for each instruction.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Sequence
from typing import Any

from theano_ng.gof._native import processor_level
from theano_ng.gof.graph import Apply
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.loops.blocks import superinstructions
from theano_ng.scalar import basic, basic_scipy, contraction
from theano_ng.scalar.op import UnaryMath, is_discrete
from theano_ng.scalar.ops_arith import Pow, RealDivision, Switch, TrueDiv
from theano_ng.scalar.ops_compare import LogicalComparison
from theano_ng.scalar.types import c_type, discrete_dtypes, get_scalar_type, upcast

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INSTRUCTIONS_HEADER = os.path.join(_PACKAGE, "tensor", "native", "elementwise", "blocks", "instructions.h")
DTYPES = (*discrete_dtypes, "float32", "float64")
PARTS = {"complex64": "float32", "complex128": "float64"}

# Programs hold a complex number as two floats (`complex_steps.Parts`). These instructions split a complex number into
# parts, join the parts, and compute the absolute value. The instructions of `_COMPLEX_OPS` need joined numbers. All
# other ops on complex numbers are computed by instructions on the parts.
_OF_COMPLEX = {
    "Real": ("ROW1", "{part}, {number}", "z = TNG_RE(x0);"),
    "Imag": ("ROW1", "{part}, {number}", "z = TNG_IM(x0);"),
    "Complex": ("ROW2", "{number}, {part}, {part}", "TNG_RE(z) = x0; TNG_IM(z) = x1;"),
    "Abs": ("ROW2", "{part}, {part}, {part}", "z = tng_abs_{dtype}(tng_make_{dtype}(x0, x1));"),
}
_COMPLEX_OPS = (UnaryMath, TrueDiv, Pow)

_registered: dict[type, Any] = {}  # class of scalar ops -> an instance


def register(*ops: Any) -> None:
    """Register scalar ops as instructions, for all dtypes for which they have C code.

    The C code must depend only on the dtypes.
    """
    for op in ops:
        _registered[type(op)] = op


register(
    *[basic.add, basic.sub, basic.mul, basic.true_div, basic.int_div, basic.mod, basic.pow, basic.clip, basic.switch],
    *[basic.maximum, basic.minimum, basic.abs_, basic.sgn, basic.neg, basic.inv, basic.sqr],
    *[basic.lt, basic.gt, basic.le, basic.ge, basic.eq, basic.neq, basic.isnan, basic.isinf],
    *[basic.or_, basic.xor, basic.and_, basic.invert, basic.ceil, basic.floor, basic.trunc],
    *[basic.round_half_to_even, basic.round_half_away_from_zero, basic.deg2rad, basic.rad2deg, basic.sqrt],
    *[basic.exp, basic.exp2, basic.expm1, basic.log, basic.log2, basic.log10, basic.log1p],
    *[basic.sin, basic.cos, basic.tan, basic.arcsin, basic.arccos, basic.arctan, basic.arctan2],
    *[basic.sinh, basic.cosh, basic.tanh, basic.arcsinh, basic.arccosh, basic.arctanh],
    *[basic_scipy.erf, basic_scipy.erfc, basic_scipy.erfcx, basic_scipy.erfinv, basic_scipy.erfcinv],
    *[basic_scipy.gamma, basic_scipy.gammaln, basic_scipy.psi, basic_scipy.tri_gamma, basic_scipy.chi2sf],
    *[basic_scipy.gammainc, basic_scipy.gammaincc, basic_scipy.gammau, basic_scipy.gammal],
    *[basic_scipy.j0, basic_scipy.j1, basic_scipy.i0, basic_scipy.i1],
    *[contraction.mul_add, contraction.mul_sub, contraction.sub_mul],
)


def operand_dtype(op: Any, dtypes: Sequence[str], computed: str) -> str | None:
    """Return the dtype in which a registered op computes.

    The C code of the op converts the operands to this dtype. Return None if the C code makes no such conversion.

    Parameters
    ----------
    op : ScalarOp
    dtypes : list of str
        The dtypes of the operands. float16 is not allowed.
    computed : str
        The dtype of the result. If the result overwrites an input, it is converted to the dtype of this input. Then
        `computed` is the dtype before this conversion.
    """
    if isinstance(op, LogicalComparison):
        common = upcast(*dtypes)
        exact = common != "float64" or not all(map(is_discrete, dtypes))
        return ("uint8" if common == "bool" else common) if exact else None
    if isinstance(op, (basic.IsNan, basic.IsInf)):
        return dtypes[0]
    if isinstance(op, TrueDiv) and all(map(is_discrete, dtypes)):
        return "float64"
    return computed


def name_of(op: Any, dtype: str) -> str | None:
    """Return the name of the instruction for a registered op on operands of `dtype`. Return None for other ops."""
    return "%s_%s" % (type(op).__name__, dtype) if type(op) in _registered else None


def conversion(source: str, target: str) -> str:
    """Return the name of the instruction that converts one dtype to another."""
    return "%s_to_%s" % (source, target)


def c_source() -> str:
    """Return the C source of all instructions.

    Returns
    -------
    str
    """
    includes: dict[str, None] = {}
    lines = []
    for op in sorted(_registered.values(), key=lambda op: type(op).__name__):
        for dtype in (*DTYPES, *(PARTS if isinstance(op, _COMPLEX_OPS) else ())):
            row = _row(op, dtype)
            if row is not None:
                lines.append(row)
                for name in _headers(op):
                    includes[name] = None
    for source in DTYPES:
        for target in DTYPES:
            if source != target:
                body = _body(basic.Cast(get_scalar_type(target)), [source], target)
                lines.append(
                    "ROW1(%s, %s, %s, %s)" % (conversion(source, target), c_type(target), c_type(source), body)
                )
    for source, target, expression in (
        ("float16", "float32", "tng_half_to_float(x0)"),
        ("float32", "float16", "tng_float_to_half(x0)"),
    ):
        lines.append(
            "ROW1(%s, %s, %s, z = %s;)" % (conversion(source, target), c_type(target), c_type(source), expression)
        )
    for dtype, part in PARTS.items():
        for name, (row, types, text) in _OF_COMPLEX.items():
            names = dict(dtype=dtype, number=c_type(dtype), part=c_type(part))
            lines.append("%s(%s_%s, %s, %s)" % (row, name, dtype, types.format(**names), text.format(**names)))
    lines += superinstructions.c_source({dtype: c_type(dtype) for dtype in ("float32", "float64")})
    lines.append("ROW1(round_to_half, npy_float32, npy_float32, z = tng_half_to_float(tng_float_to_half(x0));)")
    head = [
        "/* Written by misc/write_instructions.py. ROW<n>(name, C type of result, C types of n operands, C code) */"
    ]
    head += ["#ifdef ROW_HEADERS"]
    head += ['#include "../../../../scalar/c_code/%s"' % name for name in includes]
    return "\n".join([*head, "#else", *lines, "#endif", ""])


def _headers(op: Any) -> list[str]:
    names = op.c_helpers
    names = (names,) if isinstance(names, str) else names or ()
    return [*names, *([op.c_float_helpers] if op.c_float_helpers else [])]


def _operands(op: Any, dtype: str) -> list[str]:
    nin = op.nin if op.nin >= 0 else 2
    return ["bool" if isinstance(op, Switch) and k == 0 else dtype for k in range(nin)]


def _row(op: Any, dtype: str) -> str | None:
    """Return the row of the header for an op on operands of a dtype. Return None if there is no such instruction."""
    operands = _operands(op, dtype)
    try:
        node = op.make_node(*[get_scalar_type(d).make_variable() for d in operands])
        out = node.outputs[0].type.dtype
        if operand_dtype(op, operands, out) != dtype:
            return None
        body = _body(op, operands, out)
    except (MethodNotDefined, TypeError, NotImplementedError):
        return None
    zeros = isinstance(op, RealDivision) and is_discrete(dtype)
    return "ROW%d%s(%s, %s, %s, %s)" % (
        len(operands),
        "Z" if zeros else "",
        name_of(op, dtype),
        c_type(out),
        ", ".join(map(c_type, operands)),
        body,
    )


def _body(op: Any, dtypes: Sequence[str], out: str) -> str:
    node = Apply(op, [get_scalar_type(d).make_variable() for d in dtypes], [get_scalar_type(out).make_variable()])
    sub = {"fail": "", "zeros": "zeros_%.0s"} if isinstance(op, RealDivision) else {"fail": ""}
    return " ".join(op.c_code(node, "n", ["x%d" % k for k in range(len(dtypes))], ["z"], sub).split())


@functools.cache
def instruction_module() -> Any:
    """Return the module of instructions with the widest SIMD vectors that this processor supports."""
    name = "theano_ng.tensor.native.blocks_v%d"
    for level in range(processor_level(), 1, -1):
        try:
            return importlib.import_module(name % level)
        except ImportError:
            continue
    return importlib.import_module(name % 1)
