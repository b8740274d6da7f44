"""Native Ops on arrays that are longer, or slightly shorter, than the blocks that the C code processes.

The results of C code are compared with those of Python code.
"""

import itertools
import unittest

import numpy as np
import scipy.sparse

import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.audit import forms
from theano_ng.configparser import change_flags
from theano_ng.gof.compiler import MissingGXX
from theano_ng.gof.graph import io_toposort
from theano_ng.sandbox import rng_mrg
from theano_ng.sandbox.multinomial import ChoiceFromUniform, MultinomialFromUniform
from theano_ng.sparse import fields
from theano_ng.tensor import extra_ops, nlinalg, slinalg
from theano_ng.tensor import subtensor as sub
from theano_ng.tensor.elemwise import Elemwise
from theano_ng.tensor.nnet import bn_ops, crossentropy, neighbours
from theano_ng.tensor.nnet.convolution import convmm
from theano_ng.tensor.nnet.softmax import logsoftmax_op, softmax_grad, softmax_op, softmax_with_bias
from theano_ng.tensor.shaping.allocation import alloc, sum_to_shape
from theano_ng.tensor.signal import pool
from theano_ng.tensor.sort import argsort, sort, topk
from theano_ng.tensor.tests.generated import ALL_DTYPES
from theano_ng.tensor.tests.openmp_library import openmp_library
from theano_ng.tensor.tests.single_node import run_node

# Lengths near the block sizes of C code: of vector registers, buffers, tiles, pieces, chunks and tables of counts.
LENGTHS = (3, 17, 31, 49, 65, 257, 1023, 1025, 2049, 4100)
LONG = 17000
SHAPES = ((3, 1300), (1300, 3), (47, 65), (130, 17), (2, 5, 700), (70, 5, 16), (520, 9))
LAYOUTS = (forms.contiguous, forms.fortran, forms.strided, forms.reversed_)
KINDS = ("float64", "float32", "int8", "int64", "bool", "complex64", "uint16")
DIGITS = {"float16": 1e-2, "float32": 1e-4, "complex64": 1e-4}


class NativeCase(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.RandomState(1881)

    def array(self, shape, dtype="float64", layout=forms.contiguous, values=97):
        """Return random multiples of 1/8 with absolute values up to values / 8.

        If the dtype is an integer, the elements are integers with absolute values up to `values`.
        """
        numbers = self.rng.randint(-values, values + 1, shape) / (1 if np.dtype(dtype).kind in "iu" else 8)
        if np.dtype(dtype).kind == "c":
            numbers = numbers + 1j * self.rng.randint(-values, values + 1, shape) / 8
        return layout(np.asarray(numbers).astype(dtype))

    def compare(self, make, *arrays):
        """Check that the nodes of ``make(*variables)`` have the same results in C and in Python, and do not change
        their inputs.
        """
        variables = [T.TensorType(a.dtype, [False] * a.ndim)() for a in map(np.asarray, arrays)]
        out = make(*variables)
        out = out[0] if isinstance(out, (list, tuple)) else out
        self.compare_graph(out, dict(zip(variables, arrays)))

    def compare_graph(self, out, values):
        """Check that a graph has the same results in C and in Python, and does not change its inputs."""
        before = {v: np.array(value) for v, value in values.items()}
        results = [self.results(out, dict(values), impl) for impl in ("c", "py")]
        for v, value in values.items():
            np.testing.assert_array_equal(value, before[v])
        for got, want in zip(*results):
            self.assertEqual((got.dtype, got.shape), (want.dtype, want.shape))
            digits = DIGITS.get(str(got.dtype), 1e-9)
            scale = np.max(np.abs(want[np.isfinite(want)]), initial=0) if got.dtype.kind in "fc" else 0
            np.testing.assert_allclose(got, want, rtol=digits, atol=digits * scale, err_msg=str(out.owner))

    def assert_refused(self, error, says, make, *arrays):
        """Check that the C code of ``make(*variables)`` raises an error."""
        variables = [T.TensorType(a.dtype, [False] * a.ndim)() for a in arrays]
        with self.assertRaisesRegex(error, says):
            self.results(make(*variables), dict(zip(variables, arrays)), "c")

    def results(self, out, values, impl):
        """Run the nodes of a graph one after the other, and return the outputs of the last node."""
        outputs = []
        for node in io_toposort(list(values), [out]):
            outputs = run_node(node.outputs[0], values, impl)
            values.update(zip(node.outputs, outputs))
        return outputs

    def changed(self, make, *arrays):
        """Return the outputs of the graph ``make(*variables)`` for these arrays, computed by C code."""
        variables = [T.TensorType(a.dtype, [False] * a.ndim)() for a in arrays]
        return self.results(make(*variables), dict(zip(variables, arrays)), "c")

    def each(self, shapes=SHAPES, kinds=KINDS, layouts=LAYOUTS):
        """Yield an array for each pair of a shape and a layout; each array has the next dtype of a cycle."""
        for i, shape in enumerate(shapes):
            for k, layout in enumerate(layouts):
                yield self.array(shape, kinds[(i * len(layouts) + k) % len(kinds)], layout)


class TestIndexing(NativeCase):
    def places(self, n, size):
        """Return random indices into a dimension of length `size`, in a random memory layout and integer dtype."""
        layout = LAYOUTS[self.rng.randint(len(LAYOUTS))]
        return layout(self.rng.randint(-size, size, n).astype(("int64", "int32", "int16")[self.rng.randint(3)]))

    def test_rows(self):
        for x in self.each():
            for n in (5, 1500):
                self.compare(lambda x, i: sub.advanced_subtensor1(x, i), x, self.places(n, len(x)))

    def test_increments_of_rows(self):
        for op in (sub.advanced_inc_subtensor1, sub.advanced_set_subtensor1):
            for x in self.each(
                ((3, 70), (47, 65), (130, 17), (5, 2, 9)), ("float64", "int32", "float32", "complex128")
            ):
                for n in (3, 1100):
                    places = (
                        self.rng.permutation(len(x)) if op is sub.advanced_set_subtensor1 else self.places(n, len(x))
                    )
                    for y in (
                        self.array((len(places), *x.shape[1:]), x.dtype, LAYOUTS[n % 3]),
                        np.broadcast_to(self.array(x.shape[1:], x.dtype), (len(places), *x.shape[1:])),
                    ):
                        self.compare(op, x, y, places)

    def test_increments_of_vectors_in_place(self):
        """Elements of vectors of any memory layout are incremented in place, by contiguous, strided and 0-d arrays."""
        op = sub.AdvancedIncSubtensor1(inplace=True)
        for dtype in ("float32", "float64", "int8", "int16", "uint32", "int64", "complex64", "complex128"):
            for n, layout in itertools.product((3, 17, 1100), LAYOUTS):
                for kind in ("int64", "int32", "uint8"):
                    places = self.rng.randint(0 if kind == "uint8" else -50, 50, n).astype(kind)
                    for y in (self.array((n,), dtype), self.array((n,), dtype, forms.strided), self.array((), dtype)):
                        x = self.array((50,), dtype, layout)
                        want = x.copy()
                        np.add.at(want, places, y)
                        variables = [T.TensorType(v.dtype, (False,) * v.ndim)() for v in (x, y, places)]
                        (got,) = run_node(op(*variables), dict(zip(variables, (x, y, places))), "c")
                        self.assertIs(got, x)
                        np.testing.assert_allclose(got, want, DIGITS.get(dtype, 1e-12), 1e-4)

    def test_increments_at_places(self):
        for n in (7, 1025, 2100):
            for dtype in ("float64", "float32", "int64"):
                x, i, j = self.array((90, 40), dtype), self.places(n, 90), self.places(n, 40)
                for y in (self.array((n,), dtype), self.array((2 * n,), dtype)[::2], self.array((), dtype)):
                    self.compare(lambda x, y, i, j: sub.inc_subtensor(x[i, j], y), x, y, i, j)
                wide = self.array((90, 3, 40), dtype)
                self.compare(lambda x, y, i: sub.inc_subtensor(x[:, :, i], y), wide, self.array((90, 3, n), dtype), j)

    def test_places(self):
        for n in (7, 1025, 2100):
            i, j = self.places(n, 60), self.places(n, 30)
            for dtype in KINDS:
                for layout in LAYOUTS:
                    x = self.array((60, 30), dtype, layout)
                    self.compare(lambda x, i, j: x[i, j], x, i, j)
                    self.compare(lambda x, j: x[:, j], x, j)
                    self.compare(lambda x, i: x[i, 3:], x, i)

    def test_as_many_dimensions_as_there_can_be(self):
        x = self.array((2,) + (1,) * 62 + (3,))
        self.compare(lambda x, i: x[i], x, np.array([1, 0, 1]))
        # Use the maximum number of index arrays, which are broadcast to one or more dimensions.
        for lengths in ((3,), (2, 3), (3, 2, 4, 2, 3)):
            n = len(lengths)
            x = self.array(lengths + (1,) * (64 - n))
            grid = [self.places((length,), length) for length in lengths]
            places = [i.reshape([-1 if k == d else 1 for d in range(n)]) for k, i in enumerate(grid)]
            places += [np.zeros((1,) * (1 + k % n), "int64") for k in range(n, 64)]
            (got,) = self.changed(lambda x, *i: x[i], x, *places)
            np.testing.assert_array_equal(got, x.reshape(lengths)[tuple(places[:n])])

    def test_positions_of_all_kinds(self):
        """Reads and writes with several index arrays agree with NumPy.

        The index arrays have any memory layout, and are broadcast against each other. Other dimensions come before and
        after the indexed ones.
        """
        for _ in range(200):
            before = self.rng.randint(1, 4, self.rng.randint(2))
            behind = [
                (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 70)[self.rng.randint(12)] for _ in range(self.rng.randint(3))
            ]
            sizes = self.rng.randint(2, 9, self.rng.randint(1, 3))
            kind = (*KINDS, "complex128")[self.rng.randint(len(KINDS) + 1)]
            x = self.array((*before, *sizes, *behind), kind, LAYOUTS[self.rng.randint(4)])
            n, m = self.rng.randint(1, 4), (1, 3, 15, 17, 40)[self.rng.randint(5)]
            shapes = [((m,), (n, m), (n, 1), (1, m), (1,))[self.rng.randint(5)] for _ in sizes]
            self.check_positions(x, len(before), [self.places(shape, size) for shape, size in zip(shapes, sizes)])

    def test_runs_of_one_array_of_positions(self):
        """Reads and writes with two index arrays agree with NumPy if one does not vary along the last dimension."""
        for dtype, kind in itertools.product(("float32", "int64", "complex128"), ("int32", "int64")):
            x = self.array((7, 50, 4), dtype)
            for n, m in ((2, 16), (3, 40), (5, 15)):
                i, j = self.rng.randint(-7, 7, (n, 1)).astype(kind), self.rng.randint(-50, 50, (n, m)).astype(kind)
                for y in (x, x[:, :, 0], x[:, :, :1], x[..., ::2]):
                    self.check_positions(y, 0, [i, j])
                    self.check_positions(y, 0, [i, j[:1]])
                    self.check_positions(y, 0, [i[0], j])

    def test_positions_beyond_a_chunk(self):
        """Reads and writes agree with NumPy for index arrays with more elements than a chunk.

        A chunk may end in the middle of a row of an index array.
        """
        x = self.array((9, 50, 3))
        for n, m in ((3, 700), (40, 60), (1030, 2)):
            for kind in ("int16", "int64"):
                i, j = self.rng.randint(-9, 9, (n, 1)).astype(kind), self.rng.randint(-50, 50, (n, m)).astype(kind)
                for y in (x, x[:, :, 0]):
                    self.check_positions(y, 0, [i, j])
                    self.check_positions(y, 0, [i, j[0]])

    def check_positions(self, x, before, positions):
        def taken(x, *indices):
            return x[(slice(None),) * before + indices]

        self.compare(taken, x, *positions)
        if x.dtype != bool:
            y = self.array(taken(x, *positions).shape, x.dtype, LAYOUTS[self.rng.randint(4)])
            y = y[..., :1] if y.ndim and self.rng.randint(3) == 0 else y
            self.compare(lambda x, y, *i: sub.inc_subtensor(taken(x, *i), y), x, y, *positions)
            number = self.array((), x.dtype)
            self.compare(lambda x, y, *i: sub.set_subtensor(taken(x, *i), y), x, number, *positions)

    def test_long_rows(self):
        """Reads and writes of long rows agree in C and in Python.

        The C library copies rows above a certain size; the rows of the test are near this size.
        """
        for n in (2047, 2048, 2051, 5000):
            for dtype in ("float64", "complex64", "int64"):
                x, places = self.array((6, n), dtype), self.places(12, 6)
                self.compare(sub.advanced_subtensor1, x, places)
                self.compare(sub.advanced_inc_subtensor1, x, self.array((12, n), dtype), places)
                order, y = self.rng.permutation(6), self.array((6, n), dtype)
                self.compare(sub.advanced_set_subtensor1, x, y, order)
                self.compare(lambda x, i, j: x[i, :, j], self.array((3, n, 4), dtype), places % 3, self.places(12, 4))

    def test_masks(self):
        """Masks of any length, with runs of true and of false elements, select and set elements of all sizes."""
        for n in (1, 7, 8, 9, 16, 17, 64, 71, 300, 1100):
            for share in (0.0, 0.02, 0.5, 0.97, 1.0):
                mask = np.repeat(self.rng.rand(n) < share, self.rng.randint(1, 12))[:n]
                for dtype in ("bool", "int8", "float16", "float32", "float64", "complex128"):
                    x = self.array((n,), "int8").astype(dtype)
                    (got,) = self.changed(lambda x, m: x[m], x, mask)
                    np.testing.assert_array_equal(got, x[mask])
                    many = (np.arange(2 * n + 2) % 100 + 1).astype(dtype)
                    for y in (many[: mask.sum()], many[: 2 * mask.sum() : 2], many[5 % n]):
                        want, before = x.copy(), mask.copy()
                        want[mask] = y
                        (got,) = self.changed(lambda x, m, y: sub.set_subtensor(x[m], y), x, mask, np.asarray(y))
                        np.testing.assert_array_equal(got, want)
                        np.testing.assert_array_equal(mask, before)

    def test_masks_of_many_dimensions(self):
        for shape in ((3, 40), (40, 3), (5, 6, 7), (1, 30), (4, 1, 9)):
            for layout in LAYOUTS:
                x, mask = self.array(shape, layout=layout), self.rng.rand(*shape) < 0.6
                for m in (mask, np.asfortranarray(mask), layout(mask)):
                    (got,) = self.changed(lambda x, m: x[m], x, m)
                    np.testing.assert_array_equal(got, x[mask])
                    want, y = x.copy(), self.array(int(mask.sum()))
                    want[mask] += y
                    (got,) = self.changed(lambda x, m, y: sub.inc_subtensor(x[m], y), x, m, y)
                    np.testing.assert_array_equal(got, want)

    def test_halves_that_are_not_numbers(self):
        """Adding a number to a float16 NaN keeps the sign and the bits of the NaN, as in NumPy."""
        halves = np.array([0x7E00, 0xFE00, 0x7E01, 0x7FFF, 0xFE2A, 0x7F00], "uint16").view("float16")
        for x, y in ((np.zeros(6, "float16"), halves), (halves, np.full(6, 1.5, "float16"))):
            for make in (lambda x, y: sub.inc_subtensor(x[:], y), lambda x, y: sub.inc_subtensor(x[np.arange(6)], y)):
                (got,) = self.changed(make, x, y)
                np.testing.assert_array_equal(got.view("uint16"), halves.view("uint16"))

    def test_places_out_of_bounds(self):
        """Positions out of bounds raise an error before any element is read or written."""
        x = self.array((60, 30))
        makes = (
            sub.advanced_subtensor1,
            lambda x, i: x[i, i % 30],
            lambda x, i: sub.advanced_set_subtensor1(x, T.constant(1.5), i),
            lambda x, i: sub.inc_subtensor(x[i, i % 30], T.constant(1.5)),
            lambda x, i: sub.AdvancedIncSubtensor1(inplace=True)(x, T.constant(1.5), i),
        )
        for dtype in ("int8", "int32", "int64", "uint8", "uint32"):
            for layout in LAYOUTS:
                for n, where in ((3, 1), (1025, 1024), (2100, 5)):
                    for wrong in (60, -61)[: 1 if dtype[0] == "u" else 2]:
                        i = np.zeros(n, dtype)
                        i[where] = wrong
                        for make in makes:
                            before = x.copy()
                            self.assert_refused(IndexError, "index %d is out of bounds" % wrong, make, x, layout(i))
                            np.testing.assert_array_equal(x, before)

    def test_items_out_of_bounds(self):
        """An index out of bounds of a vector, or of an array of short rows, is an error."""
        for x in (self.array(60, "float32"), *[self.array((60, n)[: 1 + (n > 1)]) for n in (1, 2, 4, 8)]):
            for dtype in ("int32", "int64"):
                for n, where in ((16, 0), (17, 16), (18, 17), (1025, 500)):
                    for wrong in (60, -61, 2**31 - 1, -(2**31)):
                        i = self.rng.randint(-60, 60, n).astype(dtype)
                        i[where] = wrong
                        for make in (sub.advanced_subtensor1, lambda x, i: sub.advanced_subtensor1(x[::-1], i)):
                            says = "index %d is out of bounds" % wrong
                            self.assert_refused(IndexError, says, make, x, i)

    def test_slices(self):
        for x in self.each():
            y = self.array(x[1::2].shape, x.dtype)
            for set_instead in (True, False):
                op = sub.set_subtensor if set_instead else sub.inc_subtensor
                if x.dtype != bool:
                    self.compare(lambda x, y: op(x[1::2], y), x, y)
                    self.compare(lambda x, y: op(x[::-2], y), x, self.array(x[::-2].shape, x.dtype, forms.strided))


class TestDtypes(NativeCase):
    """Ops on small arrays of every dtype."""

    REDUCTIONS = (T.sum, T.prod, T.max, T.min, T.argmax, T.mean, T.any, T.all)
    REARRANGING = (
        lambda x: x[[2, 0, 1, 1]],
        lambda x: x[[2, 0, 1], [0, 4, 3]],
        lambda x: x[x > x[0, 0]],
        lambda x: x[::-1, 1:4],
        lambda x: sub.set_subtensor(x[[2, 0]], x[:2]),
        lambda x: sub.inc_subtensor(x[[2, 2]], x[:2]),
        lambda x: sub.inc_subtensor(x[1:, ::2], x[:2, ::2]),
        lambda x: T.join(1, x, x),
        lambda x: x.T.reshape((5, 3)),
        lambda x: T.extra_ops.RepeatOp(axis=1)(x, T.constant(2)),
        lambda x: T.extra_ops.fill_diagonal(x, x[1, 1]),
        lambda x: T.tile(x, (2, 1)),
        lambda x: T.dot(x, x.T),
        lambda x: T.dot(x[0], x[1]),
        lambda x: T.ExtractDiag(0, 0, 1)(x),
        lambda x: extra_ops.cumsum(x, axis=1),
        lambda x: extra_ops.cumprod(x, axis=0),
        lambda x: sort(x, 1),
        lambda x: argsort(x, 0, kind="mergesort"),
        lambda x: extra_ops.DiffOp(1, 1)(x),
        lambda x: extra_ops.Unique(True, True, True)(x),
        lambda x: T.stack([x[0, 0], x[1, 1]]),
        lambda x: T.alloc(x[0], 4, 5),
        lambda x: T.switch(T.gt(x, x[0, 0]), x, x[0]),
        lambda x: T.tri(3, 5, 1, dtype=x.dtype),
        lambda x: T.eye(3, 5, 1, dtype=x.dtype),
        lambda x: T.arange(3, 11, 2, dtype=x.dtype),
    )

    def check(self, make, x):
        """Compare C and Python code on a matrix; return 1, or 0 if the Op refuses the dtype or a node has no native
        code.
        """
        matrix = T.matrix(dtype=x.dtype)
        try:
            out = make(matrix)
        except (TypeError, NotImplementedError):
            return 0
        out = out[0] if isinstance(out, list) else out
        nodes = io_toposort([matrix], [out])
        if not nodes or any(getattr(node.op, "native_code", lambda node: None)(node) is None for node in nodes):
            return 0
        try:
            with np.errstate(all="ignore"):
                self.compare_graph(out, {matrix: x})
        except MissingGXX:  # the native code of the Op has a kernel, which needs a compiler
            return 0
        return 1

    def test_reductions(self):
        bits = [T.CAReduce(op, (1,)) for op in (scalar.and_, scalar.or_, scalar.xor)]
        for dtype in ALL_DTYPES:
            x = self.array((3, 21), dtype, values=9)
            done = sum(self.check(lambda x: op(x, axis), x) for op in self.REDUCTIONS for axis in (None, 0, 1))
            self.assertGreater(done + sum(self.check(op, x) for op in bits), 8)

    def test_rearranging(self):
        for dtype in ALL_DTYPES:
            x = self.array((3, 5), dtype, values=9)
            self.assertGreater(sum(self.check(make, x) for make in self.REARRANGING), 14)


class TestReductions(NativeCase):
    def test_axes(self):
        for x in self.each(shapes=(*SHAPES, (3, 4, 5, 40))):
            axes = [None, *[(a,) for a in range(x.ndim)], *([(0, 2)] if x.ndim > 2 else [])]
            for axis in axes:
                for reduce in (T.sum, T.prod, T.max, T.min):
                    if x.dtype != bool and (reduce is not T.prod or x.dtype.kind in "iu"):
                        if x.dtype.kind != "c" or reduce is T.sum:
                            self.compare(lambda x: reduce(x, axis=axis), x)
                if x.dtype == bool:
                    for reduce in (T.any, T.all):
                        self.compare(lambda x: reduce(x, axis=axis), x)

    def test_lengths(self):
        for n in (*LENGTHS, LONG):
            for dtype in ("float64", "float32", "int8", "int32", "uint64", "float16"):
                for layout in (forms.contiguous, forms.strided):
                    x = self.array((n,), dtype, layout)
                    for reduce in (T.sum, T.max, T.min):
                        self.compare(reduce, x)

    def test_places_of_extremes(self):
        for x in [*self.each(), *[self.array((n,), dtype) for n in (1023, LONG) for dtype in KINDS]]:
            if x.dtype.kind in "fiu":
                for axis in range(x.ndim):
                    self.compare(lambda x: T.argmax(x, axis=axis), x)
                    self.compare(lambda x: T.MaxAndArgmax((axis,))(x), x)

    def test_places_behind_blocks_of_extremes(self):
        """argmax finds a single maximum in a long array of the minimum of the dtype.

        argmin finds a single minimum in an array of maxima.
        """
        for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "float32"):
            limits = np.finfo(dtype) if dtype[0] == "f" else None if dtype == "bool" else np.iinfo(dtype)
            least, most = (limits.min, limits.max) if limits else (False, True)
            n = 3 * 16384 // np.dtype(dtype).itemsize
            for step, at in itertools.product((1, 2), (2 * n // 3 + 5, n - 1)):
                x = np.full(step * n, least, dtype)[::step]
                x[at] = most
                self.assertEqual(self.changed(T.argmax, x)[-1], at)
                x[:] = most
                x[at] = least
                self.assertEqual(self.changed(T.argmin, x)[-1], at)

    def test_running_totals(self):
        for x in self.each(kinds=("float64", "float32", "int64", "int8")):
            for axis in (None, *range(x.ndim)):
                self.compare(lambda x: extra_ops.cumsum(x, axis=axis), x)
                self.compare(lambda x: extra_ops.cumprod(x, axis=axis), (x % 2 + 1).astype(x.dtype))


class TestThreads(NativeCase):
    """Native code that divides large arrays among threads has the results of Python code."""

    def setUp(self):
        super().setUp()
        openmp_library(self).omp_set_num_threads(3)

    def test_reductions(self):
        with change_flags(openmp=True, openmp_elemwise_minsize=1):
            for shape in ((40000,), (3, 9000), (9000, 3), (130, 140), (40, 30, 20)):
                for dtype in ("float64", "int64"):
                    x = self.array(shape, dtype, values=9)
                    for axis in (None, *range(len(shape)), (0, len(shape) - 1)):
                        for reduce in (T.sum, T.max, T.min):
                            self.compare(lambda x: reduce(x, axis=axis), x)
                        if axis != (0, len(shape) - 1):
                            self.compare(lambda x: T.argmax(x, axis=axis), x)

    def test_elementwise(self):
        product, square = Elemwise(scalar.mul, openmp=True), Elemwise(scalar.sqr, openmp=True)
        with change_flags(openmp_elemwise_minsize=1):
            for shape in ((40000,), (3, 9000), (9000, 3), (40, 30, 20)):
                for layout in LAYOUTS:
                    x, y = self.array(shape, layout=layout), self.array(shape)
                    self.compare(product, x, y)
                    self.compare(square, x)

    def test_elementwise_on_rows_that_a_thread_begins_inside_of(self):
        product = Elemwise(scalar.mul, openmp=True)
        with change_flags(openmp_elemwise_minsize=1):
            for columns in (2, 3, 15, 16, 17, 47, 48, 49):
                for shape in ((7000, columns), (50, 40, columns)):
                    x = self.array((*shape[:-1], 2 * columns + 3))[..., : 2 * columns : 2]
                    y = self.array(shape)
                    self.compare(product, x, y)
                    self.compare(product, y, x[..., ::-1])
                    self.compare(product, np.asfortranarray(y), x)


class TestElementwise(NativeCase):
    def test_one_operand(self):
        for x in self.each(shapes=(*SHAPES, (LONG,))):
            for op in (T.neg, T.sqr, T.abs_, T.cos, lambda x: T.cast(x, "complex64"), lambda x: T.cast(x, "float32")):
                if x.dtype != bool or op not in (T.neg, T.abs_, T.cos):
                    if x.dtype.kind != "c" or op in (T.neg, T.sqr):
                        self.compare(op, x)

    def test_two_operands(self):
        for i, x in enumerate(self.each()):
            y = self.array(x.shape, "float64" if x.dtype.kind in "fc" else "int32", LAYOUTS[i % 3])
            for op in (T.add, T.mul, T.sub, T.eq):
                if x.dtype != bool:
                    self.compare(op, x, y)
            if x.dtype.kind in "iu":
                for op in (T.int_div, T.mod, T.maximum, T.bitwise_xor, T.true_div):
                    self.compare(op, x, np.where(y == 0, 3, y))

    def test_rows_and_columns_beside_matrices(self):
        for x in self.each():
            if x.dtype == bool:
                continue
            for axis in range(x.ndim):
                shape = [n if a == axis else 1 for a, n in enumerate(x.shape)]
                y, pattern = self.array(shape, x.dtype), [n == 1 for n in shape]
                variables = T.TensorType(x.dtype, [False] * x.ndim)(), T.TensorType(x.dtype, pattern)()
                for out in (T.mul(*variables), T.add(variables[1], variables[0])):
                    self.compare_graph(out, dict(zip(variables, (x, y))))

    def test_choice(self):
        for x in self.each(kinds=("float64", "float32", "int32")):
            condition = x > 0
            self.compare(T.switch, condition, x, self.array(x.shape, x.dtype, forms.strided))


class TestOrder(NativeCase):
    def test_sorted(self):
        spans = {
            "int8": (100,),
            "int16": (9, 2**14),
            "int32": (50, 2**30),
            "int64": (7, 2**20, 2**40, 2**62),
            "uint64": (90, 2**62),
        }
        for n in (17, 200, 1025, 5000, 70000):
            for dtype, values in spans.items():
                for span in values:
                    x = self.rng.randint(0 if dtype == "uint64" else -span, span, n).astype(dtype)
                    self.compare(lambda x: sort(x, -1), x)
                    self.compare(lambda x: argsort(x, -1, kind="mergesort"), x) if n < 6000 else None
            for dtype in ("float64", "float32", "float16"):
                x = self.rng.standard_normal(n).astype(dtype)
                for special in ((), (np.nan, np.inf, -np.inf, -0.0, 0.0)):
                    x[: len(special)] = special
                    self.compare(lambda x: sort(x, -1), x)
                    self.compare(lambda x: argsort(x, -1, kind="mergesort"), x) if n < 6000 else None

    def test_lines(self):
        for x in self.each(kinds=("float64", "float32", "int8", "int64")):
            for axis in range(x.ndim):
                self.compare(lambda x: sort(x, axis), x)
                self.compare(lambda x: argsort(x, axis, kind="mergesort"), x)

    def test_long_keys_that_differ_in_few_bits(self):
        """argsort agrees with NumPy for keys that differ only in the highest and the two lowest bits.

        The keys have 20 to 64 bits.
        """
        variable = T.TensorType("uint64", [False])()
        order = argsort(variable, -1, kind="mergesort")
        for n in (700, 7000):
            for bits in range(20, 65):
                x = self.rng.randint(0, 3, n).astype("uint64") + (
                    self.rng.randint(0, 2, n).astype("uint64") << (bits - 1)
                )
                (got,) = run_node(order, {variable: x}, "c")
                np.testing.assert_array_equal(got, np.argsort(x, kind="stable"), err_msg=str((n, bits)))

    def test_complex_numbers_with_nan(self):
        """Complex numbers with NaN are sorted as in NumPy: they come after all other numbers.

        Their order depends first on which part is NaN (imaginary, real, both), then on the part that is not NaN.
        """
        odd = np.array([0.0, -0.0, 1.0, -1.5, 7.0, np.inf, -np.inf, np.nan, -np.nan])
        for dtype in ("complex64", "complex128"):
            variable = T.TensorType(dtype, [False])()
            outs = sort(variable, -1), argsort(variable, -1, kind="mergesort")
            for n in (5, 60, 700, 2100, 7000):
                x = odd[self.rng.randint(0, 9, n)].astype(dtype)
                x.imag = odd[self.rng.randint(0, 9, n)]
                in_order, positions = [run_node(out, {variable: x}, "c")[0] for out in outs]
                np.testing.assert_array_equal(positions, np.argsort(x, kind="stable"))
                for part in ("real", "imag"):
                    np.testing.assert_array_equal(getattr(in_order, part), getattr(np.sort(x), part))

    def test_long_columns(self):
        """`sort` and `argsort` along an axis other than the last one agree in C and in Python.

        The C code gathers columns in groups before it sorts them. The last group is smaller.
        """
        for shape, axis in (((2100, 45), 0), ((3, 1500, 37), 1), ((7000, 17), 0)):
            x = self.array(shape, "int64" if axis else "float64")
            self.compare(lambda x: sort(x, axis), x)
            self.compare(lambda x: argsort(x, axis, kind="mergesort"), x)

    def test_best(self):
        for n in (40, 300, 1500, 9000):
            for dtype in ("float64", "float32", "int32", "uint8", "int64"):
                x = self.rng.permutation(n).astype(dtype)
                for k in (1, 7, 30, 150, 250):
                    for sign in (1, -1):
                        if k <= n:
                            got = np.sort(self.compare_values(x, sign * k))
                            want = np.sort(x)[-k:] if sign > 0 else np.sort(x)[:k]
                            np.testing.assert_array_equal(got, want)

    def compare_values(self, x, k):
        variable = T.TensorType(x.dtype, [False])()
        return run_node(topk(variable, k, sorted=False), {variable: x}, "c")[0]

    def test_counted(self):
        for n in (9, 1025, 20000):
            for most in (5, 3000, 50000):
                x = self.rng.randint(0, most, n)
                self.compare(lambda x: extra_ops.bincount(x), x)
            x = np.sort(self.rng.standard_normal(n))
            self.compare(lambda x, v: extra_ops.searchsorted(x, v), x, self.rng.standard_normal(1500))
            for kind in ("int64", "float64"):
                self.compare(lambda x: extra_ops.Unique(True, True, True)(x), self.rng.randint(0, n, n).astype(kind))

    def test_unique_among_odd_numbers(self):
        """`Unique` handles NaN, infinities and zeros of both signs, in either part of complex numbers."""
        odd = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan])
        for dtype in ("float16", "float32", "float64", "complex64", "complex128"):
            for shape in ((5,), (60,), (9, 3), (20, 2), (3, 2, 4)):
                x = odd[self.rng.randint(0, 7, shape)].astype(dtype)
                if np.dtype(dtype).kind == "c":
                    x.imag = odd[self.rng.randint(0, 7, shape)]
                for axis in (None, *range(len(shape))):
                    self.compare(lambda x: extra_ops.Unique(True, True, True, axis)(x), x)

    def test_differences(self):
        for x in self.each(kinds=("float64", "int32", "float32")):
            for axis in range(x.ndim):
                for n in (1, 2, 5):
                    self.compare(lambda x: extra_ops.DiffOp(n, axis)(x), x)


class TestShapes(NativeCase):
    def test_joined(self):
        for x in self.each():
            for axis in range(x.ndim):
                self.compare(lambda x, y: T.join(axis, x, y), x, self.array(x.shape, x.dtype, forms.strided))

    def test_moved(self):
        for x in self.each():
            self.compare(lambda x: x.reshape((-1,)), x)
            self.compare(lambda x: T.Flatten(1)(x), x)
            self.compare(lambda x: T.tensor_copy(x), x)
            self.compare(lambda x: T.extra_ops.RepeatOp(axis=0)(x, T.constant(3)), x)
            self.compare(lambda x, n: T.extra_ops.RepeatOp(axis=0)(x, n), x, self.rng.randint(0, 4, len(x)))

    def test_tiles(self):
        for x, reps in (
            (np.array(2.5), []),
            (self.array((3,)), [2]),
            (self.array((3, 70)), [2, 0]),
            (self.array((2, 5)), [3, 1, 40]),
        ):
            self.compare(T.Tile(len(reps)), x, np.array(reps, "int64"))

    def test_parts_of_larger_arrays(self):
        """Writing arrays of any layout into a part of a larger array does not change its other elements."""
        for dtype in ("int8", "int16", "float32", "float64", "complex128"):
            for n, m in ((1, 5), (4, 4), (7, 9), (8, 33), (17, 16), (33, 40)):
                x, y = T.matrix(dtype=dtype), T.matrix(dtype=dtype)
                node = sub.set_subtensor(x[3 : 3 + n, 2 : 2 + m], y).owner
                out = sub.IncSubtensor(node.op.idx_list, inplace=True, set_instead_of_inc=True)(*node.inputs)
                for layout in LAYOUTS:
                    values, target = self.array((n, m), dtype, layout), np.zeros((n + 9, m + 9), dtype)
                    want = target.copy()
                    want[3 : 3 + n, 2 : 2 + m] = values
                    run_node(out, {x: target, y: values}, "c")
                    np.testing.assert_array_equal(target, want)

    def test_summed_to_a_shape(self):
        for x in self.each(kinds=("float64", "float32", "int64", "float16", "complex128"), layouts=LAYOUTS[:2]):
            for kept in range(2**x.ndim):
                sizes = [np.array(n if kept >> axis & 1 else 1) for axis, n in enumerate(x.shape)]
                self.compare(lambda x, *sizes: sum_to_shape(x, *sizes), x, *sizes)

    def test_made(self):
        for n in LENGTHS:
            self.compare(lambda a, b, c: T.arange(a, b, c), np.array(3), np.array(3 + 2 * n), np.array(2))
            self.compare(lambda a, b, c: T.arange(a, b, c), np.array(0.5), np.array(0.5 + n / 4), np.array(0.25))
            self.compare(lambda a, n: alloc(a, n, T.constant(3)), np.array(1.5), np.array(n))
            self.compare(lambda x, n: alloc(x, n, T.constant(17)), self.array(17), np.array(n))

    def test_ranges_that_wrap_around(self):
        """If the third element of a range overflows the dtype, it equals the element of NumPy's range."""
        for dtype in ("int8", "uint8", "int16", "int32", "int64"):
            step = np.iinfo(dtype).max // 10 * 6
            for n in (2, 3):
                bounds = [np.array(v, "int64") for v in (0, min(n * step, 2**63 - 1), step)]
                self.compare(T.ARange(dtype), *bounds)

    def test_diagonals(self):
        for shape in ((70, 70), (1030, 3), (3, 1030)):
            x = self.array(shape)
            self.compare(lambda x: T.ExtractDiag(0, 0, 1)(x), x)
            self.compare(lambda x, a: extra_ops.fill_diagonal(x, a), x, np.array(2.5))


class TestProducts(NativeCase):
    def test_matrices(self):
        for m, k, n in ((1, 70, 9), (9, 1, 70), (65, 33, 17), (8, 8, 8), (9, 7, 130)):
            for dtype in ("float64", "float32", "complex128", "int32"):
                for layout in LAYOUTS:
                    self.compare(T.dot, self.array((m, k), dtype, layout), self.array((k, n), dtype))
                    self.compare(T.dot, self.array((m, k), dtype), self.array((k, n), dtype, layout))

    def test_vectors(self):
        for n in LENGTHS:
            for layout in LAYOUTS:
                self.compare(T.dot, self.array(n, layout=layout), self.array(n))
                self.compare(T.dot, self.array((n, 7), layout=layout), self.array(7))
                self.compare(T.dot, self.array((7, n), "float32", layout), self.array(n, "float32"))

    def test_solved(self):
        for n in (1, 3, 4, 5, 17, 33, 65, 70):
            a = self.array((n, n), values=9) + 12 * np.sqrt(n) * np.eye(n)
            for dtype in ("float64", "float32"):
                square, right = a.astype(dtype), self.array((n, 5), dtype)
                spd = np.dot(square, square.T)
                self.compare(nlinalg.matrix_inverse, square)
                self.compare(nlinalg.det, square / dtype_scale(n, dtype))
                self.compare(slinalg.cholesky, spd)
                for layout in LAYOUTS[:2]:
                    self.compare(slinalg.solve, layout(square), right)
                    self.compare(slinalg.solve, layout(square), right[:, 0])
                self.compare(slinalg.solve, spd, right)
                for lower in (True, False):
                    solve = slinalg.Solve("lower_triangular" if lower else "upper_triangular")
                    self.compare(solve, np.tril(square) if lower else np.triu(square), right)
                self.compare(nlinalg.trace, square)

    def test_complex_diagonals(self):
        """Solve accepts a diagonal element whose real or imaginary part is zero.

        A triangular matrix is singular only if both parts of a diagonal element are zero.
        """
        for dtype in ("complex64", "complex128"):
            for structure in ("lower_triangular", "upper_triangular", "general"):
                solve = slinalg.Solve(structure)
                for number in (1, 1j, -2j, 0.5 - 1j):
                    matrix = (self.array((4, 4), dtype) * (1 - np.eye(4)) + np.diag([2, number, 3j, 1])).astype(dtype)
                    self.compare(solve, matrix, self.array((4, 2), dtype))
                if structure != "general":
                    matrix[1, 1] = 0
                    self.assert_refused(np.linalg.LinAlgError, "", solve, matrix, self.array((4, 2), dtype))

    def test_complex_symmetric_systems(self):
        """`Solve("symmetric")` solves systems with complex symmetric matrices that are not Hermitian.

        The diagonals of the tested matrices have positive real parts, with and without an imaginary part.
        """
        solve = slinalg.Solve("symmetric")
        for n in (1, 2, 3, 5, 20):
            for dtype in ("complex64", "complex128"):
                square = self.array((n, n), dtype, values=9)
                for diagonal in (12 * n, 12 * n + 2j, 12 * n - 3j):
                    a = (square + square.T + diagonal * np.eye(n)).astype(dtype)
                    self.compare(solve, a, self.array((n, 2), dtype))

    def test_factors_with_nan(self):
        """A matrix with NaN anywhere in the triangle that is read is not positive definite."""
        for n in (1, 2, 3, 9, 20, 40):
            for dtype in ("float32", "float64", "complex64", "complex128"):
                matrix = T.matrix(dtype=dtype)
                strict, gives_nan = slinalg.Cholesky(), slinalg.Cholesky(on_error="nan")
                for i, j in {(0, 0), (n - 1, n - 1), (n // 2, n // 2), (n - 1, 0), (n // 2, n // 4)}:
                    a = (3 * np.eye(n)).astype(dtype)
                    a[i, j] = np.nan
                    with self.assertRaises(np.linalg.LinAlgError):
                        run_node(strict(matrix), {matrix: a}, "c")
                    self.assertTrue(np.isnan(run_node(gives_nan(matrix), {matrix: a}, "c")[0]).all())

    def test_symmetry_is_looked_at(self):
        """If one element of its matrix breaks the symmetry, `Solve("symmetric")` solves the general system."""
        solve = slinalg.Solve("symmetric")
        for n, dtype in ((2, "float64"), (17, "float32"), (35, "float64")):
            square = self.array((n, n), dtype, values=9)
            square += square.T + 12 * np.sqrt(n).astype(dtype) * np.eye(n, dtype=dtype)
            right = self.array((n,), dtype)
            matrix, vector = T.matrix(dtype=dtype), T.vector(dtype=dtype)
            out = solve(matrix, vector)
            for i, j in zip(*np.nonzero(~np.eye(n, dtype=bool))):
                a = square.copy()
                a[i, j] += 16
                (got,) = run_node(out, {matrix: a, vector: right}, "c")
                np.testing.assert_allclose(got, np.linalg.solve(a, right), 1e-3 if dtype == "float32" else 1e-9, 1e-6)


def dtype_scale(n, dtype):
    """Return a factor that keeps determinants within the range of a dtype."""
    return np.asarray(12 * np.sqrt(n), dtype)


class TestImages(NativeCase):
    def test_pooled(self):
        for height, width in ((5, 33), (17, 70)):
            for mode in ("max", "sum", "average_inc_pad", "average_exc_pad"):
                for window, stride, padding in (
                    ((2, 2), (2, 2), (0, 0)),
                    ((3, 2), (1, 3), (1, 1)),
                    ((2, 5), (2, 1), (0, 2)),
                ):
                    for dtype in ("float64", "float32"):
                        x = self.array((2, 3, height, width), dtype)
                        make = pool.Pool(ignore_border=True, mode=mode, ndim=2)
                        self.compare(lambda x: make(x, window, stride, padding), x)

    def test_windows_of_all_sizes(self):
        """Pooling agrees in C and in Python for lines shorter than, as long as, and longer than a register.

        Many pixels equal the maximum of their window.
        """
        for _ in range(80):
            windows = self.rng.randint(1, 5, 2)
            numbers = windows, self.rng.randint(1, 4, 2), self.rng.randint(0, windows)
            shape = (
                self.rng.randint(1, 3),
                self.rng.randint(4, 8),
                self.rng.randint(4, (9, 20, 40)[self.rng.randint(3)]),
            )
            dtype = ("float64", "float32")[self.rng.randint(2)]
            self.check_pooled(
                shape, dtype, ignore_border=bool(numbers[2].any() or self.rng.randint(2)), numbers=numbers
            )

    def test_windows_over_several_strides(self):
        """Pooling agrees in C and in Python if windows span several strides and reach beyond the image.

        Some gradients of the output are zero.
        """
        for i in range(40):
            stride = self.rng.randint(1, 5, 2)
            windows = stride * self.rng.randint(1, 7, 2) + self.rng.randint(0, stride)
            padding = self.rng.randint(0, windows)
            border = bool(padding.any() or self.rng.randint(2))
            if i % 5 == 0:  # more windows than the buffer of column sums holds at once
                windows[1] += 17 * stride[1]
            shape = self.rng.randint(1, 4), *(np.maximum(windows - 2 * padding, 1) + self.rng.randint(0, 14, 2))
            dtype = ("float64", "float32")[i % 2]
            self.check_pooled(shape, dtype, border, (windows, stride, padding))
            if i % 5 == 0:
                x = self.array(shape, dtype)
                out = pool.Pool(border)(T.constant(x), windows, stride, padding)
                nothing = np.zeros_like(run_node(out, {}, "py")[0])
                for mode in pool.AveragePoolGrad.modes:
                    op = pool.AveragePoolGrad(border, mode)
                    self.compare(lambda x, g: op(x, g, windows, stride, padding), x, nothing)

    def test_windows_that_reach_far_beyond_the_image(self):
        for window, stride, padding in ((240, 15, 112), (160, 10, 75), (60, 6, 27), (48, 3, 22), (21, 4, 20)):
            for dtype in ("float32", "float64"):
                shape = 2, 3, padding + self.rng.randint(1, 9)
                self.check_pooled(shape, dtype, True, ((2, window), (1, stride), (0, padding)))

    def check_pooled(self, shape, dtype, ignore_border, numbers):
        x, direction = self.array(shape, dtype, values=9), self.array(shape, dtype)
        v = T.tensor3(dtype=dtype)
        best = run_node(pool.Pool(ignore_border)(v, *numbers), {v: x}, "py")[0]
        best[..., ::3] -= 0.25  # the gradient may also be requested for a value that is not the maximum
        gradient = self.array(best.shape, dtype)
        for op, *arrays in (
            (pool.Pool(ignore_border), x),
            (pool.MaxPoolGrad(ignore_border), x, best, gradient),
            (pool.DownsampleFactorMaxGradGrad(ignore_border), x, best, direction),
            (pool.MaxPoolRop(ignore_border), x, direction),
        ):
            self.compare(lambda *arrays, op=op: op(*arrays, *numbers), *arrays)
        mode = pool.AveragePoolGrad.modes[self.rng.randint(3)]
        self.compare(lambda x: pool.Pool(ignore_border, mode)(x, *numbers), x)
        self.compare(lambda x, g: pool.AveragePoolGrad(ignore_border, mode)(x, g, *numbers), x, gradient)

    def test_neighbours(self):
        for mode, shape in (
            ("valid", (2, 3, 8, 70)),
            ("ignore_borders", (2, 3, 9, 71)),
            ("wrap_centered", (2, 2, 9, 71)),
        ):
            op, size = neighbours.Images2Neibs(mode), (3, 5) if mode == "wrap_centered" else (2, 5)
            self.compare(
                lambda x: op(x, T.constant(size), T.constant((2, 5) if mode == "valid" else (1, 2))), self.array(shape)
            )

    def test_normalised(self):
        for shape in ((3, 1300), (130, 17), (40, 33, 5), (3, 70, 4, 5)):
            for axes in ("per-activation", "spatial"):
                for dtype in ("float64", "float32"):
                    for layout in LAYOUTS[:3]:
                        self.check_normalised(self.array(shape, dtype, layout, 30), axes)

    def check_normalised(self, x, axes):
        reduced = (0,) if axes == "per-activation" else (0, *range(2, x.ndim))
        one = T.TensorType(x.dtype, [axis in reduced for axis in range(x.ndim)])
        shape = [1 if axis in reduced else n for axis, n in enumerate(x.shape)]
        inputs = T.TensorType(x.dtype, [False] * x.ndim)("x"), one("gamma"), one("beta")
        values = dict(zip(inputs, (x, self.array(shape, x.dtype), self.array(shape, x.dtype))))
        epsilon = T.constant(np.array(1e-3, x.dtype))
        out = bn_ops.BatchNormTrain(axes=reduced)(*inputs, epsilon)
        self.compare_graph(out[0], values)
        dy = inputs[0].type("dy")
        grads = bn_ops.BatchNormTrainGrad(axes=reduced)(inputs[0], dy, inputs[1], out[1], out[2], epsilon)
        self.compare_graph(grads[0], {**values, dy: self.array(x.shape, x.dtype)})

    def test_softmax(self):
        for shape in ((3, 1300), (47, 65), (130, 17), (520, 9), (5, 23)):
            for dtype in ("float64", "float32"):
                for layout in LAYOUTS:
                    x, y = self.array(shape, dtype, layout, 40), self.array(shape, dtype, layout, 40)
                    self.compare(softmax_op, x)
                    self.compare(logsoftmax_op, x)
                    self.compare(softmax_grad, x, y)
                    self.compare(softmax_with_bias, x, y[0])

    def test_labels(self):
        """Cross-entropies agree in C and in Python for rows that are processed in groups and singly.

        A label out of range in any row is an error.
        """
        ops = [
            lambda x, b, y: crossentropy.crossentropy_softmax_argmax_1hot_with_bias(x, b, y)[0],
            lambda x, b, y: crossentropy.crossentropy_softmax_1hot_with_bias_dx(
                T.fill(x[:, 0], b[0]), T.abs_(x) + 1, y
            ),
            lambda x, b, y: crossentropy.crossentropy_categorical_1hot(T.abs_(x) + 1, y),
            lambda x, b, y: crossentropy.crossentropy_categorical_1hot_grad(x[:, 0], T.abs_(x) + 1, y),
        ]
        for rows, n in ((1, 1), (63, 2), (64, 24), (65, 25), (130, 7), (129, 40), (3, 300)):
            for dtype in ("float64", "float32"):
                x, b = self.array((rows, n), dtype, LAYOUTS[rows % 4], 40), self.array((n,), dtype)
                for kind in ("int64", "int8", "uint16"):
                    labels = self.rng.randint(0, min(n, 100), rows).astype(kind)
                    for op in ops:
                        self.compare(op, x, b, labels)
                        for k in {0, rows // 2, rows - 1}:
                            for wrong in (n, -1) if kind == "int64" else ():
                                bad = labels.copy()
                                bad[k] = wrong
                                self.assert_refused(ValueError, "label|y_i", op, x, b, bad)


class TestConvolutions(NativeCase):
    """Convolutions with more channels, filters and pixels than one block processes."""

    SIZES = (
        ((2, 200, 5, 6), (3, 200, 2, 3)),
        ((1, 3, 6, 70), (260, 3, 2, 2)),
        ((9, 2, 9, 8), (4, 2, 3, 3)),
        ((2, 5, 33, 7), (17, 5, 1, 1)),
    )
    BORDERS = ("valid", "half", "full", (1, 2))

    def ops(self, i):
        """Return the Ops (forward, weights, inputs) with the i-th settings of a cycle."""
        strides, dilation = ((1, 1), (2, 1), (2, 3))[i % 3], ((1, 1), (1, 2))[i // 2 % 2]
        given = {"border_mode": self.BORDERS[i % 4], "subsample": strides, "filter_dilation": dilation}
        return convmm.CorrMM(**given), convmm.CorrMM_gradWeights(**given), convmm.CorrMM_gradInputs(**given)

    def test_all_directions(self):
        for k, (image, kernel) in enumerate(self.SIZES):
            for i in range(6):
                dtype = ("float32", "float64")[i % 2]
                images = self.array(image, dtype, LAYOUTS[i % 4])
                kernels = self.array(kernel, dtype, LAYOUTS[(i + k) % 4])
                self.check_directions(images, kernels, self.ops(i + k))

    def check_directions(self, images, kernels, ops):
        forward, weights, inputs = ops
        variables = [T.TensorType(images.dtype, [False] * 4)() for _ in range(2)]
        try:
            top = self.results(forward(*variables), dict(zip(variables, (images, kernels))), "py")[0]
        except ValueError:
            return  # the kernels are larger than the padded image
        self.compare(forward, images, kernels)
        self.compare(lambda x, y: weights(x, y, T.constant(kernels.shape[2:])), images, top)
        self.compare(lambda k, y: inputs(k, y, T.constant(images.shape[2:])), kernels, top)

    def test_kernels_that_do_not_fit(self):
        for size in (3, 4, 5, 6, 7):
            for stride in (1, 2, 3):
                x, k = (T.dtensor4() for _ in range(2))
                out = convmm.CorrMM(subsample=(stride, stride))(x, k)
                values = {x: self.array((1, 2, 4, 9)), k: self.array((1, 2, size, 3))}
                self.assertEqual(*[self.shape_or_error(out, values, impl) for impl in ("c", "py")])

    def shape_or_error(self, out, values, impl):
        try:
            return self.results(out, dict(values), impl)[0].shape
        except ValueError as error:
            return type(error)


class TestSparse(NativeCase):
    def parts(self, rows, columns, share, dtype, compressed):
        dense = self.array((rows, columns), dtype) * (self.rng.rand(rows, columns) < share)
        matrix = getattr(scipy.sparse, compressed + "_matrix")(dense.astype(dtype))
        return matrix.data, matrix.indices, matrix.indptr

    def test_products(self):
        for rows, columns, wide in ((5, 300, 1), (300, 5, 17), (70, 130, 33), (130, 70, 600)):
            for dtype in ("float64", "float32"):
                for layout in LAYOUTS:
                    right = self.array((columns, wide), dtype, layout)
                    self.compare(fields.sd_csr, *self.parts(rows, columns, 0.2, dtype, "csr"), right)
                    values, indices, starts = self.parts(rows, columns, 0.2, dtype, "csc")
                    self.compare(fields.sd_csc, values, indices, starts, np.array(rows), right)

    def test_a_sum_over_what_is_read(self):
        """The in-place sum with a sparse product is right if the overwritten array overlaps the dense factor."""
        op, parts = fields.usmm_csc_dense_inplace, self.parts(6, 5, 0.6, "float64", "csc")
        for first, step, shift in itertools.product(range(0, 9, 2), (1, -1), range(0, 9, 2)):
            memory = self.array((20, 3))
            y, z = memory[shift : shift + 10 : 2], memory[first : first + 6][::step]
            values = [np.array([[0.5]]), *parts, np.array(6), y, z]
            dense = scipy.sparse.csc_matrix(parts, (6, 5)).toarray()
            want = 0.5 * np.dot(dense, y) + z
            types = [T.TensorType(v.dtype, [n == 1 for n in v.shape])() for v in values]
            (got,) = run_node(op(*types), dict(zip(types, values)), "c")
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)

    def test_elements(self):
        for rows, columns in ((5, 300), (300, 5), (70, 130)):
            for dtype in ("float64", "float32"):
                for layout in LAYOUTS[:3]:
                    dense = self.array((rows, columns), dtype, layout)
                    self.compare(fields.mul_s_d_csr, *self.parts(rows, columns, 0.2, dtype, "csr"), dense)
                    self.compare(fields.mul_s_d_csc, *self.parts(rows, columns, 0.2, dtype, "csc"), dense)
                    parts = self.parts(rows, columns, 0.2, dtype, "csr")
                    self.compare(fields.mul_s_v_csr, *parts, dense[0])
                    self.compare(fields.structured_add_s_v_csr, *parts, dense[0])


class TestDrawn(NativeCase):
    def test_categories(self):
        for columns in (1, 3, 17, 1100):
            for dtype in ("float64", "float32"):
                chances = self.rng.rand(7, columns).astype(dtype) + np.array(0.01, dtype)
                chances /= chances.sum(axis=1, keepdims=True)
                for n in (1, 5, 90):
                    numbers = self.rng.rand(7 * n).astype(dtype)
                    self.compare(MultinomialFromUniform("int64"), chances, numbers, np.array(n))
                    for replace in (True, False):
                        if replace or n <= columns:
                            self.compare(ChoiceFromUniform("int64", replace), chances, numbers, np.array(n))

    def test_numbers_at_the_ends_of_intervals(self):
        """C and Python code draw the same sample if a uniform number equals a cumulative probability.

        Cumulative probabilities are rounded to the dtype of the probabilities, whatever the dtype of the uniform
        numbers.
        """
        chances = self.rng.rand(9, 300).astype("float32") + np.float32(0.01)
        chances /= chances.sum(axis=1, keepdims=True)
        ends = np.cumsum(chances, axis=1, dtype="float32")[:, ::20].T
        for dtype in ("float32", "float64"):
            for kind in ("float32", "float64"):
                numbers = np.minimum(ends, np.nextafter(np.float32(1), np.float32(0))).ravel().astype(kind)
                for op in (MultinomialFromUniform("int64"), ChoiceFromUniform("int64", True)):
                    self.compare(op, chances.astype(dtype), numbers, np.array(len(ends)))

    def test_uniform(self):
        state = np.arange(1, 6 * 90 + 1, dtype="int32").reshape(90, 6)
        for streams in (1, 7, 90):
            for shape in ((5,), (1025,), (40, 70), (3000,)):
                for dtype in ("float64", "float32", "float16"):
                    draw = rng_mrg.mrg_uniform(T.TensorType(dtype, [False] * len(shape)))
                    self.compare(lambda state, size: draw(state, size)[1], state[:streams], np.array(shape))


if __name__ == "__main__":
    unittest.main()
