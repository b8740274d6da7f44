"""Device code of cumulative sums and products."""

import itertools
import re

from theano_ng.gpuarray.kernels import snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample
from theano_ng.gpuarray.kernels.snippets import SIZE, SSIZE

# The maximum number of threads in a group that processes one line (a 1-d slice along the axis) together, and the number
# of elements that such a thread processes at a time
GROUP, WIDTH = 256, 8

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

_PIECE = """
    const ga_size begin = (ga_size)GID_1 * piece, end = begin + piece < length ? begin + piece : length;
    for (ga_size i = GID_0; i < n; i += GDIM_0) {
        ga_size rest = i, k;
        GLOBAL_MEM const char *f = x + x_at;"""

# Group (i, k) computes the sum of piece k of the lines i, i + GDIM_0, ...
_SUM_OF_PIECE = (
    """
KERNEL void GA_ROOM_FOR(4, %(group)d) KERNEL_NAME(GLOBAL_MEM %(number)s *sums, GLOBAL_MEM const char *x, ga_size x_at, ga_size n, ga_size length, ga_size piece,
    ga_ssize x_step%(declared)s)
{
    LOCAL_MEM %(number)s of_threads[%(group)d];"""
    + _PIECE
    + """
        %(number)s sum = %(neutral)s;
        %(walk)s
        for (ga_size first = begin + LID_0; first < end; first += %(width)d * LDIM_0) {
            /* Load several elements before the first of them is used. */
            %(number)s some[%(width)d];
            GA_UNROLL
            for (ga_uint m = 0; m < %(width)d; ++m) {
                k = first + m * LDIM_0;
                some[m] = k < end ? (%(number)s)(%(load_k)s) : %(neutral)s;
            }
            GA_UNROLL
            for (ga_uint m = 0; m < %(width)d; ++m)
                sum = (%(number)s)(sum %(op)s some[m]);
        }
        %(add_up)s
        if (LID_0 == 0)
            sums[i * GDIM_1 + GID_1] = sum;
        local_barrier();
    }
}
"""
)

# Replace `sum` in thread 0 by the sum over all threads of the group.
_ADD_UP = """
        of_threads[LID_0] = sum;
        local_barrier();
        for (ga_uint half_of = %(group)d / 2; half_of > 0; half_of /= 2) {
            if (LID_0 < half_of && LID_0 + half_of < LDIM_0)
                of_threads[LID_0] = sum = (%(number)s)(sum %(op)s of_threads[LID_0 + half_of]);
            local_barrier();
        }"""

# Group (i, k) processes piece k of the lines i, i + GDIM_0, ... in tiles of `WIDTH` elements per thread. If there are
# several pieces, it begins with the sum of the preceding pieces.
#
# A tile is in local memory, so that adjacent threads load and store adjacent elements, while each thread sums adjacent
# elements. `of_threads` holds the sums of the threads twice: each step of the scan reads one half and writes the other. After
# the scan, place t contains the sum of the threads 0, ..., t.
_GROUP_PER_PIECE = (
    """
KERNEL void GA_ROOM_FOR(4, %(group)d) KERNEL_NAME(GLOBAL_MEM char *z, ga_size z_at, GLOBAL_MEM const %(number)s *sums_before, GLOBAL_MEM const char *x, ga_size x_at, ga_size n,
    ga_size length, ga_size piece, ga_ssize z_step, ga_ssize x_step%(declared)s)
{
    LOCAL_MEM %(number)s of_threads[2 * %(group)d], tile[%(tile)d];"""
    + _PIECE
    + """
        GLOBAL_MEM char *t = z + z_at;
        %(number)s before, sum = %(neutral)s;
        %(walk)s
        for (k = LID_0; k < GID_1; k += LDIM_0)
            sum = (%(number)s)(sum %(op)s sums_before[i * GDIM_1 + k]);
        %(add_up)s
        before = of_threads[0];
        for (ga_size at = begin; at < end; at += %(width)d * LDIM_0) {
            %(number)s some[%(width)d];
            GA_UNROLL
            for (ga_uint m = 0; m < %(width)d; ++m) {
                k = at + m * LDIM_0 + LID_0;
                some[m] = k < end ? (%(number)s)(%(load_k)s) : %(neutral)s;
            }
            local_barrier();
            GA_UNROLL
            for (ga_uint m = 0; m < %(width)d; ++m)
                tile[PLACE(m * LDIM_0 + LID_0)] = some[m];
            local_barrier();
            some[0] = tile[PLACE(LID_0 * %(width)d)];
            GA_UNROLL
            for (ga_uint m = 1; m < %(width)d; ++m)
                some[m] = (%(number)s)(some[m - 1] %(op)s tile[PLACE(LID_0 * %(width)d + m)]);
            sum = some[%(width)d - 1];
            of_threads[LID_0] = sum;
            ga_uint half_at = 0;
            for (ga_uint by = 1; by < LDIM_0; by *= 2) {
                local_barrier();
                if (LID_0 >= by)
                    sum = (%(number)s)(of_threads[half_at + LID_0 - by] %(op)s sum);
                half_at = %(group)d - half_at;
                of_threads[half_at + LID_0] = sum;
            }
            local_barrier();
            sum = LID_0 == 0 ? before : (%(number)s)(before %(op)s of_threads[half_at + LID_0 - 1]);
            before = (%(number)s)(before %(op)s of_threads[half_at + LDIM_0 - 1]);
            GA_UNROLL
            for (ga_uint m = 0; m < %(width)d; ++m)
                tile[PLACE(LID_0 * %(width)d + m)] = (%(number)s)(sum %(op)s some[m]);
            local_barrier();
            GA_UNROLL
            for (ga_uint m = 0; m < %(width)d; ++m) {
                k = at + m * LDIM_0 + LID_0;
                if (k < end) {
                    sum = tile[PLACE(m * LDIM_0 + LID_0)];
                    %(store_k)s
                }
            }
        }
        local_barrier();
    }
}
"""
)


def cumulation(dtype_in, dtype, product, axes, how, context):
    """Return a kernel of `GpuCumOp`.

    Parameters
    ----------
    dtype_in, dtype : str
        Dtypes of the elements of the input and of the result.
    product : bool
    axes : int
        Number of axes, not counting the axis along which elements are accumulated.
    how : {"threads", "groups", "sums"}
        "threads": each thread processes one line. "groups": a group of threads processes one line, or a piece of a line.
        In the latter case, an argument of the kernel contains the sums of the pieces, which the kernel "sums" computes.
    context : GpuContext or None
    """
    operands = ("x",) if how == "sums" else ("z", "x")
    declared, types = snippets.axes("d", axes, operands)
    op, neutral = ("*", 1) if product else ("+", 0)
    words = dict(
        declared=declared,
        every=snippets.GRID_STRIDE_LOOP,
        number=snippets.number(dtype),
        neutral=neutral,
        op=op,
        group=GROUP,
        width=WIDTH,
        tile=_place(GROUP * WIDTH),
        walk=snippets.walk("d", axes, {"x": "f"} if how == "sums" else {"z": "t", "x": "f"}, True),
        load=snippets.load(dtype_in, "f"),
        store=snippets.store(dtype, "t", "sum"),
        load_k=snippets.load(dtype_in, "f + (ga_ssize)k * x_step"),
        store_k=snippets.store(dtype, "t + (ga_ssize)k * z_step", "sum"),
    )
    words["add_up"] = _ADD_UP % words
    text, kinds = {
        "threads": (_THREAD_PER_LINE, ("*", SIZE, "*", SIZE, SIZE, SIZE, SSIZE, SSIZE)),
        "sums": (_SUM_OF_PIECE, ("*", "*", SIZE, SIZE, SIZE, SIZE, SSIZE)),
        "groups": (_GROUP_PER_PIECE, ("*", SIZE, "*", "*", SIZE, SIZE, SIZE, SIZE, SSIZE, SSIZE)),
    }[how]
    source = re.sub(r"PLACE\(([^()]*)\)", r"(\1) + (\1) / 32", text % words)
    return DeviceKernel(source, (*kinds, *types), context, flags_of(dtype_in, dtype))


def _place(element):
    """Return the place of an element of a tile in local memory: one place is left out after each 32 elements. So threads
    that access every eighth element access different banks of local memory. In texts, ``PLACE(e)`` is this place.
    """
    return element + element // 32


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    pairs = [
        ("float32", "float32"),
        ("float16", "float16"),
        ("bool", "int64"),
        ("int8", "int8"),
        ("float64", "float64"),
    ]
    cases = itertools.product(pairs, (False, True), ("threads", "groups", "sums"))
    return [sample("cumulation", [cumulation(*pair, product, 2, how, None) for pair, product, how in cases])]
