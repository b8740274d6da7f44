"""A process that runs trials in child processes. The command is ``python server.py PRELOADED``. Jobs are JSON lines on
standard input, and answers are JSON lines on standard output.

The script is run by its path instead of by ``-m``, so that no module of the package is imported before a trial has
installed changed code. If PRELOADED is ``loaded``, the package is imported first, so that trials spend no time on the
import. The child processes are forks of this process.
"""

import builtins
import importlib.machinery
import importlib.util
import json
import marshal
import os
import select
import shutil
import signal
import sys
import tempfile
import time


def serve(loaded):
    jobs, channel = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    if loaded:
        options = json.loads(jobs.readline())
        if options.get("marked"):
            setattr(builtins, options["marked"]["name"], bytearray(options["marked"]["count"]))
            sys.meta_path.insert(0, MarkedFinder(options["marked"]["modules"]))
        from theano_ng.tests.mutants import trial

        trial.prepare(options)
    else:
        import unittest  # noqa: F401, see below

        import numpy  # noqa: F401 every trial needs these modules, for any changed file
        import scipy.linalg
        import scipy.sparse
        import scipy.special  # noqa: F401, see above

        jobs.readline()
    channel.write("ready\n")
    channel.flush()
    for line in jobs:
        channel.write(json.dumps(answer(json.loads(line), jobs, channel)) + "\n")
        channel.flush()


def answer(job, *inherited):
    """Run a job in a child.

    Returns
    -------
    dict
        The last answer of the child, and ``spent``, its seconds of processor time. If the child did not finish,
        ``outcome`` is "crashed" or "timed out", and ``case`` is the last case that the child started.
    """
    reading, writing = os.pipe()
    folder = tempfile.mkdtemp(prefix="mutants-")
    child = os.fork()
    if not child:
        os.close(reading)
        for file in inherited:
            os.close(file.fileno())
        _child(job, os.fdopen(writing, "w"), folder)
    os.close(writing)
    said = _listen(reading, job)
    os.close(reading)
    ended, spent = _end(child)
    shutil.rmtree(folder, ignore_errors=True)
    result = said.pop() if said and "outcome" in said[-1] else {"outcome": "crashed"}
    if "case" not in result and said:
        result["case"] = said[-1].get("case")
    if result["outcome"] == "crashed":
        result["outcome"] = "timed out" if ended in (-signal.SIGXCPU, -signal.SIGKILL) else "crashed"
        result["how"] = "status %s" % ended
    return {**result, "spent": spent}


def _listen(reading, job):
    """Return the messages of the child, until the child closes the pipe or exceeds the time limit of a case."""
    said, buffer, deadline = [], b"", time.monotonic() + job.get("begin", 60)
    while True:
        ready, _, _ = select.select([reading], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            return said + [{"outcome": "timed out", "case": said[-1].get("case") if said else None}]
        piece = os.read(reading, 1 << 16)
        if not piece:
            return said
        buffer += piece
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            said.append(json.loads(line))
            deadline = time.monotonic() + said[-1].get("wall", 60)


def _end(child):
    """Kill a child and the processes that it has started. Return its status and its seconds of processor time."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    _, status, used = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


def _child(job, channel, folder):
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDWR), 2)
    tempfile.tempdir = folder

    def say(**message):
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    try:
        if job["install"] and job["install"]["how"] == "import":
            sys.meta_path.insert(0, Replaced(job["install"]))
        from theano_ng.tests.mutants import trial

        say(**trial.run(job, say))
    except BaseException as error:
        say(outcome="caught", case=None, how="%s at the import: %s" % (type(error).__name__, str(error)[:200]))
    os._exit(0)


class Replaced:
    """An importer that finds one module in a changed source file or in another library.

    Parameters
    ----------
    install : dict
        The ``module``, and the ``path`` of its source file or library.
    """

    def __init__(self, install):
        self.module, self.path = install["module"], install["path"]

    def find_spec(self, name, path=None, target=None):
        if name != self.module:
            return None
        if not self.path.endswith(".py"):
            loader = importlib.machinery.ExtensionFileLoader(name, self.path)
            return importlib.util.spec_from_file_location(name, self.path, loader=loader)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        spec.loader = ChangedLoader(name, spec.loader.path)
        spec.loader.changed = self.path
        return spec


class ChangedLoader(importlib.machinery.SourceFileLoader):
    """A loader that compiles changed source code with the file name of the module."""

    def get_code(self, fullname):
        with open(self.changed, "rb") as file:
            return compile(file.read(), self.path, "exec", dont_inherit=True)


class MarkedFinder:
    """An importer that finds modules whose code has marks.

    Parameters
    ----------
    codes : dict
        Module -> file of its marshalled code.
    """

    def __init__(self, codes):
        self.codes = codes

    def find_spec(self, name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path) if name in self.codes else None
        if spec is not None:
            spec.loader = MarkedLoader(name, spec.loader.path)
            spec.loader.marked = self.codes[name]
        return spec


class MarkedLoader(importlib.machinery.SourceFileLoader):
    """A loader of the marshalled code that `MarkedFinder` finds."""

    def get_code(self, fullname):
        with open(self.marked, "rb") as file:
            return marshal.load(file)


if __name__ == "__main__":
    sys.path.pop(0)  # remove this folder from the import path: its modules would hide other modules of the same names
    serve(sys.argv[1] == "loaded")
