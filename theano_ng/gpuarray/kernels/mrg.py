"""The kernel of uniform random numbers of the generator MRG31k3p; see `sandbox.mrg31k3p`."""

from theano_ng.gpuarray.kernels import snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample
from theano_ng.gpuarray.kernels.snippets import SIZE, SSIZE

DTYPES = ("float16", "float32", "float64")

# A random integer z, from 1 to 2^31 - 1, as a number in (0, 1): the factors of `mrg31k3p.numbers`.
_NUMBERS = {
    "float16": "(ga_float)((z & 32767u) + 1u) * (511.0f / 16777216.0f)",
    "float32": "(ga_float)z * 4.6566126e-10f",
    "float64": "(ga_double)z * (1.0 / 2147483648.0)",
}

# A thread advances the streams of a block together: on processors so many that the compiler can use vectors, and on GPUs
# one. Element i of the sample is drawn from stream i modulo the number of streams.
_SOURCE = """
#ifdef GA_PROCESSOR
#define KERNEL_NAME_LANES 16
#else
#define KERNEL_NAME_LANES 1
#endif
KERNEL void KERNEL_NAME(GLOBAL_MEM char *states, ga_size states_at, ga_ssize row, ga_ssize column, ga_size streams,
                        GLOBAL_MEM char *out, ga_size out_at, ga_size total)
{
    const ga_uint m1 = 2147483647u, m2 = 2147462579u;
    const ga_size active = streams < total ? streams : total;
    for (ga_size begin = ((ga_size)GID_0 * LDIM_0 + LID_0) * KERNEL_NAME_LANES; begin < active;
         begin += (ga_size)GDIM_0 * LDIM_0 * KERNEL_NAME_LANES) {
        const int count = active - begin < KERNEL_NAME_LANES ? (int)(active - begin) : KERNEL_NAME_LANES;
        ga_uint s[6][KERNEL_NAME_LANES], n[6][KERNEL_NAME_LANES];
        for (int l = 0; l < KERNEL_NAME_LANES; ++l)
            for (int k = 0; k < 6; ++k)
                s[k][l] = l < count ? *(GLOBAL_MEM ga_uint *)(states + states_at + (ga_ssize)(begin + l) * row + k * column) : 1u;
        for (ga_size first = begin; first < total; first += streams) {
            const int here = total - first < (ga_size)count ? (int)(total - first) : count;
            for (int l = 0; l < KERNEL_NAME_LANES; ++l) {
                ga_uint x = ((s[1][l] & 511u) << 22) + (s[1][l] >> 9) + ((s[2][l] & 16777215u) << 7) + (s[2][l] >> 24);
                x = x >= m1 ? x - m1 : x;
                x += s[2][l];
                x = x >= m1 ? x - m1 : x;
                ga_uint y = ((s[3][l] & 65535u) << 15) + 21069u * (s[3][l] >> 16);
                y = y >= m2 ? y - m2 : y;
                ga_uint w = ((s[5][l] & 65535u) << 15) + 21069u * (s[5][l] >> 16);
                w = w >= m2 ? w - m2 : w;
                w += s[5][l];
                w = w >= m2 ? w - m2 : w;
                y += w;
                y = y >= m2 ? y - m2 : y;
                n[0][l] = x;
                n[1][l] = s[0][l];
                n[2][l] = s[1][l];
                n[3][l] = y;
                n[4][l] = s[3][l];
                n[5][l] = s[4][l];
            }
            for (int l = 0; l < here; ++l) {
                for (int k = 0; k < 6; ++k)
                    s[k][l] = n[k][l];
                const ga_uint z = s[0][l] <= s[3][l] ? s[0][l] - s[3][l] + m1 : s[0][l] - s[3][l];
                %(store)s
            }
        }
        for (int l = 0; l < count; ++l)
            for (int k = 0; k < 6; ++k)
                *(GLOBAL_MEM ga_uint *)(states + states_at + (ga_ssize)(begin + l) * row + k * column) = s[k][l];
    }
}
"""


def mrg_uniform(dtype, context):
    """Return the kernel that draws a sample and overwrites the states of the streams.

    Parameters
    ----------
    dtype : str
        One of `DTYPES`.
    context : GpuContext or None
    """
    at = "out + out_at + (first + l) * sizeof(%s)" % snippets.element(dtype)
    source = _SOURCE % dict(store=snippets.store(dtype, at, _NUMBERS[dtype]))
    types = ("*", SIZE, SSIZE, SSIZE, SIZE, "*", SIZE, SIZE)
    return DeviceKernel(source, types, context, flags_of(dtype))


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    return [sample("mrg_uniform", [mrg_uniform(dtype, None) for dtype in DTYPES])]
