/* Native code of the indexing Ops: views by integers and slices, gathers and scatters by arrays and masks. */
#include "strided.h"

static int out_of_bounds(npy_intp index, int axis, npy_intp size)
{
    PyErr_Format(PyExc_IndexError, "index out of bounds: index %zd is out of bounds for axis %d with size %zd", (Py_ssize_t)index,
                 axis, (Py_ssize_t)size);
    return -1;
}

/* ---------------------------------------------------------------- basic indexing
 *
 * The Op's idx_list as words: number of entries, then for an integer
 *     0, field
 * and for a slice
 *     1, field (start), field (stop), field (step)
 * where a field is (FIELD_NONE, 0), (FIELD_VALUE, the number) or (FIELD_INPUT, index into `in`).
 */
enum { ENTRY_INTEGER, ENTRY_SLICE };
enum { FIELD_NONE, FIELD_VALUE, FIELD_INPUT };

typedef struct {
    int nd;
    npy_intp dim[NPY_MAXDIMS], stride[NPY_MAXDIMS];
    char *data;
} BasicView;

static inline int read_field(const int64_t *word, PyObject **in, npy_intp absent, npy_intp *value)
{
    if (word[0] == FIELD_VALUE)
        *value = (npy_intp)word[1];
    else if (word[0] == FIELD_INPUT) {
        int64_t number;
        if (native_as_int64(in[word[1]], &number) < 0)
            return -1;
        *value = (npy_intp)number;
    }
    else
        *value = absent;
    return 0;
}

/* Appends the dimension that a slice leaves of (size, stride) and moves the data pointer. */
static inline void push_slice(BasicView *view, npy_intp size, npy_intp stride, npy_intp start, npy_intp stop, npy_intp step)
{
    npy_intp length = PySlice_AdjustIndices(size, &start, &stop, step);
    if (length > 0)
        view->data += start * stride;
    view->dim[view->nd] = length;
    view->stride[view->nd++] = length > 1 ? stride * step : stride;
}

static int index_basic(const int64_t *word, PyObject **in, PyArrayObject *x, BasicView *view)
{
    int n = (int)*word++, axis = 0, nd = PyArray_NDIM(x);
    view->nd = 0;
    view->data = PyArray_BYTES(x);
    if (n > nd) {
        PyErr_Format(PyExc_IndexError, "too many indices for array: array is %d-dimensional, but %d were indexed", nd, n);
        return -1;
    }
    for (; axis < n; ++axis) {
        npy_intp size = PyArray_DIM(x, axis), stride = PyArray_STRIDE(x, axis), start, stop, step;
        if (*word++ == ENTRY_INTEGER) {
            if (read_field(word, in, 0, &start) < 0)
                return -1;
            word += 2;
            if (start < -size || start >= size)
                return out_of_bounds(start, axis, size);
            view->data += (start < 0 ? start + size : start) * stride;
            continue;
        }
        if (read_field(word + 4, in, 1, &step) < 0)
            return -1;
        if (step == 0) {
            PyErr_SetString(PyExc_ValueError, "slice step cannot be zero");
            return -1;
        }
        if (step < -NPY_MAX_INTP)
            step = -NPY_MAX_INTP;
        if (read_field(word, in, step < 0 ? NPY_MAX_INTP : 0, &start) < 0
            || read_field(word + 2, in, step < 0 ? NPY_MIN_INTP : NPY_MAX_INTP, &stop) < 0)
            return -1;
        word += 6;
        push_slice(view, size, stride, start, stop, step);
    }
    for (; axis < nd; ++axis) {
        view->dim[view->nd] = PyArray_DIM(x, axis);
        view->stride[view->nd++] = PyArray_STRIDE(x, axis);
    }
    return 0;
}

/* params: idx_list. Inputs: x, indices. */
static int tng_subtensor(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    BasicView view;
    if (index_basic(params, in, (PyArrayObject *)in[0], &view) < 0)
        return -1;
    PyObject *z = strided_view((PyArrayObject *)in[0], view.nd, view.dim, view.stride, view.data);
    if (z == NULL)
        return -1;
    native_set(out, z);
    return 0;
}

/* ---------------------------------------------------------------- what increments share */

/* The array to write into: x itself, or a copy of it in *out. Returns a borrowed reference, or NULL. */
static PyArrayObject *target_of(PyObject *value, PyObject **out, int inplace)
{
    PyArrayObject *x = (PyArrayObject *)value;
    if (inplace) {
        if (PyArray_FailUnlessWriteable(x, "the input of an in-place increment") < 0)
            return NULL;
        Py_INCREF(x);
        native_set(out, (PyObject *)x);
        return x;
    }
    PyArrayObject *z = native_alloc(out, PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x));
    if (z == NULL || z == x)
        return z;
    if (PyArray_IS_C_CONTIGUOUS(x))
        memcpy(PyArray_DATA(z), PyArray_DATA(x), (size_t)PyArray_NBYTES(x));
    else
        strided_copy(PyArray_ITEMSIZE(x), PyArray_NDIM(x), PyArray_DIMS(x), PyArray_BYTES(z), PyArray_STRIDES(z), PyArray_BYTES(x),
                     PyArray_STRIDES(x));
    return z;
}

/* y in the dtype of z, and not in memory that writing into z would change. New reference. */
static PyArrayObject *source_for(PyObject *value, PyArrayObject *z)
{
    PyArrayObject *y = (PyArrayObject *)value;
    if (PyArray_TYPE(y) != PyArray_TYPE(z) || !PyArray_ISNOTSWAPPED(y)) {
        PyArray_Descr *descr = PyArray_DescrFromType(PyArray_TYPE(z));
        return descr == NULL ? NULL : (PyArrayObject *)PyArray_FromArray(y, descr, NPY_ARRAY_ALIGNED | NPY_ARRAY_FORCECAST);
    }
    if (strided_ranges_meet(y, z))
        return (PyArrayObject *)PyArray_NewCopy(y, NPY_ANYORDER);
    Py_INCREF(y);
    return y;
}

/* Strides by which y broadcasts to a shape. Returns 0, or -1 with an exception set. */
static int broadcast_strides(PyArrayObject *y, int nd, const npy_intp *dim, npy_intp *stride)
{
    int extra = PyArray_NDIM(y) - nd, bad = 0;
    for (int i = 0; i < extra; ++i)
        bad |= PyArray_DIM(y, i) != 1;
    for (int i = 0; i < nd; ++i) {
        int k = i + extra;
        npy_intp length = k < 0 ? 1 : PyArray_DIM(y, k);
        stride[i] = length == 1 ? 0 : PyArray_STRIDE(y, k);
        bad |= length != 1 && length != dim[i];
    }
    if (!bad)
        return 0;
    PyObject *wanted = PyTuple_New(nd), *given = PyTuple_New(PyArray_NDIM(y));
    for (int i = 0; wanted != NULL && i < nd; ++i)
        PyTuple_SET_ITEM(wanted, i, PyLong_FromSsize_t(dim[i]));
    for (int i = 0; given != NULL && i < PyArray_NDIM(y); ++i)
        PyTuple_SET_ITEM(given, i, PyLong_FromSsize_t(PyArray_DIM(y, i)));
    if (wanted != NULL && given != NULL)
        PyErr_Format(PyExc_ValueError, "could not broadcast input array from shape %R into shape %R", given, wanted);
    Py_XDECREF(wanted);
    Py_XDECREF(given);
    return -1;
}

/* The function that adds rows of this dtype; NULL with an exception set when there is none. */
static inc_row_fn adder_for(PyArrayObject *z)
{
    inc_row_fn add = inc_row_for(PyArray_DESCR(z)->kind, (int)PyArray_ITEMSIZE(z));
    if (add == NULL)
        PyErr_Format(PyExc_TypeError, "cannot increment an array of dtype %R", PyArray_DESCR(z));
    return add;
}

/* params: inplace, set_instead_of_inc, idx_list. Inputs: x, y, indices. */
static int tng_inc_subtensor(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    BasicView view;
    npy_intp sy[NPY_MAXDIMS];
    PyArrayObject *z = target_of(in[0], out, (int)params[0]);
    if (z == NULL || index_basic(params + 2, in, z, &view) < 0)
        return -1;
    PyArrayObject *y = source_for(in[1], z);
    if (y == NULL)
        return -1;
    int status = broadcast_strides(y, view.nd, view.dim, sy);
    StridedPlan plan;
    if (status == 0 && strided_plan(&plan, view.nd, view.dim, view.stride, sy) > 0) {
        inc_row_fn add;
        if (params[1])
            strided_copy_planned(PyArray_ITEMSIZE(z), &plan, view.data, PyArray_BYTES(y));
        else if ((add = adder_for(z)) != NULL)
            strided_add_planned(add, &plan, view.data, PyArray_BYTES(y));
        else
            status = -1;
    }
    Py_DECREF(y);
    return status;
}

/* ---------------------------------------------------------------- advanced indexing
 *
 * The index arrays, broadcast together to `bdim`, give one byte offset into x for each of their `nb` positions; the dimensions of
 * x that no array indexes (and new ones) are `rest`. The result has the shape rest[:pos] + bdim + rest[pos:].
 */
typedef struct {
    BasicView rest;
    int pos, bnd;
    npy_intp bdim[NPY_MAXDIMS], nb;
    npy_intp *offset;
} Gather;

/* One index array (or mask turned into one) on one or more axes: `at` holds axis-wise positions. */
typedef struct {
    PyArrayObject *index; /* aligned intp array, owned; NULL for a mask */
    npy_intp *offset;     /* a mask's byte offsets, owned */
    npy_intp count;       /* a mask's number of true elements */
    int axis;
    npy_intp size, stride;
} IndexArray;

/* Byte offset of every position of a shape, last dimension fastest. */
static void fill_offsets(int nd, const npy_intp *dim, const npy_intp *stride, npy_intp n, npy_intp *offset)
{
    npy_intp at[NPY_MAXDIMS];
    for (int k = 0; k < nd; ++k)
        at[k] = 0;
    npy_intp here = 0, inner = nd > 0 ? dim[nd - 1] : 1, step = nd > 0 ? stride[nd - 1] : 0;
    for (npy_intp i = 0; i < n;) {
        for (npy_intp j = 0; j < inner; ++j)
            offset[i++] = here + j * step;
        for (int k = nd - 2; k >= 0; --k) {
            here += stride[k];
            if (++at[k] < dim[k])
                break;
            here -= stride[k] * dim[k];
            at[k] = 0;
        }
    }
}

static npy_intp *new_offsets(npy_intp n)
{
    npy_intp *offset = PyMem_Malloc((size_t)(n > 0 ? n : 1) * sizeof *offset);
    if (offset == NULL)
        PyErr_NoMemory();
    return offset;
}

#define ADD_INDICES(T)                                                                                            \
    for (npy_intp i = 0; i < n; ++i) {                                                                            \
        T raw;                                                                                                    \
        memcpy(&raw, data + i * step, sizeof raw);                                                                \
        npy_intp j = (npy_intp)raw;                                                                               \
        if (j < -size || j >= size)                                                                               \
            return out_of_bounds(j, axis, size);                                                                  \
        offset[i] = (j < 0 ? j + size : j) * stride;                                                              \
    }                                                                                                             \
    return 0

/* offset[i] = data[i] * stride, checked; data: n items of a dtype, `step` bytes apart. */
static int offsets_of_vector(int type, const char *data, npy_intp step, npy_intp n, npy_intp size, npy_intp stride, int axis,
                             npy_intp *offset)
{
    if (type == NPY_INT32) {
        ADD_INDICES(npy_int32);
    }
    ADD_INDICES(npy_intp);
}

static void free_arrays(IndexArray *array, int n)
{
    for (int i = 0; i < n; ++i) {
        Py_XDECREF(array[i].index);
        PyMem_Free(array[i].offset);
    }
}

/* A mask over the axes axis .. axis+ndim(mask)-1 of x as byte offsets of its true elements. */
static int read_mask(PyArrayObject *mask, PyArrayObject *x, int axis, IndexArray *array)
{
    int nd = PyArray_NDIM(mask);
    npy_intp size = PyArray_SIZE(mask), stride[NPY_MAXDIMS];
    for (int k = 0; k < nd; ++k)
        if (PyArray_DIM(mask, k) != PyArray_DIM(x, axis + k)) {
            PyErr_Format(PyExc_IndexError,
                         "boolean index did not match indexed array along axis %d; size of axis is %zd but size of corresponding "
                         "boolean axis is %zd",
                         axis + k, (Py_ssize_t)PyArray_DIM(x, axis + k), (Py_ssize_t)PyArray_DIM(mask, k));
            return -1;
        }
    npy_intp *where = new_offsets(size), *offset = new_offsets(size);
    array->offset = offset;
    if (where == NULL || offset == NULL) {
        PyMem_Free(where);
        return -1;
    }
    for (int k = 0; k < nd; ++k)
        stride[k] = PyArray_STRIDE(x, axis + k);
    fill_offsets(nd, PyArray_DIMS(mask), PyArray_STRIDES(mask), size, where);
    fill_offsets(nd, PyArray_DIMS(mask), stride, size, offset);
    npy_intp count = 0;
    const char *data = PyArray_BYTES(mask);
    for (npy_intp i = 0; i < size; ++i) {
        offset[count] = offset[i];
        count += data[where[i]] != 0;
    }
    array->count = count;
    PyMem_Free(where);
    return 0;
}

/* Checks the integers of an index whose result has no elements; NumPy checks them then, but not the arrays. */
static int check_integer(const IndexArray *array)
{
    if (array->index == NULL || PyArray_NDIM(array->index) != 0)
        return 0;
    npy_intp j = *(const npy_intp *)PyArray_DATA(array->index);
    return j < -array->size || j >= array->size ? out_of_bounds(j, array->axis, array->size) : 0;
}

/* Broadcasts the index arrays together and sums their offsets. Returns 0, or -1 with an exception set. */
static int join_arrays(Gather *g, const IndexArray *array, int n)
{
    g->bnd = 0;
    for (int i = 0; i < n; ++i) {
        int nd = array[i].index == NULL ? 1 : PyArray_NDIM(array[i].index);
        if (nd > g->bnd)
            g->bnd = nd;
    }
    for (int k = 0; k < g->bnd; ++k)
        g->bdim[k] = 1;
    for (int i = 0; i < n; ++i) {
        int nd = array[i].index == NULL ? 1 : PyArray_NDIM(array[i].index);
        for (int k = 0; k < nd; ++k) {
            npy_intp length = array[i].index == NULL ? array[i].count : PyArray_DIM(array[i].index, k);
            npy_intp *dim = &g->bdim[g->bnd - nd + k];
            if (length != 1 && *dim != 1 && *dim != length) {
                PyErr_Format(PyExc_IndexError,
                             "shape mismatch: indexing arrays could not be broadcast together (lengths %zd and %zd in dimension %d)",
                             (Py_ssize_t)*dim, (Py_ssize_t)length, g->bnd - nd + k);
                return -1;
            }
            if (length != 1)
                *dim = length;
        }
    }
    g->nb = 1;
    for (int k = 0; k < g->bnd; ++k)
        g->nb *= g->bdim[k];
    for (int i = 0; i < n && g->nb == 0; ++i)
        if (check_integer(&array[i]) < 0)
            return -1;
    g->offset = new_offsets(g->nb);
    if (g->offset == NULL)
        return -1;
    memset(g->offset, 0, (size_t)g->nb * sizeof *g->offset);
    npy_intp *where = new_offsets(g->nb);
    if (where == NULL)
        return -1;
    for (int i = 0; i < n; ++i) {
        npy_intp stride[NPY_MAXDIMS];
        int nd = array[i].index == NULL ? 1 : PyArray_NDIM(array[i].index);
        for (int k = 0; k < g->bnd; ++k) {
            int own = k - (g->bnd - nd);
            if (array[i].index == NULL)
                stride[k] = own < 0 || array[i].count == 1 ? 0 : (npy_intp)sizeof(npy_intp);
            else
                stride[k] = own < 0 || PyArray_DIM(array[i].index, own) == 1 ? 0 : PyArray_STRIDE(array[i].index, own);
        }
        fill_offsets(g->bnd, g->bdim, stride, g->nb, where);
        if (array[i].index == NULL) {
            for (npy_intp b = 0; b < g->nb; ++b)
                g->offset[b] += *(const npy_intp *)((const char *)array[i].offset + where[b]);
            continue;
        }
        const char *data = PyArray_BYTES(array[i].index);
        for (npy_intp b = 0; b < g->nb; ++b) {
            npy_intp j = *(const npy_intp *)(data + where[b]);
            if (j < -array[i].size || j >= array[i].size) {
                PyMem_Free(where);
                return out_of_bounds(j, array[i].axis, array[i].size);
            }
            g->offset[b] += (j < 0 ? j + array[i].size : j) * array[i].stride;
        }
    }
    PyMem_Free(where);
    return 0;
}

/* Reads indices (integer arrays, masks, slices, None) of x. The caller frees g->offset. */
static int read_gather(Gather *g, PyArrayObject *x, int n, PyObject **in)
{
    IndexArray array[2 * NPY_MAXDIMS];
    int n_arrays = 0, axis = 0, nd = PyArray_NDIM(x), last = -1, together = 1, used = 0, status = -1;
    g->offset = NULL;
    g->pos = 0;
    g->rest.nd = 0;
    g->rest.data = PyArray_BYTES(x);
    for (int e = 0; e < n; ++e)
        if (PyArray_Check(in[e]) && PyArray_TYPE((PyArrayObject *)in[e]) == NPY_BOOL)
            used += PyArray_NDIM((PyArrayObject *)in[e]);
        else
            used += in[e] != Py_None;
    if (used > nd) {
        PyErr_Format(PyExc_IndexError, "too many indices for array: array is %d-dimensional, but %d were indexed", nd, used);
        return -1;
    }
    if (n > 2 * NPY_MAXDIMS) {
        PyErr_Format(PyExc_IndexError, "too many indices: %d", n);
        return -1;
    }
    for (int e = 0; e < n; ++e) {
        if (in[e] == Py_None || PySlice_Check(in[e])) {
            if (g->rest.nd >= NPY_MAXDIMS) {
                PyErr_SetString(PyExc_IndexError, "the result of indexing has too many dimensions");
                goto done;
            }
            if (in[e] == Py_None) {
                g->rest.dim[g->rest.nd] = 1;
                g->rest.stride[g->rest.nd++] = 0;
                continue;
            }
            Py_ssize_t start, stop, step;
            if (PySlice_Unpack(in[e], &start, &stop, &step) < 0)
                goto done;
            push_slice(&g->rest, PyArray_DIM(x, axis), PyArray_STRIDE(x, axis), start, stop, step);
            ++axis;
            continue;
        }
        IndexArray *a = &array[n_arrays];
        memset(a, 0, sizeof *a);
        a->axis = axis;
        if (n_arrays == 0)
            g->pos = g->rest.nd;
        else
            together &= last == e - 1;
        last = e;
        ++n_arrays;
        if (PyArray_Check(in[e]) && PyArray_TYPE((PyArrayObject *)in[e]) == NPY_BOOL) {
            if (read_mask((PyArrayObject *)in[e], x, axis, a) < 0)
                goto done;
            axis += PyArray_NDIM((PyArrayObject *)in[e]);
            continue;
        }
        a->index = (PyArrayObject *)PyArray_FROM_OTF(in[e], NPY_INTP, NPY_ARRAY_ALIGNED | NPY_ARRAY_FORCECAST);
        if (a->index == NULL)
            goto done;
        a->size = PyArray_DIM(x, axis);
        a->stride = PyArray_STRIDE(x, axis);
        ++axis;
    }
    if (!together)
        g->pos = 0;
    if (g->rest.nd + nd - axis > NPY_MAXDIMS) {
        PyErr_SetString(PyExc_IndexError, "the result of indexing has too many dimensions");
        goto done;
    }
    for (; axis < nd; ++axis) {
        g->rest.dim[g->rest.nd] = PyArray_DIM(x, axis);
        g->rest.stride[g->rest.nd++] = PyArray_STRIDE(x, axis);
    }
    status = join_arrays(g, array, n_arrays);
    if (status == 0 && g->bnd + g->rest.nd > NPY_MAXDIMS) {
        PyErr_SetString(PyExc_IndexError, "the result of indexing has too many dimensions");
        status = -1;
    }
done:
    free_arrays(array, n_arrays);
    if (status < 0) {
        PyMem_Free(g->offset);
        g->offset = NULL;
    }
    return status;
}

/* One vector of integers on axis 0. The caller frees g->offset. */
static int read_rows(Gather *g, PyArrayObject *x, PyObject *index)
{
    PyArrayObject *v = (PyArrayObject *)index, *converted = NULL;
    int nd = PyArray_NDIM(x), type = PyArray_TYPE(v);
    g->offset = NULL;
    if (nd == 0 || PyArray_NDIM(v) != 1) {
        PyErr_SetString(PyExc_IndexError, "rows are taken of an array of at least one dimension, by a vector");
        return -1;
    }
    if (!PyArray_ISNOTSWAPPED(v) || (type != NPY_INT32 && type != NPY_INTP)) {
        v = converted = (PyArrayObject *)PyArray_FROM_OTF(index, NPY_INTP, NPY_ARRAY_ALIGNED | NPY_ARRAY_FORCECAST);
        if (v == NULL)
            return -1;
        type = NPY_INTP;
    }
    g->pos = 0;
    g->bnd = 1;
    g->nb = g->bdim[0] = PyArray_DIM(v, 0);
    g->rest.nd = nd - 1;
    g->rest.data = PyArray_BYTES(x);
    for (int k = 1; k < nd; ++k) {
        g->rest.dim[k - 1] = PyArray_DIM(x, k);
        g->rest.stride[k - 1] = PyArray_STRIDE(x, k);
    }
    g->offset = new_offsets(g->nb);
    int status = g->offset == NULL ? -1
                                   : offsets_of_vector(type, PyArray_BYTES(v), PyArray_STRIDE(v, 0), g->nb, PyArray_DIM(x, 0),
                                                       PyArray_STRIDE(x, 0), 0, g->offset);
    Py_XDECREF(converted);
    if (status < 0) {
        PyMem_Free(g->offset);
        g->offset = NULL;
    }
    return status;
}

/* Shape of the result. */
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

/* Splits strides of the result's dimensions into those of `rest` and those of the index arrays. */
static void gather_strides(const Gather *g, const npy_intp *stride, npy_intp *rest, npy_intp *index)
{
    for (int k = 0; k < g->pos; ++k)
        rest[k] = *stride++;
    for (int k = 0; k < g->bnd; ++k)
        index[k] = *stride++;
    for (int k = g->pos; k < g->rest.nd; ++k)
        rest[k] = *stride++;
}

#define GATHER_ITEMS(T)                                                                                           \
    for (npy_intp b = 0; b < g->nb; ++b)                                                                          \
        memcpy(to + b * step, g->rest.data + g->offset[b], sizeof(T));                                            \
    return 0

/* out = x[indices] */
static int gather(const Gather *g, PyArrayObject *x, PyObject **out)
{
    npy_intp dim[NPY_MAXDIMS], rest[NPY_MAXDIMS], index[NPY_MAXDIMS];
    int nd = gather_shape(g, dim);
    PyArrayObject *z = native_alloc(out, nd, dim, PyArray_TYPE(x));
    if (z == NULL)
        return -1;
    gather_strides(g, PyArray_STRIDES(z), rest, index);
    /* z is C-contiguous: its dimensions of the index arrays are one run. */
    npy_intp itemsize = PyArray_ITEMSIZE(x), step = g->bnd > 0 ? index[g->bnd - 1] : 0;
    StridedPlan plan;
    if (strided_plan(&plan, g->rest.nd, g->rest.dim, rest, g->rest.stride) == 0)
        return 0;
    char *to = PyArray_BYTES(z);
    if (plan.nd == 0)
        switch (itemsize) {
        case 1: GATHER_ITEMS(npy_uint8);
        case 2: GATHER_ITEMS(npy_uint16);
        case 4: GATHER_ITEMS(npy_uint32);
        case 8: GATHER_ITEMS(npy_uint64);
        default: GATHER_ITEMS(npy_cdouble);
        }
    if (plan.nd == 1 && plan.dst[0] == itemsize && plan.src[0] == itemsize) {
        size_t bytes = (size_t)(plan.dim[0] * itemsize);
        for (npy_intp b = 0; b < g->nb; ++b) {
            if (b + 8 < g->nb)
                __builtin_prefetch(g->rest.data + g->offset[b + 8]);
            memcpy(to + b * step, g->rest.data + g->offset[b], bytes);
        }
        return 0;
    }
    for (npy_intp b = 0; b < g->nb; ++b)
        strided_copy_planned(itemsize, &plan, to + b * step, g->rest.data + g->offset[b]);
    return 0;
}

/* z[indices] = y, or += y; duplicate positions accumulate, or the last one wins. */
static int scatter(const Gather *g, PyArrayObject *z, PyObject *value, int set)
{
    npy_intp dim[NPY_MAXDIMS], stride[NPY_MAXDIMS], rest[NPY_MAXDIMS], index[NPY_MAXDIMS];
    int nd = gather_shape(g, dim), status = -1;
    npy_intp itemsize = PyArray_ITEMSIZE(z), *from = NULL;
    inc_row_fn add = adder_for(z);
    PyArrayObject *y = add == NULL ? NULL : source_for(value, z);
    if (y == NULL || broadcast_strides(y, nd, dim, stride) < 0)
        goto done;
    gather_strides(g, stride, rest, index);
    StridedPlan plan;
    status = 0;
    if (strided_plan(&plan, g->rest.nd, g->rest.dim, g->rest.stride, rest) == 0)
        goto done;
    from = new_offsets(g->nb);
    if (from == NULL) {
        status = -1;
        goto done;
    }
    fill_offsets(g->bnd, g->bdim, index, g->nb, from);
    const char *data = PyArray_BYTES(y);
    char *to = g->rest.data;
    if (set)
        for (npy_intp b = 0; b < g->nb; ++b)
            strided_copy_planned(itemsize, &plan, to + g->offset[b], data + from[b]);
    else if (plan.nd == 0)
        for (npy_intp b = 0; b < g->nb; ++b)
            add(1, to + g->offset[b], itemsize, data + from[b], itemsize);
    else
        for (npy_intp b = 0; b < g->nb; ++b) {
            if (b + 8 < g->nb)
                __builtin_prefetch(to + g->offset[b + 8], 1);
            strided_add_planned(add, &plan, to + g->offset[b], data + from[b]);
        }
done:
    PyMem_Free(from);
    Py_XDECREF(y);
    return status;
}

/* Inputs: x, vector. */
static int tng_take_rows(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    Gather g;
    if (read_rows(&g, (PyArrayObject *)in[0], in[1]) < 0)
        return -1;
    int status = gather(&g, (PyArrayObject *)in[0], out);
    PyMem_Free(g.offset);
    return status;
}

/* params: inplace, set_instead_of_inc. Inputs: x, y, vector. */
static int tng_inc_rows(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    Gather g;
    PyArrayObject *z = target_of(in[0], out, (int)params[0]);
    if (z == NULL || read_rows(&g, z, in[2]) < 0)
        return -1;
    int status = scatter(&g, z, in[1], (int)params[1]);
    PyMem_Free(g.offset);
    return status;
}

/* Inputs: x, indices. */
static int tng_take(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    Gather g;
    if (read_gather(&g, (PyArrayObject *)in[0], nin - 1, in + 1) < 0)
        return -1;
    int status = gather(&g, (PyArrayObject *)in[0], out);
    PyMem_Free(g.offset);
    return status;
}

/* params: inplace, set_instead_of_inc. Inputs: x, y, indices. */
static int tng_inc(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    Gather g;
    PyArrayObject *z = target_of(in[0], out, (int)params[0]);
    if (z == NULL || read_gather(&g, z, nin - 2, in + 2) < 0)
        return -1;
    int status = scatter(&g, z, in[1], (int)params[1]);
    PyMem_Free(g.offset);
    return status;
}

/* make_slice: start, stop and step, each an integer array without dimensions or None, become a slice of Python's own integers. */
static int tng_make_slice(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    PyObject *fields[3] = {NULL, NULL, NULL};
    int filled = 0;
    (void)nout;
    (void)params;
    for (; filled < nin && filled < 3; filled++) {
        if (in[filled] == Py_None)
            fields[filled] = Py_NewRef(Py_None);
        else if (PyArray_Check(in[filled]))
            fields[filled] = PyArray_GETITEM((PyArrayObject *)in[filled], PyArray_BYTES((PyArrayObject *)in[filled]));
        else
            fields[filled] = PyNumber_Index(in[filled]);
        if (fields[filled] == NULL)
            break;
    }
    Py_CLEAR(out[0]);
    if (filled == 3)
        out[0] = PySlice_New(fields[0], fields[1], fields[2]);
    for (int i = 0; i < 3; i++)
        Py_XDECREF(fields[i]);
    return out[0] == NULL ? -1 : 0;
}

static const NativeEntry entries[] = {
    {"subtensor", tng_subtensor},
    {"inc_subtensor", tng_inc_subtensor},
    {"take_rows", tng_take_rows},
    {"inc_rows", tng_inc_rows},
    {"take", tng_take},
    {"inc", tng_inc},
    {"make_slice", tng_make_slice},
    {NULL, NULL},
};
NATIVE_MODULE(subtensor, entries)
