"""Pickling and deep-copying of graphs of any size, without recursion, in linear time and size.

By default, a pickler descends from a variable to its owner, to the owner's inputs and so on, so a long chain of nodes
exhausts the stack. This module reduces the first object of a graph that a pickler meets to a call. The arguments of the
call (a "list") are the object's ancestors in topological order, and the object itself. While the list is written, each
node is reduced plainly: its inputs were written before, so the pickler descends only one level. When the pickle is
loaded, the arguments are discarded: the objects are in the unpickler's memo.

A pickler that meets many variables of one graph writes such a list for each variable. A list omits the nodes of earlier
lists: it begins with the record of the nodes that this pickler has written (`_Written`). All lists together are
therefore as long as the graph.
"""

import threading
import weakref
from copy import deepcopy

from theano_ng.gof.utils import fewer_collections


class _Written:
    """A record of the nodes in all lists that one pickler has written.

    Each list begins with the record of its pickler. The pickler's memo holds the record, so the record lives as long as
    the pickler. A pickler calls `__reduce__` of a record only once. A second call therefore comes from a different
    pickler, which then gets a list of all nodes and a separate record.
    """

    def __init__(self):
        self.nodes = {}  # id -> Apply
        self.wanted = ()  # nodes whose ancestors the latest list contains
        self._has_pickler = False

    def __reduce__(self):
        if not self._has_pickler:
            self._has_pickler = True
            return _Loading, ()
        return _nothing, _state.list_of(ancestor_nodes(self.wanted), _state.begin())


class _Loading:
    """The object that the unpickler creates for a record.

    The unpickler's memo holds this object until loading is finished. While this object exists, the cycle collector runs
    less often.
    """

    def __init__(self):
        self.relief = fewer_collections()
        self.relief.__enter__()

    def __del__(self):
        self.relief.__exit__(None, None, None)


class _State(threading.local):
    """The lists and the record that this thread is pickling."""

    def __init__(self):
        self._lists = []  # weak references to the lists being written, innermost last
        self._written = None

    def written(self):
        """Return the record of the active pickler."""
        written = None if self._written is None else self._written()
        return self.begin() if written is None else written

    def begin(self):
        """Start a new record, which replaces the previous record."""
        written = _Written()
        self._written = weakref.ref(written)
        return written

    def list_of(self, nodes, written, *objects):
        """Return the items to write: the record, the nodes, the objects and an `_End`.

        Until the `_End` is written, the nodes are reduced plainly.
        """
        found = _List({id(n): n for n in nodes}, written)
        self._lists.append(weakref.ref(found))
        return (written, *nodes, *objects, _End(found))

    def list_at_work(self):
        """Return the innermost list that is being written, or None."""
        while self._lists:
            found = self._lists[-1]()
            if found is not None and not found.written_to_its_end:
                return found
            self._lists.pop()
        return None

    def is_covered(self, node):
        """Return True if the node belongs to the list that is being written."""
        found = self.list_at_work()
        return found is not None and id(node) in found.nodes


_state = _State()


class _List:
    """The nodes of a list, the record that the list belongs to, and attributes to write after the list."""

    def __init__(self, nodes, written):
        self.nodes = nodes  # id -> Apply
        self.written = written
        self.postponed = []  # tuples of arguments of setattr
        self.written_to_its_end = False


class _End:
    """The last element of a list. Writing it records the nodes of the list as written.

    A list is pickled as a tuple, and a pickler keeps a tuple only when the tuple is complete. This object holds the
    only reference to the `_List`, so both objects are freed if pickling fails. Thus no clean-up code is needed, which
    could itself run out of memory.
    """

    def __init__(self, ends):
        self.ends = ends

    def __reduce__(self):
        self.ends.written_to_its_end = True
        self.ends.written.nodes.update(self.ends.nodes)
        return _nothing, tuple(_Later(*arguments) for arguments in self.ends.postponed)


class _Later:
    """An attribute that is pickled after the list that contains its object. Loading sets the attribute by `setattr`."""

    def __init__(self, obj, name, value):
        self.arguments = obj, name, value

    def __reduce__(self):
        return setattr, self.arguments


def _nothing(*items):
    """Return an empty tuple. The items are written only to be in the pickler's memo."""
    return ()


def _last_but_one(*items):
    """Return the last item but one, which is the pickled object.

    The unpickler calls this function with the loaded items. It discards the result, and gets the object from its memo.
    """
    return items[-2]


def _last(items):
    """Return the last item but one, which is the pickled object. Pickles of older versions call this function."""
    return items[-2]


def ancestor_nodes(nodes, done=()):
    """Return these nodes and the Apply nodes on which they depend, inputs first.

    Parameters
    ----------
    nodes : iterable of Apply
    done : container of id
        Ids of nodes to leave out. The ancestors of these nodes are not searched.
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
    """Return the result of `__reduce_ex__` of a variable or node.

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
    """Return `reduced` without the default update of a shared variable. The update is pickled after the current list.

    The default update may depend on the nodes of the list, and on other shared variables with default updates.
    """
    state = reduced[2]
    if not isinstance(state, dict) or getattr(state.get("default_update"), "owner", None) is None:
        return reduced
    state = dict(state)
    _state.list_at_work().postponed.append((obj, "default_update", state.pop("default_update")))
    return (*reduced[:2], state, *reduced[3:])


def deepcopy_in_graph(obj, node, memo):
    """Return a deep copy of a variable or node. Its ancestors are copied first, inputs before users."""
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
    # The memo identifies originals by id, so it has to keep them alive.
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
    """The nodes of a container, for use as the first item of the container's pickled state.

    The pickler then writes the nodes before the other items of the state, and without recursion.

    Parameters
    ----------
    nodes : list of Apply
        The nodes of the container and all nodes on which these nodes depend, in topological order.
    """

    def __init__(self, nodes):
        self.nodes = nodes

    def __reduce__(self):
        written = _state.written()
        written.wanted = self.nodes
        return _nothing, _state.list_of(self.nodes, written)

    def __deepcopy__(self, memo):
        return [deepcopy(node, memo) for node in self.nodes]
