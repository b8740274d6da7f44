"""Functions that count the elements of a tensor or find its distinct elements: `bincount` and `Unique`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from theano_ng.compile.ops import Shape_i
from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.tensor.assert_op import Assert
from theano_ng.tensor.constant import as_tensor_variable, constant
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.functions import cast
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.shaping.creation import _undefined_grads
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import IntLike, TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["Bincount", "bincount", "Unique"]


class Bincount(NativeOp, Op):
    """An Op that counts the occurrences of each value, or sums the weights of each value.

    Inputs: an integer vector, the minimum length of the result, and optionally the weights.
    """

    __props__ = ()

    def make_node(self, x, minlength, weights=None):
        x, minlength = as_tensor_variable(x), as_tensor_variable(minlength)
        if x.ndim != 1:
            raise TypeError("bincount: expected a vector, got %s" % (x.type,))
        if x.dtype not in DISCRETE:
            raise TypeError("bincount: expected integers, got %s" % (x.type,))
        if minlength.ndim != 0 or minlength.dtype not in DISCRETE:
            raise TypeError("bincount: minlength must be an integer scalar, got %s" % (minlength.type,))
        inputs = [x, minlength]
        if weights is not None:
            weights = as_tensor_variable(weights)
            if weights.ndim != 1:
                raise TypeError("bincount: weights must be a vector, got %s" % (weights.type,))
            inputs.append(weights)
        return Apply(self, inputs, [TensorType("int64" if weights is None else weights.dtype, (False,))()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.unique:bincount")

    def perform(self, node, inputs, output_storage):
        x, minlength = inputs[0].astype("int64"), int(inputs[1])
        # Do not call numpy.bincount: it adds weights in float64, and returns an empty array if x contains the largest
        # int64.
        if minlength < 0 or (x < 0).any():
            raise ValueError("bincount: neither x nor minlength may be negative")
        if len(inputs) == 3 and len(inputs[2]) != len(x):
            raise ValueError(
                "bincount: the weights have length %d, x has length %d; they must be equal" % (len(inputs[2]), len(x))
            )
        result = np.zeros(max(minlength, int(x.max()) + 1 if len(x) else 0), dtype=node.outputs[0].dtype)
        np.add.at(result, x, inputs[2] if len(inputs) == 3 else 1)
        output_storage[0][0] = result

    def connection_pattern(self, node):
        return [[False], [False], [True]][: len(node.inputs)]

    def grad(self, inputs, output_grads):
        gradients = [DisconnectedType()(), DisconnectedType()()]
        if len(inputs) == 3:
            weights = inputs[2]
            gradients.append(
                weights.zeros_like(dtype=config.floatX)
                if weights.dtype in DISCRETE
                else patternbroadcast(output_grads[0][cast(inputs[0], "int64")], weights.broadcastable)
            )
        return gradients

    def R_op(self, inputs, eval_points):
        if len(inputs) < 3 or eval_points[2] is None:
            return [None]
        return [self(*inputs[:2], eval_points[2])]


def bincount(
    x: TensorLike, weights: TensorLike | None = None, minlength: IntLike | None = None, assert_nonneg: bool = False
) -> TensorVariable:
    """Count the occurrences of each value in a vector of integers.

    Parameters
    ----------
    x : integer vector
        The values must not be negative. The compiled function raises ValueError if a value is negative.
    weights : vector, optional
        One weight for each element of `x`. The result contains sums of weights instead of counts.
    minlength : int or integer scalar variable, optional
        Minimum length of the result.
    assert_nonneg : bool
        Whether to add an `Assert` that no element of `x` is negative (AssertionError at run time).

    Returns
    -------
    TensorVariable
        A vector of length ``max(x) + 1`` or more. Its dtype is int64, or the dtype of `weights`.
    """
    x = as_tensor_variable(x)
    if assert_nonneg and x.dtype in DISCRETE:
        x = Assert("Input to bincount has negative values!")(x, (x >= 0).all())
    return Bincount()(x, 0 if minlength is None else minlength, *([] if weights is None else [weights]))


class Unique(NativeOp, Op):
    """An Op that returns the sorted unique elements, as `numpy.unique`.

    Parameters
    ----------
    return_index : bool
        Whether to return the index of the first occurrence of each unique element, too.
    return_inverse : bool
        Whether to return, for each element of the input, the index of its unique element, too. This output is a vector
        for an input of any rank.
    return_counts : bool
        Whether to return the number of occurrences of each unique element, too.
    axis : int, optional
        If given, the slices along this axis are compared instead of the
        elements.
    """

    __props__ = ("return_index", "return_inverse", "return_counts", "axis")

    def __init__(self, return_index=False, return_inverse=False, return_counts=False, axis=None):
        self.return_index, self.return_inverse, self.return_counts = return_index, return_inverse, return_counts
        self.axis = axis

    def make_node(self, x):
        x = as_tensor_variable(x)
        if self.axis is None:
            flags = [False]
        else:
            if not -x.ndim <= self.axis < x.ndim:
                raise ValueError("Unique: axis %d is out of range for %s" % (self.axis, x.type))
            flags = list(x.broadcastable)
            flags[self.axis] = False
        outputs = [TensorType(x.dtype, flags)()]
        for wanted in (self.return_index, self.return_inverse, self.return_counts):
            if wanted:
                outputs.append(TensorType("int64", (False,))())
        return Apply(self, [x], outputs)

    def native_code(self, node):
        ndim = node.inputs[0].ndim
        # The slices of a vector are its elements. Treat them as elements, so that all NaN elements are equal.
        axis = -1 if self.axis is None or ndim == 1 else self.axis % ndim
        return NativeCode(
            "theano_ng.tensor.native.unique:unique",
            indices=bool(self.return_index),
            inverse=bool(self.return_inverse),
            counts=bool(self.return_counts),
            axis=axis,
        )

    def perform(self, node, inputs, output_storage):
        (x,) = inputs
        # Always pass return_index=True: NumPy then sorts stably, and returns the index of the first of equal elements.
        # Convert float16, because NumPy does not sort NaN of this dtype to the end if an axis is given.
        _, index, inverse, counts = np.unique(
            x.astype("float32") if x.dtype == "float16" else x,
            return_index=True,
            return_inverse=True,
            return_counts=True,
            axis=self.axis,
        )
        output_storage[0][0] = np.ascontiguousarray(np.take(x, index, self.axis))
        flags = ((index, self.return_index), (inverse, self.return_inverse), (counts, self.return_counts))
        for cell, value in zip(output_storage[1:], [found for found, wanted in flags if wanted]):
            cell[0] = np.asarray(value, dtype="int64").reshape(-1)

    def infer_shape(self, node, i0_shapes):
        shape = i0_shapes[0]
        axis = None if self.axis is None else self.axis % len(shape)
        # The number of unique elements depends on the values, so read it from the computed output.
        unique = Shape_i(axis or 0)(node.outputs[0])
        if axis is None:
            shapes, slices = [(unique,)], constant(1, dtype="int64")
            for n in shape:
                slices = slices * n
        else:
            shapes, slices = [(*shape[:axis], unique, *shape[axis + 1 :])], shape[axis]
        return shapes + [
            (n,)
            for n, wanted in ((unique, self.return_index), (slices, self.return_inverse), (unique, self.return_counts))
            if wanted
        ]

    def grad(self, inputs, output_grads):
        return _undefined_grads(self, inputs, "not a smooth function")

    def R_op(self, inputs, eval_points):
        return [None] * (1 + bool(self.return_index) + bool(self.return_inverse) + bool(self.return_counts))
