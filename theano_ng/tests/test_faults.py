"""Tests of faults: missing compilers, unusable directories, killed processes, exhausted memory, errors in C code."""

import glob
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import theano_ng as theano
from theano_ng.configdefaults import config, default_cxx
from theano_ng.tests import allocation_faults

TRAINING_STEP = """
import numpy as np
import theano_ng as theano
from theano_ng import tensor as tt

x, labels = tt.matrix("x"), tt.lvector("labels")
w = theano.shared(np.linspace(-1, 1, 12).reshape(4, 3), "w")
p = tt.nnet.softmax(tt.dot(x, w))
cost = -tt.log(p[tt.arange(2), labels]).mean() + .01 * (tt.tanh(w) ** 2).sum()
f = theano.function([x, labels], cost, updates=[(w, w - .1 * theano.grad(cost, w))])
print(*[round(float(f(np.arange(8.).reshape(2, 4) / 8, [0, 2])), 10) for i in range(3)])
"""

BROKEN_OP = """
import theano_ng as theano
from theano_ng import tensor as tt

class Twice(theano.Op):
    __props__ = ()
    def make_node(self, x):
        return theano.Apply(self, [x], [x.type()])
    def c_code(self, node, name, inputs, outputs, sub):
        return '''
            %s = this_is_no_function(%s);
        ''' % (outputs[0], inputs[0])
    def c_code_cache_version(self):
        return (1,)

x = tt.dvector("x")
theano.function([x], Twice()(x))
"""


def start(code, folder, flags="", path=None, **options):
    environment = dict(
        os.environ,
        THEANO_FLAGS="base_compiledir=%s%s" % (folder, flags),
        PYTHONPATH=os.path.dirname(os.path.dirname(os.path.abspath(theano.__file__))),
    )
    if path is not None:
        environment["PATH"] = path
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def no_files():
    """Forbid this process to write to files, as on a full disk. A child process calls this function at its start."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


class TestMachines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            out, err = start(TRAINING_STEP, folder).communicate(timeout=120)
        if err:
            raise AssertionError(err)
        cls.wanted = [float(word) for word in out.split()]

    def assert_trains(self, process):
        """Check that the process prints the expected costs; return its warnings."""
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        for got, want in zip(out.split(), self.wanted, strict=True):
            self.assertAlmostEqual(float(got), want, 8)
        return err

    def test_costs_are_right(self):
        self.assertEqual(len(self.wanted), 3)
        self.assertGreater(self.wanted[0], self.wanted[1])

    def test_no_compiler(self):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            for flags, path in ((",cxx=", None), ("", folder)):
                self.assertEqual(self.assert_trains(start(TRAINING_STEP, folder, flags, path)), "")
            # The program needs no compiler. If the flag cxx names a missing compiler, it still runs, possibly with a
            # warning.
            self.assertNotIn("Traceback", self.assert_trains(start(TRAINING_STEP, folder, ",cxx=/no/such/g++")))

    def test_directories_of_no_use(self):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            name = os.path.join(folder, "file")
            open(name, "w").close()
            err = self.assert_trains(start(TRAINING_STEP, os.path.join(name, "cache")))
            # Without a compiler, the process does not need the directory and does not warn.
            self.assertEqual(
                (err.count("UserWarning"), "cannot be written" in err), (1, True) if default_cxx() else (0, False), err
            )
            # Damage all entries. Without tiers, no compiler still writes when the process has ended.
            cache = os.path.join(folder, "cache")
            self.assertEqual(self.assert_trains(start(TRAINING_STEP, cache, ",tiered=off")), "")
            for path in sorted(glob.glob(os.path.join(cache, "**", "*"), recursive=True)):
                if os.path.isfile(path) and not os.path.islink(path):
                    os.chmod(path, 0o600)
                    with open(path, "r+b") as f:
                        f.truncate(os.path.getsize(path) // 2)
            self.assertEqual(self.assert_trains(start(TRAINING_STEP, cache)), "")
            self.assertEqual(self.assert_trains(start(TRAINING_STEP, cache)), "")

    def test_full_disk(self):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            process = start(TRAINING_STEP, folder, preexec_fn=no_files)
            out, err = process.communicate(timeout=120)
            if process.returncode:  # the process may fail with an error about compiling or about the size of files
                self.assertRegex(err.splitlines()[-1] + err, "compil|File too large|No space")
            else:
                self.assertEqual([float(w) for w in out.split()], self.wanted)
            # remaining files do not break the next process
            self.assertEqual(self.assert_trains(start(TRAINING_STEP, folder)), "")

    def test_many_processes_and_killed_ones(self):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            processes = [start(TRAINING_STEP, folder) for _ in range(14)]
            victims = [start(TRAINING_STEP, folder, start_new_session=True) for _ in range(2)]
            for i, victim in enumerate(victims):
                time.sleep(0.15 * i)
                os.killpg(victim.pid, signal.SIGKILL)
                victim.communicate()
            for process in processes:
                self.assertEqual(self.assert_trains(process), "")
            self.assertEqual(self.assert_trains(start(TRAINING_STEP, folder)), "")

    def test_killed_at_any_time(self):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            for delay in (0.2, 0.35, 0.5, 0.65):
                victim = start(TRAINING_STEP, folder, start_new_session=True)
                time.sleep(delay)
                os.killpg(victim.pid, signal.SIGKILL)
                victim.communicate()
            self.assertEqual(self.assert_trains(start(TRAINING_STEP, folder)), "")

    @unittest.skipUnless(default_cxx(), "needs a C++ compiler")
    def test_error_in_the_c_code_of_an_op(self):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            out, err = start(BROKEN_OP, folder).communicate(timeout=120)
        # The message ends with the node, the line and the error. A file has the code with line numbers, the command and
        # the compiler's output.
        self.assertRegex(
            err,
            r"Apply node that the code belongs to: Twice\(x\)\n.* Twice\.c_code: .*\nerror: .*this_is_no_function.*\n$",
        )
        path = re.search(r"are in (\S+)", err).group(1)
        with open(path) as file:
            listing = file.read()
        os.unlink(path)
        self.assertRegex(listing, r"(?m)^.*(g\+\+|clang\+\+|c\+\+).* -shared .*\.cpp")
        number = re.search(r"\.cpp:(\d+):\d+: error", listing).group(1)
        self.assertRegex(listing, r"(?m)^0*%s\s.*this_is_no_function" % number)


class TestDisturbances(unittest.TestCase):
    """Tests that signals and forks at any moment do no harm; ``make faults`` tries a thousand of each."""

    def check(self, what, times):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            process = start(
                "import sys; from theano_ng.tests import disturbances; disturbances.%s(%d)" % (what, times), folder
            )
            out, err = process.communicate(timeout=300)  # raises if the process does not end
            self.assertEqual(process.returncode, 0, out + err)
            # the entries in the cache are complete
            self.assertEqual(self.values(folder), self.values(folder, ",cxx=", tempfile.gettempdir()))

    def values(self, folder, flags="", path=None):
        program = "import numpy; from theano_ng.tests.disturbances import *; print(*[build(k)[0](numpy.ones(4)) for k in range(VARIANTS)])"
        out, err = start(program, folder, flags, path).communicate(timeout=300)
        self.assertEqual(err, "")
        return [round(float(word), 9) for word in out.split()]

    def test_signals(self):
        self.check("signals", 60)

    def test_each_moment_of_a_signal(self):
        self.check("moments", 9)

    @unittest.skipUnless(hasattr(os, "fork"), "this system has no fork")
    def test_forks(self):
        self.check("forks", 8)


# Names of functions to run. In each, every allocation fails in turn. ``make faults`` runs all such functions.
FAILING = (
    "rows_of_state",
    "streams",
    "order_of_nodes",
    "times_of_nodes",
    "a_lock",
    "what_compiling_changes_for_a_while",
)


class TestAllocations(unittest.TestCase):
    """Tests that a failing allocation causes no crash, leak or wrong state: each allocation fails in turn."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(folder.cleanup)
        try:
            cls.paths = allocation_faults.build(folder.name)
        except (OSError, subprocess.CalledProcessError):
            raise unittest.SkipTest("needs gcc, and the GNU C library, whose allocator can be replaced") from None

    def test_every_allocation(self):
        if config.mode == "DebugMode":
            # NpyIter_Reset of NumPy raises MemoryError without the interpreter lock, and PyContextVar_Set of CPython
            # dereferences a null pointer. Functions in other modes do not call them.
            self.skipTest("DebugMode calls functions of NumPy and CPython that crash if an allocation fails")
        for name in FAILING:
            for mode in (allocation_faults.ALONE, allocation_faults.ONWARD):
                with self.subTest(name, mode=mode):
                    count = allocation_faults.sweep(name, mode, self.paths)
                    self.assertEqual((count.wrong, count.leaks, count.crashes), ([], [], []))
                    self.assertGreater(count.positions, 0)

    def test_faults_are_found(self):
        for name, what in (("a_block_is_left", "blocks"), ("a_reference_is_left", "references")):
            with self.subTest(name):
                count = allocation_faults.sweep(name, allocation_faults.ALONE, self.paths)
                ((positions, grown),) = count.leaks
                self.assertEqual(len(positions), 1)
                self.assertIn(what, grown)
        for name, what in (
            ("state_is_torn", "state is torn"),
            ("a_flag_is_left", "flags, or thresholds of the collector, are left changed"),
        ):
            with self.subTest(name):
                count = allocation_faults.sweep(name, allocation_faults.ALONE, self.paths)
                self.assertEqual({wrong for _, _, wrong in count.wrong}, {what})


if __name__ == "__main__":
    unittest.main()
