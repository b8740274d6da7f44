/* Join, split and reshape device arrays. Each part is copied by one call of GpuArray_setarray. */
#include "gpu_axes.h"
#include "common/integer_inputs.h"

/* Make a view of the elements from `start` to `start + length` along an axis. */
static int part_of(GpuArray *part, const GpuArray *whole, unsigned axis, size_t start, size_t length)
{
    size_t dims[GA_MAX_DIMS], offset = whole->offset;
    memcpy(dims, whole->dimensions, whole->nd * sizeof *dims);
    dims[axis] = length;
    if (length > 0)
        offset = (size_t)((ssize_t)offset + (ssize_t)start * whole->strides[axis]);
    return GpuArray_fromdata(part, whole->data, offset, whole->typecode, whole->nd, dims, whole->strides, 1);
}

/* Inputs: axis, arrays. `view`: index of the array that is returned if all other arrays are empty, or -1. */
NATIVE_FUNCTION(join, view, typecode)
static int tng_join(int nin, int nout, PyObject **in, PyObject **out, const struct join_params *params)
{
    (void)nout;
    unsigned n = (unsigned)nin - 1;
    int64_t axis;
    PyObject **x = in + 1;
    PyGpuArrayObject *first = gpu_input(x[0], -1, -1);
    if (first == NULL)
        return -1;
    if (params->view >= 0)
        Py_CLEAR(out[0]); /* do not reuse the previous output: it may be an input of the previous call */
    unsigned nd = first->ga.nd;
    if (read_axis(in[0], (int)nd, &axis, "Join") < 0)
        return -1;
    size_t dims[GA_MAX_DIMS];
    memcpy(dims, first->ga.dimensions, nd * sizeof *dims);
    int others_empty = params->view == 0 || (params->view > 0 && dims[axis] == 0);
    for (unsigned i = 1; i < n; ++i) {
        PyGpuArrayObject *a = gpu_input(x[i], -1, (int)nd);
        if (a == NULL || !gpu_same_context(first, a))
            return -1;
        for (unsigned k = 0; k < nd; ++k)
            if (k != (unsigned)axis && a->ga.dimensions[k] != dims[k]) {
                PyErr_Format(PyExc_ValueError,
                             "all the input array dimensions for the concatenation axis must match exactly, but along "
                             "dimension %u, the array at "
                             "index 0 has size %zu and the array at index %u has size %zu",
                             k, dims[k], i, a->ga.dimensions[k]);
                return -1;
            }
        if ((int64_t)i != params->view)
            others_empty &= a->ga.dimensions[axis] == 0;
        if (__builtin_add_overflow(dims[axis], a->ga.dimensions[axis], &dims[axis])) {
            PyErr_SetString(PyExc_ValueError, "Join: the result is larger than any array");
            return -1;
        }
    }
    if (others_empty) {
        native_set(out, Py_NewRef(x[params->view]));
        return 0;
    }
    for (unsigned i = 0; i < n; ++i)
        gpu_not_shared(out, &((PyGpuArrayObject *)x[i])->ga);
    PyGpuArrayObject *made = gpu_alloc(out, first->context, nd, dims, (int)params->typecode);
    if (made == NULL)
        return -1;
    size_t start = 0;
    for (unsigned i = 0; i < n; ++i) {
        const GpuArray *a = &((PyGpuArrayObject *)x[i])->ga;
        GpuArray part;
        size_t length = a->dimensions[axis];
        if (gpu_size(a) == 0)
            continue;
        int code = part_of(&part, &made->ga, axis, start, length);
        if (code == GA_NO_ERROR) {
            code = GpuArray_setarray(&part, a);
            GpuArray_clear(&part);
        }
        if (code != GA_NO_ERROR)
            return gpu_failed(first->context->ctx, code, "GpuJoin");
        start += length;
    }
    return 0;
}

/* Inputs: x, axis, vector of lengths. Each output is a copy of a part of x. */
static int tng_split(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    (void)nin, (void)params;
    int64_t axis;
    PyGpuArrayObject *x = gpu_input(in[0], -1, -1);
    if (x == NULL || read_axis(in[1], (int)x->ga.nd, &axis, "Split") < 0)
        return -1;
    size_t dims[GA_MAX_DIMS], start = 0;
    npy_intp *sizes = read_split(in[2], nout, (npy_intp)x->ga.dimensions[axis]);
    int status = -1;
    if (sizes == NULL)
        return -1;
    memcpy(dims, x->ga.dimensions, x->ga.nd * sizeof *dims);
    for (int i = 0; i < nout; ++i) {
        GpuArray part;
        dims[axis] = (size_t)sizes[i];
        gpu_not_shared(out + i, &x->ga);
        PyGpuArrayObject *made = gpu_alloc(out + i, x->context, x->ga.nd, dims, x->ga.typecode);
        if (made == NULL)
            goto done;
        if (gpu_size(&made->ga) > 0) {
            int code = part_of(&part, &x->ga, (unsigned)axis, start, dims[axis]);
            if (code == GA_NO_ERROR) {
                code = GpuArray_setarray(&made->ga, &part);
                GpuArray_clear(&part);
            }
            if (code != GA_NO_ERROR) {
                gpu_failed(x->context->ctx, code, "GpuSplit");
                goto done;
            }
        }
        start += dims[axis];
    }
    status = 0;
done:
    PyMem_Free(sizes);
    return status;
}

/* Inputs: x, vector of lengths, one of which may be -1. The output is a view if possible. */
NATIVE_FUNCTION(reshape, ndim)
static int tng_reshape(int nin, int nout, PyObject **in, PyObject **out, const struct reshape_params *params)
{
    (void)nin, (void)nout;
    npy_intp asked[GA_MAX_DIMS];
    size_t dims[GA_MAX_DIMS], known = 1;
    PyGpuArrayObject *x = gpu_input(in[0], -1, -1);
    int nd = x == NULL ? -1 : read_integers(in[1], asked, GA_MAX_DIMS, "Reshape"), unknown = -1, bad = 0;
    if (nd < 0)
        return -1;
    if (nd != (int)params->ndim) {
        PyErr_Format(PyExc_ValueError, "shape argument to Reshape has incorrect length %d, should be %d", nd,
                     (int)params->ndim);
        return -1;
    }
    size_t size = gpu_size(&x->ga);
    for (int i = 0; i < nd; ++i) {
        dims[i] = asked[i] < 0 ? 1 : (size_t)asked[i];
        if (asked[i] == -1 && unknown < 0)
            unknown = i;
        else if (asked[i] < 0)
            bad = 1;
    }
    int empty = 0;
    for (int i = 0; i < nd; ++i)
        empty |= dims[i] == 0;
    for (int i = 0; i < nd && !empty; ++i)
        bad |= __builtin_mul_overflow(known, dims[i], &known);
    if (empty)
        known = 0;
    if (!bad && unknown >= 0) {
        bad = known == 0 || size % known != 0;
        if (!bad)
            dims[unknown] = size / known;
    }
    else
        bad |= known != size;
    if (bad) {
        char from[700], to[1000], *end = to;
        for (int i = 0; i < nd; ++i)
            end += sprintf(end, "%s%lld", i ? ", " : "", (long long)asked[i]);
        *end = '\0';
        PyErr_Format(PyExc_ValueError, "Cannot reshape input of shape %s to shape (%s%s)",
                     gpu_shape_text(from, sizeof from, x->ga.nd, x->ga.dimensions), nd ? to : "", nd == 1 ? "," : "");
        return -1;
    }
    PyGpuArrayObject *made = pygpu_reshape(x, (unsigned)nd, dims, GA_C_ORDER, 0, -1);
    if (made == NULL)
        return -1;
    native_set(out, (PyObject *)made);
    return 0;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(join), {"split", tng_split, NULL, NULL}, NATIVE_ENTRY(reshape), {0}};
NATIVE_MODULE(join, entries)
