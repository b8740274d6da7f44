"""Import paths of Theano whose code is in another module of this package, or does not exist here.

The documentation and the pickles of Theano name modules such as ``theano.tensor.subtensor`` whose code is in other
modules here. The paths of such modules are keys of `MOVED`. Importing a key returns the module that the value names. If
the value names several modules, importing the key returns a module with the names of all of them.

Paths that were already deprecated in Theano 1.0 are also keys of `FORMER`: importing them shows a warning with the
current path. Importing a module below a key of `REMOVED` raises an error that names the removed part. The import system
uses these tables only for modules that it does not find.
"""

import importlib.util
import os
import sys
import warnings
from importlib.machinery import ModuleSpec

MOVED = {
    "tensor.subtensor": "tensor.indexing.subtensor",
    "tensor.inplace": "tensor.elemwise.inplace",
    "tensor.xlogx": "tensor.elemwise.xlogx",
    "tensor.elemwise_cgen": "tensor.elemwise.cgen",
    "tensor.inc_code": "tensor.indexing.inc_code",
    "tensor.blas_c": "tensor.blas.c_variants",
    "tensor.blas_scipy": "tensor.blas.scipy_ger",
    "tensor.blas_headers": "tensor.blas.headers",
    "gof.opt": "gof.rewriting",
    "gof.cmodule": "gof.compiler",
    "gof.compiledir": "gof.compiler.compiledir",
    "gof.compilelock": "gof.compiler.compilelock",
    "gof.cutils": "gof.compiler.cutils",
    "gof.cc": "gof.codegen.clinker",
    "gof.destroyhandler": "gof.destroy.handler",
    "compile.function_module": "compile.functions.maker",
    "tensor.nnet.abstract_conv": "tensor.nnet.convolution.classic",
    "tensor.nnet.conv": "tensor.nnet.convolution.legacy",
    "tensor.nnet.conv3d2d": "tensor.nnet.convolution.conv3d2d",
    "tensor.nnet.Conv3D": "tensor.nnet.convolution.volumes",
    "tensor.nnet.ConvGrad3D": "tensor.nnet.convolution.volumes",
    "tensor.nnet.ConvTransp3D": "tensor.nnet.convolution.volumes",
    "tensor.nnet.opt": "tensor.nnet.convolution.opt tensor.nnet.opt_blocksparse",
    "scan_module": "scan",
    "scan_module.scan": "scan.builder",
    "scan_module.scan_op": "scan.op",
    "scan_module.scan_opt": "scan.opt",
    "scan_module.scan_utils": "scan.utils",
    "scan_module.scan_views": "scan.views",
    "scan_module.scan_checkpoints": "scan.checkpoints",
    "sparse.sandbox.truedot": "sparse.products",
    "sandbox.softsign": "tensor.nnet.activations",
    "sandbox.neighbours": "tensor.nnet.neighbours",
    "sandbox.blocksparse": "tensor.nnet.blocksparse",
    "sandbox.gpuarray": "gpuarray",
    "gpuarray.dnn_opt": "gpuarray.opt.dnn",
}
"""Classic path below the package -> path of the module with the code, or several paths, separated by blanks."""

FORMER = {
    "sandbox.softsign": "theano_ng.tensor.nnet",
    "sandbox.neighbours": "theano_ng.tensor.nnet.neighbours",
    "sandbox.blocksparse": "theano_ng.tensor.nnet.blocksparse",
    "sandbox.cuda": "theano_ng.gpuarray",
    "sandbox.gpuarray": "theano_ng.gpuarray",
    "tensor.signal.downsample": "theano_ng.tensor.signal.pool",
    "tensor.nnet.Conv3D": "theano_ng.tensor.nnet: conv3d",
    "tensor.nnet.ConvGrad3D": "theano_ng.tensor.nnet.abstract_conv: conv3d_grad_wrt_weights",
    "tensor.nnet.ConvTransp3D": "theano_ng.tensor.nnet.abstract_conv: conv3d_grad_wrt_inputs",
    "compat.python2x": "the standard library: collections, functools, itertools",
    "compat.six": "six",
}
"""Path below the package that was no longer, or not yet, valid in Theano 1.0 -> the valid path.

An import of the key warns.
"""

REMOVED = {"sandbox.cuda": "the GPU back-end before theano_ng.gpuarray, which Theano 1.0 had removed"}
"""Module of Theano 1.0 of which only a test of availability exists -> a description of the removed feature."""


def removed(path):
    """Return the reason why a module or name belongs to a removed part of Theano. Return None for other paths."""
    above = path
    while above:
        if above in REMOVED:
            return "%s.%s was removed: it was part of %s" % (__package__, path, REMOVED[above])
        above = above.rpartition(".")[0]
    return None


def not_built(path, folders):
    """Return an error message for an extension module that is not built. Return None in other cases.

    Parameters
    ----------
    path : str
        The path of a module relative to this package, for example ``gof._cvm``. The import system has not found this
        module.
    folders : iterable of str
        The folders of the package that contains the module.

    Returns
    -------
    str or None
        None if there is no source file of this module, or no setup.py next to the package.
    """
    import glob

    package, _, name = path.rpartition(".")
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not os.path.exists(os.path.join(root, "setup.py")):
        return None
    sources = [name + ".pyx"]
    if package.endswith("native"):
        sources += [name + ".c", os.path.join("*", name + ".c")]  # the C files of tensor.native are in folders
    if not any(glob.glob(source, root_dir=folder) for folder in folders for source in sources):
        return None
    module = "%s.%s" % (__package__, path)
    version = "%d.%d" % sys.version_info[:2]
    return "%s is not built for Python %s. Type in %s: pip install --editable ." % (module, version, root)


class MovedModules:
    """A finder and loader of the modules that are named in `MOVED`.

    It raises ImportError for the modules below those in `REMOVED`, and for extension modules that are not built.
    """

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        package, _, inner = fullname.partition(".")
        if package != __package__:
            return None
        if inner in MOVED:
            return ModuleSpec(fullname, MovedModules, origin=MOVED[inner])
        reason = removed(inner) or not_built(inner, path or ())
        if reason is not None:
            # Do not raise ModuleNotFoundError: `from package import name` would catch it and raise an error without the
            # reason.
            raise ImportError(reason, name=fullname)
        return None

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        if module.__spec__.name.partition(".")[2] in FORMER:
            warn_of_former(module.__spec__.name)
        homes = [importlib.import_module("%s.%s" % (__package__, home)) for home in module.__spec__.origin.split()]
        if len(homes) == 1:
            # Replace the entry in sys.modules, because the import system returns the module from there.
            (sys.modules[module.__spec__.name],) = homes
        else:
            for home in reversed(homes):
                module.__dict__.update({name: value for name, value in vars(home).items() if not name.startswith("__")})

    @staticmethod
    def get_code(fullname):
        """Return the code of the module to which `MOVED` maps the path `fullname`. ``python -m`` calls this method."""
        home = "%s.%s" % (__package__, MOVED[fullname.partition(".")[2]])
        return importlib.util.find_spec(home).loader.get_code(home)


def warn_of_former(name):
    """Warn that a module has moved, and name its current path. The DeprecationWarning points to the line of the import.

    Parameters
    ----------
    name : str
        The ``__name__`` of a module in `FORMER`. This function is called when the module is loaded.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith("<frozen importlib")
        or frame.f_code.co_filename in (__file__, importlib.__file__)
        or frame.f_globals.get("__name__") == name
    ):
        frame = frame.f_back
    warnings.warn_explicit(
        "%s is a former module path: import from %s" % (name, FORMER[name.partition(".")[2]]),
        DeprecationWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def former_modules(package):
    """Return a function ``__getattr__`` for a package.

    When a program reads an attribute whose name is that of a module that moved out of the package, the function imports
    this module.

    Parameters
    ----------
    package : str
        The ``__name__`` of the package.
    """
    inner = package.partition(".")[2]

    def __getattr__(name):
        if "%s.%s" % (inner, name) in MOVED:
            return importlib.import_module("%s.%s" % (package, name))
        raise no_attribute(package, name)

    return __getattr__


def no_attribute(module, name):
    """Return the AttributeError for a name that a module lacks.

    The message gives the reason if the name belongs to a removed part of Theano.

    Parameters
    ----------
    module, name : str
    """
    reason = removed("%s.%s" % (module.partition(".")[2], name) if "." in module else name)
    return AttributeError(reason or "module %r has no attribute %r" % (module, name))


def keep_names(package):
    """Protect attributes of a package that have the same names as modules that moved out of the package.

    Without this protection, an import of such a module would replace the attribute of the same name.

    Parameters
    ----------
    package : str
        The ``__name__`` of the package, which calls this function after its names are defined.
    """
    inner, names = package.partition(".")[2], vars(sys.modules[package])
    for path, home in MOVED.items():
        parent, _, name = path.rpartition(".")
        if parent == inner and name in names and not isinstance(names[name], type(sys)):
            # Import the module now. A later import finds it in sys.modules, so the import system does not replace the
            # function of the same name in the package.
            sys.modules["%s.%s" % (package, name)] = importlib.import_module("%s.%s" % (__package__, home))


class _ModuleWithFunctions(type(sys)):
    """A package in which some functions have the names of its modules.

    An import of such a module does not replace the function.
    """

    _functions = ()
    _namesake = None

    def __setattr__(self, name, value):
        if name not in self._functions or not isinstance(value, type(sys)):
            super().__setattr__(name, value)
        if self._namesake is not None and isinstance(value, type(sys)):
            setattr(self._namesake, name, value)


def keep_functions(package, names):
    """Keep lazy functions of a package accessible by their names, even after an import of modules with the same names.

    Parameters
    ----------
    package : str
        The ``__name__`` of the package.
    names : str
        The names of the functions, separated by blanks.
    """
    module = sys.modules[package]
    module._functions = frozenset(names.split())
    module.__class__ = _ModuleWithFunctions


def lend_modules(package, function):
    """Make the modules of a package attributes of a function that has the same name as the package.

    In the parent package, the function replaces the package as an attribute. So ``import package.module as m`` reads
    the attribute `module` of the function.

    Parameters
    ----------
    package : str
        The ``__name__`` of the package.
    function : function
    """
    module = sys.modules[package]
    module.__class__ = _ModuleWithFunctions
    module._namesake = function
    for name, value in list(vars(module).items()):
        if isinstance(value, type(sys)):
            setattr(function, name, value)


class ServedModules:
    """A finder and loader of the modules of a package under another name.

    Programs and pickles that use the name `theano` need only ``sys.modules["theano"] = theano_ng``. Importing
    ``theano.tensor`` then returns the module ``theano_ng.tensor``, not a second copy of it. In the same way, if a
    package has moved (its path is a key of `MOVED`), an import of one of its modules returns the module of the current
    package.
    """

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        package, dot, inner = fullname.partition(".")
        if dot and package != __package__ and sys.modules.get(package) is sys.modules.get(__package__):
            return ModuleSpec(fullname, ServedModules, origin="%s.%s" % (__package__, inner))
        parent, _, name = fullname.rpartition(".")
        above = sys.modules.get(parent) if package == __package__ and inner not in MOVED else None
        if above is not None and above.__name__ != parent:
            home = "%s.%s" % (above.__name__, name)
            if importlib.util.find_spec(home) is not None:
                return ModuleSpec(fullname, ServedModules, origin=home)
        return None

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        spec = module.__spec__
        found = importlib.import_module(spec.origin)
        package = spec.name.partition(".")[0]
        # Register all loaded modules now. A module that the import system loads becomes an attribute of its package,
        # and would replace a function of the same name.
        for name in [name for name in sys.modules if name.startswith(__package__ + ".")]:
            sys.modules.setdefault(package + name[len(__package__) :], sys.modules[name])
        sys.modules[spec.name] = found


def install():
    """Install the finders `MovedModules` and `ServedModules`.

    The package calls this function once, when it is imported.
    """
    if MovedModules not in sys.meta_path:
        sys.meta_path.append(MovedModules)
        # `ServedModules` comes before the finder of files, which would load the files of the package again.
        sys.meta_path.insert(0, ServedModules)
