/* In front of every kernel, in CUDA's dialect: the names that kernels are written in for all devices, those that libgpuarray documents for its "cluda.h". It
 * is text for NVRTC, which knows no header: halves are converted by PTX's own instructions. loader.cluda() reads it. It is also what kernels get that
 * include "cluda.h" themselves. */
#ifndef CLUDA_H
#define CLUDA_H
#define KERNEL extern "C" __global__
#define WITHIN_KERNEL extern "C" __device__
#define GLOBAL_MEM
#define LOCAL_MEM __shared__
#define LOCAL_MEM_ARG
#define local_barrier() __syncthreads()
#define GA_WARP_SIZE 32

/* Threads and groups: number, and how many there are. Those of groups have 64 bits, as in OpenCL: numbers of elements that are computed from them may
 * be above 2^32. */
#define LID_0 threadIdx.x
#define LID_1 threadIdx.y
#define LID_2 threadIdx.z
#define LDIM_0 blockDim.x
#define LDIM_1 blockDim.y
#define LDIM_2 blockDim.z
#define GID_0 ((size_t)blockIdx.x)
#define GID_1 ((size_t)blockIdx.y)
#define GID_2 ((size_t)blockIdx.z)
#define GDIM_0 ((size_t)gridDim.x)
#define GDIM_1 ((size_t)gridDim.y)
#define GDIM_2 ((size_t)gridDim.z)

/* Local memory whose size the launch says: the first after the last parameter, without a comma, the second at the beginning of the body. */
#define GA_DECL_SHARED_PARAM(type, name)
#define GA_DECL_SHARED_BODY(type, name) extern __shared__ type name[];

typedef unsigned char ga_bool;
typedef signed char ga_byte;
typedef unsigned char ga_ubyte;
typedef short ga_short;
typedef unsigned short ga_ushort;
typedef int ga_int;
typedef unsigned int ga_uint;
typedef long long ga_long;
typedef unsigned long long ga_ulong;
typedef float ga_float;
typedef double ga_double;
typedef size_t ga_size;
typedef ptrdiff_t ga_ssize;
/* Members x, y. */
typedef float2 ga_cfloat;
typedef double2 ga_cdouble;
/* Stored only; computed with as ga_float. */
struct ga_half {
    ga_ushort data;
};

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif

__device__ static inline ga_float ga_half2float(ga_half x)
{
    ga_float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.data));
    return y;
}

__device__ static inline ga_half ga_float2half(ga_float x)
{
    ga_half y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.data) : "f"(x));
    return y;
}

/* Rounded once. */
__device__ static inline ga_half ga_double2half(ga_double x)
{
    ga_half y;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y.data) : "d"(x));
    return y;
}

/* Divides *rest and returns the remainder: the place along an axis of `by` elements, and what is left for the other axes. In 32 bits where they do, which is
 * three times as fast. */
__device__ static inline ga_size ga_split(ga_size *rest, ga_size by)
{
    const ga_size whole = *rest, quotient = (whole | by) >> 32 == 0 ? (ga_size)((ga_uint)whole / (ga_uint)by) : whole / by;
    *rest = quotient;
    return whole - quotient * by;
}

#define load_half(p) ga_half2float(*(p))
#define store_half(p, x) (*(p) = ga_float2half(x))

/* Atomic: atom_add_<type><memory>(address, value), atom_xchg_...; the type is i, I, l, L, f, d or e (half) as in `struct`, the memory g(lobal) or l(ocal). All
 * return what was there. */
__device__ static inline ga_long ga_atomic_add(ga_long *p, ga_long x)
{
    return (ga_long)atomicAdd((ga_ulong *)p, (ga_ulong)x);
}

__device__ static inline ga_double ga_atomic_add(ga_double *p, ga_double x)
{
#if __CUDA_ARCH__ >= 600
    return atomicAdd(p, x);
#else
    ga_ulong seen = *(volatile ga_ulong *)p, before;
    do {
        before = seen;
        seen = atomicCAS((ga_ulong *)p, before, (ga_ulong)__double_as_longlong(x + __longlong_as_double((ga_long)before)));
    } while (seen != before);
    return __longlong_as_double((ga_long)before);
#endif
}

/* The word of 4 bytes that a half is in, and how far from its right. */
__device__ static inline ga_uint *ga_half_word(ga_half *p, ga_uint *shift)
{
    *shift = (ga_uint)((size_t)p & 2) * 8;
    return (ga_uint *)((size_t)p & ~(size_t)3);
}

__device__ static inline ga_half ga_half_of_word(ga_uint word, ga_uint shift)
{
    ga_half x;
    x.data = (ga_ushort)(word >> shift);
    return x;
}

__device__ static inline ga_half ga_atomic_add(ga_half *p, ga_half x)
{
    ga_uint shift, *word = ga_half_word(p, &shift), seen = *(volatile ga_uint *)word, before;
    do {
        before = seen;
        ga_half sum = ga_float2half(ga_half2float(ga_half_of_word(before, shift)) + ga_half2float(x));
        seen = atomicCAS(word, before, (before & ~(0xffffu << shift)) | (ga_uint)sum.data << shift);
    } while (seen != before);
    return ga_half_of_word(before, shift);
}

__device__ static inline ga_long ga_atomic_xchg(ga_long *p, ga_long x)
{
    return (ga_long)atomicExch((ga_ulong *)p, (ga_ulong)x);
}

__device__ static inline ga_double ga_atomic_xchg(ga_double *p, ga_double x)
{
    return __longlong_as_double((ga_long)atomicExch((ga_ulong *)p, (ga_ulong)__double_as_longlong(x)));
}

__device__ static inline ga_half ga_atomic_xchg(ga_half *p, ga_half x)
{
    ga_uint shift, *word = ga_half_word(p, &shift), seen = *(volatile ga_uint *)word, before;
    do {
        before = seen;
        seen = atomicCAS(word, before, (before & ~(0xffffu << shift)) | (ga_uint)x.data << shift);
    } while (seen != before);
    return ga_half_of_word(before, shift);
}

#define atom_add_ig(p, x) atomicAdd((ga_int *)(p), (ga_int)(x))
#define atom_add_Ig(p, x) atomicAdd((ga_uint *)(p), (ga_uint)(x))
#define atom_add_lg(p, x) ga_atomic_add((ga_long *)(p), (ga_long)(x))
#define atom_add_Lg(p, x) atomicAdd((ga_ulong *)(p), (ga_ulong)(x))
#define atom_add_fg(p, x) atomicAdd((ga_float *)(p), (ga_float)(x))
#define atom_add_dg(p, x) ga_atomic_add((ga_double *)(p), (ga_double)(x))
#define atom_add_eg(p, x) ga_atomic_add((ga_half *)(p), x)
#define atom_add_il(p, x) atom_add_ig(p, x)
#define atom_add_Il(p, x) atom_add_Ig(p, x)
#define atom_add_ll(p, x) atom_add_lg(p, x)
#define atom_add_Ll(p, x) atom_add_Lg(p, x)
#define atom_add_fl(p, x) atom_add_fg(p, x)
#define atom_add_dl(p, x) atom_add_dg(p, x)
#define atom_add_el(p, x) atom_add_eg(p, x)
#define atom_xchg_ig(p, x) atomicExch((ga_int *)(p), (ga_int)(x))
#define atom_xchg_Ig(p, x) atomicExch((ga_uint *)(p), (ga_uint)(x))
#define atom_xchg_lg(p, x) ga_atomic_xchg((ga_long *)(p), (ga_long)(x))
#define atom_xchg_Lg(p, x) atomicExch((ga_ulong *)(p), (ga_ulong)(x))
#define atom_xchg_fg(p, x) atomicExch((ga_float *)(p), (ga_float)(x))
#define atom_xchg_dg(p, x) ga_atomic_xchg((ga_double *)(p), (ga_double)(x))
#define atom_xchg_eg(p, x) ga_atomic_xchg((ga_half *)(p), x)
#define atom_xchg_il(p, x) atom_xchg_ig(p, x)
#define atom_xchg_Il(p, x) atom_xchg_Ig(p, x)
#define atom_xchg_ll(p, x) atom_xchg_lg(p, x)
#define atom_xchg_Ll(p, x) atom_xchg_Lg(p, x)
#define atom_xchg_fl(p, x) atom_xchg_fg(p, x)
#define atom_xchg_dl(p, x) atom_xchg_dg(p, x)
#define atom_xchg_el(p, x) atom_xchg_eg(p, x)
#endif

/* What follows is the kernel's own text, and has its own numbers of lines. */
#line 1
