"""Rules for convolutions on devices.

First, abstract convolutions move to the device of their inputs (`local_gpua_abstractconv`). Then the first rule of the group
``gpuarray_abstractconv_opts`` that applies replaces them. The rules with the tag ``conv_gemm`` make the Ops of `corr`, which
can compute all convolutions. If the tag ``conv_meta`` is included, `conv_metaopt` tries several Ops and uses the fastest.
"""

import itertools
import time

import numpy as np

from theano_ng.gof.graph import Apply, Variable
from theano_ng.gof.optdb import LocalGroupDB
from theano_ng.gof.rewriting import LocalMetaOptimizer, LocalMetaOptimizerSkipAssertionError, local_optimizer
from theano_ng.gpuarray.basic_ops import as_gpuarray_variable, host_from_gpu
from theano_ng.gpuarray.corr import (
    GpuCorr3dMM,
    GpuCorr3dMM_gradInputs,
    GpuCorr3dMM_gradWeights,
    GpuCorrMM,
    GpuCorrMM_gradInputs,
    GpuCorrMM_gradWeights,
)
from theano_ng.gpuarray.elemwise import GpuDimShuffle
from theano_ng.gpuarray.kernels.product import DTYPES
from theano_ng.gpuarray.opt.arrays import with_pattern
from theano_ng.gpuarray.opt.databases import op_lifter, register_opt, register_opt2
from theano_ng.gpuarray.reshaping import GpuReshape
from theano_ng.gpuarray.twin import host_variable
from theano_ng.gpuarray.type import GpuArrayType, gpuarray_shared_constructor
from theano_ng.gpuarray.views import exchanged, flipped, part_of
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.nnet.convolution.abstract import (
    AbstractConv,
    AbstractConv2d,
    AbstractConv2d_gradInputs,
    AbstractConv2d_gradWeights,
    AbstractConv3d,
    AbstractConv3d_gradInputs,
    AbstractConv3d_gradWeights,
    AbstractConv_gradInputs,
    AbstractConv_gradWeights,
)
from theano_ng.tensor.nnet.convolution.legacy import ConvOp
from theano_ng.tensor.nnet.convolution.opt import elements
from theano_ng.tensor.nnet.convolution.shapes import get_conv_output_shape
from theano_ng.tensor.shaping.broadcasting import patternbroadcast

FORWARD, WEIGHTS, INPUTS = "forward", "backprop weights", "backprop inputs"
_CLASSES = {
    (2, FORWARD): GpuCorrMM,
    (2, WEIGHTS): GpuCorrMM_gradWeights,
    (2, INPUTS): GpuCorrMM_gradInputs,
    (3, FORWARD): GpuCorr3dMM,
    (3, WEIGHTS): GpuCorr3dMM_gradWeights,
    (3, INPUTS): GpuCorr3dMM_gradInputs,
}
_ABSTRACT = {
    (2, FORWARD): (AbstractConv2d, AbstractConv),
    (2, WEIGHTS): (AbstractConv2d_gradWeights, AbstractConv_gradWeights),
    (2, INPUTS): (AbstractConv2d_gradInputs, AbstractConv_gradInputs),
    (3, FORWARD): (AbstractConv3d, AbstractConv),
    (3, WEIGHTS): (AbstractConv3d_gradWeights, AbstractConv_gradWeights),
    (3, INPUTS): (AbstractConv3d_gradInputs, AbstractConv_gradInputs),
}
_ALL = tuple(dict.fromkeys(itertools.chain(*_ABSTRACT.values())))

abstractconv_groupopt = LocalGroupDB()
abstractconv_groupopt.__name__ = "gpuarray_abstractconv_opts"
register_opt("fast_compile", name="gpuarray_abstractconv_opts")(abstractconv_groupopt)


# ---- moving ----


def _moved(op, context_name, inputs, outputs):
    """Return the output of a node of an abstract convolution on the device."""
    if outputs[0].dtype not in DTYPES or isinstance(outputs[0].type, GpuArrayType):
        return False
    arrays = [as_gpuarray_variable(v, context_name) for v in inputs[:2]]
    lengths = [as_tensor_variable(host_variable(v)) for v in inputs[2:]]
    type_ = GpuArrayType(outputs[0].dtype, outputs[0].broadcastable, context_name)
    return Apply(op, [*arrays, *lengths], [type_()]).outputs


@register_opt("fast_compile", "conv_dnn", "cudnn")
@op_lifter(list(_ALL))
def local_gpua_abstractconv(op, context_name, inputs, outputs):
    """Move a convolution to the device. It is still abstract.

    AbstractConv2d()(host(M), host(N))  ->  host(moved(AbstractConv2d(), M, N))
    """
    return _moved(op, context_name, inputs, outputs)


@register_opt2(list(_ALL), "fast_compile")
def local_gpua_lift_abstractconv_graph(op, context_name, inputs, outputs):
    """Move a convolution to the device, in the pass over the whole graph."""
    return _moved(op, context_name, inputs, outputs)


@register_opt()
@op_lifter(list(_ALL))
def local_conv_gpu_conv(op, context_name, inputs, outputs):
    """Move a convolution to the device, as `local_gpua_abstractconv` does, even if the tag ``conv_dnn`` is excluded.

    AbstractConv3d()(host(U), host(V))  ->  host(moved(AbstractConv3d(), U, V))
    """
    return _moved(op, context_name, inputs, outputs)


@register_opt("fast_compile")
@op_lifter([ConvOp])
def local_gpua_error_convop(op, context_name, inputs, outputs):
    """Express the convolution of earlier versions by an abstract convolution, which other rules move to the device.

    ConvOp(output_mode="full")(host(M), host(N))  ->  AbstractConv2d(border_mode="full")(host(M), host(N))

    In Theano 1.0, this rule raised an error, because ConvOp had no implementation for devices.
    """
    if outputs[0].dtype not in DTYPES:
        return False
    images, kernels = [host_from_gpu(as_gpuarray_variable(v, context_name)) for v in inputs]
    return [patternbroadcast(op.expression(images, kernels), outputs[0].broadcastable)]


# ---- Ops of the device ----


def _options(op):
    """Return the parameters of the Op of the device that computes an abstract convolution."""
    shared = {"unshared": op.unshared} if op.convdim == 2 else {}
    return dict(
        border_mode=op.border_mode,
        subsample=op.subsample,
        filter_dilation=op.filter_dilation,
        num_groups=op.num_groups,
        **shared,
    )


def _direct(op, first, second, *lengths):
    """Compute a convolution, or its gradient, by the Op of the same direction."""
    new, flip = _CLASSES[op.convdim, op.direction](**_options(op)), op.filter_flip
    if op.direction == FORWARD:
        return new(first, flipped(second, op.convdim) if flip else second)
    if op.direction == INPUTS:
        return new(flipped(first, op.convdim) if flip else first, second, *lengths)
    result = new(first, second, *lengths)
    return flipped(result, op.convdim) if flip else result


def _pads(op):
    """Return the padding of each axis. None: it is different on both sides, or depends on the length of the kernel."""
    modes = (0,) * op.convdim if op.border_mode == "valid" else op.border_mode
    return None if isinstance(modes, str) or any(isinstance(pad, tuple) for pad in modes) else modes


def _has_alternative(op):
    """Return True if a convolution may have an alternative, which exchanges the roles of arrays."""
    return op.num_groups == 1 and not op.unshared and set(op.subsample) == {1}


def _forward_alternative(op, images, kernels):
    """Compute a convolution as a gradient: with respect to images for the padding 'full', otherwise to kernels."""
    kernels = flipped(kernels, op.convdim) if op.filter_flip else kernels
    if op.border_mode == "full":
        new = _CLASSES[op.convdim, INPUTS](filter_dilation=op.filter_dilation)
        return new(exchanged(flipped(kernels, op.convdim)), images)
    if _pads(op) is None:
        return None
    new = _CLASSES[op.convdim, WEIGHTS](_pads(op), op.filter_dilation, op.subsample)
    sizes = [(None, None, *[v.shape[2 + i] for i in range(op.convdim)]) for v in (images, kernels)]
    lengths = get_conv_output_shape(*sizes, op.border_mode, op.subsample, op.filter_dilation)[2:]
    return exchanged(new(exchanged(images), exchanged(kernels), lengths))


def _weights_alternative(op, images, top, lengths):
    """Compute the gradient with respect to the kernels as a convolution of the images with the gradient of the output."""
    if _pads(op) is None:
        return None
    new = _CLASSES[op.convdim, FORWARD](_pads(op), op.filter_dilation, op.subsample)
    result = exchanged(new(exchanged(images), exchanged(top)))
    return flipped(result, op.convdim) if op.filter_flip else result


def _inputs_alternative(op, kernels, top, lengths):
    """Compute the gradient with respect to the images as a convolution of the gradient of the output."""
    mode = {"valid": "full", "full": "valid"}.get(op.border_mode)
    if mode is None:
        return None
    new = _CLASSES[op.convdim, FORWARD](mode, filter_dilation=op.filter_dilation)
    # The correlation with reversed kernels is a gradient. The reversed kernels of a convolution are not reversed.
    kernels = kernels if op.filter_flip else flipped(kernels, op.convdim)
    return new(top, exchanged(kernels))


_ALTERNATIVES = {FORWARD: _forward_alternative, WEIGHTS: _weights_alternative, INPUTS: _inputs_alternative}


def _implementation(convdim, direction, example, name, alternative=False):
    """Return a rule that replaces abstract convolutions on a device.

    Parameters
    ----------
    convdim : {2, 3}
    direction : str
    example : str
        The docstring of the rule.
    name : str
        The name of the rule.
    alternative : bool
        Whether to exchange the roles of arrays, as `_ALTERNATIVES` does. Such a rule does not apply to all convolutions.
    """

    @local_optimizer(list(_ABSTRACT[convdim, direction]))
    def rule(node):
        op, (out,) = node.op, node.outputs
        if op.convdim != convdim or not isinstance(out.type, GpuArrayType):
            return False
        if alternative and not _has_alternative(op):
            return False
        inputs = [*node.inputs[:2], *[elements(vector, convdim) for vector in node.inputs[2:]]]
        result = (_ALTERNATIVES[direction] if alternative else _direct)(op, *inputs)
        if result is None:
            return False
        return [with_pattern(as_gpuarray_variable(result, out.type.context_name), out)]

    rule.__name__ = rule.fn.__name__ = name
    rule.fn.__doc__ = rule.__doc__ = example
    return rule


local_abstractconv_gemm = _implementation(
    2,
    FORWARD,
    "moved(AbstractConv2d(filter_flip=False, subsample=(1, 2)), M, N)  ->  GpuCorrMM(subsample=(1, 2))(M, N)",
    "local_abstractconv_gemm",
)
local_abstractconv3d_gemm = _implementation(
    3, FORWARD, "moved(AbstractConv3d(filter_flip=False), U, V)  ->  GpuCorr3dMM()(U, V)", "local_abstractconv3d_gemm"
)
local_abstractconv_gradweights_gemm = _implementation(
    2,
    WEIGHTS,
    "moved(AbstractConv2d_gradWeights(filter_flip=False), M, N, i)  ->  GpuCorrMM_gradWeights()(M, N, [i[0], i[1]])",
    "local_abstractconv_gradweights_gemm",
)
local_abstractconv3d_gradweights_gemm = _implementation(
    3,
    WEIGHTS,
    "moved(AbstractConv3d_gradWeights(filter_flip=False), U, V, i)"
    "  ->  GpuCorr3dMM_gradWeights()(U, V, [i[0], i[1], i[2]])",
    "local_abstractconv3d_gradweights_gemm",
)
local_abstractconv_gradinputs_gemm = _implementation(
    2,
    INPUTS,
    "moved(AbstractConv2d_gradInputs(filter_flip=False), M, N, i)  ->  GpuCorrMM_gradInputs()(M, N, [i[0], i[1]])",
    "local_abstractconv_gradinputs_gemm",
)
local_abstractconv3d_gradinputs_gemm = _implementation(
    3,
    INPUTS,
    "moved(AbstractConv3d_gradInputs(filter_flip=False), U, V, i)"
    "  ->  GpuCorr3dMM_gradInputs()(U, V, [i[0], i[1], i[2]])",
    "local_abstractconv3d_gradinputs_gemm",
)
# The names in the group, and the rules. The positions 1 and 2 are for cuDNN.
for _position, (_name, _rule) in enumerate(
    (
        ("local_abstractconv_gemm", local_abstractconv_gemm),
        ("local_abstractconv3d_gemm", local_abstractconv3d_gemm),
        ("local_abstractconv_gradweights_gemm", local_abstractconv_gradweights_gemm),
        ("local_abstractconv3d_gradweights_gemm", local_abstractconv3d_gradweights_gemm),
        ("local_abstractconv_gradinputs", local_abstractconv_gradinputs_gemm),
        ("local_abstractconv3d_gradinputs", local_abstractconv3d_gradinputs_gemm),
    ),
    3,
):
    abstractconv_groupopt.register(
        _name, _rule, "30", "conv_gemm", "fast_compile", "fast_run", "gpuarray", position=_position
    )
del _position, _name, _rule


# ---- the choice by measurements ----

local_abstractconv_gemm_def = _implementation(
    2, FORWARD, "The rule `local_abstractconv_gemm`, for measurements.", "local_abstractconv_gemm_def"
)
local_abstractconv3d_gemm_def = _implementation(
    3, FORWARD, "The rule `local_abstractconv3d_gemm`, for measurements.", "local_abstractconv3d_gemm_def"
)
local_abstractconv_gemm_alt = _implementation(
    2,
    FORWARD,
    "The alternative `_forward_alternative` in two dimensions.",
    "local_abstractconv_gemm_alt",
    alternative=True,
)
local_abstractconv3d_alt = _implementation(
    3,
    FORWARD,
    "The alternative `_forward_alternative` in three dimensions.",
    "local_abstractconv3d_alt",
    alternative=True,
)
local_abstractconv_gemm_gradweights_alt = _implementation(
    2,
    WEIGHTS,
    "The alternative `_weights_alternative` in two dimensions.",
    "local_abstractconv_gemm_gradweights_alt",
    alternative=True,
)
local_abstractconv3d_gemm_gradweights_alt = _implementation(
    3,
    WEIGHTS,
    "The alternative `_weights_alternative` in three dimensions.",
    "local_abstractconv3d_gemm_gradweights_alt",
    alternative=True,
)
local_abstractconv_gradinputs_gemm_alt = _implementation(
    2,
    INPUTS,
    "The alternative `_inputs_alternative` in two dimensions.",
    "local_abstractconv_gradinputs_gemm_alt",
    alternative=True,
)
local_abstractconv3d_gradinputs_gemm_alt = _implementation(
    3,
    INPUTS,
    "The alternative `_inputs_alternative` in three dimensions.",
    "local_abstractconv3d_gradinputs_gemm_alt",
    alternative=True,
)


def _without_padding(op, axis):
    """Return True if the kernels have one element along an axis, and are applied to each element of the images."""
    mode = op.border_mode if isinstance(op.border_mode, str) else op.border_mode[axis]
    return op.kshp[2 + axis] == 1 and op.subsample[axis] == 1 and (isinstance(mode, str) or mode == 0)


@local_optimizer([AbstractConv3d])
def local_abstractconv3d2d(node):
    """Compute a convolution in three dimensions as one in two dimensions, if the kernels have one element along an axis. The
    images along this axis become images of the batch.
    """
    op, (out,) = node.op, node.outputs
    axes = [axis for axis in range(3) if _without_padding(op, axis)]
    if not axes or not isinstance(out.type, GpuArrayType):
        return False
    (images, kernels), axis = node.inputs, axes[0]
    kept = [other for other in range(3) if other != axis]
    flat = AbstractConv2d(
        border_mode=op.border_mode if isinstance(op.border_mode, str) else tuple(op.border_mode[d] for d in kept),
        subsample=[op.subsample[d] for d in kept],
        filter_flip=op.filter_flip,
        filter_dilation=[op.filter_dilation[d] for d in kept],
        num_groups=op.num_groups,
    )
    order = (0, 2 + axis, 1, *[2 + d for d in kept])
    images = GpuDimShuffle(images.broadcastable, order)(images)
    batch, count = images.shape[0], images.shape[1]
    images = GpuReshape(4)(images, [batch * count, *[images.shape[d] for d in (2, 3, 4)]])
    kernels = part_of(kernels, *[0 if d == 2 + axis else slice(None) for d in range(5)])
    result = _direct(flat, images, kernels)
    result = GpuReshape(5)(result, [batch, count, *[result.shape[d] for d in (1, 2, 3)]])
    result = GpuDimShuffle(result.broadcastable, [order.index(d) for d in range(5)])(result)
    return [with_pattern(result, out)]


class ConvMetaOptimizer(LocalMetaOptimizer):
    """A rule that tries several Ops for a convolution on a device, and uses the fastest.

    Arrays with unknown values are replaced by random arrays. Their shapes must be known: by test values, or by the hints
    `imshp` and `kshp` of the convolution.
    """

    def time_call(self, fn):
        start = time.perf_counter()
        for result in fn():
            result.sync()
        return time.perf_counter() - start

    def provide_inputs(self, node, inputs):
        op = node.op
        if None in op.imshp or None in op.kshp:
            raise LocalMetaOptimizerSkipAssertionError("the shapes are not known")
        top = get_conv_output_shape(op.imshp, op.kshp, op.border_mode, op.subsample, op.filter_dilation)
        convdim = op.convdim
        shapes = {
            FORWARD: (op.imshp, op.kshp),
            WEIGHTS: (op.imshp, top, op.kshp[-convdim:]),
            INPUTS: (op.kshp, top, op.imshp[-convdim:]),
        }[op.direction]
        random, result = np.random.RandomState(0), {}
        for v, shape in zip(node.inputs, shapes):
            if v in inputs and isinstance(v.type, GpuArrayType):
                value = random.uniform(-1, 1, shape).astype(v.dtype)
                result[v] = gpuarray_shared_constructor(
                    value, broadcastable=v.broadcastable, target=v.type.context_name
                )
            elif v in inputs:
                result[v] = as_tensor_variable(np.array(shape, v.dtype))
                # Rules may use the elements of the vector, as `elements` returns them.
                for element, length in zip(elements(v, convdim), shape):
                    if isinstance(element, Variable) and element.owner is not None:
                        result[element] = as_tensor_variable(np.array(length, element.dtype))
        return result


conv_metaopt = ConvMetaOptimizer()
conv_metaopt.__name__ = "conv_metaopt"
for _rule in (
    local_abstractconv_gemm_def,
    local_abstractconv3d_gemm_def,
    local_abstractconv_gradweights_gemm,
    local_abstractconv3d_gradweights_gemm,
    local_abstractconv_gradinputs_gemm,
    local_abstractconv3d_gradinputs_gemm,
):
    conv_metaopt.register(_rule, ["conv_gemm", "default"])
for _rule in (
    local_abstractconv_gemm_alt,
    local_abstractconv3d_alt,
    local_abstractconv3d2d,
    local_abstractconv_gemm_gradweights_alt,
    local_abstractconv3d_gemm_gradweights_alt,
    local_abstractconv_gradinputs_gemm_alt,
    local_abstractconv3d_gradinputs_gemm_alt,
):
    conv_metaopt.register(_rule, ["conv_gemm", "alternative"])
del _rule
abstractconv_groupopt.register("conv_metaopt", conv_metaopt, "conv_meta", position=0)
