/* The complex types of generated code, and their arithmetic, which equals NumPy's arithmetic. Products do not recover
 * infinities as C's products do. Quotients are computed by Smith's method (R. L. Smith, Algorithm 116, CACM 1962).
 * Moduli do not overflow. The arithmetic has no branches.
 *
 * In C, the types are the compiler's complex types (kernel_prologue.h). In C++, they are classes with the members
 * `real` and `imag`, which authors of classic C code expect. The classes derive from NumPy's structs, and convert to
 * and from the compiler's types. Code that can be compiled as either language reads and writes parts by TNG_RE and
 * TNG_IM.
 */
#ifndef THEANO_NG_COMPLEX_NUMBERS_H
#define THEANO_NG_COMPLEX_NUMBERS_H

#ifdef __cplusplus

template <typename Number> struct tng_as_part {};
#define TNG_PART(...)                             \
    template <> struct tng_as_part<__VA_ARGS__> { \
        typedef int real;                         \
    };
TNG_PART(bool)
TNG_PART(char)
TNG_PART(signed char)
TNG_PART(unsigned char)
TNG_PART(short)
TNG_PART(unsigned short)
TNG_PART(int)
TNG_PART(unsigned int)
TNG_PART(long)
TNG_PART(unsigned long)
TNG_PART(long long)
TNG_PART(unsigned long long)
TNG_PART(float)
TNG_PART(double)
TNG_PART(long double)
#undef TNG_PART

template <typename Part, typename Struct, typename Native> struct tng_complex : Struct {
    typedef Struct complex_type;
    typedef Part part_type;
    typedef Native native_type;

    tng_complex() = default;
    template <typename Re, typename = typename tng_as_part<Re>::real> tng_complex(Re re)
    {
        this->real = (Part)re;
        this->imag = 0;
    }
    template <typename Re, typename Im, typename = typename tng_as_part<Re>::real,
              typename = typename tng_as_part<Im>::real>
    tng_complex(Re re, Im im)
    {
        this->real = (Part)re;
        this->imag = (Part)im;
    }
    template <typename P, typename S, typename N> tng_complex(const tng_complex<P, S, N> &z)
    {
        this->real = (Part)z.real;
        this->imag = (Part)z.imag;
    }
    tng_complex(const npy_complex64 &z)
    {
        this->real = (Part)z.real;
        this->imag = (Part)z.imag;
    }
    tng_complex(const npy_complex128 &z)
    {
        this->real = (Part)z.real;
        this->imag = (Part)z.imag;
    }
    tng_complex(float _Complex z)
    {
        this->real = (Part) __real__ z;
        this->imag = (Part) __imag__ z;
    }
    tng_complex(double _Complex z)
    {
        this->real = (Part) __real__ z;
        this->imag = (Part) __imag__ z;
    }

    operator native_type() const
    {
        native_type z;
        __real__ z = this->real;
        __imag__ z = this->imag;
        return z;
    }
    tng_complex operator-() const
    {
        return tng_complex(-this->real, -this->imag);
    }
    tng_complex operator+() const
    {
        return *this;
    }
    tng_complex operator~() const
    {
        return tng_complex(this->real, -this->imag);
    } /* ~z is the conjugate of z, as in GNU C */
};

typedef tng_complex<npy_float32, npy_complex64, float _Complex> theano_complex64;
typedef tng_complex<npy_float64, npy_complex128, double _Complex> theano_complex128;

template <typename P, typename S, typename N> inline P &TNG_RE(tng_complex<P, S, N> &z)
{
    return z.real;
}
template <typename P, typename S, typename N> inline P &TNG_IM(tng_complex<P, S, N> &z)
{
    return z.imag;
}
template <typename P, typename S, typename N> inline P TNG_RE(const tng_complex<P, S, N> &z)
{
    return z.real;
}
template <typename P, typename S, typename N> inline P TNG_IM(const tng_complex<P, S, N> &z)
{
    return z.imag;
}
inline float TNG_RE(float _Complex z)
{
    return __real__ z;
}
inline float TNG_IM(float _Complex z)
{
    return __imag__ z;
}
inline double TNG_RE(double _Complex z)
{
    return __real__ z;
}
inline double TNG_IM(double _Complex z)
{
    return __imag__ z;
}

#endif

/* Negate by flipping the sign bit. If the operand is a fused x * y + z, gcc would replace the unary minus by the fused
 * operation -(x * y) - z, which gives +0 where the negated sum is -0. */
#define TNG_COMPLEX_ARITHMETIC(C, T, BITS, NAME, FABS, MUL_ADD)                                 \
    static inline T tng_flip_##NAME(T x)                                                        \
    {                                                                                           \
        BITS                                                                                    \
        bits;                                                                                   \
        __builtin_memcpy(&bits, &x, sizeof bits);                                               \
        bits ^= (BITS)1 << (8 * sizeof bits - 1);                                               \
        __builtin_memcpy(&x, &bits, sizeof bits);                                               \
        return x;                                                                               \
    }                                                                                           \
    static inline C tng_make_##NAME(T re, T im)                                                 \
    {                                                                                           \
        C z;                                                                                    \
        TNG_RE(z) = re;                                                                         \
        TNG_IM(z) = im;                                                                         \
        return z;                                                                               \
    }                                                                                           \
    static inline C tng_neg_##NAME(C z)                                                         \
    {                                                                                           \
        return tng_make_##NAME(tng_flip_##NAME(TNG_RE(z)), tng_flip_##NAME(TNG_IM(z)));         \
    }                                                                                           \
    static inline C tng_conj_##NAME(C z)                                                        \
    {                                                                                           \
        return tng_make_##NAME(TNG_RE(z), tng_flip_##NAME(TNG_IM(z)));                          \
    }                                                                                           \
    static inline C tng_mul_##NAME(C a, C b)                                                    \
    {                                                                                           \
        return tng_make_##NAME(MUL_ADD(TNG_RE(a), TNG_RE(b), -(TNG_IM(a) * TNG_IM(b))),         \
                               MUL_ADD(TNG_RE(a), TNG_IM(b), TNG_IM(a) * TNG_RE(b)));           \
    }                                                                                           \
    /* p is the larger part of b, q the smaller. If b is 0, the parts of a are divided by 0. */ \
    static inline C tng_div_##NAME(C a, C b)                                                    \
    {                                                                                           \
        const T br = TNG_RE(b), bi = TNG_IM(b), ar = TNG_RE(a), ai = TNG_IM(a);                 \
        const int swap = !(FABS(br) >= FABS(bi)), zero = br == 0 && bi == 0;                    \
        const T p = swap ? bi : br, q = swap ? br : bi, x = swap ? ai : ar, y = swap ? ar : ai; \
        const T ratio = zero ? 0 : q / p, scale = 1 / (zero ? FABS(br) : MUL_ADD(q, ratio, p)); \
        const T re = (zero ? x : MUL_ADD(y, ratio, x)) * scale;                                 \
        const T im = (zero ? y : MUL_ADD(-x, ratio, y)) * scale;                                \
        return tng_make_##NAME(re, swap ? -im : im);                                            \
    }

TNG_COMPLEX_ARITHMETIC(theano_complex64, npy_float32, npy_uint32, complex64, __builtin_fabsf, TNG_MUL_ADDF)
TNG_COMPLEX_ARITHMETIC(theano_complex128, npy_float64, npy_uint64, complex128, __builtin_fabs, TNG_MUL_ADD)

/* The modulus. The parts are scaled by a power of two if their squares would overflow or lose digits. */
#define TNG_COMPLEX_MODULUS(C, T, NAME, FABS, SQRT, MUL_ADD, INFINITY, HIGH, LOW, DOWN, UP) \
    static inline T tng_abs_##NAME(C z)                                                     \
    {                                                                                       \
        const T re = FABS(TNG_RE(z)), im = FABS(TNG_IM(z)), larger = re > im ? re : im;     \
        const T scale = larger > HIGH ? DOWN : larger < LOW ? UP : 1;                       \
        const T back = larger > HIGH ? UP : larger < LOW ? DOWN : 1;                        \
        const T x = re * scale, y = im * scale, value = SQRT(MUL_ADD(x, x, y * y)) * back;  \
        return (re == INFINITY) | (im == INFINITY) ? INFINITY : value;                      \
    }

TNG_COMPLEX_MODULUS(theano_complex64, npy_float32, complex64, __builtin_fabsf, __builtin_sqrtf, TNG_MUL_ADDF,
                    __builtin_inff(), 1e18f, 1e-12f, 0x1p-100f, 0x1p100f)
TNG_COMPLEX_MODULUS(theano_complex128, npy_float64, complex128, __builtin_fabs, __builtin_sqrt, TNG_MUL_ADD,
                    __builtin_inf(), 1e150, 1e-140, 0x1p-600, 0x1p600)

#ifdef __cplusplus

/* The type in which an operation on two complex operands is computed: the wider type. */
template <typename A, typename B> struct tng_common {};
#define TNG_COMMON(A, B, C)               \
    template <> struct tng_common<A, B> { \
        typedef C type;                   \
    };
#define TNG_COMMON_WITH(A, NATIVE, B, C) TNG_COMMON(A, B, C) TNG_COMMON(NATIVE, B, C) TNG_COMMON(B, NATIVE, C)
TNG_COMMON_WITH(theano_complex64, float _Complex, theano_complex64, theano_complex64)
TNG_COMMON_WITH(theano_complex64, float _Complex, theano_complex128, theano_complex128)
TNG_COMMON_WITH(theano_complex128, double _Complex, theano_complex64, theano_complex128)
TNG_COMMON_WITH(theano_complex128, double _Complex, theano_complex128, theano_complex128)
#undef TNG_COMMON_WITH
#undef TNG_COMMON

/* Divide by the textbook formula, as classic C code did, unless a value overflows, underflows or is infinite. */
#define TNG_QUOTIENT(C, T, NAME, LOW, HIGH)                                             \
    static inline C tng_quotient(C a, C b)                                              \
    {                                                                                   \
        const T norm = b.real * b.real + b.imag * b.imag;                               \
        const T re = (a.real * b.real + a.imag * b.imag) / norm;                        \
        const T im = (a.imag * b.real - a.real * b.imag) / norm;                        \
        const bool usual = norm >= LOW && norm <= HIGH && re - re == 0 && im - im == 0; \
        return usual ? C(re, im) : tng_div_##NAME(a, b);                                \
    }
TNG_QUOTIENT(theano_complex64, npy_float32, complex64, 1e-10f, 1e10f)
TNG_QUOTIENT(theano_complex128, npy_float64, complex128, 1e-40, 1e40)
#undef TNG_QUOTIENT

#define TNG_OPERATOR(SYMBOL, RESULT, VALUE)                                         \
    template <typename A, typename B, typename C = typename tng_common<A, B>::type> \
    inline RESULT operator SYMBOL(const A &left, const B &right)                    \
    {                                                                               \
        const C a = left, b = right;                                                \
        return VALUE;                                                               \
    }
TNG_OPERATOR(+, C, C(a.real + b.real, a.imag + b.imag))
TNG_OPERATOR(-, C, C(a.real - b.real, a.imag - b.imag))
TNG_OPERATOR(*, C, C(a.real *b.real - a.imag * b.imag, a.real *b.imag + a.imag * b.real))
TNG_OPERATOR(/, C, tng_quotient(a, b))
TNG_OPERATOR(==, bool, a.real == b.real && a.imag == b.imag)
TNG_OPERATOR(!=, bool, a.real != b.real || a.imag != b.imag)
#undef TNG_OPERATOR

/* Operators with a real operand. The real operand is converted to the type of the other operand's parts. It gets no
 * imaginary part 0, because 0 multiplied by infinity is NaN. */
#define TNG_OPERATOR(SYMBOL, RESULT, RIGHT_IS_REAL, LEFT_IS_REAL)                                       \
    template <typename P, typename S, typename N, typename R, typename = typename tng_as_part<R>::real> \
    inline RESULT operator SYMBOL(const tng_complex<P, S, N> &a, R right)                               \
    {                                                                                                   \
        const P b = (P)right;                                                                           \
        return RIGHT_IS_REAL;                                                                           \
    }                                                                                                   \
    template <typename P, typename S, typename N, typename R, typename = typename tng_as_part<R>::real> \
    inline RESULT operator SYMBOL(R left, const tng_complex<P, S, N> &b)                                \
    {                                                                                                   \
        const P a = (P)left;                                                                            \
        return LEFT_IS_REAL;                                                                            \
    }
#define TNG_COMPLEX tng_complex<P, S, N>
TNG_OPERATOR(+, TNG_COMPLEX, TNG_COMPLEX(a.real + b, a.imag), TNG_COMPLEX(a + b.real, b.imag))
TNG_OPERATOR(-, TNG_COMPLEX, TNG_COMPLEX(a.real - b, a.imag), TNG_COMPLEX(a - b.real, -b.imag))
TNG_OPERATOR(*, TNG_COMPLEX, TNG_COMPLEX(a.real *b, a.imag *b), TNG_COMPLEX(a *b.real, a *b.imag))
TNG_OPERATOR(/, TNG_COMPLEX, TNG_COMPLEX(a.real / b, a.imag / b), tng_quotient(TNG_COMPLEX(a), b))
TNG_OPERATOR(==, bool, a.real == b && a.imag == 0, a == b.real && b.imag == 0)
TNG_OPERATOR(!=, bool, a.real != b || a.imag != 0, a != b.real || b.imag != 0)
#undef TNG_COMPLEX
#undef TNG_OPERATOR

#define TNG_ASSIGNMENT(SYMBOL)                                                                     \
    template <typename P, typename S, typename N, typename B>                                      \
    inline tng_complex<P, S, N> &operator SYMBOL## = (tng_complex<P, S, N> & left, const B &right) \
    {                                                                                              \
        return left = left SYMBOL right;                                                           \
    }
TNG_ASSIGNMENT(+) TNG_ASSIGNMENT(-) TNG_ASSIGNMENT(*) TNG_ASSIGNMENT(/)
#undef TNG_ASSIGNMENT

#endif

#endif
