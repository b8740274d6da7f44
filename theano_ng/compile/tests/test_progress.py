"""Tests of the progress line that compilation shows on a terminal."""

import os
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gof import progress
from theano_ng.tests.test_commands import Terminal

try:
    import pty
except ImportError:  # pseudo-terminals do not exist on this system
    pty = None

PROGRAM = """
import sys
import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gof import progress

progress.DELAY, progress.INTERVAL = float(sys.argv[1]), 0.01
x = T.dvector("x")
y = x
for i in range(60):
    y = T.tanh(y * (i + 0.5)) + T.sqr(x[i % 3]).sum()
theano.function([x], y, name="train")
print("done")
"""


def on_terminal(arguments, environment):
    """Return the output of a program whose three standard streams are a terminal."""
    child, terminal = pty.fork()
    if child == 0:
        os.execve(arguments[0], arguments, environment)
    seen = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # Linux raises this error at the end of the output
            break
        if not part:
            break
        seen += part
    os.close(terminal)
    os.waitpid(child, 0)
    return seen.decode()


class TestOnATerminal(unittest.TestCase):
    def shown(self, delay="0", flags="", terminal=True):
        root = os.path.dirname(os.path.dirname(os.path.abspath(theano.__file__)))
        with tempfile.TemporaryDirectory() as folder:
            environment = {
                **os.environ,
                "THEANO_FLAGS": "mode=FAST_RUN,tiered=off,cxx=%s,base_compiledir=%s%s"
                % (theano.config.cxx, folder, flags),
                "PYTHONPATH": root,
                "COLUMNS": "100",
            }
            arguments = [sys.executable, "-c", PROGRAM, delay]
            if terminal:
                return on_terminal(arguments, environment)
            return subprocess.run(
                arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            ).stdout

    @unittest.skipIf(pty is None, "this system has no pseudo-terminals")
    def test_line(self):
        seen = self.shown()
        self.assertRegex(seen, r"\rcompiling train: rewriting, \w+ \([\d,]+ nodes\), \d+ s")
        if theano.config.cxx:
            self.assertRegex(seen, r"\rcompiling train: C code of \d+ loops?, \d+ s")
        lines = seen.split("\r")
        self.assertEqual(lines[-2:], ["done", "\n"])  # the line of progress was cleared before
        self.assertEqual(lines[-3].strip(" "), "")
        self.assertGreater(len(lines[-3]), 20)
        self.assertNotIn("\n", seen[: seen.index("done")])

    @unittest.skipIf(pty is None, "this system has no pseudo-terminals")
    def test_no_line(self):
        self.assertEqual(self.shown("1000"), "done\r\n")
        self.assertEqual(self.shown(flags=",compile.progress=False"), "done\r\n")

    def test_no_terminal(self):
        self.assertEqual(self.shown(terminal=False), "done\n")


class TestTask(unittest.TestCase):
    def test_texts(self):
        task = progress.Task()
        task._watch = lambda: None  # show no progress if the tests run on a terminal
        self.assertEqual(task.text(), "compiling a function, 0 s")
        task.name = "f"
        task.calling_compiler("3 loops", 1, 2)
        self.assertEqual(task.text(), "compiling f: C code of 3 loops (1 of 2), 0 s")
        task.linking(2, [None] * 1500)
        self.assertEqual(task.text(), "compiling f: node 2 of 1,500, 0 s")
        task.calling_compiler("DoubleOp")
        self.assertEqual(task.text(), "compiling f: node 2 of 1,500, C code of DoubleOp, 0 s")
        self.assertNotIn("theano_ng progress", [thread.name for thread in threading.enumerate()])

    def test_one_task_for_what_is_inside(self):
        with progress.compiling as outer:
            with progress.compiling:
                self.assertIs(progress.task, outer)
            self.assertIs(progress.task, outer)
        self.assertIsNone(progress.task.name)
        with self.assertRaises(ZeroDivisionError), progress.compiling:
            1 / 0
        self.assertIsNot(progress.task, outer)
        self.assertEqual(progress.task.compiled, ())

    def test_nothing_is_drawn_after_the_end(self):
        seen = Terminal()
        with (
            mock.patch.object(sys, "stderr", seen),
            mock.patch.object(progress, "DELAY", 0.0),
            theano.config.change_flags({"compile.progress": True}),
            progress.compiling as task,
        ):
            task.linking(progress.FEW_NODES + 1, [None] * 300)
            while not seen.getvalue():
                pass
        self.assertRegex(seen.getvalue(), r"^\rcompiling a function: node 201 of 300, 0 s.*\r *\r$")

    def test_profile_has_what_was_compiled(self):
        x = T.dvector("x")
        with tempfile.TemporaryDirectory() as folder:
            program = (
                "import theano_ng as theano, theano_ng.tensor as T\n"
                "x = T.dvector('x')\n"
                "for _ in range(2):\n"
                "    f = theano.function([x], T.tanh(x * 3) + 1, profile=True)\n"
                "    f.profile.atexit_print = False\n"
                "    print([what for what, seconds in f.profile.compiled if seconds > 0], f.profile.graphs_from_disk)\n"
            )
            environment = {
                **os.environ,
                "THEANO_FLAGS": "mode=FAST_RUN,profile=False,tiered=off,cxx=%s,base_compiledir=%s"
                % (theano.config.cxx, folder),
            }
            done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        self.assertEqual(
            done.stdout.splitlines(), ["['1 loop'] 0" if theano.config.cxx else "[] 0", "[] 1"], done.stderr
        )
        self.assertEqual(theano.function([x], x + 1, profile=False).profile, None)


if __name__ == "__main__":
    unittest.main()
