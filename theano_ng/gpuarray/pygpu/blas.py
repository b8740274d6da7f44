"""Products of vectors and matrices on devices, for float16, float32 and float64.

The same kernels are used on every device. float16 products are summed in float32.
"""

import numpy as np

from theano_ng.gpuarray.kernels.samples import KernelSample
from theano_ng.gpuarray.pygpu import gpuarray
from theano_ng.gpuarray.pygpu._elemwise import flags_of
from theano_ng.gpuarray.pygpu.dtypes import dtype_to_ctype
from theano_ng.gpuarray.pygpu.gpuarray import SIZE, SSIZE, GpuArray
from theano_ng.gpuarray.pygpu.tools import overlaps, per_context

__all__ = ["dot", "gemm", "gemmBatch_3d", "gemv", "ger", "rgemmBatch_3d"]

_FLOATS = ("float16", "float32", "float64")


def _checked(name, wanted, *arrays):
    for a, ndim in zip(arrays, wanted):
        if a is not None and (not isinstance(a, GpuArray) or a.ndim != ndim or a.dtype.name not in _FLOATS):
            what = "dtype %s and %d axes" % (a.dtype, a.ndim) if isinstance(a, GpuArray) else type(a).__name__
            raise TypeError("%s: expected an array of floats with %d axes, got %s" % (name, ndim, what))
    if len({a.dtype for a in arrays if a is not None}) > 1:
        raise TypeError(
            "%s: arrays have different dtypes: %s" % (name, ", ".join(str(a.dtype) for a in arrays if a is not None))
        )


@per_context
def _gemm_kernel(context, dtype):
    number = np.dtype("float32") if dtype == np.float16 else dtype
    types = [SIZE] * 4 + [number] * 2 + [GpuArray, SIZE, SSIZE, SSIZE, SSIZE] * 3
    return gpuarray.GpuKernel(_gemm_text(dtype), "gemm", types, context, **flags_of([dtype]))


def _gemm_text(dtype):
    work = "float" if dtype == np.float16 else dtype_to_ctype(dtype)
    store = dtype_to_ctype(dtype)
    load = "load_half((GLOBAL_MEM %s *)(%%s))" if dtype == np.float16 else "(*(GLOBAL_MEM %s *)(%%s))"
    load %= store
    keep = "store_half((GLOBAL_MEM %s *)c, r_);" if dtype == np.float16 else "*(GLOBAL_MEM %s *)c = r_;"
    return """#include "cluda.h"
KERNEL void gemm(ga_size batch, ga_size m, ga_size n, ga_size k, %(work)s alpha, %(work)s beta,
    GLOBAL_MEM char *a, ga_size a_offset, ga_ssize ab, ga_ssize am, ga_ssize ak,
    GLOBAL_MEM char *b, ga_size b_offset, ga_ssize bb, ga_ssize bk, ga_ssize bn,
    GLOBAL_MEM char *c_data, ga_size c_offset, ga_ssize cb, ga_ssize cm, ga_ssize cn)
{
    for (ga_size i = GID_0 * LDIM_0 + LID_0; i < batch * m * n; i += LDIM_0 * GDIM_0) {
        ga_size column = i %% n, row = i / n %% m, which = i / n / m;
        GLOBAL_MEM char *x = a + a_offset + (ga_ssize)which * ab + (ga_ssize)row * am;
        GLOBAL_MEM char *y = b + b_offset + (ga_ssize)which * bb + (ga_ssize)column * bn;
        GLOBAL_MEM char *c = c_data + c_offset + (ga_ssize)which * cb + (ga_ssize)row * cm + (ga_ssize)column * cn;
        %(work)s s_ = 0, r_;
        for (ga_size j = 0; j < k; ++j, x += ak, y += bk)
            s_ += %(x)s * %(y)s;
        r_ = alpha * s_;
        if (beta != 0)
            r_ += beta * %(c)s;
        %(keep)s
    }
}
""" % dict(work=work, x=load % "x", y=load % "y", c=load % "c", keep=keep % store)


def _product(alpha, a, b, beta, c):
    """Compute c = alpha a b + beta c for stacks of matrices. `a` has shape (batch, m, k), and `b` (batch, k, n).

    A factor that overlaps `c` is copied, because the kernel writes to `c` while it still reads the factors.
    """
    batch, m, k = a.shape
    n = b.shape[2]
    if batch * m * n == 0:
        return c
    a, b = (factor.copy() if overlaps(factor, c) else factor for factor in (a, b))
    kernel = _gemm_kernel(c.context, c.dtype)
    given = [batch, m, n, k, alpha, beta]
    for x in (a, b, c):
        given += [x, x.offset, *x.strides]
    kernel(*given, n=batch * m * n)
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


def kernel_samples():
    """Return samples of the source code of kernels for the tests that compile them; see `kernels.samples`."""
    return [KernelSample("gemm, %s" % dtype, _gemm_text(np.dtype(dtype))) for dtype in _FLOATS]
