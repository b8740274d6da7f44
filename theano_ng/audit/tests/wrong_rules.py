"""Wrong rewriting rules without examples in their docstrings. `WRONG` lists the kinds of difference of each rule."""

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gof import OpRemove, OpSub, Optimizer, PatternSub, local_optimizer
from theano_ng.gof.opt import copy_stack_trace
from theano_ng.scalar import Exp, transfer_type
from theano_ng.tensor.elemwise.op import Elemwise


def number_of(variable):
    try:
        return T.get_scalar_constant_value(variable)
    except T.NotScalarConstantError:
        return None


@local_optimizer([T.add])
def add_zero(node):
    """Remove the addition of zero."""
    for i, term in enumerate(node.inputs):
        if number_of(term) == 0 and len(node.inputs) == 2:
            other = node.inputs[1 - i]
            if other.type == node.outputs[0].type:
                return [other]


@local_optimizer([T.mul])
def divide_then_multiply(node):
    """Remove a rounded division by 12 and the multiplication by 12."""
    if len(node.inputs) != 2 or number_of(node.inputs[1]) != 12:
        return False
    inner = node.inputs[0].owner
    if inner is None or inner.op != T.int_div or number_of(inner.inputs[1]) != 12:
        return False
    if inner.inputs[0].type != node.outputs[0].type:
        return False
    return [inner.inputs[0]]


@local_optimizer([T.true_div])
def quotient_of_equals(node):
    above, below = node.inputs
    if above is below:
        new = T.ones_like(above)
        copy_stack_trace(node.outputs[0], new)
        return [new]


@local_optimizer([T.sub])
def difference_of_equals(node):
    if node.inputs[0] is node.inputs[1]:
        new = T.zeros_like(node.inputs[0])
        copy_stack_trace(node.outputs[0], new)
        return [new]


@local_optimizer([T.log])
def log_exp(node):
    inner = node.inputs[0].owner
    if inner is None or inner.op != T.exp or inner.inputs[0].type != node.outputs[0].type:
        return False
    return [inner.inputs[0]]


@local_optimizer([T.sqrt])
def root_of_square(node):
    inner = node.inputs[0].owner
    if inner and inner.op == T.sqr and inner.inputs[0].type == node.outputs[0].type:
        return [inner.inputs[0]]


@local_optimizer([T.sqrt])
def root_of_power(node):
    inner = node.inputs[0].owner
    if inner and inner.op == T.pow and number_of(inner.inputs[1]) == 2:
        return [inner.inputs[0]]


@local_optimizer([T.mul])
def square_of_abs(node):
    if len(node.inputs) != 2 or node.inputs[0] is not node.inputs[1]:
        return False
    inner = node.inputs[0].owner
    if inner is None or inner.op != T.abs_:
        return False
    x = inner.inputs[0]
    new = T.cast(T.real(x * x), node.outputs[0].dtype) if x.dtype.startswith("complex") else x * x
    copy_stack_trace(node.outputs[0], new)
    return [new]


@local_optimizer([T.switch])
def switch_of_equals(node):
    condition, one, other = node.inputs
    if one is other:
        return [one]


@local_optimizer([T.int_div])
def quotient_by_inverse(node):
    x, y = node.inputs
    new = T.cast(T.floor(x * (1.0 / y)), node.outputs[0].dtype)
    copy_stack_trace(node.outputs[0], new)
    return [new]


@local_optimizer([T.Sum])
def sum_of_transposed(node):
    inner = node.inputs[0].owner
    if inner is None or not isinstance(inner.op, T.DimShuffle) or inner.op.new_order != (1, 0):
        return False
    if node.op.axis != (0,):
        return False
    new = T.sum(inner.inputs[0], axis=0)
    copy_stack_trace(node.outputs[0], new)
    return [new]


@local_optimizer([T.true_div])
def product_by_factor(node):
    inner = node.inputs[0].owner
    if inner is None or inner.op != T.mul or len(inner.inputs) != 2:
        return False
    for factor, other in (inner.inputs, inner.inputs[::-1]):
        if factor is node.inputs[1] and other.type == node.outputs[0].type:
            return [other]


@local_optimizer([T.neg])
def fold_negation(node):
    if isinstance(node.inputs[0], theano.Constant):
        new = T.constant(-node.inputs[0].data.astype("float64"))
        copy_stack_trace(node.outputs[0], new)
        return [new]


@local_optimizer([T.exp])
def exp_in_single_precision(node):
    new = T.exp(T.cast(node.inputs[0], "float32"))
    copy_stack_trace(node.outputs[0], new)
    return [new]


@local_optimizer([T.Sum])
def sum_keeping_dimensions(node):
    new = T.sum(node.inputs[0], axis=node.op.axis, keepdims=True)
    copy_stack_trace(node.outputs[0], new)
    return [new]


@local_optimizer([T.sqr])
def square_without_trace(node):
    if node.inputs[0].dtype == node.outputs[0].dtype:
        return [node.inputs[0] * node.inputs[0]]


exp_inplace = Elemwise(Exp(transfer_type(0)), {0: 0})


@local_optimizer([T.exp])
def exp_over_input(node):
    if node.inputs[0].type != node.outputs[0].type:
        return False
    new = exp_inplace(node.inputs[0])
    copy_stack_trace(node.outputs[0], new)
    return [new]


class SquaresInPlace(Optimizer):
    """Overwrite the inputs of squares."""

    op = Elemwise(T.sqr.scalar_op.__class__(transfer_type(0)), {0: 0})

    def apply(self, fgraph):
        for node in fgraph.toposort():
            if node.op == T.sqr:
                new = self.op(node.inputs[0])
                copy_stack_trace(node.outputs[0], new)
                fgraph.replace(node.outputs[0], new)


squares_in_place = SquaresInPlace()

cancel_by_pattern = PatternSub((T.true_div, (T.mul, "x", "y"), "x"), "y", name="cancel_by_pattern")
exp_of_log = PatternSub((T.exp, (T.log, "x")), "x")
triple_and_third = PatternSub((T.int_div, (T.mul, "x", 3), 3), "x")
difference_of_sum = PatternSub((T.sub, (T.add, "x", "y"), "y"), "x")
floor_as_truncation = OpSub(T.floor, T.trunc)
round_the_other_way = OpSub(T.round_half_to_even, T.round_half_away_from_zero)
without_abs = OpRemove(T.abs_)


class SquareToAbs(Optimizer):
    """A rule about whole graphs."""

    def add_requirements(self, fgraph):
        fgraph.attach_feature(theano.gof.toolbox.ReplaceValidate())

    def apply(self, fgraph):
        for node in fgraph.toposort():
            if node.op == T.sqrt and node.inputs[0].owner is not None and node.inputs[0].owner.op == T.sqr:
                x = node.inputs[0].owner.inputs[0]
                fgraph.replace_validate(node.outputs[0], x)


square_to_abs = SquareToAbs()


@local_optimizer([T.log])
def forgets_that_inputs_have_no_owner(node):
    if node.inputs[0].owner.op == T.exp:
        return [node.inputs[0].owner.inputs[0]]


@local_optimizer([T.maximum])
def two_results_for_one(node):
    return [node.inputs[0], node.inputs[1]] if node.inputs[0] is node.inputs[1] else False


@local_optimizer([T.exp])
def exp_that_grows(node):
    new = T.exp(node.inputs[0] + 0) * 1
    copy_stack_trace(node.outputs[0], new)
    return [new]


@local_optimizer([T.sin])
def sine_one_way(node):
    new = -T.sin(-node.inputs[0])
    copy_stack_trace(node.outputs[0], new)
    return [new]


@local_optimizer([T.cos])
def cosine_there(node):
    new = T.sin(node.inputs[0] + np.pi / 2)
    copy_stack_trace(node.outputs[0], new)
    return [new]


@local_optimizer([T.maximum])
def maximum_by_comparison(node):
    x, y = node.inputs
    new = T.switch(T.gt(x, y), x, y)
    copy_stack_trace(node.outputs[0], new)
    return [new]


@local_optimizer([T.mul])
def product_with_zero(node):
    for factor in node.inputs:
        if number_of(factor) == 0:
            new = T.zeros_like(node.outputs[0])
            copy_stack_trace(node.outputs[0], new)
            return [new]


@local_optimizer([T.pow])
def power_to_root(node):
    x, exponent = node.inputs
    if number_of(exponent) == 0.25 and x.dtype == node.outputs[0].dtype:
        new = T.sqrt(T.sqrt(x))
        copy_stack_trace(node.outputs[0], new)
        return [new]


@local_optimizer([T.eq])
def equal_to_itself(node):
    if node.inputs[0] is node.inputs[1]:
        new = T.ones_like(node.outputs[0])
        copy_stack_trace(node.outputs[0], new)
        return [new]


@local_optimizer([T.Sum])
def sum_of_shifted(node):
    inner = node.inputs[0].owner
    if inner is None or inner.op != T.add or len(inner.inputs) != 2:
        return False
    x, shift = inner.inputs
    if number_of(shift) is None or x.type != node.inputs[0].type:
        return False
    new = node.op(x) + number_of(shift)
    if new.type != node.outputs[0].type:
        return False
    copy_stack_trace(node.outputs[0], new)
    return [new]


@local_optimizer([T.neg])
def negates_for_all(node):
    inner = node.inputs[0].owner
    if inner is None or inner.op != T.sub or node.outputs[0].dtype[0] != "f":
        return False
    new = inner.inputs[1] - inner.inputs[0]
    copy_stack_trace(node.outputs[0], new)
    return {node.outputs[0]: new, node.inputs[0]: new}


@local_optimizer([T.tanh])
def changes_the_node(node):
    node.op = T.sinh
    return False


@local_optimizer(None)
def log_of_product(node):
    if node.op != T.log:
        return False
    inner = node.inputs[0].owner
    if inner is None or inner.op != T.mul:
        return False
    new = T.add(*[T.log(factor) for factor in inner.inputs])
    if new.type != node.outputs[0].type:
        return False
    copy_stack_trace(node.outputs[0], new)
    return [new]


@local_optimizer([T.Subtensor])
def element_of_rest(node):
    """x[i:][j] is x[i + j], but not for negative numbers."""
    inner = node.inputs[0].owner
    if inner is None or not isinstance(inner.op, T.Subtensor):
        return False
    (outer,), (first,) = (
        node.op.get_constant_idx(node.inputs, True)[:1],
        inner.op.get_constant_idx(inner.inputs, True)[:1],
    )
    if len(node.op.idx_list) != 1 or len(inner.op.idx_list) != 1 or not isinstance(first, slice):
        return False
    if (
        not isinstance(outer, (int, np.integer))
        or first.step is not None
        or first.stop is not None
        or first.start is None
    ):
        return False
    new = inner.inputs[0][int(first.start) + int(outer)]
    copy_stack_trace(node.outputs[0], new)
    return [new]


@local_optimizer([T.Elemwise])
def drops_casts(node):
    """cast(cast(x, a), b) is cast(x, b)."""
    inner = node.inputs[0].owner
    if not isinstance(node.op.scalar_op, theano.scalar.Cast) or inner is None:
        return False
    if not isinstance(inner.op, T.Elemwise) or not isinstance(inner.op.scalar_op, theano.scalar.Cast):
        return False
    new = T.cast(inner.inputs[0], node.outputs[0].dtype)
    if new.owner is not None:
        copy_stack_trace(node.outputs[0], new)
    return [new]


@local_optimizer([T.Dot])
def dot_of_transposed(node):
    """(A.T . B.T) is (B . A).T; this forgets the exchange."""
    one, other = (v.owner for v in node.inputs)
    if (
        one is None
        or other is None
        or not all(isinstance(n.op, T.DimShuffle) and n.op.new_order == (1, 0) for n in (one, other))
    ):
        return False
    new = T.dot(one.inputs[0], other.inputs[0]).T
    copy_stack_trace(node.outputs[0], new)
    return [new]


#: Name of a rule -> kinds of difference (`comparing.KINDS`), of which the oracle must find one.
WRONG = {
    "add_zero": "sign of zero",
    "divide_then_multiply": "rounding, wraparound",
    "quotient_of_equals": "nan",
    "difference_of_equals": "nan",
    "log_exp": "infinity",
    "root_of_square": "rounding",
    "root_of_power": "rounding",
    "square_of_abs": "rounding",
    "switch_of_equals": "shape, lost error",
    "quotient_by_inverse": "rounding",
    "sum_of_transposed": "shape, rounding",
    "product_by_factor": "nan",
    "fold_negation": "type",
    "exp_in_single_precision": "type",
    "sum_keeping_dimensions": "type",
    "square_without_trace": "trace",
    "exp_over_input": "in place",
    "squares_in_place": "in place",
    "cancel_by_pattern": "nan",
    "exp_of_log": "nan",
    "triple_and_third": "rounding, wraparound",
    "difference_of_sum": "nan",
    "floor_as_truncation": "rounding",
    "round_the_other_way": "rounding",
    "without_abs": "rounding",
    "square_to_abs": "rounding",
    "forgets_that_inputs_have_no_owner": "crash",
    "two_results_for_one": "crash",
    "exp_that_grows": "endless",
    "sine_one_way": "endless",
    "cosine_there": "rounding",
    "maximum_by_comparison": "nan",
    "product_with_zero": "endless",
    "power_to_root": "infinity, new nan",
    "equal_to_itself": "endless",
    "sum_of_shifted": "rounding",
    "negates_for_all": "rounding",
    "changes_the_node": "mutation",
    "log_of_product": "new nan",
    "element_of_rest": "rounding, lost error",
    "drops_casts": "value, rounding",
    "dot_of_transposed": "shape, rounding",
}
