/* Integer and float division, modulus and powers with the semantics of NumPy. No operand causes a trap. C11 and C++. */
#ifndef TNG_SCALAR_INTEGER_H
#define TNG_SCALAR_INTEGER_H

/* Floor division rounds towards minus infinity; x // 0 is 0; MIN // -1 wraps to MIN. The modulus has the sign of the
 * divisor.
 *
 * Vector units have no integer division. Integers that are at least 3 bits narrower than the significand of a float
 * type are converted to this type and multiplied by 1/y; the compiler computes 1/y once if y is a scalar. First, half a
 * unit with the sign of y is added to x. Then no quotient is so near to an integer that the rounding errors could
 * matter. */
#define TNG_NARROW_DIVISION(T, U, I, F, FLOOR, NAME)                                \
    static inline T tng_floordiv_##NAME(T x, T y)                                   \
    {                                                                               \
        const F inverse = 1 / (F)(y == 0 ? 1 : y), half = y < 0 ? -(F)0.5 : (F)0.5; \
        const F q = FLOOR(((F)x + half) * inverse);                                 \
        return (T)(y == 0 ? 0 : (I)q);                                              \
    }                                                                               \
    static inline T tng_mod_##NAME(T x, T y)                                        \
    {                                                                               \
        return (T)(y == 0 ? 0 : (U)x - (U)tng_floordiv_##NAME(x, y) * (U)y);        \
    }

/* 64 bits: compute the quotient in floating point, then the quotient of the remainder, then correct the result by one
 * unit. */
static inline npy_int64 tng_floordiv_int64(npy_int64 x, npy_int64 y)
{
    const npy_int64 divisor = y == 0 ? 1 : y;
    const npy_float64 inverse = 1 / (npy_float64)divisor;
    npy_int64 q = (npy_int64)((npy_float64)x * inverse), r, more;
    r = (npy_int64)((npy_uint64)x - (npy_uint64)q * (npy_uint64)divisor);
    /* Round to the nearest integer, so that |r| is at most about |divisor| / 2. */
    more = (npy_int64)((npy_float64)r * inverse + ((r ^ divisor) < 0 ? -0.5 : 0.5));
    r = (npy_int64)((npy_uint64)r - (npy_uint64)more * (npy_uint64)divisor);
    q = (npy_int64)((npy_uint64)q + (npy_uint64)more - ((r != 0) & ((r ^ divisor) < 0)));
    return y == 0 ? 0 : q;
}

static inline npy_int64 tng_mod_int64(npy_int64 x, npy_int64 y)
{
    return y == 0 ? 0 : (npy_int64)((npy_uint64)x - (npy_uint64)tng_floordiv_int64(x, y) * (npy_uint64)y);
}

/* The remainder r is an int64, whose range is too small for divisors of 2^62 and more. For these divisors, comparisons
 * determine the quotient, which is at most 3. */
static inline npy_uint64 tng_floordiv_uint64(npy_uint64 x, npy_uint64 y)
{
    const npy_uint64 divisor = y == 0 ? 1 : y;
    const npy_float64 inverse = 1 / (npy_float64)divisor;
    const npy_uint64 once = x >= y, twice = once & (x - y >= y), thrice = twice & (x - y - y >= y);
    npy_uint64 q = (npy_uint64)((npy_float64)x * inverse);
    npy_int64 r = (npy_int64)(x - q * divisor), more = (npy_int64)((npy_float64)r * inverse);
    q += (npy_uint64)more;
    r = (npy_int64)((npy_uint64)r - (npy_uint64)more * divisor);
    q += r < 0 ? (npy_uint64)-1 : r >= (npy_int64)divisor ? 1 : 0;
    q = y >> 62 != 0 ? once + twice + thrice : q;
    return y == 0 ? 0 : q;
}

static inline npy_uint64 tng_mod_uint64(npy_uint64 x, npy_uint64 y)
{
    return y == 0 ? 0 : x - tng_floordiv_uint64(x, y) * y;
}

TNG_NARROW_DIVISION(npy_int8, npy_uint32, npy_int32, npy_float32, __builtin_floorf, int8)
TNG_NARROW_DIVISION(npy_int16, npy_uint32, npy_int32, npy_float32, __builtin_floorf, int16)
TNG_NARROW_DIVISION(npy_int32, npy_uint32, npy_int64, npy_float64, __builtin_floor, int32)
TNG_NARROW_DIVISION(npy_uint8, npy_uint32, npy_int32, npy_float32, __builtin_floorf, uint8)
TNG_NARROW_DIVISION(npy_uint16, npy_uint32, npy_int32, npy_float32, __builtin_floorf, uint16)
TNG_NARROW_DIVISION(npy_uint32, npy_uint32, npy_int64, npy_float64, __builtin_floor, uint32)

/* Floor division of many integers by the same divisor. A quotient is the high half of the product of the numerator and
 * a scaled inverse of the divisor: see T. Granlund and P. Montgomery, "Division by invariant integers using
 * multiplication" (1994), figure 4.1. For a divisor of 0 the shifts yield 0. */
#define TNG_UNSIGNED_DIVISOR(U, WIDE, BITS, NAME)                            \
    typedef struct {                                                         \
        U magic;                                                             \
        int first, second;                                                   \
    } tng_divisor_##NAME;                                                    \
    static inline tng_divisor_##NAME tng_divisor_of_##NAME(U y)              \
    {                                                                        \
        tng_divisor_##NAME by = {0, 1, BITS - 1};                            \
        int bits = 0;                                                        \
        if (y == 0)                                                          \
            return by;                                                       \
        while (bits < BITS && (U)(y - 1) >> bits != 0)                       \
            ++bits;                                                          \
        by.magic = (U)(((((WIDE)1 << bits) - y) << BITS) / y + 1);           \
        by.first = bits > 0;                                                 \
        by.second = bits > 0 ? bits - 1 : 0;                                 \
        return by;                                                           \
    }                                                                        \
    static inline U tng_floordiv_by_##NAME(U x, tng_divisor_##NAME by)       \
    {                                                                        \
        const U high = (U)((WIDE)x * by.magic >> BITS);                      \
        return (U)((U)(high + (U)((U)(x - high) >> by.first)) >> by.second); \
    }
TNG_UNSIGNED_DIVISOR(npy_uint16, npy_uint32, 16, uint16)
TNG_UNSIGNED_DIVISOR(npy_uint32, npy_uint64, 32, uint32)

/* Divide x by y, or -x by -y if y < 0, so that the divisor d is positive. If the numerator n is negative, n // d is
 * ~(~n // d). For x or y = MIN, the negation wraps to MIN, whose bits are read as a positive unsigned integer. */
typedef struct {
    tng_divisor_uint16 by;
    npy_int16 flip;
} tng_divisor_int16;

static inline tng_divisor_int16 tng_divisor_of_int16(npy_int16 y)
{
    tng_divisor_int16 by;
    by.flip = y < 0 ? -1 : 0;
    by.by = tng_divisor_of_uint16((npy_uint16)((y ^ by.flip) - by.flip));
    return by;
}

static inline npy_int16 tng_floordiv_by_int16(npy_int16 x, tng_divisor_int16 by)
{
    const npy_int16 n = (npy_int16)((npy_uint16)(x ^ by.flip) - (npy_uint16)by.flip);
    const npy_int16 mask = (npy_int16)((n >> 15) & ~((x >> 15) & by.flip));
    const npy_int16 q = (npy_int16)tng_floordiv_by_uint16((npy_uint16)(n ^ mask), by.by);
    return (npy_int16)(by.by.magic == 0 ? 0 : q ^ mask);
}

/* 8 bits: numerators are at most 128 or 255, so small that one product is exact. The scaled inverse of 1 does not fit
 * into 16 bits; the mask `unit` replaces this inverse. */
typedef struct {
    npy_uint16 magic, unit;
    npy_int16 flip;
} tng_divisor_int8;
typedef tng_divisor_int8 tng_divisor_uint8;

static inline tng_divisor_int8 tng_divisor_of_int8(npy_int8 y)
{
    const npy_uint32 d = (npy_uint32)(y < 0 ? -y : y);
    tng_divisor_int8 by;
    by.magic = (npy_uint16)(d < 2 ? 0 : 65536 / d + 1);
    by.unit = d == 1 ? 0xffff : 0;
    by.flip = y < 0 ? -1 : 0;
    return by;
}

static inline npy_int8 tng_floordiv_by_int8(npy_int8 x, tng_divisor_int8 by)
{
    const npy_int16 n = (npy_int16)((x ^ by.flip) - by.flip), mask = (npy_int16)(n >> 15);
    const npy_uint16 u = (npy_uint16)(n ^ mask), high = (npy_uint16)((npy_uint32)u * by.magic >> 16),
                     q = high | (u & by.unit);
    return (npy_int8)((by.magic | by.unit) == 0 ? 0 : q ^ mask);
}

static inline tng_divisor_uint8 tng_divisor_of_uint8(npy_uint8 y)
{
    tng_divisor_uint8 by;
    by.magic = (npy_uint16)(y < 2 ? 0 : 65536u / y + 1);
    by.unit = y == 1 ? 0xffff : 0;
    by.flip = 0;
    return by;
}

static inline npy_uint8 tng_floordiv_by_uint8(npy_uint8 x, tng_divisor_uint8 by)
{
    return (npy_uint8)(((npy_uint32)x * by.magic >> 16) | (x & by.unit));
}

#define TNG_SIGNED_POWER(T, U, NAME)                                                   \
    /* Powers with y < 0 are truncated to integers: they are 0 unless x is 1 or -1. */ \
    static inline T tng_pow_##NAME(T x, T y)                                           \
    {                                                                                  \
        U base = (U)x, result = 1;                                                     \
        if (y < 0)                                                                     \
            return (T)(x == 1 ? 1 : x == -1 ? ((y & 1) ? -1 : 1) : 0);                 \
        while (y) {                                                                    \
            if (y & 1)                                                                 \
                result = (U)(result * base);                                           \
            base = (U)(base * base);                                                   \
            y = (T)(y >> 1);                                                           \
        }                                                                              \
        return (T)result;                                                              \
    }

#define TNG_UNSIGNED_POWER(T, NAME)                   \
    static inline T tng_pow_##NAME(T x, T y)          \
    {                                                 \
        T result = 1;                                 \
        while (y) {                                   \
            if (y & 1)                                \
                result = (T)((npy_uint64)result * x); \
            x = (T)((npy_uint64)x * x);               \
            y = (T)(y >> 1);                          \
        }                                             \
        return result;                                \
    }

TNG_SIGNED_POWER(npy_int8, npy_uint32, int8)
TNG_SIGNED_POWER(npy_int16, npy_uint32, int16)
TNG_SIGNED_POWER(npy_int32, npy_uint32, int32)
TNG_SIGNED_POWER(npy_int64, npy_uint64, int64)
TNG_UNSIGNED_POWER(npy_uint8, uint8)
TNG_UNSIGNED_POWER(npy_uint16, uint16)
TNG_UNSIGNED_POWER(npy_uint32, uint32)
TNG_UNSIGNED_POWER(npy_uint64, uint64)

/* The modulus of floats has the sign of the divisor, also if the modulus is zero. x // y is the floor of the exact
 * quotient.
 *
 * If the quotient is small, its floor is exact, or one too large if the quotient was rounded up to an integer. In both
 * cases, r = x - floor * y is the modulus, after y is added to r if the signs of r and y differ. For large quotients,
 * infinities and NaNs, fmod computes r. */
#define TNG_FLOAT_DIVISION(T, NAME, FMOD, FLOOR, COPYSIGN, FABS, FMA, LIMIT) \
    static inline T tng_mod_##NAME(T x, T y)                                 \
    {                                                                        \
        const T q = x / y;                                                   \
        T r = FMA(-FLOOR(q), y, x);                                          \
        if (!(FABS(q) < LIMIT) || r != r) {                                  \
            r = FMOD(x, y);                                                  \
            if (y == 0)                                                      \
                return r;                                                    \
        }                                                                    \
        r += ((r < 0) & (y > 0)) | ((r > 0) & (y < 0)) ? y : 0;              \
        return r == 0 ? COPYSIGN((T)0, y) : r;                               \
    }                                                                        \
    static inline T tng_floordiv_##NAME(T x, T y)                            \
    {                                                                        \
        T r, q = x / y, f = FLOOR(q);                                        \
        r = FMA(-f, y, x);                                                   \
        if (FABS(q) < LIMIT && r == r) {                                     \
            f -= ((r < 0) & (y > 0)) | ((r > 0) & (y < 0)) ? 1 : 0;          \
            return f == 0 ? COPYSIGN((T)0, q) : f;                           \
        }                                                                    \
        if (y == 0)                                                          \
            return q;                                                        \
        r = FMOD(x, y);                                                      \
        q = (x - r) / y;                                                     \
        if (r != 0 && ((r < 0) != (y < 0)))                                  \
            q -= 1;                                                          \
        if (q == 0)                                                          \
            return COPYSIGN((T)0, x / y);                                    \
        f = FLOOR(q);                                                        \
        return q - f > (T)0.5 ? f + 1 : f;                                   \
    }

TNG_FLOAT_DIVISION(npy_float32, float32, __builtin_fmodf, __builtin_floorf, __builtin_copysignf, __builtin_fabsf,
                   __builtin_fmaf, 0x1p22f)
TNG_FLOAT_DIVISION(npy_float64, float64, __builtin_fmod, __builtin_floor, __builtin_copysign, __builtin_fabs,
                   __builtin_fma, 0x1p51)

#endif
