/* Indexing of device arrays: views by integers and slices, gathers and scatters by arrays and masks, diagonals. */
#include "gpu_gather.h"

/* ---------------------------------------------------------------- basic indexing */

typedef struct {
    unsigned nd;
    size_t dim[GA_MAX_DIMS], offset;
    ssize_t stride[GA_MAX_DIMS];
} View;

static int index_basic(unsigned n, const struct entry_params *entry, PyObject **in, const GpuArray *x, View *view)
{
    unsigned axis = 0;
    ssize_t offset = (ssize_t)x->offset;
    view->nd = 0;
    if (n > x->nd) {
        PyErr_Format(PyExc_IndexError, "too many indices for array: array is %u-dimensional, but %u were indexed",
                     x->nd, n);
        return -1;
    }
    for (; axis < n; ++axis, ++entry) {
        Py_ssize_t size = (Py_ssize_t)x->dimensions[axis], stride = x->strides[axis], start, stop, step;
        if (!entry->is_slice) {
            if (read_index(entry, in, (int)axis, size, &start) < 0)
                return -1;
            offset += start * stride;
            continue;
        }
        if (read_slice(entry, in, &start, &stop, &step) < 0)
            return -1;
        Py_ssize_t length = PySlice_AdjustIndices(size, &start, &stop, step);
        if (length > 0)
            offset += start * stride;
        view->dim[view->nd] = (size_t)length;
        view->stride[view->nd++] = length > 1 ? stride * step : stride;
    }
    for (; axis < x->nd; ++axis) {
        view->dim[view->nd] = x->dimensions[axis];
        view->stride[view->nd++] = x->strides[axis];
    }
    view->offset = (size_t)offset;
    for (unsigned i = 0; i < view->nd; ++i)
        if (view->dim[i] == 0)
            /* an empty view gets the array's offset, because the computed offset may be outside the memory */
            view->offset = x->offset;
    return 0;
}

/* Store a view of x in *out. */
static int set_view(PyObject **out, PyGpuArrayObject *x, const View *view)
{
    PyObject *base = x->base == NULL || x->base == Py_None ? (PyObject *)x : x->base;
    PyGpuArrayObject *made = pygpu_fromgpudata(x->ga.data, view->offset, x->ga.typecode, view->nd, view->dim,
                                               view->stride, x->context, GpuArray_ISWRITEABLE(&x->ga), base, Py_None);
    if (made == NULL)
        return -1;
    native_set(out, (PyObject *)made);
    return 0;
}

/* Inputs: x, indices. */
NATIVE_TABLE(subtensor, entry, index);
NATIVE_READER(subtensor)
static int tng_subtensor(int nin, int nout, PyObject **in, PyObject **out, const struct subtensor_params *params)
{
    (void)nin, (void)nout;
    View view;
    PyGpuArrayObject *x = gpu_input(in[0], -1, -1);
    if (x == NULL || index_basic((unsigned)params->n_index, params->index, in, &x->ga, &view) < 0)
        return -1;
    return set_view(out, x, &view);
}

/* ---------------------------------------------------------------- common parts of increments */

/* Return a borrowed reference to the array to write into: x itself, or a copy of x in *out. Return NULL on failure. */
static PyGpuArrayObject *target_of(PyObject *value, PyObject **out, int in_place)
{
    PyGpuArrayObject *x = gpu_input(value, -1, -1);
    if (x == NULL)
        return NULL;
    if (in_place) {
        if (!GpuArray_ISWRITEABLE(&x->ga)) {
            PyErr_SetString(PyExc_ValueError, "the input of an in-place increment is read-only");
            return NULL;
        }
        if (gpu_aligned(&x->ga, "the input of an in-place increment") < 0)
            return NULL;
        native_set(out, Py_NewRef(value));
        return x;
    }
    gpu_not_shared(out, &x->ga);
    PyGpuArrayObject *z = gpu_alloc(out, x->context, x->ga.nd, x->ga.dimensions, x->ga.typecode);
    return z == NULL || pygpu_move(z, x) < 0 ? NULL : z;
}

/* Return a new reference to an array with the elements of y and the type of z: y itself, or a copy if y has another
 * type, is not aligned, or shares memory with z, which will be overwritten. Return NULL on failure. */
static PyGpuArrayObject *source_for(PyObject *value, PyGpuArrayObject *z)
{
    PyGpuArrayObject *y = gpu_input(value, -1, -1);
    if (y == NULL || !gpu_same_context(z, y))
        return NULL;
    if (y->ga.typecode == z->ga.typecode && !GpuArray_overlap(&y->ga, &z->ga) && GpuArray_ISALIGNED(&y->ga))
        return (PyGpuArrayObject *)Py_NewRef(value);
    PyGpuArrayObject *made = pygpu_empty(y->ga.nd, y->ga.dimensions, z->ga.typecode, GA_C_ORDER, z->context, Py_None);
    if (made != NULL && gpu_assign(made, &y->ga, "the value of an increment") < 0)
        Py_CLEAR(made);
    return made;
}

/* Inputs: x, y, indices. Unless `set_instead_of_inc` is set, a kernel adds y to the selected view of x. The kernel
 * `simple` has one axis. It is used if the axes of the view and of y merge into at most one axis. Otherwise the kernel
 * `general` is used, which has `general_axes` axes. */
NATIVE_TABLE(inc_subtensor, entry, index, in_place, set_instead_of_inc, simple, general, general_axes);
NATIVE_READER(inc_subtensor)
static int tng_inc_subtensor(int nin, int nout, PyObject **in, PyObject **out,
                             const struct inc_subtensor_params *params)
{
    (void)nin, (void)nout;
    View view;
    ssize_t stride[GA_MAX_DIMS];
    PyGpuArrayObject *z = target_of(in[0], out, (int)params->in_place);
    if (z == NULL || index_basic((unsigned)params->n_index, params->index, in, &z->ga, &view) < 0)
        return -1;
    PyGpuArrayObject *y = gpu_input(in[1], -1, -1);
    if (y == NULL || !gpu_same_context(z, y) || broadcast_strides(&y->ga, view.nd, view.dim, stride) < 0)
        return -1;
    size_t n = 1;
    for (unsigned i = 0; i < view.nd; ++i)
        n *= view.dim[i];
    if (n == 0)
        return 0;
    if (params->set_instead_of_inc) {
        GpuArray part;
        int code = GpuArray_fromdata(&part, z->ga.data, view.offset, z->ga.typecode, view.nd, view.dim, view.stride, 1);
        if (code == GA_NO_ERROR) {
            code = GpuArray_setarray(&part, &y->ga);
            GpuArray_clear(&part);
        }
        return code == GA_NO_ERROR ? 0 : gpu_failed(z->context->ctx, code, "GpuIncSubtensor");
    }
    if ((y = source_for(in[1], z)) == NULL)
        return -1;
    int status = broadcast_strides(&y->ga, view.nd, view.dim, stride);
    if (status == 0) {
        Axes axes = {0};
        for (unsigned i = 0; i < view.nd; ++i)
            axes_push(&axes, view.dim[i], view.stride[i], stride[i]);
        int simple = axes.nd <= 1;
        axes_pad(&axes, simple ? 1 : (unsigned)params->general_axes);
        Arguments args = {0};
        args_array(&args, &z->ga, &view.offset);
        args_array(&args, &y->ga, &y->ga.offset);
        args_push(&args, &n);
        args_axes(&args, &axes, 2);
        status =
            gpu_run((gpukernel *)(intptr_t)(simple ? params->simple : params->general), n, args.at, "GpuIncSubtensor");
    }
    Py_DECREF(y);
    return status;
}

/* ---------------------------------------------------------------- advanced indexing */

/* Inputs: x, indices. `site`: the number of the node for errors. `offsets`: the kernel that reads index arrays on the
 * device, or 0. Two kernels copy the elements:
 * `general` has all axes before and after the joint dimensions. `simple` has at most one axis before and one axis after
 * the joint dimensions. If `general` is 0, `simple` has all axes. */
NATIVE_FUNCTION(take, site, offsets, simple, general)
static int tng_take(int nin, int nout, PyObject **in, PyObject **out, const struct take_params *params)
{
    (void)nout;
    Gather g;
    int status = -1;
    PyGpuArrayObject *x = gpu_input(in[0], -1, -1), *z;
    if (x == NULL || gpu_aligned(&x->ga, "the indexed array") < 0)
        return -1;
    if (gather_open(&g, x, nin - 1, in + 1, (gpukernel *)(intptr_t)params->offsets, (unsigned)params->site) < 0)
        goto done;
    size_t dims[2 * GA_MAX_DIMS];
    unsigned nd = gather_shape(&g, dims);
    gpu_not_shared(out, &x->ga);
    if ((z = gpu_alloc(out, x->context, nd, dims, x->ga.typecode)) == NULL)
        goto done;
    size_t n = gpu_size(&z->ga), x_at = (size_t)((ssize_t)x->ga.offset + g.base);
    status = 0;
    if (n == 0)
        goto done;
    unsigned before_axes = g.position, after_axes = g.n_rest - g.position;
    Axes before = {0}, after = {0};
    for (unsigned i = 0; i < g.n_rest; ++i)
        axes_push(i < g.position ? &before : &after, g.rest[i], g.rest_stride[i], 0);
    int simple = params->general == 0 || (before.nd <= 1 && after.nd <= 1);
    axes_pad(&before, simple ? before_axes > 0 : before_axes);
    axes_pad(&after, simple ? after_axes > 0 : after_axes);
    Arguments args = {0};
    args_array(&args, &z->ga, &z->ga.offset);
    args_array(&args, &x->ga, &x_at);
    args_push(&args, g.offsets);
    args_push(&args, &n);
    args_push(&args, &g.count);
    args_axes(&args, &before, 1);
    args_axes(&args, &after, 1);
    status =
        gpu_run((gpukernel *)(intptr_t)(simple ? params->simple : params->general), n, args.at, "GpuAdvancedSubtensor");
done:
    gather_close(&g);
    return status;
}

/* Inputs: x, y, indices. `site`, `offsets`: as for `take`. The kernel `general` has all axes that no array indexes. The kernel
 * `simple` has at most one axis, or all axes if `general` is 0. `threads`: the number of threads to aim at if the order
 * of writes matters. -1 means as many threads as keep the device busy. `atomic`: whether the kernels may write in any
 * order. */
NATIVE_FUNCTION(inc, in_place, site, offsets, simple, general, threads, atomic)
static int tng_inc(int nin, int nout, PyObject **in, PyObject **out, const struct inc_params *params)
{
    (void)nout;
    Gather g;
    int status = -1;
    size_t dims[2 * GA_MAX_DIMS];
    ssize_t stride[2 * GA_MAX_DIMS];
    PyGpuArrayObject *z = target_of(in[0], out, (int)params->in_place), *y = NULL;
    if (z == NULL)
        return -1;
    if (gather_open(&g, z, nin - 2, in + 2, (gpukernel *)(intptr_t)params->offsets, (unsigned)params->site) < 0)
        goto done;
    unsigned nd = gather_shape(&g, dims);
    if ((y = gpu_input(in[1], -1, -1)) == NULL || !gpu_same_context(z, y)
        || broadcast_strides(&y->ga, nd, dims, stride) < 0) {
        y = NULL;
        goto done;
    }
    size_t n = 1;
    for (unsigned i = 0; i < nd; ++i)
        n *= dims[i];
    y = NULL;
    if (n == 0) {
        status = 0;
        goto done;
    }
    if ((y = source_for(in[1], z)) == NULL || broadcast_strides(&y->ga, nd, dims, stride) < 0)
        goto done;
    Axes joint = {0};
    for (unsigned i = 0; i < g.n_joint; ++i)
        axes_push(&joint, g.joint[i], stride[g.position + i], 0);
    if (joint.nd > 1) {
        /* If the joint dimensions of y cannot be merged into one axis with one stride, copy y to C order. */
        PyGpuArrayObject *whole = pygpu_empty(nd, dims, z->ga.typecode, GA_C_ORDER, z->context, Py_None);
        if (whole == NULL || gpu_assign(whole, &y->ga, "GpuAdvancedIncSubtensor") < 0) {
            Py_XDECREF(whole);
            goto done;
        }
        Py_SETREF(y, whole);
        memcpy(stride, y->ga.strides, nd * sizeof *stride);
        joint.nd = 0;
        for (unsigned i = 0; i < g.n_joint; ++i)
            axes_push(&joint, g.joint[i], stride[g.position + i], 0);
    }
    ssize_t y_step = joint.nd == 0 ? 0 : joint.step[0][0];
    Axes rest = {0};
    for (unsigned i = 0; i < g.n_rest; ++i)
        axes_push(&rest, g.rest[i], g.rest_stride[i], stride[i < g.position ? i : i + g.n_joint]);
    size_t columns = axes_size(&rest), z_at = (size_t)((ssize_t)z->ga.offset + g.base), classes = 1, by_target = 1,
           threads;
    int simple = params->general == 0 || rest.nd <= 1;
    gpukernel *kernel = (gpukernel *)(intptr_t)(simple ? params->simple : params->general);
    axes_pad(&rest, simple ? g.n_rest > 0 : g.n_rest);
    if (params->atomic || g.increasing) {
        /* The order of writes does not matter: each position of the index arrays gets a separate thread. */
        classes = g.count;
        by_target = 0;
    }
    else if ((threads = gpu_threads(kernel, params->threads)) > columns) {
        /* The target positions are divided among the threads. Each thread goes through all values. */
        classes = threads / columns;
        if (classes > g.count)
            classes = g.count;
    }
    n = columns * classes;
    Arguments args = {0};
    args_array(&args, &z->ga, &z_at);
    args_array(&args, &y->ga, &y->ga.offset);
    args_push(&args, g.offsets);
    args_push(&args, &n);
    args_push(&args, &g.count);
    args_push(&args, &classes);
    args_push(&args, &by_target);
    args_push(&args, &g.unit);
    args_push(&args, &y_step);
    args_axes(&args, &rest, 2);
    status = gpu_run(kernel, n, args.at, "GpuAdvancedIncSubtensor");
done:
    Py_XDECREF(y);
    gather_close(&g);
    return status;
}

/* ---------------------------------------------------------------- diagonals */

/* Make a view of one diagonal of each plane of two axes, `offset` columns from the main diagonal. The last axis of the
 * view runs along the diagonals. */
static void diagonal_view(const GpuArray *x, int64_t offset, unsigned axis1, unsigned axis2, View *view)
{
    ssize_t rows = (ssize_t)x->dimensions[axis1], columns = (ssize_t)x->dimensions[axis2], at = (ssize_t)x->offset;
    ssize_t length = offset >= 0 ? columns - offset : rows + offset, other = offset >= 0 ? rows : columns;
    if (length > other)
        length = other;
    view->nd = 0;
    for (unsigned i = 0; i < x->nd; ++i)
        if (i != axis1 && i != axis2) {
            view->dim[view->nd] = x->dimensions[i];
            view->stride[view->nd++] = x->strides[i];
        }
    view->dim[view->nd] = length > 0 ? (size_t)length : 0;
    view->stride[view->nd++] = x->strides[axis1] + x->strides[axis2];
    if (length > 0)
        at += offset >= 0 ? offset * x->strides[axis2] : -offset * x->strides[axis1];
    view->offset = (size_t)at;
}

NATIVE_FUNCTION(extract_diag, offset, axis1, axis2, view)
static int tng_extract_diag(int nin, int nout, PyObject **in, PyObject **out, const struct extract_diag_params *params)
{
    (void)nin, (void)nout;
    View view;
    PyGpuArrayObject *x = gpu_input(in[0], -1, -1);
    if (x == NULL)
        return -1;
    diagonal_view(&x->ga, params->offset, (unsigned)params->axis1, (unsigned)params->axis2, &view);
    if (params->view)
        return set_view(out, x, &view);
    gpu_not_shared(out, &x->ga);
    PyGpuArrayObject *made = gpu_alloc(out, x->context, view.nd, view.dim, x->ga.typecode);
    if (made == NULL || gpu_size(&made->ga) == 0)
        return made == NULL ? -1 : 0;
    GpuArray part;
    int code = GpuArray_fromdata(&part, x->ga.data, view.offset, x->ga.typecode, view.nd, view.dim, view.stride, 0);
    if (code == GA_NO_ERROR) {
        code = GpuArray_setarray(&made->ga, &part);
        GpuArray_clear(&part);
    }
    return code == GA_NO_ERROR ? 0 : gpu_failed(x->context->ctx, code, "GpuExtractDiag");
}

NATIVE_FUNCTION(alloc_diag, offset, axis1, axis2)
static int tng_alloc_diag(int nin, int nout, PyObject **in, PyObject **out, const struct alloc_diag_params *params)
{
    (void)nin, (void)nout;
    View view;
    PyGpuArrayObject *x = gpu_input(in[0], -1, -1);
    if (x == NULL)
        return -1;
    size_t dims[GA_MAX_DIMS + 1],
        side = x->ga.dimensions[x->ga.nd - 1] + (size_t)(params->offset < 0 ? -params->offset : params->offset);
    unsigned nd = x->ga.nd + 1, kept = 0;
    for (unsigned i = 0; i < nd && nd <= GA_MAX_DIMS; ++i)
        dims[i] = i == (unsigned)params->axis1 || i == (unsigned)params->axis2 ? side : x->ga.dimensions[kept++];
    gpu_not_shared(out, &x->ga);
    PyGpuArrayObject *made = gpu_alloc(out, x->context, nd, dims, x->ga.typecode);
    if (made == NULL || gpu_size(&made->ga) == 0)
        return made == NULL ? -1 : 0;
    int code = GpuArray_memset(&made->ga, 0);
    diagonal_view(&made->ga, params->offset, (unsigned)params->axis1, (unsigned)params->axis2, &view);
    if (code == GA_NO_ERROR && gpu_size(&x->ga) > 0) {
        GpuArray part;
        code =
            GpuArray_fromdata(&part, made->ga.data, view.offset, made->ga.typecode, view.nd, view.dim, view.stride, 1);
        if (code == GA_NO_ERROR) {
            code = GpuArray_setarray(&part, &x->ga);
            GpuArray_clear(&part);
        }
    }
    return code == GA_NO_ERROR ? 0 : gpu_failed(x->context->ctx, code, "GpuAllocDiag");
}

static const NativeEntry entries[] = {
    NATIVE_ENTRY(subtensor), NATIVE_ROW(entry),          NATIVE_ENTRY(inc_subtensor), NATIVE_ENTRY(take),
    NATIVE_ENTRY(inc),       NATIVE_ENTRY(extract_diag), NATIVE_ENTRY(alloc_diag),    {0},
};
NATIVE_MODULE(subtensor, entries)
