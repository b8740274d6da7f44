/* Native code of the Ops that create arrays: eye, tri, ranges, vectors of scalars, diagonals.
 *
 * The comment at each function describes its inputs, outputs and packed parameters. */
#include <math.h>
#include "common/strided.h"

/* Call DO(type number, C type) for every integer type. */
#define FOR_INTEGERS(DO)       \
    DO(NPY_INT8, npy_int8)     \
    DO(NPY_INT16, npy_int16)   \
    DO(NPY_INT32, npy_int32)   \
    DO(NPY_INT64, npy_int64)   \
    DO(NPY_UINT8, npy_uint8)   \
    DO(NPY_UINT16, npy_uint16) \
    DO(NPY_UINT32, npy_uint32) \
    DO(NPY_UINT64, npy_uint64)

/* ---------------------------------------------------------------- eye, tri: (rows, columns, k) */

/* Store the number 1 in the type `type_num`. Return the number of bytes, or 0 with an exception set if the type is not
 * supported. */
static int one_of(int type_num, char *bytes)
{
#define STORE(number, ctype)             \
    case number: {                       \
        ctype one = 1;                   \
        memcpy(bytes, &one, sizeof one); \
        return sizeof one;               \
    }
    switch (type_num) {
        FOR_INTEGERS(STORE)
        STORE(NPY_BOOL, npy_bool)
        STORE(NPY_FLOAT32, npy_float32)
        STORE(NPY_FLOAT64, npy_float64)
    case NPY_FLOAT16: {
        npy_half one = 0x3c00;
        memcpy(bytes, &one, sizeof one);
        return sizeof one;
    }
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

/* Create a matrix of zeros and ones. In each row, `tri` (lower) has ones in the columns 0 to row + k; `eye` has a
 * one in the column row + k. */
static int banded(PyObject **in, PyObject **out, int type_num, int lower)
{
    int64_t rows, columns, k;
    if (native_as_int64(in[0], &rows) < 0 || native_as_int64(in[1] == Py_None ? in[0] : in[1], &columns) < 0
        || native_as_int64(in[2], &k) < 0)
        return -1;
    npy_intp dims[2] = {rows < 0 ? 0 : rows, columns < 0 ? 0 : columns};
    char one[16];
    npy_intp size = one_of(type_num, one);
    if (size == 0)
        return -1;
    PyArrayObject *matrix = (lower ? native_alloc : strided_zeros)(out, 2, dims, type_num);
    if (matrix == NULL)
        return -1;
    if (PyArray_SIZE(matrix) == 0)
        return 0;
    k = clamp(k, -dims[0] - 1, dims[1] + 1);
    char *data = PyArray_BYTES(matrix);
    if (!lower) {
        for (npy_intp row = k < 0 ? -k : 0; row < dims[0] && row + k < dims[1]; ++row)
            memcpy(data + (row * dims[1] + row + k) * size, one, (size_t)size);
        return 0;
    }
    for (npy_intp row = 0; row < dims[0]; ++row, data += dims[1] * size) {
        npy_intp count = clamp(row + k + 1, 0, dims[1]);
        strided_fill(size, count, data, one);
        memset(data + count * size, 0, (size_t)((dims[1] - count) * size));
    }
    return 0;
}

NATIVE_FUNCTION(eye, type_number)
static int tng_eye(int nin, int nout, PyObject **in, PyObject **out, const struct eye_params *params)
{
    return banded(in, out, (int)params->type_number, 0);
}

NATIVE_FUNCTION(tri, type_number)
static int tng_tri(int nin, int nout, PyObject **in, PyObject **out, const struct tri_params *params)
{
    return banded(in, out, (int)params->type_number, 1);
}

/* ---------------------------------------------------------------- ranges: (start, stop, step), 0-d */

static int refuse_zero_step(void)
{
    PyErr_SetString(PyExc_ZeroDivisionError, "arange: step must not be zero");
    return -1;
}

/* Return -1 with an exception set if the absolute value of a length is too large for any array. */
static int refuse_count(double count)
{
    if (fabs(count) <= 0x1p62)
        return 0;
    PyErr_SetString(PyExc_ValueError, "arange: the range from start to stop has more elements than an array can have");
    return -1;
}

/* Read a 0-d integer of any dtype into a 128-bit integer. Return 0, or -1 with an exception set. */
static int read_wide(PyObject *value, __int128 *result)
{
    int64_t word;
    if (PyArray_Check(value) && PyArray_TYPE((PyArrayObject *)value) == NPY_UINT64
        && PyArray_ISBEHAVED_RO((PyArrayObject *)value)) {
        *result = *(const npy_uint64 *)PyArray_DATA((PyArrayObject *)value);
        return 0;
    }
    if (native_as_int64(value, &word) < 0)
        return -1;
    *result = word;
    return 0;
}

/* The number of elements in a block. Element k of a block is the first element of the block plus entry k of a table of
 * multiples of the step. */
#define LANES 32

NATIVE_FUNCTION(arange_int, type_number)
static int tng_arange_int(int nin, int nout, PyObject **in, PyObject **out, const struct arange_int_params *params)
{
    __int128 start, stop, step;
    if (read_wide(in[0], &start) < 0 || read_wide(in[1], &stop) < 0 || read_wide(in[2], &step) < 0)
        return -1;
    if (step == 0)
        return refuse_zero_step();
    __int128 span = stop - start, count = step > 0 ? (span + step - 1) / step : (span + step + 1) / step;
    if (refuse_count((double)count))
        return -1;
    if ((step > 0) != (span > 0) || span == 0)
        count = 0;
    npy_intp length = (npy_intp)count;
    PyArrayObject *vector = native_alloc(out, 1, &length, (int)params->type_number);
    if (vector == NULL)
        return -1;
#define FILL(number, ctype)                                                                                     \
    case number: {                                                                                              \
        ctype *data = (ctype *)PyArray_DATA(vector);                                                            \
        for (int i = 0; i < 2 && i < length; ++i)                                                               \
            if ((ctype)(start + i * step) != start + i * step) {                                                \
                PyErr_Format(PyExc_OverflowError, "arange: element %d is out of bounds for %s", i, &#ctype[4]); \
                return -1;                                                                                      \
            }                                                                                                   \
        ctype multiple[LANES], base = (ctype)start;                                                             \
        for (int k = 0; k < LANES; ++k)                                                                         \
            multiple[k] = (ctype)((npy_uint64)k * (npy_uint64)step);                                            \
        npy_intp i = 0;                                                                                         \
        for (; i + LANES <= length; i += LANES, base = (ctype)(base + (ctype)(LANES * (npy_uint64)step)))       \
            for (int k = 0; k < LANES; ++k)                                                                     \
                data[i + k] = (ctype)(base + multiple[k]);                                                      \
        for (int k = 0; i + k < length; ++k)                                                                    \
            data[i + k] = (ctype)(base + multiple[k]);                                                          \
        return 0;                                                                                               \
    }
    switch ((int)params->type_number) {
        FOR_INTEGERS(FILL)
    default:
        PyErr_Format(PyExc_TypeError, "arange: no native code for NumPy type number %d", (int)params->type_number);
        return -1;
    }
#undef FILL
}

/* Read a 0-d real number of any dtype. Return 0, or -1 with an exception set. */
static int read_double(PyObject *value, double *result)
{
    PyArrayObject *x = (PyArrayObject *)value;
    if (PyArray_Check(value) && PyArray_NDIM(x) == 0 && PyArray_ISBEHAVED_RO(x)) {
        if (PyArray_TYPE(x) == NPY_FLOAT64) {
            *result = *(const npy_float64 *)PyArray_DATA(x);
            return 0;
        }
        if (PyArray_TYPE(x) == NPY_FLOAT32) {
            *result = *(const npy_float32 *)PyArray_DATA(x);
            return 0;
        }
    }
    PyObject *number = PyNumber_Float(value);
    if (number == NULL)
        return -1;
    *result = PyFloat_AS_DOUBLE(number);
    Py_DECREF(number);
    return 0;
}

/* Like NumPy, compute the length with doubles. The step is the difference of the first two elements, in the dtype of
 * the result. */
NATIVE_FUNCTION(arange_float, type_number)
static int tng_arange_float(int nin, int nout, PyObject **in, PyObject **out, const struct arange_float_params *params)
{
    double start, stop, step;
    if (read_double(in[0], &start) < 0 || read_double(in[1], &stop) < 0 || read_double(in[2], &step) < 0)
        return -1;
    if (step == 0)
        return refuse_zero_step();
    double span = stop - start, count = ceil(span / step);
    if (span / step == 0 && span != 0)
        count = (span > 0) == (step > 0); /* the quotient has underflowed to 0: take the ceiling of its exact value */
    if (isnan(count)) {
        PyErr_SetString(PyExc_ValueError,
                        "arange: cannot compute length: start, stop or step is NaN, or two of them are infinite");
        return -1;
    }
    if (refuse_count(count))
        return -1;
    npy_intp length = count > 0 ? (npy_intp)count : 0;
    int type_num = (int)params->type_number;
    if (type_num == NPY_FLOAT16) {
        PyObject *range = PyArray_Arange(start, stop, step, type_num);
        if (range == NULL)
            return -1;
        native_set(out, range);
        return 0;
    }
    PyArrayObject *vector = native_alloc(out, 1, &length, type_num);
    if (vector == NULL)
        return -1;
    /* Compilers vectorize the conversion of 32-bit counters to floating point, but not of 64-bit counters. A long range
     * is therefore divided into blocks, each with 32-bit counters and an offset. */
    const npy_intp block = 1 << 20;
    if (type_num == NPY_FLOAT64) {
        double *data = (double *)PyArray_DATA(vector), delta = (start + step) - start;
        for (npy_intp done = 0; done < length; done += block) {
            int32_t n = (int32_t)(length - done < block ? length - done : block);
            for (int32_t i = 0; i < n; ++i)
                data[done + i] = start + ((double)done + (double)i) * delta;
        }
        if (length > 1)
            data[1] = start + step;
    }
    else if (type_num == NPY_FLOAT32) {
        float *data = (float *)PyArray_DATA(vector), first = (float)start, delta = (float)(start + step) - first;
        npy_intp small = length < INT32_MAX ? length : INT32_MAX;
        for (int32_t i = 0; i < (int32_t)small; ++i)
            data[i] = first + (float)i * delta;
        for (npy_intp i = small; i < length; ++i)
            data[i] = first + (float)i * delta;
        if (length > 1)
            data[1] = (float)(start + step);
    }
    else {
        PyErr_Format(PyExc_TypeError, "arange: no native code for NumPy type number %d", type_num);
        return -1;
    }
    if (length > 0 && type_num == NPY_FLOAT64)
        *(double *)PyArray_DATA(vector) = start; /* if delta is infinite, the loop has stored NaN (0 * delta) */
    else if (length > 0)
        *(float *)PyArray_DATA(vector) = (float)start;
    return 0;
}

/* ---------------------------------------------------------------- make_vector: a vector of the inputs, 0-d arrays */

NATIVE_FUNCTION(make_vector, type_number)
static int tng_make_vector(int nin, int nout, PyObject **in, PyObject **out, const struct make_vector_params *params)
{
    int type_num = (int)params->type_number;
    npy_intp length = nin;
    PyArrayObject *vector = native_alloc(out, 1, &length, type_num);
    if (vector == NULL)
        return -1;
    npy_intp size = PyArray_ITEMSIZE(vector);
    char *data = PyArray_BYTES(vector);
    for (int i = 0; i < nin; ++i, data += size) {
        PyArrayObject *scalar = (PyArrayObject *)in[i];
        if (!PyArray_Check(in[i]) || PyArray_NDIM(scalar) != 0) {
            PyErr_Format(PyExc_ValueError, "MakeVector: input %d is not a 0-d array", i);
            return -1;
        }
        if (PyArray_TYPE(scalar) == type_num && PyArray_ISNOTSWAPPED(scalar)) {
            memcpy(data, PyArray_DATA(scalar), (size_t)size);
            continue;
        }
        PyObject *same = PyArray_FROMANY(in[i], type_num, 0, 0, NPY_ARRAY_BEHAVED | NPY_ARRAY_FORCECAST);
        if (same == NULL)
            return -1;
        memcpy(data, PyArray_DATA((PyArrayObject *)same), (size_t)size);
        Py_DECREF(same);
    }
    return 0;
}

/* ------------------------------------------------ diagonals of planes; a plane has the dimensions axis1 and axis2 */

/* Input: an array of at least 2 dimensions. Output: an array with the dimensions of the input except axis1 and axis2,
 * then a last dimension with the diagonal of each plane. view: whether the output is a view of the input. */
NATIVE_FUNCTION(extract_diag, offset, axis1, axis2, view)
static int tng_extract_diag(int nin, int nout, PyObject **in, PyObject **out, const struct extract_diag_params *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    int64_t offset = params->offset;
    int axis1 = (int)params->axis1, axis2 = (int)params->axis2, nd = 0;
    npy_intp dims[NPY_MAXDIMS], strides[NPY_MAXDIMS], rows = PyArray_DIM(x, axis1), columns = PyArray_DIM(x, axis2);
    for (int i = 0; i < PyArray_NDIM(x); ++i)
        if (i != axis1 && i != axis2) {
            dims[nd] = PyArray_DIM(x, i);
            strides[nd++] = PyArray_STRIDE(x, i);
        }
    char *data = PyArray_BYTES(x);
    offset = clamp(offset, -rows, columns);
    npy_intp down = offset < 0 ? -offset : 0, right = offset > 0 ? offset : 0;
    dims[nd] = rows - down < columns - right ? rows - down : columns - right;
    strides[nd] = PyArray_STRIDE(x, axis1) + PyArray_STRIDE(x, axis2);
    if (dims[nd] > 0)
        data += down * PyArray_STRIDE(x, axis1) + right * PyArray_STRIDE(x, axis2);
    ++nd;
    if (params->view) {
        PyObject *view = strided_view(x, nd, dims, strides, data);
        if (view == NULL)
            return -1;
        native_set(out, view);
        return 0;
    }
    PyArrayObject *z = native_alloc(out, nd, dims, PyArray_TYPE(x));
    if (z == NULL)
        return -1;
    strided_copy(PyArray_ITEMSIZE(x), nd, dims, PyArray_BYTES(z), PyArray_STRIDES(z), data, strides);
    return 0;
}

/* Input: an array of at least 1 dimension. Output: an array of zeros, in which the last dimension of the input is the
 * diagonal of a plane. */
NATIVE_FUNCTION(alloc_diag, offset, axis1, axis2)
static int tng_alloc_diag(int nin, int nout, PyObject **in, PyObject **out, const struct alloc_diag_params *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    int64_t offset = params->offset;
    int axis1 = (int)params->axis1, axis2 = (int)params->axis2, nd = PyArray_NDIM(x) + 1, kept = 0;
    npy_intp dims[NPY_MAXDIMS], strides[NPY_MAXDIMS], down = offset < 0 ? -offset : 0, right = offset > 0 ? offset : 0,
                                                      side;
    if (nd > NPY_MAXDIMS || __builtin_add_overflow(PyArray_DIM(x, nd - 2), down + right, &side)) {
        PyErr_SetString(PyExc_ValueError, "AllocDiag: the result is larger than any array");
        return -1;
    }
    for (int i = 0; i < nd; ++i)
        dims[i] = i == axis1 || i == axis2 ? side : PyArray_DIM(x, kept++);
    PyArrayObject *z = strided_zeros(out, nd, dims, PyArray_TYPE(x));
    if (z == NULL)
        return -1;
    if (PyArray_SIZE(x) == 0)
        return 0;
    kept = 0;
    for (int i = 0; i < nd; ++i)
        if (i != axis1 && i != axis2)
            strides[kept++] = PyArray_STRIDE(z, i);
    strides[kept] = PyArray_STRIDE(z, axis1) + PyArray_STRIDE(z, axis2);
    strided_copy(PyArray_ITEMSIZE(x), nd - 1, PyArray_DIMS(x),
                 PyArray_BYTES(z) + down * PyArray_STRIDE(z, axis1) + right * PyArray_STRIDE(z, axis2), strides,
                 PyArray_BYTES(x), PyArray_STRIDES(x));
    return 0;
}

static const NativeEntry entries[] = {
    NATIVE_ENTRY(eye),         NATIVE_ENTRY(tri),          NATIVE_ENTRY(arange_int), NATIVE_ENTRY(arange_float),
    NATIVE_ENTRY(make_vector), NATIVE_ENTRY(extract_diag), NATIVE_ENTRY(alloc_diag), {NULL},
};
NATIVE_MODULE(creation, entries)
