"""Tests of scalar types and constants, and of scalar Ops: values in Python, types, strings and gradients."""

import itertools
import pickle
import unittest

import numpy as np

import theano_ng.scalar as scalar
from theano_ng.configdefaults import config
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.scalar import (
    ComplexError,
    IntegerDivisionError,
    Scalar,
    as_scalar,
    complex64,
    complex128,
    constant,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
)


def evaluate(outputs, values):
    """Compute scalar variables with `perform` from a dict of input values."""
    from theano_ng.gof.graph import io_toposort

    known = dict(values)
    for node in io_toposort(list(values), outputs):
        cells = [[None] for _ in node.outputs]
        data = [known[i] if i in known else i.data for i in node.inputs]
        node.op.perform(node, data, cells)
        known.update((o, c[0]) for o, c in zip(node.outputs, cells))
    return [known[o] if o in known else o.data for o in outputs]


class changed_config:
    def __init__(self, **values):
        self.values = values

    def __enter__(self):
        self.old = {k: getattr(config, k) for k in self.values}
        for k, v in self.values.items():
            setattr(config, k, v)

    def __exit__(self, *exc):
        for k, v in self.old.items():
            setattr(config, k, v)


class TestTypes(unittest.TestCase):
    def test_identity(self):
        self.assertIs(scalar.get_scalar_type("float32"), float32)
        self.assertEqual(Scalar("float32"), float32)
        self.assertNotEqual(float32, float64)
        self.assertIs(pickle.loads(pickle.dumps(float32)), float32)
        self.assertEqual((str(float32), repr(float32)), ("float32", "Scalar(float32)"))
        self.assertRaises(TypeError, Scalar, "float17")
        self.assertEqual(float32("x").name, "x")
        for several, dtype in (
            (scalar.ints, "int64"),
            (scalar.floats, "float64"),
            (scalar.complexs, "complex128"),
            (scalar.complexs64, "complex64"),
            (scalar.complexs128, "complex128"),
        ):
            for names in (("xyz",), ("x", "y", "z"), (["x", "y", "z"],), (("x", "y", "z"),)):
                self.assertEqual([(v.name, v.dtype) for v in several(*names)], [(name, dtype) for name in "xyz"])
            self.assertEqual((several("x").name, several("")), ("x", []))

    def test_filter(self):
        self.assertEqual(type(int8.filter(np.array(3))), np.int8)
        self.assertEqual(int8.filter(300, allow_downcast=True), np.int8(44))
        for bad in (300, 1.5, "x", [1], 1j, None, -(2**70)):
            self.assertRaises(TypeError, int8.filter, bad)
        self.assertRaises(TypeError, float64.filter, np.float32(1), strict=True)
        self.assertTrue(np.isnan(float32.filter(np.nan, allow_downcast=False)))
        self.assertRaises(TypeError, float32.filter, np.float64(0.1))
        with changed_config(floatX="float32"):
            self.assertEqual(float32.filter(0.1), np.float32(0.1))
            self.assertRaises(TypeError, float32.filter, 0.1, allow_downcast=False)

    def test_values_eq(self):
        self.assertTrue(float64.values_eq(np.nan, np.nan))
        self.assertTrue(float32.values_eq_approx(np.float32(1), np.float32(1 + 1e-5)))
        self.assertFalse(float32.values_eq_approx(np.float32(1), np.float32(1.1)))
        self.assertFalse(float64.values_eq_approx(np.inf, -np.inf))
        self.assertFalse(int8.values_eq_approx(np.int8(100), np.int8(101)))

    def test_constants(self):
        for value, dtype in (
            (1, "int8"),
            (128, "int16"),
            (-(2**31), "int32"),
            (2**40, "int64"),
            (2**63, "uint64"),
            (0.5, "float32"),
            (0.1, "float64"),
            (True, "int8"),
            (np.bool_(True), "bool"),
            (np.float16(1), "float16"),
            (np.array(2, "uint8"), "uint8"),
            (1j, "complex128"),
        ):
            self.assertEqual(constant(value).dtype, dtype, value)
        self.assertRaises(TypeError, constant, [1, 2])
        self.assertRaises(TypeError, constant, 2**70)
        self.assertRaises(TypeError, as_scalar, "x")
        with changed_config(floatX="float32"):
            self.assertEqual(constant(0.1).dtype, "float32")
        with scalar.autocast_float_as("float32"):
            self.assertEqual(constant(0.1).dtype, "float32")
        self.assertEqual(constant(0.1).dtype, "float64")
        x = int8("x")
        self.assertIs(as_scalar(x), x)
        self.assertIs(as_scalar((x + 1).owner).owner.op, scalar.add)

    def test_upcast(self):
        for dtypes, expected in (
            (("int8", "uint8"), "int16"),
            (("int64", "uint64"), "float64"),
            (("int32", "float32"), "float64"),
            (("int8", "float16"), "float16"),
            (("bool", "bool"), "bool"),
            (("complex64", "float64"), "complex128"),
        ):
            self.assertEqual(scalar.upcast(*dtypes), expected)
        with changed_config(floatX="float32", cast_policy="numpy+floatX"):
            self.assertEqual(scalar.upcast("int32", "float32"), "float32")
            self.assertEqual(scalar.upcast("float64", "float32"), "float64")

    def test_literals(self):
        self.assertEqual(int64.c_literal(-(2**63)), "((npy_int64)(-9223372036854775807LL - 1))")
        self.assertEqual(float64.c_literal(0.1), "((npy_float64)0.1)")
        self.assertIn("inf", float32.c_literal(-np.inf))
        self.assertRaises(MethodNotDefined, float16.c_literal, 1.0)

    def test_output_types(self):
        self.assertEqual(scalar.upgrade_to_float(int8), (float32,))
        self.assertEqual(scalar.upgrade_to_float(int32, float32), (float64,))
        self.assertEqual(scalar.upgrade_to_float64(float32), (float64,))
        self.assertEqual(scalar.transfer_type(1, None)(int8, float32), [float32, float32])
        self.assertEqual(scalar.transfer_type(0), scalar.transfer_type(0))
        self.assertNotEqual(scalar.specific_out(int8), scalar.specific_out(int64))
        self.assertEqual(hash(scalar.specific_out(int8)), hash(scalar.specific_out(int8)))
        self.assertEqual(scalar.unary_out_lookup({int8: int64})(int8), [int64])
        self.assertRaises(TypeError, scalar.upcast_out_nobool, scalar.bool, scalar.bool)
        self.assertRaises(TypeError, scalar.upcast_out_no_complex, complex64)
        self.assertEqual(scalar.real_out(complex64), (float32,))


class TestOps(unittest.TestCase):
    def test_dtypes(self):
        x8, x32, f32, b = int8("a"), int32("b"), float32("c"), scalar.bool("d")
        for variable, dtype in (
            (x8 + x32, "int32"),
            (x8 * f32, "float32"),
            (x32 * f32, "float64"),
            (x8 < f32, "bool"),
            (x8.__floordiv__(x8), "int8"),
            (scalar.true_div(x8, x8), config.floatX),
            (scalar.exp(x8), "float32"),
            (scalar.switch(b, x8, x32), "int32"),
            (b + b, "bool"),
            (b**b, "int8"),
            (abs(complex64("z")), "float32"),
            (~b, "bool"),
            (x8 & x32, "int32"),
            (scalar.eq(x8, f32), "bool"),
            (scalar.sgn(x8), "int8"),
            (scalar.second(x8, f32), "float32"),
            (x8.astype("float64"), "float64"),
            (-x8, "int8"),
            (x8.zeros_like(), "int8"),
            (f32.ones_like("int64"), "int64"),
        ):
            self.assertEqual(variable.dtype, dtype, variable.owner)

    def test_refused(self):
        x, f, z, b = int8("x"), float64("f"), complex128("z"), scalar.bool("b")
        self.assertRaises(TypeError, lambda: f & f)
        self.assertRaises(TypeError, lambda: ~f)
        self.assertRaises(TypeError, lambda: b - b)
        self.assertRaises(TypeError, lambda: -b)
        self.assertRaises(TypeError, lambda: scalar.floor(z))
        self.assertRaises(ComplexError, lambda: z % z)
        self.assertRaises(ComplexError, lambda: z // x)
        self.assertRaises(TypeError, scalar.neg, x, x)
        self.assertRaises(TypeError, scalar.cast, x, "int7")
        self.assertRaises(TypeError, scalar.Add, "not callable")
        with changed_config(int_division="raise"):
            self.assertRaises(IntegerDivisionError, lambda: x / x)
        with changed_config(int_division="floatX"):
            self.assertIs((x / x).owner.op, scalar.true_div)
        with changed_config(int_division="int"):
            self.assertIs((x / x).owner.op, scalar.int_div)
        self.assertIs((x / f).owner.op, scalar.true_div)

    def test_values(self):
        nan = float("nan")
        for op, inputs, expected in (
            (scalar.int_div, (np.int8(-7), np.int8(2)), -4),
            (scalar.mod, (np.int8(-7), np.int8(2)), 1),
            (scalar.int_div, (np.int8(1), 0.0), np.inf),
            (scalar.mod, (-7.5, 2.0), 0.5),
            (scalar.int_div, (7.5, -2.0), -4.0),
            (scalar.pow, (np.int64(2), np.int64(-1)), 0),
            (scalar.pow, (np.int64(-1), np.int64(-3)), -1),
            (scalar.add, (np.uint8(200), np.uint8(100)), 44),
            (scalar.maximum, (nan, 1.0), nan),
            (scalar.minimum, (1.0, nan), nan),
            (scalar.round_half_to_even, (2.5,), 2.0),
            (scalar.round_half_away_from_zero, (2.5,), 3.0),
            (scalar.round_half_away_from_zero, (-0.5,), -1.0),
            (scalar.round_half_away_from_zero, (0.49999999999999994,), 0.0),
            (scalar.sgn, (nan,), nan),
            (scalar.clip, (5.0, 0.0, 1.0), 1.0),
            (scalar.mul, (2.0, 3.0, 4.0), 24.0),
            (scalar.exp, (np.int8(1),), np.exp(np.float32(1))),
            (scalar.inclosedrange, (1.0, 1.0, 2.0), True),
            (scalar.inopenrange, (1.0, 1.0, 2.0), False),
            (scalar.true_div, (np.int8(1), np.int8(2)), 0.5),
            (scalar.abs_, (3 + 4j,), 5.0),
            (scalar.sgn, (3 + 4j,), 0.6 + 0.8j),
            (scalar.convert_to_int8, (np.float64(-3.7),), -3),
            (scalar.isnan, (nan,), True),
            (scalar.convert_to_float32, (2 + 3j,), 2.0),
            (scalar.invert, (np.bool_(True),), False),
            (scalar.angle, (1j,), np.pi / 2),
            (scalar.complex_from_polar, (2.0, np.pi), -2),
            (scalar.identity, (3,), 3),
            (scalar.trunc, (-1.5,), -1.0),
        ):
            node = op.make_node(*inputs)
            (got,) = evaluate(node.outputs, {v: v.data for v in node.inputs})
            self.assertEqual(got.dtype, node.outputs[0].dtype)
            np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-14, err_msg=str(op))

    def test_strings_and_identity(self):
        for op, text in (
            (scalar.add, "add"),
            (scalar.abs_, "Abs"),
            (scalar.gt, "GT"),
            (scalar.switch, "Switch"),
            (scalar.and_, "AND"),
            (scalar.invert, "Invert"),
            (scalar.convert_to_float32, "Cast{float32}"),
            (scalar.isnan, "IsNan"),
            (scalar.inclosedrange, "InRange{openlow=False, openhi=False}"),
            (scalar.round_half_to_even, "RoundHalfToEven"),
            (scalar.floor_div, "int_div"),
            (scalar.gammaln, "gammaln"),
            (scalar.second, "second"),
        ):
            self.assertEqual(str(op), text)
            again = pickle.loads(pickle.dumps(op))
            self.assertEqual(again, op)
            self.assertEqual(hash(again), hash(op))
        inplace = scalar.add.make_new_inplace(scalar.transfer_type(0))
        self.assertEqual(str(inplace), "Add")
        self.assertEqual(inplace, scalar.Add(scalar.transfer_type(0)))
        self.assertNotEqual(inplace, scalar.add)
        self.assertNotEqual(scalar.inclosedrange, scalar.inopenrange)
        self.assertEqual(inplace(int8("x"), int64("y")).dtype, "int8")

    def test_gradients(self):
        """L_op equals central differences, and R_op agrees with L_op."""
        one = [0.3, 0.7]
        unary = [
            getattr(scalar, n)
            for n in (
                "exp exp2 expm1 log log2 log10 log1p sqrt cos sin tan arccos arcsin arctan cosh sinh tanh arcsinh arctanh sqr inv neg abs_ "
                "deg2rad rad2deg erf erfc erfcx erfinv erfcinv gamma gammaln psi j0 j1 i0 i1 identity real conj ceil floor trunc sgn "
                "round_half_to_even"
            ).split()
        ]
        points = [(op, (v,)) for op in unary for v in one] + [(scalar.arccosh, (1.7,))]
        points += [
            (op, p)
            for op in (
                scalar.add,
                scalar.sub,
                scalar.mul,
                scalar.true_div,
                scalar.pow,
                scalar.maximum,
                scalar.minimum,
                scalar.arctan2,
                scalar.mod,
                scalar.int_div,
            )
            for p in ((2.3, 0.7), (0.4, 1.9))
        ]
        points += [
            (scalar.mul, (2.0, 3.0, 4.0)),
            (scalar.clip, (0.5, 0.0, 1.0)),
            (scalar.clip, (2.5, 0.0, 1.0)),
            (scalar.switch, (1.0, 3.0, 4.0)),
            (scalar.switch, (0.0, 3.0, 4.0)),
        ]
        for op, point in points:
            inputs = [float64("x%d" % k) for k in range(len(point))]
            output = op(*inputs)
            gradients = op.L_op(inputs, [output], [constant(np.float64(1.5))])
            data = dict(zip(inputs, map(np.float64, point)))
            computed = evaluate(gradients, data)
            for k, x in enumerate(inputs):
                h = 1e-6
                up, down = dict(data), dict(data)
                up[x] += h
                down[x] -= h
                slope = (evaluate([output], up)[0] - evaluate([output], down)[0]) / (2 * h)
                np.testing.assert_allclose(
                    computed[k], 1.5 * slope, rtol=2e-6, atol=1e-6, err_msg="%s at %s" % (op, point)
                )
            (forward,) = op.R_op(inputs, [constant(np.float64(2.0))] * len(inputs))
            np.testing.assert_allclose(
                evaluate([forward], data)[0], sum(computed) * 2 / 1.5, rtol=1e-9, err_msg=str(op)
            )

    def test_gradient_of_one_argument(self):
        # These functions of two arguments have a formula for one derivative only.
        for op, v, x in (
            (scalar.jv, 1.5, 0.7),
            (scalar.iv, 1.5, 0.7),
            (scalar.gammainc, 2.5, 0.7),
            (scalar.gammaincc, 2.5, 0.7),
            (scalar.gammal, 2.5, 0.7),
            (scalar.gammau, 2.5, 0.7),
        ):
            a, b = float64("a"), float64("b")
            output = op(a, b)
            slope = op.derivatives([a, b], output)[1]
            data = {a: np.float64(v), b: np.float64(x)}
            expected = (op.impl(v, x + 1e-6) - op.impl(v, x - 1e-6)) / 2e-6
            np.testing.assert_allclose(evaluate([slope], data)[0], expected, rtol=1e-7, err_msg=str(op))
        x, k = float64("x"), float64("k")
        slope = scalar.chi2sf.derivatives([x, k], scalar.chi2sf(x, k))[0]
        expected = (scalar.chi2sf.impl(1.5 + 1e-6, 3.0) - scalar.chi2sf.impl(1.5 - 1e-6, 3.0)) / 2e-6
        np.testing.assert_allclose(evaluate([slope], {x: np.float64(1.5), k: np.float64(3)})[0], expected, rtol=1e-7)

    def test_integer_gradients(self):
        x, y = int8("x"), float32("y")
        for op in (scalar.add, scalar.mul, scalar.sub, scalar.maximum, scalar.lt, scalar.and_):
            for gradient in op.L_op([x, x], [op(x, x)], [constant(np.float64(1))]):
                self.assertEqual(gradient.dtype, config.floatX)
                self.assertEqual(evaluate([gradient], {x: np.int8(3)})[0], 0)
        (gx,) = scalar.cast(y, "int8").owner.op.L_op([y], [scalar.cast(y, "int8")], [constant(1.0)])
        self.assertEqual((gx.dtype, evaluate([gx], {y: np.float32(2)})[0]), ("float32", 0))

    def test_complex_gradients(self):
        """The gradients of all ops that are defined for complex numbers, also with respect to real operands."""
        tried = set()
        for op in sorted({op for op in vars(scalar).values() if isinstance(op, scalar.ScalarOp)}, key=str):
            for kinds in itertools.product((complex128, float64), repeat=max(op.nin, 2) if op.nin != 1 else 1):
                inputs = [kind("z%d" % k) for k, kind in enumerate(kinds)]
                point = [np.complex128(0.6 + 0.8j * (k + 1)) for k in range(len(kinds))]
                point = [z if kind is complex128 else z.real for z, kind in zip(point, kinds)]
                try:
                    output = op(*inputs)
                    evaluate([output], dict(zip(inputs, point)))
                except (TypeError, NotImplementedError):
                    continue  # not defined for complex numbers
                if isinstance(output, list) or output.dtype not in ("float64", "complex128"):
                    continue  # finite differences need a precise result
                if complex128 in kinds:
                    tried |= self.check_complex_gradient(op, inputs, output, point)
        names = "add sub mul true_div pow neg abs_ sgn sqr inv conj real imag angle switch identity".split()
        self.assertEqual([name for name in names if getattr(scalar, name) not in tried], [])

    def check_complex_gradient(self, op, inputs, output, point):
        """Compare the gradient of the cost re(w * f(z)), with a fixed w, with finite differences along the real and the
        imaginary axis. Return {op}, or an empty set if the gradient is not defined.
        """
        w, is_complex = 0.7 - 0.4j, output.dtype.startswith("complex")
        # The gradient of re(w * f) with respect to f is conj(w): its parts are the derivatives by re f and im f.
        cotangent = constant(np.conj(np.complex128(w)) if is_complex else np.float64(0.7))
        try:
            gradients = op.L_op(inputs, [output], [cotangent])
        except NotImplementedError:
            return set()
        if any(not isinstance(g.type, scalar.Scalar) for g in gradients):
            return set()  # an input is disconnected
        gradients = evaluate(gradients, dict(zip(inputs, point)))

        def cost(values):
            value = evaluate([output], dict(zip(inputs, values)))[0]
            return (w * value).real if is_complex else 0.7 * value

        for k, x in enumerate(inputs):
            slopes = []
            for step in (1e-6, 1e-6j)[: 1 + (x.type == complex128)]:
                up, down = list(point), list(point)
                up[k] += step
                down[k] -= step
                slopes.append((cost(up) - cost(down)) / 2e-6)
            np.testing.assert_allclose(gradients[k], complex(*slopes), rtol=1e-6, atol=1e-8, err_msg=str(op))
        return {op}

    def test_uint8_pow_and_sharing_of_casts(self):
        self.assertIs(scalar.cast(float64("x"), "int8").owner.op, scalar.cast(uint8("y"), "int8").owner.op)
        x = float64("x")
        self.assertIs(scalar.cast(x, "float64"), x)
        self.assertIs(scalar.convert_to_float16.clone_float32(), scalar.convert_to_float32)


if __name__ == "__main__":
    unittest.main()
