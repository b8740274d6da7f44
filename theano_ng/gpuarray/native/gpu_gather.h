/* Advanced indexing of device arrays: integer arrays, masks, slices and None are converted to the byte offsets, in
 * device memory, of the selected elements.
 *
 * The index arrays are broadcast together to the shape `joint`, and give `count` offsets. `rest` has the dimensions
 * that no array indexes, and new dimensions. The result of indexing has the shape rest[:position] + joint +
 * rest[position:].
 *
 * Host index arrays are checked on the host, and their offsets are written to the device without waiting. Device index
 * arrays are read by a kernel. If an index is out of bounds, the kernel reports it (device/index_errors.h), and the
 * offset becomes NO_OFFSET of kernels/indexing.py: zeros are read there, and nothing is written. The values of masks
 * determine the shape of the result, so a device mask is copied to the host. */
#ifndef TNG_GPU_GATHER_H
#define TNG_GPU_GATHER_H

#include "gpu_axes.h"
#include "indexing/index_entries.h"

typedef struct {
    PyArrayObject *host;      /* owned; int64 in C order; NULL if the array is only on the device */
    PyGpuArrayObject *device; /* owned; NULL if the array is on the host */
    gpudata *uploaded;        /* owned; device copy of a host array, for a kernel */
    int axis, nd;
    size_t size, dim[GA_MAX_DIMS];
    /* bytes; `stride` is the stride of the indexed axis, `step` the strides of the index array along the joint
     * dimensions */
    ssize_t stride, step[GA_MAX_DIMS];
} IndexArray;

typedef struct {
    unsigned n_rest, position, n_joint, n_arrays;
    size_t rest[GA_MAX_DIMS], joint[GA_MAX_DIMS], count;
    ssize_t rest_stride[GA_MAX_DIMS], base, unit;
    IndexArray array[GA_MAX_DIMS];
    int increasing;   /* the selected positions increase, so no element is selected twice */
    gpudata *offsets; /* owned */
} Gather;

static void gather_close(Gather *g)
{
    for (unsigned i = 0; i < g->n_arrays; ++i) {
        Py_CLEAR(g->array[i].host);
        Py_CLEAR(g->array[i].device);
        if (g->array[i].uploaded != NULL)
            gpudata_release(g->array[i].uploaded);
    }
    if (g->offsets != NULL)
        gpudata_release(g->offsets);
    g->offsets = NULL;
    g->n_arrays = 0;
}

/* ---- reading indices ---- */

static void push_rest(Gather *g, size_t length, ssize_t stride)
{
    g->rest[g->n_rest] = length;
    g->rest_stride[g->n_rest++] = stride;
}

static IndexArray *push_array(Gather *g, const GpuArray *x, int axis)
{
    IndexArray *a = &g->array[g->n_arrays++];
    memset(a, 0, sizeof *a);
    a->axis = axis;
    a->size = axis < 0 ? 1 : x->dimensions[axis];
    a->stride = axis < 0 ? 0 : x->strides[axis];
    return a;
}

/* Convert a host index array to int64. Unsigned values that do not fit raise IndexError. The caller keeps its reference
 * to `given`. */
static int read_host(IndexArray *a, PyArrayObject *given)
{
    if (PyArray_TYPE(given) == NPY_UINT64 || PyArray_TYPE(given) == NPY_ULONGLONG) {
        PyArrayObject *values =
            (PyArrayObject *)PyArray_FROMANY((PyObject *)given, NPY_UINT64, 0, 0, NPY_ARRAY_CARRAY_RO);
        if (values == NULL)
            return -1;
        const npy_uint64 *data = PyArray_DATA(values);
        npy_intp n = PyArray_SIZE(values), i = 0;
        while (i < n && data[i] <= (npy_uint64)NPY_MAX_INT64)
            ++i;
        if (i < n)
            PyErr_Format(PyExc_IndexError, "index out of bounds: index %llu is out of bounds for axis %d with size %zu",
                         (unsigned long long)data[i], a->axis, a->size);
        Py_DECREF(values);
        if (i < n)
            return -1;
    }
    a->host =
        (PyArrayObject *)PyArray_FROMANY((PyObject *)given, NPY_INT64, 0, 0, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST);
    if (a->host == NULL)
        return -1;
    a->nd = PyArray_NDIM(a->host);
    for (int k = 0; k < a->nd; ++k)
        a->dim[k] = (size_t)PyArray_DIM(a->host, k);
    return 0;
}

static int read_mask(Gather *g, PyArrayObject *mask, const GpuArray *x, int axis)
{
    int nd = PyArray_NDIM(mask);
    for (int k = 0; k < nd; ++k)
        if ((size_t)PyArray_DIM(mask, k) != x->dimensions[axis + k]) {
            PyErr_Format(PyExc_IndexError,
                         "boolean index did not match indexed array along axis %d; size of axis is %zu but size of "
                         "corresponding boolean axis is %zd",
                         axis + k, x->dimensions[axis + k], (Py_ssize_t)PyArray_DIM(mask, k));
            return -1;
        }
    if (nd == 0) {
        /* A 0-d mask selects all or nothing, along a new dimension. */
        npy_intp one = *(npy_bool *)PyArray_DATA(mask) != 0;
        IndexArray *a = push_array(g, x, -1);
        a->host = (PyArrayObject *)PyArray_ZEROS(1, &one, NPY_INT64, 0);
        a->nd = 1;
        a->dim[0] = (size_t)one;
        return a->host == NULL ? -1 : 0;
    }
    PyObject *places = PyArray_Nonzero(mask);
    int status = places == NULL ? -1 : 0;
    for (int k = 0; k < nd && status == 0; ++k)
        status = read_host(push_array(g, x, axis + k), (PyArrayObject *)PyTuple_GET_ITEM(places, k));
    Py_XDECREF(places);
    return status;
}

/* Read one index that is neither None nor a slice, and advance *axis. */
static int read_array(Gather *g, PyObject *value, PyGpuArrayObject *indexed, int *axis)
{
    const GpuArray *x = &indexed->ga;
    if (PyGpuArray_Check(value)) {
        PyGpuArrayObject *given = (PyGpuArrayObject *)value;
        if (!gpu_same_context(indexed, given))
            return -1;
        if (given->ga.typecode == GA_BOOL) {
            PyObject *mask = pygpu_as_ndarray(given);
            int status = mask == NULL ? -1 : read_mask(g, (PyArrayObject *)mask, x, *axis);
            Py_XDECREF(mask);
            *axis += (int)given->ga.nd;
            return status;
        }
        IndexArray *a = push_array(g, x, (*axis)++);
        a->device = (PyGpuArrayObject *)Py_NewRef(value);
        a->nd = (int)given->ga.nd;
        memcpy(a->dim, given->ga.dimensions, given->ga.nd * sizeof *a->dim);
        return gpu_aligned(&given->ga, "an index");
    }
    PyArrayObject *given = (PyArrayObject *)PyArray_FROM_O(value);
    if (given == NULL)
        return -1;
    int status;
    if (PyArray_TYPE(given) == NPY_BOOL) {
        status = read_mask(g, given, x, *axis);
        *axis += PyArray_NDIM(given);
    }
    else if (PyArray_ISINTEGER(given))
        status = read_host(push_array(g, x, (*axis)++), given);
    else {
        PyErr_Format(PyExc_IndexError, "arrays used as indices must be of integer (or boolean) type, not %R",
                     PyArray_DESCR(given));
        status = -1;
    }
    Py_DECREF(given);
    return status;
}

/* Broadcast the index arrays together. */
static int join_arrays(Gather *g)
{
    g->n_joint = 0;
    for (unsigned i = 0; i < g->n_arrays; ++i)
        if (g->array[i].nd > (int)g->n_joint)
            g->n_joint = (unsigned)g->array[i].nd;
    for (unsigned k = 0; k < g->n_joint; ++k)
        g->joint[k] = 1;
    for (unsigned i = 0; i < g->n_arrays; ++i) {
        const IndexArray *a = &g->array[i];
        for (int k = 0; k < a->nd; ++k) {
            size_t *length = &g->joint[g->n_joint - (unsigned)a->nd + (unsigned)k];
            if (*length == 1)
                *length = a->dim[k];
            else if (a->dim[k] != 1 && a->dim[k] != *length) {
                PyErr_Format(PyExc_IndexError,
                             "shape mismatch: indexing arrays could not be broadcast together: lengths %zu and %zu",
                             *length, a->dim[k]);
                return -1;
            }
        }
    }
    g->count = 1;
    for (unsigned k = 0; k < g->n_joint; ++k)
        g->count *= g->joint[k];
    size_t unit = 0;
    for (unsigned i = 0; i < g->n_arrays; ++i) {
        IndexArray *a = &g->array[i];
        ssize_t step = 8;
        for (int k = a->nd - 1; k >= 0; --k) {
            ssize_t own = a->device == NULL ? step : a->device->ga.strides[k];
            a->step[g->n_joint - (unsigned)a->nd + (unsigned)k] = a->dim[k] == 1 ? 0 : own;
            step *= (ssize_t)a->dim[k];
        }
        for (size_t other = (size_t)(a->stride < 0 ? -a->stride : a->stride), rest; other != 0; other = rest) {
            rest = unit % other;
            unit = other;
        }
    }
    g->unit = unit == 0 ? 1 : (ssize_t)unit;
    return 0;
}

/* ---- offsets ---- */

static int64_t position_of(int64_t index, size_t size)
{
    return index < 0 ? index + (int64_t)size : index;
}

/* Compute the offsets from index arrays that are all on the host. If `offsets` is NULL, only check the bounds. */
static int host_offsets(Gather *g, int64_t *offsets)
{
    g->increasing = 1;
    if (g->n_arrays == 1) {
        const IndexArray *a = &g->array[0];
        const int64_t *index = PyArray_DATA(a->host);
        int64_t before = -1;
        for (size_t i = 0; i < g->count; ++i) {
            int64_t j = position_of(index[i], a->size);
            if ((uint64_t)j >= a->size)
                return out_of_bounds(index[i], a->axis, (Py_ssize_t)a->size);
            g->increasing &= j > before;
            before = j;
            if (offsets != NULL)
                offsets[i] = j * a->stride;
        }
        return 0;
    }
    size_t at[GA_MAX_DIMS] = {0};
    const char *here[GA_MAX_DIMS];
    int64_t before[GA_MAX_DIMS];
    for (unsigned k = 0; k < g->n_arrays; ++k) {
        here[k] = PyArray_BYTES(g->array[k].host);
        before[k] = -1;
    }
    for (size_t i = 0; i < g->count; ++i) {
        int64_t offset = 0;
        /* Compare this position with the previous position, index by index. `later`: this position comes after
         * the previous position. `decided`: an index differed, so `later` is final. */
        int later = i == 0, decided = later;
        for (unsigned k = 0; k < g->n_arrays; ++k) {
            const IndexArray *a = &g->array[k];
            int64_t index = *(const int64_t *)here[k], j = position_of(index, a->size);
            if ((uint64_t)j >= a->size)
                return out_of_bounds(index, a->axis, (Py_ssize_t)a->size);
            if (!decided && j != before[k]) {
                later = j > before[k];
                decided = 1;
            }
            before[k] = j;
            offset += j * a->stride;
        }
        g->increasing &= later;
        if (offsets != NULL)
            offsets[i] = offset;
        for (unsigned d = g->n_joint; d-- > 0;) {
            int wraps = ++at[d] == g->joint[d];
            for (unsigned k = 0; k < g->n_arrays; ++k)
                here[k] += wraps ? -(ssize_t)(g->joint[d] - 1) * g->array[k].step[d] : g->array[k].step[d];
            if (!wraps)
                break;
            at[d] = 0;
        }
    }
    return 0;
}

static gpudata *upload(gpucontext *ctx, const void *from, size_t size)
{
    int code;
    gpudata *made = gpudata_alloc(ctx, size, NULL, 0, &code);
    if (made != NULL && size > 0 && (code = gpudata_write(made, 0, from, size)) != GA_NO_ERROR) {
        gpudata_release(made);
        made = NULL;
    }
    if (made == NULL)
        gpu_failed(ctx, code, "indices");
    return made;
}

/* Compute the offsets by a kernel that reads the index arrays. `site` is the node's number for errors. */
static int device_offsets(Gather *g, gpucontext *ctx, gpukernel *kernel, unsigned site)
{
    int code;
    Arguments args = {0};
    if (g->n_joint * (1 + g->n_arrays) + 5 * g->n_arrays + 5 > sizeof args.at / sizeof *args.at) {
        PyErr_Format(PyExc_ValueError,
                     "%u index arrays of %u dimensions exceed the limit for devices; give them on the host",
                     g->n_arrays, g->n_joint);
        return -1;
    }
    for (unsigned i = 0; i < g->n_arrays; ++i) {
        IndexArray *a = &g->array[i];
        if (a->host != NULL
            && (a->uploaded = upload(ctx, PyArray_DATA(a->host), (size_t)PyArray_NBYTES(a->host))) == NULL)
            return -1;
    }
    index_watch watch;
    g->offsets = gpudata_alloc(ctx, g->count * sizeof(int64_t), NULL, 0, &code);
    if (g->offsets == NULL || (code = gpucontext_watch(ctx, site, &watch)) != GA_NO_ERROR)
        return gpu_failed(ctx, code, "indices");
    static const size_t zero = 0;
    args_push(&args, g->offsets);
    args_push(&args, watch.slots);
    args_push(&args, &watch.launch);
    args_push(&args, &g->count);
    for (unsigned i = 0; i < g->n_arrays; ++i) {
        IndexArray *a = &g->array[i];
        args_push(&args, a->device != NULL ? a->device->ga.data : a->uploaded);
        args_push(&args, a->device != NULL ? &a->device->ga.offset : &zero);
        args_push(&args, &a->size);
        args_push(&args, &a->stride);
    }
    for (unsigned d = 0; d < g->n_joint; ++d) {
        args_push(&args, &g->joint[d]);
        for (unsigned i = 0; i < g->n_arrays; ++i)
            args_push(&args, &g->array[i].step[d]);
    }
    g->increasing = g->count <= 1;
    return gpu_run_watched(kernel, g->count, &args, &watch, "indices");
}

/* Read the n indices of x. `kernel` reads index arrays on the device; it is NULL if no index array is on the device.
 * `site`: see device_offsets. The caller must call gather_close() in any case. */
static inline int gather_open(Gather *g, PyGpuArrayObject *x, int n, PyObject **in, gpukernel *kernel, unsigned site)
{
    int axis = 0, last = -1, together = 1, any = 0, on_device = 0;
    g->n_rest = g->position = g->n_arrays = 0;
    g->base = 0;
    g->offsets = NULL;
    for (int place = 0; place < n; ++place) {
        PyObject *value = in[place];
        if (value == Py_None)
            push_rest(g, 1, 0);
        else if (PySlice_Check(value)) {
            Py_ssize_t start, stop, step;
            if (PySlice_Unpack(value, &start, &stop, &step) < 0)
                return -1;
            ssize_t stride = x->ga.strides[axis],
                    length = PySlice_AdjustIndices((Py_ssize_t)x->ga.dimensions[axis], &start, &stop, step);
            if (length > 0)
                g->base += start * stride;
            push_rest(g, (size_t)length, length > 1 ? stride * step : stride);
            ++axis;
        }
        else {
            if (!any)
                g->position = g->n_rest;
            else if (last != place - 1)
                together = 0;
            any = 1;
            last = place;
            if (read_array(g, value, x, &axis) < 0)
                return -1;
        }
    }
    for (; axis < (int)x->ga.nd; ++axis)
        push_rest(g, x->ga.dimensions[axis], x->ga.strides[axis]);
    if (!together)
        g->position = 0;
    if (join_arrays(g) < 0)
        return -1;
    for (unsigned i = 0; i < g->n_arrays; ++i)
        on_device |= g->array[i].device != NULL;
    gpucontext *ctx = x->context->ctx;
    if (on_device)
        return device_offsets(g, ctx, kernel, site);
    int64_t few[64], *offsets = g->count <= 64 ? few : PyMem_Malloc(g->count * sizeof *offsets);
    if (offsets == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int status = host_offsets(g, offsets);
    if (status == 0 && (g->offsets = upload(ctx, offsets, g->count * sizeof *offsets)) == NULL)
        status = -1;
    if (offsets != few)
        PyMem_Free(offsets);
    return status;
}

/* Compute the shape of the result of indexing; return its rank. */
static inline unsigned gather_shape(const Gather *g, size_t *dims)
{
    unsigned nd = 0;
    for (unsigned i = 0; i < g->position; ++i)
        dims[nd++] = g->rest[i];
    for (unsigned i = 0; i < g->n_joint; ++i)
        dims[nd++] = g->joint[i];
    for (unsigned i = g->position; i < g->n_rest; ++i)
        dims[nd++] = g->rest[i];
    return nd;
}

#endif
