"""The build of the Cython and C extensions. All declarative metadata is in pyproject.toml."""

import copy
import functools
import glob
import os
import platform
import re
import sys

import numpy
from Cython.Build import cythonize
from setuptools import Distribution, Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

HERE = os.path.dirname(os.path.abspath(__file__))
HAS_GLIBC = sys.platform == "linux" and platform.libc_ver()[0] == "glibc"
# True if libmvec, glibc's library of vector functions, is available. gcc uses it to vectorize loops that call exp.
HAS_MVEC = platform.machine() == "x86_64" and HAS_GLIBC
# A header that selects old versions of C library symbols, so that the extensions run on old systems (manylinux_2_28).
OLD_SYMBOLS = os.path.join("theano_ng", "gof", "old_symbols.h")
# Python's default flags contain -g, which costs a sixth of the compilation time and more than two thirds of the output
# size. A -g in CFLAGS keeps the debug information.
DEBUG_INFORMATION = [] if "-g" in os.environ.get("CFLAGS", "") else ["-g0"]
# A call of a compiled function runs about 20 short C functions. Without alignment, their offsets in cache lines vary
# from build to build, which changed the time of a call by up to 3 %.
ALIGNED = ["-falign-functions=64", "-falign-loops=32"]
NATIVE = os.path.join("theano_ng", "tensor", "native")
GPU = os.path.join("theano_ng", "gpuarray")
SCAN = os.path.join("theano_ng", "scan")
DEVICE, GPU_INCLUDE = os.path.join(GPU, "device"), os.path.join(GPU, "include")
NATIVE_CODE = os.path.join("theano_ng", "gof", "_native.pyx")
# The source file of vectorized functions such as exp, which compiled kernels and the interpreter call.
VECTOR_MATH = os.path.join("theano_ng", "gof", "vector_math.c")
HAS_MVEC_MACRO = [("TNG_HAS_MVEC", "1")] if HAS_MVEC else []
GPUARRAY = os.path.join(GPU, "pygpu", "gpuarray.pyx")
# INCLUDE matches a line of C or Cython that includes a file. CIMPORT matches a line of Cython that cimports a module.
INCLUDE = re.compile(r'^\s*(?:#\s*include|include|cdef extern from)\s+"([^"<>]+)"', re.MULTILINE)
CIMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+)?cimport\s+([\w.]+)", re.MULTILINE)


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
                    # -O1 is enough, because the device does the expensive work. With full optimization, the compiler
                    # would take half a minute for this module.
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
    """Yield an extension module for every .c file in a folder of theano_ng/tensor/native: native code of Ops.

    The name of a module does not contain the folder: convolution/conv.c becomes theano_ng.tensor.native.conv. So a file
    can move to another folder, but no folder may have the name of a module: without the module, Python would import the
    folder.
    """
    for path in sorted(glob.glob(os.path.join(NATIVE, "*", "*.c"))):
        native = extension("theano_ng.tensor.native." + os.path.basename(path)[:-2], path)
        if sys.platform.startswith("linux") and uses_threads(path):
            # The flag config.openmp needs loops that are compiled with OpenMP. gcc's OpenMP library is loaded at run
            # time (common/gomp.h), so --as-needed avoids linking it.
            native.extra_compile_args.append("-fopenmp")
            native.extra_link_args += ["-Wl,--as-needed", "-fopenmp"]
        yield native


def block_extensions():
    """Yield an extension module with the interpreter of elementwise programs (tensor/native/elementwise/blocks) for each
    level of x86-64 processors.
    """
    folder = os.path.join(NATIVE, "elementwise", "blocks")
    levels = {1: []}
    if platform.machine() == "x86_64":
        levels.update({3: ["-march=x86-64-v3"], 4: ["-march=x86-64-v4"]})
    for level, flags in levels.items():
        blocks = extension("theano_ng.tensor.native.blocks_v%d" % level, os.path.join(folder, "interpreter.c"))
        blocks.sources += [os.path.join(folder, "module.c"), VECTOR_MATH]
        blocks.define_macros += [("BLOCKS_LEVEL", str(level)), ("TNG_OWN_VECTOR_MATH", "1"), *HAS_MVEC_MACRO]
        # Use the flags of compiled kernels (gof/compiler/toolchain.py), so that the interpreter and kernels compute the
        # same bits.
        builtins = ["-fno-builtin-%s" % name for name in ("sin", "cos", "sinf", "cosf")]
        blocks.extra_compile_args += ["-fno-tree-sink", "-ffp-contract=off", "-fno-strict-aliasing", *builtins, *flags]
        yield blocks


def uses_threads(path):
    """Return True if a C file has loops that OpenMP may divide among threads."""
    with open(path, encoding="utf-8") as file:
        return '#include "common/threads.h"' in file.read()


def compile_time(path, depth=3):
    """Estimate the compilation time of a C file, in lines of code.

    The lines of a file count three times if its functions are compiled for several instruction sets, and a tenth if
    Cython generated the file. The lines of included headers are counted, too, down to `depth` levels, because loops are
    defined in headers that are included once per type.
    """
    with open(path, encoding="utf-8") as file:
        text = file.read()
    own = text.count("\n") * (0.1 if "Generated by Cython" in text[:100] else 3 if "VECTORISED" in text else 1)
    return own + sum(compile_time(name, depth - 1) for name in named_files(path, (NATIVE,)) if depth)


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
    )


def all_extensions():
    """Return all extension modules of the package, with the files on which they depend."""
    made = [*cython_extensions(), *native_extensions(), *gpu_extensions(), *block_extensions()]
    for one in made:
        one.depends = included_files(one)
    return made


def included_files(extension):
    """Return the .c and .h files that the sources of an extension include, directly or indirectly.

    The extension is rebuilt if one of these files changes. A condition around an ``#include`` is ignored. The headers
    that .pxd and .pxi files name are included in the result. The .pxd and .pxi files are not, because Cython itself
    notices their changes.
    """
    folders = tuple(folder for folder in extension.include_dirs if not os.path.isabs(folder))
    # The compiler argument -include includes OLD_SYMBOLS. No source file names this header, so add it here.
    found, todo = set(), [*extension.sources, *([OLD_SYMBOLS] if OLD_SYMBOLS in extension.extra_compile_args else [])]
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += named_files(path, folders)
    return sorted(path for path in found.difference(extension.sources) if path.endswith((".c", ".h")))


@functools.cache
def named_files(path, folders):
    """Return the files of the package that a C or Cython file includes or cimports, and the .pxd file of a .pyx file.

    Parameters
    ----------
    path : str
    folders : tuple of str
        The folders of the package in which the compiler searches for headers, after the folder of the file itself.
    """
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = []
    for name in INCLUDE.findall(text):
        places = [os.path.normpath(os.path.join(folder, name)) for folder in (os.path.dirname(path), *folders)]
        found += [place for place in places if os.path.isfile(place)][:1]  # [] for a header of Python or of the system
    if path.endswith((".pyx", ".pxd", ".pxi")):
        modules = [os.path.splitext(path)[0].replace(os.sep, ".")]
        for package, name in CIMPORT.findall(text):
            modules += [package, package + "." + name] if package else [name]
        found += [pxd for name in modules if os.path.isfile(pxd := name.replace(".", os.sep) + ".pxd")]
    return found


# The C code that Cython 3.3.1 generates contains an error: if a list comprehension fails to append an object, the
# reference to the object is released twice, first by the appending function and then by its caller. At the second
# release, the memory may already be free.
GIVEN_BACK_TWICE = "    int result = PyList_Append(list, x);\n    Py_DECREF(x);\n"
GIVEN_BACK_ONCE = "    int result = PyList_Append(list, x);\n    if (result == 0)\n        Py_DECREF(x);\n"


def mend_appending(source):
    """Correct the list comprehensions in the C file `source`, which Cython has generated."""
    with open(source, encoding="utf-8") as file:
        text = file.read()
    if GIVEN_BACK_TWICE in text:
        with open(source, "w", encoding="utf-8") as file:
            file.write(text.replace(GIVEN_BACK_TWICE, GIVEN_BACK_ONCE))


def arguments(extension):
    """Return a text with all data on which the compiler commands of an extension depend, except absolute paths.

    The path of NumPy is left out because pip installs NumPy in a temporary folder, whose path differs in each build.
    """
    names = "define_macros extra_compile_args libraries extra_link_args".split()
    values = {name: getattr(extension, name) for name in names}
    values["include_dirs"] = [folder for folder in extension.include_dirs if not os.path.isabs(folder)]
    values.update((name, os.environ.get(name)) for name in ("CC", "CFLAGS", "LDFLAGS"))
    values["NumPy"] = numpy.__version__
    return "".join("%s = %s\n" % pair for pair in values.items())


def written(path, text):
    """Write a text into a file, unless the file already contains this text. Return the path."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return path
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


class BuildExt(build_ext):
    """The command build_ext, with an option to cythonize and build only some modules: `--only a.b,c.d`."""

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
        if self.editable_mode:
            # `pip install --editable` would build in a temporary folder. Use the usual folders (build/...) instead, so
            # that the next build in place can reuse the object files.
            usual = build(Distribution())
            usual.finalize_options()
            self.build_lib, self.build_temp = usual.build_platlib, usual.build_temp
        super().finalize_options()
        if self.parallel is None:
            self.parallel = processors()

    def build_extension(self, extension):
        """Build one extension, with its object files in a separate folder.

        The folder is separate because the same sources may be built several times, for different levels of processors.
        An extension is up to date if it is newer than its sources, the files that they include, and the file
        ``arguments.txt``, which contains the compiler arguments.
        """
        builder = copy.copy(self)
        builder.build_temp = os.path.join(self.build_temp, extension.name)
        extension.depends.append(written(os.path.join(builder.build_temp, "arguments.txt"), arguments(extension)))
        super(BuildExt, builder).build_extension(extension)

    def copy_file(self, infile, outfile, *args, **kwargs):
        """Copy an extension module to its destination (--inplace) by a single rename.

        If the file were written gradually, a process that starts in the meantime could load an incomplete file. If the
        old file were overwritten, processes that have loaded it would crash.
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
setup(ext_modules=all_extensions(), cmdclass={"build_ext": BuildExt})
