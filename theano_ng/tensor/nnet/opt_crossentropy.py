"""Rules that replace softmax, cross-entropies and their gradients by stable, fused forms."""

import numpy as np

from theano_ng.compile import optdb
from theano_ng.compile.ops import Shape, Shape_i
from theano_ng.gof.graph import Variable
from theano_ng.gof.rewriting import copy_stack_trace, in2out, local_optimizer, optimizer
from theano_ng.tensor.dtypes import FLOATS, INTEGERS
from theano_ng.tensor.elemwise import functions as T
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.equality import shuffled_from, summed_along
from theano_ng.tensor.indexing.advanced import AdvancedIncSubtensor, AdvancedSubtensor
from theano_ng.tensor.indexing.subtensor import Subtensor
from theano_ng.tensor.nnet.crossentropy import (
    CrossentropyCategorical1HotGrad,
    CrossentropySoftmaxArgmax1HotWithBias,
    crossentropy_categorical_1hot,
    crossentropy_softmax_1hot_with_bias_dx,
    crossentropy_softmax_argmax_1hot_with_bias,
)
from theano_ng.tensor.nnet.sigmoids import sigmoid, softplus, softsign
from theano_ng.tensor.nnet.softmax import SoftmaxGrad, logsoftmax_op, softmax_grad, softmax_op, softmax_with_bias
from theano_ng.tensor.opt.alloc import fitted
from theano_ng.tensor.opt.canonicalize import local_mul_canonizer
from theano_ng.tensor.opt.common import MAX_SHARED, constant_value, inputs_of, is_constant, op_of
from theano_ng.tensor.opt.patterns import Rest, alone, names, restricted, rule, terms
from theano_ng.tensor.opt.registration import (
    ignores_nonfinite,
    register_canonicalize,
    register_specialize,
    register_stabilize,
)
from theano_ng.tensor.opt.shape import lengths, same_length
from theano_ng.tensor.reductions.careduce import Sum
from theano_ng.tensor.reductions.extremes import Argmax, MaxAndArgmax
from theano_ng.tensor.shaping.allocation import Alloc
from theano_ng.tensor.shaping.creation import ARange, zeros
from theano_ng.tensor.shaping.reshaping import ScalarFromTensor, TensorFromScalar

_SOFTMAXES = (softmax_op, softmax_with_bias)

x, A, labels = names("x", "A", "labels")
scalar_x = restricted(x, lambda v: all(v.broadcastable))
alloc, exp, log, second = terms(Alloc, T.exp, T.log, T.second)
softmax, logsoftmax, d_softmax, any_d_softmax = terms(softmax_op, logsoftmax_op, softmax_grad, SoftmaxGrad)
softmax_of_A = restricted("softmax", lambda v: op_of(v) == softmax_op)
d_crossentropy, d_both = terms(CrossentropyCategorical1HotGrad, crossentropy_softmax_1hot_with_bias_dx)


def _split_bias(x):
    """Return (m, b) if `x` is m + b, with a vector b that is added to every row. Return None if `x` is not such a sum.

    If all terms of the sum are rows, m is the first term.
    """
    if op_of(x) != T.add:
        return None
    rows, matrices = [], []
    for term in x.owner.inputs:
        (rows if term.type.broadcastable == (True, False) else matrices).append(term)
    if not matrices:
        matrices.append(rows.pop(0))
    if not rows:
        return None
    vectors = []
    for row in rows:
        is_shuffled = isinstance(op_of(row), DimShuffle) and row.owner.op.new_order == ("x", 0)
        vectors.append(row.owner.inputs[0] if is_shuffled else row.dimshuffle(1))
    total = T.add(*matrices) if len(matrices) > 1 else matrices[0]
    bias = T.add(*vectors) if len(vectors) > 1 else vectors[0]
    return (total, bias) if bias.type.dtype == x.type.dtype and total.type == x.type else None


def _with_bias(x):
    """Return (m, b) so that m + b equals the variable `x` of a graph. If `x` has no bias, b is a vector of zeros."""
    return _split_bias(x) or (x, zeros(lengths(x, x.fgraph)[1:], dtype=x.dtype))


def _softmax_input(sm):
    """Return (x, b) if `sm` is softmax(x + b). For softmax(x), b is zero. Return None for other variables."""
    if sm.owner is None or sm.owner.op not in _SOFTMAXES:
        return None
    return tuple(sm.owner.inputs) if sm.owner.op == softmax_with_bias else _with_bias(sm.owner.inputs[0])


@register_canonicalize("fast_compile")
@ignores_nonfinite
@rule(exp(x) / "total")
def local_softmax_by_hand(x, node, out):
    """Use softmax for exponentials that are divided by the sums of their rows.

    exp(A) / sum(exp(A), axis=1, keepdims=True)  ->  softmax_op(A)          [canonicalize, fast_run, fast_compile]
    """
    is_matrix = x.type == out.type and out.ndim == 2 and out.dtype in FLOATS
    return softmax_op(x) if is_matrix and summed_along(*node.inputs) == (1,) else None


# This rule runs before the rule "logarithms" (at position 0.7 of optdb), so that the logarithm of a handwritten softmax
# becomes the same Op as the logarithm of the library's softmax. Otherwise the logarithm would become a sum whose terms
# merge with the terms of other sums.
optdb.register("softmax_by_hand", in2out(local_softmax_by_hand, ignore_newtrees=True), 0.69, "fast_run", "fast_compile")


# --- value -------------------------------------------------------------------------------------------------------------------


def _fuse_crossentropies(fgraph, softmaxes, reason):
    """Fuse each cross-entropy node with its softmax: the first input, if an Op in `softmaxes` computes it."""
    for node in fgraph.toposort():
        if node.op != crossentropy_categorical_1hot or node.fgraph is not fgraph:
            continue
        sm, labels = node.inputs
        if op_of(sm) not in softmaxes:
            continue
        new_nll, new_sm, argmax = crossentropy_softmax_argmax_1hot_with_bias(*_softmax_input(sm), labels)
        if new_nll.type != node.outputs[0].type:
            continue
        copy_stack_trace(node.outputs[0], [new_nll, argmax])
        copy_stack_trace([sm, node.outputs[0]], new_sm)
        fgraph.replace_all_validate([(node.outputs[0], new_nll), (sm, new_sm)], reason=reason)


@register_stabilize("fast_compile_gpu")
@register_specialize("fast_compile_gpu")
@optimizer
def crossentropy_to_crossentropy_with_softmax_with_bias(fgraph):
    """Compute the cross-entropy of labels and a softmax with bias directly from the input of the softmax.

    crossentropy_categorical_1hot(softmax_with_bias(A, x), labels)  ->
        crossentropy_softmax_argmax_1hot_with_bias(A, x, labels)[0]          [stabilize, specialize, fast_run, fast_compile_gpu]
    """
    _fuse_crossentropies(fgraph, (softmax_with_bias,), "crossentropy_to_crossentropy_with_softmax_with_bias")


@optimizer
def crossentropy_to_crossentropy_with_softmax(fgraph):
    """Compute the cross-entropy of labels and a softmax directly from the input of the softmax.

    crossentropy_categorical_1hot(softmax_op(A), labels)  ->
        crossentropy_softmax_argmax_1hot_with_bias(A, zeros([Shape_i(1)(A)]), labels)[0]          [fast_run, xent, fast_compile_gpu]

    The rule runs late, after all biases have been moved into `softmax_with_bias`.
    """
    _fuse_crossentropies(fgraph, _SOFTMAXES, "crossentropy_to_crossentropy_with_softmax")


optdb.register(
    "crossentropy_to_crossentropy_with_softmax",
    crossentropy_to_crossentropy_with_softmax,
    2.01,
    "fast_run",
    "xent",
    "fast_compile_gpu",
)


@register_specialize("fast_compile_gpu", "local_crossentropy_to_crossentropy_with_softmax_grad")
@rule((d_softmax(d_crossentropy(x, A, labels), A), d_both(x, A, labels)))
def local_softmax_grad_to_crossentropy_with_softmax_grad():
    """Compute the gradient of a cross-entropy of a softmax without a division by the softmax."""


# These functions are increasing on their domains.
_INCREASING = frozenset(
    [T.exp, T.exp2, T.expm1, T.log, T.log2, T.log10, T.log1p, T.sqrt, T.erf, T.erfinv, T.deg2rad, T.rad2deg]
    + [T.sinh, T.tanh, T.arcsin, T.arctan, T.arcsinh, T.arccosh, T.arctanh, sigmoid, softplus, softsign]
)


def _of_the_same_order(x, axis):
    """Return a simpler variable that has the same argmax along `axis` as `x`.

    Return None if there is no such variable.
    """
    op = op_of(x)
    if op in _INCREASING:
        (source,) = x.owner.inputs
        return None if source.dtype.startswith("complex") else source
    if op == T.neg:
        smallest = _of_the_same_order(x.owner.inputs[0], axis) if op_of(x.owner.inputs[0]) != T.neg else None
        # Accept only floats, because the negative of an integer may wrap around.
        return None if smallest is None or not smallest.dtype.startswith("float") else -smallest
    if axis != (x.ndim - 1,):
        return None
    if op in (softmax_op, logsoftmax_op):
        return x.owner.inputs[0]
    if op == softmax_with_bias:
        pre_x, pre_b = x.owner.inputs
        return pre_x + pre_b.dimshuffle("x", 0)
    return None


@register_specialize("fast_compile_gpu")
@ignores_nonfinite
@local_optimizer([MaxAndArgmax, Argmax])
def local_argmax_pushdown(node):
    """Replace the argmax of f(x) by the argmax of x if f is increasing, or is a softmax over the same axis.

    Argmax([1])(softmax_op(A))  ->  Argmax([1])(A)          [specialize, fast_run, fast_compile_gpu]
    Argmax(None)(exp(A))  ->  Argmax(None)(A)
    Argmax([0])(-tanh(A))  ->  Argmax([0])(-A)

    Two kinds of elements may change the result, because now the arguments of the function are compared: elements for
    which the function is NaN, and different elements that the function rounds to one value.
    """
    if isinstance(node.op, MaxAndArgmax) and node.outputs[0].clients:
        return None
    x = node.inputs[0]
    axis = node.op.axis
    source = _of_the_same_order(x, tuple(range(x.ndim)) if axis is None else tuple([a % x.ndim for a in axis]))
    if source is None:
        return None
    results = node.op(source, return_list=True)
    if results[-1].type != node.outputs[-1].type:
        return None
    copy_stack_trace(node.outputs, results)
    return results if len(results) == 1 else dict([(node.outputs[-1], results[-1])])


@register_specialize("fast_compile_gpu")
@rule(softmax(x))
def local_softmax_with_bias(x):
    """Let the softmax add a vector to the rows of its argument.

    softmax_op(A + x)  ->  softmax_with_bias(A, x)          [specialize, fast_run, fast_compile_gpu]
    """
    found = _split_bias(x)
    return None if found is None else softmax_with_bias(*found)


@register_specialize("fast_compile_gpu")
@local_optimizer([softmax_op, softmax_with_bias])
def graph_merge_softmax_with_crossentropy_softmax(node):
    """Replace a softmax by the second output of a cross-entropy node that has the same inputs x and b.

    (softmax_with_bias(A, x), crossentropy_softmax_argmax_1hot_with_bias(A, x, labels)[0])  ->
        crossentropy_softmax_argmax_1hot_with_bias(A, x, labels)[1::-1]          [specialize, fast_run, fast_compile_gpu]
    """
    x = node.inputs[0]
    for client, _ in x.clients:
        if (
            client != "output"
            and isinstance(client.op, CrossentropySoftmaxArgmax1HotWithBias)
            and client.inputs[0] is x
        ):
            b = client.inputs[1]
            if _is_same_bias(b, node.inputs[1]) if node.op == softmax_with_bias else is_constant(b, 0):
                return [client.outputs[1]]
    return None


def _is_same_bias(a, b):
    """Return True if two vectors are identical, or equal sums of identical rows."""
    todo = [(a, b)]
    for a, b in todo:
        if a is b:
            continue
        if op_of(a) is None or op_of(a) != op_of(b) or not isinstance(a.owner.op, (DimShuffle, Elemwise)):
            return False
        if len(todo) > MAX_SHARED or len(a.owner.inputs) != len(b.owner.inputs):
            return False
        todo += zip(a.owner.inputs, b.owner.inputs)
    return True


@register_stabilize("fast_compile")
@register_specialize("stabilize", "fast_compile")
@rule((log(softmax(A)), logsoftmax(A)))
def local_logsoftmax():
    """Compute the logarithm of a softmax accurately, even if probabilities are rounded to 0."""


@register_specialize
@ignores_nonfinite
@rule(x - alone(log("total")))
def local_logsoftmax_by_hand(x, total, out):
    """Replace a matrix minus the logarithm of the sum of exponentials of each row by logsoftmax of the matrix.

    A - log(sum(exp(A), axis=1, keepdims=True))  ->  logsoftmax_op(A)          [specialize, fast_run]

    The rule applies only if the subtraction is the only client of the logarithm.
    """
    is_matrix = x.type == out.type and out.ndim == 2 and out.dtype in FLOATS
    return logsoftmax_op(x) if is_matrix and summed_along(T.exp(x), total) == (1,) else None


# --- labels by advanced indexing ---------------------------------------------------------------------------------------------


def _check_rows_is_arange_len_labels(rows, labels):
    """Return True if `rows` is arange(len(labels)): a constant, or an ARange of the length of `labels`."""
    feature = getattr(getattr(labels, "fgraph", None), "shape_feature", None)
    shape_of = {} if feature is None else feature.shape_of
    if isinstance(op_of(rows), ARange):
        start, stop, step = rows.owner.inputs
        if not is_constant(start, 0) or not is_constant(step, 1):
            return False
        return _is_length_of(stop, labels, shape_of)
    if hasattr(rows, "data") and labels in shape_of:
        length = constant_value(shape_of[labels][0])
        return length is not None and np.array_equal(rows.data, np.arange(length))
    return False


def _is_length_of(stop, labels, shape_of):
    """Return True if a scalar is ``labels.shape[0]``, or the form that canonicalization gives this expression."""
    while stop.owner is not None:
        node = stop.owner
        if isinstance(node.op, Shape_i) and node.op.i == 0 and node.inputs[0] is labels:
            return True
        if isinstance(node.op, Subtensor) and isinstance(op_of(node.inputs[0]), Shape):
            # The form ``labels.shape[0]`` exists only before canonicalization.
            index = node.inputs[1:]
            return (
                node.inputs[0].owner.inputs[0] is labels
                and len(index) == 1
                and not isinstance(node.op.idx_list[0], slice)
                and is_constant(index[0], 0)
            )
        if isinstance(node.op, (ScalarFromTensor, TensorFromScalar)) or (
            isinstance(node.op, Elemwise) and len(node.inputs) == 1 and type(node.op.scalar_op).__name__ == "Cast"
        ):
            stop = node.inputs[0]
            continue
        break
    shape = shape_of.get(labels)
    return shape is not None and same_length(shape[0], stop)


def _is_label_indexing(node):
    """Return (matrix, labels) if a node is ``matrix[arange(len(labels)), labels]``. Otherwise, return None."""
    if not isinstance(node.op, AdvancedSubtensor) or len(node.inputs) != 3:
        return None
    matrix, rows, labels = node.inputs
    if matrix.ndim != 2 or not _are_labels(labels):
        return None
    return (matrix, labels) if _every_row_has_label(matrix, rows, labels) else None


def _are_labels(index):
    """Return True if an entry of an index is a vector of integers. Return False for slices and None, for example."""
    return getattr(index, "ndim", None) == 1 and index.dtype in INTEGERS


def _every_row_has_label(matrix, rows, labels):
    """Return True if `rows` and `labels` select one element of each row of a matrix.

    A variable is assumed to contain valid labels. A constant is checked, because it may select any elements.
    """
    if not _check_rows_is_arange_len_labels(rows, labels):
        return False
    if hasattr(labels, "data") and np.any(labels.data < 0):
        return False
    return not hasattr(rows, "data") or constant_value(lengths(matrix, rows.fgraph)[0]) == len(rows.data)


@register_specialize("fast_compile_gpu")
@local_optimizer([AdvancedSubtensor, T.log])
def local_advanced_indexing_crossentropy_onehot(node):
    """Replace cross-entropies that are written with advanced indexing by the fused Op.

    log(softmax_op(A))[every_row, labels]  ->
        -crossentropy_softmax_argmax_1hot_with_bias(A, zeros([Shape_i(1)(A)]), labels)[0]          [specialize, fast_run, fast_compile_gpu]
    log(softmax_op(A)[every_row, labels])  ->
        -crossentropy_softmax_argmax_1hot_with_bias(A, zeros([Shape_i(1)(A)]), labels)[0]

    The fused Op raises ValueError at run time if labels are negative, or if there are not as many labels as rows.
    """
    if isinstance(node.op, AdvancedSubtensor):
        found = _is_label_indexing(node)
        if found is None:
            return None
        matrix, labels = found
        if op_of(matrix) == logsoftmax_op:
            source = _with_bias(matrix.owner.inputs[0])
        elif op_of(matrix) == T.log:
            source = _softmax_input(matrix.owner.inputs[0])
        else:
            return None
    else:
        picked = node.inputs[0]
        found = None if picked.owner is None else _is_label_indexing(picked.owner)
        if found is None:
            return None
        labels = found[1]
        source = _softmax_input(found[0])
    if source is None:
        return None
    return fitted(-crossentropy_softmax_argmax_1hot_with_bias(*source, labels)[0], node.outputs[0])


def _label_increment(variable):
    """Return (values, labels) if a matrix is zero except for values at [arange(len(labels)), labels].

    Return None otherwise.
    """
    node = variable.owner
    if node is None or not isinstance(node.op, AdvancedIncSubtensor) or len(node.inputs) != 4:
        return None
    zeros, values, rows, labels = node.inputs
    if not is_constant(zeros, 0) or not _are_labels(labels) or not _every_row_has_label(zeros, rows, labels):
        return None
    return values, labels


def _increment_over_softmax(d_sm, sm):
    """Return (values, labels) if `d_sm` is ``m / sm``, with a matrix m that is zero except for values at the labels.

    Return None for other variables.
    """
    num, denum = local_mul_canonizer.get_num_denum(d_sm)
    if not any(d is sm for d in denum):
        return None
    increments = [(n, found) for n, found in ((n, _label_increment(n)) for n in num) if found is not None]
    if len(increments) != 1:
        return None
    increment, (values, labels) = increments[0]
    num = [n for n in num if n is not increment]
    position = [d is sm for d in denum].index(True)
    denum = denum[:position] + denum[position + 1 :]
    if not num and not denum:
        return values, labels
    factor = local_mul_canonizer.merge_num_denum(num, denum)
    if factor.ndim == 2 and not factor.broadcastable[1]:
        return None
    if factor.ndim == 2:
        factor = factor.dimshuffle(*([] if factor.broadcastable[0] else [0]))
    return values * factor, labels


def _increment_over_picked(d_sm, sm):
    """Return (values, labels) if `d_sm` is ``values / sm[arange(len(labels)), labels]`` at the labels, 0 elsewhere.

    Return None for other variables.
    """
    found = _label_increment(d_sm)
    if found is None:
        return None
    quotient, labels = found
    num, denum = local_mul_canonizer.get_num_denum(quotient)
    for i, picked in enumerate(denum):
        parts = None if picked.owner is None else _is_label_indexing(picked.owner)
        if parts is not None and parts[0] is sm and parts[1] is labels:
            return local_mul_canonizer.merge_num_denum(num, denum[:i] + denum[i + 1 :]), labels
    return None


@register_specialize("fast_compile_gpu")
@local_optimizer([softmax_grad])
def local_advanced_indexing_crossentropy_onehot_grad(node):
    """Replace gradients of the expressions that `local_advanced_indexing_crossentropy_onehot` replaces.

    softmax_grad(inc_subtensor(zeros_like(A)[every_row, labels], x) / softmax_op(A), softmax_op(A))  ->
        crossentropy_softmax_1hot_with_bias_dx(-x, softmax_op(A), labels)          [specialize, fast_run, fast_compile_gpu]
    softmax_grad(inc_subtensor(zeros_like(A)[every_row, labels], x / softmax_op(A)[every_row, labels]), softmax_op(A))  ->
        crossentropy_softmax_1hot_with_bias_dx(-x, softmax_op(A), labels)

    The quotients by the softmax may have further factors that do not vary within a row. The rule multiplies the values
    (x in the examples) by these factors.
    """
    d_sm, sm = node.inputs
    if d_sm.owner is None:
        return None
    found = _increment_over_softmax(d_sm, sm) or _increment_over_picked(d_sm, sm)
    if found is None:
        return None
    values, labels = found
    if values.ndim > 1:
        return None
    if values.type.dtype != sm.type.dtype:
        values = T.cast(values, sm.type.dtype)
    result = crossentropy_softmax_1hot_with_bias_dx(-values, sm, labels)
    copy_stack_trace(node.outputs[0], result)
    return [result] if result.type == node.outputs[0].type else None


# The gradient is a view of a matrix: the matrix itself, or its only row as a vector. This dict maps the `new_order` of
# the view to the `new_order` of the DimShuffle that lets the sums of the rows broadcast to the view.
_COLUMN_VIEWS = {(0, 1): (0, "x"), (1,): (0,)}


@register_specialize("fast_compile_gpu")
@local_optimizer([T.sub])
def local_crossentropy_onehot_grad(node):
    """Replace the gradient of a cross-entropy, in the form that differentiation produces, by the fused gradient.

    (lambda g: g - softmax_op(A) * sum(g, axis=1, keepdims=True))(inc_subtensor(zeros_like(A)[every_row, labels], x))  ->
        crossentropy_softmax_1hot_with_bias_dx(-x, softmax_op(A), labels)          [specialize, fast_run, fast_compile_gpu]

    This form has no division by the softmax. If the input of the softmax is a vector that is viewed as a matrix with
    one row, the gradient is viewed as a vector. Earlier rules have moved this view to the increment, the softmax and
    the sum.
    """
    for (increment, product), negative in ((node.inputs, False), (node.inputs[::-1], True)):
        increment, view = shuffled_from(increment)
        if tuple(view) not in _COLUMN_VIEWS:
            continue
        found = _label_increment(increment)
        factors = inputs_of(product, T.mul)
        if found is None or factors is None or len(factors) != 2:
            continue
        values, labels = found
        for sm, total in (factors, factors[::-1]):
            (sm, same_view), (total, order) = shuffled_from(sm), shuffled_from(total)
            if tuple(same_view) != tuple(view) or tuple(order) != _COLUMN_VIEWS[tuple(view)]:
                continue
            if op_of(sm) is None or not _is_row_sum(total, increment) or not _is_softmax(sm) or values.ndim > 1:
                continue
            if values.type.dtype != sm.type.dtype:
                values = T.cast(values, sm.type.dtype)
            result = crossentropy_softmax_1hot_with_bias_dx(values if negative else -values, sm, labels)
            if len(view) == 1:
                result = result.dimshuffle(*view)
            if result.type != node.outputs[0].type:
                return None
            copy_stack_trace(node.outputs[0], result)
            return [result]
    return None


def _is_row_sum(v, x):
    return isinstance(op_of(v), Sum) and v.owner.inputs[0] is x and tuple(v.owner.op.axis or ()) == (1,)


def _is_softmax(v):
    if isinstance(op_of(v), CrossentropySoftmaxArgmax1HotWithBias):
        return v is v.owner.outputs[1]
    return op_of(v) in _SOFTMAXES


@register_stabilize("fast_compile")
@register_specialize("stabilize", "fast_compile")
@rule(any_d_softmax(alone(x / softmax_of_A), softmax_of_A))
def local_logsoftmax_grad(x, node):
    """Compute the gradient of log(softmax(x)) without a division by the softmax.

    softmax_grad(B / softmax_op(A), softmax_op(A))  ->  B - sum(B, axis=1, keepdims=True) * softmax_op(A)
                                                               [stabilize, specialize, fast_run, fast_compile]
    """
    quotient, sm = node.inputs
    if _label_increment(x) is not None:
        return None  # Another rule fuses this gradient.
    if x.dtype != quotient.dtype:
        x = T.cast(x, quotient.dtype)  # Sums of integers would wrap around.
    if x.broadcastable[1] and not sm.broadcastable[1]:
        x = T.second(sm, x)
    return x - x.sum(axis=1, keepdims=True) * sm


@register_specialize
@register_stabilize
@register_canonicalize
@rule(d_both(alloc(scalar_x, Rest("lengths")), A, labels), d_both(second("model", scalar_x), A, labels))
def local_useless_crossentropy_softmax_1hot_with_bias_dx_alloc(op, x, A, labels):
    """Remove the Alloc or `fill` of a gradient that is equal for all rows.

    crossentropy_softmax_1hot_with_bias_dx(alloc(s, n), softmax_op(A), labels)  ->
        crossentropy_softmax_1hot_with_bias_dx(s, softmax_op(A), labels)          [canonicalize, stabilize, specialize, fast_run]
    """
    return op(x.dimshuffle(x.ndim - 1) if x.ndim > 1 else x, A, labels)


def softmax_simplifier(numerators, denominators):
    """Replace the factor exp(x) and the divisor sum(exp(x), axis=1, keepdims=True) of a quotient by softmax_op(x).

    `x` is a matrix. The arguments are those of a simplifier; see `Canonizer.add_simplifier`.
    """
    # Skip constants: the simplifier gets them as arrays, not as variables.
    for numerator in [n for n in numerators if isinstance(n, Variable)]:
        if op_of(numerator) != T.exp or numerator.ndim != 2:
            continue
        for denominator in [d for d in denominators if isinstance(d, Variable)]:
            shuffle = denominator.owner
            if shuffle is None or not isinstance(shuffle.op, DimShuffle) or shuffle.op.new_order != (0, "x"):
                continue
            total = shuffle.inputs[0].owner
            if (
                total is None
                or not isinstance(total.op, Sum)
                or total.op.axis != (1,)
                or total.inputs[0] is not numerator
            ):
                continue
            result = softmax_op(numerator.owner.inputs[0])
            if result.type.dtype != numerator.type.dtype:
                continue
            copy_stack_trace(numerator, result)
            # Compare by identity: the lists may contain arrays, for which == gives no bool.
            numerators.pop(next(i for i, n in enumerate(numerators) if n is numerator))
            denominators.pop(next(i for i, d in enumerate(denominators) if d is denominator))
            numerators.append(result)
            break
    return numerators, denominators


local_mul_canonizer.add_simplifier(softmax_simplifier, "softmax_simplifier")
