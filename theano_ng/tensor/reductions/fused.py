"""`ReducedElemwise`: an elementwise operation whose result is reduced while it is in the cache."""

import numpy as np

from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.loops.kernel import elemwise_kernel
from theano_ng.loops.program import Access, Fold
from theano_ng.scalar import Add
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.elemwise.divisors import OPERATIONS, integer_divisors
from theano_ng.tensor.elemwise.kernel import elemwise_program, operand_rows
from theano_ng.tensor.reductions.row_program import RowProgram, can_map, can_reduce_rows, reads_columns

_NATIVE = "theano_ng.tensor.native.reduce:reduce_elemwise"
#: The values of the parameter `folds` of the native code. native/reductions/reduce_elemwise.h uses the same numbers.
NO_SUM, ONE_SUM, SEPARATE_SUMS = range(3)


class ReducedElemwise(NativeOp, Op):
    """An Op that reduces the result of an elementwise operation without storing the intermediate array.

    The Op computes ``reduction(elemwise(*inputs))``. The rewriting rule `local_elemwise_reduction_fusion` replaces the
    two nodes by this Op. The Op computes the elementwise result in blocks that fit into the cache, and reduces one
    block after the other.

    Parameters
    ----------
    elemwise : Elemwise
        An operation with one output that overwrites no input.
    reduction : CAReduce
    """

    __props__ = ("elemwise", "reduction")
    _f16_ok = True

    def __init__(self, elemwise, reduction):
        self.elemwise = elemwise
        self.reduction = reduction

    def fails_on_values(self, node):
        inner, outer = self._nodes(node.inputs)
        return self.elemwise.fails_on_values(inner) or self.reduction.fails_on_values(outer)

    def __str__(self):
        return "%s of %s" % (self.reduction, self.elemwise)

    @property
    def axis(self):
        """The attribute `axis` of the reduction: the dimensions to reduce. None means all dimensions."""
        return self.reduction.axis

    def _nodes(self, inputs):
        """Return the elementwise node and the reduction node to which a node of this Op is equivalent."""
        inner = self.elemwise.make_node(*inputs)
        return inner, self.reduction.make_node(inner.outputs[0])

    def make_node(self, *inputs):
        inner, outer = self._nodes([as_tensor_variable(i) for i in inputs])
        return Apply(type(self)(inner.op, outer.op), inner.inputs, [outer.outputs[0].type()])

    def infer_shape(self, node, shapes):
        inner, outer = self._nodes(node.inputs)
        return self.reduction.infer_shape(outer, self.elemwise.infer_shape(inner, shapes))

    def L_op(self, inputs, outputs, grads):
        inner, outer = self._nodes(inputs)
        between = self.reduction.L_op(outer.inputs, outputs, grads)
        return self.elemwise.L_op(inputs, inner.outputs, between)

    def grad(self, inputs, grads):
        return self.L_op(inputs, [self(*inputs)], grads)

    def R_op(self, inputs, eval_points):
        inner, outer = self._nodes(inputs)
        return self.reduction.R_op(outer.inputs, self.elemwise.R_op(inputs, eval_points))

    def perform(self, node, inputs, output_storage):
        inner, outer = self._nodes(node.inputs)
        between = [[None]]
        self.elemwise.perform(inner, inputs, between)
        self.reduction.perform(outer, [np.asarray(between[0][0])], output_storage)

    def _fold(self, inner, outer):
        """Return a `Fold` if the kernel can sum the elementwise results itself. Otherwise, return None."""
        between = inner.outputs[0].type
        dtype = self.reduction._acc_dtype(between.dtype)
        if not isinstance(self.reduction.scalar_op, Add) or between.dtype == "float16":
            return None
        if dtype not in ("int64", "uint64", "float32", "float64") or between.dtype.startswith("complex"):
            return None
        return Fold(self.reduction.scalar_op, dtype, len(self.reduction._axes(between.ndim)) < between.ndim)

    def native_code(self, node):
        inner, outer = self._nodes(node.inputs)
        between = inner.outputs[0].type
        if between.ndim > 32:
            return None
        rows = can_reduce_rows(outer)
        if rows is not None and can_map(inner, rows) and not reads_columns(node.inputs):
            n = len(node.inputs)
            program = RowProgram([(self.elemwise, range(n)), (self.reduction, (n,))], (n + 1,), rows)
            return program.code_for(node.inputs)
        params = self.reduction._builtin_params(between.dtype, node.outputs[0].type.dtype, between.ndim)
        if params is None:
            return None
        divisors, fold = integer_divisors(inner), self._fold(inner, outer)
        program = elemwise_program(inner, divisors, fold)
        try:
            kernel, needs_python = elemwise_kernel(program)
        except (MethodNotDefined, NotImplementedError):
            return None
        if needs_python:
            return None
        return NativeCode(
            _NATIVE,
            **params,
            kernel=kernel,
            program=0,
            folds=NO_SUM if fold is None else SEPARATE_SUMS if fold.separate else ONE_SUM,
            has_maybe_broadcast=Access.MAYBE_BROADCAST in program.accesses,
            has_divisors=bool(divisors),
            computed_divisor=OPERATIONS[divisors.computed],
            operands=operand_rows(inner, program, {}, divisors),
        )
