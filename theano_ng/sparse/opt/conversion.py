"""Rules that remove pairs of inverse conversions, and rules for sparse matrices whose elements are all equal."""

from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.sparse.arithmetic import MulSS, mul_s_d
from theano_ng.sparse.conversion import CSM, CSMGrad, CSMProperties, DenseFromSparse, SparseFromDense, as_format
from theano_ng.sparse.opt.common import in_dtype
from theano_ng.tensor.opt.patterns import Rest, names, restricted, rule, terms
from theano_ng.tensor.opt.registration import register_canonicalize, register_specialize
from theano_ng.tensor.shaping.allocation import Alloc, alloc
from theano_ng.tensor.shaping.broadcasting import patternbroadcast

__all__ = [
    "local_csm_grad_of_filled",
    "local_csm_properties_csm",
    "local_dense_from_sparse_sparse_from_dense",
    "local_mul_filled",
]

x, y = names("x", "y")
dense, made_of, mul_s_s, parts_of, sparse = terms(DenseFromSparse, CSM, MulSS, CSMProperties, SparseFromDense)


@register_specialize
@rule(parts_of(made_of(Rest("parts"))))
def local_csm_properties_csm(parts, node):
    """Replace the parts of a matrix that was made from parts by the original parts.

    The original data and indices may be longer than the number of entries. Then the replacements keep the additional
    elements, which `csm_properties` would leave out.

    csm_data(CSR(x, columns, starts, extent))  ->  x          [specialize, fast_run]
    """
    return [patternbroadcast(in_dtype(part, out.dtype), out.broadcastable) for part, out in zip(parts, node.outputs)]


@register_specialize
@register_canonicalize("fast_compile")
@rule(dense(sparse(x)))
def local_dense_from_sparse_sparse_from_dense(x, out):
    """Remove the conversion of a dense matrix to sparse and back to dense.

    dense_from_sparse(csr_from_dense(A))  ->  A          [canonicalize, specialize, fast_compile, fast_run]
    """
    if x.ndim < 2:
        x = x.dimshuffle(["x"] * (2 - x.ndim) + list(range(x.ndim)))
    return patternbroadcast(x, out.broadcastable)


def _filled_with(x):
    """Return the value, as a 0-d tensor, of all elements of a sparse variable that is made from a filled dense matrix.

    Return None if the variable is not made in this way.
    """
    if x.owner is None or not isinstance(x.owner.op, SparseFromDense):
        return None
    (dense,) = x.owner.inputs
    if dense.owner is None or not isinstance(dense.owner.op, Alloc):
        return None
    value = dense.owner.inputs[0]
    if not all(value.broadcastable):
        return None
    return value if value.ndim == 0 else value.dimshuffle([])


filled = restricted(x, lambda v: _filled_with(v) is not None)


@register_canonicalize
@rule(mul_s_s(filled, y), mul_s_s(y, filled))
def local_mul_filled(x, y, out):
    """If all elements of one factor of a product have the same value, multiply the other factor by this scalar value.

    The regular gradient of a sum is a matrix whose elements all have the same value.

    mul_s_s(csr_from_dense(alloc(a, n, n)), M)  ->  mul_s_d(M, a)
    mul_s_s(M, csr_from_dense(alloc(a, n, n)))  ->  mul_s_d(M, a)          [canonicalize, fast_run]
    """
    return as_format(mul_s_d(y, _filled_with(x)), out.format)


@register_canonicalize
@local_optimizer([CSMGrad])
def local_csm_grad_of_filled(node):
    """Replace `CSMGrad` of a gradient matrix whose elements all have the same value by a vector of this value.

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
