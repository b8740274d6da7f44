"""Rewriting that would not end: rules that undo each other, and rules that apply to their own results."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from theano_ng.gof import ports
from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting.local import LocalOptimizer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from theano_ng.gof.fg import FunctionGraph
    from theano_ng.gof.graph import Apply, Variable

#: The number of times that a step is repeated before `History` looks for a cycle.
REPEATS = 8
#: The maximum number of steps of a cycle, and of rules that a message names.
LONGEST_CYCLE, MOST_RULES = 20, 4
#: A run is not endless before this number of generations of replacements. A run in which the graph grows may have
#: SPARE_GENERATIONS more generations than the graph had nodes.
MANY_GENERATIONS, SPARE_GENERATIONS = 20, 50
#: The number of levels of an expression that a message shows.
DEPTH = 4


class EndlessRewriting(AssertionError):
    """The exception for rules that would rewrite a graph without end.

    It is an AssertionError, because failure callbacks let this exception pass.

    Parameters
    ----------
    message : str
    reason : str
        The part of the message that names the rules and their steps.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


def endless_rules(fgraph: FunctionGraph) -> set[Any]:
    """Return the set of the rules that a run on this graph has found to be endless. Other runs do not apply them."""
    return _endless.setdefault(fgraph, set())


_endless: weakref.WeakKeyDictionary[FunctionGraph, set[Any]] = weakref.WeakKeyDictionary()


class History:
    """The steps of a run: which expressions were replaced by which other expressions, and by which rule.

    Equal expressions count as one, also if they consist of other nodes. A run records its steps only when a rule was
    used often, because comparing expressions takes time.

    Parameters
    ----------
    fgraph : FunctionGraph
    start : int
        The number of nodes of the graph before the run.

    Attributes
    ----------
    reason : str
        A sentence about the rules that would not end, or "".
    rules : list
        These rules.
    """

    def __init__(self, fgraph: FunctionGraph, start: int) -> None:
        self.fgraph, self.start = fgraph, start
        self._numbers: dict[Any, int] = {}
        self._number_of: dict[Variable, int] = {}
        # Number of an expression -> [number of its replacement, rule, repeats, expression, replacement].
        self._steps: dict[int, list[Any]] = {}
        # Node -> (generation, node that was replaced, rule). The nodes that a rule inserts in place of an original node
        # are the first generation, the nodes that replace these nodes are the second one, and so on.
        self._parents: dict[Apply, tuple[int, Apply | None, Any]] = {}
        self._latest: dict[Any, tuple[Variable, Variable]] = {}
        self.reason = ""
        self.rules: list[Any] = []

    def replaced(self, old: Variable, new: Variable, rule: Any) -> None:
        """Record that a rule replaced a variable.

        A global optimizer may replace an expression by an equal one: MergeOptimizer does so for each copy of a constant.
        """
        before, after = self._number(old), self._number(new)
        if before == after and not isinstance(rule, LocalOptimizer):
            return
        self._latest[rule] = old, new
        step = self._steps.get(before)
        if step is None or step[:2] != [after, rule]:
            self._steps[before] = [after, rule, 1, old, new]
            return
        step[2] += 1
        if step[2] >= REPEATS and not self.reason:
            self.find_cycle(before)

    def inserted(self, node: Apply, parent: Apply | None, rule: Any) -> None:
        """Record that a rule inserted a node while it was applied to `parent`."""
        generation = self._parents[parent][0] + 1 if parent in self._parents else 1
        self._parents[node] = generation, parent, rule
        if generation <= MANY_GENERATIONS or self.reason:
            return
        grown, most = len(self.fgraph.apply_nodes) - self.start, self.start + SPARE_GENERATIONS
        if grown > 4 * most or generation > most and grown >= generation / 2 or generation > 4 * most:
            self._describe_lineage(node)

    def explain(self) -> None:
        """Set `reason` and `rules`, if possible, although the limits of this class are not exceeded."""
        self.find_cycle()
        if not self.reason and self._parents:
            node = max(self._parents, key=lambda node: self._parents[node][0])
            if self._parents[node][0] > MANY_GENERATIONS:
                self._describe_lineage(node)

    def find_cycle(self, start: int | None = None) -> None:
        """Set `reason` and `rules` if some steps form a cycle, and each of them was repeated.

        Parameters
        ----------
        start : int, optional
            The number of an expression of the cycle. By default, all expressions are considered.
        """
        for first in [start] if start is not None else list(self._steps):
            path: list[list[Any]] = []
            at = first
            while at in self._steps and len(path) < LONGEST_CYCLE:
                path.append(self._steps[at])
                at = path[-1][0]
                if at == first:
                    break
            if path and at == first and all(step[2] > 1 for step in path):
                self.rules = list(dict.fromkeys(step[1] for step in path))
                steps = "; ".join("%s by %s" % (self._text(step[3], step[4]), _name(step[1])) for step in path)
                if len(self.rules) == 1:
                    self.reason = "the rule %s undoes its own change: %s" % (_name(self.rules[0]), steps)
                else:
                    self.reason = "the rules %s undo each other: %s" % (_names(self.rules), steps)
                return

    def _describe_lineage(self, node: Apply) -> None:
        """Set `reason` and `rules` to the rules of the last generations."""
        rules: dict[Any, None] = {}
        at: Apply | None = node
        while at in self._parents and len(rules) < MOST_RULES:
            _, at, rule = self._parents[at]
            rules[rule] = None
        self.rules = list(rules)
        steps = "; ".join(
            "%s by %s" % (self._text(*self._latest[rule]), _name(rule)) for rule in rules if rule in self._latest
        )
        if len(rules) == 1:
            self.reason = "the rule %s applies to its own results without end: %s" % (_names(rules), steps)
        else:
            self.reason = "the rules %s apply to the results of each other without end: %s" % (_names(rules), steps)

    def _number(self, variable: Variable) -> int:
        """Return a number that is equal for equal expressions."""
        known = self._number_of
        todo = [variable]
        while todo:
            r = todo[-1]
            if r not in known:
                if r.owner is None:
                    key: Any = r.merge_signature() if isinstance(r, Constant) else id(r)
                else:
                    missing = [v for v in r.owner.inputs if v not in known]
                    if missing:
                        todo += missing
                        continue
                    key = (r.owner.op, r.owner.outputs.index(r), *[known[v] for v in r.owner.inputs])
                try:
                    known[r] = self._numbers.setdefault(key, len(self._numbers))
                except TypeError:  # the Op has no hash
                    known[r] = self._numbers.setdefault(id(r), len(self._numbers))
            todo.pop()
        return known[variable]

    def _text(self, old: Variable, new: Variable) -> str:
        """Describe a replacement. Expressions that occur on both sides are letters: ``sqr(a) -> a * a``."""
        inside = [self._inside(r) for r in (old, new)]
        common = set(inside[0]) & set(inside[1]) - {self._number(old), self._number(new)}
        letters: dict[int, Variable] = {}

        def shortened(r: Variable) -> Variable:
            number = self._number(r)
            if isinstance(r, Constant):
                return r
            if r.owner is None or number in common or number not in inside[0] and number not in inside[1]:
                if number not in letters:
                    letters[number] = r.type("abcdefghijklmnopqrstuvwxyz"[len(letters) % 26])
                return letters[number]
            node = r.owner.clone_with_new_inputs([shortened(v) for v in r.owner.inputs], strict=False)
            return node.outputs[r.owner.outputs.index(r)]

        return " -> ".join(_text(shortened(r)) for r in (old, new))

    def _inside(self, variable: Variable) -> dict[int, None]:
        """Return the numbers of the expressions in an expression, down to `DEPTH` levels below it."""
        found: dict[int, None] = {}
        level = [variable]
        for _ in range(DEPTH):
            for r in level:
                found[self._number(r)] = None
            level = [v for r in level if r.owner is not None for v in r.owner.inputs]
        return found


def _name(rule: Any) -> str:
    return str(getattr(rule, "name", None) or getattr(rule, "__name__", None) or rule)


def _names(rules: Iterable[Any]) -> str:
    return ", ".join(map(_name, rules))


def _text(variable: Variable, most: int = 100) -> str:
    try:
        text = ports.infix_text(variable)
    except Exception:
        text = str(variable)
    return text if len(text) <= most else text[: most - 3] + "..."
