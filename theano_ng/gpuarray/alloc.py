"""New arrays on devices, filled with a value or uninitialized."""

import numpy as np

from theano_ng.gof.graph import Apply, Variable
from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.contexts import context_address
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.transfers import as_gpuarray_variable
from theano_ng.gpuarray.twin import TwinOp, on_host
from theano_ng.gpuarray.type import GpuArrayType, get_context
from theano_ng.tensor.shaping.allocation import Alloc, AllocEmpty, alloc_validate_shape
from theano_ng.tensor.type import values_eq_approx_always_true


class GpuAlloc(TwinOp, Alloc):
    """Make a new device array, filled with a value: ``GpuAlloc(context_name)(value, n0, n1, ...)``.

    Parameters
    ----------
    context_name : hashable
        The context of the array.
    memset_0 : bool
        If True, the value is always 0 (not minus zero), so clearing the memory is enough.

    Raises
    ------
    TypeError
        If the value has more dimensions than there are lengths, or a length is not an integer.
    ValueError
        At run time, if the value does not broadcast or a length is negative.
    """

    __props__ = ("memset_0", "context_name")

    def __init__(self, context_name, memset_0=False):
        self.context_name = context_name
        self.memset_0 = memset_0

    def __str__(self):
        return "%s<%s>%s" % (type(self).__name__, self.context_name, "{memset_0=True}" if self.memset_0 else "")

    def host_op(self, node):
        return Alloc()

    def make_node(self, value, *shape):
        value = as_gpuarray_variable(value, self.context_name)
        sizes, broadcastable = alloc_validate_shape(on_host(shape))
        if value.ndim > len(sizes):
            raise TypeError(
                "The GpuAlloc value to use has more dimensions than the specified shape", value.ndim, len(sizes)
            )
        return Apply(self, [value, *sizes], [value.type.clone(broadcastable=broadcastable)()])

    def infer_shape(self, node, shapes):
        return [node.inputs[1:]]

    def native_code(self, node):
        return NativeCode("theano_ng.gpuarray.native.alloc:alloc", zero=bool(self.memset_0))


class GpuAllocEmpty(TwinOp, AllocEmpty):
    """Make a new device array with undefined content: ``GpuAllocEmpty(dtype, context_name)(n0, n1, ...)``.

    Parameters
    ----------
    dtype : str
    context_name : hashable
        The context of the array.
    """

    __props__ = ("dtype", "context_name")
    params_type = None

    def __init__(self, dtype, context_name):
        super().__init__(dtype)
        self.context_name = context_name

    typecode = property(lambda self: pygpu.dtype_to_typecode(self.dtype), doc="Type number of the dtype on devices.")

    def __str__(self):
        return "%s<%s>{%s}" % (type(self).__name__, self.context_name, self.dtype)

    def host_op(self, node):
        return AllocEmpty(self.dtype)

    def make_node(self, *shape):
        sizes, broadcastable = alloc_validate_shape(on_host(shape))
        output = GpuArrayType(self.dtype, broadcastable, self.context_name)()
        # Undefined elements may differ between two runs, and may be NaN. Let DebugMode and NanGuardMode accept this.
        output.tag.values_eq_approx = values_eq_approx_always_true
        output.tag.nan_guard_mode_check = False
        output.type.filter_checks_isfinite = False
        return Apply(self, sizes, [output])

    def native_code(self, node):
        return NativeCode(
            "theano_ng.gpuarray.native.alloc:alloc_empty",
            context=context_address(get_context(self.context_name)),
            typecode=self.typecode,
        )

    def debug_perform(self, node, inputs, out_, params=None):
        value = np.full([int(n) for n in inputs], -123456789 if np.dtype(self.dtype).kind in "fc" else 123, self.dtype)
        out_[0][0] = pygpu.array(value, context=get_context(self.context_name))

    def infer_shape(self, node, shapes):
        return [node.inputs]

    def grad(self, inputs, grads):
        return AllocEmpty.grad(self, inputs, grads)


def empty_like(var):
    """Return a new array with undefined content, of the type and shape of a device variable.

    Parameters
    ----------
    var : Variable
        A variable of a GpuArrayType.
    """
    if not isinstance(var, Variable) or not isinstance(var.type, GpuArrayType):
        raise TypeError("empty_like expects a variable on a device, got %s" % (var,))
    return GpuAllocEmpty(var.type.dtype, var.type.context_name)(*[var.shape[i] for i in range(var.ndim)])
