"""Functions that enlarge images by bilinear interpolation."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from theano_ng.configdefaults import config
from theano_ng.gof.graph import Variable
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE, INTEGERS
from theano_ng.tensor.elemwise.functions import abs_, add, cast
from theano_ng.tensor.nnet.convolution.shapes import is_int, known
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.shaping.creation import arange
from theano_ng.tensor.shaping.joining import join
from theano_ng.tensor.shaping.reshaping import reshape

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["bilinear_kernel_1D", "bilinear_kernel_2D", "bilinear_upsampling", "frac_bilinear_upsampling"]


def _checked_ratio(ratio):
    """Return a ratio as a positive int or a scalar variable of integers. Raise ValueError for other values."""
    if is_int(ratio):
        if ratio < 1:
            raise ValueError("the ratio must be positive, got %s" % ratio)
        return int(ratio)
    if isinstance(ratio, Variable) and ratio.ndim == 0 and ratio.dtype in INTEGERS:
        number = known(ratio)
        # Cast the variable, because products of lengths and a ratio of a narrow dtype could overflow.
        return cast(ratio, "int64") if number is None else _checked_ratio(number)
    raise ValueError("the ratio must be an integer, got %s" % (ratio,))


def bilinear_kernel_1D(ratio: int, normalize: bool = True) -> TensorVariable:
    """Return the kernel of linear interpolation between elements at a distance of `ratio`: a triangular function.

    Parameters
    ----------
    ratio : int, or scalar variable of integers
    normalize : bool
        Whether to divide the kernel by `ratio`, so that its peak is 1.

    Returns
    -------
    (2 * ratio - 1,) tensor of ``config.floatX``

    Raises
    ------
    ValueError
        If the ratio is not a positive integer.

    Examples
    --------
    >>> bilinear_kernel_1D(3, normalize=False).eval()
    array([1., 2., 3., 2., 1.])
    """
    ratio = _checked_ratio(ratio)
    kernel = cast(ratio - abs_(arange(1 - ratio, ratio)), config.floatX)
    return kernel / cast(ratio, config.floatX) if normalize else kernel


def bilinear_kernel_2D(ratio: int, normalize: bool = True) -> TensorVariable:
    """Return the kernel of bilinear interpolation between pixels at a distance of `ratio`.

    It is the outer product of :func:`bilinear_kernel_1D` with itself.

    Parameters
    ----------
    ratio : int, or scalar variable of integers
    normalize : bool
        Whether to divide the kernel by ``ratio ** 2``, so that its peak is 1.

    Returns
    -------
    (2 * ratio - 1, 2 * ratio - 1) tensor of ``config.floatX``
    """
    kernel = bilinear_kernel_1D(ratio, normalize)
    return kernel.dimshuffle(0, "x") * kernel.dimshuffle("x", 0)


def _neighbours(x, axis):
    """Return the elements before and after each gap between neighboring elements of an axis.

    There is also a gap before the first element and a gap after the last element. Each of these two gaps has the same
    element (the first or the last) on both sides.
    """
    along = lambda *limits: (slice(None),) * axis + (slice(*limits),)
    longer = join(axis, x[along(0, 1)], x, x[along(-1, None)])
    return longer[along(0, -1)], longer[along(1, None)]


def _cut(length, numerator, denominator):
    """Return the slice that selects the result from an interpolated axis.

    The first pixel of the image is ``(numerator - 1) // 2`` positions after the start of the slice. The step of the
    slice is `denominator`. `length` is the length of the image.
    """
    start = numerator - (numerator - 1) // 2
    return slice(start, start + length * numerator, denominator)


def _interpolated(x, ratios, separately):
    """Return images that are enlarged by the ratios (numerator, denominator) of the last two axes.

    If `separately` is True, rows are interpolated before columns. Otherwise, both are interpolated together.
    """
    batch, channels, rows, columns = (x.shape[i] for i in range(4))
    (n, _), (m, _) = ratios
    # The distances of the positions in a gap from the element before the gap, as fractions of the gap.
    far_rows, far_columns = (cast(arange(k), x.dtype) / cast(k, x.dtype) for k in (n, m))
    cut_rows, cut_columns = (_cut(length, *ratio) for length, ratio in zip((rows, columns), ratios))
    above, below = _neighbours(x, 2)
    if separately:
        above, below = (v.dimshuffle(0, 1, 2, "x", 3) for v in (above, below))
        x = above + (below - above) * far_rows.dimshuffle("x", "x", "x", 0, "x")
        x = reshape(x, (batch, channels, x.shape[2] * n, columns))[:, :, cut_rows]
        left, right = (v.dimshuffle(0, 1, 2, 3, "x") for v in _neighbours(x, 3))
        x = left + (right - left) * far_columns.dimshuffle("x", "x", "x", "x", 0)
        return reshape(x, (batch, channels, x.shape[2], x.shape[3] * m))[:, :, :, cut_columns]
    corners = [v.dimshuffle(0, 1, 2, "x", 3, "x") for side in (above, below) for v in _neighbours(side, 3)]
    r, c = far_rows.dimshuffle("x", "x", "x", 0, "x", "x"), far_columns.dimshuffle("x", "x", "x", "x", "x", 0)
    shares = [(1 - r) * (1 - c), (1 - r) * c, r * (1 - c), r * c]
    x = add(*[share * corner for share, corner in zip(shares, corners)])
    x = reshape(x, (batch, channels, x.shape[2] * n, x.shape[4] * m))
    return x[:, :, cut_rows, cut_columns]


def _fractions(frac_ratio):
    """Return the ratios of rows and of columns as pairs of ints in lowest terms. Raise ValueError for other values."""
    if not isinstance(frac_ratio, tuple):
        raise ValueError("frac_ratio must be a tuple, got %s" % (frac_ratio,))
    pairs = frac_ratio if all(isinstance(r, tuple) for r in frac_ratio) else (frac_ratio, frac_ratio)
    result = []
    for pair in pairs:
        if len(pairs) != 2 or len(pair) != 2 or not all(is_int(n) and n > 0 for n in pair):
            raise ValueError(
                "frac_ratio must be a pair of positive integers (numerator, denominator), or two such pairs, got %s"
                % (frac_ratio,)
            )
        divisor = gcd(*map(int, pair))
        result.append((int(pair[0]) // divisor, int(pair[1]) // divisor))
    return result


def _images(input):
    """Return the images as a 4-d tensor of floats. Raise ValueError if they do not have four dimensions."""
    input = as_tensor_variable(input)
    if input.ndim != 4:
        raise ValueError("images must be a 4D tensor, got %s" % input.type)
    return cast(input, config.floatX) if input.dtype in DISCRETE else input


def frac_bilinear_upsampling(input: TensorLike, frac_ratio: Any) -> TensorVariable:
    """Enlarge images by a fraction, with bilinear interpolation.

    Parameters
    ----------
    input : (batch, channels, rows, columns) tensor
    frac_ratio : (numerator, denominator), or a pair of such pairs for rows and for columns
        Positive ints. A ratio below 1 makes images smaller.

    Returns
    -------
    (batch, channels, rows * ratio, columns * ratio) tensor
        Lengths that are not integers are rounded up.

    Raises
    ------
    ValueError
        If the ratio is invalid, or if the images do not have four dimensions.

    Notes
    -----
    For a ratio n / d in lowest terms, the images are first made n times larger, as by :func:`bilinear_upsampling`. Then
    each d-th row and column is selected, beginning with the first row and column.
    """
    return _interpolated(_images(input), _fractions(frac_ratio), True)


def bilinear_upsampling(
    input: TensorLike,
    ratio: Any = None,
    frac_ratio: Any = None,
    batch_size: int | None = None,
    num_input_channels: int | None = None,
    use_1D_kernel: bool = True,
) -> TensorVariable:
    """Enlarge images by bilinear interpolation.

    Parameters
    ----------
    input : (batch, channels, rows, columns) tensor
    ratio : int, or scalar variable of integers
        The factor by which rows and columns become longer.
    frac_ratio : pair of int, or pair of such pairs
        A ratio that is a fraction, instead of `ratio`. See :func:`frac_bilinear_upsampling`.
    batch_size, num_input_channels : int, optional
        The first two lengths of `input`, if they are known. A dimension of known length 1 is broadcastable in the
        result.
    use_1D_kernel : bool
        If True, rows are interpolated before columns. Otherwise, both are interpolated together. The results are equal.

    Returns
    -------
    (batch, channels, rows * ratio, columns * ratio) tensor

    Raises
    ------
    ValueError
        If both ratios or neither of them are given, or if the ratio is invalid.

    Notes
    -----
    Pixel i of an axis moves to position ``i * ratio + (ratio - 1) // 2``. Positions before the first pixel have the
    value of the first pixel; positions after the last pixel have the value of the last pixel. If the ratio is even,
    there is one more position at the end than at the start.
    """
    if ratio is not None and frac_ratio is not None:
        raise ValueError("can't use ratio and frac_ratio together")
    if ratio is None and frac_ratio is None:
        raise ValueError("No ratio (or frac_ratio) provided")
    input = _images(input)
    if frac_ratio is not None:
        ratios = _fractions(frac_ratio)
    else:
        ratios = [(_checked_ratio(ratio), 1)] * 2
    output = _interpolated(input, ratios, use_1D_kernel)
    lengths = (known(batch_size), known(num_input_channels))
    return patternbroadcast(output, [flag or length == 1 for flag, length in zip(output.broadcastable, lengths)])
