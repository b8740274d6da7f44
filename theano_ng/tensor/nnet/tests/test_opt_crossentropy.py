"""Rules of softmax and cross-entropies: which Ops remain, and the numbers before and after."""

import unittest

import numpy as np

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
    """Names of the Ops on rows in a function, sorted."""
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
        """Compile `out`, compare the names of its row Ops, and the numbers with those of the unrewritten graph."""
        f = theano.function(self.inputs, out, mode=mode, on_unused_input="ignore")
        plain = theano.function(self.inputs, out, mode=theano.Mode("py", None), on_unused_input="ignore")
        self.assertEqual(row_ops(f), ops)
        np.testing.assert_allclose(f(*self.values), plain(*self.values), rtol=1e-10, atol=1e-12)
        return f


class TestSoftmax(RuleCase):
    def test_exp_over_sum_is_softmax(self):
        e = T.exp(self.x)
        for out in (e / e.sum(axis=1, keepdims=True), e / e.sum(axis=1).dimshuffle(0, "x"), nnet.softmax_graph(self.x)):
            self.check(out, ["Softmax"])
        self.check(2 * e / e.sum(axis=1, keepdims=True), ["Softmax"])
        # other sums are no softmax
        for out in (
            e / e.sum(axis=0),
            e / e.sum(),
            e / e.sum(axis=0, keepdims=True),
            e / T.exp(2 * self.x).sum(axis=1, keepdims=True),
        ):
            self.check(out, [])
        # no overflow once it is recognized
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
        # a column is no bias, a matrix neither
        self.check(nnet.softmax(self.x + self.x.sum(axis=1, keepdims=True)), ["Softmax"])
        self.check(nnet.softmax(self.x + self.x**2), ["Softmax"])

    def test_log(self):
        self.check(T.log(nnet.softmax(self.x)), ["LogSoftmax"])
        g = T.grad((T.log(nnet.softmax(self.x)) * self.b).sum(), self.x)
        self.check(g, ["Softmax"])
        # stable where the probability underflows
        f = theano.function(
            [self.x],
            [T.log(nnet.softmax(self.x)), T.grad(T.log(nnet.softmax(self.x))[:, 1].sum(), self.x)],
            mode=FAST_RUN,
        )
        value, gradient = f([[0.0, -1000.0, 0.0]])
        np.testing.assert_allclose(value, [[-np.log(2), -1000 - np.log(2), -np.log(2)]])
        np.testing.assert_allclose(gradient, [[-0.5, 1, -0.5]])

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
                        # The smallest of integers is the largest of what may wrap around.
                        self.assertEqual(
                            dropped, dtype.startswith("float") or (x.dtype[0] in "biu" and find is T.argmax)
                        )
        # A function that decreases, or does both, stays.
        for out in (T.cos(self.x), self.x**2, T.erfc(self.x), abs(self.x), 1 / self.x):
            f = theano.function([self.x], T.argmax(out, axis=1), mode=py)
            self.assertEqual(len(f.maker.fgraph.toposort()), 2)


class TestCrossentropy(RuleCase):
    def forms(self, sm):
        """Cross-entropies of a softmax with the labels y, in the ways in which they are written."""
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
