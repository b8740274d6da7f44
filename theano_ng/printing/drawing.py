"""Records of the boxes and arrows of a graph, and of the graphs inside its nodes. The records are drawn as pictures."""

from dataclasses import dataclass, field

import numpy as np

from theano_ng.gof.graph import Constant
from theano_ng.printing.graphs import (
    contents,
    inner_graph,
    is_shared,
    overwritten_inputs,
    short_label,
    shortened,
    user_frames,
)

_CHARS = {
    "complex64": "c",
    "complex128": "z",
    "float32": "f",
    "float64": "d",
    "int8": "b",
    "int16": "w",
    "int32": "i",
    "int64": "l",
}


def dtype_to_char(dtype):
    """Return the letter of a dtype in names such as dmatrix. Return X if the dtype has no letter."""
    return _CHARS.get(str(dtype), "X")


_SHAPES = {(): "scalar", (False,): "vector", (False, True): "col", (True, False): "row", (False, False): "matrix"}


def broadcastable_to_str(b):
    """Return the name of a broadcast pattern, such as vector or row. Return an empty text if it has no name."""
    return _SHAPES.get(tuple(b), "")


def type_to_str(t):
    """Return a short text for a type.

    Parameters
    ----------
    t : Type

    Returns
    -------
    str

    Examples
    --------
    >>> from theano_ng import tensor
    >>> type_to_str(tensor.dmatrix), type_to_str(tensor.TensorType("float16", (False,))), type_to_str(tensor.ftensor3)
    ('dmatrix', 'float16 vector', 'float32 3D')
    """
    dtype, pattern = getattr(t, "dtype", None), getattr(t, "broadcastable", None)
    if dtype is None or pattern is None or hasattr(t, "format"):
        return str(t)
    shape, char = broadcastable_to_str(pattern), dtype_to_char(dtype)
    if not shape:
        return "%s %dD" % (dtype, len(pattern))
    return "%s %s" % (dtype, shape) if char == "X" else char + shape


def var_label(var, precision=3):
    """Return the label of a variable: its name, or else the value of a constant, or else its type.

    Parameters
    ----------
    var : Variable
    precision : int
        The number of digits after the decimal point.
    """
    if var.name is not None:
        return var.name
    if isinstance(var, Constant):
        try:
            value = np.asarray(var.data)
            if value.dtype != object:
                lines = np.array2string(value, precision=precision, threshold=8, edgeitems=2).split("\n")
                return lines[0] + (" ..." if len(lines) > 1 else "")
        except (TypeError, ValueError):
            pass  # a user's Type may have values that NumPy cannot convert
        return str(var.data)[:40]
    return type_to_str(var.type)


MAX_TEXT = 2000
"""The maximum length of the text that shows the full name of an Op."""


@dataclass(frozen=True)
class Box:
    """A node of a picture.

    Attributes
    ----------
    kind : str
        ``'apply'`` for an Apply node. For a variable, ``'input'``, ``'shared_input'``, ``'constant_input'``,
        ``'output'``, ``'unused'`` or ``'variable'``.
    label : str
    thing : Apply or Variable
    node_type : str
        The type of a variable, or the class name of a node's Op.
    text : str
        The full name of the Op, or the value of a constant. For the new value of a shared variable, a text with the
        name of this shared variable. Empty for other variables.
    frames : list
        The lines of the user's program that created `thing`; see `printing.graphs.user_frames`.
    drawing : int or None
        The index of the `Drawing` of the graph inside the node. None if the node has no inner graph.
    """

    kind: str
    label: str
    thing: object
    node_type: str
    text: str
    frames: list
    drawing: int | None = None


@dataclass(frozen=True)
class Arrow:
    """An arrow from one box to another: a value that a node reads or computes.

    Attributes
    ----------
    start, end : int
        The indices of the boxes.
    start_port : int or None
        The index of the node's output, if an Apply node is at the start.
    end_port : int or None
        The index of the node's input, if an Apply node is at the end.
    label : str
    effect : str
        ``'destroyed'`` if the node at the end overwrites the value. ``'viewed'`` if an output of this node is a view of
        the value. Otherwise ``''``.
    """

    start: int
    end: int
    start_port: int | None
    end_port: int | None
    label: str
    effect: str = ""


@dataclass
class Drawing:
    """The picture of one graph.

    Attributes
    ----------
    boxes : list of Box
    arrows : list of Arrow
    inputs, outputs : list of int
        The indices of the boxes of the graph's inputs and outputs.
    profile : ProfileStats or None
        The profile of the function that runs this graph, if there is one.
    """

    boxes: list = field(default_factory=list)
    arrows: list = field(default_factory=list)
    inputs: list = field(default_factory=list)
    outputs: list = field(default_factory=list)
    profile: object = None


class Reader:
    """A converter from graphs to drawings.

    Parameters
    ----------
    compact : bool
        Whether to leave out intermediate variables that have no name. Arrows then connect the nodes directly.
    formulas : bool
        Whether to also draw the scalar graph of each elementwise Op that consists of several scalar Ops.
    """

    def __init__(self, compact, formulas=False):
        self.compact = compact
        self.formulas = formulas

    def read(self, fct, who):
        """Return the drawings of a graph: first the drawing of the graph itself, then one for each graph inside a node.

        All nodes of an Op share one drawing of the graph inside the Op.

        Parameters
        ----------
        fct : object
            An object that `printing.graphs.contents` accepts.
        who : str
            The name of the caller, for error messages.

        Returns
        -------
        list of Drawing
        """
        graphs = [contents(fct, who)]
        numbers = {}  # id of an op -> (op, index of its drawing); the reference to the op keeps its id valid
        drawings = []
        while len(drawings) < len(graphs):
            graph = graphs[len(drawings)]
            inside = {}
            for node in graph.nodes:
                key = id(node.op)
                if key not in numbers:
                    inner = inner_graph(node.op, self.formulas)
                    numbers[key] = (node.op, None if inner is None else len(graphs))
                    if inner is not None:
                        graphs.append(contents(inner, who))
                inside[node] = numbers[key][1]
            drawings.append(self.drawing(graph, graph.nodes, inside))
        return drawings

    def drawing(self, graph, nodes, inside=None):
        """Return the drawing of one graph, or of a part of it.

        Parameters
        ----------
        graph : Contents
        nodes : list of Apply
            The nodes of the graph to draw, in order. Variables that other nodes compute are drawn as inputs.
        inside : dict, optional
            Node -> index of the drawing of the graph inside the node. None if the node has no inner graph.

        Returns
        -------
        Drawing
        """
        inside = {} if inside is None else inside
        drawing = Drawing(profile=graph.profile)
        places = {}
        drawn = set(nodes)
        inputs, outputs = dict.fromkeys(graph.inputs), dict.fromkeys(graph.outputs)
        used = {v for node in graph.nodes for v in node.inputs} | set(outputs)
        if len(drawn) < len(graph.nodes):
            # Leave out graph inputs that only undrawn nodes read.
            read = {v for node in nodes for v in node.inputs} | set(outputs)
            graph = graph._replace(inputs=[v for v in graph.inputs if v in read or v not in used])

        def add(thing, kind, label, node_type, text, number=None):
            places[thing] = len(drawing.boxes)
            drawing.boxes.append(Box(kind, label, thing, node_type, text, user_frames(thing), number))

        def add_variable(v):
            if v not in used:
                kind = "unused"
            elif isinstance(v, Constant):
                kind = "constant_input"
            elif v in graph.shared or is_shared(v):
                kind = "shared_input"
            elif v in inputs or v.owner is None or v.owner not in drawn:
                kind = "input"
            else:
                kind = "output" if v in outputs else "variable"
            add(v, kind, var_label(v), str(v.type), self._about(v, graph))

        for v in graph.inputs:
            add_variable(v)
        for node in nodes:
            add(
                node,
                "apply",
                short_label(node.op),
                type(node.op).__name__,
                shortened(str(node.op), MAX_TEXT),
                inside.get(node),
            )
            here, effects = places[node], overwritten_inputs(node.op)
            for i, v in enumerate(node.inputs):
                if v not in places and (v.owner is None or v.owner not in places):
                    add_variable(v)
                start, port = (places[v], None) if v in places else (places[v.owner], v.index)
                label = type_to_str(v.type)
                if len(node.inputs) > 1:
                    label = "%d %s" % (i, label)
                drawing.arrows.append(Arrow(start, here, port, i, label, effects.get(i, "")))
            for i, v in enumerate(node.outputs):
                if v in inputs:
                    continue
                if v in outputs or v.name is not None and v in used or not self.compact:
                    add_variable(v)
                    label = type_to_str(v.type)
                    if len(node.outputs) > 1:
                        label = "%d %s" % (i, label)
                    drawing.arrows.append(Arrow(here, places[v], i, None, label))
        for v in graph.outputs:
            if v not in places:
                add_variable(v)
        drawing.inputs = [places[v] for v in graph.inputs]
        drawing.outputs = [places[v] for v in graph.outputs]
        return drawing

    @staticmethod
    def _about(v, graph):
        if isinstance(v, Constant):
            try:
                value = np.asarray(v.data)
                text = np.array2string(value, threshold=20, edgeitems=3) if value.dtype != object else repr(v.data)
            except Exception as failure:  # for example, `__repr__` of a user's class failed
                text = "a value that cannot be printed (%s)" % type(failure).__name__
            return shortened(text, 400)
        if v in graph.updates:
            return "new value of %s" % graph.updates[v]
        return ""
