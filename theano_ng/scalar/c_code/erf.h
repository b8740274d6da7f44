/* The scaled complementary error function and the inverse error functions, in double precision. C11 and C++.
 *
 * The code has no branches, so that the compiler can vectorize it. The polynomials are interpolations at the Chebyshev
 * nodes of their intervals, computed with 40 digits from the definitions. Unless stated otherwise, t is the argument
 * mapped to [-1, 1]. A&S: M. Abramowitz and I. Stegun, Handbook of Mathematical Functions. */
#ifndef TNG_SCALAR_ERF_H
#define TNG_SCALAR_ERF_H

#ifndef TNG_PI
#define TNG_PI 3.14159265358979323846
#define TNG_NAN __builtin_nan("")
#define TNG_INF __builtin_inf()
/* Add the next coefficient of a polynomial in t. */
#define TNG_HORNER(coefficient) p = TNG_MUL_ADD(p, t, coefficient);
#endif

/* (1 + 2x) erfcx(x) for x >= 0, t = (x - 3.75) / (x + 3.75); Chebyshev fit of degree 24, relative error 6.0e-18. */
TNG_INLINE npy_float64 tng_erfcx_fit(npy_float64 t)
{
    npy_float64 p = 4.434959070009628e-10;
    TNG_HORNER(3.110310719839165e-10)
    TNG_HORNER(-5.28428697963142e-09)
    TNG_HORNER(-3.743568033634583e-09)
    TNG_HORNER(3.8965452548985966e-08)
    TNG_HORNER(2.3261913276696566e-08)
    TNG_HORNER(-2.591069687796658e-07)
    TNG_HORNER(-5.721597255990987e-08)
    TNG_HORNER(1.752057970166318e-06)
    TNG_HORNER(-9.735619015182663e-07)
    TNG_HORNER(-1.1444412439171722e-05)
    TNG_HORNER(2.2384240314224437e-05)
    TNG_HORNER(5.1649211390702855e-05)
    TNG_HORNER(-0.0002901540809795271)
    TNG_HORNER(0.0002937136342850081)
    TNG_HORNER(0.0017556258530017257)
    TNG_HORNER(-0.009746579552504244)
    TNG_HORNER(0.028362277418940665)
    TNG_HORNER(-0.058693398590212366)
    TNG_HORNER(0.09230432116037876)
    TNG_HORNER(-0.10880393014171785)
    TNG_HORNER(0.08227673849014516)
    TNG_HORNER(0.003585415485463775)
    TNG_HORNER(-0.14024059858554697)
    TNG_HORNER(1.2375126308378275)
    return p;
}

/* Return erfcx(x) = exp(x^2) erfc(x). For x < 0 it is 2 exp(x^2) - erfcx(-x), where the rounding error of x^2 is
 * corrected. */
TNG_INLINE npy_float64 tng_erfcx(npy_float64 x)
{
    /* For x >= 0 the exponential is not used: compute exp(0), because the vectorized exp is slow if an element
     * overflows. */
    const npy_float64 a = __builtin_fabs(x), base = 0.5 * (x - a), square = base * base,
                      rest = __builtin_fma(base, base, -square);
    const npy_float64 e = exp(square);
    /* Near 0 the value must be 1, but the fit is one unit in the last place below 1. */
    const npy_float64 tail = a < 0x1p-54 ? 1 : tng_erfcx_fit(1 - 7.5 / (a + 3.75)) / (1 + 2 * a);
    const npy_float64 left = x < -26.63 ? TNG_INF : 2 * (e + e * rest) - tail;
    return x < 0 ? left : tail;
}

/* erfinv(x) / x for w = -log(1 - x^2) in [0, 5], t = w / 2.5 - 1; Chebyshev fit of degree 21, relative error 2.0e-17. */
TNG_INLINE npy_float64 tng_erfinv_low(npy_float64 t)
{
    npy_float64 p = 3.7410654711236935e-11;
    TNG_HORNER(2.3084829707344974e-10)
    TNG_HORNER(-9.693630567115212e-10)
    TNG_HORNER(-1.475285708560293e-09)
    TNG_HORNER(1.1025378653681546e-08)
    TNG_HORNER(-7.397210188617435e-09)
    TNG_HORNER(-7.0879482945351e-08)
    TNG_HORNER(2.0011441190417487e-07)
    TNG_HORNER(1.3581916367059452e-07)
    TNG_HORNER(-1.854178890278775e-06)
    TNG_HORNER(2.8516600541914403e-06)
    TNG_HORNER(8.652828062762427e-06)
    TNG_HORNER(-4.143207367616244e-05)
    TNG_HORNER(2.0472395037709897e-05)
    TNG_HORNER(0.0002921906855461145)
    TNG_HORNER(-0.0008341356408355454)
    TNG_HORNER(-0.0004878983983671671)
    TNG_HORNER(0.008525400950756228)
    TNG_HORNER(-0.019573561059545413)
    TNG_HORNER(-0.026108235777393043)
    TNG_HORNER(0.6166006918604174)
    TNG_HORNER(1.501409351110792)
    return p;
}

/* erfinv(x) / x for s = sqrt(w) in [2.2, 4], t = (s - 3.1) / 0.9; Chebyshev fit of degree 22, relative error 3.0e-18. */
TNG_INLINE npy_float64 tng_erfinv_middle(npy_float64 t)
{
    npy_float64 p = -2.7847615513721214e-10;
    TNG_HORNER(5.945055158211389e-10)
    TNG_HORNER(1.5656530430035596e-09)
    TNG_HORNER(-7.210705946919519e-09)
    TNG_HORNER(8.077791374079827e-09)
    TNG_HORNER(1.9454616364720397e-08)
    TNG_HORNER(-1.0866378903341045e-07)
    TNG_HORNER(2.0014075524084302e-07)
    TNG_HORNER(1.294473069059072e-07)
    TNG_HORNER(-1.6592649037681274e-06)
    TNG_HORNER(3.809618896457533e-06)
    TNG_HORNER(-4.857919067314516e-07)
    TNG_HORNER(-2.055650280525291e-05)
    TNG_HORNER(5.84433408327959e-05)
    TNG_HORNER(-5.244611049107218e-05)
    TNG_HORNER(-0.00014711391819100195)
    TNG_HORNER(0.0006996075837981072)
    TNG_HORNER(-0.001602124352815995)
    TNG_HORNER(0.0027040513603731418)
    TNG_HORNER(-0.0041528216025700565)
    TNG_HORNER(0.006042673283659691)
    TNG_HORNER(0.9030205044313409)
    TNG_HORNER(2.933231672208679)
    return p;
}

/* erfinv(x) / (x s) for s in [4, 27.5], t maps 1/s from [1/27.5, 1/4] to [-1, 1]; Chebyshev fit of degree 30, relative
 * error 3.0e-17. */
TNG_INLINE npy_float64 tng_erfinv_high(npy_float64 t)
{
    npy_float64 p = -1.0688837706406342e-08;
    TNG_HORNER(1.7663124583830033e-08)
    TNG_HORNER(5.667647312918032e-08)
    TNG_HORNER(-1.0166273615425723e-07)
    TNG_HORNER(-1.40681280949172e-07)
    TNG_HORNER(2.849160738640154e-07)
    TNG_HORNER(1.9882720438149698e-07)
    TNG_HORNER(-4.885357096954254e-07)
    TNG_HORNER(-1.8968480439133713e-07)
    TNG_HORNER(5.923121517315685e-07)
    TNG_HORNER(1.2912882456210077e-07)
    TNG_HORNER(-4.865775287422745e-07)
    TNG_HORNER(-1.390412858990554e-07)
    TNG_HORNER(3.1164290225177207e-07)
    TNG_HORNER(3.2442522027570077e-08)
    TNG_HORNER(2.3763139732337467e-08)
    TNG_HORNER(-1.6224240235865424e-07)
    TNG_HORNER(2.9248298988234313e-07)
    TNG_HORNER(-4.585795260333093e-07)
    TNG_HORNER(8.229539674152563e-07)
    TNG_HORNER(-1.5251457582498355e-06)
    TNG_HORNER(2.9220528896974504e-06)
    TNG_HORNER(-5.8828261113153235e-06)
    TNG_HORNER(1.2602733761854817e-05)
    TNG_HORNER(-2.8893334759924746e-05)
    TNG_HORNER(7.48297299733112e-05)
    TNG_HORNER(-0.0002789162609370712)
    TNG_HORNER(0.0013680794624962294)
    TNG_HORNER(-0.001993871975835724)
    TNG_HORNER(-0.02043042180653873)
    TNG_HORNER(0.9812264416084467)
    return p;
}

/* Return erfinv(x) / x, given w = -log(1 - x^2), the variable of M. Giles, Approximating the erfinv function (GPU
 * Computing Gems, 2011). */
TNG_INLINE npy_float64 tng_erfinv_ratio(npy_float64 w)
{
    const npy_float64 s = sqrt(w), low = tng_erfinv_low(0.4 * w - 1), middle = tng_erfinv_middle((s - 3.1) * (1 / 0.9));
    const npy_float64 high = s * tng_erfinv_high((2 / s - (0.25 + 1 / 27.5)) * (1 / (0.25 - 1 / 27.5)));
    const npy_float64 upper = s < 4 ? middle : high;
    return w < 5 ? low : upper;
}

TNG_INLINE npy_float64 tng_erfinv(npy_float64 x)
{
    return x * tng_erfinv_ratio(-log((1 - x) * (1 + x)));
}
TNG_INLINE npy_float64 tng_erfcinv(npy_float64 z)
{
    return (1 - z) * tng_erfinv_ratio(-log(z * (2 - z)));
}

#endif
