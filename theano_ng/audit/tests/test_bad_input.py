"""Tests of bad input to the audit: modules, cases and Ops that fail, die or do not end.

In each test, the command gives a sentence about the bad input, and examines the other Op of the file.
"""

import io
import json
import os
import subprocess
import sys
import textwrap
import time
import unittest
from unittest import mock
from xml.etree import ElementTree

from theano_ng import tensor
from theano_ng.audit import AuditError, Case, audit, processes
from theano_ng.audit.processes import in_child, step
from theano_ng.audit.stacks import place_in
from theano_ng.audit.tests.test_author_tools import InFolder
from theano_ng.audit.tests.test_checks import Half
from theano_ng.audit.tests.test_cli import run
from theano_ng.audit.watch import Watcher
from theano_ng.configdefaults import config

HEAD = """
import os, sys, time
import numpy as np
import theano_ng as theano
from theano_ng import tensor
from theano_ng.audit import Case

class Good(theano.Op):
    __props__ = ()

    def make_node(self, x):
        x = tensor.as_tensor_variable(x)
        if x.dtype not in ("float32", "float64"):
            raise TypeError("Good needs floating point numbers, not %s" % x.type)
        return theano.Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = np.asarray(inputs[0] * 2)

"""
CASES = """
def audit_cases():
    return [(Bad(), [tensor.dvector]), (Good(), [tensor.dvector])]
"""
MAKE_NODE = """
class Bad(Good):
    def make_node(self, x):
        x = tensor.as_tensor_variable(x)
        {}
        return theano.Apply(self, [x], [x.type()])
"""
PERFORM = """
class Bad(Good):
    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = np.asarray(inputs[0] * 2)
        {}
"""
C_CODE = '''
class Bad(Good):
    def c_code(self, node, name, inputs, outputs, sub):
        return """
        Py_XDECREF(%(y)s);
        %(y)s = (PyArrayObject *)PyNumber_Add((PyObject *)%(x)s, (PyObject *)%(x)s);
        if (PyArray_SIZE(%(x)s) == 0) {{
            {}
        }}
        """ % dict(x=inputs[0], y=outputs[0])
'''


class WithFile(InFolder):
    def examine(self, text, *arguments):
        """Audit a file with a text. Return the exit status, the standard output and the standard error.

        Each test has a file of another name, because modules stay in memory.
        """
        self.file = "%s.py" % self.id().rpartition(".")[2]
        self.write(self.file, text)
        with self.forgotten(self.file[:-3]):
            return run(self.file, "--examples", "3", "--processes", "2", *arguments)

    def check_rest(self, text, *words, checks="maps", location=None):
        """The file is refused because of the case Bad. The error contains `words`. The case Good is examined."""
        code, out, err = self.examine(HEAD + textwrap.dedent(text), "--checks", checks)
        self.assertEqual(code, 2, err)
        for word in words:
            self.assertIn(word, err)
        self.assertNotIn("Traceback", err)
        self.assertIn("2 cases (1 not examined)", out)
        self.assertRegex(out, "(?m)^Good$")

    def line_of(self, text):
        """Return ``file:line`` of the first line of the file that contains a text."""
        with open(self.file) as file:
            return "%s:%d" % (self.file, next(i for i, line in enumerate(file, 1) if text in line))


class TestImports(WithFile):
    def check_import(self, text, *words):
        code, out, err = self.examine(text)
        self.assertEqual(code, 2, err)
        self.assertEqual(err.count("\n"), 1, err)
        for word in words:
            self.assertIn(word, err)
        self.assertIn("1 case (1 not examined)", out)

    def test_syntax(self):
        self.check_import("x = 1\ndef f(:\n    pass", "SyntaxError", "raised at test_syntax.py:2")

    def test_exception(self):
        self.check_import("x = 1\n1 / 0", "ZeroDivisionError: division by zero, raised at test_exception.py:2")

    def test_missing_module(self):
        self.check_import("import no_such_module_here", "No module named 'no_such_module_here'", ":1")

    def test_exits(self):
        for text, words in (
            ("import sys\nsys.exit(3)", "SystemExit: 3, at test_exits.py:2"),
            ("raise KeyboardInterrupt", "KeyboardInterrupt, at test_exits.py:1"),
            ("import os\nos.abort()", "signal SIGABRT, at test_exits.py:2"),
            ("import os\nos._exit(0)", "exit code 0"),
        ):
            self.check_import(text, "The process that imported it died: " + words, "__main__")

    def test_endless_loop(self):
        with mock.patch.object(processes, "STEP_SECONDS", 5):
            self.check_import("x = 1\nwhile True: pass", "still running after 5 s, at test_endless_loop.py:2")

    def test_cases(self):
        for body, words in (
            ("return None", "audit_cases() returned None; it should return a list of pairs"),
            ("return 3", "audit_cases() returned 3; it should return"),
            ("return 'abc'", "entry 0 is 'a'; it should be a theano_ng.audit.Case or a pair"),
            ("return []", "returned no cases"),
            ("yield 1; raise ValueError('later')", "failed: ValueError: later, raised at test_cases.py:21"),
            ("raise SystemExit(2)", "SystemExit: 2, at test_cases.py:21"),
        ):
            self.check_import(HEAD + "def audit_cases():\n    " + body, words)
        self.check_import(HEAD + "audit_cases = []", "audit_cases is a list; it should be a function")

    def test_the_next_target_is_examined(self):
        self.write("test_first.py", "1 / 0")
        with self.forgotten("test_first"):
            code, out, err = run(
                "test_first.py", "theano_ng.misc.doubleop:DoubleOp", "--checks=maps", "--json=r.json", "--junit=r.xml"
            )
        self.assertEqual((code, err.count("\n")), (2, 1))
        self.assertRegex(out, "(?m)^DoubleOp$")
        with open("r.json") as file:
            document = json.load(file)
        self.assertEqual((document["ok"], document["summary"]["errors"]), (False, 1))
        self.assertEqual([bool(one["error"]) for one in document["reports"]], [True, False])
        root = ElementTree.parse("r.xml").getroot()
        self.assertEqual((root.get("errors"), root.get("tests")), ("1", "2"))
        self.assertIn("ZeroDivisionError", root.find("testsuite/testcase/error").get("message"))

    def test_constructors(self):
        for body, words in (
            ("raise ValueError('no')", ":Bad cannot be created: ValueError: no, raised at"),
            ("sys.exit(1)", "SystemExit: 1, at test_constructors.py:"),
        ):
            self.file = "test_constructors.py"
            self.write(self.file, HEAD + "class Bad(Good):\n    def __init__(self): " + body)
            with self.forgotten("test_constructors"):
                code, _, err = run(self.file + ":Bad", "--checks=maps")
            self.assertEqual(code, 2)
            self.assertIn(words, err)


class TestCases(WithFile):
    def test_make_node(self):
        for body, words in (
            ("raise RuntimeError('cannot')", "RuntimeError: cannot, raised at"),
            ("return None", "make_node of Bad returned None; it has to return an Apply node"),
            ("sys.exit(1)", "SystemExit: 1, at"),
            ("os.abort()", "signal SIGABRT, at"),
            ("os._exit(1)", "exit code 1"),
            ("if x.dtype == 'float32': sys.exit(3)", "SystemExit: 3"),
        ):
            with self.subTest(body):
                self.check_rest(MAKE_NODE.format(body) + CASES, "Bad", words)
                if " at" in words:
                    self.assertIn(self.line_of("        " + body), run_again(self))

    def test_endless_make_node(self):
        with mock.patch.object(processes, "STEP_SECONDS", 5):
            self.check_rest(MAKE_NODE.format("while True: pass") + CASES, "still running after 5 s")

    def test_attributes(self):
        self.check_rest(
            "class Bad(Good):\n    def __getattr__(self, name): raise RuntimeError(name)\n" + CASES,
            "Bad cannot be examined: RuntimeError: ",
        )

    def test_options(self):
        for option, words in (
            ("skip={'gradd': 'no'}", "there is no check 'gradd'"),
            ("skip=['grad']", "skip is ['grad']; it has to be a dict"),
            ("vary='length'", "vary is 'length'; it has to be a collection"),
            ("vary=['lengths']", "vary contains 'lengths'; the names are: dtype, rank"),
            ("tied=3", "tied is 3; it has to be a function"),
            ("tolerance='small'", "tolerance is 'small'; it has to be a number"),
        ):
            self.check_rest(
                """
                def audit_cases():
                    return [Case(Good(), [tensor.dvector], %s), (Good(), [tensor.dvector])]
                """
                % option,
                words,
            )

    def test_inputs(self):
        for inputs, words in (
            ("[tensor.dvector] * 2", "Good refuses the example inputs"),
            ("[object()]", "Good refuses the example inputs"),
        ):
            self.check_rest(
                "def audit_cases():\n    return [(Good(), %s), (Good(), [tensor.dvector])]" % inputs,
                words,
                "Specify other inputs",
            )


def run_again(test):
    """Return the standard error of another run of the file of a test."""
    with test.forgotten(test.file[:-3]):
        return run(test.file, "--checks", "maps")[2]


class TestOps(WithFile):
    def finding(self, text, checks):
        """Audit a file. Its case Good passes. Return the only cause in the report of the case Bad."""
        code, out, err = self.examine(HEAD + text + CASES, "--checks", checks, "--json", "r.json", "--no-sanitizer")
        self.assertEqual((code, err), (1, ""))
        with open("r.json") as file:
            bad, good = json.load(file)["reports"]
        self.assertEqual((bad["case"], good["case"], good["ok"]), ("Bad", "Good", True))
        return [finding for verdict in bad["verdicts"] for finding in verdict["findings"]], bad["verdicts"]

    def test_exits_of_perform(self):
        for body, words in (
            ("if len(inputs[0]) == 0: sys.exit(1)", "SystemExit: 1"),
            ("if len(inputs[0]) == 0: raise KeyboardInterrupt", "KeyboardInterrupt"),
            ("if len(inputs[0]) == 0: os._exit(4)", "exit code 4"),
            ("if len(inputs[0]) == 0: os.abort()", "signal SIGABRT"),
        ):
            (found,), _ = self.finding(PERFORM.format(body), "perform")
            self.assertEqual((found["error"], found["message"]), ("Crash", "the process died: " + words))
            self.assertEqual(found["inputs"], ["TensorType(float64, vector) (0,) C: []"])
            if "_exit" not in body:
                self.assertEqual(found["location"], self.line_of(body))

    def test_endless_perform(self):
        with mock.patch.object(processes, "STEP_SECONDS", 5):
            (found, *_), verdicts = self.finding(
                PERFORM.format("while len(inputs[0]) == 0: pass"), "output_types,perform,accuracy,state,mutation"
            )
        self.assertEqual(found["error"], "EndlessLoop")
        self.assertEqual(found["inputs"], ["TensorType(float64, vector) (0,) C: []"])
        self.assertEqual(found["location"], self.line_of("while len"))
        self.assertEqual(verdicts[-1]["status"], "skipped")
        self.assertIn("did not end", verdicts[-1]["reason"])

    @unittest.skipUnless(config.cxx, "needs a C++ compiler")
    def test_c_code(self):
        found, _ = self.finding(C_CODE.format("exit(3);"), "c_code")
        self.assertIn(("Crash", "the process died: exit code 3"), [(f["error"], f["message"]) for f in found])
        with mock.patch.object(processes, "STEP_SECONDS", 5):
            (found,), _ = self.finding(C_CODE.format("for (volatile int i = 1; i;) {{}}"), "c_code")
        self.assertEqual(found["error"], "EndlessLoop")
        self.assertEqual(found["location"], self.line_of("def c_code"))

    def test_errors_of_other_methods(self):
        (found, *_), _ = self.finding(
            "class Bad(Good):\n    def __eq__(self, other): raise ValueError('e')\n    __hash__ = Good.__hash__\n",
            "pickle",
        )
        self.assertEqual((found["error"], found["message"]), ("UnexpectedError", "ValueError: e"))
        self.assertEqual(found["location"], self.line_of("raise ValueError"))


class TestCommand(WithFile):
    def test_files_are_tried_first(self):
        for option in ("--json", "--junit", "--page"):
            start = time.perf_counter()
            code, out, err = run("theano_ng.misc.doubleop:DoubleOp", option, os.path.join("no", "folder", "file"))
            self.assertEqual((code, out), (2, ""))
            self.assertIn("%s: no" % option, err)
            self.assertLess(time.perf_counter() - start, 60)
        run("theano_ng.misc.doubleop:DoubleOp", "--checks=nothing", "--page", "kept.md")
        self.assertEqual(os.listdir("."), [])

    def test_json_is_not_mixed_with_other_output(self):
        self.write(
            "noisy.py", HEAD + "print('noise')\n" + PERFORM.format("print('noise'); os.write(1, b'noise')") + CASES
        )
        command = "import sys; from theano_ng.audit.cli import main; sys.exit(main(sys.argv[1:]))"
        done = self.run_tests_of(command, "noisy.py", "--checks=output_types", "--examples=2", "--json=-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(json.loads(done.stdout)["reports"]), 2)
        self.assertIn("noise", done.stderr)

    def run_tests_of(self, command, *arguments):
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        env = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH")))))
        return subprocess.run([sys.executable, "-c", command, *arguments], capture_output=True, text=True, env=env)

    def test_interrupt(self):
        with mock.patch("theano_ng.audit.driver.audit", side_effect=KeyboardInterrupt):
            code, _, err = run("theano_ng.misc.doubleop:DoubleOp", "--checks=maps")
        self.assertEqual((code, err), (130, "theano_ng-audit: interrupted\n"))

    def test_an_error_of_the_audit(self):
        with mock.patch("theano_ng.audit.driver.audit", side_effect=AuditError("no verdict")):
            code, out, err = run("theano_ng.misc.doubleop:DoubleOp", "--checks=maps")
        self.assertEqual(code, 2)
        self.assertIn("DoubleOp: no verdict\nThis is an error of the audit: please report it.", err)

    def test_new(self):
        for name, words in (
            ("Signal", "would hide the module signal"),
            ("Numpy", "would hide the module numpy"),
            ("np", "'np' cannot be the name of a class"),
        ):
            code, _, err = run("--new", name)
            self.assertEqual(code, 2)
            self.assertIn(words, err)
        self.assertEqual(os.listdir("."), [])
        code, _, err = run("theano_ng.misc.doubleop:DoubleOp", "--inplace")
        self.assertEqual(code, 2)
        self.assertIn("--inplace has an effect only with --new", err)

    def test_watch(self):
        for target, words in ((os.path.join("no", "op.py"), "there is no folder"), ("no_module_x:Op", "no_module_x")):
            code, _, err = run("--watch", target)
            self.assertEqual(code, 2)
            self.assertIn(words, err)

    def test_watch_keeps_findings_while_the_file_is_broken(self):
        from theano_ng.audit.records import Report

        reports = iter([[audit(Half(), tensor.dvector, checks="maps")], [Report("Half", "", (), error="broken")]])
        self.write("half.py", "")
        out = io.StringIO()
        watcher = Watcher("half.py", lambda: next(reports), out)
        watcher.audit()
        watcher.before = {("Half", "BadMap", "maps"): "a message"}
        watcher.audit()
        self.assertEqual(out.getvalue(), "")
        self.assertEqual(len(watcher.before), 1)


class TestChildren(unittest.TestCase):
    def test_stack_of_a_death(self):
        ending = in_child(os.abort)
        self.assertEqual((ending.how, ending.answer, ending.endless), ("signal SIGABRT", None, False))
        self.assertEqual(place_in(ending.stack), "")  # no code of an author
        ending = in_child(lambda: sys.exit(3))
        self.assertEqual(ending.how, "SystemExit: 3")
        self.assertRegex(place_in(ending.stack), r"test_bad_input.py:\d+$")

    def test_steps(self):
        def two_steps():
            for name in ("first", "second"):
                step(lambda name=name: (name,))
                end = time.process_time() + 1.2
                while time.process_time() < end:
                    pass
            step()
            while True:
                pass

        with mock.patch.object(processes, "STEP_SECONDS", 2):
            ending = in_child(two_steps, steps=1)
        self.assertEqual((ending.how, ending.endless), ("one step was still running after 2 s", True))
        self.assertEqual(ending.note, ("second",))

    def test_function(self):
        class Ends(Half):
            def make_node(self, x):
                sys.exit(1)

        with self.assertRaisesRegex(ValueError, r"Ends cannot be examined.*SystemExit: 1, at .*test_bad_input.py:\d+"):
            audit(Ends(), tensor.dvector)
        with self.assertRaisesRegex(TypeError, "tied is 3"):
            audit(Case(Half(), [tensor.dvector], tied=3))


if __name__ == "__main__":
    unittest.main()
