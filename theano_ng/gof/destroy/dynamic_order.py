"""A topological order that is updated when edges are added or removed.

This is the Python version of `_destroyhandler.DynamicOrder`. When an edge contradicts the order, only the part of the
order between the edge's ends is searched (D. J. Pearce and P. H. J. Kelly, "A dynamic topological sort algorithm for
directed acyclic graphs", ACM JEA 11, 2006). Two searches start at the two ends and advance at the same pace. The nodes
that the first finished search found are moved to the other end. Thus, if a single node has to move past a long chain of
nodes, the chain is not searched. Labels have gaps, so that nodes can be inserted at any position.
"""


class CycleError(Exception):
    """Error: an edge would close a cycle."""


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
        Functions that take a node and return a list or tuple of nodes: the edges of the graph at the time of the call.

    Attributes
    ----------
    searched : int
        The number of nodes that were searched so far because edges contradicted the order.
    """

    def __init__(self, successors, predecessors):
        self.successors = successors
        self.predecessors = predecessors
        self.places = {}
        self.searched = 0
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
        """Insert a node behind all its predecessors that are already in the order."""
        places = self.places
        after = self.head
        for p in self.predecessors(node):
            found = places.get(p)
            if found is not None and found.label > after.label:
                after = found
        places[node] = place = _Place(node, None)
        self._insert([place], after)

    def _insert(self, inserted, after):
        """Insert new places, which are in no list, behind `after`, and assign labels to them."""
        behind = after.next
        if behind is not self.head and behind.label - after.label <= len(inserted):
            self._make_gap(after, len(inserted))
            behind = after.next
        step = _GAP if behind is self.head else (behind.label - after.label) // (len(inserted) + 1)
        for place in inserted:
            place.label = after.label + step
            place.previous = after
            after.next = place
            after = place
        after.next, behind.previous = behind, after

    def _make_gap(self, after, room):
        """Spread the labels behind `after` until there are gaps for `room` places.

        Double the number of labels at each attempt.
        """
        count = 8
        while True:
            run = []
            place = after.next
            while place is not self.head and len(run) < count:
                run.append(place)
                place = place.next
            end = place.label if place is not self.head else after.label + _GAP * (len(run) + 1)
            step = (end - after.label) // (len(run) + 1)
            if step > count and step > room:
                break
            count *= 2
        for i, place in enumerate(run):
            place.label = after.label + step * (i + 1)

    def remove(self, node):
        """Remove a node, if it is in the order."""
        place = self.places.pop(node, None)
        if place is not None:
            place.previous.next, place.next.previous = place.next, place.previous

    def add_edges(self, edges):
        """Update the order so that it agrees with edges that have been added to the graph.

        Parameters
        ----------
        edges : list of (node, node)
            All edges that may contradict the order. Their nodes must be in the order.

        Raises
        ------
        CycleError
            If the edges close a cycle. The order then agrees with the graph's other edges.
        """
        places = self.places
        pending = set()
        wrong = {}
        for u, v in edges:
            if places[u].label >= places[v].label:
                pending.add((u, v))
                wrong.setdefault(u, {})[v] = None
        for u, later in wrong.items():
            if u in later:
                raise CycleError(u)
            # Handle all of `later` together: one may lead back to `u` in a few steps, another through half of the
            # graph.
            still = [v for v in later if places[v].label < places[u].label]
            if still:
                self._reorder(u, still, pending)
            pending.difference_update([(u, v) for v in later])

    def _reorder(self, u, later, pending):
        """Restore the order: either move the nodes that `later` reaches behind `u`, or move the nodes that reach `u`
        forward.

        Search in both directions. Use the direction whose search ends first.
        """
        places = self.places
        last, first = places[u], min([places[v] for v in later], key=_label)
        forward, backward = [places[v] for v in later], [last]
        below, above = set(later), {u}
        # The number of searched nodes, and the number of visited neighbors.
        forward_done = backward_done = forward_cost = backward_cost = 0
        while True:
            self.searched += 1
            if forward_cost <= backward_cost:
                if forward_done == len(forward):
                    self._move(forward, last)
                    return
                w = forward[forward_done].node
                forward_done += 1
                successors = self.successors(w)
                forward_cost += len(successors) + 1
                for s in successors:
                    if s not in below and (w, s) not in pending:
                        if s in above:
                            raise CycleError(u)
                        place = places.get(s)
                        if place is not None and place.label <= last.label:
                            below.add(s)
                            forward.append(place)
            else:
                if backward_done == len(backward):
                    self._move(backward, first.previous)
                    return
                w = backward[backward_done].node
                backward_done += 1
                predecessors = self.predecessors(w)
                backward_cost += len(predecessors) + 1
                for p in predecessors:
                    if p not in above and (p, w) not in pending:
                        if p in below:
                            raise CycleError(u)
                        place = places.get(p)
                        if place is not None and place.label >= first.label:
                            above.add(p)
                            backward.append(place)

    def _move(self, moved, after):
        """Move places behind `after` and keep their relative order. `after` is not one of these places."""
        moved.sort(key=_label)
        for place in moved:
            place.previous.next, place.next.previous = place.next, place.previous
        self._insert(moved, after)


def _label(place):
    return place.label
