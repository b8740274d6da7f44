"""Rewriting rules of softmax and cross-entropies: the Ops that remain, and the values before and after."""

import unittest

import numpy as np
import scipy.special

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.tensor import nnet
from theano_ng.tensor.nnet.nnet import (
    CrossentropySoftmax1HotWithBiasDx,
    CrossentropySoftmaxArgmax1HotWithBias,
    LogSoftmax,
    Softmax,
    SoftmaxGrad,
    SoftmaxWithBias,
    softmax_simplifier,
)
from theano_ng.tensor.nnet.tests.nodes import softmax

FAST_RUN = get_mode("FAST_RUN")
ROWS = (
    LogSoftmax,
    Softmax,
    SoftmaxGrad,
    SoftmaxWithBias,
    CrossentropySoftmaxArgmax1HotWithBias,
    CrossentropySoftmax1HotWithBiasDx,
)


def row_ops(f):
    """Return the sorted class names of a function's Ops on rows."""
    return sorted(type(n.op).__name__ for n in f.maker.fgraph.toposort() if isinstance(n.op, ROWS))


class RuleCase(unittest.TestCase):
    def setUp(self):
        self.policy = theano.config.on_opt_error
        theano.config.on_opt_error = "raise"
        rng = np.random.RandomState(1)
        self.x, self.b, self.y = T.matrix("x"), T.vector("b"), T.lvector("y")
        self.inputs = [self.x, self.b, self.y]
        self.values = [rng.randn(5, 4), rng.randn(4), np.array([3, 0, 2, 2, 1])]

    def tearDown(self):
        theano.config.on_opt_error = self.policy

    def check(self, out, ops, mode=FAST_RUN):
        """Compile `out`, compare the names of its row Ops, and compare its values with those of the unrewritten graph."""
        f = theano.function(self.inputs, out, mode=mode, on_unused_input="ignore")
        plain = theano.function(self.inputs, out, mode=theano.Mode("py", None), on_unused_input="ignore")
        self.assertEqual(row_ops(f), ops)
        np.testing.assert_allclose(f(*self.values), plain(*self.values), rtol=1e-10, atol=1e-12)
        return f


class TestSoftmax(RuleCase):
    def test_gradient_of_a_logarithm_from_integers(self):
        """The rule for SoftmaxGrad sums integer gradients in the float dtype of the result.

        Sums of uint64 gradients would wrap around.
        """
        grads = T.matrix("grads", dtype="uint64")
        sm = nnet.softmax(self.x)
        out = SoftmaxGrad()(grads / sm, sm)
        f = theano.function([self.x, grads], out)
        given, value = np.full((2, 3), 2**63, "uint64"), np.log([[1.0, 2, 5], [3, 3, 2]])
        self.assertNotIn("SoftmaxGrad", row_ops(f))
        wanted = 2.0**63 - 3 * 2.0**63 * scipy.special.softmax(value, axis=1)
        np.testing.assert_allclose(f(value, given), wanted, rtol=1e-10)

    def test_gradient_of_a_logarithm_from_rows_and_columns(self):
        A, grads = T.dmatrix("A"), (T.dmatrix("g"), T.drow("g"), T.dcol("g"))
        a = np.random.RandomState(3).randn(2, 5)
        for g, shape in zip(grads, ((2, 5), (1, 5), (2, 1))):
            sm = nnet.softmax(A)
            f = theano.function([A, g], SoftmaxGrad()(g / sm, sm), mode=FAST_RUN)
            self.assertNotIn("SoftmaxGrad", row_ops(f))
            given = np.broadcast_to(np.random.RandomState(4).randn(*shape), a.shape)
            expected = given - given.sum(axis=1, keepdims=True) * softmax(a)
            np.testing.assert_allclose(f(a, given[: shape[0], : shape[1]]), expected)

    def test_exp_over_sum_is_softmax(self):
        e = T.exp(self.x)
        for out in (e / e.sum(axis=1, keepdims=True), e / e.sum(axis=1).dimshuffle(0, "x"), nnet.softmax_graph(self.x)):
            self.check(out, ["Softmax"])
        self.check(2 * e / e.sum(axis=1, keepdims=True), ["Softmax"])
        # quotients by other sums are not a softmax
        for out in (
            e / e.sum(axis=0),
            e / e.sum(),
            e / e.sum(axis=0, keepdims=True),
            e / T.exp(2 * self.x).sum(axis=1, keepdims=True),
        ):
            self.check(out, [])
        # the recognized softmax does not overflow
        f = theano.function([self.x], e / e.sum(axis=1, keepdims=True), mode=FAST_RUN)
        np.testing.assert_array_equal(f([[1e4, 0], [-1e4, -1e4]]), [[1, 0], [0.5, 0.5]])

    def test_gradient_of_exp_over_sum(self):
        e = T.exp(self.x)
        g = T.grad((e / e.sum(axis=1, keepdims=True) * self.b).sum(), self.x)
        value = theano.function(self.inputs, g, mode=FAST_RUN, on_unused_input="ignore")(*self.values)
        sm = softmax(self.values[0])
        b = self.values[1]
        np.testing.assert_allclose(value, sm * (b - (sm * b).sum(1, keepdims=True)))

    def test_simplifier_by_lists(self):
        e = T.exp(self.x)
        total = e.sum(axis=1).dimshuffle(0, "x")
        num, denum = softmax_simplifier([self.x, e], [self.b, total])
        self.assertIs(num[0], self.x)
        self.assertEqual(num[1].owner.op, nnet.softmax_op)
        self.assertEqual(denum, [self.b])

    def test_bias(self):
        self.check(nnet.softmax(self.x + self.b), ["SoftmaxWithBias"])
        self.check(nnet.softmax(T.dot(self.x, self.x.T) + self.x[:, 0] + self.x[:, 1]), ["SoftmaxWithBias"])
        self.check(nnet.softmax(self.x + self.x[0:1, 0:1].sum()), ["Softmax"])
        # neither a column nor a matrix is a bias
        self.check(nnet.softmax(self.x + self.x.sum(axis=1, keepdims=True)), ["Softmax"])
        self.check(nnet.softmax(self.x + self.x**2), ["Softmax"])

    def test_log(self):
        self.check(T.log(nnet.softmax(self.x)), ["LogSoftmax"])
        g = T.grad((T.log(nnet.softmax(self.x)) * self.b).sum(), self.x)
        self.check(g, ["Softmax"])
        # the logarithm is accurate where the probability underflows
        f = theano.function(
            [self.x],
            [T.log(nnet.softmax(self.x)), T.grad(T.log(nnet.softmax(self.x))[:, 1].sum(), self.x)],
            mode=FAST_RUN,
        )
        value, gradient = f([[0.0, -1000.0, 0.0]])
        np.testing.assert_allclose(value, [[-np.log(2), -1000 - np.log(2), -np.log(2)]])
        np.testing.assert_allclose(gradient, [[-0.5, 1, -0.5]])

    def test_exponentials_by_hand_of_other_ranks(self):
        """A handwritten softmax of a tensor of rank 1, 3 or 4 agrees with SciPy's.

        Rules must not replace this softmax by the Op `Softmax`, which accepts matrices only.
        """
        for ndim, axes in ((3, (0, 1, 2)), (4, (1,)), (1, (0,))):
            x = T.TensorType("float64", [False] * ndim)("x")
            value = np.random.RandomState(3).randn(*range(2, 2 + ndim))
            for axis in axes:
                e = T.exp(x)
                f = theano.function([x], e / e.sum(axis=axis, keepdims=True), mode=FAST_RUN)
                np.testing.assert_allclose(f(value), scipy.special.softmax(value, axis=axis), rtol=1e-12)

    def test_logarithms_by_hand(self):
        """The logarithm of a handwritten softmax is computed like that of `nnet.softmax`.

        This holds also in a difference of two logarithms.
        """
        a, b = T.dmatrix("a"), T.dmatrix("b")

        def by_hand(x):
            return T.exp(x) / T.exp(x).sum(axis=1, keepdims=True)

        divergence = (by_hand(a) * (T.log(by_hand(a)) - T.log(by_hand(b)))).sum(axis=1)
        less = a - T.log(T.exp(a - a.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True))
        shifted = a - a.max(axis=1, keepdims=True)
        shifted = shifted - T.log(T.exp(shifted).sum(axis=1, keepdims=True))
        f, g = theano.function([a, b], divergence, mode=FAST_RUN), theano.function([a], shifted, mode=FAST_RUN)
        self.assertEqual(row_ops(f), ["LogSoftmax", "LogSoftmax", "Softmax"])
        self.assertEqual(len(f.maker.fgraph.apply_nodes), 4)
        self.assertEqual(row_ops(g), ["LogSoftmax"])
        self.assertEqual(row_ops(theano.function([a], less, mode=FAST_RUN)), [])
        x, y = np.array([[1.0, 2.0, 800.0], [0.0, 0.0, 0.0]]), np.array([[0.0, 800.0, 1.0], [1.0, 2.0, 3.0]])
        log_x, log_y = (scipy.special.log_softmax(v, axis=1) for v in (x, y))
        np.testing.assert_allclose(f(x, y), (np.exp(log_x) * (log_x - log_y)).sum(axis=1))
        np.testing.assert_allclose(g(x), log_x)

    def test_argmax_needs_no_softmax(self):
        for out in (
            nnet.softmax(self.x),
            nnet.softmax(self.x + self.b),
            nnet.sigmoid(self.x),
            T.tanh(self.x),
            nnet.softsign(self.x),
        ):
            f = self.check(T.argmax(out, axis=1), [])
            self.assertFalse([n for n in f.maker.fgraph.toposort() if n.op in (nnet.sigmoid, T.tanh, nnet.softsign)])
            self.check(T.argmax(out, axis=-1), [])
        self.check(T.argmax(T.log(nnet.softmax(self.x)), axis=1), [])
        self.check(T.argmin(nnet.softmax(self.x), axis=1), [])
        self.check(T.argmax(nnet.softmax(self.x), axis=0), ["Softmax"])
        self.check(T.argmax(nnet.softmax(self.x)), ["Softmax"])
        self.check(T.argmax(T.log(nnet.softmax(self.x)), axis=0), ["LogSoftmax"])
        self.check(T.max_and_argmax(nnet.softmax(self.x), axis=1)[1], [])

    def test_argmax_needs_no_increasing_function(self):
        functions = [T.exp, T.log, T.sqrt, T.tanh, T.arctan, T.log1p, T.erf, nnet.sigmoid, nnet.softplus, nnet.softsign]
        values = np.array([[0, 1, 2], [1, 0, 0]])
        py = theano.Mode("py", "fast_run")
        for dtype in ("bool", "int8", "uint8", "int64", "float16", "float32", "float64", "complex64"):
            x = T.matrix("x", dtype)
            given = values.astype(dtype)
            for function in functions[:5] if dtype.startswith("complex") else functions:
                if dtype.startswith("complex") and function is T.arctan:
                    continue
                for axis, find in ((0, T.argmax), (1, T.argmax), (None, T.argmax), (1, T.argmin)):
                    with self.subTest(dtype=dtype, function=function, axis=axis, find=find):
                        f, plain = [
                            theano.function([x], find(function(x), axis=axis), mode=mode)
                            for mode in (py, theano.Mode("py", None))
                        ]
                        np.testing.assert_array_equal(f(given), plain(given))
                        dropped = not any(n.op == function for n in f.maker.fgraph.toposort())
                        # The rule does not remove the function inside argmin of integers: argmin is an argmax of
                        # negated numbers, and the smallest integer has no negative.
                        self.assertEqual(
                            dropped, dtype.startswith("float") or (x.dtype[0] in "biu" and find is T.argmax)
                        )
        # A function that is not increasing stays.
        for out in (T.cos(self.x), self.x**2, T.erfc(self.x), abs(self.x), 1 / self.x):
            f = theano.function([self.x], T.argmax(out, axis=1), mode=py)
            self.assertEqual(len(f.maker.fgraph.toposort()), 2)


class TestSaturated(unittest.TestCase):
    """Costs and gradients of common losses are accurate if logits are far apart.

    The cost and the gradient are compiled separately and together, with the rules of FAST_RUN and of FAST_COMPILE.
    """

    def check(self, loss, x, cost, gradient):
        for dtype in ("float32", "float64"):
            variable = T.TensorType(dtype, (False,) * np.ndim(x))("x")
            out = loss(variable)
            g = T.grad(out, variable)
            for mode in ("fast_run", "fast_compile"):
                mode = theano.Mode("py", mode)
                value = np.array(x, dtype=dtype)
                for outputs, wanted in (([out], [cost]), ([g], [gradient]), ([out, g], [cost, gradient])):
                    for got, want in zip(theano.function([variable], outputs, mode=mode)(value), wanted):
                        np.testing.assert_allclose(got, want, rtol=4 * np.finfo(dtype).eps, atol=1e-40)

    def test_categorical_crossentropy(self):
        x = [[0, 110], [0, 0]]
        wanted = np.array([[-1, 1], [-0.5, 0.5]])
        onehot = np.array([[1, 0], [1, 0]])
        for t in (onehot.astype("int8"), np.array([0, 0])):
            self.check(lambda v: nnet.categorical_crossentropy(nnet.softmax(v), t).sum(), x, 110 + np.log(2), wanted)
            self.check(
                lambda v: nnet.categorical_crossentropy(nnet.softmax(v), t).mean(), x, (110 + np.log(2)) / 2, wanted / 2
            )

    def test_softmax_by_hand(self):
        x, y = np.array([[0, 110, 0], [0, -110, 0]]), np.array([0, 1])
        p = np.array([[0, 1, 0], [0.5, 0, 0.5]])
        wanted, gradient = (110 + 110 + np.log(2)) / 2, (p - np.eye(3)[y]) / 2

        def shifted(v):
            e = T.exp(v - v.max(1, keepdims=True))
            return e / e.sum(1, keepdims=True)

        def unshifted(v):
            return T.exp(v) / T.exp(v).sum(axis=1, keepdims=True)

        for p in (shifted, unshifted):
            self.check(lambda v: -T.mean(T.log(p(v))[T.arange(2), y]), x, wanted, gradient)
            self.check(lambda v: -T.mean(T.log(p(v)[T.arange(2), y])), x, wanted, gradient)
            self.check(lambda v: T.mean(nnet.categorical_crossentropy(p(v), y)), x, wanted, gradient)

    def test_vector(self):
        def loss(v):
            return -T.log(T.exp(v) / T.exp(v).sum())[0]

        self.check(loss, [-400, 400], 800, [-1, 1])

    def test_second_derivative(self):
        x, y = T.dmatrix("x"), np.array([0, 1])
        value = np.array([[0, 800.0, 800], [0, -800, 0]])
        p = np.array([[0, 0.5, 0.5], [0.5, 0, 0.5]])
        v = np.array([[1.0, 2, 4], [3, 1, -1]])
        for loss in (
            nnet.categorical_crossentropy(nnet.softmax(x), y),
            -T.log(nnet.softmax(x))[T.arange(2), y],
            -T.log(T.exp(x) / T.exp(x).sum(axis=1, keepdims=True))[T.arange(2), y],
        ):
            second = T.grad((T.grad(loss.sum(), x) * v).sum(), x)
            for mode in ("fast_run", "fast_compile"):
                got = theano.function([x], second, mode=theano.Mode("py", mode))(value)
                np.testing.assert_allclose(got, p * (v - (p * v).sum(1, keepdims=True)))


class TestCrossentropy(RuleCase):
    def forms(self, sm):
        """Return the usual ways to write cross-entropies of a softmax with the labels y."""
        rows = T.arange(self.y.shape[0])
        return [
            nnet.categorical_crossentropy(sm, self.y),
            -T.log(sm)[rows, self.y],
            -T.log(sm[rows, self.y]),
            -T.log(sm)[rows, T.cast(self.y, "int32")],
        ]

    def test_value(self):
        for out in self.forms(nnet.softmax(self.x)) + self.forms(nnet.softmax(self.x + self.b)):
            for cost in (out, out.mean(), out.sum()):
                self.check(cost, ["CrossentropySoftmaxArgmax1HotWithBias"])

    def test_gradient(self):
        for i, out in enumerate(self.forms(nnet.softmax(self.x)) + self.forms(nnet.softmax(self.x + self.b))):
            for cost in (out.mean(), out.sum(), (out * T.arange(self.y.shape[0])).sum()):
                f = theano.function(self.inputs, T.grad(cost, self.x), mode=FAST_RUN, on_unused_input="ignore")
                names = row_ops(f)
                self.assertIn("CrossentropySoftmax1HotWithBiasDx", names, (i, cost))
                self.assertNotIn("SoftmaxGrad", names)
                plain = theano.function(
                    self.inputs, T.grad(cost, self.x), mode=theano.Mode("py", None), on_unused_input="ignore"
                )
                np.testing.assert_allclose(f(*self.values), plain(*self.values), rtol=1e-10)

    def test_factors_of_gradients(self):
        """CrossentropySoftmax1HotWithBiasDx also replaces gradients with more factors or divisors than the softmax."""
        sm = nnet.softmax(self.x)
        s, w = T.dscalar("s"), T.dvector("w")
        rows = T.arange(self.y.shape[0])
        labels = T.set_subtensor(T.zeros_like(sm)[rows, self.y], w)
        column = T.exp(w).dimshuffle(0, "x")
        values = [*self.values, 2.5, np.array([0.5, -1, 2, 3, -0.25])]
        for form, g in enumerate(
            (
                labels / sm,
                labels / sm / s,
                labels * T.exp(s) / (s * sm),
                labels / (sm * column),
                labels * column * s / (sm * T.sqr(column)),
            )
        ):
            given = [*self.inputs, s, w]
            out = T.grad(None, self.x, known_grads={sm: g})
            f = theano.function(given, out, mode=FAST_RUN, on_unused_input="ignore")
            plain = theano.function(given, out, mode=theano.Mode("py", None), on_unused_input="ignore")
            with self.subTest(form):
                self.assertIn("CrossentropySoftmax1HotWithBiasDx", row_ops(f))
                np.testing.assert_allclose(f(*values), plain(*values), rtol=1e-10)
        # A factor that varies within a row must not be treated as a constant factor of the row.
        out = T.grad(None, self.x, known_grads={sm: labels * self.b / sm})
        given = [*self.inputs, w]
        f = theano.function(given, out, mode=FAST_RUN, on_unused_input="ignore")
        plain = theano.function(given, out, mode=theano.Mode("py", None), on_unused_input="ignore")
        np.testing.assert_allclose(f(*self.values, values[-1]), plain(*self.values, values[-1]), rtol=1e-10)

    def test_no_rows(self):
        for out in self.forms(nnet.softmax(self.x)) + self.forms(nnet.softmax(self.x + self.b)):
            f = theano.function(self.inputs, [out, T.grad(out.sum(), self.x)], mode=FAST_RUN, on_unused_input="ignore")
            value, gradient = f(np.zeros((0, 4)), np.zeros(4), np.zeros(0, "int64"))
            self.assertEqual((value.shape, gradient.shape), ((0,), (0, 4)))

    def test_vectors_and_rows(self):
        v, r, y = T.vector("v"), T.row("r"), T.lvector("y")
        label = T.TensorType("int64", (True,))("label")
        given = {v: [0.5, -1.0, 2.0], r: [[0.25, 1.0, 0.0]], y: [2], label: [1], self.b: [1.0, -2.0, 0.5]}
        rows = {
            "vector": (v, False),
            "row": (r, False),
            "vectors": (v + self.b, True),
            "vector and row": (v + r, True),
            "three": (v + r + self.b, True),
        }
        for name, (source, biased) in rows.items():
            sm = nnet.softmax(source)
            with self.subTest(name):
                f = theano.function(list(given), sm, mode=FAST_RUN, on_unused_input="ignore")
                self.assertEqual(row_ops(f), ["SoftmaxWithBias" if biased else "Softmax"])
                total = sum(np.atleast_2d(value) for i, value in given.items() if i in theano.gof.graph.inputs([sm]))
                np.testing.assert_allclose(f(*given.values()), softmax(total))
            for target in (y, label):
                forms = (
                    nnet.categorical_crossentropy(sm, target),
                    -T.log(sm)[T.arange(target.shape[0]), target],
                    -T.log(sm[T.arange(target.shape[0]), target]),
                )
                for form, cost in enumerate(forms):
                    with self.subTest(name, target=target, form=form):
                        wrt = [i for i in (v, r, self.b) if i in theano.gof.graph.inputs([sm])]
                        f, plain = [
                            theano.function(
                                list(given),
                                [cost, cost.mean()] + T.grad(cost.sum(), wrt),
                                mode=mode,
                                on_unused_input="ignore",
                            )
                            for mode in (FAST_RUN, theano.Mode("py", None))
                        ]
                        self.assertEqual(
                            row_ops(f), ["CrossentropySoftmax1HotWithBiasDx", "CrossentropySoftmaxArgmax1HotWithBias"]
                        )
                        for got, want in zip(f(*given.values()), plain(*given.values())):
                            np.testing.assert_allclose(got, want, rtol=1e-10)

    def test_value_and_gradient_together(self):
        w = theano.shared(np.random.RandomState(2).randn(4, 4), "w")

        def names(cost):
            return row_ops(
                theano.function(self.inputs, [cost, T.grad(cost.mean(), w)], mode=FAST_RUN, on_unused_input="ignore")
            )

        for i, cost in enumerate(self.forms(nnet.softmax(T.dot(self.x, w)))):
            self.assertEqual(
                names(cost), ["CrossentropySoftmax1HotWithBiasDx", "CrossentropySoftmaxArgmax1HotWithBias"], i
            )
        for i, cost in enumerate(self.forms(nnet.softmax(T.dot(self.x, w) + self.b))):
            f = theano.function(self.inputs, [cost.mean()] + T.grad(cost.mean(), [w, self.b]), mode=FAST_RUN)
            self.assertEqual(
                row_ops(f), ["CrossentropySoftmax1HotWithBiasDx", "CrossentropySoftmaxArgmax1HotWithBias"], i
            )
            x, b, y = self.values
            sm = softmax(x.dot(w.get_value()) + b)
            delta = (sm - np.eye(4)[y]) / 5
            for got, want in zip(f(*self.values), [-np.log(sm[np.arange(5), y]).mean(), x.T.dot(delta), delta.sum(0)]):
                np.testing.assert_allclose(got, want)

    def test_stable(self):
        x = np.array([[0.0, 2000.0], [3000.0, 0.0]])
        y = np.array([0, 0])
        for cost in self.forms(nnet.softmax(self.x)):
            f = theano.function([self.x, self.y], [cost, T.grad(cost.sum(), self.x)], mode=FAST_RUN)
            value, gradient = f(x, y)
            np.testing.assert_array_equal(value, [2000, 0])
            np.testing.assert_array_equal(gradient, [[-1, 1], [0, 0]])

    def test_other_indices_are_left(self):
        sm = nnet.softmax(self.x)
        for out in (
            T.log(sm)[T.arange(1, self.y.shape[0]), self.y[1:]],
            T.log(sm)[self.y, self.y],
            T.log(sm)[self.y],
            T.log(sm)[T.arange(0, self.y.shape[0] * 2, 2) // 2, self.y],
        ):
            f = theano.function(self.inputs, out, mode=FAST_RUN, on_unused_input="ignore")
            self.assertNotIn("CrossentropySoftmaxArgmax1HotWithBias", row_ops(f))
            plain = theano.function(self.inputs, out, mode=theano.Mode("py", None), on_unused_input="ignore")
            values = [self.values[0], self.values[1], np.array([3, 0, 2, 2, 1])]
            np.testing.assert_allclose(f(*values), plain(*values))

    def test_constant_places_need_not_be_labels(self):
        """Constant column indices may be negative, or fewer than the rows of the matrix.

        The rule treats indices as labels only if none is negative, and the matrix is known to have one row per index.
        """
        x, rng = T.dmatrix("x"), np.random.RandomState(3)
        value, weights = rng.normal(size=(3, 4)), rng.normal(size=3)
        known = T.specify_shape(x, (3, 4))
        for matrix, columns, is_rewritten in (
            (x, [1, 2, 0], False),
            (x, [1, 2], False),
            (x, [], False),
            (x, [-1, 2, 0], False),
            (known, [1, 2, 0], True),
            (known, [1, 2], False),
            (known, [-1, 2, 0], False),
        ):
            rows, columns = np.arange(len(columns)), np.array(columns, "int64")
            p = np.exp(value) / np.exp(value).sum(1, keepdims=True)
            gradient = np.zeros((3, 4))
            for row, column in zip(rows, columns):
                gradient[row] = weights[row] * ((np.arange(4) == column % 4) - p[row])
            for picked in (
                T.log(nnet.softmax(matrix))[rows, columns],
                T.log(nnet.softmax(matrix)[rows, columns]),
                nnet.logsoftmax(matrix)[rows, columns],
            ):
                with self.subTest(columns=columns.tolist(), known=matrix is known):
                    derived = T.grad((picked * weights[: len(rows)]).sum(), x)
                    f, df = [theano.function([x], v, mode=FAST_RUN) for v in (picked, derived)]
                    np.testing.assert_allclose(f(value), np.log(p)[rows, columns])
                    np.testing.assert_allclose(df(value), gradient, atol=1e-12)
                    (self.assertIn if is_rewritten else self.assertNotIn)(
                        "CrossentropySoftmaxArgmax1HotWithBias", row_ops(f)
                    )

    def test_places_keep_the_logarithms_of_small_probabilities(self):
        x = T.dmatrix("x")
        f = theano.function([x], T.log(nnet.softmax(x)[np.arange(2), np.array([1, 1])]), mode=FAST_RUN)
        np.testing.assert_allclose(f([[0, -800.0], [0, -900], [3, 3]]), [-800, -900])

    def test_gradient_that_is_one_number_is_not_allocated(self):
        g = T.grad(nnet.categorical_crossentropy(nnet.softmax(self.x), self.y).sum(), self.x)
        f = self.check(g, ["CrossentropySoftmax1HotWithBiasDx", "Softmax"])
        dx = [n for n in f.maker.fgraph.toposort() if isinstance(n.op, CrossentropySoftmax1HotWithBiasDx)][0]
        self.assertEqual(dx.inputs[0].type.broadcastable, (True,) * dx.inputs[0].ndim)

    def test_rules_can_be_excluded(self):
        out = nnet.categorical_crossentropy(nnet.softmax(self.x + self.b), self.y)
        self.check(
            out,
            ["SoftmaxWithBias"],
            FAST_RUN.excluding(
                "crossentropy_to_crossentropy_with_softmax_with_bias", "crossentropy_to_crossentropy_with_softmax"
            ),
        )
        self.check(T.log(nnet.softmax(self.x)), ["Softmax"], FAST_RUN.excluding("local_logsoftmax"))


if __name__ == "__main__":
    unittest.main()
