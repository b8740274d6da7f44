"""Calls of functions in child processes, and with a limit on the memory."""

import os
import pickle
import signal
import time

from theano_ng.audit.problems import AuditError


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
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
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
    data, ended = _read_all(reader, timeout)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if not ended:
        return "the check was still running after %.0f s" % timeout, None
    if os.WIFSIGNALED(status):
        return "signal %s" % signal.Signals(os.WTERMSIG(status)).name, None
    if not data:
        return "exit code %s" % os.WEXITSTATUS(status), None
    fine, answer = pickle.loads(data)
    if not fine:
        raise AuditError("the audit itself failed:\n%s" % answer)
    return "ended", answer


def _read_all(reader, timeout):
    """Read a pipe until it is closed or the time is over. Return the bytes, and True if the pipe was closed."""
    import select as system

    chunks, end = [], None if timeout is None else time.monotonic() + timeout
    with os.fdopen(reader, "rb", buffering=0) as stream:
        while True:
            left = None if end is None else end - time.monotonic()
            if left is not None and (left <= 0 or not system.select([stream], [], [], left)[0]):
                return b"".join(chunks), False
            chunk = stream.read(1 << 16)
            if not chunk:
                return b"".join(chunks), True
            chunks.append(chunk)


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
