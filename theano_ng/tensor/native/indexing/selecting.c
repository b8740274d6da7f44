/* Native code of the Ops that select elements: nonzero (positions of nonzero elements) and choose (elements of several
 * arrays by number). */
#include "native.h"

/* Number of elements that are handled together: their intermediate results stay in the first-level cache. */
#define CHUNK 1024

/* ---------------------------------------------------------------- nonzero: one output per dimension */

/* Write the positions (counted from `first`) of the nonzero elements among n <= CHUNK elements. The function may also
 * write one element beyond these positions. Return the number of nonzero elements. */
typedef npy_intp (*places_fn)(const char *data, npy_intp step, npy_intp n, npy_int64 first, npy_int64 *place);

#define DEFINE_PLACES(NAME, T, IS_NONZERO)                                                               \
    static npy_intp NAME(const char *data, npy_intp step, npy_intp n, npy_int64 first, npy_int64 *place) \
    {                                                                                                    \
        typedef T __attribute__((aligned(1), may_alias)) item;                                           \
        npy_intp count = 0;                                                                              \
        for (npy_intp i = 0; i < n; ++i) {                                                               \
            const item *x = (const item *)(data + i * step);                                             \
            place[count] = first + i;                                                                    \
            count += IS_NONZERO;                                                                         \
        }                                                                                                \
        return count;                                                                                    \
    }
DEFINE_PLACES(places_1, npy_uint8, x[0] != 0)
DEFINE_PLACES(places_2, npy_uint16, x[0] != 0)
DEFINE_PLACES(places_4, npy_uint32, x[0] != 0)
DEFINE_PLACES(places_8, npy_uint64, x[0] != 0)
DEFINE_PLACES(places_f2, npy_uint16, (x[0] & 0x7fff) != 0)
DEFINE_PLACES(places_f4, npy_float32, x[0] != 0)
DEFINE_PLACES(places_f8, npy_float64, x[0] != 0)
DEFINE_PLACES(places_c8, npy_float32, (x[0] != 0) | (x[1] != 0))
DEFINE_PLACES(places_c16, npy_float64, (x[0] != 0) | (x[1] != 0))

static places_fn places_of(PyArrayObject *x)
{
    npy_intp size = PyArray_ITEMSIZE(x);
    switch (PyArray_DESCR(x)->kind) {
    case 'b':
    case 'i':
    case 'u': return size == 1 ? places_1 : size == 2 ? places_2 : size == 4 ? places_4 : places_8;
    case 'f': return size == 2 ? places_f2 : size == 4 ? places_f4 : size == 8 ? places_f8 : NULL;
    case 'c': return size == 8 ? places_c8 : size == 16 ? places_c16 : NULL;
    default: return NULL;
    }
}

/* Write the positions of the true elements among n bytes; groups of 8 false bytes are skipped. */
static npy_intp places_of_bytes(const char *data, npy_intp n, npy_int64 first, npy_int64 *place)
{
    npy_intp count = 0, i = 0;
    for (; i + 8 <= n; i += 8) {
        npy_uint64 word;
        memcpy(&word, data + i, 8);
        if (word == 0x0101010101010101u) {
            for (int k = 0; k < 8; ++k)
                place[count + k] = first + i + k;
            count += 8;
        }
        else if (word != 0)
            count += places_1(data + i, 1, 8, first + i, place + count);
    }
    return count + places_1(data + i, 1, n - i, first + i, place + count);
}

static int tng_nonzero(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *x = (PyArrayObject *)PyArray_FROM_OF(in[0], NPY_ARRAY_NOTSWAPPED);
    if (x == NULL)
        return -1;
    int nd = PyArray_NDIM(x), last = nd - 1, status = -1;
    places_fn places = places_of(x);
    npy_intp count = PyArray_CountNonzero(x), at[NPY_MAXDIMS], filled = 0;
    npy_int64 place[CHUNK + 1], *column[NPY_MAXDIMS];
    if (count < 0)
        goto done;
    if (nd != nout || nd == 0 || places == NULL) {
        PyErr_Format(PyExc_ValueError,
                     "nonzero: expected an array of %d dimensions (1 or more) of numbers, not one of %d of dtype %R",
                     nout, nd, PyArray_DESCR(x));
        goto done;
    }
    for (int k = 0; k < nd; ++k) {
        PyArrayObject *z = native_alloc(&out[k], 1, &count, NPY_INT64);
        if (z == NULL)
            goto done;
        column[k] = PyArray_DATA(z);
        at[k] = 0;
    }
    status = 0;
    const char *row = PyArray_BYTES(x);
    npy_intp length = PyArray_DIM(x, last), step = PyArray_STRIDE(x, last);
    int bytes = step == 1 && PyArray_ITEMSIZE(x) == 1;
    while (filled < count) {
        npy_intp before = filled;
        for (npy_intp i = 0; i < length && filled < count; i += CHUNK) {
            npy_intp n = length - i < CHUNK ? length - i : CHUNK;
            /* The functions may write one position beyond the end, so the last positions go through a buffer. */
            npy_int64 *to = count - filled > n ? column[last] + filled : place;
            npy_intp found = bytes ? places_of_bytes(row + i, n, i, to) : places(row + i * step, step, n, i, to);
            if (to == place)
                memcpy(column[last] + filled, place, (size_t)found * sizeof *place);
            filled += found;
        }
        for (int k = 0; k < last; ++k)
            for (npy_intp i = before; i < filled; ++i)
                column[k][i] = at[k];
        for (int k = last - 1; k >= 0; --k) {
            row += PyArray_STRIDE(x, k);
            if (++at[k] < PyArray_DIM(x, k))
                break;
            row -= PyArray_STRIDE(x, k) * PyArray_DIM(x, k);
            at[k] = 0;
        }
    }
done:
    Py_DECREF(x);
    return status;
}

/* ---------------------------------------------------------------- choose
 *
 * Inputs: the numbers; then either the choices, or one array whose first dimension lists the choices. */
enum { MODE_RAISE, MODE_WRAP, MODE_CLIP };

/* Read the numbers of n <= CHUNK choices, and bring them into the range 0 .. many - 1 according to `mode`. Return the
 * position of a number that is out of range, or -1. */
typedef npy_intp (*numbers_fn)(const char *data, npy_intp step, npy_intp n, npy_int64 many, int mode, npy_intp *number);

#define DEFINE_NUMBERS(NAME, T, WIDE)                                                                             \
    static npy_intp NAME(const char *data, npy_intp step, npy_intp n, npy_int64 many, int mode, npy_intp *number) \
    {                                                                                                             \
        npy_uint64 bad = 0;                                                                                       \
        for (npy_intp i = 0; i < n; ++i) {                                                                        \
            number[i] = (npy_intp) * (const T *)(data + i * step);                                                \
            bad |= (npy_uint64)number[i] >= (npy_uint64)many;                                                     \
        }                                                                                                         \
        for (npy_intp i = 0; bad && i < n; ++i) {                                                                 \
            const WIDE raw = *(const T *)(data + i * step);                                                       \
            if ((npy_uint64)raw < (npy_uint64)many)                                                               \
                continue;                                                                                         \
            if (mode == MODE_RAISE)                                                                               \
                return i;                                                                                         \
            if (mode == MODE_CLIP)                                                                                \
                number[i] = raw < (WIDE)1 ? 0 : many - 1;                                                         \
            else {                                                                                                \
                WIDE left = raw % (WIDE)many;                                                                     \
                number[i] = (npy_intp)(left < (WIDE)0 ? left + (WIDE)many : left);                                \
            }                                                                                                     \
        }                                                                                                         \
        return -1;                                                                                                \
    }
DEFINE_NUMBERS(numbers_int8, npy_int8, npy_int64)
DEFINE_NUMBERS(numbers_int16, npy_int16, npy_int64)
DEFINE_NUMBERS(numbers_int32, npy_int32, npy_int64)
DEFINE_NUMBERS(numbers_int64, npy_int64, npy_int64)
DEFINE_NUMBERS(numbers_uint8, npy_uint8, npy_uint64)
DEFINE_NUMBERS(numbers_uint16, npy_uint16, npy_uint64)
DEFINE_NUMBERS(numbers_uint32, npy_uint32, npy_uint64)
DEFINE_NUMBERS(numbers_uint64, npy_uint64, npy_uint64)

static numbers_fn numbers_of(PyArrayObject *a)
{
    static const numbers_fn with_sign[] = {numbers_int8, numbers_int16, numbers_int32, numbers_int64};
    static const numbers_fn without[] = {numbers_uint8, numbers_uint16, numbers_uint32, numbers_uint64};
    npy_intp size = PyArray_ITEMSIZE(a);
    int place = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
    return PyTypeNum_ISSIGNED(PyArray_TYPE(a)) ? with_sign[place] : without[place];
}

/* Copy n elements; element i comes from choice c = number[i], from the address at[c] + i * step[c]. */
#define DEFINE_CHOOSE(NAME, SIZE)                                                                                   \
    static void NAME(npy_intp n, const npy_intp *number, char *const *at, const npy_intp *step, npy_intp skipped,   \
                     char *z)                                                                                       \
    {                                                                                                               \
        for (npy_intp i = 0; i < n; ++i)                                                                            \
            memcpy(z + i * SIZE, at[number[i]] + (skipped + i) * step[number[i]], SIZE);                            \
    }                                                                                                               \
    static void NAME##_of_list(npy_intp n, const npy_intp *number, const char *list, npy_intp apart, npy_intp step, \
                               char *z)                                                                             \
    {                                                                                                               \
        for (npy_intp i = 0; i < n; ++i)                                                                            \
            memcpy(z + i * SIZE, list + number[i] * apart + i * step, SIZE);                                        \
    }
DEFINE_CHOOSE(choose_1, 1)
DEFINE_CHOOSE(choose_2, 2)
DEFINE_CHOOSE(choose_4, 4)
DEFINE_CHOOSE(choose_8, 8)
DEFINE_CHOOSE(choose_16, 16)

/* Broadcast the shape of a choice into `dim`. If `skip`, the first dimension of x lists the choices and is left out. */
static int broadcast_into(int *nd, npy_intp *dim, PyArrayObject *x, int skip)
{
    int own = PyArray_NDIM(x) - skip;
    if (own > *nd) {
        memmove(dim + (own - *nd), dim, (size_t)*nd * sizeof *dim);
        for (int k = 0; k < own - *nd; ++k)
            dim[k] = 1;
        *nd = own;
    }
    for (int k = 0; k < own; ++k) {
        npy_intp length = PyArray_DIM(x, k + skip), *joint = &dim[*nd - own + k];
        if (length != 1 && *joint != 1 && length != *joint) {
            PyErr_Format(PyExc_ValueError,
                         "choose: the shapes of the indices and the choices do not broadcast together (lengths %zd and "
                         "%zd in dimension "
                         "%d)",
                         (Py_ssize_t)*joint, (Py_ssize_t)length, *nd - own + k);
            return -1;
        }
        if (length != 1)
            *joint = length;
    }
    return 0;
}

/* Return the stride of an operand in dimension k of the result. */
static npy_intp stride_in(PyArrayObject *x, int skip, int nd, int k)
{
    int own = k - (nd - (PyArray_NDIM(x) - skip)) + skip;
    return own < skip || PyArray_DIM(x, own) == 1 ? 0 : PyArray_STRIDE(x, own);
}

enum { DIMS = NPY_MAXDIMS + 1 };

/* The operands: the numbers, then the choices. */
typedef struct {
    /* listed: there is a single array of choices; its first dimension is not part of the shapes below */
    int count, listed, nd;
    PyArrayObject **array;
    char **at;               /* current address in each operand */
    npy_intp *stride, *step; /* stride: [count][DIMS] in each dimension of the result; step: in the last dimension */
    npy_intp dim[DIMS];
} Operands;

static void close_operands(Operands *o)
{
    for (int i = 0; o->array != NULL && i < o->count; ++i)
        Py_XDECREF(o->array[i]);
    PyMem_Free(o->array);
    PyMem_Free(o->at);
    PyMem_Free(o->stride);
    PyMem_Free(o->step);
}

/* Store the inputs, with the choices as arrays of type `type`, and compute the shape of the result. Return 0, or -1
 * with an exception set. The caller must call close_operands in both cases. */
static int open_operands(Operands *o, int nin, PyObject **in, int type)
{
    size_t count = (size_t)nin;
    memset(o, 0, sizeof *o);
    o->count = nin;
    o->listed = nin == 2;
    o->array = PyMem_Calloc(count, sizeof *o->array);
    o->at = PyMem_Calloc(count, sizeof *o->at);
    o->stride = PyMem_Calloc(count * DIMS, sizeof *o->stride);
    o->step = PyMem_Calloc(count, sizeof *o->step);
    if (o->array == NULL || o->at == NULL || o->stride == NULL || o->step == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < nin; ++i) {
        PyArrayObject *given = (PyArrayObject *)PyArray_FROM_O(in[i]);
        if (given == NULL)
            return -1;
        PyArray_Descr *descr = PyArray_DescrFromType(i == 0 ? PyArray_TYPE(given) : type);
        o->array[i] = descr == NULL ? NULL
                                    : (PyArrayObject *)PyArray_FromArray(
                                          given, descr, NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED | NPY_ARRAY_FORCECAST);
        Py_DECREF(given);
        if (o->array[i] == NULL || broadcast_into(&o->nd, o->dim, o->array[i], o->listed && i == 1) < 0)
            return -1;
        o->at[i] = PyArray_BYTES(o->array[i]);
    }
    return 0;
}

/* Merge dimensions that are adjacent in all operands; the result is contiguous. */
static void join_dimensions(Operands *o)
{
    int kept = 0;
    for (int k = 0; k < o->nd; ++k) {
        int joins = kept > 0;
        npy_intp length = o->dim[k];
        if (length == 1)
            continue;
        for (int i = 0; i < o->count; ++i) {
            npy_intp *own = o->stride + (npy_intp)i * DIMS;
            own[kept] = stride_in(o->array[i], o->listed && i == 1, o->nd, k);
            joins = joins && own[kept - 1] == own[kept] * length;
        }
        if (joins) {
            o->dim[kept - 1] *= length;
            for (int i = 0; i < o->count; ++i)
                o->stride[(npy_intp)i * DIMS + kept - 1] = o->stride[(npy_intp)i * DIMS + kept];
        }
        else
            o->dim[kept++] = length;
    }
    o->nd = kept;
    for (int i = 0; i < o->count; ++i)
        o->step[i] = kept > 0 ? o->stride[(npy_intp)i * DIMS + kept - 1] : 0;
}

/* Advance to the next line of the last dimension. Return 0 after the last line. */
static int next_line(Operands *o, npy_intp *place)
{
    for (int k = o->nd - 2; k >= 0; --k) {
        int on = ++place[k] < o->dim[k];
        for (int i = 0; i < o->count; ++i) {
            npy_intp stride = o->stride[(npy_intp)i * DIMS + k];
            o->at[i] += on ? stride : -stride * (o->dim[k] - 1);
        }
        if (on)
            return 1;
        place[k] = 0;
    }
    return 0;
}

/* Copy the elements i .. i + n - 1 of a line, each from the choice with its number. */
static void choose_items(const Operands *o, npy_intp i, npy_intp n, const npy_intp *number, npy_intp size, char *to)
{
#define CHOOSE(NAME)                                                                                          \
    if (o->listed)                                                                                            \
        NAME##_of_list(n, number, o->at[1] + i * o->step[1], PyArray_STRIDE(o->array[1], 0), o->step[1], to); \
    else                                                                                                      \
        NAME(n, number, o->at + 1, o->step + 1, i, to);                                                       \
    break
    switch (size) {
    case 1: CHOOSE(choose_1);
    case 2: CHOOSE(choose_2);
    case 4: CHOOSE(choose_4);
    case 8: CHOOSE(choose_8);
    default: CHOOSE(choose_16);
    }
#undef CHOOSE
}

/* Compute the whole result, which is not empty. Return 0, or -1 with an exception set. */
static int choose_all(Operands *o, int mode, PyArrayObject *z)
{
    npy_intp number[CHUNK], place[DIMS] = {0}, size = PyArray_ITEMSIZE(z);
    npy_int64 many = o->listed ? PyArray_DIM(o->array[1], 0) : o->count - 1;
    if (many == 0) {
        PyErr_SetString(PyExc_ValueError, "choose: there are no choices");
        return -1;
    }
    join_dimensions(o);
    npy_intp length = o->nd > 0 ? o->dim[o->nd - 1] : 1;
    numbers_fn read = numbers_of(o->array[0]);
    char *to = PyArray_BYTES(z);
    do {
        for (npy_intp i = 0; i < length; i += CHUNK) {
            npy_intp n = length - i < CHUNK ? length - i : CHUNK;
            npy_intp wrong = read(o->at[0] + i * o->step[0], o->step[0], n, many, mode, number);
            if (wrong >= 0) {
                PyErr_Format(
                    PyExc_ValueError,
                    "choose: index %zd is outside of [0, %zd]; mode='wrap' and mode='clip' accept such an index",
                    (Py_ssize_t)number[wrong], (Py_ssize_t)(many - 1));
                return -1;
            }
            choose_items(o, i, n, number, size, to);
            to += n * size;
        }
    } while (next_line(o, place));
    return 0;
}

NATIVE_FUNCTION(choose, mode, type_number)
static int tng_choose(int nin, int nout, PyObject **in, PyObject **out, const struct choose_params *params)
{
    Operands o;
    int status = open_operands(&o, nin, in, (int)params->type_number);
    if (status == 0) {
        PyArrayObject *z = native_alloc(out, o.nd, o.dim, (int)params->type_number);
        status = z == NULL ? -1 : PyArray_SIZE(z) == 0 ? 0 : choose_all(&o, (int)params->mode, z);
    }
    close_operands(&o);
    return status;
}

static const NativeEntry entries[] = {
    {"nonzero", tng_nonzero},
    NATIVE_ENTRY(choose),
    {NULL},
};
NATIVE_MODULE(selecting, entries)
