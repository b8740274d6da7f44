"""The rewriting engine: merging, local rules, patterns, navigators and the equilibrium worklist.

It is documented as `theano_ng.gof.opt`.

========================  ==========================================================================
`base`                    `Optimizer`, `SeqOptimizer`, optimizers made from functions
`merge`                   merges equal computations and equal constants
`local`                   rules on one node, groups of rules, and the index of rules by Op
`pattern`                 rules written as data: `OpSub`, `OpRemove`, `PatternSub`
`navigate`                optimizers that visit the nodes of a graph and apply a rule
`equilibrium`             the worklist that applies rules until the graph does not change any longer
`stacktrace`              stack traces: where the user created a replaced variable
`tools`                   helpers of rewrites
========================  ==========================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from theano_ng.configdefaults import config
from theano_ng.gof.rewriting.base import (
    FromFunctionOptimizer,
    Optimizer,
    SeqOptimizer,
    _logger,
    inplace_optimizer,
    merge_dict,
    optimizer,
)
from theano_ng.gof.rewriting.equilibrium import EquilibriumOptimizer
from theano_ng.gof.rewriting.local import (
    FromFunctionLocalOptimizer,
    GraphToGPULocalOptGroup,
    LocalMetaOptimizer,
    LocalMetaOptimizerSkipAssertionError,
    LocalOptGroup,
    LocalOptimizer,
    local_optimizer,
)
from theano_ng.gof.rewriting.merge import (
    MergeFeature,
    MergeOptimizer,
    _metadict,  # pickles refer to this name
    is_same_graph_with_merge,
    pre_constant_merge,
    register_assert_op,
)
from theano_ng.gof.rewriting.navigate import (
    ChangeTracker,
    NavigatorOptimizer,
    OpKeyOptimizer,
    TopoOptimizer,
    Updater,
    in2out,
    out2in,
    topogroup_optimizer,
)
from theano_ng.gof.rewriting.pattern import OpRemove, OpSub, PatternSub
from theano_ng.gof.rewriting.stacktrace import (
    CheckStackTraceOptimization,
    CheckStrackTraceFeature,
    check_stack_trace,
    copy_stack_trace,
    inherit_stack_trace,
)
from theano_ng.gof.rewriting.tools import _check_chain, check_chain, pre_greedy_local_optimizer
from theano_ng.gof.utils import integer_types, string_types
from theano_ng.lazy import lazy_names

if TYPE_CHECKING:
    from theano_ng.gof.fg import FunctionGraph
    from theano_ng.gof.graph import Apply

Navigator = NavigatorOptimizer

# The module `gof.opt` of Theano 1.0 imports these names, so programs use them as its attributes.
__getattr__, __dir__, _ = lazy_names(__name__, {"theano_ng": "logging theano"})


def _list_of_nodes(fgraph: FunctionGraph) -> list[Apply]:
    """Return the nodes of a `FunctionGraph`, inputs first."""
    return list(fgraph.toposort())


# Set `__module__` of these classes to the path of the module that defines them in Theano 1.0. Their reprs and pickles
# then contain this path.
for _cls in (
    FromFunctionOptimizer,
    Optimizer,
    SeqOptimizer,
    EquilibriumOptimizer,
    FromFunctionLocalOptimizer,
    GraphToGPULocalOptGroup,
    LocalMetaOptimizer,
    LocalMetaOptimizerSkipAssertionError,
    LocalOptGroup,
    LocalOptimizer,
    MergeFeature,
    MergeOptimizer,
    ChangeTracker,
    NavigatorOptimizer,
    OpKeyOptimizer,
    TopoOptimizer,
    Updater,
    OpRemove,
    OpSub,
    PatternSub,
    CheckStackTraceOptimization,
    CheckStrackTraceFeature,
):
    _cls.__module__ = "theano_ng.gof.opt"
del _cls
