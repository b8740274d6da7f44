"""Tests of deferred calls: each call runs once, soon, and at the latest when the process exits.

The calls run in the order in which they were queued. After a fork, only one of the two processes runs them.
"""

import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

from theano_ng.gof import deferred as module
from theano_ng.gof.deferred import DeferredCalls


class TestLater(unittest.TestCase):
    def test_in_order_by_another_thread(self):
        done, later, end = [], DeferredCalls(), threading.Event()
        for i in range(3):
            later(lambda i=i: done.append((i, threading.get_ident())))
        later(end.set)
        self.assertTrue(end.wait(60))
        self.assertEqual([i for i, _ in done], [0, 1, 2])
        self.assertNotIn(threading.get_ident(), [thread for _, thread in done])

    def test_after_the_first_thread_has_ended(self):
        later = DeferredCalls()
        for _ in range(3):
            end = threading.Event()
            later(end.set)
            self.assertTrue(end.wait(60))
            deadline = time.monotonic() + 60
            while later._begun and time.monotonic() < deadline:
                time.sleep(0.001)

    def test_finish(self):
        """`finish` returns when all queued calls have run, including calls that these calls have queued.

        If a call raises an error, the other calls still run.
        """
        done, later = [], DeferredCalls()
        with mock.patch.object(module, "PAUSE", 60):
            later(lambda: later(lambda: done.append(1)))
            later(lambda: 1 / 0)
            later(lambda: done.append(2))
            self.assertEqual(done, [])
            later.finish()
        self.assertEqual(done, [2, 1])

    def test_forget(self):
        done, later = [], DeferredCalls()
        with mock.patch.object(module, "PAUSE", 60):
            later(lambda: done.append(1))
            later.forget()
            later(lambda: done.append(2))
            later.finish()
        self.assertEqual(done, [2])

    def test_without_threads(self):
        done, later = [], DeferredCalls()
        with mock.patch.object(module._thread, "start_new_thread", side_effect=RuntimeError("can't start new thread")):
            later(lambda: done.append(1))
            later(lambda: done.append(2))
        self.assertEqual(done, [1, 2])

    def test_end_of_the_process(self):
        program = """
import os, time
from theano_ng.gof.deferred import run_later
run_later(lambda: os.write(1, b"written\\n"))
%s
"""
        for ending, expected in (
            ("", "written\n"),
            ("raise SystemExit(0)", "written\n"),
            ("os._exit(0)", ""),
            ("time.sleep(1); os._exit(0)", "written\n"),
            ("pid = os.fork()\nif pid: os.waitpid(pid, 0)", "written\n"),
        ):
            with self.subTest(ending=ending):
                done = subprocess.run([sys.executable, "-c", program % ending], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr)


if __name__ == "__main__":
    unittest.main()
