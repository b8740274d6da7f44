"""Packages that only some parts need: which of the package's extras bring them."""

import importlib

# Import name -> (name of the package, extra of pyproject.toml)
EXTRAS = {
    "hypothesis": ("Hypothesis", "audit"),
    "libcst": ("LibCST", "port"),
    "matplotlib": ("Matplotlib", "viz"),
    "mpi4py": ("mpi4py", "mpi"),
    "mpmath": ("mpmath", "test"),
    "pydot": ("pydot", "viz"),
    "sympy": ("SymPy", "sympy"),
}


def require(module, what):
    """Import a module of a package that is not always installed.

    Parameters
    ----------
    module : str
        For instance ``"sympy.utilities.codegen"``.
    what : str
        What needs it; the message begins with this.

    Raises
    ------
    ImportError
        When the package cannot be imported; it says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == package:
            raise ImportError(missing(package, what), name=package) from None
        raise ImportError("%s: %s" % (missing(package, what), error), name=package) from error


def missing(package, what):
    """The text that says that something needs a package, and how to get it.

    Parameters
    ----------
    package : str
        Import name, a key of `EXTRAS`.
    what : str
    """
    name, extra = EXTRAS[package]
    return "%s needs the package %s, which cannot be imported: pip install 'theano_ng[%s]'" % (what, name, extra)
