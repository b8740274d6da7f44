"""Compilation of graphs into callables: functions, shared variables and modes."""

from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Variable, io_connection_pattern, is_same_graph
from theano_ng.gof.link import Container
from theano_ng.gof.null_type import NullType
from theano_ng.compile.io import In, Out, SymbolicInput, SymbolicOutput
from theano_ng.compile.mode import (
    FAST_COMPILE,
    FAST_RUN,
    OPT_FAST_COMPILE,
    OPT_FAST_RUN,
    OPT_FAST_RUN_STABLE,
    OPT_MERGE,
    OPT_NONE,
    OPT_O2,
    OPT_O3,
    OPT_STABILIZE,
    OPT_UNSAFE,
    AddDestroyHandler,
    AddFeatureOptimizer,
    Mode,
    PrintCurrentFunctionGraph,
    get_default_mode,
    get_mode,
    local_useless,
    optdb,
    predefined_linkers,
    predefined_modes,
    predefined_optimizers,
    register_linker,
    register_mode,
    register_mode_class,
    register_optimizer,
)
from theano_ng.compile.functions.maker import (
    AliasedMemoryError,
    Function,
    FunctionMaker,
    Supervisor,
    UnusedInputError,
    alias_root,
    check_equal,
    convert_function_input,
    fgraph_updated_vars,
    get_info_on_inputs,
    infer_reuse_pattern,
    insert_deepcopy,
    orig_function,
    register_checker,
    std_fgraph,
    view_tree_set,
)
from theano_ng.compile.ops import (
    DeepCopyOp,
    FromFunctionOp,
    Rebroadcast,
    Shape,
    Shape_i,
    SpecifyShape,
    ViewOp,
    as_op,
    deep_copy_op,
    register_deep_copy_op_c_code,
    register_rebroadcast_c_code,
    register_shape_c_code,
    register_shape_i_c_code,
    register_specify_shape_c_code,
    register_view_op_c_code,
    shape,
    specify_shape,
    view_op,
)
from theano_ng.compile.profiling import ProfileStats, ScanProfileStats
from theano_ng.compile.sharedvalue import SharedVariable, shared, shared_constructor
from theano_ng.compile.pfunc import Param, pfunc, rebuild_collect_shared
from theano_ng.compile.function import function, function_dump
from theano_ng.lazy import lazy_names
from theano_ng.moved import former_modules

register_mode_class("DebugMode", "theano_ng.compile.debugmode")
register_mode_class("NanGuardMode", "theano_ng.compile.nanguardmode")

# These names are loaded on first use: modes and builders that are rarely used, and a name that a higher layer defines.
_lent, __dir__, _ = lazy_names(
    __name__,
    {
        "theano_ng.compile.debugmode": "DebugMode",
        "theano_ng.compile.nanguardmode": "NanGuardMode",
        "theano_ng.compile.monitormode": "MonitorMode",
        "theano_ng.compile.builders": "OpFromGraph inline_ofg_expansion",
        "theano_ng.tensor.transfer": "register_transfer",
    },
    modules="debugmode nanguardmode monitormode builders",
)
_former = former_modules(__name__)


def __getattr__(name):
    try:
        return _lent(name)
    except AttributeError:
        return _former(name)
