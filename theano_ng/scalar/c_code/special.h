/* Special functions that the C library does not have, in double precision. C11 and C++.
 *
 * Written from the formulas of M. Abramowitz and I. Stegun, Handbook of Mathematical Functions (A&S), and of the NIST Digital Library of
 * Mathematical Functions (DLMF); equation numbers beside the code. No input makes a loop run without bound.
 */
#ifndef TNG_SCALAR_SPECIAL_H
#define TNG_SCALAR_SPECIAL_H

#define TNG_PI 3.14159265358979323846
#define TNG_NAN __builtin_nan("")
#define TNG_INF __builtin_inf()

/* pi / tan(pi x), with the argument reduced before it is multiplied by pi. */
static inline npy_float64 tng_pi_cot(npy_float64 x)
{
    const npy_float64 r = x - __builtin_rint(x);
    return TNG_PI / tan(TNG_PI * r);
}

/* Digamma. Poles: -inf at +0, +inf at -0, NaN at negative integers. */
static inline npy_float64 tng_psi(npy_float64 x)
{
    npy_float64 shift = 0, z, w;
    if (x == 0) return __builtin_copysign(TNG_INF, -x);
    if (x < 0) {
        if (x == __builtin_floor(x)) return TNG_NAN;
        shift = -tng_pi_cot(x);                                   /* A&S 6.3.7 */
        x = 1 - x;
    }
    if (x == TNG_INF) return x;
    while (x < 10) {                                              /* A&S 6.3.5 */
        shift -= 1 / x;
        x += 1;
    }
    z = 1 / (x * x);                                              /* A&S 6.3.18 */
    w = z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
    return shift + log(x) - 0.5 / x - w;
}

/* Trigamma; +inf at zero and the negative integers. */
static inline npy_float64 tng_tri_gamma(npy_float64 x)
{
    npy_float64 sum = 0, sign = 1, offset = 0, z;
    if (x <= 0) {
        npy_float64 s;
        if (x == __builtin_floor(x)) return TNG_INF;
        s = sin(TNG_PI * (x - __builtin_rint(x)));                /* A&S 6.4.7 */
        offset = (TNG_PI / s) * (TNG_PI / s);
        sign = -1;
        x = 1 - x;
    }
    while (x < 10) {                                              /* A&S 6.4.6 */
        sum += 1 / (x * x);
        x += 1;
    }
    z = 1 / (x * x);                                              /* A&S 6.4.12 */
    sum += 1 / x + 0.5 * z
         + z / x * (1.0 / 6 - z * (1.0 / 30 - z * (1.0 / 42 - z * (1.0 / 30 - z * (5.0 / 66 - z * (691.0 / 2730 - z * 7 / 6))))));
    return offset + sign * sum;
}

/* x^a e^-x / Gamma(a + 1), without overflow of its factors. */
static inline npy_float64 tng_gamma_prefix(npy_float64 a, npy_float64 x)
{
    npy_float64 u, z, stirling;
    if (a < 10) return exp(a * log(x) - x - lgamma(a + 1));
    /* Gamma(a + 1) = sqrt(2 pi a) (a/e)^a e^stirling, A&S 6.1.41 */
    z = 1 / (a * a);
    stirling = (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z / 1188)))) / a;
    u = (x - a) / a;
    /* For x near a the exponent is a small difference; elsewhere log1p(u) - u is exact enough as it stands. */
    return exp(a * (__builtin_fabs(u) < 0.5 ? log1p(u) - u : log(x / a) - u) - stirling) / sqrt(2 * TNG_PI * a);
}

/* The same functions for a > 1e8: Temme's expansion DLMF 8.12.3 with one term, where x/a is so near 1 that they are not 0 or 1. */
static inline npy_float64 tng_incomplete_gamma_large(npy_float64 a, npy_float64 x, int upper)
{
    const npy_float64 u = (x - a) / a;
    npy_float64 s, eta, y, rest;
    if (__builtin_fabs(u) > 0.01) return upper ? u < 0 : u > 0;
    /* eta^2 / 2 = u - log1p(u), from its series */
    s = 1.0 / 2 - u * (1.0 / 3 - u * (1.0 / 4 - u * (1.0 / 5 - u * (1.0 / 6 - u * (1.0 / 7 - u * (1.0 / 8 - u * (1.0 / 9)))))));
    eta = u * sqrt(2 * s);
    y = u * sqrt(a * s);
    rest = exp(-y * y) / (sqrt(a) * 2.50662827463100050242) * (-1.0 / 3 + eta * (1.0 / 12 - eta * (2.0 / 135 - eta / 864)));
    return upper ? 0.5 * erfc(y) + rest : 0.5 * erfc(-y) - rest;
}

/* log Gamma(1 + a) without loss of digits for small a, A&S 6.1.33. */
static inline npy_float64 tng_lgamma1p(npy_float64 a)
{
    if (__builtin_fabs(a) > 1e-3) return lgamma(1 + a);
    return a * (-0.57721566490153286061 + a * (0.82246703342411321824 - a * (0.40068563438653142847 - a * (0.27058080842778454788
         - a * 0.20738555102867398527))));
}

/* Q(a, x) where it is small though x is below 1.1, so that 1 - P has few digits: DLMF 8.7.3. */
static inline npy_float64 tng_incomplete_gamma_small(npy_float64 a, npy_float64 x)
{
    const npy_float64 power = a * log(x);
    npy_float64 factor = 1, sum = 0, term;
    int n;
    for (n = 1; n < 100; n++) {
        factor *= -x / n;
        term = factor / (a + n);
        sum += term;
        if (__builtin_fabs(term) <= 1e-17 * __builtin_fabs(sum)) break;
    }
    return -expm1(power - tng_lgamma1p(a)) - exp(power - lgamma(a)) * sum;
}

/* Regularized incomplete gamma functions; upper = 0 gives P(a, x), upper = 1 gives Q(a, x) = 1 - P. */
static inline npy_float64 tng_incomplete_gamma(npy_float64 a, npy_float64 x, int upper)
{
    npy_float64 prefix, p;
    int n;
    if (!(a >= 0) || !(x >= 0) || (a == 0 && x == 0) || (a == TNG_INF && x == TNG_INF)) return TNG_NAN;
    if (x == 0 || a == TNG_INF) return upper;
    if (a == 0 || x == TNG_INF) return !upper;
    if (a > 1e8) return tng_incomplete_gamma_large(a, x, upper);
    if (upper && x <= 1.1 && a <= (x <= 0.5 ? -0.4 / log(x) : 1.1 * x)) return tng_incomplete_gamma_small(a, x);
    prefix = tng_gamma_prefix(a, x);
    if (x < a + 1) {                                              /* DLMF 8.11.4 */
        npy_float64 term = 1, sum = 1;
        for (n = 1; n < 2000000 && term > sum * 1e-17; n++) {
            term *= x / (a + n);
            sum += term;
        }
        p = prefix * sum;
        return upper ? 1 - p : (p > 1 ? 1 : p);
    } else {                                                      /* A&S 6.5.31, evaluated from the front */
        npy_float64 b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
        for (n = 1; n < 2000000; n++) {
            const npy_float64 an = n * (a - n);
            npy_float64 delta;
            b += 2;
            d = an * d + b;
            if (__builtin_fabs(d) < 1e-300) d = 1e-300;
            c = b + an / c;
            if (__builtin_fabs(c) < 1e-300) c = 1e-300;
            d = 1 / d;
            delta = d * c;
            h *= delta;
            if (__builtin_fabs(delta - 1) < 1e-16) break;
        }
        p = prefix * a * h;
        return upper ? (p > 1 ? 1 : p) : 1 - p;
    }
}

static inline npy_float64 tng_gammainc(npy_float64 a, npy_float64 x) { return tng_incomplete_gamma(a, x, 0); }
static inline npy_float64 tng_gammaincc(npy_float64 a, npy_float64 x) { return tng_incomplete_gamma(a, x, 1); }
static inline npy_float64 tng_gammal(npy_float64 a, npy_float64 x) { return tng_incomplete_gamma(a, x, 0) * tgamma(a); }
static inline npy_float64 tng_gammau(npy_float64 a, npy_float64 x)
{
    if (a > 0 && a < 1e-300 && x > 0) a = 1e-300;                 /* the value is E1(x), but gamma(a) overflows */
    return tng_incomplete_gamma(a, x, 1) * tgamma(a);
}

/* Probability that a chi-squared variable of k degrees of freedom exceeds x, A&S 26.4.19. */
static inline npy_float64 tng_chi2sf(npy_float64 x, npy_float64 k)
{
    if (!(k > 0) || x != x) return TNG_NAN;
    return x <= 0 ? 1 : tng_incomplete_gamma(0.5 * k, 0.5 * x, 1);
}

/* exp(x^2) erfc(x). */
static inline npy_float64 tng_erfcx(npy_float64 x)
{
    npy_float64 high, f;
    int n;
    if (x < 6) {
        union { npy_float64 value; npy_uint64 bits; } u;
        if (x < -26.7) return TNG_INF;
        /* The square of the upper half of the digits is exact, which keeps the error of x*x out of the exponential. */
        u.value = x;
        u.bits &= 0xffffffff00000000ULL;
        high = u.value;
        return exp(high * high) * exp((x - high) * (x + high)) * erfc(x);
    }
    if (x != x) return x;
    f = x;                                                        /* A&S 7.1.14, from the back */
    for (n = 50; n > 0; n--) f = x + 0.5 * n / f;
    return 0.56418958354775628695 / f;
}

/* The y >= 0 with erfc(y) = z, for 0 < z <= 1: Newton's method on log erfc. */
static inline npy_float64 tng_erfcinv_tail(npy_float64 z)
{
    npy_float64 y, target = log(z);
    int n;
    if (z > 0.4) {
        y = 0.88622692545275801365 * (1 - z);
    } else {
        /* Leading term of erfc(y) ~ exp(-y^2) / (y sqrt(pi)), A&S 7.1.23 */
        const npy_float64 t = -target - 0.57236494292470008707;
        y = t > 1.5 ? sqrt(t - 0.5 * log(t)) : 0.6;
    }
    for (n = 0; n < 12; n++) {
        const npy_float64 scaled = tng_erfcx(y);
        /* log erfc(y) - log z, and its derivative -2 / (sqrt(pi) erfcx(y)) */
        const npy_float64 residual = z > 0.4 ? log(erfc(y) / z) : log(scaled) - y * y - target;
        const npy_float64 step = residual * scaled * 0.88622692545275801365;
        y += step;
        if (__builtin_fabs(step) <= 1e-16 * __builtin_fabs(y)) break;
    }
    return y;
}

static inline npy_float64 tng_erfcinv(npy_float64 z)
{
    if (!(z >= 0 && z <= 2)) return TNG_NAN;
    if (z == 0) return TNG_INF;
    if (z == 2) return -TNG_INF;
    return z <= 1 ? tng_erfcinv_tail(z) : -tng_erfcinv_tail(2 - z);
}

static inline npy_float64 tng_erfinv(npy_float64 x)
{
    const npy_float64 a = __builtin_fabs(x);
    npy_float64 y;
    int n;
    if (!(a <= 1)) return TNG_NAN;
    if (a == 1) return __builtin_copysign(TNG_INF, x);
    if (a > 0.5) return __builtin_copysign(tng_erfcinv_tail(1 - a), x);
    /* Newton's method from the linear term of the series A&S 7.1.5 */
    y = 0.88622692545275801365 * a;
    for (n = 0; n < 12; n++) {
        const npy_float64 step = (erf(y) - a) * 0.88622692545275801365 * exp(y * y);
        y -= step;
        if (__builtin_fabs(step) <= 1e-16 * y) break;
    }
    return __builtin_copysign(y, x);
}

/* Bessel functions of the first kind; at infinity those of libm are 0, those of SciPy NaN. */
static inline npy_float64 tng_j0(npy_float64 x) { return __builtin_isinf(x) ? TNG_NAN : j0(x); }
static inline npy_float64 tng_j1(npy_float64 x) { return __builtin_isinf(x) ? TNG_NAN : j1(x); }

/* Modified Bessel functions I_0 and I_1: the series A&S 9.6.10, all of whose terms are positive, and for large x A&S 9.7.1. */
static inline npy_float64 tng_bessel_i(int order, npy_float64 x)
{
    const npy_float64 a = __builtin_fabs(x);
    npy_float64 term, sum;
    int n;
    if (x != x) return x;
    if (a < 30) {
        const npy_float64 q = 0.25 * a * a;
        term = sum = order ? 0.5 * a : 1;
        for (n = 1; n < 200 && term > sum * 1e-17; n++) {
            term *= q / ((npy_float64)n * (n + order));
            sum += term;
        }
    } else if (a == TNG_INF) {
        return TNG_NAN;                                           /* as SciPy */
    } else {
        const npy_float64 mu = 4.0 * order;
        npy_float64 half = exp(0.5 * a);
        term = sum = 1;
        for (n = 1; n < 30; n++) {
            term *= -(mu - (2.0 * n - 1) * (2.0 * n - 1)) / (8.0 * n * a);
            sum += term;
        }
        /* In two factors: exp(a) overflows before the result does. */
        sum = half * (half * (sum / sqrt(2 * TNG_PI * a)));
    }
    return order && x < 0 ? -sum : sum;
}

static inline npy_float64 tng_i0(npy_float64 x) { return tng_bessel_i(0, x); }
static inline npy_float64 tng_i1(npy_float64 x) { return tng_bessel_i(1, x); }

#endif
