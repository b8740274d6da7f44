"""The documented behavior of reductions, extra operations and gradients."""

import unittest
import warnings

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gradient import DisconnectedInputError, DisconnectedType, NullTypeGradError
from theano_ng.tests import unittest_tools as utt

NARROW = dict(
    int8="int64",
    int16="int64",
    int32="int64",
    int64="int64",
    uint8="uint64",
    uint16="uint64",
    uint32="uint64",
    uint64="uint64",
    float16="float16",
    float32="float32",
    float64="float64",
    complex64="complex64",
    complex128="complex128",
)


class TestDtypes(unittest.TestCase):
    def test_sum_and_prod(self):
        for dtype, expected in NARROW.items():
            x = T.matrix(dtype=dtype)
            for reduce in (T.sum, T.prod):
                self.assertEqual(reduce(x).dtype, expected)
                self.assertEqual(
                    reduce(x, axis=0, acc_dtype="float64" if dtype[0] != "c" else "complex128").dtype, expected
                )
                self.assertEqual(reduce(x, dtype="complex128").dtype, "complex128")
                accumulator = reduce(x).owner.op.acc_dtype
                wide = {"i": "int64", "u": "uint64", "f": "float64", "c": "complex128"}[dtype[0]]
                self.assertEqual(accumulator, wide, dtype)
        self.assertEqual(T.sum(T.matrix(dtype="bool")).dtype, "int64")
        # float32 is accumulated in float64
        x = T.fvector()
        values = np.full(10**6, 0.1, "float32")
        self.assertEqual(theano.function([x], x.sum())(values), np.float32(values.sum(dtype="float64")))

    def test_mean(self):
        self.assertEqual(T.mean(T.fmatrix()).dtype, "float32")
        self.assertEqual(T.mean(T.imatrix()).dtype, "float64")
        self.assertTrue(T.mean(T.imatrix(), acc_dtype="int64").dtype.startswith("float"))
        x = T.imatrix()
        np.testing.assert_allclose(T.mean(x, axis=1).eval({x: [[1, 2], [3, 4]]}), [1.5, 3.5])

    def test_others(self):
        x = T.fmatrix()
        self.assertEqual(
            [f(x).dtype for f in (T.max, T.min, T.argmax, T.all, T.any, T.std, T.var, T.ptp)],
            ["float32", "float32", "int64", "bool", "bool", "float32", "float32", "float32"],
        )


class TestAxes(unittest.TestCase):
    def test_against_numpy(self):
        v = np.random.RandomState(1).randn(2, 3, 4)
        x = T.dtensor3()
        names = ("sum", "prod", "mean", "var", "std", "max", "min", "all", "any")
        axes = (None, 0, -1, [0, 2], (1,))
        outs = [
            getattr(T, name)(x, axis=axis, keepdims=keep) for name in names for axis in axes for keep in (False, True)
        ]
        f = theano.function([x], outs, mode=theano.Mode("cvm", None))
        results = iter(zip(outs, f(v)))
        for name in names:
            for axis in axes:
                for keep in (False, True):
                    out, got = next(results)
                    want = getattr(np, name)(v, axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=keep)
                    np.testing.assert_allclose(got, want, rtol=1e-12)
                    self.assertEqual(np.shape(got), np.shape(want))
                    if keep:
                        self.assertEqual([n == 1 for n in np.shape(want)], list(out.broadcastable))
        for axis in (None, 0, 2, -2):
            best, where = theano.function([x], T.max_and_argmax(x, axis=axis))(v)
            np.testing.assert_array_equal(best, v.max(axis))
            np.testing.assert_array_equal(where, v.argmax(axis))
            np.testing.assert_array_equal(T.argmin(x, axis=axis).eval({x: v}), v.argmin(axis))
        np.testing.assert_allclose(
            theano.function([x], (x - x.mean(axis=1, keepdims=True)))(v), v - v.mean(1, keepdims=True)
        )
        self.assertRaises(ValueError, T.sum, x, axis=3)
        self.assertRaises(ValueError, theano.function([x], T.max(x)), v[:0])

    @theano.change_flags({"DebugMode.check_finite": False})
    def test_nan(self):
        x = T.dvector()
        v = np.array([1.0, np.nan, 3.0])
        f = theano.function([x], [T.max(x), T.min(x), T.argmax(x), T.sum(x)])
        best, least, where, total = f(v)
        self.assertTrue(np.isnan(best) and np.isnan(least) and np.isnan(total))
        self.assertEqual(where, 1)


class TestProductGradient(unittest.TestCase):
    def test_zeros(self):
        x = T.dmatrix()
        v = np.array([[2.0, 3, 4], [2, 0, 4], [0, 0, 4]])
        f = theano.function([x], T.grad(T.prod(x, axis=1).sum(), x))
        np.testing.assert_array_equal(f(v), [[12, 8, 6], [0, 8, 0], [0, 0, 0]])
        g = theano.function([x], T.grad(T.prod(x, axis=1, no_zeros_in_input=True).sum(), x))
        np.testing.assert_array_equal(g(v[:1]), [[12, 8, 6]])
        second = T.grad(T.grad(T.prod(x, no_zeros_in_input=True), x).sum(), x)
        np.testing.assert_allclose(theano.function([x], second)(v[:1]), [[7, 6, 5]])
        utt.verify_grad(lambda m: T.prod(m, axis=0), [v[:2] + 0.5], rng=np.random.RandomState(1))


class TestGrad(unittest.TestCase):
    def setUp(self):
        self.x, self.y, self.z = T.dvectors("x", "y", "z")
        self.cost = (self.x**2 * self.y).sum()
        self.cost.name = "C"

    def test_form_and_names(self):
        x, y = self.x, self.y
        self.assertIsInstance(T.grad(self.cost, x), theano.Variable)
        self.assertIsInstance(T.grad(self.cost, [x]), list)
        self.assertIsInstance(T.grad(self.cost, (x, y)), tuple)
        self.assertEqual([g.name for g in T.grad(self.cost, [x, y])], ["(dC/dx)", "(dC/dy)"])
        self.assertIsNone(T.grad(self.cost, x, add_names=False).name)
        self.assertRaises(TypeError, T.grad, x * y, x)
        self.assertRaises(AssertionError, T.grad, None, x)

    def test_disconnected(self):
        z = self.z
        self.assertRaises(DisconnectedInputError, T.grad, self.cost, z)
        zero = T.grad(self.cost, z, disconnected_inputs="ignore")
        np.testing.assert_array_equal(zero.eval({z: [1.0, 2]}), [0, 0])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            T.grad(self.cost, z, disconnected_inputs="warn")
        self.assertEqual(len(caught), 1)
        self.assertIsNone(T.grad(self.cost, z, disconnected_inputs="ignore", return_disconnected="None"))
        self.assertIsInstance(
            T.grad(self.cost, z, disconnected_inputs="ignore", return_disconnected="Disconnected").type,
            DisconnectedType,
        )
        self.assertRaises(ValueError, T.grad, self.cost, z, disconnected_inputs="maybe")

    def test_no_differentiable_path(self):
        zero = T.grad(T.cast(T.ge(self.x, 0), "float64").sum(), self.x)
        np.testing.assert_array_equal(zero.eval({self.x: [1.0, -1.0]}), [0, 0])

    def test_known_and_constant(self):
        x, y = self.x, self.y
        product = x * y
        g = T.grad(None, x, known_grads={product: T.ones_like(product) * 3})
        np.testing.assert_array_equal(
            theano.function([x, y], g, on_unused_input="ignore")([1.0, 2], [4.0, 5]), [12, 15]
        )
        g = T.grad((product * x).sum(), x, consider_constant=[product])
        np.testing.assert_array_equal(theano.function([x, y], g)([1.0, 2], [4.0, 5]), [4, 10])
        g = T.grad((theano.gradient.disconnected_grad(product) * x).sum(), x)
        np.testing.assert_array_equal(theano.function([x, y], g)([1.0, 2], [4.0, 5]), [4, 10])

    def test_null(self):
        class NoGradient(theano.Op):
            __props__ = ()

            def make_node(self, x):
                return theano.Apply(self, [x], [x.type()])

            def perform(self, node, inputs, outputs):
                outputs[0][0] = inputs[0].copy()

            def grad(self, inputs, grads):
                return [theano.gradient.grad_undefined(self, 0, inputs[0])]

        out = NoGradient()(self.x).sum()
        self.assertRaises(NullTypeGradError, T.grad, out, self.x)
        self.assertEqual(type(T.grad(out, self.x, null_gradients="return").type).__name__, "NullType")


class TestExtra(unittest.TestCase):
    def test_unique(self):
        from theano_ng.tensor.extra_ops import Unique

        for value, expected in (
            ([1, 2, 3, 4, 3, 2, 1], ([1, 2, 3, 4], [0, 1, 2, 3], [0, 1, 2, 3, 2, 1, 0])),
            ([[1, 1, 1], [2, 3, 3]], ([1, 2, 3], [0, 3, 4], [0, 0, 0, 1, 2, 2])),
        ):
            x = T.TensorType("int64", (False,) * np.ndim(value))()
            for got, want in zip(theano.function([x], Unique(True, True, False)(x))(value), expected):
                np.testing.assert_array_equal(got, want)
            counts = theano.function([x], Unique(False, False, True)(x))(value)[1]
            np.testing.assert_array_equal(counts, np.unique(value, return_counts=True)[1])

    def test_searchsorted_and_bins(self):
        extra = T.extra_ops
        self.assertEqual(extra.searchsorted([1, 2, 3, 4, 5], 3).eval(), 2)
        self.assertEqual(extra.searchsorted([1, 2, 3, 4, 5], 3, side="right").eval(), 3)
        out = extra.searchsorted([1, 2, 3, 4, 5], [-10, 10, 2, 3])
        self.assertEqual(out.dtype, "int64")
        np.testing.assert_array_equal(out.eval(), [0, 5, 1, 2])
        x = T.lvector()
        np.testing.assert_array_equal(x.searchsorted([2]).eval({x: [1, 2, 3]}), [1])
        np.testing.assert_array_equal(T.bincount(x).eval({x: [1, 4, 1]}), [0, 2, 0, 0, 1])
        np.testing.assert_array_equal(T.bincount(x, minlength=7).eval({x: [1, 4, 1]}), [0, 2, 0, 0, 1, 0, 0])
        np.testing.assert_array_equal(T.bincount(x, T.constant([0.5, 1, 2])).eval({x: [1, 2, 1]}), [0, 2.5, 1])
        self.assertRaises(AssertionError, theano.function([x], T.bincount(x, assert_nonneg=True)), [1, -1])

    def test_windows_and_differences(self):
        n = T.lscalar()
        f = theano.function([n], T.bartlett(n))
        for k in (0, -3, 1, 2, 5, 6):
            np.testing.assert_allclose(f(k), np.bartlett(k), atol=1e-15)
        x = T.dmatrix()
        v = np.random.RandomState(1).randn(3, 4)
        for out, want in (
            (T.diff(x), np.diff(v)),
            (T.diff(x, n=2, axis=0), np.diff(v, 2, 0)),
            (T.cumsum(x), v.cumsum()),
            (T.cumprod(x, axis=1), v.cumprod(1)),
            (T.repeat(x, 2), v.repeat(2)),
            (T.repeat(x, [1, 2, 0], axis=0), v.repeat([1, 2, 0], 0)),
            (T.extra_ops.compress([0, 1, 1], x, axis=0), v[1:]),
        ):
            np.testing.assert_allclose(out.eval({x: v}), want)

    def test_diagonals(self):
        x = T.dmatrix()
        v = np.zeros((4, 3))
        want = v.copy()
        np.fill_diagonal(want, 5)
        np.testing.assert_array_equal(T.fill_diagonal(x, 5.0).eval({x: v}), want)
        for offset in (-2, -1, 0, 1, 2):
            want = np.zeros((4, 3))
            rows = np.arange(4)
            inside = (rows + offset >= 0) & (rows + offset < 3)
            want[rows[inside], rows[inside] + offset] = 7
            np.testing.assert_array_equal(T.fill_diagonal_offset(x, 7.0, offset).eval({x: v}), want)
        self.assertRaises(TypeError, T.fill_diagonal, T.lmatrix(), 1.5)
        self.assertRaises(TypeError, T.fill_diagonal, T.dvector(), 1.0)

    def test_indices(self):
        i = T.lvector()
        v = np.array([0, 5, 11])
        for got, want in zip(theano.function([i], T.unravel_index(i, (3, 4)))(v), np.unravel_index(v, (3, 4))):
            np.testing.assert_array_equal(got, want)
        a, b = T.lvectors(2)
        for mode, indices in (("raise", ([0, 2], [1, 3])), ("wrap", ([4, -1], [5, 2])), ("clip", ([-4, 9], [7, 2]))):
            out = T.ravel_multi_index((a, b), (3, 4), mode=mode)
            np.testing.assert_array_equal(
                theano.function([a, b], out)(*indices), np.ravel_multi_index(indices, (3, 4), mode=mode)
            )
        self.assertRaises(ValueError, theano.function([a, b], T.ravel_multi_index((a, b), (3, 4))), [3], [0])
        np.testing.assert_array_equal(T.extra_ops.to_one_hot(i, 4).eval({i: [2, 0]}), [[0, 0, 1, 0], [1, 0, 0, 0]])
        self.assertEqual(T.extra_ops.to_one_hot(i, 4).dtype, theano.config.floatX)

    def test_shape_of_variables(self):
        x = T.matrix("x")
        y = x[512:]
        y.name = "y"
        fgraph = theano.FunctionGraph([x], [y], clone=False)
        shapes = theano.tensor.utils.shape_of_variables(fgraph, {x: (1024, 1024)})
        self.assertEqual(
            {k: tuple(map(int, v)) for k, v in shapes.items() if k in (x, y)}, {x: (1024, 1024), y: (512, 1024)}
        )

    def test_hash_of_arrays(self):
        h = theano.tensor.utils.hash_from_ndarray
        a = np.arange(6.0).reshape(2, 3)
        self.assertEqual(h(a), h(a.copy()))
        self.assertEqual(h(a), h(np.asfortranarray(a)))
        others = [a + 1, a.T, a.reshape(3, 2), a.astype("float32"), a.view("int64")]
        self.assertEqual(len({h(a)} | {h(b) for b in others}), 6)


if __name__ == "__main__":
    unittest.main()
