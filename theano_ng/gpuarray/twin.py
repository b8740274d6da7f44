"""A mixin for Ops on devices that have an equivalent Op on the host."""

import weakref

import numpy as np

from theano_ng.gof.graph import Apply
from theano_ng.gpuarray.op import GpuOp
from theano_ng.gpuarray.transfers import GpuFromHost, as_gpuarray_variable, host_from_gpu
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.tensor.type import TensorType


def on_host(variables):
    """Return a list of host variables with the values of `variables`; see `host_variable`."""
    return [host_variable(v) for v in variables]


def host_variable(v):
    """Return a host variable with the value of the device variable `v`. If a transfer copied `v` from the host, return
    the input of the transfer. Return other objects, such as None or a number, unchanged.
    """
    if not isinstance(getattr(v, "type", None), GpuArrayType):
        return v
    return v.owner.inputs[0] if came_from_host(v) else host_from_gpu(v)


def came_from_host(v):
    """Return True if a device variable is a copy of a host variable."""
    return v.owner is not None and isinstance(v.owner.op, GpuFromHost)


class TwinOp(GpuOp):
    """A mixin that derives shapes, derivatives and connection patterns from the equivalent Op for the host, `host_op`.

    Derivatives are host expressions. Transfers copy the inputs of an expression from the device, and its result back.
    The rules that move all graphs to the device also move these expressions.
    """

    _f16_ok = True

    def twin(self, inputs):
        """Return the node of the equivalent Op for the host, for the same inputs."""
        return self.host_op(self.make_node(*inputs)).make_node(*on_host(inputs))

    def on_device(self, inputs, node, context_name):
        """Return a node of this Op in a context. Its outputs have the dtypes and broadcast patterns of `node`."""
        types = [GpuArrayType(v.dtype, v.broadcastable, context_name) for v in node.outputs]
        return Apply(self, inputs, [type_() for type_ in types])

    def infer_shape(self, node, shapes):
        host = self.host_op(node).make_node(*on_host(node.inputs))
        return host.op.infer_shape(host, shapes)

    def connection_pattern(self, node):
        host = self.host_node(node)
        known = getattr(host.op, "connection_pattern", None)
        return [[True] * len(node.outputs) for _ in node.inputs] if known is None else known(host)

    def grad(self, inputs, output_gradients):
        host = self.twin(inputs)
        gradients = host.op.L_op(host.inputs, host.outputs, on_host(output_gradients))
        return [to_context_of(g, x) for g, x in zip(gradients, inputs)]

    def R_op(self, inputs, eval_points):
        host = self.twin(inputs)
        directions = host.op.R_op(host.inputs, on_host(eval_points))
        return [to_context_of(d, out) for d, out in zip(directions, self.make_node(*inputs).outputs)]


def at_least_float32(dtype):
    """Return the dtype in which kernels compute with elements of a dtype."""
    return "float32" if dtype == "float16" else dtype


_host_nodes = weakref.WeakKeyDictionary()  # Apply -> node of the Op for the host, with float32 instead of float16


class WideTwinOp(TwinOp):
    """A `TwinOp` whose `perform` computes float16 in float32, as kernels do."""

    def host_node(self, node):
        if node not in _host_nodes:
            types = [TensorType(at_least_float32(v.dtype), v.broadcastable) for v in node.inputs]
            _host_nodes[node] = self.host_op(node).make_node(*[type_() for type_ in types])
        return _host_nodes[node]

    def perform(self, node, inputs, output_storage, params=None):
        host, cells = self.host_node(node), [[None] for _ in node.outputs]
        # The copies may be overwritten.
        values = [np.array(value, v.dtype) for value, v in zip(map(np.asarray, inputs), host.inputs)]
        host.op.perform(host, values, cells)
        results = [np.asarray(value, v.dtype) for (value,), v in zip(cells, node.outputs)]
        self.store(node, results, inputs, output_storage)


def to_context_of(value, like):
    """Move a derivative that was computed from host variables to the context of the variable `like`. Values that are
    not tensors (None, disconnected) are returned unchanged.
    """
    if isinstance(getattr(value, "type", None), TensorType) and isinstance(like.type, GpuArrayType):
        return as_gpuarray_variable(value, like.type.context_name)
    return value
