"""Rules for convolutions by cuDNN.

On a CUDA device that can use cuDNN, abstract convolutions are computed by it: its algorithms are faster than the package's
own kernels. The own kernels compute the others: with different padding at the two ends of an axis, with unshared kernels,
and in a precision that cuDNN lacks.
"""

from theano_ng.compile.mode import optdb
from theano_ng.gof.rewriting import LocalOptGroup, in2out, inherit_stack_trace, local_optimizer
from theano_ng.gpuarray.dnn.conv import GpuDnnConv, GpuDnnConvGradI, GpuDnnConvGradW, get_precision, supports_precision
from theano_ng.gpuarray.dnn.conv_functions import (
    dnn_conv,
    dnn_conv3d,
    dnn_gradinput,
    dnn_gradinput3d,
    dnn_gradweight,
    dnn_gradweight3d,
)
from theano_ng.gpuarray.kernels.product import DTYPES
from theano_ng.gpuarray.opt.arrays import with_pattern
from theano_ng.gpuarray.opt.conv import (
    _ABSTRACT,
    FORWARD,
    INPUTS,
    WEIGHTS,
    _has_alternative,
    _pads,
    abstractconv_groupopt,
    conv_metaopt,
)
from theano_ng.gpuarray.opt.databases import register_opt
from theano_ng.gpuarray.opt.dnn.base import uses_cudnn
from theano_ng.gpuarray.opt_util import alpha_merge, inplace_allocempty, output_merge
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.gpuarray.views import exchanged, flipped
from theano_ng.tensor.nnet.convolution.opt import elements
from theano_ng.tensor.nnet.convolution.shapes import get_conv_output_shape

_FUNCTIONS = {
    (2, FORWARD): dnn_conv,
    (2, WEIGHTS): dnn_gradweight,
    (2, INPUTS): dnn_gradinput,
    (3, FORWARD): dnn_conv3d,
    (3, WEIGHTS): dnn_gradweight3d,
    (3, INPUTS): dnn_gradinput3d,
}
_ADDED = dict(alpha_in=4, beta_in=5)


def _precision(op, inputs):
    """Return the precision for an abstract convolution, or None if cuDNN does not compute it."""
    if op.unshared or not all(v.dtype in DTYPES for v in inputs[:2]):
        return None
    if not isinstance(op.border_mode, str) and any(isinstance(pad, tuple) for pad in op.border_mode):
        return None
    precision, dtype = get_precision(None, inputs[:2])
    if precision == "float16" and op.direction != FORWARD:
        precision = "float32"
    return precision if supports_precision(dtype, precision) else None


def _by_cudnn(op, inputs):
    """Compute an abstract convolution by cuDNN. Return the result, or None."""
    precision = _precision(op, inputs)
    if precision is None:
        return None
    first, second, *lengths = inputs
    options = dict(
        border_mode=op.border_mode,
        subsample=op.subsample,
        dilation=op.filter_dilation,
        conv_mode="conv" if op.filter_flip else "cross",
        precision=precision,
        num_groups=op.num_groups,
    )
    function = _FUNCTIONS[op.convdim, op.direction]
    if op.direction == FORWARD:
        return function(first, second, direction_hint="forward!", **options)
    lengths = elements(lengths[0], op.convdim)
    if op.direction == WEIGHTS:
        return function(first, second, [second.shape[1], first.shape[1] // op.num_groups, *lengths], **options)
    return function(first, second, [second.shape[0], first.shape[1] * op.num_groups, *lengths], **options)


def _graph_rule(convdim):
    def rule(op, context_name, inputs, outputs):
        if op.convdim != convdim or not uses_cudnn(outputs[0]):
            return None
        result = _by_cudnn(op, inputs)
        return None if result is None else [with_pattern(result, outputs[0])]

    return rule


local_abstractconv_cudnn_graph = _graph_rule(2)
local_abstractconv3d_cudnn_graph = _graph_rule(3)


def _implementation(direction, name, example):
    """Return a rule that replaces abstract convolutions on a device."""

    @local_optimizer(list(dict.fromkeys(_ABSTRACT[2, direction] + _ABSTRACT[3, direction])))
    def rule(node):
        (out,) = node.outputs
        if not isinstance(out.type, GpuArrayType):
            return False
        graph = local_abstractconv_cudnn_graph if node.op.convdim == 2 else local_abstractconv3d_cudnn_graph
        with inherit_stack_trace(node.outputs):
            return graph(node.op, out.type.context_name, node.inputs, node.outputs) or False

    rule.__name__ = rule.fn.__name__ = name
    rule.fn.__doc__ = rule.__doc__ = example
    return rule


local_abstractconv_cudnn = _implementation(
    FORWARD,
    "local_abstractconv_cudnn",
    'moved(AbstractConv2d(border_mode="half"), M, N)  ->  dnn_conv(M, N, border_mode="half", direction_hint="forward!")',
)
local_abstractconv_gw_cudnn = _implementation(
    WEIGHTS,
    "local_abstractconv_gw_cudnn",
    "moved(AbstractConv2d_gradWeights(), M, N, i)  ->  dnn_gradweight(M, N, [N.shape[1], M.shape[1], i[0], i[1]])",
)
local_abstractconv_gi_cudnn = _implementation(
    INPUTS,
    "local_abstractconv_gi_cudnn",
    "moved(AbstractConv2d_gradInputs(), M, N, i)  ->  dnn_gradinput(M, N, [N.shape[0], M.shape[1], i[0], i[1]])",
)
for _position, (_name, _rule) in enumerate(
    (
        ("local_abstractconv_dnn", local_abstractconv_cudnn),
        ("local_abstractconv_gw_dnn", local_abstractconv_gw_cudnn),
        ("local_abstractconv_gi_dnn", local_abstractconv_gi_cudnn),
    )
):
    abstractconv_groupopt.register(
        _name, _rule, "20", "conv_dnn", "cudnn", "fast_compile", "fast_run", "gpuarray", position=_position
    )
    conv_metaopt.register(_rule, ["conv_dnn", "default"])


# ---- alternatives for measurements ----


def _forward_alternative(op, images, kernels, precision):
    flip = "conv" if op.filter_flip else "cross"
    if op.border_mode == "full":
        function = _FUNCTIONS[op.convdim, FORWARD]
        if set(op.filter_dilation) != {1}:
            return None
        return function(images, kernels, "full", op.subsample, op.filter_dilation, conv_mode=flip, precision=precision)
    if _pads(op) is None:
        return None
    kernels = flipped(kernels, op.convdim) if op.filter_flip else kernels
    shapes = [[v.shape[i] for i in range(v.ndim)] for v in (images, kernels)]
    lengths = get_conv_output_shape(*shapes, op.border_mode, op.subsample, op.filter_dilation)[2:]
    return exchanged(
        _FUNCTIONS[op.convdim, WEIGHTS](
            exchanged(images),
            exchanged(kernels),
            [kernels.shape[0], images.shape[0], *lengths],
            _pads(op),
            op.filter_dilation,
            op.subsample,
            conv_mode="cross",
            precision=precision,
        )
    )


def _weights_alternative(op, images, top, precision):
    if _pads(op) is None:
        return None
    function = _FUNCTIONS[op.convdim, FORWARD]
    result = exchanged(
        function(
            exchanged(images),
            exchanged(top),
            _pads(op),
            op.filter_dilation,
            op.subsample,
            "cross",
            "forward!",
            precision=precision,
        )
    )
    return flipped(result, op.convdim) if op.filter_flip else result


def _inputs_alternative(op, kernels, top, precision):
    mode = {"valid": "full", "full": "valid"}.get(op.border_mode)
    if mode is None:
        return None
    # The gradient of a correlation is a convolution, and the reverse.
    flip = "cross" if op.filter_flip else "conv"
    function = _FUNCTIONS[op.convdim, FORWARD]
    return function(
        top, exchanged(kernels), mode, op.subsample, op.filter_dilation, flip, "forward!", precision=precision
    )


_ALTERNATIVES = {FORWARD: _forward_alternative, WEIGHTS: _weights_alternative, INPUTS: _inputs_alternative}


def _alternative(convdim, name):
    """Return a rule that exchanges the roles of the arrays of an abstract convolution, for measurements."""

    @local_optimizer(
        list(dict.fromkeys(cls for kind in (FORWARD, WEIGHTS, INPUTS) for cls in _ABSTRACT[convdim, kind]))
    )
    def rule(node):
        op, (out,) = node.op, node.outputs
        if op.convdim != convdim or not isinstance(out.type, GpuArrayType) or not uses_cudnn(out):
            return False
        precision = _precision(op, node.inputs)
        if precision is None or not _has_alternative(op):
            return False
        if precision == "float16":
            precision = "float32"
        result = _ALTERNATIVES[op.direction](op, *node.inputs[:2], precision)
        return False if result is None else [with_pattern(result, out)]

    rule.__name__ = rule.fn.__name__ = name
    rule.fn.__doc__ = rule.__doc__ = "The alternatives in %d dimensions: `_ALTERNATIVES`." % convdim
    conv_metaopt.register(rule, ["conv_dnn", "alternative"])
    return rule


local_abstractconv_cudnn_alt = _alternative(2, "local_abstractconv_cudnn_alt")
local_abstractconv3d_cudnn_alt = _alternative(3, "local_abstractconv3d_cudnn_alt")


# ---- factors and sums ----


def _again(node, inputs, **options):
    with inherit_stack_trace(node.outputs):
        return [node.op.with_options(**options)(*inputs)]


@register_opt("cudnn")
@alpha_merge(GpuDnnConv, **_ADDED)
def local_dnn_conv_alpha_merge(node, *inputs):
    """mul(dnn_conv(M, N), gpu(s.dimshuffle("x", "x", "x", "x")))  ->  _dnn_conv(M, N, alpha=s)"""
    return _again(node, inputs, inplace=False)


@register_opt("cudnn")
@alpha_merge(GpuDnnConvGradW, **_ADDED)
def local_dnn_convw_alpha_merge(node, *inputs):
    """mul(dnn_gradweight(M, N, i), gpu(s.dimshuffle("x", "x", "x", "x")))  ->  _dnn_gradweight(M, N, i, alpha=s)"""
    return _again(node, inputs, inplace=False)


@register_opt("cudnn")
@alpha_merge(GpuDnnConvGradI, **_ADDED)
def local_dnn_convi_alpha_merge(node, *inputs):
    """mul(dnn_gradinput(M, N, i), gpu(s.dimshuffle("x", "x", "x", "x")))  ->  _dnn_gradinput(M, N, i, alpha=s)"""
    return _again(node, inputs, inplace=False)


@register_opt("cudnn")
@output_merge(GpuDnnConv, out_in=2, **_ADDED)
def local_dnn_conv_output_merge(node, *inputs):
    """add(dnn_conv(M, N), O)  ->  _dnn_conv(M, N, beta=1, out=O)"""
    return _again(node, inputs, inplace=False)


@register_opt("cudnn")
@output_merge(GpuDnnConvGradW, out_in=2, **_ADDED)
def local_dnn_convw_output_merge(node, *inputs):
    """add(dnn_gradweight(M, N, i), O)  ->  _dnn_gradweight(M, N, i, beta=1, out=O)"""
    return _again(node, inputs, inplace=False)


@register_opt("cudnn")
@output_merge(GpuDnnConvGradI, out_in=2, **_ADDED)
def local_dnn_convi_output_merge(node, *inputs):
    """add(dnn_gradinput(M, N, i), O)  ->  _dnn_gradinput(M, N, i, beta=1, out=O)"""
    return _again(node, inputs, inplace=False)


@inplace_allocempty(GpuDnnConv, 2)
def local_dnn_conv_inplace(node, inputs):
    """Overwrite the input `output` of a convolution."""
    return _again(node, inputs, inplace=True)


@inplace_allocempty(GpuDnnConvGradW, 2)
def local_dnn_convgw_inplace(node, inputs):
    """Overwrite the input `output` of a gradient with respect to kernels."""
    return _again(node, inputs, inplace=True)


@inplace_allocempty(GpuDnnConvGradI, 2)
def local_dnn_convgi_inplace(node, inputs):
    """Overwrite the input `output` of a gradient with respect to images."""
    return _again(node, inputs, inplace=True)


optdb.register(
    "local_dnna_conv_inplace",
    in2out(
        LocalOptGroup(local_dnn_conv_inplace, local_dnn_convgw_inplace, local_dnn_convgi_inplace),
        name="local_dnna_conv_inplace",
    ),
    70.0,
    "fast_run",
    "inplace",
    "gpuarray",
    "cudnn",
)
