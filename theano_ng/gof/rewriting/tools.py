"""Helpers of rewrites: tests for chains of ops, and rewriting of graphs outside of a `FunctionGraph`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from theano_ng.gof import graph
from theano_ng.gof import op as op_module
from theano_ng.gof.rewriting.local import RuleIndex

if TYPE_CHECKING:
    from theano_ng.gof.aliases import NodeOrVariable
    from theano_ng.gof.graph import Variable
    from theano_ng.gof.rewriting.local import LocalOptimizer


def _is_computed_by(r: Variable, expected: Any) -> bool:
    """Return True if the node that computes `r` matches a chain element: an Op, an Op class, or None for no node."""
    if expected is None or r.owner is None:
        return expected is r.owner
    if isinstance(expected, op_module.PureOp):
        return r.owner.op == expected
    if not isinstance(expected, type):
        return False
    # A class that is not a class of ops (such as `object`) matches any op.
    return isinstance(r.owner.op, expected) or not issubclass(expected, op_module.PureOp)


def _check_chain(r: Any, chain: Sequence[Any]) -> bool:
    """Return the result of `check_chain` for a variable and a chain that is given as one sequence."""
    rest = list(reversed(chain))
    while rest:
        if not _is_computed_by(r, rest.pop()):
            return False
        if rest:
            # If there is no index between two ops, the chain follows the first input.
            r = r.owner.inputs[rest.pop() if isinstance(rest[-1], int) else 0]
    return True


def check_chain(r: NodeOrVariable, *chain: Any) -> bool:
    """Return True if `r` is computed by a chain of ops.

    Parameters
    ----------
    r : Variable or Apply
        A variable. An Apply is replaced by its first output.
    *chain
        Alternately an Op or Op class, and the index of the input at which the chain continues:
        ``check_chain(r, Dot, 0, DimShuffle)``. None as the last element matches a variable that no node computes.

    Returns
    -------
    bool
    """
    if isinstance(r, graph.Apply):
        r = r.outputs[0]
    return _check_chain(r, chain)


def pre_greedy_local_optimizer(list_optimizations: Iterable[LocalOptimizer], out: Variable) -> Variable:
    """Apply rules to the graph that computes one variable, in place, without a `FunctionGraph`.

    Parameters
    ----------
    list_optimizations : list of LocalOptimizer
        Rules that need neither clients nor features.
    out : Variable
        A variable whose graph is small, for example a result of a rule. Variables that belong to a `FunctionGraph` are
        not changed.

    Returns
    -------
    Variable
        The variable that replaces `out`.
    """
    index = RuleIndex(list_optimizations)
    result = {}
    stack = [(out, False)]
    while stack:
        r, expanded = stack.pop()
        if r in result:
            continue
        node = r.owner
        if node is None or getattr(r, "fgraph", None) is not None:
            result[r] = r
            continue
        if not expanded:
            stack.append((r, True))
            stack.extend((inp, False) for inp in reversed(node.inputs))
            continue
        for i, inp in enumerate(node.inputs):
            node.inputs[i] = result[inp]
        final = r
        # Limit the number of rounds, so that two rules that undo each other cannot loop.
        for _ in range(100):
            node = final.owner
            if node is None or getattr(final, "fgraph", None) is not None:
                break
            for rule in index.rules_for(node.op):
                ret = rule.transform(node)
                if not ret:
                    continue
                if isinstance(ret, dict):
                    new = ret.get(final, final)
                else:
                    new = ret[node.outputs.index(final)]
                if new is not None and new is not final:
                    final = new
                    break
            else:
                break
        result[r] = final
    return result[out]
