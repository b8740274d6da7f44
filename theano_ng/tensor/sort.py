"""Sorting: `sort`, `argsort`, and the k largest or smallest elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType, grad_undefined
from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.tensor.constant import NotScalarConstantError, as_tensor_variable, get_scalar_constant_value
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.functions import abs_, cast, eq, switch
from theano_ng.tensor.indexing.subtensor import set_subtensor
from theano_ng.tensor.shaping.creation import arange
from theano_ng.tensor.type import TensorType
from theano_ng.tensor.type_other import NoneTypeT

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import IntLike, TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["SortOp", "sort", "ArgSortOp", "argsort", "TopKOp", "topk", "argtopk", "topk_and_argtopk"]

# This dict maps each kind to True if equal elements must keep their order.
_KINDS = {"quicksort": False, "mergesort": True, "heapsort": False, "stable": True}


def _variable_is_none(var):
    """Return True if `var` is a constant that represents Python's None."""
    return isinstance(var, Constant) and isinstance(var.type, NoneTypeT)


def _check_tensor_is_scalar(var):
    """Raise ValueError if a variable is not 0-d."""
    if var.ndim != 0:
        raise ValueError("Expected a scalar (0-d) tensor, got %s of type %s" % (var, var.type))


def _whole(axis):
    """Return the value of a 0-d array as an int. Raise ValueError if it is not an integer."""
    if not float(axis).is_integer():
        raise ValueError("sort axis must be an integer or None, not %s" % axis)
    return int(axis)


def _axis_of(a, axis):
    """Return the value of a 0-d array as an axis of the array `a`. Raise an error if `a` has no such axis."""
    axis = _whole(axis)
    if not -a.ndim <= axis < a.ndim:  # NumPy would raise OverflowError for some integers.
        raise np.exceptions.AxisError("axis %d is out of bounds for array of dimension %d" % (axis, a.ndim))
    return axis


def _along_axis(indices, axis):
    """Return an advanced index that applies `indices` along an axis and keeps the positions along the other axes.

    The axis is an int or a variable. It must not be negative.
    """
    if indices.ndim == 1:
        return indices
    index = []
    for i in range(indices.ndim):
        steps = arange(indices.shape[i]).dimshuffle(["x"] * i + [0] + ["x"] * (indices.ndim - 1 - i))
        index.append(
            switch(eq(axis, i), indices, steps) if isinstance(axis, Variable) else indices if i == axis else steps
        )
    return tuple(index)


class _Sorting(NativeOp, Op):
    """The base class of the Ops that sort. The inputs are a tensor and an axis (None means the flattened tensor)."""

    __props__ = ("kind", "order")

    def __init__(self, kind, order=None):
        if kind not in _KINDS:
            raise ValueError("kind must be one of %s, not %r" % (", ".join(_KINDS), kind))
        self.kind = kind
        self.order = tuple(order) if isinstance(order, list) else order

    def __str__(self):
        return "%s{%s, %s}" % (type(self).__name__, self.kind, self.order)

    def make_node(self, input, axis=-1):
        input = as_tensor_variable(input)
        if axis is None or _variable_is_none(axis):
            # Sort the flattened tensor along its only axis.
            input, axis = input.flatten(), 0
        if input.ndim == 0:
            raise ValueError("Cannot sort a 0-d tensor along an axis: %s" % (input,))
        axis = as_tensor_variable(axis)
        _check_tensor_is_scalar(axis)
        if axis.dtype.startswith("complex"):
            raise TypeError("The axis must be an integer, got %s" % axis.type)
        if isinstance(axis, Constant) and axis.dtype not in DISCRETE:
            axis = as_tensor_variable(_whole(axis.data))
        return Apply(self, [input, axis], [self._output_type(input)])

    def infer_shape(self, node, inputs_shapes):
        return [inputs_shapes[0]]

    def _axis(self, inputs):
        """Return the axis for `_along_axis`: an int if the axis is constant, otherwise a non-negative variable."""
        x, axis = inputs
        try:
            return int(get_scalar_constant_value(axis)) % x.ndim
        except NotScalarConstantError:
            axis = cast(axis, "int64")
            return switch(axis < 0, axis + x.ndim, axis)


class SortOp(_Sorting):
    """An Op that sorts along an axis.

    Parameters
    ----------
    kind : {'quicksort', 'mergesort', 'heapsort', 'stable'}
        With 'stable' and 'mergesort', elements that compare as equal (-0 and 0, NaNs) keep their order. With the other
        two kinds, the fastest algorithm is used.
    order : None
        NumPy's parameter for the fields of structured arrays. Tensors do not support structured arrays.
    """

    def _output_type(self, input):
        return input.type()

    def native_code(self, node):
        if self.order is not None:
            return None
        return NativeCode("theano_ng.tensor.native.sort:sort", stable=_KINDS[self.kind])

    def perform(self, node, inputs, output_storage):
        a, axis = inputs
        # Use the stable sort for all kinds, because NumPy's vectorized quicksort of float16 fails for some NaNs.
        output_storage[0][0] = np.ascontiguousarray(np.sort(a, _axis_of(a, axis), "stable", self.order))

    def grad(self, inputs, output_grads):
        a, axis_variable = inputs
        (gz,) = output_grads
        g_axis = grad_undefined(self, 1, axis_variable, "the axis is an integer")
        if a.dtype in DISCRETE:
            return [a.zeros_like(dtype=config.floatX), g_axis]
        # Move each element of the gradient to the original position of the sorted element.
        order = ArgSortOp(self.kind, self.order)(a, axis_variable)
        place = _along_axis(order, self._axis(inputs))
        return [set_subtensor(a.zeros_like(dtype=gz.dtype)[place], gz), g_axis]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        order = ArgSortOp(self.kind, self.order)(*inputs)
        return [eval_points[0][_along_axis(order, self._axis(inputs))]]


class ArgSortOp(_Sorting):
    """An Op that returns the int64 indices that sort a tensor along an axis. See :class:`SortOp`.

    Every kind is stable: equal elements keep their order.
    """

    def _output_type(self, input):
        return TensorType("int64", input.broadcastable)()

    def native_code(self, node):
        return None if self.order is not None else NativeCode("theano_ng.tensor.native.sort:argsort")

    def perform(self, node, inputs, output_storage):
        a, axis = inputs
        output_storage[0][0] = np.ascontiguousarray(
            np.argsort(a, _axis_of(a, axis), "stable", self.order), dtype="int64"
        )

    def grad(self, inputs, output_grads):
        a, axis = inputs
        return [
            a.zeros_like(dtype=config.floatX if a.dtype in DISCRETE else a.dtype),
            grad_undefined(self, 1, axis, "the axis is an integer"),
        ]

    def R_op(self, inputs, eval_points):
        return [None]


def sort(a: TensorLike, axis: int | None = -1, kind: str = "quicksort", order: Any = None) -> TensorVariable:
    """Return a sorted copy of a tensor.

    Parameters
    ----------
    a : tensor_like
    axis : int, scalar variable or None
        None sorts the flattened tensor.
    kind : {'quicksort', 'mergesort', 'heapsort', 'stable'}
    order : None
        This parameter exists for compatibility with NumPy, where it names the fields of structured arrays.

    Returns
    -------
    TensorVariable
        A tensor with the type of `a`, or a vector if `axis` is None.
    """
    a = as_tensor_variable(a)
    if axis is None:
        a, axis = a.flatten(), 0
    return SortOp(kind, order)(a, axis)


def argsort(a: TensorLike, axis: int | None = -1, kind: str = "quicksort", order: Any = None) -> TensorVariable:
    """Return the indices that would sort a tensor.

    Parameters
    ----------
    a : tensor_like
    axis : int, integer scalar or None
        None means the flattened tensor.
    kind, order
        See :func:`sort`.

    Returns
    -------
    TensorVariable
        The indices, as int64.
    """
    a = as_tensor_variable(a)
    if axis is None:
        a, axis = a.flatten(), 0
    return ArgSortOp(kind, order)(a, axis)


# ---------------------------------------------------------------------------


def _topk_py_impl(op, x, k, axis, idx_dtype):
    """Compute the outputs of a :class:`TopKOp` with NumPy.

    Returns
    -------
    list
        The values, the indices, or both.
    """
    n = x.shape[axis]
    if k == 0 or abs(k) > n:
        raise ValueError(
            "topk: k must be between 1 and the length of the axis (%d), or the negative of such a number; got %d"
            % (n, k)
        )
    count = abs(k)
    # NumPy sorts NaN to the end, so NaN counts as the largest element. For k > 0, flip the array before and after the
    # sort, so that the element with the lowest index is selected among equal elements.
    if k > 0:
        order = n - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    index = order.take(np.arange(count), axis=axis)
    if not op.sorted:
        index = np.sort(index, axis=axis)
    result = []
    if op.return_values:
        result.append(np.ascontiguousarray(np.take_along_axis(x, index, axis)))
    if op.return_indices:
        result.append(np.ascontiguousarray(index, dtype=idx_dtype))
    return result


class TopKOp(NativeOp, Op):
    """An Op that returns the k largest (k > 0) or smallest (k < 0) elements along an axis.

    Among equal elements, those with the lowest indices are selected first. NaN counts as the largest element.

    Parameters
    ----------
    axis : int
    sorted : bool
        If True, the largest (for k < 0, the smallest) element comes first, and equal elements keep their order.
        If False, the elements have the order of the input.
    idx_dtype : str
        The integer dtype of the indices.
    return_values, return_indices : bool
        Whether the values, or the indices, are outputs. At least one of the parameters must be True.
    """

    __props__ = ("axis", "sorted", "return_values", "return_indices", "idx_dtype")

    def __init__(self, axis=-1, sorted=True, idx_dtype="int64", return_values=True, return_indices=True):
        if not isinstance(axis, (int, np.integer)):
            raise TypeError('"axis" parameter must be integer, got "%s"' % type(axis))
        if idx_dtype not in DISCRETE or idx_dtype == "bool":
            raise TypeError('"idx_dtype" parameter must be an integer dtype, got "%s"' % (idx_dtype,))
        if not (return_indices or return_values):
            raise ValueError("Neither return_values nor return_indices is True, this isn't allowed")
        self.axis = int(axis)
        self.sorted = bool(sorted)
        self.return_values = bool(return_values)
        self.return_indices = bool(return_indices)
        self.idx_dtype = idx_dtype

    def __str__(self):
        return "%s{axis=%d, sorted=%s}" % (type(self).__name__, self.axis, self.sorted)

    def make_node(self, inp, kth):
        inp = as_tensor_variable(inp)
        kth = as_tensor_variable(kth)
        _check_tensor_is_scalar(kth)
        if kth.dtype not in DISCRETE:
            raise TypeError('"kth" must be an integer scalar, got %s' % (kth.type,))
        ndim = inp.ndim
        if ndim == 0:
            raise ValueError("Cannot use scalar (0-d tensor) as input")
        if not -ndim <= self.axis < ndim:
            raise IndexError(
                '"axis" parameter out of range, expected integer within [%d, %d], got %d' % (-ndim, ndim - 1, self.axis)
            )
        # The length along the axis is |k|, even if the length of the input is 1.
        flags = list(inp.broadcastable)
        flags[self.axis] = False
        outputs = []
        if self.return_values:
            outputs.append(TensorType(inp.dtype, flags)())
        if self.return_indices:
            outputs.append(TensorType(self.idx_dtype, flags)())
        return Apply(self, [inp, kth], outputs)

    def native_code(self, node):
        return NativeCode(
            "theano_ng.tensor.native.sort:topk",
            axis=self.axis % node.inputs[0].ndim,
            sorted=bool(self.sorted),
            values=bool(self.return_values),
            indices=bool(self.return_indices),
            index_type=np.dtype(self.idx_dtype).num,
        )

    def perform(self, node, inputs, output_storage):
        x, k = inputs
        results = _topk_py_impl(self, x, int(k), self.axis % x.ndim, self.idx_dtype)
        for cell, value in zip(output_storage, results):
            cell[0] = value

    def infer_shape(self, node, inp_shapes):
        shape = list(inp_shapes[0])
        shape[self.axis] = abs_(cast(node.inputs[1], "int64"))
        return [tuple(shape) for _ in node.outputs]

    def connection_pattern(self, node):
        values = [[True], [False]] if self.return_values else [[], []]
        if self.return_indices:
            for row in values:
                row.append(False)
        return values

    def L_op(self, inputs, outputs, out_grads):
        x, k = inputs
        k_grad = DisconnectedType()()
        if not self.return_values:
            return [DisconnectedType()(), k_grad]
        gz = out_grads[0]
        if isinstance(gz.type, DisconnectedType):
            return [DisconnectedType()(), k_grad]
        if x.dtype in DISCRETE:
            return [grad_undefined(self, 0, x, "the input is discrete"), k_grad]
        axis = self.axis % x.ndim
        # If this node does not return the indices, a second TopKOp with both outputs computes them. The second node is
        # merged with an equal node of the graph, if there is one.
        index = outputs[1] if self.return_indices else TopKOp(self.axis, self.sorted, self.idx_dtype)(x, k)[1]
        place = _along_axis(index, axis)
        return [set_subtensor(x.zeros_like(dtype=gz.dtype)[place], gz), k_grad]

    def R_op(self, inputs, eval_points):
        result = []
        if self.return_values:
            if eval_points[0] is None:
                result.append(None)
            else:
                axis = self.axis % inputs[0].ndim
                index = TopKOp(self.axis, self.sorted, self.idx_dtype, return_values=False)(*inputs)
                result.append(eval_points[0][_along_axis(index, axis)])
        if self.return_indices:
            result.append(None)
        return result


def _topk_input(x, axis):
    x = as_tensor_variable(x)
    return (x.flatten(), 0) if axis is None else (x, axis)


def topk(
    x: TensorLike, kth: IntLike, axis: int | None = -1, sorted: bool = True, idx_dtype: str = "int64"
) -> TensorVariable:
    """Return the k largest elements along an axis.

    Parameters
    ----------
    x : tensor_like
    kth : int or integer scalar variable
        The number of elements, which must not be 0. With a negative number -k, the k smallest elements are returned.
    axis : int or None
        None means the flattened tensor.
    sorted : bool
        If True, the largest element comes first (for a negative `kth`, the smallest element). If False, the elements
        have the same order as in `x`.
    idx_dtype : str
        The dtype of indices that are computed internally.

    Returns
    -------
    TensorVariable
        A tensor with the dtype of `x`, and with the length \\|kth\\| along the axis.
    """
    x, axis = _topk_input(x, axis)
    return TopKOp(axis=axis, sorted=sorted, idx_dtype=idx_dtype)(x, kth)[0]


def argtopk(
    x: TensorLike, kth: IntLike, axis: int | None = -1, sorted: bool = True, idx_dtype: str = "int64"
) -> TensorVariable:
    """Return the indices of the k largest elements. See :func:`topk`.

    Parameters
    ----------
    x : tensor_like
    kth : int or integer scalar
        The number of elements, which must not be 0. With a negative number -k, the k smallest elements are selected.
    axis : int or None
        None means the flattened tensor.
    sorted : bool
        See :func:`topk`.
    idx_dtype : str
        The dtype of the indices.

    Returns
    -------
    TensorVariable
        A tensor with the dtype `idx_dtype`.
    """
    x, axis = _topk_input(x, axis)
    return TopKOp(axis=axis, sorted=sorted, idx_dtype=idx_dtype)(x, kth)[1]


def topk_and_argtopk(
    x: TensorLike, kth: IntLike, axis: int | None = -1, sorted: bool = True, idx_dtype: str = "int64"
) -> list[TensorVariable]:
    """Return the k largest elements and their indices. See :func:`topk`.

    Parameters
    ----------
    x : tensor_like
    kth : int or integer scalar
        The number of elements, which must not be 0. With a negative number -k, the k smallest elements are returned.
    axis : int or None
        None means the flattened tensor.
    sorted : bool
        See :func:`topk`.
    idx_dtype : str
        The dtype of the indices.

    Returns
    -------
    list of two TensorVariable
    """
    x, axis = _topk_input(x, axis)
    return TopKOp(axis=axis, sorted=sorted, idx_dtype=idx_dtype)(x, kth)
