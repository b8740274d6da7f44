"""Builds the Cython and C extensions; everything declarative is in pyproject.toml."""

import os
import sys
import platform

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = os.path.dirname(os.path.abspath(__file__))
# glibc's vector mathematics: what loops over exp are vectorised with
HAS_MVEC = platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"
# A call runs some 20 short functions: where they begin in a cache line decided over 3 % of it, by chance.
ALIGNED = ["-falign-functions=64", "-falign-loops=32"]
NATIVE = os.path.join("theano_ng", "tensor", "native")
HEADERS = [os.path.join("theano_ng", "gof", "native.h")] + sorted(
    os.path.join(NATIVE, name) for name in os.listdir(NATIVE) if name.endswith(".h")
)


def cython_extensions():
    """Every .pyx file of the package is an extension module of the same name."""
    for folder, _, files in sorted(os.walk("theano_ng")):
        for name in sorted(files):
            if name.endswith(".pyx"):
                path = os.path.join(folder, name)
                yield extension(path[:-4].replace(os.sep, "."), path)


def native_extensions():
    """Every .c file of theano_ng/tensor/native is an extension module of native Op code."""
    for name in sorted(os.listdir(NATIVE)):
        if name.endswith(".c"):
            native = extension("theano_ng.tensor.native." + name[:-2], os.path.join(NATIVE, name))
            if sys.platform.startswith("linux") and uses_threads(native.sources[0]):
                # config.openmp; without OpenMP the loops stay sequential.
                native.extra_compile_args.append("-fopenmp")
                native.extra_link_args.append("-fopenmp")
            yield native


def block_extensions():
    """The interpreter of elementwise programs, for each level of processors that there are: tensor/native/blocks."""
    folder = os.path.join(NATIVE, "blocks")
    levels = {1: []}
    if platform.machine() == "x86_64":
        levels.update({3: ["-march=x86-64-v3"], 4: ["-march=x86-64-v4"]})
    for level, flags in levels.items():
        blocks = extension("theano_ng.tensor.native.blocks_v%d" % level, os.path.join(folder, "rows.c"))
        blocks.sources += [os.path.join(folder, name) for name in ("module.c", "vector_math.c")]
        blocks.depends = [*HEADERS, *[os.path.join(folder, name) for name in sorted(os.listdir(folder))]]
        blocks.define_macros.append(("BLOCKS_LEVEL", str(level)))
        if HAS_MVEC:
            blocks.define_macros.append(("TNG_HAS_MVEC", "1"))
            blocks.libraries.append("dl")
        # As kernels are compiled (gof/compiler/toolchain.py).
        builtins = ["-fno-builtin-%s" % name for name in ("sin", "cos", "sinf", "cosf")]
        blocks.extra_compile_args += ["-fno-tree-sink", "-fno-strict-aliasing", *builtins, *flags]
        yield blocks


def uses_threads(path):
    """Whether a C file has loops that OpenMP may split."""
    with open(path, encoding="utf-8") as file:
        return '#include "threads.h"' in file.read()


def extension(name, path):
    return Extension(
        name,
        [path],
        include_dirs=[numpy.get_include(), os.path.join("theano_ng", "gof"), NATIVE],
        libraries=["mvec", "m"] if HAS_MVEC else [],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_22_API_VERSION")],
        extra_compile_args=[
            "-O3",
            "-fno-math-errno",
            "-fno-trapping-math",
            "-fwrapv",
            *ALIGNED,
            "-Wno-unreachable-code",
        ],
        depends=HEADERS,
    )


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
                raise SystemExit("no such extension module: %s" % ", ".join(sorted(unknown)))
            self.distribution.ext_modules = found
        self.distribution.ext_modules = cythonize(
            self.distribution.ext_modules,
            include_path=[HERE],
            build_dir="build/cython",
            compiler_directives={"language_level": 3, "boundscheck": False, "wraparound": False, "cdivision": True},
        )
        super().finalize_options()

    def copy_file(self, infile, outfile, *args, **kwargs):
        """Copy an extension module to its place (--inplace) by one rename.

        Written there piece by piece, it would be loaded half by a process that starts meanwhile; written over the old file, it would kill
        those that run it.
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
setup(ext_modules=[*cython_extensions(), *native_extensions(), *block_extensions()], cmdclass={"build_ext": BuildExt})
