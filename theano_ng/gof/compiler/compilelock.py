"""A lock on a compile directory, for processes that need exclusive access.

The caches do not need this lock. Each cache entry has a separate lock while it is compiled (see
`kernelcache.UnitLock`), and is published by one rename. The operating system manages the lock of this module, so the
lock ends with the process that holds it. A lock file that was left behind blocks no process.
"""

import os
import time
from contextlib import contextmanager

from theano_ng.configdefaults import config
from theano_ng.gof.compiler import kernelcache, trust

PY3 = True
LOCK_NAME = ".lock"
hostname = os.uname().nodename if hasattr(os, "uname") else "localhost"

_held = {}  # lock file -> (filelock.FileLock, depth)


def _lock_file(lock_dir):
    return os.path.join(trust.directory(config.compiledir) if lock_dir is None else lock_dir, LOCK_NAME)


def set_lock_status(use_lock):
    """Enable (the default) or disable locking, for this lock and for the locks of cache entries.

    Parameters
    ----------
    use_lock : bool
        Whether to use locks. Without locks, several processes may compile the same code at the same time. The results
        are still correct.
    """
    kernelcache.use_locks = bool(use_lock)


@contextmanager
def lock_ctx(lock_dir=None, keep_lock=False, **kw):
    """Hold the lock on a directory inside a ``with`` block.

    Parameters
    ----------
    lock_dir : str, optional
        The directory. By default, `config.compiledir`.
    keep_lock : bool
        Whether to keep the lock at the end. `release_lock` then releases it.
    **kw
        The parameter `timeout` of `get_lock`.
    """
    get_lock(lock_dir, **kw)
    try:
        yield
    finally:
        if not keep_lock:
            release_lock(lock_dir)


def get_lock(lock_dir=None, timeout=None, min_wait=None, max_wait=None, verbosity=0):
    """Acquire the lock on a directory. A process may acquire it several times.

    Parameters
    ----------
    lock_dir : str, optional
        The directory. By default, `config.compiledir`. It is created if necessary.
    timeout : float, optional
        The time to wait in seconds. By default, `config.compile.timeout`. If it is negative, wait without limit.
    min_wait, max_wait : float, optional
        The first and the longest pause between two attempts, in seconds. By default, 0.05 and `config.compile.wait`.
    verbosity : int
        If above 0, report on the standard error stream that this process waits for another process.

    Raises
    ------
    TimeoutError
        If another process holds the lock during all this time.
    """
    if not kernelcache.use_locks:
        return
    if lock_dir is None:
        trust.make_directory(trust.directory(config.compiledir))
    lock(os.path.dirname(_lock_file(lock_dir)), timeout, min_wait, max_wait, verbosity)


def lock(tmp_dir, timeout=None, min_wait=None, max_wait=None, verbosity=1):
    """Acquire the lock on a directory; see `get_lock`."""
    import filelock

    path = os.path.join(tmp_dir, LOCK_NAME)
    os.makedirs(tmp_dir, exist_ok=True)
    holder, depth = _held.get(path, (None, 0))
    if holder is None:
        holder = filelock.FileLock(path)
        longest = config.compile.wait if max_wait is None else max_wait
        pause = min(0.05 if min_wait is None else min_wait, longest)
        try:
            holder.acquire(timeout=0)
        except filelock.Timeout:
            if verbosity > 0:
                import sys

                sys.stderr.write("waiting for another process to release the lock on %s\n" % tmp_dir)
            timeout = config.compile.timeout if timeout is None else timeout
            deadline = None if timeout < 0 else time.monotonic() + timeout
            while True:
                if deadline is not None:
                    pause = min(pause, max(deadline - time.monotonic(), 0))
                time.sleep(pause)
                try:
                    holder.acquire(timeout=0)
                    break
                except filelock.Timeout:
                    if deadline is not None and time.monotonic() >= deadline:
                        raise TimeoutError(
                            "another process has held the lock on %s for %s seconds; end it, wait longer "
                            "(THEANO_FLAGS=compile.timeout=...), or choose another directory (THEANO_FLAGS=base_compiledir=...)"
                            % (tmp_dir, timeout)
                        ) from None
                pause = min(1.5 * pause, longest)
    _held[path] = holder, depth + 1


_get_lock = get_lock


def release_lock(lock_dir=None):
    """Release the lock on a directory. It has to be released once for each time that it was acquired."""
    path = _lock_file(lock_dir)
    holder, depth = _held.get(path, (None, 0))
    if depth > 1:
        _held[path] = holder, depth - 1
    elif holder is not None:
        del _held[path]
        holder.release()


def refresh_lock(lock_file):
    """Record that a lock is still in use. Locks do not expire here, so this only updates the file's time.

    Parameters
    ----------
    lock_file : str

    Returns
    -------
    str
        The identity of the holder: process and host.
    """
    os.utime(lock_file)
    return "%d_%s" % (os.getpid(), hostname)


def force_unlock():
    """Remove the lock files of `config.compiledir` and of entries under compilation, whichever process holds them.

    Locks end with their processes. This function is for file systems on which locks can remain.
    """
    Unlocker(trust.directory(config.compiledir)).unlock(force=True)


class Unlocker:
    """An object that removes the locks in a directory.

    Parameters
    ----------
    tmp_dir : str
    """

    def __init__(self, tmp_dir):
        self.tmp_dir = tmp_dir

    def unlock(self, force=False):
        """Release this process's lock. If `force` is true, remove all lock files."""
        while os.path.join(self.tmp_dir, LOCK_NAME) in _held:
            release_lock(self.tmp_dir)
        if force:
            for folder in (self.tmp_dir, os.path.join(self.tmp_dir, "kernels")):
                try:
                    names = os.listdir(folder)
                except OSError:
                    continue
                for name in names:
                    if name == LOCK_NAME or name.startswith("lock-"):
                        try:
                            os.unlink(os.path.join(folder, name))
                        except OSError:
                            pass
