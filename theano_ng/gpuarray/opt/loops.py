"""A rule that moves loops to a device, so that their steps run there."""

from collections import OrderedDict

import numpy as np

from theano_ng.compile.inner_graph import substitute
from theano_ng.compile.mode import optdb
from theano_ng.gof.traversal import io_toposort
from theano_ng.gpuarray.basic_ops import as_gpuarray_variable, host_from_gpu
from theano_ng.gpuarray.opt.databases import lifts, safe_to_cpu
from theano_ng.gpuarray.type import GpuArrayType, gpu_supported
from theano_ng.scan.op import Scan
from theano_ng.scan.opt.inplace import ScanInplaceOptimizer
from theano_ng.tensor.nnet.convolution.abstract import BaseAbstractConv
from theano_ng.tensor.type import TensorType


class BufferType:
    """A function from dtype and broadcast pattern to the type of a buffer of a device loop. Buffers of integer scalars
    stay on the host, because steps use these scalars as counters.

    Parameters
    ----------
    context_name : hashable
    """

    def __init__(self, context_name):
        self.context_name = context_name

    def __call__(self, dtype, broadcastable):
        if stays_on_host(dtype, len(broadcastable) - 1):
            return TensorType(dtype, broadcastable)
        return GpuArrayType(dtype, broadcastable, self.context_name)


def stays_on_host(dtype, ndim):
    """Return True if rows of this dtype and rank stay on the host. Such rows are integer and boolean scalars."""
    return ndim == 0 and np.dtype(dtype).kind in "iub"


def _scan_type_infer(node):
    """Return the `typeConstructor` of the loop of a node."""
    return node.op.info.get("type_constructor")


def _lengths(op):
    """Return the inputs of a step that stay on the host: vectors that are only read as the lengths of convolutions."""
    readers = {}
    for node in io_toposort(op.inputs, op.outputs):
        for i, v in enumerate(node.inputs):
            readers.setdefault(v, []).append(isinstance(node.op, BaseAbstractConv) and i == 2)
    return {v for v, are_lengths in readers.items() if all(are_lengths) and v not in op.outputs}


def _moves(v):
    return isinstance(v.type, TensorType) and not stays_on_host(v.type.dtype, v.type.ndim)


@lifts(Scan, tags=("fast_compile", "scan"))
def local_gpua_scan_to_gpua(op, context_name, inputs, outputs):
    """Move the states, sequences and results of a loop to the device, so that its step runs there."""
    if op.gpua or not all(gpu_supported(v) for v in [*op.inputs, *op.outputs] if isinstance(v.type, TensorType)):
        return False
    outer, inner, rows, lengths = [], [], {}, _lengths(op)

    def take(v, variables):
        """Add an input of the loop to `outer`, and the variables of the step that receive it to `inner`.

        If a variable of the step moves, a device variable replaces it. The nodes of the step read the transfer of the
        device variable to the host.
        """
        moves = [w for w in variables if _moves(w) and w not in lengths]
        outer.append(
            as_gpuarray_variable(v, context_name)
            if moves
            else safe_to_cpu(v)
            if variables and isinstance(variables[0].type, TensorType)
            else v
        )
        for w in variables:
            if w not in moves:
                inner.append(w)
                continue
            new = GpuArrayType(w.dtype, w.broadcastable, context_name)(name=w.name)
            inner.append(new)
            rows[w] = host_from_gpu(new)

    outer.append(safe_to_cpu(inputs[0]))
    given = iter(op.inputs)
    for v in op.outer_seqs(inputs):
        take(v, [next(given)])
    for v, taps in zip(inputs[1 + op.n_seqs :], op.tap_array):
        take(v, [next(given) for _ in taps])
    for v in op.outer_shared(inputs):
        w = next(given)
        outer.append(safe_to_cpu(v) if isinstance(w.type, TensorType) else v)
        inner.append(w)
    outer.extend(safe_to_cpu(v) for v in op.outer_nitsot(inputs))
    for v in op.outer_non_seqs(inputs):
        take(v, [next(given)])
    made = substitute(op.outputs, rows)
    first = op.n_outputs_before_results + op.n_nit_sot
    made = [as_gpuarray_variable(v, context_name) if i < first and _moves(v) else v for i, v in enumerate(made)]
    info = OrderedDict(op.info, gpua=True)
    return Scan(inner, made, info, typeConstructor=BufferType(context_name))(*outer, return_list=True)


optdb.register(
    "gpua_scanOp_make_inplace", ScanInplaceOptimizer(gpua_flag=True), 75, "fast_run", "gpuarray", "inplace", "scan"
)
