"""Optional dependencies: the packages that only some parts of theano_ng need, and the extras that install them."""

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
    """Import a module of an optional dependency.

    Parameters
    ----------
    module : str
        The path of the module, such as ``"sympy.utilities.codegen"``.
    what : str
        The name of the part that needs the module. The error message begins with it.

    Raises
    ------
    ImportError
        If the package cannot be imported. The message explains how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == package:
            raise ImportError(missing(package, what), name=package) from None
        raise ImportError("%s: %s" % (missing(package, what), error), name=package) from error


def missing(package, what):
    """Return a message that a part of theano_ng needs a package. The message contains the command that installs it.

    Parameters
    ----------
    package : str
        The import name, a key of `EXTRAS`.
    what : str
        The name of the part that needs the package.
    """
    name, extra = EXTRAS[package]
    return "%s needs the package %s, which cannot be imported: pip install 'theano_ng[%s]'" % (what, name, extra)
