"""Sorting of nodes by dependence and by comparison functions.

A comparison function takes two objects. It returns a negative number if the first object has to come first, a positive
number if the second object has to come first, and 0 if the order does not matter.
"""

from theano_ng.gof.graph import list_of_nodes
from theano_ng.gof.traversal import ancestors
from theano_ng.gof.utils import memoize


def memodict(f):
    """Return a memoized version of a function of one hashable argument."""

    class Memo(dict):
        def __missing__(self, key):
            value = self[key] = f(key)
            return value

    return Memo().__getitem__


def make_depends():
    """Return a memoizing function ``depends(pair)``.

    The returned function returns True if the node ``pair[0]`` depends on the node ``pair[1]``, directly or indirectly.
    """

    @memodict
    def nodes_before(node):
        return {v.owner for v in ancestors(node.inputs) if v.owner is not None}

    def depends(pair):
        a, b = pair
        return a is not b and b in nodes_before(a)

    return depends


def make_dependence_cmp():
    """Return a comparison function for nodes that puts dependencies first."""
    depends = make_depends()

    def dependence(a, b):
        if depends((a, b)):
            return 1
        if depends((b, a)):
            return -1
        return 0

    return dependence


def reverse_dict(d):
    """Return the inverse of a dict of collections.

    >>> reverse_dict({'a': (1, 2), 'b': (2, 3)})
    {1: ('a',), 2: ('a', 'b'), 3: ('b',)}
    """
    result = {}
    for key, values in d.items():
        for value in values:
            result[value] = result.get(value, ()) + (key,)
    return result


def _toposort(edges):
    """Return a topological order of a graph.

    Parameters
    ----------
    edges : dict
        Node -> tuple of nodes that come after it.

    Returns
    -------
    list
        All nodes that are keys or elements in `edges`.

    Raises
    ------
    ValueError
        If there is a cycle.
    """
    before = {}
    nodes = {}
    for a, followers in edges.items():
        nodes[a] = None
        for b in followers:
            nodes[b] = None
            before.setdefault(b, {})[a] = None
    count = {node: len(before.get(node, ())) for node in nodes}
    order = [node for node in nodes if not count[node]]
    done = 0
    while done < len(order):
        for b in dict.fromkeys(edges.get(order[done], ())):
            count[b] -= 1
            if not count[b]:
                order.append(b)
        done += 1
    if len(order) != len(nodes):
        raise ValueError("Input has cycles")
    return order


def posort(l, *cmps):
    """Sort by several comparison functions. Earlier functions have priority.

    Parameters
    ----------
    l : list
        Hashable objects.
    *cmps : callable
        Comparison functions. They need not order every pair. If two functions disagree, the earlier function decides.

    Returns
    -------
    list

    Examples
    --------
    >>> lower_tens = lambda a, b: a // 10 - b // 10
    >>> prefer_evens = lambda a, b: a % 2 - b % 2
    >>> posort(list(range(20)), lower_tens, prefer_evens)
    [0, 2, 4, 6, 8, 1, 3, 5, 7, 9, 10, 12, 14, 16, 18, 11, 13, 15, 17, 19]
    """
    after = {x: {} for x in l}
    before = {x: {} for x in l}

    def reaches(a, b):
        """Return True if the order determined so far puts a before b."""
        seen = {a}
        stack = [a]
        while stack:
            for c in after[stack.pop()]:
                if c is b or c == b:
                    return True
                if c not in seen:
                    seen.add(c)
                    stack.append(c)
        return False

    for compare in cmps:
        for i, a in enumerate(l):
            for b in l[i + 1 :]:
                sign = compare(a, b)
                if sign:
                    first, second = (a, b) if sign < 0 else (b, a)
                    if second not in after[first] and not reaches(second, first):
                        after[first][second] = None
                        before[second][first] = None
    return _toposort({x: tuple(after[x]) for x in l})


def sort_apply_nodes(inputs, outputs, cmps):
    """Order the nodes between inputs and outputs by dependence first, then by comparison functions.

    Parameters
    ----------
    inputs, outputs : list of Variable
    cmps : list of callable

    Returns
    -------
    list of Apply
    """
    return posort(list_of_nodes(inputs, outputs), make_dependence_cmp(), *cmps)


def sort_schedule_fn(*cmps):
    """Return a schedule for linkers that is based on comparison functions.

    Parameters
    ----------
    *cmps : callable

    Returns
    -------
    callable
        A function that takes a FunctionGraph and returns its nodes. Their order respects dependence first, then the
        orderings of features, then `cmps`.
    """

    def schedule(fgraph):
        """Return the nodes of a FunctionGraph in order."""
        orderings = fgraph.orderings()

        def feature_order(a, b):
            if b in orderings.get(a, ()):
                return 1
            if a in orderings.get(b, ()):
                return -1
            return 0

        return posort(list_of_nodes(fgraph.inputs, fgraph.outputs), make_dependence_cmp(), feature_order, *cmps)

    return schedule


def key_to_cmp(key):
    """Return a comparison function that is based on a key function."""

    def key_cmp(a, b):
        first, second = key(a), key(b)
        return (first > second) - (first < second)

    return key_cmp


__all__ = [
    "_toposort",
    "key_to_cmp",
    "make_dependence_cmp",
    "make_depends",
    "memodict",
    "memoize",
    "posort",
    "reverse_dict",
    "sort_apply_nodes",
    "sort_schedule_fn",
]
