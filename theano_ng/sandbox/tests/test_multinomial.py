"""Tests of the draw of categories from probabilities and uniform numbers."""

import unittest

import numpy as np
from scipy import stats

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.sandbox.multinomial import ChoiceFromUniform, MultinomialFromUniform, MultinomialWOReplacementFromUniform

MODES = [Mode(linker="py", optimizer="fast_compile"), Mode(linker="cvm", optimizer="fast_run")]
PVALS = np.array([[0.98, 0.01, 0.01], [0.01, 0.49, 0.50]])


def apply(op, mode, pvals, unis, n=1):
    pvals, unis = np.asarray(pvals), np.asarray(unis)
    p, u = T.TensorType(pvals.dtype, [False] * 2)(), T.TensorType(unis.dtype, [False])()
    return theano.function([p, u], op(p, u, n), mode=mode)(pvals, unis)


def counted(pvals, unis, n):
    """Return how often n draws choose each category, computed with loops from the definition."""
    counts = np.zeros(pvals.shape, "int64")
    for row in range(len(pvals)):
        for k in range(n):
            total = pvals.dtype.type(0)
            for m, p in enumerate(pvals[row]):
                total = total + p
                if total > unis[k * len(pvals) + row]:
                    counts[row, m] += 1
                    break
    return counts


class TestMultinomial(unittest.TestCase):
    def test_known(self):
        """Results equal those of Theano 1.0.5.

        If no cumulative sum exceeds the uniform number, no category is counted, as documented.
        """
        op = MultinomialFromUniform("int64")
        for mode in MODES:
            for pvals, unis, n, wanted in (
                (PVALS, [0.5, 0.99], 1, [[1, 0, 0], [0, 0, 1]]),
                (PVALS, [0.5, 0.99, 0.995, 0.4], 2, [[1, 0, 1], [0, 1, 1]]),
                ([[-0.2, 0.2]], [0.5], 1, [[0, 0]]),
                ([[0.3, 0.3], [0.5, 0.5]], [0.99, 0.5], 1, [[0, 0], [0, 1]]),
                ([[np.nan, 0.3]], [0.1], 1, [[0, 0]]),
                (np.zeros((2, 0)), [0.99, 0.5], 1, np.zeros((2, 0))),
                (np.zeros((0, 3)), [], 1, np.zeros((0, 3))),
                (PVALS, [], 0, [[0, 0, 0], [0, 0, 0]]),
            ):
                np.testing.assert_array_equal(apply(op, mode, pvals, np.array(unis, "float64"), n), wanted)

    def test_definition(self):
        rng = np.random.RandomState(1)
        for dtype in ("float32", "float64"):
            for other in ("float16", "float32", "float64"):
                for rows, columns, n in ((1, 1, 1), (5, 3, 1), (4, 17, 6), (3, 100, 2)):
                    pvals = rng.dirichlet(np.ones(columns), rows).astype(dtype)
                    unis = rng.uniform(size=rows * n).astype(other)
                    for mode in MODES:
                        for odtype in ("int64", "float32", "uint8", "auto"):
                            found = apply(MultinomialFromUniform(odtype), mode, pvals, unis, n)
                            self.assertEqual(found.dtype, dtype if odtype == "auto" else odtype)
                            np.testing.assert_array_equal(found, counted(pvals, unis, n))

    def test_strides(self):
        rng = np.random.RandomState(2)
        pvals, unis = rng.dirichlet(np.ones(4), 6), rng.uniform(size=12)
        wanted = counted(pvals, unis, 2)
        for mode in MODES:
            for odd in (np.asfortranarray(pvals), np.repeat(pvals, 2, 1)[:, ::2]):
                np.testing.assert_array_equal(apply(MultinomialFromUniform("int64"), mode, odd, unis, 2), wanted)
            np.testing.assert_array_equal(
                apply(MultinomialFromUniform("int64"), mode, pvals, np.repeat(unis, 3)[::3], 2), wanted
            )

    def test_half_precision(self):
        rng = np.random.RandomState(3)
        pvals, unis = rng.dirichlet(np.ones(30), 50).astype("float16"), rng.uniform(size=100).astype("float16")
        wanted = counted(pvals.astype("float32"), unis, 2)
        for mode in MODES:
            np.testing.assert_array_equal(apply(MultinomialFromUniform("int64"), mode, pvals, unis, 2), wanted)

    def test_refused(self):
        op, wrong = (
            MultinomialFromUniform("int64"),
            "unis.shape\\[0\\] \\(3\\) != pvals.shape\\[0\\] \\(2\\) \\* n_samples \\(%d\\)",
        )
        p, u, n = T.dmatrix(), T.dvector(), T.lscalar()
        for mode in MODES:
            f = theano.function([p, u, n], op(p, u, T.scalar_from_tensor(n)), mode=mode)
            for k in (1, 2):
                with self.assertRaisesRegex(ValueError, wrong % k):
                    f(PVALS, [0.5, 0.9, 0.3], k)
            with self.assertRaisesRegex(ValueError, "must not be negative"):
                f(PVALS, [], -1)
            with self.assertRaises(ValueError):
                f(PVALS, [0.5], 2**62)
        for call, error in (
            (lambda: op(T.dvector(), u), NotImplementedError),
            (lambda: op(p, p), NotImplementedError),
            (lambda: op(T.zmatrix(), u), TypeError),
            (lambda: op(p, T.lvector()), TypeError),
            (lambda: op(p, u, T.scalar_from_tensor(T.dscalar())), TypeError),
        ):
            with self.assertRaises(error):
                call()

    def test_derivative(self):
        p, u = T.dmatrix(), T.dvector()
        for op in (MultinomialFromUniform("float64"), ChoiceFromUniform("float64")):
            gradients = theano.function(
                [p, u], T.grad((op(p, u) * 2.0).sum(), [p, u]), mode=MODES[0], on_unused_input="ignore"
            )
            for gradient, x in zip(gradients(PVALS, [0.5, 0.5]), (PVALS, [0, 0])):
                np.testing.assert_array_equal(gradient, np.zeros_like(x))

    def test_names(self):
        self.assertEqual(str(MultinomialFromUniform("int64")), "MultinomialFromUniform{int64}")
        self.assertEqual(str(ChoiceFromUniform("int64")), "ChoiceFromUniform{odtype='int64', replace=False}")
        self.assertEqual(
            str(MultinomialWOReplacementFromUniform("int64")),
            "MultinomialWOReplacementFromUniform{odtype='int64', replace=False}",
        )
        self.assertEqual(ChoiceFromUniform("auto")(T.dmatrix(), T.dvector(), 2).dtype, "int64")
        self.assertEqual(ChoiceFromUniform("int64"), ChoiceFromUniform("int64", replace=False))
        self.assertNotEqual(ChoiceFromUniform("int64"), ChoiceFromUniform("int64", replace=True))


class TestChoice(unittest.TestCase):
    def test_known(self):
        for mode in MODES:
            for replace, pvals, unis, n, wanted in (
                (False, PVALS, [0.5, 0.99, 0.3, 0.2], 2, [[0, 1], [2, 1]]),
                (False, PVALS, [0.5, 0.99, 0.3, 0.2, 0.7, 0.1], 3, [[0, 1, 2], [2, 1, 0]]),
                (True, PVALS, [0.5, 0.99, 0.3, 0.2], 2, [[0, 0], [2, 1]]),
                (False, [[0.3, 0.3], [0, 1]], [0.99, 0.5, 0.6, 0.7], 2, [[-1, -1], [1, -1]]),
                (False, [[0.3, 0.3]], [0.99], 1, [[-1]]),
                (False, PVALS, [], 0, np.zeros((2, 0))),
                (True, np.zeros((2, 0)), [0.1, 0.2], 1, [[-1], [-1]]),
            ):
                found = apply(ChoiceFromUniform("int64", replace=replace), mode, pvals, np.array(unis, "float64"), n)
                np.testing.assert_array_equal(found, wanted)

    def test_implementations(self):
        """The Python code and the C code choose the same categories.

        Both implementations divide the remaining probabilities by equal sums.
        """
        rng = np.random.RandomState(4)
        for dtype in ("float16", "float32", "float64"):
            pvals, unis = rng.dirichlet(np.ones(40), 30).astype(dtype), rng.uniform(size=30 * 35)
            op = ChoiceFromUniform("int32")
            found = [apply(op, mode, pvals, unis, 35) for mode in MODES]
            np.testing.assert_array_equal(*found)
            for row in found[0]:
                chosen = row[row >= 0]
                self.assertEqual(len(set(chosen)), len(chosen))

    def test_distribution(self):
        """If two of three categories are drawn, each ordered pair has the probability p_i p_j / (1 - p_i)."""
        p = np.array([0.2, 0.3, 0.5])
        rng = np.random.RandomState(5)
        sample = apply(ChoiceFromUniform("int64"), MODES[1], np.tile(p, (20000, 1)), rng.uniform(size=40000), 2)
        pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
        counts = [((sample == pair).all(1)).sum() for pair in pairs]
        self.assertGreater(stats.chisquare(counts, [20000 * p[i] * p[j] / (1 - p[i]) for i, j in pairs]).pvalue, 1e-3)

    def test_refused(self):
        for mode in MODES:
            with self.assertRaisesRegex(ValueError, "Cannot sample without replacement"):
                apply(ChoiceFromUniform("int64"), mode, PVALS, np.full(8, 0.5), 4)
            with self.assertRaisesRegex(ValueError, "n_samples \\(2\\)"):
                apply(ChoiceFromUniform("int64"), mode, PVALS, np.full(5, 0.5), 2)
