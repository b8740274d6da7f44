"""Tests of the vectorized functions of the C library: all vector lengths give the same bits, at each level of x86-64."""

import ctypes
import os
import subprocess
import tempfile
import unittest

from theano_ng.configdefaults import config
from theano_ng.gof._native import HAS_VECTOR_MATH, processor_level

GOF = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# For each function, CHECK_F counts two kinds of differences: results of vector code that differ from results of scalar
# code, and results of scalar code that differ from results of libm.
DRIVER = r"""
#include "vector_math.c"
#define COUNT 960
#define LANES(TARGET, F, ARITY, T, N, CALL)                                                      \
    static TARGET int F##_##N##_##CALL(const T *from_x, const T *from_y)                         \
    {                                                                                            \
        int bad = 0;                                                                             \
        for (int i = 0; i < COUNT; i += N) {                                                     \
            T##x##N x, y, z;                                                                     \
            memcpy(&x, from_x + i, sizeof x);                                                    \
            memcpy(&y, from_y + i, sizeof y);                                                    \
            (void)y;                                                                             \
            z = CALL(ARGUMENTS_##ARITY(, ));                                                     \
            for (int k = 0; k < N; ++k) {                                                        \
                const T one = tng_##F(ARGUMENTS_##ARITY(, [k])), other = z[k];                   \
                bad += memcmp(&one, &other, sizeof one) != 0 && (one == one || other == other);  \
            }                                                                                    \
        }                                                                                        \
        return bad;                                                                              \
    }
#define CHECK(F, ARITY, LETTERS, T, HALF, WIDE, TWICE, LIMIT)                                    \
    LANES(, F, ARITY, T, HALF, _ZGVbN##HALF##LETTERS##_tng_##F)                                  \
    LANES(AVX, F, ARITY, T, WIDE, _ZGVcN##WIDE##LETTERS##_tng_##F)                               \
    LANES(AVX2, F, ARITY, T, WIDE, _ZGVdN##WIDE##LETTERS##_tng_##F)                              \
    LANES(AVX512, F, ARITY, T, TWICE, _ZGVeN##TWICE##LETTERS##_tng_##F)                          \
    int check_##F(int processor)                                                                 \
    {                                                                                            \
        static T from_x[COUNT], from_y[COUNT];                                                   \
        for (int i = 0; i < COUNT; ++i) {                                                        \
            from_x[i] = (T)((i + 1) * (i % 7 == 3 ? -0.37 : 0.011));                             \
            from_y[i] = (T)(2.5 - 0.004 * i);                                                    \
        }                                                                                        \
        int bad = F##_##HALF##__ZGVbN##HALF##LETTERS##_tng_##F(from_x, from_y);                  \
        if (processor >= 3)                                                                      \
            bad += F##_##WIDE##__ZGVcN##WIDE##LETTERS##_tng_##F(from_x, from_y);                 \
        if (level >= 3) /* these functions need AVX2 */                                          \
            bad += F##_##WIDE##__ZGVdN##WIDE##LETTERS##_tng_##F(from_x, from_y);                 \
        if (level >= 3 && processor >= 4)                                                        \
            bad += F##_##TWICE##__ZGVeN##TWICE##LETTERS##_tng_##F(from_x, from_y);               \
        for (int i = 0; i < COUNT; ++i) {                                                        \
            const T x = from_x[i], y = from_y[i];                                                \
            (void)y;                                                                             \
            const T one = tng_##F(ARGUMENTS_##ARITY(, )), exact = F(ARGUMENTS_##ARITY(, ));      \
            const T error = one > exact ? one - exact : exact - one;                             \
            bad += error > LIMIT * (exact > 0 ? exact : -exact) && error > LIMIT;                \
        }                                                                                        \
        return bad;                                                                              \
    }
#undef ONE
#undef TWO
#define ONE(name, filling) CHECK(name, 1, v, double, 2, 4, 8, 1e-14) CHECK(name##f, 1, v, float, 4, 8, 16, 2e-6f)
#define TWO(name, filling) CHECK(name, 2, vv, double, 2, 4, 8, 1e-14) CHECK(name##f, 2, vv, float, 4, 8, 16, 2e-6f)
TNG_VECTOR_FUNCTIONS(ONE, TWO)
"""
FUNCTIONS = (
    "exp log sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp2 expm1 log2 log10 log1p cbrt erf erfc"
    " pow atan2 hypot"
).split()


@unittest.skipUnless(
    HAS_VECTOR_MATH and config.cxx, "libmvec exists on x86-64 with glibc only; the test needs a compiler"
)
class TestBits(unittest.TestCase):
    def check(self, level):
        with tempfile.TemporaryDirectory() as folder:
            source, library = [os.path.join(folder, "checks" + suffix) for suffix in (".c", ".so")]
            with open(source, "w", encoding="utf-8") as file:
                file.write(DRIVER)
            flags = [
                "-O1",
                "-w",
                "-shared",
                "-fPIC",
                "-DTNG_HAS_MVEC",
                "-DTNG_OWN_VECTOR_MATH",
                "-DTNG_LEVEL=%d" % level,
            ]
            subprocess.run(["gcc", *flags, "-I", GOF, source, "-o", library, "-ldl", "-lm"], check=True)
            checks = ctypes.CDLL(library)
            for name in FUNCTIONS:
                for function in (name, name + "f"):
                    differing = getattr(checks, "check_" + function)(processor_level())
                    self.assertEqual(differing, 0, "%s at level %d" % (function, level))

    def test_sse(self):
        self.check(1)

    @unittest.skipUnless(processor_level() >= 3, "the processor has no AVX2")
    def test_avx2(self):
        self.check(3)

    @unittest.skipUnless(processor_level() >= 4, "the processor has no AVX-512")
    def test_avx512(self):
        self.check(4)
