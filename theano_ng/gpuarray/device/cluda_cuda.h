/* The CUDA prefix of every kernel. It defines the portable names in which kernels are written, as libgpuarray
 * documents them for its "cluda.h". NVRTC compiles kernels without CUDA's headers, so PTX instructions convert halves.
 * loader.cluda() reads this file. A kernel that includes "cluda.h" itself gets this file, too. */
#ifndef CLUDA_H
#define CLUDA_H
#define KERNEL extern "C" __global__
#define WITHIN_KERNEL extern "C" __device__
/* KERNEL void GA_ROOM_FOR(n, threads) name(...): a kernel that is launched with at most `threads` threads in a group. The
 * registers of a processor suffice for n groups. Otherwise the compiler uses so few registers that it delays loads. */
#define GA_ROOM_FOR(n, threads) __launch_bounds__(threads, n)
/* Written before a loop: unroll it. The elements of an array with constant indices are then in registers. */
#define GA_UNROLL _Pragma("unroll")
#define GLOBAL_MEM
#define LOCAL_MEM __shared__
#define LOCAL_MEM_ARG
#define local_barrier() __syncthreads()
#define GA_WARP_SIZE 32

/* LID: index of the thread in its group. LDIM: number of threads in the group. GID: index of the group. GDIM: number of
 * groups. GID and GDIM have 64 bits, as in OpenCL, because element indices that are computed from them may exceed
 * 2^32. */
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

/* Local memory whose size is given at the launch. Write the first macro after the last parameter, without a comma, and
 * the second macro at the beginning of the body. */
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
/* Complex numbers are structs with the members x (real part) and y (imaginary part). */
typedef float2 ga_cfloat;
typedef double2 ga_cdouble;
/* Halves are only stored in this type: kernels convert them to ga_float to compute. */
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

/* Convert a double directly to a half, so that the value is rounded only once. */
__device__ static inline ga_half ga_double2half(ga_double x)
{
    ga_half y;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y.data) : "d"(x));
    return y;
}

/* Divide *rest by `by`, the length of an axis. Return the remainder (the index along this axis); *rest becomes the
 * quotient, the index over the other axes. If *rest and `by` fit in 32 bits, divide in 32 bits, which is three times
 * as fast. */
__device__ static inline ga_size ga_split(ga_size *rest, ga_size by)
{
    const ga_size whole = *rest,
                  quotient = (whole | by) >> 32 == 0 ? (ga_size)((ga_uint)whole / (ga_uint)by) : whole / by;
    *rest = quotient;
    return whole - quotient * by;
}

/* Return the value of x in the thread that is `by` places behind in the warp. All threads of the group call the
 * function. The number of threads in the group is a power of two. GA_SHUFFLED: threads whose numbers in the group differ
 * by less may exchange values in this way. */
#define GA_SHUFFLED GA_WARP_SIZE
#define ga_shuffle_down(x, by) ga_shuffle(x, by)

__device__ static inline ga_uint ga_shuffle_word(ga_uint x, ga_uint by)
{
    const ga_uint threads = blockDim.x * blockDim.y * blockDim.z;
    return __shfl_down_sync(threads < GA_WARP_SIZE ? (1u << threads) - 1 : 0xffffffffu, x, by);
}

template <typename T> __device__ static inline T ga_shuffle(T x, ga_uint by)
{
    union {
        T value;
        ga_uint words[(sizeof(T) + 3) / 4];
    } from, to;
    from.value = x;
    GA_UNROLL
    for (ga_uint i = 0; i < (sizeof(T) + 3) / 4; ++i)
        to.words[i] = ga_shuffle_word(from.words[i], by);
    return to.value;
}

#define load_half(p) ga_half2float(*(p))
#define store_half(p, x) (*(p) = ga_float2half(x))

/* Atomic functions: atom_add_<type><memory>(address, value), and atom_xchg_.... The type letter is i, I, l, L, f, d
 * or e (half), as in Python's `struct`; the memory letter is g(lobal) or l(ocal). All return the old value. */
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
        seen =
            atomicCAS((ga_ulong *)p, before, (ga_ulong)__double_as_longlong(x + __longlong_as_double((ga_long)before)));
    } while (seen != before);
    return __longlong_as_double((ga_long)before);
#endif
}

/* Return the aligned 4-byte word that contains a half, and the bit position of the half in it (*shift). */
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
#define atom_cas_Lg(p, expected, x) atomicCAS((ga_ulong *)(p), (ga_ulong)(expected), (ga_ulong)(x))
#define GA_HAS_LONG_ATOMICS
#define atom_xchg_eg(p, x) ga_atomic_xchg((ga_half *)(p), x)
#define atom_xchg_il(p, x) atom_xchg_ig(p, x)
#define atom_xchg_Il(p, x) atom_xchg_Ig(p, x)
#define atom_xchg_ll(p, x) atom_xchg_lg(p, x)
#define atom_xchg_Ll(p, x) atom_xchg_Lg(p, x)
#define atom_xchg_fl(p, x) atom_xchg_fg(p, x)
#define atom_xchg_dl(p, x) atom_xchg_dg(p, x)
#define atom_xchg_el(p, x) atom_xchg_eg(p, x)
#endif

/* The kernel's own source follows; its line numbers begin at 1. */
#line 1
