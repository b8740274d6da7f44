"""Work that can wait until a function has returned its first result.

Such work fills a cache on disk, for example, or starts a compiler in the background. `run_later` runs it in a thread,
a short time after the request. If the process ends earlier, the work runs at the end of the process.
"""

import _thread
import atexit
import collections
import os
import time

from theano_ng.gof._lock import Lock

PAUSE = 0.01  # seconds
EXIT_TIMEOUT = 10.0  # maximum seconds that the end of the process waits for the current work of the thread


class DeferredCalls:
    """A queue of functions without arguments. Each function is called once, in order. Exceptions are ignored.

    Attributes
    ----------
    ending : bool
        True if the process is about to end. Work that helps only this process is then useless.
    """

    def __init__(self):
        self.ending = False
        self._todo = collections.deque()
        self._state = Lock()  # protects `_begun`
        self._working = Lock()
        self._begun = False

    def __call__(self, function):
        """Schedule a call of `function` in the thread. If no thread can be started, call it now."""
        # A signal handler may raise an exception between any two lines. Therefore start the thread before `_begun` is
        # set: an exception in between leads to a second thread. In the reverse order, no thread would run.
        self._todo.append(function)
        with self._state:
            if not self._begun and self._start():
                self._begun = True
        if not self._begun:
            self.finish()

    def _start(self):
        try:
            # Do not use threading.Thread: it waits until the thread has started, which takes long if few processors are
            # available.
            _thread.start_new_thread(self._run, ())
        except RuntimeError:  # no thread can be created, or the interpreter is about to end
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
        """Discard all remaining work."""
        with self._working:
            self._todo.clear()

    def at_exit(self):
        """Do the remaining work, unless the thread is busy for longer than `EXIT_TIMEOUT`. Set `ending`."""
        self.ending = True
        if self._working.acquire(timeout=EXIT_TIMEOUT):
            try:
                self._do_all()
            finally:
                self._working.release()

    def after_fork(self):
        """Discard all work in a forked child, because the parent does the work."""
        self.__init__()


run_later = DeferredCalls()
atexit.register(run_later.at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=run_later.after_fork)
