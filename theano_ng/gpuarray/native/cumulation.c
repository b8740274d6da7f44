/* Cumulative sums and products on a device. */
#include "gpu_axes.h"

/* A line is a 1-d slice along the axis. If there are few lines, and a line has at least this many elements, groups of
 * threads process each line. Otherwise one thread does. */
#define LONG_LINE 512

/* Input: x. `axis`: -1 for the flattened array. In the kernel `lines`, one thread processes a line; in the kernel
 * `groups`, a group of `group` threads processes a piece of a line, which has at least `shortest` elements. The kernel
 * `sums` computes the sums of the pieces, which have `sum_size` bytes each. `groups` is 0 if only
 * single threads process lines. `threads`: see gpu_threads(). */
NATIVE_FUNCTION(cumulative, axis, typecode, lines, groups, sums, group, shortest, sum_size, threads)

/* Process each line by groups of threads. If several groups process a line, another launch first computes the sums of
 * their pieces. */
static int by_groups(const struct cumulative_params *params, PyGpuArrayObject *z, PyGpuArrayObject *x, unsigned axis,
                     size_t n, size_t threads, const Axes *axes)
{
    size_t length = x->ga.dimensions[axis], group = (size_t)params->group, piece;
    size_t pieces = gpu_pieces(threads, group, n, length, (size_t)params->shortest, &piece);
    gpudata *sums = NULL;
    int status = 0;
    if (pieces > 1) {
        int code;
        sums = gpudata_alloc(x->context->ctx, n * pieces * (size_t)params->sum_size, NULL, 0, &code);
        if (sums == NULL)
            return gpu_failed(x->context->ctx, code, "GpuCumOp");
        Arguments args = {0};
        args_push(&args, sums);
        args_array(&args, &x->ga, &x->ga.offset);
        args_push(&args, &n);
        args_push(&args, &length);
        args_push(&args, &piece);
        args_push(&args, &x->ga.strides[axis]);
        for (unsigned i = 0; i < axes->nd; ++i) {
            args_push(&args, &axes->dim[i]);
            args_push(&args, &axes->step[1][i]);
        }
        status = gpu_run_groups((gpukernel *)(intptr_t)params->sums, n, pieces, group, args.at, "GpuCumOp");
    }
    if (status == 0) {
        Arguments args = {0};
        args_array(&args, &z->ga, &z->ga.offset);
        args_push(&args, sums == NULL ? z->ga.data : sums); /* not used if there is one piece */
        args_array(&args, &x->ga, &x->ga.offset);
        args_push(&args, &n);
        args_push(&args, &length);
        args_push(&args, &piece);
        args_push(&args, &z->ga.strides[axis]);
        args_push(&args, &x->ga.strides[axis]);
        args_axes(&args, axes, 2);
        status = gpu_run_groups((gpukernel *)(intptr_t)params->groups, n, pieces, group, args.at, "GpuCumOp");
    }
    gpudata_release(sums); /* the stream reuses the memory only after the kernels have run */
    return status;
}

static int tng_cumulative(int nin, int nout, PyObject **in, PyObject **out, const struct cumulative_params *params)
{
    (void)nin, (void)nout;
    PyGpuArrayObject *x = gpu_input(in[0], -1, -1), *flat = NULL, *z;
    if (x == NULL || gpu_aligned(&x->ga, "GpuCumOp") < 0)
        return -1;
    if (params->axis < 0) {
        size_t size = gpu_size(&x->ga);
        if ((x = flat = pygpu_reshape(x, 1, &size, GA_C_ORDER, 0, -1)) == NULL)
            return -1;
    }
    unsigned axis = params->axis < 0 ? 0 : (unsigned)params->axis, nd = x->ga.nd;
    int status = -1;
    gpu_not_shared(out, &x->ga);
    if ((z = gpu_alloc(out, x->context, nd, x->ga.dimensions, (int)params->typecode)) != NULL) {
        size_t length = x->ga.dimensions[axis];
        Axes axes = {0};
        for (unsigned i = 0; i < nd; ++i)
            if (i != axis)
                axes_push(&axes, x->ga.dimensions[i], z->ga.strides[i], x->ga.strides[i]);
        size_t n = axes_size(&axes);
        gpukernel *lines = (gpukernel *)(intptr_t)params->lines;
        size_t threads = gpu_threads(lines, params->threads);
        axes_pad(&axes, nd - 1);
        Arguments args = {0};
        args_array(&args, &z->ga, &z->ga.offset);
        args_array(&args, &x->ga, &x->ga.offset);
        args_push(&args, &n);
        args_push(&args, &length);
        args_push(&args, &z->ga.strides[axis]);
        args_push(&args, &x->ga.strides[axis]);
        args_axes(&args, &axes, 2);
        if (n == 0 || length == 0)
            status = 0;
        else if (params->groups != 0 && length >= LONG_LINE && n < threads)
            status = by_groups(params, z, x, axis, n, threads, &axes);
        else
            status = gpu_run(lines, n, args.at, "GpuCumOp");
    }
    Py_XDECREF(flat);
    return status;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(cumulative), {0}};
NATIVE_MODULE(cumulation, entries)
