"""Uniform random numbers of MRG31k3p on devices. They equal the numbers that the host draws, to the last bit."""

from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.classic_imports import CLASSIC_IMPORTS
from theano_ng.gpuarray.kernels import mrg
from theano_ng.gpuarray.op import GpuOp
from theano_ng.gpuarray.transfers import as_gpuarray_variable, infer_context_name
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.lazy import lazy_names
from theano_ng.sandbox.rng_mrg import mrg_uniform, mrg_uniform_base
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.elemwise.functions import cast
from theano_ng.tensor.type import TensorType

__all__ = ["GPUA_mrg_uniform"]

# Names that the classic module had, too
__getattr__, __dir__, _ = lazy_names(__name__, {**CLASSIC_IMPORTS, "theano_ng.gpuarray.opt.random": "local_gpua_mrg"})


class GPUA_mrg_uniform(GpuOp, mrg_uniform_base):
    """Draw uniform numbers in (0, 1) on a device. See `sandbox.rng_mrg.mrg_uniform_base`; the states are on the device.

    Parameters
    ----------
    output_type : GpuArrayType
        The type of the sample. Its dtype is float16, float32 or float64.
    inplace : bool
        If True, the states are overwritten.
    """

    __props__ = ("output_type", "inplace")
    _f16_ok = True

    def __init__(self, output_type, inplace=False):
        if not isinstance(output_type, GpuArrayType):
            raise TypeError("GPUA_mrg_uniform makes samples on devices, not of type %s" % (output_type,))
        mrg_uniform_base.__init__(self, output_type.host_type(), inplace)
        self.output_type = output_type

    @classmethod
    def new(cls, rstate, ndim, dtype, size):
        """Return variables for the new states and for a sample with the shape `size`; see `mrg_uniform.new`."""
        host = mrg_uniform.new(TensorType("int32", (False, False))(), ndim, dtype, size)[1].owner
        rstate = as_gpuarray_variable(rstate, infer_context_name(rstate))
        type_ = GpuArrayType(dtype, host.op.output_type.broadcastable, rstate.type.context_name)
        return cls(type_)(rstate, host.inputs[1])

    def host_op(self, node):
        return mrg_uniform(self.output_type.host_type(), self.inplace)

    def make_node(self, rstate, size):
        rstate = as_gpuarray_variable(rstate, infer_context_name(rstate))
        if rstate.dtype != "int32" or rstate.ndim != 2:
            raise TypeError("states of MRG31k3p must be int32 matrices, not %s" % rstate.type)
        size = as_tensor_variable(size)
        if size.ndim != 1 or size.dtype[:3] not in ("int", "uin"):
            raise TypeError("size must be a vector of integers, not %s" % size.type)
        return Apply(self, [rstate, cast(size, "int64")], [rstate.type(), self.output_type()])

    def native_code(self, node):
        type_ = self.output_type
        return NativeCode(
            "theano_ng.gpuarray.native.random:mrg_uniform",
            in_place=self.inplace,
            typecode=type_.typecode,
            ndim=type_.ndim,
            kernel=mrg.mrg_uniform(type_.dtype, type_.context),
        )
