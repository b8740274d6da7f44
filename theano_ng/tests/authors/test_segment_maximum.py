"""Tests of SegmentMaximum."""

import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.gradient import DisconnectedInputError
from theano_ng.tests import unittest_tools as utt
from theano_ng.tests.authors.segment_maximum import SegmentMaximum
from theano_ng.tests.authors.ways import BothWays, layouts, special
from theano_ng.tests.test_rop import RopLop_checker


class TestSegmentMaximum(utt.InferShapeTester):
    def test_values(self):
        for dtype in ("float64", "float32"):
            for integer in ("int64", "int32"):
                both = BothWays(SegmentMaximum(-0.1), T.vector(dtype=dtype), T.vector(dtype=integer), T.lscalar())
                for size, count in ((0, 0), (0, 3), (1, 1), (7, 4), (500, 30)):
                    values = np.random.randint(-9, 9, size).astype(dtype)
                    segments = np.random.randint(0, max(count, 1), size).astype(integer)
                    maximum, position = both(values, segments, np.array(count))
                    for k in range(count):
                        members = values[segments == k]
                        self.assertEqual(maximum[k], members.max() if len(members) else np.array(-0.1, dtype))
                        first = np.flatnonzero((segments == k) & (values == maximum[k]))
                        self.assertEqual(position[k], first[0] if len(members) else -1)

    def test_special_values(self):
        for dtype in ("float64", "float32"):
            both = BothWays(SegmentMaximum(), T.vector(dtype=dtype), T.lvector(), 3)
            for _ in range(50):
                both(np.random.choice(special(dtype), 9), np.random.randint(0, 3, 9))
        values, segments = np.array([1, np.nan, 5, np.nan, -0.0, 0.0, -np.inf]), np.array([0, 0, 0, 0, 1, 1, 2])
        maximum, position = BothWays(SegmentMaximum(), T.dvector(), T.lvector(), 3)(values, segments)
        np.testing.assert_array_equal(maximum, [np.nan, -0.0, -np.inf])
        np.testing.assert_array_equal(position, [1, 4, 6])

    def test_layouts(self):
        both = BothWays(SegmentMaximum(), T.dvector(), T.ivector(), T.lscalar())
        for values in layouts(np.random.normal(size=6)):
            for segments in layouts(np.array([0, 2, 1, 2, 0, 1], "int32")):
                both(values, segments, np.array(3))

    def test_errors(self):
        for integer in ("int64", "int32"):
            both = BothWays(SegmentMaximum(), T.dvector(), T.vector(dtype=integer), T.lscalar())
            info = np.iinfo(integer)
            for bad in (3, -1, info.min, info.max):
                segments = np.array([0, bad], integer)
                self.assertRaisesRegex(IndexError, "%d is not in 0 .. 2" % bad, both, np.ones(2), segments, np.array(3))
            self.assertRaisesRegex(ValueError, "-1 segments", both, np.ones(0), np.ones(0, integer), np.array(-1))
            self.assertRaisesRegex(ValueError, "2 values", both, np.ones(2), np.ones(1, integer), np.array(3))
            self.assertRaisesRegex(ValueError, "0 values", both, np.ones(0), np.ones(1, integer), np.array(3))

    def test_shape(self):
        x, s, n = T.vector(), T.lvector(), T.lscalar()
        values = [np.ones(4, theano.config.floatX), np.array([0, 2, 2, 1]), np.array(5)]
        self._compile_and_check([x, s, n], SegmentMaximum(0.0)(x, s, n), values, SegmentMaximum)

    def test_gradient(self):
        segments = np.array([2, 0, 2, 1, 0, 1, 2])
        point = np.random.permutation(7) / 2.0
        utt.verify_grad(lambda x: SegmentMaximum(0.0)(x, segments, 4)[0], [point])
        utt.verify_grad(lambda x: SegmentMaximum(0.0)(x, segments, 4)[0] ** 2, [point.astype("float32")])
        utt.verify_grad(lambda x: SegmentMaximum(0.0)(x, segments[:0], 4)[0], [point[:0]])
        x, s = T.dvector(), T.lvector()
        maximum, position = SegmentMaximum(0.0)(x, s, 3)
        self.assertRaises(DisconnectedInputError, T.grad, position.sum(), x)
        self.assertRaises(DisconnectedInputError, T.grad, maximum.sum(), s)
        both = T.grad(maximum.sum() + T.cast(position.sum(), "float64"), x)  # the position contributes nothing
        np.testing.assert_array_equal(both.eval({x: [1.0, 3.0, 3.0], s: [0, 2, 2]}), [1, 1, 0])

    def test_arguments(self):
        self.assertEqual(SegmentMaximum(-0.0), SegmentMaximum(0))
        self.assertNotEqual(SegmentMaximum(0), SegmentMaximum(1))
        self.assertEqual(pickle.loads(pickle.dumps(SegmentMaximum())), SegmentMaximum())
        self.assertRaises(ValueError, SegmentMaximum, np.nan)
        x, s = T.dvector(), T.lvector()
        self.assertRaisesRegex(TypeError, "values of", SegmentMaximum(), T.lvector(), s, 3)
        self.assertRaisesRegex(TypeError, "segments of", SegmentMaximum(), x, T.bvector(), 3)
        self.assertRaisesRegex(TypeError, "segments of", SegmentMaximum(), x, x, 3)
        self.assertRaisesRegex(TypeError, "number of segments", SegmentMaximum(), x, s, T.dscalar())
        self.assertRaisesRegex(TypeError, "number of segments", SegmentMaximum(), x, s, 3.5)


class TestRop(RopLop_checker):
    def test_rop(self):
        segments = T.arange(self.x.shape[0]) % 3
        self.check_rop_lop(SegmentMaximum(0.0)(self.x, segments, 4)[0], (4,))


if __name__ == "__main__":
    unittest.main()
