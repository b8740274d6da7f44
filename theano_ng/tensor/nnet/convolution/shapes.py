"""Shapes of convolutions: the shape of the output, the kernels or the images in terms of the other two shapes.

Lengths may be numbers or variables. An unknown length is None, and so is each length that depends on it.
"""

import numpy as np

from theano_ng.gof.graph import Variable
from theano_ng.tensor.assert_op import Assert
from theano_ng.tensor.constant import NotScalarConstantError, as_tensor_variable, get_scalar_constant_value
from theano_ng.tensor.elemwise.functions import eq, ge, gt
from theano_ng.tensor.nnet.corr_shapes import Axis

__all__ = [
    "assert_conv_shape",
    "assert_shape",
    "border_mode_to_pad",
    "check_conv_gradinputs_shape",
    "get_conv_gradinputs_shape",
    "get_conv_gradinputs_shape_1axis",
    "get_conv_gradweights_shape",
    "get_conv_gradweights_shape_1axis",
    "get_conv_output_shape",
    "get_conv_shape_1axis",
]


def is_int(value):
    """Return True if a value is an integer of Python or NumPy, but not a bool."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def known(length):
    """Return a length as an int, or None if it is None or not constant.

    Parameters
    ----------
    length : int, tensor variable or None

    Raises
    ------
    TypeError
        If the value is not an integer.
    """
    if length is None or isinstance(length, int):
        return length
    try:
        value = get_scalar_constant_value(length)
    except NotScalarConstantError:
        return None
    if value.dtype.kind not in "iub":
        raise TypeError("a length must be an integer, got %s" % (length,))
    return int(value)


def _plain(mode):
    """Return True if the border mode of one axis is a single number: an int or a scalar variable."""
    return is_int(mode) or isinstance(mode, Variable)


def _pair(pad, mode, what="pairs of integers"):
    """Return the padding before and after one axis as a pair.

    `pad` is a number or a pair of numbers. Raise ValueError for other values.
    """
    if _plain(pad):
        pad = (pad, pad)
    if not (isinstance(pad, (tuple, list)) and len(pad) == 2 and all(map(_plain, pad))) or any(
        is_int(p) and p < 0 for p in pad
    ):
        raise ValueError("invalid border mode %s. The tuple can only contain integers or %s" % (mode, what))
    return tuple(int(p) if is_int(p) else p for p in pad)


def axis_modes(border_mode, convdim):
    """Return the border mode of each axis.

    Parameters
    ----------
    border_mode : {'valid', 'half', 'full'}, int, or tuple of `convdim` ints or pairs of ints
        A scalar variable is accepted in place of each int.
    convdim : int

    Returns
    -------
    list of 'half', 'full' or pairs

    Raises
    ------
    ValueError
        If the mode has none of these forms, or contains a negative number.
    """
    if isinstance(border_mode, str) and border_mode in ("valid", "half", "full"):
        return [(0, 0) if border_mode == "valid" else border_mode] * convdim
    if _plain(border_mode):
        if is_int(border_mode) and border_mode < 0:
            raise ValueError("invalid border_mode %s, which must be a non-negative integer" % border_mode)
        border_mode = (border_mode,) * convdim
    if not isinstance(border_mode, tuple):
        raise ValueError(
            'invalid border_mode %s, which must be either "valid", "full", "half", an integer or a tuple of length %d'
            % (border_mode, convdim)
        )
    if len(border_mode) != convdim:
        raise ValueError("invalid border_mode %s, which must be a tuple of length %d" % (border_mode, convdim))
    return [_pair(pad, border_mode) for pad in border_mode]


def border_mode_to_pad(mode, convdim, kshp):
    """Return the padding before and after each axis.

    Parameters
    ----------
    mode : {'valid', 'half', 'full'}, int, or tuple of `convdim` ints or pairs of ints
    convdim : int
        The number of axes.
    kshp : sequence of `convdim` ints or variables
        The lengths of the kernel along these axes, including dilation.

    Returns
    -------
    tuple of `convdim` pairs

    Raises
    ------
    ValueError
        If the mode is invalid.

    Examples
    --------
    >>> border_mode_to_pad('half', 2, (3, 5))
    ((1, 1), (2, 2))
    >>> border_mode_to_pad(((1, 2), 3), 2, (3, 5))
    ((1, 2), (3, 3))
    """
    return tuple(Axis(axis, 1, 1).pads(k) for axis, k in zip(axis_modes(mode, convdim), kshp, strict=True))


def _axis(border_mode, subsample, dilation):
    """Return the `Axis` for a border mode that is a string, an int or a pair."""
    if isinstance(border_mode, tuple):
        border_mode = (border_mode,)
    return Axis(axis_modes(border_mode, 1)[0], subsample, dilation)


def get_conv_shape_1axis(image_shape, kernel_shape, border_mode, subsample, dilation=1):
    """Return the length of the output of a convolution along one axis.

    Parameters
    ----------
    image_shape, kernel_shape : int, scalar variable or None
        The lengths of image and kernel.
    border_mode : {'valid', 'half', 'full'}, int, or pair of ints
    subsample, dilation : int or scalar variable

    Returns
    -------
    int, scalar variable or None
        ``(image + before + after - ((kernel - 1) * dilation + 1)) // subsample + 1``. None if an argument is None.

    Examples
    --------
    >>> get_conv_shape_1axis(7, 3, 'valid', 2)
    3
    """
    if None in (image_shape, kernel_shape, border_mode, subsample, dilation):
        return None
    return _axis(border_mode, subsample, dilation).output(image_shape, kernel_shape)


def get_conv_gradweights_shape_1axis(image_shape, top_shape, border_mode, subsample, dilation):
    """Return the length of the kernel of a convolution along one axis.

    Parameters
    ----------
    image_shape, top_shape : int, scalar variable or None
        The lengths of image and output.
    border_mode, subsample, dilation
        See :func:`get_conv_shape_1axis`.

    Returns
    -------
    int, scalar variable or None
        None if an argument is None. Also None with strides or in mode 'half', because kernels of several lengths then
        give this output.
    """
    if None in (image_shape, top_shape, border_mode, subsample, dilation):
        return None
    if known(subsample) != 1 or isinstance(border_mode, str) and border_mode == "half":
        return None
    return _axis(border_mode, 1, dilation).kernel(image_shape, top_shape)


def get_conv_gradinputs_shape_1axis(kernel_shape, top_shape, border_mode, subsample, dilation):
    """Return the length of the image of a convolution along one axis.

    Parameters
    ----------
    kernel_shape, top_shape : int, scalar variable or None
        The lengths of kernel and output.
    border_mode, subsample, dilation
        See :func:`get_conv_shape_1axis`.

    Returns
    -------
    int, scalar variable or None
        None if an argument is None, or if there are strides, because images of several lengths then give this output.
    """
    if None in (kernel_shape, top_shape, border_mode, subsample, dilation) or known(subsample) != 1:
        return None
    return _axis(border_mode, 1, dilation).image(kernel_shape, top_shape)


def _each_axis(function, first, second, border_mode, subsample, filter_dilation):
    """Apply a function for one axis to all axes, and return the tuple of the resulting lengths."""
    n = len(subsample)
    dilation = (1,) * n if filter_dilation is None else filter_dilation
    modes = axis_modes(border_mode, n)
    return tuple(function(*axis) for axis in zip(first[-n:], second[-n:], modes, subsample, dilation, strict=True))


def get_conv_output_shape(image_shape, kernel_shape, border_mode, subsample, filter_dilation=None):
    """Return the shape of the output of a convolution.

    Parameters
    ----------
    image_shape : sequence of ints, scalar variables or None
        (batch, channels, rows, columns). In three dimensions, the depth precedes the rows.
    kernel_shape : sequence of ints, scalar variables or None
        (filters, channels, rows, columns). In three dimensions, the depth precedes the rows. For unshared kernels, the
        lengths of the output follow the number of filters.
    border_mode : {'valid', 'half', 'full'}, int, or tuple of ints or pairs of ints
    subsample : sequence of ints or scalar variables
    filter_dilation : sequence of ints or scalar variables, optional
        The default is 1 along each axis.

    Returns
    -------
    tuple of ints, scalar variables or None
        (batch, filters, rows, columns). In three dimensions, the depth precedes the rows.

    Examples
    --------
    >>> get_conv_output_shape((1, 2, 8, 9), (3, 2, 3, 3), 'half', (1, 2))
    (1, 3, 8, 5)
    """
    lengths = _each_axis(get_conv_shape_1axis, image_shape, kernel_shape, border_mode, subsample, filter_dilation)
    return (image_shape[0], kernel_shape[0], *lengths)


def get_conv_gradweights_shape(
    image_shape, top_shape, border_mode, subsample, filter_dilation=None, num_groups=1, unshared=False
):
    """Return the shape of the kernels of a convolution.

    Parameters
    ----------
    image_shape, top_shape : sequence of ints, scalar variables or None
        (batch, channels, rows, columns) of images and output. In three dimensions, the depth precedes the rows.
    border_mode, subsample, filter_dilation
        See :func:`get_conv_output_shape`.
    num_groups : int
        The number of groups into which channels are divided. A kernel has the channels of one group.
    unshared : bool
        Whether each position of the output has separate kernels.

    Returns
    -------
    tuple of ints, scalar variables or None
        (filters, channels, rows, columns). In three dimensions, the depth precedes the rows. For unshared kernels, the
        lengths of the output follow the number of filters. Lengths that are not determined (with strides, and in mode
        'half') are None.
    """
    n = len(subsample)
    lengths = _each_axis(
        get_conv_gradweights_shape_1axis, image_shape, top_shape, border_mode, subsample, filter_dilation
    )
    channels = None if image_shape[1] is None else image_shape[1] // num_groups
    return (top_shape[1], *(top_shape[-n:] if unshared else ()), channels, *lengths)


def get_conv_gradinputs_shape(kernel_shape, top_shape, border_mode, subsample, filter_dilation=None, num_groups=1):
    """Return the shape of the images of a convolution.

    Parameters
    ----------
    kernel_shape : sequence of ints, scalar variables or None
        (filters, channels, rows, columns). In three dimensions, the depth precedes the rows. For unshared kernels, the
        lengths of the output follow the number of filters.
    top_shape : sequence of ints, scalar variables or None
        (batch, filters, rows, columns). In three dimensions, the depth precedes the rows.
    border_mode, subsample, filter_dilation
        See :func:`get_conv_output_shape`.
    num_groups : int

    Returns
    -------
    tuple of ints, scalar variables or None
        (batch, channels, rows, columns). In three dimensions, the depth precedes the rows. Lengths along axes with
        strides are None.
    """
    lengths = _each_axis(
        get_conv_gradinputs_shape_1axis, kernel_shape, top_shape, border_mode, subsample, filter_dilation
    )
    channels = kernel_shape[-len(subsample) - 1]
    return (top_shape[0], None if channels is None else channels * num_groups, *lengths)


def check_conv_gradinputs_shape(image_shape, kernel_shape, output_shape, border_mode, subsample, filter_dilation=None):
    """Return False if the output of a convolution is known to have a shape other than `output_shape`.

    Parameters
    ----------
    image_shape, kernel_shape, output_shape : sequence of ints, scalar variables or None
    border_mode, subsample, filter_dilation
        See :func:`get_conv_output_shape`.

    Returns
    -------
    bool
        False if lengths contradict each other. True if they agree or are not known.
    """
    computed = get_conv_output_shape(image_shape, kernel_shape, border_mode, subsample, filter_dilation)
    if len(computed) != len(output_shape):
        return False
    pairs = [(known(given), known(length)) for given, length in zip(output_shape, computed)]
    return all(given is None or length is None or given == length for given, length in pairs)


def assert_conv_shape(shape):
    """Check the shape of a result: batch and channels must not be negative, and the other lengths must be positive.

    Parameters
    ----------
    shape : sequence of ints or scalar variables
        (batch, channels, \\*lengths).

    Returns
    -------
    tuple
        The given shape. A length that is not constant is replaced by the output of an `Assert`, which checks
        the length at run time (AssertionError).

    Raises
    ------
    ValueError
        If a known length is too small.
    """
    result = []
    for i, length in enumerate(shape):
        number = known(length)
        relation = "<" if i < 2 else "<="
        if number is None:
            length = as_tensor_variable(length)
            is_fine = (ge if i < 2 else gt)(length, 0)
            message = "The convolution would produce an invalid shape (dim[%d] %s 0)." % (i, relation)
            length = Assert(message)(length, is_fine)
        elif number < 0 or number == 0 and i >= 2:
            raise ValueError(
                "The convolution would produce an invalid shape (dim[%d]: %d %s 0)." % (i, number, relation)
            )
        result.append(length)
    return tuple(result)


def assert_shape(x, expected_shape, msg="Unexpected shape."):
    """Return a tensor with an assertion that it has the expected shape.

    Parameters
    ----------
    x : tensor variable
    expected_shape : sequence of ints, scalar variables or None; or None
        A length of None is not checked.
    msg : str
        The message of the AssertionError.

    Returns
    -------
    tensor variable
        `x` itself if there is nothing to check.

    Raises
    ------
    ValueError
        If the number of lengths is not the number of dimensions.
    """
    if expected_shape is None:
        return x
    if len(expected_shape) != x.ndim:
        raise ValueError("expected %d lengths of %s, which has %d dimensions" % (len(expected_shape), x, x.ndim))
    shape = x.shape
    checks = [eq(shape[i], length) for i, length in enumerate(expected_shape) if length is not None]
    return Assert(msg)(x, *checks) if checks else x
