"""Reads after writes have NumPy's values, for each pair of indices that use the same variables."""

import itertools
import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T

# Name -> index that is made of the variables i and j.
FORMS = {
    "i": lambda i, j: i,
    "j": lambda i, j: j,
    "i:": lambda i, j: slice(i, None),
    ":i": lambda i, j: slice(None, i),
    "::i": lambda i, j: slice(None, None, i),
    "i:j": lambda i, j: slice(i, j),
    "j:i": lambda i, j: slice(j, i),
    "i::j": lambda i, j: slice(i, None, j),
    ":i:j": lambda i, j: slice(None, i, j),
    "i, j": lambda i, j: (i, j),
    "j, i": lambda i, j: (j, i),
    "i, :j": lambda i, j: (i, slice(None, j)),
    ":, i": lambda i, j: (slice(None), i),
}
PLACES = [(1, 2), (2, 1), (3, 3), (-1, 2), (2, -2), (-3, -1)]


class TestOtherIndicesOfTheSameVariables(unittest.TestCase):
    def values(self, write, increments, i, j):
        x = np.arange(1.0, 21).reshape(5, 4)
        y = np.float64(100.0)
        changed = x.copy()
        if increments:
            changed[FORMS[write](i, j)] += y
        else:
            changed[FORMS[write](i, j)] = y
        return x, y, changed

    def check(self, write, increments):
        x, y, i, j = T.dmatrix("x"), T.dscalar("y"), T.lscalar("i"), T.lscalar("j")
        written = (T.inc_subtensor if increments else T.set_subtensor)(x[FORMS[write](i, j)], y)
        # Each function reads one element: if a function had several reads, fewer graphs would be rewritten.
        fns = {
            read: theano_ng.function([x, y, i, j], written[FORMS[read](i, j)], on_unused_input="ignore")
            for read in FORMS
        }
        for (i_value, j_value), (read, fn) in itertools.product(PLACES, fns.items()):
            with self.subTest(write=write, increments=increments, read=read, i=i_value, j=j_value):
                x_value, y_value, changed = self.values(write, increments, i_value, j_value)
                np.testing.assert_array_equal(
                    fn(x_value, y_value, i_value, j_value), changed[FORMS[read](i_value, j_value)]
                )

    def test_set(self):
        for write in FORMS:
            self.check(write, False)

    def test_increments(self):
        for write in ("i", ":i", "i:j", "i, j"):
            self.check(write, True)

    def test_constants_that_differ(self):
        x, y = T.dmatrix("x"), T.dscalar("y")
        indices = [
            0,
            1,
            -1,
            slice(1, None),
            slice(None, 1),
            slice(None, None, 2),
            slice(1, None, 2),
            slice(None, None, -1),
        ]
        x_value = np.arange(1.0, 21).reshape(5, 4)
        for write in indices:
            outputs = [T.set_subtensor(x[write], y)[read] for read in indices]
            got = theano_ng.function([x, y], outputs)(x_value, 100.0)
            changed = x_value.copy()
            changed[write] = 100.0
            for read, value in zip(indices, got):
                with self.subTest(write=write, read=read):
                    np.testing.assert_array_equal(value, changed[read])


if __name__ == "__main__":
    unittest.main()
