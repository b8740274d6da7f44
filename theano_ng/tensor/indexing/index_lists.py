"""Helper functions for indexing Ops and rewriting rules: index lists, their inputs, slices in canonical form."""

import numpy as np

import theano_ng.scalar as scal
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.native import NativeOp, equivalent_to_native
from theano_ng.gof.type import Type
from theano_ng.scalar import Scalar
from theano_ng.tensor.constant import NotScalarConstantError, as_tensor_variable, constant, get_scalar_constant_value
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.functions import cast, lt, maximum, minimum, switch
from theano_ng.tensor.type import TensorType
from theano_ng.tensor.type_other import NoneConst, NoneTypeT, SliceConstant, SliceType, make_slice, slicetype

__all__ = [
    "AdvancedBooleanIndexingError",
    "AdvancedIndexingError",
    "adv_index_broadcastable_pattern",
    "as_index_constant",
    "as_index_variable",
    "check_advanced_indexing_dimensions",
    "check_and_reject_bool",
    "get_canonical_form_slice",
    "get_idx_list",
    "make_constant",
    "slice_length",
]


class AdvancedIndexingError(TypeError):
    """The exception that an Op for basic indexing raises for an index that needs advanced indexing."""


class AdvancedBooleanIndexingError(TypeError):
    """The exception that an Op for integer indexing raises for a boolean mask."""


class ScalarInputsOp(NativeOp):
    """A native Op with Scalar variables among its inputs.

    In a compiled module, these inputs are C numbers. `c_code` converts them to Python objects for the native function.
    """

    @equivalent_to_native
    def c_code(self, node, name, inputs, outputs, sub):
        names, make, drop = list(inputs), [], []
        for i, variable in enumerate(node.inputs):
            if isinstance(variable.type, Scalar):
                names[i] = "scalar_%s_%d" % (name, i)
                make.append(
                    # Copy the input to `value`, because a literal has no address.
                    "PyObject *%s; { PyArray_Descr *descr = PyArray_DescrFromType(%d); auto value = %s; "
                    "%s = PyArray_Scalar(&value, descr, NULL); Py_DECREF(descr); } native_failed |= %s == NULL;"
                    % (names[i], np.dtype(variable.type.dtype).num, inputs[i], names[i], names[i])
                )
                drop.append("Py_XDECREF(%s);" % names[i])
        body = NativeOp.c_code(self, node, name, names, outputs, dict(sub, fail="native_failed = 1;"))
        return "{\nint native_failed = 0;\n%s\nif (!native_failed)\n%s\n%s\nif (native_failed) {\n%s\n}\n}\n" % (
            "\n".join(make),
            body,
            "\n".join(drop),
            sub["fail"],
        )


# ---------------------------------------------------------------- index lists


def is_integer(value):
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def get_idx_list(inputs, idx_list, get_count=False):
    """Fill the template of a Subtensor with the inputs of its node.

    Parameters
    ----------
    inputs : sequence
        The inputs of the node. The first input, which is the indexed tensor, is skipped.
    idx_list : tuple
        The template of the Op: integers, types, and slices of integers and types.
    get_count : bool
        If True, return the number of inputs that the template uses, instead of the filled template.

    Returns
    -------
    tuple or int
    """
    rest = iter(inputs[1:])
    count = 0

    def fill(entry):
        nonlocal count
        if isinstance(entry, Type):
            count += 1
            return next(rest)
        if isinstance(entry, slice):
            return slice(fill(entry.start), fill(entry.stop), fill(entry.step))
        return entry

    filled = tuple(fill(entry) for entry in idx_list)
    return count if get_count else filled


def clipped(value):
    """Clip a start, stop or step to the range of int64.

    The clipped slice selects the same elements, because the length of a dimension always fits into an int64.
    """
    return min(max(int(value), -(2**63)), 2**63 - 1)


def checked(value):
    """Check an integer index, and return it as an int.

    Raises
    ------
    IndexError
        If the index does not fit into an int64.
    """
    if clipped(value) != value:
        raise IndexError("the index %d does not fit into an index-sized integer" % value)
    return int(value)


def as_index_constant(a):
    """Convert an index, or the start, stop and step of a slice, to variables.

    Integers become int64 Scalar constants.
    """
    if a is None:
        return None
    if isinstance(a, slice):
        return slice(
            *[as_index_constant(clipped(field) if is_integer(field) else field) for field in (a.start, a.stop, a.step)]
        )
    if is_integer(a):
        return scal.ScalarConstant(scal.int64, np.int64(checked(a)))
    if isinstance(a, Variable):
        return a
    return as_tensor_variable(a)


def make_constant(args):
    """Convert integers among indices, also inside slices, to int64 Scalar constants. Other indices are unchanged."""

    def convert(a):
        return as_index_constant(a) if is_integer(a) else a

    def of_slice(field):
        return convert(clipped(field) if is_integer(field) else field)

    return tuple(
        [slice(*map(of_slice, (a.start, a.stop, a.step))) if isinstance(a, slice) else convert(a) for a in args]
    )


def as_index_variable(idx):
    """Convert an index of an advanced indexing Op to a variable: a tensor, a slice, or None.

    Raises
    ------
    TypeError
        If a tensor contains neither integers nor booleans.
    """
    if idx is None:
        return NoneConst.clone()
    if isinstance(idx, Variable) and isinstance(idx.type, (SliceType, NoneTypeT)):
        return idx
    if isinstance(idx, slice):
        fields = []
        for field in (idx.start, idx.stop, idx.step):
            if isinstance(field, Constant):
                field = int(field.data)
            fields.append(field)
        if all(field is None or is_integer(field) for field in fields):
            return SliceConstant(slicetype, slice(*fields))
        return make_slice(
            slice(*[as_tensor_variable(field) if isinstance(field, Variable) else field for field in fields])
        )
    idx = as_tensor_variable(checked(idx) if is_integer(idx) else idx)
    if idx.type.dtype not in DISCRETE:
        raise TypeError("index must be integers or a boolean mask, got a variable of type %s" % (idx.type,))
    return idx


def check_and_reject_bool(args_el):
    """Raise TypeError if an index contains a Python boolean, also in nested lists.

    Masks must be NumPy arrays or tensors.

    Raises
    ------
    TypeError
        If the index contains a Python boolean.
    """
    stack = [args_el]
    while stack:
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            stack.extend(item)
        elif isinstance(item, (bool, np.bool_)):
            raise TypeError(
                "TensorType does not support Python bools for indexing, such as tensor[[True, False]]. To use a boolean mask, "
                "convert the mask to a NumPy array first, e.g., tensor[numpy.array([True, False])]."
            )


def is_mask(idx):
    """Return True if an index is a boolean tensor variable."""
    return isinstance(idx, Variable) and isinstance(idx.type, TensorType) and idx.type.dtype == "bool"


def is_basic(idx):
    """Return True if an index of an advanced indexing Op is None or a slice."""
    if idx is None or isinstance(idx, slice):
        return True
    return isinstance(idx, Variable) and isinstance(idx.type, (SliceType, NoneTypeT))


def is_new_axis(idx):
    return idx is None or (isinstance(idx, Variable) and isinstance(idx.type, NoneTypeT))


def consumed(idx):
    """Return the number of dimensions of the indexed tensor that an index consumes."""
    if is_new_axis(idx):
        return 0
    return idx.type.ndim if is_mask(idx) else 1


def check_advanced_indexing_dimensions(input, idx_list):
    """Check that an index fits the number of dimensions, and that masks have the known lengths of the dimensions.

    Raises
    ------
    IndexError
        If there are too many indices, or if a constant mask does not match a constant tensor.
    """
    axis = 0
    for idx in idx_list:
        if isinstance(idx, (np.ndarray, Constant)) and isinstance(input, Constant):
            mask = np.asarray(getattr(idx, "data", idx))
            if mask.dtype == bool:
                for k in range(mask.ndim):
                    if axis + k < input.ndim and mask.shape[k] != input.data.shape[axis + k]:
                        raise IndexError(
                            "boolean index did not match indexed array along dimension %d; dimension is %d but corresponding "
                            "boolean dimension is %d" % (axis + k, input.data.shape[axis + k], mask.shape[k])
                        )
        if isinstance(idx, np.ndarray) and idx.dtype == bool:
            axis += idx.ndim
        elif idx is not Ellipsis:
            axis += consumed(idx)
    if axis > input.ndim:
        raise IndexError(
            "too many indices for array: array is %d-dimensional, but %d were indexed" % (input.ndim, axis)
        )


# ---------------------------------------------------------------- slices in canonical form
#
# A start, stop or step is a Python integer if it is known, and an integer tensor otherwise. So the expressions for
# known slices remain simple.


def _field(value):
    """Return a start, stop or step of a slice as an int, an integer tensor, or None."""
    if value is None or is_integer(value):
        return None if value is None else int(value)
    if isinstance(value, Variable) and isinstance(value.type, NoneTypeT):
        return None
    try:
        return int(get_scalar_constant_value(value))
    except NotScalarConstantError:
        value = as_tensor_variable(value)
    # Clip and cast uint64, because operations on uint64 and int64 return float64.
    return cast(minimum(value, np.uint64(2**63 - 1)), "int64") if value.dtype == "uint64" else value


def _min(a, b):
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else minimum(a, b)


def _max(a, b):
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else maximum(a, b)


def _if_negative(value, then, otherwise):
    """Return ``then()`` if ``value < 0``, and ``otherwise()`` if not. For a symbolic value, return a switch of both."""
    if isinstance(value, int):
        return then() if value < 0 else otherwise()
    return switch(lt(value, 0), then(), otherwise())


def _forward(start, stop, step, length):
    """Return (start, stop) of a slice with a positive step, normalized to ``0 <= start <= stop <= length``."""
    if start is None or (isinstance(start, int) and start == 0):
        low = 0
    else:
        low = _if_negative(start, lambda: _max(start + length, 0), lambda: _min(start, length))
    if stop is None or (isinstance(stop, int) and stop >= np.iinfo("int32").max and not isinstance(length, int)):
        return low, length
    high = _if_negative(stop, lambda: _max(stop + length, 0), lambda: _min(stop, length))
    return low, high if isinstance(low, int) and low == 0 else _max(high, low)


def _backward(start, stop, step, length):
    """Return (start, stop) of the slice with the step ``-step`` that selects the same elements as a given slice.

    The step of the given slice, `step`, is negative, so ``-step`` is positive.
    """
    step = -step
    last = length - 1
    if start is None:
        high = last
    else:
        high = _if_negative(start, lambda: _max(start + length, -1), lambda: _min(start, last))
    if stop is None:
        low = -1
    else:
        low = _if_negative(stop, lambda: _max(stop + length, -1), lambda: _min(stop, last))
    if isinstance(step, int) and step == 1:
        return _max(_min(low, high) + 1, 0) if not (isinstance(low, int) and low == -1) else 0, high + 1
    count = _max((high - low - 1) // step + 1, 0)
    return high - (count - 1) * step, high + 1


def get_canonical_form_slice(theslice, length):
    """Convert an index or slice to the form ``0 <= start <= stop <= length, step > 0``.

    Parameters
    ----------
    theslice : slice or index
        The fields are Python integers, None, or integer scalar variables.
    length : int or variable
        Length of the indexed dimension.

    Returns
    -------
    tuple (slice or index, direction)
        ``x[theslice]`` equals ``x[slice][::direction]``. The direction is 1 or -1, or a variable if the step is a
        variable. An integer index becomes non-negative, and its direction is 1. Fields are Python integers if they are
        known.
    """
    length_ = _field(length)
    if not isinstance(theslice, slice):
        index = _field(theslice)
        return _if_negative(index, lambda: index + length_, lambda: index), 1
    start, stop, step = _field(theslice.start), _field(theslice.stop), _field(theslice.step)
    if step is None:
        step = 1
    if isinstance(step, int):
        if step == 0:
            raise ValueError("slice step cannot be zero")
        if step > 0:
            return slice(*_forward(start, stop, step, length_), step), 1
        if step < -(2**31):
            # Limit a step whose absolute value exceeds the length, so that sums with the step do not overflow. This
            # does not change the slice.
            step = _max(step, -1 - length_)
        return slice(*_backward(start, stop, step, length_), -step), -1
    step = _max(_min(step, length_ + 1), -1 - length_)
    negative = lt(step, 0)
    forward = _forward(start, stop, step, length_)
    backward = _backward(start, stop, step, length_)
    return (
        slice(switch(negative, backward[0], forward[0]), switch(negative, backward[1], forward[1]), abs(step)),
        switch(negative, -1, 1),
    )


def slice_length(theslice, length):
    """Return the number of elements that a slice selects from a dimension, as an int if the number is known."""
    if all(_field(field) is None for field in (theslice.start, theslice.stop, theslice.step)):
        return length
    canonical = get_canonical_form_slice(theslice, length)[0]
    span = canonical.stop - canonical.start
    if isinstance(canonical.start, int) and canonical.start == 0:
        span = canonical.stop
    if isinstance(canonical.step, int) and canonical.step == 1:
        return span
    return (span - 1) // canonical.step + 1


def slice_of(idx):
    """Return an index of an advanced Op as a Python slice of integers and variables.

    Return None if the slice is not known.
    """
    if isinstance(idx, slice):
        return idx
    if isinstance(idx, Constant):
        return idx.data
    if idx.owner is not None and idx.owner.op == make_slice:
        return slice(*[None if is_new_axis(field) else field for field in idx.owner.inputs])
    return None


def selects_only_element(theslice):
    """Return True if a slice is known to select the only element of a dimension that has length 1."""
    if theslice is None:
        return False
    fields = [_field(field) for field in (theslice.start, theslice.stop, theslice.step)]
    if not all(field is None or isinstance(field, int) for field in fields) or fields[2] == 0:
        return False
    return len(range(*slice(*fields).indices(1))) == 1


def within(indices, count, mode):
    """Adjust the indices that are not in ``0 .. count - 1``, by a mode of `take`.

    Parameters
    ----------
    indices : integer tensor
    count : int or integer scalar variable
    mode : {"raise", "wrap", "clip"}
        "raise" does not change the indices. "wrap" replaces them by their values modulo `count`. "clip" replaces them
        by the nearest valid index.

    Returns
    -------
    TensorVariable
        For "raise", `indices` itself. Otherwise an int64 tensor, or uint64 if `indices` is uint64.
    """
    if mode == "raise":
        return indices
    # Cast the indices and `count` to int64, because the dtype of the indices may be too small for `count`. If the
    # indices are uint64, cast `count` to uint64, because int64 and uint64 have no common integer dtype.
    wide = "uint64" if indices.dtype == "uint64" else "int64"
    indices, count = cast(indices, wide), cast(count, wide)
    if mode == "wrap":
        # If count is 0, the divisor is 1 and the indices become 0. The index 0 is out of bounds, so the indexing raises
        # an error.
        return indices % maximum(count, constant(1, dtype=wide))
    last = count - constant(1, dtype=wide)
    return minimum(indices, last) if wide == "uint64" else minimum(maximum(indices, constant(0, dtype=wide)), last)


# ---------------------------------------------------------------- the layout of an advanced index


def advanced_layout(ndim, idx):
    """Return which axes and indices determine the dimensions of the result of advanced indexing.

    Parameters
    ----------
    ndim : int
        The number of dimensions of the indexed tensor.
    idx : sequence of indices

    Returns
    -------
    tuple (rest, position, arrays)
        `rest` is a list with a pair for each dimension that no array indexes. The pair consists of the axis (None for a
        new axis) and the slice index (None if there is no slice). `arrays` is the list of the integer and boolean index
        arrays, which are broadcast to joint dimensions. `position` is the number of pairs of `rest` whose dimensions
        precede the joint dimensions in the result.
    """
    rest, arrays, axis, position, last, together = [], [], 0, 0, None, True
    for place, entry in enumerate(idx):
        if is_basic(entry):
            rest.append((None, None) if is_new_axis(entry) else (axis, entry))
        else:
            if not arrays:
                position = len(rest)
            elif last != place - 1:
                together = False
            last = place
            arrays.append(entry)
        axis += consumed(entry)
    rest.extend((k, None) for k in range(axis, ndim))
    return rest, position if together else 0, arrays


def adv_index_broadcastable_pattern(a, idx):
    """Return the broadcast pattern of ``a[idx]`` for an advanced index.

    Parameters
    ----------
    a : tensor variable
    idx : sequence of None, slices and tensor variables

    Returns
    -------
    tuple of bool
    """
    idx = [entry if is_basic(entry) else as_tensor_variable(entry) for entry in idx]
    rest, position, arrays = advanced_layout(a.ndim, idx)
    patterns = [(False,) if is_mask(x) else x.type.broadcastable for x in arrays]
    ndim = max((len(p) for p in patterns), default=0)
    joint = [all(p[i - (ndim - len(p))] for p in patterns if i >= ndim - len(p)) for i in range(ndim)]
    flags = []
    for axis, entry in rest:
        if axis is None:
            flags.append(True)
        else:
            flags.append(a.type.broadcastable[axis] and (entry is None or selects_only_element(slice_of(entry))))
    return (*flags[:position], *joint, *flags[position:])


def check_increment_dtypes(x, y, set_instead_of_inc):
    """Raise TypeError if the dtype of y cannot be converted to the dtype of x, the tensor to which y is written."""
    complex_loss = y.dtype.startswith("complex") and not x.dtype.startswith("complex")
    if complex_loss or (
        not set_instead_of_inc
        and not np.can_cast(y.dtype, x.dtype, casting="same_kind")
        and np.dtype(y.dtype).kind not in "iub"
    ):
        raise TypeError(
            "Trying to %s a tensor of dtype %s with a value of dtype %s: cast the value first."
            % ("set a part of" if set_instead_of_inc else "increment", x.dtype, y.dtype)
        )
