"""Tests of HaarTransform."""

import itertools
import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.tests import unittest_tools as utt
from theano_ng.tests.authors.haar_transform import REAL, HaarTransform
from theano_ng.tests.authors.ways import BothWays, Way, layouts, special
from theano_ng.tests.test_rop import RopLop_checker

SCALES = {"orthonormal": 0.5**0.5, "average": 0.5, "sum": 1.0}


def matrix_of(columns, levels, norm):
    """Return the matrix M of the transform of rows: ``y = x @ M``."""
    result, length = np.eye(columns), columns
    for _ in range(levels):
        step = np.eye(columns)
        step[:length, :length] = 0
        for i in range(length // 2):
            step[2 * i : 2 * i + 2, i] = SCALES[norm]
            step[2 * i : 2 * i + 2, length // 2 + i] = SCALES[norm], -SCALES[norm]
        result, length = result @ step, length // 2
    return result


def random_matrix(shape, dtype="float64"):
    """Return random numbers, which have imaginary parts if the dtype is complex."""
    x = np.random.normal(size=shape)
    return (x + 1j * np.random.normal(size=shape) if dtype.startswith("c") else x).astype(dtype)


class TestHaarTransform(utt.InferShapeTester):
    def test_values(self):
        for dtype, norm, levels in itertools.product(REAL, SCALES, (0, 1, 2, 3)):
            forward = BothWays(HaarTransform(levels, norm), T.matrix(dtype=dtype))
            backward = BothWays(HaarTransform(levels, norm, inverse=True), T.matrix(dtype=dtype))
            for shape in ((3, 8), (0, 8), (2, 0), (1, 24)):
                x = random_matrix(shape, dtype)
                (y,) = forward(x)
                tolerance = 30 * np.finfo(dtype).eps
                np.testing.assert_allclose(y, x @ matrix_of(shape[1], levels, norm), rtol=tolerance, atol=tolerance)
                np.testing.assert_allclose(backward(y)[0], x, rtol=tolerance, atol=tolerance)

    def test_lengths(self):
        for inverse in (False, True):
            both = BothWays(HaarTransform(2, inverse=inverse), T.dmatrix())
            for columns in (1, 2, 3, 6, 10):
                self.assertRaisesRegex(ValueError, "cannot be halved", both, np.ones((2, columns)))
            for levels in (31, 32, 40, 62):
                both = BothWays(HaarTransform(levels, inverse=inverse), T.dmatrix())
                self.assertRaisesRegex(ValueError, "cannot be halved", both, np.ones((1, 4)))
                self.assertEqual(both(np.ones((3, 0)))[0].shape, (3, 0))

    def test_layouts_and_special_values(self):
        for inverse in (False, True):
            both = BothWays(HaarTransform(2, "sum", inverse), T.dmatrix())
            for x in layouts(np.random.normal(size=(3, 8))):
                both(x)
            both(np.broadcast_to(np.arange(4.0), (3, 4)))
        for dtype in REAL:
            values = special(REAL[dtype]).astype(dtype)
            if dtype.startswith("complex"):
                with np.errstate(invalid="ignore"):
                    values = values + np.array(1j, dtype) * values[::-1]
            values = np.resize(values, (2, 32))
            for norm, inverse in itertools.product(SCALES, (False, True)):
                BothWays(HaarTransform(3, norm, inverse), T.matrix(dtype=dtype))(values)

    def test_inplace(self):
        for impl, inverse in itertools.product(("c", "py"), (False, True)):
            way = Way(HaarTransform(1, "sum", inverse, inplace=True), T.dmatrix(), impl=impl)
            for value in layouts(np.array([[1.0, 2, 3, 5]])):
                if value.flags.writeable:
                    (y,) = way(value, old=[np.zeros((1, 4))])
                    self.assertIs(y, value)
                    np.testing.assert_array_equal(value, [[2, -1, 3.5, -1.5] if inverse else [3, 8, -1, -2]])
        x = T.dmatrix()
        for inverse in (False, True):
            y = HaarTransform(1, inverse=inverse, inplace=True)(x * 1)
            outputs = [y, T.grad((y**2).sum(), x)]
            mode = theano.compile.DebugMode(check_isfinite=False)
            f = theano.function([x], outputs, mode=mode, accept_inplace=True)
            value = np.arange(8.0).reshape(2, 4)
            np.testing.assert_allclose((f(value)[0] ** 2).sum(), (value**2).sum())  # the transform is orthonormal
            np.testing.assert_allclose(f(value)[1], 2 * value)

    def test_shape(self):
        x = T.matrix()
        value = np.ones((3, 4), theano.config.floatX)
        self._compile_and_check([x], [HaarTransform(1)(x)], [value], HaarTransform)

    def test_gradient(self):
        for norm, inverse, levels in itertools.product(SCALES, (False, True), (0, 1, 2)):
            utt.verify_grad(HaarTransform(levels, norm, inverse), [np.random.normal(size=(3, 4))])
            utt.verify_grad(HaarTransform(levels, norm, inverse, True), [np.random.normal(size=(1, 4))], mode=INPLACE)
        x = T.zmatrix()
        gradient = theano.function([x], T.grad((abs(HaarTransform(1, "sum")(x)) ** 2).sum(), x))
        value = random_matrix((2, 4), "complex128")
        np.testing.assert_allclose(gradient(value), 4 * value)

    def test_arguments(self):
        ops = {HaarTransform(), HaarTransform(2), HaarTransform(norm="sum"), HaarTransform(1, inverse=True)}
        self.assertEqual(len(ops | {HaarTransform(inplace=True)}), 5)
        self.assertEqual(HaarTransform(np.int8(1)), HaarTransform())
        for op in (HaarTransform(2, "average"), HaarTransform(inplace=True)):
            copy = pickle.loads(pickle.dumps(op))
            self.assertEqual(copy, op)
            self.assertEqual(hasattr(copy, "destroy_map"), op.inplace)
        for bad in ((-1,), (63,), (1, "mean")):
            self.assertRaises(ValueError, HaarTransform, *bad)
        for bad in (T.lmatrix(), T.dvector(), T.dtensor3()):
            self.assertRaisesRegex(TypeError, "HaarTransform needs a matrix", HaarTransform(), bad)


# A mode whose functions may contain Ops that overwrite their inputs.
INPLACE = theano.Mode(linker="cvm", optimizer=None)


class TestRop(RopLop_checker):
    def test_rop(self):
        for inverse in (False, True):
            x = T.join(0, self.x, self.x[::-1])
            y = HaarTransform(1, "average", inverse)(x.dimshuffle("x", 0)).flatten()
            self.check_rop_lop(y, (2 * self.in_shape[0],))


if __name__ == "__main__":
    unittest.main()
