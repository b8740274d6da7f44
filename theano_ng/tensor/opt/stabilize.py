"""Rules that replace expressions by numerically more stable ones: log1p, expm1, log-sum-exp, error functions."""

import numpy as np

from theano_ng import scalar
from theano_ng.compile.mode import optdb
from theano_ng.gof.rewriting import in2out, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.logarithms import ERFC_THRESHOLD, is_log_of_erfc, log_of_erfc
from theano_ng.tensor.opt.common import (
    constant_value,
    fill_like_inputs,
    in_dtype,
    inputs_of,
    is_constant,
    rule_result,
    scalarconsts_rest,
)
from theano_ng.tensor.opt.patterns import (
    elementwise,
    names,
    number,
    pattern_rule,
    restricted,
    rule,
    terms,
    typed,
    widened,
)
from theano_ng.tensor.opt.registration import (
    ignores_nonfinite,
    register_canonicalize,
    register_specialize,
    register_stabilize,
)
from theano_ng.tensor.reductions.careduce import Prod


def floats(pattern):
    """Return a pattern that matches only variables with a float dtype."""
    return typed(pattern, kinds="f")


x, y = names("x", "y")
float_x, float_y, real_x = floats(x), floats(y), typed(x, kinds="fiub")
even = number("n", lambda value: value.dtype.kind != "c" and value != 0 and value % 2 == 0)
one, minus_one = [restricted(value, lambda v: all(v.broadcastable)) for value in (1, -1)]
eq, erf, erfc, exp, expm1, log, log1p = terms(T.eq, T.erf, T.erfc, T.exp, T.expm1, T.log, T.log1p)
maximum, switch = terms(T.maximum, T.switch)
Add, Sub = elementwise(scalar.Add, scalar.Sub)


# -- log and exp -------------------------------------------------------------------------------------------------------------


@register_stabilize
@register_specialize
@local_optimizer([T.log])
def local_log1p(node):
    """Replace the logarithm of a value near one by log1p.

    log(1 + x)  ->  log1p(x)          [stabilize, specialize, fast_run]
    log(1 - x)  ->  log1p(-x)
    """
    (log_arg,) = node.inputs
    out = node.outputs[0]
    if log_arg.owner is None or log_arg.dtype[0] != "f":
        return False  # Sums of integers need no log1p: they are exact, or wrap around, which log1p would change.
    if log_arg.owner.op == T.add:
        values, constants, rest = scalarconsts_rest(log_arg.owner.inputs, only_process_constants=False)
        # The constant 1 may also be the value of a `fill` or an `alloc`.
        if len(values) != 1 or not rest or values[0] != 1:
            return False
        ninp = rest[0] if len(rest) == 1 else in_dtype(T.add, rest, log_arg.dtype)
        if ninp.dtype != log_arg.dtype:
            ninp = T.cast(ninp, log_arg.dtype)
        new = T.log1p(ninp)
        if new.type.broadcastable != out.type.broadcastable:
            new = fill_like_inputs(new, log_arg.owner.inputs)
        return rule_result(new, out)
    if log_arg.owner.op == T.sub:
        one, x = log_arg.owner.inputs
        value = constant_value(one)
        if value is not None and value == 1:
            if x.dtype != log_arg.dtype:
                x = T.cast(x, log_arg.dtype)
            new = T.log1p(T.neg(x))
            if new.type.broadcastable != out.type.broadcastable:
                new = fill_like_inputs(new, log_arg.owner.inputs)
            return rule_result(new, out)
    return False


@register_stabilize
@register_specialize
@rule(
    (
        log(exp(float_x) + exp(float_y)),
        switch(
            eq(float_x, float_y),  # If both are the same infinity, their difference is NaN.
            float_x + np.log(2),
            maximum(float_x, float_y) + log1p(exp(-abs(float_x - float_y))),
        ),
    )
)
def local_log_add():
    """Compute the logarithm of a sum of two exponentials without overflow."""


@register_stabilize
@register_specialize
@register_canonicalize
@rule((Sub(exp(x), one), expm1(x)), (Add(exp(x), minus_one), expm1(x)), (Add(minus_one, exp(x)), expm1(x)))
def local_expm1():
    """Compute exp(x) - 1 without cancellation near x = 0.

    exp(x) - 1  ->  expm1(x)          [canonicalize, stabilize, specialize, fast_run]
    exp(x) + -1  ->  expm1(x)
    """


@register_stabilize
@register_specialize
@register_canonicalize
@rule((log(floats(x**even)), even * log(abs(widened(x)))), (log(floats(x**y)), y * log(widened(x))))
def local_log_pow():
    """Move the exponent of a power out of a logarithm.

    log(x ** 2)  ->  2 * log(abs(x))          [canonicalize, stabilize, specialize, fast_run]
    log(x ** y)  ->  y * log(x)

    For a negative x and an even integer y that is not a constant, the result is NaN instead of a number. The rule
    applies only to floats, because powers of integers wrap around, and complex logarithms lie on the principal branch.
    """


@register_stabilize
@register_specialize
@register_canonicalize
@ignores_nonfinite
@local_optimizer([T.log])
def local_log_prod_sqr(node):
    """Replace the logarithm of a product of nonnegative values by the sum of their logarithms.

    log(sqr(x) * exp(y))  ->  2 * log(abs(x)) + y          [canonicalize, stabilize, specialize, fast_run]
    log(prod(exp(x)))  ->  sum(x)
    """
    x = node.inputs[0]
    if x.owner is None:
        return False
    op = x.owner.op
    if isinstance(op, Elemwise) and isinstance(op.scalar_op, scalar.Mul):
        # The factors must be known to be nonnegative: otherwise the logarithm of a factor may be NaN.
        logarithms = [_log_of_nonnegative(i, x.dtype) for i in x.owner.inputs]
        if len(logarithms) > 1 and all(one is not None for one in logarithms):
            return rule_result(T.add(*logarithms), node.outputs[0])
    elif isinstance(op, Prod):
        inner = _log_of_nonnegative(x.owner.inputs[0], x.dtype)
        if inner is not None:
            return rule_result(T.sum(inner, axis=op.axis), node.outputs[0])
    return False


def _log_of_nonnegative(v, dtype):
    """Return an expression for ``log(v)`` in `dtype` that does not contain `v`.

    Return None unless `v` is a square or an exponential.
    """
    if v.owner is None or v.dtype[0] != "f" or dtype[0] != "f":
        return None
    squared = inputs_of(v, T.sqr)
    if squared is None:
        power = inputs_of(v, T.pow)
        if power is not None:
            exponent = constant_value(power[1])
            if exponent is not None and exponent == 2:
                squared = power
    if squared is not None:
        return T.mul(np.asarray(2, dtype=dtype), T.log(T.abs_(_widened(squared[0], dtype))))
    exped = inputs_of(v, T.exp)
    return None if exped is None else _widened(exped[0], dtype)


def _widened(v, dtype):
    return v if v.dtype == dtype else T.cast(v, dtype)


# -- error functions -----------------------------------------------------------------------------------------------------------


def _everywhere(name, text, pattern, new):
    made = pattern_rule(name, text, pattern, new)
    return register_specialize(register_stabilize(register_canonicalize(made, "fast_compile")))


_FOR_LARGE = "For large x, erf(x) is rounded to 1, but erfc(x) is accurate."
_BACK = "erf(x) replaces an expression of erfc(x)."
# The patterns restrict x to real numbers if erf(x) is replaced, because erfc does not accept complex numbers. They
# restrict x to floats if a rule adds or removes a negation of x, because the negatives of integers may wrap around.
# Each rule has variants for the forms that a negation may have after canonicalization.
local_one_minus_erf = _everywhere("local_one_minus_erf", _FOR_LARGE, 1 - erf(real_x), erfc(real_x))
local_one_minus_erf2 = _everywhere("local_one_minus_erf2", _FOR_LARGE, 1 + -1 * erf(real_x), erfc(real_x))
local_one_plus_neg_erf = _everywhere("local_one_plus_neg_erf", _FOR_LARGE, 1 + -erf(real_x), erfc(real_x))
local_erf_minus_one = _everywhere("local_erf_minus_one", _FOR_LARGE, -1 + erf(real_x), -erfc(real_x))
local_one_plus_erf = _everywhere("local_one_plus_erf", _FOR_LARGE, 1 + erf(-float_x), erfc(float_x))
local_one_plus_erf2 = _everywhere("local_one_plus_erf2", _FOR_LARGE, 1 + erf(float_x), erfc(-float_x))
local_one_minus_erfc = _everywhere("local_one_minus_erfc", _BACK, 1 - erfc(x), erf(x))
local_one_minus_erfc2 = _everywhere("local_one_minus_erfc2", _BACK, 1 + -erfc(x), erf(x))
local_one_minus_erfc3 = _everywhere("local_one_minus_erfc3", _BACK, 1 + -1 * erfc(x), erf(x))
local_one_add_neg_erfc = _everywhere("local_one_add_neg_erfc", _BACK, -erfc(x) + 1, erf(x))
local_erf_neg_minus_one = _everywhere("local_erf_neg_minus_one", _BACK, -1 + erfc(-float_x), erf(float_x))
local_erf_neg_minus_one2 = _everywhere("local_erf_neg_minus_one2", _BACK, -1 + erfc(-1 * float_x), erf(float_x))


@register_stabilize
@register_specialize
@rule(log(erfc(x)))
def local_log_erfc(x, out):
    """Compute the logarithm of erfc accurately, even where erfc is rounded to zero.

    log(erfc(x))  ->  switch(x < 26.0, log(erfc(x)), log(erfcx(x)) - sqr(x))          [stabilize, specialize, fast_run]

    The threshold is 9 for float32 and 26 for float64.
    """
    if is_log_of_erfc(out) or out.dtype not in ERFC_THRESHOLD:
        return None
    return log_of_erfc(x if x.dtype == out.dtype else T.cast(x, out.dtype))


@register_stabilize
@register_specialize
@ignores_nonfinite
@local_optimizer([T.true_div, T.mul])
def local_grad_log_erfc_neg(node):
    """Compute the gradient of log(erfc(x)) accurately, even where both erfc(x) and exp(-x**2) are rounded to zero.

    y * exp(-sqr(x)) / erfc(x)  ->  y / erfcx(x)          [stabilize, specialize, fast_run, fast_compile]
    y * exp(-4 * x ** 2) * (1 / erfc(2 * x))  ->  y / erfcx(2 * x)
    """
    (out,) = node.outputs
    if out.dtype not in ERFC_THRESHOLD:
        return False
    factors, below = list(node.inputs), None
    if node.op == T.true_div:
        below = factors.pop()
    else:
        for i, factor in enumerate(factors):
            inverse = inputs_of(factor, T.inv) or inputs_of(factor, T.true_div)
            if inverse is not None and inputs_of(inverse[-1], T.erfc) is not None:
                below = inverse[-1]
                factors[i : i + 1] = inverse[:-1]
                break
    inputs = None if below is None else inputs_of(below, T.erfc)
    if inputs is None:
        return False
    factors = [f for factor in factors for f in _factors(factor, out.dtype)]
    for i, factor in enumerate(factors):
        if _exp_of_minus_square(factor, inputs[0]):
            del factors[i]
            above = [f for f in factors if not is_constant(f, 1)] or [T.constant(np.asarray(1, out.dtype))]
            product = above[0] if len(above) == 1 else in_dtype(T.mul, above, out.dtype)
            return rule_result(T.true_div(product, T.erfcx(*inputs)), out)
    return False


# Register the rule separately for the mode FAST_COMPILE, which has no phase `stabilize`.
optdb.register("local_grad_log_erfc_neg", in2out(local_grad_log_erfc_neg, ignore_newtrees=True), 0.71, "fast_compile")


def _factors(v, dtype):
    """Return the factors of `v` if it is a product in `dtype`. Otherwise, return [v].

    A product in a narrower dtype is rounded or wraps around in that dtype. It counts as one factor.
    """
    factors = inputs_of(v, T.mul) if v.dtype == dtype else None
    return [v] if factors is None else factors


def _exp_of_minus_square(v, x):
    """Return True if `v` is ``exp(-x**2)``; for ``x = 2 * u``, ``exp(-4 * u**2)`` is recognized, too."""
    inner = inputs_of(v, T.exp)
    if inner is None:
        return False
    with np.errstate(all="ignore"):
        number, factors = _product(inner[0])
        of, bases = _product(x)
        if factors != 2 * bases or len(bases) != 1:
            return False
        return bool(abs(number / of**2 + 1) <= 8 * np.finfo(v.dtype).eps)


def _product(v):
    """Return the constant factor of a product of floats, and the list of its other factors.

    The base of a square occurs twice in the list. A product of integers may wrap around, so it counts as one factor.
    """
    number, factors, todo = np.float64(1), [], [(v, 1)]
    while todo and len(factors) < 4:
        v, times = todo.pop()
        value = constant_value(v) if v.dtype[0] != "c" else None
        op = None if v.owner is None or v.dtype[0] != "f" else v.owner.op
        if value is not None:
            number *= np.float64(value) ** times
        elif op == T.neg:
            number *= (-1) ** times
            todo.append((v.owner.inputs[0], times))
        elif op == T.mul:
            todo.extend((i, times) for i in v.owner.inputs)
        elif op == T.true_div and constant_value(v.owner.inputs[1]):
            number /= np.float64(constant_value(v.owner.inputs[1])) ** times
            todo.append((v.owner.inputs[0], times))
        elif times == 1 and (op == T.sqr or op == T.pow and is_constant(v.owner.inputs[1], 2)):
            todo.append((v.owner.inputs[0], 2))
        else:
            factors += [v] * times
    return number, factors
