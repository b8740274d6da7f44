"""A small case of every family of kernels, for tools that observe kernels at run time.

Run ``python -m theano_ng.gpuarray.tests.kernel_families [NAME ...]``. Shapes are such that work groups have several
threads and the last group is not full. Results are compared with those of NumPy.
"""

import itertools
import sys
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gpuarray import corr, extra_ops, nnet, pool, reduction
from theano_ng.gpuarray import sort as device_sort
from theano_ng.gpuarray.basic_ops import host_from_gpu
from theano_ng.gpuarray.batchnorm import GpuBatchNormTrain, GpuBatchNormTrainGrad
from theano_ng.gpuarray.blocksparse import gpu_sparse_block_gemv, gpu_sparse_block_outer
from theano_ng.gpuarray.contexts import get_context
from theano_ng.gpuarray.creation import GpuEye, GpuTri
from theano_ng.gpuarray.ctc import GpuConnectionistTemporalClassification
from theano_ng.gpuarray.elemwise import GpuCAReduceCuda, GpuElemwise
from theano_ng.gpuarray.extra_ops import GpuCumOp
from theano_ng.gpuarray.joining import gpu_join
from theano_ng.gpuarray.kernels import correlation as correlation_kernels
from theano_ng.gpuarray.kernels import fft as fft_kernels
from theano_ng.gpuarray.kernels import linalg as linalg_kernels
from theano_ng.gpuarray.kernels import product as product_kernels
from theano_ng.gpuarray.kernels import sort as sort_kernels
from theano_ng.gpuarray.kernels.product_ending import Ending
from theano_ng.gpuarray.kernels.rows import row_kernel
from theano_ng.gpuarray.multinomial import GPUAChoiceFromUniform, GPUAMultinomialFromUniform
from theano_ng.gpuarray.neighbours import GpuImages2Neibs, GpuImages2NeibsGrad
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
from theano_ng.gpuarray.tests.device import LAYOUTS, context, gpu_variable, placed
from theano_ng.gpuarray.type import GpuArrayType

SHAPE = (5, 9)
VALUE = np.random.default_rng(3).standard_normal(SHAPE).astype("float32")
OTHER = VALUE[::-1, ::-1].copy()
# More lines than Oclgrind's device has groups, so that a group processes several lines
LINES = 34
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
    # Elements in front of, in and behind vectors, in groups of which some threads have no vector
    large = np.resize(VALUE, (20, 33))
    f = theano.function([x, y], [host_from_gpu(outputs[0]), host_from_gpu(outputs[1])])
    a = placed(large, "C", context())
    for first in (0, 1):
        for result, right in zip(f(a[first:], a[first:]), (np.tanh(large[first:]), large[first:] ** 2)):
            np.testing.assert_allclose(result, right, rtol=1e-5)


def reductions():
    x = gpu_variable("float32", 2)
    axes = ((0,), (1,), (0, 1))
    outputs = [GpuCAReduceCuda(op, axis)(x) for op in (theano.scalar.add, theano.scalar.maximum) for axis in axes]
    for value in (VALUE, np.resize(VALUE, (3, 300)), np.resize(VALUE, (300, 3)), np.resize(VALUE, (LINES, 130))):
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
    # A line by a thread; by a group, in two tiles; by groups for pieces of a line, each of which processes several lines
    for threads, shortest, shape in ((-1, 4096, (2, 600)), (1000, 4096, (2, 2100)), (100000, 64, (LINES, 520))):
        with mock.patch.multiple(extra_ops, _THREADS=threads, _SHORTEST=shortest):
            long = np.resize(np.round(VALUE), shape)  # sums are exact
            check([x], [GpuCumOp(1, "add")(x)], [long], [np.cumsum(long, 1)])


def argmax():
    x = gpu_variable("float32", 2)
    for threads, shortest, shape in ((-1, 4096, (2, 300)), (1000, 4096, (2, 300)), (100000, 64, (LINES, 260))):
        with mock.patch.multiple(reduction, _THREADS=threads, _SHORTEST=shortest):
            long = np.resize(VALUE, shape)
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
    large = pygpu.array(np.resize(VALUE, (2, 33, 17)), context=ctx)  # tiles of which a part lies outside of the array
    for view in (value[::-1, ::2], value.T, large.transpose(0, 2, 1), large.transpose(2, 0, 1)):
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
    # Rows without packs; rows of three packs, as vectors and one element at a time
    for length, first in ((9, 0), (12, 0), (12, 1)):
        value, bias, labels = VALUE.ravel()[: 3 * length].reshape(3, length), OTHER.ravel()[:length], INDICES[:3] % 9
        x, b = [pygpu.array(np.append(np.zeros(first, "float32"), v), context=ctx) for v in (value, bias)]
        y, losses, argmax = [pygpu.array(v, context=ctx) for v in (labels, np.zeros(3, "float32"), labels * 0)]
        softmax = pygpu.zeros((3, length), "float32", context=ctx)
        given = [3, length, x, 4 * first, length, 1, b, 4 * first, 0, 1, y, 0, 1, losses, 0, softmax, 0, argmax, 0]
        kernel(*given, gs=(1, 1), ls=(16, 4))
        powers = np.exp(value + bias)
        expected = powers / powers.sum(1, keepdims=True)
        np.testing.assert_allclose(np.asarray(softmax), expected, rtol=1e-5)
        np.testing.assert_allclose(np.asarray(losses), -np.log(expected[np.arange(3), labels]), rtol=1e-4)
        np.testing.assert_array_equal(np.asarray(argmax), expected.argmax(1))


def sorting():
    """Sort and select by the kernels for graphics cards, with small groups: a group for each line, and several groups."""
    x = gpu_variable("float16", 2)
    value = np.resize(VALUE[::-1, ::-1], (1, 150)).astype("float16")
    order = np.argsort(value, 1, kind="stable")
    for groups in (-1, 6):
        with (
            mock.patch.object(device_sort, "_on_processor", lambda context: False),
            mock.patch.object(device_sort, "_GROUPS", groups),
            mock.patch.object(device_sort, "_LEAST", 60),
            mock.patch.object(sort_kernels, "GROUP", 12),
        ):
            outputs = [device_sort.GpuArgSortOp("stable")(x), *device_sort.GpuTopKOp()(x, -70)]
            check([x], outputs, [value], [order, np.sort(value, 1)[:, :70], order[:, :70]])


def draws():
    """Draw categories. A uniform number of 0.5 chooses the middle of a row of equal probabilities."""
    p, u = gpu_variable("float32", 2), gpu_variable("float32", 1)
    counts = np.zeros(SHAPE)
    counts[:, 4] = 2
    outputs = [
        GPUAMultinomialFromUniform("int32")(p, u, 2),
        *[GPUAChoiceFromUniform("int64", r)(p, u, 2) for r in (0, 1)],
    ]
    expected = [counts, np.tile([4, 5], (5, 1)), np.full((5, 2), 4)]
    given = [np.full(SHAPE, 1 / 9, "float32"), np.repeat(np.float32([0.5, 0.51]), 5)]
    check([p, u], outputs, given, expected)


def windows():
    """Copy image patches, and add them to the images again."""
    x = gpu_variable("float32", 4)
    image = VALUE.reshape(1, 1, *SHAPE)
    rows = np.lib.stride_tricks.sliding_window_view(np.pad(VALUE, 1), (3, 3)).reshape(-1, 9)
    # The number of windows that contain a pixel
    times, across = [np.array([2, *[3] * (n - 2), 2]) for n in SHAPE]
    patches = GpuImages2Neibs("half")(x, (3, 3), (1, 1))
    outputs = [patches, GpuImages2NeibsGrad("half")(patches, 1, 1, *SHAPE, (3, 3), (1, 1))]
    check([x], outputs, [image], [rows, image * np.outer(times, across)])


def blocks():
    """Multiply vectors by selected blocks, and add outer products to blocks of which several are equal."""
    o, W, h = [gpu_variable("float32", k) for k in (3, 4, 3)]
    first, second = np.array([[1, 0], [1, 1]]), np.array([[0, 2, 0], [2, 2, 1]])
    blocks = np.resize(VALUE, (2, 3, 4, 5)).astype("float32")
    x, y = np.resize(OTHER, (2, 2, 4)).astype("float32"), np.resize(VALUE, (2, 3, 5)).astype("float32")
    products, sums = y.astype("float64"), blocks.astype("float64")
    for b, i, j in np.ndindex(2, 2, 3):
        products[b, j] += x[b, i] @ blocks[first[b, i], second[b, j]].astype("float64")
        sums[first[b, i], second[b, j]] += np.outer(x[b, i], y[b, j])
    check([o, W, h], [gpu_sparse_block_gemv(o, W, h, first, second)], [y, blocks, x], [products])
    check([W, h, o], [gpu_sparse_block_outer(W, h, o, first, second)], [blocks, x, y], [sums])


def temporal():
    """Compute costs of labels for which one alignment exists: as many steps as labels, and no equal neighbours."""
    x = gpu_variable("float32", 3)
    labels = np.array([[1, 2, 1, 3, 1], [3, 1, 3, 2, 3], [2, 3, 2, 3, -1]])
    values = np.resize(np.stack([VALUE, OTHER]), (5, 3, 4)).astype("float32")
    powers = np.exp(values.astype("float64"))
    softmax = powers / powers.sum(2, keepdims=True)
    costs, gradient = np.zeros(3), softmax.copy()
    lengths = [5, 5, 4]
    for b, n in enumerate(lengths):
        costs[b] = -np.log(softmax[np.arange(n), b, labels[b, :n]]).sum()
        gradient[np.arange(n), b, labels[b, :n]] -= 1
        gradient[n:, b] = 0
    check([x], GpuConnectionistTemporalClassification()(x, labels, lengths), [values], [costs, gradient])


def normalization():
    """Normalize over the last axes and over the first axis."""
    for axes in ((0, 2), (0,)):
        type_ = GpuArrayType("float32", [i in axes for i in range(3)], context())
        x, scale, bias = gpu_variable("float32", 3), type_(), type_()
        value = np.resize(VALUE, (3, 2, 5)).astype("float32")
        size = [1 if i in axes else n for i, n in enumerate(value.shape)]
        s, b = [np.resize(v, size).astype("float32") for v in (OTHER, VALUE)]
        out, mean, invstd, variance = GpuBatchNormTrain(axes)(x, scale, bias, 0.1)
        gradients = GpuBatchNormTrainGrad(axes)(x, x, scale, mean, invstd)
        wide = value.astype("float64")
        m, v = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
        factor = 1 / np.sqrt(v + 0.1)
        normal = (wide - m) * factor
        dscale = (wide * normal).sum(axes, keepdims=True)
        dx = s * factor * (wide - m - normal * (wide * normal).mean(axes, keepdims=True))
        expected = [normal * s + b, m, factor, v, dx, dscale, wide.sum(axes, keepdims=True)]
        check([x, scale, bias], [out, mean, invstd, variance, *gradients], [value, s, b], expected)


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


def factorizations(name=None):
    """Run the kernels that clear triangles and check matrices, in a context (default: that of the tests)."""
    name = name or context()
    ctx = get_context(name)
    for dtype in linalg_kernels.DTYPES:
        clear = linalg_kernels.clear_triangle(dtype, ctx).build()
        check = linalg_kernels.check_diagonal(dtype, ctx).build()
        symmetric = linalg_kernels.check_symmetry(dtype, ctx).build()
        for value in (np.resize(VALUE, (5, 9)), np.resize(VALUE, (9, 5)), np.resize(VALUE, (40, 40))):
            value = value.astype(dtype)
            for layout, above in itertools.product(LAYOUTS, (0, 1)):
                a = placed(value, layout, name)
                clear(a, a.offset, a.size, a.shape[1], *a.strides, above, n=a.size)
                np.testing.assert_array_equal(a, np.tril(value) if above else np.triu(value))
        found = pygpu.zeros((2,), "int32", context=ctx)
        vector = np.ones(300, dtype)
        for condition, bad in ((0, [0]), (1, [0, -1, np.nan]), (2, [np.nan])):
            for layout, places in itertools.product(("C", "reversed"), ((), (299,), (7, 263), (256, 0))):
                for one in bad:
                    v = vector.copy()
                    v[list(places)] = one
                    a = placed(v, layout, name)
                    check(a, a.offset, 300, a.strides[0], found, 4, condition, gs=1, ls=linalg_kernels.GROUP)
                    assert np.asarray(found).tolist() == [0, min(places) + 1 if places else 0]
        definite = (np.resize(VALUE, (40, 40)) + np.resize(VALUE, (40, 40)).T + 90 * np.eye(40)).astype(dtype)
        for row, column, number in ((0, 0, 1), (3, 39, 5), (39, 3, 5), (7, 7, 0), (8, 8, np.nan), (1, 2, np.nan)):
            for layout in LAYOUTS:
                v = definite.copy()
                v[row, column] = number
                found[...] = 0
                a = placed(v, layout, name)
                symmetric(a, a.offset, a.size, 40, *a.strides, found, 4, n=a.size)
                assert np.asarray(found).tolist() == [0, 0 if row == column and number > 0 else 1], (
                    row,
                    column,
                    number,
                )


def spectra(name=None):
    """Run the kernel that makes transforms of real arrays symmetric, in a context (default: that of the tests)."""
    name = name or context()
    ctx = get_context(name)
    for dtype, shape in itertools.product(
        fft_kernels.DTYPES, ((3, 7), (2, 4, 6), (2, 3, 5), (2, 3, 4, 5), (1, 2, 3, 2, 8))
    ):
        kernel = fft_kernels.symmetrize(dtype, len(shape) - 1, ctx).build()
        stored, ends = shape[-1] // 2 + 1, 2 - shape[-1] % 2
        value = np.resize(VALUE, (*shape[:-1], stored, 2)).astype(dtype)
        a = placed(value, "C", name)
        n = int(np.prod(shape[:-1])) * ends
        kernel(a, a.offset, n, ends, stored, *shape[1:-1], n=n)
        pairs = value.view("complex64" if dtype == "float32" else "complex128")[..., 0]
        opposite = pairs
        for axis in range(1, len(shape) - 1):
            opposite = np.roll(np.flip(opposite, axis), 1, axis)
        expected = pairs.copy()
        for k in (0, stored - 1)[:ends]:
            expected[..., k] = (pairs[..., k] + np.conj(opposite[..., k])) / 2
        np.testing.assert_allclose(np.asarray(a), np.stack([expected.real, expected.imag], -1), rtol=1e-6)


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
    sorting,
    draws,
    windows,
    blocks,
    temporal,
    normalization,
    factorizations,
    spectra,
)
PLANTED = (planted_race, planted_read)


def main(names):
    for family in FAMILIES + PLANTED:
        if family.__name__ in names or not names and family in FAMILIES:
            print(family.__name__, flush=True)
            family()


if __name__ == "__main__":
    main(sys.argv[1:])
