"""Cumulative sums and products, and differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from theano_ng.tensor.elemwise.functions import add, cast, conj_if_complex, fill, maximum
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.shaping.creation import zeros
from theano_ng.tensor.shaping.joining import join
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["CumOp", "CumsumOp", "CumprodOp", "cumsum", "cumprod", "DiffOp", "diff", "LinearRecurrence"]


def _reverse(ndim, axis):
    """Return the index that reverses an axis."""
    return (slice(None),) * axis + (slice(None, None, -1),)


def _delayed(x, axis, first):
    """Return ``[first, x[0], ..., x[n - 2]]`` along an axis."""
    everything = (slice(None),) * axis
    start = x[(*everything, slice(0, 1))]
    return join(axis, fill(start, np.asarray(first, dtype=x.dtype)), x[(*everything, slice(None, -1))])


class LinearRecurrence(NativeOp, Op):
    """An Op for linear recurrences along an axis.

    ``LinearRecurrence(axis)(a, b)`` is z with ``z[0] = b[0]`` and ``z[k] = b[k] + a[k] * z[k - 1]``.

    Parameters
    ----------
    axis : int
        The axis. It must not be negative.

    Raises
    ------
    TypeError
        If `a` and `b` differ in the number of dimensions, if both contain integers or bools, or if they lack the axis.
    ValueError
        At run time, if `a` and `b` differ in shape.
    """

    __props__ = ("axis",)
    check_input = False
    _f16_ok = True

    def __init__(self, axis):
        self.axis = axis

    def make_node(self, a, b):
        a, b = as_tensor_variable(a), as_tensor_variable(b)
        dtype = scal.upcast(a.dtype, b.dtype)
        if a.ndim != b.ndim or not 0 <= self.axis < a.ndim or dtype in DISCRETE:
            raise TypeError(
                "LinearRecurrence expects two floating-point or complex tensors that have the same number of "
                "dimensions and an axis %s; got %s and %s" % (self.axis, a.type, b.type)
            )
        flags = [p or q for p, q in zip(a.broadcastable, b.broadcastable)]
        return Apply(self, [cast(a, dtype), cast(b, dtype)], [TensorType(dtype, flags)()])

    def native_code(self, node):
        if node.outputs[0].dtype == "float16":
            return None
        return NativeCode("theano_ng.tensor.native.cumulative:recurrence", axis=self.axis)

    def perform(self, node, inputs, output_storage):
        a, b = inputs
        if a.shape != b.shape:
            raise ValueError("LinearRecurrence: the factors and the terms must have the same shape")
        result = np.array(b, order="C")
        a, z = np.moveaxis(a, self.axis, 0), np.moveaxis(result, self.axis, 0)
        for k in range(1, len(z)):
            z[k] += a[k] * z[k - 1]
        output_storage[0][0] = result

    def infer_shape(self, node, shapes):
        return [shapes[1]]

    def L_op(self, inputs, outputs, output_gradients):
        a, b = inputs
        back = _reverse(a.ndim, self.axis)
        factors, sums = conj_if_complex(a), conj_if_complex(outputs[0])
        gb = self(_delayed(factors[back], self.axis, 0), output_gradients[0][back])[back]
        ga = gb * _delayed(sums, self.axis, 0)
        return [patternbroadcast(g, x.broadcastable) for g, x in ((ga, a), (gb, b))]

    def R_op(self, inputs, eval_points):
        a, b = inputs
        terms = [] if eval_points[1] is None else [eval_points[1]]
        if eval_points[0] is not None:
            terms.append(eval_points[0] * _delayed(self(a, b), self.axis, 0))
        return [self(a, add(*terms))] if terms else [None]


class CumOp(NativeOp, Op):
    """An Op that computes cumulative sums or products.

    Parameters
    ----------
    axis : int or None
        None means the flattened tensor.
    mode : {'add', 'mul'}
        Sums for 'add', products for 'mul'.
    """

    __props__ = ("axis", "mode")
    check_input = False
    _f16_ok = True
    params_type = ParamsType(c_axis=scal.int32, mode=EnumList(("MODE_ADD", "add"), ("MODE_MUL", "mul")))
    # In NumPy's C API, the axis -2**31 means the flattened array.
    c_axis = property(lambda self: -(2**31) if self.axis is None else self.axis)

    def __init__(self, axis=None, mode="add"):
        if mode not in ("add", "mul"):
            raise ValueError('%s: Unknown mode "%s"; expected "add" or "mul"' % (type(self).__name__, mode))
        self.axis = axis
        self.mode = mode

    def make_node(self, x):
        x = as_tensor_variable(x)
        # Sums of bools are counts. All other dtypes are preserved.
        dtype = "int64" if x.dtype == "bool" else x.dtype
        if self.axis is None:
            flags = (False,)
        elif -x.ndim <= self.axis < x.ndim:
            flags = x.broadcastable
        else:
            raise ValueError("axis(={}) out of bounds for {}".format(self.axis, x.type))
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
        # The result is F-contiguous if the input is F-contiguous but not C-contiguous. The C code has the same rule.
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
        if self.mode == "add":
            gx = cumsum(gi[back], axis)[back]
        else:
            # d(x[0] * ... * x[k]) / dx[i] is x[0] * ... * x[i - 1] times x[i + 1] * ... * x[k].
            # A recurrence from the end computes the sum over k of the second factor times the gradient of output k.
            # The product of all elements cannot be divided by x[i], since x[i] may be zero.
            flat = conj_if_complex(flat)
            factors = _delayed(flat[back], axis, 0)
            gx = _delayed(cumprod(flat, axis), axis, 1) * LinearRecurrence(axis)(factors, gi[back])[back]
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
        x, axis = inputs[0], self.axis
        if axis is None:
            x, point, axis = x.flatten(), point.flatten(), 0
        axis %= x.ndim
        return [LinearRecurrence(axis)(x, _delayed(cumprod(x, axis), axis, 1) * point)]

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
    """A class whose constructor returns a :class:`CumOp` with mode 'add': ``CumsumOp(axis)``."""

    __props__ = ("axis",)

    def __new__(typ, *args, **kwargs):
        return CumOp(*args, mode="add", **kwargs)


class CumprodOp(Op):
    """A class whose constructor returns a :class:`CumOp` with mode 'mul': ``CumprodOp(axis)``."""

    __props__ = ("axis",)

    def __new__(typ, *args, **kwargs):
        return CumOp(*args, mode="mul", **kwargs)


def cumsum(x: TensorLike, axis: int | None = None) -> TensorVariable:
    """Return the cumulative sum along an axis, as `numpy.cumsum`.

    Parameters
    ----------
    x : tensor_like
    axis : int or None
        None means the flattened tensor.

    Returns
    -------
    TensorVariable
        The result has the dtype of `x`, but int64 for bool.
    """
    return CumOp(axis=axis, mode="add")(x)


def cumprod(x: TensorLike, axis: int | None = None) -> TensorVariable:
    """Return the cumulative product along an axis, as `numpy.cumprod`.

    Parameters
    ----------
    x : tensor_like
    axis : int or None
        None means the flattened tensor.

    Returns
    -------
    TensorVariable
        The result has the dtype of `x`, but int64 for bool.
    """
    return CumOp(axis=axis, mode="mul")(x)


class DiffOp(NativeOp, Op):
    """An Op that computes the n-th difference along an axis. The difference of two bools is True if the bools differ.

    The result is F-contiguous if the input is F-contiguous but not C-contiguous. Otherwise it is C-contiguous.

    Parameters
    ----------
    n : int
        The number of times that differences are taken.
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
            # Each element occurs in two differences: with a positive sign in the difference from its predecessor, with
            # a negative sign in the difference from its successor.
            padded = join(axis, edge, g, edge)
            g = padded[before + (slice(None, -1),)] - padded[before + (slice(1, None),)]
        if self.n:
            # If the axis is shorter than n, the padded gradient is longer than x. Remove its end.
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


def diff(x: TensorLike, n: int = 1, axis: int = -1) -> TensorVariable:
    """Return the n-th difference along an axis, as `numpy.diff`.

    Parameters
    ----------
    x : tensor_like
    n : int
        The number of times that differences are taken.
    axis : int
        The default is the last axis.

    Returns
    -------
    TensorVariable
        The differences. The length along the axis is smaller by `n`.
    """
    return DiffOp(n=n, axis=axis)(x)
