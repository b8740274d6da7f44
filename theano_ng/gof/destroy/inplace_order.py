"""When nodes run that overwrite their inputs.

An in-place node comes after every other reader of what it overwrites. A machine that evaluates on demand makes sure of it by computing
those readers first, which is a waste where the reader only serves a branch of a conditional that is not taken. And what overwrites a
function's state comes last of all, so that a call that fails leaves it unchanged.
"""

from theano_ng.gof.destroy.failures import may_fail


def overwrite_last(order, orderings, inputs):
    """Return an order in which nodes overwrite certain inputs only after all other nodes have run.

    A call that fails before the first update is made in place leaves its state unchanged. So among the nodes that overwrite, those that
    can fail come first, with the nodes that compute their inputs.

    Parameters
    ----------
    order : list of Apply
        The nodes in a valid order.
    orderings : dict
        Node -> nodes that have to come before it, beyond the inputs (see `FunctionGraph.orderings`).
    inputs : iterable of Variable
        Inputs whose memory holds state.

    Returns
    -------
    list of Apply
    """
    late = overwriting(order, orderings, inputs)
    if not late:
        return order
    first = set()
    for node in reversed(order):
        if node in late and (node in first or may_fail(node)):
            first.add(node)
            first.update(r.owner for r in node.inputs if r.owner in late)
            first.update(other for other in orderings.get(node, ()) if other in late)
    return (
        [node for node in order if node not in late]
        + [node for node in order if node in first]
        + [node for node in order if node in late and node not in first]
    )


def overwriting(order, orderings, inputs):
    """The nodes that overwrite what is in the memory of `inputs`, and those that have to come after them."""
    in_state, late = set(inputs), set()
    for node in order if in_state else ():
        op = node.op
        destroyed = getattr(op, "destroy_map", None) or {}
        if (
            any(node.inputs[i] in in_state for positions in destroyed.values() for i in positions)
            or any(r.owner in late for r in node.inputs)
            or any(other in late for other in orderings.get(node, ()))
        ):
            late.add(node)
        for table in (getattr(op, "view_map", None) or {}, destroyed):
            for output, positions in table.items():
                if any(node.inputs[i] in in_state for i in positions):
                    in_state.add(node.outputs[output])
    return late


def needed_before_overwriting(order, thunks, prerequisites, updated_vars):
    """What is computed for updates in any case, and can be computed before state is overwritten.

    A machine that evaluates on demand computes this first; `overwrite_last` gives the order of one that does not.

    Parameters
    ----------
    order : list of Apply
    thunks : list of callable
    prerequisites : dict
        Apply -> list of Apply (see `lazy_prerequisites`).
    updated_vars : dict
        Input variable -> output variable.

    Returns
    -------
    list of Variable
    """
    late = overwriting(order, prerequisites, updated_vars)
    if not late:
        return []
    place = {node: i for i, node in enumerate(order)}
    found, seen = {}, set()
    stack = list(updated_vars.values())
    while stack:
        r = stack.pop()
        node = r.owner
        if node is None or node in seen:
            continue
        if node not in late:
            found[r] = None
            continue
        seen.add(node)
        thunk = thunks[place[node]]
        if not getattr(thunk, "lazy", False):
            stack.extend(node.inputs)
        elif hasattr(thunk, "branch_size"):
            stack.append(node.inputs[0])
        stack.extend(out for other in prerequisites.get(node, ()) for out in other.outputs)
    return sorted(found, key=lambda r: place[r.owner])


class _Guard:
    """A branch of a conditional: the link of a chain from an inner branch to the outer ones. Compared by identity."""

    __slots__ = ("depth", "conditional", "side", "outer")

    def __init__(self, conditional, side, outer):
        self.conditional, self.side, self.outer = conditional, side, outer
        self.depth = 1 if outer is None else outer.depth + 1


def _common(a, b):
    """The innermost guard that two chains share, or None."""
    while a is not b:
        if a is None or b is None:
            return None
        if a.depth >= b.depth:
            a = a.outer
        else:
            b = b.outer
    return a


def _guards(nodes, branch_sizes, outputs):
    """For each node the innermost branch that alone makes it needed, or None.

    A node is guarded by a branch when every way from it to an output goes through that branch of that conditional.
    """
    guards = {r.owner: None for r in outputs if r.owner is not None}
    for node in reversed(nodes):
        own = guards.setdefault(node, None)
        n = branch_sizes.get(node)
        sides = (own, own) if n is None else (_Guard(node, 0, own), _Guard(node, 1, own))
        for i, r in enumerate(node.inputs):
            if r.owner is not None:
                guard = own if i == 0 else sides[n is not None and i > n]
                guards[r.owner] = _common(guards[r.owner], guard) if r.owner in guards else guard
    return guards


def _below(guard, top):
    """The guards of a chain under `top`, outermost first."""
    links = []
    while guard is not top:
        links.append(guard)
        guard = guard.outer
    return links[::-1]


def lazy_prerequisites(nodes, thunks, orderings, outputs):
    """Prerequisites of nodes, with as little as possible computed for branches that are not taken.

    Where the node and its prerequisite serve different branches of one conditional, only one of them will ever be needed, and the
    prerequisite is dropped. Where the prerequisite serves a branch alone and the conditional comes before the node, the conditional
    takes its place: it computes what it needs.

    Parameters
    ----------
    nodes : list of Apply
        In an order that respects dependence and `orderings`.
    thunks : list of callable
        The thunk of a conditional is lazy and has an attribute `branch_size`: of its node's inputs, the first is the condition, that
        many make the first branch, the others the second.
    orderings : dict
        Apply -> list of Apply that have to run before it although it does not read their outputs.
    outputs : list of Variable

    Returns
    -------
    dict
        Apply -> list of Apply, for those that have any.

    Notes
    -----
    Replacing a prerequisite by a conditional that comes before the node keeps to the order of `nodes`, so it makes no cycle.
    """
    prerequisites = {node: list(orderings[node]) for node in nodes if orderings.get(node)}
    branch_sizes = {
        node: thunk.branch_size
        for node, thunk in zip(nodes, thunks)
        if getattr(thunk, "lazy", False) and hasattr(thunk, "branch_size")
    }
    if not prerequisites or not branch_sizes:
        return prerequisites
    guards = _guards(nodes, branch_sizes, outputs)
    place = {node: i for i, node in enumerate(nodes)}
    leaky = set()  # branches of which something may run although the other one is taken
    droppable = []  # (node, prerequisite, the node's branch, the branches of the prerequisite)
    result = {}
    for node, others in prerequisites.items():
        kept = result[node] = {}
        for other in others:
            top = _common(guards[node], guards[other])
            ours, theirs = _below(guards[node], top), _below(guards[other], top)
            if not theirs:
                kept[other] = None
            elif ours and ours[0].conditional is theirs[0].conditional:
                droppable.append((node, other, ours[0], theirs))
            elif place[theirs[0].conditional] < place[node]:
                kept[theirs[0].conditional] = None
            else:
                kept[other] = None
                leaky.update(theirs)
    while True:
        # what has to be kept after all opens its own branch, which may matter to others
        refused = [entry for entry in droppable if entry[2] in leaky]
        if not refused:
            break
        droppable = [entry for entry in droppable if entry[2] not in leaky]
        for node, other, _, theirs in refused:
            result[node][other] = None
            leaky.update(theirs)
    return {node: list(kept) for node, kept in result.items() if kept}
