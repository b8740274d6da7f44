"""Kernels that draw categories from probabilities and uniform numbers; see `sandbox.multinomial`.

The cumulative sums of a row are computed in the order and in the precision of the Op on the host, so the results are
equal to the last bit. Therefore one thread computes the sums of a trial.
"""

import itertools

from theano_ng.gpuarray.fp16_help import work_dtype
from theano_ng.gpuarray.kernels import snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample
from theano_ng.gpuarray.kernels.snippets import SIZE, SSIZE

FLOATS = ("float16", "float32", "float64")

# The parameters of both kernels. Trial k of row r uses the uniform number k * rows + r.
_PARAMETERS = """
KERNEL void KERNEL_NAME(GLOBAL_MEM const char *p, ga_size p_at, ga_ssize p_row, ga_ssize p_column, ga_size rows, ga_size columns,
                        GLOBAL_MEM const char *u, ga_size u_at, ga_ssize u_step, ga_size trials, GLOBAL_MEM char *z, ga_size z_at%s)
{
    p += p_at;
    u += u_at;
    z += z_at;
"""
_TYPES = ("*", SIZE, SSIZE, SSIZE, SIZE, SIZE, "*", SIZE, SSIZE, SIZE, "*", SIZE)

# Find the first category at which the cumulative sum exceeds the number. `found` is -1 if there is no such category.
_FIND = """
        const %(uniform)s number = %(load_uniform)s;
        %(work)s sum = 0;
        ga_ssize found = -1;
        for (ga_size m = 0; m < columns; ++m) {
            sum += %(load)s;
            if (sum > number) {
                found = (ga_ssize)m;
                break;
            }
        }
"""

_WITH_REPLACEMENT = (
    _PARAMETERS % ""
    + """
    const ga_size n = rows * trials;
    %(every)s {
        ga_size k = i;
        const ga_size r = ga_split(&k, rows);
"""
    + _FIND
    + """
        %(result)s
    }
}
"""
)

# Each thread draws all categories of a row. It keeps the remaining probabilities of the row in `left`. On GPUs, the rows
# are the fastest axis of `left`, so that threads read adjacent elements together.
_WITHOUT_REPLACEMENT = (
    """
#ifdef GA_PROCESSOR
#define KERNEL_NAME_LEFT(m) left[r * columns + (m)]
#else
#define KERNEL_NAME_LEFT(m) left[(m) * rows + r]
#endif
"""
    + _PARAMETERS % ", GLOBAL_MEM %(work)s *left"
    + """
    const ga_size n = rows;
    %(every)s {
        const ga_size r = i;
        for (ga_size m = 0; m < columns; ++m)
            KERNEL_NAME_LEFT(m) = %(load_row)s;
        for (ga_size k = 0; k < trials; ++k) {
"""
    + _FIND
    + """
            %(result)s
            if (found < 0 || k + 1 == trials)
                continue;
            KERNEL_NAME_LEFT((ga_size)found) = 0;
            sum = 0;
            for (ga_size m = 0; m < columns; ++m)
                sum += KERNEL_NAME_LEFT(m);
            for (ga_size m = 0; m < columns; ++m)
                KERNEL_NAME_LEFT(m) /= sum;
        }
    }
}
"""
)

_COUNT = """if (found >= 0)
            atom_add_lg((GLOBAL_MEM ga_long *)z + r * columns + found, 1);"""


def _words(dtype, uniform_dtype):
    """Return the words of the source code that depend only on the dtypes of the inputs."""
    return dict(
        every=snippets.GRID_STRIDE_LOOP,
        work=snippets.number(dtype),
        uniform=snippets.number(uniform_dtype),
        load_uniform=snippets.load(uniform_dtype, "u + (ga_ssize)(k * rows + r) * u_step"),
        load_row=snippets.load(dtype, "p + (ga_ssize)r * p_row + (ga_ssize)m * p_column"),
    )


def counts(dtype, uniform_dtype, context):
    """Return the kernel that counts how often each category is drawn. It adds to int64 counts in C order.

    Parameters
    ----------
    dtype, uniform_dtype : str
        Dtypes of the probabilities and of the uniform numbers, of `FLOATS`.
    context : GpuContext or None
    """
    words = _words(dtype, uniform_dtype)
    source = _WITH_REPLACEMENT % {**words, "load": words["load_row"], "result": _COUNT}
    return DeviceKernel(source, _TYPES, context, flags_of(dtype, uniform_dtype))


def choices(dtype, uniform_dtype, out_dtype, replace, context):
    """Return the kernel that stores the category of each trial, in C order.

    Parameters
    ----------
    dtype, uniform_dtype : str
        See `counts`.
    out_dtype : str
        The dtype of the result.
    replace : bool
        If False, a category is drawn at most once. Then the kernel needs memory for the remaining probabilities: an
        element of the dtype `work_dtype(dtype)` for each element of the matrix.
    context : GpuContext or None
    """
    at = "z + (r * trials + k) * sizeof(%s)" % snippets.element(out_dtype)
    words = _words(dtype, uniform_dtype)
    words["load"] = words["load_row"] if replace else "KERNEL_NAME_LEFT(m)"
    words["result"] = snippets.store(out_dtype, at, "found != 0" if out_dtype == "bool" else "found")
    source = (_WITH_REPLACEMENT if replace else _WITHOUT_REPLACEMENT) % words
    flags = flags_of(dtype, work_dtype(dtype), uniform_dtype, out_dtype)
    return DeviceKernel(source, _TYPES if replace else (*_TYPES, "*"), context, flags)


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    pairs = [("float32", "float32"), ("float16", "float64"), ("float64", "float16")]
    kernels = [counts(*pair, None) for pair in pairs]
    outputs = itertools.cycle(("int64", "bool", "float16", "uint8"))
    kernels += [
        choices(*pair, next(outputs), replace, None) for pair, replace in itertools.product(pairs, (False, True))
    ]
    return [sample("multinomial", kernels)]
