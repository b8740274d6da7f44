"""The functions `sum`, `prod`, `all` and `any`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.reductions.axes import axes_or_none, makeKeepDims
from theano_ng.tensor.reductions.careduce import All, Any, Prod, Sum

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import Axis, DTypeLike, TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["sum", "prod", "all", "any"]


def sum(
    input: TensorLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    acc_dtype: DTypeLike | None = None,
) -> TensorVariable:
    """Return the sum over the given axes.

    Parameters
    ----------
    input : tensor_like
    axis : int, sequence of int or None
        None means all axes.
    dtype : str, optional
        The dtype of the result. The default is the dtype of the input, but int64 or uint64 for smaller integers.
    keepdims : bool
        Whether to keep the reduced dimensions, with length 1.
    acc_dtype : str, optional
        The dtype of the accumulator. The default is int64, uint64, float64 or complex128, or the dtype of the input if
        it is wider.

    Returns
    -------
    TensorVariable
    """
    input = as_tensor_variable(input)
    out = Sum(axis=axes_or_none(input, axis), dtype=dtype, acc_dtype=acc_dtype)(input)
    return makeKeepDims(input, out, axis) if keepdims else out


def prod(
    input: TensorLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    acc_dtype: DTypeLike | None = None,
    no_zeros_in_input: bool = False,
) -> TensorVariable:
    """Return the product over the given axes.

    Parameters
    ----------
    input : tensor_like
    axis : int, sequence of int or None
        None means all axes.
    dtype : str, optional
        The dtype of the result. The default is the same as for :func:`sum`.
    keepdims : bool
        Whether to keep the reduced dimensions, with length 1.
    acc_dtype : str, optional
        The dtype of the accumulator. The default is the same as for :func:`sum`.
    no_zeros_in_input : bool
        If True, the caller guarantees that no element is zero. Then the gradient is faster and can be differentiated
        again, but it is wrong if an element is zero.

    Returns
    -------
    TensorVariable
    """
    input = as_tensor_variable(input)
    out = Prod(axis=axes_or_none(input, axis), dtype=dtype, acc_dtype=acc_dtype, no_zeros_in_input=no_zeros_in_input)(
        input
    )
    return makeKeepDims(input, out, axis) if keepdims else out


def all(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> TensorVariable:
    """Return a tensor of bool that is True where all elements over the given axes are nonzero.

    Parameters
    ----------
    x : tensor_like
    axis : int, sequence of int or None
        None means all axes.
    keepdims : bool
        Whether to keep the reduced dimensions, with length 1.
    """
    x = as_tensor_variable(x)
    out = All(axes_or_none(x, axis))(x)
    return makeKeepDims(x, out, axis) if keepdims else out


def any(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> TensorVariable:
    """Return a tensor of bool that is True where at least one element over the given axes is nonzero.

    Parameters
    ----------
    x : tensor_like
    axis : int, sequence of int or None
        None means all axes.
    keepdims : bool
        Whether to keep the reduced dimensions, with length 1.
    """
    x = as_tensor_variable(x)
    out = Any(axes_or_none(x, axis))(x)
    return makeKeepDims(x, out, axis) if keepdims else out
