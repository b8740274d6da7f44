"""The cache of compiled C++ modules.

Each entry is a directory ``<compiledir>/m<hash>`` with ``mod.cpp``, the module's file and ``info``. The directory is
filled under another name and published by one rename. `info` contains the checksum of the module's file, so that
truncated and foreign files are detected before they are loaded. An entry with such a file is built again. Modules of
Ops without a version are in a private directory of the process.

A module may include headers of the author of an Op, whose texts are not part of the source. The compiler lists these
headers, and `info` contains their checksums. If a header has changed, the module for the new text is in another entry,
whose name is computed from the name of the first entry and the new checksums (`ModuleCache._current_name`).
"""

import os
import time

from theano_ng.configdefaults import config
from theano_ng.digests import blake2b
from theano_ng.gof import progress
from theano_ng.gof.compiler import trust
from theano_ng.gof.compiler.gxx import GCC_compiler, dlimport, dlimport_workdir, get_lib_extension, own_headers
from theano_ng.gof.compiler.kernelcache import STALE, UnitLock, clear_kernels
from theano_ng.gof.compiler.toolchain import CompileError, require_toolchain, warn_once

FORMAT = "theano_ng module 2"
HASH_PLACEHOLDER = "<<<<HASH_PLACEHOLDER>>>>"
DELETE_AFTER = 7 * 24 * 3600  # an entry is deleted this number of seconds after it has become old


class KeyData:
    """The data that the cache has about one module.

    Parameters
    ----------
    keys : set
        The keys of the module in this process.
    module_hash : str
    key_pkl : str
        The path of the entry's `info` file.
    entry : str
        The path of the module's file.
    """

    def __init__(self, keys, module_hash, key_pkl, entry):
        self.keys, self.module_hash, self.key_pkl, self.entry = set(keys), module_hash, key_pkl, entry

    def add_key(self, key, save_pkl=True):
        """Add a key. If `save_pkl` is true, update the entry's time of use."""
        self.keys.add(key)
        if save_pkl:
            self.save_pkl()

    def remove_key(self, key, save_pkl=True):
        """Remove a key. If `save_pkl` is true, update the entry's time of use."""
        self.keys.remove(key)
        if save_pkl:
            self.save_pkl()

    def save_pkl(self):
        """Update the entry's time of use on disk."""
        try:
            os.utime(self.key_pkl)
        except OSError:
            pass

    def get_entry(self):
        """Return the path of the module's file. `ModuleCache` maps keys to this path."""
        return self.entry

    def delete_keys_from(self, entry_from_key, do_manual_check=True):
        """Remove this module's keys from a dict key -> entry.

        Parameters
        ----------
        entry_from_key : dict
        do_manual_check : bool
            Whether to also search the dict for keys whose value is this module's file, and to remove these keys. A key
            that does not equal copies of itself is found only by this search.
        """
        for key in self.keys:
            entry_from_key.pop(key, None)
        if do_manual_check:
            for key in [key for key, entry in entry_from_key.items() if is_same_entry(entry, self.entry)]:
                del entry_from_key[key]


def is_same_entry(entry_1, entry_2):
    """Return True if two paths name the same cache entry."""
    return entry_1 == entry_2 or os.path.realpath(entry_1) == os.path.realpath(entry_2)


def get_safe_part(key):
    """Return the part of a `cmodule_key` that does not depend on the process.

    It consists of the version and the compiler settings, without Ops and types.
    """
    version, rest = key
    return version, tuple(
        part
        for part in rest
        if isinstance(part, str) or isinstance(part, tuple) and all(isinstance(item, str) for item in part)
    )


def get_module_hash(src_code, key):
    """Return the name of a module. It is a digest of the source, the key's version and arguments, and the compiler.

    Parameters
    ----------
    src_code : str
    key : tuple
        The key of `CLinker.cmodule_key`.

    Returns
    -------
    str
    """
    import sys

    import numpy

    return (
        "m"
        + blake2b(
            "\0".join(
                [
                    FORMAT,
                    src_code,
                    repr(get_safe_part(key)),
                    require_toolchain().identity,
                    sys.version,
                    numpy.__version__,
                ]
            ).encode(),
            20,
        ).hexdigest()
    )


def last_access_time(path):
    """Return the last use of a file in seconds since the epoch: the later of its access and modification times."""
    status = os.stat(path)
    return max(status.st_atime, status.st_mtime)


def module_name_from_dir(dirname, err=True, files=None):
    """Return the path of the module's file in an entry's directory.

    Parameters
    ----------
    dirname : str
    err : bool
        If True, raise ValueError unless there is exactly one module. If False, return None in this case.
    files : list of str, optional
        The names of the files in the directory.
    """
    if files is None:
        files = os.listdir(dirname)
    names = [name for name in files if name.endswith((".so", ".pyd"))]
    if len(names) != 1:
        if err:
            raise ValueError("there should be exactly one module in %s, found %r" % (dirname, sorted(names)))
        return None
    return os.path.join(dirname, names[0])


def read_info(dirname):
    """Return an entry's `info` as a dict, or None if the file is missing or has another format."""
    try:
        with trust.open_file(os.path.join(dirname, "info")) as file:
            lines = file.read().decode("utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        return None
    if lines[0] != FORMAT or lines[-1] != "end":
        return None
    return dict(line.partition(" ")[::2] for line in lines[1:-1])


class ModuleCache:
    """The compiled modules on disk and in this process.

    Parameters
    ----------
    dirname : str
        The directory. It is created when needed. If it is not trusted, a warning is shown and another directory
        replaces it (`trust.directory`).
    check_for_broken_eq : bool
        Whether to check that each new key is equal to a copy of itself (`check_key`).
    do_refresh : bool
        Whether to scan the directory at once (`refresh`).

    Attributes
    ----------
    module_from_name : dict
        The file of a module -> module, for modules that are loaded in this process.
    entry_from_key : dict
        Key -> the module's file.
    stats : list of int
        The numbers of modules that were already loaded, loaded from disk, and compiled.
    """

    def __init__(self, dirname, check_for_broken_eq=True, do_refresh=True):
        self.dirname = trust.directory(os.path.abspath(dirname))
        self.check_for_broken_eq = check_for_broken_eq
        self.module_from_name, self.entry_from_key, self.module_hash_to_key_data = {}, {}, {}
        self.loaded_key_pkl = set()
        self.stats = [0, 0, 0]
        self.time_spent_in_check_key = 0.0
        self._by_hash, self._swept = {}, False
        self._headers = {}  # name of a loaded module -> checksums of the headers that it was compiled with
        if do_refresh:
            self.refresh(cleanup=False)
            if config.cmodule.preload_cache:
                self._preload()

    def _preload(self):
        for name in self._entries():
            module = self._load(os.path.join(self.dirname, name), name)
            if module is not None:
                self._by_hash[name] = self.module_from_name[module.__file__] = module

    def _entries(self):
        try:
            return sorted(entry.name for entry in os.scandir(self.dirname) if _is_module_hash(entry.name))
        except OSError:
            return []

    def refresh(self, age_thresh_use=None, delete_if_problem=False, cleanup=True):
        """Scan the directory.

        Parameters
        ----------
        age_thresh_use : float, optional
            A module is old if it has not been used for this number of seconds. By default,
            `config.cmodule.age_thresh_use`.
        delete_if_problem : bool
            Whether to delete unusable entries of any age.
        cleanup : bool
            Whether to delete broken entries that are a day old, and leftovers of killed processes.

        Returns
        -------
        list of str
            The files of the old modules.
        """
        age_thresh_use = config.cmodule.age_thresh_use if age_thresh_use is None else age_thresh_use
        now, too_old = time.time(), []
        for name in self._entries():
            folder = os.path.join(self.dirname, name)
            try:
                age = now - _last_use(folder)
                usable = read_info(folder) is not None and os.path.exists(
                    os.path.join(folder, name + get_lib_extension())
                )
            except OSError:  # another process removed it
                continue
            if not usable:
                if delete_if_problem or cleanup and age > STALE:
                    _rmtree(folder, msg="unusable entry")
            elif age > age_thresh_use:
                too_old.append(os.path.join(folder, name + get_lib_extension()))
        if cleanup:
            self._sweep(STALE)
        return too_old

    def _sweep(self, age):
        """Remove directories of compilations that were killed more than `age` seconds ago."""
        now = time.time()
        try:
            entries = list(os.scandir(self.dirname))
        except OSError:
            return
        for entry in entries:
            if entry.name.startswith(("tmp-", "lock-")):
                try:
                    if now - entry.stat().st_mtime >= age:
                        os.unlink(entry.path) if entry.is_file() else _rmtree(entry.path, msg="leftover")
                except OSError:
                    pass

    def check_key(self, key, key_pkl):
        """Check that a key equals a copy of itself.

        If it does not, show a warning: an Op or a type in the key lacks a proper `__eq__` or `__hash__`, so the module
        can be found only by its source code.

        Parameters
        ----------
        key : tuple
        key_pkl : str
            The name of the key in the warning.
        """
        import copy

        start = time.time()
        try:
            other = copy.deepcopy(key)
        except Exception:  # a key that cannot be copied cannot be compared
            return
        if not (key == other and hash(key) == hash(other)):
            warn_once(
                ("key", key_pkl),
                "the key of %s is not equal to a copy of itself. A type or Op in it has no __eq__ and __hash__ "
                "(declare __props__); its compiled code is found by its text only." % key_pkl,
            )
        self.time_spent_in_check_key += time.time() - start

    def module_from_key(self, key, lnk=None, keep_lock=False):
        """Return the module of a linker's graph. If necessary, load it from disk, or compile it.

        Parameters
        ----------
        key : tuple or None
            ``lnk.cmodule_key()``. If it contains no version, the module is compiled in this process's private
            directory.
        lnk : CLinker, optional
            The linker, which generates the source. If None, only a key that was used in this process is found.
        keep_lock : bool
            Accepted for the classic signature. An entry is locked only while it is compiled.

        Returns
        -------
        module

        Raises
        ------
        CompileError, MissingGXX, MethodNotDefined
        ValueError
            If `lnk` is None and the key is not known.
        """
        if lnk is None:
            try:
                return self.module_from_name[self.entry_from_key[key]]
            except KeyError:
                raise ValueError("this key has no module yet, and no linker was given to make one", key) from None
        arguments = (
            tuple(lnk.compile_args()),
            tuple(lnk.header_dirs()),
            tuple(lnk.lib_dirs()),
            tuple(lnk.libraries()),
            lnk.c_compiler().__name__,
        )
        versions = key[0] if key is not None else ()
        source = lnk.get_src_code()
        name = self._current_name(get_module_hash(source, (versions, arguments)), bool(versions))
        module = self._by_hash.get(name)
        if module is not None:
            self.stats[0] += 1
        else:
            module = self._find_or_compile(name, source, lnk, bool(versions))
            self._by_hash[name] = module
            self.module_from_name[module.__file__] = module
        if key is not None:
            self._note(key, name, module.__file__)
        return module

    def _current_name(self, name, versioned):
        """Return the name of the entry for the present texts of the headers that a module includes.

        It is the name itself if the entry does not exist yet, if it includes no headers of users, or if these headers
        have not changed since it was compiled.
        """
        while True:
            headers = self._headers.get(name)
            if headers is None:
                folder = os.path.join(self.dirname, name) if versioned else self.private_location(name)
                info = read_info(folder) if trust.is_trusted(folder) else None
                headers = _headers_of(info or {})
            present = {path: _checksum(path) for path in headers}
            if present == headers:
                return name
            name = "m" + blake2b(("%s %s" % (name, _text_of(present))).encode(), 20).hexdigest()

    def _note(self, key, name, file):
        try:
            known = self.entry_from_key.get(key)
        except TypeError:  # the key contains an Op that cannot be hashed
            return
        if known != file:
            self.entry_from_key[key] = file
            info = os.path.join(os.path.dirname(file), "info")
            data = self.module_hash_to_key_data.setdefault(name, KeyData(set(), name, info, file))
            data.add_key(key, save_pkl=False)
            if self.check_for_broken_eq:
                self.check_key(key, info)

    def _find_or_compile(self, name, source, lnk, versioned):
        if not versioned:
            return self._compile(self.private_location(name), name, source, lnk)
        folder = os.path.join(self.dirname, name)
        module = self._load(folder, name)
        if module is not None:
            self.stats[1] += 1
            return module
        try:
            return self._compile_and_publish(folder, name, source, lnk)
        except CompileError:
            raise
        except OSError as error:
            warn_once(
                ("directory", self.dirname),
                "The compile directory %s cannot be written (%s). Compiled code goes to a temporary directory and is lost when the "
                "process ends. Free disk space, or choose another directory with THEANO_FLAGS=base_compiledir=..."
                % (self.dirname, error),
            )
            return self._compile(self.private_location(name), name, source, lnk)

    def private_location(self, name=None):
        """Return a private directory of this process for a module. The directory is deleted when the process ends."""
        folder = os.path.join(trust.private_directory(), name or "module-" + os.urandom(6).hex())
        return trust.make_directory(folder)

    def _load(self, folder, name):
        """Return the module of an entry, or None if it is missing or cannot be used."""
        info = read_info(folder) if trust.is_trusted(folder) else None
        if info is None:
            return None
        path = os.path.join(folder, name + get_lib_extension())
        try:
            if time.time() - _last_use(folder) > config.cmodule.age_thresh_use:
                return None
            with trust.open_file(path) as file:
                if blake2b(file.read()).hexdigest() != info.get("checksum"):
                    return None
            module = dlimport(path)
            self._headers[name] = _headers_of(info)
        except (OSError, ImportError):
            return None
        _touch(folder)
        return module

    def _compile_and_publish(self, folder, name, source, lnk):
        trust.make_directory(self.dirname)
        require_toolchain().load_flags(self.dirname)
        if not self._swept:
            self._swept = True
            self._sweep(STALE)
        lock = UnitLock(os.path.join(self.dirname, "lock-" + name))
        work = None
        try:
            module = self._load(folder, name)  # another process may have published the module meanwhile
            if module is not None:
                self.stats[1] += 1
                return module
            work = dlimport_workdir(self.dirname)
            path, headers = self._compile_file(work, name, source, lnk, final_location=folder)
            _write_info(work, path, headers, lnk)
            for _ in range(10):
                try:
                    os.rename(work, folder)
                    break
                except OSError:  # usually because the folder exists: another process made it, or it is unusable
                    if not os.path.isdir(folder):
                        raise
                    module = self._load(folder, name)
                    if module is not None:
                        return module
                    grave = dlimport_workdir(self.dirname)
                    try:
                        os.rename(folder, os.path.join(grave, "entry"))
                    except FileNotFoundError:
                        pass
                    _rmtree(grave, ignore_nocleanup=True, msg="unusable entry")
            self.stats[2] += 1
            self._headers[name] = headers
            try:
                return self._import(os.path.join(folder, name + get_lib_extension()), lnk)
            except Exception:
                _rmtree(folder, msg="module that cannot be loaded")
                raise
        finally:
            lock.release()
            if work is not None and os.path.isdir(work):
                _rmtree(work, msg="compilation that did not succeed")

    def _compile(self, folder, name, source, lnk):
        path, self._headers[name] = self._compile_file(folder, name, source, lnk)
        self.stats[2] += 1
        return self._import(path, lnk)

    @staticmethod
    def _import(path, lnk):
        """Load a module that has just been compiled. If this fails, raise an ImportError that names its Ops."""
        try:
            return dlimport(path)
        except ImportError as error:
            hint = ""
            if "undefined symbol" in str(error):
                hint = (
                    ". The C code declares a name that is not defined: list the library that defines it in c_libraries, and "
                    "the directory of the library in c_lib_dirs"
                )
            raise ImportError(
                "The module with the C code of %s was compiled, but cannot be loaded: %s%s"
                % (", ".join(dict.fromkeys(str(node.op) for node in lnk.node_order)), error, hint),
                path=path,
            ) from error

    @staticmethod
    def _compile_file(folder, name, source, lnk, final_location=None):
        """Compile a module, and return its path and the checksums of the headers of users that it includes."""
        start = time.time_ns()
        compile_str = lnk.c_compiler().compile_str
        # `final_location` is not a documented argument, so the `compile_str` of an Op's own compiler may refuse it.
        more = {"final_location": final_location} if compile_str is GCC_compiler.compile_str else {}
        what, begun = ", ".join(dict.fromkeys(str(node.op) for node in lnk.node_order)), time.perf_counter()
        progress.task.calling_compiler(what)
        try:
            path = compile_str(
                name,
                source.replace(HASH_PLACEHOLDER, name),
                location=folder,
                include_dirs=lnk.header_dirs(),
                lib_dirs=lnk.lib_dirs(),
                libs=lnk.libraries(),
                preargs=lnk.compile_args(),
                py_module=False,
                **more,
            )
            progress.task.called_compiler(what, time.perf_counter() - begun)
            return path, {header: _checksum(header, start) for header in own_headers(folder)}
        except CompileError as error:
            if len(lnk.node_order) == 1:
                error.name_node(lnk.node_order[0])
            raise

    def compile_to(self, location, lnk):
        """Compile a linker's module in a directory and load it, without adding it to the cache."""
        source = lnk.get_src_code()
        name = get_module_hash(source, ((), tuple(lnk.compile_args())))
        return self._compile(os.path.abspath(location), name, source, lnk)

    # Cleaning

    def clear(self, unversioned_min_age=None, clear_base_files=False, delete_if_problem=False):
        """Delete all modules and kernels.

        Parameters
        ----------
        unversioned_min_age : float, optional
            See `clear_unversioned`.
        clear_base_files : bool
            Whether to call the method `clear_base_files`, too. It deletes the precompiled headers.
        delete_if_problem : bool
            Whether to delete also entries that cannot be read.
        """
        self.clear_old(age_thresh_del=-1.0, delete_if_problem=delete_if_problem)
        self.clear_unversioned(min_age=unversioned_min_age)
        self._sweep(0)
        if clear_base_files:
            self.clear_base_files()

    def clear_old(self, age_thresh_del=None, delete_if_problem=False):
        """Delete modules and kernels that have not been used for a long time.

        Parameters
        ----------
        age_thresh_del : float, optional
            The time in seconds. By default, `config.cmodule.age_thresh_use` plus a week.
        delete_if_problem : bool
            Whether to delete also entries that cannot be used.

        Returns
        -------
        int
            The number of deleted modules and kernels.
        """
        if age_thresh_del is None:
            age_thresh_del = config.cmodule.age_thresh_use + DELETE_AFTER
        removed = 0
        for path in self.refresh(age_thresh_use=age_thresh_del, delete_if_problem=delete_if_problem):
            _rmtree(os.path.dirname(path), msg="old module")
            removed += 1
        return removed + clear_kernels(trust.directory(os.path.join(self.dirname, "kernels")), max(age_thresh_del, 0.0))

    def clear_unversioned(self, min_age=None):
        """Delete the modules of this process that have no version, unless they are loaded.

        Parameters
        ----------
        min_age : float, optional
            The minimum time in seconds since their compilation. By default, 0.
        """
        folder = trust.private_directory()
        loaded = {os.path.dirname(path) for path in self.module_from_name}
        for entry in os.scandir(folder):
            try:
                old_enough = time.time() - entry.stat().st_mtime >= (min_age or 0.0)
            except OSError:
                continue
            if entry.is_dir() and entry.path not in loaded and _is_module_hash(entry.name) and old_enough:
                _rmtree(entry.path, msg="module without version")

    def clear_base_files(self):
        """Delete the precompiled headers and the stored data about compilers."""
        try:
            entries = list(os.scandir(self.dirname))
        except OSError:
            return
        for entry in entries:
            if entry.name.startswith("pch-"):
                _rmtree(entry.path, msg="precompiled header")
            elif entry.name.startswith("compiler-"):
                try:
                    os.unlink(entry.path)
                except OSError:
                    pass


def _is_module_hash(name):
    return len(name) == 41 and name[0] == "m"


def _last_use(folder):
    try:
        return os.stat(os.path.join(folder, "info")).st_mtime
    except FileNotFoundError:
        return os.stat(folder).st_mtime


def _touch(folder):
    """Update an entry's time of use, at most once a day."""
    try:
        if time.time() - _last_use(folder) > STALE:
            os.utime(os.path.join(folder, "info"))
    except OSError:
        pass


def _checksum(path, unchanged_since=None):
    """Return the checksum of a header, or None if it cannot be read.

    It is also None if the header was changed at the time `unchanged_since` (in nanoseconds) or later: nobody knows
    whether the compiler read the old text or the new one.
    """
    try:
        with open(path, "rb") as file:
            if unchanged_since is not None and os.stat(file.fileno()).st_mtime_ns >= unchanged_since:
                return None
            return blake2b(file.read(), 20).hexdigest()
    except OSError:
        return None


def _write_info(folder, path, headers, lnk):
    with open(path, "rb") as file:
        checksum = blake2b(file.read()).hexdigest()
    ops = sorted({type(node.op).__name__ for node in lnk.node_order})
    with open(os.path.join(folder, "info"), "w", encoding="utf-8") as file:
        file.write("%s\nchecksum %s\nops %s\nheaders %s\nend" % (FORMAT, checksum, " ".join(ops), _text_of(headers)))
    for name in os.listdir(folder):
        trust.deny_others_write(os.path.join(folder, name))


def _text_of(headers):
    """Return the text in `info` of a dict from the paths of headers to their checksums."""
    if not headers:
        return "{}"
    import json  # imported only if an author's header is included, which is rare

    return json.dumps(headers, sort_keys=True)


def _headers_of(info):
    """Return the dict from the paths of headers to their checksums that `_text_of` wrote into `info`."""
    text = info.get("headers", "{}")
    if text == "{}":
        return {}
    import json

    return json.loads(text)


def _rmtree(parent, ignore_nocleanup=False, msg="", level=10, ignore_if_missing=False):
    """Delete a directory, unless `config.nocleanup` keeps it for debugging.

    Parameters
    ----------
    parent : str
    ignore_nocleanup : bool
        Whether to delete the directory despite `config.nocleanup`.
    msg : str
        A description of the directory, for the log.
    level : int
        The log level of this message.
    ignore_if_missing : bool
        Whether to log nothing if the directory does not exist.
    """
    if config.nocleanup and not ignore_nocleanup:
        return
    import logging
    import shutil

    logger = logging.getLogger("theano_ng.gof.cmodule")
    try:
        shutil.rmtree(parent)
        logger.log(level, "deleted %s (%s)", parent, msg)
    except FileNotFoundError:
        if not ignore_if_missing:
            logger.log(level, "%s was already deleted (%s)", parent, msg)
    except OSError as error:
        logger.warning("could not delete %s: %s", parent, error)


_caches = {}


def get_module_cache(dirname, init_args=None):
    """Return the ModuleCache of a directory.

    Parameters
    ----------
    dirname : str
    init_args : dict, optional
        Keyword arguments for the constructor if the cache does not exist yet.
    """
    cache = _caches.get(dirname)
    if cache is None:
        cache = _caches[dirname] = ModuleCache(
            dirname,
            **(
                init_args
                or {
                    "check_for_broken_eq": bool(config.cmodule.debug),  # it copies every Op
                    "do_refresh": bool(config.cmodule.preload_cache),
                }
            ),
        )
    return cache
