"""Conversions that are undone at once, and dense matrices of which only some elements are needed."""

from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.sparse.arithmetic import MulSS, mul_s_d
from theano_ng.sparse.conversion import CSM, CSMGrad, CSMProperties, DenseFromSparse, SparseFromDense, as_format
from theano_ng.sparse.opt.common import in_dtype
from theano_ng.tensor.opt.own_registration import register_canonicalize, register_specialize
from theano_ng.tensor.shaping.allocation import Alloc, alloc
from theano_ng.tensor.shaping.broadcasting import patternbroadcast

__all__ = [
    "local_csm_grad_of_filled",
    "local_csm_properties_csm",
    "local_dense_from_sparse_sparse_from_dense",
    "local_mul_filled",
]


@register_specialize
@local_optimizer([CSMProperties])
def local_csm_properties_csm(node):
    """The parts of a matrix that is made of parts are these. Entries behind the last that indptr speaks of are no part of the matrix.

    csm_data(CSR(x, columns, starts, extent))  ->  x          [specialize, fast_run]
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


def _filled_with(x):
    """The number (0-d) that a sparse variable has everywhere, because it is made of a dense matrix that is filled with it; None otherwise."""
    if x.owner is None or not isinstance(x.owner.op, SparseFromDense):
        return None
    (dense,) = x.owner.inputs
    if dense.owner is None or not isinstance(dense.owner.op, Alloc):
        return None
    value = dense.owner.inputs[0]
    if not all(value.broadcastable):
        return None
    return value if value.ndim == 0 else value.dimshuffle([])


@register_canonicalize
@local_optimizer([MulSS])
def local_mul_filled(node):
    """A product with a matrix that has one number everywhere, such as the regular gradient of a sum, is a product with the number.

    mul_s_s(csr_from_dense(alloc(a, n, n)), M)  ->  mul_s_d(M, a)
    mul_s_s(M, csr_from_dense(alloc(a, n, n)))  ->  mul_s_d(M, a)          [canonicalize, fast_run]
    """
    for x, y in (node.inputs, node.inputs[::-1]):
        value = _filled_with(x)
        if value is None:
            continue
        result = as_format(mul_s_d(y, value), node.outputs[0].format)
        if result.type != node.outputs[0].type:
            continue
        copy_stack_trace(node.outputs[0], result)
        return [result]
    return False


@register_canonicalize
@local_optimizer([CSMGrad])
def local_csm_grad_of_filled(node):
    """The elements of a matrix that has one number everywhere are this number.

    CSMGrad()(x, columns, starts, extent, *csm_properties(csr_from_dense(alloc(a, n, n))))  ->  alloc(a, columns.shape[0])
                                                                                          [canonicalize, fast_run]
    """
    parts = node.inputs[4:]
    made = parts[0].owner
    if made is None or not isinstance(made.op, CSMProperties) or list(parts) != list(made.outputs):
        return False
    value = _filled_with(made.inputs[0])
    if value is None:
        return False
    result = alloc(value, node.inputs[1].shape[0])
    if result.type != node.outputs[0].type:
        return False
    copy_stack_trace(node.outputs[0], result)
    return [result]
