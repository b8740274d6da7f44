"""Right rewriting rules without examples in their docstrings. The oracle must find no difference."""

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gof import OpRemove, Optimizer, PatternSub, local_optimizer
from theano_ng.gof.opt import copy_stack_trace
from theano_ng.scalar import Exp, transfer_type
from theano_ng.tensor.elemwise.op import Elemwise


def number_of(variable):
    try:
        return T.get_scalar_constant_value(variable)
    except T.NotScalarConstantError:
        return None


square = PatternSub((T.mul, "a", "a"), (T.sqr, "a"))
square_to_product = PatternSub((T.sqr, "a"), (T.mul, "a", "a"))
negation_of_difference = PatternSub((T.neg, (T.neg, "x")), "x")
no_copy = OpRemove(T.tensor_copy)


@local_optimizer([T.log])
def local_log_sqr(node):
    """log(sqr(x)) -> 2 log(|x|)"""
    inner = node.inputs[0].owner
    if inner is None or inner.op != T.sqr:
        return False
    if inner.inputs[0].dtype != node.outputs[0].dtype or inner.inputs[0].dtype.startswith("complex"):
        return False
    new = T.cast(2, node.outputs[0].dtype) * T.log(abs(inner.inputs[0]))
    copy_stack_trace(node.outputs[0], new)
    return [new]


@local_optimizer([T.sqrt])
def root_of_square(node):
    inner = node.inputs[0].owner
    if (
        inner
        and inner.op == T.sqr
        and inner.inputs[0].dtype == node.outputs[0].dtype
        and inner.inputs[0].dtype[0] == "f"
    ):
        new = abs(inner.inputs[0])
        copy_stack_trace(node.outputs[0], new)
        return [new]


@local_optimizer([T.add])
def subtract_negative(node):
    """x + (-0.0) -> x"""
    if len(node.inputs) != 2:
        return False
    x, zero = node.inputs
    if number_of(zero) == 0 and np.signbit(number_of(zero)) and x.type == node.outputs[0].type and x.dtype[0] == "f":
        return [x]


@local_optimizer([T.mul])
def times_one(node):
    if len(node.inputs) == 2 and number_of(node.inputs[1]) == 1 and node.inputs[0].type == node.outputs[0].type:
        return [node.inputs[0]]


@local_optimizer([T.sub])
def integers_minus_themselves(node):
    x, y = node.inputs
    if x is y and x.dtype.startswith(("int", "uint")):
        new = T.zeros_like(x)
        copy_stack_trace(node.outputs[0], new)
        return [new]


@local_optimizer([T.maximum])
def maximum_of_equals(node):
    if node.inputs[0] is node.inputs[1]:
        return [node.inputs[0]]


@local_optimizer([T.Sum])
def sum_of_transposed(node):
    inner = node.inputs[0].owner
    if inner is None or not isinstance(inner.op, T.DimShuffle) or inner.op.new_order != (1, 0):
        return False
    if node.op.axis not in ((0,), (1,)):
        return False
    new = node.op.__class__(axis=1 - node.op.axis[0], dtype=node.op.dtype, acc_dtype=node.op.acc_dtype)(inner.inputs[0])
    copy_stack_trace(node.outputs[0], new)
    return [new]


exp_inplace = Elemwise(Exp(transfer_type(0)), {0: 0})


@local_optimizer([T.exp], inplace=True)
def exp_over_input(node):
    if node.inputs[0].type != node.outputs[0].type:
        return False
    new = exp_inplace(node.inputs[0])
    copy_stack_trace(node.outputs[0], new)
    return [new]


class SqrtSqr(Optimizer):
    def add_requirements(self, fgraph):
        fgraph.attach_feature(theano.gof.toolbox.ReplaceValidate())

    def apply(self, fgraph):
        for node in fgraph.toposort():
            if node.op == T.sqrt and node.inputs[0].owner is not None and node.inputs[0].owner.op == T.sqr:
                x = node.inputs[0].owner.inputs[0]
                if x.type == node.outputs[0].type and x.dtype[0] == "f":
                    new = abs(x)
                    copy_stack_trace(node.outputs[0], new)
                    fgraph.replace_validate(node.outputs[0], new)


sqrt_sqr = SqrtSqr()


@local_optimizer([T.switch])
def constant_switch(node):
    condition, one, other = node.inputs
    number = number_of(condition)
    if number is None or not all(condition.broadcastable):
        return False
    chosen = one if number else other
    if chosen.type == node.outputs[0].type and one.ndim == other.ndim and one.broadcastable == other.broadcastable:
        new = T.second(other if number else one, chosen)
        if new.type == chosen.type:
            copy_stack_trace(node.outputs[0], new)
            return [new]


@local_optimizer([T.Dot])
def dot_of_transposed(node):
    one, other = (v.owner for v in node.inputs)
    if (
        one is None
        or other is None
        or not all(isinstance(n.op, T.DimShuffle) and n.op.new_order == (1, 0) for n in (one, other))
    ):
        return False
    new = T.dot(other.inputs[0], one.inputs[0]).T
    copy_stack_trace(node.outputs[0], new)
    return [new]


@local_optimizer([T.Subtensor])
def twice_reversed(node):
    """x[::-1][::-1] is x."""
    inner = node.inputs[0].owner
    if inner is None or not isinstance(inner.op, T.Subtensor):
        return False
    every = [n.op.get_constant_idx(n.inputs, True) for n in (node, inner)]
    if (
        all(len(n) == 1 and n[0] == slice(None, None, -1) for n in every)
        and inner.inputs[0].type == node.outputs[0].type
    ):
        return [inner.inputs[0]]


@local_optimizer([T.lt])
def less_the_other_way(node):
    if node.inputs[0].owner is not None:
        new = T.gt(*node.inputs[::-1])
        copy_stack_trace(node.outputs[0], new)
        return [new]


@local_optimizer([T.minimum])
def minimum_with_infinity(node):
    x, bound = node.inputs
    if number_of(bound) == np.inf and x.type == node.outputs[0].type:
        return [x]
