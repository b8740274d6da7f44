/* Powers of floats, with the special cases of C99's pow. C11 and C++; include it after the kernel prologue.
 *
 * With AVX-512, a vectorized loop calls the functions below. It finds them by the names that the vector ABI gives to
 * the variants of tng_pow_float64 and tng_pow_float32. On other processors pow and powf are used instead.
 *
 * |x|^y = 2^(y log2 |x|), and |x| = 2^e m with 3/4 <= m < 3/2. The multiple of 1/16 that is nearest to m selects a
 * number c near 1/m from a table. c has so few bits that f = m c - 1, |f| < 0.055, is exact. log2 |x| = e - log2 c +
 * log2(1 + f) is kept as the sum of two floats, and so is its product with y. The values 2^(i/16) come from a table,
 * too. Polynomials approximate (log(1 + f) - f + f^2 / 2) / f^3 and (2^r - 1) / r with |r| <= 1/32. They are
 * interpolations at the Chebyshev nodes of their intervals, computed with 70 digits from the definitions. Errors are
 * below 0.8 units in the last place for float32. For float64 they are below 0.6 units for common exponents, and below
 * 1.6 units next to overflow and underflow. */
#ifndef TNG_SCALAR_POWER_H
#define TNG_SCALAR_POWER_H

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) \
    && defined(__linux__)

typedef npy_float64 tng_double8 __attribute__((vector_size(64)));
typedef npy_int64 tng_long8 __attribute__((vector_size(64)));
typedef npy_float32 tng_float16 __attribute__((vector_size(64)));
typedef npy_int32 tng_int16 __attribute__((vector_size(64)));

#define TNG_EXPONENT_float64(x) __builtin_ia32_getexppd512_mask(x, x, (npy_uint8) - 1, 4)
#define TNG_SIGNIFICAND_float64(x) __builtin_ia32_getmantpd512_mask(x, 7, x, (npy_uint8) - 1, 4)
#define TNG_SCALE_float64(x, y) __builtin_ia32_scalefpd512_mask(x, y, x, (npy_uint8) - 1, 4)
#define TNG_FMA_float64(x, y, z) __builtin_ia32_vfmaddpd512_mask(x, y, z, (npy_uint8) - 1, 4)
#define TNG_ADD_float64(x, y, mask) __builtin_ia32_addpd512_mask(x, y, x, mask, 4)
#define TNG_RINT_float64(x) __builtin_ia32_rndscalepd_mask(x, 0, x, (npy_uint8) - 1, 4)
#define TNG_LESS_float64(x, y) __builtin_ia32_cmppd512_mask(x, y, 17, (npy_uint8) - 1, 4)
#define TNG_ALL_float64 0xff
#define TNG_LOOKUP_float64(table, index) \
    __builtin_shuffle(*(const tng_double8 *)(table), *(const tng_double8 *)((table) + 8), index)

#define TNG_EXPONENT_float32(x) __builtin_ia32_getexpps512_mask(x, x, (npy_uint16) - 1, 4)
#define TNG_SIGNIFICAND_float32(x) __builtin_ia32_getmantps512_mask(x, 7, x, (npy_uint16) - 1, 4)
#define TNG_SCALE_float32(x, y) __builtin_ia32_scalefps512_mask(x, y, x, (npy_uint16) - 1, 4)
#define TNG_FMA_float32(x, y, z) __builtin_ia32_vfmaddps512_mask(x, y, z, (npy_uint16) - 1, 4)
#define TNG_ADD_float32(x, y, mask) __builtin_ia32_addps512_mask(x, y, x, mask, 4)
#define TNG_RINT_float32(x) __builtin_ia32_rndscaleps_mask(x, 0, x, (npy_uint16) - 1, 4)
#define TNG_LESS_float32(x, y) __builtin_ia32_cmpps512_mask(x, y, 17, (npy_uint16) - 1, 4)
#define TNG_ALL_float32 0xffff
#define TNG_LOOKUP_float32(table, index) __builtin_shuffle(*(const tng_float16 *)(table), index)

/* Rows of the tables: c, a multiple of 1/64; the upper part of -log2 c, which has so few bits that e can be added
 * exactly; the lower part of -log2 c; the upper part of 2^(i/16); the lower part of 2^(i/16). */
#define TNG_POWER_INVERSES                                                                                           \
    1.3125, 1.25, 1.125, 1.0625, 1.0, 0.9375, 0.890625, 0.84375, 0.796875, 0.765625, 0.71875, 0.6875, 0.671875, 1.0, \
        1.0, 1.0
static const npy_float64 tng_power_tables_float64[5][16] __attribute__((aligned(64), unused)) = {
    {TNG_POWER_INVERSES},
    {-0.3923174227788877, -0.3219280948874257, -0.16992500144215228, -0.0874628412502716, 0.0, 0.0931094043912708,
     0.1671099858353955, 0.2451124978365442, 0.3275746580284249, 0.3852901558848316, 0.47643804394283507,
     0.5405683813628457, 0.5737352452979394, 0.0, 0.0, 0.0},
    {1.2741442057794507e-13, 6.33385952568616e-14, -1.600837111708248e-13, -6.781363655020842e-14, 0.0,
     2.1067041511468125e-13, -1.3716669642073087e-13, -1.275189131300513e-14, 7.951818330761124e-14,
     -3.983479855974919e-14, 1.520621696507556e-13, -1.4294083388465032e-13, -3.733907276649932e-14, 0.0, 0.0, 0.0},
    {1.0, 1.0442737824274138, 1.0905077326652577, 1.1387886347566916, 1.189207115002721, 1.241857812073484,
     1.2968395546510096, 1.3542555469368927, 1.4142135623730951, 1.4768261459394993, 1.5422108254079407,
     1.6104903319492543, 1.681792830507429, 1.7562521603732995, 1.8340080864093424, 1.9152065613971474},
    {0.0, 8.551889705537965e-17, -3.046782079812471e-17, 8.912812676025408e-17, 3.982015231465646e-17,
     4.658027591836937e-17, 2.5382502794888315e-17, 7.70094837980299e-17, -9.667293313452913e-17,
     -3.483994556892796e-17, 7.949834809697621e-17, 2.4707192569797888e-17, 8.199010020581497e-17,
     2.960140695448873e-17, 3.283107224245627e-17, -1.0619946056195963e-16},
};
static const npy_float32 tng_power_tables_float32[5][16] __attribute__((aligned(64), unused)) = {
    {TNG_POWER_INVERSES},
    {-0.3923187255859375f, -0.321929931640625f, -0.169921875f, -0.08746337890625f, 0.0f, 0.093109130859375f,
     0.1671142578125f, 0.2451171875f, 0.32757568359375f, 0.385284423828125f, 0.4764404296875f, 0.5405731201171875f,
     0.57373046875f, 0.0f, 0.0f, 0.0f},
    {1.3028071772111043e-06f, 1.8367532626521296e-06f, -3.1264423123629075e-06f, 5.376559105917459e-07f, 0.0f,
     2.7353210647067594e-07f, -4.271977241675247e-06f, -4.689663468544361e-06f, -1.0255652455897077e-06f,
     5.732056666785116e-06f, -2.385744512872294e-06f, -4.7387544847562e-06f, 4.776547902061116e-06f, 0.0f, 0.0f, 0.0f},
    {1.0f, 1.0442737340927124f, 1.0905077457427979f, 1.1387885808944702f, 1.1892070770263672f, 1.2418577671051025f,
     1.2968395948410034f, 1.3542555570602417f, 1.4142135381698608f, 1.4768261909484863f, 1.5422108173370361f,
     1.610490322113037f, 1.6817928552627563f, 1.7562521696090698f, 1.8340080976486206f, 1.9152065515518188f},
    {0.0f, 4.8334701574503924e-08f, -1.3077539939843064e-08f, 5.386222312608879e-08f, 3.797635272917432e-08f,
     4.496838101886169e-08f, -4.018999533172973e-08f, -1.0123349269974824e-08f, 2.4203234971764687e-08f,
     -4.500898853621038e-08f, 8.070904833346049e-09f, 9.836217174097328e-09f, -2.4755326677450284e-08f,
     -9.235770370707996e-09f, -1.1239277952768134e-08f, 9.845328108326612e-09f},
};

/* constant + x * slope */
#define TNG_LINE_float64(constant, x, slope) TNG_FMA_float64(x, (tng_double8){} + (slope), (tng_double8){} + (constant))
#define TNG_LINE_float32(constant, x, slope) TNG_FMA_float32(x, (tng_float16){} + (slope), (tng_float16){} + (constant))
#define TNG_POWER_LOG_float64                                                                                         \
    TNG_FMA_float64(f2 *f2,                                                                                           \
                    TNG_FMA_float64(f2 *f2, TNG_LINE_float64(0.09143092461922542, f, -0.08233358435314875),           \
                                    TNG_FMA_float64(f2, TNG_LINE_float64(0.1111098689359674, f, -0.1000070341137701), \
                                                    TNG_LINE_float64(0.14285714406971922, f, -0.12499998627974017))), \
                    TNG_FMA_float64(f2, TNG_LINE_float64(0.19999999999958354, f, -0.16666666667606483),               \
                                    TNG_LINE_float64(0.33333333333333337, f, -0.24999999999999833)))
#define TNG_POWER_LOG_float32                                                                         \
    TNG_FMA_float32(f2,                                                                               \
                    TNG_FMA_float32(f2, (tng_float16){} + 0.14202515738459237f,                       \
                                    TNG_LINE_float32(0.20000225875609945f, f, -0.1670958931253797f)), \
                    TNG_LINE_float32(0.33333333275000065f, f, -0.24999970410353733f))
#define TNG_POWER_EXP_float64                                                                                 \
    TNG_FMA_float64(r *r,                                                                                     \
                    TNG_FMA_float64(r *r, TNG_LINE_float64(0.0013333786067768005, r, 0.00015403727871878627), \
                                    TNG_LINE_float64(0.05550410865630706, r, 0.009618129106890753)),          \
                    TNG_LINE_float64(0.6931471805599457, r, 0.24022650695910075))
#define TNG_POWER_EXP_float32                                                          \
    TNG_FMA_float32(r, TNG_LINE_float32(0.2402336931682583f, r, 0.05550510488153907f), \
                    (tng_float16){} + 0.6931471805599453f)

/* tng_power computes all lanes of a vector with the same formula. Then tng_power_lanes corrects the lanes with x < 0,
 * and the lanes whose exponent is out of range, infinite or NaN (x = 0 included). */
#define TNG_POWER_FUNCTION(NAME, T, V, I, SHIFT, SIGN, LIBRARY, ROUND, LOG2E, LOG2E_LOW, LIMIT)                      \
    static __attribute__((noinline, unused)) V tng_power_lanes_##NAME(V x, V y, V power, npy_uint32 regular)         \
    {                                                                                                                \
        const V half = y * (T)0.5;                                                                                   \
        const I integral = TNG_RINT_##NAME(y) == y, odd = integral & (TNG_RINT_##NAME(half) != half);                \
        npy_uint32 k;                                                                                                \
        /* If x < 0 and y is not an integer, set all bits of the lane, so that it is a NaN. */                       \
        power = (V)(((I)power ^ (odd & (I)x & SIGN)) | ((x < 0) & ~integral));                                       \
        for (k = 0; k < 64 / sizeof(T); ++k)                                                                         \
            if (!(regular >> k & 1))                                                                                 \
                power[k] = LIBRARY(x[k], y[k]);                                                                      \
        return power;                                                                                                \
    }                                                                                                                \
    static __attribute__((noinline)) V tng_power_##NAME(V x, V y)                                                    \
    {                                                                                                                \
        const T(*tables)[16] = tng_power_tables_##NAME;                                                              \
        const V one = (V){} + 1, m = TNG_SIGNIFICAND_##NAME(x), exponent_of_2 = TNG_EXPONENT_##NAME(x);              \
        const V e = TNG_ADD_##NAME(exponent_of_2, one, TNG_LESS_##NAME(m, one));                                     \
        const I i = (I)(m + (T)0.28125) >> SHIFT;                                                                    \
        const V f = TNG_FMA_##NAME(m, TNG_LOOKUP_##NAME(tables[0], i), -one);                                        \
        /* log(1 + f) = h + h_low */                                                                                 \
        const V half_f = f * (T) - 0.5, f2 = f * f, h = TNG_FMA_##NAME(f, half_f, f);                                \
        const V h_low = TNG_FMA_##NAME(f2 * f, TNG_POWER_LOG_##NAME, TNG_FMA_##NAME(f, half_f, f - h));              \
        const V log2e = (V){} + LOG2E, g = h * log2e, whole = e + TNG_LOOKUP_##NAME(tables[1], i), sum = whole + g;  \
        const V rest =                                                                                               \
            TNG_FMA_##NAME(h_low, log2e, TNG_FMA_##NAME(h, (V){} + LOG2E_LOW, TNG_LOOKUP_##NAME(tables[2], i)));     \
        const V sum_low = ((whole - sum) + g) + (TNG_FMA_##NAME(h, log2e, -g) + rest);                               \
        const V exponent = y * sum, exponent_low = TNG_FMA_##NAME(y, sum_low, TNG_FMA_##NAME(y, sum, -exponent));    \
        const npy_uint32 regular = TNG_LESS_##NAME((V)((I)exponent & ~SIGN), (V){} + LIMIT);                         \
        /* Add exponent_low before rounding, because it is not negligible: sum_low is as large as f^3. */            \
        const V shifted = (exponent + exponent_low) + ROUND, n = shifted - ROUND, r = (exponent - n) + exponent_low; \
        const V t = TNG_LOOKUP_##NAME(tables[3], (I)shifted);                                                        \
        const V power = t + TNG_FMA_##NAME(t, r * TNG_POWER_EXP_##NAME, TNG_LOOKUP_##NAME(tables[4], (I)shifted));   \
        const V scaled = TNG_SCALE_##NAME(power, n);                                                                 \
        if (TNG_LIKELY((regular & TNG_LESS_##NAME((V){}, x)) == TNG_ALL_##NAME))                                     \
            return scaled;                                                                                           \
        return tng_power_lanes_##NAME(x, y, scaled, regular);                                                        \
    }

/* Define the function that a loop vectorized to N elements calls. */
#define TNG_POWER_VARIANT(NAME, T, V, LETTER, N)                                                                   \
    typedef T tng_power_##NAME##_##N##_t __attribute__((vector_size(N * sizeof(T))));                              \
    static __attribute__((noinline, used)) tng_power_##NAME##_##N##_t tng_power_##NAME##_##N(                      \
        tng_power_##NAME##_##N##_t x, tng_power_##NAME##_##N##_t y) __asm__("_ZGV" LETTER #N "vv_tng_pow_" #NAME); \
    static tng_power_##NAME##_##N##_t tng_power_##NAME##_##N(tng_power_##NAME##_##N##_t x,                         \
                                                             tng_power_##NAME##_##N##_t y)                         \
    {                                                                                                              \
        V wide_x = (V){} + 1, wide_y = wide_x;                                                                     \
        __builtin_memcpy(&wide_x, &x, sizeof x);                                                                   \
        __builtin_memcpy(&wide_y, &y, sizeof y);                                                                   \
        wide_x = tng_power_##NAME(wide_x, wide_y);                                                                 \
        __builtin_memcpy(&x, &wide_x, sizeof x);                                                                   \
        return x;                                                                                                  \
    }

/* Define the scalar function. It computes a vector and returns one lane, so that the power of an element does not
 * depend on the position of the element in an array. */
#define TNG_POWER_SCALAR(NAME, T, V)                                                                   \
    static __attribute__((noinline, used)) T tng_power_one_##NAME(T x, T y) __asm__("tng_pow_" #NAME); \
    /* x - (V){} keeps -0.0, whereas -0.0 + 0 would be 0. */                                           \
    static T tng_power_one_##NAME(T x, T y)                                                            \
    {                                                                                                  \
        return tng_power_##NAME(x - (V){}, y - (V){})[0];                                              \
    }                                                                                                  \
    TNG_POWER_EXTERN T tng_pow_##NAME(T, T) TNG_NOTHROW __attribute__((const, simd("notinbranch")));
#ifdef __cplusplus
#define TNG_POWER_EXTERN extern "C"
#else
#define TNG_POWER_EXTERN extern
#endif

#endif
#endif

#if defined(TNG_POWER_FUNCTION) && defined(TNG_FOR_float64) && !defined(TNG_POWER_HAS_float64)
#define TNG_POWER_HAS_float64
TNG_POWER_FUNCTION(float64, npy_float64, tng_double8, tng_long8, 48, (-0x7fffffffffffffff - 1), pow, 0x1.8p48,
                   1.4426950408889634, 2.0355273740931033e-17, 1100)
TNG_POWER_VARIANT(float64, npy_float64, tng_double8, "eN", 8)
TNG_POWER_VARIANT(float64, npy_float64, tng_double8, "dN", 4)
TNG_POWER_VARIANT(float64, npy_float64, tng_double8, "bN", 2)
TNG_POWER_SCALAR(float64, npy_float64, tng_double8)
#endif

#if defined(TNG_POWER_FUNCTION) && defined(TNG_FOR_float32) && !defined(TNG_POWER_HAS_float32)
#define TNG_POWER_HAS_float32
TNG_POWER_FUNCTION(float32, npy_float32, tng_float16, tng_int16, 19, (-0x7fffffff - 1), powf, 0x1.8p19f,
                   1.4426950216293335f, 1.925963033500011e-08f, 160)
TNG_POWER_VARIANT(float32, npy_float32, tng_float16, "eN", 16)
TNG_POWER_VARIANT(float32, npy_float32, tng_float16, "dN", 8)
TNG_POWER_VARIANT(float32, npy_float32, tng_float16, "bN", 4)
TNG_POWER_SCALAR(float32, npy_float32, tng_float16)
#endif

#ifndef TNG_POWER_FUNCTION
#define tng_pow_float64 pow
#define tng_pow_float32 powf
#endif
