"""Rules for softmax by cuDNN. They apply on request, because the package's own kernels compute a softmax in one pass over
memory, also together with neighbouring operations.
"""

from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.gpuarray.dnn.softmax import GpuDnnSoftmax, GpuDnnSoftmaxGrad
from theano_ng.gpuarray.elemwise import GpuDimShuffle, GpuElemwise
from theano_ng.gpuarray.nnet import GpuLogSoftmax, GpuSoftmax, GpuSoftmaxGrad
from theano_ng.gpuarray.opt.dnn.base import register_on_request, uses_cudnn
from theano_ng.scalar import Log


def _of_rows(op, inputs):
    """Apply an Op for images to matrices: a row is an image with one pixel, and the columns are its channels."""
    out = op(*[GpuDimShuffle(v.broadcastable, (0, 1, "x", "x"))(v) for v in inputs])
    return GpuDimShuffle(out.broadcastable, (0, 1))(out)


def _replaced(node, op):
    """Return the replacement of a node that computes a softmax of rows, or False."""
    if not uses_cudnn(node.outputs[0]):
        return False
    out = _of_rows(op, node.inputs)
    copy_stack_trace(node.outputs[0], out)
    return [out]


@register_on_request()
@local_optimizer([GpuSoftmax])
def local_softmax_dnn(node):
    """gpu_softmax(A)  ->  GpuDnnSoftmax("accurate", "channel")(A.dimshuffle(0, 1, "x", "x")).dimshuffle(0, 1)

    This applies only if the mode includes the tag ``cudnn``.
    """
    return _replaced(node, GpuDnnSoftmax("accurate", "channel"))


@register_on_request()
@local_optimizer([GpuLogSoftmax])
def local_gpua_logsoftmax_to_dnn(node):
    """gpu_log_softmax(A)  ->  GpuDnnSoftmax("log", "channel")(A.dimshuffle(0, 1, "x", "x")).dimshuffle(0, 1)

    This applies only if the mode includes the tag ``cudnn``.
    """
    return _replaced(node, GpuDnnSoftmax("log", "channel"))


@register_on_request()
@local_optimizer([GpuSoftmaxGrad])
def local_gpua_softmax_dnn_grad(node):
    """gpu_softmax_grad(A, B)  ->  GpuDnnSoftmaxGrad("accurate", "channel")(
        A.dimshuffle(0, 1, "x", "x"), B.dimshuffle(0, 1, "x", "x")).dimshuffle(0, 1)

    This applies only if the mode includes the tag ``cudnn``.
    """
    return _replaced(node, GpuDnnSoftmaxGrad("accurate", "channel"))


def _softmax_below(v):
    """Return the node of an accurate softmax of which `v` is the only reader, and the function that puts its result
    where `v` is. Return None, None if there is none.
    """
    node = v.owner
    if node is None or len(v.clients) > 1:
        return None, None
    if isinstance(node.op, GpuDimShuffle):
        found, place = _softmax_below(node.inputs[0])
        return found, found and (lambda new: node.op(place(new)))
    if isinstance(node.op, GpuDnnSoftmax) and node.op.algo == "accurate":
        return node, lambda new: new
    return None, None


@register_on_request("stabilize")
@local_optimizer([GpuElemwise])
def local_log_softmax_dnn(node):
    """GpuElemwise(scalar.log)(GpuDnnSoftmax("accurate", "channel")(X))  ->  GpuDnnSoftmax("log", "channel")(X)

    This applies only if the mode includes the tag ``cudnn`` or ``stabilize``: without these, no rule makes the softmax.
    """
    if not isinstance(node.op.scalar_op, Log):
        return False
    found, place = _softmax_below(node.inputs[0])
    if found is None:
        return False
    out = place(GpuDnnSoftmax("log", found.op.mode)(found.inputs[0]))
    copy_stack_trace(node.outputs[0], out)
    return [out]
