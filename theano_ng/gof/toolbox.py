"""Features of a FunctionGraph: objects that undo changes, check the graph, find nodes and print events."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from theano_ng.configdefaults import config
from theano_ng.gof import graph, ports
from theano_ng.gof.stack_traces import complete_stack_traces

if TYPE_CHECKING:
    from theano_ng.gof.aliases import NodeOrVariable
    from theano_ng.gof.fg import FunctionGraph
    from theano_ng.gof.graph import Apply, Variable
    from theano_ng.gof.op.base import Op


class AlreadyThere(Exception):
    """Error raised by a feature's `on_attach` if the graph already has such a feature.

    The feature is then not attached.
    """


class InconsistencyError(Exception):
    """Error raised by a feature's `validate` if the graph is invalid.

    An invalid in-place operation is an example.
    """

    __module__ = "theano_ng.gof.fg"  # the documented path; pickles and tracebacks show it


class ReplacementDidntRemovedError(Exception):
    """Error: a replacement left nodes in the graph that it had to remove."""


class BadOptimization(Exception):
    """Error: a rewrite changed a variable's type or value.

    Attributes
    ----------
    old_r, new_r : Variable
        The replaced variable and its replacement. If `old_r` is a string, it is the message.
    old_r_val, new_r_val : object
        The differing values, or None.
    reason : object
        The rewrite.
    old_graph, new_graph : str
        The printed graphs of the replaced variable and of its replacement.
    full_err : str
        The message.
    """

    def __init__(
        self,
        old_r: Variable,
        new_r: Variable | None = None,
        old_r_val: Any = None,
        new_r_val: Any = None,
        reason: Any = None,
        old_graph: str | None = None,
        new_graph: str | None = None,
    ) -> None:
        super().__init__()
        self.old_r = old_r
        self.new_r = new_r
        self.old_r_val = old_r_val
        self.new_r_val = new_r_val
        self.reason = reason
        if not hasattr(old_r, "owner"):  # the caller passed only a message instead of a variable
            self.old_graph = self.new_graph = None
            self.full_err = str(old_r)
            return
        self.old_graph = old_graph if old_graph is not None else _printed(old_r)
        self.new_graph = new_graph if new_graph is not None else _printed(new_r)
        # Make the message now, because the graph changes after the error.
        self.full_err = self.str_diagnostic()

    def __str__(self) -> str:
        return self.full_err

    def __reduce__(self) -> Any:
        return BadOptimization, (
            self.old_r,
            self.new_r,
            self.old_r_val,
            self.new_r_val,
            self.reason,
            self.old_graph,
            self.new_graph,
        )

    def str_diagnostic(self) -> str:
        """Return a message that describes the change, the rewrite and the graphs."""
        lines = [
            "BadOptimization Error",
            "  Variable: id %s %s" % (id(self.new_r), self.new_r),
            "  Op %s" % (self.new_r.owner if self.new_r is not None else None,),
        ]
        if self.old_r_val is not None or self.new_r_val is not None:
            lines.append("  Value Type: %s" % type(self.new_r_val))
            for label, value in (("Old", self.old_r_val), ("New", self.new_r_val)):
                if hasattr(value, "shape") and hasattr(value, "dtype"):
                    lines.append(
                        "  %s Value shape, dtype, strides: %s %s %s"
                        % (label, value.shape, value.dtype, getattr(value, "strides", None))
                    )
            lines += _value_differences(self.old_r_val, self.new_r_val)
        lines.append("  Reason:  %s" % (self.reason,))
        lines += [
            "  Old Graph:",
            str(self.old_graph),
            "  New Graph:",
            str(self.new_graph),
            "",
            "Hint: relax the tolerance by setting tensor.cmp_sloppy=1",
            "  or even tensor.cmp_sloppy=2 for less-strict comparison",
        ]
        return "\n".join(lines)


def _printed(variable: Variable | None) -> str | None:
    """Return the graph of a variable as text, six levels deep."""
    if variable is None:
        return None
    from io import StringIO

    text = StringIO()
    ports.format_graph(variable, depth=6, print_type=True, file=text)
    return text.getvalue()


def _value_differences(old: Any, new: Any) -> list[str]:
    """Return lines that describe the difference of two arrays."""
    import numpy as np

    try:
        diff = np.absolute(np.asarray(new, dtype="float64") - np.asarray(old, dtype="float64"))
        rel = diff / np.maximum(
            np.absolute(np.asarray(old, dtype="float64")) + np.absolute(np.asarray(new, dtype="float64")), 1e-300
        )
    except (TypeError, ValueError):
        return ["  Old Value: %s" % str(old)[:1000], "  New Value: %s" % str(new)[:1000]]
    lines = []
    if diff.size:
        for name, values in (("Abs", diff), ("Rel", rel)):
            for stat in (np.max, np.min, np.mean, np.std):
                lines.append("  %-5s %s Diff: %s" % (stat.__name__, name, stat(values)))
    return lines + ["  Old Value: %s" % str(old)[:1000], "  New Value: %s" % str(new)[:1000]]


class Feature:
    """A base class of FunctionGraph extensions.

    Subclasses override the callbacks that they need. `FunctionGraph.attach_feature` attaches a feature.

    The class attribute `pickle_rm_attr` lists attributes that the feature sets on the graph and that are not pickled.
    The method ``unpickle(fgraph)`` sets them again.
    """

    def on_attach(self, function_graph: FunctionGraph) -> None:
        """Prepare the graph. `attach_feature` calls this method.

        The graph is already populated. The method may add methods to the graph.

        Raises
        ------
        AlreadyThere
            If the feature must not be attached.
        """

    def on_detach(self, function_graph: FunctionGraph) -> None:
        """Undo the changes that `on_attach` made to the graph. `remove_feature` calls this method."""

    def on_import(self, function_graph: FunctionGraph, node: Apply, reason: Any) -> None:
        """React to a node that is added to the graph.

        The method is not called for nodes that were in the graph before the feature was attached.
        """

    def on_prune(self, function_graph: FunctionGraph, node: Apply, reason: Any) -> None:
        """React to a node that was disconnected and removed from the graph."""

    def on_change_input(
        self, function_graph: FunctionGraph, node: Apply | str, i: int, r: Variable, new_r: Variable, reason: Any = None
    ) -> None:
        """React to a change of ``node.inputs[i]`` from `r` to `new_r`.

        If `node` is 'output', ``function_graph.outputs[i]`` was changed.

        An exception that this method raises leaves the graph broken.
        """

    def orderings(self, function_graph: FunctionGraph) -> Mapping[Apply, Sequence[Apply]]:
        """Return constraints on the order of nodes. `FunctionGraph.toposort` calls this method.

        Returns
        -------
        dict
            Node -> list of nodes that have to come before it. The order of each list has to be deterministic, so sets
            are not allowed.
        """
        return {}


class Bookkeeper(Feature):
    """A feature that calls `on_import` for existing nodes when it is attached, and `on_prune` when it is detached."""

    def on_attach(self, fgraph: FunctionGraph) -> None:
        for node in fgraph.sorted_nodes():
            self.on_import(fgraph, node, "on_attach")

    def on_detach(self, fgraph: FunctionGraph) -> None:
        for node in fgraph.sorted_nodes():
            self.on_prune(fgraph, node, "Bookkeeper.detach")


class GetCheckpoint:
    """The method `checkpoint` that History adds to a graph. It returns the number of changes that were made so far."""

    def __init__(self, history: History, fgraph: FunctionGraph) -> None:
        self.h = history
        self.fgraph = fgraph

    def __call__(self) -> int:
        return len(self.h.history[self.fgraph])


class LambdExtract:
    """An undo operation. A call sets input `i` of `node` back to the variable `r`."""

    __slots__ = ("fgraph", "node", "i", "r", "reason")

    def __init__(self, fgraph: FunctionGraph, node: Apply | str, i: int, r: Variable, reason: Any = None) -> None:
        self.fgraph = fgraph
        self.node = node
        self.i = i
        self.r = r
        self.reason = reason

    def __call__(self) -> None:
        return self.fgraph.change_input(self.node, self.i, self.r, reason=("Revert", self.reason))


class History(Feature):
    """A feature that can undo changes. It adds ``checkpoint()`` and ``revert(checkpoint)`` to the graph."""

    pickle_rm_attr = ["checkpoint", "revert"]

    def __init__(self) -> None:
        self.history: dict[FunctionGraph, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Pickles do not contain the history. `unpickle` begins an empty history.
        return dict(self.__dict__, history={})

    def on_attach(self, fgraph: FunctionGraph) -> None:
        if hasattr(fgraph, "checkpoint") or hasattr(fgraph, "revert"):
            raise AlreadyThere("History feature is already present or in conflict with another plugin.")
        History.unpickle(self, fgraph)

    def unpickle(self, fgraph: FunctionGraph) -> None:
        """Begin a history and add the methods to the graph."""
        self.history[fgraph] = []
        fgraph.checkpoint = GetCheckpoint(self, fgraph)
        fgraph.revert = partial(self.revert, fgraph)

    def on_detach(self, fgraph: FunctionGraph) -> None:
        del fgraph.checkpoint
        del fgraph.revert
        del self.history[fgraph]

    def on_change_input(
        self, fgraph: FunctionGraph, node: Apply | str, i: int, r: Variable, new_r: Variable, reason: Any = None
    ) -> None:
        history = self.history[fgraph]
        if history is not None:
            history.append(LambdExtract(fgraph, node, i, r, reason))

    def revert(self, fgraph: FunctionGraph, checkpoint: int) -> None:
        """Undo all changes since `checkpoint`, which ``fgraph.checkpoint()`` returned."""
        history = self.history[fgraph]
        # While changes are undone, `on_change_input` must not record the undo operations.
        self.history[fgraph] = None
        try:
            while len(history) > checkpoint:
                history.pop()()
        finally:
            self.history[fgraph] = history


class Validator(Feature):
    """A feature that adds ``validate()`` and ``consistent()`` to the graph.

    ``validate()`` calls every feature's `validate`. ``consistent()`` returns True if ``validate()`` raises no error.
    """

    pickle_rm_attr = ["validate", "consistent"]

    def on_attach(self, fgraph: FunctionGraph) -> None:
        for attr in ("validate", "validate_time"):
            if hasattr(fgraph, attr):
                raise AlreadyThere("Validator feature is already present or in conflict with another plugin.")
        Validator.unpickle(self, fgraph)

    def unpickle(self, fgraph: FunctionGraph) -> None:
        """Add the methods to the graph."""
        fgraph.validate = partial(self.validate_, fgraph)
        fgraph.consistent = partial(self.consistent_, fgraph)

    def on_detach(self, fgraph: FunctionGraph) -> None:
        del fgraph.validate
        del fgraph.consistent

    def validate_(self, fgraph: FunctionGraph) -> None:
        """Call `validate` of every feature. If a feature raises an error (InconsistencyError), the error propagates."""
        start = time.perf_counter()
        try:
            return fgraph.execute_callbacks("validate")
        finally:
            profile = getattr(fgraph, "profile", None)
            if profile:
                profile.validate_time += time.perf_counter() - start

    def consistent_(self, fgraph: FunctionGraph) -> bool:
        """Return True if `validate` succeeds."""
        try:
            fgraph.validate()
            return True
        except Exception:
            return False


class ReplaceValidate(History, Validator):
    """A feature for replacements that are undone if the graph does not validate.

    It adds `replace_validate`, `replace_all_validate` and `replace_all_validate_remove` to the graph.
    """

    pickle_rm_attr = [
        "replace_validate",
        "replace_all_validate",
        "replace_all_validate_remove",
        *History.pickle_rm_attr,
        *Validator.pickle_rm_attr,
    ]

    def __init__(self) -> None:
        History.__init__(self)
        self._nodes_removed: set[NodeOrVariable] = set()
        self.fail_validate = False

    def __getstate__(self) -> dict[str, Any]:
        return dict(History.__getstate__(self), _nodes_removed=set(), fail_validate=False)

    def on_attach(self, fgraph: FunctionGraph) -> None:
        for attr in ("replace_validate", "replace_all_validate", "replace_all_validate_remove"):
            if hasattr(fgraph, attr):
                raise AlreadyThere("ReplaceValidate feature is already present or in conflict with another plugin.")
        History.on_attach(self, fgraph)
        Validator.on_attach(self, fgraph)
        ReplaceValidate.unpickle(self, fgraph)

    def unpickle(self, fgraph: FunctionGraph) -> None:
        """Add the methods to the graph."""
        History.unpickle(self, fgraph)
        Validator.unpickle(self, fgraph)
        fgraph.replace_validate = partial(self.replace_validate, fgraph)
        fgraph.replace_all_validate = partial(self.replace_all_validate, fgraph)
        fgraph.replace_all_validate_remove = partial(self.replace_all_validate_remove, fgraph)

    def on_detach(self, fgraph: FunctionGraph) -> None:
        History.on_detach(self, fgraph)
        Validator.on_detach(self, fgraph)
        del fgraph.replace_validate
        del fgraph.replace_all_validate
        del fgraph.replace_all_validate_remove

    def replace_validate(self, fgraph: FunctionGraph, r: Variable, new_r: Variable, reason: Any = None) -> None:
        """Replace `r` by `new_r`. If this is not valid, raise an error and leave the graph unchanged."""
        self.replace_all_validate(fgraph, [(r, new_r)], reason=reason)

    def replace_all_validate(
        self,
        fgraph: FunctionGraph,
        replacements: Iterable[tuple[Variable, Variable]],
        reason: Any = None,
        verbose: bool | None = None,
    ) -> int:
        """Make replacements and validate the graph. If it is not valid, raise an error and undo the replacements.

        Parameters
        ----------
        fgraph : FunctionGraph
        replacements : iterable of (Variable, Variable)
        reason : object
            The cause of the replacements (such as a rewrite), for messages.
        verbose : bool, optional
            Whether to print each replacement. By default, ``config.optimizer_verbose``.

        Returns
        -------
        int
            The checkpoint before the replacements.
        """
        chk = fgraph.checkpoint()
        if verbose is None:
            verbose = config.optimizer_verbose
        replacements = list(replacements)
        complete_stack_traces(fgraph, replacements, reason)
        try:
            for r, new_r in replacements:
                fgraph.replace(r, new_r, reason=reason, verbose=False)
            fgraph.validate()
        except Exception as error:
            fgraph.revert(chk)
            if verbose:
                print(
                    "rewriting: %s: replacement of %s refused: %s"
                    % (reason, ", ".join(str(r) for r, _ in replacements), error)
                )
            raise
        if verbose:
            for r, new_r in replacements:
                print(reason, r, new_r)
        return chk

    def replace_all_validate_remove(
        self,
        fgraph: FunctionGraph,
        replacements: Iterable[tuple[Variable, Variable]],
        remove: Iterable[NodeOrVariable],
        reason: Any = None,
        warn: bool = True,
    ) -> int:
        """Replace variables as `replace_all_validate` does, and check that the elements of `remove` left the graph.

        If an element is still in the graph, undo the replacements and raise an error.

        Parameters
        ----------
        remove : list of Apply or Variable
            The nodes and variables that must leave the graph. If a later change adds one of these nodes again,
            `validate` raises InconsistencyError.
        warn : bool
            Whether to print a warning before the error is raised.

        Raises
        ------
        ReplacementDidntRemovedError
        """
        replacements, remove = list(replacements), list(remove)
        chk = self.replace_all_validate(fgraph, replacements, reason=reason)
        for rm in remove:
            if rm in fgraph.apply_nodes or rm in fgraph.variables:
                fgraph.revert(chk)
                if warn:
                    print(
                        "WARNING: a rewrite had to remove a node but did not remove it; this may prevent fusion and the removal "
                        "of other nodes. Please report it. Rewrite: %s, replacements: %s" % (reason, replacements),
                        file=sys.stderr,
                    )
                raise ReplacementDidntRemovedError()
        self._nodes_removed.update(remove)
        if config.scan.debug:  # a flag of Scan, because mostly rewrites of Scan call this method
            print(
                "Scan: %s removed %s: %s"
                % (reason, ", ".join(map(str, remove)), ", ".join("%s -> %s" % pair for pair in replacements))
            )
        return chk

    def on_import(self, fgraph: FunctionGraph, node: Apply, reason: Any) -> None:
        self.fail_validate = self.fail_validate or node in self._nodes_removed

    def validate(self, fgraph: FunctionGraph) -> None:
        failed, self.fail_validate = self.fail_validate, False
        if failed:
            raise InconsistencyError("Trying to reintroduce a removed node")


class NodeFinder(Bookkeeper):
    """A feature that adds ``get_nodes(op)`` to the graph.

    The method returns the list of the nodes whose Op equals `op`.
    """

    pickle_rm_attr = ["get_nodes"]

    def __init__(self) -> None:
        self.fgraph: FunctionGraph | None = None
        self.d: dict[Op, dict[Apply, None]] = {}

    def clone_for(self, fgraph: FunctionGraph) -> NodeFinder:
        """Return a finder for a copy of the graph."""
        return type(self)()

    def on_attach(self, fgraph: FunctionGraph) -> None:
        if self.fgraph is not None:
            raise Exception("A NodeFinder instance can only serve one FunctionGraph.")
        if hasattr(fgraph, "get_nodes"):
            raise AlreadyThere("NodeFinder is already present or in conflict with another plugin.")
        self.fgraph = fgraph
        self.unpickle(fgraph)
        Bookkeeper.on_attach(self, fgraph)

    def unpickle(self, fgraph: FunctionGraph) -> None:
        """Add the method `get_nodes` to the graph."""
        fgraph.get_nodes = partial(self.query, fgraph)

    def on_detach(self, fgraph: FunctionGraph) -> None:
        if self.fgraph is not fgraph:
            raise Exception("This NodeFinder instance was not attached to the provided fgraph.")
        self.fgraph = None
        self.d = {}
        del fgraph.get_nodes

    def on_import(self, fgraph: FunctionGraph, node: Apply, reason: Any) -> None:
        try:
            self.d.setdefault(node.op, {})[node] = None
        except TypeError:
            # Do not record a node whose Op is unhashable. `query` raises an error for such an Op.
            return

    def on_prune(self, fgraph: FunctionGraph, node: Apply, reason: Any) -> None:
        try:
            nodes = self.d[node.op]
        except TypeError:
            return
        del nodes[node]
        if not nodes:
            del self.d[node.op]

    def query(self, fgraph: FunctionGraph, op: Op) -> list[Apply]:
        """Return the nodes of the graph whose Op equals `op`, in the order in which they were imported."""
        try:
            return list(self.d.get(op, ()))
        except TypeError:
            raise TypeError("%s is unhashable and cannot be queried by the optimizer" % (op,)) from None


class PrintListener(Feature):
    """A feature that prints changes of the graph.

    Parameters
    ----------
    active : bool
        Whether to print.
    """

    def __init__(self, active: bool = True) -> None:
        self.active = active

    def _print_if_active(self, *words: object) -> None:
        if self.active:
            print(*words)

    def on_attach(self, fgraph: FunctionGraph) -> None:
        self._print_if_active("-- attaching to: ", fgraph)

    def on_detach(self, fgraph: FunctionGraph) -> None:
        self._print_if_active("-- detaching from: ", fgraph)

    def on_import(self, fgraph: FunctionGraph, node: Apply, reason: Any) -> None:
        self._print_if_active("-- importing: %s, reason: %s" % (node, reason))

    def on_prune(self, fgraph: FunctionGraph, node: Apply, reason: Any) -> None:
        self._print_if_active("-- pruning: %s, reason: %s" % (node, reason))

    def on_change_input(
        self, fgraph: FunctionGraph, node: Apply | str, i: int, r: Variable, new_r: Variable, reason: Any = None
    ) -> None:
        self._print_if_active("-- changing (%s.inputs[%s]) from %s to %s" % (node, i, r, new_r))


class PreserveNames(Feature):
    """A feature that gives the name of a replaced variable to the replacement, unless the replacement has a name."""

    def on_change_input(
        self, fgraph: FunctionGraph, node: Apply | str, i: int, r: Variable, new_r: Variable, reason: Any = None
    ) -> None:
        if r.name is not None and new_r.name is None:
            new_r.name = r.name


class PreserveVariableAttributes(Feature):
    """A feature that copies the name and ``tag.nan_guard_mode_check`` of a replaced variable to its replacement.

    An existing name or tag of the replacement is kept.
    """

    def on_change_input(
        self, fgraph: FunctionGraph, node: Apply | str, i: int, r: Variable, new_r: Variable, reason: Any = None
    ) -> None:
        if r.name is not None and new_r.name is None:
            new_r.name = r.name
        if hasattr(r.tag, "nan_guard_mode_check") and not hasattr(new_r.tag, "nan_guard_mode_check"):
            new_r.tag.nan_guard_mode_check = r.tag.nan_guard_mode_check


class NoOutputFromInplace(Feature):
    """A feature that raises an error if an output of the graph is computed in place.

    Parameters
    ----------
    first_output_idx, last_output_idx : int
        The bounds of the protected slice of ``fgraph.outputs``.
    """

    def __init__(self, first_output_idx: int = 0, last_output_idx: int | None = None) -> None:
        self.first_idx = first_output_idx
        self.last_idx = last_output_idx

    def validate(self, fgraph: FunctionGraph) -> bool:
        if not hasattr(fgraph, "destroyers"):
            return True
        for out in fgraph.outputs[self.first_idx : self.last_idx]:
            if out.owner is not None and out.index in (getattr(out.owner.op, "destroy_map", None) or {}):
                raise InconsistencyError(
                    "A function graph Feature has requested (probably for efficiency reasons for scan) that outputs of the graph be"
                    " prevented from being the result of inplace operations. This has prevented output %s from being computed by"
                    " modifying another variable inplace." % out
                )
        return True


__all__ = [
    "AlreadyThere",
    "BadOptimization",
    "Bookkeeper",
    "Feature",
    "GetCheckpoint",
    "History",
    "LambdExtract",
    "NoOutputFromInplace",
    "NodeFinder",
    "PreserveNames",
    "PreserveVariableAttributes",
    "PrintListener",
    "ReplaceValidate",
    "ReplacementDidntRemovedError",
    "Validator",
    "config",
    "graph",
]
