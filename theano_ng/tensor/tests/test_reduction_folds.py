"""The loops of reductions that ship with the package: for which dtypes there are some, and what they compute."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as tt
from theano_ng import scalar
from theano_ng.gof.native import make_native_thunk
from theano_ng.tensor.elemwise import CAReduce
from theano_ng.tensor.native.reduce import fold_of, has_fold
from theano_ng.tensor.type import TensorType

ADD, MUL, MAX, MIN, AND, OR, XOR = range(1, 8)  # native/reduce_folds.h
SIGNED, UNSIGNED = "bhilq", "BHILQ"  # NumPy's letters: long and long long are two types of one size
ADDED = [(x, acc) for x in SIGNED for acc in "lq"] + [(x, acc) for x in UNSIGNED for acc in "LQ"]
ADDED += [("?", acc) for acc in "lqLQ"] + ["ef", "ed", "ff", "fd", "dd", "ld", "qd", "id"]
COMPLEX = ["FF", "FD", "DD"]


def number(letter):
    return np.dtype(letter).num


class TestTable(unittest.TestCase):
    def test_no_compiler_is_needed(self):
        """Sums, products, extremes and bits of the usual dtypes have loops in the package."""
        for op in (ADD, MUL):
            for x, acc in ADDED + COMPLEX:
                self.assertTrue(has_fold(op, number(x), number(acc)), (op, x, acc))
        for op in (MAX, MIN):
            for letter in "?fd" + SIGNED + UNSIGNED:
                self.assertTrue(has_fold(op, number(letter), number(letter)), (op, letter))
            self.assertTrue(has_fold(op, number("e"), number("f")))
        for op in (AND, OR, XOR):
            for letter in "?" + SIGNED + UNSIGNED:
                self.assertTrue(has_fold(op, number(letter), number(letter)), (op, letter))

    def test_pairs_without_a_loop(self):
        for op, x, acc in [(ADD, "b", "f"), (MUL, "f", "l"), (MAX, "b", "h"), (MIN, "D", "D"), (AND, "d", "d")]:
            self.assertFalse(has_fold(op, number(x), number(acc)), (op, x, acc))

    def test_what_extremes_begin_with(self):
        """A maximum begins with the lowest value of its dtype, a minimum with the highest one."""
        for letter in "?fd" + SIGNED + UNSIGNED:
            dtype = np.dtype(letter)
            if letter == "?":
                lowest, highest = False, True
            elif dtype.kind == "f":
                lowest, highest = -np.inf, np.inf
            else:
                lowest, highest = np.iinfo(dtype).min, np.iinfo(dtype).max
            for op, want in ((MAX, lowest), (MIN, highest)):
                _, identity = fold_of(op, dtype.num, dtype.num)
                self.assertEqual(np.frombuffer(identity[: dtype.itemsize], dtype)[0], want, (op, letter))


class TestExtremes(unittest.TestCase):
    def test_nan_in_any_row(self):
        """NaN is the extreme of its column, whichever of the rows that are taken together it is in."""
        for dtype in ("float32", "float64"):
            for rows in range(1, 10):
                for at in range(rows):
                    x = np.random.RandomState(rows).randn(rows, 70).astype(dtype)
                    x[at, ::3] = np.nan
                    for op, want in ((scalar.maximum, x.max(0)), (scalar.minimum, x.min(0))):
                        node = CAReduce(op, axis=0)(TensorType(dtype, (False, False))()).owner
                        cells = [[None]]
                        make_native_thunk(node, node.op.native_code(node), [[x]], cells)()
                        np.testing.assert_array_equal(cells[0][0], want, str((dtype, rows, at)))


class TestFusedSums(unittest.TestCase):
    def test_long_and_strided(self):
        """Sums of what is computed, over ends of stretches; of elements of 16 bytes with a stride as well."""
        rng = np.random.RandomState(0)
        x, z = tt.dvector(), tt.zvector()
        mode = theano.compile.get_mode("FAST_RUN")
        of_reals = theano.function([x], tt.sum(x * x), mode=mode)
        of_complex = theano.function([z], tt.sum(abs(z)), mode=mode)
        for n in (1, 64, 1024, 1025, 2100, 4096, 4097, 9000, 20011):
            a = rng.randint(0, 9, 3 * n) + 0.0
            for given in (a[:n], a[::3], a[::-3]):
                self.assertEqual(of_reals(given), (given * given).sum())
                self.assertEqual(of_complex(given * (3 + 4j)), 5 * given.sum())
                c = (a * (3 + 4j))[:: 3 if given is not a[:n] else 1]
                self.assertEqual(of_complex(c), np.abs(c).sum())


if __name__ == "__main__":
    unittest.main()
