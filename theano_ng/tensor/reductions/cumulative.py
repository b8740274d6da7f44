"""Cumulative sums and products, and differences."""

import numpy as np

import theano_ng.scalar as scal
from theano_ng.configdefaults import config
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gof.params_type import ParamsType
from theano_ng.gof.type import EnumList
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.functions import maximum
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.shaping.creation import zeros
from theano_ng.tensor.shaping.joining import join
from theano_ng.tensor.type import TensorType

__all__ = ["CumOp", "CumsumOp", "CumprodOp", "cumsum", "cumprod", "DiffOp", "diff"]


def _reverse(ndim, axis):
    """The index that reverses an axis."""
    return (slice(None),) * axis + (slice(None, None, -1),)


class CumOp(NativeOp, Op):
    """Cumulative sum or product.

    Parameters
    ----------
    axis : int or None
        None for the flattened tensor.
    mode : {'add', 'mul'}
    """

    __props__ = ("axis", "mode")
    check_input = False
    _f16_ok = True
    params_type = ParamsType(c_axis=scal.int32, mode=EnumList(("MODE_ADD", "add"), ("MODE_MUL", "mul")))
    # NumPy's C interface calls the flattened array's only axis so.
    c_axis = property(lambda self: -(2**31) if self.axis is None else self.axis)

    def __init__(self, axis=None, mode="add"):
        if mode not in ("add", "mul"):
            raise ValueError('%s: Unknown mode "%s"; expected "add" or "mul"' % (type(self).__name__, mode))
        self.axis = axis
        self.mode = mode

    def make_node(self, x):
        x = as_tensor_variable(x)
        # Counting in bools would be of no use; other dtypes are kept.
        dtype = "int64" if x.dtype == "bool" else x.dtype
        if self.axis is None:
            flags = (False,)
        elif -x.ndim <= self.axis < x.ndim:
            flags = x.broadcastable
        else:
            raise ValueError("axis(={0}) out of bounds for {1}".format(self.axis, x.type))
        return Apply(self, [x], [TensorType(dtype, flags)()])

    def native_code(self, node):
        (x,) = node.inputs
        z = node.outputs[0]
        if z.dtype == "float16" or x.ndim > 32:
            return None
        axis = -1 if self.axis is None else self.axis % x.ndim
        return NativeCode(
            "theano_ng.tensor.native.cumulative:cumulative",
            axis=axis,
            product=self.mode == "mul",
            type_number=z.type.numpy_dtype.num,
        )

    def perform(self, node, inputs, output_storage, params=None):
        function = np.cumsum if self.mode == "add" else np.cumprod
        (x,) = inputs
        # As the C code: in the layout of an array that is only F-contiguous.
        order = "F" if self.axis is not None and x.flags.f_contiguous and not x.flags.c_contiguous else "C"
        output_storage[0][0] = np.asarray(function(x, axis=self.axis, dtype=node.outputs[0].dtype), order=order)

    def grad(self, inputs, output_gradients):
        (x,) = inputs
        (gi,) = output_gradients
        if x.dtype in DISCRETE:
            return [x.zeros_like(dtype=config.floatX)]
        if self.axis is None:
            axis, flat = 0, x.flatten()
        else:
            axis, flat = self.axis % x.ndim, x
        back = _reverse(flat.ndim, axis)

        def from_the_end(g):
            return cumsum(g[back], axis)[back]

        if self.mode == "add":
            gx = from_the_end(gi)
        else:
            # d(x0..xk)/dxi = (x0..xk)/xi: not defined where an element is 0.
            gx = from_the_end(cumprod(flat, axis) * gi) / flat
        if self.axis is None:
            gx = gx.reshape(x.shape, ndim=x.ndim)
        if gx.broadcastable != x.broadcastable:
            gx = patternbroadcast(gx, x.broadcastable)
        return [gx]

    def R_op(self, inputs, eval_points):
        (point,) = eval_points
        if point is None:
            return [None]
        if self.mode == "add":
            return [self(point)]
        return [self(inputs[0]) * cumsum(point / inputs[0], self.axis)]

    def infer_shape(self, node, shapes):
        if self.axis is not None:
            return shapes
        total = 1
        for n in shapes[0]:
            total = n if isinstance(total, int) else total * n
        return [(total,)]

    def __str__(self):
        return "%s{%s, %s}" % (type(self).__name__, self.axis, self.mode)


class CumsumOp(Op):
    """``CumsumOp(axis)`` makes a :class:`CumOp` with mode 'add'."""

    __props__ = ("axis",)

    def __new__(typ, *args, **kwargs):
        return CumOp(*args, mode="add", **kwargs)


class CumprodOp(Op):
    """``CumprodOp(axis)`` makes a :class:`CumOp` with mode 'mul'."""

    __props__ = ("axis",)

    def __new__(typ, *args, **kwargs):
        return CumOp(*args, mode="mul", **kwargs)


def cumsum(x, axis=None):
    """Cumulative sum along an axis, as `numpy.cumsum`.

    Parameters
    ----------
    x : tensor_like
    axis : int or None
        None for the flattened tensor.

    Returns
    -------
    TensorVariable
        Of the dtype of `x` (int64 for bool).
    """
    return CumOp(axis=axis, mode="add")(x)


def cumprod(x, axis=None):
    """Cumulative product along an axis, as `numpy.cumprod`.

    Parameters
    ----------
    x : tensor_like
    axis : int or None
        None for the flattened tensor.

    Returns
    -------
    TensorVariable
        Of the dtype of `x`; int64 for bool.

    Notes
    -----
    The gradient divides by the elements: it is NaN where one is zero.
    """
    return CumOp(axis=axis, mode="mul")(x)


class DiffOp(NativeOp, Op):
    """The n-th difference along an axis; of booleans, whether neighbours differ.

    The result has Fortran's order if only the input's is that, else it is C-contiguous.

    Parameters
    ----------
    n : int
        How often differences are taken.
    axis : int
    """

    __props__ = ("n", "axis")

    def __init__(self, n=1, axis=-1):
        if n < 0:
            raise ValueError("diff: n must not be negative, got %d" % n)
        self.n = int(n)
        self.axis = axis

    def make_node(self, x):
        x = as_tensor_variable(x)
        if not -x.ndim <= self.axis < x.ndim:
            raise ValueError("diff: axis %d is out of range for %s" % (self.axis, x.type))
        flags = list(x.broadcastable)
        if self.n:
            flags[self.axis] = False
        return Apply(self, [x], [TensorType(x.dtype, flags)()])

    def native_code(self, node):
        x = node.inputs[0]
        return NativeCode("theano_ng.tensor.native.rearrange:diff", n=self.n, axis=self.axis % x.ndim)

    def perform(self, node, inputs, output_storage):
        (x,) = inputs
        order = "F" if x.flags.f_contiguous and not x.flags.c_contiguous else "C"
        output_storage[0][0] = np.array(np.diff(x, n=self.n, axis=self.axis), dtype=x.dtype, order=order)

    def grad(self, inputs, outputs_gradients):
        (x,) = inputs
        (g,) = outputs_gradients
        if x.dtype in DISCRETE:
            return [x.zeros_like(dtype=config.floatX)]
        axis = self.axis % x.ndim
        before = (slice(None),) * axis
        edge = zeros([1 if i == axis else g.shape[i] for i in range(x.ndim)], dtype=g.dtype)
        for _ in range(self.n):
            # An element is subtracted from its successor, and added where it
            # is the successor.
            padded = join(axis, edge, g, edge)
            g = padded[before + (slice(None, -1),)] - padded[before + (slice(1, None),)]
        if self.n:
            # An axis shorter than n gave nothing to differentiate.
            g = g[before + (slice(None, x.shape[axis]),)]
            g = patternbroadcast(g, x.broadcastable)
        return [g]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return [self(eval_points[0])]

    def infer_shape(self, node, ins_shapes):
        shape = list(ins_shapes[0])
        if self.n:
            shape[self.axis] = maximum(0, shape[self.axis] - self.n)
        return [tuple(shape)]

    def __str__(self):
        return type(self).__name__


def diff(x, n=1, axis=-1):
    """The n-th difference along an axis, as `numpy.diff`.

    Parameters
    ----------
    x : tensor_like
    n : int
        How often differences are taken.
    axis : int
        The last one by default.

    Returns
    -------
    TensorVariable
        Shorter by `n` along the axis.
    """
    return DiffOp(n=n, axis=axis)(x)
