"""A run of many programs in one process. The programs share the caches of the process, and are compiled in several
configurations. Their functions are called again while compilers finish.

A function whose first results are correct must return equal bits at every later call: after its kernels are installed,
from other threads, after copying and pickling, and when another process compiles it with the warm cache.
"""

import contextlib
import copy
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.compiler import background
from theano_ng.tests.programs import lengths
from theano_ng.tests.programs.configurations import CONFIGURATIONS
from theano_ng.tests.programs.generator import chapters_of, generate, note, uncomputed
from theano_ng.tests.programs.judge import Difference, Expectation, bits, compare, judged, raised

KEPT = 120  # number of functions that are kept and called again
AGAIN = 0.5  # after each program, the probability that a kept function is called again
THREADS = 3
COPIED, RECOMPILED = 0.1, 0.1  # shares of the FAST_RUN family's functions that are copied, and compiled again
ORIGINAL = 0.03  # share of the programs that run on Theano 1.0.5
RESIZED = 0.1  # share of the programs that are also called with lengths that do not fit
HISTORY = 600  # maximum number of programs that are recorded before a failure, because they may have caused it


class Failure:
    """A program for which a Difference was found: wrong results, an exception, or any other kind of Difference.

    Attributes
    ----------
    seed : object
    index : int
    program : Program
    difference : Difference
    before : list of (int, str)
        The indices and configurations of programs that this process compiled before, the latest program last.
    """

    def __init__(self, seed, index, program, difference, before):
        self.seed, self.index, self.program, self.difference, self.before = seed, index, program, difference, before

    def programs_before(self):
        """Return the programs that were compiled before with a C compiler, and the names of their configurations."""
        return [
            (generate(self.seed, index), name)
            for index, name in self.before
            if CONFIGURATIONS[name].family and index != self.index
        ]


class Kept:
    """A function that is called again, and the bits that its results must have."""

    def __init__(self, index, compiled, results):
        self.index, self.compiled, self.bits = index, compiled, bits(results)
        # Each call first restores the state. Therefore only one thread at a time calls a function that has state.
        self.lock = threading.Lock() if compiled.state else contextlib.nullcontext()

    def call_again(self, function=None, how="a later call"):
        """Call the function again. Return the Difference to the first call, or None if the bits are equal."""
        with self.lock:
            try:
                results = self.compiled.call(function)
            except Exception as error:
                return raised(self.compiled.configuration, error)
            if bits(results) == self.bits:
                return None
            return compare(self.compiled, results) or Difference(
                "bits", self.compiled.configuration.name, how, "other bits", "those of the first call"
            )


class Session:
    """A run of programs.

    Parameters
    ----------
    seed : object
    configurations : iterable of str
        The names of the configurations that are drawn.
    original : Original, optional
        A process with Theano 1.0.5, which also runs some of the programs.

    Attributes
    ----------
    failures : list of Failure
    differs_from_original : list of Failure
        Programs for which Theano 1.0.5 differs from NumPy. The cause may be a fault of Theano 1.0.5. Therefore these
        entries do not count as failures, and a person has to read them.
    chapters, runs : Counter
        The number of programs of each chapter, and the number of programs in each configuration. `runs` also counts
        further calls, by their kind.
    """

    def __init__(self, seed, configurations=tuple(CONFIGURATIONS), original=None):
        self.original, self.differs_from_original = original, []
        self.seed, self.configurations = seed, [CONFIGURATIONS[name] for name in configurations]
        self.kept, self.failures, self.before = deque(maxlen=KEPT), [], deque(maxlen=HISTORY)
        self.chapters, self.runs, self.programs = Counter(), Counter(), 0
        self.unavailable = {}
        self.results = []  # (index, configuration, bits) of the family FAST_RUN

    def judge(self, index):
        """Generate a program, and judge it in the configurations that are drawn for it."""
        names = {}
        program = generate(self.seed, index, names)
        if program is None:
            return
        self.programs += 1
        found = chapters_of(program)
        self.chapters.update(found)
        choices = random.Random("configurations %s %s" % (self.seed, index))
        loops = any([node.operation == "loop" for node in program.nodes])
        chosen = [c for c in self.configurations if choices.random() < c.share * (3 if loops and c.family else 1)]
        if any([c.family for c in chosen]):
            chosen = [c for c in chosen if c.name != "interpreted"]
        if (
            "loops" in found and "long axes" in found
        ):  # DebugMode would run each node of thousands of steps several times
            chosen = [c for c in chosen if c.name != "DebugMode"]
        with np.errstate(all="ignore"):
            try:
                expectation = Expectation(program, names)
            except Exception as error:
                note(uncomputed, ("twin", type(error).__name__), "program %s: %s" % (index, error))
                return
            for configuration in chosen:
                if configuration.name not in self.unavailable:
                    self._judge_one(index, program, configuration, expectation, choices)
            if self.original is not None and choices.random() < ORIGINAL:
                self._judge_original(index, program, expectation)
            if choices.random() < RESIZED:
                self._judge_lengths(index, program, choices)
            if self.kept and choices.random() < AGAIN:
                self._again([choices.choice(self.kept)])
            if len(self.kept) >= THREADS and choices.random() < 0.03:
                self._in_threads(choices.sample(list(self.kept), THREADS))

    def _judge_one(self, index, program, configuration, expectation, choices):
        try:
            configuration.make_mode()
        except Exception as error:  # no device
            self.unavailable[configuration.name] = str(error)
            return
        self.runs[configuration.name] += 1
        compiled, results, difference = judged(program, configuration, expectation)
        self.before.append((index, configuration.name))
        if difference is not None:
            self._failed(index, program, difference)
        elif results is None:
            return
        elif configuration.family:
            kept = Kept(index, compiled, results)
            self.kept.append(kept)
            if len(self.results) < 2000:
                self.results.append((index, configuration.name, kept.bits))
            self._variants(kept, choices)
        elif choices.random() < 0.02:
            self.kept.append(Kept(index, compiled, results))

    def _judge_original(self, index, program, expectation):
        self.runs["Theano 1.0.5"] += 1
        difference = self.original.difference(program, expectation)
        if difference is not None:
            self.differs_from_original.append(Failure(self.seed, index, program, difference, []))

    def _judge_lengths(self, index, program, choices):
        program = lengths.resized(program, "%s %s" % (self.seed, index))
        name = choices.choice(lengths.CONFIGURATIONS_OF_LENGTHS)
        if program is None or CONFIGURATIONS["interpreted"] not in self.configurations:
            return
        self.runs["other lengths"] += 1
        difference = lengths.judged(program, CONFIGURATIONS[name])
        if difference is not None:
            self._failed(index, program, difference)

    def _variants(self, kept, choices):
        """Judge a copy of a function, with some probability. Compile its graph again, with some probability."""
        if choices.random() < COPIED and not kept.compiled.state:
            name, make = choices.choice(
                (
                    ("pickle", lambda f: pickle.loads(pickle.dumps(f))),
                    ("deepcopy", copy.deepcopy),
                    ("Function.copy", lambda f: f.copy()),
                )
            )
            self.runs[name] += 1
            try:
                function = make(kept.compiled.function)
            except Exception as error:
                difference = raised(kept.compiled.configuration, error)
            else:
                difference = kept.call_again(function, name)
            if difference is not None:
                self._failed(kept.index, kept.compiled.program, difference)
        if choices.random() < RECOMPILED:
            self.runs["compiled again"] += 1
            difference = self._recompiled(kept, choices)
            if difference is not None:
                self._failed(kept.index, kept.compiled.program, difference)

    def _recompiled(self, kept, choices):
        """Compile the graph again in a configuration that must give equal bits. Return a Difference or None."""
        family = [
            c
            for c in CONFIGURATIONS.values()
            if c.family == kept.compiled.configuration.family and c.name != "tiered=off"
        ]
        configuration = choices.choice(family)
        compiled, results, difference = judged(kept.compiled.program, configuration, kept.compiled.expectation)
        if difference is None and results is not None and bits(results) != kept.bits:
            return Difference(
                "bits",
                configuration.name,
                "the same graph compiled again",
                "other bits",
                kept.compiled.configuration.name,
            )
        return difference

    def _again(self, some):
        for kept in some:
            self.runs["called again"] += 1
            self._noted(kept, kept.call_again())

    def _noted(self, kept, difference):
        if difference is not None:
            if kept in self.kept:
                self.kept.remove(kept)
            self._failed(kept.index, kept.compiled.program, difference)

    def _in_threads(self, some):
        """Call each function three times in its own thread, concurrently. Call the first function from two threads."""
        self.runs["called in threads"] += len(some)
        found = {}

        def call(kept):
            for _ in range(3):
                found[id(kept)] = found.get(id(kept)) or kept.call_again(how="a call in a thread")

        threads = [threading.Thread(target=call, args=(kept,)) for kept in [*some, some[0]]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for kept in some:
            self._noted(kept, found[id(kept)])

    def _failed(self, index, program, difference):
        self.failures.append(Failure(self.seed, index, program, difference, list(self.before)))

    def finish(self):
        """Wait for the compilers, call all kept functions again, and compare the bits with another process."""
        with np.errstate(all="ignore"):
            background.wait_for_kernels(120)
            self._again(list(self.kept))
            self._second_process()

    def _second_process(self):
        """Compile programs of the family FAST_RUN in a new process with the warm cache, and compare the bits."""
        if not self.results:
            return
        chosen = random.Random("second %s" % self.seed).sample(self.results, min(200, len(self.results)))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "wanted.pkl")
            with open(path, "wb") as file:
                pickle.dump((self.seed, sorted(chosen)), file)
            done = subprocess.run(
                [sys.executable, "-m", "theano_ng.tests.programs.second_process", path],
                capture_output=True,
                text=True,
                env=dict(os.environ, THEANO_FLAGS="base_compiledir=%s,%s" % (config.base_compiledir, _other_flags())),
            )
        self.runs["second process"] += len(chosen)
        if done.returncode:
            raise RuntimeError("the second process failed: " + done.stderr[-2000:])
        for index, name, difference in json.loads(done.stdout.splitlines()[-1]):
            found = Difference(
                "bits", name, "a second process with the warm cache", difference, "those of the first process"
            )
            self._failed(index, generate(self.seed, index), found)


def _other_flags():
    """Return the flags of this process except the compile directory."""
    words = os.environ.get("THEANO_FLAGS", "").split(",")
    return ",".join([word for word in words if word and not word.startswith("base_compiledir")])


def run(session, seconds, first=0, most=float("inf"), wall=float("inf"), report=None):
    """Judge programs until the time limit, or until `most` programs are judged.

    Parameters
    ----------
    session : Session
    seconds : float
        The limit of the processor time of this process.
    first : int
        The first index.
    most : int, optional
        The maximum number of programs.
    wall : float
        The limit of wall-clock time in seconds.
    report : callable, optional
        A function that is called with each Failure as soon as it is found.

    Returns
    -------
    int
        The next index.
    """
    end, latest, index = time.process_time() + seconds, time.monotonic() + wall, first
    while time.process_time() < end and time.monotonic() < latest and index - first < most:
        known = len(session.failures)
        session.judge(index)
        index += 1
        for failure in session.failures[known:]:
            if report is not None:
                report(failure)
    known = len(session.failures)
    session.finish()
    for failure in session.failures[known:]:
        if report is not None:
            report(failure)
    return index
