/* The functions of vector mathematics, glibc's: loops over them are vectorized. */
#ifndef THEANO_NG_VECTOR_MATH_H
#define THEANO_NG_VECTOR_MATH_H

/* Those that vector_math.c finds at run time; others are in any glibc that matters. */
#define NEW_FUNCTIONS(ONE, TWO)                                                                                       \
    ONE(tan) ONE(asin) ONE(acos) ONE(atan) ONE(sinh) ONE(cosh) ONE(tanh) ONE(asinh) ONE(acosh) ONE(atanh) ONE(exp2)   \
    ONE(expm1) ONE(log2) ONE(log10) ONE(log1p) ONE(erf) ONE(erfc) TWO(atan2)

#if defined(TNG_HAS_MVEC) && defined(TNG_NOTHROW)
#define SIMD TNG_NOTHROW __attribute__((const, simd("notinbranch")))
#define DECLARE1(name) extern double name(double) SIMD; extern float name##f(float) SIMD;
#define DECLARE2(name) extern double name(double, double) SIMD; extern float name##f(float, float) SIMD;
DECLARE1(exp) DECLARE1(log) DECLARE1(sin) DECLARE1(cos) DECLARE2(pow)
NEW_FUNCTIONS(DECLARE1, DECLARE2)
#endif

#endif
