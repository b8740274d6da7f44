"""The lengths of results of `alloc` agree with NumPy, for all forms of values and lengths."""

import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T

VALUES = {
    "scalar": (T.dscalar, [()]),
    "vector": (T.dvector, [(1,), (3,)]),
    "row": (T.drow, [(1, 1), (1, 3)]),
    "col": (T.dcol, [(1, 1), (2, 1)]),
    "matrix": (T.dmatrix, [(1, 1), (2, 1), (1, 3), (2, 3)]),
}
SIZES = ["n", "1", "1 n", "n 1", "1 1", "m n", "1 m n", "m 1 n", "1 1 n", "1 m 1", "1 1 1"]


class TestLengths(unittest.TestCase):
    def check(self, kind, sizes, around):
        make, shapes = VALUES[kind]
        x, m, n = make("x"), T.lscalar("m"), T.lscalar("n")
        known = {"m": m, "n": n, "1": 1}
        out = T.alloc(x, *[known[s] for s in sizes])
        fn = theano.function([x, m, n], around(out), on_unused_input="ignore")
        for shape, m_value, n_value in itertools.product(shapes, (1, 2), (1, 3)):
            wanted = [{"m": m_value, "n": n_value, "1": 1}[s] for s in sizes]
            value = np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape)
            with self.subTest(kind=kind, sizes=sizes, shape=shape, m=m_value, n=n_value):
                if any(a not in (1, b) for a, b in zip(shape[::-1], wanted[::-1])):
                    self.assertRaises(ValueError, fn, value, m_value, n_value)
                else:
                    np.testing.assert_array_equal(fn(value, m_value, n_value), around(np.broadcast_to(value, wanted)))

    def test_results(self):
        for kind, text in itertools.product(VALUES, SIZES):
            if len(text.split()) >= VALUES[kind][0]("x").ndim:
                self.check(kind, text.split(), lambda v: v)

    def test_parts_of_expressions(self):
        for kind, text in itertools.product(VALUES, SIZES):
            if len(text.split()) >= VALUES[kind][0]("x").ndim:
                self.check(kind, text.split(), lambda v: v * 2 + 1)

    def test_a_part_of_what_is_allocated(self):
        """Indexing an Alloc keeps the lengths of all unindexed dimensions, also if the value has length one."""
        x, n = T.dvector("x"), T.lscalar("n")
        for index in (1, -1, slice(1, None), (slice(None), 0), (slice(None), slice(None, None, -1))):
            f = theano.function([x, n], T.alloc(x, 3, n)[index])
            np.testing.assert_array_equal(f([1.5], 2), np.full((3, 2), 1.5)[index])

    def test_negative_indices_of_unsigned_lengths(self):
        """Negative indices into an Alloc of unsigned length are right.

        The negative of an unsigned length wraps around, so rules must not use it as the lower bound of an index.
        """
        for dtype in ("uint8", "uint64", "int8"):
            n, i = T.scalar("n", dtype=dtype), T.lscalar("i")
            f = theano.function([n], T.alloc(1.5, n)[-3])
            g = theano.function([n, i], T.alloc(1.5, n)[i])
            with self.subTest(dtype):
                self.assertEqual(f(3), 1.5)
                self.assertEqual(g(100, -100), 1.5)
                self.assertRaises(IndexError, f, 2)
                self.assertRaises(IndexError, g, 100, -101)


if __name__ == "__main__":
    unittest.main()
