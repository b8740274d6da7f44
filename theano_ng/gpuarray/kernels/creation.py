"""Device code of matrices with ones on or below a diagonal."""

from theano_ng.gpuarray.kernels import snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample


def diagonal_matrix(dtype, condition, context):
    """Return the kernel of `GpuEye` and `GpuTri`.

    Parameters
    ----------
    dtype : str
    condition : str
        A C expression in ``row``, ``column`` and ``diagonal`` that is true where the matrix has ones.
    context : GpuContext or None
    """
    source = """
KERNEL void KERNEL_NAME(GLOBAL_MEM char *z, ga_size z_at, ga_size n, ga_size columns, ga_ssize diagonal)
{
    %(every)s {
        ga_size rest = i;
        ga_ssize column = (ga_ssize)ga_split(&rest, columns), row = (ga_ssize)rest;
        %(store)s
    }
}
""" % dict(
        every=snippets.GRID_STRIDE_LOOP,
        store=snippets.store(dtype, "z + z_at + i * sizeof(%s)" % snippets.element(dtype), "(%s) ? 1 : 0" % condition),
    )
    return DeviceKernel(
        source, ("*", snippets.SIZE, snippets.SIZE, snippets.SIZE, snippets.SSIZE), context, flags_of(dtype)
    )


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    conditions = ("column == row + diagonal", "column <= row + diagonal")
    kernels = [
        diagonal_matrix(dtype, condition, None)
        for dtype in snippets.TYPES
        for condition in conditions
        if dtype != "complex64"
    ]
    return [sample("diagonal_matrix", kernels)]
