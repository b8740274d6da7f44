"""The class `PyDotFormatter`, which makes graphs for Graphviz, and functions for the texts of pictures."""

import re

from theano_ng.gof.utils import writable
from theano_ng.moved import no_attribute
from theano_ng.printing.drawing import Reader, broadcastable_to_str, dtype_to_char, type_to_str, var_label
from theano_ng.printing.graphs import user_frames
from theano_ng.printing.picture import import_pydot, pydot_available, pydot_imported_msg

__all__ = [
    "PyDotFormatter",
    "apply_label",
    "apply_profile",
    "broadcastable_to_str",
    "dict_to_pdnode",
    "dtype_to_char",
    "pydot_imported_msg",
    "type_to_str",
    "var_label",
    "var_tag",
]


def __getattr__(name):
    if name == "pydot_imported":
        return pydot_available()
    raise no_attribute(__name__, name)


class PyDotFormatter:
    """A converter from graphs of this package to pydot graphs.

    Parameters
    ----------
    compact : bool
        Whether to leave out intermediate variables that have no name.

    Attributes
    ----------
    node_colors : dict
        Kind of a variable (``'input'``, ``'constant_input'``, ``'shared_input'``, ``'output'``, ``'unused'``) -> color.
    apply_colors : dict
        Part of the name of an Op's class -> color of the Op's nodes. The first match wins.
    shapes : dict
        ``'input'``, ``'output'`` or ``'apply'`` -> Graphviz's name of the shape.

    Notes
    -----
    All three attributes may be changed before the formatter is called. They also apply to the pages of `d3viz`.
    """

    def __init__(self, compact=True):
        self.compact = compact
        self.node_colors = {
            "input": "limegreen",
            "constant_input": "SpringGreen",
            "shared_input": "YellowGreen",
            "output": "dodgerblue",
            "unused": "lightgrey",
        }
        self.apply_colors = {
            "GpuFromHost": "red",
            "HostFromGpu": "red",
            "Scan": "yellow",
            "Shape": "cyan",
            "IfElse": "magenta",
            "Elemwise": "#FFAABB",
            "Subtensor": "#FFAAFF",
            "Alloc": "#FFAA22",
        }
        self.shapes = {"input": "box", "output": "box", "apply": "ellipse"}

    def describe(self, fct, formulas=False, who="PyDotFormatter"):
        """Return the graph as records of its boxes and arrows. This does not need pydot.

        Parameters
        ----------
        fct : compiled function, FunctionGraph, Variable, Apply or list of Variable
        formulas : bool
            Whether to also describe the scalar graphs of elementwise Ops that consist of several scalar Ops.
        who : str
            The name of the caller, for error messages.

        Returns
        -------
        list of Drawing
            The graph, and then the graphs inside its nodes.
        """
        return Reader(self.compact, formulas).read(fct, who)

    def color(self, box):
        """Return the color of a box. Return None if it has no color.

        Parameters
        ----------
        box : Box
        """
        if box.kind != "apply":
            return self.node_colors.get(box.kind)
        for part, color in self.apply_colors.items():
            if part in box.node_type:
                return color
        return None

    def __call__(self, fct, graph=None):
        """Make a pydot graph.

        Parameters
        ----------
        fct : compiled function, FunctionGraph, Variable, Apply or list of Variable
        graph : pydot.Dot, optional
            A graph to which the nodes are added.

        Returns
        -------
        pydot.Dot
            The graph. Graphs inside nodes (OpFromGraph, Scan) are clusters. Three attributes link such a node to its
            cluster: ``subg`` is the name of the cluster. ``subg_map_inputs`` and ``subg_map_outputs`` are lists of
            pairs of corresponding nodes outside and inside of the cluster.

        Raises
        ------
        ImportError
            If pydot is missing.
        ValueError
            If `fct` is an object of another type.
        """
        pydot = import_pydot(ImportError)
        drawings = self.describe(fct)
        if graph is None:
            graph = pydot.Dot()
        todo = [(drawings[0], "n", graph)]
        while todo:
            drawing, prefix, where = todo.pop()
            names = ["%s%d" % (prefix, i + 1) for i in range(len(drawing.boxes))]
            arriving = {(a.end, a.end_port): a.start for a in drawing.arrows if a.end_port is not None}
            leaving = {(a.start, a.start_port): a.end for a in reversed(drawing.arrows) if a.start_port is not None}
            inner = []
            for i, box in enumerate(drawing.boxes):
                attributes = self._attributes(box, names[i], drawing.profile)
                if box.drawing is not None:
                    inside = drawings[box.drawing]
                    attributes["subg"] = "cluster_" + names[i]
                    below = names[i] + "_"
                    attributes["subg_map_inputs"] = str(
                        [
                            [names[arriving[i, k]], "%s%d" % (below, b + 1)]
                            for k, b in enumerate(inside.inputs)
                            if (i, k) in arriving
                        ]
                    )
                    attributes["subg_map_outputs"] = str(
                        [
                            ["%s%d" % (below, b + 1), names[leaving[i, k]]]
                            for k, b in enumerate(inside.outputs)
                            if (i, k) in leaving
                        ]
                    )
                    cluster = pydot.Cluster(names[i], label=_quoted(box.label))
                    inner.append((cluster, (inside, below, cluster)))
                where.add_node(dict_to_pdnode(attributes))
            for arrow in drawing.arrows:
                style = {"color": {"viewed": "dodgerblue", "destroyed": "red"}[arrow.effect]} if arrow.effect else {}
                where.add_edge(pydot.Edge(names[arrow.start], names[arrow.end], label=_quoted(arrow.label), **style))
            for cluster, work in inner:
                where.add_subgraph(cluster)
                todo.append(work)
        return graph

    def _attributes(self, box, name, profile):
        shape = self.shapes["apply" if box.kind == "apply" else "output" if box.kind == "output" else "input"]
        found = {"name": name, "label": box.label, "node_type": box.kind, "shape": shape}
        if box.kind == "apply":
            found.update(apply_op=box.node_type, profile=apply_profile(box.thing, profile))
        else:
            found.update(dtype=type_to_str(box.thing.type), tag=var_tag(box.thing))
        color = self.color(box)
        if color is not None:
            found.update(fillcolor=color, style="filled")
            if box.kind == "apply":
                found["type"] = "colored"
        return found


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z|-?[0-9]+(\.[0-9]+)?\Z")
_WORDS = frozenset("node edge graph digraph subgraph strict".split())


def _quoted(text):
    """Return a text, quoted for Graphviz if necessary."""
    text = writable(str(text))
    if _PLAIN.match(text) and text.lower() not in _WORDS:
        return text
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", " ").replace("\n", "\\n")


def dict_to_pdnode(d):
    """Return a pydot node with attributes from a dict. None values are omitted, and items of lists are joined by tabs.

    Parameters
    ----------
    d : dict
        The attributes. The attribute ``'name'`` is the name of the node.

    Returns
    -------
    pydot.Node
    """
    attributes = {}
    for key, value in d.items():
        if value is not None:
            attributes[key] = _quoted("\t".join(map(str, value)) if isinstance(value, (list, tuple)) else value)
    return import_pydot(ImportError).Node(**attributes)


def var_tag(var):
    """Return the place in the program where a variable was created: a list of file, line, function and source text.

    Return None if the place is not known. The source text is omitted if it is not known.
    """
    frames = user_frames(var)
    return [str(part) for part in frames[-1] if part is not None] if frames else None


def apply_label(node):
    """Return the class name of a node's Op."""
    return type(node.op).__name__


def apply_profile(node, profile):
    """Return the total seconds spent in a node, and the total seconds spent in calls of the function that contains it.

    Return None if there is no profile, or if the profile contains no call.

    Parameters
    ----------
    node : Apply
    profile : ProfileStats or None

    Returns
    -------
    list of two float, or None
    """
    if not profile or not profile.fct_callcount and not profile.apply_time:
        return None
    return [profile.apply_time.get(node, 0.0), profile.fct_call_time]
