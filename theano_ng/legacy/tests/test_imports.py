"""Tests of import paths: every documented name exists, and warnings about former modules name the new ones."""

import importlib
import subprocess
import sys
import textwrap
import unittest
import unittest.mock
import warnings

from theano_ng import legacy, moved
from theano_ng.legacy.tests.import_paths import paths

REAL = importlib.machinery.PathFinder.find_spec("theano") is not None


@unittest.skipIf(REAL, "Theano itself is installed")
class TestPaths(unittest.TestCase):
    def test_each_path_resolves(self):
        with legacy.installed(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            for inner, names in paths():
                path = "theano." + inner if inner else "theano"
                with self.subTest(path):
                    module = importlib.import_module(path)
                    self.assertIs(module, importlib.import_module("theano_ng" + path[len("theano") :]))
                    for name in names:
                        exec("from %s import %s" % (path, name), {})


class TestFormerHomes(unittest.TestCase):
    def run_program(self, text):
        done = subprocess.run(
            [sys.executable, "-W", "always::DeprecationWarning:__main__", "-c", textwrap.dedent(text)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.stdout, done.stderr

    def test_each_says_where_to_go(self):
        """The first import of a former module gives one warning at the line of the program.

        This holds for the packages `theano` and `theano_ng`, and for every form of import.
        """
        for package, form in (
            ("theano_ng", "import {package}.{path}"),
            ("theano", "from {package}.{parent} import {name}"),
            ("theano", "import importlib; importlib.import_module('{package}.{path}')"),
        ):
            program, expected = ["from theano_ng import legacy; legacy.install(force=True)"], []
            for path, home in moved.FORMER.items():
                parent, _, name = path.rpartition(".")
                statement = form.format(package=package, path=path, parent=parent, name=name)
                program += [statement, statement]
                expected.append(
                    "<string>:%d: DeprecationWarning: theano_ng.%s is a former module path: import from %s"
                    % (len(program) - 1, path, home)
                )
            with self.subTest(form):
                out, said = self.run_program("\n".join(program))
                self.assertEqual((out, said.splitlines()), ("", expected))

    def test_homes_of_theano_1_0_say_nothing(self):
        out, said = self.run_program(
            """
            import theano_ng.sandbox.rng_mrg, theano_ng.sandbox.linalg.ops, theano_ng.tensor.nnet.conv, theano_ng.tests.main
            import theano_ng.compat, theano_ng.sparse.sandbox.sp, theano_ng.tests.unittest_tools, theano_ng.tensor.signal.pool
            from theano_ng.sandbox.rng_mrg import string_types
            """
        )
        self.assertEqual((out, said), ("", ""))

    def test_modules_are_those_of_the_home(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            from theano_ng.sandbox import blocksparse, neighbours, softsign
        from theano_ng.tensor import nnet

        self.assertIs(softsign.softsign, nnet.softsign)
        self.assertIs(neighbours.images2neibs, nnet.neighbours.images2neibs)
        self.assertIs(blocksparse.sparse_block_dot, nnet.blocksparse.sparse_block_dot)


class TestFormerGPUs(unittest.TestCase):
    def setUp(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.cuda = importlib.import_module("theano_ng.sandbox.cuda")

    def test_there_are_none(self):
        self.assertIs(self.cuda.cuda_available or self.cuda.cuda_enabled, False)
        self.assertIs(self.cuda.dnn.dnn_available(), False)
        self.assertIn("was removed", self.cuda.dnn.dnn_available.msg)
        self.assertIsNone(self.cuda.use("cpu"))
        with self.assertRaisesRegex(OSError, "no device 'gpu0'"):
            self.cuda.use("gpu0", force=True)

    def test_other_names_say_why_they_are_gone(self):
        said = r"theano_ng.sandbox.cuda.\S+ was removed: it was part of the GPU back-end before theano_ng.gpuarray"
        for statement in (
            "from theano_ng.sandbox.cuda import GpuOp",
            "import theano_ng.sandbox.cuda.basic_ops",
            "from theano_ng.sandbox.cuda.basic_ops import gpu_contiguous",
        ):
            with self.subTest(statement), self.assertRaisesRegex(ImportError, said):
                exec(statement, {})
        for module in (self.cuda, self.cuda.dnn):
            self.assertIs(hasattr(module, "GpuDnnConv"), False)
            with self.assertRaisesRegex(AttributeError, said):
                module.GpuDnnConv
        self.assertIs(hasattr(self.cuda, "__wrapped__"), False)


class TestTestRunner(unittest.TestCase):
    def test_arguments(self):
        from theano_ng.tests import main

        with unittest.mock.patch.object(main, "main", lambda argv: argv):
            tester = main.TheanoNoseTester()
            self.assertEqual(tester.test(), ["--theano"])
            self.assertEqual(tester.test(verbose=2, extra_argv=["-x"]), ["--theano", "--verbose", "-x"])
