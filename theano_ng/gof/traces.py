"""Stack traces of variables, from one to another."""

from theano_ng.configdefaults import config

#: Traces that a variable keeps. Equal nodes of a whole graph can be merged into one; nobody reads the traces of all of them.
MOST_TRACES = 16


def traces_of(from_var):
    """The stack traces of one variable, or of several without repetition."""
    variables = from_var if isinstance(from_var, (list, tuple)) else [from_var]
    found = []
    seen = set()
    for v in variables:
        traces = getattr(v.tag, "trace", None) or []
        if isinstance(traces, tuple) or (
            traces and isinstance(traces[0], tuple) and len(traces[0]) == 4 and isinstance(traces[0][0], str)
        ):
            # One bare stack instead of a list of them.
            traces = [traces]
        for trace in traces:
            if id(trace) not in seen:
                seen.add(id(trace))
                found.append(trace)
    return found


def copy_stack_trace(from_var, to_var):
    """Append the stack traces of `from_var` to those of `to_var`, as long as these are few.

    Parameters
    ----------
    from_var, to_var : Variable, or list or tuple of Variable
        The traces of all `from_var` go to each of `to_var`, up to `MOST_TRACES`.

    Returns
    -------
    The argument `to_var`.
    """
    traces = traces_of(from_var)
    for v in to_var if isinstance(to_var, (list, tuple)) else [to_var]:
        own = traces_of(v)
        ids = {id(t) for t in own}
        v.tag.trace = (own + [t for t in traces if id(t) not in ids])[: max(MOST_TRACES, len(own))]
    return to_var


def has_trace(variable):
    """Whether a variable has traces, none of them empty."""
    traces = getattr(variable.tag, "trace", None)
    return bool(traces) and all(map(len, traces))


def complete_stack_traces(fgraph, replacements, reason=None):
    """Before replacements are made, give what is new in the graph its stack traces, where it has none.

    A rule copies the traces of what it replaces to its results; what lies between these and the graph comes from the same lines of the
    user. Results without traces get those of what they replace, unless `config.check_stack_trace` wants to hear of rules that lose them.

    Parameters
    ----------
    fgraph : FunctionGraph
    replacements : list of (old, new)
    reason : object
        Who replaces.
    """
    # A node below several replacements is visited once; a loop can have hundreds of replacements.
    seen = set()
    for old, new in replacements:
        if new.owner is None:
            continue  # a constant, or a variable of the user
        if not has_trace(new):
            traces = traces_of(old)
            if config.check_stack_trace != "off":
                if traces:
                    continue
                # The user's own graph has none, as after StripPickler: the rule had nothing to keep.
                traces = [[("", 0, "%s, in place of a variable without stack trace" % (reason,), "")]]
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
