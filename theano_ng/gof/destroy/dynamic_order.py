"""A topological order that is kept while edges come and go.

The Python twin of `_destroyhandler.DynamicOrder`. Reordering follows D. J. Pearce and P. H. J. Kelly, "A dynamic topological sort algorithm
for directed acyclic graphs" (ACM JEA 11, 2006): when an edge contradicts the order, only what lies between its ends is searched. Labels
have gaps, so that a node can be put at any place.
"""


class CycleError(Exception):
    """An edge would close a cycle."""


_GAP = 1 << 32


class _Place:
    __slots__ = ("node", "label", "previous", "next")

    def __init__(self, node, label):
        self.node = node
        self.label = label
        self.previous = None
        self.next = None


class DynamicOrder:
    """An order of nodes that agrees with the edges of a graph.

    Parameters
    ----------
    successors, predecessors : callable
        Take a node, return an iterable of nodes: the edges of the graph as they are at the time of the call.
    """

    def __init__(self, successors, predecessors):
        self.successors = successors
        self.predecessors = predecessors
        self.places = {}
        self.head = _Place(None, 0)
        self.head.previous = self.head.next = self.head

    def __contains__(self, node):
        return node in self.places

    def __len__(self):
        return len(self.places)

    def __iter__(self):
        place = self.head.next
        while place is not self.head:
            yield place.node
            place = place.next

    def place(self, node):
        """Put a node behind its predecessors that have a place."""
        places = self.places
        after = self.head
        for p in self.predecessors(node):
            found = places.get(p)
            if found is not None and found.label > after.label:
                after = found
        behind = after.next
        if behind is self.head:
            label = after.label + _GAP
        elif behind.label - after.label > 1:
            label = (after.label + behind.label) // 2
        else:
            self._make_gap(after)
            behind = after.next
            label = (after.label + behind.label) // 2 if behind is not self.head else after.label + _GAP
        place = places[node] = _Place(node, label)
        place.previous, place.next = after, behind
        after.next = behind.previous = place

    def _make_gap(self, after):
        """Spread the labels behind `after` until there is room: twice as many places each time the room does not do."""
        count = 8
        while True:
            run = []
            place = after.next
            while place is not self.head and len(run) < count:
                run.append(place)
                place = place.next
            end = place.label if place is not self.head else after.label + _GAP * (len(run) + 1)
            step = (end - after.label) // (len(run) + 1)
            if step > count:
                break
            count *= 2
        for i, place in enumerate(run):
            place.label = after.label + step * (i + 1)

    def remove(self, node):
        """Forget a node, if it has a place."""
        place = self.places.pop(node, None)
        if place is not None:
            place.previous.next, place.next.previous = place.next, place.previous

    def add_edges(self, edges):
        """Make the order agree with edges that have been added to the graph.

        Parameters
        ----------
        edges : list of (node, node)
            All edges that may contradict the order; every node has a place.

        Raises
        ------
        CycleError
            The order then agrees with all other edges of the graph.
        """
        places = self.places
        wrong = [(u, v) for u, v in edges if places[u].label >= places[v].label]
        pending = set(wrong)
        for u, v in wrong:
            if u is v:
                raise CycleError(u)
            if places[u].label > places[v].label:
                self._reorder(u, v, pending)
            pending.discard((u, v))

    def _reorder(self, u, v, pending):
        """Move what v reaches behind what reaches u."""
        places = self.places
        low, high = places[v].label, places[u].label
        forward = [places[v]]
        seen = {v}
        done = 0
        while done < len(forward):
            w = forward[done].node
            done += 1
            for s in self.successors(w):
                if s not in seen and (w, s) not in pending:
                    if s is u:
                        raise CycleError(u)
                    place = places.get(s)
                    if place is not None and place.label <= high:
                        seen.add(s)
                        forward.append(place)
        backward = [places[u]]
        seen = {u}
        done = 0
        while done < len(backward):
            w = backward[done].node
            done += 1
            for p in self.predecessors(w):
                if p not in seen and (p, w) not in pending:
                    place = places.get(p)
                    if place is not None and place.label >= low:
                        seen.add(p)
                        backward.append(place)
        backward.sort(key=_label)
        forward.sort(key=_label)
        nodes = [place.node for place in backward] + [place.node for place in forward]
        free = sorted(backward + forward, key=_label)
        for place, node in zip(free, nodes):
            place.node = node
            places[node] = place


def _label(place):
    return place.label
