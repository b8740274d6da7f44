"""Compilation of kernels and C++ modules, and the caches of both; documented as `theano_ng.gof.cmodule`.

==============  ======================================================================
`toolchain`     finds the compilers and runs them
`kernelcache`   compiles kernels (C code without Python) and caches them
`gxx`           compiles and loads extension modules
`modulecache`   caches extension modules
`trust`         decides from which directories and files code is loaded
`compilelock`   the classic lock of the compile directory
`compiledir`    lists the content of the compile directory, and clears it
`cache_cli`     the command theano_ng-cache
`cutils`        classic helpers for C code
==============  ======================================================================
"""

from theano_ng.configdefaults import config
from theano_ng.gof.compiler import gxx
from theano_ng.gof.compiler.toolchain import (
    CompileError,
    MissingGXX,
    Toolchain,
    compiler_available,
    find_toolchain,
    warn_once,
)
from theano_ng.gof.compiler.gxx import (
    Compiler,
    GCC_compiler,
    dlimport,
    dlimport_workdir,
    gcc_llvm,
    gcc_version,
    get_gcc_shared_library_arg,
    get_lib_extension,
    std_include_dirs,
    std_lib_dirs,
    std_lib_dirs_and_libs,
    std_libs,
    try_march_flag,
)
from theano_ng.gof.compiler.kernelcache import KernelCache, get_kernel_cache, has_kernel, load_kernels
from theano_ng.gof.compiler.modulecache import (
    KeyData,
    ModuleCache,
    _rmtree,
    get_module_cache,
    get_module_hash,
    get_safe_part,
    is_same_entry,
    last_access_time,
    module_name_from_dir,
)
from theano_ng.gof.codegen.modulecode import METH_NOARGS, METH_VARARGS, DynamicModule, ExtFunction

PY3 = True
string_types = (str,)
_get_ext_suffix = get_lib_extension

__all__ = [
    "CompileError",
    "Compiler",
    "DynamicModule",
    "ExtFunction",
    "GCC_compiler",
    "KernelCache",
    "KeyData",
    "METH_NOARGS",
    "METH_VARARGS",
    "MissingGXX",
    "ModuleCache",
    "PY3",
    "Toolchain",
    "compiler_available",
    "config",
    "debug_counter",
    "dlimport",
    "dlimport_workdir",
    "find_toolchain",
    "gcc_llvm",
    "gcc_version",
    "get_gcc_shared_library_arg",
    "get_kernel_cache",
    "get_lib_extension",
    "get_module_cache",
    "get_module_hash",
    "get_safe_part",
    "icc_module_compile_str",
    "is_same_entry",
    "last_access_time",
    "has_kernel",
    "load_kernels",
    "module_name_from_dir",
    "std_include_dirs",
    "std_lib_dirs",
    "std_lib_dirs_and_libs",
    "std_libs",
    "string_types",
    "try_march_flag",
    "warn_once",
]

_counters = {}


def debug_counter(name, every=1):
    """Count calls under a name and print the count at intervals.

    Parameters
    ----------
    name : str
    every : int
        The number of calls between two messages.
    """
    count = _counters[name] = _counters.get(name, 0) + 1
    if count % every == 0:
        import sys

        sys.stderr.write("debug_counter [%s]: %d\n" % (name, count))


def icc_module_compile_str(*args):
    """Compile a module with Intel's compiler: not supported.

    Raises
    ------
    NotImplementedError
        Always. If Intel's compiler accepts g++'s arguments, set `config.cxx` to it.
    """
    raise NotImplementedError(
        "Intel's compiler has no separate driver; if it accepts the arguments of g++, set config.cxx to its name"
    )


def __getattr__(name):
    if name == "import_time":  # read at each access, because the value grows when modules are loaded
        return gxx.import_time
    if name == "gcc_version_str":  # not computed during the import, because this starts the compiler
        return gcc_version()
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
