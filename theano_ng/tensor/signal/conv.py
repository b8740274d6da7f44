"""Convolution of images without channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.nnet.convolution.legacy import convolved

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["conv2d"]


def _with_channel(x, shape, name):
    """Add a channel axis, and a batch axis if it is missing, to images and to their shape.

    Return the images, the shape, and the original rank. Raise ValueError for ranks other than 2 and 3.
    """
    x = as_tensor_variable(x)
    if x.ndim not in (2, 3):
        raise ValueError("%s must be a 2D or 3D tensor, got %s" % (name, x.type))
    if shape is not None:
        if len(shape) != x.ndim:
            raise ValueError("the shape of %s must have %d entries, got %s" % (name, x.ndim, tuple(shape)))
        shape = (1, 1, *shape) if x.ndim == 2 else (shape[0], 1, *shape[1:])
    return x.dimshuffle(*(("x", "x", 0, 1) if x.ndim == 2 else (0, "x", 1, 2))), shape, x.ndim


def conv2d(
    input: TensorLike,
    filters: TensorLike,
    image_shape: Sequence[Any] | None = None,
    filter_shape: Sequence[Any] | None = None,
    border_mode: str = "valid",
    subsample: Sequence[int] = (1, 1),
    **kargs: Any,
) -> TensorVariable:
    """Convolve each image with each filter.

    Parameters
    ----------
    input : (rows, columns) or (images, rows, columns) tensor
    filters : (rows, columns) or (filters, rows, columns) tensor
        The filters are flipped.
    image_shape, filter_shape : None, or sequence of ints, constants or None
        The shapes of `input` and `filters`, with one entry per dimension. None means an unknown length. The other
        entries are checked at run time.
    border_mode : {'valid', 'full'}
        'valid' applies the filters only where they lie completely inside the image. 'full' applies them wherever they
        overlap the image.
    subsample : pair of int
        The strides.
    **kargs
        Further parameters of :class:`theano_ng.tensor.nnet.conv.ConvOp`.

    Returns
    -------
    tensor
        A tensor of shape (images, filters, rows, columns). If `input` is a single image, the first dimension is
        missing. If `filters` is a single filter, the dimension of filters is missing.

    Raises
    ------
    ValueError, TypeError
        If a parameter is invalid, or if shapes do not fit.
    """
    images, image_shape, image_ndim = _with_channel(input, image_shape, "input")
    kernels, filter_shape, filter_ndim = _with_channel(filters, filter_shape, "filters")
    output = convolved(images, kernels, image_shape, filter_shape, border_mode, subsample, **kargs)
    if image_ndim == 2:
        output = output[0]
    return output[..., 0, :, :] if filter_ndim == 2 else output
