/* Helpers that the native code of GPU Ops shares: array checks, outputs, launches, errors. native.h explains how
 * native code is called. */
#ifndef TNG_GPU_H
#define TNG_GPU_H

#include "native.h"
#include "gpuarray_api.h"

/* Raise the exception for an error code; the message begins with `what`. Return -1. */
static inline int gpu_failed(gpucontext *ctx, int code, const char *what)
{
    if (code == GA_INDEX_ERROR)
        return pygpu_raise(ctx, code);
    if (code == GA_MEMORY_ERROR)
        PyErr_Format(PyExc_MemoryError, "%s: %s", what, gpucontext_error(ctx, code));
    else
        PyErr_Format(PyExc_RuntimeError, "gpuarray error: %s: %s", what, gpucontext_error(ctx, code));
    return -1;
}

/* Return the input if it is a device array with this type and rank (-1: any), else NULL with TypeError set. */
static inline PyGpuArrayObject *gpu_input(PyObject *value, int typecode, int nd)
{
    PyGpuArrayObject *a = (PyGpuArrayObject *)value;
    if (__builtin_expect(PyGpuArray_Check(value) && (typecode < 0 || a->ga.typecode == typecode)
                             && (nd < 0 || (int)a->ga.nd == nd),
                         1))
        return a;
    PyErr_Format(PyExc_TypeError, "expected an array on a device, of type number %d with %d dimensions, got %.200s",
                 typecode, nd, Py_TYPE(value)->tp_name);
    return NULL;
}

/* Return 1 if two arrays have the same context, else 0 with ValueError set. */
static inline int gpu_same_context(PyGpuArrayObject *a, PyGpuArrayObject *b)
{
    if (__builtin_expect(a->context == b->context, 1))
        return 1;
    PyErr_SetString(PyExc_ValueError, "the arrays are in different contexts: transfer() one of them first");
    return 0;
}

/* Return an output array. The previous array in *out is reused if it has this context, type and shape, and is
 * C-contiguous, aligned and writable. Otherwise a new array with undefined elements is allocated. The result is
 * borrowed from *out. On failure, return NULL with an exception set; then *out is NULL. */
static inline PyGpuArrayObject *gpu_alloc(PyObject **out, PyGpuContextObject *ctx, unsigned nd, const size_t *dims,
                                          int typecode)
{
    PyGpuArrayObject *old = (PyGpuArrayObject *)*out;
    if (old != NULL && PyGpuArray_CheckExact(old) && old->context == ctx && old->ga.typecode == typecode
        && old->ga.nd == nd && GpuArray_IS_C_CONTIGUOUS(&old->ga) && GpuArray_ISBEHAVED(&old->ga)
        && (nd == 0 || memcmp(old->ga.dimensions, dims, nd * sizeof *dims) == 0))
        return old;
    Py_CLEAR(*out);
    *out = (PyObject *)pygpu_empty(nd, dims, typecode, GA_C_ORDER, ctx, Py_None);
    return (PyGpuArrayObject *)*out;
}

/* Launch a kernel for n elements in total. args: as for gpukernel_call. */
static inline int gpu_run(gpukernel *kernel, size_t n, void *const *args, const char *what)
{
    size_t groups = 0, group = 0;
    if (n == 0)
        return 0;
    gpukernel_sched(kernel, n, &groups, &group);
    int code = gpukernel_call(kernel, 1, &groups, &group, 0, args);
    return code == GA_NO_ERROR ? 0 : gpu_failed(gpukernel_context(kernel), code, what);
}

static inline size_t gpu_size(const GpuArray *a)
{
    size_t n = 1;
    for (unsigned i = 0; i < a->nd; ++i)
        n *= a->dimensions[i];
    return n;
}

#endif
