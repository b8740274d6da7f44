"""Tests that loaded files are replaced by new files with the same names, and that processes keep the old files.

A shared object that is overwritten in place kills the processes that have it mapped. So no existing shared object may
be opened for writing.
"""

import glob
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

import theano_ng
from theano_ng.gof import compiler as cmodule
from theano_ng.gof.compiler import gxx, kernelcache
from theano_ng.gof.tests import test_cmodule

SETUP = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(theano_ng.__file__))), "setup.py")

# A program that compiles functions, damages the compiled files, and compiles again. Meanwhile, nothing may write to an
# existing library. The second part of the program calls the command that clears the cache, and compiles again.
PROGRAM = """
import glob, os, subprocess, sys
written, outputs = [], []
def hook(event, args):
    if event == "open" and isinstance(args[0], str) and (".so" in args[0] or ".gch" in args[0]):
        if args[2] & (os.O_WRONLY | os.O_RDWR) and os.path.exists(args[0]):
            written.append(args[0])
    elif event == "os.posix_spawn" and "-o" in args[1]:
        output = args[1][list(args[1]).index("-o") + 1]
        outputs.append(output)
        if os.path.exists(output) and output != os.devnull:
            written.append(output)
sys.addaudithook(hook)
import numpy as np
import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gof.compiler.background import wait_for_kernels
from theano_ng.gof.tests import test_replacing
from theano_ng.configdefaults import config

def fresh():
    # as in another process
    for module in (theano.gof.compiler.kernelcache, theano.gof.compiler.modulecache):
        module._caches.clear()

x = T.dvector("x")
def compiled():
    fresh()
    functions = [theano.function([x], T.exp(x) + 1), theano.function([x], T.tanh(x), mode=theano.Mode(linker="c"))]
    wait_for_kernels()
    return functions
def right(functions):
    for f in functions:
        f([0.5, 1])
    np.testing.assert_allclose(functions[0]([0., 1]), np.exp([0., 1]) + 1)
    np.testing.assert_allclose(functions[1]([0., 1]), np.tanh([0., 1]))
first = compiled()
right(first)
count = len(outputs)
assert count >= 2, outputs
libraries = glob.glob(config.compiledir + "/*/*.so")
assert len(libraries) >= 2, libraries
mapped = open("/proc/self/maps").read() if os.path.exists("/proc/self/maps") else None
assert mapped is None or all(os.path.realpath(path) in mapped for path in libraries), (libraries, mapped)
# Another file takes each name: cut off, as by a full disk.
for path in libraries:
    with open(path, "rb") as old, open(path + ".new", "wb") as new:
        new.write(old.read()[:1000])
    os.replace(path + ".new", path)
right(first)
second = compiled()
right(first + second)
assert len(outputs) > count
count = len(outputs)
for command in ("clear", "purge", "clear"):
    subprocess.run([sys.executable, "-m", "theano_ng.gof.compiler.cache_cli", command], check=True)
    right(first + second)
    third = compiled()
    right(first + second + third)
    assert len(outputs) > count
    count = len(outputs)
assert not written, written
"""


class InDirectory(unittest.TestCase):
    def setUp(self):
        self.directory = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)


@unittest.skipUnless(cmodule.find_toolchain(), "needs a C compiler")
class TestCaches(InDirectory):
    def test_a_process_that_has_them_loaded(self):
        flags = ",".join((os.environ.get("THEANO_FLAGS", ""), "base_compiledir=" + self.directory))
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=dict(os.environ, THEANO_FLAGS=flags),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.assertEqual(0, done.returncode, done.stdout)

    def test_kernels(self):
        cache = kernelcache.KernelCache(self.directory)
        (address,) = cache.load([test_cmodule.scaling(2)])
        (unit,) = glob.glob(os.path.join(self.directory, "u*.so"))
        with open(unit, "rb") as old:
            content = old.read()
            with mock.patch.object(cache, "_find", return_value=False):  # as if no file with the kernel had been found
                cache._addresses.clear()
                cache.load([test_cmodule.scaling(2)])
            kernelcache.clear_kernels(self.directory)
            self.assertEqual([], glob.glob(os.path.join(self.directory, "u*.so")))
            old.seek(0)
            self.assertEqual(content, old.read())
        self.assertEqual([6.0, 10.0], test_cmodule.apply_kernel(address, np.array([3.0, 5.0])).tolist())

    def test_a_module_compiled_where_it_is_loaded(self):
        """A recompiled module is a new file. The process that has loaded the old file keeps the old code.

        This also holds for linkers that overwrite existing files in place.
        """
        text = """
            #include <Python.h>
            static PyObject *value(PyObject *self, PyObject *args) { return PyLong_FromLong(%d); }
            static PyMethodDef methods[] = {{"value", value, METH_NOARGS, ""}, {NULL}};
            static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "twice", NULL, -1, methods};
            PyMODINIT_FUNC __attribute__((visibility("default"))) PyInit_twice(void) { return PyModule_Create(&def); }
        """
        compiler = gxx.GCC_compiler
        first = compiler.compile_str("twice", text % 1, location=self.directory)
        with open(first.__file__, "rb") as old:
            path = compiler.compile_str("twice", text % 2, location=self.directory, py_module=False)
            self.assertEqual(path, first.__file__)
            self.assertNotEqual(os.fstat(old.fileno()).st_ino, os.stat(path).st_ino)
        self.assertEqual(1, first.value())
        files = ["mod.cpp", gxx.DEPENDENCIES, os.path.basename(path)]
        self.assertEqual(files, sorted(os.listdir(self.directory)))
        with self.assertRaises(cmodule.CompileError):
            compiler.compile_str("twice", "nonsense", location=self.directory)
        self.assertEqual(files, sorted(os.listdir(self.directory)))


@unittest.skipUnless(os.path.exists(SETUP), "the package is installed: there is nothing to build it from")
class TestBuild(InDirectory):
    def test_in_place(self):
        """`build_ext --inplace` installs extension modules by renaming."""
        try:
            import Cython  # noqa: F401, checks that Cython is installed
            import setuptools
        except ImportError as missing:
            self.skipTest("%s is not installed: nothing can be built" % missing.name)
        here = os.getcwd()
        try:
            with mock.patch.object(setuptools, "setup") as setup:
                runpy.run_path(SETUP)
        finally:
            os.chdir(here)
        command = setup.call_args.kwargs["cmdclass"]["build_ext"](setuptools.Distribution())
        command.force = None
        built, place = os.path.join(self.directory, "built.so"), os.path.join(self.directory, "place.so")

        def write(path, content, time):
            with open(path, "wb") as file:
                file.write(content)
            os.utime(path, (time, time))

        write(built, b"new" * 100000, 2000)
        write(place, b"old", 1000)
        replace, seen = os.replace, []

        def watched(source, target):
            with open(target, "rb") as before, open(source, "rb") as complete:
                seen.append((before.read(), complete.read()))
            replace(source, target)

        with open(place, "rb") as old, mock.patch("os.replace", watched):
            self.assertEqual((place, 1), command.copy_file(built, place, level=0))
            self.assertEqual([(b"old", b"new" * 100000)], seen)
            self.assertEqual(b"old", old.read())
            self.assertNotEqual(os.fstat(old.fileno()).st_ino, os.stat(place).st_ino)
        self.assertEqual(2000, os.path.getmtime(place))
        inode = os.stat(place).st_ino
        self.assertEqual((place, 0), command.copy_file(built, place, level=0))  # up to date
        self.assertEqual(inode, os.stat(place).st_ino)
        os.unlink(place)
        self.assertEqual((place, 1), command.copy_file(built, place, level=0))
        self.assertEqual(["built.so", "place.so"], sorted(os.listdir(self.directory)))
        with self.assertRaises(Exception):
            command.copy_file(os.path.join(self.directory, "missing.so"), place)
        self.assertEqual(["built.so", "place.so"], sorted(os.listdir(self.directory)))


if __name__ == "__main__":
    unittest.main()
