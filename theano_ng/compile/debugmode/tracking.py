"""The record of rewriting.

DebugMode compares records of several runs, and searches for replacements that changed values.
"""

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
        The index of the input that changed, or of the graph's output that changed.
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
    """A feature that records every change of a graph, and the variables that replaced each other.

    Parameters
    ----------
    snapshots : bool
        Whether to keep printed texts of the old and the new graph of each replacement.

    Attributes
    ----------
    event_list : list of _FunctionGraphEvent
    reasons : dict
        New variable -> list of (reason, old variable, text of the old graph, text of the new graph).
    inserted : dict
        Node -> name of the rewrite that inserted it into the graph.
    all_variables_ever : dict
        The outputs of all nodes that the graph has ever contained, as keys.
    """

    def __init__(self, snapshots=True):
        self.fgraph = None
        self.snapshots = snapshots

    def on_attach(self, fgraph):
        if self.fgraph is not None:
            raise ValueError("a tracker can be used for one graph only")
        self.fgraph = fgraph
        self.reasons, self.inserted, self.all_variables_ever, self.event_list = {}, {}, {}, []
        for node in fgraph.toposort():
            self.on_import(fgraph, node, "on_attach")

    def on_detach(self, fgraph):
        self.fgraph = None

    def __getstate__(self):
        # The record refers to rewrites, which must not be pickled. An unpickled graph begins with an empty record.
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
        if not any(old is r for _, old, _, _ in known):  # record it once, not for each client of `r`
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
    """Return True if two values of a variable agree.

    The function ``var.tag.values_eq_approx`` compares them or, if it does not exist, the method of the type.

    Parameters
    ----------
    var : Variable
    val1, val2 : object
        The reference value and the value to check.
    """
    compare = getattr(var.tag, "values_eq_approx", None)
    return bool((compare or var.type.values_eq_approx)(val1, val2))


def _ancestors(variable):
    """Return a variable and all variables on which it depends, as keys of a dict."""
    found, todo = {}, [variable]
    while todo:
        r = todo.pop()
        if r not in found:
            found[r] = None
            if r.owner is not None:
                todo.extend(r.owner.inputs)
    return found


def _between(r, others):
    """Walk from a variable toward the inputs of the graph, up to the variables in `others`.

    Parameters
    ----------
    r : Variable
    others : dict
        The other variable of a replacement and all variables on which it depends, as keys.

    Returns
    -------
    inner, border : dict
        The variables on the way (`r` included), and the variables at which the walk ends: variables in `others`, and
        variables without an owner.
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
    """Return a mask of the elements at which one of the variables contains a NaN or an infinity.

    The mask has the given shape. Return False if no variable contains such elements. Return True if a variable contains
    such an element, but cannot be broadcast to the given shape.
    """
    found = False
    for r in variables:
        value = r_vals.get(r)
        if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
            bad = ~np.isfinite(value)
            if bad.any():
                try:
                    found = found | np.broadcast_to(bad, shape)
                except ValueError:
                    return True  # the shapes differ, so the Op moved or summed elements: any element may be affected
    return found


def _comparer_of(r, new_r):
    """Return the variable whose comparison function compares the values of `r` and `new_r`.

    This is `new_r` if its tag has a comparison function, otherwise `r`.
    """
    return new_r if hasattr(new_r.tag, "values_eq_approx") else r


class _Pair:
    """A replacement whose two values differ.

    Attributes
    ----------
    r, new_r : Variable
    entry : tuple
        The record of the replacement in `reasons`.
    old, new : object
        The values of `r` and `new_r`.
    inner, inner_new : dict
        The variables that only the old graph computes, and the variables that only the new graph computes.
    start, new_start : list of Variable
        `inner` without `r`, and `inner_new` without `new_r`, each together with the variables at which the walk ended.
    free : numpy.ndarray or None
        A mask of the elements that may have any value in the new graph. It is None if the values are not arrays of
        equal shape and dtype.
    """

    def __init__(self, new_r, entry, r_vals):
        self.new_r, self.entry = new_r, entry
        reason, self.r = entry[:2]
        self.old, self.new = old, new = r_vals[self.r], r_vals[new_r]
        self.judge = _comparer_of(self.r, new_r)
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
    """A checker of replacements: it separates wrong replacements from replacements whose values may differ.

    The values of the two variables of a replacement have to agree, with these exceptions:

    - Elements that the old graph *made* infinite or NaN, although the values from which both graphs start are finite
      at these elements. Stabilization exists to avoid such elements. For example, it makes ``log(1 + exp(1000))``
      finite.
    - NaN and infinities in the *inputs* of the graphs. They must have the same effect in both graphs, unless the rule
      ignores them: a rule with an attribute ``ignores_nonfinite = True`` (``x * 0 -> 0``, ``x == x -> True``) is
      checked only where all values that the old graph computes or starts from are finite.
    - Differences that follow from an accepted difference: a later rewrite changed a variable inside one of the two
      graphs, and this change is accepted.
    - Rounding. If two graphs differ, they are computed again, with a relative error of one or two units in the last
      place in each intermediate result. If these errors change an element as much as the two graphs differ, the
      difference is accepted, because no graph computes the element more precisely. An example is ``1 / (1 - p)`` near
      p = 1.
    - Rounding before an integer or boolean result. The result is accepted if the *old* graph also computes it when its
      floating point numbers are rounded differently (``argmax`` of nearly equal numbers, ``floor(x * 10)``). An old
      graph without floating point numbers is exact. The result of the new graph must then be equal. If the old graph
      computes with integers up to its last step, only the rounding of the old graph counts for a floating point result.

    An element that is finite in the old graph therefore has to stay finite. If the tag of a
    variable has a function `values_eq_approx`, this function compares the values.

    Parameters
    ----------
    order : list of Apply
        All nodes, in the order in which they can be computed.
    reasons : dict
        See `_VariableEquivalenceTracker`.
    r_vals : dict
        Variable -> value.
    compute : callable, optional
        ``compute(node, values of its inputs)`` returns the values of the outputs. If it is None, no difference is
        explained by rounding.
    """

    def __init__(self, order, reasons, r_vals, compute=None):
        self.order, self.reasons, self.r_vals, self.compute = order, reasons, r_vals, compute
        self.parent = {}  # union-find forest of variables that replaced each other; see _class_of
        self.disputed = set()  # representatives of the classes with an accepted difference

    def first_wrong(self):
        """Return the first wrong replacement as (new variable, entry of `reasons`). Return None if none is wrong."""
        roots = [r for r in self.reasons if r.owner is None]
        doubtful = []
        for new_r in roots + [r for node in self.order for r in node.outputs]:
            for entry in self.reasons.get(new_r, ()):
                reason, r = entry[:2]
                if (
                    r in self.r_vals
                    and new_r in self.r_vals
                    and not check_eq(_comparer_of(r, new_r), self.r_vals[r], self.r_vals[new_r])
                ):
                    doubtful.append((new_r, entry))
        if not doubtful:
            return None
        for new_r, entries in self.reasons.items():
            for entry in entries:
                self.parent[self._class_of(entry[1])] = self._class_of(new_r)
        # Call `_is_free` first, because it is cheaper. Each accepted difference may explain further differences.
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
        """Return the pairs whose difference does not follow from an accepted difference."""
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
        """Return the representative of the class of `v`.

        The class contains all variables that replacements link to `v`.
        """
        path = []
        while v in self.parent and self.parent[v] is not v:
            path.append(v)
            v = self.parent[v]
        for other in path:
            self.parent[other] = v
        return v

    def _follows(self, pair):
        """Return True if the difference of a pair can follow from an accepted difference.

        This is the case if the old graph contains a variable `v` and the new graph a variable `w` whose values differ,
        and if both belong to the same class, in which a difference was accepted.
        """
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
        """Return True if rounding can explain the difference of each element.

        For integers and booleans, only the rounding of the old graph counts. For other dtypes, the rounding of both
        graphs counts, unless the old graph computes with integers up to the last step.
        """
        if self.compute is None or pair.old.dtype.kind not in "fcbiu":
            return False
        with np.errstate(all="ignore"):
            return (self._within_range if pair.old.dtype.kind in "biu" else self._within_distance)(pair)

    def _within_range(self, pair):
        """Return True if each integer of `new` is in the range of the old graph's randomly rounded results."""
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
        """Return True if the two values differ at most as much as random rounding errors change them."""
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
        """Return True if the old graph starts from integers and computes with integers up to the last step."""
        values = [self.r_vals.get(v) for v in pair.start]
        return bool(values) and all(isinstance(value, np.ndarray) and value.dtype.kind in "biu" for value in values)

    def _rounded(self, r, nodes, rng, ulps):
        """Compute `r` with random errors of up to `ulps` units in the last place in all floats that the nodes compute.

        Return None if a node cannot be computed, or if the shape or dtype of `r` changes.
        """
        values = {}
        for node in nodes:
            try:
                outputs = self.compute(node, [values.get(i, self.r_vals[i]) for i in node.inputs])
            except Exception:
                return None  # the Op does not accept the changed values
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


# In some trials, rounding errors cancel. With _TRIALS trials, this does not happen in all of them. The largest error
# found is still smaller than the largest possible error, so it is multiplied by _MARGIN.
_TRIALS, _MARGIN, _ULPS = 12, 4, 2
# A margin has no meaning for integers, which change by at least 1 or not at all. For them, the trials use errors of
# more units in the last place instead, because the new graph may round somewhat more than the old graph.
_ULPS_OF_INTEGERS = 16


def _find_bad_optimizations(order, reasons, r_vals, compute=None):
    """Raise BadOptimization for the first wrong replacement that `_Judge` finds.

    Replacements whose new variable is an input or a constant come first.

    Parameters
    ----------
    order : list of Apply
        All nodes that ran, including the nodes that rewriting removed.
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
