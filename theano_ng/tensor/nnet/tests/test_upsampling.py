"""Bilinear interpolation, compared with NumPy's."""

import unittest

import numpy as np
from scipy.signal import convolve2d

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import config
from theano_ng.gradient import verify_grad
from theano_ng.tensor.nnet.abstract_conv import (
    bilinear_kernel_1D,
    bilinear_kernel_2D,
    bilinear_upsampling,
    frac_bilinear_upsampling,
)


def along(values, axis, numerator, denominator):
    """Interpolate along one axis with `numpy.interp`; positions beyond the ends get the first or last element."""
    n = values.shape[axis]
    places = (np.arange(0, n * numerator, denominator) - (numerator - 1) // 2) / numerator
    return np.apply_along_axis(lambda line: np.interp(places, np.arange(n), line), axis, values)


def larger(x, rows, columns):
    return along(along(x, 2, *rows), 3, *columns)


class TestUpsampling(unittest.TestCase):
    def setUp(self):
        self.x = np.random.RandomState(5).uniform(size=(2, 3, 4, 5))

    def test_whole_ratios(self):
        images, ratio = T.dtensor4(), T.bscalar()
        for use_1D_kernel in (True, False):
            f = theano.function([images, ratio], bilinear_upsampling(images, ratio, use_1D_kernel=use_1D_kernel))
            for n in (1, 2, 3, 4, 5):
                expected = larger(self.x, (n, 1), (n, 1))
                self.assertEqual(expected.shape, (2, 3, 4 * n, 5 * n))
                np.testing.assert_allclose(f(self.x, n), expected, rtol=1e-12)
                constant = bilinear_upsampling(images, np.int8(n), use_1D_kernel=use_1D_kernel)
                got = theano.function([images], constant, mode="FAST_COMPILE")(self.x)
                np.testing.assert_allclose(got, expected, rtol=1e-12)

    def test_documented_edges(self):
        """Upsampling by an even ratio repeats the last pixel once more than the first pixel.

        An odd ratio repeats both pixels equally often.
        """
        x = np.array([[[[1.0, 2, 3]]]])
        even = bilinear_upsampling(T.constant(x), 2).eval()[0, 0, 0]
        np.testing.assert_allclose(even, [1, 1.5, 2, 2.5, 3, 3])
        odd = bilinear_upsampling(T.constant(x), 3).eval()[0, 0, 0]
        np.testing.assert_allclose(odd, [1, 1, 4 / 3, 5 / 3, 2, 7 / 3, 8 / 3, 3, 3])

    def test_fractions(self):
        images = T.dtensor4()
        for ratio in ((3, 2), (5, 2), (2, 3), (6, 4), (1, 2), ((4, 3), (7, 5)), ((3, 1), (5, 3))):
            rows, columns = ratio if isinstance(ratio[0], tuple) else (ratio, ratio)
            rows, columns = (tuple(n // np.gcd(*pair) for n in pair) for pair in (rows, columns))
            outs = [
                frac_bilinear_upsampling(images, ratio),
                bilinear_upsampling(images, frac_ratio=ratio),
                bilinear_upsampling(images, frac_ratio=ratio, use_1D_kernel=False),
            ]
            expected = larger(self.x, rows, columns)
            for got in theano.function([images], outs, mode="FAST_COMPILE")(self.x):
                np.testing.assert_allclose(got, expected, rtol=1e-12)

    def test_numbers_of_another_implementation(self):
        """Upsampling of arange(1, 21).reshape(4, 5) by 3 / 2 gives the first row and column of Theano 1.0.5."""
        x = np.arange(1.0, 21).reshape(1, 1, 4, 5)
        got = frac_bilinear_upsampling(T.constant(x), (3, 2)).eval()[0, 0]
        np.testing.assert_allclose(got[0], [1, 4 / 3, 2, 8 / 3, 10 / 3, 4, 14 / 3, 5])
        np.testing.assert_allclose(got[:, 0], [1, 8 / 3, 6, 28 / 3, 38 / 3, 16])

    def test_as_a_transposed_convolution(self):
        """Inside the image, bilinear upsampling is a convolution with a triangular kernel.

        The pixels of the convolved image are `ratio` apart, with zeros between them.
        """
        for ratio in (2, 3):
            kernel = bilinear_kernel_2D(ratio).eval()
            spread = np.zeros((4 * ratio, 5 * ratio))
            first = (ratio - 1) // 2
            spread[first::ratio, first::ratio] = self.x[0, 0]
            got = bilinear_upsampling(T.constant(self.x), ratio).eval()[0, 0]
            inside = slice(ratio, -ratio)
            np.testing.assert_allclose(got[inside, inside], convolve2d(spread, kernel, "same")[inside, inside])

    def test_gradient(self):
        x = self.x[:1, :1, :3, :2]
        for function in (
            lambda v: bilinear_upsampling(v, 3),
            lambda v: bilinear_upsampling(v, 2, use_1D_kernel=False),
            lambda v: frac_bilinear_upsampling(v, ((3, 2), (2, 3))),
        ):
            verify_grad(function, [x], rng=np.random.RandomState(1), mode="FAST_COMPILE")

    def test_types(self):
        self.assertEqual(bilinear_upsampling(T.ftensor4(), 2).dtype, "float32")
        self.assertEqual(bilinear_upsampling(T.itensor4(), 2).dtype, config.floatX)
        out = bilinear_upsampling(T.dtensor4(), 2, batch_size=1, num_input_channels=3)
        self.assertEqual(out.broadcastable, (True, False, False, False))

    def test_errors(self):
        x = T.tensor4()
        for arguments, message in [
            ({}, r"No ratio \(or frac_ratio\) provided"),
            ({"ratio": 2, "frac_ratio": (3, 2)}, "can't use ratio and frac_ratio together"),
            ({"ratio": 2.5}, "integer"),
            ({"ratio": 0}, "positive"),
            ({"ratio": T.scalar()}, "integer"),
            ({"frac_ratio": 3}, "frac_ratio must be a tuple"),
            ({"frac_ratio": (3, 2, 1)}, "pair of positive integers"),
            ({"frac_ratio": (3.0, 2)}, "pair of positive integers"),
            ({"frac_ratio": ((3, 2), 2)}, "pair of positive integers"),
            ({"frac_ratio": (0, 1)}, "pair of positive integers"),
            ({"frac_ratio": ((3, 2),)}, "pair of positive integers"),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                bilinear_upsampling(x, **arguments)
        with self.assertRaisesRegex(ValueError, "4D"):
            bilinear_upsampling(T.tensor3(), 2)


class TestKernels(unittest.TestCase):
    def test_values(self):
        np.testing.assert_allclose(bilinear_kernel_1D(3).eval(), np.array([1, 2, 3, 2, 1]) / 3)
        np.testing.assert_array_equal(bilinear_kernel_1D(4, normalize=False).eval(), [1, 2, 3, 4, 3, 2, 1])
        for normalize, divisor in ((True, 4), (False, 1)):
            got = bilinear_kernel_2D(2, normalize).eval()
            np.testing.assert_allclose(got, np.outer([1, 2, 1], [1, 2, 1]) / divisor)
        ratio = T.bscalar()
        got = theano.function([ratio], bilinear_kernel_1D(ratio, False), mode="FAST_COMPILE")(100)
        np.testing.assert_array_equal(got, 100 - np.abs(np.arange(-99, 100)))
        self.assertEqual(got.dtype, config.floatX)

    def test_errors(self):
        for ratio in (0, -1, 2.5, T.vector()):
            with self.assertRaisesRegex(ValueError, "ratio must be"):
                bilinear_kernel_1D(ratio)


if __name__ == "__main__":
    unittest.main()
