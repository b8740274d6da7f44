"""Kernels that copy image patches (windows) to the rows of a matrix, and that add rows to patches."""

from theano_ng.gpuarray.kernels import snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample
from theano_ng.gpuarray.kernels.snippets import SIZE, SSIZE

# The windows along one dimension of the images, as in native/neighbours.c: the length of an image, the length of a
# window, the distance between windows, the number of windows, and the position of the first window.
_LINE = """ga_ssize %(line)s_size, ga_ssize %(line)s_neib, ga_ssize %(line)s_step, ga_ssize %(line)s_grid,
    ga_ssize %(line)s_first"""
_LINE_TYPES = (SSIZE,) * 5

# On processors a thread copies one row of a window, and on GPUs one element.
_COPY = """
KERNEL void KERNEL_NAME(GLOBAL_MEM char *z, ga_size z_at, GLOBAL_MEM const char *x, ga_size x_at, ga_size n, ga_size channels,
    ga_ssize stride0, ga_ssize stride1, ga_ssize stride2, ga_ssize stride3, %(y)s, %(x)s, ga_uint wraps)
{
#ifdef GA_PROCESSOR
    const ga_size together = (ga_size)x_neib;
#else
    const ga_size together = 1;
#endif
    for (ga_size i = ((ga_size)GID_0 * LDIM_0 + LID_0) * together; i < n; i += (ga_size)LDIM_0 * GDIM_0 * together) {
        ga_size rest = i;
        ga_ssize column = (ga_ssize)ga_split(&rest, (ga_size)x_neib), row = (ga_ssize)ga_split(&rest, (ga_size)y_neib);
        column += x_first + (ga_ssize)ga_split(&rest, (ga_size)x_grid) * x_step;
        row += y_first + (ga_ssize)ga_split(&rest, (ga_size)y_grid) * y_step;
        const ga_ssize channel = (ga_ssize)ga_split(&rest, channels);
        if (wraps)
            row += row < 0 ? y_size : row >= y_size ? -y_size : 0;
        GLOBAL_MEM const char *from = x + x_at + (ga_ssize)rest * stride0 + channel * stride1 + row * stride2;
        GLOBAL_MEM %(type)s *to = (GLOBAL_MEM %(type)s *)(z + z_at) + i;
        for (ga_size k = 0; k < together; ++k, ++column) {
            const ga_ssize at = !wraps ? column : column < 0 ? column + x_size : column >= x_size ? column - x_size : column;
            to[k] = row >= 0 && row < y_size && at >= 0 && at < x_size ? *(GLOBAL_MEM const %(type)s *)(from + at * stride3) : 0;
        }
    }
}
"""

# A thread sums the elements that belong to a pixel, always in the same order. If windows wrap around, a pixel is also
# at the positions one image length before and behind it. The next window begins in the next row of x, where the pixel is
# x_step elements further left.
_SUM = """
KERNEL void KERNEL_NAME(GLOBAL_MEM char *z, ga_size z_at, GLOBAL_MEM const char *x, ga_size x_at, ga_size n,
    ga_ssize stride0, ga_ssize stride1, %(y)s, %(x)s, ga_int wraps)
{
    %(every)s {
        ga_size rest = i;
        const ga_ssize column = (ga_ssize)ga_split(&rest, (ga_size)x_size), row = (ga_ssize)ga_split(&rest, (ga_size)y_size);
        %(number)s sum = 0;
        for (ga_int above = -wraps; above <= wraps; ++above)
            for (ga_int before = -wraps; before <= wraps; ++before) {
                const ga_ssize top = row + above * y_size - y_first, left = column + before * x_size - x_first;
                const ga_ssize first = left < x_neib ? 0 : (left - x_neib) / x_step + 1;
                for (ga_ssize k = top < y_neib ? 0 : (top - y_neib) / y_step + 1; k < y_grid && k * y_step <= top; ++k) {
                    GLOBAL_MEM const char *from = x + x_at + (((ga_ssize)rest * y_grid + k) * x_grid + first) * stride0
                        + ((top - k * y_step) * x_neib + left - first * x_step) * stride1;
                    for (ga_ssize l = first; l < x_grid && l * x_step <= left; ++l, from += stride0 - x_step * stride1)
                        sum = (%(number)s)(sum %(plus)s %(load)s);
                }
            }
        %(store)s
    }
}
"""


def images2neibs(dtype, context):
    """Return the kernel of `GpuImages2Neibs`, which copies elements of this dtype."""
    kind = snippets.bits(dtype)
    source = _COPY % dict(y=_LINE % dict(line="y"), x=_LINE % dict(line="x"), type=snippets.element(kind))
    types = ("*", SIZE, "*", SIZE, SIZE, SIZE, *(SSIZE,) * 4, *_LINE_TYPES, *_LINE_TYPES, "uint32")
    return DeviceKernel(source, types, context, flags_of(kind))


def neibs_sum(dtype, context):
    """Return the kernel of `GpuImages2NeibsGrad`.

    Parameters
    ----------
    dtype : str
        Not complex. Sums of float16 are float32, and sums of bool are logical or.
    context : GpuContext or None
    """
    source = _SUM % dict(
        y=_LINE % dict(line="y"),
        x=_LINE % dict(line="x"),
        every=snippets.GRID_STRIDE_LOOP,
        number=snippets.number(dtype),
        plus="||" if dtype == "bool" else "+",
        load=snippets.load(dtype, "from"),
        store=snippets.store(dtype, "z + z_at + i * sizeof(%s)" % snippets.element(dtype), "sum"),
    )
    types = ("*", SIZE, "*", SIZE, SIZE, SSIZE, SSIZE, *_LINE_TYPES, *_LINE_TYPES, "int32")
    return DeviceKernel(source, types, context, flags_of(dtype))


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    copies = [images2neibs(dtype, None) for dtype in ("int8", "float16", "float32", "float64")]
    sums = [neibs_sum(dtype, None) for dtype in snippets.TYPES if not dtype.startswith("complex")]
    return [sample("images2neibs", copies), sample("neibs_sum", sums)]
