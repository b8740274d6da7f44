"""Further tensor operations: cumulative sums, counts, repeated elements, diagonals, indices.

This module defines the Ops that repeat slices and fill diagonals. It also exports the Ops of
`reductions.cumulative`, `counting` and `indexing.positions` under their Theano 1.0 names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import theano_ng.scalar as scal
from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType, grad_undefined
from theano_ng.gof.graph import Apply, Constant
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.tensor.constant import as_tensor_variable, constant
from theano_ng.tensor.counting import Bincount, Unique, bincount
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.functions import cast, eq, maximum, minimum, switch
from theano_ng.tensor.indexing.positions import (
    RavelMultiIndex,
    SearchsortedOp,
    UnravelIndex,
    ravel_multi_index,
    searchsorted,
    unravel_index,
)
from theano_ng.tensor.indexing.selecting import flatnonzero
from theano_ng.tensor.indexing.subtensor import inc_subtensor, set_subtensor
from theano_ng.tensor.reductions.axes import check_and_normalize_axes
from theano_ng.tensor.reductions.cumulative import CumOp, CumprodOp, CumsumOp, DiffOp, cumprod, cumsum, diff
from theano_ng.tensor.shaping.broadcasting import patternbroadcast, unbroadcast
from theano_ng.tensor.shaping.creation import _undefined_grads, arange, zeros
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import DTypeLike, IntLike, TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = [
    "CpuContiguous",
    "cpu_contiguous",
    "CumOp",
    "CumsumOp",
    "CumprodOp",
    "cumsum",
    "cumprod",
    "DiffOp",
    "diff",
    "Bincount",
    "bincount",
    "squeeze",
    "compress",
    "RepeatOp",
    "repeat",
    "Bartlett",
    "bartlett_",
    "bartlett",
    "FillDiagonal",
    "fill_diagonal_",
    "fill_diagonal",
    "FillDiagonalOffset",
    "fill_diagonal_offset_",
    "fill_diagonal_offset",
    "to_one_hot",
    "Unique",
    "SearchsortedOp",
    "searchsorted",
    "UnravelIndex",
    "unravel_index",
    "RavelMultiIndex",
    "ravel_multi_index",
]


class CpuContiguous(NativeOp, Op):
    """An Op that returns its input if the input is C-contiguous, and a C-contiguous copy otherwise."""

    __props__ = ()
    view_map = {0: [0]}
    check_input = False

    def make_node(self, x):
        x = as_tensor_variable(x)
        return Apply(self, [x], [x.type()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.shape:contiguous")

    def perform(self, node, inputs, output_storage):
        (x,) = inputs
        # Do not call ascontiguousarray, which would convert a 0-d array to a 1-d array.
        output_storage[0][0] = x if x.flags.c_contiguous else x.copy("C")

    def infer_shape(self, node, shapes):
        return shapes

    def grad(self, inputs, dout):
        return [dout[0]]

    def R_op(self, inputs, eval_points):
        return list(eval_points)


cpu_contiguous = CpuContiguous()


def squeeze(x: TensorLike, axis: int | None = None) -> TensorVariable:
    """Drop the broadcastable dimensions.

    Parameters
    ----------
    x : tensor_like
    axis : int, sequence of int or None
        The dimensions to drop. All of them must be broadcastable. None drops all broadcastable dimensions.

    Returns
    -------
    TensorVariable
        `x` itself, or a view. If a dimension has length 1 only at run time, it is not dropped.
    """
    x = as_tensor_variable(x)
    if axis is None:
        dropped = [i for i in range(x.ndim) if x.broadcastable[i]]
    else:
        dropped = check_and_normalize_axes(x, axis)
    if not dropped:
        return x
    return x.dimshuffle([i for i in range(x.ndim) if i not in dropped])


def compress(condition: TensorLike, x: TensorLike, axis: int | None = None) -> TensorVariable:
    """Select the slices of `x` for which `condition` is nonzero, as `numpy.compress`.

    Parameters
    ----------
    condition : vector
    x : tensor_like
    axis : int or None
        The axis of the slices. None selects elements of the flattened tensor.
    """
    return as_tensor_variable(x).take(flatnonzero(condition), axis=axis)


# ---------------------------------------------------------------------------


class RepeatOp(NativeOp, Op):
    """An Op that repeats the slices along an axis. The inputs are the tensor and the numbers of copies.

    Parameters
    ----------
    axis : int or None
        The axis of the slices. None repeats the elements of the flattened tensor.
    """

    __props__ = ("axis",)

    def __init__(self, axis=None):
        self.axis = axis

    def make_node(self, x, repeats):
        x, repeats = as_tensor_variable(x), as_tensor_variable(repeats)
        if repeats.dtype not in DISCRETE or repeats.ndim > 1:
            raise TypeError("RepeatOp: repeats must be an integer scalar or vector, got %s" % (repeats.type,))
        once = isinstance(repeats, Constant) and repeats.ndim == 0 and int(repeats.data) == 1
        if self.axis is None:
            flags = [once and all(x.broadcastable)]
        else:
            if not -x.ndim <= self.axis < x.ndim:
                raise ValueError("RepeatOp: axis %d is out of range for %s" % (self.axis, x.type))
            flags = list(x.broadcastable)
            flags[self.axis] = once and flags[self.axis]
        return Apply(self, [x, repeats], [TensorType(x.dtype, flags)()])

    def native_code(self, node):
        return NativeCode(
            "theano_ng.tensor.native.rearrange:repeat",
            axis=-1 if self.axis is None else self.axis % node.inputs[0].ndim,
        )

    def perform(self, node, inputs, output_storage):
        x, repeats = inputs
        if np.any(repeats < 0):  # NumPy's error for a single negative number does not name `repeats`.
            raise ValueError("repeats may not contain negative values.")
        output_storage[0][0] = np.repeat(x, repeats.astype("int64"), axis=self.axis)

    def connection_pattern(self, node):
        return [[True], [False]]

    def _lengths(self, shape, repeats):
        """Return the number of slices of the input and of the output, as variables."""
        if self.axis is None:
            before = constant(1, dtype="int64")
            for n in shape:
                before = before * n
        else:
            before = shape[self.axis]
        repeats = cast(repeats, "int64")
        if repeats.ndim == 0:
            return before, before * repeats
        # If `repeats` has one element, this element applies to every slice.
        return before, repeats.sum() * switch(eq(repeats.shape[0], 1), before, 1)

    def infer_shape(self, node, ins_shapes):
        shape = list(ins_shapes[0])
        _, after = self._lengths(shape, node.inputs[1])
        if self.axis is None:
            return [(after,)]
        shape[self.axis] = after
        return [tuple(shape)]

    def grad(self, inputs, gout):
        x, repeats = inputs
        (gz,) = gout
        if x.dtype in DISCRETE:
            return [x.zeros_like(dtype=config.floatX), DisconnectedType()()]
        axis = 0 if self.axis is None else self.axis % x.ndim
        flat = x.flatten() if self.axis is None else x
        if repeats.ndim == 0:
            # The copies of a slice are adjacent: reshape them into a separate axis, and sum over it.
            shape = [flat.shape[i] for i in range(flat.ndim)]
            split = gz.reshape(shape[: axis + 1] + [cast(repeats, "int64")] + shape[axis + 1 :], ndim=flat.ndim + 1)
            return [self._shaped_like(split.sum(axis=axis + 1, dtype=gz.dtype), x), DisconnectedType()()]
        # `source` contains, for each slice of the result, the index of the slice of x that is copied to it.
        source = RepeatOp(0)(arange(flat.shape[axis]), repeats)
        place = (slice(None),) * axis + (source,)
        zero = flat.zeros_like(dtype=gz.dtype)
        if zero.broadcastable[axis]:
            # Change the type of `zero`, because only the first element of a broadcastable axis can be indexed.
            zero = unbroadcast(zero, axis)
        return [self._shaped_like(inc_subtensor(zero[place], gz), x), DisconnectedType()()]

    def _shaped_like(self, gx, x):
        """Return the gradient `gx` with the shape and broadcast pattern of `x`. If the axis is None, `gx` is flat."""
        if self.axis is None:
            gx = gx.reshape(x.shape, ndim=x.ndim)
        return gx if gx.broadcastable == x.broadcastable else patternbroadcast(gx, x.broadcastable)

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return [self(eval_points[0], inputs[1])]


def repeat(x: TensorLike, repeats: TensorLike, axis: int | None = None) -> TensorVariable:
    """Repeat the elements of a tensor, as `numpy.repeat`.

    Parameters
    ----------
    x : tensor_like
    repeats : int, integer scalar or integer vector
        The number of copies. A vector contains one number for each slice along the axis.
    axis : int or None
        The axis of the slices. None repeats the elements of the flattened tensor.

    Returns
    -------
    TensorVariable
    """
    x, repeats = as_tensor_variable(x), as_tensor_variable(repeats)
    if repeats.ndim > 1:
        raise ValueError("The dimension of repeats should not exceed 1.")
    if repeats.dtype not in DISCRETE:
        raise TypeError("repeat: repeats must be integers, got %s" % (repeats.type,))
    if repeats.ndim == 1 and repeats.broadcastable[0]:
        repeats = as_tensor_variable(repeats.data[0]) if isinstance(repeats, Constant) else repeats[0]
    return RepeatOp(axis=axis)(x, repeats)


# ---------------------------------------------------------------------------


class Bartlett(NativeOp, Op):
    """An Op that computes the Bartlett window, as `numpy.bartlett`.

    The input is the number of points, an integer scalar.
    """

    __props__ = ()

    def make_node(self, M):
        M = as_tensor_variable(M)
        if M.ndim != 0:
            raise TypeError("%s only works on scalar input, got %s" % (type(self).__name__, M.type))
        if M.dtype not in DISCRETE:
            raise TypeError("%s only works on integer input, got %s" % (type(self).__name__, M.type))
        return Apply(self, [M], [TensorType("float64", (False,))()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.rearrange:bartlett")

    def perform(self, node, inputs, out_):
        # Allocate the window first, so that a length that is too large raises MemoryError.
        window = np.empty(max(0, int(inputs[0])), dtype="float64")
        window[...] = np.bartlett(len(window))
        out_[0][0] = window

    def infer_shape(self, node, in_shapes):
        return [(maximum(cast(node.inputs[0], "int64"), 0),)]

    def grad(self, inputs, output_grads):
        return _undefined_grads(self, inputs, "the input is an integer")

    def R_op(self, inputs, eval_points):
        return [None]


bartlett_ = Bartlett()


def bartlett(M: IntLike) -> TensorVariable:
    """Return the Bartlett window of `M` points, as `numpy.bartlett`.

    Parameters
    ----------
    M : int or integer scalar variable
        The number of points. If M <= 0, the window is empty.

    Returns
    -------
    TensorVariable
        A float64 vector. If M > 1, the first and the last point are 0. The maximum is 1 only if `M` is odd.
    """
    return bartlett_(M)


# ---------------------------------------------------------------------------


def _without_upcast(op, a, val):
    """Cast `val` to the dtype of `a`. Raise TypeError if the dtype of `val` does not fit into the dtype of `a`."""
    if val.dtype != a.dtype and scal.upcast(a.dtype, val.dtype) != a.dtype:
        raise TypeError(
            "%s: the value has dtype %s, which does not fit into the dtype %s "
            "of the tensor; cast one of them." % (type(op).__name__, val.dtype, a.dtype)
        )
    return cast(val, a.dtype)


class FillDiagonal(NativeOp, Op):
    """An Op that copies its first input and sets the main diagonal of the copy to the second input."""

    __props__ = ()

    def make_node(self, a, val):
        a, val = as_tensor_variable(a), as_tensor_variable(val)
        if a.ndim < 2:
            raise TypeError(
                "%s: the first parameter must have at least two dimensions, got %s" % (type(self).__name__, a.type)
            )
        if val.ndim != 0:
            raise TypeError("%s: the second parameter must be a scalar, got %s" % (type(self).__name__, val.type))
        val = _without_upcast(self, a, val)
        return Apply(self, [a, val], [a.type()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.rearrange:fill_diagonal")

    def perform(self, node, inputs, output_storage):
        a = inputs[0].copy("C")
        # For more than two dimensions, NumPy requires equal lengths.
        np.fill_diagonal(a, inputs[1])
        output_storage[0][0] = a

    def infer_shape(self, node, in_shapes):
        return [in_shapes[0]]

    def grad(self, inp, cost_grad):
        a, val = inp
        (grad,) = cost_grad
        if a.dtype in DISCRETE:
            return [a.zeros_like(dtype=config.floatX), val.zeros_like(dtype=config.floatX)]
        length = grad.shape[0]
        for i in range(1, a.ndim):
            length = minimum(length, grad.shape[i])
        index = arange(length)
        return [fill_diagonal(grad, 0), grad[(index,) * a.ndim].sum()]

    def R_op(self, inputs, eval_points):
        return _linear_r_op(self, inputs, eval_points)


def _linear_r_op(op, inputs, eval_points):
    """Return the R_op of an Op that is jointly linear in its first two inputs: the Op applied to their directions."""
    if eval_points[0] is None and eval_points[1] is None:
        return [None]
    points = [x.zeros_like() if point is None else point for x, point in zip(inputs[:2], eval_points[:2])]
    return [op(*points + list(inputs[2:]))]


fill_diagonal_ = FillDiagonal()


def fill_diagonal(a: TensorLike, val: TensorLike) -> TensorVariable:
    """Return a copy of `a` with its main diagonal set to `val`.

    Parameters
    ----------
    a : tensor_like
        A matrix of any shape, or a tensor with more dimensions that all have equal lengths.
    val : scalar
        Its dtype must fit into the dtype of `a`.

    Returns
    -------
    TensorVariable
        The result has the type of `a`. In a matrix with more rows than columns, the diagonal ends at the last column.
    """
    return fill_diagonal_(a, val)


class FillDiagonalOffset(NativeOp, Op):
    """An Op that copies a matrix and sets one diagonal of the copy to a value.

    Inputs: matrix, value, offset (an integer scalar; a positive offset selects a diagonal above the main diagonal).
    """

    __props__ = ()

    def make_node(self, a, val, offset):
        a, val, offset = (as_tensor_variable(x) for x in (a, val, offset))
        name = type(self).__name__
        if a.ndim != 2:
            raise TypeError("%s: the first parameter must be a matrix, got %s" % (name, a.type))
        if val.ndim != 0:
            raise TypeError("%s: the second parameter must be a scalar, got %s" % (name, val.type))
        if offset.ndim != 0 or offset.dtype not in DISCRETE:
            raise TypeError(
                "%s: the offset must be an integer scalar, got %s. "
                "Use theano.tensor.cast(offset, 'int32')" % (name, offset.type)
            )
        return Apply(self, [a, _without_upcast(self, a, val), offset], [a.type()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.rearrange:fill_diagonal")

    def perform(self, node, inputs, output_storage):
        a = inputs[0].copy("C")
        rows, columns = a.shape
        offset = min(max(int(inputs[2]), -rows), columns)
        first_row, first_column = max(0, -offset), max(0, offset)
        index = np.arange(max(0, min(rows - first_row, columns - first_column)))
        a[index + first_row, index + first_column] = inputs[1]
        output_storage[0][0] = a

    def infer_shape(self, node, in_shapes):
        return [in_shapes[0]]

    def grad(self, inp, cost_grad):
        a, val, offset = inp
        (grad,) = cost_grad
        g_offset = grad_undefined(self, 2, offset, "the offset is an integer")
        if a.dtype in DISCRETE:
            return [a.zeros_like(dtype=config.floatX), val.zeros_like(dtype=config.floatX), g_offset]
        offset = cast(offset, "int64")
        row, column = maximum(0, -offset), maximum(0, offset)
        index = arange(maximum(0, minimum(grad.shape[0] - row, grad.shape[1] - column)))
        return [fill_diagonal_offset(grad, 0, offset), grad[index + row, index + column].sum(), g_offset]

    def R_op(self, inputs, eval_points):
        return _linear_r_op(self, inputs, eval_points)


fill_diagonal_offset_ = FillDiagonalOffset()


def fill_diagonal_offset(a: TensorLike, val: TensorLike, offset: IntLike) -> TensorVariable:
    """Return a copy of the matrix `a` with its diagonal at `offset` set to `val`.

    Parameters
    ----------
    a : matrix
    val : scalar
        Its dtype must fit into the dtype of `a`.
    offset : int or integer scalar variable
        A positive offset selects a diagonal above the main diagonal, a negative offset a diagonal below it.
    """
    return fill_diagonal_offset_(a, val, offset)


def to_one_hot(y: TensorLike, nb_class: IntLike, dtype: DTypeLike | None = None) -> TensorVariable:
    """Return a matrix that contains a one in each row, in the column that `y` specifies, and zeros elsewhere.

    Parameters
    ----------
    y : vector of integers or booleans
    nb_class : int or integer scalar variable
        Number of columns.
    dtype : str, optional
        The dtype of the result. The default is ``config.floatX``.

    Returns
    -------
    TensorVariable
        A matrix of shape ``(y.shape[0], nb_class)``.
    """
    y = as_tensor_variable(y)
    if y.dtype == "bool":
        y = y.astype("int8")  # A bool index would be a mask, not a column index.
    result = zeros((y.shape[0], nb_class), dtype=dtype)
    return set_subtensor(result[arange(y.shape[0]), y], 1)
