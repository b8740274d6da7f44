"""Maxima and their indices on devices."""

from theano_ng.gof.native import NativeCode
from theano_ng.gof.type import generic
from theano_ng.gpuarray.kernels import argmax as kernels
from theano_ng.gpuarray.transfers import as_gpuarray_variable, host_from_gpu, infer_context_name
from theano_ng.gpuarray.twin import TwinOp
from theano_ng.tensor.reductions.extremes import MaxAndArgmax

__all__ = ["GpuMaxAndArgmax"]

# If a node computes at least this number of maxima, each thread finds one maximum. If the node computes fewer maxima
# of many elements each, a group of threads finds each maximum. -1 means the number of threads that keeps the device
# busy; a CPU then always finds a maximum by one thread.
_THREADS = -1
# A group of threads searches at least this number of elements. If fewer groups than the device has room for would
# search the lines, several groups search pieces of each line.
_SHORTEST = 4096


class GpuMaxAndArgmax(TwinOp):
    """Compute the maximum and its index over some axes of a device array. If an element is NaN, the maximum is NaN. If
    several elements are equal to the maximum, the index is the index of the first.

    Parameters
    ----------
    axis : sequence of int or None
        Axes in increasing order. None means all axes.

    Raises
    ------
    ValueError
        If an axis is out of range. At run time, if there are no elements.

    Notes
    -----
    The index is an int64 that counts in C order over the reduced axes.
    """

    nin = 1
    nout = 2
    __props__ = ("axis",)
    params_type = generic

    def __init__(self, axis):
        self.axis = MaxAndArgmax(axis).axis

    def host_op(self, node):
        return MaxAndArgmax(self.axis)

    def make_node(self, X):
        context_name = infer_context_name(X)
        x = as_gpuarray_variable(X, context_name)
        node = self.on_device([x], self.host_op(None).make_node(host_from_gpu(x)), context_name)
        node.outputs[0].name, node.outputs[1].name = "max", "argmax"
        return node

    def get_params(self, node):
        """Return the axes over which the node reduces: `axis`, or all axes of the input if `axis` is None."""
        return tuple(range(node.inputs[0].ndim)) if self.axis is None else self.axis

    def native_code(self, node):
        x = node.inputs[0].type
        if x.dtype.startswith("complex"):
            return None
        axes = self.get_params(node)

        def kernel(how):
            return kernels.max_and_argmax(x.dtype, x.ndim - len(axes), len(axes), how, x.context)

        grouped = _THREADS >= 0 or not x.context.vector_bytes
        return NativeCode(
            "theano_ng.gpuarray.native.argmax:max_and_argmax",
            axes=sum(1 << axis for axis in axes),
            lines=kernel("threads"),
            groups=kernel("groups") if grouped else 0,
            parts=kernels.max_and_argmax(x.dtype, 1, 1, "parts", x.context) if grouped else 0,
            group=kernels.GROUP,
            shortest=_SHORTEST,
            threads=_THREADS,
        )
