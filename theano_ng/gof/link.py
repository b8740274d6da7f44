"""Linkers, which turn a FunctionGraph into an executable program.

A linker binds every variable of a graph to a *cell*, which is a one-element list. It binds every node to a *thunk*: a
callable without arguments that reads input cells and fills output cells. This module contains the common parts of all
linkers, the linker that only calls `perform`, and the linker that runs several linkers side by side. The virtual
machine is in `gof.vm`, and the linker that compiles whole graphs is in `gof.codegen.clinker`.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Self

from theano_ng.configdefaults import config
from theano_ng.gof import progress
from theano_ng.gof.compiler.toolchain import CompileError
from theano_ng.gof.link_errors import log_thunk_trace, raise_with_op, thunk_hook
from theano_ng.gof.native import native_code_of, obtain_kernels, use_prepared_code
from theano_ng.gof.program import Program, gc_helper
from theano_ng.gof.type import Type

if TYPE_CHECKING:
    from theano_ng.gof.aliases import Cell, Cells, ComputeMap, Recycling, StorageMap
    from theano_ng.gof.fg import FunctionGraph
    from theano_ng.gof.graph import Apply, Variable
    from theano_ng.gof.program import Program

undef = object()


class Container:
    """A cell together with the Type that checks its values.

    Assigning to `value` (or `data`) passes the value through the Type's `filter`. Reading returns the content of the
    cell.

    Parameters
    ----------
    r : Variable or Type
        The Type that checks the values, or a variable of this Type. If `name` is not given, the container also takes
        the name of `r`.
    storage : list
        The cell: a list of one element. Several containers and thunks may share it.
    readonly : bool
        If True, assignment raises an error.
    strict : bool
        If True, values are checked but never cast.
    allow_downcast : bool or None
        The value of the parameter `allow_downcast` of `Type.filter`.
    name : str, optional

    Attributes
    ----------
    type, name, storage, readonly, strict, allow_downcast
    required, implicit : bool
        `required`: the caller must give a value. `implicit`: the caller must not give a value. Function sets both.
    """

    def __init__(
        self,
        r: Variable | Type,
        storage: Cell,
        readonly: bool = False,
        strict: bool = False,
        allow_downcast: bool | None = None,
        name: str | None = None,
    ) -> None:
        if not isinstance(storage, list) or not len(storage) >= 1:
            raise TypeError("storage must be a list of length at least one, not %r" % (storage,))
        if isinstance(r, Type):
            self.type = r
        else:
            self.type = r.type
        self.name = getattr(r, "name", None) if name is None else name
        self.storage = storage
        self.readonly = readonly
        self.strict = strict
        self.allow_downcast = allow_downcast
        self.required = self.implicit = False

    def _read(self) -> Any:
        return self.storage[0]

    def _write(self, value: Any) -> None:
        if self.readonly:
            raise Exception("Cannot set readonly storage: %s" % self.name)
        if value is None:
            self.storage[0] = None
            return
        try:
            filter_inplace = getattr(self.type, "filter_inplace", None)
            if filter_inplace is not None:
                self.storage[0] = filter_inplace(
                    value,
                    self.storage[0],
                    strict=self.strict,
                    allow_downcast=None if self.strict else self.allow_downcast,
                )
            elif self.strict:
                self.storage[0] = self.type.filter(value, strict=True)
            elif self.allow_downcast is None:
                self.storage[0] = self.type.filter(value)
            else:
                self.storage[0] = self.type.filter(value, allow_downcast=self.allow_downcast)
        except Exception as failure:
            failure.args = failure.args + ('Container name "%s"' % self.name,)
            raise

    data = property(_read, _write, doc="The stored value; assignment goes through the Type's filter.")
    value = property(_read, _write, doc="The stored value; assignment goes through the Type's filter.")

    def __str__(self) -> str:
        return "<%s>" % (self.storage[0],)

    def __repr__(self) -> str:
        return "<%r>" % (self.storage[0],)

    def __deepcopy__(self, memo: dict[int, Any]) -> Container:
        key = id(self)
        if key in memo:
            return memo[key]
        storage_known = id(self.storage) in memo
        result = type(self)(
            deepcopy(self.type, memo),
            deepcopy(self.storage, memo),
            deepcopy(self.readonly, memo),
            deepcopy(self.strict, memo),
            deepcopy(self.allow_downcast, memo),
            deepcopy(self.name, memo),
        )
        result.required, result.implicit = self.required, self.implicit
        # A deep copy may change the class of a value (a 0-d array can become a scalar). `filter` restores the class.
        if result.storage[0] is not None and not storage_known and not self.type.is_valid_value(result.storage[0]):
            result.storage[0] = self.type.filter(result.storage[0], strict=False, allow_downcast=False)
        memo[key] = result
        return result


class Linker:
    """A base class of all linkers.

    A linker accepts one FunctionGraph (`accept`) and then makes thunks for it.
    """

    _allow_gc: bool | None = True  # None: read config.allow_gc when a function is compiled
    fgraph: FunctionGraph | None = None
    no_recycling: Any
    calls_back = False  # True if user functions run between nodes. These may raise, so `Function` backs up state

    @property
    def allow_gc(self) -> bool:
        """True if intermediate values are freed as soon as possible."""
        return config.allow_gc if self._allow_gc is None else self._allow_gc

    @allow_gc.setter
    def allow_gc(self, value: bool | None) -> None:
        self._allow_gc = value

    def clone(self, allow_gc: Any = undef) -> Self:
        """Return a copy of this linker without a graph. If `allow_gc` is given, the copy uses it."""
        new = copy.copy(self)
        new.fgraph = None
        if allow_gc is not undef:
            new.allow_gc = allow_gc
        return new

    def accept(self, fgraph: FunctionGraph, no_recycling: Recycling | None = None, profile: Any = None) -> Self:
        """Bind the linker to a graph.

        Parameters
        ----------
        fgraph : FunctionGraph
        no_recycling : list of Variable, optional
            Variables whose previous values must not be passed to thunks as output buffers.
        profile : ProfileStats, optional

        Returns
        -------
        Linker
            This linker, or a copy of it if this linker is bound to another graph.
        """
        raise NotImplementedError("%s must define accept" % type(self).__name__)

    def _bound_to(self, fgraph: FunctionGraph, no_recycling: Recycling | None) -> Self:
        """Return this linker, or a copy of it if it is bound to another graph. Bind the returned linker to `fgraph`."""
        linker = self if self.fgraph is None or self.fgraph is fgraph else self.clone()
        linker.fgraph = fgraph
        linker.no_recycling = [] if no_recycling is None else no_recycling
        return linker

    def make_thunk(self) -> tuple[Any, ...]:
        """Return ``(thunk, input containers, output containers)`` of the accepted graph."""
        raise NotImplementedError("%s must define make_thunk" % type(self).__name__)

    def make_function(self, unpack_single: bool = True, **kwargs: Any) -> Callable[..., Any]:
        """Return a Python function of the graph's inputs.

        Parameters
        ----------
        unpack_single : bool
            If True, and if the graph has one output, the function returns the value of this output instead of a list.
        **kwargs
            Passed to `make_thunk`.
        """
        thunk, inputs, outputs = self.make_thunk(**kwargs)

        def execute(*args: Any) -> Any:
            if len(args) != len(inputs):
                raise TypeError(
                    "Function call takes exactly %i %s (%i given)"
                    % (len(inputs), ["argument", "arguments"][len(inputs) > 1], len(args))
                )
            for arg, container in zip(args, inputs):
                container.data = arg
            thunk()
            if unpack_single and len(outputs) == 1:
                return outputs[0].data
            return [container.data for container in outputs]

        made: Any = execute
        made.thunk, made.inputs, made.outputs = thunk, inputs, outputs
        return made

    def schedule(self, fgraph: FunctionGraph) -> list[Apply]:
        """Return the nodes in the order in which they run."""
        return fgraph.toposort()


def map_storage(
    fgraph: FunctionGraph,
    order: Sequence[Apply],
    input_storage: Cells | None,
    output_storage: Cells | None,
    storage_map: StorageMap | None = None,
) -> tuple[Cells, Cells, StorageMap]:
    """Assign a cell to every variable of a graph.

    Parameters
    ----------
    fgraph : FunctionGraph
    order : list of Apply
        All nodes that will run.
    input_storage, output_storage : None, or list of cells
        The cells of the graph's inputs and outputs. If None, new cells are created.
    storage_map : dict, optional
        Variable -> cell, for variables that already have a cell. It is extended in place.

    Returns
    -------
    input_storage, output_storage : list of cells
    storage_map : dict
    """
    if storage_map is None:
        storage_map = {}
    if input_storage is None:
        input_storage = [storage_map.get(r) or [None] for r in fgraph.inputs]
    elif len(fgraph.inputs) != len(input_storage):
        raise ValueError("the graph has %d inputs, but %d cells were given" % (len(fgraph.inputs), len(input_storage)))
    for r, cell in zip(fgraph.inputs, input_storage):
        known = storage_map.setdefault(r, cell)
        if known is not cell:
            raise ValueError("input %s has a different cell in storage_map" % r)

    if output_storage is not None:
        if len(fgraph.outputs) != len(output_storage):
            raise ValueError(
                "the graph has %d outputs, but %d cells were given" % (len(fgraph.outputs), len(output_storage))
            )
        for r, cell in zip(fgraph.outputs, output_storage):
            storage_map.setdefault(r, cell)

    for node in order:
        for r in node.inputs:
            if r not in storage_map:
                if hasattr(r, "data"):
                    storage_map[r] = [r.data]
                else:
                    raise ValueError(
                        "%s is an input of %s, but neither an input of the graph nor computed in it" % (r, node)
                    )
        for r in node.outputs:
            storage_map.setdefault(r, [None])
    for r in fgraph.outputs:
        if r not in storage_map:
            if not hasattr(r, "data"):
                raise ValueError("output %s is neither an input of the graph nor computed in it" % r)
            storage_map[r] = [r.data]

    if output_storage is None:
        output_storage = [storage_map[r] for r in fgraph.outputs]
    return input_storage, output_storage, storage_map


def add_clear_storage(f: Any, computed: Iterable[Variable], storage_map: StorageMap) -> None:
    """Add a method `clear_storage()` to `f` that empties the cells of the computed variables."""

    def clear_storage() -> None:
        for r in computed:
            storage_map[r][0] = None

    f.clear_storage = clear_storage


def streamline(
    fgraph: FunctionGraph,
    thunks: Sequence[Any],
    order: Sequence[Apply],
    post_thunk_old_storage: Sequence[Sequence[Cell]] | None = None,
    no_recycling: Iterable[Cell] | None = None,
    nice_errors: bool = True,
) -> Any:
    """Return a function that runs thunks in order.

    Parameters
    ----------
    fgraph : FunctionGraph
    thunks : list of callable
    order : list of Apply
        The nodes of the thunks.
    post_thunk_old_storage : list of list of cells, optional
        For each thunk, the cells to empty after it.
    no_recycling : list of cells, optional
        Cells to empty at the start of each run.
    nice_errors : bool
        Whether error messages name the node (see `raise_with_op`).
    """
    if no_recycling is None:
        no_recycling = []
    if len(thunks) != len(order):
        raise ValueError("Length of thunks and order must match", (len(thunks), len(order)))
    if post_thunk_old_storage is None:
        post_thunk_old_storage = [()] * len(order)
    elif len(post_thunk_old_storage) != len(thunks):
        raise ValueError(
            "Length of thunks and post_thunk_old_storage must match", (len(thunks), len(post_thunk_old_storage))
        )
    steps = list(zip(thunks, order, post_thunk_old_storage))

    def streamline_f() -> None:
        for cell in no_recycling:
            cell[0] = None
        thunk = node = None
        try:
            for thunk, node, old in steps:  # noqa: B007, the handler reads `thunk` and `node`
                thunk()
                for cell in old:
                    cell[0] = None
        except Exception:
            if not nice_errors or node is None:
                raise
            raise_with_op(node, thunk)

    made: Any = streamline_f
    made.thunks, made.nodes = thunks, order
    return made


class LocalLinker(Linker):
    """A base class of linkers that make one thunk for each node and run the thunks in some order."""

    def make_thunk(
        self,
        input_storage: Cells | None = None,
        output_storage: Cells | None = None,
        storage_map: StorageMap | None = None,
    ) -> tuple[Any, ...]:
        make_all: Any = self.make_all  # subclasses add the parameter storage_map
        return make_all(input_storage=input_storage, output_storage=output_storage, storage_map=storage_map)[:3]

    def make_all(self, input_storage: Cells | None, output_storage: Cells | None) -> tuple[Any, ...]:
        """Return ``(function, input containers, output containers, thunks, nodes)``.

        The thunks have the attributes `inputs` and `outputs`: lists of cells.
        """
        raise NotImplementedError("%s must define make_all" % type(self).__name__)


def containers(variables: Iterable[Variable], cells: Iterable[Cell], readonly: bool = False) -> list[Container]:
    """Return a Container for each variable's cell."""
    return [Container(r, cell, readonly) for r, cell in zip(variables, cells)]


def make_eager_program(
    linker: Any,
    impl: str | None,
    input_storage: Cells | None,
    output_storage: Cells | None,
    storage_map: StorageMap | None,
) -> Program:
    """Return the program of a linker that runs all nodes in order.

    Parameters
    ----------
    linker : LocalLinker
        A linker with an accepted graph. Its `no_recycling`, `schedule` and `allow_gc` are used.
    impl : {None, "c", "py"}
        The implementation that the thunks use.
    input_storage, output_storage, storage_map
        The arguments of `map_storage`.

    Returns
    -------
    Program
    """
    fgraph = linker.fgraph
    order = linker.schedule(fgraph)
    input_storage, output_storage, storage_map = map_storage(fgraph, order, input_storage, output_storage, storage_map)
    # All nodes run in order, so the inputs of a thunk exist when it runs. Mark every variable as computed, so that a
    # lazy thunk does not request inputs.
    compute_map = {r: [True] for r in storage_map}
    with native_kernels(order if impl != "py" else ()):
        thunks = []
        for i, node in enumerate(order):
            progress.task.linking(i + 1, order)
            thunks.append(make_node_thunk(node, storage_map, compute_map, linker.no_recycling, impl))
    cells = tuple(input_storage), tuple(output_storage)
    program = Program(fgraph, tuple(order), tuple(thunks), storage_map, compute_map, *cells)
    return program.completed(linker.allow_gc, linker.no_recycling)


def streamlined(program: Program, nice_errors: bool = True) -> Any:
    """Return a Python function that runs a program; see `streamline`.

    The function gets the attributes that Functions and users read.
    """
    f = streamline(
        program.fgraph,
        list(program.thunks),
        list(program.nodes),
        program.cells_to_clear(),
        no_recycling=program.cells(program.clear_before),
        nice_errors=nice_errors,
    )
    f.program, f.storage_map, f.allow_gc = program, program.storage_map, program.allow_gc
    add_clear_storage(f, [r for node in program.nodes for r in node.outputs], program.storage_map)
    return f


def program_containers(program: Program) -> tuple[list[Container], list[Container]]:
    """Return containers for the cells of a program's inputs, and of its outputs."""
    return (
        containers(program.fgraph.inputs, program.input_cells),
        containers(program.fgraph.outputs, program.output_cells, True),
    )


class PerformLinker(LocalLinker):
    """The linker 'py'. It runs every node by its Op's `perform`, in topological order.

    Parameters
    ----------
    allow_gc : bool, optional
        Whether to free intermediate values as soon as possible. None: config.allow_gc.
    schedule : callable, optional
        ``schedule(fgraph)`` returns the nodes in order.
    """

    def __init__(
        self, allow_gc: bool | None = None, schedule: Callable[[FunctionGraph], list[Apply]] | None = None
    ) -> None:
        self.allow_gc = allow_gc
        self.fgraph = None
        if schedule is not None:
            self.schedule = schedule  # type: ignore[method-assign, assignment]

    def accept(self, fgraph: FunctionGraph, no_recycling: Recycling | None = None, profile: Any = None) -> Self:
        return self._bound_to(fgraph, no_recycling)

    def make_all(
        self,
        input_storage: Cells | None = None,
        output_storage: Cells | None = None,
        storage_map: StorageMap | None = None,
    ) -> tuple[Any, ...]:
        program = make_eager_program(self, "py", input_storage, output_storage, storage_map)
        return (streamlined(program), *program_containers(program), list(program.thunks), list(program.nodes))


class Thunk:
    """A callable that has the attributes of a thunk.

    It wraps a callable to which attributes cannot be added (a bound method, or an object with slots).

    Attributes
    ----------
    call : callable
    inputs, outputs : list of cells
    lazy : bool
    """

    __slots__ = ("call", "inputs", "outputs", "lazy")

    def __init__(self, call: Callable[[], Any], inputs: Cells, outputs: Cells, lazy: bool) -> None:
        self.call, self.inputs, self.outputs, self.lazy = call, inputs, outputs, lazy

    def __call__(self) -> Any:
        return self.call()


def make_node_thunk(
    node: Apply,
    storage_map: StorageMap,
    compute_map: ComputeMap | None,
    no_recycling: Recycling,
    impl: str | None = None,
) -> Any:
    """Call `node.op.make_thunk`, with `impl` if the method has this parameter. Error messages name the node.

    The returned thunk always has the attributes `inputs`, `outputs` and `lazy`, even if the Op returned a plain
    callable.
    """
    op = node.op
    try:
        try:
            thunk = op.make_thunk(node, storage_map, compute_map, no_recycling, impl=impl)
        except TypeError as failure:
            if "impl" not in str(failure) or "unexpected keyword" not in str(failure):
                raise
            thunk = op.make_thunk(node, storage_map, compute_map, no_recycling)
        if not callable(thunk):
            raise TypeError("make_thunk of %s has to return a callable without arguments, not %r" % (op, thunk))
    except CompileError as failure:
        raise failure.name_node(node)  # noqa: B904, name_node returns the same exception
    except Exception as failure:
        failure.args = ("The following error happened while compiling the node", node, "\n") + failure.args
        raise
    inputs = getattr(thunk, "inputs", None) or [storage_map[r] for r in node.inputs]
    outputs = getattr(thunk, "outputs", None) or [storage_map[r] for r in node.outputs]
    lazy = getattr(thunk, "lazy", False)
    try:
        thunk.inputs, thunk.outputs, thunk.lazy = inputs, outputs, lazy
    except (AttributeError, TypeError):
        thunk = Thunk(thunk, inputs, outputs, lazy)
    return thunk


_gathered: set[Apply] = set()  # nodes whose kernels an active `native_kernels` context has compiled


@contextlib.contextmanager
def native_kernels(order: Iterable[Apply]) -> Iterator[None]:
    """Compile the kernels of all nodes together, and provide a context whose thunks use the compiled kernels.

    An Op whose node runs an inner graph has a method ``inside()``. The method returns the Op's own kernels, and the
    inner nodes, whose kernels are compiled, too.

    Parameters
    ----------
    order : iterable of Apply
        The nodes for which thunks are made inside the context.
    """
    codes, kernels, todo, seen = {}, [], list(order), set()
    for node in todo:
        if node in _gathered or node in seen:
            continue
        seen.add(node)
        if hasattr(node.op, "inside"):
            own, nodes = node.op.inside()
            kernels += own
            todo += nodes
        code = native_code_of(node)
        if code is not None:
            codes[node] = code
            kernels += code.kernels
    if len(kernels) > 1:
        try:
            obtain_kernels(kernels)
        except Exception:
            # Ignore the error: each node compiles its kernels again, and then reports the error with its name.
            pass
    leaving = iter(tuple(seen))  # created now, because memory may be exhausted at the end
    try:
        _gathered.update(seen)
        with use_prepared_code(codes):
            yield
    finally:
        for node in leaving:
            _gathered.discard(node)


class WrapLinker(Linker):
    """A linker that runs the programs of several linkers in step, node by node.

    For each node, ``wrapper(i, node, *thunks)`` is called with one thunk from each linker. The wrapper decides whether
    to call these thunks, and can examine the thunks' cells before and after a call.

    Parameters
    ----------
    linkers : list of LocalLinker
        Linkers that order the nodes in the same way.
    wrapper : callable
        The function ``wrapper(i, node, *thunks)``.
    """

    def __init__(self, linkers: Sequence[Any], wrapper: Callable[..., Any]) -> None:
        self.fgraph = None
        self.linkers = linkers
        self.wrapper = wrapper

    calls_back = True

    def __copy__(self) -> Self:
        """Return a copy of the linker. Also copy the linkers in it, because each of them is bound to a graph."""
        return type(self)([copy.copy(linker) for linker in self.linkers], self.wrapper)

    def clone(self, allow_gc: Any = undef) -> Self:
        return type(self)([linker.clone(allow_gc=allow_gc) for linker in self.linkers], self.wrapper)

    def accept(self, fgraph: FunctionGraph, no_recycling: Recycling | None = None, profile: Any = None) -> Self:
        bound = self._bound_to(fgraph, no_recycling)
        bound.linkers = [linker.accept(fgraph, no_recycling) for linker in bound.linkers]
        return bound

    def pre(self, f: Any, inputs: list[Any], order: Sequence[Apply], thunk_groups: Sequence[tuple[Any, ...]]) -> None:
        """Prepare for a run. The method is called at the start of each run, and does nothing by default.

        Parameters
        ----------
        f : WrapLinker
            This linker.
        inputs : list
            The values in the input cells.
        order : list of Apply
        thunk_groups : list of tuple
            For each node, the linkers' thunks.
        """

    def make_thunk(self, **kwargs: Any) -> tuple[Any, ...]:
        made = [linker.make_all(**kwargs) for linker in self.linkers]
        fns, input_lists, output_lists, thunk_lists, order_lists = zip(*made)
        order = list(order_lists[0])
        for other in order_lists[1:]:
            if order != list(other):
                raise Exception("All linkers to WrapLinker should execute operations in the same order.")

        inputs0, outputs0 = input_lists[0], output_lists[0]
        thunk_groups = list(zip(*thunk_lists))
        no_recycling = self.no_recycling if self.no_recycling is True else set(self.no_recycling)
        to_reset = [
            thunk.outputs[j]
            for thunks, node in zip(thunk_groups, order)
            for j, output in enumerate(node.outputs)
            if no_recycling is True or output in no_recycling
            for thunk in thunks
        ]
        wrapper, pre = self.wrapper, self.pre
        for fn in fns:
            # All nodes run in order. Mark every variable as computed, so that a lazy thunk does not request inputs.
            for flag in getattr(fn, "compute_map", {}).values():
                flag[0] = True

        def f() -> None:
            for input_list in input_lists[1:]:
                for container, first in zip(input_list, inputs0):
                    container.storage[0] = copy.copy(first.storage[0])
            for cell in to_reset:
                cell[0] = None
            pre(self, [container.data for container in inputs0], order, thunk_groups)
            for i, (thunks, node) in enumerate(zip(thunk_groups, order)):
                try:
                    wrapper(i, node, *thunks)
                except Exception:
                    raise_with_op(node, thunks[0])

        made_f: Any = f
        made_f.thunk_groups = thunk_groups
        made_f.storage_map = getattr(fns[0], "storage_map", None)
        made_f.allow_gc = all(getattr(linker, "allow_gc", False) for linker in self.linkers)
        return f, inputs0, outputs0


def WrapLinkerMany(linkers: Sequence[Any], wrappers: Sequence[Callable[..., Any]]) -> WrapLinker:
    """Return a WrapLinker that calls several wrappers, in order, at each step."""

    def wrapper(*args: Any) -> None:
        for one in wrappers:
            one(*args)

    return WrapLinker(linkers, wrapper)


__all__ = [
    "Container",
    "Linker",
    "LocalLinker",
    "PerformLinker",
    "WrapLinker",
    "WrapLinkerMany",
    "add_clear_storage",
    "gc_helper",
    "log_thunk_trace",
    "map_storage",
    "raise_with_op",
    "streamline",
    "thunk_hook",
]
