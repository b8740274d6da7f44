"""Rules for identities, useless operations, comparisons, switches and assertions."""

import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.configparser import change_flags
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.rewriting import in2out
from theano_ng.tensor.opt import is_an_upcast, is_inverse_pair
from theano_ng.tensor.opt.algebra import local_mul_of_constants
from theano_ng.tensor.tests.rewriting import RewriteCase, shown


class TestFunctions(RewriteCase):
    def test_inverses(self):
        x = T.dvector("x")
        for out in (
            T.deg2rad(T.rad2deg(x)),
            T.inv(T.inv(x)),
            -(-x),
            T.cosh(T.arccosh(x + 1)) - 1,
            T.tanh(T.arctanh(x / 2)) * 2,
            T.sinh(T.arcsinh(x)),
            T.conj(T.conj(T.zvector("z"))),
        ):
            self.check(out, "z" if out.dtype[0] == "c" else "x")
        self.assertFalse(is_inverse_pair(T.exp.scalar_op, T.log.scalar_op, (type(T.neg.scalar_op),) * 2))

    def test_signs(self):
        x, y, z = T.dvectors("x", "y", "z")
        for out, expected in [
            (-x * y, "neg(mul(x, y))"),
            (-x * -y, "mul(x, y)"),
            (x * -1, "neg(x)"),
            (-x * -1, "x"),
            (-(-x / y), "true_div(x, y)"),
            (-(2 / y), "true_div(-2.0, y)"),
            (abs(x) * abs(y), "abs_(mul(x, y))"),
            (abs(x * y), "abs_(mul(x, y))"),
            (abs(x) / abs(y), "abs_(true_div(x, y))"),
        ]:
            self.check(out, expected, {"x": [-1, 2, 3.0], "y": [2.0, -3, 4]})
        self.check(-T.bvector("b"), None, {"b": [-128, 0, 127]})
        # Factors share a negation or an absolute value, some factors are complex, and constants have signs.
        z, w = T.zvector("z"), T.zvector("w")
        negative, size = -x, abs(x)
        for out in (
            negative * negative,
            negative * negative * negative,
            negative * negative * y * -1,
            size * size,
            size * size * abs(y),
            size / abs(size * y),
            abs(negative * negative * y),
            abs(z) * abs(w) * T.constant(np.complex128(1 - 2j)),
            abs(x) * abs(y) * T.constant(-0.0),
            abs(x) * abs(y) * T.constant(-2.0),
        ):
            self.check(out, None, {"x": [-1, 2, 3.0], "y": [2.0, -3, 4], "z": [1 - 1j, 2, -3j], "w": [2j, 1, 1 + 1j]})

    def test_signs_used_elsewhere(self):
        x, y = T.dvectors("x", "y")
        negative, size = -x, abs(x)
        for shared, out, expected in [
            (negative, negative * y, "*1 -> neg(x), mul(*1, y)"),
            (negative, negative * y * -1, "neg(x), mul(x, y)"),
            (negative, negative * -y, "neg(x), mul(x, y)"),
            (size, size * abs(y), "*1 -> abs_(x), mul(*1, abs_(y))"),
            (x * y, abs(x * y), "*1 -> mul(x, y), abs_(*1)"),
            (2 / (x * y), -(2 / (x * y)), "*1 -> true_div(2.0, mul(x, y)), neg(*1)"),
            (negative, -(negative / y), "neg(x), true_div(x, y)"),
            (negative / y, -(negative / y), "*1 -> true_div(neg(x), y), neg(*1)"),
        ]:
            f = theano_ng.function([x, y], [shared, out], mode=Mode("py", self.query))
            self.assertEqual(shown(f.maker.fgraph), expected)
            for got, want in zip(
                f([1.0, -2.0], [3.0, 4.0]),
                theano_ng.function([x, y], [shared, out], mode="FAST_COMPILE")([1.0, -2.0], [3.0, 4.0]),
            ):
                np.testing.assert_array_equal(got, want)

    def test_signs_of_integers(self):
        x = T.dvector("x")
        b, c, u, l = T.bvector("b"), T.bvector("c"), T.vector("u", dtype="uint8"), T.lvector("l")
        wide = {
            "b": [100, -128, 7],
            "c": [2, 3, -3],
            "u": [200, 1, 7],
            "l": [-3, 5, 7],
            "x": [1, -2, 3.0],
            "q": [True, False, True],
        }
        for out in (
            -u * x,
            -u * -x,
            x * -u * 2,
            abs(b) * abs(c),
            abs(b) * abs(l) * abs(c),
            abs(b) / abs(c),
            abs(b * x),
            abs(b / c),
            -(-u / x),
            -(-b / c),
            u * -1,
            -b * l,
            l * -b * -1,
            b * c * T.constant(1, dtype="int64"),
            T.vector("q", dtype="bool") * -1,
            b * T.vector("q", dtype="bool") / b,
        ):
            self.check(out, None, wide)
        self.check(abs(T.bvector("b") * T.bvector("c")), None, {"b": [-128, 2, 127], "c": [1, -1, 2]})

    def test_zero_and_one(self):
        x, y, i = T.dvector("x"), T.dvector("y"), T.ivector("i")
        for out, expected in [
            (x * 0, "second(x, 0.0)"),
            (x + 0, "x"),
            (x * 1, "x"),
            (0 / x, "second(x, 0.0)"),
            (1 / x, "inv(x)"),
            (i // 1, "i"),
            (0 // i, "second(i, 0)"),
            (x**1, "x"),
            (x**0, "second(x, 1.0)"),
            (y * 0 + x, "x"),
        ]:
            self.check(out, expected)
        # the result keeps the shape to which both operands broadcast
        m, s = T.dmatrix("m"), T.drow("s")
        self.check(s * 1 + m * 0, None)
        self.check(s + T.zeros_like(m), None)
        self.check(s * T.ones_like(m), None)
        self.check(T.dscalar("d") * T.zeros_like(m), None)

    def test_products_of_constants(self):
        """Two constant factors become one constant, unless their product is too large or too small for the dtype."""
        for dtype, limits in (("float64", (1e200, 1e-200)), ("float32", (1e25, 1e-25)), ("float16", (1e3, 1e-4))):
            x = T.TensorType(dtype, (False,))("x")
            large, small = limits
            for c, d, merged in (
                (2, 3, True),
                (large, large, False),
                (small, small, False),
                (-small, small, False),
                (large, small, True),
                (0, small, True),
                (small, 0, True),
                (np.inf, large, True),
                (np.nan, small, True),
            ):
                first, second = [T.constant(np.array([v], dtype)) for v in (c, d)]
                for out in (x * first * second, second * (first * x)):
                    fgraph = FunctionGraph([x], [out], clone=True)
                    in2out(local_mul_of_constants, ignore_newtrees=True).optimize(fgraph)
                    products = [node for node in fgraph.apply_nodes if node.op == T.mul]
                    self.assertEqual(len(products), 1 if merged else 2, (dtype, c, d))
                    values = np.array([1 / large, 1, large], dtype)
                    f = theano_ng.function(fgraph.inputs, fgraph.outputs[0], mode=Mode("py", None))
                    if not merged:
                        with np.errstate(all="ignore"):
                            np.testing.assert_array_equal(f(values), values * np.array(c, dtype) * np.array(d, dtype))

    def test_differences_of_negatives(self):
        x, y = T.dvectors("x", "y")
        self.check(-x - -(y * y), "sub(sqr(y), x)")

    def test_powers(self):
        x, i = T.dvector("x"), T.ivector("i")
        for exponent, expected in [
            (2, "sqr(x)"),
            (-1, "inv(x)"),
            (-2, "inv(sqr(x))"),
            (3, "mul(x, sqr(x))"),
            (5, "mul(x, sqr(sqr(x)))"),
            (4, "sqr(sqr(x))"),
            (-3, "inv(mul(x, sqr(x)))"),
            (2.5, "pow(x, 2.5)"),
            (600, "pow(x, 600)"),
        ]:
            self.check(x**exponent, expected)
        for exponent in (0, 1, 2, 3, 7, 0.5):
            self.check(i**exponent, None)
        self.check(abs(x) ** 0.5, "sqrt(abs_(x))")
        self.check(T.exp(x) ** -0.5, "inv(sqrt(exp(x)))")
        self.check(x * x, "sqr(x)")
        self.check(T.fvector("f") ** 2, "sqr(f)")
        self.check(T.bvector("b") ** 2, None, {"b": [-12, 3, 100]})

    def test_powers_with_infinite_exponents(self):
        """Powers with exponents that are infinite, NaN or too large for an integer keep their values.

        Rules and gradients must not convert such an exponent to an integer.
        """
        x, value = T.dvector("x"), np.array([0.25, 1.0, 2.0])
        bases = [
            (x, value),
            (abs(x), value),
            (T.exp(x), np.exp(value)),
            (1 + T.exp(x), 1 + np.exp(value)),
            (T.tanh(x), np.tanh(value)),
            (T.nnet.sigmoid(x), 1 / (1 + np.exp(-value))),
            (x / x.sum(), value / value.sum()),
            (x * T.prod(x), value * value.prod()),
        ]
        for base, of_value in bases:
            for exponent in (np.inf, -np.inf, np.nan, 1e300, -1e300):
                power = base**exponent
                outputs = [power, power * base**2 / base, T.grad(power.sum(), x)]
                with np.errstate(all="ignore"):
                    got = theano_ng.function([x], outputs, mode="FAST_RUN")(value)
                    gradient = theano_ng.function([x], outputs[2], mode=Mode("py", None))(value)
                    np.testing.assert_array_equal(got[0], of_value**exponent)
                    np.testing.assert_allclose(got[1], of_value**exponent * of_value**2 / of_value)
                known = np.isfinite(gradient)  # elsewhere, rewriting may give other infinities or NaN
                np.testing.assert_allclose(got[2][known], gradient[known])

    def test_powers_of_integers(self):
        """Positive constant powers of integers become products, for every dtype.

        Products wrap around as powers do.
        """
        for dtype in ("int8", "int16", "int32", "int64"):
            i = T.vector("i", dtype=dtype)
            for exponent, expected in [
                (3, "mul(i, sqr(i))"),
                (5, "mul(i, sqr(sqr(i)))"),
                (8, "sqr(sqr(sqr(i)))"),
                (-3, "pow(i, -3)"),
            ]:
                self.check(
                    i ** np.array(exponent, "int8"), expected, {"i": [-1, 1, -1] if exponent < 0 else [-7, 0, 5]}
                )

    def test_roots_of_what_is_not_negative(self):
        """Roots of expressions that are known not to be negative need no switch for infinities."""
        x, y = T.dvectors("x", "y")
        e, square = T.exp(x), T.sqr(y)
        for v in (
            e,
            e + square,
            e + square + abs(x),
            e * square,
            2.5 * e,
            e / square,
            T.sum(square),
            T.sum(e + 3.0) / 4.0,
            square.dimshuffle("x", 0) + T.exp(T.dmatrix("m")),
        ):
            for power in (0.5, -0.5):
                with self.subTest(str(theano_ng.pp(v)), power=power):
                    self.assertNotIn("switch", shown(self.check(v**power, None).maker.fgraph))
        for v in (x, e + x, x * square, e / x, T.sum(x), e - square, -2.5 * e, x.dimshuffle("x", 0)):
            with self.subTest(str(theano_ng.pp(v))):
                self.assertIn("switch", shown(self.check(v**0.5, None).maker.fgraph))

    def test_roots_of_infinities(self):
        x = T.dvector("x")
        values = np.array([-np.inf, -4, -0.0, 0, 4, np.inf, np.nan])
        with change_flags({"DebugMode.check_finite": False}), np.errstate(all="ignore"):
            for v in (x**0.5, x**-0.5, (T.sqr(x).sum() / 3 + 1e-8) ** 0.5, (-x) ** 0.5):
                plain, rewritten = (theano_ng.function([x], v, mode=Mode("py", o))(values) for o in (None, "fast_run"))
                np.testing.assert_array_equal(rewritten, plain)
                np.testing.assert_array_equal(np.signbit(rewritten)[plain == plain], np.signbit(plain)[plain == plain])

    def test_casts(self):
        f, d, i = T.fvector("f"), T.dvector("d"), T.ivector("i")
        self.check(T.cast(T.cast(f, "float64"), "float32"), "f")
        self.check(T.cast(T.cast(i, "int64"), "float64"), "Cast{float64}(i)")
        self.check(T.cast(T.cast(d, "int8"), "float64"), "Cast{float64}(Cast{int8}(d))")
        self.assertTrue(
            is_an_upcast("int8", "int32") and is_an_upcast("uint8", "int16") and is_an_upcast("float32", "float64")
        )
        self.assertFalse(
            is_an_upcast("float64", "float32") or is_an_upcast("int64", "int64") or is_an_upcast("int8", "uint16")
        )

    def test_zero_dot(self):
        m, n, v = T.dmatrix("m"), T.dmatrix("n"), T.dvector("v")
        for out in (T.dot(m * 0, n), T.dot(m, v * 0), T.dot(v * 0, m), T.dot(v * 0, v)):
            self.check(out, None)
        f = theano_ng.function([m, n], T.dot(T.zeros_like(m), n), mode=Mode("py", "fast_run"))
        self.assertEqual(f(np.ones((2, 3)), np.ones((3, 4))).tolist(), np.zeros((2, 4)).tolist())
        self.assertRaises(AssertionError, f, np.ones((2, 3)), np.ones((4, 4)))


class TestUseless(RewriteCase):
    def test_elemwise(self):
        x, i, b = T.dvector("x"), T.ivector("i"), T.vector("b", dtype="bool")
        true, false = T.constant(np.array(True)), T.constant(np.array(False))
        for out, expected in [
            (T.eq(i, i), "second(i, True)"),
            (T.neq(i, i), "second(i, False)"),
            (i | 0, "i"),
            (i & 0, "second(i, 0)"),
            (i ^ i, "second(i, 0)"),
            (i & -1, "i"),
            (i | -1, "second(i, -1)"),
            (T.add(x), "x"),
            (T.mul(x), "x"),
            (T.tensor_copy(x), "x"),
            (T.or_(b, true), "second(b, True)"),
            (T.and_(b, true), "b"),
            (T.and_(b, false), "second(b, False)"),
        ]:
            self.check(out, expected, {"b": [True, False, True]})

    def test_comparisons(self):
        x, y = T.dvector("x"), T.dvector("y")
        n = x.shape[0]
        for out, expected in [
            (x < x, "second(x, False)"),
            (x > x, "second(x, False)"),
            (x <= x, "second(x, True)"),
            (x >= x, "second(x, True)"),
            (T.minimum(x, x), "x"),
            (T.maximum(x, x), "x"),
            (n < 0, "False"),
            (n >= 0, "True"),
            (T.lt(0, n + y.shape[0]), None),
            (T.gt(0, n), "False"),
            (T.le(0, n), "True"),
            (T.eq(n, -1), "False"),
            (T.minimum(n, 0), "0"),
        ]:
            self.check(out, expected)
        self.check(T.eq(n, 0), None)
        self.check(n > 0, None)

    def test_switches(self):
        x, y, c = T.dvector("x"), T.dvector("y"), T.dvector("c")
        cond = c > 1
        for out, expected in [
            (T.switch(1, x, y), "x"),
            (T.switch(0, x, y), "y"),
            (T.switch(cond, x, x), None),
            (T.switch(cond, x, y) + T.switch(cond, y, x), "switch(gt(c, 1), add(x, y), add(y, x))"),
            (T.switch(cond, 0, x) * y, "switch(gt(c, 1), 0, mul(x, y))"),
            (T.switch(cond, x, 0) * y, "switch(gt(c, 1), mul(x, y), 0)"),
            (T.switch(cond, 0, x) / y, "switch(gt(c, 1), 0, true_div(x, y))"),
        ]:
            self.check(out, expected)
        # If the factor in the switch is 0, the product is 0, even if the other factor is NaN.
        f = theano_ng.function([x, y], T.switch(x > 0, 0.0, 1.0) * y, mode=Mode("py", "fast_run"))
        self.assertEqual(f([1.0, -1.0], [np.nan, 3.0]).tolist(), [0.0, 3.0])
        m = T.dmatrix("m")
        self.check(T.switch(T.constant(1), x, m), None)
        self.check(T.switch(m > 1, x, x), None)

    def test_constants_get_the_dtype(self):
        f = self.check(T.dvector("x") + T.constant(np.int8(3)), "add(3.0, x)")
        self.assertEqual(f.maker.fgraph.outputs[0].owner.inputs[0].dtype, "float64")


class TestAsserts(RewriteCase):
    def test_conditions_on_one_another(self):
        # A rule may merge x.shape[0] with first.shape[0], or y.shape[0] with second.shape[0]. Each merge alone is
        # correct. Both together would make each condition depend on the other.
        x, y = T.dvectors("x", "y")
        first = T.opt.Assert("first")(x, T.gt(y.shape[0], 1))
        second = T.opt.Assert("second")(y, T.gt(x.shape[0], 1))
        fn = theano_ng.function([x, y], [first * first.shape[0], second * second.shape[0]], mode=Mode("py", "fast_run"))
        found = fn([1, 2], [3, 4, 5])
        np.testing.assert_array_equal(found[0], [2, 4])
        np.testing.assert_array_equal(found[1], [9, 12, 15])
        for values in (([1], [2, 3]), ([1, 2], [3])):
            with self.assertRaises(AssertionError):
                fn(*values)

    def test_rules(self):
        x = T.dvector("x")
        check = T.opt.Assert("too long")
        self.check(check(x, 1), "x")
        n = x.shape[0]
        f = theano_ng.function([x], check(x, n < 3, n < 3, True), mode=Mode("py", "fast_run"))
        (node,) = [n for n in f.maker.fgraph.toposort() if isinstance(n.op, T.opt.Assert)]
        self.assertEqual(len(node.inputs), 2)
        self.assertEqual(f([1.0, 2.0]).tolist(), [1.0, 2.0])
        with self.assertRaisesRegex(AssertionError, "too long"):
            f([1.0, 2.0, 3.0])
        for mode in (Mode("py", "unsafe"), Mode("py", "fast_run").including("local_remove_all_assert")):
            self.assertEqual(
                theano_ng.function([x], check(x, n < 3), mode=mode)([1.0, 2.0, 3.0]).tolist(), [1.0, 2.0, 3.0]
            )

    def test_what_was_checked_before_is_not_checked_again(self):
        x, s, t = T.dvector("x"), T.dscalar("s"), T.dscalar("t")
        first, again = T.opt.Assert("first"), T.opt.Assert("again")
        for out, left in (
            (again(first(x, s > 0), s > 0), ["first"]),
            (again(first(again(x, s > 0), t > 0), s > 0, t > 0), ["again", "first"]),
            (again(first(x, s > 0), t > 0), ["first", "again"]),
            (again(T.exp(first(x, s > 0)), s > 0), ["first", "again"]),
        ):
            f = theano_ng.function([x, s, t], out, mode=Mode("py", "fast_run"), on_unused_input="ignore")
            checks = [n.op for n in f.maker.fgraph.toposort() if isinstance(n.op, T.opt.Assert)]
            self.assertEqual([op.msg for op in checks], left)
            f([1.0], 1.0, 1.0)
            with self.assertRaisesRegex(AssertionError, left[0]):
                f([1.0], -1.0, 1.0)
            self.assertEqual(f([1.0], 1.0, 1.0).shape, (1,))

    def test_merging_sees_through(self):
        x, y = T.dvector("x"), T.dscalar("y")
        check = T.opt.Assert("negative")
        for out in (
            T.exp(check(x, y > 0)) + T.exp(x),
            T.exp(x) + T.exp(check(x, y > 0)),
            T.exp(check(x, y > 0)) + T.exp(check(x, y < 5)),
        ):
            f = theano_ng.function([x, y], out, mode=Mode("py", "merge"))
            self.assertEqual(sum(n.op == T.exp for n in f.maker.fgraph.toposort()), 1)
            np.testing.assert_allclose(f([0.0, 1.0], 1.0), 2 * np.exp([0.0, 1.0]))
            self.assertRaises(AssertionError, f, [0.0], -1.0 if out.owner is not None and "5" not in str(out) else 7.0)

    def test_merging_leaves_conditions_alone(self):
        x = T.dvector("x")
        check = T.opt.Assert("empty")
        once = check(x, x.shape[0] > 0)
        for out in (once.mean(), T.exp(check(once, T.exp(x).sum() > 0)) + T.exp(x)):
            f = theano_ng.function([x], out, mode=Mode("py", "merge"))
            np.testing.assert_allclose(f([1.0, 2.0]), [1.5] if out.ndim == 0 else 2 * np.exp([1.0, 2.0]))
            self.assertRaises(AssertionError, f, [])


if __name__ == "__main__":
    unittest.main()
