"""The analysis that finds state that would be lost if a node failed after this state was overwritten in place.

A function copies such state before a call, so that a failed call leaves all state unchanged. Nodes that overwrite state
run last (`gof.destroy.inplace_order`), so most functions need no copies.
"""

from typing import NamedTuple

from theano_ng.gof._native import LazyBranch, NativeThunk
from theano_ng.gof.destroy.failures import may_fail
from theano_ng.gof.destroy.inplace_order import overwriting
from theano_ng.gof.provenance import is_from_package


class Exposure(NamedTuple):
    """The inputs whose state would be lost. Each list contains positions in ascending order, for one kind of failure.

    Attributes
    ----------
    new_shapes : list of int
        State that is overwritten before a later node runs. The later node may fail on new argument shapes. The list
        also contains the state that is overwritten by a node which runs Python code or a user's code (see `always`).
    always : list of int
        State that is lost if a node fails that runs Python code or a user's code: a user's Op, a loop, or `perform`.
        The node itself or an earlier node overwrites this state. Signal handlers may raise an exception in such code,
        even after the node has overwritten a part of the state.
    if_small : list of int
        State that is overwritten before a native node of the package that can fail on values or that allocates memory.
        Such a node checks its inputs and allocates memory before it overwrites anything.
    """

    new_shapes: list
    always: list
    if_small: list


def exposure(fgraph, states, order, thunks, any_order=False):
    """Find the state that would be lost if nodes failed.

    Parameters
    ----------
    fgraph : FunctionGraph
    states : list of int
        Positions of the inputs that hold state and are overwritten.
    order : sequence of Apply
        The nodes in the order in which they run.
    thunks : sequence of callable
        The thunks of the nodes.
    any_order : bool
        Whether the nodes that overwrite state, and the nodes after these nodes, may run in another order than `order`.

    Returns
    -------
    Exposure
    """
    found = Exposure(set(), set(), set())
    if states:
        inputs = [fgraph.inputs[i] for i in states]
        late = overwriting(order, fgraph.orderings(), inputs)
        changes = _changes(order, dict(zip(inputs, states)))
        everything = set().union(*changes.values())
        before = set()
        for node, thunk in zip(order, thunks):
            if node not in late:
                continue
            changed = changes[node]
            atomic = is_from_package(type(node.op)) and isinstance(thunk, (NativeThunk, LazyBranch))
            lost = (everything - changed if any_order else before) | (set() if atomic else changed)
            found.new_shapes.update(lost)
            if not atomic:
                found.always.update(lost)
            elif may_fail(node):
                found.if_small.update(lost)
            before |= changed
    return Exposure(sorted(found.new_shapes), sorted(found.always), sorted(found.if_small - found.always))


def _changes(order, states):
    """Return a dict: node -> set of the states that it overwrites.

    `states` maps each input variable to the position of the state that its memory holds.
    """
    in_memory = {variable: {i} for variable, i in states.items()}
    changes = {}
    for node in order:
        destroyed = getattr(node.op, "destroy_map", None) or {}
        changes[node] = _in_memory_of(node, [k for places in destroyed.values() for k in places], in_memory)
        for table in (getattr(node.op, "view_map", None) or {}, destroyed):
            for output, places in table.items():
                shared = _in_memory_of(node, places, in_memory)
                if shared:
                    in_memory.setdefault(node.outputs[output], set()).update(shared)
    return changes


def _in_memory_of(node, places, in_memory):
    return set().union(*(in_memory.get(node.inputs[k], ()) for k in places))
