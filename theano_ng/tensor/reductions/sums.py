"""Sums and products, all and any."""

from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.reductions.axes import axes_or_none, makeKeepDims
from theano_ng.tensor.reductions.careduce import All, Any, Prod, Sum

__all__ = ["sum", "prod", "all", "any"]


def sum(input, axis=None, dtype=None, keepdims=False, acc_dtype=None):
    """Sum over the given axes.

    Parameters
    ----------
    input : tensor_like
    axis : int, sequence of int or None
        None for all axes.
    dtype : str, optional
        Of the result.  By default that of the input, but int64 or uint64 for
        smaller integers.
    keepdims : bool
        Keep the reduced dimensions, with length 1.
    acc_dtype : str, optional
        Of the accumulator.  By default int64, uint64, float64 or complex128,
        or the input's if it is wider.

    Returns
    -------
    TensorVariable
    """
    input = as_tensor_variable(input)
    out = Sum(axis=axes_or_none(input, axis), dtype=dtype, acc_dtype=acc_dtype)(input)
    return makeKeepDims(input, out, axis) if keepdims else out


def prod(input, axis=None, dtype=None, keepdims=False, acc_dtype=None, no_zeros_in_input=False):
    """Product over the given axes.

    Parameters
    ----------
    input : tensor_like
    axis : int, sequence of int or None
        None for all axes.
    dtype : str, optional
        Of the result; as for :func:`sum` by default.
    keepdims : bool
        Keep the reduced dimensions, with length 1.
    acc_dtype : str, optional
        Of the accumulator; as for :func:`sum` by default.
    no_zeros_in_input : bool
        Promise that there is no zero: the gradient is faster and can be
        differentiated again, but it is wrong if there is one.

    Returns
    -------
    TensorVariable
    """
    input = as_tensor_variable(input)
    out = Prod(axis=axes_or_none(input, axis), dtype=dtype, acc_dtype=acc_dtype, no_zeros_in_input=no_zeros_in_input)(
        input
    )
    return makeKeepDims(input, out, axis) if keepdims else out


def all(x, axis=None, keepdims=False):
    """Whether all elements over the given axes are nonzero (bool).

    Parameters
    ----------
    x : tensor_like
    axis : int, sequence of int or None
        None for all axes.
    keepdims : bool
        Keep the reduced dimensions, with length 1.
    """
    x = as_tensor_variable(x)
    out = All(axes_or_none(x, axis))(x)
    return makeKeepDims(x, out, axis) if keepdims else out


def any(x, axis=None, keepdims=False):
    """Whether some element over the given axes is nonzero (bool).

    Parameters
    ----------
    x : tensor_like
    axis : int, sequence of int or None
        None for all axes.
    keepdims : bool
        Keep the reduced dimensions, with length 1.
    """
    x = as_tensor_variable(x)
    out = Any(axes_or_none(x, axis))(x)
    return makeKeepDims(x, out, axis) if keepdims else out
