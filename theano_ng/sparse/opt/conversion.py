"""Conversions that are undone at once."""

from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.sparse.conversion import CSM, CSMProperties, DenseFromSparse, SparseFromDense
from theano_ng.sparse.opt.common import in_dtype
from theano_ng.tensor.opt.own_registration import register_canonicalize, register_specialize
from theano_ng.tensor.shaping.broadcasting import patternbroadcast

__all__ = ["local_csm_properties_csm", "local_dense_from_sparse_sparse_from_dense"]


@register_specialize
@local_optimizer([CSMProperties])
def local_csm_properties_csm(node):
    """The parts of a matrix that is made of parts are these. Entries behind the last that indptr speaks of are no part of the matrix.

    csm_data(CSR(x, places, starts, lengths))  ->  x          [specialize, fast_run]
    """
    made = node.inputs[0].owner
    if made is None or not isinstance(made.op, CSM):
        return False
    parts = [
        patternbroadcast(in_dtype(part, out.dtype), out.broadcastable) for part, out in zip(made.inputs, node.outputs)
    ]
    copy_stack_trace(node.outputs[0], parts)
    return parts


@register_specialize
@register_canonicalize("fast_compile")
@local_optimizer([DenseFromSparse])
def local_dense_from_sparse_sparse_from_dense(node):
    """Nothing happens to a matrix that is made sparse and dense again.

    dense_from_sparse(csr_from_dense(A))  ->  A          [canonicalize, specialize, fast_compile, fast_run]
    """
    made = node.inputs[0].owner
    if made is None or not isinstance(made.op, SparseFromDense):
        return False
    (x,) = made.inputs
    if x.ndim < 2:
        x = x.dimshuffle(["x"] * (2 - x.ndim) + list(range(x.ndim)))
    result = patternbroadcast(x, node.outputs[0].broadcastable)
    if result is not made.inputs[0]:
        copy_stack_trace(node.outputs[0], result)
    return [result]
