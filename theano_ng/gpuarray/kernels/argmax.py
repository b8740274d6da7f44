"""Device code that computes maxima and the indices of the maxima."""

import itertools

from theano_ng.gpuarray.kernels import snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample
from theano_ng.gpuarray.kernels.snippets import SIZE

# The maximum number of threads in a group that finds one maximum together.
GROUP = 256

_PARAMETERS = """
KERNEL void KERNEL_NAME(GLOBAL_MEM char *z, ga_size z_at, GLOBAL_MEM ga_long *places, ga_size places_at, GLOBAL_MEM const char *x, ga_size x_at, ga_size n,
    ga_size length%(kept)s%(reduced)s)
"""

_BEGIN = """
        ga_size rest = i, k, j;
        GLOBAL_MEM const char *f = x + x_at, *g;
        %(number)s best = 0, value;
        ga_size place = length;
        %(walk_kept)s
"""

_THREAD_PER_LINE = (
    _PARAMETERS
    + """
{
    %(every)s {"""
    + _BEGIN
    + """
        for (j = 0; j < length; ++j) {
            g = f;
            rest = j;
            %(walk_reduced)s
            value = %(load)s;
            if (place == length || value > best%(or_nan)s) {
                best = value;
                place = j;
            }
        }
        %(store)s
    }
}
"""
)

# NaN counts as larger than all numbers. Among equal values, the first is chosen. Therefore the result does not depend
# on the order in which threads compare values.
_GROUP_PER_LINE = (
    _PARAMETERS
    + """
{
    LOCAL_MEM %(number)s values[%(group)d];
    LOCAL_MEM ga_size where[%(group)d];
    for (ga_size i = GID_0; i < n; i += GDIM_0) {"""
    + _BEGIN
    + """
        for (j = LID_0; j < length; j += LDIM_0) {
            g = f;
            rest = j;
            %(walk_reduced)s
            value = %(load)s;
            if (place == length || value > best%(or_nan)s) {
                best = value;
                place = j;
            }
        }
        values[LID_0] = best;
        where[LID_0] = place;
        local_barrier();
        for (ga_uint half_of = %(group)d / 2; half_of > 0; half_of /= 2) {
            if (LID_0 < half_of && LID_0 + half_of < LDIM_0 && where[LID_0 + half_of] < length) {
                value = values[LID_0 + half_of];
                j = where[LID_0 + half_of];
                if (place == length || value > best%(or_nan)s || ((value == best%(both_nan)s) && j < place)) {
                    best = value;
                    place = j;
                    values[LID_0] = best;
                    where[LID_0] = place;
                }
            }
            local_barrier();
        }
        if (LID_0 == 0) {
            %(store)s
        }
        local_barrier();
    }
}
"""
)


def max_and_argmax(dtype, kept, reduced, grouped, context):
    """Return the kernel of `GpuMaxAndArgmax`.

    Parameters
    ----------
    dtype : str
    kept, reduced : int
        Numbers of axes that are kept and reduced.
    grouped : bool
        If True, a group of threads finds one maximum together. Otherwise each thread finds one maximum.
    context : GpuContext or None
    """
    first, types = snippets.axes("d", kept, ("x",))
    second, more = snippets.axes("r", reduced, ("x",))
    floating = dtype.startswith("float")
    source = (_GROUP_PER_LINE if grouped else _THREAD_PER_LINE) % dict(
        kept=first,
        reduced=second,
        every=snippets.GRID_STRIDE_LOOP,
        number=snippets.number(dtype),
        group=GROUP,
        or_nan=" || (value != value && best == best)" if floating else "",
        both_nan=" || (value != value && best != best)" if floating else "",
        walk_kept=snippets.walk("d", kept, {"x": "f"}, True),
        walk_reduced=snippets.walk("r", reduced, {"x": "g"}, True),
        load=snippets.load(dtype, "g"),
        store=snippets.store(dtype, "z + z_at + i * sizeof(%s)" % snippets.element(dtype), "best")
        + " ((GLOBAL_MEM ga_long *)((GLOBAL_MEM char *)places + places_at))[i] = (ga_long)place;",
    )
    return DeviceKernel(source, ("*", SIZE, "*", SIZE, "*", SIZE, SIZE, SIZE, *types, *more), context, flags_of(dtype))


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    cases = itertools.product(("float32", "float16", "float64", "bool", "uint64"), (False, True))
    return [sample("max_and_argmax", [max_and_argmax(dtype, 2, 2, grouped, None) for dtype, grouped in cases])]
