"""Tests of ScalarShrinkage."""

import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.tests import unittest_tools as utt
from theano_ng.tests.authors.shrinkage import ScalarShrinkage, shrinkage
from theano_ng.tests.authors.ways import BothWays, layouts, special
from theano_ng.tests.test_rop import RopLop_checker

MODES = "hard soft garrote".split()


def expected(x, t, mode):
    """Return the right value for two Python numbers."""
    if x != x or t != t:
        return np.nan
    t = max(t, 0)
    if abs(x) <= t:
        return 0
    if mode == "hard":
        return x
    if mode == "soft":
        return x - t if x > 0 else x + t
    return x - t * (t / x)


def check(mode, x, t):
    """Compare the C code and impl with `expected`, for all pairs of elements of two vectors."""
    x, t = (one.ravel() for one in np.meshgrid(x, t))
    with np.errstate(all="ignore"):
        (z,) = BothWays(shrinkage(mode), T.vector(dtype=x.dtype), T.vector(dtype=t.dtype))(x, t)
        right = np.array([expected(*pair, mode) for pair in zip(x.tolist(), t.tolist())], z.dtype)
    np.testing.assert_array_equal(z, right)
    return z


class TestShrinkage(utt.InferShapeTester):
    def test_floats(self):
        for dtype in ("float64", "float32"):
            for mode in MODES:
                check(mode, special(dtype), special(dtype))
                check(mode, np.random.normal(size=30).astype(dtype), np.random.normal(size=30).astype(dtype))

    def test_integers(self):
        for dtype in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"):
            info = np.iinfo(dtype)
            numbers = {0, 1, 2, 5, 100, info.min, info.min + 1, info.max, info.max - 1}
            if info.min < 0:
                numbers |= {-1, -2, -5, -100}
            if info.bits == 64:
                numbers |= {2**53 + 1, 2**62 + 3}
            values = np.array(sorted(numbers), dtype)
            for mode in MODES[:2]:
                self.assertEqual(check(mode, values, values).dtype, dtype)
            small = values[abs(values.astype("float64")) < 1000]
            self.assertEqual(check("garrote", small, small).dtype, "float64")

    def test_mixed_dtypes(self):
        for mode in MODES:
            for one, other, result in (
                ("int8", "float32", "float32"),
                ("uint8", "int8", "float64" if mode == "garrote" else "int16"),
                ("float32", "float64", "float64"),
                ("int64", "float32", "float64"),
                ("uint64", "int64", "float64"),
            ):
                x, t = np.array([0, 7, 100], one), np.array([3, 1], other)
                self.assertEqual(check(mode, x, t).dtype, result)
        for bad in (T.zvector(), T.vector(dtype="float16"), T.vector(dtype="bool")):
            self.assertRaisesRegex(TypeError, "is not defined for", shrinkage(), bad, T.dvector())
            self.assertRaisesRegex(TypeError, "is not defined for", shrinkage(), T.dvector(), bad)

    def test_layouts(self):
        both = BothWays(shrinkage("soft"), T.dmatrix(), T.dmatrix())
        for x in layouts(np.random.normal(size=(3, 4))):
            for t in layouts(np.random.uniform(0, 1, size=(3, 4))):
                both(x, t)
        both(np.zeros((0, 3)), np.zeros((0, 3)))
        BothWays(shrinkage("hard"), T.dmatrix(), T.dcol())(np.random.normal(size=(3, 4)), np.ones((3, 1)))

    def test_several_modes_in_one_loop(self):
        x, t = T.dvectors("x", "t")
        f = theano.function([x, t], sum(shrinkage(mode)(x, t) for mode in MODES))
        np.testing.assert_array_equal(f([4.0, -4, 1], [2.0, 2, 2]), [9, -9, 0])

    def test_shape(self):
        x, t = T.matrix(), T.col()
        values = [np.ones((3, 4), theano.config.floatX), np.ones((3, 1), theano.config.floatX)]
        self._compile_and_check([x, t], [shrinkage()(x, t)], values, T.elemwise.Elemwise, warn=False)

    def test_gradient(self):
        x = np.array([[-3.0, -0.5, 0.25, 2.0], [1.5, -1.25, 0.5, -4.0]])
        t = np.array([[1.0, 1.0, 1.0, 1.0], [0.5, 0.25, -2.0, -1.0]])
        for mode in MODES:
            utt.verify_grad(shrinkage(mode), [x, t])
            utt.verify_grad(shrinkage(mode), [x, t[:1]])
            utt.verify_grad(shrinkage(mode), [x.astype("float32"), t.astype("float32")])
            a, b = T.dvectors("a", "b")
            gradients = theano.function([a, b], T.grad(shrinkage(mode)(a, b).sum(), [a, b]))
            np.testing.assert_array_equal(gradients([0.0, 0.5, -1], [1.0, 0.5, 1]), np.zeros((2, 3)))
            dx, dt = gradients([0.0, 0.0, 2.0, 0.0], [0.0, -1.5, 0.0, 1.0])  # without a threshold, the slope is 1
            np.testing.assert_array_equal(dx, [1, 1, 1, 0])
            np.testing.assert_array_equal(dt, [0, 0, -1 if mode == "soft" else 0, 0])
            a = T.fvector("a")
            self.assertEqual([g.dtype for g in T.grad(shrinkage(mode)(a, b).sum(), [a, b])], ["float32", "float64"])

    def test_gradient_of_integers(self):
        x, i = T.dvector("x"), T.lvector("i")
        for mode in MODES:
            for inputs in ((x, i), (i, x), (i, i + 1)):
                gradient = T.grad(shrinkage(mode)(*inputs).sum() * 0.5, i)
                self.assertEqual(gradient.dtype, theano.config.floatX)
                f = theano.function([x, i], gradient, on_unused_input="ignore")
                np.testing.assert_array_equal(f([3.0, 1], [2, 5]), [0, 0])

    def test_arguments(self):
        ops = [shrinkage(mode) for mode in MODES]
        self.assertEqual(len(set(ops)), 3)
        self.assertEqual(len({ScalarShrinkage(mode).c_code_cache_version() for mode in MODES}), 3)
        self.assertEqual(pickle.loads(pickle.dumps(ops)), ops)
        self.assertRaises(ValueError, ScalarShrinkage, "firm")


class TestRop(RopLop_checker):
    def test_rop(self):
        for mode in MODES:
            self.check_rop_lop(shrinkage(mode)(self.x, 0.25), self.in_shape)


if __name__ == "__main__":
    unittest.main()
