/* Native code of the indexing Ops: views by integers and slices, gathers and scatters by arrays and masks. */
#include "index_entries.h"
#include "move.h"

/* ---------------------------------------------------------------- basic indexing */

static int index_basic(int n, const struct entry_params *entry, PyObject **in, PyArrayObject *x, BasicView *view)
{
    int axis = 0, nd = PyArray_NDIM(x);
    view->nd = 0;
    view->data = PyArray_BYTES(x);
    if (n > nd) {
        PyErr_Format(PyExc_IndexError, "too many indices for array: array is %d-dimensional, but %d were indexed", nd,
                     n);
        return -1;
    }
    for (; axis < n; ++axis, ++entry) {
        npy_intp size = PyArray_DIM(x, axis), stride = PyArray_STRIDE(x, axis), start, stop, step;
        if (!entry->is_slice) {
            if (read_index(entry, in, axis, size, &start) < 0)
                return -1;
            view->data += start * stride;
            continue;
        }
        if (read_slice(entry, in, &start, &stop, &step) < 0)
            return -1;
        push_slice(view, size, stride, start, stop, step);
    }
    for (; axis < nd; ++axis) {
        view->dim[view->nd] = PyArray_DIM(x, axis);
        view->stride[view->nd++] = PyArray_STRIDE(x, axis);
    }
    return 0;
}

/* Inputs: x, indices. */
NATIVE_TABLE(subtensor, entry, index);
NATIVE_READER(subtensor)
static int tng_subtensor(int nin, int nout, PyObject **in, PyObject **out, const struct subtensor_params *params)
{
    BasicView view;
    if (index_basic((int)params->n_index, params->index, in, (PyArrayObject *)in[0], &view) < 0)
        return -1;
    PyObject *z = strided_view((PyArrayObject *)in[0], view.nd, view.dim, view.stride, view.data);
    if (z == NULL)
        return -1;
    native_set(out, z);
    return 0;
}

/* ---------------------------------------------------------------- helpers of the increments */

/* Return the array to write to: x itself, or a copy of x in *out. Return a borrowed reference, or NULL with an
 * exception set. */
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
        strided_copy(PyArray_ITEMSIZE(x), PyArray_NDIM(x), PyArray_DIMS(x), PyArray_BYTES(z), PyArray_STRIDES(z),
                     PyArray_BYTES(x), PyArray_STRIDES(x));
    return z;
}

/* Return a new reference to an array with the elements of y and the dtype of z: y itself, or a copy if the dtypes
 * differ or if writing to z would change y. Return NULL with an exception set on failure. */
static PyArrayObject *source_for(PyObject *value, PyArrayObject *z)
{
    PyArrayObject *y = (PyArrayObject *)value;
    if (PyArray_TYPE(y) != PyArray_TYPE(z) || !PyArray_ISNOTSWAPPED(y)) {
        PyArray_Descr *descr = PyArray_DescrFromType(PyArray_TYPE(z));
        return descr == NULL ? NULL
                             : (PyArrayObject *)PyArray_FromArray(y, descr, NPY_ARRAY_ALIGNED | NPY_ARRAY_FORCECAST);
    }
    if (strided_ranges_meet(y, z))
        return (PyArrayObject *)PyArray_NewCopy(y, NPY_ANYORDER);
    Py_INCREF(y);
    return y;
}

/* Compute the strides that broadcast y to a shape. Return 0, or -1 with an exception set. */
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

/* Return the function that adds rows of this dtype, or NULL with an exception set if there is no such function. */
static inc_row_fn adder_for(PyArrayObject *z)
{
    inc_row_fn add = inc_row_for(PyArray_DESCR(z)->kind, (int)PyArray_ITEMSIZE(z));
    if (add == NULL)
        PyErr_Format(PyExc_TypeError, "cannot increment an array of dtype %R", PyArray_DESCR(z));
    return add;
}

/* Inputs: x, y, indices. */
NATIVE_TABLE(inc_subtensor, entry, index, in_place, set_instead_of_inc);
NATIVE_READER(inc_subtensor)
static int tng_inc_subtensor(int nin, int nout, PyObject **in, PyObject **out,
                             const struct inc_subtensor_params *params)
{
    BasicView view;
    npy_intp sy[NPY_MAXDIMS];
    PyArrayObject *z = target_of(in[0], out, (int)params->in_place);
    if (z == NULL || index_basic((int)params->n_index, params->index, in, z, &view) < 0)
        return -1;
    PyArrayObject *y = source_for(in[1], z);
    if (y == NULL)
        return -1;
    int status = broadcast_strides(y, view.nd, view.dim, sy);
    StridedPlan plan;
    if (status == 0 && strided_plan(&plan, view.nd, view.dim, view.stride, sy) > 0) {
        inc_row_fn add;
        if (params->set_instead_of_inc)
            strided_copy_planned(PyArray_ITEMSIZE(z), &plan, view.data, PyArray_BYTES(y));
        else if ((add = adder_for(z)) != NULL)
            strided_add_planned(add, &plan, view.data, PyArray_BYTES(y));
        else
            status = -1;
    }
    Py_DECREF(y);
    return status;
}

/* ---------------------------------------------------------------- advanced indexing */

/* out = x[indices] */
static int gather(Gather *g, PyArrayObject *x, PyObject **out)
{
    npy_intp dim[NPY_MAXDIMS], rest[NPY_MAXDIMS], index[NPY_MAXDIMS], offset[GATHER_CHUNK], nearest = NPY_MAX_INTP;
    int nd = gather_shape(g, dim);
    PyArrayObject *z = native_alloc(out, nd, dim, PyArray_TYPE(x));
    if (z == NULL)
        return -1;
    gather_strides(g, PyArray_STRIDES(z), rest, index);
    for (int i = 0; i < g->n_arrays; ++i)
        if (absolute(g->array[i].stride) < nearest)
            nearest = absolute(g->array[i].stride);
    /* z is C-contiguous, so its elements along the dimensions of the index arrays are one run with a single step. */
    npy_intp step = g->bnd > 0 ? index[g->bnd - 1] : 0;
    Mover mover;
    if (mover_plan(&mover, g, z, NULL, rest, g->rest.stride, NPY_MAX_INTP, nearest) == 0)
        return gather_check(g);
    mask_fn compress = masked_of(g, &mover, 0);
    if (compress != NULL) {
        compress(g->dim[0], g->nb, PyArray_BYTES(g->mask), g->rest.data, PyArray_BYTES(z), step);
        return 0;
    }
    gather_start(g);
    int which;
    pick_fn pick = pick_of(g, &mover, &which);
    if (pick != NULL)
        return pick_all(g, pick, which, mover.length, PyArray_BYTES(z));
    for (char *to = PyArray_BYTES(z); g->left > 0;) {
        npy_intp n = next_offsets(g, offset);
        if (n < 0)
            return -1;
        mover_run(&mover, n, to, NULL, step, g->rest.data, offset, 0);
        to += n * step;
    }
    return 0;
}

/* z[indices] = y, or z[indices] += y. If a position occurs several times, the last element of y is stored (`set`), or
 * all elements are added. If z is changed in place, all indices are checked before the first write; a copy is discarded
 * after an error. */
static int scatter(Gather *g, PyArrayObject *z, PyObject *value, int inplace, int set)
{
    npy_intp dim[NPY_MAXDIMS], stride[NPY_MAXDIMS], rest[NPY_MAXDIMS], index[NPY_MAXDIMS], to[GATHER_CHUNK],
        from[GATHER_CHUNK];
    int nd = gather_shape(g, dim), status = -1;
    inc_row_fn add = set ? NULL : adder_for(z);
    if ((inplace && gather_check(g) < 0) || (!set && add == NULL))
        return -1;
    PyArrayObject *y = source_for(value, z);
    if (y == NULL || broadcast_strides(y, nd, dim, stride) < 0)
        goto done;
    gather_strides(g, stride, rest, index);
    npy_intp nearest = NPY_MAX_INTP;
    for (int i = 0; i < g->n_arrays; ++i)
        if (absolute(g->array[i].stride) < nearest)
            nearest = absolute(g->array[i].stride);
    Walk walk;
    walk_start(&walk, g->bnd, g->bdim, index);
    Mover mover;
    npy_intp nearest_y = walk.nd == 0 ? NPY_MAX_INTP : absolute(walk.stride[walk.nd - 1]);
    if (mover_plan(&mover, g, z, add, g->rest.stride, rest, nearest, nearest_y) == 0) {
        status = inplace ? 0 : gather_check(g);
        goto done;
    }
    status = 0;
    /* The positions in y are usually evenly spaced (`even`). A step then replaces a list of offsets. */
    int even = walk.nd <= 1;
    npy_intp step = walk.nd == 1 ? walk.stride[0] : 0;
    char *data = PyArray_BYTES(y);
    mask_fn expand = even ? masked_of(g, &mover, 1) : NULL;
    if (expand != NULL) {
        expand(g->dim[0], g->nb, PyArray_BYTES(g->mask), g->rest.data, data, step);
        goto done;
    }
    pick_sum_fn sum = even ? pick_sum_of(g, &mover) : NULL;
    if (sum != NULL) {
        const IndexArray *a = &g->array[0];
        const char *places = PyArray_BYTES(a->array);
        if (sum(g->nb, places, a->size, g->rest.data + g->base, a->stride, data, step))
            status = a->add(a, places, a->step[0], g->nb, NULL, 1);
        goto done;
    }
    gather_start(g);
    while (g->left > 0) {
        npy_intp n = next_offsets(g, to);
        if (n < 0) {
            status = -1;
            break;
        }
        if (!even)
            walk_next(&walk, n, from);
        mover_run(&mover, n, g->rest.data, to, 0, data, even ? NULL : from, step);
        data += even ? n * step : 0;
    }
done:
    Py_XDECREF(y);
    return status;
}

/* Inputs: x, indices. */
static int tng_take(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    Gather g;
    int status = read_gather(&g, (PyArrayObject *)in[0], nin - 1, in + 1, NULL);
    if (status == 0)
        status = gather(&g, (PyArrayObject *)in[0], out);
    gather_close(&g);
    return status;
}

/* Inputs: x, y, indices. */
NATIVE_FUNCTION(inc, in_place, set_instead_of_inc)
static int tng_inc(int nin, int nout, PyObject **in, PyObject **out, const struct inc_params *params)
{
    Gather g;
    PyArrayObject *z = target_of(in[0], out, (int)params->in_place);
    if (z == NULL)
        return -1;
    int status = read_gather(&g, z, nin - 2, in + 2, z);
    if (status == 0)
        status = scatter(&g, z, in[1], (int)params->in_place, (int)params->set_instead_of_inc);
    gather_close(&g);
    return status;
}

/* make_slice: build a slice of Python integers. The inputs start, stop and step are 0-d integer arrays or None. */
static int tng_make_slice(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
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
    NATIVE_ENTRY(subtensor),
    NATIVE_ROW(entry),
    NATIVE_ENTRY(inc_subtensor),
    {"take", tng_take},
    NATIVE_ENTRY(inc),
    {"make_slice", tng_make_slice},
    {NULL},
};
NATIVE_MODULE(subtensor, entries)
