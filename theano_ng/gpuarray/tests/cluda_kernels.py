"""Kernels that use all names of ``cluda.h``: test_cluda.py runs them, test_nvrtc.py compiles them for CUDA."""

# Every name that libgpuarray documents for kernels is used at least once.
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
