#!/usr/bin/env python3
"""Measure the speedup of elementwise operations with OpenMP, on vectors of openmp_elemwise_minsize elements.

::

    OMP_NUM_THREADS=2 python theano_ng/misc/elemwise_openmp_speedup.py

The program times a cheap operation and a costly operation, in a process with OpenMP and in a process without OpenMP.
"""

import argparse
import os
import subprocess
import sys


def runScript(N):
    """Time the cheap and the costly operation, in a process with OpenMP and in a process without OpenMP.

    Parameters
    ----------
    N : int
        The number of elements.

    Returns
    -------
    with_openmp, without_openmp : tuples of two floats
        The seconds of the cheap operation, and the seconds of the costly operation.

    Raises
    ------
    RuntimeError
        If a process fails. The message contains its standard error.
    """
    import theano_ng

    results = []
    root = os.path.dirname(os.path.dirname(os.path.abspath(theano_ng.__file__)))
    for openmp in (True, False):
        flags = [
            f
            for f in (
                os.environ.get("THEANO_FLAGS", ""),
                "openmp=%s,openmp_elemwise_minsize=%d" % (openmp, min(N, 1000)),
            )
            if f
        ]
        path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH")) if p)
        done = subprocess.run(
            [sys.executable, "-m", "theano_ng.misc.elemwise_time_test", "--script", "-N", str(N)],
            env=dict(os.environ, THEANO_FLAGS=",".join(flags), PYTHONPATH=path),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError("timing with openmp=%s failed:\n%s" % (openmp, done.stderr))
        results.append(tuple(map(float, done.stdout.split()[-2:])))
    return tuple(results)


def main(argv=None):
    """Run the program with command line arguments; see --help."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("-N", "--N", type=int, default=0, help="number of elements; openmp_elemwise_minsize by default")
    options = parser.parse_args(argv)
    import theano_ng

    N = options.N or theano_ng.config.openmp_elemwise_minsize
    print("Vectors of %d elements, OMP_NUM_THREADS=%s" % (N, os.environ.get("OMP_NUM_THREADS")))
    for name, fast, slow in zip(("cheap", "costly"), *runScript(N)):
        ratio = slow / fast
        print(
            "%s operation: %.3e s with OpenMP, %.3e s without: %s %.2f"
            % (name, fast, slow, "speedup" if ratio >= 1 else "slowdown", ratio if ratio >= 1 else 1 / ratio)
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
