"""Logarithms of what is positive by construction: exponentials, their sums, products and quotients, and views of these.

What they are made of may overflow, or be rounded to 0; their logarithms are neither. `log_of` says what the logarithm of a variable is
without the variable itself; the rules use it.
"""

from functools import reduce

import numpy as np

from theano_ng import scalar
from theano_ng.compile.mode import optdb
from theano_ng.gof.rewriting import in2out, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.cancel import is_term_of, shuffled_from, summed_along
from theano_ng.tensor.dtypes import FLOATS
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.indexing.advanced import AdvancedSubtensor, AdvancedSubtensor1
from theano_ng.tensor.indexing.subtensor import Subtensor
from theano_ng.tensor.opt.common import answer, constant_value, inputs_of
from theano_ng.tensor.opt.own_registration import ignores_nonfinite, register_specialize, register_stabilize
from theano_ng.tensor.reductions.careduce import CAReduce, Sum
from theano_ng.tensor.reductions.extremes import MaxAndArgmax
from theano_ng.tensor.shaping.joining import Join
from theano_ng.tensor.shaping.reshaping import Reshape

MOST_NODES = 50
"""How many nodes of an argument are looked at."""

log_of_op = {}
"""Op -> function of a node that returns the logarithm of its output. Other packages add theirs."""


def log_of(v):
    """The logarithm of a variable that is positive by construction, not computed from it.

    Parameters
    ----------
    v : tensor of floats

    Returns
    -------
    variable or None
        None for other variables.
    """
    known = {}
    stack = [v]
    looks = 0
    while stack:
        u = stack[-1]
        if u in known:
            stack.pop()
            continue
        looks += 1
        if looks > 2 * MOST_NODES:
            return None
        parts = _parts(u)
        if parts is None:
            return None
        unknown = [p for p in parts if p not in known]
        if unknown:
            stack.extend(unknown)
            continue
        made = _combined(u, [known[p] for p in parts], v.type.dtype)
        if made.type != u.type and parts:
            made = u.type.filter_variable(made) if made.type.dtype == u.type.dtype and made.ndim == u.ndim else None
        if made is None:
            return None
        known[u] = made
        stack.pop()
    return known[v]


_VIEWS = (DimShuffle, Reshape, Subtensor, AdvancedSubtensor, AdvancedSubtensor1, T.Rebroadcast)
_FACTORS = (T.mul, T.true_div, T.inv)
_ROOTS = (T.exp, T.add, *_FACTORS)


def _parts(v):
    """The variables of which the logarithms are needed for that of `v`; None where `v` is not known to be positive."""
    value = constant_value(v)
    if value is not None:
        return () if value.dtype.kind in "biuf" and value > 0 else None
    node = v.owner
    if node is None or v.type.dtype not in FLOATS:
        return None
    op = node.op
    if op == T.exp:
        return () if node.inputs[0].type.dtype == v.type.dtype else None
    if op in log_of_op:
        return ()
    if op == T.add:
        # A constant is not small by accident, and log1p knows better.
        return None if any(constant_value(i) is not None for i in node.inputs) else node.inputs
    if op in _FACTORS:
        return node.inputs
    if op == T.second:
        return (node.inputs[1],)
    if op == T.tensor_copy or isinstance(op, (Sum, *_VIEWS)):
        return (node.inputs[0],)
    if isinstance(op, Join):
        return node.inputs[1:]
    return None


def _combined(v, logs, dtype):
    """The logarithm of `v` from those of its `_parts`."""
    value = constant_value(v)
    if value is not None:
        return T.second(v, T.constant(np.log(value), dtype=dtype))
    node = v.owner
    op = node.op
    if op == T.exp:
        return node.inputs[0]
    if op in log_of_op:
        return log_of_op[op](node)
    if isinstance(op, Sum):
        return T.log(v) if _is_shifted(logs[0], _axes(op, logs[0])) else log_sum_exp(logs[0], _axes(op, logs[0]))
    if op == T.add:
        return _log_add_exp(logs)
    if op == T.mul:
        return T.add(*logs)
    if op == T.true_div:
        return T.sub(*logs)
    if op == T.inv:
        return T.neg(*logs)
    if op == T.second:
        return T.second(node.inputs[0], logs[0])
    if op == T.tensor_copy:
        return logs[0]
    return op(node.inputs[0], *logs) if isinstance(op, Join) else op(logs[0], *node.inputs[1:])


def _axes(op, x):
    return tuple(range(x.ndim)) if op.axis is None else tuple(op.axis)


def _is_shifted(x, axis):
    """Whether `x` is y - max(y, axis, keepdims): nothing overflows in its exponential."""
    y, largest = inputs_of(x, T.sub) or (None, None)
    if largest is None or largest.owner is None or not isinstance(largest.owner.op, DimShuffle):
        return False
    largest = largest.owner.inputs[0]
    reduction = largest.owner
    if reduction is None or reduction.inputs[0] is not y or largest is not reduction.outputs[0]:
        return False
    op = reduction.op
    is_maximum = isinstance(op, MaxAndArgmax) or isinstance(op, CAReduce) and isinstance(op.scalar_op, scalar.Maximum)
    return is_maximum and set(_axes(op, y)) == set(axis)


def log_sum_exp(x, axis):
    """``log(sum(exp(x), axis))`` without overflow."""
    max_x = T.max(x, axis=axis)
    max_x_keepdims = T.makeKeepDims(x, max_x, axis)
    # Where the maximum is infinite, x - max is NaN: there the result is the maximum itself.
    shifted = T.switch(T.isinf(max_x_keepdims), T.exp(max_x_keepdims), T.exp(x - max_x_keepdims))
    return max_x + T.log(T.sum(shifted, axis=axis))


def _log_add_exp(terms):
    """``log(exp(x) + exp(y) + ...)`` without overflow."""
    if len(terms) == 2:
        x, y = terms
        return T.maximum(x, y) + T.log1p(T.exp(-abs(x - y)))
    largest = reduce(T.maximum, terms)
    return largest + T.log(T.add(*[T.switch(T.isinf(largest), T.exp(largest), T.exp(x - largest)) for x in terms]))


# -- rules -------------------------------------------------------------------------------------------------------------------------------


def _behind_views(v):
    """The variable that `v` is a view of, or parts of."""
    while v.owner is not None and (v.owner.op == T.tensor_copy or isinstance(v.owner.op, _VIEWS)):
        v = v.owner.inputs[0]
    return v


@register_stabilize("fast_compile")
@register_specialize("fast_compile")
@ignores_nonfinite
@local_optimizer([T.log])
def local_log_of_positive(node):
    """Logarithms of products, quotients and views of exponentials and of softmaxes, which may be rounded to 0.

    log((exp(A) / exp(B)).T)  ->  (A - B).T          [stabilize, specialize, fast_run, fast_compile]
    log(softmax_op(A)[labels])  ->  logsoftmax_op(A)[labels]
    log(exp(x) + exp(y) + exp(z))
    """
    (v,) = node.inputs
    source = _behind_views(v)
    if source.owner is None or isinstance(source.owner.op, Sum) or v.type != node.outputs[0].type:
        return False
    op = source.owner.op
    if op not in _ROOTS and not isinstance(op, Join) and (op not in log_of_op or source is v):
        return False
    new = log_of(v)
    return False if new is None else answer(new, node.outputs[0])


@ignores_nonfinite
@local_optimizer([T.log])
def local_log_sum_exp(node):
    """The logarithm of a sum of exponentials, without overflow.

    log(sum(exp(A), axis=1))  ->
        max(A, axis=1) + log(sum(switch(isinf(max(A, axis=1).dimshuffle(0, 'x')), exp(max(A, axis=1).dimshuffle(0, 'x')),
                                        exp(A - max(A, axis=1).dimshuffle(0, 'x'))), axis=1))          [fast_run, fast_compile]

    Also through views, and where other factors whose logarithms are known are summed. Not where x is y - max(y, axis, keepdims) already.
    """
    (v,) = node.inputs
    source = _behind_views(v)
    if source.owner is None or not isinstance(source.owner.op, Sum):
        return False
    (summed,) = source.owner.inputs
    logs = log_of(summed)
    axis = _axes(source.owner.op, summed)
    if logs is None or not axis or _is_shifted(logs, axis):
        return False
    new = log_of(v)
    return False if new is None else answer(new, node.outputs[0])


optdb.register(
    "local_log_sum_exp", in2out(local_log_sum_exp, ignore_newtrees=True), 1.6, "fast_run", "fast_compile", own=True
)


@register_stabilize("fast_compile")
@register_specialize("fast_compile")
@ignores_nonfinite
@local_optimizer([T.true_div])
def local_share_of_sum(node):
    """One of several exponentials divided by their sum, without overflow.

    exp(x) / (exp(x) + exp(y))  ->  exp(x - (maximum(x, y) + log1p(exp(-abs(x - y)))))          [stabilize, specialize, fast_run, fast_compile]
    exp(x) / sum(exp(x), axis=0, keepdims=True)  ->
        exp(x - max(x, axis=0, keepdims=True)) / sum(exp(x - max(x, axis=0, keepdims=True)), axis=0, keepdims=True)
    """
    above, below = node.inputs
    if node.outputs[0].type.dtype not in FLOATS:
        return False
    divisors = _factors(below)
    if not any(_is_sum(divisor) for divisor in divisors):
        return False
    factors = _factors(above)
    shares = []
    for divisor in [d for d in divisors if _is_sum(d)]:
        for factor in factors:
            share = _share(factor, divisor)
            if share is not None:
                shares.append(share)
                factors.remove(factor)
                divisors.remove(divisor)
                break
    if not shares:
        return False
    new = T.mul(*shares, *factors) if len(shares) + len(factors) > 1 else shares[0]
    if divisors:
        new = new / (T.mul(*divisors) if len(divisors) > 1 else divisors[0])
    return answer(new, node.outputs[0])


def _is_sum(v):
    total, _ = shuffled_from(v)
    return total.owner is not None and (total.owner.op == T.add or isinstance(total.owner.op, Sum))


def _factors(v):
    """The factors of a product, through products that are its factors and changes of sign."""
    found, todo = [], [v]
    while todo:
        v = todo.pop()
        if v.owner is None or len(found) > MOST_NODES or v.owner.op not in (T.mul, T.neg):
            found.append(v)
        else:
            todo += v.owner.inputs
            if v.owner.op == T.neg:
                found.append(T.constant(-1, dtype=v.type.dtype))
    return found


def _share(v, total):
    """``v / total`` without overflow where v is one of the terms of total, all of them positive; else None."""
    if v.type.dtype not in FLOATS:
        return None
    axes = summed_along(v, total)
    exponent = inputs_of(v, T.exp)
    if axes is not None and exponent is not None and exponent[0].type == v.type:
        (x,) = exponent
        if _is_shifted(x, axes):
            return None
        e = T.exp(x - T.max(x, axis=list(axes), keepdims=True))
        return e / e.sum(axis=list(axes), keepdims=True)
    if v.type.ndim != total.type.ndim or not is_term_of(v, total):
        return None
    log_v, log_total = log_of(v), log_of(total)
    return None if log_v is None or log_total is None else T.exp(log_v - log_total)
