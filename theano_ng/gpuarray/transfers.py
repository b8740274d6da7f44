"""Ops that move arrays between the host and devices, and functions that find the context of variables."""

import contextlib
import contextvars

import numpy as np

from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gpuarray.contexts import context_address
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.type import GpuArrayType, get_context
from theano_ng.tensor.constant import as_tensor_variable


def as_gpuarray_variable(x, context_name):
    """Return a device variable with the value of `x`.

    Parameters
    ----------
    x : variable or array_like
    context_name : hashable
        The context of the result.

    Returns
    -------
    Variable
        A variable of a GpuArrayType in this context. If `x` is such a variable, `x` is returned. If a transfer to the
        host computes `x`, the input of this transfer is used in place of `x`.
    """
    if hasattr(x, "_as_GpuArrayVariable"):
        return x._as_GpuArrayVariable(context_name)
    if isinstance(x, pygpu.GpuArray):
        type_ = GpuArrayType(x.dtype.name, [n == 1 for n in x.shape], context_name)
        return type_.make_constant(x if x.context is type_.context else x.transfer(type_.context))
    x = as_tensor_variable(x)
    if x.owner is not None and isinstance(x.owner.op, HostFromGpu):
        return as_gpuarray_variable(x.owner.inputs[0], context_name)
    return GpuFromHost(context_name)(x)


def infer_context_name(*vars):
    """Return the name of the context that an Op on these variables belongs to.

    Parameters
    ----------
    *vars : Variable
        The variables that are meant for the device.

    Returns
    -------
    hashable
        The context of the first variable that has one. A device variable has the context of its type. A host variable
        has the context in its ``tag.context_name``. Without this tag, it has the context of the device variable from
        which a transfer copied it, or the context of the input if a node with one input computes it. If no variable has
        a context, the result is the context to which a rule is moving a node, see `moving_to`. Otherwise it is None, the
        name of the default context.

    Raises
    ------
    ValueError
        If no variable has a context, and the default context does not exist.
    """
    todo = list(reversed(vars))
    seen = set()
    while todo:
        v = todo.pop()
        if v in seen:
            continue
        seen.add(v)
        if isinstance(v.type, GpuArrayType):
            return v.type.context_name
        if hasattr(v.tag, "context_name"):
            return v.tag.context_name
        if v.owner is not None:
            if isinstance(v.owner.op, HostFromGpu):
                return v.owner.inputs[0].type.context_name
            if len(v.owner.inputs) == 1:
                todo.extend(v.owner.inputs)
    name = _target.get()
    get_context(name)
    return name


_target = contextvars.ContextVar("target", default=None)


@contextlib.contextmanager
def moving_to(context_name):
    """Return a context manager in which `infer_context_name` returns this context for variables without a context.

    A rule that moves a node to a device uses it: if the node's inputs are on the host, the Op for the device transfers
    them to the device on which the result is needed.
    """
    before = _target.set(context_name)
    try:
        yield
    finally:
        _target.reset(before)


class _Transfer(NativeOp, Op):
    """A base class of Ops that copy an array to the host, to a device, or to another layout."""

    _f16_ok = True
    native_uses_queue = False  # the native code gives the GIL up while it copies

    def fails_on_values(self, node):
        return False

    def infer_shape(self, node, shapes):
        return shapes

    def R_op(self, inputs, eval_points):
        return [None if eval_points[0] is None else self(eval_points[0])]


class HostFromGpu(_Transfer):
    """Copy an array from a device to the host. The node waits until the device has computed the array."""

    __props__ = ()
    waits_for_device = True  # see `inplace_order.wait_last`

    def __str__(self):
        return "HostFromGpu(gpuarray)"

    def make_node(self, x):
        if not isinstance(x.type, GpuArrayType):
            raise TypeError("HostFromGpu expects a variable on a device, got %s of type %s" % (x, x.type))
        return Apply(self, [x], [x.type.host_type()()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = np.asarray(inputs[0])

    def native_code(self, node):
        return NativeCode("theano_ng.gpuarray.native.transfer:host_from_gpu")

    def grad(self, inputs, grads):
        return [as_gpuarray_variable(grads[0], inputs[0].type.context_name)]


host_from_gpu = HostFromGpu()


class GpuFromHost(_Transfer):
    """Copy an array from the host to a device.

    Parameters
    ----------
    context_name : hashable
        The target context.
    """

    __props__ = ("context_name",)
    sends_to_device = True  # see `inplace_order.send_first`

    def __init__(self, context_name):
        self.context_name = context_name

    def __str__(self):
        return "GpuFromHost<%s>" % (self.context_name,)

    def make_node(self, x):
        x = as_tensor_variable(x)
        return Apply(self, [x], [GpuArrayType(x.dtype, x.broadcastable, self.context_name)()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = pygpu.array(
            inputs[0], dtype=node.outputs[0].dtype, context=get_context(self.context_name)
        )

    def native_code(self, node):
        type_ = node.outputs[0].type
        return NativeCode(
            "theano_ng.gpuarray.native.transfer:gpu_from_host",
            context=context_address(type_.context),
            typecode=type_.typecode,
        )

    def grad(self, inputs, grads):
        return [host_from_gpu(as_gpuarray_variable(grads[0], self.context_name))]


class GpuToGpu(_Transfer):
    """Copy an array from one context to another.

    Parameters
    ----------
    context_name : hashable
        The target context.
    """

    __props__ = ("context_name",)

    def __init__(self, context_name):
        self.context_name = context_name

    def __str__(self):
        return "GpuToGpu<%s>" % (self.context_name,)

    def make_node(self, x):
        if not isinstance(x.type, GpuArrayType):
            raise TypeError("GpuToGpu expects a variable on a device, got %s of type %s" % (x, x.type))
        return Apply(self, [x], [GpuArrayType(x.dtype, x.broadcastable, self.context_name)()])

    def perform(self, node, inputs, output_storage):
        x = inputs[0].transfer(get_context(self.context_name))
        output_storage[0][0] = x.copy() if x is inputs[0] else x  # x is the input if both contexts are the same

    def native_code(self, node):
        return NativeCode(
            "theano_ng.gpuarray.native.transfer:gpu_to_gpu", context=context_address(node.outputs[0].type.context)
        )

    def grad(self, inputs, grads):
        return [as_gpuarray_variable(grads[0], inputs[0].type.context_name)]


class GpuContiguous(_Transfer):
    """Return the array itself if it is in C order. Otherwise return a copy in C order."""

    __props__ = ()
    view_map = {0: [0]}
    native_uses_queue = True

    def make_node(self, x):
        x = as_gpuarray_variable(x, infer_context_name(x))
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = pygpu.array(inputs[0], copy=False, order="C")

    def native_code(self, node):
        return NativeCode("theano_ng.gpuarray.native.transfer:contiguous")

    def grad(self, inputs, grads):
        return [as_gpuarray_variable(grads[0], inputs[0].type.context_name)]


gpu_contiguous = GpuContiguous()
