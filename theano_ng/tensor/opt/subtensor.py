"""Rules that move indexing towards the inputs, so that unused elements are not computed, and that merge indexings."""

import numpy as np

from theano_ng import scalar
from theano_ng.compile.ops import Rebroadcast, Shape, Shape_i
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.assert_op import AssertIndex
from theano_ng.tensor.constant import NotScalarConstantError, get_scalar_constant_value
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.indexing.advanced import AdvancedSubtensor1
from theano_ng.tensor.indexing.index_lists import get_canonical_form_slice, get_idx_list, is_integer, slice_length
from theano_ng.tensor.indexing.subtensor import IncSubtensor, Subtensor
from theano_ng.tensor.linalg.products import _dot
from theano_ng.tensor.opt.alloc import fitted
from theano_ng.tensor.opt.common import constant_value, inputs_of
from theano_ng.tensor.opt.lift import is_function_of_one, lifted_through_functions, lifts
from theano_ng.tensor.opt.registration import register_canonicalize, register_specialize, register_stabilize
from theano_ng.tensor.opt.shape import lengths, same_length
from theano_ng.tensor.shaping.allocation import Alloc
from theano_ng.tensor.shaping.creation import ARange, MakeVector
from theano_ng.tensor.shaping.reshaping import scalar_from_tensor, tensor_from_scalar

_WHOLE = slice(None)


# -- indices as Python objects -------------------------------------------------------------------------------------------------


def _known(field):
    """Return `field`, or its value as an int if it is a constant.

    `field` is an integer index, or the start, stop or step of a slice. None and variables are returned unchanged.
    """
    if isinstance(field, Constant):
        return int(field.data)
    return field


def known_index(entry):
    """Return an entry of an index (an integer or a slice) in which ints replace the constants.

    In a slice, a step of 1 is replaced by None. If the step is 1 or None, a start of 0 is replaced by None, too.
    """
    if not isinstance(entry, slice):
        return _known(entry)
    start, stop, step = _known(entry.start), _known(entry.stop), _known(entry.step)
    if is_integer(step) and step == 1:
        step = None
    if step is None and is_integer(start) and start == 0:
        start = None
    return slice(start, stop, step)


def node_index(node, first=1):
    """Return the index of a Subtensor or IncSubtensor node as a list with one entry per indexed dimension.

    Constants in the index are replaced by ints. `first` is the position of the first index among the inputs.
    """
    return [known_index(entry) for entry in get_idx_list(node.inputs[first - 1 :], node.op.idx_list)]


def is_whole(entry):
    """Return True if an entry from `known_index` is the full slice ``:``."""
    return isinstance(entry, slice) and entry.start is None and entry.stop is None and entry.step is None


def _as_index(field):
    """Convert an entry of an index, or a field of a slice: constants become ints, other 0-d tensors become scalars."""
    if isinstance(field, slice):
        return slice(_as_index(field.start), _as_index(field.stop), _as_index(field.step))
    if isinstance(field, Variable) and not isinstance(field.type, scalar.Scalar):
        value = constant_value(field, only_process_constants=True)
        return scalar_from_tensor(field) if value is None else int(value)
    return field


def subtensor_of(x, index):
    """Return ``x[index]`` as the output of a `Subtensor` node, or `x` itself if the index consists of full slices."""
    index = [_as_index(entry) for entry in index]
    while index and is_whole(index[-1]):
        index.pop()
    if not index:
        return x
    idx_list = tuple([_template(entry) for entry in index])
    fields = Subtensor.collapse(index, lambda field: field is not None)
    return Subtensor(idx_list)(x, *fields)


def _template(entry):
    if isinstance(entry, slice):
        return slice(_template(entry.start), _template(entry.stop), _template(entry.step))
    if entry is None:
        return None
    return scalar.int64 if is_integer(entry) else entry.type


# -- indices that take everything --------------------------------------------------------------------------------------


def takes_all(entry, x, dim, fgraph):
    """Return True if a slice is known to take all elements of dimension `dim` of `x`, in order."""
    if not isinstance(entry, slice) or entry.step is not None:
        return False
    if entry.start is not None:
        return False
    stop = entry.stop
    if stop is None:
        return True
    if is_integer(stop):
        if stop <= 0:
            return False
        if stop == np.iinfo("int64").max:
            return True
        if x.broadcastable[dim]:
            return True
        known = constant_value(lengths(x, fgraph)[dim], only_process_constants=True)
        return known is not None and known <= stop
    if isinstance(stop.type, scalar.Scalar):
        if stop.owner is None or stop.owner.op != scalar_from_tensor:
            return False
        stop = stop.owner.inputs[0]
    node = stop.owner
    if node is not None and isinstance(node.op, Shape_i) and node.op.i == dim and node.inputs[0] is x:
        return True
    feature = getattr(fgraph, "shape_feature", None)
    return feature is not None and same_length(feature.shape_of[x][dim], stop)


@register_canonicalize
@register_specialize
@local_optimizer([Subtensor])
def local_useless_slice(node):
    """Remove full slices at the end of an index.

    A[0, :]  ->  A[0]          [canonicalize, specialize, fast_run]
    A[1:, 0:]  ->  A[1:]
    """
    idx_list = node.op.idx_list
    if not idx_list or not isinstance(idx_list[-1], slice):
        return False
    index = node_index(node)
    kept = len(index)
    while kept and is_whole(index[kept - 1]):
        kept -= 1
    if kept == len(index):
        return False
    new = subtensor_of(node.inputs[0], index[:kept])
    if new.type != node.outputs[0].type:
        return False
    copy_stack_trace(node.outputs[0], new)
    return [new]


@register_canonicalize
@register_specialize
@local_optimizer([Subtensor, AdvancedSubtensor1])
def local_useless_subtensor(node):
    """Remove indexing that takes all elements in order.

    A[0:Shape_i(0)(A), :]  ->  A          [canonicalize, specialize, fast_run]
    A[arange(Shape_i(0)(A))]  ->  A
    """
    x, out = node.inputs[0], node.outputs[0]
    if isinstance(node.op, Subtensor):
        if not all(isinstance(entry, slice) for entry in node.op.idx_list):
            return False
        if x.type != out.type:
            return False
        index = node_index(node)
        return [x] if all(takes_all(entry, x, dim, node.fgraph) for dim, entry in enumerate(index)) else False
    if x.type != out.type:
        return False
    rows = node.inputs[1]
    if isinstance(rows, Constant):
        known = constant_value(lengths(x, node.fgraph)[0], only_process_constants=True)
        if known is None or len(rows.data) != known or not np.array_equal(rows.data, np.arange(int(known))):
            return False
        return [x]
    if rows.owner is None or not isinstance(rows.owner.op, ARange):
        return False
    start, stop, step = rows.owner.inputs
    if constant_value(start, True) != 0 or constant_value(step, True) != 1:
        return False
    return [x] if takes_all(slice(None, stop, None), x, 0, node.fgraph) else False


@register_canonicalize
@register_specialize
@local_optimizer([Subtensor])
def local_subtensor_remove_broadcastable_index(node):
    """Take the only element of a dimension by dropping the dimension.

    row[0, :]  ->  row.dimshuffle(1)          [canonicalize, specialize, fast_run]
    """
    x = node.inputs[0]
    kept = []
    for dim, entry in enumerate(node_index(node)):
        if isinstance(entry, slice):
            if not is_whole(entry):
                return False
            kept.append(dim)
        elif not is_integer(entry) or entry not in (0, -1) or not x.broadcastable[dim]:
            return False
    kept += range(len(node.op.idx_list), x.ndim)
    if len(kept) == x.ndim:
        return False
    return fitted(x.dimshuffle(*kept), node.outputs[0]) or False


# -- indexing of other operations --------------------------------------------------------------------------------------


@register_canonicalize("fast_compile")
@local_optimizer([Subtensor], requirements=[lifts(Subtensor)])
def local_subtensor_lift(node):
    """Index the arguments of an elementwise function or Rebroadcast instead of its result.

    exp(x)[i]  ->  exp(x[i])          [canonicalize, fast_run, fast_compile]
    (x + y)[i:]  ->  x[i:] + y[i:]
    Rebroadcast((0, False))(row)[:, i:]  ->  Rebroadcast((0, False))(row[:, i:])

    The result of the function must have no clients other than the indexing, unless the function's argument is a shape
    vector. The function must broadcast each operand in all dimensions or in none.
    """
    u, out = node.inputs[0], node.outputs[0]
    inner = u.owner
    if inner is None or (len(u.clients) > 1 and not _is_small(inner)):
        return False
    rest = node.inputs[1:]
    if is_function_of_one(inner):
        lifted = lifted_through_functions(node)
        return lifted and [lifted]
    if isinstance(inner.op, Elemwise):
        if len(inner.outputs) != 1 or inner.op.inplace_pattern:
            return False
        if not all(i.broadcastable == u.broadcastable or all(i.broadcastable) for i in inner.inputs):
            return False
        if all(u.broadcastable) and len(inner.inputs) > 1:
            return False
        operands = []
        for i in inner.inputs:
            if i.broadcastable == u.broadcastable:
                operand = node.op(i, *rest)
                copy_stack_trace([out, u], operand)
            else:
                operand = i.dimshuffle(*["x"] * out.ndim)
            operands.append(operand)
        new = inner.op(*operands)
    elif isinstance(inner.op, Rebroadcast):
        part = node.op(inner.inputs[0], *rest)
        copy_stack_trace(out, part)
        index, flags, place = node.op.idx_list, [], 0
        for dim in range(u.ndim):
            if dim < len(index) and not isinstance(index[dim], slice):
                if inner.op.axis.get(dim):
                    return False  # The graph must keep the check that this length is one.
                continue
            if dim in inner.op.axis and (dim >= len(index) or out.broadcastable[place] == u.broadcastable[dim]):
                flags.append((place, inner.op.axis[dim]))
            elif inner.op.axis.get(dim):
                return False
            place += 1
        new = Rebroadcast(*flags)(part) if flags else part
    else:
        return False
    if new.type != out.type:
        return False
    copy_stack_trace([out, u], new)
    return [new]


def _is_small(node):
    """Return True if a node applies a function to a shape vector. Such a vector is short, so its elements are cheap."""
    if len(node.inputs) != 1 or node.inputs[0].owner is None:
        return False
    return isinstance(node.inputs[0].owner.op, (MakeVector, Shape))


@register_canonicalize
@register_specialize
@local_optimizer([Subtensor])
def local_subtensor_of_alloc(node):
    """Fill only the selected part of an Alloc.

    alloc(s, 3, n)[1]  ->  alloc(s, n)          [canonicalize, specialize, fast_run]
    alloc(x, n, Shape_i(0)(x))[:, 1]  ->  alloc(x[1], n)
    alloc(s, n)[2]  ->  AssertIndex('index out of bounds')(s, lt(2, n))

    If an integer index may be out of bounds, an assertion replaces the error of the indexing. The rule indexes a
    dimension of the value only if its length is known to equal the length in the Alloc's result. Otherwise, Alloc might
    repeat the dimension, because its length is 1 at run time, or raise an error.
    """
    if node.inputs[0].owner is None or not isinstance(node.inputs[0].owner.op, Alloc):
        return False
    filled, out = node.inputs[0].owner, node.outputs[0]
    value, sizes = filled.inputs[0], filled.inputs[1:]
    known = lengths(value, node.fgraph)
    index = node_index(node)
    if any(map(_has_step_zero, index)):
        return False  # Keep the node, because it raises an error at run time.
    index += [_WHOLE] * (len(sizes) - len(index))
    first = len(sizes) - value.ndim
    value_index, new_sizes, conditions = [], [], []
    for dim, (entry, size) in enumerate(zip(index, sizes)):
        repeated = dim < first or value.broadcastable[dim - first]
        if not isinstance(entry, slice) and repeated and not _is_inside(entry, size):
            if len(node.inputs[0].clients) > 1:
                return False  # The Alloc is computed for its other clients anyway, so an assertion saves nothing.
            conditions.append(_inside(entry, size))
        if dim >= first:
            if not repeated:
                if not is_whole(entry) and not same_length(known[dim - first], size):
                    return False
                value_index.append(entry)
            else:
                value_index.append(_WHOLE if isinstance(entry, slice) else 0)
        if isinstance(entry, slice):
            length = slice_length(slice(*[_tensor(field) for field in (entry.start, entry.stop, entry.step)]), size)
            new_sizes.append(length)
    new_value = value if all(is_whole(entry) for entry in value_index) else subtensor_of(value, value_index)
    if conditions:
        new_value = AssertIndex("index out of bounds")(new_value, *conditions)
        copy_stack_trace(out, new_value)
    new = T.alloc(new_value, *new_sizes) if new_sizes else new_value
    if new.ndim == 0 and new.owner is not None:
        copy_stack_trace(out, new)
    return fitted(new, out) or False


def _has_step_zero(entry):
    """Return True if an entry of an index is a slice with step 0, which NumPy refuses."""
    return isinstance(entry, slice) and entry.step is not None and constant_value(entry.step) == 0


def _is_inside(entry, size):
    """Return True if an integer index is known to be valid for a dimension of length `size`."""
    length = constant_value(size, only_process_constants=True)
    return is_integer(entry) and length is not None and -int(length) <= entry < length


def _inside(entry, length):
    """Return the condition that an integer index is valid for a dimension of the given length."""
    if is_integer(entry) and entry >= 0:
        return T.lt(entry, length)
    entry = _tensor(entry)
    # Cast the length first, because the negative of an unsigned number wraps around to a large number.
    reaches_back = T.ge(entry, -T.cast(length, "int64"))
    return reaches_back if is_integer(entry) else T.and_(T.lt(entry, length), reaches_back)


def _tensor(field):
    return tensor_from_scalar(field) if isinstance(field, Variable) and isinstance(field.type, scalar.Scalar) else field


@register_canonicalize
@register_stabilize
@register_specialize
@local_optimizer([Subtensor])
def local_subtensor_of_dot(node):
    """Multiply only the rows and columns that are used.

    dot(A, B)[i, j]  ->  dot(A[i], B[:, j])          [canonicalize, stabilize, specialize, fast_run]
    """
    u, out = node.inputs[0], node.outputs[0]
    factors = inputs_of(u, _dot)
    if factors is None or len(u.clients) > 1:
        return False
    a, b = factors
    index = node_index(node)
    rows = a.ndim - 1
    index_a, index_b = index[:rows], index[rows:]
    if b.ndim > 1:
        # `dot` sums over the second to last dimension of b.
        index_b = index_b[: b.ndim - 2] + [_WHOLE] + index_b[b.ndim - 2 :]
    new_a, new_b = subtensor_of(a, index_a), subtensor_of(b, index_b)
    for part in (new_a, new_b):
        copy_stack_trace([u, out], part)
    new = T.dot(new_a, new_b)
    if new.type != out.type:
        return False
    copy_stack_trace([u, out], new)
    return [new]


def _known_element(v):
    """Return b if `v` is ``[a, b, c][1]``: an element of a MakeVector at a constant index.

    Return None for other variables.
    """
    node = v.owner
    if node is None or not isinstance(node.op, Subtensor) or len(node.op.idx_list) != 1:
        return None
    vector = node.inputs[0].owner
    if vector is None or not isinstance(vector.op, MakeVector):
        return None
    (entry,) = node_index(node)
    elements = vector.inputs
    return elements[entry] if is_integer(entry) and -len(elements) <= entry < len(elements) else None


@register_specialize
@register_canonicalize("fast_compile")
@local_optimizer([Subtensor, AdvancedSubtensor1])
def local_subtensor_make_vector(node):
    """Replace elements of a MakeVector by its inputs.

    MakeVector('float64')(a, b, s)[0]  ->  a          [canonicalize, specialize, fast_run, fast_compile]
    MakeVector('float64')(a, b, s)[0:2]  ->  MakeVector('float64')(a, b)
    MakeVector('float64')(a, b, s)[[2, 0]]  ->  MakeVector('float64')(s, a)
    """
    x, out = node.inputs[0], node.outputs[0]
    if x.owner is None or not isinstance(x.owner.op, MakeVector):
        return False
    elements = x.owner.inputs
    if isinstance(node.op, Subtensor):
        if len(node.op.idx_list) != 1:
            return False
        (entry,) = node_index(node)
        if is_integer(entry):
            if not -len(elements) <= entry < len(elements):
                return False  # Keep the node, because it raises an error at run time.
            passed = [out]
            new = elements[entry]
            while new.type == out.type:
                # The element may be an element of another MakeVector, and so on. Follow this chain, and replace all
                # these elements at once.
                further = _known_element(new)
                if further is None or further.type != out.type:
                    break
                passed.append(new)
                new = further
            if len(passed) > 1:
                copy_stack_trace(passed, new)
                return dict.fromkeys(passed, new)
            new = new if new.dtype == out.dtype else T.cast(new, out.dtype)
            copy_stack_trace(out, new)
            return [new] if new.type == out.type else False
        if not isinstance(entry, slice):
            return False
        fields = (entry.start, entry.stop, entry.step)
        if not all(field is None or is_integer(field) for field in fields) or entry.step == 0:
            return False
        chosen = elements[entry]
    else:
        if not isinstance(node.inputs[1], Constant):
            return False
        rows = [int(i) for i in node.inputs[1].data]
        if any(not -len(elements) <= i < len(elements) for i in rows):
            return False
        chosen = [elements[i] for i in rows]
    new = x.owner.op(*chosen)
    if new.type != out.type:
        new = T.patternbroadcast(new, out.broadcastable)
    copy_stack_trace(out, new)
    return [new] if new.type == out.type else False


@register_canonicalize
@register_specialize
@local_optimizer([Subtensor])
def local_subtensor_inc_subtensor(node):
    """Do not read elements that were just written: use the written value instead.

    set_subtensor(x[i:], exp(x[i:]))[i:]  ->  exp(x[i:])          [canonicalize, specialize, fast_run]
    set_subtensor(x[2], s)[2]  ->  AssertIndex('index out of bounds')(s, lt(2, Shape_i(0)(x)))
    set_subtensor(A[i], y)[i]  ->  set_subtensor(A[i][:], y)

    If y may have to be broadcast to the part, the rule takes the part of x and writes y into this part (last example).
    If an integer index may be out of bounds, an assertion replaces the error of the indexing. If the written tensor has
    other clients, the rule applies only if it needs neither a write nor an assertion.
    """
    inner = node.inputs[0].owner
    if inner is None or not isinstance(inner.op, IncSubtensor) or not inner.op.set_instead_of_inc:
        return False
    x, y = inner.inputs[:2]
    out = node.outputs[0]
    if inner.op.idx_list != node.op.idx_list or not all(
        a is b or _equal_constants(a, b) for a, b in zip(inner.inputs[2:], node.inputs[1:])
    ):
        return False
    if y.dtype != x.dtype:
        y = T.cast(y, x.dtype)
    if y.ndim < out.ndim:
        y = T.shape_padleft(y, out.ndim - y.ndim)
    fgraph = node.fgraph
    part = node.op(x, *node.inputs[1:])
    wanted = lengths(part, fgraph)
    fits = y.type == out.type
    if fits and not all([f or same_length(a, b) for f, a, b in zip(y.broadcastable, lengths(y, fgraph), wanted)]):
        if len(node.inputs[0].clients) > 1:
            return False
        # The lengths of y may differ from the lengths of the part. `set_subtensor` repeats the dimensions of y that
        # have length one at run time.
        copy_stack_trace(out, part)
        return fitted(T.set_subtensor(part[:], y), out) or False
    conditions = [
        _inside(entry, length)
        for entry, length in zip(node_index(node), lengths(x, fgraph))
        if not isinstance(entry, slice) and not _is_inside(entry, length)
    ]
    if len(node.inputs[0].clients) > 1 and (conditions or not fits):
        return False
    if not fits:
        y = T.alloc(y, *wanted)
    if conditions:
        y = AssertIndex("index out of bounds")(y, *conditions)
    return fitted(y, out) or False


def _equal_constants(a, b):
    return isinstance(a, Constant) and isinstance(b, Constant) and a.type == b.type and int(a.data) == int(b.data)


# -- two index steps ---------------------------------------------------------------------------------------------------


def _int_or_variable(value):
    """Return a length or a field of a slice as an int if it is known. Otherwise, return a 0-d tensor.

    None is unchanged.
    """
    if value is None or is_integer(value):
        return None if value is None else int(value)
    try:
        return int(get_scalar_constant_value(value))
    except NotScalarConstantError:
        return T.as_tensor_variable(value)


def _choose(condition, then, otherwise):
    if isinstance(condition, (bool, np.bool_)):
        return then if condition else otherwise
    return T.switch(condition, then, otherwise)


def _nonnegative_index(index, length):
    """Return the non-negative position of an index that may be negative, and whether this position exists.

    Both are Python values if the arguments suffice to compute them, and variables otherwise.
    """
    if not is_integer(index):
        position = T.switch(T.lt(index, 0), index + length, index)
        return position, T.and_(T.ge(position, 0), T.lt(position, length))
    position = index + length if index < 0 else index
    if is_integer(position) and is_integer(length):
        return position, 0 <= position < length
    return position, T.lt(position, length) if index >= 0 else T.ge(position, 0)


def merge_two_slices(slice1, len1, slice2, len2):
    """Return one slice or index that is equivalent to `slice1` followed by `slice2`.

    Parameters
    ----------
    slice1 : slice
        The first slice.
    len1 : int or variable
        The length of the dimension before `slice1`.
    slice2 : slice or integer index
        The index that is applied to ``x[slice1]``.
    len2 : int or variable
        The length of the dimension after `slice1`.

    Returns
    -------
    slice or index
        ``x[slice1][slice2]`` is ``x[result]``. The result is not in canonical form; its fields are ints if they are
        known. If the index `slice2` is out of bounds of ``x[slice1]``, the result is out of bounds of `x`.

    Raises
    ------
    ValueError
        If `slice1` is not a slice.
    """
    if not isinstance(slice1, slice):
        raise ValueError("slice1 should be of type `slice`, got %r" % (slice1,))
    len1, len2 = _int_or_variable(len1), _int_or_variable(len2)
    exact = _merged_without_lengths(known_index(slice1), known_index(slice2))
    if exact is not None:
        return exact
    first, direction1 = get_canonical_form_slice(slice1, len1)
    start1, step1 = first.start, first.step

    def at(position):
        """Return the position in x of the element at a valid, non-negative position of ``x[slice1]``."""
        forward = start1 + position * step1
        if is_integer(direction1) and direction1 == 1:
            return forward
        backward = start1 + (len2 - 1 - position) * step1
        if is_integer(direction1):
            return backward
        return T.switch(T.lt(direction1, 0), backward, forward)

    if not isinstance(slice2, slice):
        position, inside = _nonnegative_index(_int_or_variable(slice2), len2)
        return _choose(inside, at(position), len1 + 1)
    second, direction2 = get_canonical_form_slice(slice2, len2)
    count = slice_length(slice2, len2)
    low = at(second.start)
    high = at(second.start + (count - 1) * second.step)
    both = direction1 * direction2
    step = both * step1 * second.step
    # Find the first and the last element in the order of the result.
    begin, end = (low, high)
    if is_integer(direction2):
        if direction2 < 0:
            begin, end = high, low
    else:
        begin, end = T.switch(T.lt(direction2, 0), high, low), T.switch(T.lt(direction2, 0), low, high)
    stop = end + both
    if is_integer(both) and both > 0:
        bound = stop
    else:
        # A stop of -1 would count from the end. With the stop -len1 - 1, the slice includes the first element of x.
        beginning = -len1 - 1
        bound = _choose(stop < 0 if is_integer(stop) else T.lt(stop, 0), beginning, stop)
    empty = count <= 0 if is_integer(count) else T.le(count, 0)
    begin, bound = _choose(empty, 0, begin), _choose(empty, 0, bound)
    return slice(begin, bound, step)


_REVERSED = slice(None, None, -1)


def _without_ends(start1, stop1, second):
    """Merge ``slice(start1, stop1)`` and `second` if their stops count from the end: [a:-b][c:-d] is [a+c:-b-d].

    Return None in other cases.
    """
    stops = [int(stop) for stop in (stop1, second.stop) if stop is not None]
    if not stops or any(stop >= 0 for stop in stops) or (second.step is not None and second.step < 1):
        return None
    if second.start is not None and second.start < 0:
        return None
    return slice(start1 + (second.start or 0) or None, sum(stops), second.step)


def _merged_without_lengths(first, second):
    """Return one index of a dimension that is equivalent to the index `first` followed by the index `second`.

    Return None if the merged index depends on the length of the dimension, or needs arithmetic at run time.
    """
    if is_whole(first):
        return second
    if is_whole(second):
        return first
    fields = [first.start, first.stop, first.step]
    fields += [second.start, second.stop, second.step] if isinstance(second, slice) else [second]
    if not all(field is None or is_integer(field) for field in fields):
        return None
    if first == _REVERSED:
        # Position p of the reversed dimension is position ~p of the dimension itself, counted from its other end.
        if not isinstance(second, slice):
            return ~int(second)
        start, stop = [None if field is None else ~int(field) for field in (second.start, second.stop)]
        return known_index(slice(start, stop, -1 if second.step is None else -int(second.step)))
    step1 = 1 if first.step is None else int(first.step)
    start1 = 0 if first.start is None else int(first.start)
    if step1 < 1 or start1 < 0:
        return None
    if step1 == 1 and isinstance(second, slice):
        both = _without_ends(start1, first.stop, second)
        if both is not None:
            return both
    if first.stop is not None and first.stop < 0:
        return None
    # Count the positions start1, start1 + step1, ... below first.stop.
    count1 = None if first.stop is None else len(range(start1, int(first.stop), step1))
    if not isinstance(second, slice):
        if second < 0 or (count1 is not None and second >= count1):
            return None
        return start1 + int(second) * step1
    step2 = 1 if second.step is None else int(second.step)
    start2 = 0 if second.start is None else int(second.start)
    if step2 < 1 or start2 < 0 or (second.stop is not None and second.stop < 0):
        return None
    stop2 = count1 if second.stop is None else int(second.stop) if count1 is None else min(int(second.stop), count1)
    begin = start1 + start2 * step1
    step = step1 * step2
    return slice(
        begin or None,
        None if stop2 is None else max(start1 + stop2 * step1 - step1 + 1, 0) if stop2 > 0 else begin,
        step if step != 1 else None,
    )


@register_canonicalize
@register_specialize
@local_optimizer([Subtensor])
def local_subtensor_merge(node):
    """Merge consecutive indexings.

    x[2:][1:5]  ->  x[3:7]          [canonicalize, specialize, fast_run]
    A[:, i][0]  ->  A[0, i]
    alloc(s, 3)[::-1][1:]  ->  alloc(s, 3)[-2::-1]

    The rule does not apply if the merged index needs arithmetic at run time, because two views are cheaper.

    A chain of indexings is merged from its inner end, and all its nodes are replaced together. If each node were merged
    when it is visited, the work would be quadratic in the length of a chain whose nodes all have several clients.
    """
    chain = [node]
    while (below := chain[-1].inputs[0].owner) is not None and isinstance(below.op, Subtensor):
        if _merged_index(below.inputs[0], node_index(below), node_index(chain[-1]), node.fgraph) is None:
            break
        chain.append(below)
    innermost = chain.pop()
    x, index = innermost.inputs[0], node_index(innermost)
    inner, replacements = innermost.outputs[0], {}
    for outer in reversed(chain):
        out = outer.outputs[0]
        index = _merged_index(x, index, node_index(outer), node.fgraph)
        if index is None:
            break
        new = subtensor_of(x, index)
        if new.type != out.type:
            fit = fitted(new, out) if new.dtype == out.dtype and new.ndim == out.ndim else None
            if not fit:
                break
            (new,) = fit
        copy_stack_trace([inner, out], new)
        replacements[out] = inner = new
    return replacements or False


def _merged_index(x, index1, index2, fgraph):
    """Return the index for which ``x[index]`` is ``x[index1][index2]``.

    Return None if computing this index needs arithmetic at run time, or if the indexing raises an error.
    """
    if any(map(_has_step_zero, (*index1, *index2))):
        return None
    merged, place = [], 0
    for dim, first in enumerate(index1):
        if not isinstance(first, slice):
            merged.append(first)
            continue
        if place == len(index2):
            merged += index1[dim:]
            break
        second = index2[place]
        result = _merged_without_lengths(first, second)
        if result is None:
            if not _only_integers(first, second):
                return None
            len1 = constant_value(lengths(x, fgraph)[dim], only_process_constants=True)
            if len1 is None:
                return None
            len2 = len(range(*first.indices(int(len1))))
            if not isinstance(second, slice) and not -len2 <= second < len2:
                return None
            result = known_index(merge_two_slices(first, int(len1), second, len2))
        if not _fits_index(result):
            return None  # The index exceeds int64, for example the step of x[::2 ** 40][::2 ** 40].
        merged.append(result)
        place += 1
    return merged + index2[place:]


def _fields(entry):
    return (entry.start, entry.stop, entry.step) if isinstance(entry, slice) else (entry,)


def _fits_index(entry):
    """Return True if all integers of an entry of an index fit into int64."""
    limits = np.iinfo("int64")
    return all(limits.min <= field <= limits.max for field in _fields(entry) if is_integer(field))


def _only_integers(*entries):
    return all(field is None or is_integer(field) for entry in entries for field in _fields(entry))
