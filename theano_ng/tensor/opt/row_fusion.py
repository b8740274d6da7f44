"""Fusion of reductions along the last axes with elementwise operations.

A `RowProgram` replaces a group of nodes that work on the same rows. Examples are a softmax, a variance, a normalization
of rows, and their gradients. `RowFusion` recognizes groups by their operations, not by the functions that made these
operations. The program reads each row from memory once.
"""

from theano_ng.configdefaults import config
from theano_ng.gof.fg import InconsistencyError
from theano_ng.gof.rewriting import Optimizer, copy_stack_trace
from theano_ng.gof.toolbox import ReplaceValidate
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.opt.fusion import _fusible, fuse_seqopt
from theano_ng.tensor.reductions.row_program import ELEMENT, RowProgram, can_map, can_reduce_rows, reads_columns
from theano_ng.tensor.type import TensorType

MAX_STEPS = 40
"""The maximum number of operations in a program. More operations would need too much of the cache."""


class RowFusion(Optimizer):
    """An optimizer that replaces each group of operations on the same rows by a `RowProgram`.

    The optimizer does nothing if `config.openmp` is True, because a `RowProgram` uses only one thread. It also does
    nothing if `config.tensor.local_elemwise_fusion` is False.

    A subclass for device arrays overrides the class attributes and `is_on`.
    """

    elemwise, dimshuffle, program = Elemwise, DimShuffle, RowProgram
    can_reduce_rows = staticmethod(can_reduce_rows)

    def add_requirements(self, fgraph):
        fgraph.attach_feature(ReplaceValidate())

    def is_on(self):
        """Return True if the flags permit fusion."""
        return config.tensor.local_elemwise_fusion and not config.openmp

    def is_array(self, v):
        """Return True if a program can read or return the variable."""
        return type(v.type) is TensorType

    def apply(self, fgraph):
        if not self.is_on():
            return
        shapes = dict.fromkeys(shape for shape in map(self.can_reduce_rows, fgraph.apply_nodes) if shape is not None)
        for shape in sorted(shapes):
            for group in _groups(fgraph.toposort(), shape, self.fits):
                _replace(fgraph, group, shape, self)

    def fits(self, node, shape):
        """Return True if a program on rows of this shape can contain the node."""
        if not all(map(self.is_array, (*node.inputs, *node.outputs))):
            return False
        if type(node.op) is self.dimshuffle or _fusible(node, self.elemwise):
            return can_map(node, shape)
        return self.can_reduce_rows(node, shape) is not None


def _groups(nodes, shape, fits):
    """Return groups of nodes, such that one program can compute all nodes of a group in the order of their list.

    All rows of a program must have the same length. So all nodes of a group belong to one family: nodes whose rows are
    known to have the same length. Two nodes with values per element belong to the same family if a chain of nodes
    connects their arrays. A node with only values per row belongs to the family of one of its inputs.

    Parameters
    ----------
    nodes : list of Apply
        All nodes of a graph, inputs first.
    shape : RowShape
    fits : callable
        `RowFusion.fits`.
    """
    family = _families(nodes, shape, fits)
    groups, exits = {}, {}
    for node in nodes:
        makers = [v.owner for v in node.inputs if v.owner is not None]
        # An operation on one value per row joins the last group that computes one of its inputs.
        if node in family and family[node] is None:
            last = max((maker for maker in makers if family.get(maker) is not None), key=exits.get, default=None)
            family[node] = family.get(last)
        # Number each node by the maximum number of times that a path from the inputs to the node leaves a family. If a
        # path leaves a family and enters it again, its last node has a larger number than its first node. The nodes of
        # a group have equal numbers, so no such path connects two of them.
        left = [exits[maker] + (family.get(maker) not in (None, family.get(node))) for maker in makers]
        exits[node] = max(left, default=0)
        if family.get(node) is not None:
            groups.setdefault((family[node], exits[node]), []).append(node)
    return [
        group
        for group in groups.values()
        if len(group) <= MAX_STEPS and _is_worth_it(group) and not any(reads_columns(node.inputs) for node in group)
    ]


def _families(nodes, shape, fits):
    """Return the families of the nodes that a program can contain.

    Returns
    -------
    dict
        A dict from a node to the array that represents its family. The value is None if no input or output of the node
        has one value per element.
    """
    parent = {}

    def root(v):
        parent.setdefault(v, v)
        while parent[v] is not v:
            parent[v] = v = parent[parent[v]]
        return v

    family = {}
    for node in nodes:
        if fits(node, shape):
            arrays = [v for v in (*node.inputs, *node.outputs) if shape.level(v.type.broadcastable) == ELEMENT]
            for v in arrays:
                parent[root(v)] = root(arrays[0])
            family[node] = arrays[0] if arrays else None
    return {node: None if v is None else root(v) for node, v in family.items()}


def _is_worth_it(group):
    """Return True if a `RowProgram` reads array elements from memory less often than the nodes of the group.

    This is the case if the group has several reductions, or if an elementwise operation reads the result of a
    reduction. For one reduction of an elementwise expression, `ReducedElemwise` is used instead.
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


def _replace(fgraph, group, shape, fusion):
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
    program = fusion.program(steps, [number[v] for v in needed], shape)
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
    is_foreign = any(
        type(op) is fusion.elemwise and not getattr(op.scalar_op, "c_code_is_own", False) for op, _ in steps
    )
    if is_foreign and program.code_for(list(inputs)) is None:
        return  # Keep the nodes: a user's scalar op has no C code, or its C code cannot be part of a program.
    try:
        fgraph.replace_all_validate(replacements, reason="row_fusion")
    except InconsistencyError:
        pass


fuse_seqopt.register("row_fusion", RowFusion(), 1.5, "fast_run", "fusion")
