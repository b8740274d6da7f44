"""Navigators: global optimizers that visit the nodes of a graph and apply a rule to them."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from theano_ng.gof import graph
from theano_ng.gof.fg import InconsistencyError
from theano_ng.gof.rewriting.base import Optimizer, attach_replace_validate, report_failure
from theano_ng.gof.rewriting.local import LocalOptGroup
from theano_ng.gof.toolbox import AlreadyThere, NodeFinder

if TYPE_CHECKING:
    from theano_ng.gof.fg import FunctionGraph
    from theano_ng.gof.graph import Apply, Variable


class Updater:
    """A feature that calls functions when nodes of a graph change.

    Parameters
    ----------
    importer, pruner : callable or None
        Functions that are called with the node that enters or leaves the graph.
    chin : callable or None
        ``chin(node, i, r, new_r)`` is called after an input changed.
    name : str, optional
    """

    def __init__(
        self,
        importer: Callable[..., Any] | None,
        pruner: Callable[..., Any] | None,
        chin: Callable[..., Any] | None,
        name: str | None = None,
    ) -> None:
        self.name = name
        self.importer, self.pruner, self.chin = importer, pruner, chin

    def on_change_input(
        self, fgraph: FunctionGraph, node: Apply | str, i: int, r: Variable, new_r: Variable, reason: Any
    ) -> None:
        if self.chin is not None:
            self.chin(node, i, r, new_r)

    def on_import(self, fgraph: FunctionGraph, node: Apply, reason: Any) -> None:
        if self.importer is not None:
            self.importer(node)

    def on_prune(self, fgraph: FunctionGraph, node: Apply, reason: Any) -> None:
        if self.pruner is not None:
            self.pruner(node)

    def on_detach(self, fgraph: FunctionGraph) -> None:
        # The functions are closures that refer to the data of the finished walk. Drop the functions to free this data.
        self.importer = self.pruner = self.chin = None

    def __str__(self) -> str:
        return "Updater{%s}" % (self.name,)


class ChangeTracker:
    """A feature whose attribute `changed` is True if the graph was modified since the last call of `reset`.

    The feature is available as ``fgraph.change_tracker``.
    """

    def __init__(self) -> None:
        self.nb_imported = 0
        self.reset()

    def on_attach(self, fgraph: FunctionGraph) -> None:
        if hasattr(fgraph, "change_tracker"):
            raise AlreadyThere()
        fgraph.change_tracker = self

    def on_detach(self, fgraph: FunctionGraph) -> None:
        del fgraph.change_tracker

    def reset(self) -> None:
        self.changed = False

    def on_change_input(
        self, fgraph: FunctionGraph, node: Apply | str, i: int, r: Variable, new_r: Variable, reason: Any
    ) -> None:
        self.changed = True

    def on_import(self, fgraph: FunctionGraph, node: Apply, reason: Any) -> None:
        self.changed = True
        self.nb_imported += 1


class NavigatorOptimizer(Optimizer):
    """A base class of optimizers that apply a `LocalOptimizer` to nodes.

    Parameters
    ----------
    local_opt : LocalOptimizer or None
        The rule. If it is None, the subclass passes a rule to `process_node`.
    ignore_newtrees : bool or 'auto'
        If True, nodes that a replacement creates are not visited in the same walk. 'auto' (the default) means True
        unless the rule is reentrant.
    failure_callback : callable, optional
        ``failure_callback(exc, navigator, [(old, new), ...], local_opt, node)`` is called if the rule or the
        replacement raises an error. `NavigatorOptimizer.warn`, `.warn_inplace` and `.warn_ignore` are such callbacks.
        Without a callback, exceptions propagate.
    """

    @staticmethod
    def warn(
        exc: Exception,
        nav: NavigatorOptimizer,
        repl_pairs: Sequence[tuple[Variable, Variable | None]],
        local_opt: Any,
        node: Apply,
    ) -> None:
        """Handle an exception as the flag `on_opt_error` specifies. This is a failure callback."""
        report_failure(local_opt, exc, ("node: %s" % (node,),))

    @staticmethod
    def warn_inplace(
        exc: Exception,
        nav: NavigatorOptimizer,
        repl_pairs: Sequence[tuple[Variable, Variable | None]],
        local_opt: Any,
        node: Apply,
    ) -> None:
        """Handle an exception as `warn` does, but ignore InconsistencyError: the node cannot work in place."""
        if not isinstance(exc, InconsistencyError):
            NavigatorOptimizer.warn(exc, nav, repl_pairs, local_opt, node)

    @staticmethod
    def warn_ignore(
        exc: Exception,
        nav: NavigatorOptimizer,
        repl_pairs: Sequence[tuple[Variable, Variable | None]],
        local_opt: Any,
        node: Apply,
    ) -> None:
        """Ignore an exception. This is a failure callback."""

    def __init__(
        self, local_opt: Any, ignore_newtrees: bool | str = "auto", failure_callback: Callable[..., Any] | None = None
    ) -> None:
        self.local_opt = local_opt
        if ignore_newtrees == "auto":
            ignore_newtrees = not getattr(local_opt, "reentrant", True)
        self.ignore_newtrees = ignore_newtrees
        self.failure_callback = failure_callback

    def attach_updater(
        self,
        fgraph: FunctionGraph,
        importer: Callable[..., Any] | None,
        pruner: Callable[..., Any] | None,
        chin: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Updater | None:
        """Attach a feature that calls `importer`, `pruner` and `chin` when the graph changes.

        If `ignore_newtrees` is true, `importer` is not called. Return the feature for `detach_updater`, or None if
        neither `importer` nor `pruner` would be called.
        """
        updater = Updater(None if self.ignore_newtrees else importer, pruner, chin, name)
        if updater.importer is None and updater.pruner is None:
            return None
        fgraph.attach_feature(updater)
        return updater

    def detach_updater(self, fgraph: FunctionGraph, u: Updater | None) -> None:
        """Undo `attach_updater`. `u` may be None."""
        if u is not None:
            fgraph.remove_feature(u)

    def process_node(self, fgraph: FunctionGraph, node: Apply, lopt: Any = None) -> bool:
        """Apply a rule to `node` and make the replacements that it returns.

        Parameters
        ----------
        lopt : LocalOptimizer, optional
            The rule. By default, the rule of the navigator.

        Returns
        -------
        bool
            Whether the graph changed.
        """
        lopt = lopt or self.local_opt
        return self.replace_by(fgraph, node, lopt, lopt.transform)

    def replace_by(self, fgraph: FunctionGraph, node: Apply, lopt: Any, transform: Callable[[Apply], Any]) -> bool:
        """Replace a node by the result of ``transform(node)``.

        Error messages and stack traces name `lopt`. See `process_node` for the result.
        """
        try:
            replacements = transform(node)
        except MemoryError:
            raise
        except Exception as e:
            if self.failure_callback is None:
                raise
            self.failure_callback(e, self, [(r, None) for r in node.outputs], lopt, node)
            return False
        if replacements is False or replacements is None:
            return False
        old_vars = node.outputs
        remove = ()
        if isinstance(replacements, dict):
            replacements = dict(replacements)
            remove = replacements.pop("remove", ())
            old_vars = list(replacements)
            replacements = [replacements[r] for r in old_vars]
        elif not isinstance(replacements, (tuple, list)):
            raise TypeError(
                "Optimizer %s gave wrong type of replacement. Expected list or tuple. Got %s" % (lopt, replacements)
            )
        if len(old_vars) != len(replacements):
            raise ValueError(
                "Optimizer %s gave wrong number of replacements: the node has %d outputs, the replacement %d"
                % (lopt, len(old_vars), len(replacements)),
                node,
                replacements,
            )
        for r, rnew in zip(old_vars, replacements):
            if rnew is None and len(r.clients) > 0:
                raise ValueError("A local optimizer tried to remove a Variable that is used", lopt, r, node)
        repl_pairs = [(r, rnew) for r, rnew in zip(old_vars, replacements) if rnew is not r and rnew is not None]
        if not repl_pairs:
            return False
        try:
            if remove:
                fgraph.replace_all_validate_remove(repl_pairs, remove=remove, reason=lopt)
            else:
                fgraph.replace_all_validate(repl_pairs, reason=lopt)
        except MemoryError:  # replace_all_validate may have failed to restore the graph
            raise
        except Exception as e:
            # replace_all_validate has restored the graph.
            if self.failure_callback is None:
                raise
            self.failure_callback(e, self, repl_pairs, lopt, node)
            return False
        return True

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        super().add_requirements(fgraph)
        # Navigators change graphs by replace_all_validate.
        attach_replace_validate(fgraph)
        if self.local_opt:
            self.local_opt.add_requirements(fgraph)

    def print_summary(self, stream: TextIO = sys.stdout, level: int = 0, depth: int = -1) -> None:
        print("%s%s (%s)" % (" " * level, self.__class__.__name__, self.name), file=stream)
        if depth != 0:
            self.local_opt.print_summary(stream, level=level + 2, depth=depth - 1)


class TrackFilter:
    """A test that determines from the tracks of a rule if the rule may apply to an Op.

    An Op also matches if its class is a subclass of a tracked class.
    """

    def __init__(self, tracks: Sequence[Any] | None) -> None:
        self.everywhere = not tracks
        self._classes = tuple(t for t in tracks or () if isinstance(t, type))
        self._ops = {t: None for t in tracks or () if not isinstance(t, type)}
        self._op_classes = {type(t): None for t in self._ops}
        self._by_class: dict[type, Any] = {}

    def matches_class(self, cls: type) -> Any:
        """Return True if the rule may apply to every Op of a class, False if to no Op, None if it depends on the Op."""
        answer = self._by_class.get(cls, self)
        if answer is self:
            if issubclass(cls, self._classes):
                answer = True
            else:
                answer = None if cls in self._op_classes else False
            self._by_class[cls] = answer
        return answer

    def __call__(self, op: Any) -> bool:
        if self.everywhere:
            return True
        answer = self.matches_class(type(op))
        return op in self._ops if answer is None else answer

    def matches_any(self, nodes: Collection[Apply]) -> bool:
        """Return True if one of `nodes` may match."""
        if self.everywhere:
            return True
        for cls in {type(node.op) for node in nodes}:
            answer = self.matches_class(cls)
            if answer or (answer is None and any(node.op in self._ops for node in nodes)):
                return True
        return False


class TopoOptimizer(NavigatorOptimizer):
    """An optimizer that applies a rule to every node, in topological order or its reverse.

    Parameters
    ----------
    local_opt : LocalOptimizer
    order : {'in_to_out', 'out_to_in'}
    ignore_newtrees : bool
        If False, nodes that a replacement creates are visited, too.
    failure_callback : callable, optional
        See `NavigatorOptimizer`.
    """

    __name__: str

    def __init__(
        self,
        local_opt: Any,
        order: str = "in_to_out",
        ignore_newtrees: bool | str = False,
        failure_callback: Callable[..., Any] | None = None,
    ) -> None:
        if order not in ("out_to_in", "in_to_out"):
            raise ValueError("order must be 'out_to_in' or 'in_to_out', got %r" % (order,))
        self.order = order
        super().__init__(local_opt, ignore_newtrees, failure_callback)
        self._filter: tuple[list[Any] | None, TrackFilter] | None = None

    def _may_apply(self) -> TrackFilter:
        # If `local_opt` is a group, rules may be added to the group after this navigator was created. Therefore, read
        # the tracks at each call, and rebuild the filter if the tracks changed.
        tracks = self.local_opt.tracks()
        key = None if tracks is None else list(tracks)
        if self._filter is None or self._filter[0] != key:
            self._filter = (key, TrackFilter(key))
        return self._filter[1]

    def apply(self, fgraph: FunctionGraph, start_from: Sequence[Variable] | None = None) -> tuple[Any, ...]:
        """Visit the nodes of the graph.

        Parameters
        ----------
        start_from : list of Variable, optional
            Visit only nodes on which these variables depend. By default, the outputs of the graph.

        Returns
        -------
        tuple
            (self, number of changes, number of nodes at the start and at the end, time of the toposort, time of the
            walk, time of callbacks).
        """
        nb_start = len(fgraph.apply_nodes)
        callback_before = getattr(fgraph, "execute_callbacks_time", 0.0)
        may_apply = self._may_apply()
        t0 = time.perf_counter()
        if may_apply.matches_any(fgraph.apply_nodes):
            q = deque(fgraph.sorted_nodes() if start_from is None else graph.io_toposort(fgraph.inputs, start_from))
        else:
            q = deque()
        io_t = time.perf_counter() - t0
        nb, loop_t = self._walk(fgraph, q, may_apply)
        return (
            self,
            nb,
            nb_start,
            len(fgraph.apply_nodes),
            io_t,
            loop_t,
            getattr(fgraph, "execute_callbacks_time", 0.0) - callback_before,
        )

    def apply_to(self, fgraph: FunctionGraph, nodes: Iterable[Apply]) -> tuple[Any, ...]:
        """Visit only `nodes` (in topological order).

        Unless `ignore_newtrees` is true, also visit the nodes that replacements create. Return a tuple of the same form
        as the result of `apply`.
        """
        nb_start = len(fgraph.apply_nodes)
        callback_before = getattr(fgraph, "execute_callbacks_time", 0.0)
        nb, loop_t = self._walk(fgraph, deque(nodes), self._may_apply())
        return (
            self,
            nb,
            nb_start,
            len(fgraph.apply_nodes),
            0.0,
            loop_t,
            getattr(fgraph, "execute_callbacks_time", 0.0) - callback_before,
        )

    def _walk(self, fgraph: FunctionGraph, q: deque[Apply], may_apply: TrackFilter) -> tuple[int, float]:
        if not q:
            return 0, 0.0
        t1 = time.perf_counter()
        current = None

        def importer(node: Apply) -> None:
            if node is not current:
                q.append(node)

        u = self.attach_updater(fgraph, importer, None, name=getattr(self, "name", None))
        take = q.pop if self.order == "out_to_in" else q.popleft
        nb = 0
        try:
            while q:
                node = take()
                # Skip nodes that the rule cannot match, and nodes that left the graph since they were added to `q`.
                if not may_apply(node.op) or node not in fgraph.apply_nodes:
                    continue
                current = node
                nb += self.process_node(fgraph, node)
        finally:
            self.detach_updater(fgraph, u)
        return nb, time.perf_counter() - t1

    @staticmethod
    def print_profile(stream: TextIO, prof: Any, level: int = 0) -> None:
        blanc = "    " * level
        if prof is None:
            print("%sTopoOptimizer merge_profile not implemented" % blanc, file=stream)
            return
        (opt, nb, nb_start, nb_end, io_t, loop_t, callback_time) = prof
        print("%sTopoOptimizer %s" % (blanc, getattr(opt, "name", None) or getattr(opt, "__name__", "")), file=stream)
        print("%s  nb_node (start, end, changed) %s" % (blanc, (nb_start, nb_end, nb)), file=stream)
        print("%s  init io_toposort %s" % (blanc, io_t), file=stream)
        print("%s  loop time %s" % (blanc, loop_t), file=stream)
        print("%s  callback_time %s" % (blanc, callback_time), file=stream)
        lopt = opt.local_opt
        if isinstance(lopt, LocalOptGroup) and lopt.profile:
            lopt.print_profile(
                stream,
                (lopt.time_opts, lopt.process_count, lopt.applied_true, lopt.node_created, lopt.profile),
                level=level + 1,
            )

    @staticmethod
    def merge_profile(prof1: Any, prof2: Any) -> tuple[Any, ...]:
        """Add two profiles."""
        return (prof1[0],) + tuple(a + b for a, b in zip(prof1[1:], prof2[1:]))

    def __str__(self) -> str:
        return getattr(self, "__name__", None) or getattr(self, "name", None) or "<TopoOptimizer instance>"


class OpKeyOptimizer(NavigatorOptimizer):
    """An optimizer that applies a rule to the nodes of the op, or list of ops, that ``local_opt.op_key()`` returns."""

    def __init__(
        self, local_opt: Any, ignore_newtrees: bool | str = False, failure_callback: Callable[..., Any] | None = None
    ) -> None:
        if not hasattr(local_opt, "op_key"):
            raise TypeError("LocalOptimizer for OpKeyOptimizer must have an 'op_key' method, got %s" % (local_opt,))
        super().__init__(local_opt, ignore_newtrees, failure_callback)

    def apply(self, fgraph: FunctionGraph) -> None:
        op = self.local_opt.op_key()
        ops = op if isinstance(op, (list, tuple)) else [op]
        q = deque(node for op in ops for node in fgraph.get_nodes(op))
        current = None

        def importer(node: Apply) -> None:
            if node is not current and node.op in ops:
                q.append(node)

        u = self.attach_updater(fgraph, importer, None, name=getattr(self, "name", None))
        try:
            while q:
                node = q.pop()
                if node not in fgraph.apply_nodes:
                    continue
                current = node
                self.process_node(fgraph, node)
        finally:
            self.detach_updater(fgraph, u)

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        super().add_requirements(fgraph)
        fgraph.attach_feature(NodeFinder())


def _navigator(order: str, prefix: str, local_opts: tuple[Any, ...], kwargs: dict[str, Any]) -> TopoOptimizer:
    name = kwargs.pop("name", None)
    if not local_opts:
        raise ValueError("%s needs at least one local optimizer" % prefix)
    local_opt = LocalOptGroup(*local_opts) if len(local_opts) > 1 else local_opts[0]
    if not name:
        name = getattr(local_opt, "__name__", None) or getattr(local_opt, "name", None)
    ret = TopoOptimizer(local_opt, order=order, failure_callback=TopoOptimizer.warn_inplace, **kwargs)
    if name:
        ret.__name__ = name
    return ret


def out2in(*local_opts: Any, **kwargs: Any) -> TopoOptimizer:
    """Return a `TopoOptimizer` for the rules that visits nodes from the outputs to the inputs.

    The keywords are `name` and the keywords of `TopoOptimizer`.
    """
    return _navigator("out_to_in", "out2in", local_opts, kwargs)


def in2out(*local_opts: Any, **kwargs: Any) -> TopoOptimizer:
    """Return a `TopoOptimizer` for the rules that visits nodes from the inputs to the outputs.

    The keywords are `name` and the keywords of `TopoOptimizer`.
    """
    return _navigator("in_to_out", "in2out", local_opts, kwargs)


def topogroup_optimizer(order: str, *local_opts: Any, **kwargs: Any) -> TopoOptimizer:
    """Return a `TopoOptimizer` for a group of rules. Nodes that a replacement creates are visited in the next walk.

    Parameters
    ----------
    order : {'in_to_out', 'out_to_in'}
    *local_opts : LocalOptimizer
    name : str, optional
    """
    if len(local_opts) == 1 and isinstance(local_opts[0], (list, tuple)):
        local_opts = tuple(local_opts[0])
    kwargs.setdefault("ignore_newtrees", True)
    return _navigator(order, "topogroup_optimizer", local_opts, kwargs)
