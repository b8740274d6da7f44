"""Device code of cumulative sums and products."""

import itertools

from theano_ng.gpuarray.kernels import snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample
from theano_ng.gpuarray.kernels.snippets import SIZE, SSIZE

# The maximum number of threads in a group that processes one line (a 1-d slice along the axis) together.
GROUP = 256

_THREAD_PER_LINE = """
KERNEL void KERNEL_NAME(GLOBAL_MEM char *z, ga_size z_at, GLOBAL_MEM const char *x, ga_size x_at, ga_size n, ga_size length, ga_ssize z_step,
    ga_ssize x_step%(declared)s)
{
    %(every)s {
        ga_size rest = i, k;
        GLOBAL_MEM char *t = z + z_at;
        GLOBAL_MEM const char *f = x + x_at;
        %(number)s sum = %(neutral)s;
        %(walk)s
        for (k = 0; k < length; ++k, t += z_step, f += x_step) {
            sum = (%(number)s)(sum %(op)s (%(number)s)(%(load)s));
            %(store)s
        }
    }
}
"""

# Each thread processes a piece of the line. It sums its piece, adds the sums of the preceding threads, and goes through
# its piece again to write the results.
_GROUP_PER_LINE = """
KERNEL void KERNEL_NAME(GLOBAL_MEM char *z, ga_size z_at, GLOBAL_MEM const char *x, ga_size x_at, ga_size n, ga_size length, ga_ssize z_step,
    ga_ssize x_step%(declared)s)
{
    LOCAL_MEM %(number)s sums[%(group)d];
    ga_size piece = (length + LDIM_0 - 1) / LDIM_0, first = LID_0 * piece, end = first + piece < length ? first + piece : length;
    for (ga_size i = GID_0; i < n; i += GDIM_0) {
        ga_size rest = i, k;
        GLOBAL_MEM char *t = z + z_at;
        GLOBAL_MEM const char *f = x + x_at;
        %(number)s sum = %(neutral)s;
        %(walk)s
        for (k = first; k < end; ++k)
            sum = (%(number)s)(sum %(op)s (%(number)s)(%(load_k)s));
        sums[LID_0] = sum;
        local_barrier();
        sum = %(neutral)s;
        for (k = 0; k < LID_0; ++k)
            sum = (%(number)s)(sum %(op)s sums[k]);
        for (k = first; k < end; ++k) {
            sum = (%(number)s)(sum %(op)s (%(number)s)(%(load_k)s));
            %(store_k)s
        }
        local_barrier();
    }
}
"""


def cumulation(dtype_in, dtype, product, axes, grouped, context):
    """Return the kernel of `GpuCumOp`.

    Parameters
    ----------
    dtype_in, dtype : str
        Dtypes of the elements of the input and of the result.
    product : bool
    axes : int
        Number of axes, not counting the axis along which elements are accumulated.
    grouped : bool
        If True, a group of threads processes one line together. Otherwise each thread processes one line.
    context : GpuContext or None
    """
    declared, types = snippets.axes("d", axes, ("z", "x"))
    op, neutral = ("*", 1) if product else ("+", 0)
    source = (_GROUP_PER_LINE if grouped else _THREAD_PER_LINE) % dict(
        declared=declared,
        every=snippets.GRID_STRIDE_LOOP,
        number=snippets.number(dtype),
        neutral=neutral,
        op=op,
        group=GROUP,
        walk=snippets.walk("d", axes, {"z": "t", "x": "f"}, True),
        load=snippets.load(dtype_in, "f"),
        store=snippets.store(dtype, "t", "sum"),
        load_k=snippets.load(dtype_in, "f + (ga_ssize)k * x_step"),
        store_k=snippets.store(dtype, "t + (ga_ssize)k * z_step", "sum"),
    )
    kinds = ("*", SIZE, "*", SIZE, SIZE, SIZE, SSIZE, SSIZE, *types)
    return DeviceKernel(source, kinds, context, flags_of(dtype_in, dtype))


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    pairs = [
        ("float32", "float32"),
        ("float16", "float16"),
        ("bool", "int64"),
        ("int8", "int8"),
        ("float64", "float64"),
    ]
    cases = itertools.product(pairs, (False, True), (False, True))
    return [sample("cumulation", [cumulation(*pair, product, 2, grouped, None) for pair, product, grouped in cases])]
