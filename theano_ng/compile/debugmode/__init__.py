"""DebugMode: a mode whose functions check themselves.

The graph of a function is rewritten several times, to check that rewriting is deterministic. In a call, every node of
the rewritten graph runs with its Python code and its C code, twice each, on copies of its inputs. DebugMode then
compares the results of these runs, and checks that changes of inputs and aliases agree with the `destroy_map` and the
`view_map` of the Op. Nodes that rewriting removed run once with each code, so that every replacement can be checked on
the values of the call. No node is evaluated lazily, and no intermediate value is freed before the end of the call.

==============  ======================================================================
`mode`          `DebugMode`, its linker and the maker of its functions
`run`           runs the nodes of a call, in all their implementations
`checks`        compares values, aliases and memory with the declarations of the Op
`guards`        guard margins around preallocated outputs
`tracking`      records rewrites, and decides which replacements are wrong
`errors`        the exceptions of DebugMode
`_last_words`   a message of a process that a node kills
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
    BadReferences,
    BadThunkOutput,
    BadViewMap,
    DebugModeError,
    EndlessOptimization,
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
    # Set `__module__` to the documented module, because pickles and reprs contain it.
    _thing.__module__ = __name__
del _thing

__all__ = [
    "AddressError",
    "BadDestroyMap",
    "BadOptimization",
    "BadReferences",
    "BadThunkOutput",
    "BadViewMap",
    "DebugMode",
    "DebugModeError",
    "EndlessOptimization",
    "InvalidValueError",
    "StochasticOrder",
    "check_eq",
    "default_make_thunk",
]
