/* Conversions of blocks of float16 to float and back, with the conversion instructions of the processor where they
 * exist. GNU C11 and C++; include it after the kernel prologue. The compiler (gcc 12) does not vectorize such
 * conversions itself. */
#ifndef TNG_SCALAR_HALF_BLOCKS_H
#define TNG_SCALAR_HALF_BLOCKS_H

#define TNG_HALF_BLOCK 256

/* The functions are not inlined. If they were inlined for each operand, they would take most of the compile time of a
 * kernel. */
#define TNG_HALF_FUNCTION static __attribute__((noinline, unused))

#if defined(__F16C__) && !defined(__clang__)
#ifdef __AVX512F__
#define TNG_HALF_LANES 16
#define TNG_TO_FLOATS(halves) __builtin_ia32_vcvtph2ps512_mask(halves, (tng_floats){}, (npy_uint16) - 1, 4)
#define TNG_TO_HALVES(floats) __builtin_ia32_vcvtps2ph512_mask(floats, 0, (tng_halves){}, (npy_uint16) - 1)
#else
#define TNG_HALF_LANES 8
#define TNG_TO_FLOATS(halves) __builtin_ia32_vcvtph2ps256(halves)
#define TNG_TO_HALVES(floats) __builtin_ia32_vcvtps2ph256(floats, 0)
#endif
typedef short tng_halves __attribute__((vector_size(2 * TNG_HALF_LANES)));
typedef float tng_floats __attribute__((vector_size(4 * TNG_HALF_LANES)));

TNG_HALF_FUNCTION void tng_widen(npy_int64 n, const npy_uint16 *from, npy_float32 *to)
{
    tng_halves halves = {0};
    tng_floats floats;
    for (; n >= TNG_HALF_LANES; n -= TNG_HALF_LANES, from += TNG_HALF_LANES, to += TNG_HALF_LANES) {
        __builtin_memcpy(&halves, from, sizeof halves);
        floats = TNG_TO_FLOATS(halves);
        __builtin_memcpy(to, &floats, sizeof floats);
    }
    if (n == 0)
        return; /* no partial block is left */
    __builtin_memcpy(&halves, from, (npy_uintp)n * sizeof *from);
    floats = TNG_TO_FLOATS(halves);
    __builtin_memcpy(to, &floats, (npy_uintp)n * sizeof *to);
}

TNG_HALF_FUNCTION void tng_narrow(npy_int64 n, const npy_float32 *from, npy_uint16 *to)
{
    tng_halves halves;
    tng_floats floats = {0};
    for (; n >= TNG_HALF_LANES; n -= TNG_HALF_LANES, from += TNG_HALF_LANES, to += TNG_HALF_LANES) {
        __builtin_memcpy(&floats, from, sizeof floats);
        halves = TNG_TO_HALVES(floats);
        __builtin_memcpy(to, &halves, sizeof halves);
    }
    if (n == 0)
        return;
    __builtin_memcpy(&floats, from, (npy_uintp)n * sizeof *from);
    halves = TNG_TO_HALVES(floats);
    __builtin_memcpy(to, &halves, (npy_uintp)n * sizeof *to);
}
#else
TNG_HALF_FUNCTION void tng_widen(npy_int64 n, const npy_uint16 *from, npy_float32 *to)
{
    npy_int64 k;
    for (k = 0; k < n; k++)
        to[k] = tng_half_to_float(from[k]);
}

TNG_HALF_FUNCTION void tng_narrow(npy_int64 n, const npy_float32 *from, npy_uint16 *to)
{
    npy_int64 k;
    for (k = 0; k < n; k++)
        to[k] = tng_float_to_half(from[k]);
}
#endif

/* Return the nearest float16, as a float. */
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
