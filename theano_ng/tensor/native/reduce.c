/* Reductions over any set of axes, and argmax.
 *
 * tng_reduce combines elements by a function of the form
 *
 *     void fold(int64_t n, char *acc, int64_t acc_stride, const char *x, int64_t x_stride)      acc[i] = acc[i] OP x[i]
 *
 * With acc_stride 0 all elements go into one accumulator. The common operations and types are here; for others a generated kernel
 * has this form (tensor/careduce.py). Sums of floats are pairwise over contiguous stretches.
 */
#include "native.h"
#include <stdlib.h>

typedef void (*fold_fn)(int64_t n, char *acc, int64_t acc_stride, const char *x, int64_t x_stride);

#define MAX_ND 32
#define PAIRWISE_MIN 512   /* shorter stretches are summed directly, in 4 vectors of accumulators */
#define TILE 4096          /* columns that are reduced together when rows are added up */
#define VECTOR_BYTES 64

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

/* -- folds -------------------------------------------------------------------------------------------------------- */

#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#define AND(a, b) ((a) & (b))
#define OR(a, b) ((a) | (b))
#define XOR(a, b) ((a) ^ (b))
/* NaN wins. One condition without a branch, so that the loops vectorize. */
#define MAX(a, b) (((b) > (a)) | ((b) != (b)) ? (b) : (a))
#define MIN(a, b) (((b) < (a)) | ((b) != (b)) ? (b) : (a))

/* T: accumulator; S: element. */
#define FOLD(name, OP, T, S)                                                                                         \
    CLONES static void name(int64_t n, char *acc, int64_t acc_stride, const char *x, int64_t x_stride)               \
    {                                                                                                                \
        enum { LANES = VECTOR_BYTES / sizeof(T) };                                                                   \
        typedef T vec __attribute__((vector_size(VECTOR_BYTES)));                                                    \
        typedef S svec __attribute__((vector_size(LANES * sizeof(S))));                                              \
        if (acc_stride == 0) {                                                                                       \
            T total = *(T *)acc;                                                                                     \
            int64_t i = 0;                                                                                           \
            if (x_stride == sizeof(S) && n >= 4 * LANES) {                                                           \
                const S *p = (const S *)x;                                                                           \
                svec s0, s1, s2, s3;                                                                                 \
                vec a0, a1, a2, a3;                                                                                  \
                memcpy(&s0, p, sizeof s0);                                                                           \
                memcpy(&s1, p + LANES, sizeof s1);                                                                   \
                memcpy(&s2, p + 2 * LANES, sizeof s2);                                                               \
                memcpy(&s3, p + 3 * LANES, sizeof s3);                                                               \
                a0 = __builtin_convertvector(s0, vec);                                                               \
                a1 = __builtin_convertvector(s1, vec);                                                               \
                a2 = __builtin_convertvector(s2, vec);                                                               \
                a3 = __builtin_convertvector(s3, vec);                                                               \
                for (i = 4 * LANES; i + 4 * LANES <= n; i += 4 * LANES) {                                            \
                    vec b0, b1, b2, b3;                                                                              \
                    memcpy(&s0, p + i, sizeof s0);                                                                   \
                    memcpy(&s1, p + i + LANES, sizeof s1);                                                           \
                    memcpy(&s2, p + i + 2 * LANES, sizeof s2);                                                       \
                    memcpy(&s3, p + i + 3 * LANES, sizeof s3);                                                       \
                    b0 = __builtin_convertvector(s0, vec);                                                           \
                    b1 = __builtin_convertvector(s1, vec);                                                           \
                    b2 = __builtin_convertvector(s2, vec);                                                           \
                    b3 = __builtin_convertvector(s3, vec);                                                           \
                    a0 = OP(a0, b0);                                                                              \
                    a1 = OP(a1, b1);                                                                              \
                    a2 = OP(a2, b2);                                                                              \
                    a3 = OP(a3, b3);                                                                              \
                }                                                                                                    \
                a0 = OP(a0, a1);                                                                                  \
                a2 = OP(a2, a3);                                                                                  \
                a0 = OP(a0, a2);                                                                                  \
                T part = a0[0];                                                                                      \
                for (int l = 1; l < (int)LANES; ++l) {                                                               \
                    T b = a0[l];                                                                                     \
                    part = OP(part, b);                                                                              \
                }                                                                                                    \
                total = OP(total, part);                                                                             \
            }                                                                                                        \
            for (; i < n; ++i) {                                                                                     \
                T b = (T)*(const S *)(x + i * x_stride);                                                             \
                total = OP(total, b);                                                                                \
            }                                                                                                        \
            *(T *)acc = total;                                                                                       \
        }                                                                                                            \
        else if (acc_stride == sizeof(T) && x_stride == sizeof(S)) {                                                 \
            T *a = (T *)acc;                                                                                         \
            const S *p = (const S *)x;                                                                               \
            _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i)                                                     \
            {                                                                                                        \
                T b = (T)p[i];                                                                                       \
                a[i] = OP(a[i], b);                                                                                  \
            }                                                                                                        \
        }                                                                                                            \
        else                                                                                                         \
            for (int64_t i = 0; i < n; ++i) {                                                                        \
                T *a = (T *)(acc + i * acc_stride), b = (T)*(const S *)(x + i * x_stride);                           \
                *a = OP(*a, b);                                                                                      \
            }                                                                                                        \
    }

/* Extremes. The compiler vectorizes the loop over lanes when there are enough of them (measured: 256 bytes; vector types with a select
 * are taken apart). */
#define FOLD_ORDER(name, OP, T)                                                                                      \
    CLONES static void name(int64_t n, char *acc, int64_t acc_stride, const char *x, int64_t x_stride)               \
    {                                                                                                                \
        enum { LANES = 256 / sizeof(T) };                                                                            \
        if (acc_stride == 0) {                                                                                       \
            T total = *(T *)acc;                                                                                     \
            int64_t i = 0;                                                                                           \
            if (x_stride == sizeof(T) && n >= LANES) {                                                               \
                const T *p = (const T *)x;                                                                           \
                T lane[LANES];                                                                                       \
                memcpy(lane, p, sizeof lane);                                                                        \
                for (i = LANES; i + LANES <= n; i += LANES)                                                          \
                    _Pragma("GCC ivdep") for (int l = 0; l < (int)LANES; ++l)                                        \
                    {                                                                                                \
                        T a = lane[l], b = p[i + l];                                                                 \
                        lane[l] = OP(a, b);                                                                          \
                    }                                                                                                \
                for (int l = 0; l < (int)LANES; ++l)                                                                 \
                    total = OP(total, lane[l]);                                                                      \
            }                                                                                                        \
            for (; i < n; ++i) {                                                                                     \
                T b = *(const T *)(x + i * x_stride);                                                                \
                total = OP(total, b);                                                                                \
            }                                                                                                        \
            *(T *)acc = total;                                                                                       \
        }                                                                                                            \
        else if (acc_stride == sizeof(T) && x_stride == sizeof(T)) {                                                 \
            T *a = (T *)acc;                                                                                         \
            const T *p = (const T *)x;                                                                               \
            _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i)                                                     \
            {                                                                                                        \
                T b = p[i];                                                                                          \
                a[i] = OP(a[i], b);                                                                                  \
            }                                                                                                        \
        }                                                                                                            \
        else                                                                                                         \
            for (int64_t i = 0; i < n; ++i) {                                                                        \
                T *a = (T *)(acc + i * acc_stride), b = *(const T *)(x + i * x_stride);                              \
                *a = OP(*a, b);                                                                                      \
            }                                                                                                        \
    }

/* Complex numbers: no vector types, two accumulators. */
#define FOLD_COMPLEX(name, OP, T, S)                                                                                 \
    static void name(int64_t n, char *acc, int64_t acc_stride, const char *x, int64_t x_stride)                      \
    {                                                                                                                \
        if (acc_stride == 0) {                                                                                       \
            T even = *(T *)acc;                                                                                      \
            for (int64_t i = 0; i < n; ++i) {                                                                        \
                T b = (T) * (const S *)(x + i * x_stride);                                                           \
                even = OP(even, b);                                                                                  \
            }                                                                                                        \
            *(T *)acc = even;                                                                                        \
        }                                                                                                            \
        else                                                                                                         \
            for (int64_t i = 0; i < n; ++i) {                                                                        \
                T *a = (T *)(acc + i * acc_stride), b = (T) * (const S *)(x + i * x_stride);                         \
                *a = OP(*a, b);                                                                                      \
            }                                                                                                        \
    }

typedef float _Complex c64;
typedef double _Complex c128;

#define SUM_AND_PRODUCT(suffix, T, S) FOLD(add_##suffix, ADD, T, S) FOLD(mul_##suffix, MUL, T, S)
SUM_AND_PRODUCT(i8_i64, int64_t, int8_t)
SUM_AND_PRODUCT(i16_i64, int64_t, int16_t)
SUM_AND_PRODUCT(i32_i64, int64_t, int32_t)
SUM_AND_PRODUCT(i64_i64, int64_t, int64_t)
SUM_AND_PRODUCT(u8_u64, uint64_t, uint8_t)
SUM_AND_PRODUCT(u16_u64, uint64_t, uint16_t)
SUM_AND_PRODUCT(u32_u64, uint64_t, uint32_t)
SUM_AND_PRODUCT(f32_f32, float, float)
SUM_AND_PRODUCT(f32_f64, double, float)
SUM_AND_PRODUCT(f64_f64, double, double)
SUM_AND_PRODUCT(i64_f64, double, int64_t)
SUM_AND_PRODUCT(i32_f64, double, int32_t)
FOLD_COMPLEX(add_c64_c64, ADD, c64, c64)
FOLD_COMPLEX(mul_c64_c64, MUL, c64, c64)
FOLD_COMPLEX(add_c64_c128, ADD, c128, c64)
FOLD_COMPLEX(mul_c64_c128, MUL, c128, c64)
FOLD_COMPLEX(add_c128_c128, ADD, c128, c128)
FOLD_COMPLEX(mul_c128_c128, MUL, c128, c128)

#define ORDER(suffix, T) FOLD_ORDER(max_##suffix, MAX, T) FOLD_ORDER(min_##suffix, MIN, T)
ORDER(i8, int8_t)
ORDER(i16, int16_t)
ORDER(i32, int32_t)
ORDER(i64, int64_t)
ORDER(u8, uint8_t)
ORDER(u16, uint16_t)
ORDER(u32, uint32_t)
ORDER(u64, uint64_t)
ORDER(f32, float)
ORDER(f64, double)

/* Signedness does not matter to bits. */
#define BITS(suffix, T) FOLD(and_##suffix, AND, T, T) FOLD(or_##suffix, OR, T, T) FOLD(xor_##suffix, XOR, T, T)
BITS(8, int8_t)
BITS(16, int16_t)
BITS(32, int32_t)
BITS(64, int64_t)

enum { OP_OTHER, OP_ADD, OP_MUL, OP_MAX, OP_MIN, OP_AND, OP_OR, OP_XOR };

/* dtypes by kind and size, so that long and long long are one. */
static int dtype_key(int type_num)
{
    switch (type_num) {
    case NPY_BOOL: return 'b' << 8 | 1;
    case NPY_BYTE: return 'i' << 8 | 1;
    case NPY_SHORT: return 'i' << 8 | 2;
    case NPY_INT: return 'i' << 8 | 4;
    case NPY_LONG: return 'i' << 8 | (int)sizeof(long);
    case NPY_LONGLONG: return 'i' << 8 | 8;
    case NPY_UBYTE: return 'u' << 8 | 1;
    case NPY_USHORT: return 'u' << 8 | 2;
    case NPY_UINT: return 'u' << 8 | 4;
    case NPY_ULONG: return 'u' << 8 | (int)sizeof(long);
    case NPY_ULONGLONG: return 'u' << 8 | 8;
    case NPY_FLOAT: return 'f' << 8 | 4;
    case NPY_DOUBLE: return 'f' << 8 | 8;
    case NPY_CFLOAT: return 'c' << 8 | 8;
    case NPY_CDOUBLE: return 'c' << 8 | 16;
    default: return 0;
    }
}
#define KEY(kind, size) ((kind) << 8 | (size))
#define PAIR(kind_x, size_x, kind_acc, size_acc) (KEY(kind_x, size_x) << 16 | KEY(kind_acc, size_acc))

#define CASES_ADD_MUL(op)                                        \
    switch (dtype_key(x_type) << 16 | dtype_key(acc_type)) {     \
    case PAIR('i', 1, 'i', 8): return op##_i8_i64;               \
    case PAIR('i', 2, 'i', 8): return op##_i16_i64;              \
    case PAIR('i', 4, 'i', 8): return op##_i32_i64;              \
    case PAIR('i', 8, 'i', 8): return op##_i64_i64;              \
    case PAIR('b', 1, 'i', 8):                                   \
    case PAIR('b', 1, 'u', 8):                                   \
    case PAIR('u', 1, 'u', 8): return op##_u8_u64;               \
    case PAIR('u', 2, 'u', 8): return op##_u16_u64;              \
    case PAIR('u', 4, 'u', 8): return op##_u32_u64;              \
    case PAIR('u', 8, 'u', 8): return op##_i64_i64;              \
    case PAIR('f', 4, 'f', 4): return op##_f32_f32;              \
    case PAIR('f', 4, 'f', 8): return op##_f32_f64;              \
    case PAIR('f', 8, 'f', 8): return op##_f64_f64;              \
    case PAIR('i', 8, 'f', 8): return op##_i64_f64;              \
    case PAIR('i', 4, 'f', 8): return op##_i32_f64;              \
    case PAIR('c', 8, 'c', 8): return op##_c64_c64;              \
    case PAIR('c', 8, 'c', 16): return op##_c64_c128;            \
    case PAIR('c', 16, 'c', 16): return op##_c128_c128;          \
    default: return NULL;                                        \
    }
#define CASES_ORDER(op)                                          \
    switch (dtype_key(x_type)) {                                 \
    case KEY('i', 1): return op##_i8;                            \
    case KEY('i', 2): return op##_i16;                           \
    case KEY('i', 4): return op##_i32;                           \
    case KEY('i', 8): return op##_i64;                           \
    case KEY('b', 1):                                            \
    case KEY('u', 1): return op##_u8;                            \
    case KEY('u', 2): return op##_u16;                           \
    case KEY('u', 4): return op##_u32;                           \
    case KEY('u', 8): return op##_u64;                           \
    case KEY('f', 4): return op##_f32;                           \
    case KEY('f', 8): return op##_f64;                           \
    default: return NULL;                                        \
    }
#define CASES_BITS(op)                                           \
    switch (dtype_key(x_type) & 0xff) {                          \
    case 1: return op##_8;                                       \
    case 2: return op##_16;                                      \
    case 4: return op##_32;                                      \
    case 8: return op##_64;                                      \
    default: return NULL;                                        \
    }

/* The shipped fold for an operation, or NULL. */
static fold_fn find_fold(int op, int x_type, int acc_type)
{
    int same = dtype_key(x_type) == dtype_key(acc_type), kind = dtype_key(x_type) >> 8;
    switch (op) {
    case OP_ADD: CASES_ADD_MUL(add)
    case OP_MUL: CASES_ADD_MUL(mul)
    case OP_MAX:
        if (!same)
            return NULL;
        CASES_ORDER(max)
    case OP_MIN:
        if (!same)
            return NULL;
        CASES_ORDER(min)
    default: break;
    }
    if (!same || kind == 'f' || kind == 'c')
        return NULL;
    switch (op) {
    case OP_AND: CASES_BITS(and)
    case OP_OR: CASES_BITS(or)
    case OP_XOR: CASES_BITS(xor)
    default: return NULL;
    }
}

/* -- loops -------------------------------------------------------------------------------------------------------- */

typedef struct {
    fold_fn fold;
    fold_fn pairwise; /* how two accumulators are added, when the sum is pairwise; else NULL */
    int64_t acc_item;
} Fold;

/* Folds a stretch into one accumulator; halves of long stretches are summed apart. */
static void fold_stretch(const Fold *f, int64_t n, char *acc, const char *x, int64_t x_stride)
{
    if (f->pairwise == NULL || n <= PAIRWISE_MIN) {
        f->fold(n, acc, 0, x, x_stride);
        return;
    }
    int64_t half = n / 2 / 64 * 64;
    int64_t left[2] = {0, 0}, right[2] = {0, 0};
    fold_stretch(f, half, (char *)left, x, x_stride);
    fold_stretch(f, n - half, (char *)right, x + half * x_stride, x_stride);
    f->pairwise(1, (char *)left, 0, (char *)right, f->acc_item);
    f->pairwise(1, acc, 0, (char *)left, f->acc_item);
}

/* acc OP= x over a box; dimensions where acc_strides is 0 are reduced. */
static void fold_box(const Fold *f, int nd, const int64_t *dims, char *acc, const int64_t *acc_strides, const char *x, const int64_t *x_strides)
{
    int64_t lens[MAX_ND + 1], as[MAX_ND + 1], xs[MAX_ND + 1], index[MAX_ND + 1];
    int loops = 0;
    for (int d = nd - 1; d >= 0; --d) {
        if (dims[d] == 0)
            return;
        if (dims[d] == 1)
            continue;
        int64_t key = llabs(x_strides[d]);
        int at = loops++;
        while (at > 0 && llabs(xs[at - 1]) > key) {
            lens[at] = lens[at - 1];
            as[at] = as[at - 1];
            xs[at] = xs[at - 1];
            --at;
        }
        lens[at] = dims[d];
        as[at] = acc_strides[d];
        xs[at] = x_strides[d];
    }
    for (int k = 0; k + 1 < loops;) {
        if (xs[k + 1] == xs[k] * lens[k] && as[k + 1] == as[k] * lens[k]) {
            lens[k] *= lens[k + 1];
            for (int j = k + 1; j + 1 < loops; ++j) {
                lens[j] = lens[j + 1];
                as[j] = as[j + 1];
                xs[j] = xs[j + 1];
            }
            --loops;
        }
        else
            ++k;
    }
    if (loops == 0) {
        f->fold(1, acc, 0, x, 0);
        return;
    }
    /* A call for each few elements would cost more than jumping through memory. */
    if (loops > 1 && lens[0] < 16 && lens[1] > 4 * lens[0]) {
        int64_t t;
        t = lens[0], lens[0] = lens[1], lens[1] = t;
        t = as[0], as[0] = as[1], as[1] = t;
        t = xs[0], xs[0] = xs[1], xs[1] = t;
    }
    /* Adding up long rows: by tiles whose accumulators stay in the cache. */
    int64_t width = lens[0], tile = loops > 1 && as[0] != 0 && as[1] == 0 && width > 2 * TILE ? TILE : width;
    for (int64_t from = 0; from < width; from += tile) {
        int64_t n = width - from < tile ? width - from : tile;
        char *a = acc + from * as[0];
        const char *p = x + from * xs[0];
        memset(index, 0, sizeof index);
        for (;;) {
            if (as[0] == 0)
                fold_stretch(f, n, a, p, xs[0]);
            else
                f->fold(n, a, as[0], p, xs[0]);
            int k = 1;
            for (; k < loops; ++k) {
                a += as[k];
                p += xs[k];
                if (++index[k] < lens[k])
                    break;
                a -= as[k] * lens[k];
                p -= xs[k] * lens[k];
                index[k] = 0;
            }
            if (k == loops)
                break;
        }
    }
}

/* -- tng_reduce --------------------------------------------------------------------------------------------------- */

/* Words: fold kernel (0: shipped), operation OP_*, rank, reduced axes (bits), element, accumulator and output type numbers, has an
 * identity, the identity's bytes (two words). */
enum { W_KERNEL, W_OP, W_ND, W_AXES, W_X_TYPE, W_ACC_TYPE, W_OUT_TYPE, W_HAS_IDENTITY, W_IDENTITY, W_END = W_IDENTITY + 2 };

static int check_input(PyObject *value, int nd, int type, PyArrayObject **x)
{
    if (!PyArray_Check(value) || PyArray_NDIM((PyArrayObject *)value) != nd
        || (type >= 0 && !PyArray_EquivTypenums(PyArray_TYPE((PyArrayObject *)value), type))) {
        PyErr_Format(PyExc_TypeError, "Reduction: the input must be an ndarray with %d dimensions and type number %d", nd, type);
        return -1;
    }
    /* A new reference; a copy only of what is misaligned or byte-swapped. */
    *x = (PyArrayObject *)PyArray_FromArray((PyArrayObject *)value, PyArray_DescrFromType(PyArray_TYPE((PyArrayObject *)value)),
                                            NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED);
    return *x == NULL ? -1 : 0;
}

/* Whether the extents of two arrays overlap. */
static int share_memory(PyArrayObject *a, PyArrayObject *b)
{
    PyArrayObject *both[2] = {a, b};
    intptr_t low[2], high[2];
    for (int k = 0; k < 2; ++k) {
        low[k] = high[k] = (intptr_t)PyArray_DATA(both[k]);
        for (int d = 0; d < PyArray_NDIM(both[k]); ++d) {
            if (PyArray_DIM(both[k], d) == 0)
                return 0;
            intptr_t reach = (PyArray_DIM(both[k], d) - 1) * PyArray_STRIDE(both[k], d);
            *(reach < 0 ? &low[k] : &high[k]) += reach;
        }
        high[k] += PyArray_ITEMSIZE(both[k]);
    }
    return low[0] < high[1] && low[1] < high[0];
}

static int tng_reduce(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    int nd = (int)params[W_ND], kept = 0, status = -1;
    int64_t axes = params[W_AXES];
    npy_intp out_dims[MAX_ND];
    int64_t dims[MAX_ND], x_strides[MAX_ND], acc_strides[MAX_ND];
    PyArrayObject *x, *acc = NULL, *result;
    (void)nin;
    (void)nout;
    if (check_input(in[0], nd, (int)params[W_X_TYPE], &x) < 0)
        return -1;
    Fold f = {NULL, NULL, 0};
    f.fold = params[W_KERNEL] ? (fold_fn)(intptr_t)params[W_KERNEL] : find_fold((int)params[W_OP], (int)params[W_X_TYPE], (int)params[W_ACC_TYPE]);
    if (f.fold == NULL) {
        PyErr_SetString(PyExc_SystemError, "Reduction: no shipped code for these types and no kernel");
        goto done;
    }
    if (params[W_OP] == OP_ADD && PyTypeNum_ISINTEGER((int)params[W_ACC_TYPE]) == 0)
        f.pairwise = find_fold(OP_ADD, (int)params[W_ACC_TYPE], (int)params[W_ACC_TYPE]);

    int64_t reduced = 1;
    int first = -1;
    for (int d = 0; d < nd; ++d) {
        dims[d] = PyArray_DIM(x, d);
        x_strides[d] = PyArray_STRIDE(x, d);
        if (axes >> d & 1) {
            reduced *= dims[d];
            if (dims[d] == 0 && first < 0)
                first = d;
        }
        else
            out_dims[kept++] = dims[d];
    }
    result = native_alloc(&out[0], kept, out_dims, (int)params[W_OUT_TYPE]);
    if (result == NULL)
        goto done;
    if (result == (PyArrayObject *)in[0] || share_memory(result, x)) {
        Py_CLEAR(out[0]);
        result = native_alloc(&out[0], kept, out_dims, (int)params[W_OUT_TYPE]);
        if (result == NULL)
            goto done;
    }
    if (PyArray_EquivTypenums((int)params[W_ACC_TYPE], (int)params[W_OUT_TYPE])) {
        acc = result;
        Py_INCREF(acc);
    }
    else {
        acc = native_new(kept, out_dims, (int)params[W_ACC_TYPE], 0);
        if (acc == NULL)
            goto done;
    }
    f.acc_item = PyArray_ITEMSIZE(acc);
    npy_intp acc_size = PyArray_SIZE(acc);
    for (int d = 0, k = 0; d < nd; ++d)
        acc_strides[d] = axes >> d & 1 ? 0 : PyArray_STRIDE(acc, k++);

    if (acc_size == 0)
        ;
    else if (params[W_HAS_IDENTITY]) {
        char *to = PyArray_BYTES(acc);
        if (params[W_IDENTITY] == 0 && params[W_IDENTITY + 1] == 0)
            memset(to, 0, (size_t)(acc_size * f.acc_item));
        else
            for (npy_intp i = 0; i < acc_size; ++i)
                memcpy(to + i * f.acc_item, &params[W_IDENTITY], (size_t)f.acc_item);
        fold_box(&f, nd, dims, PyArray_BYTES(acc), acc_strides, PyArray_BYTES(x), x_strides);
    }
    else if (reduced == 0) {
        PyErr_Format(PyExc_ValueError,
                     "Reduction: the input has length 0 in dimension %d, and the reduced operation has no identity to return for no elements",
                     first);
        goto done;
    }
    else {
        /* The first element of each group, then the others: along each reduced axis those behind the first, at index 0 of the
         * reduced axes before it. */
        int64_t box[MAX_ND];
        npy_intp head_strides[MAX_ND];
        for (int d = 0, k = 0; d < nd; ++d)
            if (!(axes >> d & 1))
                head_strides[k++] = x_strides[d];
        PyArrayObject *head = (PyArrayObject *)PyArray_New(&PyArray_Type, kept, out_dims, PyArray_TYPE(x), head_strides, PyArray_DATA(x), 0,
                                                           NPY_ARRAY_ALIGNED, NULL);
        if (head == NULL)
            goto done;
        int copied = PyArray_CopyInto(acc, head);
        Py_DECREF(head);
        if (copied < 0)
            goto done;
        memcpy(box, dims, sizeof box);
        for (int d = 0; d < nd; ++d)
            if (axes >> d & 1)
                box[d] = 1;
        for (int d = nd - 1; d >= 0; --d) {
            if (!(axes >> d & 1))
                continue;
            if (dims[d] > 1) {
                box[d] = dims[d] - 1;
                fold_box(&f, nd, box, PyArray_BYTES(acc), acc_strides, PyArray_BYTES(x) + x_strides[d], x_strides);
            }
            box[d] = dims[d];
        }
    }
    status = acc == result ? 0 : PyArray_CopyInto(result, acc);
done:
    Py_XDECREF(acc);
    Py_DECREF(x);
    return status;
}

/* -- argmax ------------------------------------------------------------------------------------------------------- */

/* The place of the largest of n elements, the first among equals; the first NaN if there is one. */
#define ARGMAX(suffix, T, MAX_FOLD)                                                                   \
    CLONES static int64_t argmax_##suffix(const char *x, int64_t n, int64_t stride)                          \
    {                                                                                                 \
        T best = *(const T *)x;                                                                       \
        if (stride == (int64_t)sizeof(T) && n >= 64) {                                                \
            /* Two vectorized passes beat one that remembers places. */                               \
            MAX_FOLD(n - 1, (char *)&best, 0, x + stride, stride);                                    \
            const T *p = (const T *)x;                                                                \
            for (int64_t block = 0; block < n; block += 256) {                                        \
                int64_t end = block + 256 < n ? block + 256 : n, i;                                   \
                int found = 0;                                                                        \
                for (i = block; i < end; ++i)                                                         \
                    found |= (p[i] == best) | (p[i] != p[i]);                                         \
                for (i = block; found && i < end; ++i)                                                \
                    if (p[i] == best || p[i] != p[i])                                                 \
                        return i;                                                                     \
            }                                                                                         \
        }                                                                                             \
        int64_t at = 0;                                                                               \
        for (int64_t i = 1; i < n && best == best; ++i) {                                             \
            T value = *(const T *)(x + i * stride);                                                   \
            if (value > best || value != value) {                                                     \
                best = value;                                                                         \
                at = i;                                                                               \
            }                                                                                         \
        }                                                                                             \
        return at;                                                                                    \
    }
ARGMAX(i8, int8_t, max_i8)
ARGMAX(i16, int16_t, max_i16)
ARGMAX(i32, int32_t, max_i32)
ARGMAX(i64, int64_t, max_i64)
ARGMAX(u8, uint8_t, max_u8)
ARGMAX(u16, uint16_t, max_u16)
ARGMAX(u32, uint32_t, max_u32)
ARGMAX(u64, uint64_t, max_u64)
ARGMAX(f32, float, max_f32)
ARGMAX(f64, double, max_f64)

typedef int64_t (*argmax_fn)(const char *x, int64_t n, int64_t stride);

static argmax_fn find_argmax(int x_type)
{
    CASES_ORDER(argmax)
}

/* Word 0: the axes (bits); they are walked in C order. `best` and `place` are the outputs' cells; `best` may be NULL. */
static int argmax_over(PyObject *input, PyObject **best, PyObject **place, int64_t axes)
{
    PyArrayObject *x, *moved = NULL, *rows = NULL, *index, *values = NULL;
    int kept = 0, nd = PyArray_Check(input) ? PyArray_NDIM((PyArrayObject *)input) : -1, status = -1;
    npy_intp order[MAX_ND], kept_dims[MAX_ND + 1];
    int64_t length = 1;
    if (nd > MAX_ND || check_input(input, nd, -1, &x) < 0) {
        if (nd > MAX_ND)
            PyErr_Format(PyExc_ValueError, "argmax: more than %d dimensions", MAX_ND);
        return -1;
    }
    argmax_fn find = find_argmax(PyArray_TYPE(x));
    if (find == NULL) {
        PyErr_SetString(PyExc_TypeError, "argmax: dtypes without an order, and float16, have no C code");
        goto done;
    }
    for (int d = 0; d < nd; ++d)
        if (!(axes >> d & 1)) {
            kept_dims[kept] = PyArray_DIM(x, d);
            order[kept++] = d;
        }
    int at = kept;
    for (int d = 0; d < nd; ++d)
        if (axes >> d & 1) {
            order[at++] = d;
            length *= PyArray_DIM(x, d);
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
    if (length == 0 && count > 0) {
        PyErr_SetString(PyExc_ValueError, "Max and argmax of an empty dimension have no value");
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
    /* Rows: the kept dimensions, and the reduced ones joined (a copy only where they cannot be walked with one stride). */
    kept_dims[kept] = (npy_intp)length;
    PyArray_Dims shape = {kept_dims, kept + 1};
    rows = (PyArrayObject *)PyArray_Newshape(moved, &shape, NPY_CORDER);
    if (rows == NULL)
        goto done;
    int64_t stride = PyArray_STRIDE(rows, kept), item = PyArray_ITEMSIZE(rows), position[MAX_ND] = {0};
    const char *row = PyArray_BYTES(rows);
    int64_t *indices = PyArray_DATA(index);
    for (npy_intp i = 0; i < count; ++i) {
        int64_t found = find(row, length, stride);
        indices[i] = found;
        if (values != NULL)
            memcpy(PyArray_BYTES(values) + i * item, row + found * stride, (size_t)item);
        for (int d = kept - 1; d >= 0; --d) {
            row += PyArray_STRIDE(rows, d);
            if (++position[d] < kept_dims[d])
                break;
            row -= PyArray_STRIDE(rows, d) * kept_dims[d];
            position[d] = 0;
        }
    }
    status = 0;
done:
    Py_XDECREF(rows);
    Py_XDECREF(moved);
    Py_DECREF(x);
    return status;
}

static int tng_max_and_argmax(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    (void)nin;
    (void)nout;
    return argmax_over(in[0], &out[0], &out[1], params[0]);
}

static int tng_argmax(int nin, int nout, PyObject **in, PyObject **out, int64_t *params)
{
    (void)nin;
    (void)nout;
    return argmax_over(in[0], NULL, &out[0], params[0]);
}

/* Whether `reduce` has shipped code: words (operation, element type number, accumulator type number), answer in out-less form. */
static PyObject *has_fold(PyObject *self, PyObject *args)
{
    int op, x_type, acc_type;
    (void)self;
    if (!PyArg_ParseTuple(args, "iii", &op, &x_type, &acc_type))
        return NULL;
    return PyBool_FromLong(find_fold(op, x_type, acc_type) != NULL);
}

static PyMethodDef methods[] = {
    {"has_fold", has_fold, METH_VARARGS, "has_fold(operation, element type number, accumulator type number): whether no kernel is needed."},
    {NULL, NULL, 0, NULL},
};

static const NativeEntry entries[] = {
    {"reduce", tng_reduce}, {"max_and_argmax", tng_max_and_argmax}, {"argmax", tng_argmax}, {NULL, NULL},
};

static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "reduce", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_reduce(void)
{
    import_array();
    PyObject *module = PyModule_Create(&module_def);
    if (module == NULL || native_add_entries(module, entries) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
