/* Transfers of arrays from the host to a device, back, and between devices; contiguous copies. */
#include "gpu.h"

/* Input: a device array. Output: its copy on the host. */
static int tng_host_from_gpu(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    (void)nin, (void)nout, (void)params;
    PyGpuArrayObject *a = gpu_input(in[0], -1, -1), *whole = a;
    if (a == NULL)
        return -1;
    npy_intp dims[GA_MAX_DIMS];
    for (unsigned i = 0; i < a->ga.nd; ++i)
        dims[i] = (npy_intp)a->ga.dimensions[i];
    int number = a->ga.typecode == GA_LONG ? NPY_INT64 : a->ga.typecode == GA_ULONG ? NPY_UINT64 : a->ga.typecode;
    PyArrayObject *host = native_alloc(out, (int)a->ga.nd, dims, number);
    if (host == NULL)
        return -1;
    if (!GpuArray_IS_C_CONTIGUOUS(&a->ga) && (whole = pygpu_copy(a, GA_C_ORDER)) == NULL)
        return -1;
    int code;
    size_t size = (size_t)PyArray_NBYTES(host);
    void *data = PyArray_DATA(host);
    Py_BEGIN_ALLOW_THREADS code = GpuArray_read(data, size, &whole->ga);
    Py_END_ALLOW_THREADS int status = code == GA_NO_ERROR ? 0 : gpu_failed(a->context->ctx, code, "HostFromGpu");
    if (whole != a)
        Py_DECREF(whole);
    return status;
}

/* Input: a host array. Output: its copy on the device. `context`: the address of a PyGpuContextObject. */
NATIVE_FUNCTION(gpu_from_host, context, typecode)
static int tng_gpu_from_host(int nin, int nout, PyObject **in, PyObject **out,
                             const struct gpu_from_host_params *params)
{
    (void)nin, (void)nout;
    PyArrayObject *host = (PyArrayObject *)PyArray_FROM_OF(in[0], NPY_ARRAY_CARRAY_RO | NPY_ARRAY_NOTSWAPPED);
    if (host == NULL)
        return -1;
    size_t dims[GA_MAX_DIMS];
    for (int i = 0; i < PyArray_NDIM(host); ++i)
        dims[i] = (size_t)PyArray_DIM(host, i);
    PyGpuContextObject *ctx = (PyGpuContextObject *)(intptr_t)params->context;
    PyGpuArrayObject *made = gpu_alloc(out, ctx, (unsigned)PyArray_NDIM(host), dims, (int)params->typecode);
    int code = GA_NO_ERROR;
    if (made != NULL) {
        size_t size = (size_t)PyArray_NBYTES(host);
        void *data = PyArray_DATA(host);
        Py_BEGIN_ALLOW_THREADS code = GpuArray_write(&made->ga, data, size);
        Py_END_ALLOW_THREADS
    }
    Py_DECREF(host);
    if (made == NULL)
        return -1;
    return code == GA_NO_ERROR ? 0 : gpu_failed(ctx->ctx, code, "GpuFromHost");
}

NATIVE_FUNCTION(gpu_to_gpu, context)
static int tng_gpu_to_gpu(int nin, int nout, PyObject **in, PyObject **out, const struct gpu_to_gpu_params *params)
{
    (void)nin, (void)nout;
    PyGpuContextObject *ctx = (PyGpuContextObject *)(intptr_t)params->context;
    PyGpuArrayObject *a = gpu_input(in[0], -1, -1), *whole = a;
    if (a == NULL)
        return -1;
    PyGpuArrayObject *made = gpu_alloc(out, ctx, a->ga.nd, a->ga.dimensions, a->ga.typecode);
    if (made == NULL || (!GpuArray_IS_C_CONTIGUOUS(&a->ga) && (whole = pygpu_copy(a, GA_C_ORDER)) == NULL))
        return -1;
    int status = pygpu_transfer(made, whole);
    if (whole != a)
        Py_DECREF(whole);
    return status;
}

/* Return the array itself if it is in C order and aligned, else an aligned copy in C order. */
static int tng_contiguous(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    (void)nin, (void)nout, (void)params;
    PyGpuArrayObject *a = gpu_input(in[0], -1, -1);
    if (a == NULL)
        return -1;
    if (GpuArray_IS_C_CONTIGUOUS(&a->ga) && GpuArray_ISALIGNED(&a->ga)) {
        native_set(out, Py_NewRef(in[0]));
        return 0;
    }
    Py_CLEAR(*out); /* do not reuse the previous output: it may be the input of the previous call */
    PyGpuArrayObject *made = gpu_alloc(out, a->context, a->ga.nd, a->ga.dimensions, a->ga.typecode);
    return made == NULL ? -1 : pygpu_move(made, a);
}

static const NativeEntry entries[] = {
    {"host_from_gpu", tng_host_from_gpu, NULL, NULL},
    NATIVE_ENTRY(gpu_from_host),
    NATIVE_ENTRY(gpu_to_gpu),
    {"contiguous", tng_contiguous, NULL, NULL},
    {0},
};
NATIVE_MODULE(transfer, entries)
