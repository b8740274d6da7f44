"""The analysis of aliases: variables that can share memory, and copies that break aliasing of a function's outputs."""

from theano_ng.compile.ops import OutputGuard, deep_copy_op, view_op
from theano_ng.gof.stack_traces import complete_stack_traces, copy_stack_trace


def destroy_map(op):
    """Return an Op's `destroy_map`.

    Return an empty dict for OutputGuard, which declares a `destroy_map` but changes nothing.
    """
    return {} if isinstance(op, OutputGuard) else getattr(op, "destroy_map", None) or {}


def aliased_inputs_of(node, position):
    """Return the inputs with which output `position` shares memory according to `view_map` and `destroy_map`."""
    op = node.op
    positions = []
    for table in (getattr(op, "view_map", None), getattr(op, "destroy_map", None)):
        if table:
            positions.extend(table.get(position, ()))
    return [node.inputs[i] for i in positions]


def alias_root(v):
    """Return the variable in whose memory `v` is. The search follows views and in-place results toward the inputs.

    Parameters
    ----------
    v : Variable

    Returns
    -------
    Variable
        The root, or `v` itself if `v` has separate memory. If an output aliases several inputs, the search follows the
        first input.
    """
    while v.owner is not None:
        aliased = aliased_inputs_of(v.owner, v.index)
        if not aliased:
            return v
        v = aliased[0]
    return v


def alias_roots(*variables):
    """Return a dict whose keys are the alias roots: all variables whose memory one of `variables` may use."""
    roots, todo, seen = {}, list(variables), set(variables)
    while todo:
        v = todo.pop()
        aliased = aliased_inputs_of(v.owner, v.index) if v.owner is not None else ()
        if not aliased:
            roots[v] = None
        for other in aliased:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return roots


def view_tree_set(v, treeset):
    """Extend a set by `v`, and by all variables that are computed from `v` and share its memory.

    Parameters
    ----------
    v : Variable
        A variable of a FunctionGraph.
    treeset : set of Variable
        The set, which is extended in place.
    """
    treeset.update(_view_tree([v]))


def _view_tree(variables):
    """Return `variables`, and all variables that are computed from them and share their memory.

    The result is a dict with the variables as keys, in the order in which they were found.
    """
    found = dict.fromkeys(variables)
    todo = list(found)
    while todo:
        v = todo.pop()
        for client, position in v.clients:
            if client == "output":
                continue
            for table in (getattr(client.op, "view_map", None), getattr(client.op, "destroy_map", None)):
                for out, positions in (table or {}).items():
                    if position in positions and client.outputs[out] not in found:
                        found[client.outputs[out]] = None
                        todo.append(client.outputs[out])
    return found


def infer_reuse_pattern(fgraph, outputs_to_disown):
    """Return all variables that may share memory with some outputs.

    A later call must not use the memory of these variables as output buffers.

    Parameters
    ----------
    fgraph : FunctionGraph
        The graph of the outputs.
    outputs_to_disown : iterable of Variable

    Returns
    -------
    list of Variable
        Only variables that nodes of the graph compute, no inputs and no constants.
    """
    roots = {}
    for o in outputs_to_disown:
        roots.update(alias_roots(o))
    return [r for r in _view_tree(roots) if r.owner is not None and r.owner in fgraph.apply_nodes]


def destroyed_roots(fgraph):
    """Return the set of variables without an owner whose memory a node changes in place."""
    # Follow all destroyed variables in one walk, because chains of in-place nodes share their paths to the roots.
    destroyed = [
        node.inputs[i] for node in fgraph.apply_nodes for positions in destroy_map(node.op).values() for i in positions
    ]
    return {r for r in alias_roots(*destroyed) if r.owner is None}


def changed_in_place(v):
    """Return True if `v` is the result of an in-place change, or a direct or indirect view of such a result."""
    todo, seen = [v], {v}
    while todo:
        v = todo.pop()
        if v.owner is None:
            continue
        if destroy_map(v.owner.op).get(v.index):
            return True
        for other in aliased_inputs_of(v.owner, v.index):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return False


def insert_deepcopy(fgraph, wrapped_inputs, wrapped_outputs):
    """Prevent outputs from sharing memory with each other, with inputs and with constants.

    Parameters
    ----------
    fgraph : FunctionGraph
        The graph, which is changed in place. An output that shares memory is replaced by a deep copy, or by a view if
        borrowing permits aliases.
    wrapped_inputs : list of In
    wrapped_outputs : list of Out

    Notes
    -----
    If several outputs share memory, the last of them keeps it. An output may keep the memory of an input in three
    cases: if the graph changes the input in place and the output is the result of this change; if the input is updated
    (its old value then belongs to the caller); and if both the input and the output are borrowed. In the last two
    cases, the graph must not change the memory in place.
    """
    reason = "insert_deepcopy"
    if len(wrapped_inputs) != len(fgraph.inputs) or len(wrapped_outputs) != len(fgraph.outputs):
        raise ValueError("one specification is needed for each input and each output of the graph")
    specs = dict(zip(fgraph.inputs, wrapped_inputs))
    destroyed = destroyed_roots(fgraph)
    outputs = list(fgraph.outputs)
    roots = [alias_roots(o) for o in outputs]
    last_user = {}
    for i, found in enumerate(roots):
        for root in found:
            last_user[root] = i

    for i, output in enumerate(outputs):
        change = None
        for root in roots[i]:
            j = last_user[root]
            if j != i:
                both = wrapped_outputs[i].borrow and wrapped_outputs[j].borrow and root not in destroyed
                change = view_op if both else deep_copy_op
            elif root.owner is None:
                spec = specs.get(root)
                if spec is not None and changed_in_place(output):
                    continue  # no copy: the input may be changed in place, and the output is the changed input
                if spec is not None and spec.update is not None and root not in destroyed:
                    change = change or (view_op if output is root else None)
                elif wrapped_outputs[i].borrow and (spec is None or spec.borrow) and root not in destroyed:
                    change = change or (view_op if output is root else None)
                else:
                    change = deep_copy_op
            if change is deep_copy_op:
                break
        if change is not None:
            new = copy_stack_trace(fgraph.outputs[i], change(fgraph.outputs[i]))
            complete_stack_traces(fgraph, [(fgraph.outputs[i], new)], reason)
            fgraph.change_input("output", i, new, reason=reason)
