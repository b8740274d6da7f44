"""Tests of calls, and of errors of calls, on which programs written for Theano 1.0 rely."""

import copy
import pickle
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.function_module import UnusedInputError
from theano_ng.compile.mode import Mode
from theano_ng.configparser import change_flags
from theano_ng.gof.op import get_debug_values, missing_test_message

PYTHON = Mode("py", None)
FAST = Mode("cvm", None)  # runs only C code that is part of the package, compiles none


class TestTestValues(unittest.TestCase):
    def test_missing_value(self):
        x, y = T.dvectors("x", "y")
        y.tag.test_value = np.ones(2)
        with change_flags(compute_test_value="raise"):
            for build in (lambda: x + 1, lambda: y + x, lambda: T.grad((x * y).sum(), y)):
                self.assertRaises(ValueError, build)
            for ask in (lambda: list(get_debug_values(y, x)), lambda: missing_test_message("no value")):
                self.assertRaises(AttributeError, ask)
            np.testing.assert_array_equal((y + 1).tag.test_value, [2, 2])

    def test_derivatives_of_graphs_inside_ops(self):
        """Derivatives of an OpFromGraph have test values.

        The variables of its inner graph have none.
        """

        def doubled(inputs, gradients):
            return [2 * gradients[0] * inputs[1], 2 * gradients[0] * inputs[0]]

        a, b = T.dvectors("a", "b")
        kinds = {"default": {}, "inline": {"inline": True}, "override": {"grad_overrides": doubled}}
        a.tag.test_value, b.tag.test_value = np.arange(3.0), np.arange(3.0) + 5
        for kind, arguments in kinds.items():
            with self.subTest(kind), change_flags(compute_test_value="raise"):
                op = self.product(**arguments)
                c = op(a, b)
                factor = 2 if kind == "override" else 1
                ga, gb = T.grad(c.sum(), [a, b])
                np.testing.assert_array_equal(ga.tag.test_value, factor * b.tag.test_value)
                np.testing.assert_array_equal(gb.tag.test_value, factor * a.tag.test_value)
                if kind != "override":
                    second = T.grad(T.grad((c * c).sum(), a).sum(), b)
                    np.testing.assert_array_equal(second.tag.test_value, 4 * a.tag.test_value * b.tag.test_value)
                np.testing.assert_array_equal(T.Rop(c, a, b).tag.test_value, b.tag.test_value**2)

    def test_derivatives_have_values(self):
        """Gradients and R-operators of many Ops have test values, which equal the results of a compiled function."""
        x, v = T.dmatrix("x"), T.ivector("v")
        x.tag.test_value, v.tag.test_value = np.arange(1.0, 10).reshape(3, 3), np.array([0, 2, 2], "int32")
        with change_flags(compute_test_value="raise"):
            for y in (
                T.join(0, x, x),
                T.tile(x, (1, 2)),
                T.split(x, [1, 2], 2)[1],
                T.stack([x, x]),
                T.as_tensor_variable([x[0, 0], x[1, 1]]),
                T.specify_shape(x, (3, 3)),
                T.alloc(x, 2, 3, 3),
                x[v],
                x[v, v],
                x[:, None][v, 0, v],
                T.inc_subtensor(x[v], x),
                T.set_subtensor(x[v, v], x[0]),
                T.inc_subtensor(x[1:], 1.0),
                T.exp(x).reshape((9,)),
                T.dot(x, x),
                x.sum(0),
                T.sort(x, 0),
                T.nnet.softmax(x),
            ):
                with self.subTest(str(y)):
                    moved, slope = T.Rop(y, x, x), T.grad((y**2).sum(), x)
                    for made, other in ((moved, y), (slope, x)):
                        self.assertEqual(made.tag.test_value.shape, other.tag.test_value.shape)
                    again = theano.function([x, v], [moved, slope], on_unused_input="ignore", mode=PYTHON)
                    for found, made in zip(again(x.tag.test_value, v.tag.test_value), (moved, slope)):
                        np.testing.assert_allclose(found, made.tag.test_value)

    @staticmethod
    def product(**arguments):
        with change_flags(compute_test_value="off"):
            p, q = T.dvectors("p", "q")
            return theano.OpFromGraph([p, q], [p * q], **arguments)


class TestNoValue(unittest.TestCase):
    """Tests of None as an argument. It is not converted, and the node that reads it accepts or refuses it."""

    def test_default(self):
        for mode in (PYTHON, FAST):
            for kind, other in (
                ("dscalar", np.float64(5)),
                ("dvector", np.ones(2)),
                ("imatrix", np.ones((2, 2), "int32")),
            ):
                x = getattr(T, kind)("x")
                f = theano.function([x], T.default(x, other), mode=mode)
                np.testing.assert_array_equal(f(None), other)
                np.testing.assert_array_equal(f(x=None), other)
                np.testing.assert_array_equal(f(other + 1), other + 1)

    def test_number_of_columns(self):
        n, m, k = T.iscalars("n", "m", "k")
        for mode in (PYTHON, FAST):
            for make, like in ((T.eye, np.eye), (T.tri, np.tri)):
                f = theano.function([n, m, k], make(n, m, k), mode=mode)
                for values in ((3, None, 0), (3, None, 1), (0, None, 0), (3, 2, 1)):
                    np.testing.assert_array_equal(f(*values), like(*values))
                for values in ((3, 2, None), (None, 2, 0)):
                    self.assertRaises((TypeError, ValueError), f, *values)

    def test_default_values_come_back(self):
        x = T.dvector("x")
        f = theano.function([theano.In(x, value=np.zeros(2))], T.default(x, np.ones(2)), mode=PYTHON)
        np.testing.assert_array_equal([f(), f(None), f()], [[0, 0], [1, 1], [0, 0]])

    def test_c_code_refuses_it(self):
        x = T.dvector("x")
        state = theano.shared(np.zeros(2), "state")
        f = theano.function([x], x * 2, updates=[(state, state + x)], mode=FAST)
        self.assertRaisesRegex(ValueError, "expected an ndarray.*not None", f, None)
        np.testing.assert_array_equal(state.get_value(), [0, 0])


class TestErrors(unittest.TestCase):
    def test_values_that_are_no_numbers(self):
        """Text and ragged lists raise ValueError. Objects, dicts and arrays of a wrong rank raise TypeError.

        This holds for arguments, default values, `filter` and `set_value`.
        """
        for dtype in ("int8", "int64", "float32", "float64", "complex128"):
            type_ = T.TensorType(dtype, (False,))
            x, shared = type_("x"), theano.shared(np.zeros(2, dtype), "s")
            f = theano.function([x], x, mode=PYTHON)
            for bad, kind in (
                ("abc", ValueError),
                ("", ValueError),
                ([[1, 2], [3]], ValueError),
                (np.ones((2, 2), dtype), TypeError),
                ([object()], TypeError),
                ({}, TypeError),
            ):
                for give in (
                    type_.filter,
                    lambda value: type_.filter(value, allow_downcast=True),
                    shared.set_value,
                    f,
                    lambda value: theano.function([theano.In(x, value=value)], x, mode=PYTHON),
                ):
                    with self.subTest(dtype=dtype, bad=str(bad)):
                        self.assertRaises(kind, give, bad)
            self.assertRaises(TypeError, type_.filter, "abc", strict=True)
            np.testing.assert_array_equal(shared.get_value(), [0, 0])

    def test_inputs_given_twice(self):
        x, s = T.dvector("x"), T.dscalar("s")
        for inputs in ([x, x], [theano.In(x), x], [x, s, x]):
            for policy in ("raise", "warn", "ignore"):
                with self.assertRaisesRegex(UnusedInputError, "Variable x is used twice in inputs to theano.function"):
                    theano.function(inputs, x + s, on_unused_input=policy)

    def test_updates_that_are_no_pairs(self):
        w = theano.shared(0.0, "w")
        for updates, kind in (([w, w + 1], ValueError), ([(w, w, w)], ValueError), ("abc", ValueError), (3, TypeError)):
            self.assertRaises(kind, theano.function, [], w, updates=updates)

    def test_trusted_values_that_are_no_arrays(self):
        """With trust_input, native Ops raise ValueError for an argument that is no array. The error names the node."""
        for output in (
            lambda m: m * 2,
            lambda m: m.sum(),
            lambda m: T.dot(m, m),
            lambda m: m[1:],
            lambda m: m.T,
            lambda m: T.nnet.softmax(m),
            lambda m: T.sort(m),
        ):
            m = T.dmatrix("m")
            f = theano.function([m], output(m), mode=FAST)
            f.trust_input = True
            for bad in (1.0, 1, True, [1.0], "a", None, np.float64(1)):
                self.assertRaisesRegex(ValueError, "expected an ndarray(?s:.*)Apply node that caused the error", f, bad)
            self.assertRaisesRegex(TypeError, "expected an array of dtype float64", f, np.ones((2, 2), "float32"))

    def test_bad_arguments_are_explained(self):
        names = T.dvector("x"), T.dvector()
        for variable, shown in zip(names, ("x", "<TensorType(float64, vector)>")):
            for name in (None, "f"):
                f = theano.function([variable], variable, mode=PYTHON, name=name)
                with self.assertRaises(TypeError) as caught:
                    f(np.ones((2, 2)))
                (text,) = caught.exception.args  # the only argument of the exception is its text
                self.assertEqual(str(caught.exception), text)
                self.assertIn(" at index 0 (0-based), the input %s. " % shown, text)
                self.assertIn('\nBacktrace when that variable is created:\n\n  File "', text)
                self.assertIn('names = T.dvector("x"), T.dvector()\n', text)
                self.assertTrue(text.endswith("\nWrong number of dimensions: expected 1, got 2 with shape (2, 2)."))
                self.assertEqual(' with name "f"' in text, name == "f")


class TestResults(unittest.TestCase):
    def test_no_outputs(self):
        x, w = T.dvector("x"), theano.shared(0.0)
        for outputs in (None, []):
            self.assertEqual(theano.function([x], outputs, on_unused_input="ignore", mode=PYTHON)(np.zeros(2)), [])
            f = theano.function([], outputs, updates=[(w, w + 1)], mode=PYTHON)
            self.assertEqual([f(), f(output_subset=[])], [[], []])
        self.assertEqual(w.get_value(), 4)
        self.assertRaises(UnusedInputError, theano.function, [x], None)

    def test_run_several_times(self):
        x, w = T.dvector("x"), theano.shared(0.0)
        f = theano.function([x], x.sum(), updates=[(w, w + x.sum())], mode=FAST)
        f.input_storage[0].storage[0] = np.ones(2)
        for arguments, calls in (({}, 1), ({"n_calls": 3}, 3), ({"n_calls": 0}, 0), ({"n_calls": -1}, 0)):
            w.set_value(0.0)
            f.fn(**arguments)
            self.assertEqual(w.get_value(), 2 * calls)
        w.set_value(0.0)
        f.fn(output_subset=[0], n_calls=2)
        self.assertEqual(w.get_value(), 4)
        self.assertRaises(TypeError, f.fn, n_calls=1.5)

    def test_several_runs_stop_at_an_error(self):
        counter = theano.shared(3)
        f = theano.function([], T.constant(np.ones(3))[counter - 1], updates=[(counter, counter - 4)], mode=FAST)
        self.assertRaises(IndexError, f.fn, n_calls=5)
        self.assertEqual(counter.get_value(), -5)  # two runs succeeded

    def test_size_of_a_scalar(self):
        s = T.dscalar("s")
        for mode in (PYTHON, FAST, "FAST_COMPILE"):
            self.assertEqual(theano.function([s], s.size, mode=mode)(3.0), 1)


class TestSharedContainers(unittest.TestCase):
    """Two functions that share a container still share one after they are pickled or deep-copied together.

    The copied functions do not share it with the original functions.
    """

    @staticmethod
    def pair():
        x, s = T.dscalars("x", "s")
        f = theano.function([x, theano.In(s, value=1.0, update=s + x, mutable=True)], s + x, mode=FAST)
        g = theano.function([x, theano.In(s, value=f.container["s"], update=s - x, mutable=True)], s - x, mode=FAST)
        return f, g

    def check(self, f, g):
        self.assertEqual((f["s"], g["s"]), (1, 1))
        f(2.0)
        self.assertEqual((f["s"], g["s"]), (3, 3))
        g(1.0)
        self.assertEqual((f["s"], g["s"]), (2, 2))
        f["s"] = 10.0
        self.assertEqual((g["s"], g(3.0), f["s"]), (10, 7, 7))

    def test_copies(self):
        def one_memo(f, g, memo):
            return copy.deepcopy(f, memo), copy.deepcopy(g, memo)

        ways = [
            copy.deepcopy,
            lambda pair: one_memo(*pair, {}),
            lambda pair: tuple(reversed(copy.deepcopy(pair[::-1]))),
            lambda pair: tuple(reversed(one_memo(*pair[::-1], {}))),
            lambda pair: copy.deepcopy(copy.deepcopy([*pair, *pair]))[2:],
        ]
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            ways.append(lambda pair, protocol=protocol: pickle.loads(pickle.dumps(pair, protocol)))
            ways.append(lambda pair, protocol=protocol: pickle.loads(pickle.dumps(pair[::-1], protocol))[::-1])
        for way in ways:
            f, g = self.pair()
            copies = way((f, g))
            self.check(*copies)
            self.assertEqual((f["s"], g["s"]), (1, 1))
            self.check(f, g)

    def test_the_container_itself(self):
        f, g = self.pair()
        container, f2, g2 = copy.deepcopy((f.container["s"], f, g))
        f2(3.0)
        self.assertEqual((container.value, g2["s"], f["s"]), (4, 4, 1))
        container.value = 7.0
        self.assertEqual((f2["s"], g2["s"]), (7, 7))

    def test_defaults_are_not_shared(self):
        x, s = T.dscalars("x", "s")
        f = theano.function([x, theano.In(s, value=2.0)], x * s, mode=PYTHON)
        for f2 in (copy.deepcopy(f), pickle.loads(pickle.dumps(f))):
            self.assertEqual([f2(3.0), f2(3.0, 5.0), f2(3.0)], [6, 15, 6])
            f2["s"] = 4.0
            self.assertEqual([f2["s"], f["s"]], [4, 2])

    def test_shared_variables(self):
        w = theano.shared(1.0)
        x = T.dscalar("x")
        f = theano.function([x], w, updates=[(w, w + x)], mode=FAST)
        g = theano.function([], w * 2, mode=FAST)
        for w2, f2, g2 in (copy.deepcopy((w, f, g)), pickle.loads(pickle.dumps((w, f, g), 2))):
            f2(3.0)
            self.assertEqual((w2.get_value(), g2(), w.get_value()), (4, 8, 1))


if __name__ == "__main__":
    unittest.main()
