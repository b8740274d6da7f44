"""A graph, and the graphs inside its nodes, as plain records from which pictures are made."""

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

MOST_TEXT = 2000
"""Characters of the full name of an Op that are kept."""


@dataclass(frozen=True)
class Box:
    """A node of a picture.

    Attributes
    ----------
    kind : str
        ``'apply'``; of variables ``'input'``, ``'shared_input'``, ``'constant_input'``, ``'output'``, ``'unused'`` or ``'variable'``.
    label : str
    thing : Apply or Variable
    node_type : str
        Of a variable its type, of an Apply node the class of its Op.
    text : str
        The whole name of the Op, or what is known of the variable.
    frames : list
        Lines of the user's program, see `printing.graphs.user_frames`.
    drawing : int or None
        Number of the `Drawing` inside.
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
    """A value on its way from a box to another.

    Attributes
    ----------
    start, end : int
        Numbers of boxes.
    start_port, end_port : int or None
        Which output of an Apply node at the start, and which input of one at the end.
    label : str
    effect : str
        ``''``, ``'viewed'`` or ``'destroyed'``: what the node at the end does to it.
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
        Boxes of the graph's inputs and outputs.
    profile : ProfileStats or None
        Of the function that runs this graph, if it was measured.
    """

    boxes: list = field(default_factory=list)
    arrows: list = field(default_factory=list)
    inputs: list = field(default_factory=list)
    outputs: list = field(default_factory=list)
    profile: object = None


class Reader:
    """Reads graphs into drawings.

    Parameters
    ----------
    compact : bool
        Leave out intermediate variables without a name: an arrow leads from node to node.
    formulas : bool
        Elementwise Ops of several steps have a drawing of what they compute of one element.
    variable_label, type_label : callable
        The texts on variables and on arrows.
    """

    def __init__(self, compact, formulas, variable_label, type_label):
        self.compact = compact
        self.formulas = formulas
        self.variable_label = variable_label
        self.type_label = type_label

    def read(self, fct, who):
        """The drawings of a graph: its own first, then one for each graph inside. An Op that is used often has one drawing.

        Parameters
        ----------
        fct : object
            What `printing.graphs.contents` takes.
        who : str
            Named in errors.

        Returns
        -------
        list of Drawing
        """
        graphs = [contents(fct, who)]
        numbers = {}  # op -> number of its drawing, which keeps the op alive as long as it is known by its id
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
            drawings.append(self._drawing(graph, inside))
        return drawings

    def _drawing(self, graph, inside):
        drawing = Drawing(profile=graph.profile)
        places = {}
        inputs, outputs = dict.fromkeys(graph.inputs), dict.fromkeys(graph.outputs)
        used = {v for node in graph.nodes for v in node.inputs} | set(outputs)

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
            elif v in inputs or v.owner is None:
                kind = "input"
            else:
                kind = "output" if v in outputs else "variable"
            add(v, kind, self.variable_label(v), str(v.type), self._about(v, graph))

        for v in graph.inputs:
            add_variable(v)
        for node in graph.nodes:
            add(
                node,
                "apply",
                short_label(node.op),
                type(node.op).__name__,
                shortened(str(node.op), MOST_TEXT),
                inside[node],
            )
            here, effects = places[node], overwritten_inputs(node.op)
            for i, v in enumerate(node.inputs):
                if v not in places and (v.owner is None or v.owner not in places):
                    add_variable(v)
                start, port = (places[v], None) if v in places else (places[v.owner], v.index)
                label = self.type_label(v.type)
                if len(node.inputs) > 1:
                    label = "%d %s" % (i, label)
                drawing.arrows.append(Arrow(start, here, port, i, label, effects.get(i, "")))
            for i, v in enumerate(node.outputs):
                if v in inputs:
                    continue
                if v in outputs or v.name is not None and v in used or not self.compact:
                    add_variable(v)
                    label = self.type_label(v.type)
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
            except Exception as failure:  # the text of a value of somebody's type
                text = "a value without text (%s)" % type(failure).__name__
            return shortened(text, 400)
        if v in graph.updates:
            return "new value of %s" % graph.updates[v]
        return ""
