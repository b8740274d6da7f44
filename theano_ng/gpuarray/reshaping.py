"""Reshape on devices."""

from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.transfers import as_gpuarray_variable, host_from_gpu, infer_context_name
from theano_ng.gpuarray.twin import TwinOp, on_host
from theano_ng.tensor.shaping.reshaping import Reshape


class GpuReshape(TwinOp, Reshape):
    """Reshape a device array: ``GpuReshape(ndim)(x, shape)``. The result is a view if the memory layout allows it.

    One length in `shape` may be -1. It is computed from the other lengths.

    Parameters
    ----------
    ndim : int
        Number of dimensions of the result.
    name : str, optional
        Unused. It is accepted for old code.

    Raises
    ------
    ValueError
        At run time, if the shape does not fit the number of elements.
    """

    __props__ = ("ndim",)

    def host_op(self, node):
        return Reshape(self.ndim)

    def make_node(self, x, shp):
        context_name = infer_context_name(x)
        x = as_gpuarray_variable(x, context_name)
        if isinstance(shp, (list, tuple)):
            shp = on_host(shp)
        else:
            (shp,) = on_host([shp])
        host = Reshape(self.ndim).make_node(host_from_gpu(x), shp)
        return self.on_device([x, host.inputs[1]], host, context_name)

    def native_code(self, node):
        return NativeCode("theano_ng.gpuarray.native.join:reshape", ndim=self.ndim)
