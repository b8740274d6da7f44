"""Rules that replace abstract convolution Ops by Ops that compute the convolutions.

The rules are in the group `conv_opts` of the phase `specialize_device`. The first rule that applies to a node is used.
The rules with the tag ``conv_gemm`` make the Ops of `corr`, `corr3d` and `convmm`, which can compute all convolutions.
If these rules are excluded (``optimizer_excluding=conv_gemm``), a two-dimensional convolution becomes a `legacy.ConvOp`
if that Op can compute it. `local_abstractconv_check` raises an error for a convolution that no rule has replaced.
"""

from theano_ng.compile import optdb
from theano_ng.gof.graph import Constant
from theano_ng.gof.optdb import LocalGroupDB
from theano_ng.gof.rewriting import LocalMetaOptimizerSkipAssertionError, TopoOptimizer, local_optimizer
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
from theano_ng.tensor.opt.patterns import Rest, names, ops_such, rule
from theano_ng.tensor.opt.registration import register_specialize_device
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.shaping.creation import MakeVector

conv_groupopt = LocalGroupDB()
conv_groupopt.__name__ = "conv_opts"
register_specialize_device(conv_groupopt, "fast_compile")


def _flip(x):
    """Return kernels or images with rows and columns in reverse order."""
    return x[:, :, ::-1, ::-1]


def elements(vector, n):
    """Return the elements of a vector of lengths as scalars.

    If the vector is a constant or the output of a MakeVector, no nodes are added.
    """
    if isinstance(vector, Constant):
        return [int(value) for value in vector.data]
    if vector.owner is not None and isinstance(vector.owner.op, MakeVector):
        return vector.owner.inputs
    return [vector[i] for i in range(n)]


images, kernels, maps, lengths = names("images", "kernels", "maps", "lengths")


def _implemented(convdim, *op_classes):
    """Return a pair (pattern, replacement) for a rule that replaces abstract convolutions by their implementations.

    The pattern matches Ops of the classes `op_classes` with `convdim` dimensions.
    """

    def computed(op, first, second, shape, out):
        shape = [elements(vector, convdim) for vector in shape]
        return patternbroadcast(op.implementation()(first, second, *shape), out.broadcastable)

    convolution = ops_such(*op_classes, condition=lambda op: op.convdim == convdim)
    return convolution(*names("first", "second"), Rest("shape")), computed


@rule(_implemented(2, AbstractConv2d, AbstractConv))
def local_abstractconv_gemm():
    """Compute a convolution in two dimensions by ConvMM, or by CorrMM if the kernels are not flipped.

    AbstractConv2d(filter_flip=False)(images, kernels)  ->  CorrMM()(images, kernels)          [30, conv_gemm, conv_opts, fast_compile, fast_run]
    AbstractConv2d(subsample=(2, 1))(images, kernels)  ->  ConvMM(subsample=(2, 1))(images, kernels)
    """


@rule(_implemented(2, AbstractConv2d_gradWeights, AbstractConv_gradWeights))
def local_abstractconv_gradweight_gemm():
    """Compute the gradient of a convolution in two dimensions with respect to the kernels.

    AbstractConv2d_gradWeights()(images, maps, lengths)  ->
        ConvMM_gradWeights()(images, maps, [lengths[0], lengths[1]])          [30, conv_gemm, conv_opts, fast_compile, fast_run]
    """


@rule(_implemented(2, AbstractConv2d_gradInputs, AbstractConv_gradInputs))
def local_abstractconv_gradinputs_gemm():
    """Compute the gradient of a convolution in two dimensions with respect to the images.

    AbstractConv2d_gradInputs(border_mode=(1, 0))(kernels, maps, [3, 4])  ->
        ConvMM_gradInputs(border_mode=(1, 0))(kernels, maps, [3, 4])          [30, conv_gemm, conv_opts, fast_compile, fast_run]
    """


@rule(_implemented(3, AbstractConv3d, AbstractConv))
def local_abstractconv3d_gemm():
    """Compute a convolution in three dimensions by Conv3dMM, or by Corr3dMM if the kernels are not flipped.

    AbstractConv3d(filter_flip=False)(films, cubes)  ->  Corr3dMM()(films, cubes)          [30, conv_gemm, conv_opts, fast_compile, fast_run]
    AbstractConv3d()(films, cubes)  ->  Conv3dMM()(films, cubes)
    """


@rule(_implemented(3, AbstractConv3d_gradWeights, AbstractConv_gradWeights))
def local_abstractconv3d_gradweight_gemm():
    """Compute the gradient of a convolution in three dimensions with respect to the kernels.

    AbstractConv3d_gradWeights()(films, films, [1, 1, 1])  ->
        Conv3dMM_gradWeights()(films, films, [1, 1, 1])          [30, conv_gemm, conv_opts, fast_compile, fast_run]
    """


@rule(_implemented(3, AbstractConv3d_gradInputs, AbstractConv_gradInputs))
def local_abstractconv3d_gradinputs_gemm():
    """Compute the gradient of a convolution in three dimensions with respect to the images.

    AbstractConv3d_gradInputs()(cubes, films, [4, 5, 5])  ->
        Conv3dMM_gradInputs()(cubes, films, [4, 5, 5])          [30, conv_gemm, conv_opts, fast_compile, fast_run]
    """


def _is_classic(op):
    """Return True if `ConvOp` supports the parameters of an abstract convolution. The strides are not tested."""
    return (
        op.convdim == 2
        and op.border_mode in ("valid", "full")
        and op.filter_dilation == (1, 1)
        and op.num_groups == 1
        and not op.unshared
    )


def _has_classic_gradient(op):
    return _is_classic(op) and op.subsample == (1, 1)


convolved = ops_such(AbstractConv2d, AbstractConv, condition=_is_classic)
d_kernels = ops_such(AbstractConv2d_gradWeights, AbstractConv_gradWeights, condition=_has_classic_gradient)
d_images = ops_such(AbstractConv2d_gradInputs, AbstractConv_gradInputs, condition=_has_classic_gradient)


@rule(convolved(images, kernels))
def local_conv2d_cpu(op, images, kernels, out):
    """Compute a convolution by the classic ConvOp if the rules ``conv_gemm`` are excluded.

    AbstractConv2d(subsample=(1, 2))(images, kernels)  ->  ConvOp(dx=1, dy=2)(images, kernels)          [40, conv_opts, fast_compile, fast_run]
    """
    dx, dy = op.subsample
    result = ConvOp(output_mode=op.border_mode, dx=dx, dy=dy)(images, kernels if op.filter_flip else _flip(kernels))
    return patternbroadcast(result, out.broadcastable)


@rule(d_kernels(images, maps, lengths))
def local_conv2d_gradweight_cpu(op, images, maps, out):
    """Compute the gradient with respect to the kernels by ConvOp if the rules ``conv_gemm`` are excluded.

    AbstractConv2d_gradWeights()(images, maps, [2, 2])  ->
        ConvOp()(images.dimshuffle(1, 0, 2, 3), maps.dimshuffle(1, 0, 2, 3)[:, :, ::-1, ::-1]).dimshuffle(1, 0, 2, 3)[:, :, ::-1, ::-1]
        [40, conv_opts, fast_compile, fast_run]

    The gradient is a convolution of the images with the gradient of the output. First, the batch axis and the channel
    axis of both tensors are exchanged. The rule applies only if the lengths of the images and of the output determine
    the lengths of the kernels: without strides, and in the modes 'valid' and 'full'.
    """
    images, top = images.dimshuffle(1, 0, 2, 3), maps.dimshuffle(1, 0, 2, 3)
    if op.border_mode == "full":
        # In mode 'full', the output of the forward convolution is longer than the images. So convolve the gradient of
        # the output, and use the images as kernels.
        result = ConvOp()(top, _flip(images))
    else:
        result = _flip(ConvOp()(images, _flip(top)).dimshuffle(1, 0, 2, 3))
    return patternbroadcast(result if op.filter_flip else _flip(result), out.broadcastable)


@rule(d_images(kernels, maps, lengths))
def local_conv2d_gradinputs_cpu(op, kernels, maps, out):
    """Compute the gradient with respect to the images by ConvOp if the rules ``conv_gemm`` are excluded.

    AbstractConv2d_gradInputs()(kernels, maps, [5, 4])  ->
        ConvOp(output_mode='full')(maps, kernels.dimshuffle(1, 0, 2, 3)[:, :, ::-1, ::-1])          [40, conv_opts, fast_compile, fast_run]

    The gradient is a convolution of the gradient of the output with flipped kernels. The mode of this convolution is
    'full' if the mode of the forward convolution is 'valid', and vice versa.
    """
    kernels = kernels.dimshuffle(1, 0, 2, 3)
    mode = "valid" if op.border_mode == "full" else "full"
    result = ConvOp(output_mode=mode)(maps, _flip(kernels) if op.filter_flip else kernels)
    return patternbroadcast(result, out.broadcastable)


for _rule in (
    local_abstractconv_gemm,
    local_abstractconv_gradweight_gemm,
    local_abstractconv_gradinputs_gemm,
    local_abstractconv3d_gemm,
    local_abstractconv3d_gradweight_gemm,
    local_abstractconv3d_gradinputs_gemm,
):
    conv_groupopt.register(_rule.__name__, _rule, "30", "conv_gemm", "fast_compile", "fast_run")
for _rule in (local_conv2d_cpu, local_conv2d_gradweight_cpu, local_conv2d_gradinputs_cpu):
    conv_groupopt.register(_rule.__name__, _rule, "40", "fast_compile", "fast_run")


_ABSTRACT = [
    AbstractConv,
    AbstractConv_gradWeights,
    AbstractConv_gradInputs,
    AbstractConv2d,
    AbstractConv2d_gradWeights,
    AbstractConv2d_gradInputs,
    AbstractConv3d,
    AbstractConv3d_gradWeights,
    AbstractConv3d_gradInputs,
]


@local_optimizer(_ABSTRACT)
def local_abstractconv_check(node):
    """Raise an error for a convolution that no rule has replaced.

    The abstract Op itself is slow, so it must not run unless a user asks for it.
    """
    raise LocalMetaOptimizerSkipAssertionError(
        "%s Theano optimization failed: there is no implementation available supporting the requested options. Did you exclude both "
        '"conv_dnn" and "conv_gemm" from the optimizer? A convolution with strides in its gradients, groups, dilation, padding by numbers, '
        "kernels for each position or three dimensions needs conv_gemm." % type(node.op).__name__
    )


optdb.register(
    "AbstractConvCheck", TopoOptimizer(local_abstractconv_check, order="in_to_out"), 48.7, "fast_compile", "fast_run"
)
