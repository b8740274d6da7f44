"""Random expressions of lengths have the values of the linear forms that represent them."""

import random
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.tensor.shaping.lengths import Lengths

LENGTHS = [(0, 0, -2), (1, 0, 0), (0, 3, 1), (2, 2, -1), (4, 1, 3), (3, 5, 7)]


class TestNumbers(unittest.TestCase):
    def setUp(self):
        self.x, self.y, self.k = T.dvector("x"), T.dvector("y"), T.lscalar("k")
        self.leaves = [self.x.shape[0], self.y.shape[0], self.k]

    def expression(self, draw, depth):
        if not depth or draw.random() < 0.15:
            chosen = draw.choice([*self.leaves, None])
            return T.constant(draw.randint(-3, 3), dtype="int64") if chosen is None else chosen
        op = draw.choice([T.add, T.add, T.sub, T.sub, T.mul, T.minimum, T.maximum])
        return op(self.expression(draw, depth - 1), self.expression(draw, depth - 1))

    def check(self, expressions, lengths):
        kept = [lengths.first(e) for e in expressions]
        fn = theano.function(
            [self.x, self.y, self.k], [*expressions, *kept], mode=Mode("py", None), on_unused_input="ignore"
        )
        for n, m, k in LENGTHS:
            numbers = [int(v) for v in fn(np.ones(n), np.ones(m), k)]
            for e, new, before, after in zip(expressions, kept, numbers, numbers[len(kept) :]):
                self.assertEqual(
                    after, before, "%s -> %s, n = %d, m = %d, k = %d" % (theano.pprint(e), theano.pprint(new), n, m, k)
                )

    def test_one_at_a_time(self):
        for seed in range(150):
            draw = random.Random(seed)
            self.check([self.expression(draw, draw.randint(1, 4))], Lengths())

    def test_many_that_know_each_other(self):
        draw = random.Random(1)
        self.check([self.expression(draw, draw.randint(1, 5)) for _ in range(150)], Lengths())

    def test_differences_that_may_be_negative(self):
        n, m, k = self.leaves
        parts = [n - m, n + k, n - k, 2 * n - m, n + m - k, n - n + k, n + m - 2 * m, k * n]
        bounded = [f(p, b) for p in parts for f in (T.maximum, T.minimum) for b in (T.constant(0, dtype="int64"), n, m)]
        self.check(bounded, Lengths())


if __name__ == "__main__":
    unittest.main()
