"""The records that a generated program consists of. They hold names, numbers and texts only, so that a program can be compared, pickled, printed and reduced."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Input:
    """A variable that the caller gives a value.

    Attributes
    ----------
    name, dtype : str
    broadcastable : tuple of bool
    shape : tuple of int
    values : tuple
        All elements as Python numbers, in C order.
    form : str
        The layout in memory: a key of `forms.FORMS`.
    role : {"argument", "mutable", "shared"}
        A mutable argument may be overwritten by the function; a shared variable is not an argument.
    same_as : str or None
        The name of an input whose very array is passed for this one, too.
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
    """A graph inside a node: the step of a loop, or the graph of an OpFromGraph.

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
        Of the result; a result may be a list, of which `item` nodes take elements.
    operation : str
        A key of `operations.OPERATIONS`.
    operands : tuple of str
        Names of inputs and of earlier nodes.
    parameters : tuple of (str, object)
        What fills the other fields of the operation's templates.
    body : Body or None
    dtype : str
        Of the result; empty where that is a list.
    rounding : str
        The least precise dtype of floats that the graph as it was written computes on the way from the operands; empty where there is none.
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
    """A graph, what is asked of it, and the values that it is called with.

    Attributes
    ----------
    inputs : tuple of Input
    nodes : tuple of Node
        In an order in which they can be computed.
    outputs : tuple of str
    updates : tuple of (str, str)
        Shared variables, and their values after each call.
    derivative : {None, "gradient", "second", "Rop"}
        What is computed beside the outputs, by the inputs of floats.
    special : bool
        Whether inputs hold NaN, infinities, zeros of both signs, extremes.
    borrow : bool
        Whether outputs are lent.
    calls : int
        How often the function is called in a row with these values.
    """

    inputs: tuple
    nodes: tuple
    outputs: tuple
    updates: tuple = ()
    derivative: str | None = None
    special: bool = False
    borrow: bool = False
    calls: int = 1


def all_nodes(nodes):
    """The nodes, each followed by those of its body."""
    found = []
    for node in nodes:
        found.append(node)
        if node.body is not None:
            found.extend(all_nodes(node.body.nodes))
    return found


def needed(program):
    """The program without nodes and inputs that no output and no update needs. Arguments whose arrays others share stay."""
    wanted = {*program.outputs, *[name for _, name in program.updates], *[name for name, _ in program.updates]}
    kept = []
    for node in reversed(program.nodes):
        if node.name in wanted:
            kept.append(node)
            wanted.update(node.operands)
    wanted.update([one.same_as for one in program.inputs if one.name in wanted and one.same_as])
    inputs = tuple([one for one in program.inputs if one.name in wanted])
    return Program(**{**vars(program), "inputs": inputs, "nodes": tuple(reversed(kept))})
