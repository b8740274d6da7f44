"""The function `map_variables`, which copies graphs. A given function chooses the replacements of variables.

`map_variables` also replaces variables in the graphs inside loops and inside Ops made from graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from theano_ng.compile.builders import OpFromGraph
from theano_ng.compile.inner_graph import substitute
from theano_ng.compile.sharedvalue import SharedVariable
from theano_ng.gof.graph import Constant
from theano_ng.gof.traversal import inputs as leaves_of
from theano_ng.gof.traversal import postorder
from theano_ng.scan.op import Scan
from theano_ng.scan.utils import safe_new

if TYPE_CHECKING:
    from theano_ng.gof.graph import Variable

__all__ = ["map_variables"]


def map_variables(
    replacer: Callable[[Any], Any], graphs: Sequence[Variable], additional_inputs: Sequence[Variable] = []
) -> list[Any]:
    """Return copies of graphs in which variables are replaced.

    Parameters
    ----------
    replacer : callable
        A function that takes a variable and returns its replacement, or the variable itself. It is called for the
        inputs of each node before the outputs of the node. If an input of a node was replaced, the function gets a copy
        of each output, with the same name and tag. The function is also called for the variables inside loops and Ops
        made from graphs, but not for the inner inputs. A replacement inside an Op may depend on variables outside,
        which become further inputs of the Op. A replacement inside an `OpFromGraph` may also depend on the variables
        from which the Op was made; these variables represent the inputs of the Op.
    graphs : iterable of Variable
    additional_inputs : iterable of Variable
        Inputs on which only the replacements depend. They are found automatically, so this argument is not needed.

    Returns
    -------
    list of Variable

    Raises
    ------
    NotImplementedError
        If an Op that was made from a graph and has overridden derivatives would get additional inputs, or if a loop
        would get a shared variable that has an `update`.

    Examples
    --------
    >>> from theano_ng import pp, tensor
    >>> a, b, c = tensor.dscalars("a", "b", "c")
    >>> ab = a + b
    >>> ab.tag.replacement = a * b
    >>> (v,) = map_variables(lambda graph: getattr(graph.tag, "replacement", graph), [ab + c])
    >>> pp(v)
    '((a * b) + c)'
    """
    graphs = list(graphs)
    return _mapped(replacer, graphs, {})


def _mapped(replacer, outputs, known):
    """Return the replacements of variables. `known` maps variables to replacements that are already known."""
    nodes = {}
    for v in postorder(outputs, known):
        node = v.owner
        if node is None:
            known[v] = replacer(v)
            continue
        if node not in nodes:
            nodes[node] = _mapped_node(replacer, node, [known[i] for i in node.inputs])
        known[v] = replacer(nodes[node].outputs[v.index])
    return [known[v] for v in outputs]


def _mapped_node(replacer, node, inputs):
    """Return a copy of a node with the given inputs. If the Op contains a graph, also replace variables in this graph.

    Return `node` itself if nothing changes.
    """
    op = node.op
    if isinstance(op, (OpFromGraph, Scan)):
        known = {v: v for v in op.inner_graph.inputs}
        inside = _mapped(replacer, op.inner_graph.outputs, known)
        if any(new is not old for new, old in zip(inside, op.inner_graph.outputs)):
            own = set(op.inner_graph.inputs)
            inside = substitute(inside, dict(zip(op.inner_graph.given, op.inner_graph.inputs)))
            outside = [v for v in leaves_of(inside, own) if v not in own and not isinstance(v, Constant)]
            copies = {v: safe_new(v, "_copy") for v in outside}
            inside = substitute(inside, {**{v: v for v in own}, **copies})
            arguments = list(op.inner_graph.inputs) + list(copies.values())
            if isinstance(op, Scan):
                _check_updates(op, outside)
            op = (_other_loop if isinstance(op, Scan) else _other_graph)(op, arguments, inside)
            return op.make_node(*inputs, *outside)
    if all(new is old for new, old in zip(inputs, node.inputs)):
        return node
    return node.clone_with_new_inputs(inputs)


def _check_updates(op, variables):
    """Raise an error for shared variables with an update: a loop would have to compute the update at each step."""
    for v in variables:
        if isinstance(v, SharedVariable) and getattr(v, "update", None) is not None:
            raise NotImplementedError(
                "Replacement introduces shared variable %s which has an update associated with it into the inner graph of %s. "
                "This is not currently supported." % (v, op)
            )


def _other_loop(op, inputs, outputs):
    return Scan(inputs, outputs, op.info)


def _other_graph(op, inputs, outputs):
    derivatives = dict(lop_overrides=op.lop_overrides, grad_overrides=op.grad_overrides, rop_overrides=op.rop_overrides)
    if len(inputs) > len(op.inner_graph.inputs) and any(given != "default" for given in derivatives.values()):
        raise NotImplementedError(
            "%s has overridden derivatives for %d inputs, but the replacements inside depend on other variables: make "
            "these variables inputs of the Op" % (op, len(op.inner_graph.inputs))
        )
    return OpFromGraph(inputs, outputs, inline=op.is_inline, name=op.name, **derivatives, **op.kwargs)
