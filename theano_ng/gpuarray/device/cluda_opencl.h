/* The OpenCL prefix of every kernel. It defines the same names as cluda_cuda.h, which explains them. The language is
 * OpenCL C 1.2, which has no include files here: lines that include "cluda.h" are removed from the source. */
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define GA_HAS_DOUBLE
#endif
#ifdef cl_khr_int64_base_atomics
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#define GA_HAS_LONG_ATOMICS
#endif

#define KERNEL __kernel
#define WITHIN_KERNEL
#define GA_ROOM_FOR(n, threads)
#define GA_UNROLL /* OpenCL's compilers unroll short loops without being told */
#define GLOBAL_MEM __global
#define LOCAL_MEM __local
#define LOCAL_MEM_ARG __local
/* Order accesses to global memory, too, as CUDA's barrier does. */
#define local_barrier() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
/* Threads run in lockstep only on devices whose build options define GA_WARP_SIZE. */
#ifndef GA_WARP_SIZE
#define GA_WARP_SIZE 1
#endif

#define LID_0 get_local_id(0)
#define LID_1 get_local_id(1)
#define LID_2 get_local_id(2)
#define LDIM_0 get_local_size(0)
#define LDIM_1 get_local_size(1)
#define LDIM_2 get_local_size(2)
#define GID_0 get_group_id(0)
#define GID_1 get_group_id(1)
#define GID_2 get_group_id(2)
#define GDIM_0 get_num_groups(0)
#define GDIM_1 get_num_groups(1)
#define GDIM_2 get_num_groups(2)

#define GA_DECL_SHARED_PARAM(type, name) , __local type *name
#define GA_DECL_SHARED_BODY(type, name)

typedef uchar ga_bool;
typedef char ga_byte;
typedef uchar ga_ubyte;
typedef short ga_short;
typedef ushort ga_ushort;
typedef int ga_int;
typedef uint ga_uint;
typedef long ga_long;
typedef ulong ga_ulong;
typedef float ga_float;
typedef ulong ga_size; /* size_t is not allowed in kernel parameters */
typedef long ga_ssize;
typedef float2 ga_cfloat;
#ifdef GA_HAS_DOUBLE
typedef double ga_double;
typedef double2 ga_cdouble;
#endif
/* A struct instead of `half`: variables of type half need an extension; accesses through a pointer to half do not. */
typedef struct {
    ga_ushort data;
} ga_half;

static inline ga_float ga_half2float(ga_half x)
{
    return vload_half(0, (const half *)&x.data);
}

static inline ga_half ga_float2half(ga_float x)
{
    ga_half y;
    vstore_half_rte(x, 0, (half *)&y.data);
    return y;
}

#ifdef GA_HAS_DOUBLE
static inline ga_half ga_double2half(ga_double x)
{
    ga_half y;
    vstore_half_rte(x, 0, (half *)&y.data);
    return y;
}
#endif

/* Divide *rest by `by`, the length of an axis. Return the remainder (the index along this axis); *rest becomes the
 * quotient, the index over the other axes. If *rest and `by` fit in 32 bits, divide in 32 bits, which is three times
 * as fast. */
static inline ga_size ga_split(ga_size *rest, ga_size by)
{
    const ga_size whole = *rest,
                  quotient = (whole | by) >> 32 == 0 ? (ga_size)((ga_uint)whole / (ga_uint)by) : whole / by;
    *rest = quotient;
    return whole - quotient * by;
}

/* Kernels exchange values through local memory: OpenCL C 1.2 has no shuffles. */
#define GA_SHUFFLED 1
#define ga_shuffle_down(x, by) (x)

#define load_half(p) ga_half2float(*(p))
#define store_half(p, x) (*(p) = ga_float2half(x))

/* OpenCL has no atomic additions of floats, doubles and halves. Therefore repeat a compare-and-swap until no other
 * thread has written the word between the read and the swap. The first read is atomic, too: a plain read while other
 * threads write is a data race. `letter` and `memory` give the address space: g and __global, or l and __local. */
#define GA_ATOMIC_FLOAT(letter, memory)                                                                 \
    static inline ga_float atom_add_f##letter(volatile memory ga_float *p, ga_float x)                  \
    {                                                                                                   \
        ga_uint seen = atomic_cmpxchg((volatile memory ga_uint *)p, 0u, 0u), before;                    \
        do {                                                                                            \
            before = seen;                                                                              \
            seen = atomic_cmpxchg((volatile memory ga_uint *)p, before, as_uint(as_float(before) + x)); \
        } while (seen != before);                                                                       \
        return as_float(before);                                                                        \
    }
#define GA_ATOMIC_DOUBLE(letter, memory)                                                                 \
    static inline ga_double atom_add_d##letter(volatile memory ga_double *p, ga_double x)                \
    {                                                                                                    \
        ga_ulong seen = atom_cmpxchg((volatile memory ga_ulong *)p, (ga_ulong)0, (ga_ulong)0), before;   \
        do {                                                                                             \
            before = seen;                                                                               \
            seen = atom_cmpxchg((volatile memory ga_ulong *)p, before, as_ulong(as_double(before) + x)); \
        } while (seen != before);                                                                        \
        return as_double(before);                                                                        \
    }                                                                                                    \
    static inline ga_double atom_xchg_d##letter(volatile memory ga_double *p, ga_double x)               \
    {                                                                                                    \
        return as_double(atom_xchg((volatile memory ga_ulong *)p, as_ulong(x)));                         \
    }
/* Replace the half at p by `value`, an expression that may use `old` (the half before the call) and x. */
#define GA_ATOMIC_HALF(name, letter, memory, value)                                                               \
    static inline ga_half name##letter(volatile memory ga_half *p, ga_half x)                                     \
    {                                                                                                             \
        ga_uint shift = (ga_uint)((ga_size)p & 2) * 8, seen, before;                                              \
        volatile memory ga_uint *word = (volatile memory ga_uint *)((ga_size)p & ~(ga_size)3);                    \
        ga_half old;                                                                                              \
        seen = atomic_cmpxchg(word, 0u, 0u);                                                                      \
        do {                                                                                                      \
            before = seen;                                                                                        \
            old.data = (ga_ushort)(before >> shift);                                                              \
            seen = atomic_cmpxchg(word, before, (before & ~(0xffffu << shift)) | (ga_uint)(value).data << shift); \
        } while (seen != before);                                                                                 \
        return old;                                                                                               \
    }

GA_ATOMIC_FLOAT(g, __global)
GA_ATOMIC_FLOAT(l, __local)
GA_ATOMIC_HALF(atom_add_e, g, __global, ga_float2half(ga_half2float(old) + ga_half2float(x)))
GA_ATOMIC_HALF(atom_add_e, l, __local, ga_float2half(ga_half2float(old) + ga_half2float(x)))
GA_ATOMIC_HALF(atom_xchg_e, g, __global, x)
GA_ATOMIC_HALF(atom_xchg_e, l, __local, x)
#if defined(GA_HAS_DOUBLE) && defined(GA_HAS_LONG_ATOMICS)
GA_ATOMIC_DOUBLE(g, __global)
GA_ATOMIC_DOUBLE(l, __local)
#endif

#define atom_add_ig(p, x) atomic_add((volatile __global ga_int *)(p), (ga_int)(x))
#define atom_add_il(p, x) atomic_add((volatile __local ga_int *)(p), (ga_int)(x))
#define atom_add_Ig(p, x) atomic_add((volatile __global ga_uint *)(p), (ga_uint)(x))
#define atom_add_Il(p, x) atomic_add((volatile __local ga_uint *)(p), (ga_uint)(x))
#define atom_xchg_ig(p, x) atomic_xchg((volatile __global ga_int *)(p), (ga_int)(x))
#define atom_xchg_il(p, x) atomic_xchg((volatile __local ga_int *)(p), (ga_int)(x))
#define atom_xchg_Ig(p, x) atomic_xchg((volatile __global ga_uint *)(p), (ga_uint)(x))
#define atom_xchg_Il(p, x) atomic_xchg((volatile __local ga_uint *)(p), (ga_uint)(x))
#define atom_xchg_fg(p, x) atomic_xchg((volatile __global ga_float *)(p), (ga_float)(x))
#define atom_xchg_fl(p, x) atomic_xchg((volatile __local ga_float *)(p), (ga_float)(x))
#ifdef GA_HAS_LONG_ATOMICS
#define atom_add_lg(p, x) atom_add((volatile __global ga_long *)(p), (ga_long)(x))
#define atom_add_ll(p, x) atom_add((volatile __local ga_long *)(p), (ga_long)(x))
#define atom_add_Lg(p, x) atom_add((volatile __global ga_ulong *)(p), (ga_ulong)(x))
#define atom_add_Ll(p, x) atom_add((volatile __local ga_ulong *)(p), (ga_ulong)(x))
#define atom_xchg_lg(p, x) atom_xchg((volatile __global ga_long *)(p), (ga_long)(x))
#define atom_xchg_ll(p, x) atom_xchg((volatile __local ga_long *)(p), (ga_long)(x))
#define atom_xchg_Lg(p, x) atom_xchg((volatile __global ga_ulong *)(p), (ga_ulong)(x))
#define atom_cas_Lg(p, expected, x) atom_cmpxchg((volatile __global ga_ulong *)(p), (ga_ulong)(expected), (ga_ulong)(x))
#define atom_xchg_Ll(p, x) atom_xchg((volatile __local ga_ulong *)(p), (ga_ulong)(x))
#endif

/* The kernel's own source follows; its line numbers begin at 1. */
#line 1
