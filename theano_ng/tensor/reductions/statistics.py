"""Mean, variance, standard deviation, range and covariance."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import numpy as np

import theano_ng.scalar as scal
from theano_ng.gof.derivative import grad_not_implemented
from theano_ng.gof.graph import Apply
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.tensor.constant import as_tensor_variable, constant
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.functions import abs_, cast, conj_if_complex, maximum, mul, sqr, sqrt, sub, true_div
from theano_ng.tensor.linalg.products import dot
from theano_ng.tensor.reductions.axes import axes_or_none, check_and_normalize_axes, makeKeepDims, reduced_axes
from theano_ng.tensor.reductions.careduce import CAReduce, dtype_name
from theano_ng.tensor.reductions.extremes import max, min
from theano_ng.tensor.reductions.sums import sum
from theano_ng.tensor.shaping.joining import concatenate
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import Axis, DTypeLike, TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["Mean", "mean", "var", "std", "ptp", "cov"]


class Mean(CAReduce):
    """An Op that computes the mean over some axes. It has no gradient.

    Parameters
    ----------
    axis : int, sequence of int or None
    """

    __props__ = ("axis",)

    def __init__(self, axis=None):
        super().__init__(scal.add, axis)

    def __str__(self):
        if self.axis is not None:
            return "Mean{%s}" % ", ".join(str(x) for x in self.axis)
        return "Mean"

    def _output_dtype(self, idtype):
        # NumPy returns float64 for the mean of integers. The result does not depend on floatX.
        return "float64" if idtype in DISCRETE else idtype

    def make_node(self, input):
        input = as_tensor_variable(input)
        dtype = self._output_dtype(input.dtype)
        if self.axis is None:
            flags = []
        else:
            axes = check_and_normalize_axes(input, self.axis)
            flags = [b for i, b in enumerate(input.broadcastable) if i not in axes]
        op = self.__class__(self.axis)
        return Apply(op, [input], [TensorType(dtype, flags)()])

    def native_code(self, node):
        return None

    def reads_blocks(self, node):
        return False

    def c_code(self, node, name, inames, onames, sub):
        raise MethodNotDefined("c_code", type(self), type(self).__name__)

    def perform(self, node, inp, out):
        axis = None if self.axis is None else tuple(self.axis)
        out[0][0] = np.asarray(inp[0].mean(axis=axis), dtype=node.outputs[0].dtype)

    def L_op(self, inp, out, grads):
        return self.grad(inp, grads)  # The inherited L_op would return the gradient of a sum.

    def grad(self, inp, grads):
        return [
            grad_not_implemented(
                self, 0, inp[0], "mean(op=True) has no gradient and is for evaluation only; use mean()"
            )
        ]


def mean(
    input: TensorLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    op: bool = False,
    keepdims: bool = False,
    acc_dtype: DTypeLike | None = None,
) -> TensorVariable:
    """Return the mean over the given axes.

    Parameters
    ----------
    input : tensor_like
    axis : int, sequence of int or None
        None means all axes.
    dtype : str, optional
        The dtype of the sum that is divided. The default is float64 for int64 and uint64, int64 or uint64 for smaller
        integers, and otherwise the dtype of the input. For float16, the sum is float32, and only the result is float16.
        The result is a float even if `dtype` is an integer dtype.
    op : bool
        Whether to use the Op `Mean`, which supports neither `dtype` nor `acc_dtype` and has no gradient.
    keepdims : bool
        Whether to keep the reduced dimensions, with length 1.
    acc_dtype : str, optional
        The dtype of the accumulator of the sum. See :func:`sum`.

    Returns
    -------
    TensorVariable
    """
    input = as_tensor_variable(input)
    if op:
        if dtype not in (None, "float64"):
            raise NotImplementedError(
                "mean(op=True) does not support the parameter dtype, except float64. Use op=False for dtype %r."
                % (dtype,)
            )
        if acc_dtype not in (None, "float64"):
            raise NotImplementedError(
                "mean(op=True) does not support the parameter acc_dtype, except float64. Use op=False for "
                "acc_dtype %r." % (acc_dtype,)
            )
        out = Mean(axes_or_none(input, axis))(input)
        return makeKeepDims(input, out, axis) if keepdims else out

    if dtype is not None:
        # `dtype` is the dtype of the sum. The division below may change the dtype of the result.
        sum_dtype = dtype_name(dtype)
    else:
        # Sum 64-bit integers in float64, because their sum could wrap around as an integer.
        sum_dtype = {"int64": "float64", "uint64": "float64"}.get(input.dtype)
    # Compute a float16 sum in float32, because the sum may exceed the range of float16 although the mean does not.
    narrow = (sum_dtype or input.dtype) == "float16"
    if narrow:
        sum_dtype = "float32"

    s = sum(input, axis=axis, dtype=sum_dtype, keepdims=keepdims, acc_dtype=acc_dtype)
    if s.dtype in ("float16", "float32", "complex64"):
        # With an int64 or float64 count, the quotient would be wider than the sum.
        count_dtype = "float32"
    else:
        count_dtype = "float64"
    shape = cast(input.shape, count_dtype)
    axes = reduced_axes(input, axis)
    for i in axes:
        s = true_div(s, shape[i])
    # If no axis is reduced, the sum is not divided, and may still be an integer. The mean has to be a float, too.
    if s.dtype in DISCRETE:
        s = cast(s, "float64")
    if narrow:
        s = cast(s, "float16")
    s.name = "mean"
    return s


def var(
    input: TensorLike, axis: Axis = None, ddof: int = 0, keepdims: bool = False, corrected: bool = False
) -> TensorVariable:
    """Return the variance over the given axes, computed by the two-pass algorithm.

    Parameters
    ----------
    input : tensor_like
    axis : int, sequence of int or None
        None means all axes.
    ddof : int
        Degrees of freedom: the sum of squares is divided by N - ddof, where N is the number of elements.
    keepdims : bool
        Whether to keep the reduced dimensions, with length 1.
    corrected : bool
        Whether to subtract the squared mean of the deviations, which is not zero because of rounding (the corrected
        two-pass algorithm; Chan, Golub and LeVeque 1983, equation 1.7).

    Returns
    -------
    TensorVariable
    """
    if isinstance(ddof, bool):
        raise ValueError(
            "Parameter keepdims is now at index 3: (input, axis=None, ddof=0, keepdims=False, corrected=False)"
        )
    input = as_tensor_variable(input)
    axes = reduced_axes(input, axis)
    centered = sub(input, mean(input, axes, keepdims=True))
    square = sqr(abs_(centered) if centered.dtype.startswith("complex") else centered)
    if ddof == 0:
        v = mean(square, axes, keepdims=keepdims)
    else:
        count = maximum(_count(input, axes, square.dtype) - ddof, 0)
        v = true_div(sum(square, axis=axes, keepdims=keepdims), cast(count, square.dtype))
    if corrected:
        if ddof == 0:
            error = sqr(mean(centered, axes, keepdims=keepdims))
        else:
            n = _count(input, axes, square.dtype)
            error = true_div(
                sqr(sum(centered, axis=axes, keepdims=keepdims)), cast(n * maximum(n - ddof, 0), square.dtype)
            )
        v = sub(v, error)
    v.name = "var"
    return v


def _count(input, axes, dtype):
    """Return the number of elements that a reduction over `axes` combines."""
    shape = input.shape
    count = constant(1, dtype="int64")
    for i in axes:
        count = mul(count, shape[i])
    return count


def std(
    input: TensorLike, axis: Axis = None, ddof: int = 0, keepdims: bool = False, corrected: bool = False
) -> TensorVariable:
    """Return the standard deviation over the given axes. It is the square root of :func:`var`.

    Parameters
    ----------
    input : tensor_like
    axis : int, sequence of int or None
        None means all axes.
    ddof : int
        Degrees of freedom: the sum of squares is divided by N - ddof, where N is the number of elements.
    keepdims : bool
        Whether to keep the reduced dimensions, with length 1.
    corrected : bool
        See :func:`var`.

    Returns
    -------
    TensorVariable
    """
    if isinstance(ddof, bool):
        raise ValueError(
            "Parameter keepdims is now at index 3: (input, axis=None, ddof=0, keepdims=False, corrected=False)"
        )
    result = sqrt(var(input, axis=axis, ddof=ddof, keepdims=keepdims, corrected=corrected))
    result.name = "std"
    return result


def ptp(a: TensorLike, axis: Axis = None) -> TensorVariable:
    """Return the range of values (maximum minus minimum) along an axis.

    Parameters
    ----------
    a : tensor_like
    axis : int or None
        None means the flattened tensor.
    """
    a = as_tensor_variable(a)
    return sub(max(a, axis), min(a, axis))


def _observation_weights(fweights, aweights):
    """Check both kinds of weights of `cov`, and return their product. Return None if there are no weights."""
    w = None
    if fweights is not None:
        w = as_tensor_variable(fweights)
        if w.ndim != 1 or w.dtype not in DISCRETE:
            raise TypeError("cov: fweights must be an integer vector, got %s" % (w.type,))
    if aweights is not None:
        a = as_tensor_variable(aweights)
        if a.ndim != 1:
            raise TypeError("cov: aweights must be a vector, got %s" % (a.type,))
        w = a if w is None else w * a
    return w


def cov(
    m: TensorLike,
    y: TensorLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: TensorLike | None = None,
    aweights: TensorLike | None = None,
) -> TensorVariable:
    """Return the covariance matrix, as `numpy.cov`.

    Parameters
    ----------
    m : tensor_like, 1-d or 2-d
        Observations of variables.
    y : tensor_like, optional
        Additional variables, in the form of `m`.
    rowvar : bool
        If True, a row is a variable and a column is an observation. If False, a column is a variable and a row is an
        observation.
    bias : bool
        Whether to divide by N instead of N - 1.
    ddof : int, optional
        If given, divide by N - ddof. This overrides `bias`.
    fweights : integer vector, optional
        The number of occurrences of each observation.
    aweights : vector, optional
        The weight of each observation.

    Returns
    -------
    TensorVariable
        A matrix, or a 0-d tensor if there is only one variable.
    """
    if ddof is not None and ddof != int(ddof):
        raise ValueError("cov: ddof must be an integer, got %r" % (ddof,))

    def as_rows(x, what):
        x = as_tensor_variable(x)
        if x.ndim > 2:
            raise ValueError("cov: %s has more than 2 dimensions: %s" % (what, x.type))
        if x.ndim < 2:
            return x.dimshuffle(["x"] * (2 - x.ndim) + list(range(x.ndim)))
        return x if rowvar else x.T

    X = as_rows(m, "m")
    if X.dtype in DISCRETE:
        X = cast(X, "float64")
    if y is not None:
        X = concatenate((X, as_rows(y, "y")), axis=0)
    if ddof is None:
        ddof = 0 if bias else 1

    w = _observation_weights(fweights, aweights)
    if w is None:
        center = mean(X, axis=1, keepdims=True)
        fact: Any = cast(X.shape[1], X.dtype) - ddof
        weighted = X = X - center
    else:
        w_sum = sum(w)
        center = true_div(sum(X * w, axis=1, keepdims=True), w_sum)
        if ddof == 0:
            fact = w_sum
        elif aweights is None:
            fact = w_sum - ddof
        else:
            fact = w_sum - true_div(ddof * sum(w * as_tensor_variable(aweights)), w_sum)
        X = X - center
        weighted = X * w
    c = dot(weighted, conj_if_complex(X.T))
    c = true_div(c, fact)
    # Squeeze as NumPy does: the covariance of a single variable is its variance, a 0-d tensor.
    return c.squeeze() if builtins.any(c.broadcastable) else c
