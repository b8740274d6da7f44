"""Run the benchmarks, each in a separate process, and print Markdown.

python benchmarks/run.py [latency] [calls] ...
"""

import argparse
import os
import platform
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BENCHMARKS = ("latency", "calls", "ifelse", "elemwise", "random_numbers", "training", "sparse", "scaling", "pickling")


def machine():
    """Return a line that describes the machine and the versions of Python and NumPy."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass
    import numpy

    return "%s, %s, Python %s, NumPy %s, one thread" % (
        model,
        platform.system(),
        platform.python_version(),
        numpy.__version__,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("benchmarks", nargs="*", metavar="NAME", help="of " + ", ".join(BENCHMARKS) + " (default: all)")
    names = parser.parse_args().benchmarks or BENCHMARKS
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        parser.error("there is no benchmark %s; the benchmarks are %s" % (", ".join(unknown), ", ".join(BENCHMARKS)))
    path = os.pathsep.join(filter(None, [os.path.dirname(HERE), os.environ.get("PYTHONPATH")]))
    threads = {name + "_NUM_THREADS": "1" for name in ("OPENBLAS", "MKL", "BLIS", "OMP")}
    print(machine(), flush=True)
    failed = [
        name
        for name in names
        if subprocess.run(
            [sys.executable, os.path.join(HERE, name + ".py")], env=dict(os.environ, PYTHONPATH=path, **threads)
        ).returncode
    ]
    if failed:
        print("\nFAILED: %s" % ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
