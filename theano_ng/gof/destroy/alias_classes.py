"""Which variables of a graph share memory, kept while views and destroyers come and go.

The Python twin of `_destroyhandler.AliasClasses`.
"""


class _Class:
    """Variables that are views of one root, directly or not."""

    __slots__ = ("root", "size", "destroyers", "cyclic")

    def __init__(self, root):
        self.root = root
        self.size = 1
        # (node, i): the node overwrites a member, its input i.
        self.destroyers = {}
        # Views closed a circle: the graph is on its way through an invalid state.
        self.cyclic = False


class AliasClasses:
    """Variables, what each is a view of, and who overwrites them.

    Every question is answered in constant time, however many views there are. A change costs as much as the smaller one of the two parts
    that it joins or takes apart, and nothing when a view moves within its class.

    Attributes
    ----------
    view_i : dict
        Variable to what it is a view of.
    view_o : dict
        Variable to its direct views, as keys of a dict.
    destroyed : dict
        Variable to ``{(node, i): count}``: the inputs of nodes where it is overwritten, and how many outputs of the node do so.
    """

    def __init__(self):
        self.view_i = {}
        self.view_o = {}
        self.destroyed = {}
        # Variables that are not here are alone and not destroyed.
        self._class = {}

    def root(self, r):
        """What a variable is a view of, in the end; the variable itself when it is none."""
        found = self._class.get(r)
        return r if found is None else found.root

    def destroyers(self, r):
        """The pairs ``(node, i)`` that overwrite the memory of a variable, itself or by a view, in a container."""
        found = self._class.get(r)
        return () if found is None else found.destroyers

    def members(self, r):
        """A list of all variables that share memory with `r`: the root first, then views before theirs."""
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
        """Note that `out`, which was none, is a view of `viewed`."""
        self.view_i[out] = viewed
        self.view_o.setdefault(viewed, {})[out] = None
        self._join(out, viewed)

    def remove_view(self, out):
        """Note that `out` is no view any more."""
        self._unlink(out)
        self._part(out)

    def move_view(self, out, viewed):
        """Note that `out`, which was a view of something else, is a view of `viewed`."""
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
        """Whether `r` is `top` or a view of it."""
        if top not in self.view_o:
            return r is top
        view_i = self.view_i
        # A replacement usually stays close to what it replaces; long chains of views are not climbed for it.
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
        """Put `top` and everything below it, except what is below `without`, into a class."""
        classes, view_o = self._class, self.view_o
        pending = [top]
        while pending:
            r = pending.pop()
            classes[r] = label
            for v in view_o.get(r, ()):
                if v is not without and classes.get(v) is not label:
                    pending.append(v)

    def _part(self, out):
        """Take apart what hung together by a view that has been unlinked."""
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
            # What hangs below `out` keeps its class, under a new root.
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
        """The members of the smaller one of two trees of views, and its top. Both are walked at the same pace."""
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
        """Make the classes of what was one class with a circle."""
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
        # A view must not be walked by `_relabel` before it is joined.
        links = [(r, view_i[r]) for r in found if r in view_i]
        for r, viewed in links:
            self._unlink(r)
        for r, viewed in links:
            self.add_view(r, viewed)

    # ------------------------------------------------------------ destroyers

    def add_destroyer(self, r, app, i):
        """Note that an output of a node overwrites `r`, its input i."""
        uses = self.destroyed.setdefault(r, {})
        use = (app, i)
        uses[use] = uses.get(use, 0) + 1
        found = self._class.get(r)
        if found is None:
            found = self._class[r] = _Class(r)
        found.destroyers[use] = None

    def remove_destroyer(self, r, app, i):
        """Note that a node does not overwrite `r`, which was its input i, any more."""
        uses = self.destroyed[r]
        use = (app, i)
        del uses[use]
        if not uses:
            del self.destroyed[r]
        found = self._class[r]
        del found.destroyers[use]
        if found.size == 1 and not found.destroyers and not found.cyclic:
            del self._class[r]


def destroyed_indices(app):
    """The indices of the inputs that a node overwrites, one for each time that it does."""
    destroy_map = getattr(app.op, "destroy_map", None)
    return [i for places in destroy_map.values() for i in places] if destroy_map else []


class Constraints:
    """What has to come before what: data, and those who read memory before the one who overwrites it.

    Parameters
    ----------
    aliases : AliasClasses
    """

    def __init__(self, aliases):
        self.aliases = aliases

    def successors(self, app):
        """The nodes that have to come after a node: users of its outputs, and who destroys its inputs; a list."""
        found = [client for out in app.outputs for client, _ in out.clients if not isinstance(client, str)]
        found.extend(self.destroyers_of(app, app.inputs))
        return found

    def predecessors(self, app):
        """The nodes that have to come before a node: who computes its inputs, and other users of what it destroys; a list."""
        found = [r.owner for r in app.inputs if r.owner is not None]
        for i in destroyed_indices(app):
            found.extend(self.other_users(app, self.aliases.members(app.inputs[i])))
        return found

    def other_users(self, app, members):
        """The nodes except `app` that use some variables; a list."""
        return [client for v in members for client, _ in v.clients if client is not app and not isinstance(client, str)]

    def destroyers_of(self, app, variables):
        """The nodes except `app` that overwrite some variables; a list."""
        destroyers = self.aliases.destroyers
        return [other for r in variables for other, _ in destroyers(r) if other is not app]
