"""In-place safety: a feature that orders and validates Ops that overwrite their inputs."""

from functools import partial

from theano_ng.configdefaults import config
from theano_ng.gof import toolbox
from theano_ng.gof._destroyhandler import AliasClasses, Constraints, CycleError, DynamicOrder, destroyed_indices
from theano_ng.gof.fg import InconsistencyError
from theano_ng.gof.graph import Constant, io_toposort
from theano_ng.misc.ordered_set import OrderedSet

_PATIENCE = 32


class ProtocolError(Exception):
    """Error: the graph reported an impossible change: a node was imported twice, or an unknown node was pruned."""


def _contains_cycle(fgraph, orderings):
    """Return True if the nodes of a graph cannot be sorted under additional orderings.

    Parameters
    ----------
    fgraph : FunctionGraph
    orderings : dict
        For each node, the nodes that have to come before it.
    """
    try:
        io_toposort(fgraph.inputs, fgraph.outputs, orderings)
    except ValueError:
        return True
    return False


def _build_droot_impact(destroy_handler):
    """Return tables of the destroyed variables and the nodes that destroy them.

    Returns
    -------
    droot : dict
        For each variable that is destroyed, directly or through a view, the root of its views.
    impact : dict
        For each such root, the root and its views.
    root_destroyer : dict
        For each such root, the node that destroys it.

    Raises
    ------
    InconsistencyError
        If a root has two destroyers.
    """
    droot, impact, root_destroyer = {}, {}, {}
    aliases = destroy_handler.aliases
    for app in destroy_handler.destroyers:
        for i in destroyed_indices(app):
            root = aliases.root(app.inputs[i])
            if root in droot:
                raise InconsistencyError("Multiple destroyers of %s" % root)
            root_destroyer[root] = app
            impact[root] = OrderedSet(aliases.members(root))
            for v in impact[root]:
                droot[v] = root
    return droot, impact, root_destroyer


def fast_inplace_check(inputs):
    """Return the inputs that an in-place operation may overwrite, according to a quick check.

    The check does not find out whether an order of all nodes still exists. `DestroyHandler.validate` checks the order.

    Parameters
    ----------
    inputs : list of Variable
        Variables of one FunctionGraph.

    Returns
    -------
    list of Variable
        `inputs` without constants, without variables that have a destroyer, without variables that a Supervisor
        protects, and without the graph's outputs.
    """
    if not inputs:
        return []
    fgraph = inputs[0].fgraph
    protected = set(fgraph.outputs)
    for feature in fgraph._features:
        protected.update(getattr(feature, "protected", ()))
    return [r for r in inputs if not isinstance(r, Constant) and r not in protected and not fgraph.has_destroyers([r])]


class DestroyHandler(toolbox.Bookkeeper):
    """A feature that allows in-place Ops in a graph if an order exists in which overwritten memory is not read later.

    An Op with a `destroy_map` overwrites inputs. All other users of these inputs, or of their views (`view_map`), have
    to run before this Op. The feature refuses two destroyers of the same memory, and Ops that destroy constants or
    variables with ``tag.indestructible``. It also refuses an Op if one of its other inputs shares memory with the
    destroyed input.

    Parameters
    ----------
    do_imports_on_attach : bool
        Whether to process the existing nodes when the feature is attached.
    algo : {None, 'regular', 'fast'}
        'fast' refuses more than necessary: a destroyed variable must have only one client and must not be a view. None
        stands for ``config.cycle_detection``.

    Notes
    -----
    The feature adds to the graph ``destroyers(r)``, the list of nodes that destroy a variable,
    ``has_destroyers(variables)`` and ``destroy_handler``. An Op's `destroyhandler_tolerate_same` is a list of pairs
    ``(i, j)``: input j may be the same variable as the destroyed input i. For pairs in
    `destroyhandler_tolerate_aliased`, input j may share memory with the destroyed input i.

    Variables that share memory form a class, which is identified by its root. The callbacks record changes, and
    `validate` checks them, at a cost that depends on the size of the changes: a topological order of all nodes,
    including in-place constraints, is updated (see `gof._destroyhandler`).
    """

    pickle_rm_attr = ["destroyers", "has_destroyers"]
    # The classes of the handler's tables. Tests replace them.
    parts = (AliasClasses, Constraints, DynamicOrder)
    # The result of `orderings` depends only on the graph, so the graph may cache its sorted nodes.
    orderings_follow_graph = True

    def __init__(self, do_imports_on_attach=True, algo=None):
        self.fgraph = None
        self.do_imports_on_attach = do_imports_on_attach
        self.algo = config.cycle_detection if algo is None else algo
        if self.algo not in ("regular", "fast"):
            raise ValueError("algo has to be 'regular' or 'fast', not %r" % (self.algo,))
        self._reset()

    def _reset(self):
        # `destroyers` contains the nodes with a destroy_map, `apps` all nodes.
        self.destroyers = OrderedSet()
        self.apps = {}
        aliases, constraints, order = self.parts
        self.aliases = aliases()
        # The changes that the next `validate` has to check. `_touched_apps` maps nodes to the indices of changed inputs
        # (None: all inputs). `_touched_classes` contains the variables whose classes changed.
        self._touched_apps = {}
        self._touched_classes = {}
        # If more nodes and variables than this number are touched when a destroyer is imported, `_settle` checks them.
        self._patience = _PATIENCE
        self.fail_validate = {}
        self._constraints = constraints(self.aliases)
        self._order = order(self._constraints.successors, self._constraints.predecessors)

    def clone_for(self, fgraph):
        """Return a handler for a copy of the graph."""
        return type(self)(self.do_imports_on_attach, self.algo)

    def __getstate__(self):
        return {"fgraph": self.fgraph, "do_imports_on_attach": self.do_imports_on_attach, "algo": self.algo}

    def on_attach(self, fgraph):
        """Add `destroyers`, `has_destroyers` and `destroy_handler` to the graph, and process its nodes.

        Raises
        ------
        AlreadyThere
            If the graph has a DestroyHandler already.
        Exception
            If this handler serves another graph.
        """
        if any(hasattr(fgraph, attr) for attr in ("destroyers", "destroy_handler")):
            raise toolbox.AlreadyThere("DestroyHandler feature is already present or in conflict with another plugin.")
        if self.fgraph is not None and self.fgraph is not fgraph:
            raise Exception("A DestroyHandler instance can only serve one FunctionGraph.")
        self.fgraph = fgraph
        fgraph.destroy_handler = self
        self._reset()
        self._publish(fgraph)
        if self.do_imports_on_attach:
            toolbox.Bookkeeper.on_attach(self, fgraph)

    def _publish(self, fgraph):
        fgraph.destroyers = self.destroyers_of
        fgraph.has_destroyers = partial(self.has_destroyers, fgraph)

    def unpickle(self, fgraph):
        """Add `destroyers` and `has_destroyers` to an unpickled graph, and process its nodes."""
        self.fgraph = fgraph
        self._reset()
        self._publish(fgraph)
        for app in fgraph.sorted_nodes():
            self.on_import(fgraph, app, "unpickle")

    def on_detach(self, fgraph):
        if fgraph is not self.fgraph:
            raise Exception("This DestroyHandler instance was not attached to the provided fgraph.")
        del fgraph.destroyers
        del fgraph.has_destroyers
        del fgraph.destroy_handler
        self.fgraph = None
        self._reset()

    # ------------------------------------------------------------ queries

    @property
    def searched(self):
        """The number of nodes that searches for cycles have visited so far."""
        return self._order.searched

    def destroyers_of(self, r):
        """Return a list of the nodes that overwrite the memory of `r`. In a valid graph it has at most one element."""
        return list(dict.fromkeys([app for app, _ in self.aliases.destroyers(r)]))

    def has_destroyers(self, fgraph, protected_list):
        """Return True if any of the variables is overwritten."""
        destroyers = self.aliases.destroyers
        return any(destroyers(r) for r in protected_list)

    def refresh_droot_impact(self):
        """Compute the tables of `_build_droot_impact` for the current graph, store them and return them."""
        self.droot, self.impact, self.root_destroyer = _build_droot_impact(self)
        return self.droot, self.impact, self.root_destroyer

    # ------------------------------------------------------------ changes of the graph

    def on_import(self, fgraph, app, reason):
        """Record a new node."""
        if app in self.apps:
            raise ProtocolError("double import of %s" % app)
        indices = destroyed_indices(app)
        if indices and len(self._touched_apps) + len(self._touched_classes) > self._patience and self.algo != "fast":
            self._settle()
        self.apps[app] = None
        self._touched_apps[app] = None
        for o, places in (getattr(app.op, "view_map", None) or {}).items():
            self._add_view(app, o, places)
        if indices:
            self.destroyers.add(app)
            for i in indices:
                self._add_destroyer(app, i)
            if self.algo == "fast":
                self.fast_destroy(app, reason)

    def on_prune(self, fgraph, app, reason):
        """Delete from all tables a node that left the graph. Raise ProtocolError if the node was never imported."""
        if app not in self.apps:
            raise ProtocolError("prune of %s, which was not imported" % app)
        del self.apps[app]
        self._touched_apps.pop(app, None)
        self.fail_validate.pop(app, None)
        self._order.remove(app)
        if app in self.destroyers:
            self.destroyers.remove(app)
            for i in dict.fromkeys(destroyed_indices(app)):
                self.aliases.remove_destroyer(app.inputs[i], app, i)
        for o in getattr(app.op, "view_map", None) or ():
            self.aliases.remove_view(app.outputs[o])
        for o in app.outputs:
            self._touched_classes.pop(o, None)

    def on_change_input(self, fgraph, app, i, old_r, new_r, reason):
        """Record a changed input."""
        if app == "output":
            return
        if app not in self.apps:
            raise ProtocolError("input changed of %s, which was not imported" % app)
        changed = self._touched_apps.setdefault(app, {})
        if changed is not None:
            changed[i] = None
        for o, places in (getattr(app.op, "view_map", None) or {}).items():
            if i in places:
                self.aliases.move_view(app.outputs[o], new_r)
                self._touched_classes[new_r] = None
        if app in self.destroyers:
            times = destroyed_indices(app).count(i)
            if times:
                self.aliases.remove_destroyer(old_r, app, i)
                for _ in range(times):
                    self._add_destroyer(app, i)
            if self.algo == "fast":
                self.fast_destroy(app, reason)

    def _add_view(self, app, o, places):
        if len(places) != 1:
            raise NotImplementedError(
                "%s: output %d is declared to be a view of the inputs %s; it can be a view of one input only"
                % (app.op, o, list(places))
            )
        viewed = app.inputs[places[0]]
        self.aliases.add_view(app.outputs[o], viewed)
        # The class of the viewed variable now includes the class of the view, so `validate` has to check it again.
        self._touched_classes[viewed] = None

    def _add_destroyer(self, app, i):
        r = app.inputs[i]
        self.aliases.add_destroyer(r, app, i)
        self._touched_classes[r] = None

    def fast_destroy(self, app, reason):
        """Record an error if a variable that the node destroys has several clients or is a view (for `algo` 'fast').

        `validate` raises the error.
        """
        self.fail_validate.pop(app, None)
        for i in destroyed_indices(app):
            r = app.inputs[i]
            if len(r.clients) > 1:
                self.fail_validate[app] = InconsistencyError(
                    "Destroyed variable has more than one client. Client: %s, reason: %s" % (app, reason)
                )
            elif r.owner is not None and r.index in (getattr(r.owner.op, "view_map", None) or {}):
                self.fail_validate[app] = InconsistencyError(
                    "Destroyed variable is a view of another one. Client: %s, reason: %s" % (app, reason)
                )

    # ------------------------------------------------------------ validation

    def validate(self, fgraph):
        """Check that an order exists in which no overwritten memory is read later.

        Returns
        -------
        bool
            True.

        Raises
        ------
        InconsistencyError
            If a node overwrites memory that another node still needs, or that must not be overwritten.
        """
        if not self.destroyers:
            # A graph without in-place operations is valid. The touched nodes are kept for a later call.
            return True
        if self.algo == "fast":
            if self.fail_validate:
                # Check the recorded nodes again in the current graph: when a node was recorded, its input may have had
                # another client, which has been replaced since then. A node stays in the table until it passes this
                # check or leaves the graph.
                for app in list(self.fail_validate):
                    self.fast_destroy(app, "validate")
                for error in self.fail_validate.values():
                    raise error
            self._check_touched_classes()
            return True
        edges = self._check_touched_classes()
        try:
            self._order.add_edges(edges + self._edges_of_touched_apps())
        except CycleError:
            raise InconsistencyError("Dependency graph contains cycles") from None
        self._forget_touched()
        return True

    def _settle(self):
        """Check the touched nodes before another destroyer is added.

        The touched nodes of a refused replacement stay in the tables after `validate`. The replacement is then undone,
        and the next replacement may be refused as well. Without `_settle`, each replacement of a long sequence of
        refused replacements would be checked together with all previous replacements. `_settle` skips nodes that are
        not imported completely yet: `on_import` touches these nodes later.
        """
        try:
            edges = self._check_touched_classes() if self.destroyers else []
            edges.extend(self._edges_of_touched_apps())
            order = self._order
            order.add_edges([(u, v) for u, v in edges if u in order and v in order])
        except (InconsistencyError, CycleError):
            # During a replacement, the graph may be invalid. Keep the touched nodes for `validate`, and try again only
            # when their number has doubled.
            self._patience = 2 * (len(self._touched_apps) + len(self._touched_classes))
        else:
            self._forget_touched()

    def _forget_touched(self):
        self._touched_apps = {}
        self._touched_classes = {}
        self._patience = _PATIENCE

    def _edges_of_touched_apps(self):
        """Insert each touched node into the order. Return the edges of these nodes, which the order may contradict."""
        order = self._order
        destroyers_of = self._constraints.destroyers_of if self.destroyers else None
        edges = []
        for app in self._touched_apps:
            if app not in order:
                order.place(app)
        for app, changed in self._touched_apps.items():
            inputs = app.inputs if changed is None else [app.inputs[i] for i in changed]
            edges.extend([(r.owner, app) for r in inputs if r.owner is not None])
            if destroyers_of is not None:
                edges.extend([(app, s) for s in destroyers_of(app, inputs)])
        return edges

    def _check_touched_classes(self):
        """Check the changed classes, and the classes of destroyers with changed inputs.

        Return the constraints of the destroyers of these classes: pairs (node, node that has to come after it).
        """
        aliases = self.aliases
        roots = dict.fromkeys([aliases.root(r) for r in self._touched_classes])
        for app in self._touched_apps:
            if app in self.destroyers:
                for i in destroyed_indices(app):
                    roots[aliases.root(app.inputs[i])] = None
        edges = []
        for root in roots:
            destroyers = aliases.destroyers(root)
            if not destroyers:
                continue
            app, i = next(iter(destroyers))
            if len(destroyers) > 1 or aliases.destroyed[app.inputs[i]][app, i] > 1:
                raise InconsistencyError("Multiple destroyers of %s" % root)
            impact = dict.fromkeys(aliases.members(root))
            illegal = [r for r in impact if isinstance(r, Constant) or getattr(r.tag, "indestructible", False)]
            if illegal:
                raise InconsistencyError("Attempting to destroy indestructible variables: %s" % illegal)
            _check_input_aliasing(app, i, impact)
            edges.extend((user, app) for user in self._constraints.other_users(app, impact))
        return edges

    def orderings(self, fgraph, ordered=True):
        """Return the constraints of the in-place operations.

        Parameters
        ----------
        fgraph : FunctionGraph
        ordered : bool
            If True, the nodes are in collections with a deterministic order. If False, they are in sets.

        Returns
        -------
        dict
            For each destroyer, the other users of the memory that it destroys.

        Raises
        ------
        InconsistencyError
            If two nodes destroy the same memory, or if a node destroys one input and another of its inputs aliases it.
        """
        result = {}
        if not self.destroyers:
            return result
        _, impact, _ = self.refresh_droot_impact()
        for app in self.destroyers:
            users = OrderedSet()
            for i in destroyed_indices(app):
                root = self.droot[app.inputs[i]]
                _check_input_aliasing(app, i, impact[root])
                users.update(self._constraints.other_users(app, impact[root]))
            if users:
                result[app] = users if ordered else set(users)
        return result


def _check_input_aliasing(app, destroyed_index, impact):
    """Raise an error if another input of a node shares memory with the destroyed input, unless the Op permits this."""
    op = app.op
    destroyed = app.inputs[destroyed_index]
    same = {j for i, j in getattr(op, "destroyhandler_tolerate_same", ()) if i == destroyed_index}
    same.add(destroyed_index)
    aliased = {j for i, j in getattr(op, "destroyhandler_tolerate_aliased", ()) if i == destroyed_index}
    for j, r in enumerate(app.inputs):
        if j not in aliased and r in impact and (j not in same or r is not destroyed):
            raise InconsistencyError("Input aliasing: %s (%i, %i)" % (app, destroyed_index, j))


__all__ = ["DestroyHandler", "InconsistencyError", "ProtocolError", "config", "fast_inplace_check", "toolbox"]
