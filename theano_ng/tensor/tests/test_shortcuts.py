"""Derivatives that are taken of several operations at once."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.graph import ancestors
from theano_ng.gradient import grad

PLAIN = Mode("py", None)
X = np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]])


class TestShortcuts(unittest.TestCase):
    """The gradient of a softmax that is written by hand does not go through its parts, unless these are of interest themselves."""

    def setUp(self):
        self.x = T.dmatrix("x")
        self.e = T.exp(self.x)
        self.total = self.e.sum(axis=1, keepdims=True)
        self.p = self.e / self.total
        self.cost = (T.log(self.p) * X).sum()
        e = np.exp(X)
        self.p_value = e / e.sum(1, keepdims=True)
        self.values = {
            "x": X - X.sum(1, keepdims=True) * self.p_value,
            "p": X / self.p_value,
            "e": X / e - (X.sum(1, keepdims=True) / e.sum(1, keepdims=True)),
            "total": -X.sum(1, keepdims=True) / e.sum(1, keepdims=True),
        }

    def check(self, wrt, wanted, **kwargs):
        found = theano.function([self.x], grad(self.cost, wrt, **kwargs), mode=PLAIN)(X)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)

    def test_of_each_part(self):
        for name, value in self.values.items():
            self.check(getattr(self, name), value)

    def test_of_several_parts_at_once(self):
        names = list(self.values)
        found = theano.function([self.x], grad(self.cost, [getattr(self, n) for n in names]), mode=PLAIN)(X)
        for name, value in zip(names, found):
            np.testing.assert_allclose(value, self.values[name], rtol=1e-12, atol=1e-12)

    def test_constant_parts(self):
        self.check(self.x, X, consider_constant=[self.total])
        self.check(self.x, -X.sum(1, keepdims=True) * self.p_value + X, consider_constant=[])

    def test_shapes_are_not_on_the_way(self):
        """A reshape in the softmax whose shape is computed from the input does not keep its gradient from being taken as a whole."""
        e = T.exp(self.x).reshape((self.x.shape[0], 3, 1))
        p = (e / e.sum(axis=1, keepdims=True)).reshape((self.x.shape[0], 3))
        f = theano.function([self.x], grad((T.log(p) * X).sum(), self.x), mode=PLAIN)
        np.testing.assert_allclose(f(X), self.values["x"], rtol=1e-12)
        self.assertTrue(np.isfinite(f(np.array([[0.0, 700, -700], [1, 2, 3]]))).all())

    def test_known_gradients(self):
        x = theano.function(
            [self.x], grad(None, self.x, known_grads={self.total: T.ones_like(self.total)}), mode=PLAIN
        )(X)
        np.testing.assert_allclose(x, np.exp(X))

    def test_parts_that_others_use(self):
        cost = self.cost + (self.e**2).sum() + T.log(self.total).sum()
        found = theano.function([self.x], grad(cost, self.x), mode=PLAIN)(X)
        np.testing.assert_allclose(found, self.values["x"] + 2 * np.exp(2 * X) + self.p_value)

    def test_exponents_that_are_merely_equal(self):
        """Derivatives by either of two equal exponents are those by this one alone."""
        for part in (
            lambda a, b: T.exp(a) / T.exp(b).sum(axis=1, keepdims=True),
            lambda a, b: T.exp(a) / (1 + T.exp(b)),
        ):
            a, b = self.x * 2, self.x * 2
            found = theano.function([self.x], grad((part(a, b) * X).sum(), [a, b]), mode=PLAIN)(X)
            cost = theano.function([a, b], (part(a, b) * X).sum(), mode=PLAIN)
            step = 1e-6 * np.eye(X.size).reshape((X.size, *X.shape))
            for value, of in zip(found, (lambda s: cost(2 * X + s, 2 * X), lambda s: cost(2 * X, 2 * X + s))):
                wanted = [(of(s) - of(-s)) / 2e-6 for s in step]
                np.testing.assert_allclose(value.ravel(), wanted, rtol=1e-6, atol=1e-8)

    def test_without_any_rewriting(self):
        x = np.array([[0.0, 700.0, -700.0]])
        for cost in (self.cost, T.log(self.p).sum(), T.log(self.p.T)[1].sum()):
            f = theano.function([self.x], grad(cost, self.x), mode=PLAIN)
            self.assertTrue(np.isfinite(f(x.repeat(2, 0))).all())

    def test_subclasses_keep_their_derivatives(self):
        class Halved(T.Elemwise):
            def L_op(self, inputs, outputs, output_grads):
                return [output_grads[0] * outputs[0] / 2]

        p = Halved(theano.scalar.exp)(self.x)
        found = theano.function([self.x], grad(p.sum(), self.x), mode=PLAIN)(X)
        np.testing.assert_allclose(found, np.exp(X) / 2)

    def test_integers(self):
        i = T.imatrix("i")
        found = theano.function([i], grad(T.exp(i).sum(), i), mode=PLAIN)(np.ones((1, 1), "int32"))
        np.testing.assert_allclose(found, [[np.e]])


if __name__ == "__main__":
    unittest.main()
