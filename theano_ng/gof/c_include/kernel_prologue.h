/* Declarations that every kernel may use: NumPy's type names, the C math library, float16 conversions and a few macros.
 * The file includes no system header, because reading the system's headers would take longer than compiling most
 * kernels.
 *
 * The file is valid GNU C11 and GNU C++. If NumPy's headers have been included before (linker `c`), it does not define
 * NumPy's types. After this file, the compiler driver inserts declarations that let compilers vectorize calls of math
 * functions (`Toolchain.vector_declarations`, vector_math.h). The vectorized versions are accurate to 4 ulp.
 */
#ifndef THEANO_NG_KERNEL_PROLOGUE_H
#define THEANO_NG_KERNEL_PROLOGUE_H

#ifndef NUMPY_CORE_INCLUDE_NUMPY_NPY_COMMON_H_
typedef __INT8_TYPE__ npy_int8;
typedef __INT16_TYPE__ npy_int16;
typedef __INT32_TYPE__ npy_int32;
typedef __INT64_TYPE__ npy_int64;
typedef __UINT8_TYPE__ npy_uint8;
typedef __UINT16_TYPE__ npy_uint16;
typedef __UINT32_TYPE__ npy_uint32;
typedef __UINT64_TYPE__ npy_uint64;
typedef __INTPTR_TYPE__ npy_intp;
typedef __UINTPTR_TYPE__ npy_uintp;
typedef unsigned char npy_bool;
typedef signed char npy_byte;
typedef unsigned char npy_ubyte;
typedef short npy_short;
typedef unsigned short npy_ushort;
typedef int npy_int;
typedef unsigned int npy_uint;
typedef long npy_long;
typedef unsigned long npy_ulong;
typedef long long npy_longlong;
typedef unsigned long long npy_ulonglong;
typedef npy_uint16 npy_half;
typedef npy_uint16 npy_float16;
typedef float npy_float;
typedef float npy_float32;
typedef double npy_double;
typedef double npy_float64;
#ifdef __cplusplus
typedef struct {
    npy_float32 real, imag;
} npy_complex64;
typedef struct {
    npy_float64 real, imag;
} npy_complex128;
#else
typedef float _Complex npy_complex64;
typedef double _Complex npy_complex128;
#endif
#define NPY_FALSE 0
#define NPY_TRUE 1
#define NPY_INLINE inline
#define NPY_MIN_INT8 (-128)
#define NPY_MAX_INT8 127
#define NPY_MAX_UINT8 255
#define NPY_MIN_INT16 (-32767 - 1)
#define NPY_MAX_INT16 32767
#define NPY_MAX_UINT16 65535
#define NPY_MIN_INT32 (-2147483647 - 1)
#define NPY_MAX_INT32 2147483647
#define NPY_MAX_UINT32 4294967295U
#define NPY_MIN_INT64 (-9223372036854775807LL - 1LL)
#define NPY_MAX_INT64 9223372036854775807LL
#define NPY_MAX_UINT64 18446744073709551615ULL
#endif

/* x * y + z, rounded once if the processor has a fused multiply-add. Kernels request the fused operation by this macro,
 * because the compiler's own choice depends on the other operations of a loop. */
#ifdef __FP_FAST_FMA
#define TNG_MUL_ADD(x, y, z) __builtin_fma(x, y, z)
#else
#define TNG_MUL_ADD(x, y, z) ((x) * (y) + (z))
#endif
#ifdef __FP_FAST_FMAF
#define TNG_MUL_ADDF(x, y, z) __builtin_fmaf(x, y, z)
#else
#define TNG_MUL_ADDF(x, y, z) ((x) * (y) + (z))
#endif

/* The complex types with which the code of scalar Ops computes. */
#ifdef __cplusplus
#include "complex_numbers.h"
#else
typedef float _Complex theano_complex64;
typedef double _Complex theano_complex128;
#define TNG_RE(z) (__real__(z))
#define TNG_IM(z) (__imag__(z))
#endif

/* TNG_INTEGER(x) has the value of x, an integer that was converted from a float. Without the macro, gcc would replace
 * the conversion to an integer and back to a float by `trunc`, which keeps the sign of a zero, and keeps numbers that
 * do not fit into the integer. */
#if defined __has_builtin
#if __has_builtin(__builtin_assoc_barrier)
#define TNG_INTEGER(x) __builtin_assoc_barrier(x)
#endif
#endif
#ifndef TNG_INTEGER
#if defined __GNUC__ && !defined __clang__
#define TNG_INTEGER(x)                   \
    __extension__({                      \
        __typeof__(x) tng_integer = (x); \
        __asm__("" : "+r"(tng_integer)); \
        tng_integer;                     \
    })
#else
#define TNG_INTEGER(x) (x)
#endif
#endif

/* Types of <stdint.h> and <stddef.h>. Code may include these headers, too, because identical typedefs may be repeated.
 */
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
#ifndef NULL
#ifdef __cplusplus
#define NULL __null
#else
#define NULL ((void *)0)
#endif
#endif
#if !defined(__cplusplus) && !defined(bool)
#define bool _Bool
#define true 1
#define false 0
#endif

#ifndef NPY_INFINITY
#define NPY_INFINITY __builtin_inff()
#endif
#ifndef NPY_NAN
#define NPY_NAN __builtin_nanf("")
#endif
#ifndef NPY_INFINITYF
#define NPY_INFINITYF __builtin_inff()
#endif
#ifndef NPY_NANF
#define NPY_NANF __builtin_nanf("")
#endif
#ifndef INFINITY
#define INFINITY __builtin_inff()
#endif
#ifndef NAN
#define NAN __builtin_nanf("")
#endif
#ifndef HUGE_VAL
#define HUGE_VAL __builtin_huge_val()
#endif
#ifndef NPY_PI
#define NPY_E 2.718281828459045235360287471352662498
#define NPY_LOG2E 1.442695040888963407359924681001892137
#define NPY_LOG10E 0.434294481903251827651128918916605082
#define NPY_LOGE2 0.693147180559945309417232121458176568
#define NPY_LOGE10 2.302585092994045684017991454684364208
#define NPY_PI 3.141592653589793238462643383279502884
#define NPY_PI_2 1.570796326794896619231321691639751442
#define NPY_PI_4 0.785398163397448309615660845819875721
#define NPY_1_PI 0.318309886183790671537767526745028724
#define NPY_2_PI 0.636619772367581343075535053490057448
#define NPY_EULER 0.577215664901532860606512090082402431
#define NPY_SQRT2 1.414213562373095048801688724209698079
#define NPY_SQRT1_2 0.707106781186547524400844362104849039
#endif
#ifndef M_PI
#define M_E NPY_E
#define M_LOG2E NPY_LOG2E
#define M_LOG10E NPY_LOG10E
#define M_LN2 NPY_LOGE2
#define M_LN10 NPY_LOGE10
#define M_PI NPY_PI
#define M_PI_2 NPY_PI_2
#define M_PI_4 NPY_PI_4
#define M_1_PI NPY_1_PI
#define M_2_PI NPY_2_PI
#define M_2_SQRTPI 1.128379167095512573896158903121545172
#define M_SQRT2 NPY_SQRT2
#define M_SQRT1_2 NPY_SQRT1_2
#endif

/* If <cmath> has been included, keep its functions isnan etc., which macros would hide. */
#ifndef _GLIBCXX_CMATH
#undef isnan
#undef isinf
#undef isfinite
#undef signbit
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)
#endif
#ifndef npy_isnan
#define npy_isnan(x) __builtin_isnan(x)
#define npy_isinf(x) __builtin_isinf(x)
#define npy_isfinite(x) __builtin_isfinite(x)
#define npy_signbit(x) __builtin_signbit(x)
#endif

#ifdef __cplusplus
#define TNG_NOTHROW noexcept
extern "C" {
#else
#define TNG_NOTHROW __attribute__((nothrow))
#endif

#define TNG_MATH1(name)                                            \
    extern double name(double) TNG_NOTHROW __attribute__((const)); \
    extern float name##f(float) TNG_NOTHROW __attribute__((const));
#define TNG_MATH2(name)                                                    \
    extern double name(double, double) TNG_NOTHROW __attribute__((const)); \
    extern float name##f(float, float) TNG_NOTHROW __attribute__((const));
TNG_MATH1(exp)
TNG_MATH1(exp2)
TNG_MATH1(expm1)
TNG_MATH1(log)
TNG_MATH1(log2)
TNG_MATH1(log10)
TNG_MATH1(log1p)
TNG_MATH1(logb)
TNG_MATH1(sin)
TNG_MATH1(cos)
TNG_MATH1(tan)
TNG_MATH1(asin)
TNG_MATH1(acos)
TNG_MATH1(atan)
TNG_MATH1(sinh)
TNG_MATH1(cosh)
TNG_MATH1(tanh)
TNG_MATH1(asinh)
TNG_MATH1(acosh)
TNG_MATH1(atanh)
TNG_MATH1(sqrt)
TNG_MATH1(cbrt)
TNG_MATH1(fabs)
TNG_MATH1(floor)
TNG_MATH1(ceil)
TNG_MATH1(trunc)
TNG_MATH1(round)
TNG_MATH1(rint)
TNG_MATH1(nearbyint)
TNG_MATH1(erf)
TNG_MATH1(erfc)
TNG_MATH1(tgamma)
TNG_MATH2(pow)
TNG_MATH2(atan2)
TNG_MATH2(fmod)
TNG_MATH2(remainder)
TNG_MATH2(hypot)
TNG_MATH2(fmin)
TNG_MATH2(fmax)
TNG_MATH2(fdim)
TNG_MATH2(copysign)
TNG_MATH2(nextafter)
extern double lgamma(double) TNG_NOTHROW; /* not const, because it writes signgam */
extern float lgammaf(float) TNG_NOTHROW;
extern double fma(double, double, double) TNG_NOTHROW __attribute__((const));
extern float fmaf(float, float, float) TNG_NOTHROW __attribute__((const));
extern double ldexp(double, int) TNG_NOTHROW __attribute__((const));
extern float ldexpf(float, int) TNG_NOTHROW __attribute__((const));
extern double frexp(double, int *) TNG_NOTHROW;
extern float frexpf(float, int *) TNG_NOTHROW;
extern double modf(double, double *) TNG_NOTHROW;
extern float modff(float, float *) TNG_NOTHROW;
extern double j0(double) TNG_NOTHROW;
extern double j1(double) TNG_NOTHROW;
extern double jn(int, double) TNG_NOTHROW;
extern double y0(double) TNG_NOTHROW;
extern double y1(double) TNG_NOTHROW;
extern double yn(int, double) TNG_NOTHROW;
extern int abs(int) TNG_NOTHROW __attribute__((const));
extern long labs(long) TNG_NOTHROW __attribute__((const));
extern long long llabs(long long) TNG_NOTHROW __attribute__((const));
extern void *malloc(size_t) TNG_NOTHROW;
extern void *calloc(size_t, size_t) TNG_NOTHROW;
extern void free(void *) TNG_NOTHROW;
extern void *memcpy(void *, const void *, size_t) TNG_NOTHROW;
extern void *memmove(void *, const void *, size_t) TNG_NOTHROW;
extern void *memset(void *, int, size_t) TNG_NOTHROW;
extern int memcmp(const void *, const void *, size_t) TNG_NOTHROW;
extern int printf(const char *, ...);

#define TNG_COMPLEX1(name)                                    \
    extern double _Complex name(double _Complex) TNG_NOTHROW; \
    extern float _Complex name##f(float _Complex) TNG_NOTHROW;
TNG_COMPLEX1(cexp)
TNG_COMPLEX1(clog)
TNG_COMPLEX1(csqrt)
TNG_COMPLEX1(csin)
TNG_COMPLEX1(ccos)
TNG_COMPLEX1(ctan)
TNG_COMPLEX1(casin)
TNG_COMPLEX1(cacos)
TNG_COMPLEX1(catan)
TNG_COMPLEX1(csinh)
TNG_COMPLEX1(ccosh)
TNG_COMPLEX1(ctanh)
TNG_COMPLEX1(casinh)
TNG_COMPLEX1(cacosh)
TNG_COMPLEX1(catanh)
extern double _Complex cpow(double _Complex, double _Complex) TNG_NOTHROW;
extern float _Complex cpowf(float _Complex, float _Complex) TNG_NOTHROW;
extern double cabs(double _Complex) TNG_NOTHROW;
extern float cabsf(float _Complex) TNG_NOTHROW;
extern double carg(double _Complex) TNG_NOTHROW;
extern float cargf(float _Complex) TNG_NOTHROW;

#ifdef __cplusplus
}
#endif

#define TNG_RESTRICT __restrict__
#define TNG_LIKELY(x) __builtin_expect(!!(x), 1)
#define TNG_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TNG_INLINE static inline __attribute__((always_inline, unused))

TNG_INLINE float tng_bits_as_float(npy_uint32 bits)
{
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

TNG_INLINE npy_uint32 tng_float_as_bits(float value)
{
    npy_uint32 bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Converts a half to a float. The result is exact for every half, including denormals, infinities and NaNs. */
TNG_INLINE float tng_half_to_float(npy_uint16 half)
{
    npy_uint32 magnitude = (npy_uint32)(half & 0x7fffu) << 13;
    npy_uint32 sign = (npy_uint32)(half & 0x8000u) << 16;
    npy_uint32 bits = tng_float_as_bits(tng_bits_as_float(magnitude) * 0x1p112f);
    bits = magnitude >= 0x0f800000u ? (magnitude | 0x7f800000u) : bits;
    return tng_bits_as_float(bits | sign);
}

/* Converts a float to a half. Rounds to nearest, ties to even. Overflow gives infinity; NaN gives a quiet NaN. */
TNG_INLINE npy_uint16 tng_float_to_half(float value)
{
    npy_uint32 bits = tng_float_as_bits(value);
    npy_uint32 sign = (bits >> 16) & 0x8000u;
    npy_uint32 magnitude = bits & 0x7fffffffu;
    npy_uint32 small = tng_float_as_bits(tng_bits_as_float(magnitude) + 0.5f) - 0x3f000000u;
    npy_uint32 normal = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1u)) >> 13;
    npy_uint32 special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
    npy_uint32 half = magnitude < 0x38800000u ? small : normal;
    half = magnitude >= 0x47800000u ? special : half;
    return (npy_uint16)(half | sign);
}

/* Converts a double to a half with a single rounding. The double is first rounded to a float whose last bit records
 * whether bits were cut off (round to odd). */
TNG_INLINE npy_uint16 tng_double_to_half(double value)
{
    float rounded = (float)value;
    npy_uint32 bits = tng_float_as_bits(rounded);
    double back = (double)rounded;
    if (back != value && value == value) {
        if (__builtin_fabs(back) > __builtin_fabs(value))
            bits -= 1;
        bits |= 1u;
    }
    return tng_float_to_half(tng_bits_as_float(bits));
}

#endif
