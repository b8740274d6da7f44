"""Functions that write an HTML page which shows a graph in a browser, or a file for Graphviz."""

import html
import json
import pathlib
import re

from theano_ng.d3viz.formatting import PyDotFormatter
from theano_ng.gof.utils import writable
from theano_ng.printing.graphs import shortened

__all__ = ["d3viz", "d3write", "replace_patterns", "safe_json"]

_PAGE = pathlib.Path(__file__).with_name("page")


def replace_patterns(x, replace):
    """Replace parts of a text. The regular expressions are applied in the order of the dict.

    Parameters
    ----------
    x : str
    replace : dict
        Regular expression -> the replacement of each match, as in `re.sub`.

    Returns
    -------
    str

    Examples
    --------
    >>> replace_patterns("hello world", {"hello": "bye", "w.*": "all"})
    'bye all'
    """
    for pattern, text in replace.items():
        x = re.sub(pattern, text, x)
    return x


def safe_json(obj):
    """Return JSON that can be inserted into a script of an HTML page.

    The JSON cannot end the script or begin a comment.

    Parameters
    ----------
    obj : object

    Returns
    -------
    str

    Examples
    --------
    >>> print(safe_json({"name": "</script>"}))
    {"name": "\\u003c/script>"}
    """
    return json.dumps(obj).replace("<", "\\u003c")


def _page_graph(fct, formatter):
    """Return the data that the page shows for a graph, as a dict that can be converted to JSON."""
    drawings = formatter.describe(fct, formulas=True, who="d3viz")
    found = []
    for drawing in drawings:
        profile = drawing.profile
        measured = profile is not None and bool(profile.apply_time)
        boxes = []
        for box in drawing.boxes:
            record = {"kind": box.kind, "label": shortened(box.label, 60), "type": box.node_type}
            if box.text and box.text != box.label:
                record["text"] = box.text
            color = formatter.color(box)
            if color is not None:
                record["color"] = color
            if box.frames:
                record["source"] = [box.frames[-1][0], box.frames[-1][1], box.frames[-1][2], box.frames[-1][3] or ""]
            if box.drawing is not None:
                record["inner"] = box.drawing
            if measured and box.kind == "apply":
                record["seconds"] = profile.apply_time.get(box.thing, 0.0)
                record["calls"] = profile.apply_callcount.get(box.thing, 0)
                record["c"] = bool(profile.apply_cimpl.get(box.thing))
            boxes.append(record)
        arrows = [[a.start, a.end, a.start_port, a.end_port, a.label, a.effect] for a in drawing.arrows]
        one = {"boxes": boxes, "arrows": arrows, "inputs": drawing.inputs, "outputs": drawing.outputs}
        if measured:
            one["profile"] = {
                "calls": profile.fct_callcount,
                "seconds": profile.fct_call_time,
                "nodes": sum(r["seconds"] for r in boxes if "seconds" in r),
            }
        found.append(one)
    shapes = {
        "apply": formatter.shapes["apply"],
        "input": formatter.shapes["input"],
        "output": formatter.shapes["output"],
    }
    return {"drawings": found, "colors": formatter.node_colors, "shapes": shapes}


def d3viz(fct, outfile, copy_deps=True, *args, **kwargs):
    """Write an HTML page on which a graph can be explored.

    Parameters
    ----------
    fct : compiled function, FunctionGraph, Variable, Apply or list of Variable
    outfile : str or path
        The path of the page. Its folder is created if it does not exist.
    copy_deps : bool
        If True, the page contains its scripts and styles. It is a single file that works anywhere. If False, it refers
        to the installed files of this package by ``file:`` URLs. The page is then smaller, but works only on this
        computer. In neither case does the page need a network.
    *args, **kwargs
        Arguments for `formatting.PyDotFormatter`.

    Raises
    ------
    ValueError
        If `fct` is an object of another type.

    Notes
    -----
    Ellipses are Apply nodes, colored by the kind of their Op (red means transfers to and from a GPU). Boxes are
    variables: inputs are green, and outputs blue. An arrow from an input to a node is blue if the node returns a view
    of the input, red if the node overwrites the input, and black otherwise. A node whose Op has an inner graph
    (OpFromGraph, Scan, or an elementwise formula) has a double border. A double click opens or closes the inner graph.

    The mouse wheel zooms. The background and single nodes can be dragged. If the pointer is on a node or an arrow, the
    page shows the type of this element and the line of the program that created it. If the function has a profile, the
    page also shows times, and ``Toggle profile colors`` colors the nodes by their time. The context menu edits labels.
    ``Release nodes`` lets the layout algorithm move all nodes, and ``Reset nodes`` restores the original layout.

    Neither pydot nor Graphviz is needed.

    Examples
    --------
    >>> import os, tempfile
    >>> from theano_ng import d3viz, tensor
    >>> x = tensor.dmatrix("x")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "graph.html")
    ...     d3viz.d3viz(tensor.tanh(x).sum(), path)
    ...     os.path.getsize(path) > 1000
    True
    """
    graph = _page_graph(fct, PyDotFormatter(*args, **kwargs))
    outfile = pathlib.Path(outfile)
    # The default name of a function is the path and line of the call that made it. The title omits the folders.
    title = pathlib.PurePath(getattr(fct, "name", None) or outfile.stem).name
    if copy_deps:
        style = "<style>\n%s</style>" % (_PAGE / "style.css").read_text(encoding="utf-8")
        script = "<script>\n%s</script>" % (_PAGE / "viewer.js").read_text(encoding="utf-8")
    else:
        style = '<link rel="stylesheet" href="%s">' % html.escape((_PAGE / "style.css").resolve().as_uri())
        script = '<script src="%s"></script>' % html.escape((_PAGE / "viewer.js").resolve().as_uri())
    parts = {"title": html.escape(str(title)), "style": style, "graph": safe_json(graph), "script": script}
    page = (_PAGE / "page.html").read_text(encoding="utf-8")
    # Replace all placeholders in one pass, so that inserted texts are not searched for placeholders.
    page = re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found.group(1)], page)
    outfile.parent.mkdir(parents=True, exist_ok=True)
    outfile.write_text(writable(page), encoding="utf-8")


def d3write(fct, path, *args, **kwargs):
    """Write a graph to a file in the DOT language of Graphviz.

    Parameters
    ----------
    fct : compiled function, FunctionGraph, Variable, Apply or list of Variable
    path : str or path
    *args, **kwargs
        Arguments for `formatting.PyDotFormatter`.

    Raises
    ------
    ImportError
        If pydot is missing.
    """
    PyDotFormatter(*args, **kwargs)(fct).write_raw(str(path))
