"""Rules that move Ops of neural networks to a device: products of selected blocks, and connectionist temporal
classification.
"""

from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.gpuarray.blocksparse import (
    GpuSparseBlockGemv,
    GpuSparseBlockOuter,
    gpu_sparse_block_gemv,
    gpu_sparse_block_gemv_inplace,
    gpu_sparse_block_outer,
    gpu_sparse_block_outer_inplace,
)
from theano_ng.gpuarray.ctc import GpuConnectionistTemporalClassification
from theano_ng.gpuarray.opt.databases import lifts, register_inplace
from theano_ng.gpuarray.opt_util import inplace_allocempty
from theano_ng.tensor.nnet.blocksparse import SparseBlockGemv, SparseBlockOuter
from theano_ng.tensor.nnet.ctc import ConnectionistTemporalClassification
from theano_ng.tensor.opt.registration import register_canonicalize


@lifts(SparseBlockGemv)
def local_gpua_sparseblockgemv(op, context_name, inputs, outputs):
    """sparse_block_gemv(host(P), host(F), host(P), I, I)  ->  host(gpu_sparse_block_gemv(P, F, P, I, I))"""
    new = gpu_sparse_block_gemv_inplace if op.inplace else gpu_sparse_block_gemv
    return new if new.supports(inputs) else False


@lifts(SparseBlockOuter)
def local_gpua_sparseblockouter(op, context_name, inputs, outputs):
    """sparse_block_outer(host(F), host(P), host(P), I, I)  ->  host(gpu_sparse_block_outer(F, P, P, I, I))"""
    new = gpu_sparse_block_outer_inplace if op.inplace else gpu_sparse_block_outer
    return new if new.supports(inputs) else False


@register_inplace()
@inplace_allocempty(GpuSparseBlockGemv, 0)
def local_inplace_sparseblockgemv(node, inputs):
    """gpu_sparse_block_gemv(P, F, Q, I, I)  ->  gpu_sparse_block_gemv_inplace(P, F, Q, I, I)"""
    return [gpu_sparse_block_gemv_inplace(*inputs)]


@register_inplace()
@inplace_allocempty(GpuSparseBlockOuter, 0)
def local_inplace_sparseblockouter(node, inputs):
    """gpu_sparse_block_outer(F, P, Q, I, I)  ->  gpu_sparse_block_outer_inplace(F, P, Q, I, I)"""
    return [gpu_sparse_block_outer_inplace(*inputs)]


@lifts(ConnectionistTemporalClassification, tags=("ctc", "fast_compile"))
def local_gpu_ctc(op, context_name, inputs, outputs):
    """ConnectionistTemporalClassification()(host(P), I, i)  ->
    [host(v) for v in GpuConnectionistTemporalClassification()(P, I, i)]
    """
    return GpuConnectionistTemporalClassification(op.compute_grad)(*inputs, return_list=True)


@register_canonicalize("fast_compile")
@local_optimizer([GpuConnectionistTemporalClassification])
def local_gpu_ctc_no_grad(node):
    """Compute only the costs if the gradients have no clients.

    GpuConnectionistTemporalClassification()(P, I, i)[0]  ->
        GpuConnectionistTemporalClassification(compute_grad=False)(P, I, i)
    """
    if len(node.outputs) < 2 or node.outputs[1].clients:
        return False
    costs = GpuConnectionistTemporalClassification(compute_grad=False)(*node.inputs)
    copy_stack_trace(node.outputs[0], costs)
    return {node.outputs[0]: costs}
