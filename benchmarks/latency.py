"""Waiting times of a user: the import, and the time until a function is ready, with an empty and a filled cache.

    python benchmarks/latency.py

The times are CPU seconds, with compilers included. A function is ready after building its graph, compiling it and
calling it once. Each figure is the median over new processes. The import is compared with the import of NumPy, which it
includes. The time until a function is ready is compared with the time that the compiler takes for one small file.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import measure

ROUNDS = 3
PROGRAMS = ("x + 1", "logistic regression 784-10", "MLP 784-500-10")


def child(what):
    """Run one measurement in a new process and print its time in seconds."""
    start = measure.cpu_seconds()
    if what == "import numpy":
        import numpy  # noqa: F401, measures its import

        print(json.dumps(measure.cpu_seconds() - start))
        return
    import theano_ng as theano
    import theano_ng.tensor as T

    if what == "import":
        print(json.dumps(measure.cpu_seconds() - start))
        return
    if what == "x + 1":
        start = measure.cpu_seconds()
        x = T.dscalar("x")
        theano.function([x], x + 1)(1.0)
    else:
        import models

        inputs, labels, _ = models.data(what)
        start = measure.cpu_seconds()
        step, _ = models.compiled_step(what)
        step(inputs, labels)
    print(json.dumps(measure.cpu_seconds() - start))


def seconds(what, cache):
    """Return the time in seconds that a new process with this cache folder measures."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    flags = ",".join(filter(None, [os.environ.get("THEANO_FLAGS"), "base_compiledir=" + cache]))
    environment = dict(
        os.environ, THEANO_FLAGS=flags, PYTHONPATH=os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    )
    out = subprocess.run(
        [sys.executable, os.path.abspath(__file__), "--child", what],
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(out.stdout.splitlines()[-1])


def compiler_seconds(folder):
    """Return the CPU seconds of one compiler call on a small loop, with the flags of a kernel."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    source = os.path.join(folder, "loop.c")
    with open(source, "w") as file:
        file.write("void f(long n, const double *x, double *y) { for (long i = 0; i < n; i++) y[i] = x[i] + 1; }\n")
    start = measure.cpu_seconds()
    subprocess.run(
        [compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", os.path.join(folder, "loop.so"), source],
        check=True,
    )
    return measure.cpu_seconds() - start


def main():
    with tempfile.TemporaryDirectory() as folder:
        numpy = statistics.median(seconds("import numpy", folder) for _ in range(ROUNDS))
        package = statistics.median(seconds("import", folder) for _ in range(ROUNDS))
        compilers = [compiler_seconds(folder) for _ in range(ROUNDS)]
    unit = statistics.median(compilers) if None not in compilers else None
    table = measure.Table("Latency, CPU seconds", "", "time", "ratio", "to")
    table.row("import numpy", measure.show_time(numpy), "1.00", "")
    table.row(
        "import theano_ng and its tensor",
        measure.show_time(package),
        measure.show_ratio(package / numpy),
        "import numpy",
    )
    if unit:
        table.row("one compiler call", measure.show_time(unit), "1.00", "")
    for program in PROGRAMS:
        times = {"cold": [], "warm": []}
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory() as cache:
                times["cold"].append(seconds(program, cache))
                times["warm"].append(seconds(program, cache))
        for state, name in (("cold", "empty cache"), ("warm", "filled cache")):
            value = statistics.median(times[state])
            table.row(
                "%s ready, %s" % (program, name),
                measure.show_time(value),
                measure.show_ratio(value / unit) if unit else "",
                "one compiler call" if unit else "",
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2])
    else:
        main()
