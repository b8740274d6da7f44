"""The time-critical classes of the destroy handler: the order of the nodes, and the classes of variables that share
memory.

When an edge contradicts the order, only the part of the order between the edge's ends is searched (D. J. Pearce and P.
H. J. Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", ACM JEA 11, 2006). Two searches start
at the two ends and advance at the same pace. As soon as one search is complete, the nodes that it found are moved to
the other end. Thus, if a single node has to move past a long chain of nodes, the chain is not searched. Labels have
gaps, so that nodes can be inserted at any position.
"""
cimport cython
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject

cdef object GAP = 1 << 32
cdef tuple NONE = ()


class CycleError(Exception):
    """Error: an edge would close a cycle."""


@cython.trashcan(True)      # places form a linked list: avoid recursion when they are freed
cdef class Place:
    """The position of a node in an order."""


cdef Place new_place(node, label):
    cdef Place place = Place.__new__(Place)
    place.node = node
    place.label = label
    return place


def label_of(Place place):
    """Return the sort key of a place."""
    return place.label


cdef class DynamicOrder:
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
        self.head = new_place(None, 0)
        self.head.previous = self.head
        self.head.next = self.head

    def __contains__(self, node):
        return node in self.places

    def __len__(self):
        return len(self.places)

    def __iter__(self):
        cdef Place place = self.head.next
        while place is not self.head:
            yield place.node
            place = place.next

    cpdef place(self, node):
        """Insert a node behind all its predecessors that are in the order."""
        cdef Place after = self.head, place
        cdef PyObject *found
        for p in self.predecessors(node):
            found = PyDict_GetItem(self.places, p)
            if found is not NULL and (<Place>found).label > after.label:
                after = <Place>found
        place = new_place(node, None)
        cdef list alone = [place], labels = self.labels(1, after, after.next)
        self.places[node] = place
        self.link(alone, labels, after)

    # An allocation of memory can fail. The following methods complete all allocations before they change a place. If an
    # allocation failed later, the list would be half linked, and code that follows its links would crash.

    cdef list labels(self, Py_ssize_t count, Place after, Place behind):
        """Return labels for `count` places between the places `after` and `behind`."""
        if behind is not self.head and behind.label - after.label <= count:
            self.make_gap(after, count)
        step = GAP if behind is self.head else (behind.label - after.label) // (count + 1)
        return [after.label + step * (i + 1) for i in range(count)]

    cdef void link(self, list inserted, list labels, Place after) noexcept:
        """Insert places, which are in no list yet, directly behind the place `after`."""
        cdef Place behind = after.next, place
        cdef Py_ssize_t i
        for i in range(len(inserted)):
            place = <Place>inserted[i]
            place.label = labels[i]
            place.previous = after
            after.next = place
            after = place
        after.next = behind
        behind.previous = after

    cdef int make_gap(self, Place after, Py_ssize_t room) except -1:
        """Spread the labels behind `after` until there are gaps for `room` places.

        Each attempt spreads the labels of twice as many places as the previous attempt.
        """
        cdef Py_ssize_t count = 8, i
        cdef Place place
        cdef list run, labels
        while True:
            run = []
            place = after.next
            while place is not self.head and len(run) < count:
                run.append(place)
                place = place.next
            end = place.label if place is not self.head else after.label + GAP * (len(run) + 1)
            step = (end - after.label) // (len(run) + 1)
            if step > count and step > room:
                break
            count *= 2
        labels = [None] * len(run)
        for i in range(len(run)):
            labels[i] = after.label + step * (i + 1)
        for i in range(len(run)):
            (<Place>run[i]).label = labels[i]
        return 0

    cpdef remove(self, node):
        """Remove a node, if it is in the order."""
        cdef Place place = self.places.pop(node, None)
        if place is not None:
            place.previous.next = place.next
            place.next.previous = place.previous
            place.previous = place.next = None

    cpdef add_edges(self, edges):
        """Update the order so that it agrees with edges that have been added to the graph.

        Parameters
        ----------
        edges : list of (node, node)
            All edges that may contradict the order. Their nodes must be in the order.

        Raises
        ------
        CycleError
            If the edges close a cycle. The order then still agrees with all edges of the graph that are not in `edges`.
        """
        cdef set pending = set()
        cdef dict wrong = {}, later
        cdef list still
        cdef Place before, after
        for edge in edges:
            u, v = edge
            before = self.places[u]
            after = self.places[v]
            if before.label >= after.label:
                pending.add((u, v))
                (<dict>wrong.setdefault(u, {}))[v] = None
        for u, later in wrong.items():
            if u in later:
                raise CycleError(u)
            # Search from all nodes in `later` together: the path from one node back to `u` may be short, while the path
            # from another node may lead through half of the graph.
            before = self.places[u]
            still = []
            for v in later:
                after = self.places[v]
                if after.label < before.label:
                    still.append(v)
            if still:
                self.reorder(u, still, pending)
            for v in later:
                pending.discard((u, v))

    cdef int reorder(self, u, list later, set pending) except -1:
        """Place `u` before the nodes in `later`, to which it has new edges.

        Either the nodes that can be reached from `later` move behind `u`, or the nodes from which `u` can be reached
        move before `later`. Both sets are searched alternately; the nodes of the set that is complete first are moved.
        """
        cdef Place last = self.places[u], first = None, place
        cdef list forward = [], backward = [last]
        cdef set below = set(later), above = {u}
        # For each direction, the number of expanded nodes (done) and the number of visited neighbors (cost).
        cdef Py_ssize_t forward_done = 0, backward_done = 0, forward_cost = 0, backward_cost = 0
        cdef PyObject *found
        for v in later:
            place = self.places[v]
            forward.append(place)
            if first is None or place.label < first.label:
                first = place
        while True:
            self.searched += 1
            if forward_cost <= backward_cost:
                if forward_done == len(forward):
                    return self.move(forward, last)
                w = (<Place>forward[forward_done]).node
                forward_done += 1
                successors = self.successors(w)
                forward_cost += len(successors) + 1
                for s in successors:
                    if s not in below and (w, s) not in pending:
                        if s in above:
                            raise CycleError(u)
                        found = PyDict_GetItem(self.places, s)
                        if found is not NULL and (<Place>found).label <= last.label:
                            below.add(s)
                            forward.append(<Place>found)
            else:
                if backward_done == len(backward):
                    return self.move(backward, first.previous)
                w = (<Place>backward[backward_done]).node
                backward_done += 1
                predecessors = self.predecessors(w)
                backward_cost += len(predecessors) + 1
                for p in predecessors:
                    if p not in above and (p, w) not in pending:
                        if p in below:
                            raise CycleError(u)
                        found = PyDict_GetItem(self.places, p)
                        if found is not NULL and (<Place>found).label >= first.label:
                            above.add(p)
                            backward.append(<Place>found)

    cdef int move(self, list moved, Place after) except -1:
        """Move places behind `after`, and keep their relative order. `after` is not one of the moved places."""
        cdef Place behind = after.next, place
        cdef set moving = set(moved)
        cdef list labels
        moved.sort(key=label_of)
        while behind in moving:
            behind = behind.next
        labels = self.labels(len(moved), after, behind)
        for place in moved:
            place.previous.next = place.next
            place.next.previous = place.previous
        self.link(moved, labels, after)
        return 0


cdef class AliasClass:
    """A root variable, and all variables that are its views, directly or indirectly."""


cdef AliasClass new_class(root):
    cdef AliasClass made = AliasClass.__new__(AliasClass)
    made.root = root
    made.size = 1
    made.destroyers = {}
    made.cyclic = False
    return made


cdef class AliasClasses:
    """Variables, their views, and the nodes that overwrite them.

    The methods `root` and `destroyers` take constant time for any number of views. The cost of a change grows with the
    size of the smaller of the two classes that the change joins or creates. Moving a view within its class relabels
    nothing.

    Attributes
    ----------
    view_i : dict
        For each view, the variable that it is a view of.
    view_o : dict
        For each variable, its direct views, as keys of a dict.
    destroyed : dict
        For each variable, ``{(node, i): count}``: the node overwrites the variable as its input i, by `count` of its
        outputs.
    """

    def __init__(self):
        self.view_i = {}
        self.view_o = {}
        self.destroyed = {}
        self.classes = {}

    cpdef root(self, r):
        """Return the variable that `r` is a view of, directly or indirectly. Return `r` itself if it is not a view."""
        cdef PyObject *found = PyDict_GetItem(self.classes, r)
        return r if found is NULL else (<AliasClass>found).root

    cpdef destroyers(self, r):
        """Return the pairs ``(node, i)`` that overwrite the memory of a variable, directly or through a view."""
        cdef PyObject *found = PyDict_GetItem(self.classes, r)
        return NONE if found is NULL else (<AliasClass>found).destroyers

    cpdef list members(self, r):
        """Return a list of all variables that share memory with `r`. Each variable comes before its views."""
        root = self.root(r)
        cdef dict found = {root: None}
        cdef list pending = [root]
        cdef PyObject *views
        while pending:
            views = PyDict_GetItem(self.view_o, pending.pop())
            if views is not NULL:
                for v in <dict>views:
                    if v not in found:
                        found[v] = None
                        pending.append(v)
        return list(found)

    # ------------------------------------------------------------ views

    cpdef add_view(self, out, viewed):
        """Record that `out`, which was not a view, is a view of `viewed`."""
        self.view_i[out] = viewed
        (<dict>self.view_o.setdefault(viewed, {}))[out] = None
        self.join(out, viewed)

    cpdef remove_view(self, out):
        """Record that `out` is no longer a view."""
        self.unlink(out)
        self.part(out)

    cpdef move_view(self, out, viewed):
        """Record that `out`, which was a view of another variable, is now a view of `viewed`."""
        cdef AliasClass before = self.classes[out]
        cdef bint inside = before is self.classes.get(viewed) and not before.cyclic and not self.is_below(viewed, out)
        self.unlink(out)
        if inside:
            self.view_i[out] = viewed
            (<dict>self.view_o.setdefault(viewed, {}))[out] = None
            return
        self.part(out)
        self.add_view(out, viewed)

    cdef bint is_below(self, r, top):
        """Return True if `r` is `top`, or a view of it, directly or indirectly."""
        if top not in self.view_o:
            return r is top
        # Stop at the next few variables of which `top` is a view: from there on, the search for `top` cannot succeed.
        # So long chains of views are not followed, because `r` is usually a view of one of these variables, too.
        cdef dict near = {}
        v = self.view_i.get(top)
        while v is not None and len(near) < 4:
            near[v] = None
            v = self.view_i.get(v)
        while r is not None and r not in near:
            if r is top:
                return True
            r = self.view_i.get(r)
        return False

    cdef int unlink(self, out) except -1:
        viewed = self.view_i.pop(out)
        cdef dict views = self.view_o[viewed]
        del views[out]
        if not views:
            del self.view_o[viewed]
        return 0

    cdef int join(self, out, viewed) except -1:
        cdef AliasClass above = self.classes.get(viewed), below = self.classes.get(out)
        if above is None:
            above = new_class(viewed)
            self.classes[viewed] = above
            if out is viewed:
                below = above
        if below is None:
            self.classes[out] = above
            above.size += 1
        elif below is above:
            above.cyclic = True
        elif below.size <= above.size:
            self.relabel(out, None, above)
            above.size += below.size
            above.destroyers.update(below.destroyers)
            above.cyclic = above.cyclic or below.cyclic
        else:
            self.relabel(above.root, out, below)
            below.root = above.root
            below.size += above.size
            below.destroyers.update(above.destroyers)
            below.cyclic = above.cyclic or below.cyclic
        return 0

    cdef int relabel(self, top, without, AliasClass label) except -1:
        """Assign a class to `top` and to its direct and indirect views, except to `without` and the views of `without`.
        """
        cdef list pending = [top]
        cdef PyObject *views
        while pending:
            r = pending.pop()
            self.classes[r] = label
            views = PyDict_GetItem(self.view_o, r)
            if views is not NULL:
                for v in <dict>views:
                    if v is not without and self.classes.get(v) is not label:
                        pending.append(v)
        return 0

    cdef int part(self, out) except -1:
        """Split a class after `out` has been unlinked from the variable of which it was a view."""
        cdef AliasClass whole = self.classes[out], made, left
        cdef list moved
        if whole.cyclic:
            return self.rebuild(whole, out)
        if out not in self.view_o:
            moved, root = [out], out
        else:
            moved, root = self.smaller_part(out, whole.root)
        made = new_class(root)
        made.size = len(moved)
        whole.size -= made.size
        if root is not out:
            # `out` and its views stay in the class `whole`, whose new root is `out`.
            whole.root = out
        for r in moved:
            self.classes[r] = made
            if whole.destroyers:
                for use in self.destroyed.get(r, NONE):
                    del whole.destroyers[use]
                    made.destroyers[use] = None
        for left in (whole, made):
            if left.size == 1 and not left.destroyers:
                del self.classes[left.root]
        return 0

    cdef tuple smaller_part(self, one, other):
        """Return the members and the root of the smaller of the two trees of views with the roots `one` and `other`.

        Both trees are traversed at the same pace, until one of them is complete.
        """
        first, second = walk(self.view_o, one), walk(self.view_o, other)
        cdef list found_first = [], found_second = []
        while True:
            r = next(first, None)
            if r is None:
                return found_first, one
            found_first.append(r)
            r = next(second, None)
            if r is None:
                return found_second, other
            found_second.append(r)

    cdef int rebuild(self, AliasClass whole, out) except -1:
        """Build new classes from the members of a class that contained a cycle."""
        cdef dict found = {out: None, whole.root: None}
        cdef list pending = list(found), links
        cdef AliasClass made
        while pending:
            for v in self.view_o.get(pending.pop(), NONE):
                if v not in found:
                    found[v] = None
                    pending.append(v)
        for r in found:
            del self.classes[r]
        for r in found:
            uses = self.destroyed.get(r)
            if uses:
                made = new_class(r)
                made.destroyers.update(dict.fromkeys(uses))
                self.classes[r] = made
        # Remove all views before adding them again: `relabel`, called for one view, must not reach a view that is added
        # later.
        links = [(r, self.view_i[r]) for r in found if r in self.view_i]
        for r, viewed in links:
            self.unlink(r)
        for r, viewed in links:
            self.add_view(r, viewed)
        return 0

    # ------------------------------------------------------------ destroyers

    cpdef add_destroyer(self, r, app, i):
        """Record that an output of a node overwrites `r`, its input i."""
        cdef dict uses = self.destroyed.setdefault(r, {})
        cdef AliasClass found
        use = (app, i)
        uses[use] = uses.get(use, 0) + 1
        found = self.classes.get(r)
        if found is None:
            found = new_class(r)
            self.classes[r] = found
        found.destroyers[use] = None

    cpdef remove_destroyer(self, r, app, i):
        """Record that a node no longer overwrites `r`, which was its input i."""
        cdef dict uses = self.destroyed[r]
        cdef AliasClass found
        use = (app, i)
        del uses[use]
        if not uses:
            del self.destroyed[r]
        found = self.classes[r]
        del found.destroyers[use]
        if found.size == 1 and not found.destroyers and not found.cyclic:
            del self.classes[r]


def walk(dict view_o, top):
    """Generate a variable and its direct and indirect views, from a tree of views."""
    cdef list stack = [iter(view_o.get(top, NONE))]
    yield top
    while stack:
        for r in stack[len(stack) - 1]:
            yield r
            if r in view_o:
                stack.append(iter(view_o[r]))
            break
        else:
            stack.pop()


cpdef list destroyed_indices(app):
    """Return the indices of the inputs that a node overwrites, once for each output that overwrites the input."""
    destroy_map = getattr(app.op, "destroy_map", None)
    cdef list found = []
    if destroy_map:
        for places in destroy_map.values():
            found.extend(places)
    return found


cdef class Constraints:
    """The constraints on the order of nodes.

    A node follows the nodes that compute its inputs, and the other readers of memory that it overwrites.
    """

    def __init__(self, AliasClasses aliases):
        self.aliases = aliases

    cpdef list successors(self, app):
        """Return a list of the nodes that have to come after a node.

        These are the nodes that use its outputs, and the nodes that destroy its inputs.
        """
        cdef list found = []
        for out in app.outputs:
            for use in out.clients:
                client = use[0]
                if not isinstance(client, str):
                    found.append(client)
        found.extend(self.destroyers_of(app, app.inputs))
        return found

    cpdef list predecessors(self, app):
        """Return a list of the nodes that have to come before a node.

        These are the nodes that compute its inputs, and the other nodes that use the memory that it destroys.
        """
        cdef list found = []
        for r in app.inputs:
            owner = r.owner
            if owner is not None:
                found.append(owner)
        for i in destroyed_indices(app):
            found.extend(self.other_users(app, self.aliases.members(app.inputs[i])))
        return found

    cpdef list other_users(self, app, members):
        """Return a list of the nodes other than `app` that read one of the variables in `members`."""
        cdef list found = []
        for v in members:
            for use in v.clients:
                client = use[0]
                if client is not app and not isinstance(client, str):
                    found.append(client)
        return found

    cpdef list destroyers_of(self, app, variables):
        """Return a list of the nodes other than `app` that overwrite the memory of one of the variables."""
        cdef list found = []
        for r in variables:
            for use in self.aliases.destroyers(r):
                client = use[0]
                if client is not app:
                    found.append(client)
        return found
