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
            post_func=lambda i, node, fn: seen.append(("out", i, [c[0] for c in fn.outputs])),
            optimizer=None,
        )
        x = number("x")
        f = pfunc([x], mul(add(x, 1), 2), mode=mode)
        self.assertEqual(f(3), 8.0)
        self.assertEqual(
            seen, [("in", 0, "add", [3.0, 1.0]), ("out", 0, [4.0]), ("in", 1, "mul", [4.0, 2.0]), ("out", 1, [8.0])]
        )
        # the mode can be reused, and lazy nodes run in order
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

    def test_the_documented_examples(self):
        import theano_ng as theano

        def inspect_inputs(i, node, fn):
            print(i, node, "input(s) value(s):", [input[0] for input in fn.inputs], end="")

        def inspect_outputs(i, node, fn):
            print(" output(s) value(s):", [output[0] for output in fn.outputs])

        x = theano.tensor.dscalar("x")
        f = theano.function([x], [5 * x], mode=MonitorMode(pre_func=inspect_inputs, post_func=inspect_outputs))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual([float(v) for v in f(3)], [15.0])
        # NumPy 2 prints 5. instead of 5.0
        self.assertEqual(
            out.getvalue(),
            "0 Elemwise{mul,no_inplace}(TensorConstant{5.0}, x) input(s) value(s): [array(5.), array(3.)] "
            "output(s) value(s): [array(15.)]\n",
        )

        for excluded, graph in (
            ((), ("Elemwise{Composite{(log(i0) * i0)}} [id A] ''", " |x [id B]")),
            (
                ("local_elemwise_fusion", "inplace"),
                (
                    "Elemwise{mul,no_inplace} [id A] ''",
                    " |Elemwise{log,no_inplace} [id B] ''",
                    " | |x [id C]",
                    " |x [id C]",
                ),
            ),
        ):
            mode = MonitorMode(post_func=detect_nan)
            f = theano.function([x], [theano.tensor.log(x) * x], mode=mode.excluding(*excluded) if excluded else mode)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                f(0)
            lines = [line.rstrip() for line in out.getvalue().splitlines()]
            inputs = "[array(0.)]" if not excluded else "[array(-inf), array(0.)]"
            self.assertEqual(lines, ["*** NaN detected ***", *graph, "Inputs : " + inputs, "Outputs: [array(nan)]"])

    def test_inputs_are_there_afterwards(self):
        import theano_ng as theano

        x = theano.tensor.dvector("x")
        seen = []
        mode = MonitorMode(
            post_func=lambda i, node, fn: seen.append([cell[0] is not None for cell in fn.inputs])
        ).including("fusion")
        theano.function([x], theano.tensor.exp(x).sum() + x[0], mode=mode.requiring("fast_run"))([1, 2])
        self.assertTrue(seen and all(all(there) for there in seen))

    def test_same_result(self):
        x = number("x")
        r = div(add(x, 1), add(x, 2))
        self.assertEqual(pfunc([x], r, mode=MonitorMode(optimizer=None))(3), pfunc([x], r, mode=Mode("cvm", None))(3))


if __name__ == "__main__":
    unittest.main()
