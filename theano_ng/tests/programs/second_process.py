"""Compiles and calls programs again that another process has run. Uses the cache of that process.

Usage: ``python -m theano_ng.tests.programs.second_process FILE``.
"""

import json
import pickle
import sys

import numpy as np

from theano_ng.tests.programs.configurations import CONFIGURATIONS
from theano_ng.tests.programs.generator import generate
from theano_ng.tests.programs.judge import Expectation, bits, judged


def differences(seed, wanted):
    """Return (index, configuration, description) of each program that is wrong or does not return the expected bits."""
    found = []
    for index, name, expected in wanted:
        program = generate(seed, index)
        _, results, difference = judged(program, CONFIGURATIONS[name], Expectation(program))
        if difference is not None:
            found.append((index, name, str(difference)))
        elif bits(results) != expected:
            found.append((index, name, "other bits"))
    return found


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as stream:
        run_seed, run_wanted = pickle.load(stream)
    with np.errstate(all="ignore"):
        print(json.dumps(differences(run_seed, run_wanted)))
