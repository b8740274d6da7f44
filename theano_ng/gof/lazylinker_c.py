"""Classic path of the compiled virtual machine, which ships with the package: nothing is compiled or reloaded here."""

from theano_ng.configdefaults import config  # noqa: F401
from theano_ng.gof import _cvm
from theano_ng.gof._cvm import CLazyLinker

force_compile = False
version = actual_version = 0.211  # of the interface; what callers compare


def try_import():
    """The extension module; always importable.

    Returns
    -------
    module
    """
    return _cvm


def try_reload():
    """The extension module: an extension that is loaded stays."""
    return try_import()


__all__ = ["CLazyLinker", "actual_version", "force_compile", "try_import", "try_reload", "version"]
