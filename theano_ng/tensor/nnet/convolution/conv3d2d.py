"""Convolution of videos with the axes (batch, time, channel, row, column).

In Theano 1.0, `conv3d` used two-dimensional convolutions and the diagonal Ops of this module. Here, `conv3d` uses
`AbstractConv3d`. The diagonal Ops remain for programs that import them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng.compile import optdb
from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gof.rewriting import TopoOptimizer, copy_stack_trace, local_optimizer
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.indexing.subtensor import set_subtensor
from theano_ng.tensor.nnet.convolution.abstract import AbstractConv3d
from theano_ng.tensor.nnet.convolution.shapes import axis_modes
from theano_ng.tensor.nnet.corr_shapes import Axis
from theano_ng.tensor.shaping.creation import zeros

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = [
    "DiagonalSubtensor",
    "IncDiagonalSubtensor",
    "conv3d",
    "diagonal_subtensor",
    "get_diagonal_subtensor_view",
    "inc_diagonal_subtensor",
    "local_inplace_DiagonalSubtensor",
]


def get_diagonal_subtensor_view(x, i0, i1):
    """Return the diagonals of an array along two of its dimensions, as a view.

    Parameters
    ----------
    x : ndarray
    i0, i1 : int
        Two dimensions. The first must be at least as long as the second.

    Returns
    -------
    ndarray
        Dimension `i0` has length ``x.shape[i0] - x.shape[i1] + 1``. The other dimensions have the same lengths as in x.
        If `i0` and `i1` are the first two dimensions, element [a, b] is ``x[a + x.shape[i1] - 1 - b, b]``.

    Raises
    ------
    ValueError
        If the first dimension is shorter than the second, or if both are the same dimension.
    """
    i0, i1 = int(i0), int(i1)
    if range(x.ndim)[i0] == range(x.ndim)[i1]:
        raise ValueError("diagonals need two dimensions, got dimension %d twice" % i0)
    if x.shape[i0] < x.shape[i1]:
        raise ValueError(
            "the first dimension must be at least as long as the second, got dimensions %d and %d of shape %s"
            % (i0, i1, x.shape)
        )
    shape, strides = list(x.shape), list(x.strides)
    shape[i0] = x.shape[i0] - x.shape[i1] + 1
    strides[i1] -= strides[i0]
    start = [slice(None)] * x.ndim
    start[i0] = slice(max(x.shape[i1] - 1, 0), None)
    return np.lib.stride_tricks.as_strided(x[tuple(start)], shape, strides)


class _Diagonal(Op):
    __props__ = ("inplace",)
    check_broadcast = False

    def __init__(self, inplace=False):
        self.inplace = inplace
        if inplace:
            self._set_maps()

    def __setstate__(self, state):
        self.__dict__.update(state)

    def __str__(self):
        return "%s%s" % (type(self).__name__, "{inplace}" if self.inplace else "")


class DiagonalSubtensor(_Diagonal):
    """An Op that returns the diagonals of a tensor along two dimensions; see :func:`get_diagonal_subtensor_view`.

    Inputs: the tensor, and the numbers of the two dimensions.

    Parameters
    ----------
    inplace : bool
        Whether the result is a view.
    """

    def _set_maps(self):
        self.view_map = {0: [0]}

    def make_node(self, x, i0, i1):
        x, i0, i1 = as_tensor_variable(x), as_tensor_variable(i0), as_tensor_variable(i1)
        return Apply(self, [x, i0, i1], [x.type.clone(broadcastable=[False] * x.ndim)()])

    def perform(self, node, inputs, output_storage):
        view = get_diagonal_subtensor_view(*inputs)
        output_storage[0][0] = view if self.inplace else view.copy()

    def grad(self, inputs, g_outputs):
        x, i0, i1 = inputs
        if x.dtype in DISCRETE:
            gradient = x.zeros_like(dtype=config.floatX)
        else:
            gradient = inc_diagonal_subtensor(x.zeros_like(), i0, i1, g_outputs[0])
        return [gradient, DisconnectedType()(), DisconnectedType()()]

    def R_op(self, inputs, eval_points):
        return [None if eval_points[0] is None else self(eval_points[0], *inputs[1:])]

    def connection_pattern(self, node):
        return [[True], [False], [False]]


class IncDiagonalSubtensor(_Diagonal):
    """An Op that adds an increment to the diagonals of a tensor; see :func:`get_diagonal_subtensor_view`.

    Inputs: the tensor, the numbers of the two dimensions, and the increment, which has the shape of the diagonals.

    Parameters
    ----------
    inplace : bool
        Whether to change the tensor itself.
    """

    def _set_maps(self):
        self.destroy_map = {0: [0]}

    def make_node(self, x, i0, i1, amt):
        x, i0, i1 = as_tensor_variable(x), as_tensor_variable(i0), as_tensor_variable(i1)
        amt = as_tensor_variable(amt)
        if amt.dtype != x.dtype:
            amt = amt.astype(x.dtype)
        return Apply(self, [x, i0, i1, amt], [x.type()])

    def perform(self, node, inputs, output_storage):
        x, i0, i1, amt = inputs
        result = x if self.inplace else x.copy()
        view = get_diagonal_subtensor_view(result, i0, i1)
        if view.shape != amt.shape:
            raise ValueError(
                "diagonals of shape %s cannot be increased by an array of shape %s" % (view.shape, amt.shape)
            )
        view += amt
        output_storage[0][0] = result

    def infer_shape(self, node, input_shapes):
        return [input_shapes[0]]

    def grad(self, inputs, g_outputs):
        x, i0, i1, amt = inputs
        (g,) = g_outputs
        if x.dtype in DISCRETE:
            gradients = [v.zeros_like(dtype=config.floatX) for v in (x, amt)]
        else:
            gradients = [g, diagonal_subtensor(g, i0, i1)]
        return [gradients[0], DisconnectedType()(), DisconnectedType()(), gradients[1]]

    def R_op(self, inputs, eval_points):
        x, i0, i1, amt = inputs
        dx, _, _, damt = eval_points
        if dx is None and damt is None:
            return [None]
        if damt is None:
            return [dx]
        return [IncDiagonalSubtensor()(x.zeros_like() if dx is None else dx, i0, i1, damt)]

    def connection_pattern(self, node):
        return [[True], [False], [False], [True]]


diagonal_subtensor = DiagonalSubtensor(False)
inc_diagonal_subtensor = IncDiagonalSubtensor(False)


@local_optimizer([DiagonalSubtensor, IncDiagonalSubtensor], inplace=True)
def local_inplace_DiagonalSubtensor(node):
    """Return diagonals as views, and increment diagonals in place.

    diagonal_subtensor(t, 1, 0)  ->  DiagonalSubtensor(inplace=True)(t, 1, 0)          [inplace, fast_run]
    inc_diagonal_subtensor(t + 1, 1, 0, increments)  ->  IncDiagonalSubtensor(inplace=True)(t + 1, 1, 0, increments)
    """
    if node.op.inplace:
        return None
    result = type(node.op)(inplace=True)(*node.inputs)
    copy_stack_trace(node.outputs[0], result)
    return [result]


optdb.register(
    "local_inplace_DiagonalSubtensor",
    TopoOptimizer(local_inplace_DiagonalSubtensor, failure_callback=TopoOptimizer.warn_inplace),
    60,
    "fast_run",
    "inplace",
)


def _padded(signals, modes, lengths):
    """Pad videos with zeros along time, rows and columns.

    `modes` and `lengths` contain the border mode and the length of the filters for each of these three axes.
    """
    pads = [Axis((0, 0) if mode == "valid" else mode, 1, 1).pads(length) for mode, length in zip(modes, lengths)]
    axes = (1, 3, 4)
    shape, inside = [signals.shape[i] for i in range(5)], [slice(None)] * 5
    for axis, (before, after) in zip(axes, pads):
        inside[axis] = slice(before, before + signals.shape[axis])
        shape[axis] = shape[axis] + before + after
    return set_subtensor(zeros(shape, dtype=signals.dtype)[tuple(inside)], signals)


def conv3d(
    signals: TensorLike,
    filters: TensorLike,
    signals_shape: Sequence[Any] | None = None,
    filters_shape: Sequence[Any] | None = None,
    border_mode: Any = "valid",
) -> TensorVariable:
    """Convolve videos with flipped filters.

    Parameters
    ----------
    signals : (batch, duration, channels, rows, columns) tensor
    filters : (filters, duration, channels, rows, columns) tensor
    signals_shape, filters_shape : None, or sequence of 5 ints, constants or None
        The shapes of `signals` and `filters`, as far as they are known.
    border_mode : {'valid', 'full', 'half'}, or three of them
        The mode along time, rows and columns. 'valid': filters are applied only where they lie inside the videos.
        'full': filters are applied wherever they overlap the videos. 'half': the result is as long as the videos, if
        filters have odd lengths.

    Returns
    -------
    (batch, duration, filters, rows, columns) tensor

    Raises
    ------
    ValueError
        If modes or ranks are invalid, or if the shapes do not fit.
    """
    signals, filters = as_tensor_variable(signals), as_tensor_variable(filters)
    for name, x in (("signals", signals), ("filters", filters)):
        if x.ndim != 5:
            raise ValueError("%s must be a 5D tensor, got %s" % (name, x.type))
    if isinstance(border_mode, str):
        axis_modes(border_mode, 3)
    else:
        if len(border_mode) != 3 or not all(mode in ("valid", "full", "half") for mode in border_mode):
            raise ValueError(
                "invalid border_mode %s, which must be 'valid', 'full' or 'half', or three of these" % (border_mode,)
            )
        if len(set(border_mode)) == 1:
            (border_mode,) = set(border_mode)
        else:
            known = filters_shape or (None,) * 5
            lengths = [filters.shape[i] if known[i] is None else known[i] for i in (1, 3, 4)]
            signals, border_mode, signals_shape = _padded(signals, border_mode, lengths), "valid", None
    order = (0, 2, 1, 3, 4)
    imshp, kshp = (shape and [shape[i] for i in order] for shape in (signals_shape, filters_shape))
    result = AbstractConv3d(imshp, kshp, border_mode)(signals.dimshuffle(*order), filters.dimshuffle(*order))
    return result.dimshuffle(*order)
