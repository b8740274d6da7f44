/* Products of selected blocks on a device: vectors times blocks of a matrix, and outer products added to blocks. */
#include "gpu_gather.h"
#include "networks/block_indices.h"

/* ---- arguments ---- */

/* Read the arrays of an Op: device arrays of one type, of the given ranks. */
static int read_arrays(PyObject **in, int typecode, const int *ranks, PyGpuArrayObject **found, const char *who)
{
    for (int k = 0; k < 3; ++k) {
        found[k] = gpu_input(in[k], typecode, ranks[k]);
        if (found[k] == NULL || !gpu_same_context(found[0], found[k]) || gpu_aligned(&found[k]->ga, who) < 0)
            return -1;
    }
    return 0;
}

/* Append an array: its memory, and its strides in elements. */
static void push_strided(Arguments *args, const GpuArray *a, ssize_t *strides)
{
    ssize_t size = (ssize_t)gpuarray_get_elsize(a->typecode);
    args_array(args, a, &a->offset);
    for (unsigned d = 0; d < a->nd; ++d) {
        strides[d] = a->strides[d] / size;
        args_push(args, &strides[d]);
    }
}

/* Return device memory with a matrix of indices below n, as int64 in C order. Negative indices are made positive. Return
 * NULL with an exception set if the shape is not (batch, window), or if an index is out of bounds. `kernel` reads indices
 * that are on the device; see device_offsets(). */
static gpudata *block_indices(PyObject *value, const char *who, const char *name, size_t batch, size_t window, size_t n,
                              PyGpuContextObject *ctx, gpukernel *kernel, int64_t site)
{
    if (!PyGpuArray_Check(value)) {
        PyArrayObject *a = read_indices(value, who, name, (npy_intp)batch, (npy_intp)window, (npy_intp)n);
        gpudata *made = a == NULL ? NULL : upload(ctx->ctx, PyArray_DATA(a), (size_t)PyArray_NBYTES(a));
        Py_XDECREF(a);
        return made;
    }
    PyGpuArrayObject *given = gpu_input(value, -1, 2);
    if (given == NULL || gpu_aligned(&given->ga, who) < 0
        || check_shape(who, name, (npy_intp)given->ga.dimensions[0], (npy_intp)given->ga.dimensions[1], (npy_intp)batch,
                       (npy_intp)window)
               < 0)
        return NULL;
    if (given->context != ctx) {
        PyErr_Format(PyExc_ValueError, "%s: %s is in another context than the other inputs: transfer() it first", who,
                     name);
        return NULL;
    }
    if (n == 0 && batch * window > 0) {
        PyErr_Format(PyExc_IndexError, "%s: in %s, all indices are out of bounds for 0 blocks", who, name);
        return NULL;
    }
    Gather g = {.n_arrays = 1};
    gpudata *offsets = NULL;
    IndexArray *a = &g.array[0];
    a->device = (PyGpuArrayObject *)Py_NewRef(value);
    a->nd = 2;
    memcpy(a->dim, given->ga.dimensions, 2 * sizeof *a->dim);
    a->size = n;
    a->stride = 1;
    if (join_arrays(&g) == 0 && device_offsets(&g, ctx->ctx, kernel, (unsigned)site) == 0) {
        offsets = g.offsets;
        g.offsets = NULL;
    }
    gather_close(&g);
    return offsets;
}

/* Put the array that will be written into *out: the first input itself if `in_place`, otherwise a copy of it. Return a
 * borrowed reference to the array, or NULL with an exception set. */
static PyGpuArrayObject *target(PyGpuArrayObject **arrays, PyObject **out, int in_place, const char *who)
{
    PyGpuArrayObject *first = arrays[0];
    if (in_place && GpuArray_ISWRITEABLE(&first->ga)) {
        native_set(out, Py_NewRef((PyObject *)first));
        return first;
    }
    for (int k = 0; k < 3; ++k)
        gpu_not_shared(out, &arrays[k]->ga);
    PyGpuArrayObject *z = gpu_alloc(out, first->context, first->ga.nd, first->ga.dimensions, first->ga.typecode);
    return z == NULL || gpu_assign(z, &first->ga, who) < 0 ? NULL : z;
}

static void release(gpudata *data)
{
    if (data != NULL)
        gpudata_release(data);
}

/* ---- vectors times blocks ---- */

/* Parameters of both functions.
 * in_place: whether the result overwrites the first input
 * typecode: type of the first three inputs
 * kernel: see kernels/blocksparse.py
 * first, second: kernels that read the two matrices of indices; 0 if they are on the host
 * site: the number of the node for errors of indices
 * lanes: number of elements that a thread computes together */

/* Inputs: o, W, h, input indices, output indices. */
NATIVE_FUNCTION(gemv, in_place, typecode, kernel, first, second, site, lanes)
static int tng_gemv(int nin, int nout, PyObject **in, PyObject **out, const struct gemv_params *params)
{
    static const char who[] = "SparseBlockGemv";
    static const int ranks[] = {3, 4, 3};
    PyGpuArrayObject *arrays[3];
    (void)nin, (void)nout;
    if (read_arrays(in, (int)params->typecode, ranks, arrays, who) < 0)
        return -1;
    const size_t *o = arrays[0]->ga.dimensions, *w = arrays[1]->ga.dimensions, *h = arrays[2]->ga.dimensions;
    if (check_length(who, "h", 0, (npy_intp)h[0], (npy_intp)o[0]) < 0
        || check_length(who, "h", 2, (npy_intp)h[2], (npy_intp)w[2]) < 0
        || check_length(who, "o", 2, (npy_intp)o[2], (npy_intp)w[3]) < 0)
        return -1;
    PyGpuContextObject *ctx = arrays[0]->context;
    int status = -1;
    gpudata *columns = NULL, *rows = block_indices(in[3], who, "inputIdx", o[0], h[1], w[0], ctx,
                                                   (gpukernel *)(intptr_t)params->first, params->site);
    if (rows == NULL
        || (columns = block_indices(in[4], who, "outputIdx", o[0], o[1], w[1], ctx,
                                    (gpukernel *)(intptr_t)params->second, params->site))
               == NULL)
        goto done;
    PyGpuArrayObject *z = target(arrays, out, (int)params->in_place, who);
    if (z == NULL)
        goto done;
    size_t lanes = (size_t)params->lanes, tiles = (o[2] + lanes - 1) / lanes, items = o[0] * o[1] * tiles;
    ssize_t strides[3][4];
    Arguments args = {0};
    push_strided(&args, &z->ga, strides[0]);
    push_strided(&args, &arrays[1]->ga, strides[1]);
    push_strided(&args, &arrays[2]->ga, strides[2]);
    args_push(&args, rows);
    args_push(&args, columns);
    args_push(&args, &items);
    args_push(&args, &tiles);
    args_push(&args, &o[1]);
    args_push(&args, &h[1]);
    args_push(&args, &w[2]);
    args_push(&args, &w[3]);
    status = gpu_run((gpukernel *)(intptr_t)params->kernel, items, args.at, who);
done:
    release(rows);
    release(columns);
    return status;
}

/* ---- outer products ---- */

/* Divide the blocks into classes, so that there are enough threads to keep the device busy. The threads of a class write
 * to no block of another class. */
static void choose_classes(gpukernel *kernel, int64_t wanted, size_t items, const size_t *blocks, size_t *classes)
{
    unsigned processors = 0;
    gpucontext_property(gpukernel_context(kernel), GA_CTX_PROP_NUMPROCS, &processors);
    size_t threads = gpu_threads(kernel, wanted);
    if (threads < processors)
        threads = processors;
    size_t all = items == 0 ? 1 : (threads + items - 1) / items;
    classes[0] = all < 1 ? 1 : all > blocks[0] ? blocks[0] : all;
    size_t more = classes[0] == 0 ? 1 : (all + classes[0] - 1) / classes[0];
    classes[1] = more < 1 ? 1 : more > blocks[1] ? blocks[1] : more;
}

/* Read the factor alpha: a number on the host, or an array on the device. */
static int read_factor(PyObject *value, PyGpuArrayObject *o, double *number, const GpuArray **array)
{
    *array = NULL;
    if (!PyGpuArray_Check(value)) {
        *number = PyFloat_AsDouble(value);
        return *number == -1 && PyErr_Occurred() ? -1 : 0;
    }
    PyGpuArrayObject *a = gpu_input(value, o->ga.typecode, 0);
    if (a == NULL || !gpu_same_context(o, a) || gpu_aligned(&a->ga, "SparseBlockOuter") < 0)
        return -1;
    *array = &a->ga;
    return 0;
}

/* Inputs: o, x, y, indices of x, indices of y, alpha. `threads`: see gpu_threads(). */
NATIVE_FUNCTION(outer, in_place, typecode, kernel, first, second, site, lanes, threads)
static int tng_outer(int nin, int nout, PyObject **in, PyObject **out, const struct outer_params *params)
{
    static const char who[] = "SparseBlockOuter";
    static const int ranks[] = {4, 3, 3};
    PyGpuArrayObject *arrays[3], *work = NULL;
    const GpuArray *factor;
    double alpha = 1;
    (void)nin, (void)nout;
    if (read_arrays(in, (int)params->typecode, ranks, arrays, who) < 0
        || read_factor(in[5], arrays[0], &alpha, &factor) < 0)
        return -1;
    const size_t *o = arrays[0]->ga.dimensions, *x = arrays[1]->ga.dimensions, *y = arrays[2]->ga.dimensions;
    if (check_length(who, "y", 0, (npy_intp)y[0], (npy_intp)x[0]) < 0
        || check_length(who, "x", 2, (npy_intp)x[2], (npy_intp)o[2]) < 0
        || check_length(who, "y", 2, (npy_intp)y[2], (npy_intp)o[3]) < 0)
        return -1;
    PyGpuContextObject *ctx = arrays[0]->context;
    gpukernel *kernel = (gpukernel *)(intptr_t)params->kernel;
    int status = -1, code = (int)params->typecode;
    gpudata *columns = NULL, *rows = block_indices(in[3], who, "xIdx", x[0], x[1], o[0], ctx,
                                                   (gpukernel *)(intptr_t)params->first, params->site);
    if (rows == NULL
        || (columns = block_indices(in[4], who, "yIdx", x[0], y[1], o[1], ctx, (gpukernel *)(intptr_t)params->second,
                                    params->site))
               == NULL)
        goto done;
    PyGpuArrayObject *z = target(arrays, out, (int)params->in_place, who);
    if (z == NULL)
        goto done;
    /* Sums of float16 are computed in a float32 array. */
    work = code == GA_HALF ? pygpu_empty_like(z, GA_C_ORDER, GA_FLOAT) : (PyGpuArrayObject *)Py_NewRef((PyObject *)z);
    if (work == NULL || (work != z && gpu_assign(work, &z->ga, who) < 0))
        goto done;
    size_t items = params->lanes > 1 ? 1 : o[2] * o[3], classes[2];
    choose_classes(kernel, params->threads, items, o, classes);
    items = o[2] * o[3] == 0 ? 0 : items * classes[0] * classes[1];
    ssize_t strides[3][4];
    float narrow = (float)alpha;
    uint32_t has_factor = factor != NULL;
    Arguments args = {0};
    push_strided(&args, &work->ga, strides[0]);
    push_strided(&args, &arrays[1]->ga, strides[1]);
    push_strided(&args, &arrays[2]->ga, strides[2]);
    args_push(&args, rows);
    args_push(&args, columns);
    args_push(&args, code == GA_DOUBLE ? (void *)&alpha : &narrow);
    args_push(&args, &has_factor);
    args_array(&args, factor == NULL ? &z->ga : factor, factor == NULL ? &z->ga.offset : &factor->offset);
    args_push(&args, &items);
    args_push(&args, &classes[0]);
    args_push(&args, &classes[1]);
    args_push(&args, &x[0]);
    args_push(&args, &x[1]);
    args_push(&args, &y[1]);
    args_push(&args, &o[2]);
    args_push(&args, &o[3]);
    status = gpu_run(kernel, items, args.at, who);
    if (status == 0 && work != z)
        status = gpu_assign(z, &work->ga, who);
done:
    Py_XDECREF(work);
    release(rows);
    release(columns);
    return status;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(gemv), NATIVE_ENTRY(outer), {0}};
NATIVE_MODULE(blocksparse, entries)
