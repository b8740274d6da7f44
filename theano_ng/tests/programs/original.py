"""Runs programs on Theano 1.0.5.

The environment variable THEANO_ORIGINAL is the path of a Python interpreter in which Theano 1.0.5 is installed.
"""

import base64
import json
import os
import pickle
import subprocess
import tempfile

from theano_ng.tests.programs import source
from theano_ng.tests.programs.configurations import Configuration
from theano_ng.tests.programs.judge import Difference, compare

CONFIGURATION = Configuration("Theano 1.0.5", "FAST_COMPILE")


class Original:
    """A process that runs programs with Theano 1.0.5.

    Parameters
    ----------
    python : str
        The path of the Python interpreter.
    """

    def __init__(self, python):
        self._folder = tempfile.TemporaryDirectory(prefix="original")
        flags = "device=cpu,cxx=,base_compiledir=" + self._folder.name
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "THEANO"))}
        script = os.path.join(os.path.dirname(__file__), "original_process.py")
        self._process = subprocess.Popen(
            [python, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=dict(environment, THEANO_FLAGS=flags),
        )

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._folder.cleanup()

    def difference(self, program, expectation):
        """Return the Difference between the results of Theano and of the twin. Return None if they agree.

        The kind of the Difference is ``raises`` if Theano raised an exception.
        """
        arguments = [one for one in program.inputs if one.role != "shared"]
        asked = dict(
            lines=[*source.graph_lines(program), *expectation.lines],
            derived=bool(expectation.lines),
            arguments=[(one.name, (_plain_numbers(one.values), one.dtype, one.shape)) for one in arguments],
            outputs=program.outputs,
            updates=program.updates,
            calls=program.calls,
        )
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        result = pickle.loads(base64.b64decode(self._process.stdout.readline()))
        if isinstance(result, str):
            return Difference("raises", CONFIGURATION.name, result.partition(":")[0], result, "a result")
        found = _Results(program, expectation, result[1])
        return compare(found, result[0])


class _Results:
    """An object with the attributes of a compiled program that `judge.compare` reads."""

    def __init__(self, program, expectation, n_derived):
        self.program, self.expectation, self.n_derived = program, expectation, n_derived
        self.configuration = CONFIGURATION


def _plain_numbers(values):
    return [[v.real, v.imag] if isinstance(v, complex) else v for v in values]
