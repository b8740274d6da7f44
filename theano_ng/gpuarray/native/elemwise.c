/* The native code of elementwise nodes and of DimShuffle. */
#include "context.h"
#include "gpu_axes.h"
#include "gpu_elemwise.h"

/* Parameters of an input or output.
 * broadcastable: bits of the axes whose length is 1 according to the type
 * typecode: element type
 * kind: how the kernels read the operand; the class Access in loops/program.py defines the same kinds
 * overwrites: index of the input that an output overwrites, or -1
 * is_number: whether an input is an array of one element on the host, which is passed to the kernel by value
 * start, stop: the slice in which a result of `elemwise_in_slices` is stored. stop -1: up to the end. start -1: the result
 * is an output of its own. */
NATIVE_PARAMS(operand, broadcastable, typecode, kind, overwrites, is_number, start, stop);
enum { VARYING, HOISTED, MAYBE_BROADCAST };

/* Parameters of a node.
 * operands: the inputs, then the outputs
 * context: a PyGpuContextObject
 * contiguous, strided: the kernels
 * ndim: rank of the operands
 * rank: number of axes of the strided kernel; 0 if there is no strided kernel
 * axis, results: the axis of the slices, and the number of results of `elemwise_in_slices`
 * per_thread: number of elements that a thread of a GPU computes at a time if the operands are contiguous */
NATIVE_TABLE(elemwise, operand, operands, context, contiguous, strided, ndim, rank, per_thread, axis, results);
NATIVE_READER(elemwise)

/* Compute the common shape of the inputs. Return 0, or -1 with an exception set. */
static int result_dims(int nd, int nin, PyGpuArrayObject *const *a, const struct operand_params *operands, size_t *dims)
{
    for (int d = 0; d < nd; ++d) {
        int reference = -1;
        size_t length = 1;
        for (int i = 0; i < nin; ++i) {
            if (operands[i].is_number)
                continue;
            size_t here = a[i]->ga.dimensions[d];
            if (operands[i].broadcastable >> d & 1) {
                if (__builtin_expect(here != 1, 0)) {
                    PyErr_Format(PyExc_ValueError,
                                 "Input dimension mis-match. (input[%d].shape[%d] = %zu, but its type says that this "
                                 "dimension is broadcastable: its "
                                 "length must be 1)",
                                 i, d, here);
                    return -1;
                }
            }
            else if (reference < 0) {
                reference = i;
                length = here;
            }
            else if (__builtin_expect(here != length, 0)) {
                PyErr_Format(PyExc_ValueError,
                             "Input dimension mis-match. (input[%d].shape[%d] = %zu, input[%d].shape[%d] = %zu)",
                             reference, d, length, i, d, here);
                return -1;
            }
        }
        dims[d] = length;
    }
    return 0;
}

/* Return an output array in F order. This function works like gpu_alloc, but reuses only an F-contiguous array. */
static PyGpuArrayObject *alloc_fortran(PyObject **out, PyGpuContextObject *ctx, unsigned nd, const size_t *dims,
                                       int typecode)
{
    PyGpuArrayObject *old = (PyGpuArrayObject *)*out;
    if (old != NULL && PyGpuArray_CheckExact(old) && old->context == ctx && old->ga.typecode == typecode
        && old->ga.nd == nd && GpuArray_IS_F_CONTIGUOUS(&old->ga) && GpuArray_ISBEHAVED(&old->ga)
        && memcmp(old->ga.dimensions, dims, nd * sizeof *dims) == 0)
        return old;
    Py_CLEAR(*out);
    *out = (PyObject *)pygpu_empty(nd, dims, typecode, GA_F_ORDER, ctx, Py_None);
    return (PyGpuArrayObject *)*out;
}

/* Simplify the axes: drop axes of length 1, sort the axes by the strides of operand `lead`, and merge axes that are
 * contiguous with each other in all operands. strides[k * nd + d] is the stride of operand k along axis d, in elements.
 * Return the number of remaining axes, which are then the first axes. */
static int collapse(int nd, int count, size_t *dims, ssize_t *strides, int lead)
{
    int kept = 0;
    for (int d = 0; d < nd; ++d) {
        if (dims[d] == 1)
            continue;
        /* Insertion sort: there are few axes, and they are mostly sorted. */
        int at = kept++;
        size_t length = dims[d];
        ssize_t column[count];
        for (int k = 0; k < count; ++k)
            column[k] = strides[k * nd + d];
        while (at > 0 && labs(strides[lead * nd + at - 1]) < labs(column[lead])) {
            dims[at] = dims[at - 1];
            for (int k = 0; k < count; ++k)
                strides[k * nd + at] = strides[k * nd + at - 1];
            --at;
        }
        dims[at] = length;
        for (int k = 0; k < count; ++k)
            strides[k * nd + at] = column[k];
    }
    int last = 0;
    for (int d = 1; d < kept; ++d) {
        int joins = 1;
        for (int k = 0; k < count && joins; ++k)
            joins = strides[k * nd + last] == strides[k * nd + d] * (ssize_t)dims[d];
        if (joins)
            dims[last] *= dims[d];
        else {
            ++last;
            dims[last] = dims[d];
        }
        for (int k = 0; k < count; ++k)
            strides[k * nd + last] = strides[k * nd + d];
    }
    return kept == 0 ? 0 : last + 1;
}

/* The largest element that is passed by value, in bytes */
enum { LARGEST_NUMBER = 16 };

static int run_contiguous(gpukernel *kernel, size_t n, size_t per_thread, int count,
                          const struct operand_params *operands, PyGpuArrayObject *const *a,
                          char (*numbers)[LARGEST_NUMBER])
{
    const device_info *info = &gpukernel_context(kernel)->info;
    void *args[1 + 2 * count];
    int n_args = 0;
    args[n_args++] = &n;
    for (int k = 0; k < count; ++k) {
        args[n_args++] = operands[k].is_number ? (void *)numbers[k] : (void *)a[k]->ga.data;
        if (!operands[k].is_number)
            args[n_args++] = &a[k]->ga.offset;
    }
    if (info->warp > 1)
        return gpu_run(kernel, (n + per_thread - 1) / per_thread, args, "GpuElemwise");
    /* On a CPU, starting a thread takes as long as processing a few thousand elements. Therefore start another thread
     * only for every 4096 elements, and at most one thread for each processor. */
    size_t groups = at_most(n / 4096 + 1, info->processors), group = 1;
    int code = gpukernel_call(kernel, 1, &groups, &group, 0, args);
    return code == GA_NO_ERROR ? 0 : gpu_failed(gpukernel_context(kernel), code, "GpuElemwise");
}

static int run_strided(gpukernel *kernel, int nd, int rank, int nin, int count, const struct operand_params *operands,
                       const size_t *shape, PyGpuArrayObject *const *a, char (*numbers)[LARGEST_NUMBER])
{
    size_t dims[nd], lengths[rank];
    ssize_t strides[count * nd];
    void *args[rank + count * (2 + rank)];
    int n = 0;
    memcpy(dims, shape, sizeof dims);
    for (int k = 0; k < count; ++k) {
        ssize_t size = (ssize_t)gpuarray_get_elsize((int)operands[k].typecode);
        for (int d = 0; d < nd; ++d)
            strides[k * nd + d] = k < nin && operands[k].broadcastable >> d & 1 ? 0 : a[k]->ga.strides[d] / size;
    }
    int kept = collapse(nd, count, dims, strides, nin), missing = rank - kept;
    static const ssize_t none = 0;
    for (int d = 0; d < rank; ++d) {
        lengths[d] = d < missing ? 1 : dims[d - missing];
        args[n++] = &lengths[d];
    }
    for (int k = 0; k < count; ++k) {
        if (operands[k].is_number) {
            args[n++] = numbers[k];
            continue;
        }
        args[n++] = a[k]->ga.data;
        args[n++] = &a[k]->ga.offset;
        for (int d = 0; d < rank && operands[k].kind != HOISTED; ++d)
            args[n++] = (void *)(d < missing ? &none : &strides[k * nd + d - missing]);
    }
    return gpu_run_rows(kernel, rank, lengths, args, "GpuElemwise");
}

/* Compute results. If given[j] is not NULL, result j is stored in this array, or, if the array has another shape, in a new
 * array that takes its place. Other results are stored in out[j]. */
static int compute(int nin, int nout, PyObject **in, PyObject **out, PyGpuArrayObject **given,
                   const struct elemwise_params *params)
{
    PyGpuContextObject *ctx = (PyGpuContextObject *)(intptr_t)params->context;
    const struct operand_params *operands = params->operands;
    int nd = (int)params->ndim, count = nin + nout, in_c_order = 1, in_f_order = 1, empty = 0;
    PyGpuArrayObject *a[count];
    size_t dims[nd + 1], n = 1;
    char numbers[count][LARGEST_NUMBER];
    for (int i = 0; i < nin; ++i) {
        if (operands[i].is_number) {
            PyArrayObject *number = (PyArrayObject *)in[i];
            if (!PyArray_Check(in[i]) || PyArray_SIZE(number) != 1 || PyArray_ITEMSIZE(number) > LARGEST_NUMBER) {
                PyErr_Format(PyExc_TypeError, "input[%d] must be an array of one element on the host", i);
                return -1;
            }
            memcpy(numbers[i], PyArray_DATA(number), (size_t)PyArray_ITEMSIZE(number));
            continue;
        }
        a[i] = gpu_input(in[i], (int)operands[i].typecode, nd);
        if (a[i] == NULL)
            return -1;
        if (a[i]->context != ctx) {
            PyErr_Format(PyExc_ValueError,
                         "input[%d] is an array in another context than the node: transfer() it first", i);
            return -1;
        }
        if (!GpuArray_ISALIGNED(&a[i]->ga)) {
            PyErr_Format(PyExc_ValueError, "input[%d] is not aligned: copy() it first", i);
            return -1;
        }
    }
    if (result_dims(nd, nin, a, operands, dims) != 0)
        return -1;
    for (int d = 0; d < nd; ++d) {
        empty |= dims[d] == 0;
        n *= dims[d];
    }
    for (int i = 0; i < nin; ++i) {
        if (operands[i].kind == HOISTED)
            continue;
        int whole = gpu_size(&a[i]->ga) == n;
        in_c_order &= whole && GpuArray_IS_C_CONTIGUOUS(&a[i]->ga);
        in_f_order &= whole && GpuArray_IS_F_CONTIGUOUS(&a[i]->ga);
    }
    int fortran = in_f_order && !in_c_order;
    for (int j = 0; j < nout; ++j) {
        const struct operand_params *operand = &operands[nin + j];
        PyGpuArrayObject *old = operand->overwrites < 0 ? NULL : a[operand->overwrites], *z = old;
        if (given[j] != NULL) {
            z = given[j];
            if (memcmp(z->ga.dimensions, dims, (size_t)nd * sizeof *dims) != 0) {
                ssize_t strides[GA_MAX_DIMS] = {0};
                GpuArray result = {.nd = (unsigned)nd, .dimensions = dims, .strides = strides};
                if (broadcast_strides(&result, (unsigned)nd, z->ga.dimensions, strides) < 0)
                    return -1;
                z = pygpu_empty((unsigned)nd, dims, (int)operand->typecode, GA_C_ORDER, ctx, Py_None);
                Py_SETREF(given[j], z);
            }
        }
        else if (old != NULL && GpuArray_ISWRITEABLE(&old->ga)
                 && memcmp(old->ga.dimensions, dims, (size_t)nd * sizeof *dims) == 0)
            native_set(&out[j], Py_NewRef((PyObject *)old));
        else
            z = fortran ? alloc_fortran(&out[j], ctx, (unsigned)nd, dims, (int)operand->typecode)
                        : gpu_alloc(&out[j], ctx, (unsigned)nd, dims, (int)operand->typecode);
        if (z == NULL)
            return -1;
        a[nin + j] = z;
        in_c_order &= GpuArray_IS_C_CONTIGUOUS(&z->ga) != 0;
        in_f_order &= GpuArray_IS_F_CONTIGUOUS(&z->ga) != 0;
    }
    if (empty)
        return 0;
    if (in_c_order || in_f_order || params->rank == 0)
        return run_contiguous((gpukernel *)(intptr_t)params->contiguous, n, (size_t)params->per_thread, count, operands,
                              a, numbers);
    return run_strided((gpukernel *)(intptr_t)params->strided, nd, (int)params->rank, nin, count, operands, dims, a,
                       numbers);
}

static int tng_elemwise(int nin, int nout, PyObject **in, PyObject **out, const struct elemwise_params *params)
{
    PyGpuArrayObject *given[nout];
    memset(given, 0, sizeof given);
    return compute(nin, nout, in, out, given, params);
}

/* Return the view of a slice of an array along an axis, and add its length to *covered. */
static PyGpuArrayObject *slice_of(PyGpuArrayObject *array, int axis, const struct operand_params *operand,
                                  size_t *covered)
{
    size_t dims[GA_MAX_DIMS], length = array->ga.dimensions[axis];
    size_t start = at_most((size_t)operand->start, length),
           stop = operand->stop < 0 ? length : at_most((size_t)operand->stop, length);
    memcpy(dims, array->ga.dimensions, array->ga.nd * sizeof *dims);
    dims[axis] = stop > start ? stop - start : 0;
    *covered += dims[axis];
    int empty = dims[axis] == 0 || gpu_size(&array->ga) == 0; /* the memory may end before the slice */
    size_t offset = array->ga.offset + (empty ? 0 : start * (size_t)array->ga.strides[axis]);
    return pygpu_fromgpudata(array->ga.data, offset, array->ga.typecode, array->ga.nd, dims, array->ga.strides,
                             array->context, 1, (PyObject *)array, Py_None);
}

/* Inputs: the lengths of an array, on the host; the inputs of the scalar op. Outputs: the array, in whose slices results
 * are stored; the other results. Elements in no slice are 0. */
static int tng_elemwise_in_slices(int nin, int nout, PyObject **in, PyObject **out,
                                  const struct elemwise_params *params)
{
    PyGpuContextObject *ctx = (PyGpuContextObject *)(intptr_t)params->context;
    int nd = (int)params->ndim, count = (int)params->results, axis = (int)params->axis, e = nin - nd, status = -1;
    const struct operand_params *rows = params->operands + e;
    size_t dims[nd + 1], covered = 0;
    PyGpuArrayObject *given[count], *slices[count];
    PyObject *outputs[count];
    int typecode = -1, next = 1;
    (void)nout;
    memset(given, 0, sizeof given);
    memset(slices, 0, sizeof slices);
    for (int d = 0; d < nd; ++d) {
        int64_t length;
        if (native_as_int64(in[d], &length) < 0)
            return -1;
        if (length < 0) {
            PyErr_SetString(PyExc_ValueError, "negative dimensions are not allowed");
            return -1;
        }
        dims[d] = (size_t)length;
    }
    for (int j = 0; j < count; ++j) {
        if (rows[j].start >= 0)
            typecode = (int)rows[j].typecode;
        outputs[j] = rows[j].start >= 0 ? NULL : out[next++];
    }
    for (int i = 0; i < e; ++i)
        if (PyGpuArray_Check(in[nd + i]))
            gpu_not_shared(&out[0], &((PyGpuArrayObject *)in[nd + i])->ga);
    PyGpuArrayObject *array = gpu_alloc(&out[0], ctx, (unsigned)nd, dims, typecode);
    if (array == NULL)
        return -1;
    for (int j = 0; j < count; ++j)
        if (rows[j].start >= 0) {
            slices[j] = slice_of(array, axis, &rows[j], &covered);
            if (slices[j] == NULL)
                goto done;
            given[j] = (PyGpuArrayObject *)Py_NewRef((PyObject *)slices[j]);
        }
    int code = covered == dims[axis] ? GA_NO_ERROR : GpuArray_memset(&array->ga, 0);
    if (code != GA_NO_ERROR) {
        gpu_failed(ctx->ctx, code, "GpuElemwiseInSlices");
        goto done;
    }
    status = compute(e, count, in + nd, outputs, given, params);
    for (int j = 0; j < count && status == 0; ++j)
        if (slices[j] != given[j]) /* the result has another shape than the slice */
            status = gpu_assign(slices[j], &given[j]->ga, "GpuElemwiseInSlices");
done:
    next = 1;
    for (int j = 0; j < count; ++j) {
        if (rows[j].start < 0)
            out[next++] = outputs[j];
        Py_XDECREF(slices[j]);
        Py_XDECREF(given[j]);
    }
    return status;
}

static int in_slices_reader(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    return tng_elemwise_in_slices(nin, nout, in, out, (const struct elemwise_params *)params);
}

/* Input: an array. Output: a view or a copy with its axes in the order `order`; -1 inserts an axis of length 1. Axes
 * that are dropped must have length 1. */
NATIVE_FUNCTION(dimshuffle, copies, ndim_in, n_order, order[]);
static int tng_dimshuffle(int nin, int nout, PyObject **in, PyObject **out, const struct dimshuffle_params *params)
{
    (void)nin, (void)nout;
    PyGpuArrayObject *a = gpu_input(in[0], -1, (int)params->ndim_in);
    size_t dims[GA_MAX_DIMS];
    ssize_t strides[GA_MAX_DIMS];
    uint64_t used = 0;
    if (a == NULL)
        return -1;
    ssize_t size = (ssize_t)gpuarray_get_elsize(a->ga.typecode);
    for (int64_t d = 0; d < params->n_order; ++d) {
        int64_t from = params->order[d];
        dims[d] = from < 0 ? 1 : a->ga.dimensions[from];
        strides[d] = from < 0 ? size : a->ga.strides[from];
        used |= from < 0 ? 0 : (uint64_t)1 << from;
    }
    for (unsigned d = 0; d < a->ga.nd; ++d) {
        if (!(used >> d & 1) && a->ga.dimensions[d] != 1) {
            PyErr_Format(PyExc_ValueError,
                         "DimShuffle: dimension %u of the input is dropped, so its length must be 1, but it is %zu", d,
                         a->ga.dimensions[d]);
            return -1;
        }
    }
    PyObject *base = a->base == NULL || a->base == Py_None ? (PyObject *)a : a->base;
    PyGpuArrayObject *view = pygpu_fromgpudata(a->ga.data, a->ga.offset, a->ga.typecode, (unsigned)params->n_order,
                                               dims, strides, a->context, GpuArray_ISWRITEABLE(&a->ga), base, Py_None);
    if (view == NULL)
        return -1;
    if (!params->copies) {
        native_set(out, (PyObject *)view);
        return 0;
    }
    PyGpuArrayObject *made = gpu_alloc(out, a->context, view->ga.nd, view->ga.dimensions, view->ga.typecode);
    int status = made == NULL ? -1 : pygpu_move(made, view);
    Py_DECREF(view);
    return status;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(elemwise),
                                      {"elemwise_in_slices", in_slices_reader, elemwise_text, NULL},
                                      NATIVE_ROW(operand),
                                      NATIVE_ENTRY(dimshuffle),
                                      {0}};
NATIVE_MODULE(elemwise, entries)
