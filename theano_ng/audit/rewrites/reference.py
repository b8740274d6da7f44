"""The true values of a graph, and upper bounds of the rounding errors that the graph may make.

Values are computed with higher precision: first with `numpy.longdouble`, then with `mpmath` for the few elements for
which longdouble does not decide. Each value has an upper bound of its error, to first order. The error of a result has
two parts: one unit in the last place of the result, and the changes of the result when each input changes by its error.
Nodes with integer or boolean results compute the same values as in the graph.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special

from theano_ng import scalar
from theano_ng.audit.rewrites.bounded import Bounded, Unsupported
from theano_ng.audit.rewrites.loop_bounds import bounded_loop
from theano_ng.compile.ops import Rebroadcast
from theano_ng.extras import require
from theano_ng.gof.graph import io_toposort
from theano_ng.scan.op import Scan
from theano_ng.tensor import basic as T
from theano_ng.tensor.blas.ops import Ger
from theano_ng.tensor.dtypes import CONTINUOUS, DISCRETE, FLOATS
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.indexing.advanced import AdvancedSubtensor, AdvancedSubtensor1
from theano_ng.tensor.indexing.subtensor import IncSubtensor, Subtensor
from theano_ng.tensor.reductions.careduce import CAReduce
from theano_ng.tensor.shaping.allocation import Alloc, AllocEmpty
from theano_ng.tensor.shaping.joining import Join
from theano_ng.tensor.shaping.reshaping import Reshape

mpmath = require("mpmath", "The oracle of rewriting rules")

#: Precision of `mpmath` in bits. With this precision, the sum of any two float64 numbers is exact, because their
#: exponents differ by at most 2,098.
BITS = 2400

#: Precision in bits for graphs with functions that would take a tenth of a second with `BITS`. With this precision 1 +
#: erf(x) is not rounded to zero, even for the lowest x at which a float64 can hold the sum.
FEWER_BITS = 1200
_SLOW = frozenset(["Erf", "Erfc", "Erfcx"])

#: The assumed error of SciPy's erf, erfc and erfcx, in units in the last place. It is large because these functions
#: compute exp(-x * x), which amplifies the rounding error of its argument.
CEPHES = 64

_MOVES = (DimShuffle, Subtensor, IncSubtensor, AdvancedSubtensor, AdvancedSubtensor1, Alloc, Join, Reshape, Rebroadcast)


def _sum_of(*x):
    total = x[0]
    for one in x[1:]:
        total = total + one
    return total


def _product_of(*x):
    total = x[0]
    for one in x[1:]:
        total = total * one
    return total


def _softplus(x):
    return np.logaddexp(x, np.zeros_like(x))


def _of_doubles(function):
    """Return a function that takes and returns longdouble, but computes in float64."""
    return lambda x: function(x.astype(np.float64)).astype(np.longdouble)


#: The largest permitted argument of an exponential function. Computing with the results of larger arguments would take
#: too long.
_MAX_EXPONENT = 1e30


def _limited(function):
    """Return an exponential function of mpmath that raises OverflowError if the exponent of its result is too large."""

    def of(x):
        if abs(x) > _MAX_EXPONENT:
            raise OverflowError(x)
        return function(x)

    return of


def _mp_pow(x, y):
    if x == 0 and y < 0:
        raise ZeroDivisionError(x)
    if x != 0 and abs(y * mpmath.log(abs(x))) > _MAX_EXPONENT:
        raise OverflowError(y)
    return mpmath.power(x, y)


# Class name of a scalar Op -> (function of longdouble, True if it has only the precision of float64, function of
# mpmath).
_FUNCTIONS = {
    "Add": (_sum_of, False, _sum_of),
    "Mul": (_product_of, False, _product_of),
    "Sub": (np.subtract, False, lambda x, y: x - y),
    "TrueDiv": (np.true_divide, False, lambda x, y: x / y),
    "Neg": (np.negative, False, lambda x: -x),
    "Abs": (np.abs, False, abs),
    "Sgn": (np.sign, False, mpmath.sign),
    "Inv": (lambda x: 1 / x, False, lambda x: 1 / x),
    "Sqr": (lambda x: x * x, False, lambda x: x * x),
    "Sqrt": (np.sqrt, False, mpmath.sqrt),
    "Pow": (np.power, False, _mp_pow),
    "Exp": (np.exp, False, _limited(mpmath.exp)),
    "Exp2": (np.exp2, False, _limited(lambda x: mpmath.power(2, x))),
    "Expm1": (np.expm1, False, _limited(mpmath.expm1)),
    "Log": (np.log, False, mpmath.log),
    "Log2": (np.log2, False, lambda x: mpmath.log(x, 2)),
    "Log10": (np.log10, False, mpmath.log10),
    "Log1p": (np.log1p, False, mpmath.log1p),
    "Sin": (np.sin, False, mpmath.sin),
    "Cos": (np.cos, False, mpmath.cos),
    "Tan": (np.tan, False, mpmath.tan),
    "ArcSin": (np.arcsin, False, mpmath.asin),
    "ArcCos": (np.arccos, False, mpmath.acos),
    "ArcTan": (np.arctan, False, mpmath.atan),
    "Sinh": (np.sinh, False, _limited(mpmath.sinh)),
    "Cosh": (np.cosh, False, _limited(mpmath.cosh)),
    "Tanh": (np.tanh, False, _limited(mpmath.tanh)),
    "ArcSinh": (np.arcsinh, False, mpmath.asinh),
    "ArcCosh": (np.arccosh, False, mpmath.acosh),
    "ArcTanh": (np.arctanh, False, mpmath.atanh),
    "Deg2Rad": (lambda x: x * (np.arctan(np.longdouble(1)) / 45), False, lambda x: x * mpmath.pi / 180),
    "Rad2Deg": (lambda x: x * (45 / np.arctan(np.longdouble(1))), False, lambda x: x * 180 / mpmath.pi),
    "Erf": (_of_doubles(scipy.special.erf), True, _limited(mpmath.erf)),
    "Erfc": (_of_doubles(scipy.special.erfc), True, _limited(mpmath.erfc)),
    "Erfcx": (_of_doubles(scipy.special.erfcx), True, _limited(lambda x: mpmath.exp(x * x) * mpmath.erfc(x))),
    "ScalarSigmoid": (lambda x: 1 / (1 + np.exp(-x)), False, _limited(lambda x: 1 / (1 + mpmath.exp(-x)))),
    "ScalarSoftplus": (_softplus, False, _limited(lambda x: mpmath.log1p(mpmath.exp(x)))),
    "Maximum": (np.maximum, False, lambda x, y: x if x != x or x > y else y),
    "Minimum": (np.minimum, False, lambda x, y: x if x != x or x < y else y),
    "Second": (lambda x, y: np.broadcast_arrays(x, y)[1], False, lambda x, y: y),
    "Switch": (np.where, False, lambda c, x, y: x if c else y),
    "Identity": (lambda x: x, False, lambda x: x),
    "Conj": (np.conj, False, lambda x: x),
}


def _wide(actual):
    """Return the `Bounded` value of an input or an integer. Its error is zero."""
    value = (
        actual if actual.dtype == bool else actual.astype(np.clongdouble if actual.dtype.kind == "c" else np.longdouble)
    )
    return Bounded(value, np.zeros(actual.shape, np.longdouble), actual=actual)


def _unit(dtype):
    info = np.finfo(dtype)
    return np.longdouble(info.eps), np.longdouble(info.smallest_subnormal)


def _spread(function, inputs, value):
    """Return the largest change of a function's value that the errors of its inputs cause, to first order."""
    total = np.zeros(np.shape(value), np.longdouble)
    for i, one in enumerate(inputs):
        if one.value.dtype == bool or not np.any(one.error):
            continue
        change = np.zeros_like(total)
        for sign in (1, -1, 1j, -1j) if one.value.dtype.kind == "c" else (1, -1):
            moved = [v.value if j != i else v.value + sign * v.error for j, v in enumerate(inputs)]
            off = np.abs(function(*moved) - value)
            # A function is NaN outside its domain. Count only changes inside the domain.
            change = np.maximum(change, np.where(np.isnan(off), 0, off))
        total = total + change
    return total


def _bounded(function, inputs, dtype, terms=1):
    """Return the `Bounded` result of a function that rounds to a dtype `terms` times."""
    eps, least = _unit(dtype)
    value = np.asarray(function(*[v.value for v in inputs]))
    value = value if value.dtype.kind == "c" else value.astype(np.longdouble)
    error = _spread(function, inputs, value) + terms * (np.abs(value) * eps + least)
    return Bounded(value, np.where(np.isfinite(value), error, 0))


def _elementwise(node, inputs):
    op = node.op.scalar_op
    name, dtype = type(op).__name__, node.outputs[0].dtype
    if isinstance(op, scalar.Cast) and all(v.value.dtype.kind != "c" for v in inputs):
        return _bounded(lambda x: x, inputs, dtype)
    if name not in _FUNCTIONS:
        raise Unsupported(name)
    function, weak, _ = _FUNCTIONS[name]
    count = max(len(inputs) - 1, 1) if name in ("Add", "Mul") else CEPHES if weak else 1
    found = _bounded(function, inputs, dtype, count)
    if name == "Mul":
        found.partial = tuple(_product_of(*[v.value for v in inputs[:k]]) for k in range(2, len(inputs)))
    return found


def _moved(node, inputs):
    """Return the `Bounded` result of an Op that moves elements.

    An `IncSubtensor` counts as such an Op, although it may add elements. The Op runs once on the values and
    once on the errors.
    """
    found = []
    places = _moved_inputs(node.op, len(inputs))
    for part in ("value", "error"):
        cell = [None]
        given = [getattr(v, part) if i in places else v.actual for i, v in enumerate(inputs)]
        node.op.perform(node, given, [cell])
        found.append(np.array(cell[0]))
    value, error = found
    if isinstance(node.op, IncSubtensor) and not node.op.set_instead_of_inc:
        eps, least = _unit(node.outputs[0].dtype)
        error = error + np.abs(value) * eps + least
    return Bounded(value, np.abs(error))


def _moved_inputs(op, count):
    """Return the positions of the inputs whose values an Op moves. The other inputs are indices and lengths."""
    if isinstance(op, Join):
        return range(1, count)
    return (0, 1) if isinstance(op, IncSubtensor) else (0,)


def _reduced(node, inputs):
    (x,), op = inputs, node.op
    axis = op.axis if op.axis is None else tuple(op.axis)
    dtype, name = node.outputs[0].dtype, type(op.scalar_op).__name__
    if dtype not in (CONTINUOUS if name in ("Add", "Mul") else FLOATS) or name not in (
        "Add",
        "Mul",
        "Maximum",
        "Minimum",
    ):
        raise Unsupported(name)
    if name == "Add":
        eps, least = _unit(dtype)
        size = np.sum(np.abs(x.value), axis=axis)
        count = x.value.size + 1
        return Bounded(np.sum(x.value, axis=axis), np.sum(x.error, axis=axis) + count * (eps * size + least))
    if name == "Mul":
        return _multiplied(x, axis, dtype)
    function = np.max if name == "Maximum" else np.min
    if not x.value.size:
        raise Unsupported("nothing to reduce")
    return Bounded(function(x.value, axis=axis), np.max(x.error, axis=axis))


def _multiplied(x, axis, dtype):
    """Return the `Bounded` product of elements. The relative errors and the roundings of the elements add up."""
    eps, least = _unit(dtype)
    value = np.prod(x.value, axis=axis)
    relative = np.where(x.value != 0, x.error / np.abs(x.value), 0)
    error = np.abs(value) * (np.sum(relative, axis=axis) + x.value.size * eps) + least
    found = Bounded(value, np.where(np.isfinite(error), error, 0))
    # For any order of the factors, all partial products lie between these two products.
    size = np.abs(x.value)
    found.partial = tuple(np.prod(choose(size, np.longdouble(1)), axis=axis) for choose in (np.maximum, np.minimum))
    return found


def _product(node, inputs):
    """Return the `Bounded` product of vectors or matrices."""
    x, y = inputs
    eps, least = _unit(node.outputs[0].dtype)
    size = np.dot(np.abs(x.value), np.abs(y.value))
    count = x.value.shape[-1] + 1 if x.value.ndim else 2
    error = np.dot(x.error, np.abs(y.value)) + np.dot(np.abs(x.value), y.error) + count * (eps * size + least)
    return Bounded(np.dot(x.value, y.value), error)


def _rank_one_update(node, inputs):
    """Return the `Bounded` ``A + a * outer(x, y)``, whose factors may be multiplied in any order."""
    to, a, x, y = inputs
    eps, least = _unit(node.outputs[0].dtype)
    product = np.outer(x.value, y.value)
    term = a.value * product
    value = to.value + term
    of_term = np.abs(product) * a.error + np.abs(a.value) * (
        np.outer(x.error, np.abs(y.value)) + np.outer(np.abs(x.value), y.error)
    )
    found = Bounded(value, to.error + of_term + eps * (2 * np.abs(term) + np.abs(value)) + 3 * least)
    found.partial = (product, term, np.broadcast_to((a.value * x.value)[:, None], value.shape), a.value * y.value)
    return found


def _sparse_update(node, known, actual):
    """Return the `Bounded` ``alpha * dot(x, y) + z`` for a sparse x.

    The graph may multiply x by alpha before the product, so the elements of ``alpha * x`` are intermediate values, too.
    """
    alpha, y, z = (known[node.inputs[i]] for i in (0, 2, 3))
    if alpha is None or y is None or z is None:
        raise Unsupported(node.op)
    x = actual[node.inputs[1]].item().toarray().astype(np.longdouble)
    eps, least = _unit(node.outputs[0].dtype)
    number, slack = alpha.value.reshape(()), alpha.error.reshape(())

    def product_with(x, y):
        """Return ``dot(x, y)``. Elements of x that are not stored are not multiplied, not even by an infinity."""
        return np.sum(np.where(x[:, :, None] != 0, x[:, :, None] * y, 0), axis=1)

    product, size = product_with(x, y.value), product_with(np.abs(x), np.abs(y.value))
    value = z.value + number * product
    of_term = slack * size + np.abs(number) * product_with(np.abs(x), y.error)
    rounded = eps * (np.abs(number) * size + np.abs(z.value)) + least
    return Bounded(value, z.error + of_term + (x.shape[1] + 2) * rounded, partial=(number * x, product))


def _softmax(node, inputs):
    (x,) = inputs
    eps, least = _unit(node.outputs[0].dtype)
    shifted = x.value - np.max(x.value, axis=-1, keepdims=True)
    value = np.exp(shifted)
    value = value / np.sum(value, axis=-1, keepdims=True)
    change = np.max(x.error, axis=-1, keepdims=True, initial=0)
    return Bounded(value, value * (2 * change + eps * (np.abs(shifted) + value.shape[-1] + 4)) + least)


def _softmax_grad(node, inputs):
    """Return the `Bounded` ``dy * sm - sum(dy * sm) * sm``."""
    dy, sm = inputs
    eps, least = _unit(node.outputs[0].dtype)
    terms = dy.value * sm.value
    error = np.abs(dy.value) * sm.error + sm.value * dy.error + eps * np.abs(terms) + least
    total = np.sum(terms, axis=-1, keepdims=True)
    of_total = np.sum(error, axis=-1, keepdims=True) + terms.shape[-1] * eps * np.sum(
        np.abs(terms), axis=-1, keepdims=True
    )
    value = terms - total * sm.value
    error = (
        error + np.abs(total) * sm.error + sm.value * of_total + 2 * eps * (np.abs(terms) + np.abs(total * sm.value))
    )
    return Bounded(value, np.where(np.isfinite(error), error, 0))


_OF_ROWS = {"Softmax": _softmax, "SoftmaxGrad": _softmax_grad}


def _node(node, inputs):
    op = node.op
    if type(op).__name__ in _OF_ROWS:
        return _OF_ROWS[type(op).__name__](node, inputs)
    if isinstance(op, Elemwise) and len(node.outputs) == 1:
        return _elementwise(node, inputs)
    if isinstance(op, _MOVES):
        return _moved(node, inputs)
    if isinstance(op, Ger):
        return _rank_one_update(node, inputs)
    if isinstance(op, AllocEmpty):  # the content is overwritten before it is read
        shape = [int(v.actual) for v in inputs]
        return Bounded(np.zeros(shape, np.longdouble), np.zeros(shape, np.longdouble))
    if isinstance(op, CAReduce):
        return _reduced(node, inputs)
    if isinstance(op, T.Dot) or type(op).__name__ == "Dot22":
        return _product(node, inputs)
    raise Unsupported(op)


def bounds(fgraph, values):
    """Compute the outputs of a graph with higher precision, and upper bounds of the rounding errors of the graph.

    Parameters
    ----------
    fgraph : FunctionGraph
    values : list of ndarray
        The values of the inputs.

    Returns
    -------
    list of Bounded or None
        None for an output whose value is unknown.
    list of (str, ndarray, bool)
        The dtype and the values of each known float or complex variable, and True for an input or a constant.
    list of ndarray of bool
        The masks that `_wraps` returns for the nodes.
    """
    known, actual, wraps = {}, {}, []
    for v, value in zip(fgraph.inputs, values):
        actual[v] = np.asarray(value)
    with np.errstate(all="ignore"):
        for node in fgraph.toposort():
            _compute(node, known, actual)
            wraps += _wraps(node, actual)
        for v in fgraph.outputs:
            _leaf(v, known, actual)
    inner = [
        (v.dtype, value, v.owner is None)
        for v, found in known.items()
        if found is not None and v.dtype in CONTINUOUS
        for value in (found.value, *found.partial)
    ]
    return [known[v] for v in fgraph.outputs], inner, wraps


#: Name of a scalar Op -> function that computes the Op without wraparound, elementwise or as a reduction.
_UNLIMITED = {
    "Add": _sum_of,
    "Mul": _product_of,
    "Sub": np.subtract,
    "Neg": np.negative,
    "Sqr": np.square,
    "Abs": np.abs,
    "Pow": np.power,
    "IntDiv": np.floor_divide,
    "Cast": np.positive,
}
_UNLIMITED_REDUCTIONS = {"Add": np.sum, "Mul": np.prod}


def _wraps(node, actual):
    """Return a list with a mask of the elements of a result that wrapped around. Return [] if this is not known.

    Only results of integers or booleans can wrap around.
    """
    op, out = node.op, node.outputs[0]
    if any(getattr(v, "dtype", None) not in DISCRETE for v in (*node.inputs, out)) or out not in actual:
        return []
    name = type(getattr(op, "scalar_op", None)).__name__
    inputs = [np.asarray(actual[v], np.longdouble) for v in node.inputs]
    if isinstance(op, Elemwise) and name in _UNLIMITED:
        unlimited = _UNLIMITED[name](*inputs)
    elif isinstance(op, CAReduce) and name in _UNLIMITED_REDUCTIONS:
        unlimited = _UNLIMITED_REDUCTIONS[name](inputs[0], axis=op.axis if op.axis is None else tuple(op.axis))
    else:
        return []
    return [np.isfinite(unlimited) & (unlimited != actual[out])]


@dataclass
class Ranges:
    """The ranges of the values in two graphs, for each element of a result.

    Attributes
    ----------
    outside : ndarray of bool
        True if an intermediate value is too large or too small for its dtype.
    largest : ndarray of longdouble
        The absolute value of the largest finite input or intermediate value.
    unknown : ndarray of bool
        True if any value is NaN.
    unknown_input : ndarray of bool
        True if an input is NaN.
    infinite_input : ndarray of bool
        True if an input is infinite.
    wrapped : ndarray of bool
        True if integers wrap around in only one of the graphs.
    """

    outside: Any
    largest: Any
    unknown: Any
    unknown_input: Any
    infinite_input: Any
    wrapped: Any


def ranges(before, after, shape):
    """Return the `Ranges` of the values of two graphs.

    Parameters
    ----------
    before, after : tuple
        The results of `bounds`.
    shape : tuple of int
        The shape of the result.

    Returns
    -------
    Ranges
    """
    outside, largest = np.zeros(shape, bool), np.zeros(shape, np.longdouble)
    unknown, unknown_input, infinite_input = np.zeros((3, *shape), bool)
    for dtype, value, given in before[1] + after[1]:
        info = np.finfo(dtype)
        size = np.abs(value)
        finite = np.isfinite(size)
        beyond = finite & ((size > info.max) | (size != 0) & (size < info.tiny)) & (not given)
        outside = outside | _spread_over(beyond, shape)
        largest = np.maximum(largest, _spread_over(np.where(finite, size, 0), shape))
        unknown = unknown | _spread_over(np.isnan(size), shape)
        if given and _fits(size, shape):
            unknown_input = unknown_input | np.isnan(size)
            infinite_input = infinite_input | np.isinf(size)
    flags = [flag.astype(bool) for flag in (unknown, unknown_input, infinite_input)]
    return Ranges(outside.astype(bool), largest, *flags, _any(before[2], shape) ^ _any(after[2], shape))


def _any(masks, shape):
    """Return a mask of the elements of a result that depend on an element at which one of the masks is True."""
    found = np.zeros(shape, bool)
    for mask in masks:
        found |= _spread_over(mask, shape).astype(bool)
    return found


def _fits(values, shape):
    """Return True if values can be broadcast to a shape."""
    return values.ndim <= len(shape) and all(n in (1, m) for n, m in zip(values.shape[::-1], shape[::-1]))


def _spread_over(values, shape):
    """Return values broadcast to a shape.

    If they do not fit, return the largest value, because each element of the result may depend on it.
    """
    return np.broadcast_to(values, shape) if _fits(values, shape) else np.max(values, initial=0)


def _leaf(v, known, actual):
    if v in known:
        return
    if v not in actual and hasattr(v, "data"):
        actual[v] = np.asarray(v.data)
    try:
        known[v] = _wide(actual[v])
    except (KeyError, Unsupported, TypeError, ValueError):
        known[v] = None


def _compute(node, known, actual):
    for v in node.inputs:
        _leaf(v, known, actual)
    if all(v in actual for v in node.inputs):
        cells = [[None] for _ in node.outputs]
        try:
            node.op.perform(node, [np.array(actual[v]) for v in node.inputs], cells)
            actual.update((v, np.asarray(cell[0])) for v, cell in zip(node.outputs, cells))
        except Exception:  # the Op has params or refuses these values, so its results are unknown
            pass
    inputs = [known[v] for v in node.inputs]
    for v in node.outputs:
        known[v] = None
    if getattr(node.outputs[0], "dtype", None) not in CONTINUOUS:
        for v in node.outputs:
            del known[v]
            _leaf(v, known, actual)
    elif type(node.op).__name__ == "Usmm":
        try:
            known[node.outputs[0]] = _sparse_update(node, known, actual)
        except (Unsupported, KeyError, AttributeError, ValueError):
            pass
    elif isinstance(node.op, Scan):
        try:
            known.update(zip(node.outputs, bounded_loop(node, known, actual, _step)))
        except (Unsupported, KeyError, IndexError, TypeError, ValueError):
            pass
    elif len(node.outputs) == 1 and None not in inputs:
        try:
            found = _node(node, inputs)
            found.actual = actual.get(node.outputs[0])
            known[node.outputs[0]] = found
        except (Unsupported, TypeError, ValueError, AttributeError):
            pass


def _step(inputs, outputs, given):
    """Return the `Bounded` outputs of one step of a loop, and all float values in the step."""
    known = dict(zip(inputs, given))
    actual = {v: np.asarray(one.actual) for v, one in known.items() if one.actual is not None}
    for node in io_toposort(inputs, outputs):
        _compute(node, known, actual)
    for v in outputs:
        _leaf(v, known, actual)
    found = [known[v] for v in outputs]
    if None in found:
        raise Unsupported("an Op in the step of a loop")
    for v, one in zip(outputs, found):
        one.actual = actual.get(v)
    floats = [one for v, one in known.items() if one is not None and v.dtype in CONTINUOUS]
    return found, [value for one in floats for value in (one.value, *one.partial)]


# -- exact values of a few elements ------------------------------------------------------------------------------------


def exact(fgraph, values):
    """Compute the outputs of an elementwise graph of scalars with `mpmath`.

    Parameters
    ----------
    fgraph : FunctionGraph
        A graph whose variables have rank 0 or one element.
    values : list of numbers
        The values of the inputs.

    Returns
    -------
    list of mpmath.mpf or None
        None if the value is unknown: NaN, an infinity, a division by zero, or an Op without a function of `mpmath`.
    """
    known = {v: _number(value) for v, value in zip(fgraph.inputs, values)}
    slow = any(type(getattr(node.op, "scalar_op", None)).__name__ in _SLOW for node in fgraph.apply_nodes)
    with mpmath.workprec(FEWER_BITS if slow else BITS):
        for node in fgraph.toposort():
            for v in node.inputs:
                if v not in known:
                    known[v] = _number(v.data) if hasattr(v, "data") and np.size(v.data) == 1 else None
            for v in node.outputs:
                known[v] = _exact_node(node, [known[i] for i in node.inputs])
    return [known.get(v) for v in fgraph.outputs]


def _number(value):
    value = np.asarray(value).reshape(-1)
    if len(value) != 1 or value.dtype.kind == "c" or not np.isfinite(value[0]):
        return None
    return mpmath.mpf(value[0].item())


def _exact_node(node, inputs):
    if None in inputs or len(node.outputs) != 1:
        return None
    if isinstance(node.op, DimShuffle):
        return inputs[0]
    name = type(getattr(node.op, "scalar_op", None)).__name__
    if not isinstance(node.op, Elemwise) or node.outputs[0].dtype not in FLOATS or name not in _FUNCTIONS:
        return None
    try:
        result = _FUNCTIONS[name][2](*inputs)
        if not isinstance(result, (mpmath.mpf, int, float)) or not mpmath.isfinite(result):
            return None
        return mpmath.mpf(result)
    except (ZeroDivisionError, ValueError, OverflowError, mpmath.libmp.libhyper.NoConvergence):
        return None


def is_as_good(a, b, true, error):
    """Return True if `b` is as near to the true value as `a`, or within the permitted rounding error.

    Parameters
    ----------
    a, b : numbers of a float dtype
    true : mpmath.mpf
    error : float
        The permitted rounding error, in addition to one unit in the last place.
    """
    info = np.finfo(a.dtype)
    with mpmath.workprec(BITS):
        allowed = abs(true) * mpmath.mpf(float(info.eps)) + mpmath.mpf(float(info.smallest_subnormal))
        if np.isfinite(error):
            allowed += mpmath.mpf(float(error))
        if np.isnan(b):
            return False
        if np.isinf(b):
            return (b > 0) == (true > 0) and abs(true) + allowed >= mpmath.mpf(float(info.max))
        if np.isfinite(a):
            allowed = max(allowed, abs(mpmath.mpf(float(a)) - true))
        return bool(abs(mpmath.mpf(float(b)) - true) <= allowed)
