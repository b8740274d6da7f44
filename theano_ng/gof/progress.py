"""The current compilation, for a status line on a terminal and for profiles.

Only one function is compiled at a time. The code that compiles reports its steps to a `Task`. These reports are cheap
if nothing reads the task. A thread reads the task and draws a line. The line appears after `DELAY` seconds, is redrawn
repeatedly, and is erased at the end. It is not drawn if the standard error stream is not a terminal, or if
config.compile.progress is False.
"""

import sys
import threading
import time

from theano_ng.configdefaults import config
from theano_ng.gof._lock import Lock
from theano_ng.status_line import StatusLine, is_terminal

DELAY = 2.0  # seconds of compilation before the line appears
INTERVAL = 0.25  # seconds between two drawings
FEW_NODES = 200  # number of thunks that are made before the drawing thread is started


class Task:
    """The compilation of one function.

    Attributes
    ----------
    name : str or None
        The name of the function.
    compiled : list of (str, float)
        For each call of the compiler, a description of its input and the seconds it took.
    """

    name = None
    _node = None  # (number, order): the node whose thunk is being made
    _doing = None  # (current phase, *arguments of `text`, which describes the phase)
    _ended = None  # None: no report yet. False: no line is drawn. Otherwise a lock that is held until `end`
    _line = None

    def __init__(self):
        self.compiled = []
        self._begun = time.monotonic()

    # Reports from the code that compiles

    def rewriting(self, fgraph, optimizer):
        """Record that an optimizer starts to work on a graph."""
        self._doing = ("rewriting", fgraph, optimizer)
        self._watch()

    def calling_compiler(self, what, number=1, count=1):
        """Record that the compiler starts to compile a file.

        Parameters
        ----------
        what : str
            A description of the code in the file, such as "2 loops".
        number, count : int
            The number of this file, and the number of files that are known to be needed.
        """
        self._doing = ("compiling", what, number, count)
        self._watch()

    def linking(self, number, order):
        """Record that the thunk of node `number` of `order` will be made next."""
        self._node, self._doing = (number, order), None
        if number > FEW_NODES:
            self._watch()

    def called_compiler(self, what, seconds):
        """Record that the compiler has finished."""
        self.compiled.append((what, seconds))

    # The line

    def text(self):
        """Return a description of the current work.

        An example is ``compiling train: rewriting, canonicalize (12,345 nodes), 5 s``.
        """
        node, doing = self._node, self._doing  # read each attribute once, because another thread may change it
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
        """Start the drawing thread, unless it was already started, or no line has to be drawn."""
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
        """Erase the line, if it was drawn."""
        if self._ended and self._ended.locked():
            self._ended.release()
            with self._drawing:
                self._line.clear()


class _NullTask:
    """A task that ignores all reports.

    It is active while no function is compiled, for instance while single nodes are run.
    """

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


_null_task = _NullTask()
task = _null_task
"""The active compilation."""


class Compiling:
    """A context manager for the compilation of a function.

    Compilations inside it, such as the compilation of a graph inside an Op, belong to the outer compilation. The caller
    has to ensure that only one thread at a time is inside.
    """

    def __init__(self):
        self._outer = []  # for each context that was entered and not left, the task that was active before

    def __enter__(self):
        global task
        self._outer.append(task)
        if task is _null_task:
            task = Task()
        return task

    def __exit__(self, *failure):
        global task
        ended, task = task, self._outer.pop()
        if task is _null_task:
            ended.end()

    def forget(self):
        """Discard all tasks: their compilations were interrupted, or belong to threads of the parent process (fork)."""
        global task
        if self._outer:
            ended, task = task, _null_task
            self._outer.clear()
            ended.end()


compiling = Compiling()
