/* Attributes that compile a function for several instruction sets. When the module is loaded, the version for the
 * processor is selected. Functions that are inlined into such a function are also compiled for each instruction set.
 *   VECTORISED: with vectors of up to 512 bits
 *   VECTORISED_V3: for loops that 512-bit vectors do not make faster
 *   STRIDED_CLONES: for copies and sums of strided items
 *   ONLY_V3: only for x86-64-v3 (AVX2) and later; call such a function only if `has_v3()` */
#ifndef THEANO_NG_TARGET_CLONES_H
#define THEANO_NG_TARGET_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && defined(__linux__)
#define VECTORISED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define VECTORISED_V3 __attribute__((target_clones("arch=x86-64-v3", "default")))
#define ONLY_V3 __attribute__((target("arch=x86-64-v3")))
#define has_v3() (__builtin_cpu_supports("x86-64-v3") != 0)
#elif defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define VECTORISED __attribute__((target_clones("avx2", "default")))
#define VECTORISED_V3 VECTORISED
#define ONLY_V3 __attribute__((target("avx2")))
#define has_v3() (__builtin_cpu_supports("avx2") != 0)
#else
#define VECTORISED
#define VECTORISED_V3
#define ONLY_V3
#define has_v3() 1
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define STRIDED_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define STRIDED_CLONES
#endif

#endif
