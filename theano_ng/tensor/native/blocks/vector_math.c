/* Functions of glibc's vector mathematics that it has since 2.35 only, by the names that the compiler calls: each is looked for when the module is
 * loaded, and computed one number at a time where the system has none. So one build runs on all systems. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stddef.h>

#include "vector_math.h"

#ifdef TNG_HAS_MVEC

#define OURS __attribute__((visibility("hidden")))

/* SYMBOL takes and returns vectors of N numbers of a type. */
#define WRAP1(SYMBOL, NAME, T, N)                                                  \
    typedef T SYMBOL##_vector __attribute__((vector_size(N * sizeof(T))));         \
    static SYMBOL##_vector (*SYMBOL##_found)(SYMBOL##_vector);                     \
    OURS SYMBOL##_vector SYMBOL(SYMBOL##_vector x)                                 \
    {                                                                              \
        if (SYMBOL##_found != NULL)                                                \
            return SYMBOL##_found(x);                                              \
        for (int i = 0; i < N; ++i)                                                \
            x[i] = NAME(x[i]);                                                     \
        return x;                                                                  \
    }
#define WRAP2(SYMBOL, NAME, T, N)                                                  \
    typedef T SYMBOL##_vector __attribute__((vector_size(N * sizeof(T))));         \
    static SYMBOL##_vector (*SYMBOL##_found)(SYMBOL##_vector, SYMBOL##_vector);    \
    OURS SYMBOL##_vector SYMBOL(SYMBOL##_vector x, SYMBOL##_vector y)              \
    {                                                                              \
        if (SYMBOL##_found != NULL)                                                \
            return SYMBOL##_found(x, y);                                           \
        for (int i = 0; i < N; ++i)                                                \
            x[i] = NAME(x[i], y[i]);                                               \
        return x;                                                                  \
    }

/* Names of the vector function ABI: b, c, d, e for SSE2, AVX, AVX2 and AVX-512. */
#define LEVEL_1(WRAP, ARGS, name) WRAP(_ZGVbN2##ARGS##_##name, name, double, 2) WRAP(_ZGVbN4##ARGS##_##name##f, name##f, float, 4)
#if defined(__AVX2__)
#define LEVEL_3(WRAP, ARGS, name) WRAP(_ZGVdN4##ARGS##_##name, name, double, 4) WRAP(_ZGVdN8##ARGS##_##name##f, name##f, float, 8)
#else
#define LEVEL_3(WRAP, ARGS, name)
#endif
#if defined(__AVX512F__)
#define LEVEL_4(WRAP, ARGS, name) WRAP(_ZGVeN8##ARGS##_##name, name, double, 8) WRAP(_ZGVeN16##ARGS##_##name##f, name##f, float, 16)
#else
#define LEVEL_4(WRAP, ARGS, name)
#endif
#define DEFINE1(name) LEVEL_1(WRAP1, v, name) LEVEL_3(WRAP1, v, name) LEVEL_4(WRAP1, v, name)
#define DEFINE2(name) LEVEL_1(WRAP2, vv, name) LEVEL_3(WRAP2, vv, name) LEVEL_4(WRAP2, vv, name)
NEW_FUNCTIONS(DEFINE1, DEFINE2)

__attribute__((constructor)) static void find(void)
{
    void *library = dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return;
#define LOOK(SYMBOL, NAME, T, N) *(void **)&SYMBOL##_found = dlsym(library, #SYMBOL);
#define FIND1(name) LEVEL_1(LOOK, v, name) LEVEL_3(LOOK, v, name) LEVEL_4(LOOK, v, name)
#define FIND2(name) LEVEL_1(LOOK, vv, name) LEVEL_3(LOOK, vv, name) LEVEL_4(LOOK, vv, name)
    NEW_FUNCTIONS(FIND1, FIND2)
}

#endif
