"""Tests of the stubs and annotations, which editors and type checkers read."""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest

import theano_ng

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(theano_ng.__file__)))

# A program of a user. A comment names the code of the error that mypy reports for its line.
PROGRAM = """
import numpy as np
import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.tensor import dscalars

x: T.TensorVariable = T.exp(T.dmatrix("x")).sum(axis=0)
a, b = dscalars("a", "b")
y: T.TensorVariable = -a + b * 2 / x[0].T
w = theano.shared(np.zeros(3), name="w")
numbers: list[T.TensorVariable] = [T.dot(x, w), T.nnet.relu(x), T.nlinalg.det(x), T.stack([x, x]), T.shape(x)]
derivative: T.TensorVariable = T.grad((w * x).sum(), w)
derivatives: list[T.TensorVariable] = T.grad((w * x).sum(), [w])
f = theano.function([a, theano.In(b, value=2)], a + b, updates=[(w, w - derivative)], mode="FAST_RUN")
f(1, output_subset=[0])
results, updates = theano.scan(lambda row, sum: row + sum, sequences=x, outputs_info=0.0)
updates[w] = w + 1
length: int = x.type.ndim
T.exp()  # call-arg
T.exp(x, x)  # call-arg
T.nosuch(1)  # attr-defined
T.zeros(shp=3)  # call-arg
x.sum(axes=0)  # call-arg
x.nosuch()  # attr-defined
theano.function(inputs=[a], output=b)  # call-arg
theano.nosuch  # attr-defined
name: str = T.log(x)  # assignment
"""


class TestStubs(unittest.TestCase):
    def test_they_are_up_to_date(self):
        """The stubs are equal to the output of misc.write_stubs."""
        command = [sys.executable, "-m", "theano_ng.misc.write_stubs", "--check"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        self.assertEqual((done.stdout, done.returncode), ("", 0), done.stderr)

    def test_they_list_the_names_of_modules(self):
        for stub, module in (("__init__.pyi", theano_ng), ("tensor/__init__.pyi", theano_ng.tensor)):
            with open(os.path.join(ROOT, "theano_ng", *stub.split("/")), encoding="utf-8") as file:
                names = set(re.findall(r" as (\w+)", file.read()))
            self.assertEqual([name for name in sorted(names) if not hasattr(module, name)], [])

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
    def test_a_program(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(PROGRAM)
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "mypy",
                    "--config-file=",
                    "--cache-dir",
                    folder,
                    "--ignore-missing-imports",
                    path,
                ],
                cwd=folder,
                env={**os.environ, "MYPYPATH": ROOT},
                capture_output=True,
                text=True,
            )
        found = re.findall(r"^program\.py:(\d+): error: .* \[([a-z-]+)\]$", done.stdout, re.M)
        expected = [
            (str(number), line.rpartition("# ")[2])
            for number, line in enumerate(PROGRAM.splitlines(), 1)
            if "  # " in line
        ]
        self.assertEqual(found, expected, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
