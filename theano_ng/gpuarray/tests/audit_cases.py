"""Ops on devices, for the audit: ``theano_ng-audit theano_ng.gpuarray.tests.audit_cases``.

Checks run in forked processes, and a child process cannot use a device that its parent opened. Therefore each child
opens the device, and the parent never does.
"""

import os

import numpy as np

from theano_ng import scalar
from theano_ng import tensor as tt
from theano_ng.audit.records import Case
from theano_ng.gpuarray import blas, corr, nnet, pool, sort, subtensor
from theano_ng.gpuarray.basic_ops import (
    GpuAlloc,
    GpuAllocEmpty,
    GpuEye,
    GpuJoin,
    GpuReshape,
    GpuSplit,
    GpuToGpu,
    GpuTri,
    as_gpuarray_variable,
    gpu_contiguous,
    host_from_gpu,
)
from theano_ng.gpuarray.batchnorm import GpuBatchNormTrain, GpuBatchNormTrainGrad
from theano_ng.gpuarray.blocksparse import (
    gpu_sparse_block_gemv,
    gpu_sparse_block_gemv_inplace,
    gpu_sparse_block_outer,
    gpu_sparse_block_outer_inplace,
)
from theano_ng.gpuarray.ctc import GpuConnectionistTemporalClassification
from theano_ng.gpuarray.elemwise import (
    GpuCAReduceCPY,
    GpuCAReduceCuda,
    GpuDimShuffle,
    GpuElemwise,
    GpuElemwiseInSlices,
    GpuElemwiseOfNumbers,
    gpu_erfcinv,
    gpu_erfinv,
)
from theano_ng.gpuarray.extra_ops import GpuCumOp
from theano_ng.gpuarray.multinomial import (
    GPUAChoiceFromUniform,
    GPUAMultinomialFromUniform,
    GPUAMultinomialWOReplacementFromUniform,
)
from theano_ng.gpuarray.neighbours import GpuImages2Neibs, GpuImages2NeibsGrad
from theano_ng.gpuarray.product_elemwise import GpuProductElemwise
from theano_ng.gpuarray.reduction import GpuMaxAndArgmax
from theano_ng.gpuarray.rng_mrg import GPUA_mrg_uniform
from theano_ng.gpuarray.row_program import GpuRowProgram
from theano_ng.gpuarray.tests import device
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.sandbox import mrg31k3p
from theano_ng.tensor.reductions.row_program import RowShape
from theano_ng.tensor.tests import audit_nnet

NAME, OTHER = "test", "another name"
RNG = np.random.RandomState(21)
X, Y = RNG.randn(3, 4).astype("float32"), RNG.randn(3, 4).astype("float32")
T3 = RNG.randn(2, 3, 4).astype("float32")
POOLED = T3[:, :2].reshape(2, 1, 2, 2, 2).max((2, 4)), T3[:, :1, :2]  # maxima of windows of 2 x 2, and a gradient
IMAGE, KERNEL = RNG.randn(2, 2, 4, 5).astype("float32"), RNG.randn(3, 2, 2, 3).astype("float32")
TOP, OWN = RNG.randn(2, 3, 3, 3).astype("float32"), RNG.randn(3, 3, 3, 2, 2, 3).astype("float32")
UNIT = RNG.uniform(0.1, 0.9, (3, 4)).astype("float32")
INTS = RNG.randint(-9, 9, (3, 4))
SQUARE, HALF, TWO = X[:, :3], np.float32(0.5), np.float32(2)
DRAWS = RNG.uniform(size=6).astype("float32")
STATES = np.arange(1, 13, dtype="int32").reshape(2, 6)
ROWS, COLUMNS = np.array([2, 0, 2]), np.array([1, 1, 3])


def _open():
    from theano_ng.gpuarray import contexts

    for name in {NAME, OTHER}.intersection(contexts.list_contexts()):  # contexts of the parent
        contexts.unregister(name)
    device._opened.clear()
    device.context(NAME)
    device.context(OTHER)


SKIP = dict.fromkeys(("grad", "R_op"), "its derivatives are those of the Op on the host, which has cases of its own")


def on_device(op, *places, name=NAME):
    """Return a callable that moves the inputs at these positions (default: all) to a device and applies an Op."""

    def call(*inputs):
        return op(*[as_gpuarray_variable(v, name) if not places or i in places else v for i, v in enumerate(inputs)])

    return call


def _part(cls, **kwargs):
    """Return a callable that applies an Op of class `cls` for the index ``[1:, i]``; i is the last argument."""
    template = tt.fmatrix()[1:, tt.lscalar()].owner
    rest = template.inputs[1:2]
    return on_device(
        lambda *v: cls(template.op.idx_list, **kwargs)(*v[:-1], *rest, tt.scalar_from_tensor(v[-1])),
        *range(kwargs and 2 or 1),
    )


def _bounded(op):
    """Return a callable that applies an Op to n, m and k, with n and m limited to 20.

    Checks limit the address space, and PoCL crashes when the address space is exhausted.
    """
    return lambda n, m, k: op(tt.minimum(n, 20), tt.minimum(m, 20), k)


def _in_slices():
    """Return a callable that stores the product and the sum of two matrices side by side, and returns their quotient."""
    a, b = scalar.float32("a"), scalar.float32("b")
    op = GpuElemwiseInSlices(scalar.Composite([a, b], [a * b, a / (2 + b * b), a + b]), 1, [(0, 3), None, (4, 7)])
    return lambda x, y: op(x.shape[0], 8, x, y)


def _row_program():
    """Return the Op that subtracts the maximum from each row, and sums the result."""
    steps = (
        (GpuCAReduceCuda(scalar.maximum, (1,)), (0,)),
        (GpuDimShuffle((False,), (0, "x")), (1,)),
        (GpuElemwise(scalar.sub), (0, 2)),
        (GpuCAReduceCuda(scalar.add, (1,)), (3,)),
    )
    return GpuRowProgram(steps, (3, 4), RowShape((False,), 1))


def _sum_with_number(x, y, number):
    """Add two arrays on the device and a number on the host, which is passed to the kernel by value."""
    return GpuElemwiseOfNumbers(scalar.add)(x, y, tt.as_tensor_variable(number).dimshuffle("x", "x"))


def _product_with_number(x, y, number):
    """Multiply a product of arrays on the device by a number on the host, which is passed to the kernel by value."""
    number = tt.as_tensor_variable(number).dimshuffle("x", "x")
    return GpuProductElemwise(blas.gpu_dot22, scalar.mul, 0)(x, y, number)


def _streams(values):
    """Return True for states that a generator can have: the audit generates negative numbers and numbers beyond the
    moduli, too, for which the device and the host may differ.
    """
    states = values[0]
    return states.ndim == 2 and states.shape[1:] == (6,) and (states >= 0).all() and (states < mrg31k3p.M2).all()


def _finite_kernels(values):
    return bool(np.isfinite(values[0]).all())


def _labelled(op):
    """Return a callable that applies an Op to arrays on the device and to labels on the host."""
    return lambda *inputs: op(*[as_gpuarray_variable(v, NAME) for v in inputs[:-1]], inputs[-1])


def _filled(x):
    """Return a copy of x in an array that is allocated without initial values."""
    memory = GpuAllocEmpty("float32", NAME)(*[tt.shape(x)[i] for i in range(x.ndim)])
    return subtensor.GpuIncSubtensor([], set_instead_of_inc=True)(memory, as_gpuarray_variable(x, NAME))


def _floats(values):
    """Return examples whose float64 arrays are float32 arrays."""
    return [np.asarray(v, "float32") if np.asarray(v).dtype == "float64" else v for v in values]


def _normalized(op, first):
    """Return a callable that applies an Op of batch normalization. The inputs from position `first` on are statistics."""

    def call(*values):
        values = [*values[:first], *[tt.addbroadcast(v, *op.axes) for v in values[first:]]]
        return op(*[as_gpuarray_variable(v, NAME) for v in values], 1e-2)

    return call


def _windows():
    """Return rows of the table for Ops on image patches."""
    rows = []
    for mode in ("valid", "half", "full", "ignore_borders", "wrap_centered"):
        op = on_device(lambda x, mode=mode: GpuImages2Neibs(mode)(x, (3, 3), (1, 1)))
        rows.append(
            ("GpuImages2Neibs " + mode, op, _floats([audit_nnet.PIXELS]), lambda values: min(values[0].shape[2:]) >= 3)
        )
    op = on_device(lambda x: GpuImages2NeibsGrad("half")(x, 2, 1, 4, 6, (3, 3), (1, 1)))
    rows.append(("GpuImages2NeibsGrad", op, [np.ones((48, 9), "float32")], lambda values: values[0].shape == (48, 9)))
    return rows


def _networks():
    """Return rows of the table for products of blocks, temporal classification and batch normalization."""
    o, blocks, h, places = audit_nnet.O, audit_nnet.BLOCKS, audit_nnet.H, [audit_nnet.FROM, audit_nnet.TO]
    rows = []
    for op in (gpu_sparse_block_gemv, gpu_sparse_block_gemv_inplace):
        rows.append((str(op), on_device(op, 0, 1, 2), _floats([o, blocks, h, *places]), audit_nnet.blocks_fit))
    for op in (gpu_sparse_block_outer, gpu_sparse_block_outer_inplace):
        inputs = _floats([blocks, h, o, *places, 0.5])
        rows.append((str(op), on_device(op, 0, 1, 2), inputs, audit_nnet.blocks_fit))
    inputs = _floats([blocks, h, o, *places, 0.5])
    everything = on_device(gpu_sparse_block_outer)
    rows.append(("GpuSparseBlockOuter, indices on the device", everything, inputs, audit_nnet.blocks_fit))
    labelled = _floats([np.linspace(-2, 2, 30).reshape(5, 2, 3), np.array([[1, 1], [-3, 2]]), np.array([5, 4])])
    for grad in (False, True):
        op = GpuConnectionistTemporalClassification(grad)
        rows.append((str(op), on_device(op, 0), labelled, audit_nnet.alignable))
    for count, first, cls in ((2, 1, GpuBatchNormTrain), (3, 2, GpuBatchNormTrainGrad)):
        for axes, arrays, statistics in (
            ((0,), [audit_nnet.X, audit_nnet.DY], audit_nnet.ROWS),
            ((0, 2, 3), [audit_nnet.IMAGES, audit_nnet.IMAGES[::-1]], audit_nnet.CHANNELS),
        ):
            inputs = _floats([*arrays[:first], *statistics[:count]])
            tied = audit_nnet.statistic_places(count, first)
            rows.append((str(cls(axes)), _normalized(cls(axes), first), inputs, tied))
    return rows


def audit_cases():
    """Return the cases, and register a function that opens the device in processes that are forked later."""
    os.register_at_fork(after_in_child=_open)
    return cases()


def cases():
    """Return the cases, for callers that only build their graphs."""
    i = np.array(1)
    rows = (
        subtensor.GpuAdvancedSubtensor1(),
        subtensor.GpuAdvancedIncSubtensor1(),
        subtensor.GpuAdvancedIncSubtensor1(set_instead_of_inc=True),
    )
    table = [
        ("HostFromGpu", on_device(host_from_gpu), [X]),
        ("GpuToGpu", on_device(GpuToGpu(OTHER)), [X]),
        ("GpuContiguous", on_device(lambda x: gpu_contiguous(GpuDimShuffle((False, False), (1, 0))(x))), [X]),
        ("GpuElemwise add", on_device(GpuElemwise(scalar.add)), [X, Y[:1]]),
        ("GpuElemwise in place", on_device(GpuElemwise(scalar.Mul(scalar.transfer_type(0)), {0: 0})), [X, Y]),
        ("GpuElemwise of numbers", on_device(_sum_with_number, 0, 1), [X, Y, HALF]),
        ("GpuElemwise tanh", on_device(GpuElemwise(scalar.tanh)), [X]),
        ("GpuElemwise divided integers", on_device(GpuElemwise(scalar.int_div)), [INTS, INTS.T.copy().T]),
        ("GpuElemwise erfinv", on_device(GpuElemwise(gpu_erfinv)), [UNIT]),
        ("GpuElemwise erfcinv", on_device(GpuElemwise(gpu_erfcinv)), [UNIT]),
        ("GpuDimShuffle", on_device(GpuDimShuffle((False, False), (1, "x", 0))), [X]),
        ("GpuCAReduceCuda sum", on_device(GpuCAReduceCuda(scalar.add, (1,))), [T3]),
        ("GpuCAReduceCuda maximum", on_device(GpuCAReduceCuda(scalar.maximum, (0, 2))), [T3]),
        ("GpuCAReduceCuda squares", on_device(GpuCAReduceCuda(scalar.add, pre_scalar_op=scalar.sqr)), [X]),
        ("GpuCAReduceCPY product", on_device(GpuCAReduceCPY(scalar.mul, (0,))), [UNIT]),
        ("GpuAllocEmpty", _filled, [X]),
        ("GpuAlloc", on_device(lambda v: GpuAlloc(NAME)(v, 2, 3, 4)), [X]),
        ("GpuEye", _bounded(GpuEye("float32", NAME)), [np.array(3), np.array(4), i]),
        ("GpuTri", _bounded(GpuTri("float32", NAME)), [np.array(3), np.array(4), i]),
        ("GpuJoin", on_device(lambda x, y: GpuJoin()(1, x, y)), [X, Y]),
        ("GpuSplit", on_device(lambda x: GpuSplit(2)(x, 1, np.array([1, 3]))), [X]),
        ("GpuReshape", on_device(lambda x: GpuReshape(1)(x, [-1])), [X]),
        ("GpuSubtensor", _part(subtensor.GpuSubtensor), [X, i]),
        ("GpuIncSubtensor", _part(subtensor.GpuIncSubtensor, set_instead_of_inc=False), [X, Y[1:, 0], i]),
        ("GpuIncSubtensor set", _part(subtensor.GpuIncSubtensor, set_instead_of_inc=True), [X, Y[1:, 0], i]),
        ("GpuAdvancedSubtensor1", on_device(rows[0], 0), [X, ROWS]),
        ("GpuAdvancedIncSubtensor1", on_device(rows[1], 0, 1), [X, Y, ROWS]),
        ("GpuAdvancedIncSubtensor1 set", on_device(rows[2], 0, 1), [X, Y, ROWS]),
        ("GpuAdvancedIncSubtensor1_dev20", on_device(subtensor.GpuAdvancedIncSubtensor1_dev20(), 0, 1), [X, Y, ROWS]),
        ("GpuAdvancedSubtensor", on_device(subtensor.GpuAdvancedSubtensor(), 0), [X, ROWS, COLUMNS]),
        ("GpuAdvancedIncSubtensor", on_device(subtensor.GpuAdvancedIncSubtensor(), 0, 1), [X, Y[0, :3], ROWS, COLUMNS]),
        ("GpuAdvancedBooleanSubtensor", on_device(subtensor.GpuAdvancedBooleanSubtensor(), 0), [X, X > 0]),
        (
            "GpuAdvancedBooleanIncSubtensor",
            on_device(subtensor.GpuAdvancedBooleanIncSubtensor(), 0, 1),
            [X, np.float32(2), X > 0],
        ),
        ("GpuExtractDiag", on_device(subtensor.GpuExtractDiag(1)), [X]),
        ("GpuExtractDiag view", on_device(subtensor.GpuExtractDiag(-1, 2, 0, True)), [T3]),
        ("GpuAllocDiag", on_device(subtensor.GpuAllocDiag(-1)), [X]),
        ("GpuCumOp", on_device(GpuCumOp(1)), [X]),
        ("GpuCumOp product", on_device(GpuCumOp(None, "mul")), [X]),
        ("GpuMaxAndArgmax", on_device(GpuMaxAndArgmax((0, 2))), [T3]),
        ("GpuDot22", on_device(blas.gpu_dot22), [X, Y.T]),
        ("GpuDot22InRow", on_device(blas.GpuDot22InRow(1), 0), [T3, T3[0], T3[0, :, :].T @ T3[0]]),
        ("GpuGemm", on_device(blas.GpuGemm(), 0, 2, 3), [SQUARE, HALF, X, Y.T, TWO]),
        ("GpuGemm, factors on the device", on_device(blas.GpuGemm()), [SQUARE, HALF, X, Y.T, TWO]),
        ("GpuGemv", on_device(blas.GpuGemv(), 0, 2, 3), [X[:, 0], HALF, X, Y[0], TWO]),
        ("GpuGer", on_device(blas.GpuGer(), 0, 2, 3), [X, HALF, X[:, 0], Y[0]]),
        ("GpuGemmBatch", on_device(blas.GpuGemmBatch(), 0, 2, 3), [T3[:, :, :3], HALF, T3, T3.transpose(0, 2, 1), TWO]),
        ("GpuProductElemwise", on_device(GpuProductElemwise(blas.gpu_dot22, scalar.mul, 1)), [X, Y.T, SQUARE]),
        (
            "GpuProductElemwise, GpuGemm",
            on_device(GpuProductElemwise(blas.GpuGemm(), scalar.tanh, 0), 0, 2, 3),
            [SQUARE, HALF, X, Y.T, TWO],
        ),
        ("GpuProductElemwise with a number", on_device(_product_with_number, 0, 1), [X, Y.T, HALF]),
        (
            "GPUA_mrg_uniform",
            on_device(GPUA_mrg_uniform(GpuArrayType("float32", (False,), NAME)), 0),
            [STATES, np.array([9])],
            _streams,
        ),
        ("GpuCorrMM", on_device(corr.GpuCorrMM("half", (2, 1))), [IMAGE, KERNEL]),
        ("GpuCorrMM unshared", on_device(corr.GpuCorrMM(unshared=True)), [IMAGE, OWN]),
        ("GpuCorrMM_gradWeights", on_device(corr.GpuCorrMM_gradWeights()), [IMAGE, TOP]),
        ("GpuCorrMM_gradInputs", on_device(corr.GpuCorrMM_gradInputs()), [KERNEL, TOP]),
        (
            "GpuCorrMM_gradInputs with strides",
            on_device(lambda w, y: corr.GpuCorrMM_gradInputs((1, 0), (2, 1))(w, y, (5, 7))),
            [KERNEL, TOP],
        ),
        ("GpuCorr3dMM", on_device(corr.GpuCorr3dMM(1, (1, 2, 1))), [IMAGE[None], KERNEL[:, :, None]]),
        ("GpuCorr3dMM_gradWeights", on_device(corr.GpuCorr3dMM_gradWeights()), [IMAGE[None], TOP[None, :, :2]]),
        ("GpuCorr3dMM_gradInputs", on_device(corr.GpuCorr3dMM_gradInputs()), [KERNEL[None], TOP[None, :1]]),
        ("GpuPool", on_device(lambda x: pool.GpuPool(True)(x, (2, 3), (1, 2), (1, 1))), [T3]),
        ("GpuPool average", on_device(lambda x: pool.GpuPool(False, "average_exc_pad", 3)(x, (2, 2, 2))), [T3]),
        ("GpuMaxPoolGrad", on_device(lambda x, m, g: pool.GpuMaxPoolGrad(True)(x, m, g, (2, 2))), [T3, *POOLED]),
        (
            "GpuAveragePoolGrad",
            on_device(lambda x, g: pool.GpuAveragePoolGrad(True, "sum")(x, g, (2, 2))),
            [T3, POOLED[1]],
        ),
        (
            "GpuDownsampleFactorMaxGradGrad",
            on_device(lambda x, m, g: pool.GpuDownsampleFactorMaxGradGrad(True)(x, m, g, (2, 2))),
            [T3, POOLED[0], T3[::-1].copy()],
        ),
        ("GpuMaxPoolRop", on_device(lambda x, e: pool.GpuMaxPoolRop(True)(x, e, (2, 2))), [T3, T3[::-1].copy()]),
        (
            "GPUAMultinomialFromUniform",
            on_device(GPUAMultinomialFromUniform("int64"), 0, 1),
            [UNIT, DRAWS, np.int64(2)],
        ),
        ("GPUAChoiceFromUniform", on_device(GPUAChoiceFromUniform("int64", True), 0, 1), [UNIT, DRAWS, np.int64(2)]),
        (
            "GPUAMultinomialWOReplacementFromUniform",
            on_device(GPUAMultinomialWOReplacementFromUniform("auto"), 0, 1),
            [UNIT, DRAWS, np.int64(2)],
        ),
        ("GpuSortOp", on_device(sort.GpuSortOp("stable"), 0), [X, np.array(0)]),
        ("GpuArgSortOp", on_device(sort.GpuArgSortOp("quicksort"), 0), [T3, np.array(1)]),
        ("GpuTopKOp", on_device(sort.GpuTopKOp(0), 0), [X, i]),
        ("GpuTopKOp unsorted", on_device(sort.GpuTopKOp(1, False, "int32"), 0), [X, np.array(-3)]),
        ("GpuElemwiseInSlices", on_device(_in_slices(), 0, 1), [X, Y]),
        ("GpuRowProgram", on_device(_row_program()), [X]),
        ("GpuSoftmax", on_device(nnet.gpu_softmax), [X]),
        ("GpuSoftmaxWithBias", on_device(nnet.gpu_softmax_with_bias), [X, Y[0]]),
        ("GpuLogSoftmax", on_device(nnet.gpu_log_softmax), [X]),
        ("GpuSoftmaxGrad", on_device(nnet.gpu_softmax_grad), [X, UNIT]),
        (
            "GpuCrossentropySoftmaxArgmax1HotWithBias",
            _labelled(nnet.gpu_crossentropy_softmax_argmax_1hot_with_bias),
            [X, Y[0], ROWS],
        ),
        (
            "GpuCrossentropySoftmax1HotWithBiasDx",
            _labelled(nnet.gpu_crossentropy_softmax_1hot_with_bias_dx),
            [X[:, 0], UNIT, ROWS],
        ),
        ("GpuCrossentropyCategorical1Hot", _labelled(nnet.gpu_crossentropy_categorical_1hot), [UNIT, ROWS]),
        (
            "GpuCrossentropyCategorical1HotGrad",
            _labelled(nnet.gpu_crossentropy_categorical_1hot_grad),
            [X[:, 0], UNIT, ROWS],
        ),
    ]
    # In these gradients, kernels are multiplied by zeros outside of the output, as in the C code for the host. NaN and
    # infinity in the kernels then give NaN, which the Python code does not.
    finite = {name: _finite_kernels for name, *_ in table if name.endswith("_gradInputs")}
    table += _windows() + _networks()
    return [Case(op, inputs, name, *(tied or [finite.get(name)]), skip=SKIP) for name, op, inputs, *tied in table]
