"""Indexing of device arrays by integer arrays and boolean masks, and increments of the indexed elements.

Index arrays may be on the host or on the device. A host array is checked on the host, without waiting for the device.
If the graph copies a host array to the device only for the index, the Op reads the host array. If an index was computed
on the device, the kernel that reads the index checks it, and reports an invalid index (`index_errors`): the next call
that waits for the device raises the IndexError. At an invalid index, zeros are read, and nothing is written. A mask is
copied to the host, because it determines the number of elements.
"""

import numpy as np

from theano_ng.gof.graph import Apply, Variable
from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.device.index_errors import out_of_bounds, site_of
from theano_ng.gpuarray.kernels import indexing as kernels
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.transfers import HostFromGpu, as_gpuarray_variable, host_from_gpu, infer_context_name
from theano_ng.gpuarray.twin import TwinOp, came_from_host, on_host
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.tensor.indexing.advanced import (
    AdvancedBooleanIncSubtensor,
    AdvancedBooleanSubtensor,
    AdvancedIncSubtensor,
    AdvancedIncSubtensor1,
    AdvancedSubtensor,
    AdvancedSubtensor1,
)
from theano_ng.tensor.indexing.index_lists import advanced_layout, is_mask
from theano_ng.tensor.type import TensorType
from theano_ng.tensor.type_other import SliceType

__all__ = [
    "BaseGpuAdvancedIncSubtensor",
    "BaseGpuAdvancedSubtensor",
    "GpuAdvancedBooleanIncSubtensor",
    "GpuAdvancedBooleanSubtensor",
    "GpuAdvancedIncSubtensor",
    "GpuAdvancedIncSubtensor1",
    "GpuAdvancedIncSubtensor1_dev20",
    "GpuAdvancedSubtensor",
    "GpuAdvancedSubtensor1",
    "check_and_convert_boolean_masks",
    "get_iadd",
]

# The number of threads that a kernel should use to increment elements in a fixed order. -1 means as many threads as
# keep the device busy.
_THREADS = -1


def index_variables(given, host, context_name):
    """Return the index variables of a node.

    An index of the list `given` that was computed on the device becomes a device variable. Any other index is replaced
    by the corresponding host variable of the list `host`.
    """
    indices = []
    for index, converted in zip(given, host):
        if isinstance(index, Variable) and index.owner is not None and isinstance(index.owner.op, HostFromGpu):
            index = index.owner.inputs[0]
        if isinstance(index, Variable) and isinstance(index.type, GpuArrayType) and not came_from_host(index):
            converted = as_gpuarray_variable(index, context_name)
        indices.append(converted)
    return indices


def _layout(node, first):
    """Return the parameters that describe the index of a node to native code.

    Parameters
    ----------
    node : Apply
    first : int
        Position of the first index among the inputs of the node.

    Returns
    -------
    tuple (n_rest, position, DeviceKernel or 0)
        `n_rest` and `position` are explained in native/gpu_gather.h. The kernel reads index arrays on the device. It
        is 0 if no index array is on the device.
    """
    x = node.inputs[0]
    index = [v.type.host_type()() if isinstance(v.type, GpuArrayType) else v for v in node.inputs[first:]]
    rest, position, arrays = advanced_layout(x.ndim, index)
    dtypes, on_device = [], False
    for given, entry in zip(node.inputs[first:], index):
        if not isinstance(entry.type, TensorType):
            continue
        if is_mask(entry):
            dtypes += ["int64"] * max(entry.ndim, 1)
        elif isinstance(given.type, GpuArrayType):
            dtypes.append(entry.dtype)
            on_device = True
        else:
            dtypes.append("int64")
    joint = max((1 if is_mask(entry) else entry.ndim for entry in arrays), default=0)
    offsets = kernels.read_indices(dtypes, joint, x.type.context) if on_device else 0
    return len(rest), position, offsets


class _IndexOp(TwinOp):
    """A base class of Ops with an advanced index.

    Attributes
    ----------
    first_index : int
        The number of the first input that is part of the index.
    """

    first_index = 1

    def index_error(self, node, report):
        """Return the exception for an invalid index that a kernel reported; see `index_errors.error_of`."""
        axis, axes = 0, []
        for v in node.inputs[self.first_index :]:
            type_ = v.type.host_type() if isinstance(v.type, GpuArrayType) else v.type
            if not isinstance(type_, TensorType):
                axis += isinstance(type_, SliceType)
                continue
            indexed = type_.ndim if type_.dtype == "bool" else 1
            axes += range(axis, axis + indexed) if indexed else [-1]
            axis += indexed
        return out_of_bounds(report, axes)


class _GatherOp(_IndexOp):
    """A base class of Ops that read the elements at an advanced index."""

    def native_code(self, node):
        type_ = node.inputs[0].type
        n_rest, position, offsets = _layout(node, 1)
        before, after = position, n_rest - position
        simple = min(before, 1), min(after, 1)
        return NativeCode(
            "theano_ng.gpuarray.native.subtensor:take",
            site=site_of(node),
            offsets=offsets,
            simple=kernels.gather(type_.dtype, *simple, type_.context),
            general=kernels.gather(type_.dtype, before, after, type_.context) if (before, after) != simple else 0,
        )

    def make_node(self, x, *inputs):
        context_name = infer_context_name(x)
        x = as_gpuarray_variable(x, context_name)
        host = self.host_op(None).make_node(host_from_gpu(x), *on_host(inputs))
        return self.on_device([x, *index_variables(inputs, host.inputs[1:], context_name)], host, context_name)


class _ScatterOp(_IndexOp):
    """A base class of Ops that increment or set the elements at an advanced index."""

    first_index = 2
    atomic = False

    def native_code(self, node):
        type_ = node.inputs[0].type
        n_rest, _, offsets = _layout(node, 2)
        atomic = self.atomic and not self.set_instead_of_inc and kernels.has_atomic_add(type_.dtype, type_.context)
        how = "set" if self.set_instead_of_inc else "atomic" if atomic else "add"
        return NativeCode(
            "theano_ng.gpuarray.native.subtensor:inc",
            in_place=bool(self.inplace),
            site=site_of(node),
            offsets=offsets,
            simple=kernels.scatter(type_.dtype, min(n_rest, 1), how, type_.context),
            general=kernels.scatter(type_.dtype, n_rest, how, type_.context) if n_rest > 1 else 0,
            threads=_THREADS,
            atomic=atomic,
        )

    def make_node(self, x, y, *inputs):
        context_name = infer_context_name(x, y)
        x, y = as_gpuarray_variable(x, context_name), as_gpuarray_variable(y, context_name)
        host = self.host_op(None).make_node(host_from_gpu(x), host_from_gpu(y), *on_host(inputs))
        return Apply(self, [x, y, *index_variables(inputs, host.inputs[2:], context_name)], [x.type()])


# ---------------------------------------------------------------- selecting rows by an integer vector


class GpuAdvancedSubtensor1(_GatherOp, AdvancedSubtensor1):
    """Take rows of a device array: ``GpuAdvancedSubtensor1()(x, ilist)``. `ilist` is an integer vector on the host or
    the device.

    Parameters
    ----------
    sparse_grad : bool
        Make the gradient with respect to x a sparse matrix.

    Raises
    ------
    TypeError
        If x is 0-d, or `ilist` is not an integer vector.
    IndexError
        At run time, if an index is out of bounds.
    """

    __props__ = ()

    def host_op(self, node):
        return AdvancedSubtensor1(self.sparse_grad)

    def make_node(self, x, ilist):
        return super().make_node(x, ilist)


class GpuAdvancedIncSubtensor1(_ScatterOp, AdvancedIncSubtensor1):
    """Increment or set rows of a device array: ``(x, y, ilist)``. The result is x with y added to ``x[ilist]``.

    A repeated row is incremented repeatedly, in the order of `ilist`: the result is the same in every run, and the same
    as on the host.

    Parameters
    ----------
    inplace : bool
        If True, overwrite x.
    set_instead_of_inc : bool
        If True, set the rows to y. If a row is repeated, its last value is kept.

    Raises
    ------
    TypeError
        If x is 0-d, `ilist` is not an integer vector, y has more dimensions than x, or y cannot be
        converted to the dtype of x.
    IndexError
        At run time, if an index is out of bounds.
    """

    __props__ = ("inplace", "set_instead_of_inc")
    _f16_ok = True

    def host_op(self, node):
        return AdvancedIncSubtensor1(self.inplace, self.set_instead_of_inc)

    def make_node(self, x, y, ilist):
        return super().make_node(x, y, ilist)


class GpuAdvancedIncSubtensor1_dev20(GpuAdvancedIncSubtensor1):
    """A `GpuAdvancedIncSubtensor1` that adds atomically, in any order. It is faster, but sums of floats may differ in
    the last bits from run to run.

    Rows are set in order. Increments of a dtype for which the device has no atomic addition are done in order, too.

    Parameters
    ----------
    inplace : bool
        If True, overwrite x.
    set_instead_of_inc : bool
        If True, set the rows to y.
    """

    atomic = True

    def make_node(self, x, y, ilist):
        """Make a node, as `GpuAdvancedIncSubtensor1` does. `ilist` may have any integer dtype: native code converts the
        indices to int64, so the graph needs no conversion.

        Parameters
        ----------
        x, y, ilist : Variable
        """
        return super().make_node(x, y, ilist)


# ---------------------------------------------------------------- any index


class BaseGpuAdvancedSubtensor(_GatherOp):
    """Indexing of device arrays by any mix of integer arrays, masks, slices and None."""


class GpuAdvancedSubtensor(BaseGpuAdvancedSubtensor, AdvancedSubtensor):
    """Index a device array by integer arrays, slices and None: ``GpuAdvancedSubtensor()(x, *index)``. The result is a
    copy.

    Raises
    ------
    AdvancedBooleanIndexingError
        If an index is a mask.
    IndexError
        At run time, if an index is out of bounds.
    """

    def host_op(self, node):
        return AdvancedSubtensor()


class GpuAdvancedBooleanSubtensor(BaseGpuAdvancedSubtensor, AdvancedBooleanSubtensor):
    """Index a device array by boolean masks, integer arrays, slices and None. The result is a copy."""

    def host_op(self, node):
        return AdvancedBooleanSubtensor()


class BaseGpuAdvancedIncSubtensor(_ScatterOp):
    """Increment or set the elements of a device array that an advanced index selects. Elements that are selected twice
    are incremented twice, in order.
    """


class GpuAdvancedIncSubtensor(BaseGpuAdvancedIncSubtensor, AdvancedIncSubtensor):
    """Increment or set the elements of a device array that integer arrays, slices and None select.

    The inputs of a node are the array, the operand and the index: ``GpuAdvancedIncSubtensor()(x, y, *index)``.

    Parameters
    ----------
    inplace : bool
        If True, overwrite x.
    set_instead_of_inc : bool
        If True, set the elements to y.
    """

    __props__ = ("inplace", "set_instead_of_inc")

    def host_op(self, node):
        return AdvancedIncSubtensor(self.inplace, self.set_instead_of_inc)


class GpuAdvancedBooleanIncSubtensor(BaseGpuAdvancedIncSubtensor, AdvancedBooleanIncSubtensor):
    """Increment or set the elements of a device array that boolean masks, with or without other indices, select.

    Parameters
    ----------
    inplace : bool
        If True, overwrite x.
    set_instead_of_inc : bool
        If True, set the elements to y.
    """

    __props__ = ("inplace", "set_instead_of_inc")

    def host_op(self, node):
        return AdvancedBooleanIncSubtensor(self.inplace, self.set_instead_of_inc)


# ---------------------------------------------------------------- functions on values


def check_and_convert_boolean_masks(input, idx_list):
    """Return an index with integer arrays in place of boolean masks.

    Parameters
    ----------
    input : array
        The indexed array. Only its attribute `shape` is used.
    idx_list : sequence
        None, slices, integers, arrays of integers and boolean arrays, on the host or on a device.

    Returns
    -------
    list
        Each mask is replaced by one integer array per dimension of the mask.

    Raises
    ------
    IndexError
        If the shape of a mask differs from the shape of the axes that it indexes.
    """
    axis = 0
    converted = []
    for entry in idx_list:
        if str(getattr(entry, "dtype", "")) != "bool":
            converted.append(entry)
            axis += entry is not None
            continue
        mask = np.asarray(entry)
        for k, length in enumerate(mask.shape):
            if axis + k >= len(input.shape) or input.shape[axis + k] != length:
                raise IndexError(
                    "boolean index did not match indexed array along dimension %d; dimension is %s but corresponding boolean dimension "
                    "is %d" % (axis + k, input.shape[axis + k] if axis + k < len(input.shape) else "none", length)
                )
        converted.extend(np.nonzero(mask))
        axis += mask.ndim
    return converted


def get_iadd(a, b):
    """Return a function that adds an array like `b` to an array like `a`, in place.

    Parameters
    ----------
    a, b : GpuArray
        Arrays of one dtype and context. The function broadcasts b to the shape of a.

    Returns
    -------
    callable
        ``iadd(a, b)`` adds b to a, for arrays of these dtypes and numbers of dimensions, and returns a.
    """
    if a.dtype != b.dtype or b.ndim > a.ndim:
        raise TypeError(
            "an array of dtype %s with %d dimensions cannot be added to an array of dtype %s with %d dimensions"
            % (b.dtype, b.ndim, a.dtype, a.ndim)
        )
    kernel = kernels.increment(a.dtype.name, a.ndim, a.context).build()

    def iadd(a, b):
        shape, strides = (1,) * (a.ndim - b.ndim) + b.shape, (0,) * (a.ndim - b.ndim) + b.strides
        if any(length not in (1, whole) for length, whole in zip(shape, a.shape)):
            raise ValueError("could not broadcast input array from shape %s into shape %s" % (b.shape, a.shape))
        if pygpu.may_share_memory(a, b):
            b = b.copy()
            strides = (0,) * (a.ndim - b.ndim) + b.strides
        axes = [
            number
            for whole, step, length, other in zip(a.shape, a.strides, shape, strides)
            for number in (whole, step, 0 if length == 1 else other)
        ]
        if a.size:
            kernel(a, a.offset, b, b.offset, a.size, *axes, n=a.size)
        return a

    return iadd
