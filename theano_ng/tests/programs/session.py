"""A run: many programs in one process, which share its caches, are compiled in several configurations, and are called again while compilers finish.

A function that was right once has to give the same bits at every later call: after its kernels were swapped in, from other threads, after copying and
pickling, and as another process compiles it with the cache that is warm by then.
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
from theano_ng.tests.programs.configurations import CONFIGURATIONS
from theano_ng.tests.programs.generator import chapters_of, generate, note, uncomputed
from theano_ng.tests.programs.judge import Difference, Expectation, bits, compare, judged, raised

KEPT = 120  # functions that are called again
AGAIN = 0.5  # how often one of them is, for each program
THREADS = 3
COPIED, RECOMPILED = 0.1, 0.1  # shares of the functions in the family FAST_RUN
ORIGINAL = 0.03  # of the programs run on Theano 1.0.5
HISTORY = 600  # programs before one that differs that may have to do with it


class Failure:
    """A program that differs.

    Attributes
    ----------
    seed : object
    index : int
    program : Program
    difference : Difference
    before : list of (int, str)
        Index and configuration of what this process compiled before, the latest last.
    """

    def __init__(self, seed, index, program, difference, before):
        self.seed, self.index, self.program, self.difference, self.before = seed, index, program, difference, before

    def programs_before(self):
        """Programs and names of configurations of what was compiled before with a compiler."""
        return [
            (generate(self.seed, index), name)
            for index, name in self.before
            if CONFIGURATIONS[name].family and index != self.index
        ]


class Kept:
    """A function that is called again: its results have to be these bits."""

    def __init__(self, index, compiled, results):
        self.index, self.compiled, self.bits = index, compiled, bits(results)
        # Each call begins with putting the state back, so functions with state are called by one thread at a time.
        self.lock = threading.Lock() if compiled.state else contextlib.nullcontext()

    def call_again(self, function=None, how="a later call"):
        """The Difference between another call and the first; None."""
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
        Names, of those that are drawn from.
    original : Original, optional
        Theano 1.0.5, which some of the programs run on.

    Attributes
    ----------
    failures : list of Failure
    differs_from_original : list of Failure
        Where 1.0.5 has other numbers than NumPy. It has faults of its own, so these are to be read, not counted.
    chapters, runs : Counter
        Programs of each chapter; programs of each configuration, and further calls of each kind.
    """

    def __init__(self, seed, configurations=tuple(CONFIGURATIONS), original=None):
        self.original, self.differs_from_original = original, []
        self.seed, self.configurations = seed, [CONFIGURATIONS[name] for name in configurations]
        self.kept, self.failures, self.before = deque(maxlen=KEPT), [], deque(maxlen=HISTORY)
        self.chapters, self.runs, self.programs = Counter(), Counter(), 0
        self.unavailable = {}
        self.results = []  # of the family FAST_RUN: index, configuration, bits

    def judge(self, index):
        """Generate and judge one program."""
        names = {}
        program = generate(self.seed, index, names)
        if program is None:
            return
        self.programs += 1
        self.chapters.update(chapters_of(program))
        choices = random.Random("configurations %s %s" % (self.seed, index))
        loops = any([node.operation == "loop" for node in program.nodes])
        chosen = [c for c in self.configurations if choices.random() < c.share * (3 if loops and c.family else 1)]
        if any([c.family for c in chosen]):
            chosen = [c for c in chosen if c.name != "interpreted"]
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

    def _variants(self, kept, choices):
        """Copies, and the same graph once more: out of the cache of graphs."""
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
        """The Difference between the function and one of the same graph, in a configuration that promises the same bits."""
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
        """Call functions at the same time, each a few times, and the first one from two threads."""
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
        """Wait for the compilers, call all functions that are kept once more, and compare with another process."""
        with np.errstate(all="ignore"):
            background.wait_for_kernels(120)
            self._again(list(self.kept))
            self._second_process()

    def _second_process(self):
        """Compile what the family FAST_RUN compiled in a process of its own, with the cache as it is now."""
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
    """The flags of this process but for the directory."""
    words = os.environ.get("THEANO_FLAGS", "").split(",")
    return ",".join([word for word in words if word and not word.startswith("base_compiledir")])


def run(session, seconds, first=0, most=float("inf"), wall=float("inf"), report=None):
    """Judge programs until the time is over, or `most` of them are judged.

    Parameters
    ----------
    session : Session
    seconds : float
        Of processor time of this process.
    first : int
        The first index.
    most : int, optional
        The most indices.
    wall : float
        The most seconds of the clock on the wall.
    report : callable, optional
        Is told each Failure at once.

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
