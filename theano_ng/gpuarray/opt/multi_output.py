"""Fusion of elementwise operations on devices whose results are all needed into one kernel with several outputs.

The fusion at position 49 joins an operation with its reader if the result has no other reader. This fusion joins the
remaining operations on arrays of the same shape: an operation with the readers of its result, and operations that read
the same array. So the gates of a recurrent network, and the three updates of Adam, are one kernel, which reads every
operand once.
"""

import heapq

from theano_ng import scalar
from theano_ng.compile.mode import optdb
from theano_ng.configdefaults import config
from theano_ng.gof.fg import InconsistencyError
from theano_ng.gof.rewriting import Optimizer, copy_stack_trace
from theano_ng.gof.toolbox import ReplaceValidate
from theano_ng.gpuarray.elemwise import GpuElemwise, SupportCodeError, max_inputs_to_GpuElemwise
from theano_ng.ifelse import IfElse
from theano_ng.tensor.opt.fusion import MAX_OPERATIONS

MAX_OUTPUTS = 8
"""The maximum number of outputs of a kernel. More outputs need more registers."""

MAX_READERS = 32
"""Values with more readers are not examined, so that the time is proportional to the size of the graph."""


class _Group:
    """Elementwise nodes that become one node.

    Attributes
    ----------
    members : list of Apply
        In topological order.
    """

    def __init__(self, node):
        self.members = [node]


def _is_candidate(node):
    return type(node.op) is GpuElemwise and not node.op.inplace_pattern


def _order(fgraph):
    """Return the nodes in a topological order in which each elementwise node is as early as possible. Other nodes come
    before the end only if an elementwise node depends on them.
    """
    nodes = fgraph.toposort()
    position = {node: k for k, node in enumerate(nodes)}
    orderings = fgraph.orderings()
    waits, followers = {}, {}
    for node in nodes:
        before = {v.owner for v in node.inputs if v.owner is not None}.union(orderings.get(node, ()))
        waits[node] = len(before)
        for other in before:
            followers.setdefault(other, []).append(node)

    needed = set()
    for node in reversed(nodes):
        if _is_candidate(node) or any(follower in needed for follower in followers.get(node, ())):
            needed.add(node)

    def entry(node):
        return not _is_candidate(node), node not in needed, position[node], node

    ready, order = [entry(node) for node in nodes if not waits[node]], []
    heapq.heapify(ready)
    while ready:
        node = heapq.heappop(ready)[-1]
        order.append(node)
        for follower in followers.get(node, ()):
            waits[follower] -= 1
            if not waits[follower]:
                heapq.heappush(ready, entry(follower))
    return order


class MultiOutputFusion(Optimizer):
    """Join elementwise nodes on device arrays of the same shape to nodes with several outputs.

    GpuElemwise(scalar.exp)(A), GpuElemwise(scalar.sin)(A)  ->  one GpuElemwise of A with two outputs
    """

    def add_requirements(self, fgraph):
        fgraph.attach_feature(ReplaceValidate())

    def apply(self, fgraph):
        if not config.gpu.local_elemwise_fusion:
            return
        order = _order(fgraph)
        for group in _groups(order, _cases(order, fgraph.outputs)):
            new = _joined(group.members)
            if new is not None:
                try:
                    fgraph.replace_all_validate(new, reason=self)
                except InconsistencyError:
                    pass  # a node that overwrites its input is ordered between the members


_ALWAYS = frozenset([None])


def _cases(order, outputs):
    """Return a dict from nodes to the cases in which a virtual machine that evaluates on demand computes them: a set of
    pairs of a conditional and its branch, or `_ALWAYS`. The dict is empty if there are no conditionals.
    """
    if not any(isinstance(node.op, IfElse) for node in order):
        return {}
    cases = {v.owner: _ALWAYS for v in outputs}
    for node in reversed(order):
        own = cases.setdefault(node, _ALWAYS)
        for k, v in enumerate(node.inputs):
            in_branch = isinstance(node.op, IfElse) and k > 0
            new = frozenset([(node, k > node.op.n_outs)]) if in_branch else own
            known = cases.get(v.owner, new)
            cases[v.owner] = _ALWAYS if _ALWAYS in (known, new) else known | new
    return cases


def _groups(order, cases):
    """Return the groups of several nodes, given the nodes in a topological order, and the result of `_cases`.

    A group is computed when its last member is. So all readers of its values, other than members, must come after this
    member in `order`. All members are needed in the same cases: otherwise values of a branch that is not taken would be
    computed, and their shapes could be wrong.
    """
    position = {node: k for k, node in enumerate(order)}
    group_of, last_reader = {}, {}
    for node in order:
        if not _is_candidate(node):
            continue
        group = group_of[node] = _Group(node)
        for other in _neighbours(node, last_reader):
            joined = group_of[other]
            if joined is group or cases.get(other) != cases.get(node) or not _may_join(joined, group, position):
                continue
            for member in group.members:
                group_of[member] = joined
            joined.members = sorted([*joined.members, *group.members], key=position.__getitem__)
            group = joined
        for v in node.inputs:
            last_reader[v] = node
    found = {id(group): group for group in group_of.values() if len(group.members) > 1}
    return sorted(found.values(), key=lambda group: position[group.members[-1]])


def _neighbours(node, last_reader):
    """Return elementwise nodes that come before a node and compute arrays of the same shape: those that compute its
    inputs, and the last one that reads the same input.
    """
    pattern, found = node.outputs[0].type.broadcastable, {}
    for v in node.inputs:
        if v.type.broadcastable != pattern:
            continue
        for other in (v.owner, last_reader.get(v)):
            if other is not None and _is_candidate(other) and other.outputs[0].type == _like(node, other):
                found[other] = None
    return list(found)


def _like(node, other):
    """Return the type of the outputs of `other`, if they have the context and the broadcast pattern of `node`."""
    type_ = node.outputs[0].type
    return type_.clone(dtype=other.outputs[0].type.dtype)


def _may_join(first, second, position):
    """Return True if two groups can be one. No member of `first` comes after the last member of `second`."""
    members = {*first.members, *second.members}
    last = position[second.members[-1]]
    exported, inputs = [], {}
    for member in members:
        for v in member.outputs:
            outside = [client for client, _ in v.clients[: MAX_READERS + 1] if client not in members]
            if len(v.clients) > MAX_READERS or any(c != "output" and position[c] < last for c in outside):
                return False
            if outside:
                exported.append(v)
                if _may_be_contracted(v, members):
                    return False
        inputs.update(dict.fromkeys(v for v in member.inputs if v.owner not in members))
    weight = sum(_operations(member.op.scalar_op) for member in members)
    return (
        weight <= MAX_OPERATIONS and len(exported) <= MAX_OUTPUTS and len(inputs) <= max_inputs_to_GpuElemwise(exported)
    )


def _operations(scalar_op):
    return scalar_op.n_operations if isinstance(scalar_op, scalar.Composite) else 1


def _may_be_contracted(v, members):
    """Return True if `v` is a product of floats that a member reads. The compiler may contract the product with a sum
    of the member (fused multiply-add), so the member would not use the stored value.
    """
    if v.type.dtype[:3] in ("int", "uin", "boo") or not any(client in members for client, _ in v.clients):
        return False
    op = v.owner.op.scalar_op
    if isinstance(op, scalar.Composite):
        op = op.outputs[v.owner.outputs.index(v)].owner.op
    return isinstance(op, (scalar.Mul, scalar.Sqr))


def _joined(members):
    """Return the replacements (old variable, new variable) that join nodes, or None if devices cannot compute the new
    node.
    """
    inside, scalars, inputs = set(members), {}, {}
    for member in members:
        for v in member.inputs:
            if v.owner not in inside and v not in inputs:
                inputs[v] = scalars[v] = scalar.get_scalar_type(v.type.dtype).make_variable()
        results = member.op.scalar_op.make_node(*[scalars[v] for v in member.inputs]).outputs
        scalars.update(zip(member.outputs, results))
    exported = [v for m in members for v in m.outputs if any(client not in inside for client, _ in v.clients)]
    op = GpuElemwise(scalar.Composite(list(inputs.values()), [scalars[v] for v in exported]))
    try:
        new = op(*inputs, return_list=True)
    except SupportCodeError:
        return None
    if [a.type for a in new] != [b.type for b in exported]:
        return None
    for old, made in zip(exported, new):
        copy_stack_trace(old, made)
    return list(zip(exported, new))


optdb.register("gpua_multi_output_fusion", MultiOutputFusion(), 49.1, "fast_run", "fusion", "gpuarray")
