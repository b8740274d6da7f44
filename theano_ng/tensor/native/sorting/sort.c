/* Native code of sort, argsort and topk.
 *
 * Long lines are sorted by radix on order-preserving keys (sort_keys.h, radix.h, sort_line.h). The radix sort is stable
 * for all kinds, and orders NaN like NumPy. `sort` lets NumPy sort short lines; equal floats then keep their order only
 * if the kind is stable. A comment at each native function describes the function. gof/native.h explains native
 * functions. */
#include "native.h"
#include "sort_axis.h"
#include "sort_line.h"

/* ------------------------------------------------------------------ sort: (x, axis) */

NATIVE_FUNCTION(sort, stable)
static int tng_sort(int nin, int nout, PyObject **in, PyObject **out, const struct sort_params *params)
{
    PyArrayObject *x = behaved(in[0]);
    int axis, result = -1;
    if (x == NULL || read_axis(in[1], PyArray_NDIM(x), &axis) < 0) {
        Py_XDECREF(x);
        return -1;
    }
    PyArrayObject *z = native_alloc(out, PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x));
    if (z != NULL) {
        Sorting s;
        if (make_sorting(&s, x, PyArray_DIM(x, axis), (int)params->stable) == 0)
            result = lines_run(x, axis, 1, &z, sort_lines, &s);
        free_sorting(&s);
    }
    Py_DECREF(x);
    return result;
}

/* ------------------------------------------------------------------ argsort: (x, axis) */

static int order_lines(void *context, npy_intp rows, const char *in, npy_intp in_pitch, char *const *out,
                       const npy_intp *out_pitch)
{
    for (npy_intp r = 0; r < rows; ++r)
        order_line(context, in + r * in_pitch, 0, (int64_t *)(out[0] + r * out_pitch[0]));
    return 0;
}

static int tng_argsort(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *x = behaved(in[0]);
    int axis, result = -1;
    if (x == NULL || read_axis(in[1], PyArray_NDIM(x), &axis) < 0) {
        Py_XDECREF(x);
        return -1;
    }
    PyArrayObject *z = native_alloc(out, PyArray_NDIM(x), PyArray_DIMS(x), NPY_INT64);
    if (z != NULL) {
        Ordering s = new_ordering(x, PyArray_DIM(x, axis));
        if (make_room(&s) == 0)
            result = lines_run(x, axis, 1, &z, order_lines, &s);
        free_ordering(&s);
    }
    Py_DECREF(x);
    return result;
}

/* ------------------------------------------------------------------ topk: (x, k); outputs: values, indices, or both */

#define FEW_BEST 192 /* largest k for choose_few: its pool has up to 2 * k + 64 elements, at most FEW_KEYED */
#define FEW_INSERTED 24
#define STRETCH 256 /* elements that are compared at once with the k-th best element so far */

typedef struct {
    Ordering by; /* work space for lines of n elements */
    npy_intp k;
    uint64_t flip;
    int sorted, values, indices, index_type;
    int64_t *chosen, *order; /* k words each; for complex numbers, `order` has n words */
    uint64_t *best;          /* k keys, and k words of work space */
} Choice;

/* Choose the k best elements of a line in one scan. Add an element to a pool (`best`) only if it is better than the
 * limit: the k-th best element when the pool was last sorted. Return 0 if so many elements are added that the scan is
 * slow (for example if each element of the line is better than the previous element). */
static int choose_few(const Choice *c, const char *x)
{
    Keyed best[FEW_KEYED], other[FEW_KEYED];
    uint64_t keys[STRETCH];
    npy_intp n = c->by.n, k = c->k, count = 0, hits = 0;
    /* Each insertion keeps a very small pool sorted. A larger pool is sorted when it is full, or at the end. */
    const npy_intp room = k <= FEW_INSERTED ? k : 2 * k + 64;
    uint64_t limit = UINT64_MAX;
    int full = 0;
    for (npy_intp start = 0; start < n; start += STRETCH) {
        npy_intp length = n - start < STRETCH ? n - start : STRETCH;
        c->by.load(x + start * c->by.item, length, c->flip, keys);
        if (full && !keys_any_below(keys, length, limit))
            continue;
        for (npy_intp i = 0; i < length; ++i) {
            if (full && keys[i] >= limit)
                continue;
            ++hits;
            if (room == k) {
                npy_intp j = full ? k - 1 : count++;
                for (; j > 0 && best[j - 1].key > keys[i]; --j)
                    best[j] = best[j - 1];
                best[j] = (Keyed){keys[i], start + i};
                full = count == k;
                limit = best[count - 1].key;
                continue;
            }
            best[count++] = (Keyed){keys[i], start + i};
            if (count == room) {
                sort_few(best, other, count);
                count = k;
                limit = best[k - 1].key;
                full = 1;
            }
        }
        if (hits > 16 * room + 256 + start / 16)
            return 0;
    }
    if (room != k)
        sort_few(best, other, count);
    if (!c->sorted) {
        for (npy_intp i = 0; i < k; ++i)
            best[i].key = (uint64_t)best[i].at;
        sort_few(best, other, k);
    }
    for (npy_intp i = 0; i < k; ++i)
        c->chosen[i] = best[i].at;
    return 1;
}

/* Choose the k best elements of a line, for any k. */
static void choose_many(const Choice *c, const char *x)
{
    npy_intp n = c->by.n, k = c->k, found = 0, below = 0;
    uint64_t *keys = c->by.keys, limit = 0;
    c->by.load(x, n, c->flip, keys);
    if (k < n) {
        limit = select_key(keys, n, k, &below, c->by.work, c->by.count);
        npy_intp equal = k - below;
        /* No branches: each i is written to chosen[found]. The next i overwrites it if it was not chosen. */
        for (npy_intp i = 0; found < k; ++i) {
            int tie = (keys[i] == limit) & (equal > 0);
            c->chosen[found] = i;
            found += (keys[i] < limit) | tie;
            equal -= tie;
        }
    }
    else
        for (npy_intp i = 0; i < n; ++i)
            c->chosen[i] = i;
    if (!c->sorted)
        return;
    for (npy_intp i = 0; i < k; ++i)
        c->best[i] = keys[c->chosen[i]];
    order_of_keys(c->best, k, c->order, c->best + k, c->by.count);
    for (npy_intp i = 0; i < k; ++i)
        c->order[i] = c->chosen[c->order[i]];
    memcpy(c->chosen, c->order, (size_t)k * sizeof *c->chosen);
}

/* Choose the k best complex numbers, by sorting all numbers. */
static void choose_pairs(Choice *c, const char *x)
{
    order_line(&c->by, x, c->flip, c->order);
    memcpy(c->chosen, c->order, (size_t)c->k * sizeof *c->chosen);
    if (c->sorted)
        return;
    for (npy_intp i = 0; i < c->k; ++i)
        c->by.keys[i] = (uint64_t)c->chosen[i];
    order_of_keys(c->by.keys, c->k, c->order, c->by.work, c->by.count);
    for (npy_intp i = 0; i < c->k; ++i)
        c->order[i] = (int64_t)c->by.keys[c->order[i]];
    memcpy(c->chosen, c->order, (size_t)c->k * sizeof *c->chosen);
}

static void store_indices(const Choice *c, char *out)
{
#define STORE_AS(number, type)                     \
    case number:                                   \
        for (npy_intp i = 0; i < c->k; ++i)        \
            ((type *)out)[i] = (type)c->chosen[i]; \
        return;
    switch (c->index_type) {
        STORE_AS(NPY_INT8, npy_int8)
        STORE_AS(NPY_INT16, npy_int16)
        STORE_AS(NPY_INT32, npy_int32)
        STORE_AS(NPY_INT64, npy_int64)
        STORE_AS(NPY_UINT8, npy_uint8)
        STORE_AS(NPY_UINT16, npy_uint16)
        STORE_AS(NPY_UINT32, npy_uint32)
        STORE_AS(NPY_UINT64, npy_uint64)
    }
#undef STORE_AS
}

static void store_values(const Choice *c, const char *x, char *out)
{
#define STORE_AS(size, type)                                    \
    case size:                                                  \
        for (npy_intp i = 0; i < c->k; ++i)                     \
            ((type *)out)[i] = ((const type *)x)[c->chosen[i]]; \
        return;
    switch (c->by.item) {
        STORE_AS(1, npy_uint8)
        STORE_AS(2, npy_uint16)
        STORE_AS(4, npy_uint32)
        STORE_AS(8, npy_uint64)
        STORE_AS(16, npy_cdouble)
    }
#undef STORE_AS
}

static int choose_lines(void *context, npy_intp rows, const char *in, npy_intp in_pitch, char *const *out,
                        const npy_intp *out_pitch)
{
    Choice *c = context;
    for (npy_intp r = 0; r < rows; ++r) {
        const char *x = in + r * in_pitch;
        if (c->by.load == NULL || c->k > FEW_BEST || !choose_few(c, x)) {
            if (make_room(&c->by) < 0)
                return -1;
            c->by.load == NULL ? choose_pairs(c, x) : choose_many(c, x);
        }
        int j = 0;
        if (c->values) {
            store_values(c, x, out[0] + r * out_pitch[0]);
            j = 1;
        }
        if (c->indices)
            store_indices(c, out[j] + r * out_pitch[j]);
    }
    return 0;
}

NATIVE_FUNCTION(topk, axis, sorted, values, indices, index_type)
static int tng_topk(int nin, int nout, PyObject **in, PyObject **out, const struct topk_params *params)
{
    PyArrayObject *x = behaved(in[0]), *z[2];
    Choice c;
    int result = -1, axis = (int)params->axis, j = 0;
    int64_t k;
    memset(&c, 0, sizeof c);
    PyArrayObject *room = NULL;
    if (x == NULL || native_as_int64(in[1], &k) < 0)
        goto finish;
    npy_intp n = PyArray_DIM(x, axis), dims[NPY_MAXDIMS];
    if (check_k(k, n) < 0)
        goto finish;
    c.k = (npy_intp)(k < 0 ? -k : k);
    c.flip = k > 0 ? UINT64_MAX : 0;
    c.sorted = (int)params->sorted;
    c.values = (int)params->values;
    c.indices = (int)params->indices;
    c.index_type = (int)params->index_type;
    memcpy(dims, PyArray_DIMS(x), PyArray_NDIM(x) * sizeof *dims);
    dims[axis] = c.k;
    if (c.values && (z[j++] = native_alloc(&out[0], PyArray_NDIM(x), dims, PyArray_TYPE(x))) == NULL)
        goto finish;
    if (c.indices && (z[j] = native_alloc(&out[j], PyArray_NDIM(x), dims, c.index_type)) == NULL)
        goto finish;
    j += c.indices;
    c.by = new_ordering(x, n);
    npy_intp ordered = c.by.load == NULL ? n : c.k;
    room = work_space(3 * c.k + ordered, sizeof(int64_t));
    if (room == NULL)
        goto finish;
    c.chosen = (int64_t *)PyArray_DATA(room);
    c.best = (uint64_t *)(c.chosen + c.k);
    c.order = c.chosen + 3 * c.k;
    result = lines_run(x, axis, j, z, choose_lines, &c);
finish:
    Py_XDECREF(x);
    free_ordering(&c.by);
    Py_XDECREF(room);
    return result;
}

static const NativeEntry entries[] = {
    NATIVE_ENTRY(sort),
    {"argsort", tng_argsort},
    NATIVE_ENTRY(topk),
    {NULL},
};
NATIVE_MODULE(sort, entries)
