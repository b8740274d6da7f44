"""The machine's C and C++ compilers: their paths, the flags that they support, and functions to run them.

A toolchain is identified without running its compiler: by the path, the size and the modification time of the compiler,
and by the system's description of the processor. The compiler is assumed to support all `KERNEL_FLAGS`. Only after the
first failed compilation does `Toolchain.probe` test which of these flags the compiler supports. The result is stored in
the compile directory.
"""

import functools
import itertools
import os
import re
import sys

from theano_ng.configdefaults import config, register_compiler_version
from theano_ng.digests import blake2b
from theano_ng.gof._native import HAS_VECTOR_MATH, dlopen_symbols, processor_level
from theano_ng.gof.codegen.modulecode import locate, locate_file
from theano_ng.gof.places import location_of, scalar_ops_of_authors

# -fno-builtin: gcc would replace the sine and cosine of one number by a call of sincos, which it cannot vectorize.
# -fno-tree-sink: gcc would move operands of one side of `? :` into a branch, and a loop with calls in branches is not
# vectorized. -ffp-contract=off: `scalar.contraction`, not gcc, decides which products are rounded together with a sum.
# Kernels therefore round as the interpreter in tensor/native/elementwise/blocks does.
KERNEL_FLAGS = (
    "-O3",
    "-march=native",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-tree-sink",
    "-ffp-contract=off",
    "-fno-builtin-sin",
    "-fno-builtin-cos",
    "-fno-builtin-sinf",
    "-fno-builtin-cosf",
)

# Functions for which some versions of glibc have vectorized variants: name -> number of arguments.
VECTOR_FUNCTIONS = dict(
    dict.fromkeys(
        "exp log sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp2 expm1 log2 log10 log1p cbrt erf "
        "erfc".split(),
        1,
    ),
    pow=2,
    atan2=2,
    hypot=2,
)

# Machine -> (prefixes for double, prefixes for float): the beginnings of the symbols of the variants that gcc may call
# for simd("notinbranch").
_VECTOR_ABIS = {
    "x86_64": (("_ZGVbN2", "_ZGVcN4", "_ZGVdN4", "_ZGVeN8"), ("_ZGVbN4", "_ZGVcN8", "_ZGVdN8", "_ZGVeN16")),
    "aarch64": (("_ZGVnN2",), ("_ZGVnN2", "_ZGVnN4")),
}

_C_INCLUDE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "c_include")
_DISK_TROUBLE = ("No space left on device", "Disk quota exceeded", "Read-only file system", "Permission denied")


@functools.cache
def c_include_text(name):
    """Return the text of a header of ``gof/c_include``."""
    with open(os.path.join(_C_INCLUDE, name)) as file:
        return file.read()


class MissingGXX(NotImplementedError):
    """Error: C or C++ code has to be compiled, but there is no compiler (`config.cxx` is empty or names no program).

    It is a NotImplementedError, so that callers use the Python implementation of an Op if it has one.
    """


class CompileError(Exception):
    """Error: a compiler refused generated code.

    Attributes
    ----------
    command : list of str
        The command line.
    status : int
        The compiler's exit status.
    output : str
        The output of the compiler.
    source : str
        The C code.
    kernel : Kernel or None
        The faulty kernel, if it is known.
    node : Apply or None
        The node that the code belongs to; `name_node` sets it.
    """

    # A compiler's message about a line: the file, the line, the column and the error.
    _complaint = r"(?m)^(?:.*/)?([^/:\n]+):(\d+):(?:\d+:)? ((?:fatal )?error: .*)$"
    # A linker's message.
    _unresolved = r"(?m)^.*(?:undefined (?:reference|symbol)|cannot find|error[: ]).*$"
    _shown = 4

    def __init__(self, command, status, output, source):
        super().__init__(command, status, output, source)
        self.command, self.status, self.output, self.source = command, status, output, source
        self.kernel = self.node = self._listing = None

    def name_node(self, node):
        """Set the Apply node that the code belongs to, unless it is set already. Return self."""
        if self.node is None:
            self.node = node
        return self

    def __str__(self):
        """Return a message with the path of the listing, and the Op, the line and the compiler's text of some errors.

        At most `_shown` errors are included. The first error comes last.
        """
        said = self.complaints()
        first, others = said[0], said[1 : self._shown]
        parts = ["Compilation failed (return status=%s). %s" % (self.status, self._where())]
        if len(said) > self._shown:
            parts.append("The complete output contains %d more errors." % (len(said) - self._shown))
        parts += others
        if self.node is not None:
            parts.append("Apply node that the code belongs to: %s" % (self.node,))
            for inner in scalar_ops_of_authors(getattr(self.node, "op", None)):
                parts.append("It contains the result of %s.c_code (%s)" % (inner, location_of(inner, "c_code")))
        return "\n".join([*parts, first])

    def complaints(self):
        """Return the errors that the compiler or the linker reported.

        Returns
        -------
        list of str
            The messages; there is at least one. If a message refers to a line of the code, it contains this line. If a
            method of an Op or a type returned the line, the message names the method.
        """
        lines, found = self.source.split("\n"), {}
        for file, number, message in re.findall(self._complaint, self.output):
            number = int(number)
            generated = any(os.path.basename(word) == file for word in self.command) and number <= len(lines)
            text = ": " + lines[number - 1].strip() if generated else ""
            place = locate(self.source, number) if generated else None
            if place is not None:
                in_file = locate_file(self.source, number)
                text = " is line %d of the result of %s.%s%s%s" % (
                    place[2],
                    place[0],
                    place[1],
                    " (%s, line %d)" % in_file if in_file else "",
                    text,
                )
            found.setdefault(number if generated else (file, number), "%s:%d%s\n%s" % (file, number, text, message))
        if not found:
            found = [self._with_line(said, lines) for said in dict.fromkeys(re.findall(self._unresolved, self.output))]
            return found or self.output.strip().split("\n")[-1:]
        return list(found.values())

    @staticmethod
    def _with_line(said, lines):
        """Return a linker's message about a name, preceded by the first line of the code that contains the name."""
        name = re.search(r"undefined (?:symbol: |reference to \W)(\w+)", said)
        for number, line in enumerate(lines, 1):
            if name is not None and re.search(r"\b%s\b" % name.group(1), line):
                return "line %d: %s\n%s" % (number, line.strip(), said)
        return said

    def listing(self):
        """Return the numbered C code, the command line and the compiler's output, as a string."""
        return "\n".join(
            [
                *("%05d\t%s" % item for item in enumerate(self.source.split("\n"), 1)),
                "===============================",
                "Problem occurred during compilation with the command line below:",
                " ".join(self.command),
                self.output.rstrip(),
                "",
            ]
        )

    def _where(self):
        """Return a sentence with the path of the listing.

        The listing is written only when the message is read, because other code handles most errors without reading it.
        """
        import tempfile

        if self._listing is None:
            try:
                handle, self._listing = tempfile.mkstemp(prefix="theano_ng_compilation_error_", suffix=".txt")
                with open(handle, "w", encoding="utf-8") as file:
                    file.write(self.listing())
            except OSError as failure:
                return "(%s: the listing cannot be written to a file)\n%s" % (failure, self.listing())
        return "The code, the command and the complete output of the compiler are in %s" % self._listing


class OutOfDisk(OSError):
    """Error: the compiler could not write its output."""


class Toolchain:
    """A C++ compiler, the C compiler that belongs to it, and this processor.

    Parameters
    ----------
    cxx : str
        The resolved path of the C++ compiler.
    stat : os.stat_result
        The status of that file.

    Attributes
    ----------
    cxx, cc : str
        The compilers. If `cxx` has no C compiler next to it, `cc` is `cxx`.
    identity : str
        A text that is equal for equal compilers on equal processors. Every cache key contains it.
    dropped : tuple of str
        Flags in `KERNEL_FLAGS` that this compiler does not support.
    """

    def __init__(self, cxx, stat):
        self.cxx = cxx
        self.cc = _c_compiler_of(cxx)
        self.identity = "%s|%d|%d|%s" % (cxx, stat.st_size, stat.st_mtime_ns, processor_identity())
        self.probed = False
        self.dropped = ()
        self._vectorized = None
        self._versions = {}

    def flags(self, optimize=True):
        """Return the `KERNEL_FLAGS` that this compiler supports.

        `config.cmodule.remove_gxx_opt` and `config.cmodule.debug` change the result.
        """
        flags = [flag for flag in KERNEL_FLAGS if flag not in self.dropped]
        if not optimize or config.cmodule.remove_gxx_opt:
            flags = [flag for flag in flags if not flag.startswith("-O")]
            flags.append("-g")
        if config.cmodule.debug:
            flags.append("-DDEBUG")
        return flags

    def user_flags(self):
        """Return `config.gcc.cxxflags`, split as a shell does."""
        text = config.gcc.cxxflags
        if not text:
            return []
        if "'" in text or '"' in text or "\\" in text:
            import shlex

            return shlex.split(text)
        return text.split()

    def vectorized(self):
        """Return the names of the math functions (double and float) that gcc can vectorize on this machine.

        A function is included only if libmvec contains all variants of it that gcc may call.
        """
        if self._vectorized is None:
            self._vectorized = _find_vectorized()
        return self._vectorized

    @functools.cached_property
    def vector_declarations(self):
        """C code that follows the kernel prologue, and lets compilers vectorize calls of the functions of `vectorized`.

        With these declarations, C code calls the functions of ``c_include/vector_math.h``. They all call one version of
        libmvec: the version for the longest vectors of the processor. C++ code calls libmvec and libm directly.
        """
        if not self.vectorized():
            return ""
        plain = 'extern "C" {\n%s\n}' % self._simd_declarations()
        if not HAS_VECTOR_MATH:
            return "#ifdef __cplusplus\n%s\n#else\n%s\n#endif\n" % (plain, self._simd_declarations())
        longest, macro = (3, "__AVX512F__") if processor_level() == 4 else (2, "__AVX2__")
        prefix = [prefixes[longest] for prefixes in _VECTOR_ABIS["x86_64"]]
        same = []
        for name in self.vectorized():
            single = name.endswith("f") and name != "erf"
            symbol = prefix[single] + "v" * VECTOR_FUNCTIONS[name[:-1] if single else name] + "_%s"
            same.append(".set %s, %s" % (symbol % ("tng_" + name), symbol % name))
        ours = '%s#ifdef %s\n__asm__("%s");\n#endif' % (c_include_text("vector_math.h"), macro, "\\n".join(same))
        return "#ifdef __cplusplus\n%s\n#else\n%s\n#endif\n" % (plain, ours)

    def _simd_declarations(self):
        lines = []
        for name in self.vectorized():
            single = name.endswith("f") and name != "erf"
            kind = "float" if single else "double"
            arguments = ", ".join([kind] * VECTOR_FUNCTIONS[name[:-1] if single else name])
            lines.append('extern %s %s(%s) TNG_NOTHROW __attribute__((simd("notinbranch")));' % (kind, name, arguments))
        return "\n".join(lines)

    def math_libraries(self):
        """Return linker arguments for the math library.

        If possible, the arguments name the run-time libraries, which link faster than linker scripts.
        """
        if not sys.platform.startswith("linux") or not _loads("libm.so.6"):
            return ["-lm"]
        return (["-l:libmvec.so.1"] if self.vectorized() else []) + ["-l:libm.so.6"]

    def version(self):
        """Return the compiler's version, e.g. ``"12.2.0"``. The compiler is called only once."""
        return self._ask("-dumpfullversion") or self._ask("-dumpversion")

    def is_llvm(self):
        """Return True if this is clang under any name."""
        return "clang" in self._ask("--version").lower()

    def _ask(self, argument):
        if argument not in self._versions:
            status, output = run_program([self.cxx, argument])
            self._versions[argument] = output.strip() if status == 0 else ""
        return self._versions[argument]

    def load_flags(self, directory):
        """Load the list of unsupported flags that an earlier `probe` stored in the directory."""
        if not self.probed:
            try:
                with open(self._flags_path(directory)) as file:
                    self.dropped = tuple(flag for flag in file.read().split() if flag in KERNEL_FLAGS)
                self.probed = True
            except (OSError, UnicodeDecodeError):
                pass

    def probe(self, directory):
        """Find the flags that the compiler does not support, after a failed compilation. Store these flags in the
        directory.

        Returns
        -------
        bool
            True if the flags changed, so that another attempt is useful.
        """
        if self.probed:
            return False
        self.probed = True
        dropped = tuple(flag for flag in KERNEL_FLAGS if not self._accepts(flag))
        if not dropped or len(dropped) == len(KERNEL_FLAGS):  # none or all were refused: the flags are not the cause
            return False
        self.dropped = dropped
        memory = self._flags_path(directory)
        try:
            with open("%s.%d" % (memory, os.getpid()), "w") as file:
                file.write(" ".join(dropped))
            os.replace(file.name, memory)
        except OSError:
            pass
        return True

    def _flags_path(self, directory):
        return os.path.join(directory, "compiler-" + _digest(self.identity))

    def _accepts(self, flag):
        status, _ = run_program([self.cc, "-Werror", flag, "-x", "c", "-E", "-o", os.devnull, os.devnull])
        return status == 0


def _c_compiler_of(cxx):
    """Return the C compiler that belongs to a C++ compiler: g++-12 -> gcc-12, clang++ -> clang, c++ -> cc.

    Return the C++ compiler itself if its folder contains no such C compiler.
    """
    folder, name = os.path.split(cxx)
    for plus, plain in (("clang++", "clang"), ("g++", "gcc"), ("c++", "cc")):
        if plus in name:
            path = os.path.join(folder, name.replace(plus, plain))
            if os.access(path, os.X_OK):
                return path
            break
    return cxx


def _find_vectorized():
    machine = os.uname().machine if hasattr(os, "uname") else ""
    if not sys.platform.startswith("linux") or machine not in _VECTOR_ABIS:
        return ()
    variants = {
        base + suffix: [prefix + "v" * arguments + "_" + base + suffix for prefix in prefixes]
        for base, arguments in VECTOR_FUNCTIONS.items()
        for suffix, prefixes in zip(("", "f"), _VECTOR_ABIS[machine])
    }
    symbols = list(itertools.chain(*variants.values()))
    try:
        there = dict(zip(symbols, dlopen_symbols("libmvec.so.1", symbols, partly=True)))
    except OSError:
        return ()
    return tuple([name for name, needed in variants.items() if all(map(there.__getitem__, needed))])


def _loads(library):
    try:
        dlopen_symbols(library, [])
    except OSError:
        return False
    return True


_processor = None


def processor_identity():
    """Return a text that differs between processors for which ``-march=native`` has different meanings."""
    global _processor
    if _processor is None:
        lines = []
        try:
            with open("/proc/cpuinfo", "rb") as file:
                head = file.read(8192).split(b"\n\n")[0].decode("latin-1")
            wanted = (
                "vendor_id",
                "cpu family",
                "model",
                "model name",
                "stepping",
                "flags",
                "Features",
                "CPU implementer",
                "CPU part",
            )
            lines = [line for line in head.split("\n") if line.split("\t")[0].rstrip(" :") in wanted]
        except OSError:
            pass
        if not lines:
            import platform

            lines = [platform.machine(), platform.processor()]
        _processor = _digest("\n".join(lines))
    return _processor


def _digest(text):
    return blake2b(text.encode("utf-8", "surrogateescape"), 12).hexdigest()


_toolchains = {}


def find_toolchain():
    """Return the `Toolchain` of `config.cxx`.

    Returns
    -------
    Toolchain or None
        None if `config.cxx` is empty or names no program.
    """
    program = config.cxx
    try:
        return _toolchains[program]
    except KeyError:
        pass
    toolchain = None
    if program:
        path = program if os.path.dirname(program) else _which(program)
        if path is not None and os.access(path, os.X_OK):
            # Resolve the folder but not the last link: drivers such as ccache and g++ depend on the name by which they
            # are called.
            path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            toolchain = Toolchain(path, os.stat(path))
    _toolchains[program] = toolchain
    return toolchain


def _which(program):
    for folder in os.get_exec_path():
        path = os.path.join(folder, program)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


@register_compiler_version
def compiler_version():
    """Return the version of the compiler as text. Return "none" if there is no compiler."""
    toolchain = find_toolchain()
    return "none" if toolchain is None else toolchain.version()


def require_toolchain():
    """Return `find_toolchain()`. If it is None, call `compiler_available`, which warns, and raise MissingGXX."""
    toolchain = find_toolchain()
    if toolchain is None:
        compiler_available()
        raise MissingGXX(missing_compiler())
    return toolchain


def missing_compiler():
    """Return a sentence for messages: the compiler is missing, and how users can provide one.

    The text is empty if there is a compiler.
    """
    if find_toolchain() is not None:
        return ""
    return (
        "no C++ compiler: config.cxx is %r. Install g++ (or clang++), or name the compiler with THEANO_FLAGS=cxx=/path/to/g++."
        % (config.cxx,)
    )


def shared_library_argument():
    """Return the argument that makes the compiler link a library that can be loaded at run time."""
    return "-bundle" if sys.platform == "darwin" else "-shared"


_warned = set()


def warn_once(key, message):
    """Show a warning at most once for each key in a process, even if the filters of `warnings` would repeat it."""
    if key not in _warned:
        _warned.add(key)
        import warnings

        warnings.warn(message, stacklevel=3)


def compiler_available():
    """Return True if C code can be compiled.

    If not, report this once: show a warning if `config.cxx` names a compiler, otherwise write to the log.
    """
    if find_toolchain() is not None:
        return True
    if config.cxx:
        warn_once(
            "compiler",
            "The C++ compiler %r (config.cxx) does not exist. Elementwise operations are interpreted; Ops with their "
            "own C code need a compiler." % (config.cxx,),
        )
    elif "compiler" not in _warned:
        import logging

        _warned.add("compiler")
        logging.getLogger("theano_ng.gof.cmodule").info(
            "There is no C++ compiler: elementwise operations are interpreted. Ops with their own C code need a "
            "compiler: install g++, or name it with THEANO_FLAGS=cxx=/path/to/g++."
        )
    return False


def spawn_environment():
    """Return the environment of a compiler: messages are in English, and no libraries are preloaded."""
    environment = dict(os.environ)
    environment["LC_ALL"] = "C"
    environment.pop("LD_PRELOAD", None)
    return environment


def run_program(command, directory=None):
    """Run a program without a shell and collect its output.

    Use posix_spawn if it exists: importing the subprocess module takes longer than linking a kernel.

    Returns
    -------
    (int, str)
        The exit status, and the output (stdout with stderr). A negative status is the number of the signal that ended
        the program. 127 means that the program could not be started.
    """
    if not hasattr(os, "posix_spawn"):
        import subprocess

        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except OSError as error:
            return 127, str(error)
        return done.returncode, done.stdout.decode("utf-8", "replace")
    reader, writer = os.pipe()
    try:
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, writer, 1),
            (os.POSIX_SPAWN_DUP2, writer, 2),
        ]
        try:
            pid = os.posix_spawn(command[0], command, spawn_environment(), file_actions=actions)
        except OSError as error:
            return 127, str(error)
        finally:
            os.close(writer)
        try:
            with open(reader, "rb", closefd=False) as stream:
                output = stream.read()
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except ChildProcessError:  # the host program has reaped the child; callers look for the output file
            status = 0
        except BaseException:  # interrupted: do not leave a compiler running
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            raise
    finally:
        os.close(reader)
    return status, output.decode("utf-8", "replace")


def compile_file(command, source_path, output_path, source):
    """Run a compiler command that turns `source_path` into `output_path`.

    Raises
    ------
    CompileError
        If the code was refused.
    OutOfDisk
        If the output could not be written. Another directory may work.
    """
    status, output = run_program(command)
    if status != 0 or not os.path.exists(output_path):
        if any(trouble in output for trouble in _DISK_TROUBLE):
            raise OutOfDisk("%s\n%s" % (" ".join(command), output))
        raise CompileError(command, status, output, source)
    if output and config.cmodule.compilation_warning:
        sys.stderr.write(output)
    return output
