"""The cache of compiled kernels. It is content-addressed and shared by processes. Loading a kernel takes no lock.

Layout of the directory (``<compiledir>/kernels``):

- ``u<digest>.so``: a unit: one or more kernels that were compiled together. Its name is the checksum of its content, so
  a truncated or foreign file is detected before it is mapped;
- ``k<key>``: a symbolic link to the unit that contains the kernel with this key (or, if the system does not allow
  links, a text file with the unit's name);
- ``tmp-*``, ``lock-*``: files of compilations in progress. Leftovers of killed processes are removed when they are a
  day old.

Every file is published by a rename. Locks only avoid duplicate work. They are flock locks: the system releases a lock
when the process that holds it ends. A process that waits too long continues without the lock.
"""

import functools
import os
import time
from typing import NamedTuple

from theano_ng.configdefaults import config
from theano_ng.digests import blake2b
from theano_ng.gof import progress
from theano_ng.gof._native import dlopen_symbols, lend_vector_math
from theano_ng.gof.compiler import trust
from theano_ng.gof.compiler.toolchain import (
    KERNEL_FLAGS,
    CompileError,
    c_include_text,
    compile_file,
    require_toolchain,
    shared_library_argument,
    warn_once,
)
from theano_ng.gof.deferred import run_later

FORMAT = b"theano_ng kernels 1"
STALE = 24 * 3600.0  # age in seconds at which leftovers of killed processes are removed

use_locks = True  # set by compilelock.set_lock_status
_prologue = None


def kernel_prologue():
    """Return the text of kernel_prologue.h, in which the includes are expanded.

    The compiler of a kernel gets no path to the directory of these headers.
    """
    global _prologue
    if _prologue is None:
        included = "complex_numbers.h"
        _prologue = c_include_text("kernel_prologue.h").replace('#include "%s"\n' % included, c_include_text(included))
    return _prologue


class LoadedKernel(NamedTuple):
    """The addresses that the loader returns for a `Kernel`.

    Attributes
    ----------
    address : int
        The address of a C function.
    program : int
        If the function is an interpreter, the address of the program to pass as its parameter `program`. 0 if the
        function is a compiled kernel.
    """

    address: int
    program: int = 0


class KernelCache:
    """The compiled kernels of one directory.

    Parameters
    ----------
    directory : str
        The directory. It is created when it is first needed. If it is not trusted, another directory replaces it
        (`trust.directory`). If it cannot be written, a private temporary directory is used. Each case causes one
        warning.
    """

    def __init__(self, directory):
        lend_vector_math()
        self.shared = self.directory = trust.directory(directory)
        self._addresses = {}  # address of each loaded kernel by its key
        self._units = set()  # paths of the loaded units
        self._bases = {}  # (compiler, command, head of the source) -> hash state after these, for keys that share them
        self._swept = False

    def load(self, kernels):
        """Return the addresses of kernels.

        Compile kernels that are not in the cache. One compiler process compiles all kernels of the same language,
        headers, arguments and libraries (`units`).

        Parameters
        ----------
        kernels : sequence of Kernel

        Returns
        -------
        list of int

        Raises
        ------
        CompileError
            If a kernel cannot be compiled. The attribute `kernel` of the error is this kernel.
        MissingGXX
            If there is no compiler.
        """
        toolchain = require_toolchain()
        keys = [self.key(kernel, toolchain) for kernel in kernels]
        missing = {}
        for key, kernel in zip(keys, kernels):
            if key not in self._addresses and key not in missing and not self._find(key):
                missing[key] = kernel
        if missing:
            groups = units(missing)
            for i, group in enumerate(groups):
                progress.task.calling_compiler(_names(group), i + 1, len(groups))
                self._build(group, toolchain)
        return [self._addresses[key] for key in keys]

    def address(self, key):
        """Return the address of a kernel that some process has compiled. Return 0 if no process has compiled it."""
        if key in self._addresses or self._find(key):
            return self._addresses[key]
        return 0

    def has(self, kernel):
        """Return True if a kernel is compiled. In this case it is also loaded.

        Raises
        ------
        MissingGXX
            If there is no compiler.
        """
        return self.address(self.key(kernel)) != 0

    def key(self, kernel, toolchain=None):
        """Return the digest of a kernel as a hex string. It covers the source, the compiler command and the compiler.

        The source and the command are those for a compilation of this kernel alone. The compiler gets no other input,
        so the key covers everything on which a kernel depends.
        """
        toolchain = toolchain or require_toolchain()
        # Leave out the flags that compilers may refuse. The identity of a compiler determines which flags it refuses,
        # but these flags are known only after the compiler has refused them.
        command = [word for word in unit_command(kernel, toolchain, "", "") if word not in KERNEL_FLAGS]
        head, text = unit_parts({"": kernel}, toolchain)
        kind = (toolchain.identity, tuple(command), head)
        base = self._bases.get(kind)
        if base is None:
            base = self._bases[kind] = blake2b(FORMAT)
            base.update(repr((*KERNEL_FLAGS, *kind)).encode("utf-8", "surrogateescape"))
        hasher = base.copy()
        hasher.update(repr((kernel.symbol, *text)).encode("utf-8", "surrogateescape"))
        return hasher.hexdigest()

    # Looking up

    def _find(self, key):
        """Load a kernel that is in the directory. Return False if it is missing or cannot be used."""
        for directory in dict.fromkeys((self.shared, self.directory)):
            unit = linked_unit(os.path.join(directory, "k" + key))
            try:
                if unit is not None and self._load_unit(directory, unit, [key]):
                    return True
            except OSError:
                pass
        return False

    def _load_unit(self, directory, unit, keys):
        """Check a unit's content against its name, and load kernels from the unit. Return True on success."""
        path = os.path.join(directory, unit)
        known = path in self._units  # the file of a unit that is already loaded is not read again
        if not known:
            with trust.open_file(path) as file:
                content = file.read()
                modified = os.fstat(file.fileno()).st_mtime
            if unit != unit_name(content) or time.time() - modified > config.cmodule.age_thresh_use:
                return False
        try:
            addresses = dlopen_symbols(path, map(symbol_of, keys))
        except OSError:
            return False
        self._addresses.update(zip(keys, addresses))
        self._units.add(path)
        if not known and time.time() - modified > STALE:
            try:
                os.utime(path)  # `clear_kernels` deletes units whose time is old; update it at most once a day
            except OSError:
                pass
        return True

    # Compiling

    def _build(self, group, toolchain):
        """Compile missing kernels of one group of `units`, publish them and load them."""
        try:
            try:
                self._compile(group, toolchain)
            except OSError as error:
                if self.directory != self.shared:
                    raise
                self.give_up(error)
                self._compile(group, toolchain)
        except CompileError as error:
            if len(group) == 1:
                (error.kernel,) = group.values()
                raise
            # Compile each kernel alone, to find the faulty ones. This also avoids errors from helper functions of the
            # same name in two kernels.
            for i, (key, kernel) in enumerate(group.items()):
                progress.task.calling_compiler(_names({key: kernel}), i + 1, len(group))
                self._build({key: kernel}, toolchain)

    def give_up(self, error):
        """Use a private directory for compilations from now on. Show a warning with the reason `error`."""
        if not run_later.ending:
            self.directory = os.path.join(trust.private_directory(), "kernels-%d" % id(self))
        warn_once(
            ("directory", self.shared),
            "The compile directory %s cannot be written (%s). Compiled code goes to a temporary directory and is lost when the process "
            "ends. Free disk space, or choose another directory with THEANO_FLAGS=base_compiledir=..."
            % (self.shared, error),
        )

    def _compile(self, group, toolchain):
        trust.make_directory(self.directory)
        toolchain.load_flags(self.directory)
        if not self._swept:
            self._swept = True
            sweep(self.directory)
        name = blake2b("".join(group).encode(), 12).hexdigest()
        lock = UnitLock(os.path.join(self.directory, "lock-" + name))
        try:
            # Check again under the lock: another process may have published the kernels.
            if all([self._find(key) for key in group]):
                return
            self._compile_and_publish(group, toolchain)
        finally:
            lock.release()

    def _compile_and_publish(self, group, toolchain):
        source = unit_source(group, toolchain)
        stem = os.path.join(self.directory, "tmp-%d-%s" % (os.getpid(), os.urandom(6).hex()))
        first = next(iter(group.values()))
        suffix = ".cpp" if first.language == "c++" else ".c"
        output = stem + ".so"
        begun = time.perf_counter()
        try:
            with open(stem + suffix, "w", encoding="utf-8") as file:
                file.write(source)
            try:
                compile_file(unit_command(first, toolchain, stem + suffix, output), stem + suffix, output, source)
            except CompileError:
                if not toolchain.probe(self.directory):
                    raise
                compile_file(unit_command(first, toolchain, stem + suffix, output), stem + suffix, output, source)
            progress.task.called_compiler(_names(group), time.perf_counter() - begun)
            with open(output, "rb") as file:
                unit = unit_name(file.read())
            trust.publish(output, os.path.join(self.directory, unit))
            if config.cmodule.debug or config.cmodule.remove_gxx_opt:  # keep the source for a debugger
                os.replace(stem + suffix, os.path.join(self.directory, unit[:-3] + suffix))
            if not self._load_unit(self.directory, unit, list(group)):
                # The compiler succeeded, but the dynamic linker failed (for example, a library is missing): report its
                # message.
                os.replace(os.path.join(self.directory, unit), output)
                try:
                    dlopen_symbols(output, map(symbol_of, group))
                except OSError as error:
                    raise CompileError(
                        unit_command(first, toolchain, stem + suffix, output), 0, str(error), source
                    ) from None
            for key in group:
                self._publish(key, unit)
        finally:
            for leftover in (stem + suffix, output):
                if not config.nocleanup:
                    _unlink(leftover)

    def _publish(self, key, unit):
        path = os.path.join(self.directory, "k" + key)
        try:
            os.symlink(unit, path)
            return
        except FileExistsError:
            pass
        except (OSError, NotImplementedError):
            with open("%s.%d" % (path, os.getpid()), "w") as file:
                file.write(unit)
            trust.publish(file.name, path)
            return
        temporary = os.path.join(self.directory, "tmp-%d-%s" % (os.getpid(), os.urandom(6).hex()))
        os.symlink(unit, temporary)
        os.replace(temporary, path)


def units(kernels):
    """Divide kernels into groups that one call of the compiler can compile together.

    Parameters
    ----------
    kernels : dict
        Key -> Kernel.

    Returns
    -------
    list of dict
    """
    groups = {}
    for key, kernel in kernels.items():
        kind = (kernel.language, tuple(kernel.headers), tuple(kernel.compile_args), tuple(kernel.libraries))
        groups.setdefault(kind, {})[key] = kernel
    return list(groups.values())


def symbol_of(key):
    """Return the name of a kernel's function. It contains the key."""
    return "k" + key


def linked_unit(path):
    """Return the name of the unit to which the link (or text file) of a kernel refers.

    Return None if there is no link.
    """
    try:
        unit = os.readlink(path)
    except FileNotFoundError:
        return None
    except OSError:
        try:
            with open(path, "rb") as file:
                unit = file.read(200).decode("ascii", "replace")
        except OSError:
            return None
    return unit if os.path.basename(unit) == unit else None


def _names(group):
    return "1 loop" if len(group) == 1 else "%d loops" % len(group)


def unit_name(content):
    """Return the file name of a unit with this content."""
    return "u%s.so" % blake2b(content).hexdigest()


def unit_source(group, toolchain):
    """Return the C source of a unit.

    Parameters
    ----------
    group : dict
        Key -> Kernel. All kernels have the same language and the same headers.
    toolchain : Toolchain

    Returns
    -------
    str
    """
    head, text = unit_parts(
        {key: k._replace(source=rename_symbol(k.source, k.symbol, symbol_of(key))) for key, k in group.items()},
        toolchain,
    )
    return "\n".join([head, *text]) + "\n"


def unit_parts(group, toolchain):
    """Return the C source of a unit in two parts. The functions are not renamed (see `rename_symbol`).

    Parameters
    ----------
    group : dict
    toolchain : Toolchain

    Returns
    -------
    head : str
        The beginning of the source, which is the same for all kernels with these headers.
    text : list of str
        The support code and the source of the kernels.
    """
    first = next(iter(group.values()))
    includes = "".join(["#include %s\n" % header for header in first.headers])
    head = _head(includes, kernel_prologue(), toolchain.vector_declarations)
    text = list(dict.fromkeys(kernel.support for kernel in group.values() if kernel.support))
    form = 'extern "C" {\n%s\n}' if first.language == "c++" else "%s"
    return head, text + [form % kernel.source for kernel in group.values()]


@functools.cache
def _head(*parts):
    return "\n".join(parts)


def unit_command(kernel, toolchain, source_path, output_path):
    """Return the command line that compiles a unit of kernels with the language and arguments of `kernel`."""
    cplusplus = kernel.language == "c++"
    compiler = toolchain.cxx if cplusplus else toolchain.cc
    command = [
        compiler,
        *toolchain.flags(),
        "-std=gnu++17" if cplusplus else "-std=gnu11",
        shared_library_argument(),
        "-fPIC",
    ]
    if not config.cmodule.compilation_warning:
        command.append("-w")
    command += kernel.compile_args
    command += toolchain.user_flags()
    # A C kernel needs neither start-up files nor standard libraries. Without these, linking takes half the time.
    bare = not (cplusplus or kernel.libraries or kernel.compile_args) and "gcc" in os.path.basename(compiler)
    if bare:
        command.append("-nostdlib")
    command += ["-x", "c++" if cplusplus else "c", source_path, "-x", "none", "-o", output_path]
    command += ["-l" + library for library in kernel.libraries]
    command += toolchain.math_libraries()
    if bare:
        command.append("-lgcc")
    return command


class UnitLock:
    """A lock that a process holds while it compiles a unit.

    `waited` is True if another process or thread held the lock when this lock was requested. This is an flock lock:
    the system releases it when the process that holds it ends, for any reason. If the lock cannot be created or is not
    acquired in time, the caller continues without it.
    """

    def __init__(self, path):
        self.path, self.waited, self._fd = path, False, None
        if not use_locks:
            return
        try:
            import fcntl
        except ImportError:  # no flock: two processes may compile the same unit, and the last rename wins
            return
        # An OSError here means that the directory cannot be written. The caller handles it.
        fd = trust.open_stamp(path)
        pause, deadline = 0.002, time.monotonic() + config.compile.timeout
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._fd = fd
                return
            except BlockingIOError:
                self.waited = True
                if time.monotonic() > deadline:
                    break
                time.sleep(pause)
                pause = min(2 * pause, 0.05)
            except OSError:  # a file system without locks
                break
        os.close(fd)

    def release(self):
        """Release the lock."""
        if self._fd is not None:
            # Unlink the file while the lock is held: a process that waits for this file gets the lock next, and finds
            # the unit published.
            _unlink(self.path)
            os.close(self._fd)
            self._fd = None


def sweep(directory, age=STALE):
    """Remove leftovers of killed processes that are older than `age` seconds.

    The directory is swept at most once every `age` seconds, unless `age` is 0.
    """
    stamp = os.path.join(directory, "swept")
    now = time.time()
    try:
        if age and now - os.stat(stamp).st_mtime < age:
            return
    except OSError:
        pass
    try:
        os.close(trust.open_stamp(stamp))
        os.utime(stamp)
    except OSError:
        return
    for entry in os.scandir(directory):
        if entry.name.startswith(("tmp-", "lock-")):
            try:
                if now - entry.stat(follow_symlinks=False).st_mtime >= age:
                    os.unlink(entry.path)
            except OSError:
                pass


def clear_kernels(directory, age=0.0):
    """Remove units not used for `age` seconds, kernels (links) without a unit, and leftovers of killed processes.

    Returns
    -------
    int
        The number of removed kernels.
    """
    removed, now = 0, time.time()
    try:
        entries = sorted(entry.name for entry in os.scandir(directory))
    except OSError:
        return 0
    units = set()
    for name in entries:
        if name.startswith("u"):
            path = os.path.join(directory, name)
            try:
                if now - os.stat(path).st_mtime >= age:
                    os.unlink(path)
                else:
                    units.add(name)
            except OSError:
                pass
    for name in entries:
        if name.startswith("k"):
            path = os.path.join(directory, name)
            if linked_unit(path) not in units:
                _unlink(path)
                removed += 1
    sweep(directory, age=0 if age == 0 else STALE)
    return removed


def _unlink(path):
    try:
        os.unlink(path)
    except OSError:
        pass


_caches = {}


def get_kernel_cache():
    """Return the KernelCache of `config.compiledir`."""
    directory = os.path.join(config.compiledir, "kernels")
    cache = _caches.get(directory)
    if cache is None:
        cache = _caches[directory] = KernelCache(directory)
    return cache


def load_kernels(kernels):
    """Return the addresses of kernels. Compile missing kernels. See `KernelCache.load`."""
    return get_kernel_cache().load(kernels)


def has_kernel(kernel):
    """Return True if a kernel is compiled; see `KernelCache.has`."""
    return get_kernel_cache().has(kernel)


def rename_symbol(source, symbol, name):
    """Replace the placeholder `symbol` by the real name of a function.

    Also replace it at the beginning of the name of a helper function (``KERNEL_helper``).
    """
    import re

    return re.sub(r"\b%s(?=_|\b)" % re.escape(symbol), name, source)
