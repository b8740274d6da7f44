/* Pooling on a device, and its gradients. */
#include "context.h"
#include "gpu_axes.h"
#include "pooling/pool_axes.h"

/* The operation of an Op; see kernels/pooling.py. */
enum { POOL, MAX_GRAD, AVERAGE_GRAD, MAX_SUMS, MAX_ROP };

enum { MAX_ARRAYS = 4, MAX_ARGUMENTS = 3 + 2 * MAX_ARRAYS + (5 + MAX_ARRAYS) * GA_MAX_DIMS };

static int check_shape(const GpuArray *a, unsigned nd, const npy_intp *shape, const char *what)
{
    char given[32 * GA_MAX_DIMS], expected[32 * GA_MAX_DIMS];
    size_t dims[GA_MAX_DIMS];
    int same = a->nd == nd;
    for (unsigned i = 0; i < nd; ++i) {
        dims[i] = (size_t)shape[i];
        same = same && a->dimensions[i] == dims[i];
    }
    if (same)
        return 0;
    PyErr_Format(PyExc_ValueError, "Pool: %s has shape %s, but these windows need shape %s", what,
                 gpu_shape_text(given, sizeof given, a->nd, a->dimensions),
                 gpu_shape_text(expected, sizeof expected, nd, dims));
    return -1;
}

/* Launch the kernel. arrays: the result, followed by the inputs that the kernel reads. */
static int launch(gpukernel *kernel, const PoolAxis *axes, unsigned pooled, PyGpuArrayObject **arrays, int count)
{
    const GpuArray *z = &arrays[0]->ga;
    ssize_t strides[MAX_ARRAYS][GA_MAX_DIMS], size = (ssize_t)gpuarray_get_elsize(z->typecode);
    unsigned before = z->nd - pooled;
    size_t last = z->dimensions[z->nd - 1], n = gpu_size(z);
    if (n == 0)
        return 0;
    /* A thread computes a line on processors, and an element on GPUs. */
    size_t span = arrays[0]->context->ctx->info.vector_bytes ? last : 1, pieces = last / span;
    n = n / last * pieces;
    void *args[MAX_ARGUMENTS] = {&n, &pieces, &span};
    int used = 3;
    for (int k = 0; k < count; ++k) {
        args[used++] = arrays[k]->ga.data;
        args[used++] = &arrays[k]->ga.offset;
    }
    for (unsigned d = 0; d < z->nd; ++d) {
        if (d < before)
            args[used++] = &z->dimensions[d];
        else {
            const PoolAxis *a = &axes[d - before];
            const void *numbers[] = {&a->n, &a->out, &a->window, &a->stride, &a->pad};
            memcpy(&args[used], numbers, sizeof numbers);
            used += 5;
        }
        for (int k = 0; k < count; ++k) {
            strides[k][d] = arrays[k]->ga.strides[d] / size;
            args[used++] = &strides[k][d];
        }
    }
    return gpu_run(kernel, n, args, "pooling");
}

/* Inputs: x; then
 *   MAX_GRAD: maxima and gradient of the output
 *   AVERAGE_GRAD: gradient of the output
 *   MAX_SUMS: maxima, and a direction with the shape of x
 *   MAX_ROP: a direction with the shape of x
 *   and for all Ops: ws, stride and pad, on the host */
NATIVE_FUNCTION(pooling, kind, ndim, ignore_border, typecode, kernel)
static int tng_pooling(int nin, int nout, PyObject **in, PyObject **out, const struct pooling_params *params)
{
    (void)nin, (void)nout;
    int kind = (int)params->kind, pooled = (int)params->ndim;
    int tensors = kind == POOL ? 1 : kind == AVERAGE_GRAD || kind == MAX_ROP ? 2 : 3;
    PyGpuArrayObject *given[3], *arrays[MAX_ARRAYS];
    PoolAxis axes[GA_MAX_DIMS];
    npy_intp shape[GA_MAX_DIMS], out_shape[GA_MAX_DIMS];
    size_t dims[GA_MAX_DIMS];
    for (int i = 0; i < tensors; ++i)
        if ((given[i] = gpu_input(in[i], (int)params->typecode, -1)) == NULL || !gpu_same_context(given[0], given[i])
            || gpu_aligned(&given[i]->ga, "pooling") < 0)
            return -1;
    const GpuArray *x = &given[0]->ga;
    for (unsigned d = 0; d < x->nd; ++d)
        shape[d] = (npy_intp)x->dimensions[d];
    if (find_pool_axes(axes, pooled, (int)x->nd, shape, in + tensors, params->ignore_border != 0, out_shape) < 0)
        return -1;
    int like_image = kind == MAX_SUMS || kind == MAX_ROP, makes_image = kind == MAX_GRAD || kind == AVERAGE_GRAD;
    if (tensors == 3 && check_shape(&given[1]->ga, x->nd, out_shape, "maxout") < 0)
        return -1;
    if (kind != POOL
        && check_shape(&given[tensors - 1]->ga, x->nd, like_image ? shape : out_shape,
                       like_image ? "the direction" : "the gradient")
               < 0)
        return -1;
    for (unsigned d = 0; d < x->nd; ++d)
        dims[d] = (size_t)(makes_image ? shape : out_shape)[d];
    for (int i = 0; i < tensors; ++i)
        gpu_not_shared(out, &given[i]->ga);
    arrays[0] = gpu_alloc(out, given[0]->context, x->nd, dims, (int)params->typecode);
    if (arrays[0] == NULL)
        return -1;
    for (int d = 0; makes_image && d < pooled; ++d)
        if (axes[d].out == 0) { /* there are no windows */
            int code = GpuArray_memset(&arrays[0]->ga, 0);
            return code == GA_NO_ERROR ? 0 : gpu_failed(arrays[0]->context->ctx, code, "pooling");
        }
    int first = kind == AVERAGE_GRAD; /* this kernel does not read the image */
    memcpy(arrays + 1, given + first, (size_t)(tensors - first) * sizeof *given);
    return launch((gpukernel *)(intptr_t)params->kernel, axes, (unsigned)pooled, arrays, 1 + tensors - first);
}

static const NativeEntry entries[] = {NATIVE_ENTRY(pooling), {0}};
NATIVE_MODULE(pooling, entries)
