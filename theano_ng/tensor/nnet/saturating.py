"""Products of functions that saturate, read from the many expressions that programs and derivatives write for them.

A sigmoid that is rounded to 0 or 1, an exponential that overflows and an ``erfc`` that underflows are harmless in a product, and lost in a
quotient or a logarithm. `factors_of` reads an expression as ``constant * product(function(argument) ** power)``, with the functions sigmoid,
exp and erfc, through views ::

    1 / (1 + exp(-x))       1 * sigmoid(x) ** 1
    1 - sigmoid(x)          1 * sigmoid(-x) ** 1
    (1 + tanh(x)) / 2       1 * sigmoid(2 * x) ** 1
    1 + exp(x).T            1 * sigmoid(-(x.T)) ** -1
    1 + erf(x)              1 * erfc(-x) ** 1
    1 - erfc(x) / 2         0.5 * erfc(-x) ** 1
"""

from collections import namedtuple

import numpy as np

from theano_ng.compile.ops import Shape
from theano_ng.gof.graph import Constant
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.indexing.advanced import AdvancedSubtensor, AdvancedSubtensor1
from theano_ng.tensor.indexing.subtensor import Subtensor
from theano_ng.tensor.nnet.sigmoids import sigmoid
from theano_ng.tensor.opt.common import constant_value, get_constant, op_of, shuffled
from theano_ng.tensor.shaping.reshaping import Reshape

MOST_NESTED = 12
"""How many functions within each other are looked through."""

VIEWS = (DimShuffle, Reshape, Subtensor, AdvancedSubtensor1, AdvancedSubtensor)
"""What rearranges, repeats or leaves out elements of its first input, whatever they are."""

View = namedtuple("View", "op others broadcastable shape")
"""A view without its first input, and the pattern of what it makes. shape: key of the shape that a Reshape makes; otherwise None."""

Factors = namedtuple("Factors", "constant factors")
Factor = namedtuple("Factor", "function argument power")
"""``function(argument) ** power``; function is `sigmoid`, `T.exp`, `T.erfc` or `T.erfcx`."""


def view_of(node):
    """The `View` that a node takes of its first input, or None when it takes none."""
    if not isinstance(node.op, VIEWS):
        return None
    (out,) = node.outputs
    return View(
        node.op, tuple(node.inputs[1:]), out.broadcastable, shape_key(out) if isinstance(node.op, Reshape) else None
    )


def shape_key(v):
    """Equal for variables that are known to have one shape."""
    shape_feature = getattr(getattr(v, "fgraph", None), "shape_feature", None)
    if isinstance(op_of(v), Reshape) and isinstance(op_of(v.owner.inputs[1]), Shape):
        # The shape of a derivative is that of what it is the derivative of.
        like = reshaped_operand(v.owner.inputs[1].owner.inputs[0])
        v = v if like is None else like
    lengths = None if shape_feature is None else shape_feature.shape_of.get(v)
    return (v,) if lengths is None else tuple(_identity(length) for length in lengths)


def _identity(v):
    """Equal for variables of one value, where that is seen at once."""
    if isinstance(v, Constant):
        data = v.data
        return str(v.type), data.tobytes() if isinstance(data, np.ndarray) else repr(data)
    return v


class Argument:
    """``coefficient * views(base) ** degree``

    Parameters
    ----------
    coefficient : float
    base : Variable
    views : tuple of View
        The innermost first.
    degree : int
        1 or 2.
    """

    __slots__ = ("coefficient", "base", "views", "degree", "_key")

    def __init__(self, coefficient, base, views=(), degree=1):
        self.coefficient, self.base, self.views, self.degree = coefficient, base, views, degree
        self._key = None

    def __neg__(self):
        return self.times(-1)

    def times(self, number):
        return Argument(number * self.coefficient, self.base, self.views, self.degree)

    def seen_through(self, view):
        """The argument of a view of the function."""
        return Argument(self.coefficient, self.base, self.views + (view,), self.degree)

    @property
    def broadcastable(self):
        return self.views[-1].broadcastable if self.views else self.base.broadcastable

    @property
    def place(self):
        """Equal for arguments that differ in coefficient and degree only."""
        if self._key is None:
            views = []
            for op, others, _, shape in self.views:
                last = views[-1][0] if views else None
                if isinstance(op, DimShuffle):
                    order, rank = op.new_order, len(op.input_broadcastable)
                    if last == "dimshuffle":
                        _, inner, rank = views.pop()
                        order = tuple("x" if o == "x" else inner[o] for o in order)
                    if order != tuple(range(rank)):
                        views.append(("dimshuffle", tuple(order), rank))
                elif isinstance(op, Reshape):
                    if last == "reshape":
                        views.pop()
                    if views or shape != shape_key(self.base):
                        views.append(("reshape", shape))
                else:
                    views.append((op, tuple(_identity(v) for v in others)))
            self._key = self.base, tuple(views)
        return self._key

    def variable(self):
        """The expression."""
        x = self.base
        for view in self.views:
            x = shuffled(x, view.op.new_order) if isinstance(view.op, DimShuffle) else view.op(x, *view.others)
        if self.degree == 2:
            x = T.sqr(x)
        if self.coefficient == 1:
            return x
        return -x if self.coefficient == -1 else T.mul(np.asarray(self.coefficient, x.dtype), x)


def argument_of(v, products=True):
    """A variable as an `Argument`, with constant factors and a square taken apart; `products`: also a product of two multiples of one."""
    coefficient, degree = 1.0, 1
    for _ in range(MOST_NESTED):
        op = op_of(v)
        if op not in _SCALES_AND_SQUARES:
            break
        inputs = v.owner.inputs
        if any(i.dtype != v.dtype and number_of(i) is None for i in inputs):
            break
        number = None
        if op == T.neg:
            number, rest = -1.0, inputs[0]
        elif op == T.mul and len(inputs) == 2:
            number, rest = number_of(inputs[0]), inputs[1]
            if number is None:
                number, rest = number_of(inputs[1]), inputs[0]
        elif op == T.true_div:
            divisor, rest = number_of(inputs[1]), inputs[0]
            number = None if not divisor else 1 / divisor
        squared = _squared(v) if number is None and degree == 1 else None
        if products and number is None and squared is None and degree == 1 and op == T.mul and len(inputs) == 2:
            one, other = (argument_of(i, products=False) for i in inputs)
            if one.base is other.base and one.base.type == v.type and one.degree == other.degree == 1:
                return Argument(coefficient * one.coefficient * other.coefficient, one.base, degree=2)
        if number is not None and rest.type == v.type:
            coefficient *= number**degree
            v = rest
        elif squared is not None:
            degree, v = 2, squared
        else:
            break
    return Argument(coefficient, v, degree=degree)


_SCALES_AND_SQUARES = {T.neg: None, T.mul: None, T.true_div: None, T.sqr: None, T.pow: None}


def number_of(v):
    """The number that stands for `v` in a product, or None."""
    value = get_constant(v)
    if value is None and v.owner is not None and all(v.broadcastable):
        value = constant_value(v)
    return None if value is None or value.dtype.kind not in "iuf" else float(value)


def _squared(v):
    """x when `v` is x ** 2, in any spelling of it, of the type of `v`; else None."""
    op = op_of(v)
    if op == T.sqr:
        x = v.owner.inputs[0]
    elif op == T.mul and len(v.owner.inputs) == 2 and v.owner.inputs[0] is v.owner.inputs[1]:
        x = v.owner.inputs[0]
    elif op == T.pow and number_of(v.owner.inputs[1]) == 2:
        x = v.owner.inputs[0]
    else:
        return None
    return x if x.type == v.type else None


# -- reading expressions -----------------------------------------------------------------------------------------------------------------


def factors_of(v, nested=MOST_NESTED):
    """A variable as `Factors`; None when it is no product of saturating functions."""
    node = v.owner
    if node is None or not nested or v.dtype not in ("float16", "float32", "float64"):
        return None
    read = _READERS.get(node.op)
    if read is not None:
        if any(i.dtype != v.dtype and number_of(i) is None for i in node.inputs):
            return None
        return read(v, node.inputs, nested - 1)
    view = view_of(node)
    if view is None:
        return None
    inner = factors_of(node.inputs[0], nested - 1)
    if inner is None:
        return None
    return Factors(inner.constant, [f._replace(argument=f.argument.seen_through(view)) for f in inner.factors])


def _read_function(function):
    def read(v, inputs, nested):
        return Factors(1.0, [Factor(function, argument_of(inputs[0]), 1)])

    return read


def to_power(factors, power):
    """`Factors` to a power; None where that is not one."""
    if factors.constant < 0 and power != int(power):
        return None
    return Factors(factors.constant**power, [f._replace(power=f.power * power) for f in factors.factors])


def _read_power(power):
    def read(v, inputs, nested):
        inner = factors_of(inputs[0], nested)
        return None if inner is None else to_power(inner, power)

    return read


def _read_pow(v, inputs, nested):
    power = number_of(inputs[1])
    return None if power is None or inputs[0].type != v.type else _read_power(power)(v, inputs, nested)


def _read_product(v, inputs, nested):
    parts = [_constant_or_factors(i, v, nested) for i in inputs]
    if any(p is None for p in parts):
        return None
    constant = 1.0
    for part in parts:
        constant *= part.constant
    return Factors(constant, together([f for part in parts for f in part.factors]))


def _read_quotient(v, inputs, nested):
    above, below = [_constant_or_factors(i, v, nested) for i in inputs]
    if above is None or below is None or not below.constant:
        return None
    below = to_power(below, -1)
    return Factors(above.constant * below.constant, together(above.factors + below.factors))


def _constant_or_factors(v, whole, nested):
    number = number_of(v)
    if number is not None:
        return Factors(number, [])
    return factors_of(v, nested) if v.type.broadcastable == whole.type.broadcastable else None


def _read_negation(v, inputs, nested):
    inner = factors_of(inputs[0], nested)
    return None if inner is None else Factors(-inner.constant, inner.factors)


def _read_sum(v, inputs, nested):
    numbers = [number_of(i) for i in inputs]
    rest = [i for i, number in zip(inputs, numbers) if number is None]
    if len(rest) != 1 or len(inputs) < 2:
        return None
    return number_plus(sum(n for n in numbers if n is not None), 1, rest[0], nested)


def _read_difference(v, inputs, nested):
    a, b = (number_of(i) for i in inputs)
    if a is not None and b is None:
        return number_plus(a, -1, inputs[1], nested)
    if b is not None and a is None:
        return number_plus(-b, 1, inputs[0], nested)
    return None


def number_plus(number, sign, v, nested=MOST_NESTED):
    """``number + sign * v`` as `Factors`, or None."""
    coefficient = 1.0
    while nested and v.owner is not None and op_of(v) in (T.neg, T.mul, T.true_div):
        # a constant factor
        inputs = v.owner.inputs
        if op_of(v) == T.neg:
            coefficient, rest = -coefficient, inputs[0]
        else:
            numbers = [number_of(i) for i in inputs]
            if len(inputs) != 2 or (numbers[0] is None) == (numbers[1] is None):
                break
            if numbers[1] is None:
                if op_of(v) == T.true_div:
                    break
                coefficient, rest = coefficient * numbers[0], inputs[1]
            else:
                if op_of(v) == T.true_div and not numbers[1]:
                    break
                coefficient *= numbers[1] if op_of(v) == T.mul else 1 / numbers[1]
                rest = inputs[0]
        if rest.type != v.type:
            break
        v, nested = rest, nested - 1
    if not number:
        return None
    views = []
    inner = v
    while inner.owner is not None and isinstance(inner.owner.op, VIEWS) and nested:
        views.append(view_of(inner.owner))
        inner, nested = inner.owner.inputs[0], nested - 1
    found = _number_plus_function(number, sign * coefficient / number, inner, nested)
    if found is None:
        return None
    for view in reversed(views):
        found = Factors(found.constant, [f._replace(argument=f.argument.seen_through(view)) for f in found.factors])
    return found


def _number_plus_function(number, ratio, v, nested):
    """``number * (1 + ratio * v)``"""
    op = op_of(v)
    if op == T.tanh and abs(ratio) == 1:
        twice = argument_of(v.owner.inputs[0])
        return Factors(2 * number, [Factor(sigmoid, twice.times(2 * ratio), 1)]) if twice.degree == 1 else None
    if op == T.erf and abs(ratio) == 1:
        x = argument_of(v.owner.inputs[0])
        return Factors(number, [Factor(T.erfc, x.times(-ratio), 1)]) if x.degree == 1 else None
    squared = _squared(v)
    if squared is not None and op_of(squared) == T.tanh and ratio == -1:
        twice = argument_of(squared.owner.inputs[0]).times(2)
        if twice.degree == 1:
            return Factors(4 * number, [Factor(sigmoid, twice, 1), Factor(sigmoid, -twice, 1)])
        return None
    inner = factors_of(v, nested)
    if inner is None or len(inner.factors) != 1:
        return None
    ((function, argument, power),) = inner.factors
    ratio *= inner.constant
    if function == sigmoid and ratio == -1 and power == 1 and argument.degree == 1:
        return Factors(number, [Factor(sigmoid, -argument, 1)])
    if function == T.exp and ratio == 1 and argument.degree == 1:
        return Factors(number, [Factor(sigmoid, argument.times(-power), -1)])
    if function == T.erfc and ratio == -0.5 and power == 1:
        return Factors(number / 2, [Factor(T.erfc, -argument, 1)])
    return None


def reshaped_operand(v):
    """A Reshape of the shape of `v`, an elementwise expression that it is an operand of; one of a saturating function if there is one."""
    stack, seen, found = [v], {}, None
    while stack and len(seen) < 64:
        w = stack.pop()
        if w in seen:
            continue
        seen[w] = None
        if w.owner is None or w.broadcastable != v.broadcastable:
            continue
        if isinstance(w.owner.op, Reshape):
            if factors_of(w) is not None:
                return w
            found = found or w
        elif isinstance(w.owner.op, Elemwise):
            stack.extend(reversed(w.owner.inputs))
    return found


# -- putting factors together --------------------------------------------------------------------------------------------------------------


class _Powers:
    """Powers of ``sigmoid(a)``, ``sigmoid(-a)`` and ``exp(a)`` of one argument a."""

    def __init__(self, argument):
        self.argument = argument
        self.sigmoid, self.opposite, self.exp = 0, 0, 0

    def multiply(self, factor):
        positive, power = factor.argument.coefficient > 0, factor.power
        if factor.function == T.exp:
            self.exp += power if positive else -power
        elif positive:
            self.sigmoid += power
        else:
            self.opposite += power

    def factors(self):
        """Without exponentials, which alone may overflow, where that can be: ``exp(a) * sigmoid(-a)`` is ``sigmoid(a)``."""
        positive, negative = self.sigmoid, self.opposite
        n = 0
        if self.exp > 0:
            n = min(self.exp, max(negative, -positive))
        elif self.exp < 0:
            n = max(self.exp, min(-positive, negative))
        if n * self.exp < 0 or n != int(n):
            n = 0
        a, exp = self.argument, self.exp - n
        found = [
            Factor(sigmoid, a, positive + n),
            Factor(sigmoid, -a, negative - n),
            Factor(T.exp, a if exp > 0 else -a, abs(exp)),
        ]
        return [f for f in found if f.power]


def together(factors):
    """A list of `Factor` with those of one argument put together."""
    if len(factors) < 2:
        return factors
    places, others = {}, []
    for f in factors:
        a = f.argument
        if f.function in (T.erfc, T.erfcx) or a.degree == 2:
            others.append(f)
            continue
        key = a.place, abs(a.coefficient)
        if key not in places:
            places[key] = _Powers(a if a.coefficient > 0 else -a)
        places[key].multiply(f)
    return [f for powers in places.values() for f in powers.factors()] + others


def without_erfc(factors, dtype):
    """A list of `Factor` with ``exp(-a ** 2) / erfc(a)`` put together as ``1 / erfcx(a)``."""
    total = {}
    for function, argument, power in factors:
        key = function, argument.place, argument.coefficient, argument.degree
        if key in total:
            power += total[key].power
        total[key] = Factor(function, argument, power)
    tolerance = 8 * float(np.finfo(dtype).eps)
    found = []
    for key, (function, argument, power) in list(total.items()):
        if function != T.erfc or power >= 0 or argument.degree != 1:
            continue
        for other, exponential in list(total.items()):
            f, a, p = exponential
            if f != T.exp or a.degree != 2 or a.place != argument.place:
                continue
            # exp(times * -argument ** 2)
            times = a.coefficient / -(argument.coefficient**2)
            if round(times) < 1 or abs(times - round(times)) > tolerance * times:
                continue
            n = min(int(round(times) * total[other].power), -total[key].power)
            if n > 0:
                total[key] = Factor(function, argument, total[key].power + n)
                total[other] = Factor(f, a, total[other].power - n / round(times))
                found.append(Factor(T.erfcx, argument, -n))
    return [f for f in total.values() if f.power] + found


_READERS = {
    sigmoid: _read_function(sigmoid),
    T.exp: _read_function(T.exp),
    T.erfc: _read_function(T.erfc),
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
