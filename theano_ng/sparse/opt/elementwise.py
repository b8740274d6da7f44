"""Rules that replace elementwise Ops on sparse matrices by Ops with C code, or by in-place Ops."""

from theano_ng.compile.mode import optdb
from theano_ng.gof.rewriting import TopoOptimizer, copy_stack_trace, local_optimizer
from theano_ng.sparse.arithmetic import AddSD, MulSD, MulSV, StructuredAddSV
from theano_ng.sparse.fields import AddSD_ccode, mul_s_d_csc, mul_s_d_csr, mul_s_v_csr, structured_add_s_v_csr
from theano_ng.sparse.opt.common import Parts, in_dtype
from theano_ng.sparse.shaping import Remove0
from theano_ng.tensor.opt.registration import register_specialize

__all__ = [
    "local_addsd_ccode",
    "local_inplace_addsd_ccode",
    "local_inplace_remove0",
    "local_mul_s_d",
    "local_mul_s_v",
    "local_structured_add_s_v",
]


@register_specialize
@local_optimizer([MulSD])
def local_mul_s_d(node):
    """Compute the elementwise product of a sparse and a dense matrix in C: only the data change.

    mul_s_d(M, A)  ->  CSR(mul_s_d_csr(csm_data(M), csm_indices(M), csm_indptr(M), A, csm_shape(M)[1]), csm_indices(M), csm_indptr(M),
                           csm_shape(M))          [specialize, fast_run]
    """
    x, y = node.inputs
    if y.ndim != 2:
        return False
    dtype = node.outputs[0].dtype
    parts = Parts(x, dtype)
    op = mul_s_d_csr if x.format == "csr" else mul_s_d_csc
    result = parts.with_data(op(parts.data, parts.indices, parts.indptr, in_dtype(y, dtype), parts.minor))
    copy_stack_trace(node.outputs[0], result)
    return [result]


def _with_vector(op, node):
    """Replace an Op on a csr matrix and a vector, which has an element for each column, by an Op on parts."""
    x, y = node.inputs
    if x.format != "csr":
        return False
    parts = Parts(x, x.dtype)
    result = parts.with_data(op(parts.data, parts.indices, parts.indptr, y, parts.minor))
    copy_stack_trace(node.outputs[0], result)
    return [result]


@register_specialize
@local_optimizer([MulSV])
def local_mul_s_v(node):
    """Multiply the rows of a csr matrix by a vector in C.

    mul_s_v(M, x)  ->  CSR(mul_s_v_csr(csm_data(M), csm_indices(M), csm_indptr(M), x, csm_shape(M)[1]), csm_indices(M), csm_indptr(M),
                           csm_shape(M))          [specialize, fast_run]
    """
    return _with_vector(mul_s_v_csr, node)


@register_specialize
@local_optimizer([StructuredAddSV])
def local_structured_add_s_v(node):
    """Add a vector to the entries of a csr matrix in C.

    structured_add_s_v(M, x)  ->  CSR(structured_add_s_v_csr(csm_data(M), csm_indices(M), csm_indptr(M), x, csm_shape(M)[1]),
                                      csm_indices(M), csm_indptr(M), csm_shape(M))          [specialize, fast_run]
    """
    return _with_vector(structured_add_s_v_csr, node)


def _add_s_d(node, inplace):
    x, y = node.inputs
    dtype = node.outputs[0].dtype
    if inplace and y.dtype != dtype:
        return False
    parts = Parts(x, dtype)
    result = AddSD_ccode(x.format, inplace=inplace)(
        parts.data, parts.indices, parts.indptr, in_dtype(y, dtype), parts.minor
    )
    copy_stack_trace(node.outputs[0], result)
    return [result]


@local_optimizer([AddSD], inplace=True)
def local_inplace_addsd_ccode(node):
    """Add a sparse matrix to a dense matrix in C, in the memory of the dense matrix.

    add_s_d(M, exp(A))  ->  AddSD_ccode('csr', inplace=True)(csm_data(M), csm_indices(M), csm_indptr(M), exp(A), csm_shape(M)[1])
                                                                  [fast_run, inplace]
    """
    return _add_s_d(node, True)


optdb.register(
    "local_inplace_addsd_ccode",
    TopoOptimizer(local_inplace_addsd_ccode, failure_callback=TopoOptimizer.warn_inplace),
    60,
    "fast_run",
    "inplace",
)


@local_optimizer([AddSD])
def local_addsd_ccode(node):
    """Add a sparse and a dense matrix in C, if that is not possible in place.

    add_s_d(M, A)  ->  AddSD_ccode('csr')(csm_data(M), csm_indices(M), csm_indptr(M), A, csm_shape(M)[1])          [fast_run]
    """
    return _add_s_d(node, False)


optdb.register("local_addsd_ccode", TopoOptimizer(local_addsd_ccode), 61, "fast_run")


@local_optimizer([Remove0], inplace=True)
def local_inplace_remove0(node):
    """Remove zeros from a matrix in place, if the matrix has no other client.

    remove0(M)  ->  Remove0(inplace=True)(M)          [fast_run, inplace]
    """
    if node.op.inplace:
        return False
    result = Remove0(inplace=True)(*node.inputs)
    copy_stack_trace(node.outputs[0], result)
    return [result]


optdb.register(
    "local_inplace_remove0",
    TopoOptimizer(local_inplace_remove0, failure_callback=TopoOptimizer.warn_inplace),
    60,
    "fast_run",
    "inplace",
)
