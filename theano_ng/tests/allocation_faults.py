"""Memory runs out everywhere, in turn: ``python -m theano_ng.tests.allocation_faults``, or ``make faults``.

Each kind of work (`allocation_kinds`) is done once for each of its allocations, which fails: that one alone, and then that one and all behind
it, as where memory is really at its limit. Whatever happens, shared variables are as they were or as a complete call leaves them, the same work
then gives what it gives otherwise, and nothing stays behind. All allocations count: those of Python, of NumPy, and of C code (`c_code/failing_malloc.c`).
"""

import argparse
import collections
import faulthandler
import gc
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EVERY = 1 << 60
ALONE, ONWARD = "alone", "onward"
PATIENCE = 60  # seconds for one position
LAST = 30  # positions that are repeated
REPEATED = 300  # failures in a round
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


class Worker:
    """Does the work of one kind, and compares."""

    def __init__(self, name):
        import allocation_faults

        from theano_ng.gof.compiler.background import wait_for_kernels
        from theano_ng.tests.allocation_kinds import KINDS

        self.faults, self.case = allocation_faults, KINDS[name]()
        for _ in range(3):
            self.case.do()
            wait_for_kernels(60)
        self.initial = self.state()
        self.reset()
        self.result = self.case.do()
        self.final = self.state()
        # more than one, as memory is kept for the next one
        for _ in range(3):
            self.reset()
            self.allocations = self.faults.call(self.case.do, EVERY, False)[0]

    def state(self):
        return [variable.get_value() for variable in self.case.shared]

    def reset(self):
        for variable, value in zip(self.case.shared, self.initial):
            variable.set_value(value)

    def position(self, n, mode):
        """One failing call; what came of it, as a word, and what is wrong, or None."""
        self.reset()
        _, result, failure = self.faults.call(self.case.do, n, mode == ONWARD)
        outcome = "done" if failure is None else type(failure).__name__
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
        state = self.state()
        if outcome == "done":
            if not same(result, self.result):
                return "another result"
            return None if same(state, self.final) else "an update is lost"
        if not same(state, self.initial):
            return "all updates are made" if same(state, self.final) else "state is torn"
        return None

    def blocks(self):
        """How many blocks of memory there are, and what compiled functions have."""
        from theano_ng.gof._native import live_objects

        self.reset()
        self.case.do()
        for _ in range(3):
            gc.collect()
        return self.faults.alive(), live_objects()


def work(name, mode, begin, most, report):
    """Try positions, and write a line of JSON about each to a file descriptor."""
    worker = Worker(name)
    step = max(1, worker.allocations // most)

    def tell(*record):
        os.write(report, (json.dumps(record) + "\n").encode())

    tell("allocations", worker.allocations, step)
    positions = range(begin, worker.allocations + 1, step)
    for n in positions:
        tell("at", n)
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        tell("outcome", n, *worker.position(n, mode))
    # Caches fill while positions are repeated, ever slower; a leak is there in each round.
    repeated = list(positions[-LAST:])
    growth, rounds = REPEATED, 0
    while repeated and growth > REPEATED // 4 and rounds < 8:
        faulthandler.dump_traceback_later(10 * PATIENCE, exit=True)
        before = worker.blocks()
        for n in repeated * (-(-REPEATED // len(repeated))):
            worker.position(n, mode)
        after = worker.blocks()
        growth, rounds = min(growth, after[0] - before[0]), rounds + 1
        if after[1] != before[1]:
            tell("left", before[1], after[1])
    if repeated:
        tell("growth", growth, REPEATED)
    faulthandler.cancel_dump_traceback_later()


# ---------------------------------------------------------------- in the process that watches


class Count:
    """What came of one kind in one mode."""

    def __init__(self):
        self.allocations = self.positions = self.growth = self.grown_over = 0
        self.step = 1
        self.outcomes, self.wrong, self.crashes = collections.Counter(), [], []

    def grown_by(self):
        """Blocks of memory for each failure."""
        return self.growth / self.grown_over if self.grown_over else 0.0

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
        elif word == "growth":
            self.growth, self.grown_over = rest
        elif word == "left":
            self.wrong.append((0, "", "compiled objects are left: %s, then %s" % tuple(rest)))


def sweep(name, mode, paths, most=EVERY):
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

    Returns
    -------
    Count
    """
    count, begin = Count(), 1
    while True:
        at = None
        with tempfile.TemporaryFile() as said:
            reader, writer = os.pipe()
            process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "theano_ng.tests.allocation_faults", "--work", name, mode]
                + [str(begin), str(most), str(writer), paths[1]],
                env=dict(os.environ, LD_PRELOAD=paths[0], PYTHONMALLOC="malloc"),
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
    "blocks / failure",
)


def row(name, mode, count):
    """The line of a table."""
    others = count.positions - sum(count.outcomes[word] for word in ("MemoryError", "done", "interpreter", "dead"))
    growth = "%.3f" % count.grown_by() if count.grown_over else "-"
    return (name, mode, count.allocations, count.positions, count.outcomes["MemoryError"], count.outcomes["done"], others,
            len(count.wrong), count.outcomes["interpreter"], len(count.crashes), growth)  # fmt: skip


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
    parser.add_argument("--table", help="write the counts to this file, as a table of reStructuredText")
    options = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        paths = build(folder)
        for name in options.kinds or KINDS:
            for mode in (ALONE, ONWARD):
                count = sweep(name, mode, paths, options.positions)
                rows.append(row(name, mode, count))
                print(*rows[-1], dict(count.outcomes), sep="  ", flush=True)
                for wrong in count.wrong[:5]:
                    print("   ", wrong)
                for at, status, text in count.crashes[:3]:
                    print("    %d: status %d\n%s" % (at, status, text))
                if options.table:  # so far: all of it takes long
                    with open(options.table, "w") as file:
                        file.write(table(rows))
    return 1 if any(line[HEAD.index("wrong")] or line[HEAD.index("dead")] for line in rows) else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        del os.environ["LD_PRELOAD"], os.environ["PYTHONMALLOC"]  # of compilers that are started
        name, mode, begin, most, report, folder = sys.argv[2:]
        sys.path.insert(0, folder)
        work(name, mode, int(begin), int(most), int(report))
    else:
        sys.exit(main())
