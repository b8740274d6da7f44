"""`RowProgram`: an Op for reductions of rows, combined with elementwise operations."""

from typing import NamedTuple

import numpy as np

from theano_ng.compile.ops import view_op
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.differentiate import Rop, grad
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gof.provenance import is_from_package
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.loops.kernel import elemwise_kernel
from theano_ng.loops.program import Access
from theano_ng.scalar.divisors import divides
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.elemwise.divisors import integer_divisors
from theano_ng.tensor.elemwise.kernel import elemwise_program
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.reductions.careduce import CAReduce

__all__ = ["ELEMENT", "ONE", "ROW", "RowProgram", "RowShape", "can_map", "can_reduce_rows", "reads_columns"]

_NATIVE = "theano_ng.tensor.native.reduce:row_program"

# The levels of values: a single value, a value for each row, a value for each element. The numbers must be the same as
# in native/reductions/row_program.h.
ONE, ROW, ELEMENT = 0, 1, 2

# The kinds of entries. The numbers must be the same as in native/reductions/row_program.h.
_VALUE, _MAP, _FOLD, _ARGUMENT = 0, 1, 2, 3


class RowShape(NamedTuple):
    """The dimensions of the rows of a program.

    Attributes
    ----------
    outer : tuple of bool
        The broadcast pattern of the dimensions that count the rows.
    row_rank : int
        The number of dimensions of a row. None of these dimensions is broadcastable.
    """

    outer: tuple
    row_rank: int

    @property
    def rank(self):
        return len(self.outer) + self.row_rank

    def level(self, pattern):
        """Return the level of a variable with this broadcast pattern: ONE, ROW or ELEMENT.

        A variable of the level ONE has one value in total, a variable of the level ROW one value per row, and a
        variable of the level ELEMENT one value per element. Return None if a program cannot read the variable.
        """
        before, inner = pattern[: len(self.outer)], pattern[len(self.outer) :]
        if all(pattern):
            return ONE
        fits = len(pattern) >= len(self.outer) and all(here or not b for here, b in zip(before, self.outer))
        if not fits or len(pattern) not in (len(self.outer), self.rank):
            return None
        if all(inner):
            return ROW
        return None if any(inner) else ELEMENT

    def is_whole(self, pattern):
        """Return True if an array of this pattern has separate values for all rows, or for all elements of all rows."""
        return tuple(pattern[: len(self.outer)]) == self.outer and self.level(pattern) in (ROW, ELEMENT)


def can_reduce_rows(node, shape=None):
    """Return the `RowShape` of the rows that a node reduces. Return None if a program cannot contain the node.

    Parameters
    ----------
    node : Apply
    shape : RowShape, optional
        If given, the rows must have this shape.
    """
    op = node.op
    if not isinstance(op, CAReduce) or not is_from_package(type(op)):
        return None
    (x,), (z,) = node.inputs, node.outputs
    rank, axes = x.type.ndim, op._axes(x.type.ndim)
    outer = rank - len(axes)
    pattern = tuple(x.type.broadcastable)
    if not 0 < outer < rank or rank > 32 or tuple(axes) != tuple(range(outer, rank)):
        return None
    if all(pattern[:outer]) or any(pattern[outer:]):
        return None
    params = op._builtin_params(x.type.dtype, z.type.dtype, rank)
    if params is None or x.type.dtype.startswith("complex"):
        return None
    accumulator, result = params["accumulator_type"], params["result_type"]
    narrowed = (np.dtype("float64").num, np.dtype("float32").num)
    if accumulator != result and (accumulator, result) != narrowed:
        return None
    found = RowShape(pattern[:outer], len(axes))
    return found if shape in (None, found) else None


def can_map(node, shape):
    """Return True if a program can contain the node: an elementwise operation, or a DimShuffle of one value per row."""
    (out,) = node.outputs
    if isinstance(node.op, DimShuffle):
        n = len(shape.outer)
        kept, wide = tuple(range(n)), (*range(n), *["x"] * shape.row_rank)
        (x,) = node.inputs
        patterns = shape.outer, shape.outer + (True,) * shape.row_rank
        return (x.type.broadcastable, out.type.broadcastable, tuple(node.op.new_order)) in (
            (*patterns, wide),
            (*patterns[::-1], kept),
        ) and not all(shape.outer)
    pattern = out.type.broadcastable
    if not shape.is_whole(pattern) or divides(node.op.scalar_op) or integer_divisors(node):
        return False
    levels = [shape.level(v.type.broadcastable) for v in node.inputs]
    if shape.level(pattern) == ROW:
        same = all(level == ONE or v.type.broadcastable == pattern for level, v in zip(levels, node.inputs))
        return same and ELEMENT not in levels
    return None not in levels and all(len(v.type.broadcastable) == shape.rank for v in node.inputs)


def reads_columns(variables):
    """Return True if one of the variables is a transposed array.

    Separate nodes reduce the columns of such an array faster than a program.
    """
    nodes = [v.owner for v in variables if v.owner is not None and isinstance(v.owner.op, DimShuffle)]
    return any(list(node.op.shuffle) != sorted(node.op.shuffle) for node in nodes)


class RowProgram(NativeOp, Op):
    """An Op that applies reductions and elementwise operations to rows.

    A row remains in the cache during all operations.

    Parameters
    ----------
    steps : tuple of (Op, tuple of int)
        The operations in the order of computation, with the numbers of their arguments. The inputs have the first
        numbers, followed by the result of each step. The operations are Elemwises with one output, reductions along the
        last dimensions, and DimShuffles that add or remove these dimensions.
    outputs : tuple of int
        The numbers of the values that the Op returns.
    shape : RowShape

    Notes
    -----
    The rewriting rule `row_fusion` makes this Op. For a softmax that was written with elementary functions, its program
    is

    ::

        0: input
        1: max of 0
        2: DimShuffle of 1
        3: exp(i0 - i1) of 0, 2
        4: sum of 3
        ...
    """

    __props__ = ("steps", "outputs", "shape")
    _f16_ok = True

    def __init__(self, steps, outputs, shape):
        self.steps = tuple((op, tuple(arguments)) for op, arguments in steps)
        self.outputs = tuple(outputs)
        self.shape = shape

    def __str__(self):
        return "Rows{%s}" % ", ".join([str(op) for op, _ in self.steps if not isinstance(op, DimShuffle)])

    def program_lines(self, node):
        """Return the text of the program, one line for each step."""
        lines = ["v%d = load %s" % (k, v.type) for k, v in enumerate(node.inputs)]
        for k, (op, arguments) in enumerate(self.steps, len(node.inputs)):
            lines.append("v%d = %s(%s)" % (k, op, ", ".join(["v%d" % a for a in arguments])))
        return [*lines, "store %s" % ", ".join(["v%d" % k for k in self.outputs])]

    def fails_on_values(self, node):
        return any(inner.op.fails_on_values(inner) for inner in self.nodes(node.inputs))

    def nodes(self, inputs):
        """Return the nodes that compute the steps from the variables `inputs`."""
        values, nodes = list(inputs), []
        for op, arguments in self.steps:
            nodes.append(op.make_node(*[values[a] for a in arguments]))
            values.append(nodes[-1].outputs[0])
        return nodes

    def variables(self, inputs):
        """Return a list that contains the inputs, followed by the variables that the steps compute from them."""
        return [*inputs, *[node.outputs[0] for node in self.nodes(inputs)]]

    def make_node(self, *inputs):
        """Apply the Op to tensors.

        Raises
        ------
        TypeError
            If a step cannot be applied to the types of its inputs, or cannot be computed row by row.
        """
        inputs = [as_tensor_variable(i) for i in inputs]
        nodes = self.nodes([i.type() for i in inputs])
        for k, node in enumerate(nodes):
            if not (can_reduce_rows(node, self.shape) if isinstance(node.op, CAReduce) else can_map(node, self.shape)):
                raise TypeError(
                    "RowProgram: step %d, %s, cannot be applied to rows of %s"
                    % (k, node.op, ", ".join([str(v.type) for v in node.inputs]))
                )
        values = [*inputs, *[node.outputs[0] for node in nodes]]
        return Apply(self, inputs, [values[k].type() for k in self.outputs])

    def infer_shape(self, node, shapes):
        shapes = list(shapes)
        for inner, (_, arguments) in zip(self.nodes(node.inputs), self.steps):
            shapes += inner.op.infer_shape(inner, [shapes[a] for a in arguments])
        return [shapes[k] for k in self.outputs]

    def _results(self, inputs):
        values = self.variables(inputs)
        return [values[k] for k in self.outputs]

    def L_op(self, inputs, outputs, output_grads):
        # `grad` uses a known gradient as the whole gradient of a variable. But if a second result is computed from
        # a first result, the gradient of the first result has another term. So assign the known gradients to views of
        # the results, not to the results themselves.
        known = {
            view_op(result): g
            for result, g in zip(self._results(inputs), output_grads)
            if not isinstance(g.type, DisconnectedType)
        }
        return grad(
            None,
            list(inputs),
            known_grads=known,
            disconnected_inputs="ignore",
            return_disconnected="Disconnected",
            null_gradients="return",
        )

    def grad(self, inputs, output_grads):
        return self.L_op(inputs, None, output_grads)

    def R_op(self, inputs, eval_points):
        given = [(x, point) for x, point in zip(inputs, eval_points) if point is not None]
        if not given:
            return [None for _ in self.outputs]
        wrt, points = zip(*given)
        return Rop(self._results(inputs), list(wrt), list(points), disconnected_outputs="ignore")

    def perform(self, node, inputs, output_storage):
        values = list(inputs)
        for inner, (_, arguments) in zip(self.nodes([v.type() for v in node.inputs]), self.steps):
            cell = [None]
            inner.op.perform(inner, [values[a] for a in arguments], [cell])
            values.append(cell[0])
        for cell, k in zip(output_storage, self.outputs):
            cell[0] = np.array(values[k])

    def native_code(self, node):
        return self.code_for(node.inputs)

    def code_for(self, inputs):
        """Return the NativeCode for inputs of these types. Return None if an operation has no C code."""
        try:
            return _Packing(self, inputs).code()
        except (MethodNotDefined, NotImplementedError):
            return None


class _Packing:
    """The packed parameters of a program: its values, and its operations in the order of execution.

    A row is processed in several passes. An operation on elements that needs the result of a reduction runs in a later
    pass than this reduction.
    """

    def __init__(self, op, inputs):
        self.op, self.shape, self.n_inputs = op, op.shape, len(inputs)
        self.nodes = op.nodes(inputs)
        self.variables = [*inputs, *[node.outputs[0] for node in self.nodes]]
        # A DimShuffle computes nothing. `same` maps the number of its output to the number of its input.
        self.same = list(range(len(self.variables)))
        for k, (step, arguments) in enumerate(op.steps, self.n_inputs):
            if isinstance(step, DimShuffle):
                self.same[k] = self.same[arguments[0]]
        self.passes = self._passes()

    def level(self, k):
        return self.shape.level(self.variables[k].type.broadcastable)

    def _operations(self):
        """For each step, yield the number of the result, the operation, and the numbers of its arguments."""
        for k, (step, arguments) in enumerate(self.op.steps, self.n_inputs):
            if not isinstance(step, DimShuffle):
                yield k, step, [self.same[a] for a in arguments]

    def _passes(self):
        """Return a dict from the number of a step's result to the number of the pass in which the step runs."""
        available = [0] * len(self.variables)
        runs = {}
        for k, step, arguments in self._operations():
            runs[k] = max(available[a] for a in arguments)
            available[k] = runs[k] + isinstance(step, CAReduce)
        return runs

    def _order(self):
        """Return the operations in the order of execution. In each pass, operations on one value per row come first."""
        operations = [
            (self.passes[k], not (self.level(k) == ROW and isinstance(step, Elemwise)), k, step, arguments)
            for k, step, arguments in self._operations()
        ]
        return [operation[2:] for operation in sorted(operations, key=lambda operation: operation[:3])]

    def _buffers(self, order):
        """Assign buffers to the values per element that are needed in one pass only.

        Returns
        -------
        dict
            The number of a value -> the number of its buffer.
        int
            The number of buffers.
        """
        last, passes = {}, {}
        for place, (k, _, arguments) in enumerate(order):
            for a in arguments:
                last[a] = place
                passes.setdefault(a, set()).add(self.passes[k])
        outputs = {self.same[k] for k in self.op.outputs}
        buffers, free, count = {}, [], 0
        for place, (k, _, arguments) in enumerate(order):
            if self.level(k) == ELEMENT and k not in outputs and passes.get(k) == {self.passes[k]}:
                buffers[k] = free.pop() if free else count
                count = max(count, buffers[k] + 1)
            free += [buffers[a] for a in dict.fromkeys(arguments) if a in buffers and last[a] == place]
        return buffers, count

    def code(self):
        order = self._order()
        buffers, n_buffers = self._buffers(order)
        used = dict.fromkeys([a for k, _, arguments in order for a in (*arguments, k)])
        number = {k: i for i, k in enumerate(sorted(used))}
        outputs = {}
        for j, k in enumerate(self.op.outputs):
            outputs[self.same[k]] = j, self.variables[k].type
        entries = []
        for k in number:
            type_ = self.variables[k].type
            output, shown = outputs.get(k, (-1, type_))
            entries.append(
                _entry(
                    _VALUE,
                    level=self.level(k),
                    type=type_.numpy_dtype.num,
                    input=k if k < self.n_inputs else -1,
                    output=output,
                    ndim=shown.ndim,
                    broadcastable=sum(1 << d for d, b in enumerate(type_.broadcastable) if b),
                    buffer=buffers.get(k, -1),
                )
            )
        for k, step, arguments in order:
            node = self.nodes[k - self.n_inputs]
            params = dict(number=self.passes[k], level=self.level(k))
            if isinstance(step, CAReduce):
                fold = step._builtin_params(node.inputs[0].type.dtype, node.outputs[0].type.dtype, self.shape.rank)
                params.update({name: fold[name] for name in ("operation", "has_identity", "identity")})
                entries.append(_entry(_FOLD, type=fold["accumulator_type"], **params))
            else:
                entries.append(_entry(_MAP, kernel=self._kernel(node, k, arguments), **params))
            entries += [_entry(_ARGUMENT, number=number[a]) for a in (*arguments, k)]
        return NativeCode(
            _NATIVE, rank=self.shape.rank, row_rank=self.shape.row_rank, n_buffers=n_buffers, entries=entries
        )

    def _kernel(self, node, k, arguments):
        """Return the kernel of an elementwise operation."""
        program = elemwise_program(node, integer_divisors(node))
        rows_of_elements = self.level(k) == ELEMENT
        for a, access in zip(arguments, program.accesses):
            level = self.level(a)
            if level == ONE:
                expected = (Access.HOISTED,)
            elif rows_of_elements and level == ROW:
                expected = (Access.MAYBE_BROADCAST, Access.HOISTED)
            else:
                expected = (Access.VARYING,)
            if access not in expected:
                raise NotImplementedError("the kernel does not access an operand in the way that the driver expects")
        kernel, needs_python = elemwise_kernel(program)
        if needs_python:
            raise NotImplementedError("the kernel needs Python's C API, which RowProgram does not support")
        return kernel


def _entry(entry, **params):
    """Return an entry of the table. Parameters that are not given are 0 (`input`, `output` and `buffer`: -1)."""
    empty = dict(
        level=0, number=0, type=0, input=-1, output=-1, ndim=0, broadcastable=0, buffer=-1, kernel=0, program=0
    )
    return dict(empty, operation=0, has_identity=0, identity=b"", **{"entry": entry}) | params
