"""Functions that list and clean compile directories."""

import os
import re

from theano_ng.configdefaults import config
from theano_ng.gof.compiler import trust
from theano_ng.gof.compiler.compilelock import LOCK_NAME
from theano_ng.gof.compiler.kernelcache import linked_unit
from theano_ng.gof.compiler.modulecache import _is_module_hash, _rmtree, get_module_cache, read_info

string_types = (str,)

#: The subdirectory of the compile directory for code that ``theano_ng-audit`` compiled with sanitizers.
SANITIZED = "sanitizer"

# This pattern matches the names that the cache gives to files and directories in a compile directory.
_OWN_NAME = re.compile(
    r"m[0-9a-f]{40}|(?:pch|tmp|lock|compiler)-.+|%s"
    % "|".join(map(re.escape, (LOCK_NAME, "kernels", "graphs", "gpuarray_kernels", SANITIZED)))
)

__all__ = [
    "basecompiledir_ls",
    "basecompiledir_purge",
    "cleanup",
    "compiledir_purge",
    "config",
    "print_compiledir_content",
    "print_title",
    "string_types",
]


def cleanup():
    """Delete old modules and kernels, unusable entries, and leftovers of killed processes.

    A module or kernel is old if it has not been used for `config.cmodule.age_thresh_use` plus a week.

    Returns
    -------
    int
        The number of deleted modules and kernels.
    """
    return get_module_cache(config.compiledir).clear_old(delete_if_problem=True)


def print_title(title, overline="", underline=""):
    """Print a title between two lines that repeat a character.

    Parameters
    ----------
    title : str
    overline, underline : str
        One character each, or '' for no line.
    """
    if overline:
        print(overline * len(title))
    print(title)
    if underline:
        print(underline * len(title))


def print_compiledir_content():
    """Print the content of `config.compiledir`: the modules of each Op, then the kernels, with sizes.

    Also print the files that are not loaded, with the reasons.
    """
    folder = trust.directory(config.compiledir)
    print_title("Theano cache: %s" % folder, overline="=", underline="=")
    modules, total = {}, 0
    for name in _names(folder):
        if _is_module_hash(name):
            info = read_info(os.path.join(folder, name))
            size = _size(os.path.join(folder, name))
            total += size
            ops = info.get("ops", "") if info is not None else "(unusable)"
            modules.setdefault(ops or "(none)", []).append((name, size))
    print()
    print_title(
        "List of %d compiled modules, by the classes of their Ops" % sum(map(len, modules.values())), underline="-"
    )
    for ops in sorted(modules):
        print("%s: %d" % (ops, len(modules[ops])))
        for name, size in modules[ops]:
            print("    %s %s" % (_human(size).rjust(10), name))
    kernels = os.path.join(folder, "kernels")
    names = _names(kernels)
    units = {linked_unit(os.path.join(kernels, name)) for name in names if name.startswith("k")}
    print()
    print_title("Kernels", underline="-")
    print(
        "%d kernels in %d libraries, %s"
        % (sum(name.startswith("k") for name in names), len(units), _human(_size(kernels)))
    )
    headers = [name for name in _names(folder) if name.startswith("pch-")]
    print(
        "%d precompiled headers, %s"
        % (len(headers), _human(sum(_size(os.path.join(folder, name)) for name in headers)))
    )
    print("Total size: %s" % _human(_size(folder)))
    _print_untrusted()


def _print_untrusted():
    """Print the untrusted files in `config.compiledir` and untrusted directories above it, if there are any.

    Code is not loaded from these files and directories, because other users may have written to them.
    """
    found = trust.untrusted_content(config.compiledir)
    if found:
        print()
        print_title(
            "Not loaded, because only files that belong to %s or to root, and that no other user can write, are loaded:"
            % trust.user_name(os.geteuid()),
            underline="-",
        )
        for path, reason in found:
            print("%s %s" % (path, reason))


def clear():
    """Delete all compiled modules, kernels and headers, and the code that ``theano_ng-audit`` compiled."""
    get_module_cache(config.compiledir).clear(unversioned_min_age=-1, clear_base_files=True, delete_if_problem=True)
    _remove(os.path.join(trust.directory(config.compiledir), SANITIZED))


def compiledir_purge():
    """Delete all files of the cache in `config.compiledir`.

    If the directory is not trusted, also delete the files in the directory that replaces it.
    """
    left = []
    for folder in dict.fromkeys((config.compiledir, trust.directory(config.compiledir))):
        left += _purge(folder)
    _print_left(left)


def _purge(folder):
    """Delete the files of the cache in a compile directory, and return the paths of all other files in it."""
    for name in _names(folder):
        if _OWN_NAME.fullmatch(name):
            _remove(os.path.join(folder, name))
    return [os.path.join(folder, name) for name in _names(folder)]


def _print_left(paths):
    """Print the files that a purge has not deleted, if there are any."""
    if paths:
        print("Kept, because the cache has not made it:")
        for path in paths:
            print("    %s" % path)


def _compile_directories():
    """Return the paths of the compile directories in `config.base_compiledir`, for all platforms and versions."""
    base, current = config.base_compiledir, os.path.abspath(config.compiledir)
    paths = [os.path.join(base, name) for name in _names(base)]
    return [
        path
        for path in paths
        if (os.path.basename(path).startswith("compiledir_") or os.path.abspath(path) == current)
        and os.path.isdir(path)
        and not os.path.islink(path)
    ]


def basecompiledir_ls():
    """Print the compile directories in `config.base_compiledir`, with sizes and the times of their last change."""
    import time

    print_title("Base compile directory: %s" % config.base_compiledir, overline="=", underline="=")
    found = _compile_directories()
    for path in found:
        changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(os.stat(path).st_mtime))
        print("%s  %s  %s" % (_human(_size(path)).rjust(10), changed, os.path.basename(path)))
    print("%d directories" % len(found))


def basecompiledir_purge():
    """Delete the files of the cache in all compile directories in `config.base_compiledir`.

    Also delete directories that are then empty. All other files stay: the flag may name a directory in which users keep
    other files.
    """
    left = []
    for folder in _compile_directories():
        found = _purge(folder)
        left += found
        if not found:
            os.rmdir(folder)
    _print_left(left)


def _names(folder):
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        _rmtree(path, ignore_nocleanup=True, msg="purge", ignore_if_missing=True)
    else:
        try:
            os.unlink(path)
        except OSError:
            pass


def _size(path):
    """Return the size in bytes of all files below a directory. Links are not followed."""
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                status = os.lstat(os.path.join(folder, name))
            except OSError:
                continue
            total += status.st_size
    return total


def _human(size):
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return "%.0f %s" % (size, unit) if unit == "bytes" else "%.1f %s" % (size, unit)
        size /= 1024.0
    return "%.1f GiB" % size
