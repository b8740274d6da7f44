"""Functions that copy stack traces between variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from theano_ng.configdefaults import config

if TYPE_CHECKING:
    from theano_ng.gof.fg import FunctionGraph
    from theano_ng.gof.graph import Variable

    V = TypeVar("V", bound=Variable | Sequence[Variable])

#: The maximum number of traces of a variable. Without this limit, a merge of many equal nodes would collect
#: more traces than a user can read.
MAX_TRACES = 16


def stack_traces_of(from_var: Variable | Sequence[Variable]) -> list[Any]:
    """Return the stack traces of a variable, or of several variables without repetition."""
    variables: Any = from_var if isinstance(from_var, (list, tuple)) else [from_var]
    found = []
    seen = set()
    for v in variables:
        traces = getattr(v.tag, "trace", None) or []
        if isinstance(traces, tuple) or (
            traces and isinstance(traces[0], tuple) and len(traces[0]) == 4 and isinstance(traces[0][0], str)
        ):
            # The tag holds a single stack instead of a list of stacks.
            traces = [traces]
        for trace in traces:
            if id(trace) not in seen:
                seen.add(id(trace))
                found.append(trace)
    return found


def copy_stack_trace(from_var: Variable | Sequence[Variable], to_var: V) -> V:
    """Append the stack traces of `from_var` to the stack traces of `to_var`, up to `MAX_TRACES`.

    Parameters
    ----------
    from_var, to_var : Variable, or list or tuple of Variable
        All traces of `from_var` are appended to the traces of each variable of `to_var`.

    Returns
    -------
    The argument `to_var`.
    """
    traces = stack_traces_of(from_var)
    variables: Any = to_var if isinstance(to_var, (list, tuple)) else [to_var]
    for v in variables:
        own = stack_traces_of(v)
        ids = {id(t) for t in own}
        v.tag.trace = (own + [t for t in traces if id(t) not in ids])[: max(MAX_TRACES, len(own))]
    return to_var


def has_trace(variable: Variable) -> bool:
    """Return True if a variable has traces and none of them is empty."""
    traces: Any = getattr(variable.tag, "trace", None)
    return bool(traces) and all(map(len, traces))


def complete_stack_traces(
    fgraph: FunctionGraph, replacements: Iterable[tuple[Variable, Variable]], reason: Any = None
) -> None:
    """Add stack traces to the new nodes of replacements. Call this function before the replacements are made.

    A rule copies the traces of the replaced variables to its results. The new nodes on which the results depend
    originate from the same lines of the user's code, so this function copies the traces to these nodes. If
    `config.check_stack_trace` is "off", results without traces get the traces of the replaced variables. Otherwise, the
    check has to find such results, in order to report rules that lose traces.

    Parameters
    ----------
    fgraph : FunctionGraph
    replacements : list of (old, new)
    reason : object
        The cause of the replacements, usually a rewrite.
    """
    # Visit a node only once, even if several replacements need it. A Scan node can have hundreds of replacements.
    seen = set()
    for old, new in replacements:
        if new.owner is None:
            continue  # no node computes this variable (an input or a constant), so it needs no traces
        if not has_trace(new):
            traces = stack_traces_of(old)
            if config.check_stack_trace != "off":
                if traces:
                    continue
                # The rule has lost no trace, because the replaced variable has none (for example, after StripPickler).
                traces = [[("", 0, "%s, which replaces a variable without stack trace" % (reason,), "")]]
            new.tag.trace = traces
        if new.owner in seen or getattr(new.owner, "fgraph", None) is fgraph:
            continue
        traces = new.tag.trace
        todo = [new.owner]
        seen.add(new.owner)
        while todo:
            node = todo.pop()
            for v in node.outputs:
                if not getattr(v.tag, "trace", None):
                    v.tag.trace = traces
            for v in node.inputs:
                owner = v.owner
                if owner is not None and owner not in seen and getattr(owner, "fgraph", None) is not fgraph:
                    seen.add(owner)
                    todo.append(owner)
