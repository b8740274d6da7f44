"""Rules that replace canonical forms by forms that are cheaper to compute."""

from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.tensor.elemwise import functions as T
from theano_ng.tensor.indexing.lists import get_idx_list
from theano_ng.tensor.shaping.allocation import Alloc, alloc
from theano_ng.tensor.reductions.extremes import Argmax, Argmin, MaxAndArgmax
from theano_ng.tensor.shaping.reshaping import Reshape
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.reductions.careduce import CAReduce
from theano_ng.tensor.opt.registration import register_uncanonicalize
from theano_ng.tensor.shaping.reshaping import reshape
from theano_ng.tensor.indexing.subtensor import Subtensor


@register_uncanonicalize
@local_optimizer([MaxAndArgmax])
def local_max_and_argmax(node):
    """Compute only the maximum or only its position, if the other output has no clients.

    MaxAndArgmax([1])(A)[0]  ->  CAReduce(scalar.maximum, [1])(A)          [uncanonicalize, fast_run]
    MaxAndArgmax([1])(A)[1]  ->  Argmax([1])(A)
    """
    axis = node.op.axis
    if len(node.outputs[0].clients) == 0:
        new = Argmax(axis)(node.inputs[0])
        copy_stack_trace(node.outputs[0], new)
        return [None, new]
    if len(node.outputs[1].clients) == 0:
        new = CAReduce(T.maximum.scalar_op, axis)(node.inputs[0])
        copy_stack_trace(node.outputs[0], new)
        return [new, None]
    return None


@register_uncanonicalize
@local_optimizer([T.neg, T.invert])
def local_max_to_min(node):
    """Replace the negated maximum of a negated tensor by the minimum of the tensor.

    -CAReduce(scalar.maximum)(-x)  ->  CAReduce(scalar.minimum)(x)          [uncanonicalize, fast_run]
    ~CAReduce(scalar.maximum)(~k)  ->  CAReduce(scalar.minimum)(k)
    """
    if node.inputs[0].owner is None or node.op == T.neg and node.inputs[0].dtype[0] != "f":
        return None  # The negatives of integers may wrap around.
    reduction = node.inputs[0].owner
    if not isinstance(reduction.op, CAReduce) or reduction.op.scalar_op != T.maximum.scalar_op:
        return None
    reversed_order = reduction.inputs[0]
    if reversed_order.owner is None or reversed_order.owner.op != node.op:
        return None
    new = CAReduce(T.minimum.scalar_op, reduction.op.axis)(reversed_order.owner.inputs[0])
    copy_stack_trace(node.outputs[0], new)
    return [new]


@register_uncanonicalize
@local_optimizer([Argmax])
def local_argmax_to_argmin(node):
    """Replace the position of the maximum of a negated tensor by the position of the minimum of the tensor.

    Argmax([0])(-x)  ->  Argmin([0])(x)          [uncanonicalize, fast_run]
    Argmax([0])(~k)  ->  Argmin([0])(k)
    """
    if type(node.op) is not Argmax or node.inputs[0].owner is None:
        return None
    (x,) = node.inputs
    if x.owner.op != (T.invert if x.dtype[0] in "biu" else T.neg):
        return None
    new = Argmin(node.op.axis)(x.owner.inputs[0])
    copy_stack_trace(node.outputs[0], new)
    return [new]


@register_uncanonicalize
@local_optimizer([Alloc])
def local_alloc_dimshuffle(node):
    """Remove a DimShuffle that pads the value of an Alloc on the left: Alloc does that itself.

    alloc(x.dimshuffle('x', 0), n, 3)  ->  alloc(x, n, 3)          [uncanonicalize, fast_run]
    """
    value = node.inputs[0]
    if value.owner is None or not isinstance(value.owner.op, DimShuffle):
        return None
    order = value.owner.op.new_order
    kept = len(value.owner.inputs[0].broadcastable)
    if order != ("x",) * (len(order) - kept) + tuple(range(kept)):
        return None
    new = alloc(value.owner.inputs[0], *node.inputs[1:])
    copy_stack_trace(node.outputs[0], new)
    return [new]


@register_uncanonicalize
@local_optimizer([Reshape])
def local_reshape_dimshuffle(node):
    """Remove a DimShuffle before a reshape if it only adds broadcastable dimensions.

    x.dimshuffle('x', 0).reshape((n,))  ->  x.reshape((n,))          [uncanonicalize, fast_run]
    """
    value = node.inputs[0]
    if value.owner is None or not isinstance(value.owner.op, DimShuffle):
        return None
    kept = [d for d in value.owner.op.new_order if d != "x"]
    if kept != list(range(value.owner.inputs[0].ndim)):
        return None
    new = reshape(value.owner.inputs[0], node.inputs[1], ndim=node.outputs[0].ndim)
    if new.type != node.outputs[0].type:
        return None
    copy_stack_trace(node.outputs[0], new)
    return [new]


@register_uncanonicalize
@local_optimizer([DimShuffle])
def local_dimshuffle_alloc(node):
    """Let Alloc add dimensions on the left instead of a DimShuffle.

    alloc(x, n, 3).dimshuffle('x', 0, 1)  ->  alloc(x, 1, n, 3)          [uncanonicalize, fast_run]
    """
    if node.inputs[0].owner is None:
        return None
    inner = node.inputs[0].owner
    if not isinstance(inner.op, Alloc):
        return None
    order = node.op.new_order
    kept = node.inputs[0].ndim
    padding = len(order) - kept
    if padding < 1 or order != ("x",) * padding + tuple(range(kept)):
        return None
    new = alloc(inner.inputs[0], *((1,) * padding + tuple(inner.inputs[1:])))
    if new.type != node.outputs[0].type:
        return None
    copy_stack_trace(node.outputs[0], new)
    return [new]


@register_uncanonicalize
@local_optimizer([DimShuffle])
def local_dimshuffle_subtensor(node):
    """Index broadcastable dimensions away that are sliced first and dropped by a DimShuffle afterwards.

    row[0:1, i:].dimshuffle(1)  ->  row[0, i:].dimshuffle(0)          [uncanonicalize, fast_run]
    """
    if node.inputs[0].owner is None or not node.op.drop:
        return None
    inner = node.inputs[0].owner
    if not isinstance(inner.op, Subtensor):
        return None
    source = inner.inputs[0]
    index = list(get_idx_list(inner.inputs, inner.op.idx_list))
    index += [slice(None)] * (source.ndim - len(index))
    dropped, dim = set(node.op.drop), 0
    new_index = []
    for entry in index:
        if isinstance(entry, slice):
            if dim in dropped:
                known = source.broadcastable[len(new_index)]
                if entry.step is not None or entry.start is None and entry.stop is None and not known:
                    return None
                # In a dimension of length one, x[-2:] takes everything, but x[-2] is out of bounds.
                entry = 0 if known or entry.start is None else entry.start
            dim += 1
        new_index.append(entry)
    remaining = [d for d in range(node.inputs[0].ndim) if d not in dropped]
    order = [d if d == "x" else remaining.index(d) for d in node.op.new_order]
    new = source[tuple(new_index)].dimshuffle(*order)
    if new.type != node.outputs[0].type:
        return None
    copy_stack_trace(node.outputs[0], new)
    return [new]
