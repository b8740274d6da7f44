"""Diagonals of arrays on devices."""

from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.transfers import as_gpuarray_variable, host_from_gpu, infer_context_name
from theano_ng.gpuarray.twin import TwinOp
from theano_ng.tensor.shaping.diagonals import AllocDiag, ExtractDiag, _limited


class GpuExtractDiag(TwinOp, ExtractDiag):
    """Extract a diagonal from the planes of a device array.

    Parameters
    ----------
    offset : int
        Index of the diagonal: positive above, negative below the main diagonal.
    axis1, axis2 : int
        The axes of the planes.
    view : bool
        If True, return a view of the input.
    """

    __props__ = ("offset", "axis1", "axis2", "view")

    def host_op(self, node):
        return ExtractDiag(self.offset, self.axis1, self.axis2, self.view)

    def make_node(self, _x):
        context_name = infer_context_name(_x)
        x = as_gpuarray_variable(_x, context_name)
        return self.on_device([x], self.host_op(None).make_node(host_from_gpu(x)), context_name)

    def native_code(self, node):
        axis1, axis2 = self._axes(node.inputs[0].ndim)
        return NativeCode(
            "theano_ng.gpuarray.native.subtensor:extract_diag",
            offset=_limited(self.offset),
            axis1=axis1,
            axis2=axis2,
            view=bool(self.view),
        )


class GpuAllocDiag(TwinOp, AllocDiag):
    """Make a device array whose planes have the input on a diagonal and zeros elsewhere.

    Parameters
    ----------
    offset : int
        Index of the diagonal that gets the last axis of the input.
    axis1, axis2 : int
        The axes of the planes in the result.
    """

    __props__ = ("offset", "axis1", "axis2")

    def host_op(self, node):
        return AllocDiag(self.offset, self.axis1, self.axis2)

    def make_node(self, diag):
        context_name = infer_context_name(diag)
        diag = as_gpuarray_variable(diag, context_name)
        return self.on_device([diag], self.host_op(None).make_node(host_from_gpu(diag)), context_name)

    def native_code(self, node):
        axis1, axis2 = self._axes(node.outputs[0].ndim)
        return NativeCode(
            "theano_ng.gpuarray.native.subtensor:alloc_diag", offset=_limited(self.offset), axis1=axis1, axis2=axis2
        )
