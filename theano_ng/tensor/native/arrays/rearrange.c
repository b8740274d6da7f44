/* Native code of repeat, diff, fill_diagonal, the Bartlett window, and indices of flattened arrays.
 *
 * A comment at each function describes the function. gof/native.h explains native functions. */
#include "native.h"
#include "common/strided.h"

static PyArrayObject *with_flags(PyObject *value, int flags)
{
    return (PyArrayObject *)PyArray_FROM_OF(value, flags | NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED);
}

/* Convert integers to a contiguous int64 array. Return a new reference, or NULL with an exception set. */
static PyArrayObject *as_integers(PyObject *value)
{
    return (PyArrayObject *)PyArray_FROMANY(value, NPY_INT64, 0, 0, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST);
}

/* ------------------------------------------------------------------ repeat: (x, repeats); axis -1: x is flattened */

/* Write `times` copies of each of n short items, or each[i] copies of item i if `each` is not NULL. */
#define REPEAT_AS(T)                                                    \
    for (npy_intp i = 0; i < n; ++i) {                                  \
        T item = ((const T *)from)[i];                                  \
        for (npy_intp t = each != NULL ? each[i] : times; t > 0; --t) { \
            *(T *)to = item;                                            \
            to += sizeof(T);                                            \
        }                                                               \
    }                                                                   \
    return to;

/* Repeat each of n chunks of `size` bytes `times` times, or each[i] times if `each` is not NULL. Return the end of the
 * written memory. */
static char *repeat_chunks(char *to, const char *from, npy_intp n, npy_intp size, const int64_t *each, npy_intp times)
{
    switch (size) {
    case 1: REPEAT_AS(npy_uint8)
    case 2: REPEAT_AS(npy_uint16)
    case 4: REPEAT_AS(npy_uint32)
    case 8: REPEAT_AS(npy_uint64)
    case 16: REPEAT_AS(npy_cdouble)
    default:
        for (npy_intp i = 0; i < n; ++i, from += size)
            for (npy_intp t = each != NULL ? each[i] : times; t > 0; --t, to += size)
                memcpy(to, from, (size_t)size);
        return to;
    }
}

NATIVE_FUNCTION(repeat, axis)
static int tng_repeat(int nin, int nout, PyObject **in, PyObject **out, const struct repeat_params *params)
{
    PyArrayObject *x = with_flags(in[0], NPY_ARRAY_C_CONTIGUOUS), *repeats = x == NULL ? NULL : as_integers(in[1]);
    int axis = (int)params->axis, nd = 1, result = -1;
    if (repeats == NULL)
        goto finish;
    npy_intp dims[NPY_MAXDIMS], outer = 1, inner = 1, n = PyArray_SIZE(x), given = PyArray_SIZE(repeats);
    if (axis >= 0) {
        nd = PyArray_NDIM(x);
        n = PyArray_DIM(x, axis);
        for (int i = 0; i < nd; ++i) {
            dims[i] = PyArray_DIM(x, i);
            *(i < axis ? &outer : &inner) *= i == axis ? 1 : dims[i];
        }
    }
    const int64_t *each = (const int64_t *)PyArray_DATA(repeats);
    if (PyArray_NDIM(repeats) > 0 && given != 1 && given != n) {
        PyErr_Format(PyExc_ValueError,
                     "repeat: got %zd repeats for a length of %zd; expected one repeat, or one for each element",
                     (Py_ssize_t)given, (Py_ssize_t)n);
        goto finish;
    }
    int one = given == 1;
    int64_t total = 0;
    for (npy_intp i = 0; i < given; ++i) {
        if (each[i] < 0) {
            PyErr_Format(PyExc_ValueError, "repeats may not contain negative values, but one is %lld",
                         (long long)each[i]);
            goto finish;
        }
        if (each[i] > NPY_MAX_INTP - total || (one && n > 0 && each[i] > NPY_MAX_INTP / n)) {
            PyErr_NoMemory();
            goto finish;
        }
        total += one ? each[i] * n : each[i];
    }
    dims[axis >= 0 ? axis : 0] = (npy_intp)total;
    PyArrayObject *z = native_alloc(out, nd, dims, PyArray_TYPE(x));
    if (z == NULL)
        goto finish;
    npy_intp size = inner * PyArray_ITEMSIZE(x);
    const char *from = PyArray_BYTES(x);
    char *to = PyArray_BYTES(z);
    if (PyArray_SIZE(z) > 0)
        for (npy_intp o = 0; o < outer; ++o, from += n * size)
            to = repeat_chunks(to, from, n, size, one ? NULL : each, one ? (npy_intp)each[0] : 0);
    result = 0;
finish:
    Py_XDECREF(x);
    Py_XDECREF(repeats);
    return result;
}

/* ------------------------------------------------------------------ diff: x */

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

/* z[i] = x[i + step] - x[i]; z may be x. */
typedef void (*diff_fn)(npy_intp n, npy_intp step, const void *x, void *z);

#define DEFINE_DIFF(name, T, DIFFERENCE)                                                            \
    CLONES static void diff_##name(npy_intp n, npy_intp step, const void *x_, void *z_)             \
    {                                                                                               \
        const T *x = x_;                                                                            \
        T *z = z_;                                                                                  \
        _Pragma("GCC ivdep") for (npy_intp i = 0; i < n; ++i) z[i] = DIFFERENCE(x[i + step], x[i]); \
    }
#define MINUS(a, b) ((a) - (b))
#define UNLIKE(a, b) ((a) != (b))
#define HALVES(a, b) inc_float_to_half(inc_half_to_float(a) - inc_half_to_float(b))
DEFINE_DIFF(b1, npy_bool, UNLIKE)
DEFINE_DIFF(u1, uint8_t, MINUS)
DEFINE_DIFF(u2, uint16_t, MINUS)
DEFINE_DIFF(u4, uint32_t, MINUS)
DEFINE_DIFF(u8, uint64_t, MINUS)
DEFINE_DIFF(f2, uint16_t, HALVES)
DEFINE_DIFF(f4, float, MINUS)
DEFINE_DIFF(f8, double, MINUS)

static diff_fn diff_for(PyArrayObject *x)
{
    switch (PyArray_DESCR(x)->kind) {
    case 'b': return diff_b1;
    case 'f': return PyArray_ITEMSIZE(x) == 2 ? diff_f2 : PyArray_ITEMSIZE(x) == 4 ? diff_f4 : diff_f8;
    case 'c': return PyArray_ITEMSIZE(x) == 8 ? diff_f4 : diff_f8;
    default:
        return PyArray_ITEMSIZE(x) == 1   ? diff_u1
               : PyArray_ITEMSIZE(x) == 2 ? diff_u2
               : PyArray_ITEMSIZE(x) == 4 ? diff_u4
                                          : diff_u8;
    }
}

#define DIFF_TILE 2048 /* number of elements of a tile, which stays in the cache while its differences are computed */

/* z[i] = the times-th difference of x[i], x[i + step] ..., for `count` elements. `work` has count + times * step
 * elements. */
static void diff_repeated(diff_fn diff, npy_intp item, npy_intp count, npy_intp step, npy_intp times, const char *x,
                          char *z, char *work)
{
    npy_intp left = count + (times - 1) * step;
    const char *from = x;
    for (; times > 1; --times, left -= step, from = work)
        diff(left, step, from, work);
    diff(count, step, from, z);
}

NATIVE_FUNCTION(diff, n, axis)
static int tng_diff(int nin, int nout, PyObject **in, PyObject **out, const struct diff_params *params)
{
    npy_intp times = (npy_intp)params->n;
    int axis = (int)params->axis, result = -1;
    char *work = NULL;
    PyArrayObject *x = with_flags(in[0], 0), *z = NULL;
    if (x == NULL)
        return -1;
    /* As in NumPy, the differences of an array in Fortran order are also in Fortran order. */
    int nd = PyArray_NDIM(x), fortran = PyArray_IS_F_CONTIGUOUS(x) && !PyArray_IS_C_CONTIGUOUS(x);
    if (!fortran) {
        Py_SETREF(x, with_flags((PyObject *)x, NPY_ARRAY_C_CONTIGUOUS));
        if (x == NULL)
            return -1;
    }
    npy_intp dims[NPY_MAXDIMS], before = 1, after = 1, n = PyArray_DIM(x, axis), item = PyArray_ITEMSIZE(x);
    for (int i = 0; i < nd; ++i) {
        dims[i] = PyArray_DIM(x, i);
        *(i < axis ? &before : &after) *= i == axis ? 1 : dims[i];
    }
    npy_intp outer = fortran ? after : before, step = fortran ? before : after, left = n > times ? n - times : 0;
    dims[axis] = left;
    if (fortran) {
        Py_CLEAR(out[0]);
        z = native_new(nd, dims, PyArray_TYPE(x), 1);
        out[0] = (PyObject *)z;
    }
    else
        z = native_alloc(out, nd, dims, PyArray_TYPE(x));
    if (z == NULL)
        goto finish;
    if (PyArray_SIZE(z) == 0) {
        result = 0;
        goto finish;
    }
    diff_fn diff = diff_for(x);
    const char *from = PyArray_BYTES(x);
    char *to = PyArray_BYTES(z);
    if (PyTypeNum_ISCOMPLEX(PyArray_TYPE(x))) {
        /* Treat a complex number as two real numbers. */
        item /= 2;
        step *= 2;
    }
    npy_intp tile = times == 1 ? left * step : times * step <= DIFF_TILE ? DIFF_TILE : left * step;
    if (times > 1) {
        npy_intp most = tile < left * step ? tile : left * step;
        work = PyMem_RawMalloc((size_t)((most + times * step) * item));
        if (work == NULL) {
            PyErr_NoMemory();
            goto finish;
        }
    }
    for (npy_intp o = 0; o < outer; ++o, from += n * step * item, to += left * step * item) {
        if (times == 0)
            memcpy(to, from, (size_t)(n * step * item));
        else
            for (npy_intp start = 0; start < left * step; start += tile) {
                npy_intp count = left * step - start < tile ? left * step - start : tile;
                diff_repeated(diff, item, count, step, times, from + start * item, to + start * item, work);
            }
    }
    result = 0;
finish:
    Py_DECREF(x);
    PyMem_RawFree(work);
    return result;
}

/* ------------------------------------------------------------------ fill_diagonal: (x, value[, offset]) */

static int tng_fill_diagonal(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *x = with_flags(in[0], 0), *value = x == NULL ? NULL : with_flags(in[1], 0);
    int64_t offset = 0;
    int result = -1;
    if (value == NULL || (nin > 2 && native_as_int64(in[2], &offset) < 0))
        goto finish;
    int nd = PyArray_NDIM(x);
    npy_intp *dims = PyArray_DIMS(x), length = dims[0];
    for (int i = 1; i < nd; ++i) {
        if (nd > 2 && dims[i] != dims[0]) {
            PyErr_Format(PyExc_ValueError,
                         "fill_diagonal: all dimensions must be of equal length, when there are more than two: "
                         "dimension 0 has length %zd, "
                         "dimension %d has length %zd",
                         (Py_ssize_t)dims[0], i, (Py_ssize_t)dims[i]);
            goto finish;
        }
        length = dims[i] < length ? dims[i] : length;
    }
    PyArrayObject *z = native_alloc(out, nd, dims, PyArray_TYPE(x));
    if (z == NULL)
        goto finish;
    npy_intp item = PyArray_ITEMSIZE(z), step = 0;
    if (PyArray_IS_C_CONTIGUOUS(x))
        memcpy(PyArray_DATA(z), PyArray_DATA(x), (size_t)PyArray_NBYTES(x));
    else if (PyArray_CopyInto(z, x) < 0)
        goto finish;
    char *to = PyArray_BYTES(z);
    for (int i = 0; i < nd; ++i)
        step += PyArray_STRIDE(z, i);
    if (offset > 0) {
        npy_intp columns = offset < dims[1] ? dims[1] - (npy_intp)offset : 0;
        length = columns < dims[0] ? columns : dims[0];
        to += length > 0 ? (npy_intp)offset * item : 0;
    }
    else if (offset < 0) {
        npy_intp rows = offset > -dims[0] ? dims[0] + (npy_intp)offset : 0;
        length = rows < dims[1] ? rows : dims[1];
        to += length > 0 ? -(npy_intp)offset * PyArray_STRIDE(z, 0) : 0;
    }
    if (length > 0)
        strided_copy_row(item, length, to, step, PyArray_BYTES(value), 0);
    result = 0;
finish:
    Py_XDECREF(x);
    Py_XDECREF(value);
    return result;
}

/* ------------------------------------------------------------------ bartlett: number of points */

static int tng_bartlett(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    int64_t given;
    if (native_as_int64(in[0], &given) < 0)
        return -1;
    npy_intp points = given < 0 ? 0 : (npy_intp)given;
    PyArrayObject *z = native_alloc(out, 1, &points, NPY_FLOAT64);
    if (z == NULL)
        return -1;
    double *w = (double *)PyArray_DATA(z);
    if (points == 1)
        w[0] = 1;
    else
        for (npy_intp i = 0; i < points; ++i) {
            double n = (double)(2 * i - points + 1), rise = n / (double)(points - 1);
            w[i] = n <= 0 ? 1 + rise : 1 - rise;
        }
    return 0;
}

/* ------------------------------------------------------------------ unravel_index: (indices, dims) */

/* Check the lengths of axes, which must not be negative, and compute their product. Return 0, or -1 with an exception
 * set. */
static int read_lengths(PyArrayObject *dims, const char *who, int expected, int64_t *total)
{
    const int64_t *d = (const int64_t *)PyArray_DATA(dims);
    npy_intp n = PyArray_SIZE(dims);
    if (n != expected) {
        PyErr_Format(PyExc_ValueError, "%s: dims has %zd elements, expected %d", who, (Py_ssize_t)n, expected);
        return -1;
    }
    int64_t product = 1;
    int empty = 0;
    for (npy_intp k = 0; k < n; ++k) {
        if (d[k] < 0) {
            PyErr_Format(PyExc_ValueError, "%s: dims must not be negative, but dims[%zd] is %lld", who, (Py_ssize_t)k,
                         (long long)d[k]);
            return -1;
        }
        empty |= d[k] == 0;
    }
    for (npy_intp k = 0; k < n && !empty; ++k)
        if (__builtin_mul_overflow(product, d[k], &product)) {
            PyErr_Format(PyExc_ValueError, "%s: dims are too large: their product does not fit into an int64", who);
            return -1;
        }
    *total = empty ? 0 : product;
    return 0;
}

NATIVE_FUNCTION(unravel_index, fortran)
static int tng_unravel_index(int nin, int nout, PyObject **in, PyObject **out,
                             const struct unravel_index_params *params)
{
    PyArrayObject *x = as_integers(in[0]), *dims = x == NULL ? NULL : as_integers(in[1]);
    int64_t total;
    int result = -1;
    if (dims == NULL || read_lengths(dims, "unravel_index", nout, &total) < 0)
        goto finish;
    const int64_t *lengths = (const int64_t *)PyArray_DATA(dims), *index = (const int64_t *)PyArray_DATA(x);
    npy_intp n = PyArray_SIZE(x);
    for (npy_intp i = 0; i < n; ++i)
        if (index[i] < 0 || index[i] >= total) {
            PyErr_Format(PyExc_ValueError, "unravel_index: index %lld is out of bounds for an array with %lld elements",
                         (long long)index[i], (long long)total);
            goto finish;
        }
    int64_t *to[NPY_MAXDIMS];
    if (nout > NPY_MAXDIMS) {
        PyErr_Format(PyExc_ValueError, "unravel_index: %d dimensions are more than NumPy's maximum of %d", nout,
                     NPY_MAXDIMS);
        goto finish;
    }
    for (int k = 0; k < nout; ++k) {
        PyArrayObject *z = native_alloc(&out[k], PyArray_NDIM(x), PyArray_DIMS(x), NPY_INT64);
        if (z == NULL)
            goto finish;
        to[k] = (int64_t *)PyArray_DATA(z);
    }
    result = 0;
    /* Compute with 32-bit indices if possible, because their divisions are faster. */
#define UNRAVEL_AS(T)                                           \
    for (npy_intp i = 0; i < n; ++i) {                          \
        T rest = (T)index[i];                                   \
        for (int step = 0; step < nout; ++step) {               \
            int k = params->fortran ? step : nout - 1 - step;   \
            T length = (T)lengths[k], quotient = rest / length; \
            to[k][i] = (int64_t)(rest - quotient * length);     \
            rest = quotient;                                    \
        }                                                       \
    }
    if (total <= UINT32_MAX)
        UNRAVEL_AS(uint32_t)
    else
        UNRAVEL_AS(uint64_t)
finish:
    Py_XDECREF(x);
    Py_XDECREF(dims);
    return result;
}

/* ------------------------------------------------------------------ ravel_multi_index: (coordinates ..., dims)
 *
 * modes: one for each coordinate (0: raise, 1: wrap, 2: clip). */

#define BLOCK 1024 /* number of coordinates in a block, which stays in the cache while all axes are processed */

/* Return 1 if a coordinate is out of bounds. */
CLONES static int any_outside(npy_intp n, const int64_t *x, int64_t length)
{
    uint64_t bad = 0;
    for (npy_intp i = 0; i < n; ++i)
        bad |= (uint64_t)x[i] >= (uint64_t)length;
    return bad != 0;
}

/* to[i] += weight * x[i], where x[i] is wrapped first (mode 1) or clipped (mode 2). */
CLONES static void add_coordinates(npy_intp n, const int64_t *x, int64_t length, int mode, int64_t weight,
                                   int64_t *restrict to)
{
    if (mode == 0)
        for (npy_intp i = 0; i < n; ++i)
            to[i] += x[i] * weight;
    else if (mode == 1)
        for (npy_intp i = 0; i < n; ++i) {
            int64_t c = x[i];
            if ((uint64_t)c >= (uint64_t)length) {
                c %= length;
                c += c < 0 ? length : 0;
            }
            to[i] += c * weight;
        }
    else
        for (npy_intp i = 0; i < n; ++i)
            to[i] += (x[i] < 0 ? 0 : x[i] >= length ? length - 1 : x[i]) * weight;
}

NATIVE_FUNCTION(ravel_multi_index, fortran, n_modes, modes[])
static int tng_ravel_multi_index(int nin, int nout, PyObject **in, PyObject **out,
                                 const struct ravel_multi_index_params *params)
{
    int ndim = nin - 1, result = -1, nd = 0;
    PyArrayObject *dims = as_integers(in[ndim]), *x[NPY_MAXDIMS] = {NULL};
    int64_t total, weight = 1;
    if (params->n_modes != ndim) {
        PyErr_Format(PyExc_ValueError, "ravel_multi_index: got %lld modes for %d coordinates",
                     (long long)params->n_modes, ndim);
        goto finish;
    }
    if (ndim > NPY_MAXDIMS) {
        PyErr_Format(PyExc_ValueError, "ravel_multi_index: %d dimensions are more than NumPy's maximum of %d", ndim,
                     NPY_MAXDIMS);
        goto finish;
    }
    if (dims == NULL || read_lengths(dims, "ravel_multi_index", ndim, &total) < 0)
        goto finish;
    const int64_t *lengths = (const int64_t *)PyArray_DATA(dims);
    npy_intp shape[NPY_MAXDIMS];
    for (int k = 0; k < ndim; ++k) {
        if ((x[k] = as_integers(in[k])) == NULL)
            goto finish;
        nd = PyArray_NDIM(x[k]) > nd ? PyArray_NDIM(x[k]) : nd;
    }
    for (int i = 0; i < nd; ++i)
        shape[i] = 1;
    for (int k = 0; k < ndim; ++k)
        for (int i = 0, at = nd - PyArray_NDIM(x[k]); i < PyArray_NDIM(x[k]); ++i, ++at) {
            npy_intp dim = PyArray_DIM(x[k], i);
            if (dim != 1 && shape[at] != 1 && dim != shape[at]) {
                PyErr_Format(PyExc_ValueError,
                             "ravel_multi_index: the coordinates do not broadcast: the coordinates of axis %d have "
                             "length %zd in dimension %d, other "
                             "coordinates have length %zd",
                             k, (Py_ssize_t)dim, at, (Py_ssize_t)shape[at]);
                goto finish;
            }
            shape[at] = dim != 1 ? dim : shape[at];
        }
    PyArrayObject *z = native_alloc(out, nd, shape, NPY_INT64);
    if (z == NULL)
        goto finish;
    int64_t *to = (int64_t *)PyArray_DATA(z), weights[NPY_MAXDIMS];
    npy_intp n = PyArray_SIZE(z);
    for (int turn = 0; turn < ndim && n > 0; ++turn) {
        int k = params->fortran ? turn : ndim - 1 - turn;
        weights[k] = weight;
        weight *= lengths[k];
        if (lengths[k] == 0) {
            PyErr_Format(PyExc_ValueError, "ravel_multi_index: axis %d has length 0, so no coordinate is valid", k);
            goto finish;
        }
        /* Broadcast a coordinate array that has fewer elements than the result. */
        if (PyArray_SIZE(x[k]) != n) {
            PyArrayObject *wide = native_new(nd, shape, NPY_INT64, 0);
            if (wide == NULL || PyArray_CopyInto(wide, x[k]) < 0) {
                Py_XDECREF(wide);
                goto finish;
            }
            Py_SETREF(x[k], wide);
        }
    }
    for (npy_intp start = 0; start < n; start += BLOCK) {
        npy_intp length = n - start < BLOCK ? n - start : BLOCK;
        memset(to + start, 0, (size_t)length * sizeof *to);
        for (int k = 0; k < ndim; ++k) {
            const int64_t *c = (const int64_t *)PyArray_DATA(x[k]) + start;
            int mode = (int)params->modes[k];
            if (mode == 0 && any_outside(length, c, lengths[k])) {
                while (*c >= 0 && *c < lengths[k])
                    ++c;
                PyErr_Format(PyExc_ValueError,
                             "ravel_multi_index: coordinate %lld of axis %d is out of bounds for a length of %lld",
                             (long long)*c, k, (long long)lengths[k]);
                goto finish;
            }
            add_coordinates(length, c, lengths[k], mode, weights[k], to + start);
        }
    }
    result = 0;
finish:
    Py_XDECREF(dims);
    for (int k = 0; k < ndim && k < NPY_MAXDIMS; ++k)
        Py_XDECREF(x[k]);
    return result;
}

static const NativeEntry entries[] = {
    NATIVE_ENTRY(repeat),
    NATIVE_ENTRY(diff),
    {"fill_diagonal", tng_fill_diagonal},
    {"bartlett", tng_bartlett},
    NATIVE_ENTRY(unravel_index),
    NATIVE_ENTRY(ravel_multi_index),
    {NULL},
};
NATIVE_MODULE(rearrange, entries)
