/* Maxima and their indices on a device. */
#include "gpu_axes.h"

/* A line is the elements of which one maximum is computed. If there are few lines, and a line has at least this many
 * elements, groups of threads search each line. Otherwise one thread does. */
#define LONG_LINE 256

/* Input: x. Outputs: maxima, indices. The bits of `axes` are the axes to reduce. In the kernel `lines`, one thread
 * finds a maximum; in the kernel `groups`, a group of `group` threads finds the maximum of a piece of a line, which has
 * at least `shortest` elements. The kernel `parts` combines the maxima of pieces. `groups` is 0 if only threads
 * search. `threads`: see gpu_threads(). */
NATIVE_FUNCTION(max_and_argmax, axes, lines, groups, parts, group, shortest, threads)

/* The results of a launch: memory of maxima and of their indices */
typedef struct {
    gpudata *values, *places;
    const size_t *value_offset, *place_offset;
} Results;

static int run_groups(const struct max_and_argmax_params *params, int64_t kernel, const Results *to, gpudata *x,
                      const size_t *x_offset, gpudata *found, const size_t *n, const size_t *length, size_t pieces,
                      const size_t *piece, const Axes *kept, const Axes *reduced)
{
    Arguments args = {0};
    args_push(&args, to->values);
    args_push(&args, to->value_offset);
    args_push(&args, to->places);
    args_push(&args, to->place_offset);
    args_push(&args, x);
    args_push(&args, x_offset);
    args_push(&args, n);
    args_push(&args, length);
    args_push(&args, piece);
    if (found != NULL)
        args_push(&args, found);
    args_axes(&args, kept, 1);
    args_axes(&args, reduced, 1);
    return gpu_run_groups((gpukernel *)(intptr_t)kernel, *n, pieces, (size_t)params->group, args.at, "GpuMaxAndArgmax");
}

/* Search each line by groups of threads: one group, or several groups, whose results another launch combines. */
static int by_groups(const struct max_and_argmax_params *params, const Results *to, PyGpuArrayObject *x, size_t n,
                     size_t length, size_t threads, const Axes *kept, const Axes *reduced)
{
    static const size_t none = 0;
    gpucontext *ctx = x->context->ctx;
    size_t piece, size = gpuarray_get_elsize(x->ga.typecode);
    size_t pieces = gpu_pieces(threads, (size_t)params->group, n, length, (size_t)params->shortest, &piece);
    if (pieces == 1)
        return run_groups(params, params->groups, to, x->ga.data, &x->ga.offset, NULL, &n, &length, 1, &piece, kept,
                          reduced);
    int code, status = -1;
    Results parts = {gpudata_alloc(ctx, n * pieces * size, NULL, 0, &code), NULL, &none, &none};
    if (parts.values != NULL)
        parts.places = gpudata_alloc(ctx, n * pieces * sizeof(int64_t), NULL, 0, &code);
    if (parts.places == NULL)
        gpu_failed(ctx, code, "GpuMaxAndArgmax");
    else if (run_groups(params, params->groups, &parts, x->ga.data, &x->ga.offset, NULL, &n, &length, pieces, &piece,
                        kept, reduced)
             == 0) {
        Axes rows = {1, {n}, {{(ssize_t)(pieces * size)}}}, columns = {1, {pieces}, {{(ssize_t)size}}};
        status = run_groups(params, params->parts, to, parts.values, &none, parts.places, &n, &pieces, 1, &pieces,
                            &rows, &columns);
    }
    /* The stream reuses the memory only after the kernels have run. */
    gpudata_release(parts.values);
    gpudata_release(parts.places);
    return status;
}

static int tng_max_and_argmax(int nin, int nout, PyObject **in, PyObject **out,
                              const struct max_and_argmax_params *params)
{
    (void)nin, (void)nout;
    PyGpuArrayObject *x = gpu_input(in[0], -1, -1);
    if (x == NULL || gpu_aligned(&x->ga, "GpuMaxAndArgmax") < 0)
        return -1;
    size_t dims[GA_MAX_DIMS], length = 1, n = 1;
    unsigned nd = 0, n_reduced = 0;
    int empty = -1;
    Axes kept = {0}, reduced = {0};
    for (unsigned i = 0; i < x->ga.nd; ++i) {
        size_t size = x->ga.dimensions[i];
        if (params->axes >> i & 1) {
            ++n_reduced;
            length *= size;
            if (size == 0 && empty < 0)
                empty = (int)i;
            axes_push(&reduced, size, x->ga.strides[i], 0);
        }
        else {
            dims[nd++] = size;
            n *= size;
            axes_push(&kept, size, x->ga.strides[i], 0);
        }
    }
    if (empty >= 0 && n > 0) {
        PyErr_Format(PyExc_ValueError,
                     "Max and argmax of an empty dimension have no value: the input has length 0 in dimension %d",
                     empty);
        return -1;
    }
    gpu_not_shared(out, &x->ga);
    gpu_not_shared(out + 1, &x->ga);
    PyGpuArrayObject *z = gpu_alloc(out, x->context, nd, dims, x->ga.typecode);
    PyGpuArrayObject *places = z == NULL ? NULL : gpu_alloc(out + 1, x->context, nd, dims, GA_LONG);
    if (places == NULL || n == 0)
        return places == NULL ? -1 : 0;
    gpukernel *lines = (gpukernel *)(intptr_t)params->lines;
    size_t threads = gpu_threads(lines, params->threads);
    axes_pad(&kept, nd);
    axes_pad(&reduced, n_reduced);
    if (params->groups != 0 && length >= LONG_LINE && n < threads) {
        Results to = {z->ga.data, places->ga.data, &z->ga.offset, &places->ga.offset};
        return by_groups(params, &to, x, n, length, threads, &kept, &reduced);
    }
    Arguments args = {0};
    args_array(&args, &z->ga, &z->ga.offset);
    args_array(&args, &places->ga, &places->ga.offset);
    args_array(&args, &x->ga, &x->ga.offset);
    args_push(&args, &n);
    args_push(&args, &length);
    args_axes(&args, &kept, 1);
    args_axes(&args, &reduced, 1);
    return gpu_run(lines, n, args.at, "GpuMaxAndArgmax");
}

static const NativeEntry entries[] = {NATIVE_ENTRY(max_and_argmax), {0}};
NATIVE_MODULE(argmax, entries)
