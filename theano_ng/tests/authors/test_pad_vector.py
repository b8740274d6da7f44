"""Tests of PadVector."""

import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.tests import unittest_tools as utt
from theano_ng.tests.authors.pad_vector import PadVector
from theano_ng.tests.authors.ways import BothWays, layouts, special
from theano_ng.tests.test_rop import RopLop_checker

# Names of the modes in numpy.pad.
MODES = {"constant": "constant", "nearest": "edge", "wrap": "wrap", "reflect": "reflect"}


class TestPadVector(utt.InferShapeTester):
    def test_values(self):
        for dtype in ("float64", "float32"):
            for mode, name in MODES.items():
                options = {"constant_values": 0.1} if mode == "constant" else {}
                for before, after in ((0, 0), (2, 0), (0, 1), (3, 7), (20, 11)):
                    both = BothWays(PadVector(before, after, mode, 0.1), T.vector(dtype=dtype))
                    for length in (1, 2, 3, 6, 9):
                        x = np.random.normal(size=length).astype(dtype)
                        (y,) = both(x)
                        np.testing.assert_array_equal(y, np.pad(x, (before, after), name, **options))

    def test_empty(self):
        empty = np.zeros(0)
        for mode in MODES:
            self.assertEqual(BothWays(PadVector(0, 0, mode), T.dvector())(empty)[0].shape, (0,))
            both = BothWays(PadVector(1, 2, mode, -np.inf), T.dvector())
            if mode == "constant":
                np.testing.assert_array_equal(both(empty)[0], [-np.inf] * 3)
            else:
                self.assertRaisesRegex(ValueError, "empty", both, empty)

    def test_layouts_and_special_values(self):
        both = BothWays(PadVector(3, 2, "reflect"), T.dvector())
        for x in layouts(np.random.normal(size=5)):
            both(x)
        for dtype in ("float64", "float32"):
            (y,) = BothWays(PadVector(0, 1, "constant", 1e300), T.vector(dtype=dtype))(special(dtype))
            np.testing.assert_array_equal(y[:-1], special(dtype))

    def test_shape(self):
        x = T.vector()
        for mode in MODES:
            value = np.ones(4, theano.config.floatX)
            self._compile_and_check([x], [PadVector(2, 3, mode)(x)], [value], PadVector)

    def test_gradient(self):
        for mode in MODES:
            for length in (1, 2, 5):
                utt.verify_grad(PadVector(3, 6, mode, 2.0), [np.random.normal(size=length)])
        utt.verify_grad(lambda x: PadVector(1, 2)(T.addbroadcast(x, 0)), [np.random.normal(size=1)])
        x = T.dvector()
        f = theano.function([x], T.grad(PadVector(0, 0, "wrap")(x).sum(), x))
        self.assertEqual(f(np.zeros(0)).shape, (0,))

    def test_arguments(self):
        ops = {PadVector(1, 2), PadVector(1, 3), PadVector(2, 2), PadVector(1, 2, "wrap"), PadVector(1, 2, fill=1)}
        self.assertEqual(len(ops), 5)
        self.assertEqual(PadVector(1, 2, fill=-0.0), PadVector(np.int8(1), 2))
        self.assertEqual(pickle.loads(pickle.dumps(PadVector(1, 2, "wrap"))), PadVector(1, 2, "wrap"))
        self.assertRaises(ValueError, PadVector, -1, 2)
        self.assertRaises(ValueError, PadVector, 1, 2, "mirror")
        self.assertRaises(ValueError, PadVector, 1, 2, "constant", np.nan)
        for bad in (T.lvector(), T.dmatrix(), T.zvector()):
            self.assertRaisesRegex(TypeError, "a vector of float32 or float64", PadVector(1, 1), bad)


class TestRop(RopLop_checker):
    def test_rop(self):
        for mode in MODES:
            self.check_rop_lop(PadVector(2, 1, mode, 5)(self.x), (self.in_shape[0] + 3,))


if __name__ == "__main__":
    unittest.main()
