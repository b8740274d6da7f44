"""Fusion of convolutions by cuDNN with the bias and the activation that follow."""

import numpy as np

from theano_ng import scalar
from theano_ng.compile.mode import optdb
from theano_ng.configdefaults import config
from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import copy_stack_trace, in2out, inherit_stack_trace, local_optimizer
from theano_ng.gpuarray.dnn.conv import GpuDnnConv
from theano_ng.gpuarray.dnn.conv_elemwise import ACTIVATIONS, GpuDnnConvElemwise
from theano_ng.gpuarray.elemwise import GpuElemwise
from theano_ng.gpuarray.opt.dnn.base import uses_cudnn
from theano_ng.gpuarray.opt_util import grab_cpu_scalar, inplace_allocempty, is_equal
from theano_ng.loops.source import scalar_apply
from theano_ng.scalar import Composite
from theano_ng.tensor.constant import NotScalarConstantError, get_scalar_constant_value
from theano_ng.tensor.nnet.activations import ScalarRectifier
from theano_ng.tensor.nnet.sigmoids import ScalarSigmoid

# The algorithms that a user need not have chosen. Another one is a request, which the heuristics would ignore.
_DEFAULT_ALGORITHMS = ("small", "guess_once", "guess_on_shape_change")
# The class of a scalar op, its operands -> the name of the result. Numbers are operands, too. 0.5 * (x + |x|) overflows if
# x is more than half of the largest number; the rectifier does not.
_FORMS = {
    (scalar.Add, frozenset(("convolution", "bias"))): "identity",
    (ScalarRectifier, frozenset(("identity",))): "relu",
    (scalar.Maximum, frozenset(("identity", 0.0))): "relu",
    (scalar.Abs, frozenset(("identity",))): "magnitude",
    (scalar.Add, frozenset(("identity", "magnitude"))): "twice the relu",
    (scalar.Mul, frozenset(("twice the relu", 0.5))): "relu",
    (scalar.Tanh, frozenset(("identity",))): "tanh",
    (ScalarSigmoid, frozenset(("identity",))): "sigmoid",
}


def _constant(v):
    """Return the number that a variable contains, or None if it is not constant."""
    try:
        return float(get_scalar_constant_value(v))
    except NotScalarConstantError:
        return None


def _convolution(node):
    """Return the position of the input that is a convolution and only needed for this elementwise node, or None."""
    (out,) = node.outputs
    for k, v in enumerate(node.inputs):
        if (
            v.owner is not None
            and type(v.owner.op) is GpuDnnConv
            and not v.owner.op.inplace
            and v.owner.op.algo in _DEFAULT_ALGORITHMS
            and len(v.clients) == 1
            and v.type == out.type
        ):
            return k
    return None


def _operands(node, convolution):
    """Return the bias, and the names of the inputs of an elementwise node; or None if there are other arrays."""
    bias, names, out = None, [], node.outputs[0]
    pattern = tuple(axis != 1 for axis in range(out.ndim))
    for k, v in enumerate(node.inputs):
        if k == convolution:
            names.append("convolution")
        elif isinstance(number := grab_cpu_scalar(v, out.ndim), Constant):
            names.append(float(number.data))
        elif bias is None and v.dtype == out.dtype and tuple(v.broadcastable) == pattern:
            names.append("bias")
            bias = v
        else:
            return None
    return None if bias is None else (bias, names)


def _activation(node, names):
    """Return the name of the activation that an elementwise node applies, or None."""
    op = node.op.scalar_op
    if isinstance(op, Composite):
        inputs, (output,), nodes = op.fgraph.inputs, op.fgraph.outputs, op.fgraph.toposort()
    else:
        made = scalar_apply(op, tuple(v.dtype for v in node.inputs), (node.outputs[0].dtype,))
        inputs, (output,), nodes = made.inputs, made.outputs, [made]
    known = dict(zip(inputs, names))
    for one in nodes:
        operands = [float(v.data) if isinstance(v, Constant) else known[v] for v in one.inputs]
        form = _FORMS.get((type(one.op), frozenset(operands))) if len(set(operands)) == len(operands) else None
        known.update(dict.fromkeys(one.outputs, form))
    found = known.get(output)
    return found if found in ACTIVATIONS else None


@local_optimizer([GpuElemwise])
def local_gpua_dnn_conv_elemwise(node):
    """Compute a convolution, the bias and the activation in one node.

    GpuElemwise(scalar.add)(dnn_conv(M, N), b)  ->  GpuDnnConvElemwise("identity")(M, N, like, descriptor, 1.0, b)
    """
    if (
        config.gpuarray.epilogue == "off"
        or type(node.op) is not GpuElemwise
        or node.op.inplace_pattern
        or len(node.outputs) > 1
    ):
        return False
    k = _convolution(node)
    operands = None if k is None else _operands(node, k)
    if operands is None:
        return False
    convolution, (bias, names) = node.inputs[k].owner, operands
    *inputs, alpha, beta = convolution.inputs
    alpha = _constant(alpha)
    if alpha is None or not np.isfinite(alpha) or not is_equal(beta, 0.0):
        return False
    activation = _activation(node, names)
    if activation is None or not uses_cudnn(node.outputs[0]):
        return False
    op = GpuDnnConvElemwise(activation, convolution.op.algo, num_groups=convolution.op.num_groups)
    new = op(*inputs, alpha, bias)
    copy_stack_trace([node.inputs[k], *node.outputs], new)
    return [new]


@inplace_allocempty(GpuDnnConvElemwise, 2)
def local_dnn_conv_elemwise_inplace(node, inputs):
    """Overwrite the input `output` of a convolution with a bias and an activation."""
    with inherit_stack_trace(node.outputs):
        return [node.op.with_options(inplace=True)(*inputs)]


# The positions are those of the fusion of products, and of the convolutions that overwrite an input.
optdb.register(
    "gpua_dnn_conv_elemwise", in2out(local_gpua_dnn_conv_elemwise), 49.07, "fast_run", "fusion", "gpuarray", "cudnn"
)
optdb.register(
    "local_dnna_conv_elemwise_inplace",
    in2out(local_dnn_conv_elemwise_inplace, name="local_dnna_conv_elemwise_inplace"),
    70.0,
    "fast_run",
    "inplace",
    "gpuarray",
    "cudnn",
)
