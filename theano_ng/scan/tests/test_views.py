import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T

MODE = theano.Mode(linker="vm", optimizer="fast_compile")
X = np.arange(12.0).reshape(4, 3)
x = T.dmatrix("x")
h0 = T.dvector("h0")


def run(outputs, updates=None):
    return theano.function([x, h0], outputs, updates=updates, mode=MODE, on_unused_input="ignore")(X, X[1])


class TestViews(unittest.TestCase):
    def test_map(self):
        for backwards, rows in ((False, X), (True, X[::-1])):
            found, updates = theano.map(
                lambda row, w: row * w, x, h0, go_backwards=backwards, truncate_gradient=2, name="m"
            )
            np.testing.assert_array_equal(run(found), rows * X[1])
            self.assertEqual(len(updates), 0)
            self.assertEqual((found.owner.op.name, found.owner.op.truncate_gradient), ("m", 2))
        found, _ = theano.map(lambda a, b: [a + b, a - b], [x, x[::-1]])
        np.testing.assert_array_equal(run(found), [X + X[::-1], X - X[::-1]])

    def test_folds(self):
        def step(row, so_far):
            return row + 2 * so_far

        def expected(rows):
            state = X[1]
            for row in rows:
                state = row + 2 * state
            return state

        for found, rows in (
            (theano.reduce(step, x, h0), X),
            (theano.reduce(step, x, h0, go_backwards=True), X[::-1]),
            (theano.foldl(step, x, h0), X),
            (theano.foldr(step, x, h0), X[::-1]),
            (
                theano.foldr(lambda row, s, two: row + two * s, x, [h0], non_sequences=2.0, name="f", mode="FAST_RUN"),
                X[::-1],
            ),
        ):
            np.testing.assert_array_equal(run(found[0]), expected(rows))

    def test_several_and_none(self):
        """`reduce` returns several outputs as a list, and None if the step returns only updates."""
        found, _ = theano.reduce(lambda a, h, k: (a + h, k * a), x, [h0, h0])
        np.testing.assert_array_equal(run(found), [X[1] + X.sum(0), X[1] * X.prod(0)])
        count = theano.shared(0.0)
        found, updates = theano.reduce(lambda row: {count: count + row.sum()}, x, None)
        self.assertIsNone(found)
        run([], updates)
        self.assertEqual(count.get_value(), X.sum())


if __name__ == "__main__":
    unittest.main()
