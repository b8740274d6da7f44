"""Rules for log1p, expm1, log-sum-exp and error functions: the graphs, and values where the original expressions fail."""

import itertools
import unittest

import numpy as np
from scipy import special

import theano_ng
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.compile.mode import Mode
from theano_ng.configparser import change_flags
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.rewriting import in2out
from theano_ng.tensor.opt import local_grad_log_erfc_neg, local_log1p, local_log_prod_sqr
from theano_ng.tensor.tests.rewriting import RewriteCase, shown

FAST = Mode("py", "fast_run")


class TestLogExp(RewriteCase):
    def test_log1p(self):
        x, m, f = T.dvector("x"), T.dmatrix("m"), T.fvector("f")
        self.check(T.log(1 + x), "log1p(x)")
        self.check(T.log(x + 1), "log1p(x)")
        self.check(T.log(1 - x), "log1p(neg(x))", {"x": [0.1, 0.5, 0.9]})
        self.check(T.log(1 + f), "log1p(f)")
        self.check(T.log(2 + x), "log(add(2.0, x))")
        self.check(T.log(T.ones_like(m) + x), None)
        self.check(T.log(1 + T.ivector("i")), None)
        tiny = theano_ng.function([x], T.log(1 + x), mode=FAST)([1e-20])
        np.testing.assert_allclose(tiny, [1e-20])

    def test_log1p_of_all_dtypes(self):
        """log(1 + x) becomes log1p of x, where x is first cast to the dtype of the sum, without loss of digits.

        Logarithms of integer sums are not rewritten.
        """
        dtypes = ["int8", "uint8", "int16", "int32", "uint32", "int64", "float32", "float64"]
        for dtype in dtypes:
            x, few = T.TensorType(dtype, (False,))("x"), np.array([0, 1, 3, 100], dtype)
            for one in map(np.dtype, ("float32", "float64")):
                for out, want in ((T.log(one.type(1) + x), np.log1p), (T.log(one.type(1) - x), lambda v: np.log1p(-v))):
                    fgraph = FunctionGraph([x], [out], clone=True)
                    in2out(local_log1p, ignore_newtrees=True).optimize(fgraph)
                    self.assertIn("log1p", shown(fgraph))
                    self.assertEqual(fgraph.outputs[0].dtype, out.dtype)
                    got = theano_ng.function(fgraph.inputs, fgraph.outputs[0], mode=Mode("py", None))(few)
                    with np.errstate(all="ignore"):
                        np.testing.assert_allclose(got, want(few.astype(out.dtype)), rtol=4 * np.finfo(out.dtype).eps)
            if dtype[0] == "f":
                continue
            limits, one = np.iinfo(dtype), np.ones((), dtype)
            values = np.array([limits.min, limits.min + 1, 0, 1, 2, limits.max - 1, limits.max], dtype)
            for out, inside in ((T.log(one + x), one + values), (T.log(one - x), one - values)):
                with np.errstate(all="ignore"):
                    want = np.log(inside.astype(out.dtype))
                got = theano_ng.function([x], out, mode=FAST)(values)
                np.testing.assert_allclose(got, want, rtol=4 * np.finfo(out.dtype).eps, err_msg=str(out.owner.inputs))

    def test_expm1(self):
        x, m = T.dvector("x"), T.dmatrix("m")
        self.check(T.exp(x) - 1, "expm1(x)")
        self.check(-1 + T.exp(x), "expm1(x)")
        self.check(T.exp(x) + 1, "add(1.0, exp(x))")
        self.check(T.exp(x) - T.ones_like(m), None)
        self.check(T.exp(T.ivector("i")) - 1, None)
        np.testing.assert_allclose(theano_ng.function([x], T.exp(x) - 1, mode=FAST)([1e-20]), [1e-20])

    def test_log_add(self):
        x, y = T.dvectors("x", "y")
        f = self.check(T.log(T.exp(x) + T.exp(y)), None)
        np.testing.assert_allclose(f([1000.0, -1000.0], [1000.0, -1000.0]), np.array([1000.0, -1000.0]) + np.log(2))
        inf = np.inf
        a, b = np.array([[inf, -inf, inf, 0, -inf, 1000], [inf, -inf, -inf, inf, 2, 0]])
        for mode in (FAST, theano_ng.Mode("py", "fast_compile"), FAST.excluding("local_log_of_positive", "logarithms")):
            f = theano_ng.function([x, y], T.log(T.exp(x) + T.exp(y)), mode=mode)
            with change_flags({"DebugMode.check_finite": False}), np.errstate(all="ignore"):
                np.testing.assert_array_equal(f(a, b), np.logaddexp(a, b))

    def test_log_sum_exp(self):
        x = T.dmatrix("x")
        data = np.array([[1000.0, 1001.0], [-1000.0, -1002.0]])
        for axis, keepdims in [(None, False), (0, False), (1, True), ((0, 1), False), (1, False)]:
            f = theano_ng.function([x], T.log(T.sum(T.exp(x), axis=axis, keepdims=keepdims)), mode=FAST)
            np.testing.assert_allclose(f(data), special.logsumexp(data, axis=axis, keepdims=keepdims))
        f = theano_ng.function([x], T.log(T.sum(T.exp(x), axis=1)), mode=FAST)
        self.assertEqual(f([[-np.inf, -np.inf], [np.inf, 1.0]]).tolist(), [-np.inf, np.inf])
        # If the expression already subtracts its maximum, the maximum is computed once.
        for axis in (None, 0, 1):
            out = T.log(T.sum(T.exp(x - T.max(x, axis=axis, keepdims=True)), axis=axis)) + T.max(x, axis=axis)
            f = theano_ng.function([x], out, mode=FAST.excluding("row_fusion"))
            np.testing.assert_allclose(f(data), special.logsumexp(data, axis=axis))
            self.assertEqual(
                sum(isinstance(getattr(n.op, "scalar_op", None), scalar.Maximum) for n in f.maker.fgraph.toposort()), 1
            )

    def test_log_of_products(self):
        x, y = T.dvectors("x", "y")
        self.check(T.log(x**3), "mul(3.0, log(x))")
        self.check(T.log(x**y), "mul(y, log(x))")
        self.check(T.log(x**2), None, {"x": [-1.0, 2.0, -3.0]})
        self.check(T.log(T.prod(T.exp(x))), "Sum(x)")
        self.check(T.log(T.exp(x) * T.exp(y)), "add(x, y)")
        self.check(T.log(x * y), "log(mul(x, y))")
        self.check(T.log(T.prod(x)), None, {"x": [-1.0, 2.0, -3.0]})
        f = theano_ng.function([x], T.log(T.prod(T.exp(x))), mode=FAST)
        np.testing.assert_allclose(f([1000.0, 2000.0]), 3000.0)
        for square in (T.sqr(x), x**2, x**2.0, x ** np.int8(2), x ** T.constant([2.0])):
            for out in (T.log(square * T.exp(y)), T.log(T.exp(y) * square)):
                fgraph = FunctionGraph([x, y], [out], clone=True)
                in2out(local_log_prod_sqr, ignore_newtrees=True).optimize(fgraph)
                f = theano_ng.function(fgraph.inputs, fgraph.outputs[0], mode=Mode("py", None))
                np.testing.assert_allclose(f([-1e200, 1e-300], [1.0, 2.0]), 2 * np.log([1e200, 1e-300]) + [1, 2])
        for other in (x**3, x**4, x**-2, x**y, x**2.5):
            fgraph = FunctionGraph([x, y], [T.log(other * T.exp(y))], clone=True)
            in2out(local_log_prod_sqr, ignore_newtrees=True).optimize(fgraph)
            self.assertEqual(fgraph.outputs[0].owner.op, T.log, other.owner)


class TestErrorFunctions(RewriteCase):
    def test_patterns(self):
        x = T.dvector("x")
        for out, expected in [
            (1 - T.erf(x), "erfc(x)"),
            (1 + (-T.erf(x)), "erfc(x)"),
            (-T.erf(x) + 1, "erfc(x)"),
            (T.erf(x) - 1, "neg(erfc(x))"),
            (-1 + T.erf(x), "neg(erfc(x))"),
            (1 - T.erfc(x), "erf(x)"),
            (1 + (-T.erfc(x)), "erf(x)"),
            (2 - T.erf(x), "sub(2.0, erf(x))"),
            (-1 + T.erfc(-x), "erf(x)"),
            (1 + T.erf(-x), "erfc(x)"),
        ]:
            self.check(out, expected)
        f = theano_ng.function([x], 1 - T.erf(x), mode=FAST)
        np.testing.assert_allclose(f([10.0]), special.erfc([10.0]))

    def test_complex(self):
        """Expressions with erf of complex numbers are not rewritten, since erfc accepts no complex numbers."""
        z = T.zvector("z")
        for out in (1 - T.erf(z), T.erf(z) - 1, 1 + T.erf(-z), 1 + -T.erf(z)):
            f = theano_ng.function([z], out, mode=FAST)
            values = np.array([0.3 + 1j, -2 - 0.5j])
            np.testing.assert_allclose(f(values), theano_ng.function([z], out, mode=Mode("py", None))(values))

    def test_log_erfc(self):
        for dtype, points in [
            ("float64", [-3.0, 0.0, 5.0, 26.0, 27.0, 100.0, 1e5]),
            ("float32", [-3.0, 0.0, 5.0, 9.0, 11.0, 100.0]),
        ]:
            x = T.vector("x", dtype=dtype)
            f = theano_ng.function([x], T.log(T.erfc(x)), mode=FAST)
            points = np.asarray(points, dtype=dtype)
            # erfc(x) = exp(-x**2) erfcx(x), so its logarithm is log(erfcx(x)) - x**2.
            wide = points.astype("float64")
            expected = np.log(special.erfcx(wide)) - wide**2
            np.testing.assert_allclose(f(points), expected, rtol=1e-10 if dtype == "float64" else 1e-4)

    def test_squares_of_integers_wrap_around(self):
        """exp(-sqr(x)) / erfc(x) keeps its values for integers x, whose square may wrap around.

        Rules must not replace such a square by the square of the float argument of erfc.
        """
        x, y = T.bvector("x"), T.dvector("y")
        self.check(y * T.exp(-T.sqr(x)) / T.erfc(x), None, {"x": [-128, 2, 1], "y": [1, 2, 3]})

    def test_gradients_of_log_erfc_by_extreme_numbers(self):
        x, y, values = T.dvector("x"), T.dvector("y"), np.array([-1.0, 2.0, 1.0])
        rule, plain = (theano_ng.Mode("py", query) for query in (in2out(local_grad_log_erfc_neg), None))
        for number, other in itertools.product((1.7e308, 0.0, np.inf, np.nan), (0.0, 1.0)):
            out = y * T.exp(-T.sqr(number * x)) / T.erfc(other * x)
            got, wanted = (theano_ng.function([x, y], out, mode=mode)(values, values) for mode in (rule, plain))
            np.testing.assert_allclose(got, wanted)

    def test_grad_log_erfc(self):
        x, y = T.dvector("x"), T.dvector("y")
        points = np.array([-3.0, 0.0, 5.0, 26.0, 27.0, 100.0, 1e4])
        expected = -2 / np.sqrt(np.pi) / special.erfcx(points)
        f = theano_ng.function([x], theano_ng.grad(T.log(T.erfc(x)).sum(), x), mode=FAST)
        np.testing.assert_allclose(f(points), expected, rtol=1e-9)
        for out in (y * T.exp(-T.sqr(x)) / T.erfc(x), T.exp(-(x * x)) / T.erfc(x), T.exp((-x) * x) * y / T.erfc(x)):
            f = theano_ng.function([x, y], out, mode=FAST, on_unused_input="ignore")
            np.testing.assert_allclose(f(points, np.ones(7)), 1 / special.erfcx(points), rtol=1e-9)


if __name__ == "__main__":
    unittest.main()
