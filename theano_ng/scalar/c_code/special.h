/* Incomplete gamma functions, in double precision; needs gamma.h. C11 and C++.
 *
 * The code implements the formulas of M. Abramowitz and I. Stegun, Handbook of Mathematical Functions (A&S), and of the
 * NIST Digital Library of Mathematical Functions (DLMF). The comments give the equation numbers. Every loop has a bound
 * that no input can exceed. */
#ifndef TNG_SCALAR_SPECIAL_H
#define TNG_SCALAR_SPECIAL_H

/* Return Gamma(a + 1) for a scalar 0 <= a < 10, by recurrence. */
TNG_INLINE npy_float64 tng_gamma1p(npy_float64 a)
{
    npy_float64 t = a < 0.5 ? a : a - 1, up = a < 0.5 ? 1 / (1 + a) : 1;
    while (t > 0.5) {
        up *= t + 1;
        t -= 1;
    }
    return tng_gamma_fit(t) * up;
}

/* Return x^a e^-x / Gamma(a + 1), without overflow of the factors. */
TNG_INLINE npy_float64 tng_gamma_prefix(npy_float64 a, npy_float64 x)
{
    npy_float64 u, z, stirling;
    if (a < 10)
        return exp(a * log(x) - x) / tng_gamma1p(a);
    /* Gamma(a + 1) = sqrt(2 pi a) (a/e)^a e^stirling, A&S 6.1.41 */
    z = 1 / (a * a);
    stirling = (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z / 1188)))) / a;
    u = (x - a) / a;
    /* For x near a, log(x / a) - u is a small difference, so compute the logarithm as log1p(u). Elsewhere log(x / a) is
     * exact enough. */
    return exp(a * (__builtin_fabs(u) < 0.5 ? log1p(u) - u : log(x / a) - u) - stirling) / sqrt(2 * TNG_PI * a);
}

/* Return the regularized incomplete gamma function P(a, x), or Q(a, x) if `upper`, for a > 1e8. If x/a is not near 1,
 * the value is 0 or 1. Otherwise use Temme's expansion DLMF 8.12.3 with one term. */
TNG_INLINE npy_float64 tng_incomplete_gamma_large(npy_float64 a, npy_float64 x, int upper)
{
    const npy_float64 u = (x - a) / a;
    npy_float64 s, eta, y, rest;
    if (__builtin_fabs(u) > 0.01)
        return upper ? u < 0 : u > 0;
    /* eta^2 / 2 = u - log1p(u), from its series */
    s = 1.0 / 2
        - u * (1.0 / 3 - u * (1.0 / 4 - u * (1.0 / 5 - u * (1.0 / 6 - u * (1.0 / 7 - u * (1.0 / 8 - u * (1.0 / 9)))))));
    eta = u * sqrt(2 * s);
    y = u * sqrt(a * s);
    rest = exp(-y * y) / (sqrt(a) * 2.50662827463100050242)
           * (-1.0 / 3 + eta * (1.0 / 12 - eta * (2.0 / 135 - eta / 864)));
    return upper ? 0.5 * erfc(y) + rest : 0.5 * erfc(-y) - rest;
}

/* Return log Gamma(1 + a) without loss of digits for small a, A&S 6.1.33. */
TNG_INLINE npy_float64 tng_lgamma1p(npy_float64 a)
{
    if (__builtin_fabs(a) > 1e-3)
        return tng_lgamma_right(1 + a);
    return a
           * (-0.57721566490153286061
              + a
                    * (0.82246703342411321824
                       - a * (0.40068563438653142847 - a * (0.27058080842778454788 - a * 0.20738555102867398527))));
}

/* Return Q(a, x) by DLMF 8.7.3. Use the formula if x is at most 1.1 and Q is small: then P is near 1, so that 1 - P
 * would have few correct digits. */
TNG_INLINE npy_float64 tng_incomplete_gamma_small(npy_float64 a, npy_float64 x)
{
    const npy_float64 power = a * log(x);
    npy_float64 factor = 1, sum = 0, term;
    int n;
    for (n = 1; n < 100; n++) {
        factor *= -x / n;
        term = factor / (a + n);
        sum += term;
        if (__builtin_fabs(term) <= 1e-17 * __builtin_fabs(sum))
            break;
    }
    return -expm1(power - tng_lgamma1p(a)) - exp(power - tng_lgamma_right(a)) * sum;
}

/* Return a regularized incomplete gamma function: P(a, x) if `upper` is 0, Q(a, x) = 1 - P if `upper` is 1. */
TNG_INLINE npy_float64 tng_incomplete_gamma(npy_float64 a, npy_float64 x, int upper)
{
    npy_float64 prefix, p;
    int n;
    if (!(a >= 0) || !(x >= 0) || (a == 0 && x == 0) || (a == TNG_INF && x == TNG_INF))
        return TNG_NAN;
    if (x == 0 || a == TNG_INF)
        return upper;
    if (a == 0 || x == TNG_INF)
        return !upper;
    if (a > 1e8)
        return tng_incomplete_gamma_large(a, x, upper);
    if (upper && x <= 1.1 && a <= (x <= 0.5 ? -0.4 / log(x) : 1.1 * x))
        return tng_incomplete_gamma_small(a, x);
    prefix = tng_gamma_prefix(a, x);
    if (x < a + 1) { /* DLMF 8.11.4 */
        npy_float64 term = 1, sum = 1;
        for (n = 1; n < 2000000 && term > sum * 1e-17; n++) {
            term *= x / (a + n);
            sum += term;
        }
        p = prefix * sum;
        return upper ? 1 - p : (p > 1 ? 1 : p);
    }
    else { /* The continued fraction A&S 6.5.31, evaluated from the front */
        npy_float64 b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
        for (n = 1; n < 2000000; n++) {
            const npy_float64 an = n * (a - n);
            npy_float64 delta;
            b += 2;
            d = an * d + b;
            if (__builtin_fabs(d) < 1e-300)
                d = 1e-300;
            c = b + an / c;
            if (__builtin_fabs(c) < 1e-300)
                c = 1e-300;
            d = 1 / d;
            delta = d * c;
            h *= delta;
            if (__builtin_fabs(delta - 1) < 1e-16)
                break;
        }
        p = prefix * a * h;
        return upper ? (p > 1 ? 1 : p) : 1 - p;
    }
}

TNG_INLINE npy_float64 tng_gammainc(npy_float64 a, npy_float64 x)
{
    return tng_incomplete_gamma(a, x, 0);
}
TNG_INLINE npy_float64 tng_gammaincc(npy_float64 a, npy_float64 x)
{
    return tng_incomplete_gamma(a, x, 1);
}
/* Return Gamma(a) for a >= 0. */
TNG_INLINE npy_float64 tng_gamma_right(npy_float64 a)
{
    return a > 0 && a < 10 ? tng_gamma1p(a) / a : tng_gamma(a);
}

TNG_INLINE npy_float64 tng_gammal(npy_float64 a, npy_float64 x)
{
    return tng_incomplete_gamma(a, x, 0) * tng_gamma_right(a);
}
TNG_INLINE npy_float64 tng_gammau(npy_float64 a, npy_float64 x)
{
    if (a > 0 && a < 1e-300 && x > 0)
        a = 1e-300; /* below 1e-300 the result is E1(x) for every a, but Gamma(a) may overflow */
    return tng_incomplete_gamma(a, x, 1) * tng_gamma_right(a);
}

/* Return the probability that a chi-squared variable of k degrees of freedom exceeds x, A&S 26.4.19. */
TNG_INLINE npy_float64 tng_chi2sf(npy_float64 x, npy_float64 k)
{
    if (!(k > 0) || x != x)
        return TNG_NAN;
    return x <= 0 ? 1 : tng_incomplete_gamma(0.5 * k, 0.5 * x, 1);
}

#endif
