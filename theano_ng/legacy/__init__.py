"""Support for unchanged programs that contain ``import theano``.

>>> import theano_ng.legacy
>>> with theano_ng.legacy.installed():
...     import theano.tensor as T
>>> T is theano_ng.tensor
True

`install` redirects ``import theano`` for the rest of the process. ``theano_ng-run program.py`` calls `install` and then
runs the program (module `run`). With ``--numpy-names``, this command also restores names that NumPy, SciPy and Python
have removed (module `removed`).
"""

import contextlib
import importlib
import importlib.machinery
import logging
import os
import sys

import theano_ng

__all__ = ["folder_for_processes", "install", "installed", "uninstall"]

SERVED = "theano"

# Another package that programs for Theano import -> its substitute if the other package is not installed.
BESIDE = {"pygpu": "theano_ng.gpuarray.pygpu"}

_former = None
"""The `theano` modules and the table of loggers from before `install`. None if `install` is not in effect."""


class Loggers(dict):
    """The table of loggers of a `logging.Manager`.

    A lookup of a logger of `theano` returns the corresponding logger of this package.
    """

    @staticmethod
    def _own(name):
        return __package__.partition(".")[0] + name[len(SERVED) :] if _is_served(name) else name

    def __contains__(self, name):
        return super().__contains__(self._own(name))

    def __getitem__(self, name):
        return super().__getitem__(self._own(name))

    def __setitem__(self, name, logger):
        super().__setitem__(self._own(name), logger)

    def get(self, name, default=None):
        return super().get(self._own(name), default)


class Finder:
    """A finder and loader of `theano`, for programs that have removed it from ``sys.modules``.

    It also finds the packages of `BESIDE` and their submodules if no other packages of these names are installed.
    `moved.ServedModules` finds the submodules of `theano`.
    """

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if fullname == SERVED:
            return importlib.machinery.ModuleSpec(fullname, Finder, is_package=True)
        package, dot, _ = fullname.partition(".")
        if package not in BESIDE:
            return None
        if dot:
            served = getattr(sys.modules.get(package), "__name__", None) == BESIDE[package]
        else:
            served = importlib.machinery.PathFinder.find_spec(package) is None
        return importlib.machinery.ModuleSpec(fullname, Finder, is_package=not dot) if served else None

    @staticmethod
    def find_distributions(context):
        """Yield a distribution named Theano, for programs that ask for the version of the installed Theano."""
        if (context.name or "").lower() == SERVED:
            yield _distribution()

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        # After `exec_module`, the import system returns the module in ``sys.modules``, not `module`.
        name = module.__spec__.name
        package = name.partition(".")[0]
        sys.modules[name] = (
            theano_ng if name == SERVED else importlib.import_module(BESIDE[package] + name[len(package) :])
        )


def _distribution():
    from importlib import metadata

    class Served(metadata.Distribution):
        def read_text(self, filename):
            about = "Metadata-Version: 2.1\nName: Theano\nVersion: %s\n" % theano_ng.__version__
            return about if filename == "METADATA" else None

        def locate_file(self, path):
            return os.path.join(os.path.dirname(theano_ng.__path__[0]), path)

    return Served()


def folder_for_processes(with_names=False):
    """Return a folder. In other processes with this folder on PYTHONPATH, ``import theano`` imports this package.

    Parameters
    ----------
    with_names : bool
        If True, ``import theano`` also restores names that NumPy, SciPy and Python have removed (module `removed`).

    Returns
    -------
    str
    """
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "served_with_names" if with_names else "served")


def _is_served(name):
    return name == SERVED or name.startswith(SERVED + ".")


def install(force=False):
    """Make imports of `theano` and its submodules return the module objects of this package.

    This applies to all kinds of imports and to pickles. Loggers of `theano` are the loggers of this package.
    ``import pygpu`` returns `theano_ng.gpuarray.pygpu` if pygpu is not installed. A second call has no effect.

    Parameters
    ----------
    force : bool
        Whether to do this even if the original Theano is installed or has been imported.

    Raises
    ------
    ImportError
        If the original Theano is installed or has been imported, and `force` is False. Without the knowledge of the
        user, a program must not use this package instead of Theano.
    """
    global _former
    if _former is not None:
        return
    modules = {name: module for name, module in sys.modules.items() if _is_served(name)}
    foreign = [name for name, module in modules.items() if not _is_ours(module)]
    if not force:
        ours = folder_for_processes(), folder_for_processes(with_names=True)
        found = importlib.machinery.PathFinder.find_spec(SERVED, [path for path in sys.path if path not in ours])
        if foreign or found is not None:
            where = getattr(sys.modules.get(SERVED), "__file__", None) or found and found.origin or "already imported"
            raise ImportError(
                "Theano itself is installed (%s), and theano_ng would replace it in this process; force=True "
                "(theano_ng-run --force) permits this" % where,
                name=SERVED,
            )
    manager = logging.Logger.manager
    _former = modules, manager.loggerDict
    for name in modules:
        del sys.modules[name]
    sys.modules[SERVED] = theano_ng
    sys.meta_path.insert(0, Finder)
    manager.loggerDict = Loggers(manager.loggerDict)


def uninstall():
    """Undo `install`: ``import theano`` has its former result again. Do nothing if `install` is not in effect."""
    global _former
    if _former is None:
        return
    modules, loggers = _former
    _former = None
    for name, module in list(sys.modules.items()):
        if _is_served(name) or name.partition(".")[0] in BESIDE and _is_ours(module):
            del sys.modules[name]
    sys.modules.update(modules)
    sys.meta_path.remove(Finder)
    manager = logging.Logger.manager
    loggers.update(manager.loggerDict)
    manager.loggerDict = loggers


@contextlib.contextmanager
def installed(force=False):
    """Apply `install` for the duration of a ``with`` block. If `install` is in effect already, change nothing.

    Parameters
    ----------
    force : bool
        See `install`.
    """
    if _former is not None:
        yield
        return
    install(force)
    try:
        yield
    finally:
        uninstall()


def _is_ours(module):
    return getattr(module, "__name__", "").partition(".")[0] == __package__.partition(".")[0]
