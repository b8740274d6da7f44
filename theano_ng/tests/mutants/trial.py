"""Code of a trial. A child process of the mutation server installs changed code, and runs cases until one fails."""

import ctypes
import functools
import gc
import importlib
import importlib.machinery
import importlib.util
import os
import resource
import sys
import types

import numpy as np

from theano_ng.tests.mutants import killers
from theano_ng.tests.mutants.marks import C_NAME, PYTHON_NAME

MEMORY = 6 << 30  # bytes that a trial may allocate in addition to the memory of the process
SLOWER = 8  # the time limit of a case is SLOWER times its time on unchanged code, plus SECONDS
SECONDS = 10
# Tests that compile kernels, for example to compare kernels with interpreted programs. A trial always runs these tests
# with flags that permit a compiler, even if it runs the other tests without a compiler.
COMPILING = (
    " theano_ng.tensor.tests.test_interpreter.",
    " theano_ng.tensor.tests.test_elemwise_arithmetic.",
    " theano_ng.scalar.tests.test_special.",
    " theano_ng.scalar.tests.test_c_code.",
)
# File -> functions whose code is in the file, including closures. The parent process finds the functions, because a
# search in a child would touch, and thereby copy, all memory that the child shares with the parent.
_functions = {}


class CannotBePatched(Exception):
    """The exception for changed code that cannot replace the code of the existing functions.

    The module must then be imported with the changed code.
    """


def prepare(options):
    """Import all modules once, in the process that forks the trials.

    Parameters
    ----------
    options : dict
        ``modules`` are tests to import. ``targets`` are modules that are changed. ``marked`` is None or describes the
        code that `reach` has marked: the number ``count`` of marks, and dicts ``modules`` and ``libraries`` from module
        name to file.
    """
    _warm()
    for module in options.get("targets", ()):
        importlib.import_module(module)
    if options.get("marked"):
        _load_marked(options["marked"])
        _passed_at_import.extend(_marks())
    for module in options["modules"]:
        try:
            importlib.import_module(module)
        except Exception:  # for example, a test that is skipped because a package is missing
            pass
    gc.collect()
    _find_functions()
    gc.freeze()


def _find_functions():
    _functions.clear()
    for function in gc.get_objects():
        if type(function) is types.FunctionType:
            _functions.setdefault(function.__code__.co_filename, []).append(function)


def _warm():
    """Compile a function before the trials start.

    The first compilation also initializes the package, which is slow. Trials should not repeat this initialization.
    """
    import theano_ng
    import theano_ng.gpuarray
    import theano_ng.sparse

    theano_ng.function([], theano_ng.tensor.constant(1.0))


# -- installation of changed code


def install(how):
    """Install changed code in this process.

    Parameters
    ----------
    how : dict
        ``how`` is "code" (replace the code of functions), "module" (replace an extension module), or "import" (the
        server has already installed the code). ``support`` is a dict from the name of a C file in kernels to the path
        of the changed file. `install` ignores the entry ``flags``: `run` sets these flags for each case.
    """
    if how["how"] == "code":
        _install_code(how["module"], how["path"])
    elif how["how"] == "module":
        _install_library(how["module"], how["path"])
    for name, path in how.get("support", {}).items():
        _install_support(name, path)


def _install_support(name, path):
    """Use a changed C file in all kernels that are compiled from now on."""
    from theano_ng.scalar.op import _support_texts

    with open(path) as file:
        _support_texts[name] = file.read()


def compiles_kernels(case):
    """Return True if a case is in a module of `COMPILING`."""
    return any(module in case for module in COMPILING)


def _flag(name):
    """Return the group of flags that contains a flag, and the name of the flag in this group."""
    from theano_ng.configdefaults import config

    *groups, last = name.split(".")
    return functools.reduce(getattr, groups, config), last


def _set_flag(name, value):
    setattr(*_flag(name), value)


def _codes(code):
    """Return a dict with all code objects inside a code object.

    The key of an inner code object contains its name and position, preceded by those of the code objects around it.
    """
    found, todo = {}, [((), code)]
    while todo:
        way, parent = todo.pop()
        inside = [c for c in parent.co_consts if isinstance(c, types.CodeType)]
        for i, child in enumerate(inside):
            found[way + (child.co_name, i)] = child
            todo.append((way + (child.co_name, i), child))
    return found


def _install_code(module, path):
    """Replace the code of all functions of a module, including closures, by changed code."""
    file = importlib.import_module(module).__file__
    if file not in _functions:
        _find_functions()
    with open(file, "rb") as source, open(path, "rb") as changed:
        old, new = (_codes(compile(f.read(), file, "exec", dont_inherit=True)) for f in (source, changed))
    if list(old) != list(new):
        raise CannotBePatched(module)
    exchanged = {code: new[way] for way, code in old.items() if code != new[way]}
    done = 0
    for function in _functions.get(file, ()):
        if function.__code__ in exchanged:
            replacement = exchanged[function.__code__]
            if replacement.co_freevars != function.__code__.co_freevars:
                raise CannotBePatched(module)
            function.__code__ = replacement
            done += 1
    if not done:
        raise CannotBePatched(module)


def _install_library(name, path):
    """Replace an extension module by the module in another library."""
    from theano_ng.gof.native import native_function
    from theano_ng.loops.blocks import instructions

    loader = importlib.machinery.ExtensionFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path, loader=loader))
    loader.exec_module(module)
    sys.modules[name] = module
    package, _, last = name.rpartition(".")
    setattr(importlib.import_module(package), last, module)
    native_function.cache_clear()
    instructions.instruction_module.cache_clear()


# -- marks

_marked_libraries = []
_passed_at_import = []


def _load_marked(marked):
    """Replace extension modules by modules with marks, which record the code that runs.

    The Python modules of the package already have marks.
    """
    for module, path in marked["libraries"].items():
        _install_library(module, path)
        library = ctypes.CDLL(path)
        _marked_libraries.append((ctypes.c_ubyte * marked["count"]).in_dll(library, C_NAME))


def _forget_marks():
    import builtins

    marks = getattr(builtins, PYTHON_NAME)
    marks[:] = bytes(len(marks))
    for library in _marked_libraries:
        ctypes.memset(library, 0, len(marks))


def _marks():
    """Return the numbers of the marks that were passed."""
    import builtins

    passed = np.frombuffer(getattr(builtins, PYTHON_NAME), np.uint8).copy()
    for library in _marked_libraries:
        passed |= np.frombuffer(library, np.uint8)
    return np.flatnonzero(passed).tolist()


# -- cases


def run(job, say):
    """Run the cases of a job.

    Parameters
    ----------
    job : dict
        ``install`` is the argument of `install`, or None. ``cases`` is a list of (case, seconds that it takes). If
        ``to the end`` is true, run all cases, and return the failures. ``most`` is the time limit of each case in
        seconds. If ``marks`` is true, add the marks that were passed to the answer. If ``list`` is given, only return
        the cases of this module. If ``imported`` is true, only return the marks that were passed at the import.
    say : callable
        A function that sends a message to the server.

    Returns
    -------
    dict
        ``outcome`` is "survived", "caught", "cannot be patched", "listed" or "imported".
    """
    if job.get("imported"):
        return {"outcome": "imported", "marks": _passed_at_import}
    if "list" in job:
        return {"outcome": "listed", "cases": killers.cases_of(job["list"])}
    memory = resource.getrlimit(resource.RLIMIT_AS)[1]
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, memory))
    _set_flag("cache_graphs", False)
    _set_flag("on_opt_error", "raise")  # as theano_ng-nose does
    if job["install"]:
        try:
            install(job["install"])
        except CannotBePatched:
            return {"outcome": "cannot be patched"}
    flags = (job["install"] or {}).get("flags", {})
    # Cases that compile changed C code must wait for the compiler.
    usual = {**{name: getattr(*_flag(name)) for name in flags}, "tiered": "off"}
    failures, times = [], []
    if job.get("marks"):
        _forget_marks()
    for case, seconds in job["cases"]:
        allowed = job.get("most") or int(seconds * SLOWER + SECONDS)
        began = _processor_time()
        resource.setrlimit(resource.RLIMIT_CPU, (int(began + allowed) + 1, resource.RLIM_INFINITY))
        say(case=case, wall=allowed * 4 + 20)
        for name, value in (usual if compiles_kernels(case) else flags).items():
            _set_flag(name, value)
        message = killers.run(case)
        times.append(_processor_time() - began)
        if message is None:
            continue
        if not job.get("to the end"):
            return {"outcome": "caught", "case": case, "how": message, "seconds": sum(times)}
        failures.append([case, message])
    result = {"outcome": "survived", "failures": failures, "seconds": sum(times)}
    if job.get("marks"):
        result["marks"] = _marks()
    return result


def _processor_time():
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


__all__ = ["CannotBePatched", "install", "prepare", "run"]
