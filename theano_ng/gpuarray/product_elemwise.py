"""`GpuProductElemwise`: a product of matrices or vectors on a device, with an elementwise operation on the result."""

import weakref

from theano_ng.gof.differentiate import Lop, Rop
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gpuarray.contexts import context_address
from theano_ng.gpuarray.elemwise import GpuElemwise
from theano_ng.gpuarray.kernels.product import product_code
from theano_ng.gpuarray.kernels.product_ending import Ending
from theano_ng.gpuarray.op import GpuOp
from theano_ng.gpuarray.transfers import as_gpuarray_variable, infer_context_name
from theano_ng.gpuarray.twin import on_host, to_context_of
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.type import TensorType

# The number of operands that fit into the arguments of a kernel, as in native/product.c
MOST_OPERANDS = 16


class GpuProductElemwise(GpuOp, Op):
    """An Op that computes a product and applies an elementwise operation to it, in one kernel.

    Parameters
    ----------
    product : BlasOp
        The product. It does not overwrite an input.
    scalar_op : ScalarOp
        The elementwise operation, with one output.
    position : int
        The input of `scalar_op` that is the product. The other inputs are the inputs of this Op that follow those of the
        product.
    inplace : bool
        If True, overwrite the first input. It must be the matrix that is added to the product.

    Notes
    -----
    The elementwise operation gets the elements of the product before they are rounded to float16. On CUDA devices,
    cuBLAS computes large products, and a second kernel applies the elementwise operation. The flag `gpuarray.epilogue`
    changes this.
    """

    __props__ = ("product", "scalar_op", "position", "inplace")
    _f16_ok = True

    def __init__(self, product, scalar_op, position, inplace=False):
        self.product, self.scalar_op, self.position, self.inplace = product, scalar_op, position, bool(inplace)
        if inplace:
            self.destroy_map = {0: [0]}

    def __setstate__(self, state):
        self.__dict__.update(state)
        if self.inplace:
            self.destroy_map = {0: [0]}

    def __str__(self):
        return "GpuProductElemwise{%s, %s%s}" % (self.product, self.scalar_op, ", inplace" if self.inplace else "")

    def can_overwrite(self, node):
        """Return True if the result of a node can overwrite the matrix that is added to the product."""
        return hasattr(self.product, "inplace") and node.outputs[0].dtype == node.inputs[0].dtype

    def clone_inplace(self):
        """Return the Op that overwrites its first input."""
        return type(self)(self.product, self.scalar_op, self.position, inplace=True)

    def make_node(self, *inputs):
        """Make a node. An operand on the host whose axes are all broadcastable stays on the host.

        Raises
        ------
        TypeError
            If the inputs are not those of the product, if there are too many operands, if the result does not have the
            shape of the product, or if it cannot overwrite the first input.
        SupportCodeError
            If kernels cannot compute the operation.
        """
        product, elemwise = self.nodes(inputs)
        given, (out,) = list(product.inputs), elemwise.outputs
        operands = [v for k, v in enumerate(elemwise.inputs) if k != self.position]
        for old, new in zip(inputs[len(given) :], operands):
            given.append(old if _is_number(old, out.ndim) else new)
        # A Composite computes in the dtypes for which it was made.
        op = type(self)(self.product, elemwise.op.scalar_op, self.position, self.inplace)
        node = Apply(op, given, [out.type()])
        if self.inplace and not self.can_overwrite(node):
            raise TypeError("%s: the result, of type %s, cannot overwrite the first input" % (self, out.type))
        return node

    def nodes(self, inputs):
        """Return the nodes of the product and of the elementwise operation for these inputs. All arrays are on a device.

        Raises
        ------
        TypeError
            See `make_node`.
        """
        count = len(self.product.ranks)
        product = self.product.make_node(*inputs[:count])
        (result,) = product.outputs
        operands = [as_gpuarray_variable(v, result.type.context_name) for v in inputs[count:]]
        operands.insert(self.position, result)
        elemwise = GpuElemwise(self.scalar_op).make_node(*operands)
        types = [(v.type.ndim, tuple(v.type.broadcastable)) for v in (result, *elemwise.outputs)]
        if len(elemwise.outputs) != 1 or types[0] != types[1] or len(operands) > MOST_OPERANDS + 1:
            raise TypeError(
                "%s needs at most %d operands, and one output with the shape of the product, %s; got %d operands, and "
                "the outputs %s" % (self, MOST_OPERANDS, result.type, len(operands) - 1, elemwise.outputs)
            )
        return product, elemwise

    def infer_shape(self, node, shapes):
        return self.product.infer_shape(node, shapes[: len(self.product.ranks)])

    def fails_on_values(self, node):
        return False

    # -- computation ---------------------------------------------------------------------------------------------------

    def perform(self, node, inputs, output_storage, params=None):
        if node not in _nodes:
            _nodes[node] = self.nodes([v.type() for v in node.inputs])
        product, elemwise = _nodes[node]
        count, cell = len(product.inputs), [None]
        product.op.perform(product, inputs[:count], [cell])
        operands = list(inputs[count:])
        operands.insert(self.position, cell[0])
        elemwise.op.perform(elemwise, operands, output_storage)
        if self.inplace:
            inputs[0][...] = output_storage[0][0]
            output_storage[0][0] = inputs[0]

    def native_code(self, node):
        count, (out,) = len(self.product.ranks), node.outputs
        operands = list(node.inputs[count:])
        rows = [
            dict(
                typecode=v.type.typecode if isinstance(v.type, GpuArrayType) else 0,
                is_number=not isinstance(v.type, GpuArrayType),
                broadcastable=sum(1 << d for d, b in enumerate(v.type.broadcastable) if b),
            )
            for v in operands
        ]
        dtype = node.inputs[0].dtype
        places = [k for k in range(len(operands) + 1) if k != self.position]
        dtypes = [v.dtype for v in operands]
        dtypes.insert(self.position, dtype)
        numbers = [place for place, row in zip(places, rows) if row["is_number"]]
        context_address(out.type.context)
        ending = Ending(self.scalar_op, tuple(dtypes), out.dtype, self.position, tuple(numbers))
        return product_code(self.product.kind, dtype, out.type.context, self.inplace, ending, rows)

    # -- derivatives, as expressions for the host ----------------------------------------------------------------------

    def _formula(self, inputs):
        """Return the host expression of the result, for inputs on the host."""
        count = len(self.product.ranks)
        operands = list(inputs[count:])
        operands.insert(self.position, self.product.formula(*inputs[:count]))
        return Elemwise(self.scalar_op)(*operands)

    def grad(self, inputs, output_gradients):
        host = on_host(inputs)
        gradients = Lop(self._formula(host), host, on_host(output_gradients)[0], disconnected_inputs="ignore")
        return [to_context_of(g, x) for g, x in zip(gradients, inputs)]

    def R_op(self, inputs, eval_points):
        host = on_host(inputs)
        moving = [(x, point) for x, point in zip(host, on_host(eval_points)) if point is not None]
        if not moving:
            return [None]
        found = Rop(self._formula(host), *map(list, zip(*moving)))
        return [None if found is None else as_gpuarray_variable(found, infer_context_name(inputs[0]))]


# Apply -> the nodes of the product and of the elementwise operation, which `perform` uses
_nodes = weakref.WeakKeyDictionary()


def _is_number(v, rank):
    """Return True if a variable is a number on the host, of this rank, which the kernel takes by value."""
    type_ = getattr(v, "type", None)
    return isinstance(type_, TensorType) and type_.ndim == rank and all(type_.broadcastable)
