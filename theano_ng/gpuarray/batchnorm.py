"""Batch normalization on devices, with the statistics of the batch. Rules make these Ops; see `opt.batchnorm`."""

import numpy as np

from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.kernels import batchnorm as kernels
from theano_ng.gpuarray.kernels.snippets import precise
from theano_ng.gpuarray.transfers import as_gpuarray_variable, host_from_gpu, infer_context_name
from theano_ng.gpuarray.twin import TwinOp, host_variable
from theano_ng.tensor.nnet.bn_ops import BatchNormTrain, BatchNormTrainGrad

__all__ = ["GpuBatchNormTrain", "GpuBatchNormTrainGrad"]


class _GpuNorm(TwinOp):
    """A mixin of Ops whose inputs, except the last one, are device arrays of one float dtype."""

    host_class = function = norm = None

    def host_op(self, node):
        return self.host_class(self.axes)

    def make_node(self, *inputs):
        *arrays, epsilon = inputs
        context_name = infer_context_name(*arrays)
        host = self.host_op(None).make_node(
            *[host_from_gpu(as_gpuarray_variable(v, context_name)) for v in arrays], host_variable(epsilon)
        )
        *arrays, epsilon = host.inputs
        return self.on_device([*[as_gpuarray_variable(v, context_name) for v in arrays], epsilon], host, context_name)

    def native_code(self, node):
        type_ = node.inputs[0].type
        return NativeCode(
            "theano_ng.gpuarray.native.batchnorm:" + self.function,
            typecode=type_.typecode,
            kernel=kernels.kernel(self.norm, type_.dtype, type_.ndim, self.axes, type_.context),
            real=np.dtype(precise(type_.dtype, type_.context)).itemsize,
            axes=self.axes,
        )


class GpuBatchNormTrain(_GpuNorm, BatchNormTrain):
    """Normalize an array on a device by its mean and its variance, in one kernel.

    Inputs: x, scale, bias, and epsilon, a number on the host. Outputs: the normalized x, mean, invstd and variance. See
    :class:`tensor.nnet.bn_ops.BatchNormTrain`.

    Parameters
    ----------
    axes : tuple of ints
        The axes over which the statistics are computed.
    """

    host_class, function, norm = BatchNormTrain, "train", kernels.TRAIN


class GpuBatchNormTrainGrad(_GpuNorm, BatchNormTrainGrad):
    """Compute the gradient of `GpuBatchNormTrain` in one kernel.

    Inputs: x, dy, scale, mean, invstd, and epsilon, a number on the host, which is not read. Outputs: the gradients with
    respect to x, scale and bias. See :class:`tensor.nnet.bn_ops.AbstractBatchNormTrainGrad`.

    Parameters
    ----------
    axes : tuple of ints
        The axes over which the statistics were computed.
    """

    host_class, function, norm = BatchNormTrainGrad, "train_grad", kernels.TRAIN_GRAD

    def make_node(self, x, dy, scale, x_mean, x_invstd, epsilon=1e-4):
        return super().make_node(x, dy, scale, x_mean, x_invstd, epsilon)
