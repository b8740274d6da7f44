"""Extremes and their places: the Ops, and max, min, argmax, argmin."""

import builtins

import numpy as np

from theano_ng.gof.derivative import DisconnectedType
import theano_ng.scalar as scal
from theano_ng.configdefaults import config
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

__all__ = ["MaxAndArgmax", "Argmax", "Argmin", "max_and_argmax", "max", "min", "argmax", "argmin"]


class _ArgmaxBase(NativeOp, Op):
    """What MaxAndArgmax and Argmax share: which axes, and how to walk them."""

    def _prepare(self, x):
        """Input variable, axes, pattern of the result."""
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
        """`x` with the reduced axes last, merged into one."""
        kept = [i for i in range(x.ndim) if i not in axes]
        moved = x.transpose(kept + list(axes))
        shape = moved.shape[: len(kept)]
        length = int(np.prod(moved.shape[len(kept) :], dtype="int64"))
        if length == 0 and (not shape or np.prod(shape)):
            raise ValueError(
                "Max and argmax of an empty dimension have no "
                "value: the input has shape %s, reduced over %s" % (x.shape, axes)
            )
        # Rows of length 0 are no rows at all here; NumPy's argmax refuses them.
        return moved.reshape(shape + (length or 1,))

    def _native(self, node, function, **words):
        x = node.inputs[0]
        if x.dtype.startswith("complex") or x.ndim > 32:
            return None
        axes = builtins.sum(1 << axis for axis in self._prepare(x)[1])
        return NativeCode("theano_ng.tensor.native.argmax:" + function, axes=axes, **words)

    def _reduced_shape(self, node, shape):
        axes = self._prepare(node.inputs[0])[1]
        return tuple(n for i, n in enumerate(shape) if i not in axes)


class MaxAndArgmax(_ArgmaxBase):
    """Maximum and its index over some axes; NaN is the maximum where it occurs.

    Parameters
    ----------
    axis : sequence of int or None
        Axes in increasing order; None for all.

    Notes
    -----
    The index counts in C order over the reduced axes, int64.
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
        """The reduced axes of the node's input, without negative numbers."""
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
        # d max / d x is gz where x is the maximum. As for `max`, elements
        # that tie each receive it. The positions are constant between jumps.
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
        # One row per element of the result; pick the direction's element at
        # the place of the maximum.
        rows = v.dimshuffle(kept + list(axes)).reshape((count, length), ndim=2)
        index = self(x)[1]
        picked = rows[arange(rows.shape[0]), index.flatten()]
        shape = tuple(x.shape[i] for i in kept)
        pattern = [x.broadcastable[i] for i in kept]
        if not kept:
            return [picked[0], None]
        return [patternbroadcast(picked.reshape(shape, ndim=len(kept)), pattern), None]


class Argmax(_ArgmaxBase):
    """Index of the maximum over some axes; see :class:`MaxAndArgmax`."""

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
        """`c_axis`: the axis, or -1 when there are several or all."""
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
    """Index of the minimum over some axes: what rewrites make of the argmax of a negative.

    Parameters
    ----------
    axis : sequence of int or None
        Axes in increasing order; None for all.
    """

    def make_node(self, x, axis=None):
        x, _, pattern = self._prepare(x)
        return Apply(self, [x], [TensorType("int64", pattern)(name="argmin")])

    def native_code(self, node):
        return self._native(node, "argmax", smallest=True)

    def perform(self, node, inp, outs, params=None):
        rows = self._rows(inp[0], self._prepare(node.inputs[0])[1])
        outs[0][0] = np.asarray(rows.argmin(axis=-1), dtype="int64")


def max_and_argmax(a, axis=None, keepdims=False):
    """Maximum over the given axes, and its index.

    Parameters
    ----------
    a : tensor_like
    axis : int, sequence of int or None
        None for all axes.
    keepdims : bool
        Keep the reduced dimensions, with length 1.

    Returns
    -------
    list of two TensorVariable
        Maximum (dtype of `a`) and index (int64, in C order over the axes).
    """
    a = as_tensor_variable(a)
    axes = reduced_axes(a, axis)
    out, index = MaxAndArgmax(axes)(a)
    if keepdims:
        out, index = (makeKeepDims(a, r, axes) for r in (out, index))
    return [out, index]


def max(x, axis=None, keepdims=False):
    """Maximum over the given axes.

    Parameters
    ----------
    x : tensor_like
    axis : int, sequence of int or None
        None for all axes.
    keepdims : bool
        Keep the reduced dimensions, with length 1.

    Returns
    -------
    TensorVariable
        NaN where an element is NaN.
    """
    # MaxAndArgmax has the gradient and R_op; a rewrite puts a plain reduction
    # in its place where the index is not used.
    out = max_and_argmax(x, axis)[0]
    return makeKeepDims(x, out, axis) if keepdims else out


def argmax(x, axis=None, keepdims=False):
    """Index of the maximum over the given axes.

    Parameters
    ----------
    x : tensor_like
    axis : int, sequence of int or None
        None for all axes.
    keepdims : bool
        Keep the reduced dimensions, with length 1.

    Returns
    -------
    TensorVariable
        int64: the place of the first maximum (or NaN), counted in C order over
        the reduced axes.
    """
    x = as_tensor_variable(x)
    out = max_and_argmax(x, axis)[1]
    return makeKeepDims(x, out, axis) if keepdims else out


def _reversed_order(x):
    """A tensor whose order is the reverse of that of `x`."""
    if x.dtype in DISCRETE:
        # -x overflows for the least integer and for unsigned ones; ~x = -x-1
        # never does, and is the negation of a bool.
        return invert(x)
    return neg(x)


def min(x, axis=None, keepdims=False):
    """Minimum over the given axes.

    Parameters
    ----------
    x : tensor_like
    axis : int, sequence of int or None
        None for all axes.
    keepdims : bool
        Keep the reduced dimensions, with length 1.

    Returns
    -------
    TensorVariable
        NaN where an element is NaN.
    """
    x = as_tensor_variable(x)
    return _reversed_order(max(_reversed_order(x), axis=axis, keepdims=keepdims))


def argmin(x, axis=None, keepdims=False):
    """Index of the minimum over the given axes.

    Parameters
    ----------
    x : tensor_like
    axis : int, sequence of int or None
        None for all axes.
    keepdims : bool
        Keep the reduced dimensions, with length 1.

    Returns
    -------
    TensorVariable
        int64: the place of the first minimum (or NaN), counted in C order over
        the reduced axes.
    """
    x = as_tensor_variable(x)
    return argmax(_reversed_order(x), axis=axis, keepdims=keepdims)
