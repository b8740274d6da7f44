"""Tests of RecursiveFilter."""

import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.tests import unittest_tools as utt
from theano_ng.tests.authors.recursive_filter import RecursiveFilter
from theano_ng.tests.authors.ways import BothWays, Way, layouts, special
from theano_ng.tests.test_rop import RopLop_checker


class TestRecursiveFilter(utt.InferShapeTester):
    def test_values(self):
        for dtype in ("float64", "float32"):
            for rate in (0.5, -0.9, 0.0, 1.125):
                both = BothWays(RecursiveFilter(rate), T.vector(dtype=dtype), T.scalar(dtype=dtype))
                for length in (0, 1, 2, 5, 300):
                    x = np.random.normal(size=length).astype(dtype)
                    (y,) = both(x, np.asarray(2.0, dtype))
                    powers = np.array(
                        [[rate ** (i - j) if i >= j else 0 for j in range(length)] for i in range(length)]
                    )
                    right = powers.reshape(length, length) @ x + 2.0 * rate ** np.arange(1, length + 1)
                    utt.assert_allclose(right, y)

    def test_layouts_and_special_values(self):
        both = BothWays(RecursiveFilter(-0.5), T.dvector(), T.dscalar())
        for x in layouts(np.random.normal(size=6)):
            both(x, np.array(3.0))
        for dtype in ("float64", "float32"):
            both = BothWays(RecursiveFilter(-0.7), T.vector(dtype=dtype), T.scalar(dtype=dtype))
            for start in special(dtype):
                for _ in range(10):
                    both(np.random.choice(special(dtype), 5), np.asarray(start))

    def test_inplace(self):
        x, start = T.dvector(), T.dscalar()
        for impl in ("c", "py"):
            way = Way(RecursiveFilter(0.5, inplace=True), x, start, impl=impl)
            for value in layouts(np.array([1.0, 2.0, -1.0])):
                if value.flags.writeable:
                    (y,) = way(value, np.array(2.0), old=[np.zeros(3)])
                    self.assertTrue(np.shares_memory(y, value))
                    np.testing.assert_array_equal(value, [2, 3, 0.5])
            value = np.array([1.0, 2.0])
            way(value, value[1:].reshape(()))  # start is a part of x
            np.testing.assert_array_equal(value, [2, 3])
        y = RecursiveFilter(0.5, inplace=True)(x * 1, start)
        outputs = [y, T.grad((y**2).sum(), x)]
        mode = theano.compile.DebugMode(check_isfinite=False)
        for value in (np.arange(4.0), np.zeros(0)):
            f = theano.function([x, start], outputs, mode=mode, accept_inplace=True)
            right = theano.clone(outputs, {y: RecursiveFilter(0.5)(x, start)})
            g = theano.function([x, start], right)
            for one, other in zip(f(value, 1.0), g(value, 1.0)):
                utt.assert_allclose(other, one)

    def test_shape(self):
        x = T.vector()
        self._compile_and_check([x], [RecursiveFilter(2)(x)], [np.ones(4, theano.config.floatX)], RecursiveFilter)

    def test_gradient(self):
        for length in (0, 1, 5):
            utt.verify_grad(RecursiveFilter(-0.5), [np.random.normal(size=length), np.array(2.0)])
        utt.verify_grad(RecursiveFilter(0.5), [np.random.normal(size=3).astype("float32"), np.float32(2)])
        utt.verify_grad(lambda x, y: RecursiveFilter(0.5)(T.addbroadcast(x, 0), y), [np.ones(1), np.array(2.0)])

    def test_arguments(self):
        self.assertEqual(RecursiveFilter(-0.0), RecursiveFilter(0))
        self.assertNotEqual(RecursiveFilter(0), RecursiveFilter(0, True))
        for op in (RecursiveFilter(1), RecursiveFilter(1, True)):
            copy = pickle.loads(pickle.dumps(op))
            self.assertEqual(copy, op)
            self.assertEqual(hasattr(copy, "destroy_map"), op.inplace)
        self.assertRaises(ValueError, RecursiveFilter, np.inf)
        for bad in ([T.lvector()], [T.dmatrix()], [T.dvector(), T.fscalar()], [T.dvector(), T.dvector()]):
            self.assertRaisesRegex(TypeError, "RecursiveFilter needs", RecursiveFilter(1), *bad)


class TestRop(RopLop_checker):
    def test_rop(self):
        self.check_rop_lop(RecursiveFilter(0.5)(self.x), self.in_shape)
        self.check_rop_lop(RecursiveFilter(0.5)(T.ones_like(self.x), self.x[1]), self.in_shape)


if __name__ == "__main__":
    unittest.main()
