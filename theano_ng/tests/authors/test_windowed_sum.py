"""Tests of WindowedSum."""

import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.tests import unittest_tools as utt
from theano_ng.tests.authors.ways import BothWays, layouts, special
from theano_ng.tests.authors.windowed_sum import WindowedSum
from theano_ng.tests.test_rop import RopLop_checker


def expected(x, width, step, average):
    """Return the right value for an array."""
    starts = range(0, x.shape[1] - width + 1, step)
    windows = [x[:, start : start + width].astype("float64").sum(axis=1) for start in starts]
    y = np.array(windows).T.reshape(x.shape[0], len(windows))
    return y / width if average else y


class TestWindowedSum(utt.InferShapeTester):
    def test_values(self):
        for dtype in ("float64", "float32"):
            for width, step, average in ((1, 1, False), (3, 1, True), (2, 3, False), (300, 7, True)):
                both = BothWays(WindowedSum(width, step, average), T.matrix(dtype=dtype))
                for shape in ((3, 7), (0, 4), (2, 0), (1, 1), (1, 3), (2, 1033)):
                    x = np.random.normal(size=shape).astype(dtype)
                    (y,) = both(x)
                    utt.assert_allclose(expected(x, width, step, average), y)

    def test_layouts_and_special_values(self):
        both = BothWays(WindowedSum(3, 2), T.dmatrix())
        for x in layouts(np.random.normal(size=(4, 9))):
            both(x)
        both(np.broadcast_to(np.arange(7.0), (3, 7)))
        for dtype in ("float64", "float32"):
            values = np.stack([special(dtype), special(dtype)[::-1]])
            for op in (WindowedSum(1), WindowedSum(2), WindowedSum(3, average=True)):
                (y,) = BothWays(op, T.matrix(dtype=dtype))(values)
                with np.errstate(all="ignore"):
                    np.testing.assert_array_equal(y, expected(values, op.width, 1, op.average).astype(dtype))

    def test_row(self):
        BothWays(WindowedSum(2), T.drow())(np.ones((1, 5)))
        (y,) = BothWays(WindowedSum(1), T.dcol())(-np.zeros((3, 1)))
        self.assertTrue(np.signbit(y).all() and y.shape == (3, 1))

    def test_shape(self):
        x = T.matrix()
        for width, step, columns in ((3, 2, 8), (5, 1, 5), (6, 4, 5)):
            value = np.ones((3, columns), theano.config.floatX)
            self._compile_and_check([x], [WindowedSum(width, step)(x)], [value], WindowedSum)

    def test_gradient(self):
        for op in (WindowedSum(3), WindowedSum(2, 3, True), WindowedSum(1, 3), WindowedSum(9)):
            utt.verify_grad(op, [np.random.normal(size=(3, 8))])
        utt.verify_grad(lambda x: WindowedSum(2)(T.addbroadcast(x, 0)), [np.random.normal(size=(1, 4))])
        utt.verify_grad(lambda x: WindowedSum(2)(x) ** 2, [np.random.normal(size=(2, 4)).astype("float32")])

    def test_arguments(self):
        self.assertEqual(WindowedSum(np.int64(3)), WindowedSum(3, 1, False))
        self.assertEqual(len({WindowedSum(3), WindowedSum(3, 2), WindowedSum(3, 1, True), WindowedSum(2)}), 4)
        self.assertEqual(pickle.loads(pickle.dumps(WindowedSum(3))), WindowedSum(3))
        self.assertRaises(ValueError, WindowedSum, 0)
        self.assertRaises(ValueError, WindowedSum, 2, -1)
        self.assertRaises(TypeError, WindowedSum, 2.0)
        for bad in (T.lmatrix(), T.dvector(), T.zmatrix()):
            self.assertRaisesRegex(TypeError, "a matrix of float32 or float64", WindowedSum(2), bad)


class TestRop(RopLop_checker):
    def test_rop(self):
        self.check_mat_rop_lop(WindowedSum(3, 2)(self.mx).sum(axis=0), (max((self.mat_in_shape[1] - 3) // 2 + 1, 0),))


if __name__ == "__main__":
    unittest.main()
