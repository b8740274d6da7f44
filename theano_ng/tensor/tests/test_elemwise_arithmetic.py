"""Tests of powers and divisions, whose kernels compute several elements at once, against long double and NumPy."""

import random
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as tt


def function(operator, dtype, number=False):
    x, y = tt.vector(dtype=dtype), tt.TensorType(dtype, [number])()
    return theano.function([x, y], operator(x, y))


def long_power(x, y):
    """Return x ** y, computed by the C library in long double and rounded to the dtype of x."""
    with np.errstate(all="ignore"):
        return np.power(x.astype("longdouble"), y.astype("longdouble")).astype(x.dtype)


class TestPower(unittest.TestCase):
    @classmethod
    @theano.change_flags({"DebugMode.check_finite": False})
    def setUpClass(cls):
        cls.powers = {dtype: function(lambda x, y: x**y, dtype) for dtype in ("float32", "float64")}

    def check(self, x, y, units=4):
        x, y = np.asarray(x), np.asarray(y, x.dtype)
        expected = long_power(x, y)
        got = self.powers[str(x.dtype)](x, y)
        info = np.finfo(x.dtype)
        # Differences are measured in units in the last place. A unit is at least the spacing of denormal numbers. Near
        # the largest number, a finite result and infinity are both accepted.
        both = np.isfinite(expected) & np.isfinite(got)
        unit = np.maximum(np.abs(np.where(both, expected, 1)) * info.eps, info.smallest_subnormal)
        wrong = both & ~(np.abs(np.where(both, got, 0) - np.where(both, expected, 0)) <= units * unit)
        largest = np.abs(np.nan_to_num(np.where(np.isinf(got), expected, got))) > info.max * (1 - 8 * info.eps)
        wrong |= ~both & ~(
            (got == expected) | np.isnan(got) & np.isnan(expected) | np.isinf(got) ^ np.isinf(expected) & largest
        )
        wrong |= ~np.isnan(expected) & (np.signbit(got) != np.signbit(expected))
        self.assertFalse(
            wrong.any(), [(a, b, g, e) for a, b, g, e in zip(x[wrong], y[wrong], got[wrong], expected[wrong])][:5]
        )

    def test_ranges(self):
        """Powers agree with long double for bases and results of all magnitudes, and for bases near 1.

        Some results overflow, underflow or are denormal.
        """
        rng = np.random.RandomState(0)
        n = 20011  # not a multiple of the vector length
        for dtype, top in (("float64", 1020.0), ("float32", 125.0)):
            exponent = rng.uniform(-1.09, 1.02, n) * top
            for bits in (top, 1.0, 1e-3):
                x = np.exp2(rng.uniform(-bits, bits, n)).astype(dtype)
                with np.errstate(all="ignore"):
                    self.check(x, np.where(x == 1, 0, exponent / np.log2(x.astype("float64"))).astype(dtype))
            tiny = np.finfo(dtype).smallest_subnormal * rng.randint(1, 1000, n).astype(dtype)
            self.check(tiny, rng.uniform(-1, 1, n).astype(dtype))
            self.check(rng.randint(-40, 40, n).astype(dtype), rng.randint(-9, 12, n))

    def test_special_values(self):
        for dtype in ("float64", "float32"):
            info = np.finfo(dtype)
            whole = float(1 / info.eps)  # from 2 * whole on, all floats are even integers
            positive = [
                0,
                1,
                2,
                3,
                0.5,
                0.25,
                1.5,
                1e3,
                np.inf,
                info.max,
                info.tiny,
                info.tiny / 8,
                info.smallest_subnormal,
                1 + info.eps,
                1 - info.eps / 2,
                whole - 1,
                whole + 1,
                2 * whole - 1,
                2 * whole,
                4 * whole,
                127,
                128,
                149,
                150,
                1023,
                1024,
                1075,
            ]
            values = np.array([*positive, *[-v for v in positive], np.nan], dtype)
            x, y = [a.ravel() for a in np.meshgrid(values, values)]
            self.check(x, y)
            # A power does not depend on the other elements or on the length of the array.
            f = self.powers[dtype]
            whole_arrays = f(x, y)
            for length in (1, 2, 3, 5, 9, 17, 33):
                for k in range(0, len(x) - length, 7 if length == 1 else 131):
                    np.testing.assert_allclose(
                        f(x[k : k + length], y[k : k + length]), whole_arrays[k : k + length], rtol=4 * info.eps
                    )

    def test_one_exponent(self):
        """Powers are right if the exponent is one number for all elements, a column, or a vector of integers.

        Powers of float16 are computed in float32. One fused kernel contains powers of two precisions.
        """
        rng = np.random.RandomState(1)
        x = rng.uniform(0.1, 9, 1003)
        for dtype, rtol in (("float16", 1e-3), ("float32", 1e-6), ("float64", 1e-14)):
            f = function(lambda x, y: x**y, dtype, number=True)
            for y in (-1.5, 0.0, 1.0, 2.5, 3.0):
                np.testing.assert_allclose(
                    f(x.astype(dtype), np.array([y], dtype)), x.astype(dtype).astype("float64") ** y, rtol=rtol
                )
        m, c, k = tt.dmatrix(), tt.dcol(), tt.bvector()
        a, b = rng.uniform(0.1, 9, (70, 101)), rng.uniform(-2, 2, (70, 1))
        np.testing.assert_allclose(theano.function([m, c], m**c)(a, b), a**b, rtol=1e-14)
        i = rng.randint(-5, 5, 101).astype("int8")
        fused = theano.function([m, k], tt.exp(-(m**k)) + tt.cast(m, "float32") ** 1.5)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(fused(a, i), np.exp(-(a**i)) + a.astype("float32") ** 1.5, rtol=1e-6)


class TestDivisionByNumber(unittest.TestCase):
    """Integer quotients by one divisor are exact, although kernels multiply by an inverse that they compute once."""

    def compare(self, f, x, divisors):
        for y in divisors:
            if y == 0:
                self.assertRaises(ZeroDivisionError, f, x, np.array([y], x.dtype))
                continue
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(
                    f(x, np.array([y], x.dtype)), np.floor_divide(x, np.array(y, x.dtype)), err_msg="// %d" % y
                )

    def test_all_bytes(self):
        for dtype in ("int8", "uint8"):
            info = np.iinfo(dtype)
            every = np.arange(info.min, info.max + 1).astype(dtype)
            self.compare(function(lambda x, y: x // y, dtype, number=True), every, every)

    def test_wider(self):
        rng = random.Random(0)
        for dtype in ("int16", "uint16", "int32", "uint32", "int64", "uint64"):
            info = np.iinfo(dtype)
            f = function(lambda x, y: x // y, dtype, number=True)
            powers = [2**k + d for k in range(info.bits - (info.min < 0)) for d in (-1, 0, 1) if 2**k + d <= info.max]
            divisors = {
                0,
                3,
                7,
                10,
                641,
                info.max,
                info.max - 1,
                info.min,
                info.min // 2,
                *rng.sample(powers, 9),
                *[rng.randint(1, info.max) for _ in range(5)],
            }
            divisors |= {-d for d in divisors if info.min} - {-info.min}
            for y in divisors:
                y = int(y)
                if info.bits == 16:
                    x = np.arange(info.min, info.max + 1).astype(dtype)
                else:  # multiples of the divisor and their neighbors, also at both ends of the range
                    quotients = [
                        *range(-3, 4),
                        *[info.max // (y or 1) - k for k in range(3)],
                        *[rng.randint(0, info.max) for _ in range(30)],
                    ]
                    x = np.array(
                        [v for q in quotients for v in (q * y - 1, q * y, q * y + 1) if info.min <= v <= info.max]
                        + [info.min, info.max, 0],
                        dtype,
                    )
                self.compare(f, x, [y])

    def test_one_divisor_a_row(self):
        m, c = tt.TensorType("int16", (False, False))(), tt.TensorType("int16", (False, True))()
        rng = np.random.RandomState(1)
        x, y = rng.randint(-(2**15), 2**15, (40, 100)).astype("int16"), rng.randint(-9, 9, (40, 1)).astype("int16")
        f = theano.function([m, c], [m // c, m // c + m % c])
        self.assertRaises(ZeroDivisionError, f, x, y)
        y[y == 0] = 10
        with np.errstate(all="ignore"):
            quotient, both = f(x, y)
            np.testing.assert_array_equal(quotient, x // y)
            np.testing.assert_array_equal(both, x // y + x % y)


if __name__ == "__main__":
    unittest.main()
