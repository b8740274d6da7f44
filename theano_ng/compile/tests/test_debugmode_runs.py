"""Tests of DebugMode: second runs of nodes, also in inner graphs, and the check of rewrites on NaN and infinity."""

import threading
import unittest
import warnings

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.builders import OpFromGraph
from theano_ng.compile.debugmode import BadOptimization, BadThunkOutput, DebugMode, DebugModeError, InvalidValueError
from theano_ng.compile.mode import get_mode, predefined_modes
from theano_ng.compile.tests.test_debugmode import C_ADD_ONE, V, c_code, op, run, set0
from theano_ng.gof import Apply, Generic, Op, local_optimizer
from theano_ng.gof.rewriting import SeqOptimizer, in2out


class TestSecondRun(unittest.TestCase):
    def test_state_that_a_run_leaves_behind(self):
        calls = []

        def counts(inputs, outputs):
            calls.append(1)
            outputs[0][0] = inputs[0] + len(calls)

        with self.assertRaises(BadThunkOutput) as caught:
            run(op(counts), V)
        self.assertEqual((caught.exception.thunk1, caught.exception.thunk2), ("perform", "perform, in a second call"))

    @unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
    def test_state_that_c_code_leaves_behind(self):
        """DebugMode detects C code that is correct in the first call of a thunk, and wrong in the second."""
        wrong = op(
            set0(lambda x: x + 1),
            **dict(
                c_code(C_ADD_ONE.replace("+ %(c)s", "+ 1 + (seen > 0)") + "++seen;", c="1"),
                c_support_code_struct=lambda self, node, name: "int seen;",
                c_init_code_struct=lambda self, node, name, sub: "seen = 0;",
            ),
        )
        with self.assertRaises(BadThunkOutput) as caught:
            run(wrong, V, check_c_code=True)
        self.assertEqual(caught.exception.thunk2, "c_code, in a second call")

    def test_memory_that_is_handed_out_twice(self):
        buffer = np.empty(4)

        def reuses(inputs, outputs):
            np.add(inputs[0], 1, out=buffer)
            outputs[0][0] = buffer

        with self.assertRaises(BadThunkOutput) as caught:
            run(op(reuses), V)
        self.assertIn("the same array", str(caught.exception))

    def test_memory_that_was_never_written(self):
        def forgets_last(inputs, outputs):
            outputs[0][0] = out = np.empty_like(inputs[0])
            out[:-1] = inputs[0][:-1]

        self.assertRaises(BadThunkOutput, run, op(forgets_last), V)
        self.assertRaises(BadThunkOutput, run, op(forgets_last), np.ones(300000))  # one wrong element of many

    @unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
    def test_memory_that_c_code_never_wrote(self):
        """DebugMode detects C code that leaves an element of a new array unwritten."""
        text = C_ADD_ONE.replace("i < PyArray_DIM(%(x)s, 0)", "i < PyArray_DIM(%(x)s, 0) - 1")
        with self.assertRaises(BadThunkOutput) as caught:
            run(op(set0(lambda x: x + 1), **c_code(text, c="1")), V, check_c_code=True, check_py_code=False)
        self.assertEqual(caught.exception.thunk2, "c_code, in a second call")

    def test_ops_and_nodes_that_change(self):
        class Counts(Op):
            __props__ = ("n",)
            n = 0

            def make_node(self, x):
                return Apply(self, [x], [x.type()])

            def perform(self, node, inputs, outputs):
                self.n += 1
                outputs[0][0] = inputs[0] * 2

        class Forgets(Counts):
            __props__ = ()

            def perform(self, node, inputs, outputs):
                node.inputs = []
                outputs[0][0] = inputs[0] * 2

        self.assertRaisesRegex(DebugModeError, "changed the Op", run, Counts(), V)
        self.assertRaisesRegex(DebugModeError, "changed the node", run, Forgets(), V)


class TestMemoryForOutputs(unittest.TestCase):
    def test_one_of_several_outputs(self):
        def all_or_nothing(inputs, outputs):
            if outputs[0][0] is not None and outputs[0][0].shape == inputs[0].shape:
                outputs[0][0][...] = inputs[0]
                if outputs[1][0] is None:
                    outputs[0][0][...] = 0  # wrongly assumes that the first output is missing too
            else:
                outputs[0][0] = inputs[0].copy()
            outputs[1][0] = inputs[0] * 2

        run(op(all_or_nothing, n_outputs=2), V, check_preallocated_output="previous")
        with self.assertRaises(BadThunkOutput) as caught:
            run(op(all_or_nothing, n_outputs=2), V, check_preallocated_output="c_contiguous")
        self.assertIn("output 0 only", caught.exception.thunk2)

    def test_values_that_are_no_arrays(self):
        class Collect(Op):
            """An Op that wrongly extends a previous list of its inputs instead of creating a list."""

            __props__ = ()

            def make_node(self, x):
                return Apply(self, [x], [Generic()()])

            def perform(self, node, inputs, outputs):
                if outputs[0][0] is None:
                    outputs[0][0] = []
                outputs[0][0].append(float(inputs[0]))

        x = T.dscalar()
        build = lambda kinds: theano.function(
            [x], Collect()(x), mode=DebugMode(stability_patience=1, check_preallocated_output=kinds)
        )
        self.assertEqual(build("")(3), [3.0])
        self.assertRaises(BadThunkOutput, build("previous"), 3)
        f = build("initial")
        self.assertEqual(f(3), [3.0])  # the output storage was empty, so this call created a list
        self.assertRaises(BadThunkOutput, f, 4)

    def test_previous_call(self):
        def keeps_long_ones(inputs, outputs):
            if outputs[0][0] is None or len(outputs[0][0]) < len(inputs[0]):
                outputs[0][0] = np.empty_like(inputs[0])
            outputs[0][0][: len(inputs[0])] = inputs[0]

        x = T.dvector()
        f = theano.function(
            [x],
            op(keeps_long_ones)(x),
            mode=DebugMode(
                optimizer=None, check_c_code=False, stability_patience=1, check_preallocated_output="initial"
            ),
        )
        f(V), f(V)
        self.assertRaises(BadThunkOutput, f, V[:2])

    def test_fills_of_every_dtype(self):
        def maximum(inputs, outputs):
            if outputs[0][0] is None:
                outputs[0][0] = np.zeros_like(inputs[0])
            np.maximum(outputs[0][0], inputs[0], out=outputs[0][0])

        for dtype in ("bool", "uint8", "int16", "float16", "complex64"):
            x = T.TensorType(dtype, (False,))()
            f = theano.function(
                [x],
                op(maximum)(x),
                mode=DebugMode(
                    optimizer=None, check_c_code=False, stability_patience=1, check_preallocated_output="previous"
                ),
            )
            with self.assertRaises(BadThunkOutput):
                f(np.zeros(3, dtype))


class TestInnerGraphs(unittest.TestCase):
    @unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
    def test_functions_inside_are_checked(self):
        x = T.dvector("x")
        wrong = op(set0(lambda x: x + 1), **c_code(C_ADD_ONE, c="2"))
        outer = OpFromGraph([x], [wrong(x) * 2], mode="FAST_RUN")
        self.assertEqual(theano.function([x], outer(x), mode="FAST_RUN")(V).tolist(), ((V + 2) * 2).tolist())
        f = theano.function([x], outer(x), mode=DebugMode(stability_patience=1))
        with self.assertRaises(BadThunkOutput) as caught:
            f(V)
        self.assertEqual(type(caught.exception.r.owner.op), type(wrong))
        self.assertEqual(theano.function([x], outer(x), mode="FAST_RUN")(V).tolist(), ((V + 2) * 2).tolist())

    def test_settings_apply_inside(self):
        x = T.dvector("x")
        outer = OpFromGraph([x], [OpFromGraph([x], [T.log(x) + 1])(x) * 2])
        strict, lax = (
            theano.function([x], T.exp(outer(x)), mode=DebugMode(check_isfinite=flag, stability_patience=1))
            for flag in (True, False)
        )
        with np.errstate(all="ignore"):
            self.assertRaisesRegex(InvalidValueError, "log", strict, [0.0])
            self.assertEqual(lax([0.0]).tolist(), [0.0])
        # The inner graph is compiled for each of the two settings, and once more for repeated runs, in which DebugMode
        # does not check inner graphs. The function for the Op's own mode, `outer.fn`, is not compiled.
        self.assertEqual(len(outer.inner_graph.functions), 3)
        self.assertIsNone(outer.fn)
        self.assertEqual(lax([1.0]).tolist(), strict([1.0]).tolist())


class TestSettings(unittest.TestCase):
    def test_flags_count_when_a_function_is_compiled(self):
        x = T.dvector("x")
        mode = DebugMode(stability_patience=1)
        with theano.config.change_flags({"DebugMode.check_finite": False}):
            lax = theano.function([x], x * 2, mode=mode)
        strict = theano.function([x], x * 2, mode=mode)
        self.assertEqual(lax([np.inf]).tolist(), [np.inf])
        with theano.config.change_flags({"DebugMode.check_finite": False}):
            self.assertRaises(InvalidValueError, strict, [np.inf])

    def test_settings_of_the_predefined_mode_last(self):
        x = T.dvector("x")
        mode = predefined_modes["DebugMode"]
        self.assertTrue(mode.check_isfinite)
        self.assertIs(get_mode("DebugMode"), mode)
        try:
            mode.check_isfinite = False
            for name in ("DebugMode", mode):
                self.assertEqual(theano.function([x], x * 2, mode=name)([np.inf]).tolist(), [np.inf])
        finally:
            mode.check_isfinite = True
        self.assertRaises(InvalidValueError, theano.function([x], x * 2, mode="DebugMode"), [np.inf])
        with theano.config.change_flags({"DebugMode.check_finite": False}):
            self.assertFalse(predefined_modes["DebugMode"].check_isfinite)
        self.assertTrue(predefined_modes["DebugMode"].check_isfinite)

    def test_deprecated_spelling(self):
        for make in (get_mode, predefined_modes.__getitem__):
            with self.assertWarnsRegex(DeprecationWarning, "DebugMode"):
                self.assertIsInstance(make("DEBUG_MODE"), DebugMode)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertIsInstance(predefined_modes["DebugMode"], DebugMode)
        self.assertIn("DEBUG_MODE", predefined_modes)
        self.assertRaises(KeyError, predefined_modes.__getitem__, "DEBUG")

    def test_shared_variables_stay_readable(self):
        x, count = T.dvector("x"), theano.shared(0.0)
        add = theano.function([x], x.sum(), updates=[(count, count + 1)], mode=DebugMode(stability_patience=1))
        read = theano.function([x], count + x.sum(), mode=DebugMode(stability_patience=1))
        failures = []

        def work(f):
            try:
                for _ in range(30):
                    f(V)
            except Exception as failure:
                failures.append(failure)

        threads = [threading.Thread(target=work, args=(f,)) for f in (add, read)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((failures, float(count.get_value())), ([], 30.0))

    def test_what_is_destroyed_is_the_callers(self):
        x = T.dvector("x")
        s = theano.shared(np.ones(3), borrow=True)
        f = theano.function(
            [theano.In(x, mutable=True)], T.exp(x), updates=[(s, s * 2)], mode=DebugMode(stability_patience=1)
        )
        value, memory = np.zeros(2), s.get_value(borrow=True)
        out = f(value)
        self.assertTrue(out is value and value.tolist() == [1, 1])
        self.assertTrue(s.get_value(borrow=True) is memory and memory.tolist() == [2, 2, 2])


def first(variable):
    """Return the first input of a variable's node."""
    return variable.owner.inputs[0]


def rule(pattern, replace, **attributes):
    """Return a mode with one rule, which replaces nodes of the Op `pattern` by ``replace(*inputs)``."""

    @local_optimizer([pattern])
    def custom(node):
        return [replace(*node.inputs)] if node.op == pattern else False

    for name, value in attributes.items():
        setattr(custom, name, value)
    return DebugMode(
        optimizer=in2out(custom, ignore_newtrees=True), stability_patience=1, check_isfinite=False, check_c_code=False
    )


class TestRewritesAndNaN(unittest.TestCase):
    """Tests of rewriting rules that are correct for finite numbers, but may be wrong for NaN and infinity."""

    def setUp(self):
        self._err = np.seterr(all="ignore")
        self.x = T.dvector("x")

    def tearDown(self):
        np.seterr(**self._err)

    def relu_by_switch(self):
        return rule(T.maximum, lambda a, b: T.switch(T.gt(a, b), a, b))

    def test_wrong_only_for_nan(self):
        x = self.x
        f = theano.function([x], T.maximum(x, 0), mode=self.relu_by_switch())
        self.assertEqual(f([-1, 2, np.inf, -np.inf]).tolist(), [0, 2, np.inf, 0])
        with self.assertRaises(BadOptimization) as caught:
            f([-1, np.nan])
        self.assertIn("custom", str(caught.exception))
        # the NaN is computed before the node that the rule replaces
        f = theano.function([x], T.maximum(T.log(x), 0), mode=self.relu_by_switch())
        self.assertEqual(f([1.0]).tolist(), [0.0])
        self.assertRaises(BadOptimization, f, [-1.0])
        # One NaN among the elements makes the sum NaN. The rule wrongly replaces it by zero.
        g = theano.function([x], T.sum(x), mode=rule(T.sum(x).owner.op, lambda a: T.sum(T.switch(T.eq(a, a), a, 0.0))))
        self.assertEqual(float(g([1, 2])), 3)
        self.assertRaises(BadOptimization, g, [1, np.nan])
        # comparisons
        h = theano.function([x], T.isnan(x), mode=rule(T.isnan(x).owner.op, lambda a: T.zeros_like(a, dtype="bool")))
        self.assertEqual(h([1.0]).tolist(), [False])
        self.assertRaises(BadOptimization, h, [np.nan])

    def test_a_number_becomes_nan(self):
        x = self.x
        f = theano.function([x], T.abs_(x), mode=rule(T.abs_, lambda a: T.sqr(a) / a))
        self.assertEqual(f([2.0]).tolist(), [2.0])
        self.assertRaises(BadOptimization, f, [0.0])  # 0 / 0
        f = theano.function([x], T.sqr(x), mode=rule(T.sqr, lambda a: T.exp(2 * T.log(a))))
        self.assertRaises(BadOptimization, f, [-2.0])

    def test_only_for_infinity(self):
        x = self.x
        f = theano.function(
            [x], T.tanh(x), mode=rule(T.tanh, lambda a: (T.exp(a) - T.exp(-a)) / (T.exp(a) + T.exp(-a)))
        )
        np.testing.assert_allclose(f([0.5, 3.0]), np.tanh([0.5, 3.0]))
        self.assertRaises(BadOptimization, f, [np.inf])

    def test_rules_that_say_so(self):
        x = self.x
        ignored = dict(ignores_nonfinite=True)
        f = theano.function(
            [x], T.maximum(x, 0), mode=rule(T.maximum, lambda a, b: T.switch(T.gt(a, b), a, b), **ignored)
        )
        self.assertEqual(f([-1, np.nan]).tolist(), [0, 0])
        h = theano.function(
            [x], T.eq(T.log(x), T.log(x)), mode=rule(T.eq, lambda a, b: T.ones_like(a, dtype="bool"), **ignored)
        )
        self.assertEqual(h([-1.0, 1.0]).tolist(), [True, True])
        # This rule is also wrong for numbers, so DebugMode refuses it in spite of `ignores_nonfinite`.
        f = theano.function(
            [x], T.maximum(x, 0), mode=rule(T.maximum, lambda a, b: T.switch(T.gt(a, b), a, b + 1), **ignored)
        )
        self.assertRaises(BadOptimization, f, [-1, np.nan])

    def test_rounding(self):
        """DebugMode accepts a rule that replaces a rounded value by a more exact value.

        DebugMode refuses a rule that changes the value by more than the rounding error. The example is the reciprocal
        of 1 - sigmoid(30). Only three digits of this difference are exact.
        """
        x = self.x
        out = T.inv(1 - T.nnet.sigmoid(x))
        argument = lambda a: a.owner.inputs[1].owner.inputs[0]
        f = theano.function([x], out, mode=rule(T.inv, lambda a: 1 + T.exp(argument(a))))
        self.assertEqual(f([30.0, 1.0]).tolist(), (1 + np.exp([30.0, 1.0])).tolist())
        for factor, value in ((1.0001, 1.0), (0.5, 30.0)):
            f = theano.function([x], out, mode=rule(T.inv, lambda a: factor * (1 + T.exp(argument(a)))))
            self.assertRaises(BadOptimization, f, [value])

    def test_integers_are_exact(self):
        """DebugMode refuses a rule that computes integers in floating point, if the old graph computes them exactly."""
        i, j, x = T.lvector("i"), T.lvector("j"), self.x
        quotient = lambda a, b: T.floor(a * (1.0 / b))
        integers = lambda a: T.cast(a, "int64")
        real = lambda a: T.cast(a, "float64")
        to_real, to_int = real(i).owner.op, integers(x).owner.op
        cases = [
            (
                i // j,
                T.int_div,
                lambda a, b: integers(quotient(a, b)),
                ([7, 9], [2, 3]),
                [([2**62 + 1], [1]), ([49], [49])],
            ),
            (real(i // j), to_real, lambda a: quotient(*a.owner.inputs), ([7, 9], [2, 3]), [([49], [49])]),
            (i + j, T.add, lambda a, b: integers(real(a) + real(b)), ([7, 9], [2, 3]), [([2**62 + 1], [1])]),
            (i > j, T.gt, lambda a, b: T.gt(real(a), real(b)), ([7, 9], [2, 10]), [([2**53 + 1], [2**53])]),
            (integers(x), to_int, lambda a: integers(a * (1 / 49.0) * 49), ([2.5, 7.5],), [([1.0],)]),
            # the old graph computes in floating point, too
            (integers(i * 2.0), to_int, lambda a: 2 * first(a), ([2, 9],), []),
            (integers(i * 2.0), to_int, lambda a: 2 * first(a) + 1, None, [([5],)]),
            (-T.argmax(x / 3), T.neg, lambda a: -T.argmin(first(a)), None, [([1.0, 2.0, 3.0],)]),
        ]
        for out, pattern, replace, right, wrong in cases:
            inputs = [v for v in (i, j, x) if v in theano.gof.graph.inputs([out])]
            f = theano.function(inputs, out, mode=rule(pattern, replace))
            if right is not None:
                f(*right)
            for values in wrong:
                with self.assertRaises(BadOptimization, msg=(str(out), values)):
                    f(*values)

    def test_integers_of_rounded_numbers(self):
        """DebugMode accepts a rule that changes integers that the old graph computes from rounded values.

        It accepts the change only if another rounding of these values gives the new integers.
        """
        i, j, x = T.lvector("i"), T.lvector("j"), self.x
        to_int = T.cast(x, "int64").owner.op
        near = 1.4 + np.finfo("float64").eps * np.arange(8)
        tie = next(np.array([a, b]) for a, b in zip(near, near[1:]) if a * 1.5 == b * 1.5)
        f = theano.function([x], -T.argmax(x * 1.5), mode=rule(T.neg, lambda a: -T.argmax(first(first(a)))))
        self.assertEqual((f(tie), np.argmax(tie * 1.5)), (-1, 0))
        f = theano.function(
            [x], T.cast(T.floor(x * 10), "int64"), mode=rule(T.floor, lambda a: T.floor(first(a) / 0.1))
        )
        self.assertEqual((f([0.3]), np.floor(0.3 * 10)), (2, 3))
        f = theano.function(
            [i, j],
            T.cast(T.floor(T.true_div(i, j)), "int64"),
            mode=rule(to_int, lambda a: T.int_div(*first(a).owner.inputs)),
        )
        self.assertEqual(f([2**62 + 1, 49], [1, 49]).tolist(), [2**62 + 1, 1])
        f = theano.function([x], T.inv(x) * 49 < 1, mode=rule(T.lt, lambda a, b: first(first(a)) > 49))
        self.assertEqual((f([49.0]), np.reciprocal(49.0) * 49 < 1), (False, True))

    def test_a_difference_that_follows_from_another(self):
        x = self.x

        @local_optimizer([T.log])
        def save(node):  # log(exp(x)) -> x
            (a,) = node.inputs
            return [a.owner.inputs[0]] if node.op == T.log and a.owner is not None and a.owner.op == T.exp else False

        @local_optimizer([T.sqr])
        def square(node):  # sqr(x) -> x * x
            return [node.inputs[0] * node.inputs[0]] if node.op == T.sqr else False

        for first, second in ((save, square), (square, save)):
            mode = DebugMode(
                optimizer=SeqOptimizer(in2out(first, ignore_newtrees=True), in2out(second, ignore_newtrees=True)),
                stability_patience=1,
                check_c_code=False,
            )
            f = theano.function([x], T.sqr(T.log(T.exp(x))) > 5, mode=mode)
            self.assertEqual(f([1000.0, 1.0]).tolist(), [True, False])
            g = theano.function([x], 1 / T.sqr(T.log(T.exp(x))), mode=mode)
            np.testing.assert_allclose(g([1000.0, 2.0]), [1e-6, 0.25])

    def test_the_rules_of_the_package(self):
        """DebugMode finds no wrong rule among those of FAST_RUN for expressions that overflow or divide zero by zero.

        The arguments are finite, infinite and NaN.
        """
        x = self.x
        y = T.dvector("y")
        m = T.dmatrix("m")
        values = [1.0, 0.0, -3.0, 1000.0, -1000.0, np.nan, np.inf, -np.inf]
        pairs = np.array([(a, b) for a in values for b in values])
        mode = DebugMode(stability_patience=1, check_isfinite=False)
        s = T.nnet.sigmoid(x)
        outs = [
            T.log(1 + T.exp(x)),
            T.log1p(T.exp(x)),
            T.log(s),
            T.log(1 - s),
            T.log1p(-s),
            x / x,
            x * 0,
            x - x,
            (x * y) / y,
            x**2 / x,
            T.exp(x) / (1 + T.exp(x)),
            1 / (1 + T.exp(-x)),
            T.switch(x > 0, x, 0) * y,
            T.eq(x, x),
            T.maximum(x, x),
            -(-x),
            T.log(T.exp(x) * T.exp(y)),
            T.sqrt(x) ** 2,
            abs(x * x),
            (x + y) - x,
            T.minimum(x, y) - T.minimum(y, x),
            x / 1,
            T.sum(x * 0),
            T.sum(x * 2),
            T.erf(x),
            1 - T.erf(x),
            T.log(1 - x),
            T.exp(x) - 1,
            (x**y),
            x * T.inv(x),
            x * -1 / y,
        ]
        f = theano.function([x, y], outs, mode=mode)
        f(pairs[:, 0].copy(), pairs[:, 1].copy())
        for pair in pairs[::7]:
            f(pair[:1].copy(), pair[1:].copy())
        g = theano.function(
            [m],
            [
                T.nnet.softmax(m),
                T.log(T.nnet.softmax(m)),
                T.exp(m) / T.exp(m).sum(axis=1, keepdims=True),
                T.max(-m, axis=1),
                T.log(T.sum(T.exp(m), axis=1)),
                T.sum(2 * m, axis=0),
                T.prod(m * 0, axis=1),
                T.grad(T.log(T.nnet.softmax(m)[:, 0]).sum(), m),
            ],
            mode=mode,
        )
        g(np.array([[1.0, 2.0], [1000.0, -1000.0]]))
        for value in values:
            g(np.array([[1.0, value], [value, 2.0], [0.0, 3.0]]))


if __name__ == "__main__":
    unittest.main()
