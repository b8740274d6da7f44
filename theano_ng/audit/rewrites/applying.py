"""Application of rules to a graph until they no longer apply, and computation of graphs in Python."""

import contextlib
import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from theano_ng.audit.rewrites.registry import is_registered_in_place
from theano_ng.compile.functions.maker import Supervisor
from theano_ng.configdefaults import config
from theano_ng.gof.destroy.handler import DestroyHandler
from theano_ng.gof.fg import FunctionGraph, InconsistencyError
from theano_ng.gof.link import PerformLinker
from theano_ng.gof.rewriting import ChangeTracker, EquilibriumOptimizer, MergeOptimizer, Optimizer, in2out
from theano_ng.gof.rewriting.base import attach_destroy_handler
from theano_ng.gof.rewriting.endless import EndlessRewriting
from theano_ng.gof.stack_traces import has_trace
from theano_ng.sandbox.linalg.ops import HintsFeature
from theano_ng.tensor.opt.shape import ShapeFeature

#: A rule counts as endless if it still changes the graph after this number of walks over the graph.
MAX_WALKS = 12

#: An equilibrium optimizer stops when the number of times that it has applied a rule exceeds this multiple of the
#: number of nodes.
MAX_USES = 8


@dataclass
class Rewriting:
    """The result of applying one rule to one graph.

    Attributes
    ----------
    before, after : FunctionGraph
        The graphs before and after the rule. Their inputs are clones of the same variables, in the same order.
    applied, ended : bool
        Whether the rule changed the graph, and whether it stopped changing the graph within `MAX_WALKS` walks.
    traced : bool
        Whether all variables after the rule have stack traces. It is also True if a variable had no stack trace before
        the rule.
    overwritten : str
        An error message if a node overwrites a value that another node still reads, or an output. Otherwise "".
    mutated : bool
        Whether the rule changed a node itself, instead of returning replacements.
    """

    before: Any
    after: Any
    applied: bool
    ended: bool
    traced: bool
    overwritten: str = ""
    mutated: bool = False


def _prepared(rule, inputs, outputs):
    """Return a FunctionGraph with the features that rules need.

    Equal nodes are merged, unless the rule itself merges nodes.
    """
    fgraph = FunctionGraph(list(inputs), list(outputs), clone=True)
    fgraph.attach_feature(ShapeFeature())
    fgraph.attach_feature(HintsFeature())
    if not isinstance(rule, MergeOptimizer):
        MergeOptimizer().optimize(fgraph)
    if rule is not None and (works_in_place(rule) or is_registered_in_place(rule)):
        # Let nodes overwrite all inputs of the graph, as if all inputs of a function were mutable, but no outputs.
        fgraph.attach_feature(DestroyHandler())
        fgraph.attach_feature(Supervisor([]))
    fgraph.attach_feature(ChangeTracker())
    return fgraph


def works_in_place(rule):
    """Return True if a rule makes Ops that overwrite their inputs."""
    name = getattr(rule, "__name__", None) or getattr(rule, "name", None) or ""
    return "inplace" in name or "destructive" in name or attach_destroy_handler in getattr(rule, "requirements", ())


def rewritten(rule, inputs, outputs):
    """Apply a rule to a graph.

    Parameters
    ----------
    rule : LocalOptimizer or Optimizer
    inputs, outputs : sequences of Variable
        The graph. It is cloned, and not changed.

    Returns
    -------
    Rewriting
    """
    before = FunctionGraph(list(inputs), list(outputs), clone=True)
    after = _prepared(rule, inputs, outputs)
    tracker = after.change_tracker
    traced = all(has_trace(v) for node in after.apply_nodes for v in node.outputs)
    walker = rule if isinstance(rule, Optimizer) else in2out(rule, ignore_newtrees=True)
    applied, ended, mutated = False, True, False
    flags = {"on_opt_error": "raise", "check_stack_trace": "warn" if traced else "off"}
    # A function is compiled with this limit of traces, so that new variables have only the traces that rules copy.
    flags["traceback.limit"] = config.traceback.compile_limit
    with _quiet(), config.change_flags(flags):
        for _ in range(MAX_WALKS):
            tracker.reset()
            text = str(after)
            walker.optimize(after)
            if not tracker.changed:
                mutated = str(after) != text
                break
            # A change that would overwrite a constant is reverted, but the tracker has recorded it. In this case the
            # text of the graph is unchanged.
            if str(after) == text and walker is not rule:
                break
            applied = True
            if walker is rule:
                break
            MergeOptimizer().optimize(after)
        else:
            ended = False
    return Rewriting(
        before,
        after,
        applied or mutated,
        ended,
        not traced or all(has_trace(v) for node in after.apply_nodes for v in node.outputs),
        _overwritten(after) if applied else "",
        mutated,
    )


def _overwritten(fgraph):
    """Return an error message if a node overwrites a value that is still needed. Otherwise return ""."""
    if not any(getattr(node.op, "destroy_map", None) for node in fgraph.apply_nodes):
        return ""
    try:
        if not hasattr(fgraph, "destroyers"):
            fgraph.attach_feature(DestroyHandler())
            fgraph.attach_feature(Supervisor([]))
        fgraph.validate()
    except InconsistencyError as failure:
        return str(failure)
    return ""


def cycle(rules, inputs, outputs):
    """Apply rules together until no rule applies, and describe the steps that repeat without end.

    Parameters
    ----------
    rules : list of LocalOptimizer
    inputs, outputs : sequences of Variable

    Returns
    -------
    str
        A sentence with the names of the rules that undo each other and their steps, or "" if the rules end.
    """
    fgraph = _prepared(None, inputs, outputs)
    equilibrium = EquilibriumOptimizer(rules, EquilibriumOptimizer.warn_ignore, max_use_ratio=MAX_USES)
    with _quiet():
        try:
            with config.change_flags(on_opt_error="raise"):
                equilibrium.optimize(fgraph)
        except EndlessRewriting as failure:
            return failure.reason
        except AssertionError as failure:
            return str(failure)
        fgraph.change_tracker.reset()
        with config.change_flags(on_opt_error="ignore"):
            equilibrium.optimize(fgraph)
    return "a second run of the rules of the database changes the graph" if fgraph.change_tracker.changed else ""


@contextlib.contextmanager
def _quiet():
    """Disable the logger of the engine. It would log the errors of rules, which the oracle reports itself."""
    logger = logging.getLogger("theano_ng.gof.opt")
    was, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was


class Computation:
    """A function that computes a graph with the `perform` methods of its Ops.

    Parameters
    ----------
    fgraph : FunctionGraph
    """

    def __init__(self, fgraph):
        self._function = PerformLinker().accept(fgraph).make_function(unpack_single=False)

    def __call__(self, values):
        """Return the outputs, or the exception that an Op raised.

        Parameters
        ----------
        values : list
            The values of the inputs. They are copied.

        Returns
        -------
        list or Exception
        """
        values = [v.copy() if hasattr(v, "copy") else v for v in values]
        try:
            with np.errstate(all="ignore"):
                return list(map(_on_host, self._function(*values)))
        except Exception as failure:  # any error of an Op counts as its result
            return failure


def _on_host(value):
    """Return the value itself. If the value is an array on a device, return a copy in the memory of the host."""
    if (
        hasattr(value, "__array__")
        and not isinstance(value, (np.ndarray, np.generic))
        and not scipy.sparse.issparse(value)
    ):
        return np.asarray(value)
    return value
