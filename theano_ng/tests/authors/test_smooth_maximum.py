"""Tests of ScalarSmoothMaximum."""

import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.tests import unittest_tools as utt
from theano_ng.tests.authors.smooth_maximum import ScalarSmoothMaximum, smooth_maximum
from theano_ng.tests.authors.ways import BothWays, layouts, special
from theano_ng.tests.test_rop import RopLop_checker


class TestSmoothMaximum(utt.InferShapeTester):
    def test_values(self):
        for dtype in ("float64", "float32"):
            x, y = (one.ravel() for one in np.meshgrid(special(dtype), special(dtype)))
            for scale in (0, 0.5, 2, 1e-300, 1e300):
                (z,) = BothWays(smooth_maximum(scale), T.vector(dtype=dtype), T.vector(dtype=dtype), ulps=4)(x, y)
                with np.errstate(all="ignore"):
                    if scale == 0:
                        np.testing.assert_array_equal(z, np.maximum(x, y))
                    elif scale < 10:
                        wide = x.astype("float64"), y.astype("float64")
                        right = scale * np.logaddexp(wide[0] / scale, wide[1] / scale)
                        right[np.isnan(x) | np.isnan(y)] = np.nan
                        finite = np.isfinite(right)  # x / scale may overflow
                        np.testing.assert_allclose(z[finite], right[finite].astype(dtype), rtol=1e-6, atol=1e-15)

    def test_layouts(self):
        both = BothWays(smooth_maximum(1), T.dmatrix(), T.dmatrix(), ulps=4, least=1)
        for x in layouts(np.random.normal(size=(3, 4))):
            for y in layouts(np.random.normal(size=(3, 4))):
                both(x, y)
        both(np.zeros((0, 3)), np.zeros((0, 3)))
        BothWays(smooth_maximum(1), T.dmatrix(), T.drow(), ulps=4)(np.ones((3, 4)), np.arange(4.0).reshape(1, 4))

    def test_dtypes(self):
        for one in ("int64", "uint8", "float32", "bool"):
            x = np.array([0, 1], one)
            both = BothWays(smooth_maximum(1), T.vector(dtype=one), T.dvector(), ulps=4)
            np.testing.assert_allclose(both(x, np.array([0.5, 1]))[0], np.logaddexp(x, [0.5, 1]))
        both = BothWays(smooth_maximum(1), T.lvector(), T.lvector(), ulps=4)
        self.assertEqual(both.c.node.outputs[0].dtype, "float64")
        info = np.iinfo("int64")
        both(np.array([info.min, info.max, 3]), np.array([info.max, info.max, info.min]))
        for bad in (T.zvector(), T.vector(dtype="float16")):
            self.assertRaisesRegex(TypeError, "is not defined for", smooth_maximum(1), bad, bad)

    def test_shape(self):
        x, y = T.matrix(), T.row()
        values = [np.ones((3, 4), theano.config.floatX), np.ones((1, 4), theano.config.floatX)]
        self._compile_and_check([x, y], [smooth_maximum(1)(x, y)], values, T.elemwise.Elemwise, warn=False)

    @theano.change_flags(**{"DebugMode.check_finite": False})
    def test_gradient(self):
        x, y = np.random.normal(size=(2, 3, 4))
        for scale in (0, 0.5, 3):
            utt.verify_grad(smooth_maximum(scale), [x, y])
        utt.verify_grad(lambda x, y: T.grad(smooth_maximum(2)(x, y).sum(), x), [x, x])  # the second derivative at ties
        utt.verify_grad(smooth_maximum(1), [x, y[:1]])
        utt.verify_grad(smooth_maximum(1), [x.astype("float32"), y.astype("float32")])
        a, b, i = T.dvectors("a", "b") + [T.lvector("i")]
        gradients = theano.function([a, b], T.grad(smooth_maximum(0.5)(a, b).sum(), [a, b]))
        for pair, right in (
            ((2, 2), (0.5, 0.5)),
            ((np.inf, np.inf), (0.5, 0.5)),
            ((1000, 0), (1, 0)),
            ((0, 1e9), (0, 1)),
        ):
            np.testing.assert_array_equal(gradients([pair[0]], [pair[1]]), np.array(right)[:, None])
        second = theano.function([a, b], T.grad(T.grad(smooth_maximum(0.5)(a, b).sum(), a).sum(), a))
        np.testing.assert_array_equal(second([0.0, 1e9, np.inf], [1e9, 0.0, np.inf])[:2], [0, 0])
        f = theano.function([a, i], T.grad(smooth_maximum(0.5)(a, i).sum(), [a, i]))
        np.testing.assert_allclose(f([1], [1]), [[0.5], [0]])

    def test_arguments(self):
        self.assertEqual(smooth_maximum(-0.0), smooth_maximum(0))
        self.assertNotEqual(smooth_maximum(1), smooth_maximum(2))
        self.assertEqual(pickle.loads(pickle.dumps(smooth_maximum(2))), smooth_maximum(2))
        versions = {ScalarSmoothMaximum(scale).c_code_cache_version() for scale in (0, 1, 2)}
        self.assertEqual(len(versions), 3)
        for bad in (-1, np.inf, np.nan):
            self.assertRaises(ValueError, ScalarSmoothMaximum, bad)


class TestRop(RopLop_checker):
    def test_rop(self):
        self.check_rop_lop(smooth_maximum(0.5)(self.x, 2 * self.x[::-1]), self.in_shape)


if __name__ == "__main__":
    unittest.main()
