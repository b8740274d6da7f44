"""The records of which a generated program consists.

They contain only names, numbers and strings, so that programs can be compared, pickled, printed and reduced.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Input:
    """A variable whose value the caller passes.

    Attributes
    ----------
    name, dtype : str
    broadcastable : tuple of bool
    shape : tuple of int
    values : tuple
        All elements as Python numbers, in C order.
    form : str
        The memory layout: a key of `forms.FORMS`.
    role : {"argument", "mutable", "shared"}
        The function may overwrite a mutable argument. A shared variable is not an argument.
    same_as : str or None
        The name of another input whose array is also passed for this input.
    """

    name: str
    dtype: str
    broadcastable: tuple
    shape: tuple
    values: tuple
    form: str = "contiguous"
    role: str = "argument"
    same_as: str | None = None


@dataclass(frozen=True)
class Body:
    """The inner graph of a node: the step of a loop, or the graph of an OpFromGraph.

    Attributes
    ----------
    inputs : tuple of str
        Names of the parameters.
    nodes : tuple of Node
    outputs : tuple of str
    """

    inputs: tuple
    nodes: tuple
    outputs: tuple


@dataclass(frozen=True)
class Node:
    """One application of an operation.

    Attributes
    ----------
    name : str
        The name of the result. A result may be a list. Then `item` nodes select its elements.
    operation : str
        A key of `operations.OPERATIONS`.
    operands : tuple of str
        Names of inputs and of earlier nodes.
    parameters : tuple of (str, object)
        Pairs of a name and a value, for the named fields of the operation's templates.
    body : Body or None
    dtype : str
        The dtype of the result. Empty if the result is a list.
    rounding : str
        The least precise dtype that the original graph computes between operands and result. Empty if it computes none.
    """

    name: str
    operation: str
    operands: tuple
    parameters: tuple = ()
    body: Body | None = None
    dtype: str = ""
    rounding: str = ""


@dataclass(frozen=True)
class Program:
    """A graph, its outputs, updates and derivatives, and the values of its inputs.

    Attributes
    ----------
    inputs : tuple of Input
    nodes : tuple of Node
        The nodes in topological order.
    outputs : tuple of str
    updates : tuple of (str, str)
        Pairs of names: a shared variable, and the variable that is its new value after each call.
    derivative : {None, "gradient", "second", "Rop"}
        The kind of derivative that is computed in addition to the outputs, with respect to the float inputs.
    smooth : bool
        Whether the derivatives are compared with finite differences.
    special : bool
        Whether inputs may contain NaN, infinities, zeros of both signs, and extreme values.
    borrow : bool
        Whether outputs are borrowed.
    calls : int
        The number of consecutive calls of the function with these values.
    resized : (str, int, int) or None
        An input, an axis and a new length of this axis. The function is called with the new length, which may not fit
        the other inputs.
    """

    inputs: tuple
    nodes: tuple
    outputs: tuple
    updates: tuple = ()
    derivative: str | None = None
    special: bool = False
    borrow: bool = False
    calls: int = 1
    resized: tuple | None = None
    smooth: bool = True


def all_nodes(nodes):
    """Return a list of the nodes, each followed by the nodes of its body."""
    found = []
    for node in nodes:
        found.append(node)
        if node.body is not None:
            found.extend(all_nodes(node.body.nodes))
    return found


def needed(program):
    """Return the program without the nodes and inputs that no output, update or shared argument needs."""
    wanted = {*program.outputs, *[name for _, name in program.updates], *[name for name, _ in program.updates]}
    kept = []
    for node in reversed(program.nodes):
        if node.name in wanted:
            kept.append(node)
            wanted.update(node.operands)
    wanted.update([one.same_as for one in program.inputs if one.name in wanted and one.same_as])
    inputs = tuple([one for one in program.inputs if one.name in wanted])
    return Program(**{**vars(program), "inputs": inputs, "nodes": tuple(reversed(kept))})
