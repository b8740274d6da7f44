"""Names of a package that are imported from their homes when they are first asked for."""

import importlib
import sys

from theano_ng.moved import missing, no_attribute


def lazy_names(module, homes, modules=""):
    """The functions ``__getattr__`` and ``__dir__`` of a module, and the names that they serve.

    Parameters
    ----------
    module : str
        ``__name__`` of the module.
    homes : dict of str to str
        Path of a home -> the names found there, separated by blanks. What belongs to a chapter that is missing is left out.
    modules : str
        Names of the package's own modules, separated by blanks. One that is not there is an attribute that is not there.

    Returns
    -------
    __getattr__, __dir__ : callable
    names : list of str
        Those of `homes`, sorted.
    """
    inner = module.partition(".")[2]

    def is_there(name):
        return missing("%s.%s" % (inner, name) if inner else name) is None

    home_of = {name: home for home, names in homes.items() for name in names.split() if is_there(name)}
    own = frozenset(filter(is_there, modules.split()))
    namespace = sys.modules[module].__dict__

    def __getattr__(name):
        home = home_of.get(name)
        if home is None:
            if name in own:
                path = "%s.%s" % (module, name)
                try:
                    return importlib.import_module(path)
                except ModuleNotFoundError as failure:
                    if failure.name != path:
                        raise
            raise no_attribute(module, name)
        value = namespace[name] = getattr(importlib.import_module(home), name)
        return value

    def __dir__():
        return sorted({*namespace, *home_of, *own})

    return __getattr__, __dir__, sorted(home_of)
