"""Device code around the routines that factorize matrices: triangles that are cleared, and checks of matrices."""

from theano_ng.gpuarray.kernels import snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample

DTYPES = ("float32", "float64")

# Conditions that `check_diagonal` looks for; the same numbers are in native/linalg.c.
ZERO, NOT_POSITIVE, NOT_A_NUMBER = range(3)

# The number of threads that check a diagonal
GROUP = 256

_SIZES = (snippets.SIZE, snippets.SSIZE, snippets.SSIZE)


def clear_triangle(dtype, context):
    """Return the kernel that sets the elements of a matrix on one side of its diagonal to 0.

    Its arguments are the matrix, its number of elements, its number of columns, the strides of rows and columns in bytes,
    and whether the elements above the diagonal (or those below it) are cleared.
    """
    source = """
KERNEL void KERNEL_NAME(GLOBAL_MEM char *x, ga_size x_at, ga_size n, ga_size columns, ga_ssize row_step,
                        ga_ssize column_step, ga_uint above)
{
    %(every)s {
        ga_size rest = i;
        const ga_size column = ga_split(&rest, columns), row = rest;
        if (above ? column > row : column < row)
            *(GLOBAL_MEM %(type)s *)(x + x_at + (ga_ssize)row * row_step + (ga_ssize)column * column_step) = 0;
    }
}
""" % dict(every=snippets.GRID_STRIDE_LOOP, type=snippets.element(dtype))
    return DeviceKernel(source, ("*", snippets.SIZE, snippets.SIZE, *_SIZES, "uint32"), context, flags_of(dtype))


def check_diagonal(dtype, context):
    """Return the kernel that finds the first element of a vector that is zero, not positive, or NaN.

    One group of threads runs it. Its arguments are the vector, its number of elements, its stride in bytes, the int32 in
    which the result is stored, and the condition. The result is the place of the element, counted from 1, or 0.
    """
    source = """
KERNEL void KERNEL_NAME(GLOBAL_MEM char *x, ga_size x_at, ga_size n, ga_ssize step, GLOBAL_MEM char *found,
                        ga_size found_at, ga_uint condition)
{
    LOCAL_MEM ga_size firsts[%(group)d];
    ga_size first = n;
    for (ga_size i = LID_0; i < n && first == n; i += LDIM_0) {
        const %(type)s value = *(GLOBAL_MEM const %(type)s *)(x + x_at + (ga_ssize)i * step);
        if (condition == %(zero)d ? value == 0 : condition == %(not_positive)d ? !(value > 0) : value != value)
            first = i;
    }
    firsts[LID_0] = first;
    local_barrier();
    if (LID_0 == 0) {
        for (ga_size i = 1; i < LDIM_0; ++i)
            if (firsts[i] < first)
                first = firsts[i];
        *(GLOBAL_MEM ga_int *)(found + found_at) = first < n ? (ga_int)first + 1 : 0;
    }
}
""" % dict(group=GROUP, type=snippets.element(dtype), zero=ZERO, not_positive=NOT_POSITIVE)
    types = "*", snippets.SIZE, snippets.SIZE, snippets.SSIZE, "*", snippets.SIZE, "uint32"
    return DeviceKernel(source, types, context, flags_of(dtype))


def check_symmetry(dtype, context):
    """Return the kernel that stores 1 in an int32 if a square matrix differs from its transpose, or if an element of its
    diagonal is not positive. Otherwise the int32 is not changed.

    Its arguments are the matrix, its number of elements, its number of columns, its strides in bytes, and the int32.
    """
    source = """
KERNEL void KERNEL_NAME(GLOBAL_MEM char *x, ga_size x_at, ga_size n, ga_size columns, ga_ssize row_step,
                        ga_ssize column_step, GLOBAL_MEM char *found, ga_size found_at)
{
    %(every)s {
        ga_size rest = i;
        const ga_ssize column = (ga_ssize)ga_split(&rest, columns), row = (ga_ssize)rest;
        if (column <= row) {
            const %(type)s value = *(GLOBAL_MEM const %(type)s *)(x + x_at + row * row_step + column * column_step);
            const %(type)s other = *(GLOBAL_MEM const %(type)s *)(x + x_at + column * row_step + row * column_step);
            if (column == row ? !(value > 0) : value != other)
                *(GLOBAL_MEM ga_int *)(found + found_at) = 1;
        }
    }
}
""" % dict(every=snippets.GRID_STRIDE_LOOP, type=snippets.element(dtype))
    types = "*", snippets.SIZE, snippets.SIZE, *_SIZES, "*", snippets.SIZE
    return DeviceKernel(source, types, context, flags_of(dtype))


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    return [
        sample(
            "linalg, %s" % dtype, [kernel(dtype, None) for kernel in (clear_triangle, check_diagonal, check_symmetry)]
        )
        for dtype in DTYPES
    ]
