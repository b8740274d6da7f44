"""The parts of gradients of cross-entropies: the expressions that the rules match, and the ones that they leave alone."""

import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.optdb import Query
from theano_ng.tensor import nnet
from theano_ng.tensor.nnet.nnet import (
    CrossentropySoftmax1HotWithBiasDx,
    CrossentropySoftmaxArgmax1HotWithBias,
    SoftmaxGrad,
)
from theano_ng.tensor.nnet.opt_crossentropy import _is_length_of
from theano_ng.tensor.nnet.tests.nodes import softmax


def ops_of(f):
    return [type(node.op) for node in f.maker.fgraph.apply_nodes]


class RaisingCase(unittest.TestCase):
    """A test case that fails if a rewriting rule raises."""

    def setUp(self):
        self.policy = theano.config.on_opt_error
        theano.config.on_opt_error = "raise"

    def tearDown(self):
        theano.config.on_opt_error = self.policy


class TestArgmax(RaisingCase):
    def test_no_increasing_function_is_computed(self):
        functions = [T.exp, T.exp2, T.expm1, T.log, T.log2, T.log10, T.log1p, T.sqrt, T.erf, T.erfinv, T.deg2rad]
        functions += [T.rad2deg, T.sinh, T.tanh, T.arcsin, T.arctan, T.arcsinh, T.arctanh]
        functions += [nnet.sigmoid, nnet.softplus, nnet.softsign]
        x = T.dmatrix("x")
        value = np.array([[0.25, 0.5, 0.125], [0.75, 0.5, 0.0625]])
        for function, shift in [*((function, 0) for function in functions), (T.arccosh, 1)]:
            with self.subTest(function=function):
                f = theano.function([x], T.argmax(function(x), axis=1), mode=Mode("py", "fast_run"))
                self.assertNotIn(function, [node.op for node in f.maker.fgraph.apply_nodes])
                self.assertEqual(f(value + shift).tolist(), [1, 0])


class TestBiases(RaisingCase):
    def test_sums_of_matrices_and_rows(self):
        """The cross-entropy of a softmax of a sum becomes one Op, for any number of terms.

        The terms are matrices, vectors and rows.
        """
        rng = np.random.RandomState(6)
        labels, y = T.lvector("labels"), np.array([3, 0, 2])
        at = np.arange(3), y
        for n_matrices, n_vectors, n_rows in itertools.product(range(4), range(3), range(3)):
            symbols = [T.dmatrix() for _ in range(n_matrices)]
            symbols += [T.dvector() for _ in range(n_vectors)] + [T.drow() for _ in range(n_rows)]
            if not n_matrices + n_rows:
                continue
            shapes = [(3, 4)] * n_matrices + [(4,)] * n_vectors + [(1, 4)] * n_rows
            values = [rng.randn(*shape) for shape in shapes]
            terms = [v.dimshuffle("x", 0) if v.ndim == 1 else v for v in symbols]
            total, rows = sum(values), 3 if n_matrices else 1
            for optimizer in ("fast_run", Query(["xent"])):
                nll = nnet.categorical_crossentropy(nnet.softmax(T.add(*terms)), labels)
                f = theano.function([*symbols, labels], nll, mode=Mode("py", optimizer))
                with self.subTest(matrices=n_matrices, vectors=n_vectors, rows=n_rows):
                    expected = -np.log(softmax(total))[at[0][:rows], y[:rows]]
                    np.testing.assert_allclose(f(*values, y[:rows]), expected)
                    self.assertIn(CrossentropySoftmaxArgmax1HotWithBias, ops_of(f))


class TestRowsOfLabels(RaisingCase):
    def test_lengths_through_conversions(self):
        """`_is_length_of` recognizes the length of the labels after any number of conversions, and no other length."""
        labels, others = T.lvector("labels"), T.lvector("others")

        def forms(v):
            length = v.shape[0]
            for depth in range(4):
                for dtypes in itertools.product(("int32", "int64"), repeat=depth):
                    converted = length
                    for dtype in dtypes:
                        converted = T.Elemwise(theano.scalar.Cast(theano.scalar.get_scalar_type(dtype)))(converted)
                    yield converted
                    yield T.tensor_from_scalar(T.scalar_from_tensor(converted))

        for own, other in zip(forms(labels), forms(others)):
            self.assertTrue(_is_length_of(own, labels, {}))
            self.assertFalse(_is_length_of(other, labels, {}))
            self.assertFalse(_is_length_of(own + 1, labels, {}))

    def test_rows_counted_in_other_dtypes(self):
        x, labels = T.dmatrix("x"), T.lvector("labels")
        a, y = np.random.RandomState(1).randn(3, 4), np.array([3, 0, 2])
        for dtype in ("int16", "int32", "int64"):
            rows = T.arange(T.cast(labels.shape[0], dtype))
            f = theano.function([x, labels], -T.log(nnet.softmax(x))[rows, labels])
            np.testing.assert_allclose(f(a, y), -np.log(softmax(a))[np.arange(3), y])


class TestGradients(RaisingCase):
    def setUp(self):
        super().setUp()
        rng = np.random.RandomState(2)
        self.a, self.c, self.d = rng.randn(3, 4), rng.rand(3) + 1, rng.rand(3) + 1
        self.labels = np.array([3, 0, 2])

    def gradient(self, increment, y):
        """Return the gradient of a softmax whose value is y."""
        return y * (increment - (increment * y).sum(axis=1, keepdims=True))

    def test_divisors_of_increments(self):
        """The gradient of a cross-entropy is recognized if other vectors also divide the increment.

        The softmax at the labels and the other vectors may divide in any order.
        """
        x, labels, c, d = T.dmatrix("x"), T.lvector("labels"), T.dvector("c"), T.dvector("d")
        sm = nnet.softmax(x)
        rows = T.arange(labels.shape[0])
        picked = sm[rows, labels]
        y, at = softmax(self.a), (np.arange(3), self.labels)
        for k in range(1, 4):
            for divisors in itertools.permutations([(picked, y[at]), (c, self.c), (d, self.d)], k):
                quotient, value = T.cos(c), np.cos(self.c)
                for symbol, number in divisors:
                    quotient, value = quotient / symbol, value / number
                increment = np.zeros((3, 4))
                increment[at] = value
                out = SoftmaxGrad()(T.inc_subtensor(T.zeros_like(x)[rows, labels], quotient), sm)
                f = theano.function([x, labels, c, d], out, on_unused_input="ignore")
                np.testing.assert_allclose(f(self.a, self.labels, self.c, self.d), self.gradient(increment, y))
                if any(symbol is picked for symbol, _ in divisors):
                    self.assertIn(CrossentropySoftmax1HotWithBiasDx, ops_of(f))

    def test_divisors_of_matrices(self):
        """The gradient of a cross-entropy is also recognized if the softmax divides the matrix with the increment.

        Columns and numbers may divide the matrix, too, in any order.
        """
        x, labels, c, d = T.dmatrix("x"), T.lvector("labels"), T.dvector("c"), T.dscalar("d")
        sm = nnet.softmax(x)
        y = softmax(self.a)
        increment = np.zeros((3, 4))
        increment[np.arange(3), self.labels] = np.cos(self.c)
        for k in range(1, 4):
            for divisors in itertools.permutations(
                [(sm, y), (c.dimshuffle(0, "x"), self.c[:, np.newaxis]), (d, 3.5)], k
            ):
                quotient = T.inc_subtensor(T.zeros_like(x)[T.arange(labels.shape[0]), labels], T.cos(c))
                value = increment
                for symbol, number in divisors:
                    quotient, value = quotient / symbol, value / number
                f = theano.function([x, labels, c, d], SoftmaxGrad()(quotient, sm), on_unused_input="ignore")
                np.testing.assert_allclose(f(self.a, self.labels, self.c, 3.5), self.gradient(value, y))
                if any(symbol is sm for symbol, _ in divisors):
                    self.assertIn(CrossentropySoftmax1HotWithBiasDx, ops_of(f))

    def test_other_indices(self):
        """Gradients of selected elements of a softmax have NumPy's values.

        The elements are selected by one index, by a mask, or by slices together with index arrays.
        """
        x, i, v = T.dmatrix("x"), T.lmatrix("i"), T.lvector("v")
        a, index, vector = self.a, np.array([[0, 2], [2, 2]]), np.array([2, 0, 2])
        y = softmax(a)
        mask = T.gt(x, 0)
        for picked, at in (
            (lambda sm: sm[i], (index,)),
            (lambda sm: sm[mask], (a > 0,)),
            (lambda sm: sm[:, i], (slice(None), index)),
            (lambda sm: sm[i, i], (index, index)),
            (lambda sm: sm[i, None, i], (index, None, index)),
            (lambda sm: sm[None, :, i], (None, slice(None), index)),
            (lambda sm: sm[v, 1:], (vector, slice(1, None))),
            (lambda sm: sm[v, None], (vector, None)),
            (lambda sm: sm[1:, v], (slice(1, None), vector)),
        ):
            increment = np.zeros((3, 4))
            np.add.at(increment, at, 2.0)
            out = T.grad(2 * picked(nnet.softmax(x)).sum(), x)
            f = theano.function([x, i, v], out, on_unused_input="ignore")
            np.testing.assert_allclose(f(a, index, vector), self.gradient(increment, y), atol=1e-15)

    def test_factors_that_are_no_softmax(self):
        """No gradient of a cross-entropy is recognized if the factor of the sums of rows is not a softmax.

        The factor is a matrix of any dtype.
        """
        x, labels, v = T.dmatrix("x"), T.lvector("labels"), T.dvector("v")
        increment = T.inc_subtensor(T.zeros((3, 4))[T.arange(labels.shape[0]), labels], v)
        wanted = np.zeros((3, 4))
        wanted[np.arange(3), self.labels] = self.c
        total = increment.sum(axis=1, keepdims=True)
        for dtype in ("int8", "int32", "float32", "float64"):
            f = theano.function([x, labels, v], increment - T.cast(T.ceil(3 * x), dtype) * total)
            expected = wanted - np.ceil(3 * self.a) * self.c[:, None]
            np.testing.assert_allclose(f(self.a, self.labels, self.c), expected, rtol=1e-6)
            self.assertNotIn(CrossentropySoftmax1HotWithBiasDx, ops_of(f))


class TestQuotients(RaisingCase):
    def test_quotients_by_sums_of_rows(self):
        """Quotients by sums of rows have NumPy's values: rules replace only a quotient of exp(x) by a softmax."""
        x = T.dmatrix("x")
        a = np.random.RandomState(4).rand(3, 4) + 0.5
        for function, number in (
            (T.exp, np.exp),
            (T.sqr, np.square),
            (T.sqrt, np.sqrt),
            (T.log1p, np.log1p),
            (T.exp2, np.exp2),
            (lambda v: v, lambda v: v),
            (lambda v: v + 1, lambda v: v + 1),
        ):
            above, value = function(x), number(a)
            for factor in (1, 3):
                f = theano.function([x], factor * above / above.sum(axis=1).dimshuffle(0, "x"))
                np.testing.assert_allclose(f(a), factor * value / value.sum(axis=1, keepdims=True))


if __name__ == "__main__":
    unittest.main()
