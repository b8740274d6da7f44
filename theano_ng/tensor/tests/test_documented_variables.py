"""The documented behavior of making, wrapping and shaping tensor variables."""

import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.configparser import change_flags
from theano_ng.tensor import TensorType

PREFIXES = dict(b="int8", w="int16", i="int32", l="int64", f="float32", d="float64", c="complex64", z="complex128")
KINDS = dict(
    scalar=(),
    vector=(False,),
    row=(True, False),
    col=(False, True),
    matrix=(False,) * 2,
    tensor3=(False,) * 3,
    tensor4=(False,) * 4,
    tensor5=(False,) * 5,
    tensor6=(False,) * 6,
    tensor7=(False,) * 7,
)


class TestConstructors(unittest.TestCase):
    def test_grid(self):
        exported = {}
        exec("from theano_ng.tensor import *", exported)
        for (prefix, dtype), (kind, pattern) in itertools.product(PREFIXES.items(), KINDS.items()):
            constructor = getattr(T, prefix + kind)
            self.assertIsInstance(constructor, TensorType)
            self.assertEqual(constructor, TensorType(dtype, pattern))
            self.assertEqual(hash(constructor), hash(TensorType(dtype, list(pattern))))
            x = constructor("x")
            self.assertEqual((x.dtype, x.broadcastable, x.ndim, x.name), (dtype, pattern, len(pattern), "x"))
            self.assertEqual(x.type, constructor)
            self.assertIsNone(constructor().name)
            self.assertEqual(constructor(name="y").name, "y")
            self.assertIs(exported[prefix + kind], constructor)

    def test_dtype_is_floatX_by_default(self):
        for kind, pattern in KINDS.items():
            make = getattr(T, kind)
            self.assertEqual(make().dtype, theano.config.floatX)
            with change_flags(floatX="float32"):
                self.assertEqual(make("x").dtype, "float32")
            self.assertEqual(make("x", dtype="uint16").type, TensorType("uint16", pattern))
        named = [
            T.scalar("myvar", dtype="int32"),
            T.iscalar("myvar"),
            TensorType(dtype="int32", broadcastable=())("myvar"),
        ]
        self.assertEqual({(v.type, v.name) for v in named}, {(T.iscalar, "myvar")})

    def test_plurals(self):
        for prefix, kind in itertools.product("ilfd", ("scalar", "vector", "row", "col", "matrix")):
            plural = "matrices" if kind == "matrix" else kind + "s"
            make, single = getattr(T, prefix + plural), getattr(T, prefix + kind)
            for args, names in (((3,), [None] * 3), (("x", "y", "z"), list("xyz")), (("abcd",), list("abcd"))):
                variables = make(*args)
                self.assertEqual([v.name for v in variables], names)
                self.assertEqual({v.type for v in variables}, {single})
        a, b, c, d = T.scalars("abcd")
        self.assertEqual(b.name, "b")
        self.assertEqual([m.dtype for m in T.matrices(2)], [theano.config.floatX] * 2)

    def test_types(self):
        big = TensorType("float64", (False,) * 8)
        self.assertEqual(big("x").ndim, 8)
        self.assertEqual(TensorType("float64", (False,) * 2), T.dmatrix)
        # TensorType accepts a third positional argument, which an old example passes
        third = TensorType("complex64", [False, True, False], False)()
        other = TensorType("complex64", [True, False, False])()
        self.assertEqual((third + other).broadcastable, (False,) * 3)
        for dtype in (
            "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 bool"
        ).split():
            self.assertEqual(TensorType(dtype, ()).dtype, dtype)
        self.assertRaises(TypeError, TensorType, "float63", ())
        memory = np.memmap("/dev/zero", dtype="float64", mode="c", shape=(3,))
        x = T.dvector()
        np.testing.assert_array_equal(theano.function([x], x + 1)(memory), [1, 1, 1])


class TestWrapping(unittest.TestCase):
    def test_numbers(self):
        for value, dtype in ((1, "int8"), (-128, "int8"), (128, "int16"), (2**15, "int32"), (2**31, "int64")):
            constant = T.as_tensor_variable(value)
            self.assertEqual((constant.dtype, constant.broadcastable), (dtype, ()))
        self.assertEqual(T.as_tensor_variable(0.5).dtype, "float32")
        self.assertEqual(
            T.as_tensor_variable(0.1).dtype, "float64" if theano.config.floatX == "float64" else theano.config.floatX
        )
        with change_flags(floatX="float32"):
            self.assertEqual([T.as_tensor_variable(v).dtype for v in (0.5, 0.1)], ["float32"] * 2)
        with T.basic.autocast_float_as("float64"):
            self.assertEqual(T.as_tensor_variable(0.5).dtype, "float64")

    def test_arrays(self):
        array = np.arange(3.0)[None]
        x = T.drow()
        out = x + array
        self.assertEqual(T.as_tensor_variable(array).broadcastable, (True, False))
        array[:] = 77  # the graph has its own copy
        np.testing.assert_array_equal(out.eval({x: [[0.0, 0, 0]]}), [[0, 1, 2]])
        self.assertIs(T.as_tensor_variable(x), x)
        self.assertEqual(T.as_tensor_variable([[1, 2], [3, 4]]).type, T.lmatrix)
        self.assertEqual(T.as_tensor_variable((1.0, x[0, 0])).ndim, 1)
        self.assertEqual(T.as_tensor_variable(T.dvector(), ndim=3).broadcastable, (True, True, False))
        self.assertEqual(T.as_tensor_variable(T.drow(), ndim=1).ndim, 1)
        self.assertRaises(ValueError, T.as_tensor_variable, T.dmatrix(), ndim=1)
        self.assertEqual(T.as_tensor_variable(3, name="three").name, "three")
        self.assertRaises(T.basic.AsTensorError, T.as_tensor_variable, "a string")

    def test_shared(self):
        value = np.zeros((1, 3), "float32")
        s = theano.shared(value)
        self.assertEqual(s.type, T.fmatrix)  # not broadcastable, because lengths of shared variables may change
        self.assertEqual(theano.shared(value, broadcastable=(True, False)).type, T.frow)
        value[:] = 1
        np.testing.assert_array_equal(s.get_value(), np.zeros((1, 3)))


class TestMethods(unittest.TestCase):
    def setUp(self):
        rng = np.random.RandomState(1)
        self.x, self.v = T.dtensor3("x"), rng.randn(2, 3, 4)

    def same(self, out, expected):
        got = out.eval({self.x: self.v} if self.x in theano.gof.graph.inputs([out]) else {})
        np.testing.assert_allclose(got, expected, rtol=1e-12)
        self.assertEqual(got.shape, np.shape(expected))
        self.assertEqual(got.dtype, out.dtype)

    def test_numpy_equivalents(self):
        x, v = self.x, self.v
        p = np.abs(v) + 0.5
        for out, expected in (
            (x.T, v.T),
            (x.real, v.real),
            (x.imag, v.imag),
            (x.flatten(), v.ravel()),
            (x.flatten(2), v.reshape(2, 12)),
            (x.ravel(), v.ravel()),
            (x.reshape((6, 4)), v.reshape(6, 4)),
            (x.reshape([4, -1]), v.reshape(4, -1)),
            (x.any(axis=1), v.any(1)),
            (x.all(), v.all()),
            (x.sum(axis=[0, 2], keepdims=True), v.sum((0, 2), keepdims=True)),
            (x.prod(axis=1), v.prod(1)),
            (x.mean(axis=2), v.mean(2)),
            (x.var(axis=0), v.var(0)),
            (x.std(), v.std()),
            (x.var(axis=0, ddof=1), v.var(0, ddof=1)),
            (x.min(axis=1), v.min(1)),
            (x.max(), v.max()),
            (x.argmin(axis=2), v.argmin(2)),
            (x.argmax(), v.argmax()),
            (x.diagonal(), v.diagonal()),
            (x.diagonal(1, 1, 2), v.diagonal(1, 1, 2)),
            (x.take([1, 0], axis=2), v.take([1, 0], axis=2)),
            (x.copy(), v),
            (x.norm(2), np.sqrt((v**2).sum())),
            (x.norm(1, axis=1), abs(v).sum(1)),
            (x.nonzero_values(), v.ravel()),
            (x.sort(), np.sort(v)),
            (x.argsort(axis=0), v.argsort(0)),
            (x.sort(axis=1), np.sort(v, 1)),
            (x.clip(-0.5, 0.5), v.clip(-0.5, 0.5)),
            (x.conj(), v),
            (x.conjugate(), v),
            (x.repeat(2, axis=1), v.repeat(2, 1)),
            (x.repeat([1, 0, 2], axis=1), v.repeat([1, 0, 2], 1)),
            (x.round(), np.round(v)),
            (x.zeros_like(), 0 * v),
            (x.ones_like(), 0 * v + 1),
            (x.fill(3), 0 * v + 3),
            (x.ptp(), np.ptp(v)),
            (x.ptp(axis=1), np.ptp(v, 1)),
            (x.swapaxes(0, 2), v.swapaxes(0, 2)),
            (x.transpose(), v.transpose()),
            (x.transpose(2, 0, 1), v.transpose(2, 0, 1)),
            (x.transpose((1, 2, 0)), v.transpose(1, 2, 0)),
            (x.cumsum(axis=1), v.cumsum(1)),
            (x.cumprod(), v.cumprod()),
            (x.compress([1, 0, 1], axis=1), v.compress([1, 0, 1], 1)),
            (x.max(axis=1, keepdims=True), v.max(1, keepdims=True)),
            (x.any(axis=1, keepdims=True), v.any(1, keepdims=True)),
            (x.argmax(axis=1, keepdims=True), v.argmax(1, keepdims=True)),
            (x.take([5, -1], 1, mode="wrap"), v.take([5, -1], 1, mode="wrap")),
            (x.take([[5, 0]]), v.take([[5, 0]])),
            (x.sort(0, "mergesort", None), np.sort(v, 0)),
            (x.round(mode=None), v.round()),
            (x.std(axis=1, ddof=1, keepdims=True, corrected=True), v.std(1, ddof=1, keepdims=True)),
            (x[0].trace(), v[0].trace()),
            (x[0].norm(np.inf), abs(v[0]).max()),
            (x.diagonal(-1, 2, 0), v.diagonal(-1, 2, 0)),
            (x.repeat(2), v.repeat(2)),
            (x.transpose([2, 0, 1]), v.transpose(2, 0, 1)),
            (x.ceil(), np.ceil(v)),
            (x.astype("float32"), v.astype("float32")),
            (x.dot(T.constant(v[0].T)), v.dot(v[0].T)),
            (T.sqrt(abs(x) + 0.5), np.sqrt(p)),
            (x.size, v.size),
            (x.shape, v.shape),
        ):
            self.same(out, expected)
        self.assertEqual(x.zeros_like(dtype="int8").dtype, "int8")
        for got, want in zip(x.nonzero(), v.nonzero()):
            self.same(got, want)
        self.same(x.nonzero(return_matrix=True), np.array(v.nonzero()))
        i = T.constant(np.array([1, 0, 1]))
        self.same(i.choose(T.constant(np.arange(6).reshape(2, 3))), [3, 1, 5])

    def test_reshape_takes_one_argument(self):
        self.assertRaises((TypeError, ValueError), lambda: self.x.reshape(6, 4).eval({self.x: self.v}))
        n = T.lvector()
        self.assertRaises(ValueError, T.reshape, self.x, n)
        self.assertEqual(self.x.reshape(n, ndim=2).ndim, 2)

    def test_dimshuffle(self):
        for shape, pattern, expected in (
            ((), ("x",), (1,)),
            ((2, 3), (0, 1), (2, 3)),
            ((2, 3), (1, 0), (3, 2)),
            ((2,), ("x", 0), (1, 2)),
            ((2,), (0, "x"), (2, 1)),
            ((2, 3, 4), (2, 0, 1), (4, 2, 3)),
            ((2, 3), (0, "x", 1), (2, 1, 3)),
            ((2, 3), (1, "x", 0), (3, 1, 2)),
            ((1, 3), (1,), (3,)),
        ):
            v = np.arange(np.prod(shape, dtype=int), dtype="float64").reshape(shape)
            x = TensorType("float64", [n == 1 for n in shape])()
            for out in (x.dimshuffle(*pattern), x.dimshuffle(pattern), x.dimshuffle(list(pattern))):
                self.assertEqual(out.eval({x: v}).shape, expected)
                self.assertEqual(out.broadcastable, tuple(n == 1 for n in expected))
        self.assertRaises(ValueError, T.dmatrix().dimshuffle, 1)
        y = T.vector()
        self.assertEqual(y.T.type, y.type)
        z = T.zmatrix()
        np.testing.assert_allclose((3 + 0.2j * z.T).eval({z: [[1j, 2]]}), [[3 - 0.2], [3 + 0.4j]])

    def test_squeeze_drops_declared_dimensions_only(self):
        row = T.drow()
        self.assertEqual(row.squeeze().ndim, 1)
        x = T.dmatrix()
        self.assertEqual(x.squeeze().eval({x: np.ones((1, 3))}).shape, (1, 3))

    def test_no_equality_no_truth_no_length(self):
        a, b = T.lvectors(2)
        self.assertIs(a == b, False)
        self.assertIs(a == a, True)
        self.assertRaisesRegex(TypeError, "object of type 'TensorVariable' has no len\\(\\)", len, a)
        with self.assertRaises(TypeError):
            a[5] = 1
        with self.assertRaises(TypeError):
            bool(a < b)
        self.assertRaises(TypeError, list, T.dscalar())

    def test_transfer_and_eval(self):
        self.assertEqual(self.x.transfer("cpu").type, self.x.type)
        x, y = T.dscalars("xy")
        z = x + y
        self.assertAlmostEqual(float(z.eval({x: 16.3, y: 12.1})), 28.4)
        self.assertRaises(ValueError, self.x.transfer, "no such device")


class TestShaping(unittest.TestCase):
    def test_padding(self):
        x = T.tensor3()
        self.assertEqual(T.shape_padleft(x, 2).broadcastable, (True, True, False, False, False))
        self.assertEqual(T.shape_padright(x).broadcastable, (False, False, False, True))
        for axis, text in ((0, "x,0,1,2"), (1, "0,x,1,2"), (3, "0,1,2,x"), (-1, "0,1,2,x")):
            self.assertEqual(str(T.shape_padaxis(x, axis)), "InplaceDimShuffle{%s}.0" % text)

    def test_broadcast_flags(self):
        x = T.dmatrix()
        self.assertEqual(T.addbroadcast(x, 0).broadcastable, (True, False))
        self.assertEqual(T.unbroadcast(T.drow(), 0).broadcastable, (False, False))
        self.assertEqual(T.patternbroadcast(x, (True, False)).broadcastable, (True, False))
        for out in (T.addbroadcast(x, 0), T.patternbroadcast(x, [True, False])):
            f = theano.function([x], out)
            self.assertEqual(f(np.ones((1, 3))).shape, (1, 3))
            self.assertRaises(ValueError, f, np.ones((2, 3)))
        # No node is added if the dimensions already have the requested pattern.
        self.assertIs(T.addbroadcast(T.addbroadcast(x, 0), 0).owner.inputs[0], x)
        self.assertIs(T.unbroadcast(x, 0), x)
        self.assertIs(T.patternbroadcast(x, (False, False)), x)

    def test_stack_and_join(self):
        a, b, c = T.scalars("abc")
        self.assertEqual(T.stack([a, b, c]).ndim, 1)
        v = np.ones((2, 2, 2, 2))
        x = T.constant(v)
        for axis, shape in ((0, (3, 2, 2, 2, 2)), (3, (2, 2, 2, 3, 2)), (-2, (2, 2, 2, 3, 2))):
            self.assertEqual(T.stack([x, x, x], axis=axis).eval().shape, shape)
        self.assertEqual(T.stack(x, x, x).eval().shape, (3, 2, 2, 2, 2))
        self.assertEqual(T.concatenate([T.fmatrix(), T.ftensor3()[0], T.shape_padright(T.fvector())], axis=1).ndim, 2)
        k = T.lscalar()
        np.testing.assert_array_equal(T.concatenate([[[1, 2]], [[3, 4]]], axis=k).eval({k: 1}), [[1, 2, 3, 4]])
        a, b, c, d = T.scalars("abcd")
        f = theano.function([a, b, c, d], T.stacklists([[a, b], [c, d]]))
        np.testing.assert_array_equal(f(1, 2, 3, 4), [[1, 2], [3, 4]])
        a, b, c, d = T.matrices("abcd")
        ones = np.ones((4, 4), "float32")
        self.assertEqual(
            theano.function([a, b, c, d], T.stacklists([[a, b], [c, d]]))(ones, ones, ones, ones).shape, (2, 2, 4, 4)
        )

    def test_creation(self):
        n = T.lscalar()
        for out, expected in (
            (T.zeros((n, 2)), np.zeros((3, 2))),
            (T.ones([n]), np.ones(3)),
            (T.eye(n), np.eye(3)),
            (T.eye(n, 4, -1), np.eye(3, 4, -1)),
            (T.alloc(2.0, n, 2), np.full((3, 2), 2.0)),
            (T.identity_like(T.zeros((n, 2))), np.eye(3, 2)),
            (T.arange(n), np.arange(3)),
            (T.zeros((n,), dtype="int16"), np.zeros(3, "int16")),
            (T.tile(T.eye(2), (2, 1)), np.tile(np.eye(2), (2, 1))),
            (T.roll(T.arange(n), 1), [2, 0, 1]),
            (T.roll(T.eye(2), n, axis=0), np.roll(np.eye(2), 3, 0)),
            (T.roll(T.eye(3), n), np.roll(np.eye(3), 3)),
            (T.flatten(T.zeros((2, n, 4, 5)), 2), np.zeros((2, 60))),
        ):
            got = out.eval({n: 3} if n in theano.gof.graph.inputs([out]) else {})
            np.testing.assert_array_equal(got, expected)
            self.assertEqual(got.dtype, out.dtype)
        self.assertEqual([T.zeros((2,)).dtype, T.ones((2,)).dtype, T.eye(2).dtype], [theano.config.floatX] * 3)
        self.assertEqual(T.ones_like(T.lvector(), dtype="float32").dtype, "float32")

    def test_choose(self):
        choices = [[0, 1, 2, 3], [10, 11, 12, 13], [20, 21, 22, 23]]
        a = T.lvector()
        for mode, index in (("raise", [2, 0, 1, 0]), ("wrap", [4, -1, 0, 3]), ("clip", [4, -1, 0, 3])):
            f = theano.function([a], T.choose(a, choices, mode=mode))
            np.testing.assert_array_equal(f(index), np.choose(index, choices, mode=mode))
        self.assertRaises(ValueError, theano.function([a], T.choose(a, choices)), [3, 0, 0, 0])
        self.assertRaises(ValueError, theano.function([a], T.choose(a, choices)), [0, 0, 0])


if __name__ == "__main__":
    unittest.main()
