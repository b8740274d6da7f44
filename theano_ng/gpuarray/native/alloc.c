/* New arrays on a device: filled with a value, with ones on or below a diagonal, or uninitialized. */
#include "gpu_axes.h"
#include "common/integer_inputs.h"

/* Inputs: value, lengths. `zero`: whether all bits of the value are 0. */
NATIVE_FUNCTION(alloc, zero)
static int tng_alloc(int nin, int nout, PyObject **in, PyObject **out, const struct alloc_params *params)
{
    (void)nout;
    size_t dims[GA_MAX_DIMS];
    PyGpuArrayObject *value = gpu_input(in[0], -1, -1);
    if (value == NULL || read_sizes(nin - 1, in + 1, (npy_intp *)dims, GA_MAX_DIMS, "Alloc") < 0)
        return -1;
    unsigned nd = (unsigned)nin - 1;
    for (unsigned i = 0; i < value->ga.nd; ++i) {
        size_t length = value->ga.dimensions[i];
        if (nd < value->ga.nd || (length != 1 && length != dims[nd - value->ga.nd + i])) {
            char from[700], to[700];
            PyErr_Format(PyExc_ValueError, "could not broadcast input array from shape %s into shape %s",
                         gpu_shape_text(from, sizeof from, value->ga.nd, value->ga.dimensions),
                         gpu_shape_text(to, sizeof to, nd, dims));
            return -1;
        }
    }
    gpu_not_shared(out, &value->ga);
    PyGpuArrayObject *made = gpu_alloc(out, value->context, nd, dims, value->ga.typecode);
    if (made == NULL)
        return -1;
    if (gpu_size(&made->ga) == 0)
        return 0;
    if (params->zero) {
        int code = GpuArray_memset(&made->ga, 0);
        return code == GA_NO_ERROR ? 0 : gpu_failed(made->context->ctx, code, "GpuAlloc");
    }
    return gpu_assign(made, &value->ga, "GpuAlloc");
}

/* Inputs: lengths. */
NATIVE_FUNCTION(alloc_empty, context, typecode)
static int tng_alloc_empty(int nin, int nout, PyObject **in, PyObject **out, const struct alloc_empty_params *params)
{
    (void)nout;
    size_t dims[GA_MAX_DIMS];
    if (read_sizes(nin, in, (npy_intp *)dims, GA_MAX_DIMS, "AllocEmpty") < 0)
        return -1;
    return gpu_alloc(out, (PyGpuContextObject *)(intptr_t)params->context, (unsigned)nin, dims, (int)params->typecode)
                   == NULL
               ? -1
               : 0;
}

/* Inputs: number of rows, number of columns (None: as many as rows), index of the diagonal. The kernel writes ones and
 * zeros. */
NATIVE_FUNCTION(diagonal_matrix, context, typecode, kernel)
static int tng_diagonal_matrix(int nin, int nout, PyObject **in, PyObject **out,
                               const struct diagonal_matrix_params *params)
{
    (void)nin, (void)nout;
    int64_t rows, columns, k;
    if (native_as_int64(in[0], &rows) < 0)
        return -1;
    columns = rows;
    if ((in[1] != Py_None && native_as_int64(in[1], &columns) < 0) || native_as_int64(in[2], &k) < 0)
        return -1;
    size_t dims[2] = {rows > 0 ? (size_t)rows : 0, columns > 0 ? (size_t)columns : 0};
    PyGpuArrayObject *made =
        gpu_alloc(out, (PyGpuContextObject *)(intptr_t)params->context, 2, dims, (int)params->typecode);
    if (made == NULL)
        return -1;
    /* Clip the index of the diagonal, so that the kernel can add row indices to it without overflow. */
    ssize_t far = (ssize_t)1 << 62, diagonal = k > far ? far : k < -far ? -far : (ssize_t)k;
    size_t n = gpu_size(&made->ga);
    Arguments args = {0};
    args_array(&args, &made->ga, &made->ga.offset);
    args_push(&args, &n);
    args_push(&args, &dims[1]);
    args_push(&args, &diagonal);
    return gpu_run((gpukernel *)(intptr_t)params->kernel, n, args.at, "GpuEye");
}

static const NativeEntry entries[] = {
    NATIVE_ENTRY(alloc), NATIVE_ENTRY(alloc_empty), NATIVE_ENTRY(diagonal_matrix), {0}};
NATIVE_MODULE(alloc, entries)
