"""Ops on devices that differ from an Op of the host in where they compute, and in nothing else."""

from theano_ng.gof.graph import Apply
from theano_ng.gpuarray.op import GpuOp
from theano_ng.gpuarray.transfers import GpuFromHost, as_gpuarray_variable, host_from_gpu
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.tensor.type import TensorType


def on_host(variables):
    """Variables of the host with the same values; a transfer to the device is undone."""
    return [host_variable(v) for v in variables]


def host_variable(v):
    """`on_host` of one variable; what is none, None or a number, is given back."""
    if not isinstance(getattr(v, "type", None), GpuArrayType):
        return v
    return v.owner.inputs[0] if came_from_host(v) else host_from_gpu(v)


def came_from_host(v):
    """Whether a variable on a device is a copy of one of the host."""
    return v.owner is not None and isinstance(v.owner.op, GpuFromHost)


class TwinOp(GpuOp):
    """Mixin: shapes, derivatives and connections follow from those of `host_op`.

    Derivatives are expressions of the host between transfers, of which rules make expressions of the device, as of all others.
    """

    _f16_ok = True

    def twin(self, inputs):
        """The node of the Op on the host, on the same inputs."""
        return self.host_op(self.make_node(*inputs)).make_node(*on_host(inputs))

    def on_device(self, inputs, node, context_name):
        """A node of this Op with the outputs of a node of the host, in a context."""
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
        return [placed(g, x) for g, x in zip(gradients, inputs)]

    def R_op(self, inputs, eval_points):
        host = self.twin(inputs)
        directions = host.op.R_op(host.inputs, on_host(eval_points))
        return [placed(d, out) for d, out in zip(directions, self.make_node(*inputs).outputs)]


def placed(value, like):
    """A derivative that was made of variables of the host, where the variable `like` is; what stands for none is given back."""
    if isinstance(getattr(value, "type", None), TensorType) and isinstance(like.type, GpuArrayType):
        return as_gpuarray_variable(value, like.type.context_name)
    return value
