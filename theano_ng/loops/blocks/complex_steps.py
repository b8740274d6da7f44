"""Rules for complex numbers in programs of the interpreter.

A program holds a complex number as two floats. The steps compute the same results as the scalar ops and
complex_numbers.h.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from theano_ng.loops.blocks.instructions import PARTS, name_of
from theano_ng.scalar.op import is_discrete
from theano_ng.scalar.ops_arith import Add, Maximum, Minimum, Mul, Sub, Switch, TrueDiv
from theano_ng.scalar.ops_compare import EQ, GE, GT, LE, LT, NEQ, IsInf, IsNan
from theano_ng.scalar.ops_complex import Angle, Complex, ComplexFromPolar, Conj, Imag, Real
from theano_ng.scalar.ops_unary import Abs, Inv, Neg, Sgn, Sqr
from theano_ng.scalar.types import upcast

if TYPE_CHECKING:
    from theano_ng.loops.blocks.steps import Writer

    # A value in a program: its kind and its number.
    Pair: TypeAlias = tuple[str, int]
    # A Pair if the value is real, and Parts if the value is complex.
    Value: TypeAlias = Any
    Rule: TypeAlias = Callable[[Writer, Any, list[Value], str], Value]


class Parts(NamedTuple):
    """A complex number: the values of its real and imaginary parts, float32 or float64.

    Because of this representation, sums and products of complex numbers need only the instructions for floats.
    """

    re: Pair
    im: Pair


def _each(name: str) -> Rule:
    """Return a rule that applies one instruction to the real parts and to the imaginary parts of the operands."""

    def rule(writer: Writer, op: Any, operands: list[Value], dtype: str) -> Value:
        result, part = None, PARTS[dtype]
        for value in operands:
            value = writer.convert(value, dtype)
            if op.nin == 1:
                return Parts(*[writer.emit("%s_%s" % (name, part), part, x) for x in value])
            result = (
                value
                if result is None
                else Parts(*[writer.emit("%s_%s" % (name, part), part, x, y) for x, y in zip(result, value)])
            )
        return result

    return rule


def _product(writer: Writer, op: Any, operands: list[Value], dtype: str) -> Value:
    part = PARTS[dtype]
    result: Any = None
    a: Any
    b: Any
    for value in operands * 2 if isinstance(op, Sqr) else operands:
        (a, b), value = result or (None, None), writer.convert(value, dtype)
        if result is None:
            result = value
            continue
        c, d = value
        bd, bc = [writer.emit("Mul_" + part, part, b, x) for x in (d, c)]
        result = Parts(writer.emit("MulSub_" + part, part, a, c, bd), writer.emit("MulAdd_" + part, part, a, d, bc))
    return result


def _conjugate(writer: Writer, op: Any, operands: list[Value], dtype: str) -> Value:
    (value,) = operands
    if not isinstance(value, Parts):
        return writer.convert(value, dtype)
    part = writer.dtypes[value.im]
    return writer.convert(Parts(value.re, writer.emit("Neg_" + part, part, value.im)), dtype)


def _real(writer: Writer, op: Any, operands: list[Value], dtype: str) -> Value:
    return writer.convert(operands[0], dtype)


def _imag(writer: Writer, op: Any, operands: list[Value], dtype: str) -> Value:
    (value,) = operands
    return writer.convert(value.im, dtype) if isinstance(value, Parts) else writer.constant(dtype, 0)


def _complex(writer: Writer, op: Any, operands: list[Value], dtype: str) -> Value:
    return Parts(*[writer.convert(value, PARTS[dtype]) for value in operands])


def _from_polar(writer: Writer, op: Any, operands: list[Value], dtype: str) -> Value:
    part = PARTS[dtype]
    r, theta = [writer.convert(value, part) for value in operands]
    turned = [writer.emit("%s_%s" % (name, part), part, theta) for name in ("Cos", "Sin")]
    return Parts(*[writer.emit("Mul_" + part, part, r, x) for x in turned])


def _angle(writer: Writer, op: Any, operands: list[Value], dtype: str) -> Value:
    (value,) = operands
    source = writer.dtype_of(value)
    if is_discrete(source):
        if not source.startswith("int"):
            return writer.constant("float64", 0)
        negative = writer.emit("LT_" + source, "bool", value, writer.constant(source, 0))
        return writer.emit(
            "Switch_float64", "float64", negative, writer.constant("float64", np.pi), writer.constant("float64", 0)
        )
    re, im = [writer.convert(part, "float64") for part in writer.convert(value, "complex128")]
    return writer.emit("ArcTan2_float64", "float64", im, re)


def _modulus(writer: Writer, op: Any, operands: list[Value], dtype: str) -> Value:
    (value,) = operands
    return writer.emit("Abs_" + writer.dtype_of(value), writer.dtypes[value.re], *value)


def _sign(writer: Writer, op: Any, operands: list[Value], dtype: str) -> Value:
    (value,), part = operands, PARTS[dtype]
    zero, modulus = writer.constant(part, 0), _modulus(writer, op, operands, dtype)
    other = writer.convert(value, "bool")
    quotients = [writer.emit("TrueDiv_" + part, part, x, modulus) for x in value]
    return Parts(*[writer.emit("Switch_" + part, part, other, x, zero) for x in quotients])


def _inverse(writer: Writer, op: Any, operands: list[Value], dtype: str) -> Value:
    return writer.of_complex(_true_div, [writer.constant(dtype, 1), *operands], dtype)


def _choice(writer: Writer, op: Any, operands: list[Value], dtype: str) -> Value:
    condition, x, y = writer.convert(operands[0], "bool"), *[writer.convert(v, dtype) for v in operands[1:]]
    if not isinstance(x, Parts):
        return writer.emit("Switch_" + dtype, dtype, condition, x, y)
    return _chosen(writer, condition, x, y)


def _chosen(writer: Writer, condition: Pair, x: Parts, y: Parts) -> Value:
    """Return the parts of `x` if the condition is true, otherwise the parts of `y`."""
    part = writer.dtypes[x.re]
    return Parts(*[writer.emit("Switch_" + part, part, condition, *pair) for pair in zip(x, y)])


def _any_part(name: str) -> Rule:
    def rule(writer: Writer, op: Any, operands: list[Value], dtype: str) -> Value:
        (value,) = operands
        part = writer.dtypes[value.re]
        return writer.emit("OR_bool", "bool", *[writer.emit("%s_%s" % (name, part), "bool", x) for x in value])

    return rule


def _equal(writer: Writer, op: Any, operands: list[Value], dtype: str) -> Value:
    x, y = _common(writer, operands)
    part, both = writer.dtypes[x.re], "AND_bool" if isinstance(op, EQ) else "OR_bool"
    name: Any = name_of(op, part)
    return writer.emit(both, "bool", *[writer.emit(name, "bool", *pair) for pair in zip(x, y)])


def _common(writer: Writer, operands: list[Value]) -> list[Value]:
    common = upcast(*map(writer.dtype_of, operands))
    return [writer.convert(value, common) for value in operands]


def _order(writer: Writer, operator: str, x: Parts, y: Parts) -> Value:
    """Return the value of ``x < y`` (`operator` "LT") or ``x <= y`` ("LE") in the order that NumPy uses.

    See `scalar.ops_compare.compare_complex`.
    """
    part = writer.dtypes[x.re]

    def compare(name: str, a: Pair, b: Pair) -> Pair:
        return writer.emit("%s_%s" % (name, part), "bool", a, b)

    smaller = compare("LT", x.re, y.re)
    for im in (x.im, y.im):
        smaller = writer.emit("AND_bool", "bool", smaller, compare("EQ", im, im))
    same = writer.emit("AND_bool", "bool", compare("EQ", x.re, y.re), compare(operator, x.im, y.im))
    return writer.emit("OR_bool", "bool", smaller, same)


def _compared(writer: Writer, op: Any, operands: list[Value], dtype: str) -> Value:
    x, y = _common(writer, operands)
    name = type(op).__name__
    return _order(writer, "L" + name[1], *((x, y) if name[0] == "L" else (y, x)))


def _extremum(writer: Writer, op: Any, operands: list[Value], dtype: str) -> Value:
    x, y = [writer.convert(value, dtype) for value in operands]
    unordered = writer.emit("OR_bool", "bool", *[writer.emit("NEQ_" + PARTS[dtype], "bool", part, part) for part in x])
    first = _order(writer, "LE", *((x, y) if isinstance(op, Minimum) else (y, x)))
    return _chosen(writer, writer.emit("OR_bool", "bool", unordered, first), x, y)


_true_div = TrueDiv()
# The scalar ops whose rule in `COMPLEX_RULES` also applies if all operands are real.
OF_PARTS = {Real, Imag, Conj, Complex, ComplexFromPolar, Angle}
# Class of scalar op -> rule. ``rule(writer, op, operands, dtype)`` emits the steps of an op, and returns its result.
# `dtype` is the dtype in which the C code of the op computes the result.
COMPLEX_RULES: dict[Any, Rule] = {
    **{Add: _each("Add"), Sub: _each("Sub"), Neg: _each("Neg"), Mul: _product, Sqr: _product, Inv: _inverse},
    **{Real: _real, Imag: _imag, Conj: _conjugate, Complex: _complex, ComplexFromPolar: _from_polar, Angle: _angle},
    **{Abs: _modulus, Sgn: _sign, Switch: _choice, IsNan: _any_part("IsNan"), IsInf: _any_part("IsInf")},
    **{
        EQ: _equal,
        NEQ: _equal,
        **dict.fromkeys((LT, GT, LE, GE), _compared),
        **dict.fromkeys((Maximum, Minimum), _extremum),
    },
}
