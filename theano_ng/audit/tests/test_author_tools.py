"""Tests of the tools for authors: the template of an Op, repeated audits, tests of one line, pages, and rules."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import numpy as np

from theano_ng.audit import Case, audit, audit_test
from theano_ng.audit.page import to_markdown
from theano_ng.audit.resolve import cases_of
from theano_ng.audit.template import module_name, texts, write
from theano_ng.audit.tests.test_checks import GradOfTwo, Half, Scaled
from theano_ng.audit.tests.test_cli import run
from theano_ng.audit.watch import Watcher
from theano_ng.configdefaults import config


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        before, path = os.getcwd(), list(sys.path)
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        self.addCleanup(sys.path.__setitem__, slice(None), path)

    def write(self, name, text):
        with open(name, "w") as file:
            file.write(textwrap.dedent(text))
        # A file that is written twice within the resolution of time stamps must count as changed.
        self.written = getattr(self, "written", 0) + 1
        now = time.time_ns() + self.written * 10**9
        os.utime(name, ns=(now, now))

    @contextlib.contextmanager
    def forgotten(self, *names):
        """After the context, the modules are not loaded any longer."""
        try:
            yield
        finally:
            for name in names:
                sys.modules.pop(name, None)

    def run_tests(self, *command):
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        places = [root, self.folder, os.environ.get("PYTHONPATH", "")]
        env = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, places)))
        return subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, env=env)


class TestTemplate(InFolder):
    OPTIONS = [("--grad",), ("--grad", "--inplace")]

    def test_names(self):
        for name, module in (("RowNorms", "row_norms"), ("LSTMStep", "lstm_step"), ("X", "x"), ("Conv2d", "conv2d")):
            self.assertEqual(module_name(name), module)
        for name in ("two words", "class", "1st", ""):
            with self.assertRaisesRegex(ValueError, "cannot be the name of a class"):
                texts(name)

    def check(self, *options):
        """Write an Op by the command; its tests pass, and the audit finds nothing."""
        name = "New" + "".join(option.strip("-").title() for option in options)
        code, out, err = run("--new", name, *options)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("test_%s.py" % module_name(name), out)
        done = self.run_tests("unittest", "test_" + module_name(name), "-k", "Test" + name)
        self.assertEqual(done.returncode, 0, done.stderr)
        with self.forgotten(module_name(name)):
            code, out, _ = run(module_name(name) + ".py", "--examples", "5", "--no-sanitizer")
        self.assertEqual(code, 0, out)

    def test_in_python(self):
        for options in ((), *self.OPTIONS):
            self.check(*options)

    @unittest.skipUnless(config.cxx, "needs a C++ compiler")
    def test_in_c(self):
        for options in self.OPTIONS:
            self.check("--c", *options)

    def test_existing_files_are_kept(self):
        self.write("test_kept.py", "mine")
        with self.assertRaisesRegex(FileExistsError, "test_kept.py exists; nothing was written"):
            write("Kept")
        self.assertEqual(os.listdir("."), ["test_kept.py"])
        code, _, err = run("--new", "Kept")
        self.assertEqual(code, 2)
        self.assertIn("test_kept.py exists", err)
        self.assertEqual(run("--new", "no name")[0], 2)
        self.assertEqual(run("--new", "Name", "target.py")[0], 2)


WATCHED = """
    from theano_ng import tensor
    from theano_ng.misc.doubleop import DoubleOp
    from part import factor

    class Watched(DoubleOp):
        def grad(self, inputs, gradients):
            return [gradients[0] * factor]

    def audit_cases():
        return [(Watched(), [tensor.dvector])]
"""


class TestWatch(InFolder):
    def test_changes_are_shown(self):
        self.write("watched.py", WATCHED)
        self.write("part.py", "factor = 3")
        out = io.StringIO()

        def audited():
            return [audit(case, checks="grad", max_examples=2) for case in cases_of("watched.py")]

        watcher = Watcher("watched.py", audited, out)
        changes = iter(["factor = 2", "factor = 2 +", "factor = 5"])

        def sleep(seconds):
            if (text := next(changes, None)) is not None:
                self.write("part.py", text)

        with self.forgotten("watched", "part"):
            watcher.loop(most=4, sleep=sleep)
        lines = [line for line in out.getvalue().splitlines() if not line.startswith("---")]
        self.assertEqual(lines[:2], ["mended: Watched: BadGradient (grad)", "1 before, 0 now"])
        self.assertIn("cannot be imported: SyntaxError", lines[2])
        self.assertRegex(lines[-2], r"^new: Watched: BadGradient \(grad\): the gradient of input 0")
        self.assertEqual(lines[-1], "0 before, 1 now")

    def test_one_target(self):
        code, _, err = run("--watch", "one.py", "two.py")
        self.assertEqual(code, 2)
        self.assertIn("--watch needs exactly one target; 2 were given", err)


MATRIX = np.arange(6.0).reshape(2, 3)


class TestAuditTest(InFolder):
    def outcome(self, kind):
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(kind).run(result)
        return result

    def test_verdicts(self):
        right = audit_test(Half(), MATRIX, checks="grad,props", max_examples=3)
        self.assertEqual(right.__module__, __name__)
        self.assertTrue(self.outcome(right).wasSuccessful())
        wrong = self.outcome(audit_test(GradOfTwo(), MATRIX, checks=["grad", "maps"], max_examples=3))
        self.assertEqual(
            [(test._testMethodName, "BadGradient" in text) for test, text in wrong.failures], [("test_grad", True)]
        )
        skipped = audit_test(Case(GradOfTwo(), [MATRIX], skip={"grad": "clipped"}), checks="grad")
        self.assertEqual([reason for _, reason in self.outcome(skipped).skipped], ["GradOfTwo: clipped"])

    def test_functions_of_cases(self):
        def cases():
            return [(Half(), [MATRIX]), Case(GradOfTwo(), [MATRIX])]

        result = self.outcome(audit_test(cases, checks="grad,maps", max_examples=3))
        self.assertEqual([test._testMethodName for test, _ in result.failures], ["test_grad"])

    def test_options(self):
        names = unittest.defaultTestLoader.getTestCaseNames(audit_test(Half(), MATRIX, sanitize=False, leaks=False))
        self.assertIn("test_state", names)
        self.assertNotIn("test_sanitizer", names)
        with self.assertRaisesRegex(ValueError, "no check 'gradients'"):
            audit_test(Half(), MATRIX, checks="gradients")

    def test_pytest(self):
        try:
            import pytest  # noqa: F401
        except ImportError:
            self.skipTest("needs pytest (pip install 'theano_ng[test]')")
        self.write(
            "test_with_fixture.py",
            """
            from theano_ng import tensor
            from theano_ng.audit import audit_test
            from theano_ng.audit.tests.test_checks import GradOfTwo, Half

            def test_right(audit):
                audit(Half(), tensor.dmatrix, checks="grad", max_examples=3)

            def test_wrong(audit):
                audit(GradOfTwo(), tensor.dmatrix, checks="grad", max_examples=3)

            TestHalf = audit_test(Half(), tensor.dmatrix, checks="maps,props")
            """,
        )
        done = self.run_tests(
            "pytest",
            "-q",
            "-p",
            "no:theano_ng_audit",
            "-p",
            "theano_ng.audit.pytest_plugin",
            "-p",
            "no:cacheprovider",
            "test_with_fixture.py",
        )
        self.assertIn("1 failed, 3 passed", done.stdout, done.stderr)
        self.assertIn("BadGradient", done.stdout)


class TestPage(InFolder):
    def test_page(self):
        reports = [audit(Scaled(3.0), MATRIX, checks="props,c_code"), audit(Half(), MATRIX, checks="maps")]
        text = to_markdown(reports)
        self.assertTrue(text.startswith("# Audit\n"))
        self.assertIn("| Scaled{shift=0} | BadEquality | 2 | 1 |".replace("{", "\\{").replace("}", "\\}"), text)
        self.assertIn("### BadEquality (props)\n", text)
        self.assertIn("- \\`c\\_code\\` was skipped: no C code\n", text)
        self.assertIn("- at `", text)
        self.assertIn("| Half | none |", text)

    def test_command(self):
        code, _, _ = run("theano_ng.misc.doubleop:DoubleOp", "--checks", "maps", "--page", "page.md")
        self.assertEqual(code, 0)
        with open("page.md") as file:
            self.assertIn("| DoubleOp | none | 1 | 0 |", file.read())


class TestRewrites(InFolder):
    def test_rules_of_a_file(self):
        self.write(
            "my_rules.py",
            '''
            from theano_ng import tensor
            from theano_ng.gof import local_optimizer
            from theano_ng.gof.opt import copy_stack_trace

            @local_optimizer([tensor.sqr])
            def local_sqr_to_mul(node):
                """sqr(x)  ->  x * x"""
                if node.op == tensor.sqr:
                    product = node.inputs[0] * node.inputs[0]
                    copy_stack_trace(node.outputs[0], product)
                    return [product]

            @local_optimizer([tensor.add])
            def local_add_zero(node):
                """x + 0  ->  x"""
                if node.op == tensor.add and len(node.inputs) == 2:
                    x, y = node.inputs
                    try:
                        zero = tensor.get_scalar_constant_value(y) == 0
                    except tensor.NotScalarConstantError:
                        return
                    if zero and x.type == node.outputs[0].type:
                        return [x]
            ''',
        )
        with self.forgotten("my_rules"):
            code, out, _ = run("--rewrites", "my_rules.py:local_sqr_to_mul")
            self.assertEqual(code, 0, out)
            code, out, _ = run("--rewrites", "my_rules.py")
            self.assertEqual(code, 1, out)
        self.assertIn("local_add_zero", out)
        self.assertIn("-0.0", out)

    def test_usage(self):
        for arguments, text in (
            ((), "needs a target"),
            (("no_such_file.py",), "there is no file"),
            (("no_such_module:rule",), "neither a registered rule nor a module"),
        ):
            code, _, err = run("--rewrites", *arguments)
            self.assertEqual(code, 2)
            self.assertIn(text, err)


if __name__ == "__main__":
    unittest.main()
