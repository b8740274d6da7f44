"""Replacements are computed in the dtypes of the variables that they replace.

Integers wrap around and floats are rounded at the places where the program does so.
"""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import FAST_RUN
from theano_ng.gof.optdb import Query
from theano_ng.tensor import nnet
from theano_ng.tensor.tests.rewriting import RewriteCase

VALUES = {
    "a": [100, -128, 7],
    "b": [100, 3, -128],
    "l": [-3, 50, 7],
    "k": [1000, -2, 3],
    "u": [200, 1, 5],
    "w": [3, 2**63, 7],
    "p": [True, False, True],
    "x": [0.3, -2.0, 1.5],
    "y": [1.7, 0.4, -0.6],
    "f": [0.3, 1.2, 2.7],
    "g": [0.9, -1.1, 0.1],
    "h": [1e-3, 2.0, -3.0],
    "z": [1 + 2j, -1j, 2],
    "s": 3,
    "r": 0.3,
}


def number(value, dtype):
    return T.constant(np.asarray(value, dtype))


class TestDtypes(RewriteCase):
    query = FAST_RUN.provided_optimizer

    def setUp(self):
        super().setUp()
        self.a, self.b, self.l, self.k = T.bvector("a"), T.bvector("b"), T.lvector("l"), T.lvector("k")
        self.u, self.w = T.vector("u", dtype="uint8"), T.vector("w", dtype="uint64")
        self.p, self.h = T.vector("p", dtype="bool"), T.vector("h", dtype="float16")
        self.x, self.y, self.f, self.g, self.z = (
            T.dvector("x"),
            T.dvector("y"),
            T.fvector("f"),
            T.fvector("g"),
            T.zvector("z"),
        )

    def check_all(self, *outputs, rtol=1e-12):
        for out in outputs:
            with self.subTest(str(out)):
                self.check(out, None, VALUES, rtol=rtol)

    def test_operands_that_are_left(self):
        """A result keeps its dtype if rules remove or move the only operand that has this dtype.

        This operand is a zero, a one or a factor.
        """
        a, b, u, l, s, r = self.a, self.b, self.u, self.l, T.lscalar("s"), T.dscalar("r")
        self.check_all(
            T.add(a, b, T.alloc(number(0, "int64"), 3)),
            T.mul(a, b, T.alloc(number(1, "int64"), 3)),
            T.log(T.add(number(1, "float64"), abs(a), abs(b))),
            T.mul(s, a, b).sum(),
            T.mul(r, a, b).sum(),
            T.mul(s, u, u).sum(),
            T.set_subtensor(l[[2, 0]], T.add(l[[2, 0]], a[:2], b[:2])),
        )

    def test_products_in_narrower_dtypes_are_not_opened(self):
        a, b, x, y = self.a, self.b, self.x, self.y
        total = T.exp(x) + T.exp(y)
        self.check_all(
            (a * b + x / y) * y,
            (a * b) / (1 + T.exp(x)),
            y / ((a * b) * (1 + T.exp(x))),
            T.exp(x) * T.mul(a, b, nnet.sigmoid(-x)),
            T.mul(a, b, T.exp(-T.sqr(x))) / T.erfc(x),
            (a * b) * T.exp(-T.sqr(x)) / T.erfc(x),
            T.exp(x) * T.mul(a, b) / (total * T.mul(a, a, b)),
            T.exp(x) / T.mul(a, b, total),
        )

    def test_branches_of_switches(self):
        a, b, l, k, p, f, g = self.a, self.b, self.l, self.k, self.p, self.f, self.g
        self.check_all(
            T.switch(p, a, l) * T.switch(p, b, k),
            T.switch(p, a, l) + T.switch(p, b, k),
            T.switch(p, number(0, "int64"), a) * b,
            T.switch(p, number(0, "float64"), f) * g,
            T.switch(p, number(0, "float64"), f) / g,
        )

    def test_functions_of_narrower_floats(self):
        a, f, y = self.a, self.f, self.y
        self.check_all(
            number(1, "float64") / f,
            number(1, "float64") / a,
            T.ones_like(y) / f,
            T.log(f**y),
            T.log(f ** number(2, "float64")),
        )

    def test_logarithms_of_products_of_narrower_floats(self):
        """Logarithms of products that contain float32 factors are as accurate as their dtype, float64.

        Rules must not compute squares and exponentials in float32.
        """
        f, y = self.f, self.y
        narrow = np.float32(VALUES["f"])
        wide, others = narrow.astype("float64"), np.array(VALUES["y"])
        for out, expected in [
            (T.log(T.sqr(f) * T.exp(y)), np.log(wide**2) + others),
            (T.log(T.exp(f) * T.exp(y)), wide + others),
            (T.log(T.prod(T.exp(f), dtype="float64")), wide.sum()),
            (T.log(T.prod(T.sqr(f), dtype="float64")), np.log(wide**2).sum()),
        ]:
            with self.subTest(str(out)):
                computed = theano.function([f, y], out, on_unused_input="ignore")(narrow, others)
                np.testing.assert_allclose(computed, expected, rtol=1e-12)

    def test_powers_without_logarithms_of_their_own(self):
        """Logarithms of some powers are not rewritten: powers of integers wrap around, and log(z ** 2) is not 2 log(z)
        for negative z.
        """
        self.check_all(T.log(self.a**self.b), T.log(self.z**2), T.log(self.z**self.z))

    def test_opposites(self):
        """Negation wraps around for unsigned integers and the lowest integer, so rules must not move or cancel the
        sign.
        """
        a, u, w, l, x = self.a, self.u, self.w, self.l, self.x
        self.check_all(
            -u - -l,
            -a - -l,
            -(number(-128, "int8") / x),
            (-w) / (w + w),
            x / -u,
            -T.max(-a),
            1 + T.erf(-u),
            1 + T.erf(-a),
            -1 + T.erfc(-u),
        )
        # Exponentials of narrow integers are float32. The arguments are so small that no exponential overflows, neither
        # before nor after rewriting.
        self.check_all(
            1 / (1 + T.exp(u)),
            x / (1 + T.exp(u)),
            1 / (1 + T.exp(-(u % 80))),
            T.exp(u % 80) * nnet.sigmoid(-(u % 80)),
            T.log(nnet.sigmoid(-u % 80)),
            1 / (1 + T.exp(-T.maximum(a, -80))),
            rtol=1e-5,
        )

    def test_constants_without_a_product(self):
        h, x = self.h, self.x
        self.check_all(h * number(300, "float16") * number(300, "float16"), rtol=1e-2)
        self.check_all(
            x * 1e-200 * 1e-200 * number(1e300, "float64"),
            x / 1e200 / 1e200 * 1e300,
            (x * 1e200 * 1e-10) * 1e200 * 1e-300,
            x + -1.5e308 - 1.5e308,
        )

    def test_rows_that_are_set_to_rounded_sums(self):
        """If a graph sets rows to the sum of these rows and other values, the rewritten graph rounds the sum once.

        The sum is rounded to the dtype of the rows; its terms are not rounded before.
        """
        a, u, p, f, x, rows = self.a, self.u, self.p, self.f, self.x, [2, 0]
        for v in (a, u, p, f):
            self.check_all(T.set_subtensor(v[rows], v[rows] + x[:2]), T.set_subtensor(v[rows], v[rows] + self.l[:2]))

    def test_absolute_values_of_narrower_complex_numbers(self):
        """The absolute value of a product of complex64 and float64 numbers has the accuracy of float64.

        Rules must not compute it from the absolute value of the complex64 number, which is a float32.
        """
        z, y = T.cast(self.z, "complex64"), self.y
        for out in (abs(z * y), abs(y / z)):
            self.check(out, None, VALUES, query=Query(["canonicalize"]), rtol=1e-12)

    def test_complex_factors(self):
        z, w = self.z, self.z[::-1]
        self.check_all(abs(z) * abs(w) * number(1 - 2j, "complex128"), z / abs(z), -z * -w, T.log(1 + z))


if __name__ == "__main__":
    unittest.main()
