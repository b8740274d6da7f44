"""Device code of matrices with ones on or below a diagonal."""

from theano_ng.gpuarray.kernels import text
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of
from theano_ng.gpuarray.kernels.samples import sample


def diagonal_matrix(dtype, condition, context):
    """The kernel of `GpuEye` and `GpuTri`.

    Parameters
    ----------
    dtype : str
    condition : str
        Of ``row``, ``column`` and ``diagonal``: where there are ones.
    context : GpuContext or None
    """
    source = """
KERNEL void KERNEL_NAME(GLOBAL_MEM char *z, ga_size z_at, ga_size n, ga_size columns, ga_ssize diagonal)
{
    %(every)s {
        ga_ssize row = (ga_ssize)(i / columns), column = (ga_ssize)(i %% columns);
        %(store)s
    }
}
""" % dict(
        every=text.EVERY,
        store=text.store(dtype, "z + z_at + i * sizeof(%s)" % text.element(dtype), "(%s) ? 1 : 0" % condition),
    )
    return DeviceKernel(source, ("*", text.SIZE, text.SIZE, text.SIZE, text.SSIZE), context, flags_of(dtype))


def kernel_samples():
    """Kernels of each kind, for those who check that texts compile."""
    return [
        sample("eye_float32", diagonal_matrix("float32", "column == row + diagonal", None)),
        sample("tri_float16", diagonal_matrix("float16", "column <= row + diagonal", None)),
    ]
