"""Native Ops that copy arrays with another memory order, and that repeat parts of arrays."""

import itertools
import os
import unittest

import numpy as np

import theano_ng.tensor as T
from theano_ng.compile.ops import deep_copy_op
from theano_ng.gof.native import make_native_thunk
from theano_ng.tensor import extra_ops
from theano_ng.tensor import subtensor as sub
from theano_ng.tensor.shaping.allocation import alloc
from theano_ng.tensor.shaping.joining import Join, PermuteRowElements, Tile
from theano_ng.tensor.tests.single_node import run_node

DTYPES = ("uint8", "int16", "int32", "float32", "int64", "complex64", "complex128")


class CopyCase(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.RandomState(31)

    def array(self, shape, dtype):
        """Return an array of random bytes that contains no NaN, so that comparisons check all bytes."""
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        # Avoid bytes that could form a NaN, because NaN has many bit patterns.
        return self.rng.randint(1, 60, count).astype("uint8").view(dtype).reshape(shape)

    def check(self, make, want, *values):
        variables = [T.TensorType(v.dtype, (False,) * v.ndim)() for v in values]
        (got,) = run_node(make(*variables), dict(zip(variables, values)), "c")
        self.assertEqual((got.dtype, got.shape), (want.dtype, want.shape))
        np.testing.assert_array_equal(got, want)


class TestTransposed(CopyCase):
    """Copies are right for arrays with whole and partial tiles of 8 x 8 elements, and bands of 128 or 512 columns."""

    SHAPES = ((8, 8), (8, 9), (9, 8), (7, 24), (24, 16), (17, 33), (8, 136), (136, 8), (130, 11), (520, 24), (24, 520))

    def check_copies(self, x):
        want = np.array(x, order="C")
        self.check(extra_ops.cpu_contiguous, want, x)
        self.check(deep_copy_op, want, x)
        self.check(lambda x, y: Join()(0, x, y), np.concatenate([want, want]), x, want)
        changed = want.copy()
        changed[:1] = changed[-1:]
        self.check(lambda x, y: sub.set_subtensor(x[:1], y), changed, x, want[-1:])

    def test_matrices(self):
        for dtype, shape in itertools.product(DTYPES, self.SHAPES):
            x = self.array(shape[::-1], dtype)
            self.check_copies(x.T)
            self.check_copies(x[:, ::-1].T)
            self.check_copies(x[::-1, : shape[0] // 2].T)

    def test_more_dimensions(self):
        for dtype in DTYPES:
            x = self.array((9, 3, 16, 8), dtype)
            for order in itertools.permutations(range(4)):
                self.check_copies(x.transpose(order))


class TestJoined(CopyCase):
    def test_columns(self):
        """Join gives a result in Fortran order if all inputs are in Fortran order.

        The result of the previous call may have another number of columns or rows.
        """
        x, y = T.lmatrices("xy")
        node = Join()(1, x, y).owner
        out, cells = [[None]], [[node.inputs[0].data], [None], [None]]
        thunk = make_native_thunk(node, node.op.native_code(node), cells, out)
        for rows, columns in ((4, 3), (4, 1), (4, 5), (4, 5), (3, 5), (5, 5), (1, 2), (2, 1)):
            a, b = [np.asfortranarray(self.array((rows, n), "int64")) for n in (2, columns)]
            cells[1][0], cells[2][0] = a, b
            thunk()
            np.testing.assert_array_equal(out[0][0], np.concatenate([a, b], 1))
            self.assertTrue(out[0][0].flags.f_contiguous)


class TestRepeated(CopyCase):
    def test_tiles(self):
        """`Tile` repeats short arrays very often, and long arrays a few times, along the last dimension and others."""
        for dtype in ("uint8", "int32", "float64", "complex128"):
            for shape, times in (
                ((1,), (50000,)),
                ((3,), (30001,)),
                ((100,), (700,)),
                ((5000,), (9,)),
                ((40000,), (3,)),
                ((7, 100), (90, 1)),
                ((2, 3), (3, 9000)),
                ((2, 5000), (2, 4)),
                ((3, 2, 5), (40, 30, 20)),
                ((4,), (5, 6, 700)),
            ):
                x = self.array(shape, dtype)
                self.check(Tile(len(times)), np.tile(x, times), x, np.array(times))


class TestNothing(CopyCase):
    def test_permutations_of_no_rows(self):
        """If there are no rows, PermuteRowElements reads and writes nothing, so no index is invalid."""
        for shape, other in (((0, 3), (1, 3)), ((1, 3), (0, 3)), ((2, 0, 3), (1, 1, 3)), ((0, 2, 3), (1, 2, 3))):
            for inverse, index in itertools.product((0, 1), (2, 3, -4, 10**6)):
                x, y = np.ones(shape), np.full(other, index)
                want = np.zeros(np.broadcast_shapes(shape, other))
                self.check(lambda x, y: PermuteRowElements()(x, y, inverse), want, x, y)


@unittest.skipUnless(os.path.exists("/proc/self/statm"), "needs to know what memory the process has")
class TestZeros(unittest.TestCase):
    def test_pages_of_zeros_are_not_written(self):
        """A very large array of zeros takes memory only when it is written."""

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        zero, m, n = T.bscalar(), T.lscalar(), T.lscalar()
        values = {zero: np.zeros((), "int8"), m: np.array(2**14), n: np.array(2**14 + 3)}
        before = resident()
        (got,) = run_node(alloc(zero, m, n), values, "c")
        self.assertLess(resident() - before, got.nbytes // 4)
        self.assertEqual((got.dtype, got.shape), (np.dtype("int8"), (2**14, 2**14 + 3)))
        self.assertFalse(got[:: 2**10].any())


if __name__ == "__main__":
    unittest.main()
