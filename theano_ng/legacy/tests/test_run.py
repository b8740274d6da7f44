"""``theano_ng-run`` runs programs as Python does, and restores removed names."""

import importlib
import os
import subprocess
import sys
import tempfile
import textwrap
import types
import unittest

import numpy as np
import scipy.special  # noqa: F401, used by tests that import only other modules of scipy

from theano_ng.legacy import removed

OLD = """
    import sys
    import theano
    import theano.tensor as T
    import numpy as np
    from collections import Iterable

    x = T.vector("x", dtype=np.dtype(np.float).name)
    for _ in range(3):
        f = theano.function([x], x * np.product([2, 3]))
    print(__name__, sys.argv[1:], f([1.0])[0], isinstance([], Iterable))
"""


class TestRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, text, name="program.py"):
        path = os.path.join(self.folder, name)
        with open(path, "w") as f:
            f.write(textwrap.dedent(text))
        return path

    def call(self, *arguments):
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
        return subprocess.run(
            [sys.executable, "-m", "theano_ng.legacy.run", *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=environment,
            timeout=120,
        )

    def test_program(self):
        path = self.write("import theano, helper\nprint(theano.__name__, helper.value, __name__)\n")
        self.write("value = 7\n", "helper.py")
        done = self.call(path)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "theano_ng 7 __main__\n", ""))
        done = self.call("-m", "program", "-m", "x")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "theano_ng 7 __main__\n", ""))

    def test_removed_names(self):
        path = self.write(OLD)
        done = self.call(path)
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("runpy", done.stderr)
        self.assertIn("hint: collections.Iterable was removed: theano_ng-run --numpy-names restores it", done.stderr)
        done = self.call("--numpy-names", path, "--numpy-names", "-x")
        self.assertEqual(done.stdout, "__main__ ['--numpy-names', '-x'] 6.0 True\n")
        self.assertEqual(done.returncode, 0)
        # each use is reported once, also in a loop
        self.assertEqual(
            done.stderr.splitlines(),
            [
                "%s:6: collections.Iterable was removed; it is replaced by collections.abc.Iterable" % path,
                "%s:8: numpy.float was removed; it is replaced by float" % path,
                "%s:10: numpy.product was removed; it is replaced by numpy.prod" % path,
            ],
        )

    def test_processes_that_it_starts(self):
        path = self.write(
            """
            import multiprocessing, subprocess, sys
            import numpy as np
            import theano

            def show(i):
                print(theano.__name__, np.product([i, 2]), flush=True)

            if __name__ == "__main__":
                process = multiprocessing.get_context("spawn").Process(target=show, args=(3,))
                process.start()
                process.join()
                code = "import theano.tensor; print(theano.__name__, 'theano' in theano.__file__)"
                print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip())
            """
        )
        done = self.call("--numpy-names", path)
        self.assertEqual(done.stdout, "theano_ng 6\ntheano_ng True\n")

    def test_status(self):
        self.assertEqual(self.call(self.write("raise SystemExit(5)")).returncode, 5)
        done = self.call(self.write("1 / 0"))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(
            done.stderr, r"^Traceback[^\n]*\n  File \"[^\n]*program.py\", line 1, in <module>\n(.*\n)*ZeroDivisionError"
        )
        done = self.call(self.write("print 'two'"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("Python 2", done.stderr)
        self.assertEqual(self.call("nowhere.py").returncode, 2)
        self.assertEqual(self.call().returncode, 2)


class TestNames(unittest.TestCase):
    def setUp(self):
        self.reports = []
        removed.give_back(lambda *report: self.reports.append(report))
        self.addCleanup(removed.take_back)

    def test_all_have_a_value(self):
        for module, names in removed.NAMES.items():
            target = importlib.import_module(module)
            for name in names:
                with self.subTest(module=module, name=name):
                    self.assertTrue(hasattr(target, name))

    def test_text_in_hdf5(self):
        # a replacement for h5py, which the tests do not require
        module = types.ModuleType("h5py._hl.attrs")

        class AttributeManager(dict):
            __getitem__ = dict.__getitem__

        module.AttributeManager = AttributeManager
        sys.modules["h5py._hl.attrs"] = module
        self.addCleanup(sys.modules.pop, "h5py._hl.attrs")
        removed.give_back(lambda *report: self.reports.append(report))
        attributes = AttributeManager(one="a", many=np.array(["b", "cd"], object), old=np.array([b"e"]), number=3)
        for _ in range(2):
            self.assertEqual(attributes["one"].decode("utf8"), "a")
        self.assertEqual([n.decode("utf8") for n in attributes["many"]], ["b", "cd"])
        self.assertEqual([n.decode("utf8") for n in attributes["old"]], ["e"])
        self.assertEqual((attributes["one"], attributes["number"]), ("a", 3))
        self.assertEqual(len(self.reports), 2)
        removed.take_back()
        self.assertIs(type(attributes["one"]), str)
        self.assertIn("h5py 3", removed.hint(AttributeError("'str' object has no attribute 'decode'")))

    def test_versions(self):
        version = removed._version
        # version numbers in ascending order, from the summary in PEP 440
        ordered = "1.0.dev1 1.0a1.dev1 1.0a1 1.0a1.post1 1.0a10 1.0b2 1.0rc1 1.0 1.0+a.2 1.0+1 1.0.post1.dev1 1.0.post1 1.0.1 1.2 1.10 1!0.1"
        versions = [version(text) for text in ordered.split()]
        self.assertEqual(versions, sorted(versions))
        self.assertEqual(len(set(versions)), len(versions))
        for text, other in [("1.0", "1.0.0"), ("v1.0rc1", "1.0.c1"), ("1.0.post1", "1.0-r1")]:
            self.assertEqual(version(text), version(other))

    def test_values(self):
        self.assertIs(np.float, float)
        self.assertEqual(np.NINF, -np.inf)
        self.assertEqual(np.product([2, 3], axis=0), 6)
        np.testing.assert_array_equal(np.in1d([[1, 2], [3, 4]], [2, 3]), [False, True, True, False])
        self.assertEqual(np.asfarray([1, 2], "int32").dtype, "float64")
        self.assertEqual(np.asfarray([1, 2], "float32").dtype, "float32")
        self.assertEqual(np.asscalar(np.array([3])), 3)
        self.assertEqual(np.cast["int8"]([1.5]).dtype, "int8")
        self.assertEqual(np.nbytes["float32"], 4)
        # the documented examples of find_common_type
        self.assertEqual(np.find_common_type([], [np.int64, np.float32, complex]), np.complex128)
        self.assertEqual(np.find_common_type([np.int64, np.float32], []), np.float64)
        self.assertEqual(np.find_common_type([np.float32], [np.int64, np.float64]), np.float32)
        self.assertEqual(np.find_common_type([np.float32], [complex]), np.complex128)

    def test_functions(self):
        import inspect

        import scipy.misc

        spec = inspect.getargspec(lambda a, b=2, *c, **d: None)
        self.assertEqual(spec, (["a", "b"], "c", "d", (2,)))
        self.assertEqual(scipy.misc.comb(5, 2), scipy.special.comb(5, 2))
        for n, order in [(1, 3), (2, 3), (1, 5), (3, 7)]:
            exact = {1: 3 * 4.0 + 1, 2: 6 * 2.0, 3: 6.0}[n]
            self.assertAlmostEqual(
                scipy.misc.derivative(lambda x: x**3 + x, 2.0, dx=1e-2, n=n, order=order), exact, delta=2e-4
            )

    def test_scipy(self):
        import scipy.stats

        np.testing.assert_array_equal(scipy.array([1, 2]), np.array([1, 2]))
        self.assertIs(scipy.stats, sys.modules["scipy.stats"])
        # Known values: 3 heads in 10 tosses of a coin, and the probability that chi-square with one degree of freedom
        # exceeds its 5 % point.
        self.assertAlmostEqual(scipy.stats.binom_test(3, 10), 0.34375)
        self.assertAlmostEqual(scipy.stats.binom_test([3, 7], alternative="less"), 0.171875)
        self.assertAlmostEqual(scipy.stats.chisqprob(3.841458820694124, 1), 0.05)
        self.assertIs(np.issubsctype(np.array([1.0]), np.floating), True)
        self.assertIs(np.issubsctype("int8", np.floating), False)

    def test_imp(self):
        module = type(sys)("imp")
        removed._imp(module)
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/settings.py", "w") as f:
                f.write("rate = 0.5\n")
            self.addCleanup(sys.modules.pop, "settings_of_a_program", None)
            loaded = module.load_source("settings_of_a_program", folder + "/settings.py")
        self.assertEqual((loaded.rate, sys.modules["settings_of_a_program"]), (0.5, loaded))
        self.assertEqual(module.new_module("a").__name__, "a")

    def test_modules_keep_what_they_have(self):
        import collections
        import time

        self.assertIs(np.float64, np.dtype("d").type)
        self.assertEqual(self.reports, [])
        with self.assertRaises(AttributeError):
            np.no_such_name
        with self.assertRaises(AttributeError):
            collections.no_such_name
        self.assertGreaterEqual(time.clock(), 0)
        self.assertEqual([report[:2] for report in self.reports], [("time.clock", "time.process_time")])
        removed.take_back()
        with self.assertRaises(AttributeError):
            time.clock
        with self.assertRaises(AttributeError):
            np.float

    def test_modules(self):
        program = "import sys; sys.modules.pop('pkg_resources', None)\n" + textwrap.dedent(
            """
            import numpy
            from theano_ng.legacy import removed
            class Hidden:  # where setuptools has it still
                @staticmethod
                def find_spec(name, path=None, target=None):
                    if name == "pkg_resources":
                        return removed_finder.find_spec(name)
            reports = []
            removed.give_back(lambda *report: reports.append(report))
            removed_finder = sys.meta_path[-1]
            sys.meta_path.insert(0, Hidden)
            import pkg_resources
            assert pkg_resources.get_distribution("numpy").version == numpy.__version__
            try:
                pkg_resources.get_distribution("no such thing")
            except pkg_resources.DistributionNotFound:
                print(reports[0][:2], reports[0][3])
            removed.take_back()
            print("pkg_resources" in sys.modules, removed_finder in sys.meta_path)
            """
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.stdout, done.stderr), ("('pkg_resources', 'emulated') 14\nFalse False\n", ""))
        self.assertIn("pkg_resources was removed", removed.hint(ImportError("No module named 'pkg_resources'")))

    def test_hint(self):
        removed.take_back()
        for name, replacement in [
            ("float", "float"),
            ("Inf", "numpy.inf"),
            ("product", "numpy.prod"),
            ("asscalar", "emulated"),
        ]:
            with self.subTest(name), self.assertRaises(AttributeError) as caught:
                getattr(np, name)
            self.assertIn("--numpy-names restores it, as %s" % replacement, removed.hint(caught.exception))
        self.assertIsNone(removed.hint(AttributeError("other")))
        self.assertIsNone(removed.hint(ValueError("np.float")))
