/* Fourier transforms of real arrays on CUDA devices, and their inverses, by cuFFT (device/cufft.c).
 *
 * The library transforms up to three axes at a time. The last three axes are transformed together, and axes in front of
 * them one by one, as complex arrays. */
#include "context.h"
#include "cufft.h"
#include "gpu_axes.h"

/* Inputs: the arrays, and a vector of the lengths of the real arrays along the transformed axes, on the host. The arrays
 * are (m, ..., n) for rfft, and (m, ..., n//2+1, 2) for irfft. */
NATIVE_FUNCTION(rfft, typecode)
/* `symmetrize`: a kernel. */
NATIVE_FUNCTION(irfft, typecode, symmetrize)

/* The lengths of a transform */
typedef struct {
    const char *who;
    int rank;                    /* number of transformed axes */
    size_t batch;                /* number of arrays */
    size_t lengths[GA_MAX_DIMS]; /* of the real arrays */
    size_t stored;               /* number of pairs along the last axis of the transforms */
} Transform;

/* ---- inputs ---- */

static void write_list(char *text, size_t size, const npy_int64 *numbers, npy_intp n)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (npy_intp i = 0; i < n && used < size; ++i)
        used += (size_t)snprintf(text + used, size - used, i ? ", %lld" : "%lld", (long long)numbers[i]);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

/* Check the lengths, and store them. `extra`: number of axes of pairs. */
static int check_lengths(Transform *t, const PyGpuArrayObject *a, const npy_int64 *lengths, npy_intp n, int extra)
{
    char shape[700], list[700];
    int is_empty = 0;
    gpu_shape_text(shape, sizeof shape, a->ga.nd, a->ga.dimensions);
    t->rank = (int)a->ga.nd - 1 - extra;
    t->batch = a->ga.dimensions[0];
    if (n != t->rank) {
        PyErr_Format(PyExc_ValueError, "%s: s has %zd lengths, for %d transformed axes of an array of shape %s", t->who,
                     (Py_ssize_t)n, t->rank, shape);
        return -1;
    }
    for (npy_intp i = 0; i < n; ++i) {
        is_empty |= lengths[i] < 1;
        t->lengths[i] = (size_t)lengths[i];
    }
    for (unsigned i = 1; i < a->ga.nd; ++i)
        is_empty |= a->ga.dimensions[i] == 0;
    if (is_empty) {
        write_list(list, sizeof list, lengths, n);
        PyErr_Format(PyExc_ValueError,
                     "%s: there is no transform of zero elements: the lengths are %s, for an array of shape %s", t->who,
                     list, shape);
        return -1;
    }
    t->stored = t->lengths[t->rank - 1] / 2 + 1;
    return 0;
}

static int read_lengths(Transform *t, const PyGpuArrayObject *a, PyObject *s, int extra)
{
    PyArrayObject *lengths =
        (PyArrayObject *)PyArray_FROMANY(s, NPY_INT64, 1, 1, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST);
    if (lengths == NULL)
        return -1;
    int status = check_lengths(t, a, PyArray_DATA(lengths), PyArray_SIZE(lengths), extra);
    Py_DECREF(lengths);
    return status;
}

/* ---- arrays ---- */

static device_memory address_of(const PyGpuArrayObject *a)
{
    return a->ga.data->memory + a->ga.offset;
}

/* Copy the elements that two arrays have in common, from the beginning of each axis. */
static int copy_common(PyGpuArrayObject *to, const PyGpuArrayObject *from)
{
    GpuArray target = {0}, source = {0};
    size_t dims[GA_MAX_DIMS];
    for (unsigned i = 0; i < to->ga.nd; ++i)
        dims[i] = to->ga.dimensions[i] < from->ga.dimensions[i] ? to->ga.dimensions[i] : from->ga.dimensions[i];
    int code =
        GpuArray_fromdata(&target, to->ga.data, to->ga.offset, to->ga.typecode, to->ga.nd, dims, to->ga.strides, 1);
    if (code == GA_NO_ERROR)
        code = GpuArray_fromdata(&source, from->ga.data, from->ga.offset, from->ga.typecode, from->ga.nd, dims,
                                 from->ga.strides, 0);
    if (code == GA_NO_ERROR)
        code = GpuArray_setarray(&target, &source);
    GpuArray_clear(&target);
    GpuArray_clear(&source);
    return code == GA_NO_ERROR ? 0 : gpu_failed(to->context->ctx, code, "copying the input of a Fourier transform");
}

/* Return a copy of an array in C order that is cut, or padded with zeros at the end of each axis, to these lengths. */
static PyGpuArrayObject *fitted_copy(PyGpuArrayObject *a, const size_t *dims)
{
    int padded = 0;
    for (unsigned i = 0; i < a->ga.nd; ++i)
        padded |= dims[i] > a->ga.dimensions[i];
    PyGpuArrayObject *made =
        (padded ? pygpu_zeros : pygpu_empty)(a->ga.nd, dims, a->ga.typecode, GA_C_ORDER, a->context, Py_None);
    if (made != NULL && copy_common(made, a) < 0)
        Py_CLEAR(made);
    return made;
}

/* Return the array itself (a new reference) if the library can read it, else a copy. */
static PyGpuArrayObject *fitted(PyGpuArrayObject *a, const size_t *dims)
{
    size_t pair = 2 * gpuarray_get_elsize(a->ga.typecode);
    if (GpuArray_IS_C_CONTIGUOUS(&a->ga) && address_of(a) % pair == 0
        && memcmp(a->ga.dimensions, dims, a->ga.nd * sizeof *dims) == 0) {
        Py_INCREF(a);
        return a;
    }
    return fitted_copy(a, dims);
}

/* ---- transforms ---- */

static size_t product_of(const size_t *lengths, int from, int to)
{
    size_t product = 1;
    for (int i = from; i < to; ++i)
        product *= lengths[i];
    return product;
}

/* Transform the last axes, up to three. */
static int transform_last(const Transform *t, enum fft_kind kind, const PyGpuArrayObject *from,
                          const PyGpuArrayObject *to)
{
    int first = t->rank > FFT_MOST_AXES ? t->rank - FFT_MOST_AXES : 0;
    fft_form form = {.kind = kind,
                     .typecode = from->ga.typecode,
                     .rank = t->rank - first,
                     .stride = 1,
                     .batch = (int64_t)(t->batch * product_of(t->lengths, 0, first))};
    for (int i = first; i < t->rank; ++i)
        form.lengths[i - first] = (int64_t)t->lengths[i];
    int code = cufft_transform(from->context->ctx, &form, address_of(from), address_of(to));
    return code == GA_NO_ERROR ? 0 : gpu_failed(from->context->ctx, code, t->who);
}

/* Transform the axes in front of the last three, in place. */
static int transform_first(const Transform *t, enum fft_kind kind, const PyGpuArrayObject *pairs)
{
    size_t pair = 2 * gpuarray_get_elsize(pairs->ga.typecode);
    for (int axis = 0; axis < t->rank - FFT_MOST_AXES; ++axis) {
        size_t inner = product_of(t->lengths, axis + 1, t->rank - 1) * t->stored;
        size_t outer = t->batch * product_of(t->lengths, 0, axis);
        fft_form form = {.kind = kind,
                         .typecode = pairs->ga.typecode,
                         .rank = 1,
                         .lengths = {(int64_t)t->lengths[axis]},
                         .stride = (int64_t)inner,
                         .step = 1,
                         .batch = (int64_t)inner};
        for (size_t i = 0; i < outer; ++i) {
            device_memory at = address_of(pairs) + i * t->lengths[axis] * inner * pair;
            int code = cufft_transform(pairs->context->ctx, &form, at, at);
            if (code != GA_NO_ERROR)
                return gpu_failed(pairs->context->ctx, code, t->who);
        }
    }
    return 0;
}

static int tng_rfft(int nin, int nout, PyObject **in, PyObject **out, const struct rfft_params *params)
{
    (void)nin, (void)nout;
    Transform t = {.who = "CuRFFTOp"};
    PyGpuArrayObject *a = gpu_input(in[0], (int)params->typecode, -1), *pairs;
    if (a == NULL || gpu_aligned(&a->ga, t.who) < 0 || read_lengths(&t, a, in[1], 0) < 0)
        return -1;
    size_t dims[GA_MAX_DIMS + 1] = {t.batch};
    memcpy(dims + 1, t.lengths, (size_t)t.rank * sizeof *dims);
    PyGpuArrayObject *real = fitted(a, dims);
    if (real == NULL)
        return -1;
    dims[t.rank] = t.stored;
    dims[t.rank + 1] = 2;
    gpu_not_shared(out, &a->ga);
    pairs = gpu_alloc(out, a->context, (unsigned)t.rank + 2, dims, a->ga.typecode);
    int status = pairs == NULL ? -1 : 0;
    if (status == 0 && t.batch > 0) {
        status = transform_last(&t, FFT_FROM_REAL, real, pairs);
        if (status == 0)
            status = transform_first(&t, FFT_PAIRS, pairs);
    }
    Py_DECREF(real);
    return status;
}

/* Make the pairs conjugate-symmetric along the axes in front of the last one: the library may assume it. */
static int symmetrize(const Transform *t, const PyGpuArrayObject *pairs, int64_t kernel)
{
    size_t ends = t->lengths[t->rank - 1] % 2 == 0 ? 2 : 1;
    size_t n = t->batch * product_of(t->lengths, 0, t->rank - 1) * ends;
    Arguments args = {0};
    args_array(&args, &pairs->ga, &pairs->ga.offset);
    args_push(&args, &n);
    args_push(&args, &ends);
    args_push(&args, &t->stored);
    for (int axis = 0; axis < t->rank - 1; ++axis)
        args_push(&args, &t->lengths[axis]);
    return gpu_run((gpukernel *)(intptr_t)kernel, n, args.at, t->who);
}

static int tng_irfft(int nin, int nout, PyObject **in, PyObject **out, const struct irfft_params *params)
{
    (void)nin, (void)nout;
    Transform t = {.who = "CuIRFFTOp"};
    PyGpuArrayObject *a = gpu_input(in[0], (int)params->typecode, -1), *real;
    char shape[700];
    if (a == NULL || gpu_aligned(&a->ga, t.who) < 0)
        return -1;
    unsigned last = a->ga.nd - 1;
    if (a->ga.dimensions[last] != 2) {
        PyErr_Format(PyExc_ValueError,
                     "%s: the last axis holds pairs of real and imaginary parts; it has length %zu, the shape is %s",
                     t.who, a->ga.dimensions[last], gpu_shape_text(shape, sizeof shape, last + 1, a->ga.dimensions));
        return -1;
    }
    if (read_lengths(&t, a, in[1], 1) < 0)
        return -1;
    size_t dims[GA_MAX_DIMS + 1] = {t.batch};
    memcpy(dims + 1, t.lengths, (size_t)t.rank * sizeof *dims);
    gpu_not_shared(out, &a->ga);
    if ((real = gpu_alloc(out, a->context, last, dims, a->ga.typecode)) == NULL)
        return -1;
    if (t.batch == 0)
        return 0;
    dims[t.rank] = t.stored;
    dims[t.rank + 1] = 2;
    PyGpuArrayObject *pairs = fitted_copy(a, dims);
    int status = pairs == NULL ? -1 : symmetrize(&t, pairs, params->symmetrize);
    if (status == 0)
        status = transform_first(&t, FFT_PAIRS_INVERSE, pairs);
    if (status == 0)
        status = transform_last(&t, FFT_TO_REAL, pairs, real);
    Py_XDECREF(pairs);
    return status;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(rfft), NATIVE_ENTRY(irfft), {0}};
NATIVE_MODULE(fft, entries)
