"""Products of batches of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from theano_ng.tensor.blas.ops import BatchedDot
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.linalg.products import _dot, _tensordot_as_dot, tensordot
from theano_ng.tensor.shaping.allocation import alloc
from theano_ng.tensor.shaping.broadcasting import patternbroadcast

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["batched_dot", "batched_tensordot", "matmul"]


def matmul(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return the matrix product, as `numpy.matmul` and the operator ``@``. Batches of matrices are broadcast.

    Parameters
    ----------
    a, b : tensor_like of 1 or more dimensions
        The last two axes are the axes of the matrices. The leading (batch) axes are broadcast: missing batch axes are
        added on the left, and other axes must be broadcastable or have the same length in both operands.

    Returns
    -------
    TensorVariable
    """
    a, b = as_tensor_variable(a), as_tensor_variable(b)
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError("matmul: scalars are not allowed, use *")
    if a.ndim <= 2 and b.ndim <= 2:
        return _dot(a, b)
    if b.ndim <= 2:
        return tensordot(a, b, [[a.ndim - 1], [max(0, b.ndim - 2)]])
    if a.ndim == 1:
        return tensordot(a, b, [[0], [b.ndim - 2]])
    if a.ndim == 2:
        # `tensordot` puts the rows of `a` first. Move the batch axes of `b` to the front.
        product = tensordot(a, b, [[1], [b.ndim - 2]])
        return product.dimshuffle(list(range(1, product.ndim - 1)) + [0, product.ndim - 1])
    if a.ndim != b.ndim:
        ndim = max(a.ndim, b.ndim)
        a, b = (x.dimshuffle(["x"] * (ndim - x.ndim) + list(range(x.ndim))) for x in (a, b))
    stack = a.ndim - 2
    lengths = [b.shape[i] if a.broadcastable[i] else a.shape[i] for i in range(stack)]
    pattern = [a.broadcastable[i] and b.broadcastable[i] for i in range(stack)]

    def flat(x: TensorLike) -> TensorVariable:
        if any(x.broadcastable[i] and not pattern[i] for i in range(stack)):
            x = alloc(x, *lengths + [x.shape[-2], x.shape[-1]])
        return x.reshape((-1, x.shape[-2], x.shape[-1]), ndim=3)

    product = batched_dot(flat(a), flat(b))
    product = product.reshape(lengths + [a.shape[-2], b.shape[-1]], ndim=stack + 2)
    return patternbroadcast(product, pattern + [a.broadcastable[-2], b.broadcastable[-1]])


def batched_dot(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return the matrix products of corresponding slices of two batches.

    Parameters
    ----------
    a, b : tensor_like of 1 or more dimensions
        The first axis is the batch axis. The slices along this axis are multiplied as by :func:`dot`.

    Returns
    -------
    TensorVariable
        The products. The product of shapes (n, i, j) and (n, j, k) has the shape (n, i, k).
    """
    a, b = as_tensor_variable(a), as_tensor_variable(b)
    if a.ndim == 0:
        raise TypeError("a must have at least one (batch) axis")
    if b.ndim == 0:
        raise TypeError("b must have at least one (batch) axis")
    if a.ndim == 1:
        return a.dimshuffle(*[0] + ["x"] * (b.ndim - 1)) * b
    if b.ndim == 1:
        return a * b.dimshuffle(*[0] + ["x"] * (a.ndim - 1))
    if a.ndim > 3 or b.ndim > 3:
        return batched_tensordot(a, b, [[a.ndim - 1], [max(1, b.ndim - 2)]])
    return BatchedDot()(a, b)


def batched_tensordot(x: TensorLike, y: TensorLike, axes: int | Sequence[Sequence[int]] = 2) -> TensorVariable:
    """Return the :func:`tensordot` of corresponding slices of two batches.

    Parameters
    ----------
    x, y : tensor_like
        The first axis is the batch axis.
    axes : int or pair of lists of int
        See :func:`tensordot`. Axes are counted with the batch axis, which is axis 0. An integer n pairs the last n
        axes of `x` with the axes 1 to n of `y`.

    Returns
    -------
    TensorVariable
        A tensor with the batch axis, the remaining axes of `x`, and the remaining axes of `y`.
    """
    return _tensordot_as_dot(x, y, axes, dot=batched_dot, batched=True)
