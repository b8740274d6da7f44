/* Conversions between float and IEEE 754 binary16. A binary16 number is passed as an integer with its 16 bits. C11 and
 * C++. The kernel prologue defines the same functions for kernels; this file is for modules of the classic linker. */
#if !defined(TNG_SCALAR_HALF_H) && !defined(THEANO_NG_KERNEL_PROLOGUE_H)
#define TNG_SCALAR_HALF_H

static inline npy_float32 tng_half_to_float(npy_uint16 half)
{
    const npy_uint32 sign = (npy_uint32)(half & 0x8000u) << 16;
    const npy_uint32 magnitude = half & 0x7fffu;
    union {
        npy_uint32 bits;
        npy_float32 value;
    } u;
    if (magnitude >= 0x7c00u) { /* inf, NaN: keep the payload */
        u.bits = sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13);
    }
    else if (magnitude >= 0x0400u) { /* normal: rebias the exponent by 127 - 15 */
        u.bits = sign | ((magnitude << 13) + 0x38000000u);
    }
    else { /* zero and subnormal: magnitude * 2^-24, exact in float */
        u.value = (npy_float32)magnitude * 5.9604644775390625e-8f;
        u.bits |= sign;
    }
    return u.value;
}

/* Round to nearest, ties to even. */
static inline npy_uint16 tng_float_to_half(npy_float32 value)
{
    union {
        npy_uint32 bits;
        npy_float32 value;
    } u;
    npy_uint32 sign, magnitude;
    u.value = value;
    sign = (u.bits >> 16) & 0x8000u;
    magnitude = u.bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) { /* NaN: set the quiet bit, keep the upper bits of the payload */
        return (npy_uint16)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    }
    if (magnitude >= 0x477ff000u) { /* 65520 and above round to inf */
        return (npy_uint16)(sign | 0x7c00u);
    }
    if (magnitude >= 0x38800000u) { /* normal half: round away the 13 low bits */
        magnitude += 0x0fffu + ((magnitude >> 13) & 1u);
        return (npy_uint16)(sign | ((magnitude - 0x38000000u) >> 13));
    }
    /* Subnormal half: adding 0.5 puts the unit of the last place, 2^-24, at the end of the significand. */
    u.bits = magnitude;
    u.value += 0.5f;
    return (npy_uint16)(sign | (u.bits - 0x3f000000u));
}

/* Round only once: the intermediate float records in its last bit that digits were cut off (round to odd). */
static inline npy_uint16 tng_double_to_half(npy_float64 value)
{
    union {
        npy_uint32 bits;
        npy_float32 value;
    } u;
    u.value = (npy_float32)value;
    if ((npy_float64)u.value != value && value == value) {
        if (__builtin_fabs((npy_float64)u.value) > __builtin_fabs(value))
            u.bits -= 1;
        u.bits |= 1u;
    }
    return tng_float_to_half(u.value);
}

#endif
