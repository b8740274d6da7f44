"""Sigmoid, its approximations and softplus: values, types, gradients."""

import unittest

import numpy as np
import scipy.special

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.tensor.nnet import hard_sigmoid, sigmoid, softplus, softsign, ultra_fast_sigmoid
from theano_ng.tensor.nnet.sigm import sigmoid_inplace, ultra_fast_sigmoid_inplace
from theano_ng.tests import unittest_tools as utt

TOL = {"float16": 2e-3, "float32": 5e-7, "float64": 1e-15}
PLAIN = {linker: theano.Mode(linker, None) for linker in ("cvm", "py")}


def points(dtype):
    big = float(np.finfo(dtype).max)
    return np.array(
        [-np.inf, -big, -1e4, -88.8, -20, -3.5, -1, -1e-3, -0.0, 0, 1e-3, 1, 3.5, 20, 88.8, 1e4, big, np.inf, np.nan],
        dtype,
    )


class TestValues(unittest.TestCase):
    def functions(self, op, dtype):
        x = T.vector(dtype=dtype)
        for linker in ("cvm", "py"):
            f = theano.function([x], op(x), mode=PLAIN[linker])
            yield lambda v, f=f: f(v)

    def test_sigmoid_and_softplus(self):
        for dtype in TOL:
            x = points(dtype)
            wide = x.astype("float64")
            tiny = float(np.finfo(dtype).tiny)
            for op, expected in ((sigmoid, scipy.special.expit(wide)), (softplus, np.logaddexp(0, wide))):
                for f in self.functions(op, dtype):
                    with np.errstate(all="ignore"):
                        got = f(x)
                        want = expected.astype(dtype)
                    self.assertEqual(got.dtype, dtype)
                    np.testing.assert_allclose(got, want, rtol=TOL[dtype], atol=4 * tiny)
        # the tails are exactly zero and one
        for f in self.functions(sigmoid, "float64"):
            np.testing.assert_array_equal(f(np.array([-1000.0, 1000.0])), [0, 1])
        for f in self.functions(softplus, "float64"):
            np.testing.assert_array_equal(f(np.array([-1000.0, 1000.0])), [0, 1000])

    def test_float16_is_rounded_once(self):
        x = np.arange(2**16, dtype="uint16").view("float16")
        x = x[np.isfinite(x)]
        wide = x.astype("float64")
        for op, expected in (
            (sigmoid, scipy.special.expit(wide)),
            (softplus, np.logaddexp(0, wide)),
            (softsign, wide / (1 + abs(wide))),
        ):
            for f in self.functions(op, "float16"):
                error = abs(f(x).astype("float64") - expected) / np.spacing(abs(expected.astype("float16")))
                self.assertLess(error.max(), 0.51)

    def test_approximations(self):
        x = np.linspace(-12, 12, 1001)
        exact = scipy.special.expit(x)
        errors = {}
        for name, op in (("ultra", ultra_fast_sigmoid), ("hard", hard_sigmoid)):
            for f in self.functions(op, "float64"):
                got = f(x)
                np.testing.assert_allclose(got + got[::-1], 1, atol=1e-14)  # symmetric around 1/2
                errors[name] = abs(got - exact).max()
        self.assertLess(errors["ultra"], 0.03)
        self.assertLess(errors["ultra"], errors["hard"])
        self.assertLess(errors["hard"], 0.1)
        for f in self.functions(ultra_fast_sigmoid, "float64"):
            np.testing.assert_allclose(
                f(np.array([-np.inf, -50.0, 50.0, np.inf])),
                [0.00247262315663, 0.00247262315663, 0.997527376843, 0.997527376843],
                rtol=1e-11,
            )
        for f in self.functions(hard_sigmoid, "float64"):
            np.testing.assert_allclose(
                f(np.array([-9.0, -2.5, -1, 0, 1, 2.5, 9])), [0, 0, 0.3, 0.5, 0.7, 1, 1], atol=1e-15
            )

    def test_types(self):
        for dtype, expected in (
            ("float16", "float16"),
            ("float32", "float32"),
            ("float64", "float64"),
            ("int8", "float32"),
            ("uint8", "float32"),
            ("int32", "float64"),
            ("int64", "float64"),
        ):
            x = T.matrix(dtype=dtype)
            for op in (sigmoid, softplus, ultra_fast_sigmoid):
                self.assertEqual(op(x).dtype, expected, (op, dtype))
                value = op(x).eval({x: np.ones((2, 2), dtype)})
                self.assertEqual(value.dtype, expected)
            self.assertTrue(hard_sigmoid(x).dtype.startswith("float"))
            if dtype.startswith("float"):
                self.assertEqual(hard_sigmoid(x).dtype, dtype)
        self.assertEqual(
            [str(op) for op in (sigmoid, softplus, ultra_fast_sigmoid)], ["sigmoid", "softplus", "ultra_fast_sigmoid"]
        )

    def test_complex_is_refused(self):
        for op in (sigmoid, sigmoid_inplace, softplus, ultra_fast_sigmoid, ultra_fast_sigmoid_inplace, softsign):
            with self.assertRaisesRegex(TypeError, "complex argument not supported"):
                op(T.zvector())

    def test_inplace(self):
        x = np.linspace(-2, 2, 5)
        for op, plain in ((sigmoid_inplace, sigmoid), (ultra_fast_sigmoid_inplace, ultra_fast_sigmoid)):
            v = T.dvector()
            for linker in ("cvm", "py"):
                f = theano.function([theano.In(v, mutable=True)], op(v), mode=PLAIN[linker], accept_inplace=True)
                buffer = x.copy()
                np.testing.assert_allclose(f(buffer), plain(v).eval({v: x}))
                np.testing.assert_allclose(buffer, plain(v).eval({v: x}))

    def test_gradients(self):
        x = np.array([[-3.0, -0.5, 0.0], [0.3, 2.0, 9.0]])
        rng = np.random.RandomState(1)
        for op in (sigmoid, softplus):
            utt.verify_grad(op, [x], rng=rng)
            utt.verify_grad(lambda v: T.grad(op(v).sum(), v), [x], rng=rng)
        utt.verify_grad(hard_sigmoid, [np.array([-4.0, -1.0, 0.2, 3.0])], rng=rng)
        # The gradient uses the formula of sigmoid, y * (1 - y), where y is the approximate value.
        v = T.dvector()
        y = ultra_fast_sigmoid(v)
        f = theano.function([v], [y, T.grad(y.sum(), v)])
        value, gradient = f(np.array([-2.0, 0.0, 1.0]))
        np.testing.assert_allclose(gradient, value * (1 - value))


if __name__ == "__main__":
    unittest.main()
