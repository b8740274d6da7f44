/* tng_zero_in_uint8_t, tng_zero_in_uint16_t, ...: return 1 if one of n integers is zero. There is one function for each
 * integer size. Kernels call these functions for divisors before they overwrite any output
 * (tensor/native/elementwise/divisors.h).
 *
 * Each of two accumulators scans one half of the array. A half is a whole number of vectors, so the halves may overlap.
 * An accumulator is 1 until a zero makes it 0. It is updated by a minimum if the processor has an instruction for the
 * minimum, otherwise by a comparison. */
#if defined(__AVX512VL__)
#define TNG_HAS_LEAST(T) 1
#elif defined(__AVX2__) || defined(__ARM_NEON)
#define TNG_HAS_LEAST(T) (sizeof(T) < 8)
#else
#define TNG_HAS_LEAST(T) (sizeof(T) == 1)
#endif
#define TNG_LOOK_AT(T, one, value) one = TNG_HAS_LEAST(T) ? (value) < one ? (value) : one : one & (T)((value) != 0)

#define TNG_ZERO_IN(T)                                                          \
    static inline int tng_zero_in_##T(const T *y, int64_t n)                    \
    {                                                                           \
        const int64_t vector = 64, half = ((n + 1) / 2 + vector - 1) & -vector; \
        T one = 1, other = 1;                                                   \
        if (n < 2 * vector) {                                                   \
            for (int64_t i = 0; i < n; ++i)                                     \
                TNG_LOOK_AT(T, one, y[i]);                                      \
            return one == 0;                                                    \
        }                                                                       \
        const T *end = y + n - half;                                            \
        for (int64_t i = 0; i < half; ++i) {                                    \
            TNG_LOOK_AT(T, one, y[i]);                                          \
            TNG_LOOK_AT(T, other, end[i]);                                      \
        }                                                                       \
        return one == 0 || other == 0;                                          \
    }
TNG_ZERO_IN(uint8_t)
TNG_ZERO_IN(uint16_t)
TNG_ZERO_IN(uint32_t)
TNG_ZERO_IN(uint64_t)
