"""Pickling and deep-copying graphs of any size without recursion, in time and bytes that grow with the graph.

A pickler descends from a variable to its owner, to the owner's inputs and so on: a long chain exhausts the stack. Here the first object
of a graph that a pickler meets is reduced to the list of its ancestors in topological order, followed by itself. While that list is
written, each of its nodes is reduced plainly: its inputs have been written before, so the pickler goes one level deep. On loading, the
list is thrown away; the pickler's memo has everything.

A pickler that meets many variables of one graph, one after the other, gets a list for each. A list leaves out what earlier ones had: it
begins with the record of what this pickler has written (`_Written`), so that all lists together are as long as the graph.
"""
import threading
import weakref
from copy import deepcopy


class _Written:
    """The nodes of the lists that one pickler has written.

    A pickler's memo holds it, so it lives as long as its pickler. Each list begins with it. The pickler that has it in its memo does not
    ask for it again; when it is asked for a second time, it is by another pickler, which gets a list of everything and a record of its own.
    """

    def __init__(self):
        self.nodes = {}         # id -> Apply
        self.wanted = ()        # nodes for the sake of which the latest list was begun
        self._has_pickler = False

    def __reduce__(self):
        if not self._has_pickler:
            self._has_pickler = True
            return tuple, ()
        nodes = ancestor_nodes(self.wanted)
        other = _state.begin()
        return tuple, ([other, *nodes, _state.cover(nodes, other)],)


class _State(threading.local):
    """What this thread is pickling."""

    def __init__(self):
        self.covered = []       # the lists being written, as dicts id -> Apply, innermost last
        self._written = None

    def written(self):
        """The record of the pickler at work."""
        written = None if self._written is None else self._written()
        return self.begin() if written is None else written

    def begin(self):
        """A new record."""
        written = _Written()
        self._written = weakref.ref(written)
        return written

    def cover(self, nodes, written):
        """Let nodes be reduced plainly until the object that is returned has been written."""
        covered = {id(n): n for n in nodes}
        self.covered.append(covered)
        return _End(covered, self.covered, written)

    def is_covered(self, node):
        """Whether a node belongs to the list that is being written."""
        return bool(self.covered) and id(node) in self.covered[-1]


_state = _State()


class _End:
    """Last element of a list: writing it ends the list's coverage and puts its nodes on record; so does dropping it, when pickling has
    failed, without the record."""

    def __init__(self, nodes, lists, written):
        self.nodes = nodes
        self.lists = lists      # of the thread that pickles: any thread may drop this
        self.written = written

    def close(self):
        """End the coverage; harmless when it has ended."""
        lists = self.lists
        for i in range(len(lists) - 1, -1, -1):
            if lists[i] is self.nodes:
                del lists[i]
                return

    def __reduce__(self):
        self.close()
        self.written.nodes.update(self.nodes)
        return tuple, ()

    def __del__(self):
        self.close()


def _last(items):
    """The pickled object itself; the pickler takes it from its memo and drops this value."""
    return items[-2]


def ancestor_nodes(nodes, done=()):
    """The Apply nodes that some nodes depend on and these nodes, inputs first.

    Parameters
    ----------
    nodes : iterable of Apply
    done : container of id
        Nodes to leave out, with what lies behind them.
    """
    order = []
    seen = set()
    for node in nodes:
        if id(node) in seen:
            continue
        seen.add(id(node))
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
    if node is None or _state.is_covered(node) or not any(v.owner is not None for v in node.inputs):
        return object.__reduce_ex__(obj, max(protocol, 2))
    written = _state.written()
    written.wanted = (node,)
    nodes = ancestor_nodes(written.wanted, written.nodes)
    return _last, ([written, *nodes, obj, _state.cover(nodes, written)],)


def deepcopy_in_graph(obj, node, memo):
    """`__deepcopy__` of a variable or node: copies what it depends on first, inputs before users."""
    if node is not None:
        for ancestor in ancestor_nodes((node,), memo):
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
    """The nodes of a container, to stand first in the container's state: whatever follows them finds them written.

    Parameters
    ----------
    nodes : list of Apply
        In topological order, with all that they depend on.
    """

    def __init__(self, nodes):
        self.nodes = nodes

    def __reduce__(self):
        written = _state.written()
        written.wanted = self.nodes
        return list, ([written, *self.nodes, _state.cover(self.nodes, written)],)

    def __deepcopy__(self, memo):
        return [deepcopy(node, memo) for node in self.nodes]
