"""The module name under which Theano 1.0 provides the compiled virtual machine (`CLazyLinker`).

The extension module `gof._cvm`, which ships with the package, defines the machine. This module compiles nothing.
"""

from theano_ng.configdefaults import config  # noqa: F401, users import it from here
from theano_ng.gof import _cvm
from theano_ng.gof._cvm import CLazyLinker

force_compile = False
version = actual_version = 0.211  # the version of the interface, which callers compare


def try_import():
    """Return the extension module. It is always importable.

    Returns
    -------
    module
    """
    return _cvm


def try_reload():
    """Return the extension module. A loaded extension is not reloaded."""
    return try_import()


__all__ = ["CLazyLinker", "actual_version", "force_compile", "try_import", "try_reload", "version"]
