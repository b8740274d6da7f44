"""The axes of reductions: what users may give, and putting them back."""

from collections.abc import Collection

import numpy as np

from theano_ng.gof.graph import Constant, Variable
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.type_other import NoneTypeT

__all__ = ["check_and_normalize_axes", "makeKeepDims"]


def _is_none(axis):
    return axis is None or isinstance(axis, Variable) and isinstance(axis.type, NoneTypeT)


def check_and_normalize_axes(x, axis):
    """The axes of a reduction as a sorted list of non-negative integers.

    Parameters
    ----------
    x : TensorVariable
    axis : None, int, collection of int, ndarray or constant
        None gives an empty list, which stands for all axes.

    Raises
    ------
    TypeError
        If an axis is not an integer constant.
    ValueError
        If an axis is out of range, or text.

    Notes
    -----
    An axis that is given twice counts once.
    """
    x = as_tensor_variable(x)
    if _is_none(axis):
        return []
    if isinstance(axis, Variable):
        if not isinstance(axis, Constant):
            raise TypeError("The axis of a reduction must be a constant, but it is the variable %s" % (axis,))
        if axis.dtype not in DISCRETE:
            raise TypeError("The axis of a reduction must be an integer, got %s" % (axis,))
        axis = axis.data
    # Ranges and sets too. Iterators are not: whoever keeps dimensions asks twice.
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


def axes_or_none(x, axis):
    """As :func:`check_and_normalize_axes`, but None where it is None, which Ops take for all axes. An empty list is no axis, as in NumPy."""
    if _is_none(axis):
        return None
    return check_and_normalize_axes(x, axis)


def reduced_axes(x, axis):
    """The sorted list of the axes of a reduction: all of them for None."""
    axes = axes_or_none(x, axis)
    return list(range(x.ndim)) if axes is None else axes


def makeKeepDims(x, y, axis):
    """Put the axes that a reduction removed back, broadcastable.

    Parameters
    ----------
    x : TensorVariable
        What was reduced.
    y : TensorVariable
        The result.
    axis : None, int or sequence of int
        The axes of `x` that `y` lacks.

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
