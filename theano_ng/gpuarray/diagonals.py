"""Diagonals of arrays on devices."""

from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.transfers import as_gpuarray_variable, host_from_gpu, infer_context_name
from theano_ng.gpuarray.twin import TwinOp
from theano_ng.tensor.shaping.diagonals import AllocDiag, ExtractDiag, _limited


class GpuExtractDiag(TwinOp, ExtractDiag):
    """The diagonal of the planes of an array on a device.

    Parameters
    ----------
    offset : int
        Which diagonal: positive above, negative below the main one.
    axis1, axis2 : int
        The axes of the planes.
    view : bool
        Return a view of the input.
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
    """Array on a device with its input on a diagonal of its planes and zeros elsewhere.

    Parameters
    ----------
    offset : int
        Which diagonal of the planes the last axis of the input becomes.
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
