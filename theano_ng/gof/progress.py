"""What is being compiled: for the line on a terminal that says so, and for profiles.

One function at a time is compiled; its `Task` is told what happens by those who do it, in a few places that cost nothing when nobody looks. A
thread reads it. The line comes after `DELAY` seconds, is written over again and again, and is wiped in the end. It is not drawn where the standard error
stream is no terminal, or where config.compile.progress is off.
"""

import sys
import threading
import time

from theano_ng.configdefaults import config
from theano_ng.gof._lock import Lock
from theano_ng.status_line import StatusLine, is_terminal

DELAY = 2.0  # seconds after which compiling is worth a line
INTERVAL = 0.25  # seconds from one drawing to the next
FEW_NODES = 200  # thunks that are made without a thread's being started for them


class Task:
    """The compilation of one function.

    Attributes
    ----------
    name : str or None
        That of the function.
    compiled : list of (str, float)
        What the compiler was called for, and the seconds it took.
    """

    name = None
    _node = None  # number and order of the node of which a thunk is made
    _doing = None  # (phase, what the phase is described by): see `text`
    _ended = None  # a lock that is held until the end, once the thread runs; False where no line is drawn
    _line = None

    def __init__(self):
        self.compiled = []
        self._begun = time.monotonic()

    # What those who compile say

    def rewriting(self, fgraph, optimizer):
        """An optimizer begins to work on a graph."""
        self._doing = ("rewriting", fgraph, optimizer)
        self._watch()

    def calling_compiler(self, what, number=1, count=1):
        """The compiler begins with a file.

        Parameters
        ----------
        what : str
        number, count : int
            Which of how many files that are known to be needed.
        """
        self._doing = ("compiling", what, number, count)
        self._watch()

    def linking(self, number, order):
        """The thunk of a node begins to be made: node `number` of those in `order`."""
        self._node, self._doing = (number, order), None
        if number > FEW_NODES:
            self._watch()

    def called_compiler(self, what, seconds):
        """The compiler has ended."""
        self.compiled.append((what, seconds))

    # The line

    def text(self):
        """What is being done now, for instance ``compiling train: rewriting, canonicalize (12,345 nodes), 5 s``."""
        node, doing = self._node, self._doing  # each as it is now: the other thread goes on
        parts = [] if node is None else ["node %s of %s" % (format(node[0], ","), format(len(node[1]), ","))]
        if doing is not None:
            parts.append(getattr(self, "_text_of_" + doing[0])(*doing[1:]))
        what = ": " + ", ".join(parts) if parts else ""
        return "compiling %s%s, %.0f s" % (self.name or "a function", what, time.monotonic() - self._begun)

    def _text_of_rewriting(self, fgraph, optimizer):
        name = getattr(optimizer, "name", None) or getattr(optimizer, "__name__", None) or type(optimizer).__name__
        return "rewriting, %s (%s nodes)" % (name, format(len(fgraph.apply_nodes), ","))

    def _text_of_compiling(self, what, number, count):
        return "C code of %s" % what + (" (%d of %d)" % (number, count) if count > 1 else "")

    def _watch(self):
        """Start the thread that draws, if it has not been started and somebody looks."""
        if self._ended is None:
            self._ended = False
            if config.compile.progress and is_terminal(sys.stderr):
                self._line, self._drawing = StatusLine(sys.stderr, True), Lock()
                self._ended = threading.Lock()
                self._ended.acquire()
                threading.Thread(target=self._draw, name="theano_ng progress", daemon=True).start()

    def _draw(self):
        pause = max(0.0, self._begun + DELAY - time.monotonic())
        while not self._ended.acquire(timeout=pause):
            with self._drawing:
                if not self._ended.locked():
                    return
                self._line.show(self.text())
            pause = INTERVAL

    def end(self):
        """Wipe the line, if there is one."""
        if self._ended and self._ended.locked():
            self._ended.release()
            with self._drawing:
                self._line.clear()


class _Nobody:
    """Stands for a task while nothing is being compiled: nodes that are made and run on their own, for instance."""

    name = None
    compiled = ()

    def rewriting(self, fgraph, optimizer):
        pass

    def calling_compiler(self, what, number=1, count=1):
        pass

    def linking(self, number, order):
        pass

    def called_compiler(self, what, seconds):
        pass

    def end(self):
        pass


_nobody = _Nobody()
task = _nobody
"""The compilation that is going on."""


class Compiling:
    """Context: a function is compiled. What is compiled meanwhile, for a graph inside an Op for instance, belongs to it.

    The caller sees to it that one thread at a time is in here.
    """

    def __init__(self):
        self._outer = []  # the task at the time when each of these contexts was entered

    def __enter__(self):
        global task
        self._outer.append(task)
        if task is _nobody:
            task = Task()
        return task

    def __exit__(self, *failure):
        global task
        ended, task = task, self._outer.pop()
        if task is _nobody:
            ended.end()

    def forget(self):
        """Drop all tasks: the code that compiled was interrupted, or ran in a thread of another process."""
        global task
        if self._outer:
            ended, task = task, _nobody
            self._outer.clear()
            ended.end()


compiling = Compiling()
