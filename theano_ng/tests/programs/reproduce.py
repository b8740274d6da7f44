"""Judges programs in a separate process with an empty cache: ``python -m theano_ng.tests.programs.reproduce FILE``."""

import os
import pickle
import subprocess
import sys
import tempfile

import numpy as np

from theano_ng.gof.compiler import background
from theano_ng.tests.programs import lengths
from theano_ng.tests.programs.configurations import CONFIGURATIONS
from theano_ng.tests.programs.judge import Expectation, bits, judged
from theano_ng.tests.programs.reduction import fewer, reduced
from theano_ng.tests.programs.session import Kept

TIMEOUT = 300
# The fraction of the time limit that a program may take. It is small, because the reduction of a program that never
# ends runs into the time limit many times.
PATIENCE = 0.4


def difference_of(steps):
    """Compile and call programs one after another. Return the Difference of the last program, or None if it is correct.

    Wait for the kernels of a program before the next program is compiled. At the end, call the last program again, with
    its kernels.

    Parameters
    ----------
    steps : list of (Program, str)
        Programs and names of configurations.
    """
    kept, results, found = [], None, None
    for program, name in steps:
        if program.resized is not None:
            results, found = None, lengths.judged(program, CONFIGURATIONS[name], PATIENCE)
            continue
        try:
            expectation = Expectation(program)
        except Exception:  # the program cannot run
            return None
        compiled, results, found = judged(program, CONFIGURATIONS[name], expectation, PATIENCE)
        if results is not None:
            kept.append(Kept(0, compiled, results))
        background.wait_for_kernels(60)
    if found is None and results is not None:
        found = kept[-1].call_again()
    if found is None and results is not None and CONFIGURATIONS[steps[-1][1]].family:
        # Compile the graph again. This time, it comes from the cache.
        program, name = steps[-1]
        _, again, found = judged(program, CONFIGURATIONS[name], kept[-1].compiled.expectation)
        if found is None and bits(again) != kept[-1].bits:
            kept[-1].bits = b""
            found = kept[-1].call_again(how="the same graph compiled again")
    return found


def smallest(program, configuration):
    """Reduce a program in this process to a small program with the same kind of difference.

    Return the small program, a configuration in which it differs, and its Difference. The Difference is None if the
    failure was not reproduced.
    """
    first = difference_of([(program, "interpreted")])
    if first is not None:
        configuration = "interpreted"  # reduce in this configuration, which does not wait for a compiler
    else:
        first = difference_of([(program, configuration)])
    if first is None:
        return program, configuration, None

    def fails(candidate):
        return same(first, difference_of([(candidate, configuration)]))

    program = reduced(program, fails)
    return program, configuration, difference_of([(program, configuration)])


def same(first, second):
    """Return True if two differences are of the same kind."""
    return second is not None and (first.kind, first.kind == "raises" and first.where) == (
        second.kind,
        second.kind == "raises" and second.where,
    )


def in_new_process(what, argument, timeout=TIMEOUT):
    """Run ``difference_of`` or ``smallest`` in a new process with an empty cache, and return the result.

    Return None if the process hangs or crashes.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = os.path.join(folder, "argument.pkl")
        with open(path, "wb") as file:
            pickle.dump((what, argument), file)
        environment = dict(os.environ, THEANO_FLAGS="base_compiledir=" + os.path.join(folder, "cache"))
        try:
            done = subprocess.run(
                [sys.executable, "-m", "theano_ng.tests.programs.reproduce", path],
                capture_output=True,
                env=environment,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            return None
        if done.returncode:
            return None
        with open(path + ".result", "rb") as file:
            return pickle.load(file)


def minimal(failure):
    """Return a short list of small programs that shows a failure, and the Difference of the last program of the list.

    Parameters
    ----------
    failure : Failure

    Returns
    -------
    steps : list of (Program, str)
    difference : Difference or None
        None if the failure was not reproduced.
    """
    name = failure.difference.configuration
    alone = in_new_process("smallest", (failure.program, name))
    if alone is not None and alone[2] is not None:
        return [alone[:2]], alone[2]
    steps = [*failure.programs_before(), (failure.program, name)]

    def fails(some):
        found = in_new_process("difference_of", some)
        return found is not None and found.kind in ("numbers", "bits", "derivative")

    for count in (40, len(steps)):
        some = steps[-count:]
        if fails(some):
            some = fewer(some, fails)
            for k, (program, configuration) in enumerate(some if len(some) < 4 else ()):
                before, after = some[:k], some[k + 1 :]
                small = reduced(program, lambda one: fails([*before, (one, configuration), *after]), budget=25)
                some = [*before, (small, configuration), *after]
            return some, in_new_process("difference_of", some)
    return steps[-1:], None


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as stream:
        asked, value = pickle.load(stream)
    with np.errstate(all="ignore"):
        result = smallest(*value) if asked == "smallest" else difference_of(value)
    with open(sys.argv[1] + ".result", "wb") as stream:
        pickle.dump(result, stream)
