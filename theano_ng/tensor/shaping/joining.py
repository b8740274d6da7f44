"""Ops that join, split and rearrange tensors: join, split, stack, tile, roll, permutations of rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import theano_ng.scalar as scal
from theano_ng.compile.ops import shape
from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType, grad_undefined, is_disconnected
from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.tensor.assert_op import assert_op
from theano_ng.tensor.constant import (
    NotScalarConstantError,
    as_tensor_variable,
    constant,
    get_scalar_constant_value,
    register_conversion,
)
from theano_ng.tensor.dtypes import DISCRETE, INTEGERS
from theano_ng.tensor.elemwise.functions import cast, eq, ge, maximum, switch
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.shaping.creation import MakeVector, arange
from theano_ng.tensor.shaping.reshaping import shape_padaxis
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import IntLike, ShapeLike, TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = [
    "Join",
    "Split",
    "Tile",
    "PermuteRowElements",
    "join",
    "join_",
    "split",
    "stack",
    "stacklists",
    "concatenate",
    "vertical_stack",
    "horizontal_stack",
    "tile",
    "roll",
    "permute_row_elements",
    "inverse_permutation",
]


def default_shape_of(x):
    """Return the shape vector of a tensor variable."""
    return shape(x)


def _constant_axis(axis):
    """Return the axis as an int if it is known while the graph is built. Otherwise, return None."""
    try:
        return int(get_scalar_constant_value(axis))
    except NotScalarConstantError:
        return None


def _patterned(x, broadcastable):
    return patternbroadcast(x, broadcastable)


class Join(NativeOp, Op):
    """An Op that concatenates tensors along an axis: ``Join()(axis, x, y, ...)``.

    Parameters
    ----------
    view : int
        The index of a tensor. If all other tensors are empty along the axis at run time, the result is a view of this
        tensor. With -1 (default), the result is always a new array.

    Raises
    ------
    TypeError
        If the tensors differ in ndim or are 0-d, or if the axis is not an integer.
    ValueError
        If there is no tensor to join. At run time, if lengths differ along a dimension other than the axis.
    """

    __props__ = ("view",)
    check_input = False

    if TYPE_CHECKING:

        def __call__(self, *axis_and_tensors: TensorLike) -> TensorVariable: ...

    def __init__(self, view=-1):
        self.view = view
        if view != -1:
            # Input 0 is the axis, so tensor k is input k + 1.
            self.view_map = {0: [1 + view]}

    def __str__(self):
        if self.view == -1:
            return type(self).__name__
        return "%s{view=%d}" % (type(self).__name__, self.view)

    def make_node(self, *axis_and_tensors):
        axis, tensors = axis_and_tensors[0], axis_and_tensors[1:]
        if not tensors:
            raise ValueError("Cannot join an empty list of tensors")
        tensors = [as_tensor_variable(x) for x in tensors]
        if not all(x.ndim for x in tensors):
            raise TypeError(
                "Join cannot handle arguments of dimension 0. For joining scalar values, see @stack; the types are %s"
                % ", ".join(str(x.type) for x in tensors)
            )
        ndim = tensors[0].ndim
        if any(x.ndim != ndim for x in tensors):
            raise TypeError(
                "Join() can only join tensors with the same number of dimensions, got types %s"
                % ", ".join(str(x.type) for x in tensors)
            )
        axis = as_tensor_variable(axis)
        if axis.ndim != 0 or axis.dtype not in INTEGERS:
            raise TypeError("Axis could not be cast to an integer type", axis, axis.type)
        known = _constant_axis(axis)
        if known is not None:
            if not -ndim <= known < ndim:
                raise IndexError("Join axis %d out of bounds [%d, %d)" % (known, -ndim, ndim))
            known %= ndim
        if len(tensors) == 1:
            pattern = tensors[0].broadcastable
        elif known is None:
            pattern = [False] * ndim
        else:
            # All dimensions except the axis must agree: if one tensor has length 1 along such a dimension, all have.
            pattern = [i != known and any(x.broadcastable[i] for x in tensors) for i in range(ndim)]
        dtype = scal.upcast(*[x.dtype for x in tensors])
        return Apply(self, [axis, *tensors], [TensorType(dtype, pattern)()])

    def native_code(self, node):
        return NativeCode(
            "theano_ng.tensor.native.shape:join", view=self.view, type_number=np.dtype(node.outputs[0].dtype).num
        )

    def perform(self, node, axis_and_tensors, out_):
        (out,) = out_
        axis, tensors = int(axis_and_tensors[0]), axis_and_tensors[1:]
        ndim = tensors[0].ndim
        if not -ndim <= axis < ndim:
            raise IndexError("Join: axis %d is out of bounds for arrays with %d dimensions" % (axis, ndim))
        if self.view != -1 and all(x.shape[axis] == 0 for i, x in enumerate(tensors) if i != self.view):
            out[0] = tensors[self.view]
        else:
            fortran = all(x.flags.f_contiguous for x in tensors) and not all(x.flags.c_contiguous for x in tensors)
            out[0] = np.asarray(
                np.concatenate(tensors, axis=axis), dtype=node.outputs[0].dtype, order="F" if fortran else "C"
            )

    def infer_shape(self, node, ishapes):
        axis, shapes = node.inputs[0], ishapes[1:]
        ndim, known = node.inputs[1].ndim, _constant_axis(axis)
        result = []
        for i in range(ndim):
            # The tensors have equal lengths in all dimensions except the axis. For these dimensions, use the lengths of
            # the first tensor.
            joined = shapes[0][i]
            if known is None or known % ndim == i:
                for other in shapes[1:]:
                    joined = joined + other[i]
            if known is None:
                joined = switch(eq(axis % ndim, i), joined, shapes[0][i])
            result.append(joined)
        return [tuple(result)]

    def connection_pattern(self, node):
        return [[False], *[[True] for _ in node.inputs[1:]]]

    def grad(self, axis_and_tensors, grads):
        (gz,) = grads
        axis, tensors = axis_and_tensors[0], axis_and_tensors[1:]
        result = [DisconnectedType()()]
        if np.dtype(gz.dtype).kind not in "fc" or scal.upcast(*[x.dtype for x in tensors]) in DISCRETE:
            return result + [x.zeros_like(dtype=config.floatX) for x in tensors]
        parts = Split(len(tensors))(gz, axis, stack([default_shape_of(x)[axis] for x in tensors]))
        if not isinstance(parts, list):
            parts = [parts]
        # The outputs of Split may lack broadcastable flags that `x` has.
        return result + [_patterned(part, x.broadcastable) for part, x in zip(parts, tensors)]

    def R_op(self, inputs, eval_points):
        if all(point is None for point in eval_points[1:]):
            return [None]
        points = [x.zeros_like() if point is None else point for x, point in zip(inputs[1:], eval_points[1:])]
        return self(inputs[0], *points, return_list=True)


join_ = Join()


def join(axis: IntLike, *tensors_list: TensorLike) -> TensorVariable:
    """Concatenate tensors along an axis.

    Parameters
    ----------
    axis : int or integer scalar variable
    *tensors_list : tensors
        The tensors. All have the same ndim, at least 1. Their shapes are equal except along `axis`.

    Returns
    -------
    TensorVariable
        The joined tensor. If there is only one tensor, the tensor itself is returned.
    """
    if len(tensors_list) == 1:
        return as_tensor_variable(tensors_list[0])
    return join_(axis, *tensors_list)


def concatenate(tensor_list: Sequence[TensorLike], axis: IntLike = 0) -> TensorVariable:
    """Concatenate a list of tensors along an axis. See `join`.

    Parameters
    ----------
    tensor_list : list or tuple of tensors
    axis : int or integer scalar variable

    Raises
    ------
    TypeError
        If `tensor_list` is not a list or tuple. The call ``concatenate(a, b)``, without brackets, is a likely mistake.
    """
    if not isinstance(tensor_list, (tuple, list)):
        raise TypeError(
            "The 'tensors' argument must be either a tuple or a list, make sure you did not forget () or [] around arguments "
            "of concatenate.",
            tensor_list,
        )
    return join(axis, *tensor_list)


class Split(NativeOp, Op):
    """An Op that splits a tensor along an axis: ``Split(n)(x, axis, splits)`` has n outputs.

    Parameters
    ----------
    len_splits : int
        The number of outputs. The input `splits` is an integer vector of this length, whose sum must be
        ``x.shape[axis]``.

    Raises
    ------
    ValueError
        At run time, if `splits` has a wrong length, a negative element or a wrong sum.
    """

    __props__ = ("len_splits",)

    def __init__(self, len_splits):
        self.len_splits = int(len_splits)

    def __str__(self):
        return "%s{%s}" % (type(self).__name__, self.len_splits)

    def make_node(self, x, axis, splits):
        x, axis, splits = as_tensor_variable(x), as_tensor_variable(axis), as_tensor_variable(splits)
        if x.ndim == 0:
            raise TypeError("Split: x must have at least one dimension, got type %s" % (x.type,))
        if splits.ndim != 1 or splits.dtype not in INTEGERS:
            raise TypeError("splits must be an integer vector", splits.type)
        if axis.ndim != 0 or axis.dtype not in INTEGERS:
            raise TypeError("axis must be an integer scalar", axis.type)
        known = _constant_axis(axis)
        if known is not None and not -x.ndim <= known < x.ndim:
            raise IndexError("Split axis %d out of bounds [%d, %d)" % (known, -x.ndim, x.ndim))
        pattern = list(x.broadcastable)
        if self.len_splits != 1:
            # Even if x has length 1 along the axis, a part may be empty. So no output is broadcastable along the axis.
            for i in range(x.ndim) if known is None else (known % x.ndim,):
                pattern[i] = False
        type_ = TensorType(x.dtype, pattern)
        return Apply(self, [x, axis, splits], [type_() for _ in range(self.len_splits)])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.shape:split")

    def perform(self, node, inputs, outputs):
        x, axis, splits = inputs
        axis = int(axis)
        if not -x.ndim <= axis < x.ndim:
            raise IndexError("Split: axis %d is out of bounds for arrays with %d dimensions" % (axis, x.ndim))
        if len(splits) != self.len_splits:
            raise ValueError("Split: expected %d split sizes, got %d" % (self.len_splits, len(splits)))
        if any(size < 0 for size in splits):
            raise ValueError("Split: you tried to make an ndarray with a negative number of elements.")
        if int(np.sum(splits, dtype="int64")) != x.shape[axis]:
            raise ValueError("The splits sum to %s, expected %s" % (np.sum(splits, dtype="int64"), x.shape[axis]))
        for cell, part in zip(outputs, np.split(x, np.cumsum(splits[:-1], dtype="int64"), axis=axis)):
            cell[0] = part.copy()

    def infer_shape(self, node, in_shapes):
        x, axis, splits = node.inputs
        shape, known = in_shapes[0], _constant_axis(axis)
        result = []
        for j in range(self.len_splits):
            if known is not None:
                sizes = [splits[j] if i == known % x.ndim else size for i, size in enumerate(shape)]
            else:
                sizes = [switch(eq(axis % x.ndim, i), splits[j], size) for i, size in enumerate(shape)]
            result.append(tuple(sizes))
        return result

    def grad(self, inputs, g_outputs):
        x, axis, splits = inputs
        outputs = self(*inputs, return_list=True)
        if all(is_disconnected(g) for g in g_outputs):
            gx = DisconnectedType()()
        else:
            gx = join(axis, *[o.zeros_like() if is_disconnected(g) else g for o, g in zip(outputs, g_outputs)])
            gx = _patterned(gx, x.broadcastable)
        return [gx, grad_undefined(self, 1, axis), grad_undefined(self, 2, splits)]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None] * self.len_splits
        return self(eval_points[0], *inputs[1:], return_list=True)


def split(x: TensorLike, splits_size: TensorLike, n_splits: int, axis: IntLike = 0) -> Any:
    """Split a tensor along an axis.

    Parameters
    ----------
    x : tensor
    splits_size : integer vector of length n_splits
        The lengths of the parts along `axis`.
    n_splits : int
        The number of parts.
    axis : int or integer scalar variable

    Returns
    -------
    list of TensorVariable
        The parts. If `n_splits` is 1, a single variable is returned.
    """
    return Split(n_splits)(x, axis, splits_size)


def _is_scalar(x):
    if isinstance(x, Variable):
        return isinstance(x.type, TensorType) and x.ndim == 0
    return isinstance(x, (int, float, complex, np.number)) or (isinstance(x, np.ndarray) and x.ndim == 0)


@register_conversion("sequence")
def stack(*tensors: TensorLike, **kwargs: Any) -> TensorVariable:
    """Join tensors along a new axis: ``stack([a, b, c], axis=0)``.

    Parameters
    ----------
    tensors : list or tuple of tensors
        The tensors, which must have the same shape.
    axis : int
        The position of the new dimension in the result, from -ndim-1 to ndim.

    Returns
    -------
    TensorVariable
        A tensor with ndim + 1 dimensions. The length of the new axis is the number of tensors.

    Notes
    -----
    The form ``stack(a, b, c)`` is still supported for axis 0, but issues a DeprecationWarning.

    Examples
    --------
    >>> import theano_ng.tensor as T
    >>> a, b, c = T.scalars('abc')
    >>> T.stack([a, b, c]).ndim
    1
    """
    unknown = set(kwargs) - {"tensors", "axis"}
    if unknown:
        raise TypeError("stack() got unexpected keyword arguments %s" % sorted(unknown))
    if not tensors and "tensors" not in kwargs:
        raise TypeError("theano.tensor.stack(tensors, axis) must have at least one parameter")
    if tensors and not isinstance(tensors[0], (list, tuple)):
        warnings.warn(
            "stack(*tensors) interface is deprecated, use stack(tensors, axis=0) instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        axis = kwargs.get("axis", 0)
    elif "tensors" in kwargs:
        if len(tensors) > 1 or (tensors and "axis" in kwargs):
            raise TypeError("stack() got tensors twice")
        axis = tensors[0] if tensors else kwargs.get("axis", 0)
        tensors = kwargs["tensors"]
    elif len(tensors) > 2 or (len(tensors) == 2 and "axis" in kwargs):
        raise TypeError("stack(tensors, axis=0) takes a list of tensors and an axis")
    else:
        axis = tensors[1] if len(tensors) == 2 else kwargs.get("axis", 0)
        tensors = tensors[0]
    if len(tensors) == 0:
        raise ValueError(
            "tensors is empty. You should at least provide one tensor to theano.tensor.stack(tensors, axis)."
        )

    if all(_is_scalar(x) for x in tensors):
        if axis not in (0, -1):
            raise IndexError("axis %s is out of bounds [-1, 1)" % (axis,))
        tensors = tuple([as_tensor_variable(x) for x in tensors])
        return MakeVector(scal.upcast(*[x.dtype for x in tensors]))(*tensors)

    tensors = tuple([as_tensor_variable(x) for x in tensors])
    ndim = tensors[0].ndim
    if any(x.ndim != ndim for x in tensors):
        raise TypeError(
            "stack: all tensors must have the same number of dimensions, got %s" % [x.ndim for x in tensors]
        )
    return join(axis, *[shape_padaxis(x, axis) for x in tensors])


def stacklists(arg: TensorLike) -> TensorVariable:
    """Stack nested lists of tensors. Each level of nesting becomes a dimension.

    For scalars, ``stacklists([[a, b], [c, d]])`` is a 2 x 2 matrix.

    Parameters
    ----------
    arg : tensor_like, or list or tuple of such arguments
        The tensors. All must have the same number of dimensions.

    Returns
    -------
    TensorVariable
        A tensor with one additional dimension for each level of nesting.
    """
    if isinstance(arg, (tuple, list)):
        return stack([stacklists(item) for item in arg])
    return arg


def horizontal_stack(*args: TensorLike) -> TensorVariable:
    """Join matrices with the same number of rows along axis 1.

    Parameters
    ----------
    *args : matrices
        At least two matrices.
    """
    return _stack_matrices(1, args)


def vertical_stack(*args: TensorLike) -> TensorVariable:
    """Join matrices with the same number of columns along axis 0.

    Parameters
    ----------
    *args : matrices
        At least two matrices.
    """
    return _stack_matrices(0, args)


def _stack_matrices(axis, args):
    if len(args) < 2:
        raise ValueError("Too few arguments: at least two matrices are needed, got %d" % len(args))
    args = [as_tensor_variable(x) for x in args]
    for x in args:
        if x.ndim != 2:
            raise TypeError("matrices are needed, got type %s" % (x.type,))
    return concatenate(args, axis=axis)


class Tile(NativeOp, Op):
    """An Op that repeats a tensor along its dimensions: ``Tile(ndim)(x, reps)``. See the function `tile`.

    Parameters
    ----------
    ndim : int
        The number of dimensions of the result, and the length of `reps`. If x has fewer dimensions, new dimensions are
        added on the left.

    Raises
    ------
    ValueError
        At run time, if `reps` has a wrong length or a negative element.
    """

    __props__ = ("ndim",)

    def __init__(self, ndim):
        self.ndim = int(ndim)

    def __str__(self):
        return "%s{ndim=%d}" % (type(self).__name__, self.ndim)

    def make_node(self, x, reps):
        x, reps = as_tensor_variable(x), as_tensor_variable(reps)
        if reps.ndim != 1 or reps.dtype not in INTEGERS:
            raise TypeError("Tile: reps must be an integer vector, got type %s" % (reps.type,))
        if x.ndim > self.ndim:
            raise ValueError("Tile: x has %d dimensions, the result %d" % (x.ndim, self.ndim))
        pattern = [False] * self.ndim
        if isinstance(reps, Constant) and len(reps.data) == self.ndim:
            flags = [True] * (self.ndim - x.ndim) + list(x.broadcastable)
            pattern = [flag and rep == 1 for flag, rep in zip(flags, reps.data)]
        return Apply(self, [x, reps], [TensorType(x.dtype, pattern)()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.shape:tile", ndim=self.ndim)

    def perform(self, node, inp, out_):
        x, reps = inp
        if len(reps) != self.ndim:
            raise ValueError("Tile: got %d repetitions, expected %d" % (len(reps), self.ndim))
        for i, rep in enumerate(reps):
            if rep < 0:
                raise ValueError(
                    "Tile: repetitions must not be negative, but the repetition of dimension %d is %d" % (i, rep)
                )
        sizes = (1,) * (self.ndim - x.ndim) + x.shape
        # Allocate the result here: `numpy.tile` reports no error if the size of the result overflows.
        result = np.empty([int(rep) * size for rep, size in zip(reps, sizes)], dtype=x.dtype)
        if result.size:
            result[...] = np.tile(x, tuple(int(rep) for rep in reps))
        out_[0][0] = result

    def infer_shape(self, node, in_shapes):
        x, reps = node.inputs
        shape = [1] * (self.ndim - x.ndim) + list(in_shapes[0])
        return [tuple(reps[i] * size for i, size in enumerate(shape))]

    def grad(self, inp, grads):
        x, reps = inp
        (gz,) = grads
        sizes, shape = [], default_shape_of(x)
        for i in range(self.ndim):
            own = i - (self.ndim - x.ndim)
            sizes += [reps[i], shape[own] if own >= 0 else constant(1, dtype="int64")]
        repeats = [2 * i for i in range(self.ndim)] + [2 * i + 1 for i in range(self.ndim - x.ndim)]
        gx = gz.reshape(sizes, ndim=2 * self.ndim).sum(axis=repeats)
        return [_patterned(gx, x.broadcastable), grad_undefined(self, 1, reps)]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return self(eval_points[0], inputs[1], return_list=True)


def tile(x: TensorLike, reps: ShapeLike, ndim: int | None = None) -> TensorVariable:
    """Repeat a tensor along its dimensions, as `numpy.tile`.

    Parameters
    ----------
    x : tensor
    reps : int, integer scalar, list or tuple of these, or integer vector
        The number of repetitions for each dimension. If there are fewer numbers than dimensions, the missing numbers on
        the left are 1. If there are more numbers, x gets new dimensions on the left.
    ndim : int, optional
        The number of dimensions of the result. It is required if `reps` is a vector variable.

    Returns
    -------
    TensorVariable

    Raises
    ------
    ValueError
        If the arguments are inconsistent.
    """
    x = as_tensor_variable(x)
    if ndim is not None and ndim < x.ndim:
        raise ValueError("ndim should be equal or greater than x.ndim: got %d for x.ndim = %d" % (ndim, x.ndim))
    if isinstance(reps, (list, tuple)):
        reps = list(reps)
        if ndim is not None and len(reps) > ndim:
            raise ValueError("len(reps) should be equal or less than ndim: got %d for ndim = %d" % (len(reps), ndim))
        for rep in reps:
            scalar = as_tensor_variable(rep)
            if scalar.ndim != 0 or scalar.dtype not in INTEGERS:
                raise ValueError("elements of reps must be scalars of integer dtype, got type %s" % (scalar.type,))
    else:
        vector = as_tensor_variable(reps)
        if vector.dtype not in INTEGERS:
            raise ValueError("elements of reps must be of integer dtype, got %s" % vector.dtype)
        if vector.ndim == 0:
            reps = [vector]
        elif vector.ndim > 1:
            raise ValueError("the dimension of reps should not exceed 1, got %d" % vector.ndim)
        elif isinstance(reps, np.ndarray):
            reps = [int(rep) for rep in reps]
        elif ndim is None:
            raise ValueError("if reps is tensor.vector, you should specify the ndim")
        else:
            missing = ndim - vector.shape[0]
            missing = assert_op(missing, ge(missing, 0))
            # Both branches of the switch are evaluated. If a repetition is missing, its branch reads element 0 instead
            # of an element with a negative index.
            reps = [switch(i < missing, 1, vector[maximum(i - missing, 0)]) for i in range(ndim)]
    ndim = max(len(reps), x.ndim, ndim or 0)
    reps = [1] * (ndim - len(reps)) + reps
    if ndim == 0:
        return x
    if all(isinstance(rep, (int, np.integer)) for rep in reps):
        reps = constant(np.array(reps, dtype="int64"))
    else:
        flags = [True] * (ndim - x.ndim) + list(x.broadcastable)
        pattern = [flag and _constant_axis(rep) == 1 for flag, rep in zip(flags, reps)]
        return _patterned(Tile(ndim)(x, MakeVector("int64")(*[cast(rep, "int64") for rep in reps])), pattern)
    return Tile(ndim)(x, reps)


def roll(x: TensorLike, shift: TensorLike, axis: int | None = None) -> TensorVariable:
    """Roll elements along an axis. Elements that are shifted beyond the end reappear at the start.

    Parameters
    ----------
    x : tensor
    shift : int or integer scalar variable
    axis : int or integer scalar variable, optional
        The axis to roll. By default, the flattened tensor is rolled and then reshaped to its original shape.

    Returns
    -------
    TensorVariable
        A tensor with the shape of x.
    """
    x = as_tensor_variable(x)
    if axis is None:
        if x.ndim != 1:
            return roll(x.flatten(), shift, axis=0).reshape(x.shape, ndim=x.ndim)
        axis = 0
    known = _constant_axis(as_tensor_variable(axis))
    if known is None:
        # The axis is known only at run time. Reshape x to three dimensions so that the second dimension is the axis.
        axis = as_tensor_variable(axis) % x.ndim
        flat = x.shape[:axis].prod(), x.shape[axis], x.shape[axis + 1 :].prod()
        return _patterned(roll(x.reshape(flat, ndim=3), shift, axis=1).reshape(x.shape, ndim=x.ndim), x.broadcastable)
    if not -x.ndim <= known < x.ndim:
        raise IndexError("roll: axis %d is out of bounds for %d dimensions" % (known, x.ndim))
    known %= x.ndim
    size = x.shape[known]
    start = size - as_tensor_variable(shift) % maximum(size, 1)
    before = (slice(None),) * known
    rolled = join(known, x[(*before, slice(start, None))], x[(*before, slice(None, start))])
    return _patterned(rolled, x.broadcastable)


class PermuteRowElements(NativeOp, Op):
    """An Op that permutes the elements of each row (innermost dimension) of a tensor.

    The inputs are ``(x, y, inverse)``.

    If inverse is 0, ``out[..., i] = x[..., y[..., i]]``. Otherwise, ``out[..., y[..., i]] = x[..., i]``. The leading
    dimensions of x and y are broadcast against each other.
    """

    __props__ = ()

    def make_node(self, x, y, inverse):
        x, y = as_tensor_variable(x), as_tensor_variable(y)
        if inverse is True or inverse is False:
            inverse = int(inverse)
        inverse = as_tensor_variable(inverse)
        if y.dtype not in INTEGERS:
            raise TypeError("PermuteRowElements: y must be of integer dtype, got %s" % y.dtype)
        if inverse.ndim != 0 or inverse.dtype not in INTEGERS:
            raise TypeError("PermuteRowElements: inverse must be an integer scalar, got type %s" % (inverse.type,))
        ndim = max(x.ndim, y.ndim, 1)
        x, y = as_tensor_variable(x, ndim=ndim), as_tensor_variable(y, ndim=ndim)
        pattern = [a and b for a, b in zip(x.broadcastable, y.broadcastable)]
        return Apply(self, [x, y, inverse], [TensorType(x.dtype, pattern)()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.shape:permute_rows")

    def perform(self, node, inp, out):
        x, y, inverse = inp
        if x.shape[-1] != y.shape[-1]:
            raise ValueError(
                "PermuteRowElements: dimension %d of the values has length %d, but the permutations have length %d"
                % (x.ndim - 1, x.shape[-1], y.shape[-1])
            )
        x, y = np.broadcast_arrays(x, y)
        if inverse:
            result = np.empty(x.shape, dtype=x.dtype)
            np.put_along_axis(result, y, x, axis=-1)
        else:
            result = np.take_along_axis(x, y, axis=-1)
        out[0][0] = result

    def infer_shape(self, node, in_shapes):
        x, y = node.inputs[:2]
        sizes = []
        for i, (a, b) in enumerate(zip(in_shapes[0], in_shapes[1])):
            sizes.append(b if x.broadcastable[i] else a if y.broadcastable[i] else switch(eq(a, 1), b, a))
        return [tuple(sizes)]

    def grad(self, inp, grads):
        x, y, inverse = inp
        (gz,) = grads
        gx = permute_row_elements(gz, y, eq(inverse, 0).astype("int8"))
        repeated = [i for i in range(gx.ndim) if x.broadcastable[i] and not gx.broadcastable[i]]
        if repeated:
            gx = gx.sum(axis=repeated, keepdims=True)
        return [_patterned(gx, x.broadcastable), grad_undefined(self, 1, y), grad_undefined(self, 2, inverse)]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return self(eval_points[0], *inputs[1:], return_list=True)


_permute_row_elements = PermuteRowElements()


def permute_row_elements(x: TensorLike, y: TensorLike, inverse: Any = 0) -> TensorVariable:
    """Permute the elements of each row of x by the rows of y. See `PermuteRowElements`.

    Parameters
    ----------
    x : tensor_like
    y : tensor_like
        A tensor of integers. Each row is a permutation. `x` and `y` are broadcast against each other.
    inverse : int
        If 1, the inverse permutations are used. If 0, the permutations themselves are used.

    Returns
    -------
    TensorVariable
    """
    return _permute_row_elements(x, y, inverse)


def inverse_permutation(perm: TensorLike) -> TensorVariable:
    """Return the inverse permutations: ``inverse[perm[i]] == i`` in every row.

    Parameters
    ----------
    perm : integer tensor
        Each row is a permutation of the integers 0 .. n-1.
    """
    perm = as_tensor_variable(perm)
    return permute_row_elements(arange(perm.shape[-1], dtype=perm.dtype), perm, inverse=True)
