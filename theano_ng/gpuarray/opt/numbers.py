"""The optimizer that passes numbers from the host to kernels by value, without a transfer."""

from theano_ng.compile.mode import optdb
from theano_ng.gof.fg import InconsistencyError
from theano_ng.gof.graph import Apply
from theano_ng.gof.rewriting import Optimizer, copy_stack_trace
from theano_ng.gof.toolbox import ReplaceValidate
from theano_ng.gpuarray.elemwise import GpuDimShuffle, GpuElemwise, GpuElemwiseOfNumbers
from theano_ng.gpuarray.nnet import GpuCrossentropySoftmax1HotWithBiasDx
from theano_ng.gpuarray.product_elemwise import GpuProductElemwise
from theano_ng.gpuarray.row_program import GpuRowProgram
from theano_ng.gpuarray.twin import came_from_host
from theano_ng.tensor.elemwise.op import DimShuffle


class PassNumbersByValue(Optimizer):
    """Pass numbers from the host to kernels of elementwise operations and rows by value.

    A number is an array whose axes are all broadcastable. It stays on the device if a node on the host
    overwrites it before the kernel can run.

    GpuElemwise(scalar.add)(A, GpuDimShuffle((), ("x", "x"))(gpu(s)))  ->
        GpuElemwiseOfNumbers(scalar.add)(A, s.dimshuffle("x", "x"))
    """

    def add_requirements(self, fgraph):
        fgraph.attach_feature(ReplaceValidate())

    def apply(self, fgraph):
        for node in fgraph.toposort():
            numbers = _numbers(node)
            on_device = [i for i, v in enumerate(node.inputs) if hasattr(v.type, "context") and i not in numbers]
            if not numbers or not on_device:
                continue
            try:
                self._pass(fgraph, node, numbers)
            except InconsistencyError:
                for i in numbers:
                    try:
                        node = self._pass(fgraph, node, {i: numbers[i]})
                    except InconsistencyError:
                        pass  # this number stays on the device

    def _pass(self, fgraph, node, numbers):
        """Replace a node by one with these inputs on the host (a dictionary of positions), and return the new node."""
        op = node.op
        if type(op) is GpuElemwise:
            op = GpuElemwiseOfNumbers(op.scalar_op, dict(op.inplace_pattern), op.name, op.nfunc_spec)
        # Do not call make_node, which would transfer the numbers.
        inputs = [numbers.get(i, v) for i, v in enumerate(node.inputs)]
        new = Apply(op, inputs, [v.type() for v in node.outputs])
        copy_stack_trace(node.outputs, new.outputs)
        fgraph.replace_all_validate(list(zip(node.outputs, new.outputs)), reason=self)
        return new


def _numbers(node):
    """Return the numbers that the kernel of a node accepts by value, as a dictionary from positions of inputs to host
    variables.
    """
    if type(node.op) is GpuElemwise:
        overwritten = set(node.op.inplace_pattern.values())
        places = [i for i in range(len(node.inputs)) if i not in overwritten]
    elif isinstance(node.op, GpuProductElemwise):
        places = range(len(node.op.product.ranks), len(node.inputs))
    elif isinstance(node.op, GpuRowProgram):
        places = range(len(node.inputs))
    elif isinstance(node.op, GpuCrossentropySoftmax1HotWithBiasDx):
        places = [0]
    else:
        places = []
    found = [(i, _number(node.inputs[i])) for i in places]
    return {i: v for i, v in found if v is not None}


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
