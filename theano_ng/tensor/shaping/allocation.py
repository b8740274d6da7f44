"""Ops that allocate arrays: `Alloc` (filled) and `AllocEmpty` (uninitialized).

The module also contains `SumToShape`, which computes the gradient of a broadcast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import theano_ng.scalar as scal
from theano_ng.gof.derivative import disconnected_gradients
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gof.params_type import ParamsType
from theano_ng.tensor.constant import NotScalarConstantError, as_tensor_variable, get_scalar_constant_value
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.type import TensorType, values_eq_approx_always_true

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import IntLike, ShapeLike, TensorLike
    from theano_ng.tensor.var import TensorVariable

# These names are exported by `theano.tensor`.
__all__ = ["Alloc", "AllocEmpty", "alloc", "alloc_validate_shape"]

# These Ops overwrite their first input. If this input were a constant instead of an Alloc, each call would have to copy
# the constant.
_OVERWRITING = frozenset(
    prefix + name
    for prefix in ("", "C", "Scipy", "Gpu")
    for name in (
        "IncSubtensor",
        "AdvancedIncSubtensor1",
        "AdvancedIncSubtensor",
        "AdvancedBooleanIncSubtensor",
        "Gemv",
        "Ger",
        "Gemm",
        "DeepCopyOp",
    )
)


def alloc_validate_shape(shape: ShapeLike) -> Any:
    """Return sizes as 0-d integer tensors. Also return flags, which are True for the sizes that are known to be 1.

    Parameters
    ----------
    shape : sequence of int or integer scalar variables

    Returns
    -------
    tuple (list of variables, list of bool)

    Raises
    ------
    TypeError
        If a size is not an integer scalar.
    """
    sizes, broadcastable = [], []
    for i, size in enumerate(shape):
        variable = as_tensor_variable(size)
        if variable.ndim != 0 or np.dtype(variable.dtype).kind not in "iu":
            raise TypeError(
                "Shape arguments to Alloc must be integers, but argument %d has type %s" % (i, variable.type)
            )
        try:
            one = int(get_scalar_constant_value(variable)) == 1
        except NotScalarConstantError:
            one = False
        sizes.append(variable)
        broadcastable.append(one)
    return sizes, broadcastable


class Alloc(NativeOp, Op):
    """An Op that makes a new array of a given shape, filled with a value: ``Alloc()(value, n0, n1, ...)``.

    The value is broadcast to the shape. The shape inputs are not connected to the output.

    As for every other Op, dimensions that are repeated should be broadcastable in the type of the value (use
    `addbroadcast`). At run time, non-broadcastable dimensions of length 1 are repeated, too, as in NumPy. But a
    rewritten graph may assume that such a dimension has the length of the result, and may raise an error. The gradient
    has the shape of the value.

    Raises
    ------
    TypeError
        If the value has more dimensions than there are sizes, or if a size is not an integer.
    ValueError
        At run time, if the value cannot be broadcast to the shape, or if a size is negative.
    """

    __props__ = ()
    _f16_ok = True

    if TYPE_CHECKING:

        def __call__(self, value: TensorLike, *shape: IntLike) -> TensorVariable: ...

    def validate_shape(self, shape):
        return alloc_validate_shape(shape)

    def make_node(self, value, *shape):
        value = as_tensor_variable(value)
        sizes, broadcastable = alloc_validate_shape(shape)
        if value.ndim > len(sizes):
            raise TypeError(
                "The Alloc value to use has more dimensions than the specified dimensions", value.ndim, len(sizes)
            )
        return Apply(self, [value, *sizes], [TensorType(dtype=value.dtype, broadcastable=broadcastable)()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.shape:alloc", type_number=np.dtype(node.outputs[0].dtype).num)

    def perform(self, node, inputs, out_):
        (out,) = out_
        value, shape = inputs[0], tuple(int(size) for size in inputs[1:])
        if any(size < 0 for size in shape):
            raise ValueError("negative dimensions are not allowed: shape %s of Alloc" % (shape,))
        if out[0] is None or out[0].shape != shape or not out[0].flags.writeable:
            out[0] = np.empty(shape, dtype=node.outputs[0].dtype)
        out[0][...] = value

    def infer_shape(self, node, input_shapes):
        return [node.inputs[1:]]

    def connection_pattern(self, node):
        return [[True], *[[False] for _ in node.inputs[1:]]]

    def grad(self, inputs, grads):
        # The gradient of a repeated element is the sum over its copies.
        return [sum_over_repeated(grads[0], inputs[0]), *disconnected_gradients(len(inputs) - 1)]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return self(eval_points[0], *inputs[1:], return_list=True)

    def do_constant_folding(self, node):
        clients = getattr(node.outputs[0], "clients", [])
        if not clients:
            return False
        for client, i in clients:
            if client == "output":
                # Folding does not help, because a constant output is copied at each call.
                return False
            if i == 0 and type(client.op).__name__ in _OVERWRITING:
                return False
            if type(client.op).__name__ in ("HostFromGpu", "GpuFromHost"):
                return False
        return True


alloc = Alloc()


class AllocEmpty(NativeOp, Op):
    """An Op that makes a new uninitialized array: ``AllocEmpty(dtype)(n0, n1, ...)``.

    Its elements are undefined and may be NaN. The nodes that use the array must overwrite them.

    Parameters
    ----------
    dtype : str
    """

    __props__ = ("dtype",)
    _f16_ok = True
    params_type = ParamsType(typecode=scal.int32)

    if TYPE_CHECKING:

        def __call__(self, *shape: IntLike) -> TensorVariable: ...

    def __init__(self, dtype):
        if not isinstance(dtype, str):
            raise TypeError("AllocEmpty needs the name of a dtype, got %r" % (dtype,))
        self.dtype = dtype

    typecode = property(lambda self: np.dtype(self.dtype).num, doc="NumPy's type number of the dtype; a param.")

    def make_node(self, *shape):
        sizes, broadcastable = alloc_validate_shape(shape)
        type_ = TensorType(dtype=self.dtype, broadcastable=broadcastable)
        # Two calls return different elements, and elements may be NaN. So exempt the output from the checks of values.
        type_.filter_checks_isfinite = False
        output = type_()
        output.tag.values_eq_approx = values_eq_approx_always_true
        output.tag.nan_guard_mode_check = False
        return Apply(self, sizes, [output])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.shape:alloc_empty", type_number=np.dtype(self.dtype).num)

    def debug_perform(self, node, inputs, out_, params=None):
        self.perform(node, inputs, out_, params)
        out_[0][0].fill(-123456789 if np.dtype(self.dtype).kind in "fc" else 123)

    def perform(self, node, inputs, out_, params=None):
        (out,) = out_
        shape = tuple(int(size) for size in inputs)
        if out[0] is None or out[0].shape != shape:
            out[0] = np.empty(shape, dtype=self.dtype)

    def infer_shape(self, node, input_shapes):
        return [node.inputs]

    def connection_pattern(self, node):
        return [[False] for _ in node.inputs]

    def grad(self, inputs, grads):
        return disconnected_gradients(len(inputs))

    def R_op(self, inputs, eval_points):
        return [alloc(np.zeros((), dtype=self.dtype), *inputs)]

    def do_constant_folding(self, node):
        return False


class SumToShape(NativeOp, Op):
    """An Op that sums a tensor to a given shape: ``SumToShape()(x, n0, n1, ...)`` has the shape (n0, n1, ...).

    It sums over the dimensions that have length 1 in the result but not in x. This is the gradient of a broadcast from
    the given shape to the shape of x. If x already has the given shape, the result is x itself.

    Parameters
    ----------
    x : tensor
    *sizes : 0-d integer variables
        One size for each dimension of x.

    Returns
    -------
    TensorVariable
        A tensor with the dtype of x. The sum is computed in this dtype (in float32 for float16).

    Raises
    ------
    TypeError
        If the number of sizes is not the number of dimensions, or if a size is not an integer.
    ValueError
        At run time, if a size is neither 1 nor the length of x in this dimension.
    """

    view_map = {0: [0]}
    __props__ = ()
    _f16_ok = True

    def make_node(self, x, *sizes):
        x = as_tensor_variable(x)
        sizes, ones = alloc_validate_shape(sizes)
        if len(sizes) != x.ndim:
            raise TypeError("SumToShape needs a size for each of the %d dimensions of x, got %d" % (x.ndim, len(sizes)))
        pattern = [one or flag for one, flag in zip(ones, x.broadcastable)]
        return Apply(self, [x, *sizes], [x.type.clone(broadcastable=pattern)()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.shape:sum_to_shape")

    def perform(self, node, inputs, outputs):
        x, shape = inputs[0], tuple(int(size) for size in inputs[1:])
        for axis, (length, size) in enumerate(zip(x.shape, shape)):
            if size not in (1, length):
                raise ValueError(
                    "SumToShape: dimension %d of x has length %d and cannot be summed to length %d; expected 1 or the full "
                    "length" % (axis, length, size)
                )
        if x.shape == shape:
            outputs[0][0] = x
            return
        axes = tuple(axis for axis, (length, size) in enumerate(zip(x.shape, shape)) if size != length)
        total = x.sum(axis=axes, keepdims=True, dtype="float32" if x.dtype == "float16" else x.dtype)
        outputs[0][0] = np.ascontiguousarray(total, dtype=x.dtype)

    def infer_shape(self, node, input_shapes):
        return [node.inputs[1:]]

    def connection_pattern(self, node):
        return [[True], *[[False] for _ in node.inputs[1:]]]

    def grad(self, inputs, grads):
        x, (gz,) = inputs[0], grads
        # Use `alloc`, because it also repeats dimensions of `gz` that are known to have length 1 only at run time.
        gx = alloc(gz, *[x.shape[i] for i in range(x.ndim)])
        return [patternbroadcast(gx, x.broadcastable), *disconnected_gradients(x.ndim)]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return self(eval_points[0], *inputs[1:], return_list=True)


sum_to_shape = SumToShape()


def sum_over_repeated(g, x):
    """Return the gradient with respect to x, given the gradient `g` with respect to a tensor to which x was broadcast.

    `g` is summed over all dimensions in which x was repeated. These are the dimensions that x lacks,
    the broadcastable dimensions of x, and the dimensions in which x has length 1 at run time.

    Parameters
    ----------
    g : tensor
    x : tensor
        A tensor that has at most as many dimensions as `g`.

    Returns
    -------
    TensorVariable
        A tensor with the dtype of `g` and the broadcast pattern of `x`. It is `g` itself if no dimension can have been
        repeated.
    """
    added = g.ndim - x.ndim
    if added:
        g = g.sum(axis=list(range(added)))
    declared = [i for i in range(x.ndim) if x.broadcastable[i] and not g.broadcastable[i]]
    if declared:
        g = g.sum(axis=declared, keepdims=True)
    if not all(a or b for a, b in zip(x.broadcastable, g.broadcastable)):
        g = sum_to_shape(g, *[1 if flag else x.shape[i] for i, flag in enumerate(g.broadcastable)])
    return patternbroadcast(g, x.broadcastable)
