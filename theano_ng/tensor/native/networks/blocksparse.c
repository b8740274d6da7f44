/* Products of selected blocks: vectors times blocks of a matrix, and outer products added to blocks. float32 and
 * float64. */
#include "networks/block_indices.h"
#include "common/target_clones.h"

#define LANES 16

/* Strides are in elements. */
#define DEFINE_BLOCKS(T)                                                                                            \
    VECTORISED static void add_multiple_##T(npy_intp n, T factor, const T *restrict x, T *restrict y)               \
    {                                                                                                               \
        for (npy_intp i = 0; i < n; ++i)                                                                            \
            y[i] += factor * x[i];                                                                                  \
    }                                                                                                               \
    VECTORISED static T dot_##T(npy_intp n, const T *restrict x, const T *restrict y)                               \
    {                                                                                                               \
        T sums[LANES] = {0}, total = 0;                                                                             \
        npy_intp i = 0;                                                                                             \
        for (; i + LANES <= n; i += LANES)                                                                          \
            for (int k = 0; k < LANES; ++k)                                                                         \
                sums[k] += x[i + k] * y[i + k];                                                                     \
        for (; i < n; ++i)                                                                                          \
            total += x[i] * y[i];                                                                                   \
        for (int k = 0; k < LANES; ++k)                                                                             \
            total += sums[k];                                                                                       \
        return total;                                                                                               \
    }                                                                                                               \
    /* y (n) += x (m) W (m, n); x and y are contiguous */                                                           \
    static void multiply_##T(npy_intp m, npy_intp n, const void *x_, const char *w_, npy_intp row, npy_intp column, \
                             void *y_)                                                                              \
    {                                                                                                               \
        const T *x = x_, *w = (const T *)w_;                                                                        \
        T *y = y_;                                                                                                  \
        if (column == 1)                                                                                            \
            for (npy_intp i = 0; i < m; ++i)                                                                        \
                add_multiple_##T(n, x[i], w + i * row, y);                                                          \
        else if (row == 1)                                                                                          \
            for (npy_intp j = 0; j < n; ++j)                                                                        \
                y[j] += dot_##T(m, x, w + j * column);                                                              \
        else                                                                                                        \
            for (npy_intp i = 0; i < m; ++i)                                                                        \
                for (npy_intp j = 0; j < n; ++j)                                                                    \
                    y[j] += x[i] * w[i * row + j * column];                                                         \
    }                                                                                                               \
    /* W (m, n) += alpha x (m) y (n) */                                                                             \
    static void add_outer_##T(npy_intp m, npy_intp n, double alpha, const void *x_, const void *y_, char *w_,       \
                              npy_intp row, npy_intp column)                                                        \
    {                                                                                                               \
        const T *x = x_, *y = y_;                                                                                   \
        T *w = (T *)w_, factor = (T)alpha;                                                                          \
        for (npy_intp i = 0; i < m; ++i)                                                                            \
            if (column == 1)                                                                                        \
                add_multiple_##T(n, factor * x[i], y, w + i * row);                                                 \
            else                                                                                                    \
                for (npy_intp j = 0; j < n; ++j)                                                                    \
                    w[i * row + j * column] += factor * x[i] * y[j];                                                \
    }
typedef npy_float32 f32;
typedef npy_float64 f64;
DEFINE_BLOCKS(f32)
DEFINE_BLOCKS(f64)

/* Put the array that will be written into *out: the first input itself if `in_place`, otherwise a copy of it. Return a
 * borrowed reference to the array, or NULL with an exception set. */
static PyArrayObject *target(PyObject *first, PyObject **out, int in_place)
{
    if (in_place) {
        if (PyArray_FailUnlessWriteable((PyArrayObject *)first, "output array") < 0)
            return NULL;
        Py_INCREF(first);
        native_set(out, first);
        return (PyArrayObject *)first;
    }
    PyArrayObject *a = (PyArrayObject *)first,
                  *z = native_alloc(out, PyArray_NDIM(a), PyArray_DIMS(a), PyArray_TYPE(a));
    return z == NULL || PyArray_CopyInto(z, a) < 0 ? NULL : z;
}

/* Return the address of the vector a[b, i]. `a` has three dimensions and is contiguous along the last dimension. */
static inline char *vector(PyArrayObject *a, npy_intp b, npy_intp i)
{
    return PyArray_BYTES(a) + b * PyArray_STRIDE(a, 0) + i * PyArray_STRIDE(a, 1);
}

/* Return the address of the block a[i, j] in an array of blocks. */
static inline char *block(PyArrayObject *a, npy_intp i, npy_intp j)
{
    return PyArray_BYTES(a) + i * PyArray_STRIDE(a, 0) + j * PyArray_STRIDE(a, 1);
}

/* Inputs: o, W, h, input indices, output indices. */
NATIVE_FUNCTION(gemv, in_place)
static int tng_gemv(int nin, int nout, PyObject **in, PyObject **out, const struct gemv_params *params)
{
    static const char who[] = "SparseBlockGemv";
    PyArrayObject *o = (PyArrayObject *)in[0], *w = (PyArrayObject *)in[1], *h = (PyArrayObject *)in[2];
    npy_intp batch = PyArray_DIM(o, 0), windows = PyArray_DIM(o, 1), inputs = PyArray_DIM(h, 1);
    npy_intp m = PyArray_DIM(w, 2), n = PyArray_DIM(w, 3), item = PyArray_ITEMSIZE(o);
    int type = PyArray_TYPE(o), failed = -1;
    (void)nin;
    (void)nout;
    if (check_length(who, "h", 0, PyArray_DIM(h, 0), batch) < 0 || check_length(who, "h", 2, PyArray_DIM(h, 2), m) < 0
        || check_length(who, "o", 2, PyArray_DIM(o, 2), n) < 0)
        return -1;
    PyArrayObject *from = read_indices(in[3], who, "inputIdx", batch, inputs, PyArray_DIM(w, 0)), *to = NULL, *x = NULL,
                  *work = NULL;
    if (from == NULL || (to = read_indices(in[4], who, "outputIdx", batch, windows, PyArray_DIM(w, 1))) == NULL)
        goto done;
    x = (PyArrayObject *)PyArray_FROM_OTF(in[2], type, NPY_ARRAY_CARRAY_RO);
    PyArrayObject *z = x == NULL ? NULL : target(in[0], out, (int)params->in_place);
    if (z == NULL)
        goto done;
    /* The loops write contiguous vectors. If the last dimension of z is not contiguous, they write to a copy of z. */
    int straight = n <= 1 || PyArray_STRIDE(z, 2) == item;
    work = straight ? (PyArrayObject *)Py_NewRef((PyObject *)z) : (PyArrayObject *)PyArray_NewCopy(z, NPY_CORDER);
    if (work == NULL)
        goto done;
    const npy_int64 *rows = PyArray_DATA(from), *columns = PyArray_DATA(to);
    for (npy_intp b = 0; b < batch; ++b)
        for (npy_intp j = 0; j < windows; ++j)
            for (npy_intp i = 0; i < inputs; ++i)
                (type == NPY_FLOAT32 ? multiply_f32 : multiply_f64)(
                    m, n, vector(x, b, i), block(w, rows[b * inputs + i], columns[b * windows + j]),
                    PyArray_STRIDE(w, 2) / item, PyArray_STRIDE(w, 3) / item, vector(work, b, j));
    failed = straight || PyArray_CopyInto(z, work) == 0 ? 0 : -1;
done:
    Py_XDECREF(from);
    Py_XDECREF(to);
    Py_XDECREF(x);
    Py_XDECREF(work);
    return failed;
}

/* Inputs: o, x, y, indices of x, indices of y, alpha. */
NATIVE_FUNCTION(outer, in_place)
static int tng_outer(int nin, int nout, PyObject **in, PyObject **out, const struct outer_params *params)
{
    static const char who[] = "SparseBlockOuter";
    PyArrayObject *o = (PyArrayObject *)in[0], *x = (PyArrayObject *)in[1], *y = (PyArrayObject *)in[2];
    npy_intp batch = PyArray_DIM(x, 0), xs = PyArray_DIM(x, 1), ys = PyArray_DIM(y, 1);
    npy_intp m = PyArray_DIM(o, 2), n = PyArray_DIM(o, 3), item = PyArray_ITEMSIZE(o);
    int type = PyArray_TYPE(o), failed = -1;
    double alpha = PyFloat_AsDouble(in[5]);
    (void)nin;
    (void)nout;
    if ((alpha == -1 && PyErr_Occurred()) || check_length(who, "y", 0, PyArray_DIM(y, 0), batch) < 0
        || check_length(who, "x", 2, PyArray_DIM(x, 2), m) < 0 || check_length(who, "y", 2, PyArray_DIM(y, 2), n) < 0)
        return -1;
    PyArrayObject *rows = read_indices(in[3], who, "xIdx", batch, xs, PyArray_DIM(o, 0)), *columns = NULL, *left = NULL,
                  *right = NULL;
    if (rows == NULL || (columns = read_indices(in[4], who, "yIdx", batch, ys, PyArray_DIM(o, 1))) == NULL)
        goto done;
    left = (PyArrayObject *)PyArray_FROM_OTF(in[1], type, NPY_ARRAY_CARRAY_RO);
    right = (PyArrayObject *)PyArray_FROM_OTF(in[2], type, NPY_ARRAY_CARRAY_RO);
    PyArrayObject *z = left == NULL || right == NULL ? NULL : target(in[0], out, (int)params->in_place);
    if (z == NULL)
        goto done;
    const npy_int64 *row = PyArray_DATA(rows), *column = PyArray_DATA(columns);
    for (npy_intp b = 0; b < batch; ++b)
        for (npy_intp i = 0; i < xs; ++i)
            for (npy_intp j = 0; j < ys; ++j)
                (type == NPY_FLOAT32 ? add_outer_f32 : add_outer_f64)(
                    m, n, alpha, vector(left, b, i), vector(right, b, j), block(z, row[b * xs + i], column[b * ys + j]),
                    PyArray_STRIDE(z, 2) / item, PyArray_STRIDE(z, 3) / item);
    failed = 0;
done:
    Py_XDECREF(rows);
    Py_XDECREF(columns);
    Py_XDECREF(left);
    Py_XDECREF(right);
    return failed;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(gemv), NATIVE_ENTRY(outer), {NULL}};
NATIVE_MODULE(blocksparse, entries)
