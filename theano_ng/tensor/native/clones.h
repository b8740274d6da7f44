/* VECTORISED functions are compiled for several instruction sets; the processor decides, when the module is loaded, which of them runs. What is
 * inlined into them is compiled for each. */
#ifndef THEANO_NG_CLONES_H
#define THEANO_NG_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && defined(__linux__)
#define VECTORISED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#elif defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define VECTORISED __attribute__((target_clones("avx2", "default")))
#else
#define VECTORISED
#endif

#endif
