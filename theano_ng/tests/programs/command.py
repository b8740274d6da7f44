"""Run generated programs in this process, with its existing caches. `__main__` starts processes with empty caches."""

import argparse
import gc
import os
import sys
import time

from theano_ng.tests.programs import judge, lengths
from theano_ng.tests.programs.configurations import CONFIGURATIONS
from theano_ng.tests.programs.generator import chapters_of, generate, refused, uncomputed
from theano_ng.tests.programs.original import Original
from theano_ng.tests.programs.reproduce import minimal
from theano_ng.tests.programs.reproducer import text
from theano_ng.tests.programs.session import Session, run


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="python -m theano_ng.tests.programs", description="Run generated programs, and reduce those that differ."
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="of processor time of this process")
    parser.add_argument("--wall", type=float, default=float("inf"), help="the most seconds of the clock on the wall")
    parser.add_argument("--seed", default=None, help="default: a new one, which is printed")
    parser.add_argument("--first", type=int, default=0, help="the first index")
    parser.add_argument(
        "--most", type=int, default=25000, help="programs of one process, which keeps all kernels that it has loaded"
    )
    parser.add_argument(
        "--more", metavar="FILE", help="where the arguments of the next process are written, if time is left"
    )
    parser.add_argument("--only", type=int, default=None, help="judge the program of one index, in all configurations")
    parser.add_argument(
        "--configurations", default=",".join(CONFIGURATIONS), help="those that are drawn from, by commas; default: all"
    )
    parser.add_argument("--reduce", type=int, default=5, help="how many of the failures are reduced")
    parser.add_argument(
        "--original",
        default=os.environ.get("THEANO_ORIGINAL"),
        help="the interpreter of Theano 1.0.5, which a sample runs on",
    )
    return parser.parse_args(argv)


def described(failure):
    return "seed %s, program %d: %s" % (failure.seed, failure.index, failure.difference)


def report(failures, limit):
    """Reduce and print failed programs: one program for each kind of difference and each list of operations."""
    seen, indices, tried = set(), set(), 0
    for failure in failures:
        if failure.index in indices:
            continue
        if len(seen) >= limit or tried >= 3 * limit:
            break
        tried += 1
        steps, difference = minimal(failure)
        if difference is None:
            print("# not seen again alone, nor after the programs before it: " + described(failure))
            continue
        indices.add(failure.index)
        shape = (difference.kind, tuple([tuple([node.operation for node in program.nodes]) for program, _ in steps]))
        if shape in seen:
            continue
        seen.add(shape)
        lines = derivative_lines(steps[-1][0])
        print("# " + "-" * 100)
        print(text(described(failure)[:160], steps, difference, lines))
        sys.stdout.flush()


def derivative_lines(program):
    return judge.Expectation(program).lines if program.resized is None else lengths.derivative_lines(program)


def table(title, counts):
    """Return the lines of a table of counts."""
    width = max([len(str(name)) for name in counts], default=0)
    return [title, *["  %-*s %8d" % (width, name, count) for name, count in sorted(counts.items())]]


def summary(session, started):
    lines = table("programs of chapter", session.chapters) + table("runs in configuration", session.runs)
    lines += ["  %s: not run, %s" % pair for pair in session.unavailable.items()]
    for title, found in (
        ("graphs that were refused", refused),
        ("derivatives that are not defined", judge.undefined),
        ("twins that could not be computed", uncomputed),
    ):
        for key, (count, message) in sorted(found.items(), key=lambda item: -item[1][0]):
            lines.append(
                "  %s: %s %d: %s" % (title, "/".join(key), count, message.splitlines()[0][:120] if message else "")
            )
    rate = session.programs / max(1e-9, time.process_time() - started)
    lines.append(
        "%d programs, %.1f a second of processor time, %d failures" % (session.programs, rate, len(session.failures))
    )
    return "\n".join(lines)


def only(seed, index):
    """Print one program, and judge it in all configurations. Return True if it is correct."""
    program = generate(seed, index)
    if program is None:
        print("nothing came of this index")
        return True
    print("# " + ", ".join(chapters_of(program)))
    session = Session(seed)
    expectation = judge.Expectation(program)
    print(text("seed %s, program %d" % (seed, index), [(program, "interpreted")], "judged below", expectation.lines))
    for name, configuration in CONFIGURATIONS.items():
        difference = judge.judged(program, configuration, expectation)[2]
        print("%-14s %s" % (name, difference or "right"))
        session.failures += [difference] if difference else []
    other = lengths.resized(program, "%s %s" % (seed, index))
    for name in lengths.CONFIGURATIONS_OF_LENGTHS if other is not None else ():
        difference = lengths.judged(other, CONFIGURATIONS[name])
        print("%-14s with other lengths %s: %s" % (name, other.resized, difference or "right"))
        session.failures += [difference] if difference else []
    return not session.failures


def main(argv=None):
    options = parse(argv)
    seed = options.seed if options.seed is not None else str(int.from_bytes(os.urandom(4), "little"))
    if options.only is not None:
        return 0 if only(seed, options.only) else 1
    print("seed %s" % seed)
    started, begun = time.process_time(), time.monotonic()
    original = Original(options.original) if options.original else None
    session = Session(seed, options.configurations.split(","), original)
    gc.set_threshold(
        50000, 20, 100
    )  # with default thresholds, the garbage collector takes a tenth of the time: many functions are deleted
    index = run(
        session,
        options.seconds,
        options.first,
        options.most,
        wall=options.wall,
        report=lambda failure: print(described(failure), flush=True),
    )
    print(summary(session, started), flush=True)
    left = options.seconds - (time.process_time() - started), options.wall - (time.monotonic() - begun)
    if options.more and index - options.first >= options.most and min(left) > 0:
        with open(options.more, "w") as file:
            file.write("--seed %s --first %d --seconds %s --wall %s" % (seed, index, *left))
    for failure in session.differs_from_original:
        print("to be read: " + described(failure))
    report(session.failures, options.reduce)
    if original is not None:
        original.close()
    return 1 if session.failures else 0


if __name__ == "__main__":
    sys.exit(main())
