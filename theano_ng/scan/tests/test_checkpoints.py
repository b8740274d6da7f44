import tracemalloc
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scan_checkpoints
from theano_ng.scan_module import until

MODE = theano.Mode(linker="vm", optimizer="fast_compile")
X = np.arange(15.0).reshape(5, 3)
x = T.dmatrix("x")
h0, v = T.dvectors("h0", "v")
n = T.iscalar("n")


def run(outputs, givens, updates=None):
    return theano.function(list(givens), outputs, updates=updates, mode=MODE, on_unused_input="ignore")(
        *givens.values()
    )


def step(a, h):
    return a + 2 * h


def kept(rows, every):
    """Return every `every`-th row, and the last row."""
    return [row for i, row in enumerate(rows, 1) if i % every == 0 or i == len(rows)]


class TestCheckpoints(unittest.TestCase):
    def test_sequences(self):
        states = [X[0]]
        for a in X:
            states.append(step(a, states[-1]))
        for every in (1, 2, 3, 5, 7):
            for options in ({}, {"n_steps": 5}, {"n_steps": n}, {"padding": 5 % every != 0}):
                found, updates = scan_checkpoints(step, x, h0, save_every_N=every, **options)
                np.testing.assert_array_equal(run(found, {x: X, h0: X[0], n: 5}), kept(states[1:], every))
                self.assertEqual(len(updates), 0)

    def test_no_sequences(self):
        for steps in (7, n):
            found, _ = scan_checkpoints(
                lambda h, a: h * a, outputs_info=T.ones_like(v), non_sequences=v, n_steps=steps, save_every_N=3
            )
            powers = [np.arange(1.0, 4) ** k for k in range(1, 8)]
            np.testing.assert_array_equal(run(found, {v: [1, 2, 3], n: 7}), kept(powers, 3))

    def test_several_outputs_and_updates(self):
        count = theano.shared(0.0)
        (total, double), updates = scan_checkpoints(
            lambda a, b, h, w: ([a + h + b, a * 2 + w], {count: count + 1}),
            [x, v],
            [dict(initial=h0), None],
            [h0],
            save_every_N=2,
        )
        found = run([total, double], {x: X, v: X[:, 0], h0: X[0]}, updates)
        np.testing.assert_array_equal(found[0], kept(X[0] + np.cumsum(X + X[:, :1], 0), 2))
        np.testing.assert_array_equal(found[1], kept(X * 2 + X[0], 2))
        self.assertEqual(count.get_value(), 5)
        mapped, _ = scan_checkpoints(lambda a: a * 2, x, save_every_N=2)
        np.testing.assert_array_equal(run(mapped, {x: X}), kept(X * 2, 2))

    def test_gradient(self):
        w = T.dmatrix("w")
        values = {x: X / 10, h0: X[0], w: np.random.RandomState(0).randn(3, 3)}

        def gradients(outputs):
            return run(theano.grad((outputs[-1] ** 2).sum(), [x, h0, w]), values)

        def tanh(a, h):
            return T.tanh(a + T.dot(h, w))

        expected = gradients(theano.scan(tanh, x, h0)[0])
        for every in (1, 2, 3, 5):
            for found, wanted in zip(gradients(scan_checkpoints(tanh, x, h0, save_every_N=every)[0]), expected):
                np.testing.assert_allclose(found, wanted)

    def test_loops_of_other_lengths(self):
        """Gradients are correct if an inner loop has a different number of steps in each step of the outer loop."""
        w, lengths = T.dmatrix("w"), T.ivector("lengths")

        def block(length, h):
            return theano.scan(lambda k, w: T.tanh(T.dot(k, w)), outputs_info=h, non_sequences=w, n_steps=length)[0][-1]

        values = {lengths: [2, 3, 1], h0: X[0] / 10, w: np.random.RandomState(0).randn(3, 3), n: 6}
        nested, _ = theano.scan(block, lengths, h0)
        plain, _ = theano.scan(lambda k, w: T.tanh(T.dot(k, w)), outputs_info=h0, non_sequences=w, n_steps=n)
        found, expected = (run(theano.grad(r[-1].sum(), [h0, w]), values) for r in (nested, plain))
        for one, other in zip(found, expected):
            np.testing.assert_allclose(one, other)

    def test_memory(self):
        """With blocks of sqrt(n) steps, the gradient holds the rows of two blocks in memory instead of all n rows."""
        peaks = []
        for loop, options in ((theano.scan, {}), (scan_checkpoints, {"save_every_N": 30})):
            outputs, _ = loop(lambda h, v: T.tanh(h * v), outputs_info=h0, non_sequences=v, n_steps=900, **options)
            # Measure the memory of the steps without the copies that a checking mode keeps.
            with theano.configparser.change_flags(mode="FAST_RUN"):
                f = theano.function([h0, v], theano.grad(outputs[-1].sum(), [h0, v]), mode=MODE)
            arguments = np.linspace(0.5, 1, 1000), np.linspace(1, 1.5, 1000)
            tracemalloc.start()
            f(*arguments)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        self.assertLess(peaks[1], peaks[0] / 8)

    def test_errors(self):
        for arguments, error, text in (
            (dict(sequences=dict(input=x, taps=[0, 1])), RuntimeError, "scan_checkpoints doesn't work with taps"),
            (dict(sequences=x, outputs_info=dict(initial=x, taps=[-2])), RuntimeError, "doesn't work with taps"),
            (dict(outputs_info=h0), ValueError, "without sequences, n_steps must be given"),
            (dict(sequences=x, save_every_N=0), ValueError, "a block must have at least one step"),
            (dict(sequences=T.dscalar()), ValueError, "Sequence 0, .* is a scalar"),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                scan_checkpoints(lambda *a: a[0], **arguments)
        with self.assertRaisesRegex(ValueError, "the step returns a condition"):
            scan_checkpoints(lambda a: (a, until(a.sum() > 1)), x)
        found, _ = scan_checkpoints(lambda a, b: a + b, [x, v], save_every_N=2)
        for length in (1, 4, 6):
            with self.assertRaisesRegex(ValueError, "all sequences must have the same length"):
                run(found, {x: X, v: np.ones(length)})
        with self.assertRaisesRegex(ValueError, "reshape"):
            run(scan_checkpoints(step, x, h0, save_every_N=2, padding=False)[0], {x: X, h0: X[0]})


if __name__ == "__main__":
    unittest.main()
