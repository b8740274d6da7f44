/* Functions that add rows of one dtype: dst[i] += src[i], with strides in bytes. Increments of indexed arrays call
 * these functions.
 *
 * `inc_row_for(kind, itemsize)` returns the function for a dtype ('b', 'i', 'u', 'f', 'c' as in NumPy), or NULL if
 * there is no such function. The file is self-contained, and valid GNU C11 and C++.
 * theano_ng.tensor.inc_code.inc_code() returns this file as text. */
#ifndef THEANO_NG_INC_CODE_H
#define THEANO_NG_INC_CODE_H

#include <stdint.h>
#include <stddef.h>
#include <string.h>

typedef void (*inc_row_fn)(ptrdiff_t n, char *dst, ptrdiff_t ds, const char *src, ptrdiff_t ss);

/* An attribute of the functions below. A module that must run on every processor of an architecture defines this macro,
 * so that the compiler makes clones of the functions for several instruction sets. */
#ifndef INC_ROW_CLONES
#define INC_ROW_CLONES
#endif

/* The elements have a type with alignment 1, because an operand may be a view of misaligned memory. */
#define INC_ROW_FOR(NAME, TYPE)                                                                          \
    INC_ROW_CLONES static void NAME(ptrdiff_t n, char *dst, ptrdiff_t ds, const char *src, ptrdiff_t ss) \
    {                                                                                                    \
        typedef TYPE __attribute__((aligned(1), may_alias)) item;                                        \
        const ptrdiff_t size = (ptrdiff_t)sizeof(item);                                                  \
        if (ds == size && ss == size) {                                                                  \
            item *d = (item *)dst;                                                                       \
            const item *s = (const item *)src;                                                           \
            _Pragma("GCC ivdep") for (ptrdiff_t i = 0; i < n; ++i) d[i] += s[i];                         \
        }                                                                                                \
        else if (ds == size && ss == 0) {                                                                \
            item *d = (item *)dst;                                                                       \
            const TYPE s = *(const item *)src;                                                           \
            for (ptrdiff_t i = 0; i < n; ++i)                                                            \
                d[i] += s;                                                                               \
        }                                                                                                \
        else                                                                                             \
            for (ptrdiff_t i = 0; i < n; ++i)                                                            \
                *(item *)(dst + i * ds) += *(const item *)(src + i * ss);                                \
    }

/* Signed integers are added as unsigned integers: the bits of the result are equal, and unsigned overflow wraps by
 * definition. */
INC_ROW_FOR(inc_row_u1, uint8_t)
INC_ROW_FOR(inc_row_u2, uint16_t)
INC_ROW_FOR(inc_row_u4, uint32_t)
INC_ROW_FOR(inc_row_u8, uint64_t)
INC_ROW_FOR(inc_row_f4, float)
INC_ROW_FOR(inc_row_f8, double)

static void inc_row_b1(ptrdiff_t n, char *dst, ptrdiff_t ds, const char *src, ptrdiff_t ss)
{
    for (ptrdiff_t i = 0; i < n; ++i)
        dst[i * ds] = (char)(dst[i * ds] != 0 || src[i * ss] != 0);
}

static inline float inc_half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = (half >> 10) & 0x1fu, fraction = half & 0x3ffu, bits;
    if (exponent == 0x1f)
        bits = sign | 0x7f800000u | (fraction << 13);
    else if (exponent != 0)
        bits = sign | ((exponent + 112) << 23) | (fraction << 13);
    else {
        /* Zero or subnormal: fraction * 2**-24 is exact in single precision. */
        float value = (float)fraction * 5.9604644775390625e-8f;
        memcpy(&bits, &value, 4);
        bits |= sign;
    }
    float result;
    memcpy(&result, &bits, 4);
    return result;
}

/* Round to nearest, ties to even. */
static inline uint16_t inc_float_to_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
    if (magnitude >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {
        /* Subnormal half: adding 0.5 rounds to multiples of 2**-24, the unit of the last bit of the sum. */
        float shifted;
        memcpy(&shifted, &magnitude, 4);
        shifted += 0.5f;
        memcpy(&bits, &shifted, 4);
        return (uint16_t)(sign | (bits - 0x3f000000u));
    }
    magnitude += 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((magnitude - 0x38000000u) >> 13));
}

static void inc_row_f2(ptrdiff_t n, char *dst, ptrdiff_t ds, const char *src, ptrdiff_t ss)
{
    for (ptrdiff_t i = 0; i < n; ++i) {
        uint16_t a, b;
        memcpy(&a, dst + i * ds, 2);
        memcpy(&b, src + i * ss, 2);
        a = inc_float_to_half(inc_half_to_float(a) + inc_half_to_float(b));
        memcpy(dst + i * ds, &a, 2);
    }
}

static void inc_row_c8(ptrdiff_t n, char *dst, ptrdiff_t ds, const char *src, ptrdiff_t ss)
{
    if (ds == 8 && ss == 8) {
        inc_row_f4(2 * n, dst, 4, src, 4);
        return;
    }
    inc_row_f4(n, dst, ds, src, ss);
    inc_row_f4(n, dst + 4, ds, src + 4, ss);
}

static void inc_row_c16(ptrdiff_t n, char *dst, ptrdiff_t ds, const char *src, ptrdiff_t ss)
{
    if (ds == 16 && ss == 16) {
        inc_row_f8(2 * n, dst, 8, src, 8);
        return;
    }
    inc_row_f8(n, dst, ds, src, ss);
    inc_row_f8(n, dst + 8, ds, src + 8, ss);
}

static inline inc_row_fn inc_row_for(char kind, int itemsize)
{
    switch (kind) {
    case 'b': return inc_row_b1;
    case 'i':
    case 'u':
        return itemsize == 1   ? inc_row_u1
               : itemsize == 2 ? inc_row_u2
               : itemsize == 4 ? inc_row_u4
               : itemsize == 8 ? inc_row_u8
                               : NULL;
    case 'f': return itemsize == 2 ? inc_row_f2 : itemsize == 4 ? inc_row_f4 : itemsize == 8 ? inc_row_f8 : NULL;
    case 'c': return itemsize == 8 ? inc_row_c8 : itemsize == 16 ? inc_row_c16 : NULL;
    default: return NULL;
    }
}

#endif
