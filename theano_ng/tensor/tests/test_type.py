"""TensorType: identity, printing, `filter`, comparison of values."""

import pickle
import unittest
import warnings

import numpy as np

import theano_ng as theano
import theano_ng.tensor as tt
from theano_ng.gof.compiler import find_toolchain
from theano_ng.tensor.type import TensorType, values_eq_approx, values_eq_approx_remove_inf, values_eq_approx_remove_nan


class TestIdentity(unittest.TestCase):
    def test_equality_hash_and_pickle(self):
        a, b = TensorType("float64", (False, False)), TensorType("float64", [False] * 2)
        self.assertEqual(a, b)
        self.assertEqual(hash(a), hash(b))
        self.assertEqual(a, tt.dmatrix)
        self.assertNotEqual(a, TensorType("float32", (False, False)))
        self.assertNotEqual(a, TensorType("float64", (False, True)))
        self.assertNotEqual(a, 3)
        copy = pickle.loads(pickle.dumps(a))
        self.assertEqual((copy, hash(copy)), (a, hash(a)))
        self.assertIs(copy.numpy_dtype, a.numpy_dtype)

    def test_str(self):
        names = {
            (): "scalar", (False,): "vector", (True,): "(True,)", (True, False): "row", (False, True): "col",
            (False, False): "matrix", (False,) * 3: "3D", (False,) * 5: "5D", (True, False, True): "(True, False, True)",
        }  # fmt: skip
        for pattern, name in names.items():
            self.assertEqual(repr(TensorType("int8", pattern)), "TensorType(int8, %s)" % name)
        # An example of the manual passes False as the name.
        self.assertEqual(
            str(TensorType("complex64", [False, True, False], False)), "TensorType(complex64, (False, True, False))"
        )
        self.assertEqual(TensorType("floatX", ()).dtype, theano.config.floatX)
        with self.assertRaisesRegex(TypeError, "Unsupported dtype for TensorType: float17"):
            TensorType("float17", ())
        with self.assertRaisesRegex(TypeError, "one bool for each dimension, got 2"):
            TensorType("int8", 2)

    def test_clone_and_sizes(self):
        t = tt.dmatrix.clone(dtype="float32", broadcastable=(True,))
        self.assertEqual(t, TensorType("float32", (True,)))
        self.assertEqual(t.dtype_specs(), (float, "npy_float32", "NPY_FLOAT32"))
        self.assertEqual(t.get_size(t.get_shape_info(np.zeros((3, 2)))), 24)
        self.assertEqual(t.value_zeros((2, 1)).dtype, np.float32)


class TestFilter(unittest.TestCase):
    def test_exact_value_is_returned_itself(self):
        x = np.zeros((2, 3))
        for value in (x, x.T, x[:, ::-1], x[:0]):
            self.assertIs(tt.dmatrix.filter(value), value)
            self.assertIs(tt.dmatrix.filter(value, strict=True), value)
        readonly = np.broadcast_to(1.0, (2, 2))
        self.assertIs(tt.dmatrix.filter(readonly), readonly)

    def test_strict_refuses(self):
        for value in (
            3.0,
            [1.0],
            np.zeros(2, "float32"),
            np.zeros((2, 2)),
            np.zeros(2, ">f8"),
            np.zeros(17, "u1")[1:].view("f8"),
        ):
            with self.assertRaises(TypeError):
                tt.dvector.filter(value, strict=True)
            self.assertFalse(tt.dvector.is_valid_value(value))

    def test_conversion_makes_native_aligned_arrays(self):
        swapped = np.arange(3.0).astype(">f8")
        misaligned = np.zeros(25, "u1")[1:].view("f8")
        longlong = np.arange(3, dtype=np.longlong)
        for type_, value in (
            (tt.dvector, swapped),
            (tt.dvector, misaligned),
            (tt.lvector, longlong),
            (tt.dvector, np.arange(3, dtype="int32")),
        ):
            out = type_.filter(value)
            self.assertTrue(out.flags.aligned and out.dtype.isnative)
            self.assertEqual(out.dtype.num, type_.numpy_dtype.num)
            np.testing.assert_array_equal(out, value)

    def test_arrays_of_the_other_byte_order_that_are_not_converted(self):
        """Native code accepts arrays of the other byte order.

        A graph that is compiled to C as a whole refuses them.
        """
        x, A, k = tt.dvector(), tt.dmatrix(), tt.ivector()
        values = {x: np.arange(5.0), A: np.arange(12.0).reshape(3, 4), k: np.array([0, 2], "int32")}
        swapped = {v: value.astype(value.dtype.newbyteorder()) for v, value in values.items()}
        outputs = tt.exp(x) + x, x.sum(), tt.dot(A, A.T), A[k], A[1:], tt.nnet.softmax(A), tt.sort(A), tt.join(0, x, x)
        for linker in ("c", "c|py", "cvm", "vm") if find_toolchain() else ("c|py", "cvm", "vm"):
            for out in outputs:
                inputs = [v for v in values if v in theano.gof.graph.inputs([out])]
                f = theano.function(inputs, out, mode=theano.Mode(linker, "fast_run"))
                want = f(*[values[v] for v in inputs])
                f.trust_input = True
                given = [swapped[v] for v in inputs]
                with self.subTest(linker=linker, out=out):
                    if linker == "c":
                        self.assertRaisesRegex(NotImplementedError, "byte order", f, *given)
                    else:
                        np.testing.assert_array_equal(f(*given), want)

    def test_loss_of_precision(self):
        message = (
            r"TensorType\(float32, vector\) cannot store a value of dtype float64 without risking loss of precision. If you do not "
            r"mind this loss, you can: 1\) explicitly cast your data to float32, or 2\) set \"allow_input_downcast=True\" when calling "
            r"\"function\"\."
        )
        x = np.array([0.1])
        for allow in (None, False):
            with self.assertRaisesRegex(TypeError, message):
                tt.fvector.filter(x, allow_downcast=allow)
        np.testing.assert_array_equal(tt.fvector.filter(x, allow_downcast=True), x.astype("float32"))
        with self.assertRaises(TypeError):
            tt.ivector.filter(np.arange(3))

    def test_all_dtypes(self):
        """An array is accepted if its dtype and the type's dtype promote to the type's dtype, and always if downcasts
        are allowed.
        """
        names = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
        for into in names:
            type_ = TensorType(into, (False,))
            for given in names:
                for value in (np.array([0, 1], given), np.array([0, 1], np.dtype(given).newbyteorder())):
                    if np.promote_types(given, into) == into:
                        out = type_.filter(value)
                        self.assertEqual((out.dtype, out.dtype.isnative, out.tolist()), (np.dtype(into), True, [0, 1]))
                    else:
                        for allow in (None, False):
                            with self.assertRaisesRegex(TypeError, "without risking loss of precision"):
                                type_.filter(value, allow_downcast=allow)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
                        self.assertEqual(type_.filter(value, allow_downcast=True).dtype, np.dtype(into))
                if given == into:
                    exact = np.array([0, 1], given)
                    self.assertIs(type_.filter(exact, strict=True), exact)
                else:
                    with self.assertRaisesRegex(TypeError, "expected a ndarray object with dtype"):
                        type_.filter(np.array([0, 1], given), strict=True)

    def test_memmap_and_subclasses(self):
        memory = np.memmap("/dev/zero", dtype="float64", mode="c", shape=(3,))
        self.assertIs(tt.dvector.filter(memory), memory)
        self.assertTrue(tt.dvector.is_valid_value(memory))

        class Other(np.ndarray):
            pass

        self.assertIs(type(tt.dvector.filter(np.zeros(3).view(Other))), np.ndarray)
        self.assertIs(type(tt.dvector.filter(np.ma.masked_array([1.0, 2.0]))), np.ndarray)

    def test_finite_values_may_be_asked_for(self):
        type_ = TensorType("float64", (False,))
        type_.filter_checks_isfinite = True
        self.assertEqual(type_.filter([1.0, 2.0]).tolist(), [1, 2])
        for odd in (np.nan, np.inf):
            with self.assertRaisesRegex(ValueError, "non-finite elements not allowed"):
                type_.filter([1.0, odd])

    def test_python_values(self):
        self.assertEqual(tt.bscalar.filter(5).dtype, np.int8)
        self.assertEqual(tt.fscalar.filter(0.5), np.float32(0.5))
        np.testing.assert_array_equal(tt.dmatrix.filter([[1, 2], [3, 4]]), [[1.0, 2.0], [3.0, 4.0]])
        for type_, value, error in (
            (tt.bscalar, 300, TypeError),
            (tt.bscalar, 1.5, TypeError),
            (tt.ivector, [1.5], TypeError),
            (tt.fvector, [0.1], TypeError),
            (tt.dscalar, 1j, TypeError),
            (tt.dscalar, "a", ValueError),
        ):
            with self.assertRaises(error):
                type_.filter(value)
        self.assertEqual(tt.bscalar.filter(300, allow_downcast=True), 44)
        with theano.config.change_flags(floatX="float32"):
            self.assertEqual(tt.fscalar.filter(0.1), np.float32(0.1))
            with self.assertRaises(TypeError):
                tt.fscalar.filter(0.1, allow_downcast=False)

    def test_shape_errors(self):
        with self.assertRaisesRegex(TypeError, r"Wrong number of dimensions: expected 1, got 2 with shape \(2, 3\)\."):
            tt.dvector.filter(np.zeros((2, 3)))
        with self.assertRaisesRegex(TypeError, "Non-unit value on shape on a broadcastable dimension."):
            tt.drow.filter(np.zeros((2, 3)))
        self.assertEqual(tt.drow.filter(np.zeros((1, 3))).shape, (1, 3))
        with self.assertRaisesRegex(TypeError, "found a Variable"):
            tt.dvector.filter(tt.dvector())

    def test_filter_variable(self):
        x = tt.dmatrix("x")
        self.assertIs(tt.dmatrix.filter_variable(x), x)
        self.assertEqual(tt.dmatrix.filter_variable(tt.drow()).type, tt.dmatrix)
        self.assertEqual(tt.dvector.filter_variable(np.zeros(3)).type, tt.dvector)
        for other in (tt.fmatrix("y"), tt.dvector("v")):
            with self.assertRaisesRegex(TypeError, "Cannot convert Type"):
                tt.dmatrix.filter_variable(other)
        with self.assertRaises(TypeError):
            tt.drow.filter_variable(x)


class TestValues(unittest.TestCase):
    def test_values_eq(self):
        a = np.array([1.0, np.nan, np.inf])
        self.assertTrue(TensorType.values_eq(a, a.copy()))
        self.assertFalse(TensorType.values_eq(a, a.astype("float32")))
        self.assertTrue(TensorType.values_eq(a, a.astype("float32"), force_same_dtype=False))
        self.assertFalse(TensorType.values_eq(a, np.array([1.0, np.nan, -np.inf])))
        self.assertFalse(TensorType.values_eq(a, a[:2]))

    def test_values_eq_approx(self):
        a = np.array([1.0, np.nan, np.inf])
        self.assertTrue(values_eq_approx(a, a + 1e-9))
        self.assertFalse(values_eq_approx(a, a + 1e-3))
        self.assertTrue(values_eq_approx(a, a + 1e-3, rtol=1e-2))
        finite = np.array([1.0, 2.0, 3.0])
        self.assertFalse(values_eq_approx(finite, a))
        self.assertFalse(values_eq_approx_remove_inf(a, finite))
        self.assertTrue(values_eq_approx(a, finite, allow_remove_inf=True, allow_remove_nan=True))
        self.assertTrue(values_eq_approx_remove_nan(np.array([np.nan]), np.array([2.0])))
        self.assertFalse(values_eq_approx_remove_nan(np.array([2.0]), np.array([np.nan])))
        self.assertFalse(values_eq_approx(np.array([1, 2]), np.array([1, 3])))
        self.assertTrue(values_eq_approx(np.float16([1.0]), np.float16([1.004])))

    def test_may_share_memory(self):
        x = np.zeros(4)
        self.assertTrue(tt.dvector.may_share_memory(x, x[::2]))
        self.assertFalse(tt.dvector.may_share_memory(x, x.copy()))
        self.assertFalse(tt.dvector.may_share_memory(x, 3))


if __name__ == "__main__":
    unittest.main()
