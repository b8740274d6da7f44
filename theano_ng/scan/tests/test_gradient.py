"""Compare derivatives, connection patterns and shapes of loops with finite differences, NumPy loops and each other."""

import unittest
import warnings

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.gof.graph import ancestors
from theano_ng.gradient import (
    DisconnectedInputError,
    NullTypeGradError,
    disconnected_grad,
    grad_clip,
    hessian,
    jacobian,
    undefined_grad,
    verify_grad,
    zero_grad,
)
from theano_ng.scan import scan, until
from theano_ng.scan.op import Scan

# Rewriting hardly affects whether a derivative is correct, so a mode that compiles fast is enough.
FAST = "FAST_COMPILE"


def loops(variables):
    """Return the Scan nodes on which variables depend."""
    return list(dict.fromkeys(v.owner for v in ancestors(variables) if v.owner and isinstance(v.owner.op, Scan)))


def random_loop(rng, dtype="float64"):
    """Return a function that builds the cost of a random loop from variables, and values of these variables.

    The states have random taps and depend on one another, on a sequence with taps, on a matrix and on a vector.
    """
    n_states = rng.randint(1, 4)
    taps = [sorted(set(-rng.randint(1, 4, size=rng.randint(1, 3)))) for _ in range(n_states)]
    taps = [[int(t) for t in ts] for ts in taps]
    seq_taps = sorted({int(t) for t in rng.randint(-2, 2, size=rng.randint(1, 3))})
    with_until, with_result, size = rng.rand() < 0.3, rng.rand() < 0.5, 3
    used = [int(k) for k in rng.randint(0, 3, size=n_states)]
    backwards = bool(rng.rand() < 0.3)
    weights = rng.uniform(0.5, 1.5, size=(n_states + 1, 30, size)).astype(dtype)

    def cost(seq, W, b, *initials):
        def step(*args):
            args = list(args)
            rows = [args.pop(0) for _ in seq_taps]
            states = [[args.pop(0) for _ in ts] for ts in taps]
            W, b = args
            news = []
            for k, group in enumerate(states):
                total = b * rows[k % len(rows)]
                for j, s in enumerate(group):
                    total = total + (T.dot(s, W) if (j + k) % 2 else s * b * 0.5)
                total = total + 0.25 * states[k - 1][0]
                news.append(T.tanh(total) * (1.125 if k else 0.875))
            if with_result:
                news.append(news[0] * rows[0] + T.dot(W, news[-1]))
            if with_until:
                return news, until(news[0].sum() > 1e6)
            return news

        infos = [{"initial": i if ts != [-1] else i[0], "taps": ts} for i, ts in zip(initials, taps)]
        outs, _ = scan(
            step,
            sequences={"input": seq, "taps": seq_taps},
            outputs_info=infos + [None] * with_result,
            non_sequences=[W, b],
            go_backwards=backwards,
            return_list=True,
        )
        total = 0
        for k, (out, kind) in enumerate(zip(outs, used + [0])):
            weight = T.constant(weights[k])
            part = out * weight[: out.shape[0]] if kind == 0 else out[-1] if kind == 1 else out[1:] ** 2
            total = total + part.sum()
        return total

    arguments = [rng.uniform(-1, 1, size=shape).astype(dtype) for shape in [(7, size), (size, size), (size,)]]
    arguments += [rng.uniform(-1, 1, size=(-min(ts), size)).astype(dtype) for ts in taps]
    return cost, arguments


class RandomLoops(unittest.TestCase):
    def test_first_order(self):
        for seed in range(8):
            with self.subTest(seed=seed):
                rng = np.random.RandomState(seed)
                cost, arguments = random_loop(rng)
                verify_grad(cost, arguments, rng=rng, mode=FAST if seed % 2 else "FAST_RUN", n_tests=1)

    def test_float32(self):
        for seed in range(20, 22):
            rng = np.random.RandomState(seed)
            cost, arguments = random_loop(rng, "float32")
            variables = [T.as_tensor_variable(a).type() for a in arguments]
            gradients = theano.function(
                variables, T.grad(cost(*variables), variables, disconnected_inputs="ignore"), mode=FAST
            )(*arguments)
            wide = [T.TensorType("float64", v.broadcastable)() for v in variables]
            exact = theano.function(wide, T.grad(cost(*wide), wide, disconnected_inputs="ignore"), mode=FAST)(
                *arguments
            )
            for g, e in zip(gradients, exact):
                self.assertEqual(g.dtype, "float32")
                np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-4)

    def test_second_order(self):
        for seed in range(40, 43):
            with self.subTest(seed=seed):
                rng = np.random.RandomState(seed)
                cost, arguments = random_loop(rng)
                points = [rng.uniform(-1, 1, size=a.shape) for a in arguments]

                def along(*variables):
                    return sum(
                        (g * p).sum()
                        for g, p in zip(T.grad(cost(*variables), list(variables), disconnected_inputs="ignore"), points)
                    )

                verify_grad(along, arguments, rng=rng, mode=FAST, n_tests=1)

    def test_directional_derivatives(self):
        """Rop of a loop agrees with Lop, and Rop of its gradient agrees with the gradient of the gradient."""
        for seed in range(60, 64):
            with self.subTest(seed=seed):
                rng = np.random.RandomState(seed)
                cost, arguments = random_loop(rng)
                variables = [T.as_tensor_variable(a).type() for a in arguments]
                points = [v.type() for v in variables]
                value = cost(*variables)
                gradients = T.grad(value, variables, disconnected_inputs="ignore")
                along = sum((g * p).sum() for g, p in zip(gradients, points))
                rop = T.Rop(value, variables, points)
                rop_of_grad = T.Rop(gradients, variables, points)
                grad_of_grad = T.grad(along, variables, disconnected_inputs="ignore")
                f = theano.function(variables + points, [rop, along, *rop_of_grad, *grad_of_grad], mode=FAST)
                results = f(*arguments, *(rng.uniform(-1, 1, size=a.shape) for a in arguments))
                np.testing.assert_allclose(results[0], results[1], rtol=1e-10)
                k = len(variables)
                for r, g in zip(results[2 : 2 + k], results[2 + k :]):
                    np.testing.assert_allclose(r, g, rtol=1e-9, atol=1e-12)

    def test_shapes(self):
        for seed in range(80, 84):
            with self.subTest(seed=seed):
                rng = np.random.RandomState(seed)
                cost, arguments = random_loop(rng)
                variables = [T.as_tensor_variable(a).type() for a in arguments]
                value = cost(*variables)
                everything = [value, *T.grad(value, variables, disconnected_inputs="ignore")]
                outputs = [out for node in loops(everything) for out in node.outputs]
                f = theano.function(
                    variables, [*outputs, *(out.shape for out in outputs)], mode=FAST, on_unused_input="ignore"
                )
                results = f(*arguments)
                for out, shape in zip(results, results[len(outputs) :]):
                    self.assertEqual(out.shape, tuple(shape))

    def test_test_values(self):
        """Derivatives of loops, of gradients of loops, and of nested loops have test values.

        The variables inside the loops have no test values.
        """
        for policy in ("raise", "warn", "ignore"):
            rng = np.random.RandomState(80)
            cost, arguments = random_loop(rng)
            with theano.change_flags(compute_test_value=policy), warnings.catch_warnings():
                warnings.simplefilter("error")
                variables = [T.as_tensor_variable(a).type() for a in arguments]
                for v, a in zip(variables, arguments):
                    v.tag.test_value = a
                seq = variables[0]
                value = cost(*variables)
                gradients = T.grad(value, variables, disconnected_inputs="ignore")
                derived = [
                    T.grad((gradients[0] ** 2).sum(), seq),
                    T.Rop(value, seq, seq),
                    T.Rop(gradients[1], seq, seq),
                    scan(lambda row: T.grad(scan(lambda s: s * row, outputs_info=row, n_steps=2)[0].sum(), row), seq)[
                        0
                    ],
                ]
                results = gradients + derived
            values = theano.function(variables, results, mode=FAST, on_unused_input="ignore")(*arguments)
            for result, expected in zip(results, values):
                np.testing.assert_allclose(result.tag.test_value, expected, rtol=1e-10)


class Sums(unittest.TestCase):
    """Tests of gradients with respect to non-sequences."""

    def check(self, step, others, initial=None, n=5, size=3, sums=None):
        rng = np.random.RandomState(1)
        info = None if initial is None else initial

        def cost(x, *rest):
            infos, rest = ([rest[0]], rest[1:]) if info is not None else ([None], rest)
            outs, _ = scan(step, sequences=x, outputs_info=infos, non_sequences=list(rest))
            return (outs**2).sum()

        values = [rng.uniform(-1, 1, size=(n, size))] + ([info] if info is not None else []) + others
        for mode in (FAST, "FAST_RUN"):
            verify_grad(cost, values, rng=rng, mode=mode, n_tests=1)
        variables = [T.as_tensor_variable(v).type() for v in values]
        (node,) = [
            n
            for n in loops(T.grad(cost(*variables), variables, disconnected_inputs="ignore"))
            if n.op.name.startswith("grad_of_")
        ]
        if sums is not None:
            self.assertEqual(node.op.n_sit_sot - (initial is not None), sums)
        self.assertFalse(node.op.n_mit_mot)
        return node

    def setUp(self):
        rng = self.rng = np.random.RandomState(0)
        self.W, self.b, self.h = rng.randn(3, 3) / 2, rng.randn(3), rng.randn(3)

    def test_products_leave_the_loop(self):
        self.check(lambda x, h, W, b: T.tanh(T.dot(h, W) + x + b), [self.W, self.b], self.h, sums=0)
        self.check(lambda x, h, W: T.tanh(T.dot(W, h) + x), [self.W], self.h, sums=0)
        self.check(lambda x, W: T.dot(W, x), [self.W], sums=0)
        self.check(lambda x, W: T.dot(W.T, x) + T.dot(W, x * 2), [self.W], sums=0)
        self.check(lambda x, w: T.dot(x, w) * x, [self.b], sums=0)
        H = self.rng.randn(2, 3)
        self.check(lambda x, h, W, b: T.tanh(T.dot(h, W) + x + b), [self.W, self.b], H, sums=0)
        self.check(lambda x, h, W: T.tanh(T.dot(W, h.T).T + x), [self.W], H, sums=0)

    def test_parts_of_parameters(self):
        W = self.rng.randn(3, 6) / 2
        self.check(
            lambda x, h, W: T.tanh(T.dot(h, W[:, :3]) + x) * T.nnet.sigmoid(T.dot(h, W[:, 3:])), [W], self.h, sums=0
        )
        self.check(lambda x, h, W, b: T.tanh(T.dot(h, W) + x * b[0] + b[1:].sum()), [self.W, self.b], self.h)

    def test_numbers_and_elements(self):
        self.check(lambda x, h, a: T.tanh(h * a + x), [np.array(0.7)], self.h, sums=0)
        self.check(lambda x, h, d: T.tanh(h * d + x), [self.b], self.h, sums=1)
        self.check(lambda x, d: T.exp(x * d), [self.b], sums=0)
        self.check(lambda x, h, d: T.tanh(h + (d + d) * (d + d)) * x, [self.b], self.h)

    def test_one_parameter_used_again_and_again(self):
        """The graph of the gradient does not grow exponentially if a step doubles a parameter repeatedly."""

        def step(x, h, W):
            for _ in range(30):
                W = W + W
            return T.tanh(T.dot(h, W) * 1e-9 + x)

        self.check(step, [self.W], self.h)

    def test_no_steps(self):
        x, h, W = T.dmatrix(), T.dvector(), T.dmatrix()
        out, _ = scan(lambda x, h, W: T.tanh(T.dot(h, W) + x), sequences=x, outputs_info=h, non_sequences=W)
        for mode in (FAST, "FAST_RUN"):
            f = theano.function([x, h, W], T.grad(out.sum(), [x, h, W]), mode=mode)
            gx, gh, gw = f(np.zeros((0, 3)), self.h, self.W)
            self.assertEqual(gx.shape, (0, 3))
            np.testing.assert_array_equal(gh, np.zeros(3))
            np.testing.assert_array_equal(gw, np.zeros((3, 3)))


class Structure(unittest.TestCase):
    def rnn(self, cost_of):
        x, h, W = T.dmatrix("x"), T.dvector("h"), T.dmatrix("W")
        out, _ = scan(lambda x, h, W: T.tanh(T.dot(h, W) + x), sequences=x, outputs_info=h, non_sequences=W, name="rnn")
        return [x, h, W], out, T.grad(cost_of(out), [x, h, W])

    def test_name_and_sequences(self):
        """The backward loop reads values of the forward loop as sequences instead of recomputing them.

        Both loops have the same number of steps.
        """
        _, _, gradients = self.rnn(lambda out: (out**2).sum())
        backward, forward = sorted(loops(gradients), key=lambda node: node.op.name)
        self.assertEqual((backward.op.name, forward.op.name), ("grad_of_rnn", "rnn"))
        self.assertEqual((backward.op.n_seqs, backward.op.n_sit_sot, backward.op.n_nit_sot), (2, 1, 1))
        self.assertIs(backward.inputs[0], forward.inputs[0])
        names = [str(v.owner.op) for v in ancestors(backward.op.outputs) if v.owner]
        self.assertFalse([name for name in names if "tanh" in name])

    def test_only_the_last_row(self):
        """The gradient of the last row is the initial state of the backward loop; no sequence of zeros is created."""
        variables, out, gradients = self.rnn(lambda out: (out[-1] ** 2).sum())
        (backward,) = [node for node in loops(gradients) if node.op.name == "grad_of_rnn"]
        self.assertEqual(backward.op.n_seqs, 1)
        rng = np.random.RandomState(0)
        values = [rng.randn(4, 3), rng.randn(3), rng.randn(3, 3)]
        f = theano.function(variables, [(out[-1] ** 2).sum(), *gradients], mode=FAST)
        before, *found = f(*values)
        for k, g in enumerate(found):
            point = rng.randn(*values[k].shape)
            moved = [v + 1e-7 * point if i == k else v for i, v in enumerate(values)]
            np.testing.assert_allclose((f(*moved)[0] - before) / 1e-7, (g * point).sum(), rtol=1e-4, atol=1e-5)

    def test_several_parts_of_the_gradient(self):
        rng = np.random.RandomState(3)
        for cost_of in (
            lambda out: out[-1].sum() + (out**2).sum() + out[-1].prod(),
            lambda out: out[-2].sum() + out[-1, 0],
            lambda out: (out.owner.inputs[0] ** 2).sum() + out[0].sum(),
            lambda out: out.owner.inputs[0][-1].sum(),
        ):

            def cost(x, h, W):
                out, _ = scan(lambda x, h, W: T.tanh(T.dot(h, W) + x), sequences=x, outputs_info=h, non_sequences=W)
                return cost_of(out)

            verify_grad(cost, [rng.randn(4, 3), rng.randn(3), rng.randn(3, 3)], rng=rng, mode=FAST, n_tests=1)

    def test_linear_in_the_number_of_states(self):
        """The gradient's graph grows linearly with the number of states, not quadratically."""

        def size(k):
            x = T.dmatrix()
            hs, w = [T.dvector() for _ in range(k)], T.dvector()
            outs, _ = scan(
                lambda x, *hs: [T.tanh(h * hs[-1]) + hs[i - 1] * x for i, h in enumerate(hs[:-1])],
                sequences=x,
                outputs_info=hs,
                non_sequences=w,
                return_list=True,
            )
            gradients = T.grad(sum(out.sum() for out in outs), [x, w, *hs])
            nodes = {v.owner for v in ancestors(gradients) if v.owner}
            inner = {v.owner for node in loops(gradients) for v in ancestors(node.op.outputs) if v.owner}
            return len(nodes) + len(inner)

        sizes = [size(k) for k in (4, 8, 16)]
        self.assertEqual(sizes[2] - sizes[1], 2 * (sizes[1] - sizes[0]))

    def test_deep_steps(self):
        """A step that is a chain of many nodes is differentiated without recursion."""
        x, h = T.dvector(), T.dscalar()

        def step(x, h):
            for _ in range(3000):
                h = T.sin(h)
            return h + x

        out, _ = scan(step, sequences=x, outputs_info=h)
        self.assertEqual(len(T.grad(out[-1], [x, h])), 2)


class Nesting(unittest.TestCase):
    def test_two_levels(self):
        def cost(x, W, h):
            def inner(row, total, W):
                return T.tanh(T.dot(total, W) + row)

            def outer(rows, h, W):
                outs, _ = scan(inner, sequences=rows, outputs_info=h, non_sequences=W)
                return outs[-1] * 0.5 + outs.mean(axis=0)

            out, _ = scan(outer, sequences=x, outputs_info=h, non_sequences=W)
            return (out**2).sum()

        rng = np.random.RandomState(5)
        verify_grad(cost, [rng.randn(3, 2, 3), rng.randn(3, 3), rng.randn(3)], rng=rng, mode=FAST, n_tests=1)

    def test_gradient_inside(self):
        def cost(x, w):
            def step(x, s, w):
                return s - 0.1 * T.grad(T.sum((s * w - x) ** 2), s)

            out, _ = scan(step, sequences=x, outputs_info=T.zeros((2,)), non_sequences=w)
            return out[-1].sum()

        rng = np.random.RandomState(6)
        verify_grad(cost, [rng.randn(4, 2), rng.randn(2)], rng=rng, mode=FAST, n_tests=1)


class Until(unittest.TestCase):
    def test_executed_steps_only(self):
        x, w, h = T.dvector(), T.dscalar(), T.dscalar()
        out, _ = scan(lambda x, h, w: (h * w + x, until(h > 2)), sequences=x, outputs_info=h, non_sequences=w)
        for mode in (FAST, "FAST_RUN"):
            f = theano.function([x, w, h], T.grad(out[-1], [x, w, h]), mode=mode)
            gx, gw, gh = f([1, 1, 1, 1, 1, 1], 1.0, 0.5)
            # The states h are 0.5, 1.5, 2.5 and 3.5. The loop ends after the third step.
            np.testing.assert_array_equal(gx, [1, 1, 1, 0, 0, 0])
            self.assertEqual(gw, 0.5 + 1.5 + 2.5)
            self.assertEqual(gh, 1)

    def test_results_and_second_order(self):
        def cost(x, w):
            (h, y), _ = scan(
                lambda x, h, w: ([T.sin(h * w) + x, h * x], until(h > 1.9)),
                sequences=x,
                outputs_info=[T.zeros((), dtype="float64"), None],
                non_sequences=w,
            )
            gx, gw = T.grad((h**2).sum() + y.sum(), [x, w])
            return (gx**2).sum() + gw

        x = np.array([0.5, 0.7, 0.9, 1.2, 0.3, 0.4])
        verify_grad(cost, [x, np.array(1.2)], rng=np.random.RandomState(2), mode=FAST, n_tests=1)

    def test_shapes(self):
        x = T.dvector()
        (h, y), _ = scan(
            lambda x, h: ([h + x, T.stack([h, x])], until(h > 2)), sequences=x, outputs_info=[T.zeros(()), None]
        )
        f = theano.function([x], [h.shape, y.shape], mode=FAST)
        found = f(np.ones(9))
        np.testing.assert_array_equal(found[0], [4])
        np.testing.assert_array_equal(found[1], [4, 2])


class Truncated(unittest.TestCase):
    def reference(self, x, w, h0, limit):
        """Return gradients of the sum of squares of ``h[t] = tanh(w * h[t - 1]) + x[t]``.

        The gradients are truncated to the last `limit` steps.
        """
        h = [h0]
        for v in x:
            h.append(np.tanh(w * h[-1]) + v)
        gx, gw, carry = np.zeros_like(x), 0.0, 0.0
        for t in reversed(range(max(len(x) - limit, 0), len(x))):
            g = 2 * h[t + 1] + carry
            gx[t] = g
            slope = g * (1 - np.tanh(w * h[t]) ** 2)
            gw += slope * h[t]
            carry = slope * w
        return gx, gw, carry if limit >= len(x) else 0.0

    def test_against_a_loop(self):
        x, w, h = T.dvector(), T.dscalar(), T.dscalar()
        value = np.array([0.1, 0.2, 0.3, 0.4])
        for limit in (0, 1, 2, 4, 9):
            out, _ = scan(
                lambda x, h, w: T.tanh(h * w) + x, sequences=x, outputs_info=h, non_sequences=w, truncate_gradient=limit
            )
            f = theano.function([x, w, h], T.grad((out**2).sum(), [x, w, h]), mode=FAST)
            for found, wanted in zip(f(value, 0.5, 0.6), self.reference(value, 0.5, 0.6, limit)):
                np.testing.assert_allclose(found, wanted, rtol=1e-12)

    def test_taps(self):
        """Initial rows that the last steps read contribute to the gradient."""
        x, h = T.dvector(), T.dvector()
        out, _ = scan(
            lambda x, h3, h1: 2 * h3 + 3 * h1 + x,
            sequences=x,
            outputs_info={"initial": h, "taps": [-3, -1]},
            truncate_gradient=1,
        )
        f = theano.function([x, h], T.grad(out[-1], [x, h]), mode=FAST)
        gx, gh = f(np.zeros(2), np.ones(3))
        np.testing.assert_array_equal(gx, [0, 1])
        np.testing.assert_array_equal(gh, [0, 2, 0])


class Disconnected(unittest.TestCase):
    def setUp(self):
        self.x, self.h, self.w, self.n = T.dvector("x"), T.dscalar("h"), T.dscalar("w"), T.lscalar("n")

    def test_number_of_steps(self):
        out, _ = scan(lambda h, w: h * w, outputs_info=self.h, non_sequences=self.w, n_steps=self.n)
        self.assertRaises(DisconnectedInputError, T.grad, out[-1], self.n)

    def test_states_that_have_no_part(self):
        (a, b), _ = scan(
            lambda x, a, b, w: [a * x, b + w],
            sequences=self.x,
            outputs_info=[self.h, T.zeros(())],
            non_sequences=self.w,
        )
        self.assertRaises(DisconnectedInputError, T.grad, a[-1], self.w)
        self.assertRaises(DisconnectedInputError, T.grad, b[-1], self.x)
        gradients = T.grad(a.sum(), [self.x, self.h])
        (backward,) = [node for node in loops(gradients) if node.op.name.startswith("grad_of")]
        self.assertEqual(backward.op.n_sit_sot, 1)
        np.testing.assert_allclose(
            theano.function([self.x, self.h, self.w], gradients, mode=FAST)([2.0, 3.0], 5.0, 0.0)[0],
            [5 * (1 + 3), 5 * 2],
        )

    def test_states_that_only_keep(self):
        """Second derivatives of a loop are correct if the next state does not depend on the previous state.

        The initial rows affect only the results that read them.
        """
        rows, w0, x0 = T.dvector(), 2.0, [3.0, 5.0, 7.0]
        for initial, taps in ((self.h, [-1]), (rows, [-2, -1])):
            read = lambda x, *states_and_w: [states_and_w[-1] * x, states_and_w[-1] * states_and_w[0]]
            for step in (read, lambda *row: (read(*row), until(row[0] > 6))):
                (_, out), _ = scan(step, self.x, [{"initial": initial, "taps": taps}, None], self.w)
                by_w, by_initial = T.grad(out.sum(), [self.w, initial])
                second = T.grad(by_w, [self.w, initial])
                f = theano.function([self.x, initial, self.w], [by_w, by_initial, *second], mode=FAST)
                start = np.ones(len(taps))
                found = f(x0, start if len(taps) > 1 else 1.0, w0)
                later = sum(x0[: 3 - len(taps)])  # the sum of the x[t] whose state w * x[t] a later step reads
                expected = [len(taps) + 2 * w0 * later, w0 * start, 2 * later, start]
                for value, right in zip(found, expected):
                    np.testing.assert_allclose(np.ravel(value), np.ravel(right))

    def test_connection_over_steps(self):
        """The connection pattern contains dependencies that reach one more state in each step."""
        outs, _ = scan(
            lambda a, b, c, w: [w * 1.0, a * 2.0, b * 2.0],
            outputs_info=[self.h, self.h, self.h],
            non_sequences=self.w,
            n_steps=4,
        )
        (node,) = loops(outs)
        pattern = node.op.connection_pattern(node)
        self.assertEqual(pattern[0], [False] * 3)
        self.assertEqual(pattern[-1], [True] * 3)
        self.assertEqual(pattern[1:4], [[False, True, True], [False, False, True], [False, False, False]])
        inner = node.op.inner_connection_pattern()
        self.assertEqual(inner[-1], [True] * 3)
        self.assertEqual(inner[1], [False, False, True])
        f = theano.function([self.h, self.w], T.grad(outs[2][-1], self.w), mode=FAST)
        self.assertEqual(f(1.0, 2.0), 4.0)

    def test_inside(self):
        out, _ = scan(
            lambda x, h, w: disconnected_grad(h) * w + x, sequences=self.x, outputs_info=self.h, non_sequences=self.w
        )
        self.assertRaises(DisconnectedInputError, T.grad, out.sum(), self.h)
        f = theano.function([self.x, self.h, self.w], T.grad(out.sum(), [self.x, self.w]), mode=FAST)
        gx, gw = f([1.0, 2.0], 3.0, 5.0)
        np.testing.assert_array_equal(gx, [1, 1])
        self.assertEqual(gw, 3.0 + 16.0)

    def test_constants_inside(self):
        out, _ = scan(lambda x, h, w: zero_grad(h) * w + x, sequences=self.x, outputs_info=self.h, non_sequences=self.w)
        f = theano.function([self.x, self.h, self.w], T.grad(out.sum(), [self.x, self.h, self.w]), mode=FAST)
        gx, gh, gw = f([1.0, 2.0], 3.0, 5.0)
        np.testing.assert_array_equal(gx, [1, 1])
        self.assertEqual((gh, gw), (0.0, 19.0))

    def test_integers(self):
        """The gradient of an integer non-sequence is the floating point gradient of the step.

        An integer state has no gradient.
        """
        i = T.lscalar("i")
        out, _ = scan(lambda h, w, i: h * w + i, outputs_info=self.h, non_sequences=[self.w, i], n_steps=3)
        f = theano.function([self.h, self.w, i], T.grad(out[-1], i), mode=FAST)
        self.assertEqual(f(1.0, 2.0, 4), 7.0)
        (_, out), _ = scan(
            lambda x, k, h: [k + 1, h + x * k], sequences=self.x, outputs_info=[T.constant(0, dtype="int64"), self.h]
        )
        f = theano.function([self.x, self.h], T.grad(out[-1], [self.x, self.h]), mode=FAST)
        gx, gh = f([5.0, 6.0, 7.0], 1.0)
        np.testing.assert_array_equal(gx, [0, 1, 2])
        self.assertEqual(gh, 1.0)

    def test_a_state_that_only_an_integer_state_reads(self):
        """If results depend on a state only through an integer state, the gradient of the state is zero."""
        k, v, n = T.iscalar(), T.dvector(), T.lvector()

        def step(q, k, y, w):
            f = T.cast(k, "float64")
            return [k + T.cast(y.sum(), "int32"), T.cast(q, "float64") * f * T.ones_like(y), w * f]

        out, _ = scan(step, sequences=n, outputs_info=[k, v, None], non_sequences=self.w)
        gradients = T.grad(out[2].sum(), [v, self.w])
        for mode in (theano.Mode("py", None), FAST):
            gv, gw = theano.function([n, k, v, self.w], gradients, mode=mode)([1, 1, 1], 1, [0.5, 0.5, 0.5, 0.5], 2.0)
            # k is 1, 3, 7
            np.testing.assert_array_equal(gv, np.zeros(4))
            self.assertEqual(gw, 11.0)

    def test_undefined(self):
        out, _ = scan(
            lambda x, h, w: h * undefined_grad(w) + x, sequences=self.x, outputs_info=self.h, non_sequences=self.w
        )
        self.assertRaises(NullTypeGradError, T.grad, out.sum(), self.w)
        np.testing.assert_array_equal(
            theano.function([self.x, self.h, self.w], T.grad(out.sum(), self.x), mode=FAST)([1.0, 2.0], 3.0, 5.0),
            [6, 1],
        )

    def test_undefined_through_a_state(self):
        (a, b), _ = scan(
            lambda x, a, b, w: [undefined_grad(a) + x, b * w],
            sequences=self.x,
            outputs_info=[self.h, self.h],
            non_sequences=self.w,
        )
        self.assertRaises(NullTypeGradError, T.grad, a.sum() + b.sum(), self.x)
        self.assertRaises(NullTypeGradError, T.grad, a.sum(), self.h)
        f = theano.function([self.x, self.h, self.w], T.grad(a.sum() + b.sum(), self.w), mode=FAST)
        self.assertEqual(f([1.0, 2.0], 3.0, 5.0), 3.0 + 3.0 * 2 * 5)

    def test_clipped_inside(self):
        out, _ = scan(
            lambda x, h, w: grad_clip(h, -0.5, 0.5) * w + x, sequences=self.x, outputs_info=self.h, non_sequences=self.w
        )
        f = theano.function([self.x, self.h, self.w], T.grad(out[-1], [self.x, self.h]), mode=FAST)
        gx, gh = f([1.0, 2.0, 3.0], 3.0, 5.0)
        np.testing.assert_array_equal(gx, [0.5, 0.5, 1])
        self.assertEqual(gh, 0.5)


class MitMot(unittest.TestCase):
    """Tests of loops with mit_mot buffers. `scan` does not create such loops, but the gradient of a loop is one.

    Steps overwrite rows of these buffers, read rows before or after overwriting them, or skip rows.
    """

    def loop(self, taps, writes, step, n_others=1, result=False):
        inner = [T.dscalar() for _ in taps]
        others = [T.dscalar() for _ in range(n_others)]
        outs = step(*inner, *others)
        info = {
            "n_seqs": 0,
            "n_mit_mot": 1,
            "n_mit_mot_outs": len(writes),
            "n_mit_sot": 0,
            "n_sit_sot": 0,
            "n_shared_outs": 0,
            "n_nit_sot": int(result),
            "tap_array": [taps],
            "mit_mot_out_slices": [writes],
            "as_while": False,
            "name": "buffer",
        }
        return Scan(inner + others, outs, info)

    def check(self, taps, writes, step, rows, result=False):
        op = self.loop(taps, writes, step, result=result)
        n = 4

        def value(buffer, w):
            outs = op(n, buffer, *([n] if result else []), w, return_list=True)
            return sum((out**2 * T.arange(1, out.shape[0] + 1)).sum() for out in outs)

        rng = np.random.RandomState(4)
        arguments = [rng.uniform(0.5, 1, size=rows), np.array(0.7)]
        verify_grad(value, arguments, rng=rng, mode=FAST, n_tests=1)
        verify_grad(
            lambda buffer, w: sum((g**2).sum() for g in T.grad(value(buffer, w), [buffer, w])),
            arguments,
            rng=rng,
            mode=FAST,
            n_tests=1,
        )
        variables = [T.dvector(), T.dscalar()]
        points = [T.dvector(), T.dscalar()]
        found = theano.function(
            variables + points,
            [
                T.Rop(value(*variables), variables, points),
                sum((g * p).sum() for g, p in zip(T.grad(value(*variables), variables), points)),
            ],
            mode=FAST,
        )(*arguments, rng.rand(rows), 0.3)
        np.testing.assert_allclose(found[0], found[1], rtol=1e-12)

    def test_as_gradients_have_them(self):
        self.check([0, 1], [1], lambda a, b, w: [b + T.sin(a * w)], 5)

    def test_values_that_are_overwritten(self):
        self.check([0, 1], [1], lambda a, b, w: [T.sin(b * w) * a], 5)
        self.check([0, 1], [0, 1], lambda a, b, w: [T.sin(b * w) * a, T.cos(a * w) + b * 0.5], 5)

    def test_written_without_being_read(self):
        self.check([-1], [0, 2], lambda a, w: [T.sin(a * w), a * 2 * w], 7)
        self.check([1], [0], lambda a, w: [a * w * a], 6)

    def test_result(self):
        self.check([0, 1], [1], lambda a, b, w: [T.sin(b * w) * a, T.exp(b) * w], 5, result=True)


class Shared(unittest.TestCase):
    """Tests of states that are shared variables, such as random streams. A loop has no buffers for such states."""

    def test_what_depends_on_them_is_kept(self):
        x, h, s, w = T.dscalars("x", "h", "s", "w")
        info = {
            "n_seqs": 1,
            "n_mit_mot": 0,
            "n_mit_mot_outs": 0,
            "n_mit_sot": 0,
            "n_sit_sot": 1,
            "n_shared_outs": 1,
            "n_nit_sot": 0,
            "tap_array": [[-1]],
            "mit_mot_out_slices": [],
            "as_while": False,
            "name": "drawing",
        }
        op = Scan([x, h, s, w], [T.tanh(h * w + x) * zero_grad(T.cos(s)), s * 1.5 + 1], info)
        outer = {"x": T.dvector(), "h": T.dvector(), "s": T.dscalar(), "w": T.dscalar()}
        n = outer["x"].shape[0]
        buffer = T.set_subtensor(T.zeros((n + 1,))[:1], outer["h"])
        out, last = op(n, outer["x"], buffer, outer["s"], outer["w"], return_list=True)
        wrt = [outer["x"], outer["h"], outer["w"]]
        gradients = T.grad((out[1:] ** 2).sum(), wrt)
        values = [np.array([0.1, 0.4, -0.3]), np.array([0.7]), 0.3, 0.9]
        for mode in (FAST, "FAST_RUN"):
            f = theano.function(list(outer.values()), [(out[1:] ** 2).sum(), last, *gradients], mode=mode)
            value, last_value, *found = f(*values)
            self.assertAlmostEqual(float(last_value), ((0.3 * 1.5 + 1) * 1.5 + 1) * 1.5 + 1)
            for g, k in zip(found, (0, 1, 3)):
                moved = [v + 1e-7 if i == k else v for i, v in enumerate(values)]
                np.testing.assert_allclose((f(*moved)[0] - value) / 1e-7, g.sum(), rtol=1e-5)

    def test_they_have_no_gradient(self):
        x, s = T.dscalars("x", "s")
        info = dict.fromkeys(["n_mit_mot", "n_mit_mot_outs", "n_mit_sot", "n_sit_sot"], 0)
        info.update(
            n_seqs=1, n_shared_outs=1, n_nit_sot=1, tap_array=[], mit_mot_out_slices=[], as_while=False, name="f"
        )
        op = Scan([x, s], [x * s, s + 1], info)
        xs, first = T.dvector(), T.dscalar("first")
        out, _ = op(xs.shape[0], xs, first, xs.shape[0])
        with self.assertRaisesRegex(NullTypeGradError, "changes from step to step"):
            T.grad(out.sum(), first)
        f = theano.function([xs, first], T.grad(out.sum(), xs), mode=FAST)
        np.testing.assert_array_equal(f([1.0, 1.0, 1.0], 5.0), [5, 6, 7])
        # The gradient with respect to xs is undefined, too, if the shared state depends on xs: the part of the gradient
        # that does not pass through the state would be wrong.
        out, _ = Scan([x, s], [x * s, s + x], info)(xs.shape[0], xs, first, xs.shape[0])
        with self.assertRaisesRegex(NullTypeGradError, "changes from step to step"):
            T.grad(out.sum(), xs)


class JacobiansAndHessians(unittest.TestCase):
    def test_jacobian(self):
        x, W = T.dvector("x"), T.dmatrix("W")
        f = theano.function([x, W], jacobian(T.tanh(T.dot(W, x)), [x, W]), mode=FAST)
        rng = np.random.RandomState(0)
        v, m = rng.randn(3), rng.randn(2, 3)
        by_x, by_w = f(v, m)
        slope = 1 - np.tanh(m @ v) ** 2
        np.testing.assert_allclose(by_x, slope[:, None] * m)
        np.testing.assert_allclose(by_w, np.einsum("i,ij,k->ijk", slope, np.eye(2), v))

    def test_containers(self):
        x = T.dvector()
        self.assertIsInstance(jacobian(x**2, [x]), list)
        self.assertIsInstance(jacobian(x**2, (x,)), tuple)
        self.assertIsInstance(hessian((x**2).sum(), (x,)), tuple)
        with self.assertRaisesRegex(ValueError, "1 dim"):
            jacobian(T.dmatrix() * x, x)
        with self.assertRaisesRegex(TypeError, "0 dim"):
            hessian(x**2, x)
        self.assertRaises(TypeError, hessian, (T.dmatrix() * x).sum(), T.dmatrix())

    def test_hessian(self):
        x = T.dvector("x")
        cost = (x**3).sum() + x[0] * x[1]
        f = theano.function([x], hessian(cost, x))
        np.testing.assert_allclose(f([1.0, 2.0, 3.0]), [[6, 1, 0], [1, 12, 0], [0, 0, 18]])
        self.assertEqual(f(np.zeros(2)).shape, (2, 2))

    def test_of_a_loop(self):
        """The Jacobian of a loop is a loop over the gradient of the loop."""
        x, h = T.dvector(), T.dscalar()
        out, _ = scan(lambda x, h: h * x, sequences=x, outputs_info=h)
        f = theano.function([x, h], jacobian(out, [x, h]), mode=FAST)
        by_x, by_h = f([2.0, 3.0, 5.0], 7.0)
        np.testing.assert_allclose(by_x, [[7, 0, 0], [21, 14, 0], [105, 70, 42]])
        np.testing.assert_allclose(by_h, [2, 6, 30])
        f = theano.function([x, h], hessian(out[-1], x), mode=FAST)
        np.testing.assert_allclose(f([2.0, 3.0, 5.0], 7.0), [[0, 35, 21], [35, 0, 14], [21, 14, 0]])

    def test_written_out(self):
        """The loops that the tutorial writes out compute Jacobians and Hessians."""
        x = T.dvector("x")
        y = x**2
        J, updates = scan(lambda i, y, x: T.grad(y[i], x), sequences=T.arange(y.shape[0]), non_sequences=[y, x])
        np.testing.assert_array_equal(theano.function([x], J, updates=updates)([4, 4]), [[8, 0], [0, 8]])
        gy = T.grad(y.sum(), x)
        H, updates = scan(lambda i, gy, x: T.grad(gy[i], x), sequences=T.arange(gy.shape[0]), non_sequences=[gy, x])
        np.testing.assert_array_equal(theano.function([x], H, updates=updates)([4, 4]), [[2, 0], [0, 2]])
        with self.assertRaises(DisconnectedInputError):
            scan(lambda y_i, x: T.grad(y_i, x), sequences=y, non_sequences=x)

    def test_disconnected(self):
        x, z = T.dvector("x"), T.dvector("z")
        self.assertRaises(DisconnectedInputError, jacobian, x**2, z)
        zeros = jacobian(x**2, z, disconnected_inputs="ignore")
        f = theano.function([x, z], zeros, mode=FAST)
        np.testing.assert_array_equal(f([1.0, 2.0], [1.0, 2.0, 3.0]), np.zeros((2, 3)))
        self.assertRaises(NullTypeGradError, jacobian, undefined_grad(x) * 2, x)
        self.assertRaises(DisconnectedInputError, hessian, (x**2).sum(), z)
        np.testing.assert_array_equal(
            theano.function([x], hessian(x.sum(), x), mode=FAST)([1.0, 2.0]), np.zeros((2, 2))
        )


if __name__ == "__main__":
    unittest.main()
