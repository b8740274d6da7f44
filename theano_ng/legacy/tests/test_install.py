"""``import theano`` returns this package while it is installed under that name, and not afterwards."""

import importlib
import logging
import pickle
import subprocess
import sys
import tempfile
import textwrap
import unittest

import theano_ng
import theano_ng.tensor
from theano_ng import legacy

REAL = importlib.machinery.PathFinder.find_spec("theano") is not None


@unittest.skipIf(REAL, "Theano itself is installed")
class TestInstall(unittest.TestCase):
    def setUp(self):
        self.addCleanup(legacy.uninstall)
        legacy.install()

    def test_same_modules(self):
        import theano
        import theano.tensor as T
        from theano import theano as again
        from theano.gof.op import Op

        self.assertIs(theano, theano_ng)
        self.assertIs(again, theano_ng)
        self.assertIs(T, theano_ng.tensor)
        self.assertIs(Op, theano_ng.gof.Op)
        for path in (
            "theano.tensor.subtensor",
            "theano.gof.opt",
            "theano.compile.function_module",
            "theano.scan_module.scan_op",
        ):
            own = importlib.import_module("theano_ng" + path[len("theano") :])
            self.assertIs(importlib.import_module(path), own)

    def test_nothing_is_left(self):
        import theano.tensor

        before = set(sys.modules)
        legacy.uninstall()
        self.assertEqual([n for n in sys.modules if n == "theano" or n.startswith("theano.")], [])
        self.assertEqual(before - set(sys.modules), {n for n in before if n == "theano" or n.startswith("theano.")})
        self.assertNotIn(legacy.Finder, sys.meta_path)
        self.assertIs(type(logging.Logger.manager.loggerDict), dict)
        with self.assertRaises(ModuleNotFoundError):
            import theano  # noqa: F401, raises

    def test_block(self):
        with legacy.installed():
            import theano
        self.assertIs(sys.modules["theano"], theano)  # setUp called `install`: the block's end uninstalls nothing
        legacy.uninstall()
        with self.assertRaisesRegex(RuntimeError, "from inside"), legacy.installed():
            self.assertIs(importlib.import_module("theano"), theano_ng)
            raise RuntimeError("from inside")
        self.assertNotIn("theano", sys.modules)

    def test_taken_out(self):
        del sys.modules["theano"]
        self.assertIs(importlib.import_module("theano"), theano_ng)

    def test_pickles(self):
        found = pickle.loads(b"ctheano.tensor.elemwise\nElemwise\n.")
        self.assertIs(found, theano_ng.tensor.Elemwise)

    def test_loggers(self):
        own = logging.getLogger("theano_ng.gof.opt")
        self.assertIs(logging.getLogger("theano.gof.opt"), own)
        self.assertIs(logging.getLogger("theano"), theano_ng.theano_logger)
        new = logging.getLogger("theano.a.new.one")
        self.assertIs(new.parent, theano_ng.theano_logger)
        legacy.uninstall()
        self.assertIs(logging.getLogger("theano_ng.a.new.one"), new)
        self.assertIsNot(logging.getLogger("theano"), theano_ng.theano_logger)
        del logging.Logger.manager.loggerDict["theano"]

    def test_version(self):
        from importlib import metadata

        self.assertEqual(metadata.version("Theano"), theano_ng.__version__)
        self.assertEqual(metadata.metadata("theano")["Name"], "Theano")
        legacy.uninstall()
        with self.assertRaises(metadata.PackageNotFoundError):
            metadata.version("Theano")

    def test_twice(self):
        legacy.install()
        legacy.uninstall()
        legacy.uninstall()
        self.assertNotIn("theano", sys.modules)


class TestTheanoItself(unittest.TestCase):
    """`legacy.install` does not replace another package with the name `theano`, unless ``force=True`` is given."""

    def run_beside_another(self, program):
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/theano.py", "w") as f:
                f.write("other = True\n")
            program = "import sys; sys.path.insert(0, %r)\n%s" % (folder, textwrap.dedent(program))
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_it_stays(self):
        out = self.run_beside_another(
            """
            from theano_ng import legacy
            try:
                legacy.install()
            except ImportError as error:
                print("force=True" in str(error), "theano.py" in str(error))
            import theano
            print(theano.other)
            """
        )
        self.assertEqual(out, ["True", "True", "True"])

    def test_forced(self):
        out = self.run_beside_another(
            """
            import theano as other
            from theano_ng import legacy
            with legacy.installed(force=True):
                import theano.tensor
                print(theano.__name__)
            import theano
            print(theano is other, "theano.tensor" in sys.modules)
            """
        )
        self.assertEqual(out, ["theano_ng", "True", "False"])
