"""Tests of kernels that are compiled in the background: switches to finished kernels; exits, forks and failures."""

import os
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.configdefaults import config
from theano_ng.configparser import change_flags
from theano_ng.gof.compiler import background
from theano_ng.gof.compiler.kernelcache import KernelCache
from theano_ng.gof.native import Kernel

HEAD = """
import os, signal, sys, time, threading
import numpy as np, theano_ng as theano, theano_ng.tensor as T
from theano_ng.gof.compiler import background
from theano_ng.gof.compiler.kernelcache import KernelCache
from theano_ng.gof.native import Kernel
x = T.dvector("x")
values = np.linspace(0, 1, 1000)
def function(k):
    y = T.exp(x * %d)
    for _ in range(k):
        y = T.tanh(y) + x
    return theano.function([x], y)
def interpreted(f):
    return sum(t.interprets() for t in f.fn.thunks if hasattr(t, "interprets"))
def units():
    folder = background.get_kernel_cache().directory
    return [n for n in os.listdir(folder) if n.startswith("k")] if os.path.isdir(folder) else []
"""


@unittest.skipUnless(config.cxx and hasattr(os, "posix_spawn"), "there is no compiler that could run in the background")
class TestBackground(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        # Kernels contain this random number, so no earlier test has compiled them.
        self.number = int.from_bytes(os.urandom(4), "little")

    def run_program(self, text, flags="tiered=auto", wait=True):
        environment = dict(os.environ, THEANO_FLAGS="base_compiledir=%s,%s" % (self.folder, flags))
        done = subprocess.Popen(
            [sys.executable, "-c", HEAD % self.number + text],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        if not wait:
            return done
        out, err = done.communicate(timeout=120)
        self.assertEqual(done.returncode, 0, err)
        return out.split()

    def test_change_over(self):
        """A function is interpreted until its kernel is compiled.

        The results of the interpreter and of the kernel agree to 1e-15.
        """
        out = self.run_program(
            """
f = function(3)
before = f(values)
pending = interpreted(f)
assert background.wait_for_kernels(60)
after = f(values)
np.testing.assert_allclose(after, before, rtol=1e-15)
print(pending, interpreted(f), len(units()))
"""
        )
        self.assertEqual(out, ["1", "0", "1"])

    def test_off(self):
        """With tiered=off, `function` compiles the kernel before it returns."""
        out = self.run_program("f = function(3); print(interpreted(f), len(units()))", "tiered=off")
        self.assertEqual(out, ["0", "1"])

    def test_found_in_cache(self):
        """A cached kernel runs from the first call, also with tiered=on."""
        text = "f = function(3); print(interpreted(f)); f(values); assert background.wait_for_kernels(60); print(interpreted(f))"
        self.assertEqual(self.run_program(text), ["1", "0"])
        self.assertEqual(self.run_program(text), ["0", "0"])
        self.assertEqual(self.run_program(text, "tiered=on"), ["0", "0"])

    def test_what_cannot_be_used(self):
        """A library file of the kernel cache (a unit) that is damaged or too old is not used but compiled again."""
        text = """
f = function(3); f(values); pending = interpreted(f)
assert background.wait_for_kernels(60)
print(pending, interpreted(f))
folder = background.get_kernel_cache().directory
units = [os.path.join(folder, n) for n in os.listdir(folder) if n.startswith("u")]
"""
        self.run_program(text + "for u in units: os.utime(u, (10**9, 10**9))")
        self.assertEqual(
            self.run_program(text + "for u in units: open(u, 'a').write('x')", "cmodule.age_thresh_use=100"), ["1", "0"]
        )
        self.assertEqual(
            self.run_program(
                "f = function(3); f(values); print(interpreted(f), background.wait_for_kernels(60), interpreted(f))"
            ),
            ["1", "True", "0"],
        )

    def test_profile(self):
        """A profile reports how many runs were interpreted."""
        out = self.run_program(
            """
y = T.exp(x * 2) + x
f = theano.function([x], y, profile=True)
f(values)
assert background.wait_for_kernels(60)
f(values)
print(sum(f.profile.apply_interpreted.values()), sum(f.profile.apply_callcount.values()))
"""
        )
        self.assertEqual(out, ["1", "2"])

    def test_process_that_ends_early(self):
        """Requested kernels are compiled and stored in the cache, even if the process ends before they are compiled.

        No temporary files remain.
        """
        for ending in ("", "time.sleep(0.1); os._exit(0)"):
            with self.subTest(ending=ending):
                self.number += 1
                self.run_program("f = function(3); f(values); " + ending)
                deadline = time.monotonic() + 60
                while time.monotonic() < deadline:
                    names = [n for _, _, files in os.walk(self.folder) for n in files]
                    left = any(n.startswith(("tmp-", "lock-")) for n in names)
                    if any(n.startswith("k") for n in names) and not left:
                        break
                    time.sleep(0.05)
                else:
                    self.fail("left: %s" % names)
                self.assertEqual(self.run_program("f = function(3); print(interpreted(f))"), ["0"])

    def test_process_that_is_gone_at_once(self):
        """A process that exits before the compiler starts leaves no files.

        The compiler starts after the first result has been computed.
        """
        self.run_program("f = function(3); f(values); assert not background._background._jobs; os._exit(0)")
        names = [n for _, _, files in os.walk(self.folder) for n in files]
        self.assertFalse([n for n in names if n.startswith(("k", "u", "tmp-", "lock-"))], names)

    def test_directory_that_cannot_be_written(self):
        """A cache directory that cannot be written causes one warning.

        No files remain, no matter when the process ends.
        """
        path = os.path.join(self.folder, "file")
        open(path, "w").close()
        for ending in ("", "time.sleep(0.1)", "assert background.wait_for_kernels(60) and not interpreted(f)"):
            with self.subTest(ending=ending), tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
                text = "import tempfile; tempfile.tempdir = %r; f = function(3); f(values); %s" % (temporary, ending)
                done = self.run_program(text, "tiered=auto,base_compiledir=" + os.path.join(path, "cache"), wait=False)
                _, err = done.communicate(timeout=120)
                self.assertEqual((done.returncode, err.count("UserWarning")), (0, 1), err)
                self.assertRegex(err, "cannot be written")
                self.assertEqual(os.listdir(temporary), [])

    def test_fork_at_once(self):
        """A forked child starts the compiler if its parent has not started it before the fork."""
        out = self.run_program(
            """
reader, writer = os.pipe()
f = function(3)
if os.fork() == 0:
    ok = background.wait_for_kernels(60) and not interpreted(f)
    os.write(writer, b"swapped" if ok else b"not")
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]), os.read(reader, 9).decode())
sys.stdout.flush()
os._exit(0)
"""
        )
        self.assertEqual(out, ["0", "swapped"])

    @unittest.skipUnless(sys.platform.startswith("linux"), "the compiler is wrapped by a shell script")
    def test_compiler_that_does_not_know_a_flag(self):
        """A compiler that does not know a flag is called without this flag."""
        wrapper = os.path.join(self.folder, "compiler")
        with open(wrapper, "w") as file:
            file.write(
                "#!/bin/sh\nfor word; do if [ $word = -fno-tree-sink ]; then echo 'error: no such flag'; exit 1; fi; done\n"
                'exec %s "$@"\n' % config.cxx
            )
        os.chmod(wrapper, 0o700)
        out = self.run_program(
            "f = function(3); f(values); assert background.wait_for_kernels(60); f(values); print(interpreted(f), len(units()))",
            "tiered=auto,cxx=" + wrapper,
        )
        self.assertEqual(out, ["0", "1"])

    def test_what_nobody_has_thought_of(self):
        """An unexpected error in a compile job causes one warning.

        Afterwards, the kernel of another function is compiled as usual.
        """
        out = self.run_program(
            """
import warnings
from unittest import mock
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with mock.patch.object(background.Job, "ended", side_effect=RuntimeError("unheard of")):
        f = function(3)
        assert background.wait_for_kernels(60)
    f(values)
    g = function(4)
    assert background.wait_for_kernels(60)
print(sum("unheard of" in str(w.message) for w in caught), interpreted(g), len(units()) >= 1)
"""
        )
        self.assertEqual(out, ["1", "0", "True"])

    def test_threads(self):
        """Four threads that call a function get correct results while its kernel is being installed."""
        out = self.run_program(
            """
f = function(3)
expected, wrong = f(values), []
def work():
    g = f.copy()
    end = time.time() + 1.5
    while time.time() < end:
        if not np.allclose(g(values), expected, rtol=1e-14):
            wrong.append(1)
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
assert background.wait_for_kernels(60)
print(len(wrong), interpreted(f))
"""
        )
        self.assertEqual(out, ["0", "0"])

    def test_fork(self):
        """A process and its forked child both get the kernels that were pending at the fork."""
        out = self.run_program(
            """
f = function(3)
expected = f(values)
pid = os.fork()
if pid == 0:
    ok = background.wait_for_kernels(60) and not interpreted(f) and np.allclose(f(values), expected, rtol=1e-14)
    os._exit(0 if ok else 1)
assert background.wait_for_kernels(60)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), interpreted(f))
"""
        )
        self.assertEqual(out, ["0", "0"])

    def test_compiler_that_is_killed(self):
        """A compiler that is killed is started once more.

        If it is killed again, a warning is given and the function stays interpreted.
        """
        out = self.run_program(
            """
import warnings
warnings.simplefilter("always")
rng = np.random.RandomState(int(os.environ.get("KILL_SEED", "0")))
for k in range(6):
    f = function(2 + k)
    expected = f(values)
    time.sleep(rng.rand() * 0.08)
    for job in list(background._background._jobs):
        try:
            os.killpg(job.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    assert background.wait_for_kernels(60)
    assert np.allclose(f(values), expected, rtol=1e-14)
folder = background.get_kernel_cache().directory
for name in units():
    os.stat(os.path.join(folder, name))
left = [n for n in os.listdir(folder) if n.startswith(("tmp-", "lock-"))]
print(len(units()), interpreted(f), len(left))
"""
        )
        self.assertEqual(out, ["6", "0", "0"])


@unittest.skipUnless(config.cxx and hasattr(os, "posix_spawn"), "there is no compiler that could run in the background")
class TestFailure(unittest.TestCase):
    def test_flags_are_those_of_the_request(self):
        """A kernel is compiled with the flags that were set when it was requested. Its cache key contains these flags.

        The flags may change, and the compiler may be unset, before the compilation starts.
        """
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        cache, kernel = KernelCache(folder.name), Kernel("void KERNEL(void) { }")
        with change_flags(**{"gcc.cxxflags": "-DONE"}):
            job = background.Job(cache, {cache.key(kernel): kernel})
        with change_flags(cxx="", **{"gcc.cxxflags": "-DTWO"}):
            job.start()
            while not job.ended():
                time.sleep(0.01)
            self.assertIsNone(job.failure())
        self.assertIn("-DONE", job.command)
        self.assertNotIn("-DTWO", job.command)
        with change_flags(**{"gcc.cxxflags": "-DONE"}):
            self.assertNotEqual(cache.address(cache.key(kernel)), 0)

    def test_compiler_error(self):
        """A kernel that does not compile causes one warning, and its function stays interpreted.

        The warning contains the path of a file with the source code and the compiler's messages.
        """
        x = T.dvector("x")
        number = int.from_bytes(os.urandom(4), "little")
        with (
            warnings.catch_warnings(record=True) as caught,
            change_flags(tiered="auto", **{"gcc.cxxflags": "-fno-such-flag"}),
        ):
            warnings.simplefilter("always")
            f = theano.function([x], x * number + T.cos(x), mode="FAST_RUN")
            values = np.linspace(0, 1, 100)
            np.testing.assert_allclose(f(values), values * number + np.cos(values), rtol=1e-14)
            self.assertTrue(background.wait_for_kernels(60))
            np.testing.assert_allclose(f(values), values * number + np.cos(values), rtol=1e-14)
        messages = [str(w.message) for w in caught if "interpreted" in str(w.message)]
        self.assertEqual(len(messages), 1, caught)
        self.assertRegex(messages[0], r"1 kernels could not be compiled.*theano_ng_compilation_error_")


class TestMemoryRunsOut(unittest.TestCase):
    """Tests of compile jobs, and of the thread that watches the jobs, if a step of either runs out of memory.

    The steps that follow the failed step must work as usual.
    """

    def setUp(self):
        self.background = background.Background()

    def test_no_memory_to_start_the_thread(self):
        self.background._jobs.append(mock.Mock())
        with mock.patch.object(background._thread, "start_new_thread", side_effect=MemoryError):
            self.assertRaises(MemoryError, self.background._start_watcher)
        with mock.patch.object(background._thread, "start_new_thread") as started:
            self.background._start_watcher()
        started.assert_called_once()

    def test_no_memory_in_the_thread(self):
        self.background._watched = True
        job = mock.Mock(pid=None, kernels=[])
        self.background._jobs.append(job)
        settled = mock.Mock(side_effect=[MemoryError, True])
        with mock.patch.object(self.background, "_is_over", settled):
            self.background._watch()
        self.assertEqual((self.background._jobs, self.background._watched), ([], False))

    def test_no_memory_to_start_the_next_job(self):
        self.background._watched = True
        first, second = [mock.Mock(pid=None, kernels=[]) for _ in range(2)]
        self.background._jobs.append(first)
        self.background._queue.append(second)
        start, refused = self.background._start, [MemoryError]

        def start_if_there_is_memory():
            if refused:
                raise refused.pop()
            start()

        with mock.patch.object(self.background, "_start", start_if_there_is_memory):
            self.background._watch()
        self.assertEqual((self.background._jobs, self.background._queue, self.background._watched), ([], [], False))

    def test_what_is_queued_is_begun_by_who_waits(self):
        job = mock.Mock(kernels=[])
        self.background._queue.append(job)  # as if `run_later` had failed
        self.assertTrue(self.background.wait(60))
        self.assertEqual(self.background._queue, [])

    @unittest.skipUnless(config.cxx and background.AVAILABLE, "there is no compiler that could run in the background")
    def test_files_of_a_compiler_that_is_not_started(self):
        with tempfile.TemporaryDirectory() as folder:
            job = background.Job(KernelCache(folder), {"key": Kernel("int theano_ng_test;")})
            with mock.patch.object(background.os, "posix_spawn", side_effect=MemoryError):
                self.assertRaises(MemoryError, job.start)
            self.assertEqual([name for name in os.listdir(job.cache.directory) if name.startswith("tmp-")], [])


if __name__ == "__main__":
    unittest.main()
