"""Tests of the operators of device arrays, for all dtypes and special values, compared with those of NumPy."""

import operator
import unittest
import warnings

import numpy as np

from theano_ng.gpuarray.contexts import get_context
from theano_ng.gpuarray.tests.device import context
from theano_ng.gpuarray.tests.test_pygpu import DTYPES

# Kernels take long to build. Values are therefore tested for these dtypes only, and result dtypes for all dtypes.
COMPUTED = ("bool", "int8", "uint8", "int32", "uint64", "float16", "float32")
COMPLEX = ("complex64", "complex128")
NAMES = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")
BINARY = [getattr(operator, name + "_" if name in ("and", "or") else name) for name in NAMES]
IN_PLACE = [getattr(operator, "i" + name) for name in NAMES]
COMPARISONS = (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge)
UNARY = (operator.neg, operator.pos, operator.invert, abs)
# The relative error that OpenCL allows for pow, in units in the last place.
ULPS_OF_POWERS = 16


def setUpModule():
    global pygpu, ctx
    ctx = get_context(context())
    from theano_ng.gpuarray import pygpu


def special(dtype):
    """Return values of a dtype for which operations are special."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.array([False, True])
    if kind == "f":
        top = np.finfo(dtype).max
        return np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.1, 0.5, 1, -1, 2, 3, -7.5, top, -top], dtype)
    info = np.iinfo(dtype)
    return np.array(
        [info.min, info.max, info.max - 1, *([-1, -7] if kind == "i" else []), 0, 1, 2, 3, 31, 33, 64, 100], dtype
    )


def pairs_of(first, second):
    """Return two arrays that contain all pairs of special values of two dtypes."""
    return [np.ascontiguousarray(x.ravel()) for x in np.meshgrid(special(first), special(second))]


def on_device(value):
    return pygpu.array(value, context=ctx) if isinstance(value, np.ndarray) else value


class OperatorsCase(unittest.TestCase):
    """The base class of tests, which compares operations on device arrays with operations on host arrays."""

    def setUp(self):
        silent = warnings.catch_warnings()
        silent.__enter__()
        self.addCleanup(silent.__exit__, None, None, None)
        warnings.simplefilter("ignore", RuntimeWarning)

    def assert_equal(self, got, wanted, operation):
        got = np.asarray(got)
        self.assertEqual(got.dtype, wanted.dtype)
        if wanted.dtype == bool:
            got, wanted = got.view("uint8"), wanted.view("uint8")
        if wanted.dtype.kind == "f" and operation in (operator.pow, operator.ipow):
            np.testing.assert_allclose(got, wanted, rtol=ULPS_OF_POWERS * np.finfo(wanted.dtype).eps)
        else:
            np.testing.assert_array_equal(got, wanted)
        if wanted.dtype.kind == "f":
            numbers = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(wanted[numbers]))

    def check(self, operation, *values):
        """Check that an operation has NumPy's result, or raises an error that NumPy raises, too."""
        with self.subTest(operation=operation.__name__, values=[getattr(v, "dtype", v) for v in values]):
            host = [value.copy() if isinstance(value, np.ndarray) else value for value in values]
            device = [on_device(value) for value in values]
            try:
                wanted = operation(*host)
            except (TypeError, ValueError, OverflowError) as error:
                kind = next(k for k in (TypeError, OverflowError, ValueError) if isinstance(error, k))
                with self.assertRaises(kind):
                    operation(*device)
                return
            got = operation(*device)
            if isinstance(wanted, tuple):
                for one, other in zip(got, wanted, strict=True):
                    self.assert_equal(one, other, operation)
            else:
                self.assert_equal(got, wanted, operation)


class TestDtypes(OperatorsCase):
    """Tests of the dtypes of results, and of which dtypes are accepted. Operations on empty arrays build no kernels."""

    def test_pairs(self):
        empty = {dtype: np.zeros(0, dtype) for dtype in DTYPES}
        for first in DTYPES:
            for second in DTYPES:
                for operation in (*BINARY, *COMPARISONS, divmod, *IN_PLACE):
                    self.check(operation, empty[first], empty[second])

    def test_numbers(self):
        for dtype in DTYPES:
            for number in (True, 3, 2.5, np.int8(3), np.uint64(3), np.float16(2.5), np.float64(2.5), np.bool_(True)):
                for operation in (*BINARY, *COMPARISONS, divmod):
                    self.check(operation, np.zeros(0, dtype), number)
                    self.check(operation, number, np.zeros(0, dtype))
                for operation in IN_PLACE:
                    self.check(operation, np.zeros(0, dtype), number)

    def test_unary(self):
        for dtype in DTYPES:
            for operation in UNARY:
                self.check(operation, np.zeros(0, dtype))

    def test_numbers_out_of_range(self):
        for dtype in ("int8", "uint8", "int64", "uint64", "float32"):
            for number in (300, -300, 2**64, 10**400):
                for operation in BINARY:
                    self.check(operation, np.zeros(0, dtype), number)
                    self.check(operation, number, np.zeros(0, dtype))
                self.check(operator.iadd, np.zeros(0, dtype), number)

    def test_complex_numbers(self):
        """Devices do not compute complex numbers; only copies are possible."""
        for dtype in COMPLEX:
            z = pygpu.array(np.array([1 + 2j, -3 - 1j], dtype), context=ctx)
            x = pygpu.array(np.ones(2, "float32"), context=ctx)
            for first, second in ((z, z), (z, x), (x, z), (z, 2), (x, 1j), (x, np.complex64(1))):
                for operation in (*BINARY, *COMPARISONS, divmod, *IN_PLACE):
                    with self.subTest(operation=operation), self.assertRaisesRegex(TypeError, "complex numbers"):
                        operation(first, second)
            for operation in (operator.neg, abs):
                with self.assertRaisesRegex(TypeError, "complex numbers"):
                    operation(z)
            with self.assertRaisesRegex(TypeError, "complex numbers"):
                pygpu.elemwise.elemwise2(z, "*", z, z)
            np.testing.assert_array_equal(+z, np.asarray(z))

    def test_what_is_no_number(self):
        a = pygpu.zeros((2,), "float32", context=ctx)
        for value in (None, "a", [None], np.array(["a"])):
            for operation in (operator.iadd, operator.isub, operator.ipow):
                with self.subTest(value=value, operation=operation), self.assertRaises(TypeError):
                    operation(a, value)


class TestValues(OperatorsCase):
    """Tests of operations on special values."""

    def test_binary(self):
        for dtype in COMPUTED:
            x, y = pairs_of(dtype, dtype)
            for operation in BINARY:
                allowed = y >= 0 if operation is operator.pow and np.dtype(dtype).kind == "i" else slice(None)
                self.check(operation, x[allowed], y[allowed])
            self.check(divmod, x, y)

    def test_comparisons(self):
        for dtype in COMPUTED:
            for operation in (operator.lt, operator.eq):
                self.check(operation, *pairs_of(dtype, dtype))

    def test_dtypes_that_differ(self):
        for pair in (
            ("int64", "uint64"),
            ("uint64", "int8"),
            ("bool", "int16"),
            ("float16", "int8"),
            ("float32", "int64"),
        ):
            for operation in (operator.add, operator.mod, operator.lt):
                self.check(operation, *pairs_of(*pair))

    def test_int64_and_uint64_are_compared_exactly(self):
        x = np.array([2**53 + 1, -1, -(2**63), 2**63 - 1, 5], "int64")
        y = np.array([2**53, 2**64 - 1, 2**63, 2**63, 5], "uint64")
        for operation in COMPARISONS:
            self.check(operation, x, y)
            self.check(operation, y, x)

    def test_unary(self):
        for dtype in COMPUTED:
            for operation in UNARY:
                self.check(operation, special(dtype))

    def test_in_place(self):
        for dtype in ("bool", "int8", "uint64", "float16"):
            x, y = pairs_of(dtype, dtype)
            for operation in IN_PLACE:
                allowed = y >= 0 if operation is operator.ipow and np.dtype(dtype).kind == "i" else slice(None)
                self.check(operation, x[allowed], y[allowed])

    def test_in_place_with_wider_dtypes(self):
        """The result is computed in the wider dtype, and then stored in the array."""
        for dtype, wider in (("int8", "int64"), ("float32", "float64")):
            for operation in (operator.iadd, operator.imul, operator.ifloordiv):
                self.check(operation, *pairs_of(dtype, wider))
        a = pygpu.zeros((3,), "float32", context=ctx)
        for value in (np.zeros((2, 3)), np.zeros((1, 3))):
            with self.assertRaises(ValueError):
                a += value

    def test_python_numbers(self):
        for dtype, numbers in (
            ("int8", (-128, -1, 0, 3, 7, 127)),
            ("uint64", (0, 3, 65, 2**64 - 1)),
            ("float16", (0.1, 3, 70000, -0.0)),
        ):
            for operation in (*BINARY, operator.lt, operator.eq):
                for number in numbers:
                    x = special(dtype)
                    x = x[x >= 0] if operation is operator.pow and dtype == "int8" else x
                    self.check(operation, x, number)
                    self.check(operation, number, x)

    def test_powers_that_numpy_computes_exactly(self):
        for dtype in ("float16", "float32"):
            for exponent in (2, 2.0, 0.5, -1, 1, 0):
                with self.subTest(dtype=dtype, exponent=exponent):
                    x = special(dtype)
                    np.testing.assert_array_equal(on_device(x) ** exponent, x**exponent)

    def test_comparisons_with_python_ints_out_of_range(self):
        for dtype in ("int8", "uint8", "int32", "int64", "uint64"):
            for number in (300, 456, -1, -300, 2**40, 2**70, -(2**70)):
                for operation in COMPARISONS:
                    x = np.array([0, 1, 100], dtype)
                    if not np.iinfo(dtype).min <= number <= np.iinfo(dtype).max:
                        self.check(operation, x, number)
                        self.check(operation, number, x)
        self.assertTrue(np.asarray(on_device(np.array([True])) < 2**70).all())

    def test_negative_exponents_of_integers(self):
        a = on_device(np.array([1, 2, 3], "int32"))
        for power in (
            lambda: a**-1,
            lambda: a ** np.int8(-1),
            lambda: a ** on_device(np.array([1, -1, 1], "int32")),
            lambda: 2 ** on_device(np.array(-1)),
            lambda: operator.ipow(a, -1),
        ):
            with self.assertRaisesRegex(ValueError, "negative"):
                power()
        np.testing.assert_array_equal(a, [1, 2, 3])


class TestElementwiseKernels(unittest.TestCase):
    """Tests of kernels of the user's expressions."""

    def run_kernel(self, expr, out, **values):
        """Compute an expression, whose result is `out`, of named arrays and numbers. Return `out`."""
        arguments = [pygpu.arg("res", out.dtype, write=True)]
        for name, value in values.items():
            array = isinstance(value, np.ndarray)
            arguments.append(pygpu.arg(name, value.dtype, read=array, scalar=not array))
        device = on_device(out)
        pygpu.GpuElemwise(ctx, expr, arguments)(device, *map(on_device, values.values()))
        return np.asarray(device)

    def test_any_names(self):
        """Arguments may have any names, also those of variables in other kernels."""
        x = np.arange(4.0, dtype="float32")
        for first, second in (("n", "i"), ("k", "rest"), ("d0", "x"), ("x", "x_p"), ("x", "x_data"), ("x", "xx")):
            with self.subTest(names=(first, second)):
                got = self.run_kernel("res = %s + 2 * %s" % (first, second), x, **{first: x, second: np.float32(3)})
                np.testing.assert_array_equal(got, x + 6)

    def test_wrong_names(self):
        for name in ("a b", "", "1x", "elem_n"):
            with self.subTest(name), self.assertRaises(ValueError):
                pygpu.arg(name, "float32", read=True)
        twice = [pygpu.arg("x", "float32", write=True), pygpu.arg("x", "float32", read=True)]
        with self.assertRaisesRegex(ValueError, "same name"):
            pygpu.GpuElemwise(ctx, "x = 1", twice)

    def test_bools_are_0_or_1(self):
        out = self.run_kernel("res = a + 255", np.zeros(3, "bool"), a=np.array([0, 1, 2], "uint8"))
        np.testing.assert_array_equal(out.view("uint8"), [1, 1, 1])

    def test_numbers_have_the_dtypes_of_arguments(self):
        got = self.run_kernel("res = a < b", np.zeros(1, "bool"), a=np.array([0.1], "float16"), b=np.float16(0.1))
        self.assertFalse(got[0])
        kernel = pygpu.GpuElemwise(
            ctx, "x = a", [pygpu.arg("x", "int32", write=True), pygpu.arg("a", "int32", scalar=True)]
        )
        x = pygpu.zeros((2,), "int32", context=ctx)
        kernel(x, np.int8(5))
        np.testing.assert_array_equal(x, [5, 5])
        for value, error in ((2.7, TypeError), (1j, TypeError), ("a", TypeError), (2**40, OverflowError)):
            with self.subTest(value), self.assertRaises(error):
                kernel(x, value)
