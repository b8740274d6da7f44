"""Tests of TrimmedMean."""

import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.tests import unittest_tools as utt
from theano_ng.tests.authors.trimmed_mean import TrimmedMean
from theano_ng.tests.authors.ways import BothWays, layouts, special
from theano_ng.tests.test_rop import RopLop_checker


def expected(x, trim):
    """Return the right value for an array."""
    return np.array([np.sort(row.astype("float64"))[trim : len(row) - trim].mean() for row in x], "float64")


class TestTrimmedMean(utt.InferShapeTester):
    def test_values(self):
        for dtype in ("float64", "float32"):
            for trim in (0, 1, 2):
                for openmp in (False, True):
                    both = BothWays(TrimmedMean(trim, openmp), T.matrix(dtype=dtype))
                    for shape in ((3, 5), (0, 5), (1, 6), (200, 7), (3, 301)):
                        x = np.random.normal(size=shape).astype(dtype)
                        (y,) = both(x)
                        utt.assert_allclose(expected(x, trim), y)

    def test_short_rows(self):
        for openmp in (False, True):
            both = BothWays(TrimmedMean(2, openmp), T.dmatrix())
            for shape in ((3, 4), (0, 4), (2, 0), (0, 0)):
                self.assertRaisesRegex(ValueError, "rows of %d elements" % shape[1], both, np.ones(shape))

    def test_layouts_and_special_values(self):
        both = BothWays(TrimmedMean(1, openmp=True), T.dmatrix())
        for x in layouts(np.random.normal(size=(4, 9))):
            both(x)
        for dtype in ("float64", "float32"):
            both = BothWays(TrimmedMean(1), T.matrix(dtype=dtype))
            values = special(dtype)
            both(values[np.random.randint(0, len(values), (300, 5))])
            big = np.finfo(dtype).max
            rows = [[0, -0.0, 0], [-0.0, -0.0, -0.0], [np.nan, 1, 2], [big, big, big], [-np.inf, np.inf, 1]]
            np.testing.assert_array_equal(both(np.array(rows, dtype))[0], np.array([0, 0, np.nan, big, 1], dtype))

    def test_shape(self):
        x = T.matrix()
        self._compile_and_check([x], [TrimmedMean(1)(x)], [np.ones((3, 4), theano.config.floatX)], TrimmedMean)

    def test_gradient(self):
        for trim in (0, 1, 2):
            utt.verify_grad(TrimmedMean(trim), [np.random.permutation(21).reshape(3, 7) / 4.0])
        utt.verify_grad(lambda x: TrimmedMean(1)(x) ** 2, [np.random.permutation(10).reshape(2, 5).astype("float32")])
        utt.verify_grad(lambda x: TrimmedMean(1)(T.addbroadcast(x, 0)), [np.random.normal(size=(1, 4))])

    def test_arguments(self):
        self.assertEqual(TrimmedMean(np.int64(1), False), TrimmedMean(1, False))
        self.assertEqual(len({TrimmedMean(1, False), TrimmedMean(2, False), TrimmedMean(1, True)}), 3)
        self.assertEqual(pickle.loads(pickle.dumps(TrimmedMean(1))), TrimmedMean(1))
        self.assertRaises(ValueError, TrimmedMean, -1)
        self.assertRaises(TypeError, TrimmedMean, 1.5)
        for bad in (T.lmatrix(), T.dvector(), T.zmatrix()):
            self.assertRaisesRegex(TypeError, "a matrix of float32 or float64", TrimmedMean(1), bad)


class TestRop(RopLop_checker):
    def test_rop(self):
        self.check_mat_rop_lop(TrimmedMean(1)(self.mx), self.mat_in_shape[:1])


if __name__ == "__main__":
    unittest.main()
