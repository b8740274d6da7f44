"""Calls of functions in child processes, with limits on the time and the memory."""

import faulthandler
import mmap
import os
import pickle
import signal
import time
import traceback
from typing import Any, NamedTuple

from theano_ng.audit.problems import AuditError

#: The limit of processor time in seconds for one step of the author's code: an import, the creation of nodes, one example.
#: A step that waits may take `WAITING` times as long. A busy machine does not end a step that computes.
STEP_SECONDS, WAITING = 120, 10

#: In a child process: the seconds for a step, and the memory to which `step` writes the current example. Otherwise None.
_limits = None

_TIMERS = (signal.SIGPROF, signal.SIGALRM) if hasattr(signal, "SIGPROF") else ()
_ANSWER = b"\0answer\0"
_NOTE_BYTES = 1 << 14


class Ending(NamedTuple):
    """The end of a child process.

    Attributes
    ----------
    how : str
        ``"ended"``, ``"failed"`` if the function raised an exception, or the reason why the process died.
    answer : object
        The result of the function, or the text of the exception with its stack. None if the process died.
    endless, late : bool
        Whether the process was ended because a step took too long, or because the whole call took too long.
    stack : str
        The stack of Python at the death, or "".
    note : tuple of str
        The last example that the process began, or ().
    """

    how: str
    answer: Any = None
    endless: bool = False
    late: bool = False
    stack: str = ""
    note: tuple = ()


def step(describe=None):
    """Begin a step in a child process: from now on, the time until the next step counts.

    Parameters
    ----------
    describe : callable, optional
        ``describe()`` returns a tuple of lines about a new example. Default: the example is the same as before.
    """
    if _limits is None:
        return
    seconds, memory = _limits
    if describe is not None:
        text = "\n".join(describe()).encode("utf-8", "replace")[: _NOTE_BYTES - 1]
        memory[: len(text) + 1] = text + b"\0"
    _set_timers(seconds)


def _set_timers(seconds):
    """Let a signal end this process after some seconds of processor time, or after a longer time. Zero: never."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(WAITING * seconds)


class Child:
    """A function call in a forked process. The attribute `pid` is None after its end.

    Parameters
    ----------
    function : callable
        A function whose result is picklable.
    timeout : float, optional
        Seconds after which `wait_for_one` kills the process.
    steps : int, optional
        The time limit for each step, in units of `STEP_SECONDS`. A step is the time between two calls of `step`.
    """

    def __init__(self, function, timeout=None, steps=None):
        self.timeout, self.seconds = timeout, None if steps is None else steps * STEP_SECONDS
        self._end = None if timeout is None else time.monotonic() + timeout
        self._chunks = []
        self._note = None if steps is None else mmap.mmap(-1, _NOTE_BYTES)
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(reader)
                self._serve(function, writer)
                code = 0
            finally:
                os._exit(code)  # neither run the parent's atexit handlers nor flush its buffers
        os.close(writer)
        self._stream = os.fdopen(reader, "rb", buffering=0)

    def _serve(self, function, writer):
        """Call the function in the child process, and write the answer, or the stack if the process dies."""
        global _limits
        faulthandler.enable(writer, all_threads=False)
        _limits = None
        if self.seconds is not None:
            # The signals end also C code that holds the lock of the interpreter.
            for number in _TIMERS:
                signal.signal(number, signal.SIG_DFL)
                faulthandler.register(number, writer, all_threads=False, chain=True)
            _limits = self.seconds, self._note
            step()
        try:
            answer = "ended", function()
        except Exception as failure:
            answer = "failed", "".join(traceback.format_exception(failure))
        except BaseException as failure:  # for example SystemExit, which would end a program
            name = type(failure).__name__
            answer = "%s: %s" % (name, failure) if str(failure) else name, "".join(traceback.format_exception(failure))
        _set_timers(0)
        data = pickle.dumps(answer)
        with os.fdopen(writer, "wb") as stream:
            stream.write(_ANSWER + data)

    def fileno(self):
        """The file descriptor from which `read` reads, so that `select` accepts the object."""
        return self._stream.fileno()

    def seconds_left(self):
        """Return the time in seconds until the timeout, or None without a timeout."""
        return None if self._end is None else max(self._end - time.monotonic(), 0)

    def read(self):
        """Read a part of the answer. Return True if it is complete."""
        chunk = self._stream.read(1 << 16)
        self._chunks.append(chunk)
        return not chunk

    def end(self, complete):
        """End the process.

        Parameters
        ----------
        complete : bool
            Whether `read` has returned True. Otherwise the process is killed.

        Returns
        -------
        Ending
        """
        if not complete:
            os.kill(self.pid, signal.SIGKILL)
        self._stream.close()
        status = os.waitpid(self.pid, 0)[1]
        self.pid = None
        text, _, data = b"".join(self._chunks).partition(_ANSWER)
        stack = _own_part(text.decode("utf-8", "replace"))
        if not complete:
            return self._died("it was still running after %.0f s" % (self.timeout or 0), stack, late=True)
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            if number in _TIMERS and self.seconds is not None:
                return self._died("one step was still running after %d s" % self.seconds, stack, endless=True)
            return self._died("signal %s" % signal.Signals(number).name, stack)
        if not data:
            return self._died("exit code %s" % os.WEXITSTATUS(status), stack)
        how, answer = pickle.loads(data)
        return Ending(how, answer) if how in ("ended", "failed") else self._died(how, answer)

    def _died(self, how, stack, endless=False, late=False):
        note = b"" if self._note is None else bytes(self._note).partition(b"\0")[0]
        return Ending(how, None, endless, late, stack, tuple(note.decode("utf-8", "replace").splitlines()))


def _own_part(stack):
    """Return the part of a stack, most recent call first, that the function of a `Child` has called."""
    lines = stack.splitlines(keepends=True)
    end = next((i for i, line in enumerate(lines) if '"%s"' % __file__ in line and "in _serve" in line), len(lines))
    return "".join(lines[:end])


def wait_for_one(children):
    """Wait until one of several processes has ended, or is out of time. Return the `Child` and its `Ending`.

    Parameters
    ----------
    children : sequence of Child
    """
    import select as system

    while True:
        left = [seconds for child in children if (seconds := child.seconds_left()) is not None]
        ready = system.select(children, [], [], min(left, default=None))[0]
        for child in ready:
            if child.read():
                return child, child.end(True)
        for child in children:
            if child.seconds_left() == 0:
                return child, child.end(False)


def end_all(children):
    """End processes whose answers are not needed any longer, for instance after KeyboardInterrupt."""
    for child in children:
        if child.pid is not None:
            child.end(False)


def in_child(function, timeout=None, steps=None):
    """Call a function in a forked process, and return the `Ending`.

    Parameters
    ----------
    function : callable
        A function whose result is picklable.
    timeout, steps : optional
        See `Child`.

    Raises
    ------
    AuditError
        If the function raises an exception.
    """
    child = Child(function, timeout, steps)
    try:
        ending = wait_for_one([child])[1]
    finally:
        end_all([child])
    if ending.how == "failed":
        raise failed(ending)
    return ending


def failed(ending):
    """Return the AuditError for the `Ending` of a process whose function raised an exception."""
    return AuditError("the audit itself failed:\n%s" % ending.answer)


def limited(function, room=1 << 29):
    """Call a function, and let it allocate at most `room` bytes of additional memory.

    An Op that uses a large example value as a length then fails early. Without the limit, the Op would spend more time
    on filling memory than the rest of the check takes. If the system does not support the limit, none is set."""
    try:
        import resource
    except ImportError:  # the module does not exist on this system
        return function()
    try:
        with open("/proc/self/statm") as stream:
            used = int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return function()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY and used + room > hard:
        return function()
    resource.setrlimit(resource.RLIMIT_AS, (used + room, hard))
    try:
        return function()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
