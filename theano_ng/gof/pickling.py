"""Pickling and deep-copying graphs of any depth without recursion.

A pickler descends from a variable to its owner, to the owner's inputs and so on: a long chain exhausts the stack. Here the first object
of a graph that a pickler meets is reduced to the list of its ancestors in topological order, followed by itself. While that list is
written, each of its nodes is reduced plainly: its inputs have been written before, so the pickler goes one level deep. On loading, the
list is thrown away; the pickler's memo has everything.
"""
import threading
from copy import deepcopy


class _Open(threading.local):
    """The lists being written by this thread: sets of the ids of their nodes, innermost last."""

    def __init__(self):
        self.covered = []


_open = _Open()


class _End:
    """Last element of a list: writing it (or dropping it, when pickling failed) ends the list's coverage."""

    def __init__(self, ids):
        self.ids = ids

    def close(self):
        """End the coverage; harmless when it has ended."""
        covered = _open.covered
        for i in range(len(covered) - 1, -1, -1):
            if covered[i] is self.ids:
                del covered[i]
                return

    def __reduce__(self):
        self.close()
        return tuple, ()

    def __del__(self):
        self.close()


def _last(items):
    """The pickled object itself; the pickler takes it from its memo and drops this value."""
    return items[-2]


def ancestor_nodes(node, done=()):
    """The Apply nodes that `node` depends on and `node`, inputs first.

    Parameters
    ----------
    node : Apply
    done : container of id
        Nodes to leave out, with what lies behind them.
    """
    order = []
    seen = {id(node)}
    stack = [(node, iter(node.inputs))]
    while stack:
        current, pending = stack[-1]
        for variable in pending:
            owner = variable.owner
            if owner is not None and id(owner) not in seen and id(owner) not in done:
                seen.add(id(owner))
                stack.append((owner, iter(owner.inputs)))
                break
        else:
            order.append(current)
            stack.pop()
    return order


def reduce_in_graph(obj, node, protocol):
    """`__reduce_ex__` of a variable or node.

    Parameters
    ----------
    obj : Variable or Apply
    node : Apply or None
        The variable's owner, or the node itself.
    """
    covered = _open.covered
    if node is None or (covered and id(node) in covered[-1]) or not any(v.owner is not None for v in node.inputs):
        return object.__reduce_ex__(obj, max(protocol, 2))
    nodes = ancestor_nodes(node)
    ids = {id(n) for n in nodes}
    covered.append(ids)
    return _last, ([*nodes, obj, _End(ids)],)


def deepcopy_in_graph(obj, node, memo):
    """`__deepcopy__` of a variable or node: copies what it depends on first, inputs before users."""
    if node is not None:
        for ancestor in ancestor_nodes(node, memo):
            if id(ancestor) not in memo:
                _deepcopy_plain(ancestor, memo)
    found = memo.get(id(obj))
    return _deepcopy_plain(obj, memo) if found is None else found


def _deepcopy_plain(obj, memo):
    constructor, args, state = object.__reduce_ex__(obj, 4)[:3]
    copy = constructor(*args)
    memo[id(obj)] = copy
    # The originals have to outlive the memo, which knows them by id.
    memo.setdefault(id(memo), []).append(obj)
    if state is not None:
        state = deepcopy(state, memo)
        if hasattr(copy, "__setstate__"):
            copy.__setstate__(state)
        elif isinstance(state, tuple):
            copy.__dict__.update(state[0] or {})
            for name, value in state[1].items():
                setattr(copy, name, value)
        else:
            copy.__dict__.update(state)
    return copy


class Covering:
    """Opens the coverage of nodes that belong to one container, when the container's own state is pickled.

    A container (FunctionGraph) puts a Covering and its `end` around its state: ``(covering, state, covering.end)``; what lies between
    is written without a list for every variable.

    Parameters
    ----------
    nodes : list of Apply
        In topological order.
    """

    def __init__(self, nodes):
        self.nodes = nodes
        self.ids = {id(n) for n in nodes}
        self.end = _End(self.ids)

    def __reduce__(self):
        _open.covered.append(self.ids)
        return list, (self.nodes,)

    def __deepcopy__(self, memo):
        return [deepcopy(node, memo) for node in self.nodes]
