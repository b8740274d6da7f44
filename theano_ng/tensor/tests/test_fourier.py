"""The Fourier Op, compared with numpy.fft."""

import unittest

import numpy as np
from hypothesis import strategies as st

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.tensor.fourier import Fourier, fft
from theano_ng.tensor.tests.generated import Compared, arrays, generated
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

    compared = Compared(
        fft,
        lambda a, n, axis: np.fft.fft(a.astype("complex128" if a.dtype.kind == "c" else "float64"), int(n), int(axis)),
        rtol=1e-12,
        atol=1e-12,
    )

    @generated(
        arrays(("float64", "float32", "int8", "complex64", "complex128"), ndim=2, sides=(2, 4)),
        st.integers(0, 6),
        st.sampled_from([0, -1]),
        examples=40,
    )
    def test_generated(self, a, n, axis):
        self.compared.check(a, np.int64(n), axis=axis)

    @generated(arrays("float64", ndim=(1, 2), sides=(1, 4), layouts=["C"]), st.integers(1, 6), st.data(), examples=5)
    def test_generated_gradients(self, a, n, data):
        axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
        transform = Compared(lambda a: T.real(fft(a, n, axis)) + 2 * T.imag(fft(a, n, axis)), None)
        transform.check_gradient(a, rop=False)
        x = T.constant(a)
        np.testing.assert_allclose(
            T.Rop(fft(x, n, axis), x, T.constant(a + 1)).eval(), np.fft.fft(a + 1, n, axis), atol=1e-12
        )

    def test_dtypes_of_gradients(self):
        for dtype, expected in (("float32", "float32"), ("float64", "float64"), ("complex64", "complex64")):
            x = T.TensorType(dtype, (False,))()
            self.assertEqual(T.grad(T.real(fft(x, 4, 0)).sum(), x).dtype, expected)

    def test_axis_at_run_time(self):
        a, n, axis = T.dmatrix(), T.lscalar(), T.lscalar()
        f = theano.function([a, n, axis], fft(a, n, axis))
        v = np.arange(6.0).reshape(2, 3)
        np.testing.assert_allclose(f(v, 3, 0), np.fft.fft(v, 3, 0))
        self.assertRaises((ValueError, IndexError), f, v, 3, 2)
        np.testing.assert_allclose(f(v, 3, 1), np.fft.fft(v, 3, 1))
        self.assertEqual(f(np.ones((0, 3)), 2, 1).shape, (0, 2))

    def test_gradient_and_shape(self):
        rng = np.random.RandomState(2)
        v = rng.randn(3, 4)
        for axis, n in ((1, 4), (1, 6), (1, 2), (0, 3)):
            shape = np.fft.fft(v, n, axis).shape
            weights = rng.randn(*shape)
            utt.verify_grad(
                lambda x: (T.real(fft(x, n, axis)) * weights).sum() + (T.imag(fft(x, n, axis)) ** 2 * weights).sum(),
                [v],
                rng=rng,
            )
        a, k = T.dmatrix(), T.lscalar()
        self._compile_and_check([a, k], [fft(a, k, 1)], [v, 6], Fourier)
        self.assertRaises(ValueError, T.grad, T.real(fft(a, 4, T.lscalar())).sum(), a)


if __name__ == "__main__":
    unittest.main()
