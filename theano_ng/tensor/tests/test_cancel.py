"""Products in which a division cancels, and derivatives that are taken of several operations at once."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.graph import ancestors
from theano_ng.gradient import grad
from theano_ng.tensor.cancel import is_term_of, same, summed_along, times

PLAIN = Mode("py", None)
X = np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]])


def divides(v):
    return any(u.owner is not None and u.owner.op in (T.true_div, T.inv) for u in ancestors([v]))


class TestTimes(unittest.TestCase):
    def setUp(self):
        self.p, self.g = T.dmatrix("p"), T.dmatrix("g")

    def check(self, v, cancels=True, p=None):
        """What `times` makes of v * p divides by nothing, has its type, and its numbers."""
        p = self.p if p is None else p
        product = times(v, p)
        self.assertIsNotNone(product)
        self.assertEqual(product.type, p.type)
        self.assertEqual(divides(product), not cancels)
        inputs = [self.p, self.g]
        f = theano.function(inputs, [product, v * p], mode=PLAIN, on_unused_input="ignore")
        np.testing.assert_allclose(*f(np.abs(X) + 1, X), rtol=1e-13)
        if cancels:
            self.assertTrue(np.isfinite(f(0 * X, X)[0]).all())

    def test_elementwise(self):
        p, g = self.p, self.g
        self.check(g / p)
        self.check(-(g / p))
        self.check(g * (2 / p))
        self.check(g / p + g)
        self.check(g - g / (p * g), cancels=False)  # g stays
        self.check(T.inv(p))
        self.check(T.fill(p, g / p))
        self.check(T.addbroadcast(g[:, :1], 1) / p)
        self.check(g / (p / g))

    def test_views(self):
        p, g = self.p, self.g
        self.check((g.T / p.T).T)
        self.check((g.reshape((6,)) / p.reshape((6,))).reshape((2, 3)))
        self.check((g.dimshuffle(1, "x", 0) / p.dimshuffle(1, "x", 0)).dimshuffle(2, 0))
        self.check(T.inc_subtensor(T.zeros_like(p)[1:, ::2], g[1:, ::2] / p[1:, ::2]))
        rows, columns = T.constant([1, 0, 1]), T.constant([2, 1, 2])
        self.check(T.inc_subtensor(T.zeros_like(p)[rows, columns], -g[rows, columns] / p[rows, columns]))
        self.check(T.inc_subtensor(T.zeros_like(p)[rows], g[rows] / p[rows]))
        # what is scaled after it was put into zeros is scaled before
        product = times(-T.inc_subtensor(T.zeros_like(p)[rows], g[rows] / p[rows]), p)
        self.assertNotEqual(product.owner.op, T.neg)

    def test_joined(self):
        p, q, g = T.dmatrix("p"), T.dmatrix("q"), T.dmatrix("g")
        parts = T.split(g / T.concatenate([p, q], axis=1), [p.shape[1], q.shape[1]], 2, axis=1)
        # as differentiation makes it
        cost = (g * T.log(T.concatenate([p, q], axis=1))).sum()
        for part, of in zip(grad(cost, [p, q]), (p, q)):
            product = times(part, of)
            self.assertFalse(divides(product))
            f = theano.function([p, q, g], [product, part * of], mode=PLAIN, on_unused_input="ignore")
            np.testing.assert_allclose(*f(X + 4, X + 5, np.hstack([X, X])), rtol=1e-13)
        self.assertEqual(len(parts), 2)

    def test_sums(self):
        """Divided by a sum of which p is a part, p is a share, at most 1."""
        p, g = self.p, self.g
        self.check(g / p.sum(axis=1, keepdims=True), cancels=False)
        share = times(g / p.sum(axis=1, keepdims=True), p).owner.inputs
        self.assertTrue(any(i.owner is not None and i.owner.op == T.true_div and i.owner.inputs[0] is p for i in share))
        self.check(g / (p + g), cancels=False)

    def test_nothing_to_cancel(self):
        p, g = self.p, self.g
        for v in (
            g,
            g * 2,
            g / T.exp(p),
            g / (1 + p),
            T.exp(g / p),
            T.inc_subtensor(g[1:], g[1:] / p[1:]),
            g.sum() / p.shape[0] + g,
        ):
            self.assertIsNone(times(v, p))

    def test_long_chains_are_given_up(self):
        v = self.g / self.p
        for _ in range(1000):
            v = v * self.g
        self.assertIsNone(times(v, self.p))


class TestSame(unittest.TestCase):
    def test_same(self):
        x, y, i = T.dmatrix("x"), T.dmatrix("y"), T.lvector("i")
        for a, b in (
            (x, x),
            (x.T.T, x),
            (T.exp(x), T.exp(x)),
            (x[1:], x[1:]),
            (x[i], x[i]),
            (x.reshape((6,)), x.reshape((6,))),
            (x.dimshuffle(0, "x", 1).dimshuffle(2, 0), x.T),
        ):
            self.assertTrue(same(a, b))
        for a, b in (
            (x, y),
            (x.T, x),
            (T.exp(x), T.exp(y)),
            (x[1:], x[2:]),
            (x[i], x[i + 1]),
            (T.exp(x), T.log(x)),
            (x, T.constant(X)),
        ):
            self.assertFalse(same(a, b))

    def test_sums(self):
        x, t = T.dmatrix("x"), T.dtensor3("t")
        self.assertEqual(summed_along(x, x.sum(axis=1, keepdims=True)), (1,))
        self.assertEqual(summed_along(x, x.sum(axis=0)), None)  # has another rank
        self.assertEqual(summed_along(x, x.sum(axis=0).dimshuffle("x", 0)), (0,))
        self.assertEqual(summed_along(x.T, x.sum(axis=1).dimshuffle("x", 0)), (0,))
        self.assertEqual(summed_along(x, x.sum().dimshuffle("x", "x")), (0, 1))
        self.assertEqual(summed_along(x, x.T.sum(axis=1).dimshuffle(0, "x")), None)
        self.assertEqual(summed_along(t, t.sum(axis=(0, 2), keepdims=True)), (0, 2))
        # the same numbers in other groups
        other = x.reshape((4, 3, 2)).sum(axis=(0, 2)).dimshuffle("x", 0, "x")
        self.assertIsNone(summed_along(x.reshape((2, 3, 4)), other))
        self.assertEqual(summed_along(x.reshape((4, 3, 2)), other), (0, 2))
        self.assertTrue(is_term_of(x, (x + x**2) + T.exp(x)))
        self.assertFalse(is_term_of(x, x**2 + T.exp(x)))
        self.assertFalse(is_term_of(x, x + 1))


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
