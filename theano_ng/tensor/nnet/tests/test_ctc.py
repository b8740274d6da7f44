"""Connectionist temporal classification, compared with an enumeration of all alignments and with finite differences."""

import itertools
import pickle
import unittest

import numpy as np
import scipy.special

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.differentiate import Rop, grad
from theano_ng.gof.null_type import NullType
from theano_ng.tensor.nnet.ctc import ConnectionistTemporalClassification, ctc, ctc_available, ctc_present
from theano_ng.tensor.nnet.tests.nodes import both, layouts
from theano_ng.tests import unittest_tools as utt

UNREWRITTEN = Mode(linker="py", optimizer=None)


def collapsed(path):
    """Return the labels of an alignment: repeated symbols are merged, then blanks are removed."""
    return [s for s, _ in itertools.groupby(path) if s]


def brute_force(activations, labels):
    """Return minus the logarithm of the total probability of all alignments of one example."""
    p = scipy.special.softmax(activations.astype("float64"), axis=1)
    steps, symbols = p.shape
    total = sum(
        np.prod([p[t, s] for t, s in enumerate(path)])
        for path in itertools.product(range(symbols), repeat=steps)
        if collapsed(path) == list(labels)
    )
    return -np.log(total) if total else np.inf


class TestValues(unittest.TestCase):
    def test_all_alignments(self):
        rng = np.random.RandomState(1)
        tol = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-12}
        labels = [[], [1], [2], [1, 1], [1, 2], [2, 1, 2], [1, 1, 1], [2, 2, 1], [1, 2, 1, 2, 1, 2]]
        for dtype in ("float16", "float32", "float64"):
            for steps, symbols in ((5, 3), (1, 3), (4, 4), (6, 3)):
                activations = (rng.randn(steps, len(labels), symbols) * 3).astype(dtype)
                padded = np.full((len(labels), 7), -1, "int32")
                for i, l in enumerate(labels):
                    padded[i, : len(l)] = l
                lengths = np.array([steps - i % 2 for i in range(len(labels))], "int32")
                want = [brute_force(activations[:n, i], l) for i, (l, n) in enumerate(zip(labels, lengths))]
                for op in (
                    ConnectionistTemporalClassification(),
                    ConnectionistTemporalClassification(compute_grad=False),
                ):
                    results = both(op, activations, padded, lengths)
                    self.assertEqual(len(results), 1 if dtype == "float16" else 2)
                    for costs, *gradients in results:
                        self.assertEqual((costs.dtype, costs.shape), (dtype, (len(labels),)))
                        np.testing.assert_allclose(costs.astype("float64"), want, rtol=tol[dtype], atol=tol[dtype])
                        for g in gradients:
                            self.assertEqual((g.dtype, g.shape), (dtype, activations.shape))
                            # The gradient is a difference of two distributions, so its rows sum to 0. It is 0 after the
                            # last step of an example, and in examples that have no alignment.
                            np.testing.assert_allclose(g.astype("float64").sum(axis=2), 0, atol=10 * tol[dtype])
                            for i, n in enumerate(lengths):
                                self.assertFalse(g[n:, i].any())
                                self.assertEqual(np.isinf(want[i]) or n == 0, not g[:n, i].any())
                for a, b in zip(*(results * 2)[:2]):
                    np.testing.assert_allclose(a, b, rtol=tol[dtype], atol=tol[dtype])

    def test_gradient_by_differences(self):
        rng = np.random.RandomState(2)
        activations = rng.randn(5, 3, 4)
        labels = np.array([[1, 1, -1], [-1, 2, 3], [-1, -1, -1]])
        lengths = np.array([5, 4, 3])
        for _, gradients in both(ConnectionistTemporalClassification(), activations, labels, lengths):
            want = np.zeros_like(activations)
            for place in np.ndindex(*activations.shape):
                sides = []
                for sign in (1, -1):
                    moved = activations.copy()
                    moved[place] += sign * 1e-5
                    i = place[1]
                    sides.append(brute_force(moved[: lengths[i], i], [l for l in labels[i] if l > 0]))
                want[place] = (sides[0] - sides[1]) / 2e-5
            np.testing.assert_allclose(gradients, want, atol=1e-8)

    def test_known_numbers(self):
        # The 5 symbols are equally probable. [1, 2] has 5 alignments in 3 steps, and [1] has 3 alignments in 2 steps.
        x = np.zeros((3, 2, 5))
        for costs, _ in both(ConnectionistTemporalClassification(), x, np.array([[1, 2], [3, -1]]), np.array([3, 2])):
            utt.assert_allclose(costs, [-np.log(5 / 125), -np.log(3 / 25)])

    def test_long_and_extreme(self):
        # Probabilities are far below the smallest float64. Native code and NumPy agree, and an alignment of probability
        # 1 costs 0.
        rng = np.random.RandomState(3)
        x = rng.randn(400, 2, 30) * 20
        labels = rng.randint(1, 30, size=(2, 60))
        a, b = both(ConnectionistTemporalClassification(), x, labels, np.array([400, 300]))
        for left, right in zip(a, b):
            np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)
        self.assertTrue((a[0] > 1000).all())
        sure = np.full((3, 1, 4), -1e4)
        sure[[0, 1, 2], 0, [1, 0, 2]] = 1e4
        for costs, gradients in both(ConnectionistTemporalClassification(), sure, np.array([[1, 2]]), np.array([3])):
            np.testing.assert_array_equal(costs, [0])
            np.testing.assert_array_equal(gradients, np.zeros((3, 1, 4)))
        impossible = np.zeros((2, 1, 3))
        impossible[:, 0, 1] = -np.inf
        for costs, gradients in both(ConnectionistTemporalClassification(), impossible, np.array([[1]]), np.array([2])):
            np.testing.assert_array_equal(costs, [np.inf])
            np.testing.assert_array_equal(gradients, np.zeros((2, 1, 3)))
        for costs, gradients in both(
            ConnectionistTemporalClassification(), np.full((2, 1, 3), np.nan), np.array([[1]]), np.array([2])
        ):
            self.assertTrue(np.isnan(costs).all() and np.isnan(gradients).all())

    def test_nothing(self):
        op = ConnectionistTemporalClassification()
        for costs, gradients in both(op, np.zeros((4, 0, 3)), np.zeros((0, 2), int), np.zeros(0, int)):
            self.assertEqual((costs.shape, gradients.shape), ((0,), (4, 0, 3)))
        for costs, _ in both(op, np.zeros((0, 2, 3)), np.array([[1], [-1]]), np.array([0, 0])):
            np.testing.assert_array_equal(costs, [np.inf, 0])
        for costs, _ in both(op, np.zeros((2, 1, 3)), np.zeros((1, 0), int), np.array([2])):
            utt.assert_allclose(costs, [2 * np.log(3)])

    def test_layouts_of_memory(self):
        rng = np.random.RandomState(4)
        values = [rng.randn(4, 2, 3), np.array([[1, -1, 2], [2, 2, -5]], "int8"), np.array([4, 3], "uint8")]
        want = both(ConnectionistTemporalClassification(), *values)[0]
        for k in range(3):
            for form in layouts(values[k]):
                for got in both(ConnectionistTemporalClassification(), *values[:k], form, *values[k + 1 :]):
                    for a, b in zip(got, want):
                        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)

    def test_threads(self):
        rng = np.random.RandomState(5)
        values = [rng.randn(20, 16, 6), rng.randint(1, 6, size=(16, 5)), np.full(16, 20)]
        alone, together = (
            both(ConnectionistTemporalClassification(openmp=openmp), *values)[1] for openmp in (False, True)
        )
        for a, b in zip(alone, together):
            np.testing.assert_array_equal(a, b)

    def test_wrong_values(self):
        x, labels, lengths = np.zeros((4, 2, 3)), np.array([[1], [2]]), np.array([4, 4])
        names = [T.dtensor3(), T.lmatrix(), T.lvector()]
        for mode in (None, UNREWRITTEN):
            f = theano.function(names, ctc(*names), mode=mode)
            for values, message in (
                ((x, labels[:1], lengths), "2 in activations, 1 in labels, 2 in input_lengths"),
                ((x, labels, lengths[:1]), "1 in input_lengths"),
                ((x, labels, lengths + 1), r"input_lengths\[0\] is 5, but there are activations for 4 time steps"),
                ((x, labels, -lengths), r"input_lengths\[0\] is -4"),
                ((x, labels + 1, lengths), r"labels\[1, 0\] is 3, but labels must be from 1 to 2: 0 is the blank"),
                ((x, labels - 1, lengths), r"labels\[0, 0\] is 0"),
                ((x[:, :, :0], labels, lengths), "activations have no symbols"),
            ):
                with self.assertRaisesRegex(ValueError, message):
                    f(*values)

    def test_wrong_types(self):
        x, labels, lengths = T.tensor3(), T.imatrix(), T.ivector()
        for arguments, error, message in (
            ((T.matrix(), labels, lengths), ValueError, "activations must have 3 dimensions"),
            ((x, T.ivector(), lengths), ValueError, "labels must have 2 dimensions"),
            ((x, labels, T.iscalar()), ValueError, "input_lengths must have 1 dimensions"),
            ((T.itensor3(), labels, lengths), TypeError, "activations must be floats"),
            ((x, T.matrix(), lengths), TypeError, "labels must be integers"),
            ((x, labels, T.vector()), TypeError, "input_lengths must be integers"),
        ):
            with self.assertRaisesRegex(error, message):
                ctc(*arguments)


class TestGraphs(unittest.TestCase):
    def setUp(self):
        self.names = [T.dtensor3(), T.imatrix(), T.ivector()]
        rng = np.random.RandomState(6)
        self.values = [rng.randn(4, 3, 3), np.array([[1, 2], [1, -1], [2, 2]], "int32"), np.array([4, 3, 4], "int32")]

    def test_derivatives(self):
        utt.verify_grad(
            lambda x: ctc(x, *self.values[1:]) ** 2, [self.values[0]], rng=np.random.RandomState(7), mode=UNREWRITTEN
        )
        op = ConnectionistTemporalClassification(compute_grad=False)
        utt.verify_grad(
            lambda x: op(x, *self.values[1:]), [self.values[0]], rng=np.random.RandomState(7), mode=UNREWRITTEN
        )
        x = self.names[0]
        v, w = np.random.RandomState(8).randn(4, 3, 3), np.random.RandomState(9).randn(3)
        cost = ctc(*self.names)
        forward = (Rop(cost, x, T.constant(v)) * w).sum()
        backward = (grad((cost * w).sum(), x) * v).sum()
        left, right = theano.function(self.names, [forward, backward])(*self.values)
        utt.assert_allclose(left, right)
        # The Op has no second derivative. `grad` returns a variable of NullType instead of a wrong value.
        self.assertIsInstance(grad(grad(cost.sum(), x).sum(), x, null_gradients="return").type, NullType)

    def test_gradients_only_where_wanted(self):
        cost = ctc(*self.names)

        def props(outputs, mode):
            f = theano.function(self.names, outputs, mode=mode)
            ops = [n.op for n in f.maker.fgraph.apply_nodes if isinstance(n.op, ConnectionistTemporalClassification)]
            return [op.compute_grad for op in ops], f(*self.values)

        for mode in ("FAST_RUN", "FAST_COMPILE"):
            kinds, alone = props(cost, mode)
            self.assertEqual(kinds, [False])
            kinds, (both_, _) = props([cost, grad(cost.sum(), self.names[0])], mode)
            self.assertEqual(kinds, [True])
            utt.assert_allclose(alone, both_)

    def test_one_example(self):
        x = T.TensorType("float64", (False, True, False))()
        cost = ctc(x, *[v[:1] for v in self.values[1:]])
        self.assertEqual(cost.broadcastable, (True,))
        got = theano.function([x], [cost, grad(cost.sum(), x)])(self.values[0][:, :1])
        utt.assert_allclose(got[0], [brute_force(self.values[0][:, 0], [1, 2])])
        self.assertEqual(got[1].shape, (4, 1, 3))

    def test_shapes(self):
        costs, gradients = ConnectionistTemporalClassification()(*self.names)
        f = theano.function(self.names, [costs.shape, gradients.shape], on_unused_input="ignore")
        self.assertEqual([tuple(s) for s in f(*self.values)], [(3,), (4, 3, 3)])
        self.assertFalse(any(isinstance(n.op, ConnectionistTemporalClassification) for n in f.maker.fgraph.apply_nodes))

    def test_names(self):
        self.assertTrue(ctc_available() and ctc_present())
        op = ConnectionistTemporalClassification()
        self.assertEqual(str(op), "ConnectionistTemporalClassification{compute_grad=True}")
        self.assertEqual(pickle.loads(pickle.dumps(op)), op)


if __name__ == "__main__":
    unittest.main()
