/* Helpers of the native code that uses cuDNN (device/cudnn.h). */
#ifndef TNG_GPU_DNN_H
#define TNG_GPU_DNN_H

#include "context.h"
#include "cudnn.h"
#include "gpu_axes.h"

/* Return an owned reference to the array if cuDNN can read it, else to a copy in C order. cuDNN reads aligned arrays
 * whose strides are positive multiples of the element size. */
static inline PyGpuArrayObject *dnn_readable(PyGpuArrayObject *a)
{
    ssize_t size = (ssize_t)gpuarray_get_elsize(a->ga.typecode);
    int readable = GpuArray_ISALIGNED(&a->ga) != 0;
    for (unsigned i = 0; i < a->ga.nd; ++i)
        readable &= a->ga.dimensions[i] <= 1 || (a->ga.strides[i] > 0 && a->ga.strides[i] % size == 0);
    if (!readable)
        return pygpu_copy(a, GA_C_ORDER);
    Py_INCREF(a);
    return a;
}

/* Return an owned reference to the array if it is aligned and in C order, else to a copy in C order. */
static inline PyGpuArrayObject *dnn_packed(PyGpuArrayObject *a)
{
    if (!GpuArray_ISALIGNED(&a->ga) || !GpuArray_IS_C_CONTIGUOUS(&a->ga))
        return pygpu_copy(a, GA_C_ORDER);
    Py_INCREF(a);
    return a;
}

/* Describe an array that `dnn_readable` or `dnn_packed` returned, or a new array. */
static inline dnn_tensor dnn_tensor_of(const PyGpuArrayObject *a)
{
    dnn_tensor t = {.data = a->ga.data, .offset = a->ga.offset, .typecode = a->ga.typecode, .nd = a->ga.nd};
    ssize_t size = (ssize_t)gpuarray_get_elsize(a->ga.typecode);
    for (unsigned i = 0; i < a->ga.nd && i < DNN_MOST_AXES; ++i) {
        t.dims[i] = a->ga.dimensions[i];
        t.strides[i] = a->ga.strides[i] / size;
    }
    return t;
}

/* Raise the exception for a code of cuDNN. Return 0 for GA_NO_ERROR, else -1. */
static inline int dnn_result(const PyGpuArrayObject *a, int code)
{
    return code == GA_NO_ERROR ? 0 : gpu_failed(a->context->ctx, code, "cuDNN");
}

/* Fill an array in C order with 0, 1 or NaN. The array may be a part of a larger block. */
static inline int dnn_fill(PyGpuArrayObject *y, double number)
{
    size_t n = gpu_size(&y->ga), size = gpuarray_get_elsize(y->ga.typecode);
    float single = (float)number;
    uint16_t half = number == 0 ? 0 : number == 1 ? 0x3c00 : 0x7e00; /* 0, 1 or NaN */
    const void *bytes = y->ga.typecode == GA_DOUBLE  ? (const void *)&number
                        : y->ga.typecode == GA_FLOAT ? (const void *)&single
                                                     : (const void *)&half;
    char *content = PyMem_Calloc(n, size);
    if (content == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (number != 0)
        for (size_t i = 0; i < n; ++i)
            memcpy(content + i * size, bytes, size);
    int code = gpudata_write(y->ga.data, y->ga.offset, content, n * size);
    PyMem_Free(content);
    return dnn_result(y, code);
}

#endif
