"""Helpers and checks for stack traces, which rewrites copy to new variables so that errors show the user's lines."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from theano_ng.configdefaults import config
from theano_ng.gof import graph
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.op import PureOp
from theano_ng.gof.rewriting.base import Optimizer
from theano_ng.gof.stack_traces import copy_stack_trace, has_trace

if TYPE_CHECKING:
    from theano_ng.gof.graph import Apply, Variable
    from theano_ng.gof.op.base import Op


@contextlib.contextmanager
def inherit_stack_trace(from_var: Variable | Sequence[Variable]) -> Iterator[None]:
    """Give every variable that is constructed inside the context the stack traces of `from_var`."""
    with graph.nodes_constructed() as new_nodes:
        yield
    copy_stack_trace(from_var, list(new_nodes))


def check_stack_trace(f_or_fgraph: Any, ops_to_check: Any = "last", bug_print: str = "raise") -> bool:
    """Return True if the outputs of certain nodes of a graph have stack traces.

    Parameters
    ----------
    f_or_fgraph : Function or FunctionGraph
    ops_to_check : 'last', 'all', op, op class, function, or a sequence of ops, op classes and functions
        The nodes to check. 'last' selects the nodes that compute the outputs, and 'all' selects every node. An Op
        selects its nodes. A class selects the nodes of its instances. A function selects the nodes for whose Op it
        returns True.
    bug_print : {'raise', 'warn', 'ignore'}
        The action if a stack trace exists but is empty.

    Returns
    -------
    bool
        False if an output of a checked node has no stack trace, or an empty stack trace.

    Raises
    ------
    ValueError
        If an argument has a value that is not listed above.
    """
    if bug_print not in ("raise", "warn", "ignore"):
        raise ValueError("bug_print must be 'raise', 'warn' or 'ignore', got %r" % (bug_print,))
    if isinstance(f_or_fgraph, FunctionGraph):
        fgraph = f_or_fgraph
    elif hasattr(f_or_fgraph, "maker"):
        fgraph = f_or_fgraph.maker.fgraph
    else:
        raise ValueError(
            "The type of f_or_fgraph is not supported: expected a compiled function or a FunctionGraph, got %r"
            % (type(f_or_fgraph),)
        )

    if isinstance(ops_to_check, str):
        if ops_to_check == "last":
            nodes = [r.owner for r in fgraph.outputs if r.owner is not None]
        elif ops_to_check == "all":
            nodes = fgraph.toposort()
        else:
            raise ValueError(
                "The string ops_to_check is not recognised: expected 'last' or 'all', got %r" % (ops_to_check,)
            )
    else:
        wanted = tuple(ops_to_check) if isinstance(ops_to_check, (tuple, list)) else (ops_to_check,)
        for w in wanted:
            if not isinstance(w, PureOp) and not callable(w):
                raise ValueError("ops_to_check must be 'last', 'all', ops, op classes or functions, got %r" % (w,))

        def matches(op: Op) -> bool:
            for w in wanted:
                if isinstance(w, type):
                    if isinstance(op, w):
                        return True
                elif isinstance(w, PureOp):
                    if op == w:
                        return True
                elif w(op):
                    return True
            return False

        nodes = [node for node in fgraph.toposort() if matches(node.op)]

    for node in nodes:
        for output in node.outputs:
            traces = getattr(output.tag, "trace", None)
            if not traces:
                return False
            if not has_trace(output):
                message = "Stack trace of output %r of node %s exists but is empty: %r" % (output, node, traces)
                if bug_print == "raise":
                    raise Exception(message)
                if bug_print == "warn":
                    warnings.warn(message)
                return False
    return True


class CheckStrackTraceFeature:
    """A feature that checks that the outputs of each new node have stack traces.

    `config.check_stack_trace` determines the action if a stack trace is missing.
    """

    def on_import(self, fgraph: FunctionGraph, node: Apply, reason: Any) -> None:
        policy = config.check_stack_trace
        if policy == "off" or all(has_trace(out) for out in node.outputs):
            return
        message = "Empty stack trace! The optimization that inserted this variable is %s" % (reason,)
        if policy == "raise":
            raise AssertionError(message)
        for out in node.outputs:
            if not has_trace(out):
                out.tag.trace = [[("", 0, message, "")]]
        if policy == "warn":
            warnings.warn(message)


class CheckStackTraceOptimization(Optimizer):
    """An optimizer that attaches `CheckStrackTraceFeature`, unless `config.check_stack_trace` is "off".

    The feature then checks the nodes that all later optimizations add.
    """

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        if config.check_stack_trace != "off" and not any(
            isinstance(f, CheckStrackTraceFeature) for f in fgraph._features
        ):
            fgraph.attach_feature(CheckStrackTraceFeature())

    def apply(self, fgraph: FunctionGraph) -> None:
        """Do nothing: the feature makes the checks."""
