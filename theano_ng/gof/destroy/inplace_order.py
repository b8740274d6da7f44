"""The order of nodes that overwrite their inputs.

An in-place node has to run after all other readers of the memory that it overwrites. A virtual machine that evaluates
on demand therefore computes these readers first. The work is wasted if a reader is needed only in a branch of a
conditional that is not taken. Nodes that overwrite a function's state come last, so that a failed call leaves the state
unchanged. Numbers are copied from a device at the very end, because the copy waits for the device.
"""

from theano_ng.gof.destroy.failures import may_fail


def overwrite_last(order, orderings, inputs):
    """Return an order in which nodes overwrite `inputs` only after all other nodes have run.

    A call that fails before the first in-place update leaves the state unchanged. Among the overwriting nodes, the
    nodes that can fail therefore come first, together with the nodes that compute their inputs.

    Parameters
    ----------
    order : list of Apply
        The nodes in a valid order.
    orderings : dict
        Node -> nodes that have to come before it, in addition to the nodes that compute its inputs (see
        `FunctionGraph.orderings`).
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
    """Return the nodes that overwrite the memory of `inputs`, and the nodes that have to come after them."""
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


def wait_last(order, orderings):
    """Return an order in which numbers are copied from a device to the host after all other nodes have run.

    Such a copy waits until the device has computed the number. So the host first starts all other computations. The
    nodes that depend on a copy come last, too. A copy keeps its place if a node that depends on it can fail, because a
    node that fails should come before state is overwritten (see `overwrite_last`), or if a node that does not depend
    on it has to come after it.

    Parameters
    ----------
    order : list of Apply
        The nodes in a valid order.
    orderings : dict
        See `overwrite_last`.

    Returns
    -------
    list of Apply
    """
    waiting = {node for node in order if getattr(node.op, "waits_for_device", False) and _computes_numbers(node)}
    if not waiting:
        return order
    late = _with_dependents(order, waiting)
    keeps = set()
    for node in reversed(order):
        before = [r.owner for r in node.inputs] + list(orderings.get(node, ()))
        if node in keeps or (node in late and node not in waiting and may_fail(node)):
            keeps.update(other for other in before if other in late)
        elif node not in late:
            keeps.update(other for other in before if other in late)
    late = _with_dependents(order, waiting - keeps)
    return [node for node in order if node not in late] + [node for node in order if node in late]


def send_first(order, orderings):
    """Return an order in which the inputs of the function are copied to a device before all other nodes run.

    The device then gets all further work without a copy in between, so that a graph can contain all launches.

    Parameters
    ----------
    order : list of Apply
        The nodes in a valid order.
    orderings : dict
        See `overwrite_last`.

    Returns
    -------
    list of Apply
    """
    first = {
        node
        for node in order
        if getattr(node.op, "sends_to_device", False)
        and all(r.owner is None for r in node.inputs)
        and not orderings.get(node)
    }
    return [node for node in order if node in first] + [node for node in order if node not in first]


def _computes_numbers(node):
    return all(all(getattr(r.type, "broadcastable", (False,))) for r in node.outputs)


def _with_dependents(order, nodes):
    """Return the set of `nodes` and of all nodes that depend on them."""
    found = set(nodes)
    for node in order:
        if any(r.owner in found for r in node.inputs):
            found.add(node)
    return found


def needed_before_overwriting(order, thunks, prerequisites, updated_vars):
    """Return the variables that updates need in every run, and that can be computed before state is overwritten.

    A virtual machine that evaluates on demand computes these variables first. For other virtual machines,
    `overwrite_last` determines the order.

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
    """A branch of a conditional, linked to the next outer branch. Instances are compared by identity."""

    __slots__ = ("depth", "conditional", "side", "outer")

    def __init__(self, conditional, side, outer):
        self.conditional, self.side, self.outer = conditional, side, outer
        self.depth = 1 if outer is None else outer.depth + 1


def _common(a, b):
    """Return the innermost guard that encloses both `a` and `b` (or is one of them), or None if there is none."""
    while a is not b:
        if a is None or b is None:
            return None
        if a.depth >= b.depth:
            a = a.outer
        else:
            b = b.outer
    return a


def _guards(nodes, branch_sizes, outputs):
    """Return a dict from nodes to guards: the innermost branch that guards the node, or None if no branch guards it.

    A branch guards a node if every path from the node to an output passes through this branch of the conditional.
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
    """Return those of `guard` and its outer guards that are inside `top`, outermost first."""
    links = []
    while guard is not top:
        links.append(guard)
        guard = guard.outer
    return links[::-1]


def lazy_prerequisites(nodes, thunks, orderings, outputs):
    """Return prerequisites of nodes, chosen so that little is computed for branches that are not taken.

    If a node and its prerequisite are in different branches of one conditional, a run needs only one of the two nodes,
    so the node does not get this prerequisite. If only one branch of a conditional needs the prerequisite, and the
    conditional comes before the node, the conditional becomes the prerequisite in its place. Before the node runs,
    the conditional then computes only the nodes that the taken branch needs.

    Parameters
    ----------
    nodes : list of Apply
        The nodes in an order that respects dependence and `orderings`.
    thunks : list of callable
        The thunk of a conditional is lazy and has an attribute `branch_size`. The first input of its node is the
        condition, the next `branch_size` inputs are the first branch, and the remaining inputs are the second branch.
    orderings : dict
        Apply -> list of Apply that have to come before it, in addition to the nodes that compute its inputs.
    outputs : list of Variable

    Returns
    -------
    dict
        Apply -> list of Apply, for nodes that have prerequisites.

    Notes
    -----
    A conditional that replaces a prerequisite comes before the node in the order of `nodes`, so it creates no cycle.
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
    leaky = set()  # branches with nodes that may run although the conditional takes the other branch
    droppable = []  # (node, prerequisite, the branch of the node, the branches of the prerequisite)
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
        # Keep the prerequisites of nodes in leaky branches. This makes the branches of these prerequisites leaky, so
        # further prerequisites may have to be kept.
        refused = [entry for entry in droppable if entry[2] in leaky]
        if not refused:
            break
        droppable = [entry for entry in droppable if entry[2] not in leaky]
        for node, other, _, theirs in refused:
            result[node][other] = None
            leaky.update(theirs)
    return {node: list(kept) for node, kept in result.items() if kept}
