# Written by theano_ng/misc/write_stubs.py, which lists what this module has when it runs.

import logging
from typing import Any

from theano_ng import (
    audit as audit,
    breakpoint as breakpoint,
    compile as compile,
    configdefaults as configdefaults,
    configparser as configparser,
    d3viz as d3viz,
    digests as digests,
    gof as gof,
    gpuarray as gpuarray,
    gradient as gradient,
    gradient_check as gradient_check,
    gradient_ops as gradient_ops,
    ifelse as ifelse,
    lazy as lazy,
    legacy as legacy,
    loops as loops,
    misc as misc,
    moved as moved,
    printing as printing,
    raise_op as raise_op,
    sandbox as sandbox,
    scalar as scalar,
    sparse as sparse,
    status_line as status_line,
    tensor as tensor,
    tests as tests,
    typed_list as typed_list,
    updates as updates,
    version as version,
)
from theano_ng.compile.builders import OpFromGraph as OpFromGraph
from theano_ng.compile.clone import clone as clone
from theano_ng.compile.function import function as function, function_dump as function_dump
from theano_ng.compile.function_op import as_op as as_op
from theano_ng.compile.functions.maker import FunctionMaker as FunctionMaker
from theano_ng.compile.io import In as In, Out as Out, SymbolicInput as SymbolicInput, SymbolicOutput as SymbolicOutput
from theano_ng.compile.mode import (
    Mode as Mode,
    predefined_linkers as predefined_linkers,
    predefined_modes as predefined_modes,
    predefined_optimizers as predefined_optimizers,
)
from theano_ng.compile.pfunc import Param as Param
from theano_ng.compile.profiling import ProfileStats as ProfileStats
from theano_ng.compile.sharedvalue import shared as shared
from theano_ng.configparser import change_flags as change_flags, config as config
from theano_ng.gof import utils as utils
from theano_ng.gof.codegen.clinker import CLinker as CLinker
from theano_ng.gof.codegen.linkers import DualLinker as DualLinker, OpWiseCLinker as OpWiseCLinker
from theano_ng.gof.differentiate import Lop as Lop, Rop as Rop, grad as grad, subgraph_grad as subgraph_grad
from theano_ng.gof.fg import FunctionGraph as FunctionGraph
from theano_ng.gof.graph import Apply as Apply, Constant as Constant, Variable as Variable
from theano_ng.gof.link import (
    Container as Container,
    Linker as Linker,
    LocalLinker as LocalLinker,
    PerformLinker as PerformLinker,
)
from theano_ng.gof.op.base import Op as Op
from theano_ng.gof.op.openmp import OpenMPOp as OpenMPOp
from theano_ng.gof.toolbox import InconsistencyError as InconsistencyError
from theano_ng.gof.type.base import Generic as Generic, Type as Type, generic as generic
from theano_ng.gof.utils import object2 as object2
from theano_ng.printing.pretty import pp as pp, pprint as pprint
from theano_ng.scan.builder import scan as scan
from theano_ng.scan.checkpoints import scan_checkpoints as scan_checkpoints
from theano_ng.scan.views import foldl as foldl, foldr as foldr, map as map, reduce as reduce
from theano_ng.tensor.constant import get_scalar_constant_value as get_scalar_constant_value
from theano_ng.updates import OrderedUpdates as OrderedUpdates

PY3: bool
logging_default_formatter: logging.Formatter
logging_default_handler: logging.StreamHandler
theano_logger: logging.Logger
__version__: str

def disable_log_handler(logger: Any = ..., handler: Any = ...) -> Any: ...
def dot(l: Any, r: Any) -> Any: ...
def has_handlers(logger: Any) -> Any: ...
def sparse_grad(var: Any) -> Any: ...
def test() -> Any: ...
