/* The inner loops of reductions that ship with the package, for reduce.c and argmax.c.
 *
 * A fold combines elements with accumulators. It has three forms:
 *
 *     void NAME(int64_t n, char *acc, int64_t acc_stride, const char *x, int64_t x_stride)
 *         acc[i] = acc[i] OP x[i]
 *     void NAME_rows(int64_t n, char *acc, const char *x, int64_t row_stride, int64_t rows)
 *         acc[i] = acc[i] OP x[0][i] OP x[1][i] ...
 *     void NAME_short(int64_t n, char *acc, const char *x, int64_t row_stride, int64_t length)
 *         acc[i] = acc[i] OP x[i][0] OP x[i][1] ...
 *
 * With acc_stride 0 the first form folds all elements into one accumulator. The second form is for contiguous rows. It
 * takes several rows at a time, and reads and writes each accumulator only once for these rows. The third form is for
 * rows of few elements, with one accumulator for each row. T is the type of accumulators, S the type of elements. */
#ifndef THEANO_NG_REDUCE_FOLDS_H
#define THEANO_NG_REDUCE_FOLDS_H

#include "native.h"
#include "common/target_clones.h"
#include <math.h>

typedef void (*fold_fn)(int64_t n, char *acc, int64_t acc_stride, const char *x, int64_t x_stride);
typedef void (*rows_fn)(int64_t n, char *acc, const char *x, int64_t row_stride, int64_t rows);

#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#define AND(a, b) ((a) & (b))
#define OR(a, b) ((a) | (b))
#define XOR(a, b) ((a) ^ (b))
/* The result is NaN if an argument is NaN. */
#define MAX(a, b) (((b) > (a)) | ((b) != (b)) ? (b) : (a))
#define MIN(a, b) (((b) < (a)) | ((b) != (b)) ? (b) : (a))
/* A NaN in the second argument is ignored. Each of these macros is a single vector instruction. */
#define BARE_MAX(a, b) ((b) > (a) ? (b) : (a))
#define BARE_MIN(a, b) ((b) < (a) ? (b) : (a))

/* Copy strided elements to a contiguous buffer. A stride of two elements (parts of complex numbers) has a separate
 * loop, in which the stride is a constant: compilers then load whole vectors instead of single elements. */
#define GATHER(to, T, n, from, stride)              \
    if ((stride) == 2 * (int64_t)sizeof(T))         \
        for (int64_t j_ = 0; j_ < (n); ++j_)        \
            (to)[j_] = ((const T *)(from))[2 * j_]; \
    else                                            \
        for (int64_t j_ = 0; j_ < (n); ++j_)        \
            (to)[j_] = *(const T *)((from) + j_ * (stride));

/* Fold groups of 8 of the elements that remain after the loop over whole vectors. The 8 elements of a group have
 * separate accumulators, so that an operation does not wait for the previous operation. */
#define FOLD_LANES(OP, T, S, STRIDE)                                                                             \
    {                                                                                                            \
        const char *p = x + i * (STRIDE);                                                                        \
        T lane[8];                                                                                               \
        for (int l = 0; l < 8; ++l)                                                                              \
            lane[l] = (T) * (const S *)(p + l * (STRIDE));                                                       \
        for (i += 8; i + 8 <= n; i += 8) {                                                                       \
            p = x + i * (STRIDE);                                                                                \
            for (int l = 0; l < 8; ++l) {                                                                        \
                T b = (T) * (const S *)(p + l * (STRIDE));                                                       \
                lane[l] = OP(lane[l], b);                                                                        \
            }                                                                                                    \
        }                                                                                                        \
        _Pragma("GCC unroll 4") for (int half = 4; half > 0; half /= 2) for (int l = 0; l < half; ++l) lane[l] = \
            OP(lane[l], lane[l + half]);                                                                         \
        total = OP(total, lane[0]);                                                                              \
    }
#define FOLD_REST(OP, T, S)                          \
    T total = *(T *)acc;                             \
    if (n - i >= 16) {                               \
        if (x_stride == sizeof(S))                   \
            FOLD_LANES(OP, T, S, (int64_t)sizeof(S)) \
        else                                         \
            FOLD_LANES(OP, T, S, x_stride)           \
    }                                                \
    for (; i < n; ++i) {                             \
        T b = (T) * (const S *)(x + i * x_stride);   \
        total = OP(total, b);                        \
    }                                                \
    *(T *)acc = total;

/* Fold each element into a separate accumulator. */
#define FOLD_ALONG(OP, T, S)                                                             \
    if (acc_stride == sizeof(T) && x_stride == sizeof(S)) {                              \
        T *a = (T *)acc;                                                                 \
        const S *p = (const S *)x;                                                       \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i)                             \
        {                                                                                \
            T b = (T)p[i];                                                               \
            a[i] = OP(a[i], b);                                                          \
        }                                                                                \
    }                                                                                    \
    else                                                                                 \
        for (int64_t i = 0; i < n; ++i) {                                                \
            T *a = (T *)(acc + i * acc_stride), b = (T) * (const S *)(x + i * x_stride); \
            *a = OP(*a, b);                                                              \
        }

/* Define NAME_rows. M: the type in which the elements of 4 rows are combined before T; it is at least as wide as S. */
#define FOLD_ROWS(name, OP, T, S, M)                                                                           \
    VECTORISED static void name##_rows(int64_t n, char *acc, const char *x, int64_t row_stride, int64_t rows)  \
    {                                                                                                          \
        T *restrict a = (T *)acc;                                                                              \
        for (; rows >= 4; rows -= 4, x += 4 * row_stride) {                                                    \
            const S *p = (const S *)x, *q = (const S *)(x + row_stride), *r = (const S *)(x + 2 * row_stride), \
                    *s = (const S *)(x + 3 * row_stride);                                                      \
            _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i)                                               \
            {                                                                                                  \
                M u = (M)p[i], v = (M)r[i], w = (M)q[i], z = (M)s[i];                                          \
                u = OP(u, w);                                                                                  \
                v = OP(v, z);                                                                                  \
                u = OP(u, v);                                                                                  \
                a[i] = OP(a[i], (T)u);                                                                         \
            }                                                                                                  \
        }                                                                                                      \
        for (; rows > 0; --rows, x += row_stride) {                                                            \
            const S *p = (const S *)x;                                                                         \
            _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) a[i] = OP(a[i], (T)p[i]);                     \
        }                                                                                                      \
    }

#define FOLD_SHORT(name, OP, T, S)                                                                               \
    VECTORISED static void name##_short(int64_t n, char *acc, const char *x, int64_t row_stride, int64_t length) \
    {                                                                                                            \
        T *restrict a = (T *)acc;                                                                                \
        for (int64_t i = 0; i < n; ++i, x += row_stride) {                                                       \
            const S *p = (const S *)x;                                                                           \
            T even = a[i], odd = (T)p[0];                                                                        \
            int64_t j = 1;                                                                                       \
            for (; j + 2 <= length; j += 2) {                                                                    \
                T b = (T)p[j], c = (T)p[j + 1];                                                                  \
                even = OP(even, b);                                                                              \
                odd = OP(odd, c);                                                                                \
            }                                                                                                    \
            if (j < length) {                                                                                    \
                T b = (T)p[j];                                                                                   \
                even = OP(even, b);                                                                              \
            }                                                                                                    \
            a[i] = OP(even, odd);                                                                                \
        }                                                                                                        \
    }

#define VECTOR_BYTES 64

/* Define all forms of a fold. Sums into one accumulator use four vectors of accumulators. */
#define FOLD(name, OP, T, S)                                                                                           \
    VECTORISED static void name(int64_t n, char *acc, int64_t acc_stride, const char *x, int64_t x_stride)             \
    {                                                                                                                  \
        enum { LANES = VECTOR_BYTES / sizeof(T) };                                                                     \
        typedef T vec __attribute__((vector_size(VECTOR_BYTES)));                                                      \
        typedef S svec __attribute__((vector_size(LANES * sizeof(S))));                                                \
        if (acc_stride == 0) {                                                                                         \
            int64_t i = 0;                                                                                             \
            if (x_stride == sizeof(S) && n >= 4 * LANES) {                                                             \
                const S *p = (const S *)x;                                                                             \
                svec s0, s1, s2, s3;                                                                                   \
                memcpy(&s0, p, sizeof s0);                                                                             \
                memcpy(&s1, p + LANES, sizeof s1);                                                                     \
                memcpy(&s2, p + 2 * LANES, sizeof s2);                                                                 \
                memcpy(&s3, p + 3 * LANES, sizeof s3);                                                                 \
                vec a0 = __builtin_convertvector(s0, vec), a1 = __builtin_convertvector(s1, vec);                      \
                vec a2 = __builtin_convertvector(s2, vec), a3 = __builtin_convertvector(s3, vec);                      \
                for (i = 4 * LANES; i + 4 * LANES <= n; i += 4 * LANES) {                                              \
                    memcpy(&s0, p + i, sizeof s0);                                                                     \
                    memcpy(&s1, p + i + LANES, sizeof s1);                                                             \
                    memcpy(&s2, p + i + 2 * LANES, sizeof s2);                                                         \
                    memcpy(&s3, p + i + 3 * LANES, sizeof s3);                                                         \
                    vec b0 = __builtin_convertvector(s0, vec), b1 = __builtin_convertvector(s1, vec);                  \
                    vec b2 = __builtin_convertvector(s2, vec), b3 = __builtin_convertvector(s3, vec);                  \
                    a0 = OP(a0, b0);                                                                                   \
                    a1 = OP(a1, b1);                                                                                   \
                    a2 = OP(a2, b2);                                                                                   \
                    a3 = OP(a3, b3);                                                                                   \
                }                                                                                                      \
                a0 = OP(a0, a1);                                                                                       \
                a2 = OP(a2, a3);                                                                                       \
                a0 = OP(a0, a2);                                                                                       \
                T last[LANES];                                                                                         \
                memcpy(last, &a0, sizeof last);                                                                        \
                _Pragma("GCC unroll 8") for (int half = LANES / 2; half > 0; half /= 2) for (int l = 0; l < half; ++l) \
                    last[l] = OP(last[l], last[l + half]);                                                             \
                *(T *)acc = OP(*(T *)acc, last[0]);                                                                    \
            }                                                                                                          \
            FOLD_REST(OP, T, S)                                                                                        \
        }                                                                                                              \
        else {                                                                                                         \
            FOLD_ALONG(OP, T, S)                                                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    FOLD_ROWS(name, OP, T, S, T) FOLD_SHORT(name, OP, T, S)

/* Define sums of narrow integers. Runs of STRETCH elements are summed in M, a 32-bit type, without overflow. */
#define FOLD_NARROW(name, T, S, M, STRETCH)                                                                \
    VECTORISED static void name(int64_t n, char *acc, int64_t acc_stride, const char *x, int64_t x_stride) \
    {                                                                                                      \
        if (acc_stride == 0) {                                                                             \
            int64_t i = 0;                                                                                 \
            if (x_stride == sizeof(S)) {                                                                   \
                const S *p = (const S *)x;                                                                 \
                T sum = *(T *)acc;                                                                         \
                while (i < n) {                                                                            \
                    int64_t end = n - i < STRETCH ? n : i + STRETCH;                                       \
                    M part = 0;                                                                            \
                    for (; i < end; ++i)                                                                   \
                        part += p[i];                                                                      \
                    sum += part;                                                                           \
                }                                                                                          \
                *(T *)acc = sum;                                                                           \
                return;                                                                                    \
            }                                                                                              \
            FOLD_REST(ADD, T, S)                                                                           \
        }                                                                                                  \
        else {                                                                                             \
            FOLD_ALONG(ADD, T, S)                                                                          \
        }                                                                                                  \
    }                                                                                                      \
    FOLD_ROWS(name, ADD, T, S, M) FOLD_SHORT(name, ADD, T, S)

/* The variant of FOLD_LANES for an extreme. BARE ignores a NaN in its second argument, so `odd` records separately
 * whether an element is NaN. */
#define ORDER_LANES(BARE, T, FLAG, IS_FLOAT, STRIDE)                                                   \
    {                                                                                                  \
        const char *p = x + i * (STRIDE);                                                              \
        T lane[8];                                                                                     \
        FLAG odd[8] = {0};                                                                             \
        for (int l = 0; l < 8; ++l)                                                                    \
            lane[l] = *(const T *)(p + l * (STRIDE));                                                  \
        for (; i + 8 <= n; i += 8) {                                                                   \
            p = x + i * (STRIDE);                                                                      \
            for (int l = 0; l < 8; ++l) {                                                              \
                T b = *(const T *)(p + l * (STRIDE));                                                  \
                lane[l] = BARE(lane[l], b);                                                            \
                if (IS_FLOAT)                                                                          \
                    odd[l] |= b != b;                                                                  \
            }                                                                                          \
        }                                                                                              \
        _Pragma("GCC unroll 4") for (int half = 4; half > 0; half /= 2) for (int l = 0; l < half; ++l) \
        {                                                                                              \
            lane[l] = BARE(lane[l], lane[l + half]);                                                   \
            odd[l] |= odd[l + half];                                                                   \
        }                                                                                              \
        total = odd[0] ? (T)(IS_FLOAT ? NAN : 0) : total != total ? total : BARE(total, lane[0]);      \
    }
#define ORDER_REST(OP, BARE, T, FLAG, IS_FLOAT)                      \
    T total = *(T *)acc;                                             \
    if (n - i >= 16) {                                               \
        if (x_stride == sizeof(T))                                   \
            ORDER_LANES(BARE, T, FLAG, IS_FLOAT, (int64_t)sizeof(T)) \
        else                                                         \
            ORDER_LANES(BARE, T, FLAG, IS_FLOAT, x_stride)           \
    }                                                                \
    for (; i < n; ++i) {                                             \
        T b = *(const T *)(x + i * x_stride);                        \
        total = OP(total, b);                                        \
    }                                                                \
    *(T *)acc = total;

/* Define all forms of a maximum or minimum. The code has loops over lanes, which the compiler vectorizes, instead of
 * vector types, for which the compiler would split the selection `?:`. BARE ignores NaN, so NaN is searched separately.
 * FLAG: an integer type of the size of T. */
#define FOLD_ORDER(name, OP, BARE, T, FLAG, IS_FLOAT)                                                                  \
    VECTORISED static void name(int64_t n, char *acc, int64_t acc_stride, const char *x, int64_t x_stride)             \
    {                                                                                                                  \
        enum { LANES = sizeof(T) > 4 ? 32 : 128 / sizeof(T) };                                                         \
        if (acc_stride == 0) {                                                                                         \
            int64_t i = 0;                                                                                             \
            if (x_stride == sizeof(T) && n >= LANES) {                                                                 \
                const T *p = (const T *)x;                                                                             \
                T lane[LANES];                                                                                         \
                FLAG odd[LANES];                                                                                       \
                for (int l = 0; l < (int)LANES; ++l) {                                                                 \
                    lane[l] = p[l];                                                                                    \
                    odd[l] = IS_FLOAT && p[l] != p[l];                                                                 \
                }                                                                                                      \
                /* The last block overlaps the previous block: an extreme may use an element twice. */                 \
                for (i = LANES; i < n; i += LANES) {                                                                   \
                    const T *q = p + (i + LANES <= n ? i : n - LANES);                                                 \
                    _Pragma("GCC ivdep") for (int l = 0; l < (int)LANES; ++l)                                          \
                    {                                                                                                  \
                        T b = q[l];                                                                                    \
                        lane[l] = BARE(lane[l], b);                                                                    \
                        if (IS_FLOAT)                                                                                  \
                            odd[l] |= b != b;                                                                          \
                    }                                                                                                  \
                }                                                                                                      \
                FLAG any = 0;                                                                                          \
                for (int l = 0; l < (int)LANES; ++l)                                                                   \
                    any |= odd[l];                                                                                     \
                _Pragma("GCC unroll 8") for (int half = LANES / 2; half > 0; half /= 2) for (int l = 0; l < half; ++l) \
                    lane[l] = BARE(lane[l], lane[l + half]);                                                           \
                T part = any ? (T)(IS_FLOAT ? NAN : 0) : lane[0];                                                      \
                *(T *)acc = OP(*(T *)acc, part);                                                                       \
                return;                                                                                                \
            }                                                                                                          \
            else if (IS_FLOAT && x_stride != sizeof(T) && n >= 64) {                                                   \
                /* Copy the elements to a contiguous buffer, so that the search for NaN uses vectors. */               \
                T piece[512];                                                                                          \
                for (; i < n; i += 512) {                                                                              \
                    int64_t count = n - i < 512 ? n - i : 512;                                                         \
                    GATHER(piece, T, count, x + i * x_stride, x_stride)                                                \
                    name(count, acc, 0, (const char *)piece, sizeof(T));                                               \
                }                                                                                                      \
                return;                                                                                                \
            }                                                                                                          \
            ORDER_REST(OP, BARE, T, FLAG, IS_FLOAT)                                                                    \
        }                                                                                                              \
        else {                                                                                                         \
            FOLD_ALONG(OP, T, T)                                                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    VECTORISED static void name##_rows(int64_t n, char *acc, const char *x, int64_t row_stride, int64_t rows)          \
    {                                                                                                                  \
        T *restrict a = (T *)acc;                                                                                      \
        for (; rows >= 4; rows -= 4, x += 4 * row_stride) {                                                            \
            const T *p = (const T *)x, *q = (const T *)(x + row_stride), *r = (const T *)(x + 2 * row_stride),         \
                    *s = (const T *)(x + 3 * row_stride);                                                              \
            _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i)                                                       \
            {                                                                                                          \
                T u = BARE(p[i], q[i]), v = BARE(r[i], s[i]), old = a[i];                                              \
                u = BARE(u, v);                                                                                        \
                u = BARE(u, old);                                                                                      \
                if (IS_FLOAT) {                                                                                        \
                    FLAG odd = (p[i] != p[i]) | (q[i] != q[i]) | (r[i] != r[i]) | (s[i] != s[i]) | (old != old);       \
                    u = odd ? (T)(IS_FLOAT ? NAN : 0) : u;                                                             \
                }                                                                                                      \
                a[i] = u;                                                                                              \
            }                                                                                                          \
        }                                                                                                              \
        for (; rows > 0; --rows, x += row_stride) {                                                                    \
            const T *p = (const T *)x;                                                                                 \
            _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i)                                                       \
            {                                                                                                          \
                T b = p[i];                                                                                            \
                a[i] = OP(a[i], b);                                                                                    \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    VECTORISED static void name##_short(int64_t n, char *acc, const char *x, int64_t row_stride, int64_t length)       \
    {                                                                                                                  \
        T *restrict a = (T *)acc;                                                                                      \
        for (int64_t i = 0; i < n; ++i, x += row_stride) {                                                             \
            const T *p = (const T *)x;                                                                                 \
            T total = a[i], bare = total;                                                                              \
            int odd = IS_FLOAT && total != total;                                                                      \
            for (int64_t j = 0; j < length; ++j) {                                                                     \
                T b = p[j];                                                                                            \
                bare = BARE(bare, b);                                                                                  \
                odd |= IS_FLOAT && b != b;                                                                             \
            }                                                                                                          \
            a[i] = odd ? (T)(IS_FLOAT ? NAN : 0) : bare;                                                               \
        }                                                                                                              \
    }

/* Define a fold of complex numbers, which have no vector types. */
#define FOLD_COMPLEX(name, OP, T, S)                                                            \
    static void name(int64_t n, char *acc, int64_t acc_stride, const char *x, int64_t x_stride) \
    {                                                                                           \
        for (int64_t i = 0; i < n; ++i) {                                                       \
            T *a = (T *)(acc + i * acc_stride), b = (T) * (const S *)(x + i * x_stride);        \
            *a = OP(*a, b);                                                                     \
        }                                                                                       \
    }

typedef float _Complex c64;
typedef double _Complex c128;

#define SUM_AND_PRODUCT(suffix, T, S) \
    FOLD(add_##suffix, ADD, T, S)     \
    FOLD(mul_##suffix, MUL, T, S)
#define NARROW(suffix, T, S, M, STRETCH) FOLD_NARROW(add_##suffix, T, S, M, STRETCH) FOLD(mul_##suffix, MUL, T, S)
NARROW(i8_i64, int64_t, int8_t, int32_t, 65536)
NARROW(i16_i64, int64_t, int16_t, int32_t, 65536)
NARROW(u8_u64, uint64_t, uint8_t, uint32_t, 65536)
NARROW(u16_u64, uint64_t, uint16_t, uint32_t, 65536)
SUM_AND_PRODUCT(i32_i64, int64_t, int32_t)
SUM_AND_PRODUCT(i64_i64, int64_t, int64_t)
SUM_AND_PRODUCT(u32_u64, uint64_t, uint32_t)
SUM_AND_PRODUCT(f32_f32, float, float)
SUM_AND_PRODUCT(f32_f64, double, float)
SUM_AND_PRODUCT(f64_f64, double, double)
SUM_AND_PRODUCT(i64_f64, double, int64_t)
SUM_AND_PRODUCT(i32_f64, double, int32_t)
FOLD_COMPLEX(mul_c64_c64, MUL, c64, c64)
FOLD_COMPLEX(mul_c64_c128, MUL, c128, c64)
FOLD_COMPLEX(mul_c128_c128, MUL, c128, c128)

#define ORDER(suffix, T, FLAG, IS_FLOAT)                       \
    FOLD_ORDER(max_##suffix, MAX, BARE_MAX, T, FLAG, IS_FLOAT) \
    FOLD_ORDER(min_##suffix, MIN, BARE_MIN, T, FLAG, IS_FLOAT)
ORDER(i8, int8_t, int8_t, 0)
ORDER(i16, int16_t, int16_t, 0)
ORDER(i32, int32_t, int32_t, 0)
ORDER(i64, int64_t, int64_t, 0)
ORDER(u8, uint8_t, int8_t, 0)
ORDER(u16, uint16_t, int16_t, 0)
ORDER(u32, uint32_t, int32_t, 0)
ORDER(u64, uint64_t, int64_t, 0)
ORDER(f32, float, int32_t, 1)
ORDER(f64, double, int64_t, 1)

/* Bit operations do not depend on the sign, so unsigned integers use these folds, too. */
#define BITS(suffix, T)           \
    FOLD(and_##suffix, AND, T, T) \
    FOLD(or_##suffix, OR, T, T)   \
    FOLD(xor_##suffix, XOR, T, T)
BITS(8, int8_t)
BITS(16, int16_t)
BITS(32, int32_t)
BITS(64, int64_t)

/* `all` and `any` of bools: every nonzero byte is true. A fold into one result ends after the block that decides the
 * result. */
#define ALL(a, b) ((a) & ((b) != 0))
#define ANY(a, b) ((a) | ((b) != 0))
#define FOLD_LOGICAL(name, OP, DECIDED)                                                                       \
    VECTORISED static void name(int64_t n, char *acc, int64_t acc_stride, const char *x, int64_t x_stride)    \
    {                                                                                                         \
        uint8_t *a = (uint8_t *)acc;                                                                          \
        const uint8_t *p = (const uint8_t *)x;                                                                \
        if (acc_stride == 0) {                                                                                \
            for (int64_t i = 0, step = x_stride == 1 ? 1024 : 64; i < n && *a != DECIDED; i += step) {        \
                int64_t end = n - i < step ? n : i + step;                                                    \
                uint8_t found = 0;                                                                            \
                if (x_stride == 1)                                                                            \
                    for (int64_t j = i; j < end; ++j)                                                         \
                        found |= (p[j] != 0) == DECIDED;                                                      \
                else                                                                                          \
                    for (int64_t j = i; j < end; ++j)                                                         \
                        found |= (p[j * x_stride] != 0) == DECIDED;                                           \
                if (found)                                                                                    \
                    *a = DECIDED;                                                                             \
            }                                                                                                 \
        }                                                                                                     \
        else {                                                                                                \
            FOLD_ALONG(OP, uint8_t, uint8_t)                                                                  \
        }                                                                                                     \
    }                                                                                                         \
    VECTORISED static void name##_rows(int64_t n, char *acc, const char *x, int64_t row_stride, int64_t rows) \
    {                                                                                                         \
        uint8_t *restrict a = (uint8_t *)acc;                                                                 \
        for (; rows > 0; --rows, x += row_stride) {                                                           \
            const uint8_t *p = (const uint8_t *)x;                                                            \
            _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i) a[i] = OP(a[i], p[i]);                       \
        }                                                                                                     \
    }
FOLD_LOGICAL(all_8, ALL, 0)
FOLD_LOGICAL(any_8, ANY, 1)

/* -- half floats -------------------------------------------------------------------------------------------------- */

/* Convert a half float to float. The result is exact, also for denormals, infinities and NaNs. */
static inline float half_as_float(uint16_t half)
{
    uint32_t magnitude = (uint32_t)(half & 0x7fffu) << 13, sign = (uint32_t)(half & 0x8000u) << 16, bits;
    float value;
    memcpy(&value, &magnitude, sizeof value);
    value *= 0x1p112f;
    memcpy(&bits, &value, sizeof bits);
    bits = magnitude >= 0x0f800000u ? (magnitude | 0x7f800000u) : bits;
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

VECTORISED static void halves_as_floats(int64_t n, const char *x, int64_t x_stride, float *restrict to)
{
    if (x_stride == 2)
        for (int64_t i = 0; i < n; ++i)
            to[i] = half_as_float(((const uint16_t *)x)[i]);
    else
        for (int64_t i = 0; i < n; ++i)
            to[i] = half_as_float(*(const uint16_t *)(x + i * x_stride));
}

/* Define a fold of half floats, which are converted to floats piece by piece. `single`: the fold of floats that is
 * called for each piece. This fold determines the type of the accumulator. */
#define FOLD_HALF(name, single)                                                                  \
    static void name(int64_t n, char *acc, int64_t acc_stride, const char *x, int64_t x_stride)  \
    {                                                                                            \
        float piece[1024];                                                                       \
        for (int64_t i = 0; i < n; i += 1024) {                                                  \
            int64_t count = n - i < 1024 ? n - i : 1024;                                         \
            halves_as_floats(count, x + i * x_stride, x_stride, piece);                          \
            single(count, acc + i * acc_stride, acc_stride, (const char *)piece, sizeof(float)); \
        }                                                                                        \
    }
FOLD_HALF(add_f16_f32, add_f32_f32)
FOLD_HALF(add_f16_f64, add_f32_f64)
FOLD_HALF(mul_f16_f32, mul_f32_f32)
FOLD_HALF(mul_f16_f64, mul_f32_f64)
FOLD_HALF(max_f16, max_f32)
FOLD_HALF(min_f16, min_f32)

/* -- the table ---------------------------------------------------------------------------------------------------- */

enum { OP_OTHER, OP_ADD, OP_MUL, OP_MAX, OP_MIN, OP_AND, OP_OR, OP_XOR };

/* Return a number for the kind and size of a dtype. Types of equal kind and size, such as long and long long, have the
 * same number. */
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
    case NPY_HALF: return 'f' << 8 | 2;
    case NPY_FLOAT: return 'f' << 8 | 4;
    case NPY_DOUBLE: return 'f' << 8 | 8;
    case NPY_CFLOAT: return 'c' << 8 | 8;
    case NPY_CDOUBLE: return 'c' << 8 | 16;
    default: return 0;
    }
}

#define KEY(kind, size) ((kind) << 8 | (size))
#define PAIR(kind_x, size_x, kind_acc, size_acc) (KEY(kind_x, size_x) << 16 | KEY(kind_acc, size_acc))

typedef struct {
    fold_fn fold;
    rows_fn rows;  /* NULL: rows are folded one by one */
    rows_fn brief; /* for short rows; NULL: there is no such function */
} Fold;

#define BOTH(name) ((Fold){name, name##_rows, name##_short})
#define LOGICAL(name) ((Fold){name, name##_rows, NULL})
#define ALONE(name) ((Fold){name, NULL, NULL})
#define NOTHING ((Fold){NULL, NULL, NULL})

#define CASES_ADD_MUL(op)                                  \
    case PAIR('i', 1, 'i', 8): return BOTH(op##_i8_i64);   \
    case PAIR('i', 2, 'i', 8): return BOTH(op##_i16_i64);  \
    case PAIR('i', 4, 'i', 8): return BOTH(op##_i32_i64);  \
    case PAIR('i', 8, 'i', 8): return BOTH(op##_i64_i64);  \
    case PAIR('b', 1, 'i', 8):                             \
    case PAIR('b', 1, 'u', 8):                             \
    case PAIR('u', 1, 'u', 8): return BOTH(op##_u8_u64);   \
    case PAIR('u', 2, 'u', 8): return BOTH(op##_u16_u64);  \
    case PAIR('u', 4, 'u', 8): return BOTH(op##_u32_u64);  \
    case PAIR('u', 8, 'u', 8): return BOTH(op##_i64_i64);  \
    case PAIR('f', 2, 'f', 4): return ALONE(op##_f16_f32); \
    case PAIR('f', 2, 'f', 8): return ALONE(op##_f16_f64); \
    case PAIR('f', 4, 'f', 4): return BOTH(op##_f32_f32);  \
    case PAIR('f', 4, 'f', 8): return BOTH(op##_f32_f64);  \
    case PAIR('f', 8, 'f', 8): return BOTH(op##_f64_f64);  \
    case PAIR('i', 8, 'f', 8): return BOTH(op##_i64_f64);  \
    case PAIR('i', 4, 'f', 8): return BOTH(op##_i32_f64);
#define CASES_ORDER(op)                                      \
    switch (dtype_key(x_type) << 16 | dtype_key(acc_type)) { \
    case PAIR('i', 1, 'i', 1): return BOTH(op##_i8);         \
    case PAIR('i', 2, 'i', 2): return BOTH(op##_i16);        \
    case PAIR('i', 4, 'i', 4): return BOTH(op##_i32);        \
    case PAIR('i', 8, 'i', 8): return BOTH(op##_i64);        \
    case PAIR('b', 1, 'b', 1):                               \
    case PAIR('u', 1, 'u', 1): return BOTH(op##_u8);         \
    case PAIR('u', 2, 'u', 2): return BOTH(op##_u16);        \
    case PAIR('u', 4, 'u', 4): return BOTH(op##_u32);        \
    case PAIR('u', 8, 'u', 8): return BOTH(op##_u64);        \
    case PAIR('f', 2, 'f', 4): return ALONE(op##_f16);       \
    case PAIR('f', 4, 'f', 4): return BOTH(op##_f32);        \
    case PAIR('f', 8, 'f', 8): return BOTH(op##_f64);        \
    default: return NOTHING;                                 \
    }
#define CASES_BITS(op)                  \
    switch (dtype_key(x_type) & 0xff) { \
    case 1: return BOTH(op##_8);        \
    case 2: return BOTH(op##_16);       \
    case 4: return BOTH(op##_32);       \
    case 8: return BOTH(op##_64);       \
    default: return NOTHING;            \
    }

/* Return the fold of this file for an operation. The member `fold` of the result is NULL if there is no such fold. */
__attribute__((unused)) static Fold find_fold(int op, int x_type, int acc_type)
{
    int same = dtype_key(x_type) == dtype_key(acc_type), kind = dtype_key(x_type) >> 8;
    switch (op) {
    case OP_ADD:
        switch (dtype_key(x_type) << 16 | dtype_key(acc_type)) {
            CASES_ADD_MUL(add)
        default: return NOTHING;
        }
    case OP_MUL:
        switch (dtype_key(x_type) << 16 | dtype_key(acc_type)) {
            CASES_ADD_MUL(mul)
        case PAIR('c', 8, 'c', 8): return ALONE(mul_c64_c64);
        case PAIR('c', 8, 'c', 16): return ALONE(mul_c64_c128);
        case PAIR('c', 16, 'c', 16): return ALONE(mul_c128_c128);
        default: return NOTHING;
        }
    case OP_MAX: CASES_ORDER(max)
    case OP_MIN: CASES_ORDER(min)
    default: break;
    }
    if (!same || kind == 'f' || kind == 'c' || kind == 0)
        return NOTHING;
    if (kind == 'b' && op == OP_AND)
        return LOGICAL(all_8);
    if (kind == 'b' && op == OP_OR)
        return LOGICAL(any_8);
    switch (op) {
    case OP_AND: CASES_BITS(and)
    case OP_OR: CASES_BITS(or)
    case OP_XOR: CASES_BITS(xor)
    default: return NOTHING;
    }
}

#endif
