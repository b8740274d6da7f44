"""Products of vectors and matrices on devices, for float16, float32 and float64.

The products are computed as those of the Ops in `gpuarray.blas`. float16 products are summed in float32.
"""

from theano_ng.gof.native import obtain_kernels
from theano_ng.gpuarray.kernels.product import BATCH, DTYPES, product_code
from theano_ng.gpuarray.pygpu import gpuarray
from theano_ng.gpuarray.pygpu.gpuarray import GpuArray
from theano_ng.gpuarray.pygpu.tools import overlaps, per_context

__all__ = ["dot", "gemm", "gemmBatch_3d", "gemv", "ger", "rgemmBatch_3d"]


def _checked(name, wanted, *arrays):
    for a, ndim in zip(arrays, wanted):
        if a is not None and (not isinstance(a, GpuArray) or a.ndim != ndim or a.dtype.name not in DTYPES):
            what = "dtype %s and %d axes" % (a.dtype, a.ndim) if isinstance(a, GpuArray) else type(a).__name__
            raise TypeError("%s: expected an array of floats with %d axes, got %s" % (name, ndim, what))
    if len({a.dtype for a in arrays if a is not None}) > 1:
        raise TypeError(
            "%s: arrays have different dtypes: %s" % (name, ", ".join(str(a.dtype) for a in arrays if a is not None))
        )


@per_context
def _code(context, dtype):
    code = product_code(BATCH, dtype, context, in_place=True)
    return code, obtain_kernels(code.kernels)


def _product(alpha, a, b, beta, c):
    """Compute c = alpha a b + beta c for stacks of matrices. `a` has shape (batch, m, k), and `b` (batch, k, n).

    A factor that overlaps `c` is copied, because the kernel writes to `c` while it still reads the factors. Arrays whose
    elements are not aligned are copied, too.
    """
    if not c.flags.aligned:
        c[...] = _product(alpha, a, b, beta, c.copy())
        return c
    a, b = (factor.copy() if overlaps(factor, c) or not factor.flags.aligned else factor for factor in (a, b))
    code, kernels = _code(c.context, c.dtype.name)
    inputs = [[c], [float(alpha)], [a], [b], [float(beta)]]
    code.bind(kernels, inputs, [[None]], [-1] * 6)()
    return c


def _result(given, overwrite, shape, like, beta):
    """Return the array that receives a result: the given array, a copy of it, or a new array."""
    if given is None:
        if beta != 0:
            raise ValueError(
                "beta is %s, but the array that beta multiplies is missing: pass the array, or beta=0" % beta
            )
        return gpuarray.empty(shape, like.dtype, context=like.context, cls=type(like))
    if given.shape != tuple(shape):
        raise ValueError("the result has shape %s, but the array for it has shape %s" % (tuple(shape), given.shape))
    return given if overwrite else given.copy()


def gemm(alpha, A, B, beta=0.0, C=None, trans_a=False, trans_b=False, overwrite_c=False):
    """Return alpha * A @ B + beta * C.

    Parameters
    ----------
    alpha, beta : float
    A, B : GpuArray
        Matrices of shapes (m, k) and (k, n).
    C : GpuArray, optional
        A matrix of shape (m, n). It is not read if beta is 0.
    trans_a, trans_b : bool
        If True, multiply by the transpose of A or B.
    overwrite_c : bool
        If True, store the result in C.

    Raises
    ------
    TypeError, ValueError
        If the dtypes, ranks or lengths of the arrays do not fit each other.
    """
    _checked("gemm", (2, 2, 2), A, B, C)
    A, B = A.T if trans_a else A, B.T if trans_b else B
    if A.shape[1] != B.shape[0]:
        raise ValueError("gemm: shapes %s and %s do not match" % (A.shape, B.shape))
    out = _result(C, overwrite_c, (A.shape[0], B.shape[1]), A, beta)
    _product(alpha, A[None], B[None], beta, out[None])
    return out


def gemv(alpha, A, X, beta=0.0, Y=None, trans_a=False, overwrite_y=False):
    """Return alpha * A @ X + beta * Y. For parameters and errors, see `gemm`."""
    _checked("gemv", (2, 1, 1), A, X, Y)
    A = A.T if trans_a else A
    if A.shape[1] != X.shape[0]:
        raise ValueError("gemv: shapes %s and %s do not match" % (A.shape, X.shape))
    out = _result(Y, overwrite_y, (A.shape[0],), A, beta)
    _product(alpha, A[None], X[None, :, None], beta, out[None, :, None])
    return out


def ger(alpha, X, Y, A=None, overwrite_a=False):
    """Return A + alpha * outer(X, Y). For parameters and errors, see `gemm`."""
    _checked("ger", (1, 1, 2), X, Y, A)
    beta = 0.0 if A is None else 1.0
    out = _result(A, overwrite_a, (X.shape[0], Y.shape[0]), X, beta)
    _product(alpha, X[None, :, None], Y[None, None, :], beta, out[None])
    return out


def dot(X, Y, Z=None, overwrite_z=False):
    """Return the product of vectors and matrices, as numpy.dot does. If `overwrite_z`, store the product in Z."""
    if X.ndim == 1 and Y.ndim == 1:
        _checked("dot", (1, 1, 0), X, Y, Z)
        if X.shape != Y.shape:
            raise ValueError("dot: shapes %s and %s do not match" % (X.shape, Y.shape))
        out = _result(Z, overwrite_z, (), X, 0.0)
        _product(1.0, X[None, None, :], Y[None, :, None], 0.0, out[None, None, None])
        return out
    if X.ndim == 2 and Y.ndim == 1:
        return gemv(1.0, X, Y, 0.0, Z, overwrite_y=overwrite_z)
    if X.ndim == 1 and Y.ndim == 2:
        return gemv(1.0, Y, X, 0.0, Z, trans_a=True, overwrite_y=overwrite_z)
    if X.ndim == 2 and Y.ndim == 2:
        return gemm(1.0, X, Y, 0.0, Z, overwrite_c=overwrite_z)
    raise TypeError("dot expects vectors and matrices, got arrays with %d and %d axes" % (X.ndim, Y.ndim))


def gemmBatch_3d(alpha, A, B, beta=0.0, C=None, trans_a=False, trans_b=False, overwrite_c=False):
    """Compute `gemm` for stacks of matrices: A has shape (batch, m, k), B (batch, k, n), and C (batch, m, n)."""
    _checked("gemmBatch_3d", (3, 3, 3), A, B, C)
    A, B = A.transpose(0, 2, 1) if trans_a else A, B.transpose(0, 2, 1) if trans_b else B
    if A.shape[0] != B.shape[0] or A.shape[2] != B.shape[1]:
        raise ValueError("gemmBatch_3d: shapes %s and %s do not match" % (A.shape, B.shape))
    out = _result(C, overwrite_c, (A.shape[0], A.shape[1], B.shape[2]), A, beta)
    return _product(alpha, A, B, beta, out)


rgemmBatch_3d = gemmBatch_3d
