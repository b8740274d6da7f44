"""Tests of the build: a changed header rebuilds exactly the extension modules that include it, and versions agree."""

import contextlib
import glob
import os
import runpy
import shutil
import subprocess
import sysconfig
import tempfile
import tomllib
import unittest
from unittest import mock

import theano_ng

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(theano_ng.__file__)))
SETUP = os.path.join(ROOT, "setup.py")
PREPROCESSOR = shutil.which("gcc")

# Headers that no extension module includes -> the generated code that includes them.
SHIPPED = {
    "gof/c_include/module_prologue.h": "C++ modules of Ops",
    "gof/c_include/numpy_1.h": "C code of Ops that was written for NumPy 1",
    "gof/c_include/numpy/noprefix.h": "see numpy_1.h",
    "gof/c_include/numpy/npy_interrupt.h": "see numpy_1.h",
    "gof/c_include/numpy/old_defines.h": "see numpy_1.h",
    "gpuarray/device/cluda_cuda.h": "kernels of CUDA",
    "gpuarray/device/cluda_opencl.h": "kernels of OpenCL",
    "gpuarray/device/tests/stub_cuda/fake_cusolver_routines.h": "fake libraries of tests",
    "gpuarray/device/tests/stub_cuda/fake_driver.h": "see fake_cusolver_routines.h",
    "gpuarray/device/tests/stub_cuda/fake_cudnn.h": "see fake_cusolver_routines.h",
    "gpuarray/device/tests/stub_cuda/fake_cudnn_conv.h": "see fake_cusolver_routines.h",
    "scalar/c_code/half.h": "compiled kernels with float16",
    "scalar/c_code/half_blocks.h": "see half.h",
    "scalar/c_code/zero_in.h": "compiled kernels with integer division",
}


class SetupTest(unittest.TestCase):
    """A base class of tests with the names of setup.py (`names`) and the extension modules (`extensions`)."""

    @classmethod
    def setUpClass(cls):
        if not os.path.exists(SETUP):
            raise unittest.SkipTest("the package is installed: there is nothing to build it from")
        try:
            import Cython  # noqa: F401, tests whether it is installed
            import setuptools
        except ImportError as missing:
            raise unittest.SkipTest("%s is not installed: nothing can be built" % missing.name) from missing
        with contextlib.chdir(ROOT), mock.patch.object(setuptools, "setup") as setup:
            cls.names = runpy.run_path(SETUP)
        cls.extensions = setup.call_args.kwargs["ext_modules"]


class TestIncludedFiles(SetupTest):
    def included(self, files, source, folders=()):
        """Return the files that `source` includes in a folder with `files`, a dict from paths to texts."""
        self.names["named_files"].cache_clear()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
                with open(path, "w") as file:
                    file.write(text)
            extension = self.names["Extension"]("a", [source], include_dirs=[*folders, "/usr/include"])
            return self.names["included_files"](extension)

    def test_headers_of_headers(self):
        files = {
            "p/a.c": '#include <math.h>\n#include "one.h"\n  # include "Python.h"\n',
            "p/one.h": '#include "sub/two.h"\n',
            "p/sub/two.h": '#if 0\n#include "three.h"\n#endif\n#include "../one.h"\n#include "loops.c"\n',
            "other/three.h": "",
            "other/four.h": "",
            "p/sub/loops.c": "",
            "p/sub/three.h": '// #include "four.h"\n',
        }
        expected = ["p/one.h", "p/sub/loops.c", "p/sub/three.h", "p/sub/two.h"]
        self.assertEqual(self.included(files, "p/a.c", ["other"]), expected)
        del files["p/sub/three.h"]
        self.assertEqual(self.included(files, "p/a.c", ["other"]), ["other/three.h", *expected[:2], expected[3]])

    def test_headers_of_cython_files(self):
        files = {
            "p/a.pyx": 'from p.b cimport x\ncimport p.c\nfrom p cimport d\ninclude "e.pxi"\nfrom libc.math cimport exp\n',
            "p/a.pxd": 'cdef extern from "own.h":\n    pass\n',
            "p/b.pxd": 'cdef extern from "b.h" nogil:\n    pass\n',
            "p/c.pxd": 'cdef extern from *:\n    """\n    #include "c.h"\n    """\n',
            "p/d.pxd": "from p.f cimport y\n",
            "p/e.pxi": 'cdef extern from "e.h":\n    pass\n',
            "p/f.pxd": 'cdef extern from "f.h":\n    pass\n',
            **{"h/%s.h" % name: "" for name in ("own", "b", "c", "e", "f", "other")},
        }
        expected = ["h/%s.h" % name for name in ("b", "c", "e", "f", "own")]
        self.assertEqual(self.included(files, "p/a.pyx", ["h"]), expected)

    def test_no_folder_hides_a_module(self):
        """No folder is named like an extension module: Python would import the folder if the module is not built."""
        names = [extension.name for extension in self.extensions]
        self.assertEqual(len(set(names)), len(names))
        self.assertEqual([n for n in names if os.path.isdir(os.path.join(ROOT, n.replace(".", os.sep)))], [])

    def test_every_header_is_used(self):
        headers = {
            os.path.relpath(path, os.path.join(ROOT, "theano_ng"))
            for path in glob.glob(os.path.join(ROOT, "theano_ng", "**", "*.h"), recursive=True)
        }
        used = {os.path.relpath(path, "theano_ng") for extension in self.extensions for path in extension.depends}
        self.assertEqual(headers - used, set(SHIPPED))

    @unittest.skipUnless(PREPROCESSOR, "compared with gcc, which is not there")
    def test_the_compiler_includes_the_same_files(self):
        for extension in self.extensions:
            if any(path.endswith(".pyx") for path in extension.sources):
                continue
            folders = [sysconfig.get_paths()["include"], *extension.include_dirs]
            command = [PREPROCESSOR, "-MM", *("-I" + folder for folder in folders)]
            command += ["-D%s=%s" % macro for macro in extension.define_macros]
            command += [*extension.extra_compile_args, *extension.sources]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            self.assertEqual(done.stderr, "")
            paths = [os.path.normpath(path) for path in done.stdout.replace("\\\n", " ").split()]
            own = {path for path in paths if path.startswith("theano_ng" + os.sep)}
            self.assertEqual(own - set(extension.sources), set(extension.depends), extension.name)


class TestArguments(SetupTest):
    def test_changed_arguments_rebuild(self):
        """The file of compiler arguments gets a new modification time only if the arguments change."""
        extension = self.extensions[0]
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"CFLAGS": "-O0"}):
            path = os.path.join(folder, "new", "arguments.txt")

            def time():
                self.names["written"](path, self.names["arguments"](extension))
                return os.path.getmtime(path)

            time()
            os.utime(path, (1000, 1000))
            self.assertEqual(time(), 1000)
            os.environ["CFLAGS"] = "-O1"
            self.assertGreater(time(), 1000)


class TestVersions(unittest.TestCase):
    @unittest.skipUnless(os.path.exists(os.path.join(ROOT, "Makefile")), "the package is installed without it")
    def test_requirements_of_tools(self):
        """The pre-commit configuration and the Makefile require the same versions of tools as pyproject.toml."""
        with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
            project = tomllib.load(file)
        tools = project["project"]["optional-dependencies"]["dev"]
        for path, requirements in (
            (".pre-commit-config.yaml", tools),
            ("Makefile", [r for r in project["build-system"]["requires"] if not r.startswith(("setuptools", "wheel"))]),
        ):
            path = os.path.join(ROOT, path)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                self.assertEqual([r for r in requirements if r not in text], [], path)


if __name__ == "__main__":
    unittest.main()
