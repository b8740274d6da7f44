/* Native code of the small tensor Ops: ranges, eye, tri, vectors of scalars, nonzero, cumulative sums, searching, dot.
 *
 * Each function is described where it is defined: its inputs, outputs and parameter words. The contract of native functions is in
 * gof/native.h. */
#include "native.h"


/* Calls DO(type number, C type) for every integer type. */
#define FOR_INTEGERS(DO)                                                                            \
    DO(NPY_INT8, npy_int8) DO(NPY_INT16, npy_int16) DO(NPY_INT32, npy_int32) DO(NPY_INT64, npy_int64) \
    DO(NPY_UINT8, npy_uint8) DO(NPY_UINT16, npy_uint16) DO(NPY_UINT32, npy_uint32) DO(NPY_UINT64, npy_uint64)
#define FOR_REALS(DO) DO(NPY_BOOL, npy_bool) FOR_INTEGERS(DO) DO(NPY_FLOAT32, npy_float32) DO(NPY_FLOAT64, npy_float64)

/* The arrays of NumPy have other type numbers for C types of equal size (long and long long). */
static int canonical_type(int type_num)
{
    switch (type_num) {
    case NPY_LONG: return NPY_SIZEOF_LONG == 8 ? NPY_INT64 : NPY_INT32;
    case NPY_LONGLONG: return NPY_INT64;
    case NPY_ULONG: return NPY_SIZEOF_LONG == 8 ? NPY_UINT64 : NPY_UINT32;
    case NPY_ULONGLONG: return NPY_UINT64;
    default: return type_num;
    }
}

/* A new reference to `value` as an aligned native-endian array of type `type_num`; it may be strided. */
static PyArrayObject *as_array(PyObject *value, int type_num)
{
    if (PyArray_Check(value) && PyArray_ISBEHAVED_RO((PyArrayObject *)value)
        && canonical_type(PyArray_TYPE((PyArrayObject *)value)) == type_num) {
        Py_INCREF(value);
        return (PyArrayObject *)value;
    }
    return (PyArrayObject *)PyArray_FROMANY(value, type_num, 0, 0, NPY_ARRAY_BEHAVED | NPY_ARRAY_FORCECAST);
}

/* The same, without a change of type. */
static PyArrayObject *as_behaved(PyObject *value)
{
    if (PyArray_Check(value) && PyArray_ISBEHAVED_RO((PyArrayObject *)value)) {
        Py_INCREF(value);
        return (PyArrayObject *)value;
    }
    return (PyArrayObject *)PyArray_FROM_OF(value, NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED);
}

/* ------------------------------------------------------------------ eye, tri: (rows, columns, k); params: type number */

/* The bytes of the number 1; returns their count, 0 with an exception for another type. */
static int one_of(int type_num, char *bytes)
{
#define STORE(number, ctype)            \
    case number: {                      \
        ctype one = 1;                  \
        memcpy(bytes, &one, sizeof one); \
        return sizeof one;              \
    }
    switch (type_num) {
        FOR_REALS(STORE)
    case NPY_COMPLEX64: {
        float one[2] = {1, 0};
        memcpy(bytes, one, sizeof one);
        return sizeof one;
    }
    case NPY_COMPLEX128: {
        double one[2] = {1, 0};
        memcpy(bytes, one, sizeof one);
        return sizeof one;
    }
    default: PyErr_Format(PyExc_TypeError, "no native code for NumPy type number %d", type_num); return 0;
    }
#undef STORE
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* A matrix of zeros with ones in the columns [first, last) of every row: `tri` from 0 to row + k, `eye` at row + k. */
static int banded(PyObject **in, PyObject **out, int type_num, int lower)
{
    int64_t rows, columns, k;
    if (native_as_int64(in[0], &rows) < 0 || native_as_int64(in[1], &columns) < 0 || native_as_int64(in[2], &k) < 0)
        return -1;
    npy_intp dims[2] = {rows < 0 ? 0 : rows, columns < 0 ? 0 : columns};
    char one[16];
    int size = one_of(type_num, one);
    if (size == 0)
        return -1;
    PyArrayObject *matrix = native_alloc(out, 2, dims, type_num);
    if (matrix == NULL)
        return -1;
    if (PyArray_SIZE(matrix) == 0)
        return 0;
    k = clamp(k, -dims[0] - 1, dims[1] + 1);
    char *data = PyArray_BYTES(matrix);
    memset(data, 0, (size_t)PyArray_NBYTES(matrix));
    for (npy_intp row = 0; row < dims[0]; ++row, data += dims[1] * size) {
        int64_t last = clamp(row + k + 1, 0, dims[1]);
        int64_t first = lower ? 0 : clamp(row + k, 0, dims[1]);
        for (int64_t column = first; column < last; ++column)
            memcpy(data + column * size, one, size);
    }
    return 0;
}

static int tng_eye(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    return banded(in, out, (int)params[0], 0);
}

static int tng_tri(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    return banded(in, out, (int)params[0], 1);
}

/* ------------------------------------------------------------------ arange of integers: (start, stop, step); params: type number */

static int tng_arange_int(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    int64_t start, stop, step;
    if (native_as_int64(in[0], &start) < 0 || native_as_int64(in[1], &stop) < 0 || native_as_int64(in[2], &step) < 0)
        return -1;
    if (step == 0) {
        PyErr_SetString(PyExc_ValueError, "arange: step must not be zero");
        return -1;
    }
    /* 128 bits: stop - start may not fit into 64. */
    __int128 span = (__int128)stop - start;
    __int128 count = step > 0 ? (span + step - 1) / step : (span + step + 1) / step;
    if ((step > 0) != (span > 0) || span == 0)
        count = 0;
    if (count > NPY_MAX_INTP / 16) {
        PyErr_Format(PyExc_ValueError, "arange: too many elements between start %lld and stop %lld", (long long)start,
                     (long long)stop);
        return -1;
    }
    npy_intp length = (npy_intp)count;
    PyArrayObject *vector = native_alloc(out, 1, &length, (int)params[0]);
    if (vector == NULL)
        return -1;
#define FILL(number, ctype)                                                        \
    case number: {                                                                 \
        ctype *data = (ctype *)PyArray_DATA(vector);                               \
        for (npy_intp i = 0; i < length; ++i)                                      \
            data[i] = (ctype)((uint64_t)start + (uint64_t)i * (uint64_t)step);     \
        return 0;                                                                  \
    }
    switch ((int)params[0]) {
        FOR_INTEGERS(FILL)
    case NPY_BOOL: {
        npy_bool *data = (npy_bool *)PyArray_DATA(vector);
        for (npy_intp i = 0; i < length; ++i)
            data[i] = (uint64_t)start + (uint64_t)i * (uint64_t)step != 0;
        return 0;
    }
    default: PyErr_Format(PyExc_TypeError, "arange: no native code for NumPy type number %d", (int)params[0]); return -1;
    }
#undef FILL
}

/* ------------------------------------------------------------------ a vector of the inputs, 0-d arrays; params: type number */

static int tng_make_vector(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    int type_num = (int)params[0];
    npy_intp length = nin;
    PyArrayObject *vector = native_alloc(out, 1, &length, type_num);
    if (vector == NULL)
        return -1;
    npy_intp size = PyArray_ITEMSIZE(vector);
    char *data = PyArray_BYTES(vector);
    for (int i = 0; i < nin; ++i, data += size) {
        PyArrayObject *scalar = as_array(in[i], type_num);
        if (scalar == NULL)
            return -1;
        if (PyArray_NDIM(scalar) != 0) {
            PyErr_Format(PyExc_ValueError, "MakeVector: input %d has %d dimension(s), expected a scalar", i, PyArray_NDIM(scalar));
            Py_DECREF(scalar);
            return -1;
        }
        memcpy(data, PyArray_DATA(scalar), (size_t)size);
        Py_DECREF(scalar);
    }
    return 0;
}

/* ------------------------------------------------------------------ indices of the nonzero elements: one output per dimension */

static int tng_nonzero(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    PyObject *array = PyArray_FROM_O(in[0]);
    if (array == NULL)
        return -1;
    PyObject *found = PyArray_Nonzero((PyArrayObject *)array);
    Py_DECREF(array);
    if (found == NULL)
        return -1;
    if (PyTuple_GET_SIZE(found) != nout) {
        PyErr_Format(PyExc_ValueError, "nonzero: the input has %zd dimension(s), expected %d", PyTuple_GET_SIZE(found), nout);
        Py_DECREF(found);
        return -1;
    }
    for (int i = 0; i < nout; ++i) {
        /* NumPy's are columns of one matrix. */
        PyObject *indices = PyArray_FROM_OTF(PyTuple_GET_ITEM(found, i), NPY_INT64, NPY_ARRAY_CARRAY);
        if (indices == NULL) {
            Py_DECREF(found);
            return -1;
        }
        native_set(&out[i], indices);
    }
    Py_DECREF(found);
    return 0;
}

/* ------------------------------------------------------------------ cumulative sum or product; params: axis (-1: all), product? */

/* z = cumulative sum (product) of x along the middle of (outer, n, inner), all C-contiguous. */
#define DEFINE_CUMULATE(type, suffix)                                                                             \
    static void cumulate_##suffix(npy_intp outer, npy_intp n, npy_intp inner, const void *x_, void *z_, int product) \
    {                                                                                                             \
        const type *x = x_;                                                                                       \
        type *z = z_;                                                                                             \
        for (npy_intp o = 0; o < outer; ++o, x += n * inner, z += n * inner) {                                    \
            if (inner == 1) {                                                                                     \
                type total = product ? 1 : 0;                                                                     \
                for (npy_intp k = 0; k < n; ++k)                                                                  \
                    z[k] = total = product ? total * x[k] : total + x[k];                                         \
                continue;                                                                                         \
            }                                                                                                     \
            memcpy(z, x, inner * sizeof(type));                                                                   \
            for (npy_intp k = inner; k < n * inner; ++k)                                                          \
                z[k] = product ? z[k - inner] * x[k] : z[k - inner] + x[k];                                       \
        }                                                                                                         \
    }
DEFINE_CUMULATE(npy_float32, f32)
DEFINE_CUMULATE(npy_float64, f64)
DEFINE_CUMULATE(npy_int64, i64)

/* The common dtypes without NumPy's set-up cost; returns whether it did the work. */
static int cumulate_contiguous(PyArrayObject *x, PyArrayObject *z, int axis, int product)
{
    if (!PyArray_IS_C_CONTIGUOUS(x) || PyArray_SIZE(x) == 0 || PyArray_NDIM(x) == 0 || PyArray_TYPE(x) != PyArray_TYPE(z))
        return 0;
    npy_intp outer = 1, n = PyArray_SIZE(x), inner = 1;
    if (axis >= 0) {
        n = PyArray_DIM(x, axis);
        for (int i = 0; i < axis; ++i)
            outer *= PyArray_DIM(x, i);
        for (int i = axis + 1; i < PyArray_NDIM(x); ++i)
            inner *= PyArray_DIM(x, i);
    }
    switch (PyArray_TYPE(x)) {
    case NPY_FLOAT32: cumulate_f32(outer, n, inner, PyArray_DATA(x), PyArray_DATA(z), product); return 1;
    case NPY_FLOAT64: cumulate_f64(outer, n, inner, PyArray_DATA(x), PyArray_DATA(z), product); return 1;
    case NPY_INT64: cumulate_i64(outer, n, inner, PyArray_DATA(x), PyArray_DATA(z), product); return 1;
    default: return 0;
    }
}

static int tng_cumulative(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    PyArrayObject *x = as_behaved(in[0]);
    if (x == NULL)
        return -1;
    int axis = (int)params[0], type_num = canonical_type(PyArray_TYPE(x)), result = -1;
    npy_intp size = PyArray_SIZE(x);
    PyArrayObject *z = axis < 0 ? native_alloc(out, 1, &size, type_num)
                                : native_alloc(out, PyArray_NDIM(x), PyArray_DIMS(x), type_num);
    if (z != NULL && cumulate_contiguous(x, z, axis, params[1] != 0))
        result = 0;
    else if (z != NULL) {
        if (axis < 0)
            axis = NPY_RAVEL_AXIS;
        PyObject *same = params[1] ? PyArray_CumProd(x, axis, type_num, z) : PyArray_CumSum(x, axis, type_num, z);
        if (same != NULL) {
            Py_DECREF(same);
            result = 0;
        }
    }
    Py_DECREF(x);
    return result;
}

/* ------------------------------------------------------------------ searchsorted: (sorted vector, values[, sorter]); params: right? */

static int tng_searchsorted(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    PyObject *found = PyArray_SearchSorted((PyArrayObject *)in[0], in[1], params[0] ? NPY_SEARCHRIGHT : NPY_SEARCHLEFT,
                                           nin > 2 ? in[2] : NULL);
    if (found == NULL)
        return -1;
    /* A 0-d result comes as a NumPy scalar. */
    PyObject *array = PyArray_FROM_OTF(found, NPY_INT64, NPY_ARRAY_CARRAY);
    Py_DECREF(found);
    if (array == NULL)
        return -1;
    native_set(&out[0], array);
    return 0;
}

/* ------------------------------------------------------------------ the input, or a contiguous copy of it */

static int tng_contiguous(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    PyObject *result;
    /* The previous output may be somebody's array (a view of an input): it is not written to. */
    if (PyArray_IS_C_CONTIGUOUS((PyArrayObject *)in[0])) {
        result = in[0];
        Py_INCREF(result);
    }
    else {
        result = PyArray_NewCopy((PyArrayObject *)in[0], NPY_CORDER);
        if (result == NULL)
            return -1;
    }
    native_set(&out[0], result);
    return 0;
}

/* ------------------------------------------------------------------ product of vectors or matrices; params: type number */

static int tng_dot(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    int type_num = (int)params[0], result = -1;
    PyArrayObject *x = as_array(in[0], type_num), *y = x == NULL ? NULL : as_array(in[1], type_num);
    if (y == NULL)
        goto finish;
    int x_nd = PyArray_NDIM(x), y_nd = PyArray_NDIM(y), nd = 0;
    npy_intp dims[2];
    if (x_nd == 2)
        dims[nd++] = PyArray_DIM(x, 0);
    if (y_nd == 2)
        dims[nd++] = PyArray_DIM(y, 1);
    npy_intp left = PyArray_DIM(x, x_nd - 1), right = PyArray_DIM(y, 0);
    if (left != right) {
        PyErr_Format(PyExc_ValueError,
                     "Shape mismatch: x has %zd columns but y has %zd rows (last dimension of input[0], first of input[1])",
                     (Py_ssize_t)left, (Py_ssize_t)right);
        goto finish;
    }
    PyArrayObject *z = native_alloc(out, nd, dims, type_num);
    if (z == NULL)
        goto finish;
    PyObject *same = PyArray_MatrixProduct2((PyObject *)x, (PyObject *)y, z);
    if (same != NULL) {
        Py_DECREF(same);
        result = 0;
    }
finish:
    Py_XDECREF(x);
    Py_XDECREF(y);
    return result;
}

static const NativeEntry entries[] = {
    {"eye", tng_eye},
    {"tri", tng_tri},
    {"arange_int", tng_arange_int},
    {"make_vector", tng_make_vector},
    {"nonzero", tng_nonzero},
    {"cumulative", tng_cumulative},
    {"searchsorted", tng_searchsorted},
    {"contiguous", tng_contiguous},
    {"dot", tng_dot},
    {NULL, NULL},
};
NATIVE_MODULE(extra, entries)
