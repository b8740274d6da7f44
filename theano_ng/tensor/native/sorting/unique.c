/* Native code of Unique and of bincount. gof/native.h explains native functions. */
#include "native.h"
#include "common/inc_code.h"
#include "sort_line.h"

/* ------------------------------------------------------------------ unique
 *
 * Input: x. Parameters: axis (-1: x is flattened); indices, inverse, counts: which outputs follow the values. */

typedef struct {
    npy_intp n, row;  /* number of slices (or elements), and bytes of a slice */
    const char *data; /* the slices, contiguous */
    int64_t *order;   /* the positions of the slices in sorted order */
    npy_uint8 *first; /* whether the i-th slice in sorted order differs from the previous slice */
} Slices;

/* Return the key of NaN, or 0 for dtypes without NaN. The key of NaN is never 0. */
static uint64_t nan_key(int type_num)
{
    return type_num == NPY_FLOAT16   ? UINT16_MAX
           : type_num == NPY_FLOAT32 ? UINT32_MAX
           : type_num == NPY_FLOAT64 ? UINT64_MAX
                                     : 0;
}

/* Apply NumPy's rules for NaN. If elements are compared, all NaNs are equal (for real numbers, their keys are equal
 * already). If rows are compared, a row with a NaN differs from every other row. */
static void settle_nans(Slices *s, const uint64_t *keys, npy_intp m, uint64_t nan, int paired, int elements)
{
    for (npy_intp i = 1; i < s->n; ++i) {
        const uint64_t *row = keys + s->order[i] * m;
        if (elements && paired)
            s->first[i] = s->first[i] && !(row[0] > 0 && keys[s->order[i - 1] * m] > 0);
        else if (!elements && !s->first[i])
            for (npy_intp c = 0; c < m; c += paired ? 3 : 1)
                s->first[i] |= paired ? row[c] > 0 : nan > 0 && row[c] == nan;
    }
}

/* Fill s->order and s->first. */
static int order_slices(Slices *s, PyArrayObject *x, npy_intp each, int elements)
{
    load_fn load = keys_loader(PyArray_TYPE(x));
    int parts = load == NULL ? 3 : 1, result = -1;
    npy_intp m = each * parts;
    if (PyArray_SIZE(x) > NPY_MAX_INTP / 64 / parts || s->n > NPY_MAX_INTP / 64) {
        PyErr_NoMemory();
        return -1;
    }
    PyArrayObject *keys_ = work_space(PyArray_SIZE(x) * parts, sizeof(uint64_t)),
                  *work_ = work_space(3 * s->n, sizeof(uint64_t));
    PyArrayObject *count_ = work_space(RADIX_COUNTERS, sizeof(npy_intp));
    if (keys_ != NULL && work_ != NULL && count_ != NULL) {
        uint64_t *keys = (uint64_t *)PyArray_DATA(keys_), *work = (uint64_t *)PyArray_DATA(work_);
        npy_intp *count = (npy_intp *)PyArray_DATA(count_);
        if (load != NULL)
            load(PyArray_DATA(x), PyArray_SIZE(x), 0, keys);
        else
            load_pairs(PyArray_BYTES(x), PyArray_SIZE(x), PyArray_ITEMSIZE(x), 0, keys);
        if (m == 1) {
            order_of_keys(keys, s->n, s->order, work, count);
            for (npy_intp i = 0; i < s->n; ++i)
                s->first[i] = i == 0 || keys[s->order[i]] != keys[s->order[i - 1]];
        }
        else
            order_of_rows(keys, s->n, m, s->order, s->first, work, count);
        if (!elements || parts == 3)
            settle_nans(s, keys, m, nan_key(PyArray_TYPE(x)), parts == 3, elements);
        result = 0;
    }
    Py_XDECREF(keys_);
    Py_XDECREF(work_);
    Py_XDECREF(count_);
    return result;
}

/* Keep the first of equal elements of a sorted line. starts[j]: position of the j-th kept element. Return the number of
 * kept elements. */
#define DEFINE_COMPACT(name, bits_t, number)                               \
    static npy_intp compact_##name(bits_t *z, npy_intp n, int64_t *starts) \
    {                                                                      \
        npy_intp kept = 0;                                                 \
        bits_t last = 0;                                                   \
        for (npy_intp i = 0; i < n; ++i) {                                 \
            bits_t element = z[i], key = key_##name(element);              \
            int fresh = i == 0 || key != last;                             \
            z[kept] = fresh ? element : z[kept];                           \
            if (starts != NULL)                                            \
                starts[kept] = fresh ? i : starts[kept];                   \
            kept += fresh;                                                 \
            last = key;                                                    \
        }                                                                  \
        return kept;                                                       \
    }
FOR_KEYED(DEFINE_COMPACT)

/* counts[j] = starts[j + 1] - starts[j] */
static int store_counts(PyObject **out, const int64_t *starts, npy_intp unique, npy_intp n)
{
    PyArrayObject *z = native_alloc(out, 1, &unique, NPY_INT64);
    if (z == NULL)
        return -1;
    int64_t *counts = (int64_t *)PyArray_DATA(z);
    for (npy_intp j = 0; j < unique; ++j)
        counts[j] = (j + 1 < unique ? starts[j + 1] : n) - starts[j];
    return 0;
}

/* Compute the unique values of x, which is real, by sorting. If `counts`, also count how often each value occurs. The
 * outputs `indices` and `inverse` are not computed. */
static int unique_values(PyArrayObject *x, PyObject **out, int counts)
{
    npy_intp n = PyArray_SIZE(x), item = PyArray_ITEMSIZE(x), unique = 0;
    PyArrayObject *line = work_space(n, item), *starts_ = counts ? work_space(n, sizeof(int64_t)) : NULL;
    int64_t *starts = starts_ == NULL ? NULL : (int64_t *)PyArray_DATA(starts_);
    int result = -1;
    Sorting s;
    if (make_sorting(&s, x, n, 1) < 0 || line == NULL || (counts && starts == NULL))
        goto finish;
    char *data = PyArray_BYTES(line);
    npy_intp pitch = n * item;
    if (n > 0 && sort_lines(&s, 1, PyArray_BYTES(x), pitch, &data, &pitch) < 0)
        goto finish;
#define COMPACT_AS(name, bits_t, number) \
    case number: unique = compact_##name((bits_t *)data, n, starts); break;
    switch (s.type_num) {
        FOR_KEYED(COMPACT_AS)
    }
#undef COMPACT_AS
    PyArrayObject *z = native_alloc(&out[0], 1, &unique, PyArray_TYPE(x));
    if (z == NULL)
        goto finish;
    memcpy(PyArray_DATA(z), data, (size_t)(unique * item));
    result = counts ? store_counts(&out[1], starts, unique, n) : 0;
finish:
    free_sorting(&s);
    Py_XDECREF(line);
    Py_XDECREF(starts_);
    return result;
}

/* Store the first slice of each group in *out, in sorted order. *out has the shape of x, with length `unique` along the
 * axis; if the axis is -1, *out is a vector of elements. */
static int store_slices(const Slices *s, PyArrayObject *x, int axis, npy_intp unique, PyObject **out)
{
    npy_intp dims[NPY_MAXDIMS] = {unique}, outer = 1, inner = PyArray_ITEMSIZE(x);
    int nd = 1;
    if (axis >= 0) {
        nd = PyArray_NDIM(x);
        memcpy(dims, PyArray_DIMS(x), nd * sizeof *dims);
        dims[axis] = unique;
        for (int i = 0; i < nd; ++i)
            *(i < axis ? &outer : &inner) *= i == axis ? 1 : dims[i];
    }
    PyArrayObject *z = native_alloc(out, nd, dims, PyArray_TYPE(x));
    if (z == NULL)
        return -1;
    char *to = PyArray_BYTES(z);
    npy_intp j = 0;
    for (npy_intp i = 0; i < s->n; ++i) {
        if (!s->first[i])
            continue;
        const char *from = s->data + s->order[i] * s->row;
        for (npy_intp o = 0; o < outer; ++o)
            memcpy(to + (o * unique + j) * inner, from + o * inner, (size_t)inner);
        ++j;
    }
    return 0;
}

NATIVE_FUNCTION(unique, indices, inverse, counts, axis)
static int tng_unique(int nin, int nout, PyObject **in, PyObject **out, const struct unique_params *params)
{
    const int indices = (int)params->indices, inverse = (int)params->inverse, counts = (int)params->counts,
              axis = (int)params->axis;
    PyArrayObject *given = (PyArrayObject *)in[0], *turned = NULL, *order = NULL, *first = NULL, *starts_ = NULL;
    int result = -1, at = 0;
    /* Move the axis to the front, so that slices are contiguous. */
    PyArrayObject *x = (PyArrayObject *)PyArray_FROM_OF(in[0], NPY_ARRAY_CARRAY_RO | NPY_ARRAY_NOTSWAPPED);
    if (x != NULL && axis > 0) {
        npy_intp permutation[NPY_MAXDIMS];
        PyArray_Dims axes = {permutation, PyArray_NDIM(x)};
        permutation[0] = axis;
        for (int i = 1; i < PyArray_NDIM(x); ++i)
            permutation[i] = i <= axis ? i - 1 : i;
        PyObject *view = PyArray_Transpose(x, &axes);
        turned = view == NULL ? NULL : (PyArrayObject *)PyArray_NewCopy((PyArrayObject *)view, NPY_CORDER);
        Py_XDECREF(view);
        Py_SETREF(x, turned);
    }
    if (x == NULL)
        return -1;
    if (axis < 0 && !indices && !inverse && keys_loader(PyArray_TYPE(x)) != NULL) {
        result = unique_values(x, out, counts);
        goto finish;
    }
    Slices s = {axis < 0 ? PyArray_SIZE(x) : PyArray_DIM(x, 0), 0, PyArray_BYTES(x), NULL, NULL};
    npy_intp each = 1;
    for (int i = 1; axis >= 0 && i < PyArray_NDIM(x); ++i)
        each *= PyArray_DIM(x, i);
    s.row = each * PyArray_ITEMSIZE(x);
    order = work_space(s.n, sizeof(int64_t));
    first = work_space(s.n, 1);
    if (order == NULL || first == NULL)
        goto finish;
    s.order = (int64_t *)PyArray_DATA(order);
    s.first = (npy_uint8 *)PyArray_DATA(first);
    if (order_slices(&s, x, each, axis < 0) < 0)
        goto finish;
    npy_intp unique = 0;
    for (npy_intp i = 0; i < s.n; ++i)
        unique += s.first[i];
    starts_ = work_space(unique, sizeof(int64_t));
    if (starts_ == NULL || store_slices(&s, axis < 0 ? x : given, axis, unique, &out[at++]) < 0)
        goto finish;
    int64_t *starts = (int64_t *)PyArray_DATA(starts_), *places = NULL, *which = NULL;
    if (indices) {
        PyArrayObject *z = native_alloc(&out[at++], 1, &unique, NPY_INT64);
        if (z == NULL)
            goto finish;
        places = (int64_t *)PyArray_DATA(z);
    }
    if (inverse) {
        PyArrayObject *z = native_alloc(&out[at++], 1, &s.n, NPY_INT64);
        if (z == NULL)
            goto finish;
        which = (int64_t *)PyArray_DATA(z);
    }
    npy_intp j = -1;
    for (npy_intp i = 0; i < s.n; ++i) {
        if (s.first[i]) {
            starts[++j] = i;
            if (places != NULL)
                places[j] = s.order[i];
        }
        if (which != NULL)
            which[s.order[i]] = j;
    }
    result = counts ? store_counts(&out[at], starts, unique, s.n) : 0;
finish:
    Py_XDECREF(x);
    Py_XDECREF(order);
    Py_XDECREF(first);
    Py_XDECREF(starts_);
    return result;
}

/* ------------------------------------------------------------------ bincount: (x, minlength[, weights]) */

#define CHUNK 1024
#define FEW_BINS 2048
#define MANY 16384

/* to[i] = x[i] as int64; a value that does not fit becomes negative. */
static void read_integers(const char *x, npy_intp stride, int type_num, npy_intp n, int64_t *to)
{
#define READ_AS(number, type)                                     \
    case number:                                                  \
        if (stride == sizeof(type))                               \
            for (npy_intp i = 0; i < n; ++i)                      \
                to[i] = (int64_t)((const type *)x)[i];            \
        else                                                      \
            for (npy_intp i = 0; i < n; ++i)                      \
                to[i] = (int64_t)*(const type *)(x + i * stride); \
        return;
    switch (keys_type(type_num)) {
        READ_AS(NPY_INT8, npy_int8)
        READ_AS(NPY_INT16, npy_int16)
        READ_AS(NPY_INT32, npy_int32)
        READ_AS(NPY_INT64, npy_int64)
        READ_AS(NPY_UINT8, npy_uint8)
        READ_AS(NPY_UINT16, npy_uint16)
        READ_AS(NPY_UINT32, npy_uint32)
        READ_AS(NPY_UINT64, npy_uint64)
    }
#undef READ_AS
}

/* Run BODY for every chunk: `chunk` has `length` integers, the elements from `start` on. */
#define FOR_CHUNKS(BODY)                                                                               \
    for (npy_intp start = 0; start < n; start += CHUNK) {                                              \
        npy_intp length = n - start < CHUNK ? n - start : CHUNK;                                       \
        const int64_t *chunk = copied;                                                                 \
        if (whole != NULL)                                                                             \
            chunk = whole + start;                                                                     \
        else                                                                                           \
            read_integers(PyArray_BYTES(x) + start * stride, stride, PyArray_TYPE(x), length, copied); \
        BODY                                                                                           \
    }

KEYS_CLONES static void bounds_of(const int64_t *x, npy_intp n, int64_t *low, int64_t *high)
{
    int64_t least = *low, most = *high;
    for (npy_intp i = 0; i < n; ++i) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    *low = least;
    *high = most;
}

/* Count many elements with at most FEW_BINS bins, in one pass. Return 0 after success, 1 if an element is outside these
 * bins, or -1 with an exception set. */
static int count_few(PyArrayObject *x, const int64_t *whole, npy_intp least, PyObject **out)
{
    /* Use four sets of counters, because increments of one counter wait for each other. */
    int64_t part[4][FEW_BINS] = {{0}}, copied[CHUNK], low = 0, high = -1;
    npy_intp n = PyArray_DIM(x, 0), stride = PyArray_STRIDE(x, 0);
    FOR_CHUNKS({
        bounds_of(chunk, length, &low, &high);
        if (low < 0 || high >= FEW_BINS)
            return 1;
        npy_intp i = 0;
        for (; i + 4 <= length; i += 4) {
            ++part[0][chunk[i]];
            ++part[1][chunk[i + 1]];
            ++part[2][chunk[i + 2]];
            ++part[3][chunk[i + 3]];
        }
        for (; i < length; ++i)
            ++part[0][chunk[i]];
    })
    npy_intp bins = (npy_intp)(high + 1 > least ? high + 1 : least);
    PyArrayObject *z = native_alloc(out, 1, &bins, NPY_INT64);
    if (z == NULL)
        return -1;
    int64_t *counts = (int64_t *)PyArray_DATA(z);
    for (npy_intp b = 0; b < bins; ++b)
        counts[b] = b < FEW_BINS ? part[0][b] + part[1][b] + part[2][b] + part[3][b] : 0;
    return 0;
}

static int tng_bincount(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *x = behaved(in[0]), *weights = NULL;
    int64_t copied[CHUNK], low = 0, high = -1, least;
    int result = -1;
    if (x == NULL || native_as_int64(in[1], &least) < 0)
        goto finish;
    if (least < 0) {
        PyErr_Format(PyExc_ValueError, "bincount: minlength must not be negative, got %lld", (long long)least);
        goto finish;
    }
    npy_intp n = PyArray_DIM(x, 0), stride = PyArray_STRIDE(x, 0);
    const int64_t *whole =
        keys_type(PyArray_TYPE(x)) == NPY_INT64 && stride == 8 ? (const int64_t *)PyArray_DATA(x) : NULL;
    if (nin > 2) {
        weights = behaved(in[2]);
        if (weights == NULL)
            goto finish;
        if (PyArray_DIM(weights, 0) != n) {
            PyErr_Format(PyExc_ValueError,
                         "bincount: the weights have length %zd, x has length %zd; they must be equal",
                         (Py_ssize_t)PyArray_DIM(weights, 0), (Py_ssize_t)n);
            goto finish;
        }
    }
    if (weights == NULL && n >= MANY && (result = count_few(x, whole, (npy_intp)least, out)) <= 0)
        goto finish;
    result = -1;
    FOR_CHUNKS(bounds_of(chunk, length, &low, &high);)
    if (low < 0) {
        PyErr_Format(PyExc_ValueError,
                     "bincount: x must not be negative, nor larger than an int64, but has an element %lld",
                     (long long)low);
        goto finish;
    }
    if (high == INT64_MAX) {
        PyErr_NoMemory();
        goto finish;
    }
    npy_intp bins = (npy_intp)(high + 1 > least ? high + 1 : least);
    PyArrayObject *z = native_alloc(out, 1, &bins, weights == NULL ? NPY_INT64 : PyArray_TYPE(weights));
    if (z == NULL)
        goto finish;
    memset(PyArray_DATA(z), 0, (size_t)(bins * PyArray_ITEMSIZE(z)));
    if (weights == NULL) {
        int64_t *counts = (int64_t *)PyArray_DATA(z);
        FOR_CHUNKS(for (npy_intp i = 0; i < length; ++i)++ counts[chunk[i]];)
        result = 0;
        goto finish;
    }
    const char *w = PyArray_BYTES(weights);
    npy_intp w_stride = PyArray_STRIDE(weights, 0), item = PyArray_ITEMSIZE(weights);
    char *sums = PyArray_BYTES(z);
#define WEIGHTS_AS(number, type)                                                    \
    case number:                                                                    \
        FOR_CHUNKS(for (npy_intp i = 0; i < length; ++i)((type *)sums)[chunk[i]] += \
                   *(const type *)(w + (start + i) * w_stride);)                    \
        break;
    switch (PyArray_TYPE(weights)) {
        WEIGHTS_AS(NPY_FLOAT32, float)
        WEIGHTS_AS(NPY_FLOAT64, double)
    default: {
        inc_row_fn add = inc_row_for(PyArray_DESCR(weights)->kind, (int)item);
        FOR_CHUNKS(for (npy_intp i = 0; i < length; ++i)
                       add(1, sums + chunk[i] * item, item, w + (start + i) * w_stride, item);)
    }
    }
#undef WEIGHTS_AS
    result = 0;
finish:
    Py_XDECREF(x);
    Py_XDECREF(weights);
    return result;
}

static const NativeEntry entries[] = {
    NATIVE_ENTRY(unique),
    {"bincount", tng_bincount},
    {NULL},
};
NATIVE_MODULE(unique, entries)
