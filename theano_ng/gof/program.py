"""A linked graph: its thunks, the order in which they run, and their cells.

Linkers make a `Program`. Virtual machines (`gof.vm`, `gof._cvm`) run it. The program contains all data that a machine
needs. A program and a machine therefore suffice to run a graph repeatedly, without a `Function`::

    linker = VM_Linker(use_cloop=True).accept(fgraph)
    program = linker.make_program()
    machine = linker.machine(program)
    program.input_cells[0][0] = value
    machine()
    result = program.output_cells[0][0]

``print(program)`` shows the steps and, for each step that computes several operations, the program of its loop. The
program of a function is ``function.fn.program``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from theano_ng.gof._native import CThunk
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.native import native_code_of

if TYPE_CHECKING:
    from theano_ng.gof.aliases import Cell, Cells, ComputeMap, StorageMap
    from theano_ng.gof.graph import Apply


class Update(NamedTuple):
    """An update: after a run, an input gets the value of an output.

    Attributes
    ----------
    destination : Variable
        The input.
    source : Variable
        The output.
    release : bool
        Whether to empty the output's cell after the update. It is False if the output is also returned, or is itself an
        input.
    """

    destination: Variable
    source: Variable
    release: bool


def updates_of(fgraph: FunctionGraph, updated_vars: Mapping[Variable, Variable]) -> tuple[Update, ...]:
    """Return the updates of a graph.

    Parameters
    ----------
    fgraph : FunctionGraph
    updated_vars : dict
        Input variable -> output variable.

    Returns
    -------
    tuple of Update
    """
    uses = Counter(fgraph.outputs)
    return tuple(
        Update(destination, source, source.owner is not None and uses[source] == 1)
        for destination, source in updated_vars.items()
    )


class _Parts(NamedTuple):
    fgraph: FunctionGraph
    nodes: tuple[Apply, ...]
    thunks: tuple[Any, ...]
    storage_map: StorageMap
    compute_map: ComputeMap
    input_cells: tuple[Cell, ...]
    output_cells: tuple[Cell, ...]
    clear_before: tuple[Variable, ...] = ()
    clear_after: tuple[tuple[Variable, ...], ...] | None = None
    updates: tuple[Update, ...] = ()
    prerequisites: Mapping[Apply, Sequence[Apply]] = MappingProxyType({})
    first: tuple[Variable, ...] = ()
    lazy: bool = False


class Program(_Parts):
    """The data that a machine needs to run a graph.

    Attributes
    ----------
    fgraph : FunctionGraph
        The graph. Its inputs and outputs are the inputs and outputs of the program.
    nodes : tuple of Apply
        The nodes in the order in which they run. If `lazy` is true, some of them may not run.
    thunks : tuple of callable
        One thunk for each node. The thunks are bound to the cells, so each program has separate cells, unless the
        program was made with cells to share.
    storage_map : dict
        Variable -> cell that holds its value.
    compute_map : dict
        Variable -> cell whose value is True if the variable is computed. Lazy thunks read it.
    input_cells, output_cells : tuple of cells
        The cells for the inputs of a run and for its results.
    clear_before : tuple of Variable
        Variables whose cells are emptied at the start of each run. Other code may hold the values of these variables,
        so the values must not become output buffers.
    clear_after : tuple of tuple of Variable, or None
        For each node, the variables whose values are freed after it. None: nothing is freed, and the values remain as
        output buffers for the next run.
    updates : tuple of Update
        The updates to make after a complete run. If `need_update_inputs` of a machine is true, the machine's caller
        makes the updates.
    prerequisites : dict
        Node -> list of nodes that must run before it, because it overwrites memory that these nodes read. It does not
        read their outputs, so the graph does not show this order.
    first : tuple of Variable
        Variables that evaluation on demand computes before the outputs. Every run needs these variables, and they must
        be computed before a node overwrites state.
    lazy : bool
        Whether nodes run on demand. If False, all nodes run in order.
    """

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __new__(cls, *parts: Any, **named_parts: Any) -> Program:
        self = super().__new__(cls, *parts, **named_parts)
        for name, table in (("thunks", self.thunks), ("tuples of variables to clear", self.clear_after)):
            if table is not None and len(table) != len(self.nodes):
                raise ValueError("%d nodes, but %d %s" % (len(self.nodes), len(table), name))
        return self

    def with_parts(self, **parts: Any) -> Program:
        """Return a copy of the program in which some attributes are changed."""
        return Program(**{**self._asdict(), **parts})

    def completed(
        self,
        allow_gc: bool,
        no_recycling: Iterable[Variable] | Literal[True] = (),
        updated_vars: Mapping[Variable, Variable] | None = None,
        **parts: Any,
    ) -> Program:
        """Return a copy of the program that makes updates and clears cells.

        Determine which variables to clear and when, and which updates release their cells.

        Parameters
        ----------
        allow_gc : bool
            Whether values are freed after their last use.
        no_recycling : iterable of Variable, or True
            Variables whose previous values must not be passed to thunks as output buffers. True means all variables
            that the nodes compute.
        updated_vars : dict, optional
            Input variable -> output variable.
        **parts
            Other attributes to change.

        Returns
        -------
        Program
        """
        computed = dict.fromkeys(r for node in self.nodes for r in node.outputs)
        updates = updates_of(self.fgraph, updated_vars or {})
        cleared = set(computed if no_recycling is True else no_recycling)
        # If the new value of an input is also returned, both the input and the caller hold this value. It stays in the
        # cell of the output, but must not become an output buffer.
        cleared.update(update.source for update in updates if not update.release)
        return self.with_parts(
            clear_before=tuple([r for r in computed if r in cleared]),
            clear_after=last_uses(self.nodes, self.fgraph.outputs) if allow_gc else None,
            updates=updates,
            **parts,
        )

    @property
    def allow_gc(self) -> bool:
        """True if values are freed after their last use."""
        return self.clear_after is not None

    def cells(self, variables: Iterable[Variable]) -> Cells:
        """Return the list of the variables' cells."""
        return [self.storage_map[r] for r in variables]

    def cells_to_clear(self) -> list[Cells]:
        """Return, for each node, the cells to empty after it."""
        return [self.cells(variables) for variables in self.clear_after or [()] * len(self.nodes)]

    def __str__(self) -> str:
        return "\n".join(_listing(self))


def gc_helper(node_list: Iterable[Apply]) -> tuple[set[Variable], dict[Variable, Apply]]:
    """Determine which variables can be freed, and when.

    Parameters
    ----------
    node_list : list of Apply
        The nodes in the order in which they run.

    Returns
    -------
    computed : set of Variable
        All variables that the nodes compute.
    last_user : dict
        Variable -> the last node that reads it.
    """
    last_user = {}
    computed = set()
    for node in node_list:
        for r in node.inputs:
            last_user[r] = node
        computed.update(node.outputs)
    return computed, last_user


def last_uses(order: Sequence[Apply], keep: Iterable[Variable]) -> tuple[tuple[Variable, ...], ...]:
    """Return, for each node, the computed variables that no later node reads. Their values can be freed after the node.

    Parameters
    ----------
    order : iterable of Apply
        The nodes in the order in which they run.
    keep : iterable of Variable
        Variables that are never freed (the graph's outputs).

    Returns
    -------
    tuple of tuple of Variable
    """
    computed, last_user = gc_helper(order)
    keep = set(keep)
    freed = []
    for node in order:
        dead = dict.fromkeys(r for r in node.inputs if r in computed and r not in keep and last_user[r] is node)
        dead.update((r, None) for r in node.outputs if r not in last_user and r not in keep)  # no node reads these
        freed.append(tuple(dead))
    return tuple(freed)


def _listing(program: Program) -> Iterator[str]:
    """Yield the lines that ``print(program)`` shows."""
    names = _names(program)

    def several(variables: Iterable[Variable]) -> str:
        return ", ".join([names[r] for r in variables])

    yield "inputs   " + (several(program.fgraph.inputs) or "none")
    if program.clear_before:
        yield "empty    " + several(program.clear_before)
    if program.lazy and program.first:
        yield "first    " + several(program.first)
    width = len(str(len(program.nodes)))
    for i, (node, thunk) in enumerate(zip(program.nodes, program.thunks)):
        line = "%*d  %-6s %s = %s(%s)" % (
            width,
            i,
            "C" if isinstance(thunk, CThunk) else "Python",
            several(node.outputs),
            node.op,
            several(node.inputs),
        )
        notes = ["lazy"] if getattr(thunk, "lazy", False) else []
        for verb, table in (
            ("overwrites", getattr(node.op, "destroy_map", None)),
            ("views", getattr(node.op, "view_map", None)),
        ):
            read = dict.fromkeys(node.inputs[k] for _, places in sorted((table or {}).items()) for k in places)
            if read:
                notes.append("%s %s" % (verb, several(read)))
        if program.prerequisites.get(node):
            notes.append("after %s" % several([r for other in program.prerequisites[node] for r in other.outputs]))
        if program.clear_after is not None and program.clear_after[i]:
            notes.append("frees %s" % several(program.clear_after[i]))
        yield line + ("    # " + "; ".join(notes) if notes else "")
        for text in _details(node):
            yield "%*s  | %s" % (width, "", text)
    yield "outputs  " + (several(program.fgraph.outputs) or "none")
    for update in program.updates:
        yield "update   %s <- %s" % (names[update.destination], names[update.source])


def _details(node: Apply) -> Iterable[str]:
    """Return lines about the computation of a node: the loop programs of its kernels with more than one operation.

    If the Op has a method `program_lines`, return its result for the node instead.
    """
    describe = getattr(node.op, "program_lines", None)
    if describe is not None:
        return describe(node)
    code = native_code_of(node)
    programs = dict.fromkeys([getattr(kernel, "program", None) for kernel in code.kernels] if code is not None else ())
    return [
        line
        for program in programs
        if program is not None and program.has_several_operations()
        for line in str(program).splitlines()
    ]


def _names(program: Program) -> dict[Variable, str]:
    """Return a short, unique name for each variable that the text mentions.

    Results have the number of the step that computes them: ``r3``, or ``r3.0`` and ``r3.1``. Inputs keep their names,
    if they have names.
    """
    names: dict[Variable, str] = {}
    for i, node in enumerate(program.nodes):
        for j, r in enumerate(node.outputs):
            names[r] = "r%d" % i if len(node.outputs) == 1 else "r%d.%d" % (i, j)
    taken = set(names.values())
    for i, r in enumerate(program.fgraph.inputs):
        name = r.name if r.name and r.name not in taken else "input%d" % i
        taken.add(name)
        names[r] = name
    for r in (*[r for node in program.nodes for r in node.inputs], *program.fgraph.outputs):
        if r not in names:
            data = r.data if isinstance(r, Constant) else None
            one_number = isinstance(data, (int, float)) or getattr(data, "size", 0) == 1
            names[r] = str(data) if one_number else str(r)
    return names
