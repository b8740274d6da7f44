"""Rules that merge, remove and move Reshape and Flatten, and let DimShuffle handle dimensions of length one."""

import numpy as np

from theano_ng.compile.ops import Shape, Shape_i
from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.indexing.subtensor import Subtensor
from theano_ng.tensor.opt.common import constant_value
from theano_ng.tensor.opt.lift import lifted_through_functions, lifts
from theano_ng.tensor.opt.patterns import names, rule, terms
from theano_ng.tensor.opt.registration import register_canonicalize, register_stabilize
from theano_ng.tensor.opt.shape import same_length
from theano_ng.tensor.shaping.creation import MakeVector
from theano_ng.tensor.shaping.reshaping import Flatten, Reshape

x, y, shape = names("x", "y", "shape")
reshaped, shuffled = terms(Reshape, DimShuffle)


def local_reshape_chain(op):
    """Make the rule that merges consecutive nodes of an Op class.

    Parameters
    ----------
    op : class
        `Reshape` or a class with its interface.

    Returns
    -------
    LocalOptimizer
        The rule, whose name is ``local_reshape_chain``.
    """

    merged_op = op
    (reshaped,) = terms(merged_op)

    @rule(reshaped(reshaped(x, y), shape))
    def local_reshape_chain(op, x, shape, node):
        """Merge consecutive reshapes.

        A.reshape((9,)).reshape((3, 3))  ->  A.reshape((3, 3))          [canonicalize, fast_run]
        """
        while x.owner is not None and isinstance(x.owner.op, merged_op):
            x = x.owner.inputs[0]
        return copy_stack_trace(node.inputs[0], op(x, shape))

    return local_reshape_chain


register_canonicalize(local_reshape_chain(Reshape), name="local_reshape_chain")


def _shape_entries(shape, ndim):
    """Return the entries of a shape vector: numbers for a constant, variables for a MakeVector, otherwise all None."""
    if isinstance(shape, Constant):
        return list(shape.data)
    if shape.owner is not None and isinstance(shape.owner.op, MakeVector):
        return list(shape.owner.inputs)
    return [None] * ndim


def _is_length_of(entry, x, dim, fgraph):
    """Return True if `entry` is known to be the length of dimension `dim` of `x`."""
    node = entry.owner
    if node is not None and isinstance(node.op, Shape_i) and node.op.i == dim and node.inputs[0] is x:
        return True
    if node is not None and isinstance(node.op, Subtensor) and node.inputs[0].owner is not None:
        vector = node.inputs[0].owner
        if isinstance(vector.op, Shape) and vector.inputs[0] is x and len(node.inputs) == 2:
            return constant_value(node.inputs[1]) == dim
    feature = getattr(fgraph, "shape_feature", None)
    if feature is None or entry.dtype != "int64":
        return False
    shape = feature.shape_of[x]
    return shape is not None and same_length(shape[dim], entry)


@register_canonicalize
@register_stabilize
@local_optimizer([Reshape])
def local_useless_reshape(node):
    """Remove a reshape to the shape that the tensor already has.

    x.reshape((n,))  ->  x          [canonicalize, stabilize, fast_run]
    A.reshape(A.shape)  ->  A
    A.reshape((A.shape[0], -1))  ->  A
    """
    x, shape = node.inputs
    out = node.outputs[0]
    if x.ndim != out.ndim:
        return False
    if x.type != out.type:
        return False
    if x.ndim <= 1:
        return [x]
    if shape.owner is not None and isinstance(shape.owner.op, Shape) and shape.owner.inputs[0] is x:
        return [x]
    minus_ones = 0
    for dim, entry in enumerate(_shape_entries(shape, out.ndim)):
        if entry is None:
            return False
        if out.broadcastable[dim]:
            continue
        value = entry if not hasattr(entry, "type") else constant_value(entry)
        if value is not None and value == -1:
            minus_ones += 1
        elif value is not None:
            feature = getattr(node.fgraph, "shape_feature", None)
            known = None if feature is None else constant_value(feature.shape_of[x][dim])
            if known is None or known != value:
                return False
        elif not _is_length_of(entry, x, dim, node.fgraph):
            return False
    return [x] if minus_ones <= 1 else False


@register_canonicalize
@local_optimizer([Reshape])
def local_reshape_to_dimshuffle(node):
    """Let a DimShuffle add the dimensions of length one, and reshape only to the other dimensions of the new shape.

    A.reshape((1, 9))  ->  A.reshape((9,)).dimshuffle('x', 0)          [canonicalize, fast_run]
    """
    x, shape = node.inputs
    out = node.outputs[0]
    entries = _shape_entries(shape, out.ndim)
    order, kept = [], []
    for entry in entries:
        value = None if entry is None else entry if not hasattr(entry, "type") else constant_value(entry, True)
        if value is not None and value == 1:
            order.append("x")
        else:
            order.append(len(kept))
            kept.append(entry)
    if len(kept) == len(entries):
        return False
    if isinstance(shape, Constant):
        new_shape = np.asarray(kept, dtype=shape.dtype)
    else:
        new_shape = MakeVector(shape.dtype)(*kept)
    inner = x if kept == [] and x.ndim == 0 else T.reshape(x, new_shape, ndim=len(kept))
    copy_stack_trace(out, inner)
    new = inner.dimshuffle(*order)
    if new.type != out.type:
        return False
    copy_stack_trace(out, new)
    return [new]


@register_canonicalize
@rule(reshaped(shuffled(x), shape))
def local_useless_dimshuffle_in_reshape(op, x, shape, node):
    """Remove a DimShuffle before a reshape if the DimShuffle adds, drops or moves only dimensions of length one.

    x.dimshuffle('x', 0).reshape((n,))  ->  x.reshape((n,))          [canonicalize, fast_run]
    row.dimshuffle(1, 'x').reshape((n,))  ->  row.reshape((n,))
    """
    moved = [d for d in node.inputs[0].owner.op.new_order if d != "x" and not x.broadcastable[d]]
    return copy_stack_trace(node.inputs[0], op(x, shape)) if moved == sorted(moved) else None


@register_canonicalize
@register_stabilize
@local_optimizer([Reshape], requirements=[lifts(Reshape)])
def local_reshape_lift(node):
    """Reshape the argument of elementwise functions of one variable instead of their result.

    exp(A).reshape((9,))  ->  exp(A.reshape((9,)))          [canonicalize, stabilize, fast_run]

    Other rules, such as the rules for softplus, look for compositions of functions. A Reshape between the functions
    would hide these compositions.
    """
    lifted = lifted_through_functions(node)
    return lifted and [lifted]


@register_canonicalize
@register_stabilize
@local_optimizer([Flatten], requirements=[lifts(Flatten)])
def local_flatten_lift(node):
    """Flatten the argument of elementwise functions of one variable instead of their result.

    Flatten(1)(exp(A))  ->  exp(Flatten(1)(A))          [canonicalize, stabilize, fast_run]
    """
    lifted = lifted_through_functions(node)
    return lifted and [lifted]
