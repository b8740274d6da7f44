/* Complex arithmetic as NumPy does it: products without C's recovery of infinities, quotients by Smith's method (R. L. Smith, Algorithm 116,
 * CACM 1962), moduli without overflow. Without branches. C11 and C++; wants the types theano_complex64 and theano_complex128. */
#ifndef TNG_SCALAR_COMPLEX_H
#define TNG_SCALAR_COMPLEX_H

#define TNG_COMPLEX_ARITHMETIC(C, T, NAME, FABS)                                                    \
    static inline C tng_make_##NAME(T re, T im)                                                     \
    {                                                                                               \
        C z;                                                                                        \
        __real__ z = re;                                                                            \
        __imag__ z = im;                                                                            \
        return z;                                                                                   \
    }                                                                                               \
    static inline C tng_mul_##NAME(C a, C b)                                                        \
    {                                                                                               \
        return tng_make_##NAME(__real__ a * __real__ b - __imag__ a * __imag__ b,                   \
                               __real__ a * __imag__ b + __imag__ a * __real__ b);                  \
    }                                                                                               \
    /* With the larger part of b as p and the smaller as q; a quotient by zero has infinite parts. */ \
    static inline C tng_div_##NAME(C a, C b)                                                        \
    {                                                                                               \
        const T br = __real__ b, bi = __imag__ b, ar = __real__ a, ai = __imag__ a;                 \
        const int swap = !(FABS(br) >= FABS(bi)), zero = br == 0 && bi == 0;                            \
        const T p = swap ? bi : br, q = swap ? br : bi, x = swap ? ai : ar, y = swap ? ar : ai;     \
        const T ratio = zero ? 0 : q / p, scale = 1 / (zero ? FABS(br) : p + q * ratio);            \
        const T re = (zero ? x : x + y * ratio) * scale, im = (zero ? y : y - x * ratio) * scale;   \
        return tng_make_##NAME(re, swap ? -im : im);                                                \
    }

TNG_COMPLEX_ARITHMETIC(theano_complex64, npy_float32, complex64, __builtin_fabsf)
TNG_COMPLEX_ARITHMETIC(theano_complex128, npy_float64, complex128, __builtin_fabs)

/* The parts are scaled by a power of two where their squares would overflow or lose digits. */
#define TNG_COMPLEX_MODULUS(C, T, NAME, FABS, SQRT, INFINITY, HIGH, LOW, DOWN, UP)                  \
    static inline T tng_abs_##NAME(C z)                                                             \
    {                                                                                               \
        const T re = FABS(__real__ z), im = FABS(__imag__ z), larger = re > im ? re : im;           \
        const T scale = larger > HIGH ? DOWN : larger < LOW ? UP : 1;                               \
        const T back = larger > HIGH ? UP : larger < LOW ? DOWN : 1;                                \
        const T x = re * scale, y = im * scale, value = SQRT(x * x + y * y) * back;                 \
        return (re == INFINITY) | (im == INFINITY) ? INFINITY : value;                              \
    }

TNG_COMPLEX_MODULUS(theano_complex64, npy_float32, complex64, __builtin_fabsf, __builtin_sqrtf, __builtin_inff(), 1e18f, 1e-12f, 0x1p-100f, 0x1p100f)
TNG_COMPLEX_MODULUS(theano_complex128, npy_float64, complex128, __builtin_fabs, __builtin_sqrt, __builtin_inf(), 1e150, 1e-140, 0x1p-600, 0x1p600)

#endif
