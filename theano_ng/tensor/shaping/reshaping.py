"""Ops that change shapes: reshape, flatten, new and swapped dimensions, conversions between scalars and 0-d tensors."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import theano_ng.scalar as scal
import theano_ng.tensor.compile_ops  # noqa: F401  (gives the Ops of `compile` their native code for tensors)
from theano_ng.compile.ops import Shape, Shape_i, shape
from theano_ng.configdefaults import config
from theano_ng.gof import ports
from theano_ng.gof.derivative import disconnected_type
from theano_ng.gof.graph import Apply, Constant
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gof.params_type import ParamsType
from theano_ng.scalar import Scalar
from theano_ng.tensor.constant import (
    NotScalarConstantError,
    as_tensor_variable,
    constant,
    get_scalar_constant_value,
    get_vector_length,
    register_conversion,
)
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.functions import eq, maximum, switch
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.indexing.index_lists import ScalarInputsOp
from theano_ng.tensor.shaping.broadcasting import addbroadcast, patternbroadcast
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import ShapeLike, TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = [
    "Flatten",
    "Reshape",
    "ScalarFromTensor",
    "TensorFromScalar",
    "flatten",
    "is_flat",
    "moveaxis",
    "reshape",
    "rollaxis",
    "scalar_from_tensor",
    "shape_padaxis",
    "shape_padleft",
    "shape_padright",
    "swapaxes",
    "tensor_copy",
    "tensor_from_scalar",
    "transpose",
]

tensor_copy = Elemwise(scal.identity)


# ---------------------------------------------------------------- scalars and 0-d tensors


class TensorFromScalar(ScalarInputsOp, Op):
    """An Op that converts a scalar variable to a 0-d tensor."""

    __props__ = ()

    if TYPE_CHECKING:

        def __call__(self, s: Any) -> TensorVariable: ...

    def make_node(self, s):
        if not isinstance(getattr(s, "type", None), Scalar):
            raise TypeError("TensorFromScalar needs a variable of a Scalar type, got %s" % (getattr(s, "type", s),))
        return Apply(self, [s], [TensorType(dtype=s.type.dtype, broadcastable=())()])

    def native_code(self, node):
        return NativeCode(
            "theano_ng.tensor.native.shape:tensor_from_scalar", type_number=np.dtype(node.outputs[0].dtype).num
        )

    def perform(self, node, inp, out_):
        out_[0][0] = np.asarray(inp[0], dtype=node.outputs[0].dtype)

    def infer_shape(self, node, in_shapes):
        return [()]

    def grad(self, inp, grads):
        (s,), (gz,) = inp, grads
        if s.type.dtype in DISCRETE:
            return [s.zeros_like(dtype=config.floatX)]
        return [scalar_from_tensor(gz)]

    def R_op(self, inputs, eval_points):
        return [None] if eval_points[0] is None else self(*eval_points, return_list=True)


class ScalarFromTensor(NativeOp, Op):
    """An Op that converts a 0-d tensor to a scalar variable."""

    __props__ = ()

    def make_node(self, t):
        if not isinstance(getattr(t, "type", None), TensorType) or t.type.ndim != 0:
            raise TypeError("ScalarFromTensor needs a 0-d tensor variable, got %s" % (getattr(t, "type", t),))
        return Apply(self, [t], [scal.get_scalar_type(dtype=t.type.dtype).make_variable()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.shape:scalar_from_tensor")

    def c_code(self, node, name, inputs, outputs, sub):
        # Assign the number itself: inside a compiled module, a scalar variable is a C number, not a Python object.
        return "%(z)s = ((dtype_%(x)s *)PyArray_DATA(%(x)s))[0];" % dict(x=inputs[0], z=outputs[0])

    def perform(self, node, inp, out_):
        out_[0][0] = inp[0][()]

    def infer_shape(self, node, in_shapes):
        return [()]

    def grad(self, inp, grads):
        return [tensor_from_scalar(grads[0])]

    def R_op(self, inputs, eval_points):
        return [None] if eval_points[0] is None else self(*eval_points, return_list=True)


tensor_from_scalar = TensorFromScalar()
scalar_from_tensor = ports.scalar_from_tensor.fill(ScalarFromTensor())
register_conversion("scalar")(tensor_from_scalar)


# ---------------------------------------------------------------- reshape, flatten


def _product(sizes):
    result = 1
    for size in sizes:
        result = size if isinstance(result, int) and result == 1 else result * size
    return result


def _constant_size(size):
    """Return the size as an int if it is known while the graph is built. Otherwise, return None."""
    if size is None:
        return None
    try:
        return int(get_scalar_constant_value(size))
    except NotScalarConstantError:
        return None


def _is_length(size):
    """Return True if the graph of a size shows that it is not negative.

    This is the case for an element of a shape, a constant that is not negative, and a product or sum of these sizes.
    """
    todo = [size]
    for v in todo:
        node = getattr(v, "owner", None)
        if node is None or len(todo) > 16:
            known = _constant_size(v) if node is None else None
            if known is None or known < 0:
                return False
        elif isinstance(node.op, (Shape, Shape_i)):
            continue
        elif type(node.op).__name__ == "Subtensor":
            todo.append(node.inputs[0])
        elif type(node.op).__name__ == "MakeVector" or getattr(node.op, "scalar_op", None) in (scal.add, scal.mul):
            # The node is a MakeVector, an elementwise sum or product, or a reduction by Sum or Prod.
            todo += node.inputs
        else:
            return False
    return True


class Reshape(NativeOp, Op):
    """An Op that changes the shape of a tensor: ``Reshape(ndim)(x, shape)``.

    The result is a view if the memory layout allows a view, and a copy otherwise. If a size is -1, it is computed from
    the other sizes.

    Parameters
    ----------
    ndim : int
        The number of dimensions of the result.
    name : str, optional
        This parameter has no effect. It is accepted for old programs.

    Raises
    ------
    ValueError
        At run time, if the tensor cannot have this shape.
    """

    view_map = {0: [0]}
    check_input = False
    __props__ = ("ndim",)
    params_type = ParamsType(ndim=scal.int32)
    _f16_ok = True

    def __init__(self, ndim, name=None):
        self.ndim = int(ndim)
        if ndim < 0:
            raise ValueError("The output dimensions after reshape must be 0 or greater, got %s" % ndim)
        if name is not None:
            warnings.warn("The name of a Reshape Op is ignored.", DeprecationWarning, stacklevel=2)

    def __str__(self):
        return "%s{%s}" % (type(self).__name__, self.ndim)

    def make_node(self, x, shp):
        x, given = as_tensor_variable(x), shp
        shp = _as_shape_vector(shp)
        if isinstance(shp, Constant):
            if len(shp.data) != self.ndim:
                raise ValueError(
                    "shape argument to Reshape has incorrect length %d, should be %d" % (len(shp.data), self.ndim)
                )
            pattern = [size == 1 for size in shp.data]
        else:
            if isinstance(given, (list, tuple)):
                entries = given
            elif shp.owner is not None and type(shp.owner.op).__name__ == "MakeVector":
                entries = shp.owner.inputs
            else:
                entries = [shp[i] for i in range(self.ndim)] if shp.owner is not None else [None] * self.ndim
            if len(entries) != self.ndim:
                raise ValueError(
                    "shape argument to Reshape has incorrect length %d, should be %d" % (len(entries), self.ndim)
                )
            pattern = [_constant_size(entry) == 1 for entry in entries]
        return Apply(self, [x, shp], [TensorType(x.dtype, pattern)()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.shape:reshape", ndim=self.ndim)

    def perform(self, node, inp, out_, params=None):
        x, shp = inp
        if len(shp) != self.ndim:
            raise ValueError("shape argument to Reshape has incorrect length %i, should be %i" % (len(shp), self.ndim))
        sizes = tuple(int(size) for size in shp)
        message = "Cannot reshape input of shape %s to shape %s" % (x.shape, sizes)
        if any(size < -1 for size in sizes):  # NumPy treats every negative number as -1.
            raise ValueError(message)
        try:
            out_[0][0] = np.reshape(x, sizes)
        except ValueError:
            raise ValueError(message) from None

    def connection_pattern(self, node):
        return [[True], [False]]

    def grad(self, inp, grads):
        x = inp[0]
        return [patternbroadcast(reshape(grads[0], shape(x), ndim=x.ndim), x.broadcastable), disconnected_type()]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return self(eval_points[0], *inputs[1:], return_list=True)

    def infer_shape(self, node, ishapes):
        asked = node.inputs[1]
        if isinstance(asked, Constant):
            sizes = [int(size) for size in asked.data]
        elif asked.owner is not None and type(asked.owner.op).__name__ == "MakeVector":
            sizes = list(asked.owner.inputs)
        else:
            sizes = [asked[i] for i in range(self.ndim)]
        known = [_constant_size(size) for size in sizes]
        pattern = node.outputs[0].type.broadcastable
        total = None
        result = []
        for i, size in enumerate(sizes):
            if pattern[i]:
                result.append(constant(1, dtype="int64"))
            elif known[i] is not None and known[i] != -1:
                result.append(constant(known[i], dtype="int64"))
            elif known[i] is None and (-1 in known or "uint" in size.dtype or _is_length(size)):
                # This size cannot be -1: another size is -1, or the dtype is unsigned, or the size is a length.
                result.append(size)
            else:
                if total is None:
                    total = _product(ishapes[0])
                # Compute the length in case this size is -1: divide the number of elements by the product of the other
                # sizes. None of the other sizes is -1 in this case. The product may be 0, so divide by at least 1.
                others = [s if known[j] is None else known[j] for j, s in enumerate(sizes) if j != i]
                others = _product([s for s in others if not isinstance(s, int) or s != 1])
                if isinstance(others, int):
                    rest = total // max(others, 1) if others != 1 else total
                else:
                    rest = total // maximum(others, 1)
                if isinstance(rest, int):
                    rest = constant(rest, dtype="int64")
                result.append(rest if known[i] == -1 else switch(eq(size, -1), rest, size))
        return [tuple(result)]


def _as_shape_vector(newshape):
    if isinstance(newshape, (list, tuple)) and len(newshape) == 0:
        newshape = np.zeros(0, dtype="int64")
    vector = as_tensor_variable(newshape)
    if vector.ndim == 0:
        vector = as_tensor_variable(vector, ndim=1)
    if vector.ndim != 1:
        raise TypeError(
            "New shape in reshape must be a vector or a list/tuple of scalar. Got %s of type %s"
            % (newshape, vector.type)
        )
    if vector.dtype not in DISCRETE:
        raise TypeError("Shape must be integers; got dtype %s of %s" % (vector.dtype, newshape))
    return vector


def reshape(x: TensorLike, newshape: ShapeLike, ndim: int | None = None) -> TensorVariable:
    """Return the elements of a tensor in another shape.

    Parameters
    ----------
    x : tensor
    newshape : int, list or tuple of integers and integer scalars, or integer vector
        The new shape. One size may be -1. It is computed from the other sizes.
    ndim : int, optional
        The number of dimensions of the result. It is required if the length of a symbolic `newshape` is not known while
        the graph is built.

    Returns
    -------
    TensorVariable
        A view or a copy with the dtype of x.

    Raises
    ------
    ValueError
        If the number of dimensions is not known, or differs from the length of `newshape`.
    """
    if ndim is None:
        vector = as_tensor_variable(
            np.zeros(0, "int64") if isinstance(newshape, (list, tuple)) and not newshape else newshape
        )
        if vector.ndim == 0:
            ndim = 1
        elif vector.ndim != 1:
            raise TypeError(
                "New shape in reshape must be a vector or a list/tuple of scalar. Got %s of type %s"
                % (newshape, vector.type)
            )
        else:
            try:
                ndim = get_vector_length(vector)
            except ValueError:
                raise ValueError(
                    "The length of the provided shape (%s) cannot be automatically determined, so Theano is not able to know "
                    "what the number of dimensions of the reshaped variable will be. You can provide the 'ndim' keyword "
                    "argument to 'reshape' to avoid this problem." % (newshape,)
                ) from None
    elif ndim != 1 and not isinstance(newshape, (list, tuple)) and as_tensor_variable(newshape).ndim == 0:
        raise ValueError(
            "A single size is a shape of 1 dimension, not of ndim=%s. Give all sizes in one list or tuple: "
            "x.reshape((2, 3)), not x.reshape(2, 3)" % (ndim,)
        )
    if not isinstance(newshape, (list, tuple)) or not newshape:
        newshape = _as_shape_vector(newshape)
    return Reshape(ndim)(x, newshape)


class Flatten(NativeOp, Op):
    """An Op that merges the trailing dimensions of a tensor: ``Flatten(outdim)(x)``.

    The first ``outdim - 1`` dimensions are kept. The function `flatten` uses Reshape instead of this Op.

    Parameters
    ----------
    outdim : int
        The number of dimensions of the result, from 1 to x.ndim (1 for a 0-d x).
    """

    view_map = {0: [0]}
    check_input = False
    __props__ = ("outdim",)

    def __init__(self, outdim=1):
        self.outdim = int(outdim)

    def __str__(self):
        return "%s{%s}" % (type(self).__name__, self.outdim)

    def make_node(self, x):
        x = as_tensor_variable(x)
        if self.outdim < 1 or (x.ndim and self.outdim > x.ndim) or (x.ndim == 0 and self.outdim != 1):
            raise ValueError("invalid output ndimensions (%i) for tensor of rank %i" % (self.outdim, x.ndim))
        flags = x.type.broadcastable
        pattern = (*flags[: self.outdim - 1], all(flags[self.outdim - 1 :]))
        return Apply(self, [x], [TensorType(x.dtype, pattern)()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.shape:flatten", ndim=self.outdim)

    def perform(self, node, inp, out_):
        x = inp[0]
        kept = x.shape[: self.outdim - 1]
        out_[0][0] = x.reshape((*kept, int(np.prod(x.shape[self.outdim - 1 :], dtype="int64"))))

    def infer_shape(self, node, in_shapes):
        sizes = in_shapes[0]
        merged = _product(sizes[self.outdim - 1 :])
        return [(*sizes[: self.outdim - 1], constant(1, dtype="int64") if isinstance(merged, int) else merged)]

    def grad(self, inp, grads):
        x = inp[0]
        return [patternbroadcast(reshape(grads[0], shape(x), ndim=x.ndim), x.broadcastable)]

    def R_op(self, inputs, eval_points):
        return [None] if eval_points[0] is None else self(*eval_points, return_list=True)


def is_flat(var: TensorLike, ndim: int | None = None, outdim: int | None = None) -> bool:
    """Return True if a variable has `ndim` dimensions (default 1), so that flattening it to `ndim` changes nothing."""
    return var.ndim == _flat_ndim("is_flat", ndim, outdim)


def _flat_ndim(who, ndim, outdim):
    if outdim is not None:
        if ndim is not None:
            raise ValueError("%s: both ndim and outdim are given, but outdim is the deprecated name of ndim" % who)
        warnings.warn("%s outdim parameter is deprecated, use ndim instead." % who, DeprecationWarning, stacklevel=3)
        return outdim
    return 1 if ndim is None else ndim


def flatten(x: TensorLike, ndim: int | None = None, outdim: int | None = None) -> TensorVariable:
    """Merge the trailing dimensions of a tensor.

    Parameters
    ----------
    x : tensor
    ndim : int
        The number of dimensions of the result. The default is 1. The first ``ndim - 1`` dimensions are kept.
    outdim : int
        The deprecated name of `ndim`.

    Returns
    -------
    TensorVariable
        A view or a copy. For shape (2, 3, 4, 5) and ndim=2, the result has shape (2, 60).

    Raises
    ------
    ValueError
        If x has fewer than `ndim` dimensions.
    """
    ndim = _flat_ndim("flatten", ndim, outdim)
    x = as_tensor_variable(x)
    if ndim < 1 or ndim > max(x.ndim, 1):
        raise ValueError("ndim %s out of bound [1, %d)" % (ndim, max(x.ndim, 1) + 1))
    lengths = [x.shape[i] for i in range(x.ndim)]
    # Compute the merged length, because a size of -1 would be ambiguous if one of the kept lengths were 0.
    merged = functools.reduce(operator.mul, lengths[ndim - 1 :]) if ndim > 1 else -1
    result = x.reshape((*lengths[: ndim - 1], merged), ndim=ndim)
    flags = x.broadcastable
    return addbroadcast(result, *[i for i, flag in enumerate((*flags[: ndim - 1], all(flags[ndim - 1 :]))) if flag])


# ---------------------------------------------------------------- new dimensions, order of dimensions


def shape_padleft(t: TensorLike, n_ones: int = 1) -> TensorVariable:
    """Add broadcastable dimensions on the left.

    Parameters
    ----------
    t : tensor
    n_ones : int
        The number of new dimensions.
    """
    t = as_tensor_variable(t)
    return t.dimshuffle(["x"] * n_ones + list(range(t.ndim)))


def shape_padright(t: TensorLike, n_ones: int = 1) -> TensorVariable:
    """Add broadcastable dimensions on the right.

    Parameters
    ----------
    t : tensor
    n_ones : int
        The number of new dimensions.
    """
    t = as_tensor_variable(t)
    return t.dimshuffle(list(range(t.ndim)) + ["x"] * n_ones)


def shape_padaxis(t: TensorLike, axis: int) -> TensorVariable:
    """Add one broadcastable dimension.

    Parameters
    ----------
    t : tensor
    axis : int
        The position of the new dimension in the result, from -t.ndim-1 to t.ndim.

    Raises
    ------
    IndexError
        If `axis` is out of bounds.
    """
    t = as_tensor_variable(t)
    ndim = t.ndim + 1
    if not -ndim <= axis < ndim:
        raise IndexError("axis {0} is out of bounds [-{1}, {1})".format(axis, ndim))
    pattern: list[int | str] = list(range(t.ndim))
    pattern.insert(axis % ndim, "x")
    return t.dimshuffle(pattern)


def transpose(x: TensorLike, axes: Sequence[int] | None = None) -> TensorVariable:
    """Reorder the dimensions.

    Parameters
    ----------
    x : tensor
    axes : sequence of int, optional
        The new order of the dimensions. By default, the order is reversed, and the name of the result is the name of x
        with ``.T`` appended.

    Returns
    -------
    TensorVariable
        A view of x.
    """
    x = as_tensor_variable(x)
    backwards = list(range(x.ndim - 1, -1, -1))
    named = bool(x.name) and axes is None
    axes = backwards if axes is None else [axis + x.ndim if axis < 0 else axis for axis in axes]
    if sorted(axes) != backwards[::-1]:
        raise ValueError("transpose: axes %s are not a permutation of the %d dimensions" % (axes, x.ndim))
    result = x.dimshuffle(axes)
    if named and result is not x:
        result.name = x.name + ".T"
    return result


def swapaxes(y: TensorLike, axis1: int, axis2: int) -> TensorVariable:
    """Exchange two dimensions. For a matrix, the result is the transpose.

    Parameters
    ----------
    y : tensor
    axis1, axis2 : int

    Raises
    ------
    IndexError
        If `y` does not have such a dimension.
    """
    y = as_tensor_variable(y)
    for axis in (axis1, axis2):
        if not -y.ndim <= axis < y.ndim:
            raise IndexError("swapaxes: axis %d is out of bounds for %d dimensions" % (axis, y.ndim))
    order = list(range(y.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return y.dimshuffle(order)


def moveaxis(x: TensorLike, source: int, destination: int) -> TensorVariable:
    """Move one dimension to another position. The other dimensions keep their order.

    Parameters
    ----------
    x : tensor
    source, destination : int
    """
    x = as_tensor_variable(x)
    for axis in (source, destination):
        if not -x.ndim <= axis < x.ndim:
            raise IndexError("axis %d is out of bounds for %d dimensions" % (axis, x.ndim))
    order = list(range(x.ndim))
    order.insert(destination % x.ndim, order.pop(source % x.ndim))
    return x.dimshuffle(order)


def rollaxis(x: TensorLike, axis: int, start: int = 0) -> TensorVariable:
    """Move a dimension to the position before another dimension. See `numpy.rollaxis`.

    Parameters
    ----------
    x : tensor
    axis : int
        The dimension to move.
    start : int
        The dimension before which the moved dimension is placed.
    """
    x = as_tensor_variable(x)
    if not -x.ndim <= axis < x.ndim or not -x.ndim <= start <= x.ndim:
        raise IndexError("rollaxis: axis %d or start %d is out of bounds for %d dimensions" % (axis, start, x.ndim))
    axis %= x.ndim
    start = start + x.ndim if start < 0 else start
    return moveaxis(x, axis, start - 1 if axis < start else start)
