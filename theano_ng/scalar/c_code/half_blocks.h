/* Blocks of float16 brought to float and back, by the processor's conversions where it has them. GNU C11 and C++; follows the kernel
 * prologue. The compiler (gcc 12) has no vectorized conversions of its own. */
#ifndef TNG_SCALAR_HALF_BLOCKS_H
#define TNG_SCALAR_HALF_BLOCKS_H

#define TNG_HALF_BLOCK 256

/* Functions of their own: inlined for each operand they would take most of the time of compiling a kernel. */
#define TNG_HALF_FUNCTION static __attribute__((noinline, unused))

#if defined(__F16C__) && !defined(__clang__)
typedef short tng_short8 __attribute__((vector_size(16)));
typedef float tng_float8 __attribute__((vector_size(32)));

TNG_HALF_FUNCTION void tng_widen(npy_int64 n, const npy_uint16 *from, npy_float32 *to)
{
    tng_short8 halves = {0};
    tng_float8 floats;
    for (; n >= 8; n -= 8, from += 8, to += 8) {
        __builtin_memcpy(&halves, from, sizeof halves);
        floats = __builtin_ia32_vcvtph2ps256(halves);
        __builtin_memcpy(to, &floats, sizeof floats);
    }
    __builtin_memcpy(&halves, from, (npy_uintp)n * sizeof *from);
    floats = __builtin_ia32_vcvtph2ps256(halves);
    __builtin_memcpy(to, &floats, (npy_uintp)n * sizeof *to);
}

TNG_HALF_FUNCTION void tng_narrow(npy_int64 n, const npy_float32 *from, npy_uint16 *to)
{
    tng_short8 halves;
    tng_float8 floats = {0};
    for (; n >= 8; n -= 8, from += 8, to += 8) {
        __builtin_memcpy(&floats, from, sizeof floats);
        halves = __builtin_ia32_vcvtps2ph256(floats, 0);
        __builtin_memcpy(to, &halves, sizeof halves);
    }
    __builtin_memcpy(&floats, from, (npy_uintp)n * sizeof *from);
    halves = __builtin_ia32_vcvtps2ph256(floats, 0);
    __builtin_memcpy(to, &halves, (npy_uintp)n * sizeof *to);
}
#else
TNG_HALF_FUNCTION void tng_widen(npy_int64 n, const npy_uint16 *from, npy_float32 *to)
{
    npy_int64 k;
    for (k = 0; k < n; k++) to[k] = tng_half_to_float(from[k]);
}

TNG_HALF_FUNCTION void tng_narrow(npy_int64 n, const npy_float32 *from, npy_uint16 *to)
{
    npy_int64 k;
    for (k = 0; k < n; k++) to[k] = tng_float_to_half(from[k]);
}
#endif

/* The nearest float16, as a float. */
static inline npy_float32 tng_round_to_half(npy_float32 value)
{
    const npy_uint32 bits = tng_float_as_bits(value), magnitude = bits & 0x7fffffffu;
    const npy_uint32 normal = (magnitude + 0x0fffu + ((magnitude >> 13) & 1u)) & ~0x1fffu;
    const npy_uint32 small = tng_float_as_bits((tng_bits_as_float(magnitude) + 0.5f) - 0.5f);
    npy_uint32 rounded = magnitude < 0x38800000u ? small : normal;
    rounded = magnitude >= 0x477ff000u ? 0x7f800000u : rounded;
    rounded = magnitude > 0x7f800000u ? magnitude : rounded;
    return tng_bits_as_float(rounded | (bits & 0x80000000u));
}

#endif
