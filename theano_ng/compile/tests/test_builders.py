"""Tests of OpFromGraph: values, derivatives and their overrides, shapes, shared variables, inlining."""

import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.builders import OpFromGraph
from theano_ng.gof.fg import MissingInputError
from theano_ng.gof.null_type import NullType
from theano_ng.gradient import DisconnectedType, NullTypeGradError, verify_grad
from theano_ng.tests import unittest_tools as utt

A, B, C = np.full((2, 3), 2.0), np.full((2, 3), 3.0), np.full((2, 3), 5.0)


def both(test):
    """Decorate a test to run with and without inlining."""

    def run(self):
        for inline in (False, True):
            with self.subTest(inline=inline):
                test(self, inline)

    run.__name__ = test.__name__
    return run


class TestOpFromGraph(unittest.TestCase):
    def setUp(self):
        self.x, self.y, self.z = T.dmatrices("xyz")

    @both
    def test_values_and_inlining(self, inline):
        x, y, z = self.x, self.y, self.z
        op = OpFromGraph([x, y, z], [x + y * z, x - y], inline=inline, name="muladd")
        self.assertEqual(str(op), "muladd{inline=%s}" % inline)
        # `outer` applies `op` to the results of `op`. `f` applies `outer` to x, y, z, and `op` to z, y, x.
        first, second = op(x, y, z)
        outer = OpFromGraph([x, y, z], [op(first, second, z)[0]], inline=inline)
        f = theano.function([x, y, z], outer(x, y, z) + op(z, y, x)[0])
        np.testing.assert_allclose(f(A, B, C), (A + B * C) + (A - B) * C + C + B * A)
        ops = [node.op for node in f.maker.fgraph.apply_nodes]
        self.assertEqual(any(isinstance(o, OpFromGraph) for o in ops), not inline)
        g = theano.function([x, y, z], pickle.loads(pickle.dumps(outer(x, y, z), -1)).owner.op(x, y, z))
        np.testing.assert_allclose(g(A, B, C), (A + B * C) + (A - B) * C)

    @both
    def test_several_functions(self, inline):
        """Several functions that are compiled from one OpFromGraph give correct results.

        Each function has its own copies of the constants in the inner graph, including constants in indices.
        """
        x = T.dvector("x")
        for outputs in ([x[-1] * 2], [x[::-1][1]], [T.set_subtensor(x[-1], 3.0)], [T.constant(5.0)]):
            y = OpFromGraph([x], outputs, inline=inline)(x)
            modes = "FAST_RUN", "FAST_COMPILE", theano.Mode("py", "fast_run")
            functions = [theano.function([x], y + k, mode=m, on_unused_input="ignore") for m in modes for k in range(2)]
            expected = theano.function([x], outputs, on_unused_input="ignore")([1.0, 2.0, 4.0])[0]
            for k, f in enumerate(functions):
                np.testing.assert_array_equal(f([1.0, 2.0, 4.0]), expected + k % 2)

    @both
    def test_shapes_in_several_functions(self, inline):
        """Shapes of an OpFromGraph are correct in each of several functions.

        The shapes depend on constants of the inner graph, and each function has its own copies of the constants.
        """
        x = T.lvector("x")
        for computed in (T.alloc(1.0, x.shape[0] + x[2]), T.nonzero(x)[0]):
            y = OpFromGraph([x], [computed], inline=inline)(x)
            with theano.config.change_flags(on_opt_error="raise"):
                functions = [theano.function([x], outputs) for outputs in ([y.shape[0]], [y.shape[0], y], [y.shape[0]])]
            right = theano.function([x], computed)([1, 0, 4]).size
            self.assertEqual([int(f([1, 0, 4])[0]) for f in functions], [right] * 3)

    @both
    def test_gradients(self, inline):
        x, y, z = self.x, self.y, self.z
        op = OpFromGraph([x, y, z], [x + y * z, (x**2).sum()], inline=inline)
        rng = np.random.RandomState(1)
        points = [rng.rand(2, 3) for _ in range(3)]
        verify_grad(lambda *v: op(*v)[0] * T.exp(op(*v)[1]), points, rng=rng)
        # The cost uses only the first output of `op`, so the gradient of the second output is disconnected. The call of
        # `verify_grad` also tests second derivatives.
        verify_grad(lambda v: T.grad((op(v, v, v)[0] ** 2).sum(), v), points[:1], rng=rng)
        self.assertEqual(op.connection_pattern(None), [[True, True], [True, False], [True, False]])
        self.assertRaises(theano.gradient.DisconnectedInputError, T.grad, op(x, y, z)[1], y)
        du, dv = T.dmatrices("du", "dv")
        rop = theano.function([x, y, z, du, dv], T.Rop(op(x, y, z)[0], [x, y], [du, dv]), on_unused_input="ignore")
        np.testing.assert_allclose(rop(A, B, C, B, C), B + C * C)

    @both
    def test_shared_variables_are_inputs(self, inline):
        x, y = self.x, self.y
        s = theano.shared(np.full((2, 3), 7.0), name="s")
        t = theano.shared(np.asarray(2.0), name="t")
        op = OpFromGraph(
            [x, y], [x * s + y * t], inline=inline, grad_overrides=lambda inputs, g: [g[0] * 10, g[0] * 20]
        )
        e = op(x, y)
        f = theano.function([x, y], [e] + T.grad(e.sum(), [x, s, t]), updates=[(s, s + 1)])
        for k in (7.0, 8.0):
            value, gx, gs, gt = f(A, B)
            np.testing.assert_allclose(value, A * k + B * 2)
            np.testing.assert_allclose(gx, np.full_like(A, 10))
            np.testing.assert_allclose(gs, A)
            np.testing.assert_allclose(gt, B.sum())
        t.set_value(3.0)
        np.testing.assert_allclose(f(A, B)[0], A * 9 + B * 3)

    @both
    def test_grad_overrides(self, inline):
        x, y = self.x, self.y

        def grad(inputs, gradients):
            return [gradients[0] * inputs[1] * 2, gradients[0] * inputs[0] * 3]

        one = lambda inputs, gradients: gradients[0] * inputs[0] * 3
        g = T.dmatrix()
        as_op = OpFromGraph([x, y, g], [g * y * 2, g * x * 3])
        for override in (grad, as_op, [lambda inputs, gradients: gradients[0] * inputs[1] * 2, one]):
            op = OpFromGraph([x, y], [x * y], inline=inline, grad_overrides=override)
            f = theano.function([x, y], T.grad(op(x, y).sum(), [x, y]))
            for got, want in zip(f(A, B), (B * 2, A * 3)):
                np.testing.assert_allclose(got, want)
        op = OpFromGraph([x, y], [x * y], inline=inline, grad_overrides=["default", one])
        np.testing.assert_allclose(
            theano.function([x, y], T.grad(op(x, y).sum(), x), on_unused_input="ignore")(A, B), B
        )
        op.set_grad_overrides(grad)
        np.testing.assert_allclose(
            theano.function([x, y], T.grad(op(x, y).sum(), x), on_unused_input="ignore")(A, B), B * 2
        )

    @both
    def test_lop_and_rop_overrides(self, inline):
        x, y, u, v = self.x, self.y, T.dmatrix("u"), T.dmatrix("v")
        lop = lambda inputs, outputs, gradients: [outputs[0] * gradients[0], gradients[0] * 5]
        rop = lambda inputs, points: [inputs[1] * points[0] * 2 + points[1]]
        op = OpFromGraph([x, y], [T.exp(x) * y], inline=inline, lop_overrides=lop, rop_overrides=rop)
        gx, gy = theano.function([x, y], T.grad(op(x, y).sum(), [x, y]), on_unused_input="ignore")(A, B)
        np.testing.assert_allclose(gx, np.exp(A) * B)
        np.testing.assert_allclose(gy, np.full_like(A, 5))
        f = theano.function([x, y, u, v], T.Rop(op(x, y), [x, y], [u, v]), on_unused_input="ignore")
        np.testing.assert_allclose(f(A, B, C, A), B * C * 2 + A)
        op.set_rop_overrides([lambda inputs, points: points[0]])
        f = theano.function([x, y, u, v], T.Rop(op(x, y), [x, y], [u, v]), on_unused_input="ignore")
        np.testing.assert_allclose(f(A, B, C, A), C)
        op.set_rop_overrides("default")
        f = theano.function([x, y, u], T.Rop(op(x, y), x, u), on_unused_input="ignore")
        np.testing.assert_allclose(f(A, B, C), np.exp(A) * B * C)
        op.set_lop_overrides("default")
        np.testing.assert_allclose(
            theano.function([x, y], T.grad(op(x, y).sum(), y), on_unused_input="ignore")(A, B), np.exp(A)
        )

    def test_absent_gradients(self):
        x, y, z = self.x, self.y, self.z
        op = OpFromGraph([x, y, z], [x * y * z], grad_overrides=["default", DisconnectedType()(), NullType("none")()])
        self.assertEqual(op.connection_pattern(None), [[True], [False], [True]])
        cost = op(x, y, z).sum()
        np.testing.assert_allclose(T.grad(cost, x).eval({x: A, y: B, z: C}), B * C)
        self.assertRaises(theano.gradient.DisconnectedInputError, T.grad, cost, y)
        self.assertRaises(NullTypeGradError, T.grad, cost, z)
        self.assertIsInstance(T.grad(cost, z, null_gradients="return").type, NullType)
        i = T.lvector("i")
        mixed = OpFromGraph([x, i], [x[i], i * 2])
        np.testing.assert_allclose(T.grad(mixed(x, i)[0].sum(), x).eval({x: A, i: [1, 1, 0]}), [[1, 1, 1], [2, 2, 2]])
        given = OpFromGraph([x, y], [x + y], connection_pattern=[[True], [False]])
        self.assertEqual(given.connection_pattern(None), [[True], [False]])

    def test_none_and_tuples_as_overrides(self):
        x, y = self.x, self.y
        for override, wanted in (
            (None, [0, 0]),
            (("default", None), [2, 0]),
            ((None, lambda inputs, g: g[0] * 5), [0, 5]),
            (lambda inputs, g: [None, g[0] * 7], [0, 7]),
        ):
            op = OpFromGraph([x, y], [x * 2 + y], grad_overrides=override)
            found = T.grad(op(x, y).sum(), [x, y], disconnected_inputs="ignore")
            for value, k in zip(theano.function([x, y], found, on_unused_input="ignore")(A, A), wanted):
                np.testing.assert_array_equal(value, np.full_like(A, k))
        self.assertEqual(OpFromGraph([x], [x * 2], lop_overrides=None).connection_pattern(None), [[False]])
        for override in (None, (None,), lambda inputs, points: [None]):
            op = OpFromGraph([x], [x * 2], rop_overrides=override)
            self.assertEqual(op.R_op([x], [y]), [None])

    def test_what_is_refused(self):
        x, y = self.x, self.y
        self.assertRaises(TypeError, OpFromGraph, x, [x])
        self.assertRaises(TypeError, OpFromGraph, [x], x + 1)
        self.assertRaises(TypeError, OpFromGraph, [1], [x])
        self.assertRaises(TypeError, OpFromGraph, [x, x], [x])
        self.assertRaises(TypeError, OpFromGraph, [x], [x + 1], updates={})
        self.assertRaises(TypeError, OpFromGraph, [x], [x + 1], givens={})
        self.assertRaisesRegex(
            TypeError,
            "inlined: neither OpFromGraph nor function has such an argument",
            OpFromGraph,
            [x],
            [x + 1],
            inlined=True,
        )
        self.assertRaises(TypeError, OpFromGraph, [x], [x + 1], grad_overrides=3)
        self.assertRaises(ValueError, OpFromGraph, [x], [x + 1], grad_overrides=[])
        self.assertRaises(ValueError, OpFromGraph, [x], [x + 1], grad_overrides=len, lop_overrides=len)
        self.assertRaises(ValueError, OpFromGraph, [x], [x + 1], connection_pattern=[[True, True]])
        self.assertRaises(MissingInputError, OpFromGraph, [x], [x + y])
        op = OpFromGraph([x, y], [x + y])
        self.assertRaises(ValueError, op, x)
        self.assertRaises(TypeError, op, x, T.dvector())
        wrong = OpFromGraph([x], [x * 2], grad_overrides=lambda inputs, g: g * 3)
        self.assertRaises(ValueError, T.grad, wrong(x).sum(), x)

    def test_outputs_do_not_share_memory(self):
        x = self.x
        op = OpFromGraph([x], [x, x.T, x])
        a, b, c = theano.function([x], op(x))(A)
        self.assertFalse(np.shares_memory(a, A) or np.shares_memory(a, b) or np.shares_memory(a, c))
        cost = sum((k * out**2).sum() for k, out in enumerate(op(x), 1))
        np.testing.assert_allclose(theano.function([x], T.grad(cost, x))(A), 2 * A * 6)

    def test_sigmoid_binary_crossentropy(self):
        o, t = np.array([-40.0, 0.3, 800.0]), np.array([0.1, 0.7, 1.0])
        x, y = T.dvectors("xy")
        e = T.nnet.sigmoid_binary_crossentropy(x, y)
        value, gx, gy = theano.function([x, y], [e] + T.grad(e.sum(), [x, y]))(o, t)
        np.testing.assert_allclose(value, np.logaddexp(0, o) - o * t, atol=1e-12)
        np.testing.assert_allclose(gx, 1 / (1 + np.exp(-o)) - t, atol=1e-15)
        np.testing.assert_allclose(gy, -o)


class TestShapes(utt.InferShapeTester):
    def test_infer_shape(self):
        x, y = T.dmatrices("xy")
        i = T.lscalar("i")
        op = OpFromGraph([x, y, i], [T.dot(x, y), x[:i], T.join(1, x, x), i * 2], name="shapes")
        values = [np.ones((3, 4)), np.ones((4, 5)), 2]
        self._compile_and_check([x, y, i], op(T.exp(x), y, i)[:3], values, OpFromGraph)
        g = theano.function([x, y, i], [op(x, y, i)[3], op(x, y, i)[0].shape])
        self.assertEqual([v.tolist() for v in g(*values)], [4, [3, 5]])


if __name__ == "__main__":
    unittest.main()
