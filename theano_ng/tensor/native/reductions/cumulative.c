/* Cumulative sums and products, and linear recurrences, along an axis. */
#include "native.h"

#define COLUMNS 512 /* number of adjacent running totals that are updated together */

#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))

typedef float _Complex c64;
typedef double _Complex c128;

/* Each running total depends on the previous total. Therefore, four rows are processed at the same time. In a single
 * row (if GROUPS), four elements are combined with each other, and then with the total. Products of floats must not be
 * grouped: the product of a group may overflow while the total is 0, and 0 times infinity is NaN. */
#define DEFINE(name, T, OP, ONE, GROUPS)                                                                           \
    static inline void name##_four(int64_t n, int64_t apart, const T *x, T *z, T *total)                           \
    {                                                                                                              \
        T a = total[0], b = total[1], c = total[2], d = total[3];                                                  \
        for (int64_t k = 0; k < n; ++k) {                                                                          \
            z[k] = a = OP(a, x[k]);                                                                                \
            z[apart + k] = b = OP(b, x[apart + k]);                                                                \
            z[2 * apart + k] = c = OP(c, x[2 * apart + k]);                                                        \
            z[3 * apart + k] = d = OP(d, x[3 * apart + k]);                                                        \
        }                                                                                                          \
        total[0] = a, total[1] = b, total[2] = c, total[3] = d;                                                    \
    }                                                                                                              \
    static void name##_row(int64_t n, const T *x, T *z)                                                            \
    {                                                                                                              \
        T total = ONE;                                                                                             \
        int64_t k = 0;                                                                                             \
        for (; GROUPS && k + 4 <= n; k += 4) {                                                                     \
            T a = x[k], b = OP(a, x[k + 1]), c = OP(b, x[k + 2]), d = OP(c, x[k + 3]);                             \
            z[k] = OP(total, a);                                                                                   \
            z[k + 1] = OP(total, b);                                                                               \
            z[k + 2] = OP(total, c);                                                                               \
            z[k + 3] = total = OP(total, d);                                                                       \
        }                                                                                                          \
        for (; k < n; ++k)                                                                                         \
            z[k] = total = OP(total, x[k]);                                                                        \
    }                                                                                                              \
    /* Scan along the middle dimension of (outer, n, inner), C-contiguous; z may be x. */                          \
    static void name(int64_t outer, int64_t n, int64_t inner, const void *x_, void *z_)                            \
    {                                                                                                              \
        const T *x = x_;                                                                                           \
        T *z = z_, total[COLUMNS];                                                                                 \
        if (inner == 1) {                                                                                          \
            int64_t o = 0;                                                                                         \
            for (; o + 4 <= outer; o += 4) {                                                                       \
                T four[4] = {ONE, ONE, ONE, ONE};                                                                  \
                name##_four(n, n, x + o * n, z + o * n, four);                                                     \
            }                                                                                                      \
            for (; o < outer; ++o)                                                                                 \
                name##_row(n, x + o * n, z + o * n);                                                               \
            return;                                                                                                \
        }                                                                                                          \
        for (int64_t o = 0; o < outer; ++o, x += n * inner, z += n * inner)                                        \
            for (int64_t from = 0; from < inner; from += COLUMNS) {                                                \
                int64_t width = inner - from < COLUMNS ? inner - from : COLUMNS;                                   \
                for (int64_t i = 0; i < width; ++i)                                                                \
                    total[i] = ONE;                                                                                \
                for (int64_t k = 0; k < n; ++k) {                                                                  \
                    const T *p = x + k * inner + from;                                                             \
                    T *q = z + k * inner + from;                                                                   \
                    _Pragma("GCC ivdep") for (int64_t i = 0; i < width; ++i) q[i] = total[i] = OP(total[i], p[i]); \
                }                                                                                                  \
            }                                                                                                      \
    }
#define SUM_AND_PRODUCT(suffix, T, EXACT) DEFINE(sum_##suffix, T, ADD, 0, 1) DEFINE(product_##suffix, T, MUL, 1, EXACT)
SUM_AND_PRODUCT(8, uint8_t, 1)
SUM_AND_PRODUCT(16, uint16_t, 1)
SUM_AND_PRODUCT(32, uint32_t, 1)
SUM_AND_PRODUCT(64, uint64_t, 1)
SUM_AND_PRODUCT(f32, float, 0)
SUM_AND_PRODUCT(f64, double, 0)
SUM_AND_PRODUCT(c64, c64, 0)
SUM_AND_PRODUCT(c128, c128, 0)

typedef void (*scan_fn)(int64_t outer, int64_t n, int64_t inner, const void *x, void *z);

/* Return the scan function. Signed and unsigned integers share code, because wrapping makes their bits equal. */
static scan_fn find_scan(int type, int64_t item, int product)
{
#define CHOOSE(suffix) return product ? product_##suffix : sum_##suffix
    if (PyTypeNum_ISINTEGER(type))
        switch (item) {
        case 1: CHOOSE(8);
        case 2: CHOOSE(16);
        case 4: CHOOSE(32);
        case 8: CHOOSE(64);
        default: return NULL;
        }
    switch (type) {
    case NPY_FLOAT32: CHOOSE(f32);
    case NPY_FLOAT64: CHOOSE(f64);
    case NPY_COMPLEX64: CHOOSE(c64);
    case NPY_COMPLEX128: CHOOSE(c128);
    default: return NULL;
    }
}

/* Return an F-contiguous array in *out: the existing array if it has this shape and type, otherwise a new array. */
static PyArrayObject *alloc_fortran(PyObject **out, int nd, const npy_intp *dims, int type)
{
    PyArrayObject *old = (PyArrayObject *)*out;
    if (old != NULL && PyArray_CheckExact(*out) && PyArray_NDIM(old) == nd && PyArray_TYPE(old) == type
        && PyArray_IS_F_CONTIGUOUS(old) && PyArray_ISBEHAVED(old) && PyArray_CompareLists(PyArray_DIMS(old), dims, nd))
        return old;
    Py_CLEAR(*out);
    *out = (PyObject *)native_new(nd, dims, type, 1);
    return (PyArrayObject *)*out;
}

/* Cumulative sums or products. The result is F-contiguous if an axis is given and x is F-contiguous, but not
 * C-contiguous. Otherwise the result is C-contiguous. Parameters: axis (-1: of the flattened array), whether to compute
 * products, type number of the output. */
NATIVE_FUNCTION(cumulative, axis, product, type_number)
static int tng_cumulative(int nin, int nout, PyObject **in, PyObject **out, const struct cumulative_params *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    int axis = (int)params->axis, type = (int)params->type_number;
    (void)nin;
    (void)nout;
    if (!PyArray_Check(in[0]) || axis >= PyArray_NDIM(x)) {
        PyErr_Format(PyExc_TypeError, "Cumulative sum or product: expected an array with more than %d dimensions",
                     axis);
        return -1;
    }
    npy_intp outer = 1, n = PyArray_SIZE(x), inner = 1;
    int fortran = axis >= 0 && PyArray_IS_F_CONTIGUOUS(x) && !PyArray_IS_C_CONTIGUOUS(x);
    PyArrayObject *z = axis < 0  ? native_alloc(out, 1, &n, type)
                       : fortran ? alloc_fortran(out, PyArray_NDIM(x), PyArray_DIMS(x), type)
                                 : native_alloc(out, PyArray_NDIM(x), PyArray_DIMS(x), type);
    if (z == NULL)
        return -1;
    scan_fn scan = find_scan(type, PyArray_ITEMSIZE(z), params->product != 0);
    if (scan == NULL) {
        PyErr_Format(PyExc_TypeError, "Cumulative sum or product: no code for NumPy type number %d", type);
        return -1;
    }
    if (n == 0)
        return 0;
    if (axis >= 0) {
        n = PyArray_DIM(x, axis);
        for (int d = 0; d < axis; ++d)
            *(fortran ? &inner : &outer) *= PyArray_DIM(x, d);
        for (int d = axis + 1; d < PyArray_NDIM(x); ++d)
            *(fortran ? &outer : &inner) *= PyArray_DIM(x, d);
    }
    const void *from = PyArray_DATA(x);
    if (!(PyArray_IS_C_CONTIGUOUS(x) || fortran) || !PyArray_ISBEHAVED_RO(x)
        || !PyArray_EquivTypenums(PyArray_TYPE(x), type)) {
        /* Copy x to the result z, and scan z in place. */
        if ((axis < 0 ? PyArray_CopyAnyInto(z, x) : PyArray_CopyInto(z, x)) < 0)
            return -1;
        from = PyArray_DATA(z);
    }
    scan(outer, n, inner, from, PyArray_DATA(z));
    return 0;
}

/* z[0] = b[0], z[k] = b[k] + a[k] * z[k - 1] along the middle of (outer, n, inner), C-contiguous. */
#define DEFINE_RECURRENCE(suffix, T)                                                                                   \
    static void recurrence_##suffix(int64_t outer, int64_t n, int64_t inner, const void *a_, const void *b_, void *z_) \
    {                                                                                                                  \
        const T *a = a_, *b = b_;                                                                                      \
        T *z = z_;                                                                                                     \
        for (int64_t o = 0; o < outer; ++o, a += n * inner, b += n * inner, z += n * inner) {                          \
            for (int64_t i = 0; i < inner; ++i)                                                                        \
                z[i] = b[i];                                                                                           \
            _Pragma("GCC ivdep") for (int64_t i = 0; i < inner; ++i) for (int64_t k = inner + i; k < n * inner;        \
                                                                          k += inner) z[k] =                           \
                b[k] + a[k] * z[k - inner];                                                                            \
        }                                                                                                              \
    }
DEFINE_RECURRENCE(f32, float)
DEFINE_RECURRENCE(f64, double)
DEFINE_RECURRENCE(c64, c64)
DEFINE_RECURRENCE(c128, c128)

/* Inputs: a and b, with equal shapes and dtypes. Parameter: axis. */
NATIVE_FUNCTION(recurrence, axis)
static int tng_recurrence(int nin, int nout, PyObject **in, PyObject **out, const struct recurrence_params *params)
{
    int axis = (int)params->axis, type = PyArray_TYPE((PyArrayObject *)in[1]),
        nd = PyArray_NDIM((PyArrayObject *)in[1]);
    npy_intp *dims = PyArray_DIMS((PyArrayObject *)in[1]);
    (void)nin;
    (void)nout;
    if (!PyArray_CompareLists(PyArray_DIMS((PyArrayObject *)in[0]), dims, nd)) {
        PyErr_SetString(PyExc_ValueError, "LinearRecurrence: the factors and the terms must have the same shape");
        return -1;
    }
    PyArrayObject *z = native_alloc(out, nd, dims, type);
    if (z == NULL)
        return -1;
    npy_intp outer = 1, n = dims[axis], inner = 1;
    for (int d = 0; d < axis; ++d)
        outer *= dims[d];
    for (int d = axis + 1; d < nd; ++d)
        inner *= dims[d];
    if (outer * n * inner == 0)
        return 0;
    PyArrayObject *a = (PyArrayObject *)PyArray_FROM_OTF(in[0], type, NPY_ARRAY_CARRAY_RO);
    PyArrayObject *b = (PyArrayObject *)PyArray_FROM_OTF(in[1], type, NPY_ARRAY_CARRAY_RO);
    if (a != NULL && b != NULL)
        (type == NPY_FLOAT32     ? recurrence_f32
         : type == NPY_FLOAT64   ? recurrence_f64
         : type == NPY_COMPLEX64 ? recurrence_c64
                                 : recurrence_c128)(outer, n, inner, PyArray_DATA(a), PyArray_DATA(b), PyArray_DATA(z));
    int failed = a == NULL || b == NULL;
    Py_XDECREF(a);
    Py_XDECREF(b);
    return failed ? -1 : 0;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(cumulative), NATIVE_ENTRY(recurrence), {NULL}};
NATIVE_MODULE(cumulative, entries)
