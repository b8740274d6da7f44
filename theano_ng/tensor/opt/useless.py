"""Rules for elementwise operations whose result is known at compile time: useless operations, comparisons, switches."""

import numpy as np

from theano_ng import scalar
from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import OpRemove, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.opt.common import (
    computes,
    constant_value,
    fill_like_inputs,
    get_constant,
    in_dtype,
    inputs_of,
    rule_result,
)
from theano_ng.tensor.opt.patterns import elementwise, names, restricted, rule
from theano_ng.tensor.opt.registration import (
    ignores_nonfinite,
    register_canonicalize,
    register_specialize,
    register_stabilize,
)
from theano_ng.tensor.shaping.lengths import is_length

x, y = names("x", "y")
Add, And, Cast, Eq, Identity, Mul, Neq, Or, Xor = elementwise(
    scalar.Add, scalar.AND, scalar.Cast, scalar.EQ, scalar.Identity, scalar.Mul, scalar.NEQ, scalar.OR, scalar.XOR
)
Ge, Gt, Le, Lt, Maximum, Minimum = elementwise(
    scalar.GE, scalar.GT, scalar.LE, scalar.LT, scalar.Maximum, scalar.Minimum
)


def _masked(node, neutral):
    """Return the result of a bitwise operation with a constant whose bits are all equal.

    Return None if neither operand is such a constant.

    Parameters
    ----------
    node : Apply
    neutral : int
        The bit that changes nothing: 0 for `or`, 1 for `and`.
    """
    dtype = node.outputs[0].dtype
    ones = ~np.zeros((), dtype=dtype)
    for mask, other in (node.inputs, node.inputs[::-1]):
        value = constant_value(mask, only_process_constants=True)
        if value is not None and all(mask.broadcastable) and (value == 0 or value == ones):
            return other if bool(value) == neutral else T.as_tensor_variable(np.asarray(value, dtype=dtype))
    return None


def _kept(x, out):
    return x if x.type == out.type else None


@register_specialize
@register_canonicalize("fast_compile")
@ignores_nonfinite
@rule(
    (Eq(x, x), 1),
    (Neq(x, x), 0),
    (Xor(x, x), 0),
    (Or(x, y), lambda node: _masked(node, 0)),
    (And(x, y), lambda node: _masked(node, 1)),
    (Add(x), _kept),
    (Mul(x), _kept),
    (Identity(x), _kept),
    (Cast(x), _kept),
)
def local_useless_elemwise():
    """Replace an elementwise operation whose result is one of its inputs, or a constant, by this result.

    eq(x, x)  ->  1          [canonicalize, specialize, fast_run, fast_compile]
    neq(x, x)  ->  0
    add(x)  ->  x
    mul(x)  ->  x
    tensor_copy(x)  ->  x
    p ^ p  ->  0
    p | constant([True])  ->  1
    k | constant([0], dtype='int8')  ->  k
    k & constant([0], dtype='int8')  ->  0
    p & constant([True])  ->  p

    eq(x, x) of floats becomes 1 even if x is NaN.
    """


# tensor_copy(x) -> x. Compiled functions make all necessary copies themselves.
register_canonicalize(OpRemove(T.tensor_copy), name="remove_tensor_copy")


# -- comparisons -----------------------------------------------------------------------------------------------------------


def _is_never_negative(v):
    inputs = inputs_of(v, T.add)
    return is_length(v) or inputs is not None and all(is_length(i) for i in inputs)


def _bound(condition):
    """Return a pattern for constants that fulfill a condition."""

    def is_bound(v):
        value = constant_value(v, only_process_constants=True)
        return value is not None and bool(condition(value))

    return restricted("bound", is_bound)


length = restricted("n", _is_never_negative)
at_most_0, negative = _bound(lambda value: value <= 0), _bound(lambda value: value < 0)


@register_specialize
@register_canonicalize
@register_stabilize
@ignores_nonfinite
@rule(
    (Lt(x, x), 0),
    (Gt(x, x), 0),
    (Le(x, x), 1),
    (Ge(x, x), 1),
    (Minimum(x, x), x),
    (Maximum(x, x), x),
    (Eq(length, negative), 0),
    (Eq(negative, length), 0),
    (Lt(length, at_most_0), 0),
    (Gt(at_most_0, length), 0),
    (Le(length, negative), 0),
    (Ge(negative, length), 0),
    (Ge(length, at_most_0), 1),
    (Le(at_most_0, length), 1),
    (Gt(length, negative), 1),
    (Lt(negative, length), 1),
    (Maximum(length, at_most_0), length),
    (Maximum(at_most_0, length), length),
    (Minimum(length, at_most_0), at_most_0),
    (Minimum(at_most_0, length), at_most_0),
)
def local_useless_elemwise_comparison():
    """Replace a comparison, maximum or minimum whose result does not depend on the values of tensors by this result.

    x < x  ->  0          [canonicalize, stabilize, specialize, fast_run]
    x > x  ->  0
    x <= x  ->  1
    x >= x  ->  1
    minimum(x, x)  ->  x
    maximum(x, x)  ->  x
    x.shape[0] < 0  ->  0
    x.shape[0] + y.shape[0] >= 0  ->  1
    maximum(x.shape[0], 0)  ->  x.shape[0]
    minimum(x.shape[0], 0)  ->  cast(0, 'int64')

    x <= x and x >= x become 1 even if x is NaN.
    """


# -- switches ----------------------------------------------------------------------------------------------------------------


def _is_switch(v):
    return v.owner is not None and isinstance(v.owner.op, Elemwise) and isinstance(v.owner.op.scalar_op, scalar.Switch)


@register_specialize
@register_canonicalize("fast_compile", "local_remove_switch_const_cond")
@local_optimizer([Elemwise], when=computes(scalar.Switch))
def local_useless_switch(node):
    """Replace a switch whose condition is constant, or whose branches are equal, by one of its branches.

    switch(1, x, y)  ->  x          [canonicalize, specialize, fast_run, fast_compile, local_remove_switch_const_cond]
    switch(0, x, y)  ->  y
    switch(c, x, x)  ->  x
    switch(x.shape[0] <= 0, 0, x.shape[0])  ->  x.shape[0]
    """
    cond, left, right = node.inputs
    out = node.outputs[0]
    value = constant_value(cond, only_process_constants=True)
    if value is None:
        value = get_constant(cond)
    if value is not None:
        # NaN counts as true, as in C.
        chosen = right if value == 0 else left
    elif left is right:
        chosen = left
    elif _equal_constants(left, right):
        chosen = left
    else:
        # Find ``switch(n <= 0, 0, n)`` for a length n, as in expressions for the lengths of reshapes and slices.
        compared = _less_equal_zero(cond)
        if (
            compared is not None
            and right is compared
            and is_length(right)
            and constant_value(left) is not None
            and constant_value(left) == 0
        ):
            return rule_result(right, out)
        return False
    if chosen.type.broadcastable != out.type.broadcastable:
        chosen = fill_like_inputs(chosen, [i for i in node.inputs if i is not chosen])
    return rule_result(chosen, out)


def _less_equal_zero(cond):
    """Return x if `cond` is ``x <= 0``. Otherwise, return None."""
    owner = cond.owner
    if owner is None or not isinstance(owner.op, Elemwise) or not isinstance(owner.op.scalar_op, scalar.LE):
        return None
    bound = constant_value(owner.inputs[1])
    return owner.inputs[0] if bound is not None and bound == 0 else None


def _equal_constants(a, b):
    return isinstance(a, Constant) and isinstance(b, Constant) and a.equals(b)


@register_canonicalize
@local_optimizer([Elemwise], when=lambda op: not isinstance(op.scalar_op, scalar.UnaryScalarOp))
def local_merge_switch_same_cond(node):
    """Merge the operands of an elementwise operation if all of them are switches with the same condition.

    switch(c, x, y) * switch(c, u, v)  ->  switch(c, x * u, y * v)          [canonicalize, fast_run]
    """
    if len(node.outputs) != 1:
        return False
    inputs = node.inputs
    if len(inputs) < 2 or not all(_is_switch(s) and len(s.clients) == 1 for s in inputs):
        return False
    cond = inputs[0].owner.inputs[0]
    if any(s.owner.inputs[0] is not cond for s in inputs):
        return False
    branches = [node.op(*[_branch(s, k) for s in inputs]) for k in (1, 2)]
    return rule_result(T.switch(cond, *branches), node.outputs[0])


def _branch(switch, k):
    """Return input `k` of the Switch node that computes the variable `switch`, cast to the dtype of `switch`."""
    branch = switch.owner.inputs[k]
    return branch if branch.dtype == switch.dtype else T.cast(branch, switch.dtype)


def _sink_into_switch(node, idx):
    """Apply the op of a node to the nonzero branch of the switch that is input `idx` of the node.

    Return the replacement as the result of a rule, or False if neither branch of the switch is zero.
    """
    cond, left, right = node.inputs[idx].owner.inputs
    others = node.inputs

    def applied(branch):
        return in_dtype(node.op, others[:idx] + [branch] + others[idx + 1 :], node.outputs[0].dtype)

    zero_left, zero_right = (
        v is not None and v == 0
        for v in (constant_value(left, only_process_constants=True), constant_value(right, only_process_constants=True))
    )
    if zero_left:
        new = T.switch(cond, 0, applied(right))
    elif zero_right:
        new = T.switch(cond, applied(left), 0)
    else:
        return False
    return rule_result(new, node.outputs[0])


@register_canonicalize
@register_specialize
@ignores_nonfinite
@local_optimizer([T.mul])
def local_mul_switch_sink(node):
    """Move a multiplication into a switch with a zero branch.

    switch(c, constant([0]), x) * y  ->  switch(c, 0, x * y)          [canonicalize, specialize, fast_run]
    switch(c, x, constant([0])) * y  ->  switch(c, x * y, 0)

    Where the switch is zero, the product is zero even if the other factor is NaN. So the gradient of an expression that
    is guarded by a switch contains no NaN.
    """
    for idx, i in enumerate(node.inputs):
        if _is_switch(i):
            new = _sink_into_switch(node, idx)
            if new:
                return new
    return False


@register_canonicalize
@ignores_nonfinite
@local_optimizer([T.true_div, T.int_div])
def local_div_switch_sink(node):
    """Move a division into a switch with a zero branch. Where the switch is zero, the result is zero for any divisor.

    switch(c, constant([0]), x) / y  ->  switch(c, 0, x / y)          [canonicalize, fast_run]
    switch(c, k, constant([0])) // x  ->  switch(c, k // x, 0)
    """
    if not _is_switch(node.inputs[0]):
        return False
    return _sink_into_switch(node, 0)
