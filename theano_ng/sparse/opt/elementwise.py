"""Rules that replace elementwise Ops on sparse matrices by Ops with C code, or by in-place Ops."""

from theano_ng.compile.mode import optdb
from theano_ng.gof.rewriting import TopoOptimizer, copy_stack_trace, local_optimizer
from theano_ng.sparse.arithmetic import AddSD, MulSD, MulSV, StructuredAddSV
from theano_ng.sparse.fields import AddSD_ccode, mul_s_d_csc, mul_s_d_csr, mul_s_v_csr, structured_add_s_v_csr
from theano_ng.sparse.opt.common import Parts, in_dtype
from theano_ng.sparse.shaping import Remove0
from theano_ng.tensor.opt.patterns import copying, names, restricted, rule, terms, typed
from theano_ng.tensor.opt.registration import register_specialize

__all__ = [
    "local_addsd_ccode",
    "local_inplace_addsd_ccode",
    "local_inplace_remove0",
    "local_mul_s_d",
    "local_mul_s_v",
    "local_structured_add_s_v",
]


x, y = names("x", "y")
csr_x = restricted(x, lambda v: v.format == "csr")
mul_s_d, mul_s_v, structured_add_s_v, remove0_inplace = terms(MulSD, MulSV, StructuredAddSV, Remove0(inplace=True))


@register_specialize
@rule(mul_s_d(x, typed(y, ndim=2)))
def local_mul_s_d(x, y, out):
    """Compute the elementwise product of a sparse and a dense matrix in C, from the data of the sparse matrix.

    mul_s_d(M, A)  ->  CSR(mul_s_d_csr(csm_data(M), csm_indices(M), csm_indptr(M), A, csm_shape(M)[1]), csm_indices(M), csm_indptr(M),
                           csm_shape(M))          [specialize, fast_run]
    """
    parts = Parts(x, out.dtype)
    op = mul_s_d_csr if x.format == "csr" else mul_s_d_csc
    return parts.with_data(op(parts.data, parts.indices, parts.indptr, in_dtype(y, out.dtype), parts.minor))


def _with_vector(op, x, y):
    """Apply an Op to the parts of a csr matrix and to a vector. The vector has one element for each column."""
    parts = Parts(x, x.dtype)
    return parts.with_data(op(parts.data, parts.indices, parts.indptr, y, parts.minor))


@register_specialize
@rule(mul_s_v(csr_x, y))
def local_mul_s_v(x, y):
    """Multiply the rows of a csr matrix by a vector in C.

    mul_s_v(M, x)  ->  CSR(mul_s_v_csr(csm_data(M), csm_indices(M), csm_indptr(M), x, csm_shape(M)[1]), csm_indices(M), csm_indptr(M),
                           csm_shape(M))          [specialize, fast_run]
    """
    return _with_vector(mul_s_v_csr, x, y)


@register_specialize
@rule(structured_add_s_v(csr_x, y))
def local_structured_add_s_v(x, y):
    """Add a vector to the entries of a csr matrix in C.

    structured_add_s_v(M, x)  ->  CSR(structured_add_s_v_csr(csm_data(M), csm_indices(M), csm_indptr(M), x, csm_shape(M)[1]),
                                      csm_indices(M), csm_indptr(M), csm_shape(M))          [specialize, fast_run]
    """
    return _with_vector(structured_add_s_v_csr, x, y)


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
    """Add a sparse and a dense matrix in C, if the sum could not be computed in place.

    add_s_d(M, A)  ->  AddSD_ccode('csr')(csm_data(M), csm_indices(M), csm_indptr(M), A, csm_shape(M)[1])          [fast_run]
    """
    return _add_s_d(node, False)


optdb.register("local_addsd_ccode", TopoOptimizer(local_addsd_ccode), 61, "fast_run")


@rule((copying(Remove0)(x), remove0_inplace(x)), inplace=True)
def local_inplace_remove0():
    """Remove zeros from a matrix in place, if the graph permits overwriting the matrix.

    remove0(M)  ->  Remove0(inplace=True)(M)          [fast_run, inplace]
    """


optdb.register(
    "local_inplace_remove0",
    TopoOptimizer(local_inplace_remove0, failure_callback=TopoOptimizer.warn_inplace),
    60,
    "fast_run",
    "inplace",
)
