/* Advanced indexing: the byte offsets of the elements that integer arrays, masks, slices and None select in an array.
 *
 * The index arrays are broadcast together to the shape `bdim`; each of its `nb` positions gives one offset. `rest` has
 * the dimensions that no array indexes, and new dimensions. The result of indexing has the shape rest[:pos] + bdim +
 * rest[pos:]. Offsets are computed in chunks that stay in the first-level cache: no array holds all offsets. Indices
 * are read in their own dtype, without a conversion to int64. */
#ifndef THEANO_NG_GATHER_H
#define THEANO_NG_GATHER_H

#include "index_entries.h"
#include "common/strided.h"

/* The maximum number of offsets in a chunk. */
#define GATHER_CHUNK 1024

typedef struct {
    int nd;
    npy_intp dim[NPY_MAXDIMS], stride[NPY_MAXDIMS];
    char *data;
} BasicView;

/* Append to `view` the dimension that results if start:stop:step indexes an axis of length `size` and stride `stride`.
 * Move the data pointer of `view` to the first element of this slice. */
static inline void push_slice(BasicView *view, npy_intp size, npy_intp stride, npy_intp start, npy_intp stop,
                              npy_intp step)
{
    npy_intp length = PySlice_AdjustIndices(size, &start, &stop, step);
    if (length > 0)
        view->data += start * stride;
    view->dim[view->nd] = length;
    view->stride[view->nd++] = length > 1 ? stride * step : stride;
}

/* ---------------------------------------------------------------- one index array */

struct IndexArray;
/* Compute the offsets of n indices that are `step` bytes apart. Store the offsets in `offset` if `first`, else add them
 * to `offset`. If `offset` is NULL, only check the indices. */
typedef int (*add_indices_fn)(const struct IndexArray *a, const char *data, npy_intp step, npy_intp n, npy_intp *offset,
                              int first);

typedef struct IndexArray {
    PyArrayObject *array; /* owned reference: integer indices, or the offsets of the true elements of a mask */
    add_indices_fn add;
    int axis;
    npy_intp size, stride; /* length and stride of the indexed axis */
    const char *here;
    npy_intp step[NPY_MAXDIMS]; /* strides along the dimensions of the walk */
} IndexArray;

/* Turn the index j into a position: negative indices count from the end. An index that is out of bounds remains out of
 * bounds when it is compared as an unsigned integer. */
#define SIGNED_POSITION (j += (j >> 63) & size)
#define UNSIGNED_POSITION ((void)0)

#define INDEX_LOOP(T, POSITION, STEP, EFFECT)                       \
    for (npy_intp i = 0; i < n; ++i) {                              \
        npy_int64 j = (npy_int64) * (const T *)(data + i * (STEP)); \
        POSITION;                                                   \
        bad |= (npy_uint64)j >= (npy_uint64)size;                   \
        EFFECT;                                                     \
    }

#define DEFINE_ADD_INDICES(NAME, T, POSITION)                                                                          \
    STRIDED_CLONES static int NAME(const IndexArray *a, const char *data, npy_intp step, npy_intp n, npy_intp *offset, \
                                   int first)                                                                          \
    {                                                                                                                  \
        const npy_int64 size = a->size, stride = a->stride;                                                            \
        npy_uint64 bad = 0;                                                                                            \
        if (offset == NULL) {                                                                                          \
            if (step == (npy_intp)sizeof(T))                                                                           \
                INDEX_LOOP(T, POSITION, (npy_intp)sizeof(T), )                                                         \
            else                                                                                                       \
                INDEX_LOOP(T, POSITION, step, )                                                                        \
        }                                                                                                              \
        else if (!first)                                                                                               \
            INDEX_LOOP(T, POSITION, step, offset[i] += j * stride)                                                     \
        else if (step == (npy_intp)sizeof(T))                                                                          \
            INDEX_LOOP(T, POSITION, (npy_intp)sizeof(T), offset[i] = j * stride)                                       \
        else                                                                                                           \
            INDEX_LOOP(T, POSITION, step, offset[i] = j * stride)                                                      \
        if (!bad)                                                                                                      \
            return 0;                                                                                                  \
        for (npy_intp i = 0; i < n; ++i) {                                                                             \
            T raw = *(const T *)(data + i * step);                                                                     \
            npy_int64 j = (npy_int64)raw;                                                                              \
            POSITION;                                                                                                  \
            if ((npy_uint64)j < (npy_uint64)size)                                                                      \
                continue;                                                                                              \
            if (raw > 0 && (npy_uint64)raw > (npy_uint64)NPY_MAX_INT64)                                                \
                PyErr_Format(PyExc_IndexError,                                                                         \
                             "index out of bounds: index %llu is out of bounds for axis %d with size %zd",             \
                             (unsigned long long)raw, a->axis, (Py_ssize_t)size);                                      \
            else                                                                                                       \
                out_of_bounds((npy_intp)raw, a->axis, size);                                                           \
            break;                                                                                                     \
        }                                                                                                              \
        return -1;                                                                                                     \
    }
DEFINE_ADD_INDICES(add_int8, npy_int8, SIGNED_POSITION)
DEFINE_ADD_INDICES(add_int16, npy_int16, SIGNED_POSITION)
DEFINE_ADD_INDICES(add_int32, npy_int32, SIGNED_POSITION)
DEFINE_ADD_INDICES(add_int64, npy_int64, SIGNED_POSITION)
DEFINE_ADD_INDICES(add_uint8, npy_uint8, UNSIGNED_POSITION)
DEFINE_ADD_INDICES(add_uint16, npy_uint16, UNSIGNED_POSITION)
DEFINE_ADD_INDICES(add_uint32, npy_uint32, UNSIGNED_POSITION)
DEFINE_ADD_INDICES(add_uint64, npy_uint64, UNSIGNED_POSITION)

static int add_offsets(const IndexArray *a, const char *data, npy_intp step, npy_intp n, npy_intp *offset, int first)
{
    (void)a;
    for (npy_intp i = 0; offset != NULL && i < n; ++i) {
        npy_intp own = *(const npy_intp *)(data + i * step);
        offset[i] = first ? own : offset[i] + own;
    }
    return 0;
}

static add_indices_fn adder_of_indices(PyArrayObject *array)
{
    static const add_indices_fn with_sign[] = {add_int8, add_int16, add_int32, add_int64};
    static const add_indices_fn without[] = {add_uint8, add_uint16, add_uint32, add_uint64};
    npy_intp size = PyArray_ITEMSIZE(array);
    int place = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : -1;
    if (place >= 0 && PyTypeNum_ISSIGNED(PyArray_TYPE(array)))
        return with_sign[place];
    if (place >= 0 && PyTypeNum_ISUNSIGNED(PyArray_TYPE(array)))
        return without[place];
    PyErr_Format(PyExc_IndexError, "arrays used as indices must be of integer (or boolean) type, not %R",
                 PyArray_DESCR(array));
    return NULL;
}

static int strided_ranges_meet_or_null(PyArrayObject *a, PyArrayObject *target)
{
    return target != NULL && strided_ranges_meet(a, target);
}

/* Read an array of integers that indexes an axis. `target`: the array that will be written, or NULL. Indices that share
 * memory with `target` are copied. */
static int read_integers(IndexArray *a, PyObject *value, PyArrayObject *x, int axis, PyArrayObject *target)
{
    PyArrayObject *given = (PyArrayObject *)value;
    a->array = NULL;
    if (!PyArray_Check(value))
        a->array = (PyArrayObject *)PyArray_FROM_OF(value, NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED);
    else if (strided_ranges_meet_or_null(given, target) || !PyArray_ISBEHAVED_RO(given)) {
        PyArray_Descr *descr = PyArray_DescrFromType(PyArray_TYPE(given));
        if (descr != NULL)
            a->array = (PyArrayObject *)PyArray_FromArray(
                given, descr, NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED | NPY_ARRAY_ENSURECOPY);
    }
    else {
        Py_INCREF(given);
        a->array = given;
    }
    a->axis = axis;
    a->size = PyArray_DIM(x, axis);
    a->stride = PyArray_STRIDE(x, axis);
    a->add = a->array == NULL ? NULL : adder_of_indices(a->array);
    return a->add == NULL ? -1 : 0;
}

/* ---------------------------------------------------------------- all indices */

typedef struct {
    BasicView rest;
    int pos, bnd;
    npy_intp bdim[NPY_MAXDIMS], nb;
    int n_arrays;
    IndexArray array[NPY_MAXDIMS];
    npy_intp base; /* sum of the offsets of all 0-d index arrays */
    /* The walk over the positions of `bdim`. `dim` has the dimensions of `bdim`, with adjacent dimensions merged. If a
     * mask is the only index array, the walk is over the mask's dimensions. */
    int nd;
    npy_intp dim[NPY_MAXDIMS], at[NPY_MAXDIMS], left;
    PyArrayObject *mask; /* owned */
    npy_intp mask_step[NPY_MAXDIMS], step[NPY_MAXDIMS];
    const char *mask_here;
    npy_intp here;
} Gather;

static void gather_close(Gather *g)
{
    for (int i = 0; i < g->n_arrays; ++i)
        Py_CLEAR(g->array[i].array);
    g->n_arrays = 0;
    Py_CLEAR(g->mask);
}

static void gather_start(Gather *g)
{
    for (int k = 0; k < g->nd; ++k)
        g->at[k] = 0;
    g->left = g->nb;
    for (int i = 0; i < g->n_arrays; ++i)
        g->array[i].here = PyArray_BYTES(g->array[i].array);
    if (g->mask != NULL) {
        g->mask_here = PyArray_BYTES(g->mask);
        g->here = g->base;
    }
}

/* Write the offsets of the true elements among n elements of a mask; the first element has the offset `here`. Return
 * the number of offsets. */
static npy_intp read_mask_run(const char *mask, npy_intp mask_step, npy_intp n, npy_intp here, npy_intp step,
                              npy_intp *offset)
{
    npy_intp count = 0, i = 0;
    if (mask_step == 1)
        for (; i + 8 <= n; i += 8) {
            npy_uint64 word;
            memcpy(&word, mask + i, 8);
            if (word == 0)
                continue;
            for (int k = 0; k < 8; ++k) {
                offset[count] = here + (i + k) * step;
                count += mask[i + k] != 0;
            }
        }
    for (; i < n; ++i) {
        offset[count] = here + i * step;
        count += mask[i * mask_step] != 0;
    }
    return count;
}

/* Write the next offsets of a walk over a mask, and return their number. A mask has no indices that could be out of
 * bounds, so there are no errors. */
static npy_intp next_of_mask(Gather *g, npy_intp *offset)
{
    int last = g->nd - 1;
    npy_intp count = 0;
    /* The loop ends when at most 64 positions of the chunk are free. A run reads at most as many mask elements as there
     * are free positions, so filling the last positions would take many short runs. */
    while (g->left > 0 && count < GATHER_CHUNK - 64) {
        npy_intp run = last < 0 ? 1 : g->dim[last] - g->at[last], room = GATHER_CHUNK - count;
        if (run > room)
            run = room;
        npy_intp found = read_mask_run(g->mask_here, last < 0 ? 0 : g->mask_step[last], run, g->here,
                                       last < 0 ? 0 : g->step[last], offset + count);
        count += found;
        g->left -= found;
        for (int k = last; k >= 0; --k) {
            npy_intp moved = k == last ? run : 1;
            g->at[k] += moved;
            g->mask_here += g->mask_step[k] * moved;
            g->here += g->step[k] * moved;
            if (g->at[k] < g->dim[k])
                break;
            g->mask_here -= g->mask_step[k] * g->dim[k];
            g->here -= g->step[k] * g->dim[k];
            g->at[k] = 0;
        }
    }
    return count;
}

static npy_intp next_offsets(Gather *g, npy_intp *offset)
{
    if (g->mask != NULL)
        return next_of_mask(g, offset);
    int last = g->nd - 1;
    npy_intp count = g->left < GATHER_CHUNK ? g->left : GATHER_CHUNK;
    for (npy_intp done = 0; done < count;) {
        npy_intp run = last < 0 ? 1 : g->dim[last] - g->at[last];
        if (run > count - done)
            run = count - done;
        if (g->n_arrays == 0)
            offset[done] = 0;
        for (int i = 0; i < g->n_arrays; ++i) {
            IndexArray *a = &g->array[i];
            if (a->add(a, a->here, last < 0 ? 0 : a->step[last], run, offset + done, i == 0) < 0)
                return -1;
        }
        if (g->base != 0)
            for (npy_intp b = done; b < done + run; ++b)
                offset[b] += g->base;
        done += run;
        for (int k = last; k >= 0; --k) {
            npy_intp moved = k == last ? run : 1;
            g->at[k] += moved;
            for (int i = 0; i < g->n_arrays; ++i)
                g->array[i].here += g->array[i].step[k] * moved;
            if (g->at[k] < g->dim[k])
                break;
            for (int i = 0; i < g->n_arrays; ++i)
                g->array[i].here -= g->array[i].step[k] * g->dim[k];
            g->at[k] = 0;
        }
    }
    g->left -= count;
    return count;
}

/* Check all indices, before anything is written. */
static int gather_check(Gather *g)
{
    for (int i = 0; g->nb > 0 && i < g->n_arrays; ++i) {
        IndexArray *a = &g->array[i];
        npy_intp size = PyArray_ITEMSIZE(a->array), n = PyArray_SIZE(a->array);
        int nd = PyArray_NDIM(a->array);
        if (nd > 1 && !PyArray_IS_C_CONTIGUOUS(a->array) && !PyArray_IS_F_CONTIGUOUS(a->array)) {
            PyArrayObject *copy = (PyArrayObject *)PyArray_NewCopy(a->array, NPY_CORDER);
            if (copy == NULL)
                return -1;
            int status = a->add(a, PyArray_BYTES(copy), size, n, NULL, 1);
            Py_DECREF(copy);
            if (status < 0)
                return -1;
        }
        else if (a->add(a, PyArray_BYTES(a->array), nd == 1 ? PyArray_STRIDE(a->array, 0) : size, n, NULL, 1) < 0)
            return -1;
    }
    return 0;
}

/* Return 0 if a mask has the same shape as the axes that it indexes, else -1 with an exception set. */
static int check_mask(PyArrayObject *mask, PyArrayObject *x, int axis)
{
    for (int k = 0; k < PyArray_NDIM(mask); ++k)
        if (PyArray_DIM(mask, k) != PyArray_DIM(x, axis + k)) {
            PyErr_Format(PyExc_IndexError,
                         "boolean index did not match indexed array along axis %d; size of axis is %zd but size of "
                         "corresponding "
                         "boolean axis is %zd",
                         axis + k, (Py_ssize_t)PyArray_DIM(x, axis + k), (Py_ssize_t)PyArray_DIM(mask, k));
            return -1;
        }
    return 0;
}

/* Prepare the walk over a mask that selects elements along the axes from `axis` on. */
static int walk_mask(Gather *g, PyArrayObject *mask, PyArrayObject *x, int axis)
{
    g->nd = 0;
    for (int k = 0; k < PyArray_NDIM(mask); ++k) {
        npy_intp dim = PyArray_DIM(mask, k), mask_step = PyArray_STRIDE(mask, k), step = PyArray_STRIDE(x, axis + k);
        int last = g->nd - 1;
        if (dim == 1)
            continue;
        if (last >= 0 && g->mask_step[last] == mask_step * dim && g->step[last] == step * dim)
            g->dim[last] *= dim;
        else
            g->dim[++last] = dim;
        g->mask_step[last] = mask_step;
        g->step[last] = step;
        g->nd = last + 1;
    }
    npy_intp count = PyArray_CountNonzero(mask);
    if (count < 0)
        return -1;
    Py_INCREF(mask);
    g->mask = mask;
    g->bnd = 1;
    g->nb = g->bdim[0] = count;
    return 0;
}

/* Read a mask that is combined with other index arrays: store the offsets of its true elements as a vector. */
static int read_mask(IndexArray *a, PyArrayObject *mask, PyArrayObject *x, int axis)
{
    Gather walk;
    npy_intp buffer[GATHER_CHUNK];
    walk.n_arrays = 0;
    walk.base = 0;
    walk.mask = NULL;
    a->array = NULL;
    if (walk_mask(&walk, mask, x, axis) < 0)
        return -1;
    a->array = (PyArrayObject *)PyArray_SimpleNew(1, &walk.nb, NPY_INTP);
    if (a->array != NULL) {
        npy_intp *offset = PyArray_DATA(a->array);
        gather_start(&walk);
        for (npy_intp n; (n = next_of_mask(&walk, buffer)) > 0; offset += n)
            memcpy(offset, buffer, (size_t)n * sizeof *offset);
    }
    a->add = add_offsets;
    a->axis = axis;
    gather_close(&walk);
    return a->array == NULL ? -1 : 0;
}

/* Broadcast the index arrays together. */
static int join_arrays(Gather *g)
{
    g->bnd = 0;
    for (int i = 0; i < g->n_arrays; ++i)
        if (PyArray_NDIM(g->array[i].array) > g->bnd)
            g->bnd = PyArray_NDIM(g->array[i].array);
    for (int k = 0; k < g->bnd; ++k)
        g->bdim[k] = 1;
    for (int i = 0; i < g->n_arrays; ++i) {
        PyArrayObject *array = g->array[i].array;
        int nd = PyArray_NDIM(array);
        for (int k = 0; k < nd; ++k) {
            npy_intp length = PyArray_DIM(array, k), *dim = &g->bdim[g->bnd - nd + k];
            if (length != 1 && *dim != 1 && *dim != length) {
                PyErr_Format(PyExc_IndexError,
                             "shape mismatch: indexing arrays could not be broadcast together (lengths %zd and %zd in "
                             "dimension %d)",
                             (Py_ssize_t)*dim, (Py_ssize_t)length, g->bnd - nd + k);
                return -1;
            }
            if (length != 1)
                *dim = length;
        }
    }
    g->nb = 1;
    for (int k = 0; k < g->bnd; ++k)
        if (g->bdim[k] == 0)
            g->nb = 0;
    for (int k = 0; g->nb != 0 && k < g->bnd; ++k)
        if (__builtin_mul_overflow(g->nb, g->bdim[k], &g->nb)) {
            PyErr_SetString(PyExc_ValueError, "the index arrays broadcast together to too many positions");
            return -1;
        }
    /* Check the 0-d index arrays, and add up their offsets. The other index arrays are read at each position of `bdim`,
     * so they are not checked if `bdim` has no positions. */
    g->base = 0;
    g->nd = 0;
    for (int i = 0; i < g->n_arrays; ++i) {
        IndexArray *a = &g->array[i];
        if (PyArray_NDIM(a->array) == 0) {
            npy_intp own;
            if (a->add(a, PyArray_BYTES(a->array), 0, 1, &own, 1) < 0)
                return -1;
            g->base += own;
            Py_DECREF(a->array);
            g->array[i--] = g->array[--g->n_arrays];
        }
    }
    for (int k = 0; k < g->bnd; ++k) {
        if (g->bdim[k] == 1)
            continue;
        int last = g->nd - 1, joins = last >= 0;
        for (int i = 0; i < g->n_arrays; ++i) {
            IndexArray *a = &g->array[i];
            int own = k - (g->bnd - PyArray_NDIM(a->array));
            a->step[last + 1] = own < 0 || PyArray_DIM(a->array, own) == 1 ? 0 : PyArray_STRIDE(a->array, own);
            joins = joins && a->step[last] == a->step[last + 1] * g->bdim[k];
        }
        if (!joins) {
            g->dim[g->nd++] = g->bdim[k];
            continue;
        }
        g->dim[last] *= g->bdim[k];
        for (int i = 0; i < g->n_arrays; ++i)
            g->array[i].step[last] = g->array[i].step[last + 1];
    }
    return 0;
}

static int is_mask(PyObject *value)
{
    return PyArray_Check(value) && PyArray_TYPE((PyArrayObject *)value) == NPY_BOOL;
}

/* Read the indices of x: integer arrays, masks, slices, None. `target`: see read_integers. The caller must call
 * gather_close, also after an error. */
static int read_gather(Gather *g, PyArrayObject *x, int n, PyObject **in, PyArrayObject *target)
{
    int axis = 0, nd = PyArray_NDIM(x), last = -1, together = 1, used = 0, arrays = 0;
    g->n_arrays = 0;
    g->mask = NULL;
    g->pos = 0;
    g->base = 0;
    g->rest.nd = 0;
    g->rest.data = PyArray_BYTES(x);
    for (int e = 0; e < n; ++e) {
        used += is_mask(in[e]) ? PyArray_NDIM((PyArrayObject *)in[e]) : in[e] != Py_None;
        arrays += in[e] != Py_None && !PySlice_Check(in[e]);
    }
    if (used > nd) {
        PyErr_Format(PyExc_IndexError, "too many indices for array: array is %d-dimensional, but %d were indexed", nd,
                     used);
        return -1;
    }
    if (arrays > NPY_MAXDIMS) {
        PyErr_Format(PyExc_IndexError, "too many index arrays: %d", arrays);
        return -1;
    }
    for (int e = 0; e < n; ++e) {
        if (in[e] == Py_None || PySlice_Check(in[e])) {
            if (g->rest.nd >= NPY_MAXDIMS)
                goto too_many;
            if (in[e] == Py_None) {
                g->rest.dim[g->rest.nd] = 1;
                g->rest.stride[g->rest.nd++] = 0;
                continue;
            }
            Py_ssize_t start, stop, step;
            if (PySlice_Unpack(in[e], &start, &stop, &step) < 0)
                return -1;
            push_slice(&g->rest, PyArray_DIM(x, axis), PyArray_STRIDE(x, axis), start, stop, step);
            ++axis;
            continue;
        }
        if (last < 0)
            g->pos = g->rest.nd;
        else
            together &= last == e - 1;
        last = e;
        if (is_mask(in[e])) {
            PyArrayObject *mask = (PyArrayObject *)in[e];
            if (check_mask(mask, x, axis) < 0)
                return -1;
            if (arrays == 1 && !strided_ranges_meet_or_null(mask, target)) {
                if (walk_mask(g, mask, x, axis) < 0)
                    return -1;
            }
            else if (read_mask(&g->array[g->n_arrays++], mask, x, axis) < 0)
                return -1;
            axis += PyArray_NDIM(mask);
        }
        else if (read_integers(&g->array[g->n_arrays++], in[e], x, axis++, target) < 0)
            return -1;
    }
    if (!together)
        g->pos = 0;
    if (g->rest.nd + nd - axis > NPY_MAXDIMS)
        goto too_many;
    for (; axis < nd; ++axis) {
        g->rest.dim[g->rest.nd] = PyArray_DIM(x, axis);
        g->rest.stride[g->rest.nd++] = PyArray_STRIDE(x, axis);
    }
    if (g->mask == NULL && join_arrays(g) < 0)
        return -1;
    if (g->bnd + g->rest.nd <= NPY_MAXDIMS)
        return 0;
too_many:
    PyErr_SetString(PyExc_IndexError, "the result of indexing has too many dimensions");
    return -1;
}

/* Store the shape of the result; return its number of dimensions. */
static int gather_shape(const Gather *g, npy_intp *dim)
{
    int nd = 0;
    for (int k = 0; k < g->pos; ++k)
        dim[nd++] = g->rest.dim[k];
    for (int k = 0; k < g->bnd; ++k)
        dim[nd++] = g->bdim[k];
    for (int k = g->pos; k < g->rest.nd; ++k)
        dim[nd++] = g->rest.dim[k];
    return nd;
}

/* Split the strides of the result's dimensions into the strides of the `rest` dimensions and of the index
 * dimensions. */
static void gather_strides(const Gather *g, const npy_intp *stride, npy_intp *rest, npy_intp *index)
{
    for (int k = 0; k < g->pos; ++k)
        rest[k] = *stride++;
    for (int k = 0; k < g->bnd; ++k)
        index[k] = *stride++;
    for (int k = g->pos; k < g->rest.nd; ++k)
        rest[k] = *stride++;
}

#endif
