"""Ops that copy image patches into the rows of a matrix (im2col), and that add the rows to the images (col2im)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType, grad_undefined
from theano_ng.gof.graph import Apply, Constant
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.tensor.constant import NotScalarConstantError, as_tensor_variable, get_scalar_constant_value
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.functions import cast, int_div, switch
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["Images2Neibs", "images2neibs", "neibs2images"]

# The order of the modes must be the same as in native/networks/neighbours.c.
MODES = ("valid", "half", "full", "wrap_centered", "ignore_borders")


def _pair(value, name):
    """Return `value` as a vector of two integers."""
    value = as_tensor_variable(value)
    if value.ndim != 1:
        raise TypeError("Images2Neibs: %s must be a vector of two integers, got %s" % (name, value.type))
    if value.dtype not in DISCRETE:
        if not isinstance(value, Constant) or not (value.data == np.trunc(value.data)).all():
            raise TypeError("Images2Neibs: %s must be a vector of integers, got %s" % (name, value.type))
        value = as_tensor_variable(value.data.astype("int64"))
    return value


def _windows(mode, i, size, neib, step):
    """Return the positions of the windows (image patches) along one dimension of an image.

    Parameters
    ----------
    mode : str
    i : {0, 1}
        0 for rows, 1 for columns.
    size, neib, step : int
        The length of the image, the length of a window, and the distance between neighboring windows.

    Returns
    -------
    places : ndarray (windows, neib) of int
    inside : ndarray (windows, neib) of bool
        False for positions outside of the image.

    Raises
    ------
    TypeError
        If windows do not fit into the image in this mode.
    """
    first, padded = 0, size
    if mode == "wrap_centered":
        if neib % 2 == 0:
            raise TypeError("Images2Neibs: in mode wrap_centered need patch with odd shapes")
        first, grid = -(neib // 2), -(-size // step)
    else:
        if mode in ("half", "full"):
            margin = neib // 2 if mode == "half" else neib - 1
            first, padded = -margin, size + 2 * margin
        if mode == "ignore_borders":
            grid = 0 if padded < neib else (padded - neib) // step + 1
        elif padded < neib or (padded - neib) % step:
            raise TypeError(
                "neib_shape[%d]=%d, neib_step[%d]=%d and ten4.shape[%d]=%d not consistent"
                % (i, neib, i, step, i + 2, size)
            )
        else:
            grid = (padded - neib) // step + 1
    places = first + np.arange(grid)[:, None] * step + np.arange(neib)
    if mode == "wrap_centered":
        return places % max(size, 1), np.ones(places.shape, bool)
    inside = (places >= 0) & (places < size)
    return np.where(inside, places, 0), inside


class _Windows(NativeOp, Op):
    """The base class of the Ops that copy image patches into rows, and that add rows to images.

    Parameters
    ----------
    mode : {'valid', 'ignore_borders', 'wrap_centered', 'half', 'full'}
    """

    __props__ = ("mode",)

    def __init__(self, mode="valid"):
        if mode not in MODES:
            raise NotImplementedError(
                "Only modes %s have been implemented for %s, got %r"
                % (", ".join(sorted(MODES)), type(self).__name__, mode)
            )
        self.mode = mode

    def __str__(self):
        return "%s{%s}" % (type(self).__name__, self.mode)

    def _places(self, size, neib_shape, neib_step):
        """Check `neib_shape` and `neib_step`, and return the results of `_windows` for rows and for columns."""
        for name, what, pair in (("neib_shape", "shape", neib_shape), ("neib_step", "step", neib_step)):
            if pair.shape[0] != 2:
                raise TypeError("%s wrong %s ; has to contain 2 elements" % (name, what))
            if (pair <= 0).any():
                which = "neib_shape" if name == "neib_shape" else "neib_step wrong step ;"
                raise ValueError("%s values <= 0. Got %d %d." % (which, *pair))
        found = [_windows(self.mode, i, size[i], int(neib_shape[i]), int(neib_step[i])) for i in range(2)]
        if self.mode == "wrap_centered" and (size[0] < neib_shape[0] or size[1] < neib_shape[1]):
            raise TypeError(
                "Images2Neibs: in wrap_centered mode, don't support image shapes smaller then the patch shapes: "
                "neib_shape=(%d,%d), ten4[2:]=[%d,%d]" % (*neib_shape, *size)
            )
        return found

    def _grid(self, size, neib, step):
        """Return the symbolic number of windows along one dimension."""
        if self.mode == "wrap_centered":
            return int_div(size - 1, step) + 1
        if self.mode in ("half", "full"):
            size = size + 2 * (int_div(neib, 2) if self.mode == "half" else neib - 1)
        grid = int_div(size - neib, step) + 1
        return switch(size < neib, 0, grid) if self.mode == "ignore_borders" else grid


class Images2Neibs(_Windows):
    """An Op that copies image patches (windows) into the rows of a matrix. See :func:`images2neibs`.

    Inputs: the images, neib_shape, neib_step.
    """

    def make_node(self, ten4, neib_shape, neib_step=None):
        ten4, neib_shape = as_tensor_variable(ten4), _pair(neib_shape, "neib_shape")
        neib_step = neib_shape if neib_step is None else _pair(neib_step, "neib_step")
        if ten4.ndim != 4:
            raise TypeError("Images2Neibs: ten4 must have 4 dimensions, got %s" % ten4.type)
        return Apply(self, [ten4, neib_shape, neib_step], [TensorType(ten4.dtype, (False, False))()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.neighbours:images2neibs", mode=MODES.index(self.mode))

    def perform(self, node, inp, out_):
        ten4, neib_shape, neib_step = inp
        (y, y_inside), (x, x_inside) = self._places(ten4.shape[2:], neib_shape, neib_step)
        shape = (ten4.shape[0] * ten4.shape[1] * y.shape[0] * x.shape[0], y.shape[1] * x.shape[1])
        if 0 in ten4.shape:
            out_[0][0] = np.zeros(shape, ten4.dtype)
            return
        found = ten4[:, :, y[:, None, :, None], x[:, None, :]]
        inside = y_inside[:, None, :, None] & x_inside[:, None, :]
        out_[0][0] = np.where(inside, found, ten4.dtype.type(0)).reshape(shape)

    def infer_shape(self, node, input_shape):
        images, channels, *size = input_shape[0]
        _, neib_shape, neib_step = node.inputs
        grid = [self._grid(size[i], neib_shape[i], neib_step[i]) for i in range(2)]
        return [(images * channels * grid[0] * grid[1], neib_shape[0] * neib_shape[1])]

    def grad(self, inp, grads):
        x, neib_shape, neib_step = inp
        (gz,) = grads
        of_numbers = [grad_undefined(self, 1, neib_shape), grad_undefined(self, 2, neib_step)]
        if x.dtype in DISCRETE:
            return [x.zeros_like(dtype=config.floatX)] + of_numbers
        lengths = [1 if flag else x.shape[i] for i, flag in enumerate(x.broadcastable)]
        return [Images2NeibsGrad(self.mode)(gz, *lengths, neib_shape, neib_step)] + of_numbers

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return [self(eval_points[0], *inputs[1:])]


class Images2NeibsGrad(_Windows):
    """An Op that adds each row of a matrix to the image patch that :class:`Images2Neibs` copies to this row.

    The Op is the transpose of the linear map :class:`Images2Neibs`. Inputs: the rows, the four lengths of the images,
    neib_shape, neib_step.
    """

    def make_node(self, neibs, images, channels, rows, columns, neib_shape, neib_step):
        neibs = as_tensor_variable(neibs)
        if neibs.ndim != 2:
            raise TypeError("%s: neibs must be a matrix, got %s" % (type(self).__name__, neibs.type))
        lengths = [as_tensor_variable(v) for v in (images, channels, rows, columns)]
        for v in lengths:
            if v.ndim != 0 or v.dtype not in DISCRETE:
                raise TypeError("%s: lengths must be integer scalars, got %s" % (type(self).__name__, v.type))
        flags = [_is_one(v) for v in lengths]
        neib_shape, neib_step = _pair(neib_shape, "neib_shape"), _pair(neib_step, "neib_step")
        return Apply(self, [neibs, *lengths, neib_shape, neib_step], [TensorType(neibs.dtype, flags)()])

    def native_code(self, node):
        if node.inputs[0].dtype in ("float16", "bool"):
            return None
        return NativeCode("theano_ng.tensor.native.neighbours:neibs_sum", mode=MODES.index(self.mode))

    def perform(self, node, inputs, output_storage):
        neibs, *lengths, neib_shape, neib_step = inputs
        lengths = [int(v) for v in lengths]
        for i, n in enumerate(lengths):
            if n < 0:
                raise ValueError("Images2NeibsGrad: the images cannot have length %d along axis %d" % (n, i))
        (y, y_inside), (x, x_inside) = self._places(lengths[2:], neib_shape, neib_step)
        expected = (lengths[0] * lengths[1] * y.shape[0] * x.shape[0], y.shape[1] * x.shape[1])
        if neibs.shape != expected:
            raise ValueError(
                "Images2NeibsGrad: neibs has shape %s, expected %s for images of shape %s"
                % (neibs.shape, expected, tuple(lengths))
            )
        wide = np.float32 if neibs.dtype == np.float16 else neibs.dtype
        result = np.zeros(lengths, wide)
        if result.size:
            windows = neibs.reshape(lengths[0], lengths[1], y.shape[0], x.shape[0], y.shape[1], x.shape[1])
            # No two windows have their element (r, c) at the same position, so one += writes no position twice.
            for r in range(y.shape[1]):
                for c in range(x.shape[1]):
                    here, there = y_inside[:, r], x_inside[:, c]
                    found = windows[..., r, c][:, :, here][..., there]
                    result[:, :, y[here, r][:, None], x[there, c]] += found
        output_storage[0][0] = result.astype(neibs.dtype, copy=False)

    def infer_shape(self, node, input_shapes):
        return [tuple(cast(v, "int64") for v in node.inputs[1:5])]

    def connection_pattern(self, node):
        return [[True]] + [[False]] * 6

    def L_op(self, inputs, outputs, grads):
        neibs, *_, neib_shape, neib_step = inputs
        rest = [DisconnectedType()() for _ in range(6)]
        if neibs.dtype in DISCRETE:
            return [neibs.zeros_like(dtype=config.floatX)] + rest
        found = Images2Neibs(self.mode)(grads[0], neib_shape, neib_step)
        if found.broadcastable != neibs.broadcastable:
            found = patternbroadcast(found, neibs.broadcastable)
        return [found] + rest

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return [self(eval_points[0], *inputs[1:])]


def _is_one(v):
    try:
        return bool(get_scalar_constant_value(v) == 1)
    except NotScalarConstantError:
        return False


def images2neibs(ten4: TensorLike, neib_shape: Any, neib_step: Any = None, mode: str = "valid") -> TensorVariable:
    """Copy image patches (windows) into the rows of a matrix.

    Parameters
    ----------
    ten4 : tensor with 4 dimensions
        Two dimensions of any meaning, for example batch and channels, then rows and columns.
    neib_shape : vector of 2 integers
        The rows and columns of a window. It may be symbolic.
    neib_step : vector of 2 integers, optional
        The distances between neighboring windows. By default, windows touch each other and do not overlap.
    mode : {'valid', 'ignore_borders', 'wrap_centered', 'half', 'full'}
        valid
            Windows lie in the image. An error is raised if the last windows do not end where the image ends.
        ignore_borders
            Windows lie in the image. Pixels after the last windows are ignored.
        wrap_centered
            The center of the first window is the first pixel. Windows that cross the border continue on the opposite
            side of the image. The lengths of windows must be odd.
        half
            Like 'valid', but the image has margins of zeros that are as wide as half a window, rounded down.
        full
            Like 'valid', but the image has margins of zeros that are as wide as a window minus one.

    Returns
    -------
    TensorVariable
        A matrix with one row per window. The windows are ordered by the first dimension, then the second, then from top
        to bottom, then from left to right. A row contains the pixels of its window, row by row.

    Raises
    ------
    TypeError
        At run time, if windows do not fit into the image.
    ValueError
        At run time, if lengths or steps are not positive.
    """
    return Images2Neibs(mode)(ten4, neib_shape, neib_step)


def neibs2images(neibs: TensorLike, neib_shape: Any, original_shape: Any, mode: str = "valid") -> TensorVariable:
    """Return the images from which `images2neibs`, with the default step, makes the given rows.

    Parameters
    ----------
    neibs : matrix
    neib_shape : vector of 2 integers
        See `images2neibs`.
    original_shape : sequence of 4 integers, or a vector
        The shape of the images. It may be symbolic.
    mode : str
        See `images2neibs`. With 'ignore_borders', pixels that are in no window are 0.

    Returns
    -------
    TensorVariable
        A tensor with 4 dimensions.

    Raises
    ------
    TypeError, ValueError
        At run time, if shapes do not match.
    """
    neibs = as_tensor_variable(neibs)
    if not isinstance(original_shape, (tuple, list)):
        original_shape = as_tensor_variable(original_shape)
        if isinstance(original_shape, Constant):
            original_shape = [int(n) for n in original_shape.data]
        else:
            original_shape = [original_shape[i] for i in range(4)]
    if len(original_shape) != 4:
        raise ValueError("neibs2images: original_shape must have 4 elements, got %d" % len(original_shape))
    collect = Images2NeibsGrad(mode)
    images = collect(neibs, *original_shape, neib_shape, neib_shape)
    if mode != "wrap_centered":
        return images
    # In mode 'wrap_centered', windows may overlap on the opposite side of the image. Each pixel is now a sum over all
    # windows that contain it. Divide the sum by the number of these windows.
    times = collect(neibs.zeros_like() + np.ones((), neibs.dtype), *original_shape, neib_shape, neib_shape)
    return (int_div(images, times) if neibs.dtype in DISCRETE else images / times).astype(neibs.dtype)
