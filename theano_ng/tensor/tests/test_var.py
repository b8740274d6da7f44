"""Operators, methods and properties of tensor variables, and constructors of variables."""

import copy
import pickle
import unittest
import warnings

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.tensor.var import AsTensorError, TensorVariable

RNG = np.random.RandomState(3)
X = RNG.randn(3, 4)
P = RNG.rand(3, 4) * 0.8 + 0.1
I = RNG.randint(1, 9, (3, 4))
J = RNG.randint(1, 9, (3, 4))


class TestConstructors(unittest.TestCase):
    def test_grid(self):
        prefixes = dict(
            b="int8", w="int16", i="int32", l="int64", d="float64", f="float32", c="complex64", z="complex128"
        )
        kinds = dict(scalar=(), vector=(False,), row=(True, False), col=(False, True), matrix=(False,) * 2)
        kinds.update(("tensor%d" % n, (False,) * n) for n in range(3, 8))
        for letter, dtype in prefixes.items():
            for kind, pattern in kinds.items():
                constructor = getattr(T, letter + kind)
                variable = constructor("name")
                assert variable.type is constructor
                assert variable.dtype == dtype
                assert variable.broadcastable == pattern
                assert variable.name == "name" and constructor().name is None
                assert T.TensorType(dtype, pattern) == constructor

    def test_floatX_is_read_at_each_call(self):
        for floatX in ("float32", "float64"):
            with theano.config.change_flags(floatX=floatX):
                assert T.matrix().dtype == T.scalars("ab")[0].dtype == floatX
        assert T.scalar("int32").name == "int32"
        assert T.row(dtype="uint8").type == T.TensorType("uint8", (True, False))
        named = T.tensor("float32", (False, True), name="c")
        assert named.type == T.fcol and named.name == "c"

    def test_plurals(self):
        assert [a.name for a in T.dmatrices("x", "y", "z")] == ["x", "y", "z"]
        assert [a.name for a in T.scalars("abcd")] == list("abcd")
        assert [a.type for a in T.ivectors(2)] == [T.ivector] * 2
        assert len(T.lrows(1)) == 1
        assert T.fcols("a").type == T.fcol
        self.assertEqual(T.dscalars(), [])


class TestOperators(unittest.TestCase):
    def test_values(self):
        x, i, j = T.dmatrix(), T.lmatrix(), T.lmatrix()
        cases = []
        for f in (
            lambda a, b: a + b,
            lambda a, b: a - b,
            lambda a, b: a * b,
            lambda a, b: a / b,
            lambda a, b: a // b,
            lambda a, b: a % b,
            lambda a, b: a < b,
            lambda a, b: a >= b,
            lambda a, b: a > b,
            lambda a, b: a <= b,
            lambda a, b: 3 - a,
            lambda a, b: 2.5 / a,
            lambda a, b: 7 // a,
            lambda a, b: 7 % a,
            lambda a, b: 2.0**a,
            lambda a, b: a**2,
            lambda a, b: -a,
            lambda a, b: abs(-a),
            lambda a, b: +a,
            lambda a, b: np.ones(4) + a,
            lambda a, b: np.ones(4) / a,
            lambda a, b: divmod(a, b)[0],
            lambda a, b: divmod(9, a)[1],
            lambda a, b: np.float64(2) - a,
            lambda a, b: a @ b.T,
        ):
            cases.append((f(i, j), f(I, J)))
            cases.append((f(x, j), f(X, J)))
        for f in (
            lambda a, b: a & b,
            lambda a, b: a | b,
            lambda a, b: a ^ b,
            lambda a, b: ~a,
            lambda a, b: 6 & a,
            lambda a, b: 6 | a,
            lambda a, b: 6 ^ a,
        ):
            cases.append((f(i, j), f(I, J)))
        with np.errstate(all="ignore"):
            f = theano.function([x, i, j], [c[0] for c in cases], mode=Mode("py", None))
            results = f(X, I, J)
        for (variable, wanted), result in zip(cases, results):
            assert isinstance(variable, TensorVariable)
            np.testing.assert_allclose(result, wanted, rtol=1e-12, err_msg=str(variable.owner))

    def test_dtypes(self):
        a = T.itensor3()
        assert (a + 3).type == T.itensor3
        assert (a * 3.5).dtype in ("float32", "float64")
        assert (T.bvector() + 1).dtype == "int8"
        assert (a / 2).dtype == "float64"
        assert (a > 2).dtype == "bool"
        assert (3 + 0.2j * T.zmatrix().T).dtype == "complex128"

    def test_identity_semantics(self):
        x, y = T.dvector(), T.dvector()
        assert (x == y) is False and (x == x) is True and x != y
        assert len({x, y, x}) == 2
        assert bool(x) is True
        self.assertRaises(TypeError, bool, x < y)
        with self.assertRaises(TypeError):
            x < y < x  # noqa: B015, raises

    def test_refusals(self):
        x = T.dvector("x")
        self.assertRaisesRegex(TypeError, "object of type 'TensorVariable' has no len", len, x)
        self.assertRaises(TypeError, iter, x)
        self.assertRaises(TypeError, lambda: 1 in x)
        self.assertRaises(TypeError, lambda: x + None)
        self.assertRaises(TypeError, lambda: x + object())
        with self.assertRaisesRegex(TypeError, "set_subtensor"):
            x[5] = 1
        with self.assertRaises(TypeError):
            x[5] += 1
        self.assertRaises(ValueError, T.dmatrix().reshape, 2, x)
        self.assertRaises(AsTensorError, T.as_tensor_variable, True)

    def test_known_lengths_iterate(self):
        x = T.dmatrix()
        rows, columns = x.shape
        assert theano.function([x], [rows, columns])(X) == [3, 4]
        assert len(list(T.constant([1, 2, 3]))) == 3
        assert len(list(T.stack([rows, columns, rows]))) == 3


class TestMethods(unittest.TestCase):
    def test_against_numpy(self):
        x, p, i = T.dmatrix(), T.dmatrix(), T.lmatrix()
        cases = {
            "T": (x.T, X.T),
            "transpose": (x.transpose(1, 0), X.T),
            "transpose tuple": (x.transpose((1, 0)), X.T),
            "transpose none": (x.transpose(), X.T),
            "flatten": (x.flatten(), X.ravel()),
            "ravel": (x.ravel(), X.ravel()),
            "reshape": (x.reshape((2, 6)), X.reshape(2, 6)),
            "reshape -1": (x.reshape((-1, 2)), X.reshape(-1, 2)),
            "dimshuffle": (x.dimshuffle(1, "x", 0), X.T[:, None]),
            "dimshuffle list": (x.dimshuffle(["x", 0, 1]), X[None]),
            "swapaxes": (x.swapaxes(0, 1), X.T),
            "diagonal": (x.diagonal(1), X.diagonal(1)),
            "size": (x.size, X.size),
            "ndim size": (x.shape, X.shape),
            "take": (x.take([2, 0], 1), X.take([2, 0], 1)),
            "repeat": (x.repeat(2, 0), X.repeat(2, 0)),
            "cumsum": (x.cumsum(1), X.cumsum(1)),
            "cumprod": (x.cumprod(), X.cumprod()),
            "sort": (x.sort(0), np.sort(X, 0)),
            "argsort": (x.argsort(), X.argsort()),
            "searchsorted": (x[0].sort().searchsorted(0.0), np.sort(X[0]).searchsorted(0.0)),
            "nonzero": ((x > 0).nonzero()[0], (X > 0).nonzero()[0]),
            "nonzero values": (x.nonzero_values(), X[X.nonzero()]),
            "choose": ((i % 2).choose([x, p]), (I % 2).choose([X, P])),
            "compress": (x.compress([0, 1, 1], 0), X.compress([0, 1, 1], 0)),
            "astype": (x.astype("int8"), X.astype("int8")),
            "fill": (x.fill(2.0), np.full((3, 4), 2.0)),
            "zeros_like": (x.zeros_like(), np.zeros((3, 4))),
            "ones_like": (x.ones_like("int8"), np.ones((3, 4))),
            "round": (x.round(), X.round()),
            "conj": (x.conj(), X),
            "conjugate": (x.conjugate(), X),
            "real": (x.real, X),
            "imag": (x.imag, X * 0),
            "copy": (x.copy(), X),
            "std": (x.std(0), X.std(0)),
            "var": (x.var(1), X.var(1)),
            "ptp": (x.ptp(), np.ptp(X)),
            "any": ((x > 1).any(0), (X > 1).any(0)),
            "all": ((x > -1).all(), (X > -1).all()),
            "argmin": (x.argmin(0), X.argmin(0)),
            "norm 0": (i.norm(0), I.size),
            "dot": (x.dot(p.T), X.dot(P.T)),
        }
        for name in (
            "arccos arcsin arctan arctanh arcsinh ceil cos cosh "
            "deg2rad exp exp2 expm1 floor log log10 log1p log2 "
            "rad2deg sin sinh sqrt tan tanh trunc"
        ).split():
            cases[name] = (getattr(p, name)(), getattr(np, name)(P))
        cases["arccosh"] = ((p + 1).arccosh(), np.arccosh(P + 1))
        f = theano.function([x, p, i], [c[0] for c in cases.values()], mode=Mode("py", None))
        for (name, (_, wanted)), result in zip(cases.items(), f(X, P, I)):
            np.testing.assert_allclose(result, wanted, rtol=1e-12, err_msg=name)
            assert result.shape == np.shape(wanted), name

    def test_types(self):
        x = T.dmatrix("x")
        assert T.row().squeeze().ndim == 1 and x.squeeze() is x
        assert T.dvector().T.ndim == 1
        copied = x.copy(name="c")
        assert copied.name == "c" and copied.owner is not None
        assert x.transfer("cpu") is x
        assert T.constant(3).get_scalar_constant_value() == 3
        assert x.shape.dtype == "int64"

    def test_copies_and_pickles(self):
        x = T.dmatrix("x")
        y = x + 1
        for other in (copy.deepcopy(y), pickle.loads(pickle.dumps(y))):
            assert other is not y and other.type == y.type
            assert other.owner.inputs[0].name == "x"
        one = pickle.loads(pickle.dumps(T.constant(1)))
        assert one.data == 1 and not hasattr(one, "cached")


class TestWarnFloat64(unittest.TestCase):
    def test_warning(self):
        with theano.config.change_flags(warn_float64="warn"):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                T.dscalar()
                T.fscalar()
            assert len(caught) == 1
        with theano.config.change_flags(warn_float64="raise"):
            self.assertRaises(Exception, T.dscalar)


if __name__ == "__main__":
    unittest.main()
