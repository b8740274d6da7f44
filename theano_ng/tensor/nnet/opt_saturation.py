"""Logarithms, quotients and derivatives of functions that saturate, before anything else is done to a graph.

Before canonicalization expressions are still as the program and `grad` wrote them: the divisor of a logarithm's derivative is the variable that
the derivative of its argument is multiplied by, with nothing but a view between. So the rules see it whatever else uses the variables, in all
modes.
"""

from collections import namedtuple

import numpy as np

from theano_ng.compile import optdb
from theano_ng.gof.rewriting import LocalOptGroup, TopoOptimizer, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.indexing.advanced import (
    AdvancedIncSubtensor,
    AdvancedIncSubtensor1,
    advanced_subtensor,
    advanced_subtensor1,
)
from theano_ng.tensor.indexing.subtensor import IncSubtensor, Subtensor
from theano_ng.tensor.nnet.opt_sigm import loses_less
from theano_ng.tensor.nnet.saturating import (
    VIEWS,
    Factors,
    View,
    factors_of,
    number_of,
    number_plus,
    reshaped_operand,
    shape_key,
    to_power,
    together,
    view_of,
    without_erfc,
)
from theano_ng.tensor.nnet.sigmoids import sigmoid, softplus
from theano_ng.tensor.opt.common import answer, constant_value, op_of, shuffled, with_type
from theano_ng.tensor.opt.own_registration import ignores_nonfinite
from theano_ng.tensor.opt.stabilize import is_stabilized, log_of_erfc
from theano_ng.tensor.reductions.careduce import Sum
from theano_ng.tensor.shaping.joining import Join
from theano_ng.tensor.shaping.reshaping import Reshape

FLOATS = ("float16", "float32", "float64")

MOST_TERMS = 32
"""Most terms of a sum that factors are brought into."""

MOST_NESTED_SUMS = 6
"""How many sums within each other factors are brought into."""

MOST_PRODUCTS = 400
"""How many products are read to find out whether one of them can be rewritten."""


# -- logarithms --------------------------------------------------------------------------------------------------------------------------


def _log_of_factors(factors, dtype):
    """The sum of the logarithms of `Factors`, or None where they are negative or there is none."""
    if factors is None or not factors.constant > 0 or not factors.factors:
        return None
    if dtype == "float16" and any(f.function == T.erfc for f in factors.factors):
        return None
    terms = []
    for function, argument, power in factors.factors:
        if function == T.exp:
            term = argument.times(power).variable()
        else:
            if function == sigmoid:
                term, power = softplus((-argument).variable()), -power
            else:
                term = log_of_erfc(argument.variable())
            if power == -1:
                term = -term
            elif power != 1:
                term = T.mul(np.asarray(power, dtype), term)
        terms.append(term)
    if factors.constant != 1:
        terms.append(T.as_tensor_variable(np.asarray(np.log(factors.constant), dtype)))
    return terms[0] if len(terms) == 1 else T.add(*terms)


@ignores_nonfinite
@local_optimizer([T.log, T.log1p])
def local_log_of_saturated(node):
    """The logarithm of a product of sigmoids, exponentials and erfc, each from its own argument.

    log(sigmoid(x))  ->  -softplus(-x)          [fast_run, fast_compile]
    log(1 - sigmoid(A).T)  ->  -softplus(A.T)
    log(1 / (1 + exp(-x)))  ->  -softplus(-x)
    log1p(exp(x))  ->  softplus(x)

    What is read as such a product, and through which views: `theano_ng.tensor.nnet.saturating`.
    """
    (v,) = node.inputs
    out = node.outputs[0]
    if v.dtype != out.dtype or is_stabilized(out):
        return False
    if node.op == T.log1p:
        new = _log_of_factors(number_plus(1, 1, v), out.dtype)
    elif v.owner is not None and isinstance(v.owner.op, Join):
        axis, *parts = v.owner.inputs
        logs = [_log_of_factors(factors_of(part), out.dtype) for part in parts]
        if any(log is None or log.type != part.type for log, part in zip(logs, parts)):
            return False
        new = v.owner.op(axis, *logs)
    else:
        new = _log_of_factors(factors_of(v), out.dtype)
    if new is None:
        return False
    new = answer(new, out)
    if new:
        new[0].tag.values_eq_approx = loses_less
    return new


# -- products ----------------------------------------------------------------------------------------------------------------------------


class _Product:
    """A product: number, saturating factors, and all others.

    Attributes
    ----------
    constant : float
    factors : list of Factor
    above, below : list of Variable
        Other factors and divisors.
    known : list of (Factor, Variable)
        Variables that are single factors.
    """

    def __init__(self):
        self.constant, self.factors, self.above, self.below, self.known = 1.0, [], [], [], []

    def multiply(self, read, inverted=False):
        """By `Factors`."""
        if inverted:
            read = to_power(read, -1)
        self.constant *= read.constant
        self.factors += read.factors


MOST_FACTORS = 64
"""Up to this many factors products are opened that others use too."""


def _read_product(root, dtype, views=3):
    """A variable as `_Product`; the walk goes through products and quotients of a dtype, up to a limit through those that others use,
    and into as many as `views` views of products."""
    product = _Product()
    stack = [(root, False)]
    seen = 0
    while stack:
        v, inverted = stack.pop()
        seen += 1
        op = op_of(v)
        opened = (
            op in _OPENED
            and v.dtype == dtype
            and (v is root or seen + len(stack) <= MOST_FACTORS or len(v.clients) < 2)
        )
        number = number_of(v) if v is not root else None
        if number is not None:
            if number or not inverted:
                product.constant = product.constant / number if inverted else product.constant * number
                continue
        elif opened:
            inputs = v.owner.inputs
            if op == T.neg or op == T.tensor_copy:
                if op == T.neg:
                    product.constant = -product.constant
                stack.append((inputs[0], inverted))
            elif op == T.mul:
                stack.extend((i, inverted) for i in reversed(inputs))
            elif op == T.true_div:
                stack.append((inputs[1], not inverted))
                stack.append((inputs[0], inverted))
            else:
                stack.append((inputs[0], not inverted))
            continue
        read = factors_of(v)
        if read is not None and v.dtype == dtype and read.constant:
            product.multiply(read, inverted)
            if read.constant == 1 and len(read.factors) == 1 and read.factors[0].power == 1:
                product.known.append((read.factors[0], v))
        elif not (views and _read_view(product, v, inverted, dtype, views - 1)):
            (product.below if inverted else product.above).append(v)
    return product


def _read_view(product, v, inverted, dtype, views):
    """Multiply `product` by a view of a product that has saturating factors; whether `v` is one."""
    if v.owner is None or v.dtype != dtype or not isinstance(v.owner.op, VIEWS):
        return False
    x = v.owner.inputs[0]
    if op_of(x) not in _OPENED and not isinstance(x.owner and x.owner.op, VIEWS):
        return False
    inner = _read_product(x, dtype, views)
    others = inner.above + inner.below
    if not inner.factors or any(
        other.broadcastable != x.broadcastable for other in others if not all(other.broadcastable)
    ):
        return False
    view = view_of(v.owner)

    def seen(variables):
        return [_spread(other, v) if all(other.broadcastable) else view.op(other, *view.others) for other in variables]

    factors = [f._replace(argument=f.argument.seen_through(view)) for f in inner.factors]
    product.multiply(Factors(inner.constant, factors), inverted)
    above, below = seen(inner.above), seen(inner.below)
    product.above += below if inverted else above
    product.below += above if inverted else below
    return True


def _spread(number, like):
    """A variable with one element, of the rank of another."""
    return number if number.ndim == like.ndim else shuffled(number, ["x"] * like.ndim)


_OPENED = {T.neg: None, T.mul: None, T.true_div: None, T.inv: None, T.tensor_copy: None}


def _put_together(factors, dtype):
    """Factors of a product, those of one argument together, and how much fewer than before may overflow."""
    found = without_erfc(together(factors), dtype)
    return found, _danger(factors) - _danger(found)


def _danger(factors):
    """How many divisions by what may be zero, and exponentials of what may be large, are in a product."""
    count = 0
    for function, argument, power in factors:
        if function == T.exp and argument.degree == 1:
            count += abs(power)
        elif function != T.erfcx:
            count += max(0, -power)
    return count


def _built(product, combined, known, dtype):
    """The expression of a product whose factors were combined."""
    above, below = list(product.above), list(product.below)
    constant = product.constant
    variables = {_factor_key(f): v for f, v in known}
    for function, argument, power in combined:
        if function == T.exp:
            v, power = T.exp(argument.times(power).variable()), 1
        else:
            v = variables.get((function, argument.place, argument.coefficient))
            if v is None:
                v = function(argument.variable())
        side = above if power > 0 else below
        power = abs(power)
        if power == int(power) and power <= 4:
            side.extend([v] * int(power))
        else:
            side.append(T.pow(v, np.asarray(power, dtype)))
    if constant not in (1, -1) or not above:
        above.insert(0, T.as_tensor_variable(np.asarray(abs(constant), dtype)))
    new = above[0] if len(above) == 1 else T.mul(*above)
    if below:
        new = T.true_div(new, below[0] if len(below) == 1 else T.mul(*below))
    return -new if constant < 0 else new


def _factor_key(f):
    return f.function, f.argument.place, f.argument.coefficient


# -- sums, and what is between a sum and its factors ------------------------------------------------------------------------------------------


def _adjoint(node):
    """Of a linear node L, position of the input y and the `View` F with ``L(y) * u == L(y * F(u))`` for every u; None for other nodes."""
    op, inputs = node.op, node.inputs
    if isinstance(op, DimShuffle):
        y = inputs[0]
        order = [op.new_order.index(d) if d in op.new_order else "x" for d in range(y.ndim)]
        return 0, View(DimShuffle(node.outputs[0].broadcastable, order), (), y.broadcastable, None)
    if isinstance(op, Sum):
        y = inputs[0]
        axes = range(y.ndim) if op.axis is None else op.axis
        kept = [d for d in range(y.ndim) if d not in axes]
        order = [kept.index(d) if d in kept else "x" for d in range(y.ndim)]
        return 0, View(DimShuffle(node.outputs[0].broadcastable, order), (), y.broadcastable, None)
    if isinstance(op, Reshape):
        like = reshaped_operand(inputs[0])
        others = (T.shape(inputs[0]),) if like is None else tuple(like.owner.inputs[1:])
        return 0, View(
            Reshape(inputs[0].ndim), others, inputs[0].broadcastable, shape_key(inputs[0] if like is None else like)
        )
    if isinstance(op, IncSubtensor):
        view = Subtensor(op.idx_list)
    elif isinstance(op, AdvancedIncSubtensor1) and not op.set_instead_of_inc:
        view = advanced_subtensor1
    elif isinstance(op, AdvancedIncSubtensor) and not op.set_instead_of_inc:
        view = advanced_subtensor
    else:
        return None
    zero = constant_value(inputs[0])
    return (1, View(view, tuple(inputs[2:]), inputs[1].broadcastable, None)) if zero is not None and zero == 0 else None


def _terms_of(v, open_shared=True):
    """The terms of a sum as (variable, sign); None when there are too many. Sums within that others use too are opened if `open_shared`."""
    terms, stack = [], [(v, 1)]
    while stack:
        w, sign = stack.pop()
        op = op_of(w)
        if w is not v and not open_shared and len(w.clients) > 1:
            op = None
        if (op == T.add or op == T.sub) and w.dtype == v.dtype and factors_of(w) is None:
            inputs = w.owner.inputs
            signs = [sign] * len(inputs) if op == T.add else [sign, -sign]
            stack.extend(zip(reversed(inputs), reversed(signs)))
        elif op == T.tensor_copy:
            stack.append((w.owner.inputs[0], sign))
        else:
            terms.append((w, sign))
        if len(terms) + len(stack) > MOST_TERMS:
            return None
    return terms


class _Limits:
    """How many more sums within each other are opened, and how many more products are read."""

    def __init__(self):
        self.sums, self.products = MOST_NESTED_SUMS, MOST_PRODUCTS

    def spend(self, products):
        self.products -= products
        return self.products >= 0


Linear = namedtuple("Linear", "node position")


def _with_complements(products):
    """Terms of a sum as `_Product`, those that differ by a sigmoid as one: ``x - x * sigmoid(a)`` is ``x * sigmoid(-a)``."""
    left = list(products)
    for i, p in enumerate(left):
        for j, q in enumerate(left):
            if p is None or q is None or p is q or p.constant != -q.constant:
                continue
            if _counted(p.above) != _counted(q.above) or _counted(p.below) != _counted(q.below):
                continue
            ratio = together(q.factors + [f._replace(power=-f.power) for f in p.factors])
            if len(ratio) == 1 and ratio[0].function == sigmoid and ratio[0].power == 1:
                p.factors.append(ratio[0]._replace(argument=-ratio[0].argument))
                left[j] = None
    return [p for p in left if p is not None]


def _counted(variables):
    count = {}
    for v in variables:
        count[v] = count.get(v, 0) + 1
    return count


def _brought_into(v, outer, known, dtype, limits):
    """`v` times `outer`, a list of Factor, with the factors in the terms of the sum that v is; None where that cancels nothing."""
    linear, views = [], []
    while v.owner is not None and limits.sums and len(linear) < 8:
        adjoint = _adjoint(v.owner)
        if adjoint is None:
            break
        position, view = adjoint
        linear.append(Linear(v.owner, position))
        v = v.owner.inputs[position]
        views.append(view)
    for view in views:
        outer = [f._replace(argument=f.argument.seen_through(view)) for f in outer]
        known = []
    terms = _terms_of(v, bool(outer)) if v.dtype == dtype else None
    if terms is None or not limits.spend(len(terms)):
        return None
    products = []
    for term, sign in terms:
        product = _read_product(term, dtype)
        if not outer and _is_softmax(product):
            return None
        product.constant *= sign
        products.append(product)
    made = []
    if not outer and not any(product.factors for product in products):
        return None
    merged = _with_complements(products)
    gained = len(merged) < len(products)
    limits.sums -= 1
    for product in merged:
        product.factors += outer
        cancelled, new = _cancelled(product, known, dtype, limits)
        gained = gained or cancelled
        made.append(new)
    limits.sums += 1
    if not gained:
        return None
    new = made[0] if len(made) == 1 else T.add(*made)
    if new.type != v.type:
        new = with_type(new, v)
        if new is None:
            return None
    for node, position in reversed(linear):
        inputs = list(node.inputs)
        inputs[position] = new
        new = node.op(*inputs)
    return new


def _cancelled(product, known, dtype, limits):
    """A product without the divisions by saturating functions that its factors or those of its sums undo.

    Parameters
    ----------
    product : _Product
    known : list of (Factor, Variable)
    dtype : str
        Of the product.
    limits : _Limits

    Returns
    -------
    bool
        Whether anything was cancelled.
    Variable
    """
    combined, gain = _put_together(product.factors, dtype)
    gained = gain > 0
    if limits.sums and any(f.power > 0 for f in combined):
        for i, v in enumerate(product.above):
            if (
                v.owner is None
                or v.dtype != dtype
                or v.owner.op not in _MAY_HAVE_TERMS
                and not isinstance(v.owner.op, _LINEAR)
            ):
                continue
            outer = [f for f in combined if f.power > 0 and f.argument.broadcastable == v.broadcastable]
            new = _brought_into(v, outer, known, dtype, limits) if outer else None
            if new is not None:
                product.above[i] = new
                combined = [c for c in combined if c not in outer]
                gained = True
                break
    return gained, _built(product, combined, known, dtype)


_SUMS = {T.add: None, T.sub: None}
_MAY_HAVE_TERMS = {**_OPENED, **_SUMS}
_LINEAR = (DimShuffle, Sum, Reshape, IncSubtensor, AdvancedIncSubtensor1, AdvancedIncSubtensor)


@ignores_nonfinite
@local_optimizer(list(_MAY_HAVE_TERMS))
def local_cancel_saturated(node):
    """A derivative without division by a sigmoid, exponential or erfc that its other factors undo.

    x / sigmoid(y) * sigmoid(y) * (1 - sigmoid(y))  ->  x * (1 - sigmoid(y))          [fast_run, fast_compile]
    (x / sigmoid(y) - y / (1 - sigmoid(y))) * sigmoid(y) * (1 - sigmoid(y))  ->  x * (1 - sigmoid(y)) + -(y * sigmoid(y))
    exp(x) / (1 + exp(x))  ->  sigmoid(x)
    exp(-x ** 2) / erfc(x)  ->  1 / erfcx(x)

    Also where a transpose, a reshape or the derivative of an index is between the factors.
    """
    out = node.outputs[0]
    if out.dtype not in FLOATS:
        return False
    is_sum = node.op in _SUMS
    if len(out.clients) == 1 and out.clients[0][0] != "output":
        client = out.clients[0][0]
        if client.op in (_SUMS if is_sum else _OPENED):
            # The larger product, or sum, has all factors, or terms, of this one.
            return False
    if is_sum:
        new = _brought_into(out, [], [], out.dtype, _Limits())
        return False if new is None else answer(new, out)
    product = _read_product(out, out.dtype)
    if not product.factors or _is_softmax(product):
        return False
    cancelled, new = _cancelled(product, product.known, out.dtype, _Limits())
    return answer(new, out) if cancelled else False


def _is_softmax(product):
    """Whether the factors of a product are exponentials and sums, for which there are rules of their own."""
    return all(f.function == T.exp for f in product.factors) and any(
        _is_reduced(v) for v in product.above + product.below
    )


def _is_reduced(v):
    while v.owner is not None and isinstance(v.owner.op, DimShuffle):
        v = v.owner.inputs[0]
    return v.owner is not None and isinstance(v.owner.op, Sum)


class SaturationOptimizer(TopoOptimizer):
    """Apply rules to logarithms, and to what quotients by saturating functions go into by products, sums and linear views."""

    def __init__(self, *rules):
        group = ignores_nonfinite(LocalOptGroup(*rules))
        super().__init__(group, order="out_to_in", failure_callback=TopoOptimizer.warn_inplace)
        self.__name__ = "saturation"

    def apply(self, fgraph):
        nodes, quotients = {}, []
        for node in fgraph.apply_nodes:
            if node.op in _LOGARITHMS:
                nodes[node] = None
            elif node.op in _QUOTIENTS and _divides_by_saturated(node):
                nodes[node] = None
                quotients.append(node)
        while quotients:
            for client, _ in quotients.pop().outputs[0].clients:
                if client != "output" and client not in nodes:
                    if client.op in _MAY_HAVE_TERMS or isinstance(client.op, _LINEAR):
                        nodes[client] = None
                        quotients.append(client)
        if nodes:
            return self.apply_to(fgraph, [node for node in fgraph.toposort() if node in nodes])


_LOGARITHMS = {T.log: None, T.log1p: None}
_QUOTIENTS = {T.true_div: None, T.inv: None, T.pow: None}


def _divides_by_saturated(node):
    (out,) = node.outputs
    if node.op == T.pow:
        read = factors_of(out)
        return read is not None and any(f.power < 0 or f.function == sigmoid for f in read.factors)
    return out.dtype in FLOATS and bool(_read_product(node.inputs[-1], out.dtype).factors)


optdb.register(
    "saturation",
    SaturationOptimizer(local_log_of_saturated, local_cancel_saturated),
    0.7,
    "fast_run",
    "fast_compile",
    own=True,
)
