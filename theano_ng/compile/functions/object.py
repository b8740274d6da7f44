"""The class `Function`, the callable that compilation returns."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from theano_ng.compile._function import FunctionBase
from theano_ng.compile.functions.copying import copy_function
from theano_ng.compile.functions.exposure import Exposure, exposure
from theano_ng.compile.functions.inputs import DUPLICATE, ContainerAttribute, ValueAttribute, quick_check
from theano_ng.configdefaults import config
from theano_ng.gof import link
from theano_ng.gof.graph import Constant, Drawable
from theano_ng.gof.op import ops_with_inner_function
from theano_ng.gof.utils import get_variable_trace_string

if TYPE_CHECKING:
    from theano_ng.compile.sharedvalue import SharedVariable
    from theano_ng.gof.graph import Variable


def _listed(texts, most=8):
    """Join texts with commas.

    If there are more than `most` texts, list the first texts and the number of other texts.
    """
    if len(texts) > most:
        texts = texts[: most - 1] + ["... %d more" % (len(texts) - most + 1)]
    return ", ".join(texts)


class Function(Drawable, FunctionBase):
    """A compiled function.

    Parameters
    ----------
    fn : callable
        The callable without arguments that runs the graph: usually a virtual machine.
    input_storage, output_storage : list of Container
        The containers of all inputs (including implicit inputs) and of all outputs (including updates).
    indices : list of (In, list, list of In)
        For each input: its specification, a list that contains its position, and a list that contains its
        specification. The lists exist for compatibility.
    outputs : list of Out
    defaults : list of (bool, bool, object)
        For each input: True if the caller must give a value, True if the cell gets the default after a call, and the
        default.
    unpack_single : bool
        If True, a single output is returned as a value, not in a list.
    return_none : bool
        Whether calls return None.
    output_keys : list of str or None
        If not None, calls return a dictionary with these keys.
    maker : FunctionMaker
    name : str, optional

    Attributes
    ----------
    trust_input : bool
        If True, arguments are not checked and not converted. Values of a wrong type may work in Python code, but C code
        raises an error.
    profile : ProfileStats or None
    finder : dict
        Position, name or Variable -> Container.
    inv_finder : dict
        Container -> In.
    container, value
        A read-only mapping to Containers, and a mapping to values. Positions, names and Variables are the keys.
    """

    # The constructor sets these attributes to its arguments.
    maker: Any = None
    indices: Any = None
    defaults: Any = None

    def __init__(
        self,
        fn,
        input_storage,
        output_storage,
        indices,
        outputs,
        defaults,
        unpack_single,
        return_none,
        output_keys,
        maker,
        name=None,
    ):
        self.fn = fn
        self.input_storage = list(input_storage)
        self.output_storage = list(output_storage)
        self.indices = indices
        self.outputs = outputs
        self.defaults = defaults
        self.unpack_single = unpack_single
        self.return_none = return_none
        self.output_keys = output_keys
        self.maker = maker
        self.profile = None
        self.trust_input = False
        self.name = name
        self.nodes_with_inner_function = [
            node for node in maker.fgraph.apply_nodes if type(node.op) in ops_with_inner_function
        ]
        self._finder = None
        self._setup()

    def _setup(self):
        specs = [index[0] for index in self.indices]
        roles, quick, defaults = [], [], []
        for spec, container, (required, refeed, value) in zip(specs, self.input_storage, self.defaults):
            container.strict = getattr(spec, "strict", False)
            container.allow_downcast = getattr(spec, "allow_downcast", None)
            container.required = required
            container.implicit = spec.implicit
            copied = False
            if value is not None and not isinstance(value, link.Container):
                container.value = value
                value = container.storage[0]
                copied = bool(refeed and spec.mutable)
                if copied:
                    container.storage[0] = copy.copy(value)
            defaults.append((value if refeed else None, copied))
            roles.append("implicit" if spec.implicit else "refed" if refeed else "emptied" if required else "state")
            quick.append(quick_check(container))
        updates = self.maker.updates
        n_returned = len(self.output_storage) - len(updates)
        variables = self.maker.fgraph.outputs
        # A tuple for each update: position of the input, position of the output, True if the output cell is emptied.
        numbers = {variable: i for i, variable in enumerate(self.maker.fgraph.inputs)}
        self._updates = [
            (numbers[update.destination], n_returned + k, update.release) for k, update in enumerate(updates)
        ]
        states = self.maker.overwritten_states()
        self.setup(
            roles,
            quick,
            defaults,
            self.maker.alias_pairs(),
            [
                not spec.borrow and variable.owner is not None
                for spec, variable in zip(self.outputs[:n_returned], variables)
            ],
            self._updates,
            states,
            self._exposure(states),
            getattr(self.maker.linker, "calls_back", False),
        )

    def _exposure(self, states):
        """Return the state that would be lost if a node failed.

        The result is empty for virtual machines in Python and for other callables, because their calls copy all state.
        """
        fn = self.fn
        if not states or not hasattr(fn, "thunks"):
            return Exposure([], [], [])
        return exposure(self.maker.fgraph, states, fn.nodes, fn.thunks, getattr(fn, "lazy", False))

    # Access to inputs

    @property
    def _check_for_aliased_inputs(self):
        """True if the function may overwrite or return an argument.

        The attribute exists for compatibility: Theano 1.0 tested if arguments share memory only if it was True.
        """
        return any((index[0].mutable or index[0].borrow) and not index[0].implicit for index in self.indices)

    @property
    def finder(self):
        if self._finder is None:
            finder = {}
            for i, (index, container) in enumerate(zip(self.indices, self.input_storage)):
                spec = index[0]
                finder[i] = container
                finder[spec.variable] = container
                if spec.name is not None:
                    finder[spec.name] = DUPLICATE if spec.name in finder else container
            self._finder = finder
        return self._finder

    @property
    def inv_finder(self):
        return {container: index[0] for index, container in zip(self.indices, self.input_storage)}

    @property
    def container(self) -> Any:
        return ContainerAttribute(self)

    @property
    def value(self) -> Any:
        return ValueAttribute(self)

    def __getitem__(self, key: int | str | Variable) -> Any:
        """Return the current value of an input, given by position, name or Variable."""
        return self.value[key]

    def __setitem__(self, key: int | str | Variable, value: Any) -> None:
        """Set the stored value of an input. The value is converted to the input's type."""
        self.value[key] = value

    def __eq__(self, other: object) -> bool:
        """Return True if `other` is this function. A function is equal only to itself."""
        return self is other

    __hash__ = object.__hash__

    def __contains__(self, item: object) -> bool:
        return item in self.value

    # Calls: methods that FunctionBase uses outside of its fast path

    if TYPE_CHECKING:

        def __call__(self, *args: Any, output_subset: Sequence[Any] | None = None, **kwargs: Any) -> Any: ...

    def _may_round(self, i, value):
        """Return True if input `i` may round a number that it cannot hold exactly, as the `filter` of its Type does."""
        container = self.input_storage[i]
        if container.allow_downcast is None:
            return type(value) is float and container.type.dtype == config.floatX
        return container.allow_downcast

    def _filter(self, i, value):
        """Convert an argument to its input's type. Return None unchanged: it means that there is no value."""
        if value is None:
            return None
        container = self.input_storage[i]
        try:
            return container.type.filter(value, strict=container.strict, allow_downcast=container.allow_downcast)
        except Exception as failure:
            failure.args = (self._bad_input(i, failure),)
            raise

    def _bad_input(self, i, failure):
        """Return the error message for an argument that is invalid for the type of its input.

        The message contains the function, the input, the line that created the input, and the reason.
        """
        variable = self.indices[i][0].variable
        return "Bad input argument to theano function%s at index %d (0-based), the input %s. %s\n%s" % (
            ' with name "%s"' % self.name if self.name else "",
            i,
            variable,
            get_variable_trace_string(variable).rstrip(),
            ", ".join("%.1000s" % (part,) for part in failure.args),
        )

    def _bind(self, args, kwargs):
        """Put the positional and keyword arguments into the cells of inputs.

        Return the positions of outputs in the keyword argument `output_subset`. Return None if this argument is not
        given.
        """
        subset = kwargs.pop("output_subset", None)
        if subset is not None:
            subset = self._output_numbers(subset)
        containers = self.input_storage
        if len(args) > len(containers) or any(c.implicit for c in containers[: len(args)]):
            n_explicit = sum(not c.implicit for c in containers)
            if len(args) > n_explicit:
                raise TypeError(
                    "Too many parameter passed to theano function%s: it takes at most %d, and %d were given"
                    % (" %s" % self.name if self.name else "", n_explicit, len(args))
                )
        given = {}
        for i, value in enumerate(args):
            given[i] = value
        if kwargs:
            numbers = {id(container): i for i, container in enumerate(containers)}
            for key, value in kwargs.items():
                i = numbers[id(self.container[key])]
                if i in given:
                    raise TypeError("Multiple values for input: %s" % self.indices[i][0].variable)
                given[i] = value
        for i, container in enumerate(containers):
            if i in given:
                if container.implicit:
                    raise TypeError("Tried to provide value for implicit input: %s" % self.indices[i][0].variable)
            elif container.required:
                raise TypeError("Missing required input: %s" % self.indices[i][0].variable)
        for i, value in given.items():
            self._set_input(i, value)
        return subset

    def _output_numbers(self, subset):
        keys = self.output_keys
        numbers = []
        n_returned = len(self.output_storage) - len(self._updates)
        for item in subset:
            if keys is not None and item in keys:
                item = keys.index(item)
            if not isinstance(item, int) or not -n_returned <= item < n_returned:
                raise ValueError(
                    "output_subset: %r is not an output of this function; it has %s"
                    % (item, "the keys %s" % keys if keys is not None else "%d outputs" % n_returned)
                )
            numbers.append(item % n_returned)
        return numbers

    def _explain_failure(self):
        """Raise the current exception again, with a description of the failed node.

        Do nothing if the failed node is not known.
        """
        fn = self.fn
        position = getattr(fn, "position_of_error", -1)
        if position is None or position < 0 or not hasattr(fn, "thunks"):
            return
        link.raise_with_op(fn.nodes[position], fn.thunks[position], storage_map=getattr(fn, "storage_map", None))

    # Copies and pickles

    def __copy__(self):
        """Return a new function with the same maker. The stored values of mutable inputs are copied."""
        values = []
        for index, container, (required, _, _) in zip(self.indices, self.input_storage, self.defaults):
            spec = index[0]
            if isinstance(spec.value, link.Container):
                values.append(spec.value)
            elif required:
                values.append(None)
            else:
                current = container.storage[0]
                values.append(copy.copy(current) if spec.mutable else current)
        new = self.maker.create(values, trustme=True)
        new.trust_input, new.name = self.trust_input, self.name
        return new

    def copy(
        self,
        share_memory: bool = False,
        swap: dict[Variable, Variable] | None = None,
        delete_updates: bool = False,
        name: str | None = None,
        profile: Any = None,
    ) -> Function:
        """Return a copy of this function with a separate maker and graph. Nothing is rewritten or compiled again.

        Parameters
        ----------
        share_memory : bool
            Whether both functions share the cells of intermediate values. With ``allow_gc=False``, sharing the cells
            saves memory. Functions that share cells cannot run at the same time.
        swap : dict, optional
            Shared variable -> the shared variable that replaces it in the copy.
        delete_updates : bool
            If True, the copy has no updates.
        name : str, optional
            The name of the copy. By default, this function's name followed by " copy".
        profile : bool, str or ProfileStats, optional
            See the parameter `profile` of `function`.

        Returns
        -------
        Function
            The copy. It returns a list even if this function returns its single output without a list.

        Raises
        ------
        ValueError
            If a key of `swap` is not a shared variable of this function.
        TypeError
            If the two variables of a swap differ in type, or if the new variable is not a shared variable.
        """
        return copy_function(self, share_memory, swap, delete_updates, name, profile)

    def free(self) -> None:
        """Free the intermediate values that are kept between calls with ``allow_gc=False``."""
        storage_map = getattr(self.fn, "storage_map", None)
        if storage_map is not None:
            for variable, cell in storage_map.items():
                if variable.owner is not None and not isinstance(variable, Constant):
                    cell[0] = None
        for node in self.nodes_with_inner_function:
            # Prefer the InnerGraph to a single inner function: `InnerGraph.free` frees the functions for all modes.
            inner: Any = getattr(node.op, "inner_graph", None)
            if inner is None:
                inner = getattr(node.op, ops_with_inner_function[type(node.op)], None)
            if hasattr(inner, "free"):
                inner.free()

    def get_shared(self) -> list[SharedVariable]:
        """Return a list of the shared variables that this function reads or updates."""
        return [spec.variable for spec in self.maker.inputs if spec.implicit]

    def sync_shared(self) -> None:
        """Wait until the shared variables' values are up to date on their device."""
        for index, container in zip(self.indices, self.input_storage):
            if index[0].update is not None:
                sync = getattr(container.storage[0], "sync", None)
                if sync is not None:
                    sync()

    def __repr__(self) -> str:
        """Return a text with the name, inputs, outputs and updates, and the number of nodes."""
        if self.maker is None or not hasattr(self, "input_storage"):
            return object.__repr__(self)
        inputs = [str(i[0].variable) for i in self.indices if not i[0].implicit]
        updated = [str(i[0].variable) for i in self.indices if i[0].update is not None]
        outputs = [str(out.variable.type if out.variable.name is None else out.variable) for out in self.outputs]
        text = "<%s%s (%s) -> %s" % (
            type(self).__name__,
            # Omit the folders: the default name is the path and the line of the call that made the function.
            " " + os.path.basename(self.name) if self.name else "",
            _listed(inputs),
            "None" if self.return_none else _listed(outputs) if outputs else "nothing",
        )
        if updated:
            text += ", updates " + _listed(updated)
        return "%s; %d nodes>" % (text, len(self.maker.fgraph.apply_nodes))

    def __str__(self) -> str:
        return "<%s %s>" % (type(self).__name__, self.name) if self.name else object.__repr__(self)
