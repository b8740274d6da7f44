"""Tests of FrameView."""

import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.tests import unittest_tools as utt
from theano_ng.tests.authors.frame_view import FrameView
from theano_ng.tests.authors.ways import Way, layouts
from theano_ng.tests.test_rop import RopLop_checker

OPTIONS = [(width, gap, newest) for width in (1, 2, 3) for gap in (0, 1, 4) for newest in (False, True)]


def expected(x, width, gap=0, axis=-1, newest_first=False):
    """Return the right value for an array, as a copy."""
    x = np.moveaxis(x, axis, -1)
    starts = list(range(0, x.shape[-1] - width + 1, width + gap))
    if newest_first:
        starts = [x.shape[-1] - width - start for start in starts]
    frames = [x[..., start : start + width] for start in starts]
    y = np.stack(frames, axis=-2) if frames else np.zeros((*x.shape[:-1], 0, width), x.dtype)
    axis = axis if axis >= 0 else axis - 1
    return np.moveaxis(y, (-2, -1), (axis, axis + 1))


def both_ways(op, x):
    """Return a function that computes the Op in C and in Python, and compares values, shapes, strides and flags."""
    ways = [Way(op, x, impl=impl) for impl in ("c", "py")]

    def both(value):
        (y,), (z,) = [way(value) for way in ways]
        np.testing.assert_array_equal(y, z)
        kind = ways[0].node.outputs[0].type
        assert kind.is_valid_value(y) and kind.is_valid_value(z)
        assert y.flags.writeable == z.flags.writeable == value.flags.writeable
        assert y.flags.c_contiguous == z.flags.c_contiguous and y.flags.aligned
        if y.size:
            assert y.strides == z.strides
            assert np.shares_memory(y, value) and np.shares_memory(z, value)
        return y

    return both


class TestFrameView(utt.InferShapeTester):
    def test_values(self):
        for options in OPTIONS:
            width, gap, newest = options
            for axis in (0, 1, 2, -1, -2, -3):
                both = both_ways(FrameView(width, gap, axis, newest), T.dtensor3())
                for length in range(0, 9):
                    shape = [2, 3, 2]
                    shape[axis] = length
                    x = np.random.normal(size=shape)
                    np.testing.assert_array_equal(both(x), expected(x, width, gap, axis, newest))

    def test_dtypes(self):
        for dtype in ("bool", "int8", "uint16", "int64", "float16", "float32", "complex64", "complex128"):
            x = np.arange(7).astype(dtype)
            both = both_ways(FrameView(2, 1, newest_first=True), T.vector(dtype=dtype))
            np.testing.assert_array_equal(both(x), x[[[5, 6], [2, 3]]])

    def test_layouts(self):
        for newest in (False, True):
            both = both_ways(FrameView(2, 1, 0, newest), T.dmatrix())
            x = np.random.normal(size=(7, 3))
            for one in layouts(x):
                np.testing.assert_array_equal(both(one), expected(x, 2, 1, 0, newest))
        both = both_ways(FrameView(2), T.dmatrix())
        both(np.broadcast_to(np.arange(6.0), (3, 6)))
        both_ways(FrameView(1, axis=1), T.dcol())(np.ones((3, 1)))

    def test_memory(self):
        for impl in ("c", "py"):
            way = Way(FrameView(2), T.dvector(), impl=impl)
            first = np.arange(4.0)
            (y,) = way(first)
            (z,) = way(first + 10, old=[y])  # the view of the first call does not change
            np.testing.assert_array_equal(y, [[0, 1], [2, 3]])
            np.testing.assert_array_equal(z, [[10, 11], [12, 13]])
        x = T.dvector("x")
        y = FrameView(2)(x * 2)
        f = theano.function([x], [T.exp(y), y.sum(axis=0)])
        np.testing.assert_array_equal(f([0.0, 1, 2])[0], np.exp([[0.0, 2]]))
        np.testing.assert_array_equal(f([0.0, 1, 2])[1], [0, 2])

    def test_shape(self):
        for width, gap, axis in ((2, 0, 0), (3, 2, 1), (5, 0, -1), (2, 3, -2)):
            x = T.matrix()
            value = np.ones((7, 4), theano.config.floatX)
            self._compile_and_check([x], [FrameView(width, gap, axis)(x)], [value], FrameView)

    def test_gradient(self):
        for width, gap, newest in OPTIONS:
            for axis in (0, -1):
                utt.verify_grad(FrameView(width, gap, axis, newest), [np.random.normal(size=(5, 4))])
        utt.verify_grad(FrameView(2), [np.random.normal(size=1)])
        utt.verify_grad(lambda x: FrameView(2)(T.addbroadcast(x, 0)), [np.random.normal(size=(1, 5))])
        i = T.lvector()
        self.assertEqual(T.grad(FrameView(2)(i).sum() * 1.5, i).dtype, theano.config.floatX)

    def test_arguments(self):
        ops = {FrameView(2), FrameView(3), FrameView(2, 1), FrameView(2, axis=0), FrameView(2, newest_first=True)}
        self.assertEqual(len(ops), 5)
        self.assertEqual(FrameView(np.int64(2)), FrameView(2))
        self.assertEqual(pickle.loads(pickle.dumps(FrameView(2, 1))), FrameView(2, 1))
        for bad in ((0,), (-1,), (2, -1), (2**31,)):
            self.assertRaises(ValueError, FrameView, *bad)
        self.assertRaises(TypeError, FrameView, 2.0)
        for axis in (2, -3):
            self.assertRaisesRegex(ValueError, "does not exist", FrameView(2, axis=axis), T.dmatrix())
        self.assertRaisesRegex(ValueError, "does not exist", FrameView(2), T.dscalar())


class TestRop(RopLop_checker):
    def test_rop(self):
        for newest in (False, True):
            y = FrameView(2, 1, newest_first=newest)(self.x)
            self.check_rop_lop(y.sum(axis=1), ((self.in_shape[0] - 2) // 3 + 1,))


if __name__ == "__main__":
    unittest.main()
