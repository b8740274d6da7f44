"""All device code of the package compiles for CUDA's devices: by NVRTC, which needs none of them."""

import ctypes
import unittest

from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.kernels import samples

# Turing, Hopper, Blackwell: the oldest that all compilers know, and those whose code differs most from it.
ARCHITECTURES = ("sm_75", "sm_90", "sm_100")

# What libgpuarray documents for kernels: everything in it is used once.
CLUDA = """#include "cluda.h"
#include <cluda.h>

WITHIN_KERNEL ga_float twice(ga_float x) { return 2 * x; }

WITHIN_KERNEL ga_int first(LOCAL_MEM_ARG ga_int *p) { return p[0]; }

KERNEL void atomics(GLOBAL_MEM ga_int *i, GLOBAL_MEM ga_uint *I, GLOBAL_MEM ga_long *l, GLOBAL_MEM ga_ulong *L, GLOBAL_MEM ga_float *f,
                    GLOBAL_MEM ga_double *d, GLOBAL_MEM ga_half *e GA_DECL_SHARED_PARAM(ga_float, fs)) {
    GA_DECL_SHARED_BODY(ga_float, fs)
    LOCAL_MEM ga_int is[4];
    LOCAL_MEM ga_uint Is[4];
    LOCAL_MEM ga_long ls[4];
    LOCAL_MEM ga_ulong Ls[4];
    LOCAL_MEM ga_double ds[4];
    LOCAL_MEM ga_half es[4];
    if (LID_0 == 0) {
        is[0] = 0; Is[0] = 0; ls[0] = 0; Ls[0] = 0; fs[0] = 0; ds[0] = 0;
        es[0] = ga_float2half(0); es[1] = ga_float2half(0);
    }
    local_barrier();
    atom_add_il(is, 1); atom_add_Il(Is, 1); atom_add_ll(ls, 1); atom_add_Ll(Ls, 1); atom_add_fl(fs, 1); atom_add_dl(ds, 1);
    atom_add_el(es, ga_float2half(1)); atom_add_el(es + 1, ga_float2half(2));
    local_barrier();
    atom_add_ig(i, 1); atom_add_Ig(I, 2); atom_add_lg(l, 3); atom_add_Lg(L, 4); atom_add_fg(f, 5); atom_add_dg(d, 6);
    atom_add_eg(e, ga_float2half(0.5f)); atom_add_eg(e + 1, ga_float2half(1));
    if (LID_0 == 0 && GID_0 == 0) {
        i[1] = first(is); I[1] = Is[0]; l[1] = ls[0]; L[1] = Ls[0]; f[1] = fs[0]; d[1] = ds[0]; e[2] = es[0]; e[3] = es[1];
        i[3] = atom_xchg_il(is, 7); Is[0] += atom_xchg_Il(Is, 1); ls[0] += atom_xchg_ll(ls, 1); Ls[0] += atom_xchg_Ll(Ls, 1);
        fs[0] += atom_xchg_fl(fs, 1); ds[0] += atom_xchg_dl(ds, 1); es[2] = atom_xchg_el(es, es[1]);
        i[4] = is[0];
        atom_xchg_ig(i + 2, 9); atom_xchg_Ig(I + 2, 9); atom_xchg_lg(l + 2, 9); atom_xchg_Lg(L + 2, 9); atom_xchg_fg(f + 2, INFINITY);
        atom_xchg_dg(d + 2, 9); atom_xchg_eg(e + 5, ga_float2half(9));
        store_half(e + 6, twice(load_half(e + 2)));
        e[7] = ga_double2half(1.0 + 0.00048828125 + 1e-12);
        f[3] = NAN; f[4] = (ga_float)sizeof(ga_half);
    }
}

KERNEL void types(GLOBAL_MEM ga_bool *b, GLOBAL_MEM ga_byte *c, GLOBAL_MEM ga_ubyte *C, GLOBAL_MEM ga_short *h, GLOBAL_MEM ga_ushort *H,
                  GLOBAL_MEM ga_cfloat *z, GLOBAL_MEM ga_cdouble *Z, ga_size n, ga_ssize k) {
    ga_size at = LID_0 + LDIM_0 * (LID_1 + LDIM_1 * (LID_2 + LDIM_2 * (GID_0 + GDIM_0 * (GID_1 + GDIM_1 * (ga_size)GID_2))));
    if (at >= n || GDIM_2 != 1)
        return;
    b[at] = at > 0; c[at] = -1; C[at] = 255; h[at] = -1; H[at] = 65535; z[at].x = 1; z[at].y = -1; Z[at].x = z[at].y;
    Z[at].y = max(k, (ga_ssize)0) + min(n - k, n + k) + GA_WARP_SIZE;
}
"""


class Nvrtc:
    """A compiler."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.nvrtcCreateProgram.argtypes = [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_char_p,
            ctypes.c_int,
        ] + 2 * [ctypes.POINTER(ctypes.c_char_p)]

    def compile(self, text, flags, options, architecture):
        """Compile as cuda_program.c does; returns the size of the binary and what the compiler said, size 0 if it refused."""
        nvrtc = self.library
        front = loader.cluda("cuda")
        words = [b"--gpu-architecture=" + architecture.encode(), *options.encode().split()]
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        text = ("" if flags & native.GA_USE_CUDA else front) + text
        headers = (ctypes.c_char_p * 1)(front.encode()), (ctypes.c_char_p * 1)(b"cluda.h")
        assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernels", 1, *headers) == 0
        status = nvrtc.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        said = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, said)
        size.value = 0
        if status == 0:
            nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
        return size.value, said.value.decode()


class TestNvrtc(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        paths = {version: loader.nvidia("nvrtc", [version]) for version in (12, 13)}
        cls.compilers = {version: Nvrtc(path) for version, path in paths.items() if path}
        if not cls.compilers:
            raise unittest.SkipTest("needs NVIDIA's compiler: pip install 'theano_ng[cuda12]' or 'theano_ng[cuda13]'")

    def check(self, name, text, flags=0, options=""):
        for version, compiler in self.compilers.items():
            for architecture in ARCHITECTURES:
                with self.subTest(name, nvrtc=version, architecture=architecture):
                    size, said = compiler.compile(text, flags, options, architecture)
                    self.assertGreater(size, 0, said)

    def test_the_names_of_cluda(self):
        self.check("cluda", CLUDA)

    def test_the_names_of_cluda_in_texts_of_cuda(self):
        # These have nothing in front, but may include the header.
        self.check("include", CLUDA, native.GA_USE_CUDA)

    def test_lines_are_those_of_the_text(self):
        for compiler in self.compilers.values():
            self.assertRegex(
                compiler.compile("\n\nKERNEL void f() { nobody(); }", 0, "", "sm_90")[1], r"kernels\(3\): error"
            )
            self.assertRegex(
                compiler.compile('#include "cluda.h"\n\nKERNEL void f() { nobody(); }', 0, "", "sm_90")[1],
                r"kernels\(3\): error",
            )

    def test_samples(self):
        for module, sample in samples.collect():
            self.check("%s: %s" % (module, sample.name), sample.text, sample.flags, sample.options)


if __name__ == "__main__":
    unittest.main()
