/* Positions and values of the largest or smallest elements along any set of axes. */
#include "reduce_folds.h"

#define MAX_ND 32
#define BLOCK 16384 /* bytes of a block, which is searched again for the position of its extreme */
#define COLUMNS 512 /* adjacent groups that are searched together */
/* number of running extremes of a row that are computed in parallel; compilers keep them in registers */
#define LANES_OF(T) (sizeof(T) > 4 ? 32 : (int)(128 / sizeof(T)))

/* Tables of the bits 1 << k, for k from 0 to 31. */
#define FOUR(k) 1u << (k), 2u << (k), 4u << (k), 8u << (k)
#define EACH_BIT {FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28)}
static const uint32_t bits_32[32] = EACH_BIT;
static const uint64_t bits_64[32] = EACH_BIT;

/* Search a run of elements: find the extreme block by block, then its first position in the block. NaN is more extreme
 * than any number, and the first NaN is found. No element is more extreme than LAST, so the search for the extreme ends
 * at an element equal to LAST. Elements that are not contiguous are copied to a buffer. P: an integer of the size of T.
 * M: an integer of at least 32 bits, whose table is bits_##W. */
#define STRETCH(name, T, S, P, M, W, FOLD, BARE, BETTER, GATHER, LAST)                                          \
    static inline __attribute__((always_inline)) int64_t name##_first(const T *p, int64_t n, T best)            \
    {                                                                                                           \
        int64_t i = 0;                                                                                          \
        if (n < 32 || best != best) {                                                                           \
            while (i < n - 1 && p[i] != best && p[i] == p[i])                                                   \
                ++i;                                                                                            \
            return i;                                                                                           \
        }                                                                                                       \
        /* The last step may compare some elements again. This is harmless: they differ from `best`. */         \
        for (;; i = n - i >= 64 ? i + 32 : n - 32) {                                                            \
            M found = 0;                                                                                        \
            for (int k = 0; k < 32; ++k)                                                                        \
                found |= p[i + k] == best ? bits_##W[k] : 0;                                                    \
            if (found)                                                                                          \
                return i + __builtin_ctzll(found);                                                              \
        }                                                                                                       \
    }                                                                                                           \
    VECTORISED static int64_t name##_in_block(const T *p, int64_t n, T best)                                    \
    {                                                                                                           \
        return name##_first(p, n, best);                                                                        \
    }                                                                                                           \
    /* Find the extreme and its position in a contiguous run of at least LANES elements that fits the cache. */ \
    VECTORISED static int64_t name##_row(const T *p, int64_t n)                                                 \
    {                                                                                                           \
        enum { LANES = LANES_OF(T) };                                                                           \
        T lane[LANES];                                                                                          \
        P odd[LANES];                                                                                           \
        for (int l = 0; l < (int)LANES; ++l) {                                                                  \
            lane[l] = p[l];                                                                                     \
            odd[l] = p[l] != p[l];                                                                              \
        }                                                                                                       \
        for (int64_t i = LANES; i < n; i += LANES) {                                                            \
            const T *q = p + (i + LANES <= n ? i : n - LANES);                                                  \
            _Pragma("GCC ivdep") for (int l = 0; l < (int)LANES; ++l)                                           \
            {                                                                                                   \
                T b = q[l];                                                                                     \
                lane[l] = BARE(lane[l], b);                                                                     \
                odd[l] |= b != b;                                                                               \
            }                                                                                                   \
        }                                                                                                       \
        P any = 0;                                                                                              \
        for (int l = 0; l < (int)LANES; ++l)                                                                    \
            any |= odd[l];                                                                                      \
        _Pragma("GCC unroll 8") for (int half = LANES / 2; half > 0; half /= 2) for (int l = 0; l < half; ++l)  \
            lane[l] = BARE(lane[l], lane[l + half]);                                                            \
        return name##_first(p, n, any ? (T)((LAST) != (LAST) ? (LAST) : 0) : lane[0]);                          \
    }                                                                                                           \
    static int64_t name##_stretch(const char *x, int64_t n, int64_t stride)                                     \
    {                                                                                                           \
        enum { COUNT = BLOCK / sizeof(T) };                                                                     \
        T room[COUNT] __attribute__((aligned(64))), best = 0;                                                   \
        int64_t at = -1, held = -1;                                                                             \
        int direct = sizeof(T) == sizeof(S) && stride == (int64_t)sizeof(S);                                    \
        if (direct && n <= COUNT && n >= LANES_OF(T))                                                           \
            return name##_row((const T *)x, n);                                                                 \
        for (int64_t from = 0; from < n; from += COUNT) {                                                       \
            int64_t count = n - from < COUNT ? n - from : COUNT;                                                \
            const T *p = direct ? (const T *)(x + from * stride) : room;                                        \
            if (!direct)                                                                                        \
                GATHER(room, count, x + from * stride, stride);                                                 \
            held = from;                                                                                        \
            T value = p[0];                                                                                     \
            FOLD(count, (char *)&value, 0, (const char *)p, sizeof(T));                                         \
            if (at < 0 || BETTER(value, best) || value != value) {                                              \
                best = value;                                                                                   \
                at = from;                                                                                      \
                if (value != value || value == (T)(LAST))                                                       \
                    break;                                                                                      \
            }                                                                                                   \
        }                                                                                                       \
        int64_t count = n - at < COUNT ? n - at : COUNT;                                                        \
        const T *p = direct ? (const T *)(x + at * stride) : room;                                              \
        if (!direct && held != at)                                                                              \
            GATHER(room, count, x + at * stride, stride);                                                       \
        return at + name##_in_block(p, count, best);                                                            \
    }

#define DEFINE_GATHER(name, T)                                                               \
    VECTORISED static void name(T *restrict to, int64_t n, const char *from, int64_t stride) \
    {                                                                                        \
        if (stride == sizeof(T))                                                             \
            memcpy(to, from, (size_t)n * sizeof(T));                                         \
        else if (stride == 2 * sizeof(T))                                                    \
            for (int64_t i = 0; i < n; ++i)                                                  \
                to[i] = ((const T *)from)[2 * i];                                            \
        else                                                                                 \
            for (int64_t i = 0; i < n; ++i)                                                  \
                to[i] = *(const T *)(from + i * stride);                                     \
    }
#define GATHER_HALVES(to, n, from, stride) halves_as_floats(n, from, stride, to)

/* Search adjacent groups: element r of group i is at x + i * x_stride + r * row_stride. Positions are counted in P, an
 * integer of the size of T that can count LIMIT rows. */
#define SIDE_BY_SIDE(name, T, SAME_SIZE, P, LIMIT, BETTER, GATHER)                                                 \
    VECTORISED static void name##_step(int64_t n, const T *restrict p, T *restrict best, P *restrict place, P row) \
    {                                                                                                              \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i)                                                       \
        {                                                                                                          \
            T value = p[i], old = best[i];                                                                         \
            int better = (BETTER(value, old) | (value != value)) & (old == old);                                   \
            best[i] = better ? value : old;                                                                        \
            place[i] = better ? row : place[i];                                                                    \
        }                                                                                                          \
    }                                                                                                              \
    static void name##_columns(int64_t n, const char *x, int64_t x_stride, int64_t rows, int64_t row_stride,       \
                               int64_t *index)                                                                     \
    {                                                                                                              \
        T best[COLUMNS], room[COLUMNS];                                                                            \
        P place[COLUMNS];                                                                                          \
        GATHER(best, n, x, x_stride);                                                                              \
        memset(index, 0, (size_t)n * sizeof(int64_t));                                                             \
        for (int64_t from = 1; from < rows; from += LIMIT) {                                                       \
            int64_t end = rows - from < LIMIT ? rows : from + LIMIT;                                               \
            memset(place, 0, sizeof place);                                                                        \
            for (int64_t r = from; r < end; ++r) {                                                                 \
                const char *row = x + r * row_stride;                                                              \
                int direct = SAME_SIZE && x_stride == (int64_t)sizeof(T);                                          \
                if (!direct)                                                                                       \
                    GATHER(room, n, row, x_stride);                                                                \
                name##_step(n, direct ? (const T *)row : room, best, place, (P)(r - from + 1));                    \
            }                                                                                                      \
            for (int64_t i = 0; i < n; ++i)                                                                        \
                if (place[i] != 0)                                                                                 \
                    index[i] = from - 1 + (int64_t)place[i];                                                       \
        }                                                                                                          \
    }

#define MORE(a, b) ((a) > (b))
#define LESS(a, b) ((a) < (b))
#define BOTH_WAYS(suffix, T, S, P, M, W, LIMIT, GATHER, LEAST, MOST)                     \
    STRETCH(max_at_##suffix, T, S, P, M, W, max_##suffix, BARE_MAX, MORE, GATHER, MOST)  \
    STRETCH(min_at_##suffix, T, S, P, M, W, min_##suffix, BARE_MIN, LESS, GATHER, LEAST) \
    SIDE_BY_SIDE(max_at_##suffix, T, (sizeof(T) == sizeof(S)), P, LIMIT, MORE, GATHER)   \
    SIDE_BY_SIDE(min_at_##suffix, T, (sizeof(T) == sizeof(S)), P, LIMIT, LESS, GATHER)
#define PLACES(suffix, T, P, W, LIMIT, LEAST, MOST) \
    DEFINE_GATHER(gather_##suffix, T)               \
    BOTH_WAYS(suffix, T, T, P, uint##W##_t, W, LIMIT, gather_##suffix, LEAST, MOST)
PLACES(i8, int8_t, uint8_t, 32, 255, INT8_MIN, INT8_MAX)
PLACES(i16, int16_t, uint16_t, 32, 65535, INT16_MIN, INT16_MAX)
PLACES(i32, int32_t, uint32_t, 32, INT32_MAX, INT32_MIN, INT32_MAX)
PLACES(i64, int64_t, uint64_t, 64, INT32_MAX, INT64_MIN, INT64_MAX)
PLACES(u8, uint8_t, uint8_t, 32, 255, 0, UINT8_MAX)
PLACES(u16, uint16_t, uint16_t, 32, 65535, 0, UINT16_MAX)
PLACES(u32, uint32_t, uint32_t, 32, INT32_MAX, 0, UINT32_MAX)
PLACES(u64, uint64_t, uint64_t, 64, INT32_MAX, 0, UINT64_MAX)
PLACES(f32, float, uint32_t, 32, INT32_MAX, NAN, NAN)
PLACES(f64, double, uint64_t, 64, INT32_MAX, NAN, NAN)
#define max_half max_f32
#define min_half min_f32
BOTH_WAYS(half, float, uint16_t, uint32_t, uint32_t, 32, INT32_MAX, GATHER_HALVES, NAN, NAN)
#define max_bool max_u8
#define min_bool min_u8
BOTH_WAYS(bool, uint8_t, uint8_t, uint8_t, uint32_t, 32, 255, gather_u8, 0, 1)

typedef struct {
    int64_t (*stretch)(const char *x, int64_t n, int64_t stride);
    void (*columns)(int64_t n, const char *x, int64_t x_stride, int64_t rows, int64_t row_stride, int64_t *index);
} Find;

#define FIND(suffix)                                                                        \
    return smallest ? (Find){min_at_##suffix##_stretch, min_at_##suffix##_columns} : (Find) \
    {                                                                                       \
        max_at_##suffix##_stretch, max_at_##suffix##_columns                                \
    }
static Find find_find(int type, int smallest)
{
    switch (dtype_key(type)) {
    case KEY('i', 1): FIND(i8);
    case KEY('i', 2): FIND(i16);
    case KEY('i', 4): FIND(i32);
    case KEY('i', 8): FIND(i64);
    case KEY('b', 1): FIND(bool);
    case KEY('u', 1): FIND(u8);
    case KEY('u', 2): FIND(u16);
    case KEY('u', 4): FIND(u32);
    case KEY('u', 8): FIND(u64);
    case KEY('f', 2): FIND(half);
    case KEY('f', 4): FIND(f32);
    case KEY('f', 8): FIND(f64);
    default: return (Find){NULL};
    }
}

/* Find the position of the extreme of each group of elements, and its value if `values` is not NULL. The last dimension
 * of `rows` is reduced; the other dimensions are kept. */
static void find_all(const Find *find, PyArrayObject *rows, int64_t length, int64_t *index, char *values)
{
    int kept = PyArray_NDIM(rows) - 1, along = -1;
    int64_t stride = PyArray_STRIDE(rows, kept), item = PyArray_ITEMSIZE(rows), position[MAX_ND + 1] = {0}, count = 1;
    /* Short or interleaved groups are searched together, along the last kept dimension (`along`): their entries of
     * `index` are contiguous. */
    if (kept > 0) {
        int64_t width = PyArray_DIM(rows, kept - 1), step = llabs(PyArray_STRIDE(rows, kept - 1));
        if (width > 1 && (length < 16 || (width >= 16 && step < llabs(stride))))
            along = kept - 1;
    }
    for (int d = 0; d < (along < 0 ? kept : along); ++d)
        count *= PyArray_DIM(rows, d);
    const char *row = PyArray_BYTES(rows);
    for (int64_t i = 0; i < count; ++i) {
        if (along < 0) {
            *index = find->stretch(row, length, stride);
            if (values != NULL) {
                memcpy(values, row + *index * stride, (size_t)item);
                values += item;
            }
            ++index;
        }
        else {
            int64_t width = PyArray_DIM(rows, along), step = PyArray_STRIDE(rows, along);
            for (int64_t from = 0; from < width; from += COLUMNS) {
                int64_t n = width - from < COLUMNS ? width - from : COLUMNS;
                find->columns(n, row + from * step, step, length, stride, index);
                for (int64_t j = 0; j < n && values != NULL; ++j, values += item)
                    memcpy(values, row + (from + j) * step + index[j] * stride, (size_t)item);
                index += n;
            }
        }
        for (int d = (along < 0 ? kept : along) - 1; d >= 0; --d) {
            row += PyArray_STRIDE(rows, d);
            if (++position[d] < PyArray_DIM(rows, d))
                break;
            row -= PyArray_STRIDE(rows, d) * PyArray_DIM(rows, d);
            position[d] = 0;
        }
    }
}

/* Search along `axes` (bits) in C order, for the smallest elements if `smallest`, otherwise for the largest elements.
 * `best` and `place` are the output storages; `best` may be NULL. */
static int search(PyObject *input, PyObject **best, PyObject **place, int64_t axes, int smallest)
{
    PyArrayObject *x = (PyArrayObject *)input, *moved = NULL, *rows = NULL, *index, *values = NULL;
    int kept = 0, nd = PyArray_Check(input) ? PyArray_NDIM(x) : -1, status = -1;
    npy_intp order[MAX_ND], kept_dims[MAX_ND + 1];
    int64_t length = 1;
    if (nd < 0 || nd > MAX_ND) {
        PyErr_Format(PyExc_TypeError, "argmax: the input must be an ndarray of at most %d dimensions", MAX_ND);
        return -1;
    }
    /* Copy the array only if it is misaligned or byte-swapped. */
    x = (PyArrayObject *)PyArray_FromArray(x, PyArray_DescrFromType(PyArray_TYPE(x)),
                                           NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED);
    if (x == NULL)
        return -1;
    Find find = find_find(PyArray_TYPE(x), smallest);
    if (find.stretch == NULL) {
        PyErr_SetString(PyExc_TypeError, "argmax: C code supports only dtypes with an order");
        goto done;
    }
    for (int d = 0; d < nd; ++d)
        if (!(axes >> d & 1)) {
            kept_dims[kept] = PyArray_DIM(x, d);
            order[kept++] = d;
        }
    int at = kept, first = -1;
    for (int d = 0; d < nd; ++d)
        if (axes >> d & 1) {
            order[at++] = d;
            length *= PyArray_DIM(x, d);
            first = first < 0 && PyArray_DIM(x, d) == 0 ? d : first;
        }
    index = native_alloc(place, kept, kept_dims, NPY_INT64);
    if (index == NULL)
        goto done;
    if (best != NULL) {
        values = native_alloc(best, kept, kept_dims, PyArray_TYPE(x));
        if (values == NULL)
            goto done;
    }
    npy_intp count = PyArray_SIZE(index);
    if (first >= 0 && count > 0) {
        PyErr_Format(PyExc_ValueError,
                     "Max and argmax of an empty dimension have no value: the input has length 0 in dimension %d",
                     first);
        goto done;
    }
    if (count == 0) {
        status = 0;
        goto done;
    }
    PyArray_Dims permutation = {order, nd};
    moved = (PyArrayObject *)PyArray_Transpose(x, &permutation);
    if (moved == NULL)
        goto done;
    /* Reshape to the kept dimensions and one dimension that merges the reduced dimensions. NumPy copies the elements
     * only if the reduced dimensions cannot be walked with one stride. */
    kept_dims[kept] = (npy_intp)length;
    PyArray_Dims shape = {kept_dims, kept + 1};
    rows = (PyArrayObject *)PyArray_Newshape(moved, &shape, NPY_CORDER);
    if (rows == NULL)
        goto done;
    find_all(&find, rows, length, PyArray_DATA(index), values == NULL ? NULL : PyArray_BYTES(values));
    status = 0;
done:
    Py_XDECREF(rows);
    Py_XDECREF(moved);
    Py_DECREF(x);
    return status;
}

NATIVE_FUNCTION(max_and_argmax, axes)
static int tng_max_and_argmax(int nin, int nout, PyObject **in, PyObject **out,
                              const struct max_and_argmax_params *params)
{
    (void)nin;
    (void)nout;
    return search(in[0], &out[0], &out[1], params->axes, 0);
}

NATIVE_FUNCTION(argmax, axes, smallest)
static int tng_argmax(int nin, int nout, PyObject **in, PyObject **out, const struct argmax_params *params)
{
    (void)nin;
    (void)nout;
    return search(in[0], NULL, &out[0], params->axes, params->smallest != 0);
}

static const NativeEntry entries[] = {NATIVE_ENTRY(max_and_argmax), NATIVE_ENTRY(argmax), {NULL}};
NATIVE_MODULE(argmax, entries)
