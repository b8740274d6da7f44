"""The display of graphs in notebooks: a picture if Graphviz is installed, otherwise an outline in HTML."""

import functools
import html as html_module
import re
import shutil
import subprocess

from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.printing.drawing import Reader, type_to_str, var_label
from theano_ng.printing.graphs import contents, short_label, shortened

MAX_OPS = 60
"""The maximum number of Ops in a picture. Of a larger graph, the part nearest to the outputs is drawn."""

MAX_LINES = 300
"""The maximum number of lines of an outline."""

MAX_LEVELS = 60
"""The maximum nesting depth of an outline."""

COLORS = {
    "input": "#d3f2c8",
    "shared_input": "#e9f2b8",
    "constant_input": "#ccf5e1",
    "output": "#cfe6ff",
    "unused": "#eeeeee",
    "variable": "#ffffff",
    "apply": "#fdebd8",
}


@functools.cache
def _dot():
    return shutil.which("dot")


def _is_leaf(thing):
    """Return True if `thing` is a variable that no node computes. Such a variable has no graph to show."""
    return isinstance(thing, Variable) and thing.owner is None


def svg(thing):
    """Return a picture of a graph, at most as wide as the page.

    Parameters
    ----------
    thing : Function, FunctionGraph, Variable or Apply

    Returns
    -------
    str or None
        The source of the SVG. None for a variable without a graph, or if Graphviz is missing or fails.
    """
    if _is_leaf(thing) or _dot() is None:
        return None
    try:
        text = subprocess.run(
            [_dot(), "-Tsvg"], input=_dot_text(thing), capture_output=True, encoding="utf-8", timeout=20, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    # Make the width one pixel for each point, but at most the width of the page.
    return re.sub(
        r'<svg width="(\d+)pt" height="\d+pt"',
        r'<svg style="width:\1px;max-width:100%;height:auto"',
        text[text.index("<svg") :],
        count=1,
    )


def _nearest(graph, most):
    """Return the nodes of a graph that are nearest to the outputs, at most `most` nodes, in the order of the graph."""
    if len(graph.nodes) <= most:
        return graph.nodes
    kept = {}
    level = dict.fromkeys(v.owner for v in graph.outputs if v.owner is not None)
    while level and len(kept) < most:
        kept.update(dict.fromkeys(list(level)[: most - len(kept)]))
        below = (v.owner for node in level for v in node.inputs if v.owner is not None)
        level = {node: None for node in below if node not in kept}
    return [node for node in graph.nodes if node in kept]


def _quoted(text):
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"%s"' % "".join(c if c.isprintable() else " " for c in text)


def _dot_text(thing):
    """Return the picture as text in the language of Graphviz."""
    graph = contents(thing, "the picture")
    kept = _nearest(graph, MAX_OPS)
    left_out = len(graph.nodes) - len(kept)
    drawing = Reader(compact=True).drawing(graph, kept)
    lines = [
        "digraph {",
        'graph [bgcolor="transparent", ranksep=0.3, nodesep=0.2];',
        'node [fontname="Helvetica", fontsize=11, style=filled, height=0.3, margin="0.08,0.03", color="#57636f"];',
        'edge [fontname="Helvetica", fontsize=9, arrowsize=0.6, color="#57636f", fontcolor="#57636f"];',
    ]
    for i, box in enumerate(drawing.boxes):
        shape = "ellipse" if box.kind == "apply" else "box"
        if left_out and box.kind != "apply" and box.thing.owner is not None and box.thing.owner not in kept:
            shape = "note"
        lines.append(
            "n%d [label=%s, shape=%s, fillcolor=%s, tooltip=%s];"
            % (
                i,
                _quoted(shortened(box.label, 40)),
                shape,
                _quoted(COLORS[box.kind]),
                _quoted(box.text or box.node_type),
            )
        )
    for arrow in drawing.arrows:
        color = {"viewed": ', color="dodgerblue"', "destroyed": ', color="red"'}.get(arrow.effect, "")
        lines.append("n%d -> n%d [label=%s%s];" % (arrow.start, arrow.end, _quoted(arrow.label), color))
    if left_out:
        lines.append(
            'graph [label=%s, labelloc=t, fontname="Helvetica", fontsize=11];'
            % _quoted("the %d ops nearest to the outputs; %s more are omitted" % (len(kept), "{:,}".format(left_out)))
        )
    lines.append("}")
    return "\n".join(lines)


def html(thing):
    """Return the outline of a graph for a notebook: a tree in HTML whose branches can be opened and closed.

    Parameters
    ----------
    thing : Function, FunctionGraph, Variable or Apply

    Returns
    -------
    str or None
        None for a variable without a graph. None if Graphviz is installed: notebooks then show the picture of `svg`.
    """
    if _is_leaf(thing) or _dot() is not None:
        return None
    return outline(thing)


def outline(thing):
    """Return the outline of a graph in HTML, even if Graphviz is installed.

    Parameters
    ----------
    thing : Function, FunctionGraph, Variable or Apply

    Returns
    -------
    str
    """
    graph = contents(thing, "the outline")
    parts = ['<div style="font-family:monospace;white-space:nowrap">']
    if not isinstance(thing, (Variable, Apply)):
        parts.append("<div>inputs: %s</div>" % ", ".join(_described(v) for v in graph.inputs))
    numbers, lines = {}, 0
    # A stack of the items to write. An item is a closing tag, or a pair of a variable and its depth.
    todo = [(v, 0) for v in reversed(graph.outputs)]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        v, depth = item
        if lines >= MAX_LINES:
            continue
        lines += 1
        node = v.owner
        new = " = new value of <b>%s</b>" % _escaped(graph.updates[v].name) if depth == 0 and v in graph.updates else ""
        if node is None or v in graph.inputs:
            parts.append("<div>%s%s</div>" % (_described(v), new))
            continue
        label = "%s%s" % (_escaped(short_label(node.op)), ".%d" % v.index if len(node.outputs) > 1 else "")
        name = " <b>%s</b>" % _escaped(v.name) if v.name else ""
        known = node in numbers
        number = numbers.setdefault(node, len(numbers) + 1)
        head = '%s%s <span style="color:#777">%s [%d]</span>%s' % (
            label,
            name,
            _escaped(type_to_str(v.type)),
            number,
            new,
        )
        if known or depth >= MAX_LEVELS:
            parts.append("<div>%s %s</div>" % (head, "as above" if known else "..."))
            continue
        parts.append(
            '<details%s style="margin-left:1em"><summary style="margin-left:-1em">%s</summary>'
            % (' open=""' if depth < 4 else "", head)
        )
        todo.append("</details>")
        todo.extend((i, depth + 1) for i in reversed(node.inputs))
    left_out = len(graph.nodes) - len(numbers)
    if left_out > 0:
        parts.append("<div><i>%s more ops are omitted</i></div>" % "{:,}".format(left_out))
    parts.append("</div>")
    return "\n".join(parts)


def _escaped(text):
    return html_module.escape(str(text))


def _described(v):
    text = _escaped(shortened(var_label(v), 60))
    return (
        text
        if isinstance(v, Constant) or v.name is None
        else '%s <span style="color:#777">%s</span>' % (text, _escaped(type_to_str(v.type)))
    )
