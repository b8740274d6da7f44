"""`GpuRowProgram`: reductions of rows of device arrays, combined with elementwise operations."""

import weakref

from theano_ng.gof.graph import Apply
from theano_ng.gof.provenance import is_from_package
from theano_ng.gpuarray.careduce import GpuCAReduceCuda
from theano_ng.gpuarray.elemwise import GpuDimShuffle
from theano_ng.gpuarray.kernels.reduce import dtype_after
from theano_ng.gpuarray.kernels.row_loop import ELEMENT, Map, RowFold, RowInput, RowLoop
from theano_ng.gpuarray.kernels.scalar_code import SupportCodeError
from theano_ng.gpuarray.op import GpuOp
from theano_ng.gpuarray.rows import row_code
from theano_ng.gpuarray.transfers import as_gpuarray_variable, infer_context_name
from theano_ng.tensor.reductions.row_program import RowProgram, RowShape, can_map


def can_reduce_rows(node, shape=None):
    """Return the `RowShape` of the rows that a node reduces. Return None if a program cannot contain the node.

    Parameters
    ----------
    node : Apply
    shape : RowShape, optional
        If given, the rows must have this shape.
    """
    op = node.op
    if type(op) is not GpuCAReduceCuda or not is_from_package(type(op.scalar_op)):
        return None
    (x,) = node.inputs
    rank, axes = x.type.ndim, op._axes(x.type.ndim)
    outer, pattern = rank - len(axes), tuple(x.type.broadcastable)
    if not 0 < outer < rank or rank > 32 or tuple(axes) != tuple(range(outer, rank)):
        return None
    if all(pattern[:outer]) or any(pattern[outer:]):
        return None
    found = RowShape(pattern[:outer], len(axes))
    return found if shape in (None, found) else None


_steps_of = weakref.WeakKeyDictionary()  # Apply -> list of the nodes of its steps, which `perform` computes


class GpuRowProgram(GpuOp, RowProgram):
    """An Op that applies reductions and elementwise operations to the rows of device arrays, in one kernel.

    Parameters
    ----------
    steps, outputs, shape
        See `tensor.reductions.row_program.RowProgram`. The operations are GpuElemwises, GpuCAReduceCudas and
        GpuDimShuffles.
    """

    __props__ = RowProgram.__props__
    _f16_ok = True

    def make_node(self, *inputs):
        """Apply the Op to device variables.

        Raises
        ------
        TypeError
            If a step cannot be applied to the types of its inputs, or cannot be computed row by row.
        """
        context_name = infer_context_name(*inputs)
        inputs = [as_gpuarray_variable(v, context_name) for v in inputs]
        nodes = self.nodes([v.type() for v in inputs])
        for k, node in enumerate(nodes):
            if not (
                can_reduce_rows(node, self.shape) if isinstance(node.op, GpuCAReduceCuda) else can_map(node, self.shape)
            ):
                raise TypeError(
                    "GpuRowProgram: step %d, %s, cannot be applied to rows of %s"
                    % (k, node.op, ", ".join([str(v.type) for v in node.inputs]))
                )
        values = [*inputs, *[node.outputs[0] for node in nodes]]
        return Apply(self, inputs, [values[k].type() for k in self.outputs])

    def fails_on_values(self, node):
        return False

    def perform(self, node, inputs, output_storage, params=None):
        values = list(inputs)
        if node not in _steps_of:
            _steps_of[node] = self.nodes([v.type() for v in node.inputs])
        for inner, (_, arguments) in zip(_steps_of[node], self.steps):
            cell = [None]
            inner.op.perform(inner, [values[a] for a in arguments], [cell])
            values.append(cell[0])
        for cell, k in zip(output_storage, self.outputs):
            cell[0] = values[k].copy()

    def code_for(self, inputs):
        try:
            return row_code(
                self.loop(inputs), inputs, [self.variables(inputs)[k] for k in self.outputs], len(self.shape.outer)
            )
        except SupportCodeError:
            return None

    def loop(self, inputs):
        """Return the row program for inputs of these types."""
        level = lambda v: self.shape.level(v.type.broadcastable)
        values = [RowInput(v.type.dtype, level(v)) for v in inputs]
        number = list(range(len(inputs)))  # number of a variable of this Op -> number of the value in the row program
        for node, (op, arguments) in zip(self.nodes(inputs), self.steps):
            arguments = tuple([number[a] for a in arguments])
            (out,) = node.outputs
            if isinstance(op, GpuDimShuffle):
                number.append(arguments[0])
                continue
            if isinstance(op, GpuCAReduceCuda):
                dtype = node.inputs[0].type.dtype
                if op.pre_scalar_op is not None:
                    dtype = dtype_after(op.pre_scalar_op, dtype)
                    values.append(Map(op.pre_scalar_op, arguments, dtype, ELEMENT))
                    arguments = (len(values) - 1,)
                values.append(RowFold(op.scalar_op, arguments[0], op._acc_dtype(dtype), out.type.dtype))
            else:
                values.append(Map(op.scalar_op, arguments, out.type.dtype, level(out)))
            number.append(len(values) - 1)
        steps = tuple(values[len(inputs) :])
        return RowLoop(tuple(values[: len(inputs)]), steps, tuple([number[k] for k in self.outputs]))
