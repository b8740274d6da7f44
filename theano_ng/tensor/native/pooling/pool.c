/* Pooling: maxima, sums and averages of windows that slide over the last axes, and their gradients. */
#include "native.h"
#include "common/target_clones.h"
#include "common/threads.h"
#include "pool_axes.h"
#include "pool_windows.h"

/* The modes of PoolingMode_t. */
enum { POOL_MAX, POOL_SUM, POOL_INC_PAD, POOL_EXC_PAD };

/* The arrays that the loops read and write. `gradient` has the shape of the output. For sums_at_maxima, `gradient` is
 * the direction of the R-operator, with the shape of the image. */
typedef struct {
    const void *x, *maxima, *gradient;
    void *result;
    int mode;
} PoolArrays;

#define INLINE static inline __attribute__((always_inline))
/* -Wpsabi warns about the way in which vectors are passed to functions. Inlined functions pass no vectors, so the
 * warning is disabled. */
#pragma GCC diagnostic ignored "-Wpsabi"

typedef void (*planes_fn)(const Windows *w, const PoolArrays *arrays, npy_intp begin, npy_intp end, npy_intp *rows,
                          char *scratch);

/* Return the length of a spread line (pool_gradients.h). It has three parts: the entries before element 0; the elements
 * of the line, or the blocks of all windows if these are longer; room for the blocks of `layers` more windows. */
static inline npy_intp layer_length(const Windows *w)
{
    const Axis *a = last_axis(w);
    npy_intp blocks = a->out * a->stride;
    return w->direct ? a->n : w->before + (a->n > blocks ? a->n : blocks) + w->layers * a->stride;
}

#define REAL npy_float32
#define ACC npy_float32
#define NAME(f) f##_f32
#define WORD npy_int32
#define MAX_LANES 8
#define LANES 8
#define LANED(f) NAME(most_##f)
#include "pool_stride2.h"
#undef LANES
#undef LANED
#define LANES 4
#define LANED(f) NAME(half_##f)
#include "pool_stride2.h"
#undef LANES
#undef LANED
#include "pool_planes.h"
#include "pool_gradients.h"
#undef WORD
#undef MAX_LANES
#undef REAL
#undef ACC
#undef NAME
#define REAL npy_float64
#define ACC npy_float64
#define NAME(f) f##_f64
#define WORD npy_int64
#define MAX_LANES 4
#define LANES 4
#define LANED(f) NAME(most_##f)
#include "pool_stride2.h"
#undef LANES
#undef LANED
#define LANES 2
#define LANED(f) NAME(half_##f)
#include "pool_stride2.h"
#undef LANES
#undef LANED
#include "pool_planes.h"
#include "pool_gradients.h"
#undef WORD
#undef MAX_LANES
#undef REAL
#undef ACC
#undef NAME
#define REAL npy_int8
#define ACC npy_int64
#define NAME(f) f##_i8
#include "pool_planes.h"
#undef REAL
#undef ACC
#undef NAME
#define REAL npy_int16
#define ACC npy_int64
#define NAME(f) f##_i16
#include "pool_planes.h"
#undef REAL
#undef ACC
#undef NAME
#define REAL npy_int32
#define ACC npy_int64
#define NAME(f) f##_i32
#include "pool_planes.h"
#undef REAL
#undef ACC
#undef NAME
#define REAL npy_int64
#define ACC npy_int64
#define NAME(f) f##_i64
#include "pool_planes.h"
#undef REAL
#undef ACC
#undef NAME
#define REAL npy_uint8
#define ACC npy_uint64
#define NAME(f) f##_u8
#include "pool_planes.h"
#undef REAL
#undef ACC
#undef NAME
#define REAL npy_uint16
#define ACC npy_uint64
#define NAME(f) f##_u16
#include "pool_planes.h"
#undef REAL
#undef ACC
#undef NAME
#define REAL npy_uint32
#define ACC npy_uint64
#define NAME(f) f##_u32
#include "pool_planes.h"
#undef REAL
#undef ACC
#undef NAME
#define REAL npy_uint64
#define ACC npy_uint64
#define NAME(f) f##_u64
#include "pool_planes.h"
#undef REAL
#undef ACC
#undef NAME

static planes_fn pool_of(int type, npy_intp item, const Windows *w)
{
    static const planes_fn with_sign[] = {pool_i8, pool_i16, pool_i32, pool_i64},
                           without[] = {pool_u8, pool_u16, pool_u32, pool_u64};
    if (type == NPY_FLOAT32 || type == NPY_FLOAT64)
        return type == NPY_FLOAT32 ? pool_for_f32(w) : pool_for_f64(w);
    if (!PyTypeNum_ISINTEGER(type))
        return NULL;
    return (PyTypeNum_ISSIGNED(type) ? with_sign : without)[item == 1 ? 0 : item == 2 ? 1 : item == 4 ? 2 : 3];
}

/* -- positions of the windows ------------------------------------------------------------------------------------- */

NATIVE_PARAMS(pooling, ndim, ignore_border, mode, openmp);

static void free_windows(Windows *w)
{
    if (w->axes != NULL && w->nd > 0)
        PyMem_Free(w->axes[0].first);
    PyMem_Free(w->axes);
    w->axes = NULL;
}

/* Read the inputs ws, stride and pad. Fill in *w, except for the tables. Store the shape of the output in out_shape.
 * Return 0, or -1 with an exception set. */
static int find_windows(Windows *w, PyArrayObject *x, PyObject **vectors, const struct pooling_params *params,
                        npy_intp *out_shape)
{
    int nd = (int)params->ndim, before = PyArray_NDIM(x) - nd;
    PoolAxis found[NPY_MAXDIMS];
    *w = (Windows){.nd = nd};
    if (find_pool_axes(found, nd, PyArray_NDIM(x), PyArray_DIMS(x), vectors, params->ignore_border != 0, out_shape) < 0)
        return -1;
    if ((w->axes = PyMem_Calloc(nd, sizeof(Axis))) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    w->planes = w->in_size = w->out_size = w->out_rows = 1;
    for (int d = 0; d < before; ++d)
        w->planes *= out_shape[d];
    for (int d = nd - 1; d >= 0; --d) {
        Axis *a = &w->axes[d];
        const PoolAxis *f = &found[d];
        /* Reduce the length of a window that is longer than the padded axis. Reduce the stride if the axis has only one
         * window. This does not change the result, but avoids large numbers. */
        a->n = f->n;
        a->out = f->out;
        a->window = f->window > a->n + 2 * f->pad ? a->n : f->window;
        a->stride = a->out <= 1 ? a->window : f->stride;
        a->pad = f->pad;
        a->step = w->in_size;
        w->in_size *= a->n;
        w->out_size *= a->out;
        if (d < nd - 1)
            w->out_rows *= a->out;
    }
    return 0;
}

/* Allocate and fill in the tables of *w. The output and the image must not be empty. Return 0, or -1 with an exception
 * set. */
static int make_tables(Windows *w)
{
    npy_intp total = 0;
    for (int d = 0; d < w->nd; ++d)
        total += w->axes[d].out;
    npy_intp *table = PyMem_Malloc(3 * (size_t)total * sizeof(npy_intp));
    if (table == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    w->most_rows = 1;
    w->all_rows_once = 1;
    for (int d = 0; d < w->nd; ++d) {
        Axis *a = &w->axes[d];
        npy_intp most = 0, reached = 0;
        a->first = table, a->last = table + total, a->room = table + 2 * total;
        table += a->out;
        a->whole_begin = (a->pad + a->stride - 1) / a->stride;
        if (a->whole_begin > a->out)
            a->whole_begin = a->out;
        a->whole_end = a->whole_begin;
        for (npy_intp o = 0; o < a->out; ++o) {
            npy_intp first = o * a->stride - a->pad, last = first + a->window;
            if (last > a->n + a->pad)
                last = a->n + a->pad;
            if (first >= 0 && first + a->window <= a->n)
                a->whole_end = o + 1;
            a->room[o] = last - first;
            a->first[o] = first < 0 ? 0 : first;
            a->last[o] = last > a->n ? a->n : last;
            if (a->last[o] - a->first[o] > most)
                most = a->last[o] - a->first[o];
            if (d < w->nd - 1 && a->first[o] != reached)
                w->all_rows_once = 0;
            reached = a->last[o];
        }
        if (d < w->nd - 1) {
            w->most_rows *= most;
            if (reached != a->n)
                w->all_rows_once = 0;
        }
    }
    const Axis *a = last_axis(w);
    w->layers = (a->window + a->stride - 1) / a->stride;
    w->rest = a->window - (w->layers - 1) * a->stride;
    w->direct = w->layers > MAX_LAYERS || a->pad > a->n;
    if (w->direct)
        w->layers = 1;
    w->before = w->layers * a->stride;
    w->kept = 1;
    if (w->nd == 2 && !w->direct && !w->all_rows_once && w->axes[0].window <= MAX_LAYERS * w->axes[0].stride)
        w->kept = (w->axes[0].window + w->axes[0].stride - 1) / w->axes[0].stride + 1;
    return 0;
}

/* Run the loops over all planes, with several threads if `openmp`. Each thread needs scratch memory for `numbers`
 * values of `item` bytes. Return 0, or -1 with an exception set. */
static int run_planes(const Windows *w, planes_fn loops, const PoolArrays *arrays, size_t numbers, size_t item,
                      int openmp)
{
    int threads = openmp && w->planes > 1 && w->planes * w->in_size >= 1 << 15 ? native_threads() : 1;
    if (threads > w->planes)
        threads = (int)w->planes;
    size_t scratch = (numbers * item + 127) & ~(size_t)63,
           rows = ((size_t)w->most_rows * sizeof(npy_intp) + 127) & ~(size_t)63;
    char *memory = PyMem_Malloc((size_t)threads * (scratch + rows));
    if (memory == NULL) {
        PyErr_NoMemory();
        return -1;
    }
#ifdef _OPENMP
    if (threads > 1) {
        Py_BEGIN_ALLOW_THREADS
#pragma omp parallel num_threads(threads)
        {
            npy_intp count = omp_get_num_threads(), me = omp_get_thread_num();
            char *own = memory + (size_t)me * (scratch + rows);
            loops(w, arrays, w->planes * me / count, w->planes * (me + 1) / count, (npy_intp *)own, own + rows);
        }
        Py_END_ALLOW_THREADS
    }
    else
#endif
        loops(w, arrays, 0, w->planes, (npy_intp *)memory, memory + rows);
    PyMem_Free(memory);
    return 0;
}

/* -- the native functions ----------------------------------------------------------------------------------------- */

/* Convert the inputs to C-contiguous arrays with the type of the first input, and store new references to these arrays.
 * float16 becomes float32, because the loops compute with float32. */
static int contiguous_inputs(int count, PyObject **in, PyArrayObject **arrays)
{
    for (int i = 0; i < count; ++i) {
        PyArrayObject *a = (PyArrayObject *)in[i];
        if (!PyArray_Check(in[i]) || PyArray_TYPE(a) != PyArray_TYPE((PyArrayObject *)in[0])) {
            PyErr_SetString(PyExc_TypeError, "Pool: the arrays must have the same dtype");
            return -1;
        }
        if (PyArray_TYPE(a) == NPY_HALF)
            a = (PyArrayObject *)PyArray_FROM_OTF(in[i], NPY_FLOAT32, NPY_ARRAY_CARRAY_RO);
        else if (PyArray_IS_C_CONTIGUOUS(a) && PyArray_ISBEHAVED_RO(a))
            Py_INCREF(a);
        else
            a = (PyArrayObject *)PyArray_NewCopy(a, NPY_CORDER);
        if ((arrays[i] = a) == NULL)
            return -1;
    }
    return 0;
}

static int check_shape(PyArrayObject *a, int nd, const npy_intp *shape, const char *what)
{
    if (PyArray_NDIM(a) == nd && PyArray_CompareLists(PyArray_DIMS(a), shape, nd))
        return 0;
    PyObject *expected = PyArray_IntTupleFromIntp(nd, shape),
             *given = PyArray_IntTupleFromIntp(PyArray_NDIM(a), PyArray_DIMS(a));
    if (expected != NULL && given != NULL)
        PyErr_Format(PyExc_ValueError, "Pool: %s has shape %R, but these windows need shape %R", what, given, expected);
    Py_XDECREF(expected);
    Py_XDECREF(given);
    return -1;
}

enum { POOL, MAX_GRAD, AVERAGE_GRAD, MAX_SUMS, MAX_ROP };

/* Run the Op `which`. Inputs: x; then the inputs of the Op:
 *   MAX_GRAD: maxima and gradient of the output
 *   AVERAGE_GRAD: gradient of the output
 *   MAX_SUMS: maxima, and a direction with the shape of x
 *   MAX_ROP: a direction with the shape of x
 *   and for all Ops: ws, stride, pad */
static int pooling(int which, int nin, PyObject **in, PyObject **out, const struct pooling_params *params)
{
    int tensors = which == POOL ? 1 : which == AVERAGE_GRAD || which == MAX_ROP ? 2 : 3, status = -1;
    PyArrayObject *arrays[3] = {NULL}, *result = NULL, *maxima = NULL, *narrow = NULL;
    Windows w = {0};
    npy_intp out_shape[NPY_MAXDIMS];
    if (nin != tensors + 3) {
        PyErr_Format(PyExc_ValueError, "Pool: %d inputs expected, got %d", tensors + 3, nin);
        return -1;
    }
    if (contiguous_inputs(tensors, in, arrays) < 0 || find_windows(&w, arrays[0], in + tensors, params, out_shape) < 0)
        goto done;
    int nd = PyArray_NDIM(arrays[0]), type = PyArray_TYPE(arrays[0]), single = type == NPY_FLOAT32;
    const npy_intp *shape = PyArray_DIMS(arrays[0]);
    if (which != POOL && type != NPY_FLOAT32 && type != NPY_FLOAT64) {
        PyErr_SetString(PyExc_TypeError, "Gradients of pooling: float32 or float64 expected");
        goto done;
    }
    if (which == MAX_GRAD || which == MAX_SUMS)
        if (check_shape(arrays[1], nd, out_shape, "maxout") < 0)
            goto done;
    if (which != POOL) {
        int like_image = which == MAX_SUMS || which == MAX_ROP;
        if (check_shape(arrays[tensors - 1], nd, like_image ? shape : out_shape,
                        like_image ? "the direction" : "the gradient")
            < 0)
            goto done;
    }
    int makes_image = which == MAX_GRAD || which == AVERAGE_GRAD;
    const npy_intp *result_shape = makes_image ? shape : out_shape;
    result = native_alloc(out, nd, result_shape, PyArray_TYPE((PyArrayObject *)in[0]));
    if (result == NULL)
        goto done;
    if (PyArray_TYPE(result) != type) {
        narrow = result;
        if ((result = native_new(nd, result_shape, type, 0)) == NULL)
            goto done;
    }
    status = 0;
    if (PyArray_SIZE(result) == 0)
        goto done;
    if (w.out_size == 0) {
        memset(PyArray_DATA(result), 0, PyArray_NBYTES(result));
        goto done;
    }
    if ((status = make_tables(&w)) < 0)
        goto done;
    PoolArrays data = {
        .x = PyArray_DATA(arrays[0]),
        .maxima = which == MAX_GRAD || which == MAX_SUMS ? PyArray_DATA(arrays[1]) : NULL,
        .gradient = which == POOL ? NULL : PyArray_DATA(arrays[tensors - 1]),
        .result = PyArray_DATA(result),
        .mode = (int)params->mode,
    };
    size_t n = (size_t)last_axis(&w)->n, outputs = (size_t)last_axis(&w)->out, length = (size_t)layer_length(&w),
           numbers, item = 8;
    planes_fn loops;
    switch (which) {
    case POOL:
        loops = pool_of(type, PyArray_ITEMSIZE(result), &w);
        numbers = n + 2 * outputs;
        break;
    case MAX_GRAD:
        loops = single ? max_grad_for_f32(&w) : max_grad_for_f64(&w);
        numbers = (size_t)w.kept * 3 * length;
        break;
    case AVERAGE_GRAD:
        loops = single ? average_grad_f32 : average_grad_f64;
        numbers = 3 * length + 2 * outputs;
        break;
    default: loops = single ? sums_at_maxima_f32 : sums_at_maxima_f64; numbers = (1 + (size_t)w.layers) * length;
    }
    if (loops == NULL) {
        PyErr_Format(PyExc_TypeError, "Pool: no code for NumPy type number %d", type);
        status = -1;
    }
    if (which == MAX_ROP) {
        PoolArrays first = {.x = data.x, .mode = POOL_MAX};
        status = (maxima = native_new(nd, out_shape, type, 0)) == NULL ? -1 : 0;
        if (status == 0) {
            data.maxima = first.result = PyArray_DATA(maxima);
            status = run_planes(&w, pool_of(type, PyArray_ITEMSIZE(result), &w), &first, n + 2 * outputs, item,
                                params->openmp != 0);
        }
    }
    if (status == 0)
        status = run_planes(&w, loops, &data, numbers, item, params->openmp != 0);
done:
    if (narrow != NULL) {
        if (status == 0)
            status = PyArray_CopyInto(narrow, result);
        Py_XDECREF(result);
    }
    free_windows(&w);
    Py_XDECREF(maxima);
    for (int i = 0; i < tensors; ++i)
        Py_XDECREF(arrays[i]);
    return status;
}

#define POOLING(name, which)                                                                                    \
    NATIVE_FUNCTION(name, ndim, ignore_border, mode, openmp)                                                    \
    static int tng_##name(int nin, int nout, PyObject **in, PyObject **out, const struct name##_params *params) \
    {                                                                                                           \
        (void)nout;                                                                                             \
        return pooling(which, nin, in, out, (const struct pooling_params *)params);                             \
    }
POOLING(pool, POOL)
POOLING(max_grad, MAX_GRAD)
POOLING(average_grad, AVERAGE_GRAD)
POOLING(max_sums, MAX_SUMS)
POOLING(max_rop, MAX_ROP)

static const NativeEntry entries[] = {NATIVE_ENTRY(pool),     NATIVE_ENTRY(max_grad), NATIVE_ENTRY(average_grad),
                                      NATIVE_ENTRY(max_sums), NATIVE_ENTRY(max_rop),  {NULL}};

NATIVE_MODULE(pool, entries)
