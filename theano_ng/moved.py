"""Paths of modules that are not where their code is.

The documentation names modules (``theano.tensor.subtensor``) whose code outgrew one file, and pickles name the modules that classes were in
when they were written. Both are rows of `MOVED`: importing the path on the left gives the very module on the right. The table is only asked
for modules that are not found otherwise.
"""
import importlib
import sys
from importlib.machinery import ModuleSpec

MOVED = {}
"""Old or classic path below the package -> path of the module that holds the code."""


class MovedModules:
    """Finder and loader of the modules named in `MOVED`."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        package, _, inner = fullname.partition(".")
        if package == __package__ and inner in MOVED:
            return ModuleSpec(fullname, MovedModules, origin=MOVED[inner])
        return None

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        # The import system returns what stands in sys.modules afterwards.
        name = module.__spec__.name
        sys.modules[name] = importlib.import_module("%s.%s" % (__package__, module.__spec__.origin))


def install():
    """Let `import` find what the table names; done once, by the package."""
    if MovedModules not in sys.meta_path:
        sys.meta_path.append(MovedModules)
