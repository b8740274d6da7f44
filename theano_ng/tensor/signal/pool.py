"""Pooling: the maximum, sum or average of the elements in windows that slide over the last axes of a tensor.

Along each axis, the windows begin at ``i * stride - pad``. With `ignore_border`, only windows count that lie completely
in the image and its margins of `pad` elements. Without `ignore_border`, the windows continue until one reaches the end
of the image, or the next one would begin beyond the end. The last window may be cut. Elements of the margins are
ignored, except in the divisor of 'average_inc_pad'. If a window contains NaN, its maximum is NaN. All elements that
equal the maximum get its gradient.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import OpenMPOp
from theano_ng.gof.params_type import ParamsType
from theano_ng.gof.type import EnumList
from theano_ng.scalar import bool as bool_t
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE, INTEGERS
from theano_ng.tensor.signal.pool_windows import as_window, check, known, shape_of_output, windows
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = [
    "pool_2d",
    "pool_3d",
    "max_pool_2d_same_size",
    "Pool",
    "PoolGrad",
    "MaxPoolGrad",
    "AveragePoolGrad",
    "DownsampleFactorMaxGradGrad",
    "MaxPoolRop",
    "PoolingMode_t",
]

PoolingMode_t = EnumList(
    ("POOLING_MAX", "max"),
    ("POOLING_SUM", "sum"),
    ("POOLING_AVERAGE_COUNT_INCLUDE_PADDING", "average_inc_pad"),
    ("POOLING_AVERAGE_COUNT_EXCLUDE_PADDING", "average_exc_pad"),
)
"""The modes. Ops and functions take the aliases as arguments."""

_OLD_NAMES = {"ws": "ds", "stride": "st", "pad": "padding"}


def _renamed(ws, stride, pad, ds, st, padding, no_pad=None):
    """Return `ws`, `stride` and `pad`. Each of them may have been passed by its former name.

    Raises
    ------
    ValueError
        If a parameter is passed by both names.
    """
    values = []
    for name, new, old, missing in (("ws", ws, ds, None), ("stride", stride, st, None), ("pad", pad, padding, no_pad)):
        if old is not None:
            if not (new is missing or (isinstance(new, tuple) and new == missing)):
                raise ValueError(
                    "You can't provide a value to both '%s' and '%s'. Please provide a value only to '%s'."
                    % (name, _OLD_NAMES[name], name)
                )
            warnings.warn(
                "DEPRECATION: the '%s' parameter is not going to exist anymore as it is going to be replaced by the parameter '%s'."
                % (_OLD_NAMES[name], name),
                stacklevel=4,
            )
            new = old
        values.append(new)
    return values


def _pool(name, ndim, input, ws, ignore_border, stride, pad, mode, ds, st, padding):
    """Check the arguments of `pool_2d` or `pool_3d`, and return the pooled tensor."""
    ws, stride, pad = _renamed(ws, stride, pad, ds, st, padding, (0,) * ndim)
    if ws is None:
        raise ValueError("You must provide a value for the window size: ws is None.")
    input = as_tensor_variable(input)
    if input.ndim < ndim:
        raise NotImplementedError("%s requires a dimension >= %d, got %s" % (name, ndim, input.type))
    if ignore_border is None:
        warnings.warn(
            "%s() was called without ignore_border. It is False by default, so that windows which extend beyond the "
            "border are cut. Give ignore_border=True to omit such windows, as other libraries do, or "
            "ignore_border=False to silence this warning." % name,
            stacklevel=3,
        )
        ignore_border = False
    return Pool(ignore_border, ndim=ndim, mode=mode)(input, ws, stride, pad)


def pool_2d(
    input: TensorLike,
    ws: Any = None,
    ignore_border: bool | None = None,
    stride: Any = None,
    pad: Any = (0, 0),
    mode: str = "max",
    ds: Any = None,
    st: Any = None,
    padding: Any = None,
) -> TensorVariable:
    """Pool a tensor over its last two axes.

    Parameters
    ----------
    input : tensor of two or more dimensions
    ws : int, tuple of two ints, or integer vector of length two
        The size of the windows (rows, columns).
    ignore_border : bool
        Whether to omit windows that do not fit completely. For an input of shape (5, 5) and windows of shape (2, 2),
        the output has the shape (2, 2) if True and (3, 3) if False. None means False, with a warning.
    stride : like `ws`
        The distance between windows. None means the size of the windows.
    pad : like `ws`
        The number of rows and columns that are added on both sides. It must be smaller than `ws`. It must be 0 if
        `ignore_border` is False.
    mode : {'max', 'sum', 'average_inc_pad', 'average_exc_pad'}
        The function that is applied to the elements of a window. Only 'average_inc_pad' counts the padding.
    ds, st, padding
        The deprecated names of `ws`, `stride` and `pad`.

    Returns
    -------
    TensorVariable
        A tensor with the dtype of `input`. Averages of integers are rounded towards zero.

    Raises
    ------
    ValueError
        If the mode is unknown, a parameter is passed by both names, or windows are invalid. Windows that are given by
        variables are checked at run time.
    TypeError
        If the windows are not integers, or the input is complex.
    NotImplementedError
        If the input has fewer dimensions than are pooled, if there is padding without `ignore_border`, or if the
        padding is not smaller than the windows.
    """
    return _pool("pool_2d", 2, input, ws, ignore_border, stride, pad, mode, ds, st, padding)


def pool_3d(
    input: TensorLike,
    ws: Any = None,
    ignore_border: bool | None = None,
    stride: Any = None,
    pad: Any = (0, 0, 0),
    mode: str = "max",
    ds: Any = None,
    st: Any = None,
    padding: Any = None,
) -> TensorVariable:
    """Pool a tensor over its last three axes. See :func:`pool_2d`.

    Parameters
    ----------
    input : tensor of three or more dimensions
    ws, stride, pad : int, tuple of three ints, or integer vector of length three
    ignore_border, mode, ds, st, padding
        See `pool_2d`.

    Returns
    -------
    TensorVariable
    """
    return _pool("pool_3d", 3, input, ws, ignore_border, stride, pad, mode, ds, st, padding)


def max_pool_2d_same_size(input: TensorLike, patch_size: Sequence[int]) -> TensorVariable:
    """Set all elements to zero except the maxima of patches. The patches do not overlap.

    Parameters
    ----------
    input : tensor of four dimensions
    patch_size : tuple of two ints, or integer vector of length two
        The rows and columns of a patch. Elements at the border that belong to no complete patch become zero.

    Returns
    -------
    TensorVariable
        A tensor with the shape of `input`. All elements that equal the maximum of their patch are kept.
    """
    output = Pool(True)(input, patch_size)
    return MaxPoolGrad(True)(input, output, output, patch_size)


class _Pooling(NativeOp, OpenMPOp):
    """The base class of the Ops of this module. The last inputs are always ws, stride and pad.

    Parameters
    ----------
    ignore_border : bool
    mode : {'max', 'sum', 'average_inc_pad', 'average_exc_pad'}
    ndim : int
        The number of pooled axes. The last axes are pooled.
    openmp : bool, optional
        Whether to distribute the images to several threads. The default is ``config.openmp``.

    Attributes
    ----------
    modes : tuple of str
        The modes that the Op supports.
    function : str
        The name of the native function.
    native_dtypes : collection of str
        The dtypes that the native function supports. For other dtypes, the Op uses NumPy.
    """

    __props__ = ("ignore_border", "mode", "ndim")
    modes: tuple[str, ...] = ("max", "sum", "average_inc_pad", "average_exc_pad")
    function: str | None = None
    native_dtypes: tuple[str, ...] = ("float16", "float32", "float64")
    _f16_ok = True

    def __init__(self, ignore_border, mode="max", ndim=2, openmp=None):
        super().__init__(openmp=openmp)
        if ndim < 1:
            raise ValueError("%s: ndim must be at least 1, got %d" % (type(self).__name__, ndim))
        self.ndim = ndim
        self.ignore_border = ignore_border
        # If several elements equal the maximum, cuDNN always selects the same one in the mode 'max_deterministic'. This
        # Op treats the mode as 'max'.
        if mode == "max_deterministic":
            mode = "max"
        if mode not in self.modes:
            raise ValueError(
                "%s mode parameter only support %s. Got %s"
                % (type(self).__name__, ", ".join(map(repr, self.modes)), mode)
            )
        self.mode = mode

    def __setstate__(self, state):
        super().__setstate__(state)
        # Pickles of earlier versions lack these attributes.
        self.__dict__.setdefault("ndim", 2)
        self.__dict__.setdefault("mode", "max")

    @staticmethod
    def out_shape(
        imgshape, ws=None, ignore_border=False, stride=None, pad=None, ndim=2, ds=None, st=None, padding=None
    ):
        """Return the shape of the output.

        Parameters
        ----------
        imgshape : sequence of ints or of integer scalars
            The shape of the input. Its last `ndim` axes are pooled.
        ws, stride, pad : sequence of ints, or integer vector
        ignore_border : bool
        ndim : int
        ds, st, padding
            The deprecated names of `ws`, `stride` and `pad`.

        Returns
        -------
        list
            The lengths of the output. They are ints, or variables if an argument is a variable.

        Raises
        ------
        TypeError
            If the shape has fewer axes than are pooled.
        ValueError
            If `ws` is None.
        """
        ws, stride, pad = _renamed(ws, stride, pad, ds, st, padding)
        if ws is None:
            raise ValueError("You must provide a value for the window size: ws is None.")
        if len(imgshape) < ndim:
            raise TypeError("imgshape must have at least %d dimensions, got %d" % (ndim, len(imgshape)))
        ws = [ws[i] for i in range(ndim)]
        stride = ws if stride is None else [stride[i] for i in range(ndim)]
        pad = [0] * ndim if pad is None else [pad[i] for i in range(ndim)]
        return shape_of_output(list(imgshape), ws, stride, pad, ignore_border)

    def _node_inputs(self, tensors, ws, stride, pad, differentiable=False):
        """Check the arguments and return the inputs of a node.

        Parameters
        ----------
        tensors : list
        ws, stride, pad
            See the function `pool_2d`.
        differentiable : bool
            If True, integers are rejected, and all tensors are cast to the dtype of the first tensor.
        """
        tensors = [as_tensor_variable(t) for t in tensors]
        if differentiable and tensors[0].dtype in DISCRETE:
            raise TypeError("%s: integers have no gradient, got %s" % (self, tensors[0].type))
        for t in tensors:
            if t.ndim != tensors[0].ndim or t.ndim < self.ndim:
                raise TypeError(
                    "%s: expected tensors with the same number of dimensions, at least %d; got %s"
                    % (self, self.ndim, ", ".join(str(t.type) for t in tensors))
                )
            if t.dtype.startswith("complex"):
                raise TypeError("%s: complex numbers cannot be pooled, got %s" % (self, t.type))
        if differentiable:
            tensors[1:] = [t.astype(tensors[0].dtype) for t in tensors[1:]]
        ws = as_window(ws, self.ndim, "ws")
        stride = ws if stride is None else as_window(stride, self.ndim, "stride")
        pad = as_window((0,) * self.ndim if pad is None else pad, self.ndim, "pad")
        numbers = [known(v) for v in (ws, stride, pad)]
        if numbers[2] is not None and max(numbers[2]) > 0:
            if not self.ignore_border:
                raise NotImplementedError(
                    "padding works only with ignore_border=True, got pad=%s" % (tuple(numbers[2]),)
                )
            if numbers[0] is not None and min(numbers[0]) > 0 and any(p >= w for p, w in zip(numbers[2], numbers[0])):
                raise NotImplementedError(
                    "padding must be smaller than the windows, got pad=%s and ws=%s"
                    % (tuple(numbers[2]), tuple(numbers[0]))
                )
        ones, zeros = [1] * self.ndim, [0] * self.ndim
        check(numbers[0] or ones, numbers[1] or ones, zeros, self.ignore_border)
        if numbers[2] is not None and min(numbers[2]) < 0:
            check(ones, ones, numbers[2], self.ignore_border)
        return [*tensors, ws, stride, pad]

    def _windows(self, vectors):
        """Return the values of the last three inputs as lists of ints.

        Raises
        ------
        ValueError
            If the number of values is wrong, or the windows are invalid.
        """
        for name, vector in zip(("ws", "stride", "pad"), vectors):
            if vector.shape != (self.ndim,):
                raise ValueError("%s must be a vector of size %d, got %d elements" % (name, self.ndim, vector.size))
        numbers = [[int(i) for i in vector] for vector in vectors]
        check(*numbers, self.ignore_border)
        return numbers

    def _expected(self, image, numbers, outputs):
        """Return the shape of the output of pooling an image.

        Raise ValueError if an array in `outputs` has another shape.
        """
        shape = tuple(shape_of_output(image.shape, *numbers, self.ignore_border))
        for array in outputs:
            if array.shape != shape:
                raise ValueError(
                    "%s: pooling an image of shape %s gives an output of shape %s, but got one of shape %s"
                    % (self, image.shape, shape, array.shape)
                )
        return shape

    def _shape_of_output(self, node, shapes):
        vectors = [[v[i] for i in range(self.ndim)] for v in node.inputs[-3:]]
        vectors = [known(v) or symbols for v, symbols in zip(node.inputs[-3:], vectors)]
        if node.inputs[-2] is node.inputs[-3]:
            vectors[1] = vectors[0]
        return tuple(shape_of_output(list(shapes[0]), *vectors, self.ignore_border))

    def native_code(self, node):
        x, dtypes = node.inputs[0], {t.dtype for t in node.inputs[:-3]}
        if len(dtypes) > 1 or x.dtype not in self.native_dtypes:
            return None
        return NativeCode(
            "theano_ng.tensor.native.pool:" + self.function,
            ndim=self.ndim,
            ignore_border=bool(self.ignore_border),
            mode=PoolingMode_t.fromalias(self.mode),
            openmp=bool(self.openmp),
        )

    def connection_pattern(self, node):
        return [[1]] * (len(node.inputs) - 3) + [[0]] * 3

    def _disconnected(self):
        return [DisconnectedType()() for _ in range(3)]


def _empty(shape, dtype):
    """Call `numpy.empty`. If the size exceeds the address space, raise MemoryError instead of ValueError."""
    if math.prod(shape) > sys.maxsize // np.dtype(dtype).itemsize:
        raise MemoryError("Pool: an output of shape %s is too large" % (tuple(shape),))
    return np.empty(shape, dtype)


def _count(mode, region, room):
    """Return the number by which the sum over a window is divided in the given mode.

    Parameters
    ----------
    mode : str
    region : tuple
        The index of the elements of the window in the image: Ellipsis, and a slice for each pooled axis.
    room : int
        The number of elements of the window in the padded image.
    """
    if mode == "sum":
        return 1
    if mode == "average_inc_pad":
        return room
    count = 1
    for axis in region[1:]:
        count *= axis.stop - axis.start
    return count


def _wide(dtype):
    """Return the dtype in which elements of the dtype `dtype` are summed."""
    kind = np.dtype(dtype).kind
    return np.dtype({"i": "int64", "u": "uint64", "b": "uint64"}.get(kind, "float32" if dtype == "float16" else dtype))


def _divided(total, count):
    """Return ``total / count``. For integers, round the quotient towards zero."""
    if total.dtype.kind == "f":
        return total / total.dtype.type(count)
    quotient = np.abs(total) // total.dtype.type(count)
    return np.where(total < 0, -quotient, quotient) if total.dtype.kind == "i" else quotient


class Pool(_Pooling):
    """An Op that pools a tensor over its last `ndim` axes. See :func:`pool_2d`.

    Use it as ``Pool(ignore_border, mode, ndim)(x, ws, stride, pad)``.

    Parameters
    ----------
    ignore_border : bool
    mode : {'max', 'sum', 'average_inc_pad', 'average_exc_pad'}
    ndim : int
    openmp : bool, optional
        Whether to distribute the images to several threads. The default is ``config.openmp``.
    """

    params_type = ParamsType(ignore_border=bool_t)
    function = "pool"
    native_dtypes = (*_Pooling.native_dtypes, *INTEGERS)

    def __init__(self, ignore_border=False, mode="max", ndim=2, openmp=None):
        super().__init__(ignore_border, mode, ndim, openmp)

    def make_node(self, x, ws, stride=None, pad=None):
        inputs = self._node_inputs([x], ws, stride, pad)
        flags = inputs[0].broadcastable[: inputs[0].ndim - self.ndim] + (False,) * self.ndim
        return Apply(self, inputs, [TensorType(inputs[0].dtype, flags)()])

    def perform(self, node, inputs, output_storage, params=None):
        x, *vectors = inputs
        numbers = self._windows(vectors)
        z = _empty(self._expected(x, numbers, ()), x.dtype)
        axes = tuple(range(-self.ndim, 0))
        for position, region, room in windows(x.shape[x.ndim - self.ndim :], *numbers, self.ignore_border):
            if self.mode == "max":
                z[position] = x[region].max(axes)
            else:
                total = x[region].sum(axes, dtype=_wide(x.dtype))
                z[position] = _divided(total, _count(self.mode, region, room))
        output_storage[0][0] = z

    def infer_shape(self, node, shapes):
        return [self._shape_of_output(node, shapes)]

    def L_op(self, inputs, outputs, grads):
        x, ws, stride, pad = inputs
        (gz,) = grads
        if x.dtype in DISCRETE:
            gx = x.zeros_like(dtype=config.floatX)
        elif self.mode == "max":
            gx = MaxPoolGrad(self.ignore_border, ndim=self.ndim, openmp=self.openmp)(x, outputs[0], gz, ws, stride, pad)
        else:
            gx = AveragePoolGrad(self.ignore_border, self.mode, self.ndim, self.openmp)(x, gz, ws, stride, pad)
        return [gx, *self._disconnected()]

    def R_op(self, inputs, eval_points):
        x, ws, stride, pad = inputs
        point = eval_points[0]
        if point is None or x.dtype in DISCRETE:
            return [None]
        if self.mode == "max":
            return [MaxPoolRop(self.ignore_border, self.mode, self.ndim, self.openmp)(x, point, ws, stride, pad)]
        return [self(point, ws, stride, pad)]


class PoolGrad(_Pooling):
    """The base class of Ops for the gradient of pooling with respect to the image, the first input of these Ops."""

    def infer_shape(self, node, shapes):
        return [shapes[0]]

    def _image(self, tensors, ws, stride, pad):
        inputs = self._node_inputs(tensors, ws, stride, pad, differentiable=True)
        return Apply(self, inputs, [inputs[0].type()])


class MaxPoolGrad(PoolGrad):
    """An Op for the gradient of 'max' pooling with respect to `x`.

    In ``MaxPoolGrad(ignore_border, ndim)(x, maxout, gz, ws, stride, pad)``, `maxout` contains the maxima of the
    windows. An element of `x` that equals the maximum of a window gets the gradient `gz` of this window. If the element
    equals the maxima of several windows, it gets the sum of the gradients of these windows.

    Parameters
    ----------
    ignore_border : bool
    ndim : int
    openmp : bool, optional
    """

    modes = ("max",)
    function = "max_grad"

    def __init__(self, ignore_border, ndim=2, openmp=None):
        super().__init__(ignore_border, "max", ndim, openmp)

    def make_node(self, x, maxout, gz, ws, stride=None, pad=None):
        return self._image([x, maxout, gz], ws, stride, pad)

    def perform(self, node, inputs, output_storage):
        x, maxout, gz, *vectors = inputs
        numbers = self._windows(vectors)
        self._expected(x, numbers, (maxout, gz))
        gx = np.zeros(x.shape, _wide(x.dtype))
        spread = (Ellipsis, *[None] * self.ndim)
        for position, region, _ in windows(x.shape[x.ndim - self.ndim :], *numbers, self.ignore_border):
            gx[region] += np.where(x[region] == maxout[position][spread], gz[position][spread], 0)
        output_storage[0][0] = gx.astype(x.dtype, copy=False)

    def grad(self, inputs, grads):
        x, maxout, gz, ws, stride, pad = inputs
        (ggx,) = grads
        ggz = DownsampleFactorMaxGradGrad(self.ignore_border, "max", self.ndim, self.openmp)(
            x, maxout, ggx, ws, stride, pad
        )
        return [x.zeros_like(), maxout.zeros_like(), ggz, *self._disconnected()]

    def R_op(self, inputs, eval_points):
        x, maxout, _, ws, stride, pad = inputs
        point = eval_points[2]
        return [None if point is None else self(x, maxout, point, ws, stride, pad)]


class AveragePoolGrad(PoolGrad):
    """An Op for the gradient of sum or average pooling with respect to `x`.

    Use it as ``AveragePoolGrad(ignore_border, mode, ndim)(x, gz, ws, stride, pad)``.

    Parameters
    ----------
    ignore_border : bool
    mode : {'sum', 'average_inc_pad', 'average_exc_pad'}
    ndim : int
    openmp : bool, optional
    """

    modes = ("sum", "average_inc_pad", "average_exc_pad")
    function = "average_grad"

    def __init__(self, ignore_border, mode="average_inc_pad", ndim=2, openmp=None):
        super().__init__(ignore_border, mode, ndim, openmp)

    def make_node(self, x, gz, ws, stride=None, pad=None, dummy=None):
        # `dummy` has no effect. It lets the Op accept as many arguments as MaxPoolGrad.
        return self._image([x, gz], ws, stride, pad)

    def perform(self, node, inputs, output_storage):
        x, gz, *vectors = inputs
        numbers = self._windows(vectors)
        self._expected(x, numbers, (gz,))
        gx = np.zeros(x.shape, _wide(x.dtype))
        spread = (Ellipsis, *[None] * self.ndim)
        for position, region, room in windows(x.shape[x.ndim - self.ndim :], *numbers, self.ignore_border):
            share = gz[position].astype(gx.dtype) / gx.dtype.type(_count(self.mode, region, room))
            gx[region] += share[spread]
        output_storage[0][0] = gx.astype(x.dtype, copy=False)

    def grad(self, inputs, grads):
        x, _, ws, stride, pad = inputs
        ggz = Pool(self.ignore_border, self.mode, self.ndim, self.openmp)(grads[0], ws, stride, pad)
        return [x.zeros_like(), ggz, *self._disconnected()]

    def R_op(self, inputs, eval_points):
        x, _, ws, stride, pad = inputs
        point = eval_points[1]
        return [None if point is None else self(x, point, ws, stride, pad)]


def _sums_at_maxima(op, x, maxout, direction, numbers):
    """Return, for each window, the sum of `direction` over the elements at which `x` equals the window's maximum.

    `maxout` contains the maxima of the windows. If `maxout` is None, the maxima are computed from `x`.
    """
    result = _empty(shape_of_output(x.shape, *numbers, op.ignore_border), x.dtype)
    axes, spread = tuple(range(-op.ndim, 0)), (Ellipsis, *[None] * op.ndim)
    for position, region, _ in windows(x.shape[x.ndim - op.ndim :], *numbers, op.ignore_border):
        top = x[region].max(axes) if maxout is None else maxout[position]
        chosen = np.where(x[region] == top[spread], direction[region], 0)
        result[position] = chosen.sum(axes, dtype=_wide(x.dtype))
    return result


def _same_shape(op, x, direction):
    if x.shape != direction.shape:
        raise ValueError("%s: image and direction have different shapes: %s and %s" % (op, x.shape, direction.shape))


class DownsampleFactorMaxGradGrad(_Pooling):
    """An Op for the gradient of `MaxPoolGrad` with respect to its input `gz`.

    In ``DownsampleFactorMaxGradGrad(ignore_border, mode, ndim)(x, maxout, gz, ws, stride, pad)``, `gz` is the gradient
    of the result of `MaxPoolGrad`, and has the shape of `x`. The result for a window is the sum of this `gz` over the
    elements at which `x` equals the maximum in `maxout`.

    Parameters
    ----------
    ignore_border : bool
    mode : {'max'}
    ndim : int
    openmp : bool, optional
    """

    modes = ("max",)
    function = "max_sums"

    def make_node(self, x, maxout, gz, ws, stride=None, pad=None):
        inputs = self._node_inputs([x, maxout, gz], ws, stride, pad, differentiable=True)
        return Apply(self, inputs, [inputs[1].type()])

    def perform(self, node, inputs, output_storage):
        x, maxout, gz, *vectors = inputs
        numbers = self._windows(vectors)
        self._expected(x, numbers, (maxout,))
        _same_shape(self, x, gz)
        output_storage[0][0] = _sums_at_maxima(self, x, maxout, gz, numbers)

    def infer_shape(self, node, shapes):
        return [shapes[1]]

    def grad(self, inputs, grads):
        x, maxout, _, ws, stride, pad = inputs
        gz = MaxPoolGrad(self.ignore_border, self.ndim, self.openmp)(x, maxout, grads[0], ws, stride, pad)
        return [x.zeros_like(), maxout.zeros_like(), gz, *self._disconnected()]

    def R_op(self, inputs, eval_points):
        x, maxout, _, ws, stride, pad = inputs
        point = eval_points[2]
        return [None if point is None else self(x, maxout, point, ws, stride, pad)]


class MaxPoolRop(_Pooling):
    """An Op for the directional derivative of 'max' pooling.

    In ``MaxPoolRop(ignore_border, mode, ndim)(x, eval_point, ws, stride, pad)``, `eval_point` is the direction. The
    result for a window is the sum of `eval_point` over the elements at which `x` equals the maximum.

    Parameters
    ----------
    ignore_border : bool
    mode : {'max'}
    ndim : int
    openmp : bool, optional
    """

    modes = ("max",)
    params_type = ParamsType(ignore_border=bool_t)
    function = "max_rop"

    def __init__(self, ignore_border=False, mode="max", ndim=2, openmp=None):
        super().__init__(ignore_border, mode, ndim, openmp)

    def make_node(self, x, eval_point, ws, stride=None, pad=None):
        inputs = self._node_inputs([x, eval_point], ws, stride, pad, differentiable=True)
        flags = inputs[0].broadcastable[: inputs[0].ndim - self.ndim] + (False,) * self.ndim
        return Apply(self, inputs, [TensorType(inputs[0].dtype, flags)()])

    def perform(self, node, inputs, output_storage, params=None):
        x, direction, *vectors = inputs
        numbers = self._windows(vectors)
        _same_shape(self, x, direction)
        output_storage[0][0] = _sums_at_maxima(self, x, None, direction, numbers)

    def infer_shape(self, node, shapes):
        return [self._shape_of_output(node, shapes)]

    def L_op(self, inputs, outputs, grads):
        x, _, ws, stride, pad = inputs
        maxout = Pool(self.ignore_border, "max", self.ndim, self.openmp)(x, ws, stride, pad)
        g = MaxPoolGrad(self.ignore_border, self.ndim, self.openmp)(x, maxout, grads[0], ws, stride, pad)
        return [x.zeros_like(), g, *self._disconnected()]

    def R_op(self, inputs, eval_points):
        x, _, ws, stride, pad = inputs
        point = eval_points[1]
        return [None if point is None else self(x, point, ws, stride, pad)]
