"""theano_ng-nose: which tests it runs, and what it says."""
import os
import subprocess
import sys
import tempfile
import unittest

import theano_ng

TESTS = """
import unittest

class Few(unittest.TestCase):
    def test_fine(self):
        pass

    def test_reads(self):
        self.assertRaises(EOFError, input)

    def test_wrong(self):
        self.assertEqual(1, 2)

    @unittest.skip("no reason")
    def test_later(self):
        pass
"""


class TestRunner(unittest.TestCase):
    def run_it(self, *arguments):
        """Exit status, and output, of the command on a folder with the tests above."""
        root = os.path.dirname(os.path.dirname(os.path.abspath(theano_ng.__file__)))
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "test_few.py"), "w") as f:
                f.write(TESTS)
            done = subprocess.run(
                [sys.executable, "-m", "theano_ng.tests.runner", "--processes", "1", *arguments, folder], capture_output=True, text=True,
                stdin=subprocess.DEVNULL, env=dict(os.environ, PYTHONPATH=root + os.pathsep + os.environ.get("PYTHONPATH", "")))
        return done.returncode, done.stdout.splitlines()

    def test_counts(self):
        status, lines = self.run_it()
        self.assertEqual((status, lines[-1]), (1, "2 passed, 1 failed, 1 skipped"))
        self.assertTrue(any("AssertionError: 1 != 2" in line for line in lines))
        self.assertIn("skipped test_few.Few.test_later: no reason", lines)

    def test_some(self):
        status, lines = self.run_it("-k", "Few.test_fi")
        self.assertEqual((status, lines[-1]), (0, "1 passed, 0 failed, 0 skipped"))

    def test_time(self):
        status, lines = self.run_it("--seconds", "0")
        self.assertEqual((status, lines[-1]), (0, "0 passed, 0 failed, 0 skipped"))
        self.assertRegex(lines[0], "^test_few +not run: the time is over$")


if __name__ == "__main__":
    unittest.main()
