"""Tests of test values: every policy, present and missing values, errors that name variables and lines."""

import contextlib
import io
import unittest
import unittest.mock
import warnings

import numpy as np

import theano_ng as theano
from theano_ng import config, shared
from theano_ng import tensor as T
from theano_ng.compile.builders import OpFromGraph
from theano_ng.compile.ops import as_op
from theano_ng.compile.tests.pickled_functions import Times, TimesInC
from theano_ng.configparser import change_flags
from theano_ng.gof.op import (
    compute_test_value,
    debug_assert,
    debug_error_message,
    get_debug_values,
    get_test_value,
    missing_test_message,
)
from theano_ng.ifelse import ifelse

POLICIES = ("off", "ignore", "warn", "raise", "pdb")


class OnlyC(TimesInC):
    """An Op without perform: its test values are computed in C."""

    perform = theano.gof.Op.perform


class Base(unittest.TestCase):
    def caught(self, policy, build):
        """Return (result or exception, number of warnings, number of calls of the debugger)."""
        with (
            change_flags(compute_test_value=policy),
            warnings.catch_warnings(record=True) as warned,
            unittest.mock.patch("pdb.post_mortem") as debugger,
            unittest.mock.patch("pdb.set_trace", debugger),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            warnings.simplefilter("always")
            try:
                result = build()
            except Exception as failure:
                result = failure
        return result, len(warned), debugger.call_count


class TestPolicies(Base):
    def test_present(self):
        v = T.dvector("v")
        v.tag.test_value = np.arange(3.0)
        q = T.dvector("q")
        tripled = OpFromGraph([q], [q * 3])
        double = as_op([T.dvector], [T.dvector])(lambda value: value * 2)
        expected = {
            "constants and shared": (lambda: T.constant(2.0) + shared(3.0), 5),
            "in Python": (lambda: Times(2)(v), [0, 2, 4]),
            "in C": (lambda: TimesInC(2)(v), [0, 2, 4]),
            "a function": (lambda: double(v), [0, 2, 4]),
            "a graph": (lambda: tripled(v), [0, 3, 6]),
            "a gradient": (lambda: T.grad((v**2).sum(), v), [0, 2, 4]),
            "lazy": (lambda: ifelse(T.gt(v.sum(), 5), v, v * 2), [0, 2, 4]),
            "an array": (lambda: v + np.ones(3), [1, 2, 3]),
            "in place": (lambda: T.inc_subtensor(v[0], 5.0, inplace=True), [5, 1, 2]),
        }
        if config.cxx:
            expected["only in C"] = (lambda: OnlyC(2)(v), [0, 2, 4])
        for policy in POLICIES:
            for name, (build, value) in expected.items():
                with self.subTest(policy=policy, what=name):
                    result, warned, debugged = self.caught(policy, build)
                    self.assertEqual((warned, debugged), (0, 0))
                    if policy == "off":
                        self.assertFalse(hasattr(result.tag, "test_value"))
                    else:
                        np.testing.assert_array_equal(result.tag.test_value, value)
        np.testing.assert_array_equal(v.tag.test_value, [0, 1, 2])  # an in-place Op overwrites a copy of the test value

    def test_missing(self):
        x, y = T.dmatrices("xy")
        x.tag.test_value = np.ones((2, 3))
        for policy, warned, debugged in (
            ("off", 0, 0),
            ("ignore", 0, 0),
            ("warn", 1, 0),
            ("raise", 0, 0),
            ("pdb", 0, 1),
        ):
            result, *counts = self.caught(policy, lambda: T.dot(x, y))
            self.assertEqual(counts, [warned, debugged])
            if policy == "raise":
                self.assertIsInstance(result, ValueError)
                self.assertRegex(
                    str(result), r"(?s)input 1 \(y\) of Op dot\(x, y\) missing default value.*x, y = T.dmatrices"
                )
            else:
                self.assertFalse(hasattr(result.tag, "test_value"))
            result, *counts = self.caught(policy, lambda: missing_test_message("words"))
            self.assertEqual((isinstance(result, AttributeError), counts), (policy == "raise", [warned, debugged]))

    def test_function_without_operations(self):
        """With every policy, a function can return one of its inputs.

        `function` adds a node that copies the input, and this node needs no test value.
        """
        x = T.dvector("x")
        for policy in POLICIES:
            result, *counts = self.caught(policy, lambda: theano.function([x], x)([1.0, 2.0]).tolist())
            self.assertEqual((result, counts), ([1, 2], [0, 0]))

    def test_nodes_that_a_function_adds(self):
        """Nodes that `function` adds need no test values.

        These nodes copy outputs and convert givens.
        """
        x, row, m = T.dvector("x"), T.drow("row"), T.dmatrix("m")
        doubled, turned, total = x * 2, m.T, m.sum()
        state = shared(np.ones(3))
        for mode in ("FAST_RUN", "FAST_COMPILE", theano.compile.DebugMode(), theano.compile.MonitorMode()):
            for name, build in {
                "input": lambda: theano.function([x], x, mode=mode),
                "twice": lambda: theano.function([x], [x, x, doubled, doubled], mode=mode),
                "new value": lambda: theano.function([x], state, updates=[(state, x)], mode=mode),
                "borrowed": lambda: theano.function([theano.In(x, borrow=True)], theano.Out(x, borrow=True), mode=mode),
                "view": lambda: theano.function([m], turned, mode=mode),
                "given": lambda: theano.function([row], total, givens={m: row}, mode=mode),
            }.items():
                with self.subTest(what=name, mode=mode):
                    result, *counts = self.caught("raise", build)
                    self.assertIsInstance(result, theano.compile.function_module.Function)
                    self.assertEqual(counts, [0, 0])

    def test_failing(self):
        x, y = T.dmatrices("xy")
        x.tag.test_value = y.tag.test_value = np.ones((2, 3))
        for policy in POLICIES:
            result, warned, debugged = self.caught(policy, lambda: T.dot(x, y))
            self.assertEqual((isinstance(result, ValueError), warned, debugged), (policy != "off", 0, policy == "pdb"))
            if policy != "off":
                (note,) = result.__notes__
                self.assertRegex(
                    note,
                    r"(?s)test value of dot\(x, y\).*input 0: x of type TensorType\(float64, matrix\), test value "
                    r"with shape \(2, 3\), dtype float64.*x, y = T.dmatrices.*input 1: y",
                )

    def test_values_of_another_type(self):
        x = T.dmatrix("x")
        for value, shape in (
            (np.ones((2, 1), "float32"), (2, 1)),
            ([[1, 2]], (1, 2)),
            (np.ones(3), TypeError),
            ("text", ValueError),
        ):
            x.tag.test_value = value
            result, *_ = self.caught("ignore", lambda: x + 1)
            if isinstance(shape, type):
                self.assertIsInstance(result, shape)
                self.assertRegex(str(result), r'(?s)does not have the requested type.*x = T.dmatrix\("x"\)')
            else:
                self.assertEqual(
                    (result.tag.test_value.shape, result.tag.test_value.dtype), (shape, np.dtype("float64"))
                )

    def test_while_rewriting(self):
        x, y = T.dvectors("xy")
        x.tag.test_value = np.ones(2)
        with change_flags(compute_test_value="raise"):
            z = T.exp(x) * 2 * 3
        for policy in POLICIES:
            with (
                change_flags(compute_test_value_opt=policy, on_opt_error="raise", cache_graphs=False),
                unittest.mock.patch("pdb.post_mortem", side_effect=AssertionError("the debugger was started")),
            ):
                f = theano.function([x], z)
                np.testing.assert_allclose(f([0.0]), [6])
                (out,) = f.maker.fgraph.outputs
                self.assertEqual(hasattr(out.tag, "test_value"), policy != "off")
                if policy != "off":
                    np.testing.assert_allclose(out.tag.test_value, [6 * np.e] * 2)
        with (
            change_flags(compute_test_value_opt="warn", cache_graphs=False),
            self.assertWarnsRegex(UserWarning, r"input .* \(y\)"),
        ):
            theano.function([y], y * 2 * 3)


class TestHelpers(Base):
    def test_values_of_variables(self):
        x, y = T.dvectors("xy")
        x.tag.test_value = [1.0, 2.0]
        np.testing.assert_array_equal(get_test_value(x), [1, 2])
        self.assertEqual((get_test_value(5), get_test_value(shared(6)), get_test_value(T.constant(7))), (5, 6, 7))
        self.assertRaisesRegex(AttributeError, r"(?s)y has no test value.*x, y = T.dvectors", get_test_value, y)
        node = (x + x).owner
        compute_test_value(node)
        np.testing.assert_array_equal(node.outputs[0].tag.test_value, [2, 4])

    def test_debug_values(self):
        x, y = T.dvectors("xy")
        x.tag.test_value = [1.0, 2.0]
        for policy in POLICIES:
            result, *_ = self.caught(policy, lambda: get_debug_values(x, 3))
            self.assertEqual(
                [[np.asarray(value).tolist() for value in values] for values in result],
                [] if policy == "off" else [[[1, 2], 3]],
            )
            result, warned, debugged = self.caught(policy, lambda: get_debug_values(x, y))
            self.assertEqual((warned, debugged), (policy == "warn", policy == "pdb"))
            if policy == "raise":
                self.assertIsInstance(result, AttributeError)
                self.assertEqual(str(result), "Argument 1('y') has no test value")
            else:
                self.assertEqual(result, [])

    def test_checks(self):
        for policy in POLICIES:
            for check, kind in (
                (lambda: debug_error_message("words"), ValueError),
                (lambda: debug_assert(False, "words"), AssertionError),
            ):
                result, warned, _ = self.caught(policy, check)
                raised = policy in ("ignore", "raise", "pdb")
                self.assertEqual((type(result), warned), (kind if raised else type(None), policy == "warn"))
            self.assertEqual(self.caught(policy, lambda: debug_assert(True, "words")), (None, 0, 0))

    def test_text(self):
        x = T.dvector("x")
        x.tag.test_value = np.array([1.0, 2.0])
        with change_flags(compute_test_value="raise"):
            y = x + 1
        plain = [str(x), repr(y), theano.pp(y), theano.printing.debugprint(y, file="str")]
        with change_flags(print_test_value=True):
            self.assertEqual([str(x), repr(x), x.__repr__(firstPass=False)], ["x\narray([1., 2.])"] * 2 + ["x"])
            self.assertEqual(repr(y), plain[1] + "\narray([2., 3.])")
            self.assertEqual([theano.pp(y), theano.printing.debugprint(y, file="str")], plain[2:])
            self.assertEqual(str(T.dvector("nothing")), "nothing")
            x.tag.test_value = "text"
            self.assertEqual(str(x), "x")


if __name__ == "__main__":
    unittest.main()
