/* Bessel functions of the orders 0 and 1, in double precision. C11 and C++.
 *
 * The code has no branches, so that the compiler can vectorize it. The polynomials are interpolations at the Chebyshev
 * nodes of their intervals, computed with 40 digits from the definitions. Unless stated otherwise, t is the argument
 * mapped to [-1, 1]. A&S: M. Abramowitz and I. Stegun, Handbook of Mathematical Functions. */
#ifndef TNG_SCALAR_BESSEL_H
#define TNG_SCALAR_BESSEL_H

#ifndef TNG_PI
#define TNG_PI 3.14159265358979323846
#define TNG_NAN __builtin_nan("")
#define TNG_INF __builtin_inf()
/* Add the next coefficient of a polynomial in t. */
#define TNG_HORNER(coefficient) p = TNG_MUL_ADD(p, t, coefficient);
#endif

/* J0(x) / ((z - r1) (z - r2)) for z = x^2 in [0, 25], t = z / 12.5 - 1; r1 and r2 are the first two values of z at
 * which J0(x) is 0. Chebyshev fit of degree 11, relative error 2.0e-18. */
TNG_INLINE npy_float64 tng_j0_small(npy_float64 t)
{
    npy_float64 p = -3.524289753004227e-16;
    TNG_HORNER(1.8688672682728884e-14)
    TNG_HORNER(-8.404185273180054e-13)
    TNG_HORNER(3.1637239892118345e-11)
    TNG_HORNER(-9.781438946172569e-10)
    TNG_HORNER(2.4286220380254094e-08)
    TNG_HORNER(-4.7062916645708525e-07)
    TNG_HORNER(6.854954847199373e-06)
    TNG_HORNER(-7.121705240575853e-05)
    TNG_HORNER(0.00048768271776558413)
    TNG_HORNER(-0.0019210870437164043)
    TNG_HORNER(0.0031873556303932387)
    return p;
}

/* P of A&S 9.2.5 for order 0 and x >= 5, t = 50 / x^2 - 1; Chebyshev fit of degree 17, relative error 2.0e-17. */
TNG_INLINE npy_float64 tng_j0_p(npy_float64 t)
{
    npy_float64 p = -1.9975016566739445e-12;
    TNG_HORNER(3.5736949521760605e-12)
    TNG_HORNER(2.411441866647587e-12)
    TNG_HORNER(-3.5821210474962445e-12)
    TNG_HORNER(-1.189461787537485e-11)
    TNG_HORNER(2.4563632799612557e-11)
    TNG_HORNER(-3.6990044251542916e-11)
    TNG_HORNER(9.74682627637317e-11)
    TNG_HORNER(-2.843404232046865e-10)
    TNG_HORNER(8.561284476621563e-10)
    TNG_HORNER(-2.870792244429867e-09)
    TNG_HORNER(1.105832711236427e-08)
    TNG_HORNER(-5.086428409883204e-08)
    TNG_HORNER(2.975900989096833e-07)
    TNG_HORNER(-2.4599633242216923e-06)
    TNG_HORNER(3.4917305810915766e-05)
    TNG_HORNER(-0.0013274931272003446)
    TNG_HORNER(0.9986347659091991)
    return p;
}

/* x Q, with Q of A&S 9.2.5 for order 0 and x >= 5, t = 50 / x^2 - 1; Chebyshev fit of degree 21, relative error
 * 3.0e-17. */
TNG_INLINE npy_float64 tng_j0_q(npy_float64 t)
{
    npy_float64 p = 3.750660241439195e-12;
    TNG_HORNER(-5.912786560846945e-12)
    TNG_HORNER(-1.1153425787578828e-11)
    TNG_HORNER(1.70606170155461e-11)
    TNG_HORNER(2.2610125498080994e-11)
    TNG_HORNER(-3.599094494084107e-11)
    TNG_HORNER(-7.131780305763748e-12)
    TNG_HORNER(5.53339786752136e-12)
    TNG_HORNER(5.843656666984275e-11)
    TNG_HORNER(-1.2115517654380601e-10)
    TNG_HORNER(2.373363577724958e-10)
    TNG_HORNER(-5.811510556278745e-10)
    TNG_HORNER(1.5272918979801804e-09)
    TNG_HORNER(-4.295554938184743e-09)
    TNG_HORNER(1.3296752836791914e-08)
    TNG_HORNER(-4.63978199552338e-08)
    TNG_HORNER(1.8870296015840276e-07)
    TNG_HORNER(-9.409875312710735e-07)
    TNG_HORNER(6.239113170466805e-06)
    TNG_HORNER(-6.338715442513257e-05)
    TNG_HORNER(0.001314213972910237)
    TNG_HORNER(-0.12361496352611864)
    return p;
}

/* J1(x) / x / ((z - r1) (z - r2)) for z = x^2 in [0, 25], t = z / 12.5 - 1; r1 and r2 are the first two values of z at
 * which J1(x) / x is 0. Chebyshev fit of degree 11, relative error 3.0e-19. */
TNG_INLINE npy_float64 tng_j1_small(npy_float64 t)
{
    npy_float64 p = -1.2377241785806614e-17;
    TNG_HORNER(7.050885594278574e-16)
    TNG_HORNER(-3.425083087919302e-14)
    TNG_HORNER(1.4012939606701113e-12)
    TNG_HORNER(-4.7428777955818374e-11)
    TNG_HORNER(1.3002918729585539e-09)
    TNG_HORNER(-2.8111472529722753e-08)
    TNG_HORNER(4.625979215164964e-07)
    TNG_HORNER(-5.515494459601969e-06)
    TNG_HORNER(4.42186880710148e-05)
    TNG_HORNER(-0.00020932672214860176)
    TNG_HORNER(0.0004323698734106474)
    return p;
}

/* P of A&S 9.2.5 for order 1 and x >= 5, t = 50 / x^2 - 1; Chebyshev fit of degree 17, relative error 2.0e-17. */
TNG_INLINE npy_float64 tng_j1_p(npy_float64 t)
{
    npy_float64 p = 2.1173575182340737e-12;
    TNG_HORNER(-3.7946206140880125e-12)
    TNG_HORNER(-2.530760445033384e-12)
    TNG_HORNER(3.749133511692303e-12)
    TNG_HORNER(1.2711568738317182e-11)
    TNG_HORNER(-2.6348219236772803e-11)
    TNG_HORNER(4.0144908940086184e-11)
    TNG_HORNER(-1.0618042040803036e-10)
    TNG_HORNER(3.1088775918767203e-10)
    TNG_HORNER(-9.42108465131188e-10)
    TNG_HORNER(3.1852202992251782e-09)
    TNG_HORNER(-1.2402728629933329e-08)
    TNG_HORNER(5.791663725419715e-08)
    TNG_HORNER(-3.4667191185744856e-07)
    TNG_HORNER(2.97862110803436e-06)
    TNG_HORNER(-4.5782806529543783e-05)
    TNG_HORNER(0.0022414632139171322)
    TNG_HORNER(1.0022906462560661)
    return p;
}

/* x Q, with Q of A&S 9.2.5 for order 1 and x >= 5, t = 50 / x^2 - 1; Chebyshev fit of degree 20, relative error
 * 3.0e-17. */
TNG_INLINE npy_float64 tng_j1_q(npy_float64 t)
{
    npy_float64 p = 5.499288063650921e-12;
    TNG_HORNER(-8.86347063753487e-12)
    TNG_HORNER(-1.4321526134962363e-11)
    TNG_HORNER(2.2160827936692544e-11)
    TNG_HORNER(3.0330329715038467e-11)
    TNG_HORNER(-5.011071335870982e-11)
    TNG_HORNER(3.475677955109186e-12)
    TNG_HORNER(-1.854885856511523e-11)
    TNG_HORNER(1.2375002645863873e-10)
    TNG_HORNER(-2.7758256253151096e-10)
    TNG_HORNER(6.32848600734026e-10)
    TNG_HORNER(-1.6567269593951687e-09)
    TNG_HORNER(4.7033027636616916e-09)
    TNG_HORNER(-1.4665578811212324e-08)
    TNG_HORNER(5.164154996988851e-08)
    TNG_HORNER(-2.1266727479894664e-07)
    TNG_HORNER(1.0798853844438713e-06)
    TNG_HORNER(-7.369927953913392e-06)
    TNG_HORNER(7.898094177972238e-05)
    TNG_HORNER(-0.001864849621841231)
    TNG_HORNER(0.3730474331740802)
    return p;
}

/* J0 and J1; NaN at infinity, as in SciPy. For |x| < 5: a polynomial times one factor for each of the first two zeros.
 * Each zero is stored as a sum of two parts. For |x| >= 5: the form A&S 9.2.5. The cosine and sine of x - pi/4 are
 * computed from the cosine and sine of x, because the math library reduces x exactly. */
TNG_INLINE npy_float64 tng_j0(npy_float64 x)
{
    const npy_float64 a = __builtin_fabs(x), z = x * x, c = cos(a), s = sin(a), t = 50 / z - 1;
    const npy_float64 small = ((z - 5.783185962946784) - 4.123247343506204e-16)
                              * ((z - 30.471262343662087) + 2.366534485750659e-16)
                              * tng_j0_small(TNG_MUL_ADD(0.08, z, -1));
    const npy_float64 large = TNG_MUL_ADD(tng_j0_p(t), c + s, tng_j0_q(t) / a * (c - s)) / sqrt(TNG_PI * a);
    return a < 5 ? small : large;
}

TNG_INLINE npy_float64 tng_j1(npy_float64 x)
{
    const npy_float64 a = __builtin_fabs(x), z = x * x, c = cos(a), s = sin(a), t = 50 / z - 1;
    const npy_float64 small = x * ((z - 14.681970642123893) + 9.858177825793294e-17)
                              * ((z - 49.2184563216946) - 5.086354069436341e-16)
                              * tng_j1_small(TNG_MUL_ADD(0.08, z, -1));
    const npy_float64 large = TNG_MUL_ADD(tng_j1_p(t), s - c, tng_j1_q(t) / a * (s + c)) / sqrt(TNG_PI * a);
    return a < 5 ? small : (x < 0 ? -large : large);
}

/* I0(x) for t = x^2 / 4 in [0, 16]. All terms are positive, so no digits cancel. Chebyshev fit of degree 16, relative
 * error 4.0e-19. */
TNG_INLINE npy_float64 tng_i0_small(npy_float64 t)
{
    npy_float64 p = 3.6454386812677436e-27;
    TNG_HORNER(4.940670282542572e-25)
    TNG_HORNER(1.35095827969477e-22)
    TNG_HORNER(2.5698743857514957e-20)
    TNG_HORNER(4.3600362269175774e-18)
    TNG_HORNER(6.275862820937522e-16)
    TNG_HORNER(7.594079950279469e-14)
    TNG_HORNER(7.594056846699174e-12)
    TNG_HORNER(6.151187413177668e-10)
    TNG_HORNER(3.936759885673581e-08)
    TNG_HORNER(1.9290123457790406e-06)
    TNG_HORNER(6.944444444424399e-05)
    TNG_HORNER(0.0017361111111113758)
    TNG_HORNER(0.027777777777777565)
    TNG_HORNER(0.2500000000000001)
    TNG_HORNER(1.0)
    TNG_HORNER(1.0)
    return p;
}

/* sqrt(x) exp(-x) I0(x) for x >= 8, t = 16 / x - 1; Chebyshev fit of degree 23, relative error 3.0e-17. */
TNG_INLINE npy_float64 tng_i0_large(npy_float64 t)
{
    npy_float64 p = -2.4421972688131832e-11;
    TNG_HORNER(9.114760157514253e-11)
    TNG_HORNER(1.7698085539456536e-10)
    TNG_HORNER(-6.494591114401118e-10)
    TNG_HORNER(-6.327909921997027e-10)
    TNG_HORNER(2.163681278413876e-09)
    TNG_HORNER(1.6084886155781772e-09)
    TNG_HORNER(-4.5305710768621196e-09)
    TNG_HORNER(-3.5862834111582305e-09)
    TNG_HORNER(6.522264862032271e-09)
    TNG_HORNER(7.600254486433509e-09)
    TNG_HORNER(-5.0175940345046716e-09)
    TNG_HORNER(-1.3427511481900905e-08)
    TNG_HORNER(-6.856484545962442e-09)
    TNG_HORNER(7.559364098665437e-09)
    TNG_HORNER(2.156780676115673e-08)
    TNG_HORNER(3.932512321137824e-08)
    TNG_HORNER(8.872014585661555e-08)
    TNG_HORNER(2.9735992084667734e-07)
    TNG_HORNER(1.4838476780922646e-06)
    TNG_HORNER(1.114303378845176e-05)
    TNG_HORNER(0.00013621607438951463)
    TNG_HORNER(0.0033605519836678913)
    TNG_HORNER(0.4021765094450081)
    return p;
}

/* I1(x) / (x / 2) for t = x^2 / 4 in [0, 16]. All terms are positive, so no digits cancel. Chebyshev fit of degree 15,
 * relative error 2.0e-18. */
TNG_INLINE npy_float64 tng_i1_small(npy_float64 t)
{
    npy_float64 p = 5.833651333188183e-26;
    TNG_HORNER(7.413211040554544e-24)
    TNG_HORNER(1.891028804078631e-21)
    TNG_HORNER(3.3410044697092935e-19)
    TNG_HORNER(5.231992159979275e-17)
    TNG_HORNER(6.90345927367201e-15)
    TNG_HORNER(7.594078567160322e-13)
    TNG_HORNER(6.834651294492253e-11)
    TNG_HORNER(4.920949921538654e-09)
    TNG_HORNER(2.7557319204030443e-07)
    TNG_HORNER(1.157407407453132e-05)
    TNG_HORNER(0.00034722222222153507)
    TNG_HORNER(0.0069444444444450686)
    TNG_HORNER(0.08333333333333304)
    TNG_HORNER(0.5000000000000001)
    TNG_HORNER(1.0)
    return p;
}

/* sqrt(x) exp(-x) I1(x) for x >= 8, t = 16 / x - 1; Chebyshev fit of degree 23, relative error 3.0e-17. */
TNG_INLINE npy_float64 tng_i1_large(npy_float64 t)
{
    npy_float64 p = 2.2421768596847442e-11;
    TNG_HORNER(-9.491890392992048e-11)
    TNG_HORNER(-1.6283264322621244e-10)
    TNG_HORNER(6.7727478454462e-10)
    TNG_HORNER(5.870664618471487e-10)
    TNG_HORNER(-2.2624401109204446e-09)
    TNG_HORNER(-1.5218214060680734e-09)
    TNG_HORNER(4.763780078020254e-09)
    TNG_HORNER(3.501765193290176e-09)
    TNG_HORNER(-6.9444186339873875e-09)
    TNG_HORNER(-7.687251308765992e-09)
    TNG_HORNER(5.5720183980930355e-09)
    TNG_HORNER(1.4051746928735543e-08)
    TNG_HORNER(6.84757829926934e-09)
    TNG_HORNER(-8.432168972932417e-09)
    TNG_HORNER(-2.3394122958362557e-08)
    TNG_HORNER(-4.3128498031006734e-08)
    TNG_HORNER(-1.0001075046243961e-07)
    TNG_HORNER(-3.4838563464253135e-07)
    TNG_HORNER(-1.8349102493990178e-06)
    TNG_HORNER(-1.5038547198221758e-05)
    TNG_HORNER(-0.00021923576383137776)
    TNG_HORNER(-0.009749577193235765)
    TNG_HORNER(0.38939845902587233)
    return p;
}

/* I0 and I1; NaN at infinity, as in SciPy. The exponential is split into two factors, because it overflows before the
 * result does. */
TNG_INLINE npy_float64 tng_i0(npy_float64 x)
{
    const npy_float64 a = __builtin_fabs(x), half = exp(0.5 * a);
    const npy_float64 small = tng_i0_small(0.25 * x * x), large = half * (half * (tng_i0_large(16 / a - 1) / sqrt(a)));
    return a < 8 ? small : large;
}

TNG_INLINE npy_float64 tng_i1(npy_float64 x)
{
    const npy_float64 a = __builtin_fabs(x), half = exp(0.5 * a);
    const npy_float64 small = 0.5 * x * tng_i1_small(0.25 * x * x),
                      large = half * (half * (tng_i1_large(16 / a - 1) / sqrt(a)));
    return a < 8 ? small : (x < 0 ? -large : large);
}

#endif
