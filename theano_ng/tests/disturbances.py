"""Tests that signals and forks at any moment of compiling and calling leave everything usable.

The commands are ``python -m theano_ng.tests.disturbances signals 1000``, ``moments 1`` and ``forks 1000``.

Functions are compiled and called many times. With `signals`, a signal handler raises KeyboardInterrupt at random
moments. With `moments`, a trace function raises it at each line of the modules that hold locks, in turn. With `forks`,
the process forks while another thread compiles and calls. Afterwards, state must be complete, other functions and their
kernels must work, and the process must end.
"""

import linecache
import os
import random
import signal
import sys
import threading
import time

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gof.compiler.background import wait_for_kernels

VARIANTS = 9
LIMIT = 120  # seconds for work that takes about a second


def build(k):
    """Return a function that changes two shared vectors in place, and these vectors. The graph depends on k."""
    x, a, c = T.dvector("x"), theano.shared(np.zeros(4), "a"), theano.shared(np.zeros(4), "c")
    y = T.tanh(x * (k + 2)) + k
    return theano.function([x], y.sum(), updates=[(a, a + x), (c, T.inc_subtensor(c[1:], x[1:]))]), a, c


def value(k):
    """Return the result of the function of `build` for a vector of ones."""
    return 4 * (np.tanh(k + 2.0) + k)


class Failed(Exception):
    pass


def check(condition, what):
    if not condition:
        raise Failed(what)


def flags():
    """Return the values of all flags."""
    return str(theano.config)


class Interrupt:
    """A signal handler that raises while it is armed."""

    armed = False

    def __call__(self, *_):
        if self.armed:
            raise KeyboardInterrupt


def signals(times, seed=0):
    """Compile and call while signals arrive."""
    rng, ones, interrupted = random.Random(seed), np.ones(4), 0
    theano.config.tiered = "on"  # each function starts on the interpreter, and another thread installs its kernels
    interrupt = Interrupt()
    signal.signal(signal.SIGALRM, interrupt)
    kept = [build(k) for k in range(VARIANTS)]
    begun = time.monotonic()
    for i in range(5):
        build(i)[0](ones)
    before = flags()
    span = (time.monotonic() - begun) / 4  # 1.25 times the average time of a function
    for i in range(times):
        k = i % VARIANTS
        f, a, c = kept[k]
        interrupt.armed = True
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.0001, span))
            try:
                build(i % max(VARIANTS, times // 20))
                for _ in range(20):
                    f(ones)
            finally:
                interrupt.armed = False
        except KeyboardInterrupt:
            interrupted += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        state = a.get_value()
        check((state == state[0]).all(), "state is torn: %s" % state)
        check((c.get_value()[1:] == state[1:]).all(), "updates are torn: %s and %s" % (state, c.get_value()))
        check(flags() == before, "flags are left changed")
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LIMIT)
    for k, (f, _, _) in enumerate(kept):
        np.testing.assert_allclose(f(ones), value(k))
        np.testing.assert_allclose(build(k)[0](ones), value(k))
    check(wait_for_kernels(LIMIT / 2), "kernels do not arrive")
    signal.alarm(0)
    print("%d signals, %d of them raised" % (times, interrupted))


# The modules that hold locks or change flags.
LOCKING = ("background.py", "deferred.py", "progress.py", "threading.py", "maker.py", "configparser.py")


class Tracer:
    """A trace function that raises KeyboardInterrupt at one event in the files of `LOCKING`.

    An event is the start of a line, or the start or end of a call. Lines with ``with`` do not count: the end of a
    ``with`` block is an event on this line, but the interpreter does not check for signals there.
    """

    def __init__(self, position):
        self.position, self.seen = position, 0

    def __call__(self, frame, event, argument):
        if os.path.basename(frame.f_code.co_filename) not in LOCKING:
            return None
        source = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if event != "exception" and not (event == "line" and source.lstrip().startswith("with ")):
            self.seen += 1
            if self.seen == self.position:
                raise KeyboardInterrupt
        return self


def moments(step):
    """Compile repeatedly. Each time, interrupt at another event of a `Tracer`: events 1, 1 + `step`, and so on."""
    theano.config.tiered = "on"
    ones = np.ones(4)
    for _ in range(2):
        build(0)[0](ones)
    check(wait_for_kernels(LIMIT / 2), "kernels do not arrive")
    tracer, position, before = None, 1, flags()
    while tracer is None or tracer.seen >= tracer.position:
        tracer = Tracer(position)
        sys.settrace(tracer)
        try:
            build(0)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        check(flags() == before, "after event %d: flags are left changed" % position)
        signal.alarm(LIMIT)
        np.testing.assert_allclose(build(0)[0](ones), value(0))
        # if this thread still holds a lock, only other threads wait for it; so let another thread wait for kernels
        other = threading.Thread(target=wait_for_kernels, args=[LIMIT / 4], daemon=True)
        other.start()
        other.join(LIMIT / 2)
        check(not other.is_alive(), "after event %d: a lock is held" % position)
        signal.alarm(0)
        position += step
    print("%d events" % tracer.seen)


def in_child(i, f):
    """In a child process, call the function that a thread of the parent may be calling, and compile another one."""
    signal.alarm(LIMIT)
    ones, k = np.ones(4), i % VARIANTS
    np.testing.assert_allclose(f(ones), value(0))
    g = build(k)[0]
    np.testing.assert_allclose(g(ones), value(k))
    check(wait_for_kernels(LIMIT / 2), "kernels do not arrive")


def forks(times):
    """Fork while another thread compiles and calls."""
    f, ending, ones = build(0)[0], [], np.ones(4)

    def compile_and_call():
        k = 0
        while not ending:
            k = (k + 1) % VARIANTS
            build(k)
            for _ in range(50):
                f(ones)

    thread = threading.Thread(target=compile_and_call)
    thread.start()
    failed = 0
    try:
        for i in range(times):
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    in_child(i, f)
                    status = 0
                finally:
                    if status:
                        import traceback

                        traceback.print_exc()
                    os._exit(status)
            failed += os.waitpid(pid, 0)[1] != 0
    finally:
        ending.append(True)
        thread.join()
    print("%d forks, %d children failed" % (times, failed))
    check(not failed, "children failed")


if __name__ == "__main__":
    {"signals": signals, "moments": moments, "forks": forks}[sys.argv[1]](int(sys.argv[2]))
