/* Declarations of the vectorized functions of glibc, for loops that a compiler vectorizes: tng_exp(x) for exp(x), etc.
 *
 * libmvec of the C library has a version of each function for each vector length, and libm has a version for scalars.
 * The results of the versions differ in their last bits. In one loop, a compiler calls several versions: the version
 * for the longest vectors, a version for shorter vectors for the remaining elements, and the scalar version for the
 * last elements. In another loop it chooses other versions. But the bits of a result must not depend on the position of
 * an element, on other operations in the loop, or on the compiler. So all versions of tng_exp call one version of
 * libmvec (gof/vector_math.c).
 *
 * The file is C11. It is included after the kernel prologue.
 */
#ifndef TNG_VECTOR_MATH_H
#define TNG_VECTOR_MATH_H

/* The name of each function, and the argument for unused lanes. For this argument, the function takes no slow path. */
#define TNG_VECTOR_FUNCTIONS(ONE, TWO) \
    ONE(exp, 0.5)                      \
    ONE(log, 0.5)                      \
    ONE(sin, 0.5)                      \
    ONE(cos, 0.5)                      \
    ONE(tan, 0.5)                      \
    ONE(asin, 0.5)                     \
    ONE(acos, 0.5)                     \
    ONE(atan, 0.5)                     \
    ONE(sinh, 0.5)                     \
    ONE(cosh, 0.5)                     \
    ONE(tanh, 0.5)                     \
    ONE(asinh, 0.5)                    \
    ONE(acosh, 1.5)                    \
    ONE(atanh, 0.5)                    \
    ONE(exp2, 0.5)                     \
    ONE(expm1, 0.5)                    \
    ONE(log2, 0.5)                     \
    ONE(log10, 0.5)                    \
    ONE(log1p, 0.5)                    \
    ONE(cbrt, 0.5)                     \
    ONE(erf, 0.5)                      \
    ONE(erfc, 0.5)                     \
    TWO(pow, 0.5)                      \
    TWO(atan2, 0.5)                    \
    TWO(hypot, 0.5)

#ifndef TNG_VECTOR_LIST_ONLY
#define TNG_VECTORIZED TNG_NOTHROW __attribute__((const, simd("notinbranch")))
#define TNG_DECLARE_ONE(name, fill)                  \
    extern double tng_##name(double) TNG_VECTORIZED; \
    extern float tng_##name##f(float) TNG_VECTORIZED;
#define TNG_DECLARE_TWO(name, fill)                          \
    extern double tng_##name(double, double) TNG_VECTORIZED; \
    extern float tng_##name##f(float, float) TNG_VECTORIZED;
TNG_VECTOR_FUNCTIONS(TNG_DECLARE_ONE, TNG_DECLARE_TWO)

#define exp(x) tng_exp(x)
#define log(x) tng_log(x)
#define sin(x) tng_sin(x)
#define cos(x) tng_cos(x)
#define tan(x) tng_tan(x)
#define asin(x) tng_asin(x)
#define acos(x) tng_acos(x)
#define atan(x) tng_atan(x)
#define sinh(x) tng_sinh(x)
#define cosh(x) tng_cosh(x)
#define tanh(x) tng_tanh(x)
#define asinh(x) tng_asinh(x)
#define acosh(x) tng_acosh(x)
#define atanh(x) tng_atanh(x)
#define exp2(x) tng_exp2(x)
#define expm1(x) tng_expm1(x)
#define log2(x) tng_log2(x)
#define log10(x) tng_log10(x)
#define log1p(x) tng_log1p(x)
#define cbrt(x) tng_cbrt(x)
#define erf(x) tng_erf(x)
#define erfc(x) tng_erfc(x)
#define pow(x, y) tng_pow(x, y)
#define atan2(x, y) tng_atan2(x, y)
#define hypot(x, y) tng_hypot(x, y)
#define expf(x) tng_expf(x)
#define logf(x) tng_logf(x)
#define sinf(x) tng_sinf(x)
#define cosf(x) tng_cosf(x)
#define tanf(x) tng_tanf(x)
#define asinf(x) tng_asinf(x)
#define acosf(x) tng_acosf(x)
#define atanf(x) tng_atanf(x)
#define sinhf(x) tng_sinhf(x)
#define coshf(x) tng_coshf(x)
#define tanhf(x) tng_tanhf(x)
#define asinhf(x) tng_asinhf(x)
#define acoshf(x) tng_acoshf(x)
#define atanhf(x) tng_atanhf(x)
#define exp2f(x) tng_exp2f(x)
#define expm1f(x) tng_expm1f(x)
#define log2f(x) tng_log2f(x)
#define log10f(x) tng_log10f(x)
#define log1pf(x) tng_log1pf(x)
#define cbrtf(x) tng_cbrtf(x)
#define erff(x) tng_erff(x)
#define erfcf(x) tng_erfcf(x)
#define powf(x, y) tng_powf(x, y)
#define atan2f(x, y) tng_atan2f(x, y)
#define hypotf(x, y) tng_hypotf(x, y)
#endif

#endif
