"""Tests of the tutorial's listings and their documented results: errors and debugging."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import function
from theano_ng.tests.closeness import assert_close


class ErrorsAndDebugging(unittest.TestCase):
    def test_elementwise_mismatch_names_the_node(self):
        x, y = T.vector(), T.vector()
        f = function([x, y], (x + x) + y)
        with self.assertRaises(ValueError) as ei:
            f(np.ones(2), np.ones(3))
        m = str(ei.exception)
        for part in (
            "Input dimension mis-match",
            "Apply node that caused the error:",
            "Inputs types:",
            "Inputs shapes:",
            "Inputs strides:",
            "Inputs scalar values:",
            "'not scalar'",
            "HINT",
            "optimizer=fast_compile",
            "exception_verbosity=high",
        ):
            assert part in m
        # 'Input dimension mis-match' is the message of the C code; the Python code raises ValueError with NumPy's
        # message. With optimizer=fast_compile, the message has 'Backtrace when the node is created:' and the source
        # line of the wrong addition. With exception_verbosity=high, it has 'Debugprint of the apply node:'.

    def test_dot22_shape_error_at_run_time_test_values(self):
        fx = theano.config.floatX
        W1 = theano.shared(np.random.rand(2, 10, 10).astype(fx), "W1")
        W2 = theano.shared(np.random.rand(15, 20).astype(fx), "W2")

        def build(x):
            return T.dot(T.dot(x, W1.dimshuffle(2, 0, 1).flatten(2).T), W2.T)

        x = T.matrix("x")
        f = function([x], build(x))
        with self.assertRaises(ValueError):
            f(np.random.rand(5, 10).astype(fx))
        theano.config.compute_test_value = "warn"
        try:
            x = T.matrix("x")
            x.tag.test_value = np.random.rand(5, 10).astype(fx)
            with self.assertRaises(ValueError):
                build(x)
        finally:
            theano.config.compute_test_value = "off"

    def test_policy_for_missing_test_values_automatic_tagging(self):
        import warnings

        try:
            theano.config.compute_test_value = "raise"
            a = T.dscalar("a")
            a.tag.test_value = np.float64(2.0)
            assert (a * 3).tag.test_value == 6.0
            with self.assertRaises(Exception):
                T.dscalar("nothing") * 2
            theano.config.compute_test_value = "ignore"
            T.dscalar("nothing") * 2
            theano.config.compute_test_value = "warn"
            with warnings.catch_warnings(record=True) as w:
                warnings.simplefilter("always")
                T.dscalar("nothing") * 2
            assert w
        finally:
            theano.config.compute_test_value = "off"

    def test_print_test_value(self):
        x = T.scalar("x")
        x.tag.test_value = 42
        try:
            theano.config.print_test_value = True
            lines = repr(x).split("\n")
            assert lines[0] == "x" and "42" in lines[1]
        finally:
            theano.config.print_test_value = False
        assert repr(x) == "x"

    def test_print(self):
        import contextlib
        import io

        x = T.dvector("x")
        f = function([x], theano.printing.Print("this is a very important value")(x) * 5)
        buf = io.StringIO()
        with contextlib.redirect_stdout(buf):
            r = f([1, 2, 3])
        assert_close(r, [5, 10, 15])
        assert buf.getvalue().startswith("this is a very important value __str__ = [")

    def test_monitormode_callbacks(self):
        seen = []
        x = T.dscalar("x")
        f = function(
            [x],
            [5 * x],
            mode=theano.compile.MonitorMode(
                pre_func=lambda i, node, fn: seen.append(("in", i, str(node), [float(c[0]) for c in fn.inputs])),
                post_func=lambda i, node, fn: seen.append(("out", i, [float(c[0]) for c in fn.outputs])),
            ),
        )
        f(3)
        assert seen[0] == ("in", 0, "Elemwise{mul,no_inplace}(TensorConstant{5.0}, x)", [5.0, 3.0]) and seen[1] == (
            "out",
            0,
            [15.0],
        )

    def test_nan_detector_also_with_rewrites_excluded(self):
        import contextlib
        import io

        from theano_ng.compile.monitormode import detect_nan

        x = T.dscalar("x")
        for mode in (
            theano.compile.MonitorMode(post_func=detect_nan),
            theano.compile.MonitorMode(post_func=detect_nan).excluding("local_elemwise_fusion", "inplace"),
        ):
            f = function([x], [T.log(x) * x], mode=mode)
            buf = io.StringIO()
            with contextlib.redirect_stdout(buf), np.errstate(all="ignore"):
                f(0)
            assert (
                "*** NaN detected ***" in buf.getvalue()
                and "Inputs :" in buf.getvalue()
                and "Outputs:" in buf.getvalue()
            )

    def test_elementwise_mismatch_of_matrices_names_the_node(self):
        a, b = T.dmatrix("a"), T.dmatrix("b")
        f = function([a, b], [a * b])
        with self.assertRaisesRegex(ValueError, "mis-match"):
            f(np.arange(12).reshape(3, 4), np.arange(25).reshape(5, 5))

    def test_nanguardmode_raises_on_nan(self):
        x = T.dvector("x")
        f = function([x], T.log(x), mode="NanGuardMode")
        f([1.0])
        with self.assertRaises(Exception), np.errstate(all="ignore"):
            f([-1.0])

    def test_function_dump(self):
        import os
        import pickle
        import tempfile

        x = T.dvector("x")
        with tempfile.TemporaryDirectory() as folder:
            fn = os.path.join(folder, "dump.pkl")
            theano.function_dump(fn, [x], x * 2)
            with open(fn, "rb") as file:
                arguments = pickle.load(file)
        assert_close(theano.function(**arguments)([1, 2]), [2, 4])
