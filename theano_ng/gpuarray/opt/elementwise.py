"""Rules that move elementwise operations and reductions to a device."""

from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.gpuarray.basic_ops import GpuReshape, as_gpuarray_variable
from theano_ng.gpuarray.elemwise import (
    GpuCAReduceCPY,
    GpuCAReduceCuda,
    GpuElemwise,
    SupportCodeError,
    gpu_ca_reduce_cuda,
    gpu_erfcinv,
    gpu_erfinv,
)
from theano_ng.gpuarray.extra_ops import GpuCumOp
from theano_ng.gpuarray.opt.databases import lifts, register_opt
from theano_ng.gpuarray.reduction import GpuMaxAndArgmax
from theano_ng.scalar import basic as scalar
from theano_ng.scalar.basic_scipy import Erfcinv, Erfinv
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.reductions.careduce import All, Any, CAReduce, CAReduceDtype, Prod, Sum
from theano_ng.tensor.reductions.cumulative import CumOp
from theano_ng.tensor.reductions.extremes import Argmax

# Class of a scalar op for the host -> scalar op for devices.
_OF_DEVICES = {Erfinv: gpu_erfinv, Erfcinv: gpu_erfcinv}


@lifts(Elemwise)
def local_gpua_elemwise(op, context_name, inputs, outputs):
    """exp(host(A))  ->  host(GpuElemwise(scalar.exp)(A))"""
    scalar_op = _OF_DEVICES.get(type(op.scalar_op), op.scalar_op)
    new = GpuElemwise(scalar_op, name=op.name, nfunc_spec=op.nfunc_spec)
    try:
        made = new(*[as_gpuarray_variable(v, context_name) for v in inputs], return_list=True)
    except SupportCodeError:
        return False
    # The types may differ: the output of an in-place Op on the host has the type of the input that it overwrites.
    if any(a.dtype != b.dtype or a.broadcastable != b.broadcastable for a, b in zip(made, outputs)):
        return False
    return made


@lifts(CAReduce, CAReduceDtype, Sum, Prod, All, Any)
def local_gpua_careduce(op, context_name, inputs, outputs):
    """sum(host(A), axis=0)  ->  host(gpu_ca_reduce_cuda(scalar.add, (0,), None, "float64", "float64")(A))"""
    (x,) = inputs
    new = gpu_ca_reduce_cuda(
        op.scalar_op, op.axis, None, getattr(op, "dtype", outputs[0].dtype), getattr(op, "acc_dtype", None)
    )
    x = as_gpuarray_variable(x, context_name)
    if not new.supports_c_code([x]):
        new = GpuCAReduceCPY(
            op.scalar_op, op.axis, getattr(op, "dtype", outputs[0].dtype), getattr(op, "acc_dtype", None)
        )
    made = new(x)
    return False if made.dtype != outputs[0].dtype or made.broadcastable != outputs[0].broadcastable else made


@register_opt("low_memory")
@local_optimizer([GpuCAReduceCuda])
def local_gpu_elemwise_careduce(node):
    """Compute a reduction of squares or absolute values by one node, such as GpuCAReduceCuda{add}{sqr}.

    gpu_ca_reduce_cuda(scalar.add, (0,))(GpuElemwise(scalar.sqr)(A))  ->
        gpu_ca_reduce_cuda(scalar.add, (0,), pre_scalar_op=scalar.sqr)(A)
    """
    (x,) = node.inputs
    if (
        node.op.pre_scalar_op is not None
        or x.owner is None
        or type(x.owner.op) is not GpuElemwise
        or len(x.clients) > 1
    ):
        return False
    if not isinstance(x.owner.op.scalar_op, (scalar.Sqr, scalar.Abs)) or len(x.owner.inputs) != 1:
        return False
    props = node.op._props_dict()
    props["pre_scalar_op"] = x.owner.op.scalar_op
    new = GpuCAReduceCuda(**props)(x.owner.inputs[0])
    copy_stack_trace(node.outputs, new)
    return [new]


@lifts(Argmax)
def local_gpua_argmax(op, context_name, inputs, outputs):
    """Argmax((0,))(host(A))  ->  host(GpuMaxAndArgmax((0,))(A)[1])"""
    return [GpuMaxAndArgmax(op.axis)(as_gpuarray_variable(inputs[0], context_name))[1]]


@lifts(CumOp)
def local_gpua_cumop(op, context_name, inputs, outputs):
    """cumsum(host(A), axis=0)  ->  host(GpuCumOp(0, "add")(A))"""
    (x,) = inputs
    axis = op.axis
    if axis is None:
        if x.ndim > 1:
            x, axis = GpuReshape(1)(as_gpuarray_variable(x, context_name), [-1]), 0
        else:
            axis = 0
    return GpuCumOp(axis, op.mode)(as_gpuarray_variable(x, context_name))
