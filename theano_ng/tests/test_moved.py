"""Tests that moved modules can be found by their former paths, in imports, attributes, pickles and ``python -m``."""

import importlib
import os
import pickle
import subprocess
import sys
import tempfile
import textwrap
import unittest

import theano_ng
import theano_ng.tensor as T
from theano_ng.lazy import lazy_names
from theano_ng.moved import MOVED, MovedModules

SETUP = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(theano_ng.__file__))), "setup.py")

# Classes and instances, and the module path that pickles of Theano contain for each of them.
CLASSIC = (
    ("tensor.elemwise", "Elemwise"),
    ("tensor.elemwise", "DimShuffle"),
    ("tensor.elemwise", "Sum"),
    ("tensor.basic", "MaxAndArgmax"),
    ("tensor.basic", "Reshape"),
    ("tensor.basic", "Join"),
    ("tensor.basic", "Alloc"),
    ("tensor.basic", "Dot"),
    ("tensor.opt", "MakeVector"),
    ("tensor.blas", "Gemm"),
    ("tensor.blas_c", "CGemv"),
    ("tensor.subtensor", "IncSubtensor"),
    ("tensor.subtensor", "AdvancedSubtensor1"),
    ("tensor.nlinalg", "MatrixInverse"),
    ("tensor.nlinalg", "SVD"),
    ("tensor.nlinalg", "ExtractDiag"),
    ("tensor.slinalg", "Solve"),
    ("gradient", "DisconnectedType"),
    ("gof.cc", "CLinker"),
    ("gof.opt", "PatternSub"),
    ("gof.type", "CDataType"),
    ("compile.function_module", "FunctionMaker"),
    ("compile.debugmode", "BadThunkOutput"),
    ("compile.debugmode", "DebugMode"),
)


class TestMoved(unittest.TestCase):
    def test_rows(self):
        for path, homes in MOVED.items():
            found = importlib.import_module("theano_ng." + path)
            for home in homes.split():
                home = importlib.import_module("theano_ng." + home)
                if " " not in homes:
                    self.assertIs(found, home)
                for name in getattr(home, "__all__", ()):
                    self.assertIs(getattr(found, name), getattr(home, name))

    def test_pickles_of_theano(self):
        for path, name in CLASSIC:
            found = pickle.loads(b"ctheano_ng.%s\n%s\n." % (path.encode(), name.encode()))
            self.assertIs(found, getattr(importlib.import_module("theano_ng." + path), name))

    def test_attributes(self):
        from theano_ng.gof import cc, opt
        from theano_ng.tensor import blas_c, subtensor

        self.assertIs(T.subtensor, subtensor)
        self.assertIs(subtensor.Subtensor, T.Subtensor)
        self.assertIs(theano_ng.gof.cc, cc)
        self.assertIs(opt.local_optimizer, theano_ng.gof.local_optimizer)
        self.assertIs(blas_c.CGemv, importlib.import_module("theano_ng.tensor.blas.ops").CGemv)
        with self.assertRaisesRegex(AttributeError, "no attribute 'not_there'"):
            theano_ng.gof.not_there
        with self.assertRaises(ModuleNotFoundError):
            importlib.import_module("theano_ng.tensor.not_there")

    @unittest.skipUnless(os.path.exists(SETUP), "the package is installed: there is nothing to build it from")
    def test_extension_modules_that_are_not_built(self):
        """If an extension module has only its source file, the import error says how to build the module."""
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "theme"))
            for name in ("_a.pyx", "b.c", "c.py", "theme/d.c"):
                with open(os.path.join(folder, name), "w"):
                    pass
            said = r"theano_ng\.gof\._a is not built for Python \d\.\d+\. Type in .*: pip install --editable \.$"
            with self.assertRaisesRegex(ImportError, said):
                MovedModules.find_spec("theano_ng.gof._a", [folder])
            for name in "bd":
                with self.assertRaisesRegex(ImportError, r"theano_ng\.tensor\.native\.%s is not built" % name):
                    MovedModules.find_spec("theano_ng.tensor.native." + name, [folder])
            for name in ("gof.b", "gof.c", "gof.d", "gof.not_there", "tensor.native.c"):
                self.assertIsNone(MovedModules.find_spec("theano_ng." + name, [folder]))

    def test_unknown_names(self):
        """Imports and attribute accesses of names that never existed raise the usual errors."""
        for name in ("x", "scanner", "sparsely", "no_such_chapter"):
            self.assertIs(hasattr(theano_ng, name), False)
            with self.assertRaisesRegex(AttributeError, "module 'theano_ng' has no attribute '%s'" % name):
                getattr(theano_ng, name)
            with self.assertRaisesRegex(ModuleNotFoundError, "No module named 'theano_ng.%s'" % name):
                importlib.import_module("theano_ng." + name)
            with self.assertRaisesRegex(ImportError, "cannot import name '%s'" % name):
                exec("from theano_ng import %s" % name, {})

    def test_a_program_falls_back_to_the_processor(self):
        """A program that asks `dnn_present()`, as Lasagne's `layers.dnn` does, falls back to its code for CPUs."""
        code = """
            import theano_ng.legacy
            theano_ng.legacy.install()
            import theano
            try:
                if not theano.gpuarray.dnn.dnn_present():
                    raise ImportError("cuDNN not available: %s" % theano.gpuarray.dnn.dnn_present.msg)
                from theano.gpuarray.dnn import dnn_conv
            except ImportError as failure:
                print("processor:", failure)
            """
        text = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            capture_output=True,
            text=True,
            check=True,
            env=dict(os.environ, THEANO_FLAGS=os.environ.get("THEANO_FLAGS", "") + ",dnn.enabled=False"),
        )
        self.assertEqual(text.stdout, "processor: cuDNN not available: cuDNN is disabled by the flag dnn.enabled\n")

    def test_a_function_that_has_the_name_of_a_package(self):
        """`scan` is always the function, but the modules of the package `scan` can be imported, too."""
        code = """
            import sys
            import theano_ng as theano
            print([name for name in sys.modules if "scan" in name])
            from theano_ng.scan.op import Scan
            import theano_ng.scan.builder, theano_ng.scan_module.scan, theano_ng.scan_module.scan_op
            import theano_ng.scan.checkpoints as checkpoints
            from theano_ng.scan_module import scan, scan_checkpoints, scan_op, scan_utils, scan_views, until
            print(theano.scan is scan is theano.scan_module.scan, callable(scan), scan.__name__)
            print(theano.scan_checkpoints is scan_checkpoints is checkpoints.scan_checkpoints)
            print(scan_op.Scan is Scan is theano_ng.scan_module.scan_op.Scan, scan_utils.until is until)
            print(theano.map is scan_views.map is theano.scan_module.map, theano.foldr is scan_views.foldr)
            import theano_ng.scan_module.op, theano_ng.scan_module.scan_opt.merge as merge
            print(theano_ng.scan_module.op.Scan is Scan, merge.__name__, [name for name in sys.modules if name.endswith("scan_module.op")])
            try:
                import theano_ng.scan_module.nothing
            except ModuleNotFoundError as error:
                print(error)
            """
        text = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
        ).stdout
        self.assertEqual(
            text,
            "[]\nTrue True scan\nTrue\nTrue True\nTrue True\nTrue theano_ng.scan.opt.merge ['theano_ng.scan_module.op']\n"
            "No module named 'theano_ng.scan_module.nothing'\n",
        )

    def test_documented_paths_of_classes(self):
        for cls, module in (
            (T.Elemwise, "elemwise"),
            (T.DimShuffle, "elemwise"),
            (T.Subtensor, "subtensor"),
            (T.IncSubtensor, "subtensor"),
        ):
            self.assertEqual(cls.__module__, "theano_ng.tensor." + module)

    def test_as_a_program(self):
        done = subprocess.run([sys.executable, "-m", "theano_ng.tensor.xlogx"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class TestLazyNames(unittest.TestCase):
    def test_they_are_imported_when_asked_for(self):
        module = type(sys)("somewhere")
        sys.modules["somewhere"] = module
        self.addCleanup(sys.modules.pop, "somewhere")
        module.__getattr__, module.__dir__, module.__all__ = lazy_names(
            "somewhere", {"math": "pi tau", "operator": "add"}
        )
        self.assertEqual(module.__all__, ["add", "pi", "tau"])
        self.assertNotIn("pi", vars(module))
        self.assertAlmostEqual(module.pi, 3.141592653589793)
        self.assertIn("pi", vars(module))
        self.assertLessEqual({"add", "pi", "tau"}, set(dir(module)))
        with self.assertRaisesRegex(AttributeError, "'somewhere' has no attribute 'e'"):
            module.e


if __name__ == "__main__":
    unittest.main()
