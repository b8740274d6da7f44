"""Functions that build graphs of convolutions."""

import warnings

from theano_ng.gof.graph import Constant, Variable
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import INTEGERS
from theano_ng.tensor.nnet.convolution.abstract import (
    AbstractConv2d,
    AbstractConv2d_gradInputs,
    AbstractConv2d_gradWeights,
    AbstractConv3d,
    AbstractConv3d_gradInputs,
    AbstractConv3d_gradWeights,
)
from theano_ng.tensor.nnet.convolution.shapes import is_int, known
from theano_ng.tensor.shaping.creation import zeros
from theano_ng.tensor.shaping.joining import stack
from theano_ng.tensor.indexing.subtensor import set_subtensor

__all__ = [
    "abstract_conv2d",
    "causal_conv1d",
    "conv2d",
    "conv2d_grad_wrt_inputs",
    "conv2d_grad_wrt_weights",
    "conv2d_transpose",
    "conv3d",
    "conv3d_grad_wrt_inputs",
    "conv3d_grad_wrt_weights",
    "separable_conv2d",
    "separable_conv3d",
]


def abstract_conv2d(
    input,
    filters,
    input_shape=None,
    filter_shape=None,
    border_mode="valid",
    subsample=(1, 1),
    filter_flip=True,
    filter_dilation=(1, 1),
    num_groups=1,
    unshared=False,
):
    """Convolve images with kernels: :func:`conv2d` without the arguments of earlier versions.

    It is ``theano.tensor.nnet.abstract_conv.conv2d``.
    """
    op = AbstractConv2d(
        input_shape, filter_shape, border_mode, subsample, filter_flip, filter_dilation, num_groups, unshared
    )
    return op(input, filters)


def conv2d(
    input,
    filters,
    input_shape=None,
    filter_shape=None,
    border_mode="valid",
    subsample=(1, 1),
    filter_flip=True,
    image_shape=None,
    filter_dilation=(1, 1),
    num_groups=1,
    unshared=False,
    **kwargs,
):
    """Convolve images with kernels.

    Parameters
    ----------
    input : (batch, input channels, rows, columns) tensor
        Images.
    filters : (output channels, input channels, rows, columns) tensor
        Kernels; if `unshared`, (output channels, output rows, output columns, input channels, rows, columns).
    input_shape : None, or sequence of 4 ints, constants or None
        The shape of `input`, as far as it is known.
    filter_shape : None, or sequence of 4 or 6 ints, constants or None
        The shape of `filters`, as far as it is known.
    border_mode : {'valid', 'full', 'half'}, int, or pair of ints or pairs of ints
        Where kernels are applied, of images with zeros around them. 'valid': where they lie inside images; the output is ``input - filter + 1``
        long. 'full': wherever they meet images; ``input + filter - 1``. 'half': with ``filter // 2`` zeros on each side; as long as
        images where kernels have odd lengths. An int: so many zeros on each side. A pair: so many for rows and for columns, where a pair
        in place of a number says how many before and how many after.
    subsample : pair of int
        Stride: by how much the kernel moves from one element of the output to the next.
    filter_flip : bool
        Whether kernels are reversed, as convolutions are defined. Without, it is a cross-correlation.
    image_shape
        Former name of `input_shape`.
    filter_dilation : pair of int
        How far the elements of a kernel are apart in the image.
    num_groups : int
        Cut channels, kernels and output into so many groups, each of which is convolved on its own; kernels have the channels of one.
    unshared : bool
        Have a kernel for each position of the output ("locally connected").
    **kwargs
        Arguments of earlier versions, which are ignored, with a warning.

    Returns
    -------
    (batch, output channels, output rows, output columns) tensor

    Raises
    ------
    ValueError, TypeError
        For parameters that are none of these. At run time, ValueError for shapes that do not fit.
    """
    if "imshp_logical" in kwargs or "kshp_logical" in kwargs:
        raise ValueError(
            "Keyword arguments 'imshp_logical' and 'kshp_logical' for conv2d are not supported anymore (and have not been a reliable "
            "way to perform upsampling). That feature is still available by calling theano.tensor.nnet.conv.conv2d() for the time "
            "being."
        )
    if kwargs:
        warnings.warn(
            "%s are now deprecated in `tensor.nnet.abstract_conv.conv2d` interface and will be ignored."
            % sorted(kwargs),
            stacklevel=2,
        )
    if image_shape is not None:
        warnings.warn(
            "The `image_shape` keyword argument to `tensor.nnet.conv2d` is deprecated, it has been renamed to `input_shape`.",
            stacklevel=2,
        )
        if input_shape is not None:
            raise ValueError("input_shape and image_shape should not be provided at the same time.")
        input_shape = image_shape
    return abstract_conv2d(
        input,
        filters,
        input_shape,
        filter_shape,
        border_mode,
        subsample,
        filter_flip,
        filter_dilation,
        num_groups,
        unshared,
    )


def conv3d(
    input,
    filters,
    input_shape=None,
    filter_shape=None,
    border_mode="valid",
    subsample=(1, 1, 1),
    filter_flip=True,
    filter_dilation=(1, 1, 1),
    num_groups=1,
):
    """Convolve images with kernels in three dimensions.

    Parameters
    ----------
    input : (batch, input channels, depth, rows, columns) tensor
    filters : (output channels, input channels, depth, rows, columns) tensor
    input_shape, filter_shape : None, or sequence of 5 ints, constants or None
    border_mode : {'valid', 'full', 'half'}, int, or three int
    subsample, filter_dilation : three int
    filter_flip : bool
    num_groups : int
        As for :func:`conv2d`.

    Returns
    -------
    (batch, output channels, output depth, output rows, output columns) tensor
    """
    op = AbstractConv3d(input_shape, filter_shape, border_mode, subsample, filter_flip, filter_dilation, num_groups)
    return op(input, filters)


def _lengths_of(shape, name, rank):
    """The last entries of a shape as a vector, and the shape with None for what is not constant.

    The first entries may be None, the last ones not; ValueError otherwise.
    """
    if shape is None:
        raise ValueError("%s must be given: several shapes have the same convolution" % name)
    shape = tuple(shape)
    if len(shape) not in rank:
        raise ValueError("%s must have %s elements, got %s" % (name, " or ".join(map(str, rank)), shape))
    convdim = rank[0] - 2
    for i, length in enumerate(shape):
        spatial = i >= len(shape) - convdim
        if is_int(length) or isinstance(length, Constant) or length is None and not spatial:
            continue
        if spatial and isinstance(length, Variable) and length.dtype in INTEGERS and length.ndim == 0:
            continue
        raise ValueError(
            "%s[%d] must be %s, got %s"
            % (name, i, "a constant or a scalar variable of integers" if spatial else "a constant or None", length)
        )
    if all(is_int(length) for length in shape[-convdim:]):
        lengths = as_tensor_variable([int(length) for length in shape[-convdim:]])
    else:
        lengths = stack([as_tensor_variable(length) for length in shape[-convdim:]])
    return lengths, tuple(known(length) for length in shape)


def _grad_wrt_inputs(op, convdim, output_grad, filters, input_shape, filter_shape, *parameters):
    """The gradient with respect to images, of the length-preserving `op` class for `convdim` dimensions."""
    if input_shape is None:
        gradient = op(None, filter_shape, *parameters)
        if max(gradient.subsample) == 1:
            # Without strides the shape follows.
            output_grad, filters = as_tensor_variable(output_grad), as_tensor_variable(filters)
            axes = zip(gradient.implementation().axes, filters.shape[-convdim:], output_grad.shape[2:])
            return gradient(filters, output_grad, stack([axis.image(k, o) for axis, k, o in axes]))
    lengths, imshp = _lengths_of(input_shape, "input_shape", (2 + convdim,))
    return op(imshp, filter_shape, *parameters)(filters, output_grad, lengths)


def conv2d_grad_wrt_inputs(
    output_grad,
    filters,
    input_shape,
    filter_shape=None,
    border_mode="valid",
    subsample=(1, 1),
    filter_flip=True,
    filter_dilation=(1, 1),
    num_groups=1,
    unshared=False,
):
    """Gradient of a convolution with respect to its images.

    Parameters
    ----------
    output_grad : (batch, output channels, output rows, output columns) tensor
        Gradient with respect to the output.
    filters : tensor
        Kernels, as for :func:`conv2d`.
    input_shape : sequence of 4
        Shape of the images: batch and channels are int, constant or None, rows and columns int, constant or scalar variable. May be None
        where `subsample` is (1, 1); with strides, images of several shapes have outputs of the same shape.
    filter_shape : None, or sequence of 4 or 6 ints, constants or None
    border_mode, subsample, filter_flip, filter_dilation, num_groups, unshared
        Those of the convolution; see :func:`conv2d`.

    Returns
    -------
    (batch, input channels, rows, columns) tensor

    Raises
    ------
    ValueError
        For an `input_shape` that is not of this form; at run time, where no such images have the output.
    """
    return _grad_wrt_inputs(
        AbstractConv2d_gradInputs,
        2,
        output_grad,
        filters,
        input_shape,
        filter_shape,
        border_mode,
        subsample,
        filter_flip,
        filter_dilation,
        num_groups,
        unshared,
    )


def conv3d_grad_wrt_inputs(
    output_grad,
    filters,
    input_shape,
    filter_shape=None,
    border_mode="valid",
    subsample=(1, 1, 1),
    filter_flip=True,
    filter_dilation=(1, 1, 1),
    num_groups=1,
):
    """Gradient of a convolution in three dimensions with respect to its images.

    Parameters
    ----------
    output_grad : (batch, output channels, output depth, output rows, output columns) tensor
    filters : (output channels, input channels, depth, rows, columns) tensor
    input_shape : sequence of 5
        Shape of the images: batch and channels are int, constant or None, the others int, constant or scalar variable. May be None
        where `subsample` is (1, 1, 1).
    filter_shape : None, or sequence of 5 ints, constants or None
    border_mode, subsample, filter_flip, filter_dilation, num_groups
        Those of the convolution; see :func:`conv3d`.

    Returns
    -------
    (batch, input channels, depth, rows, columns) tensor

    Raises
    ------
    ValueError
        For an `input_shape` that is not of this form; at run time, where no such images have the output.
    """
    return _grad_wrt_inputs(
        AbstractConv3d_gradInputs,
        3,
        output_grad,
        filters,
        input_shape,
        filter_shape,
        border_mode,
        subsample,
        filter_flip,
        filter_dilation,
        num_groups,
    )


def conv2d_grad_wrt_weights(
    input,
    output_grad,
    filter_shape,
    input_shape=None,
    border_mode="valid",
    subsample=(1, 1),
    filter_flip=True,
    filter_dilation=(1, 1),
    num_groups=1,
    unshared=False,
):
    """Gradient of a convolution with respect to its kernels.

    Parameters
    ----------
    input : (batch, input channels, rows, columns) tensor
        Images.
    output_grad : (batch, output channels, output rows, output columns) tensor
        Gradient with respect to the output.
    filter_shape : sequence of 4, or if `unshared` of 4 or 6
        Shape of the kernels: the last two are int, constant or scalar variable, the others int, constant or None.
    input_shape : None, or sequence of 4 ints, constants or None
    border_mode, subsample, filter_flip, filter_dilation, num_groups, unshared
        Those of the convolution; see :func:`conv2d`.

    Returns
    -------
    tensor of the shape of the kernels

    Raises
    ------
    ValueError
        For a `filter_shape` that is not of this form; at run time, where no such kernels make the output.
    """
    lengths, kshp = _lengths_of(filter_shape, "filter_shape", (4, 6) if unshared else (4,))
    op = AbstractConv2d_gradWeights(
        input_shape, kshp, border_mode, subsample, filter_flip, filter_dilation, num_groups, unshared
    )
    return op(input, output_grad, lengths)


def conv3d_grad_wrt_weights(
    input,
    output_grad,
    filter_shape,
    input_shape=None,
    border_mode="valid",
    subsample=(1, 1, 1),
    filter_flip=True,
    filter_dilation=(1, 1, 1),
    num_groups=1,
):
    """Gradient of a convolution in three dimensions with respect to its kernels.

    Parameters
    ----------
    input : (batch, input channels, depth, rows, columns) tensor
    output_grad : (batch, output channels, output depth, output rows, output columns) tensor
    filter_shape : sequence of 5
        Shape of the kernels: the last three are int, constant or scalar variable, the others int, constant or None.
    input_shape : None, or sequence of 5 ints, constants or None
    border_mode, subsample, filter_flip, filter_dilation, num_groups
        Those of the convolution; see :func:`conv3d`.

    Returns
    -------
    (output channels, input channels, depth, rows, columns) tensor
    """
    lengths, kshp = _lengths_of(filter_shape, "filter_shape", (5,))
    op = AbstractConv3d_gradWeights(input_shape, kshp, border_mode, subsample, filter_flip, filter_dilation, num_groups)
    return op(input, output_grad, lengths)


def conv2d_transpose(
    input,
    filters,
    output_shape,
    filter_shape=None,
    border_mode="valid",
    input_dilation=(1, 1),
    filter_flip=True,
    filter_dilation=(1, 1),
    num_groups=1,
    unshared=False,
):
    """Transposed convolution of images with kernels ("deconvolution").

    It is the gradient of a convolution with respect to its images, and takes what that convolution would put out.

    Parameters
    ----------
    input : (batch, input channels, rows, columns) tensor
        Images.
    filters : (input channels, output channels, rows, columns) tensor
        Kernels. The order of channels is that of the convolution which this one transposes.
    output_shape : sequence of 4
        Shape of the result: batch and channels are int, constant or None, rows and columns int, constant or scalar variable.
    filter_shape : None, or sequence of 4 or 6 ints, constants or None
    border_mode
        That of the convolution. What it pads is cropped here: 'valid' crops nothing, 'full' most.
    input_dilation : pair of int
        Strides of the convolution.
    filter_flip, filter_dilation, num_groups, unshared
        As for :func:`conv2d`.

    Returns
    -------
    (batch, output channels, output rows, output columns) tensor
    """
    return conv2d_grad_wrt_inputs(
        input,
        filters,
        output_shape,
        filter_shape,
        border_mode,
        input_dilation,
        filter_flip,
        filter_dilation,
        num_groups,
        unshared,
    )


def _separable(
    conv, input, depthwise, pointwise, num_channels, input_shape, depthwise_shape, pointwise_shape, *parameters
):
    """Filter each channel with its own kernels, then mix channels."""
    if not is_int(num_channels) or num_channels < 1:
        raise ValueError("num_channels must be a positive integer, got %s" % (num_channels,))
    border_mode, subsample, filter_flip, filter_dilation = parameters
    channels = conv(
        input,
        depthwise,
        input_shape,
        depthwise_shape,
        border_mode,
        subsample,
        filter_flip,
        filter_dilation=filter_dilation,
        num_groups=num_channels,
    )
    return conv(channels, pointwise, None, pointwise_shape, filter_flip=filter_flip)


def separable_conv2d(
    input,
    depthwise_filters,
    pointwise_filters,
    num_channels,
    input_shape=None,
    depthwise_filter_shape=None,
    pointwise_filter_shape=None,
    border_mode="valid",
    subsample=(1, 1),
    filter_flip=True,
    filter_dilation=(1, 1),
):
    """Convolve each channel with kernels of its own, then mix the channels pixel by pixel.

    Parameters
    ----------
    input : (batch, input channels, rows, columns) tensor
    depthwise_filters : (depthwise output channels, 1, rows, columns) tensor
        As many for each channel of the input; depthwise output channels are a multiple of input channels.
    pointwise_filters : (output channels, depthwise output channels, 1, 1) tensor
    num_channels : int
        Number of input channels.
    input_shape, depthwise_filter_shape, pointwise_filter_shape : None, or sequence of 4 ints, constants or None
    border_mode, subsample, filter_flip, filter_dilation
        Of the first step; see :func:`conv2d`.

    Returns
    -------
    (batch, output channels, output rows, output columns) tensor
    """
    return _separable(
        abstract_conv2d,
        input,
        depthwise_filters,
        pointwise_filters,
        num_channels,
        input_shape,
        depthwise_filter_shape,
        pointwise_filter_shape,
        border_mode,
        subsample,
        filter_flip,
        filter_dilation,
    )


def separable_conv3d(
    input,
    depthwise_filters,
    pointwise_filters,
    num_channels,
    input_shape=None,
    depthwise_filter_shape=None,
    pointwise_filter_shape=None,
    border_mode="valid",
    subsample=(1, 1, 1),
    filter_flip=True,
    filter_dilation=(1, 1, 1),
):
    """:func:`separable_conv2d` in three dimensions.

    Parameters
    ----------
    input : (batch, input channels, depth, rows, columns) tensor
    depthwise_filters : (depthwise output channels, 1, depth, rows, columns) tensor
    pointwise_filters : (output channels, depthwise output channels, 1, 1, 1) tensor
    num_channels : int
        Number of input channels.
    input_shape, depthwise_filter_shape, pointwise_filter_shape : None, or sequence of 5 ints, constants or None
    border_mode, subsample, filter_flip, filter_dilation
        Of the first step; see :func:`conv3d`.

    Returns
    -------
    (batch, output channels, output depth, output rows, output columns) tensor
    """
    return _separable(
        conv3d,
        input,
        depthwise_filters,
        pointwise_filters,
        num_channels,
        input_shape,
        depthwise_filter_shape,
        pointwise_filter_shape,
        border_mode,
        subsample,
        filter_flip,
        filter_dilation,
    )


def causal_conv1d(
    input,
    filters,
    filter_shape,
    input_shape=None,
    subsample=1,
    filter_flip=True,
    filter_dilation=1,
    num_groups=1,
    unshared=False,
):
    """Convolve series with kernels, such that no output depends on later inputs.

    Zeros stand before the first element, and none after the last: output t has been made of inputs up to and including t. See A. van den Oord
    et al., "WaveNet: A Generative Model for Raw Audio", section 2.1, https://arxiv.org/abs/1609.03499.

    Parameters
    ----------
    input : (batch, input channels, length) tensor
    filters : (output channels, input channels, length) tensor
        Kernels; if `unshared`, (output channels, output length, input channels, length).
    filter_shape : sequence of as many as `filters` has dimensions
        The shape of `filters`: the last entry is int, constant or scalar variable, the others int, constant or None.
    input_shape : None, or sequence of 3 ints, constants or None
    subsample : int
        Stride.
    filter_flip : bool
        Whether kernels are reversed.
    filter_dilation : int
        How far the elements of a kernel are apart.
    num_groups : int
    unshared : bool
        Have a kernel for each position of the output.

    Returns
    -------
    (batch, output channels, output length) tensor

    Raises
    ------
    ValueError
        For arguments of another rank, and shapes that have another number of entries.
    """
    input, filters = as_tensor_variable(input), as_tensor_variable(filters)
    rank = 4 if unshared else 3
    if input.ndim != 3:
        raise ValueError("Input should be 3D for causal convolution, got %s" % input.type)
    if filters.ndim != rank:
        raise ValueError("Filters should be %dD for causal convolution, got %s" % (rank, filters.type))
    if filter_shape is None or len(filter_shape) != rank or filter_shape[-1] is None:
        raise ValueError("filter_shape must have %d entries, of which the last is known, got %s" % (rank, filter_shape))
    if input_shape is not None and len(input_shape) != 3:
        raise ValueError("input_shape must have 3 entries, got %s" % (input_shape,))
    length = known(filter_shape[-1])
    kshp = [known(n) for n in filter_shape]
    kshp[-1:] = [1, length]
    if unshared:
        filters = filters.dimshuffle(0, "x", 1, 2, "x", 3)
        kshp[1:1] = [1]
    else:
        filters = filters.dimshuffle(0, 1, "x", 2)
    imshp = None if input_shape is None else (*input_shape[:2], 1, input_shape[2])
    images = input.dimshuffle(0, 1, "x", 2)
    if length is None:
        # The padding is not known before the length is: zeros are part of the images.
        before = (as_tensor_variable(filter_shape[-1]) - 1) * filter_dilation
        padded = zeros([images.shape[0], images.shape[1], 1, images.shape[3] + before], dtype=images.dtype)
        images, border_mode = set_subtensor(padded[:, :, :, before:], images), "valid"
        imshp = imshp and (*imshp[:3], None)
    else:
        border_mode = (0, ((length - 1) * filter_dilation, 0))
    output = abstract_conv2d(
        images,
        filters,
        imshp,
        kshp,
        border_mode,
        (1, subsample),
        filter_flip,
        (1, filter_dilation),
        num_groups,
        unshared,
    )
    return output[:, :, 0, :]
