"""Device code of cumulative sums and products."""

from theano_ng.gpuarray.kernels import text
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of
from theano_ng.gpuarray.kernels.samples import sample
from theano_ng.gpuarray.kernels.text import SIZE, SSIZE

# Most threads of a group that share a line.
GROUP = 256

_LINES = """
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

# Every thread has a piece of the line: it sums that up, adds up what the threads before it have found, and goes through its piece again.
_GROUPS = """
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
    """The kernel of `GpuCumOp`.

    Parameters
    ----------
    dtype_in, dtype : str
        Of the elements that are read, and of sums.
    product : bool
    axes : int
        Beside the one along which is summed.
    grouped : bool
        A group of threads does a line together, otherwise a thread a line.
    context : GpuContext or None
    """
    declared, types = text.axes("d", axes, ("z", "x"))
    op, neutral = ("*", 1) if product else ("+", 0)
    source = (_GROUPS if grouped else _LINES) % dict(
        declared=declared,
        every=text.EVERY,
        number=text.number(dtype),
        neutral=neutral,
        op=op,
        group=GROUP,
        walk=text.walk("d", axes, {"z": "t", "x": "f"}, True),
        load=text.load(dtype_in, "f"),
        store=text.store(dtype, "t", "sum"),
        load_k=text.load(dtype_in, "f + (ga_ssize)k * x_step"),
        store_k=text.store(dtype, "t + (ga_ssize)k * z_step", "sum"),
    )
    kinds = ("*", SIZE, "*", SIZE, SIZE, SIZE, SSIZE, SSIZE, *types)
    return DeviceKernel(source, kinds, context, flags_of(dtype_in, dtype))


def kernel_samples():
    """Kernels of each kind, for those who check that texts compile."""
    cases = [
        ("float32", "float32"),
        ("float16", "float16"),
        ("bool", "int64"),
        ("int8", "int8"),
        ("float64", "float64"),
    ]
    return [
        sample("cumulation_%s_%d_%d" % (a, product, grouped), cumulation(a, b, product, 2, grouped, None))
        for a, b in cases
        for product in (False, True)
        for grouped in (False, True)
    ]
