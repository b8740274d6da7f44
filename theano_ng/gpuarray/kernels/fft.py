"""Device code that prepares the inputs of inverse Fourier transforms to real arrays."""

from theano_ng.gpuarray.kernels import snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample

DTYPES = ("float32", "float64")


def symmetrize(dtype, rank, context):
    """Return the kernel that makes transforms of real arrays conjugate-symmetric.

    An array with the axes (batch, k_1, ..., k_rank) contains pairs. A transform of a real array has conjugate pairs at the
    indices k and -k. Of the last axis, only the first half is stored. So the condition concerns the stored elements at the
    index 0 of this axis, and at the last index if the length of the real array is even. The kernel replaces the pairs of
    these elements by their means: inverse transforms that assume the symmetry may use either of them.

    Its arguments are the array, which is contiguous; the number of elements that are processed; the number of processed
    indices of the last axis (1 or 2); the stored length of the last axis, in pairs; and the lengths of the other axes.
    """
    lengths = "".join(", ga_size d%d" % axis for axis in range(rank - 1))
    # The index of the element, and of the element with the opposite indices, in the array without its last axis
    walk = "\n".join(
        "        k = ga_split(&rest, d%d); place += k * step; other += (k ? d%d - k : 0) * step; step *= d%d;"
        % ((axis,) * 3)
        for axis in reversed(range(rank - 1))
    )
    source = """
KERNEL void KERNEL_NAME(GLOBAL_MEM char *x, ga_size x_at, ga_size n, ga_size ends, ga_size stored%(lengths)s)
{
    %(every)s {
        ga_size rest = i, k, step = 1, place = 0, other = 0;
        const ga_size last = ga_split(&rest, ends) ? stored - 1 : 0;
%(walk)s
        if (place <= other) {
            k = rest * step;
            GLOBAL_MEM %(type)s *a = (GLOBAL_MEM %(type)s *)(x + x_at) + 2 * ((k + place) * stored + last);
            GLOBAL_MEM %(type)s *b = (GLOBAL_MEM %(type)s *)(x + x_at) + 2 * ((k + other) * stored + last);
            const %(type)s re = a[0] / 2 + b[0] / 2, im = a[1] / 2 - b[1] / 2;
            a[0] = b[0] = re;
            a[1] = im;
            b[1] = -im;
            if (place == other)
                a[1] = 0;
        }
    }
}
""" % dict(lengths=lengths, walk=walk, every=snippets.GRID_STRIDE_LOOP, type=snippets.element(dtype))
    types = ("*",) + (snippets.SIZE,) * (3 + rank)
    return DeviceKernel(source, types, context, flags_of(dtype))


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    return [
        sample("symmetrize, %s" % dtype, [symmetrize(dtype, rank, None) for rank in range(1, 5)]) for dtype in DTYPES
    ]
