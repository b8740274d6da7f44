"""NumPy's functions on tensor variables build nodes of our Ops; no function returns an array of objects."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.tensor import numpy_protocols

V = np.array([0.2, 0.9, 0.5])
M = np.arange(9.0).reshape(3, 3) % 5 + np.eye(3)

# Calls of NumPy on x, a vector, and m, a matrix.
CALLS = (
    "np.dot(np.eye(3), x)", "np.dot(m, x)", "np.outer(x, x)", "np.tensordot(m, m)", "np.tensordot(m, m, axes=1)", "np.matmul(m, x)",
    "np.sum(x)", "np.sum(m, 0)", "np.sum(m, axis=1, keepdims=True)", "np.mean(m, 1)", "np.prod(x)", "np.std(m, axis=0)",
    "np.std(m, ddof=1)", "np.var(m)", "np.max(m, 1)", "np.min(x)", "np.amax(x)", "np.amin(x)", "np.argmax(m, axis=0)", "np.argmin(x)",
    "np.all(x > 0)", "np.any(m > 4, axis=1)", "np.ptp(x)", "np.cumsum(x)", "np.cumprod(m, axis=1)", "np.diff(x)", "np.diff(m, 2, 0)",
    "np.clip(x, 0.3, 0.6)", "np.sort(x)", "np.argsort(m, axis=0)", "np.reshape(m, (9,))", "np.transpose(m)", "np.transpose(m, (1, 0))",
    "np.swapaxes(m, 0, 1)", "np.moveaxis(m, 0, 1)", "np.expand_dims(x, 0)", "np.expand_dims(m, (0, -1))", "np.ravel(m)",
    "np.repeat(x, 2)", "np.repeat(m, 2, axis=0)", "np.tile(x, 2)", "np.concatenate([x, x])", "np.concatenate((m, m), axis=1)",
    "np.concatenate([np.ones(3), x])", "np.stack([x, x])", "np.stack([x, x], axis=1)", "np.hstack([m, m])", "np.vstack([m, m])",
    "np.roll(x, 1)", "np.where(x > 0.4, x, -x)", "np.zeros_like(x)", "np.ones_like(m)", "np.isclose(x, x + 1e-9)", "np.allclose(x, x)",
    "np.take(x, [0, 2])", "np.take(m, [0, 2], axis=1)", "np.searchsorted(x, 0.4)", "np.flatnonzero(x > 0.4)",
    "np.compress([True, False, True], x)", "np.tril(m)", "np.triu(m, 1)", "np.diag(x)", "np.diag(m)", "np.diagonal(m, 1)", "np.trace(m)",
    "np.real(x)", "np.imag(x)", "np.round(m / 3)", "np.copy(x)", "np.cov(m)", "np.kron(m, m)", "np.linalg.inv(m)", "np.linalg.det(m)",
    "np.linalg.solve(m, x)", "np.linalg.pinv(m)", "np.linalg.matrix_power(m, 3)", "np.shape(m)", "np.size(m)",
    "np.eye(3) + m", "np.ones(3) * x", "np.float64(2) ** x", "np.array(2.0) - x", "np.eye(3) @ x", "np.ones(3) < x", "np.ones(3) // x",
)  # fmt: skip


class TestUfuncs(unittest.TestCase):
    def test_every_one_that_has_a_counterpart(self):
        found = 0
        x, y, i, j = T.dvector("x"), T.dvector("y"), T.lvector("i"), T.lvector("j")
        ints = np.array([1, 2, 3]), np.array([3, 2, 1])
        outputs, expected, names = [], [], []
        for name in sorted(dir(np)):
            ufunc = getattr(np, name)
            if not isinstance(ufunc, np.ufunc):
                continue
            whole = "bitwise" in name or name == "invert"
            variables, values = ((i, j), ints) if whole else ((x, y), (V, V[::-1]))
            for mixed in range(ufunc.nin):
                # All arguments are variables, or the first of two arguments is an array.
                arguments = list(variables[: ufunc.nin])
                if ufunc.nin == 2 and mixed:
                    arguments[0] = values[0]
                try:
                    result = ufunc(*arguments)
                except TypeError as error:
                    self.assertRegex(str(error), "no counterpart")
                    continue
                found += 1
                for part, value in zip(
                    *((r if isinstance(r, tuple) else (r,)) for r in (result, ufunc(*values[: ufunc.nin])))
                ):
                    self.assertIsInstance(part, theano.Variable)
                    outputs.append(part)
                    expected.append(value)
                    names.append(name)
        self.assertGreater(found, 80)
        with np.errstate(all="ignore"):
            f = theano.function([x, y, i, j], outputs, mode="FAST_COMPILE", on_unused_input="ignore")
            for value, wanted, name in zip(f(V, V[::-1], *ints), expected, names):
                np.testing.assert_allclose(value, wanted, rtol=1e-6, err_msg=name)

    def test_the_same_nodes_as_ours(self):
        x, m = T.dvector("x"), T.dmatrix("m")
        for made, ours in (
            (np.exp(x), T.exp(x)),
            (np.abs(x), abs(x)),
            (np.maximum(x, 1), T.maximum(x, 1)),
            (np.true_divide(x, m), x / m),
            (np.matmul(m, x), T.dot(m, x)),
            (np.sum(m, axis=0), T.sum(m, axis=0)),
            (np.float32(2) * x, T.mul(np.float32(2), x)),
            (np.ones(3) < x, x > np.ones(3)),
        ):
            self.assertEqual((made.owner.op, made.type), (ours.owner.op, ours.type))

    def test_refusals(self):
        x, out = T.dvector("x"), np.ones(3)
        for call, message in (
            (lambda: np.exp(x, out=out), "does not support out="),
            (lambda: np.add(x, 1, where=out > 0), "does not support where="),
            (lambda: np.add(x, 1, dtype="float32"), "does not support dtype="),
            (lambda: np.add.reduce(x), "numpy.add.reduce works on arrays"),
            (lambda: np.add.accumulate(x), "accumulate works on arrays"),
            (lambda: np.multiply.outer(x, x), "outer works on arrays"),
            (lambda: np.add.at(x, 0, 1), "at works on arrays"),
            (lambda: np.hypot(x, x), "numpy.hypot has no counterpart"),
        ):
            self.assertRaisesRegex(TypeError, message, call)
        np.testing.assert_array_equal(out, np.ones(3))

    def test_comparisons_of_identity_stay(self):
        x = T.dvector("x")
        self.assertFalse(x == np.float64(1))
        self.assertIs(np.float64(1) == x, False)
        self.assertNotIn(x, [np.float64(1), 2.0])


class TestFunctions(unittest.TestCase):
    def test_values(self):
        x, m = T.dvector("x"), T.dmatrix("m")
        symbolic, expected = [], []
        for call in CALLS:
            made = eval(call, {"np": np, "x": x, "m": m})
            self.assertIsInstance(made, theano.Variable, call)
            symbolic.append(made)
            expected.append(eval(call, {"np": np, "x": V, "m": M}))
        f = theano.function([x, m], symbolic, mode="FAST_COMPILE")
        for call, value, wanted in zip(CALLS, f(V, M), expected):
            self.assertEqual(np.shape(value), np.shape(wanted), call)
            np.testing.assert_allclose(value, wanted, rtol=1e-6, atol=1e-12, err_msg=call)

    def test_answers(self):
        m, z = T.dmatrix("m"), T.zvector("z")
        self.assertEqual((np.ndim(m), np.iscomplexobj(m), np.iscomplexobj(z), np.isrealobj(m)), (2, False, True, True))
        self.assertEqual(
            [len(part) for part in theano.function([m], np.nonzero(m))(M)], [len(p) for p in np.nonzero(M)]
        )

    def test_every_row_of_the_table_is_a_function_of_both(self):
        np.sum(T.dvector())
        for function, counterpart in numpy_protocols._functions.items():
            self.assertTrue(callable(function))
            if isinstance(counterpart, numpy_protocols._Counterpart):
                self.assertTrue(callable(numpy_protocols._ours(counterpart.ours)), counterpart.ours)

    def test_refusals(self):
        x, m = T.dvector("x"), T.dmatrix("m")
        for call, message in (
            (lambda: np.sum(x, out=np.ones(())), "numpy.sum on symbolic variables does not support out="),
            (lambda: np.dot(m, x, np.ones(3)), "does not support out="),
            (lambda: np.mean(x, where=np.ones(3, bool)), "does not support where="),
            (lambda: np.where(x > 0), "needs the argument x"),
            (lambda: np.round(x, 2), "rounds to integers"),
            (lambda: np.einsum("i->", x), "numpy.einsum has no counterpart"),
            (lambda: np.median(x), "numpy.median has no counterpart"),
            (lambda: np.fft.rfft(x), "no counterpart"),
            (lambda: np.array_equal(x, x), "no counterpart"),
        ):
            self.assertRaisesRegex(TypeError, message, call)
