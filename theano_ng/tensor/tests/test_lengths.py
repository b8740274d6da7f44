"""Equal expressions of lengths are recognized as equal."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import io_toposort
from theano_ng.tensor.opt.shape import ShapeFeature
from theano_ng.tensor.shaping.lengths import MAX_TERMS, Lengths


def printed(v):
    return theano.pprint(v)


class TestLengths(unittest.TestCase):
    def setUp(self):
        self.n, self.m, self.k = T.lscalars("n", "m", "k")
        self.lengths = Lengths()

    def check(self, expression, expected):
        self.assertEqual(printed(self.lengths.first(expression)), expected)

    def test_what_cancels(self):
        n, m, k = self.n, self.m, self.k
        self.check((n - m) + m, "n")
        self.check((n + m) - m + 0, "n")
        self.check(T.minimum(1, n) + (n - T.minimum(1, n)), "n")
        self.check((n - (m - k)) + m, "(n + k)")
        self.check(n - n, "TensorConstant{0}")
        self.check((n + 2) - 5 + 3, "n")
        self.check((n + n) - m - n - m, "(n - (TensorConstant{2} * m))")

    def test_first_of_its_value(self):
        n, m = self.n, self.m
        first = n + m
        self.assertIs(self.lengths.first(first), first)
        self.assertIs(self.lengths.first(m + n), first)
        self.assertIs(self.lengths.first((m + 1) + (n - 1)), first)
        product = T.minimum(first, 3) * n
        self.assertIs(self.lengths.first(product), product)
        self.assertIs(self.lengths.first(T.minimum(m + n, 3) * n), product)
        self.assertIsNot(self.lengths.first(T.minimum(m + n, 4) * n), product)

    def test_lengths_are_never_negative(self):
        n, m, k = T.dmatrix("x").shape[0], T.dvector("y").shape[0], self.k
        self.assertIs(self.lengths.first(T.maximum(n, 0)), n)
        self.assertIs(self.lengths.first(T.maximum(n + 2, 2) - T.minimum(1, n + 2) - 1), n)
        self.assertIs(self.lengths.first(T.minimum(n + m, n)), n)
        # The expression is the length of x[1:-1] if x has the length n + 2.
        self.assertIs(self.lengths.first(T.maximum(T.maximum(1 + n, 0), T.minimum(1, 2 + n)) - T.minimum(1, 2 + n)), n)
        zero = self.lengths.first(T.minimum(np.int8(0), n))
        self.assertEqual((zero.type, zero.data), (T.lscalar, 0))
        part = T.maximum(k - 1, 0)
        self.check(T.maximum(part + m, m) - m, printed(part))
        least = T.minimum(n, m)
        self.assertIs(self.lengths.first(T.maximum(least, 0)), least)
        for expression in (T.maximum(n, 1), T.maximum(n - 1, 0), T.maximum(k, 0), T.minimum(n, k), T.maximum(n, m)):
            self.assertIs(self.lengths.first(expression), expression)

    def test_what_stays(self):
        n, other = self.n, T.bscalar("b")
        for expression in (n // 2, n - other, (n - 1) // 2 + 1, T.switch(n > 1, n, 1), T.cast(other, "int64")):
            self.assertIs(self.lengths.first(expression), expression)
        terms = T.lscalars(2 * MAX_TERMS)
        long = T.add(*terms)
        self.assertIs(self.lengths.first(long), long)
        # Both differences are 0, but they are not equal: the difference of int8 variables has the dtype int8.
        self.assertNotEqual(self.lengths.first(other - other), self.lengths.first(n - n))

    def test_values(self):
        n, m, k = self.n, self.m, self.k
        rng = np.random.RandomState(0)
        for _ in range(60):
            pool = [n, m, k, T.constant(np.int64(rng.randint(-3, 4)))]
            for _ in range(6):
                a, b = (pool[i] for i in rng.randint(len(pool), size=2))
                pool.append([a + b, a - b, T.minimum(a, b), a * b][rng.randint(4)])
            values = {n: np.int64(7), m: np.int64(2**62), k: np.int64(-5)}
            with np.errstate(over="ignore"):
                f = theano.function(
                    [n, m, k],
                    [pool[-1], self.lengths.first(pool[-1])],
                    mode=theano.Mode("py", None),
                    on_unused_input="ignore",
                )
                one, two = f(*[values[v] for v in (n, m, k)])
            self.assertEqual((one.dtype, int(one)), (two.dtype, int(two)), printed(pool[-1]))

    def test_deep(self):
        e = self.n
        for _ in range(20000):
            e = (e - T.minimum(2, e)) + T.minimum(2, e)
        self.assertIs(self.lengths.first(e), self.n)


class TestShapes(unittest.TestCase):
    def test_chain_of_joined_slices(self):
        x = h = T.dvector("x")
        for _ in range(50):
            h = T.tanh(T.join(0, h[1:], h[:1]))
        fgraph = FunctionGraph([x], [h], clone=True)
        fgraph.attach_feature(ShapeFeature())
        (length,) = fgraph.shape_feature.shape_of[fgraph.outputs[0]]
        self.assertEqual(len(io_toposort(fgraph.inputs, [length])), 1)
        f = theano.function([x], [h, T.grad(h.sum(), x), h.shape])
        value, gradient, shape = f(np.linspace(0, 1, 7))
        self.assertEqual((value.shape, gradient.shape, shape.tolist()), ((7,), (7,), [7]))


if __name__ == "__main__":
    unittest.main()
