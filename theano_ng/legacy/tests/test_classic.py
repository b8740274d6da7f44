"""The programs of `examples/classic` run unchanged with ``theano_ng-run``, and print the results of Theano 1.0.5.

`benchmarks/clients/recorded.json` contains these results, recorded with Theano 1.0.5 under Python 3.8 and NumPy 1.19 in
its default configuration. ``python benchmarks/clients/check.py --only classic --small --record`` records them again, if
an interpreter of Python 3.8 is found. `benchmarks/clients/compare.py` contains the tolerance of each result.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

import theano_ng

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(theano_ng.__file__)))
CLASSIC = os.path.join(ROOT, "examples", "classic")
CLIENTS = os.path.join(ROOT, "benchmarks", "clients")
PROGRAMS = (
    "logistic_regression mlp_dropout denoising_autoencoder rbm lstm_text hmc matrix_factorization word2vec gaussian_process vae"
).split()


def load(name):
    """Load a file of `benchmarks/clients` as a module."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(CLIENTS, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@unittest.skipUnless(
    os.path.isdir(CLASSIC) and os.path.isdir(CLIENTS), "the examples are not installed with the package"
)
class TestClassic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.compare = load("compare")
        with open(os.path.join(CLIENTS, "recorded.json")) as f:
            cls.recorded = json.load(f)

    def run_program(self, program):
        """Return the JSON output of a program in a short run."""
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.json")
            # The recorded results are for the default mode and floatX, independent of the configuration of the tests.
            environ = {name: value for name, value in os.environ.items() if name != "THEANO_FLAGS"}
            environ.update(PYTHONPATH=os.pathsep.join(p for p in sys.path if p), OPENBLAS_NUM_THREADS="1")
            environ["THEANO_FLAGS"] = "base_compiledir=%s" % theano_ng.config.base_compiledir
            command = [
                sys.executable,
                "-m",
                "theano_ng.legacy.run",
                os.path.join(CLASSIC, program + ".py"),
                "--small",
                "--json",
                out,
            ]
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environ, timeout=300)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            with open(out) as f:
                return json.load(f)

    def check(self, program):
        worst, messages = self.compare.differences(
            program, self.run_program(program), self.recorded[program + "-small"], small=True
        )
        self.assertEqual(messages, [])
        self.assertLess(worst, self.compare.TOLERANCE)

    def test_every_program_is_run(self):
        found = sorted(name[:-3] for name in os.listdir(CLASSIC) if name.endswith(".py") and name != "support.py")
        self.assertEqual(found, sorted(PROGRAMS))

    def test_what_differs_is_found(self):
        run = {"rows": [{"row": "0", "cost": 1.0}], "checksums": {"W": [2.0, 1.0]}}
        self.assertEqual(self.compare.differences("x", run, run), (0.0, []))
        for path, value in [
            (("rows", 0, "cost"), 1.0001),
            (("checksums", "W", 1), 1.0001),
            (("rows", 0, "cost"), float("nan")),
        ]:
            other = json.loads(json.dumps(run))
            inner = other
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = value
            self.assertEqual(len(self.compare.differences("x", run, other)[1]), 1)
            self.assertEqual(len(self.compare.differences("x", other, run)[1]), 1)
        self.assertEqual(len(self.compare.differences("x", run, dict(run, checksums={}))[1]), 1)
        self.assertEqual(len(self.compare.differences("x", run, dict(run, rows=[]))[1]), 1)


def _test_of(program):
    def test(self):
        self.check(program)

    test.__name__ = "test_" + program
    test.__doc__ = "examples/classic/%s.py agrees with Theano 1.0.5." % program
    return test


for _program in PROGRAMS:
    setattr(TestClassic, "test_" + _program, _test_of(_program))


if __name__ == "__main__":
    unittest.main()
