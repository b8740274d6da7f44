"""Device code that computes maxima and the indices of the maxima."""

from theano_ng.gpuarray.kernels import snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample
from theano_ng.gpuarray.kernels.snippets import SIZE

# The maximum number of threads in a group that finds one maximum together.
GROUP = 256
# The number of elements that a thread of a group loads before it uses the first of them
LOADS = 4

_PARAMETERS = """
KERNEL void %(room)sKERNEL_NAME(GLOBAL_MEM char *z, ga_size z_at, GLOBAL_MEM ga_long *places, ga_size places_at, GLOBAL_MEM const char *x, ga_size x_at, ga_size n,
    ga_size length%(more)s%(kept)s%(reduced)s)
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

# Group (i, k) searches piece k of the lines i, i + GDIM_0, ... If there are several pieces, z and places contain the
# results of all pieces, which another launch combines.
#
# NaN counts as larger than all numbers. Among equal values, the first is chosen. Therefore the result does not depend
# on the order in which threads compare values.
_GROUP_PER_PIECE = (
    _PARAMETERS
    + """
{
    LOCAL_MEM %(number)s values[%(group)d];
    LOCAL_MEM ga_size where[%(group)d];
    const ga_size from = (ga_size)GID_1 * piece, to = from + piece < length ? from + piece : length;
    for (ga_size i = GID_0; i < n; i += GDIM_0) {"""
    + _BEGIN
    + """
        for (ga_size first = from + LID_0; first < to; first += %(loads)d * LDIM_0) {
            /* Load several elements before the first of them is used. If fewer are left, load one of them again. */
            %(number)s some[%(loads)d];
            const ga_size left = (to - first - 1) / LDIM_0;
            GA_UNROLL
            for (ga_uint m = 0; m < %(loads)d; ++m) {
                g = f;
                rest = first + (m <= left ? m : 0) * LDIM_0;
                %(walk_reduced)s
                some[m] = %(load)s;
            }
            GA_UNROLL
            for (ga_uint m = 0; m < %(loads)d; ++m) {
                value = some[m];
                if (m <= left && (place == length || value > best%(or_nan)s)) {
                    best = value;
                    place = first + m * LDIM_0;
                }
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
            const ga_size result = i * GDIM_1 + GID_1;
            %(store)s
        }
        local_barrier();
    }
}
"""
)


def max_and_argmax(dtype, kept, reduced, how, context):
    """Return a kernel of `GpuMaxAndArgmax`.

    Parameters
    ----------
    dtype : str
    kept, reduced : int
        Numbers of axes that are kept and reduced.
    how : {"threads", "groups", "parts"}
        "threads": each thread finds one maximum. "groups": a group of threads finds the maximum of a line, or of a piece
        of a line. "parts": as "groups", but the elements are the maxima of pieces, and an argument of the kernel contains
        their indices.
    context : GpuContext or None
    """
    first, types = snippets.axes("d", kept, ("x",))
    second, more = snippets.axes("r", reduced, ("x",))
    floating = dtype.startswith("float")
    result = "i" if how == "threads" else "result"
    place = "found[i * length + place]" if how == "parts" else "(ga_long)place"
    arguments = [", ga_size piece", ", GLOBAL_MEM const ga_long *found"][: ("threads", "groups", "parts").index(how)]
    source = (_THREAD_PER_LINE if how == "threads" else _GROUP_PER_PIECE) % dict(
        kept=first,
        reduced=second,
        more="".join(arguments),
        every=snippets.GRID_STRIDE_LOOP,
        number=snippets.number(dtype),
        group=GROUP,
        room="" if how == "threads" else "GA_ROOM_FOR(4, %d) " % GROUP,
        loads=LOADS,
        or_nan=" || (value != value && best == best)" if floating else "",
        both_nan=" || (value != value && best != best)" if floating else "",
        walk_kept=snippets.walk("d", kept, {"x": "f"}, True),
        walk_reduced=snippets.walk("r", reduced, {"x": "g"}, True),
        load=snippets.load(dtype, "g"),
        store=snippets.store(dtype, "z + z_at + %s * sizeof(%s)" % (result, snippets.element(dtype)), "best")
        + " ((GLOBAL_MEM ga_long *)((GLOBAL_MEM char *)places + places_at))[%s] = %s;" % (result, place),
    )
    kinds = ("*", SIZE, "*", SIZE, "*", SIZE, SIZE, SIZE, *(SIZE, "*")[: len(arguments)], *types, *more)
    return DeviceKernel(source, kinds, context, flags_of(dtype))


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    kernels = []
    for dtype in ("float32", "float16", "float64", "bool", "uint64"):
        kernels += [max_and_argmax(dtype, 2, 2, how, None) for how in ("threads", "groups")]
        kernels.append(max_and_argmax(dtype, 1, 1, "parts", None))
    return [sample("max_and_argmax", kernels)]
