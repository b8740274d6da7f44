"""Functions of NumPy for device arrays: triangles of matrices, and selected rows."""

import numpy as np

from theano_ng.gpuarray.kernels.samples import KernelSample
from theano_ng.gpuarray.pygpu import gpuarray
from theano_ng.gpuarray.pygpu._elemwise import flags_of
from theano_ng.gpuarray.pygpu.dtypes import dtype_to_ctype
from theano_ng.gpuarray.pygpu.gpuarray import SIZE, SSIZE, GpuArray
from theano_ng.gpuarray.pygpu.tools import per_context

__all__ = ["tril", "triu"]


def tril(A, inplace=False):
    """Return the lower triangle of a matrix. Elements above the diagonal are 0.

    Parameters
    ----------
    A : GpuArray
        A matrix.
    inplace : bool
        If True, the elements of `A` are set to 0, and the result is `A`.

    Returns
    -------
    GpuArray

    Raises
    ------
    ValueError
        If `A` is not a matrix, or if it is read-only and `inplace` is True.
    """
    return _triangle(A, inplace, ">")


def triu(A, inplace=False):
    """Return the upper triangle of a matrix. Elements below the diagonal are 0. See `tril`."""
    return _triangle(A, inplace, "<")


def _triangle(a, inplace, removed):
    """Set the elements to 0 whose column and row have the relation `removed`, ">" or "<"."""
    if a.ndim != 2:
        raise ValueError("expected a matrix, got an array with %d axes" % a.ndim)
    if inplace and not a.flags.writeable:
        raise ValueError("the array is read-only")
    result = a if inplace else a.copy("A")
    if result.size:
        kernel = _triangle_kernel(result.context, result.dtype, removed)
        kernel(result.size, result.shape[1], result, result.offset, *result.strides, n=result.size)
    return result


@per_context
def _triangle_kernel(context, dtype, removed):
    types = [SIZE, SIZE, GpuArray, SIZE, SSIZE, SSIZE]
    return gpuarray.GpuKernel(_triangle_text(dtype, removed), "triangle", types, context, **flags_of([dtype]))


def _triangle_text(dtype, removed):
    zero = "store_half(p, 0)" if dtype == np.float16 else "*p = 0"
    return """#include "cluda.h"
KERNEL void triangle(ga_size n, ga_size columns, GLOBAL_MEM char *data, ga_size offset, ga_ssize row_step,
                     ga_ssize column_step)
{
    for (ga_size i = GID_0 * LDIM_0 + LID_0; i < n; i += LDIM_0 * GDIM_0) {
        ga_size row = i / columns, column = i %% columns;
        if (column %s row) {
            GLOBAL_MEM %s *p =
                (GLOBAL_MEM %s *)(data + offset + (ga_ssize)row * row_step + (ga_ssize)column * column_step);
            %s;
        }
    }
}
""" % (removed, dtype_to_ctype(dtype), dtype_to_ctype(dtype), zero)


def take1(a, idx):
    """Return the rows ``a[idx[0]], a[idx[1]], ...``. `GpuArray.take1` is this function.

    Parameters
    ----------
    a : GpuArray
        At least one axis.
    idx : GpuArray
        Integers, one axis. Negative numbers count from the end.

    Returns
    -------
    GpuArray
        Shape ``(len(idx), *a.shape[1:])``, in C order.

    Raises
    ------
    TypeError
        If `idx` is not a device array of integers.
    ValueError
        If `a` has no axis, `idx` does not have one axis, or the arrays are in different contexts.
    IndexError
        If an index is out of bounds.
    """
    if not isinstance(idx, GpuArray) or idx.dtype.kind not in "iu":
        raise TypeError("expected a device array of integers, got %s" % getattr(idx, "dtype", type(idx).__name__))
    if a.ndim == 0 or idx.ndim != 1:
        raise ValueError(
            "expected an array with axes and indices with one axis, got %d and %d axes" % (a.ndim, idx.ndim)
        )
    if idx.context is not a.context:
        raise ValueError("the arrays are in different contexts: transfer() one of them first")
    result = gpuarray.empty((idx.shape[0], *a.shape[1:]), a.dtype, context=a.context, cls=type(a))
    if idx.size == 0:
        return result
    source = gpuarray.ascontiguousarray(a)
    wrong = gpuarray.zeros((1,), "int32", context=a.context)
    row = result.size // idx.size
    kernel = _take_kernel(a.context, a.itemsize, idx.dtype)
    # One thread for each element, and one for each index even if the rows are empty: the index is checked.
    n = max(row, 1) * idx.size
    given = [n, row, a.shape[0], result, result.offset, source, source.offset, idx, idx.offset, idx.strides[0]]
    kernel(*given, wrong, wrong.offset, n=n)
    if np.asarray(wrong)[0]:
        raise IndexError("an index is out of bounds for axis 0 with size %d" % a.shape[0])
    return result


@per_context
def _take_kernel(context, itemsize, index_dtype):
    types = [SIZE, SIZE, SIZE, GpuArray, SIZE, GpuArray, SIZE, GpuArray, SIZE, SSIZE, GpuArray, SIZE]
    return gpuarray.GpuKernel(_take_text(itemsize, index_dtype), "take", types, context, **flags_of([index_dtype]))


def _take_text(itemsize, index_dtype):
    element = {1: "ga_byte", 2: "ga_short", 4: "ga_int", 8: "ga_long"}.get(itemsize, "ga_long")
    parts = max(itemsize // 8, 1)
    return """#include "cluda.h"
KERNEL void take(ga_size n, ga_size row, ga_size length, GLOBAL_MEM char *out, ga_size out_offset,
                 GLOBAL_MEM char *in, ga_size in_offset, GLOBAL_MEM char *index, ga_size index_offset,
                 ga_ssize index_step, GLOBAL_MEM char *wrong, ga_size wrong_offset)
{
    ga_size width = row ? row : 1;
    for (ga_size i = GID_0 * LDIM_0 + LID_0; i < n; i += LDIM_0 * GDIM_0) {
        ga_size k = i / width, rest = i %% width;
        %(index)s at = *(GLOBAL_MEM %(index)s *)(index + index_offset + (ga_ssize)k * index_step);
        ga_ssize place = (ga_ssize)at;
        if (at < 0)
            place += (ga_ssize)length;
        if (place < 0 || (ga_size)place >= length)
            *(GLOBAL_MEM ga_int *)(wrong + wrong_offset) = 1;
        else if (row)
            for (int part = 0; part < %(parts)d; ++part)
                ((GLOBAL_MEM %(element)s *)(out + out_offset))[i * %(parts)d + part] =
                    ((GLOBAL_MEM %(element)s *)(in + in_offset))[((ga_size)place * row + rest) * %(parts)d + part];
    }
}
""" % dict(index=dtype_to_ctype(index_dtype), element=element, parts=parts)


gpuarray.set_take(take1)


def kernel_samples():
    """Return samples of the source code of kernels for the tests that compile them; see `kernels.samples`."""
    dtypes = [np.dtype(name) for name in ("float16", "float32", "float64", "int8")]
    return [
        *[KernelSample("tril, %s" % dtype, _triangle_text(dtype, ">")) for dtype in dtypes],
        *[KernelSample("take1, %d bytes" % size, _take_text(size, np.dtype("int32"))) for size in (1, 2, 4, 8, 16)],
    ]
