"""Tests of the flag `DebugMode.search`: DebugMode tries other values than those of a call."""

import os
import pickle
import subprocess
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.debugmode import BadThunkOutput, DebugMode, DebugModeError, run
from theano_ng.configdefaults import config
from theano_ng.gof import Apply, Op, ports

HAS_HYPOTHESIS = True
try:
    import hypothesis  # noqa: F401
except ImportError:
    HAS_HYPOTHESIS = False


class Plus(Op):
    """x + y for vectors: a correct Op, with inputs of equal lengths."""

    __props__ = ()

    def make_node(self, x, y):
        return Apply(self, [x, y], [x.type()])

    def perform(self, node, inputs, outputs):
        x, y = inputs
        if len(x) != len(y):
            raise ValueError("the lengths differ")
        outputs[0][0] = x + y

    def infer_shape(self, node, shapes):
        return [shapes[0]]


class IgnoresStrides(Plus):
    def perform(self, node, inputs, outputs):
        x, y = inputs
        if len(x) != len(y):
            raise ValueError("the lengths differ")
        outputs[0][0] = (
            np.ndarray(x.shape, x.dtype, x.base if x.base is not None and x.base.size == 2 * x.size + 1 else x) + y
        )


class WrongShapeOfNothing(Plus):
    def infer_shape(self, node, shapes):
        return [(T.maximum(shapes[0][0], 1),)]


class WritesIntoOutput(Plus):
    def perform(self, node, inputs, outputs):
        z = outputs[0][0]
        if z is None or len(z) < len(inputs[0]):
            super().perform(node, inputs, outputs)
        else:
            np.add(*inputs, out=z[: len(inputs[0])])


@unittest.skipUnless(HAS_HYPOTHESIS, "needs Hypothesis")
class TestSearch(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.object(run, "_searched", set())
        patch.start()
        self.addCleanup(patch.stop)

    def call(self, op, search=0.5, length=4, twice=False):
        x = np.arange(float(length))
        a, b = T.dvectors("a", "b")
        settings = dict(check_preallocated_output="", stability_patience=1, optimizer=None)
        with config.change_flags({"DebugMode.search": search}):
            f = theano.function([a, b], op(a, a if twice else b), mode=DebugMode(**settings), on_unused_input="ignore")
        return f(x, x + 1)

    def test_right(self):
        np.testing.assert_array_equal(self.call(Plus()), 2 * np.arange(4.0) + 1)
        np.testing.assert_array_equal(self.call(Plus(), twice=True), 2 * np.arange(4.0))

    def test_off(self):
        for op in (IgnoresStrides(), WrongShapeOfNothing(), WritesIntoOutput()):
            self.call(op, 0.0)

    def test_errors(self):
        """The errors have the documented classes. Their texts contain the values that show them."""
        with self.assertRaises(BadThunkOutput) as caught:
            self.call(IgnoresStrides(), 30.0)
        text = str(caught.exception)
        self.assertEqual(type(caught.exception).__name__, "BadThunkOutput")
        self.assertIn("perform on contiguous copies and perform give different values", text)
        self.assertIn("strided: [", text)
        self.assertRegex(text, r"test_debug_search.py:\d+")
        self.assertEqual(str(pickle.loads(pickle.dumps(caught.exception))), text)
        with self.assertRaisesRegex(BadThunkOutput, "output"):
            self.call(WritesIntoOutput(), 30.0)
        with self.assertRaisesRegex(DebugModeError, "BadInferShape"):
            self.call(WrongShapeOfNothing(), 30.0)

    def test_once(self):
        """An Op is searched once for the same types, and Ops of the package are not searched."""
        with mock.patch.object(ports.search_node, "_function", mock.Mock(return_value=None)) as search:
            for _ in range(3):
                self.call(Plus())
            self.assertEqual(search.call_count, 1)
            self.call(Plus(), length=3)
            self.assertEqual(search.call_count, 1)
            self.call(T.add)
            self.assertEqual(search.call_count, 1)

    def test_without_hypothesis(self):
        logged = self.assertLogs("theano_ng.compile.debugmode", "WARNING")
        with mock.patch.dict(sys.modules, {"hypothesis": None}), logged as seen:
            self.call(IgnoresStrides(), 30.0)
        self.assertIn("DebugMode.search has no effect", seen.output[0])

    def test_runner(self):
        """`theano_ng-nose` sets the flag if the mode is DebugMode."""
        program = """
        import unittest
        from theano_ng.configdefaults import config

        class TestFlag(unittest.TestCase):
            def test(self):
                self.assertEqual(config.DebugMode.search, %s)
        """
        with tempfile.TemporaryDirectory() as folder:
            for flags, expected in (
                ("mode=DebugMode", 0.2),
                ("mode=DebugMode,DebugMode.search=0", 0.0),
                ("mode=FAST_RUN", 0.0),
            ):
                with open(os.path.join(folder, "test_flag.py"), "w") as file:
                    file.write(textwrap.dedent(program % expected))
                flags = "%s,%s" % (os.environ.get("THEANO_FLAGS", ""), flags)
                done = subprocess.run(
                    [sys.executable, "-m", "theano_ng.tests.runner", "test_flag.py"],
                    cwd=folder,
                    env=dict(os.environ, THEANO_FLAGS=flags.strip(",")),
                    capture_output=True,
                    text=True,
                )
                self.assertTrue(done.stdout.endswith("1 passed, 0 failed, 0 skipped\n"), done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
