"""Fusion of reductions along the last axes with the elementwise operations before, between and behind them.

A `RowProgram` replaces a group of nodes that work on the same rows: a softmax, a variance, a normalization of rows, or
their gradients, by whatever names the user wrote them. It reads each row from memory once.
"""

from theano_ng.configdefaults import config
from theano_ng.gof.fg import InconsistencyError
from theano_ng.gof.rewriting import Optimizer, copy_stack_trace
from theano_ng.gof.toolbox import ReplaceValidate
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.opt.fusion import _fusible, fuse_seqopt
from theano_ng.tensor.reductions.row_program import ELEMENT, RowProgram, can_map, can_reduce_rows, reads_columns

MAX_STEPS = 40
"""The maximum number of operations in a program: more would need too much of the cache."""


class RowFusion(Optimizer):
    """An optimizer that replaces groups of operations on the same rows by a `RowProgram` each.

    It does nothing with OpenMP, because threads work on separate operations.
    """

    def add_requirements(self, fgraph):
        fgraph.attach_feature(ReplaceValidate())

    def apply(self, fgraph):
        if not config.tensor.local_elemwise_fusion or config.openmp:
            return
        shapes = dict.fromkeys(shape for shape in map(can_reduce_rows, fgraph.apply_nodes) if shape is not None)
        for shape in sorted(shapes):
            for group in _groups(fgraph.toposort(), shape):
                _replace(fgraph, group, shape)


def _groups(nodes, shape):
    """Return the groups of nodes that one program can compute. The nodes of a group are in the order of computation.

    Parameters
    ----------
    nodes : list of Apply
        All nodes of a graph, inputs first.
    shape : RowShape
    """
    members = {node: k for k, node in enumerate(nodes) if _fits(node, shape)}
    barriers = _barriers(nodes, members)
    parent = {node: node for node in members}

    def root(node):
        while parent[node] is not node:
            parent[node] = node = parent[parent[node]]
        return node

    readers = {}  # the first reader of an array that other nodes compute
    for node in members:
        for v in node.inputs:
            other = v.owner
            if other not in members or barriers[other] != barriers[node]:
                if not shape.is_whole(v.type.broadcastable) or shape.level(v.type.broadcastable) != ELEMENT:
                    continue
                other = readers.setdefault((v, barriers[node]), node)
            first, second = sorted((root(node), root(other)), key=members.get)
            parent[second] = first
    groups = {}
    for node in members:
        groups.setdefault(root(node), []).append(node)
    return [
        group
        for group in groups.values()
        if len(group) <= MAX_STEPS and _is_worth_it(group) and not any(reads_columns(node.inputs) for node in group)
    ]


def _fits(node, shape):
    """Return True if a program on rows of this shape can contain the node."""
    if type(node.op) is DimShuffle or _fusible(node, Elemwise):
        return can_map(node, shape)
    return can_reduce_rows(node, shape) is not None


def _barriers(nodes, members):
    """Return for each node the largest number of times that a path to it leaves the members and enters them again.

    So no path between two members with the same number leads through other nodes.
    """
    barriers = {}
    for node in nodes:
        inside = node in members
        found = 0
        for v in node.inputs:
            if v.owner is not None:
                # A path that leaves the members and enters them again counts once, when it leaves them.
                found = max(found, barriers[v.owner] + (v.owner in members and not inside))
        barriers[node] = found
    return barriers


def _is_worth_it(group):
    """Return True if a program reads elements from memory less often than the nodes do.

    That is the case if operations on elements need the result of a reduction of the group, or if there are several
    reductions. A `ReducedElemwise` computes a single reduction of an elementwise operation.
    """
    reductions = [node for node in group if not isinstance(node.op, (Elemwise, DimShuffle))]
    if len(reductions) > 1:
        return True
    results = {v for node in reductions for v in node.outputs}
    for node in group:
        if not results.isdisjoint(node.inputs):
            results.update(node.outputs)
    rank = {node.inputs[0].type.ndim for node in reductions}
    return any(
        v.type.ndim in rank and not v.type.broadcastable[-1]
        for node in group
        if isinstance(node.op, Elemwise)
        for v in node.outputs
        if v in results
    )


def _replace(fgraph, group, shape):
    """Replace the nodes of a group by a program."""
    inside, inputs = set(group), {}
    for node in group:
        for v in node.inputs:
            if v.owner not in inside:
                inputs.setdefault(v, len(inputs))
    number = dict(inputs)
    steps, needed = [], {}
    for node in group:
        (out,) = node.outputs
        number[out] = len(number)
        steps.append((node.op, [number[v] for v in node.inputs]))
        source = node.inputs[0] if isinstance(node.op, DimShuffle) else out
        if source not in inputs and any(client == "output" or client not in inside for client, _ in out.clients):
            needed.setdefault(source, []).append(node)
    program = RowProgram(steps, [number[v] for v in needed], shape)
    made = program(*inputs, return_list=True)
    replacements = []
    for (source, nodes), result in zip(needed.items(), made):
        copy_stack_trace(source, result)
        for node in nodes:
            (old,) = node.outputs
            new = result if old is source else node.op(result)
            if new.type != old.type:
                return
            copy_stack_trace(old, new)
            replacements.append((old, new))
    if made[0].owner.op.native_code(made[0].owner) is None:
        return
    try:
        fgraph.replace_all_validate(replacements, reason="row_fusion")
    except InconsistencyError:
        pass


fuse_seqopt.register("row_fusion", RowFusion(), 1.5, "fast_run", "fusion", own=True)
