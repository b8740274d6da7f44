"""Tests of the compilation and caching of kernels and modules under faults.

The faults are full disks, damaged files, and killed or competing processes.
"""

import ctypes
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from unittest import mock

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof import compiler as cmodule
from theano_ng.gof.compiler import gxx, kernelcache, modulecache
from theano_ng.gof.compiler import toolchain as compilers
from theano_ng.gof.compiler.kernelcache import KernelCache
from theano_ng.gof.native import Kernel

AXPY = """
static double KERNEL_scale(double x) { return %s * x; }
void KERNEL(int64_t n, char **ptr, const int64_t *stride)
{
    for (int64_t i = 0; i < n; ++i)
        *(double *)(ptr[1] + i * stride[1]) = KERNEL_scale(*(double *)(ptr[0] + i * stride[0]));
}
"""


def scaling(factor):
    return Kernel(AXPY % factor)


def run(address, *arrays):
    """Call a kernel on 1-d arrays."""
    pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    strides = (ctypes.c_int64 * len(arrays))(*(a.strides[0] for a in arrays))
    ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(address)(len(arrays[0]), pointers, strides)


def apply_kernel(address, x):
    z = np.empty_like(x)
    run(address, x, z)
    return z


def truncate(path):
    """Replace a file by a new file with the first half of the content. A mapping of the old file stays unchanged."""
    with open(path, "rb") as file:
        content = file.read()
    os.unlink(path)
    with open(path, "wb") as file:
        file.write(content[: len(content) // 2])


def make_foreign(path):
    """Replace a file by another program's library."""
    os.unlink(path)
    shutil.copy(sys.modules["_ctypes"].__file__, path)


@unittest.skipUnless(cmodule.find_toolchain(), "needs a C compiler")
class TestKernels(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        compilers._warned.clear()
        self.compiled = 0
        original = kernelcache.compile_file

        def counted(*args):
            self.compiled += 1
            return original(*args)

        patch = mock.patch.object(kernelcache, "compile_file", counted)
        patch.start()
        self.addCleanup(patch.stop)

    def check(self, cache, factor):
        (address,) = cache.load([scaling(factor)])
        np.testing.assert_array_equal(apply_kernel(address, np.arange(5.0)[::-1]), factor * np.arange(5.0)[::-1])

    def files(self, prefix=""):
        return sorted(name for name in os.listdir(self.directory) if name.startswith(prefix))

    def test_one_unit_for_all_misses(self):
        cache = KernelCache(self.directory)
        kernels = [scaling(2), scaling(3), scaling(2), Kernel(AXPY % 4, symbol="KERNEL", support="static int helper;")]
        two, three, again, four = cache.load(kernels)
        self.assertEqual((self.compiled, two == again, two != three), (1, True, True))
        self.assertEqual([apply_kernel(a, np.array([1.5]))[0] for a in (two, three, four)], [3.0, 4.5, 6.0])
        self.assertEqual(cache.load(kernels), [two, three, again, four])
        self.assertEqual(KernelCache(self.directory).load(kernels[:2]), [two, three])
        self.assertEqual(self.compiled, 1)
        self.assertEqual(
            (len(self.files("u")), len(self.files("k")), self.files("tmp-"), self.files("lock-")), (1, 3, [], [])
        )

    def test_keys(self):
        cache = KernelCache(self.directory)
        base = scaling(2)
        keys = {
            cache.key(kernel)
            for kernel in (
                base,
                scaling(3),
                Kernel(base.source, language="c++"),
                Kernel(base.source, compile_args=("-fopenmp",)),
                Kernel(base.source, headers=("<math.h>",)),
                Kernel(base.source, support="int a;"),
                Kernel(base.source, libraries=("m",)),
            )
        }
        with config.change_flags(**{"gcc.cxxflags": "-DX=1"}):
            keys.add(cache.key(base))
        self.assertEqual(len(keys), 8)
        self.assertEqual(cache.key(base), KernelCache("/nowhere").key(Kernel(base.source)))

    def test_cplusplus_headers_and_libraries(self):
        source = """
void KERNEL(int64_t n, char **ptr, const int64_t *stride)
{
    double *x = (double *)ptr[0];
    std::sort(x, x + n);
}
"""
        kernel = Kernel(
            source, language="c++", headers=("<algorithm>", "<cmath>"), libraries=("m",), compile_args=("-fopenmp",)
        )
        x = np.array([3.0, 1.0, 2.0])
        cache = KernelCache(self.directory)
        plain, sort = cache.load([scaling(2), kernel])
        run(sort, x)
        self.assertEqual(x.tolist(), [1.0, 2.0, 3.0])
        self.assertEqual(apply_kernel(plain, x).tolist(), [2.0, 4.0, 6.0])

    def test_damaged_entries_are_built_again(self):
        def garbage(path):
            os.unlink(path)
            with open(path, "wb") as file:
                file.write(b"not a library")

        for i, damage in enumerate((truncate, make_foreign, garbage, os.unlink)):
            cache = KernelCache(self.directory)
            self.check(cache, 10 + i)
            damage(
                os.path.join(
                    self.directory, os.readlink(os.path.join(self.directory, "k" + cache.key(scaling(10 + i))))
                )
            )
            before = self.compiled
            self.check(KernelCache(self.directory), 10 + i)
            self.assertEqual(self.compiled, before + 1, damage)
            self.check(KernelCache(self.directory), 10 + i)
            self.assertEqual(self.compiled, before + 1, damage)

    def test_link_to_another_kernels_unit(self):
        cache = KernelCache(self.directory)
        self.check(cache, 2)
        self.check(cache, 3)
        two, three = (os.path.join(self.directory, "k" + cache.key(scaling(f))) for f in (2, 3))
        os.unlink(two)
        os.symlink(os.readlink(three), two)
        self.check(KernelCache(self.directory), 2)
        os.unlink(two)
        os.symlink("../../etc/passwd", two)
        self.check(KernelCache(self.directory), 2)
        self.assertEqual(self.compiled, 4)

    def test_without_symbolic_links(self):
        with mock.patch.object(os, "symlink", side_effect=OSError(errno.EPERM, "not here")):
            self.check(KernelCache(self.directory), 2)
        self.check(KernelCache(self.directory), 2)
        self.assertEqual(self.compiled, 1)

    def test_directory_that_cannot_be_written(self):
        blocked = os.path.join(self.directory, "file")
        with open(blocked, "w"):
            pass
        cache = KernelCache(os.path.join(blocked, "kernels"))  # a folder inside a file: even root cannot create it
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.check(cache, 2)
            self.check(cache, 3)
        self.assertEqual(len(caught), 1)
        self.assertIn("cannot be written", str(caught[0].message))
        self.check(cache, 2)
        self.assertEqual(self.compiled, 2)

    def test_full_disk(self):
        full = OSError(errno.ENOSPC, "No space left on device")
        real = os.replace

        def replace(source, target):
            if target.startswith(self.directory):
                raise full
            return real(source, target)

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with mock.patch.object(os, "replace", replace):
                self.check(KernelCache(self.directory), 2)
            self.assertEqual(self.files("tmp-"), [])
            # Now the compiler runs out of space.
            original = compilers.run_program

            def run_program(command, directory=None):
                if any(part.startswith(self.directory) for part in command):
                    return 1, "/usr/bin/ld: final link failed: No space left on device"
                return original(command)

            with mock.patch.object(compilers, "run_program", run_program):
                self.check(KernelCache(self.directory), 3)
        self.assertEqual(len(caught), 1)
        self.check(KernelCache(self.directory), 2)  # there is space again

    def test_compile_error(self):
        cache = KernelCache(self.directory)
        good, bad = scaling(2), Kernel("void KERNEL(int64_t n, char **ptr, const int64_t *stride) { oops }")
        with self.assertRaises(cmodule.CompileError) as caught:
            cache.load([good, bad])
        error = caught.exception
        self.assertIs(error.kernel, bad)
        self.assertIn("oops", error.source)
        text = str(error.name_node("the node"))
        for part in ("Compilation failed (return status=1)", "the node"):
            self.assertIn(part, text)
        self.assertRegex(text, r"\n\S+\.c:\d+: .*{ oops }\nerror: .*oops.*$")
        path = re.search(r"are in (\S+)", text).group(1)
        with open(path) as file:
            listing = file.read()
        os.unlink(path)
        self.assertRegex(listing, r"\n0\d+\t.*oops")
        self.assertIn(error.command[0], listing)
        self.assertEqual(self.files("tmp-"), [])
        missing = Kernel(scaling(5).source.replace("return", "extern double nowhere(double); return nowhere(1) *"))
        with self.assertRaisesRegex(
            cmodule.CompileError, r"\nline \d+: .*nowhere\(1\).*\n.*undefined symbol: nowhere$"
        ):
            cache.load([missing])
        self.check(cache, 2)

    def test_flags_that_the_compiler_does_not_know(self):
        flags = compilers.KERNEL_FLAGS + ("-fno-such-flag-at-all",)
        toolchain = compilers.Toolchain(compilers.find_toolchain().cxx, os.stat(compilers.find_toolchain().cxx))
        with (
            mock.patch.object(compilers, "KERNEL_FLAGS", flags),
            mock.patch.object(kernelcache, "require_toolchain", lambda: toolchain),
        ):
            self.check(KernelCache(self.directory), 2)
            self.assertEqual((toolchain.dropped, self.compiled), (("-fno-such-flag-at-all",), 2))
            other = compilers.Toolchain(toolchain.cxx, os.stat(toolchain.cxx))
            with mock.patch.object(kernelcache, "require_toolchain", lambda: other):
                # `other` stands for the next process. It reads from the cache that the flag was dropped.
                self.check(KernelCache(self.directory), 3)
            self.assertEqual(self.compiled, 3)

    def test_no_compiler(self):
        compilers._warned.discard("compiler")
        with config.change_flags(cxx=""), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with self.assertLogs("theano_ng.gof.cmodule", "INFO") as logged:
                self.assertFalse(cmodule.compiler_available())
                self.assertFalse(cmodule.compiler_available())
            self.assertEqual(len(logged.output), 1)
            with self.assertRaisesRegex(cmodule.MissingGXX, "THEANO_FLAGS=cxx"):
                KernelCache(self.directory).load([scaling(2)])
            self.assertEqual((gxx.gcc_version(), gxx.gcc_llvm(), gxx.GCC_compiler.compile_args()), ("", None, []))
        self.assertEqual(caught, [])
        compilers._warned.discard("compiler")
        with (
            config.change_flags(cxx="/no/such/g++"),
            self.assertWarnsRegex(UserWarning, "'/no/such/g\\+\\+'.*does not exist"),
        ):
            self.assertFalse(cmodule.compiler_available())
        self.assertTrue(cmodule.compiler_available())

    def test_sixteen_processes_and_a_killed_one(self):
        program = (
            "import sys, os, signal, time\n"
            "from theano_ng.gof.tests.test_cmodule import *\n"
            "if sys.argv[2] == 'die':\n"
            "    def die(*args):\n"
            "        print('compiling', flush=True); time.sleep(100)\n"
            "    kernelcache.compile_file = die\n"
            "x = np.arange(3.0)\n"
            "for a, f in zip(KernelCache(sys.argv[1]).load([scaling(2), scaling(3)]), (2, 3)):\n"
            "    np.testing.assert_array_equal(apply_kernel(a, x), f * x)\n"
            "print('right')\n"
        )

        def start(how):
            return subprocess.Popen(
                [sys.executable, "-c", program, self.directory, how], stdout=subprocess.PIPE, text=True
            )

        victim = start("die")
        self.assertEqual(victim.stdout.readline(), "compiling\n")
        crowd = [start("work") for _ in range(3)]  # these processes wait for the victim's lock
        time.sleep(0.3)
        self.assertEqual(len(self.files("lock-")), 1)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        victim.stdout.close()
        crowd += [start("work") for _ in range(13)]
        for process in crowd:
            self.assertEqual((process.communicate(timeout=120)[0], process.returncode), ("right\n", 0))
        self.assertEqual((len(self.files("u")), len(self.files("k"))), (1, 2))
        self.assertEqual(len(self.files("tmp-")), 1)  # the victim's source code
        old = time.time() - 3 * 24 * 3600
        for name in self.files("tmp-") + ["swept"]:
            os.utime(os.path.join(self.directory, name), (old, old))
        self.check(KernelCache(self.directory), 7)
        self.assertEqual(self.files("tmp-"), [])

    def test_lock_is_not_waited_for_without_end(self):
        path = os.path.join(self.directory, "lock")
        first = kernelcache.UnitLock(path)
        with config.change_flags(**{"compile.timeout": 1}):
            second = kernelcache.UnitLock(path)
        self.assertEqual((first.waited, second.waited, second._fd), (False, True, None))
        second.release()
        first.release()
        self.assertFalse(kernelcache.UnitLock(path).waited)

    def test_old_units_are_cleared(self):
        cache = KernelCache(self.directory)
        self.check(cache, 2)
        (unit,) = self.files("u")
        old = time.time() - 1000
        os.utime(os.path.join(self.directory, unit), (old, old))
        self.check(cache, 3)
        self.assertEqual(kernelcache.clear_kernels(self.directory, age=500), 1)
        self.assertEqual((len(self.files("u")), len(self.files("k"))), (1, 1))
        self.assertEqual(kernelcache.clear_kernels(self.directory), 1)
        self.check(KernelCache(self.directory), 3)

    def test_prologue(self):
        """All names that the prologue of kernels defines work in C and in C++.

        Conversions to half precision round as NumPy does.
        """
        source = """
void KERNEL(int64_t n, char **ptr, const int64_t *stride)
{
    const double *x = (const double *)ptr[0];
    npy_uint16 *h = (npy_uint16 *)ptr[1], *g = (npy_uint16 *)ptr[2];
    float *back = (float *)ptr[3];
    npy_bool *flags = (npy_bool *)ptr[4];
    theano_complex128 *c = (theano_complex128 *)ptr[5];
    for (int64_t i = 0; i < n; ++i) {
        h[i] = tng_double_to_half(x[i]);
        g[i] = tng_float_to_half((float)x[i]);
        back[i] = tng_half_to_float(h[i]);
        flags[i] = isnan(x[i]) + 2 * (isinf(x[i]) != 0) + 4 * (isfinite(x[i]) != 0) + 8 * (signbit(x[i]) != 0);
        c[i] = cexp(c[i]) + M_PI * (NPY_INFINITY > 0) + (NPY_MAX_INT8 - 127);
    }
}
"""
        rng = np.random.RandomState(3)
        special = [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            65504,
            65519.999,
            65520,
            2.0**-24,
            2.0**-25,
            2.0**-25 * (1 + 1e-15),
            1 + 2.0**-11,
            1 + 2.0**-11 * (1 + 1e-14),
            1e300,
            1e-300,
        ]
        x = np.concatenate([special, rng.standard_normal(5000) * 10.0 ** rng.randint(-9, 6, 5000)])
        z = rng.standard_normal(len(x)) + 1j * rng.standard_normal(len(x))
        for language in ("c", "c++"):
            (address,) = KernelCache(self.directory).load([Kernel(source, language=language)])
            h, g, back = np.empty(len(x), "float16"), np.empty(len(x), "float16"), np.empty(len(x), "float32")
            flags, c = np.empty(len(x), "uint8"), z.copy()
            run(address, x, h, g, back, flags, c)
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(h, x.astype("float16"))
                np.testing.assert_array_equal(g, x.astype("float32").astype("float16"))
            np.testing.assert_array_equal(back, h.astype("float32"))
            np.testing.assert_array_equal(flags & 3, np.isnan(x) + 2 * np.isinf(x))
            np.testing.assert_array_equal(flags & 4 != 0, np.isfinite(x))
            np.testing.assert_array_equal(flags & 8 != 0, np.signbit(x))
            np.testing.assert_allclose(c, np.exp(z) + np.pi)

    @unittest.skipUnless(compilers.find_toolchain() and compilers.find_toolchain().vectorized(), "needs libmvec")
    def test_vectorized_math(self):
        names = compilers.find_toolchain().vectorized()
        one = [name for name in names if not name.endswith("f") or name == "erf"]
        one = [name for name in one if compilers.VECTOR_FUNCTIONS[name] == 1]
        source = """
void KERNEL(int64_t n, char **ptr, const int64_t *stride)
{
    const double *restrict x = (const double *)ptr[0];
    double *restrict z = (double *)ptr[1];
    for (int64_t i = 0; i < n; ++i)
        z[i] = %s(x[i]);
}
"""
        import math

        x = np.concatenate([np.random.RandomState(0).uniform(0.05, 0.95, 1003), [np.nan, 0.0, 5e-324, 1e-310]])
        wide = np.concatenate([x, [np.inf, -np.inf, 800.0, -800.0]])
        cache = KernelCache(self.directory)
        addresses = cache.load([Kernel(source % name) for name in one])
        with np.errstate(all="ignore"):
            for name, address in zip(one, addresses):
                if name == "acosh":
                    continue  # acosh is not defined for these arguments
                reference = {"erf": np.vectorize(math.erf), "erfc": np.vectorize(math.erfc)}.get(name)
                if reference is None:
                    reference = getattr(
                        np, name.replace("asin", "arcsin").replace("acos", "arccos").replace("atan", "arctan")
                    )
                np.testing.assert_allclose(
                    apply_kernel(address, x), reference(x), rtol=4 * 2.3e-16, atol=0, err_msg=name
                )
            np.testing.assert_allclose(apply_kernel(addresses[one.index("exp")], wide), np.exp(wide), rtol=1e-15)
        with open(os.path.join(self.directory, self.files("u")[0]), "rb") as file:
            self.assertIn(b"_ZGV", file.read())


@unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
class TestModules(unittest.TestCase):
    class Linker:
        """A stand-in for CLinker with the attributes that the cache reads."""

        node_order = ()

        def __init__(self, number):
            module = cmodule.DynamicModule()
            module.add_function(
                cmodule.ExtFunction(
                    "number",
                    "static PyObject* number(PyObject* self, PyObject* args) { return PyLong_FromLong(%d); }" % number,
                    cmodule.METH_NOARGS,
                )
            )
            module.add_init_code("import_array();")
            self.source = module.code()

        get_src_code = lambda self: self.source
        compile_args = lambda self: cmodule.GCC_compiler.compile_args()
        header_dirs = lib_dirs = libraries = lambda self: []
        c_compiler = lambda self: cmodule.GCC_compiler

    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        compilers._warned.clear()

    def module(self, cache, number, key=None):
        key = ((1,), ("test", number)) if key is None else key
        module = cache.module_from_key(key, self.Linker(number))
        self.assertEqual(module.number(), number)
        return module

    def test_life_of_an_entry(self):
        cache = cmodule.ModuleCache(self.directory)
        module = self.module(cache, 1)
        self.assertIs(self.module(cache, 1), module)
        self.assertIs(cache.module_from_key(((1,), ("test", 1))), module)
        self.assertEqual(cache.stats, [1, 0, 1])
        with self.assertRaisesRegex(ValueError, "no linker"):
            cache.module_from_key(((1,), "unknown"))
        second = cmodule.ModuleCache(self.directory)
        self.module(second, 1)
        self.assertEqual(second.stats, [0, 1, 0])
        preloaded = cmodule.ModuleCache(self.directory)
        preloaded._preload()
        self.module(preloaded, 1)
        self.assertEqual(preloaded.stats, [1, 0, 0])

        (entry,) = [name for name in os.listdir(self.directory) if modulecache._is_module_hash(name)]
        folder = os.path.join(self.directory, entry)
        library = cmodule.module_name_from_dir(folder)
        for damage in ("truncated", "foreign", "info"):
            if damage == "info":
                os.unlink(os.path.join(folder, "info"))
            else:
                {"truncated": truncate, "foreign": make_foreign}[damage](library)
            third = cmodule.ModuleCache(self.directory)
            self.module(third, 1)
            self.assertEqual(third.stats, [0, 0, 1], damage)

        old = time.time() - config.cmodule.age_thresh_use - 10
        os.utime(os.path.join(folder, "info"), (old, old))
        self.assertEqual(cache.refresh(), [library])
        fourth = cmodule.ModuleCache(self.directory)
        self.module(fourth, 1)
        self.assertEqual(fourth.stats, [0, 0, 1])  # the entry is too old to be reused
        old -= modulecache.DELETE_AFTER
        os.utime(os.path.join(folder, "info"), (old, old))
        self.assertEqual(fourth.clear_old(), 1)
        self.assertFalse(os.path.exists(folder))

    def test_changed_headers(self):
        """A header that changes without a new version gives another module, in the same and in later processes."""
        folder = os.path.join(self.directory, "with a blank")
        os.mkdir(folder)
        outer, inner = os.path.join(folder, "outer.h"), os.path.join(folder, "inner.h")

        def write(path, text):
            with open(path, "w") as file:
                file.write(text)
            os.utime(path, ns=(time.time_ns() - 10**9,) * 2)  # as if written a second ago

        linker = self.Linker(0)
        linker.header_dirs = lambda: [folder]
        linker.source = '#include "outer.h"\n' + linker.source.replace("PyLong_FromLong(0)", "PyLong_FromLong(NUMBER)")
        write(outer, '#include "inner.h"\n#define NUMBER (INNER + 1)\n')
        cache = cmodule.ModuleCache(os.path.join(self.directory, "cache"))
        for key in (((1,), ("test",)), ((), ("no version",))):
            write(inner, "#define INNER 10\n")
            first = cache.module_from_key(key, linker)
            self.assertEqual(first.number(), 11)
            self.assertIs(cache.module_from_key(key, linker), first)
            write(inner, "#define INNER 20\n")
            second = cache.module_from_key(key, linker)
            self.assertEqual((second.number(), first.number()), (21, 11))
            self.assertIs(cache.module_from_key(key, linker), second)
        self.assertEqual(cache.stats, [4, 0, 4])
        again = cmodule.ModuleCache(cache.dirname)
        self.assertEqual(again.module_from_key(((1,), ("test",)), linker).number(), 21)
        write(inner, "#define INNER 10\n")  # the old text again: its module is still in the cache
        self.assertEqual(again.module_from_key(((1,), ("test",)), linker).number(), 11)
        self.assertEqual(again.stats, [0, 2, 0])
        write(outer, "#define NUMBER 5\n")
        self.assertEqual(again.module_from_key(((1,), ("test",)), linker).number(), 5)

    def test_header_that_changes_during_the_compilation(self):
        path = os.path.join(self.directory, "header.h")
        start = time.time_ns()
        with open(path, "w"):
            pass
        os.utime(path, ns=(start + 10**9,) * 2)
        self.assertIsNone(modulecache._checksum(path, start))
        self.assertIsNotNone(modulecache._checksum(path))
        self.assertIsNone(modulecache._checksum(path + " that does not exist"))

    def test_without_version_or_disk(self):
        cache = cmodule.ModuleCache(self.directory)
        module = self.module(cache, 2, key=((), ("test",)))
        self.assertFalse(module.__file__.startswith(self.directory))
        with open(os.path.join(self.directory, "file"), "w"):
            pass
        blocked = cmodule.ModuleCache(os.path.join(self.directory, "file", "modules"))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.module(blocked, 3)
            self.module(blocked, 4)
        self.assertEqual(len(caught), 1)

    def test_check_key(self):
        class Identity:
            pass

        cache = cmodule.ModuleCache(self.directory)
        with self.assertWarnsRegex(UserWarning, "not equal to a copy of itself"):
            cache.check_key(((1,), Identity()), "entry")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cache.check_key(((1,), ("a", 2)), "other")

    def test_precompiled_prologue_is_used(self):
        self.module(cmodule.ModuleCache(self.directory), 5)
        toolchain = compilers.find_toolchain()
        arguments = gxx.common_arguments(gxx.GCC_compiler.compile_args())
        folder = gxx.precompiled_prologue(toolchain, arguments)
        if folder is None:
            self.skipTest("clang")
        source = os.path.join(self.directory, "a.cpp")
        with open(source, "w") as file:
            file.write('#include "module_prologue.h"\nnpy_intp a;\n')
        status, said = compilers.run_program(
            [
                toolchain.cxx,
                *arguments,
                "-I" + folder,
                *("-I" + d for d in gxx.standard_include_dirs()),
                "-H",
                "-c",
                source,
                "-o",
                source + ".o",
            ]
        )
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"(?m)^! .*module_prologue.h.gch")  # "!" marks a valid precompiled header
        self.assertIsNone(gxx.precompiled_prologue(toolchain, arguments + ["-DUNUSUAL"]))

    def test_helpers(self):
        self.assertTrue(cmodule.try_march_flag(["-O1"]))
        self.assertFalse(cmodule.GCC_compiler.try_flags(["-fno-such-flag"]))
        self.assertRegex(cmodule.gcc_version_str, r"^\d+\.")
        self.assertIn(np.get_include(), cmodule.std_include_dirs())
        with self.assertRaises(ValueError):
            cmodule.module_name_from_dir(self.directory)
        self.assertIsNone(cmodule.module_name_from_dir(self.directory, err=False))
        self.assertEqual(compilers.run_program(["/no/such/program"])[0], 127)


if __name__ == "__main__":
    unittest.main()
