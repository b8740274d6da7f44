"""Fusion of reductions of rows with elementwise operations on devices."""

from theano_ng.compile.mode import optdb
from theano_ng.configdefaults import config
from theano_ng.gpuarray.elemwise import GpuDimShuffle, GpuElemwise
from theano_ng.gpuarray.row_program import GpuRowProgram, can_reduce_rows
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.tensor.opt.row_fusion import RowFusion


class GpuRowFusion(RowFusion):
    """An optimizer that replaces each group of operations on the same rows of device arrays by a `GpuRowProgram`.

    true_div(A, GpuDimShuffle((False,), (0, "x"))(GpuCAReduceCuda(scalar.add, (1,))(A)))  ->  GpuRowProgram(...)(A)
    """

    elemwise, dimshuffle, program = GpuElemwise, GpuDimShuffle, GpuRowProgram
    can_reduce_rows = staticmethod(can_reduce_rows)

    def is_on(self):
        return config.gpu.local_elemwise_fusion

    def is_array(self, v):
        return isinstance(v.type, GpuArrayType)


optdb.register("gpua_row_fusion", GpuRowFusion(), 49.05, "fast_run", "fusion", "gpuarray")
