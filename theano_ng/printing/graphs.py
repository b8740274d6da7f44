"""Functions that collect the data for pictures of a graph.

The data are the nodes of the graph, the graphs inside nodes, and the lines of the user's program that created the
nodes.
"""

import os
from collections import namedtuple

from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Apply, Constant, Variable, io_toposort
from theano_ng.gof.graph import inputs as graph_inputs
from theano_ng.gof.op import ops_with_inner_function

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


Contents = namedtuple(
    "Contents", "inputs outputs nodes updates shared profile name", defaults=({}, frozenset(), None, None)
)
Contents.__doc__ = (
    "A graph to draw.\n\nAttributes\n----------\ninputs, outputs : list of Variable\nnodes : list of "
    "Apply\n    In order of execution.\nupdates : dict of Variable to Variable\n    The `outputs` that are "
    "new values of shared variables -> the input with the old value.\nshared : set of Variable\n    The "
    "`inputs` that hold values of shared variables.\nprofile : ProfileStats or None\nname : str or None\n"
)


def contents(fct, who="pydotprint"):
    """Return the contents of a graph.

    Parameters
    ----------
    fct : compiled function, FunctionGraph, Variable, Apply or non-empty list of Variable
        Any other object is also accepted if its attributes ``inputs`` and ``outputs`` are lists of variables. The
        graphs inside Ops are such objects.
    who : str
        The name of the caller, for the error message.

    Returns
    -------
    Contents

    Raises
    ------
    ValueError
        If `fct` is none of these objects.
    """
    if hasattr(fct, "maker") and hasattr(fct.maker, "fgraph"):
        fgraph = fct.maker.fgraph
        pairs = getattr(fgraph, "update_mapping", None) or {}
        specs = getattr(fct.maker, "inputs", None) or []
        shared = {v for spec, v in zip(specs, fgraph.inputs) if getattr(spec, "implicit", False)}
        return Contents(
            list(fgraph.inputs),
            list(fgraph.outputs),
            fgraph.toposort(),
            {fgraph.outputs[k]: fgraph.inputs[i] for k, i in pairs.items()},
            shared,
            getattr(fct, "profile", None),
            getattr(fct, "name", None),
        )
    if isinstance(fct, FunctionGraph):
        return Contents(list(fct.inputs), list(fct.outputs), fct.toposort())
    if isinstance(fct, Variable):
        fct = [fct]
    elif isinstance(fct, Apply):
        fct = fct.outputs
    if isinstance(fct, (list, tuple)) and fct and all(isinstance(v, Variable) for v in fct):
        outputs = list(fct)
        inputs = [i for i in graph_inputs(outputs) if not isinstance(i, Constant)]
        return Contents(inputs, outputs, list(io_toposort(inputs, outputs)))
    inputs, outputs = getattr(fct, "inputs", None), getattr(fct, "outputs", None)
    if (
        isinstance(inputs, list)
        and isinstance(outputs, list)
        and all(isinstance(v, Variable) for v in inputs + outputs)
    ):
        return Contents(list(inputs), list(outputs), list(io_toposort(inputs, outputs)))
    raise ValueError(
        "%s expects as input a theano.function, a FunctionGraph, an Apply, a Variable or a non-empty list of Variables; got %s"
        % (who, type(fct)),
        fct,
    )


def is_shared(variable):
    """Return True if a variable is a shared variable. Only shared variables have a container.

    The function cannot test the class, which belongs to the higher layer `compile`: this package must not import it.
    """
    return hasattr(variable, "container")


def inner_graph(op, formulas=False):
    """Return the graph inside an Op: the compiled graph or, if it has not been compiled, the original graph.

    Parameters
    ----------
    op : Op
    formulas : bool
        Whether the scalar graph of an elementwise Op counts as its inner graph.

    Returns
    -------
    Function, Contents or None
        An object that `contents` accepts. None if the Op has no inner graph.
    """
    inner = getattr(op, "inner_graph", None)
    if inner is not None:
        for made in (getattr(inner, "functions", None), getattr(inner, "makers", None)):
            for one in (made or {}).values():
                return one if hasattr(one, "maker") else _OfMaker(one, getattr(one, "profile", None))
        return inner
    name = ops_with_inner_function.get(type(op))
    if name is not None:
        function = getattr(op, name, None)
        return function if hasattr(function, "maker") else None
    if formulas:
        return getattr(getattr(op, "scalar_op", None), "fgraph", None)
    return None


# A stand-in for a compiled function. `contents` reads only these two attributes of a function.
_OfMaker = namedtuple("_OfMaker", "maker profile")


def user_frames(thing):
    """Return the stack frames of the user's code that created a variable. For a node, use its first output.

    Parameters
    ----------
    thing : Variable or Apply

    Returns
    -------
    list of (str, int, str, str or None)
        The file, line number, function and source text of each stack frame, outermost first. Frames of this package are
        left out, except frames of its tests.
    """
    variable = thing.outputs[0] if isinstance(thing, Apply) and thing.outputs else thing
    traces = getattr(variable.tag, "trace", None)
    if not traces:
        return []
    # The tag holds one stack trace, or a list of stack traces. The first trace of a list belongs to the node itself.
    one = isinstance(traces[0], tuple) and len(traces[0]) > 2 and isinstance(traces[0][0], str)
    frames = []
    for file, line, function, *text in traces if one else traces[0]:
        if file and not (file.startswith(_PACKAGE) and "tests" not in file[len(_PACKAGE) :].split(os.sep)):
            frames.append((file, line, function, text[0] if text else None))
    return frames


_NOISE = ("no_inplace", "inplace")


def short_label(op, size=48):
    """Return a short text that describes an Op.

    Parameters
    ----------
    op : Op
    size : int
        The maximum length. Longer texts are cut.

    Returns
    -------
    str

    Examples
    --------
    >>> from theano_ng import tensor
    >>> x = tensor.matrix("x")
    >>> [short_label(y.owner.op) for y in (tensor.tanh(x), x.sum(axis=0), x.T, tensor.dot(x, x))]
    ['tanh', 'Sum{axis=[0]}', 'DimShuffle{1,0}', 'dot']
    """
    if type(op).__name__ == "Scan":
        return shortened("scan %s" % (getattr(op, "name", None) or ""), size).strip()
    if "inner_graph" in vars(op) and getattr(op, "name", None):
        return shortened(op.name, size)
    # The text of a reduction that is fused with an elementwise Op contains both Ops, separated by " of ".
    parts = [_short(part) for part in str(op).split(" of ")]
    return shortened(" of ".join(parts), size)


def _short(text):
    text = " ".join(text.split()).removeprefix("Inplace")
    name, brace, props = text.partition("{")
    if not brace or not props.endswith("}"):
        # The text of an in-place elementwise Op ends with pairs (output, input): the input that the output overwrites.
        head, bracket, _ = text.partition("}[(")
        return _short(head + "}") if bracket else text
    props = props[:-1]
    if name == "Elemwise":
        props = props.removesuffix(",no_inplace").removesuffix(",inplace")
        if props.startswith("Composite{") and props.endswith("}"):
            props = props[len("Composite{") : -1]
        return props
    if "=" in props or props in _NOISE:
        kept = [
            p for p in props.split(", ") if p not in _NOISE and not p.startswith(("acc_dtype=", "inplace=", "inline="))
        ]
        return "%s{%s}" % (name, ", ".join(kept)) if kept else name
    return text


def shortened(text, size):
    """Return the text, cut to at most `size` characters. An ellipsis replaces the removed end."""
    return text[: max(size - 3, 0)] + "..." if len(text) > size else text


def overwritten_inputs(op):
    """Return the effects of an Op on its inputs.

    Returns
    -------
    dict
        Index of an input -> ``'destroyed'`` if the Op overwrites it, or ``'viewed'`` if an output is a view of it.
        Other inputs are missing.
    """
    found = {}
    for name, kind in (("view_map", "viewed"), ("destroy_map", "destroyed")):
        for positions in (getattr(op, name, None) or {}).values():
            found.update(dict.fromkeys(positions, kind))
    return found
