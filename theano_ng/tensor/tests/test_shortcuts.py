"""Tests of shortcuts: one formula computes the derivative of several successive operations."""

import unittest
import unittest.mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gradient import grad

PLAIN = Mode("py", None)
X = np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]])


class TestShortcuts(unittest.TestCase):
    """The gradient of a handwritten softmax is computed by one formula.

    If gradients of intermediate variables are requested, the gradient is computed step by step.
    """

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
        """A reshape in the softmax does not prevent the shortcut, even if its shape is computed from the input."""
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


def _numeric(cost, values, step=1e-6):
    """Return the derivatives of a function of several arrays, by central differences."""
    found = []
    for k, value in enumerate(values):
        derivative = np.zeros(value.shape)
        for i in np.ndindex(value.shape):
            moved = [[v.copy() for v in values] for _ in range(2)]
            for sign, arguments in zip((1, -1), moved):
                arguments[k][i] += sign * step
            derivative[i] = (cost(*moved[0]) - cost(*moved[1])) / (2 * step)
        found.append(derivative)
    return found


TWO = {
    "softmax": lambda a, b: T.exp(a) / T.exp(b).sum(axis=1, keepdims=True),
    "softmax by a product": lambda a, b: T.exp(a) * (1 / T.exp(b).sum(axis=1, keepdims=True)),
    "logistic": lambda a, b: T.exp(a) / (1 + T.exp(b)),
    "log of a softmax": lambda a, b: T.log(T.exp(a) / T.exp(b).sum(axis=1, keepdims=True)),
    "log of a logistic": lambda a, b: T.log(T.exp(a) / (1 + T.exp(b))),
    "log of a complement": lambda a, b: T.log(1 - 1 / (1 + T.exp(a)) / (2 + T.exp(-b))),
    "log of odds": lambda a, b: T.log(T.nnet.sigmoid(a) / (1 - T.nnet.sigmoid(b))),
    "log of a variance": lambda a, b: T.log(T.nnet.sigmoid(a) * (1 - T.nnet.sigmoid(b))),
    "log of a sum": lambda a, b: T.log(T.exp(a) + T.exp(b)),
    "log of a sum with a number": lambda a, b: T.log(T.exp(a) + T.exp(b) + 1),
    "log of a sum of products": lambda a, b: T.log((T.exp(a) * T.nnet.sigmoid(b)).sum(axis=0)),
    "log of a power": lambda a, b: T.log(T.nnet.sigmoid(a) ** b),
    "log of a product with anything": lambda a, b: T.log(T.nnet.softmax(a) * T.sqr(b)),
    "log of a stack": lambda a, b: T.log(T.stack([T.exp(a), T.nnet.softmax(b)])[:, ::-1]),
    "log1p": lambda a, b: T.log1p(T.exp(a) * T.exp(-b)) + T.log1p(-T.nnet.sigmoid(b)),
    "log2 and log10": lambda a, b: T.log2(T.erfc(a)) * T.log10(T.cosh(b)),
    "quotient": lambda a, b: a / T.exp(b) + b / T.nnet.sigmoid(a),
    "quotient of a row": lambda a, b: T.addbroadcast(a[:1], 0) / (b * T.exp(a)),
    "inverse": lambda a, b: T.inv(T.exp(a) * (1 + T.exp(b))),
    "power": lambda a, b: T.nnet.sigmoid(a) ** b + T.sqrt(T.erfc(b)) + (1 + T.exp(a)) ** -1.5,
    "crossentropy": lambda a, b: T.nnet.categorical_crossentropy(
        T.exp(a) / T.exp(b).sum(axis=1, keepdims=True), [2, 0]
    ),
    "crossentropy of a softmax": lambda a, b: b[:, 0] * T.nnet.categorical_crossentropy(T.nnet.softmax(a), [2, 0]),
}
"""Functions of two variables, which are tested with equal values of both."""

ON_THE_WAY = {
    "sum": lambda p: T.log(p + T.exp(p)),
    "product": lambda p: T.log(p * T.exp(p)),
    "sum of products": lambda p: T.log((p * T.exp(p)).sum(axis=0)),
    "quotient": lambda p: T.exp(p) / (p + T.exp(p)),
    "sums inside one another": lambda p: T.log(p * T.exp(p) + T.exp(-p) * p * (p + T.exp(p))),
    "share": lambda p: T.log(p / p.sum(axis=1, keepdims=True) * T.exp(p)),
    "power": lambda p: (p * T.exp(-p)) ** -p,
    "power of itself": lambda p: T.log((T.exp(p) * p) ** (T.exp(p) * p)),
}
"""Functions that use a variable both as a factor or term and as an argument."""


class Generated:
    """A random expression of two positive matrices that uses arguments, factors and terms repeatedly.

    Attributes
    ----------
    inputs : list of Variable
    variables : list of (Variable, array)
        All variables with their values, of moderate size, at which no formula overflows.
    """

    FUNCTIONS = (
        (T.exp, np.exp),
        (lambda v: T.exp(-v), lambda v: np.exp(-v)),
        (T.nnet.sigmoid, lambda v: 1 / (1 + np.exp(-v))),
        (lambda v: 1 - T.nnet.sigmoid(v), lambda v: 1 / (1 + np.exp(v))),
        (lambda v: 1 / (1 + T.exp(v)), lambda v: 1 / (1 + np.exp(v))),
        (T.cosh, np.cosh),
    )
    UNARY = (
        (lambda v: v + T.exp(v), lambda v: v + np.exp(v)),
        (lambda v: v * T.exp(-v), lambda v: v * np.exp(-v)),
        (lambda v: v / v.sum(axis=1, keepdims=True), lambda v: v / v.sum(axis=1, keepdims=True)),
        (lambda v: v * (1 / v.sum(axis=0)), lambda v: v / v.sum(axis=0)),
        (lambda v: T.stack([v, T.sqr(v)]).sum(axis=0), lambda v: v + v**2),
        (lambda v: T.sqrt(v)[::-1], lambda v: np.sqrt(v)[::-1]),
        (lambda v: 1 + 2 * v, lambda v: 1 + 2 * v),
        (lambda v: T.log(1 + v), np.log1p),
    )
    BINARY = (
        (T.add, np.add),
        (T.mul, np.multiply),
        (T.true_div, np.divide),
        (lambda u, v: 1 / (u + v), lambda u, v: 1 / (u + v)),
        (T.pow, np.power),
        (lambda u, v: u * T.exp(v) + v, lambda u, v: u * np.exp(v) + v),
    )

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)
        self.inputs = [T.dmatrix("x"), T.dmatrix("y")]
        self.variables = [(v, self.rng.uniform(0.3, 1.5, (2, 3))) for v in self.inputs]
        self.arguments = [value for _, value in self.variables]
        for _ in range(5 + seed % 8):
            self.add_one()

    def pick(self, choices):
        return choices[self.rng.randint(len(choices))]

    def operand(self):
        """Return a random variable, in most cases one of the last three."""
        return self.pick(self.variables[-3:] if self.rng.rand() < 0.6 else self.variables)

    def add_one(self):
        operands = [self.operand()]
        if self.rng.rand() < 0.4:
            operands.append(self.operand())
        functions = self.BINARY if len(operands) == 2 else self.pick((self.FUNCTIONS, self.UNARY))
        symbolic, numeric = self.pick(functions)
        value = numeric(*[value for _, value in operands])
        if 0.02 < value.min() and value.max() < 20:
            self.variables.append((symbolic(*[v for v, _ in operands]), value))

    def cost(self):
        """Return a sum of logarithms, quotients and powers of the last variables."""
        outer = (T.log, T.inv, T.sqrt, lambda v: v, T.log1p, lambda v: v**-1.5)
        terms = [
            self.pick(outer)(v) * self.rng.uniform(0.5, 2, (2, 3))
            for v, _ in self.variables[-1 - self.rng.randint(3) :]
        ]
        return sum(term.sum() for term in terms)


class TestGenerated(unittest.TestCase):
    """Derivatives of random expressions with respect to inputs and intermediate variables equal those without
    shortcuts.
    """

    def check(self, seed):
        graph = Generated(seed)
        cost = graph.cost()
        between = [v for v, _ in graph.variables[2:]]
        wrt = [graph.pick(between) for _ in range(graph.rng.randint(1, 4)) if between]
        direct = {"disconnected_inputs": "ignore"}
        if graph.rng.rand() < 0.2 and between:
            direct["consider_constant"] = [graph.pick(between)]

        def gradients():
            alone = [grad(cost, v, **direct) for v in [*graph.inputs, *wrt]]
            return alone + grad(cost, [*graph.inputs, *wrt], **direct)

        found = gradients()
        with unittest.mock.patch.dict(T.Elemwise.shortcuts, clear=True):
            wanted = gradients()
        f = theano.function(graph.inputs, found + wanted, mode=PLAIN, on_unused_input="ignore")
        values = f(*graph.arguments)
        for a, b in zip(values[: len(found)], values[len(found) :]):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)

    def test_gradients(self):
        for seed in range(60):
            with self.subTest(seed):
                self.check(seed)


class TestDerivativesByEither(unittest.TestCase):
    """The derivative with respect to one of two equal variables ignores the other variable.

    The derivative with respect to the input of both variables includes both.
    """

    def test_gradients(self):
        x = T.dmatrix("x")
        for name, part in TWO.items():
            with self.subTest(name):
                a, b = x / 2, x / 2
                cost = T.sqr(part(a, b)).sum()
                f = theano.function([x], grad(cost, [a, b]) + [grad(cost, x)], mode=PLAIN)
                of_both = theano.function([a, b], cost, mode=PLAIN)
                by_a, by_b = _numeric(of_both, [X / 2, X / 2])
                for found, wanted in zip(f(X), (by_a, by_b, (by_a + by_b) / 2)):
                    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)

    def test_second_derivatives_and_tangents(self):
        x, v = T.dmatrix("x"), T.dmatrix("v")
        along = np.array([[1.0, -0.5, 0.25], [0.5, 2, -1]])
        for name, part in TWO.items():
            with self.subTest(name):
                a, b = x / 2, x / 2
                cost = T.sqr(part(a, b)).sum()
                g = grad(cost, x)
                outputs = [grad((g * v).sum(), x), theano.gradient.Rop(g, x, v), theano.gradient.Rop(cost, x, v)]
                f = theano.function([x, v], outputs, mode=PLAIN)
                gradient = theano.function([x], g, mode=PLAIN)
                wanted = (gradient(X + 1e-6 * along) - gradient(X - 1e-6 * along)) / 2e-6
                second, tangent, slope = f(X, along)
                np.testing.assert_allclose(second, wanted, rtol=1e-6, atol=1e-7)
                np.testing.assert_allclose(tangent, wanted, rtol=1e-6, atol=1e-7)
                np.testing.assert_allclose(slope, (gradient(X) * along).sum(), rtol=1e-12)

    def test_what_lies_between(self):
        """The shortcut does not skip an intermediate variable that the caller names.

        The caller requests its gradient, gives its gradient in `known_grads`, or lists it in `consider_constant`.
        """
        x = T.dmatrix("x")
        p = T.nnet.sigmoid(x)
        q = 1 - p
        cost = (T.log(p * q) * X).sum()
        s = 1 / (1 + np.exp(-X))

        def check(outputs, *wanted):
            for found, value in zip(theano.function([x], outputs, mode=PLAIN, on_unused_input="ignore")(X), wanted):
                np.testing.assert_allclose(found, value, rtol=1e-12)

        by_p, by_q = X / s, X / (1 - s)
        check(grad(cost, [x, p, q]), X * (1 - 2 * s), by_p - by_q, by_q)
        check(grad(cost, [q, x]), by_q, X * (1 - 2 * s))
        check([grad(cost, x, consider_constant=[q])], X * (1 - s))
        check([grad(cost, x, known_grads={q: T.ones_like(q)})], X * (1 - s) - s * (1 - s))
        check([grad(None, x, known_grads={p: T.ones_like(p), T.log(q): T.ones_like(q)})], s * (1 - s))

    def test_arguments_that_are_computed_from_what_is_on_the_way(self):
        x = T.dmatrix("x")
        p = T.nnet.sigmoid(x)
        cost = T.log(p * T.exp(p)).sum()
        s = 1 / (1 + np.exp(-X))
        for wrt, wanted in ((p, 1 / s + 1), (x, (1 - s) + s * (1 - s))):
            f = theano.function([x], grad(cost, wrt), mode=PLAIN)
            np.testing.assert_allclose(f(X), wanted, rtol=1e-12)

    def test_arguments_that_are_terms(self):
        """Derivatives agree with differences if one variable is used in two roles.

        The variable is a term or factor of an expression, and also the argument of a function in the expression.
        """
        x = T.dmatrix("x")
        s = 1 / (1 + np.exp(-X))
        for name, part in ON_THE_WAY.items():
            with self.subTest(name):
                p = T.nnet.sigmoid(x)
                cost = part(p).sum()
                f = theano.function([x], grad(cost, p), mode=PLAIN)
                both = theano.function([x], [grad(part(p).sum(), x)] + grad(cost, [p, x]), mode=PLAIN)
                of_p = theano.function([p], cost, mode=PLAIN)
                (by_p,) = _numeric(of_p, [s])
                for found, wanted in zip([f(X), *both(X)], [by_p, by_p * s * (1 - s), by_p, by_p * s * (1 - s)]):
                    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)

    def test_tangents_of_what_saturates(self):
        x = T.dvector("x")
        far = np.array([-800.0, -1, 800])
        s = np.array([0, 1 / (1 + np.e), 1])
        for cost, slope in (
            (T.log(T.nnet.sigmoid(x)), 1 - s),
            (T.log(1 - T.nnet.sigmoid(x)), -s),
            (T.log(T.exp(x) + T.exp(-x)), np.tanh(far)),
        ):
            f = theano.function([x], theano.gradient.Rop(cost, x, T.ones_like(x)), mode="FAST_COMPILE")
            np.testing.assert_allclose(f(far), slope, rtol=1e-14)


if __name__ == "__main__":
    unittest.main()
