"""The command theano_ng-nose. It runs tests with nose2, several files at a time, and ends with the line
``N passed, N failed, N skipped``.

Temporary files of tests are written to a folder. The folder is removed at the end, unless tests failed. A parent
process passes test files to worker processes, one file after another. A worker that crashes counts as one failure of
its file, and is replaced.
"""

import argparse
import contextlib
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from theano_ng import extras
from theano_ng.commands import command
from theano_ng.status_line import StatusLine

SLOW_SECONDS = 1.0  # faster files and tests are not listed among the slowest ones
SLOWEST = 5  # maximum number of listed files and tests

USAGE = """theano_ng-nose [options] [what ...]

what:
  (nothing)                 all tests below the current folder
  folder                    all tests below it
  file.py                   one file
  file.py:Class             one test class
  file.py:Class.method      one test
  package.module            by dotted name
"""


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="theano_ng-nose", usage=USAGE, description="Run tests with nose2, in parallel."
    )
    parser.add_argument("what", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--theano", action="store_true", help="run the tests of the package itself")
    parser.add_argument(
        "--processes",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="number of worker processes (default: number of CPUs)",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="print the output of passing files too")
    parser.add_argument("-x", "--stop", action="store_true", help="stop after the first file with a failure")
    parser.add_argument(
        "--seconds",
        type=float,
        default=None,
        metavar="N",
        help="start no further file after this time; those left out are named at the end",
    )
    parser.add_argument(
        "--cpu-seconds",
        type=float,
        default=None,
        metavar="N",
        help="the same for the processor time of all tests together, whatever else the machine does",
    )
    parser.add_argument(
        "--except",
        dest="left_out",
        action="append",
        default=[],
        metavar="PATH=REASON",
        help="leave out a file or folder; the reason is printed",
    )
    parser.add_argument("-k", metavar="TEXT", default=None, help="only tests whose name contains TEXT")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def package_root():
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def is_test_file(name):
    return name.startswith("test_") and name.endswith(".py")


def test_files(folder):
    """Return all test files below a folder, in a fixed order."""
    found = []
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "_")) and f not in ("build", "dist"))
        found.extend(os.path.join(root, name) for name in sorted(files) if is_test_file(name))
    return found


def top_level(path):
    """Return the folder that must be on the import path for a file: the parent of its outermost package."""
    folder = os.path.dirname(os.path.abspath(path))
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
    return folder


def targets(options):
    """Return the requested tests as pairs (folder on the import path, dotted name).

    Raises
    ------
    SystemExit
        If a requested file or folder does not exist, or a folder has no tests.
    """
    asked = list(options.what)
    if options.theano:
        asked.append(package_root())
    if not asked:
        asked = ["."]
    found = []
    for what in asked:
        path, _, inner = what.partition(":")
        if os.path.isdir(path):
            files = test_files(path)
            if not files:
                raise SystemExit("theano_ng-nose: there are no tests (test_*.py) in %s" % os.path.abspath(path))
        elif os.path.isfile(path):
            files = [path]
        elif path.endswith(".py") or os.sep in path:
            raise SystemExit("theano_ng-nose: there is no file or folder %s" % path)
        else:
            found.append((os.getcwd(), path + ("." + inner if inner else "")))
            continue
        for name in files:
            top = top_level(name)
            dotted = os.path.relpath(os.path.abspath(name), top)[:-3].replace(os.sep, ".")
            found.append((top, dotted + ("." + inner if inner else "")))
    for asked in options.left_out:
        found = leave_out(found, asked)
    return found


def leave_out(found, asked):
    """Return the targets in `found` that are not below a path. Print the reason.

    The argument `asked` has the form ``PATH=REASON``.

    Raises
    ------
    SystemExit
        If the path does not exist or the reason is missing.
    """
    path, _, reason = asked.partition("=")
    if not reason or not os.path.exists(path):
        raise SystemExit(
            "theano_ng-nose: --except takes PATH=REASON, with a file or folder that exists; not %r" % asked
        )
    top = top_level(os.path.join(path, "") if os.path.isdir(path) else path)
    name = os.path.relpath(os.path.abspath(path), top).replace(os.sep, ".")
    name = name[:-3] if name.endswith(".py") else name
    left = [target for target in found if not (target[1] + ".").startswith(name + ".")]
    print("left out %s (%d): %s" % (path, len(found) - len(left), reason), flush=True)
    return left


def run_target(top, name, only):
    """Run one target in this process; return counts, reasons of skips, slow tests and nose2's report."""
    import io
    from contextlib import redirect_stderr, redirect_stdout

    from nose2.main import PluggableTestProgram

    report = io.StringIO()
    argv = ["nose2", "-s", top, "-t", top, "--config", os.devnull]
    if top not in sys.path:
        sys.path.insert(0, top)
    from theano_ng.tests.nose_plugin import OutcomeCounter

    OutcomeCounter.only = only
    if name.partition(".")[0] == "theano_ng":
        _let_rules_raise()
    else:
        _let_debugmode_search()
    record = _recorded_implementations(name.partition(".")[0] != "theano_ng")
    with redirect_stdout(report), redirect_stderr(report), record as never_in_python:
        program = PluggableTestProgram(
            module=None, argv=argv + [name], exit=False, plugins=["theano_ng.tests.nose_plugin"]
        )
    outcomes = program.session.theano_ng_outcomes
    slow = sorted((one for one in outcomes.seconds if one[0] >= SLOW_SECONDS), reverse=True)[:SLOWEST]
    return {
        "counts": outcomes.counts,
        "skipped": outcomes.skipped,
        "slow": slow,
        "report": report.getvalue(),
        "never_in_python": never_in_python,
    }


@contextlib.contextmanager
def _recorded_implementations(wanted):
    """Yield a list that contains, after the context, descriptions of the Ops whose `perform` never ran, only their C code.

    Ops of this package are left out. In the default modes, only the C code of an Op runs, so that tests do not notice an
    error in its `perform`. If `wanted` is False, nothing is recorded.
    """
    from theano_ng.gof.op import base, has_c_implementation, has_perform
    from theano_ng.gof.places import location_of, scalar_ops_of_authors
    from theano_ng.gof.provenance import is_from_package

    found, base.implementations = [], {} if wanted else None
    try:
        yield found
    finally:
        used, base.implementations = base.implementations or {}, None
        seen, in_python = {}, set()
        for op, kind in used:
            both = has_perform(op) and has_c_implementation(op)
            for one in [op, *scalar_ops_of_authors(op)] if both else ():
                seen.setdefault(type(one), one)
                if kind == "py":
                    in_python.add(type(one))
        for cls, op in seen.items():
            if cls not in in_python and not is_from_package(cls):
                method = "impl" if hasattr(op, "impl") else "perform"
                found.append("%s (%s)" % (cls.__name__, location_of(op, method)))


def _let_rules_raise():
    """Let tests of the package fail if a rewriting rule raises an error. By default, such errors are only logged."""
    from theano_ng.configdefaults import config

    if config.on_opt_error == "warn":
        config.on_opt_error = "raise"


def _let_debugmode_search(seconds=0.2):
    """Set the flag `DebugMode.search` for tests of other packages in DebugMode, unless THEANO_FLAGS sets it."""
    from theano_ng.configdefaults import config

    if config.mode == "DebugMode" and "DebugMode.search" not in os.environ.get("THEANO_FLAGS", ""):
        config.DebugMode.search = seconds


def processor_time():
    """Return the seconds of processor time of this process and its finished children."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def work():
    """Run as a worker: read targets as JSON lines from stdin, and write results as JSON lines to stdout."""
    targets, channel = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of tests must not mix with the results
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)  # a debugger in a test must neither wait for input nor read the targets
    for line in targets:
        top, name, only = json.loads(line)
        before = processor_time()
        try:
            result = run_target(top, name, only)
        except BaseException as failure:
            import traceback

            result = {
                "counts": {"passed": 0, "failed": 1, "skipped": 0},
                "skipped": [],
                "report": "%s\n%s" % (failure, traceback.format_exc()),
            }
        result["cpu"] = processor_time() - before
        channel.write(json.dumps(result) + "\n")
        channel.flush()


class Worker:
    """A worker process. It is started for its first target, and again after a crash.

    Parameters
    ----------
    folder : str
        The folder for its temporary files.
    """

    def __init__(self, folder):
        self.folder = folder
        self.process = None

    def run(self, top, name, only):
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "theano_ng.tests.runner", "--worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=dict(
                    os.environ,
                    TMPDIR=self.folder,
                    PYTHONPATH=os.pathsep.join(
                        filter(None, (os.path.dirname(package_root()), os.environ.get("PYTHONPATH")))
                    ),
                ),
            )
        try:
            self.process.stdin.write(json.dumps([top, name, only]) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            return {"slow": [], **json.loads(line)}
        status = self.process.wait()
        self.process = None
        return {
            "counts": {"passed": 0, "failed": 1, "skipped": 0},
            "skipped": [],
            "slow": [],
            "cpu": 0.0,
            "report": "the test process died with status %s while running %s" % (status, name),
        }

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


class Progress:
    """The progress of a run: a status line on terminals, and at the end a list of the slowest files and tests.

    Parameters
    ----------
    files : int
        The number of files.
    stream : file, optional
        The stream of the status line. Default: the standard output.
    """

    def __init__(self, files, stream=None):
        self.files, self.finished, self.failed = files, 0, 0
        self.running = {}  # file -> its start time
        self.slow_files, self.slow_tests = [], []
        self.line = StatusLine(sys.stdout if stream is None else stream)
        self.ready, self.watcher = threading.Event(), None

    def start(self, name):
        self.running[name] = time.monotonic()

    def finish(self, name, result):
        """Record the result of a file; return the seconds that the file took."""
        seconds = time.monotonic() - self.running.pop(name)
        self.finished += 1
        self.failed += result["counts"]["failed"]
        if seconds >= SLOW_SECONDS:
            self.slow_files.append((seconds, name))
        self.slow_tests.extend((seconds, name) for seconds, name in result["slow"])
        return seconds

    def text(self):
        """Return the status, such as ``12 of 240 files, 1 failed; running: theano_ng.tests.test_scan (21 s)``."""
        now = time.monotonic()
        running = ["%s (%.0f s)" % (name, now - begun) for name, begun in self.running.items()]
        failed = ", %d failed" % self.failed if self.failed else ""
        return "%d of %d files%s; running: %s" % (self.finished, self.files, failed, ", ".join(running))

    def watch(self, lock):
        """Start a thread that draws the status line once a second. The thread holds `lock` while it prints."""

        def draw():
            while not self.ready.wait(1):
                with lock:
                    self.line.show(self.text())

        if self.line.enabled:
            self.watcher = threading.Thread(target=draw, daemon=True)
            self.watcher.start()

    def close(self):
        self.ready.set()
        if self.watcher is not None:
            self.watcher.join()
        self.line.clear()

    def slowest(self):
        """Yield lines with the slowest files and tests."""
        for what, found in (("files", self.slow_files), ("tests", self.slow_tests)):
            if found:
                yield "slowest %s:" % what
                yield from ("  %6.1f s  %s" % one for one in sorted(found, reverse=True)[:SLOWEST])


def hints(report):
    """Return hints to install packages whose absence made tests fail."""
    missing = sorted(set(re.findall(r"No module named '(\w+)", report)) & set(extras.EXTRAS))
    return ["hint: %s" % extras.missing(name, "this test") for name in missing]


class Run:
    """One run of the command: threads that pass files to workers, and the results so far.

    Parameters
    ----------
    options : argparse.Namespace
    wanted : list of (str, str)
        The result of `targets`.
    """

    def __init__(self, options, wanted):
        self.options, self.wanted = options, wanted
        self.todo = queue.SimpleQueue()
        for target in wanted:
            self.todo.put(target)
        self.total = {"passed": 0, "failed": 0, "skipped": 0}
        self.never_in_python = {}
        self.skips, self.not_run = [], []
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.started, self.cpu, self.broken = time.monotonic(), 0.0, None
        self.progress = Progress(len(wanted))
        self.scratch = tempfile.mkdtemp(prefix="theano_ng-nose-")
        os.chmod(self.scratch, 0o1777)  # tests may start processes of other users

    def work(self):
        """Run all files, and print their results."""
        threads = [threading.Thread(target=self.drain) for _ in range(self.processes())]
        self.progress.watch(self.lock)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            self.stop.set()
            self.progress.close()
            if not self.total["failed"] or not os.listdir(self.scratch):
                shutil.rmtree(self.scratch, ignore_errors=True)
        if self.broken is not None:
            raise self.broken

    def processes(self):
        return max(1, min(self.options.processes, len(self.wanted)))

    def is_over(self):
        """Return True if the time limit is exceeded."""
        seconds, cpu_seconds = self.options.seconds, self.options.cpu_seconds
        return (seconds is not None and time.monotonic() - self.started > seconds) or (
            cpu_seconds is not None and self.cpu > cpu_seconds
        )

    def drain(self):
        """Pass files to a worker until none are left. This is the function of each thread."""
        worker = Worker(self.scratch)
        while not self.stop.is_set():
            try:
                top, name = self.todo.get_nowait()
            except queue.Empty:
                break
            with self.lock:
                if self.is_over():
                    self.not_run.append(name)
                    continue
                self.progress.start(name)
            result = worker.run(top, name, self.options.k)
            with self.lock:
                try:
                    self.report(name, result)
                except BrokenPipeError as error:  # the program that reads the output has closed the pipe
                    self.broken = error
                    self.stop.set()
        worker.close()

    def report(self, name, result):
        """Count and print the result of a file."""
        counts, seconds = result["counts"], self.progress.finish(name, result)
        for key in self.total:
            self.total[key] += counts[key]
        self.skips.extend(result["skipped"])
        self.never_in_python.update(dict.fromkeys(result.get("never_in_python", ())))
        self.cpu += result["cpu"]
        if counts["failed"] and self.options.stop:
            self.stop.set()
        self.progress.line.clear()
        print(
            "%-70s %3d passed %3d failed %3d skipped  %6.1f s  (CPU %.1f s)  %d/%d"
            % (name, *counts.values(), seconds, result["cpu"], self.progress.finished, len(self.wanted)),
            flush=True,
        )
        if counts["failed"] or self.options.verbose:
            print("\n".join([result["report"], *hints(result["report"])]), flush=True)

    def summary(self):
        """Print the summary at the end; return the exit status."""
        for reason in sorted(self.skips):
            print("skipped %s" % reason)
        for op in self.never_in_python:
            print("never run in Python: %s" % op)
        for name in self.not_run:
            print("not run: the time was over before %s" % name)
        for line in self.progress.slowest():
            print(line)
        if os.path.exists(self.scratch):
            print("temporary files of the tests: %s" % self.scratch)
        left = ", %d FILES NOT RUN" % len(self.not_run) if self.not_run else ""
        print("%.1f s (CPU %.1f s)%s" % (time.monotonic() - self.started, self.cpu, left))
        nothing = not any(self.total.values()) and not self.not_run
        if nothing:
            what = "in what was asked for" if self.options.k is None else "whose name contains %r" % self.options.k
            print("theano_ng-nose: there is no test %s" % what, file=sys.stderr)
        print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % self.total, flush=True)
        return 1 if nothing else min(self.total["failed"], 100)


@command
def main(argv=None):
    """Run tests.

    Parameters
    ----------
    argv : list of str, optional
        Arguments without the program's name; default: those of the process.

    Returns
    -------
    int
        The exit status: the number of failures, at most 100; 1 if there was no test.
    """
    options = parse(sys.argv[1:] if argv is None else argv)
    if options.worker:
        work()
        return 0
    run = Run(options, targets(options))
    run.work()
    return run.summary()


if __name__ == "__main__":
    sys.exit(main())
