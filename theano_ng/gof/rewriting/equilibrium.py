"""The worklist that applies rules until none of them changes the graph.

The graph is visited once, from the outputs to the inputs. After that, only nodes near a change are visited again: the
nodes that a replacement added, the nodes whose inputs it changed, and their clients up to `CLIENT_DEPTH` levels (the
depth of the rules' patterns). If a variable lost a client, its owner and its only remaining client are also visited,
because some rules require a single client. The nodes to visit are sorted by ranks, which approximate a topological
order, so the graph is not sorted again.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from theano_ng.configdefaults import config
from theano_ng.gof import graph
from theano_ng.gof.rewriting.base import Optimizer, merge_dict
from theano_ng.gof.rewriting.endless import EndlessRewriting, History, endless_rules
from theano_ng.gof.rewriting.local import LocalOptimizer, RuleIndex
from theano_ng.gof.rewriting.navigate import NavigatorOptimizer, TopoOptimizer

if TYPE_CHECKING:
    from theano_ng.gof.fg import FunctionGraph
    from theano_ng.gof.graph import Apply, Variable

_logger = logging.getLogger("theano_ng.gof.opt")

CLIENT_DEPTH = 3
"""The number of client levels of a changed node that are visited again: the depth of the package's deepest patterns."""


class Worklist:
    """A feature that records the changes of a graph during one run, and assigns approximate topological ranks to nodes.

    Attributes
    ----------
    log : list
        One entry for each event: the node that was added or whose input changed, or None if an output of the graph
        changed.
    """

    def __init__(self, fgraph: FunctionGraph, nodes: Iterable[Apply]) -> None:
        self.fgraph = fgraph
        self.rank = {node: (i, 0) for i, node in enumerate(nodes)}
        self.log: list[Apply | None] = []
        self.imported = 0
        self.lonely: dict[Variable, None] = {}
        self.current: Apply | None = None
        self.queue: list[Apply] | None = None
        self.requeue_imports = False
        self.requeue_changed = False
        self.history: History | None = None

    def on_import(self, fgraph: FunctionGraph, node: Apply, reason: Any) -> None:
        self.imported += 1
        level = -1
        for r in node.inputs:
            if r.owner is not None:
                level = max(level, self.rank.get(r.owner, (-1, 0))[0])
        self.rank[node] = (level, self.imported)
        self.log.append(node)
        if self.history is not None:
            self.history.inserted(node, self.current, reason)
        if self.requeue_imports and self.queue is not None and node is not self.current:
            self.queue.append(node)

    def on_change_input(
        self, fgraph: FunctionGraph, node: Apply | str, i: int, r: Variable, new_r: Variable, reason: Any
    ) -> None:
        if self.history is not None:
            self.history.replaced(r, new_r, reason)
        if isinstance(node, str):
            self.log.append(None)
            return
        self.log.append(node)
        if self.requeue_changed and self.queue is not None and node is not self.current:
            self.queue.append(node)

    def on_prune(self, fgraph: FunctionGraph, node: Apply, reason: Any) -> None:
        self.rank.pop(node, None)
        for r in node.inputs:
            self.lonely[r] = None

    def in_order(self, nodes: Iterable[Apply | None]) -> list[Apply]:
        """Return `nodes` in the order of their ranks, without duplicates and without nodes that left the graph."""
        alive = self.fgraph.apply_nodes
        rank = self.rank
        return sorted(
            (node for node in dict.fromkeys(nodes) if node is not None and node in alive), key=rank.__getitem__
        )

    def neighbourhood(self, start: int) -> list[Apply]:
        """Return the nodes to visit again because of the events from index `start` on, in the order of their ranks."""
        alive = self.fgraph.apply_nodes
        found: dict[Apply, None] = {}
        frontier = []
        for node in self.log[start:]:
            if node is not None and node not in found and node in alive:
                found[node] = None
                frontier.append(node)
        lonely, self.lonely = self.lonely, {}
        for r in lonely:
            owner = r.owner
            if owner is not None and owner in alive:
                found.setdefault(owner)
            clients = [c for c, _ in getattr(r, "clients", ()) if not isinstance(c, str)]
            if len(clients) == 1 and clients[0] in alive and clients[0] not in found:
                found[clients[0]] = None
                frontier.append(clients[0])
        for _ in range(CLIENT_DEPTH):
            further = []
            for node in frontier:
                for out in node.outputs:
                    for client, _i in out.clients:
                        if not isinstance(client, str) and client not in found:
                            found[client] = None
                            further.append(client)
            frontier = further
        return self.in_order(found)


class EquilibriumOptimizer(NavigatorOptimizer):
    """An optimizer that applies local and global optimizers repeatedly until none of them changes the graph.

    Parameters
    ----------
    optimizers : sequence of LocalOptimizer and Optimizer
    failure_callback : callable, optional
        See `NavigatorOptimizer`.
    ignore_newtrees : bool
        If True, a node that a replacement creates is visited in the next pass. If False, it is visited at once, in the
        same pass.
    tracks_on_change_inputs : bool
        If True, a node whose inputs changed is visited again in the same pass.
    max_use_ratio : float, optional
        The maximum number of uses of each optimizer, as a multiple of the largest number of nodes that the graph has
        had. Beyond this limit, the run stops with an error message. The limit guards against rules that undo each
        other. By default, `config.optdb.max_use_ratio`. The largest number of nodes is capped at four times the
        initial number plus a hundred. Otherwise, rules that enlarge the graph at every use would raise the limit
        faster than they approach it.
    final_optimizers : sequence of Optimizer, optional
        Global optimizers to apply at the end of each pass.
    cleanup_optimizers : sequence of Optimizer, optional
        Global optimizers to apply after each part of a pass that changed the graph.
    """

    def __init__(
        self,
        optimizers: Iterable[Any],
        failure_callback: Callable[..., Any] | None = None,
        ignore_newtrees: bool | str = True,
        tracks_on_change_inputs: bool = False,
        max_use_ratio: float | None = None,
        final_optimizers: Iterable[Optimizer] | None = None,
        cleanup_optimizers: Iterable[Optimizer] | None = None,
    ) -> None:
        super().__init__(None, ignore_newtrees=ignore_newtrees, failure_callback=failure_callback)
        self.tracks_on_change_inputs = tracks_on_change_inputs
        self.global_optimizers = []
        self.final_optimizers = list(final_optimizers or ())
        self.cleanup_optimizers = list(cleanup_optimizers or ())
        local_opts = []
        for opt in optimizers:
            if isinstance(opt, LocalOptimizer):
                local_opts.append(opt)
            elif isinstance(opt, Optimizer):
                self.global_optimizers.append(opt)
            else:
                raise TypeError("EquilibriumOptimizer takes LocalOptimizer and Optimizer objects, got %r" % (opt,))
        self.index = RuleIndex(local_opts)
        self.max_use_ratio = max_use_ratio

    def get_local_optimizers(self) -> Iterator[LocalOptimizer]:
        """Return an iterator over the local optimizers, in the order in which they were given."""
        return iter(self.index.rules)

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        super().add_requirements(fgraph)
        opt: LocalOptimizer | Optimizer
        for opt in self.index.rules:
            opt.add_requirements(fgraph)
        for group in (self.global_optimizers, self.final_optimizers, self.cleanup_optimizers):
            for opt in group:
                opt.add_requirements(fgraph)

    def apply(self, fgraph: FunctionGraph, start_from: Sequence[Variable] | None = None) -> Any:
        """Apply the optimizers until the graph does not change any longer. Return profile data for `print_profile`."""
        return _Run(self, fgraph, start_from).run()

    def print_summary(self, stream: TextIO = sys.stdout, level: int = 0, depth: int = -1) -> None:
        name = getattr(self, "name", None)
        print("%s%s %s id=%i" % (" " * level, self.__class__.__name__, name, id(self)), file=stream)
        if depth != 0:
            for opt in self.index.rules:
                opt.print_summary(stream, level=level + 2, depth=depth - 1)

    @staticmethod
    def print_profile(stream: TextIO, prof: Any, level: int = 0) -> None:
        (
            opt,
            loop_timing,
            loop_process_count,
            (start_nb_nodes, end_nb_nodes, max_nb_nodes),
            global_opt_timing,
            nb_nodes,
            time_opts,
            io_toposort_timing,
            node_created,
            global_sub_profs,
            final_sub_profs,
            cleanup_sub_profs,
        ) = prof
        blanc = "    " * level
        print("%sEquilibriumOptimizer      %s" % (blanc, opt.name or ""), file=stream)
        print("%s  time %.3fs for %d passes" % (blanc, sum(loop_timing), len(loop_timing)), file=stream)
        print(
            "%s  nb nodes (start, end, max) %d %d %d" % (blanc, start_nb_nodes, end_nb_nodes, max_nb_nodes), file=stream
        )
        print("%s  time io_toposort %.3fs" % (blanc, sum(io_toposort_timing)), file=stream)
        s = sum(time_opts[o] for o in opt.get_local_optimizers() if o in time_opts)
        print("%s  time in local optimizers %.3fs" % (blanc, s), file=stream)
        for label, opts in (
            ("global", opt.global_optimizers),
            ("final", opt.final_optimizers),
            ("cleanup", opt.cleanup_optimizers),
        ):
            if opts or label == "global":
                print(
                    "%s  time in %s optimizers %.3fs" % (blanc, label, sum(time_opts.get(o, 0.0) for o in opts)),
                    file=stream,
                )
        for i, timing in enumerate(loop_timing):
            counts = sorted(loop_process_count[i].items(), key=lambda item: (-item[1], _label(item[0])))
            lopt = " ".join(str((_label(o), n)) for o, n in counts[:5]) + (" ..." if len(counts) > 5 else "")
            print(
                "%s  %2d - %.3fs %d (%.3fs in global opts, %.3fs io_toposort) - %d nodes - %s"
                % (
                    blanc,
                    i,
                    timing,
                    sum(loop_process_count[i].values()),
                    global_opt_timing[i],
                    io_toposort_timing[i],
                    nb_nodes[i],
                    lopt,
                ),
                file=stream,
            )
        used, unused = [], []
        total: dict[Any, int] = {}
        for counts in loop_process_count:
            total = merge_dict(total, counts)
        everything = list(opt.get_local_optimizers()) + list(opt.final_optimizers) + list(opt.cleanup_optimizers)
        for o in list(opt.global_optimizers) + everything:
            if total.get(o):
                used.append((time_opts.get(o, 0.0), total[o], node_created.get(o, 0), o))
            else:
                unused.append((time_opts.get(o, 0.0), o))
        used.sort(key=lambda row: (-row[0], _label(row[3])))
        unused.sort(key=lambda row: (-row[0], _label(row[1])))
        print("%s  times - times applied - nb node created - name:" % blanc, file=stream)
        for t, count, created, o in used:
            print("%s  %.3fs - %d - %d - %s" % (blanc, t, count, created, _label(o)), file=stream)
        if unused:
            print(
                "%s  %.3fs - in %d optimization that where not used (display only those with a runtime > 0)"
                % (blanc, sum(row[0] for row in unused), len(unused)),
                file=stream,
            )
            for t, o in unused:
                if t > 0:
                    print("%s    %.3fs - %s" % (blanc, t, _label(o)), file=stream)
        for label, passes in (("Global", global_sub_profs), ("Final", final_sub_profs), ("Cleanup", cleanup_sub_profs)):
            merged = _merge_sub_profiles(passes)
            if merged:
                print("%s  %s optimizers" % (blanc, label), file=stream)
                for o, sub_prof in merged.items():
                    o.print_profile(stream, sub_prof, level=level + 2)

    @staticmethod
    def merge_profile(prof1: Any, prof2: Any) -> Any:
        """Add two profiles, pass by pass."""

        def longest(a: Sequence[Any], b: Sequence[Any], zero: Any) -> Iterator[tuple[Any, Any]]:
            n = max(len(a), len(b))
            return zip(list(a) + [zero] * (n - len(a)), list(b) + [zero] * (n - len(b)))

        rules = list(dict.fromkeys(list(prof1[0].get_local_optimizers()) + list(prof2[0].get_local_optimizers())))
        globals_ = list(dict.fromkeys(prof1[0].global_optimizers + prof2[0].global_optimizers))
        merged = EquilibriumOptimizer(
            rules + globals_,
            max_use_ratio=1,
            final_optimizers=list(dict.fromkeys(prof1[0].final_optimizers + prof2[0].final_optimizers)),
            cleanup_optimizers=list(dict.fromkeys(prof1[0].cleanup_optimizers + prof2[0].cleanup_optimizers)),
        )
        merged.name = prof1[0].name
        numbers = [[a + b for a, b in longest(prof1[i], prof2[i], 0)] for i in (1, 4, 5, 7)]
        counts = [merge_dict(a, b) for a, b in longest(prof1[2], prof2[2], {})]
        return (
            merged,
            numbers[0],
            counts,
            tuple(a + b for a, b in zip(prof1[3], prof2[3])),
            numbers[1],
            numbers[2],
            merge_dict(prof1[6], prof2[6]),
            numbers[3],
            merge_dict(prof1[8], prof2[8]),
            prof1[9] + prof2[9],
            prof1[10] + prof2[10],
            prof1[11] + prof2[11],
        )


def _add_profile(profs: dict[Any, Any], opt: Any, prof: Any) -> None:
    """Add the profile of one application of `opt` to the dict `profs`."""
    if prof is None:
        return
    if opt in profs and hasattr(opt, "merge_profile"):
        prof = opt.merge_profile(profs[opt], prof)
    profs[opt] = prof


def _merge_sub_profiles(passes: Iterable[dict[Any, Any]]) -> dict[Any, Any]:
    """Return a dict from optimizers to their profiles over all passes."""
    merged: dict[Any, Any] = {}
    for profs in passes:
        for opt, prof in profs.items():
            _add_profile(merged, opt, prof)
    return merged


def _label(opt: Any) -> str:
    return str(getattr(opt, "name", None) or opt)


def _complain(message: str, error: Callable[[str], Exception] = AssertionError, always: bool = False) -> None:
    """Log a message, or raise an error with it, as the flag `on_opt_error` specifies, or `always`."""
    if always or config.on_opt_error == "raise":
        raise error(message)
    if config.on_opt_error != "ignore":
        _logger.error(message)


class _Run:
    """The state of one `EquilibriumOptimizer.apply`.

    An optimizer cannot store this state, because all functions of the process share the optimizer.
    """

    def __init__(self, opt: EquilibriumOptimizer, fgraph: FunctionGraph, start_from: Sequence[Variable] | None) -> None:
        self.opt, self.fgraph = opt, fgraph
        t0 = time.perf_counter()
        # Sort the nodes, because the first pass visits them from the outputs to the inputs. The Worklist gets all
        # nodes, not only the nodes on which `start_from` depends, because clients of changed nodes are visited, too.
        everything = fgraph.sorted_nodes()
        self.nodes = everything if start_from is None else graph.io_toposort(fgraph.inputs, start_from)
        self.toposort_time = time.perf_counter() - t0
        self.work = Worklist(fgraph, everything)
        self.ratio = config.optdb.max_use_ratio if opt.max_use_ratio is None else opt.max_use_ratio
        self.start_nb_nodes = self.max_nb_nodes = len(fgraph.apply_nodes)
        self.most_counted = 4 * self.start_nb_nodes + 100
        self.global_count: dict[Any, int] = {}
        self.time_opts: dict[Any, float] = {}
        self.node_created: dict[Any, int] = {}
        self.seen: dict[Any, int] = {}
        self.exceeded: str | None = None
        self.endless = endless_rules(fgraph)

    def run(self) -> Any:
        opt, fgraph, work = self.opt, self.fgraph, self.work
        work.requeue_imports = not opt.ignore_newtrees
        work.requeue_changed = opt.tracks_on_change_inputs
        loop_timing, loop_counts, global_timing, nb_nodes, toposort_timing = [], [], [], [], []
        sub_profs, final_profs, cleanup_profs = [], [], []
        fgraph.attach_feature(work)
        try:
            seen = 0
            first = True
            while self.exceeded is None:
                t0 = time.perf_counter()
                started = len(work.log)
                self.counts: dict[Any, int] = {}
                self.cleanup_profs: dict[Any, Any] = {}
                sub_profs.append(self.run_globals(opt.global_optimizers))
                self.cleanup(len(work.log) > started)
                global_timing.append(time.perf_counter() - t0)
                if first:
                    visit = self.nodes if not work.log else self.first_pass_nodes()
                    first = False
                    work.lonely = {}
                else:
                    visit = work.neighbourhood(seen)
                seen = len(work.log)
                nb_nodes.append(len(fgraph.apply_nodes))
                before = len(work.log)
                self.run_locals(visit)
                self.cleanup(len(work.log) > before)
                before = len(work.log)
                final_profs.append(self.run_globals(opt.final_optimizers))
                self.cleanup(len(work.log) > before)
                cleanup_profs.append(self.cleanup_profs)
                toposort_timing.append(self.toposort_time)
                self.toposort_time = 0.0
                loop_counts.append(self.counts)
                loop_timing.append(time.perf_counter() - t0)
                # The log also contains replacements that were refused and undone, so the log may grow in every pass.
                # Therefore, also end the loop if no replacement was kept.
                if len(work.log) == started or not self.counts:
                    break
        finally:
            fgraph.remove_feature(work)
        if self.exceeded is not None:
            _complain(
                "EquilibriumOptimizer max'ed out by '%s'. You can safely raise the current threshold of %f with the theano "
                "flag 'optdb.max_use_ratio'." % (self.exceeded, self.ratio)
            )
        return (
            opt,
            loop_timing,
            loop_counts,
            (self.start_nb_nodes, len(fgraph.apply_nodes), self.max_nb_nodes),
            global_timing,
            nb_nodes,
            self.time_opts,
            toposort_timing,
            self.node_created,
            sub_profs,
            final_profs,
            cleanup_profs,
        )

    def give_up(self, history: History) -> None:
        """Report rules that would not end, and do not apply them to this graph any longer.

        DebugMode raises an error in this case, as if `on_opt_error` were "raise".
        """
        self.endless.update(history.rules)
        names = [_label(rule) for rule in history.rules]
        _complain(
            "EquilibriumOptimizer max'ed out by '%s': %s. %s not applied to this graph any longer; correct %s, or use "
            "mode.excluding('%s')"
            % (names[-1], history.reason, *(("It is", "it") if len(names) == 1 else ("They are", "one")), names[0]),
            lambda message: EndlessRewriting(message, history.reason),
            hasattr(self.fgraph, "equivalence_tracker"),
        )
        self.work.history = None
        for rule in history.rules:
            self.global_count.pop(rule, None)

    def first_pass_nodes(self) -> list[Apply]:
        return self.work.in_order(self.nodes + [node for node in self.work.log if node is not None])

    def count(self, opt: Any, created: int) -> None:
        """Record one use of `opt`. If `opt` was used too often, set `exceeded` to its name, which stops the run."""
        self.counts[opt] = self.counts.get(opt, 0) + 1
        used = self.global_count[opt] = self.global_count.get(opt, 0) + 1
        self.node_created[opt] = self.node_created.get(opt, 0) + created
        self.max_nb_nodes = max(self.max_nb_nodes, len(self.fgraph.apply_nodes))
        history = self.work.history
        exceeds = used > min(self.max_nb_nodes, self.most_counted) * self.ratio and used > self.ratio
        if history is None:
            if used > self.start_nb_nodes // 2 + 2:
                self.work.history = History(self.fgraph, self.start_nb_nodes)
        else:
            if exceeds and not history.reason:
                history.explain()
            if history.reason:
                self.give_up(history)
                return
        if exceeds:
            self.exceeded = getattr(opt, "name", None) or getattr(opt, "__name__", None) or str(opt)

    def cleanup(self, changed: bool) -> None:
        if changed and self.opt.cleanup_optimizers:
            for opt, prof in self.run_globals(self.opt.cleanup_optimizers).items():
                _add_profile(self.cleanup_profs, opt, prof)

    def run_globals(self, optimizers: Iterable[Any]) -> dict[Any, Any]:
        """Apply the global optimizers that have not been applied to the current graph. Return their profiles."""
        profs: dict[Any, Any] = {}
        work, fgraph = self.work, self.fgraph
        for gopt in optimizers:
            seen = self.seen.get(gopt)
            now = len(work.log)
            if seen == now or self.exceeded is not None or gopt in self.endless:
                continue
            self.seen[gopt] = now
            imported = work.imported
            t0 = time.perf_counter()
            if seen is not None and type(gopt) is TopoOptimizer and gopt.order == "in_to_out":
                prof = self.apply_to_changes(gopt, seen)
            else:
                prof = gopt.apply(fgraph)
            self.time_opts[gopt] = self.time_opts.get(gopt, 0.0) + time.perf_counter() - t0
            _add_profile(profs, gopt, prof)
            if len(work.log) > now:
                self.count(gopt, work.imported - imported)
        return profs

    def apply_to_changes(self, gopt: Any, seen: int) -> Any:
        """Apply `gopt` to the nodes that were added or changed since entry `seen` of the log.

        Repeat this for the nodes that `gopt` adds or changes until it changes nothing. Return the sum of the profiles.
        """
        prof = None
        work = self.work
        while True:
            nodes = work.in_order(work.log[seen:])
            seen = len(work.log)
            self.seen[gopt] = seen
            part = gopt.apply_to(self.fgraph, nodes)
            prof = part if prof is None else gopt.merge_profile(prof, part)
            if part[1] == 0:
                # The log also contains replacements that were refused and undone. Mark these entries as seen, because
                # `gopt` would otherwise try the replacements forever.
                self.seen[gopt] = len(work.log)
                return prof

    def run_locals(self, nodes: Iterable[Apply]) -> None:
        """Make one pass over `nodes`, last first."""
        work, opt, index, timings = self.work, self.opt, self.opt.index, self.time_opts
        if not index.rules:
            return
        clock = time.perf_counter
        # id of a rule -> seconds. The key is the id, because hashing a rule takes longer than running most rules.
        spent = {id(rule): 0.0 for rule in index.rules}
        alive = self.fgraph.apply_nodes
        work.queue = queue = list(nodes)
        fgraph, transforms_for, endless = self.fgraph, index.transforms_for, self.endless
        replace_by: Callable[..., bool] = opt.replace_by
        if type(opt).process_node is not NavigatorOptimizer.process_node:  # a subclass overrides process_node

            def process_node(fgraph: FunctionGraph, node: Apply, rule: LocalOptimizer, transform: Any) -> bool:
                return opt.process_node(fgraph, node, rule)

            replace_by = process_node

        try:
            while queue:
                node = queue.pop()
                if node not in alive:
                    continue
                work.current = node
                t = clock()
                for rule, transform in transforms_for(node.op):
                    if endless and rule in endless:  # hashing a rule takes longer than running most rules
                        continue
                    imported = work.imported
                    changed = replace_by(fgraph, node, rule, transform)
                    now = clock()
                    spent[id(rule)] += now - t
                    t = now
                    if changed:
                        self.count(rule, work.imported - imported)
                        if self.exceeded is not None:
                            return
                        if node not in alive:
                            break
        finally:
            work.queue = None
            work.current = None
            for rule in index.rules:
                if spent[id(rule)]:
                    timings[rule] = timings.get(rule, 0.0) + spent[id(rule)]
