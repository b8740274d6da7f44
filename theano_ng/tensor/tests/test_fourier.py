"""The Fourier Op against numpy.fft."""
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.tensor.fourier import Fourier, fft
from theano_ng.tests import unittest_tools as utt


class TestFourier(utt.InferShapeTester):
    def test_values(self):
        v = np.random.RandomState(1).randn(3, 4)
        a, n = T.dmatrix(), T.lscalar()
        for axis in (0, 1, -1):
            f = theano.function([a, n], fft(a, n, axis))
            for k in (1, 3, 4, 7):
                got = f(v, k)
                self.assertEqual(got.dtype, "complex128")
                np.testing.assert_allclose(got, np.fft.fft(v, k, axis), atol=1e-12)
        self.assertRaises(ValueError, f, v, 0)
        self.assertRaises(TypeError, fft, T.dscalar(), n, 0)
        self.assertRaises(TypeError, fft, a, T.dscalar(), 0)
        self.assertRaises(ValueError, fft, a, n, 2)

    def test_gradient_and_shape(self):
        rng = np.random.RandomState(2)
        v = rng.randn(3, 4)
        for axis, n in ((1, 4), (1, 6), (1, 2), (0, 3)):
            shape = np.fft.fft(v, n, axis).shape
            weights = rng.randn(*shape)
            utt.verify_grad(lambda x: (T.real(fft(x, n, axis)) * weights).sum() + (T.imag(fft(x, n, axis)) ** 2 * weights).sum(), [v], rng=rng)
        a, k = T.dmatrix(), T.lscalar()
        self._compile_and_check([a, k], [fft(a, k, 1)], [v, 6], Fourier)
        self.assertRaises(ValueError, T.grad, T.real(fft(a, 4, T.lscalar())).sum(), a)


if __name__ == "__main__":
    unittest.main()
