"""Logarithms of expressions that are positive by construction."""

import unittest

import numpy as np
from scipy.special import erf, expit, log_ndtr, log_softmax, logsumexp

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.configparser import change_flags
from theano_ng.gof.graph import io_toposort
from theano_ng.gradient import grad, verify_grad
from theano_ng.tensor import nnet
from theano_ng.tensor.logarithms import log_of
from theano_ng.tensor.opt.log_domain import loses_less

PLAIN = Mode("py", None)
MODES = [Mode("py", "fast_run"), Mode("py", "fast_compile")]
X = np.array([[0.5, -1.0, 2.0], [1.0, 1.0, -0.25]])
FAR = np.array([[0.0, 800.0, -800.0], [800.0, 800.0, 0.0]])


class TestLogOf(unittest.TestCase):
    def test_what_is_known(self):
        x, y = T.dmatrix("x"), T.dmatrix("y")
        e, f = T.exp(x), T.exp(y)
        for v in (
            e,
            e * f,
            e / f,
            1 / e,
            3 * e,
            e + f,
            e + f + e * f,
            e + f + 3,
            e**y,
            T.sqrt(e) * T.sqr(f),
            T.cosh(x),
            T.stack([e[0, 0], f[0, 1]]),
            e.sum(),
            e.sum(axis=0),
            (e * f).sum(axis=1, keepdims=True),
            e.T,
            e.reshape((6,)),
            e[1:, ::2],
            e[[1, 0], [2, 1]],
            e[[1, 0, 1]],
            e.dimshuffle(0, "x", 1),
            T.concatenate([e, f / 2], axis=1),
            T.fill(x, e),
            T.second(y, e.sum()),
            (e.T / e.T.sum(axis=0)).T,
        ):
            got = log_of(v)
            self.assertEqual(got.type, v.type)
            run = theano.function([x, y], [got, T.log(v)], mode=PLAIN, on_unused_input="ignore")
            np.testing.assert_allclose(*run(X, X[::-1] / 2), rtol=1e-12, atol=1e-14)
            self.assertTrue(np.isfinite(run(FAR, FAR[::-1])[0]).all(), v)

    def test_complements(self):
        """Logarithms of sums with exponentials, and of complements of sigmoids and erf, are accurate.

        The arguments are 0, 20 and -20. At 20 and -20, some of the direct formulas lose digits.
        """
        x = T.dmatrix("x")
        e = T.exp(x)
        outputs = [T.log(3 + e), T.log(1 - 1 / (1 + e)), T.log((1 - T.erf(x)) / 2), T.log1p(e / 4)]
        for mode in MODES:
            found = theano.function([x], outputs, mode=mode)(FAR / 40)
            wanted = [np.logaddexp(np.log(3), FAR / 40), -np.logaddexp(0, -FAR / 40), log_ndtr(-FAR / 40 * 2**0.5)]
            for a, b in zip(found, [*wanted, np.logaddexp(0, FAR / 40 - np.log(4))]):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)

    def test_what_is_not(self):
        x, y = T.dmatrix("x"), T.dmatrix("y")
        e = T.exp(x)
        for v in (
            x,
            e * x,
            e - 1,
            e + x,
            -e,
            T.concatenate([e, y]),
            T.sqr(e) - e,
            T.exp(T.imatrix("i")),
            T.exp(T.zmatrix("z")),
        ):
            self.assertIsNone(log_of(v))

    def test_long_products_are_given_up(self):
        x = T.dvector("x")
        v = T.exp(x)
        for i in range(200):
            v = v * T.exp(i * x)
        self.assertIsNone(log_of(v))


class TestLosses(unittest.TestCase):
    def test_loses_less(self):
        """`loses_less` accepts differences up to 8 times the rounding error of ``1 - sigmoid(x)``, and no larger ones."""
        rough = np.array([-30.0, -3.0])
        unknown = np.finfo("float64").eps * np.exp(-rough)
        self.assertTrue(loses_less(rough, rough + 7.5 * unknown))
        self.assertFalse(loses_less(rough[:1], rough[:1] + 8.5 * unknown[:1]))
        self.assertTrue(loses_less(np.array([-np.inf]), np.array([-40.0])))
        self.assertFalse(loses_less(rough, rough[:1]))
        self.assertFalse(loses_less(rough, rough.astype("float32")))
        self.assertTrue(loses_less(np.zeros(0), np.zeros(0)))


class TestRules(unittest.TestCase):
    def check(self, inputs, out, values, wanted, **kwargs):
        for mode in MODES:
            got = theano.function(inputs, out, mode=mode)(*values)
            np.testing.assert_allclose(got, wanted, rtol=1e-12, **kwargs)

    def test_log_sum_exp(self):
        x, t = T.dmatrix("x"), T.dtensor3("t")
        e = T.exp(x)
        self.check([x], T.log(e.sum(axis=1)), [FAR], logsumexp(FAR, 1))
        self.check([x], T.log(e.sum()), [FAR], logsumexp(FAR))
        self.check([x], T.log(e.T.sum(axis=0)), [FAR], logsumexp(FAR, 1))
        self.check([x], T.log(e.sum(axis=0, keepdims=True)), [FAR], logsumexp(FAR, 0, keepdims=True))
        self.check([x], T.log(e.reshape((3, 2)).sum(axis=0)), [FAR], logsumexp(FAR.reshape(3, 2), 0))
        self.check([x], T.log(e[:, ::2].sum(axis=1)), [FAR], logsumexp(FAR[:, ::2], 1))
        self.check([x], T.log(e.sum(axis=1)[::-1]), [FAR], logsumexp(FAR, 1)[::-1])
        self.check([t], T.log(T.exp(t).sum(axis=(0, 2))), [FAR[None]], logsumexp(FAR[None], (0, 2)))
        self.check([x], T.log(T.exp(x[0]) + T.exp(x[1]) + T.exp(-x[1])), [FAR], logsumexp([FAR[0], FAR[1], -FAR[1]], 0))
        self.check(
            [x], T.log((e * T.exp(-x[:, 0]).dimshuffle(0, "x")).sum(axis=1)), [FAR], logsumexp(FAR - FAR[:, :1], 1)
        )

    def test_sums_in_other_dtypes(self):
        """A sum in another dtype is rounded to that dtype before its logarithm is computed."""
        x = T.dmatrix("x")
        for dtype in ("int64", "int8", "complex64", "complex128", "float32", "float64"):
            for axis in (None, 0, 1, (0, 1)):
                for out in (T.sum(T.exp(x), axis=axis, dtype=dtype), T.sum(T.exp(x), axis=axis, dtype=dtype).T):
                    plain = theano.function([x], T.log(out), mode=PLAIN)(X)
                    for mode in MODES:
                        got = theano.function([x], T.log(out), mode=mode)(X)
                        self.assertEqual(got.dtype, plain.dtype)
                        np.testing.assert_allclose(got, plain, rtol=1e-6)

    def test_functions_of_integers(self):
        """Functions of integers such as log(1 + tanh(x)) have NumPy's values.

        Rules must not compute multiples of the argument, such as 2 * x, in integers, which wrap around.
        """
        functions = (
            (T.tanh, np.tanh),
            (T.erf, erf),
            (nnet.sigmoid, expit),
            (lambda x: T.exp(-T.exp(x)), lambda x: np.exp(-np.exp(x))),
        )
        forms = (
            (lambda f: T.log1p(f), lambda f: np.log1p(f)),
            (lambda f: T.log(1 + f), lambda f: np.log(1 + f)),
            (lambda f: T.log((1 + f) / 2), lambda f: np.log((1 + f) / 2)),
            (lambda f: T.log(1 - f), lambda f: np.log(1 - f)),
            (lambda f: T.log1p(-f), lambda f: np.log1p(-f)),
            (lambda f: T.log(1 - f**2), lambda f: np.log(1 - f**2)),
            (lambda f: 1 / (1 + f), lambda f: 1 / (1 + f)),
            (lambda f: (1 - f) / (1 + f), lambda f: (1 - f) / (1 + f)),
        )
        arguments = (lambda x: x, lambda x: -x, lambda x: 2 * x, lambda x: x.dimshuffle(0, "x"))
        for dtype in ("bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "uint64"):
            x = T.vector(dtype=dtype)
            least, most = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
            values = np.array(sorted({least, least // 2, 0, 1, 2, most // 2, most - 1, most}), dtype)
            for argument in arguments[3 * (dtype == "bool") :]:
                with np.errstate(all="ignore"):
                    numbers = theano.function([x], argument(x), mode=theano.Mode("py", None))(values).astype("float64")
                for f, expected_f in functions:
                    f = f(argument(x))
                    got = theano.function([x], [form(f) for form, _ in forms], mode=MODES[0])(values)
                    for (_, expected), result in zip(forms, got):
                        with np.errstate(all="ignore"):
                            wanted = expected(expected_f(numbers))
                        # If NumPy subtracts nearly equal terms, its result is inexact or infinite, and the rewritten
                        # graph is more exact. Such results have large absolute values, and are not compared.
                        judged = np.abs(wanted) < 8
                        np.testing.assert_allclose(result[judged], wanted[judged], rtol=1e-3, atol=1e-6, err_msg=dtype)

    def test_infinities(self):
        inf = np.inf
        x = T.dmatrix("x")
        far = np.array([[inf, 0, 1], [-inf, 0, 0], [-inf, -inf, -inf], [inf, -inf, inf]])
        with change_flags({"DebugMode.check_finite": False}):
            for out in (
                T.log(T.exp(x).sum(axis=1)),
                T.log(T.exp(x).T.sum(axis=0)),
                T.log(T.exp(x[:, 0]) + T.exp(x[:, 1]) + T.exp(x[:, 2])),
            ):
                self.check([x], out, [far], [inf, np.log(2), -inf, inf])

    def test_of_nothing(self):
        x = T.dmatrix("x")
        for out in (T.log(T.exp(x).sum(axis=1)), T.log(T.exp(x).T.sum(axis=0)), T.log(T.exp(x).sum())):
            self.check([x], out, [np.zeros((2, 0))], [-np.inf, -np.inf] if out.ndim else -np.inf)
            c = theano.function([x], out, mode="FAST_RUN")
            np.testing.assert_array_equal(c(np.zeros((2, 0))), [-np.inf, -np.inf] if out.ndim else -np.inf)
            np.testing.assert_allclose(c(X).sum(), logsumexp(X, 1).sum() if out.ndim else logsumexp(X))

    def test_shifted_sums_stay(self):
        x = T.dmatrix("x")
        shifted = x - x.max(axis=1, keepdims=True)
        mode = MODES[0].excluding("row_fusion")
        f = theano.function([x], T.log(T.exp(shifted).sum(axis=1)), mode=mode)
        g = theano.function([x], T.log(T.exp(x).sum(axis=1)), mode=mode)
        self.assertLess(len(f.maker.fgraph.apply_nodes), len(g.maker.fgraph.apply_nodes))

    def test_logarithms_of_softmaxes(self):
        x = T.dmatrix("x")
        e = T.exp(x)
        for p in (nnet.softmax(x), e / e.sum(axis=1, keepdims=True), nnet.softmax(x / 2 + x[0] / 2 - x[0] / 2 + x / 2)):
            for view in (
                lambda v: v,
                lambda v: v.T,
                lambda v: v[1:],
                lambda v: v.reshape((3, 2)),
                lambda v: v[:, 1],
                lambda v: v[[0, 1], [2, 0]],
            ):
                self.check([x], T.log(view(p)), [FAR], view(log_softmax(FAR, 1)), atol=1e-12)
        p = T.concatenate([nnet.softmax(x), nnet.softmax(-x)])
        self.check([x], T.log(p), [FAR], np.vstack([log_softmax(FAR, 1), log_softmax(-FAR, 1)]))
        self.check([x], T.log(nnet.softmax(x) / nnet.softmax(-x)), [FAR], log_softmax(FAR, 1) - log_softmax(-FAR, 1))

    def test_softmaxes_along_any_dimensions(self):
        x, v, t = T.dmatrix("x"), T.dvector("v"), T.dtensor3("t")
        for inputs, value, axis in (
            ([x], FAR, 0),
            ([x], FAR, 1),
            ([v], FAR[0], 0),
            ([t], FAR[None], 2),
            ([t], FAR[None], (1, 2)),
        ):
            e = T.exp(inputs[0])
            wanted = np.exp(value - logsumexp(value, axis, keepdims=True))
            self.check(inputs, e / e.sum(axis=axis, keepdims=True), [value], wanted)
        self.check(
            [x],
            T.exp(x[0]) / (T.exp(x[0]) + T.exp(x[1]) + T.exp(-x[0])),
            [FAR],
            np.exp(FAR[0] - logsumexp([FAR[0], FAR[1], -FAR[0]], 0)),
        )

    def test_sigmoids_are_left_alone(self):
        x = T.dmatrix("x")
        f = theano.function([x], T.exp(x) / (1 + T.exp(x)), mode=MODES[0])
        self.assertEqual([str(n.op) for n in f.maker.fgraph.toposort()], ["sigmoid"])
        f = theano.function([x], T.log(1 + T.exp(x)), mode=MODES[0])
        self.assertEqual([str(n.op) for n in f.maker.fgraph.toposort()], ["softplus"])

    def test_gradients(self):
        x = T.dmatrix("x")
        p = np.exp(log_softmax(FAR, 1))
        self.check([x], grad(T.log(T.exp(x).sum(axis=1)).sum(), x), [FAR], p)
        self.check([x], grad(T.log(T.exp(x).T.sum(axis=0)).sum(), x), [FAR], p)
        self.check([x], grad(T.log(nnet.softmax(x))[:, 1].sum(), x), [FAR], [0, 1, 0] - p)

    def test_gradients_of_shares(self):
        """Gradients of ``c * e / sum(e)`` and of its logarithm have the expected values.

        The factor c is a number or a variable.
        """
        x, y = T.dmatrix("x"), T.dmatrix("y")
        e, p = T.exp(x), np.exp(log_softmax(X, 1))
        total = e.sum(axis=1, keepdims=True)
        twice = 2 * e
        for share, factor in (
            (twice / twice.sum(axis=1, keepdims=True), 1),
            (e / total, 1),
            (e * (1 / total), 1),
            (e * (3 / total), 3),
            (e * (y / total), X),
            ((2 / total) * e, 2),
        ):
            slope, of_log = grad(share.sum(), x), grad(T.log(share).sum(), x)
            values = [X, X] if factor is X else [X]
            wanted = p * (factor - (factor * p).sum(1, keepdims=True))
            self.check([x, y][: len(values)], slope, values, wanted, atol=1e-14)
            if factor is not X and factor == 1:  # some shares are rounded to 0
                self.check([x], of_log, [FAR / 2], 1 - 3 * np.exp(log_softmax(FAR / 2, 1)), atol=1e-13)
            elif factor is not X:
                self.check([x], of_log, [X], 1 - 3 * p, atol=1e-13)


class TestDerivatives(unittest.TestCase):
    def test_sigmoids_written_by_hand(self):
        """The derivative of the logarithm of a handwritten sigmoid is accurate without rewriting, even where the
        sigmoid rounds to one.
        """
        x = T.dvector("x")
        values = np.array([50.0, 30, 1, 0, -1, -30, -50])
        for v in (
            1 / (1 + T.exp(-x)),
            T.exp(x) / (1 + T.exp(x)),
            T.inv(1 + T.exp(-x)),
            (1 + T.exp(-x)) ** -1.0,
            1 - 1 / (1 + T.exp(x)),
            1 - nnet.sigmoid(-x),
        ):
            f = theano.function([x], grad(T.log(v).sum(), x), mode=PLAIN)
            np.testing.assert_allclose(f(values), expit(-values), rtol=1e-13, err_msg=str(theano.pp(v)))
        # The derivative uses the sigmoid of the cost, so the function computes only one sigmoid.
        cost = T.log(nnet.sigmoid(x)).sum()
        nodes = theano.function([x], [cost, grad(cost, x)], mode=theano.Mode("py", "merge")).maker.fgraph.apply_nodes
        self.assertEqual(sum(str(node.op) == "sigmoid" for node in nodes), 1)

    def test_factors_in_common(self):
        """The size of the gradient does not double with each level of nested sums.

        Each logarithm is differentiated once, even if many terms have it as a factor.
        """
        x, a = T.dvectors("x", "a")

        def nodes(depth):
            h = T.exp(x)
            for _ in range(depth):
                h = (h * T.exp(a) + h) / (2 * h + h * T.exp(-a))
            return len(io_toposort([x, a], grad(h.sum(), [x, a])))

        self.assertLess(nodes(2), 2 * nodes(1))

    def test_numbers(self):
        def sums_in_sums(x, a):
            h = T.exp(x) + T.exp(a)
            return h / (h * T.exp(a) + 2 * h + T.exp(x))

        def powers(x, a):
            return 1 / (T.exp(x) + (T.exp(x) + T.exp(2 * a)) ** (x * a))

        def shares(x, a):
            w = T.exp(x) * T.exp(a).sum()
            return (w / w.sum()) / (T.sqrt(w) + w / w.sum())

        def unknown_factors(x, a):
            return a / (T.exp(x) * a * (T.exp(a) + T.exp(x)))

        rng = np.random.RandomState(7)
        values = [rng.uniform(0.5, 1.5, 3) for _ in "xa"]
        for f in (sums_in_sums, powers, shares, unknown_factors):
            with self.subTest(f.__name__):
                verify_grad(f, values, rng=rng, mode=PLAIN)


if __name__ == "__main__":
    unittest.main()
