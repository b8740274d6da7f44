"""Functions that change the broadcast pattern of a tensor: which dimensions are known to have length 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from theano_ng.compile.ops import rebroadcast
from theano_ng.gof.graph import Variable
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["addbroadcast", "patternbroadcast", "unbroadcast"]


def _axes_of(who, x, axes):
    for axis in axes:
        if not isinstance(axis, (int, np.integer)):
            raise TypeError("Rebroadcast needs integer axes. Got %s" % (axis,))
        if not -x.ndim <= axis < x.ndim:
            raise ValueError(
                "Trying to rebroadcast non-existent dimension: %s(axis %d) of %d dimensions" % (who, axis, x.ndim)
            )
    return [axis % x.ndim for axis in axes]


def addbroadcast(x: TensorLike, *axes: int) -> TensorVariable:
    """Declare that dimensions are broadcastable.

    Parameters
    ----------
    x : tensor
    *axes : int

    Returns
    -------
    TensorVariable
        `x` itself if the pattern does not change.

    Raises
    ------
    ValueError
        At run time, if one of these dimensions does not have length 1.
    """
    x = as_tensor_variable(x)
    return rebroadcast(x, {axis: True for axis in _axes_of("addbroadcast", x, axes)})


def unbroadcast(x: TensorLike, *axes: int) -> TensorVariable:
    """Declare that dimensions are not broadcastable.

    Parameters
    ----------
    x : tensor
    *axes : int

    Returns
    -------
    TensorVariable
        `x` itself if the pattern does not change.
    """
    x = as_tensor_variable(x)
    return rebroadcast(x, {axis: False for axis in _axes_of("unbroadcast", x, axes)})


def patternbroadcast(x: TensorLike, broadcastable: Sequence[bool]) -> TensorVariable:
    """Give a tensor a broadcast pattern.

    Parameters
    ----------
    x : tensor
    broadcastable : sequence of bool
        The flags of the first dimensions. For example, ``(True, False)`` makes a row. Dimensions without a flag are
        unchanged.

    Returns
    -------
    TensorVariable
        `x` itself if the pattern does not change.

    Raises
    ------
    ValueError
        If there are more flags than dimensions. At run time, if a broadcastable dimension does not have length 1.
    """
    x = as_tensor_variable(x)
    if len(broadcastable) > x.ndim:
        raise ValueError("patternbroadcast: %d flags given for %d dimensions" % (len(broadcastable), x.ndim))
    return rebroadcast(x, {i: bool(flag) for i, flag in enumerate(broadcastable)})


def with_pattern(gradient: Variable, x: Variable) -> Variable:
    """Return a gradient with respect to `x`. If both are tensors, the result has the broadcast pattern of `x`."""
    pattern = getattr(x.type, "broadcastable", None)
    if pattern is None or not isinstance(gradient.type, TensorType) or gradient.type.broadcastable == pattern:
        return gradient
    return patternbroadcast(gradient, pattern)
