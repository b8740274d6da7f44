"""Extremes and their indices: the Ops, and the functions max, min, argmax, argmin."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

import numpy as np

import theano_ng.scalar as scal
from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gof.params_type import ParamsType
from theano_ng.gof.type import generic
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.functions import eq, invert, mul, neg
from theano_ng.tensor.reductions.axes import makeKeepDims, reduced_axes
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.shaping.creation import arange
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import Axis, TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["MaxAndArgmax", "Argmax", "Argmin", "max_and_argmax", "max", "min", "argmax", "argmin"]


class _ArgmaxBase(NativeOp, Op):
    """The base class of MaxAndArgmax and Argmax. It checks the axes and arranges the elements in rows."""

    def _prepare(self, x):
        """Return the input as a variable, the axes, and the broadcast pattern of the result."""
        x = as_tensor_variable(x)
        axes = self.axis
        if axes is None:
            axes = tuple(range(x.ndim))
        elif builtins.any(not 0 <= a < x.ndim for a in axes):
            raise ValueError("%s: axes %s are out of range for %s" % (type(self).__name__, axes, x.type))
        pattern = [b for i, b in enumerate(x.broadcastable) if i not in axes]
        return x, tuple(axes), pattern

    @staticmethod
    def _rows(x, axes):
        """Return `x` with the reduced axes moved to the end and merged into one."""
        kept = [i for i in range(x.ndim) if i not in axes]
        moved = x.transpose(kept + list(axes))
        shape = moved.shape[: len(kept)]
        length = int(np.prod(moved.shape[len(kept) :], dtype="int64"))
        if length == 0 and (not shape or np.prod(shape)):
            raise ValueError(
                "Max and argmax of an empty dimension have no "
                "value: the input has shape %s, reduced over %s" % (x.shape, axes)
            )
        # If the rows have length 0, the check above ensures that there are no rows. Reshape to zero rows of length 1,
        # because NumPy's argmax rejects rows of length 0.
        return moved.reshape(shape + (length or 1,))

    def _native(self, node, function, **params):
        x = node.inputs[0]
        if x.dtype.startswith("complex") or x.ndim > 32:
            return None
        axes = builtins.sum(1 << axis for axis in self._prepare(x)[1])
        return NativeCode("theano_ng.tensor.native.argmax:" + function, axes=axes, **params)

    def _reduced_shape(self, node, shape):
        axes = self._prepare(node.inputs[0])[1]
        return tuple(n for i, n in enumerate(shape) if i not in axes)


class MaxAndArgmax(_ArgmaxBase):
    """An Op that computes the maximum and its index over some axes. If an element is NaN, the maximum is NaN.

    Parameters
    ----------
    axis : sequence of int or None
        The axes in increasing order. None means all axes.

    Notes
    -----
    The index is an int64 that counts in C order over the reduced axes.
    """

    nin = 2
    nout = 2
    __props__ = ("axis",)
    params_type = generic
    _f16_ok = True

    def __init__(self, axis):
        self.axis = None if axis is None else tuple(int(a) for a in axis)

    def make_node(self, x):
        x, _, pattern = self._prepare(x)
        return Apply(self, [x], [TensorType(x.dtype, pattern)(name="max"), TensorType("int64", pattern)(name="argmax")])

    def native_code(self, node):
        return self._native(node, "max_and_argmax")

    def get_params(self, node):
        """Return the reduced axes of the node's input, as numbers that are not negative."""
        return self._prepare(node.inputs[0])[1]

    def perform(self, node, inp, outs, params=None):
        rows = self._rows(inp[0], self._prepare(node.inputs[0])[1])
        index = np.asarray(rows.argmax(axis=-1), dtype="int64")
        outs[0][0] = np.asarray(np.take_along_axis(rows, index[..., None], -1)[..., 0], dtype=node.outputs[0].dtype)
        outs[1][0] = index

    def infer_shape(self, node, shapes):
        shape = self._reduced_shape(node, shapes[0])
        return [shape, shape]

    def grad(self, inp, grads):
        # The gradient of each element that equals the maximum is g_max, even if several elements equal the maximum. The
        # gradient with respect to the index is ignored, because the index is piecewise constant.
        (x,) = inp
        g_max, _ = grads
        if x.dtype in DISCRETE:
            return [x.zeros_like(dtype=config.floatX)]
        if isinstance(g_max.type, DisconnectedType):
            return [x.zeros_like()]
        axes = self._prepare(x)[1]
        largest = makeKeepDims(x, max(x, axes), axes)
        g = makeKeepDims(x, g_max, axes)
        return [mul(eq(largest, x), g)]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None, None]
        x, v = inputs[0], eval_points[0]
        axes = self._prepare(x)[1]
        kept = [i for i in range(x.ndim) if i not in axes]
        length = count = 1
        for axis in range(x.ndim):
            if axis in axes:
                length = length * x.shape[axis]
            else:
                count = count * x.shape[axis]
        # Reshape the direction `v` to one row per element of the result. From each row, take the element at the index
        # of the maximum.
        rows = v.dimshuffle(kept + list(axes)).reshape((count, length), ndim=2)
        index = self(x)[1]
        picked = rows[arange(rows.shape[0]), index.flatten()]
        shape = tuple(x.shape[i] for i in kept)
        pattern = [x.broadcastable[i] for i in kept]
        if not kept:
            return [picked[0], None]
        return [patternbroadcast(picked.reshape(shape, ndim=len(kept)), pattern), None]


class Argmax(_ArgmaxBase):
    """An Op that computes the index of the maximum over some axes. See :class:`MaxAndArgmax`."""

    nin = 2
    nout = 1
    __props__ = ("axis",)
    params_type = ParamsType(c_axis=scal.int64)
    _f16_ok = True

    def __init__(self, axis):
        self.axis = None if axis is None else tuple(int(a) for a in axis)

    def make_node(self, x, axis=None):
        x, _, pattern = self._prepare(x)
        return Apply(self, [x], [TensorType("int64", pattern)(name="argmax")])

    def native_code(self, node):
        return self._native(node, "argmax", smallest=False)

    def get_params(self, node):
        """Return the params. `c_axis` is the reduced axis, or -1 if several or all axes are reduced."""
        one = self.axis is not None and len(self.axis) == 1
        return self.params_type.get_params(c_axis=self.axis[0] if one else -1)

    def perform(self, node, inp, outs, params=None):
        rows = self._rows(inp[0], self._prepare(node.inputs[0])[1])
        outs[0][0] = np.asarray(rows.argmax(axis=-1), dtype="int64")

    def infer_shape(self, node, shapes):
        return [self._reduced_shape(node, shapes[0])]

    def grad(self, inp, grads):
        return [inp[0].zeros_like(dtype=config.floatX) if inp[0].dtype in DISCRETE else inp[0].zeros_like()]

    def R_op(self, inputs, eval_points):
        return [None]


class Argmin(Argmax):
    """An Op that computes the index of the minimum over some axes.

    A rewriting rule replaces ``argmax(-x)`` by this Op, applied to x.

    Parameters
    ----------
    axis : sequence of int or None
        The axes in increasing order. None means all axes.
    """

    def make_node(self, x, axis=None):
        x, _, pattern = self._prepare(x)
        return Apply(self, [x], [TensorType("int64", pattern)(name="argmin")])

    def native_code(self, node):
        return self._native(node, "argmax", smallest=True)

    def perform(self, node, inp, outs, params=None):
        rows = self._rows(inp[0], self._prepare(node.inputs[0])[1])
        outs[0][0] = np.asarray(rows.argmin(axis=-1), dtype="int64")


def max_and_argmax(a: TensorLike, axis: Axis = None, keepdims: bool = False) -> list[TensorVariable]:
    """Return the maximum over the given axes, and its index.

    Parameters
    ----------
    a : tensor_like
    axis : int, sequence of int or None
        None means all axes.
    keepdims : bool
        Whether to keep the reduced dimensions, with length 1.

    Returns
    -------
    list of two TensorVariable
        The maximum, with the dtype of `a`, and its index. The index is an int64 that counts in C order over the reduced
        axes.
    """
    a = as_tensor_variable(a)
    axes = reduced_axes(a, axis)
    out, index = MaxAndArgmax(axes)(a)
    if keepdims:
        out, index = (makeKeepDims(a, r, axes) for r in (out, index))
    return [out, index]


def max(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> TensorVariable:
    """Return the maximum over the given axes.

    Parameters
    ----------
    x : tensor_like
    axis : int, sequence of int or None
        None means all axes.
    keepdims : bool
        Whether to keep the reduced dimensions, with length 1.

    Returns
    -------
    TensorVariable
        The maximum, or NaN if an element is NaN.
    """
    # MaxAndArgmax defines the gradient and R_op. If the index is not used, a rewriting rule replaces the Op by a
    # reduction.
    out = max_and_argmax(x, axis)[0]
    return makeKeepDims(x, out, axis) if keepdims else out


def argmax(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> TensorVariable:
    """Return the index of the maximum over the given axes.

    Parameters
    ----------
    x : tensor_like
    axis : int, sequence of int or None
        None means all axes.
    keepdims : bool
        Whether to keep the reduced dimensions, with length 1.

    Returns
    -------
    TensorVariable
        The index of the first maximum, or of the first NaN. It is an int64 that counts in C order over the reduced
        axes.
    """
    x = as_tensor_variable(x)
    out = max_and_argmax(x, axis)[1]
    return makeKeepDims(x, out, axis) if keepdims else out


def _reversed_order(x):
    """Return a tensor of the dtype of `x` whose elements have the reverse order: if a < b in `x`, then a > b here."""
    if x.dtype in DISCRETE:
        # -x overflows for the smallest integer and for unsigned integers. ~x = -x-1 does not overflow. For a bool, ~x
        # is the negation.
        return invert(x)
    return neg(x)


def min(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> TensorVariable:
    """Return the minimum over the given axes.

    Parameters
    ----------
    x : tensor_like
    axis : int, sequence of int or None
        None means all axes.
    keepdims : bool
        Whether to keep the reduced dimensions, with length 1.

    Returns
    -------
    TensorVariable
        The minimum, or NaN if an element is NaN.
    """
    x = as_tensor_variable(x)
    return _reversed_order(max(_reversed_order(x), axis=axis, keepdims=keepdims))


def argmin(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> TensorVariable:
    """Return the index of the minimum over the given axes.

    Parameters
    ----------
    x : tensor_like
    axis : int, sequence of int or None
        None means all axes.
    keepdims : bool
        Whether to keep the reduced dimensions, with length 1.

    Returns
    -------
    TensorVariable
        The index of the first minimum, or of the first NaN. It is an int64 that counts in C order over the reduced
        axes.
    """
    x = as_tensor_variable(x)
    return argmax(_reversed_order(x), axis=axis, keepdims=keepdims)
