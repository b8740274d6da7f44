"""Tests of commands whose standard output is closed or whose packages are missing. Tests of the status line."""

import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import theano_ng
from theano_ng import extras
from theano_ng.commands import CLOSED_PIPE, command
from theano_ng.status_line import StatusLine

PACKAGE = os.path.dirname(os.path.abspath(theano_ng.__file__))


class TestClosedPipe(unittest.TestCase):
    def end_of(self, *arguments):
        """Run a command whose standard output is closed; return its exit status and standard error."""
        reading, writing = os.pipe()
        os.close(reading)
        environment = {**os.environ, "PYTHONPATH": os.path.dirname(PACKAGE)}
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            timeout=300,
        )
        os.close(writing)
        return done.returncode, done.stderr

    def test_commands(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "test_one.py"), "w") as file:
                file.write("import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\n")
            for arguments in (
                ("theano_ng.audit.cli", "--list-checks"),
                ("theano_ng.gof.compiler.cache_cli", "list"),
                ("theano_ng.gof.compiler.cache_cli",),
                ("theano_ng.legacy.port", folder),
                ("theano_ng.tests.runner", "--processes", "1", folder),
            ):
                self.assertEqual(self.end_of(*arguments), (CLOSED_PIPE, ""), arguments)
            status, said = self.end_of("theano_ng.legacy.run", "--help")
            self.assertIn(status, (0, CLOSED_PIPE))  # 0 if argparse has caught the error
            self.assertEqual(said, "")

    def test_another_pipe(self):
        """A command does not catch a BrokenPipeError that does not come from the standard output."""

        @command
        def main(argv=None):
            raise BrokenPipeError("of a child")

        with mock.patch.object(sys, "stdout", io.StringIO()):
            self.assertRaisesRegex(BrokenPipeError, "of a child", main)


class TestExtras(unittest.TestCase):
    def test_missing(self):
        with mock.patch.dict(sys.modules, {"sympy": None}), self.assertRaises(ImportError) as caught:
            extras.require("sympy", "SymPyCCode")
        self.assertEqual(
            str(caught.exception),
            "SymPyCCode needs the package SymPy, which cannot be imported: pip install 'theano_ng[sympy]'",
        )

    def test_there(self):
        self.assertIs(extras.require("os.path", "this"), os.path)

    @unittest.skipUnless(
        os.path.exists(os.path.join(PACKAGE, "..", "pyproject.toml")), "the package is installed without it"
    )
    def test_extras_bring_the_packages(self):
        import tomllib

        with open(os.path.join(PACKAGE, "..", "pyproject.toml"), "rb") as file:
            declared = tomllib.load(file)["project"]["optional-dependencies"]
        for package, (_, extra) in extras.EXTRAS.items():
            self.assertIn(package, [re.match(r"\w+", text).group() for text in declared[extra]])


class Terminal(io.StringIO):
    def isatty(self):
        return True


class TestStatusLine(unittest.TestCase):
    def test_one_line(self):
        seen = Terminal()
        line = StatusLine(seen)
        line.show("first text")
        line.show("short")
        line.clear()
        line.clear()
        self.assertEqual(seen.getvalue(), "\rfirst text\rshort     \r     \r")

    def test_width(self):
        seen = Terminal()
        with mock.patch.dict(os.environ, {"COLUMNS": "20"}):
            StatusLine(seen).show("a" * 30 + "\n")
        self.assertEqual(seen.getvalue(), "\r" + "a" * 19)

    def test_not_on_a_file(self):
        seen = io.StringIO()
        line = StatusLine(seen)
        line.show("text")
        line.clear()
        self.assertEqual(seen.getvalue(), "")


if __name__ == "__main__":
    unittest.main()
