"""Locks and children of `fork`.

A child has one thread, that which forked. A lock that another thread held at that moment is never given back in the child, and what it guards is
as it was in the middle of a change.
"""

import os
import threading

PATIENCE = 2.0  # seconds that a fork waits for a lock


class HeldOverForks:
    """Makes forks wait until a lock is free, for a while; so a child finds it free, and what it guards whole.

    Parameters
    ----------
    lock : threading.RLock
    reset : callable
        Called in a child for which the lock was not free in time: brings in order what another thread had begun.
    """

    def __init__(self, lock, reset):
        self.lock, self._reset = lock, reset
        self._forking = set()  # threads that fork, and hold the lock
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._before, after_in_parent=self._after, after_in_child=self._after_in_child)

    def _before(self):
        if self.lock.acquire(timeout=PATIENCE):
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
