"""Products of vectors, matrices and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import theano_ng.scalar as scal
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import BLAS_DTYPES
from theano_ng.tensor.elemwise.functions import conj_if_complex, mul
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["Dot", "_dot", "dot", "outer", "tensordot", "_tensordot_as_dot"]


class Dot(NativeOp, Op):
    """An Op that multiplies two inputs that are vectors or matrices.

    The last axis of the first input must have the same length as the first axis of the second input.
    """

    __props__ = ()

    def fails_on_values(self, node):
        return False

    def make_node(self, *inputs):
        if len(inputs) != 2:
            raise TypeError("Dot takes 2 inputs, got %d" % len(inputs))
        x, y = (as_tensor_variable(z) for z in inputs)
        for name, z in (("first", x), ("second", y)):
            if z.ndim not in (1, 2):
                raise TypeError(
                    "Dot: the %s input must have 1 or 2 dimensions, but has "
                    "type %s; consider theano.tensor.dot or tensordot." % (name, z.type)
                )
        pattern = x.broadcastable[:-1] + y.broadcastable[1:]
        dtype = scal.upcast(x.dtype, y.dtype)
        return Apply(self, [x, y], [TensorType(dtype, pattern)()])

    def native_code(self, node):
        if any(x.dtype == "float16" for x in node.inputs):
            return None
        dtypes = {x.dtype for x in node.inputs}
        if len(dtypes) == 1 and dtypes.issubset(BLAS_DTYPES):
            return NativeCode("theano_ng.tensor.native.blas:dot")
        return NativeCode(
            "theano_ng.tensor.native.numpy_functions:dot", type_number=np.dtype(node.outputs[0].dtype).num
        )

    def perform(self, node, inp, out):
        x, y = inp
        dtype = node.outputs[0].dtype
        if x.dtype != y.dtype:
            x, y = x.astype(dtype, copy=False), y.astype(dtype, copy=False)
        # np.dot of two vectors returns a NumPy scalar.
        out[0][0] = np.asarray(np.dot(x, y), dtype=dtype)

    def grad(self, inp, grads):
        x, y = [conj_if_complex(v) for v in inp]
        (gz,) = grads
        if gz.ndim == 0:  # vector . vector
            xgrad, ygrad = gz * y, gz * x
        elif x.ndim == 1:  # vector . matrix
            xgrad, ygrad = dot(gz, y.T), outer(x.T, gz)
        elif y.ndim == 1:  # matrix . vector
            xgrad, ygrad = outer(gz, y.T), dot(x.T, gz)
        else:  # matrix . matrix
            xgrad, ygrad = dot(gz, y.T), dot(x.T, gz)
        # A gradient must have the broadcast pattern of its input. The pattern of gz may have fewer broadcastable
        # dimensions than the pattern of x.
        if xgrad.broadcastable != x.broadcastable:
            xgrad = patternbroadcast(xgrad, x.broadcastable)
        if ygrad.broadcastable != y.broadcastable:
            ygrad = patternbroadcast(ygrad, y.broadcastable)
        return xgrad, ygrad

    def R_op(self, inputs, eval_points):
        x, y = inputs
        dx, dy = eval_points
        if dx is None and dy is None:
            return [None]
        if dx is None:
            return [self(x, dy)]
        if dy is None:
            return [self(dx, y)]
        return [self(dx, y) + self(x, dy)]

    def infer_shape(self, node, shapes):
        xshp, yshp = shapes
        return [tuple(xshp[:-1]) + tuple(yshp[1:])]

    def __str__(self):
        return "dot"


_dot = Dot()


def dot(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return the product of two tensors.

    Parameters
    ----------
    a, b : tensor_like
        For two vectors, the result is the inner product (without conjugation). For two matrices, the result is the
        matrix product. If an operand is 0-d, the result is the elementwise product. In other cases, the products are
        summed over the last axis of `a` and the second to last axis of `b` (or the only axis of `b`).

    Returns
    -------
    TensorVariable

    See Also
    --------
    tensordot : sums over any axes
    """
    a, b = as_tensor_variable(a), as_tensor_variable(b)
    if a.ndim == 0 or b.ndim == 0:
        return mul(a, b)
    if a.ndim > 2 or b.ndim > 2:
        return tensordot(a, b, [[a.ndim - 1], [max(0, b.ndim - 2)]])
    return _dot(a, b)


def outer(x: TensorLike, y: TensorLike) -> TensorVariable:
    """Return the outer product of two vectors. Other tensors are flattened first.

    Parameters
    ----------
    x, y : tensor_like

    Returns
    -------
    TensorVariable
        A matrix with the elements ``x[i] * y[j]``.
    """
    x, y = as_tensor_variable(x), as_tensor_variable(y)
    if x.ndim != 1:
        x = x.flatten()
    if y.ndim != 1:
        y = y.flatten()
    return dot(x.dimshuffle(0, "x"), y.dimshuffle("x", 0))


# ---------------------------------------------------------------------------


def _axes_pair(a, b, axes, first, name):
    """Return the axes of `a` and the axes of `b` over which the products are summed, as two lists of non-negative ints.

    `first` is the number of batch axes.
    """
    if isinstance(axes, np.ndarray) and axes.ndim == 0:
        axes = axes.item()
    if np.isscalar(axes):
        if int(axes) != axes or axes < 0:
            raise ValueError("%s: the number of axes must be a non-negative integer, got %r" % (name, axes))
        axes = int(axes)
        for operand, x in (("first", a), ("second", b)):
            if axes > x.ndim - first:
                raise ValueError(
                    "%s: %d axes to sum over, but the %s operand has only %d%s"
                    % (name, axes, operand, x.ndim - first, " without the batch axis" if first else "")
                )
        return (list(range(a.ndim - axes, a.ndim)), list(range(first, first + axes)))
    axes = list(axes)
    if len(axes) != 2:
        raise ValueError("%s: axes must be an integer or a pair of lists of axes, got %r" % (name, axes))
    pair = []
    for operand, x, some in (("first", a, axes[0]), ("second", b, axes[1])):
        some = [some] if np.isscalar(some) else list(some)
        if any(not -x.ndim <= i < x.ndim for i in some):
            raise ValueError(
                "%s: axes %s are out of range for the %s operand, "
                "which has %d dimension(s)" % (name, some, operand, x.ndim)
            )
        some = [int(i) % x.ndim for i in some]
        if len(set(some)) != len(some):
            raise ValueError("%s: an axis of the %s operand is repeated: %s" % (name, operand, some))
        if first and 0 in some:
            raise ValueError("%s: axis 0 is the batch axis, it cannot be summed over" % name)
        pair.append(some)
    if len(pair[0]) != len(pair[1]):
        raise ValueError(
            "%s: %d axes of the first operand cannot be paired "
            "with %d of the second" % (name, len(pair[0]), len(pair[1]))
        )
    return pair


def _product(lengths):
    result = 1
    for length in lengths:
        result = length if isinstance(result, int) and result == 1 else result * length
    return result


def _tensordot_as_dot(a, b, axes, dot, batched):
    """Return the tensordot of `a` and `b`: reshape the transposed operands to matrices, and call `dot` once.

    Parameters
    ----------
    a, b : tensor_like
    axes : int or pair of lists of int
    dot : callable
        A function that multiplies two matrices, or two batches of matrices if `batched` is True.
    batched : bool
        Whether axis 0 of both operands is a batch axis.
    """
    a, b = as_tensor_variable(a), as_tensor_variable(b)
    first = 1 if batched else 0
    name = "batched_tensordot" if batched else "tensordot"
    if batched and (a.ndim == 0 or b.ndim == 0):
        raise ValueError("%s: both operands need a batch axis" % name)
    a_sum, b_sum = _axes_pair(a, b, axes, first, name)
    a_kept = [i for i in range(first, a.ndim) if i not in a_sum]
    b_kept = [i for i in range(first, b.ndim) if i not in b_sum]
    batch = list(range(first))

    a_lengths = [a.shape[i] for i in a_kept]
    b_lengths = [b.shape[i] for i in b_kept]
    # Multiply the lengths of the summed axes separately for each operand, so that `dot` detects a mismatch.
    a_matrix = a.dimshuffle(batch + a_kept + a_sum).reshape(
        [a.shape[i] for i in batch] + [_product(a_lengths), _product([a.shape[i] for i in a_sum])], ndim=2 + first
    )
    b_matrix = b.dimshuffle(batch + b_sum + b_kept).reshape(
        [b.shape[i] for i in batch] + [_product([b.shape[i] for i in b_sum]), _product(b_lengths)], ndim=2 + first
    )
    pattern = (
        [a.broadcastable[i] and b.broadcastable[i] for i in batch]
        + [a.broadcastable[i] for i in a_kept]
        + [b.broadcastable[i] for i in b_kept]
    )
    product = dot(a_matrix, b_matrix)
    product = product.reshape([a.shape[i] for i in batch] + a_lengths + b_lengths, ndim=len(pattern))
    if product.broadcastable != tuple(pattern):
        product = patternbroadcast(product, pattern)
    return product


def tensordot(a: TensorLike, b: TensorLike, axes: int | Sequence[Any] = 2) -> TensorVariable:
    """Return the sum of products over any axes of two tensors.

    Parameters
    ----------
    a, b : tensor_like
    axes : int or pair of lists of int
        An integer n pairs the last n axes of `a` with the first n axes of `b`. A pair of lists contains the axes of `a`
        and the axes of `b`, in the order in which they are paired.

    Returns
    -------
    TensorVariable
        A tensor with the remaining dimensions of `a`, followed by the remaining dimensions of `b`.

    Raises
    ------
    ValueError
        If `axes` does not fit the operands.

    Examples
    --------
    >>> import theano_ng.tensor as T
    >>> a, b = T.tensor3('a'), T.tensor4('b')
    >>> tensordot(a, b, [[1, 2], [3, 2]]).ndim
    3
    """
    return _tensordot_as_dot(a, b, axes, dot=dot, batched=False)
