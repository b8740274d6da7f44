"""Sorting, and the k largest or smallest elements, on devices.

Sorts on devices are always stable, and the results do not depend on the timing of threads.
"""

from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.classic_imports import CLASSIC_IMPORTS
from theano_ng.gpuarray.kernels import sort as kernels
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.reshaping import GpuReshape
from theano_ng.gpuarray.transfers import as_gpuarray_variable, host_from_gpu, infer_context_name
from theano_ng.gpuarray.twin import TwinOp, host_variable
from theano_ng.lazy import lazy_names
from theano_ng.tensor.sort import ArgSortOp, SortOp, TopKOp, _variable_is_none

__all__ = ["GpuArgSortOp", "GpuSortOp", "GpuTopKOp"]

# Names that the classic module had, too
__getattr__, __dir__, _ = lazy_names(__name__, {**CLASSIC_IMPORTS, "theano_ng.gpuarray.opt.lifts": "local_gpua_topkop"})

# If there are few lines (1-d slices along the axis), about this number of groups of threads process the lines together.
# -1 means the number of groups that keeps a GPU busy; on CPUs, one thread processes a line.
_GROUPS = -1

# The number of elements of a line that a group processes at least, if several groups process the line.
_LEAST = 4096


def _on_processor(context):
    """Return True if one thread processes a line."""
    return context.vector_bytes > 0


# Parameters of native code: the kernels that sort, and the kernels that select
_SORT = "lines", "count", "add", "move", "positions"
_SELECT = "select", "count_digits", "choose", "count_best", "add_best", "copy_best"


def _kernels(names, by_threads, by_groups, *arguments):
    """Return the parameters `names`. The functions return one kernel for processors, and a list of kernels for GPUs.

    The last argument is the context. Parameters without a kernel are 0.
    """
    made = [by_threads(*arguments)] if _on_processor(arguments[-1]) else by_groups(*arguments)
    return {**dict.fromkeys(names, 0), **dict(zip(names, made))}


def _sort_parameters(dtype, indexed, context):
    """Return the parameters of native code for the kernels that sort."""
    return _kernels(_SORT, kernels.sort_by_threads, kernels.sort_by_groups, dtype, indexed, context)


def _select_parameters(dtype, context):
    """Return the parameters of native code for the kernels that select."""
    return _kernels(_SELECT, kernels.select_by_threads, kernels.select_by_groups, dtype, context)


def _sizes(context):
    """Return the parameters of native code that determine the number of threads."""
    return dict(group=1 if _on_processor(context) else kernels.GROUP, least=_LEAST, groups=_GROUPS)


class _GpuSorting(TwinOp):
    """The base class of the Ops that sort. The inputs are an array on a device, and an axis on the host (None means the
    flattened array).
    """

    __props__ = ("kind", "order")
    _host_class = None

    def __init__(self, kind, order=None):
        host = self._host_class(kind, order)
        self.kind, self.order = host.kind, host.order

    def __str__(self):
        return "%s{%s, %s}" % (type(self).__name__, self.kind, self.order)

    def host_op(self, node):
        return self._host_class(self.kind, self.order)

    def make_node(self, input, axis=-1):
        context_name = infer_context_name(input)
        x = as_gpuarray_variable(input, context_name)
        if axis is None or _variable_is_none(axis):
            x, axis = GpuReshape(1)(x, [-1]), 0
        host = self.host_op(None).make_node(host_from_gpu(x), host_variable(axis))
        return self.on_device([x, host.inputs[1]], host, context_name)

    def native_code(self, node):
        if self.order is not None:
            return None
        x, indexed = node.inputs[0].type, isinstance(self, GpuArgSortOp)
        return NativeCode(
            "theano_ng.gpuarray.native.sort:sort",
            indexed=indexed,
            **_sizes(x.context),
            **_sort_parameters(x.dtype, indexed, x.context),
        )


class GpuSortOp(_GpuSorting):
    """Sort an array on a device along an axis. NaNs are the largest elements.

    Parameters
    ----------
    kind : {'quicksort', 'mergesort', 'heapsort', 'stable'}
        All kinds use the same stable algorithm.
    order : None
        NumPy's parameter for the fields of structured arrays, which tensors do not support.

    Raises
    ------
    ValueError
        At run time, if the axis is out of bounds.
    """

    _host_class = SortOp


class GpuArgSortOp(_GpuSorting):
    """Return the int64 indices that sort an array on a device along an axis. See :class:`GpuSortOp`.

    Equal elements keep their order.
    """

    _host_class = ArgSortOp


class GpuTopKOp(TwinOp, TopKOp):
    """Return the k largest (k > 0) or smallest (k < 0) elements along an axis of an array on a device.

    The inputs are the array, and k on the host. Among equal elements, those with the lowest indices are selected first.
    NaN counts as the largest element.

    Parameters
    ----------
    axis : int
    sorted : bool
        If True, the largest (for k < 0, the smallest) element comes first, and equal elements keep their order.
        If False, the elements have the order of the input.
    idx_dtype : str
        The integer dtype of the indices.
    return_values, return_indices : bool
        Whether the values, or the indices, are outputs. At least one of the parameters must be True.

    Raises
    ------
    ValueError
        At run time, if k is 0 or larger than the length of the axis.
    """

    __props__ = TopKOp.__props__

    def host_op(self, node):
        return TopKOp(self.axis, self.sorted, self.idx_dtype, self.return_values, self.return_indices)

    def make_node(self, inp, kth):
        context_name = infer_context_name(inp)
        x = as_gpuarray_variable(inp, context_name)
        host = self.host_op(None).make_node(host_from_gpu(x), host_variable(kth))
        return self.on_device([x, host.inputs[1]], host, context_name)

    def native_code(self, node):
        x = node.inputs[0].type
        return NativeCode(
            "theano_ng.gpuarray.native.sort:topk",
            axis=self.axis % x.ndim,
            sorted=self.sorted,
            values=self.return_values,
            indices=self.return_indices,
            index_type=pygpu.dtype_to_typecode(self.idx_dtype),
            **_sizes(x.context),
            **(_sort_parameters(x.dtype, True, x.context) if self.sorted else dict.fromkeys(_SORT, 0)),
            **_select_parameters(x.dtype, x.context),
        )

    def L_op(self, inputs, outputs, out_grads):
        return self.grad(inputs, out_grads)
