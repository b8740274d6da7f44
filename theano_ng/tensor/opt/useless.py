"""Rules for elementwise operations whose result is known at compile time: useless operations, comparisons, switches."""

import numpy as np

from theano_ng import scalar
from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import OpRemove, copy_stack_trace, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.opt.common import (
    answer,
    computes,
    constant_value,
    fill_like_inputs,
    get_constant,
    in_dtype,
    inputs_of,
)
from theano_ng.tensor.opt.lengths import is_length
from theano_ng.tensor.opt.registration import (
    ignores_nonfinite,
    register_canonicalize,
    register_specialize,
    register_stabilize,
)


def _filled_with(value, node):
    """Return the result of a rule: a list of `value` in the shape and dtype of the output of an elementwise node."""
    out = node.outputs[0]
    return answer(fill_like_inputs(T.as_tensor_variable(np.asarray(value, dtype=out.dtype)), node.inputs), out)


@register_specialize
@register_canonicalize("fast_compile")
@ignores_nonfinite
@local_optimizer([Elemwise], when=lambda op: type(op.scalar_op) in _USELESS)
def local_useless_elemwise(node):
    """Replace an elementwise operation that returns an input or a constant.

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
    # The class of the scalar op selects the function that decides.
    return _USELESS[type(node.op.scalar_op)](node)


def _self_eq(node):
    return _filled_with(1, node) if node.inputs[0] is node.inputs[1] else False


def _self_neq(node):
    return _filled_with(0, node) if node.inputs[0] is node.inputs[1] else False


def _unary(node):
    if len(node.inputs) != 1:
        return False
    x, out = node.inputs[0], node.outputs[0]
    if x.type != out.type:
        return False
    copy_stack_trace(out, x)
    return [x]


def _cast(node):
    return _unary(node) if node.inputs[0].dtype == node.outputs[0].dtype else False


def _bitwise_constant(node):
    """Find an operand that is a constant whose bits are all 0 or all 1.

    Return (index of the other operand, bits), or None if there is no such operand.
    """
    if len(node.inputs) != 2:
        return None
    for i in (0, 1):
        value = constant_value(node.inputs[i], only_process_constants=True)
        if value is None or not all(node.inputs[i].broadcastable):
            continue
        if value == 0:
            return 1 - i, 0
        ones = True if node.outputs[0].dtype == "bool" else np.asarray(~np.zeros((), dtype=node.outputs[0].dtype))
        if value == ones:
            return 1 - i, ones
    return None


def _or(node):
    found = _bitwise_constant(node)
    if found is None:
        return False
    other, bits = found
    if np.all(bits == 0):
        return answer(node.inputs[other], node.outputs[0])
    return _filled_with(bits, node)


def _and(node):
    found = _bitwise_constant(node)
    if found is None:
        return False
    other, bits = found
    if np.all(bits == 0):
        return _filled_with(0, node)
    return answer(node.inputs[other], node.outputs[0])


def _xor(node):
    return _filled_with(0, node) if len(node.inputs) == 2 and node.inputs[0] is node.inputs[1] else False


_USELESS = {
    scalar.EQ: _self_eq,
    scalar.NEQ: _self_neq,
    scalar.Mul: _unary,
    scalar.Add: _unary,
    scalar.Identity: _unary,
    scalar.Cast: _cast,
    scalar.OR: _or,
    scalar.AND: _and,
    scalar.XOR: _xor,
}


# tensor_copy(x) -> x. Functions themselves make the copies that are necessary.
register_canonicalize(OpRemove(T.tensor_copy), name="remove_tensor_copy")


# -- comparisons -----------------------------------------------------------------------------------------------------------

# The result of ``x op x``, except for NaN.
_SELF_COMPARISON = {scalar.LT: 0, scalar.GT: 0, scalar.LE: 1, scalar.GE: 1}
_SELF_CHOICE = (scalar.Minimum, scalar.Maximum)
_COMPARED = {*_SELF_COMPARISON, *_SELF_CHOICE, scalar.EQ}


def _is_sum_of_lengths(v):
    inputs = inputs_of(v, T.add)
    return inputs is not None and all(is_length(i) for i in inputs)


@register_specialize
@register_canonicalize
@register_stabilize
@ignores_nonfinite
@local_optimizer([Elemwise], when=lambda op: type(op.scalar_op) in _COMPARED)
def local_useless_elemwise_comparison(node):
    """Replace a comparison whose result does not depend on values.

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
    cls = type(node.op.scalar_op)
    a, b = node.inputs
    out = node.outputs[0]
    if a is b:
        if cls in _SELF_COMPARISON:
            return _filled_with(_SELF_COMPARISON[cls], node)
        if cls in _SELF_CHOICE:
            return [a] if a.type == out.type else False
        return False
    for length, other, swapped in ((a, b, False), (b, a, True)):
        bound = constant_value(other, only_process_constants=True)
        if bound is None or not (is_length(length) or _is_sum_of_lengths(length)):
            continue
        if cls is scalar.EQ:
            return _filled_with(0, node) if bound < 0 else False
        if cls is scalar.Maximum and bound <= 0 or cls is scalar.Minimum and bound <= 0:
            keep = length if cls is scalar.Maximum else other
            return answer(keep, out)
        # The comparison in the form "length op bound".
        kind = _MIRRORED[cls] if swapped and cls in _MIRRORED else cls
        if kind is scalar.LT and bound <= 0 or kind is scalar.LE and bound < 0:
            return _filled_with(0, node)
        if kind is scalar.GE and bound <= 0 or kind is scalar.GT and bound < 0:
            return _filled_with(1, node)
    return False


_MIRRORED = {scalar.LT: scalar.GT, scalar.GT: scalar.LT, scalar.LE: scalar.GE, scalar.GE: scalar.LE}


# -- switches ----------------------------------------------------------------------------------------------------------------


def _is_switch(v):
    return v.owner is not None and isinstance(v.owner.op, Elemwise) and isinstance(v.owner.op.scalar_op, scalar.Switch)


@register_specialize
@register_canonicalize("fast_compile", "local_remove_switch_const_cond")
@local_optimizer([Elemwise], when=computes(scalar.Switch))
def local_useless_switch(node):
    """Replace a switch whose condition is constant, or whose branches are equal.

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
        # The lengths of reshapes and slices contain such switches.
        compared = _less_equal_zero(cond)
        if (
            compared is not None
            and right is compared
            and is_length(right)
            and constant_value(left) is not None
            and constant_value(left) == 0
        ):
            return answer(right, out)
        return False
    if chosen.type.broadcastable != out.type.broadcastable:
        chosen = fill_like_inputs(chosen, [i for i in node.inputs if i is not chosen])
    return answer(chosen, out)


def _less_equal_zero(cond):
    """Return x if `cond` is ``x <= 0``; otherwise None."""
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
    return answer(T.switch(cond, *branches), node.outputs[0])


def _branch(switch, k):
    """Return input `k` of the switch that computes a variable, in the dtype of the switch."""
    branch = switch.owner.inputs[k]
    return branch if branch.dtype == switch.dtype else T.cast(branch, switch.dtype)


def _sink_into_switch(node, idx):
    """Apply the op of a node to the branches of the switch that is input `idx`.

    Return the result of a rule, or False if neither branch is zero.
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
    return answer(new, node.outputs[0])


@register_canonicalize
@register_specialize
@ignores_nonfinite
@local_optimizer([T.mul])
def local_mul_switch_sink(node):
    """Move a multiplication into a switch with a zero branch.

    switch(c, constant([0]), x) * y  ->  switch(c, 0, x * y)          [canonicalize, specialize, fast_run]
    switch(c, x, constant([0])) * y  ->  switch(c, x * y, 0)

    If the switch is zero, the product is zero even if the other factor is NaN. So the gradient of an expression that a
    switch guards has no NaN.
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
    """Move a division into a switch with a zero branch: its quotient is zero even if the divisor is zero or NaN.

    switch(c, constant([0]), x) / y  ->  switch(c, 0, x / y)          [canonicalize, fast_run]
    switch(c, k, constant([0])) // x  ->  switch(c, k // x, 0)
    """
    if not _is_switch(node.inputs[0]):
        return False
    return _sink_into_switch(node, 0)
