/* Batch normalization with the statistics of the batch, and its gradient, for float32 and float64. float16 is computed
 * in float32.
 *
 * The elements that belong to one mean are processed completely before the elements of the next mean. They are read
 * three times (two times for the gradient): the first time from memory, then from the cache. */
#include "networks/statistics.h"
#include "common/target_clones.h"
#include <math.h>

/* Always inline a function, so that it is compiled for each instruction set of its callers. */
#define INLINE static inline __attribute__((always_inline))

#define LANES 32
#define FEW 8
#define COLUMNS 1024
#define CACHE ((npy_intp)1 << 19)

/* A list of dimensions; the last dimension varies fastest. Strides are in elements. */
typedef struct {
    int nd;
    npy_intp n[NPY_MAXDIMS], stride[NPY_MAXDIMS];
} Dimensions;

/* The averaged dimensions and the kept dimensions of a C-contiguous array. Adjacent dimensions of one kind are merged.
 * The last dimension is stored separately, as `inner`. */
typedef struct {
    Dimensions kept, averaged;
    int inner_is_averaged;
    /* inner: length of the last dimension; count: number of elements of each mean */
    npy_intp inner, count;
} Layout;

/* Loop over all positions in `dimensions`, none of which has length 0. `at` is the offset of the position. */
#define FOR_EACH(dimensions, index, at) \
    for (at = first_place(&(dimensions), index); at >= 0; at = next_place(&(dimensions), index, at))

INLINE npy_intp first_place(const Dimensions *d, npy_intp *index)
{
    for (int i = 0; i < d->nd; ++i)
        index[i] = 0;
    return 0;
}

INLINE npy_intp next_place(const Dimensions *d, npy_intp *index, npy_intp at)
{
    for (int i = d->nd - 1; i >= 0; --i) {
        at += d->stride[i];
        if (++index[i] < d->n[i])
            return at;
        at -= index[i] * d->stride[i];
        index[i] = 0;
    }
    return -1;
}

/* Compute the layout *l of a C-contiguous array. `averaged` has a flag for each dimension. Dimensions of length 1 are
 * left out. */
static void lay_out(int nd, const npy_intp *dims, const char *averaged, Layout *l)
{
    npy_intp stride = 1, n[NPY_MAXDIMS], strides[NPY_MAXDIMS];
    int kind[NPY_MAXDIMS], found = 0;
    l->count = 1;
    for (int d = nd - 1; d >= 0; --d) {
        if (averaged[d])
            l->count *= dims[d];
        if (dims[d] == 1)
            continue;
        if (found > 0 && kind[found - 1] == averaged[d])
            n[found - 1] *= dims[d];
        else {
            n[found] = dims[d];
            strides[found] = stride;
            kind[found++] = averaged[d];
        }
        stride *= dims[d];
    }
    l->kept.nd = l->averaged.nd = 0;
    l->inner = found == 0 ? 1 : n[0];
    l->inner_is_averaged = found == 0 ? 1 : kind[0];
    for (int i = found - 1; i > 0; --i) {
        Dimensions *to = kind[i] ? &l->averaged : &l->kept;
        to->n[to->nd] = n[i];
        to->stride[to->nd++] = strides[i];
    }
}

/* Return the number of adjacent columns that are computed together: the largest multiple of 64 up to COLUMNS for which
 * all elements of the columns fit into the cache. If even 64 columns do not fit, return 64. */
static npy_intp columns_at_once(const Layout *l, size_t bytes)
{
    npy_intp columns = CACHE / ((npy_intp)bytes * (l->count > 0 ? l->count : 1)) / 64 * 64;
    return columns < 64 ? 64 : columns > COLUMNS ? COLUMNS : columns;
}

/* Test whether a number is finite in double, but not in REAL. */
#define OVERFLOWS(value) (isfinite(value) && !isfinite((REAL)(value)))

#define REAL npy_float32
#define NAME(f) f##_f32
#include "batchnorm_loops.h"
#undef REAL
#undef NAME
#define REAL npy_float64
#define NAME(f) f##_f64
#include "batchnorm_loops.h"
#undef REAL
#undef NAME

/* Return the type of the arithmetic for arrays of a type: float32 for float16, otherwise the type itself. */
static int working_type(int type)
{
    return type == NPY_HALF ? NPY_FLOAT32 : type;
}

/* Check the axes, and set a flag for each dimension of x. Return 0, or -1 with an exception set. */
static int read_axes(PyArrayObject *x, const char *who, int64_t n_axes, const int64_t *axes, char *averaged)
{
    memset(averaged, 0, NPY_MAXDIMS);
    for (int64_t i = 0; i < n_axes; ++i) {
        if (axes[i] < 0 || axes[i] >= PyArray_NDIM(x)) {
            PyErr_Format(PyExc_ValueError, "%s: there is no axis %lld in an input with %d dimensions", who,
                         (long long)axes[i], PyArray_NDIM(x));
            return -1;
        }
        averaged[axes[i]] = 1;
    }
    return 0;
}

/* Return a new reference to the array in which an output is computed: the output itself, or a new array in the type of
 * the arithmetic. `deliver` converts the new array to the output. */
static PyArrayObject *workplace(PyObject **out, int nd, const npy_intp *dims, int type)
{
    PyArrayObject *z = native_alloc(out, nd, dims, type);
    if (z == NULL)
        return NULL;
    if (working_type(type) != type)
        return native_new(nd, dims, working_type(type), 0);
    Py_INCREF(z);
    return z;
}

static int deliver(PyObject *out, PyArrayObject *work)
{
    return (PyObject *)work == out ? 0 : PyArray_CopyInto((PyArrayObject *)out, work);
}

/* New references to the inputs and outputs of a computation, as arrays in the type of the arithmetic. */
#define MAX_ARRAYS 5
typedef struct {
    PyArrayObject *in[MAX_ARRAYS], *out[MAX_ARRAYS];
} Arrays;

static void drop(Arrays *a)
{
    for (int i = 0; i < MAX_ARRAYS; ++i) {
        Py_XDECREF(a->in[i]);
        Py_XDECREF(a->out[i]);
    }
}

/* Store the first n inputs as C-contiguous arrays in the type of the arithmetic. Return 0, or -1 with an exception
 * set. */
static int bring(Arrays *a, int n, PyObject **in, int type)
{
    for (int i = 0; i < n; ++i) {
        a->in[i] = (PyArrayObject *)PyArray_FROM_OTF(in[i], working_type(type), NPY_ARRAY_CARRAY_RO);
        if (a->in[i] == NULL)
            return -1;
    }
    return 0;
}

/* Inputs: x, scale, bias, epsilon. Outputs: the normalized x, mean, 1 / sqrt(variance + epsilon), variance. */
NATIVE_FUNCTION(train, n_axes, axes[])
static int tng_train(int nin, int nout, PyObject **in, PyObject **out, const struct train_params *params)
{
    static const char who[] = "BatchNormTrain";
    PyArrayObject *x = (PyArrayObject *)in[0];
    int nd = PyArray_NDIM(x), type = PyArray_TYPE(x), failed = -1;
    char averaged[NPY_MAXDIMS];
    npy_intp dims[NPY_MAXDIMS];
    double epsilon = PyFloat_AsDouble(in[3]);
    (void)nin;
    (void)nout;
    if ((epsilon == -1 && PyErr_Occurred()) || read_axes(x, who, params->n_axes, params->axes, averaged) < 0
        || check_statistic(nd, PyArray_DIMS(x), averaged, in[1], who, "scale") < 0
        || check_statistic(nd, PyArray_DIMS(x), averaged, in[2], who, "bias") < 0)
        return -1;
    for (int d = 0; d < nd; ++d)
        dims[d] = averaged[d] ? 1 : PyArray_DIM(x, d);
    Layout layout;
    lay_out(nd, PyArray_DIMS(x), averaged, &layout);
    Arrays a = {{NULL}, {NULL}};
    for (int j = 0; j < 4; ++j)
        if ((a.out[j] = workplace(out + j, nd, j == 0 ? PyArray_DIMS(x) : dims, type)) == NULL)
            goto done;
    if (bring(&a, 3, in, type) < 0)
        goto done;
    if (PyArray_SIZE(x) > 0)
        (working_type(type) == NPY_FLOAT32 ? train_f32 : train_f64)(
            &layout, epsilon, PyArray_DATA(a.in[0]), PyArray_DATA(a.in[1]), PyArray_DATA(a.in[2]),
            PyArray_DATA(a.out[0]), PyArray_DATA(a.out[1]), PyArray_DATA(a.out[2]), PyArray_DATA(a.out[3]));
    else {
        /* If x has no elements, all statistics are NaN, like the mean of an empty array. */
        PyObject *nan = PyFloat_FromDouble(NAN);
        for (int j = 1; j < 4; ++j)
            if (nan == NULL || PyArray_FillWithScalar(a.out[j], nan) < 0) {
                Py_XDECREF(nan);
                goto done;
            }
        Py_DECREF(nan);
    }
    failed = 0;
    for (int j = 0; j < 4; ++j)
        if (deliver(out[j], a.out[j]) < 0)
            failed = -1;
done:
    drop(&a);
    return failed;
}

/* Inputs: x, dy, scale, mean, 1 / sqrt(variance + epsilon), epsilon. Outputs: the gradients with respect to x, scale
 * and bias. */
NATIVE_FUNCTION(train_grad, n_axes, axes[])
static int tng_train_grad(int nin, int nout, PyObject **in, PyObject **out, const struct train_grad_params *params)
{
    static const char who[] = "BatchNormTrainGrad", *names[] = {"scale", "x_mean", "x_invstd"};
    PyArrayObject *x = (PyArrayObject *)in[0], *dy = (PyArrayObject *)in[1];
    int nd = PyArray_NDIM(x), type = PyArray_TYPE(x), failed = -1;
    char averaged[NPY_MAXDIMS];
    npy_intp dims[NPY_MAXDIMS];
    (void)nin;
    (void)nout;
    if (read_axes(x, who, params->n_axes, params->axes, averaged) < 0)
        return -1;
    if (PyArray_NDIM(dy) != nd || !PyArray_CompareLists(PyArray_DIMS(dy), PyArray_DIMS(x), nd)) {
        PyErr_Format(PyExc_ValueError, "%s: Input dimension mis-match. x and dy do not have the same shape", who);
        return -1;
    }
    for (int i = 0; i < 3; ++i)
        if (check_statistic(nd, PyArray_DIMS(x), averaged, in[2 + i], who, names[i]) < 0)
            return -1;
    for (int d = 0; d < nd; ++d)
        dims[d] = averaged[d] ? 1 : PyArray_DIM(x, d);
    Layout layout;
    lay_out(nd, PyArray_DIMS(x), averaged, &layout);
    Arrays a = {{NULL}, {NULL}};
    for (int j = 0; j < 3; ++j)
        if ((a.out[j] = workplace(out + j, nd, j == 0 ? PyArray_DIMS(x) : dims, type)) == NULL)
            goto done;
    if (bring(&a, 5, in, type) < 0)
        goto done;
    if (PyArray_SIZE(x) > 0)
        (working_type(type) == NPY_FLOAT32 ? train_grad_f32 : train_grad_f64)(
            &layout, PyArray_DATA(a.in[0]), PyArray_DATA(a.in[1]), PyArray_DATA(a.in[2]), PyArray_DATA(a.in[3]),
            PyArray_DATA(a.in[4]), PyArray_DATA(a.out[0]), PyArray_DATA(a.out[1]), PyArray_DATA(a.out[2]));
    else
        for (int j = 1; j < 3; ++j)
            memset(PyArray_DATA(a.out[j]), 0, (size_t)PyArray_NBYTES(a.out[j]));
    failed = 0;
    for (int j = 0; j < 3; ++j)
        if (deliver(out[j], a.out[j]) < 0)
            failed = -1;
done:
    drop(&a);
    return failed;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(train), NATIVE_ENTRY(train_grad), {NULL}};
NATIVE_MODULE(batchnorm, entries)
