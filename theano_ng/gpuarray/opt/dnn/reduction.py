"""Rules for reductions by cuDNN. They apply on request, because the package's own kernels reduce as fast, compute
operations on the elements in the same pass, and return the first of several equal extremes.
"""

from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.gpuarray.dnn.reduction import GpuDnnReduction, can_reduce
from theano_ng.gpuarray.elemwise import GpuCAReduceCuda
from theano_ng.gpuarray.opt.databases import op_lifter
from theano_ng.gpuarray.opt.dnn.base import register_on_request, uses_cudnn
from theano_ng.gpuarray.reduction import GpuMaxAndArgmax
from theano_ng.gpuarray.transfers import as_gpuarray_variable
from theano_ng.gpuarray.twin import at_least_float32
from theano_ng.scalar import Abs, Add, Maximum, Minimum, Mul
from theano_ng.tensor.elemwise.functions import cast
from theano_ng.tensor.reductions.extremes import Argmax

# (scalar op, op on the elements before it) -> the name of the reduction
_NAMES = {
    (Add, None): "add",
    (Mul, None): "mul",
    (Maximum, None): "maximum",
    (Minimum, None): "minimum",
    (Maximum, Abs): "absmax",
    (Add, Abs): "norm1",
}


@register_on_request()
@local_optimizer([GpuCAReduceCuda])
def local_dnn_reduction(node):
    """gpu_ca_reduce_cuda(scalar.add, (1,))(A)  ->  GpuDnnReduction("add", (1,), "float32", "float32", False)(A)

    This applies only if the mode includes the tag ``cudnn``.
    """
    op, (x,) = node.op, node.inputs
    before = None if op.pre_scalar_op is None else type(op.pre_scalar_op)
    name = _NAMES.get((type(op.scalar_op), before))
    if name is None or not can_reduce(x, op.acc_dtype, node.outputs[0].dtype) or not uses_cudnn(node.outputs[0]):
        return False
    out = GpuDnnReduction(name, op.axis, op.acc_dtype, x.dtype, False)(x)
    copy_stack_trace(node.outputs[0], out)
    return [out]


def _max_and_argmax(x, axis):
    """Return the maximum and its index by cuDNN, or False."""
    if not can_reduce(x, at_least_float32(x.dtype), x.dtype) or not uses_cudnn(x):
        return False
    most, index = GpuDnnReduction("maximum", axis, at_least_float32(x.dtype), x.dtype, True)(x)
    return [most, cast(index, "int64")]


@register_on_request()
@op_lifter([Argmax])
def local_dnn_argmax(op, context_name, inputs, outputs):
    """Argmax((0,))(host(A))  ->  host(cast(GpuDnnReduction("maximum", (0,), "float32", "float32", True)(A)[1], "int64"))

    This applies only if the mode includes the tag ``cudnn``. If several elements are maximal, the index may be that of
    any of them.
    """
    found = _max_and_argmax(as_gpuarray_variable(inputs[0], context_name), op.axis)
    return found and found[1:]


@register_on_request()
@local_optimizer([GpuMaxAndArgmax])
def local_cudnn_maxandargmax(node):
    """GpuMaxAndArgmax((0,))(A)  ->  GpuDnnReduction("maximum", (0,), "float32", "float32", True)(A), the index as int64

    This applies only if the mode includes the tag ``cudnn``. If several elements are maximal, the index may be that of
    any of them.
    """
    found = _max_and_argmax(node.inputs[0], node.op.axis)
    if found:
        copy_stack_trace(node.outputs, found)
    return found
