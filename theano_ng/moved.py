"""Paths of modules that are not where their code is, or not there at all.

The documentation names modules (``theano.tensor.subtensor``) whose code outgrew one file, and pickles name the modules that classes were in
when they were written. Both are rows of `MOVED`: importing the path on the left gives the very module on the right (or one with
the names of several). Chapters that are still to come are rows of `MISSING`: whoever imports what belongs to one is told. A chapter that
arrives takes its row away. The tables are only asked for modules that are not found otherwise. Homes that had been given up before are rows
of `FORMER` too: who imports one is told where to go.
"""

import functools
import importlib.util
import sys
import warnings
from importlib.machinery import ModuleSpec

MOVED = {
    # classic modules
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
    "scan_module.scan": "scan.front",
    "scan_module.scan_op": "scan.op",
    "scan_module.scan_opt": "scan.opt",
    "scan_module.scan_utils": "scan.utils",
    "scan_module.scan_views": "scan.views",
    "scan_module.scan_checkpoints": "scan.checkpoints",
    "sparse.sandbox.truedot": "sparse.products",
    "sandbox.softsign": "tensor.nnet.activations",
    "sandbox.neighbours": "tensor.nnet.neighbours",
    "sandbox.blocksparse": "tensor.nnet.blocksparse",
    # named by pickles, and by scripts that an earlier version installed
    "gof.compilers": "gof.compiler.toolchain",
    "gof.gxx": "gof.compiler.gxx",
    "gof.kernelcache": "gof.compiler.kernelcache",
    "gof.modulecache": "gof.compiler.modulecache",
    "gof.trust": "gof.compiler.trust",
    "gof.cache_cli": "gof.compiler.cache_cli",
    "gof.cc_blocks": "gof.codegen.blocks",
    "gof.cc_linkers": "gof.codegen.linkers",
    "gof.modulecode": "gof.codegen.modulecode",
    "gof.alias_classes": "gof.destroy.alias_classes",
    "gof.dynamic_order": "gof.destroy.dynamic_order",
    "gof.inplace_order": "gof.destroy.inplace_order",
    "gof.failures": "gof.destroy.failures",
    "compile.debug_checks": "compile.debugmode.checks",
    "compile.debug_errors": "compile.debugmode.errors",
    "compile.debug_guards": "compile.debugmode.guards",
    "compile.debug_run": "compile.debugmode.run",
    "compile.debug_tracking": "compile.debugmode.tracking",
    "compile.function_object": "compile.functions.object",
    "compile.function_inputs": "compile.functions.inputs",
    "compile.function_copy": "compile.functions.copying",
    "compile.aliasing": "compile.functions.aliasing",
    "gof.cop": "gof.op.c_files",
    "gof.openmp_op": "gof.op.openmp",
    "gof.cdata_type": "gof.type.cdata",
    "gof.enum_type": "gof.type.enums",
    "tensor.elemwise_ops": "tensor.elemwise.functions",
    "tensor.elemwise_kernel": "tensor.elemwise.kernel",
    "tensor.elemwise_perform": "tensor.elemwise.perform",
    "tensor.careduce": "tensor.reductions.careduce",
    "tensor.reduction_axes": "tensor.reductions.axes",
    "tensor.sums": "tensor.reductions.sums",
    "tensor.statistics": "tensor.reductions.statistics",
    "tensor.extremes": "tensor.reductions.extremes",
    "tensor.reduce_elemwise": "tensor.reductions.fused",
    "tensor.cumulative": "tensor.reductions.cumulative",
    "tensor.blas_ops": "tensor.blas.ops",
    "tensor.blas_table": "tensor.blas.table",
    "tensor.advanced_subtensor": "tensor.indexing.advanced",
    "tensor.subtensor_code": "tensor.indexing.code",
    "tensor.indices": "tensor.indexing.positions",
    "tensor.selecting": "tensor.indexing.selecting",
    "tensor.linear": "tensor.linalg.products tensor.linalg.batches",
    "tensor.decompositions": "tensor.linalg.decompositions",
    "tensor.solving": "tensor.linalg.solving",
    "tensor.matrix_functions": "tensor.linalg.matrix_functions",
    "tensor.lapack_table": "tensor.linalg.lapack",
    "tensor.joining": "tensor.shaping.joining",
    "tensor.allocation": "tensor.shaping.allocation",
    "sandbox.gpuarray": "gpuarray",
    "tensor.creation": "tensor.shaping.creation tensor.shaping.diagonals",
}
"""Old or classic path below the package -> path of the module that holds the code, or of several, separated by blanks."""

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
"""Path below the package that was a home no more, or none yet, in Theano 1.0 -> the home; importing one warns."""

REMOVED = {"sandbox.cuda": "the GPU back-end before theano_ng.gpuarray, which Theano 1.0 had removed"}
"""Module that is there for programs that ask whether it can be used -> what all other names in it belonged to."""

MISSING = {
    "linear algebra on GPUs": "gpuarray.blas gpuarray.linalg gpuarray.fft",
    "networks on GPUs": "gpuarray.blocksparse gpuarray.ctc gpuarray.neighbours gpuarray.nnet gpuarray.pool",
    "random numbers on GPUs": "gpuarray.multinomial gpuarray.rng_mrg gpuarray.sort",
    "cuDNN": "gpuarray.cudnn_defs gpuarray.dnn gpuarray.dnn_opt",
}
"""Chapter that the package does not have yet -> the classic modules and names that come with it, separated by blanks."""

PROBED = frozenset({"gpuarray.ctc", "gpuarray.dnn", "gpuarray.fft", "gpuarray.linalg"})
"""Modules of `MISSING` that are there for programs that ask them whether they can be used, and have nothing else."""


@functools.cache
def _chapters():
    """Module or name of `MISSING` -> chapter."""
    return {path: chapter for chapter, paths in MISSING.items() for path in paths.split()}


def missing(path):
    """Why a module or name below the package cannot be found, if it belongs to one of `MISSING` or `REMOVED`; otherwise None."""
    above, chapters = path, _chapters()
    while above:
        if above in chapters:
            return "%s.%s is not in this version, which lacks %s" % (__package__, path, chapters[above])
        if above in REMOVED:
            return "%s.%s is gone: it was part of %s" % (__package__, path, REMOVED[above])
        above = above.rpartition(".")[0]
    return None


class MovedModules:
    """Finder and loader of the modules named in `MOVED`; says that those in `MISSING` are missing."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        package, _, inner = fullname.partition(".")
        if package != __package__:
            return None
        if inner in MOVED:
            return ModuleSpec(fullname, MovedModules, origin=MOVED[inner])
        reason = missing(inner)
        if reason is not None:
            # No ModuleNotFoundError: `from package import name` passes over that one, and says less.
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
            # The import system returns what stands in sys.modules afterwards.
            (sys.modules[module.__spec__.name],) = homes
        else:
            for home in reversed(homes):
                module.__dict__.update({name: value for name, value in vars(home).items() if not name.startswith("__")})

    @staticmethod
    def get_code(fullname):
        """For ``python -m``: the code of the module that does the work."""
        home = "%s.%s" % (__package__, MOVED[fullname.partition(".")[2]])
        return importlib.util.find_spec(home).loader.get_code(home)


def warn_of_former(name):
    """Say where what is imported has its home, with a DeprecationWarning at the line that imports it.

    Parameters
    ----------
    name : str
        ``__name__`` of a module in `FORMER`, which calls this when it is loaded.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith("<frozen importlib")
        or frame.f_code.co_filename in (__file__, importlib.__file__)
        or frame.f_globals.get("__name__") == name
    ):
        frame = frame.f_back
    warnings.warn_explicit(
        "%s is a former home: import from %s" % (name, FORMER[name.partition(".")[2]]),
        DeprecationWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def former_modules(package):
    """The function ``__getattr__`` of a package: modules that moved out of it are its attributes still.

    Parameters
    ----------
    package : str
        ``__name__`` of the package.
    """
    inner = package.partition(".")[2]

    def __getattr__(name):
        if "%s.%s" % (inner, name) in MOVED:
            return importlib.import_module("%s.%s" % (package, name))
        raise no_attribute(package, name)

    return __getattr__


def only_probes(module):
    """Return ``__path__`` and ``__getattr__`` for a module in `PROBED`.

    The path makes the module a package. So `MovedModules` looks for names that the module lacks, and the error of ``from module import name`` gives
    the reason.

    Parameters
    ----------
    module : str
        ``__name__`` of the module.
    """
    return [], functools.partial(_raise_no_attribute, module)


def _raise_no_attribute(module, name):
    raise no_attribute(module, name)


def unavailable(name, module):
    """Return the function that programs call to find out whether a module in `PROBED` can be used.

    Parameters
    ----------
    name : str
    module : str
        ``__name__`` of the module.

    Returns
    -------
    callable
        It takes the name of a context, or nothing, and returns False. Its attribute `msg` is the reason, and `avail` is False.
    """

    def probe(context_name=None):
        """Return False: this version lacks the feature; the attribute `msg` of this function is the reason."""
        return False

    probe.__name__ = probe.__qualname__ = name
    probe.__module__ = module
    probe.msg = missing(module.partition(".")[2])
    probe.avail = False
    return probe


def no_attribute(module, name):
    """Return the AttributeError for a name that a module lacks, because a chapter is missing or the name does not exist.

    Parameters
    ----------
    module, name : str
    """
    reason = missing("%s.%s" % (module.partition(".")[2], name) if "." in module else name)
    return AttributeError(reason or "module %r has no attribute %r" % (module, name))


def keep_names(package):
    """Let a package keep what it calls by the name of a module that moved out of it: importing that module must not take the name.

    Parameters
    ----------
    package : str
        ``__name__`` of the package, which calls this when its names are there.
    """
    inner, names = package.partition(".")[2], vars(sys.modules[package])
    for path, home in MOVED.items():
        parent, _, name = path.rpartition(".")
        if parent == inner and name in names and not isinstance(names[name], type(sys)):
            # The import system gives the name to modules that it loads, not to those it has.
            sys.modules["%s.%s" % (package, name)] = importlib.import_module("%s.%s" % (__package__, home))


class _ModuleWithFunctions(type(sys)):
    """A package some of whose functions have the names of its modules: importing those does not take the names."""

    _functions = ()
    _namesake = None

    def __setattr__(self, name, value):
        if name not in self._functions or not isinstance(value, type(sys)):
            super().__setattr__(name, value)
        if self._namesake is not None and isinstance(value, type(sys)):
            setattr(self._namesake, name, value)


def keep_functions(package, names):
    """Let names of a package be those of functions that it finds when they are asked for, also after modules of these names were imported.

    Parameters
    ----------
    package : str
        ``__name__`` of the package.
    names : str
        Separated by blanks.
    """
    module = sys.modules[package]
    module._functions = frozenset(names.split())
    module.__class__ = _ModuleWithFunctions


def lend_modules(package, function):
    """Let the modules of a package be attributes of the function that has its name: ``import package.module as m`` finds them there.

    Parameters
    ----------
    package : str
        ``__name__`` of the package.
    function : function
    """
    module = sys.modules[package]
    module.__class__ = _ModuleWithFunctions
    module._namesake = function
    for name, value in list(vars(module).items()):
        if isinstance(value, type(sys)):
            setattr(function, name, value)


class ServedModules:
    """Finder and loader of the modules of packages under another name.

    ``sys.modules["theano"] = theano_ng`` is enough for programs and pickles that say `theano`: importing ``theano.tensor`` gives
    the module ``theano_ng.tensor``, not a second copy of it. So it is with the modules of a package that has a row in `MOVED`.
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
        # All that is there at once: a module that the import system loads becomes an attribute, also in place of a function of its name.
        for name in [name for name in sys.modules if name.startswith(__package__ + ".")]:
            sys.modules.setdefault(package + name[len(__package__) :], sys.modules[name])
        sys.modules[spec.name] = found


def install():
    """Let `import` find what the tables name, and the package under other names; done once, by the package."""
    if MovedModules not in sys.meta_path:
        sys.meta_path.append(MovedModules)
        # Before the finder of files, which would load the package's files once more.
        sys.meta_path.insert(0, ServedModules)
