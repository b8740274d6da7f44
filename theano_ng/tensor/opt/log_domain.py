"""Rules that compute logarithms of positive expressions, and quotients by sums of exponentials, without overflow."""

from functools import reduce

import numpy as np

from theano_ng import scalar
from theano_ng.compile.mode import optdb
from theano_ng.gof.rewriting import in2out, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.dtypes import FLOATS
from theano_ng.tensor.equality import equal_expressions, is_term_of, shuffled_from, summed_along
from theano_ng.tensor.logarithms import axes_of, is_log_of_erfc, is_shifted, log_of, log_of_factors, log_of_op, terms_of
from theano_ng.tensor.opt.common import in_dtype, inputs_of, op_of, rule_result
from theano_ng.tensor.opt.registration import ignores_nonfinite, register_specialize, register_stabilize
from theano_ng.tensor.reductions.careduce import CAReduce, Sum
from theano_ng.tensor.saturating import VIEWS, factors_of, logistic
from theano_ng.tensor.type import values_eq_approx

MAX_NODES = 50
"""The maximum number of factors of a product that are examined."""


def _behind_views(v):
    """Return the variable to which views (`VIEWS`) and copies were applied to compute `v`."""
    while v.owner is not None and (v.owner.op == T.tensor_copy or isinstance(v.owner.op, VIEWS)):
        v = v.owner.inputs[0]
    return v


@register_stabilize
@register_specialize
@ignores_nonfinite
@local_optimizer([T.log, T.log1p])
def local_log_of_positive(node):
    """Rewrite a logarithm whose argument may overflow or be rounded to 0.

    The argument is a product, a quotient or a view of exponentials, sigmoids, softmaxes or erfc.

    log((exp(A) / exp(B)).T)  ->  (A - B).T          [stabilize, specialize, fast_run, fast_compile]
    log(softmax_op(A)[labels])  ->  logsoftmax_op(A)[labels]
    log(sigmoid(x))  ->  -softplus(-x)
    log(1 - sigmoid(A).T)  ->  -softplus(A.T)
    log1p(tanh(x))  ->  0.6931471805599453 + -softplus(-2.0 * x)
    log(1 - tanh(x))  ->  0.6931471805599453 + -softplus(2.0 * x)
    log(1 + erf(x))  ->  switch(lt(-x, 26), log(erfc(-x)), log(erfcx(-x)) - sqr(-x))

    The rule also applies to ``log(exp(x) + exp(y) + exp(z))``.
    """
    (v,), (out,) = node.inputs, node.outputs
    if v.type != out.type or is_log_of_erfc(out):
        return False
    if node.op == T.log1p:
        found = None if inputs_of(v, T.exp) is not None else factors_of(T.add(np.asarray(1, v.dtype), v))
        new = None if found is None else log_of_factors(found, v)
    else:
        source = _behind_views(v)
        if source.owner is None or isinstance(source.owner.op, Sum) or source is v and source.owner.op in log_of_op:
            return False
        new = log_of(v)
    new = False if new is None else rule_result(new, out)
    if new:
        new[0].tag.values_eq_approx = loses_less
    return new


def loses_less(a, b):
    """Return True if the value `b` may replace the logarithm `a`, whose argument may be ``1 - sigmoid(x)``.

    ``1 - sigmoid(x)`` has an absolute error of eps, so its logarithm `a` has an error of ``eps * exp(-a)``. Near x = 36
    in float64, `a` has no correct digit, and may be infinite. The replacement `b` is accurate.
    """
    if a.shape != b.shape:
        return False
    with np.errstate(all="ignore"):
        lost = 8 * np.finfo(a.dtype).eps * np.exp(-a)
        same = np.where(np.isfinite(lost) & (np.abs(a - b) <= lost), b, a)
    return values_eq_approx(same, b, allow_remove_inf=True)


optdb.register("logarithms", in2out(local_log_of_positive, ignore_newtrees=True), 0.7, "fast_run", "fast_compile")


@ignores_nonfinite
@local_optimizer([T.log])
def local_log_sum_exp(node):
    """Compute the logarithm of a sum of exponentials without overflow.

    log(sum(exp(A), axis=1))  ->
        (lambda m: m + log(sum(switch(isinf(m.dimshuffle(0, 'x')), exp(m.dimshuffle(0, 'x')), exp(A - m.dimshuffle(0, 'x'))),
                               axis=1)))(CAReduce(scalar.maximum_from_nothing, [1])(A))          [fast_run, fast_compile]

    The rule also applies if the logarithm is taken of a view of the sum, or if the summed expression is not an
    exponential but its logarithm is known. The rule does not apply if A is already ``y - max(y, axis, keepdims)``.
    """
    (v,) = node.inputs
    source = _behind_views(v)
    if source.owner is None or not isinstance(source.owner.op, Sum):
        return False
    (summed,) = source.owner.inputs
    logs = log_of(summed)
    axis = axes_of(source.owner.op, summed)
    if logs is None or not axis or is_shifted(logs, axis):
        return False
    new = log_of(v)
    return False if new is None else rule_result(new, node.outputs[0])


optdb.register("local_log_sum_exp", in2out(local_log_sum_exp, ignore_newtrees=True), 1.6, "fast_run", "fast_compile")


@register_stabilize
@register_specialize
@ignores_nonfinite
@local_optimizer([T.true_div])
def local_share_of_sum(node):
    """Divide an exponential by a sum that contains it, without overflow.

    exp(x) / (exp(x) + exp(y))  ->  1 / (1 + exp(-(x - y)))          [stabilize, specialize, fast_run, fast_compile]
    exp(x) / sum(exp(x), axis=0, keepdims=True)  ->
        (lambda e: e / sum(e, axis=0, keepdims=True))(exp(x - CAReduce(scalar.maximum_from_nothing, [0])(x).dimshuffle('x')))
    """
    above, below = node.inputs
    if node.outputs[0].type.dtype not in FLOATS:
        return False
    dtype = node.outputs[0].type.dtype
    divisors = _factors(below, dtype)
    if not any(_is_sum(divisor) for divisor in divisors):
        return False
    factors = _factors(above, dtype)
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
    new = in_dtype(T.mul, shares + factors, dtype) if len(shares) + len(factors) > 1 else shares[0]
    if divisors:
        new = new / (in_dtype(T.mul, divisors, dtype) if len(divisors) > 1 else divisors[0])
    return rule_result(new, node.outputs[0])


# Register the rule separately for the mode FAST_COMPILE, which has no phase `stabilize`.
optdb.register("shares", in2out(local_share_of_sum, ignore_newtrees=True), 0.71, "fast_compile")


def _is_sum(v):
    total, _ = shuffled_from(v)
    return total.owner is not None and (total.owner.op == T.add or isinstance(total.owner.op, Sum))


def _factors(v, dtype):
    """Return the factors of a product in `dtype`. Nested products and negations are expanded.

    A product in another dtype may wrap around, so it counts as one factor.
    """
    found, todo = [], [v]
    while todo:
        v = todo.pop()
        if v.owner is None or len(found) > MAX_NODES or v.type.dtype != dtype or v.owner.op not in (T.mul, T.neg):
            found.append(v)
        else:
            todo += v.owner.inputs
            if v.owner.op == T.neg:
                found.append(T.constant(-1, dtype=v.type.dtype))
    return found


def _share(v, total):
    """Return ``v / total``, computed without overflow, if `v` is a term of `total` and all terms are positive.

    Return None for other variables.
    """
    if v.type.dtype not in FLOATS:
        return None
    axes = summed_along(v, total)
    if axes is not None:
        x = log_of(v)
        if x is None or is_shifted(x, axes):
            return None
        largest = CAReduce(scalar.maximum_from_nothing, axes)(x)
        e = T.exp(x - T.makeKeepDims(x, largest, axes))
        return e / e.sum(axis=list(axes), keepdims=True)
    if v.type.ndim != total.type.ndim or not is_term_of(v, total):
        return None
    terms = terms_of(total)
    # Sort the terms so that the first logarithm is the logarithm of `v`.
    logs = [log_of(term) for term in sorted(terms, key=lambda term: not equal_expressions(term, v))]
    if any(log is None for log in logs):
        return None
    if len(logs) == 2:
        return logistic(logs[0] - logs[1])
    if all(inputs_of(log, T.sub) is not None for log in logs):
        subtracted = {log.owner.inputs[1] for log in logs}
        if len(subtracted) == 1 and op_of(subtracted.pop()) == T.maximum:
            return None  # The user has subtracted the maximum already, so nothing overflows.
    largest = reduce(T.maximum, logs)
    parts = [T.exp(log - largest) for log in logs]
    return parts[0] / T.add(*parts)
