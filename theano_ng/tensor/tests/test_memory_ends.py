"""Native Ops access no memory outside their arguments and results.

Each array begins or ends next to a protected page. An access to this page crashes the process.
"""

import ctypes
import mmap
import sys
import unittest

import numpy as np
import scipy.sparse

import theano_ng.tensor as T
from theano_ng.sparse import fields
from theano_ng.tensor import extra_ops, nlinalg, slinalg
from theano_ng.tensor import subtensor as sub
from theano_ng.tensor.indexing.selecting import Choose, Nonzero
from theano_ng.tensor.nnet import neighbours
from theano_ng.tensor.nnet.softmax import logsoftmax_op, softmax_op, softmax_with_bias
from theano_ng.tensor.shaping.joining import Join
from theano_ng.tensor.signal import pool
from theano_ng.tensor.sort import argsort, sort
from theano_ng.tensor.tests.single_node import run_node

PAGE = mmap.PAGESIZE


def placed(a, at_end):
    """Return a copy of an array at the end or at the start of separate pages, between two protected pages."""
    a = np.asarray(a)
    pages = max(-(-a.nbytes // PAGE), 1)
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for page in (0, pages + 1):
        if protect(ctypes.c_void_p(address + page * PAGE), ctypes.c_size_t(PAGE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = (pages + 1) * PAGE - a.nbytes if at_end else PAGE
    copy = np.frombuffer(memory, a.dtype, a.size, offset).reshape(a.shape)
    copy[...] = a
    return copy


def run_with(variable, values, previous):
    """Run the node of a variable in C, and return its outputs.

    The node may overwrite the outputs `previous` of an earlier call.
    """
    node = variable.owner
    storage = {v: [getattr(v, "data", None)] for v in node.inputs}
    storage.update({v: [value] for v, value in values.items()})
    storage.update({v: [value] for v, value in zip(node.outputs, previous)})
    node.op.make_thunk(node, storage, {v: [v not in node.outputs] for v in storage}, [], impl="c")()
    return [storage[v][0] for v in node.outputs]


@unittest.skipUnless(sys.platform.startswith("linux"), "protects pages as Linux does")
class TestMemoryEnds(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.RandomState(12)

    def check(self, make, *arrays):
        variables = [T.TensorType(a.dtype, [False] * a.ndim)() for a in arrays]
        out = make(*variables)
        out = out[0] if isinstance(out, (list, tuple)) else out
        want = run_node(out, dict(zip(variables, arrays)), "py")
        for at_end in (True, False):
            given = [placed(a, at_end) for a in arrays]
            previous = [placed(np.zeros_like(w), at_end) for w in want]
            for got, w in zip(run_with(out, dict(zip(variables, given)), previous), want):
                np.testing.assert_allclose(got, w, rtol=1e-5, atol=1e-5, err_msg=str(out.owner))
            for a, b in zip(arrays, given):
                np.testing.assert_array_equal(a, b)

    def numbers(self, *shape, dtype="float64"):
        return (self.rng.randint(-40, 40, shape) / 4).astype(dtype)

    def test_arrays_are_between_such_pages(self):
        for at_end in (True, False):
            a = placed(np.arange(5.0), at_end)
            np.testing.assert_array_equal(a, np.arange(5.0))
            start = a.ctypes.data
            self.assertEqual((start + a.nbytes if at_end else start) % PAGE, 0)
            self.assertTrue(a.flags.writeable and a.flags.aligned)

    def test_indexing(self):
        for n in (3, 17, 40, 1030):
            for dtype in ("int8", "float32", "float64", "complex128"):
                x = self.numbers(n, dtype=dtype)
                for kind in ("int64", "int32", "int8"):
                    i = self.rng.randint(-min(n, 100), min(n, 100), n).astype(kind)
                    self.check(sub.advanced_subtensor1, x, i)
                    self.check(sub.advanced_inc_subtensor1, x, self.numbers(n, dtype=dtype), i)
                    self.check(sub.advanced_set_subtensor1, x, self.numbers(1, dtype=dtype)[:1].reshape(()), i)
                for share in (0.1, 0.7, 1.0):
                    m = self.rng.rand(n) < share
                    self.check(lambda x, m: x[m], x, m)
                    y = self.numbers(m.sum(), dtype=dtype)
                    self.check(lambda x, m, y: sub.set_subtensor(x[m], y), x, m, y)
                    self.check(lambda x, m, y: sub.inc_subtensor(x[m], y), x, m, y)
            for width in (1, 3, 9, 33):
                rows, i = self.numbers(7, width), self.rng.randint(-7, 7, n)
                self.check(sub.advanced_subtensor1, rows, i)
                self.check(sub.advanced_inc_subtensor1, rows, self.numbers(n, width), i)
                self.check(lambda x, i, j: x[i, j], rows, i, i % width)

    def test_places_of_many_dimensions(self):
        for n in (1, 5, 1023, 1024, 1025, 2048):
            for mode in ("raise", "wrap", "clip"):
                i, j = (self.rng.randint(0 if mode == "raise" else -9, k if mode == "raise" else 20, n) for k in (5, 7))
                self.check(lambda i, j: extra_ops.ravel_multi_index((i, j), (5, 7), mode), i, j)
            self.check(lambda i: extra_ops.unravel_index(i, (5, 7)), self.rng.randint(0, 35, n))

    def test_lengths(self):
        for dtype in ("int64", "int32", "uint8", "uint64"):
            x = self.numbers(12)
            self.check(lambda x, s: T.reshape(x, s, ndim=2), x, np.array([3, 4], dtype))
            self.check(lambda x, s: T.reshape(x, s, ndim=1), self.numbers(3, 4), np.array([12], dtype))
            sizes = np.array([5, 0, 7], dtype)
            self.check(lambda x, s: T.split(x, s, 3), x, sizes)

    def test_ranges(self):
        for n in (1, 2, 3, 8, 17, 100, 1030):
            for dtype in ("float16", "float32", "float64", "int8", "int32", "int64", "uint16"):
                stop = n if n < 100 or dtype in ("float32", "float64", "int32", "int64") else 100
                numbers = [np.array(v, dtype) for v in (0, stop, 1)]
                self.check(lambda *v: T.ARange(dtype)(*v), *numbers)

    def test_elementwise(self):
        for shape in ((1,), (17,), (1030,), (3, 70), (60, 5), (3, 5, 9)):
            for dtype in ("float32", "float64", "int8", "int32"):
                x, y = self.numbers(*shape, dtype=dtype), self.numbers(*shape, dtype=dtype)
                self.check(T.add, x, y)
                three = T.constant(np.full((1,) * x.ndim, 3, dtype))
                self.check(lambda x: T.mul(x, three), x)
                self.check(T.exp, x / 8 if dtype[0] == "f" else x % 3)
                self.check(lambda x: T.cast(x, "float64" if dtype != "float64" else "int16"), x)

    def test_reductions(self):
        for shape in ((1,), (17,), (1030,), (3, 70), (60, 5), (3, 5, 9)):
            for dtype in ("float32", "float64", "int8"):
                x = self.numbers(*shape, dtype=dtype)
                for axis in (None, *range(len(shape))):
                    self.check(lambda x: T.sum(x, axis), x)
                    self.check(lambda x: T.max(x, axis), x)
                    self.check(lambda x: T.argmax(x, axis), x) if axis is not None else None

    def test_order_and_totals(self):
        shapes = ((3,), 0), ((17,), 0), ((200,), 0), ((1500,), 0), ((9, 40), 1), ((40, 9), 0), ((900, 45), 0)
        for shape, axis in shapes:
            for dtype in ("float64", "int16", "uint8", "int64"):
                x = self.numbers(*shape, dtype=dtype)
                self.check(lambda x: sort(x, axis), x)
                self.check(lambda x: argsort(x, axis, kind="mergesort"), x)
                self.check(lambda x: extra_ops.cumsum(x, axis), x)
                for n in (1, 2, 3):
                    self.check(lambda x: extra_ops.DiffOp(n, axis)(x), x)
        self.check(lambda x: extra_ops.bincount(x), self.rng.randint(0, 50, 300))
        self.check(lambda x, v: extra_ops.searchsorted(x, v), np.arange(40.0), self.numbers(70))

    def test_shapes(self):
        for shape in ((3, 5), (1, 9), (40, 3), (33, 65)):
            for dtype in ("int8", "float32", "float64"):
                x, y = self.numbers(*shape, dtype=dtype), self.numbers(*shape, dtype=dtype)
                for axis in (0, 1):
                    self.check(lambda x, y: Join()(axis, x, y), x, y)
                self.check(lambda x: extra_ops.fill_diagonal(x, T.constant(2, dtype=dtype)), x)
                for offset in (-50, -2, 0, 1, 4, 70):
                    value = T.constant(3, dtype=dtype)
                    self.check(lambda x: extra_ops.fill_diagonal_offset(x, value, T.constant(offset)), x)

    def test_matrices(self):
        for n in (1, 3, 9, 33):
            for dtype in ("float32", "float64"):
                a = self.numbers(n, n, dtype=dtype) + 40 * n * np.eye(n, dtype=dtype)
                b = self.numbers(n, 5, dtype=dtype)
                self.check(T.dot, a, b)
                self.check(T.dot, a, b[:, 0].copy())
                self.check(slinalg.solve, a, b)
                self.check(nlinalg.matrix_inverse, a)
                self.check(slinalg.cholesky, (a + a.T) / 2)
                for lower in (True, False):
                    self.check(slinalg.Cholesky(lower=lower, on_error="nan"), -a)

    def test_rows_and_images(self):
        for shape in ((1, 1), (3, 7), (5, 33), (30, 70)):
            for dtype in ("float32", "float64"):
                x = self.numbers(*shape, dtype=dtype)
                self.check(softmax_op, x)
                self.check(logsoftmax_op, x)
                self.check(softmax_with_bias, x, self.numbers(shape[1], dtype=dtype))
        for shape in ((2, 4, 4), (1, 9, 33), (2, 6, 18)):
            for dtype in ("float32", "float64"):
                x = self.numbers(*shape, dtype=dtype)
                for numbers in (
                    ((2, 2), (2, 2), (0, 0)),
                    ((3, 3), (2, 2), (1, 1)),
                    ((2, 3), (1, 1), (0, 0)),
                    ((4, 4), (1, 1), (1, 1)),
                    ((4, 3), (4, 1), (0, 0)),
                ):
                    for mode in ("max", "sum", "average_exc_pad"):
                        self.check(lambda x: pool.Pool(True, mode)(x, *numbers), x)
                    best = run_node(pool.Pool(True)(T.constant(x), *numbers), {}, "py")[0]
                    self.check(lambda x, z, g: pool.MaxPoolGrad(True)(x, z, g, *numbers), x, best, best)
                    self.check(lambda x, g: pool.AveragePoolGrad(True)(x, g, *numbers), x, best)
        images = self.numbers(2, 2, 6, 8)
        self.check(lambda x: neighbours.images2neibs(x, (2, 4)), images)

    def test_selected(self):
        """`Nonzero` and `Choose` access no memory outside of their arrays, for all dtypes."""
        for n in (1, 7, 8, 9, 16, 40, 1024, 1032):
            for share in (0.0, 0.1, 0.6, 1.0):
                m = self.rng.rand(n) < share
                for dtype in ("bool", "int8", "uint8", "int16", "float64", "complex64"):
                    self.check(Nonzero(), m.astype(dtype))
                self.check(Nonzero(), np.stack([m, ~m]))
            for dtype in ("int8", "int32", "uint8", "int64"):
                number = self.rng.randint(0, 3, n).astype(dtype)
                for kind in ("int8", "float32", "float64", "complex128"):
                    choices = self.numbers(3, n, dtype=kind)
                    self.check(Choose("raise"), number, choices)
                    self.check(lambda a, *c: Choose("wrap")(a, list(c)), number, *choices)

    def test_sparse(self):
        """Products of sparse and dense matrices access no memory outside of their arrays.

        The sparse matrices have few or many entries. The dense rows have any length.
        """
        for entries, rows, columns in ((1, 3, 4), (7, 5, 9), (9, 40, 3), (60, 12, 12)):
            places = self.rng.permutation(rows * columns)[:entries]
            for width in (1, 2, 7, 8, 17, 40):
                for dtype in ("float32", "float64", "int32"):
                    dense = np.zeros(rows * columns, dtype)
                    dense[places] = self.rng.randint(1, 9, entries)
                    dense = dense.reshape(rows, columns)
                    by_row, by_column = scipy.sparse.csr_matrix(dense), scipy.sparse.csc_matrix(dense)
                    of_rows, of_columns = [(x.data, x.indices, x.indptr) for x in (by_row, by_column)]
                    y, z = self.numbers(columns, width, dtype=dtype), self.numbers(rows, width, dtype=dtype)
                    self.check(fields.sd_csr, *of_rows, y)
                    self.check(fields.sd_csc, *of_columns, np.array(rows), y)
                    two = T.constant(np.full((1, 1), 2, dtype))
                    length = T.constant(rows)
                    self.check(lambda *v: fields.usmm_csc_dense(two, *v[:3], length, *v[3:]), *of_columns, y, z)
                    a, b = self.numbers(rows, width, dtype=dtype), self.numbers(columns, width, dtype=dtype)
                    across = T.constant(columns)
                    self.check(lambda *v: fields.sampling_dot_csr(*v, across), a, b, *of_rows)


if __name__ == "__main__":
    unittest.main()
