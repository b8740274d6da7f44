"""Rules that recognize sigmoid and softplus, and replace expressions with these functions by stable forms."""

from theano_ng.compile import optdb
from theano_ng.gof.rewriting import copy_stack_trace, in2out, local_optimizer
from theano_ng.tensor.elemwise import functions as T
from theano_ng.tensor.nnet.mul_tree import (
    compute_mul,
    factors_in_dtype,
    is_exp,
    is_neg,
    parse_mul_tree,
    partition_num_or_denom,
    perform_sigm_times_exp,
    simplify_mul,
)
from theano_ng.tensor.nnet.sigmoids import hard_sigmoid, sigmoid, softplus, ultra_fast_sigmoid
from theano_ng.tensor.opt.common import MAX_SHARED, constant_value, in_dtype, is_constant, op_of, scalarconsts_rest
from theano_ng.tensor.opt.log_domain import loses_less
from theano_ng.tensor.opt.patterns import names, pattern_rule, restricted, rule, terms
from theano_ng.tensor.opt.registration import ignores_nonfinite, register_specialize, register_stabilize

register_local_1msigmoid = False


def _is_real(variable):
    """Return True if a variable is not complex. Sigmoid and softplus are functions of real numbers."""
    return not variable.dtype.startswith("complex")


def _is_1(expr):
    """Return True if every element of an expression is known to be 1."""
    return is_constant(expr, 1)


(x,) = names("x")
real_x, float_x = restricted(x, _is_real), restricted(x, lambda v: v.dtype[0] == "f")
exp, log, log1p, sigm, soft_plus = terms(T.exp, T.log, T.log1p, sigmoid, softplus)
hard, ultra_fast = terms(hard_sigmoid, ultra_fast_sigmoid)


def is_1pexp(t, only_process_constants=True):
    """Return (False, x) if `t` is 1 + exp(x), and (True, x) if it is -1 - exp(x) or -(1 + exp(x)).

    Return None for other variables, and for a complex x.

    Parameters
    ----------
    t : Variable
    only_process_constants : bool
        If True, the 1 must be a Constant. Otherwise, an expression whose elements are all known to be 1 is accepted,
        too.
    """
    if not _is_real(t):
        return None
    negative = False
    while op_of(t) == T.neg:
        negative, t = not negative, t.owner.inputs[0]
    if op_of(t) == T.sub:
        # -1 - exp(x)
        number = constant_value(t.owner.inputs[0], only_process_constants=only_process_constants)
        found = is_exp(t.owner.inputs[1])
        if number is None or found is None or number != (1 if found[0] else -1):
            return None
        return negative ^ (not found[0]), found[1]
    if op_of(t) != T.add:
        return None
    numbers, _, others = scalarconsts_rest(t.owner.inputs, only_process_constants=only_process_constants)
    found = is_exp(others[0]) if len(others) == 1 else None
    if found is None or not numbers or sum(numbers) != (-1 if found[0] else 1):
        return None
    return negative ^ found[0], found[1]


def _opposite(x, dtype):
    """Return -x. If x is -y, return y.

    An integer is first cast to the float dtype `dtype`, because the negative of -128 or of an unsigned number would
    wrap around.
    """
    minus = is_neg(x)
    if minus is not None:
        return minus
    return -x if x.dtype[0] == "f" else -T.cast(x, dtype)


def _finish(node, result):
    """Return ``[result]``, cast to the dtype of the node's output. Return None if the types still differ."""
    result = T.cast(result, node.outputs[0].type.dtype)
    if result.type != node.outputs[0].type:
        return None
    copy_stack_trace(node.outputs[0], result)
    return [result]


def _softplus_rule(name, pattern, new):
    return pattern_rule(
        name,
        "Without the loss of digits of a sigmoid that is rounded to 0 or 1.",
        pattern,
        new,
        values_eq_approx=loses_less,
    )


log1msigm_to_softplus = _softplus_rule("log1msigm_to_softplus", log(1 - sigm(x)), -soft_plus(x))
logsigm_to_softplus = _softplus_rule("logsigm_to_softplus", log(sigm(float_x)), -soft_plus(-float_x))
log1p_neg_sigmoid = _softplus_rule("log1p_neg_sigmoid", log1p(-sigm(x)), -soft_plus(x))
# Canonicalization replaces -sigm(x) by the product -1 * sigm(x).
log1p_minus_one_sigmoid = _softplus_rule("log1p_minus_one_sigmoid", log1p(-1 * sigm(x)), -soft_plus(x))
log1pexp_to_softplus = pattern_rule("log1pexp_to_softplus", "Without overflow.", log1p(exp(real_x)), soft_plus(real_x))
register_stabilize(log1msigm_to_softplus, name="log1msigm_to_softplus")
register_stabilize(logsigm_to_softplus, name="logsigm_to_softplus")
register_stabilize(log1p_neg_sigmoid, name="log1p_neg_sigmoid,")  # the comma is part of the documented name
register_stabilize(log1p_minus_one_sigmoid, name="log1p_minus_one_sigmoid")
register_stabilize(log1pexp_to_softplus, name="log1pexp_to_softplus")


@register_stabilize
@register_specialize
@ignores_nonfinite
@local_optimizer([T.true_div])
def local_exp_over_1_plus_exp(node):
    """Replace an expression of exponentials, which may overflow, by a sigmoid.

    exp(x) / (1 + exp(x))  ->  sigmoid(x)          [stabilize, specialize, fast_run]
    y / (1 + exp(x))  ->  y * sigmoid(-x)

    Other factors of the numerator and the denominator remain.
    """
    numerator, denominator = node.inputs
    dtype = node.outputs[0].dtype
    factors = list(factors_in_dtype(numerator, dtype))
    arguments, divisors, negative = partition_num_or_denom(
        denominator, lambda f: is_1pexp(f, only_process_constants=False), dtype
    )
    if not arguments:
        return None
    sigmoids = []
    for argument in arguments:
        for i, factor in enumerate(factors):
            exponential = is_exp(factor)
            if exponential is not None and exponential[1] is argument:
                negative ^= exponential[0]
                del factors[i]
                sigmoids.append(sigmoid(argument))
                break
        else:
            sigmoids.append(sigmoid(_opposite(argument, denominator.dtype)))
    factors = [f for f in factors if not _is_1(f)] + sigmoids
    result = factors[0] if len(factors) == 1 else in_dtype(T.mul, factors, dtype)
    if divisors:
        result = result / (divisors[0] if len(divisors) == 1 else in_dtype(T.mul, divisors, dtype))
    if negative:
        result = -result
    if result.type.broadcastable != node.outputs[0].type.broadcastable:
        result = T.second(node.outputs[0], result)
    return _finish(node, result)


@ignores_nonfinite
@local_optimizer([T.true_div])
def local_sigmoid_of_one_exponential(node):
    """Replace a quotient of exponentials by a sigmoid before canonicalization rewrites numerator and denominator.

    exp(x) / (1 + exp(x))  ->  sigmoid(x)          [fast_run, fast_compile]
    """
    numerator, denominator = node.inputs
    exponential, sum_ = is_exp(numerator), is_1pexp(denominator, only_process_constants=False)
    if exponential is None or sum_ is None or exponential[1] is not sum_[1]:
        return None
    return local_exp_over_1_plus_exp.transform(node)


# Register these rules separately for the mode FAST_COMPILE, which has no phase `stabilize`.
for _rule, _tags in (
    (local_sigmoid_of_one_exponential, ("fast_run", "fast_compile")),
    (log1pexp_to_softplus, ("fast_compile",)),
):
    optdb.register(_rule.__name__, in2out(_rule, ignore_newtrees=True), 0.71, *_tags)


@register_stabilize
@register_specialize
@local_optimizer([T.inv])
def local_inv_1_plus_exp(node):
    """Replace the reciprocal of one plus an exponential by a sigmoid.

    inv(1 + exp(x))  ->  sigmoid(-x)          [stabilize, specialize, fast_run]
    """
    found = is_1pexp(node.inputs[0], only_process_constants=False)
    if found is None or found[0]:
        return None
    return _finish(node, sigmoid(_opposite(found[1], node.outputs[0].dtype)))


@register_stabilize
@local_optimizer([T.mul])
def local_sigm_times_exp(node):
    """Replace the product of an exponential and the opposite sigmoid by a sigmoid.

    exp(x) * sigmoid(-x)  ->  sigmoid(x)          [stabilize, fast_run]

    The product may have any number of other factors, and may contain other products. Signs are preserved.
    """
    clients = node.outputs[0].clients
    if len(clients) == 1 and clients[0][0] != "output" and clients[0][0].op == T.mul:
        # The rule is applied to the client instead: a product whose factors include the factors of this product.
        return None
    tree = parse_mul_tree(node.outputs[0], most=MAX_SHARED)
    if not perform_sigm_times_exp(tree):
        return None
    return _finish(node, compute_mul(simplify_mul(tree), node.outputs[0].dtype))


# This rule is not registered, because it would hide log(1 - sigmoid(x)) from other rules.
@rule((1 - sigm(float_x), sigm(-float_x)))
def local_1msigmoid():
    """Replace 1 - sigmoid(x) by sigmoid(-x)."""


# These rules are used only if ``optimizer_including`` names them.
@rule((sigm(x), ultra_fast(x)))
def local_ultra_fast_sigmoid():
    """Approximate a sigmoid by a piecewise function."""


@rule((sigm(x), hard(x)))
def local_hard_sigmoid():
    """Approximate a sigmoid by three straight lines."""


for _rule in (local_ultra_fast_sigmoid, local_hard_sigmoid):
    optdb["uncanonicalize"].register(_rule.__name__, _rule)
