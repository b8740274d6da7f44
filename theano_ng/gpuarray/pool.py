"""Pooling on devices, and its gradients.

The Ops support the parameters, dtypes and numbers of axes of `tensor.signal.pool`. The inputs ws, stride and pad stay on the
host. Arrays may have any strides. float16 is summed in float32.
"""

from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.classic_imports import CLASSIC_IMPORTS
from theano_ng.gpuarray.kernels import pooling as kernels
from theano_ng.gpuarray.transfers import as_gpuarray_variable, infer_context_name
from theano_ng.gpuarray.twin import TwinOp, on_host
from theano_ng.lazy import lazy_names
from theano_ng.tensor.signal import pool as host
from theano_ng.tensor.signal.pool import PoolingMode_t
from theano_ng.tensor.signal.pool_windows import known

__all__ = [
    "GpuAveragePoolGrad",
    "GpuDownsampleFactorMaxGradGrad",
    "GpuMaxPoolGrad",
    "GpuMaxPoolRop",
    "GpuPool",
    "PoolingMode_t",
]

# Names that the classic module had, too
__getattr__, __dir__, _ = lazy_names(__name__, CLASSIC_IMPORTS)

# Numbers up to this limit become constants of the kernel, so that the compiler unrolls loops.
_LARGEST_CONSTANT = 64


class _Pooling(TwinOp):
    """The base class of the Ops of this module.

    Parameters
    ----------
    ignore_border : bool
    mode : {'max', 'sum', 'average_inc_pad', 'average_exc_pad'}
    ndim : int
        The number of pooled axes. The last axes are pooled.

    Raises
    ------
    ValueError
        If the mode or `ndim` is invalid.

    Attributes
    ----------
    kind : int
        A constant of `kernels.pooling`.
    """

    __props__ = ("ignore_border", "mode", "ndim")
    kind = None

    def __init__(self, ignore_border, mode="max", ndim=2):
        self.ignore_border, self.mode, self.ndim = ignore_border, mode, ndim
        self.mode = self.host_op(None).mode  # raises an error if an argument is invalid

    def tensors_to_node(self, tensors, ws, stride, pad):
        """Return a node for these tensors and windows."""
        context_name = infer_context_name(*[v for v in tensors if hasattr(v, "type")])
        tensors = [as_gpuarray_variable(v, context_name) for v in tensors]
        node = self.host_op(None).make_node(
            *on_host(tensors), *[v if v is None else on_host([v])[0] for v in (ws, stride, pad)]
        )
        inputs = [as_gpuarray_variable(v, context_name) for v in node.inputs[:-3]] + node.inputs[-3:]
        return self.on_device(inputs, node, context_name)

    def native_code(self, node):
        x = node.inputs[0].type
        numbers = [known(v) for v in node.inputs[-3:]]
        if any(v is None or max(v) > _LARGEST_CONSTANT for v in numbers):
            numbers = None
        whole = bool(self.ignore_border) and numbers is not None and max(numbers[2]) == 0
        before = x.ndim - self.ndim
        return NativeCode(
            "theano_ng.gpuarray.native.pooling:pooling",
            kind=self.kind,
            ndim=self.ndim,
            ignore_border=bool(self.ignore_border),
            typecode=x.typecode,
            kernel=kernels.pooling(self.kind, self.mode, x.dtype, self.ndim, before, whole, numbers, x.context),
        )


class GpuPool(_Pooling):
    """Pool a device array over its last `ndim` axes; see `tensor.signal.pool.Pool`.

    Inputs: x, and the integer vectors ws, stride and pad on the host.
    """

    kind = kernels.POOL

    def host_op(self, node):
        return host.Pool(self.ignore_border, self.mode, self.ndim)

    def make_node(self, inp, ws, stride=None, pad=None):
        return self.tensors_to_node([inp], ws, stride, pad)


class GpuMaxPoolGrad(_Pooling):
    """Gradient of maximum pooling with respect to the image; see `tensor.signal.pool.MaxPoolGrad`.

    Inputs: the image, its pooled maxima, the gradient of the maxima, ws, stride, pad.
    """

    kind = kernels.MAX_GRAD

    def __init__(self, ignore_border, mode="max", ndim=2):
        super().__init__(ignore_border, mode, ndim)
        if mode not in ("max", "max_deterministic"):
            raise ValueError("GpuMaxPoolGrad: the mode must be 'max', got %r" % (mode,))

    def host_op(self, node):
        return host.MaxPoolGrad(self.ignore_border, self.ndim)

    def make_node(self, inp, out, out_grad, ws, stride=None, pad=None):
        return self.tensors_to_node([inp, out, out_grad], ws, stride, pad)


class GpuAveragePoolGrad(_Pooling):
    """Gradient of sum or average pooling with respect to the image; see `tensor.signal.pool.AveragePoolGrad`.

    Inputs: the image, the gradient of the output, ws, stride, pad.
    """

    kind = kernels.AVERAGE_GRAD

    def __init__(self, ignore_border, mode="average_inc_pad", ndim=2):
        super().__init__(ignore_border, mode, ndim)

    def host_op(self, node):
        return host.AveragePoolGrad(self.ignore_border, self.mode, self.ndim)

    def make_node(self, inp, out_grad, ws, stride=None, pad=None):
        return self.tensors_to_node([inp, out_grad], ws, stride, pad)


class GpuDownsampleFactorMaxGradGrad(_Pooling):
    """Gradient of `GpuMaxPoolGrad` with respect to the gradient of the maxima; see
    `tensor.signal.pool.DownsampleFactorMaxGradGrad`.

    Inputs: the image, its pooled maxima, an array with the shape of the image, ws, stride, pad.
    """

    kind = kernels.MAX_SUMS

    def host_op(self, node):
        return host.DownsampleFactorMaxGradGrad(self.ignore_border, self.mode, self.ndim)

    def make_node(self, inp, out, out_grad, ws, stride=None, pad=None):
        return self.tensors_to_node([inp, out, out_grad], ws, stride, pad)


class GpuMaxPoolRop(_Pooling):
    """Directional derivative of maximum pooling; see `tensor.signal.pool.MaxPoolRop`.

    Inputs: the image, the direction, ws, stride, pad.
    """

    kind = kernels.MAX_ROP

    def host_op(self, node):
        return host.MaxPoolRop(self.ignore_border, self.mode, self.ndim)

    def make_node(self, inp, eval_point, ws, stride=None, pad=None):
        return self.tensors_to_node([inp, eval_point], ws, stride, pad)
