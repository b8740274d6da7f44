"""Rules that replace canonical forms by forms that are cheaper to compute."""

from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.tensor.elemwise import functions as T
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.indexing.index_lists import get_idx_list
from theano_ng.tensor.indexing.subtensor import Subtensor
from theano_ng.tensor.opt.patterns import Rest, names, ops_such, rule, terms, typed
from theano_ng.tensor.opt.registration import register_uncanonicalize
from theano_ng.tensor.reductions.careduce import CAReduce
from theano_ng.tensor.reductions.extremes import Argmax, Argmin, MaxAndArgmax
from theano_ng.tensor.shaping.allocation import Alloc, alloc
from theano_ng.tensor.shaping.reshaping import Reshape, reshape


def _pads_left(op):
    """Return True if a DimShuffle only adds dimensions on the left."""
    kept = len(op.input_broadcastable)
    return op.new_order == ("x",) * (len(op.new_order) - kept) + tuple(range(kept))


def _only_adds(op):
    """Return True if a DimShuffle only adds dimensions."""
    return [d for d in op.new_order if d != "x"] == list(range(len(op.input_broadcastable)))


x, shape = names("x", "shape")
sizes = Rest("sizes")
invert, filled, part, reshaped = terms(T.invert, Alloc, Subtensor, Reshape)
dropping = ops_such(DimShuffle, condition=lambda op: op.drop)
highest = ops_such(CAReduce, condition=lambda op: op.scalar_op == T.maximum.scalar_op)
argmax = ops_such(Argmax, condition=lambda op: type(op) is Argmax)
padded, with_axes = ops_such(DimShuffle, condition=_pads_left), ops_such(DimShuffle, condition=_only_adds)


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
@rule(-highest(-typed(x, kinds="f")), invert(highest(invert(x))))  # For integers, use ~x: -x may wrap around.
def local_max_to_min(node, x):
    """Replace the negated maximum of a negated tensor by the minimum of the tensor.

    -CAReduce(scalar.maximum)(-x)  ->  CAReduce(scalar.minimum)(x)          [uncanonicalize, fast_run]
    ~CAReduce(scalar.maximum)(~k)  ->  CAReduce(scalar.minimum)(k)
    """
    return CAReduce(T.minimum.scalar_op, node.inputs[0].owner.op.axis)(x)


@register_uncanonicalize
@rule(argmax(-typed(x, kinds="fc")), argmax(invert(x)))
def local_argmax_to_argmin(op, x):
    """Replace the position of the maximum of a negated tensor by the position of the minimum of the tensor.

    Argmax([0])(-x)  ->  Argmin([0])(x)          [uncanonicalize, fast_run]
    Argmax([0])(~k)  ->  Argmin([0])(k)
    """
    return Argmin(op.axis)(x)


@register_uncanonicalize
@rule(filled(padded(x), sizes))
def local_alloc_dimshuffle(x, sizes):
    """Remove a DimShuffle that pads the value of an Alloc on the left, because Alloc pads its value itself.

    alloc(x.dimshuffle('x', 0), n, 3)  ->  alloc(x, n, 3)          [uncanonicalize, fast_run]
    """
    return alloc(x, *sizes)


@register_uncanonicalize
@rule(reshaped(with_axes(x), shape))
def local_reshape_dimshuffle(x, shape, out):
    """Remove a DimShuffle before a reshape if the DimShuffle only adds broadcastable dimensions.

    x.dimshuffle('x', 0).reshape((n,))  ->  x.reshape((n,))          [uncanonicalize, fast_run]
    """
    return reshape(x, shape, ndim=out.ndim)


@register_uncanonicalize
@rule(padded(filled(x, sizes)))
def local_dimshuffle_alloc(x, sizes, out):
    """Remove a DimShuffle that adds dimensions on the left of an Alloc, because Alloc can add the dimensions itself.

    alloc(x, n, 3).dimshuffle('x', 0, 1)  ->  alloc(x, 1, n, 3)          [uncanonicalize, fast_run]
    """
    padding = out.ndim - len(sizes)
    return alloc(x, *[1] * padding, *sizes) if padding else None


@register_uncanonicalize
@rule(dropping(part(x, Rest("index"))))
def local_dimshuffle_subtensor(x, op, node):
    """Replace a slice of a broadcastable dimension by an integer index if a DimShuffle drops this dimension afterwards.

    row[0:1, i:].dimshuffle(1)  ->  row[0, i:].dimshuffle(0)          [uncanonicalize, fast_run]
    """
    inner = node.inputs[0].owner
    index = list(get_idx_list(inner.inputs, inner.op.idx_list))
    index += [slice(None)] * (x.ndim - len(index))
    dropped, dim = set(op.drop), 0
    new_index = []
    for entry in index:
        if isinstance(entry, slice):
            if dim in dropped:
                known = x.broadcastable[len(new_index)]
                if entry.step is not None or entry.start is None and entry.stop is None and not known:
                    return None
                # If the length is known to be one, use index 0: x[-2:] takes the element, but x[-2] is out of bounds.
                entry = 0 if known or entry.start is None else entry.start
            dim += 1
        new_index.append(entry)
    remaining = [d for d in range(node.inputs[0].ndim) if d not in dropped]
    order = [d if d == "x" else remaining.index(d) for d in op.new_order]
    return x[tuple(new_index)].dimshuffle(*order)
