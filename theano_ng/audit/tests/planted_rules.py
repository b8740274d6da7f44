"""Wrong rewriting rules. The decorator of each rule lists the kinds of difference by which the oracle can find it."""

import numpy as np

import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.indexing.subtensor import Subtensor
from theano_ng.tensor.opt.common import computes, constant_value, inputs_of, rule_result
from theano_ng.tensor.reductions.careduce import Sum
from theano_ng.tensor.shaping.reshaping import Reshape

PLANTED = []


def planted(*kinds, tracks, when=None):
    """Return a decorator for a wrong rule. The oracle must find at least one of the given kinds of difference."""

    def decorator(function):
        PLANTED.append((local_optimizer(tracks, when=when)(function), kinds))
        return PLANTED[-1][0]

    return decorator


def _replaced(node, new):
    return rule_result(new, node.outputs[0])


@planted("rounding", tracks=[T.true_div])
def cancels_all_equal_factors(node):
    """Divide a product by one of its factors, and wrongly remove all factors that equal it.

    (x * y) / y  ->  x
    """
    factors = inputs_of(node.inputs[0], T.mul)
    if factors is None or node.inputs[1] not in factors or node.outputs[0].dtype[0] != "f":
        return False
    rest = [f for f in factors if f is not node.inputs[1]] or [T.constant(np.ones((), node.outputs[0].dtype))]
    return _replaced(node, rest[0] if len(rest) == 1 else T.mul(*rest))


@planted("rounding", tracks=[T.true_div])
def drops_multiplicity(node):
    """Divide x by a product of any number of factors abs(x), as if there were one factor.

    x / abs(x)  ->  sgn(x)
    """
    x, below = node.inputs
    factors = inputs_of(below, T.mul) or [below]
    if x.dtype[0] != "f" or not all(
        f.owner is not None and f.owner.op == T.abs_ and f.owner.inputs[0] is x for f in factors
    ):
        return False
    return _replaced(node, T.sgn(x))


@planted("value", tracks=[T.mul])
def rounds_integers(node):
    """Replace a product of an integer and one by casts to float32 and back, which round large integers.

    k * 1  ->  cast(cast(k, 'float32'), 'int8')
    """
    x, one = node.inputs[:2]
    if node.outputs[0].dtype[0] not in "iu" or constant_value(one) != 1:
        return False
    return _replaced(node, T.cast(T.cast(x, "float32"), node.outputs[0].dtype))


@planted("nan", tracks=[T.maximum])
def loses_nan(node):
    """Compute a maximum by a comparison, which is false if x is NaN.

    maximum(x, y)  ->  switch(x > y, x, y)
    """
    x, y = node.inputs
    return _replaced(node, T.switch(T.gt(x, y), x, y))


@planted("sign of zero", tracks=[T.add])
def loses_the_sign_of_zero(node):
    """Remove the addition of zero.

    x + 0  ->  x
    """
    x, zero = node.inputs[:2]
    return _replaced(node, x) if len(node.inputs) == 2 and constant_value(zero) == 0 else False


@planted("wraparound", tracks=[Elemwise])
def computes_in_another_dtype(node):
    """Cast the terms of a sum instead of the sum, which wraps around before the cast.

    cast(k + k, 'int64')  ->  cast(k, 'int64') + cast(k, 'int64')
    """
    terms = inputs_of(node.inputs[0], T.add)
    if not isinstance(node.op.scalar_op, scalar.Cast) or terms is None:
        return False
    return _replaced(node, T.add(*[T.cast(t, node.outputs[0].dtype) for t in terms]))


@planted("wraparound", tracks=[T.log])
def forgets_that_sums_wrap_around(node):
    """Take the logarithm of a sum of integers as if the sum could not wrap around.

    log(1 + k)  ->  log1p(k)
    """
    one, *others = inputs_of(node.inputs[0], T.add) or [None]
    if len(others) != 1 or constant_value(one) != 1:
        return False
    return _replaced(node, T.log1p(others[0]))


@planted("shape", tracks=[T.second])
def forgets_to_broadcast(node):
    """Remove a fill, and with it the shape of its result.

    fill(A, row)  ->  patternbroadcast(row, (False, False))
    """
    x, y = node.inputs
    return _replaced(node, T.patternbroadcast(y, node.outputs[0].broadcastable)) if x.ndim == y.ndim else False


@planted("new error", tracks=[Sum])
def fails_without_elements(node):
    """Replace a sum of at most one element by that element, although it may not exist.

    sum(x[0:1])  ->  x[0]
    """
    index = node.inputs[0].owner
    if index is None or not isinstance(index.op, Subtensor) or node.inputs[0].ndim != 1:
        return False
    if [constant_value(v) for v in index.inputs[1:]] != [0, 1]:
        return False
    return _replaced(node, index.inputs[0][0])


@planted("rounding", tracks=[T.neg])
def ignores_clients(node):
    """Replace a negated difference, and also the difference itself. Other clients of the difference get the wrong sign.

    -(x - y)  ->  y - x
    """
    operands = inputs_of(node.inputs[0], T.sub)
    if operands is None or node.outputs[0].dtype[0] != "f":
        return False
    new = copy_stack_trace(node.outputs[0], T.sub(operands[1], operands[0]))
    return {node.outputs[0]: new, node.inputs[0]: new}


@planted("endless", tracks=[T.add])
def swaps_for_ever(node):
    """Exchange the operands of a sum. The rule also applies to its own result, so rewriting never ends.

    x + y  ->  y + x
    """
    return _replaced(node, T.add(*node.inputs[::-1]))


@planted("value", tracks=[Elemwise])
def negates_unsigned_numbers(node):
    """Negate after a cast instead of before. An unsigned number wraps around only if it is negated before the cast.

    cast(-k, 'int64')  ->  -cast(k, 'int64')
    """
    inner = inputs_of(node.inputs[0], T.neg)
    if not isinstance(node.op.scalar_op, scalar.Cast) or inner is None:
        return False
    return _replaced(node, T.neg(T.cast(inner[0], node.outputs[0].dtype)))


@planted("value", tracks=[T.mul])
def forgets_the_remainder(node):
    """Multiply a rounded quotient by its divisor.

    (k // 2) * 2  ->  k
    """
    quotient = inputs_of(node.inputs[0], T.int_div)
    if (
        quotient is None
        or constant_value(node.inputs[1]) is None
        or constant_value(node.inputs[1]) != constant_value(quotient[1])
    ):
        return False
    return _replaced(node, quotient[0])


@planted("value", "rounding", tracks=[T.sub])
def swaps_operands(node):
    """Remove the signs of both operands of a difference, but do not swap the operands.

    -x - -y  ->  x - y
    """
    inner = [inputs_of(i, T.neg) for i in node.inputs]
    return _replaced(node, T.sub(inner[0][0], inner[1][0])) if None not in inner else False


@planted("shape", tracks=[Subtensor])
def is_off_by_one(node):
    """Merge two slices, but let the merged slice start one element too late.

    x[1:][1:]  ->  x[3:]
    """
    inner = node.inputs[0].owner
    if inner is None or not isinstance(inner.op, Subtensor) or node.op.idx_list != inner.op.idx_list:
        return False
    if len(node.op.idx_list) != 1 or not isinstance(node.op.idx_list[0], slice) or node.op.idx_list[0].step is not None:
        return False
    starts = [constant_value(v) for n in (node, inner) for v in n.inputs[1:]]
    if len(starts) != 2 or node.op.idx_list[0].stop is not None or not all(s is not None and s >= 0 for s in starts):
        return False
    return _replaced(node, inner.inputs[0][int(sum(starts)) + 1 :])


@planted("shape", "rounding", tracks=[Sum])
def sums_along_another_axis(node):
    """Remove a transpose before a sum, but do not change the axis of the sum.

    sum(A.T, axis=0)  ->  sum(A, axis=0)
    """
    inner = node.inputs[0].owner
    if node.op.axis != (0,) or inner is None or getattr(inner.op, "new_order", None) != (1, 0):
        return False
    return _replaced(node, T.sum(inner.inputs[0], axis=0))


@planted("rounding", tracks=[T.sqrt])
def forgets_a_condition(node):
    """Remove the root of a square, also for negative x.

    sqrt(sqr(x))  ->  x
    """
    inner = inputs_of(node.inputs[0], T.sqr)
    return _replaced(node, inner[0]) if inner is not None and inner[0].dtype == node.outputs[0].dtype else False


@planted("value", tracks=[T.int_div])
def forgets_overflow(node):
    """Divide an integer product by one of its factors.

    (k * 2) // 2  ->  k
    """
    factors = inputs_of(node.inputs[0], T.mul)
    if factors is None or len(factors) != 2 or constant_value(node.inputs[1]) != 2 or constant_value(factors[1]) != 2:
        return False
    return _replaced(node, factors[0])


@planted("new nan", tracks=[T.log])
def forgets_a_sign(node):
    """Take the logarithms of factors instead of the logarithm of the product.

    log(x * y)  ->  log(x) + log(y)
    """
    factors = inputs_of(node.inputs[0], T.mul)
    return _replaced(node, T.add(*[T.log(f) for f in factors])) if factors is not None else False


@planted("trace", tracks=[T.exp])
def loses_the_stack_trace(node):
    """Replace a product of x and zero by zeros, without a stack trace for the new exponential.

    exp(x * 0)  ->  exp(zeros_like(x))
    """
    factors = inputs_of(node.inputs[0], T.mul)
    if factors is None or constant_value(factors[1]) != 0:
        return False
    new = T.exp(T.zeros_like(factors[0]))
    new.tag.trace = []
    return [new] if new.type == node.outputs[0].type else False


@planted("value", "nan", tracks=[T.lt])
def steps_over_the_largest_integer(node):
    """Decide that k is less than k + 1, although the largest integer plus 1 wraps around.

    lt(k, k + 1)  ->  ones_like(k)
    """
    terms = inputs_of(node.inputs[1], T.add)
    if (
        terms is None
        or terms[0] is not node.inputs[0]
        or constant_value(terms[1]) != 1
        or node.inputs[0].dtype[0] not in "iu"
    ):
        return False
    return _replaced(node, T.fill(node.inputs[0], np.array(True)))


@planted("value", "rounding", tracks=[Elemwise])
def forgets_that_a_cast_rounds(node):
    """Remove two casts, of which the first loses digits.

    cast(cast(x, 'int8'), 'float64')  ->  x
    """
    inner = node.inputs[0].owner
    if not isinstance(node.op.scalar_op, scalar.Cast) or inner is None or not isinstance(inner.op, Elemwise):
        return False
    if not isinstance(inner.op.scalar_op, scalar.Cast) or inner.inputs[0].dtype != node.outputs[0].dtype:
        return False
    return _replaced(node, inner.inputs[0])


@planted("crash", tracks=[T.sqr])
def raises_for_other_ranks(node):
    """Compute a square as a product. The rule raises an error if the input is not a vector.

    sqr(x)  ->  x * x
    """
    (length,) = node.inputs[0].broadcastable
    return _replaced(node, T.mul(node.inputs[0], node.inputs[0])) if not length else False


@planted("rounding", tracks=[Reshape])
def mixes_up_elements(node):
    """Reshape without the transpose.

    A.T.reshape((9,))  ->  A.reshape((9,))
    """
    inner = node.inputs[0].owner
    if inner is None or getattr(inner.op, "new_order", None) != (1, 0):
        return False
    new = copy_stack_trace(node.outputs[0], node.op(inner.inputs[0], node.inputs[1]))
    return [new]


@planted("cancellation", "rounding", tracks=[T.log1p])
def loses_digits(node):
    """Compute log1p by log.

    log1p(x)  ->  log(1 + x)
    """
    return _replaced(node, T.log(np.array(1, node.inputs[0].dtype) + node.inputs[0]))


@planted("rounding", tracks=[T.sqr])
def is_off_after_a_loop(node):
    """Change a result after a loop by more than the rounding errors of all steps.

    sqr(scan(lambda row, h: h * exp(row) + row, A, v)[0])  ->  (1 + 1e-9) * w * w
    """
    (w,) = node.inputs
    if w.dtype != "float64" or w.ndim != 2:
        return False
    return _replaced(node, T.mul(np.array([[1 + 1e-9]]), w, w))


@planted("rounding", tracks=[Elemwise], when=computes(scalar.Cosh, scalar.ArcCosh))
def forgets_that_a_function_is_even(node):
    """Cancel `cosh` and `arccosh` in either order, although only the order of the example is correct.

    cosh(arccosh(1 + x))  ->  1 + x
    """
    inner = node.inputs[0].owner
    if inner is None or not isinstance(inner.op, Elemwise) or type(inner.op.scalar_op) is type(node.op.scalar_op):
        return False
    if not isinstance(inner.op.scalar_op, (scalar.Cosh, scalar.ArcCosh)) or inner.inputs[0].dtype[0] == "c":
        return False
    return _replaced(node, inner.inputs[0])


@planted("rounding", tracks=[Elemwise], when=computes(scalar.Sinh, scalar.ArcSinh))
def forgets_complex_numbers(node):
    """Cancel two functions that are inverse to each other only for real numbers.

    sinh(arcsinh(x))  ->  x
    """
    inner = node.inputs[0].owner
    if inner is None or not isinstance(inner.op, Elemwise) or type(inner.op.scalar_op) is type(node.op.scalar_op):
        return False
    return _replaced(node, inner.inputs[0]) if isinstance(inner.op.scalar_op, (scalar.Sinh, scalar.ArcSinh)) else False
