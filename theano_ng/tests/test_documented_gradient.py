"""Tests of the documented statements about theano.gradient."""

import unittest
import warnings

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import gradient
from theano_ng.gradient import DisconnectedInputError, GradientError, NullTypeGradError
from theano_ng.scalar import log as scalar_log
from theano_ng.tensor.tests.generated import Compared

PLAIN = "FAST_COMPILE"


class Grad(unittest.TestCase):
    def test_one_function_under_three_names(self):
        self.assertIs(theano.grad, gradient.grad)
        self.assertIs(T.grad, gradient.grad)
        self.assertIs(theano.subgraph_grad, gradient.subgraph_grad)
        for module in (T, gradient):
            for name in (
                "Lop",
                "Rop",
                "verify_grad",
                "numeric_grad",
                "jacobian",
                "hessian",
                "consider_constant",
                "zero_grad",
                "disconnected_grad",
                "grad_not_implemented",
                "grad_undefined",
                "DisconnectedType",
            ):
                self.assertIs(getattr(module, name, getattr(gradient, name)), getattr(gradient, name))

    def test_known_gradients_beside_a_cost(self):
        x = T.dvector("x")
        h, other = T.exp(x), x**2
        g = gradient.grad(other.sum(), x, known_grads={h: T.ones_like(h) * 3})
        v = np.array([0.5, -1.0])
        np.testing.assert_allclose(theano.function([x], g, mode=PLAIN)(v), 3 * np.exp(v) + 2 * v)
        with self.assertRaises((AssertionError, ValueError, TypeError)):
            gradient.grad(None, x)

    def test_what_a_disconnected_input_gets(self):
        x, y = T.dvector("x"), T.dmatrix("y")
        for policy, form, check in (
            (
                "ignore",
                "zero",
                lambda g: np.testing.assert_array_equal(
                    theano.function([y], g, mode=PLAIN)(np.ones((2, 3))), np.zeros((2, 3))
                ),
            ),
            ("warn", "None", self.assertIsNone),
            ("ignore", "Disconnected", lambda g: self.assertIsInstance(g.type, gradient.DisconnectedType)),
        ):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                gx, gy = gradient.grad(x.sum(), [x, y], disconnected_inputs=policy, return_disconnected=form)
            self.assertEqual(len(caught), policy == "warn")
            self.assertEqual(gx.type, x.type)
            check(gy)
        with self.assertRaisesRegex(DisconnectedInputError, "y"):
            gradient.grad(x.sum(), [x, y])
        for word in (
            dict(disconnected_inputs="never"),
            dict(return_disconnected="nothing"),
            dict(null_gradients="sometimes"),
        ):
            with self.assertRaises(ValueError):
                gradient.grad(x.sum(), x, **word)

    def test_names(self):
        a, b = T.dscalar("a"), T.dscalar()
        cost = a * b
        self.assertIsNone(gradient.grad(cost, a).name)
        cost.name = "cost"
        self.assertEqual(gradient.grad(cost, a).name, "(dcost/da)")
        self.assertIsNone(gradient.grad(cost, b).name)

    def test_undefined_and_not_implemented_name_the_op_and_the_input(self):
        x, y = T.dvector("x"), T.dvector("y")
        op = T.add(x, y).owner.op
        undefined = gradient.grad_undefined(op, 1, y, "because of the test")
        missing = gradient.grad_not_implemented(op, 1, y, "nobody wrote it")
        messages = set()
        for variable, words in ((undefined, "because of the test"), (missing, "nobody wrote it")):
            self.assertIsInstance(variable.type, gradient.NullType)
            with self.assertRaises(TypeError) as caught:
                theano.function([x, y], variable, on_unused_input="ignore")
            self.assertIn(words, str(caught.exception))
            self.assertRegex(str(caught.exception), r"\b1\b")
            messages.add(str(caught.exception).replace(words, ""))
        self.assertEqual(len(messages), 2)

    def test_null_gradients(self):
        x = T.dvector("x")
        cost = gradient.undefined_grad(x).sum()
        with self.assertRaises(NullTypeGradError):
            gradient.grad(cost, x)
        returned = gradient.grad(cost, x, null_gradients="return")
        self.assertIsInstance(returned.type, gradient.NullType)

    def test_cost_has_to_be_a_scalar_and_wrt_variables(self):
        x = T.dvector("x")
        with self.assertRaisesRegex(TypeError, "scalar"):
            gradient.grad(x * 2, x)
        with self.assertRaises(TypeError):
            gradient.grad(x.sum(), 3.0)


class ShapingIdentities(unittest.TestCase):
    def test_values_are_unchanged(self):
        x = T.dvector("x")
        shapes = [
            gradient.consider_constant,
            gradient.disconnected_grad,
            gradient.zero_grad,
            gradient.undefined_grad,
            lambda v: gradient.grad_clip(v, -1, 1),
            lambda v: gradient.grad_scale(v, -2),
        ]
        v = np.array([3.0, np.nan, -np.inf])
        for mode in (PLAIN, "FAST_RUN"):
            for got in theano.function([x], [shape(x) for shape in shapes], mode=mode)(v):
                np.testing.assert_array_equal(got, v)

    def test_zero_is_connected_and_disconnected_is_not(self):
        x = T.dvector("x")
        np.testing.assert_array_equal(gradient.grad(gradient.zero_grad(x).sum(), x).eval({x: [1.0, 2.0]}), [0, 0])
        np.testing.assert_array_equal(
            gradient.grad(gradient.consider_constant(x).sum(), x).eval({x: [1.0, 2.0]}), [0, 0]
        )
        for blocked in (gradient.zero_grad, gradient.consider_constant):
            tangent = gradient.Rop(x * blocked(x**2), x, T.ones_like(x))
            np.testing.assert_array_equal(tangent.eval({x: [1.0, 2.0]}), [1, 4])
        with self.assertRaises(DisconnectedInputError):
            gradient.grad(gradient.disconnected_grad(x).sum(), x)
        with self.assertRaisesRegex(NullTypeGradError, "(?i)undefined"):
            gradient.grad(gradient.undefined_grad(x).sum(), x)

    def test_documented_clip_and_scale(self):
        x = T.scalar()
        z, z2 = T.grad(gradient.grad_clip(x, -1, 1) ** 2, x), T.grad(x**2, x)
        self.assertEqual([float(v) for v in theano.function([x], outputs=[z, z2])(2.0)], [1.0, 4.0])
        x = T.fscalar()
        y = T.sin(x)
        self.assertAlmostEqual(float(theano.function([x], T.grad(y, x))(2)), -0.416, 3)
        scaled = gradient.grad_scale(y, -1.0)
        self.assertAlmostEqual(float(theano.function([x], T.grad(scaled, x))(2)), 0.416, 3)

    @unittest.skipIf(theano.config.mode == "FAST_COMPILE", "FAST_COMPILE does not run this rewrite")
    def test_clip_is_a_view_that_the_rewrites_remove(self):
        x = T.dvector("x")
        clipped = gradient.grad_clip(x, -1, 1)
        self.assertEqual(clipped.owner.op.view_map, {0: [0]})
        f = theano.function([x], clipped * 2, mode="FAST_RUN")
        self.assertFalse([node for node in f.maker.fgraph.toposort() if isinstance(node.op, gradient.GradClip)])


class Operators(unittest.TestCase):
    def test_containers(self):
        x, y, dx, dy = (T.dvector(n) for n in ("x", "y", "dx", "dy"))
        f, g = x * y, x + y
        self.assertIsInstance(gradient.Lop(f, x, dx), theano.Variable)
        self.assertIsInstance(gradient.Lop([f, g], [x, y], [dx, dy]), list)
        self.assertIsInstance(gradient.Lop([f, g], (x, y), [dx, dy]), tuple)
        self.assertIsInstance(gradient.Rop(f, [x, y], [dx, dy]), theano.Variable)
        self.assertIsInstance(gradient.Rop([f, g], [x, y], [dx, dy]), list)
        self.assertIsInstance(gradient.Rop((f, g), x, dx), tuple)
        with self.assertRaises(ValueError):
            gradient.Rop(f, [x, y], [dx])
        with self.assertRaises((ValueError, TypeError)):
            gradient.Rop(f, x, T.dmatrix())

    def test_values_of_several(self):
        x, y, dx, dy = (T.dvector(n) for n in ("x", "y", "dx", "dy"))
        outs = [x * y, T.exp(x)]
        forward = gradient.Rop(outs, [x, y], [dx, dy])
        backward = gradient.Lop(outs, [x, y], [dx, dy])
        v, w, p, q = np.random.RandomState(3).randn(4, 3)
        got = theano.function([x, y, dx, dy], forward + backward, mode=PLAIN)(v, w, p, q)
        for a, b in zip(got, [p * w + v * q, np.exp(v) * p, p * w + q * np.exp(v), p * v]):
            np.testing.assert_allclose(a, b)

    def test_lop_options(self):
        x, y, u = T.dvector("x"), T.dvector("y"), T.dvector("u")
        h = x**2
        g = gradient.Lop(h * x, x, u, consider_constant=[h])
        np.testing.assert_allclose(g.eval({x: [2.0, 3.0], u: [1.0, 1.0]}), [4, 9])
        with self.assertRaises(DisconnectedInputError):
            gradient.Lop(h, y, u)
        np.testing.assert_array_equal(gradient.Lop(h, y, u, disconnected_inputs="ignore").eval({y: [2.0, 3.0]}), [0, 0])

    def test_rop_through_complex_numbers(self):
        """`Rop` agrees with finite differences along the directions, and is complex exactly if the output is."""
        rng = np.random.RandomState(4)
        step = 1e-6
        f = None
        for dtype in ("complex128", "complex64"):
            z, d = (T.vector(n, dtype=dtype) for n in "zd")
            x, e = (T.vector(n, dtype="float64" if dtype == "complex128" else "float32") for n in "xe")
            values = [(rng.randn(3) + 1j * rng.randn(3)).astype(dtype) for _ in range(2)] + [
                rng.rand(3).astype(x.dtype) for _ in range(2)
            ]
            outs = [
                z * z * x,
                x / z,
                T.real(z),
                T.imag(z) * x,
                abs(z),
                T.conj(z),
                T.angle(z),
                T.complex(x, x * x),
                z + T.cast(x, dtype),
            ]
            tangents = gradient.Rop(outs, [z, x], [d, e])
            self.assertEqual([(t.ndim, t.dtype[0]) for t in tangents], [(o.ndim, o.dtype[0]) for o in outs])
            got = theano.function([z, d, x, e], tangents, mode=PLAIN)(*values)
            f = f or theano.function([z, x], outs, mode=PLAIN)
            wide = [v.astype("complex128" if v.dtype.kind == "c" else "float64") for v in values]
            above, below = (f(wide[0] + sign * step * wide[1], wide[2] + sign * step * wide[3]) for sign in (1, -1))
            for tangent, up, down in zip(got, above, below):
                np.testing.assert_allclose(tangent, (up - down) / (2 * step), rtol=1e-5, atol=1e-5)

    def test_rop_of_a_disconnected_output(self):
        x, y, v = T.dvector("x"), T.dvector("y"), T.dvector("v")
        with self.assertRaises(DisconnectedInputError):
            gradient.Rop(y, x, v)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            zero = gradient.Rop(y, x, v, disconnected_outputs="warn")
        self.assertEqual(len(caught), 1)
        np.testing.assert_array_equal(zero.eval({y: [1.0, 2.0, 3.0]}), [0, 0, 0])
        self.assertIsNone(gradient.Rop(y, x, v, disconnected_outputs="ignore", return_disconnected="None"))
        self.assertIsInstance(
            gradient.Rop(y, x, v, disconnected_outputs="ignore", return_disconnected="Disconnected").type,
            gradient.DisconnectedType,
        )


class Subgraph(unittest.TestCase):
    def test_layer_by_layer(self):
        """The documented loop over the layers of a network computes the gradients of the whole network."""
        rng = np.random.RandomState(5)
        x, t = T.fvector("x"), T.fvector("t")
        w1 = theano.shared(rng.randn(3, 4).astype("float32"))
        w2 = theano.shared(rng.randn(4, 2).astype("float32"))
        a1 = T.tanh(T.dot(x, w1))
        a2 = T.tanh(T.dot(a1, w2))
        cost2 = T.sqr(a2 - t).sum() + T.sqr(w2.sum())
        cost1 = T.sqr(w1.sum())
        params, costs, grad_ends = [[w2], [w1]], [cost2, cost1], [[a1], [x]]
        next_grad, param_grads = None, []
        for i in range(2):
            param_grad, next_grad = theano.subgraph_grad(
                wrt=params[i], end=grad_ends[i], start=next_grad, cost=costs[i]
            )
            next_grad = dict(zip(grad_ends[i], next_grad))
            param_grads.extend(param_grad)
        whole = theano.grad(cost2 + cost1, [w2, w1])
        got = theano.function([x, t], param_grads + whole)(np.ones(3, "float32"), np.zeros(2, "float32"))
        for a, b in zip(got[:2], got[2:]):
            np.testing.assert_allclose(a, b, rtol=1e-5)

    def test_details(self):
        x = T.dvector("x")
        h = x**2
        e = T.exp(h)
        wrt, end, from_start, from_cost = gradient.subgraph_grad(
            [h], [x], start={e: T.ones_like(e)}, cost=(3 * h).sum(), details=True
        )
        self.assertEqual([len(part) for part in (wrt, end, from_start, from_cost)], [1, 1, 1, 1])
        v = np.array([0.5, -1.0])
        got = theano.function([x], [wrt[0], end[0], from_start[0], from_cost[0]], mode=PLAIN)(v)
        expected = [np.exp(v**2) + 3, 2 * v * (np.exp(v**2) + 3), np.exp(v**2), np.full(2, 3.0)]
        for a, b in zip(got, expected):
            np.testing.assert_allclose(a, b)

    def test_bad_arguments(self):
        x = T.dvector("x")
        with self.assertRaises((ValueError, AssertionError)):
            gradient.subgraph_grad([x], [x])
        with self.assertRaises(TypeError):
            gradient.subgraph_grad(x, [x], cost=x.sum())
        with self.assertRaises(TypeError):
            gradient.subgraph_grad([x], [x], start=[x])


class SlightlyWrong(theano.tensor.elemwise.Elemwise):
    """A logarithm with a relative error of 1 % in its gradient."""

    def __init__(self):
        super().__init__(scalar_log, name="slightly_wrong")

    def L_op(self, inputs, outputs, output_grads):
        return [output_grads[0] / inputs[0] * 1.01]

    grad = None


class FiniteDifferences(unittest.TestCase):
    def test_options(self):
        rng = np.random.RandomState(1)
        point = rng.rand(2, 3) + 0.5
        gradient.verify_grad(T.tanh, (np.asarray([[2, 3, 4], [-1, 3.3, 9.9]]),), rng=np.random)
        gradient.verify_grad(T.log, point, rng=rng)
        gradient.verify_grad(
            lambda a: T.dot(a, a.T), [point], n_tests=4, rng=rng, eps=0.5
        )  # central differences of a quadratic function are exact for every step size
        for dtype in ("float16", "float32", "float64"):
            gradient.verify_grad(T.sqr, [point.astype(dtype)], rng=rng, mode=PLAIN)
        gradient.verify_grad(T.log, [point.astype("float32")], rng=rng, cast_to_output_type=True, no_debug_ref=False)
        gradient.verify_grad(lambda a: T.cast(a, "float32") * 2, [point], rng=rng, out_type="float32")
        with self.assertRaises(TypeError):
            gradient.verify_grad(T.log, [point])
        with self.assertRaises(TypeError):
            gradient.verify_grad(T.sqr, [np.arange(3)], rng=rng)
        with self.assertRaises((TypeError, NotImplementedError)):
            gradient.verify_grad(lambda a: [a, a * 2], [point], rng=rng)

    def test_both_tolerances_have_to_be_exceeded(self):
        rng = np.random.RandomState(2)
        point = [np.array([0.5, 2.0])]
        with self.assertRaises(GradientError) as caught:
            gradient.verify_grad(SlightlyWrong(), point, rng=rng)
        error = caught.exception
        self.assertEqual((error.arg, error.shape), (0, (2,)))
        self.assertAlmostEqual(error.val1 / error.val2, 1.01, 4)
        for word in ("position", "argument 0", "abs. error", "rel. tolerance"):
            self.assertIn(word, str(error))
        gradient.verify_grad(SlightlyWrong(), point, rng=rng, abs_tol=1.0)
        gradient.verify_grad(SlightlyWrong(), point, rng=rng, rel_tol=0.5)

    def test_numeric_grad(self):
        found = gradient.numeric_grad(lambda a, b: (a**2).sum() * b, [np.array([1.0, -2.0]), np.array(3.0)])
        np.testing.assert_allclose(found.gf[0], [6, -12], rtol=1e-5)
        np.testing.assert_allclose(found.gf[1], 5, rtol=1e-5)
        absolute, relative = gradient.numeric_grad.abs_rel_err(np.array([1.0, 0.0]), np.array([1.5, 0.0]))
        np.testing.assert_allclose(absolute, [0.5, 0])
        np.testing.assert_allclose(relative, [0.2, 0])
        wrong = [np.array([6.0, -12.6]), np.array(5.0)]
        arg, position, abs_err, rel_err = found.max_err(wrong, 1e-3, 1e-3)
        self.assertEqual((arg, position), (0, 1))
        np.testing.assert_allclose([abs_err, rel_err], [0.6, 0.6 / 24.6], rtol=1e-4)
        for misfit in ([wrong[0]], [wrong[0][:1], wrong[1]]):
            with self.assertRaises(ValueError):
                found.abs_rel_errors(misfit)
        complex_valued = gradient.numeric_grad(
            lambda a: np.float32(np.sum(a) ** 2), np.array([1.0, 2.0]), out_type="float32"
        )
        np.testing.assert_allclose(complex_valued.gf, [6, 6], rtol=1e-2)

    def test_format_as(self):
        self.assertEqual(gradient.format_as(True, False, 1), [1])
        self.assertEqual(gradient.format_as(False, True, [1, 2]), (1, 2))
        self.assertEqual(gradient.format_as(False, False, [1]), 1)


class DocumentedRop(unittest.TestCase):
    """Tests of `Rop` with the Ops in the manual's list whose `Rop` has no other tests."""

    def test_list(self):
        rng = np.random.RandomState(7)
        v, m = rng.rand(6) + 0.5, rng.rand(3, 4)
        index, cols = np.array([2, 0, 2]), np.array([1, 3, 0])
        for build, points in (
            (lambda x: T.specify_shape(x, (6,)) ** 2, [v]),
            (lambda x: T.max_and_argmax(x, axis=1)[0], [m]),
            (lambda x: x[1:4] * 2, [v]),
            (lambda x, y: T.inc_subtensor(x[1:3], y**2), [v, v[:2]]),
            (lambda x, y: T.set_subtensor(x[::3], y**2), [v, v[:2]]),
            (lambda x: T.alloc(x, 3, 6) ** 2, [v]),
            (lambda x, y: T.dot(x, y), [m, m.T]),
            (lambda x: T.nnet.softmax(x), [m]),
            (lambda x: x * x.shape[0], [m]),
            (lambda x, y: T.join(0, x, y), [m, m[:1]]),
            (lambda x: T.unbroadcast(x, 0) ** 2, [m[:1]]),
            (lambda x: x.reshape((2, 3)) ** 2, [v]),
            (lambda x: x.flatten() ** 2, [m]),
            (lambda x: x.dimshuffle(1, "x", 0) ** 2, [m]),
            (lambda x: T.split(x, [2, 4], 2)[1] ** 2, [v]),
            (lambda x: T.tensor_from_scalar(T.scalar_from_tensor(x.sum())) * x, [v]),
            (lambda x: x[index] ** 2, [v]),
            (lambda x, y: T.inc_subtensor(x[index], y), [v, v[:3]]),
            (lambda x, y: T.inc_subtensor(x[index, cols], y**2), [m, v[:3]]),
            (lambda x: x[index, cols] ** 2, [m]),
            (lambda x: T.tile(x, (2, 2)) ** 2, [m]),
            (lambda x, y: T.outer(x, y), [v, v[:2]]),
            (lambda x: T.prod(x, axis=0), [m]),
            (lambda x: T.prod(x, no_zeros_in_input=True), [m]),
            (lambda x: T.min(x, axis=0), [m]),
            (lambda x, y: T.tensordot(x, y, [[0], [1]]), [m, m.T]),
        ):
            Compared(build, None).check_gradient(*points)


if __name__ == "__main__":
    unittest.main()
