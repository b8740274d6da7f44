"""Tests of theano_ng-nose: the selection of tests, and its output."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import theano_ng
from theano_ng.tests import runner

TESTS = """
import unittest

class Few(unittest.TestCase):
    def test_fine(self):
        pass

    def test_reads(self):
        self.assertRaises(EOFError, input)

    def test_wrong(self):
        self.assertEqual(1, 2)

    @unittest.skip("no reason")
    def test_later(self):
        pass
"""


class Terminal(io.StringIO):
    def isatty(self):
        return True


class TestProgress(unittest.TestCase):
    RESULT = {"counts": {"passed": 1, "failed": 1, "skipped": 0}, "slow": [(9.0, "a.T.test_x")]}

    def test_files(self):
        progress = runner.Progress(3, Terminal())
        progress.start("a")
        progress.start("b")
        self.assertEqual(progress.text(), "0 of 3 files; running: a (0 s), b (0 s)")
        progress.running["a"] -= 10
        self.assertGreaterEqual(progress.finish("a", self.RESULT), 10)
        self.assertEqual(progress.text(), "1 of 3 files, 1 failed; running: b (0 s)")
        lines = list(progress.slowest())
        self.assertEqual([lines[0], lines[2]], ["slowest files:", "slowest tests:"])
        self.assertEqual([line.split()[-1] for line in lines], ["files:", "a", "tests:", "a.T.test_x"])

    def test_live_line(self):
        seen, lock = Terminal(), threading.Lock()
        progress = runner.Progress(1, seen)
        with mock.patch.object(progress.ready, "wait", side_effect=[False, True]):
            progress.start("a")
            progress.watch(lock)
            progress.watcher.join()
        progress.close()
        self.assertIn("\r0 of 1 files; running: a (0 s)", seen.getvalue())
        self.assertTrue(seen.getvalue().endswith(" \r"))

    def test_no_live_line_in_a_file(self):
        progress = runner.Progress(1, io.StringIO())
        progress.watch(threading.Lock())
        self.assertIsNone(progress.watcher)

    def test_hints(self):
        self.assertEqual(
            runner.hints("ModuleNotFoundError: No module named 'mpmath'\nNo module named 'nose'"),
            ["hint: this test needs the package mpmath, which cannot be imported: pip install 'theano_ng[test]'"],
        )


OPS = """
import unittest
import numpy as np
import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.tests import unittest_tools as utt


class TwoCodes(theano.Op):
    __props__ = ()

    def make_node(self, x):
        return theano.Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = self.in_python(inputs[0])

    def in_python(self, x):
        return x + 1

    def c_code(self, node, name, inputs, outputs, sub):
        return '''
            Py_XDECREF(%(z)s);
            %(z)s = (PyArrayObject *)PyArray_NewCopy(%(x)s, NPY_CORDER);
            for (npy_intp i = 0; i < PyArray_SIZE(%(z)s); i++)
                ((npy_float64 *)PyArray_DATA(%(z)s))[i] += 1;
        ''' % dict(x=inputs[0], z=outputs[0])

    def c_code_cache_version(self):
        return (1,)

    def infer_shape(self, node, shapes):
        return shapes

    def grad(self, inputs, gradients):
        return gradients


class InC(TwoCodes):
    pass


class InBoth(TwoCodes):
    pass


class Raises(TwoCodes):
    def in_python(self, x):
        raise RuntimeError("the Python code was run")


class ByScalarOp(scalar.UnaryScalarOp):
    def impl(self, x):
        return x

    def c_code(self, node, name, inputs, outputs, sub):
        return "%s = %s;" % (outputs[0], inputs[0])

    def c_code_cache_version(self):
        return (1,)


class Ops(utt.InferShapeTester):
    def setUp(self):
        super().setUp()
        self.x, self.value = T.dmatrix(), np.ones((2, 3))

    def test_in_c(self):
        elemwise = T.elemwise.Elemwise(ByScalarOp(scalar.same_out, name="by_scalar_op"))
        theano.function([self.x], [InC()(self.x), elemwise(self.x)])(self.value)

    def test_in_both(self):
        self._compile_and_check([self.x], [InBoth()(self.x)], [self.value], InBoth)

    def test_shapes(self):
        self._compile_and_check([self.x], [Raises()(self.x)], [self.value], Raises)

    def test_gradient(self):
        utt.verify_grad(Raises(), [self.value])
"""


@unittest.skipUnless(theano_ng.config.cxx, "needs a C++ compiler")
class TestImplementations(unittest.TestCase):
    def test_python_code(self):
        """Helpers for tests run `perform`, too. The command names the Ops whose `perform` never ran."""
        root = os.path.dirname(os.path.dirname(os.path.abspath(theano_ng.__file__)))
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "test_ops.py"), "w") as file:
                file.write(OPS)
            flags = [
                part for part in os.environ.get("THEANO_FLAGS", "").split(",") if part.startswith("base_compiledir")
            ]
            done = subprocess.run(
                [sys.executable, "-m", "theano_ng.tests.runner", "--processes", "1", folder],
                capture_output=True,
                text=True,
                env=dict(
                    os.environ,
                    PYTHONPATH=root + os.pathsep + os.environ.get("PYTHONPATH", ""),
                    THEANO_FLAGS=",".join([*flags, "mode=FAST_RUN,tiered=off"]),
                ),
            )
        lines = done.stdout.splitlines()
        self.assertEqual(lines[-1], "2 passed, 2 failed, 0 skipped", done.stdout + done.stderr)
        self.assertEqual(sum(line == "RuntimeError: the Python code was run" for line in lines), 2, done.stdout)
        named = sorted(line for line in lines if line.startswith("never run in Python: "))
        self.assertEqual(len(named), 2, named)
        self.assertRegex(named[0], r"^never run in Python: ByScalarOp \(.*test_ops.py:\d+\)$")
        self.assertRegex(named[1], r"^never run in Python: InC \(.*test_ops.py:\d+\)$")


class TestRunner(unittest.TestCase):
    def run_it(self, *arguments):
        """Run the command on a folder with the tests above; return its exit status and the lines of its output."""
        root = os.path.dirname(os.path.dirname(os.path.abspath(theano_ng.__file__)))
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "test_few.py"), "w") as f:
                f.write(TESTS)
            done = subprocess.run(
                [sys.executable, "-m", "theano_ng.tests.runner", "--processes", "1", *arguments, folder],
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                env=dict(os.environ, PYTHONPATH=root + os.pathsep + os.environ.get("PYTHONPATH", "")),
            )
        return done.returncode, done.stdout.splitlines()

    def test_counts(self):
        status, lines = self.run_it()
        self.assertEqual((status, lines[-1]), (1, "2 passed, 1 failed, 1 skipped"))
        self.assertRegex(lines[0], r"^test_few .* 1/1$")
        self.assertTrue(any("AssertionError: 1 != 2" in line for line in lines))
        self.assertIn("skipped test_few.Few.test_later: no reason", lines)

    def test_temporary_files(self):
        text = (
            "import tempfile, unittest\nclass T(unittest.TestCase):\n    def test(self):\n        tempfile.mkdtemp()\n"
        )
        for more, kept in (("", 0), ("        self.fail()\n", 1)):
            with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"TMPDIR": folder}):
                with mock.patch.object(sys.modules[__name__], "TESTS", text + more):
                    status, lines = self.run_it()
                left = [name for name in os.listdir(folder) if name.startswith("theano_ng-nose-")]
                self.assertEqual((status, len(left)), (kept, kept))
                self.assertEqual([line for line in lines if line.startswith("temporary files")] != [], bool(kept))

    def test_some(self):
        status, lines = self.run_it("-k", "Few.test_fi")
        self.assertEqual((status, lines[-1]), (0, "1 passed, 0 failed, 0 skipped"))

    def test_none(self):
        status, lines = self.run_it("-k", "of_no_test")
        self.assertEqual((status, lines[-1]), (1, "0 passed, 0 failed, 0 skipped"))
        with tempfile.TemporaryDirectory() as folder:
            self.assertRaisesRegex(
                SystemExit, "there are no tests .* in " + folder, runner.targets, runner.parse([folder])
            )

    def test_time(self):
        for limit, value in (("--seconds", "0"), ("--cpu-seconds", "-1")):
            status, lines = self.run_it(limit, value)
            self.assertEqual((status, lines[-1]), (0, "0 passed, 0 failed, 0 skipped"))
            self.assertEqual(lines[0], "not run: the time was over before test_few")
            self.assertRegex(lines[1], "CPU 0.0 s.*1 FILES NOT RUN")
        status, lines = self.run_it("--cpu-seconds", "1000")
        self.assertRegex(lines[-2], r"^[0-9.]+ s \(CPU [0-9.]+ s\)$")

    def test_except(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("test_a.py", "test_ab.py", "test_b.py"):
                with open(os.path.join(folder, name), "w") as f:
                    f.write("")
            options = runner.parse([folder, "--except", os.path.join(folder, "test_a.py") + "=for a reason"])
            with contextlib.redirect_stdout(io.StringIO()) as said:
                found = runner.targets(options)
            self.assertEqual([name for _, name in found], ["test_ab", "test_b"])
            self.assertRegex(said.getvalue(), r"^left out .*test_a\.py \(1\): for a reason\n$")
            for wrong in (folder, os.path.join(folder, "nowhere.py") + "=why"):
                self.assertRaisesRegex(
                    SystemExit, "PATH=REASON", runner.targets, runner.parse([folder, "--except", wrong])
                )
        package = os.path.dirname(os.path.abspath(theano_ng.__file__))
        with contextlib.redirect_stdout(io.StringIO()):
            found = runner.targets(runner.parse(["--theano", "--except", os.path.join(package, "audit") + "=why"]))
        areas = {name.split(".")[1] for _, name in found}
        self.assertIn("compile", areas)
        self.assertNotIn("audit", areas)


if __name__ == "__main__":
    unittest.main()
