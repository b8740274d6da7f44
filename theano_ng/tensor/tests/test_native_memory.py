"""Native Ops read no memory beyond their inputs, and free all memory that they allocate."""

import ctypes
import gc
import mmap
import os
import resource
import sys
import unittest
from contextlib import contextmanager

import numpy as np

import theano_ng.tensor as T
from theano_ng.sparse import fields
from theano_ng.tensor import extra_ops
from theano_ng.tensor.native.alloc import empty, trim
from theano_ng.tensor.nnet import bn_ops, crossentropy, neighbours
from theano_ng.tensor.nnet.convolution import convmm
from theano_ng.tensor.nnet.corr3d import Corr3dMM
from theano_ng.tensor.nnet.softmax import logsoftmax_op, softmax_grad, softmax_op, softmax_with_bias
from theano_ng.tensor.signal import pool
from theano_ng.tensor.sort import argsort, sort, topk
from theano_ng.tensor.tests.single_node import run_node
from theano_ng.tensor.tests.test_beyond_blocks import NativeCase

PAGE = mmap.PAGESIZE
MEGABYTE = 1 << 20
NATIVE_BIG = 1 << 18  # arrays of at least this many bytes use recycled memory, see native.h


LIBC = ctypes.CDLL(None)
LIBC.malloc.restype, LIBC.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
LIBC.free.restype, LIBC.free.argtypes = None, [ctypes.c_void_p]


def all_free_blocks(size):
    """Allocate blocks of this size until an allocation fails; return their addresses."""
    blocks = []
    while block := LIBC.malloc(size):
        blocks.append(block)
    return blocks


def at_the_end(array):
    """Return a copy whose last byte ends a page; the next page is protected."""
    pages = -(-array.nbytes // PAGE) if array.nbytes else 1
    memory = mmap.mmap(-1, (pages + 1) * PAGE)
    behind = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + pages * PAGE
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(behind), PAGE, 0):
        raise OSError(ctypes.get_errno(), "mprotect")
    made = np.frombuffer(memory, array.dtype, array.size, pages * PAGE - array.nbytes).reshape(array.shape)
    made[...] = array
    return made


def at_the_start(array):
    """Return a copy whose first byte starts a page; the page before is protected."""
    pages = -(-array.nbytes // PAGE) if array.nbytes else 1
    memory = mmap.mmap(-1, (pages + 1) * PAGE)
    before = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(before), PAGE, 0):
        raise OSError(ctypes.get_errno(), "mprotect")
    made = np.frombuffer(memory, array.dtype, array.size, PAGE).reshape(array.shape)
    made[...] = array
    return made


@unittest.skipUnless(sys.platform.startswith("linux"), "needs mprotect")
class TestNothingBeyond(NativeCase):
    """Native Ops do not read beyond their inputs: a protected page next to each input makes such a read crash."""

    LENGTHS = (1, 3, 7, 8, 15, 16, 17, 31, 32, 33, 47, 48, 64, 65, 130)

    def guarded(self, *shape, dtype="float64"):
        """Return an array next to a protected page, which follows or precedes the array.

        The side changes in a cycle of five calls, so that each of two to four inputs gets both sides in turn.
        """
        self.turn = getattr(self, "turn", 0) + 1
        places = at_the_end, at_the_end, at_the_start, at_the_end, at_the_start
        return places[self.turn % 5](self.array(shape, dtype, values=30))

    def test_vectors(self):
        makes = (
            lambda x: T.exp(x) * x,
            lambda x: T.sum(x),
            lambda x: T.max(x),
            lambda x: T.argmax(x),
            lambda x: x[::-1],
            lambda x: T.dot(x, x),
            lambda x: sort(x),
            lambda x: argsort(x, kind="mergesort"),
            lambda x: extra_ops.cumsum(x),
            lambda x: extra_ops.cumprod(x),
            lambda x: extra_ops.Unique()(x),
            lambda x: x[T.constant([0, -1, 0])],
            lambda x: T.join(0, x, x),
            lambda x: x[x > 0],
            lambda x: topk(x, 1),
        )
        for n in self.LENGTHS:
            for dtype in ("float64", "float32", "int8"):
                for make in makes[1:]:
                    self.compare(make, self.guarded(n, dtype=dtype))
        for n in self.LENGTHS:
            for dtype in ("float64", "float32"):
                self.compare(makes[0], self.guarded(n, dtype=dtype))

    def test_matrices(self):
        for n in self.LENGTHS:
            for rows in (1, 3, 17):
                for dtype in ("float64", "float32"):
                    x = self.guarded(rows, n, dtype=dtype)
                    for op in (softmax_op, logsoftmax_op):
                        self.compare(op, x)
                    self.compare(softmax_grad, x, self.guarded(rows, n, dtype=dtype))
                    self.compare(softmax_with_bias, x, self.guarded(n, dtype=dtype))
                    labels = at_the_end(self.rng.randint(0, n, rows).astype("int32"))
                    crossing = crossentropy.crossentropy_softmax_argmax_1hot_with_bias
                    self.compare(lambda x, b, y: crossing(x, b, y)[0], x, self.guarded(n, dtype=dtype), labels)
                    for axis in (0, 1):
                        for op in (T.sum, T.argmax, T.max, extra_ops.cumsum):
                            self.compare(lambda x: op(x, axis=axis), x)
                        self.compare(lambda x: sort(x, axis), x)
                    self.compare(T.dot, x, self.guarded(n, 3, dtype=dtype))
                    self.compare(lambda x: x.T.reshape((-1,)), x)

    def test_normalised(self):
        for shape in ((4, 3), (16, 5), (33, 17), (2, 3, 16), (3, 2, 4, 8), (2, 2, 33), (2, 1, 8, 8), (5, 3, 31)):
            for reduced in ((0,), (0, *range(2, len(shape)))):
                for dtype in ("float64", "float32"):
                    one = T.TensorType(dtype, [axis in reduced for axis in range(len(shape))])
                    inputs = T.TensorType(dtype, [False] * len(shape))("x"), one("gamma"), one("beta")
                    small = [1 if axis in reduced else n for axis, n in enumerate(shape)]
                    values = [self.guarded(*s, dtype=dtype) for s in (shape, small, small)]
                    epsilon = T.constant(np.array(1e-3, dtype))
                    out = bn_ops.BatchNormTrain(axes=reduced)(*inputs, epsilon)
                    values = dict(zip(inputs, values))
                    self.compare_graph(out[0], values)
                    dy = inputs[0].type("dy")
                    grads = bn_ops.BatchNormTrainGrad(axes=reduced)(inputs[0], dy, inputs[1], out[1], out[2], epsilon)
                    self.compare_graph(grads[0], {**values, dy: self.guarded(*shape, dtype=dtype)})

    def test_pooled(self):
        for size in ((4, 8), (5, 16), (6, 17), (9, 33)):
            for dtype in ("float64", "float32", "int8", "uint16"):
                for mode in ("max", "sum"):
                    for numbers in (
                        ((2, 2), (2, 2), (0, 0)),
                        ((3, 2), (1, 1), (1, 1)),
                        ((2, 3), (1, 3), (0, 0)),
                        ((4, 4), (1, 3), (0, 0)),
                        ((5, 2), (3, 2), (1, 1)),
                    ):
                        if numbers[0][0] > size[0] + 2 * numbers[2][0]:
                            continue
                        make = pool.Pool(ignore_border=True, mode=mode, ndim=2)
                        self.compare(lambda x: make(x, *numbers), self.guarded(2, *size, dtype=dtype))
                if dtype[0] != "f":
                    continue
                neibs = neighbours.Images2Neibs("ignore_borders")
                self.compare(
                    lambda x: neibs(x, T.constant((2, 3)), T.constant((1, 2))), self.guarded(2, 2, *size, dtype=dtype)
                )

    def test_windows_of_many_rows(self):
        """Pooling reads nothing beyond the image if windows have many rows, and the last window has few rows."""
        for height, last in ((16, 1), (17, 1), (40, 3), (300, 1), (2000, 1)):
            shape = 2, height + last, 5
            for mode in ("max", "sum", "average_exc_pad"):
                make = pool.Pool(ignore_border=False, mode=mode, ndim=2)
                for numbers in (((height, 2), (height, 2), (0, 0)), ((height, 2), (height, 1), (0, 0))):
                    self.compare(lambda x: make(x, *numbers), self.guarded(*shape))
                    x = self.guarded(*shape)
                    top = self.guarded(2, 2, self.results(make(x, *numbers), {}, "py")[0].shape[-1])
                    if mode == "max":
                        grad = pool.MaxPoolGrad(ignore_border=False, ndim=2)
                        z = self.results(make(x, *numbers), {}, "py")[0]
                        self.compare(lambda x, z, g: grad(x, z, g, *numbers), x, z, top)
                    else:
                        grad = pool.AveragePoolGrad(ignore_border=False, mode=mode, ndim=2)
                        self.compare(lambda x, g: grad(x, g, *numbers), x, top)

    def convolve(self, image, kernel, dtype, **settings):
        """Check a convolution and its gradients by image and kernel, on arrays in guarded memory."""
        forward, weights, inputs = [
            op(**settings) for op in (convmm.CorrMM, convmm.CorrMM_gradWeights, convmm.CorrMM_gradInputs)
        ]
        x, w = self.guarded(*image, dtype=dtype), self.guarded(*kernel, dtype=dtype)
        variables = [T.TensorType(dtype, [False] * v.ndim)() for v in (x, w)]
        top = self.results(forward(*variables), dict(zip(variables, (x, w))), "py")[0]
        y = self.guarded(*top.shape, dtype=dtype)
        self.compare(forward, x, w)
        self.compare(lambda x, y: weights(x, y, T.constant(kernel[-2:])), x, y)
        self.compare(lambda w, y: inputs(w, y, T.constant(image[2:])), w, y)

    def test_convolved(self):
        for k, (channels, filters, image, kernel) in enumerate(
            [
                (1, 1, (5, 8), (2, 2)),
                (3, 4, (6, 7), (3, 3)),
                (2, 17, (9, 9), (1, 1)),
                (5, 33, (4, 5), (2, 3)),
                (20, 7, (3, 19), (2, 2)),
                (3, 70, (8, 16), (3, 3)),
                (1, 3, (1, 50), (1, 4)),
                (40, 40, (3, 3), (3, 3)),
                (2, 6, (17, 33), (5, 5)),
                (21, 9, (7, 6), (1, 1)),
                (31, 200, (7, 6), (1, 1)),
                (15, 200, (5, 5), (1, 1)),
                (3, 2, (3, 29), (1, 2)),
            ]
        ):
            for dtype in ("float64", "float32"):
                for settings in ({}, {"border_mode": (1, 1)}, {"subsample": (2, 2)}):
                    self.convolve((1 + k % 3, channels, *image), (filters, channels, *kernel), dtype, **settings)

    def test_kernels_of_their_own(self):
        """Unshared convolutions read nothing beyond their inputs, for tall and wide images.

        Batches are small and large.
        """
        for k, (batch, channels, image, kernel) in enumerate(
            [
                (1, 1, (7, 3), (2, 2)),
                (9, 5, (3, 7), (2, 3)),
                (17, 8, (6, 4), (3, 3)),
                (12, 3, (6, 7), (5, 5)),
                (8, 2, (4, 4), (4, 4)),
            ]
        ):
            for dtype in ("float64", "float32"):
                for pad in (0, 1):
                    regions = [n + 2 * pad - m + 1 for n, m in zip(image, kernel)]
                    kernels = (1 + k % 3, *regions, channels, *kernel)
                    self.convolve((batch, channels, *image), kernels, dtype, unshared=True, border_mode=(pad, pad))


@unittest.skipUnless(os.path.exists("/proc/self/statm"), "needs to know what memory the process has")
class TestNothingKept(NativeCase):
    def size(self):
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()

    def test_scratch_memory(self):
        """Convolutions free their scratch memory."""
        x, w, y = self.array((1, 1, 600, 600)), self.array((1, 1, 2, 2)), self.array((1, 1, 601, 601))
        both = [T.dtensor4() for _ in range(2)]
        for out, values in (
            (convmm.CorrMM(border_mode=(1, 1))(*both), (x, w)),
            (convmm.CorrMM_gradWeights(border_mode=(1, 1))(*both, T.constant((2, 2))), (x, y)),
            (convmm.CorrMM_gradInputs(border_mode=(1, 1))(*both, T.constant((600, 600))), (w, y)),
        ):
            values = dict(zip(both, values))
            for _ in range(2):
                self.results(out, dict(values), "c")
            before = self.size()
            for _ in range(12):
                self.results(out, dict(values), "c")
            self.assertLess(self.size() - before, 5 * x.nbytes, out.owner)

    def test_shapes(self):
        """Arrays made by `empty` free the memory of their shapes, even if the memory of their elements is kept."""
        for shape in ((0,) * 30, (1,) * 31 + (NATIVE_BIG,), (2,) * 5):
            empty(shape, "int8")
            before = self.size()
            for _ in range(30_000):
                empty(shape, "int8")
            self.assertLess(self.size() - before, 2_000_000, shape)

    def test_sorted(self):
        """Sorting frees its buffers, which it allocates once for all lines."""
        for make, shape, dtype in (
            (sort, (2, 300_000), "float64"),
            (sort, (2, 50_000), "complex128"),
            (lambda x: sort(x, kind="mergesort"), (2, 200_000), "float32"),
            (argsort, (2, 100_000), "float64"),
            (lambda x: topk(x, 9000), (10, 40_000), "float64"),
            (lambda x: topk(x, 5), (2, 40_000), "complex64"),
            (lambda x: extra_ops.Unique()(x), (100_000,), "float64"),
            (lambda x: extra_ops.Unique(True, True, True)(x), (100_000,), "int16"),
        ):
            x = (np.arange(np.prod(shape)) * 7919 % 10007).astype(dtype).reshape(shape)
            variable = T.TensorType(dtype, [False] * x.ndim)()
            out = make(variable)
            out = out[0] if isinstance(out, (list, tuple)) else out
            values = {variable: x}
            for _ in range(2):
                self.results(out, dict(values), "c")
            before = self.size()
            for _ in range(6):
                self.results(out, dict(values), "c")
            self.assertLess(self.size() - before, x.nbytes, out.owner)

    @contextmanager
    def limited(self, room, keep=False):
        """Let the process allocate only `room` more bytes.

        The garbage collector is off in the context, because it would free memory. Memory that is kept for later arrays
        is freed first, unless `keep` is true. Free memory of the heap is allocated first, because the limit does not
        count it.
        """
        gc.collect()
        gc.disable()
        if not keep:
            trim()
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (self.size() + MEGABYTE, hard))
        blocks = all_free_blocks(2 * MEGABYTE)
        resource.setrlimit(resource.RLIMIT_AS, (self.size() + room, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
            for block in blocks:
                LIBC.free(block)
            gc.enable()

    def check_without_memory(self, make, arrays, room):
        """Check that an Op raises MemoryError if the process may allocate only `room` more bytes."""
        variables = [T.TensorType(a.dtype, [False] * a.ndim)() for a in arrays]
        node = make(*variables).owner
        cells = {v: [a] for v, a in zip(variables, arrays)}
        cells.update({v: [v.data] for v in node.inputs if v not in cells})
        cells.update({v: [None] for v in node.outputs})
        thunk = node.op.make_thunk(node, cells, {v: [v in node.outputs] for v in cells}, [], impl="c")
        with self.assertRaises(MemoryError), self.limited(room):
            thunk()

    def test_memory_that_is_kept(self):
        """Memory that is kept for later arrays is freed if an allocation would fail otherwise."""
        trim()
        kept = [empty((40 * MEGABYTE + 9 * MEGABYTE * k,), "int8") for k in range(4)]
        del kept
        with self.limited(16 * MEGABYTE, keep=True):
            array = empty((120 * MEGABYTE,), "int8")
        self.assertEqual(array.size, 120 * MEGABYTE)

    def test_too_little(self):
        """Ops raise MemoryError if memory is short.

        Arrays are zeros that are never written, so they use addresses but no memory.
        """
        n = 12_000_000
        x, places, starts = np.zeros(n, "int8"), np.zeros(n, "int32"), np.array([0, n], "int32")
        # The first room is too small for any buffer; the other two suffice for the result, but not for more buffers.
        for room in (n // 2, 12 * n, 20 * n):
            self.check_without_memory(argsort, (x,), room)
            self.check_without_memory(sort, (np.zeros(n, "complex64"),), room)
        for op in (fields.mul_s_v_csr, fields.structured_add_s_v_csr, fields.mul_s_d_csr):
            dense = np.zeros((1, 3)) if op is fields.mul_s_d_csr else np.zeros(3)
            self.check_without_memory(op, (np.zeros(n), places, starts, dense), n)

    def test_frames_that_are_too_large(self):
        """A convolution raises MemoryError if the padded image is larger than any memory, or if the size overflows."""
        for apart in (2**31 - 4, 2**32 - 4, 2**33 - 4):
            x, w = T.dtensor4(), T.dtensor4()
            op = convmm.CorrMM(border_mode=(apart // 2, apart // 2), filter_dilation=(apart, apart))
            with self.assertRaises(MemoryError):
                run_node(op(x, w), {x: np.ones((1, 1, 4, 4)), w: np.ones((1, 1, 2, 2))}, "c")
        x, w = [T.TensorType("float64", [False] * 5)() for _ in range(2)]
        apart = 2**32 - 4
        op = Corr3dMM(border_mode=(apart // 2,) * 3, filter_dilation=(apart,) * 3)
        with self.assertRaises(MemoryError):
            run_node(op(x, w), {x: np.ones((1, 1, 4, 4, 4)), w: np.ones((1, 1, 2, 2, 2))}, "c")


if __name__ == "__main__":
    unittest.main()
