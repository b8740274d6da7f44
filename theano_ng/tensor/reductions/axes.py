"""The axes of reductions: normalization of the parameter `axis`, and restoring reduced dimensions."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng.gof.graph import Constant, Variable
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.type_other import NoneTypeT

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import Axis, TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["check_and_normalize_axes", "makeKeepDims"]


def _is_none(axis):
    return axis is None or isinstance(axis, Variable) and isinstance(axis.type, NoneTypeT)


def check_and_normalize_axes(x: TensorLike, axis: Any) -> Any:
    """Return the axes of a reduction as a sorted list of non-negative integers.

    Parameters
    ----------
    x : TensorVariable
    axis : None, int, collection of int, ndarray or constant
        For None, the result is an empty list. The caller must interpret this list as all axes.

    Raises
    ------
    TypeError
        If an axis is not an integer constant.
    ValueError
        If an axis is out of range, or if `axis` is text.

    Notes
    -----
    If an axis is given twice, it is reduced once.
    """
    x = as_tensor_variable(x)
    if _is_none(axis):
        return []
    if isinstance(axis, Variable):
        if not isinstance(axis, Constant):
            raise TypeError("The axis of a reduction must be a constant, but it is the variable %s" % (axis,))
        if axis.dtype not in DISCRETE:  # type: ignore[attr-defined]
            raise TypeError("The axis of a reduction must be an integer, got %s" % (axis,))
        axis = axis.data
    # Ranges and sets are allowed, too. Iterators are not allowed, because functions with keepdims read the axes twice.
    several = (
        isinstance(axis, np.ndarray)
        and axis.ndim
        or isinstance(axis, Collection)
        and not isinstance(axis, (str, bytes, np.ndarray))
    )
    axes = list(axis) if several else [axis]
    result = []
    for item in axes:
        if isinstance(item, Constant):
            item = item.data
        if isinstance(item, (float, np.floating)) or (isinstance(item, np.ndarray) and item.dtype.kind == "f"):
            if item != int(item):
                raise TypeError("An axis must be an integer, got %s" % (item,))
        try:
            number = int(item)
        except (TypeError, ValueError) as failure:
            raise type(failure)("An axis must be an integer, got %r" % (item,)) from None
        if not -x.ndim <= number < x.ndim:
            raise ValueError(
                "The axis %d is out of range for a tensor of %d dimension(s): "
                "%s of type %s" % (number, x.ndim, x, x.type)
            )
        result.append(number % x.ndim)
    return sorted(set(result))


def axes_or_none(x: TensorLike, axis: Any) -> Any:
    """Return the axes as :func:`check_and_normalize_axes` does, but return None if `axis` is None.

    Ops interpret None as all axes, and an empty list as no axis, as in NumPy.
    """
    if _is_none(axis):
        return None
    return check_and_normalize_axes(x, axis)


def reduced_axes(x: TensorLike, axis: Any) -> Any:
    """Return the sorted list of the axes of a reduction. None means all axes."""
    axes = axes_or_none(x, axis)
    return list(range(x.ndim)) if axes is None else axes


def makeKeepDims(x: TensorLike, y: TensorVariable, axis: Axis) -> TensorVariable:
    """Insert broadcastable dimensions where a reduction has removed dimensions.

    Parameters
    ----------
    x : TensorVariable
        The input of the reduction.
    y : TensorVariable
        The result of the reduction.
    axis : None, int or sequence of int
        The axes of `x` that were reduced.

    Returns
    -------
    TensorVariable
        `y` with the number of dimensions of `x`.
    """
    x, y = as_tensor_variable(x), as_tensor_variable(y)
    axes = reduced_axes(x, axis)
    kept = iter(range(y.ndim))
    pattern = ["x" if i in axes else next(kept) for i in range(x.ndim)]
    return y.dimshuffle(pattern)
