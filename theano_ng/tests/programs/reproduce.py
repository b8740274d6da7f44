"""Judge some programs in a process of their own, with an empty cache: ``python -m theano_ng.tests.programs.reproduce FILE``."""

import os
import pickle
import subprocess
import sys
import tempfile

import numpy as np

from theano_ng.gof.compiler import background
from theano_ng.tests.programs.configurations import CONFIGURATIONS
from theano_ng.tests.programs.judge import Expectation, bits, judged
from theano_ng.tests.programs.reduction import fewer, reduced
from theano_ng.tests.programs.session import Kept

TIMEOUT = 300
PATIENCE = 0.4  # of that of a run: some programs that never end are compiled to find the smallest of them


def difference_of(steps):
    """The Difference of the last of some programs, which are compiled and called one after the other.

    Before the next one is compiled, the kernels of those before are there. All are called again at the end.

    Parameters
    ----------
    steps : list of (Program, str)
        Programs and names of configurations.
    """
    kept, results, found = [], None, None
    for program, name in steps:
        try:
            expectation = Expectation(program)
        except Exception:  # it is no program that could run
            return None
        compiled, results, found = judged(program, CONFIGURATIONS[name], expectation, PATIENCE)
        if results is not None:
            kept.append(Kept(0, compiled, results))
        background.wait_for_kernels(60)
    if found is None and results is not None:
        found = kept[-1].call_again()
    if found is None and results is not None and CONFIGURATIONS[steps[-1][1]].family:
        # The graph out of the cache.
        program, name = steps[-1]
        _, again, found = judged(program, CONFIGURATIONS[name], kept[-1].compiled.expectation)
        if found is None and bits(again) != kept[-1].bits:
            kept[-1].bits = b""
            found = kept[-1].call_again(how="the same graph compiled again")
    return found


def smallest(program, configuration):
    """A small program with the same kind of difference as this one, in this process; a configuration in which it differs, and its difference."""
    first = difference_of([(program, "interpreted")])
    if first is not None:
        configuration = "interpreted"  # no compiler is waited for
    else:
        first = difference_of([(program, configuration)])
    if first is None:
        return program, configuration, None

    def fails(candidate):
        return same(first, difference_of([(candidate, configuration)]))

    program = reduced(program, fails)
    return program, configuration, difference_of([(program, configuration)])


def same(first, second):
    """Whether two differences are of one kind."""
    return second is not None and (first.kind, first.kind == "raises" and first.where) == (
        second.kind,
        second.kind == "raises" and second.where,
    )


def in_new_process(what, argument, timeout=TIMEOUT):
    """``difference_of`` or ``smallest`` in a process of its own with an empty cache; None when it takes too long or dies."""
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
    """The shortest list of small programs found that shows a failure, the last one being that which differs; and its difference.

    Parameters
    ----------
    failure : Failure

    Returns
    -------
    steps : list of (Program, str)
    difference : Difference or None
        None where it was not seen again.
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
