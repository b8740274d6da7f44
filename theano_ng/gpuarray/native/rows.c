/* Row programs: reductions of rows and elementwise operations in one kernel (kernels/rows.py). */
#include "context.h"
#include "gpu_axes.h"

/* Parameters of an input or output.
 * is_output: 0 or 1
 * level: 0 for a single value, 1 for a value per row, 2 for a value per element
 * typecode: element type
 * ndim: rank; an input with a value per element may lack the first axes
 * broadcastable: bits of the axes whose length is 1 according to the type
 * on_host: whether an input is a single value on the host, which is passed to the kernel by value */
NATIVE_PARAMS(row_operand, is_output, level, typecode, ndim, broadcastable, on_host);
enum { ONE, ROW, ELEMENT };

/* Parameters of a node.
 * operands: the inputs, then the outputs
 * context: a PyGpuContextObject
 * kernel: the kernel
 * width: number of adjacent elements that a thread of a GPU processes at a time, if the length of rows is a multiple
 * outer: number of axes that count rows; the other axes are those of a row
 * rank: number of all axes
 * nonempty: whether a reduction has no result for a row without elements
 * kind: see `enum kind`
 * label_check: the kernel that checks the labels, or 0; site: the node's number for its errors */
NATIVE_TABLE(rows, row_operand, operands, context, kernel, width, outer, rank, nonempty, kind, label_check, site);
NATIVE_READER(rows)

/* Threads in a group, as in kernels/rows.py. */
enum { GROUP = 256 };

/* Kinds of nodes. Each kind except ANY has its own error messages. The last input of the cross-entropies contains labels. */
enum kind { ANY, SOFTMAX, SOFTMAX_GRAD, CROSSENTROPY, CROSSENTROPY_GRAD, ONEHOT, ONEHOT_GRAD };

/* Raise ValueError: axis `axis` of input `first` has `expected` elements, but axis `own_axis` of input `number` has
 * `here` elements. */
static int mismatch(enum kind kind, int first, int axis, size_t expected, int number, int own_axis, size_t here)
{
    const char *text = NULL;
    size_t before = here, after = expected;
    if (kind == SOFTMAX_GRAD) {
        PyErr_SetString(PyExc_ValueError, "dy and sm must have the same shape");
        return -1;
    }
    if (kind == SOFTMAX || (kind == CROSSENTROPY && number == 1))
        text = "b must have as many elements as x has columns";
    else if (kind == CROSSENTROPY)
        text = "y_idx must have as many elements as x has rows";
    else if (kind == CROSSENTROPY_GRAD && number == 2)
        text = "y_idx must have as many elements as sm has rows";
    else if (kind == ONEHOT)
        text = "true_one_of_n must have as many elements as coding_dist has rows";
    else if (kind == ONEHOT_GRAD) {
        text = "g_y and true_one_of_n must have as many elements as coding_dist has rows";
        if (number == 1) {
            before = expected;
            after = here;
        }
    }
    else if (kind == CROSSENTROPY_GRAD) {
        text = "dy must have one element or as many as sm has rows";
        before = expected;
        after = here;
    }
    if (text == NULL)
        PyErr_Format(PyExc_ValueError,
                     "Input dimension mis-match. (input[%d].shape[%d] = %zu, input[%d].shape[%d] = %zu)", first, axis,
                     expected, number, own_axis, here);
    else
        PyErr_Format(PyExc_ValueError, "%s (%zu and %zu)", text, before, after);
    return -1;
}

/* Return the axis among all axes that corresponds to axis 0 of an input. */
static int first_axis(const struct row_operand_params *operand, int rank)
{
    return operand->level == ELEMENT ? rank - (int)operand->ndim : 0;
}

/* Add the lengths of an input to the common lengths. `from[d]` is the input that determined length d, or -1. */
static int add_lengths(const size_t *lengths, int number, const struct rows_params *params, size_t *dims, int *from)
{
    const struct row_operand_params *operand = &params->operands[number];
    int first = first_axis(operand, (int)params->rank);
    for (int d = 0; d < (int)operand->ndim; ++d) {
        size_t here = lengths[d];
        if (operand->broadcastable >> d & 1) {
            if (here != 1) {
                PyErr_Format(
                    PyExc_ValueError,
                    "Input dimension mis-match. (input[%d].shape[%d] = %zu, but its type says that this dimension "
                    "is broadcastable: its length must be 1)",
                    number, d, here);
                return -1;
            }
        }
        else if (from[first + d] < 0) {
            from[first + d] = number;
            dims[first + d] = here;
        }
        else if (here != dims[first + d])
            return mismatch((enum kind)params->kind, from[first + d], first + d, dims[first + d], number, d, here);
    }
    return 0;
}

/* ---- labels ---- */

static int check_labels(const int64_t *labels, size_t n, size_t classes)
{
    for (size_t i = 0; i < n; ++i)
        if (labels[i] < 0 || (size_t)labels[i] >= classes) {
            PyErr_Format(PyExc_ValueError, "y_i value out of bounds: y[%zu] is %lld, but there are %zu classes", i,
                         (long long)labels[i], classes);
            return -1;
        }
    return 0;
}

/* Launch the kernel that checks labels on the device. It reports labels that are no classes. */
static int check_labels_on_device(const GpuArray *labels, const ssize_t *stride, const size_t *classes,
                                  const struct rows_params *params)
{
    gpukernel *kernel = (gpukernel *)(intptr_t)params->label_check;
    index_watch watch;
    int code = gpucontext_watch(gpukernel_context(kernel), (unsigned)params->site, &watch);
    if (code != GA_NO_ERROR)
        return gpu_failed(gpukernel_context(kernel), code, "labels");
    Arguments args = {0};
    args_push(&args, watch.slots);
    args_push(&args, &watch.launch);
    args_array(&args, labels, &labels->offset);
    args_push(&args, stride);
    args_push(&args, &labels->dimensions[0]);
    args_push(&args, classes);
    return gpu_run_watched(kernel, labels->dimensions[0], &args, &watch, "labels");
}

/* Merge axes into one. Return 1 and set *stride if it is possible, else 0. */
static int merge(int n, const size_t *dims, const ssize_t *strides, ssize_t *stride)
{
    int inner = -1;
    *stride = 0;
    for (int d = n - 1; d >= 0; --d) {
        if (dims[d] == 1)
            continue;
        if (inner < 0)
            *stride = strides[d];
        else if (strides[d] != strides[inner] * (ssize_t)dims[inner])
            return 0;
        inner = d;
    }
    return 1;
}

/* A row of an operand begins at `row` elements after the row before, and its elements are `element` elements apart. */
typedef struct {
    const GpuArray *array; /* NULL for a value in `number` */
    char number[16];
    PyGpuArrayObject *copy; /* an owned reference, or NULL */
    ssize_t row, element;
} RowOperand;

/* Find the strides of an input. If its axes cannot be merged, copy it. */
static int find_strides(RowOperand *found, PyGpuArrayObject *a, const struct row_operand_params *operand, int outer,
                        int rank, const size_t *dims)
{
    ssize_t strides[GA_MAX_DIMS], size = (ssize_t)gpuarray_get_elsize((int)operand->typecode);
    int axes = operand->level == ELEMENT ? rank : outer, first = first_axis(operand, rank);
    found->array = &a->ga;
    found->copy = NULL;
    if (operand->level == ONE)
        return 0;
    for (int d = 0; d < axes; ++d)
        strides[d] = d < first || operand->broadcastable >> (d - first) & 1 ? 0 : a->ga.strides[d - first] / size;
    if (merge(outer, dims, strides, &found->row)
        && (operand->level == ROW || merge(rank - outer, dims + outer, strides + outer, &found->element)))
        return 0;
    for (int d = 0; d < axes; ++d)
        strides[d] *= size;
    PyGpuArrayObject *whole = pygpu_fromgpudata(a->ga.data, a->ga.offset, a->ga.typecode, (unsigned)axes, dims, strides,
                                                a->context, 0, Py_None, Py_None);
    found->copy = whole == NULL ? NULL : pygpu_copy(whole, GA_C_ORDER);
    Py_XDECREF(whole);
    if (found->copy == NULL)
        return -1;
    found->array = &found->copy->ga;
    found->element = 1;
    found->row = 1;
    for (int d = outer; d < axes; ++d)
        found->row *= (ssize_t)dims[d];
    return 0;
}

static size_t power_of_two(size_t n)
{
    size_t p = 1;
    while (p < n && p < GROUP)
        p *= 2;
    return p;
}

static int launch(const struct rows_params *params, size_t rows, size_t length, int count, const RowOperand *operands)
{
    const device_info *info = &((PyGpuContextObject *)(intptr_t)params->context)->ctx->info;
    gpukernel *kernel = (gpukernel *)(intptr_t)params->kernel;
    void *args[2 + 4 * count];
    int n = 0;
    args[n++] = &rows;
    args[n++] = &length;
    for (int k = 0; k < count; ++k) {
        if (operands[k].array == NULL) {
            args[n++] = (void *)operands[k].number;
            continue;
        }
        args[n++] = operands[k].array->data;
        args[n++] = (void *)&operands[k].array->offset;
        if (!params->operands[k].is_output && params->operands[k].level >= ROW)
            args[n++] = (void *)&operands[k].row;
        if (!params->operands[k].is_output && params->operands[k].level == ELEMENT)
            args[n++] = (void *)&operands[k].element;
    }
    size_t groups[2] = {1, 1}, group[2] = {1, 1}, most = (size_t)info->processors * 32, width = (size_t)params->width;
    if (info->warp > 1) {
        group[0] = power_of_two(length % width ? length : length / width);
        group[1] = power_of_two(rows);
        if (group[1] > GROUP / group[0])
            group[1] = GROUP / group[0];
        groups[0] = (rows + group[1] - 1) / group[1];
    }
    else {
        groups[0] = rows * length / 4096 + 1;
        most = info->processors;
        if (groups[0] > rows)
            groups[0] = rows;
    }
    if (groups[0] > most)
        groups[0] = most;
    int code = gpukernel_call(kernel, 2, groups, group, 0, args);
    return code == GA_NO_ERROR ? 0 : gpu_failed(gpukernel_context(kernel), code, "a program on rows");
}

static int tng_rows(int nin, int nout, PyObject **in, PyObject **out, const struct rows_params *params)
{
    PyGpuContextObject *ctx = (PyGpuContextObject *)(intptr_t)params->context;
    int outer = (int)params->outer, rank = (int)params->rank, count = nin + nout, from[GA_MAX_DIMS], status = -1;
    int repeated = 0; /* whether input 0 has one element for all rows */
    size_t dims[GA_MAX_DIMS], rows = 1, length = 1;
    RowOperand operands[count];
    memset(operands, 0, sizeof operands);
    for (int d = 0; d < rank; ++d) {
        from[d] = -1;
        dims[d] = 1;
    }
    for (int k = 0; k < nin; ++k) {
        const struct row_operand_params *operand = &params->operands[k];
        if (operand->on_host) {
            PyArrayObject *number = (PyArrayObject *)in[k];
            if (!PyArray_Check(in[k]) || PyArray_SIZE(number) != 1
                || (size_t)PyArray_ITEMSIZE(number) > sizeof operands[k].number) {
                PyErr_Format(PyExc_TypeError, "input[%d] must be an array of one element on the host", k);
                goto done;
            }
            memcpy(operands[k].number, PyArray_DATA(number), (size_t)PyArray_ITEMSIZE(number));
            continue;
        }
        PyGpuArrayObject *a = gpu_input(in[k], (int)operand->typecode, (int)operand->ndim);
        if (a == NULL || gpu_aligned(&a->ga, "a program on rows") < 0)
            goto done;
        if (a->context != ctx) {
            PyErr_Format(PyExc_ValueError,
                         "input[%d] is an array in another context than the node: transfer() it first", k);
            goto done;
        }
        /* The gradient of a cross-entropy may have one element for all rows. */
        int one_for_all = k == 0 && params->kind == CROSSENTROPY_GRAD && a->ga.nd == 1 && a->ga.dimensions[0] == 1;
        repeated |= one_for_all;
        if (!one_for_all && add_lengths(a->ga.dimensions, k, params, dims, from) < 0)
            goto done;
    }
    for (int d = 0; d < rank; ++d)
        *(d < outer ? &rows : &length) *= dims[d];
    if (length == 0 && rows > 0 && params->nonempty) {
        PyErr_SetString(PyExc_ValueError,
                        "Reduction: a row has no elements, and the reduced operation has no identity, so "
                        "that it has no result for zero elements");
        goto done;
    }
    for (int k = 0; k < nin; ++k)
        if (!params->operands[k].on_host
            && find_strides(&operands[k], (PyGpuArrayObject *)in[k], &params->operands[k], outer, rank, dims) < 0)
            goto done;
    if (repeated)
        operands[0].row = 0;
    const RowOperand *labels = &operands[nin - 1];
    if (params->label_check && check_labels_on_device(labels->array, &labels->row, &length, params) < 0)
        goto done;
    for (int j = 0; j < nout; ++j) {
        const struct row_operand_params *operand = &params->operands[nin + j];
        size_t shape[GA_MAX_DIMS];
        for (int d = 0; d < (int)operand->ndim; ++d)
            shape[d] = d < outer || operand->level == ELEMENT ? dims[d] : 1;
        for (int k = 0; k < nin; ++k)
            if (!params->operands[k].on_host)
                gpu_not_shared(&out[j], &((PyGpuArrayObject *)in[k])->ga);
        PyGpuArrayObject *made = gpu_alloc(&out[j], ctx, (unsigned)operand->ndim, shape, (int)operand->typecode);
        if (made == NULL)
            goto done;
        operands[nin + j].array = &made->ga;
    }
    status = rows == 0 ? 0 : launch(params, rows, length, count, operands);
done:
    for (int k = 0; k < nin; ++k)
        Py_XDECREF(operands[k].copy);
    return status;
}

/* Inputs: labels on the host, and an array on a device, whose last axis has an element for each class. Output: the
 * labels on the device, if they are numbers of classes. */
NATIVE_FUNCTION(labels, typecode)
static int tng_labels(int nin, int nout, PyObject **in, PyObject **out, const struct labels_params *params)
{
    (void)nin, (void)nout;
    PyGpuArrayObject *x = gpu_input(in[1], -1, -1), *made = NULL;
    if (x == NULL)
        return -1;
    PyArrayObject *labels = (PyArrayObject *)PyArray_FROM_OF(in[0], NPY_ARRAY_CARRAY_RO | NPY_ARRAY_NOTSWAPPED);
    if (labels == NULL)
        return -1;
    PyArrayObject *wide = (PyArrayObject *)PyArray_FROMANY((PyObject *)labels, NPY_INT64, 1, 1,
                                                           NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST);
    size_t n = wide == NULL ? 0 : (size_t)PyArray_DIM(wide, 0);
    if (wide != NULL && check_labels(PyArray_DATA(wide), n, x->ga.dimensions[x->ga.nd - 1]) == 0)
        made = gpu_alloc(out, x->context, 1, &n, (int)params->typecode);
    int code =
        made == NULL ? GA_NO_ERROR : GpuArray_write(&made->ga, PyArray_DATA(labels), (size_t)PyArray_NBYTES(labels));
    if (code != GA_NO_ERROR)
        gpu_failed(x->context->ctx, code, "copying labels");
    Py_XDECREF(wide);
    Py_DECREF(labels);
    return made == NULL || code != GA_NO_ERROR ? -1 : 0;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(rows), NATIVE_ENTRY(labels), NATIVE_ROW(row_operand), {0}};
NATIVE_MODULE(rows, entries)
