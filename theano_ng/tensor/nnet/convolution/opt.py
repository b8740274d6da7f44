"""Rules that replace convolutions, which say what is computed, by Ops that compute it.

They are in the group `conv_opts` of the phase `specialize_device`; of those that apply to a node the first one does. Those with the tag
``conv_gemm`` make the Ops of `corr`, `corr3d` and `convmm`, which can do all. Without them (``optimizer_excluding=conv_gemm``) two-dimensional
convolutions that `legacy.ConvOp` can do are made of that. What is left then is an error (`local_abstractconv_check`).
"""

from theano_ng.compile import optdb
from theano_ng.gof.graph import Constant
from theano_ng.gof.optdb import LocalGroupDB
from theano_ng.gof.rewriting import (
    LocalMetaOptimizerSkipAssertionError,
    TopoOptimizer,
    copy_stack_trace,
    local_optimizer,
)
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
from theano_ng.tensor.opt.own_registration import register_specialize_device
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.shaping.creation import MakeVector

conv_groupopt = LocalGroupDB()
conv_groupopt.__name__ = "conv_opts"
register_specialize_device(conv_groupopt, "fast_compile")


def _finish(node, result):
    """[result] with the pattern and the trace of what it stands for."""
    (old,) = node.outputs
    result = patternbroadcast(result, old.broadcastable)
    copy_stack_trace(old, result)
    return [result]


def _flip(x):
    """Kernels or images with rows and columns in reverse order."""
    return x[:, :, ::-1, ::-1]


def _elements(vector, n):
    """The elements of a vector of lengths as scalars, without nodes where it was put together of them."""
    if isinstance(vector, Constant):
        return [int(value) for value in vector.data]
    if vector.owner is not None and isinstance(vector.owner.op, MakeVector):
        return vector.owner.inputs
    return [vector[i] for i in range(n)]


def _implemented(node, convdim):
    """The node of a convolution by the Op that computes it; None where it has another number of dimensions."""
    op = node.op
    if op.convdim != convdim:
        return None
    first, second, *shape = node.inputs
    lengths = [_elements(shape[0], convdim)] if shape else []
    return _finish(node, op.implementation()(first, second, *lengths))


@local_optimizer([AbstractConv2d, AbstractConv])
def local_abstractconv_gemm(node):
    """A convolution in two dimensions, of kernels that are flipped or not.

    AbstractConv2d(filter_flip=False)(images, kernels)  ->  CorrMM()(images, kernels)          [30, conv_gemm, conv_opts, fast_compile, fast_run]
    AbstractConv2d(subsample=(2, 1))(images, kernels)  ->  ConvMM(subsample=(2, 1))(images, kernels)
    """
    return _implemented(node, 2)


@local_optimizer([AbstractConv2d_gradWeights, AbstractConv_gradWeights])
def local_abstractconv_gradweight_gemm(node):
    """The gradient of a convolution in two dimensions with respect to kernels.

    AbstractConv2d_gradWeights()(images, maps, lengths)  ->
        ConvMM_gradWeights()(images, maps, [lengths[0], lengths[1]])          [30, conv_gemm, conv_opts, fast_compile, fast_run]
    """
    return _implemented(node, 2)


@local_optimizer([AbstractConv2d_gradInputs, AbstractConv_gradInputs])
def local_abstractconv_gradinputs_gemm(node):
    """The gradient of a convolution in two dimensions with respect to images.

    AbstractConv2d_gradInputs(border_mode=(1, 0))(kernels, maps, [3, 4])  ->
        ConvMM_gradInputs(border_mode=(1, 0))(kernels, maps, [3, 4])          [30, conv_gemm, conv_opts, fast_compile, fast_run]
    """
    return _implemented(node, 2)


@local_optimizer([AbstractConv3d, AbstractConv])
def local_abstractconv3d_gemm(node):
    """A convolution in three dimensions, of kernels that are flipped or not.

    AbstractConv3d(filter_flip=False)(films, cubes)  ->  Corr3dMM()(films, cubes)          [30, conv_gemm, conv_opts, fast_compile, fast_run]
    AbstractConv3d()(films, cubes)  ->  Conv3dMM()(films, cubes)
    """
    return _implemented(node, 3)


@local_optimizer([AbstractConv3d_gradWeights, AbstractConv_gradWeights])
def local_abstractconv3d_gradweight_gemm(node):
    """The gradient of a convolution in three dimensions with respect to kernels.

    AbstractConv3d_gradWeights()(films, films, [1, 1, 1])  ->
        Conv3dMM_gradWeights()(films, films, [1, 1, 1])          [30, conv_gemm, conv_opts, fast_compile, fast_run]
    """
    return _implemented(node, 3)


@local_optimizer([AbstractConv3d_gradInputs, AbstractConv_gradInputs])
def local_abstractconv3d_gradinputs_gemm(node):
    """The gradient of a convolution in three dimensions with respect to images.

    AbstractConv3d_gradInputs()(cubes, films, [4, 5, 5])  ->
        Conv3dMM_gradInputs()(cubes, films, [4, 5, 5])          [30, conv_gemm, conv_opts, fast_compile, fast_run]
    """
    return _implemented(node, 3)


def _is_classic(op):
    """Whether a convolution is one that `ConvOp` can do, but for strides."""
    return (
        op.convdim == 2
        and op.border_mode in ("valid", "full")
        and op.filter_dilation == (1, 1)
        and op.num_groups == 1
        and not op.unshared
    )


@local_optimizer([AbstractConv2d, AbstractConv])
def local_conv2d_cpu(node):
    """Where no correlation is wanted, the classic Op does it.

    AbstractConv2d(subsample=(1, 2))(images, kernels)  ->  ConvOp(dx=1, dy=2)(images, kernels)          [40, conv_opts, fast_compile, fast_run]
    """
    op = node.op
    if not _is_classic(op):
        return None
    images, kernels = node.inputs
    if not op.filter_flip:
        kernels = _flip(kernels)
    dx, dy = op.subsample
    return _finish(node, ConvOp(output_mode=op.border_mode, dx=dx, dy=dy)(images, kernels))


@local_optimizer([AbstractConv2d_gradWeights, AbstractConv_gradWeights])
def local_conv2d_gradweight_cpu(node):
    """Where no correlation is wanted, kernels are what images make of gradients, with the roles of batch and channels exchanged.

    AbstractConv2d_gradWeights()(images, maps, [2, 2])  ->
        ConvOp()(images.dimshuffle(1, 0, 2, 3), maps.dimshuffle(1, 0, 2, 3)[:, :, ::-1, ::-1]).dimshuffle(1, 0, 2, 3)[:, :, ::-1, ::-1]
        [40, conv_opts, fast_compile, fast_run]

    The lengths follow from the two: only without strides, and where padding does not hide them.
    """
    op = node.op
    if not _is_classic(op) or op.subsample != (1, 1):
        return None
    images, top, _ = node.inputs
    images, top = images.dimshuffle(1, 0, 2, 3), top.dimshuffle(1, 0, 2, 3)
    if op.border_mode == "full":
        # The output is longer than images, which move along it.
        result = ConvOp()(top, _flip(images))
    else:
        result = _flip(ConvOp()(images, _flip(top)).dimshuffle(1, 0, 2, 3))
    return _finish(node, result if op.filter_flip else _flip(result))


@local_optimizer([AbstractConv2d_gradInputs, AbstractConv_gradInputs])
def local_conv2d_gradinputs_cpu(node):
    """Where no correlation is wanted, images are what gradients make of flipped kernels, padded where the convolution was not.

    AbstractConv2d_gradInputs()(kernels, maps, [5, 4])  ->
        ConvOp(output_mode='full')(maps, kernels.dimshuffle(1, 0, 2, 3)[:, :, ::-1, ::-1])          [40, conv_opts, fast_compile, fast_run]
    """
    op = node.op
    if not _is_classic(op) or op.subsample != (1, 1):
        return None
    kernels, top, _ = node.inputs
    kernels = kernels.dimshuffle(1, 0, 2, 3)
    if op.filter_flip:
        kernels = _flip(kernels)
    mode = "valid" if op.border_mode == "full" else "full"
    return _finish(node, ConvOp(output_mode=mode)(top, kernels))


for _rule in (
    local_abstractconv_gemm,
    local_abstractconv_gradweight_gemm,
    local_abstractconv_gradinputs_gemm,
    local_abstractconv3d_gemm,
    local_abstractconv3d_gradweight_gemm,
    local_abstractconv3d_gradinputs_gemm,
):
    conv_groupopt.register(_rule.__name__, _rule, "30", "conv_gemm", "fast_compile", "fast_run", own=True)
for _rule in (local_conv2d_cpu, local_conv2d_gradweight_cpu, local_conv2d_gradinputs_cpu):
    conv_groupopt.register(_rule.__name__, _rule, "40", "fast_compile", "fast_run", own=True)


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
    """A convolution that no rule has replaced is an error: nothing may be as slow as the Op itself without being asked for."""
    raise LocalMetaOptimizerSkipAssertionError(
        "%s Theano optimization failed: there is no implementation available supporting the requested options. Did you exclude both "
        '"conv_dnn" and "conv_gemm" from the optimizer? A convolution with strides in its gradients, groups, dilation, padding by numbers, '
        "kernels for each position or three dimensions needs conv_gemm." % type(node.op).__name__
    )


optdb.register(
    "AbstractConvCheck",
    TopoOptimizer(local_abstractconv_check, order="in_to_out"),
    48.7,
    "fast_compile",
    "fast_run",
    own=True,
)
