/* The common axes of one or two operands. Axes that are contiguous with each other in both operands are merged. The
 * lengths and strides become arguments of kernels. */
#ifndef TNG_GPU_AXES_H
#define TNG_GPU_AXES_H

#include "index_errors.h"
#include "gpu.h"

typedef struct {
    unsigned nd;
    size_t dim[GA_MAX_DIMS];
    ssize_t step[2][GA_MAX_DIMS]; /* strides of up to two operands, in bytes */
} Axes;

static inline void axes_push(Axes *axes, size_t dim, ssize_t first, ssize_t second)
{
    if (dim == 1)
        return;
    if (axes->nd > 0) {
        unsigned last = axes->nd - 1;
        if (axes->step[0][last] == first * (ssize_t)dim && axes->step[1][last] == second * (ssize_t)dim) {
            axes->dim[last] *= dim;
            axes->step[0][last] = first;
            axes->step[1][last] = second;
            return;
        }
    }
    axes->dim[axes->nd] = dim;
    axes->step[0][axes->nd] = first;
    axes->step[1][axes->nd++] = second;
}

static inline size_t axes_size(const Axes *axes)
{
    size_t n = 1;
    for (unsigned i = 0; i < axes->nd; ++i)
        n *= axes->dim[i];
    return n;
}

/* Prepend axes of length 1, up to the number of axes that a kernel has. */
static inline void axes_pad(Axes *axes, unsigned nd)
{
    unsigned more = nd - axes->nd;
    if (more == 0)
        return;
    memmove(axes->dim + more, axes->dim, axes->nd * sizeof *axes->dim);
    for (int k = 0; k < 2; ++k)
        memmove(axes->step[k] + more, axes->step[k], axes->nd * sizeof *axes->step[k]);
    for (unsigned i = 0; i < more; ++i) {
        axes->dim[i] = 1;
        axes->step[0][i] = axes->step[1][i] = 0;
    }
    axes->nd = nd;
}

/* The arguments of a launch, in order: memory, or addresses of scalars. */
typedef struct {
    unsigned n;
    void *at[8 + 6 * GA_MAX_DIMS];
} Arguments;

static inline void args_push(Arguments *args, const void *value)
{
    args->at[args->n++] = (void *)value;
}

static inline void args_array(Arguments *args, const GpuArray *a, const size_t *offset)
{
    args_push(args, a->data);
    args_push(args, offset);
}

/* Append the length of each axis, followed by the strides of the first `operands` operands along the axis. */
static inline void args_axes(Arguments *args, const Axes *axes, int operands)
{
    for (unsigned i = 0; i < axes->nd; ++i) {
        args_push(args, &axes->dim[i]);
        for (int k = 0; k < operands; ++k)
            args_push(args, &axes->step[k][i]);
    }
}

/* Return 0 if the elements are aligned, as the device requires, else -1 with ValueError set. */
static inline int gpu_aligned(const GpuArray *a, const char *who)
{
    if (__builtin_expect(GpuArray_ISALIGNED(a), 1))
        return 0;
    PyErr_Format(PyExc_ValueError, "%s: the elements of an array are not aligned; copy it first", who);
    return -1;
}

/* Return the number of threads that keep the device busy. With fewer threads, the caller divides the work among more
 * threads. On CPUs the number is 0, because kernels run best there with few threads. If `wanted` is not negative, it is
 * returned instead. */
static inline size_t gpu_threads(gpukernel *kernel, int64_t wanted)
{
    size_t together = 0;
    unsigned processors = 0;
    if (wanted >= 0)
        return (size_t)wanted;
    gpukernel_property(kernel, GA_KERNEL_PROP_PREFLSIZE, &together);
    gpucontext_property(gpukernel_context(kernel), GA_CTX_PROP_NUMPROCS, &processors);
    return together >= 16 ? (size_t)processors * 512 : 0;
}

/* Launch a kernel that may report invalid indices, for n elements. */
static inline int gpu_run_watched(gpukernel *kernel, size_t n, const Arguments *args, const index_watch *watch,
                                  const char *what)
{
    gpucontext *ctx = gpukernel_context(kernel);
    int status = gpu_run(kernel, n, args->at, what);
    gpucontext_watched(ctx);
    if (status < 0 || !watch->wait)
        return status;
    int code = gpucontext_sync(ctx);
    return code == GA_NO_ERROR ? 0 : gpu_failed(ctx, code, what);
}

/* Return the number of pieces into which each of n lines is cut, so that groups of `group` threads for all pieces keep
 * the device busy, and set *piece to the length of a piece. `threads`: see gpu_threads(). A piece has at least `shortest`
 * elements, unless the line is shorter. */
static inline size_t gpu_pieces(size_t threads, size_t group, size_t n, size_t length, size_t shortest, size_t *piece)
{
    enum { ALIGNED = 64 }; /* pieces of contiguous lines begin at multiples of the size of a transfer from memory */
    size_t pieces = 4 * threads / group / n;
    if (pieces > length / shortest)
        pieces = length / shortest;
    *piece = length;
    if (pieces <= 1)
        return 1;
    *piece = ((length + pieces - 1) / pieces + ALIGNED - 1) / ALIGNED * ALIGNED;
    return (length + *piece - 1) / *piece;
}

/* Launch a kernel for n lines of `pieces` pieces. A group of at most `most` threads processes a piece. */
static inline int gpu_run_groups(gpukernel *kernel, size_t n, size_t pieces, size_t most, void *const *args,
                                 const char *what)
{
    size_t groups[2] = {0, pieces}, group[2] = {most, 1}, largest = most;
    gpukernel_property(kernel, GA_KERNEL_PROP_MAXLSIZE, &largest);
    while (group[0] > largest)
        group[0] /= 2;
    gpukernel_sched(kernel, n * group[0], groups, group);
    int code = gpukernel_call(kernel, 2, groups, group, 0, args);
    return code == GA_NO_ERROR ? 0 : gpu_failed(gpukernel_context(kernel), code, what);
}

/* Write a shape into a buffer as Python prints it: "(2, 3)". */
static inline const char *gpu_shape_text(char *buffer, size_t size, unsigned nd, const size_t *dims)
{
    size_t used = (size_t)snprintf(buffer, size, "(");
    for (unsigned i = 0; i < nd && used < size; ++i)
        used += (size_t)snprintf(buffer + used, size - used, i ? ", %zu" : "%zu", dims[i]);
    if (used < size)
        snprintf(buffer + used, size - used, nd == 1 ? ",)" : ")");
    return buffer;
}

/* Compute the strides that broadcast y to a shape. Return 0, or -1 with an exception set. */
static inline int broadcast_strides(const GpuArray *y, unsigned nd, const size_t *dim, ssize_t *stride)
{
    int extra = (int)y->nd - (int)nd, bad = 0;
    for (int i = 0; i < extra; ++i)
        bad |= y->dimensions[i] != 1;
    for (int i = 0; i < (int)nd; ++i) {
        int k = i + extra;
        size_t length = k < 0 ? 1 : y->dimensions[k];
        stride[i] = length == 1 ? 0 : y->strides[k];
        bad |= length != 1 && length != dim[i];
    }
    if (!bad)
        return 0;
    char from[700], to[700];
    PyErr_Format(PyExc_ValueError, "could not broadcast input array from shape %s into shape %s",
                 gpu_shape_text(from, sizeof from, y->nd, y->dimensions), gpu_shape_text(to, sizeof to, nd, dim));
    return -1;
}

/* Drop the previous output if it overlaps an input of this call, which must not be overwritten. */
static inline void gpu_not_shared(PyObject **out, const GpuArray *x)
{
    if (*out != NULL && PyGpuArray_Check(*out) && GpuArray_overlap(&((PyGpuArrayObject *)*out)->ga, x))
        Py_CLEAR(*out);
}

/* a[...] = v, for lengths and types that are known to be compatible. */
static inline int gpu_assign(PyGpuArrayObject *a, const GpuArray *v, const char *who)
{
    int code = GpuArray_setarray(&a->ga, v);
    return code == GA_NO_ERROR ? 0 : gpu_failed(a->context->ctx, code, who);
}

#endif
