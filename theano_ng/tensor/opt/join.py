"""Rules that remove useless Join, Split and Tile nodes, and that merge joined MakeVectors."""

import numpy as np

from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.assert_op import Assert, AssertShape
from theano_ng.tensor.opt.common import constant_value
from theano_ng.tensor.opt.patterns import Rest, names, ops_such, restricted, rule, terms
from theano_ng.tensor.opt.registration import register_canonicalize, register_specialize, register_stabilize
from theano_ng.tensor.opt.shape import lengths
from theano_ng.tensor.shaping.creation import MakeVector, MakeVectorPrinter  # noqa: F401  (re-exports)
from theano_ng.tensor.shaping.joining import Join, Split, Tile

x, axis, sizes = names("x", "axis", "sizes")
parts = Rest("parts")
join, tile = terms(Join, Tile)
split_into_one = ops_such(Split, condition=lambda op: op.len_splits == 1)
all_once = restricted("reps", lambda v: isinstance(v, Constant) and np.all(v.data == 1))


@register_specialize
@register_canonicalize
@rule((join(axis, x), x))
def local_join_1():
    """Remove a join of one tensor."""


@register_specialize
@register_canonicalize
@local_optimizer([Join])
def local_join_empty(node):
    """Remove operands of a join that are known to be empty along the axis.

    join(0, x, [], y)  ->  join(0, x, y)          [canonicalize, specialize, fast_run]
    join(0, np.zeros((0, 3)), A)  ->  AssertShape('all the input array dimensions except for the concatenation axis must match exactly')(
            A, eq(Shape_i(1)(A), 3))

    The other lengths of an empty operand must equal the lengths of the other operands. If only one operand with unknown
    lengths remains, an assertion checks these lengths. If several operands remain, Join checks the lengths.
    """
    axis = constant_value(node.inputs[0], only_process_constants=True)
    if axis is None:
        return False
    out, axis = node.outputs[0], int(axis)
    kept, doubtful = [], []
    for x in node.inputs[1:]:
        if not isinstance(x, Constant) or x.data.shape[axis] != 0:
            kept.append(x)
        elif x.ndim > 1 and not _agrees(x, axis % x.ndim, node):
            doubtful.append(x)
    if len(kept) == 1 and doubtful:
        new = _checked_against(doubtful, kept[0], axis % out.ndim, node.fgraph)
        copy_stack_trace(out, new)
    else:
        # Keep empty constants whose other lengths may differ from the lengths of the other operands, so that Join
        # checks these lengths at run time.
        left = {*kept, *doubtful} or {node.inputs[1]}
        left = [x for x in node.inputs[1:] if x in left]
        if len(left) == len(node.inputs) - 1:
            return False
        new = T.join(node.inputs[0], *left)
    if new.dtype != out.dtype:
        new = T.cast(new, out.dtype)
    if new.type != out.type:
        new = T.patternbroadcast(new, out.broadcastable)
        if new.type != out.type:
            return False
    copy_stack_trace(out, new)
    return [new]


def _checked_against(constants, x, axis, fgraph):
    """Return `x` with an assertion that its lengths equal the lengths of the constants, except along `axis`."""
    conditions = [
        T.eq(length, number)
        for dim, length in enumerate(lengths(x, fgraph))
        for number in sorted({c.data.shape[dim] for c in constants})
        if dim != axis
    ]
    message = "all the input array dimensions except for the concatenation axis must match exactly"
    return AssertShape(message)(x, conditions[0] if len(conditions) == 1 else T.and_(*conditions))


def _agrees(x, axis, node):
    """Return True if an operand besides the constant `x` is known to have the lengths of `x`, except along `axis`."""
    feature = getattr(node.fgraph, "shape_feature", None)
    if feature is None:
        return False
    for other in node.inputs[1:]:
        if other is x:
            continue
        shape = feature.shape_of[other]
        known = [None if d == axis else constant_value(s, only_process_constants=True) for d, s in enumerate(shape)]
        if all(d == axis or (k is not None and k == n) for d, (k, n) in enumerate(zip(known, x.data.shape))):
            return True
    return False


@register_specialize
@register_canonicalize
@rule(join(axis, parts))
def local_join_make_vector(axis, parts, out):
    """Merge neighboring MakeVectors of a join into one MakeVector.

    join(0, MakeVector('float64')(a), MakeVector('float64')(b, s), x)  ->  join(0, MakeVector('float64')(a, b, s), x)
                                                               [canonicalize, specialize, fast_run]
    """
    if out.ndim != 1:
        return None
    merged, group = [], None
    for x in parts:
        vector = x.owner is not None and isinstance(x.owner.op, MakeVector) and x.owner.inputs
        if vector and group is not None and group[0].dtype == x.dtype:
            group.append(x)
            continue
        if vector:
            group = [x]
            merged.append(group)
        else:
            group = None
            merged.append([x])
    if len(merged) == len(parts):
        return None
    parts = []
    for group in merged:
        part = group[0]
        if len(group) > 1:
            part = MakeVector(part.dtype)(*[i for x in group for i in x.owner.inputs])
            copy_stack_trace(out, part)
        parts.append(part)
    return T.join(axis, *parts)


@register_specialize
@register_canonicalize
@rule(split_into_one(x, axis, sizes))
def local_useless_split(x, axis, sizes):
    """Remove a split into one part, and assert that the part has the whole length.

    Split(1)(x, 0, [3])  ->
        Assert('Split: a single part must have the whole length of the axis')(
            x, eq(constant([3]).shape[0], 1), eq(x.shape[constant(0)], constant([3])[0]))          [canonicalize, specialize, fast_run]
    """
    guard = Assert("Split: a single part must have the whole length of the axis")
    return guard(x, T.eq(sizes.shape[0], 1), T.eq(x.shape[axis], sizes[0]))


@register_canonicalize
@register_stabilize
@rule(tile(x, all_once))
def local_useless_tile(x, reps, op, out):
    """Remove a Tile that repeats every dimension once, and thus changes at most the rank.

    Tile(2)(A, [1, 1])  ->  A          [canonicalize, stabilize, fast_run]
    Tile(2)(x, [1, 1])  ->  x.dimshuffle('x', 0)
    """
    if len(reps.data) != op.ndim:
        return None
    return T.patternbroadcast(T.shape_padleft(x, out.ndim - x.ndim) if x.ndim < out.ndim else x, out.broadcastable)
