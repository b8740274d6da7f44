"""Recognition of products of saturating functions in the many forms in which programs write them.

A logistic function may be rounded to 0 or 1, an exponential may overflow, and ``erfc`` may underflow. This is harmless
in a product, but makes a quotient or a logarithm wrong. `factors_of` parses an expression as ``constant *
product(function(argument) ** power)``. The functions are logistic, exp, erfc, erfcx and cosh. Views of these functions
are supported. Examples ::

    1 / (1 + exp(-x))       1 * logistic(x) ** 1
    1 - sigmoid(x)          1 * logistic(-x) ** 1
    (1 + tanh(x)) / 2       1 * logistic(2 * x) ** 1
    3 + exp(x).T            3 * logistic(-(x.T) + log(3)) ** -1
    1 + erf(x)              1 * erfc(-x) ** 1
    1 - erfc(x) / 2         0.5 * erfc(-x) ** 1
"""

from collections import namedtuple
from math import log

import numpy as np

from theano_ng.tensor import basic as T
from theano_ng.tensor.dtypes import FLOATS
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.equality import constant_value
from theano_ng.tensor.indexing.advanced import AdvancedSubtensor, AdvancedSubtensor1
from theano_ng.tensor.indexing.subtensor import Subtensor
from theano_ng.tensor.shaping.reshaping import Reshape

MAX_NODES = 30
"""The maximum number of nodes of an expression that are examined."""

VIEWS = (DimShuffle, Reshape, Subtensor, AdvancedSubtensor1, AdvancedSubtensor, T.Rebroadcast)
"""Ops that rearrange, repeat or drop elements of their first input, whatever the values of the elements are."""

Factors = namedtuple("Factors", "constant factors")
Factor = namedtuple("Factor", "function argument power")
"""``function(argument) ** power``; function is `logistic`, `T.exp`, `T.erfc`, `T.erfcx` or `T.cosh`."""


def logistic(x):
    """Return ``1 / (1 + exp(-x))``."""
    one = T.constant(np.asarray(1, x.dtype))
    return one / (one + T.exp(-x))


class Argument(namedtuple("Argument", "coefficient base shift views", defaults=(0.0, ()))):
    """The expression ``views(coefficient * base + shift)``.

    `views` is a tuple of pairs: an Op, and the tuple of all its inputs except the first input. The innermost view comes
    first.
    """

    def times(self, number):
        return self._replace(coefficient=number * self.coefficient, shift=number * self.shift)

    def __neg__(self):
        return self.times(-1)

    def variable(self):
        """Build the variable that computes the expression."""
        x = self.base
        if self.coefficient == -1:
            x = -x
        elif self.coefficient != 1:
            x = T.mul(np.asarray(self.coefficient, x.dtype), x)
        if self.shift:
            x = x + np.asarray(self.shift, x.dtype)
        for op, others in self.views:
            x = op(x, *others)
        return x


def argument_of(v):
    """Return a variable as an `Argument` whose coefficient is the product of the constant factors."""
    coefficient = 1.0
    for _ in range(MAX_NODES):
        found = _scaled(v)
        if found is None:
            break
        coefficient, v = coefficient * found[0], found[1]
    return Argument(coefficient, v)


def _scaled(v):
    """Return ``(number, x)`` if `v` is ``number * x`` and has the type of x. Otherwise, return None."""
    op = v.owner and v.owner.op
    if op == T.neg:
        number, x = -1.0, v.owner.inputs[0]
    elif op == T.mul and len(v.owner.inputs) == 2:
        x, y = v.owner.inputs
        number = number_of(x)
        if number is not None:
            x = y
        else:
            number = number_of(y)
    elif op == T.true_div:
        x, divisor = v.owner.inputs
        divisor = number_of(divisor)
        number = None if not divisor else 1 / divisor
    else:
        return None
    return None if number is None or x.type != v.type else (number, x)


def number_of(v):
    """Return the real number that all elements of `v` equal.

    Return None if there is no such number, or it is not known.
    """
    value = constant_value(v)
    return None if value is None or value.dtype.kind not in "iuf" else float(value)


def squared(v):
    """Return x if `v` computes ``x ** 2`` by any Op and x has the type of `v`. Otherwise, return None."""
    if v.owner is None:
        return None
    op, (x, *others) = v.owner.op, v.owner.inputs
    square = (
        op == T.sqr or op == T.mul and len(others) == 1 and others[0] is x or op == T.pow and number_of(others[0]) == 2
    )
    return x if square and x.type == v.type else None


# -- reading expressions -----------------------------------------------------------------------------------------------------------------


def factors_of(v):
    """Return a variable as `Factors`. Return None if it is not a product of saturating functions."""
    return _Reader().read(v)


readers = {}
"""Op -> function(node, reader) that returns `Factors` or None. Other packages add entries for their Ops."""


class _Reader:
    """A parser of one expression. It examines at most `MAX_NODES` nodes."""

    def __init__(self):
        self.left = MAX_NODES

    def read(self, v):
        node = v.owner
        self.left -= 1
        if node is None or self.left < 0 or v.dtype not in FLOATS:
            return None
        read = readers.get(node.op)
        if read is not None:
            if any(i.dtype != v.dtype and number_of(i) is None for i in node.inputs):
                return None
            return read(node, self)
        if not isinstance(node.op, VIEWS):
            return None
        return _seen_through(self.read(node.inputs[0]), node)


def _seen_through(found, node):
    """Return the `Factors` of a view, given the `Factors` of its first input."""
    if found is None:
        return None
    view = node.op, tuple(node.inputs[1:])
    seen = [f._replace(argument=f.argument._replace(views=(*f.argument.views, view))) for f in found.factors]
    return Factors(found.constant, seen)


def read_function(function):
    def read(node, reader):
        return Factors(1.0, [Factor(function, argument_of(node.inputs[0]), 1)])

    return read


def _to_power(found, power):
    """Return `Factors` raised to a power. Return None if the power is unknown, or the constant has no such power."""
    if found is None or power is None or found.constant <= 0 and (not float(power).is_integer() or not found.constant):
        return None
    return Factors(found.constant**power, [f._replace(power=f.power * power) for f in found.factors])


def _read_power(power):
    def read(node, reader):
        return _to_power(reader.read(node.inputs[0]), power)

    return read


def _read_pow(node, reader):
    base, power = node.inputs
    return _to_power(reader.read(base), number_of(power)) if base.type == node.outputs[0].type else None


def _read_product(node, reader):
    parts = []
    for i in node.inputs:
        part = _factor(i, node, reader)
        if part is None:
            return None
        parts.append(part)
    return _product(parts)


def _read_quotient(node, reader):
    # Read the denominator first. If it cannot be read, the numerator need not be read. In a chain of quotients, the
    # numerator is the rest of the chain.
    below = _to_power(_factor(node.inputs[1], node, reader), -1)
    above = None if below is None else _factor(node.inputs[0], node, reader)
    return None if above is None else _product([above, below])


def _product(parts):
    constant = 1.0
    for part in parts:
        constant *= part.constant
    return Factors(constant, _together([f for part in parts for f in part.factors]))


def _factor(v, node, reader):
    number = number_of(v)
    if number is not None:
        return Factors(number, [])
    return reader.read(v) if v.type.broadcastable == node.outputs[0].type.broadcastable else None


def _read_negation(node, reader):
    found = reader.read(node.inputs[0])
    return None if found is None else Factors(-found.constant, found.factors)


def _read_sum(node, reader):
    numbers = [number_of(i) for i in node.inputs]
    rest = [i for i, number in zip(node.inputs, numbers) if number is None]
    if len(rest) != 1:
        return None
    return _number_plus(sum(n for n in numbers if n is not None), 1, rest[0], reader)


def _read_difference(node, reader):
    a, b = node.inputs
    number_a, number_b = number_of(a), number_of(b)
    if number_a is not None and number_b is None:
        return _number_plus(number_a, -1, b, reader)
    return None if number_b is None or number_a is not None else _number_plus(-number_b, 1, a, reader)


def _number_plus(number, sign, v, reader):
    """Return ``number + sign * v`` as `Factors`. Return None if it is not a product of saturating functions."""
    if not number:
        return None
    ratio, v = sign / number, v
    scaled, inner = argument_of(v)[:2]
    views = []
    while inner.owner is not None and isinstance(inner.owner.op, VIEWS):
        views.append(inner.owner)
        inner = inner.owner.inputs[0]
    factor, inner = argument_of(inner)[:2]
    found = _one_plus(ratio * scaled * factor, inner, reader)
    for node in reversed(views):
        found = _seen_through(found, node)
    return None if found is None else Factors(number * found.constant, found.factors)


def _one_plus(ratio, v, reader):
    """Return ``1 + ratio * v`` as `Factors`. Return None if it is not a product of saturating functions."""
    op = v.owner and v.owner.op
    if op == T.tanh and abs(ratio) == 1 and _is_of_floats(v):
        return Factors(2.0, [Factor(logistic, argument_of(v.owner.inputs[0]).times(2 * ratio), 1)])
    if op == T.erf and abs(ratio) == 1 and _is_of_floats(v):
        return Factors(1.0, [Factor(T.erfc, argument_of(v.owner.inputs[0]).times(-ratio), 1)])
    of = squared(v)
    if of is not None and of.owner is not None and of.owner.op == T.tanh and ratio == -1 and _is_of_floats(of):
        twice = argument_of(of.owner.inputs[0]).times(2)
        return Factors(4.0, [Factor(logistic, twice, 1), Factor(logistic, -twice, 1)])
    inner = reader.read(v)
    if inner is None or len(inner.factors) != 1:
        return None
    ((function, argument, power),) = inner.factors
    ratio *= inner.constant
    if function is logistic and ratio == -1 and power == 1:
        return Factors(1.0, [Factor(logistic, -argument, 1)])
    if function == T.exp and ratio > 0:
        opposite = argument.times(-power)
        return Factors(1.0, [Factor(logistic, opposite._replace(shift=opposite.shift - log(ratio)), -1)])
    if function == T.erfc and ratio == -0.5 and power == 1:
        return Factors(0.5, [Factor(T.erfc, -argument, 1)])
    return None


def _is_of_floats(v):
    """Return True if the operand of the function that computes `v` has the dtype of `v`.

    The caller multiplies the operand by a number. Multiples of an integer operand could wrap around.
    """
    return v.owner.inputs[0].dtype == v.dtype


class _Powers:
    """The powers of ``logistic(a)``, ``logistic(-a)`` and ``exp(a)`` in a product, for one argument a."""

    def __init__(self, argument):
        self.argument = argument
        self.logistic, self.opposite, self.exp = 0, 0, 0

    def multiply(self, factor):
        positive, power = factor.argument.coefficient > 0, factor.power
        if factor.function == T.exp:
            self.exp += power if positive else -power
        elif positive:
            self.logistic += power
        else:
            self.opposite += power

    def factors(self):
        """Return the list of factors with as few exponentials as possible, because only exponentials can overflow.

        For instance, ``exp(a) * logistic(-a)`` becomes ``logistic(a)``.
        """
        positive, negative, exp = self.logistic, self.opposite, self.exp
        if positive * negative < 0:  # Use logistic(a) / logistic(-a) = exp(a).
            n = min(abs(positive), abs(negative)) * (1 if positive > 0 else -1)
            positive, negative, exp = positive - n, negative + n, exp + n
        n = 0
        if exp > 0:
            n = min(exp, max(negative, -positive))
        elif exp < 0:
            n = max(exp, min(-positive, negative))
        if n * exp < 0 or not float(n).is_integer():
            n = 0
        a = self.argument
        found = [Factor(logistic, a, positive + n), Factor(logistic, -a, negative - n), Factor(T.exp, a, exp - n)]
        return [f for f in found if f.power]


def _together(factors):
    """Return `factors` with logistic functions and exponentials of equal or opposite arguments combined.

    Factors with other functions are unchanged.
    """
    if len(factors) < 2:
        return factors
    places, others = {}, []
    for f in factors:
        a = f.argument
        if f.function != T.exp and f.function is not logistic:
            others.append(f)
            continue
        a = a if a.coefficient > 0 else -a
        if a not in places:
            places[a] = _Powers(a)
        places[a].multiply(f)
    return [f for powers in places.values() for f in powers.factors()] + others


readers.update(
    {
        T.exp: read_function(T.exp),
        T.erfc: read_function(T.erfc),
        T.erfcx: read_function(T.erfcx),
        T.cosh: read_function(T.cosh),
        T.mul: _read_product,
        T.true_div: _read_quotient,
        T.neg: _read_negation,
        T.tensor_copy: _read_power(1),
        T.inv: _read_power(-1),
        T.sqr: _read_power(2),
        T.sqrt: _read_power(0.5),
        T.pow: _read_pow,
        T.add: _read_sum,
        T.sub: _read_difference,
    }
)
