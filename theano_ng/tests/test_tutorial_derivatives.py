"""Tests of the tutorial's listings and their documented results: logistic regression and derivatives."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import function
from theano_ng.tests.closeness import assert_close


class LogisticRegression(unittest.TestCase):
    def test_trains_after_a_few_hundred_steps_predictions_equal(self):
        rng = np.random.RandomState(0)
        N, feats = 400, 784
        data = rng.randn(N, feats)
        lab = rng.randint(size=N, low=0, high=2)
        x, y = T.dmatrix("x"), T.dvector("y")
        w = theano.shared(rng.randn(feats), name="w")
        b = theano.shared(0.0, name="b")
        p1 = 1 / (1 + T.exp(-T.dot(x, w) - b))
        pred = p1 > 0.5
        xent = -y * T.log(p1) - (1 - y) * T.log(1 - p1)
        cost = xent.mean() + 0.01 * (w**2).sum()
        gw, gb = T.grad(cost, [w, b])
        train = function(
            inputs=[x, y], outputs=[pred, xent], updates=((w, w - 0.1 * gw), (b, b - 0.1 * gb)), name="train"
        )
        predict = function(inputs=[x], outputs=pred, name="predict")
        slow = theano.config.mode == "DebugMode"
        start = train(data, lab)[1].mean()
        for _ in range(20 if slow else 1000):
            pr, err = train(data, lab)
        assert np.all(np.isfinite(err)) and err.mean() < start
        assert slow or np.array_equal(np.asarray(predict(data), dtype=int), lab)
        names = [n.op.__class__.__name__ for n in train.maker.fgraph.toposort()]
        assert any(k in ("Gemv", "CGemv", "Gemm", "CGemm") for k in names)


class Derivatives(unittest.TestCase):
    def test_gradient_of_a_square(self):
        x = T.dscalar("x")
        gy = T.grad(x**2, x)
        assert (
            theano.pp(gy)
            == "((fill((x ** TensorConstant{2}), TensorConstant{1.0}) * TensorConstant{2}) * (x ** (TensorConstant{2} - TensorConstant{1})))"
        )
        f = function([x], gy)
        assert f(4) == 8.0 and np.allclose(f(94.2), 188.4)
        assert len(f.maker.fgraph.toposort()) == 1
        assert theano.pp(f.maker.fgraph.outputs[0]) in ("(2.0 * x)", "(TensorConstant{2.0} * x)")

    def test_gradient_of_the_logistic_function(self):
        x = T.dmatrix("x")
        gs = T.grad(T.sum(1 / (1 + T.exp(-x))), x)
        assert_close(function([x], gs)([[0, 1], [-1, -2]]), [[0.25, 0.19661193], [0.19661193, 0.10499359]])

    def test_rop_and_lop(self):
        W, V, x = T.dmatrix("W"), T.dmatrix("V"), T.dvector("x")
        assert_close(function([W, V, x], T.Rop(T.dot(x, W), W, V))([[1, 1], [1, 1]], [[2, 2], [2, 2]], [0, 1]), [2, 2])
        W, v, x = T.dmatrix("W"), T.dvector("v"), T.dvector("x")
        assert_close(
            function([v, x], T.Lop(T.dot(x, W), W, v))([2, 2], [0, 1]), [[0, 0], [2, 2]]
        )  # the function does not need W as an input

    def test_hessian_times_vector(self):
        x, v = T.dvector("x"), T.dvector("v")
        gy = T.grad(T.sum(x**2), x)
        assert_close(function([x, v], T.grad(T.sum(gy * v), x))([4, 4], [2, 2]), [4, 4])
        assert_close(function([x, v], T.Rop(gy, x, v))([4, 4], [2, 2]), [4, 4])

    def test_order_of_list_gradient_scalar_cost_only(self):
        a, b = T.dscalars("a", "b")
        ga, gb = T.grad(a * 3 + b * 5, [a, b])
        assert function([a, b], [ga, gb], on_unused_input="ignore")(1, 1) == [3.0, 5.0]
        with self.assertRaises(Exception):
            T.grad(T.dvector("v") * 2, a)
