"""Paths of modules that are not where their code is.

The documentation names modules (``theano.tensor.subtensor``) whose code outgrew one file, and pickles name the modules that classes were in
when they were written. Both are rows of `MOVED`: importing the path on the left gives the very module on the right (or one with
the names of several). The table is only asked
for modules that are not found otherwise.
"""

import importlib.util
import sys
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
    "tensor.creation": "tensor.shaping.creation tensor.shaping.diagonals",
}
"""Old or classic path below the package -> path of the module that holds the code, or of several, separated by blanks."""


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
        raise AttributeError("module %r has no attribute %r" % (package, name))

    return __getattr__


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


def install():
    """Let `import` find what the table names; done once, by the package."""
    if MovedModules not in sys.meta_path:
        sys.meta_path.append(MovedModules)
