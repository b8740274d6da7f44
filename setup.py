"""The build of the Cython and C extensions. All declarative metadata is in pyproject.toml."""

import copy
import os
import platform
import re
import sys

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = os.path.dirname(os.path.abspath(__file__))
HAS_GLIBC = sys.platform == "linux" and platform.libc_ver()[0] == "glibc"
# True if glibc's vector mathematics is available. gcc vectorizes loops over exp with it.
HAS_MVEC = platform.machine() == "x86_64" and HAS_GLIBC
# A header that selects versions of C library symbols that old systems have (manylinux_2_28).
OLD_SYMBOLS = os.path.join("theano_ng", "gof", "old_symbols.h")
# Python's default flags contain -g, which costs a sixth of the compilation time and more than two thirds of the output
# size. A -g in CFLAGS keeps the debug information.
DEBUG_INFORMATION = [] if "-g" in os.environ.get("CFLAGS", "") else ["-g0"]
# A call runs about 20 short functions. Without alignment, their random offsets in cache lines changed the time of a
# call by 3 %.
ALIGNED = ["-falign-functions=64", "-falign-loops=32"]
NATIVE = os.path.join("theano_ng", "tensor", "native")
GPU = os.path.join("theano_ng", "gpuarray")
SCAN = os.path.join("theano_ng", "scan")
DEVICE, GPU_INCLUDE = os.path.join(GPU, "device"), os.path.join(GPU, "include")
NATIVE_CODE = os.path.join("theano_ng", "gof", "_native.pyx")
# Vectorized functions such as exp, which compiled kernels and the interpreter call.
VECTOR_MATH = os.path.join("theano_ng", "gof", "vector_math.c")
HAS_MVEC_MACRO = [("TNG_HAS_MVEC", "1")] if HAS_MVEC else []
GPUARRAY = os.path.join(GPU, "pygpu", "gpuarray.pyx")
HEADERS = [os.path.join("theano_ng", "gof", "native.h"), OLD_SYMBOLS] + sorted(
    os.path.join(folder, name)
    for folder in (
        NATIVE,
        SCAN,
        DEVICE,
        os.path.join(GPU, "native"),
        GPU_INCLUDE,
        os.path.join(GPU_INCLUDE, "gpuarray"),
    )
    for name in os.listdir(folder)
    if name.endswith(".h")
)


def cython_extensions():
    """Yield an extension module for every .pyx file of the package. The module has the name of the file."""
    for folder, _, files in sorted(os.walk("theano_ng")):
        for name in sorted(files):
            if name.endswith(".pyx"):
                path = os.path.join(folder, name)
                made = extension(path[:-4].replace(os.sep, "."), path)
                if path == NATIVE_CODE:
                    made.sources.append(VECTOR_MATH)
                    made.define_macros += HAS_MVEC_MACRO
                if path == GPUARRAY:
                    made.sources += device_sources()
                    # The expensive work runs on the device. With full optimization, these wrappers take half a minute
                    # to compile.
                    made.extra_compile_args.append("-O1")
                yield made


def device_sources():
    """Return the C sources of the device code, which is compiled into the module of device arrays."""
    return [os.path.join(DEVICE, name) for name in sorted(os.listdir(DEVICE)) if name.endswith(".c")]


def gpu_extensions():
    """Yield an extension module for every .c file of theano_ng/gpuarray/native: native code of Ops on devices."""
    folder = os.path.join(GPU, "native")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".c"):
            made = extension("theano_ng.gpuarray.native." + name[:-2], os.path.join(folder, name))
            made.include_dirs.append(folder)
            yield made


def native_extensions():
    """Yield an extension module for every .c file of theano_ng/tensor/native: native code of Ops."""
    for name in sorted(os.listdir(NATIVE)):
        if name.endswith(".c"):
            native = extension("theano_ng.tensor.native." + name[:-2], os.path.join(NATIVE, name))
            if sys.platform.startswith("linux") and uses_threads(native.sources[0]):
                # For config.openmp. Without OpenMP the loops stay sequential. gcc's library is loaded at run time
                # (gomp.h).
                native.extra_compile_args.append("-fopenmp")
                native.extra_link_args += ["-Wl,--as-needed", "-fopenmp"]
            yield native


def block_extensions():
    """Yield the interpreter of elementwise programs (tensor/native/blocks), once for each level of processors."""
    folder = os.path.join(NATIVE, "blocks")
    levels = {1: []}
    if platform.machine() == "x86_64":
        levels.update({3: ["-march=x86-64-v3"], 4: ["-march=x86-64-v4"]})
    for level, flags in levels.items():
        blocks = extension("theano_ng.tensor.native.blocks_v%d" % level, os.path.join(folder, "rows.c"))
        blocks.sources += [os.path.join(folder, "module.c"), VECTOR_MATH]
        folders = folder, os.path.join("theano_ng", "scalar", "c_code"), os.path.join("theano_ng", "gof", "c_include")
        blocks.depends = [
            *HEADERS,
            *[os.path.join(f, name) for f in folders for name in sorted(os.listdir(f)) if name.endswith((".c", ".h"))],
        ]
        blocks.define_macros += [("BLOCKS_LEVEL", str(level)), ("TNG_OWN_VECTOR_MATH", "1"), *HAS_MVEC_MACRO]
        # The flags of compiled kernels (gof/compiler/toolchain.py).
        builtins = ["-fno-builtin-%s" % name for name in ("sin", "cos", "sinf", "cosf")]
        blocks.extra_compile_args += ["-fno-tree-sink", "-ffp-contract=off", "-fno-strict-aliasing", *builtins, *flags]
        yield blocks


def uses_threads(path):
    """Return True if a C file has loops that OpenMP may divide among threads."""
    with open(path, encoding="utf-8") as file:
        return '#include "threads.h"' in file.read()


def compile_time(path, depth=3):
    """Estimate the compilation time of a C file, in lines. Functions for several instruction sets count three times.

    Included headers count too, down to a depth, because loops are defined in headers that are included once per type.
    """
    with open(path, encoding="utf-8") as file:
        text = file.read()
    own = text.count("\n") * (0.1 if "Generated by Cython" in text[:100] else 3 if "VECTORISED" in text else 1)
    included = [os.path.join(NATIVE, name) for name in re.findall(r'^#include "(\w+\.h)"', text, re.MULTILINE)]
    return own + sum(compile_time(name, depth - 1) for name in included if depth and os.path.exists(name))


def processors():
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def extension(name, path):
    return Extension(
        name,
        [path],
        include_dirs=[numpy.get_include(), os.path.join("theano_ng", "gof"), NATIVE, SCAN, GPU_INCLUDE, DEVICE],
        libraries=(["mvec", "m"] if HAS_MVEC else []) + (["dl"] if HAS_GLIBC else []),
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_22_API_VERSION")],
        extra_compile_args=[
            "-O3",
            "-fno-math-errno",
            "-fno-trapping-math",
            "-fwrapv",
            *ALIGNED,
            "-Wno-unreachable-code",
            *DEBUG_INFORMATION,
            *(["-include", OLD_SYMBOLS] if HAS_GLIBC else []),
        ],
        depends=HEADERS,
    )


# An error in the code of Cython 3.3.1: if a list comprehension fails to append an object, the reference is released
# twice. The appending function releases it, and then its caller releases it, when the memory may already be free.
GIVEN_BACK_TWICE = "    int result = PyList_Append(list, x);\n    Py_DECREF(x);\n"
GIVEN_BACK_ONCE = "    int result = PyList_Append(list, x);\n    if (result == 0)\n        Py_DECREF(x);\n"


def mend_appending(source):
    """Correct the list comprehensions in C code that Cython has generated."""
    with open(source, encoding="utf-8") as file:
        text = file.read()
    if GIVEN_BACK_TWICE in text:
        with open(source, "w", encoding="utf-8") as file:
            file.write(text.replace(GIVEN_BACK_TWICE, GIVEN_BACK_ONCE))


class BuildExt(build_ext):
    """build_ext that can build some modules only (`--only a.b,c.d`) and cythonizes just those."""

    user_options = build_ext.user_options + [("only=", None, "comma-separated names of the extension modules to build")]

    def initialize_options(self):
        super().initialize_options()
        self.only = None

    def finalize_options(self):
        if self.only is not None:
            wanted = set(self.only.split(","))
            found = [e for e in self.distribution.ext_modules if e.name in wanted]
            unknown = wanted - {e.name for e in found}
            if unknown:
                raise SystemExit("there is no extension module named %s" % ", ".join(sorted(unknown)))
            self.distribution.ext_modules = found
        self.distribution.ext_modules = cythonize(
            self.distribution.ext_modules,
            include_path=[HERE],
            build_dir="build/cython",
            compiler_directives={"language_level": 3, "boundscheck": False, "wraparound": False, "cdivision": True},
        )
        for extension in self.distribution.ext_modules:
            mend_appending(extension.sources[0])
        # Slow modules come first, so that the build does not end with one slow module on a single processor.
        self.distribution.ext_modules.sort(key=lambda extension: -compile_time(extension.sources[0]))
        super().finalize_options()
        if self.parallel is None:
            self.parallel = processors()

    def build_extension(self, extension):
        """Build one extension, with its object files in a separate folder.

        The same sources may be built several times, for different levels of processors.
        """
        builder = copy.copy(self)
        builder.build_temp = os.path.join(self.build_temp, extension.name)
        super(BuildExt, builder).build_extension(extension)

    def copy_file(self, infile, outfile, *args, **kwargs):
        """Copy an extension module to its destination (--inplace) by a single rename.

        A gradual write would let a process that starts meanwhile load an incomplete file. A write into the old file
        would crash the processes that run it.
        """
        if not self.force and os.path.exists(outfile) and os.path.getmtime(outfile) >= os.path.getmtime(infile):
            return outfile, 0
        temporary = "%s.%d.tmp" % (outfile, os.getpid())
        try:
            super().copy_file(infile, temporary, *args, **kwargs)
            os.replace(temporary, outfile)
        finally:
            if os.path.exists(temporary):
                os.unlink(temporary)
        return outfile, 1


os.chdir(HERE)
setup(
    ext_modules=[*cython_extensions(), *native_extensions(), *gpu_extensions(), *block_extensions()],
    cmdclass={"build_ext": BuildExt},
)
