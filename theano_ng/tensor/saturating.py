"""Products of functions that saturate, read from the many expressions that programs write for them.

A logistic function that is rounded to 0 or 1, an exponential that overflows and an ``erfc`` that underflows are harmless in a product, and
lost in a quotient or a logarithm. `factors_of` reads an expression as ``constant * product(function(argument) ** power)`` of logistic
functions, exponentials, erfc, erfcx and cosh, through views ::

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
from theano_ng.tensor.indexing.advanced import AdvancedSubtensor, AdvancedSubtensor1
from theano_ng.tensor.indexing.subtensor import Subtensor
from theano_ng.tensor.same import constant_value
from theano_ng.tensor.shaping.reshaping import Reshape

MOST_NODES = 30
"""How many nodes of an expression are looked at."""

VIEWS = (DimShuffle, Reshape, Subtensor, AdvancedSubtensor1, AdvancedSubtensor, T.Rebroadcast)
"""What rearranges, repeats or leaves out elements of its first input, whatever they are."""

Factors = namedtuple("Factors", "constant factors")
Factor = namedtuple("Factor", "function argument power")
"""``function(argument) ** power``; function is `logistic`, `T.exp`, `T.erfc`, `T.erfcx` or `T.cosh`."""


def logistic(x):
    """``1 / (1 + exp(-x))``"""
    one = T.constant(np.asarray(1, x.dtype))
    return one / (one + T.exp(-x))


class Argument(namedtuple("Argument", "coefficient base shift views", defaults=(0.0, ()))):
    """``views(coefficient * base + shift)``; views: pairs of Op and other inputs, the innermost first."""

    def times(self, number):
        return self._replace(coefficient=number * self.coefficient, shift=number * self.shift)

    def __neg__(self):
        return self.times(-1)

    def variable(self):
        """The expression."""
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
    """A variable as an `Argument`, with constant factors taken apart."""
    coefficient = 1.0
    for _ in range(MOST_NODES):
        found = _scaled(v)
        if found is None:
            break
        coefficient, v = coefficient * found[0], found[1]
    return Argument(coefficient, v)


def _scaled(v):
    """(number, x) where v is number * x, of the type of x; else None."""
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
    """The number that `v` is everywhere, or None."""
    value = constant_value(v)
    return None if value is None or value.dtype.kind not in "iuf" else float(value)


def squared(v):
    """x when `v` is x ** 2, in any spelling of it, of the type of `v`; else None."""
    if v.owner is None:
        return None
    op, (x, *others) = v.owner.op, v.owner.inputs
    square = (
        op == T.sqr or op == T.mul and len(others) == 1 and others[0] is x or op == T.pow and number_of(others[0]) == 2
    )
    return x if square and x.type == v.type else None


# -- reading expressions -----------------------------------------------------------------------------------------------------------------


def factors_of(v):
    """A variable as `Factors`; None when it is no product of saturating functions."""
    return _Reader().read(v)


readers = {}
"""Op -> function of its node and a reader that returns `Factors` or None. Other packages add theirs."""


class _Reader:
    """Reads one expression. It looks at so many nodes, and no more."""

    def __init__(self):
        self.left = MOST_NODES

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
    """`Factors` of what a view is taken of, as those of the view."""
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
    """`Factors` to a power; None where that is not one."""
    if found is None or power is None or found.constant <= 0 and (power != int(power) or not found.constant):
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
    return _product(node, [_factor(i, node, reader) for i in node.inputs])


def _read_quotient(node, reader):
    above, below = (_factor(i, node, reader) for i in node.inputs)
    return _product(node, [above, _to_power(below, -1)])


def _product(node, parts):
    if any(p is None for p in parts):
        return None
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
    """``number + sign * v`` as `Factors`, or None."""
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
    """``1 + ratio * v`` as `Factors`, or None."""
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
    """Whether the one operand of a function is of the dtype of its result: multiples of integers wrap around."""
    return v.owner.inputs[0].dtype == v.dtype


class _Powers:
    """Powers of ``logistic(a)``, ``logistic(-a)`` and ``exp(a)`` of one argument a."""

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
        """Without exponentials, which alone may overflow, where that can be: ``exp(a) * logistic(-a)`` is ``logistic(a)``."""
        positive, negative, exp = self.logistic, self.opposite, self.exp
        if positive * negative < 0:  # logistic(a) / logistic(-a) is exp(a)
            n = min(abs(positive), abs(negative)) * (1 if positive > 0 else -1)
            positive, negative, exp = positive - n, negative + n, exp + n
        n = 0
        if exp > 0:
            n = min(exp, max(negative, -positive))
        elif exp < 0:
            n = max(exp, min(-positive, negative))
        if n * exp < 0 or n != int(n):
            n = 0
        a = self.argument
        found = [Factor(logistic, a, positive + n), Factor(logistic, -a, negative - n), Factor(T.exp, a, exp - n)]
        return [f for f in found if f.power]


def _together(factors):
    """A list of `Factor` with those of one argument put together."""
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
