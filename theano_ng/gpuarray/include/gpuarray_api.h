/* The header for the C code of GPU Ops: the Python objects of contexts and arrays, and functions that create them.
 *
 * Call import_pygpu__gpuarray() first; it returns 0, or -1 with an exception set. */
#ifndef GPUARRAY_API_H
#define GPUARRAY_API_H

#include <Python.h>

#include "gpuarray/array.h"
#include "gpuarray/buffer.h"
#include "gpuarray/error.h"
#include "gpuarray/kernel.h"
#include "gpuarray/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct _PyGpuContextObject {
    PyObject_HEAD gpucontext *ctx;
} PyGpuContextObject;

typedef struct _PyGpuArrayObject {
    PyObject_HEAD GpuArray ga;
    PyGpuContextObject *context;
    PyObject *base;
} PyGpuArrayObject;

#define PyGpuArray_NDIM(o) ((o)->ga.nd)
#define PyGpuArray_DIMS(o) ((o)->ga.dimensions)
#define PyGpuArray_DIM(o, i) ((o)->ga.dimensions[i])
#define PyGpuArray_STRIDES(o) ((o)->ga.strides)
#define PyGpuArray_STRIDE(o, i) ((o)->ga.strides[i])
#define PyGpuArray_TYPE(o) ((o)->ga.typecode)

/* The Python types of arrays and contexts, set when Python imports the module that import_pygpu__gpuarray() imports. */
extern PyTypeObject *pygpu_array_type, *pygpu_context_type;
#define PyGpuArrayType (*pygpu_array_type)
#define PyGpuContextType (*pygpu_context_type)
#define PyGpuArray_Check(o) PyObject_TypeCheck((PyObject *)(o), pygpu_array_type)
#define PyGpuArray_CheckExact(o) (Py_TYPE(o) == pygpu_array_type)
#define PyGpuContext_Check(o) PyObject_TypeCheck((PyObject *)(o), pygpu_context_type)

/* The functions up to pygpu_as_ndarray return a new reference, or NULL with an exception set. cls: a subclass of
 * GpuArray, or Py_None. */
PyGpuArrayObject *pygpu_empty(unsigned int nd, const size_t *dims, int typecode, ga_order, PyGpuContextObject *,
                              PyObject *cls);
PyGpuArrayObject *pygpu_zeros(unsigned int nd, const size_t *dims, int typecode, ga_order, PyGpuContextObject *,
                              PyObject *cls);
PyGpuArrayObject *pygpu_fromgpudata(gpudata *, size_t offset, int typecode, unsigned int nd, const size_t *dims,
                                    const ssize_t *strides, PyGpuContextObject *, int writable, PyObject *base,
                                    PyObject *cls);
PyGpuArrayObject *pygpu_fromhostdata(void *data, int typecode, unsigned int nd, const size_t *dims,
                                     const ssize_t *strides, PyGpuContextObject *, PyObject *cls);
PyGpuArrayObject *pygpu_empty_like(PyGpuArrayObject *, ga_order, int typecode); /* typecode -1: the array's type */
PyGpuArrayObject *pygpu_copy(PyGpuArrayObject *, ga_order);
PyGpuArrayObject *pygpu_view(PyGpuArrayObject *, PyObject *cls);
PyGpuArrayObject *pygpu_index(PyGpuArrayObject *, const ssize_t *starts, const ssize_t *stops, const ssize_t *steps);
PyGpuArrayObject *pygpu_transpose(PyGpuArrayObject *, const unsigned int *axes);
/* compute_axis is the axis whose length is computed from the other lengths, or -1. */
PyGpuArrayObject *pygpu_reshape(PyGpuArrayObject *, unsigned int nd, const size_t *dims, ga_order, int nocopy,
                                int compute_axis);
PyObject *pygpu_as_ndarray(PyGpuArrayObject *);
/* The next three functions return 0, or -1 with an exception set. */
int pygpu_move(PyGpuArrayObject *to, PyGpuArrayObject *from);
int pygpu_transfer(PyGpuArrayObject *to, PyGpuArrayObject *from);
int pygpu_sync(PyGpuArrayObject *);
/* Raise the exception for an error code of a context. Return -1, or 0 for GA_NO_ERROR. */
int pygpu_raise(gpucontext *, int code);

static inline int import_pygpu__gpuarray(void)
{
    PyObject *module = PyImport_ImportModule("theano_ng.gpuarray.pygpu.gpuarray");
    Py_XDECREF(module);
    return module == NULL ? -1 : 0;
}

#ifdef __cplusplus
}
#endif

#endif
