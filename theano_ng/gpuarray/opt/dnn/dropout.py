"""A rule for dropout by cuDNN."""

from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.gpuarray.dnn.dropout_ops import GpuDnnDropoutOp
from theano_ng.gpuarray.opt.databases import register_inplace


@register_inplace()
@local_optimizer([GpuDnnDropoutOp], inplace=True)
def local_dnn_dropout_inplace(node):
    """GpuDnnDropoutOp()(x, descriptor, states)  ->  GpuDnnDropoutOp(inplace=True)(x, descriptor, states)"""
    if node.op.inplace:
        return False
    found = GpuDnnDropoutOp(inplace=True)(*node.inputs, return_list=True)
    copy_stack_trace(node.outputs, found)
    return found
