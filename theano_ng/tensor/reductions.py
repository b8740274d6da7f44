"""Reductions: sum, prod, mean, var, max, argmax, all, any and their Ops."""
import builtins

import numpy as np

import theano_ng.scalar as scal
from theano_ng.configdefaults import config
from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gof.params_type import ParamsType
from theano_ng.gof.type import generic
from theano_ng.tensor import elemwise
from theano_ng.tensor.constant import (
    as_tensor_variable, constant)
from theano_ng.tensor.elemwise import CAReduce
from theano_ng.tensor.elemwise_ops import (
    abs_, cast, eq, invert, mul, neg, sqr, sqrt, sub, true_div)
from theano_ng.tensor.type import TensorType
from theano_ng.tensor.type_other import NoneTypeT

__all__ = [
    'check_and_normalize_axes', 'makeKeepDims', 'MaxAndArgmax', 'Argmax',
    'max_and_argmax', 'max', 'min', 'argmax', 'argmin', 'sum', 'prod', 'Mean',
    'mean', 'var', 'std', 'all', 'any', 'ptp', 'cov',
]

_DISCRETE = frozenset(str(t.dtype) for t in scal.discrete_types)


# ---------------------------------------------------------------------------
# axes

def check_and_normalize_axes(x, axis):
    """The axes of a reduction as a sorted list of non-negative integers.

    Parameters
    ----------
    x : TensorVariable
    axis : None, int, sequence of int, ndarray or constant
        None gives an empty list, which stands for all axes.

    Raises
    ------
    TypeError
        If an axis is not an integer constant.
    ValueError
        If an axis is out of range or repeated.
    """
    x = as_tensor_variable(x)
    if axis is None:
        return []
    if isinstance(axis, Variable):
        if isinstance(axis.type, NoneTypeT):
            return []
        if not isinstance(axis, Constant):
            raise TypeError("The axis of a reduction must be a constant, but "
                            "it is the variable %s" % (axis,))
        if axis.dtype not in _DISCRETE:
            raise TypeError("The axis of a reduction must be an integer, got "
                            "%s" % (axis,))
        axis = axis.data
    if isinstance(axis, (tuple, list, np.ndarray)) and np.ndim(axis):
        axes = list(axis)
    else:
        axes = [axis]
    result = []
    for item in axes:
        if isinstance(item, Constant):
            item = item.data
        if isinstance(item, (float, np.floating)) or (
                isinstance(item, np.ndarray) and item.dtype.kind == 'f'):
            if item != int(item):
                raise TypeError("An axis must be an integer, got %s" % (item,))
        try:
            number = int(item)
        except (TypeError, ValueError):
            raise TypeError("An axis must be an integer, got %r"
                            % (item,)) from None
        if not -x.ndim <= number < x.ndim:
            raise ValueError(
                "The axis %d is out of range for a tensor of %d dimension(s): "
                "%s of type %s" % (number, x.ndim, x, x.type))
        result.append(number % x.ndim)
    if len(set(result)) != len(result):
        raise ValueError("An axis is repeated in %s" % (axes,))
    return sorted(result)


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
    axes = check_and_normalize_axes(x, axis) or range(x.ndim)
    kept = iter(range(y.ndim))
    pattern = ['x' if i in axes else next(kept) for i in range(x.ndim)]
    return y.dimshuffle(pattern)


# ---------------------------------------------------------------------------
# max and argmax

class _ArgmaxBase(NativeOp, Op):
    """What MaxAndArgmax and Argmax share: which axes, and how to walk them."""

    def _prepare(self, x):
        """Input variable, axes, pattern of the result."""
        x = as_tensor_variable(x)
        axes = self.axis
        if axes is None:
            axes = tuple(range(x.ndim))
        elif any_(not 0 <= a < x.ndim for a in axes):
            raise ValueError("%s: axes %s are out of range for %s"
                             % (type(self).__name__, axes, x.type))
        pattern = [b for i, b in enumerate(x.broadcastable) if i not in axes]
        return x, tuple(axes), pattern

    @staticmethod
    def _rows(x, axes):
        """`x` with the reduced axes last, merged into one."""
        kept = [i for i in range(x.ndim) if i not in axes]
        moved = x.transpose(kept + list(axes))
        shape = moved.shape[:len(kept)]
        length = int(np.prod(moved.shape[len(kept):], dtype='int64'))
        if length == 0 and (not shape or np.prod(shape)):
            raise ValueError("Max and argmax of an empty dimension have no "
                             "value: the input has shape %s, reduced over %s"
                             % (x.shape, axes))
        # Rows of length 0 are no rows at all here; NumPy's argmax refuses them.
        return moved.reshape(shape + (length or 1,))

    def _native(self, node, function):
        x = node.inputs[0]
        if x.dtype == 'float16' or x.dtype.startswith('complex'):
            return None
        axes = self._prepare(x)[1]
        mask = 0
        for axis in axes:
            mask |= 1 << axis
        return NativeCode('theano_ng.tensor.native.reduce:' + function,
                          params=(mask,))

    def _reduced_shape(self, node, shape):
        axes = self._prepare(node.inputs[0])[1]
        return tuple(n for i, n in enumerate(shape) if i not in axes)


any_ = builtins.any


class MaxAndArgmax(_ArgmaxBase):
    """Maximum and its index over some axes; NaN is the maximum where it occurs.

    Parameters
    ----------
    axis : sequence of int or None
        Axes in increasing order; None for all.

    Notes
    -----
    The index counts in C order over the reduced axes, int64.
    """
    nin = 2
    nout = 2
    __props__ = ('axis',)
    params_type = generic
    _f16_ok = True

    def __init__(self, axis):
        self.axis = None if axis is None else tuple(int(a) for a in axis)

    def make_node(self, x):
        x, _, pattern = self._prepare(x)
        return Apply(self, [x], [TensorType(x.dtype, pattern)(name='max'),
                                 TensorType('int64', pattern)(name='argmax')])

    def native_code(self, node):
        return self._native(node, 'max_and_argmax')

    def get_params(self, node):
        """The axes."""
        return self._prepare(node.inputs[0])[1]

    def perform(self, node, inp, outs, params=None):
        rows = self._rows(inp[0], self._prepare(node.inputs[0])[1])
        index = np.asarray(rows.argmax(axis=-1), dtype='int64')
        outs[0][0] = np.asarray(
            np.take_along_axis(rows, index[..., None], -1)[..., 0],
            dtype=node.outputs[0].dtype)
        outs[1][0] = index

    def infer_shape(self, node, shapes):
        shape = self._reduced_shape(node, shapes[0])
        return [shape, shape]

    def connection_pattern(self, node):
        return [[True, False]]

    def grad(self, inp, grads):
        # d max / d x is gz where x is the maximum. As for `max`, elements
        # that tie each receive it.
        from theano_ng.gradient import DisconnectedType
        x, = inp
        g_max, _ = grads
        if isinstance(g_max.type, DisconnectedType):
            return [DisconnectedType()()]
        if x.dtype in _DISCRETE:
            return [x.zeros_like(dtype=config.floatX)]
        axes = self._prepare(x)[1]
        largest = makeKeepDims(x, max(x, list(axes)), axes) if axes else x
        g = makeKeepDims(x, g_max, axes) if axes else g_max
        return [mul(eq(largest, x), g)]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None, None]
        x, v = inputs[0], eval_points[0]
        axes = self._prepare(x)[1]
        kept = [i for i in range(x.ndim) if i not in axes]
        length = count = 1
        for axis in range(x.ndim):
            if axis in axes:
                length = length * x.shape[axis]
            else:
                count = count * x.shape[axis]
        # One row per element of the result; pick the direction's element at
        # the place of the maximum.
        rows = v.dimshuffle(kept + list(axes)).reshape((count, length), ndim=2)
        index = self(x)[1]
        from theano_ng.tensor.creation import arange
        picked = rows[arange(rows.shape[0]), index.flatten()]
        shape = tuple(x.shape[i] for i in kept)
        pattern = [x.broadcastable[i] for i in kept]
        if not kept:
            return [picked[0], None]
        from theano_ng.tensor.shaping import patternbroadcast
        return [patternbroadcast(picked.reshape(shape, ndim=len(kept)),
                                 pattern), None]


class Argmax(_ArgmaxBase):
    """Index of the maximum over some axes; see :class:`MaxAndArgmax`."""
    nin = 2
    nout = 1
    __props__ = ('axis',)
    params_type = ParamsType(c_axis=scal.int64)
    _f16_ok = True

    def __init__(self, axis):
        self.axis = None if axis is None else tuple(int(a) for a in axis)

    def make_node(self, x, axis=None):
        x, _, pattern = self._prepare(x)
        return Apply(self, [x], [TensorType('int64', pattern)(name='argmax')])

    def native_code(self, node):
        return self._native(node, 'argmax')

    def get_params(self, node):
        """`c_axis`: the axis, or -1 when there are several or all."""
        one = self.axis is not None and len(self.axis) == 1
        return self.params_type.get_params(c_axis=self.axis[0] if one else -1)

    def perform(self, node, inp, outs, params=None):
        rows = self._rows(inp[0], self._prepare(node.inputs[0])[1])
        outs[0][0] = np.asarray(rows.argmax(axis=-1), dtype='int64')

    def infer_shape(self, node, shapes):
        return [self._reduced_shape(node, shapes[0])]

    def grad(self, inp, grads):
        return [inp[0].zeros_like(dtype=config.floatX)
                if inp[0].dtype in _DISCRETE else inp[0].zeros_like()]

    def R_op(self, inputs, eval_points):
        return [None]


def max_and_argmax(a, axis=None, keepdims=False):
    """Maximum over the given axes, and its index.

    Parameters
    ----------
    a : tensor_like
    axis : int, sequence of int or None
        None for all axes.
    keepdims : bool
        Keep the reduced dimensions, with length 1.

    Returns
    -------
    list of two TensorVariable
        Maximum (dtype of `a`) and index (int64, in C order over the axes).
    """
    a = as_tensor_variable(a)
    axes = check_and_normalize_axes(a, axis)
    out, index = MaxAndArgmax(axes or list(range(a.ndim)))(a)
    if keepdims:
        out, index = (makeKeepDims(a, r, axes) for r in (out, index))
    return [out, index]


def max(x, axis=None, keepdims=False):
    """Maximum over the given axes.

    Parameters
    ----------
    x : tensor_like
    axis : int, sequence of int or None
        None for all axes.
    keepdims : bool
        Keep the reduced dimensions, with length 1.

    Returns
    -------
    TensorVariable
        NaN where an element is NaN.
    """
    # MaxAndArgmax has the gradient and R_op; a rewrite puts a plain reduction
    # in its place where the index is not used.
    out = max_and_argmax(x, axis)[0]
    return makeKeepDims(x, out, axis) if keepdims else out


def argmax(x, axis=None, keepdims=False):
    """Index of the maximum over the given axes.

    Parameters and result as :func:`max`, but int64: the index counts in C
    order over the reduced axes.
    """
    x = as_tensor_variable(x)
    out = max_and_argmax(x, axis)[1]
    return makeKeepDims(x, out, axis) if keepdims else out


def _reversed_order(x):
    """A tensor whose order is the reverse of that of `x`."""
    if x.dtype in _DISCRETE:
        # -x overflows for the least integer and for unsigned ones; ~x = -x-1
        # never does, and is the negation of a bool.
        return invert(x)
    return neg(x)


def min(x, axis=None, keepdims=False):
    """Minimum over the given axes; see :func:`max`."""
    x = as_tensor_variable(x)
    return _reversed_order(max(_reversed_order(x), axis=axis,
                               keepdims=keepdims))


def argmin(x, axis=None, keepdims=False):
    """Index of the minimum over the given axes; see :func:`argmax`."""
    x = as_tensor_variable(x)
    return argmax(_reversed_order(x), axis=axis, keepdims=keepdims)


# ---------------------------------------------------------------------------
# sums and products

def _axes_or_none(input, axis):
    return None if axis is None else check_and_normalize_axes(input, axis)


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
    out = elemwise.Sum(axis=_axes_or_none(input, axis), dtype=dtype,
                       acc_dtype=acc_dtype)(input)
    return makeKeepDims(input, out, axis) if keepdims else out


def prod(input, axis=None, dtype=None, keepdims=False, acc_dtype=None,
         no_zeros_in_input=False):
    """Product over the given axes; see :func:`sum`.

    Parameters
    ----------
    no_zeros_in_input : bool
        Promise that there is no zero: the gradient is faster and can be
        differentiated again, but it is wrong if there is one.
    """
    input = as_tensor_variable(input)
    out = elemwise.Prod(axis=_axes_or_none(input, axis), dtype=dtype,
                        acc_dtype=acc_dtype,
                        no_zeros_in_input=no_zeros_in_input)(input)
    return makeKeepDims(input, out, axis) if keepdims else out


class Mean(CAReduce):
    """Mean over some axes in one Op; it has no gradient.

    Parameters
    ----------
    axis : int, sequence of int or None
    """
    __props__ = ('axis',)

    def __init__(self, axis=None):
        super().__init__(scal.add, axis)

    def __str__(self):
        if self.axis is not None:
            return "Mean{%s}" % ', '.join(str(x) for x in self.axis)
        return "Mean"

    def _output_dtype(self, idtype):
        # NumPy returns float64 for integers, whatever floatX is.
        return 'float64' if idtype in _DISCRETE else idtype

    def make_node(self, input):
        input = as_tensor_variable(input)
        dtype = self._output_dtype(input.dtype)
        if self.axis is None:
            flags = []
        else:
            axes = check_and_normalize_axes(input, self.axis)
            flags = [b for i, b in enumerate(input.broadcastable)
                     if i not in axes]
        op = self.__class__(self.axis)
        return Apply(op, [input], [TensorType(dtype, flags)()])

    def native_code(self, node):
        return None

    def c_code(self, node, name, inames, onames, sub):
        from theano_ng.gof.utils import MethodNotDefined
        raise MethodNotDefined('c_code', type(self), type(self).__name__)

    def perform(self, node, inp, out):
        axis = None if self.axis is None else tuple(self.axis)
        out[0][0] = np.asarray(inp[0].mean(axis=axis),
                               dtype=node.outputs[0].dtype)

    def L_op(self, inp, out, grads):
        return self.grad(inp, grads)    # not that of sums

    def grad(self, inp, grads):
        from theano_ng.gradient import grad_not_implemented
        return [grad_not_implemented(self, 0, inp[0], "mean(op=True) is for "
                                     "evaluation only; use mean()")]


def mean(input, axis=None, dtype=None, op=False, keepdims=False,
         acc_dtype=None):
    """Mean over the given axes.

    Parameters
    ----------
    input : tensor_like
    axis : int, sequence of int or None
        None for all axes.
    dtype : str, optional
        Of the inner sum, before the division.  By default float64 (integers),
        or the dtype of the input.  The result is a float even if an integer is
        asked for.
    op : bool
        Use the :class:`Mean` Op, which has neither dtype nor gradient.
    keepdims : bool
        Keep the reduced dimensions, with length 1.
    acc_dtype : str, optional
        Of the accumulator of the sum; see :func:`sum`.

    Returns
    -------
    TensorVariable
    """
    input = as_tensor_variable(input)
    if op:
        if dtype not in (None, 'float64'):
            raise NotImplementedError(
                "The Mean op does not support the dtype argument, it always "
                "uses float64. Leave op=False to give dtype %r." % (dtype,))
        if acc_dtype not in (None, 'float64'):
            raise NotImplementedError(
                "The Mean op does not support the acc_dtype argument, it "
                "always uses float64. Leave op=False to give acc_dtype %r."
                % (acc_dtype,))
        out = Mean(_axes_or_none(input, axis))(input)
        return makeKeepDims(input, out, axis) if keepdims else out

    if dtype is not None:
        # What is asked for is the dtype of the sum; a sum that may be
        # accumulated in integers still has to be divided.
        sum_dtype = dtype
    else:
        sum_dtype = None
        # float16 would overflow in the sum long before the mean does.
        if input.dtype == 'float16':
            sum_dtype = 'float32'

    s = sum(input, axis=axis, dtype=sum_dtype, keepdims=keepdims,
            acc_dtype=acc_dtype)
    if s.dtype in ('float16', 'float32', 'complex64'):
        # An int64 count would upcast the result to float64.
        count_dtype = 'float32'
    else:
        count_dtype = 'float64'
    shape = cast(input.shape, count_dtype)
    axes = check_and_normalize_axes(input, axis) or range(input.ndim)
    for i in axes:
        s = true_div(s, shape[i])
    # A single reduction over no axis (0-d input) of integers is a mean too.
    if s.dtype in _DISCRETE:
        s = cast(s, 'float64')
    if dtype is None and input.dtype == 'float16':
        s = cast(s, 'float16')
    s.name = 'mean'
    return s


def var(input, axis=None, ddof=0, keepdims=False, corrected=False):
    """Variance over the given axes, by the two-pass algorithm.

    Parameters
    ----------
    input : tensor_like
    axis : int, sequence of int or None
        None for all axes.
    ddof : int
        Degrees of freedom: the sum of squares is divided by N - ddof.
    keepdims : bool
        Keep the reduced dimensions, with length 1.
    corrected : bool
        Subtract the squared mean deviation, which rounding leaves nonzero
        (the corrected two-pass algorithm; Chan, Golub and LeVeque 1983,
        equation 1.7).

    Returns
    -------
    TensorVariable
    """
    if isinstance(ddof, bool):
        raise ValueError("Parameter keepdims is now at index 3: (input, "
                         "axis=None, ddof=0, keepdims=False, corrected=False)")
    input = as_tensor_variable(input)
    axes = check_and_normalize_axes(input, axis) or list(range(input.ndim))
    centered = sub(input, mean(input, axes, keepdims=True))
    square = sqr(abs_(centered) if centered.dtype.startswith('complex')
                 else centered)
    if ddof == 0:
        v = mean(square, axes, keepdims=keepdims)
    else:
        count = _count(input, axes, square.dtype) - ddof
        v = true_div(sum(square, axis=axes, keepdims=keepdims),
                     cast(count, square.dtype))
    if corrected:
        if ddof == 0:
            error = sqr(mean(centered, axes, keepdims=keepdims))
        else:
            n = _count(input, axes, square.dtype)
            error = true_div(sqr(sum(centered, axis=axes, keepdims=keepdims)),
                             cast(n * (n - ddof), square.dtype))
        v = sub(v, error)
    v.name = 'var'
    return v


def _count(input, axes, dtype):
    """How many elements a reduction takes in."""
    shape = input.shape
    count = constant(1, dtype='int64')
    for i in axes:
        count = mul(count, shape[i])
    return count


def std(input, axis=None, ddof=0, keepdims=False, corrected=False):
    """Standard deviation over the given axes; see :func:`var`."""
    if isinstance(ddof, bool):
        raise ValueError("Parameter keepdims is now at index 3: (input, "
                         "axis=None, ddof=0, keepdims=False, corrected=False)")
    result = sqrt(var(input, axis=axis, ddof=ddof, keepdims=keepdims,
                      corrected=corrected))
    result.name = 'std'
    return result


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
    out = elemwise.All(_axes_or_none(x, axis))(x)
    return makeKeepDims(x, out, axis) if keepdims else out


def any(x, axis=None, keepdims=False):
    """Whether some element over the given axes is nonzero; see :func:`all`."""
    x = as_tensor_variable(x)
    out = elemwise.Any(_axes_or_none(x, axis))(x)
    return makeKeepDims(x, out, axis) if keepdims else out


def ptp(a, axis=None):
    """Range of values (maximum minus minimum) along an axis.

    Parameters
    ----------
    a : tensor_like
    axis : int or None
        None for the flattened tensor.
    """
    a = as_tensor_variable(a)
    return sub(max(a, axis), min(a, axis))


def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None,
        aweights=None):
    """Covariance matrix, as `numpy.cov`.

    Parameters
    ----------
    m : tensor_like, 1-d or 2-d
        Variables and observations.
    y : tensor_like, optional
        More variables, in the same form.
    rowvar : bool
        A row is a variable and a column an observation; otherwise the other
        way round.
    bias : bool
        Divide by N instead of N - 1.
    ddof : int, optional
        Divide by N - ddof; overrides `bias`.
    fweights : integer vector, optional
        How often each observation occurred.
    aweights : vector, optional
        Weight of each observation.

    Returns
    -------
    TensorVariable
        2-d (0-d for a single variable).
    """
    from theano_ng.tensor.elemwise_ops import conj
    from theano_ng.tensor.linear import dot
    from theano_ng.tensor.shaping import concatenate
    if ddof is not None and ddof != int(ddof):
        raise ValueError("cov: ddof must be an integer, got %r" % (ddof,))

    def as_rows(x, what):
        x = as_tensor_variable(x)
        if x.ndim > 2:
            raise ValueError("cov: %s has more than 2 dimensions: %s"
                             % (what, x.type))
        if x.ndim < 2:
            return x.dimshuffle(['x'] * (2 - x.ndim) + list(range(x.ndim)))
        return x if rowvar else x.T

    X = as_rows(m, 'm')
    if X.dtype in _DISCRETE:
        X = cast(X, 'float64')
    if y is not None:
        X = concatenate((X, as_rows(y, 'y')), axis=0)
    if ddof is None:
        ddof = 0 if bias else 1

    w = None
    if fweights is not None:
        w = as_tensor_variable(fweights)
        if w.ndim != 1 or w.dtype not in _DISCRETE:
            raise TypeError("cov: fweights must be an integer vector, got %s"
                            % (w.type,))
    if aweights is not None:
        a = as_tensor_variable(aweights)
        if a.ndim != 1:
            raise TypeError("cov: aweights must be a vector, got %s"
                            % (a.type,))
        w = a if w is None else w * a
    if w is None:
        center = mean(X, axis=1, keepdims=True)
        fact = cast(X.shape[1], X.dtype) - ddof
        weighted = X = X - center
    else:
        w_sum = sum(w)
        center = true_div(sum(X * w, axis=1, keepdims=True), w_sum)
        if ddof == 0:
            fact = w_sum
        elif aweights is None:
            fact = w_sum - ddof
        else:
            fact = w_sum - true_div(ddof * sum(w * as_tensor_variable(
                aweights)), w_sum)
        X = X - center
        weighted = X * w
    c = dot(weighted, conj(X.T) if X.dtype.startswith('complex') else X.T)
    c = true_div(c, fact)
    # NumPy squeezes: the covariance of one variable is its variance.
    return c.squeeze() if builtins.any(c.broadcastable) else c
