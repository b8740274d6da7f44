"""What has to run before a node that destroys its input, when branches that are not taken shall not be computed.

An in-place node comes after every other reader of what it overwrites. A machine that evaluates on demand makes sure of it by computing those
readers first, which is a waste where the reader only serves a branch of a conditional that is not taken.
"""


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
        The thunk of a conditional has an attribute `branch_size`: of its node's inputs, the first is the condition, that many make the
        first branch, the others the second.
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
    branch_sizes = {node: thunk.branch_size for node, thunk in zip(nodes, thunks) if hasattr(thunk, "branch_size")}
    if not prerequisites or not branch_sizes:
        return prerequisites
    guards = _guards(nodes, branch_sizes, outputs)
    place = {node: i for i, node in enumerate(nodes)}
    leaky = set()       # branches of which something may run although the other one is taken
    droppable = []      # (node, prerequisite, the node's branch, the branches of the prerequisite)
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
