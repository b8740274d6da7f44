"""What rewriting did: the record that DebugMode compares between runs, and searches for replacements that changed values."""

import numpy as np

from theano_ng.compile.debugmode.errors import BadOptimization
from theano_ng.gof.toolbox import Feature
from theano_ng.printing import debugprint


class _FunctionGraphEvent:
    """One change of a graph.

    Parameters
    ----------
    kind : {'import', 'prune', 'change'}
    node : Apply or "output"
    idx : int, optional
        Which input, or output of the graph.
    reason : object, optional
    """

    def __init__(self, kind, node, idx=None, reason=None):
        self.kind = kind
        self.node = node
        self.op = "output" if node == "output" else node.op
        self.idx = idx
        self.reason = str(reason)

    def __str__(self):
        if self.kind == "change":
            inputs = 0 if self.op == "output" else len(self.node.inputs)
            return " ".join(["change", self.reason, str(self.op), str(self.idx), str(inputs)])
        return " ".join([self.kind, str(self.op), self.reason])

    def __eq__(self, other):
        return type(self) is type(other) and (self.kind, self.op, self.idx, self.reason) == (
            other.kind,
            other.op,
            other.idx,
            other.reason,
        )

    def __ne__(self, other):
        return not self == other

    __hash__ = None


class _VariableEquivalenceTracker(Feature):
    """Feature that records every change of a graph, and which variable took the place of which.

    Parameters
    ----------
    snapshots : bool
        Whether to keep texts of the graphs before and after each replacement.

    Attributes
    ----------
    event_list : list of _FunctionGraphEvent
    reasons : dict
        New variable -> list of (reason, old variable, text of the old graph, text of the new one).
    inserted : dict
        Node -> name of the rewrite that brought it into the graph.
    all_variables_ever : dict
        All outputs of nodes that ever were in the graph, as keys.
    """

    def __init__(self, snapshots=True):
        self.fgraph = None
        self.snapshots = snapshots

    def on_attach(self, fgraph):
        if self.fgraph is not None:
            raise ValueError("a tracker serves one graph")
        self.fgraph = fgraph
        self.reasons, self.inserted, self.all_variables_ever, self.event_list = {}, {}, {}, []
        for node in fgraph.toposort():
            self.on_import(fgraph, node, "on_attach")

    def on_detach(self, fgraph):
        self.fgraph = None

    def __getstate__(self):
        # The record holds rewrites, which are no values; a graph from a pickle starts with an empty one.
        return dict(self.__dict__, reasons={}, inserted={}, all_variables_ever={}, event_list=[])

    def on_import(self, fgraph, node, reason):
        self.event_list.append(_FunctionGraphEvent("import", node, reason=reason))
        if reason is not None and reason != "on_attach":
            self.inserted.setdefault(node, str(reason))
        self.all_variables_ever.update(dict.fromkeys(node.outputs))

    def on_prune(self, fgraph, node, reason):
        self.event_list.append(_FunctionGraphEvent("prune", node, reason=reason))

    def on_change_input(self, fgraph, node, i, r, new_r, reason=None):
        self.event_list.append(_FunctionGraphEvent("change", node, reason=reason, idx=i))
        known = self.reasons.setdefault(new_r, [])
        if not any(old is r for _, old, _, _ in known):  # once for all clients
            texts = (_snapshot(r), _snapshot(new_r)) if self.snapshots else ("", "")
            known.append((reason, r) + texts)

    def printstuff(self):
        """Print the recorded replacements."""
        for new_r, entries in self.reasons.items():
            for reason, r, _, _ in entries:
                print("%s replaced %s by %s" % (reason, r, new_r))


def _snapshot(variable):
    return debugprint(variable, depth=6, print_type=True, file="str")


def check_eq(var, val1, val2):
    """Whether two values of a variable agree, by the comparison of its tag (``tag.values_eq_approx``) or of its type.

    Parameters
    ----------
    var : Variable
    val1, val2 : object
        The value to trust, and the one to judge.
    """
    compare = getattr(var.tag, "values_eq_approx", None)
    return bool((compare or var.type.values_eq_approx)(val1, val2))


def _ancestors(variable):
    """A variable and everything that it is computed from, as a dict's keys."""
    found, todo = {}, [variable]
    while todo:
        r = todo.pop()
        if r not in found:
            found[r] = None
            if r.owner is not None:
                todo.extend(r.owner.inputs)
    return found


def _between(r, others):
    """Walk back from a variable to what `others` has too.

    Parameters
    ----------
    r : Variable
    others : dict
        All that the other variable of a replacement is computed from, that one included.

    Returns
    -------
    inner, border : dict
        What is computed on the way, `r` included, and where the walk ends: variables of `others`, and variables that nothing computes.
    """
    inner, border, todo = {}, {}, [r]
    while todo:
        v = todo.pop()
        if v in inner or v in border:
            continue
        if v in others or v.owner is None:
            border[v] = None
        else:
            inner[v] = None
            todo.extend(v.owner.inputs)
    return inner, border


def _not_finite(variables, r_vals, shape):
    """Where one of the variables holds a NaN or an infinity: a mask of this shape, or a bool where shapes do not match."""
    found = False
    for r in variables:
        value = r_vals.get(r)
        if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
            bad = ~np.isfinite(value)
            if bad.any():
                try:
                    found = found | np.broadcast_to(bad, shape)
                except ValueError:
                    return True  # moved around or summed: any element may be concerned
    return found


def _judge_of(r, new_r):
    """Which of two variables says how their values are compared."""
    return new_r if hasattr(new_r.tag, "values_eq_approx") else r


class _Pair:
    """A replacement whose two values differ.

    Attributes
    ----------
    r, new_r : Variable
    entry : tuple
        Its record in `reasons`.
    old, new : object
        The values.
    inner, inner_new : dict
        What each graph computes beyond what both have.
    start, new_start : list of Variable
        The same without `r` and `new_r`, and what that is computed from.
    free : numpy.ndarray or None
        Which elements may have any value in the new graph; None when the values are no arrays of one type.
    """

    def __init__(self, new_r, entry, r_vals):
        self.new_r, self.entry = new_r, entry
        reason, self.r = entry[:2]
        self.old, self.new = old, new = r_vals[self.r], r_vals[new_r]
        self.judge = _judge_of(self.r, new_r)
        above, above_new = _ancestors(self.r), _ancestors(new_r)
        self.inner, border = _between(self.r, above_new)
        self.inner_new, border_new = _between(new_r, above)
        self.start = [v for v in (*self.inner, *border) if v is not self.r]
        self.new_start = [v for v in (*self.inner_new, *border_new) if v is not new_r]
        self.free = None
        if (
            isinstance(old, np.ndarray)
            and isinstance(new, np.ndarray)
            and (old.shape, old.dtype) == (new.shape, new.dtype)
        ):
            self.free = self._free(reason, [*border, *(v for v in border_new if v in above)], r_vals)

    def _free(self, reason, border, r_vals):
        old = self.old
        lost = ~np.isfinite(old) if old.dtype.kind in "fc" else np.zeros(old.shape, dtype=bool)
        if getattr(reason, "ignores_nonfinite", False):
            return lost | _not_finite([*self.inner, *border], r_vals, old.shape)
        return lost & np.logical_not(_not_finite(border, r_vals, old.shape))


class _Judge:
    """Tells replacements that changed a value from those that may differ.

    The values of the two variables of a replacement have to agree, with these exceptions:

    - What the old graph *made* infinite or NaN: elements that are not finite although what both graphs start from is finite there. Saving
      them is what stabilization is for: ``log(1 + exp(1000))``.
    - NaN and infinities that *came in* have to go on through the new graph as through the old one, unless the rule says that it ignores
      them: a rule with an attribute ``ignores_nonfinite = True`` (``x * 0 -> 0``, ``x == x -> True``) is judged only where everything
      that the old graph computes, and starts from, is finite.
    - What follows from a difference of these kinds: a later rewrite inside one of the two graphs made it.
    - What is rounding: where two graphs differ, they are computed again with a relative error of one or two units in the last place in
      each intermediate result. Elements that this moves as far as they differ carry no more digits than that: ``1 / (1 - p)`` near
      p = 1. Integers and booleans are exact. They may be what the *old* graph gives when its floating point numbers are rounded otherwise
      (``argmax`` of numbers that are nearly equal, ``floor(x * 10)``); a new graph that takes floating point numbers to compute what the
      old one did without is wrong where that is seen. So is one that makes a float so, where the old one computed with integers up to the
      last step.

    An element that is finite in the old graph therefore has to stay finite. A variable with ``tag.values_eq_approx`` brings its own
    comparison.

    Parameters
    ----------
    order : list of Apply
        All nodes, in the order in which they can be computed.
    reasons : dict
        See `_VariableEquivalenceTracker`.
    r_vals : dict
        Variable -> value.
    compute : callable, optional
        ``compute(node, values of its inputs)`` gives the values of its outputs. None: nothing is put down to rounding.
    """

    def __init__(self, order, reasons, r_vals, compute=None):
        self.order, self.reasons, self.r_vals, self.compute = order, reasons, r_vals, compute
        self.parent = {}  # joins what replaced each other; see _class_of
        self.disputed = set()  # classes in which there is a difference that may be

    def first_wrong(self):
        """The first replacement that is wrong, as (new variable, entry of `reasons`); None when there is none."""
        roots = [r for r in self.reasons if r.owner is None]
        doubtful = []
        for new_r in roots + [r for node in self.order for r in node.outputs]:
            for entry in self.reasons.get(new_r, ()):
                reason, r = entry[:2]
                if (
                    r in self.r_vals
                    and new_r in self.r_vals
                    and not check_eq(_judge_of(r, new_r), self.r_vals[r], self.r_vals[new_r])
                ):
                    doubtful.append((new_r, entry))
        if not doubtful:
            return None
        for new_r, entries in self.reasons.items():
            for entry in entries:
                self.parent[self._class_of(entry[1])] = self._class_of(new_r)
        # The cheap explanations first; each may explain others.
        pairs = [_Pair(new_r, entry, self.r_vals) for new_r, entry in doubtful]
        for explains in (self._is_free, self._is_rounding):
            left = []
            for pair in self._unexplained(pairs):
                if explains(pair):
                    self.disputed.add(self._class_of(pair.r))
                else:
                    left.append(pair)
            pairs = self._unexplained(left)
        return (pairs[0].new_r, pairs[0].entry) if pairs else None

    def _unexplained(self, pairs):
        """The pairs that do not follow from differences that may be."""
        while True:
            left = []
            for pair in pairs:
                if self._follows(pair):
                    self.disputed.add(self._class_of(pair.r))
                else:
                    left.append(pair)
            if len(left) == len(pairs):
                return left
            pairs = left

    def _class_of(self, v):
        """Representative of all variables that replaced `v`, or that it replaced."""
        path = []
        while v in self.parent and self.parent[v] is not v:
            path.append(v)
            v = self.parent[v]
        for other in path:
            self.parent[other] = v
        return v

    def _follows(self, pair):
        """Whether the two graphs have variables in them that replaced each other, and that differ where they may."""
        known = {}
        for v in pair.start if self.disputed else ():
            if self._class_of(v) in self.disputed:
                known.setdefault(self._class_of(v), []).append(v)
        return any(not self._same(v, w) for w in pair.new_start for v in known.get(self._class_of(w), ()))

    def _same(self, v, w):
        return v in self.r_vals and w in self.r_vals and check_eq(v, self.r_vals[v], self.r_vals[w])

    def _is_free(self, pair):
        return pair.free is not None and self._agree(pair, pair.free)

    def _is_rounding(self, pair):
        return pair.free is not None and self._agree_within_rounding(pair)

    @staticmethod
    def _agree(pair, free):
        if not free.any():
            return False
        zero = pair.old.dtype.type(0)
        return check_eq(pair.judge, np.where(free, zero, pair.old), np.where(free, zero, pair.new))

    def _agree_within_rounding(self, pair):
        """Whether all elements that differ are moved that far by rounding: integers in the old graph, others in the two graphs together."""
        if self.compute is None or pair.old.dtype.kind not in "fcbiu":
            return False
        with np.errstate(all="ignore"):
            return (self._within_range if pair.old.dtype.kind in "biu" else self._within_distance)(pair)

    def _within_range(self, pair):
        """Whether each integer of the new graph lies between some that the old one gives under rounding."""
        nodes, rng = self._nodes_within(pair.inner), np.random.RandomState(1)
        least = most = pair.old
        for _ in range(_TRIALS):
            moved = self._rounded(pair.r, nodes, rng, _ULPS_OF_INTEGERS)
            if moved is None:
                return False
            least, most = np.minimum(least, moved), np.maximum(most, moved)
            if self._agree(pair, pair.free | ((least <= pair.new) & (pair.new <= most))):
                return True
        return False

    def _within_distance(self, pair):
        """Whether the values differ by no more than what rounding moves them by."""
        old, new = pair.old, pair.new
        wide = "complex128" if old.dtype.kind == "c" else "float64"
        rng = np.random.RandomState(1)
        graphs = [(pair.r, self._nodes_within(pair.inner))]
        if not self._is_of_integers(pair):
            graphs.append((pair.new_r, self._nodes_within(pair.inner_new)))
        distances = [np.zeros(old.shape) for _ in graphs]
        difference = np.abs(new.astype(wide) - old.astype(wide))
        for _ in range(_TRIALS):
            for k, (r, nodes) in enumerate(graphs):
                moved = self._rounded(r, nodes, rng, _ULPS)
                if moved is None:
                    return False
                moved, value = moved.astype(wide), self.r_vals[r].astype(wide)
                same = (moved == value) | (np.isnan(moved) & np.isnan(value))
                found = np.where(same, 0, np.nan_to_num(np.abs(moved - value), nan=np.inf, posinf=np.inf))
                distances[k] = np.maximum(distances[k], found)
            if self._agree(pair, pair.free | (difference <= _MARGIN * sum(distances))):
                return True
        return False

    def _nodes_within(self, inner):
        return [node for node in self.order if any(out in inner for out in node.outputs)]

    def _is_of_integers(self, pair):
        """Whether the old graph starts from integers and computes with them up to the last step."""
        values = [self.r_vals.get(v) for v in pair.start]
        return bool(values) and all(isinstance(value, np.ndarray) and value.dtype.kind in "biu" for value in values)

    def _rounded(self, r, nodes, rng, ulps):
        """The value of `r` when all floating point numbers that these nodes compute are rounded otherwise, by up to so many units in the
        last place; None when they cannot be computed, or when the shape is another one then."""
        values = {}
        for node in nodes:
            try:
                outputs = self.compute(node, [values.get(i, self.r_vals[i]) for i in node.inputs])
            except Exception:
                return None  # an Op that does not take other values
            for out, computed in zip(node.outputs, outputs):
                if isinstance(computed, np.ndarray) and computed.dtype.kind in "fc":
                    error = np.finfo(computed.dtype).eps * rng.choice(
                        [-ulps, -ulps / 2, ulps / 2, ulps], computed.shape
                    )
                    computed = np.asarray(computed * (1 + error), dtype=computed.dtype)
                values[out] = computed
        moved, value = values.get(r, self.r_vals[r]), self.r_vals[r]
        return (
            moved
            if isinstance(moved, np.ndarray) and (moved.shape, moved.dtype) == (value.shape, value.dtype)
            else None
        )


# So many trials that errors which cancel each other do so in some only; they still find less than the largest error.
_TRIALS, _MARGIN, _ULPS = 12, 4, 2
# An integer changes at once or not at all, so there is no margin; but the new graph may round somewhat more than the old one.
_ULPS_OF_INTEGERS = 16


def _find_bad_optimizations(order, reasons, r_vals, compute=None):
    """Raise for the first replacement, inputs of the graph first, whose two variables have different values; `_Judge` says what that means.

    Parameters
    ----------
    order : list of Apply
        All nodes that ran, those that rewriting removed too.
    reasons : dict
        See `_VariableEquivalenceTracker`.
    r_vals : dict
        Variable -> value.
    compute : callable, optional
        See `_Judge`.

    Raises
    ------
    BadOptimization
    """
    found = _Judge(order, reasons, r_vals, compute).first_wrong()
    if found is not None:
        new_r, (reason, r, old_graph, new_graph) = found
        raise BadOptimization(
            old_r=r,
            new_r=new_r,
            old_r_val=r_vals[r],
            new_r_val=r_vals[new_r],
            reason=reason,
            old_graph=old_graph,
            new_graph=new_graph,
        )
