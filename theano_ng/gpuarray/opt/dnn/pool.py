"""Rules for pooling by cuDNN. They apply on request, because the package's own kernels read and write each element
once, too, and give the gradient of a maximum to all elements that are maximal, as the host does.
"""

from theano_ng.gpuarray.dnn.base import DTYPES
from theano_ng.gpuarray.dnn.pool import GpuDnnPoolGrad, dnn_pool, times_number, window_size
from theano_ng.gpuarray.opt.dnn.base import lifts_on_request, uses_cudnn
from theano_ng.gpuarray.opt.pooling import pool_groups
from theano_ng.gpuarray.opt_util import pad_dims, unpad_dims
from theano_ng.gpuarray.transfers import as_gpuarray_variable
from theano_ng.gpuarray.twin import host_variable
from theano_ng.tensor.signal.pool import AveragePoolGrad, MaxPoolGrad, Pool


def _images(op, context_name, inputs):
    """Return the arrays of a node as images or volumes with two more axes, and ws, stride and pad. Return None, None if
    cuDNN does not compute the node.
    """
    arrays = [as_gpuarray_variable(v, context_name) for v in inputs[:-3]]
    if (
        not op.ignore_border
        or op.ndim not in (2, 3)
        or {v.dtype for v in arrays} - set(DTYPES)
        or not uses_cudnn(arrays[0])
    ):
        return None, None
    return [pad_dims(v, 2, op.ndim) for v in arrays], [host_variable(v) for v in inputs[-3:]]


@lifts_on_request(Pool, group=pool_groups)
def local_gpua_pool_dnn_alternative(op, ctx_name, inputs, outputs):
    """Pool(True)(host(M), (2, 2))  ->  host(GpuDnnPool("max")(M, (2, 2)))

    This applies only if the mode includes the tag ``cudnn``.
    """
    images, windows = _images(op, ctx_name, inputs)
    if images is None:
        return False
    ws, stride, pad = windows
    pooled = dnn_pool(images[0], ws, stride, op.mode, pad)
    return [unpad_dims(pooled, as_gpuarray_variable(inputs[0], ctx_name), 2, op.ndim)]


@lifts_on_request(MaxPoolGrad, group=pool_groups)
def local_gpua_pool_dnn_grad_stride(op, ctx_name, inputs, outputs):
    """MaxPoolGrad(True)(host(M), host(N), host(N), (2, 2))  ->  host(GpuDnnPoolGrad("max")(M, N, N, (2, 2)))

    This applies only if the mode includes the tag ``cudnn``. If several elements of a window are maximal, cuDNN may
    give the gradient to any of them.
    """
    images, windows = _images(op, ctx_name, inputs)
    if images is None:
        return False
    found = GpuDnnPoolGrad("max")(*images, *windows)
    return [unpad_dims(found, as_gpuarray_variable(inputs[0], ctx_name), 2, op.ndim)]


@lifts_on_request(AveragePoolGrad, group=pool_groups)
def local_gpua_avg_pool_dnn_grad_stride(op, ctx_name, inputs, outputs):
    """AveragePoolGrad(True, "average_inc_pad")(host(M), host(N), (2, 2))  ->
    host(GpuDnnPoolGrad("average_inc_pad")(M, N, N, (2, 2)))

    This applies only if the mode includes the tag ``cudnn``.
    """
    images, windows = _images(op, ctx_name, inputs)
    if images is None:
        return False
    image, gradient = images
    mode = "average_inc_pad" if op.mode == "sum" else op.mode
    found = GpuDnnPoolGrad(mode)(image, gradient, gradient, *windows)
    if op.mode == "sum":
        found = times_number(found, window_size(found, windows[0]))
    return [unpad_dims(found, as_gpuarray_variable(inputs[0], ctx_name), 2, op.ndim)]
