/* The functions of glibc's vector mathematics: loops over them are vectorized. */
#ifndef THEANO_NG_VECTOR_MATH_H
#define THEANO_NG_VECTOR_MATH_H

#if defined(TNG_HAS_MVEC)
#define VECTOR1(name)                                                                              \
    extern double name(double) TNG_NOTHROW __attribute__((const, simd("notinbranch")));            \
    extern float name##f(float) TNG_NOTHROW __attribute__((const, simd("notinbranch")));
#define VECTOR2(name)                                                                              \
    extern double name(double, double) TNG_NOTHROW __attribute__((const, simd("notinbranch")));    \
    extern float name##f(float, float) TNG_NOTHROW __attribute__((const, simd("notinbranch")));
VECTOR1(exp) VECTOR1(log) VECTOR1(sin) VECTOR1(cos) VECTOR2(pow)
#if TNG_HAS_MVEC >= 235
VECTOR1(tan) VECTOR1(asin) VECTOR1(acos) VECTOR1(atan) VECTOR1(sinh) VECTOR1(cosh) VECTOR1(tanh) VECTOR1(asinh) VECTOR1(acosh)
VECTOR1(atanh) VECTOR1(exp2) VECTOR1(expm1) VECTOR1(log2) VECTOR1(log10) VECTOR1(log1p) VECTOR1(cbrt) VECTOR1(erf) VECTOR1(erfc)
VECTOR2(atan2) VECTOR2(hypot)
#endif
#endif

#endif
