"""Names of a package that are imported from their homes when they are first asked for."""

import importlib
import sys


def lazy_names(module, homes):
    """The functions ``__getattr__`` and ``__dir__`` of a module, and the names that they serve.

    Parameters
    ----------
    module : str
        ``__name__`` of the module.
    homes : dict of str to str
        Path of a home -> the names found there, separated by blanks.

    Returns
    -------
    __getattr__, __dir__ : callable
    names : list of str
        Sorted.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    namespace = sys.modules[module].__dict__

    def __getattr__(name):
        home = home_of.get(name)
        if home is None:
            raise AttributeError("module %r has no attribute %r" % (module, name))
        value = namespace[name] = getattr(importlib.import_module(home), name)
        return value

    def __dir__():
        return sorted({*namespace, *home_of})

    return __getattr__, __dir__, sorted(home_of)
