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
from theano_ng.tensor.opt.own_registration import register_specialize
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
    """(channels, height, width) of what may lack the channels."""
    inshp = tuple(int(n) for n in np.asarray(inshp))
    if len(inshp) not in (2, 3) or min(inshp) < 1:
        raise ValueError("the shape of an image is (height, width) or (channels, height, width), not %s" % (inshp,))
    return inshp if len(inshp) == 3 else (1, *inshp)


class ConvolutionIndices(Op):
    """The structure of the sparse csc matrix whose product with an image is the stack of the patches that a kernel meets.

    Convolution is the product of that stack with the kernels. As an Op: the inputs are the shape of the image and that of the kernel, and the
    outputs indices, indptr, the shape of the matrix and that of the result.
    """

    __props__ = ()

    @staticmethod
    def evaluate(inshp, kshp, strides=(1, 1), nkern=1, mode="valid", ws=True):
        """The structure of the matrix.

        Parameters
        ----------
        inshp : (height, width) or (channels, height, width)
            Of an image.
        kshp : (height, width)
            Of a kernel.
        strides : (dx, dy)
            How far patches are from each other: along a row, and from row to row.
        nkern : int
            How many kernels there are. Patches are the same for all of them.
        mode : {'valid', 'full'}
            Patches inside of the image alone, or all that meet it, with zeros around the image.
        ws : bool
            True: kernels share weights. There is nothing else.

        Returns
        -------
        indices, indptr : ndarray
        logical_shape : tuple
            Of the matrix: elements of all patches, elements of the image.
        sp_type : str
            'csc'.
        out_img_shp : ndarray
            How many patches there are below and beside each other.

        Raises
        ------
        ValueError
            When no patch fits, and for another mode or number of kernels.
        Exception
            When `ws` is not True.

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
            raise ValueError("mode is 'valid' or 'full', not %r" % (mode,))
        if nkern < 1:
            raise ValueError("nkern is the number of kernels, not %r" % (nkern,))
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
        # One axis each: row and column of the patch, channel, row and column in the patch.
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
                raise TypeError("%s: shapes are vectors of integers, not %s" % (self, v.type))
        vector = TensorType("int64", (False,))
        return Apply(self, inputs, [vector() for _ in range(4)])

    def perform(self, node, inputs, outputs):
        indices, indptr, shape, _, out = self.evaluate(*inputs)
        for cell, value in zip(outputs, (indices, indptr, shape, out)):
            cell[0] = np.asarray(value, dtype="int64")


convolution_indices = ConvolutionIndices()


def _patches(images, imgshp, kshp, step, nkern, mode):
    """All elements of all patches, (places, elements of patches, batch), as a matrix of as many columns as there are images."""
    indices, indptr, shape, _, out = ConvolutionIndices.evaluate(imgshp, kshp, step, nkern, mode)
    matrix = CSM("csc")(np.ones(len(indices), dtype=images.dtype), indices, indptr, np.asarray(shape, dtype="int32"))
    return structured_dot(matrix, images.T).T, out


def convolve(kerns, kshp, nkern, images, imgshp, step=(1, 1), bias=None, mode="valid", flatten=True):
    """Convolution by a product with a sparse matrix. (Kernels are not turned round: it is a correlation.)

    Parameters
    ----------
    kerns : matrix
        A kernel in each row, ``(nkern, channels * prod(kshp))``, in raster order.
    kshp : (height, width)
        Of a kernel.
    nkern : int
        How many kernels there are.
    images : matrix
        An image in each row, in raster order.
    imgshp : (height, width) or (channels, height, width)
        Of an image.
    step : (dx, dy)
        How far receptive fields are from each other, in columns and in rows.
    bias : vector, optional
        Added to what the kernels give, an element for each.
    mode : {'valid', 'full'}
        Where kernel and image overlap wholly, or at all.
    flatten : bool
        Whether the result is a matrix.

    Returns
    -------
    result : TensorVariable
        ``(batch, nkern * outsize)``, one feature map after the other, or ``(batch, nkern, outsize)`` if not `flatten`.
    shape : ndarray
        ``(nkern, height, width)`` of the result.
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
    """The greatest element of each window of images; windows lie side by side.

    Parameters
    ----------
    images : matrix
        An image in each row, in raster order.
    imgshp : (height, width) or (channels, height, width)
        Of an image.
    maxpoolshp : (height, width)
        Of a window. What is left at the lower and right border belongs to no window.

    Returns
    -------
    result : TensorVariable
        ``(batch, channels * outsize)``.
    shape : ndarray
        (height, width) of a pooled channel.
    """
    images = as_tensor_variable(images)
    channels = _image_shape(imgshp)[0]
    stacked, out = _patches(images, imgshp, maxpoolshp, tuple(maxpoolshp)[::-1], 1, "valid")
    window = int(np.prod(maxpoolshp))
    pooled = stacked.reshape((images.shape[0], int(np.prod(out)), channels, window)).max(axis=3)
    return pooled.dimshuffle(0, 2, 1).flatten(2), out
