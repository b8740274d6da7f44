"""The base class of Ops on devices."""

import weakref

import numpy as np

from theano_ng.gof.destroy.failures import fails_on_values
from theano_ng.gof.graph import NoParams
from theano_ng.gof.native import NativeOp
from theano_ng.gof.op import Op
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.type import GpuArrayType


class GpuOp(NativeOp, Op):
    """A mixin for Ops whose outputs are on a device.

    A subclass defines its computation twice. `native_code` launches kernels. `host_op` returns the equivalent Op for
    the host. `perform` runs the Op for the host on copies of the inputs, and copies the outputs to the device.
    DebugMode compares the two computations.
    """

    def host_op(self, node):
        """Return the equivalent Op for the host."""
        raise NotImplementedError("%s does not define the equivalent Op on the host" % type(self).__name__)

    def host_node(self, node):
        """Return a node of `host_op` on host variables that correspond to the node's inputs. The result is cached."""
        if node not in _host_nodes:
            # Do not use the inputs of `node`: the cached node would refer to them, and would keep its key `node` alive.
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
        """Copy results from the host to the node's outputs on the device. If an output overwrites an input, copy the
        result into the memory of the input.
        """
        overwritten = getattr(self, "destroy_map", {})
        for i, (storage, value, output) in enumerate(zip(output_storage, values, node.outputs)):
            if isinstance(output.type, GpuArrayType):
                value = pygpu.array(np.asarray(value, dtype=output.type.dtype), context=output.type.context)
                if i in overwritten:
                    target = inputs[overwritten[i][0]]
                    target[...] = value
                    value = target
            storage[0] = value


_host_nodes = weakref.WeakKeyDictionary()  # Apply -> node of the host Op


def _destroyed(op):
    return {i for places in getattr(op, "destroy_map", {}).values() for i in places}
