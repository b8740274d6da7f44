/* Definitions of the functions of c_include/vector_math.h for vectors of every length and for scalars, under the names
 * that compilers call. All versions give the same bits, because they call the same function of libmvec: the function
 * for vectors of 32 bytes, or for vectors of 16 bytes on processors without AVX2. The lanes of this function are
 * independent, so a scalar is computed as one lane of a vector. If libmvec lacks a function, libm is called (before
 * glibc 2.35, libmvec has only five functions).
 *
 * Compiled kernels find these functions in the module _native. The module native/blocks contains its own hidden copy of
 * them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#ifdef TNG_HAS_MVEC

#define TNG_VECTOR_LIST_ONLY
#include "c_include/vector_math.h"

#ifdef TNG_OWN_VECTOR_MATH
#define EXPORT __attribute__((visibility("hidden")))
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#define AVX __attribute__((target("avx")))
#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f")))

#define VECTOR(T, N) typedef T T##x##N __attribute__((vector_size(N * sizeof(T))));
VECTOR(double, 2) VECTOR(double, 4) VECTOR(double, 8) VECTOR(float, 4) VECTOR(float, 8) VECTOR(float, 16)

/* Parameters and arguments of functions with one and with two arguments. */
#define PARAMETERS_1(V) V x
#define PARAMETERS_2(V) V x, V y
#define ARGUMENTS_1(BEFORE, AFTER) BEFORE##x AFTER
#define ARGUMENTS_2(BEFORE, AFTER) BEFORE##x AFTER, BEFORE##y AFTER
#define FOR_EACH_1(DO) DO(x)
#define FOR_EACH_2(DO) DO(x) DO(y)

/* SPLIT declares two variables of type `part`, for the lower and upper half of v. FILL_UP declares a variable of type
 * `whole` that begins with v; its other lanes contain `filling`. */
#define SPLIT(v)                                              \
    part low_##v, high_##v;                                   \
    memcpy(&low_##v, &v, sizeof low_##v);                     \
    memcpy(&high_##v, (char *)&v + sizeof v / 2, sizeof high_##v);
#define FILL_UP(v)                                            \
    whole full_##v = (whole){} + filling;                     \
    memcpy(&full_##v, &v, sizeof v);
#define LOWEST(T, value)                                      \
    whole computed = value;                                   \
    T result;                                                 \
    memcpy(&result, &computed, sizeof result);                \
    return result;
#define JOINED(V, low, high)                                  \
    const part halves[] = {low, high};                        \
    V result;                                                 \
    memcpy(&result, halves, sizeof result);                   \
    return result;

static int has_avx2;

/* Define F for vectors of HALF or WIDE elements of type T, which libmvec has, for vectors of TWICE elements (2 * WIDE),
 * and for scalars. */
#define VERSIONS(F, ARITY, LETTERS, T, HALF, WIDE, TWICE, FILLING)                                                                  \
    static void *F##_found; /* for WIDE with AVX2, for HALF without */                                                              \
    static AVX2 T##x##WIDE F##_lanes_of_wide(PARAMETERS_##ARITY(T##x##WIDE))                                                        \
    {                                                                                                                               \
        for (int i = 0; i < WIDE; ++i)                                                                                              \
            x[i] = F(ARGUMENTS_##ARITY(, [i]));                                                                                     \
        return x;                                                                                                                   \
    }                                                                                                                               \
    static T##x##HALF F##_lanes_of_half(PARAMETERS_##ARITY(T##x##HALF))                                                             \
    {                                                                                                                               \
        for (int i = 0; i < HALF; ++i)                                                                                              \
            x[i] = F(ARGUMENTS_##ARITY(, [i]));                                                                                     \
        return x;                                                                                                                   \
    }                                                                                                                               \
    static inline AVX2 T##x##WIDE F##_wide(PARAMETERS_##ARITY(T##x##WIDE))                                                          \
    {                                                                                                                               \
        return ((T##x##WIDE(*)(PARAMETERS_##ARITY(T##x##WIDE)))F##_found)(ARGUMENTS_##ARITY(, ));                                   \
    }                                                                                                                               \
    static inline T##x##HALF F##_half(PARAMETERS_##ARITY(T##x##HALF))                                                               \
    {                                                                                                                               \
        return ((T##x##HALF(*)(PARAMETERS_##ARITY(T##x##HALF)))F##_found)(ARGUMENTS_##ARITY(, ));                                   \
    }                                                                                                                               \
    static AVX2 T##x##HALF F##_half_of_wide(PARAMETERS_##ARITY(T##x##HALF))                                                         \
    {                                                                                                                               \
        typedef T##x##WIDE whole;                                                                                                   \
        const T filling = FILLING;                                                                                                  \
        FOR_EACH_##ARITY(FILL_UP)                                                                                                   \
        LOWEST(T##x##HALF, F##_wide(ARGUMENTS_##ARITY(full_, )))                                                                    \
    }                                                                                                                               \
    static AVX2 T F##_one_of_wide(PARAMETERS_##ARITY(T))                                                                            \
    {                                                                                                                               \
        typedef T##x##WIDE whole;                                                                                                   \
        const T filling = FILLING;                                                                                                  \
        FOR_EACH_##ARITY(FILL_UP)                                                                                                   \
        LOWEST(T, F##_wide(ARGUMENTS_##ARITY(full_, )))                                                                             \
    }                                                                                                                               \
    static T F##_one_of_half(PARAMETERS_##ARITY(T))                                                                                 \
    {                                                                                                                               \
        typedef T##x##HALF whole;                                                                                                   \
        const T filling = FILLING;                                                                                                  \
        FOR_EACH_##ARITY(FILL_UP)                                                                                                   \
        LOWEST(T, F##_half(ARGUMENTS_##ARITY(full_, )))                                                                             \
    }                                                                                                                               \
    EXPORT T tng_##F(PARAMETERS_##ARITY(T))                                                                                         \
    {                                                                                                                               \
        return has_avx2 ? F##_one_of_wide(ARGUMENTS_##ARITY(, )) : F##_one_of_half(ARGUMENTS_##ARITY(, ));                          \
    }                                                                                                                               \
    EXPORT T##x##HALF _ZGVbN##HALF##LETTERS##_tng_##F(PARAMETERS_##ARITY(T##x##HALF))                                               \
    {                                                                                                                               \
        return has_avx2 ? F##_half_of_wide(ARGUMENTS_##ARITY(, )) : F##_half(ARGUMENTS_##ARITY(, ));                                \
    }                                                                                                                               \
    EXPORT AVX T##x##WIDE _ZGVcN##WIDE##LETTERS##_tng_##F(PARAMETERS_##ARITY(T##x##WIDE))                                           \
    {                                                                                                                               \
        typedef T##x##HALF part;                                                                                                    \
        if (has_avx2)                                                                                                               \
            return F##_wide(ARGUMENTS_##ARITY(, ));                                                                                 \
        FOR_EACH_##ARITY(SPLIT)                                                                                                     \
        JOINED(T##x##WIDE, F##_half(ARGUMENTS_##ARITY(low_, )), F##_half(ARGUMENTS_##ARITY(high_, )))                               \
    }                                                                                                                               \
    EXPORT AVX2 T##x##WIDE _ZGVdN##WIDE##LETTERS##_tng_##F(PARAMETERS_##ARITY(T##x##WIDE))                                          \
    {                                                                                                                               \
        return F##_wide(ARGUMENTS_##ARITY(, ));                                                                                     \
    }                                                                                                                               \
    EXPORT AVX512 T##x##TWICE _ZGVeN##TWICE##LETTERS##_tng_##F(PARAMETERS_##ARITY(T##x##TWICE))                                     \
    {                                                                                                                               \
        typedef T##x##WIDE part;                                                                                                    \
        FOR_EACH_##ARITY(SPLIT)                                                                                                     \
        JOINED(T##x##TWICE, F##_wide(ARGUMENTS_##ARITY(low_, )), F##_wide(ARGUMENTS_##ARITY(high_, )))                              \
    }

#define ONE(name, filling)                                \
    VERSIONS(name, 1, v, double, 2, 4, 8, filling)        \
    VERSIONS(name##f, 1, v, float, 4, 8, 16, filling)
#define TWO(name, filling)                                \
    VERSIONS(name, 2, vv, double, 2, 4, 8, filling)       \
    VERSIONS(name##f, 2, vv, float, 4, 8, 16, filling)
TNG_VECTOR_FUNCTIONS(ONE, TWO)

__attribute__((constructor)) static void find(void)
{
    void *library = dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL);
    __builtin_cpu_init();
    has_avx2 = __builtin_cpu_supports("avx2");
#define LOOK(F, LETTERS, HALF, WIDE)                                                                                                \
    if (library != NULL)                                                                                                            \
        F##_found = dlsym(library, has_avx2 ? "_ZGVdN" #WIDE #LETTERS "_" #F : "_ZGVbN" #HALF #LETTERS "_" #F);                     \
    if (F##_found == NULL)                                                                                                          \
        F##_found = has_avx2 ? (void *)F##_lanes_of_wide : (void *)F##_lanes_of_half;
#define LOOK_ONE(name, filling) LOOK(name, v, 2, 4) LOOK(name##f, v, 4, 8)
#define LOOK_TWO(name, filling) LOOK(name, vv, 2, 4) LOOK(name##f, vv, 4, 8)
    TNG_VECTOR_FUNCTIONS(LOOK_ONE, LOOK_TWO)
}

#endif
