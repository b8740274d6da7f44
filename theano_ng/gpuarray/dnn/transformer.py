"""Spatial transformers by cuDNN (M. Jaderberg, K. Simonyan, A. Zisserman, K. Kavukcuoglu, Spatial Transformer Networks,
2015, arXiv:1506.02025).
"""

from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.differentiate import Lop
from theano_ng.gof.graph import Apply
from theano_ng.gpuarray.dnn.base import DnnOp, dnn_inputs
from theano_ng.gpuarray.transfers import as_gpuarray_variable, infer_context_name
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.functions import cast, ceil, clip, floor, maximum, switch
from theano_ng.tensor.shaping.creation import arange
from theano_ng.tensor.shaping.joining import stack

__all__ = [
    "GpuDnnTransformerGradI",
    "GpuDnnTransformerGradT",
    "GpuDnnTransformerGrid",
    "GpuDnnTransformerSampler",
    "dnn_spatialtf",
]


class _Transformer(DnnOp):
    """The base class of the Ops of spatial transformers. All arrays have one dtype."""

    __props__ = ()
    function = None

    def fails_on_values(self, node):
        return True  # the shapes may not fit

    def native_code(self, node):
        return self.dnn_code(node, "cudnn_transformer:" + self.function, typecode=node.inputs[0].type.typecode)


def _points(rows, columns, dtype):
    """Return the coordinates (x, y, 1) of the pixels of an image as a matrix with 3 rows."""

    def along(length):
        return 2 * arange(length).astype(dtype) / cast(maximum(length - 1, 1), dtype) - 1

    shape = (rows, columns)
    x, y = along(columns).dimshuffle("x", 0), along(rows).dimshuffle(0, "x")
    ones = (x + y).ones_like()
    return stack([(v * ones).reshape((shape[0] * shape[1],)) for v in (x, y, ones)])


class GpuDnnTransformerGrid(_Transformer):
    """Compute the points of images from which the pixels of new images are taken, on a CUDA device, by cuDNN.

    Inputs: theta (images, 2, 3), float16, float32 or float64, with an affine map for each image; out_dims, the shape
    (images, channels, rows, columns) of the new images, as a tuple or an integer vector on the host. Output: a grid
    (images, rows, columns, 2) with the products of the rows of theta and (x, y, 1), where x and y, the column and the
    row of the new pixel, go from -1 to 1.

    Raises
    ------
    ValueError
        At run time, if theta does not have the shape (images, 2, 3).
    TypeError
        For other numbers of axes and dtypes.
    """

    function = "grid"

    def make_node(self, theta, out_dims):
        (theta,) = dnn_inputs(self, {"theta": theta}, 3)
        out_dims = as_tensor_variable(stack(list(out_dims)) if isinstance(out_dims, (list, tuple)) else out_dims)
        if out_dims.ndim != 1 or out_dims.dtype not in DISCRETE:
            raise TypeError("%s: out_dims must be four integers; got %s" % (self, out_dims.type))
        grid = GpuArrayType(theta.dtype, (theta.broadcastable[0], False, False, False), theta.type.context_name)
        return Apply(self, [theta, cast(out_dims, "int64")], [grid()])

    def infer_shape(self, node, shapes):
        dims = node.inputs[1]
        return [(dims[0], dims[2], dims[3], 2)]

    def connection_pattern(self, node):
        return [[True], [False]]

    def formula(self, theta, out_dims):
        rows, columns = out_dims[2], out_dims[3]
        flat = theta.reshape((theta.shape[0] * 2, 3)).dot(_points(rows, columns, theta.dtype))
        return [flat.reshape((theta.shape[0], 2, rows, columns)).dimshuffle(0, 2, 3, 1)]

    def grad(self, inputs, grads):
        return [GpuDnnTransformerGradT()(grads[0]), DisconnectedType()()]


class GpuDnnTransformerGradT(_Transformer):
    """Gradient of `GpuDnnTransformerGrid` with respect to theta.

    Input: dgrid (images, rows, columns, 2), the gradient with respect to the grid. Output: (images, 2, 3).
    """

    function = "grid_gradient"

    def make_node(self, dgrid):
        (dgrid,) = dnn_inputs(self, {"dgrid": dgrid}, 4)
        theta = GpuArrayType(dgrid.dtype, (dgrid.broadcastable[0], False, False), dgrid.type.context_name)
        return Apply(self, [dgrid], [theta()])

    def infer_shape(self, node, shapes):
        return [(shapes[0][0], 2, 3)]

    def formula(self, dgrid):
        n, rows, columns, _ = [dgrid.shape[i] for i in range(4)]
        flat = dgrid.dimshuffle(0, 3, 1, 2).reshape((n * 2, rows * columns))
        return [flat.dot(_points(rows, columns, dgrid.dtype).T).reshape((n, 2, 3))]


def _sampled(img, grid):
    """Return images whose pixels are interpolated between four pixels of images. Outside, images are 0."""
    n, channels, rows, columns = [img.shape[i] for i in range(4)]
    flat = img.dimshuffle(0, 2, 3, 1).reshape((n * rows * columns, channels))
    x, y = [(grid[:, :, :, k] + 1) * cast(length - 1, img.dtype) / 2 for k, length in enumerate((columns, rows))]
    left, top = floor(x), floor(y)
    first = (arange(n) * rows * columns).dimshuffle(0, "x", "x")
    total = 0
    for right in (0, 1):
        for below in (0, 1):
            column, row = left + right, top + below
            of_x = x - left if right else 1 - (x - left)
            of_y = y - top if below else 1 - (y - top)
            inside = (column >= 0) * (column < columns) * (row >= 0) * (row < rows)
            index = (
                first + cast(clip(row, 0, rows - 1), "int64") * columns + cast(clip(column, 0, columns - 1), "int64")
            )
            pixels = flat[index.flatten()].reshape((n, grid.shape[1], grid.shape[2], channels))
            total = total + pixels * switch(inside, of_x * of_y, 0).dimshuffle(0, 1, 2, "x")
    return total.dimshuffle(0, 3, 1, 2)


class GpuDnnTransformerSampler(_Transformer):
    """Take the pixels of new images from points of images, on a CUDA device, by cuDNN, with bilinear interpolation.

    Inputs: img (images, channels, rows, columns), float16, float32 or float64; grid (images, new rows, new columns, 2),
    the points x, y of the new pixels. Columns and rows of an image go from -1 to 1, and outside it is 0. Output: the
    new images.

    Raises
    ------
    ValueError
        At run time, if the shape of the grid does not fit.
    TypeError
        For other numbers of axes and dtypes.
    """

    function = "sample"

    def make_node(self, img, grid):
        img, grid = dnn_inputs(self, {"img": img, "grid": grid}, 4)
        flags = img.broadcastable[:2] + grid.broadcastable[1:3]
        return Apply(self, [img, grid], [GpuArrayType(img.dtype, flags, img.type.context_name)()])

    def infer_shape(self, node, shapes):
        img, grid = shapes
        return [(img[0], img[1], grid[1], grid[2])]

    def formula(self, img, grid):
        return [cast(_sampled(img, grid), img.dtype)]

    def grad(self, inputs, grads):
        return GpuDnnTransformerGradI()(*inputs, grads[0], return_list=True)


class GpuDnnTransformerGradI(_Transformer):
    """Gradient of `GpuDnnTransformerSampler` with respect to the images and the grid.

    Inputs: img, grid, and dy, the gradient with respect to the new images. Outputs: arrays like img and grid.
    """

    function = "sample_gradient"

    def make_node(self, img, grid, dy):
        img, grid, dy = dnn_inputs(self, {"img": img, "grid": grid, "dy": dy}, 4)
        return Apply(self, [img, grid, dy], [img.type(), grid.type()])

    def infer_shape(self, node, shapes):
        return shapes[:2]

    def formula(self, img, grid, dy):
        return Lop([_sampled(img, grid)], [img, grid], [dy])


def dnn_spatialtf(img, theta, scale_width=1, scale_height=1):
    """Transform images by affine maps, on a CUDA device, by cuDNN.

    Parameters
    ----------
    img : 4-d tensor
        The images (images, channels, rows, columns), float16, float32 or float64.
    theta : 3-d tensor
        Affine maps (images, 2, 3), of the dtype of `img`. A pixel (x, y) of a new image is taken from the point
        ``theta.dot([x, y, 1])`` of the image. Columns and rows go from -1 to 1, and outside an image is 0.
    scale_width, scale_height : float
        The size of the new images, relative to the images: 1 keeps it, more enlarges, less reduces. It is rounded up.

    Returns
    -------
    variable on a device
        The new images, by bilinear interpolation.

    Raises
    ------
    ValueError
        At run time, if theta does not have the shape (images, 2, 3).
    TypeError
        For other numbers of axes and dtypes.
    RuntimeError
        If a function is compiled for a device that cannot use cuDNN.

    Notes
    -----
    cuDNN does not document which column is taken if a new image has only one, nor which row.
    """
    context_name = infer_context_name(img, theta)
    img, theta = [as_gpuarray_variable(v, context_name) for v in (img, theta)]
    rows, columns = [
        cast(ceil(img.shape[axis] * scale), "int64") for axis, scale in ((2, scale_height), (3, scale_width))
    ]
    grid = GpuDnnTransformerGrid()(theta, (img.shape[0], img.shape[1], rows, columns))
    return GpuDnnTransformerSampler()(img, grid)
