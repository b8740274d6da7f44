"""A small case of every family of kernels, for tools that observe kernels at run time.

Run ``python -m theano_ng.gpuarray.tests.kernel_families [NAME ...]``. Shapes are such that work groups have several
threads and the last group is not full. Results are compared with those of NumPy.
"""

import sys
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gpuarray import corr, extra_ops, nnet, pool, reduction
from theano_ng.gpuarray.basic_ops import host_from_gpu
from theano_ng.gpuarray.contexts import get_context
from theano_ng.gpuarray.creation import GpuEye, GpuTri
from theano_ng.gpuarray.elemwise import GpuCAReduceCuda, GpuElemwise
from theano_ng.gpuarray.extra_ops import GpuCumOp
from theano_ng.gpuarray.joining import gpu_join
from theano_ng.gpuarray.kernels import correlation as correlation_kernels
from theano_ng.gpuarray.kernels import product as product_kernels
from theano_ng.gpuarray.kernels.product_ending import Ending
from theano_ng.gpuarray.kernels.rows import row_kernel
from theano_ng.gpuarray.pygpu import blas
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.pygpu.reduction import ReductionKernel, reduce1
from theano_ng.gpuarray.reduction import GpuMaxAndArgmax
from theano_ng.gpuarray.subtensor import (
    GpuAdvancedIncSubtensor1,
    GpuAdvancedIncSubtensor1_dev20,
    GpuAdvancedSubtensor,
    GpuAdvancedSubtensor1,
    GpuIncSubtensor,
)
from theano_ng.gpuarray.tests.device import context, gpu_variable, placed

SHAPE = (5, 9)
VALUE = np.random.default_rng(3).standard_normal(SHAPE).astype("float32")
OTHER = VALUE[::-1, ::-1].copy()
INDICES = np.array([3, 0, 3, -1, 3])


def check(inputs, outputs, values, expected):
    """Compute variables on the device from arrays in several memory layouts; compare with the expected results."""
    name = context()
    f = theano.function(inputs, [host_from_gpu(v) for v in outputs])
    for layout in ("C", "strided"):
        given = [placed(v, layout, name) if isinstance(v, np.ndarray) and v.dtype.kind == "f" else v for v in values]
        for result, right in zip(f(*given), expected, strict=True):
            np.testing.assert_allclose(result, right, rtol=1e-5)


def elementwise():
    x, y = [gpu_variable("float32", 2) for _ in range(2)]
    row = gpu_variable("float32", 1)
    outputs = [
        GpuElemwise(theano.scalar.tanh)(x),
        GpuElemwise(theano.scalar.mul)(x, y),
        GpuElemwise(theano.scalar.add)(x, row.dimshuffle("x", 0)),
    ]
    check([x, y, row], outputs, [VALUE, OTHER, OTHER[0]], [np.tanh(VALUE), VALUE * OTHER, VALUE + OTHER[0]])


def reductions():
    x = gpu_variable("float32", 2)
    axes = ((0,), (1,), (0, 1))
    outputs = [GpuCAReduceCuda(op, axis)(x) for op in (theano.scalar.add, theano.scalar.maximum) for axis in axes]
    for value in (VALUE, np.resize(VALUE, (3, 300)), np.resize(VALUE, (300, 3))):
        expected = [function(value.astype("float64"), axis) for function in (np.sum, np.max) for axis in axes]
        name = context()
        f = theano.function([x], [host_from_gpu(v) for v in outputs])
        for result, right in zip(f(placed(value, "C", name)), expected):
            np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-4)


def indexing():
    x, y = [gpu_variable("float32", 2) for _ in range(2)]
    idx = T.lvector()
    cut = x.type.host_type()()[1:4, ::-2].owner
    part, rows = VALUE[1:4, ::-2], VALUE[INDICES]
    added, assigned, increased = VALUE.copy(), VALUE.copy(), VALUE.copy()
    np.add.at(added, INDICES, OTHER)
    assigned[INDICES[:1]] = OTHER[:1]
    increased[1:4, ::-2] += part
    check(
        [x, idx],
        [GpuAdvancedSubtensor1()(x, idx), GpuAdvancedSubtensor()(x, idx, idx)],
        [VALUE, INDICES],
        [rows, VALUE[INDICES, INDICES]],
    )
    check([x, y, idx], [GpuAdvancedIncSubtensor1()(x, y, idx)], [VALUE, OTHER, INDICES], [added])
    check([x, y, idx], [GpuAdvancedIncSubtensor1_dev20()(x, y, idx)], [VALUE, OTHER, INDICES], [added])
    check(
        [x, y, idx],
        [GpuAdvancedIncSubtensor1(set_instead_of_inc=True)(x, y, idx)],
        [VALUE, OTHER[:1], INDICES[:1]],
        [assigned],
    )
    check([x, y], [GpuIncSubtensor(cut.op.idx_list)(x, y, *cut.inputs[1:])], [VALUE, part], [increased])


def cumulation():
    x = gpu_variable("float32", 2)
    for threads in (-1, 1000):
        with mock.patch.object(extra_ops, "_THREADS", threads):
            long = np.resize(np.round(VALUE), (2, 600))  # sums are exact
            check([x], [GpuCumOp(1, "add")(x)], [long], [np.cumsum(long, 1)])


def argmax():
    x = gpu_variable("float32", 2)
    for threads in (-1, 1000):
        with mock.patch.object(reduction, "_THREADS", threads):
            long = np.resize(VALUE, (2, 300))
            check([x], GpuMaxAndArgmax((1,))(x), [long], [long.max(1), long.argmax(1)])


def creation():
    name = context()
    check(
        [],
        [GpuEye("float32", name)(4, 5, 1), GpuTri("float16", name)(4, 5, -1)],
        [],
        [np.eye(4, 5, 1), np.tri(4, 5, -1)],
    )


def copies():
    ctx = get_context(context())
    value = pygpu.array(VALUE, context=ctx)
    for view in (value[::-1, ::2], value.T):
        np.testing.assert_array_equal(np.asarray(view.copy()), np.asarray(view))
        np.testing.assert_array_equal(np.asarray(view.astype("float16")), np.asarray(view).astype("float16"))
    x, y = [gpu_variable("float32", 2) for _ in range(2)]
    check([x, y], [gpu_join(1, x, y)], [VALUE, OTHER], [np.concatenate([VALUE, OTHER], 1)])


def arrays():
    """Compute with the operators of pygpu."""
    ctx = get_context(context())
    x, y = pygpu.array(VALUE, context=ctx), pygpu.array(OTHER, context=ctx)
    np.testing.assert_allclose(np.asarray(2 * x[:, ::2] + y[0, ::2]), 2 * VALUE[:, ::2] + OTHER[0, ::2])
    for serial in (False, True):  # by work groups, and by one thread
        with mock.patch.object(ReductionKernel, "_serial", serial):
            total = reduce1(x, "+", "0", "float32", axis=1)
            np.testing.assert_allclose(np.asarray(total), VALUE.sum(1), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(blas.gemm(1.0, x, y, trans_b=True)), VALUE @ OTHER.T, rtol=1e-4, atol=1e-5)


def products():
    """Compute products with the smallest kernel for graphics cards, for which some threads have no element."""
    ctx = get_context(context())
    tile = product_kernels.tiles("float32", 0)[-1]
    ending = Ending(theano.scalar.sub, ("float32", "float32"), "float32", 0)
    kernel, ended = [product_kernels.product("float32", tile, ctx, end).build() for end in (None, ending)]
    x, y = pygpu.array(VALUE, context=ctx), pygpu.array(OTHER, context=ctx).T
    out = pygpu.zeros((len(VALUE), len(VALUE)), "float32", context=ctx)
    given = []
    for v in (x, y, out, out):
        given += [v, v.offset, 0, *[stride // v.itemsize for stride in v.strides]]
    kernel(1, *out.shape, VALUE.shape[1], 0, 2, 0, 0, out, 0, out, 0, *given, gs=(1, 1), ls=product_kernels.GROUP)
    np.testing.assert_allclose(np.asarray(out), 2 * VALUE @ OTHER.T, rtol=1e-4, atol=1e-5)
    row = pygpu.array(VALUE[0, : len(VALUE)], context=ctx)
    given += [row, 0, 0, 0, 1]
    ended(1, *out.shape, VALUE.shape[1], 0, 2, 0, 0, out, 0, out, 0, *given, gs=(1, 1), ls=product_kernels.GROUP)
    expected = 2 * VALUE @ OTHER.T - VALUE[0, : len(VALUE)]
    np.testing.assert_allclose(np.asarray(out), expected, rtol=1e-4, atol=1e-5)


def correlations():
    """Compute correlations by the smallest kernel for graphics cards, and sums that are divided into parts."""
    tile = product_kernels.tiles("float32", 0)[-1]
    x, w = [gpu_variable("float32", 4) for _ in range(2)]
    image, kernel = VALUE[None, None], OTHER[:2, :3][None, None]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(VALUE, 1), (2, 3))
    expected = np.einsum("pqij,ij->pq", windows, kernel[0, 0])[None, None]
    with (
        mock.patch.object(correlation_kernels, "tiles", lambda *_: (tile,) * 3),
        mock.patch.object(correlation_kernels, "_PROCESSORS", 2),
    ):
        check([x, w], [corr.GpuCorrMM(1)(x, w)], [image, kernel], [expected])
        long, top = np.abs(np.resize(VALUE, (1, 1, 20, 40))), np.ones((1, 1, 19, 38), "float32")
        sums = np.lib.stride_tricks.sliding_window_view(long[0, 0], (19, 38)).sum((2, 3), dtype="float64")
        check([x, w], [corr.GpuCorrMM_gradWeights()(x, w)], [long, top], [sums[None, None]])


def pooling():
    x, g = [gpu_variable("float32", 2) for _ in range(2)]
    y = pool.GpuPool(True)(x, (2, 3))
    maxima = VALUE[:4].reshape(2, 2, 3, 3).max((1, 3))
    gradient = np.zeros(SHAPE, "float32")
    gradient[:4] = (VALUE[:4].reshape(2, 2, 3, 3) == maxima[:, None, :, None]).reshape(4, 9)
    outputs = [y, pool.GpuMaxPoolGrad(True)(x, y, g, (2, 3))]
    check([x, g], outputs, [VALUE, np.ones((2, 3), "float32")], [maxima, gradient])


def rows():
    """Compute cross-entropies by the kernel for graphics cards, with groups in which some threads have no element."""
    ctx = get_context(context())
    op = nnet.gpu_crossentropy_softmax_argmax_1hot_with_bias
    kernel = row_kernel(op.loop(["float32", "float32", "int64"], ["float32", "float32", "int64"]), ctx)
    kernel = kernel._replace(support=("#undef GA_PROCESSOR\n", *kernel.support)).build()
    labels = INDICES % SHAPE[1]
    x, b, y = [pygpu.array(v, context=ctx) for v in (VALUE, OTHER[0], labels)]
    losses, argmax = pygpu.zeros(len(VALUE), "float32", context=ctx), pygpu.zeros(len(VALUE), "int64", context=ctx)
    softmax = pygpu.zeros(SHAPE, "float32", context=ctx)
    given = [*SHAPE, x, 0, SHAPE[1], 1, b, 0, 0, 1, y, 0, 1, losses, 0, softmax, 0, argmax, 0]
    kernel(*given, gs=(1, 1), ls=(16, 4))
    powers = np.exp(VALUE + OTHER[0])
    expected = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(np.asarray(softmax), expected, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(losses), -np.log(expected[np.arange(len(VALUE)), labels]), rtol=1e-4)
    np.testing.assert_array_equal(np.asarray(argmax), expected.argmax(1))


def _planted(body):
    text = '#include "cluda.h"\nKERNEL void planted(GLOBAL_MEM ga_float *x)\n{\n%s\n}\n' % body
    kernel = pygpu.GpuKernel(text, "planted", [pygpu.GpuArray], get_context(context()))
    array = pygpu.zeros(8, "float32", context=get_context(context()))
    kernel(array, gs=1, ls=8)
    np.asarray(array)


def planted_race():
    """Run a kernel with a race: it reads elements that other threads write, without a barrier."""
    _planted("    LOCAL_MEM ga_float shared[8];\n    shared[LID_0] = LID_0;\n    x[LID_0] = shared[7 - LID_0];")


def planted_read():
    """Run a kernel that reads far behind the end of its array. The array is a block of the memory pool."""
    _planted("    x[LID_0] = x[LID_0 + (1 << 26)];")


FAMILIES = (
    elementwise,
    reductions,
    indexing,
    cumulation,
    argmax,
    creation,
    copies,
    arrays,
    products,
    correlations,
    pooling,
    rows,
)
PLANTED = (planted_race, planted_read)


def main(names):
    for family in FAMILIES + PLANTED:
        if family.__name__ in names or not names and family in FAMILIES:
            print(family.__name__, flush=True)
            family()


if __name__ == "__main__":
    main(sys.argv[1:])
