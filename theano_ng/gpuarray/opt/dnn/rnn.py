"""A rule for recurrent networks by cuDNN."""

from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.gpuarray.dnn.rnn import GpuDnnRNNGradInputs
from theano_ng.gpuarray.opt.databases import register_inplace


@register_inplace()
@local_optimizer([GpuDnnRNNGradInputs], inplace=True)
def local_dnn_rnn_gradient_inplace(node):
    """GpuDnnRNNGradInputs("gru", True, False)(...)  ->  GpuDnnRNNGradInputs("gru", True, False, inplace=True)(...)"""
    op = node.op
    if op.inplace:
        return False
    new = GpuDnnRNNGradInputs(op.rnn_mode, op.grad_h, op.grad_c, inplace=True)
    found = new.like(node)
    copy_stack_trace(node.outputs, found)
    return found
