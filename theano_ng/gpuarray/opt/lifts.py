"""A table of the rules that replace an Op of the host by one Op of the device."""

from theano_ng.compile.ops import Rebroadcast, SpecifyShape
from theano_ng.gpuarray.basic_ops import (
    GpuAllocEmpty,
    GpuEye,
    GpuSplit,
    GpuTri,
    as_gpuarray_variable,
    gpu_contiguous,
    gpu_join,
)
from theano_ng.gpuarray.elemwise import GpuDimShuffle
from theano_ng.gpuarray.neighbours import GpuImages2Neibs, GpuImages2NeibsGrad
from theano_ng.gpuarray.nnet import (
    gpu_crossentropy_categorical_1hot,
    gpu_crossentropy_categorical_1hot_grad,
    gpu_crossentropy_softmax_1hot_with_bias_dx,
    gpu_crossentropy_softmax_argmax_1hot_with_bias,
    gpu_log_softmax,
    gpu_softmax,
    gpu_softmax_grad,
    gpu_softmax_with_bias,
)
from theano_ng.gpuarray.opt.databases import lifts
from theano_ng.gpuarray.reduction import GpuMaxAndArgmax
from theano_ng.gpuarray.sort import GpuArgSortOp, GpuSortOp, GpuTopKOp
from theano_ng.gpuarray.subtensor import (
    GpuAdvancedBooleanIncSubtensor,
    GpuAdvancedBooleanSubtensor,
    GpuAdvancedIncSubtensor,
    GpuAdvancedSubtensor,
    GpuAdvancedSubtensor1,
    GpuAllocDiag,
    GpuExtractDiag,
    GpuIncSubtensor,
)
from theano_ng.gpuarray.twin import host_variable
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.extra_ops import CpuContiguous
from theano_ng.tensor.indexing.advanced import (
    AdvancedBooleanIncSubtensor,
    AdvancedBooleanSubtensor,
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    AdvancedSubtensor1,
)
from theano_ng.tensor.indexing.subtensor import IncSubtensor
from theano_ng.tensor.nnet.crossentropy import (
    CrossentropyCategorical1Hot,
    CrossentropyCategorical1HotGrad,
    CrossentropySoftmax1HotWithBiasDx,
    CrossentropySoftmaxArgmax1HotWithBias,
)
from theano_ng.tensor.nnet.neighbours import Images2Neibs, Images2NeibsGrad
from theano_ng.tensor.nnet.softmax import LogSoftmax, Softmax, SoftmaxGrad, SoftmaxWithBias
from theano_ng.tensor.reductions.extremes import MaxAndArgmax
from theano_ng.tensor.shaping.allocation import AllocEmpty
from theano_ng.tensor.shaping.creation import Eye, Tri
from theano_ng.tensor.shaping.diagonals import AllocDiag, ExtractDiag
from theano_ng.tensor.shaping.joining import Join, Split
from theano_ng.tensor.sort import ArgSortOp, SortOp, TopKOp

first, first_two, after_first = slice(1), slice(2), slice(1, None)

# The columns are:
# - the class of the Op on the host;
# - the name of the rule;
# - the inputs that the rule moves to the device. The other inputs stay on the host. None: the Op on the device
#   transfers its inputs;
# - the Op on the device, as a function of the Op on the host and the name of the context;
# - an example.
# fmt: off
LIFTS = (
    (Rebroadcast, "local_gpua_rebroadcast", first, lambda op, context: op,
     "Rebroadcast((0, True))(host(A))  ->  host(Rebroadcast((0, True))(A))"),
    (SpecifyShape, "local_gpua_specifyShape", first, lambda op, context: op,
     "SpecifyShape()(host(A), i)  ->  host(SpecifyShape()(A, i))"),
    (AllocEmpty, "local_gpua_alloc_empty", None, lambda op, context: GpuAllocEmpty(op.dtype, context),
     "gpu(AllocEmpty('float64')(n))  ->  gpu(host(GpuAllocEmpty('float64', None)(n)))"),
    (Eye, "local_gpua_eye", None, lambda op, context: GpuEye(op.dtype, context),
     "gpu(Eye('float64')(n, n, 0))  ->  gpu(host(GpuEye('float64', None)(n, n, 0)))"),
    (Tri, "local_gpua_tri", None, lambda op, context: GpuTri(op.dtype, context),
     "gpu(Tri('float64')(n, n, 0))  ->  gpu(host(GpuTri('float64', None)(n, n, 0)))"),
    (CpuContiguous, "local_gpua_contiguous", None, lambda op, context: gpu_contiguous,
     "cpu_contiguous(host(A))  ->  host(gpu_contiguous(A))"),
    (Join, "local_gpua_join", after_first, lambda op, context: gpu_join,
     "join(0, host(A), host(B))  ->  host(gpu_join(0, A, B))"),
    (Split, "local_gpua_split", first, lambda op, context: GpuSplit(op.len_splits),
     "Split(2)(host(A), 0, i)  ->  [host(v) for v in GpuSplit(2)(A, 0, i)]"),
    (DimShuffle, "local_gpua_dimshuffle", None, lambda op, context: GpuDimShuffle(op.input_broadcastable, op.new_order),
     "host(A).T  ->  host(GpuDimShuffle((False, False), (1, 0))(A))"),
    (MaxAndArgmax, "local_gpu_maxandargmax", None, lambda op, context: GpuMaxAndArgmax(op.axis),
     "MaxAndArgmax((0,))(host(A))  ->  [host(v) for v in GpuMaxAndArgmax((0,))(A)]"),
    (IncSubtensor, "local_gpua_inc_subtensor", first_two, lambda op, context: GpuIncSubtensor(
        op.idx_list, op.inplace, op.set_instead_of_inc, op.destroyhandler_tolerate_aliased),
     "inc_subtensor(host(A)[1:], host(B))  ->  host(GpuIncSubtensor([slice(scalar.int64, None)])(A, B, np.int64(1)))"),
    (AdvancedSubtensor1, "local_gpua_advanced_subtensor1", None, lambda op, context: GpuAdvancedSubtensor1(op.sparse_grad),
     "host(A)[i]  ->  host(GpuAdvancedSubtensor1()(A, i))"),
    (AdvancedSubtensor, "local_gpua_advanced_subtensor", None, lambda op, context: GpuAdvancedSubtensor(),
     "host(A)[i, j]  ->  host(GpuAdvancedSubtensor()(A, i, j))"),
    (AdvancedBooleanSubtensor, "local_gpua_advanced_boolean_subtensor", None, lambda op, context: GpuAdvancedBooleanSubtensor(),
     "host(A)[host(mask)]  ->  host(GpuAdvancedBooleanSubtensor()(A, mask))"),
    (AdvancedIncSubtensor, "local_gpua_advanced_incsubtensor", None,
     lambda op, context: GpuAdvancedIncSubtensor(op.inplace, op.set_instead_of_inc),
     "inc_subtensor(host(A)[i, j], host(a))  ->  host(GpuAdvancedIncSubtensor()(A, a, i, j))"),
    (AdvancedBooleanIncSubtensor, "local_gpua_advanced_boolean_incsubtensor", None,
     lambda op, context: GpuAdvancedBooleanIncSubtensor(op.inplace, op.set_instead_of_inc),
     "inc_subtensor(host(A)[host(mask)], host(a))  ->  host(GpuAdvancedBooleanIncSubtensor()(A, a, mask))"),
    (ExtractDiag, "local_gpu_extract_diag", None, lambda op, context: GpuExtractDiag(op.offset, op.axis1, op.axis2, op.view),
     "ExtractDiag()(host(A))  ->  host(GpuExtractDiag()(A))"),
    (AllocDiag, "local_gpu_alloc_diag", None, lambda op, context: GpuAllocDiag(op.offset, op.axis1, op.axis2),
     "AllocDiag()(host(a))  ->  host(GpuAllocDiag()(a))"),
    (Softmax, "local_gpua_softmax", None, lambda op, context: gpu_softmax,
     "softmax_op(host(A))  ->  host(gpu_softmax(A))"),
    (SoftmaxWithBias, "local_gpua_softmaxwithbias", None, lambda op, context: gpu_softmax_with_bias,
     "softmax_with_bias(host(A), host(a))  ->  host(gpu_softmax_with_bias(A, a))"),
    (SoftmaxGrad, "local_gpua_softmax_grad", None, lambda op, context: gpu_softmax_grad,
     "softmax_grad(host(A), host(B))  ->  host(gpu_softmax_grad(A, B))"),
    (LogSoftmax, "local_gpua_logsoftmax", None, lambda op, context: gpu_log_softmax,
     "LogSoftmax()(host(A))  ->  host(gpu_log_softmax(A))"),
    (CrossentropySoftmaxArgmax1HotWithBias, "local_gpua_crossentropysoftmaxargmax1hotwithbias", None,
     lambda op, context: gpu_crossentropy_softmax_argmax_1hot_with_bias,
     "CrossentropySoftmaxArgmax1HotWithBias()(host(A), host(a), i)"
     "  ->  [host(v) for v in gpu_crossentropy_softmax_argmax_1hot_with_bias(A, a, i)]"),
    (CrossentropySoftmax1HotWithBiasDx, "local_gpua_crossentropysoftmax1hotwithbiasdx", None,
     lambda op, context: gpu_crossentropy_softmax_1hot_with_bias_dx,
     "CrossentropySoftmax1HotWithBiasDx()(host(a), host(A), i)  ->  host(gpu_crossentropy_softmax_1hot_with_bias_dx(a, A, i))"),
    (CrossentropyCategorical1Hot, "local_gpu_crossentropycategorical1hot", None,
     lambda op, context: gpu_crossentropy_categorical_1hot,
     "CrossentropyCategorical1Hot()(host(A), i)  ->  host(gpu_crossentropy_categorical_1hot(A, i))"),
    (CrossentropyCategorical1HotGrad, "local_gpu_crossentropycategorical1hotgrad", None,
     lambda op, context: gpu_crossentropy_categorical_1hot_grad,
     "CrossentropyCategorical1HotGrad()(host(a), host(A), i)"
     "  ->  host(gpu_crossentropy_categorical_1hot_grad(a, A, i))"),
    (SortOp, "local_gpua_sort", None, lambda op, context: GpuSortOp(op.kind, op.order),
     "SortOp('stable')(host(A), 0)  ->  host(GpuSortOp('stable')(A, 0))"),
    (ArgSortOp, "local_gpua_argsort", None, lambda op, context: GpuArgSortOp(op.kind, op.order),
     "ArgSortOp('stable')(host(A), 0)  ->  host(GpuArgSortOp('stable')(A, 0))"),
    (TopKOp, "local_gpua_topkop", None,
     lambda op, context: GpuTopKOp(op.axis, op.sorted, op.idx_dtype, op.return_values, op.return_indices),
     "TopKOp()(host(A), n)  ->  [host(v) for v in GpuTopKOp()(A, n)]"),
    (Images2Neibs, "local_gpua_images2neibs", first, lambda op, context: GpuImages2Neibs(op.mode),
     "Images2Neibs()(host(F), i, i)  ->  host(GpuImages2Neibs()(F, i, i))"),
    (Images2NeibsGrad, "local_gpua_images2neibs_grad", first, lambda op, context: GpuImages2NeibsGrad(op.mode),
     "Images2NeibsGrad()(host(A), n, n, n, n, i, i)  ->  host(GpuImages2NeibsGrad()(A, n, n, n, n, i, i))"),
)
# fmt: on


def _lift(host_op, name, moved, device_op, example):
    """Register the rule that a row of the table describes. Return the rule for single nodes."""

    def lifted(op, context_name, inputs, outputs):
        new = device_op(op, context_name)
        if moved is None:
            return new
        places = range(len(inputs))[moved]
        placed = [
            as_gpuarray_variable(v, context_name) if i in places else host_variable(v) for i, v in enumerate(inputs)
        ]
        return new(*placed, return_list=True)

    lifted.__doc__ = example
    return lifts(host_op, name=name)(lifted)


for _row in LIFTS:
    globals()[_row[1]] = _lift(*_row)
del _row
