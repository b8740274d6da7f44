"""Tests of grad, Lop, Rop, subgraph_grad and their options, and of finite differences."""

import unittest
import warnings

import numpy as np

import theano_ng as theano
import theano_ng.ifelse
import theano_ng.sparse
from theano_ng import gof, gradient
from theano_ng import tensor as T
from theano_ng.gradient import DisconnectedInputError, DisconnectedType, NullTypeGradError, grad


class Undefined(gof.Op):
    __props__ = ()

    def make_node(self, x):
        return gof.Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = inputs[0].copy()

    def grad(self, inputs, g):
        return [gradient.grad_undefined(self, 0, inputs[0], "just so")]


class NotImplementedYet(Undefined):
    __props__ = ()

    def grad(self, inputs, g):
        return [gradient.grad_not_implemented(self, 0, inputs[0])]


class NoGrad(Undefined):
    __props__ = ()
    grad = property()


class WrongGrad(Undefined):
    __props__ = ()

    def grad(self, inputs, g):
        return [g[0] * 1.1]


class TestGrad(unittest.TestCase):
    def setUp(self):
        self.x = T.dvector("x")

    def test_values_names_and_containers(self):
        x, y = T.dscalar("x"), T.dscalar("y")
        cost = x**2 * y
        cost.name = "c"
        gx, gy = g = grad(cost, (x, y))
        self.assertIsInstance(g, tuple)
        self.assertEqual(gx.name, "(dc/dx)")
        self.assertIsNone(grad(cost, x, add_names=False).name)
        self.assertIsInstance(grad(cost, [x]), list)
        got = [float(v) for v in theano.function([x, y], [gx, gy])(3.0, 5.0)]
        np.testing.assert_allclose(got, [30.0, 9.0])

    def test_disconnected(self):
        x, y = self.x, T.dscalar("y")
        cost = x.sum()
        with self.assertRaises(DisconnectedInputError):
            grad(cost, y)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            grad(cost, y, disconnected_inputs="warn")
        self.assertEqual(len(caught), 1)
        self.assertEqual(float(grad(cost, y, disconnected_inputs="ignore").eval({y: 3.0})), 0)
        self.assertIsNone(grad(cost, y, disconnected_inputs="ignore", return_disconnected="None"))
        g = grad(cost, y, disconnected_inputs="ignore", return_disconnected="Disconnected")
        self.assertIsInstance(g.type, DisconnectedType)
        with self.assertRaises(DisconnectedInputError):
            grad(gradient.disconnected_grad(x).sum(), x)
        with self.assertRaises(DisconnectedInputError):
            grad(T.cast(x.shape[0], "float64"), x)
        with self.assertRaises(ValueError):
            grad(cost, y, disconnected_inputs="no such policy")

    def test_null_and_bad_ops(self):
        x = self.x
        with self.assertRaisesRegex(NullTypeGradError, "mathematically undefined. just so"):
            grad(Undefined()(x).sum(), x)
        with self.assertRaises(NotImplementedError):
            grad(NotImplementedYet()(x).sum(), x)
        g = grad(Undefined()(x).sum(), x, null_gradients="return")
        self.assertIsInstance(g.type, gradient.NullType)
        with self.assertRaises(TypeError):
            theano.function([x], g, on_unused_input="ignore")
        with self.assertRaisesRegex(AttributeError, "grad"):
            grad(NoGrad()(x).sum(), x)
        with self.assertRaises(TypeError):
            grad(x, x)
        with self.assertRaises(TypeError):
            grad(x.sum(), 3)

    def test_one_undefined_gradient_of_several_outputs(self):
        """If the gradient of an output of an Op is undefined, so are the gradients of the inputs that affect it."""
        x, row = T.dmatrix("x"), T.drow("row")
        a = theano.scalar.float64("a")
        applied = [
            T.max_and_argmax(x, axis=1),
            T.split(x, [1, 1], 2, axis=0),
            T.nlinalg.svd(x),
            T.nlinalg.eigh(x),
            T.nlinalg.qr(x),
            T.nnet.bn.batch_normalization_train(x, row, row, axes="per-activation")[:3],
            T.Elemwise(theano.scalar.Composite([a], [a + 1, a * 2]))(x),
            theano.ifelse.ifelse(x[0, 0] > 0, [x, x + 1], [x * 2, x * 3]),
            theano.scan(lambda u, v: [u + v, u * v], sequences=x, outputs_info=[x[0], None])[0],
            theano.OpFromGraph([x], [x + 1, x * 2])(x),
            theano.sparse.csm_properties(theano.sparse.csc_from_dense(x))[:1],
        ]
        for outputs in applied:
            for k in [k for k, out in enumerate(outputs) if out.dtype == "float64"]:
                parts = [Undefined()(out) if i == k else out for i, out in enumerate(outputs)]
                cost = sum(T.cast(part, "float64").sum() * x.sum() for part in parts)
                with self.subTest(op=outputs[0].owner.op, output=k):
                    with self.assertRaisesRegex(NullTypeGradError, "mathematically undefined. just so"):
                        grad(cost, x)
                    self.assertIsInstance(grad(cost, x, null_gradients="return").type, gradient.NullType)

    def test_undefined_gradients_reach_only_what_depends_on_them(self):
        """In batch normalization, an undefined gradient of the mean does not affect the gradients of gamma and beta."""
        x, gamma, beta = T.dmatrix("x"), T.drow("gamma"), T.drow("beta")
        out, mean, _ = T.nnet.bn.batch_normalization_train(x, gamma, beta, axes="per-activation")[:3]
        cost = (out**2).sum()
        got = grad(cost + Undefined()(mean).sum(), [x, gamma, beta], null_gradients="return")
        self.assertIsInstance(got[0].type, gradient.NullType)
        f = theano.function([x, gamma, beta], [*got[1:], *grad(cost, [gamma, beta])])
        values = f([[1.0, 2.0], [4.0, -3.0]], [[0.5, 2.0]], [[1.0, -1.0]])
        for g, expected in zip(values[:2], values[2:]):
            np.testing.assert_array_equal(g, expected)

    def test_undefined_gradients_do_not_reach_conditions(self):
        """The condition of an ifelse has the gradient zero, even if the gradient of a branch is undefined."""
        x, y = T.dvectors("x", "y")
        for condition in (T.gt(x[0], 0), x[0]):
            known, other = theano.ifelse.ifelse(condition, [x * 2, y], [x * 3, y * 2])
            g = grad(known.sum() + Undefined()(other).sum(), [x, y], null_gradients="return")
            f = theano.function([x, y], g[0], on_unused_input="ignore")
            np.testing.assert_array_equal(f([1.0, -2.0], [3.0]), [2.0, 2.0])
            self.assertIsInstance(g[1].type, gradient.NullType)

    def test_shaping(self):
        x = self.x
        outs = [
            grad(T.sum(f(x) ** 2), x)
            for f in (
                lambda v: v,
                gradient.zero_grad,
                lambda v: gradient.grad_clip(v, -1, 1),
                lambda v: gradient.grad_scale(v, -2.0),
            )
        ]
        outs.append(grad(T.sum(gradient.disconnected_grad(x) * x), x))
        outs.append(grad(T.sum(x**3), x, consider_constant=None))
        y = x**2
        outs.append(grad(T.sum(y * x), x, consider_constant=[y]))
        v = np.array([0.25, -3.0])
        got = theano.function([x], outs)(v)
        expected = [2 * v, 0 * v, np.clip(2 * v, -1, 1), -4 * v, v, 3 * v**2, v**2]
        for a, b in zip(got, expected):
            np.testing.assert_allclose(a, b)
        for shaped in (
            gradient.grad_clip(T.fvector(), -0.1, 0.1),
            gradient.grad_scale(T.fvector(), 0.1),
        ):  # .1 is not exact in float32
            self.assertEqual(grad(shaped.sum(), shaped.owner.inputs[0]).dtype, "float32")
        with self.assertRaises(NullTypeGradError):
            grad(gradient.undefined_grad(x).sum(), x)

    def test_integers(self):
        a = T.ivector("a")
        x = self.x
        # y is an integer, cast from the float x. The cost is a float. The gradient of y is 0.5, the gradient of x is 0.
        y = T.cast(x, "int32")
        gy, gx = grad((y * np.float64(0.5)).sum(), [y, x])
        fy, fx = theano.function([x], [gy, gx])(np.array([1.5, 2.5]))
        np.testing.assert_allclose(fy, [0.5, 0.5])
        np.testing.assert_allclose(fx, [0, 0])
        # A function with float values has the same gradient for an integer argument as for a float argument. A function
        # with integer values has the gradient 0.
        p = T.dvector("p")
        cases = [
            (T.cast(a, "float64") * 0.5, [0.5, 0.5]),
            (T.cast(a, "float32") * 2, [2, 2]),
            (a * 2.0, [2, 2]),
            (T.cast(a, "float64")[0], [1, 0]),
            (p**a, np.log([1.5, 2.5]) * [1.5**2, 2.5**3]),
            (T.sqrt(a), 0.5 / np.sqrt([2, 3])),
            (a.prod(dtype="float64"), [3, 2]),
            (a.sum(dtype="float64"), [1, 1]),
            (a * 2, [0, 0]),
            (T.dot(a, a), [0, 0]),
            (T.cast(T.cast(a, "float64") * 2, "int8"), [0, 0]),
        ]
        grads = [grad(e.sum(), a) for e, _ in cases]
        self.assertEqual([g.dtype for g in grads], ["float64"] * len(grads))
        for got, (e, want) in zip(theano.function([a, p], grads, mode="FAST_COMPILE")([2, 3], [1.5, 2.5]), cases):
            np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=str(e))

    def test_known_grads_of_other_dimensions(self):
        v, m, s = T.dvector("v"), T.dmatrix("m"), T.dscalar("s")
        for variable, known in ((v, m), (s, m), (s, v)):
            with self.assertRaisesRegex(ValueError, "must have the shape of its variable"):
                grad(None, variable, known_grads={variable * 2: known})

    def test_known_grads_and_subgraph(self):
        x = self.x
        h = T.tanh(x)
        cost = (h**2).sum()
        (gh,) = grad(cost, [h])
        known = grad(None, x, known_grads={h: gh})
        wrt, end = gradient.subgraph_grad(wrt=[h], end=[h], cost=cost)
        (_, (sub,)) = gradient.subgraph_grad(wrt=[], end=[x], start={h: end[0]})
        v = np.array([0.3, -2.0])
        for got in theano.function([x], [known, sub, wrt[0] * (1 - h**2)])(v):
            np.testing.assert_allclose(got, 2 * np.tanh(v) * (1 - np.tanh(v) ** 2))

    def test_lop_rop(self):
        w, x, v, u = T.dmatrix("w"), T.dvector("x"), T.dmatrix("v"), T.dvector("u")
        y = T.dot(x, w)
        r = gradient.Rop(y, w, v)
        left = gradient.Lop(y, w, u)
        wv, xv, vv, uv = np.ones((2, 2)), np.array([0.0, 1.0]), np.array([[1.0, 2], [3, 4]]), np.array([5.0, 7.0])
        np.testing.assert_allclose(theano.function([w, v, x], r, on_unused_input="ignore")(wv, vv, xv), xv.dot(vv))
        np.testing.assert_allclose(
            theano.function([u, x, w], left, on_unused_input="ignore")(uv, xv, wv), np.outer(xv, uv)
        )
        with self.assertRaises(DisconnectedInputError):
            gradient.Rop(x, w, v)
        self.assertIsNone(gradient.Rop([x], w, v, disconnected_outputs="ignore", return_disconnected="None")[0])
        with self.assertRaises(ValueError):
            gradient.Rop(y, w, u)

    def test_deep_and_wide(self):
        x = T.dscalar("x")
        c = x
        for _ in range(5000):
            c = c + x
        self.assertIsNotNone(grad(c, x))

    def test_verify_grad(self):
        rng = np.random.RandomState(1)
        gradient.verify_grad(lambda v: T.tanh(v) * T.exp(v), [rng.rand(2, 3)], rng=rng)
        with self.assertRaises(gradient.GradientError) as caught:
            gradient.verify_grad(WrongGrad(), [rng.rand(4)], rng=rng)
        self.assertEqual(caught.exception.shape, (4,))
        with self.assertRaises(TypeError):
            gradient.verify_grad(T.tanh, [np.arange(3)], rng=rng)
        numeric = gradient.numeric_grad(lambda v: (v**3).sum(), np.array([1.0, 2.0]))
        np.testing.assert_allclose(numeric.gf, [3.0, 12.0], rtol=1e-6)


if __name__ == "__main__":
    unittest.main()
