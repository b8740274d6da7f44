"""A rule applied to a graph, alone, as long as it applies, and both graphs computed by Python."""

import contextlib
import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from theano_ng.compile.functions.maker import Supervisor
from theano_ng.configdefaults import config
from theano_ng.gof.destroy.handler import DestroyHandler
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.link import PerformLinker
from theano_ng.gof.rewriting import ChangeTracker, EquilibriumOptimizer, MergeOptimizer, Optimizer, in2out
from theano_ng.gof.rewriting.base import attach_destroy_handler
from theano_ng.gof.traces import has_trace
from theano_ng.sandbox.linalg.ops import HintsFeature
from theano_ng.tensor.opt.shape import ShapeFeature

#: Walks over a graph after which a rule that still changes something is taken for one that never ends.
MOST_WALKS = 12

#: Uses of a rule for each node of a graph after which an equilibrium gives up.
MOST_USES = 8


@dataclass
class Rewriting:
    """What a rule made of a graph.

    Attributes
    ----------
    before, after : FunctionGraph
        Of the same inputs, in the same order.
    applied, ended : bool
        Whether the rule changed something, and whether it came to an end.
    traced : bool
        Whether what it put in the place of variables has their stack traces.
    """

    before: Any
    after: Any
    applied: bool
    ended: bool
    traced: bool


def _prepared(rule, inputs, outputs):
    """A FunctionGraph with the features that rules ask for, in which equal nodes are one, unless that is what the rule does."""
    fgraph = FunctionGraph(list(inputs), list(outputs), clone=True)
    fgraph.attach_feature(ShapeFeature())
    fgraph.attach_feature(HintsFeature())
    if not isinstance(rule, MergeOptimizer):
        MergeOptimizer().optimize(fgraph)
    if rule is not None and works_in_place(rule):
        # As in a function: outputs are not overwritten. Inputs may be.
        fgraph.attach_feature(DestroyHandler())
        fgraph.attach_feature(Supervisor([]))
    fgraph.attach_feature(ChangeTracker())
    return fgraph


def works_in_place(rule):
    """Whether a rule makes Ops that overwrite their inputs."""
    name = getattr(rule, "__name__", None) or getattr(rule, "name", None) or ""
    return "inplace" in name or "destructive" in name or attach_destroy_handler in getattr(rule, "requirements", ())


def rewritten(rule, inputs, outputs):
    """Apply a rule to a graph.

    Parameters
    ----------
    rule : LocalOptimizer or Optimizer
    inputs, outputs : sequences of Variable
        They stay as they are.

    Returns
    -------
    Rewriting
    """
    before = FunctionGraph(list(inputs), list(outputs), clone=True)
    after = _prepared(rule, inputs, outputs)
    tracker = after.change_tracker
    traced = all(has_trace(v) for node in after.apply_nodes for v in node.outputs)
    walker = rule if isinstance(rule, Optimizer) else in2out(rule, ignore_newtrees=True)
    applied, ended = False, True
    with _quiet(), config.change_flags(on_opt_error="raise", check_stack_trace="warn" if traced else "off"):
        for _ in range(MOST_WALKS):
            tracker.reset()
            text = str(after)
            walker.optimize(after)
            # What destroys a constant is taken back: nothing has changed.
            if not tracker.changed or str(after) == text and walker is not rule:
                break
            applied = True
            if walker is rule:
                break
            MergeOptimizer().optimize(after)
        else:
            ended = False
    return Rewriting(before, after, applied, ended, not traced or all(map(_is_traced, after.outputs)))


def settles(rules, inputs, outputs):
    """Whether rules come to an end together, in an equilibrium.

    Parameters
    ----------
    rules : list of LocalOptimizer
    inputs, outputs : sequences of Variable

    Returns
    -------
    bool
    """
    fgraph = _prepared(None, inputs, outputs)
    equilibrium = EquilibriumOptimizer(rules, max_use_ratio=MOST_USES)
    with _quiet(), config.change_flags(on_opt_error="ignore"):
        equilibrium.optimize(fgraph)
        fgraph.change_tracker.reset()
        equilibrium.optimize(fgraph)
    return not fgraph.change_tracker.changed


@contextlib.contextmanager
def _quiet():
    """The engine logs the errors of rules that it raises; here they are findings."""
    logger = logging.getLogger("theano_ng.gof.opt")
    was, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was


def _is_traced(v):
    return v.owner is None or has_trace(v)


class Computation:
    """A graph that is computed by the `perform` of its Ops.

    Parameters
    ----------
    fgraph : FunctionGraph
    """

    def __init__(self, fgraph):
        self._function = PerformLinker().accept(fgraph).make_function(unpack_single=False)

    def __call__(self, values):
        """The outputs, or the exception.

        Parameters
        ----------
        values : list
            They are copied.

        Returns
        -------
        list or Exception
        """
        values = [v.copy() if hasattr(v, "copy") else v for v in values]
        try:
            with np.errstate(all="ignore"):
                return list(map(_on_host, self._function(*values)))
        except Exception as failure:  # any error of an Op is a result that is compared
            return failure


def _on_host(value):
    """A value, or its copy where it is an array on a device."""
    if (
        hasattr(value, "__array__")
        and not isinstance(value, (np.ndarray, np.generic))
        and not scipy.sparse.issparse(value)
    ):
        return np.asarray(value)
    return value
