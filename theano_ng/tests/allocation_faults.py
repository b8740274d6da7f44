"""Memory runs out everywhere, in turn: ``python -m theano_ng.tests.allocation_faults``, or ``make faults``.

Each kind of work (`allocation_kinds`) is done once for each of its allocations, which fails: that one alone, and then that one and all behind
it, as where memory is really at its limit. Whatever happens, shared variables are as they were or as a complete call leaves them, the same work
then gives what it gives otherwise, and nothing stays behind: no block of memory, and no reference to what was there before.
All allocations count: those of Python, of NumPy, and of C code (`c_code/failing_malloc.c`).
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
PATIENCE = 60  # seconds for one position
GROUP = 32  # positions that are repeated together
ROUNDS = 6
CONFIRMING = 8  # times that a round repeats what seems to leave something
STILL = 2  # rounds in which nothing may be left
HELD = ("blocks", "references", "thunks", "machines", "functions", "arenas")
REFUSE, GIVE_AT_KNOWN_PLACES, LEARN = range(3)
# What CPython says when it ends the process because it has no memory to raise an exception.
INTERPRETER = re.compile("Fatal Python error: (?!Segmentation fault|Aborted|Bus error|Floating|Illegal)")


def build(folder):
    """Compile the C code of this test.

    Returns
    -------
    (str, str)
        The library to be preloaded, and the directory of the module.

    Raises
    ------
    OSError, subprocess.CalledProcessError
        Where there is no compiler, or no C library that lets its allocator be replaced.
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
    """Whether two results are equal to the last bit: arrays, and lists, tuples and dicts of them."""
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


# CPython 3.11 loses its reference to the argument where memory fails in these: that of a cell, that of the list, and that of the tuple that
# becomes shorter.
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
    """Find the allocations of CPython itself that leave a reference when they fail: memory is given to them while leaks are looked for."""
    for example in LOSING:
        argument = (1,)
        for repeated in range(100):  # at last by the instructions that CPython puts in for these types
            for n in range(1, 8) if repeated in (0, 99) else ():
                before = sys.getrefcount(argument)
                faults.call(lambda: example(argument), n, False)
                if sys.getrefcount(argument) > before:
                    faults.call(lambda: example(argument), n, False, LEARN)
            example(argument)


class Worker:
    """Does the work of one kind, and compares."""

    def __init__(self, name):
        import allocation_faults

        from theano_ng.gof.compiler.background import wait_for_kernels
        from theano_ng.tests.allocation_kinds import KINDS, PLANTED

        self.faults, self.case = allocation_faults, {**KINDS, **PLANTED}[name]()
        learn_places(self.faults)
        for _ in range(3):
            self.case.do()
            wait_for_kernels(10 * PATIENCE)
        self.initial, self.surroundings = self.state(), surroundings()
        self.reset()
        self.result = self.case.do()
        self.final = self.state()
        # more than one, as memory is kept for the next one
        for _ in range(3):
            self.reset()
            self.allocations = self.faults.call(self.case.do, EVERY, False)[0]
        self.known = known_objects()
        gc.freeze()  # what is there is not looked at again by each collection

    def state(self):
        return [variable.get_value() for variable in self.case.shared]

    def reset(self):
        for variable, value in zip(self.case.shared, self.initial):
            variable.set_value(value)

    def position(self, n, mode):
        """One failing call; what came of it, as a word, and what is wrong, or None."""
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
        """Fill an array with what there is: of blocks of memory, references to objects that were there before, and objects of compiled functions."""
        from theano_ng.gof._native import live_objects
        from theano_ng.gof.compiler.background import wait_for_kernels

        self.reset()
        self.case.do()
        wait_for_kernels(PATIENCE)
        for _ in range(3):
            self.faults.clear_caches()
            gc.collect()
        row[2:] = list(live_objects().values())
        # What a cache has thrown away meanwhile is held by this list alone.
        self.known = [o for o in self.known if sys.getrefcount(o) > 3]
        row[1] = sum(map(sys.getrefcount, self.known)) - 2 * len(self.known)
        row[0] = self.faults.alive()

    def grown(self, positions, mode, times=1):
        """Repeat failures in rounds; what grew in nearly all of them, with what each of them added: a dict of lists.

        A round tries all positions so many times. It has grown when more than every other time something was added.
        """
        import numpy as np

        # rows that are there before the first is measured
        held, rounds = np.zeros((ROUNDS + 1, len(HELD)), int), 0
        self.measure(held[0])
        while rounds < ROUNDS and sum((np.diff(held[: rounds + 1], axis=0) <= times // 2).all(axis=1)) < STILL:
            rounds += 1
            for n in positions * times:
                self.reset()
                self.case.do()  # so that the next call allocates as it did before
                self.reset()
                self.faults.call(self.case.do, n, mode == ONWARD, GIVE_AT_KNOWN_PLACES)
            self.measure(held[rounds])
        added = np.diff(held[: rounds + 1], axis=0)
        return {
            what: added[:, i].tolist() for i, what in enumerate(HELD) if sum(added[:, i] > times // 2) > ROUNDS - STILL
        }

    def leaks(self, positions, mode):
        """The smallest groups of positions, failures at which leave something each time: a list of pairs, positions and what `grown` says."""
        if not positions or not self.grown(positions, mode):
            return []
        middle = len(positions) // 2
        found = [leak for half in (positions[:middle], positions[middle:]) if middle for leak in self.leaks(half, mode)]
        if not found:
            # Caches fill for a while, whatever is repeated.
            grown = self.grown(positions, mode, CONFIRMING) and self.grown(positions, mode, CONFIRMING)
            found = [(positions, grown)] if grown else []
        return found


def named(failure):
    """An exception as a word: its type, and what others than MemoryError say."""
    if isinstance(failure, MemoryError):
        return "MemoryError"
    return "%s: %s" % (type(failure).__name__, str(failure).split("\n")[0][:80])


def surroundings():
    """What compiling and loading change for a while."""
    from theano_ng.configparser import flags_in_effect

    return flags_in_effect(), gc.get_threshold()


def known_objects():
    """All objects that there are, each once, as far as the collector can find them, but those to which others add a reference at each call.

    A generator that Cython compiled takes a reference to its type. In CPython 3.11, Cython 3.3.1 never gives it back. NumPy 2.4 never gives back
    the one to PickleBuffer that it takes when an array is pickled.
    """
    tracked = gc.get_objects()
    known = {id(o): o for held in tracked for o in (held, *gc.get_referents(held))}
    return [o for o in known.values() if type(o).__name__ != "_common_types_metatype" and o is not pickle.PickleBuffer]


def work(name, mode, begin, most, report):
    """Try positions, and write a line of JSON about each to a file descriptor."""
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
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            tell("outcome", n, *worker.position(n, mode))
        faulthandler.dump_traceback_later(10 * PATIENCE, exit=True)
        for found, grown in worker.leaks(group, mode):
            tell("leak", found, grown)
    faulthandler.cancel_dump_traceback_later()


# ---------------------------------------------------------------- in the process that watches


class Count:
    """What came of one kind in one mode."""

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
    """All positions of a kind, in processes that may die.

    Parameters
    ----------
    name : str
    mode : str
        `ALONE` or `ONWARD`.
    paths : (str, str)
        From `build`.
    most : int
        About so many positions, at equal distances, where there are more.
    first : int
        The first of them.

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
            raise RuntimeError("%s cannot be done at all:\n%s" % (name, text[-3000:]))
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
    """The line of a table."""
    others = count.positions - sum(count.outcomes[word] for word in ("MemoryError", "done", "interpreter", "dead"))
    return (name, mode, count.allocations, count.positions, count.outcomes["MemoryError"], count.outcomes["done"], others,
            len(count.wrong), count.outcomes["interpreter"], len(count.crashes), len(count.leaks))  # fmt: skip


def table(rows):
    """Rows as a table of reStructuredText."""
    lines = [[str(cell) for cell in line] for line in (HEAD, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    rule = "  ".join("=" * width for width in widths)
    head, *body = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    return "\n".join([rule, head, rule, *body, rule, ""])


def main(arguments=None):
    """The command."""
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
                if options.table:  # so far: all of it takes long
                    with open(options.table, "w") as file:
                        file.write(table(rows))
    return 1 if any(line[HEAD.index(word)] for line in rows for word in ("wrong", "dead", "leaks")) else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        del os.environ["LD_PRELOAD"], os.environ["PYTHONMALLOC"]  # of compilers that are started
        name, mode, begin, most, report, folder = sys.argv[2:]
        sys.path.insert(0, folder)
        work(name, mode, int(begin), int(most), int(report))
    else:
        sys.exit(main())
