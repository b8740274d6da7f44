"""Tests of compile directories: their cleanup, and the lock of a directory."""

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from theano_ng.configdefaults import config
from theano_ng.gof import compiler as cmodule
from theano_ng.gof.compiler import compiledir, compilelock, kernelcache, modulecache
from theano_ng.gof.compiler.kernelcache import KernelCache
from theano_ng.gof.tests import test_cmodule


class InDirectory(unittest.TestCase):
    """A test case in which `config.compiledir` and `config.base_compiledir` are temporary directories."""

    def setUp(self):
        self.base = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.base, ignore_errors=True)
        self.directory = os.path.join(self.base, "compiledir_here")
        os.makedirs(os.path.join(self.base, "compiledir_there"))
        os.makedirs(self.directory)
        fake = mock.Mock(
            compiledir=self.directory,
            base_compiledir=self.base,
            nocleanup=False,
            cmodule=config.cmodule,
            compile=config.compile,
        )
        for module in (compiledir, compilelock, modulecache):
            patch = mock.patch.object(module, "config", fake)
            patch.start()
            self.addCleanup(patch.stop)

    def fill(self):
        """Fill the directory with a module, two kernels, a header and the remains of killed processes."""
        cache = cmodule.ModuleCache(self.directory)
        test_cmodule.TestModules.module(self, cache, 1)
        KernelCache(os.path.join(self.directory, "kernels")).load([test_cmodule.scaling(2), test_cmodule.scaling(3)])
        os.makedirs(os.path.join(self.directory, "pch-0"))
        os.makedirs(os.path.join(self.directory, "tmp-1-x"))
        with open(os.path.join(self.directory, "kernels", "lock-1"), "w"):
            pass

    Linker = test_cmodule.TestModules.Linker

    def output(self, function, *args):
        stream = io.StringIO()
        with contextlib.redirect_stdout(stream):
            result = function(*args)
        return result, stream.getvalue()


@unittest.skipUnless(cmodule.find_toolchain(), "needs a C compiler")
class TestCompiledir(InDirectory):
    def test_content_and_purge(self):
        self.fill()
        _, text = self.output(compiledir.print_compiledir_content)
        for part in (
            self.directory,
            "List of 1 compiled modules",
            "(none): 1",
            "2 kernels in 1 libraries",
            "1 precompiled headers",
        ):
            self.assertIn(part, text)
        _, text = self.output(compiledir.basecompiledir_ls)
        self.assertRegex(text, r"(?s)compiledir_here.*compiledir_there.*2 directories")
        compiledir.compiledir_purge()
        self.assertEqual(os.listdir(self.directory), [])
        compiledir.basecompiledir_purge()
        self.assertEqual(os.listdir(self.base), [])
        self.assertIn("0 directories", self.output(compiledir.basecompiledir_ls)[1])

    def test_purge_leaves_what_others_made(self):
        """A purge keeps files of users, and directories that are not compile directories."""
        kept = [
            os.path.join(self.base, *parts)
            for parts in (
                ("notes.txt",),
                ("project", "kernels", "mine.cl"),
                ("project", "m" + "0" * 40),
                ("compiledir_there", "results.npz"),
                ("compiledir_here", "thesis", "chapter.tex"),
                ("compiledir_here", "kernels.txt"),
                ("compiledir_file",),
            )
        ]
        for path in kept:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write("mine")
        elsewhere = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, elsewhere, ignore_errors=True)
        os.makedirs(os.path.join(elsewhere, "kernels"))
        os.symlink(elsewhere, os.path.join(self.base, "compiledir_link"))
        os.makedirs(os.path.join(self.base, "compiledir_empty"))
        for purge in (compiledir.compiledir_purge, compiledir.basecompiledir_purge):
            self.fill()
            _, text = self.output(purge)
            self.assertIn("Kept, because the cache has not made it:", text)
            self.assertIn(os.path.join("compiledir_here", "thesis"), text)
            self.assertEqual(sorted(os.listdir(self.directory)), ["kernels.txt", "thesis"])
        for path in kept:
            with open(path) as file:
                self.assertEqual(file.read(), "mine")
        self.assertEqual(os.listdir(elsewhere), ["kernels"])
        self.assertFalse(os.path.exists(os.path.join(self.base, "compiledir_empty")))
        self.assertNotIn("project", self.output(compiledir.basecompiledir_ls)[1])

    def test_a_real_directory_is_emptied(self):
        """A purge removes all files that a process has left in its compile directory."""
        program = (
            "import theano_ng as theano, theano_ng.tensor as T\n"
            "x = T.dvector()\n"
            "print(theano.function([x], T.exp(x) * 3 + 1)([0.0]))\n"
        )
        environment = dict(os.environ, THEANO_FLAGS="base_compiledir=%s" % self.base)
        subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True)
        (made,) = [name for name in os.listdir(self.base) if name not in ("compiledir_here", "compiledir_there")]
        self.assertIn("graphs", os.listdir(os.path.join(self.base, made)))
        self.assertEqual(self.output(compiledir.basecompiledir_purge)[1], "")
        self.assertEqual(os.listdir(self.base), [])

    def test_cleanup(self):
        self.fill()
        self.assertEqual(compiledir.cleanup(), 0)
        (entry,) = [name for name in os.listdir(self.directory) if modulecache._is_module_hash(name)]
        old = 0
        os.utime(os.path.join(self.directory, entry, "info"), (old, old))
        kernels = os.path.join(self.directory, "kernels")
        (unit,) = [name for name in os.listdir(kernels) if name.startswith("u")]
        os.utime(os.path.join(kernels, unit), (old, old))
        self.assertEqual(compiledir.cleanup(), 3)
        self.assertFalse(os.path.exists(os.path.join(self.directory, entry)))

    def test_titles(self):
        self.assertEqual(self.output(compiledir.print_title, "abc", "=", "-")[1], "===\nabc\n---\n")


class TestCompilelock(InDirectory):
    def test_lock(self):
        program = (
            "import sys\nfrom theano_ng.gof import compilelock\n"
            "try:\n    compilelock.get_lock(sys.argv[1], timeout=0.2)\n    print('free')\n"
            "except TimeoutError as error:\n    print('held')\n"
        )

        def other():
            return subprocess.run(
                [sys.executable, "-c", program, self.directory], capture_output=True, text=True, check=True
            ).stdout

        with compilelock.lock_ctx(self.directory), compilelock.lock_ctx(self.directory, keep_lock=True):
            self.assertEqual(other(), "held\n")
        self.assertEqual(other(), "held\n")  # still held, since one context keeps the lock
        compilelock.release_lock(self.directory)
        self.assertEqual(other(), "free\n")  # the other process released the lock when it ended
        compilelock.get_lock()
        compilelock.force_unlock()
        self.assertEqual(other(), "free\n")

    def test_status(self):
        compilelock.set_lock_status(False)
        try:
            with compilelock.lock_ctx():
                self.assertEqual(os.listdir(self.directory), [])
            self.assertIsNone(kernelcache.UnitLock(os.path.join(self.directory, "lock"))._fd)
        finally:
            compilelock.set_lock_status(True)
        self.assertEqual(os.listdir(self.directory), [])


if __name__ == "__main__":
    unittest.main()
