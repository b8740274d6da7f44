"""A lock that a ``with`` block can always release.

The ``__exit__`` of Python's own locks takes its arguments as a tuple. If there is no memory for this tuple, the lock
stays locked. `Lock.__exit__` allocates no memory and runs no Python code, so that no signal handler can raise an
exception before the lock is released.
"""

import threading


cdef class Lock:
    """A reentrant lock like `threading.RLock`, but its ``__exit__`` allocates no memory."""

    cdef readonly object acquire, release, _is_owned, _at_fork_reinit

    def __cinit__(self):
        lock = threading.RLock()
        self.acquire, self.release = lock.acquire, lock.release
        self._is_owned, self._at_fork_reinit = lock._is_owned, lock._at_fork_reinit

    def __enter__(self):
        self.acquire()

    def __exit__(self, kind=None, failure=None, trace=None):
        self.release()
