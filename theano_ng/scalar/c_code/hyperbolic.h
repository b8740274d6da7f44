/* Hyperbolic functions, computed with expm1 and log1p. They are faster than the hyperbolic functions of glibc's
 * libmvec. C11 and C++. */
#ifndef TNG_SCALAR_HYPERBOLIC_H
#define TNG_SCALAR_HYPERBOLIC_H

/* Return tanh(x) as -expm1(-2a) / (2 + expm1(-2a)) with a = |x|. From a = 22 on, tanh is 1 to the last digit. */
TNG_INLINE npy_float64 tng_tanh_float64(npy_float64 x)
{
    const npy_float64 a = __builtin_fabs(x), e = expm1(-2 * (a > 22 ? 22 : a));
    return x != x ? x : __builtin_copysign(-e / (2 + e), x);
}

TNG_INLINE npy_float32 tng_power_of_two(npy_int32 n)
{
    const npy_uint32 bits = (npy_uint32)(n + 127) << 23;
    npy_float32 value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

/* Return tanh(x) from expm1(2a) = 2^n expm1(t) + (2^n - 1), with 2a = n log 2 + t and |t| <= log(2) / 2. The polynomial
 * for expm1(t) is interpolated at Chebyshev nodes; its relative error is 1e-7. */
TNG_INLINE npy_float32 tng_tanh_float32(npy_float32 x)
{
    const npy_float32 a = __builtin_fabsf(x), c = a > 10 ? 10 : a, n = __builtin_rintf(c * 2.885390081777926814f);
    const npy_float32 t = TNG_MUL_ADDF(n, -1.42860677e-6f, TNG_MUL_ADDF(n, -0.693145751953125f, 2 * c));
    const npy_float32 high = TNG_MUL_ADDF(t, TNG_MUL_ADDF(t, 0.0013926176f, 0.0083631734f), 0.041666556f);
    const npy_float32 p = TNG_MUL_ADDF(t * t, TNG_MUL_ADDF(t, TNG_MUL_ADDF(t, high, 0.16666577f), 0.5f), t);
    const npy_float32 power = tng_power_of_two((npy_int32)n), e = TNG_MUL_ADDF(power, p, power - 1);
    return x != x ? x : __builtin_copysignf(e / (e + 2), x);
}

/* Return acosh(x) as log(x + sqrt(x^2 - 1)), computed from t = x - 1. For x > 1e9, return log 2x, because the 1 is lost
 * in rounding and squares may overflow. The condition x > 1e9 is tested twice. The second test compares bits, because
 * gcc would merge two equal tests into one branch and call the library function in each arm. */
TNG_INLINE npy_float32 tng_acosh_float32(npy_float32 x)
{
    const npy_float32 t = x - 1, root = __builtin_sqrtf(t * (t + 2)), value = log1pf(x > 1e9f ? x : t + root);
    npy_int32 bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return x < 1 ? __builtin_nanf("") : value + (bits > 0x4e6e6b28 ? 0.693147180559945f : 0);
}

#endif
