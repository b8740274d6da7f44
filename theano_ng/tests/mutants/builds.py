"""Builds an extension from a changed C file, in a separate folder. The folder of the package does not change."""

import functools
import glob
import os
import platform
import shutil
import subprocess
import sysconfig

from theano_ng.tests.mutants.records import PACKAGE

ROOT = os.path.dirname(PACKAGE)
# The paths in `#include` lines are relative to these folders, or to the folder of the including file.
ROOTS = ("tensor/native", "scalar/c_code", "scan", "gof", "gof/c_include", "gpuarray/native")
# The content that replaces target_clones.h. It defines macros without function clones, because compilation with clones
# takes three times as long.
_WITHOUT_CLONES = b"""\
#define VECTORISED
#define VECTORISED_V3
#define STRIDED_CLONES
#define ONLY_V3 __attribute__((target("arch=x86-64-v3")))
#define has_v3() (__builtin_cpu_supports("x86-64-v3") != 0)
"""
_NATIVE = ("theano_ng.tensor.native.", "theano_ng.gpuarray.native.")  # packages of native functions


def extensions():
    """Return the extensions of the package that setup.py describes, as a dict from module name to Extension.

    Raises
    ------
    SystemExit
        If there is no setup.py, because the package does not run from its sources.
    """
    import setuptools  # noqa: F401 this import provides distutils

    # isort: split
    from distutils.core import run_setup

    if not os.path.exists(os.path.join(ROOT, "setup.py")):
        raise SystemExit("C is changed in a checkout of the sources only: there is no setup.py in %s" % ROOT)
    before = os.getcwd()
    os.chdir(ROOT)
    try:
        return {e.name: e for e in run_setup("setup.py", stop_after="init").ext_modules}
    finally:
        os.chdir(before)


def c_files():
    """Return the paths of the C files and headers from which native code is built, relative to the package."""
    folders = [*ROOTS, *glob.glob("tensor/native/*/", root_dir=PACKAGE), "tensor/native/elementwise/blocks"]
    return sorted(
        os.path.normpath(path)
        for folder in folders
        for ending in "ch"
        for path in glob.glob(os.path.join(folder, "*." + ending), root_dir=PACKAGE)
    )


class Builder:
    """A compiler of extensions. It works in a separate folder.

    Parameters
    ----------
    folder : str
        The folder. It is created, with links to all C files.
    optimized : str
        The compiler's optimization level, which replaces the level of the normal build. Results are equal at both
        levels, and compilation without optimization is several times as fast.
    """

    def __init__(self, folder, optimized="-O0"):
        self.folder, self.optimized = folder, optimized
        self.extensions = extensions()
        self._texts = os.path.join(folder, "texts")
        shutil.rmtree(self._texts, ignore_errors=True)
        for part in ROOTS:
            os.makedirs(os.path.join(self._texts, part), exist_ok=True)
        for path in c_files():
            there = os.path.join(self._texts, path)
            os.makedirs(os.path.dirname(there), exist_ok=True)
            os.symlink(os.path.join(PACKAGE, path), there)
        if platform.machine() == "x86_64":
            self.replace("tensor/native/common/target_clones.h", _WITHOUT_CLONES)

    def replace(self, path, text):
        """Replace the content of a file until `restore` is called."""
        there = os.path.join(self._texts, path)
        os.unlink(there)
        with open(there, "wb") as file:
            file.write(text)

    def restore(self, path):
        """Restore the original content of a file."""
        there = os.path.join(self._texts, path)
        os.unlink(there)
        os.symlink(os.path.join(PACKAGE, path), there)

    def build(self, module, target, more=()):
        """Compile an extension.

        Parameters
        ----------
        module : str
        target : str
            The path of the shared library that is written.
        more : sequence of str
            Further arguments for the compiler.

        Returns
        -------
        bool
            True if the compiler accepts the source code.
        """
        extension = self.extensions[module]
        flags = [self.optimized if flag.startswith("-O") else flag for flag in extension.extra_compile_args]
        command = ["gcc", "-shared", "-fPIC", "-w", "-I", sysconfig.get_paths()["include"]]
        command += [argument for folder in self._folders(extension) for argument in ("-I", folder)]
        command += ["-D%s=%s" % macro for macro in extension.define_macros]
        command += [*flags, *more, *map(self._source, extension.sources), "-o", target]
        command += ["-l" + name for name in extension.libraries] + list(extension.extra_link_args)
        return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=300).returncode == 0

    def _folders(self, extension):
        own = [folder for folder in extension.include_dirs if folder.startswith("theano_ng" + os.sep)]
        return [os.path.join(self._texts, os.path.relpath(f, "theano_ng")) for f in own] + list(extension.include_dirs)

    def _source(self, source):
        relative = os.path.relpath(source, "theano_ng")
        if source.endswith(".pyx"):
            return os.path.join(ROOT, "build", "cython", source[:-4] + ".c")
        return os.path.join(self._texts, relative)


def modules_of(path, builder):
    """Return the extension modules that contain a C file.

    The interpreter of kernels has a module for each level of CPU instructions. Of these modules, only the module that
    this CPU uses is returned.
    """
    from theano_ng.loops.blocks import instructions

    found = []
    for name, extension in sorted(builder.extensions.items()):
        sources = [os.path.relpath(source, "theano_ng") for source in extension.sources]
        if ".blocks_v" in name and name != instructions.instruction_module().__spec__.name:
            continue
        if name.startswith(_NATIVE) and any(path == s or path in includes(s) for s in sources):
            found.append(name)
    return found


@functools.cache
def includes(path, depth=4):
    """Return the paths of the package's C files that a C file includes, directly or indirectly."""
    found = []
    with open(os.path.join(PACKAGE, path), encoding="utf-8") as file:
        named = [line.split('"')[1] for line in file if line.startswith('#include "')]
    for name in named:
        for folder in (os.path.dirname(path), *ROOTS):
            other = os.path.normpath(os.path.join(folder, name))
            if os.path.exists(os.path.join(PACKAGE, other)):
                found.append(other)
                found += includes(other, depth - 1) if depth else []
                break
    return found
