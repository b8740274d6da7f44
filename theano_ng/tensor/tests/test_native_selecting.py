"""Native Ops that select elements and rows: operands repeated in memory, invalid positions, rows with NaN."""

import itertools
import unittest

import numpy as np

import theano_ng.tensor as T
from theano_ng.audit import forms
from theano_ng.tensor import subtensor as sub
from theano_ng.tensor.counting import Unique
from theano_ng.tensor.indexing.selecting import Choose, Nonzero
from theano_ng.tensor.tests.single_node import run_node

LAYOUTS = (forms.contiguous, forms.fortran, forms.strided, forms.reversed_)


def results(make, *values):
    variables = [T.TensorType(v.dtype, [False] * v.ndim)() for v in values]
    out = make(*variables)
    out = out[0] if isinstance(out, (list, tuple)) else out
    return run_node(out, dict(zip(variables, values)), "c")


class TestChosen(unittest.TestCase):
    def test_repeated_in_memory(self):
        """`Choose` accepts operands that repeat a row, a column or a number in memory.

        `numpy.broadcast_to` makes such arrays.
        """
        rng = np.random.RandomState(1)
        shape = (3, 1, 4, 5)
        repeated = (), (0,), (2, 3), (0, 2), (0, 3)
        parts = [tuple(1 if k in ones else n for k, n in enumerate(shape)) for ones in repeated]
        parts += [(1, 1, 1, 1), (1, 1, 1, 5)]
        for of_number, of_choice in itertools.product(parts, parts):
            for layout in LAYOUTS:
                number = np.broadcast_to(layout(rng.randint(0, 2, of_number)), shape)
                choices = [layout(rng.randint(-99, 99, of_choice)) for _ in range(2)]
                for first, second in (
                    (np.broadcast_to(choices[0], shape), np.broadcast_to(choices[1], shape)),
                    (choices[0], np.broadcast_to(choices[1], shape)),
                ):
                    want = np.where(number == 1, second, first)
                    (got,) = results(lambda a, *c: Choose("raise")(a, list(c)), number, first, second)
                    np.testing.assert_array_equal(got, np.broadcast_to(want, shape))
                listed = np.broadcast_to(np.array(choices), (2, *np.broadcast_shapes(shape, of_choice)))
                (got,) = results(Choose("clip"), number * 9, listed)
                np.testing.assert_array_equal(got, np.where(number == 1, *choices[::-1]))

    def test_one_choice(self):
        """If `Choose` has one array to choose from, every index selects this array, in the modes wrap and clip."""
        number = np.arange(-4, 5)
        for mode in ("wrap", "clip"):
            (got,) = results(Choose(mode), number, np.arange(9.0)[None])
            np.testing.assert_array_equal(got, np.arange(9.0))


class TestPlaces(unittest.TestCase):
    def test_bytes(self):
        """`Nonzero` finds the positions of any sequence of zero and nonzero bytes.

        The C code tests eight bytes at a time.
        """
        rng = np.random.RandomState(2)
        for dtype in ("bool", "int8", "uint8"):
            for length in (7, 8, 64, 1023, 1024, 1025, 2500):
                for most in (1, 2, 60):
                    words = rng.randint(0, 2, (most, 8)).repeat(rng.randint(1, 9), 0)
                    x = np.resize(np.concatenate([words, np.zeros((3, 8)), np.ones((3, 8))]), length).astype(dtype)
                    np.testing.assert_array_equal(results(Nonzero(), x), x.nonzero())
                    both = np.array([x, np.roll(x, 3)])
                    np.testing.assert_array_equal(results(Nonzero(), both), both.nonzero())

    def test_wrong_positions_in_vectors(self):
        """`AdvancedIncSubtensor1` names the first invalid index in its error, whether it works in place or not.

        The Op checks all indices before it changes the vector.
        """
        for dtype, kind in itertools.product(("float32", "float64", "int8", "int64"), ("int64", "int32", "int8")):
            for n, (where, wrong) in itertools.product((3, 40, 1100), ((0, 50), (2, -51), (1, 99))):
                places = np.arange(n).astype(kind) % np.array(50, kind)
                places[[where, -1]] = wrong, 77
                for in_place, y in itertools.product((False, True), (np.ones(n, dtype), np.ones((), dtype))):
                    x = np.zeros(50, dtype)
                    op = sub.AdvancedIncSubtensor1(inplace=in_place)
                    first = wrong if where != n - 1 else 77
                    with self.assertRaisesRegex(IndexError, "index %d is out of bounds" % first):
                        results(op, x, y, places)
                    self.assertFalse(x.any())


class TestUniqueRows(unittest.TestCase):
    def test_rows_with_nan(self):
        """A row that contains NaN equals no other row, as in NumPy."""
        nan = np.nan
        parts = [complex(1, 2), complex(nan, 1), complex(1, nan), complex(nan, nan)]
        for dtype, numbers in (
            ("complex64", parts),
            ("complex128", parts),
            ("float32", [1, nan]),
            ("float64", [1, nan]),
        ):
            for one, other in itertools.product(numbers, numbers):
                x = np.array([[one, other], [1, 1], [one, other], [1, 1], [one, other]], dtype)
                rows = 4 if np.isnan(x[0]).any() else len({(one, other), (1, 1)})
                for axis, value in ((0, x), (1, np.ascontiguousarray(x.T))):
                    got, counts = results(Unique(return_counts=True, axis=axis), value)
                    self.assertEqual((got.shape[axis], sum(counts)), (rows, 5), (one, other))
                    if rows == 4:
                        self.assertEqual(sorted(counts), [1, 1, 1, 2])


if __name__ == "__main__":
    unittest.main()
