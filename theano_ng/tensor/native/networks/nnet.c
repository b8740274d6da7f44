/* Softmax and cross-entropy over rows, float32 and float64. */
#include "native.h"
#include "common/target_clones.h"
#include <math.h>

/* Return exp(x) for x <= 0, as an expression that compilers vectorize: exp(x) = 2**n exp(r), |r| <= log(2) / 2, with a
 * polynomial for exp(r). Errors are below 2 ulp. NaN stays NaN. Denormal results are correct too. */
static inline __attribute__((always_inline)) float exp_f32(float x)
{
    x = x < -104.f ? -104.f : x;
    float shifted = x * 1.44269504f + 12582912.f, n = shifted - 12582912.f; /* the low bits of `shifted` are n */
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;                  /* log(2) in two parts */
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.f;
    union {
        float value;
        uint32_t bits;
    } u = {shifted}, low, high;
    int32_t exponent = (int32_t)(u.bits - 0x4b400000u), half = exponent >> 1;
    /* Multiply in two steps, because 2**n alone is not always a normal number. */
    low.bits = (uint32_t)(half + 127) << 23;
    high.bits = (uint32_t)(exponent - half + 127) << 23;
    return p * low.value * high.value;
}

static inline __attribute__((always_inline)) double exp_f64(double x)
{
    x = x < -746. ? -746. : x;
    double shifted = x * 1.4426950408889634074 + 6755399441055744., n = shifted - 6755399441055744.;
    double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double p = 1. / 6227020800.;
    p = p * r + 1. / 479001600.;
    p = p * r + 1. / 39916800.;
    p = p * r + 1. / 3628800.;
    p = p * r + 1. / 362880.;
    p = p * r + 1. / 40320.;
    p = p * r + 1. / 5040.;
    p = p * r + 1. / 720.;
    p = p * r + 1. / 120.;
    p = p * r + 1. / 24.;
    p = p * r + 1. / 6.;
    p = p * r + 0.5;
    p = p * r * r + r + 1.;
    union {
        double value;
        uint64_t bits;
    } u = {shifted}, low, high;
    int64_t exponent = (int64_t)(u.bits - 0x4338000000000000u), half = exponent >> 1;
    low.bits = (uint64_t)(half + 1023) << 52;
    high.bits = (uint64_t)(exponent - half + 1023) << 52;
    return p * low.value * high.value;
}

#define SHORT_ROWS 24
#define REAL npy_float32
#define EXP exp_f32
#define LOG logf
#define LANES 32
#define NAME(f) f##_f32
#include "nnet_rows.h"
#undef REAL
#undef EXP
#undef LOG
#undef LANES
#undef NAME
#define REAL npy_float64
#define EXP exp_f64
#define LOG log
#define LANES 32
#define NAME(f) f##_f64
#include "nnet_rows.h"

/* Return a new reference to the array itself if it is aligned, native-endian and C-contiguous, else to a copy. */
static PyArrayObject *rows_of(PyObject *value, int nd, const char *name)
{
    PyArrayObject *a = (PyArrayObject *)value;
    if (!PyArray_Check(value) || PyArray_NDIM(a) != nd) {
        PyErr_Format(PyExc_ValueError, "%s: expected an array of %d dimensions", name, nd);
        return NULL;
    }
    if (PyArray_IS_C_CONTIGUOUS(a) && PyArray_ISBEHAVED_RO(a)) {
        Py_INCREF(a);
        return a;
    }
    return (PyArrayObject *)PyArray_NewCopy(a, NPY_CORDER);
}

static PyArrayObject *labels_of(PyObject *value)
{
    PyArrayObject *y = (PyArrayObject *)value;
    if (PyArray_Check(value) && PyArray_TYPE(y) == NPY_INT64 && PyArray_NDIM(y) == 1 && PyArray_IS_C_CONTIGUOUS(y)
        && PyArray_ISBEHAVED_RO(y)) {
        Py_INCREF(y);
        return y;
    }
    return (PyArrayObject *)PyArray_FROMANY(value, NPY_INT64, 1, 1, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST);
}

static int float_type(PyObject *value)
{
    int type = PyArray_Check(value) ? PyArray_TYPE((PyArrayObject *)value) : -1;
    if (type == NPY_FLOAT32 || type == NPY_FLOAT64)
        return type;
    PyErr_SetString(PyExc_TypeError, "float32 or float64 expected");
    return -1;
}

static int same_type(PyObject *value, int type, const char *name)
{
    if (PyArray_Check(value) && PyArray_TYPE((PyArrayObject *)value) == type)
        return 0;
    PyErr_Format(PyExc_TypeError, "the dtype of %s differs from the dtype of the first input", name);
    return -1;
}

static int bad_label(npy_intp row, PyArrayObject *y, npy_intp n)
{
    PyErr_Format(PyExc_ValueError, "y_i value out of bounds: y[%zd] is %lld, but there are %zd classes",
                 (Py_ssize_t)row, (long long)((npy_int64 *)PyArray_DATA(y))[row], (Py_ssize_t)n);
    return -1;
}

static int mismatch(const char *text, npy_intp a, npy_intp b)
{
    PyErr_Format(PyExc_ValueError, "%s (%zd and %zd)", text, (Py_ssize_t)a, (Py_ssize_t)b);
    return -1;
}

/* Return a new reference to the matrix itself if its strides are multiples of the element size, else to a copy. */
static PyArrayObject *strided_rows_of(PyObject *value, const char *name)
{
    PyArrayObject *a = (PyArrayObject *)value;
    if (PyArray_Check(value) && PyArray_NDIM(a) == 2 && PyArray_ISBEHAVED_RO(a)
        && PyArray_STRIDE(a, 0) % PyArray_ITEMSIZE(a) == 0 && PyArray_STRIDE(a, 1) % PyArray_ITEMSIZE(a) == 0) {
        Py_INCREF(a);
        return a;
    }
    return rows_of(value, 2, name);
}

/* out = softmax(x), with the input x (m, n), or softmax(x + b), with the inputs x (m, n) and b (n). If `log`, out is
 * the logarithm of softmax. */
static int softmax_of(int nin, PyObject **in, PyObject **out, int log)
{
    int type = float_type(in[0]), status = -1;
    PyArrayObject *x = type < 0 ? NULL : strided_rows_of(in[0], log ? "logsoftmax" : "softmax"), *b = NULL;
    if (x == NULL)
        return -1;
    if (nin == 2) {
        if (same_type(in[1], type, "b") < 0 || (b = rows_of(in[1], 1, "softmax's bias")) == NULL)
            goto done;
        if (PyArray_DIM(b, 0) != PyArray_DIM(x, 1)) {
            mismatch("b must have as many elements as x has columns", PyArray_DIM(b, 0), PyArray_DIM(x, 1));
            goto done;
        }
    }
    PyArrayObject *sm = native_alloc(out, 2, PyArray_DIMS(x), type);
    if (sm == NULL)
        goto done;
    npy_intp item = PyArray_ITEMSIZE(x);
    (type == NPY_FLOAT32 ? softmax_f32 : softmax_f64)(PyArray_DIM(x, 0), PyArray_DIM(x, 1), PyArray_DATA(x),
                                                      PyArray_STRIDE(x, 0) / item, PyArray_STRIDE(x, 1) / item,
                                                      b == NULL ? NULL : PyArray_DATA(b), PyArray_DATA(sm), log);
    status = 0;
done:
    Py_DECREF(x);
    Py_XDECREF(b);
    return status;
}

static int tng_softmax(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    return softmax_of(nin, in, out, 0);
}

static int tng_log_softmax(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    return softmax_of(nin, in, out, 1);
}

/* out = gradient of softmax. Inputs: dy (m, n), sm (m, n). */
static int tng_softmax_grad(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    int type = float_type(in[0]), status = -1;
    PyArrayObject *dy = NULL, *sm = NULL;
    if (type < 0 || same_type(in[1], type, "sm") < 0 || (dy = rows_of(in[0], 2, "softmax's gradient")) == NULL
        || (sm = rows_of(in[1], 2, "softmax")) == NULL)
        goto done;
    if (!PyArray_SAMESHAPE(dy, sm)) {
        PyErr_SetString(PyExc_ValueError, "dy and sm must have the same shape");
        goto done;
    }
    PyArrayObject *dx = native_alloc(out, 2, PyArray_DIMS(sm), type);
    if (dx == NULL)
        goto done;
    (type == NPY_FLOAT32 ? softmax_grad_f32 : softmax_grad_f64)(PyArray_DIM(sm, 0), PyArray_DIM(sm, 1),
                                                                PyArray_DATA(dy), PyArray_DATA(sm), PyArray_DATA(dx));
    status = 0;
done:
    Py_XDECREF(dy);
    Py_XDECREF(sm);
    return status;
}

/* Store the labels `am` in *out, converted to `type`, the dtype of the input labels. Steal the reference to `am`. */
static int return_labels(PyArrayObject *am, int type, PyObject **out)
{
    if (type == NPY_INT64) {
        native_set(out, (PyObject *)am);
        return 0;
    }
    PyObject *cast = PyArray_Cast(am, type);
    Py_DECREF(am);
    if (cast == NULL)
        return -1;
    native_set(out, cast);
    return 0;
}

/* Outputs: -log softmax(x + b)[y], softmax(x + b), argmax. Inputs: x (m, n), b (n), y (m) of integers. */
static int tng_crossentropy(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    int type = float_type(in[0]), status = -1;
    PyArrayObject *x = NULL, *b = NULL, *y = NULL, *am = NULL;
    if (type < 0 || same_type(in[1], type, "b") < 0 || (x = rows_of(in[0], 2, "x")) == NULL
        || (b = rows_of(in[1], 1, "b")) == NULL || (y = labels_of(in[2])) == NULL)
        goto done;
    npy_intp rows = PyArray_DIM(x, 0), n = PyArray_DIM(x, 1);
    if (PyArray_DIM(b, 0) != n) {
        mismatch("b must have as many elements as x has columns", PyArray_DIM(b, 0), n);
        goto done;
    }
    if (PyArray_DIM(y, 0) != rows) {
        mismatch("y_idx must have as many elements as x has rows", PyArray_DIM(y, 0), rows);
        goto done;
    }
    PyArrayObject *nll = native_alloc(&out[0], 1, &rows, type);
    PyArrayObject *sm = nll == NULL ? NULL : native_alloc(&out[1], 2, PyArray_DIMS(x), type);
    am = sm == NULL ? NULL : (PyArrayObject *)PyArray_SimpleNew(1, &rows, NPY_INT64);
    if (am == NULL)
        goto done;
    npy_intp bad = (type == NPY_FLOAT32 ? crossentropy_f32
                                        : crossentropy_f64)(rows, n, PyArray_DATA(x), PyArray_DATA(b), PyArray_DATA(y),
                                                            PyArray_DATA(nll), PyArray_DATA(sm), PyArray_DATA(am));
    if (bad >= 0)
        bad_label(bad, y, n);
    else {
        status = return_labels(am, PyArray_TYPE((PyArrayObject *)in[2]), &out[2]);
        am = NULL;
    }
done:
    Py_XDECREF(x);
    Py_XDECREF(b);
    Py_XDECREF(y);
    Py_XDECREF(am);
    return status;
}

/* dx = dy (sm - onehot(y)). Inputs: dy (m or 1, or 0-d), sm (m, n), y (m). */
static int tng_crossentropy_dx(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    int type = float_type(in[1]), status = -1;
    PyArrayObject *dy = NULL, *sm = NULL, *y = NULL;
    if (type < 0 || same_type(in[0], type, "dy") < 0 || (sm = rows_of(in[1], 2, "sm")) == NULL
        || (y = labels_of(in[2])) == NULL || (dy = rows_of(in[0], PyArray_NDIM((PyArrayObject *)in[0]), "dy")) == NULL)
        goto done;
    npy_intp rows = PyArray_DIM(sm, 0), n = PyArray_DIM(sm, 1);
    if (PyArray_NDIM(dy) > 1 || (PyArray_SIZE(dy) != 1 && PyArray_DIM(dy, 0) != rows)) {
        mismatch("dy must have one element or as many as sm has rows", PyArray_SIZE(dy), rows);
        goto done;
    }
    if (PyArray_DIM(y, 0) != rows) {
        mismatch("y_idx must have as many elements as sm has rows", PyArray_DIM(y, 0), rows);
        goto done;
    }
    PyArrayObject *dx = native_alloc(out, 2, PyArray_DIMS(sm), type);
    if (dx == NULL)
        goto done;
    npy_intp step = PyArray_SIZE(dy) == 1 ? 0 : 1;
    npy_intp bad = (type == NPY_FLOAT32 ? crossentropy_dx_f32 : crossentropy_dx_f64)(
        rows, n, PyArray_DATA(dy), step, PyArray_DATA(sm), PyArray_DATA(y), PyArray_DATA(dx));
    status = bad >= 0 ? bad_label(bad, y, n) : 0;
done:
    Py_XDECREF(dy);
    Py_XDECREF(sm);
    Py_XDECREF(y);
    return status;
}

/* out = -log q[y]. Inputs: q (m, n), y (m). */
static int tng_onehot_crossentropy(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    int type = float_type(in[0]), status = -1;
    PyArrayObject *q = NULL, *y = NULL;
    if (type < 0 || (q = rows_of(in[0], 2, "coding_dist")) == NULL || (y = labels_of(in[1])) == NULL)
        goto done;
    npy_intp rows = PyArray_DIM(q, 0), n = PyArray_DIM(q, 1);
    if (PyArray_DIM(y, 0) != rows) {
        mismatch("true_one_of_n must have as many elements as coding_dist has rows", PyArray_DIM(y, 0), rows);
        goto done;
    }
    PyArrayObject *nll = native_alloc(out, 1, &rows, type);
    if (nll == NULL)
        goto done;
    npy_intp bad = (type == NPY_FLOAT32 ? onehot_crossentropy_f32 : onehot_crossentropy_f64)(
        rows, n, PyArray_DATA(q), PyArray_DATA(y), PyArray_DATA(nll));
    status = bad >= 0 ? bad_label(bad, y, n) : 0;
done:
    Py_XDECREF(q);
    Py_XDECREF(y);
    return status;
}

/* Gradient of onehot_crossentropy. Inputs: dy (m), q (m, n), y (m). */
static int tng_onehot_crossentropy_grad(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    int type = float_type(in[1]), status = -1;
    PyArrayObject *dy = NULL, *q = NULL, *y = NULL;
    if (type < 0 || same_type(in[0], type, "g_y") < 0 || (dy = rows_of(in[0], 1, "g_y")) == NULL
        || (q = rows_of(in[1], 2, "coding_dist")) == NULL || (y = labels_of(in[2])) == NULL)
        goto done;
    npy_intp rows = PyArray_DIM(q, 0), n = PyArray_DIM(q, 1);
    if (PyArray_DIM(y, 0) != rows || PyArray_DIM(dy, 0) != rows) {
        mismatch("g_y and true_one_of_n must have as many elements as coding_dist has rows",
                 PyArray_DIM(y, 0) != rows ? PyArray_DIM(y, 0) : PyArray_DIM(dy, 0), rows);
        goto done;
    }
    PyArrayObject *g = native_alloc(out, 2, PyArray_DIMS(q), type);
    if (g == NULL)
        goto done;
    npy_intp bad = (type == NPY_FLOAT32 ? onehot_crossentropy_grad_f32 : onehot_crossentropy_grad_f64)(
        rows, n, PyArray_DATA(dy), PyArray_DATA(q), PyArray_DATA(y), PyArray_DATA(g));
    status = bad >= 0 ? bad_label(bad, y, n) : 0;
done:
    Py_XDECREF(dy);
    Py_XDECREF(q);
    Py_XDECREF(y);
    return status;
}

static const NativeEntry entries[] = {{"softmax", tng_softmax},
                                      {"log_softmax", tng_log_softmax},
                                      {"softmax_grad", tng_softmax_grad},
                                      {"crossentropy", tng_crossentropy},
                                      {"crossentropy_dx", tng_crossentropy_dx},
                                      {"onehot_crossentropy", tng_onehot_crossentropy},
                                      {"onehot_crossentropy_grad", tng_onehot_crossentropy_grad},
                                      {NULL}};

NATIVE_MODULE(nnet, entries)
