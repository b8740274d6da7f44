"""Rules for batch normalization by cuDNN. The rules that move nodes to the device apply on request, because the
package's own kernels compute the statistics and the result in one kernel, too, and fuse the normalization by given
statistics with neighbouring operations.
"""

from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.gpuarray.dnn.base import DTYPES, in_dtype
from theano_ng.gpuarray.dnn.normalization import (
    GpuDnnBatchNorm,
    GpuDnnBatchNormGrad,
    GpuDnnBatchNormInference,
    with_axes,
)
from theano_ng.gpuarray.opt.arrays import with_pattern
from theano_ng.gpuarray.opt.batchnorm import abstract_batch_norm_db, abstract_batch_norm_db2
from theano_ng.gpuarray.opt.databases import register_inplace
from theano_ng.gpuarray.opt.dnn.base import lifts_on_request, uses_cudnn
from theano_ng.gpuarray.transfers import as_gpuarray_variable
from theano_ng.gpuarray.twin import host_variable
from theano_ng.tensor.nnet.bn_ops import AbstractBatchNormInference, AbstractBatchNormTrain, AbstractBatchNormTrainGrad

_groups = abstract_batch_norm_db, abstract_batch_norm_db2


def _mode(op, ndim):
    """Return the mode of cuDNN that averages over the axes of an Op, or None."""
    axes = tuple(sorted(set(op.axes)))
    if axes == (0,):
        return "per-activation"
    return "spatial" if axes == (0, *range(2, ndim)) else None


def _arrays(op, context_name, values, epsilon):
    """Return the mode, and arrays with 4 or 5 axes, or None, None if cuDNN does not compute the node.

    cuDNN requires an epsilon that is not negative, so it must be known.
    """
    arrays = [as_gpuarray_variable(v, context_name) for v in values]
    x, epsilon = arrays[0], host_variable(epsilon)
    mode = _mode(op, x.ndim)
    known = isinstance(epsilon, Constant) and epsilon.data >= 0
    if mode is None or not known or x.ndim > 5 or x.dtype not in DTYPES or not uses_cudnn(x):
        return None, None
    return mode, [with_axes(v, max(x.ndim, 4)) for v in arrays]


def _like(found, outputs):
    """Return arrays with the dtypes, the axes and the broadcast patterns of the outputs of a node."""
    return [with_pattern(with_axes(in_dtype(v, out.dtype), out.ndim), out) for v, out in zip(found, outputs)]


@lifts_on_request(AbstractBatchNormTrain, group=_groups, tags=("batchnorm_dnn",))
def local_abstract_batch_norm_train_cudnn(op, ctx_name, inputs, outputs):
    """AbstractBatchNormTrain((0,))(host(A), host(row), host(row))[:3]  ->
        [host(v) for v in GpuDnnBatchNorm("per-activation")(A, row, row)]

    This applies only if the mode includes the tag ``cudnn`` or ``batchnorm_dnn``.
    """
    x, scale, bias, epsilon, factor, *running = inputs
    mode, arrays = _arrays(op, ctx_name, [x, scale, bias, *running], epsilon)
    if mode is None:
        return False
    numbers = host_variable(epsilon), host_variable(factor)
    op = GpuDnnBatchNorm(mode, running_averages=bool(running))
    return _like(op(*arrays[:3], *numbers, *arrays[3:], return_list=True), outputs)


@lifts_on_request(AbstractBatchNormTrainGrad, group=_groups, tags=("batchnorm_dnn",))
def local_abstract_batch_norm_train_grad_cudnn(op, ctx_name, inputs, outputs):
    """AbstractBatchNormTrainGrad((0,))(host(A), host(B), host(row), host(row), host(row))  ->
        [host(v) for v in GpuDnnBatchNormGrad("per-activation")(A, B, row, row, row)]

    This applies only if the mode includes the tag ``cudnn`` or ``batchnorm_dnn``.
    """
    *values, epsilon = inputs
    mode, arrays = _arrays(op, ctx_name, values, epsilon)
    if mode is None:
        return False
    return _like(GpuDnnBatchNormGrad(mode)(*arrays, host_variable(epsilon)), outputs)


@lifts_on_request(AbstractBatchNormInference, group=_groups, tags=("batchnorm_dnn",))
def local_abstract_batch_norm_inference_cudnn(op, ctx_name, inputs, outputs):
    """AbstractBatchNormInference((0,))(host(A), host(row), host(row), host(row), host(row))  ->
        host(GpuDnnBatchNormInference("per-activation")(A, row, row, row, row))

    This applies only if the mode includes the tag ``cudnn`` or ``batchnorm_dnn``.
    """
    *values, epsilon = inputs
    mode, arrays = _arrays(op, ctx_name, values, epsilon)
    if mode is None:
        return False
    return _like([GpuDnnBatchNormInference(mode)(*arrays, host_variable(epsilon))], outputs)


def _in_place(node, **flag):
    """Return the outputs of a node that overwrites an input."""
    op = node.op
    names = ("mode", "running_averages", "inplace_running_mean", "inplace_running_var", "inplace_output")
    new = GpuDnnBatchNorm(**{name: getattr(op, name) for name in names} | flag)
    if new == op:
        return False
    found = new(*node.inputs, return_list=True)
    copy_stack_trace(node.outputs, found)
    return found


@register_inplace()
@local_optimizer([GpuDnnBatchNorm], inplace=True)
def local_batch_norm_inplace_output(node):
    """GpuDnnBatchNorm()(X, row, row)  ->  GpuDnnBatchNorm(inplace_output=True)(X, row, row)"""
    return _in_place(node, inplace_output=True)


@register_inplace()
@local_optimizer([GpuDnnBatchNorm], inplace=True)
def local_batch_norm_inplace_running_mean(node):
    """GpuDnnBatchNorm(running_averages=True)(X, row, row, e, f, mean, var)  ->
    GpuDnnBatchNorm(running_averages=True, inplace_running_mean=True)(X, row, row, e, f, mean, var)
    """
    return _in_place(node, inplace_running_mean=True)


@register_inplace()
@local_optimizer([GpuDnnBatchNorm], inplace=True)
def local_batch_norm_inplace_running_var(node):
    """GpuDnnBatchNorm(running_averages=True)(X, row, row, e, f, mean, var)  ->
    GpuDnnBatchNorm(running_averages=True, inplace_running_var=True)(X, row, row, e, f, mean, var)
    """
    return _in_place(node, inplace_running_var=True)


@register_inplace()
@local_optimizer([GpuDnnBatchNormInference], inplace=True)
def local_batch_norm_inference_inplace(node):
    """GpuDnnBatchNormInference()(X, row, row, row, row)  ->
    GpuDnnBatchNormInference(inplace=True)(X, row, row, row, row)
    """
    if node.op.inplace:
        return False
    out = GpuDnnBatchNormInference(node.op.mode, inplace=True)(*node.inputs)
    copy_stack_trace(node.outputs[0], out)
    return [out]
