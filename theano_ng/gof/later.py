"""Work that can wait until the first result is there.

What fills a cache on the disk, or starts a compiler whose work is not waited for, is nothing that a user of a function needs before its first
call. `later` has it done by a thread, a moment after it was asked for, or when the process ends before that.
"""

import _thread
import atexit
import collections
import os
import threading
import time

PAUSE = 0.01  # seconds
EXIT_PATIENCE = 10.0  # seconds that the end of the process waits for what the thread is at


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
        self._state = threading.Lock()  # of `_begun`
        self._working = threading.RLock()
        self._begun = False

    def __call__(self, function):
        """Have a function called in a moment."""
        # A signal may raise between any two lines. So the thread is started before it is noted: there are two then, at the worst.
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
        """Do what has not been done yet, now."""
        with self._working:
            self._do_all()

    def _do_all(self):
        while self._todo:
            try:
                self._todo.popleft()()
            except Exception:
                pass

    def forget(self):
        """Do not do what has not been done yet."""
        with self._working:
            self._todo.clear()

    def at_exit(self):
        """Do now what others can use, unless the thread is at something that takes long."""
        self.ending = True
        if self._working.acquire(timeout=EXIT_PATIENCE):
            try:
                self._do_all()
            finally:
                self._working.release()

    def after_fork(self):
        """In a child: what was to be done is done by the parent."""
        self.__init__()


later = Later()
atexit.register(later.at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=later.after_fork)
