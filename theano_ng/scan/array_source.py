"""Building blocks for kernels of `array_kernel`: writers of lengths, values and calls, and the data that the kernels
need at run time.
"""

from typing import NamedTuple

import numpy as np

from theano_ng.gof.graph import Constant
from theano_ng.gof.native import NativeCode
from theano_ng.loops.program import Literal
from theano_ng.scalar import Scalar
from theano_ng.scalar.types import c_type
from theano_ng.scan.kernel import StepWriter, is_number
from theano_ng.tensor.type import TensorType

__all__ = [
    "BAIL_OUT",
    "Array",
    "ArrayMemory",
    "ArraySource",
    "BoxHelper",
    "FoldHelper",
    "KernelHelper",
    "Layout",
    "NativeHelper",
    "Unsupported",
    "ctype",
]

# The statement that returns to the virtual machine.
BAIL_OUT = "{ *tng_left = 1; return tng_t; }"


class ArrayMemory(NamedTuple):
    """An array of the C function. It has separate memory, or is a view whose data pointer the function sets.

    Attributes
    ----------
    dtype : str
    dims : tuple of int
        Index of the length of each dimension, in memory order. Dimensions of length 1 are left out.
    order : tuple
        The order of the dimensions in the array, as the pattern of a DimShuffle.
    value : ndarray or None
        The content, if it never changes.
    """

    dtype: str
    dims: tuple
    order: tuple
    value: object


class NativeHelper(NamedTuple):
    """A native function, and the indices of its input and output arrays in `Layout.arrays`."""

    code: NativeCode
    inputs: tuple
    outputs: tuple


class FoldHelper(NamedTuple):
    """A function that reduces contiguous elements to one element; see `fold_of` of native/reductions/reduce.c.

    Attributes
    ----------
    operation, element_type, accumulator_type : int
    identity : bytes
        The initial value of the accumulator. It is empty for maxima and minima.
    """

    operation: int
    element_type: int
    accumulator_type: int
    identity: bytes


class BoxHelper(NamedTuple):
    """A function that reduces contiguous elements along some axes, with its packed parameters; see `fold_box` of
    native/reductions/reduce.c.
    """

    params: tuple


class KernelHelper(NamedTuple):
    """The kernel of an elementwise operation. It is compiled separately from the loop, because functions without loops
    use the same kernel, so that it is often in the cache already.
    """

    kernel: object


class Layout(NamedTuple):
    """The additional data of a kernel of `array_kernel`.

    Attributes
    ----------
    dims : tuple of tuple of int
        For each operand, the index of the length of each dimension of a row. -1 means length 1.
    lengths : tuple of int
        The lengths, as far as they are known before the loop runs. -1 stands for an unknown length.
    several : bool
        Whether an array has several dimensions. If so, `LoopThunk` uses the kernel only if all lengths exceed 1,
        because native functions take a different code path for dimensions of length 1.
    arrays : tuple of ArrayMemory
    helpers : tuple of NativeHelper, BoxHelper, FoldHelper and KernelHelper
    """

    dims: tuple
    lengths: tuple
    several: bool
    arrays: tuple
    helpers: tuple


class Unsupported(Exception):
    """The exception for a step that contains an operation that this module does not support."""


class Array(NamedTuple):
    """An array in the source code.

    Attributes
    ----------
    pointer : str
        Name of a C variable.
    memory : tuple of int
        The lengths of the dimensions, in memory order, without dimensions of length 1. The array is C-contiguous.
    shown : tuple of int or None
        For each dimension of the variable, its index in `memory`, or None if its length is 1.
    of_state : bool
        Whether the array is a view of a row of a state.
    """

    pointer: str
    memory: tuple
    shown: tuple
    of_state: bool = False

    @property
    def is_plain(self):
        """Return True if the dimensions are in memory order."""
        return [i for i in self.shown if i is not None] == list(range(len(self.memory)))

    @property
    def dims(self):
        """The length of each dimension of the variable. None means length 1."""
        return tuple(None if i is None else self.memory[i] for i in self.shown)


def ctype(v):
    return c_type(v.type.dtype)


class ArraySource(StepWriter):
    """A writer of the lengths, values and calls in the source code of a loop."""

    def __init__(self, op, fgraph, n_sinks):
        super().__init__()
        self.op, self.fgraph, self.n_sinks = op, fgraph, n_sinks
        self.names = {v: "tng_v%d" % k for k, v in enumerate(fgraph.inputs)}  # variable -> the name of a scalar in C
        self.parents, self.fixed = [], {}  # union-find forest of lengths that must be equal, and known lengths
        self.arrays = {}  # variable -> Array
        self.memory, self.views, self.helpers, self.functions = [], {}, [], {}
        self.setup, self.body = [], []
        self.sinks = {}  # variable -> number of the operand whose row may hold its value
        self.kernels = []
        self.lengths_of_numbers = {}  # variable whose value is a length -> number of this length. None: length 1

    # -- lengths

    def new_length(self, known=None):
        self.parents.append(len(self.parents))
        if known is not None:
            self.fixed[len(self.parents) - 1] = known
        return len(self.parents) - 1

    def find(self, length):
        while self.parents[length] != length:
            length = self.parents[length]
        return length

    def equate(self, *lengths):
        """Record that lengths are equal. The first length represents all of them, and is returned."""
        first = self.find(lengths[0])
        for other in map(self.find, lengths[1:]):
            if other == first:
                continue
            if first in self.fixed and self.fixed.get(other, self.fixed[first]) != self.fixed[first]:
                raise Unsupported
            if other in self.fixed:
                self.fixed[first] = self.fixed.pop(other)
            self.parents[other] = first
        return first

    def equate_all(self, ours, theirs):
        if [i is None for i in ours] != [i is None for i in theirs]:
            raise Unsupported
        for a, b in zip(ours, theirs):
            if a is not None:
                self.equate(a, b)

    @staticmethod
    def product(lengths):
        return " * ".join("tng_d%d" % i for i in lengths) or "1"

    # -- values

    def new_lengths(self, v):
        return tuple(None if b else self.new_length() for b in v.type.broadcastable)

    @staticmethod
    def check(v):
        kind = v.type
        if isinstance(kind, Scalar):
            number = True
        elif type(kind) is TensorType:
            number = is_number(v)
        else:
            raise Unsupported
        if kind.dtype == "float16" or kind.dtype.startswith("complex"):
            raise Unsupported
        return number

    def number(self, v):
        """Return the C name or literal of a scalar."""
        if v in self.names:
            return self.names[v]
        if not isinstance(v, Constant):
            raise Unsupported
        if isinstance(v.type, Scalar):
            name = "((%s)%s)" % (c_type(v.type.dtype), v.type.c_literal(v.data))
        elif self.check(v):
            name = self.constant(Literal(v.type.dtype, v.data.tobytes()))
        else:
            raise Unsupported
        self.names[v] = name
        return name

    def array(self, v):
        """Return the Array of a variable or constant."""
        if v not in self.arrays:
            if not isinstance(v, Constant) or self.check(v):
                raise Unsupported
            dims = [None if b else self.new_length(n) for n, b in zip(v.data.shape, v.type.broadcastable)]
            shape = [n for n, b in zip(v.data.shape, v.type.broadcastable) if not b]
            self.arrays[v] = self.new_array(v, dims, np.ascontiguousarray(v.data).reshape(shape))
        return self.arrays[v]

    def new_memory(self, v, memory, order, value=None):
        self.memory.append((v.type.dtype, tuple(memory), tuple(order), value))
        return len(self.memory) - 1

    def new_array(self, v, dims, value=None):
        """Return a new array with separate memory for a variable."""
        memory = tuple(i for i in dims if i is not None)
        at = iter(range(len(memory)))
        shown = tuple(None if i is None else next(at) for i in dims)
        k = self.new_memory(v, memory, ["x" if i is None else i for i in shown], value)
        name = "tng_a%d" % k
        self.setup.append("%s *const %s = (%s *)*tng_data[%d];" % (ctype(v), name, ctype(v), k))
        self.views[name, shown, memory] = k
        return Array(name, memory, shown)

    def result(self, v, dims):
        """Return the array for the result of an elementwise computation. If the result is an output, the array is the
        row of the output, unless the step reads this row. In all other cases the array has separate memory.
        """
        made = self.new_array(v, dims)
        k = self.sinks.pop(v, None)
        if k is not None:
            name = "tng_o%d" % k
            read = range(self.op.n_seqs + self.op.n_inner_taps)
            taken = " || ".join("(const void *)tng_p%d == (const void *)tng_p%d" % (k, i) for i in read)
            self.body.append(
                "%s *const %s = %s;"
                % (ctype(v), name, "%s ? %s : tng_p%d" % (taken, made.pointer, k) if taken else "tng_p%d" % k)
            )
            made = made._replace(pointer=name)
        self.arrays[v] = made
        return made

    def declare(self, v):
        """Declare a C variable for a scalar, and return the name of the variable."""
        name = self.names[v] = "tng_z%d" % len(self.names)
        self.body.append("%s %s;" % (ctype(v), name))
        return name

    def variable(self, v):
        """Return the C name of a scalar, for code that takes its address. Reject scalars that are C expressions."""
        name = self.number(v)
        if name.startswith("("):
            raise Unsupported
        return name

    # -- calls

    def broadcast(self, out, sources):
        """Return the lengths of the dimensions of the result of an elementwise operation."""
        dims = []
        for d, b in enumerate(out.type.broadcastable):
            lengths = [s.dims[d] for s in sources if s is not None and s.dims[d] is not None]
            if b != (not lengths) or not all(s.is_plain for s in sources if s is not None):
                raise Unsupported
            dims.append(self.equate(*lengths) if lengths else None)
        return dims

    @staticmethod
    def loops(dims, sources):
        """Group adjacent dimensions, so that one loop can iterate over all dimensions of a group.

        Return a pair (first dimension, lengths) for each loop, from the outermost to the innermost loop.
        """
        loops, before = [], None
        for d, length in enumerate(dims):
            if length is None:
                continue
            pattern = [s.dims[d] is None for s in sources]
            if pattern == before:
                loops[-1][1].append(length)
            else:
                loops.append((d, [length]))
            before = pattern
        return loops

    def element_address(self, source, loops):
        """Return a C expression: the address of the first element that the innermost loop reads or writes."""
        terms, members = [], []
        for d, lengths in reversed(loops):
            if source.dims[d] is None:
                continue
            if d != loops[-1][0]:
                terms.append("tng_i%d * (%s)" % (d, self.product(members)))
            members += lengths
        return "(%s)" % " + ".join([source.pointer, *terms])

    def call(self, node, kernel, sources, dims, results, divisors):
        """Write the call of an elementwise kernel.

        Parameters
        ----------
        node : Apply
        kernel : Kernel
        sources : list of Array or None
            One entry for each input. None for a scalar.
        dims : list
            The lengths of the result.
        results : list of Array or (str, str)
            The results: arrays, or names and C types of scalars.
        divisors : Divisors
        """
        k = self.functions.get(kernel)
        if k is None:
            k = self.functions[kernel] = len(self.helpers)
            self.helpers.append(KernelHelper(kernel))
            self.kernels.append(kernel)
            self.setup.append("const tng_inner tng_f%d = (tng_inner)tng_helpers[%d].function;" % (k, k))
        loops = self.loops(dims, [s for s in sources if s is not None])
        operands, strides = [], []
        for v, source in zip(node.inputs, sources):
            operands.append(
                "(char *)" + ("&" + self.variable(v) if source is None else self.element_address(source, loops))
            )
            steps = source is not None and source.dims[loops[-1][0]] is not None
            strides.append("(int64_t)sizeof(%s)" % ctype(v) if steps else "0")
        for result in results:
            if isinstance(result, Array):
                operands.append("(char *)" + self.element_address(result, loops))
                strides.append("(int64_t)sizeof(*%s)" % result.pointer)
            else:
                operands.append("(char *)&" + result[0])
                strides.append("0")
        if divisors:
            zero = "tng_zero%d" % len(self.body)
            self.body.append("int %s = 0;" % zero)
            operands.append("(char *)&" + zero)
        for d, members in loops[:-1]:
            self.body.append("for (int64_t tng_i%d = 0; tng_i%d < %s; ++tng_i%d)" % (d, d, self.product(members), d))
        count = self.product(loops[-1][1]) if loops else "1"
        self.body.append(
            "{ char *tng_q[] = {%s}; static const int64_t tng_e[] = {%s}; tng_f%d(%s, tng_q, tng_e); }"
            % (", ".join(operands), ", ".join(strides), k, count)
        )
        if divisors:
            self.body.append("if (%s) %s" % (zero, BAIL_OUT))

    def view(self, v):
        """Return the index of the array that is passed to native functions for a variable. Write code that fills the
        array, or that sets its data pointer.
        """
        if is_number(v):
            key = ("number", v)
            if key not in self.views:
                self.views[key] = self.new_memory(v, (), "x" * v.type.ndim)
            self.body.append("*(%s *)*tng_data[%d] = %s;" % (ctype(v), self.views[key], self.number(v)))
            return self.views[key]
        source = self.array(v)
        key = source.pointer, source.shown, source.memory
        if key not in self.views:
            self.views[key] = self.new_memory(v, source.memory, ["x" if i is None else i for i in source.shown])
        if source.pointer != "tng_a%d" % self.views[key]:
            self.body.append("*tng_data[%d] = (char *)%s;" % (self.views[key], source.pointer))
        return self.views[key]

    def call_native(self, node, code, dims_of_outputs, declare=True):
        """Write the call of a native function."""
        if code is None:
            raise Unsupported
        inputs = tuple(self.view(v) for v in node.inputs)
        outputs, loads = [], []
        for v, dims in zip(node.outputs, dims_of_outputs):
            if is_number(v):
                k = self.new_memory(v, (), "x" * v.type.ndim)
                if declare:
                    self.declare(v)
                loads.append("%s = *(const %s *)*tng_data[%d];" % (self.names[v], ctype(v), k))
            else:
                made = self.arrays[v] = self.new_array(v, dims)
                k = self.views[made.pointer, made.shown, made.memory]
            outputs.append(k)
        self.body.append("if (!tng_use(tng_helpers + %d)) %s" % (len(self.helpers), BAIL_OUT))
        self.body += loads
        self.helpers.append(NativeHelper(code, inputs, tuple(outputs)))
        self.kernels += code.kernels
