"""x log(x) and x log(y) with zeros, compared with scipy.special.xlogy."""

import unittest

import numpy as np
import scipy.special

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.tensor.tests.generated import Compared, arrays, generated
from theano_ng.tensor.xlogx import scalar_xlogx, xlogx, xlogy0


def reference(x, y):
    # SciPy's 0 log(NaN) is NaN; here it is 0.
    with np.errstate(all="ignore"):
        return np.where(x == 0, 0, scipy.special.xlogy(x.astype("float64"), y.astype("float64")))


class TestXlogx(unittest.TestCase):
    one = Compared(xlogx, lambda x: reference(x, x), rtol=2e-3, atol=1e-6, dtypes=False)
    two = Compared(xlogy0, reference, rtol=2e-3, atol=1e-6, dtypes=False)

    @generated(
        arrays(
            ("float64", "float32", "float16", "int8", "uint64", "int32"),
            ndim=(0, 3),
            contents=("small", "positive", "nonfinite"),
        ),
        examples=60,
    )
    def test_one(self, x):
        self.one.check(x)

    @generated(
        arrays(("float64", "float32", "int16"), ndim=1, sides=(4, 4), contents=("small", "positive", "nonfinite")),
        arrays(("float64", "float32", "int16"), ndim=1, sides=(4, 4), contents=("positive", "nonfinite")),
        examples=60,
    )
    def test_two(self, x, y):
        self.two.check(x, y)

    def test_exact_values_and_dtypes(self):
        for mode in (theano.Mode("py", None), theano.Mode("cvm", None)):
            x = T.dvector()
            np.testing.assert_allclose(
                theano.function([x], xlogx(x), mode=mode)([0.0, -0.0, 1.0, 2.0, np.inf]),
                [0, 0, 0, 2 * np.log(2), np.inf],
                rtol=1e-15,
            )
            for dtype, out in (
                ("float32", "float32"),
                ("int8", "float32"),
                ("int64", "float64"),
                ("float16", "float16"),
            ):
                y = T.TensorType(dtype, (False,))()
                self.assertEqual(theano.function([y], xlogx(y), mode=mode)(np.ones(2, dtype)).dtype, out)
        z = T.zvector()
        value = np.array([0, 1j, 2 - 1j])
        for mode in (theano.Mode("py", None), theano.Mode("cvm", None)):
            np.testing.assert_allclose(
                theano.function([z], xlogx(z), mode=mode)(value), [0, 1j * np.log(1j), (2 - 1j) * np.log(2 - 1j)]
            )

    def test_gradients(self):
        point = np.array([[0.3, 1.0], [2.5, 0.1]])
        self.one.check_gradient(point)
        self.two.check_gradient(point, point[::-1] + 0.2)
        # At x = 0, the gradient of x log(x) is its limit, -inf.
        x, y = T.dvectors(2)
        f = theano.function([x, y], T.grad(xlogx(x).sum(), x) + T.grad(xlogy0(x, y).sum(), x), mode="FAST_RUN")
        np.testing.assert_array_equal(f([0.0, 1.0], [2.0, 1.0]), [-np.inf, 1.0])

    def test_names(self):
        self.assertEqual((str(xlogx), str(xlogy0), str(scalar_xlogx)), ("xlogx", "xlogy0", "scalar_xlogx"))


if __name__ == "__main__":
    unittest.main()
