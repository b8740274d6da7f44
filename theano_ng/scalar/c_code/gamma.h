/* The gamma function, its logarithm, and the derivatives of the logarithm, in double precision. C11 and C++.
 *
 * The code has no branches, so that the compiler can vectorize it. The polynomials are interpolations at the Chebyshev
 * nodes of their intervals, computed with 40 digits from the definitions. Unless stated otherwise, t is the argument
 * mapped to [-1, 1]. A&S: M. Abramowitz and I. Stegun, Handbook of Mathematical Functions. */
#ifndef TNG_SCALAR_GAMMA_H
#define TNG_SCALAR_GAMMA_H

#ifndef TNG_PI
#define TNG_PI 3.14159265358979323846
#define TNG_NAN __builtin_nan("")
#define TNG_INF __builtin_inf()
/* Add the next coefficient of a polynomial in t. */
#define TNG_HORNER(coefficient) p = TNG_MUL_ADD(p, t, coefficient);
#endif

/* Gamma(2 + t) for |t| <= 1/2; Chebyshev fit of degree 18, relative error 1.0e-17. */
TNG_INLINE npy_float64 tng_gamma_fit(npy_float64 t)
{
    npy_float64 p = 2.584210735300929e-06;
    TNG_HORNER(-5.167425827999643e-06)
    TNG_HORNER(7.2632956346064904e-06)
    TNG_HORNER(-1.4518030694390135e-05)
    TNG_HORNER(3.0554308764876926e-05)
    TNG_HORNER(-6.099437734759249e-05)
    TNG_HORNER(0.00012165717113737426)
    TNG_HORNER(-0.0002409081678851826)
    TNG_HORNER(0.0004903901012192666)
    TNG_HORNER(-0.0009195771393381067)
    TNG_HORNER(0.0021039332448517375)
    TNG_HORNER(-0.0028526456294803125)
    TNG_HORNER(0.01115404572113896)
    TNG_HORNER(-0.0002669820747604432)
    TNG_HORNER(0.07424901075347107)
    TNG_HORNER(0.08157691924717193)
    TNG_HORNER(0.41184033042643986)
    TNG_HORNER(0.4227843350984668)
    TNG_HORNER(1.0)
    return p;
}

/* log Gamma(2 + t) / (t (1 + t)) for |t| <= 1/2; Chebyshev fit of degree 17, relative error 9.0e-18. */
TNG_INLINE npy_float64 tng_lgamma_fit(npy_float64 t)
{
    npy_float64 p = -2.489029529650396e-07;
    TNG_HORNER(5.236568534841362e-07)
    TNG_HORNER(-8.247688082905913e-07)
    TNG_HORNER(1.749054030806819e-06)
    TNG_HORNER(-3.854622136251583e-06)
    TNG_HORNER(8.23747667463625e-06)
    TNG_HORNER(-1.7660586231652296e-05)
    TNG_HORNER(3.816660593339992e-05)
    TNG_HORNER(-8.309522146915126e-05)
    TNG_HORNER(0.0001825528383907226)
    TNG_HORNER(-0.00040570739285611585)
    TNG_HORNER(0.0009153769125087831)
    TNG_HORNER(-0.002108130834069472)
    TNG_HORNER(0.0049986411649353725)
    TNG_HORNER(-0.012384192193370211)
    TNG_HORNER(0.03296500062115359)
    TNG_HORNER(-0.10031730167435392)
    TNG_HORNER(0.42278433509846713)
    return p;
}

/* a (log Gamma(a) - (a - 1/2) log a + a - log(2 pi) / 2) for t = 1 / a^2, a >= 12; Chebyshev fit of degree 5, relative
 * error 4.0e-18. */
TNG_INLINE npy_float64 tng_stirling_fit(npy_float64 t)
{
    npy_float64 p = -0.0017915186526947942;
    TNG_HORNER(0.0008407848945048127)
    TNG_HORNER(-0.0005952346477190828)
    TNG_HORNER(0.0007936507880654842)
    TNG_HORNER(-0.0027777777777744607)
    TNG_HORNER(0.08333333333333333)
    return p;
}

/* Reduce v in (-1/2, 12) to 2 + t with |t| <= 1/2, without rounding: Gamma(v) = Gamma(2 + t) * up / down. */
#define TNG_GAMMA_REDUCE(v)                                                                                  \
    npy_float64 t = (v) < 0.5 ? (v) : (v) < 1.5 ? (v) - 1 : (v) - 2, up = 1;                                 \
    const npy_float64 down = (v) < 0.5 ? (v) * (1 + (v)) : (v) < 1.5 ? (v) : 1;                              \
    TNG_GAMMA_STEP TNG_GAMMA_STEP TNG_GAMMA_STEP TNG_GAMMA_STEP TNG_GAMMA_STEP TNG_GAMMA_STEP TNG_GAMMA_STEP \
        TNG_GAMMA_STEP TNG_GAMMA_STEP TNG_GAMMA_STEP
#define TNG_GAMMA_STEP         \
    up *= t > 0.5 ? t + 1 : 1; \
    t -= t > 0.5 ? 1 : 0;

/* Return sin(pi x); the argument is reduced before it is multiplied by pi. */
TNG_INLINE npy_float64 tng_sin_pi(npy_float64 x)
{
    const npy_float64 n = __builtin_rint(x), s = sin(TNG_PI * (x - n)), half = 0.5 * n;
    return half == __builtin_floor(half) ? s : -s;
}

/* Return exp(t) for a small t. */
TNG_INLINE npy_float64 tng_exp_fit(npy_float64 t)
{
    npy_float64 p = 1.0 / 720;
    TNG_HORNER(1.0 / 120)
    TNG_HORNER(1.0 / 24)
    TNG_HORNER(1.0 / 6)
    TNG_HORNER(0.5)
    TNG_HORNER(1)
    TNG_HORNER(1)
    return p;
}

/* Return Gamma(x); NaN at the negative integers. Use the recurrence below 12 and Stirling's formula above; for x <=
 * -1/2 use the reflection formula A&S 6.1.17. */
TNG_INLINE npy_float64 tng_gamma(npy_float64 x)
{
    const npy_float64 v = x > -0.5 ? x : -x, w = v > 200 ? 200 : v, s = tng_sin_pi(x);
    TNG_GAMMA_REDUCE(v)
    const npy_float64 lower = tng_gamma_fit(t) * up / down;
    /* Compute w^(w - 1/2) as two equal factors, because the power overflows before the result does. */
    const npy_float64 root = pow(w, TNG_MUL_ADD(0.5, w, -0.25)), rest = tng_stirling_fit(1 / (w * w)) / w;
    const npy_float64 correction = tng_exp_fit(rest);
    const npy_float64 corrected = 2.50662827463100050242 * exp(-w) * correction;
    const npy_float64 first = v < 12 ? lower : root * corrected, second = v < 12 ? 1 : root, value = first * second;
    const npy_float64 reflected = s == 0 ? TNG_NAN : -TNG_PI / (x * s) / first / second;
    return x > -0.5 ? value : reflected;
}

/* Return log |Gamma(v)| for v > -1/2. */
TNG_INLINE npy_float64 tng_lgamma_right(npy_float64 v)
{
    TNG_GAMMA_REDUCE(v)
    const npy_float64 logarithm = log(v < 12 ? __builtin_fabs(v < 1.5 ? down : up) : v);
    const npy_float64 lower = t * (1 + t) * tng_lgamma_fit(t) + (v < 1.5 ? -logarithm : logarithm);
    const npy_float64 upper =
        TNG_MUL_ADD(v - 0.5, logarithm, -v) + 0.91893853320467274178 + tng_stirling_fit(1 / (v * v)) / v;
    return v < 12 ? lower : upper;
}

/* Return log |Gamma(x)|; for x <= -1/2 use the reflection formula A&S 6.1.17. The value at -inf is -inf, as in
 * SciPy. */
TNG_INLINE npy_float64 tng_lgamma(npy_float64 x)
{
    const npy_float64 value = tng_lgamma_right(x > -0.5 ? x : -x);
    const npy_float64 reflected = log(TNG_PI / __builtin_fabs(x * tng_sin_pi(x))) - value;
    return __builtin_fabs(x) == TNG_INF ? x : x > -0.5 ? value : reflected;
}

/* Return pi / tan(pi x); the argument is reduced before it is multiplied by pi. */
TNG_INLINE npy_float64 tng_pi_cot(npy_float64 x)
{
    const npy_float64 r = x - __builtin_rint(x);
    return TNG_PI / tan(TNG_PI * r);
}

/* Return the digamma function of x. Values at the poles: -inf at +0, +inf at -0, NaN at negative integers. */
#define TNG_PSI_STEP                             \
    up = v < 10 ? TNG_MUL_ADD(up, v, down) : up; \
    down *= v < 10 ? v : 1;                      \
    v += v < 10 ? 1 : 0;
TNG_INLINE npy_float64 tng_psi(npy_float64 x)
{
    /* Negative arguments use the reflection formula A&S 6.3.7. The recurrence A&S 6.3.5 raises all arguments to at
     * least 10; up / down is the sum of its terms. */
    const npy_float64 reflected = x == __builtin_floor(x) ? TNG_NAN : tng_pi_cot(x);
    npy_float64 v = x < 0 ? 1 - x : x, up = 0, down = 1, t, p = 1.0 / 12;
    TNG_PSI_STEP TNG_PSI_STEP TNG_PSI_STEP TNG_PSI_STEP TNG_PSI_STEP TNG_PSI_STEP TNG_PSI_STEP TNG_PSI_STEP TNG_PSI_STEP
        TNG_PSI_STEP t = -1 / (v * v); /* A&S 6.3.18 */
    TNG_HORNER(691.0 / 32760)
    TNG_HORNER(1.0 / 132)
    TNG_HORNER(1.0 / 240)
    TNG_HORNER(1.0 / 252)
    TNG_HORNER(1.0 / 120)
    TNG_HORNER(1.0 / 12)
    return log(v) - 0.5 / v + t * p - up / down - (x < 0 ? reflected : 0);
}

/* Return the trigamma function of x; +inf at zero and the negative integers. */
TNG_INLINE npy_float64 tng_tri_gamma(npy_float64 x)
{
    npy_float64 sum = 0, sign = 1, offset = 0, z;
    if (x <= 0) {
        npy_float64 s;
        if (x == __builtin_floor(x))
            return TNG_INF;
        s = sin(TNG_PI * (x - __builtin_rint(x))); /* A&S 6.4.7 */
        offset = (TNG_PI / s) * (TNG_PI / s);
        sign = -1;
        x = 1 - x;
    }
    while (x < 10) { /* A&S 6.4.6 */
        sum += 1 / (x * x);
        x += 1;
    }
    z = 1 / (x * x); /* A&S 6.4.12 */
    sum +=
        1 / x + 0.5 * z
        + z / x
              * (1.0 / 6
                 - z * (1.0 / 30 - z * (1.0 / 42 - z * (1.0 / 30 - z * (5.0 / 66 - z * (691.0 / 2730 - z * 7 / 6))))));
    return offset + sign * sum;
}

#endif
