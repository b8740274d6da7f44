"""The common part of the benchmarks: limits to one thread, time measurement, tables.

Import this module before NumPy. It limits threads by environment variables, which BLAS libraries read when they are
loaded.
"""

import os
import resource
import time

for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[_name] = "1"
if hasattr(os, "sched_setaffinity"):
    # Bind this process to one CPU. Child processes, including compilers, inherit this setting. The process number
    # selects the CPU, so that two benchmarks that run at the same time usually get different CPUs.
    _cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {_cpus[os.getpid() % len(_cpus)]})


def cpu_seconds():
    """Return the CPU time of this process and of the children that it has waited for, such as compilers."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _batch(function, repeats, clock):
    start = clock()
    for _ in range(repeats):
        function()
    return (clock() - start) / repeats


def best(*functions, seconds=0.4, rounds=9, clock=time.perf_counter):
    """Return the shortest time of a call of each function, in seconds.

    The functions take turns, so that other work on the machine affects all functions, and the ratios of their times
    stay right.

    Parameters
    ----------
    *functions : callables without arguments
    seconds : float
        Time to spend on each function.
    rounds : int
        Number of batches into which this time is divided.
    clock : callable
        The clock. `time.process_time` does not count the time of other processes.

    Returns
    -------
    list of float
    """
    repeats = []
    for function in functions:
        function()
        once = min(_batch(function, 1, clock), _batch(function, 3, clock))
        repeats.append(max(1, int(seconds / rounds / max(once, 1e-8))))
    shortest = [float("inf")] * len(functions)
    for _ in range(rounds):
        for i, function in enumerate(functions):
            shortest[i] = min(shortest[i], _batch(function, repeats[i], clock))
    return shortest


def show_time(seconds):
    """Return a time as text, with three digits and its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return "%.3g %s" % (seconds / size, unit)
    return "%.3g ns" % (seconds / 1e-9)


def show_ratio(value):
    return "%.2f" % value


class Table:
    """A Markdown table that is printed row by row."""

    def __init__(self, title, *columns):
        print("\n### %s\n\n| %s |\n|%s" % (title, " | ".join(columns), "---|" * len(columns)), flush=True)

    def row(self, *cells):
        print("| %s |" % " | ".join(cells), flush=True)
