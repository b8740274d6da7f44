"""`Lengths` replaces random expressions of lengths by equal ones, and `never_less` orders lengths correctly."""

import random
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.compile.ops import Shape_i
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

    def test_never_less(self):
        """If ``never_less(a, b)`` is true, a is at least b for all tested lengths.

        With `if_positive`, a may be less than b if b is not positive.
        """
        found = {False: 0, True: 0}
        for seed in range(600):
            draw, lengths = random.Random(seed), Lengths()
            a, b = [self.expression(draw, draw.randint(0, 3)) for _ in range(2)]
            if seed % 2:
                b = T.minimum(b, T.maximum(a, T.constant(0, dtype="int64")))
            said = {if_positive: lengths.never_less(a, b, if_positive) for if_positive in found}
            if not any(said.values()):
                continue
            fn = theano.function([self.x, self.y, self.k], [a, b], mode=Mode("py", None), on_unused_input="ignore")
            for numbers in LENGTHS:
                larger, smaller = fn(np.ones(numbers[0]), np.ones(numbers[1]), numbers[2])
                for if_positive in (k for k, v in said.items() if v):
                    found[if_positive] += 1
                    self.assertTrue(
                        larger >= smaller or if_positive and smaller <= 0,
                        "%s >= %s, %s" % (theano.pprint(a), theano.pprint(b), numbers),
                    )
        self.assertGreater(found[False], 60)
        self.assertGreater(found[True], found[False])

    def test_never_less_of_sequences(self):
        """`never_less` recognizes the order of lengths that occur in scans over sequences with taps."""
        n, m, k = self.leaves
        zero = T.constant(0, dtype="int64")
        shorter = T.maximum(n - 1, zero)
        for a, b, always, if_positive in (
            (n, T.minimum(n, m), True, True),
            (n, T.minimum(m, T.minimum(k, n)), True, True),
            (n, T.maximum(n, m), False, False),
            (n - 1, shorter, False, True),
            (n - 2, shorter, False, False),
            (n, shorter + 1, False, False),
            (n - 1, T.minimum(shorter, m), False, True),
            (T.minimum(n, m), T.minimum(n, m) - 1, True, True),
            (T.minimum(n, m), n, False, False),
            (T.minimum(n, m), zero, True, True),
            (k, zero, False, False),
            (T.maximum(k, zero), zero, True, True),
            (k, T.maximum(k, zero), False, True),
            (k + 1, T.maximum(k, zero) + 1, False, False),
            (self.x[:n].shape[0], n, False, False),  # an opaque length: only ShapeFeature knows the lengths of slices
            (T.switch(n < zero, n + m, T.minimum(n, m)), T.minimum(m, n), True, True),
            (T.switch(k < zero, n + m, n), n, False, False),
            (T.tensor_from_scalar(T.scalar_from_tensor(n)), T.minimum(n, m), True, True),
            (n, T.tensor_from_scalar(T.scalar_from_tensor(n)), True, True),
            (Shape_i(0)(self.x), n, True, True),
            (Shape_i(0)(self.y), n, False, False),
            (self.x.shape[-1], n, True, True),
        ):
            for wanted, condition in ((always, False), (if_positive, True)):
                with self.subTest(a=theano.pprint(a), b=theano.pprint(b), if_positive=condition):
                    self.assertEqual(Lengths().never_less(a, b, condition), wanted)


if __name__ == "__main__":
    unittest.main()
