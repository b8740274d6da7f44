"""Lets every allocation fail in turn: ``python -m theano_ng.tests.allocation_faults``, or ``make faults``.

Each kind of work (`allocation_kinds`) runs twice for each of its allocations. In the first run, only this allocation
fails. In the second run, all later allocations fail, too, as when memory is exhausted. After a failure three things
must hold. Shared variables have either their old values or the values after a complete call. The next call returns the
usual result. No memory and no references leak.

All allocations count: allocations of Python, of NumPy, and of C code (`c_code/failing_malloc.c`).
"""

import argparse
import collections
import faulthandler
import gc
import json
import operator
import os
import pickle
import re
import subprocess
import sys
import sysconfig
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EVERY = 1 << 60
ALONE, ONWARD = "alone", "onward"
TIMEOUT = 60  # time limit in seconds for one position (the number of the allocation that fails)
GROUP = 32  # number of positions that are repeated together
ROUNDS = 6
CONFIRMING = 8  # number of repetitions in a round that confirms a suspected leak
STILL = 2  # number of rounds without growth that disproves a leak
HELD = ("blocks", "references", "thunks", "machines", "functions", "arenas")
REFUSE, GIVE_AT_KNOWN_PLACES, LEARN = range(3)
# The message of CPython when it ends the process because it has no memory to raise an exception.
INTERPRETER = re.compile("Fatal Python error: (?!Segmentation fault|Aborted|Bus error|Floating|Illegal)")


def build(folder):
    """Compile the C code of this test.

    Returns
    -------
    (str, str)
        The path of the library to be preloaded, and the directory of the module.

    Raises
    ------
    OSError, subprocess.CalledProcessError
        If there is no compiler, or if the allocator of the C library cannot be replaced.
    """
    made = []
    for name, flags in (("failing_malloc", []), ("allocation_faults", ["-I" + sysconfig.get_path("include")])):
        made.append(os.path.join(folder, name + ".so"))
        source = os.path.join(HERE, "c_code", name + ".c")
        subprocess.run(
            [os.environ.get("CC", "gcc"), "-O1", "-shared", "-fPIC", *flags, "-o", made[-1], source],
            check=True,
            stderr=subprocess.DEVNULL,
        )
    return made[0], folder


# ---------------------------------------------------------------- in the process whose allocations fail


def same(a, b):
    """Return True if two results are equal: arrays, and lists, tuples and dicts of arrays."""
    import numpy as np

    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(same, a, b))
    if hasattr(a, "get_state"):
        return same(list(a.get_state()), list(b.get_state()))
    if hasattr(a, "toarray"):
        a, b = a.toarray(), b.toarray()
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=not isinstance(a, str))


# If an allocation fails in these functions, CPython 3.11 leaks a reference to the argument. The leaked reference is in
# a cell variable, in a new list, or in a tuple that is being shortened.
LOSING = [
    lambda x: [x for _ in "a"],
    lambda x: list(x),
    lambda x: [*x],
    lambda x: sorted(x),
    lambda x: [].extend(x),
    lambda x: operator.iadd([], x),
    lambda x: tuple(filter(None, (x,))),
]


def learn_places(faults):
    """Find allocations in CPython whose failure leaks a reference; the search for leaks lets these succeed."""
    for example in LOSING:
        argument = (1,)
        for repeated in range(100):  # the last repetition runs the instructions that CPython has specialized
            for n in range(1, 8) if repeated in (0, 99) else ():
                before = sys.getrefcount(argument)
                faults.call(lambda: example(argument), n, False)
                if sys.getrefcount(argument) > before:
                    faults.call(lambda: example(argument), n, False, LEARN)
            example(argument)


class Worker:
    """A process that does one kind of work, and compares the results."""

    def __init__(self, name):
        import allocation_faults

        from theano_ng.gof.compiler.background import wait_for_kernels
        from theano_ng.tests.allocation_kinds import KINDS, PLANTED

        self.faults, self.case = allocation_faults, {**KINDS, **PLANTED}[name]()
        learn_places(self.faults)
        for _ in range(3):
            self.case.do()
            wait_for_kernels(10 * TIMEOUT)
        self.initial, self.surroundings = self.state(), surroundings()
        self.reset()
        self.result = self.case.do()
        self.final = self.state()
        # Call several times, because a call keeps memory for the next call and then allocates less.
        for _ in range(3):
            self.reset()
            self.allocations = self.faults.call(self.case.do, EVERY, False)[0]
        self.known = known_objects()
        gc.freeze()  # later collections skip the existing objects

    def state(self):
        return [variable.get_value() for variable in self.case.shared]

    def reset(self):
        for variable, value in zip(self.case.shared, self.initial):
            variable.set_value(value)

    def position(self, n, mode):
        """Let allocation n of a call fail. Return the outcome as a word, and the description of a fault or None."""
        self.reset()
        _, result, failure = self.faults.call(self.case.do, n, mode == ONWARD)
        outcome = "done" if failure is None else named(failure)
        failure = None
        wrong = self.wrong_after(outcome, result)
        if wrong is None:
            self.reset()
            try:
                again = self.case.do()
            except Exception as error:
                return outcome, "the next call raises %s" % str(error).split("\n")[0]
            if not (same(again, self.result) and same(self.state(), self.final)):
                wrong = "the next call gives something else"
        return outcome, wrong

    def wrong_after(self, outcome, result):
        if surroundings() != self.surroundings:
            return "flags, or thresholds of the collector, are left changed"
        state = self.state()
        if outcome == "done":
            if not same(result, self.result):
                return "another result"
            return None if same(state, self.final) else "an update is lost"
        if not same(state, self.initial):
            return "all updates are made" if same(state, self.final) else "state is torn"
        return None

    def measure(self, row):
        """Fill an array with the numbers of memory blocks, references to known objects, and objects of functions."""
        from theano_ng.gof._native import live_objects
        from theano_ng.gof.compiler.background import wait_for_kernels

        self.reset()
        self.case.do()
        wait_for_kernels(TIMEOUT)
        for _ in range(3):
            self.faults.clear_caches()
            gc.collect()
        row[2:] = list(live_objects().values())
        # Drop the objects that only this list still refers to, because a cache has removed them.
        self.known = [o for o in self.known if sys.getrefcount(o) > 3]
        row[1] = sum(map(sys.getrefcount, self.known)) - 2 * len(self.known)
        row[0] = self.faults.alive()

    def grown(self, positions, mode, times=1):
        """Repeat failures in rounds. Return a dict of the quantities that grew in nearly all rounds.

        A round tries all positions `times` times. A quantity has grown in a round if it increased by more than half of
        `times`. The values of the dict are lists of the increases in each round.
        """
        import numpy as np

        # Allocate all rows before the first measurement, so that they are not counted.
        held, rounds = np.zeros((ROUNDS + 1, len(HELD)), int), 0
        self.measure(held[0])
        while rounds < ROUNDS and sum((np.diff(held[: rounds + 1], axis=0) <= times // 2).all(axis=1)) < STILL:
            rounds += 1
            for n in positions * times:
                self.reset()
                self.case.do()  # so that the failing call makes the same allocations in each round
                self.reset()
                self.faults.call(self.case.do, n, mode == ONWARD, GIVE_AT_KNOWN_PLACES)
            self.measure(held[rounds])
        added = np.diff(held[: rounds + 1], axis=0)
        return {
            what: added[:, i].tolist() for i, what in enumerate(HELD) if sum(added[:, i] > times // 2) > ROUNDS - STILL
        }

    def leaks(self, positions, mode):
        """Return the smallest groups of positions whose failures leak, as pairs (positions, result of `grown`)."""
        if not positions or not self.grown(positions, mode):
            return []
        middle = len(positions) // 2
        found = [leak for half in (positions[:middle], positions[middle:]) if middle for leak in self.leaks(half, mode)]
        if not found:
            # Confirm the leak twice, because caches may grow for a while without any leak.
            grown = self.grown(positions, mode, CONFIRMING) and self.grown(positions, mode, CONFIRMING)
            found = [(positions, grown)] if grown else []
        return found


def named(failure):
    """Return the type of an exception as a string, with the message unless it is a MemoryError."""
    if isinstance(failure, MemoryError):
        return "MemoryError"
    return "%s: %s" % (type(failure).__name__, str(failure).split("\n")[0][:80])


def surroundings():
    """Return the global state that compiling and loading change temporarily: flags and thresholds of the collector."""
    from theano_ng.configparser import flags_in_effect

    return flags_in_effect(), gc.get_threshold()


def known_objects():
    """Return all objects that the collector can find, except those whose reference counts other packages increase at
    each call.

    A generator that Cython compiled takes a reference to its type. In CPython 3.11, Cython 3.3.1 never releases it.
    NumPy 2.4 takes a reference to PickleBuffer when an array is pickled, and never releases it.
    """
    tracked = gc.get_objects()
    known = {id(o): o for held in tracked for o in (held, *gc.get_referents(held))}
    return [o for o in known.values() if type(o).__name__ != "_common_types_metatype" and o is not pickle.PickleBuffer]


def work(name, mode, begin, most, report):
    """Try positions, and write a line of JSON about each position to a file descriptor."""
    worker = Worker(name)
    step = max(1, worker.allocations // most)

    def tell(*record):
        os.write(report, (json.dumps(record) + "\n").encode())

    tell("allocations", worker.allocations, step)
    positions = range(begin, worker.allocations + 1, step)
    for first in range(0, len(positions), GROUP):
        group = list(positions[first : first + GROUP])
        for n in group:
            tell("at", n)
            faulthandler.dump_traceback_later(TIMEOUT, exit=True)
            tell("outcome", n, *worker.position(n, mode))
        faulthandler.dump_traceback_later(10 * TIMEOUT, exit=True)
        for found, grown in worker.leaks(group, mode):
            tell("leak", found, grown)
    faulthandler.cancel_dump_traceback_later()


# ---------------------------------------------------------------- in the parent process


class Count:
    """The outcomes of one kind of work in one mode."""

    def __init__(self):
        self.allocations = self.positions = 0
        self.step = 1
        self.outcomes, self.wrong, self.leaks, self.crashes = collections.Counter(), [], [], []

    def take(self, record):
        word, *rest = record
        if word == "allocations":
            self.allocations, self.step = rest
        elif word == "outcome":
            n, outcome, wrong = rest
            self.positions += 1
            self.outcomes[outcome] += 1
            if wrong:
                self.wrong.append((n, outcome, wrong))
        elif word == "leak":
            self.leaks.append(tuple(rest))


def sweep(name, mode, paths, most=EVERY, first=1):
    """Try all positions of a kind of work, in processes that may crash.

    Parameters
    ----------
    name : str
    mode : str
        `ALONE` or `ONWARD`.
    paths : (str, str)
        The result of `build`.
    most : int
        The approximate maximum number of positions to try. If the work has more, equidistant positions are tried.
    first : int
        The first position.

    Returns
    -------
    Count
    """
    count, begin = Count(), first
    while True:
        at = None
        with tempfile.TemporaryFile() as said:
            reader, writer = os.pipe()
            process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "theano_ng.tests.allocation_faults", "--work", name, mode]
                + [str(begin), str(most), str(writer), paths[1]],
                env={"PYTHONHASHSEED": "0", **os.environ, "LD_PRELOAD": paths[0], "PYTHONMALLOC": "malloc"},
                pass_fds=[writer],
                stderr=said,
            )
            os.close(writer)
            with os.fdopen(reader) as lines:
                for line in lines:
                    record = json.loads(line)
                    if record[0] == "at":
                        at = record[1]
                    count.take(record)
            status = process.wait()
            said.seek(0)
            text = said.read().decode(errors="replace")
        if status == 0:
            return count
        if at is None:
            raise RuntimeError("the process for %s ended before the first position:\n%s" % (name, text[-3000:]))
        count.positions += 1
        if INTERPRETER.search(text):
            count.outcomes["interpreter"] += 1
        else:
            count.outcomes["dead"] += 1
            count.crashes.append((at, status, text[-3000:]))
        begin = at + count.step


HEAD = (
    "kind",
    "fails",
    "allocations",
    "positions",
    "MemoryError",
    "done",
    "other",
    "wrong",
    "interpreter",
    "dead",
    "leaks",
)


def row(name, mode, count):
    """Return a row of the table."""
    others = count.positions - sum(count.outcomes[word] for word in ("MemoryError", "done", "interpreter", "dead"))
    return (name, mode, count.allocations, count.positions, count.outcomes["MemoryError"], count.outcomes["done"], others,
            len(count.wrong), count.outcomes["interpreter"], len(count.crashes), len(count.leaks))  # fmt: skip


def table(rows):
    """Format rows as a table in reStructuredText."""
    lines = [[str(cell) for cell in line] for line in (HEAD, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    rule = "  ".join("=" * width for width in widths)
    head, *body = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    return "\n".join([rule, head, rule, *body, rule, ""])


def main(arguments=None):
    """Run the command."""
    from theano_ng.tests.allocation_kinds import KINDS

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kinds", nargs="*", help="default: all")
    parser.add_argument("--positions", type=int, default=EVERY, help="at most about so many of each kind; default: all")
    parser.add_argument("--first", type=int, default=1, help="the first of these positions; default: 1")
    parser.add_argument("--table", help="write the counts to this file, as a table of reStructuredText")
    options = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        paths = build(folder)
        for name in options.kinds or KINDS:
            for mode in (ALONE, ONWARD):
                count = sweep(name, mode, paths, options.positions, options.first)
                rows.append(row(name, mode, count))
                print(*rows[-1], dict(count.outcomes), sep="  ", flush=True)
                for found in (*count.wrong[:5], *count.leaks[:5]):
                    print("   ", *found)
                for at, status, text in count.crashes[:3]:
                    print("    %d: status %d\n%s" % (at, status, text))
                if options.table:  # write the rows found so far, because a run of all kinds takes long
                    with open(options.table, "w") as file:
                        file.write(table(rows))
    return 1 if any(line[HEAD.index(word)] for line in rows for word in ("wrong", "dead", "leaks")) else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        del os.environ["LD_PRELOAD"], os.environ["PYTHONMALLOC"]  # started compilers must not inherit them
        name, mode, begin, most, report, folder = sys.argv[2:]
        sys.path.insert(0, folder)
        work(name, mode, int(begin), int(most), int(report))
    else:
        sys.exit(main())
