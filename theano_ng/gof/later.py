"""Work that can wait until after the first result of a function.

A user need not wait for work that fills a cache on disk, or that starts a compiler in the background. `later` runs such work in a thread, a
moment after it was requested, or at the end of the process if that comes first.
"""

import _thread
import atexit
import collections
import os
import time

from theano_ng.gof._lock import Lock

PAUSE = 0.01  # seconds
EXIT_PATIENCE = 10.0  # seconds that the end of the process waits for the work that the thread is doing


class Later:
    """Functions without arguments that are called once, in their order; what they raise is lost.

    Attributes
    ----------
    ending : bool
        Whether the process is about to end: what is left for this process alone is of no use any more.
    """

    def __init__(self):
        self.ending = False
        self._todo = collections.deque()
        self._state = Lock()  # of `_begun`
        self._working = Lock()
        self._begun = False

    def __call__(self, function):
        """Call a function in a moment, in the thread."""
        # A signal handler may raise between any two lines. So the thread is started before it is recorded: at worst there are two threads.
        self._todo.append(function)
        with self._state:
            if not self._begun and self._start():
                self._begun = True
        if not self._begun:
            self.finish()

    def _start(self):
        try:
            # threading.Thread would wait until it has begun, which takes long where processors are few.
            _thread.start_new_thread(self._run, ())
        except RuntimeError:  # no more threads, or the interpreter is about to end
            return False
        return True

    def _run(self):
        while True:
            time.sleep(PAUSE)
            self.finish()
            with self._state:
                if not self._todo:
                    self._begun = False
                    return

    def finish(self):
        """Do all remaining work now."""
        with self._working:
            self._do_all()

    def _do_all(self):
        while self._todo:
            try:
                self._todo.popleft()()
            except Exception:
                pass

    def forget(self):
        """Drop all remaining work."""
        with self._working:
            self._todo.clear()

    def at_exit(self):
        """Do the remaining work that other processes can use, unless the thread is busy for longer than `EXIT_PATIENCE`."""
        self.ending = True
        if self._working.acquire(timeout=EXIT_PATIENCE):
            try:
                self._do_all()
            finally:
                self._working.release()

    def after_fork(self):
        """Drop all work in a child: the parent does it."""
        self.__init__()


later = Later()
atexit.register(later.at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=later.after_fork)
