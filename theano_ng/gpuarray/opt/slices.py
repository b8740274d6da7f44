"""Rules that let kernels write their results into slices of a new array.

Gradients of slices set slices of an array of zeros: in a recurrent network, the gradients of all gates. The initial states
of a loop are set in the array that contains the states of the last steps.
"""

from theano_ng.compile.mode import optdb
from theano_ng.compile.ops import Rebroadcast
from theano_ng.configdefaults import config
from theano_ng.gof.fg import InconsistencyError
from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import Optimizer, copy_stack_trace, local_optimizer
from theano_ng.gof.toolbox import ReplaceValidate
from theano_ng.gpuarray.alloc import GpuAlloc, GpuAllocEmpty
from theano_ng.gpuarray.blas import GpuDot22, GpuDot22InRow
from theano_ng.gpuarray.elemwise import GpuDimShuffle, GpuElemwise, GpuElemwiseInSlices
from theano_ng.gpuarray.opt.databases import register_inplace
from theano_ng.gpuarray.subtensor import GpuIncSubtensor

MAX_ANCESTORS = 64
"""The number of nodes among which the rule searches for those that the lengths of the array depend on."""


class StoreInSlices(Optimizer):
    """Let elementwise kernels write into the slices of a new array.

    in_halves(*sin_and_cos(A))  ->  GpuElemwiseInSlices(...)(3, 6, A)
    """

    def add_requirements(self, fgraph):
        fgraph.attach_feature(ReplaceValidate())

    def apply(self, fgraph):
        if not config.gpu.local_elemwise_fusion:
            return
        for node in fgraph.toposort():
            if _is_set(node) and not any(
                c != "output" and _is_set(c) and c.inputs[0] in node.outputs for c, _ in node.outputs[0].clients
            ):
                new = _stored_in_slices(node)
                if new is not None:
                    try:
                        fgraph.replace_all_validate(new, reason=self)
                    except InconsistencyError:
                        pass  # a node that overwrites its input is ordered between the nodes


def _is_set(node):
    return type(node.op) is GpuIncSubtensor and node.op.set_instead_of_inc and not node.op.inplace


def _stored_in_slices(last):
    """Return the replacements (old variable, new variable) for a chain of nodes that set slices, given its last node.
    Return None if the rule does not apply.
    """
    bounds, node = {}, last  # variable -> (axis, start, stop) of the slice that is set to it
    while _is_set(node):
        place = _slice_of(node)
        array, value = node.inputs[:2]
        if place is None or value in bounds or len(value.clients) > 1 or len(array.clients) > 1 or array.owner is None:
            return None
        bounds[value] = place
        node = array.owner
    makers = {v.owner for v in bounds}
    (maker,) = makers if len(makers) == 1 else (None,)
    if not (_is_zeros(node) and maker is not None and _fits(maker, bounds, node)):
        return None
    (axis,) = {axis for axis, _, _ in bounds.values()}
    slices = [bounds[v][1:] if v in bounds else None for v in maker.outputs]
    op = GpuElemwiseInSlices(maker.op.scalar_op, axis, slices)
    array, *plain = op(*node.inputs[1:], *maker.inputs, return_list=True)
    old = [last.outputs[0], *[v for v in maker.outputs if v not in bounds]]
    new = [array, *plain]
    if [a.type for a in old] != [a.type for a in new]:
        return None
    for a, b in zip(old, new):
        copy_stack_trace(a, b)
    return list(zip(old, new))


def _slice_of(node):
    """Return the constant slice that a node sets, as (axis, start, stop), or None."""
    inputs, found = iter(node.inputs[2:]), []
    for axis, entry in enumerate(node.op.idx_list):
        if not isinstance(entry, slice):
            return None
        start, stop, step = [_constant(field, inputs) for field in (entry.start, entry.stop, entry.step)]
        if (start, stop, step) == (None, None, None):
            continue
        if step not in (None, 1) or not all(n is None or (isinstance(n, int) and n >= 0) for n in (start, stop)):
            return None
        found.append((axis, start or 0, stop))
    return found[0] if len(found) == 1 else None


def _constant(field, inputs):
    """Return the constant value of a field of a slice: None, an int, or a value that is no int if it is not constant."""
    if field is None or isinstance(field, int):
        return field
    v = next(inputs)
    return int(v.data) if isinstance(v, Constant) else v


def _is_zeros(node):
    return isinstance(node.op, GpuAlloc) and node.op.memset_0


def _fits(maker, bounds, alloc):
    """Return True if the slices do not overlap, and if the results have the type of the array, whose lengths do not depend
    on the results.
    """
    if type(maker.op) is not GpuElemwise or maker.op.inplace_pattern:
        return False
    places = sorted((start, float("inf") if stop is None else stop) for _, start, stop in bounds.values())
    if len({axis for axis, _, _ in bounds.values()}) > 1 or any(a[1] > b[0] for a, b in zip(places, places[1:])):
        return False
    array = alloc.outputs[0]
    (axis,) = {axis for axis, _, _ in bounds.values()}
    if any(v.type != array.type for v in bounds) or array.type.broadcastable[axis]:
        return False
    return not _depend(alloc.inputs, maker)


def _depend(variables, node):
    """Return True if one of the variables depends on a node, or on so many nodes that this is not examined."""
    seen, todo = set(), [v.owner for v in variables]
    while todo:
        owner = todo.pop()
        if owner is None or owner in seen:
            continue
        seen.add(owner)
        if owner is node or len(seen) > MAX_ANCESTORS:
            return True
        todo += [v.owner for v in owner.inputs]
    return False


optdb.register("gpua_store_in_slices", StoreInSlices(), 49.15, "fast_run", "fusion", "gpuarray")


@register_inplace()
@local_optimizer([GpuIncSubtensor], inplace=True)
def local_gpua_dot22_in_row(node):
    """Compute a product in the memory of the new array into which it is stored.

    set_first(memory_of_one(), gpu_dot22(A, B))  ->  GpuDot22InRow(0)(memory_of_one(), A, B)
    """
    array, value = node.inputs[:2]
    place = _slice_of(node) if type(node.op) is GpuIncSubtensor and node.op.set_instead_of_inc else None
    if place is None or place[0] != 0 or place[2] != place[1] + 1 or array.type.dtype != value.type.dtype:
        return False
    added_axis = _made_by(Rebroadcast, value)  # Scan lets the first axis of a state be longer than 1
    if added_axis is not None and not any(added_axis.op.axis.values()):
        value = added_axis.inputs[0]
    product = _made_by(GpuDimShuffle, value)
    if product is None or product.op.new_order != ("x", 0, 1):
        return False
    product, memory, row = _made_by(GpuDot22, product.inputs[0]), array.owner, place[1]
    if product is None or memory is None or not isinstance(memory.op, GpuAllocEmpty):
        return False
    rows = memory.inputs[0]
    if not isinstance(rows, Constant) or row >= rows.data:
        return False
    if len(array.clients) > 1:
        array = memory.op(*memory.inputs)
        copy_stack_trace(memory.outputs, array)
    new = GpuDot22InRow(row)(array, *product.inputs)
    copy_stack_trace([*product.outputs, *node.outputs], new)
    return [new]


def _made_by(op_class, v):
    """Return the node that made a variable if it has an Op of this class, and if only one node uses the variable."""
    return v.owner if v.owner is not None and type(v.owner.op) is op_class and len(v.clients) == 1 else None
