"""Tests that products of exponentials, divided by products of sums, agree with NumPy's values.

The tests compute the expected values with NumPy from logarithms.
"""

import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T


class TestShares(unittest.TestCase):
    def setUp(self):
        self.x, self.y, self.w = T.dvectors("x", "y", "w")
        x, y, w = self.x, self.y, self.w
        self.terms = {"ex": T.exp(x), "ey": T.exp(y), "w": w, "-w": -w}
        self.sums = {
            "ex + ey": T.exp(x) + T.exp(y),
            "ex + ex": T.exp(x) + T.exp(x),
            "sum(ex)": T.exp(x).sum(keepdims=True),
            "ex + ey + w": T.exp(x) + T.exp(y) + w,
            "w": w,
        }

    def logarithms(self, x, y, w):
        """Return the logarithms of the absolute values of the terms and sums, by name; w is positive."""
        top = x.max()
        return {
            "ex": x,
            "ey": y,
            "w": np.log(w),
            "-w": np.log(w),
            "ex + ey": np.logaddexp(x, y),
            "ex + ex": x + np.log(2.0),
            "sum(ex)": top + np.log(np.exp(x - top).sum()),
            "ex + ey + w": np.logaddexp(np.logaddexp(x, y), np.log(w)),
        }

    def check(self, chosen, values):
        """Check quotients given as (names of factors of the numerator, names of factors of the denominator)."""
        outputs = []
        for above, below in chosen:
            a, b = (
                T.mul(*fs) if len(fs) > 1 else fs[0]
                for fs in ([self.terms[n] for n in above], [self.sums[n] for n in below])
            )
            outputs.append(a / b)
        fn = theano.function([self.x, self.y, self.w], outputs, on_unused_input="ignore")
        for value in values:
            logs = self.logarithms(*value)
            for got, (above, below) in zip(fn(*value), chosen):
                sign = (-1.0) ** above.count("-w")
                expected = sign * np.exp(sum(logs[n] for n in above) - sum(logs[n] for n in below))
                np.testing.assert_allclose(got, expected, rtol=1e-11, err_msg=str((above, below)))

    def fractions(self, most_above, most_below):
        for i, j in itertools.product(range(1, most_above + 1), range(1, most_below + 1)):
            yield from itertools.product(
                itertools.combinations_with_replacement(self.terms, i),
                itertools.combinations_with_replacement(self.sums, j),
            )

    def test_all(self):
        small = np.array([0.3, -1.0, 2.0]), np.array([1.0, 0.5, -0.25]), np.array([0.5, 2.0, 3.0])
        chosen = list(dict.fromkeys([*self.fractions(2, 2), *self.fractions(3, 1)]))
        for start in range(0, len(chosen), 60):
            self.check(chosen[start : start + 60], [small])

    def test_one_that_would_overflow(self):
        large = np.array([800.0, 790.0, 805.0]), np.array([799.0, 795.0, 801.0]), np.array([0.5, 2.0, 3.0])
        for above, below in [(("ex",), ("ex + ey",)), (("ey",), ("ex + ey",)), (("ex",), ("sum(ex)",)), (("ex", "w"), ("ex + ey",)),
                             (("ex", "-w"), ("sum(ex)",)), (("ex", "ey"), ("ex + ey", "ex + ey")), (("ex",), ("ex + ey", "w"))]:  # fmt: skip
            self.check([(above, below)], [large])

    @theano.config.change_flags({"DebugMode.check_finite": False})
    def test_nothing_to_share(self):
        """Quotients of exponentials by their sums agree with NumPy if an array has no elements.

        The rewritten graph subtracts the largest exponent of each sum. A sum without terms has no largest exponent.
        """
        A = T.dmatrix("A")
        for axis in (0, 1, None):
            fn = theano.function([A], T.exp(A) / T.exp(A).sum(axis=axis, keepdims=True))
            for shape in ((0, 3), (3, 0), (0, 0), (2, 3)):
                value = np.ones(shape)
                expected = np.exp(value) / np.exp(value).sum(axis=axis, keepdims=True)
                np.testing.assert_allclose(fn(value), expected, rtol=1e-12)


if __name__ == "__main__":
    unittest.main()
