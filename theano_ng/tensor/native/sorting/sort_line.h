/* Sorting of lines of any dtype: long lines by radix (radix.h), short lines by NumPy. */
#ifndef THEANO_NG_SORT_LINE_H
#define THEANO_NG_SORT_LINE_H

#include "lines.h"
#include "radix.h"

/* Return work space for one line, or NULL with an exception set. Large work space uses recycled memory. */
static PyArrayObject *work_space(npy_intp items, npy_intp item)
{
    if (items > NPY_MAX_INTP / item - 1) {
        PyErr_NoMemory();
        return NULL;
    }
    npy_intp bytes = items * item + 1;
    return native_new(1, &bytes, NPY_UINT8, 0);
}

static PyArrayObject *behaved(PyObject *value)
{
    if (PyArray_Check(value) && PyArray_ISBEHAVED_RO((PyArrayObject *)value)) {
        Py_INCREF(value);
        return (PyArrayObject *)value;
    }
    return (PyArrayObject *)PyArray_FROM_OF(value, NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED);
}

/* Wrap lines in an array without a copy, for NumPy's functions. */
static PyArrayObject *wrapped(int type_num, npy_intp rows, npy_intp n, npy_intp pitch, char *data, int writeable)
{
    npy_intp dims[2] = {rows, n};
    PyArray_Descr *dtype = PyArray_DescrFromType(type_num);
    if (dtype == NULL)
        return NULL;
    npy_intp strides[2] = {pitch, PyDataType_ELSIZE(dtype)};
    return (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, dtype, 2, dims, strides, data,
                                                 writeable ? NPY_ARRAY_WRITEABLE : 0, NULL);
}

/* ------------------------------------------------------------------ sorted positions */

/* Work space for the sorted positions of lines of n elements. */
typedef struct {
    npy_intp n, item;
    load_fn load; /* NULL for complex numbers */
    uint64_t *keys, *work;
    npy_uint8 *first; /* for complex numbers: see order_of_rows */
    npy_intp *count;
    PyArrayObject *memory[2];
} Ordering;

static Ordering new_ordering(PyArrayObject *x, npy_intp n)
{
    Ordering s = {.n = n, .item = PyArray_ITEMSIZE(x), .load = keys_loader(PyArray_TYPE(x))};
    return s;
}

/* Allocate the work space on the first call; free_ordering releases it. Return 0, or -1 with an exception set. */
static int make_room(Ordering *s)
{
    npy_intp n = s->n, words = s->load != NULL ? 2 : 7;
    if (s->keys != NULL)
        return 0;
    if (n > NPY_MAX_INTP / 64) {
        PyErr_NoMemory();
        return -1;
    }
    s->memory[0] = work_space(words * n, sizeof(uint64_t));
    s->memory[1] = work_space(RADIX_COUNTERS, sizeof *s->count);
    if (s->memory[0] == NULL || s->memory[1] == NULL)
        return -1;
    s->keys = (uint64_t *)PyArray_DATA(s->memory[0]);
    s->work = s->keys + (s->load != NULL ? 1 : 3) * n;
    s->first = s->load != NULL ? NULL : (npy_uint8 *)(s->work + 3 * n);
    s->count = (npy_intp *)PyArray_DATA(s->memory[1]);
    return 0;
}

static void free_ordering(Ordering *s)
{
    Py_CLEAR(s->memory[0]);
    Py_CLEAR(s->memory[1]);
}

/* Store the positions that sort a line, in a stable order. If all bits of `flip` are 1, the order is descending. */
static void order_line(Ordering *s, const char *x, uint64_t flip, int64_t *order)
{
    if (s->load != NULL) {
        s->load(x, s->n, flip, s->keys);
        order_of_keys(s->keys, s->n, order, s->work, s->count);
    }
    else {
        load_pairs(x, s->n, s->item, flip, s->keys);
        order_of_rows(s->keys, s->n, 3, order, s->first, s->work, s->count);
    }
}

/* ------------------------------------------------------------------ sorted elements */

/* NumPy sorts lines that are shorter than SHORT_LINE elements, because its sorting networks are faster for short lines.
 * The limit depends on the item size. NumPy's stable sorts use no networks, and have a separate limit,
 * SHORT_LINE_STABLE. Complex numbers have the limit SHORT_LINE_COMPLEX. */
#define SHORT_LINE(item) ((item) == 1 ? 128 : (item) == 2 ? 1000 : (item) == 4 ? 1500 : 600)
#define SHORT_LINE_STABLE 256
#define SHORT_LINE_COMPLEX 2000

typedef struct {
    int type_num, kind;
    npy_intp n;
    char *work;      /* memory for one line; NULL: NumPy sorts */
    npy_intp *count; /* RADIX_COUNTERS elements */
    Ordering by;     /* for complex numbers */
    int64_t *order;
    PyArrayObject *memory[2];
} Sorting;

/* Find the smallest and the largest key of a line. */
#define DEFINE_RANGE(name, bits_t, number)                                                       \
    KEYS_CLONES static void range_##name(const bits_t *x, npy_intp n, bits_t *low, bits_t *high) \
    {                                                                                            \
        bits_t least = (bits_t) ~(bits_t)0, most = 0;                                            \
        for (npy_intp i = 0; i < n; ++i) {                                                       \
            bits_t key = key_##name(x[i]);                                                       \
            least = key < least ? key : least;                                                   \
            most = key > most ? key : most;                                                      \
        }                                                                                        \
        *low = least;                                                                            \
        *high = most;                                                                            \
    }
FOR_KEYED(DEFINE_RANGE)

#define DEFINE_SORT(name, bits_t, number) DEFINE_RADIX(name, bits_t, key_##name)
FOR_KEYED(DEFINE_SORT)

/* If a line of floats has no NaN and no -0, simpler keys give the same order. They save time, because every pass
 * computes the keys again. */
#define DEFINE_ORDINARY(name, bits_t, number)                                                \
    static inline bits_t ordinary_key_##name(bits_t b)                                       \
    {                                                                                        \
        const int last = 8 * (int)sizeof b - 1;                                              \
        return (bits_t)(b ^ ((bits_t) - (bits_t)(b >> last) | (bits_t)((bits_t)1 << last))); \
    }                                                                                        \
    KEYS_CLONES static int ordinary_##name(const bits_t *x, npy_intp n)                      \
    {                                                                                        \
        bits_t odd = 0;                                                                      \
        for (npy_intp i = 0; i < n; ++i)                                                     \
            odd |= (bits_t)(ordinary_key_##name(x[i]) ^ key_##name(x[i]));                   \
        return odd == 0;                                                                     \
    }                                                                                        \
    DEFINE_RADIX(ordinary_##name, bits_t, ordinary_key_##name)
FOR_KEYED_FLOATS(DEFINE_ORDINARY)

/* Sort integers by counting. Equal integers are identical, so no element has to be moved. Return 1, or 0 if the range
 * of keys is too large. */
#define DEFINE_COUNTING(name, bits_t, number)                                                                    \
    static int counting_##name(const bits_t *x, npy_intp n, bits_t low, bits_t high, bits_t *z, npy_intp *count) \
    {                                                                                                            \
        uint64_t range = (uint64_t)(bits_t)(high - low);                                                         \
        if (range >= RADIX_COUNTERS || range > (uint64_t)n)                                                      \
            return 0;                                                                                            \
        memset(count, 0, (range + 1) * sizeof *count);                                                           \
        for (npy_intp i = 0; i < n; ++i)                                                                         \
            ++count[(bits_t)(key_##name(x[i]) - low)];                                                           \
        for (uint64_t v = 0; v <= range; ++v) {                                                                  \
            bits_t element = key_##name((bits_t)(low + v));                                                      \
            for (npy_intp left = count[v]; left > 0; --left)                                                     \
                *z++ = element;                                                                                  \
        }                                                                                                        \
        return 1;                                                                                                \
    }
FOR_KEYED_INTEGERS(DEFINE_COUNTING)

/* Sort x into z. The memory of x and of z does not overlap. */
static void sort_line(Sorting *s, const char *x_, char *z)
{
#define RANGE_OF(name, bits_t)            \
    const bits_t *x = (const bits_t *)x_; \
    bits_t low, high;                     \
    range_##name(x, s->n, &low, &high);
#define INTEGERS_AS(name, bits_t, number)                                               \
    case number: {                                                                      \
        RANGE_OF(name, bits_t)                                                          \
        if (!counting_##name(x, s->n, low, high, (bits_t *)z, s->count))                \
            radix_##name(x, s->n, low, high, (bits_t *)z, (bits_t *)s->work, s->count); \
        return;                                                                         \
    }
#define FLOATS_AS(name, bits_t, number)                                                                    \
    case number: {                                                                                         \
        RANGE_OF(name, bits_t)                                                                             \
        (ordinary_##name(x, s->n) ? radix_ordinary_##name : radix_##name)(x, s->n, low, high, (bits_t *)z, \
                                                                          (bits_t *)s->work, s->count);    \
        return;                                                                                            \
    }
    switch (s->type_num) {
        FOR_KEYED_INTEGERS(INTEGERS_AS)
        FOR_KEYED_FLOATS(FLOATS_AS)
    default:
        order_line(&s->by, x_, 0, s->order);
        for (npy_intp i = 0; i < s->n; ++i)
            if (s->by.item == 8)
                ((npy_uint64 *)z)[i] = ((const npy_uint64 *)x_)[s->order[i]];
            else
                ((npy_cdouble *)z)[i] = ((const npy_cdouble *)x_)[s->order[i]];
    }
#undef INTEGERS_AS
#undef FLOATS_AS
#undef RANGE_OF
}

/* Sort several lines: a lines_fn whose context is a Sorting. */
static int sort_lines(void *context, npy_intp rows, const char *in, npy_intp in_pitch, char *const *out,
                      const npy_intp *out_pitch)
{
    Sorting *s = context;
    if (s->work != NULL) {
        for (npy_intp r = 0; r < rows; ++r)
            sort_line(s, in + r * in_pitch, out[0] + r * out_pitch[0]);
        return 0;
    }
    PyArrayObject *lines = wrapped(s->type_num, rows, s->n, out_pitch[0], out[0], 1);
    if (lines == NULL)
        return -1;
    npy_intp bytes = s->n * PyArray_ITEMSIZE(lines);
    for (npy_intp r = 0; r < rows; ++r)
        memcpy(out[0] + r * out_pitch[0], in + r * in_pitch, (size_t)bytes);
    int result = PyArray_Sort(lines, 1, (NPY_SORTKIND)s->kind);
    Py_DECREF(lines);
    return result;
}

/* Decide how lines of n elements are sorted, and allocate the work space. `stable`: whether equal floats (-0 and 0,
 * NaNs) keep their order; for other dtypes `stable` makes no difference. The caller must call free_sorting, also after
 * an error. */
static int make_sorting(Sorting *s, PyArrayObject *x, npy_intp n, int stable)
{
    npy_intp item = PyArray_ITEMSIZE(x);
    *s = (Sorting){.type_num = keys_type(PyArray_TYPE(x)), .kind = NPY_STABLESORT, .n = n, .by = new_ordering(x, n)};
    int keyed = s->by.load != NULL;
    /* float16 always gets the stable sort: NumPy's quicksort of float16 fails on some NaNs. */
    if ((!stable && s->type_num != NPY_FLOAT16) || PyTypeNum_ISINTEGER(s->type_num))
        s->kind = NPY_QUICKSORT;
    if (n < (!keyed ? SHORT_LINE_COMPLEX : s->kind == NPY_QUICKSORT ? SHORT_LINE(item) : SHORT_LINE_STABLE))
        return 0;
    if (!keyed && make_room(&s->by) < 0)
        return -1;
    s->memory[0] = work_space(n, keyed ? item : (npy_intp)sizeof *s->order);
    s->memory[1] = work_space(keyed ? RADIX_COUNTERS : 0, sizeof *s->count);
    if (s->memory[0] == NULL || s->memory[1] == NULL)
        return -1;
    s->work = PyArray_BYTES(s->memory[0]);
    s->order = (int64_t *)PyArray_DATA(s->memory[0]);
    s->count = (npy_intp *)PyArray_DATA(s->memory[1]);
    return 0;
}

static void free_sorting(Sorting *s)
{
    Py_CLEAR(s->memory[0]);
    Py_CLEAR(s->memory[1]);
    free_ordering(&s->by);
}

#endif
