"""Rules for writes into parts of tensors: useless writes, writes to all elements, increments, in-place writes."""

import math

import numpy as np

from theano_ng.compile import optdb
from theano_ng.compile.ops import Rebroadcast
from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import TopoOptimizer, copy_stack_trace, in2out, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.assert_op import Assert
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.indexing.advanced import (
    AdvancedBooleanIncSubtensor,
    AdvancedIncSubtensor,
    AdvancedIncSubtensor1,
    AdvancedSubtensor1,
)
from theano_ng.tensor.indexing.subtensor import IncSubtensor, Subtensor
from theano_ng.tensor.opt.alloc import fitted
from theano_ng.tensor.opt.common import MAX_SHARED, constant_value, in_dtype, inputs_of, is_constant
from theano_ng.tensor.opt.patterns import Rest, copying, names, ops_such, rule
from theano_ng.tensor.opt.registration import register_canonicalize, register_specialize, register_stabilize
from theano_ng.tensor.opt.shape import lengths, same_length
from theano_ng.tensor.opt.subtensor import node_index, takes_all
from theano_ng.tensor.shaping.allocation import Alloc, AllocEmpty

INCREMENTS = (IncSubtensor, AdvancedIncSubtensor1, AdvancedIncSubtensor, AdvancedBooleanIncSubtensor)
"""Ops whose inputs are x, y and the index."""

x, y = names("x", "y")
index, inputs = Rest("index"), Rest("inputs")


def _increments(op):
    return not op.set_instead_of_inc


increment = ops_such(IncSubtensor, AdvancedIncSubtensor, AdvancedIncSubtensor1, condition=_increments)
increment_part = ops_such(IncSubtensor, condition=_increments)
set_part = ops_such(IncSubtensor, condition=lambda op: op.set_instead_of_inc)


def _unique_rows(rows):
    """Return a constant index vector as an array if it contains no row twice. Otherwise, return None."""
    if not isinstance(rows, Constant):
        return None
    data = np.asarray(rows.data)
    # -1 and 4 may be the same row, so an index with both signs is not accepted.
    if len(np.unique(data)) != len(data) or (len(data) and data.min() < 0 <= data.max()):
        return None
    return data


# -- writes without effect, and writes to all elements -----------------------------------------------------------------


@register_canonicalize("local_incsubtensor_of_allocs")
@register_stabilize("local_incsubtensor_of_allocs")
@rule((increment(x, 0, index), x))
def local_incsubtensor_of_zeros():
    """Remove an increment by zeros.

    inc_subtensor(x[i:], 0)  ->  x          [canonicalize, stabilize, fast_run, local_incsubtensor_of_allocs]
    """


@register_canonicalize
@register_specialize
@rule(increment_part(x, y, index))
def local_incsubtensor_of_zeros_to_setsubtensor(x, op, node):
    """Replace an increment of zeros by an assignment, even if other parts of the zero tensor were written before.

    inc_subtensor(zeros_like(x)[i:], s)  ->  set_subtensor(zeros_like(x)[i:], s)          [canonicalize, specialize, fast_run]
    inc_subtensor(set_subtensor(zeros_like(x)[:1], s)[1:], s)  ->  set_subtensor(set_subtensor(zeros_like(x)[:1], s)[1:], s)
    """
    if not _is_zero_at(x, node_index(node, first=2)):
        return None
    return IncSubtensor(
        op.idx_list,
        op.inplace,
        set_instead_of_inc=True,
        destroyhandler_tolerate_aliased=op.destroyhandler_tolerate_aliased,
    )(*node.inputs)


def _is_zero_at(x, index):
    """Return True if a part of a tensor is known to be zero.

    The tensor must be zero, except for writes to other parts that do not overlap with this part.

    Parameters
    ----------
    x : Variable
    index : list of slice, int or Variable
        See `node_index`.
    """
    for _ in range(MAX_SHARED):
        node = x.owner
        if node is None or not isinstance(node.op, IncSubtensor):
            break
        if not any(map(_lie_apart, index, node_index(node, first=2))):
            return False
        x = node.inputs[0]
    return is_constant(x, 0)


def _lie_apart(a, b):
    """Return True if two indices of one dimension are known to select no common element.

    Only ints and slices that count from the start of the dimension are compared.
    """
    ranges = []
    for entry in (a, b):
        if not isinstance(entry, slice):
            entry = slice(entry, entry + 1, None) if isinstance(entry, int) else slice(-1, None, None)
        start, stop = entry.start or 0, math.inf if entry.stop is None else entry.stop
        if (
            entry.step is not None
            or not isinstance(start, int)
            or not isinstance(stop, (int, float))
            or min(start, stop) < 0
        ):
            return False
        ranges.append((start, stop))
    (a_start, a_stop), (b_start, b_stop) = ranges
    return a_stop <= b_start or b_stop <= a_start


@register_canonicalize("local_setsubtensor_of_allocs")
@register_stabilize("local_setsubtensor_of_allocs")
@rule(set_part(x, y, index))
def local_setsubtensor_of_constants(x, y):
    """Remove a write of the constant that the tensor already contains.

    set_subtensor(zeros_like(x)[i:], 0)  ->  zeros_like(x)          [canonicalize, stabilize, fast_run, local_setsubtensor_of_allocs]
    """
    before = constant_value(x)
    after = None if before is None else constant_value(y)
    return x if after is not None and np.array_equal(before, np.asarray(after, dtype=x.dtype)) else None


@register_canonicalize
@register_specialize
@local_optimizer([IncSubtensor])
def local_useless_inc_subtensor(node):
    """Replace a write to all elements, or an increment of zeros in all elements, by the written value.

    set_subtensor(x[:], exp(x))  ->  exp(x)          [canonicalize, specialize, fast_run]
    inc_subtensor(zeros_like(x)[:], exp(x))  ->  exp(x)
    set_subtensor(x[::-1], exp(x))  ->  exp(x)[::-1]

    The written value must be known to have the shape of the tensor.
    """
    if node.op.inplace:
        return False
    if not all(isinstance(entry, slice) for entry in node.op.idx_list):
        return False
    x, y = node.inputs[:2]
    out = node.outputs[0]
    if y.broadcastable != x.broadcastable:
        return False
    if not node.op.set_instead_of_inc and not is_constant(x, 0):
        return False
    index, reverse = node_index(node, first=2), False
    for dim, entry in enumerate(index):
        if entry.start is None and entry.stop is None and entry.step == -1:
            reverse = True
        elif not takes_all(entry, x, dim, node.fgraph):
            return False
    x_shape, y_shape = lengths(x, node.fgraph), lengths(y, node.fgraph)
    if not all(flag or same_length(a, b) for flag, a, b in zip(x.broadcastable, x_shape, y_shape)):
        return False
    new = y if y.dtype == out.dtype else T.cast(y, out.dtype)
    if reverse:
        new = Subtensor(node.op.idx_list)(new, *node.inputs[2:])
    if new.type != out.type:
        return False
    copy_stack_trace(out, new)
    return [new]


def _adds_or_forgets_length_one(node):
    """Return True if a node only adds dimensions on the left, or makes dimensions not broadcastable."""
    if isinstance(node.op, DimShuffle):
        kept = range(node.inputs[0].ndim)
        return node.op.new_order == ("x",) * (node.outputs[0].ndim - len(kept)) + tuple(kept)
    return isinstance(node.op, Rebroadcast) and not any(node.op.axis.values())


@register_canonicalize
@register_stabilize
@register_specialize
@local_optimizer([IncSubtensor, AdvancedIncSubtensor, AdvancedIncSubtensor1])
def local_useless_inc_subtensor_alloc(node):
    """Write a value without repeating it first by Alloc: the write broadcasts the value.

    inc_subtensor(x[:], alloc(s, Shape_i(0)(x)))  ->  inc_subtensor(x[:], s)          [canonicalize, stabilize, specialize, fast_run]

    If the lengths of the Alloc are not known to equal the lengths of the written part, an assertion checks them. Nodes
    between the Alloc and the write that only add dimensions on the left, or forget that a length is 1, are left out, too.
    """
    x, y = node.inputs[:2]
    index = node.inputs[2:]
    while y.owner is not None and _adds_or_forgets_length_one(y.owner):
        y = y.owner.inputs[0]
    if y.owner is None or not isinstance(y.owner.op, Alloc):
        return False
    v = y.owner.inputs[0]
    if v.broadcastable == y.broadcastable:
        return False  # Keep an Alloc that repeats nothing, because it checks the shape.
    if isinstance(node.op, IncSubtensor):
        part = Subtensor(node.op.idx_list)(x, *index)
    elif isinstance(node.op, AdvancedIncSubtensor1):
        part = AdvancedSubtensor1()(x, *index)
    else:
        part = T.advanced_subtensor(x, *index)
    part_shape = lengths(part, node.fgraph)
    first, sizes, of_value = part.ndim - y.ndim, y.owner.inputs[1:], lengths(v, node.fgraph)
    conditions = []
    for dim in range(y.ndim):
        size, inner = sizes[dim], dim - (y.ndim - v.ndim)
        if y.broadcastable[dim]:
            continue  # y has length 1 here. The write broadcasts it with or without the Alloc.
        if inner < 0 or v.broadcastable[inner]:
            if not same_length(size, part_shape[first + dim]):
                conditions.append(T.or_(T.eq(size, part_shape[first + dim]), T.eq(size, 1)))
        elif not same_length(size, of_value[inner]):
            conditions.append(T.eq(size, of_value[inner]))  # The write itself checks that v fits into the part.
    if conditions:
        v = Assert("`x[i]` and `y` do not have the same shape.")(v, *conditions)
        copy_stack_trace(y, v)
    new = node.op(x, v, *index)
    if new.type != node.outputs[0].type:
        return False
    copy_stack_trace(node.outputs[0], new)
    return [new]


# -- rows --------------------------------------------------------------------------------------------------------------------------


@register_canonicalize
@local_optimizer([AdvancedIncSubtensor1])
def local_set_to_inc_subtensor(node):
    """Increment rows by a term instead of setting these rows to their values plus the term.

    set_subtensor(x[[2, 0]], x[[2, 0]] + y[:2])  ->  inc_subtensor(x[[2, 0]], y[:2])          [canonicalize, fast_run]

    The index must not contain a row twice, because the increment would be added twice.
    """
    if not node.op.set_instead_of_inc:
        return False
    x, y, rows = node.inputs
    if x.dtype != y.dtype:
        return False  # The assignment rounds the whole sum to the dtype of x. An increment would round only the term.
    terms = inputs_of(y, T.add)
    if terms is None or _unique_rows(rows) is None:
        return False
    for k, term in enumerate(terms):
        taken = term.owner
        if taken is None or not isinstance(taken.op, AdvancedSubtensor1) or taken.inputs[0] is not x:
            continue
        if not (taken.inputs[1] is rows or isinstance(taken.inputs[1], Constant) and taken.inputs[1].equals(rows)):
            continue
        others = terms[:k] + terms[k + 1 :]
        more = others[0] if len(others) == 1 else in_dtype(T.add, others, y.dtype)
        if more.dtype != y.dtype:
            more = T.cast(more, y.dtype)
        new = type(node.op)(node.op.inplace, False)(x, more, rows)
        if new.type != node.outputs[0].type:
            return False
        copy_stack_trace(node.outputs[0], new)
        return [new]
    return False


def _rows_just_written(node, trusted):
    """Return the value that was just written to the rows that a node reads. Return None if this value is not known.

    The value is not known if the node may read other rows. It is also not known if `trusted` is False and the index may
    contain a row twice.
    """
    inner = node.inputs[0].owner
    if inner is None or not isinstance(inner.op, AdvancedIncSubtensor1):
        return None
    x, y, rows = inner.inputs
    if not inner.op.set_instead_of_inc and not is_constant(x, 0):
        return None
    out = node.outputs[0]
    given = node.inputs[1]
    if given is not rows and not (isinstance(given, Constant) and given.equals(rows)):
        return None
    data = _unique_rows(rows)
    if (data is None and not trusted) or y.ndim != x.ndim or y.broadcastable != out.broadcastable:
        return None
    if y.dtype != out.dtype:
        y = T.cast(y, out.dtype)
    shape, wanted = lengths(y, node.fgraph), lengths(x, node.fgraph)
    count = T.constant(np.int64(len(data))) if data is not None else lengths(rows, node.fgraph)[0]
    wanted_of_y = [count, *wanted[1:]]
    conditions = [T.eq(a, b) for f, a, b in zip(y.broadcastable, shape, wanted_of_y) if not f and not same_length(a, b)]
    if data is None:
        conditions.append(T.all(T.and_(T.lt(rows, wanted[0]), T.ge(rows, -wanted[0]))))
    elif len(data):
        conditions.append(T.lt(int(data.max()), wanted[0]) if data.min() >= 0 else T.ge(int(data.min()) + wanted[0], 0))
    new = Assert("Bad indexing or shapes in a AdvancedIncSubtensor1 that was optimized away")(y, *conditions)
    return fitted(new, out)


@register_canonicalize
@register_stabilize
@local_optimizer([AdvancedSubtensor1])
def local_adv_sub1_adv_inc_sub1(node):
    """Do not read rows that were just written: use the written value instead.

    set_subtensor(x[[2, 0]], MakeVector('float64')(a, b))[[2, 0]]  ->
        Assert('Bad indexing or shapes in a AdvancedIncSubtensor1 that was optimized away')(
            MakeVector('float64')(a, b), lt(2, Shape_i(0)(x)))          [canonicalize, stabilize, fast_run]
    inc_subtensor(zeros_like(x)[[2, 0]], MakeVector('float64')(a, b))[[2, 0]]  ->
        Assert('Bad indexing or shapes in a AdvancedIncSubtensor1 that was optimized away')(
            MakeVector('float64')(a, b), lt(2, Shape_i(0)(x)))

    The index must not contain a row twice. Assertions replace the errors of indexing.
    """
    return _rows_just_written(node, trusted=False) or False


@local_optimizer([AdvancedSubtensor1])
def local_adv_sub1_adv_inc_sub1_of_trusted_rows(node):
    """Replace the same expressions as `local_adv_sub1_adv_inc_sub1`, but assume that no index repeats a row.

    set_subtensor(x[labels], y)[labels]  ->
        Assert('Bad indexing or shapes in a AdvancedIncSubtensor1 that was optimized away')(
            y, eq(Shape_i(0)(y), Shape_i(0)(labels)), all(and_(lt(labels, Shape_i(0)(x)), ge(labels, -Shape_i(0)(x)))))

    The rule is used with ``optimizer_including=local_adv_sub1_adv_inc_sub1_of_trusted_rows``.
    """
    return _rows_just_written(node, trusted=True) or False


for _db in (optdb["canonicalize"], optdb["stabilize"]):
    _db.register(
        "local_adv_sub1_adv_inc_sub1_of_trusted_rows",
        local_adv_sub1_adv_inc_sub1_of_trusted_rows,
        use_db_name_as_tag=False,
    )
del _db


# -- sums of increments ----------------------------------------------------------------------------------------------------------------


@register_canonicalize("local_IncSubtensor_serialize", name="local_IncSubtensor_serialize")
@local_optimizer([T.add])
def local_IncSubtensor_serialize(node):
    """Replace a sum of increments by consecutive increments of one tensor.

    inc_subtensor(x[i:], s) + inc_subtensor(y[j:], s)  ->  inc_subtensor(inc_subtensor((x + y)[i:], s)[j:], s)
                                                               [canonicalize, fast_run]

    If several parts are taken from a tensor, the gradient with respect to the tensor is such a sum. Each term of the
    gradient is an increment of zeros. The rule leaves out these zeros.
    """
    out = node.outputs[0]
    movable = [_is_movable(i, out) for i in node.inputs]
    if not any(movable):
        return False
    bases = [i.owner.inputs[0] if m else i for i, m in zip(node.inputs, movable)]
    # Leave out zeros, as long as another operand has the type of the sum.
    left = [b for b in bases if not is_constant(b, 0)]
    if not any(b.type == out.type for b in left):
        left.append(next(b for b in bases if b.type == out.type))
    tip = left[0] if len(left) == 1 else T.add(*left)
    copy_stack_trace(out, tip)
    for i, m in zip(node.inputs, movable):
        if m:
            tip = i.owner.op(tip, *i.owner.inputs[1:])
            copy_stack_trace([out, i], tip)
    if tip.type != out.type:
        return False
    return [tip]


def _is_movable(v, out):
    """Return True if an operand of a sum is an increment of the sum's type that has no client except the sum."""
    node = v.owner
    return (
        node is not None
        and isinstance(node.op, INCREMENTS)
        and v.type == out.type
        and len(v.clients) == 1
        and not node.op.set_instead_of_inc
        and not node.op.inplace
    )


optdb.register("pre_local_IncSubtensor_serialize", in2out(local_IncSubtensor_serialize), 0.99, "fast_run")


# -- in place ----------------------------------------------------------------------------------------------------------------------


@rule(copying(IncSubtensor)(inputs), inplace=True)
def local_inplace_setsubtensor(op, inputs):
    """Write into a tensor in place.

    set_subtensor(exp(x)[i:], s)  ->  set_subtensor(exp(x)[i:], s, inplace=True)          [inplace, fast_run]
    inc_subtensor(exp(x)[i:], s)  ->  inc_subtensor(exp(x)[i:], s, inplace=True)

    If the tensor is memory without values (`AllocEmpty`) that other nodes use, too, the node gets memory of its own.
    """
    x = inputs[0]
    if x.owner is not None and isinstance(x.owner.op, AllocEmpty) and len(x.clients) > 1:
        x = copy_stack_trace(x, x.owner.op(*x.owner.inputs))
    return type(op)(
        op.idx_list,
        inplace=True,
        set_instead_of_inc=op.set_instead_of_inc,
        destroyhandler_tolerate_aliased=op.destroyhandler_tolerate_aliased,
    )(x, *inputs[1:])


@rule(copying(*INCREMENTS[1:])(inputs), inplace=True)
def local_inplace_incsubtensor1(op, inputs):
    """Write the indexed rows of a tensor in place.

    inc_subtensor(exp(x)[labels], y)  ->  inc_subtensor(exp(x)[labels], y, inplace=True)          [inplace, fast_run]

    The rule also applies to the other Ops that increment by index arrays and masks.
    """
    return type(op)(inplace=True, set_instead_of_inc=op.set_instead_of_inc)(*inputs)


for _rule in (local_inplace_setsubtensor, local_inplace_incsubtensor1):
    optdb.register(
        _rule.__name__,
        TopoOptimizer(_rule, order="out_to_in", failure_callback=TopoOptimizer.warn_inplace),
        60,
        "fast_run",
        "inplace",
    )
del _rule
