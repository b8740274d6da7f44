"""Fast Fourier transforms of batches of real arrays.

The real and imaginary parts of a transform are pairs of numbers along an additional last axis. The caller has to define
the arithmetic on such pairs. The gradient of a transform is the inverse transform, up to factors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from theano_ng.gof.derivative import disconnected_type
from theano_ng.gof.graph import Apply, is_same_graph
from theano_ng.gof.op import Op
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import INTEGERS
from theano_ng.tensor.elemwise.functions import minimum, sqrt
from theano_ng.tensor.indexing.subtensor import set_subtensor
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.shaping.creation import zeros_like
from theano_ng.tensor.shaping.joining import stack
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["IRFFTOp", "RFFTOp", "irfft", "irfft_op", "rfft", "rfft_op"]

_FLOATS = ("float16", "float32", "float64")


class _RealTransform(Op):
    """The base class of the transform and the inverse transform.

    Inputs: the array, and an integer vector with the lengths of the real array along the transformed axes.
    A subclass defines `output_type(inp)`, `fitting_lengths(a)`, `opposite()` (the Op of the inverse transform),
    `gradient` and the class attributes below.
    """

    __props__ = ()
    # `extra` is the number of axes that the input has in addition to the axes of the real array. `layout` describes the
    # shape of the input in error messages.
    extra = 0
    layout = ""

    def make_node(self, a, s=None):
        a = as_tensor_variable(a)
        least = 2 + self.extra
        if a.ndim < least:
            raise TypeError(
                "%s: expected an array of at least %d dimensions, %s; got %s of type %s"
                % (type(self).__name__, least, self.layout, a, a.type)
            )
        if a.dtype not in _FLOATS:
            raise TypeError(
                "%s: expected real floating-point numbers, got %s of type %s; cast it to float32 or float64"
                % (type(self).__name__, a, a.type)
            )
        s = as_tensor_variable(self.fitting_lengths(a)[0] if s is None else s)
        if s.ndim != 1 or s.dtype not in INTEGERS:
            raise TypeError(
                "%s: the lengths s must be an integer vector, got %s of type %s" % (type(self).__name__, s, s.type)
            )
        return Apply(self, [a, s], [self.output_type(a)()])

    def lengths(self, node, a, s):
        """Return the lengths as Python integers, or raise ValueError."""
        s = [int(n) for n in s]
        if len(s) != a.ndim - 1 - self.extra:
            raise ValueError(
                "%s: s has %d lengths, for %d transformed axes of an array of shape %s"
                % (type(self).__name__, len(s), a.ndim - 1 - self.extra, a.shape)
            )
        if min(s) < 1 or 0 in a.shape[1:]:
            raise ValueError(
                "%s: there is no transform of zero elements: the lengths are %s, for an array of shape %s"
                % (type(self).__name__, s, a.shape)
            )
        return s

    def connection_pattern(self, node):
        return [[True], [False]]

    def gradient(self, a, s, g, inverse, fits):
        """Return the gradient with respect to the array.

        Parameters
        ----------
        a, s : TensorVariable
            The inputs.
        g : TensorVariable
            The gradient with respect to the output.
        inverse : callable
            ``inverse(g, s)`` applies the Op of the inverse transform.
        fits : bool
            Whether `a` is known to be neither cut nor padded.
        """
        raise NotImplementedError(type(self).__name__)

    def grad(self, inputs, output_grads):
        a, s = inputs[0], signed(inputs[1])
        return [self.gradient(a, s, output_grads[0], self.opposite(), fits(self, a, s)), disconnected_type()]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return [self(eval_points[0], inputs[1])]


class RFFTOp(_RealTransform):
    """``rfft_op(a, s)``: unnormalized transform of real arrays over all axes except the first axis.

    Parameters
    ----------
    a : tensor_like
        m real arrays of shape (..., n), as one array of shape (m, ..., n). The dtype is float16, float32 or float64.
    s : integer vector, optional
        The lengths of the transform: `a` is cut or padded with zeros at the end of each axis.
        The default is ``a.shape[1:]``.

    Returns
    -------
    TensorVariable
        The shape is ``(m, s[0], ..., s[-1]//2 + 1, 2)``, the dtype is the dtype of `a`.

    Raises
    ------
    TypeError
        If the rank or the dtype is not supported.
    ValueError
        At run time, if a length is below 1 or `s` has the wrong number of lengths.
    """

    layout = "the first of which counts the arrays, (m, ..., n)"

    @staticmethod
    def fitting_lengths(a):
        """Return a list of all `s` for which `a` is neither cut nor padded. The first entry is the default."""
        return [a.shape[1:]]

    def output_type(self, inp):
        """Return the type of the output: its shape is (m, ..., n//2+1, 2), its dtype the dtype of `inp`."""
        return TensorType(inp.dtype, (inp.broadcastable[0], *(False,) * inp.ndim))

    def perform(self, node, inputs, output_storage):
        a, s = inputs
        s = self.lengths(node, a, s)
        a, dtype = _computed(a)
        single = a.dtype == "float32"
        if single or len(s) > 1:
            # Use SciPy, because NumPy computes some of these transforms in float64, and transforms the axes one by one.
            from scipy.fft import rfftn

            if not len(a):
                pairs = np.empty((0, *s[:-1], s[-1] // 2 + 1), "complex64" if single else "complex128")
            else:
                pairs = rfftn(a, s, tuple(range(1, a.ndim)))
        else:
            pairs = np.fft.rfft(a, s[0], 1)
        pairs = np.ascontiguousarray(pairs)
        real = pairs.view(pairs.real.dtype).reshape(pairs.shape + (2,))
        output_storage[0][0] = real.astype(dtype, copy=False)

    def infer_shape(self, node, shapes):
        s = _items(node)
        return [(shapes[0][0], *s[:-1], s[-1] // 2 + 1, 2)]

    def gradient(self, a, s, g, inverse, fits):
        # irfft counts the elements of the transform twice: for the element itself and for its complex conjugate. Only
        # the first element and, for an even length, the last element count once. So halve the other elements first.
        return _fitted(inverse(_scale_inner(g, s[-1], 0.5), s), a, fits)

    def opposite(self):
        return irfft_op


class IRFFTOp(_RealTransform):
    """``irfft_op(a, s)``: unnormalized inverse transform to real arrays, over all axes except the first and the last.

    The last axis contains pairs of real and imaginary parts.

    Parameters
    ----------
    a : tensor_like
        The transforms of m real arrays of shape (..., n), as one array of shape (m, ..., n//2+1, 2). The dtype is
        float16, float32 or float64.
    s : integer vector, optional
        The lengths of the result: `a` is cut or padded with zeros at the end of each axis. The default is
        ``a.shape[1:-1]`` with its last length replaced by ``(a.shape[-2] - 1) * 2``.

    Returns
    -------
    TensorVariable
        The shape is ``(m, s[0], ..., s[-1])``, the dtype is the dtype of `a`.

    Raises
    ------
    TypeError
        If the rank or the dtype is not supported.
    ValueError
        At run time, if a length is below 1, if `s` has the wrong number of lengths, or if the last axis does not have
        length 2.
    """

    extra = 1
    layout = "(m, ..., n//2+1, 2)"

    @staticmethod
    def fitting_lengths(a):
        """Return a list of all `s` for which `a` is neither cut nor padded. The first entry is the default."""
        return [_whole_lengths(a, False), _whole_lengths(a, True)]

    def output_type(self, inp):
        """Return the type of the output: its shape is (m, ..., n), its dtype the dtype of `inp`."""
        return TensorType(inp.dtype, (inp.broadcastable[0], *(False,) * (inp.ndim - 2)))

    def perform(self, node, inputs, output_storage):
        a, s = inputs
        if a.shape[-1] != 2:
            raise ValueError(
                "IRFFTOp: the last axis holds pairs of real and imaginary parts; it has length %d, the shape is %s"
                % (a.shape[-1], a.shape)
            )
        s = self.lengths(node, a, s)
        a, dtype = _computed(a)
        pairs = np.ascontiguousarray(a).view("complex128" if a.dtype == "float64" else "complex64")[..., 0]
        if not len(a):
            real = np.empty((0, *s), a.dtype)
        elif len(s) == 1 and dtype == "float64":
            real = np.fft.irfft(pairs, s[0], 1, norm="forward")
        else:
            from scipy.fft import irfftn

            real = irfftn(pairs, s, tuple(range(1, pairs.ndim)), norm="forward")
        output_storage[0][0] = np.ascontiguousarray(real).astype(dtype, copy=False)

    def infer_shape(self, node, shapes):
        return [(shapes[0][0], *_items(node))]

    def gradient(self, a, s, g, inverse, fits):
        # Double the elements of the transform that also represent their complex conjugates. These are all elements
        # except the first element and, for an even length, the last element.
        return _fitted(_scale_inner(inverse(g, s), s[-1], 2), a, fits)

    def opposite(self):
        return rfft_op


rfft_op = RFFTOp()
irfft_op = IRFFTOp()


def _computed(a):
    """Convert an array to float32 or float64 for the computation. Return this array and the dtype of the result.

    Both are in native byte order. The dtype of the result is the dtype of `a`.
    """
    dtype = a.dtype.newbyteorder("=")
    return a.astype("float64" if dtype == "float64" else "float32", copy=False), dtype


def signed(s):
    """Return the lengths cast to int64: an operation on uint64 and a signed integer would return a float."""
    return s.astype("int64")


def _items(node):
    s = node.inputs[1]
    n = node.inputs[0].ndim - 1 - node.op.extra
    return [s[i].astype("int64") for i in range(n)]


def _whole_lengths(a, is_odd):
    """Return the lengths of the real arrays whose transforms are `a`. `is_odd` refers to the last length."""
    n = a.ndim - 2
    lengths = [a.shape[i] for i in range(1, n)]
    last = (a.shape[n] - 1) * 2
    return stack([*lengths, last + 1 if is_odd else last])


def fits(op, a, s):
    """Return True if the graph of `s` shows that `a` is neither cut nor padded."""
    # Compare the graph that computes `s` with the graphs of fitting lengths. Treat `a` as an input of these graphs.
    return any(is_same_graph(s, lengths, givens={a: a.type()}) for lengths in op.fitting_lengths(a))


def _scale_inner(pairs, n, factor):
    """Multiply by a factor those elements of a transform that also represent their complex conjugates.

    Parameters
    ----------
    pairs : TensorVariable
        The transform. Its second to last axis is the axis that `rfft` shortens to about half the length.
    n : scalar variable
        The length of the real array along this axis.
    factor : float
    """
    inner = (slice(None),) * (pairs.ndim - 2) + (slice(1, (n + 1) // 2),)
    return set_subtensor(pairs[inner], pairs[inner] * np.asarray(factor, pairs.dtype))


def _fitted(gradient, a, fits):
    """Return the gradient with respect to `a`, which was cut or padded to the shape of `gradient`.

    Elements of `a` that were cut have the gradient zero. Gradients of padded elements are not used.
    """
    if not fits:
        n = a.ndim - 1
        common = (slice(None), *[slice(None, minimum(a.shape[i], gradient.shape[i])) for i in range(1, n + 1)])
        gradient = set_subtensor(zeros_like(a)[common], gradient[common])
    return patternbroadcast(gradient, a.broadcastable)


def rfft(inp: TensorLike, norm: str | None = None) -> TensorVariable:
    """Return the fast Fourier transform of real arrays.

    The transform is over all dimensions except the first, as `numpy.fft.rfftn`.

    Parameters
    ----------
    inp : tensor_like
        Shape (m, ..., n): m arrays of shape (..., n), float32 or float64.
    norm : {None, 'ortho', 'no_norm'}
        None divides only the inverse transform, by the number of elements. 'ortho' divides both transforms by the
        square root of the number of elements. 'no_norm' divides neither transform.

    Returns
    -------
    TensorVariable
        The shape is (m, ..., n//2+1, 2), the dtype is the dtype of `inp`. The result contains the real and imaginary
        parts of the first n//2+1 elements. The other elements are complex conjugates of these elements.

    Raises
    ------
    TypeError
        If `inp` has less than two dimensions, or its dtype is not supported.
    ValueError
        If `norm` is not one of these values.

    Examples
    --------
    >>> import numpy as np, theano_ng as theano
    >>> from theano_ng.tensor import fft
    >>> x = theano.tensor.matrix('x', dtype='float64')
    >>> f = theano.function([x], fft.rfft(x))
    >>> f([[1, 0, 0, 2.]])
    array([[[ 3.,  0.],
            [ 1.,  2.],
            [-1.,  0.]]])
    """
    return normalized_transform(rfft_op, as_tensor_variable(inp), norm)


def normalized_transform(op, inp, norm):
    """Apply the Op of a transform to a variable, and normalize the result. See `rfft`."""
    norm = _unitary(norm)
    result = op(inp)
    if norm == "ortho":
        result = result / _root_of_product(inp.shape[1:], inp.dtype)
    return result


def irfft(inp: TensorLike, norm: str | None = None, is_odd: bool = False) -> TensorVariable:
    """Return the inverse of the fast Fourier transform of real arrays.

    Parameters
    ----------
    inp : tensor_like
        Shape (m, ..., n//2+1, 2), float32 or float64: the result of `rfft` for m arrays of shape (..., n).
    norm : {None, 'ortho', 'no_norm'}
        None divides by the number of elements of a result array. 'ortho' divides by the square root of this number.
        'no_norm' does not divide.
    is_odd : bool
        Whether the length of the last dimension of the result is odd. If the transform has N elements along
        this dimension, the length is (N-1)*2 + 1 for True and (N-1)*2 for False.

    Returns
    -------
    TensorVariable
        The shape is (m, ..., n), the dtype is the dtype of `inp`.

    Raises
    ------
    TypeError
        If `inp` has less than three dimensions, or its dtype is not supported.
    ValueError
        If `norm` or `is_odd` is not one of these values.
    """
    return normalized_inverse(irfft_op, as_tensor_variable(inp), norm, is_odd)


def normalized_inverse(op, inp, norm, is_odd):
    """Apply the Op of an inverse transform to a variable, and normalize the result. See `irfft`."""
    if is_odd not in (True, False):
        raise ValueError("irfft: is_odd must be True or False, got %r" % (is_odd,))
    norm = _unitary(norm)
    if inp.ndim < 3:
        return op(inp)  # This call raises TypeError and names the expected shape.
    s = _whole_lengths(inp, is_odd)
    result = op(inp, s)
    if norm == "ortho":
        result = result / _root_of_product(s, inp.dtype)
    elif norm is None:
        result = result / s.prod().astype(inp.dtype)
    return result


def _root_of_product(s, dtype):
    return sqrt(s.prod().astype("float64")).astype(dtype)


def _unitary(norm):
    """Check the name of a normalization, and return it.

    Raises
    ------
    ValueError
        If `norm` is not None, 'ortho' or 'no_norm'.
    """
    if norm not in (None, "ortho", "no_norm"):
        raise ValueError("Invalid value %s for norm, must be None, 'ortho' or 'no_norm'" % (norm,))
    return norm
