"""Tests of the C code of special functions and of division over their whole ranges.

Results are compared with SciPy, NumPy, and values that were computed with 40 digits.
"""

import fractions
import math
import unittest

import numpy as np
import scipy.special

import theano_ng.scalar as scalar
from theano_ng.configdefaults import config
from theano_ng.gof.compiler import load_kernels
from theano_ng.scalar.tests.kernels import call_kernel, op_kernel

# Rounded values of mpmath.
EXACT = {
    "erfcx": [
        (-26.5, 1.9245531624185688e305),
        (-1.0, 5.0089800807622835),
        (0.0, 1.0),
        (1e-08, 0.99999998871620843),
        (1.0, 0.427583576155807),
        (30.0, 0.018795888861416751),
        (10000000000.0, 5.6418958354775629e-11),
    ],
    "erfinv": [
        (0.5, 0.47693627620446987),
        (-0.999, -2.3267537655135245),
        (1e-300, 8.8622692545275804e-301),
        (1 - 2.0**-53, 5.8635847487551679),
    ],
    "erfcinv": [
        (0.5, 0.47693627620446987),
        (1e-20, 6.6015806223551426),
        (1e-300, 26.209469960516124),
        (2 - 2.0**-52, -5.8050186831934533),
    ],
    "gamma": [
        (0.5, 1.772453850905516),
        (-0.5, -3.5449077018110321),
        (5.0, 24.0),
        (12.25, 73711509.046769949),
        (171.5, 9.4833675668247993e307),
        (-170.25, -1.6938387496514191e-307),
        (1e-300, 9.9999999999999997e299),
    ],
    "gammaln": [
        (0.5, 0.57236494292470009),
        (1 + 2.0**-40, -5.2497458900760178e-13),
        (3.0, 0.69314718055994531),
        (100.5, 361.43554046777762),
        (1e300, 6.8977552789821374e302),
        (-0.5, 1.2655121234846454),
        (-20.25, -41.600961915340524),
    ],
    "j0": [
        (1.0, 0.76519768655796655),
        (50.0, 0.055812327669251815),
        (5.0, -0.1775967713143383),
        (4.75, -0.25512082749137391),
    ],
    "j1": [
        (1.0, 0.44005058574493352),
        (-50.0, 0.097511828125175138),
        (1e-200, 4.9999999999999999e-201),
        (5.5, -0.34143821542904335),
    ],
    "i0": [
        (1.0, 1.2660658777520083),
        (-20.0, 43558282.559553533),
        (700.0, 1.5295933476718737e302),
        (7.75, 338.51375374727595),
    ],
    "psi": [
        (1.0, -0.57721566490153286),
        (0.5, -1.9635100260214235),
        (10.0, 2.2517525890667211),
        (1e-05, -100000.57719921568),
        (1e300, 690.77552789821371),
    ],
    "i1": [
        (1.0, 0.56515910399248503),
        (-20.0, -42454973.38512777),
        (1e-200, 4.9999999999999999e-201),
        (8.25, 506.43383830764547),
    ],
}

ODD = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, -3.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310, 1e-200, 1e300])


def compiled(nodes):
    """Compile the C code of several scalar nodes together; return functions of arrays."""
    addresses = load_kernels([op_kernel(node, "c") for node in nodes])
    return [
        lambda *arrays, node=node, address=address: call_kernel(address, node, list(arrays))[0]
        for node, address in zip(nodes, addresses)
    ]


def both_signs(x):
    return np.concatenate([x, -x])


class SpecialFunctions:
    """Tests of special functions. A subclass defines `functions`, which makes functions of arrays from scalar nodes."""

    @classmethod
    def setUpClass(cls):
        names = sorted(EXACT)
        nodes = [getattr(scalar, name)(kind()).owner for kind in (scalar.float64, scalar.float32) for name in names]
        made = cls.functions(nodes)
        cls.double = dict(zip(names, made))
        cls.single = dict(zip(names, made[len(names) :]))

    def test_exact_values(self):
        for name, pairs in EXACT.items():
            x, expected = np.array(pairs).T
            np.testing.assert_allclose(self.double[name](x), expected, rtol=2e-15, err_msg=name)

    def against_scipy(self, name, x, rtol, atol=0):
        with np.errstate(all="ignore"):
            expected = getattr(scipy.special, name)(x)
            got = self.double[name](x)
            np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol, err_msg=name)
            x = x.astype("float32")
            np.testing.assert_allclose(
                self.single[name](x),
                getattr(scipy.special, name)(x.astype("float64")).astype("float32"),
                rtol=3e-7,
                atol=max(atol, 1e-45),
                err_msg=name + " of float32",
            )

    def test_one(self):
        """erfcx is exactly 1 at arguments so close to 0 that the true value rounds to 1."""
        x = np.array([0.0, -0.0, 1e-300, -1e-300, 1e-20, -1e-20, -1e-17])
        np.testing.assert_array_equal(self.double["erfcx"](x), np.ones(7))
        np.testing.assert_array_equal(self.single["erfcx"](x.astype("float32")), np.ones(7))

    def test_ranges(self):
        """Results agree with SciPy at dense points of the finite range, and at logarithmic points near its ends."""
        tiny = np.geomspace(1e-300, 0.5, 500)
        with np.errstate(all="ignore"):
            # SciPy's own error is some hundred units in the last place for large negative arguments.
            self.against_scipy("erfcx", np.concatenate([np.linspace(-26, 60, 3000), both_signs(tiny), 1 / tiny]), 1e-13)
            self.against_scipy(
                "erfinv",
                both_signs(np.concatenate([np.linspace(0, 1, 3000), tiny, 1 - np.geomspace(2e-16, 0.1, 300)])),
                4e-15,
            )
            self.against_scipy(
                "erfcinv", np.concatenate([np.linspace(0, 2, 3000), tiny, 2 - np.geomspace(3e-16, 0.1, 300)]), 4e-15
            )
            self.against_scipy(
                "gamma",
                np.concatenate([np.linspace(-30.001, 30, 3000), np.linspace(-169.9, 171.6, 999), both_signs(tiny)]),
                1e-13,
            )
            # Next to the zeros, allow absolute errors: there, SciPy's relative errors exceed those of the C code.
            self.against_scipy(
                "gammaln",
                np.concatenate([np.linspace(-30.001, 30, 3001), np.linspace(30, 1e5, 999), tiny[200:], 1 / tiny]),
                1e-14,
                3e-14,
            )
            self.against_scipy("psi", np.concatenate([np.linspace(1e-3, 30, 3000), tiny, 1 / tiny]), 1e-13, 4e-15)
            # Next to the poles, allow larger errors, because the rounding error of the argument has a larger effect.
            self.against_scipy("psi", np.linspace(-30.001, -1e-3, 2999), 1e-11, 1e-13)
            for name in ("j0", "j1"):
                self.against_scipy(name, both_signs(np.concatenate([np.linspace(0, 100, 3000), tiny])), 1e-14, 2e-15)
            for name in ("i0", "i1"):
                self.against_scipy(
                    name, both_signs(np.concatenate([np.linspace(0, 80, 3000), tiny, np.linspace(80, 709, 300)])), 4e-15
                )

    def test_odd_values(self):
        for name, function in self.double.items():
            with np.errstate(all="ignore"):
                expected = getattr(scipy.special, name)(ODD)
            if name == "gammaln":  # SciPy's result is infinite for the smallest arguments
                expected = np.where(
                    (ODD != 0) & (abs(ODD) < 1e-100), -np.log(np.where(ODD == 0, 1, abs(ODD))), expected
                )
            elif name == "erfcinv":  # SciPy halves 5e-324, which gives 0
                expected[ODD == 5e-324] = 27.213293210812948815
            np.testing.assert_allclose(
                function(ODD), expected, rtol=1e-13, atol=1e-149 if name[0] == "j" else 5e-324, err_msg=name
            )

    def test_inverses(self):
        x = np.concatenate([np.linspace(-0.999, 0.999, 999), np.geomspace(1e-300, 0.1, 99)])
        np.testing.assert_allclose(scipy.special.erf(self.double["erfinv"](x)), x, rtol=2e-15)
        z = np.geomspace(1e-300, 1, 999)
        # A relative error of one unit in y causes an error of 2 * y**2 units in erfc(y).
        y = self.double["erfcinv"](z)
        self.assertTrue((abs(scipy.special.erfc(y) / z - 1) <= 1e-15 * (4 + 4 * y**2)).all())

    def test_recurrence(self):
        x = np.arange(-20 * 32 + 5, 165 * 32) / 32  # x + 1 is exact
        x = x[(x > 0) | (x % 1 != 0)]
        np.testing.assert_allclose(self.double["gamma"](x + 1), x * self.double["gamma"](x), rtol=5e-15)

    def test_tanh(self):
        for dtype, rtol in (("float64", 1e-15), ("float32", 6e-7)):
            (tanh,) = self.functions([scalar.tanh(scalar.get_scalar_type(dtype)()).owner])
            tiny = float(np.finfo(dtype).tiny)
            x = both_signs(
                np.concatenate(
                    [np.linspace(0, 25, 5000), np.geomspace(tiny, 1, 500), [0, tiny / 8, np.inf, np.nan, 1e30]]
                )
            ).astype(dtype)
            got = tanh(x)
            np.testing.assert_allclose(got, np.tanh(x.astype("float64")), rtol=rtol)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(x))

    def test_arccosh(self):
        (arccosh,) = self.functions([scalar.arccosh(scalar.float32()).owner])
        x = np.concatenate(
            [
                np.linspace(1, 60, 5000),
                1 + np.geomspace(1e-7, 1, 500),
                np.geomspace(60, 3e38, 999),
                [1, 0.999, 0, -0.5, -1, -3, -1e30, np.inf, -np.inf, np.nan],
            ]
        ).astype("float32")
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(arccosh(x), np.arccosh(x.astype("float64")), rtol=6e-7)

    def test_steps_of_recurrences(self):
        """gammaln, gamma and psi agree with SciPy at integers and halves, and at the floats next to them.

        The number of recurrence steps changes at these points.
        """
        x = np.arange(1, 100) / 2
        x = np.concatenate([x, np.nextafter(x, 0), np.nextafter(x, 99)])
        for name, rtol in (("gammaln", 2e-15), ("gamma", 4e-15), ("psi", 3e-15)):
            expected = getattr(scipy.special, name)(x)
            np.testing.assert_allclose(self.double[name](x), expected, rtol, 4e-15, err_msg=name)

    def test_tri_gamma(self):
        (tri_gamma,) = self.functions([scalar.tri_gamma(scalar.float64()).owner])
        x = np.concatenate([np.linspace(0.1, 40, 2000), np.arange(1, 60) / 2, np.geomspace(1e-100, 1e15, 300)])
        np.testing.assert_allclose(tri_gamma(x), scipy.special.zeta(2, x), rtol=4e-15)
        # psi'(1 - x) + psi'(x) = (pi / sin(pi x))^2
        x = np.arange(-99, 100, 2) / 8
        np.testing.assert_allclose(tri_gamma(1 - x) + tri_gamma(x), (np.pi / np.sin(np.pi * (x % 2))) ** 2, rtol=2e-13)
        np.testing.assert_array_equal(tri_gamma(np.array([0.0, -0.0, -1.0, -7.0, np.nan])), [np.inf] * 4 + [np.nan])

    def test_incomplete_gamma(self):
        """For integer a, gammaincc equals the sum of Poisson probabilities below a, and gammainc the sum from a on."""
        functions = self.functions(
            [op(scalar.float64(), scalar.float64()).owner for op in (scalar.gammainc, scalar.gammaincc)]
        )
        shapes = [1, 2, 3, 9, 10, 11, 12, 13, 15, 20, 30]
        pairs = [(a, a * share / 16) for a in shapes for share in (1, 7, 11, 15, 16, 17, 22, 32, 50)]
        a, x = np.array(pairs, dtype="float64").T
        upper = [math.exp(-z) * float(sum(poisson(z, 0, int(n)))) for n, z in zip(a, x)]
        lower = [math.exp(-z) * float(sum(poisson(z, int(n), int(n + 3 * z) + 60))) for n, z in zip(a, x)]
        for function, expected in zip(functions, (lower, upper)):
            got = function(a, x)
            small = np.array(expected) < 0.5
            np.testing.assert_allclose(got[small], np.array(expected)[small], rtol=5e-14)
            np.testing.assert_allclose(got, expected, rtol=1e-13, atol=2e-14)

    def test_incomplete_gamma_of_large_shapes(self):
        """For large a, small values of gammainc and gammaincc equal integrals that were computed with 60 digits.

        The tolerance allows for the rounding error of x / a.
        """
        values = (
            (100000010.0, 99640010.0, 8.7949761861410520954e-285),
            (100000010.0, 99800010.0, 2.1082867501281111834e-89),
            (100000010.0, 100200010.0, 3.5937644839065336202e-89),
            (100000010.0, 100360010.0, 1.9727500043873259263e-283),
            (1000000000.0, 998861572.0, 2.5333661265396439721e-284),
            (1000000000.0, 1001138428.0, 6.7744867402036674419e-284),
            (1000000000000.0, 1000020000000.0, 2.760976668498511034e-89),
        )
        lower, upper = self.functions(
            [op(scalar.float64(), scalar.float64()).owner for op in (scalar.gammainc, scalar.gammaincc)]
        )
        for a, x, tail in values:
            small, large = (lower, upper) if x < a else (upper, lower)
            a, x = np.array([a]), np.array([x])
            np.testing.assert_allclose(small(a, x), tail, rtol=3e-13)
            self.assertEqual(large(a, x), 1)

    def test_incomplete_gamma_of_odd_values(self):
        shapes, limits = [0, 0.5, 1, 9.5, 30, 2e8, np.inf, -1, np.nan], [0, 1e-5, 1, 40, np.inf, -1]
        a, x = [v.ravel() for v in np.meshgrid(shapes, limits)]
        lower, upper = self.functions(
            [op(scalar.float64(), scalar.float64()).owner for op in (scalar.gammainc, scalar.gammaincc)]
        )
        for function, known in ((lower, scipy.special.gammainc), (upper, scipy.special.gammaincc)):
            np.testing.assert_allclose(function(a, x), known(a, x), rtol=1e-13, atol=1e-300)

    def test_chi_squared_exceeds(self):
        """A chi-squared variable with any degrees of freedom exceeds zero and negative numbers with probability 1."""
        (exceeds,) = self.functions([scalar.chi2sf(scalar.float64(), scalar.float64()).owner])
        below, above = np.array([-np.inf, -2.5, -5e-324, -0.0, 0.0]), np.array([1e-300, 0.5, 3.0, 40.0, 2000.0, np.inf])
        freedom = np.array([5e-324, 1e-323, 1e-300, 0.25, 1, 2, 9.5, 300])
        x, k = [v.ravel() for v in np.meshgrid(below, freedom)]
        np.testing.assert_array_equal(exceeds(x, k), 1)
        x, k = [v.ravel() for v in np.meshgrid(above, freedom[3:])]
        np.testing.assert_allclose(exceeds(x, k), scipy.special.chdtrc(k, x), rtol=1e-12, atol=1e-300)
        x, k = [v.ravel() for v in np.meshgrid([*below, *above], [0.0, -0.0, -1.0, np.nan])]
        np.testing.assert_array_equal(exceeds(x, k), np.nan)
        np.testing.assert_array_equal(exceeds(np.full(8, np.nan), freedom), np.nan)

    def test_powers(self):
        """Powers agree with NumPy in higher precision up to a few units in the last place.

        The bases have all kinds of significands and exponents. Special values are tested, too.
        """
        rng = np.random.RandomState(3)
        for dtype, rtol in (("float64", 4e-16), ("float32", 1.2e-7)):
            kind = scalar.get_scalar_type(dtype)
            (power,) = self.functions([scalar.pow(kind(), kind()).owner])
            x = np.ldexp(np.linspace(0.5, 1, 4000), rng.randint(-20, 20, 4000)).astype(dtype)
            y = rng.uniform(-4, 4, 4000).astype(dtype)
            wide = np.longdouble if dtype == "float64" else np.float64
            np.testing.assert_allclose(power(x, y), (x.astype(wide) ** y.astype(wide)).astype(dtype), rtol=rtol)
            special = np.array([0, -0.0, 1, -1, 2, -3, 0.5, -0.5, 1e30, -1e30, 1e-30, np.inf, -np.inf, np.nan], dtype)
            # Special values are mixed with ordinary ones.
            x[::3], y[::2] = rng.choice(special, len(x[::3])), rng.choice(special, len(y[::2]))
            with np.errstate(all="ignore"):
                expected = (x.astype(wide) ** y.astype(wide)).astype(dtype)
            np.testing.assert_allclose(power(x, y), expected, rtol=rtol, atol=np.finfo(dtype).tiny)


def poisson(x, begin, end):
    """Return the exact fractions x^k / k! for k from `begin` to `end` - 1."""
    x = fractions.Fraction(x)
    return [x**k / math.factorial(k) for k in range(begin, end)]


@unittest.skipUnless(config.cxx, "needs a C++ compiler")
class TestSpecial(SpecialFunctions, unittest.TestCase):
    functions = staticmethod(compiled)


class TestRefused(unittest.TestCase):
    def test_complex_is_refused(self):
        """Functions of real numbers raise TypeError for complex arguments when the graph is built."""
        z = scalar.complex128("z")
        for op in (scalar.erfc, scalar.erfinv, scalar.gammaln, scalar.tri_gamma, scalar.j0, scalar.i1):
            with self.assertRaisesRegex(TypeError, "complex argument not supported"):
                op(z)


class Division:
    """Tests that floor division and modulus equal those of NumPy for every dtype.

    The C code divides integers in floating point, so the tests use quotients that are close to integers.
    """

    zero_raises = False

    def test_integers(self):
        rng = np.random.RandomState(0)
        dtypes = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
        types = [scalar.get_scalar_type(d) for d in dtypes]
        made = self.functions([op(t(), t()).owner for t in types for op in (scalar.int_div, scalar.mod)])
        for k, dtype in enumerate(dtypes):
            info, n = np.iinfo(dtype), 40000

            def draw():
                """Return integers of all magnitudes; one in ten is near zero or near an end of the range."""
                numbers = rng.randint(info.min, info.max, n, dtype=dtype) >> rng.randint(0, info.bits - 1, n).astype(
                    dtype
                )
                ends = np.array(
                    [info.min, info.min + 1, info.max - 1, info.max, 0, 1, 2, 3, *([-1] if info.min else [])],
                    dtype=dtype,
                )
                return np.where(rng.rand(n) < 0.1, rng.choice(ends, n), numbers).astype(dtype)

            x, y = draw(), draw()
            if info.bits == 8:
                x, y = [
                    a.ravel().astype(dtype)
                    for a in np.meshgrid(np.arange(info.min, info.max + 1), np.arange(info.min, info.max + 1))
                ]
            y = np.where(y == 0, np.array(3, dtype), y) if self.zero_raises else y
            # The quotients product / y and (product +- 1) / y are integers, or differ little from integers.
            product = x * y
            for numerator in (
                x,
                product,
                product + np.array(1, dtype),
                product - np.array(1, dtype),
                y + np.array(1, dtype),
            ):
                with np.errstate(all="ignore"):
                    np.testing.assert_array_equal(
                        made[2 * k](numerator, y), np.floor_divide(numerator, y), err_msg=dtype
                    )
                    np.testing.assert_array_equal(made[2 * k + 1](numerator, y), np.mod(numerator, y), err_msg=dtype)

    def test_floats(self):
        rng = np.random.RandomState(1)
        odd = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 3, -3, 1e-40, 5e-324, 1e38, 0.1, 1.7e308]
        for dtype in ("float32", "float64"):
            t = scalar.get_scalar_type(dtype)
            divide, modulus = self.functions([op(t(), t()).owner for op in (scalar.int_div, scalar.mod)])
            n = 100000

            def draw():
                with np.errstate(all="ignore"):
                    numbers = (rng.randn(n) * np.exp(rng.uniform(-20, 20, n))).astype(dtype)
                    numbers = np.where(rng.rand(n) < 0.3, np.rint(numbers), numbers)
                    return np.where(rng.rand(n) < 0.2, rng.choice(np.array(odd).astype(dtype), n), numbers).astype(
                        dtype
                    )

            with np.errstate(all="ignore"):
                x, y = draw(), draw()
                x = np.where(rng.rand(n) < 0.3, y * rng.randint(-9, 9, n).astype(dtype), x)
                for got, expected in ((divide(x, y), np.floor_divide(x, y)), (modulus(x, y), np.mod(x, y))):
                    np.testing.assert_array_equal(got, expected, err_msg=dtype)
                    number = ~np.isnan(expected)
                    np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(expected)[number])


@unittest.skipUnless(config.cxx, "needs a C++ compiler")
class TestDivision(Division, unittest.TestCase):
    functions = staticmethod(compiled)


class Complex:
    def test_arithmetic(self):
        """Complex arithmetic equals that of NumPy for infinite, NaN, huge and tiny parts."""
        parts = [0.0, 1.0, -2.5, 0.3, np.inf, -np.inf, np.nan]
        numbers = np.array([complex(a, b) for a in parts for b in parts])
        x, y = [a.ravel() for a in np.meshgrid(numbers, numbers)]
        for dtype, big, small in (("complex64", 1e38, 1e-44), ("complex128", 1e308, 5e-324)):
            t = scalar.get_scalar_type(dtype)
            mul, div, inv, absolute, sqr = self.functions(
                [
                    scalar.mul(t(), t()).owner,
                    scalar.true_div(t(), t()).owner,
                    scalar.inv(t()).owner,
                    scalar.abs_(t()).owner,
                    scalar.sqr(t()).owner,
                ]
            )
            rtol = 1e-6 if dtype == "complex64" else 1e-15
            with np.errstate(all="ignore"):
                a, b = x.astype(dtype), y.astype(dtype)
                np.testing.assert_allclose(mul(a, b), a * b, rtol=rtol, atol=1e-7 if dtype == "complex64" else 1e-15)
                np.testing.assert_allclose(div(a, b), a / b, rtol=rtol, atol=1e-7 if dtype == "complex64" else 1e-15)
                np.testing.assert_allclose(
                    sqr(a), np.square(a), rtol=rtol, atol=1e-7 if dtype == "complex64" else 1e-15
                )
                np.testing.assert_allclose(inv(a), np.reciprocal(a), rtol=rtol)
                wide = np.array(
                    [complex(p, q) for p in (big, -big / 3, 1, small, 3 * small, 0) for q in (big / 2, -1, small, 0)]
                ).astype(dtype)
                a = np.concatenate([a, wide])
                np.testing.assert_allclose(absolute(a), np.abs(a), rtol=rtol)


@unittest.skipUnless(config.cxx, "needs a C++ compiler")
class TestComplex(Complex, unittest.TestCase):
    functions = staticmethod(compiled)


if __name__ == "__main__":
    unittest.main()
