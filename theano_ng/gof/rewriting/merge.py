"""Merging of equal computations into one node, and of equal constants into one constant."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from theano_ng.gof import graph
from theano_ng.gof.fg import FunctionGraph, InconsistencyError
from theano_ng.gof.rewriting.base import Optimizer, attach_replace_validate, merge_dict
from theano_ng.gof.rewriting.stacktrace import copy_stack_trace
from theano_ng.gof.toolbox import AlreadyThere

if TYPE_CHECKING:
    from theano_ng.gof.graph import Apply, Constant, Variable

    C = TypeVar("C", bound=type)

assert_op_classes: list[type] = []
"""Classes of ops ``assert(value, *conditions)`` that return their first input. They are defined in the tensor layer."""


def register_assert_op(cls: C) -> C:
    """Register a class of assertions. This is a class decorator.

    Nodes are merged even if their inputs differ in such assertions.
    """
    assert_op_classes.append(cls)
    return cls


def _is_assert(r: Variable) -> bool:
    return r.owner is not None and isinstance(r.owner.op, tuple(assert_op_classes))


def _bare_inputs(node: Apply) -> list[Variable]:
    """Return the inputs of `node`. An input that an assertion computes is replaced by the variable that is asserted."""
    inputs: list[Any] = node.inputs
    if assert_op_classes and not isinstance(node.op, tuple(assert_op_classes)):
        return [r.owner.inputs[0] if _is_assert(r) else r for r in inputs]
    return inputs


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b))


class _metadict:
    """A class that Theano 1.0's MergeFeature uses. It exists only so that pickles of Theano's functions can load."""


class MergeFeature:
    """A feature that finds the nodes and constants of a graph that can be merged.

    Nodes are stored in a table by the key (op, inputs). The cost of finding an equal node is the cost of hashing the
    inputs, regardless of the number of their clients. While the graph changes, the changes are only recorded; `drain`
    updates the table.

    Attributes
    ----------
    scheduled : list
        Merges that were found but not yet made, as pairs ``(list, kind)``. For the kinds "constant" and "node", the
        list is ``[(old, new), ...]``: replacements of variables. For the kind "assert", the list is ``[(node, twin)]``:
        two nodes whose inputs are equal if assertions are ignored.
    blacklist : set
        Pairs (node, twin), and pairs of constants, that could not be merged.
    """

    def on_attach(self, fgraph: FunctionGraph) -> None:
        if hasattr(fgraph, "merge_feature"):
            raise AlreadyThere()
        fgraph.merge_feature = self
        self.unpickle(fgraph)

    def __getstate__(self) -> dict[str, Any]:
        # Do not pickle the tables: they identify variables by ids, which have no meaning in another process.
        return {}

    def unpickle(self, fgraph: FunctionGraph) -> None:
        """Reset the tables, and mark every node of the graph as new."""
        # The signature of each constant, and the constant that is kept for each signature.
        self.atomic_sig: dict[Constant, Any] = {}
        self.atomic_sig_inv: dict[Any, Constant] = {}
        self.node_of_key: dict[Any, Apply] = {}
        self.key_of_node: dict[Apply, Any] = {}
        self.dirty: dict[Apply, None] = {}
        self.destroyers: set[Apply] = set()
        self.scheduled: list[tuple[list[tuple[Any, Any]], str]] = []
        self.blacklist: set[tuple[Any, Any]] = set()
        # Use `sorted_nodes`, which ignores the orderings of other features: they may not be unpickled yet.
        for node in fgraph.sorted_nodes():
            self.on_import(fgraph, node, "on_attach")

    def on_detach(self, fgraph: FunctionGraph) -> None:
        del fgraph.merge_feature

    def on_import(self, fgraph: FunctionGraph, node: Apply, reason: Any) -> None:
        self.dirty[node] = None
        if getattr(node.op, "destroy_map", None):
            self.destroyers.add(node)

    def on_change_input(
        self, fgraph: FunctionGraph, node: Apply | str, i: int, r: Variable, new_r: Variable, reason: Any
    ) -> None:
        if not isinstance(node, str):
            # Remove the old key: the id of an input that was freed may be reused for a new variable.
            self._forget(node)
            self.dirty[node] = None

    def on_prune(self, fgraph: FunctionGraph, node: Apply, reason: Any) -> None:
        self.dirty.pop(node, None)
        self.destroyers.discard(node)
        self._forget(node)

    def _forget(self, node: Apply) -> None:
        key = self.key_of_node.pop(node, None)
        if key is not None and self.node_of_key.get(key) is node:
            del self.node_of_key[key]

    def drain(self, fgraph: FunctionGraph) -> None:
        """Update the table for the nodes that were added or changed, and fill `scheduled`."""
        while self.dirty:
            dirty, self.dirty = self.dirty, {}
            for node in dirty:
                if node not in fgraph.apply_nodes:
                    continue
                for r in node.inputs:
                    if isinstance(r, graph.Constant):
                        self.process_constant(fgraph, r)
                self.process_node(fgraph, node)

    def process_constant(self, fgraph: FunctionGraph, c: Constant) -> None:
        """If the graph contains an equal constant, schedule the replacement of `c` by it. Otherwise record `c`."""
        sig = self.atomic_sig.get(c)
        if sig is None:
            sig = self.atomic_sig[c] = c.merge_signature()
        other = self.atomic_sig_inv.get(sig)
        if other is None or getattr(other, "fgraph", None) is not fgraph or not getattr(other, "clients", True):
            # Do not merge into `other` if it left the graph: it may now belong to another graph. Keep `c` instead.
            self.atomic_sig_inv[sig] = c
        elif other is not c and (c, other) not in self.blacklist:
            if c.name and not other.name:
                other.name = c.name
            self.scheduled.append(([(c, other)], "constant"))

    def process_node(self, fgraph: FunctionGraph, node: Apply) -> None:
        """If the table contains an equal node, schedule a merge with it. Otherwise add `node` to the table."""
        self._forget(node)
        inputs = node.inputs
        bare = _bare_inputs(node)
        key = (node.op, tuple([id(r) for r in bare]))
        twin = self.node_of_key.get(key)
        if twin is None or twin not in fgraph.apply_nodes or not _same(bare, _bare_inputs(twin)):
            self.node_of_key[key] = node
            self.key_of_node[node] = key
            return
        if twin is node or (node, twin) in self.blacklist or len(twin.outputs) != len(node.outputs):
            return
        if not _same(inputs, twin.inputs):
            self.scheduled.append(([(node, twin)], "assert"))
            return
        pairs = []
        for old, new in zip(node.outputs, twin.outputs):
            if old.type != new.type:
                self.blacklist.add((node, twin))
                return
            if old.name and not new.name:
                new.name = old.name
            pairs.append((old, new))
        self.scheduled.append((pairs, "node"))

    def get_merged_assert_input(self, node: Apply, candidate: Apply) -> list[tuple[Any, Variable]] | None:
        """Return replacements that make the inputs of two nodes equal, if the inputs differ only by assertions.

        Parameters
        ----------
        node, candidate : Apply
            Two nodes whose inputs are equal if assertions are ignored.

        Returns
        -------
        list of (Variable, Variable) or None
            Replacements after which the nodes share an input that has the conditions of both assertions. None if this
            is impossible.
        """
        a: Any
        b: Any
        for a, b in zip(node.inputs, candidate.inputs):
            if a is b:
                continue
            if _is_assert(a) and _is_assert(b):
                if a.owner.op != b.owner.op:
                    return None  # the assertions differ, for example in their messages
                conditions = list(a.owner.inputs[1:])
                conditions += [c for c in b.owner.inputs[1:] if c not in conditions]
                if _depends_on(conditions, (a.owner, b.owner)):
                    return None
                merged = a.owner.op(a.owner.inputs[0], *conditions)
                copy_stack_trace([a, b], merged)
                return [(a, merged), (b, merged)]
            # Of `a` and `b`, one is an assertion, and one is the asserted variable. The latter is an input of the node
            # `other`. Replace it by the assertion there, unless the asserted condition depends on `other`.
            asserted, other = (a, candidate) if _is_assert(a) else (b, node)
            if _depends_on(asserted.owner.inputs[1:], (other,)):
                return None
            return [(("input", other, b if asserted is a else a), asserted)]
        return None


def _depends_on(variables: Iterable[Variable], nodes: Collection[Any]) -> bool:
    """Return True if one of the variables is computed from a result of one of the nodes."""
    todo, seen = [v.owner for v in variables if v.owner is not None], set()
    while todo:
        node = todo.pop()
        if node in nodes:
            return True
        if node not in seen:
            seen.add(node)
            todo.extend([i.owner for i in node.inputs if i.owner is not None])
    return False


def _is_circle(pairs: Sequence[Any]) -> bool:
    """Return True if two assertions cannot be joined, because a condition of one depends on the result of the other."""
    return not isinstance(pairs[0][0], tuple) and _depends_on(
        pairs[0][1].owner.inputs[1:], [old.owner for old, _ in pairs]
    )


MAX_TRACES = 8
"""The maximum number of stack traces of a merged node."""


class MergeOptimizer(Optimizer):
    """An optimizer that merges equal computations and equal constants.

    ::

        true_div(mul(add(y, z), x), add(y, z))  ->  true_div(mul(*1 -> add(y, z), x), *1)

    Two nodes are equal if their ops are equal and their inputs are the same variables. Constants are equal if their
    signatures are equal. Commutativity is ignored: ``add(x, y)`` and ``add(y, x)`` are not merged. Assertions on inputs
    do not prevent a merge: the merged node has the conditions of both nodes.
    """

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        attach_replace_validate(fgraph)
        if not hasattr(fgraph, "merge_feature"):
            fgraph.attach_feature(MergeFeature())

    def apply(self, fgraph: FunctionGraph) -> Any:
        """Merge until no merge is possible.

        Returns
        -------
        tuple
            (number of failures, time, time of validation, time of callbacks, times of callbacks by name, nodes merged,
            constants merged). If the graph is not profiled, the times of validation and of callbacks are None, and the
            times by name are {}.
        """
        feature = fgraph.merge_feature
        t0 = time.perf_counter()
        profile = getattr(fgraph, "profile", None)
        validate_before = profile.validate_time if profile else None
        callback_before = getattr(fgraph, "execute_callbacks_time", 0.0)
        callbacks_before = dict(getattr(fgraph, "execute_callbacks_times", ()))
        nb_merged = nb_constant = nb_fail = 0
        feature.drain(fgraph)
        while feature.scheduled:
            scheduled, feature.scheduled = feature.scheduled, []
            for pairs, kind in scheduled:
                first = pairs[0]
                if kind == "node":
                    first = first[0].owner, first[1].owner
                if self._changed_since(fgraph, first, kind):
                    self._reschedule(fgraph, first)
                    continue
                if kind == "assert":
                    pairs = feature.get_merged_assert_input(*first)
                    if pairs is None or _is_circle(pairs):
                        continue
                before = [list(node.inputs) for node in first] if kind == "assert" else ()
                pairs = self._still_valid(fgraph, pairs)
                if not pairs:
                    if not all([_same(node.inputs, inputs) for node, inputs in zip(first, before)]):
                        # `_still_valid` replaced an input of one node by an assertion that is an input of the other
                        # node. The nodes may be equal now, so compare them again.
                        self._reschedule(fgraph, first)
                    continue
                try:
                    if kind == "node":
                        for old, new in pairs:
                            # The merged node gets the stack traces of both nodes, unless it has MAX_TRACES already.
                            # Error messages then show all places in the user's code that created the expression.
                            if len(getattr(new.tag, "trace", None) or ()) < MAX_TRACES:
                                copy_stack_trace(old, new)
                    fgraph.replace_all_validate(pairs, reason="MergeOptimizer")
                except InconsistencyError:
                    nb_fail += 1
                    feature.blacklist.add(first)
                    continue
                if kind == "constant":
                    nb_constant += 1
                else:
                    nb_merged += 1
            feature.drain(fgraph)
        if profile:
            validate_time = profile.validate_time - validate_before
            callback_time = getattr(fgraph, "execute_callbacks_time", 0.0) - callback_before
            callbacks_time = {
                k: v - callbacks_before.get(k, 0.0)
                for k, v in dict(getattr(fgraph, "execute_callbacks_times", ())).items()
                if v > callbacks_before.get(k, 0.0)
            }
        else:
            validate_time, callback_time, callbacks_time = None, None, {}
        return (nb_fail, time.perf_counter() - t0, validate_time, callback_time, callbacks_time, nb_merged, nb_constant)

    @staticmethod
    def _changed_since(fgraph: FunctionGraph, nodes: Sequence[Any], kind: str) -> bool:
        """Return True if an earlier merge of this round changed one of two nodes."""
        if kind == "constant":
            return False
        if kind == "node":
            return not _same(nodes[0].inputs, nodes[1].inputs)
        left = any([node not in fgraph.apply_nodes for node in nodes])
        return left or not _same(*[_bare_inputs(node) for node in nodes])

    @staticmethod
    def _reschedule(fgraph: FunctionGraph, nodes: Iterable[Apply]) -> None:
        for node in nodes:
            if node in fgraph.apply_nodes:
                fgraph.merge_feature.dirty[node] = None

    @staticmethod
    def _still_valid(fgraph: FunctionGraph, pairs: Sequence[Any]) -> list[tuple[Variable, Variable]]:
        """Return the pairs whose replacement is still possible, or an empty list if the merge is no longer possible.

        If a pair replaces a variable by an assertion of this variable in the inputs of one node only, the method itself
        makes the replacement, and omits the pair from the list.
        """
        result = []
        for old, new in pairs:
            if isinstance(old, tuple):
                # Replace the variable `bare` by the assertion `new` in the inputs of `node` only.
                _, node, bare = old
                if node not in fgraph.apply_nodes or new.owner not in fgraph.apply_nodes:
                    return []
                if _depends_on(new.owner.inputs[1:], (node,)):
                    # Since this merge was scheduled, another merge has made the condition depend on the node.
                    return []
                for i, r in enumerate(node.inputs):
                    if r is bare:
                        fgraph.change_input(node, i, new, reason="MergeOptimizer")
                continue
            if old.owner is None:
                if getattr(old, "fgraph", None) is not fgraph or not old.clients:
                    return []
            elif old.owner not in fgraph.apply_nodes:
                return []
            if new.owner is not None and new.owner not in fgraph.apply_nodes and getattr(new, "fgraph", None) is fgraph:
                return []
            if (
                new.owner is not None
                and getattr(new.owner, "fgraph", None) is not fgraph
                and new.owner.op != old.owner.op
            ):
                return []
            if fgraph.merge_feature.destroyers and (_destroyed(old) or _destroyed(new)):
                # Do not merge if a node overwrites one of the variables: the clients of the other variable would need a
                # copy of the value.
                return []
            result.append((old, new))
        return result

    @staticmethod
    def print_profile(stream: TextIO, prof: Any, level: int = 0) -> None:
        (nb_fail, replace_time, validate_time, callback_time, callbacks_time, nb_merged, nb_constant) = prof
        blanc = "    " * level
        print("%sMergeOptimizer" % blanc, file=stream)
        print("%s  nb fail=%5d merged=%5d constant=%5d" % (blanc, nb_fail, nb_merged, nb_constant), file=stream)
        print(
            "%s  time replace=%2.2f validate=%2.2f callback=%2.2f"
            % (blanc, replace_time, validate_time or 0.0, callback_time or 0.0),
            file=stream,
        )
        if callbacks_time:
            print("%s  callbacks_time" % blanc, file=stream)
            for name, t in sorted(callbacks_time.items(), key=lambda item: (-item[1], str(item[0]))):
                if t > 0:
                    print("%s      %s, %s" % (blanc, name, t), file=stream)

    @staticmethod
    def merge_profile(prof1: Any, prof2: Any) -> Any:
        """Add two profiles."""

        def add(a: Any, b: Any) -> Any:
            return b if a is None else a if b is None else a + b

        return (
            prof1[0] + prof2[0],
            prof1[1] + prof2[1],
            add(prof1[2], prof2[2]),
            add(prof1[3], prof2[3]),
            merge_dict(prof1[4], prof2[4]),
            prof1[5] + prof2[5],
            prof1[6] + prof2[6],
        )


def _destroyed(r: Variable) -> bool:
    """Return True if a client of `r` overwrites it."""
    for client, i in r.clients:
        if isinstance(client, str):
            continue
        destroy_map = getattr(client.op, "destroy_map", None)
        if destroy_map and any(i in indices for indices in destroy_map.values()):
            return True
    return False


def pre_constant_merge(vars: Iterable[Any]) -> list[Any]:
    """Merge equal constants in the graphs of `vars`, in place, without a `FunctionGraph`.

    Parameters
    ----------
    vars : list of Variable
        Variables of small graphs, such as those that rules build. The search stops at variables that belong to a
        `FunctionGraph`.

    Returns
    -------
    list of Variable
    """
    const_sig_inv: dict[Any, Variable] = {}

    def merged(r: Any) -> Any:
        if not isinstance(r, graph.Constant):
            return r
        try:
            return const_sig_inv.setdefault(r.merge_signature(), r)
        except NotImplementedError:
            return r

    seen = set()
    stack = [r for r in vars if r is not None]
    while stack:
        r = stack.pop()
        node = r.owner
        if node is None or node in seen or hasattr(r, "fgraph"):
            continue
        seen.add(node)
        for i, inp in enumerate(node.inputs):
            if isinstance(inp, (list, tuple)):
                continue
            node.inputs[i] = merged(inp)
            stack.append(inp)
    return [merged(r) if r is not None else None for r in vars]


def is_same_graph_with_merge(
    var1: Variable,
    var2: Variable,
    givens: Mapping[Variable, Variable] | Iterable[tuple[Variable, Variable]] | None = None,
) -> bool:
    """Return True if the same graph computes both variables. The test merges both graphs in one `FunctionGraph`.

    Parameters
    ----------
    var1, var2 : Variable
    givens : list of pairs or dict, optional
        Replacements to make in both graphs before the comparison.

    Returns
    -------
    bool
    """
    givens = dict(givens or {})
    roots = graph.inputs([var1, var2])
    equiv = graph.clone_get_equiv(roots, [var1, var2])
    copied = [equiv[var1], equiv[var2]]
    inputs = [r for r in graph.inputs(copied) if not isinstance(r, graph.Constant)]
    fgraph = FunctionGraph(inputs, copied, clone=False)
    for to_replace, replace_by in givens.items():
        fgraph.replace(equiv.get(to_replace, to_replace), equiv.get(replace_by, replace_by))
    MergeOptimizer().optimize(fgraph)
    vars_replaced = list(fgraph.outputs)
    return vars_replaced[0] is vars_replaced[1]
