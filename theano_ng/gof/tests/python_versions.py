"""Python versions of the compiled classes and functions of `gof._destroyhandler` and `gof._toposort`.

They are models: tests compare their results with those of the compiled versions. The comments in the compiled versions
explain the algorithms.
"""

from theano_ng.gof._destroyhandler import CycleError, destroyed_indices
from theano_ng.gof.graph import general_toposort

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
        """Insert a node into the order, behind its predecessors that the order contains."""
        places = self.places
        after = self.head
        for p in self.predecessors(node):
            found = places.get(p)
            if found is not None and found.label > after.label:
                after = found
        places[node] = place = _Place(node, None)
        self._insert([place], after)

    def _insert(self, inserted, after):
        """Insert places behind `after`, and assign labels to them. The places must not be in the list yet."""
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
        """Increase the gaps between the labels behind `after`, until each gap has room for `room` places.

        Each attempt spreads twice as many labels as the previous attempt.
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
            # Search from all nodes in `later` together: the path from one node back to `u` may be short, while the path
            # from another node may lead through half of the graph.
            still = [v for v in later if places[v].label < places[u].label]
            if still:
                self._reorder(u, still, pending)
            pending.difference_update([(u, v) for v in later])

    def _reorder(self, u, later, pending):
        """Restore the order of `u` and the nodes `later`, which must come after `u`.

        Either move `later` and the nodes that depend on `later` to places behind `u`, or move `u` and the nodes on
        which `u` depends to places in front of `later`. Search in both directions. Use the direction whose search ends
        first.
        """
        places = self.places
        last, first = places[u], min([places[v] for v in later], key=_label)
        forward, backward = [places[v] for v in later], [last]
        below, above = set(later), {u}
        # The numbers of nodes that the two searches have expanded, and the numbers of neighbors that they have visited.
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


class _Class:
    """An alias class: a variable, its root, and all variables that are direct or indirect views of the root."""

    __slots__ = ("root", "size", "destroyers", "cyclic")

    def __init__(self, root):
        self.root = root
        self.size = 1
        # The key (node, i) means that input i of the node is a member of the class, and that the node overwrites it.
        self.destroyers = {}
        # True if views form a cycle: the graph is then in a temporary, invalid state.
        self.cyclic = False


class AliasClasses:
    """The alias classes of a graph, and the nodes that overwrite variables.

    `root` and `destroyers` take constant time for any number of views. If a change joins two classes, or splits a class
    in two, its cost grows with the size of the smaller class. Moving a view within its class relabels nothing.

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
        # A variable that is missing here has no alias and is not destroyed.
        self._class = {}

    def root(self, r):
        """Return the variable of which `r` is a view, directly or indirectly. Return `r` if it is not a view."""
        found = self._class.get(r)
        return r if found is None else found.root

    def destroyers(self, r):
        """Return the pairs ``(node, i)`` that overwrite the memory of a variable, directly or through a view."""
        found = self._class.get(r)
        return () if found is None else found.destroyers

    def members(self, r):
        """Return a list of all variables that share memory with `r`. Each variable comes before its views."""
        root = self.root(r)
        found = {root: None}
        pending = [root]
        view_o = self.view_o
        while pending:
            for v in view_o.get(pending.pop(), ()):
                if v not in found:
                    found[v] = None
                    pending.append(v)
        return list(found)

    # ------------------------------------------------------------ views

    def add_view(self, out, viewed):
        """Record that `out`, which was not a view, is a view of `viewed`."""
        self.view_i[out] = viewed
        self.view_o.setdefault(viewed, {})[out] = None
        self._join(out, viewed)

    def remove_view(self, out):
        """Record that `out` is no longer a view."""
        self._unlink(out)
        self._part(out)

    def move_view(self, out, viewed):
        """Record that `out`, which was a view of another variable, is now a view of `viewed`."""
        before = self._class[out]
        inside = before is self._class.get(viewed) and not before.cyclic and not self._is_below(viewed, out)
        self._unlink(out)
        if inside:
            self.view_i[out] = viewed
            self.view_o.setdefault(viewed, {})[out] = None
            return
        self._part(out)
        self.add_view(out, viewed)

    def _is_below(self, r, top):
        """Return True if `r` is `top`, or a direct or indirect view of `top`."""
        if top not in self.view_o:
            return r is top
        view_i = self.view_i
        # A replacement is usually close to the replaced variable. Stop at the variables just above `top`, so that long
        # chains of views are not followed.
        near = {}
        v = view_i.get(top)
        while v is not None and len(near) < 4:
            near[v] = None
            v = view_i.get(v)
        while r is not None and r not in near:
            if r is top:
                return True
            r = view_i.get(r)
        return False

    def _unlink(self, out):
        viewed = self.view_i.pop(out)
        views = self.view_o[viewed]
        del views[out]
        if not views:
            del self.view_o[viewed]

    def _join(self, out, viewed):
        classes = self._class
        above = classes.get(viewed)
        if above is None:
            above = classes[viewed] = _Class(viewed)
        below = classes.get(out)
        if below is None:
            classes[out] = above
            above.size += 1
        elif below is above:
            above.cyclic = True
        elif below.size <= above.size:
            self._relabel(out, None, above)
            above.size += below.size
            above.destroyers.update(below.destroyers)
            above.cyclic = above.cyclic or below.cyclic
        else:
            self._relabel(above.root, out, below)
            below.root = above.root
            below.size += above.size
            below.destroyers.update(above.destroyers)
            below.cyclic = above.cyclic or below.cyclic

    def _relabel(self, top, without, label):
        """Assign a class to `top` and to all views below it, except to `without` and to the views below `without`."""
        classes, view_o = self._class, self.view_o
        pending = [top]
        while pending:
            r = pending.pop()
            classes[r] = label
            for v in view_o.get(r, ()):
                if v is not without and classes.get(v) is not label:
                    pending.append(v)

    def _part(self, out):
        """Split the class of `out` after `out` has been unlinked from the variable of which it was a view."""
        classes = self._class
        whole = classes[out]
        if whole.cyclic:
            self._rebuild(whole, out)
            return
        if out not in self.view_o:
            moved, root = [out], out
        else:
            moved, root = self._smaller_part(out, whole.root)
        part = _Class(root)
        part.size = len(moved)
        whole.size -= part.size
        if root is not out:
            # The part without `out` was smaller, so `out` and its views keep the class, and `out` becomes its root.
            whole.root = out
        for r in moved:
            classes[r] = part
            if whole.destroyers:
                for use in self.destroyed.get(r, ()):
                    del whole.destroyers[use]
                    part.destroyers[use] = None
        for left in (whole, part):
            if left.size == 1 and not left.destroyers:
                del classes[left.root]

    def _smaller_part(self, one, other):
        """Return the members and the root of the smaller one of two trees of views, whose roots are `one` and `other`.

        The traversals of the two trees alternate after each member, so the cost depends on the smaller tree only.
        """
        first, second = self._walk(one), self._walk(other)
        found_first, found_second = [], []
        while True:
            r = next(first, None)
            if r is None:
                return found_first, one
            found_first.append(r)
            r = next(second, None)
            if r is None:
                return found_second, other
            found_second.append(r)

    def _walk(self, top):
        view_o = self.view_o
        yield top
        stack = [iter(view_o.get(top, ()))]
        while stack:
            for r in stack[-1]:
                yield r
                if r in view_o:
                    stack.append(iter(view_o[r]))
                break
            else:
                stack.pop()

    def _rebuild(self, whole, out):
        """Build new classes from the members of a class that contained a cycle."""
        view_i, classes = self.view_i, self._class
        found = {out: None, whole.root: None}
        pending = list(found)
        while pending:
            r = pending.pop()
            for v in self.view_o.get(r, ()):
                if v not in found:
                    found[v] = None
                    pending.append(v)
        for r in found:
            del classes[r]
        for r in found:
            uses = self.destroyed.get(r)
            if uses:
                classes[r] = _Class(r)
                classes[r].destroyers.update(dict.fromkeys(uses))
        # Join the views only after all links are removed: `_relabel` must not reach a view that is not joined yet.
        links = [(r, view_i[r]) for r in found if r in view_i]
        for r, _ in links:
            self._unlink(r)
        for r, viewed in links:
            self.add_view(r, viewed)

    # ------------------------------------------------------------ destroyers

    def add_destroyer(self, r, app, i):
        """Record that an output of a node overwrites `r`, which is input i of the node."""
        uses = self.destroyed.setdefault(r, {})
        use = (app, i)
        uses[use] = uses.get(use, 0) + 1
        found = self._class.get(r)
        if found is None:
            found = self._class[r] = _Class(r)
        found.destroyers[use] = None

    def remove_destroyer(self, r, app, i):
        """Record that a node no longer overwrites `r`, which was input i of the node."""
        uses = self.destroyed[r]
        use = (app, i)
        del uses[use]
        if not uses:
            del self.destroyed[r]
        found = self._class[r]
        del found.destroyers[use]
        if found.size == 1 and not found.destroyers and not found.cyclic:
            del self._class[r]


class Constraints:
    """The constraints on the order of nodes.

    A node has to run after the nodes that compute its inputs, and after the other readers of memory that it overwrites.

    Parameters
    ----------
    aliases : AliasClasses
    """

    def __init__(self, aliases):
        self.aliases = aliases

    def successors(self, app):
        """Return a list of the nodes that have to come after a node.

        These are the users of its outputs, and the nodes that destroy its inputs.
        """
        found = [client for out in app.outputs for client, _ in out.clients if not isinstance(client, str)]
        found.extend(self.destroyers_of(app, app.inputs))
        return found

    def predecessors(self, app):
        """Return a list of the nodes that have to come before a node.

        These are the nodes that compute its inputs, and the other users of the memory that it destroys.
        """
        found = [r.owner for r in app.inputs if r.owner is not None]
        for i in destroyed_indices(app):
            found.extend(self.other_users(app, self.aliases.members(app.inputs[i])))
        return found

    def other_users(self, app, members):
        """Return a list of the nodes except `app` that use one of the variables."""
        return [client for v in members for client, _ in v.clients if client is not app and not isinstance(client, str)]

    def destroyers_of(self, app, variables):
        """Return a list of the nodes except `app` that overwrite one of the variables."""
        destroyers = self.aliases.destroyers
        return [other for r in variables for other, _ in destroyers(r) if other is not app]


def depth_first_order(inputs, outputs):
    """Return the nodes that compute `outputs`, operands first. The operands of a node are visited from last to first.

    Printed graphs in the documentation number their nodes in this order. The function traverses the graph only once.
    """
    order, done = [], set()
    stack = [o.owner for o in reversed(outputs) if o.owner is not None and o not in inputs]
    opened = set()
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
        elif node in opened:
            stack.pop()
            done.add(node)
            order.append(node)
        else:
            opened.add(node)
            for i in node.inputs:
                if i.owner is not None and i.owner not in done and i not in inputs:
                    if i.owner in opened:  # opened, but not done: the node depends on itself
                        raise ValueError("graph contains cycles")
                    stack.append(i.owner)
    return order


def constrained_order(inputs, outputs, orderings, clients):
    """Return the nodes in an order that satisfies the constraints; see `io_toposort`. `inputs` is a set."""
    deps_cache = {}

    def deps(obj):
        following = orderings.get(obj, ())
        if obj not in inputs:
            if hasattr(obj, "outputs"):
                following = obj.inputs + list(following) if following else obj.inputs
            elif obj.owner is not None:
                following = [obj.owner, *following]
        elif following:
            raise ValueError("An input of a graph cannot have ordering constraints: %s" % obj)
        deps_cache[obj] = following
        return following

    order = general_toposort(outputs, None, compute_deps_cache=deps, deps_cache=deps_cache, clients=clients)
    return [o for o in order if hasattr(o, "outputs")]
