/* Order-preserving keys: unsigned integers that compare in the order in which NumPy sorts the elements.
 *
 * Elements that are equal in sorting have equal keys: -0 and 0, and all NaNs, whatever their bits (NaN is the largest).
 * Elements are read as unsigned integers of their size. Complex numbers have no single key. */
#ifndef THEANO_NG_SORT_KEYS_H
#define THEANO_NG_SORT_KEYS_H

#include "native.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define KEYS_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define KEYS_CLONES
#endif

/* An attribute for functions that are unused in some modules. */
#define MAYBE_UNUSED __attribute__((unused))

/* Call DO(name, type of the bits, NumPy type number) for every dtype with keys. key_<name> returns the key, which has
 * the type of the bits. */
#define FOR_KEYED_INTEGERS(DO)    \
    DO(u8, uint8_t, NPY_UINT8)    \
    DO(i8, uint8_t, NPY_INT8)     \
    DO(u16, uint16_t, NPY_UINT16) \
    DO(i16, uint16_t, NPY_INT16)  \
    DO(u32, uint32_t, NPY_UINT32) \
    DO(i32, uint32_t, NPY_INT32)  \
    DO(u64, uint64_t, NPY_UINT64) \
    DO(i64, uint64_t, NPY_INT64)
#define FOR_KEYED_FLOATS(DO)       \
    DO(f16, uint16_t, NPY_FLOAT16) \
    DO(f32, uint32_t, NPY_FLOAT32) \
    DO(f64, uint64_t, NPY_FLOAT64)
#define FOR_KEYED(DO) FOR_KEYED_INTEGERS(DO) FOR_KEYED_FLOATS(DO)

#define DEFINE_INTEGER_KEYS(bits)                                       \
    static inline uint##bits##_t key_u##bits(uint##bits##_t b)          \
    {                                                                   \
        return b;                                                       \
    }                                                                   \
    static inline uint##bits##_t key_i##bits(uint##bits##_t b)          \
    {                                                                   \
        return (uint##bits##_t)(b ^ ((uint##bits##_t)1 << (bits - 1))); \
    }
DEFINE_INTEGER_KEYS(8)
DEFINE_INTEGER_KEYS(16)
DEFINE_INTEGER_KEYS(32)
DEFINE_INTEGER_KEYS(64)

/* Negative numbers come first, in reverse order of their bits. `infinity`: the bits of positive infinity. */
#define DEFINE_FLOAT_KEY(bits, infinity)                                                                      \
    static inline uint##bits##_t key_f##bits(uint##bits##_t b)                                                \
    {                                                                                                         \
        const uint##bits##_t sign = (uint##bits##_t)1 << (bits - 1);                                          \
        uint##bits##_t magnitude = b & (uint##bits##_t) ~sign;                                                \
        uint##bits##_t key = (uint##bits##_t)(b ^ ((uint##bits##_t)((int##bits##_t)b >> (bits - 1)) | sign)); \
        key = magnitude == 0 ? sign : key;                                                                    \
        return magnitude > infinity ? (uint##bits##_t) ~(uint##bits##_t)0 : key;                              \
    }
DEFINE_FLOAT_KEY(16, 0x7c00u)
DEFINE_FLOAT_KEY(32, 0x7f800000u)
DEFINE_FLOAT_KEY(64, 0x7ff0000000000000u)

/* keys[i] = (key of x[i]) ^ flip. If all bits of `flip` are 1, the order of the keys is reversed. */
#define DEFINE_LOAD(name, bits_t, number)                                                                   \
    KEYS_CLONES static void load_##name(const void *x_, npy_intp n, uint64_t flip, uint64_t *restrict keys) \
    {                                                                                                       \
        const bits_t *x = x_;                                                                               \
        for (npy_intp i = 0; i < n; ++i)                                                                    \
            keys[i] = (uint64_t)key_##name(x[i]) ^ flip;                                                    \
    }
FOR_KEYED(DEFINE_LOAD)

typedef void (*load_fn)(const void *x, npy_intp n, uint64_t flip, uint64_t *keys);

/* Return the type number that this file uses for a dtype: bool counts as uint8, and C types of equal size share a
 * number. */
static inline int keys_type(int type_num)
{
    switch (type_num) {
    case NPY_BOOL: return NPY_UINT8;
    case NPY_LONG: return NPY_SIZEOF_LONG == 8 ? NPY_INT64 : NPY_INT32;
    case NPY_LONGLONG: return NPY_INT64;
    case NPY_ULONG: return NPY_SIZEOF_LONG == 8 ? NPY_UINT64 : NPY_UINT32;
    case NPY_ULONGLONG: return NPY_UINT64;
    default: return type_num;
    }
}

/* Return the function that loads the keys of a dtype, or NULL if the dtype has no keys. */
static inline load_fn keys_loader(int type_num)
{
#define LOADER(name, bits_t, number) \
    case number: return load_##name;
    switch (keys_type(type_num)) {
        FOR_KEYED(LOADER)
    default: return NULL;
    }
#undef LOADER
}

/* Write three keys for each complex number, to be compared in this order: which parts are NaN, the real part, the
 * imaginary part. `item`: the size of a number in bytes. */
static MAYBE_UNUSED void load_pairs(const char *x, npy_intp n, npy_intp item, uint64_t flip, uint64_t *keys)
{
    const uint64_t nan = item == 8 ? UINT32_MAX : UINT64_MAX;
    for (npy_intp i = 0; i < n; ++i, keys += 3, x += item)
        for (int part = 0; part < 2; ++part) {
            uint32_t small;
            uint64_t large;
            if (item == 8) {
                memcpy(&small, x + 4 * part, sizeof small);
                large = key_f32(small);
            }
            else {
                memcpy(&large, x + 8 * part, sizeof large);
                large = key_f64(large);
            }
            uint64_t missing = (uint64_t)(large == nan) << (1 - part);
            keys[0] = part == 0 ? missing : (keys[0] | missing) ^ flip;
            keys[1 + part] = large ^ flip;
        }
}

KEYS_CLONES static MAYBE_UNUSED void keys_range(const uint64_t *keys, npy_intp n, uint64_t *low, uint64_t *high)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (npy_intp i = 0; i < n; ++i) {
        least = keys[i] < least ? keys[i] : least;
        most = keys[i] > most ? keys[i] : most;
    }
    *low = least;
    *high = most;
}

/* Return 1 if one of n keys is below a limit. */
KEYS_CLONES static MAYBE_UNUSED int keys_any_below(const uint64_t *keys, npy_intp n, uint64_t limit)
{
    uint64_t any = 0;
    for (npy_intp i = 0; i < n; ++i)
        any |= keys[i] < limit;
    return any != 0;
}

/* Return the number of significant bits, 0 to 64. */
static inline int bit_length(uint64_t x)
{
    return x == 0 ? 0 : 64 - __builtin_clzll(x);
}

#endif
