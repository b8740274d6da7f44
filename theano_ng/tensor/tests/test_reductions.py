"""Sum, Prod, All, Any and CAReduce: dtypes, strings, values in C and Python, derivatives."""

import unittest
import warnings

import numpy as np

import theano_ng as theano
import theano_ng.tensor as tt
from theano_ng import scalar
from theano_ng.gof.native import NativeCode, make_native_thunk
from theano_ng.tensor.elemwise import All, Any, CAReduce, CAReduceDtype, Prod, ProdWithoutZeros, Sum
from theano_ng.tensor.type import TensorType
from theano_ng.tensor.type_other import NoneConst


def native(node, value):
    """Return the output of the node's native code."""
    cells = [[None]]
    make_native_thunk(node, node.op.native_code(node), [[value]], cells)()
    return cells[0][0]


def python(node, value):
    """Return the output of the node's `perform`."""
    cells = [[None]]
    node.op.perform(node, [value], cells)
    return cells[0][0]


def variable(array):
    return TensorType(str(array.dtype), (False,) * array.ndim)()


class TestGraph(unittest.TestCase):
    def test_str(self):
        x = tt.fmatrix()
        self.assertEqual(str(Sum()(x).owner.op), "Sum{acc_dtype=float64}")
        self.assertEqual(str(Sum(axis=-2)(x).owner.op), "Sum{axis=[0], acc_dtype=float64}")
        self.assertEqual(str(Prod(axis=[1, 0])(x).owner.op), "Prod{axis=(0, 1), dtype='float32', acc_dtype='float64'}")
        self.assertEqual(str(CAReduce(scalar.maximum, axis=1)), "Reduce{maximum}{1}")
        self.assertEqual(str(CAReduce(scalar.maximum)), "Reduce{maximum}")

    def test_dtypes(self):
        table = {
            "bool": ("int64", "int64"), "int8": ("int64", "int64"), "int64": ("int64", "int64"), "uint8": ("uint64", "uint64"),
            "float16": ("float16", "float64"), "float32": ("float32", "float64"), "float64": ("float64", "float64"),
            "complex64": ("complex64", "complex128"),
        }  # fmt: skip
        for dtype, (out, acc) in table.items():
            z = Sum()(TensorType(dtype, (False,))())
            self.assertEqual((z.dtype, z.owner.op.acc_dtype), (out, acc))
        self.assertEqual(Sum(dtype="float64")(tt.ivector()).dtype, "float64")
        self.assertEqual(Sum(acc_dtype="float32")(tt.ivector()).owner.op.acc_dtype, "float32")
        self.assertEqual(All()(tt.dvector()).dtype, "bool")
        with self.assertRaisesRegex(TypeError, "precision would be lost"):
            Sum(acc_dtype="float32")(tt.dvector())
        with self.assertRaises(TypeError):
            Sum(dtype="float64")(tt.zvector())

    def test_axes(self):
        x = TensorType("float64", (False, True, False))("x")
        self.assertEqual(Sum(axis=(2, -3))(x).broadcastable, (True,))
        self.assertEqual(Sum(axis=np.int64(1))(x).broadcastable, (False, False))
        self.assertEqual(Sum(axis=())(x).broadcastable, x.broadcastable)
        self.assertEqual(Sum(axis=[0, 1])(x).owner.op, Sum(axis=(1, 0))(x).owner.op)
        self.assertNotEqual(Prod(axis=0)(x).owner.op, Prod(axis=0, no_zeros_in_input=True)(x).owner.op)
        for function in (tt.sum, tt.prod, tt.mean, tt.max, tt.min, tt.var, tt.std, tt.any, tt.all, tt.argmax, tt.ptp):
            for axis in (range(2), {0, 1}, np.arange(2), {0: "a", 1: "b"}.keys(), (0, 1)):
                self.assertEqual(function(x, axis=axis).broadcastable, (False,), (function, axis))
            for axis in (iter([0]), "a"):
                self.assertRaises((TypeError, ValueError), function, x, axis=axis)
        self.assertEqual(tt.sum(x, axis=range(1, 3), keepdims=True).broadcastable, (False, True, True))
        for axis in (3, -4):
            with self.assertRaisesRegex(ValueError, "Not enough dimensions"):
                Sum(axis=axis)(x)
        with self.assertRaises(NotImplementedError):
            CAReduce(scalar.exp)
        with self.assertRaisesRegex(TypeError, "bits of integers"):
            CAReduce(scalar.xor)(x)


class TestValues(unittest.TestCase):
    def test_against_numpy(self):
        rng = np.random.RandomState(0)
        base = rng.randint(1, 4, size=(5, 70, 9))
        views = [
            lambda a: a,
            lambda a: a[::-1, ::2],
            lambda a: a.transpose(2, 0, 1),
            lambda a: a[:, :, :0],
            lambda a: np.asfortranarray(a),
        ]
        cases = [
            (Sum, np.add, ("bool", "int8", "uint32", "float16", "float32", "float64", "complex64")),
            (Prod, np.multiply, ("float64", "complex128")),
            (lambda axis: CAReduce(scalar.maximum, axis), np.maximum, ("uint8", "int64", "float32", "float64")),
            (lambda axis: CAReduce(scalar.minimum, axis), np.minimum, ("int16", "float64")),
            (lambda axis: CAReduce(scalar.or_, axis), np.bitwise_or, ("int32",)),
            (lambda axis: CAReduce(scalar.and_, axis), np.bitwise_and, ("uint16",)),
            (lambda axis: CAReduce(scalar.xor, axis), np.bitwise_xor, ("int8",)),
        ]
        for make, ufunc, dtypes in cases:
            for dtype in dtypes:
                for k, view in enumerate(views):
                    x = view(base.astype(dtype))
                    if make is Prod:
                        x = x / np.asarray(1.8, dtype=dtype)
                    for axis in (None, 0, 1, 2, (0, 2), (1, 2), ()):
                        node = make(axis=axis)(variable(x)).owner
                        acc = node.op._acc_dtype(dtype)
                        if (
                            x.size == 0
                            and getattr(node.op.scalar_op, "identity", None) is None
                            and axis in (None, 2, (0, 2), (1, 2))
                        ):
                            self.assertRaises(ValueError, native, node, x)
                            self.assertRaises(ValueError, python, node, x)
                            continue
                        want = ufunc.reduce(x, axis=tuple(range(3)) if axis is None else axis, dtype=acc)
                        for run in (native, python):
                            got = run(node, x)
                            self.assertEqual(
                                (got.dtype, got.shape), (node.outputs[0].dtype, want.shape), (ufunc, dtype, axis)
                            )
                            rtol = 1e-3 if dtype == "float16" else 1e-6 if dtype in ("float32", "complex64") else 1e-10
                            np.testing.assert_allclose(
                                got, want.astype(got.dtype), rtol=rtol, err_msg=str((ufunc, dtype, axis, k))
                            )

    def test_no_axes(self):
        """An empty sequence of axes reduces nothing, as in NumPy; only None selects all axes."""
        x = np.array([[1.0, 2, 0], [3, 4, 5]])
        v = tt.dmatrix()
        both = [tt.sum, tt.prod, tt.mean, tt.max, tt.min, tt.any, tt.all, tt.var, tt.std]
        plain = [getattr(np, f.__name__)(x, axis=()) for f in both]
        for mode in ("FAST_RUN", "FAST_COMPILE"):
            for keepdims in (False, True):
                found = theano.function([v], [f(v, axis=(), keepdims=keepdims) for f in both], mode=mode)(x)
                for f, got, want in zip(both, found, plain):
                    np.testing.assert_array_equal(got, want, err_msg=f.__name__)
            slope, place = theano.function(
                [v], [tt.grad(tt.max(v**2, axis=()).sum(), v), tt.argmax(v, axis=[])], mode=mode
            )(x)
            np.testing.assert_array_equal(slope, 2 * x)
            np.testing.assert_array_equal(place, 0 * x)
            self.assertEqual(
                [theano.function([v], f(v, axis=NoneConst), mode=mode)(x) for f in both],
                [getattr(np, f.__name__)(x) for f in both],
            )

    @theano.change_flags({"DebugMode.check_finite": False})
    def test_too_few_elements(self):
        """Variances and standard deviations of at most `ddof` elements are NaN or infinite, as in NumPy."""
        v = tt.dmatrix()
        f = theano.function([v], [tt.var(v, 0, ddof=2), tt.std(v, 0, ddof=2), tt.var(v, 0, ddof=2, corrected=True)])
        for rows in (0, 1, 2):
            x = np.arange(rows * 2.0).reshape(rows, 2)
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = [np.var(x, 0, ddof=2), np.std(x, 0, ddof=2), np.var(x, 0, ddof=2)]
            for got, want in zip(f(x)[:2], expected[:2]):
                np.testing.assert_array_equal(got, want)
            self.assertFalse(np.isfinite(f(x)[2]).any())

    def test_nan_and_infinity(self):
        for n in (1, 3, 200):
            x = np.linspace(-1, 1, n)
            for at in (0, n // 2, n - 1):
                y = x.copy()
                y[at] = np.nan
                for op in (scalar.maximum, scalar.minimum):
                    self.assertTrue(np.isnan(native(CAReduce(op)(tt.dvector()).owner, y)))
            self.assertEqual(native(CAReduce(scalar.maximum)(tt.dvector()).owner, np.full(n, -np.inf)), -np.inf)

    def test_float32_precision(self):
        x = np.full(10**6, 0.1, dtype="float32")
        self.assertEqual(native(Sum()(tt.fvector()).owner, x), np.float32(x.astype("float64").sum()))
        pairwise = native(Sum(acc_dtype="float32")(tt.fvector()).owner, x)
        self.assertLess(abs(float(pairwise) - x.astype("float64").sum()) / 1e5, 1e-6)

    @theano.change_flags({"DebugMode.check_finite": False})
    def test_large_integers_do_not_wrap_where_floats_are_wanted(self):
        cases = {
            "int64": [2**62] * 5 + [-(2**63)],
            "uint64": [2**63] * 4 + [3],
            "int32": [2**31 - 1] * 4,
            "bool": [True, False, True],
        }
        for dtype, values in cases.items():
            values = np.array(values, dtype)
            exact = values.astype("float64")
            x = TensorType(dtype, (False,))()
            results = [
                (tt.mean(x), exact.mean()),
                (tt.mean(x, dtype="float64"), exact.mean()),
                (tt.mean(x, dtype="float32"), exact.mean()),
                (tt.mean(x.dimshuffle(0, "x"), axis=0, keepdims=True)[0, 0], exact.mean()),
                (tt.var(x), exact.var()),
                (tt.var(x, ddof=1), exact.var(ddof=1)),
                (tt.std(x), exact.std()),
                (tt.sum(x, dtype="float64"), exact.sum()),
                (tt.sum(x, dtype="float32"), exact.sum()),
                (tt.sum(x, dtype="complex128").real, exact.sum()),
                (tt.prod(x, dtype="float64"), exact.prod()),
            ]
            for mode in ("FAST_RUN", theano.Mode("py", None)):
                found = theano.function([x], [result for result, _ in results], mode=mode)(values)
                np.testing.assert_allclose(found, [expected for _, expected in results], rtol=1e-6)
            # Sums that fit into 64 bits are exact, and an explicit integer accumulator is kept.
            self.assertEqual(tt.sum(x).eval({x: values}), values.sum())
        y = tt.lvector()
        self.assertEqual(tt.sum(y, dtype="float64", acc_dtype="int64").owner.op.acc_dtype, "int64")
        self.assertEqual(tt.sum(tt.ivector(), dtype="float64").owner.op.acc_dtype, "int64")

    def test_mean_in_float16(self):
        value = np.array([60000.0, 50000.0, 10.0])
        for dtype in ("float16", "float32", "int64"):
            x = TensorType(dtype, (False,))()
            for asked in ("float16", np.float16, np.dtype("float16")):
                mean = tt.mean(x, dtype=asked)
                self.assertEqual(mean.dtype, "float16")
                self.assertEqual(
                    mean.eval({x: value.astype(dtype)}), np.float16(value.astype(dtype).astype("float64").mean())
                )

    @theano.change_flags({"DebugMode.check_finite": False})
    def test_all_any(self):
        x = np.array([[0.0, 1.0, np.nan], [1.0, 2.0, 3.0]])
        f = theano.function([v := tt.dmatrix()], [All()(v), Any()(v), All(axis=1)(v), Any(axis=0)(v)])
        for got, want in zip(f(x), (x.all(), x.any(), x.all(1), x.any(0))):
            np.testing.assert_array_equal(got, want)
        self.assertEqual(f(np.zeros((0, 3)))[:2], [True, False])

    @unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
    def test_generated_fold(self):
        # Code is generated: the package has no loop for int8 with a float32 accumulator, or for ProdWithoutZeros.
        x = np.array([[2, 0, 3], [0, 0, 0]], dtype="int8")
        node = CAReduceDtype(scalar.add, axis=1, dtype="float32", acc_dtype="float32")(variable(x)).owner
        self.assertEqual(len(node.op.native_code(node).kernels), 1)
        np.testing.assert_array_equal(native(node, x), [5, 0])
        node = ProdWithoutZeros(axis=1)(variable(x)).owner
        for run in (native, python):
            np.testing.assert_array_equal(run(node, x), [6, 0])

    def test_argmax(self):
        rng = np.random.RandomState(1)
        for dtype in ("float64", "uint8", "bool"):
            x = rng.randint(0, 100, size=(4, 300, 3)).astype(dtype)
            if dtype == "float64":
                x[1, 7, 1] = np.nan
            for mask, axes in ((1, (0,)), (2, (1,)), (6, (1, 2)), (5, (0, 2)), (7, (0, 1, 2))):
                kept = [d for d in range(3) if d not in axes]
                rows = x.transpose(kept + list(axes)).reshape([x.shape[d] for d in kept] + [-1])
                node = tt.max_and_argmax(variable(x), axis=0)[0].owner
                cells = [[None], [None]]
                make_native_thunk(
                    node, NativeCode("theano_ng.tensor.native.argmax:max_and_argmax", axes=mask), [[x]], cells
                )()
                np.testing.assert_array_equal(cells[0][0], rows.max(-1))
                np.testing.assert_array_equal(cells[1][0], rows.argmax(-1))


class TestDerivatives(unittest.TestCase):
    def test_sum(self):
        x = tt.dmatrix()
        g = theano.function([x], theano.grad((x.sum(axis=0) ** 2).sum(), x))
        xv = np.arange(6.0).reshape(2, 3)
        np.testing.assert_allclose(g(xv), np.broadcast_to(2 * xv.sum(0), (2, 3)))

    def test_prod_with_zeros(self):
        x = tt.dmatrix()
        xv = np.array([[1.0, 2.0, 3.0], [0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
        want = np.array([[6.0, 3.0, 2.0], [6.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
        g = theano.function([x], theano.grad(Prod(axis=1)(x).sum(), x))
        np.testing.assert_allclose(g(xv), want)
        g = theano.function([x], theano.grad(Prod(axis=1, no_zeros_in_input=True)(x).sum(), x))
        np.testing.assert_allclose(g(xv[:1]), want[:1])

    def test_second_derivative_of_prod_without_zeros(self):
        x = tt.dvector()
        first = theano.grad(Prod(no_zeros_in_input=True)(x), x)
        h = theano.function([x], theano.grad(first[0], x))
        np.testing.assert_allclose(h(np.array([2.0, 3.0, 5.0])), [0.0, 5.0, 3.0], atol=1e-12)

    def test_R_op(self):
        x, v = tt.dmatrices(2)
        xv, vv = np.arange(6.0).reshape(2, 3) + 1, np.linspace(0, 1, 6).reshape(2, 3)
        for y, want in ((Sum(axis=1)(x), vv.sum(1)), (Prod(axis=1)(x), (xv.prod(1, keepdims=True) / xv * vv).sum(1))):
            f = theano.function([x, v], theano.gradient.Rop(y, x, v), on_unused_input="ignore")
            np.testing.assert_allclose(f(xv, vv), want)

    def test_infer_shape(self):
        x = tt.dtensor3()
        node = Sum(axis=1)(x).owner
        self.assertEqual(node.op.infer_shape(node, [("a", "b", "c")]), [("a", "c")])
        node = Sum()(x).owner
        self.assertEqual(node.op.infer_shape(node, [("a", "b", "c")]), [()])


if __name__ == "__main__":
    unittest.main()
