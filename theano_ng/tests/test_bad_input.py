"""Tests that bad arguments of functions, gradients and flags raise the documented errors and change no state."""

import os
import subprocess
import sys
import tempfile
import traceback
import unittest
import warnings

import numpy as np

import theano_ng as theano
from theano_ng import scalar
from theano_ng import tensor as tt
from theano_ng.compile import UnusedInputError
from theano_ng.compile.debugmode import DebugModeError
from theano_ng.configdefaults import config
from theano_ng.gof.compiler.toolchain import CompileError
from theano_ng.gof.fg import MissingInputError
from theano_ng.gradient import DisconnectedInputError, NullTypeGradError


def run_python(code, directory=None, **environment):
    """Run code in a separate process; return its CompletedProcess."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(theano.__file__)))
    environment = dict(os.environ, PYTHONPATH=root, **environment)
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=directory)


class TestCompiling(unittest.TestCase):
    def setUp(self):
        self.x, self.y = tt.dvector("x"), tt.dvector("y")
        self.w = theano.shared(np.arange(3.0), "w")

    def tearDown(self):
        np.testing.assert_array_equal(self.w.get_value(), np.arange(3.0))

    def test_arguments_that_make_no_sense(self):
        x, y, w, function = self.x, self.y, self.w, theano.function
        m = tt.dmatrix("m")
        for name, call, error, text in [
            (
                "inputs are no list",
                lambda: function(x, x),
                Exception,
                "should be contained in a list, even when there is a single input",
            ),
            ("number as input", lambda: function([3], x), TypeError, "Unknown parameter type: <class 'int'>"),
            (
                "constant as input",
                lambda: function([tt.constant(1.0)], x),
                TypeError,
                "Constants? not allowed in param list",
            ),
            (
                "shared as input",
                lambda: function([w], w + 1),
                TypeError,
                r"Cannot use a shared variable \(w\) as explicit input",
            ),
            (
                "duplicate",
                lambda: function([x, y, x], x + y),
                UnusedInputError,
                "Variable x is used twice in inputs to theano.function, at indices 0 and 2",
            ),
            (
                "unused",
                lambda: function([x, y], x),
                UnusedInputError,
                "provided input variable at index 1 is not part of the "
                r"computational graph needed to compute the outputs: y.\nTo make this error into a warning",
            ),
            (
                "unused, bad option",
                lambda: function([x], x, on_unused_input="loud"),
                ValueError,
                "'raise', 'warn', and 'ignore'",
            ),
            ("missing", lambda: function([x], x + y), MissingInputError, "y"),
            (
                "output is a number",
                lambda: function([x], [x, 3]),
                TypeError,
                "Outputs must be theano Variable or Out instances",
            ),
            (
                "update of no shared variable",
                lambda: function([x], x, updates=[(y, x)]),
                TypeError,
                "update target must be a SharedVariable",
            ),
            (
                "update of another type",
                lambda: function([m], [], updates=[(w, m)]),
                TypeError,
                "An update must have the same type as the original shared variable",
            ),
            (
                "two updates",
                lambda: function([x], [], updates=[(w, x), (w, x + 1)]),
                ValueError,
                "already has an update expression",
            ),
            (
                "updates are a number",
                lambda: function([x], x, updates=3),
                TypeError,
                "updates must be a dictionary or a list of pairs",
            ),
            (
                "given of another type",
                lambda: function([m], x + 1, givens={x: m}),
                TypeError,
                "cannot replace x of type",
            ),
            (
                "given for an input",
                lambda: function([x], x + 1, givens={x: y}),
                RuntimeError,
                "trying to replace variable 'x' through the `givens` parameter",
            ),
            (
                "given for a number",
                lambda: function([y], x + 1, givens=[(3, y)]),
                TypeError,
                "only variables can be replaced",
            ),
            (
                "no_default_updates",
                lambda: function([x], x, no_default_updates="yes"),
                TypeError,
                "either a bool or a list",
            ),
            ("mode", lambda: function([x], x, mode="FASTEST"), Exception, "FAST_RUN"),
            ("dictionary with numbers", lambda: function([x], {1: x}), AssertionError, "strings"),
            ("implicit without value", lambda: theano.In(x, implicit=True), ValueError, "implicit input needs a value"),
            ("mutable but not borrowed", lambda: theano.In(x, mutable=True, borrow=False), ValueError, "borrow"),
            ("cost is a vector", lambda: theano.grad(x, x), TypeError, "[Cc]ost must be a scalar"),
            (
                "not part of the cost",
                lambda: theano.grad(x.sum(), y),
                DisconnectedInputError,
                "not part of the computational graph of the cost",
            ),
            (
                "no way to the input",
                lambda: theano.grad(tt.cast(x.shape[0], "float64"), x),
                DisconnectedInputError,
                "non-differentiable",
            ),
            (
                "undefined gradient",
                lambda: theano.grad(theano.gradient.undefined_grad(x).sum(), x),
                NullTypeGradError,
                "",
            ),
            ("wrong rank", lambda: tt.dot(tt.tensor3(), 3)[0, 0, 0, 0, 0], IndexError, "too many indices"),
            ("dimshuffle drops", lambda: m.dimshuffle(0), ValueError, "drop"),
            ("strange dtype", lambda: tt.tensor("float77", (False,)), TypeError, "[Uu]nsupported dtype"),
            ("truth of a variable", lambda: bool(x > 0), TypeError, "[Vv]ariable"),
        ]:
            with self.subTest(name), self.assertRaisesRegex(error, text):
                call()

    def test_unused_input_as_a_warning(self):
        with self.assertWarnsRegex(UserWarning, "not part of the computational graph"):
            f = theano.function([self.x, self.y], self.x, on_unused_input="warn")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            g = theano.function([self.x, self.y], self.x, on_unused_input="ignore")
        for h in (f, g):
            np.testing.assert_array_equal(h([1.0], [2.0, 3.0]), [1.0])

    def test_documented_keyword_error(self):
        x, y, z, w = tt.dscalar(), tt.dscalar("y"), tt.dscalar("z"), tt.dscalar("w")
        fn = theano.function([x, y, theano.In(z, value=42), theano.In(w, value=0, update=w + x)], x + y + z)
        for args, kwargs, text in [
            ((1,), {}, "Missing required input: y"),
            (
                (1,),
                {"x": 3, "y": 1},
                "Unknown input or state: x. The function has 3 named inputs (y, z, w), and 1 unnamed input which "
                "thus cannot be accessed through keyword argument (use 'name=...' in a variable's constructor to give it a name).",
            ),
        ]:
            with self.assertRaises(TypeError) as caught:
                fn(*args, **kwargs)
            self.assertEqual(str(caught.exception), text)
            self.assertEqual(fn[w], 0)
        self.assertEqual(
            [fn(1, 2), fn(1, y=2), fn(1, 2, 3), fn(1, z=3, y=2), fn(1, 2, w=400), fn(1, 2), fn[w]],
            [45, 45, 6, 6, 45, 45, 402],
        )


class TestCalling(unittest.TestCase):
    def test_arguments_of_another_kind(self):
        shared = theano.shared(np.zeros(2), "s")
        x, r, s, i = tt.fmatrix("x"), tt.row("r", dtype="float64"), tt.dscalar("s"), tt.bvector("i")
        f = theano.function([x, r, s, i], [x.sum() + r.sum() + s, i], updates=[(shared, shared + s)], name="f")
        good = [np.ones((2, 2), "float32"), np.ones((1, 2)), 1.0, np.ones(2, "int8")]
        for k, bad, text in [
            (0, np.ones((2, 2)), "float32"),
            (0, np.ones(2, "float32"), "Wrong number of dimensions: expected 2, got 1"),
            (0, "text", ""),
            (0, [[1, 2], [3]], ""),
            (1, np.ones((2, 2)), "[Bb]roadcast"),
            (1, np.ones(2), "dimensions"),
            (2, np.ones(1), "dimensions"),
            (2, 1j, "complex"),
            (3, [300], "int8"),
            (3, np.ones(2, "int64"), "int8"),
            (3, [0.5, 1], "int8"),
            (0, x, "symbolic|TensorVariable|variable"),
        ]:
            with self.subTest(argument=k, bad=str(bad)):
                arguments = list(good)
                arguments[k] = bad
                with self.assertRaisesRegex((TypeError, ValueError), text) as caught:
                    f(*arguments)
                head = 'Bad input argument to theano function with name "f" at index %d (0-based), the input %s. ' % (
                    k,
                    "xrsi"[k],
                )
                (said,) = caught.exception.args
                self.assertTrue(said.startswith(head), said)
                self.assertIn("Backtrace when that variable is created:\n", said)
                self.assertIn('x, r, s, i = tt.fmatrix("x")', said)
                np.testing.assert_array_equal(shared.get_value(), [0, 0])
        f(*good)
        np.testing.assert_array_equal(shared.get_value(), [1, 1])
        for arguments, text in [(good[:3], "Missing required input: i"), (good + [1], "Too many parameter passed")]:
            self.assertRaisesRegex(TypeError, text, f, *arguments)

    def test_set_value_of_another_type(self):
        s = theano.shared(np.zeros(2), "s")
        for bad in (np.zeros((2, 2)), "text", np.zeros(2, complex)):
            with self.assertRaises((TypeError, ValueError)):
                s.set_value(bad)
            np.testing.assert_array_equal(s.get_value(), [0, 0])

        f = theano.function([], s + 1)
        s.set_value(None)  # empties the container
        self.assertRaisesRegex((ValueError, DebugModeError), "expected an ndarray as input|NoneType", f)
        s.set_value(np.ones(2))
        np.testing.assert_array_equal(f(), [2, 2])

    def test_mismatch_at_run_time(self):
        x, y = tt.dmatrix("x"), tt.dmatrix("y")
        for output, text in [
            (x + y, r"Input dimension mis-match. \(input\[0\].shape\[\d\] = \d, input\[1\].shape\[\d\] = \d\)"),
            (tt.dot(x, y), "[Ss]hape mismatch|not aligned|do not|mismatch"),
            (tt.join(0, x, y), "dimension|shape"),
            (x[y.shape[0] + 5], "out of bounds|[Ii]ndex"),
            (x.reshape((7, y.shape[1])), "reshape"),
        ]:
            for mode in ("FAST_RUN", "FAST_COMPILE"):
                shared = theano.shared(np.ones(3), "s")
                f = theano.function([x, y], output, updates=[(shared, shared * 2)], mode=mode)
                with self.subTest(output=str(output), mode=mode):
                    with self.assertRaises((ValueError, IndexError)) as caught:
                        f(np.ones((2, 3)), np.ones((4, 5)))
                    for part in (
                        "Apply node that caused the error",
                        "Inputs types",
                        "Inputs shapes",
                        "Inputs strides",
                        "HINT",
                    ):
                        self.assertIn(part, str(caught.exception))
                    if mode == "FAST_RUN":
                        # Ignore the lines of this file that the message quotes, because they contain `text`, too.
                        self.assertRegex(str(caught.exception).partition("Apply node that caused the error")[0], text)
                    np.testing.assert_array_equal(shared.get_value(), np.ones(3))


class TestStateAfterFailure(unittest.TestCase):
    """Tests of updates in place: if a call fails between two updates, the first one is undone."""

    def setUp(self):
        x, y = tt.dvector("x"), tt.dvector("y")
        self.w = theano.shared(np.ones(3), "w")
        self.v = theano.shared(np.ones(4), "v", borrow=True)
        self.f = theano.function([x, y], [], updates=[(self.w, self.w * x), (self.v, self.v * y)])
        self.g = theano.function(
            [x, y], [], updates=[(self.w, self.w * x), (self.v, (tt.dot(y, y) + self.v) * tt.exp(y).reshape((4,)))]
        )

    def assert_state(self, w, v):
        np.testing.assert_array_equal(self.w.get_value(), np.full(3, w))
        np.testing.assert_array_equal(self.v.get_value(), np.full(4, v))

    def test_undone(self):
        overwriting = [node for node in self.f.maker.fgraph.apply_nodes if getattr(node.op, "destroy_map", None)]
        self.assertEqual(len(overwriting), 2)  # otherwise this tests nothing
        twos = lambda n: np.full(n, 2.0)
        for f in (self.f, self.g):
            self.w.set_value(np.ones(3))
            self.v.set_value(np.ones(4))
            for n_x, n_y in ((3, 2), (2, 4), (3, 5), (1, 4)):
                self.assertRaises(ValueError, f, twos(n_x), twos(n_y))
                self.assert_state(1, 1)
        self.f(twos(3), twos(4))
        self.assert_state(2, 2)
        self.assertRaises(ValueError, self.f, twos(3), twos(2))
        self.assert_state(2, 2)
        self.f(twos(3), twos(4))
        self.assert_state(4, 4)
        self.v.set_value(np.ones(5))  # change the shape of the state
        self.assertRaises(ValueError, self.f, twos(3), twos(4))
        np.testing.assert_array_equal(self.w.get_value(), np.full(3, 4.0))

    def test_state_given_by_the_caller(self):
        x, s, t = tt.dvector("x"), tt.dvector("s"), tt.dvector("t")
        f = theano.function(
            [x, theano.In(s, value=np.zeros(2), update=s + x), theano.In(t, value=np.zeros(3), update=t + x)], []
        )
        mine = np.ones(2)
        self.assertRaises(ValueError, f, np.ones(2), mine)
        np.testing.assert_array_equal(f[s], [0, 0])
        np.testing.assert_array_equal(mine, [1, 1])


class TestFlags(unittest.TestCase):
    def test_flags_that_do_not_exist(self):
        program = "import theano_ng; theano_ng.config.floatX; print('fine')"
        for flags, wanted in [
            ("floatx=float32", ("floatx", "floatX")),
            ("foatX=float32", ("floatX",)),
            ("floatX=float23", ("floatX", "float32")),
            ("mode=FAST", ("mode", "FAST_RUN")),
            ("floatX", ("floatX", "name=value")),
            ("allow_gc=maybe", ("allow_gc", "maybe")),
            ("exception_verbosity=loud", ("exception_verbosity", "high")),
            ("nosuch.flag=1", ("nosuch.flag",)),
        ]:
            with self.subTest(flags):
                done = run_python(program, THEANO_FLAGS=flags)
                self.assertNotEqual(done.returncode, 0, done.stdout)
                last = done.stderr.strip().splitlines()[-1]
                for part in wanted:
                    self.assertIn(part, last)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rc")
            for content, wanted in [
                ("[global]\nfloatx = float32\n", ("floatx", "floatX")),
                ("floatX = float32\n", (path,)),
                ("[global]\nfloatX = float23\n", ("floatX",)),
                ("[blas]\nldflag =\n", ("blas.ldflag", "blas.ldflags")),
            ]:
                with open(path, "w") as f:
                    f.write(content)
                done = run_python(program, THEANORC=path, THEANO_FLAGS="")
                self.assertNotEqual(done.returncode, 0, content)
                for part in wanted:
                    self.assertIn(part, done.stderr.strip().splitlines()[-1])


class Slope(scalar.UnaryScalarOp):
    """A scalar Op whose C code does not compile."""

    def impl(self, x):
        return x

    def c_code(self, node, name, inputs, outputs, sub):
        return "%s = %s * no_such_name;" % (outputs[0], inputs[0])

    def c_code_cache_version(self):
        return (1,)


@unittest.skipUnless(config.cxx, "needs a C++ compiler")
class TestCodeThatDoesNotCompile(unittest.TestCase):
    def test_scalar_op(self):
        """The error names the method of the scalar Op and its position, in a dozen lines with the traceback."""
        x = tt.dvector()
        slope = tt.elemwise.Elemwise(Slope(scalar.upgrade_to_float_no_complex, name="slope"))
        for out in (slope(x), tt.exp(slope(x) + 1)):
            try:
                theano.function([x], out)
                self.fail("the code was compiled")
            except CompileError as failure:
                text = "".join(traceback.format_exception(failure))
            self.assertLess(len(text.splitlines()), 16, text)
            line = Slope.c_code.__code__.co_firstlineno
            self.assertRegex(text, r"It contains the result of slope.c_code \(.*test_bad_input.py:%d\)" % line)
            self.assertIn("* no_such_name;", text)
            self.assertTrue(text.rstrip().splitlines()[-1].startswith("error: "), text)

    def test_verbose(self):
        x = tt.dvector()
        slope = tt.elemwise.Elemwise(Slope(scalar.upgrade_to_float_no_complex, name="slope"))
        try:
            with config.change_flags(exception_verbosity="high"):
                theano.function([x], slope(x))
            self.fail("the code was compiled")
        except CompileError as failure:
            text = "".join(traceback.format_exception(failure))
        self.assertIn("kernelcache.py", text)


if __name__ == "__main__":
    unittest.main()
