"""Calls of functions in child processes, and with a limit on the memory."""

import os
import pickle
import signal
import time

from theano_ng.audit.problems import AuditError


class Child:
    """A function call in a forked process.

    Parameters
    ----------
    function : callable
        A function whose result is picklable.
    timeout : float, optional
        Seconds after which `wait` kills the process.
    """

    def __init__(self, function, timeout=None):
        self.timeout = timeout
        self._end = None if timeout is None else time.monotonic() + timeout
        self._chunks = []
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(reader)
                try:
                    answer = pickle.dumps((True, function()))
                except BaseException as failure:
                    import traceback

                    answer = pickle.dumps((False, "".join(traceback.format_exception(failure))))
                with os.fdopen(writer, "wb") as stream:
                    stream.write(answer)
                code = 0
            finally:
                os._exit(code)  # neither run the parent's atexit handlers nor flush its buffers
        os.close(writer)
        self._stream = os.fdopen(reader, "rb", buffering=0)

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
        """End the process, and return its answer; see `in_child`.

        Parameters
        ----------
        complete : bool
            Whether `read` has returned True. Otherwise the process is killed.
        """
        if not complete:
            os.kill(self.pid, signal.SIGKILL)
        self._stream.close()
        status = os.waitpid(self.pid, 0)[1]
        data = b"".join(self._chunks)
        if not complete:
            return "the check was still running after %.0f s" % (self.timeout or 0), None
        if os.WIFSIGNALED(status):
            return "signal %s" % signal.Signals(os.WTERMSIG(status)).name, None
        if not data:
            return "exit code %s" % os.WEXITSTATUS(status), None
        fine, answer = pickle.loads(data)
        if not fine:
            raise AuditError("the audit itself failed:\n%s" % answer)
        return "ended", answer


def wait_for_one(children):
    """Wait until one of several processes has ended, or is out of time. Return the `Child` and its answer.

    Parameters
    ----------
    children : sequence of Child

    Returns
    -------
    (Child, (str, object))
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


def in_child(function, timeout=None):
    """Call a function in a forked process.

    Parameters
    ----------
    function : callable
        A function whose result is picklable.
    timeout : float, optional
        Seconds after which the process is killed.

    Returns
    -------
    (str, object)
        A description of how the process ended, and the result of the function. The result is None if the process died
        or was killed.

    Raises
    ------
    AuditError
        If the function raises an exception.
    """
    return wait_for_one([Child(function, timeout)])[1]


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
