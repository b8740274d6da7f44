"""The documented behavior of operators and elementwise functions."""

import operator
import unittest

import numpy as np
import scipy.special
import scipy.stats

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gof.compiler import find_toolchain
from theano_ng.tensor import TensorType
from theano_ng.tensor.elemwise import Elemwise


def evaluate(out, **values):
    inputs = [v for v in theano.gof.graph.inputs([out]) if not isinstance(v, theano.Constant)]
    return theano.function(inputs, out)(*[values[v.name] for v in inputs])


class TestOperators(unittest.TestCase):
    def test_ops(self):
        a, b = T.itensor3("a"), T.itensor3("b")
        rng = np.random.RandomState(1)
        va, vb = rng.randint(1, 9, (2, 3, 4)).astype("int32"), rng.randint(1, 9, (2, 3, 4)).astype("int32")
        for build, op, dtype in (
            (lambda a, b: a + 3, T.add, "int32"),
            (lambda a, b: 3 - a, T.sub, "int32"),
            (lambda a, b: a * 3.5, T.mul, "float64"),
            (lambda a, b: 2.2 / a, T.true_div, "float64"),
            (lambda a, b: 2.2 // a, T.int_div, "float64"),
            (lambda a, b: 2.2**a, T.pow, "float64"),
            (lambda a, b: b % a, T.mod_check, "int32"),
            (lambda a, b: a & b, T.and_, "int32"),
            (lambda a, b: a ^ 1, T.xor, "int32"),
            (lambda a, b: a | b, T.or_, "int32"),
            (lambda a, b: ~a, T.invert, "int32"),
            (lambda a, b: -a, T.neg, "int32"),
            (lambda a, b: abs(-a), T.abs_, "int32"),
            (lambda a, b: a**2, T.pow, "int32"),
            (lambda a, b: 7 % a, T.mod_check, "int32"),
            (lambda a, b: 7 // a, T.int_div, "int32"),
            (lambda a, b: 1 | a, T.or_, "int32"),
            (lambda a, b: 6 & a, T.and_, "int32"),
            (lambda a, b: a / b, T.true_div, "float64"),
        ):
            out = build(a, b)
            if isinstance(op, Elemwise):
                self.assertEqual(out.owner.op, op)
            self.assertEqual(out.dtype, dtype)
            self.assertEqual(out.ndim, 3)
            np.testing.assert_allclose(evaluate(out, a=va, b=vb), build(va, vb), rtol=1e-6)
        for compare, function in ((operator.lt, T.lt), (operator.le, T.le), (operator.gt, T.gt), (operator.ge, T.ge)):
            out = compare(a, b)
            self.assertEqual(out.dtype, "bool")
            np.testing.assert_array_equal(evaluate(out, a=va, b=vb), compare(va, vb))
            np.testing.assert_array_equal(evaluate(function(a, b), a=va, b=vb), compare(va, vb))
        np.testing.assert_array_equal(evaluate(T.eq(a, b), a=va, b=vb), va == vb)
        np.testing.assert_array_equal(evaluate(T.neq(a, b), a=va, b=vb), va != vb)

    def test_reflected_with_arrays_and_numbers(self):
        x = T.dmatrix("x")
        v = np.random.RandomState(2).rand(3, 3) + 0.5
        row = np.array([1.0, 2.0, 3.0])
        for build in (
            lambda x: row - x,
            lambda x: row * x,
            lambda x: row / x,
            lambda x: row**x,
            lambda x: row // x,
            lambda x: row % x,
            lambda x: np.float64(2) - x,
            lambda x: 2**x,
            lambda x: divmod(x, 2)[1],
            lambda x: divmod(2, x)[0],
            lambda x: x @ x.T,
            lambda x: +x,
            lambda x: row @ x,
            lambda x: row < x,
            lambda x: 1 ^ (x > 1),
        ):
            out = build(x)
            self.assertIsInstance(out, T.TensorVariable)
            np.testing.assert_allclose(evaluate(out, x=v), build(v), rtol=1e-12)

    def test_no_in_place_operators(self):
        a = before = T.itensor3()
        a += 1
        self.assertIsNot(a, before)
        self.assertEqual(a.owner.op, T.add)

    def test_integer_division(self):
        a, b = T.iscalars("ab")
        self.assertEqual(a.__truediv__(b).dtype, "float64")
        self.assertEqual((a // b).dtype, "int32")
        for x, y in ((7, 2), (-7, 2), (7, -2), (-7, -2)):
            self.assertEqual(evaluate(a // b, a=x, b=y), x // y)
            self.assertEqual(evaluate(a % b, a=x, b=y), x % y)


class TestElemwiseSemantics(unittest.TestCase):
    def test_shapes(self):
        m = T.dmatrix()
        for op, shapes, expected in (
            (T.mul, [(10, 5), (1, 5)], (10, 5)),
            (T.true_div, [(10, 5), (10, 1)], (10, 5)),
            (T.int_div, [(1, 5), (10, 1)], (10, 5)),
            (T.log, [(3, 4, 5)], (3, 4, 5)),
        ):
            inputs = [TensorType("float64", [n == 1 for n in s])() for s in shapes]
            self.assertEqual(theano.function(inputs, op(*inputs))(*[np.ones(s) for s in shapes]).shape, expected)
        v = T.dvector()
        self.assertEqual((m + v).owner.inputs[1].broadcastable, (True, False))  # new dimensions are added on the left
        f = theano.function([m, v], m + v)
        self.assertEqual(f(np.ones((2, 3)), np.ones(3)).shape, (2, 3))
        # a length of one that is not declared broadcastable is not repeated
        self.assertRaises(ValueError, f, np.ones((2, 3)), np.ones(1))
        self.assertRaises(ValueError, theano.function([m], m + m.T), np.ones((1, 3)))

    def test_in_place(self):
        scalar_add = T.add.scalar_op
        x, y = T.dvectors(2)
        for pattern, changed in (({0: 0}, 0), ({0: 1}, 1)):
            op = Elemwise(type(scalar_add)(theano.scalar.transfer_type(pattern[0])), inplace_pattern=pattern)
            f = theano.function([theano.In(x, mutable=True), theano.In(y, mutable=True)], op(x, y), accept_inplace=True)
            values = [np.ones(3), np.full(3, 2.0)]
            np.testing.assert_array_equal(f(*values), [3, 3, 3])
            np.testing.assert_array_equal(values[changed], [3, 3, 3])
            np.testing.assert_array_equal(values[1 - changed], np.full(3, 2.0 - changed))
        wrong = Elemwise(scalar_add, inplace_pattern={0: 0})
        self.assertRaises(TypeError, wrong, T.ivector(), T.dvector())


class TestLogic(unittest.TestCase):
    @theano.change_flags({"DebugMode.check_finite": False})
    def test_comparisons(self):
        a, b = T.dvectors("ab")
        va = np.array([1.0, 1 + 1e-9, np.nan, np.inf, -np.inf, 0.0])
        vb = np.array([1.0, 1.0, np.nan, np.inf, np.inf, 1e-9])
        np.testing.assert_array_equal(evaluate(T.isclose(a, b), a=va, b=vb), np.isclose(va, vb))
        np.testing.assert_array_equal(
            evaluate(T.isclose(a, b, equal_nan=True), a=va, b=vb), np.isclose(va, vb, equal_nan=True)
        )
        np.testing.assert_array_equal(
            evaluate(T.isclose(a, b, rtol=0, atol=0), a=va, b=vb), np.isclose(va, vb, rtol=0, atol=0)
        )
        self.assertFalse(evaluate(T.allclose(a, b), a=va, b=vb))
        self.assertTrue(evaluate(T.allclose(a, b), a=va[:2], b=vb[:2]))
        self.assertEqual(T.allclose(a, b).ndim, 0)
        np.testing.assert_array_equal(evaluate(T.isnan(a), a=va), np.isnan(va))
        np.testing.assert_array_equal(evaluate(T.isinf(a), a=va), np.isinf(va))
        self.assertIs(T.where, T.switch)
        np.testing.assert_array_equal(evaluate(T.switch(T.gt(a, 0), a, b), a=va, b=vb), np.where(va > 0, va, vb))
        np.testing.assert_array_equal(evaluate(T.clip(a, b, 2), a=va[:3], b=vb[:3] - 3), np.clip(va[:3], vb[:3] - 3, 2))

    def test_bitwise_needs_integers(self):
        self.assertIs(T.bitwise_and, T.and_)
        self.assertIs(T.bitwise_or, T.or_)
        self.assertIs(T.bitwise_xor, T.xor)
        self.assertIs(T.bitwise_not, T.invert)
        x, y = T.dmatrices(2)
        for op in (T.and_, T.or_, T.xor):
            self.assertRaises(TypeError, op, x, y)
        self.assertRaises(TypeError, T.invert, x)
        self.assertEqual(T.and_(T.wmatrix(), T.bmatrix()).dtype, "int16")

    def test_cast(self):
        x = T.dmatrix("x")
        self.assertEqual(T.cast(x, "int8").dtype, "int8")
        self.assertIs(T.cast(x, "float64"), x)
        self.assertEqual(T.cast(x, "floatX").dtype, theano.config.floatX)
        self.assertRaises(TypeError, T.cast, T.zmatrix(), "float64")
        np.testing.assert_array_equal(evaluate(T.cast(x, "int32"), x=[[1.9, -1.9]]), [[1, -1]])
        self.assertEqual([T.real(T.zmatrix()).dtype, T.imag(T.cmatrix()).dtype], ["float64", "float32"])


class TestMathematics(unittest.TestCase):
    def test_functions(self):
        x = np.array([0.3, 0.7, 1.4, 2.5])
        v = T.dvector("v")
        for name, expected in dict(
            abs_=abs(-x),
            exp=np.exp(x),
            exp2=np.exp2(x),
            expm1=np.expm1(x),
            neg=-x,
            inv=1 / x,
            log=np.log(x),
            log2=np.log2(x),
            log10=np.log10(x),
            log1p=np.log1p(x),
            sgn=np.sign(x),
            ceil=np.ceil(x),
            floor=np.floor(x),
            trunc=np.trunc(x),
            sqr=x**2,
            sqrt=np.sqrt(x),
            cos=np.cos(x),
            sin=np.sin(x),
            tan=np.tan(x),
            cosh=np.cosh(x),
            sinh=np.sinh(x),
            tanh=np.tanh(x),
            arctan=np.arctan(x),
            arcsinh=np.arcsinh(x),
            deg2rad=np.deg2rad(x),
            rad2deg=np.rad2deg(x),
            erf=scipy.special.erf(x),
            erfc=scipy.special.erfc(x),
            erfcinv=scipy.special.erfcinv(x / 2),
            gamma=scipy.special.gamma(x),
            gammaln=scipy.special.gammaln(x),
            psi=scipy.special.psi(x),
            erfcx=scipy.special.erfcx(x),
        ).items():
            argument = v / 2 if name == "erfcinv" else -v if name == "abs_" else v
            np.testing.assert_allclose(evaluate(getattr(T, name)(argument), v=x), expected, rtol=1e-10, err_msg=name)
        np.testing.assert_allclose(evaluate(T.erfinv(v / 3), v=x), scipy.special.erfinv(x / 3), rtol=1e-10)
        np.testing.assert_allclose(evaluate(T.chi2sf(v, 3.0), v=x), scipy.stats.chi2.sf(x, 3), rtol=1e-10)
        np.testing.assert_allclose(evaluate(T.maximum(v, 1), v=x), np.maximum(x, 1))
        np.testing.assert_allclose(evaluate(T.minimum(v, 1), v=x), np.minimum(x, 1))
        np.testing.assert_allclose(evaluate(T.angle(v * (1 + 1j)), v=x), np.full(4, np.pi / 4))
        self.assertEqual(float(T.ceil(T.constant(2.1)).eval()), 3)
        self.assertEqual(float(T.floor(T.constant(2.9)).eval()), 2)

    def test_rounding(self):
        x = np.array([0.5, 2.5, -0.5, 1.5, -2.5, 2.4])
        for dtype in ("float32", "float64"):
            v = T.vector("v", dtype=dtype)
            away = [1, 3, -1, 2, -3, 2]
            for out, expected in (
                (T.round(v, mode="half_away_from_zero"), away),
                (T.round(v, mode="half_to_even"), np.round(x)),
            ):
                got = evaluate(out, v=x.astype(dtype))
                self.assertEqual(got.dtype, dtype)
                np.testing.assert_array_equal(got, expected)
            got = evaluate(T.iround(v, "half_away_from_zero"), v=x.astype(dtype))
            self.assertEqual(got.dtype, "int64")
            np.testing.assert_array_equal(got, away)
            self.assertTrue(np.signbit(evaluate(T.round(v, mode="half_to_even"), v=x.astype(dtype))[2]))
        self.assertRaises(Exception, T.round, v, mode="half_up")

    @theano.config.change_flags({"DebugMode.check_finite": False})
    def test_halves_go_to_even_numbers(self):
        """Halves are rounded to even as in NumPy, by every implementation."""
        x = np.concatenate([np.arange(-40, 40) / 8, [-0.0, 2.0**52 - 0.5, 1 - 2.0**-53, np.inf, np.nan]])
        for dtype in ("float16", "float32", "float64", "int8", "uint8", "bool"):
            v = T.vector("v", dtype=dtype)
            with np.errstate(all="ignore"):
                value = (x if dtype.startswith("float") else x[:80]).astype(dtype)
            expected = np.around(value.astype((v + np.float32(0)).dtype))
            whole = expected[np.isfinite(expected)].astype("int64")
            modes = [None]
            if dtype == "float64":
                modes += ["FAST_COMPILE", theano.Mode("py", "fast_run")]
                modes += [theano.Mode("c", "fast_compile")] if find_toolchain() else []
            for mode in modes:
                f = theano.function([v], [T.round(v), v.round(), T.iround(v), 2 * T.round(v)], mode=mode)
                with np.errstate(all="ignore"):
                    function, method, integer, fused = f(value)
                for got in (function, method, fused / 2):
                    np.testing.assert_allclose(got, expected, rtol=0, atol=0)
                np.testing.assert_array_equal(integer[np.isfinite(expected)], whole)
                self.assertTrue(np.signbit(function[40 - 4]) == np.signbit(expected[40 - 4]))
            if dtype.startswith("float"):
                gradient = theano.grad(T.round(v).sum(), v)
                np.testing.assert_array_equal(theano.function([v], gradient)(value), np.zeros_like(value))
        rows, _ = theano.scan(lambda row: T.round(row), sequences=T.matrix("m", dtype="float64"))
        (m,) = [i for i in theano.gof.graph.inputs([rows]) if i.name == "m"]
        np.testing.assert_array_equal(theano.function([m], rows)(x.reshape(5, 17)), np.around(x.reshape(5, 17)))

    def test_linear_algebra(self):
        rng = np.random.RandomState(2)
        a, b = rng.randn(2, 3, 4), rng.randn(5, 6, 4, 3)
        loop = np.einsum("ilm,jkml->ijk", a, b)
        A, B = T.constant(a), T.constant(b)
        np.testing.assert_allclose(T.tensordot(A, B, [[1, 2], [3, 2]]).eval(), loop)
        self.assertEqual(T.tensordot(A, B, 0).eval().shape, (2, 3, 4, 5, 6, 4, 3))
        np.testing.assert_allclose(
            T.tensordot(A, T.constant(a.transpose(1, 2, 0)), 2).eval(), np.tensordot(a, a.transpose(1, 2, 0), 2)
        )
        self.assertRaises(ValueError, T.tensordot, A, T.constant(rng.randn(3)), 2)
        np.testing.assert_allclose(T.dot(A, B[0, 0]).eval(), a.dot(b[0, 0]))
        np.testing.assert_allclose(T.dot(A[0, 0], A[0, 1]).eval(), a[0, 0].dot(a[0, 1]))
        np.testing.assert_allclose(T.dot(A, B).eval(), a.dot(b))
        np.testing.assert_allclose(T.outer(A[0, 0], A[0, 1, :2]).eval(), np.outer(a[0, 0], a[0, 1, :2]))
        c = rng.randn(2, 4, 5)
        np.testing.assert_allclose(T.batched_dot(A, T.constant(c)).eval(), a @ c)
        x, y = rng.randn(2, 3, 4, 5), rng.randn(2, 6, 3, 7, 4)
        np.testing.assert_allclose(
            T.batched_tensordot(T.constant(x), T.constant(y), [[1, 2], [2, 4]]).eval(),
            np.einsum("zabc,zdaeb->zcde", x, y),
        )
        self.assertFalse(hasattr(T, "einsum"))
        z = np.array([1j, 2.0])
        self.assertEqual(complex(T.dot(T.constant(z), T.constant(z)).eval()), 3)  # dot does not conjugate

    def test_grids(self):
        for grid, expected in ((T.mgrid, np.mgrid), (T.ogrid, np.ogrid)):
            for key in (np.s_[0:5, 0:3], np.s_[0:1:3j, 0:2], np.s_[2:9:3, 1:2:5j]):
                for got, want in zip(grid[key], expected[key]):
                    np.testing.assert_allclose(got.eval(), want)
        self.assertEqual(T.mgrid[0:5, 0:3][0].dtype, "int64")


if __name__ == "__main__":
    unittest.main()
