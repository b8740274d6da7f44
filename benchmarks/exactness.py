"""Compare the errors of losses and their derivatives at saturated arguments with the errors of Theano 1.0.

    python benchmarks/exactness.py /path/to/python3.8             # Python code; an interpreter with theano and mpmath
    python benchmarks/exactness.py /path/to/python3.8 c           # C code; plain logits, summed losses, derivatives
    python benchmarks/exactness.py /path/to/python3.8 all erfc    # all cases with this word in their names

The cases come from `theano_ng/tensor/tests/stability.py`, which computes the exact results. The script prints the
results that are worse here than in Theano 1.0, and then ends with exit status 1. A result is worse if it is finite only
in Theano 1.0, or if its error here is more than twice the error in Theano 1.0 and more than two units in the last
place.
"""

import argparse
import importlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(os.path.dirname(HERE), "theano_ng", "tensor", "tests")
ULPS = 2


def table():
    """Import the module `stability` without its package. Return the module and the list of losses."""
    modules = []
    for name in ("stability", "stability_softmax", "stability_elementwise"):
        spec = importlib.util.spec_from_file_location(name, os.path.join(TABLE, name + ".py"))
        modules.append(importlib.util.module_from_spec(spec))
        spec.loader.exec_module(modules[-1])
    stability, *families = modules
    return stability, [loss for family in families for loss in family.losses(stability.Loss)]


def chosen(stability, losses, which):
    """Return the cases that a run tests: some cases, all cases, or the cases for C code."""
    if which == "some":
        return stability.some_cases(losses)
    cases = stability.all_cases(losses)
    if which == "all":
        return cases
    return (
        case
        for case in cases
        if (case.view.name, case.reduction[0], case.mode) == ("plain", "sum", "FAST_RUN")
        and case.computed in ("both", "second")
    )


def answers(package, which, word):
    """Run the cases in one package.

    Return a dict from the name of a case to a list of errors in units in the last place, one for each matrix of logits.
    If the case raises an exception, the dict contains the name of the exception instead.
    """
    theano = importlib.import_module(package)
    importlib.import_module(package + ".tensor.nnet")
    stability, losses = table()
    found = {}
    for case in chosen(stability, losses, which):
        name = stability.described(case)
        if word in name:
            try:
                found[name] = [error for error, _ in stability.compare(theano, case, "cvm" if which == "c" else "py")]
            except Exception as exc:
                found[name] = type(exc).__name__
    return found


def asked(python, package, which, word, directory):
    path = os.path.join(directory, package + ".json")
    flags = "device=cpu,base_compiledir=%s,%s" % (os.path.join(directory, package), "" if which == "c" else "cxx=")
    environment = dict(os.environ, THEANO_FLAGS=flags, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    script = os.path.abspath(__file__)
    command = [python, "-W", "ignore", script, "-", which, word, "--answer", package, path]
    # Discard the standard error, to which Theano 1.0 reports failed rules.
    subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)
    with open(path) as lines:
        return json.load(lines)


def worse(ours, theirs):
    """Yield (case, number of the matrix of logits, error here, error in Theano 1.0) for results that are worse here."""
    for name, errors in ours.items():
        other = theirs[name]
        if isinstance(other, str):
            continue
        if isinstance(errors, str):
            yield name, 0, errors, min(other)
            continue
        for i, (a, b) in enumerate(zip(errors, other)):
            if math.isfinite(b) and a > max(2 * b, ULPS):
                yield name, i, a, b


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs="?")
    parser.add_argument("which", nargs="?", default="some", choices=("some", "all", "c"))
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--answer", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.answer:
        package, path = arguments.answer
        with open(path, "w") as out:
            json.dump(answers(package, arguments.which, arguments.word), out)
        return
    if not arguments.python:
        parser.error("the interpreter of Theano 1.0 is missing")
    with tempfile.TemporaryDirectory() as directory:
        ours, theirs = (
            asked(python, package, arguments.which, arguments.word, directory)
            for python, package in ((sys.executable, "theano_ng"), (arguments.python, "theano"))
        )
    compared = [
        (e, t)
        for n, es in ours.items()
        if not isinstance(es, str) and not isinstance(theirs[n], str)
        for e, t in zip(es, theirs[n])
    ]
    print("%d results compared" % len(compared))
    print(
        "results that are not finite: %d here, %d in Theano 1.0"
        % tuple(sum(not math.isfinite(p[i]) for p in compared) for i in (0, 1))
    )
    ratios = [(e, t) for e, t in compared if math.isfinite(e) and math.isfinite(t)]
    less, more = (sum(p[i] > max(2 * p[1 - i], ULPS) for p in ratios) for i in (0, 1))
    print("results finite in both: less accurate here in %d, in Theano 1.0 in %d of %d; largest errors %.0f and %.3g "
          "units" % (
        less, more, len(ratios), max(e for e, _ in ratios), max(t for _, t in ratios)))  # fmt: skip
    rows = list(worse(ours, theirs))
    for row in rows:
        print("%s, logits %d: %s here, %s there" % row)
    sys.exit(bool(rows))


if __name__ == "__main__":
    main()
