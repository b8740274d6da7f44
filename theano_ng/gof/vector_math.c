/* Definitions of the functions of c_include/vector_math.h for vectors of every length and for scalars, under the names
 * that compilers call. All versions give the same bits, because they call the same function of libmvec: the function
 * for the longest vectors of the processor, which have 64 bytes with AVX-512, 32 bytes with AVX2, and otherwise 16
 * bytes. The lanes of this function are independent, so a scalar is computed as one lane of a vector. If libmvec lacks
 * a function, libm is called (before glibc 2.35, libmvec has only five functions).
 *
 * Compiled kernels find these functions in the module _native. The module native/elementwise/blocks contains its own
 * hidden copy of them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#ifdef TNG_HAS_MVEC

#define TNG_VECTOR_LIST_ONLY
#include "c_include/vector_math.h"
#include "x86_64_level.h"

#ifdef TNG_OWN_VECTOR_MATH
#define EXPORT __attribute__((visibility("hidden")))
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#define AVX __attribute__((target("avx")))
#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f")))

#define VECTOR(T, N) typedef T T##x##N __attribute__((vector_size(N * sizeof(T))));
VECTOR(double, 2)
VECTOR(double, 4)
VECTOR(double, 8)
VECTOR(float, 4)
VECTOR(float, 8)
VECTOR(float, 16)

/* Parameter lists and argument lists of functions with one argument (_1) and with two arguments (_2). */
#define PARAMETERS_1(V) V x
#define PARAMETERS_2(V) V x, V y
#define ARGUMENTS_1(BEFORE, AFTER) BEFORE##x AFTER
#define ARGUMENTS_2(BEFORE, AFTER) BEFORE##x AFTER, BEFORE##y AFTER
#define FOR_EACH_1(DO) DO(x)
#define FOR_EACH_2(DO) \
    DO(x)              \
    DO(y)

/* SPLIT declares two variables of type `part`, which contain the lower and the upper half of v. FILL_UP declares a
 * variable of type `whole`. Its first lanes contain v, and its remaining lanes contain `filling`. */
#define SPLIT(v)                          \
    part low_##v, high_##v;               \
    memcpy(&low_##v, &v, sizeof low_##v); \
    memcpy(&high_##v, (char *)&v + sizeof v / 2, sizeof high_##v);
#define FILL_UP(v)                        \
    whole full_##v = (whole){} + filling; \
    memcpy(&full_##v, &v, sizeof v);
#define LOWEST(T, value)                       \
    whole computed = value;                    \
    T result;                                  \
    memcpy(&result, &computed, sizeof result); \
    return result;
#define JOINED(V, low, high)                \
    const part halves[] = {low, high};      \
    V result;                               \
    memcpy(&result, halves, sizeof result); \
    return result;

/* The level of the processor's instruction set: 4 with AVX-512, 3 with AVX2, otherwise 1. The Python function
 * _native.processor_level returns the same number. */
static int level;
#ifndef TNG_LEVEL /* tests define lower levels */
#define TNG_LEVEL tng_x86_64_level()
#endif

/* Define F_lanes_of_NAME, which calls libm for each element of a vector, and F_NAME, which calls the function that was
 * found for vectors of this length. */
#define LENGTH(TARGET, F, ARITY, NAME, V, N)                                     \
    static TARGET V F##_lanes_of_##NAME(PARAMETERS_##ARITY(V))                   \
    {                                                                            \
        for (int i = 0; i < N; ++i)                                              \
            x[i] = F(ARGUMENTS_##ARITY(, [i]));                                  \
        return x;                                                                \
    }                                                                            \
    static inline TARGET V F##_##NAME(PARAMETERS_##ARITY(V))                     \
    {                                                                            \
        return ((V (*)(PARAMETERS_##ARITY(V)))F##_found)(ARGUMENTS_##ARITY(, )); \
    }
/* Define F_NAME_of_OF, which computes F for a vector of type V: it pads the arguments to the longer type W and calls
 * F_OF. */
#define PART(TARGET, F, ARITY, NAME, V, OF, W, T, FILLING)                        \
    static TARGET V F##_##NAME##_of_##OF(PARAMETERS_##ARITY(V))                   \
    {                                                                             \
        typedef W whole;                                                          \
        const T filling = FILLING;                                                \
        FOR_EACH_##ARITY(FILL_UP) LOWEST(V, F##_##OF(ARGUMENTS_##ARITY(full_, ))) \
    }
/* Define F for vectors of HALF, WIDE and TWICE elements of type T, which have 16, 32 and 64 bytes, and for scalars. */
#define VERSIONS(F, ARITY, LETTERS, T, HALF, WIDE, TWICE, FILLING)                                         \
    static void *F##_found; /* function for TWICE elements at level 4, WIDE at level 3, HALF at level 1 */ \
    LENGTH(AVX512, F, ARITY, twice, T##x##TWICE, TWICE)                                                    \
    LENGTH(AVX2, F, ARITY, wide, T##x##WIDE, WIDE)                                                         \
    LENGTH(, F, ARITY, half, T##x##HALF, HALF)                                                             \
    PART(AVX512, F, ARITY, wide, T##x##WIDE, twice, T##x##TWICE, T, FILLING)                               \
    PART(AVX512, F, ARITY, half, T##x##HALF, twice, T##x##TWICE, T, FILLING)                               \
    PART(AVX512, F, ARITY, one, T, twice, T##x##TWICE, T, FILLING)                                         \
    PART(AVX2, F, ARITY, half, T##x##HALF, wide, T##x##WIDE, T, FILLING)                                   \
    PART(AVX2, F, ARITY, one, T, wide, T##x##WIDE, T, FILLING)                                             \
    PART(, F, ARITY, one, T, half, T##x##HALF, T, FILLING)                                                 \
    EXPORT T tng_##F(PARAMETERS_##ARITY(T))                                                                \
    {                                                                                                      \
        return level == 4   ? F##_one_of_twice(ARGUMENTS_##ARITY(, ))                                      \
               : level == 3 ? F##_one_of_wide(ARGUMENTS_##ARITY(, ))                                       \
                            : F##_one_of_half(ARGUMENTS_##ARITY(, ));                                      \
    }                                                                                                      \
    EXPORT T##x##HALF _ZGVbN##HALF##LETTERS##_tng_##F(PARAMETERS_##ARITY(T##x##HALF))                      \
    {                                                                                                      \
        return level == 4   ? F##_half_of_twice(ARGUMENTS_##ARITY(, ))                                     \
               : level == 3 ? F##_half_of_wide(ARGUMENTS_##ARITY(, ))                                      \
                            : F##_half(ARGUMENTS_##ARITY(, ));                                             \
    }                                                                                                      \
    EXPORT AVX T##x##WIDE _ZGVcN##WIDE##LETTERS##_tng_##F(PARAMETERS_##ARITY(T##x##WIDE))                  \
    {                                                                                                      \
        typedef T##x##HALF part;                                                                           \
        if (level == 4)                                                                                    \
            return F##_wide_of_twice(ARGUMENTS_##ARITY(, ));                                               \
        if (level == 3)                                                                                    \
            return F##_wide(ARGUMENTS_##ARITY(, ));                                                        \
        FOR_EACH_##ARITY(SPLIT)                                                                            \
            JOINED(T##x##WIDE, F##_half(ARGUMENTS_##ARITY(low_, )), F##_half(ARGUMENTS_##ARITY(high_, )))  \
    }                                                                                                      \
    EXPORT AVX2 T##x##WIDE _ZGVdN##WIDE##LETTERS##_tng_##F(PARAMETERS_##ARITY(T##x##WIDE))                 \
    {                                                                                                      \
        return level == 4 ? F##_wide_of_twice(ARGUMENTS_##ARITY(, )) : F##_wide(ARGUMENTS_##ARITY(, ));    \
    }                                                                                                      \
    EXPORT AVX512 T##x##TWICE _ZGVeN##TWICE##LETTERS##_tng_##F(PARAMETERS_##ARITY(T##x##TWICE))            \
    {                                                                                                      \
        typedef T##x##WIDE part;                                                                           \
        if (level == 4)                                                                                    \
            return F##_twice(ARGUMENTS_##ARITY(, ));                                                       \
        FOR_EACH_##ARITY(SPLIT)                                                                            \
            JOINED(T##x##TWICE, F##_wide(ARGUMENTS_##ARITY(low_, )), F##_wide(ARGUMENTS_##ARITY(high_, ))) \
    }

#define ONE(name, filling)                         \
    VERSIONS(name, 1, v, double, 2, 4, 8, filling) \
    VERSIONS(name##f, 1, v, float, 4, 8, 16, filling)
#define TWO(name, filling)                          \
    VERSIONS(name, 2, vv, double, 2, 4, 8, filling) \
    VERSIONS(name##f, 2, vv, float, 4, 8, 16, filling)
TNG_VECTOR_FUNCTIONS(ONE, TWO)

__attribute__((constructor)) static void find(void)
{
    void *library = dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL);
    level = TNG_LEVEL;
#define LOOK(F, LETTERS, HALF, WIDE, TWICE)                                        \
    if (library != NULL)                                                           \
        F##_found = dlsym(library, level == 4   ? "_ZGVeN" #TWICE #LETTERS "_" #F  \
                                   : level == 3 ? "_ZGVdN" #WIDE #LETTERS "_" #F   \
                                                : "_ZGVbN" #HALF #LETTERS "_" #F); \
    if (F##_found == NULL)                                                         \
        F##_found = level == 4   ? (void *)F##_lanes_of_twice                      \
                    : level == 3 ? (void *)F##_lanes_of_wide                       \
                                 : (void *)F##_lanes_of_half;
#define LOOK_ONE(name, filling) LOOK(name, v, 2, 4, 8) LOOK(name##f, v, 4, 8, 16)
#define LOOK_TWO(name, filling) LOOK(name, vv, 2, 4, 8) LOOK(name##f, vv, 4, 8, 16)
    TNG_VECTOR_FUNCTIONS(LOOK_ONE, LOOK_TWO)
}

#endif
