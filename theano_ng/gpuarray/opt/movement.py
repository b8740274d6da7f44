"""Optimizers that keep nodes on the host: nodes that only move elements from the host to the host, and nodes that compute
with numbers.
"""

import numpy as np

from theano_ng.compile.ops import Rebroadcast, SpecifyShape
from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import Optimizer, copy_stack_trace
from theano_ng.gof.toolbox import ReplaceValidate
from theano_ng.gpuarray.advanced_subtensor import (
    BaseGpuAdvancedIncSubtensor,
    BaseGpuAdvancedSubtensor,
    GpuAdvancedIncSubtensor1,
    GpuAdvancedSubtensor1,
)
from theano_ng.gpuarray.alloc import GpuAlloc, GpuAllocEmpty
from theano_ng.gpuarray.creation import GpuEye, GpuTri
from theano_ng.gpuarray.diagonals import GpuAllocDiag, GpuExtractDiag
from theano_ng.gpuarray.elemwise import GpuDimShuffle, GpuElemwise
from theano_ng.gpuarray.joining import GpuJoin, GpuSplit
from theano_ng.gpuarray.opt.databases import gpu_seqopt
from theano_ng.gpuarray.reshaping import GpuReshape
from theano_ng.gpuarray.subtensor import GpuIncSubtensor, GpuSubtensor
from theano_ng.gpuarray.transfers import GpuContiguous, GpuFromHost, HostFromGpu
from theano_ng.gpuarray.twin import came_from_host, host_variable
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.scalar.divisors import divides
from theano_ng.tensor.assert_op import Assert
from theano_ng.tensor.basic import patternbroadcast
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.extra_ops import cpu_contiguous

# Ops that view, allocate or copy elements, and compute none.
MOVEMENT = (
    GpuDimShuffle,
    GpuReshape,
    GpuSubtensor,
    GpuAdvancedSubtensor1,
    BaseGpuAdvancedSubtensor,
    GpuAlloc,
    GpuAllocEmpty,
    GpuEye,
    GpuTri,
    GpuJoin,
    GpuSplit,
    GpuExtractDiag,
    GpuAllocDiag,
    GpuContiguous,
    Rebroadcast,
    SpecifyShape,
    Assert,
)
# These Ops only move elements if they set elements, and compute if they increment elements.
SETTERS = (GpuIncSubtensor, GpuAdvancedIncSubtensor1, BaseGpuAdvancedIncSubtensor)


def only_moves(op):
    """Return True if an Op views, allocates or copies elements, and computes none."""
    return isinstance(op, MOVEMENT) or (isinstance(op, SETTERS) and op.set_instead_of_inc)


class KeepMovementOnHost(Optimizer):
    """Replace paths on which an array is transferred to a device, its elements are only moved there, and the result is
    transferred back. The elements are moved on the host instead:

    host(GpuDimShuffle((False, False), (1, 0))(gpu(x)))  ->  x.T
    host(gpu_join(0, gpu(x), GpuElemwise(scalar.exp)(A)))  ->  join(0, x, host(GpuElemwise(scalar.exp)(A)))

    Other nodes on the device that read the moved elements keep their inputs.
    """

    def add_requirements(self, fgraph):
        fgraph.attach_feature(ReplaceValidate())

    def apply(self, fgraph):
        nodes = fgraph.toposort()
        sent = _moved_from_host(nodes)
        returned = [n for n in nodes if isinstance(n.op, HostFromGpu) and n.inputs[0] in sent]
        needed = {n.inputs[0] for n in returned}
        for node in reversed(nodes):
            if not needed.isdisjoint(node.outputs) and not isinstance(node.op, GpuFromHost):
                needed.update(v for v in node.inputs if v in sent)
        on_host = {}  # variable of `needed` -> host variable with the same value
        for node in nodes:
            if not needed.isdisjoint(node.outputs):
                on_host.update(zip(node.outputs, _host_outputs(node, on_host)))
        for node in returned:
            (old,), (v,) = node.outputs, node.inputs
            fgraph.replace_validate(old, patternbroadcast(on_host[v], old.broadcastable), reason=self)


def _moved_from_host(nodes):
    """Return the device variables with elements that come from the host without computation on a device.

    Parameters
    ----------
    nodes : list of Apply
        In topological order.
    """
    sent = set()
    for node in nodes:
        if isinstance(node.op, GpuFromHost):
            sent.update(node.outputs)
        elif only_moves(node.op):
            variables = [v for v in _element_inputs(node) if _on_device(v) and not isinstance(v, Constant)]
            if not variables or any(v in sent for v in variables):
                sent.update(v for v in node.outputs if _on_device(v))
    return sent


def _element_inputs(node):
    """Return the inputs whose elements a node moves. The other inputs are indices and shapes."""
    if isinstance(node.op, SETTERS):
        return node.inputs[:2]
    return node.inputs if isinstance(node.op, GpuJoin) else node.inputs[:1]


def _on_device(v):
    return isinstance(v.type, GpuArrayType)


def _host_outputs(node, on_host):
    """Return host variables with the values of a node's outputs.

    Parameters
    ----------
    node : Apply
        A `GpuFromHost`, or a node whose Op only moves elements.
    on_host : dict
        Device variable -> host variable with the same value. Other device inputs are transferred to the host.
    """
    if isinstance(node.op, GpuFromHost):
        return node.inputs
    outputs = _host_op(node)(*[on_host.get(v) or _host_value(v) for v in node.inputs], return_list=True)
    copy_stack_trace(node.outputs, outputs)
    return outputs


def _host_value(v):
    if isinstance(v, Constant) and _on_device(v):
        type_ = v.type.host_type()
        return type_.make_constant(type_.filter(np.asarray(v.data)))
    return host_variable(v)


class KeepNumbersOnHost(Optimizer):
    """Compute with numbers on the host, and transfer only the result. A number is an array whose axes are all
    broadcastable. A kernel for one number would take as long as a kernel for thousands.

    GpuElemwise(scalar.inv)(gpu(s))  ->  gpu(inv(s))
    host(GpuElemwise(scalar.mul)(sum(A), gpu(s)))  ->  mul(host(sum(A)), s)
    """

    def add_requirements(self, fgraph):
        fgraph.attach_feature(ReplaceValidate())

    def apply(self, fgraph):
        on_host = {}  # device variable that is a number -> host variable with the same value
        for node in fgraph.toposort():
            if isinstance(node.op, GpuFromHost) and all(node.inputs[0].broadcastable):
                on_host[node.outputs[0]] = node.inputs[0]
            elif _computes_numbers(node) and any(v in on_host for v in node.inputs):
                if all(v in on_host or isinstance(v, Constant) for v in node.inputs):
                    on_host.update(zip(node.outputs, _host_outputs(node, on_host)))
        for node in fgraph.toposort():
            if isinstance(node.op, GpuElemwise) and all(v in on_host for v in node.outputs):
                for v in node.outputs:
                    new = GpuFromHost(v.type.context_name)(on_host[v])
                    copy_stack_trace(v, new)
                    if new.type == v.type:
                        fgraph.replace_validate(v, new, reason=self)
        todo = [node for node in fgraph.toposort() if isinstance(node.op, HostFromGpu)]
        while todo:
            todo += _transferred_before(todo.pop(), fgraph, self)


def _transferred_before(node, fgraph, reason):
    """Transfer a number to the host before the last operation on it, if the other operands are numbers from the host.
    Return a list with the new transfer, or an empty list.
    """
    (v,) = node.inputs
    last = v.owner
    if last is None or not _computes_numbers(last) or len(last.outputs) > 1 or len(v.clients) > 1:
        return []
    from_device = {u for u in last.inputs if not came_from_host(u) and not isinstance(u, Constant)}
    if len(from_device) != 1 or not all(all(u.broadcastable) for u in last.inputs):
        return []
    (new,) = _host_outputs(last, {})
    (old,) = node.outputs
    if new.type != old.type:
        return []
    copy_stack_trace(old, new)
    fgraph.replace_validate(old, new, reason=reason)
    return [u.owner for u in new.owner.inputs if u.owner is not None and isinstance(u.owner.op, HostFromGpu)]


def _computes_numbers(node):
    """Return True if a node on a device computes with elements or adds axes, and if its host Op raises no errors."""
    if isinstance(node.op, GpuElemwise):
        return not divides(node.op.scalar_op) and all(all(v.broadcastable) for v in node.outputs)
    return isinstance(node.op, GpuDimShuffle)


def _host_op(node):
    """Return the Op for the host that moves elements or computes in the same way."""
    op = node.op
    if isinstance(op, GpuContiguous):
        return cpu_contiguous
    if isinstance(op, GpuDimShuffle):
        return DimShuffle(op.input_broadcastable, op.new_order)
    return op.host_op(node) if hasattr(op, "host_op") else op


gpu_seqopt.register("gpuarray_keep_movement_on_host", KeepMovementOnHost(), 3, "fast_compile", "fast_run", "gpuarray")
gpu_seqopt.register("gpuarray_keep_numbers_on_host", KeepNumbersOnHost(), 4, "fast_compile", "fast_run", "gpuarray")
