"""Rules on one node: the base class, rules made from functions, groups of rules, and an index of rules by Op."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from theano_ng.configdefaults import config
from theano_ng.gof import graph, ports
from theano_ng.gof import op as op_module
from theano_ng.gof.rewriting.base import Numbered, attach_destroy_handler, merge_dict, requirement_functions
from theano_ng.gof.utils import MethodNotDefined

if TYPE_CHECKING:
    from theano_ng.gof.aliases import Replacements
    from theano_ng.gof.fg import FunctionGraph
    from theano_ng.gof.graph import Apply, Variable


class LocalOptimizer(Numbered):
    """A rewriting rule on one node.

    Subclasses define `transform`, and `tracks` so that the engine calls the rule only where it may apply.

    Attributes
    ----------
    when : callable or None
        ``when(op)`` returns True if the nodes of a tracked Op may be rewritten. The engine calls it once for each Op.
    """

    name: str | None = None
    when: Callable[[Any], Any] | None = None

    def tracks(self) -> list[Any] | None:
        """Return the Op classes and Op instances to which this rule applies. None or an empty list stands for every Op.

        In an `EquilibriumOptimizer` or a `LocalOptGroup`, a class matches only its direct instances, not the instances
        of its subclasses.
        """
        return None

    def transform(self, node: Apply) -> Replacements:
        """Return the replacements of the outputs of `node`.

        Returns
        -------
        False, list or dict
            False if the rule changes nothing. A list contains one variable for each output, or None for an output
            without clients. A dict maps variables (of any node of the graph) to their replacements. Its key
            ``"remove"`` may list variables that must leave the graph.
        """
        raise MethodNotDefined("transform", type(self), self.__class__.__name__)

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        """Attach the features that the rule needs. By default, attach none."""

    def print_summary(self, stream: TextIO = sys.stdout, level: int = 0, depth: int = -1) -> None:
        print("%s%s id=%i" % (" " * level, self.__class__.__name__, id(self)), file=stream)


class FromFunctionLocalOptimizer(LocalOptimizer):
    """A rule whose `transform` is a function of the node; see `local_optimizer`."""

    def __init__(
        self,
        fn: Callable[..., Any],
        tracks: Iterable[Any] | None = None,
        requirements: Iterable[Callable[[FunctionGraph], Any]] = (),
        when: Callable[[Any], Any] | None = None,
    ) -> None:
        self.fn = fn
        tracks = None if tracks is None else list(tracks)
        self._tracks = tracks
        # Store the Ops in a tuple: `in` finds an identical Op without a call. A dict would call the Op's __hash__.
        self._ops = tuple([t for t in tracks or () if not isinstance(t, type)])
        self._classes = tuple([t for t in tracks if isinstance(t, type)]) if tracks else object
        self.requirements = requirement_functions(requirements)
        self.when = when
        self.__name__ = getattr(fn, "__name__", None)
        self.__doc__ = getattr(fn, "__doc__", None)

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        for requirement in self.requirements:
            requirement(fgraph)

    def tracks(self) -> list[Any] | None:
        return self._tracks

    def transform(self, node: Any, *more: Any) -> Any:
        """Call the function if the rule tracks the node's Op, its class or a base class, and if `when` accepts the Op.

        Otherwise return False.

        The function therefore need not check the Op of its node. `GraphToGPULocalOptGroup` passes more arguments:
        `node` is then the Op itself.
        """
        op = node if more else node.op
        if (op in self._ops or isinstance(op, self._classes)) and (self.when is None or self.when(op)):
            return self.fn(node, *more)
        return False

    def __str__(self) -> str:
        return getattr(self, "__name__", None) or "<FromFunctionLocalOptimizer instance>"

    def __repr__(self) -> str:
        return str(self)

    def print_summary(self, stream: TextIO = sys.stdout, level: int = 0, depth: int = -1) -> None:
        print("%s%s id=%i" % (" " * level, self.fn if self.__name__ is None else self.__name__, id(self)), file=stream)


def local_optimizer(
    tracks: Iterable[Any] | None,
    inplace: bool = False,
    requirements: Iterable[Callable[[FunctionGraph], Any]] = (),
    when: Callable[[Any], Any] | None = None,
) -> Callable[[Callable[..., Any]], FromFunctionLocalOptimizer]:
    """Return a decorator that makes a `LocalOptimizer` from ``f(node)``.

    Parameters
    ----------
    tracks : iterable or None
        Op classes and Ops to which the rule applies. ``f`` is called only with nodes of these classes and Ops, even if
        a caller of `transform` passes other nodes. If None, ``f`` is called with every node, which is slow.
    inplace : bool
        Whether the rule introduces in-place operations. If True, the destroy handler is attached before the rule runs.
    requirements : sequence of callables
        Functions that are called with the graph before the rule is used, to attach features.
    when : callable, optional
        ``when(op)`` returns True if ``f`` is called with the nodes of a tracked Op. The result must depend only on the
        Op.

    Raises
    ------
    ValueError
        If `tracks` is empty, or contains an element that is neither an op nor an op class.
    """
    if tracks is not None:
        tracks = list(tracks)
        if not tracks:
            raise ValueError("Use None instead of an empty list to apply to all nodes.", None, tracks)
        for t in tracks:
            if not isinstance(t, op_module.PureOp) and not (isinstance(t, type) and issubclass(t, op_module.PureOp)):
                raise ValueError("Tracks are op classes or instances", t)

    def decorator(f: Callable[..., Any]) -> FromFunctionLocalOptimizer:
        reqs = tuple(requirements)
        if inplace:
            reqs = (attach_destroy_handler,) + reqs
        rval = FromFunctionLocalOptimizer(f, tracks, reqs, when)
        rval.__name__ = f.__name__
        return rval

    return decorator


class RuleIndex:
    """An index of rules by Op. The order is: rules that track the Op, rules that track its class, rules for every Op.

    Parameters
    ----------
    rules : iterable of LocalOptimizer
        The rules. Their order is kept within each of the three groups.
    """

    def __init__(self, rules: Iterable[LocalOptimizer] = ()) -> None:
        self._by_op: dict[Any, list[LocalOptimizer]] = {}
        self._by_class: dict[type, list[LocalOptimizer]] = {}
        self._everywhere: list[LocalOptimizer] = []
        self._class_decides = True
        self._classes_with_ops: set[type] = set()
        self._cache: dict[Any, tuple[Any, Any]] = {}
        self.rules: list[LocalOptimizer] = []
        self._known: set[LocalOptimizer] = set()
        for rule in rules:
            self.add(rule)

    def add(self, rule: LocalOptimizer) -> None:
        """Append `rule`. Adding it a second time has no effect."""
        if rule in self._known:
            return
        self._known.add(rule)
        self.rules.append(rule)
        self._cache.clear()
        tracks = rule.tracks()
        if not tracks:
            self._everywhere.append(rule)
            self._class_decides = self._class_decides and rule.when is None
            return
        for track in tracks:
            if isinstance(track, type):
                rows = self._by_class.setdefault(track, [])
                if rule.when is not None:
                    self._classes_with_ops.add(track)
            else:
                rows = self._by_op.setdefault(track, [])
                self._classes_with_ops.add(type(track))
            # Rules are added one at a time, so if `rows` already contains the rule, the rule is the last element.
            if not rows or rows[-1] is not rule:
                rows.append(rule)

    def rules_for(self, op: Any) -> tuple[LocalOptimizer, ...]:
        """Return the tuple of the rules to try on a node of `op`."""
        return self._found_for(op)[0]

    def transforms_for(self, op: Any) -> tuple[tuple[LocalOptimizer, Callable[..., Any]], ...]:
        """Return the rules of `rules_for`, each paired with a function that transforms a node of `op`.

        For a `FromFunctionLocalOptimizer`, this is the rule's own function, because the Op need not be checked again.
        For any other rule, it is `transform`.
        """
        return self._found_for(op)[1]

    def _found_for(self, op: Any) -> tuple[Any, Any]:
        # If the class of an Op determines the rules, use the class as the key. This avoids a call of the Op's __hash__.
        cls = type(op)
        key = cls if self._class_decides and cls not in self._classes_with_ops else op
        found = self._cache.get(key)
        if found is None:
            rows = list(self._by_op.get(op, ())) if key is op else []
            for rule in self._by_class.get(cls, ()):
                if rule not in rows:
                    rows.append(rule)
            rows.extend(self._everywhere)
            rows = [rule for rule in rows if rule.when is None or rule.when(op)]
            found = tuple(rows), tuple([(rule, _call_of(rule)) for rule in rows])
            if len(self._cache) < 4096:
                self._cache[key] = found
        return found


def _call_of(rule: LocalOptimizer) -> Callable[..., Any]:
    return rule.fn if type(rule) is FromFunctionLocalOptimizer else rule.transform


class LocalOptGroup(LocalOptimizer):
    """A group of rules that are tried one after the other on the same node.

    Parameters
    ----------
    *optimizers : LocalOptimizer
    apply_all_opts : bool, keyword
        If False, return the result of the first rule that applies. If True, try the rules again on the result, until no
        rule applies.
    profile : bool, keyword
        Whether to count and time the rules.
    """

    def __init__(self, *optimizers: Any, **kwargs: Any) -> None:
        if len(optimizers) == 1 and isinstance(optimizers[0], list):
            optimizers = tuple(optimizers[0])
        self.opts = optimizers
        self.apply_all_opts = kwargs.pop("apply_all_opts", False)
        self.profile = kwargs.pop("profile", False)
        if kwargs:
            raise TypeError(
                "LocalOptGroup got unknown arguments %s; it takes apply_all_opts and profile" % sorted(kwargs)
            )
        self.reentrant = any(getattr(opt, "reentrant", True) for opt in optimizers)
        self.retains_inputs = all(getattr(opt, "retains_inputs", False) for opt in optimizers)
        self.index = RuleIndex(optimizers)
        self.time_opts = {}
        self.process_count = {}
        self.applied_true = {}
        self.node_created = {}
        if self.profile:
            for opt in optimizers:
                self.time_opts[opt] = 0.0
                self.process_count[opt] = 0
                self.applied_true[opt] = 0
                self.node_created[opt] = 0

    def __str__(self) -> str:
        return getattr(self, "__name__", None) or "LocalOptGroup(%s)" % ",".join(str(o) for o in self.opts)

    def tracks(self) -> list[Any] | None:
        tracks = []
        for opt in self.opts:
            t = opt.tracks()
            if not t:
                return None
            tracks.extend(t)
        return tracks

    def transform(self, node: Apply) -> Replacements:
        original = node
        replacement: Any = False
        # Limit the number of rounds: a pair of rules that undo each other must not loop forever.
        for _ in range(1 + 8 * len(self.opts)):
            new_repl = self._first_match(node)
            if not new_repl:
                return replacement
            replacement = new_repl
            if not self.apply_all_opts or isinstance(replacement, dict):
                return replacement
            owners: dict[Apply, None] = {}
            for variable in replacement:
                if variable is not None and variable.owner is not None:
                    owners[variable.owner] = None
            # The next round tries the rules on one node, which must compute all replacements in the original order.
            if len(owners) != 1:
                return replacement
            (node,) = owners
            if node is original or list(node.outputs) != list(replacement):
                return replacement
        return replacement

    def _first_match(self, node: Apply) -> Any:
        for opt in self.index.rules_for(node.op):
            if not self.profile:
                new_repl = opt.transform(node)
            else:
                t0 = time.perf_counter()
                new_repl = opt.transform(node)
                self.time_opts[opt] += time.perf_counter() - t0
                self.process_count[opt] += 1
            if not new_repl:
                continue
            values = new_repl.values() if isinstance(new_repl, dict) else new_repl
            values = [v for v in values if hasattr(v, "owner")]
            if self.profile:
                self.applied_true[opt] += 1
                self.node_created[opt] += len({v.owner for v in values if v.owner is not None and v.owner is not node})
            if config.optimizer_verbose:
                print("LocalOptGroup: %s applied to %s" % (opt, node))
            return new_repl
        return False

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        for opt in self.opts:
            opt.add_requirements(fgraph)

    def print_summary(self, stream: TextIO = sys.stdout, level: int = 0, depth: int = -1) -> None:
        print("%s%s id=%i" % (" " * level, self.__class__.__name__, id(self)), file=stream)
        if depth != 0:
            for opt in self.opts:
                opt.print_summary(stream, level=level + 2, depth=depth - 1)

    @staticmethod
    def print_profile(stream: TextIO, prof: Any, level: int = 0) -> None:
        (time_opts, process_count, applied_true, node_created, profile) = prof
        if not profile:
            return
        blanc = "    " * level
        print("%sLocalOptGroup" % blanc, file=stream)
        print("%s---------------------" % blanc, file=stream)
        used = [opt for opt in time_opts if applied_true.get(opt)]
        unused = [opt for opt in time_opts if not applied_true.get(opt)]
        if used:
            print("%s  time taken - times applied - times tried - name - node_created:" % blanc, file=stream)
            for opt in sorted(used, key=lambda o: (-time_opts[o], str(o))):
                print(
                    "%s  %.3fs - %d - %d - %s - %d"
                    % (blanc, time_opts[opt], applied_true[opt], process_count[opt], opt, node_created[opt]),
                    file=stream,
                )
        if unused:
            print(
                "%s  %.3fs - in %d optimization that were not used (display those with runtime greater than 0)"
                % (blanc, sum(time_opts[o] for o in unused), len(unused)),
                file=stream,
            )
            for opt in sorted(unused, key=lambda o: (-time_opts[o], str(o))):
                if time_opts[opt] > 0:
                    print("%s    %.3fs - %s" % (blanc, time_opts[opt], opt), file=stream)

    @staticmethod
    def merge_profile(prof1: Any, prof2: Any) -> tuple[Any, ...]:
        """Add two profiles."""
        return tuple(merge_dict(a, b) for a, b in zip(prof1[:4], prof2[:4])) + (prof1[4] or prof2[4],)


class GraphToGPULocalOptGroup(LocalOptGroup):
    """A group of the rules that move one Op to the GPU.

    ``transform(op, context_name, inputs, outputs)`` returns the result of the first rule that applies.
    """

    def __init__(self, *optimizers: Any, **kwargs: Any) -> None:
        super().__init__(*optimizers, **kwargs)
        if self.apply_all_opts:
            raise ValueError(
                "GraphToGPULocalOptGroup stops at the first rule that applies; apply_all_opts=True is not supported"
            )

    def transform(  # type: ignore[override]
        self, op: Any, context_name: Any, inputs: Sequence[Variable], outputs: Sequence[Variable]
    ) -> Any:
        opt: Any
        for opt in self.index.rules_for(op):
            new_repl = opt.transform(op, context_name, inputs, outputs)
            if new_repl:
                return new_repl
        return False


class LocalMetaOptimizerSkipAssertionError(AssertionError):
    """Error: a rule does not support the inputs of a node. `LocalMetaOptimizer` then tries the next rule."""


class LocalMetaOptimizer(LocalOptimizer):
    """A rule that tries several rules on a node, measures the time of each result, and keeps the fastest result.

    `register` adds rules. The flags `config.metaopt.optimizer_including` and `.optimizer_excluding` select the rules to
    try. The measurement uses the values of shared variables, and the test values of other variables. Subclasses define
    `provide_inputs`, which provides values for variables without test values.
    """

    def __init__(self) -> None:
        self.verbose = config.metaopt.verbose
        self.track_dict: dict[Any, list[LocalOptimizer]] = {}
        self.tag_dict: dict[str, list[LocalOptimizer]] = {}
        self._tracks: list[Any] = []
        self.optimizers: list[LocalOptimizer] = []

    def register(self, optimizer: LocalOptimizer, tag_list: Iterable[str]) -> None:
        """Add a rule. The flags `config.metaopt...` include or exclude it by the tags in `tag_list`."""
        self.optimizers.append(optimizer)
        for track in optimizer.tracks() or ():
            self.track_dict.setdefault(track, []).append(optimizer)
            if track not in self._tracks:
                self._tracks.append(track)
        for tag in tag_list:
            self.tag_dict.setdefault(tag, []).append(optimizer)

    def tracks(self) -> list[Any] | None:
        return list(self._tracks)

    def get_opts(self, node: Apply) -> list[LocalOptimizer]:
        """Return the rules to measure on `node`."""
        excluded = [t for t in config.metaopt.optimizer_excluding.split(":") if t]
        included = [t for t in config.metaopt.optimizer_including.split(":") if t]
        drop = {opt for tag in excluded for opt in self.tag_dict.get(tag, ())}
        keep = {opt for tag in included for opt in self.tag_dict.get(tag, ())}
        rows = list(self.track_dict.get(type(node.op), ())) + list(self.track_dict.get(node.op, ()))
        return [opt for opt in rows if opt not in drop and (not keep or opt in keep)]

    def provide_inputs(self, node: Apply, inputs: Sequence[Variable]) -> dict[Any, Any]:
        """Return a dict from some of `inputs` to shared variables or constants for the measurement.

        By default, return an empty dict.
        """
        return {}

    def time_call(self, fn: Callable[[], Any]) -> float:
        """Return the number of seconds that one call of `fn` takes."""
        start = time.perf_counter()
        fn()
        return time.perf_counter() - start

    def transform(self, node: Apply) -> Replacements:
        if self.verbose > 1:
            print("LocalMetaOptimizer: testing %s" % node)
        givens, missing = {}, []
        variable: Any
        for variable in node.inputs:
            if isinstance(variable, graph.Constant):
                continue
            if hasattr(variable, "get_value"):
                givens[variable] = ports.shared(
                    variable.get_value(borrow=False), variable.name, broadcastable=variable.broadcastable, borrow=True
                )
            elif hasattr(variable.tag, "test_value"):
                givens[variable] = ports.shared(
                    variable.type.filter(variable.tag.test_value),
                    variable.name,
                    broadcastable=variable.broadcastable,
                    borrow=True,
                )
            else:
                missing.append(variable)
        if missing:
            try:
                givens.update(self.provide_inputs(node, missing))
            except LocalMetaOptimizerSkipAssertionError:
                pass
            missing = [v for v in missing if v not in givens]
        if missing:
            if self.verbose > 0:
                print(
                    "%s cannot meta-optimize %s, %d of %d input shapes unknown"
                    % (self.__class__.__name__, node, len(missing), len(node.inputs))
                )
            return False
        timings: list[tuple[float, int, Any, LocalOptimizer]] = []
        for opt in self.get_opts(node):
            try:
                outputs = opt.transform(node)
            except LocalMetaOptimizerSkipAssertionError:
                continue
            if not outputs:
                continue
            try:
                fn = ports.compile_function([], outputs, givens=givens, on_unused_input="ignore")
                fn.trust_input = True
                timing = min(self.time_call(fn) for _ in range(2))
            except Exception as e:
                # Ignore a candidate that does not compile or run.
                if self.verbose > 0:
                    print("* %s: exception %s" % (opt, e))
                continue
            if self.verbose > 1:
                print("* %s: %.5g sec" % (opt, timing))
            timings.append((timing, len(timings), outputs, opt))
        if not timings:
            if self.verbose > 0:
                print("%s: no rule works for %s" % (self.__class__.__name__, node))
            return False
        timing, _, outputs, opt = min(timings, key=lambda row: row[:2])
        if self.verbose > 1:
            print("= %s" % opt)
        return outputs
