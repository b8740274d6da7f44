"""Transforms of real arrays against numpy.fft, and their gradients against finite differences."""

import unittest

import numpy as np
from hypothesis import strategies as st

import theano_ng as theano
from theano_ng import tensor as tt
from theano_ng.tensor import fft
from theano_ng.tensor.tests.generated import Compared, arrays, generated, shapes
from theano_ng.tests import unittest_tools as utt


def wide(x):
    return x.astype("float32") if x.dtype == "float16" else x


def pairs(z, dtype):
    return np.stack([z.real, z.imag], -1).astype(dtype.newbyteorder("="))


def axes(x):
    return tuple(range(1, x.ndim))


def rfft(x, s=None, norm=None):
    if x.ndim < 2:
        raise ValueError("rank")
    s = x.shape[1:] if s is None else s
    if min(*x.shape[1:], *s) == 0:
        raise ValueError("nothing to transform")
    z = np.fft.rfftn(wide(x), s, axes(x), norm=norm) if len(x) else np.empty((0, *s[:-1], s[-1] // 2 + 1), complex)
    return pairs(z, x.dtype)


def irfft(x, s, norm="forward"):
    if x.ndim < 3 or x.shape[-1] != 2 or min(*x.shape[1:], *s) == 0:
        raise ValueError("not pairs")
    z = wide(x)[..., 0] + 1j * wide(x)[..., 1]
    return np.asarray(
        np.fft.irfftn(z, s, axes(z), norm=norm) if len(x) else np.empty((0, *s)), x.dtype.newbyteorder("=")
    )


def lengths(x, is_odd=False):
    return (*x.shape[1:-2], (x.shape[-2] - 1) * 2 + is_odd)


class TestOps(unittest.TestCase):
    forward = {
        d: Compared(lambda x, **k: fft.rfft_op(x, **k), rfft, rtol=t, atol=t)
        for d, t in (("float64", 1e-12), ("float32", 1e-5), ("float16", 1e-2))
    }
    backward = {
        d: Compared(lambda x, **k: fft.irfft_op(x, **k), irfft, rtol=t, atol=t)
        for d, t in (("float64", 1e-11), ("float32", 2e-5), ("float16", 5e-2))
    }

    @generated(arrays(("float64", "float64", "float32", "float16"), ndim=(2, 4), sides=(0, 6)), examples=60)
    def test_forward(self, x):
        self.forward[x.dtype.newbyteorder("=").name].check(x)

    @generated(arrays("float64", ndim=(2, 3), sides=(1, 5)), st.data(), examples=20)
    def test_forward_cut_and_padded(self, x, data):
        s = tuple(data.draw(st.lists(st.integers(0, 7), min_size=x.ndim - 1, max_size=x.ndim - 1)))
        self.forward["float64"].check(x, s=s)

    @generated(
        arrays(("float64", "float64", "float32", "float16"), shape=shapes((2, 4), (0, 5)).map(lambda s: (*s, 2))),
        st.data(),
        examples=60,
    )
    def test_backward(self, x, data):
        s = (
            lengths(x, data.draw(st.booleans()))
            if data.draw(st.booleans())
            else tuple(data.draw(st.lists(st.integers(0, 7), min_size=x.ndim - 2, max_size=x.ndim - 2)))
        )
        self.backward[x.dtype.newbyteorder("=").name].check(x, s=s)

    def test_pairs_only(self):
        x = tt.dtensor3()
        for mode in ("FAST_COMPILE", "FAST_RUN"):
            f = theano.function([x], fft.irfft_op(x), mode=mode)
            with self.assertRaisesRegex(
                ValueError, r"(?s)pairs of real and imaginary parts; it has length 3, the shape is \(1, 4, 3\)"
            ):
                f(np.ones((1, 4, 3)))
            self.assertEqual(f(np.ones((1, 4, 2))).shape, (1, 6))

    @generated(arrays("float64", ndim=(2, 4), sides=(1, 5), layouts=["C"]), st.data(), examples=12)
    def test_gradient_forward(self, x, data):
        s = (
            None
            if data.draw(st.booleans())
            else tuple(data.draw(st.lists(st.integers(1, 6), min_size=x.ndim - 1, max_size=x.ndim - 1)))
        )
        self.forward["float64"].check_gradient(x, s=s)

    @generated(
        arrays("float64", shape=shapes((2, 4), (2, 4)).map(lambda s: (*s, 2)), layouts=["C"]), st.data(), examples=12
    )
    def test_gradient_backward(self, x, data):
        s = data.draw(st.sampled_from([lengths(x), lengths(x, True), (5,) * (x.ndim - 2), (2,) * (x.ndim - 2)]))
        self.backward["float64"].check_gradient(x, s=s)

    def test_default_gradient_cuts_nothing(self):
        # With the default lengths of rfft and irfft, the gradient is neither padded nor cut, which would need
        # a second IncSubtensor. The only one scales the elements that also represent their complex conjugates.
        x, y = tt.dtensor3(), tt.dtensor4()
        for given, out in ((x, fft.rfft(x)), (y, fft.irfft(y)), (y, fft.irfft(y, is_odd=True))):
            ops = [type(n.op).__name__ for n in theano.gof.graph.io_toposort([given], [tt.grad(out.sum(), given)])]
            self.assertEqual(sum(name == "IncSubtensor" for name in ops), 1)

    def test_gradient_has_the_type_of_the_input(self):
        for x in (tt.row(), tt.TensorType("float64", (True, False, True))()):
            self.assertEqual(tt.grad(fft.rfft(x).sum(), x).type, x.type)
        self.assertEqual(fft.rfft(tt.row()).broadcastable, (True, False, False))

    def test_gradient_with_unsigned_lengths(self):
        rng = np.random.RandomState(2)
        for dtype in ("uint8", "uint64"):
            s = tt.constant(np.array([4], dtype))
            utt.verify_grad(lambda x: fft.rfft_op(x, s) ** 2, [rng.rand(2, 5)], rng=rng)
            utt.verify_grad(lambda x: fft.irfft_op(x, s) ** 2, [rng.rand(2, 3, 2)], rng=rng)


class TestFunctions(unittest.TestCase):
    def test_documented_example(self):
        x = tt.matrix("x", dtype="float64")
        f_rfft = theano.function([x], fft.rfft(x, norm="ortho"))
        box = np.zeros((1, 1024))
        box[:, 502:522] = 1
        out = f_rfft(box)
        self.assertEqual((out.shape, out.dtype), ((1, 513, 2), "float64"))
        np.testing.assert_allclose(out[0, 0], [0.625, 0.0], atol=1e-12)
        np.testing.assert_allclose(out[0, :, 0] + 1j * out[0, :, 1], np.fft.rfft(box[0], norm="ortho"), atol=1e-12)

    def test_normalization_and_inverse(self):
        rng = np.random.RandomState(0)
        for shape in ((2, 8), (2, 7), (1, 1), (2, 3, 5), (2, 4, 3, 6)):
            for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
                v, odd = rng.randn(*shape).astype(dtype), bool(shape[-1] % 2)
                x = tt.TensorType(dtype, (False,) * v.ndim)()
                for norm, numpy_norm in ((None, None), ("ortho", "ortho"), ("no_norm", None)):
                    forward = fft.rfft(x, norm)
                    there, back = theano.function([x], [forward, fft.irfft(forward, norm, odd)])(v)
                    self.assertEqual((there.dtype, back.dtype), (dtype, dtype))
                    np.testing.assert_allclose(there, rfft(v, norm=numpy_norm), rtol=tolerance, atol=tolerance * 10)
                    size = np.prod(shape[1:]) if norm == "no_norm" else 1
                    np.testing.assert_allclose(back, v * size, rtol=tolerance, atol=tolerance * 10 * size)

    def test_gradients_of_the_norms(self):
        rng = np.random.RandomState(1)
        for norm in ("ortho", "no_norm"):
            utt.verify_grad(lambda x: fft.irfft(fft.rfft(x, norm) ** 2, norm, True), [rng.rand(2, 3, 5)], rng=rng)

    def test_errors(self):
        x, z = tt.dmatrix("x"), tt.dtensor3("z")
        for build, error, text in (
            (
                lambda: fft.rfft(x, "other"),
                ValueError,
                "Invalid value other for norm, must be None, 'ortho' or 'no_norm'",
            ),
            (lambda: fft.irfft(z, 1), ValueError, "Invalid value 1"),
            (lambda: fft.irfft(z, is_odd="yes"), ValueError, "is_odd .*'yes'"),
            (lambda: fft.rfft(tt.dvector("v")), TypeError, r"at least 2 dimensions, .*\(m, ..., n\); got v of type"),
            (lambda: fft.irfft(x), TypeError, r"at least 3 dimensions, \(m, ..., n//2\+1, 2\); got x"),
            (lambda: fft.rfft(tt.imatrix()), TypeError, "cast it to float32 or float64"),
            (lambda: fft.rfft(tt.zmatrix()), TypeError, "complex128"),
            (lambda: fft.irfft(tt.zmatrix()), TypeError, "3 dim"),
            (lambda: fft.rfft_op(x, x), TypeError, "integer vector, got x"),
            (lambda: fft.rfft_op(x, [1.5]), TypeError, "integer vector"),
            (
                lambda: theano.function([x], fft.rfft_op(x, [2, 3]))(np.ones((2, 2))),
                ValueError,
                "2 lengths, for 1 transformed axes",
            ),
            (lambda: theano.function([x], fft.rfft_op(x, [0]))(np.ones((2, 2))), ValueError, r"lengths are \[0\]"),
            (lambda: theano.function([x], fft.rfft(x))(np.ones((2, 0))), ValueError, r"shape \(2, 0\)"),
            (lambda: theano.function([z], fft.irfft(z))(np.ones((2, 1, 2))), ValueError, r"lengths are \[0\]"),
            (lambda: theano.function([x], fft.rfft_op(x, [2**62]))(np.ones((2, 2))), (MemoryError, ValueError), ""),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                build()

    def test_shapes_without_transforming(self):
        x = tt.dtensor3()
        f = theano.function([x], [fft.rfft(x).shape, fft.irfft(fft.rfft(x), is_odd=True).shape])
        self.assertFalse([n for n in f.maker.fgraph.apply_nodes if isinstance(n.op, (fft.RFFTOp, fft.IRFFTOp))])
        self.assertEqual([s.tolist() for s in f(np.ones((2, 3, 5)))], [[2, 3, 3, 2], [2, 3, 5]])


if __name__ == "__main__":
    unittest.main()
