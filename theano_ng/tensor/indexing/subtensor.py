"""Indexing of tensors: views by integers and slices, their increments, and the functions for users.

Indexing by arrays and masks is in `indexing.advanced`. Its names are available in this module, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import theano_ng.scalar as scal
from theano_ng.compile.ops import shape
from theano_ng.configdefaults import config
from theano_ng.gof.derivative import disconnected_gradients
from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.native import NativeCode
from theano_ng.gof.op import Op
from theano_ng.gof.type import Type
from theano_ng.printing import pprint
from theano_ng.scalar import Scalar
from theano_ng.tensor.constant import (
    NotScalarConstantError,
    as_tensor_variable,
    get_scalar_constant_value,
    tensor_or_other,
)
from theano_ng.tensor.dtypes import DISCRETE, INTEGERS
from theano_ng.tensor.elemwise.functions import clip
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.indexing.advanced import (
    AdvancedBooleanIncSubtensor,
    AdvancedBooleanSubtensor,
    AdvancedIncSubtensor,
    AdvancedIncSubtensor1,
    AdvancedSubtensor,
    AdvancedSubtensor1,
    BaseAdvancedIncSubtensor,
    BaseAdvancedSubtensor,
    _sum_grad_over_bcasted_dims,
    advanced_boolean_inc_subtensor,
    advanced_boolean_set_subtensor,
    advanced_boolean_subtensor,
    advanced_inc_subtensor,
    advanced_inc_subtensor1,
    advanced_set_subtensor,
    advanced_set_subtensor1,
    advanced_subtensor,
    advanced_subtensor1,
    gradient_by_value,
    zeros_for_gradient,
)
from theano_ng.tensor.indexing.code import IncSubtensorHooks
from theano_ng.tensor.indexing.index_lists import (
    AdvancedBooleanIndexingError,
    AdvancedIndexingError,
    ScalarInputsOp,
    adv_index_broadcastable_pattern,
    as_index_constant,
    as_index_variable,
    check_advanced_indexing_dimensions,
    check_and_reject_bool,
    check_increment_dtypes,
    checked,
    consumed,
    get_canonical_form_slice,
    get_idx_list,
    is_basic,
    is_integer,
    is_mask,
    make_constant,
    selects_only_element,
    slice_length,
    within,
)
from theano_ng.tensor.shaping.allocation import alloc
from theano_ng.tensor.shaping.broadcasting import addbroadcast
from theano_ng.tensor.shaping.joining import concatenate
from theano_ng.tensor.shaping.reshaping import Reshape, scalar_from_tensor
from theano_ng.tensor.type import TensorType
from theano_ng.tensor.type_other import NoneConst, NoneTypeT, SliceType, make_slice

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = [
    "AdvancedBooleanIncSubtensor",
    "AdvancedBooleanIndexingError",
    "AdvancedBooleanSubtensor",
    "AdvancedIncSubtensor",
    "AdvancedIncSubtensor1",
    "AdvancedIndexingError",
    "AdvancedSubtensor",
    "AdvancedSubtensor1",
    "BaseAdvancedIncSubtensor",
    "BaseAdvancedSubtensor",
    "IncSubtensor",
    "NoneConst",
    "Subtensor",
    "SubtensorPrinter",
    "adv_index_broadcastable_pattern",
    "advanced_boolean_inc_subtensor",
    "advanced_boolean_set_subtensor",
    "advanced_boolean_subtensor",
    "advanced_inc_subtensor",
    "advanced_inc_subtensor1",
    "advanced_set_subtensor",
    "advanced_set_subtensor1",
    "advanced_subtensor",
    "advanced_subtensor1",
    "as_index_constant",
    "as_index_variable",
    "check_advanced_indexing_dimensions",
    "check_and_reject_bool",
    "get_canonical_form_slice",
    "get_idx_list",
    "inc_subtensor",
    "index_variable",
    "make_constant",
    "make_slice",
    "set_subtensor",
    "take",
]

integer_types = (int,)

# The kinds of the fields (start, stop, step) in the parameters of the native code. See native/indexing/subtensor.c.
_NONE, _VALUE, _INPUT = 0, 1, 2


def _hashable(idx_list):
    """Return idx_list with tuples instead of slices, because slices are not hashable in every Python version."""
    return tuple(
        ("slice", entry.start, entry.stop, entry.step) if isinstance(entry, slice) else entry for entry in idx_list
    )


class _BasicIndexing(ScalarInputsOp, Op):
    """The base class of Subtensor and IncSubtensor. `idx_list` is a template of Scalar types, None and slices."""

    def __init__(self, idx_list):
        self.idx_list = tuple(Subtensor.convert(entry) for entry in idx_list)

    @staticmethod
    def my_as_scalar(a):
        """Convert a 0-d tensor to a Scalar variable, and a Python integer to a constant."""
        if is_integer(a):
            return as_index_constant(a)
        if isinstance(a, Variable) and isinstance(a.type, TensorType):
            return scalar_from_tensor(a)
        return a

    def _checked_indices(self, x, inputs):
        inputs = [self.my_as_scalar(a) for a in inputs]
        if len(self.idx_list) > x.type.ndim:
            raise IndexError(
                "too many indices for array: array is %d-dimensional, but %d were indexed"
                % (x.type.ndim, len(self.idx_list))
            )
        types = Subtensor.collapse(self.idx_list, lambda entry: isinstance(entry, Type))
        if len(inputs) != len(types):
            raise IndexError("Not enough inputs to fill in the Subtensor template.", inputs, self.idx_list)
        for given, expected in zip(inputs, types):
            if given.type != expected:
                raise TypeError("Wrong type for Subtensor template. Expected %s, got %s." % (expected, given.type))
        return inputs

    def _index_text(self):
        return ", ".join(
            self.str_from_slice(entry) if isinstance(entry, slice) else str(entry) for entry in self.idx_list
        )

    @staticmethod
    def str_from_slice(entry):
        return ":".join("" if field is None else str(field) for field in (entry.start, entry.stop, entry.step))

    def _values(self, inputs):
        """Return the index for `perform`.

        Check that integers fit into an int64, because an unsigned integer may be too large.
        """
        return tuple(
            [entry if isinstance(entry, slice) else checked(entry) for entry in get_idx_list(inputs, self.idx_list)]
        )

    def _index_rows(self, node, first):
        """Return the idx_list as rows of the table for native/indexing/subtensor.c.

        `first` is the position of the first index among the inputs.
        """
        place = first

        def field(name, entry):
            nonlocal place
            what, value = _NONE, 0
            if isinstance(entry, Type):
                variable = node.inputs[place]
                what, value = _INPUT, place
                place += 1
                if isinstance(variable, Constant) and -(2**63) <= int(variable.data) < 2**63:
                    what, value = _VALUE, int(variable.data)
            elif entry is not None:
                what, value = _VALUE, int(entry)
            return {name + "_is": what, name: value}

        rows = []
        for entry in self.idx_list:
            fields = entry if isinstance(entry, slice) else slice(entry, None, None)
            rows.append(
                {
                    "is_slice": isinstance(entry, slice),
                    **field("start", fields.start),
                    **field("stop", fields.stop),
                    **field("step", fields.step),
                }
            )
        return rows


class Subtensor(_BasicIndexing):
    """An Op that indexes a tensor by integers and slices: ``Subtensor(idx_list)(x, *indices)``. It returns a view.

    Parameters
    ----------
    idx_list : sequence
        One entry per indexed dimension: a Scalar type (the index is an input), or a slice whose fields are None or
        Scalar types. ``x[a, 2:b]`` is ``Subtensor([int64, slice(int64, int64, None)])(x, a, 2, b)``. A variable in
        idx_list is replaced by its type.

    Raises
    ------
    AdvancedIndexingError
        If an entry needs advanced indexing.
    IndexError
        If there are too many entries. At run time, if an index is out of bounds.
    """

    view_map = {0: [0]}
    check_input = False
    __module__ = "theano_ng.tensor.subtensor"  # the documented path; profiles and pickles contain it
    __props__ = ("idx_list",)
    _f16_ok = True

    def fails_on_values(self, node):
        # Constant indices do not count: whether they are out of bounds depends only on the shape of x, not on values.
        return not all(isinstance(index, Constant) for index in node.inputs[1:])

    @staticmethod
    def convert(entry, slice_ok=True):
        """Convert an index to an entry of idx_list. Variables are replaced by Scalar types."""
        if entry is None and not slice_ok:
            return None
        if isinstance(entry, slice) and slice_ok:
            return slice(*[Subtensor.convert(field, False) for field in (entry.start, entry.stop, entry.step)])
        type_ = entry.type if isinstance(entry, Variable) else entry
        if isinstance(type_, Scalar) and type_.dtype in INTEGERS:
            return type_
        if (
            isinstance(type_, TensorType)
            and type_.dtype in INTEGERS
            and all(type_.broadcastable)
            and (type_.ndim == 0 or not isinstance(entry, Variable))
        ):
            return scal.get_scalar_type(type_.dtype)
        if is_integer(entry):
            raise TypeError(
                "Python scalar in idx_list: %r. Put the type of the index into idx_list, and give the index as an "
                "input." % (entry,)
            )
        raise AdvancedIndexingError("Invalid index type or slice for Subtensor: %s" % (entry,))

    @staticmethod
    def collapse(idxs, cond):
        """Return a list of all indices and all fields of slices for which `cond` is true, in order."""
        result = []
        for entry in idxs:
            for field in (entry.start, entry.stop, entry.step) if isinstance(entry, slice) else (entry,):
                if cond(field):
                    result.append(field)
        return result

    def __eq__(self, other):
        return type(self) is type(other) and _hashable(self.idx_list) == _hashable(other.idx_list)

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash((type(self).__qualname__, _hashable(self.idx_list)))

    def __str__(self):
        return "%s{%s}" % (type(self).__name__, self._index_text())

    def get_constant_idx(self, inputs, allow_partial=False, only_process_constants=False, elemwise=True):
        """Return the idx_list, in which constant inputs are replaced by integers.

        Parameters
        ----------
        inputs : list
            The inputs of the node. The first input is skipped.
        allow_partial : bool
            If True, inputs that are not constant remain variables. If False, such inputs raise NotScalarConstantError.
        only_process_constants, elemwise : bool
            See `get_scalar_constant_value`.

        Returns
        -------
        list
        """

        def constant(value):
            if value is None or is_integer(value):
                return value
            if isinstance(value, slice):
                return slice(constant(value.start), constant(value.stop), constant(value.step))
            try:
                return int(
                    get_scalar_constant_value(value, only_process_constants=only_process_constants, elemwise=elemwise)
                )
            except NotScalarConstantError:
                if allow_partial:
                    return value
                raise

        return [constant(entry) for entry in get_idx_list(inputs, self.idx_list)]

    def make_node(self, x, *inputs):
        x = as_tensor_variable(x)
        inputs = self._checked_indices(x, inputs)
        filled = get_idx_list([x, *inputs], self.idx_list)
        pattern = []
        for i, flag in enumerate(x.type.broadcastable):
            if i >= len(filled):
                pattern.append(flag)
            elif isinstance(filled[i], slice):
                pattern.append(flag and selects_only_element(filled[i]))
        return Apply(self, [x, *inputs], [TensorType(x.type.dtype, pattern)()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.subtensor:subtensor", index=self._index_rows(node, 1))

    def perform(self, node, inputs, out_):
        out_[0][0] = np.asarray(inputs[0][self._values(inputs)])

    def infer_shape(self, node, shapes):
        sizes = []
        filled = get_idx_list(node.inputs, self.idx_list)
        for i, size in enumerate(shapes[0]):
            if i >= len(filled):
                sizes.append(size)
            elif isinstance(filled[i], slice):
                sizes.append(as_tensor_variable(slice_length(filled[i], size)))
        return [tuple(sizes)]

    def connection_pattern(self, node):
        return [[True], *[[False] for _ in node.inputs[1:]]]

    def grad(self, inputs, grads):
        x, rest = inputs[0], inputs[1:]
        if x.dtype in DISCRETE:
            gx = x.zeros_like(dtype=config.floatX)
        else:
            gx = IncSubtensor(self.idx_list)(zeros_for_gradient(x), grads[0], *rest)
        return [gx, *disconnected_gradients(len(rest))]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return self(eval_points[0], *inputs[1:], return_list=True)


class SubtensorPrinter:
    """The printer of Subtensor, in Python's notation of an index: ``x[i, Constant{2}:]``."""

    def process(self, r, pstate):
        """Return the text of the variable `r`."""
        return pstate.pprinter._expand(self.parts(r, pstate), pstate)

    def parts(self, r, pstate):
        """Return the text of the variable `r` as a list of strings and of pairs (variable, precedence)."""
        if r.owner is None or not isinstance(r.owner.op, Subtensor):
            raise TypeError("Can only print Subtensor.")
        node = r.owner

        def piece(value):
            return (value, -1000) if isinstance(value, Variable) else str(value)

        parts = [(node.inputs[0], 1000), "["]
        for k, entry in enumerate(get_idx_list(node.inputs, node.op.idx_list)):
            if k:
                parts.append(", ")
            if not isinstance(entry, slice):
                parts.append(piece(entry))
                continue
            for before, field in (("", entry.start), (":", entry.stop)):
                parts.append(before)
                if field is not None:
                    parts.append(piece(field))
            if entry.step is not None:
                parts += [":", piece(entry.step)]
        parts.append("]")
        return parts


pprint.assign(lambda pstate, r: r.owner is not None and isinstance(r.owner.op, Subtensor), SubtensorPrinter())


class IncSubtensor(IncSubtensorHooks, _BasicIndexing):
    """An Op that increments or sets a part of a tensor.

    ``IncSubtensor(idx_list)(x, y, *indices)`` is x with y added to ``x[indices]``.

    Parameters
    ----------
    idx_list : sequence
        See `Subtensor`.
    inplace : bool
        Whether to change x itself instead of a copy.
    set_instead_of_inc : bool
        Whether to set the part to y.
    destroyhandler_tolerate_aliased : list of pairs of int, optional
        A parameter of the destroy handler: (i, j) permits that input j shares memory with the destroyed input i.

    Raises
    ------
    ValueError
        If y has more dimensions than the part. At run time, if y cannot be broadcast to the part.
    TypeError
        If the dtype of y cannot be converted to the dtype of x.
    """

    check_input = False
    __module__ = "theano_ng.tensor.subtensor"
    __props__ = ("idx_list", "inplace", "set_instead_of_inc")

    def fails_on_values(self, node):
        # Constant indices do not count: whether they are out of bounds depends only on the shape of x, not on values.
        return not all(isinstance(index, Constant) for index in node.inputs[2:])

    def takes_memory(self, node):
        return not self.inplace or node.inputs[0].type.dtype != node.inputs[1].type.dtype

    def __init__(self, idx_list, inplace=False, set_instead_of_inc=False, destroyhandler_tolerate_aliased=None):
        super().__init__(idx_list)
        self.inplace = inplace
        self.set_instead_of_inc = set_instead_of_inc
        self.destroyhandler_tolerate_aliased = list(destroyhandler_tolerate_aliased or [])
        if inplace:
            self.destroy_map = {0: [0]}

    def __eq__(self, other):
        return (
            type(self) is type(other)
            and _hashable(self.idx_list) == _hashable(other.idx_list)
            and self.inplace == other.inplace
            and self.set_instead_of_inc == other.set_instead_of_inc
        )

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash((type(self).__qualname__, _hashable(self.idx_list), self.inplace, self.set_instead_of_inc))

    def __str__(self):
        return "%s{%s%s;%s}" % (
            type(self).__name__,
            "Inplace" if self.inplace else "",
            "Set" if self.set_instead_of_inc else "Inc",
            self._index_text(),
        )

    def make_node(self, x, y, *inputs):
        x, y = as_tensor_variable(x), as_tensor_variable(y)
        part = x.ndim - sum(not isinstance(entry, slice) for entry in self.idx_list)
        if y.ndim > part:
            raise ValueError(
                "Trying to %s a %d-dimensional subtensor with a %d-dimensional value."
                % ("set" if self.set_instead_of_inc else "increment", part, y.ndim)
            )
        check_increment_dtypes(x, y, self.set_instead_of_inc)
        return Apply(self, [x, y, *self._checked_indices(x, inputs)], [x.type()])

    def native_code(self, node):
        if self.has_own_code():  # A subclass overrides a hook.
            return None
        return NativeCode(
            "theano_ng.tensor.native.subtensor:inc_subtensor",
            in_place=bool(self.inplace),
            set_instead_of_inc=bool(self.set_instead_of_inc),
            index=self._index_rows(node, 2),
        )

    def c_code(self, node, name, inputs, outputs, sub):
        if self.has_own_code():
            return self.hooked_c_code(node, name, inputs, outputs, sub)
        return super().c_code(node, name, inputs, outputs, sub)

    def perform(self, node, inputs, out_):
        x, y = inputs[:2]
        index = self._values(inputs[1:])
        if not self.inplace:
            x = x.copy()
        elif not x.flags.writeable:
            raise ValueError("the input of an in-place increment is read-only")
        if np.may_share_memory(x, y):
            y = y.copy()
        # With the Ellipsis, the index of a single element returns a 0-d view instead of a number.
        part = x[(*index, Ellipsis)]
        if self.set_instead_of_inc:
            part[...] = y
        else:
            np.add(part, y.astype(x.dtype, copy=False), out=part)
        out_[0][0] = x

    def infer_shape(self, node, shapes):
        return [shapes[0]]

    def connection_pattern(self, node):
        return [[True], [True], *[[False] for _ in node.inputs[2:]]]

    def grad(self, inputs, grads):
        (gz,) = grads
        x, y, rest = inputs[0], inputs[1], inputs[2:]
        if x.dtype in DISCRETE:
            gx, gy = x.zeros_like(dtype=config.floatX), y.zeros_like(dtype=config.floatX)
        else:
            gx = gz
            if self.set_instead_of_inc:
                gx = IncSubtensor(self.idx_list, set_instead_of_inc=True)(gz, np.zeros((), dtype=gz.dtype), *rest)
            if y.dtype in DISCRETE:
                gy = y.zeros_like(dtype=config.floatX)
            else:
                gy = gradient_by_value(Subtensor(self.idx_list)(gz, *rest), x, y)
        return [gx, gy, *disconnected_gradients(len(rest))]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None and eval_points[1] is None:
            return [None]
        points = [x.zeros_like() if point is None else point for x, point in zip(inputs[:2], eval_points[:2])]
        return self(*points, *inputs[2:], return_list=True)


# ---------------------------------------------------------------- x[...]


def _is_array(idx):
    return isinstance(idx, Variable) and isinstance(idx.type, TensorType) and (idx.ndim > 0 or idx.dtype == "bool")


def _as_index(idx):
    """Convert one index of ``x[...]``: Python and NumPy values that represent arrays become tensor variables."""
    if is_integer(idx):
        return checked(idx)
    if idx is None or idx is Ellipsis:
        return idx
    if isinstance(idx, slice):
        fields = (idx.start, idx.stop, idx.step)
        return slice(*[tensor_or_other(field) if isinstance(field, Variable) else field for field in fields])
    if isinstance(idx, Variable):
        if isinstance(idx.type, NoneTypeT):
            return None
        if not isinstance(idx.type, (TensorType, Scalar, SliceType)):
            idx = as_tensor_variable(idx)
    else:
        if not isinstance(idx, np.ndarray):
            check_and_reject_bool(idx)
        if isinstance(idx, (list, tuple)) and len(idx) == 0:
            idx = np.zeros(0, dtype="int64")
        if isinstance(idx, np.ndarray) and idx.ndim == 0 and idx.dtype.kind in "iu":
            return int(idx)
        idx = as_tensor_variable(idx)
    if isinstance(idx.type, (TensorType, Scalar)) and idx.type.dtype not in DISCRETE:
        raise TypeError("Expected an integer, slice or boolean index, got a variable of type %s" % (idx.type,))
    return idx


def index_variable(x: TensorLike, args: Any) -> TensorVariable:
    """Return ``x[args]`` for a tensor variable. All kinds of indices that NumPy supports are supported.

    Parameters
    ----------
    x : tensor variable
    args : index or tuple of indices
        Integers, slices, None, Ellipsis, integer arrays, boolean arrays, and variables of these kinds. A list that
        contains a slice is treated as a tuple, because it cannot be an array.

    Returns
    -------
    TensorVariable
        The result of a Subtensor (a view) for integers and slices, and of an advanced indexing Op for other indices.

    Raises
    ------
    IndexError
        If there are more indices than dimensions.
    TypeError
        If an index is neither integer nor boolean.
    """
    several = isinstance(args, tuple) or isinstance(args, list) and any(isinstance(idx, slice) for idx in args)
    args = [_as_index(idx) for idx in (args if several else (args,))]
    ellipses = [i for i, idx in enumerate(args) if idx is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index can only have a single ellipsis (Ellipsis; '...')")
    used = sum(consumed(idx) for idx in args if idx is not Ellipsis)
    if used > x.ndim:
        raise IndexError("too many indices for array: array is %d-dimensional, but %d were indexed" % (x.ndim, used))
    empty = None
    if ellipses:
        if used == x.ndim:
            empty = ellipses[0]
        args[ellipses[0] : ellipses[0] + 1] = [slice(None)] * (x.ndim - used)

    if any(_is_array(idx) or (isinstance(idx, Variable) and isinstance(idx.type, SliceType)) for idx in args):
        check_advanced_indexing_dimensions(x, args)
        if empty is not None and all(not all(map(is_basic, side)) for side in (args[:empty], args[empty:])):
            # An Ellipsis between arrays separates them even if it replaces no dimension: the dimensions of the arrays
            # come first in the result. Replace the Ellipsis by a new axis, which has the same effect, and drop this
            # axis from the result.
            part = index_variable(x, (*args[:empty], None, *args[empty:]))
            rest = sum(is_basic(idx) for idx in args[:empty])
            first = part.ndim - 1 - sum(is_basic(idx) for idx in args)
            return part.dimshuffle([i for i in range(part.ndim) if i != first + rest])
        if any(is_mask(idx) for idx in args):
            return advanced_boolean_subtensor(x, *args)
        arrays = [i for i, idx in enumerate(args) if not (isinstance(idx, slice) and idx == slice(None))]
        if len(arrays) == 1 and _is_array(args[arrays[0]]):
            return take(x, args[arrays[0]], axis=arrays[0])
        return advanced_subtensor(x, *args)

    if any(idx is None for idx in args):
        # Index x first, and then add the new axes to the part. In this order, `inc_subtensor` of the returned variable
        # has the shape of x. If x is itself the result of indexing, index x even if the index takes all of x. Without
        # this operation, `inc_subtensor` would return the tensor from which x was taken.
        taken = [idx for idx in args if idx is not None]
        everything = all(isinstance(idx, slice) and idx == slice(None) for idx in taken)
        part = x if everything and not _is_part(x) else index_variable(x, tuple(taken))
        pattern: list[int | str] = []
        axis = 0
        for idx in args:
            if idx is None:
                pattern.append("x")
            elif isinstance(idx, slice):
                pattern.append(axis)
                axis += 1
        return part.dimshuffle([*pattern, *range(axis, part.ndim)])

    indices = make_constant(args)
    return Subtensor(indices)(x, *Subtensor.collapse(indices, lambda field: isinstance(field, Variable)))


def take(a: TensorLike, indices: TensorLike, axis: int | None = None, mode: str = "raise") -> TensorVariable:
    """Return elements of a tensor along an axis, as `numpy.take`.

    Parameters
    ----------
    a : tensor
    indices : integer tensor
    axis : int, optional
        The indexed axis. By default, the flattened tensor is indexed.
    mode : {"raise", "wrap", "clip"}
        The treatment of an index that is out of bounds. "raise": an IndexError at run time; "wrap": the index modulo
        the length; "clip": the nearest valid index.

    Returns
    -------
    TensorVariable
        The elements. The dimension `axis` of `a` is replaced by the dimensions of `indices`.
    """
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError("take: mode must be 'raise', 'wrap' or 'clip', got %r" % (mode,))
    a, indices = as_tensor_variable(a), as_tensor_variable(indices)
    if indices.dtype not in INTEGERS:
        raise TypeError("take: indices must be integers, got a variable of type %s" % (indices.type,))
    if axis is None:
        return take(a.flatten(), indices, axis=0, mode=mode)
    if not -a.ndim <= axis < a.ndim:
        raise IndexError("take: axis %d is out of bounds for %d dimensions" % (axis, a.ndim))
    axis %= a.ndim
    indices = within(indices, a.shape[axis], mode)
    if indices.ndim == 0:
        return index_variable(a, (slice(None),) * axis + (indices,))
    if indices.ndim == 1:
        if axis == 0:
            return advanced_subtensor1(a, indices)
        # AdvancedSubtensor1 indexes the first dimension. So move the axis to the front, and move it back afterwards.
        order = list(range(a.ndim))
        order[0], order[axis] = axis, 0
        return advanced_subtensor1(a.dimshuffle(order), indices).dimshuffle(order)
    parts = [shape(indices)]
    if axis > 0:
        parts.insert(0, shape(a)[:axis])
    if axis < a.ndim - 1:
        parts.append(shape(a)[axis + 1 :])
    return take(a, indices.flatten(), axis).reshape(concatenate(parts), ndim=a.ndim + indices.ndim - 1)


# ---------------------------------------------------------------- set_subtensor, inc_subtensor


def _is_part(x):
    """Return True if a variable is the result of indexing, or a DimShuffle or Reshape of such a result."""
    while x.owner is not None and isinstance(x.owner.op, (DimShuffle, Reshape)):
        x = x.owner.inputs[0]
    return x.owner is not None and isinstance(x.owner.op, (Subtensor, AdvancedSubtensor1, BaseAdvancedSubtensor))


def set_subtensor(
    x: TensorVariable, y: TensorLike, inplace: bool = False, tolerate_inplace_aliasing: bool = False
) -> TensorVariable:
    """Return the tensor from which the part x was taken, with this part set to y.

    Parameters
    ----------
    x : variable
        The result of indexing, such as ``r[10:]``.
    y : tensor
        The value. It is broadcast to x. See the notes of `inc_subtensor`.
    inplace : bool
        Users should not set this parameter: rewriting rules decide which operations work in place.
    tolerate_inplace_aliasing : bool
        If True, y may share memory with the tensor that `inplace` overwrites, but y must not overlap the part.

    Returns
    -------
    TensorVariable
        A new tensor. The original tensor is not changed.

    Examples
    --------
    >>> import theano_ng.tensor as T
    >>> r = T.ivector()
    >>> new_r = T.set_subtensor(r[10:], 5)
    """
    return inc_subtensor(x, y, inplace, set_instead_of_inc=True, tolerate_inplace_aliasing=tolerate_inplace_aliasing)


def inc_subtensor(
    x: TensorVariable,
    y: TensorLike,
    inplace: bool = False,
    set_instead_of_inc: bool = False,
    tolerate_inplace_aliasing: bool = False,
) -> TensorVariable:
    """Return the tensor from which the part x was taken, with y added to this part.

    If an element is indexed twice, it is incremented twice.

    Parameters
    ----------
    x : variable
        The result of indexing, such as ``r[10:]``.
    y : tensor
        The increment. It is broadcast to x.
    inplace : bool
        Users should not set this parameter.
    set_instead_of_inc : bool
        Whether to set the part to y instead of incrementing it.
    tolerate_inplace_aliasing : bool
        See `set_subtensor`.

    Raises
    ------
    TypeError
        If x is not the result of indexing, or if y has more dimensions than x.

    Notes
    -----
    The result has the shape of the tensor that was indexed last. An index that only adds axes is also an index: for
    ``v[:, None]`` and ``v[None, 1:]``, the result has the shape of v, even if v is itself a part of a tensor.
    Transpositions, reshapes and explicit dimshuffles after the index are allowed.

    Dimensions of y that are repeated should be broadcastable in the type of y (use `addbroadcast`). Dimensions that
    have length 1 only at run time are repeated, too, as in NumPy. But some rewriting rules assume that the lengths of
    such dimensions equal the lengths of the part, and the compiled function then raises an error. The gradient with
    respect to y has the shape of y.
    """
    x, y = as_tensor_variable(x), as_tensor_variable(y)
    if y.ndim > x.ndim:
        raise TypeError(
            "Trying to increment a %d-dimensional subtensor with a %d-dimensional value." % (x.ndim, y.ndim)
        )
    offset = x.ndim - y.ndim
    for i in range(y.ndim):
        if x.broadcastable[offset + i] and not y.broadcastable[i]:
            # The part has length 1 in this dimension, so y must have length 1, too.
            y = addbroadcast(y, i)
    if x.owner is None:
        raise TypeError("x must be the result of a subtensor operation")
    op: Any = x.owner.op
    inner: Any = x.owner.inputs[0]
    if isinstance(op, Subtensor):
        tolerated = [(0, 1)] if tolerate_inplace_aliasing else []
        return IncSubtensor(op.idx_list, inplace, set_instead_of_inc, destroyhandler_tolerate_aliased=tolerated)(
            inner, y, *x.owner.inputs[1:]
        )
    for found, increment in (
        (AdvancedSubtensor1, AdvancedIncSubtensor1),
        (AdvancedBooleanSubtensor, AdvancedBooleanIncSubtensor),
        (AdvancedSubtensor, AdvancedIncSubtensor),
    ):
        if isinstance(op, found):
            return increment(inplace, set_instead_of_inc)(inner, y, *x.owner.inputs[1:])
    again = dict(
        inplace=inplace, set_instead_of_inc=set_instead_of_inc, tolerate_inplace_aliasing=tolerate_inplace_aliasing
    )
    if isinstance(op, DimShuffle):
        # take() moves the indexed dimension to the front, and moves it back after the indexing. Increment the moved
        # tensor by the moved y, and move the result back.
        y = as_tensor_variable(y, ndim=x.ndim)
        order = [op.new_order.index(i) if i in op.new_order else "x" for i in range(inner.ndim)]
        back = [i for i in op.new_order if i != "x"]
        if back == list(range(inner.ndim)) and not _is_part(inner):
            # The graph of x[None] has no indexing Op, so insert a Subtensor that takes the whole tensor.
            inner = Subtensor(())(inner)
        result = inc_subtensor(inner, y.dimshuffle(order), **again)
        # If the DimShuffle permutes dimensions, permute the result, too. But do not apply a DimShuffle that drops a
        # dimension of the part.
        return result if "x" in order or back == sorted(back) else result.dimshuffle(back)
    if isinstance(op, Reshape):
        # take() with a matrix of indices flattens the matrix, and reshapes the result. Reshape y in the same way, and
        # increment the tensor before the Reshape.
        if y.ndim > 0:
            y = alloc(y, *[x.shape[i] for i in range(x.ndim)]).reshape(inner.shape, ndim=inner.ndim)
        return inc_subtensor(inner, y, **again)
    raise TypeError("x must be the result of a subtensor operation, but it is the result of %s" % (op,))
