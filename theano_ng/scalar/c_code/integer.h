/* Integer and float division, modulus and powers with the semantics of NumPy. No operand makes them trap. C11 and C++. */
#ifndef TNG_SCALAR_INTEGER_H
#define TNG_SCALAR_INTEGER_H

/* Floor division rounds towards minus infinity; x // 0 is 0; MIN // -1 wraps to MIN. The modulus has the sign of the divisor. */
#define TNG_SIGNED_DIVISION(T, U, NAME)                                        \
    static inline T tng_floordiv_##NAME(T x, T y)                              \
    {                                                                          \
        T q;                                                                   \
        if (y == 0) return 0;                                                  \
        if (y == -1) return (T)(0 - (U)x);                                     \
        q = (T)(x / y);                                                        \
        return (T)(q - ((x % y != 0) && ((x < 0) != (y < 0))));                \
    }                                                                          \
    static inline T tng_mod_##NAME(T x, T y)                                   \
    {                                                                          \
        T r;                                                                   \
        if (y == 0 || y == -1) return 0;                                       \
        r = (T)(x % y);                                                        \
        return (T)((r != 0 && ((r < 0) != (y < 0))) ? r + y : r);              \
    }                                                                          \
    /* A negative power of an integer is truncated: only of 1 and -1 it is not 0. */ \
    static inline T tng_pow_##NAME(T x, T y)                                   \
    {                                                                          \
        U base = (U)x, result = 1;                                             \
        if (y < 0) return (T)(x == 1 ? 1 : x == -1 ? ((y & 1) ? -1 : 1) : 0);  \
        while (y) {                                                            \
            if (y & 1) result = (U)(result * base);                            \
            base = (U)(base * base);                                           \
            y = (T)(y >> 1);                                                   \
        }                                                                      \
        return (T)result;                                                      \
    }

#define TNG_UNSIGNED_DIVISION(T, NAME)                                         \
    static inline T tng_floordiv_##NAME(T x, T y) { return (T)(y == 0 ? 0 : x / y); } \
    static inline T tng_mod_##NAME(T x, T y) { return (T)(y == 0 ? 0 : x % y); } \
    static inline T tng_pow_##NAME(T x, T y)                                   \
    {                                                                          \
        T result = 1;                                                          \
        while (y) {                                                            \
            if (y & 1) result = (T)((npy_uint64)result * x);                   \
            x = (T)((npy_uint64)x * x);                                        \
            y = (T)(y >> 1);                                                   \
        }                                                                      \
        return result;                                                         \
    }

TNG_SIGNED_DIVISION(npy_int8, npy_uint32, int8)
TNG_SIGNED_DIVISION(npy_int16, npy_uint32, int16)
TNG_SIGNED_DIVISION(npy_int32, npy_uint32, int32)
TNG_SIGNED_DIVISION(npy_int64, npy_uint64, int64)
TNG_UNSIGNED_DIVISION(npy_uint8, uint8)
TNG_UNSIGNED_DIVISION(npy_uint16, uint16)
TNG_UNSIGNED_DIVISION(npy_uint32, uint32)
TNG_UNSIGNED_DIVISION(npy_uint64, uint64)

/* The modulus of floats has the sign of the divisor, zeros included; x // y is the floor of the exact quotient. */
#define TNG_FLOAT_DIVISION(T, NAME, FMOD, FLOOR, COPYSIGN)                     \
    static inline T tng_mod_##NAME(T x, T y)                                   \
    {                                                                          \
        T r = FMOD(x, y);                                                      \
        if (y == 0) return r;                                                  \
        if (r == 0) return COPYSIGN((T)0, y);                                  \
        return ((r < 0) != (y < 0)) ? r + y : r;                               \
    }                                                                          \
    static inline T tng_floordiv_##NAME(T x, T y)                              \
    {                                                                          \
        T r, q, f;                                                             \
        if (y == 0) return x / y;                                              \
        r = FMOD(x, y);                                                        \
        q = (x - r) / y;                                                       \
        if (r != 0 && ((r < 0) != (y < 0))) q -= 1;                            \
        if (q == 0) return COPYSIGN((T)0, x / y);                              \
        f = FLOOR(q);                                                          \
        return q - f > (T)0.5 ? f + 1 : f;                                     \
    }

TNG_FLOAT_DIVISION(npy_float32, float32, __builtin_fmodf, __builtin_floorf, __builtin_copysignf)
TNG_FLOAT_DIVISION(npy_float64, float64, __builtin_fmod, __builtin_floor, __builtin_copysign)

#endif
