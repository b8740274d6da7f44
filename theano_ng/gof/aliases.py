"""Names of types for annotations in this package.

Type checkers and editors read this module. Other modules import the names only under ``if TYPE_CHECKING``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from theano_ng.gof.graph import Apply, Variable

# Storage for a value: a list of one element. A thunk reads the cells of its inputs and fills the cells of its outputs.
Cell: TypeAlias = list[Any]
Cells: TypeAlias = list[Cell]

# Variable -> the cell for its value.
StorageMap: TypeAlias = dict[Variable, Cell]

# Variable -> a list with one bool, which is True if the value of the variable has been computed.
ComputeMap: TypeAlias = dict[Variable, list[bool]]

# Variables whose previous values must not become output buffers. True means all variables.
Recycling: TypeAlias = Iterable[Variable] | Literal[True]

# A use of a variable in a FunctionGraph: a node and the index of its input. For an output of the graph, the string
# "output" is in place of the node. Callers check for this string before they use attributes of the node.
Client: TypeAlias = tuple[Any, int]

# A variable or a node.
NodeOrVariable: TypeAlias = Apply | Variable


# The result of a rule: a sequence of replacements for a node's outputs, or a dict from variables of the graph to their
# replacements. False or None if the rule replaces nothing.
Replacements: TypeAlias = Sequence[Any] | dict[Any, Any] | Literal[False] | None


class Thunk(Protocol):
    """A callable without arguments that computes a node: it reads cells and fills cells."""

    inputs: list[Cell]
    outputs: list[Cell]
    lazy: bool

    def __call__(self) -> Any: ...
