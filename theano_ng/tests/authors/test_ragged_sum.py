"""Tests of RaggedSum."""

import pickle
import sys
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.gof import Generic
from theano_ng.tests import unittest_tools as utt
from theano_ng.tests.authors.ragged_sum import RaggedSum
from theano_ng.tests.authors.ways import BothWays, Way, special


class TestRaggedSum(unittest.TestCase):
    def test_values(self):
        for dtype in ("float64", "float32"):
            both = BothWays(RaggedSum(dtype), Generic()())
            for rows in ((), (None,), ((),), ((1.5, 2), None, [3.5], ()), ([True, -2.5] * 50, (2**60, 0.1, 1e300))):
                total, lengths = both(rows)
                self.assertEqual(lengths, tuple(None if row is None else len(row) for row in rows))
                right = np.zeros(max([0, *(len(row) for row in rows if row)]))
                for row in rows:
                    right[: len(row or ())] += np.array(row or (), "float64")
                with np.errstate(over="ignore"):
                    utt.assert_allclose(right.astype(dtype), total)

    def test_special_values(self):
        for dtype in ("float64", "float32"):
            both = BothWays(RaggedSum(dtype), Generic()())
            numbers = special("float64").tolist() + [-1]
            for number in numbers:
                both((numbers, [number] * len(numbers)))
            both((numbers,))
        self.assertFalse(np.signbit(both(((-0.0,),))[0][0]))  # the sum begins with 0.0

    def test_errors(self):
        both = BothWays(RaggedSum(), Generic()())
        self.assertRaisesRegex(TypeError, "a tuple of rows", both, [(1.0,)])
        self.assertRaisesRegex(TypeError, "a tuple of rows", both, None)
        self.assertRaisesRegex(TypeError, "not a tuple, a list or None", both, ((1.0,), "ab"))
        for bad in (None, "1", 1j, np.float32(1), (1.0,)):
            self.assertRaisesRegex(TypeError, "expected a number", both, ((1.0,), (2.0, bad)))
        self.assertRaises(OverflowError, both, ((1.0,), (10**400,)))

    def test_references(self):
        way = Way(RaggedSum(), Generic()())
        number, row = float("2.5"), []
        row += [number, number]
        good, bad = (row, None, row), (row, None, [number, "x"])
        before = [sys.getrefcount(one) for one in (number, row, good, bad, None)]
        for _ in range(50):
            way(good)
            self.assertRaises(TypeError, way, bad)
        way(((3.0,),))
        after = [sys.getrefcount(one) for one in (number, row, good, bad, None)]
        self.assertEqual(after[:4], before[:4])
        self.assertLess(abs(after[4] - before[4]), 20)

    def test_arguments(self):
        self.assertNotEqual(RaggedSum(), RaggedSum("float32"))
        self.assertEqual(pickle.loads(pickle.dumps(RaggedSum())), RaggedSum("float64"))
        self.assertRaises(ValueError, RaggedSum, "int64")
        self.assertRaisesRegex(TypeError, "type Generic", RaggedSum(), T.dvector())
        total, lengths = RaggedSum()(((1.0, 2.0), None))
        np.testing.assert_array_equal(total.eval(), [1, 2])
        self.assertEqual(theano.function([], lengths)(), (2, None))

    def test_debugmode(self):
        rows = Generic()()
        f = theano.function([rows], RaggedSum()(rows), mode="DebugMode")
        self.assertEqual(f(((1.0, 2.0), None))[1], (2, None))


if __name__ == "__main__":
    unittest.main()
