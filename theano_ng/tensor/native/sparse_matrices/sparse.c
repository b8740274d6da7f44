/* Native code of Ops on sparse matrices, which are given by their vectors data, indices and indptr.
 *
 * A line is a row of a CSR matrix or a column of a CSC matrix. A caller may pass inconsistent vectors: `read_pattern`
 * checks the vectors before they are used to access memory. An entry may occur several times, and the entries of one
 * line may be in any order. The comments before the native functions list the inputs of these functions. gof/native.h
 * explains native functions. */
#include "native.h"
#include "common/target_clones.h"

#define MAC(z, a, b) ((z) += (a) * (b))
#define ADD_TO(z, a) ((z) += (a))

#define T npy_float64
#define NAME(f) f##_float64
#define WIDE
#include "sparse_rows.h"
#undef T
#undef NAME
#define T npy_float32
#define NAME(f) f##_float32
#include "sparse_rows.h"
#undef T
#undef NAME
#undef WIDE

#define T npy_int8
#define NAME(f) f##_int8
#include "sparse_rows.h"
#undef T
#undef NAME
#define T npy_int16
#define NAME(f) f##_int16
#include "sparse_rows.h"
#undef T
#undef NAME
#define T npy_int32
#define NAME(f) f##_int32
#include "sparse_rows.h"
#undef T
#undef NAME
#define T npy_int64
#define NAME(f) f##_int64
#include "sparse_rows.h"
#undef T
#undef NAME
#define T npy_uint8
#define NAME(f) f##_uint8
#include "sparse_rows.h"
#undef T
#undef NAME
#define T npy_uint16
#define NAME(f) f##_uint16
#include "sparse_rows.h"
#undef T
#undef NAME
#define T npy_uint32
#define NAME(f) f##_uint32
#include "sparse_rows.h"
#undef T
#undef NAME
#define T npy_uint64
#define NAME(f) f##_uint64
#include "sparse_rows.h"
#undef T
#undef NAME

/* For complex types, MAC multiplies as NumPy does, without the special cases that the C standard defines for NaN. */
typedef struct {
    npy_float32 re, im;
} pair32;
typedef struct {
    npy_float64 re, im;
} pair64;
#undef MAC
#undef ADD_TO
#define MAC(z, a, b) ((z).re += (a).re * (b).re - (a).im * (b).im, (z).im += (a).re * (b).im + (a).im * (b).re)
#define ADD_TO(z, a) ((z).re += (a).re, (z).im += (a).im)
#define T pair32
#define NAME(f) f##_complex64
#include "sparse_rows.h"
#undef T
#undef NAME
#define T pair64
#define NAME(f) f##_complex128
#include "sparse_rows.h"
#undef T
#undef NAME

/* CALL(type_num, f, C) calls the variant of f for a type number. The macro C(t) expands to the argument list, in which
 * arrays are passed as pointers to the C type t. */
#define ONE_TYPE(number, suffix, type, f, C) \
    case number: f##_##suffix C(type); break;
#define CALL(type_num, f, C)                                                                                     \
    switch (type_num) {                                                                                          \
        ONE_TYPE(NPY_FLOAT64, float64, npy_float64, f, C)                                                        \
        ONE_TYPE(NPY_FLOAT32, float32, npy_float32, f, C)                                                        \
        ONE_TYPE(NPY_INT8, int8, npy_int8, f, C)                                                                 \
        ONE_TYPE(NPY_INT16, int16, npy_int16, f, C)                                                              \
        ONE_TYPE(NPY_INT32, int32, npy_int32, f, C)                                                              \
        ONE_TYPE(NPY_INT64, int64, npy_int64, f, C)                                                              \
        ONE_TYPE(NPY_UINT8, uint8, npy_uint8, f, C)                                                              \
        ONE_TYPE(NPY_UINT16, uint16, npy_uint16, f, C)                                                           \
        ONE_TYPE(NPY_UINT32, uint32, npy_uint32, f, C)                                                           \
        ONE_TYPE(NPY_UINT64, uint64, npy_uint64, f, C)                                                           \
        ONE_TYPE(NPY_COMPLEX64, complex64, pair32, f, C)                                                         \
        ONE_TYPE(NPY_COMPLEX128, complex128, pair64, f, C)                                                       \
    default:                                                                                                     \
        PyErr_Format(PyExc_TypeError, "sparse matrices do not support NumPy's type number %d", (int)(type_num)); \
        status = -1;                                                                                             \
    }

/* ------------------------------------------------------------------ patterns of sparse matrices */

typedef struct {
    PyArrayObject *index_array, *start_array;
    const npy_int32 *index, *start;
    npy_intp lines, entries;
} Pattern;

VECTORISED static npy_uint32 greatest(const npy_int32 *index, npy_intp count)
{
    npy_uint32 found = 0; /* As unsigned integers, negative indices are greater than all valid indices. */
    for (npy_intp k = 0; k < count; ++k)
        found = (npy_uint32)index[k] > found ? (npy_uint32)index[k] : found;
    return found;
}

static void close_pattern(Pattern *p)
{
    Py_XDECREF(p->index_array);
    Py_XDECREF(p->start_array);
}

/* Return a vector as a contiguous array, copied if necessary. */
static PyArrayObject *packed(PyObject *value)
{
    return (PyArrayObject *)PyArray_FROM_OF(value, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_NOTSWAPPED);
}

/* Read the int32 vectors of a matrix whose lines have `minor` positions. Return 0, or -1 with ValueError set if the
 * vectors are inconsistent. `values`: the vector with a value for each entry, or NULL. The caller must call
 * close_pattern, also after an error. */
static int read_pattern(Pattern *p, PyObject *indices, PyObject *indptr, PyObject *values, npy_intp minor)
{
    p->index_array = packed(indices);
    p->start_array = p->index_array == NULL ? NULL : packed(indptr);
    if (p->start_array == NULL)
        return -1;
    p->index = (const npy_int32 *)PyArray_DATA(p->index_array);
    p->start = (const npy_int32 *)PyArray_DATA(p->start_array);
    p->lines = PyArray_SIZE(p->start_array) - 1;
    if (p->lines < 0) {
        PyErr_SetString(
            PyExc_ValueError,
            "indptr of a sparse matrix is empty; it has one element more than there are rows (csr) or columns (csc)");
        return -1;
    }
    int ordered = p->start[0] == 0;
    for (npy_intp i = 0; i < p->lines; ++i)
        ordered &= p->start[i] <= p->start[i + 1];
    p->entries = p->start[p->lines];
    if (!ordered) {
        PyErr_SetString(PyExc_ValueError, "indptr of a sparse matrix does not start with 0, or decreases somewhere");
        return -1;
    }
    npy_intp length = PyArray_SIZE(p->index_array);
    if (p->entries > length || (values != NULL && p->entries > PyArray_SIZE((PyArrayObject *)values))) {
        PyErr_Format(PyExc_ValueError,
                     "Last value of index pointer should be less than the size of index and data arrays: it is %zd, "
                     "and there are %zd "
                     "indices and %zd elements",
                     (Py_ssize_t)p->entries, (Py_ssize_t)length,
                     (Py_ssize_t)(values == NULL ? length : PyArray_SIZE((PyArrayObject *)values)));
        return -1;
    }
    if (p->entries > 0) {
        npy_uint32 worst = greatest(p->index, p->entries);
        if ((npy_intp)worst >= minor) {
            PyErr_Format(
                PyExc_ValueError,
                "an index of a sparse matrix is %d, out of range for %zd place(s) in a row (csr) or column (csc)",
                (int)(npy_int32)worst, (Py_ssize_t)minor);
            return -1;
        }
    }
    return 0;
}

/* Check that the minor dimension of the sparse matrix is as long as the matching dimension of the dense operand.
 * `which`: the number of the optional input that contains the length of the minor dimension; without this input,
 * nothing is checked. `length`: the length of the dense dimension. `what`: "rows" or "columns", for the message. Return
 * 0, or -1 with an exception set. */
static int same_minor(int nin, PyObject **in, int which, npy_intp length, const char *what)
{
    int64_t given;
    if (nin <= which)
        return 0;
    if (native_as_int64(in[which], &given) < 0)
        return -1;
    if (given != length) {
        PyErr_Format(PyExc_ValueError, "shape mismatch: the sparse matrix has %lld %s, but the dense operand has %zd",
                     (long long)given, what, (Py_ssize_t)length);
        return -1;
    }
    return 0;
}

/* Return a matrix with contiguous rows: the array itself, or a copy. `*row`: elements from one row to the next. */
static PyArrayObject *with_rows(PyObject *value, npy_intp *row)
{
    PyArrayObject *a = (PyArrayObject *)value;
    npy_intp item = PyArray_ITEMSIZE(a);
    if (PyArray_ISBEHAVED_RO(a) && (PyArray_DIM(a, 1) <= 1 || PyArray_STRIDE(a, 1) == item)
        && PyArray_STRIDE(a, 0) % item == 0)
        Py_INCREF(a);
    else
        a = packed(value);
    if (a != NULL)
        *row = PyArray_STRIDE(a, 0) / item;
    return a;
}

/* Put a C-contiguous matrix of zeros into *out. Return the matrix, or NULL with an exception set. */
static PyArrayObject *zeros(PyObject **out, npy_intp rows, npy_intp columns, int type_num)
{
    npy_intp dims[2] = {rows, columns};
    PyArrayObject *z = native_alloc(out, 2, dims, type_num);
    if (z != NULL)
        memset(PyArray_DATA(z), 0, PyArray_NBYTES(z));
    return z;
}

#define READ(a, t) ((const t *)PyArray_DATA((PyArrayObject *)(a)))
#define WRITE(a, t) ((t *)PyArray_DATA((PyArrayObject *)(a)))

/* ------------------------------------------------------------- csr_by_dense: (data, indices, indptr, b [, columns]) */

static int tng_csr_by_dense(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *data = packed(in[0]), *b = NULL, *z;
    npy_intp row, rows = PyArray_DIM((PyArrayObject *)in[3], 0), n = PyArray_DIM((PyArrayObject *)in[3], 1);
    Pattern p = {0};
    int status = data == NULL || same_minor(nin, in, 4, rows, "columns") < 0
                         || read_pattern(&p, in[1], in[2], (PyObject *)data, rows) < 0
                         || (b = with_rows(in[3], &row)) == NULL
                     ? -1
                     : 0;
    if (status == 0) {
        npy_intp dims[2] = {p.lines, n};
        z = native_alloc(out, 2, dims, PyArray_TYPE(data));
        if (z == NULL)
            status = -1;
        else {
#define ARGUMENTS(t) (p.lines, n, p.start, p.index, READ(data, t), READ(b, t), row, WRITE(z, t))
            CALL(PyArray_TYPE(data), lines_by_rows, ARGUMENTS)
#undef ARGUMENTS
        }
    }
    close_pattern(&p);
    Py_XDECREF(data);
    Py_XDECREF(b);
    return status;
}

/* ------------------------------------------------------------------ csc_by_dense: (data, indices, indptr, rows, b) */

static int tng_csc_by_dense(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *data = packed(in[0]), *b = NULL, *z;
    npy_intp row, n = PyArray_DIM((PyArrayObject *)in[4], 1);
    int64_t rows;
    Pattern p = {0};
    int status =
        data == NULL || native_as_int64(in[3], &rows) < 0 || read_pattern(&p, in[1], in[2], (PyObject *)data, rows) < 0
            ? -1
            : 0;
    if (status == 0 && p.lines != PyArray_DIM((PyArrayObject *)in[4], 0)) {
        PyErr_Format(PyExc_ValueError,
                     "shape mismatch: the sparse matrix has %zd columns, but the dense operand has %zd rows",
                     (Py_ssize_t)p.lines, (Py_ssize_t)PyArray_DIM((PyArrayObject *)in[4], 0));
        status = -1;
    }
    if (status == 0 && ((b = with_rows(in[4], &row)) == NULL || (z = zeros(out, rows, n, PyArray_TYPE(data))) == NULL))
        status = -1;
    if (status == 0) {
#define ARGUMENTS(t) (p.lines, n, p.start, p.index, READ(data, t), READ(b, t), row, WRITE(z, t), n)
        CALL(PyArray_TYPE(data), rows_by_lines, ARGUMENTS)
#undef ARGUMENTS
    }
    close_pattern(&p);
    Py_XDECREF(data);
    Py_XDECREF(b);
    return status;
}

/* ----------------------------------------- usmm: (alpha, data, indices, indptr, rows, y, z): alpha * dot(x, y) + z */

/* Put the accumulator into *out: z itself if the Op works in place, otherwise a copy of z. Return a borrowed reference,
 * or NULL with an exception set. */
static PyArrayObject *accumulator(PyObject *z, PyObject **out, int in_place)
{
    PyArrayObject *from = (PyArrayObject *)z;
    if (in_place) {
        Py_INCREF(z);
        native_set(out, z);
        return from;
    }
    PyArrayObject *to = native_alloc(out, PyArray_NDIM(from), PyArray_DIMS(from), PyArray_TYPE(from));
    return to == NULL || PyArray_CopyInto(to, from) < 0 ? NULL : to;
}

NATIVE_FUNCTION(usmm_csc_dense, in_place)
static int tng_usmm_csc_dense(int nin, int nout, PyObject **in, PyObject **out,
                              const struct usmm_csc_dense_params *params)
{
    PyArrayObject *y = (PyArrayObject *)in[5], *given = (PyArrayObject *)in[6], *b = NULL, *z, *rest = NULL;
    if (PyArray_SIZE((PyArrayObject *)in[0]) != 1) {
        PyErr_Format(PyExc_ValueError, "alpha must be one number, not %zd",
                     (Py_ssize_t)PyArray_SIZE((PyArrayObject *)in[0]));
        return -1;
    }
    /* Multiply each entry by alpha, instead of each element of the product. */
    PyArrayObject *data = (PyArrayObject *)PyNumber_Multiply(in[1], in[0]);
    npy_intp row, n = PyArray_DIM(y, 1);
    int64_t rows;
    Pattern p = {0};
    int status = -1;
    if (data != NULL && PyArray_NDIM(data) != 1)
        Py_SETREF(data, (PyArrayObject *)PyArray_Ravel(data, NPY_CORDER));
    if (data != NULL)
        Py_SETREF(data, (PyArrayObject *)PyArray_FROM_OTF((PyObject *)data, PyArray_TYPE(given), NPY_ARRAY_CARRAY_RO));
    if (data == NULL || native_as_int64(in[4], &rows) < 0 || read_pattern(&p, in[2], in[3], (PyObject *)data, rows) < 0)
        goto end;
    if (p.lines != PyArray_DIM(y, 0)) {
        PyErr_Format(PyExc_ValueError, "x's number of columns doesn't match y's rows: they are %zd and %zd",
                     (Py_ssize_t)p.lines, (Py_ssize_t)PyArray_DIM(y, 0));
        goto end;
    }
    if (PyArray_DIM(given, 0) != rows || PyArray_DIM(given, 1) != n) {
        PyErr_Format(PyExc_ValueError,
                     "The dimension of the allocated output doesn't match the correct output size: z has shape (%zd, "
                     "%zd), the product (%zd, %zd)",
                     (Py_ssize_t)PyArray_DIM(given, 0), (Py_ssize_t)PyArray_DIM(given, 1), (Py_ssize_t)rows,
                     (Py_ssize_t)n);
        goto end;
    }
    b = with_rows(in[5], &row);
    z = b == NULL ? NULL : accumulator(in[6], out, params->in_place != 0);
    if (z == NULL)
        goto end;
    npy_intp item = PyArray_ITEMSIZE(z);
    status = 0;
    /* If the rows of z are not contiguous, or if z may overlap b, compute the product in a separate array. */
    int direct = PyArray_ISBEHAVED(z) && (n <= 1 || PyArray_STRIDE(z, 1) == item) && PyArray_STRIDE(z, 0) % item == 0;
    if (direct && params->in_place && b == (PyArrayObject *)in[5]) {
        npy_intp low_b = 0, low_z = 0;
        const char *from = PyArray_BYTES(b), *to = PyArray_BYTES(z);
        npy_intp high_b = item * n + PyArray_STRIDE(b, 0) * (PyArray_DIM(b, 0) - 1),
                 high_z = item * n + PyArray_STRIDE(z, 0) * (rows - 1);
        if (PyArray_STRIDE(b, 0) < 0)
            low_b = PyArray_STRIDE(b, 0) * (PyArray_DIM(b, 0) - 1), high_b = item * n;
        if (PyArray_STRIDE(z, 0) < 0)
            low_z = PyArray_STRIDE(z, 0) * (rows - 1), high_z = item * n;
        direct = from + high_b <= to + low_z || to + high_z <= from + low_b;
    }
    PyArrayObject *target = z;
    if (!direct) {
        npy_intp dims[2] = {rows, n};
        target = rest = native_new(2, dims, PyArray_TYPE(z), 0);
        if (rest == NULL)
            status = -1;
        else
            memset(PyArray_DATA(rest), 0, PyArray_NBYTES(rest));
    }
    if (status == 0) {
        npy_intp z_row = PyArray_STRIDE(target, 0) / item;
#define ARGUMENTS(t) (p.lines, n, p.start, p.index, READ(data, t), READ(b, t), row, WRITE(target, t), z_row)
        CALL(PyArray_TYPE(data), rows_by_lines, ARGUMENTS)
#undef ARGUMENTS
    }
    if (status == 0 && rest != NULL) {
        PyObject *sum = PyNumber_InPlaceAdd((PyObject *)z, (PyObject *)rest);
        status = sum == NULL ? -1 : 0;
        Py_XDECREF(sum);
    }
end:
    close_pattern(&p);
    Py_XDECREF(data);
    Py_XDECREF(b);
    Py_XDECREF(rest);
    return status;
}

/* ---------------------------------------------- dot_grad: (indices, indptr, b, g): g[row] . b[column] of each entry */

NATIVE_FUNCTION(dot_grad, columns)
static int tng_dot_grad(int nin, int nout, PyObject **in, PyObject **out, const struct dot_grad_params *params)
{
    /* If `columns`, the line of an entry selects a row of b, and the index of the entry selects a row of g. Otherwise,
     * the line selects a row of g, and the index selects a row of b. */
    PyObject *by_line = in[params->columns ? 2 : 3], *by_place = in[params->columns ? 3 : 2];
    PyArrayObject *a = NULL, *b = NULL, *z;
    npy_intp a_row, b_row, n = PyArray_DIM((PyArrayObject *)by_line, 1);
    Pattern p = {0};
    int status = -1;
    if (n != PyArray_DIM((PyArrayObject *)by_place, 1)) {
        PyErr_Format(PyExc_ValueError, "shape mismatch: the dense operand has %zd columns, but the gradient has %zd",
                     (Py_ssize_t)PyArray_DIM((PyArrayObject *)in[2], 1),
                     (Py_ssize_t)PyArray_DIM((PyArrayObject *)in[3], 1));
        goto end;
    }
    if (read_pattern(&p, in[0], in[1], NULL, PyArray_DIM((PyArrayObject *)by_place, 0)) < 0)
        goto end;
    if (p.lines != PyArray_DIM((PyArrayObject *)by_line, 0)) {
        PyErr_Format(PyExc_ValueError,
                     "shape mismatch: the sparse matrix has %zd %s, but the dense matrix has %zd rows",
                     (Py_ssize_t)p.lines, params->columns ? "columns" : "rows",
                     (Py_ssize_t)PyArray_DIM((PyArrayObject *)by_line, 0));
        goto end;
    }
    npy_intp count = PyArray_SIZE(p.index_array);
    if ((a = with_rows(by_line, &a_row)) == NULL || (b = with_rows(by_place, &b_row)) == NULL
        || (z = native_alloc(out, 1, &count, PyArray_TYPE(a))) == NULL)
        goto end;
    memset(PyArray_BYTES(z) + p.entries * PyArray_ITEMSIZE(z), 0, (count - p.entries) * PyArray_ITEMSIZE(z));
    status = 0;
#define ARGUMENTS(t) (p.lines, n, p.start, p.index, NULL, READ(a, t), a_row, READ(b, t), b_row, WRITE(z, t))
    CALL(PyArray_TYPE(a), dots_of_rows, ARGUMENTS)
#undef ARGUMENTS
end:
    close_pattern(&p);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return status;
}

/* ------------------------------------ sampling_dot: (x, y, data, indices, indptr, columns) -> data, indices, indptr */

static int tng_sampling_dot(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0], *y = (PyArrayObject *)in[1], *a = NULL, *b = NULL, *data = NULL, *z;
    npy_intp a_row, b_row, n = PyArray_DIM(x, 1);
    int64_t columns;
    Pattern p = {0};
    int status = -1;
    if (PyArray_DIM(y, 1) != n) {
        PyErr_Format(PyExc_ValueError,
                     "x's number of columns doesn't match y's rows: they are %zd and %zd. Note: sampling_dot is "
                     "different from dot because y "
                     "is assumed to be transposed.",
                     (Py_ssize_t)n, (Py_ssize_t)PyArray_DIM(y, 1));
        goto end;
    }
    if (native_as_int64(in[5], &columns) < 0 || (data = packed(in[2])) == NULL
        || read_pattern(&p, in[3], in[4], (PyObject *)data, columns) < 0)
        goto end;
    if (p.lines != PyArray_DIM(x, 0) || columns != PyArray_DIM(y, 0)) {
        PyErr_Format(PyExc_ValueError,
                     "The dimension of the pattern and the output must match: they are (%zd, %lld) and (%zd, %zd)",
                     (Py_ssize_t)p.lines, (long long)columns, (Py_ssize_t)PyArray_DIM(x, 0),
                     (Py_ssize_t)PyArray_DIM(y, 0));
        goto end;
    }
    npy_intp lengths[2] = {p.entries, p.lines + 1};
    PyArrayObject *index, *start;
    if ((a = with_rows(in[0], &a_row)) == NULL || (b = with_rows(in[1], &b_row)) == NULL
        || (z = native_alloc(&out[0], 1, &lengths[0], PyArray_TYPE(x))) == NULL
        || (index = native_alloc(&out[1], 1, &lengths[0], NPY_INT32)) == NULL
        || (start = native_alloc(&out[2], 1, &lengths[1], NPY_INT32)) == NULL)
        goto end;
    memcpy(PyArray_DATA(index), p.index, p.entries * sizeof(npy_int32));
    memcpy(PyArray_DATA(start), p.start, (p.lines + 1) * sizeof(npy_int32));
    status = 0;
#define ARGUMENTS(t) (p.lines, n, p.start, p.index, READ(data, t), READ(a, t), a_row, READ(b, t), b_row, WRITE(z, t))
    CALL(PyArray_TYPE(x), dots_of_rows, ARGUMENTS)
#undef ARGUMENTS
end:
    close_pattern(&p);
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_XDECREF(data);
    return status;
}

/* -------------------------------------------------------- csm_grad: (data, indices, indptr, shape) of x, then of g */

/* Read the shape of a matrix. Return 0, or -1 with an exception set. */
static int read_shape(PyObject *value, npy_intp *shape)
{
    PyArrayObject *a = (PyArrayObject *)PyArray_FROMANY(value, NPY_INT64, 1, 1, NPY_ARRAY_CARRAY_RO);
    if (a == NULL)
        return -1;
    int status = PyArray_SIZE(a) == 2 ? 0 : -1;
    if (status < 0)
        PyErr_Format(PyExc_ValueError, "Shape should be an array of length 2; it has %zd elements",
                     (Py_ssize_t)PyArray_SIZE(a));
    else
        for (int i = 0; i < 2; ++i)
            shape[i] = (npy_intp)READ(a, npy_int64)[i];
    Py_DECREF(a);
    return status;
}

static int tng_csm_grad(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *values = packed(in[4]), *z;
    npy_intp shape[2], g_shape[2], count = PyArray_SIZE((PyArrayObject *)in[1]);
    Pattern x = {0}, g = {0};
    void *line = NULL;
    int status = -1;
    if (values == NULL || read_shape(in[3], shape) < 0 || read_shape(in[7], g_shape) < 0)
        goto end;
    npy_intp lines = PyArray_SIZE((PyArrayObject *)in[2]) - 1;
    if (shape[0] != g_shape[0] || shape[1] != g_shape[1] || (lines != shape[0] && lines != shape[1])) {
        PyErr_Format(PyExc_ValueError,
                     "shape mismatch: a sparse matrix of shape (%zd, %zd) has a gradient of shape (%zd, %zd)",
                     (Py_ssize_t)shape[0], (Py_ssize_t)shape[1], (Py_ssize_t)g_shape[0], (Py_ssize_t)g_shape[1]);
        goto end;
    }
    /* The length of indptr shows whether lines are rows or columns. In a square matrix, rows and columns have equal
     * lengths, so `minor` is the same in both cases. */
    npy_intp minor = lines == shape[0] ? shape[1] : shape[0];
    if (read_pattern(&x, in[1], in[2], in[0], minor) < 0
        || read_pattern(&g, in[5], in[6], (PyObject *)values, minor) < 0)
        goto end;
    if (g.lines != x.lines) {
        PyErr_Format(PyExc_ValueError,
                     "a sparse matrix and its gradient have different formats: indptr have %zd and %zd elements",
                     (Py_ssize_t)(x.lines + 1), (Py_ssize_t)(g.lines + 1));
        goto end;
    }
    npy_intp item = PyArray_ITEMSIZE(values);
    line = PyMem_RawCalloc(minor > 0 ? minor : 1, item);
    if (line == NULL) {
        PyErr_NoMemory();
        goto end;
    }
    if ((z = native_alloc(out, 1, &count, PyArray_TYPE(values))) == NULL)
        goto end;
    memset(PyArray_BYTES(z) + x.entries * item, 0, (count - x.entries) * item);
    status = 0;
#define ARGUMENTS(t) (x.lines, x.start, x.index, g.start, g.index, READ(values, t), (t *)line, WRITE(z, t))
    CALL(PyArray_TYPE(values), entries_of_other, ARGUMENTS)
#undef ARGUMENTS
end:
    PyMem_RawFree(line);
    close_pattern(&x);
    close_pattern(&g);
    Py_XDECREF(values);
    return status;
}

/* -------------------------------- elementwise: (data, indices, indptr, b [, length of the minor dimension]) -> data */

/* Put a vector with one element for each element of `data` into *out, and return it. Elements that belong to no line
 * are zero. */
static PyArrayObject *like_entries(PyObject **out, const Pattern *p, PyArrayObject *data)
{
    npy_intp count = PyArray_SIZE(data);
    PyArrayObject *z = native_alloc(out, 1, &count, PyArray_TYPE(data));
    if (z != NULL)
        memset(PyArray_BYTES(z) + p->entries * PyArray_ITEMSIZE(z), 0, (count - p->entries) * PyArray_ITEMSIZE(z));
    return z;
}

NATIVE_FUNCTION(mul_s_d, columns)
static int tng_mul_s_d(int nin, int nout, PyObject **in, PyObject **out, const struct mul_s_d_params *params)
{
    PyArrayObject *data = packed(in[0]), *b = (PyArrayObject *)in[3], *z;
    int major = params->columns ? 1 : 0;
    Pattern p = {0};
    int status = -1;
    if (data == NULL || same_minor(nin, in, 4, PyArray_DIM(b, 1 - major), major ? "rows" : "columns") < 0
        || read_pattern(&p, in[1], in[2], (PyObject *)data, PyArray_DIM(b, 1 - major)) < 0)
        goto end;
    if (p.lines != PyArray_DIM(b, major)) {
        PyErr_Format(PyExc_ValueError, "shape mismatch: the sparse matrix has %zd %s, but the dense operand has %zd",
                     (Py_ssize_t)p.lines, major ? "columns" : "rows", (Py_ssize_t)PyArray_DIM(b, major));
        goto end;
    }
    if ((z = like_entries(out, &p, data)) == NULL)
        goto end;
    status = 0;
#define ARGUMENTS(t)                                                                       \
    (p.lines, p.start, p.index, READ(data, t), PyArray_BYTES(b), PyArray_STRIDE(b, major), \
     PyArray_STRIDE(b, 1 - major), WRITE(z, t))
    CALL(PyArray_TYPE(data), entries_by_matrix, ARGUMENTS)
#undef ARGUMENTS
end:
    close_pattern(&p);
    Py_XDECREF(data);
    return status;
}

/* Multiply the entries by the vector if `multiply`, otherwise add the vector to the entries. */
NATIVE_FUNCTION(entries_and_vector, multiply)
static int tng_entries_and_vector(int nin, int nout, PyObject **in, PyObject **out,
                                  const struct entries_and_vector_params *params)
{
    PyArrayObject *data = packed(in[0]), *b = (PyArrayObject *)in[3], *z;
    npy_intp length = PyArray_DIM(b, 0), step = PyArray_STRIDE(b, 0);
    Pattern p = {0};
    int status = -1;
    if (data == NULL || same_minor(nin, in, 4, length, "columns") < 0
        || read_pattern(&p, in[1], in[2], (PyObject *)data, length) < 0 || (z = like_entries(out, &p, data)) == NULL)
        goto end;
    status = 0;
    if (params->multiply) {
        /* Use the vector as a matrix with equal rows. */
#define ARGUMENTS(t) (p.lines, p.start, p.index, READ(data, t), PyArray_BYTES(b), 0, step, WRITE(z, t))
        CALL(PyArray_TYPE(data), entries_by_matrix, ARGUMENTS)
#undef ARGUMENTS
    }
    else {
#define ARGUMENTS(t) (p.entries, p.index, READ(data, t), PyArray_BYTES(b), step, WRITE(z, t))
        CALL(PyArray_TYPE(data), entries_plus_vector, ARGUMENTS)
#undef ARGUMENTS
    }
end:
    close_pattern(&p);
    Py_XDECREF(data);
    return status;
}

/* -------------------------------------------- add_s_d: (data, indices, indptr, y [, length of the minor dimension]) */

NATIVE_FUNCTION(add_s_d, columns, in_place)
static int tng_add_s_d(int nin, int nout, PyObject **in, PyObject **out, const struct add_s_d_params *params)
{
    PyArrayObject *data = packed(in[0]), *y = (PyArrayObject *)in[3], *z;
    int major = params->columns ? 1 : 0;
    Pattern p = {0};
    int status = -1;
    if (data == NULL || same_minor(nin, in, 4, PyArray_DIM(y, 1 - major), major ? "rows" : "columns") < 0
        || read_pattern(&p, in[1], in[2], (PyObject *)data, PyArray_DIM(y, 1 - major)) < 0)
        goto end;
    if (p.lines != PyArray_DIM(y, major)) {
        PyErr_Format(PyExc_ValueError, "shape mismatch: the sparse matrix has %zd %s, but the dense operand has %zd",
                     (Py_ssize_t)p.lines, major ? "columns" : "rows", (Py_ssize_t)PyArray_DIM(y, major));
        goto end;
    }
    if ((z = accumulator(in[3], out, params->in_place != 0)) == NULL)
        goto end;
    status = 0;
#define ARGUMENTS(t) \
    (p.lines, p.start, p.index, READ(data, t), PyArray_BYTES(z), PyArray_STRIDE(z, major), PyArray_STRIDE(z, 1 - major))
    CALL(PyArray_TYPE(data), matrix_plus_entries, ARGUMENTS)
#undef ARGUMENTS
end:
    close_pattern(&p);
    Py_XDECREF(data);
    return status;
}

static const NativeEntry entries[] = {{"csr_by_dense", tng_csr_by_dense, NULL, NULL},
                                      {"csc_by_dense", tng_csc_by_dense, NULL, NULL},
                                      NATIVE_ENTRY(usmm_csc_dense),
                                      NATIVE_ENTRY(dot_grad),
                                      {"sampling_dot", tng_sampling_dot, NULL, NULL},
                                      {"csm_grad", tng_csm_grad, NULL, NULL},
                                      NATIVE_ENTRY(mul_s_d),
                                      NATIVE_ENTRY(entries_and_vector),
                                      NATIVE_ENTRY(add_s_d),
                                      {NULL, NULL, NULL, NULL}};
NATIVE_MODULE(sparse, entries)
