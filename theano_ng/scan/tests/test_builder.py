import copy
import pickle
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scan, typed_list
from theano_ng.gof.fg import MissingInputError
from theano_ng.ifelse import ifelse
from theano_ng.printing import debugprint
from theano_ng.scan_module import until
from theano_ng.updates import OrderedUpdates

MODE = theano.Mode(linker="vm", optimizer="fast_compile")
X = np.arange(12.0).reshape(4, 3)
x, W = T.dmatrices("x", "W")
h0, v = T.dvectors("h0", "v")
n = T.iscalar("n")


def run(outputs, givens, updates=None):
    """Return the values of outputs for given values of variables."""
    f = theano.function(list(givens), outputs, updates=updates, mode=MODE, on_unused_input="ignore")
    return f(*givens.values())


def loop_of(variable):
    """Return the Scan node from which a result was computed."""
    while type(variable.owner.op).__name__ != "Scan":
        variable = variable.owner.inputs[0]
    return variable.owner


class TestDocumentedExamples(unittest.TestCase):
    def test_power(self):
        k, A = T.iscalar("k"), T.vector("A")
        result, updates = scan(
            fn=lambda prior_result, A: prior_result * A, outputs_info=T.ones_like(A), non_sequences=A, n_steps=k
        )
        power = theano.function(inputs=[A, k], outputs=result[-1], updates=updates, mode=MODE)
        np.testing.assert_array_equal(power(range(10), 2), [0, 1, 4, 9, 16, 25, 36, 49, 64, 81])
        np.testing.assert_array_equal(power(range(10), 4), np.arange(10.0) ** 4)

    def test_polynomial(self):
        coefficients, value = T.vector("coefficients"), T.scalar("x")
        components, _ = scan(
            fn=lambda coefficient, power, free_variable: coefficient * (free_variable**power),
            outputs_info=None,
            sequences=[coefficients, T.arange(10000)],
            non_sequences=value,
        )
        polynomial = theano.function([coefficients, value], [components.sum()], mode=MODE)
        self.assertEqual(polynomial(np.asarray([1, 0, 2], "float32"), 3), [19.0])

    def test_triangular_numbers(self):
        up_to = T.iscalar("up_to")
        seq = T.arange(up_to)
        total, _ = scan(
            fn=lambda arange_val, sum_to_date: sum_to_date + arange_val,
            outputs_info=T.as_tensor_variable(np.asarray(0, seq.dtype)),
            sequences=seq,
        )
        np.testing.assert_array_equal(run(total, {up_to: 15}), [i * (i + 1) // 2 for i in range(15)])
        with self.assertRaisesRegex(ValueError, "has dtype int8, while the result .* has dtype int64"):
            scan(lambda a, b: a + b, sequences=seq, outputs_info=T.as_tensor_variable(0))

    def test_values_at_positions(self):
        location, values, model = T.imatrix("location"), T.vector("values"), T.matrix("output_model")

        def set_value_at_position(a_location, a_value, output_model):
            zeros = T.zeros_like(output_model)
            return T.set_subtensor(zeros[a_location[0], a_location[1]], a_value)

        result, _ = scan(set_value_at_position, outputs_info=None, sequences=[location, values], non_sequences=model)
        places = np.asarray([[1, 1], [2, 3]], "int32")
        expected = np.zeros((2, 5, 5))
        expected[0, 1, 1], expected[1, 2, 3] = 42, 50
        found = run(
            result, {location: places, values: np.asarray([42, 50], "float32"), model: np.zeros((5, 5), "float32")}
        )
        np.testing.assert_array_equal(found, expected)

    def test_updates(self):
        a = theano.shared(1)
        values, updates = scan(lambda: {a: a + 1}, n_steps=10)
        self.assertIsNone(values)
        f = theano.function([], [a + 1, updates[a] + 1], updates=updates, mode=MODE)
        self.assertEqual([*map(int, f()), int(a.get_value())], [2, 12, 11])
        self.assertEqual([*map(int, f()), int(a.get_value())], [12, 22, 21])
        g = theano.function([], [a + 1, updates[a] + 1], mode=MODE)
        self.assertEqual([*map(int, g()), *map(int, g()), int(a.get_value())], [22, 32, 22, 32, 21])

    def test_chain_with_shared_weights(self):
        """A Gibbs chain gives equal results if its weights are non-sequences, and if the step captures them.

        The weights are shared variables. Instead of a random stream, the step uses a counter.
        """
        rng = np.random.RandomState(3)
        W_values = rng.randn(3, 2)
        weights, bvis, bhid = theano.shared(W_values), theano.shared(rng.randn(3)), theano.shared(rng.randn(2))
        count = theano.shared(0.0)
        count.default_update = count + 1

        def one_step(vsample, W=weights, bvis=bvis, bhid=bhid):
            hmean = T.nnet.sigmoid(theano.dot(vsample, W) + bhid)
            return T.nnet.sigmoid(theano.dot(hmean, W.T) + bvis) + count

        def sigmoid(z):
            return 1 / (1 + np.exp(-z))

        sample, state, expected = T.dvector(), np.ones(3), []
        for i in range(10):
            state = sigmoid(sigmoid(state @ W_values + bhid.get_value()) @ W_values.T + bvis.get_value()) + i
            expected.append(state)
        for options in ({}, {"non_sequences": [weights, bvis, bhid]}):
            count.set_value(0.0)
            values, updates = scan(one_step, outputs_info=sample, n_steps=10, **options)
            self.assertEqual(list(updates), [count])
            np.testing.assert_allclose(run(values[-1], {sample: np.ones(3)}, updates), expected[-1])
            self.assertEqual(count.get_value(), 10)
        with self.assertRaisesRegex(
            MissingInputError,
            r"used to compute .*, was not provided and not given a value.* ScanOp is missing an input",
        ):
            scan(one_step, outputs_info=sample, n_steps=10, strict=True)
        scan(one_step, outputs_info=sample, n_steps=10, strict=True, non_sequences=[weights, bvis, bhid])

    def test_recurrent_network(self):
        W, W_in_1, W_in_2, W_feedback, W_out = weights = T.dmatrices("W", "W_in_1", "W_in_2", "W_feedback", "W_out")
        u, x0, y0 = T.dmatrix(), T.dmatrix(), T.dvector()

        def one_step(u_tm4, u_t, x_tm3, x_tm1, y_tm1, W, W_in_1, W_in_2, W_feedback, W_out):
            x_t = T.tanh(
                theano.dot(x_tm1, W)
                + theano.dot(u_t, W_in_1)
                + theano.dot(u_tm4, W_in_2)
                + theano.dot(y_tm1, W_feedback)
            )
            return [x_t, theano.dot(x_tm3, W_out)]

        ([x_vals, y_vals], _) = scan(
            fn=one_step,
            sequences=dict(input=u, taps=[-4, -0]),
            outputs_info=[dict(initial=x0, taps=[-3, -1]), y0],
            non_sequences=list(weights),
            strict=True,
        )
        rng = np.random.RandomState(0)
        w, w1, w2, wf, wo = values = [rng.randn(*s) for s in ((2, 2), (3, 2), (3, 2), (2, 2), (2, 2))]
        us, xs, ys = rng.randn(9, 3), list(rng.randn(3, 2)), [rng.randn(2)]
        given = {**dict(zip(weights, values)), u: us, x0: np.array(xs), y0: ys[0]}
        for t in range(4, 9):
            new = np.tanh(xs[-1] @ w + us[t] @ w1 + us[t - 4] @ w2 + ys[-1] @ wf)
            ys.append(xs[-3] @ wo)
            xs.append(new)
        found = run([x_vals, y_vals], given)
        np.testing.assert_allclose(found[0], xs[3:])
        np.testing.assert_allclose(found[1], ys[1:])

    def test_powers_of_two(self):
        max_value = T.scalar()
        values, _ = scan(
            lambda previous_power, max_value: (previous_power * 2, until(previous_power * 2 > max_value)),
            outputs_info=T.constant(np.asarray(1.0, theano.config.floatX)),
            non_sequences=max_value,
            n_steps=1024,
        )
        np.testing.assert_array_equal(run(values, {max_value: 45}), [2, 4, 8, 16, 32, 64])

    def test_order_of_arguments(self):
        names = []
        s1, s2, s3, o1, o2, o3 = (T.dmatrix(name) for name in ("s1", "s2", "s3", "o1", "o2", "o3"))

        def step(*arguments):
            names.extend(a.name for a in arguments)
            return [arguments[5], arguments[5], arguments[7]]

        scan(
            step,
            sequences=[dict(input=s1, taps=[-3, 2, -1]), s2, dict(input=s3, taps=3)],
            outputs_info=[dict(initial=o1, taps=[-3, -5]), dict(initial=o2, taps=None), o3],
            non_sequences=[W, v],
        )
        self.assertEqual(
            names, ["s1[t-3]", "s1[t+2]", "s1[t-1]", "s2[t]", "s3[t+3]", "o1[t-3]", "o1[t-5]", "o3[t-1]", "W", "v"]
        )


class TestSequences(unittest.TestCase):
    def test_what_they_may_be(self):
        for given in (X, [X], (X,), dict(input=X), [X.tolist()], T.constant(X), theano.shared(X)):
            with self.subTest(type(given)):
                np.testing.assert_array_equal(run(scan(lambda row: row.sum(), given)[0], {}), X.sum(1))
        np.testing.assert_array_equal(run(scan(lambda i: i + 1, range(3))[0], {}), [1, 2, 3])
        np.testing.assert_array_equal(run(scan(lambda i, j: i * j, [range(3), range(1, 6)])[0], {}), [0, 2, 6])

    def test_taps(self):
        """Step t gets row t + tap for each tap, at all steps for which all these rows exist.

        With go_backwards the taps still count rows in their stored order.
        """
        for taps in ([0, 1], [0, -1], [-2, 1], [2, 1], [1, 1], (0, 1), 3, -3, [-3], [0]):
            tuple_of_taps = tuple(np.atleast_1d(taps))
            steps = range(max(0, -min(tuple_of_taps)), 4 - max(0, *tuple_of_taps, 0))
            for backwards in (False, True):
                order = list(reversed(steps)) if backwards else list(steps)
                for limit in (None, 1, 2):
                    if limit is not None and limit > len(order):
                        continue
                    with self.subTest(taps=taps, backwards=backwards, limit=limit):
                        expected = [
                            sum((10**k) * X[t + tap] for k, tap in enumerate(tuple_of_taps)) for t in order[:limit]
                        ]
                        found, _ = scan(
                            lambda *rows: sum((10**k) * row for k, row in enumerate(rows)),
                            dict(input=x, taps=taps),
                            n_steps=limit,
                            go_backwards=backwards,
                        )
                        np.testing.assert_array_equal(run(found, {x: X}), expected)

    def test_the_shortest_decides(self):
        pairs, _ = scan(lambda a, b, c: a + b + c, [dict(input=x, taps=[-1, 1]), v])
        np.testing.assert_array_equal(run(pairs, {x: X, v: [10, 20, 30]}), [X[0] + X[2] + 10, X[1] + X[3] + 20])
        none, _ = scan(lambda a, b: a + b, dict(input=x, taps=[-3, 3]))
        self.assertEqual(len(run(none, {x: X})), 0)

    def test_errors(self):
        for given, error, text in (
            (T.dscalar("s"), ValueError, "Sequence 0, s, is a scalar"),
            ([x, 3], ValueError, "Sequence 1, .* is a scalar"),
            (dict(taps=[1]), ValueError, "without the key 'input'"),
            (dict(input=x, taps=[]), ValueError, "Sequence 0 has no taps"),
            (typed_list.TypedListType(T.dvector)("l"), TypeError, "Sequence 0, l, has type .* rows of a tensor"),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                scan(lambda *a: a[0], given)
        with self.assertWarnsRegex(UserWarning, r"Sequence 0: the unknown keys \['tap'\] are ignored"):
            scan(lambda a: a, dict(input=x, tap=[1]))
        with self.assertRaisesRegex(ValueError, "4 rows, but there are 9 steps"):
            run(scan(lambda a: a, x, n_steps=9)[0], {x: X})


class TestStates(unittest.TestCase):
    def test_kinds(self):
        for info in (
            h0,
            [h0],
            dict(initial=h0),
            dict(initial=h0, taps=[-1]),
            dict(initial=h0, taps=-1),
            dict(initial=h0, inplace=0),
        ):
            found, _ = scan(lambda a, h: a + h, x, info)
            np.testing.assert_array_equal(run(found, {x: X, h0: X[1]}), X[1] + np.cumsum(X, 0))
        for info in (None, [], [None], {}, dict(taps=[-1]), dict(initial=h0, taps=None), dict(initial=h0, taps=[])):
            with self.subTest(info=info):
                self.assertIs(loop_of(scan(lambda a: a + 1, x, info)[0]).op.n_nit_sot, 1)

    def test_taps(self):
        for taps in ([-2], [-1, -3], [-3, -1], (-2, -1), -4):
            depth = -min(np.atleast_1d(taps))
            found, _ = scan(lambda a, *h: a + sum((k + 1) * r for k, r in enumerate(h)), x, dict(initial=W, taps=taps))
            rows = list(X[:depth] * 0.5)
            given = {x: X, W: np.array(rows)}
            for a in X:
                rows.append(a + sum((k + 1) * rows[tap] for k, tap in enumerate(np.atleast_1d(taps))))
            np.testing.assert_array_equal(run(found, given), rows[depth:])
            if depth > 1:
                with self.assertRaisesRegex(ValueError, "The initial state W has too few rows"):
                    run(found, {x: X, W: X[:1]})

    def test_order_of_groups(self):
        """The node's outputs are in the order mit_sot, sit_sot, nit_sot; `scan` returns them in the user's order."""
        results, _ = scan(
            lambda a, h, k2, k1: [h + 1, a * 2, k2 + k1, h * 3],
            x,
            [h0, None, dict(initial=W, taps=[-2, -1]), None],
            n_steps=2,
        )
        info = loop_of(results[0]).op.info
        self.assertEqual([info[k] for k in ("n_mit_sot", "n_sit_sot", "n_nit_sot")], [1, 1, 2])
        found = run(results, {x: X, h0: X[0], W: X[:2]})
        k = [X[0], X[1], X[0] + X[1], X[0] + 2 * X[1]]
        for got, expected in zip(found, ([X[0] + 1, X[0] + 2], X[:2] * 2, k[2:], [X[0] * 3, (X[0] + 1) * 3])):
            np.testing.assert_array_equal(got, expected)

    def test_broadcastable(self):
        row = T.drow("row")
        found, _ = scan(lambda a, h: a.sum() + h, x, row)
        self.assertEqual(found.type.broadcastable, (False, True, False))
        np.testing.assert_array_equal(run(found, {x: X, row: X[:1]}), X[:1] + np.cumsum(X.sum(1))[:, None, None])
        # The result of a step may have a more specific type than the initial state, here a row instead of a matrix.
        found, _ = scan(lambda a, h: row + a + 0 * h.sum(), x, W)
        np.testing.assert_array_equal(run(found, {x: X, row: X[:1], W: X[:1]}), (X[:1] + X)[:, None])

    def test_errors(self):
        s, f0, i0 = T.dscalar("s"), T.fvector("f0"), T.iscalar("i0")
        add = lambda a, h: a + h
        for info, step, error, text in (
            (
                f0,
                add,
                ValueError,
                r"initial state .* \(argument number 1\) has dtype float32, .* has dtype float64.*state f0\[t-1\]",
            ),
            (h0, lambda a, h: T.cast(a, "float32"), ValueError, "has dtype float64, while .* has dtype float32"),
            (0, lambda a, h: a.sum() + h, ValueError, "has dtype int8, while .* has dtype float64"),
            (h0, lambda a, h: a.sum(), ValueError, r"has 2 dimension\(s\), .* has 0 dimension\(s\) .*state h0\[t-1\]"),
            (s, add, ValueError, r"has 1 dimension\(s\), .* has 1 dimension\(s\)"),
            (
                T.drow("row"),
                lambda a, h: W * h,
                TypeError,
                "Inconsistency in the inner graph of scan 'scan_fn' .*'TensorType.float64, row",
            ),
            (dict(initial=h0, taps=[0]), add, ValueError, "All the tap values must be smaller than 0"),
            (dict(initial=W, taps=[-1, -1]), add, ValueError, "All the taps must be different"),
            (dict(initial=s, taps=[-2]), add, ValueError, "initial state s is a scalar"),
            (dict(initial=h0, return_steps=2), add, ValueError, "Using `return_steps` has been deprecated"),
            (
                [h0],
                lambda a, h: (a, h),
                ValueError,
                "Please provide None as outputs_info for any output .* returns 2 outputs",
            ),
            ([h0, h0], lambda a, h, k: a, ValueError, "Please provide None as outputs_info"),
            (i0, lambda a, h: h * 2.5, ValueError, "has dtype int32, while"),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                scan(step, x, info)
        with self.assertWarnsRegex(UserWarning, r"Output 0: the unknown keys \['foo'\]"):
            scan(add, x, dict(initial=h0, foo=1))


class TestNumberOfSteps(unittest.TestCase):
    def test_given(self):
        for given in (3, np.int64(3), np.array(3), T.constant(3), n):
            with self.subTest(type(given)):
                found = run(scan(lambda h: h + 1, outputs_info=h0, n_steps=given)[0], {h0: X[0], n: 3})
                np.testing.assert_array_equal(found, X[0] + [[1], [2], [3]])

    def test_none(self):
        for given in (0, n):
            state, _ = scan(lambda h: h + 1, outputs_info=h0, n_steps=given)
            self.assertEqual(run(state, {h0: X[0], n: 0}).shape, (0, 3))
            rows, _ = scan(lambda a: a + 1, x, n_steps=given)
            self.assertEqual(len(run(rows, {x: X, n: 0})), 0)
        count = theano.shared(5.0)
        _, updates = scan(lambda: {count: count + 1}, n_steps=n)
        run([], {n: 0}, updates)
        self.assertEqual(count.get_value(), 5)

    def test_one(self):
        """If the number of steps is 1, `scan` applies the step once to the rows of that step, and creates no loop."""
        count = theano.shared(0.0)
        for steps in (1, T.constant(1), T.constant(2) - 1):
            (a, b), updates = scan(
                lambda p, q, h2, h1: ([p + 10 * q, h1 + h2], {count: count + 1}),
                dict(input=x, taps=[0, 1]),
                [None, dict(initial=W, taps=[-2, -1])],
                n_steps=steps,
                go_backwards=True,
            )
            self.assertNotIn("Scan", {type(node.op).__name__ for node in theano.gof.graph.ops([], [a, b])})
            self.assertEqual(a.type.broadcastable, (False, False))
            found = run([a, b, updates[count]], {x: X, W: X[:2]})
            np.testing.assert_array_equal(found[0], X[2:3] + 10 * X[3:])
            np.testing.assert_array_equal(found[1], X[:1] + X[1:2])
        self.assertEqual(scan(lambda: {count: count + 1}, n_steps=1)[0], None)

    def test_errors(self):
        for given, text in (
            (-3, "negative numbers of steps are not supported"),
            (2.0, "n_steps must be an int. dtype provided is float"),
            (T.dscalar(), "n_steps must be an int. dtype provided is float64"),
            (T.ivector(), "n_steps must be an int"),
        ):
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                scan(lambda h: h + 1, outputs_info=h0, n_steps=given)
        with self.assertRaisesRegex(ValueError, "No information about the number of steps provided"):
            scan(lambda h: h + 1, outputs_info=h0)
        with self.assertRaisesRegex((ValueError, IndexError), "negative"):
            run(scan(lambda h: h + 1, outputs_info=h0, n_steps=n)[0], {h0: X[0], n: -2})


class TestStepFunctions(unittest.TestCase):
    def setUp(self):
        self.count = theano.shared(1.0, "count")

    def test_what_they_return(self):
        """A step function may return outputs, updates and a condition in every documented form."""
        count = self.count
        more = count + 1
        for returned, n_outputs, has_updates, has_condition in (
            (lambda a: a, 1, False, False),
            (lambda a: [a], 1, False, False),
            (lambda a: (a, a), 2, False, False),
            (lambda a: {count: more}, 0, True, False),
            (lambda a: [(count, more)], 0, True, False),
            (lambda a: OrderedUpdates({count: more}), 0, True, False),
            (lambda a: (a, {count: more}), 1, True, False),
            (lambda a: ([a, a], [(count, more)]), 2, True, False),
            (lambda a: ({count: more}, a), 1, True, False),
            (lambda a: ([(count, more)], [a]), 1, True, False),
            (lambda a: (a, {}), 1, False, False),
            (lambda a: (a, []), 1, False, False),
            (lambda a: (a, {count: 2.5}), 1, True, False),
            (lambda a: (a, until(a.sum() > 10)), 1, False, True),
            (lambda a: ([a, a], until(a.sum() > 10)), 2, False, True),
            (lambda a: (a, a, until(a.sum() > 10)), 2, False, True),
            (lambda a: (a, {count: more}, until(a.sum() > 10)), 1, True, True),
            (lambda a: ({count: more}, [a], until(a.sum() > 10)), 1, True, True),
            (lambda a: ({count: more}, until(a.sum() > 10)), 0, True, True),
        ):
            outputs, updates = scan(returned, x, return_list=True)
            self.assertEqual((len(outputs), list(updates)), (n_outputs, [count] if has_updates else []))
            self.assertIsInstance(updates, OrderedUpdates)
            loop = loop_of((outputs + list(updates.values()))[0])
            self.assertEqual(loop.op.as_while, has_condition)
            steps = 2 if has_condition else 4
            for found in run(outputs, {x: X}):
                np.testing.assert_array_equal(found, X[:steps])
        outputs = [scan(lambda a: k, x)[0] for k in (x[0], [x[0]], [x[0], x[0]])]
        self.assertEqual([type(o) for o in outputs], [type(x), type(x), list])

    def test_errors(self):
        count = self.count
        for returned, error, text in (
            (
                lambda a: None,
                ValueError,
                "may only be made of lists, tuples, or dictionaries containing Theano variables",
            ),
            (lambda a: 3, ValueError, "you can use `tensor.constant` to turn them into Theano variables"),
            (lambda a: [a, "text"], ValueError, "Scan cannot parse the return value"),
            (lambda a: (until(a.sum() > 1), a), ValueError, "Scan cannot parse the return value"),
            (lambda a: (a, until(a.sum() > 1), {count: count + 1}), ValueError, "Scan cannot parse the return value"),
            (lambda a: until(a.sum() > 1), ValueError, "Scan cannot parse the return value"),
            (lambda a: (a, until(a > 1)), TypeError, "the condition must be a scalar"),
            (lambda a: (a, {x: a}), TypeError, "update target must be a SharedVariable"),
            (lambda a: {count: a}, TypeError, "An update must have the same type as the original shared variable"),
            (lambda a: [(count, count), (count, count + 1)], ValueError, "already has an update expression"),
            (lambda a: typed_list.make_list([a]), TypeError, "Output 0 of the step, .* collect only tensors"),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                scan(returned, x)

    def test_captured_variables(self):
        """Variables that a step captures become inputs of the loop.

        Shared variables come before the non-sequences that are passed to `scan`, other variables come after them.
        """
        gain = theano.shared(2.0, "gain")
        found, _ = scan(lambda a, w: a * gain + w.sum() + (W**2).sum() + v.sum(), x, non_sequences=[h0])
        loop = loop_of(found)
        self.assertEqual(loop.op.outer_non_seqs(loop.inputs), [gain, h0, W, v])
        self.assertEqual([i.name for i in loop.op.inputs], ["x[t]", "gain_copy", "h0_copy", "W_copy", "v_copy"])
        values = {x: X, h0: X[0], W: X, v: X[1]}
        np.testing.assert_allclose(run(found, values), X * 2 + X[0].sum() + (X**2).sum() + X[1].sum())
        # An expression that is passed as a non-sequence is computed once, outside of the loop.
        found, _ = scan(lambda a, w2, unused: a + w2.sum(), x, non_sequences=[W**2, v])
        others, unused = loop_of(found).op.outer_non_seqs(loop_of(found).inputs)
        self.assertEqual((others.owner.op, unused), (T.pow, v))
        np.testing.assert_allclose(run(found, {x: X, W: X, v: X[0]}), X + (X**2).sum())

    def test_non_sequences(self):
        received = []

        def step(a, *others):
            received.append(others)
            return a + sum(o.sum() for o in others)

        for given in (v, [v, 1], (v, X, [1.0, 2.0]), [v, v], x, [theano.shared(2.0)]):
            found, _ = scan(step, x, non_sequences=given)
            given = given if isinstance(given, (list, tuple)) else [given]
            expected = X + sum(
                np.sum({v: X[0], x: X}.get(g, getattr(g, "get_value", lambda g=g: g)()))
                if isinstance(g, theano.Variable)
                else np.sum(g)
                for g in given
            )
            np.testing.assert_allclose(run(found, {x: X, v: X[0]}), expected)
            for variable, original in zip(received[-1], given):
                if isinstance(original, theano.Variable):
                    self.assertIs(variable, original)

    def test_what_the_step_does_not_use(self):
        """If a step ignores an argument of `scan`, the loop has it as an input, so `function` does not refuse it.

        Rewriting removes the argument from the loop.
        """
        for loop in (
            lambda: scan(lambda a, n: a * 2, x, non_sequences=v),
            lambda: scan(lambda a, n: a * 2, x, non_sequences=v, strict=True),
            lambda: scan(lambda a, n, m: a * 2, x, non_sequences=[v.sum(), v]),
            lambda: theano.map(lambda a, n: a * 2, x, v),
        ):
            found, _ = loop()
            f = theano.function([x, v], found)
            np.testing.assert_array_equal(f(X, X[0]), 2 * X)
            self.assertEqual(f.maker.fgraph.inputs[1].clients, [])
            gradient = theano.grad(found.sum(), x)
            np.testing.assert_array_equal(theano.function([x, v], gradient)(X, X[0]), np.full_like(X, 2))
            with self.assertRaises(theano.gradient.DisconnectedInputError):
                theano.grad(found.sum(), v)

    def test_strict(self):
        gain = theano.shared(2.0, "gain")
        with self.assertRaisesRegex(MissingInputError, "used to compute .*gain.* ScanOp is missing an input: gain"):
            scan(lambda a: a * gain, x, strict=True)
        for step, options in (
            (lambda a, g: a * g, {"non_sequences": gain}),
            (lambda a: a * W.sum() + T.constant(2.0), {}),
            (lambda a: (a, {gain: gain + 1}), {}),
        ):
            scan(step, x, strict=True, **options)

    def test_states_of_shared_variables(self):
        """Updated shared tensors become states of the loop; other updated shared values have a separate group."""

        class Next(theano.Op):
            __props__ = ()

            def make_node(self, bag):
                return theano.Apply(self, [bag], [bag.type(), T.lscalar()])

            def perform(self, node, inputs, outputs):
                outputs[0][0] = inputs[0] + ["more"]
                outputs[1][0] = np.asarray(len(inputs[0]))

        bag = theano.shared(["first"], "bag")

        def step(h):
            bigger, size = Next()(bag)
            return h * self.count + size, {bag: bigger, self.count: self.count * 2}

        found, updates = scan(step, outputs_info=T.constant(1.0, dtype="float64"), n_steps=3)
        self.assertEqual(list(updates), [bag, self.count])
        op = loop_of(found).op
        self.assertEqual((op.n_shared_outs, op.n_sit_sot), (1, 2))
        np.testing.assert_array_equal(run(found, {}, updates), [2, 6, 27])
        self.assertEqual((bag.get_value(), self.count.get_value()), (["first", "more", "more", "more"], 8))

    def test_default_updates(self):
        self.count.default_update = self.count * 2
        found, updates = scan(lambda h: h + self.count, outputs_info=T.constant(0.0, dtype="float64"), n_steps=4)
        np.testing.assert_array_equal(run(found, {}, updates), [1, 3, 7, 15])
        self.assertEqual(self.count.get_value(), 16)
        # Updates that a step returns override default updates.
        _, updates = scan(
            lambda h: (h, {self.count: self.count + 1}), outputs_info=T.constant(0.0, dtype="float64"), n_steps=4
        )
        run([], {}, updates)
        self.assertEqual(self.count.get_value(), 20)

    def test_nested(self):
        cube = T.dtensor3("cube")
        value = np.random.RandomState(1).rand(3, 4, 2)
        total, _ = scan(
            lambda rows, so_far: scan(lambda r, s: s + r.sum() * v.sum(), rows, so_far)[0][-1],
            cube,
            T.constant(0.0, dtype="float64"),
        )
        np.testing.assert_allclose(run(total, {cube: value, v: [1, 2]}), 3 * np.cumsum(value.sum((1, 2))))

        def nest(depth, h):
            # MODE is no checking mode. A checking mode runs each level several times, so six levels would take minutes.
            step = lambda k: nest(depth - 1, k)
            return h + 1.0 if depth == 0 else scan(step, outputs_info=h, n_steps=2, mode=MODE)[0][-1]

        self.assertEqual(run(nest(6, T.constant(0.0, dtype="float64")), {}), 64)

    def test_other_values(self):
        some = typed_list.TypedListType(T.dvector)("some")
        for options, step in (({"non_sequences": some}, lambda i, l: l[i].sum()), ({}, lambda i: some[i].sum())):
            found, _ = scan(step, T.arange(2), **options)
            np.testing.assert_array_equal(run(found, {some: [np.ones(2), np.ones(3)]}), [2, 3])
        found, _ = scan(lambda a, h: ifelse(T.gt(a.sum(), 10), h + a, h), x, T.zeros(3, dtype="float64"))
        np.testing.assert_array_equal(run(found, {x: X}), [0 * X[0], X[1], X[1] + X[2], X[1:].sum(0)])


class TestGraph(unittest.TestCase):
    def test_printed(self):
        result, _ = scan(lambda a, h, w: T.tanh(a + T.dot(h, w)), x, h0, W)
        text = debugprint(result, file="str")
        for line in (
            "Subtensor{int64::} [id A]",
            " |for{cpu,scan_fn} [id B]",
            " | |IncSubtensor{Set;:int64:} [id ",
            " | | |AllocEmpty{dtype='float64'} [id ",
            "Inner graphs of the scan ops:",
            "|x[t] [id ",
            "|h0[t-1] [id ",
            "|W_copy [id ",
        ):
            self.assertIn(line, text)

    def test_index_arithmetic_is_simple(self):
        """The number of steps is computed from a length, and a sequence that is read completely is not sliced."""
        (result, _), (reversed_result, _) = scan(lambda a, h: a + h, x, h0), scan(lambda a: a, [x, v][:1], n_steps=n)
        loop = loop_of(result)
        self.assertIs(loop.inputs[1], x)
        self.assertEqual(len(theano.gof.graph.ops([], [loop.inputs[0]])), 2)
        self.assertIs(loop_of(reversed_result).inputs[0], n)

    def test_names_and_options(self):
        for given, found in ((None, "scan_fn"), ("", ""), ("mine", "mine")):
            self.assertEqual(loop_of(scan(lambda a: a, x, name=given)[0]).op.name, found)
        info = loop_of(
            scan(lambda a: a, x, truncate_gradient=3, mode="FAST_RUN", profile="steps", allow_gc=True, strict=True)[0]
        ).op.info
        given = [info[k] for k in ("truncate_gradient", "mode", "profile", "allow_gc", "strict")]
        self.assertEqual(given, [3, "FAST_RUN", "steps", True, True])
        for flag in (False, True):
            with theano.change_flags({"scan.allow_gc": flag}):
                self.assertIs(loop_of(scan(lambda a: a, x)[0]).op.info["allow_gc"], flag)

    def test_test_values(self):
        with theano.change_flags(compute_test_value="raise"):
            a, b, c = x.clone(), W.clone(), h0.clone()
            a.tag.test_value, b.tag.test_value, c.tag.test_value = X, X[:3] / 10, X[0]
            count = theano.shared(2.0)
            result, updates = scan(
                lambda p, q, h, k: (p + q + T.dot(h, b) - k, {count: count + 1}),
                dict(input=a, taps=[0, 1]),
                dict(initial=b, taps=[-1, -2]),
                go_backwards=True,
            )
            rows = list(X[:3] / 10)[:2]
            for t in (2, 1, 0):
                rows.append(X[t] + X[t + 1] + rows[-1] @ (X[:3] / 10) - rows[-2])
            np.testing.assert_allclose(result.tag.test_value, rows[2:])
            self.assertEqual(updates[count].tag.test_value, 5)
            with self.assertRaisesRegex(ValueError, "Cannot compute test value"):
                scan(lambda p, h: p + h, a, T.dvector("without"))

    def test_copies(self):
        """Pickles, copies and clones of graphs with loops compute equal results; equal loops are equal Ops."""
        result, _ = scan(lambda a, h: a + h * v, x, h0, name="loop")
        expected = run(result, {x: X, h0: X[0], v: X[1]})
        for graph in (
            pickle.loads(pickle.dumps(result)),
            copy.deepcopy(result),
            theano.clone(result, share_inputs=False),
        ):
            named = {i.name: i for i in theano.gof.graph.inputs([graph]) if i.name in ("x", "h0", "v")}
            given = {named["x"]: X, named["h0"]: X[0], named["v"]: X[1]}
            np.testing.assert_array_equal(run(graph, given), expected)
            self.assertEqual(loop_of(graph).op, loop_of(result).op)
            self.assertEqual(hash(loop_of(graph).op), hash(loop_of(result).op))
        np.testing.assert_array_equal(run(theano.clone(result, {x: W * 2}), {W: X / 2, h0: X[0], v: X[1]}), expected)
        again, _ = scan(lambda b, k: b + k * v, x, h0, name="loop")
        self.assertEqual(loop_of(again).op, loop_of(result).op)
        other, _ = scan(lambda b, k: b - k * v, x, h0, name="loop")
        self.assertNotEqual(loop_of(other).op, loop_of(result).op)


class TestNode(unittest.TestCase):
    """Tests of `Scan.make_node` with inputs that `scan` does not create."""

    def setUp(self):
        result, _ = scan(
            lambda a, h2, h1, w: (a + h2 + h1 + w.sum(), a),
            x,
            [dict(initial=W, taps=[-2, -1]), None],
            T.dmatrix("w"),
            n_steps=n,
        )
        self.node = loop_of(result[0])
        self.op = self.node.op

    def made(self, i, value):
        inputs = list(self.node.inputs)
        inputs[i] = value
        return self.op.make_node(*inputs).inputs[i]

    def test_classic_sizes(self):
        op = self.op
        self.assertEqual((op.n_outs, op.n_tap_outs, op.mintaps), (1, 1, [-2, 0]))
        self.assertEqual((op.seqs_arg_offset, op.shared_arg_offset, op.nit_sot_arg_offset), (2, 3, 3))
        self.assertTrue(op._scan_savemem_visited)

    def test_fitting(self):
        self.assertEqual(self.op.make_node(*self.node.inputs).inputs, self.node.inputs)
        for i, value, kind in (
            (0, 5, T.bscalar),
            (1, T.fmatrix(), T.dmatrix),
            (1, T.imatrix(), T.dmatrix),
            (1, T.drow(), T.drow),
            (1, T.dcol(), T.dmatrix),
            (1, X, T.dmatrix),
            (2, T.fmatrix(), T.dmatrix),
            (2, T.dcol(), T.dmatrix),
            (3, 7, T.bscalar),
            (4, T.drow(), T.dmatrix),
        ):
            with self.subTest(i=i, kind=kind):
                self.assertEqual(self.made(i, value).type, kind)

    def test_errors(self):
        for i, value, error, text in (
            (0, T.dscalar(), ValueError, "n_steps must be an int"),
            (1, T.dtensor3("t"), TypeError, r"Argument t of type .* does not match its correspondance x\[t\]"),
            (1, T.zmatrix("z"), TypeError, "Argument z given to the loop scan_fn has dtype complex128"),
            (
                2,
                v,
                ValueError,
                r"initial state .* v \(argument number 1\) has dtype float64 and 1 dimension.*one fewer dimension",
            ),
            (3, T.dscalar(), ValueError, "number of rows of an output must be an int"),
            (4, v, TypeError, "Argument v of type .* does not match its correspondance w_copy"),
            (
                4,
                theano.shared({}, "bag"),
                TypeError,
                "Argument bag of type .* does not match its correspondance w_copy",
            ),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                self.made(i, value)
        for inputs in (self.node.inputs[:-1], [*self.node.inputs, x]):
            with self.assertRaisesRegex(
                AssertionError, "number of inputs given to the inner function of scan does not match"
            ):
                self.op.make_node(*inputs)
        result, _ = scan(lambda a: a, T.dcol())
        inputs = list(loop_of(result).inputs)
        inputs[1] = x
        with self.assertRaisesRegex(TypeError, "broadcast pattern .* is inconsistent"):
            loop_of(result).op.make_node(*inputs)

    def test_inner_graph(self):
        self.op.validate_inner_graph()
        self.op.inner_graph.outputs[0] = T.fvector()
        with self.assertRaisesRegex(
            ValueError, "has dtype float64, while the result of the inner function .* has dtype float32"
        ):
            self.op.validate_inner_graph()


if __name__ == "__main__":
    unittest.main()
