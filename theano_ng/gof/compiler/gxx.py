"""C++ modules: the compiler's command line, the precompiled prologue, and the loading of modules."""

import os
import sys
import time

from theano_ng.configdefaults import config
from theano_ng.digests import blake2b
from theano_ng.gof.compiler import trust
from theano_ng.gof.compiler.kernelcache import UnitLock, _unlink, c_include_text, kernel_prologue
from theano_ng.gof.compiler.toolchain import (
    CompileError,
    compile_file,
    find_toolchain,
    require_toolchain,
    run_program,
    shared_library_argument,
)

import_time = 0.0  # seconds spent loading compiled modules

#: The file, in the directory of a module, in which the compiler lists the files that the module includes.
DEPENDENCIES = "mod.d"

_GOF = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Compiler:
    """A base class of the compilers that a type or Op may request by `c_compiler`."""


class GCC_compiler(Compiler):
    """The C++ compiler of `config.cxx`: g++, or a compiler that accepts its arguments."""

    supports_amdlibm = True

    @staticmethod
    def version_str():
        """Return the compiler's name and version."""
        toolchain = find_toolchain()
        return "no compiler" if toolchain is None else "%s %s" % (os.path.basename(toolchain.cxx), toolchain.version())

    @staticmethod
    def compile_args(march_flags=True):
        """Return the arguments with which every module is compiled.

        Parameters
        ----------
        march_flags : bool
            Whether to compile for this processor only.

        Returns
        -------
        list of str
        """
        toolchain = find_toolchain()
        if toolchain is None:
            return []
        flags = ["-g"] + [flag for flag in toolchain.flags() if march_flags or not flag.startswith("-march")]
        flags += toolchain.user_flags()
        return list(dict.fromkeys(flags))

    @staticmethod
    def try_flags(flag_list, preambule="", body="", try_run=False, output=False):
        """Return True if a program compiles with additional arguments; see `try_compile_tmp`."""
        return GCC_compiler.try_compile_tmp(
            "%s\nint main(int argc, char** argv)\n{\n%s\nreturn 0;\n}\n" % (preambule, body),
            flags=flag_list,
            try_run=try_run,
            output=output,
        )

    @staticmethod
    def try_compile_tmp(src_code, tmp_prefix="", flags=(), try_run=False, output=False):
        """Compile a program, and run it if `try_run` is true.

        Parameters
        ----------
        src_code : str
        tmp_prefix : str
            The beginning of the temporary file's name.
        flags : list of str
        try_run : bool
            Whether to run the program, too.
        output : bool
            Whether to return the output, too.

        Returns
        -------
        bool or tuple
            Whether the program compiles. With `try_run`, a pair: whether it compiles, and whether it runs and exits
            with 0. With `output`, a tuple of the same values, followed by the output (stdout with stderr) twice.
        """
        import tempfile

        compiled = ran = False
        text = ""
        toolchain = find_toolchain()
        if toolchain is not None:
            with tempfile.TemporaryDirectory(prefix=tmp_prefix or "theano_ng-") as folder:
                source, program = os.path.join(folder, "try.cpp"), os.path.join(folder, "try")
                with open(source, "w") as file:
                    file.write(src_code)
                status, text = run_program([toolchain.cxx, source, "-o", program, *flags])
                compiled = status == 0
                if compiled and try_run:
                    status, text = run_program([program])
                    ran = status == 0
        answer = (compiled, ran) if try_run else (compiled,)
        if output:
            return (*answer, text, text)
        return answer if try_run else compiled

    @staticmethod
    def compile_str(
        module_name,
        src_code,
        location=None,
        include_dirs=(),
        lib_dirs=(),
        libs=(),
        preargs=(),
        py_module=True,
        hide_symbols=True,
        final_location=None,
    ):
        """Compile a module.

        Parameters
        ----------
        module_name : str
        src_code : str
            The source. It is written to ``mod.cpp``.
        location : str
            An existing directory.
        include_dirs, lib_dirs, libs : sequence of str
        preargs : sequence of str
            Compiler arguments, such as the result of `compile_args`.
        py_module : bool
            If True, load the module and return it. If False, return its path.
        hide_symbols : bool
            Whether to export only the initialization function.
        final_location : str, optional
            The name to which the directory will be renamed. Debuggers search for the source under this name.

        Returns
        -------
        module or str

        Raises
        ------
        MissingGXX, CompileError, OSError
        """
        toolchain = require_toolchain()
        location = location or os.getcwd()
        source = os.path.join(location, "mod.cpp")
        library = os.path.join(location, module_name + get_lib_extension())
        # Write to a new file. Some linkers overwrite the contents of an existing file, which would crash processes that
        # have loaded this file as a module.
        output = os.path.join(location, "tmp-%d-%s%s" % (os.getpid(), os.urandom(6).hex(), get_lib_extension()))
        with open(source, "w", encoding="utf-8") as file:
            file.write(src_code)

        def command():
            dropped = set(toolchain.dropped)
            common = [flag for flag in common_arguments(preargs, hide_symbols) if flag not in dropped]
            # Leave out an Op's macros, because the prologue does not depend on them. If a macro changed the prologue,
            # the compiler would detect this, and read the header instead of the precompiled file.
            prologue = precompiled_prologue(
                toolchain, [flag for flag in common if not flag.startswith(("-D", "-U", "-I", "-L", "-W"))]
            )
            folders = ([prologue] if prologue else []) + standard_include_dirs() + list(include_dirs)
            parts = [toolchain.cxx, *common, shared_library_argument()]
            if final_location is not None:
                parts.append("-fdebug-prefix-map=%s=%s" % (location, final_location))
            parts += ["-I" + folder for folder in folders]
            parts += ["-o", output, source, "-MMD", "-MF", os.path.join(location, DEPENDENCIES)]
            parts += ["-L" + folder for folder in lib_dirs] + ["-l" + name for name in libs]
            if sys.platform != "win32":  # so that the dynamic linker finds the libraries when it loads the module
                parts += ["-Wl,-rpath," + folder for folder in lib_dirs]
            if sys.platform == "darwin":
                parts += ["-undefined", "dynamic_lookup"]
            return parts + toolchain.math_libraries()

        try:
            try:
                compile_file(command(), source, output, src_code)
            except CompileError:
                if not toolchain.probe(trust.directory(config.compiledir)):
                    raise
                compile_file(command(), source, output, src_code)
            trust.publish(output, library)
        finally:
            _unlink(output)
        if not py_module:
            return library
        return dlimport(library)


def common_arguments(preargs, hide_symbols=True):
    """Return the arguments that the precompiled prologue and a module have in common."""
    arguments = list(preargs)
    if not any(arg.startswith("-std=") for arg in arguments):
        arguments.append("-std=gnu++14")  # every module includes <cmath>, which takes longer with later standards
    arguments.append("-fPIC")
    if hide_symbols:
        arguments.append("-fvisibility=hidden")
    if "clang" not in os.path.basename(config.cxx):
        # Classic C code jumps over initializations and mixes pointer types, which newer C++ compilers refuse.
        arguments.append("-fpermissive")
    else:
        arguments.append("-fbracket-depth=100000")  # a module has one nested block for each variable and node
    if not config.cmodule.compilation_warning:
        arguments.append("-w")
    return arguments


def standard_include_dirs():
    """Return the directories of the headers of Python, NumPy and this package."""
    import sysconfig

    import numpy

    paths = sysconfig.get_paths()
    return list(
        dict.fromkeys(
            [paths["include"], paths["platinclude"], numpy.get_include(), os.path.join(_GOF, "c_include"), _GOF]
        )
    )


def own_headers(location):
    """Return the headers of users that the module in a directory includes, directly or through other headers.

    The headers of Python, NumPy, this package and the system are left out: other parts of a module's name depend on
    their versions.

    Parameters
    ----------
    location : str
        The directory in which the module was compiled.

    Returns
    -------
    list of str
        Absolute paths in ascending order. Empty if the compiler wrote no list.
    """
    import re

    try:
        with open(os.path.join(location, DEPENDENCIES), encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except OSError:
        return []
    # The format of make: `target: file file \\newline file`. A backslash protects blanks in names.
    words = re.findall(r"(?:\\.|[^\s\\])+", text.partition(": ")[2].replace("\\\n", " "))
    paths = {os.path.abspath(re.sub(r"\\(.)", r"\1", word)).replace("$$", "$") for word in words}
    folders = [os.path.abspath(folder) + os.sep for folder in (*standard_include_dirs(), config.compiledir, location)]
    return sorted(path for path in paths if not path.startswith(tuple(folders)))


# The headers on whose text the precompiled prologue depends, in addition to Python, NumPy and the kernel prologue.
_PROLOGUE_HEADERS = ("module_prologue.h", "numpy_1.h", "numpy/npy_interrupt.h", "numpy/old_defines.h")


def precompiled_prologue(toolchain, arguments):
    """Return a directory with module_prologue.h, precompiled for these arguments. Create it if necessary.

    Parameters
    ----------
    toolchain : Toolchain
    arguments : list of str

    Returns
    -------
    str or None
        None if `arguments` contains more than the default arguments and ``-fopenmp``, if the compiler is clang, or if
        the file cannot be created. The compiler then reads the source of the header.
    """
    import numpy

    usual = set(common_arguments(GCC_compiler.compile_args())) | {"-fopenmp"}
    if "clang" in os.path.basename(toolchain.cxx) or not usual.issuperset(arguments):
        return None
    digest = blake2b(
        "\0".join(
            [
                *map(c_include_text, _PROLOGUE_HEADERS),
                kernel_prologue(),
                toolchain.identity,
                sys.version,
                numpy.__version__,
                *standard_include_dirs(),
                *arguments,
            ]
        ).encode(),
        12,
    ).hexdigest()
    folder = os.path.join(trust.directory(config.compiledir), "pch-" + digest)
    header = os.path.join(folder, "module_prologue.h.gch")
    if trust.is_trusted(folder) and trust.is_trusted(header):
        return folder
    lock = temporary = None
    try:
        trust.make_directory(folder)
        lock = UnitLock(os.path.join(folder, "lock"))
        if trust.is_trusted(header):
            return folder
        temporary = os.path.join(folder, "tmp-%d-%s" % (os.getpid(), os.urandom(6).hex()))
        source = os.path.join(_GOF, "c_include", "module_prologue.h")
        status, _ = run_program(
            [
                toolchain.cxx,
                *arguments,
                *("-I" + path for path in standard_include_dirs()),
                "-x",
                "c++-header",
                source,
                "-o",
                temporary,
            ]
        )
        if status != 0:  # the compilation of the module, which follows, reports the error
            return None
        trust.publish(temporary, header)
        return folder
    except OSError:
        return None
    finally:
        if temporary is not None:
            _unlink(temporary)
        if lock is not None:
            lock.release()


def get_lib_extension():
    """Return the extension of a loadable module's file: ``.so``, or ``.pyd`` on Windows."""
    return ".pyd" if sys.platform in ("win32", "cygwin") else ".so"


def get_gcc_shared_library_arg():
    """Return the argument that makes the compiler link a loadable library."""
    return shared_library_argument()


def dlimport(fullpath, suffix=None):
    """Load a compiled extension module.

    Parameters
    ----------
    fullpath : str
        The path of the module's file.
    suffix : str, optional
        The part of the file's name after the module's name. By default, the extension.

    Returns
    -------
    module
        The module. It is not added to `sys.modules`.

    Raises
    ------
    ImportError
    """
    global import_time
    import importlib.machinery
    import importlib.util

    if not os.path.isabs(fullpath):
        raise ValueError("`fullpath` must be an absolute path", fullpath)
    name = os.path.basename(fullpath)
    name = name[: -len(suffix)] if suffix and name.endswith(suffix) else name.split(".")[0]
    start = time.time()
    loader = importlib.machinery.ExtensionFileLoader(name, fullpath)
    spec = importlib.util.spec_from_file_location(name, fullpath, loader=loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    import_time += time.time() - start
    return module


def dlimport_workdir(basedir):
    """Create and return a new directory in `basedir`, for the compilation of a module."""
    import tempfile

    os.makedirs(basedir, exist_ok=True)
    return tempfile.mkdtemp(prefix="tmp-%d-" % os.getpid(), dir=basedir)


def gcc_version():
    """Return the C++ compiler's version, such as ``"12.2.0"``, or '' if there is no compiler."""
    toolchain = find_toolchain()
    return toolchain.version() if toolchain is not None else ""


def gcc_llvm():
    """Return True if the compiler belongs to LLVM (clang). Return None if there is no compiler."""
    toolchain = find_toolchain()
    return toolchain.is_llvm() if toolchain is not None else None


def try_march_flag(flags):
    """Return True if a program compiled with these flags computes correctly on this machine.

    Parameters
    ----------
    flags : list of str
    """
    body = "int *a = new int[10]; for (int i = 0; i < 10; i++) a[i] = i * 2; volatile int s = a[9]; delete[] a; if (s != 18) return 1;"
    compiled, ran = GCC_compiler.try_flags(list(flags), body=body, try_run=True)
    return compiled and ran


def std_include_dirs():
    """Return the directories of the headers of Python, NumPy and this package."""
    return standard_include_dirs()


def std_lib_dirs_and_libs():
    """Return ``(libraries, directories)`` with which a module is linked to Python.

    Both are empty except on Windows, where all symbols have to be resolved.
    """
    if sys.platform != "win32":
        return [], []
    import sysconfig

    return ["python%d%d" % sys.version_info[:2]], [os.path.join(sysconfig.get_config_var("installed_base"), "libs")]


def std_libs():
    """Return the libraries of `std_lib_dirs_and_libs`."""
    return std_lib_dirs_and_libs()[0]


def std_lib_dirs():
    """Return the directories of `std_lib_dirs_and_libs`."""
    return std_lib_dirs_and_libs()[1]
