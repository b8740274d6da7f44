"""Pickling and deep-copying graphs of any size without recursion, in time and bytes that grow with the graph.

A pickler descends from a variable to its owner, to the owner's inputs and so on: a long chain exhausts the stack. Here the first object
of a graph that a pickler meets is reduced to a call with its ancestors in topological order as arguments, followed by itself. While these
are written, each of the nodes is reduced plainly: its inputs have been written before, so the pickler goes one level deep. On loading, the
arguments are thrown away; the pickler's memo has everything.

A pickler that meets many variables of one graph, one after the other, gets such a list for each. A list leaves out what earlier ones had:
it begins with the record of what this pickler has written (`_Written`), so that all lists together are as long as the graph.
"""

import threading
import weakref
from copy import deepcopy

from theano_ng.gof.utils import fewer_collections


class _Written:
    """The nodes of the lists that one pickler has written.

    A pickler's memo holds it, so it lives as long as its pickler. Each list begins with it. The pickler that has it in its memo does not
    ask for it again; when it is asked for a second time, it is by another pickler, which gets a list of everything and a record of its own.
    """

    def __init__(self):
        self.nodes = {}  # id -> Apply
        self.wanted = ()  # nodes for the sake of which the latest list was begun
        self._has_pickler = False

    def __reduce__(self):
        if not self._has_pickler:
            self._has_pickler = True
            return _Loading, ()
        return _nothing, _state.list_of(ancestor_nodes(self.wanted), _state.begin())


class _Loading:
    """What a loaded record is: while the unpickler lives, in whose memo it is, the cycle collector runs less often."""

    def __init__(self):
        self.relief = fewer_collections()
        self.relief.__enter__()

    def __del__(self):
        self.relief.__exit__(None, None, None)


class _State(threading.local):
    """What this thread is pickling."""

    def __init__(self):
        self._lists = []  # weak references to those being written, innermost last
        self._written = None

    def written(self):
        """The record of the pickler at work."""
        written = None if self._written is None else self._written()
        return self.begin() if written is None else written

    def begin(self):
        """Start a new record, in place of the last one."""
        written = _Written()
        self._written = weakref.ref(written)
        return written

    def list_of(self, nodes, written, *objects):
        """A tuple to be written: the record, nodes and objects, and an end; until that is written, the nodes are reduced plainly."""
        found = _List({id(n): n for n in nodes}, written)
        self._lists.append(weakref.ref(found))
        return (written, *nodes, *objects, _End(found))

    def list_at_work(self):
        """The innermost list that is being written, or None."""
        while self._lists:
            found = self._lists[-1]()
            if found is not None and not found.written_to_its_end:
                return found
            self._lists.pop()
        return None

    def is_covered(self, node):
        """Whether a node belongs to the list that is being written."""
        found = self.list_at_work()
        return found is not None and id(node) in found.nodes


_state = _State()


class _List:
    """The nodes of a list, the record that it belongs to, and what has to be written after it."""

    def __init__(self, nodes, written):
        self.nodes = nodes  # id -> Apply
        self.written = written
        self.postponed = []  # arguments of setattr
        self.written_to_its_end = False


class _End:
    """The last element of a list. Writing it records the nodes of the list as written.

    A list is pickled as a tuple, which picklers do not keep before it is complete. This object holds the only reference to the list, so both are
    freed when pickling fails. No code has to run then that could run out of memory.
    """

    def __init__(self, ends):
        self.ends = ends

    def __reduce__(self):
        self.ends.written_to_its_end = True
        self.ends.written.nodes.update(self.ends.nodes)
        return _nothing, tuple(_Later(*arguments) for arguments in self.ends.postponed)


class _Later:
    """An attribute that is set when its object is complete."""

    def __init__(self, obj, name, value):
        self.arguments = obj, name, value

    def __reduce__(self):
        return setattr, self.arguments


def _nothing(*items):
    """Items that are only there to be in the pickler's memo."""
    return ()


def _last_but_one(*items):
    """The pickled object itself; the pickler takes it from its memo and drops this value."""
    return items[-2]


def _last(items):
    """The pickled object itself, in former pickles."""
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
        reduced = object.__reduce_ex__(obj, max(protocol, 2))
        return reduced if node is not None or _state.list_at_work() is None else _without_update(obj, reduced)
    written = _state.written()
    written.wanted = (node,)
    return _last_but_one, _state.list_of(ancestor_nodes(written.wanted, written.nodes), written, obj)


def _without_update(obj, reduced):
    """Postpone the default update of a shared variable in a list: it may depend on the nodes of the list, and on other shared variables,
    whose updates depend on others."""
    state = reduced[2]
    if not isinstance(state, dict) or getattr(state.get("default_update"), "owner", None) is None:
        return reduced
    state = dict(state)
    _state.list_at_work().postponed.append((obj, "default_update", state.pop("default_update")))
    return (*reduced[:2], state, *reduced[3:])


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
        return _nothing, _state.list_of(self.nodes, written)

    def __deepcopy__(self, memo):
        return [deepcopy(node, memo) for node in self.nodes]
