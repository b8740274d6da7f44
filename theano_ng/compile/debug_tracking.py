"""What rewriting did: the record that DebugMode compares between runs, and searches for replacements that changed values."""
import numpy as np

from theano_ng.compile.debug_errors import BadOptimization
from theano_ng.gof.toolbox import Feature


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
            other.kind, other.op, other.idx, other.reason)

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
        self.reasons, self.all_variables_ever, self.event_list = {}, {}, []
        for node in fgraph.toposort():
            self.on_import(fgraph, node, "on_attach")

    def on_detach(self, fgraph):
        self.fgraph = None

    def __getstate__(self):
        # The record holds rewrites, which are no values; a graph from a pickle starts with an empty one.
        return dict(self.__dict__, reasons={}, all_variables_ever={}, event_list=[])

    def on_import(self, fgraph, node, reason):
        self.event_list.append(_FunctionGraphEvent("import", node, reason=reason))
        self.all_variables_ever.update(dict.fromkeys(node.outputs))

    def on_prune(self, fgraph, node, reason):
        self.event_list.append(_FunctionGraphEvent("prune", node, reason=reason))

    def on_change_input(self, fgraph, node, i, r, new_r, reason=None):
        self.event_list.append(_FunctionGraphEvent("change", node, reason=reason, idx=i))
        known = self.reasons.setdefault(new_r, [])
        if not any(old is r for _, old, _, _ in known):     # once for all clients
            texts = (_snapshot(r), _snapshot(new_r)) if self.snapshots else ("", "")
            known.append((reason, r) + texts)

    def printstuff(self):
        """Print the recorded replacements."""
        for new_r, entries in self.reasons.items():
            for reason, r, _, _ in entries:
                print("%s replaced %s by %s" % (reason, r, new_r))


def _snapshot(variable):
    from theano_ng.printing import debugprint  # an upward name, needed for messages

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


def _agree_where_finite(var, old, new):
    """Whether the values agree where the old one is finite. Rewrites may save what overflowed: log(1 + exp(x)) is one of the reasons for them.

    Parameters
    ----------
    var : Variable
    old, new : object
    """
    if not (isinstance(old, np.ndarray) and isinstance(new, np.ndarray)) or old.dtype.kind not in "fc":
        return False
    finite = np.isfinite(old)
    if finite.all() or old.shape != new.shape or old.dtype != new.dtype:
        return False
    zero = old.dtype.type(0)
    return check_eq(var, np.where(finite, old, zero), np.where(finite, new, zero))


def _find_bad_optimizations(order, reasons, r_vals):
    """Raise for the first replacement, inputs of the graph first, whose two variables have different values.

    Parameters
    ----------
    order : list of Apply
        All nodes that ran, those that rewriting removed too.
    reasons : dict
        See `_VariableEquivalenceTracker`.
    r_vals : dict
        Variable -> value.

    Raises
    ------
    BadOptimization
    """
    roots = [r for r in reasons if r.owner is None]
    for new_r in roots + [r for node in order for r in node.outputs]:
        for reason, r, old_graph, new_graph in reasons.get(new_r, ()):
            if r not in r_vals or new_r not in r_vals:
                continue
            judge = new_r if hasattr(new_r.tag, "values_eq_approx") else r
            if not check_eq(judge, r_vals[r], r_vals[new_r]) and not _agree_where_finite(judge, r_vals[r], r_vals[new_r]):
                raise BadOptimization(old_r=r, new_r=new_r, old_r_val=r_vals[r], new_r_val=r_vals[new_r], reason=reason,
                                      old_graph=old_graph, new_graph=new_graph)
