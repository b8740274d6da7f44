"""Locks in children of `fork`.

A child has only the thread that forked. If another thread holds a lock when the process forks, the child's copy of the
lock is never released. The data that the lock guards may then be inconsistent.
"""

import os
import threading

TIMEOUT = 2.0  # maximum seconds that a fork waits for a lock


class ForkSafeLock:
    """A lock that is acquired before each fork, with a timeout.

    In the child process, the lock is therefore free, and the data that it guards are consistent.

    Parameters
    ----------
    lock : Lock
    reset : callable
        A function that is called in the child if the timeout expired. It repairs the data, because another thread may
        have been changing them when the process forked.
    """

    def __init__(self, lock, reset):
        self.lock, self._reset = lock, reset
        self._forking = set()  # threads that are forking and hold the lock
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._before, after_in_parent=self._after, after_in_child=self._after_in_child)

    def _before(self):
        if self.lock.acquire(timeout=TIMEOUT):
            self._forking.add(threading.get_ident())

    def _after(self):
        if threading.get_ident() in self._forking:
            self._forking.discard(threading.get_ident())
            self.lock.release()

    def _after_in_child(self):
        if threading.get_ident() in self._forking:
            self._after()
        else:
            self.lock._at_fork_reinit()
            self._reset()
        self._forking.clear()
