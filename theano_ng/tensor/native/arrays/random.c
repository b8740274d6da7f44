/* Native code of random streams: MRG31k3p (theano_ng/sandbox/rng_mrg.py), and samples computed from uniform numbers
 * (sandbox/multinomial.py). gof/native.h explains native functions.
 *
 * MRG31k3p: P. L'Ecuyer and R. Touzin, "Fast Combined Multiple Recursive Generators with Multipliers of the form a =
 * +/- 2^d +/- 2^e", Proceedings of the 2000 Winter Simulation Conference, 683-689, figure 2. */
#include "native.h"

/* ------------------------------------------------------------------ the generator */

#define M1 2147483647u
#define M2 2147462579u

/* y modulo m for y <= 2 m. For y = 2 m the result is m, as in the published code; the later steps treat m like 0. */
#define REDUCED(y, m) ((y) < (y) - (m) ? (y) : (y) - (m))

enum { AS_FLOAT16, AS_FLOAT32, AS_FLOAT64 };

/* Return the float16 nearest to a float in (0, 1), ties to even. */
static inline __attribute__((always_inline)) uint16_t half_of(float value)
{
    union {
        float value;
        uint32_t bits;
    } x = {value}, shifted = {value + 0.5f};
    /* For numbers below 2^-14, the last bit of a float16 is worth 2^-24, like the last bit of the float value + 0.5.
     * The addition of 0.5 therefore rounds the value as a conversion to float16 does. */
    uint32_t subnormal = shifted.bits - 0x3f000000u;
    uint32_t normal = (x.bits - (112u << 23) + 0xfffu + ((x.bits >> 13) & 1u)) >> 13;
    return (uint16_t)(value < 6.103515625e-05f ? subnormal : normal);
}

/* Do one step of `count` streams. The arrays have values of both recurrences. First recurrence: the second latest value
 * (a2), and the oldest of three values (a3). Second recurrence: the latest value (b1), and the oldest value (b3). The
 * new values replace the oldest values.
 *
 * Each number is z / 2^31 for an integer z from 1 to 2^31 - 1. A float32 number is z, rounded, times the largest float
 * below 2^-31, so that the number is never 1. A float16 number needs only k, the lowest 15 bits of z: it is (k + 1) *
 * 511 / 2^24, rounded. This number is slightly less than (k + 1) / 2^15, so that it is never 1. */
static inline __attribute__((always_inline)) void step(npy_intp count, const int kind, const uint32_t *restrict a2,
                                                       uint32_t *restrict a3, const uint32_t *restrict b1,
                                                       uint32_t *restrict b3, void *restrict out)
{
    for (npy_intp k = 0; k < count; ++k) {
        /* 2^22 a2 + (2^7 + 1) a3 modulo 2^31 - 1; products by powers of two are rotations */
        uint32_t a = ((a2[k] & 511u) << 22) + (a2[k] >> 9) + ((a3[k] & 16777215u) << 7) + (a3[k] >> 24);
        a = REDUCED(a, M1);
        a += a3[k];
        a = REDUCED(a, M1);
        /* 2^15 b1 + (2^15 + 1) b3 modulo 2^31 - 21069 */
        uint32_t b = ((b1[k] & 65535u) << 15) + 21069u * (b1[k] >> 16);
        b = REDUCED(b, M2);
        uint32_t c = ((b3[k] & 65535u) << 15) + 21069u * (b3[k] >> 16);
        c = REDUCED(c, M2);
        c += b3[k];
        c = REDUCED(c, M2);
        b += c;
        b = REDUCED(b, M2);
        a3[k] = a;
        b3[k] = b;
        int32_t z = (int32_t)(a - b + (a <= b ? M1 : 0u));
        if (kind == AS_FLOAT64)
            ((double *)out)[k] = z * 4.656612873077392578125e-10;
        else if (kind == AS_FLOAT32)
            ((float *)out)[k] = (float)z * 4.6566126e-10f;
        else
            ((uint16_t *)out)[k] = half_of((float)((z & 32767) + 1) * (511.0f / 16777216.0f));
    }
}

/* Number of streams that are handled at a time: their states stay in the first-level cache, and each step writes whole
 * pages. */
#define CHUNK 1024

typedef struct {
    uint32_t a[3][CHUNK], b[3][CHUNK];
} Streams;

/* Do `steps` steps of all streams of a chunk, and one more step of the first `extra` streams. The number of stream s
 * after t steps is stored at out[t * row + s]. States are not moved: after t steps, the latest values are in the arrays
 * a[-t modulo 3] and b[-t modulo 3], and the older values are in the arrays after them, cyclically. */
static inline __attribute__((always_inline)) void walk(Streams *x, npy_intp count, const int kind, npy_intp steps,
                                                       npy_intp extra, char *out, npy_intp row)
{
    for (npy_intp t = 0; t <= steps; ++t, out += row) {
        int latest = (int)((3 - t % 3) % 3), older = (latest + 1) % 3, oldest = (latest + 2) % 3;
        step(t < steps ? count : extra, kind, x->a[older], x->a[oldest], x->b[latest], x->b[oldest], out);
    }
}

/* Each pair of an instruction set and a type of number has a function, which contains a vectorized copy of `walk`. */
typedef void (*walk_fn)(Streams *x, npy_intp count, npy_intp steps, npy_intp extra, char *out, npy_intp row);

#define WALK(name, attribute, kind)                                                                                 \
    attribute static void name(Streams *x, npy_intp count, npy_intp steps, npy_intp extra, char *out, npy_intp row) \
    {                                                                                                               \
        walk(x, count, kind, steps, extra, out, row);                                                               \
    }
#define WALKS(machine, attribute)                     \
    WALK(walk_##machine##_f16, attribute, AS_FLOAT16) \
    WALK(walk_##machine##_f32, attribute, AS_FLOAT32) \
    WALK(walk_##machine##_f64, attribute, AS_FLOAT64) \
    static const walk_fn walks_##machine[] = {walk_##machine##_f16, walk_##machine##_f32, walk_##machine##_f64};

WALKS(baseline, )
#if defined(__x86_64__) && defined(__GNUC__)
WALKS(avx2, __attribute__((target("avx2"))))
WALKS(avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"))))
#endif

/* Return the functions for this processor. `most` limits the instruction set: 0 baseline, 1 AVX2, 2 AVX-512. */
static const walk_fn *walks_for(int64_t most)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (most >= 2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl"))
        return walks_avx512;
    if (most >= 1 && __builtin_cpu_supports("avx2"))
        return walks_avx2;
#endif
    (void)most;
    return walks_baseline;
}

/* ---------------------------------------------------------------- mrg_uniform: (rstate, size) -> new rstate, sample */

/* Read the shape of a sample of `ndim` dimensions. Return its number of elements, or -1 with an exception set. */
static npy_intp read_shape(PyObject *size, int64_t ndim, npy_intp *shape)
{
    PyArrayObject *given = (PyArrayObject *)size;
    if (PyArray_DIM(given, 0) != ndim) {
        PyErr_Format(PyExc_ValueError, "mrg_uniform makes a sample of %lld dimension(s), but size has %zd element(s)",
                     (long long)ndim, (Py_ssize_t)PyArray_DIM(given, 0));
        return -1;
    }
    npy_intp total = 1;
    for (int64_t i = 0; i < ndim; ++i) {
        shape[i] = *(const npy_int64 *)PyArray_GETPTR1(given, i);
        if (shape[i] < 0) {
            PyErr_Format(PyExc_ValueError, "negative dimensions are not allowed: size[%lld] is %zd", (long long)i,
                         (Py_ssize_t)shape[i]);
            return -1;
        }
    }
    for (int64_t i = 0; i < ndim; ++i)
        if (shape[i] == 0)
            return 0;
    for (int64_t i = 0; i < ndim; ++i)
        if (__builtin_mul_overflow(total, shape[i], &total) || total > NPY_MAX_INTP / 8) {
            PyErr_SetString(PyExc_ValueError, "size: the sample is too large for this machine's memory");
            return -1;
        }
    return total;
}

/* Read the states of `count` streams, from stream `first` on. */
static void take_rows(Streams *x, PyArrayObject *state, npy_intp first, npy_intp count)
{
    npy_intp row = PyArray_STRIDE(state, 0), column = PyArray_STRIDE(state, 1);
    const char *at = PyArray_BYTES(state) + first * row;
    for (npy_intp s = 0; s < count; ++s, at += row)
        for (int i = 0; i < 3; ++i) {
            x->a[i][s] = *(const npy_uint32 *)(at + i * column);
            x->b[i][s] = *(const npy_uint32 *)(at + (i + 3) * column);
        }
}

/* Write the states of the streams `from` to `to` - 1 of a chunk after `steps` steps. */
static void put_rows(const Streams *x, PyArrayObject *state, npy_intp first, npy_intp from, npy_intp to, npy_intp steps)
{
    npy_intp row = PyArray_STRIDE(state, 0), column = PyArray_STRIDE(state, 1);
    char *at = PyArray_BYTES(state) + (first + from) * row;
    int latest = (int)((3 - steps % 3) % 3), places[3] = {latest, (latest + 1) % 3, (latest + 2) % 3};
    for (npy_intp s = from; s < to; ++s, at += row)
        for (int i = 0; i < 3; ++i) {
            *(npy_uint32 *)(at + i * column) = x->a[places[i]][s];
            *(npy_uint32 *)(at + (i + 3) * column) = x->b[places[i]][s];
        }
}

NATIVE_FUNCTION(mrg_uniform, inplace, kind, ndim, machine)
static int tng_mrg_uniform(int nin, int nout, PyObject **in, PyObject **out, const struct mrg_uniform_params *params)
{
    static const int types[] = {NPY_FLOAT16, NPY_FLOAT32, NPY_FLOAT64};
    PyArrayObject *state = (PyArrayObject *)in[0];
    npy_intp n = PyArray_DIM(state, 0), shape[NPY_MAXDIMS];
    if (n < 1 || PyArray_DIM(state, 1) != 6) {
        PyErr_Format(PyExc_ValueError, "rstate must have a row of 6 numbers for each stream, its shape is (%zd, %zd)",
                     (Py_ssize_t)n, (Py_ssize_t)PyArray_DIM(state, 1));
        return -1;
    }
    npy_intp total = read_shape(in[1], params->ndim, shape);
    if (total < 0)
        return -1;
    PyArrayObject *sample = native_alloc(&out[1], (int)params->ndim, shape, types[params->kind]);
    if (sample == NULL)
        return -1;
    PyArrayObject *next;
    if (params->inplace && PyArray_ISWRITEABLE(state)) {
        Py_INCREF(state);
        native_set(&out[0], (PyObject *)state);
        next = state;
    }
    else if ((next = native_alloc(&out[0], 2, PyArray_DIMS(state), NPY_INT32)) == NULL)
        return -1;
    const walk_fn run = walks_for(params->machine)[params->kind];
    npy_intp steps = total / n, more = total % n, item = PyArray_ITEMSIZE(sample);
    char *to = PyArray_BYTES(sample);
    Streams streams;
    /* Numbers are drawn from the first `drawn` streams only. The other streams keep their states. */
    npy_intp drawn = steps > 0 ? n : more;
    for (npy_intp first = 0; first < drawn; first += CHUNK) {
        npy_intp count = drawn - first < CHUNK ? drawn - first : CHUNK;
        npy_intp extra = more <= first ? 0 : more - first < count ? more - first : count;
        take_rows(&streams, state, first, count);
        run(&streams, count, steps, extra, to + first * item, n * item);
        put_rows(&streams, next, first, 0, extra, steps + 1);
        put_rows(&streams, next, first, extra, count, steps);
    }
    if (next != state && drawn < n) {
        npy_intp bytes = (n - drawn) * 6 * sizeof(npy_int32);
        if (PyArray_IS_C_CONTIGUOUS(state))
            memcpy(PyArray_GETPTR1(next, drawn), PyArray_GETPTR1(state, drawn), bytes);
        else
            for (npy_intp s = drawn; s < n; ++s)
                for (int i = 0; i < 6; ++i)
                    *(npy_int32 *)PyArray_GETPTR2(next, s, i) = *(const npy_int32 *)PyArray_GETPTR2(state, s, i);
    }
    return 0;
}

/* ------------------------------------------------------------------ dot_modulo: (A, s, m, A2, s2, m2) */

/* out[i] = sum_j A[i, j] s[j] modulo m. */
static int dot_modulo(PyArrayObject *a, PyArrayObject *s, PyObject *modulus, PyArrayObject *out, npy_intp from)
{
    int64_t m;
    if (native_as_int64(modulus, &m) < 0)
        return -1;
    if (m < 1) {
        PyErr_Format(PyExc_ValueError, "the modulus must be positive, not %lld", (long long)m);
        return -1;
    }
    for (npy_intp i = 0; i < PyArray_DIM(a, 0); ++i) {
        int64_t sum = 0;
        for (npy_intp j = 0; j < PyArray_DIM(a, 1); ++j) {
            __int128 product =
                (__int128)*(const npy_int64 *)PyArray_GETPTR2(a, i, j) * *(const npy_int32 *)PyArray_GETPTR1(s, j);
            int64_t part = (int64_t)(product % m);
            sum = (int64_t)(((__int128)sum + part + (part < 0 ? m : 0)) % m);
        }
        *(npy_int32 *)PyArray_GETPTR1(out, from + i) = (npy_int32)sum;
    }
    return 0;
}

static int tng_dot_modulo(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    for (int k = 0; k < 6; k += 3)
        if (PyArray_DIM((PyArrayObject *)in[k], 1) != PyArray_DIM((PyArrayObject *)in[k + 1], 0)) {
            PyErr_Format(PyExc_ValueError, "DotModulo: %s has %zd columns, but %s has %zd elements", k ? "A2" : "A",
                         (Py_ssize_t)PyArray_DIM((PyArrayObject *)in[k], 1), k ? "s2" : "s",
                         (Py_ssize_t)PyArray_DIM((PyArrayObject *)in[k + 1], 0));
            return -1;
        }
    npy_intp half = PyArray_DIM((PyArrayObject *)in[0], 0), length = half + PyArray_DIM((PyArrayObject *)in[3], 0);
    PyArrayObject *z = native_alloc(out, 1, &length, NPY_INT32);
    if (z == NULL || dot_modulo((PyArrayObject *)in[0], (PyArrayObject *)in[1], in[2], z, 0) < 0)
        return -1;
    return dot_modulo((PyArrayObject *)in[3], (PyArrayObject *)in[4], in[5], z, half);
}

/* ------------------------------------------------------------------ multinomial, choice: (pvals, unis, n) */

/* The inputs of the Ops multinomial and choice. Probabilities are floats or doubles, and are added up in their type.
 * The uniform numbers are converted to doubles, which is exact. */
typedef struct {
    PyArrayObject *pvals, *unis;
    npy_intp rows, columns;
    int64_t n;
    int doubles;
} Samples;

static int make_samples(Samples *x, PyObject **in)
{
    int type = PyArray_TYPE((PyArrayObject *)in[0]);
    x->doubles = type != NPY_FLOAT16 && type != NPY_FLOAT32;
    x->pvals = (PyArrayObject *)PyArray_FROMANY(in[0], x->doubles ? NPY_FLOAT64 : NPY_FLOAT32, 2, 2,
                                                NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST);
    x->unis = x->pvals == NULL ? NULL
                               : (PyArrayObject *)PyArray_FROMANY(in[1], NPY_FLOAT64, 1, 1,
                                                                  NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST);
    if (x->unis == NULL || native_as_int64(in[2], &x->n) < 0)
        return -1;
    x->rows = PyArray_DIM(x->pvals, 0), x->columns = PyArray_DIM(x->pvals, 1);
    npy_intp wanted;
    if (x->n < 0) {
        PyErr_Format(PyExc_ValueError, "the number of samples must not be negative, it is %lld", (long long)x->n);
        return -1;
    }
    if (__builtin_mul_overflow(x->rows, (npy_intp)x->n, &wanted) || PyArray_DIM(x->unis, 0) != wanted) {
        PyErr_Format(PyExc_ValueError, "unis.shape[0] (%zd) != pvals.shape[0] (%zd) * n_samples (%lld)",
                     (Py_ssize_t)PyArray_DIM(x->unis, 0), (Py_ssize_t)x->rows, (long long)x->n);
        return -1;
    }
    return 0;
}

static void free_samples(Samples *x)
{
    Py_XDECREF(x->pvals);
    Py_XDECREF(x->unis);
}

/* Return the first of n categories at which the cumulative sum of the probabilities exceeds `number`, or -1 if the sum
 * of all probabilities does not exceed `number`. */
static npy_intp category_f32(const float *p, npy_intp n, double number)
{
    float sum = 0;
    for (npy_intp m = 0; m < n; ++m)
        if ((sum += p[m]) > number)
            return m;
    return -1;
}

static npy_intp category_f64(const double *p, npy_intp n, double number)
{
    double sum = 0;
    for (npy_intp m = 0; m < n; ++m)
        if ((sum += p[m]) > number)
            return m;
    return -1;
}

static npy_intp category(const Samples *x, const char *p, double number)
{
    return x->doubles ? category_f64((const double *)p, x->columns, number)
                      : category_f32((const float *)p, x->columns, number);
}

/* Set the probability of a category to 0, and scale the other probabilities so that their sum is 1. */
static void leave_out(const Samples *x, char *p, npy_intp taken)
{
    if (x->doubles) {
        double *q = (double *)p, sum = 0;
        q[taken] = 0;
        for (npy_intp m = 0; m < x->columns; ++m)
            sum += q[m];
        for (npy_intp m = 0; m < x->columns; ++m)
            q[m] /= sum;
    }
    else {
        float *q = (float *)p, sum = 0;
        q[taken] = 0;
        for (npy_intp m = 0; m < x->columns; ++m)
            sum += q[m];
        for (npy_intp m = 0; m < x->columns; ++m)
            q[m] /= sum;
    }
}

/* Store int64 results in an output of type `type`. */
static int store_as(PyObject **out, PyArrayObject *found, int type)
{
    if (type == NPY_INT64) {
        Py_INCREF(found);
        native_set(out, (PyObject *)found);
        return 0;
    }
    PyArrayObject *z = native_alloc(out, 2, PyArray_DIMS(found), type);
    return z == NULL ? -1 : PyArray_CopyInto(z, found);
}

NATIVE_FUNCTION(multinomial, type)
static int tng_multinomial(int nin, int nout, PyObject **in, PyObject **out, const struct multinomial_params *params)
{
    Samples x = {0};
    int result = -1;
    if (make_samples(&x, in) == 0) {
        PyArrayObject *counts = native_new(2, PyArray_DIMS(x.pvals), NPY_INT64, 0);
        if (counts != NULL) {
            const double *unis = PyArray_DATA(x.unis);
            memset(PyArray_DATA(counts), 0, PyArray_NBYTES(counts));
            for (npy_intp r = 0; r < x.rows; ++r) {
                npy_int64 *count = PyArray_GETPTR1(counts, r);
                for (int64_t k = 0; k < x.n; ++k) {
                    npy_intp m = category(&x, PyArray_GETPTR1(x.pvals, r), unis[k * x.rows + r]);
                    if (m >= 0)
                        ++count[m];
                }
            }
            result = store_as(out, counts, (int)params->type);
            Py_DECREF(counts);
        }
    }
    free_samples(&x);
    return result;
}

NATIVE_FUNCTION(choice, type, replace)
static int tng_choice(int nin, int nout, PyObject **in, PyObject **out, const struct choice_params *params)
{
    Samples x = {0};
    int result = -1;
    if (make_samples(&x, in) == 0) {
        npy_intp shape[2] = {x.rows, (npy_intp)x.n};
        PyArrayObject *chosen = NULL;
        char *left = NULL;
        npy_intp row = x.columns * (x.doubles ? 8 : 4);
        if (!params->replace && x.n > x.columns)
            PyErr_SetString(PyExc_ValueError,
                            "Cannot sample without replacement n samples bigger than the size of the distribution.");
        else if ((left = PyMem_Malloc(row + 1)) == NULL)
            PyErr_NoMemory();
        else
            chosen = native_new(2, shape, NPY_INT64, 0);
        if (chosen != NULL) {
            const double *unis = PyArray_DATA(x.unis);
            for (npy_intp r = 0; r < x.rows; ++r) {
                npy_int64 *choice = PyArray_GETPTR1(chosen, r);
                if (row > 0)
                    memcpy(left, PyArray_GETPTR1(x.pvals, r), row);
                for (int64_t k = 0; k < x.n; ++k) {
                    choice[k] = category(&x, left, unis[k * x.rows + r]);
                    if (!params->replace && choice[k] >= 0)
                        leave_out(&x, left, choice[k]);
                }
            }
            result = store_as(out, chosen, (int)params->type);
            Py_DECREF(chosen);
        }
        PyMem_Free(left);
    }
    free_samples(&x);
    return result;
}

static const NativeEntry entries[] = {
    NATIVE_ENTRY(mrg_uniform), {"dot_modulo", tng_dot_modulo, NULL, NULL},
    NATIVE_ENTRY(multinomial), NATIVE_ENTRY(choice),
    {NULL, NULL, NULL, NULL},
};
NATIVE_MODULE(random, entries)
