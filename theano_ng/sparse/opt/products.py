"""Rules that replace products with sparse matrices by Ops with C code."""

from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.sparse.conversion import CSM, CSMGrad, csm_properties
from theano_ng.sparse.fields import csm_grad_c, sampling_dot_csr, sd_csc, sd_csr, usmm_csc_dense, usmm_csc_dense_inplace
from theano_ng.sparse.opt.common import Parts, in_dtype
from theano_ng.sparse.products import Dot, SamplingDot, StructuredDot, Usmm, usmm
from theano_ng.sparse.shaping import transpose
from theano_ng.sparse.type import SparseType
from theano_ng.tensor.elemwise import functions as T
from theano_ng.tensor.opt.patterns import Rest, names, ops_such, restricted, rule, terms
from theano_ng.tensor.opt.registration import register_specialize, register_uncanonicalize

__all__ = [
    "local_csm_grad_c",
    "local_dot_in_c",
    "local_sampling_dot_csr",
    "local_structured_dot",
    "local_usmm",
    "local_usmm_csc_dense_inplace",
    "local_usmm_csx",
]


def _in_c(x, y, dtype):
    """Return the product of a csr or csc variable and a dense matrix, computed by an Op with C code."""
    parts, y = Parts(x, dtype), in_dtype(y, dtype)
    if x.format == "csr":
        return sd_csr(parts.data, parts.indices, parts.indptr, y, parts.minor)
    return sd_csc(parts.data, parts.indices, parts.indptr, parts.minor, y)


def _is_compressed(x):
    return isinstance(x.type, SparseType) and x.format in ("csr", "csc")


x, y = names("x", "y")
inputs = Rest("inputs")
sampling_dot, structured_dot = terms(SamplingDot, StructuredDot)
usmm_copying, usmm_inplace, grad_in_c = terms(usmm_csc_dense, usmm_csc_dense_inplace, csm_grad_c)
other_csm_grad = ops_such(CSMGrad, condition=lambda op: op != csm_grad_c)


@register_specialize
@rule(structured_dot(restricted(x, _is_compressed), restricted(y, lambda v: not isinstance(v.type, SparseType))))
def local_structured_dot(x, y, out):
    """Compute the product of a sparse and a dense matrix in C.

    structured_dot(M, A)  ->  sd_csr(csm_data(M), csm_indices(M), csm_indptr(M), A, csm_shape(M)[1])
    structured_dot(N, A)  ->  sd_csc(csm_data(N), csm_indices(N), csm_indptr(N), csm_shape(N)[0], A)          [specialize, fast_run]
    """
    return _in_c(x, y, out.dtype)


@register_uncanonicalize
@local_optimizer([Dot])
def local_dot_in_c(node):
    """Compute the dense product of a sparse and a dense operand in C, if it has not become part of a `Usmm`.

    sparse_dot(M, A)  ->  sd_csr(csm_data(M), csm_indices(M), csm_indptr(M), A, csm_shape(M)[1])
    sparse_dot(A, M)  ->  sd_csc(csm_data(sparse_transpose(M)), csm_indices(sparse_transpose(M)), csm_indptr(sparse_transpose(M)), csm_shape(sparse_transpose(M))[0], A.T).T
                                                                                          [uncanonicalize, fast_run]
    """
    x, y = node.inputs
    dtype = node.outputs[0].dtype
    if _is_compressed(x) and not isinstance(y.type, SparseType):
        result = _in_c(x, y, dtype) if y.ndim == 2 else _in_c(x, y.dimshuffle(0, "x"), dtype).dimshuffle(0)
    elif _is_compressed(y) and not isinstance(x.type, SparseType):
        turned = transpose(y)
        result = (
            _in_c(turned, x.T, dtype).T if x.ndim == 2 else _in_c(turned, x.dimshuffle(0, "x"), dtype).dimshuffle(0)
        )
    else:
        return False
    copy_stack_trace(node.outputs[0], result)
    return [result]


def _number_and_dot(term):
    """Return (alpha, x, y) if a term is ``alpha * Dot(x, y)`` with a scalar alpha. Otherwise return None.

    Also return None if the term or the output of `Dot` has more than one client.
    """
    node = term.owner
    if node is None or node.op != T.mul or len(node.inputs) != 2 or len(term.clients) != 1:
        return None
    for alpha, product in (node.inputs, node.inputs[::-1]):
        made = product.owner
        if (
            all(alpha.type.broadcastable)
            and made is not None
            and isinstance(made.op, Dot)
            and len(product.clients) == 1
        ):
            return alpha, *made.inputs
    return None


@register_specialize
@local_optimizer([T.sub, T.add])
def local_usmm(node):
    """Combine the sum or difference of a matrix and a scalar multiple of a sparse product into one `Usmm`.

    A - one * sparse_dot(N, B)  ->  usmm(-one, N, B, A)
    A + one * sparse_dot(N, B)  ->  usmm(one, N, B, A)          [specialize, fast_run]
    """
    if len(node.inputs) != 2:
        return False
    dtype = node.outputs[0].dtype
    places = (1,) if node.op == T.sub else (1, 0)
    for place in places:
        found, z = _number_and_dot(node.inputs[place]), node.inputs[1 - place]
        # Usmm broadcasts neither z nor the product: skip vectors and broadcastable matrices.
        if found is None or any(v.type.ndim != 2 for v in found):
            continue
        if any(z.type.broadcastable) or any(node.inputs[place].type.broadcastable):
            continue
        alpha, x, y = found
        if node.op == T.sub:
            alpha = -in_dtype(alpha, dtype)  # cast first: unsigned numbers wrap around, bools have no negative
        result = usmm(alpha, x, y, z)
        if result.dtype != dtype or result.type != node.outputs[0].type:
            continue
        copy_stack_trace(node.outputs[0], result)
        return [result]
    return False


@register_specialize
@local_optimizer([Usmm])
def local_usmm_csx(node):
    """Compute `Usmm` in C. A csc matrix needs one Op. For a csr matrix, a product with scaled data is added to z.

    usmm(one, N, B, A)  ->  UsmmCscDense(False)(one, csm_data(N), csm_indices(N), csm_indptr(N), csm_shape(N)[0], B, A)
    usmm(one, M, B, A)  ->  A + sd_csr(csm_data(M) * one.dimshuffle(0), csm_indices(M), csm_indptr(M), B, csm_shape(M)[1])
                                                                                          [specialize, fast_run]
    """
    alpha, x, y, z = node.inputs
    if not _is_compressed(x) or isinstance(y.type, SparseType):
        return False
    dtype = node.outputs[0].dtype
    parts, y, z = Parts(x, dtype), in_dtype(y, dtype), in_dtype(z, dtype)
    alpha = in_dtype(alpha, dtype)
    if alpha.ndim != 2:
        alpha = alpha.dimshuffle().dimshuffle("x", "x")
    if x.format == "csc":
        result = usmm_csc_dense(alpha, parts.data, parts.indices, parts.indptr, parts.minor, y, z)
    else:
        result = z + sd_csr(parts.data * alpha.dimshuffle(0), parts.indices, parts.indptr, y, parts.minor)
    if result.type != node.outputs[0].type:
        return False
    copy_stack_trace(node.outputs[0], result)
    return [result]


def _may_overwrite(node):
    return node.inputs[-1].dtype == node.outputs[0].dtype


@register_specialize("inplace")
@rule((usmm_copying(inputs), usmm_inplace(inputs)), provided=_may_overwrite, inplace=True)
def local_usmm_csc_dense_inplace():
    """Compute `UsmmCscDense` in place, in the memory of its last input.

    usmm_csc_dense(one, x, columns, starts, n, B, A)  ->  usmm_csc_dense_inplace(one, x, columns, starts, n, B, A)
                                                                                          [specialize, fast_run, inplace]
    """


@register_specialize
@rule((other_csm_grad(inputs), grad_in_c(inputs)))
def local_csm_grad_c():
    """Replace `CSMGrad`, the gradient of the construction of a sparse matrix, by an Op with C code.

    CSMGrad()(x, columns, starts, extent, y, columns, starts, extent)  ->  csm_grad_c(x, columns, starts, extent, y, columns, starts, extent)
                                                                                          [specialize, fast_run]
    """


@register_specialize
@rule(sampling_dot(x, y, restricted("p", lambda v: v.format == "csr")))
def local_sampling_dot_csr(x, y, p):
    """Compute `SamplingDot` in C if its sparse operand is a csr matrix.

    sampling_dot(A, B, M)  ->  CSR(sampling_dot_csr(A, B, csm_data(M), csm_indices(M), csm_indptr(M), csm_shape(M)[1])[0],
                                   sampling_dot_csr(A, B, csm_data(M), csm_indices(M), csm_indptr(M), csm_shape(M)[1])[1],
                                   sampling_dot_csr(A, B, csm_data(M), csm_indices(M), csm_indptr(M), csm_shape(M)[1])[2],
                                   csm_shape(M))          [specialize, fast_run]
    """
    if not x.dtype == y.dtype == p.dtype:
        return None
    data, indices, indptr, shape = csm_properties(p)
    return CSM("csr")(*sampling_dot_csr(x, y, data, indices, indptr, shape[1]), shape)
