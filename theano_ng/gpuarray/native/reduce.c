/* Reductions of device arrays. The code decides which axes are merged, how threads share the work, and whether one or
 * two kernels are launched. */
#include "context.h"
#include "gpu.h"

/* Parameters of a node.
 * context: a PyGpuContextObject
 * elements, parts: the kernels of kernels/reduce.py
 * kept_rank, reduced_rank: numbers of kept and reduced axes of the kernels
 * ndim: rank of the input
 * axes: bits of the reduced axes
 * element_type, accumulator_type, result_type: type codes
 * has_identity: whether a reduction of no elements has a result */
NATIVE_FUNCTION(reduce, context, elements, parts, kept_rank, reduced_rank, ndim, axes, element_type, accumulator_type,
                result_type, has_identity);

/* Threads in a group, as in kernels/reduce.py. */
enum { GROUP = 256 };

/* A list of axes, the innermost last. */
typedef struct {
    int n;
    size_t dims[GA_MAX_DIMS];
    ssize_t strides[GA_MAX_DIMS]; /* in elements */
    size_t count;
} axes_of;

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

static size_t at_least(size_t n, size_t least)
{
    return n > least ? n : least;
}

static size_t power_of_two(size_t n, size_t most)
{
    size_t p = 1;
    while (p < n && p < most)
        p *= 2;
    return p;
}

static void add_axis(axes_of *a, size_t dim, ssize_t stride)
{
    a->count *= dim;
    if (dim == 1)
        return;
    a->dims[a->n] = dim;
    a->strides[a->n++] = stride;
}

/* Sort the axes by stride: the order of reduced elements does not matter. */
static void sort_axes(axes_of *a)
{
    for (int i = 1; i < a->n; ++i) {
        size_t dim = a->dims[i];
        ssize_t stride = a->strides[i];
        int at = i;
        for (; at > 0 && labs(a->strides[at - 1]) < labs(stride); --at) {
            a->dims[at] = a->dims[at - 1];
            a->strides[at] = a->strides[at - 1];
        }
        a->dims[at] = dim;
        a->strides[at] = stride;
    }
}

static void join_axes(axes_of *a)
{
    int last = 0;
    for (int i = 1; i < a->n; ++i) {
        if (a->strides[last] == a->strides[i] * (ssize_t)a->dims[i])
            a->dims[last] *= a->dims[i];
        else
            a->dims[++last] = a->dims[i];
        a->strides[last] = a->strides[i];
    }
    a->n = a->n > 0 ? last + 1 : 0;
}

static ssize_t inner_stride(const axes_of *a)
{
    return a->n == 0 ? 0 : a->strides[a->n - 1];
}

typedef struct {
    size_t groups[2], group[2], piece;
    uint32_t by_column;
} plan;

/* Decide how threads share `outputs` results of `length` elements each. The elements of a result are cut into groups[1]
 * pieces if there are too few results for all threads, and on CPUs also if a sum would be so long that it loses digits.
 * The plan depends only on the arguments, so the same input gives the same result. */
static plan plan_of(const device_info *info, size_t outputs, size_t length, int by_column)
{
    plan p = {{1, 1}, {1, 1}, length, (uint32_t)by_column};
    size_t pieces = 1;
    if (info->warp > 1) {
        size_t wide, many, target = (size_t)info->processors * 8;
        size_t most = info->max_group < GROUP ? power_of_two(info->max_group / 2 + 1, GROUP) : GROUP;
        if (by_column) {
            wide = power_of_two(outputs, most / power_of_two(at_most(length / 16 + 1, 8), 8));
            many = power_of_two(length, most / wide);
        }
        else {
            many = power_of_two(at_least(length / 4, at_most(length, 32)), most);
            wide = power_of_two(outputs, most / many);
        }
        p.group[0] = by_column ? wide : many;
        p.group[1] = by_column ? many : wide;
        p.groups[0] = at_most((outputs + wide - 1) / wide, target * 4);
        if (p.groups[0] < target)
            pieces = at_most(target / p.groups[0], at_most(length / (many * 8), 1024));
    }
    else {
        size_t work = outputs * length;
        p.groups[0] = at_most(by_column ? (outputs + 127) / 128 : outputs, at_most(work / 16384 + 1, info->processors));
        if (length >= (by_column ? 8192 : 65536))
            pieces = at_most(length / (by_column ? 4096 : 16384), 64);
        else if (p.groups[0] < at_most(work / 16384 + 1, info->processors))
            pieces = at_most(work / 16384 + 1, info->processors);
    }
    if (pieces > 1) {
        /* Pieces begin where kernels can load several elements as a vector. */
        p.piece = ((length + pieces - 1) / pieces + 63) / 64 * 64;
        p.groups[1] = (length + p.piece - 1) / p.piece;
    }
    return p;
}

static int push_axes(const axes_of *a, int rank, void **args, int n, int lengths)
{
    static const size_t one = 1;
    static const ssize_t none = 0;
    int missing = rank - a->n;
    for (int d = lengths ? 1 : 0; d < rank; ++d) {
        if (lengths)
            args[n++] = (void *)(d < missing ? &one : &a->dims[d - missing]);
        else
            args[n++] = (void *)(d < missing ? &none : &a->strides[d - missing]);
    }
    return n;
}

static int launch(gpukernel *kernel, plan *p, const axes_of *kept, int kept_rank, const axes_of *reduced,
                  int reduced_rank, gpudata *x, const size_t *offset, const GpuArray *z, gpudata *parts)
{
    void *args[16 + 2 * (kept_rank + reduced_rank)];
    size_t outputs = kept->count, length = reduced->count;
    int n = 0;
    args[n++] = &outputs;
    args[n++] = &length;
    args[n++] = &p->piece;
    args[n++] = &p->by_column;
    n = push_axes(kept, kept_rank, args, n, 1);
    n = push_axes(reduced, reduced_rank, args, n, 1);
    args[n++] = x;
    args[n++] = (void *)offset;
    n = push_axes(kept, kept_rank, args, n, 0);
    n = push_axes(reduced, reduced_rank, args, n, 0);
    args[n++] = z->data;
    args[n++] = (void *)&z->offset;
    args[n++] = parts == NULL ? z->data : parts;
    int code = gpukernel_call(kernel, 2, p->groups, p->group, 0, args);
    return code == GA_NO_ERROR ? 0 : gpu_failed(gpukernel_context(kernel), code, "GpuCAReduce");
}

static int tng_reduce(int nin, int nout, PyObject **in, PyObject **out, const struct reduce_params *params)
{
    (void)nin, (void)nout;
    PyGpuContextObject *ctx = (PyGpuContextObject *)(intptr_t)params->context;
    PyGpuArrayObject *x = gpu_input(in[0], (int)params->element_type, (int)params->ndim);
    axes_of kept = {0, {0}, {0}, 1}, reduced = {0, {0}, {0}, 1};
    size_t dims[GA_MAX_DIMS], none = 0;
    unsigned nd = 0;
    if (x == NULL)
        return -1;
    if (x->context != ctx) {
        PyErr_SetString(PyExc_ValueError,
                        "the input is an array in another context than the node: transfer() it first");
        return -1;
    }
    if (!GpuArray_ISALIGNED(&x->ga)) {
        PyErr_SetString(PyExc_ValueError, "the input is not aligned: copy() it first");
        return -1;
    }
    int empty = -1;
    ssize_t size = (ssize_t)gpuarray_get_elsize(x->ga.typecode);
    for (unsigned d = 0; d < x->ga.nd; ++d) {
        size_t dim = x->ga.dimensions[d];
        if (params->axes >> d & 1) {
            add_axis(&reduced, dim, x->ga.strides[d] / size);
            empty = dim == 0 && empty < 0 ? (int)d : empty;
        }
        else {
            dims[nd++] = dim;
            add_axis(&kept, dim, x->ga.strides[d] / size);
        }
    }
    PyGpuArrayObject *z = gpu_alloc(out, ctx, nd, dims, (int)params->result_type);
    if (z == NULL)
        return -1;
    if (kept.count == 0)
        return 0;
    if (reduced.count == 0 && !params->has_identity) {
        PyErr_Format(PyExc_ValueError,
                     "Reduction: the input has length 0 in dimension %d, and the reduced operation has no identity, so "
                     "that it has no result for zero elements",
                     empty);
        return -1;
    }
    join_axes(&kept);
    sort_axes(&reduced);
    join_axes(&reduced);
    int by_column = kept.n > 0 && (reduced.count <= 1 || labs(inner_stride(&kept)) < labs(inner_stride(&reduced)));
    if (reduced.count == 0) { /* no elements are read, so the reduced axes have no effect */
        reduced.n = 0;
        by_column = 0;
    }
    gpukernel *elements = (gpukernel *)(intptr_t)params->elements;
    plan p = plan_of(&ctx->ctx->info, kept.count, reduced.count, by_column);
    size_t pieces = p.groups[1];
    if (pieces == 1)
        return launch(elements, &p, &kept, (int)params->kept_rank, &reduced, (int)params->reduced_rank, x->ga.data,
                      &x->ga.offset, &z->ga, NULL);
    int code;
    gpudata *parts = gpudata_alloc(ctx->ctx, kept.count * pieces * gpuarray_get_elsize((int)params->accumulator_type),
                                   NULL, 0, &code);
    if (parts == NULL)
        return gpu_failed(ctx->ctx, code, "GpuCAReduce");
    int status = launch(elements, &p, &kept, (int)params->kept_rank, &reduced, (int)params->reduced_rank, x->ga.data,
                        &x->ga.offset, &z->ga, parts);
    if (status == 0) {
        axes_of rows = {1, {kept.count}, {(ssize_t)pieces}, kept.count}, columns = {1, {pieces}, {1}, pieces};
        p = plan_of(&ctx->ctx->info, kept.count, pieces, 0);
        p.piece = pieces; /* a result has so few pieces that one group reduces them */
        p.groups[1] = 1;
        status = launch((gpukernel *)(intptr_t)params->parts, &p, &rows, 1, &columns, 1, parts, &none, &z->ga, NULL);
    }
    gpudata_release(parts); /* the stream reuses the memory only after the kernels have run */
    return status;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(reduce), {0}};
NATIVE_MODULE(reduce, entries)
