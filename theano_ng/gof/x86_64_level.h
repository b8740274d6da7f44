/* The level of the x86-64 instruction set that the processor and the system support. */
#ifndef TNG_X86_64_LEVEL_H
#define TNG_X86_64_LEVEL_H

/* Return 4 with AVX-512, 3 with AVX2, otherwise 1. Other processors have level 1. */
static inline int tng_x86_64_level(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
                 && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
                 && __builtin_cpu_supports("avx512cd");
    return !avx2 ? 1 : !avx512 ? 3 : 4;
#else
    return 1;
#endif
}

#endif
