"""Creation, selection, reductions and products against NumPy, and their gradients."""

import pickle
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.native import make_native_thunk
from theano_ng.tensor import basic, extra_ops
from theano_ng.tensor.indexing import selecting
from theano_ng.tensor.shaping import creation

# This module is the documented home of the names below.
from theano_ng.tensor.tests.make_tester import check_floatX, copymod, inplace_func, makeBroadcastTester, makeTester  # noqa: F401, names of this module
from theano_ng.tensor.tests.random_arguments import (  # noqa: F401, names of this module
    _good_broadcast_binary_normal,
    _good_broadcast_unary_normal,
    _good_broadcast_unary_normal_float_no_complex,
    _good_broadcast_unary_normal_no_complex,
    _grad_broadcast_binary_normal,
    _grad_broadcast_unary_normal,
    _numpy_true_div,
    multi_dtype_cast_checks,
    multi_dtype_checks,
    rand,
    rand_nonzero,
    rand_of_dtype,
    rand_ranged,
    randc128_ranged,
    randcomplex,
    randcomplex_nonzero,
    randint,
    randint_nonzero,
    randint_ranged,
    randuint32,
    upcast_float16_ufunc,
    upcast_int8_nfunc,
)
from theano_ng.tests import unittest_tools as utt

RNG = np.random.RandomState(427)
X = RNG.randn(3, 4)
V = RNG.randn(5)
T3 = RNG.randn(2, 3, 4)
I = np.array([1, 0, 3, 1])

x, v, t3 = T.dmatrix("x"), T.dvector("v"), T.dtensor3("t3")
i, k = T.lvector("i"), T.lscalar("k")
INPUTS, VALUES = [x, v, t3, i, k], [X, V, T3, I, 3]


def check(cases, linkers=("py", "cvm")):
    """Compare each variable with its expected value, in one function per linker."""
    names = list(cases)
    for linker in linkers:
        f = theano.function(INPUTS, [cases[n][0] for n in names], mode=Mode(linker, None), on_unused_input="ignore")
        for name, result in zip(names, f(*VALUES)):
            variable, wanted = cases[name]
            wanted = np.asarray(wanted)
            assert result.shape == wanted.shape, (name, linker, result.shape)
            np.testing.assert_allclose(result, wanted, rtol=1e-7, atol=1e-12, err_msg="%s, %s" % (name, linker))
            assert str(result.dtype) == variable.dtype, (name, linker)


class TestCreation(unittest.TestCase):
    def test_values(self):
        vector = creation.MakeVector("float64")(k, v[0], v[1])
        check(
            {
                "eye": (T.eye(k, k + 1, -1), np.eye(3, 4, -1)),
                "eye wide offset": (T.eye(2, 3, 7), np.eye(2, 3, 7)),
                "eye int": (T.eye(k, dtype="int8"), np.eye(3)),
                "eye empty": (T.eye(0, k), np.eye(0, 3)),
                "tri": (T.tri(k, 5, 1), np.tri(3, 5, 1)),
                "tri below": (T.tri(k, k, -9), np.tri(3, 3, -9)),
                "tril": (T.tril(x, -1), np.tril(X, -1)),
                "triu": (T.triu(x, 1), np.triu(X, 1)),
                "arange": (T.arange(1, k * 3, 2), np.arange(1, 9, 2)),
                "arange down": (T.arange(k, -3, -2), np.arange(3, -3, -2)),
                "arange empty": (T.arange(k, 1), np.arange(3, 1)),
                "arange float": (T.arange(0.0, v[0] + 5, 0.5), np.arange(0, V[0] + 5, 0.5)),
                "make vector": (vector, [3, V[0], V[1]]),
                "zeros": (T.zeros((k, 2)), np.zeros((3, 2))),
                "ones like": (T.ones_like(x, dtype="int32"), np.ones((3, 4))),
                "identity like": (T.identity_like(x), np.eye(3, 4)),
                "diag": (T.diag(x, 1), np.diag(X, 1)),
                "diag of vector": (T.diag(v, -2), np.diag(V, -2)),
                "diagonal": (T.diagonal(t3, -1, 2, 1), T3.diagonal(-1, 2, 1)),
                "mgrid": (T.mgrid[0:5, 0:3][1], np.mgrid[0:5, 0:3][1]),
                "mgrid 1d": (T.mgrid[1:7:2], np.mgrid[1:7:2]),
                "ogrid points": (T.ogrid[0:1:5j, 0:3][0], np.ogrid[0:1:5j, 0:3][0]),
            }
        )

    def test_shapes_agree_with_values(self):
        # infer_shape: the inferred shapes must equal the shapes of the values.
        outputs = [
            T.eye(k, 5),
            T.tri(k),
            T.arange(k, -6, -2),
            T.arange(-k),
            T.arange(0.0, 2.1, 0.5),
            T.diag(x, -1),
            T.diag(x, 9),
            T.diag(v, 2),
            T.diff(x, 5),
            T.diff(x, 2),
            T.bartlett(-k),
            T.repeat(x, [1, 2, 0], 0),
            T.repeat(v, k),
            extra_ops.RepeatOp(1)(x, i[:1]),
            T.cumsum(t3),
            T.max(t3, axis=[0, 2]),
            T.argmax(x, 0),
            T.dot(x, x.T),
            T.tensordot(t3, x, [[2], [1]]),
            T.topk(x, -2),
            T.sort(x),
            T.unravel_index(i, (2, 2))[0],
            T.choose(i % 2, [i, i]),
        ]
        f = theano.function(INPUTS, outputs + [o.shape for o in outputs], on_unused_input="ignore")
        results = f(*VALUES)
        for o, value, shape in zip(outputs, results, results[len(outputs) :]):
            assert value.shape == tuple(shape), (o, value.shape, shape)

    def test_dtypes(self):
        assert T.arange(10).dtype == "int64"
        assert T.arange(T.bscalar()).dtype == "int64"
        assert T.arange(10, dtype="int8").dtype == "int8"
        with theano.config.change_flags(floatX="float32"):
            assert T.zeros(3).dtype == "float32"
            assert T.eye(3).dtype == "float32"

    def test_dtypes_of_ranges(self):
        for policy, floatX, wanted in (
            # Each string lists the dtypes of six ranges. Their bounds have the dtypes int8; uint8; uint64; float32;
            # float32 and int64; float64.
            ("custom", "float64", "int64 int64 float64 float32 float64 float64"),
            ("custom", "float32", "int64 int64 float64 float32 float64 float64"),
            ("numpy+floatX", "float64", None),
            ("numpy+floatX", "float32", "int64 int64 float32 float32 float32 float64"),
        ):
            with theano.config.change_flags(cast_policy=policy, floatX=floatX):
                found, numpy = [], []
                for dtypes in (("int8",), ("uint8",), ("uint64",), ("float32",), ("float32", "int64"), ("float64",)):
                    found.append(T.arange(*[T.scalar(dtype=d) for d in dtypes]).dtype)
                    numpy.append(str(np.arange(*[np.ones((), d) for d in dtypes]).dtype))
                assert found == (wanted.split() if wanted else numpy), (policy, floatX, found)
        with theano.config.change_flags(floatX="float32"):
            assert T.arange(0.5).dtype == T.arange(3, dtype="floatX").dtype == "float32"
        assert T.arange(0.5).dtype == "float32" and T.arange(0.1).dtype == "float64"

    def test_constants_are_folded(self):
        for variable, wanted in (
            (T.arange(2, 9, 3), [2, 5, 8]),
            (T.arange(0.0, 1.0, 0.25), [0, 0.25, 0.5, 0.75]),
            (T.eye(2), np.eye(2)),
            (T.diag(T.arange(3)), np.diag(np.arange(3))),
            (T.tile([1, 2], 2), [1, 2, 1, 2]),
            (T.mgrid[0:2], [0, 1]),
            (T.stack([1, 2]), [1, 2]),
            (T.roll([1, 2, 3], 1), [3, 1, 2]),
            (T.tril([[1, 2], [3, 4]]), [[1, 0], [3, 4]]),
        ):
            f = theano.function([v], v.sum() * variable, mode="FAST_RUN")
            left = [str(node.op) for node in f.maker.fgraph.apply_nodes if "Elemwise" not in str(node.op)]
            assert all(op.startswith(("Sum", "InplaceDimShuffle")) for op in left), left
            np.testing.assert_allclose(f([2.0]), 2 * np.asarray(wanted))

    def test_grids(self):
        n, a = T.lscalar(), T.dscalar()
        for grid, reference in ((T.mgrid, np.mgrid), (T.ogrid, np.ogrid)):
            for make in (
                lambda g, n, a: g[0:5, 0:3],
                lambda g, n, a: g[0:n, 1:7:n],
                lambda g, n, a: g[0:a:5j, 2 : n + 4],
                lambda g, n, a: g[-1:1:3j, 5:n:-2, a : a + 2],
                lambda g, n, a: (g[2:8:n],),
                lambda g, n, a: (g[a:9:4j],),
                lambda g, n, a: (g[:n],),
                lambda g, n, a: (g[0:1:1j],),
                lambda g, n, a: (g[4:n:2, 0:0][0],),
            ):
                found = make(grid, n, a)
                results = theano.function([n, a], list(found), on_unused_input="ignore")(3, 0.5)
                for got, want in zip(results, make(reference, 3, 0.5)):
                    np.testing.assert_allclose(got, want, rtol=1e-12)
                    assert got.dtype == want.dtype and got.shape == want.shape, (got, want)
        # The documentation calls .eval() without inputs.
        rows, columns = T.mgrid[0:5, 0:3]
        assert rows.eval()[:, 1].tolist() == [0, 1, 2, 3, 4] and columns.eval()[1].tolist() == [0, 1, 2]
        first, second = T.ogrid[0:5, 0:3]
        assert first.eval().tolist() == [[0], [1], [2], [3], [4]] and second.eval().tolist() == [[0, 1, 2]]

    def test_constant_shape_is_broadcastable(self):
        assert T.eye(1, k).broadcastable == (True, False)

    def test_vectors_of_scalars_are_not_broadcastable(self):
        for made in (
            creation.MakeVector()(k),
            T.stack([k]),
            T.as_tensor_variable([k]),
            T.stacklists([k]),
            creation.MakeVector()(),
        ):
            assert made.broadcastable == (False,)
        assert T.stack([v]).broadcastable == (True, False)

    def test_errors(self):
        self.assertRaises(TypeError, T.eye, 2.5)
        self.assertRaises(TypeError, T.arange, v)
        self.assertRaises(ValueError, T.diag, k)
        self.assertRaises(TypeError, creation.MakeVector("int8"), v[0])
        f = theano.function([k], T.arange(0, 5, k))
        self.assertRaises(ZeroDivisionError, f, 0)


class TestNative(unittest.TestCase):
    """Native code agrees with `perform`, on unusual inputs."""

    def agree(self, variable, inputs, exact=True):
        node = variable.owner
        cells = [[value] for value in inputs]
        results = []
        for make in ("perform", "native", "native again"):
            if make == "perform":
                out = [[None] for _ in node.outputs]
                node.op.perform(node, list(inputs), out)
            elif make == "native":
                out = [[None] for _ in node.outputs]
                thunk = make_native_thunk(node, node.op.native_code(node), cells, out)
                thunk()
            else:
                # The second call may overwrite the result of the first.
                thunk()
            results.append([np.array(cell[0]) for cell in out])
        for other in results[1:]:
            for a, b in zip(results[0], other):
                assert a.dtype == b.dtype and a.shape == b.shape
                rtol = 0 if exact or a.dtype.kind != "f" else 1e-4 if a.itemsize == 4 else 1e-10
                np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)

    def arrays(self, dtype):
        base = (RNG.randn(4, 6, 5) * 5).astype(dtype)
        yield base
        yield base[::-1, ::2, ::-3]
        yield base.T
        yield base[:, :0]
        readonly = base.copy()
        readonly.flags.writeable = False
        yield readonly
        yield np.frombuffer(b"\0" + base.tobytes(), "u1")[1:].view(dtype).reshape(base.shape)

    def test_cases(self):
        nan = np.array([[1.0, np.nan, 3.0], [np.nan, 5.0, np.inf]])
        for dtype in ("float64", "float32", "int8", "uint16", "bool"):
            t = T.TensorType(dtype, (False,) * 3)()
            for a in self.arrays(dtype):
                self.agree(basic._nonzero(t)[0], [a])
                self.agree(extra_ops.cpu_contiguous(t), [a])
                if dtype != "bool":
                    for axis in (None, 0, -1):
                        self.agree(T.cumsum(t, axis), [a], exact=False)
                        self.agree(T.cumprod(t, axis), [a], exact=False)
                if a.size:
                    for axis in ((0, 1, 2), (0,), (1,), (0, 2), (1, 2)):
                        self.agree(basic.MaxAndArgmax(axis)(t)[0], [a])
                        self.agree(basic.Argmax(axis)(t), [a])
        for axis in ((0,), (1,), (0, 1)):
            self.agree(basic.MaxAndArgmax(axis)(x)[0], [nan])
        for a, b in ((X, X.T), (X[::-1], X.T[::, ::-2]), (X[:0], X.T), (X[:, :0], X.T[:0])):
            self.agree(basic._dot(x, x), [a, b])
        ints = T.lmatrix()
        self.agree(basic._dot(ints, x), [np.arange(6).reshape(2, 3), X])
        self.agree(T.searchsorted(v, x, "right"), [np.sort(V)[::-1][::-1], X])

    def test_empty_maximum_is_refused(self):
        f = theano.function([x], T.max_and_argmax(x, 1), mode=Mode("cvm", None))
        self.assertRaises(ValueError, f, X[:, :0])
        assert f(X[:0])[0].shape == (0,)

    def test_mismatch_is_refused(self):
        f = theano.function([x, v], T.dot(x, v), mode=Mode("cvm", None))
        self.assertRaises(ValueError, f, X, V)


class TestSelecting(unittest.TestCase):
    def test_values(self):
        choices = [V[:4], X[0], X[1]]
        check(
            {
                "nonzero": (T.nonzero(x > 0)[1], np.nonzero(X > 0)[1]),
                "nonzero matrix": (T.nonzero(x > 0, return_matrix=True), np.array(np.nonzero(X > 0))),
                "flatnonzero": (T.flatnonzero(x < 0), np.flatnonzero(X < 0)),
                "nonzero values": (T.nonzero_values(i), I[I != 0]),
                "choose": (T.choose(i % 3, [v[:4], x[0], x[1]]), np.choose(I % 3, choices)),
                "choose from tensor": (T.choose(i % 3, x), np.choose(I % 3, X)),
                "choose wrap": (T.choose(i - 7, x, mode="wrap"), np.choose(I - 7, X, mode="wrap")),
                "choose clip": (T.choose(i * 5 - 2, x, mode="clip"), np.choose(I * 5 - 2, X, mode="clip")),
            }
        )

    def test_choose_errors(self):
        f = theano.function([i, x], T.choose(i, x))
        self.assertRaises(ValueError, f, [0, 1, 2, 3], X)
        self.assertRaises(ValueError, f, [0, 1, 2], X)
        self.assertRaises(TypeError, T.choose, v, x)
        self.assertRaises(ValueError, T.choose, i, x, mode="other")

    def test_default(self):
        (value,) = theano.function([x], [T.default(x, 2 * x)])(X)
        np.testing.assert_array_equal(value, X)
        out = [[None]]
        selecting.default.perform(None, [None, X], out)
        assert out[0][0] is not X
        np.testing.assert_array_equal(out[0][0], X)


class TestReductions(unittest.TestCase):
    def test_values(self):
        sub = np.array([3, 200, 7], "uint8")
        u = T.constant(sub)
        low = T.constant(np.array([-128, 5, 127], "int8"))
        check(
            {
                "max axes": (T.max(t3, axis=[0, 2]), T3.max((0, 2))),
                "max all": (T.max(t3), T3.max()),
                "argmax all": (T.argmax(t3), T3.argmax()),
                "argmax axis": (T.argmax(t3, axis=-2), T3.argmax(1)),
                "argmax keepdims": (T.argmax(x, 1, keepdims=True), X.argmax(1)[:, None]),
                "min": (T.min(x, 0), X.min(0)),
                "min unsigned": (T.min(u), 3),
                "argmin unsigned": (T.argmin(u), 0),
                "min int8": (T.min(low), -128),
                "argmin int8": (T.argmin(low), 0),
                "min bool": (T.min(x > -99), True),
                "sum keepdims": (x.sum(1, keepdims=True), X.sum(1, keepdims=True)),
                "prod": (x.prod(0), X.prod(0)),
                "mean of ints": (i.mean(), I.mean()),
                "mean axes": (T.mean(t3, axis=[0, 1]), T3.mean((0, 1))),
                "mean op": (T.mean(x, axis=0, op=True), X.mean(0)),
                "var": (T.var(x, 0, ddof=1), X.var(0, ddof=1)),
                "var corrected": (T.var(x, corrected=True), X.var()),
                "std": (x.std(1), X.std(1)),
                "ptp": (T.ptp(x, 1), np.ptp(X, 1)),
                "all": (T.all(x > -1, 0), (X > -1).all(0)),
                "any": (T.any(x > 1, 1), (X > 1).any(1)),
                "cov": (T.cov(x), np.cov(X)),
                "cov weights": (T.cov(x, aweights=i, fweights=i + 1), np.cov(X, aweights=I, fweights=I + 1)),
                "cov y columns": (T.cov(x, x, rowvar=False, bias=True), np.cov(X, X, rowvar=False, bias=True)),
                "norms": (x.norm(2, 1), np.linalg.norm(X, 2, 1)),
                "inf norm": (x.norm(np.inf), abs(X).max()),
            }
        )

    def test_dtypes(self):
        for dtype, wanted in (("int8", "int64"), ("uint8", "uint64"), ("float32", "float32"), ("int64", "int64")):
            assert T.vector(dtype=dtype).sum().dtype == wanted
        assert T.vector(dtype="float32").mean().dtype == "float32"
        assert T.vector(dtype="int8").mean(acc_dtype="int64").dtype == "float64"
        assert T.vector(dtype="float32").argmax().dtype == "int64"
        half = T.vector(dtype="float16")
        assert half.mean().dtype == "float16"
        value = half.mean().eval({half: np.full(4000, 100.0, "float16")})
        assert value == 100

    def test_axes(self):
        for axis in (np.int64(1), [1], (1,), T.constant(1), np.array([-1]), 1.0):
            assert basic.check_and_normalize_axes(x, axis) == [1]
        assert basic.check_and_normalize_axes(x, None) == []
        self.assertRaises(ValueError, T.sum, x, 2)
        assert basic.check_and_normalize_axes(x, [1, 0, -1, 1]) == [0, 1]
        self.assertRaises(TypeError, T.max, x, k)
        self.assertRaises(TypeError, T.max, x, 0.5)
        self.assertRaises(ValueError, T.var, x, None, True)
        assert x.sum(1, keepdims=True).broadcastable == (False, True)

    @theano.change_flags({"DebugMode.check_finite": False})
    def test_nan(self):
        value = np.array([1.0, np.nan, 3.0])
        assert np.isnan(T.max(v).eval({v: value}))
        assert np.isnan(T.min(v).eval({v: value}))
        assert T.argmax(v).eval({v: value}) == 1

    def test_gradients(self):
        for function in (
            lambda a: T.max(a, 1),
            lambda a: T.min(a),
            lambda a: T.max(a, axis=[0, 1]),
            T.mean,
            lambda a: T.var(a, 0, ddof=1),
            lambda a: T.prod(a, 1),
            lambda a: a.norm(3, 1),
            T.cov,
        ):
            utt.verify_grad(function, [X])

    def test_r_op(self):
        d = RNG.randn(2, 3, 4)
        point = T.dtensor3()
        for axis in ([0, 2], [1], [0, 1, 2]):
            y = T.max(t3, axis=axis)
            r = T.Rop(y, t3, point)
            eps = 1e-6
            f = theano.function([t3], y)
            wanted = (f(T3 + eps * d) - f(T3 - eps * d)) / (2 * eps)
            np.testing.assert_allclose(r.eval({t3: T3, point: d}), wanted, rtol=1e-5)


class TestProducts(unittest.TestCase):
    def test_values(self):
        a, b = RNG.randn(2, 3, 4), RNG.randn(5, 6, 4, 3)
        ca, cb = T.constant(a), T.constant(b)
        check(
            {
                "matrix vector": (T.dot(x, v[:4]), X.dot(V[:4])),
                "matrix matrix": (T.dot(x, x.T), X.dot(X.T)),
                "vector vector": (T.dot(v, v), V.dot(V)),
                "vector matrix": (T.dot(v[:3], x), V[:3].dot(X)),
                "scalar": (T.dot(k, x), 3 * X),
                "nd": (T.dot(t3, x.T), T3.dot(X.T)),
                "integers": (T.dot(i, i), I.dot(I)),
                "mixed dtypes": (T.dot(x, i), X.dot(I)),
                "outer": (T.outer(v, i), np.outer(V, I)),
                "tensordot pair": (T.tensordot(ca, cb, [[1, 2], [3, 2]]), np.einsum("ilm,jkml->ijk", a, b)),
                "tensordot 0": (T.tensordot(ca, cb, 0), np.tensordot(a, b, 0)),
                "tensordot 2": (T.tensordot(x, x, 2), np.tensordot(X, X, 2)),
                "matmul": (x.T @ t3, X.T @ T3),
                "matmul stacks": (t3 @ t3.dimshuffle(0, 2, 1), T3 @ T3.transpose(0, 2, 1)),
                "batched": (T.batched_dot(t3, t3.dimshuffle(0, 2, 1)), T3 @ T3.transpose(0, 2, 1)),
                "batched tensordot": (T.batched_tensordot(t3, ca, [[1, 2], [1, 2]]), np.einsum("bij,bij->b", T3, a)),
            }
        )

    def test_errors(self):
        self.assertRaises(ValueError, T.tensordot, x, v, 2)
        self.assertRaises(ValueError, T.tensordot, x, x, [[0, 1], [0]])
        self.assertRaises(ValueError, T.tensordot, x, x, [[2], [0]])
        self.assertRaises(ValueError, T.batched_tensordot, t3, t3, [[0], [0]])
        self.assertRaises(TypeError, T.batched_dot, k, x)
        self.assertRaises(TypeError, basic._dot, t3, x)

    def test_gradients(self):
        for shapes in (((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 2)), ((2, 3, 4), (4, 2))):
            utt.verify_grad(T.dot, [RNG.randn(*s) for s in shapes])
        utt.verify_grad(lambda a, b: T.tensordot(a, b, [[0, 2], [1, 0]]), [T3, RNG.randn(4, 2)])


class TestElementwise(unittest.TestCase):
    def test_values(self):
        check(
            {
                "isclose": (T.isclose(x, x + 1e-9), np.ones((3, 4), bool)),
                "allclose": (T.allclose(x, x + 1), False),
                "round away": (T.round(T.constant([0.5, -0.5, 2.5]), "half_away_from_zero"), [1, -1, 3]),
                "round even": (T.round(T.constant([0.5, -0.5, 2.5])), [0, -0.0, 2]),
                "iround": (T.iround(v), np.around(V)),
                "divmod": (T.divmod(-i, 3)[0], -I // 3),
                "div proxy": (T.div_proxy(i, 2), I // 2),
                "ceil intdiv": (T.ceil_intdiv(i, 2), -(-I // 2)),
                "smallest": (T.smallest(v, 0.0, 1.0), np.clip(V, None, 0)),
                "largest": (T.largest(x, x[0], x[1]), np.maximum(np.maximum(X, X[0]), X[1])),
                "isnan of ints": (T.isnan(i), np.zeros(4, bool)),
                "switch": (T.switch(x > 0, x, 0), np.where(X > 0, X, 0)),
                "clip": (x.clip(-1, 0.5), X.clip(-1, 0.5)),
                "cast": (T.cast(x, "int32"), X.astype("int32")),
            }
        )

    def test_isclose_special_values(self):
        inf, nan = np.inf, np.nan
        a = np.array([inf, inf, -inf, nan, 1.0, nan, 1.0])
        b = np.array([inf, -inf, 1.0, nan, inf, 1.0, 1.0 + 1e-12])
        for equal_nan in (False, True):
            result = T.isclose(a, b, equal_nan=equal_nan).eval()
            np.testing.assert_array_equal(result, np.isclose(a, b, equal_nan=equal_nan))

    def test_errors(self):
        z = T.zvector()
        self.assertRaises(TypeError, T.cast, z, "float64")
        self.assertRaises(ValueError, T.round, v, "up")
        self.assertRaises(theano.scalar.ComplexError, lambda: z % 2)
        assert T.real(v) is v or T.real(v).dtype == "float64"
        assert T.cast(v, "float64") is v

    def test_names(self):
        assert str(T.exp) == "Elemwise{exp,no_inplace}"
        assert T.fill is T.second and T.where is T.switch
        assert pickle.loads(pickle.dumps(T.exp)) == T.exp
        assert T.exp.__doc__.startswith("Return e ** a")


class TestTransfer(unittest.TestCase):
    def test_targets(self):
        assert x.transfer("cpu") is x
        self.assertRaises(ValueError, x.transfer, "nowhere")
        seen = []

        def there(variable, target):
            seen.append(target)
            return variable + 0 if target == "there" else None

        T.register_transfer(there)
        try:
            assert x.transfer("there").owner is not None
            self.assertRaises(ValueError, x.transfer, "elsewhere")
        finally:
            T.transfer._others.remove(there)
        assert seen == ["there", "elsewhere"]


class TestNamespace(unittest.TestCase):
    def test_star_import(self):
        namespace = {}
        exec("from theano_ng.tensor import *", namespace)
        for name in (
            "dmatrix",
            "ivector",
            "set_subtensor",
            "inc_subtensor",
            "batched_dot",
            "scalar",
            "TensorType",
            "grad",
            "exp",
        ):
            assert name in namespace, name
        # T.var and T.sort are functions, although modules have the same names.
        assert callable(T.var) and callable(T.sort)
        from theano_ng.tensor.var import TensorVariable

        assert T.TensorVariable is TensorVariable
        self.assertRaises(AttributeError, getattr, T, "no_such_name")

    def test_lazy_modules(self):
        assert T.inplace.add_inplace is not None
        assert "nnet" in dir(T)


if __name__ == "__main__":
    unittest.main()
