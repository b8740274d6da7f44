"""Operations of a step, applied to all steps at once. Each input is the same in all steps, or a variable with a row for
each step.

`plan` looks up the class of an Op in a table of functions that plan its computation for all steps. The function that
`plan` returns makes the outer variables, which have the rows along the first dimension.
"""

from copy import copy

from theano_ng import scalar
from theano_ng.compile.ops import Rebroadcast, Shape, Shape_i
from theano_ng.gof.graph import Constant
from theano_ng.tensor.basic import dot
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.indexing.advanced import AdvancedSubtensor1, advanced_subtensor1
from theano_ng.tensor.indexing.index_lists import get_idx_list
from theano_ng.tensor.indexing.subtensor import Subtensor
from theano_ng.tensor.linalg.products import Dot
from theano_ng.tensor.reductions.careduce import CAReduce
from theano_ng.tensor.reductions.extremes import MaxAndArgmax
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.shaping.joining import Join
from theano_ng.tensor.shaping.reshaping import ScalarFromTensor, reshape

_PLANS = {}


def plans(*classes):
    """Return a decorator that registers a planning function for Ops of exactly these classes."""

    def register(function):
        for cls in classes:
            _PLANS[cls] = function
        return function

    return register


def plan(node, stacked):
    """Plan how to compute a node for all steps at once.

    Parameters
    ----------
    node : Apply
    stacked : list of bool
        For each input, whether it has a row for each step.

    Returns
    -------
    (callable, bool), or None
        A function of the list of outer inputs and the number of steps, which returns the outer output (a list if there
        are several outputs), and a bool: whether this output has a row for each step. None if the node cannot be
        computed for all steps at once, or if the result would be much larger than the inputs.
    """
    make = _PLANS.get(type(node.op))
    if make is None:
        # CAReduce has many subclasses (Sum, Prod, Any, ...). They are not in the table: `_reduction` plans all of them.
        make = _reduction if isinstance(node.op, CAReduce) and _keeps_axis(type(node.op)) else None
    if make is None:
        return None
    found = make(node, stacked)
    return found if found is None or isinstance(found, tuple) else (found, True)


def _keeps_axis(cls):
    return "axis" in cls.__props__ and cls.__module__.startswith("theano_ng.")


@plans(Elemwise)
def _elemwise(node, stacked):
    pattern = node.outputs[0].type.broadcastable
    if node.op.inplace_pattern or not any(s and v.type.broadcastable == pattern for v, s in zip(node.inputs, stacked)):
        return None  # as in an outer product, a result is larger than each input row: all results need much memory
    # Inputs that are the same in all steps have one dimension less. They are broadcast along the first dimension.
    return lambda inputs, n_steps: node.op(*inputs)


@plans(DimShuffle)
def _dimshuffle(node, stacked):
    order = [o if o == "x" else o + 1 for o in node.op.new_order]
    return lambda inputs, n_steps: inputs[0].dimshuffle(0, *order)


@plans(Rebroadcast)
def _rebroadcast(node, stacked):
    pattern = node.outputs[0].type.broadcastable
    return lambda inputs, n_steps: patternbroadcast(inputs[0], (inputs[0].broadcastable[0], *pattern))


@plans(Dot)
def _dot(node, stacked):
    ranks = [v.ndim for v in node.inputs]
    if stacked == [True, False]:
        if ranks[0] == 1:
            return lambda inputs, n_steps: dot(*inputs)
        return lambda inputs, n_steps: _products(*inputs, n_steps)
    if stacked == [False, True] and ranks[1] == 1:
        return lambda inputs, n_steps: dot(inputs[1], inputs[0].T)
    if stacked == [True, True] and ranks == [1, 1] and node.inputs[0].dtype == node.outputs[0].dtype:
        return lambda inputs, n_steps: (inputs[0] * inputs[1]).sum(axis=1, dtype=node.outputs[0].dtype)
    return None


def _products(rows, factor, n_steps):
    product = dot(flattened(rows, n_steps), factor)
    lengths = [factor.shape[i] for i in range(1, factor.ndim)]
    return reshape(product, (n_steps, rows.shape[1], *lengths), ndim=product.ndim + 1)


def flattened(v, n_steps):
    """Return a stack of matrices as one matrix that contains all their rows."""
    return reshape(v, (n_steps * v.shape[1], v.shape[2]), ndim=2)


def _reduction(node, stacked):
    op = copy(node.op)
    axes = range(node.inputs[0].ndim) if op.axis is None else op.axis
    op.axis = tuple(axis + 1 for axis in axes)
    return lambda inputs, n_steps: op(inputs[0])


@plans(MaxAndArgmax)
def _extremes(node, stacked):
    op = MaxAndArgmax(tuple(axis + 1 for axis in node.op.axis))
    return lambda inputs, n_steps: op(inputs[0])


@plans(Subtensor)
def _subtensor(node, stacked):
    index = get_idx_list(node.inputs, node.op.idx_list)
    if stacked[0] and not any(stacked[1:]):
        if all(isinstance(entry, (slice, Constant)) for entry in index):
            return lambda inputs, n_steps: inputs[0][(slice(None), *get_idx_list(inputs, node.op.idx_list))]
    elif not stacked[0] and len(index) == 1 and not isinstance(index[0], slice):
        return lambda inputs, n_steps: advanced_subtensor1(*inputs)
    return None


@plans(ScalarFromTensor)
def _scalar_from_tensor(node, stacked):
    # The stacked input is a vector. Its elements are the C scalars of the steps, so the result is the vector itself.
    return lambda inputs, n_steps: inputs[0]


@plans(AdvancedSubtensor1)
def _advanced_subtensor1(node, stacked):
    if stacked != [False, True]:
        return None

    def build(inputs, n_steps):
        values, rows = inputs
        found = advanced_subtensor1(values, rows.flatten())
        lengths = [values.shape[i] for i in range(1, values.ndim)]
        return reshape(found, (n_steps, rows.shape[1], *lengths))

    return build


@plans(Join)
def _join(node, stacked):
    axis = node.inputs[0]
    if stacked[0] or not all(stacked[1:]) or not isinstance(axis, Constant) or axis.data < 0:
        return None
    return lambda inputs, n_steps: node.op(axis.data + 1, *inputs[1:])


@plans(Shape_i)
def _shape_i(node, stacked):
    return (lambda inputs, n_steps: Shape_i(node.op.i + 1)(inputs[0])), False


@plans(Shape)
def _shape(node, stacked):
    return (lambda inputs, n_steps: inputs[0].shape[1:]), False


def fitted(v, type_):
    """Return a stack of values of a type, with the type's broadcast pattern in all dimensions after the first."""
    if isinstance(type_, scalar.Scalar):
        return v
    return patternbroadcast(v, (v.broadcastable[0], *type_.broadcastable))
