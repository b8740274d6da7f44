"""Logarithms, quotients and derivatives of saturated functions.

The whole table of losses is in `theano_ng.tensor.tests.test_stability`.
"""

import unittest

import mpmath
import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.tensor.nnet import binary_crossentropy, relu, sigmoid, softplus
from theano_ng.tensor.saturating import factors_of, logistic

MODES = [Mode("py", "fast_compile"), Mode("py", "fast_run")]


def _computed(inputs, outputs, *values):
    """Yield the outputs of a function for these values, in each mode of `MODES`."""
    for mode in MODES:
        with np.errstate(all="ignore"):
            yield theano_ng.function(inputs, outputs, mode=mode)(*values)


def _ops(f):
    return [str(node.op) for node in f.maker.fgraph.toposort()]


class TestReading(unittest.TestCase):
    def setUp(self):
        self.x = T.dvector("x")

    def check(self, expression, constant, *factors):
        read = factors_of(expression)
        self.assertAlmostEqual(read.constant, constant)
        self.assertEqual([(f.function, f.argument.coefficient, f.power) for f in read.factors], list(factors))
        self.assertTrue(all(f.argument.base is self.x for f in read.factors))

    def test_sigmoids(self):
        x, e = self.x, T.exp(self.x)
        for expression in (sigmoid(x), 1 / (1 + T.exp(-x)), T.inv(T.exp(-x) + 1), (1 + T.exp(-x)) ** -1, e / (1 + e)):
            self.check(expression, 1, (logistic, 1, 1))
            self.check(1 - expression, 1, (logistic, -1, 1))
            self.check(expression / (1 - expression), 1, (T.exp, 1, 1))
        self.check((1 + T.tanh(x / 2)) / 2, 1, (logistic, 1, 1))
        self.check(1 - T.tanh(x) ** 2, 4, (logistic, 2, 1), (logistic, -2, 1))
        self.check(1 + e, 1, (logistic, -1, -1))
        self.check(3 * T.sqrt(sigmoid(x)), 3, (logistic, 1, 0.5))
        self.check(8 + 2 / e, 8, (logistic, 1, -1))
        self.assertAlmostEqual(factors_of(8 + 2 / e).factors[0].argument.shift, np.log(4))

    def test_others_that_saturate(self):
        x = self.x
        self.check(1 - T.erf(x), 1, (T.erfc, 1, 1))
        self.check(1 + T.erf(2 * x), 1, (T.erfc, -2, 1))
        self.check(1 - 0.5 * T.erfc(x), 0.5, (T.erfc, -1, 1))
        self.check(2 / T.cosh(-3 * x), 2, (T.cosh, -3, -1))

    def test_others(self):
        x = self.x
        for expression in (x, 1 + x, 2 - sigmoid(x), 1 + T.tanh(x) / 3, sigmoid(x) + sigmoid(2 * x), x * sigmoid(x)):
            self.assertIsNone(factors_of(expression))
        self.assertIsNone(factors_of(T.exp(T.zvector())))

    def test_views(self):
        x = T.dmatrix("x")
        (f,) = factors_of(1 - sigmoid(x).T[1:]).factors
        self.assertEqual((f.argument.base, f.argument.coefficient, len(f.argument.views)), (x, -1, 2))

    def test_products_of_products(self):
        """The search for factors stops after a few nodes: 60 squarings have 2 ** 60 paths."""
        v = T.exp(self.x)
        for _ in range(60):
            v = v * v
        self.assertIsNone(factors_of(v))


class TestSamples(unittest.TestCase):
    def test_logistic_regression(self):
        """A logistic regression written by hand, in float32 with a misclassified row, has the exact cost and gradients."""
        x, y, w, b = T.fmatrix(), T.fvector(), T.fvector(), T.fscalar()
        p = 1 / (1 + T.exp(-T.dot(x, w) - b))
        loss = -y * T.log(p) - (1 - y) * T.log(1 - p)
        outputs = [loss.mean()] + theano_ng.grad(loss.mean(), [w, b])
        for cost, gw, gb in _computed([x, y, w, b], outputs, [[3]], [0], [100], 0):
            np.testing.assert_allclose([cost, gw[0], gb], [300, 3, 1], rtol=1e-6)

    def test_crossentropy_through_views(self):
        x, t = T.dmatrix("x"), T.dmatrix("t")
        logits = np.array([[100.0, -100, 800], [-800, 30, 1]])
        targets = np.array([[0.0, 1, 0], [1, 0, 0.25]])
        for view in (
            lambda v: v,
            lambda v: v.T,
            lambda v: v.reshape((3, 2)),
            lambda v: v.flatten(),
            lambda v: v[:, ::-1],
        ):
            for outside in (False, True):
                p = view(sigmoid(x)) if outside else sigmoid(view(x))
                cost = binary_crossentropy(p, view(t)).sum()
                for value, gradient in _computed([x, t], [cost, theano_ng.grad(cost, x)], logits, targets):
                    s = 1 / (1 + np.exp(-logits))
                    expected = np.logaddexp(0, logits) - targets * logits
                    np.testing.assert_allclose(value, expected.sum(), rtol=1e-12)
                    np.testing.assert_allclose(gradient, s - targets, rtol=1e-12, atol=1e-15)

    def test_crossentropy_of_batched_dot(self):
        u, v, t = T.dtensor3("u"), T.dtensor3("v"), T.dtensor3("t")
        cost = binary_crossentropy(sigmoid(T.batched_dot(u, v)), t).sum()
        for value, gradient in _computed(
            [u, v, t],
            [cost, theano_ng.grad(cost, u)],
            np.full((2, 1, 1), 10.0),
            np.full((2, 1, 1), 10.0),
            np.zeros((2, 1, 1)),
        ):
            self.assertEqual(value, 200)
            np.testing.assert_array_equal(gradient, np.full((2, 1, 1), 10.0))

    def test_error_functions(self):
        x = T.dscalar("x")
        outputs = [theano_ng.grad(T.log(T.erfc(2 * x)), x), 1 + T.erf(x - 26), 1 - T.erf(x - 14)]
        with mpmath.workdps(40):
            expected = [
                -4 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-1600) / mpmath.erfc(40),
                mpmath.erfc(6),
                mpmath.erfc(6),
            ]
        for results in _computed([x], outputs, 20):
            np.testing.assert_allclose(results, [float(e) for e in expected], rtol=1e-13)

    def test_quotients_of_erfc(self):
        x, y = T.dvector("x"), T.dvector("y")
        values = np.array([-3.0, 0.5, 10, 30, 1000])
        for expression, factor in (
            (T.exp(-(x**2)) / T.erfc(x), 1),
            (T.exp(-T.sqr(x)) * y * (1 / T.erfc(x)), 1),
            (y * T.exp(-x * x) / T.erfc(x), 1),
            (T.exp(-4 * x**2) / T.erfc(2 * x), 2),
            (T.exp(-(x**2) / 2) / T.erfc(x / np.sqrt(2)), np.sqrt(0.5)),
            (T.exp(-(x**2)) / T.erfc(-x), -1),
        ):
            with mpmath.workdps(40):
                expected = [
                    float(mpmath.exp(-((factor * v) ** 2)) / mpmath.erfc(factor * v)) for v in map(mpmath.mpf, values)
                ]
            for mode in MODES:
                f = theano_ng.function([x, y], expression, mode=mode, on_unused_input="ignore")
                with np.errstate(all="ignore"):
                    np.testing.assert_allclose(f(values, np.ones(5)), expected, rtol=1e-11, atol=1e-300)

    def test_relu(self):
        x = T.dvector("x")
        for value, gradient in _computed([x], [relu(x), theano_ng.grad(relu(x).sum(), x)], [-np.inf, -1, 0, 2, np.inf]):
            np.testing.assert_array_equal(value, [0, 0, 0, 2, np.inf])
            np.testing.assert_array_equal(gradient, [0, 0, 0.5, 1, 1])


class TestLimits(unittest.TestCase):
    def test_nothing_to_cancel(self):
        """Quotients by sigmoids stay if no factor cancels them."""
        x, y = T.dvector("x"), T.dvector("y")
        f = theano_ng.function([x, y], y / sigmoid(x) + y * sigmoid(2 * x), mode=MODES[0])
        self.assertEqual(_ops(f).count("sigmoid"), 2)
        self.assertEqual(sum("true_div" in op for op in _ops(f)), 1)

    def test_one_sigmoid(self):
        """The gradient of a binary cross-entropy of a sigmoid computes the sigmoid once, and no quotient."""
        x, t = T.dvector("x"), T.dvector("t")
        p = sigmoid(x)
        cost = binary_crossentropy(p, t).sum()
        f = theano_ng.function([x, t], theano_ng.grad(cost, x), mode=MODES[1].excluding("fusion"))
        self.assertEqual(_ops(f).count("sigmoid"), 1)
        self.assertFalse(any("true_div" in op for op in _ops(f)))

    def test_negative(self):
        """The logarithm of a negated sigmoid is NaN, also after rewriting."""
        x = T.dvector("x")
        for (value,) in _computed([x], [T.log(-sigmoid(x))], [0.0, 1]):
            self.assertTrue(np.isnan(value).all())

    def test_other_lengths(self):
        """A sigmoid and the reciprocal of a reordered sigmoid do not cancel.

        Reshapes and a transposition have changed the order of the elements.
        """
        x = T.dvector("x")
        there = (sigmoid(x).reshape((2, 3)).T.flatten()) ** -1
        for (value,) in _computed([x], [there * sigmoid(x)], np.arange(6.0)):
            s = 1 / (1 + np.exp(-np.arange(6.0)))
            np.testing.assert_allclose(value, s / s.reshape((2, 3)).T.ravel())

    def test_broadcasting(self):
        """The gradient of a broadcast row of probabilities is summed over the rows of the targets."""
        x, t = T.drow("x"), T.dmatrix("t")
        cost = binary_crossentropy(sigmoid(x), t).sum()
        values = np.array([[800.0, -800, 2]])
        targets = np.array([[0.0, 1, 0.5], [1, 1, 0]])
        for (gradient,) in _computed([x, t], [theano_ng.grad(cost, x)], values, targets):
            s = 1 / (1 + np.exp(-np.clip(values, -700, None)))
            np.testing.assert_allclose(gradient, (s - targets).sum(axis=0, keepdims=True), rtol=1e-12)

    def test_softplus_is_found(self):
        x = T.fvector("x")
        for expression in (T.log(1 + T.exp(x)), -T.log(1 - sigmoid(x)), T.log1p(T.exp(x))):
            f = theano_ng.function([x], expression, mode=MODES[0])
            self.assertIn("softplus", _ops(f))
            np.testing.assert_allclose(f(np.float32([200, -1])), [200, np.log1p(np.exp(-1))], rtol=1e-6)
        self.assertEqual(softplus(x).dtype, "float32")


if __name__ == "__main__":
    unittest.main()
