"""Functions that build graphs of convolutions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from theano_ng.gof.graph import Constant, Variable
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import INTEGERS
from theano_ng.tensor.indexing.subtensor import set_subtensor
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

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

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
    input: TensorLike,
    filters: TensorLike,
    input_shape: Sequence[Any] | None = None,
    filter_shape: Sequence[Any] | None = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1),
    filter_flip: bool = True,
    filter_dilation: Any = (1, 1),
    num_groups: int = 1,
    unshared: bool = False,
) -> TensorVariable:
    """Convolve images with kernels. This is :func:`conv2d` without the arguments of earlier versions.

    The function is available as ``theano.tensor.nnet.abstract_conv.conv2d``.
    """
    op = AbstractConv2d(
        input_shape, filter_shape, border_mode, subsample, filter_flip, filter_dilation, num_groups, unshared
    )
    return op(input, filters)


def conv2d(
    input: TensorLike,
    filters: TensorLike,
    input_shape: Sequence[Any] | None = None,
    filter_shape: Sequence[Any] | None = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1),
    filter_flip: bool = True,
    image_shape: Sequence[Any] | None = None,
    filter_dilation: Any = (1, 1),
    num_groups: int = 1,
    unshared: bool = False,
    **kwargs: Any,
) -> TensorVariable:
    """Convolve images with kernels.

    Parameters
    ----------
    input : (batch, input channels, rows, columns) tensor
        Images.
    filters : (output channels, input channels, rows, columns) tensor
        Kernels. If `unshared`, their shape is (output channels, output rows, output columns, input channels, rows,
        columns).
    input_shape : None, or sequence of 4 ints, constants or None
        The shape of `input`, as far as it is known.
    filter_shape : None, or sequence of 4 or 6 ints, constants or None
        The shape of `filters`, as far as it is known.
    border_mode : {'valid', 'full', 'half'}, int, or pair of ints or pairs of ints
        The padding of the images with zeros. 'valid': no zeros; kernels are applied where they lie inside the images,
        and the output has length ``input - filter + 1``. 'full': kernels are applied wherever they overlap the images,
        and the output has length ``input + filter - 1``. 'half': ``filter // 2`` zeros on each side; if kernels have
        odd lengths, the output is as long as the images. An int: this number of zeros on each side. A pair: the numbers
        for rows and for columns; a pair in place of a number gives the numbers of zeros before and after.
    subsample : pair of int
        The strides: the distance that the kernel moves between neighboring elements of the output.
    filter_flip : bool
        Whether kernels are reversed, as in the definition of a convolution. If False, the result is a
        cross-correlation.
    image_shape
        The former name of `input_shape`.
    filter_dilation : pair of int
        The distance in the image between neighboring elements of a kernel.
    num_groups : int
        The number of groups into which channels, kernels and output are divided. Each group is convolved separately; a
        kernel has the channels of one group.
    unshared : bool
        Whether each position of the output has a separate kernel ("locally connected").
    **kwargs
        Arguments of earlier versions, which are ignored with a warning.

    Returns
    -------
    (batch, output channels, output rows, output columns) tensor

    Raises
    ------
    ValueError, TypeError
        For invalid parameters. At run time, ValueError for shapes that do not fit.
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
    input: TensorLike,
    filters: TensorLike,
    input_shape: Sequence[Any] | None = None,
    filter_shape: Sequence[Any] | None = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1, 1),
    filter_flip: bool = True,
    filter_dilation: Any = (1, 1, 1),
    num_groups: int = 1,
) -> TensorVariable:
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
        All parameters have the meanings that they have in :func:`conv2d`.

    Returns
    -------
    (batch, output channels, output depth, output rows, output columns) tensor
    """
    op = AbstractConv3d(input_shape, filter_shape, border_mode, subsample, filter_flip, filter_dilation, num_groups)
    return op(input, filters)


def _lengths_of(shape, name, rank):
    """Return the last entries of a shape as a vector, and the shape with None for entries that are not constant.

    The last ``rank[0] - 2`` entries are the lengths along the axes of the convolution. The entries before these lengths
    (batch and channels, for example) may be None. Raise ValueError for other shapes. `rank` contains the permitted
    numbers of entries.
    """
    if shape is None:
        raise ValueError("%s must be given, because the other two shapes do not determine it" % name)
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
    """Return the gradient of a convolution with respect to its images, computed by an Op of the class `op`."""
    if input_shape is None:
        gradient = op(None, filter_shape, *parameters)
        if max(gradient.subsample) == 1:
            # Without strides, the lengths of the images follow from the lengths of the kernels and of the output.
            output_grad, filters = as_tensor_variable(output_grad), as_tensor_variable(filters)
            axes = zip(gradient.implementation().axes, filters.shape[-convdim:], output_grad.shape[2:])
            return gradient(filters, output_grad, stack([axis.image(k, o) for axis, k, o in axes]))
    lengths, imshp = _lengths_of(input_shape, "input_shape", (2 + convdim,))
    return op(imshp, filter_shape, *parameters)(filters, output_grad, lengths)


def conv2d_grad_wrt_inputs(
    output_grad: TensorLike,
    filters: TensorLike,
    input_shape: Sequence[Any] | None,
    filter_shape: Sequence[Any] | None = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1),
    filter_flip: bool = True,
    filter_dilation: Any = (1, 1),
    num_groups: int = 1,
    unshared: bool = False,
) -> TensorVariable:
    """Return the gradient of a convolution with respect to its images.

    Parameters
    ----------
    output_grad : (batch, output channels, output rows, output columns) tensor
        The gradient with respect to the output.
    filters : tensor
        Kernels, as for :func:`conv2d`.
    input_shape : sequence of 4
        The shape of the images. Batch and channels are int, constant or None; rows and columns are int, constant or
        scalar variable. The shape may be None if `subsample` is (1, 1). With larger strides, images of different shapes
        have outputs of the same shape.
    filter_shape : None, or sequence of 4 or 6 ints, constants or None
    border_mode, subsample, filter_flip, filter_dilation, num_groups, unshared
        The parameters of the convolution; see :func:`conv2d`.

    Returns
    -------
    (batch, input channels, rows, columns) tensor

    Raises
    ------
    ValueError
        If `input_shape` does not have this form. At run time, if images of this shape do not have an output of the
        given shape.
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
    output_grad: TensorLike,
    filters: TensorLike,
    input_shape: Sequence[Any] | None,
    filter_shape: Sequence[Any] | None = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1, 1),
    filter_flip: bool = True,
    filter_dilation: Any = (1, 1, 1),
    num_groups: int = 1,
) -> TensorVariable:
    """Return the gradient of a convolution in three dimensions with respect to its images.

    Parameters
    ----------
    output_grad : (batch, output channels, output depth, output rows, output columns) tensor
    filters : (output channels, input channels, depth, rows, columns) tensor
    input_shape : sequence of 5
        The shape of the images. Batch and channels are int, constant or None; the other entries are int, constant or
        scalar variable. The shape may be None if `subsample` is (1, 1, 1).
    filter_shape : None, or sequence of 5 ints, constants or None
    border_mode, subsample, filter_flip, filter_dilation, num_groups
        The parameters of the convolution; see :func:`conv3d`.

    Returns
    -------
    (batch, input channels, depth, rows, columns) tensor

    Raises
    ------
    ValueError
        If `input_shape` does not have this form. At run time, if images of this shape do not have an output of the
        given shape.
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
    input: TensorLike,
    output_grad: TensorLike,
    filter_shape: Sequence[Any] | None,
    input_shape: Sequence[Any] | None = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1),
    filter_flip: bool = True,
    filter_dilation: Any = (1, 1),
    num_groups: int = 1,
    unshared: bool = False,
) -> TensorVariable:
    """Return the gradient of a convolution with respect to its kernels.

    Parameters
    ----------
    input : (batch, input channels, rows, columns) tensor
        Images.
    output_grad : (batch, output channels, output rows, output columns) tensor
        The gradient with respect to the output.
    filter_shape : sequence of 4, or if `unshared` of 4 or 6
        The shape of the kernels. The last two entries are int, constant or scalar variable. The other entries are int,
        constant or None.
    input_shape : None, or sequence of 4 ints, constants or None
    border_mode, subsample, filter_flip, filter_dilation, num_groups, unshared
        The parameters of the convolution; see :func:`conv2d`.

    Returns
    -------
    tensor of the shape of the kernels

    Raises
    ------
    ValueError
        If `filter_shape` does not have this form. At run time, if kernels of this shape do not give an output of the
        given shape.
    """
    lengths, kshp = _lengths_of(filter_shape, "filter_shape", (4, 6) if unshared else (4,))
    op = AbstractConv2d_gradWeights(
        input_shape, kshp, border_mode, subsample, filter_flip, filter_dilation, num_groups, unshared
    )
    return op(input, output_grad, lengths)


def conv3d_grad_wrt_weights(
    input: TensorLike,
    output_grad: TensorLike,
    filter_shape: Sequence[Any] | None,
    input_shape: Sequence[Any] | None = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1, 1),
    filter_flip: bool = True,
    filter_dilation: Any = (1, 1, 1),
    num_groups: int = 1,
) -> TensorVariable:
    """Return the gradient of a convolution in three dimensions with respect to its kernels.

    Parameters
    ----------
    input : (batch, input channels, depth, rows, columns) tensor
    output_grad : (batch, output channels, output depth, output rows, output columns) tensor
    filter_shape : sequence of 5
        The shape of the kernels. The last three entries are int, constant or scalar variable. The other entries are
        int, constant or None.
    input_shape : None, or sequence of 5 ints, constants or None
    border_mode, subsample, filter_flip, filter_dilation, num_groups
        The parameters of the convolution; see :func:`conv3d`.

    Returns
    -------
    (output channels, input channels, depth, rows, columns) tensor
    """
    lengths, kshp = _lengths_of(filter_shape, "filter_shape", (5,))
    op = AbstractConv3d_gradWeights(input_shape, kshp, border_mode, subsample, filter_flip, filter_dilation, num_groups)
    return op(input, output_grad, lengths)


def conv2d_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: Sequence[Any] | None,
    filter_shape: Sequence[Any] | None = None,
    border_mode: Any = "valid",
    input_dilation: Any = (1, 1),
    filter_flip: bool = True,
    filter_dilation: Any = (1, 1),
    num_groups: int = 1,
    unshared: bool = False,
) -> TensorVariable:
    """Compute the transposed convolution ("deconvolution") of images with kernels.

    The transposed convolution is the gradient of a convolution with respect to the images. The input of the transposed
    convolution has the shape of the output of the original convolution.

    Parameters
    ----------
    input : (batch, input channels, rows, columns) tensor
        Images.
    filters : (input channels, output channels, rows, columns) tensor
        Kernels of the original convolution, whose output channels are the input channels here, and vice versa.
    output_shape : sequence of 4
        The shape of the result. Batch and channels are int, constant or None; rows and columns are int, constant or
        scalar variable.
    filter_shape : None, or sequence of 4 or 6 ints, constants or None
    border_mode
        The padding of the original convolution. The transposed convolution crops this padding: 'valid' crops nothing,
        'full' crops the most.
    input_dilation : pair of int
        The strides of the original convolution.
    filter_flip, filter_dilation, num_groups, unshared
        See :func:`conv2d`.

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
    """Convolve each channel with separate kernels by the function `conv`, then mix the channels."""
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
    input: TensorLike,
    depthwise_filters: TensorLike,
    pointwise_filters: TensorLike,
    num_channels: int,
    input_shape: Sequence[Any] | None = None,
    depthwise_filter_shape: Sequence[Any] | None = None,
    pointwise_filter_shape: Sequence[Any] | None = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1),
    filter_flip: bool = True,
    filter_dilation: Any = (1, 1),
) -> TensorVariable:
    """Convolve each channel with separate kernels, then mix the channels pixel by pixel.

    Parameters
    ----------
    input : (batch, input channels, rows, columns) tensor
    depthwise_filters : (depthwise output channels, 1, rows, columns) tensor
        Kernels of the first step. Each input channel has the same number of kernels, so the number of depthwise output
        channels is a multiple of the number of input channels.
    pointwise_filters : (output channels, depthwise output channels, 1, 1) tensor
    num_channels : int
        The number of input channels.
    input_shape, depthwise_filter_shape, pointwise_filter_shape : None, or sequence of 4 ints, constants or None
    border_mode, subsample, filter_flip, filter_dilation
        The parameters of the first step; see :func:`conv2d`.

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
    input: TensorLike,
    depthwise_filters: TensorLike,
    pointwise_filters: TensorLike,
    num_channels: int,
    input_shape: Sequence[Any] | None = None,
    depthwise_filter_shape: Sequence[Any] | None = None,
    pointwise_filter_shape: Sequence[Any] | None = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1, 1),
    filter_flip: bool = True,
    filter_dilation: Any = (1, 1, 1),
) -> TensorVariable:
    """Convolve each channel with separate kernels, then mix the channels voxel by voxel.

    The function is :func:`separable_conv2d` in three dimensions.

    Parameters
    ----------
    input : (batch, input channels, depth, rows, columns) tensor
    depthwise_filters : (depthwise output channels, 1, depth, rows, columns) tensor
    pointwise_filters : (output channels, depthwise output channels, 1, 1, 1) tensor
    num_channels : int
        The number of input channels.
    input_shape, depthwise_filter_shape, pointwise_filter_shape : None, or sequence of 5 ints, constants or None
    border_mode, subsample, filter_flip, filter_dilation
        The parameters of the first step; see :func:`conv3d`.

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
    input: TensorLike,
    filters: TensorLike,
    filter_shape: Sequence[Any] | None,
    input_shape: Sequence[Any] | None = None,
    subsample: Any = 1,
    filter_flip: bool = True,
    filter_dilation: Any = 1,
    num_groups: int = 1,
    unshared: bool = False,
) -> TensorVariable:
    """Convolve series with kernels so that no output depends on later inputs.

    Zeros are added before the first element, and no zeros after the last element, so output t depends only on the
    inputs up to t. See A. van den Oord et al., "WaveNet: A Generative Model for Raw Audio", section 2.1,
    https://arxiv.org/abs/1609.03499.

    Parameters
    ----------
    input : (batch, input channels, length) tensor
    filters : (output channels, input channels, length) tensor
        Kernels. If `unshared`, their shape is (output channels, output length, input channels, length).
    filter_shape : sequence of 3, or if `unshared` of 4
        The shape of `filters`. The last entry is int, constant or scalar variable. The other entries are int, constant
        or None.
    input_shape : None, or sequence of 3 ints, constants or None
    subsample : int
        The stride.
    filter_flip : bool
        Whether kernels are reversed.
    filter_dilation : int
        The distance in the input between neighboring elements of a kernel.
    num_groups : int
    unshared : bool
        Whether each position of the output has a separate kernel.

    Returns
    -------
    (batch, output channels, output length) tensor

    Raises
    ------
    ValueError
        If an argument does not have the rank given above, or if a shape has a wrong number of entries.
    """
    input, filters = as_tensor_variable(input), as_tensor_variable(filters)
    rank = 4 if unshared else 3
    if input.ndim != 3:
        raise ValueError("Input should be 3D for causal convolution, got %s" % input.type)
    if filters.ndim != rank:
        raise ValueError("Filters should be %dD for causal convolution, got %s" % (rank, filters.type))
    if filter_shape is None or len(filter_shape) != rank or filter_shape[-1] is None:
        raise ValueError(
            "filter_shape must have %d entries, and the last one must be known, got %s" % (rank, filter_shape)
        )
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
    border_mode: Any
    if length is None:
        # The padding depends on the length of the kernels, which is not constant here. A border mode must be constant,
        # so add the zeros to the images explicitly.
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
