"""Convolution of images without channels."""

from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.nnet.convolution.legacy import convolved

__all__ = ["conv2d"]


def _with_channel(x, shape, name):
    """Images with a batch and one channel, and their shape likewise; ValueError for ranks other than 2 and 3."""
    x = as_tensor_variable(x)
    if x.ndim not in (2, 3):
        raise ValueError("%s must be a 2D or 3D tensor, got %s" % (name, x.type))
    if shape is not None:
        if len(shape) != x.ndim:
            raise ValueError("the shape of %s must have %d entries, got %s" % (name, x.ndim, tuple(shape)))
        shape = (1, 1, *shape) if x.ndim == 2 else (shape[0], 1, *shape[1:])
    return x.dimshuffle(*(("x", "x", 0, 1) if x.ndim == 2 else (0, "x", 1, 2))), shape, x.ndim


def conv2d(input, filters, image_shape=None, filter_shape=None, border_mode="valid", subsample=(1, 1), **kargs):
    """Convolve each image with each filter.

    Parameters
    ----------
    input : (rows, columns) or (images, rows, columns) tensor
    filters : (rows, columns) or (filters, rows, columns) tensor
        They are flipped.
    image_shape, filter_shape : None, or sequence of as many ints, constants or None
        The shapes of the two, as far as they are known; checked at run time.
    border_mode : {'valid', 'full'}
        Whether filters are applied where they lie inside images, or wherever they meet them.
    subsample : pair of int
        Strides.
    **kargs
        Of :class:`theano_ng.tensor.nnet.conv.ConvOp`.

    Returns
    -------
    tensor
        (rows, columns), after images and filters where there are several: (images, filters, rows, columns), (images, rows, columns) or (filters,
        rows, columns).

    Raises
    ------
    ValueError, TypeError
        For parameters that are none of these, and shapes that do not fit.
    """
    images, image_shape, image_ndim = _with_channel(input, image_shape, "input")
    kernels, filter_shape, filter_ndim = _with_channel(filters, filter_shape, "filters")
    output = convolved(images, kernels, image_shape, filter_shape, border_mode, subsample, **kargs)
    if image_ndim == 2:
        output = output[0]
    return output[..., 0, :, :] if filter_ndim == 2 else output
