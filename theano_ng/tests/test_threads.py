"""Tests of functions that are called from several threads, or by Ops of other functions. Tests of forks."""

import os
import threading
import unittest
import unittest.mock

import numpy as np

import theano_ng as theano
from theano_ng import tensor as tt
from theano_ng.gof import forks


class Call(theano.Op):
    """A Python Op that calls a compiled function."""

    __props__ = ()

    def __init__(self, function=None):
        self.function = function

    def make_node(self, x):
        return theano.Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = self.function(inputs[0])


def in_threads(*targets):
    """Run callables concurrently; raise the first exception of any of them."""
    failures, barrier = [], threading.Barrier(len(targets))

    def guarded(target):
        try:
            barrier.wait()
            target()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(t,)) for t in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        if thread.is_alive():
            raise AssertionError("a thread hangs")
    if failures:
        raise failures[0]


class TestThreads(unittest.TestCase):
    def setUp(self):
        x = tt.dmatrix("x")
        self.count = theano.shared(np.zeros(()), "count")
        # The function calls BLAS and a Python Op, which let other threads run during a call.
        inner = theano.compile.as_op(itypes=[tt.dmatrix], otypes=[tt.dmatrix])(lambda v: np.exp(v - v.max()))
        self.f = theano.function(
            [x], [tt.dot(x, x.T).sum() + inner(x).sum() * 0, x.sum(axis=0)], updates=[(self.count, self.count + 1)]
        )

    def check(self, f, size, times=25):
        value = np.full((size, size + 1), float(size))
        for _ in range(times):
            total, rows = f(value)
            self.assertEqual(total, size**4 * (size + 1))
            np.testing.assert_array_equal(rows, np.full(size + 1, size * size))

    def test_one_function(self):
        in_threads(*[lambda n=n: self.check(self.f, n) for n in (3, 30, 61, 7)])
        self.assertEqual(self.count.get_value(), 100)

    def test_two_functions_with_a_common_shared_variable(self):
        twin = self.f.copy()
        in_threads(lambda: self.check(self.f, 40), lambda: self.check(twin, 41))

    def test_failures_in_one_thread_are_not_the_others(self):
        def fail():
            for _ in range(25):
                with self.assertRaises(ValueError):
                    self.f("no matrix")

        in_threads(fail, lambda: self.check(self.f, 20), fail)
        self.assertEqual(self.count.get_value(), 25)

    def test_compiling_in_threads(self):
        # Several threads concurrently build, rewrite and compile graphs. Some of the graphs are equal.
        results = [None] * 4

        def build(k):
            x = tt.dvector("x")
            f = theano.function([x], [tt.exp(x * (k // 2 + 2)).sum(), theano.grad(tt.tanh(x).sum(), x)])
            results[k] = f([0.5, 1.5])

        in_threads(*[lambda k=k: build(k) for k in range(4)])
        for k, (total, slope) in enumerate(results):
            np.testing.assert_allclose(total, np.exp(np.array([0.5, 1.5]) * (k // 2 + 2)).sum())
            np.testing.assert_allclose(slope, 1 - np.tanh([0.5, 1.5]) ** 2)

    def test_compiling_in_threads_leaves_global_state_alone(self):
        def flags():
            return theano.config.traceback.limit, theano.config.compute_test_value, tt.constant(1) is tt.constant(1)

        def build(k):
            x = tt.dvector("x")
            for i in range(4):
                theano.function([x], tt.tanh(x * (k + i)) + 1, mode=theano.Mode("py", "fast_run"))

        before = flags()
        with theano.change_flags(cache_graphs=False):
            in_threads(*[lambda k=k: build(k) for k in range(4)])
        self.assertEqual(flags(), before)
        self.assertTrue(before[-1])


class TestNested(unittest.TestCase):
    def test_function_inside_an_op_of_another(self):
        x = tt.dvector("x")
        inner = theano.function([x], tt.exp(x) * 2)
        outer = theano.function([x], Call(inner)(x + 1) + Call(inner)(x))
        np.testing.assert_allclose(outer([0.0, 1.0]), 2 * np.exp([1.0, 2.0]) + 2 * np.exp([0.0, 1.0]))
        in_threads(
            *[
                lambda: [
                    np.testing.assert_allclose(outer([k]), 2 * np.exp([k + 1.0]) + 2 * np.exp([k])) for k in range(20)
                ]
            ]
            * 3
        )

    def test_error_inside(self):
        x = tt.dvector("x")
        inner = theano.function([x], x.reshape((2, 2)).sum(axis=0))
        s = theano.shared(np.zeros(2), "s")
        outer = theano.function([x], Call(inner)(x), updates=[(s, s + 1)])
        with self.assertRaises(ValueError) as caught:
            outer(np.ones(3))
        self.assertIn("Apply node that caused the error: Reshape", str(caught.exception))
        np.testing.assert_array_equal(s.get_value(), [0, 0])
        np.testing.assert_array_equal(outer(np.ones(4)), [2, 2])
        np.testing.assert_array_equal(s.get_value(), [1, 1])

    def test_function_inside_itself(self):
        x = tt.dvector("x")
        op = Call()
        f = op.function = theano.function([x], op(x))
        with self.assertRaisesRegex(RuntimeError, "while it is running"):
            f([1.0])
        op.function = lambda v: v + 1
        np.testing.assert_array_equal(f([1.0]), [2.0])


@unittest.skipUnless(hasattr(os, "fork"), "this system has no fork")
class TestForks(unittest.TestCase):
    def in_child(self, check):
        """Run a check in a forked child, which prints its failure."""
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                check()
                status = 0
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_a_call_that_another_thread_was_in(self):
        """A process that is forked while another thread calls a function can call this function, too.

        In the child process, the call starts from the state before the interrupted call.
        """
        x, state = tt.dvector("x"), theano.shared(np.zeros(4), "state")
        inside, go_on = threading.Event(), threading.Event()

        def wait(v):
            inside.set()
            go_on.wait(60)
            return v + 0

        new = tt.inc_subtensor(state[1:], x[1:])
        f = theano.function([x], Call(wait)(new), updates=[(state, new)])
        thread = threading.Thread(target=f, args=[np.ones(4)])
        thread.start()
        inside.wait(60)

        def check():
            go_on.set()
            np.testing.assert_array_equal(f(np.ones(4)), [0, 1, 1, 1])
            np.testing.assert_array_equal(state.get_value(), [0, 1, 1, 1])

        self.in_child(check)
        go_on.set()
        thread.join(60)
        np.testing.assert_array_equal(state.get_value(), [0, 1, 1, 1])

    def test_a_lock_that_is_not_given_back(self):
        """`os.fork` waits for a `ForkSafeLock` that another thread holds, but not longer than a timeout.

        After a timeout, the child process releases the lock and resets the data that the lock guards.
        """
        lock, held, end, reset = threading.RLock(), threading.Event(), threading.Event(), []
        forks.ForkSafeLock(lock, lambda: reset.append(True))

        def hold():
            with lock:
                held.set()
                end.wait(60)

        thread = threading.Thread(target=hold)

        def check():
            self.assertTrue(lock.acquire(timeout=1))
            self.assertEqual(reset, [True] if thread.is_alive() or held.is_set() else [])

        self.in_child(check)
        thread.start()
        held.wait(60)
        with unittest.mock.patch.object(forks, "TIMEOUT", 0.05):
            self.in_child(check)
        end.set()
        thread.join()
        with lock:
            self.in_child(lambda: None)  # a thread that holds the lock itself can fork
        self.assertEqual(reset, [])


if __name__ == "__main__":
    unittest.main()
