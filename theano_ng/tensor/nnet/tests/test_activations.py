"""Activations that are built as expressions, softmax of rows with a prepended scalar, and the two-level softmax."""

import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.tensor import nnet
from theano_ng.tensor.nnet.nnet import (
    Prepend_scalar_constant_to_each_row,
    Prepend_scalar_to_each_row,
    prepend_0_to_each_row,
    prepend_1_to_each_row,
    prepend_scalar_to_each_row,
)
from theano_ng.tensor.nnet.tests.nodes import softmax
from theano_ng.tests import unittest_tools as utt


class TestElementwise(unittest.TestCase):
    values = np.array([[-np.inf, -1e3, -2.5, -1e-8], [0, 1e-8, 3.0, 1e3], [0.5, -0.5, np.inf, np.nan]])

    def check(self, function, expected, dtypes=("float16", "float32", "float64"), values=None):
        values = self.values if values is None else values
        for dtype in dtypes:
            x = T.matrix(dtype=dtype)
            f = theano.function([x], function(x))
            v = values.astype(dtype)
            with np.errstate(all="ignore"):
                got, want = f(v), expected(v.astype("float64")).astype(dtype)
            self.assertEqual(got.dtype, dtype)
            rtol = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
            np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * 1e-3)

    @theano.change_flags({"DebugMode.check_finite": False})
    def test_values(self):
        finite = self.values[:, :2].copy()
        finite[0, 0] = -7

        self.check(nnet.softsign, lambda x: np.where(np.isinf(x), np.sign(x), x / (1 + abs(x))))
        self.check(nnet.relu, lambda x: np.maximum(x, 0), values=finite)
        self.check(lambda x: nnet.relu(x, 1), lambda x: x, values=finite)
        self.check(lambda x: nnet.relu(x, 0.25), lambda x: np.where(x > 0, x, 0.25 * x), values=finite)
        self.check(nnet.elu, lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))))
        self.check(lambda x: nnet.elu(x, 2), lambda x: np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0))))
        scale, alpha = 1.0507009873554805, 1.6732632423543772
        self.check(nnet.selu, lambda x: scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))))

    def test_elu_of_integers_has_a_gradient(self):
        for dtype in ("bool", "int8", "uint16", "int64"):
            x = T.TensorType(dtype, (False,))("x")
            numbers = np.arange(-1, 3).astype(dtype)
            slopes = theano.function([x], T.grad(nnet.elu(x).sum(), x))(numbers)
            np.testing.assert_allclose(slopes, np.exp(np.minimum(numbers.astype("float64"), 0)), rtol=1e-6)

    def test_selu_keeps_mean_and_variance(self):
        x = np.random.RandomState(1).randn(400000)
        y = nnet.selu(T.constant(x)).eval()
        self.assertLess(abs(y.mean()), 0.01)
        self.assertLess(abs(y.var() - 1), 0.02)

    def test_relu_slope(self):
        x = T.matrix("x")
        v = np.array([[-2.0, 3.0], [-0.5, 0.0]])
        slope = theano.shared(np.array([0.1, 0.5]), "slope")
        y = nnet.relu(x, slope)
        value, gradient = theano.function([x], [y, T.grad(y.sum(), slope)])(v)
        np.testing.assert_allclose(value, np.where(v > 0, v, slope.get_value() * v))
        np.testing.assert_allclose(gradient, [-2.5, 0])
        np.testing.assert_allclose(
            theano.function([x], T.grad(nnet.relu(x, 0.3).sum(), x))(v)[v != 0], np.where(v > 0, 1, 0.3)[v != 0]
        )
        np.testing.assert_array_equal(theano.function([x], T.grad(nnet.relu(x).sum(), x))(v), [[0, 1], [0, 0.5]])
        # for slopes below one, relu is the maximum of x and slope * x
        np.testing.assert_allclose(nnet.relu(x, slope).eval({x: v}), np.maximum(v, slope.get_value() * v))

    def test_relu_slope_is_never_less_finite(self):
        # Theano 1.0 computed (1 + alpha) / 2 * x + (1 - alpha) / 2 * abs(x). If this value is finite, the new value
        # is equal. If this value is not NaN, the new value is not NaN either.
        x, alpha = T.dvector(), T.dscalar()
        out = nnet.relu(x, alpha)
        f = theano.function(
            [x, alpha], [out, *T.grad(out.sum(), [x, alpha])], mode=Mode(linker="cvm", optimizer="fast_run")
        )
        v = np.array([-np.inf, np.inf, np.nan, -0.0, 0.0, 1.0, -1.0, 1.7e308, -1.7e308, 1e-300])
        for slope in (0.0, 1.0, -1.0, 0.25, 2.0, np.inf, np.nan):
            with np.errstate(all="ignore"):
                old = 0.5 * (1 + slope) * v + 0.5 * (1 - slope) * abs(v)
                old_slopes = 0.5 * (1 + slope) + 0.5 * (1 - slope) * np.sign(v)
                new, slopes, _ = f(v, slope)
            known = np.isfinite(old)
            np.testing.assert_allclose(new[known], old[known], rtol=1e-15)
            self.assertFalse((np.isnan(new) & ~np.isnan(old)).any())
            known = np.isfinite(old_slopes)
            np.testing.assert_allclose(slopes[known], old_slopes[known], rtol=1e-15)
        for value, slope in (
            (-2.0, 0.25),
            (3.0, 0.25),
            (np.inf, 0.25),
            (-np.inf, 0.25),
            (-np.inf, 1.0),
            (1.7e308, 2.0),
        ):
            # as documented: switch(x > 0, x, alpha * x)
            np.testing.assert_array_equal(f([value], slope)[0], [value if value > 0 else slope * value])

    def test_gradients(self):
        rng = np.random.RandomState(2)
        x = np.array([[-3.0, -0.7, -0.1], [0.2, 1.4, 6.0]])
        for function in (
            nnet.softsign,
            nnet.relu,
            lambda x: nnet.relu(x, 0.2),
            nnet.elu,
            lambda x: nnet.elu(x, 3.0),
            nnet.selu,
        ):
            utt.verify_grad(function, [x], rng=rng)
        utt.verify_grad(nnet.relu, [x, np.array(0.3)], rng=rng)
        utt.verify_grad(nnet.elu, [x, np.array(0.3)], rng=rng)


class TestPrepend(utt.InferShapeTester):
    def test_values_and_types(self):
        m = np.arange(6.0).reshape(3, 2)
        x, s = T.matrix(), T.scalar()
        for op, first in (
            (prepend_0_to_each_row, 0),
            (prepend_1_to_each_row, 1),
            (Prepend_scalar_constant_to_each_row(4.5), 4.5),
        ):
            np.testing.assert_array_equal(op(x).eval({x: m}), np.hstack([np.full((3, 1), first), m]))
        out = prepend_scalar_to_each_row(s, x)
        np.testing.assert_array_equal(theano.function([s, x], out)(7, m), np.hstack([np.full((3, 1), 7), m]))
        self.assertEqual(prepend_0_to_each_row(T.fmatrix()).dtype, "float32")
        self.assertEqual(prepend_0_to_each_row(x).eval({x: np.zeros((0, 2))}).shape, (0, 3))
        self.assertEqual(prepend_0_to_each_row(x).eval({x: np.zeros((2, 0))}).shape, (2, 1))
        for bad in (
            (prepend_0_to_each_row, T.vector()),
            (prepend_scalar_to_each_row, s, T.vector()),
            (prepend_scalar_to_each_row, T.vector(), x),
        ):
            self.assertRaises(TypeError, *bad)
        self.assertEqual(Prepend_scalar_constant_to_each_row(1.0), prepend_1_to_each_row)
        self.assertEqual(hash(Prepend_scalar_constant_to_each_row(1.0)), hash(prepend_1_to_each_row))
        self.assertNotEqual(prepend_0_to_each_row, prepend_1_to_each_row)

    def test_gradients_and_shapes(self):
        rng = np.random.RandomState(3)
        m = rng.randn(3, 2)
        utt.verify_grad(prepend_1_to_each_row, [m], rng=rng)
        utt.verify_grad(prepend_scalar_to_each_row, [np.array(2.0), m], rng=rng)
        x, s, v = T.matrix(), T.scalar(), T.matrix()
        np.testing.assert_array_equal(
            theano.function([x, v], T.Rop(prepend_1_to_each_row(x), x, v), on_unused_input="ignore")(m, m),
            np.hstack([np.zeros((3, 1)), m]),
        )
        out = prepend_scalar_to_each_row(s, x)
        f = theano.function(
            [s, x, v], [T.Rop(out, s, s), T.Rop(out, x, v), T.Rop(out, [s, x], [s, v])], on_unused_input="ignore"
        )
        column, zeros = np.full((3, 1), 2.0), np.zeros((3, 1))
        for got, want in zip(f(2.0, m, m), ([column, 0 * m], [zeros, m], [column, m])):
            np.testing.assert_array_equal(got, np.hstack(want))
        self._compile_and_check([x], [prepend_1_to_each_row(x)], [m], Prepend_scalar_constant_to_each_row)
        self._compile_and_check([s, x], [prepend_scalar_to_each_row(s, x)], [2.0, m], Prepend_scalar_to_each_row)


class TestHierarchicalSoftmax(unittest.TestCase):
    def setUp(self):
        rng = np.random.RandomState(4)
        # the outputs are fewer than classes * per_class, so two columns are dropped
        self.sizes = batch, outputs, features, classes, per_class = 6, 10, 5, 4, 3
        self.weights = [
            rng.randn(*shape)
            for shape in ((features, classes), (classes,), (classes, features, per_class), (classes, per_class))
        ]
        self.x, self.target = rng.randn(batch, features), rng.randint(0, outputs, batch)
        W1, b1, W2, b2 = self.weights
        top = softmax(self.x.dot(W1) + b1)
        self.full = np.hstack([top[:, [c]] * softmax(self.x.dot(W2[c]) + b2[c]) for c in range(classes)])[:, :outputs]

    def build(self, target=None):
        batch, outputs, _, classes, per_class = self.sizes
        x = T.matrix()
        return x, nnet.h_softmax(x, batch, outputs, classes, per_class, *self.weights, target=target)

    def test_all_outputs(self):
        x, out = self.build()
        np.testing.assert_allclose(theano.function([x], out)(self.x), self.full)

    def test_targets(self):
        for target, values in ((T.lvector(), self.target), (T.imatrix(), self.target[:, None].astype("int32"))):
            x, out = self.build(target)
            got = theano.function([x, target], out)(self.x, values)
            np.testing.assert_allclose(got, self.full[np.arange(6), self.target])

    def test_gradients(self):
        batch, outputs, _, classes, per_class = self.sizes

        def cost(target):
            return lambda *v: T.log(
                nnet.h_softmax(v[0], batch, outputs, classes, per_class, *v[1:], target=target)
            ).sum()

        values = [self.x, *self.weights]
        for target in (None, self.target):
            utt.verify_grad(cost(target), values, rng=np.random.RandomState(6), n_tests=1)
        # The cost of some classes and the cost picked from all classes have the same gradient.
        x, weights, target = T.matrix(), [T.matrix(), T.vector(), T.tensor3(), T.matrix()], T.lvector()
        few = cost(target)(x, *weights)
        all_ = nnet.h_softmax(x, batch, outputs, classes, per_class, *weights)
        all_ = T.log(all_[T.arange(batch), target]).sum()
        names = [x, *weights]
        a, b = (theano.function([*names, target], T.grad(c, names))(*values, self.target) for c in (few, all_))
        for left, right in zip(a, b):
            np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-12)

    def test_rows_sum_to_one_when_nothing_is_dropped(self):
        batch, _, _, classes, per_class = self.sizes
        x = T.matrix()
        out = nnet.h_softmax(x, x.shape[0], classes * per_class, classes, per_class, *self.weights)
        np.testing.assert_allclose(theano.function([x], out.sum(axis=1))(self.x), np.ones(batch))

    def test_documented_example(self):
        floatX, rng = theano.config.floatX, np.random.RandomState(5)
        batch_size, n_outputs, dim_x = 32, 100, 10
        n_classes = n_outputs_per_class = int(np.ceil(np.sqrt(n_outputs)))
        W1 = theano.shared(rng.normal(0, 0.001, (dim_x, n_classes)).astype(floatX))
        b1 = theano.shared(np.zeros((n_classes,), floatX))
        W2 = theano.shared(rng.normal(0, 0.001, (n_classes, dim_x, n_outputs_per_class)).astype(floatX))
        b2 = theano.shared(np.zeros((n_classes, n_outputs_per_class), floatX))
        x, target = T.imatrix("x"), T.imatrix("target")
        args = (x, batch_size, n_outputs, n_classes, n_outputs_per_class, W1, b1, W2, b2)
        loss = T.mean(-T.log(nnet.h_softmax(*args, target)))
        step = theano.function(
            [x, target], loss, updates=[(p, p - 0.1 * g) for p, g in zip(args[5:], T.grad(loss, args[5:]))]
        )
        xv, tv = rng.randint(0, 3, (32, 10)).astype("int32"), rng.randint(0, 100, (32, 1)).astype("int32")
        losses = [step(xv, tv) for _ in range(20)]
        np.testing.assert_allclose(losses[0], np.log(100), rtol=1e-2)
        self.assertLess(losses[-1], losses[0])
        self.assertEqual(theano.function([x], nnet.h_softmax(*args))(xv).shape, (32, 100))


if __name__ == "__main__":
    unittest.main()
