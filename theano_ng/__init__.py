"""A compiler for symbolic expressions on n-d arrays. It differentiates, rewrites, compiles and runs expressions.

The package defines the public names of Theano 1.0, so that programs can begin with ``import theano_ng as theano``.
"""

import logging
import sys

theano_logger = logging.getLogger("theano_ng")
logging_default_formatter = logging.Formatter(fmt="%(levelname)s (%(name)s): %(message)s")
logging_default_handler = logging.StreamHandler()
logging_default_handler.setFormatter(logging_default_formatter)
theano_logger.setLevel(logging.WARNING)


def has_handlers(logger):
    """Return True if a logger or one of its parents has a handler."""
    return logger.hasHandlers()


if not has_handlers(theano_logger):
    theano_logger.addHandler(logging_default_handler)


def disable_log_handler(logger=theano_logger, handler=logging_default_handler):
    """Remove the package's handler from a logger, for programs that configure logging themselves."""
    if has_handlers(logger):
        logger.removeHandler(handler)


from theano_ng import moved as _moved
from theano_ng.lazy import lazy_names as _lazy_names

_moved.install()
_moved.keep_functions(__name__, "scan")

from theano_ng.version import version as __version__
from theano_ng.configdefaults import check_devices as _check_devices, config
from theano_ng.configparser import change_flags

import numpy

_with_devices = _check_devices()
if config.numpy.seterr_all != "None":
    numpy.seterr(all=config.numpy.seterr_all)
numpy.seterr(
    **{
        _kind: getattr(config.numpy, "seterr_" + _kind)
        for _kind in ("divide", "over", "under", "invalid")
        if getattr(config.numpy, "seterr_" + _kind) != "None"
    }
)

from theano_ng.gof import (
    Apply,
    CLinker,
    Constant,
    Container,
    DualLinker,
    FunctionGraph,
    Generic,
    InconsistencyError,
    Linker,
    LocalLinker,
    Op,
    OpenMPOp,
    OpWiseCLinker,
    PerformLinker,
    Type,
    Variable,
    generic,
    object2,
    utils,
)
from theano_ng.misc.safe_asarray import _asarray
from theano_ng import compile, gof, scalar, tensor
from theano_ng.compile import (
    FunctionMaker,
    In,
    Mode,
    Out,
    Param,
    ProfileStats,
    SymbolicInput,
    SymbolicOutput,
    as_op,
    function,
    function_dump,
    predefined_linkers,
    predefined_modes,
    predefined_optimizers,
    shared,
)
from theano_ng import gradient, printing
from theano_ng.gradient import Lop, Rop, grad, subgraph_grad
from theano_ng.printing import pp, pprint
from theano_ng.updates import OrderedUpdates
from theano_ng.tensor.constant import get_scalar_constant_value

gof.ports.scan.fill("theano_ng.scan.builder:scan")
gof.ports.search_node.fill("theano_ng.audit.search:search_node")
gof.ports.sparse_from_rows.fill("theano_ng.sparse.from_rows:sparse_from_rows")

# Only rewrites insert the Ops of these rule modules into graphs, so no program imports the modules. Register loaders
# that import the modules.
for _module in ("opt_crossentropy", "opt_sigm"):
    gof.optdb.register_loader("theano_ng.tensor.nnet." + _module)
del _module

if _with_devices:
    from theano_ng import gpuarray

    gpuarray.devices.start()

PY3 = True
theano = sys.modules[__name__]  # `from theano import theano` works in old listings

# Names that few programs use are imported when they are first accessed.
__getattr__, __dir__, _lazy = _lazy_names(
    __name__,
    {
        "theano_ng.compile.builders": "OpFromGraph",
        "theano_ng.compile.clone": "clone",
        "theano_ng.scan": "scan map reduce foldl foldr scan_checkpoints",
    },
    modules="ifelse raise_op sparse sandbox typed_list gpuarray d3viz scan_module misc tests breakpoint legacy audit",
)


def dot(l, r):
    """Return the product of two values. The method ``l.__dot__`` or ``r.__rdot__`` computes it.

    Raises
    ------
    NotImplementedError
        If neither value has a method that accepts the other value.
    """
    reasons = []
    for first, second, method in ((l, r, "__dot__"), (r, l, "__rdot__")):
        if hasattr(first, method):
            try:
                result = getattr(first, method)(second)
            except tensor.AsTensorError as failure:
                reasons.append(failure)  # for example, a tensor's method cannot convert a sparse operand
                continue
            if result is not NotImplemented:
                return result
    if reasons:
        raise reasons[0]
    raise NotImplementedError("Dot failed for the following reasons: neither %r nor %r can be multiplied" % (l, r))


def sparse_grad(var):
    """Return a variable equal to `var`, whose gradient with respect to the indexed variable is a sparse matrix.

    Parameters
    ----------
    var : TensorVariable
        The result of indexing by one integer vector.

    Raises
    ------
    TypeError
        If `var` is not such a result.
    """
    if var.owner is None or not isinstance(var.owner.op, tensor.AdvancedSubtensor1):
        raise TypeError("Sparse gradient is only implemented for AdvancedSubtensor1, the result of x[integer_vector]")
    return tensor.AdvancedSubtensor1(sparse_grad=True)(*var.owner.inputs)


def test():
    """Run the test suite of the package. Return the number of failures, at most 100, or 1 if there is no test."""
    from theano_ng.tests.runner import main

    return main(["--theano"])


__all__ = sorted({name for name in globals() if not name.startswith("_")} | set(_lazy))
