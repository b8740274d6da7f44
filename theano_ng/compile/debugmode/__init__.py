"""DebugMode: a mode whose functions check themselves.

A function is rewritten several times, to see whether rewriting is deterministic; when it is called, every node runs with its Python and its
C code, twice each, on copies of its inputs, and the results, what happened to the inputs, and the sharing of memory are compared with what
the Op announces. Nodes that rewriting removed run too, so that every replacement can be checked on the values of the call. Nothing is lazy
and nothing is freed.

==============  ======================================================================
`mode`          `DebugMode`, its linker and the maker of its functions
`run`           runs the nodes of a call, in all their implementations
`checks`        compares values, views and memory with what was announced
`guards`        margins around preallocated outputs
`tracking`      judges rewrites
`errors`        what it raises
==============  ======================================================================
"""

from theano_ng.compile.debugmode.checks import (
    _check_inputs,
    _check_preallocated_output,
    _check_strides_match,
    _check_viewmap,
    _copy_for,
    _get_preallocated_maps,
    _is_used_in_graph,
    _lessbroken_deepcopy,
    check_valid,
    default_make_thunk,
)
from theano_ng.compile.debugmode.errors import (
    AddressError,
    BadDestroyMap,
    BadOptimization,
    BadThunkOutput,
    BadViewMap,
    DebugModeError,
    InvalidValueError,
    StochasticOrder,
)
from theano_ng.compile.debugmode.mode import (
    DataDestroyed,
    DebugMode,
    NoDuplicateOptWarningFilter,
    _DummyLinker,
    _Linker,
    _logger,
    _Maker,
    _optcheck_fgraph,
    data_destroyed,
    default_linker,
)
from theano_ng.compile.debugmode.tracking import (
    _find_bad_optimizations,
    _FunctionGraphEvent,
    _VariableEquivalenceTracker,
    check_eq,
)
from theano_ng.compile.ops import _output_guard
from theano_ng.configdefaults import config

for _thing in (DataDestroyed, DebugMode, NoDuplicateOptWarningFilter, _DummyLinker, _Linker, _Maker):
    # Pickles and reprs say the documented path.
    _thing.__module__ = __name__
del _thing

__all__ = [
    "AddressError",
    "BadDestroyMap",
    "BadOptimization",
    "BadThunkOutput",
    "BadViewMap",
    "DebugMode",
    "DebugModeError",
    "InvalidValueError",
    "StochasticOrder",
    "check_eq",
    "default_make_thunk",
]
