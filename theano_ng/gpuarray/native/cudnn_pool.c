/* Pooling and its gradient by cuDNN (device/cudnn_pool.c). */
#include "gpu_dnn.h"

#include <limits.h>

#include "pooling/pool_axes.h"

/* mode: a constant CUDNN_POOLING_... */
NATIVE_FUNCTION(pool, typecode, mode)
NATIVE_FUNCTION(pool_gradient, typecode, mode)

/* Read ws, stride and pad, and find the shape of the output. */
static int find_windows(const GpuArray *x, PyObject **vectors, int mode, dnn_windows *windows, size_t *out_dims)
{
    PoolAxis axes[3];
    npy_intp shape[5], out_shape[5];
    unsigned nd = x->nd;
    for (unsigned d = 0; d < nd; ++d)
        shape[d] = (npy_intp)x->dimensions[d];
    *windows = (dnn_windows){.mode = mode, .nd = (int)nd - 2};
    if (find_pool_axes(axes, (int)nd - 2, (int)nd, shape, vectors, 1, out_shape) < 0)
        return -1;
    for (unsigned d = 0; d < nd; ++d)
        out_dims[d] = (size_t)out_shape[d];
    for (int d = 0; d < (int)nd - 2; ++d) {
        if (axes[d].window > INT_MAX && axes[d].out > 0) {
            PyErr_SetString(PyExc_ValueError, "cuDNN needs windows of less than 2^31 elements");
            return -1;
        }
        windows->window[d] = (int)axes[d].window;
        windows->pad[d] = (int)axes[d].pad;
        /* There is only one window if the stride is larger. */
        windows->stride[d] = (int)(axes[d].stride < INT_MAX ? axes[d].stride : INT_MAX);
    }
    return 0;
}

/* Inputs: x (n, c, 2 or 3 axes), and ws, stride and pad, on the host. Output: the pooled x. */
static int tng_pool(int nin, int nout, PyObject **in, PyObject **out, const struct pool_params *params)
{
    (void)nin, (void)nout;
    PyGpuArrayObject *given = gpu_input(in[0], (int)params->typecode, -1), *x, *y;
    dnn_windows windows;
    size_t dims[5];
    if (given == NULL || find_windows(&given->ga, in + 1, (int)params->mode, &windows, dims) < 0)
        return -1;
    gpu_not_shared(out, &given->ga);
    if ((y = gpu_alloc(out, given->context, given->ga.nd, dims, given->ga.typecode)) == NULL)
        return -1;
    if (gpu_size(&y->ga) == 0)
        return 0;
    if ((x = dnn_packed(given)) == NULL)
        return -1;
    dnn_tensor from = dnn_tensor_of(x), to = dnn_tensor_of(y);
    int code = cudnn_pool(x->context->ctx, &windows, &from, &to);
    Py_DECREF(x);
    return dnn_result(y, code);
}

/* Inputs: x, the pooled x, the gradient with respect to it, and ws, stride and pad, on the host. Output: the gradient
 * with respect to x. */
static int tng_pool_gradient(int nin, int nout, PyObject **in, PyObject **out,
                             const struct pool_gradient_params *params)
{
    (void)nin, (void)nout;
    PyGpuArrayObject *given[3], *held[3] = {NULL}, *dx;
    dnn_windows windows;
    size_t dims[5];
    int status = -1;
    for (int k = 0; k < 3; ++k)
        if ((given[k] = gpu_input(in[k], (int)params->typecode, k == 0 ? -1 : (int)given[0]->ga.nd)) == NULL
            || !gpu_same_context(given[0], given[k]))
            return -1;
    const GpuArray *x = &given[0]->ga;
    if (find_windows(x, in + 3, (int)params->mode, &windows, dims) < 0)
        return -1;
    for (int k = 1; k < 3; ++k)
        if (memcmp(given[k]->ga.dimensions, dims, x->nd * sizeof *dims) != 0) {
            char found[32 * GA_MAX_DIMS], expected[32 * GA_MAX_DIMS];
            PyErr_Format(PyExc_ValueError, "Pool: %s has shape %s, but these windows need shape %s",
                         k == 1 ? "out" : "the gradient",
                         gpu_shape_text(found, sizeof found, x->nd, given[k]->ga.dimensions),
                         gpu_shape_text(expected, sizeof expected, x->nd, dims));
            return -1;
        }
    for (int k = 0; k < 3; ++k)
        gpu_not_shared(out, &given[k]->ga);
    if ((dx = gpu_alloc(out, given[0]->context, x->nd, x->dimensions, x->typecode)) == NULL)
        return -1;
    if (gpu_size(x) == 0)
        return 0;
    if (gpu_size(&given[1]->ga) == 0) /* there are no windows */
        return dnn_result(dx, GpuArray_memset(&dx->ga, 0));
    for (int k = 0; k < 3; ++k)
        if ((held[k] = dnn_packed(given[k])) == NULL)
            goto done;
    dnn_tensor tensors[] = {dnn_tensor_of(held[1]), dnn_tensor_of(held[2]), dnn_tensor_of(held[0]), dnn_tensor_of(dx)};
    status = dnn_result(
        dx, cudnn_pool_gradient(dx->context->ctx, &windows, &tensors[0], &tensors[1], &tensors[2], &tensors[3]));
done:
    for (int k = 0; k < 3; ++k)
        Py_XDECREF(held[k]);
    return status;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(pool), NATIVE_ENTRY(pool_gradient), {0}};
NATIVE_MODULE(cudnn_pool, entries)
