/* VECTORISED functions are compiled for several instruction sets; the processor decides, when the module is loaded, which of them runs. What is
 * inlined into them is compiled for each. VECTORISED_V3 is for loops that vectors of 512 bits make no faster, STRIDED_CLONES for copies and sums
 * of strided items; ONLY_V3 functions are not there for older processors: they may be called where `has_v3()`. */
#ifndef THEANO_NG_CLONES_H
#define THEANO_NG_CLONES_H

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
