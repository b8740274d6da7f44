"""The pass that moves a graph to a device: it visits each node once, from inputs to outputs."""

from theano_ng.compile.ops import Shape_i
from theano_ng.gof.graph import Variable
from theano_ng.gof.op import PureOp
from theano_ng.gof.optdb import DB
from theano_ng.gof.rewriting import GraphToGPULocalOptGroup, Optimizer, copy_stack_trace
from theano_ng.gof.toolbox import ReplaceValidate
from theano_ng.gpuarray.basic_ops import GpuFromHost, HostFromGpu, host_from_gpu, infer_context_name
from theano_ng.gpuarray.transfers import moving_to
from theano_ng.gpuarray.type import ContextNotDefined, GpuArrayType, get_context, gpu_supported, move_to_gpu
from theano_ng.tensor.indexing.subtensor import Subtensor
from theano_ng.tensor.shaping.allocation import Alloc, AllocEmpty
from theano_ng.tensor.shaping.creation import Eye, Tri
from theano_ng.tensor.type import TensorType

# Ops that make large arrays from small inputs. Rules move them to a device even if no input is on the device.
CREATION = (Alloc, AllocEmpty, Eye, Tri)


class GraphToGPUDB(DB):
    """The database of the rules that move Ops to a device. A query returns a `GraphToGPU` with these rules."""

    def _build(self, q):
        return GraphToGPU(list(self.__query__(q)))


class GraphToGPU(Optimizer):
    """The optimizer that moves all nodes that can be moved.

    Function inputs are transferred, except 0-d values, complex arrays, and variables whose ``tag.target`` is "cpu". A
    node with an input on the device is moved if a rule applies to the node. Nodes that create arrays (`CREATION`) are
    moved even without such an input, to the context of the first node that reads the array and other arrays on a device.
    If a node stays on the host, its inputs on the device are transferred back.

    Parameters
    ----------
    rules : list of LocalOptimizer
        ``transform(op, context_name, inputs, outputs)`` returns an Op, variables, or False.
    """

    def __init__(self, rules):
        super().__init__()
        self.rules = rules
        self.group = GraphToGPULocalOptGroup(*rules) if rules else None

    def add_requirements(self, fgraph):
        fgraph.attach_feature(ReplaceValidate())

    def apply(self, fgraph):
        moved = {}  # variable of the graph -> its replacement, if it has one
        hosts = {}  # device variable -> its transfer to the host
        created = {}  # array that a node without inputs on a device creates -> the node, and its inputs
        for v in fgraph.inputs:
            target = target_of(v)
            if target is not None:
                moved[v] = GpuFromHost(*target)(v)
                hosts[moved[v]] = v

        def on_host(v):
            new = moved.get(v, v)
            if not isinstance(new.type, GpuArrayType) or isinstance(v.type, GpuArrayType):
                return new
            if new not in hosts:
                hosts[new] = host_from_gpu(new)
            return hosts[new]

        for node in fgraph.toposort():
            if isinstance(node.op, HostFromGpu):
                # The user's graph transfers a device variable to the host. Continue with the device variable.
                new = moved[node.outputs[0]] = moved.get(node.inputs[0], node.inputs[0])
                hosts.setdefault(new, node.outputs[0])
                continue
            inputs = [moved.get(v, v) for v in node.inputs]
            outputs = self._moved(node, inputs, created)
            if outputs is None:
                inputs = [on_host(v) for v in node.inputs]
                if all(a is b for a, b in zip(inputs, node.inputs)):
                    continue
                outputs = node.clone_with_new_inputs(inputs, strict=True).outputs
            elif isinstance(node.op, CREATION) and not any(isinstance(v.type, GpuArrayType) for v in inputs):
                created[outputs[0]] = node, inputs
            copy_stack_trace(node.outputs, outputs)
            moved.update(zip(node.outputs, outputs))
            for old, new in zip(node.outputs, outputs):
                if not getattr(old.tag, "nan_guard_mode_check", True):
                    new.tag.nan_guard_mode_check = False
        pairs = [(v, on_host(v)) for v in fgraph.outputs]
        for old, new in pairs:
            copy_stack_trace(old, new)
        fgraph.replace_all_validate([pair for pair in pairs if pair[0] is not pair[1]], reason=self)

    def _moved(self, node, inputs, created):
        """Return the outputs of the device node that replaces a node, or None if no node replaces it."""
        if self.group is None or any(isinstance(v.type, GpuArrayType) for v in node.outputs):
            return None
        if not all(gpu_supported(v) for v in node.outputs if hasattr(v.type, "dtype")):
            return None
        there = [v for v in inputs if isinstance(v.type, GpuArrayType)]
        if there:
            context_name = min(there, key=lambda v: (v in created, was_sent(v))).type.context_name
        elif isinstance(node.op, CREATION) and any(move_to_gpu(v) and v.clients for v in node.outputs):
            try:
                context_name = infer_context_name(*inputs)
            except ContextNotDefined:
                return None
        else:
            return None
        inputs = [self._created_in(context_name, sent_to(context_name, v), created) for v in inputs]
        return self._transformed(node, context_name, inputs)

    def _created_in(self, context_name, v, created):
        """Return an array like `v` that is created in this context, if `v` is one of the `created` arrays of another
        context. Otherwise return `v`.
        """
        if v not in created or v.type.context_name == context_name:
            return v
        node, inputs = created[v]
        outputs = self._transformed(node, context_name, inputs)
        if outputs is None:
            return v
        copy_stack_trace(node.outputs, outputs)
        return outputs[0]

    def _transformed(self, node, context_name, inputs):
        """Return the outputs of the node in this context that replaces a node, or None if no rule applies to the node."""
        with moving_to(context_name):
            outputs = rule_outputs(self.group.transform(node.op, context_name, inputs, node.outputs), inputs)
        return outputs if outputs is None or len(outputs) == len(node.outputs) else None

    def print_summary(self, stream=None, level=0, depth=-1):
        import sys

        stream = stream or sys.stdout
        print("%sGraphToGPU (%d rules)" % (" " * level, len(self.rules)), file=stream)
        if depth != 0 and self.group is not None:
            self.group.print_summary(stream, level + 2, depth - 1)


def was_sent(v):
    """Return True if a device variable is the transfer of a host variable.

    A rule moves a node to the context of one of its device inputs. Inputs that were computed on a device have
    precedence over such transfers.
    """
    return v.owner is not None and isinstance(v.owner.op, GpuFromHost)


def sent_to(context_name, v):
    """Return a variable that is sent to this context, if `v` is the transfer of a host variable. Otherwise return `v`."""
    if isinstance(v.type, GpuArrayType) and was_sent(v) and v.type.context_name != context_name:
        return GpuFromHost(context_name)(v.owner.inputs[0])
    return v


def rule_outputs(new, inputs):
    """Convert the return value of a rule to a list of output variables.

    Parameters
    ----------
    new : Op, variable, list of variables, or false
    inputs : list of Variable
        Inputs of the Op, if `new` is an Op.

    Returns
    -------
    list of Variable or None
    """
    if not new:
        return None
    if isinstance(new, PureOp):
        return new(*inputs, return_list=True)
    return [new] if isinstance(new, Variable) else list(new)


def target_of(v):
    """Return ``(name,)`` with the name of the context to which a function input is transferred. Return None if the
    input stays on the host.

    Raises
    ------
    ContextNotDefined
        If ``v.tag.target`` names a context that does not exist.
    """
    if not isinstance(v.type, TensorType) or not move_to_gpu(v):
        return None
    target = getattr(v.tag, "target", None)
    if target == "cpu":
        return None
    try:
        get_context(target)
    except ContextNotDefined:
        if target is not None:
            raise
        return None
    return (target,)


class InputToGpuOptimizer(Optimizer):
    """An optimizer that replaces function inputs by their transfers to a device and back to the host. Then the rules
    for single nodes can move the nodes that read these transfers.
    """

    def apply(self, fgraph):
        for v in fgraph.inputs:
            readers = [(c, i) for c, i in v.clients if c != "output" and not _reads_on_host(c)]
            target = target_of(v) if readers else None
            if target is not None:
                sent = GpuFromHost(*target)(v)
                new = host_from_gpu(sent)
                copy_stack_trace(readers[0][0].outputs, [sent, new])
                for client, i in readers:
                    fgraph.change_input(client, i, new, reason=self)


def _reads_on_host(node):
    """Return True if a node should read a function input on the host. Such nodes are transfers, nodes that read a
    length, and Subtensors whose results are transferred to a device.
    """
    if isinstance(node.op, Subtensor):
        return all(c != "output" and isinstance(c.op, GpuFromHost) for c, _ in node.outputs[0].clients)
    return isinstance(node.op, (GpuFromHost, Shape_i))
