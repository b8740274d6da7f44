"""A rule that indexes an inner axis of a tensor directly, not as the first axis of a transposed view.

`take` and ``x[:, rows]`` transpose the tensor so that the indexed axis comes first, because other rules handle only
indices of the first axis. But reading a transposed view row by row, and passing a transposed result to the next Op,
takes twice the time of indexing the axis directly.
"""

from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.indexing.advanced import (
    AdvancedIncSubtensor,
    AdvancedIncSubtensor1,
    AdvancedSubtensor1,
    advanced_subtensor,
)
from theano_ng.tensor.opt.common import shuffled
from theano_ng.tensor.opt.registration import register_specialize
from theano_ng.tensor.shaping.allocation import Alloc


def _is_permutation(order):
    return sorted(order, key=str) == sorted(range(len(order)), key=str)


@register_specialize
@local_optimizer([DimShuffle])
def local_take_along_axis(node):
    """Index an inner axis of a tensor instead of the rows of a transposed view, to read or increment elements.

    A.T[labels].T  ->  advanced_subtensor(A, slice(None), labels)          [specialize, fast_run]
    inc_subtensor(A.T[labels], B.T).T  ->  AdvancedIncSubtensor()(A, B, slice(None), labels)
    """
    if node.op.drop or not node.op.new_order or not _is_permutation(node.op.new_order):
        return False
    moved, order = node.inputs[0], list(node.op.new_order)
    inner = moved.owner
    if inner is None or len(moved.clients) > 1 or order[0] == 0:
        return False
    if isinstance(inner.op, AdvancedSubtensor1):
        view, rows = inner.inputs
        if inner.op.sparse_grad:
            return False
    elif isinstance(inner.op, AdvancedIncSubtensor1) and not inner.op.inplace:
        view, y, rows = inner.inputs
    else:
        return False
    is_alloc = view.owner is not None and isinstance(view.owner.op, Alloc) and all(view.owner.inputs[0].broadcastable)
    if is_alloc and isinstance(inner.op, AdvancedIncSubtensor1):
        sizes = view.owner.inputs[1:]
        x = T.alloc(view.owner.inputs[0], *[sizes[i] for i in order])
        copy_stack_trace(view, x)
    elif view.owner is not None and isinstance(view.owner.op, DimShuffle):
        x = view.owner.inputs[0]
        own = view.owner.op.new_order
        if not _is_permutation(own) or [own[i] for i in order] != list(range(x.ndim)):
            return False
    else:
        return False
    index = [slice(None)] * order.index(0) + [rows]
    if isinstance(inner.op, AdvancedSubtensor1):
        new = advanced_subtensor(x, *index)
    else:
        missing = view.ndim - y.ndim
        value = shuffled(y, ["x" if i < missing else i - missing for i in order])
        if value.owner is not None and value is not y:
            copy_stack_trace(y, value)
        new = AdvancedIncSubtensor(set_instead_of_inc=inner.op.set_instead_of_inc)(x, value, *index)
    if new.type != node.outputs[0].type:
        return False
    copy_stack_trace([node.outputs[0], moved], new)
    return [new]
