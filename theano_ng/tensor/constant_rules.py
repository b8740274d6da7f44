"""Rules that find the constant value of the output of a node.

Each rule returns the value, or another variable with the same value. It returns None if it finds neither.
:func:`get_scalar_constant_value` applies the rules. :func:`vector_length` finds the lengths of vectors in the same way.
"""

import numpy as np

import theano_ng.scalar as scal
from theano_ng.compile.ops import DeepCopyOp, OutputGuard, Rebroadcast, Shape, Shape_i, SpecifyShape, ViewOp
from theano_ng.gof.graph import Constant, Variable
from theano_ng.raise_op import ConditionalOp
from theano_ng.tensor.constant import (
    NotScalarConstantError,
    get_scalar_constant_value,
    get_vector_length,
    has_scalar_constant_rule,
    register_conversion,
    register_scalar_constant,
)
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.indexing.index_lists import get_idx_list
from theano_ng.tensor.indexing.subtensor import Subtensor
from theano_ng.tensor.shaping.allocation import Alloc
from theano_ng.tensor.shaping.creation import MakeVector
from theano_ng.tensor.shaping.joining import Join
from theano_ng.tensor.shaping.reshaping import Reshape, ScalarFromTensor, TensorFromScalar

__all__ = ["get_scalar_constant_value_elemwises", "vector_length"]


@register_scalar_constant(
    Alloc,
    DimShuffle,
    Rebroadcast,
    OutputGuard,
    DeepCopyOp,
    ScalarFromTensor,
    TensorFromScalar,
    ViewOp,
    Reshape,
    SpecifyShape,
)
def _moved(v, elemwise, only_process_constants, max_recur):
    """Return the first input, which the Op moves, copies or repeats. The search continues with this variable."""
    return v.owner.inputs[0]


@register_scalar_constant(ConditionalOp)
def _asserted(v, elemwise, only_process_constants, max_recur):
    """Return the first input if all conditions are known to be true. The search continues with this variable."""
    value, *conditions = v.owner.inputs
    if max_recur <= 0:
        return None  # Limit the recursion, because long chains of nodes may compute the conditions.
    if all(
        get_scalar_constant_value(condition, elemwise, only_process_constants, max_recur - 1)
        for condition in conditions
    ):
        return value
    return None


# These scalar ops are evaluated on constants. All of them are cheap.
get_scalar_constant_value_elemwises = (
    scal.Cast,
    scal.Switch,
    scal.NEQ,
    scal.EQ,
    scal.LT,
    scal.GT,
    scal.LE,
    scal.GE,
    scal.Sub,
    scal.Add,
    scal.Mod,
    scal.Mul,
    scal.IntDiv,
    scal.TrueDiv,
    scal.Minimum,
    scal.Maximum,
)
# These scalar ops return their last operand.
_HAND_ON = (scal.Second, scal.Identity)
# Class of scalar ops -> True if it is a subclass of a class in one of the two tuples above.
_followed = {}


@register_scalar_constant(Elemwise)
def _elemwise(v, elemwise, only_process_constants, max_recur):
    node = v.owner
    scalar_op = node.op.scalar_op
    if isinstance(scalar_op, _HAND_ON):
        # `fill(a, b)` has the value of b.
        source = node.inputs[-1]
        return _as_dtype(source, v, elemwise, only_process_constants, max_recur)
    if not elemwise or not isinstance(scalar_op, get_scalar_constant_value_elemwises):
        return None
    for i in node.inputs:
        # Return None at the first operand that is obviously not constant. Most operations have such an operand, so the
        # values of the other operands need not be searched for.
        if not may_be_constant(i):
            return None
    values = [get_scalar_constant_value(i, elemwise, only_process_constants, max_recur - 1) for i in node.inputs]
    return _call(node, values)


def may_be_constant(v, operands=False):
    """Return False if the Op that computes `v` shows that `get_scalar_constant_value` cannot find the value of `v`.

    Parameters
    ----------
    v : Variable
    operands : bool
        Whether to check the operands of an elementwise operation, too.
    """
    if isinstance(v, Constant):
        return True
    owner = v.owner
    if owner is None:
        return False
    if isinstance(owner.op, Elemwise):
        cls = type(owner.op.scalar_op)
        if cls not in _followed:
            _followed[cls] = issubclass(cls, get_scalar_constant_value_elemwises + _HAND_ON)
        if operands and _followed[cls] and cls not in _HAND_ON:
            return all(map(may_be_constant, owner.inputs))
        return _followed[cls]
    return has_scalar_constant_rule(owner.op)


def _as_dtype(source, v, elemwise, only_process_constants, max_recur):
    if source.dtype == v.dtype:
        return source
    value = get_scalar_constant_value(source, elemwise, only_process_constants, max_recur)
    return np.asarray(value, dtype=v.dtype)


def _call(node, values):
    """Return the value of an Elemwise node for given values of its inputs. Cast the values to the inputs' dtypes."""
    values = [np.asarray(x, dtype=i.dtype) for x, i in zip(values, node.inputs)]
    return _computed(node.op.scalar_op, values, node.outputs[0].dtype)


def _computed(op, values, dtype):
    """Return the value of a scalar op on `values`. Return None if the op divides by zero."""
    try:
        with np.errstate(all="ignore"):
            value = op.impl(*[x[()] for x in values])
    except ZeroDivisionError:
        return None
    return np.asarray(value, dtype=dtype)


@register_scalar_constant(scal.ScalarOp)
def _scalar_op(v, elemwise, only_process_constants, max_recur):
    """Evaluate an operation on scalar variables (of Type `Scalar`, not 0-d tensors)."""
    node = v.owner
    if isinstance(node.op, (scal.Second, scal.Identity)):
        return node.inputs[-1]
    if not elemwise or not isinstance(node.op, get_scalar_constant_value_elemwises):
        return None
    values = [
        np.asarray(get_scalar_constant_value(i, elemwise, only_process_constants, max_recur - 1), dtype=i.type.dtype)
        for i in node.inputs
    ]
    return _computed(node.op, values, v.type.dtype)


def _has_length_one(x, i):
    """Return True if dimension `i` of `x` is broadcastable.

    Return False for sparse types, which have no broadcast pattern.
    """
    return hasattr(x.type, "broadcastable") and x.type.broadcastable[i]


@register_scalar_constant(Shape_i)
def _shape_i(v, elemwise, only_process_constants, max_recur):
    x = v.owner.inputs[0]
    i = v.owner.op.i
    if isinstance(x, Constant):
        return np.asarray(np.shape(x.data)[i], dtype="int64")
    if _has_length_one(x, i):
        return np.asarray(1, dtype="int64")
    return None


@register_scalar_constant(MakeVector)
def _make_vector(v, elemwise, only_process_constants, max_recur):
    if len(v.owner.inputs) == 1:
        return v.owner.inputs[0]
    return None


@register_scalar_constant(Subtensor)
def _subtensor(v, elemwise, only_process_constants, max_recur):
    """Return an element of a constant, `MakeVector`, `Join` or shape. Return None if the element is not known."""
    if v.ndim != 0:
        return None
    node = v.owner
    x = node.inputs[0]
    if not isinstance(x, Constant) and (
        x.owner is None or len(node.op.idx_list) != 1 or not isinstance(x.owner.op, (MakeVector, Join, Shape))
    ):
        return None
    index = _constant_index(node, max_recur)
    if index is None:
        return None
    if isinstance(x, Constant):
        try:
            return np.asarray(x.data[tuple(index)])
        except IndexError:
            raise NotScalarConstantError(v) from None
    position = index[0]
    owner = x.owner
    if isinstance(owner.op, MakeVector):
        if -len(owner.inputs) <= position < len(owner.inputs):
            return _as_dtype(owner.inputs[position], v, elemwise, only_process_constants, max_recur)
        return None
    if isinstance(owner.op, Join) and owner.inputs[1].ndim == 1:
        return _element_of_join(owner, position, v, max_recur)
    if isinstance(owner.op, Shape):
        return _shape_element(owner.inputs[0], position)
    return None


_subtensor.is_lookup = True


def _constant_index(node, max_recur):
    """Return the index of a Subtensor node as a list of integers. Return None if an item is a slice or not constant."""
    result = []
    for item in get_idx_list(node.inputs, node.op.idx_list):
        if isinstance(item, slice):
            return None
        try:
            result.append(int(get_scalar_constant_value(item, max_recur=max_recur - 1)))
        except NotScalarConstantError:
            return None
    return result


def _element_of_join(owner, position, v, max_recur):
    """Return the element at `position` of joined vectors as a variable or value.

    Return None if a length is not known.
    """
    pieces = owner.inputs[1:]
    try:
        lengths = [get_vector_length(piece) for piece in pieces]
    except ValueError:
        return None
    if position < 0:
        position += sum(lengths)
    for piece, length in zip(pieces, lengths):
        if 0 <= position < length:
            element = piece[position]
            if element.dtype == v.dtype:
                return element
            return np.asarray(get_scalar_constant_value(element, max_recur=max_recur - 1), dtype=v.dtype)
        position -= length
    return None


def _shape_element(x, position):
    if not -x.ndim <= position < x.ndim:
        return None
    if isinstance(x, Constant):
        return np.asarray(x.data.shape[position], dtype="int64")
    if _has_length_one(x, position):
        return np.asarray(1, dtype="int64")
    # SpecifyShape specifies the lengths.
    if x.owner is not None and isinstance(x.owner.op, SpecifyShape):
        return x.owner.inputs[1][position]
    return None


# ---------------------------------------------------------------------------


@register_conversion("length")
def vector_length(v):
    """Return the length of the vector `v` if it follows from the node that computes `v`. Otherwise, return None."""
    node = v.owner
    if node is None:
        return None
    op = node.op
    if isinstance(op, MakeVector):
        return len(node.inputs)
    if isinstance(op, Shape):
        return node.inputs[0].ndim
    if isinstance(op, Join):
        try:
            return sum(get_vector_length(x) for x in node.inputs[1:])
        except ValueError:
            return None
    if isinstance(op, Elemwise):
        # All operands that are not broadcastable have the length of the result.
        for x in node.inputs:
            if not x.broadcastable[0]:
                length = vector_length(x) if not isinstance(x, Constant) else len(x.data)
                if length is not None:
                    return length
        return None
    if isinstance(op, (Rebroadcast, ViewOp, OutputGuard, DeepCopyOp)):
        return vector_length(node.inputs[0])
    if isinstance(op, SpecifyShape):
        return _length_from_scalar(node.inputs[1][0])
    if isinstance(op, Alloc):
        return _length_from_scalar(node.inputs[1])
    if isinstance(op, Reshape):
        length = _length_from_scalar(node.inputs[1][0])
        return None if length is None or length < 0 else length
    if isinstance(op, Subtensor) and node.inputs[0].ndim == 1:
        return _length_of_slice(node)
    return None


def _length_from_scalar(x):
    try:
        return int(get_scalar_constant_value(x))
    except NotScalarConstantError:
        return None


def _length_of_slice(node):
    try:
        whole = get_vector_length(node.inputs[0])
    except ValueError:
        return None
    (item,) = get_idx_list(node.inputs, node.op.idx_list)
    bounds = []
    for bound in (item.start, item.stop, item.step):
        if isinstance(bound, Variable):
            bound = _length_from_scalar(bound)
            if bound is None:
                return None
        bounds.append(bound)
    return len(range(*slice(*bounds).indices(whole)))
