"""Node classes of expression graphs: `Apply`, `Variable`, `Constant`.

The graph algorithms of `traversal` are re-exported here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Self

from theano_ng.configdefaults import config
from theano_ng.gof import ports, utils
from theano_ng.gof.pickling import deepcopy_in_graph, reduce_in_graph
from theano_ng.gof.utils import MethodNotDefined, integer_types, object2, scratchpad, string_types

if TYPE_CHECKING:
    from theano_ng.gof.clients import Clients
    from theano_ng.gof.fg import FunctionGraph
    from theano_ng.gof.op.base import Op
    from theano_ng.gof.type.base import Type

__docformat__ = "restructuredtext en"

# Attributes that a FunctionGraph sets on its variables and nodes. Pickles leave them out.
_ANNOTATIONS = ("clients", "fgraph", "deps")


class _NoParams:
    """The class of `NoParams`, the params of a node whose Op has none. A process has one instance."""

    def __repr__(self) -> str:
        return "NoParams"

    def __reduce__(self) -> str:
        return "NoParams"

    def __deepcopy__(self, memo: dict[int, Any]) -> _NoParams:
        return self


NoParams = _NoParams()


class Drawable:
    """A base class of objects that notebooks show as a picture or as a text outline of a graph."""

    __slots__ = ()

    def _repr_svg_(self) -> str | None:
        """Return a picture of the graph for notebooks, as SVG.

        Return None for a variable that no node computes, or if Graphviz is not installed or fails.
        """
        return ports.graph_picture(self)

    def _repr_html_(self) -> str | None:
        """Return an outline of the graph for notebooks, in HTML.

        Return None for a variable that no node computes. Also return None if Graphviz is installed, because notebooks
        then show the picture.
        """
        return ports.graph_outline(self)


class Node(Drawable, object2):
    """A node of a graph.

    Variables are the data, and Apply nodes are the computations. The parent of a variable is its `owner`. The parents
    of an Apply node are its `inputs`. The children of a variable are its `clients`, which exist only inside a
    FunctionGraph. The children of an Apply node are its `outputs`.
    """

    def get_parents(self) -> list[Any]:
        """Return a new list of the parents of this node."""
        raise NotImplementedError("%s must define get_parents" % type(self).__name__)

    def __getstate__(self) -> Any:
        state = self.__dict__.copy()
        for name in _ANNOTATIONS:
            state.pop(name, None)
        return state

    def __copy__(self) -> Self:
        copy = self.__class__.__new__(self.__class__)
        copy.__dict__.update(self.__dict__)
        return copy


class Apply(Node):
    """The application of an Op to input variables, producing output variables.

    Parameters
    ----------
    op : Op
        The operation.
    inputs : list of Variable
        The arguments.
    outputs : list of Variable
        The results. The constructor sets their `owner` and `index`.

    Raises
    ------
    TypeError
        If `inputs` or `outputs` is not a list or tuple, or contains an element that is not a variable.
    ValueError
        If an output belongs to another node.
    """

    op: Op
    inputs: list[Variable]
    outputs: list[Variable]
    tag: Any
    # This attribute exists only inside a FunctionGraph.
    fgraph: FunctionGraph

    def __init__(self, op: Op, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        if not isinstance(inputs, (list, tuple)):
            raise TypeError("The inputs of an Apply must be a list or tuple, not %r" % (inputs,))
        if not isinstance(outputs, (list, tuple)):
            raise TypeError("The output of an Apply must be a list or tuple, not %r" % (outputs,))
        for variable in inputs:
            if not isinstance(variable, Variable):
                raise TypeError(
                    "The 'inputs' argument to Apply must contain Variable instances, not %r (op %s)" % (variable, op)
                )
        self.op = op
        self.inputs = list(inputs)
        self.outputs = outputs = list(outputs)
        self.tag = scratchpad()
        for i, output in enumerate(outputs):
            if not isinstance(output, Variable):
                raise TypeError(
                    "The 'outputs' argument to Apply must contain Variable instances with no owner, not %r (op %s)"
                    % (output, op)
                )
            if output.owner is None:
                output.owner = self
                output.index = i
            elif output.owner is not self or output.index != i:
                raise ValueError(
                    "All output variables passed to Apply must belong to it: output %d of %s is %s, which is output %s of"
                    " another node" % (i, op, output, output.index)
                )

    def run_params(self) -> Any:
        """Return the params of the node.

        Return NoParams if the Op of the node has no params: its `get_params` is not defined, or returns None.
        """
        try:
            params = self.op.get_params(self)
        except MethodNotDefined:
            return NoParams
        return NoParams if params is None else params

    def default_output(self) -> Variable:
        """Return the output that represents the node in expressions.

        Raises
        ------
        AttributeError
            If ``op.default_output`` is out of range, or if the Op does not define it and the node has several outputs.
        """
        do = getattr(self.op, "default_output", None)
        if do is None:
            if len(self.outputs) == 1:
                return self.outputs[0]
            raise AttributeError(
                "%s.default_output should be an output index: the node has %d outputs." % (self.op, len(self.outputs))
            )
        if not isinstance(do, integer_types):
            raise AttributeError("%s.default_output should be an int or long, not %r" % (self.op, do))
        if do < 0 or do >= len(self.outputs):
            raise AttributeError(
                "%s.default_output is out of range: %d of %d outputs." % (self.op, do, len(self.outputs))
            )
        return self.outputs[do]

    out = property(default_output, doc="Alias for self.default_output().")
    nin = property(lambda self: len(self.inputs), doc="Number of inputs.")
    nout = property(lambda self: len(self.outputs), doc="Number of outputs.")
    params_type = property(lambda self: self.op.params_type, doc="Type of the params.")

    def __str__(self) -> str:
        return op_as_string(self.inputs, self)

    def __repr__(self) -> str:
        return str(self)

    def clone(self) -> Apply:
        """Return a copy of this node with the same inputs and new outputs. Tags are copied."""
        cp = self.__class__(self.op, self.inputs, [output.clone() for output in self.outputs])
        cp.tag = self.tag.__copy__()
        return cp

    def clone_with_new_inputs(self, inputs: Sequence[Variable], strict: bool = True) -> Apply:
        """Return a copy of this node that has `inputs` in place of the current inputs.

        Parameters
        ----------
        inputs : list of Variable
        strict : bool
            If True, the types of the inputs must equal the current types or be convertible to them. The outputs then
            have the current types. If False, the types may differ: `op.make_node` is called, and it may fail.

        Returns
        -------
        Apply
            A node with the same op and new outputs.
        """
        new_inputs = list(inputs)
        if len(new_inputs) != len(self.inputs):
            raise ValueError("%s has %d inputs, got %d" % (self, len(self.inputs), len(new_inputs)))
        remake_node = False
        for i, (curr, new) in enumerate(zip(self.inputs, new_inputs)):
            if curr is not new and curr.type != new.type:
                if strict:
                    new_inputs[i] = curr.type.filter_variable(new)
                else:
                    remake_node = True
        if remake_node:
            new_node = self.op.make_node(*new_inputs)
            new_node.tag = self.tag.__copy__().__update__(new_node.tag)
        else:
            new_node = self.clone()
            new_node.inputs = new_inputs
        return new_node

    def get_parents(self) -> list[Variable]:
        return list(self.inputs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return reduce_in_graph(self, self, protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return deepcopy_in_graph(self, self, memo)


class Variable(Node):
    """A node that represents a value.

    Parameters
    ----------
    type : Type
        The type of the value.
    owner : Apply, optional
        The node that computes the value. None for an input or a constant.
    index : int, optional
        The position of the variable in ``owner.outputs``.
    name : str, optional
        A name for printing and debugging.

    Attributes
    ----------
    tag : scratchpad
        Annotations, such as ``test_value`` and ``trace``.
    clients : list
        ``(Apply, input index)`` or ``('output', output index)`` pairs. The attribute exists only inside a
        FunctionGraph.
    """

    __count__ = count(0)
    # Functions that are called with every new variable; see nodes_constructed.
    construction_observers: list[Callable[[Variable], Any]] = []

    type: Type
    owner: Apply | None
    index: int | None
    name: str | None
    tag: Any
    _auto_name: int | str
    # These attributes exist only inside a FunctionGraph.
    fgraph: FunctionGraph
    clients: Clients

    def __init__(
        self, type: Type, owner: Apply | None = None, index: int | None = None, name: str | None = None
    ) -> None:
        self.tag = scratchpad()
        self.type = type
        if owner is not None and not isinstance(owner, Apply):
            raise TypeError("owner must be an Apply instance, not %r" % (owner,))
        self.owner = owner
        if index is not None and not isinstance(index, integer_types):
            raise TypeError("index must be an int, not %r" % (index,))
        self.index = index
        if name is not None and not isinstance(name, string_types):
            raise TypeError("name must be a string, not %r" % (name,))
        self.name = name
        self._auto_name = next(Variable.__count__)
        if Variable.construction_observers:
            Variable.notify_construction_observers(self)

    @property
    def auto_name(self) -> str:
        """A name that is unique in the process."""
        auto = self._auto_name
        return auto if isinstance(auto, str) else "auto_%d" % auto

    @auto_name.setter
    def auto_name(self, name: int | str) -> None:
        self._auto_name = name

    @classmethod
    def append_construction_observer(cls, observer: Callable[[Variable], Any]) -> None:
        """Register `observer`, which is then called with every new variable."""
        Variable.construction_observers.append(observer)

    @classmethod
    def remove_construction_observer(cls, observer: Callable[[Variable], Any]) -> None:
        """Undo `append_construction_observer`."""
        Variable.construction_observers.remove(observer)

    @classmethod
    def notify_construction_observers(cls, instance: Variable) -> None:
        """Call the observers with a new variable."""
        for observer in list(Variable.construction_observers):
            observer(instance)

    def __str__(self) -> str:
        return self._label() + self._test_value_line()

    def _label(self) -> str:
        """Return the name.

        If there is no name, return the Op and the output index, or the type if there is no owner.
        """
        if self.name is not None:
            return self.name
        if self.owner is not None:
            op = self.owner.op
            if self.index == getattr(op, "default_output", None):
                return str(op) + ".out"
            return str(op) + "." + str(self.index)
        return "<%s>" % str(self.type)

    def read_test_value(self) -> Any:
        """Return the test value, converted by the variable's type.

        Raises
        ------
        AttributeError
            If there is no test value.
        """
        if hasattr(self.tag, "test_value"):
            try:
                return self.type.filter(self.tag.test_value)
            except Exception as e:
                detail = (
                    "For compute_test_value, one input test value does not have the requested type.\n"
                    "%s\nThe error when converting the test value to that variable type:"
                    % utils.get_variable_trace_string(self)
                )
                # Fall back to TypeError if the class of the exception does not accept a single string as its argument.
                try:
                    error = type(e)("\n".join([detail] + [str(arg) for arg in e.args]))
                except Exception:
                    error = TypeError("\n".join([detail, str(e)]))
                raise error from e
        # Do not use str(self): it reads the test value if config.print_test_value is on.
        text = self.__repr__(firstPass=False)  # type: ignore[call-arg]
        raise AttributeError("%s has no test value %s" % (text, utils.get_variable_trace_string(self)))

    def __repr_test_value__(self) -> str:
        """Return the repr of the test value. Raise AttributeError if there is none."""
        return repr(self.read_test_value())

    def _test_value_line(self) -> str:
        if config.print_test_value:
            try:
                return "\n" + self.__repr_test_value__()
            except Exception:
                pass  # the test value is missing or invalid; the code that uses it reports this
        return ""

    def __repr__(self, firstPass: bool = True) -> str:
        """Return the name, with a line for the test value if ``config.print_test_value`` and `firstPass` are true."""
        text = self._label() if type(self).__str__ is Variable.__str__ else str(self)
        return text + self._test_value_line() if firstPass else text

    def clone(self) -> Self:
        """Return a new variable of the same type without owner and index. The name and the tag are copied."""
        cp = self.__class__(self.type, None, None, self.name)
        cp.tag = self.tag.__copy__()
        return cp

    def get_parents(self) -> list[Apply]:
        return [self.owner] if self.owner is not None else []

    def eval(self, inputs_to_values: Mapping[Any, Any] | None = None) -> Any:
        """Evaluate this variable.

        Parameters
        ----------
        inputs_to_values : dict, optional
            Variable -> value.

        Notes
        -----
        The first call compiles a function. Later calls with the same variables reuse it. A function that you compile
        yourself has less overhead.

        Examples
        --------
        >>> import numpy as np
        >>> import theano_ng.tensor as T
        >>> x = T.dscalar('x')
        >>> y = T.dscalar('y')
        >>> z = x + y
        >>> np.allclose(z.eval({x: 16.3, y: 12.1}), 28.4)
        True
        """
        if inputs_to_values is None:
            inputs_to_values = {}
        cache = self.__dict__.setdefault("_fn_cache", {})
        inputs = tuple(sorted(inputs_to_values, key=id))
        if inputs not in cache:
            compile_function = (
                ports.compile_function.function
            )  # call the function itself: the stack frame of `Port.__call__` would change the default name
            cache[inputs] = compile_function(list(inputs), self)
        return cache[inputs](*[inputs_to_values[variable] for variable in inputs])

    def __getstate__(self) -> Any:
        state = Node.__getstate__(self)
        state.pop("_fn_cache", None)
        tag = state.get("tag")
        if hasattr(tag, "test_value") and not config.pickle_test_value:
            tag = state["tag"] = tag.__copy__()
            del tag.test_value
        return state

    def __reduce_ex__(self, protocol: Any) -> Any:
        return reduce_in_graph(self, self.owner, protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return deepcopy_in_graph(self, self.owner, memo)


class Constant(Variable):
    """A variable with a constant value.

    Parameters
    ----------
    type : Type
    data : object
        The value. The type's `filter` converts it.
    name : str, optional
    """

    def __init__(self, type: Type, data: Any, name: str | None = None) -> None:
        Variable.__init__(self, type, None, None, name)
        self._data = type.filter(data)
        utils.add_tag_trace(self)

    @property
    def data(self) -> Any:
        """The value. It can be set only once."""
        return self._data

    @data.setter
    def data(self, value: Any) -> None:
        if "_data" in self.__dict__:
            raise AttributeError("the data of a Constant cannot be changed; make a new Constant")
        self._data = value

    value = property(lambda self: self._data, doc="Read-only data access.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "data" in state:  # a pickle by Theano
            state = {"owner": None, "_data": state["data"], **state}
            del state["data"]
        self.__dict__.update(state)

    def read_test_value(self) -> Any:
        """Return the data: a constant is its own test value."""
        return self._data

    def equals(self, other: object) -> bool:
        """Return True if `other` is a constant of the same type and value."""
        return isinstance(other, Constant) and self.signature() == other.signature()

    def signature(self) -> Any:
        """Return the pair (type, data). The pairs of equal constants are equal."""
        return (self.type, self._data)

    def merge_signature(self) -> Any:
        """Return a key that is equal only for constants that may be merged."""
        # Include the Python type: 1 == 1.0 == True, but the result of an Op may depend on the type.
        signature = (self.signature(), type(self._data))
        try:
            hash(signature)
        except TypeError:  # unhashable data is usually mutable, so its equality may change at any time
            return (self.type, "not hashable", id(self._data))
        return signature

    def __str__(self) -> str:
        if self.name is not None:
            return self.name
        name = str(self._data)
        if len(name) > 20:
            name = name[:10] + "..." + name[-10:]
        return "Constant{%s}" % name

    def clone(self) -> Self:
        """Return a copy that shares the data. The constructor does not filter the data again."""
        cp = self.__class__.__new__(self.__class__)
        state = self.__dict__
        cp.__dict__.update(state)
        for name in ("clients", "fgraph", "cached", "_fn_cache"):
            if name in state:
                del cp.__dict__[name]
        cp._auto_name = next(Variable.__count__)
        cp.tag = self.tag.__copy__()
        if Variable.construction_observers:
            Variable.notify_construction_observers(cp)
        return cp


@contextlib.contextmanager
def nodes_constructed() -> Iterator[list[Variable]]:
    """Return a context manager that records the variables created inside it.

    Yields
    ------
    list of Variable
        Each new variable is appended to it.
    """
    new_nodes: list[Variable] = []
    observer = new_nodes.append
    Variable.append_construction_observer(observer)
    try:
        yield new_nodes
    finally:
        Variable.remove_construction_observer(observer)


# Import the algorithms of `traversal`, because the documentation lists them as members of this module.
from theano_ng.gof.traversal import (  # noqa: E402, see above
    ancestors,
    as_string,
    clone,
    clone_get_equiv,
    default_leaf_formatter,
    default_node_formatter,
    equal_computations,
    general_toposort,
    inputs,
    io_connection_pattern,
    io_toposort,
    is_in_ancestors,
    is_same_graph,
    list_of_nodes,
    op_as_string,
    ops,
    orphans,
    stack_search,
    variables,
    variables_and_orphans,
    view_roots,
)

__all__ = [
    "Apply",
    "Constant",
    "Node",
    "NoParams",
    "Variable",
    "ancestors",
    "as_string",
    "clone",
    "clone_get_equiv",
    "config",
    "default_leaf_formatter",
    "default_node_formatter",
    "equal_computations",
    "general_toposort",
    "inputs",
    "integer_types",
    "io_connection_pattern",
    "io_toposort",
    "is_in_ancestors",
    "is_same_graph",
    "list_of_nodes",
    "nodes_constructed",
    "op_as_string",
    "ops",
    "orphans",
    "stack_search",
    "string_types",
    "variables",
    "variables_and_orphans",
    "view_roots",
]
