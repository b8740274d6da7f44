"""Convolution and pooling of images by products with sparse matrices."""

import numpy as np
import scipy.sparse

from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.sparse.conversion import CSM
from theano_ng.sparse.products import structured_dot
from theano_ng.sparse.shaping import Remove0, diag, ensure_sorted_indices, remove0, square_diagonal
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.linalg.products import dot
from theano_ng.tensor.opt.registration import register_specialize
from theano_ng.tensor.type import TensorType

__all__ = [
    "ConvolutionIndices",
    "Remove0",
    "convolution_indices",
    "convolve",
    "diag",
    "ensure_sorted_indices",
    "max_pool",
    "register_specialize",
    "remove0",
    "square_diagonal",
]


def _image_shape(inshp):
    """Return (channels, height, width) for an image shape. The number of channels is 1 if the shape lacks it."""
    inshp = tuple(int(n) for n in np.asarray(inshp))
    if len(inshp) not in (2, 3) or min(inshp) < 1:
        raise ValueError(
            "the shape of an image must be (height, width) or (channels, height, width), not %s" % (inshp,)
        )
    return inshp if len(inshp) == 3 else (1, *inshp)


class ConvolutionIndices(Op):
    """An Op that computes the structure of a sparse csc matrix, with which convolution becomes a matrix product.

    The product of the matrix and an image is the stack of all patches of the image to which the kernel is applied. The
    convolution is the product of this stack and the kernels. The inputs of the Op are the shapes of the image and of
    the kernel. The outputs are indices, indptr, the shape of the matrix and the shape of the result.
    """

    __props__ = ()

    @staticmethod
    def evaluate(inshp, kshp, strides=(1, 1), nkern=1, mode="valid", ws=True):
        """Compute the structure of the matrix.

        Parameters
        ----------
        inshp : (height, width) or (channels, height, width)
            The shape of an image.
        kshp : (height, width)
            The shape of a kernel.
        strides : (dx, dy)
            The distances between patches: horizontally and vertically.
        nkern : int
            The number of kernels. The patches are the same for all kernels.
        mode : {'valid', 'full'}
            'valid': only patches inside of the image. 'full': all patches that overlap the image, padded with zeros.
        ws : bool
            True, because kernels share weights. Other values raise an exception.

        Returns
        -------
        indices, indptr : ndarray
        logical_shape : tuple
            The shape of the matrix: the number of elements of all patches, and the number of elements of the image.
        sp_type : str
            'csc'.
        out_img_shp : ndarray
            The numbers of patches in the vertical and horizontal directions.

        Raises
        ------
        ValueError
            If no patch fits into the image, and for invalid modes and numbers of kernels.
        Exception
            If `ws` is not True.

        Examples
        --------
        >>> from theano_ng.sparse.sandbox.sp import ConvolutionIndices
        >>> indices, indptr, shape, kind, out = ConvolutionIndices.evaluate((3, 3), (2, 2))
        >>> shape, kind, out.tolist()
        ((16, 9), 'csc', [2, 2])
        """
        if not ws:
            raise Exception("ws is obsolete and it must be always True")
        if mode not in ("valid", "full"):
            raise ValueError("mode must be 'valid' or 'full', not %r" % (mode,))
        if nkern < 1:
            raise ValueError("nkern must be the number of kernels, not %r" % (nkern,))
        channels, height, width = _image_shape(inshp)
        (tall, wide), (dx, dy) = (int(n) for n in kshp), (int(n) for n in strides)
        border = (tall - 1, wide - 1) if mode == "full" else (0, 0)
        spans = height + 2 * border[0] - tall + 1, width + 2 * border[1] - wide + 1
        if min(spans) < 1 or min(tall, wide, dx, dy) < 1:
            raise ValueError(
                "Invalid kernel",
                np.array(kshp),
                "and/or step size",
                (dx, dy),
                "for given input shape",
                np.array((channels, height, width)),
            )
        out = np.array([-(-spans[0] // dy), -(-spans[1] // dx)])
        # i, j: row and column of a patch among all patches. c: channel. u, v: row and column of an element in a patch.
        i, j, c, u, v = np.ogrid[: out[0], : out[1], :channels, :tall, :wide]
        y, x = i * dy + u - border[0], j * dx + v - border[1]
        size = channels * tall * wide
        place = (i * out[1] + j) * size + (c * tall + u) * wide + v
        pixel = (c * height + y) * width + x
        inside = (0 <= y) & (y < height) & (0 <= x) & (x < width)
        place, pixel, inside = np.broadcast_arrays(place, pixel, inside)
        place, pixel = place[inside], pixel[inside]
        shape = (int(out[0] * out[1]) * size, channels * height * width)
        matrix = scipy.sparse.csc_matrix((np.ones(len(place)), (place, pixel)), shape=shape)
        matrix.sort_indices()
        return matrix.indices, matrix.indptr, shape, "csc", out

    def make_node(self, inshp, kshp):
        inputs = [as_tensor_variable(v) for v in (inshp, kshp)]
        for v in inputs:
            if v.ndim != 1 or not v.dtype.startswith(("int", "uint")):
                raise TypeError("%s: shapes must be vectors of integers, not %s" % (self, v.type))
        vector = TensorType("int64", (False,))
        return Apply(self, inputs, [vector() for _ in range(4)])

    def perform(self, node, inputs, outputs):
        indices, indptr, shape, _, out = self.evaluate(*inputs)
        for cell, value in zip(outputs, (indices, indptr, shape, out)):
            cell[0] = np.asarray(value, dtype="int64")


convolution_indices = ConvolutionIndices()


def _patches(images, imgshp, kshp, step, nkern, mode):
    """Return a matrix with the elements of all patches of images, and the numbers of patches (vertical, horizontal).

    The matrix has a row for each image. A row contains one patch after the other.
    """
    indices, indptr, shape, _, out = ConvolutionIndices.evaluate(imgshp, kshp, step, nkern, mode)
    matrix = CSM("csc")(np.ones(len(indices), dtype=images.dtype), indices, indptr, np.asarray(shape, dtype="int32"))
    return structured_dot(matrix, images.T).T, out


def convolve(kerns, kshp, nkern, images, imgshp, step=(1, 1), bias=None, mode="valid", flatten=True):
    """Convolve images with kernels, by a product with a sparse matrix. Kernels are not flipped (cross-correlation).

    Parameters
    ----------
    kerns : matrix
        The kernels, one per row in raster order. The shape is ``(nkern, channels * prod(kshp))``.
    kshp : (height, width)
        The shape of a kernel.
    nkern : int
        The number of kernels.
    images : matrix
        The images, one per row in raster order.
    imgshp : (height, width) or (channels, height, width)
        The shape of an image.
    step : (dx, dy)
        The horizontal and vertical distance between receptive fields.
    bias : vector, optional
        A number for each kernel, which is added to the feature map of the kernel.
    mode : {'valid', 'full'}
        'valid': positions at which the kernel is inside of the image. 'full': positions at which kernel and image
        overlap.
    flatten : bool
        If True, the result is a matrix. Otherwise it has three dimensions.

    Returns
    -------
    result : TensorVariable
        The feature maps, one after the other, with shape ``(batch, nkern * outsize)``. If `flatten` is False, the shape
        is ``(batch, nkern, outsize)``.
    shape : ndarray
        The ``(nkern, height, width)`` of the feature maps.
    """
    kerns, images = as_tensor_variable(kerns), as_tensor_variable(images)
    stacked, out = _patches(images, imgshp, kshp, step, nkern, mode)
    outsize = int(np.prod(out))
    size = _image_shape(imgshp)[0] * int(np.prod(kshp))
    result = dot(stacked.reshape((images.shape[0] * outsize, size)), kerns.T)
    if bias is not None:
        result = result + bias
    result = result.reshape((images.shape[0], outsize, nkern)).dimshuffle(0, 2, 1)
    if flatten:
        result = result.flatten(2)
    return result, np.concatenate([[int(nkern)], out])


def max_pool(images, imgshp, maxpoolshp):
    """Compute the maximum of each window of images. The windows are adjacent and do not overlap.

    Parameters
    ----------
    images : matrix
        The images, one per row in raster order.
    imgshp : (height, width) or (channels, height, width)
        The shape of an image.
    maxpoolshp : (height, width)
        The shape of a window. Incomplete windows at the lower and right borders are ignored.

    Returns
    -------
    result : TensorVariable
        The pooled images, with shape ``(batch, channels * outsize)``.
    shape : ndarray
        The (height, width) of a pooled channel.
    """
    images = as_tensor_variable(images)
    channels = _image_shape(imgshp)[0]
    stacked, out = _patches(images, imgshp, maxpoolshp, tuple(maxpoolshp)[::-1], 1, "valid")
    window = int(np.prod(maxpoolshp))
    pooled = stacked.reshape((images.shape[0], int(np.prod(out)), channels, window)).max(axis=3)
    return pooled.dimshuffle(0, 2, 1).flatten(2), out
