"""What Ops on devices have in common."""

import weakref

import numpy as np

from theano_ng.gof.destroy.failures import fails_on_values
from theano_ng.gof.graph import NoParams
from theano_ng.gof.native import NativeOp
from theano_ng.gof.op import Op
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.type import GpuArrayType


class GpuOp(NativeOp, Op):
    """Mixin of Ops whose outputs are on a device.

    A subclass says what it computes twice: by `native_code`, which launches kernels, and by `host_op`, the Op that does the same on the host, from which
    `perform` follows: inputs are copied to the host, and outputs to the device. DebugMode compares the two.
    """

    def host_op(self, node):
        """The Op on the host that computes the same."""
        raise NotImplementedError("%s does not say which Op on the host does the same" % type(self).__name__)

    def host_node(self, node):
        """`host_op` applied to variables of the host that stand for the node's inputs; one node for each node."""
        if node not in _host_nodes:
            # Not the inputs themselves, by which the node would live as long as what is kept for it.
            inputs = [v.type.host_type()() if isinstance(v.type, GpuArrayType) else v.clone() for v in node.inputs]
            _host_nodes[node] = self.host_op(node).make_node(*inputs)
        return _host_nodes[node]

    def fails_on_values(self, node):
        return fails_on_values(self.host_node(node))

    def takes_memory(self, node):
        return len(getattr(self, "destroy_map", None) or ()) < len(node.outputs)

    def perform(self, node, inputs, output_storage, params=None):
        host = self.host_node(node)
        cells = [[None] for _ in output_storage]
        values = [np.asarray(value) if isinstance(value, pygpu.GpuArray) else value for value in inputs]
        values = [v.copy() if i in _destroyed(host.op) else v for i, v in enumerate(values)]
        arguments = (host, values, cells)
        params = host.run_params()
        host.op.perform(*arguments, *(() if params is NoParams else (params,)))
        self.store(node, [value for (value,) in cells], inputs, output_storage)

    def store(self, node, values, inputs, output_storage):
        """Put results of the host where the node has its outputs: on the device, in the memory of the inputs that it overwrites."""
        overwritten = getattr(self, "destroy_map", {})
        for i, (storage, value, output) in enumerate(zip(output_storage, values, node.outputs)):
            if isinstance(output.type, GpuArrayType):
                value = pygpu.array(np.asarray(value, dtype=output.type.dtype), context=output.type.context)
                if i in overwritten:
                    target = inputs[overwritten[i][0]]
                    target[...] = value
                    value = target
            storage[0] = value


_host_nodes = weakref.WeakKeyDictionary()  # Apply -> the node on the host


def _destroyed(op):
    return {i for places in getattr(op, "destroy_map", {}).values() for i in places}


_in_use = {}  # address of a GpuContext -> itself


def context_address(context):
    """The word by which native code is given a context, which from now on lives as long as the process: as kernels do, thunks have its address."""
    _in_use[id(context)] = context
    return id(context)
