"""The optimizer that passes numbers from the host to kernels by value, without a transfer."""

from theano_ng.compile.mode import optdb
from theano_ng.gof.graph import Apply
from theano_ng.gof.rewriting import Optimizer, copy_stack_trace
from theano_ng.gof.toolbox import ReplaceValidate
from theano_ng.gpuarray.elemwise import GpuDimShuffle, GpuElemwise, GpuElemwiseOfNumbers
from theano_ng.gpuarray.nnet import GpuCrossentropySoftmax1HotWithBiasDx
from theano_ng.gpuarray.row_program import GpuRowProgram
from theano_ng.gpuarray.twin import came_from_host
from theano_ng.tensor.elemwise.op import DimShuffle


class PassNumbersByValue(Optimizer):
    """Pass numbers to kernels of elementwise operations and rows by value if they come from the host. A number is an array whose type says that
    each length is 1.

    GpuElemwise(scalar.add)(A, GpuDimShuffle((), ("x", "x"))(gpu(s)))  ->
        GpuElemwiseOfNumbers(scalar.add)(A, s.dimshuffle("x", "x"))
    """

    def add_requirements(self, fgraph):
        fgraph.attach_feature(ReplaceValidate())

    def apply(self, fgraph):
        for node in fgraph.toposort():
            inputs = _with_numbers(node)
            if all(a is b for a, b in zip(inputs, node.inputs)) or not any(hasattr(v.type, "context") for v in inputs):
                continue
            op = node.op
            if isinstance(op, GpuElemwise):
                op = GpuElemwiseOfNumbers(op.scalar_op, dict(op.inplace_pattern), op.name, op.nfunc_spec)
            # Do not call make_node, which would transfer the numbers.
            outputs = Apply(op, inputs, [v.type() for v in node.outputs]).outputs
            copy_stack_trace(node.outputs, outputs)
            fgraph.replace_all_validate(list(zip(node.outputs, outputs)), reason=self)


def _with_numbers(node):
    """Return the inputs of a node, with numbers on the host in place of their transfers if the kernel accepts them."""
    if type(node.op) is GpuElemwise:
        overwritten = set(node.op.inplace_pattern.values())
        return [v if i in overwritten else _number(v) or v for i, v in enumerate(node.inputs)]
    if isinstance(node.op, GpuRowProgram):
        return [_number(v) or v for v in node.inputs]
    if isinstance(node.op, GpuCrossentropySoftmax1HotWithBiasDx):
        return [_number(node.inputs[0]) or node.inputs[0], *node.inputs[1:]]
    return node.inputs


def _number(v):
    """Return a host variable with the value of a number on a device that came from the host. Otherwise return None."""
    if came_from_host(v) and all(v.broadcastable):
        return v.owner.inputs[0]
    if v.owner is not None and isinstance(v.owner.op, GpuDimShuffle) and all(v.broadcastable):
        number = _number(v.owner.inputs[0])
        op = v.owner.op
        return None if number is None else DimShuffle(op.input_broadcastable, op.new_order)(number)
    return None


optdb.register("gpua_numbers_by_value", PassNumbersByValue(), 76, "fast_run", "gpuarray")
