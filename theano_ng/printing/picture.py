"""The function `pydotprint`, which draws a graph with pydot and graphviz."""

import importlib
import logging
import os
import re
import shutil

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.utils import writable
from theano_ng.printing.graphs import contents, overwritten_inputs, shortened
from theano_ng.printing.overview import Overview

_logger = logging.getLogger("theano_ng.printing")

pydot_imported_msg = "Install the python package pydot or pydot-ng (pip install 'theano_ng[viz]'). Install graphviz."

# Part of the name of an Op's class, or the full text of an Op -> color. The first match wins.
DEFAULT_COLORS = {
    "GpuFromHost": "red",
    "HostFromGpu": "red",
    "Scan": "yellow",
    "Shape": "brown",
    "IfElse": "magenta",
    "Elemwise": "#FFAABB",
    "Subtensor": "purple",
    "Alloc": "orange",
    "Output": "blue",
}

_INPUT, _OUTPUT, _SHARED, _UNUSED = "green", "dodgerblue2", "cyan", "grey"


def import_pydot(failure=RuntimeError):
    """Return pydot or a fork of it.

    Parameters
    ----------
    failure : type
        The class of the exception that is raised if no such package is installed.
    """
    for name in ("pydot", "pydot_ng", "pydotplus"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise failure(
        "Failed to import pydot. You must install graphviz and either pydot or pydot-ng for `pydotprint` to work. "
        + pydot_imported_msg
    )


def pydot_available():
    """Return True if a pydot package can be imported and the program dot of graphviz is installed."""
    try:
        import_pydot()
    except RuntimeError:
        return False
    return shutil.which("dot") is not None


class _Picture:
    """The drawing of one graph."""

    def __init__(self, inputs, outputs, order, options):
        self.pydot = import_pydot()
        self.inputs = inputs
        self.outputs = outputs
        self.order = order
        self.options = options
        self.graph = self.pydot.Dot()
        self.names = {}
        self.labels = {}
        self.updates = set()

    def node(self, thing, label, shape, color, where=None):
        """Draw a node, and return its name in the picture.

        Variables with names share a node if their labels are equal.
        """
        key = thing
        if isinstance(thing, Variable) and thing.name is not None:
            key = label
        name = self.labels.get(key)
        if name is None:
            name = self.labels[key] = "n%d" % len(self.labels)
            attributes = {"label": self.quoted(label), "shape": shape}
            if color is not None:
                if self.options["high_contrast"]:
                    attributes.update(style="filled", fillcolor='"%s"' % color)
                else:
                    attributes.update(color='"%s"' % color)
            (self.graph if where is None else where).add_node(self.pydot.Node(name, **attributes))
        self.names[thing] = name
        return name

    @staticmethod
    def quoted(text):
        """Return a text quoted for Graphviz."""
        return '"%s"' % writable(text).replace("\\", "\\\\").replace('"', "'").replace("\n", "\\n")

    def variable_label(self, variable):
        options = self.options
        if variable.name is not None:
            text = variable.name
            if not options["var_with_name_simple"]:
                text += " " + str(variable.type)
        elif isinstance(variable, Constant):
            value = np.asarray(variable.data)
            text = "val=" + (str(value) if value.dtype != object else str(variable.data))
            if value.ndim:
                text += " " + str(variable.type)
        elif variable in self.inputs and not options["var_with_name_simple"]:
            text = "%d=%s" % (self.inputs.index(variable), variable.type)
        else:
            text = str(variable.type)
        if options["with_ids"]:
            text += " id=%d" % len(self.names)
        return shortened(text, options["max_label_size"])

    def apply_label(self, node, number):
        text = str(node.op).replace(":", "_")
        if self.options["with_ids"]:
            text += " id=%d" % number
        return shortened(text, self.options["max_label_size"])

    def apply_color(self, node):
        name = type(node.op).__name__
        for key, color in self.options["colors"].items():
            if key in name or key == str(node.op):
                return color
        return None

    def variable_color(self, variable):
        # Only shared variables have a container. Their class belongs to the higher layer `compile`, which this package
        # must not import.
        if hasattr(variable, "container") or variable in self.updates:
            return _SHARED
        if variable in self.outputs:
            return _OUTPUT
        if variable.owner is None:
            return None if isinstance(variable, Constant) else _INPUT
        return None

    def edge_style(self, node, index):
        """Return the attributes of the edge from the input with index `index` to the node.

        The edge is red if the node destroys the input, and blue if an output of the node is a view of the input.
        """
        color = {"destroyed": "red", "viewed": "blue"}.get(overwritten_inputs(node.op).get(index))
        return {"color": color} if color else {}

    def edge(self, start, end, label, style):
        attributes = dict(style)
        if label:
            attributes["label"] = '"%s"' % shortened(label, self.options["max_label_size"]).replace('"', "'")
        self.graph.add_edge(self.pydot.Edge(start, end, **attributes))

    def draw(self, clusters):
        used = {i for node in self.order for i in node.inputs} | set(self.outputs)
        for number, node in enumerate(self.order):
            where = clusters.get(node)
            apply_name = self.node(node, self.apply_label(node, number), "ellipse", self.apply_color(node), where)
            for index, x in enumerate(node.inputs):
                label = str(index) if len(node.inputs) > 1 else ""
                style = self.edge_style(node, index)
                if x not in self.names and (x.owner is None or x.owner not in self.names):
                    self.node(x, self.variable_label(x), "box", self.variable_color(x))
                if x in self.names:
                    self.edge(self.names[x], apply_name, label, style)
                else:
                    # A compact picture draws `x` as an edge from the Op that computes it to the Op that reads it.
                    self.edge(self.names[x.owner], apply_name, (label + " " + str(x.type)).strip(), style)
            for index, y in enumerate(node.outputs):
                label = str(index) if len(node.outputs) > 1 else ""
                if y in self.outputs:
                    self.node(y, self.variable_label(y), "box", self.variable_color(y), where)
                elif y not in used:
                    self.node(y, self.variable_label(y), "box", _UNUSED, where)
                elif y.name is not None or not self.options["compact"]:
                    self.node(y, self.variable_label(y), "box", None, where)
                else:
                    continue
                self.edge(apply_name, self.names[y], label, {})
        for variable in list(self.inputs) + list(self.outputs):
            if variable not in self.names and (variable.owner is None or variable in self.outputs):
                # The variable is an input that no node uses, or an output that no node of the picture computes.
                color = _UNUSED if variable not in used else self.variable_color(variable)
                self.node(variable, self.variable_label(variable), "box", color)


def _branches(order, highlight, picture):
    """Return a dict Apply -> cluster for the nodes in the branches of an IfElse node.

    The IfElse node is `highlight` if `highlight` is an Apply. Otherwise it is the first IfElse node in `order`.
    """
    lazy = [n for n in order if type(n.op).__name__ == "IfElse"]
    if isinstance(highlight, Apply):
        chosen = highlight
    elif lazy:
        chosen = lazy[0]
    else:
        _logger.warning("pydotprint: cond_highlight is set but there is no IfElse node in the graph")
        return {}
    count = (len(chosen.inputs) - 1) // 2

    def ancestors(variables):
        found, stack = set(), [v.owner for v in variables if v.owner is not None]
        while stack:
            node = stack.pop()
            if node not in found:
                found.add(node)
                stack.extend(i.owner for i in node.inputs if i.owner is not None)
        return found

    left, right = ancestors(chosen.inputs[1 : 1 + count]), ancestors(chosen.inputs[1 + count :])
    clusters = {
        name: picture.pydot.Cluster(name, label=name, color=color)
        for name, color in (("Left", "blue"), ("Right", "red"), ("Middle", "purple"))
    }
    for cluster in clusters.values():
        picture.graph.add_subgraph(cluster)
    result = {}
    for node in order:
        if node in left or node in right:
            result[node] = clusters["Middle" if node in left and node in right else "Left" if node in left else "Right"]
    return result


def pydotprint(
    fct,
    outfile=None,
    compact=True,
    format="png",
    with_ids=False,
    high_contrast=True,
    cond_highlight=None,
    colorCodes=None,
    max_label_size=70,
    scan_graphs=False,
    var_with_name_simple=False,
    print_output_file=True,
    return_image=False,
    most_ops=100,
):
    """Draw a graph into a file.

    Parameters
    ----------
    fct : compiled function, FunctionGraph, Variable, Apply or list of Variable
    outfile : str, optional
        Default: ``theano.pydotprint.<device>.<format>`` in ``config.compiledir``.
    compact : bool
        Whether to leave out intermediate variables that have no name.
    format : str
        Any output format of graphviz. ``'raw'`` is the text that graphviz reads, and does not need graphviz.
    with_ids : bool
        Whether to add to each Op its position in the order of execution, and to each variable a number.
    high_contrast : bool
        Whether to fill nodes with their color. If False, only the border has the color.
    cond_highlight : bool or Apply, optional
        If set, draw three frames around the Ops in the branches of an IfElse node: one frame for the Ops that only the
        left branch needs, one for the right branch, and one for Ops that both branches need. True selects the first
        IfElse node. An Apply selects that node.
    colorCodes : dict, optional
        Part of the name of an Op's class, or the full text of an Op -> color. Default colors apply to other Ops.
    max_label_size : int
        The maximum length of labels. Longer labels are cut.
    scan_graphs : bool
        Whether to also draw the inner graph of each loop into a separate file. The name of the loop and its position in
        the order of execution are added to the file name.
    var_with_name_simple : bool
        Whether to show only the name, not the type, of variables that have a name.
    print_output_file : bool
        Whether to print the path of the file.
    return_image : bool
        Whether to return the image instead of writing a file. The image is a str for ``'svg'``, and bytes otherwise.
    most_ops : int, optional
        The maximum number of Ops that are drawn one by one. None means no limit. A larger graph is drawn as an overview
        that fits on a screen. There, Ops that the same function or line of the user's program created may share a box,
        which lists them. If a function has several boxes, a frame encloses these boxes. A text above the picture gives
        the number of combined Ops. This text is also printed if `print_output_file` is True. The overview omits
        constants, intermediate variables, and all but a few inputs and outputs. If `cond_highlight` is set, there is no
        overview.

    Notes
    -----
    Ellipses are Ops, and boxes are variables: inputs are green, outputs blue, shared variables and their updates cyan,
    and unused variables grey. An edge is red if the Op destroys this input, and blue if an output is a view of it.

    Raises
    ------
    RuntimeError
        If pydot cannot be imported, or graphviz cannot be run.
    """
    graph = contents(fct)
    inputs, outputs, order = graph.inputs, graph.outputs, graph.nodes
    if outfile is None:
        outfile = os.path.join(config.compiledir, "theano.pydotprint.%s.%s" % (config.device, format))
    options = {
        "compact": compact,
        "with_ids": with_ids,
        "high_contrast": high_contrast,
        "max_label_size": max_label_size,
        "var_with_name_simple": var_with_name_simple,
        # The caller's colors come first, because the first match wins.
        "colors": {**(colorCodes or {}), **{k: v for k, v in DEFAULT_COLORS.items() if k not in (colorCodes or {})}},
    }
    picture = _Picture(inputs, outputs, order, options)
    picture.updates = graph.updates
    overview = None
    if most_ops is not None and len(order) > most_ops and not cond_highlight:
        overview = Overview(graph)
        overview.draw(picture)
    else:
        picture.draw(_branches(order, cond_highlight, picture) if cond_highlight else {})
    if return_image:
        image = _render(picture.graph, lambda: picture.graph.create(prog="dot", format=format))
        return image.decode("utf-8") if format == "svg" and isinstance(image, bytes) else image
    if not outfile.endswith("." + format):
        outfile += "." + format
    directory = os.path.dirname(outfile)
    if directory:
        os.makedirs(directory, exist_ok=True)
    _render(picture.graph, lambda: picture.graph.write(outfile, prog="dot", format=format))
    if print_output_file:
        print("The output file is available at", outfile)
        if overview is not None:
            print(overview.left_out() + "; most_ops=None draws everything")
    if scan_graphs:
        base, extension = os.path.splitext(outfile)
        for number, node in enumerate(order):
            inner = getattr(node.op, "fn", None) if type(node.op).__name__ == "Scan" else None
            if inner is None:
                continue
            # The name of a loop may contain characters that are not allowed in file names: replace them.
            loop = re.sub(r"[^\w.-]", "_", getattr(node.op, "name", None) or "scan")
            name = "%s_%s_%d%s" % (base, loop, number, extension)
            pydotprint(
                inner,
                name,
                compact,
                format,
                with_ids,
                high_contrast,
                cond_highlight,
                colorCodes,
                max_label_size,
                scan_graphs,
                var_with_name_simple,
                print_output_file,
                most_ops=most_ops,
            )
    return None


def _render(graph, action):
    """Call `action`, which runs graphviz, and convert its errors to RuntimeErrors.

    If graphviz cannot be run, the message names the packages to install.
    """
    try:
        return action()
    except OSError as error:
        raise RuntimeError("graphviz could not draw the graph (%s). %s" % (error, pydot_imported_msg)) from error
    except AssertionError as error:
        raise RuntimeError("graphviz could not draw the graph: %s" % error) from error


def pydotprint_variables(
    vars,
    outfile=None,
    format="png",
    depth=-1,
    high_contrast=True,
    colorCodes=None,
    max_label_size=50,
    var_with_name_simple=False,
):
    """Draw the graph of variables. `pydotprint` has more options.

    Parameters
    ----------
    vars : Variable or list of Variable
    outfile, format, high_contrast, colorCodes, max_label_size, var_with_name_simple
        For these parameters, see `pydotprint`.
    depth : int
        The number of levels of Ops to draw. -1 means all.
    """
    outputs = list(vars) if isinstance(vars, (list, tuple)) else [vars]
    if depth < 0:
        target = outputs
    else:
        target = FunctionGraph(_cut(outputs, depth), outputs, clone=True)
    pydotprint(
        target,
        outfile,
        True,
        format,
        False,
        high_contrast,
        None,
        colorCodes,
        max_label_size,
        False,
        var_with_name_simple,
    )


def _cut(outputs, depth):
    """Return the inputs of the picture: the graph inputs above level `depth`, and the variables at level `depth`."""
    level, cut, seen = list(outputs), [], set()
    for _ in range(depth):
        below = []
        for v in level:
            if v.owner is not None and v.owner not in seen:
                seen.add(v.owner)
                below.extend(v.owner.inputs)
            elif v.owner is None and not isinstance(v, Constant):
                cut.append(v)
        level = below
    cut.extend(v for v in level if not isinstance(v, Constant) and v.owner not in seen)
    return list(dict.fromkeys(cut))
