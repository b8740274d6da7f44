"""Tests of the command theano_ng-cache."""

import contextlib
import io
import os
import unittest
from unittest import mock

from theano_ng.gof import compiler as cmodule
from theano_ng.gof.compiler import cache_cli, compiledir
from theano_ng.gof.tests.test_compiledir import InDirectory


@unittest.skipUnless(cmodule.find_toolchain(), "needs a C compiler")
class TestCacheProgram(InDirectory):
    def setUp(self):
        super().setUp()
        patch = mock.patch.object(cache_cli, "config", compiledir.config)
        patch.start()
        self.addCleanup(patch.stop)

    def call(self, *argv):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cache_cli.main(list(argv))
        return status, out.getvalue(), err.getvalue()

    def names(self):
        return sorted(os.listdir(self.directory))

    def test_commands(self):
        self.fill()
        self.assertEqual(self.call(), (0, self.directory + "\n", ""))
        self.assertIn("Usage: theano_ng-cache", self.call("help")[1])
        self.assertIn("2 kernels", self.call("list")[1])
        self.assertEqual(self.call("cleanup"), (0, "0 modules and kernels deleted\n", ""))
        self.assertEqual(self.call("unlock")[0], 0)
        self.assertNotIn("lock-1", os.listdir(os.path.join(self.directory, "kernels")))
        self.assertIn("compiledir_there", self.call("basecompiledir")[1])
        os.makedirs(os.path.join(self.directory, compiledir.SANITIZED, "tmp0"))
        self.assertEqual(self.call("clear"), (0, "", ""))
        self.assertEqual([name for name in self.names() if name != "kernels"], [])
        self.assertEqual(os.listdir(os.path.join(self.directory, "kernels")), ["swept"])
        self.fill()
        self.assertEqual(self.call("purge"), (0, "", ""))
        self.assertEqual(self.names(), [])
        self.assertEqual(self.call("basecompiledir", "purge")[0], 0)
        self.assertEqual(os.listdir(self.base), [])

    def test_unknown_command(self):
        status, out, err = self.call("explode", "now")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("no command 'explode now'", err)


if __name__ == "__main__":
    unittest.main()
