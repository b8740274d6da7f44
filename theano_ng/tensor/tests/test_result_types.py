"""Values and dtypes of rounding, `hard_sigmoid` and comparisons, for all dtypes.

`test_type.py` checks which arrays variables of each dtype accept.
"""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.tensor.type import TensorType

NARROW, WIDE = ("bool", "int8", "uint8", "int16", "uint16"), ("int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "float32", "float64")
MODES = ("FAST_RUN", theano.Mode("py", None))


def vector(dtype):
    return TensorType(dtype, (False,))()


class TestFloats(unittest.TestCase):
    def test_rounding(self):
        halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.2, np.nan])
        functions = {
            T.ceil: np.ceil,
            T.floor: np.floor,
            T.trunc: np.trunc,
            T.round: np.rint,
            T.round_half_to_even: np.rint,
            T.round_half_away_from_zero: lambda x: np.trunc(x + np.copysign(0.5, x)),
        }
        for dtype in (*NARROW, *WIDE, *FLOATS):
            x = vector(dtype)
            expected = dtype if dtype in FLOATS else "float32" if dtype in NARROW else "float64"
            outputs = [function(x) for function in functions]
            self.assertEqual([out.dtype for out in outputs], [expected] * len(outputs), dtype)
            values = halves if dtype in FLOATS else np.array([0, 1, 5, 100])
            values = values.astype(dtype)
            for mode in MODES:
                for found, reference in zip(theano.function([x], outputs, mode=mode)(values), functions.values()):
                    self.assertEqual(found.dtype, expected)
                    np.testing.assert_array_equal(found, reference(values.astype("float64")))
            self.assertEqual(T.iround(x).dtype, "int64")

    def test_hard_sigmoid(self):
        for dtype in (*NARROW, *WIDE, *FLOATS):
            x = vector(dtype)
            out = T.nnet.hard_sigmoid(x)
            self.assertEqual(out.dtype, dtype if dtype in FLOATS else "float32" if dtype in NARROW else "float64")
            values = np.array([0, 1, 3]).astype(dtype)
            expected = np.clip(0.2 * values.astype("float64") + 0.5, 0, 1)
            np.testing.assert_allclose(out.eval({x: values}), expected, rtol=1e-3 if dtype == "float16" else 1e-6)


class TestComplex(unittest.TestCase):
    def test_numbers_made_of_parts(self):
        for first in (*NARROW, *WIDE, *FLOATS):
            for second in (first, "int8", "float32", "float64"):
                x, y = vector(first), vector(second)
                expected = (
                    "complex64"
                    if np.result_type(np.result_type(first, second), "complex64") == "complex64"
                    else "complex128"
                )
                outputs = [T.complex(x, y), T.complex_from_polar(x, y)]
                self.assertEqual([out.dtype for out in outputs], [expected] * 2, (first, second))
        for dtype in ("int8", "float16", "float32", "float64"):
            x, y = vector(dtype), vector(dtype)
            a, b = np.array([0, 1, 3], dtype), np.array([1, 2, 0], dtype)
            for mode in MODES:
                made, polar = theano.function([x, y], [T.complex(x, y), T.complex_from_polar(x, y)], mode=mode)(a, b)
                self.assertEqual(made.dtype, T.complex(x, y).dtype)
                np.testing.assert_array_equal(made, a + 1j * b)
                np.testing.assert_allclose(polar, a * np.exp(1j * b.astype("float64")), rtol=1e-6, atol=1e-7)

    def test_order(self):
        """Complex numbers are ordered as in NumPy: by real parts, then by imaginary parts."""
        parts = [0.0, -0.0, 1.0, -2.0, np.inf, np.nan]
        numbers = np.array([complex(a, b) for a in parts for b in parts])
        first, second = (grid.ravel() for grid in np.meshgrid(numbers, numbers))
        operations = {
            T.lt: np.less,
            T.le: np.less_equal,
            T.gt: np.greater,
            T.ge: np.greater_equal,
            T.eq: np.equal,
            T.neq: np.not_equal,
            T.maximum: np.maximum,
            T.minimum: np.minimum,
        }
        for dtypes in (("complex128",) * 2, ("complex64",) * 2, ("complex64", "float64"), ("int8", "complex64")):
            x, y = vector(dtypes[0]), vector(dtypes[1])
            with np.errstate(all="ignore"):
                a, b = (
                    v.astype(dtype) if dtype[0] == "c" else np.nan_to_num(v.real).clip(-9, 9).astype(dtype)
                    for v, dtype in zip((first, second), dtypes)
                )
            outputs = [operation(x, y) for operation in operations]
            for mode in MODES:
                with theano.change_flags({"DebugMode.check_finite": False}):
                    for found, reference in zip(theano.function([x, y], outputs, mode=mode)(a, b), operations.values()):
                        expected = reference(a, b)
                        self.assertEqual(found.dtype, expected.dtype)
                        np.testing.assert_array_equal(found, expected, err_msg=reference.__name__)
        inside = T.Elemwise(scalar.InRange(False, True))
        x, y, z = (vector("complex128") for _ in range(3))
        a, b = np.array([1 + 1j, 1 + 2j, 1 + 3j, 2]), np.array([1 + 2j] * 4)
        for mode in MODES:
            f = theano.function([x, y, z], inside(x, y, z), mode=mode)
            np.testing.assert_array_equal(f(a, b, b + 1j), [False, True, False, False])
        values = np.array([1 + 2j, 1 - 2j, 3j])
        self.assertEqual([T.max(x).eval({x: values}), T.min(x).eval({x: values})], [1 + 2j, 3j])


class TestBool(unittest.TestCase):
    def test_values_that_are_exact_are_taken(self):
        x, v = TensorType("bool", ())(), vector("bool")
        f, g = theano.function([x], x, mode="FAST_COMPILE"), theano.function([v], v, mode="FAST_COMPILE")
        for value in (0, 1, 0.0, 1.0, True, np.int8(0), np.uint8(1), np.float32(1), np.bool_(True)):
            self.assertEqual(f(value).tolist(), bool(value))
        for values in ([0, 1, 1], (1, 0), [0.0, 1.0], [], [0, True], [np.int8(1)]):
            result = g(values)
            self.assertEqual((result.dtype, result.tolist()), ("bool", [bool(value) for value in values]))
        for value in (2, -1, 0.5, np.nan, np.int8(2), np.array(1), np.array(1.0), 1j):
            self.assertRaises(TypeError, f, value)
        for values in ([0, 2], [0.5], np.array([0, 1]), np.array([0.0, 1.0])):
            self.assertRaises(TypeError, g, values)
        lenient = theano.function([v], v, mode="FAST_COMPILE", allow_input_downcast=True)
        self.assertEqual(lenient([0, 2, 0.5]).tolist(), [False, True, True])
        s = theano.shared(np.array(True))
        s.set_value(0)
        self.assertIs(bool(s.get_value()), False)
        self.assertRaises(TypeError, s.set_value, 2)
