"""Compositions of two functions have the same values before and after rewriting, over the whole domain."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode

FUNCTIONS = {
    name: getattr(T, name)
    for name in (
        "abs_ angle arccos arccosh arcsin arcsinh arctan arctanh ceil conj cos cosh deg2rad exp exp2 expm1 floor imag inv log log10"
        " log1p log2 neg rad2deg real sgn sin sinh sqr sqrt tan tanh"
    ).split()
}
FUNCTIONS.update(
    {
        "sigmoid": T.nnet.sigmoid,
        "softplus": T.nnet.softplus,
        "x ** 3": lambda v: v**3,
        "x ** -2": lambda v: v**-2,
        "x ** 0.5": lambda v: v**0.5,
        "x ** (1 / 3)": lambda v: v ** (1 / 3),
        "1 - x": lambda v: 1 - v,
        "2 * x": lambda v: 2 * v,
    }
)
REALS = np.array([-7.5, -2, -1, -0.5, 0, 0.25, 1, 2, 7.5, 30])
# No value is on the real or imaginary axis, because the axes contain branch cuts. On a branch cut, the sign of a zero
# determines the result, so two equivalent expressions may have different results.
COMPLEX = np.array([-2 + 1j, 2 - 4j, 0.5 + 3j, -0.3 - 9j, -5 + 0.5j])


class TestCompositions(unittest.TestCase):
    def check(self, x, values):
        """Compare all compositions of two functions; return how many the dtype supports."""
        pairs, flags = 0, theano.change_flags(cxx="", cache_graphs=False, on_opt_error="raise")
        with flags, np.errstate(all="ignore"):
            for outer, inner in ((outer, inner) for outer in FUNCTIONS for inner in FUNCTIONS):
                try:
                    out = FUNCTIONS[outer](FUNCTIONS[inner](x))
                except (TypeError, NotImplementedError):  # not defined for the dtype
                    continue
                with self.subTest("%s of %s" % (outer, inner)):
                    expected = theano.function([x], out, mode=Mode("py", None))(values)
                    found = theano.function([x], out, mode="FAST_RUN")(values)
                    self.assertEqual(found.dtype, expected.dtype)
                    known = np.isfinite(expected)
                    errors = np.abs(found - expected)[known] - 1e-9 - 1e-7 * np.abs(expected[known])
                    if (errors > 0).any():
                        errors -= self.rounding(FUNCTIONS[outer], FUNCTIONS[inner], x, values)[known]
                    self.assertFalse((errors > 0).any(), (found, expected))
                    pairs += 1
        return pairs

    def rounding(self, outer, inner, x, values):
        """Return how far the results move if the inner values change by the largest error of the C library's functions.

        This error is 4 units in the last place. For example, cosh(30) is about 5e12, so its cosine has few digits.
        """
        results = [
            theano.function([x], outer(inner(x) * factor), mode=Mode("py", None))(values)
            for factor in (1 - 4 * np.finfo(float).eps, 1, 1 + 4 * np.finfo(float).eps)
        ]
        return np.max([np.abs(result - results[1]) for result in results], axis=0)

    def test_real(self):
        self.assertEqual(self.check(T.dvector("x"), REALS), len(FUNCTIONS) ** 2)

    def test_complex(self):
        self.assertGreater(self.check(T.zvector("x"), COMPLEX), len(FUNCTIONS) ** 2 / 2)


if __name__ == "__main__":
    unittest.main()
