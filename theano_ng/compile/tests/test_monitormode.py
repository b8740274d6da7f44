import contextlib
import copy
import io
import unittest

from theano_ng.compile.mode import Mode
from theano_ng.compile.monitormode import MonitorMode, detect_nan
from theano_ng.compile.pfunc import pfunc
from theano_ng.gof import vm
from theano_ng.gof.tests.floats import Compute, add, choose, div, mul, number


class TestMonitorMode(unittest.TestCase):
    def test_callbacks(self):
        seen = []
        mode = MonitorMode(
            pre_func=lambda i, node, fn: seen.append(("in", i, str(node.op), [c[0] for c in fn.inputs])),
            post_func=lambda i, node, fn: seen.append(("out", i, [c[0] for c in fn.outputs])), optimizer=None)
        x = number("x")
        f = pfunc([x], mul(add(x, 1), 2), mode=mode)
        self.assertEqual(f(3), 8.0)
        self.assertEqual(seen, [
            ("in", 0, "add", [3.0, 1.0]), ("out", 0, [4.0]), ("in", 1, "mul", [4.0, 2.0]), ("out", 1, [8.0])])
        # the mode can be used again, and lazy nodes run in order
        c = number("c")
        g = pfunc([c, x], choose(c, add(x, 1), mul(x, 2)), mode=mode)
        self.assertEqual((g(1, 5), g(0, 5), f(1)), (6.0, 10.0, 4.0))

    def test_errors_name_the_node(self):
        x, y = number("x"), number("y")
        f = pfunc([x, y], div(x, y), mode=MonitorMode(optimizer=None))
        self.assertRaisesRegex(ZeroDivisionError, r"caused the error: div\(x, y\)", f, 1, 0)

    def test_copies(self):
        mode = MonitorMode(post_func=detect_nan, optimizer="fast_compile")
        for other in (mode.clone(), mode.excluding("inplace"), copy.deepcopy(mode)):
            self.assertIsInstance(other, MonitorMode)
            self.assertIs(other.post_func, detect_nan)
            self.assertIsNot(other.linker, mode.linker)
        self.assertRaises(Exception, MonitorMode, linker=vm.VM_Linker())
        self.assertRaises(Exception, MonitorMode, linker="c")

    def test_detect_nan(self):
        x = number("x")
        nan = Compute("nan", lambda a: a * float("nan"))
        f = pfunc([x], nan(add(x, 1)), mode=MonitorMode(post_func=detect_nan, optimizer=None))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            f(2)
        text = out.getvalue()
        self.assertEqual(text.count("*** NaN detected ***"), 1)
        self.assertIn("nan [id A]", text)
        self.assertIn("Inputs : [3.0]\nOutputs: [nan]\n", text)

    def test_same_result(self):
        x = number("x")
        r = div(add(x, 1), add(x, 2))
        self.assertEqual(pfunc([x], r, mode=MonitorMode(optimizer=None))(3), pfunc([x], r, mode=Mode("cvm", None))(3))


if __name__ == "__main__":
    unittest.main()
