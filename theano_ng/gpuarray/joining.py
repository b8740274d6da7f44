"""Ops that join and split device arrays."""

from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.transfers import as_gpuarray_variable, host_from_gpu, infer_context_name
from theano_ng.gpuarray.twin import TwinOp, on_host
from theano_ng.tensor.shaping.joining import Join, Split


class GpuJoin(TwinOp, Join):
    """Concatenate device arrays along an axis: ``GpuJoin()(axis, x, y, ...)``.

    Parameters
    ----------
    view : int
        The index of an array. If all arrays except this one are empty along the axis at run time, the result is a view
        of this array. -1 means that the result is always a new array.

    Raises
    ------
    TypeError
        If the arrays differ in ndim or are 0-d, or if the axis is not an integer.
    ValueError
        If no array is given. At run time, if the arrays differ in the length of an axis that is not the joined axis.
    """

    __props__ = ("view",)

    def host_op(self, node):
        return Join(self.view)

    def make_node(self, axis, *tensors):
        (axis,) = on_host([axis])
        if not tensors:
            return Join(self.view).make_node(axis)  # raises the error that no tensors are given
        context_name = infer_context_name(*tensors)
        tensors = [as_gpuarray_variable(t, context_name) for t in tensors]
        host = Join(self.view).make_node(axis, *[host_from_gpu(t) for t in tensors])
        return self.on_device([host.inputs[0], *tensors], host, context_name)

    def native_code(self, node):
        return NativeCode("theano_ng.gpuarray.native.join:join", view=self.view, typecode=node.outputs[0].type.typecode)


gpu_join = GpuJoin()


class GpuSplit(TwinOp, Split):
    """Partition a device array along an axis: ``GpuSplit(n)(x, axis, splits)`` has n outputs, all of them copies.

    Parameters
    ----------
    len_splits : int
        Number of outputs. `splits` is an integer vector of this length. Its sum is ``x.shape[axis]``.

    Raises
    ------
    ValueError
        At run time, if the length or the sum of `splits` is wrong, or if an entry is negative.
    """

    __props__ = ("len_splits",)

    def host_op(self, node):
        return Split(self.len_splits)

    def make_node(self, x, axis, splits):
        context_name = infer_context_name(x)
        x = as_gpuarray_variable(x, context_name)
        host = Split(self.len_splits).make_node(host_from_gpu(x), *on_host([axis, splits]))
        return self.on_device([x, *host.inputs[1:]], host, context_name)

    def native_code(self, node):
        return NativeCode("theano_ng.gpuarray.native.join:split")
