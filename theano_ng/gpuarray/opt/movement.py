"""The optimizer that keeps nodes on the host if they only move elements from the host to the host."""

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
from theano_ng.gpuarray.elemwise import GpuDimShuffle
from theano_ng.gpuarray.joining import GpuJoin, GpuSplit
from theano_ng.gpuarray.opt.databases import gpu_seqopt
from theano_ng.gpuarray.reshaping import GpuReshape
from theano_ng.gpuarray.subtensor import GpuIncSubtensor, GpuSubtensor
from theano_ng.gpuarray.transfers import GpuContiguous, GpuFromHost, HostFromGpu
from theano_ng.gpuarray.twin import host_variable
from theano_ng.gpuarray.type import GpuArrayType
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

    host(GpuDimShuffle((False, False), (1, 0))(gpu(X)))  ->  X.T
    host(gpu_join(0, gpu(X), exp(A)))  ->  join(0, X, host(exp(A)))

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


def _host_op(node):
    """Return the Op for the host that moves elements in the same way."""
    op = node.op
    if isinstance(op, GpuContiguous):
        return cpu_contiguous
    if isinstance(op, GpuDimShuffle):
        return DimShuffle(op.input_broadcastable, op.new_order)
    return op.host_op(node) if hasattr(op, "host_op") else op


gpu_seqopt.register("gpuarray_keep_movement_on_host", KeepMovementOnHost(), 3, "fast_compile", "fast_run", "gpuarray")
