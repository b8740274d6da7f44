"""The graph layer: expression graphs, types, Ops, rewriting, code generation and linkers.

The name `gof` abbreviates "graph optimization framework". No module of this package depends on tensors.
"""

from theano_ng.gof.graph import Apply, Constant, Variable, view_roots
from theano_ng.gof.type import CEnumType, EnumList, EnumType, Generic, Type, generic
from theano_ng.gof.op import COp, Op, OpenMPOp, PureOp, ops_with_inner_function
from theano_ng.gof import (
    callcache,
    graph,
    null_type,
    op,
    params_type,
    pickling,
    sched,
    toolbox,
    traversal,
    type,
    unify,
    utils,
)
from theano_ng.gof.params_type import Params, ParamsType
from theano_ng.gof.toolbox import (
    Bookkeeper,
    Feature,
    History,
    NodeFinder,
    NoOutputFromInplace,
    PrintListener,
    ReplacementDidntRemovedError,
    ReplaceValidate,
    Validator,
)
from theano_ng.gof.fg import CachedConstantError, FunctionGraph, InconsistencyError, MissingInputError
from theano_ng.gof.destroy.handler import DestroyHandler
from theano_ng.gof.utils import MethodNotDefined, hashtype, object2
from theano_ng.gof import fg, optdb
from theano_ng.gof.destroy import handler as destroyhandler
from theano_ng.gof import rewriting as opt
from theano_ng.gof.rewriting import (
    CheckStackTraceOptimization,
    EquilibriumOptimizer,
    LocalOptGroup,
    LocalOptimizer,
    MergeOptimizer,
    NavigatorOptimizer,
    OpKeyOptimizer,
    OpRemove,
    OpSub,
    Optimizer,
    PatternSub,
    SeqOptimizer,
    TopoOptimizer,
    inplace_optimizer,
    local_optimizer,
    optimizer,
)
from theano_ng.gof.optdb import DB, EquilibriumDB, LocalGroupDB, ProxyDB, Query, SequenceDB
from theano_ng.gof.link import Container, Linker, LocalLinker, PerformLinker, WrapLinker, WrapLinkerMany
from theano_ng.gof.codegen.clinker import CLinker, DualLinker, HideC, OpWiseCLinker
from theano_ng.moved import former_modules

__getattr__ = former_modules(__name__)
