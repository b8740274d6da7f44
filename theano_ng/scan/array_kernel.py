"""Loops whose steps also reduce, multiply by matrices, broadcast and index: one C function, with the loop over the steps inside.

Numbers are C variables, arrays have memory of their own that serves all steps. The elementwise operations on arrays are the kernels that
`Elemwise` has, reductions and products the native functions of the package, all called through pointers. So all tiers compute the same bits,
and there is little to compile. What the function cannot go on with (an index out of bounds, a zero that divides an integer, an error in a
native function) it leaves to the machine of the step, which does that step again and says what is wrong.
"""

from typing import NamedTuple

import numpy as np

from theano_ng.compile.ops import Rebroadcast, Shape_i, ViewOp
from theano_ng.gof.graph import Constant
from theano_ng.gof.native import NativeCode, native_code_of
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.scalar import Scalar, get_scalar_type
from theano_ng.scalar.divisors import divides
from theano_ng.scan.backward import CHEAP
from theano_ng.scan.kernel import LoopKernel, Step, advance_rows, declare_rows, is_number
from theano_ng.tensor.blas.ops import Gemv, Ger
from theano_ng.tensor.constant import constant
from theano_ng.tensor.elemwise.divisors import integer_divisors
from theano_ng.tensor.elemwise.kernel import elemwise_kernel, operand_classes
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.indexing.lists import get_idx_list
from theano_ng.tensor.indexing.subtensor import IncSubtensor, Subtensor
from theano_ng.tensor.linalg.products import Dot
from theano_ng.tensor.nnet.softmax import Softmax
from theano_ng.tensor.reductions.careduce import CAReduce
from theano_ng.tensor.reductions.extremes import Argmax, MaxAndArgmax
from theano_ng.tensor.reductions.fused import ReducedElemwise
from theano_ng.tensor.shaping.allocation import Alloc, AllocEmpty
from theano_ng.tensor.shaping.reshaping import ScalarFromTensor, TensorFromScalar
from theano_ng.tensor.type import TensorType

__all__ = ["ArrayMemory", "Fold", "Inner", "Layout", "Tool", "array_kernel"]

# Up to here what is done here gives the bits of native/reduce.c: elements that it adds up without halving them, or in one block.
_UNHALVED, _LEAF, _BLOCK_BYTES, _COLUMNS = 2048, 4096, 32768, 1024

_LEAVE = "{ *tng_left = 1; return tng_t; }"

# The struct is that of _loop.pyx.
_SUPPORT = """\
typedef struct {
    int (*function)(int, int, void **, void **, const int64_t *);
    int64_t n_ins, n_outs;
    void **ins, **outs, **own;
    const int64_t *words;
} tng_tool;
typedef void (*tng_inner)(int64_t n, char **ptr, const int64_t *stride);
typedef void (*tng_fold)(int64_t n, char *acc, int64_t acc_stride, const char *x, int64_t x_stride);
/* Whether a native function did its work, on the arrays that it was given. */
TNG_INLINE int tng_use(const tng_tool *tool)
{
    if (tool->function((int)tool->n_ins, (int)tool->n_outs, tool->ins, tool->outs, tool->words))
        return 0;
    for (int64_t i = 0; i < tool->n_outs; ++i)
        if (tool->outs[i] != tool->own[i])
            return 0;
    return 1;
}
"""


class ArrayMemory(NamedTuple):
    """An array of the function: memory of its own, or a view of what the function points it to.

    Attributes
    ----------
    dtype : str
    dims : tuple of int
        Which of the lengths each dimension has, in the order of memory; -1: 1.
    order : tuple
        How these are shown, as the pattern of a DimShuffle.
    value : ndarray or None
        What is in it, if that never changes.
    """

    dtype: str
    dims: tuple
    order: tuple
    value: object


class Tool(NamedTuple):
    """A native function, and the numbers of the arrays that it is called with."""

    code: NativeCode
    inputs: tuple
    outputs: tuple


class Fold(NamedTuple):
    """The function that reduces contiguous elements to one; as for `fold_of` of native/reduce.c.

    Attributes
    ----------
    operation, element_type, accumulator_type : int
    identity : bytes
        What the accumulator begins with; empty for extremes.
    """

    operation: int
    element_type: int
    accumulator_type: int
    identity: bytes


class Inner(NamedTuple):
    """The kernel of an elementwise operation: compiled apart, for other functions need it too, and most are there already."""

    kernel: object


class Layout(NamedTuple):
    """What a kernel of this module needs beside the rows.

    Attributes
    ----------
    dims : tuple of tuple of int
        For each operand, which of the lengths each dimension of a row has; -1: 1.
    lengths : tuple of int
        Those that are known; -1 for the others.
    several : bool
        Whether there are arrays of several dimensions. Native functions go another way where one of them is 1.
    arrays : tuple of ArrayMemory
    tools : tuple of Tool, Fold and Inner
    """

    dims: tuple
    lengths: tuple
    several: bool
    arrays: tuple
    tools: tuple


class _Impossible(Exception):
    """The step holds something that this module does not write."""


class _Array(NamedTuple):
    """An array in the text.

    Attributes
    ----------
    pointer : str
        A C variable.
    memory : tuple of int
        The lengths of its dimensions, but for those of length 1, in the order of memory: it is C-contiguous.
    shown : tuple of int or None
        For each dimension of the variable which of `memory` it is; None: its length is 1.
    of_state : bool
        Whether it is a view of a row of a state.
    """

    pointer: str
    memory: tuple
    shown: tuple
    of_state: bool = False

    @property
    def is_plain(self):
        """Whether the dimensions are in the order of memory."""
        return [i for i in self.shown if i is not None] == list(range(len(self.memory)))

    @property
    def dims(self):
        """The length of each dimension of the variable; None: 1."""
        return tuple(None if i is None else self.memory[i] for i in self.shown)


def array_kernel(op, fgraph):
    """The kernel of a loop, or None where a step does something that this module does not write.

    Parameters
    ----------
    op : Scan
    fgraph : FunctionGraph
        The rewritten graph of a step.

    Returns
    -------
    LoopKernel or None
    """
    n_sinks = op.n_outputs_before_results + op.n_nit_sot
    if op.n_shared_outs or not n_sinks:
        return None
    try:
        return _Text(op, fgraph, n_sinks).kernel_of_loop()
    except (_Impossible, MethodNotDefined, NotImplementedError):
        return None


def _ctype(v):
    return get_scalar_type(v.type.dtype).dtype_specs()[1]


class _Text(Step):
    """The text of a loop."""

    def __init__(self, op, fgraph, n_sinks):
        super().__init__(fgraph)
        self.op, self.n_sinks = op, n_sinks
        self.parents, self.fixed = [], {}  # of lengths that have turned out to be equal
        self.arrays = {}  # variable -> _Array
        self.memory, self.views, self.tools, self.functions = [], {}, [], {}
        self.setup, self.body = [], []
        self.sinks = {}  # variable -> number of the operand whose row it may be computed into
        self.kernels = []

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
        """Take lengths for equal; the first one stands for all."""
        first = self.find(lengths[0])
        for other in map(self.find, lengths[1:]):
            if other == first:
                continue
            if first in self.fixed and self.fixed.get(other, self.fixed[first]) != self.fixed[first]:
                raise _Impossible
            if other in self.fixed:
                self.fixed[first] = self.fixed.pop(other)
            self.parents[other] = first
        return first

    def equate_all(self, ours, theirs):
        if [i is None for i in ours] != [i is None for i in theirs]:
            raise _Impossible
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
            raise _Impossible
        if kind.dtype == "float16" or kind.dtype.startswith("complex"):
            raise _Impossible
        return number

    def number(self, v):
        """The C name of a number."""
        name = self.name(v)
        if name is None and isinstance(v, Constant) and isinstance(v.type, Scalar):
            name = self.names[v] = "((%s)%s)" % (v.type.dtype_specs()[1], v.type.c_literal(v.data))
        if name is None:
            raise _Impossible
        return name

    def array(self, v):
        """The _Array of a variable, or of a constant."""
        if v not in self.arrays:
            if not isinstance(v, Constant) or self.check(v):
                raise _Impossible
            dims = [None if b else self.new_length(n) for n, b in zip(v.data.shape, v.type.broadcastable)]
            shape = [n for n, b in zip(v.data.shape, v.type.broadcastable) if not b]
            self.arrays[v] = self.own(v, dims, np.ascontiguousarray(v.data).reshape(shape))
        return self.arrays[v]

    def new_memory(self, v, memory, order, value=None):
        self.memory.append((v.type.dtype, tuple(memory), tuple(order), value))
        return len(self.memory) - 1

    def own(self, v, dims, value=None):
        """An array with memory of its own, for a variable."""
        memory = tuple(i for i in dims if i is not None)
        at = iter(range(len(memory)))
        shown = tuple(None if i is None else next(at) for i in dims)
        k = self.new_memory(v, memory, ["x" if i is None else i for i in shown], value)
        name = "tng_a%d" % k
        self.setup.append("%s *const %s = (%s *)*tng_data[%d];" % (_ctype(v), name, _ctype(v), k))
        self.views[name, shown, memory] = k
        return _Array(name, memory, shown)

    def result(self, v, dims):
        """An array that a node computes element by element: the row of an output where nothing is read in this step, else memory of its own."""
        made = self.own(v, dims)
        k = self.sinks.pop(v, None)
        if k is not None:
            name = "tng_o%d" % k
            read = range(self.op.n_seqs + self.op.n_inner_taps)
            taken = " || ".join("(const void *)tng_p%d == (const void *)tng_p%d" % (k, i) for i in read)
            self.body.append(
                "%s *const %s = %s;"
                % (_ctype(v), name, "%s ? %s : tng_p%d" % (taken, made.pointer, k) if taken else "tng_p%d" % k)
            )
            made = made._replace(pointer=name)
        self.arrays[v] = made
        return made

    # -- nodes

    def add_node(self, node):
        for v in (*node.inputs, *node.outputs):
            self.check(v)
        for kind, write in _WRITERS.items():
            if isinstance(node.op, kind):
                return write(self, node)
        raise _Impossible

    def on_numbers(self, node):
        """An elementwise operation on numbers."""
        first = len(self.parts)
        if divides(node.op.scalar_op) or not self.add(node):
            return False
        (part,) = self.parts[first:]
        self.body += ["%s %s;" % (ctype, name) for name, ctype in part.results.items()]
        self.body += ["{", part.text, "}"]
        self.body += ["TNG_ROUNDED(%s);" % name for name, t in part.results.items() if "float" in t]
        return True

    def elemwise(self, node):
        numbers, scalar_op = all(map(is_number, node.outputs)), node.op.scalar_op
        if numbers and self.on_numbers(node):
            return
        divisors = integer_divisors(node)
        kernel, needs_python = elemwise_kernel(node.op.scalar_op, node, operand_classes(node), divisors)
        if needs_python:
            raise _Impossible
        sources = [None if is_number(v) else self.array(v) for v in node.inputs]
        dims = self.broadcast(node.outputs[0], sources)
        if not isinstance(scalar_op, CHEAP) and len(self.loops(dims, [s for s in sources if s is not None])) > 1:
            # Which loop runs there is for native/elemwise.c to say: roundings may be others.
            plain = Elemwise(scalar_op).make_node(*node.inputs)
            self.use(node, native_code_of(plain), [dims for _ in node.outputs])
            return
        results = (
            [(self.declare(v), _ctype(v)) for v in node.outputs]
            if numbers
            else [self.result(v, dims) for v in node.outputs]
        )
        self.call(node, kernel, sources, dims, results, divisors)

    def call(self, node, kernel, sources, dims, results, divisors):
        """Call the kernel of an elementwise operation.

        Parameters
        ----------
        node : Apply
        kernel : Kernel
        sources : list of _Array or None
            For each input; None: a number.
        dims : list
            The lengths of what is computed.
        results : list of _Array or (str, str)
            Where the results are: arrays, or names and C types of numbers.
        divisors : Divisors
        """
        k = self.functions.get(kernel)
        if k is None:
            k = self.functions[kernel] = len(self.tools)
            self.tools.append(Inner(kernel))
            self.kernels.append(kernel)
            self.setup.append("const tng_inner tng_f%d = (tng_inner)tng_tools[%d].function;" % (k, k))
        loops = self.loops(dims, [s for s in sources if s is not None])
        operands, strides = [], []
        for v, source in zip(node.inputs, sources):
            operands.append("(char *)" + ("&" + self.variable(v) if source is None else self.place(source, loops)))
            steps = source is not None and source.dims[loops[-1][0]] is not None
            strides.append("(int64_t)sizeof(%s)" % _ctype(v) if steps else "0")
        for result in results:
            if isinstance(result, _Array):
                operands.append("(char *)" + self.place(result, loops))
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
            self.body.append("if (%s) %s" % (zero, _LEAVE))

    def variable(self, v):
        """The C name of a number whose address can be taken."""
        name = self.number(v)
        if name.startswith("("):
            raise _Impossible
        return name

    def broadcast(self, out, sources):
        """The lengths of what an elementwise operation computes."""
        dims = []
        for d, b in enumerate(out.type.broadcastable):
            lengths = [s.dims[d] for s in sources if s is not None and s.dims[d] is not None]
            if b != (not lengths) or not all(s.is_plain for s in sources if s is not None):
                raise _Impossible
            dims.append(self.equate(*lengths) if lengths else None)
        return dims

    @staticmethod
    def loops(dims, sources):
        """The dimensions in groups that one loop goes through: (the first one, lengths), outermost first."""
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

    def place(self, source, loops):
        """Where the elements of an array are that the innermost loop goes through."""
        terms, members = [], []
        for d, lengths in reversed(loops):
            if source.dims[d] is None:
                continue
            if d != loops[-1][0]:
                terms.append("tng_i%d * (%s)" % (d, self.product(members)))
            members += lengths
        return "(%s)" % " + ".join([source.pointer, *terms])

    def dimshuffle(self, node):
        (v,), (out,) = node.inputs, node.outputs
        if is_number(v):
            if not is_number(out):
                raise _Impossible
            self.names[out] = self.number(v)
            return
        source = self.array(v)
        shown = tuple(None if i == "x" else source.shown[i] for i in node.op.new_order)
        self.arrays[out] = source._replace(shown=shown)

    def same(self, node):
        (v,), (out,) = node.inputs, node.outputs
        if is_number(v) != is_number(out):
            raise _Impossible
        if is_number(v):
            self.names[out] = self.number(v)
        else:
            self.arrays[out] = self.array(v)

    def same_number(self, node):
        self.names[node.outputs[0]] = self.number(node.inputs[0])

    def length_of(self, node):
        (v,) = node.inputs
        length = None if is_number(v) else self.array(v).dims[node.op.i]
        name = self.names[node.outputs[0]] = "tng_z%d" % len(self.names)
        self.body.append("const npy_int64 %s = %s;" % (name, 1 if length is None else "tng_d%d" % length))
        self.lengths_of_numbers[node.outputs[0]] = length

    def alloc_empty(self, node):
        (out,) = node.outputs
        if is_number(out):
            raise _Impossible
        self.arrays[out] = self.own(out, self.allocated(out, node.inputs))

    def allocated(self, out, lengths):
        dims = []
        for v, b in zip(lengths, out.type.broadcastable):
            if b:
                dims.append(None)
            elif isinstance(v, Constant):
                dims.append(self.new_length(int(v.data)))
            elif self.lengths_of_numbers.get(v) is not None:
                dims.append(self.lengths_of_numbers[v])
            else:
                raise _Impossible
        return dims

    def alloc(self, node):
        (out,), value = node.outputs, node.inputs[0]
        if is_number(out) or not is_number(value):
            raise _Impossible
        made = self.result(out, self.allocated(out, node.inputs[1:]))
        self.body.append(
            "for (int64_t tng_i = 0; tng_i < %s; ++tng_i) %s[tng_i] = %s;"
            % (self.product(made.memory), made.pointer, self.number(value))
        )

    # -- indices

    def indices(self, node, n_before, source):
        """What indexes each dimension: the C text of a checked index, or None for all of it."""
        found = []
        for index in get_idx_list(node.inputs[:1] + node.inputs[n_before:], node.op.idx_list):
            d = len(found)
            if isinstance(index, slice):
                if index != slice(None):
                    raise _Impossible
                found.append(None)
                continue
            if source.dims[d] is None:
                raise _Impossible
            if isinstance(index, (int, np.integer)):
                value = str(int(index))
            else:
                if index.type.dtype not in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"):
                    raise _Impossible
                value = self.number(index)
            name = "tng_x%d" % len(self.body)
            self.body += [
                "int64_t %s = (int64_t)%s;" % (name, value),
                "if (%s < 0) %s += tng_d%d;" % (name, name, source.dims[d]),
                "if (%s < 0 || %s >= tng_d%d) %s" % (name, name, source.dims[d], _LEAVE),
            ]
            found.append(name)
        return found + [None] * (len(source.dims) - len(found))

    @staticmethod
    def leading(indices, source):
        """How many dimensions are indexed, where these are the first ones and no others."""
        n = sum(i is not None for i in indices)
        if not source.is_plain or None in indices[:n]:
            return None
        return n

    def offset(self, indices, source):
        """The place of the element, or of the first one, in elements."""
        terms = []
        for d, index in enumerate(indices):
            if index is not None:
                terms.append("%s * (%s)" % (index, self.product(source.memory[source.shown[d] + 1 :])))
        return " + ".join(terms) or "0"

    def subtensor(self, node):
        (out,), v = node.outputs, node.inputs[0]
        source = self.array(v)
        indices = self.indices(node, 1, source)
        start = "%s + %s" % (source.pointer, self.offset(indices, source))
        kept = [d for d, index in enumerate(indices) if index is None]
        if is_number(out) and all(source.dims[d] is None for d in kept):
            name = self.names[out] = "tng_z%d" % len(self.names)
            self.body.append("const %s %s = *(%s);" % (_ctype(out), name, start))
            return
        n = self.leading(indices, source)
        if n is not None:
            name = "tng_y%d" % len(self.body)
            self.body.append("const %s *const %s = %s;" % (_ctype(out), name, start))
            memory = source.memory[n:]
            shown = tuple(None if source.shown[d] is None else source.shown[d] - n for d in kept)
            self.arrays[out] = _Array(name, memory, shown, source.of_state)
            return
        dims = [source.dims[d] for d in kept]
        made = self.result(out, dims)
        strides = [self.product(source.memory[source.shown[d] + 1 :]) for d in kept if source.shown[d] is not None]
        loops = [i for i in dims if i is not None]
        for k, length in enumerate(loops):
            self.body.append("for (int64_t tng_i%d = 0; tng_i%d < tng_d%d; ++tng_i%d)" % (k, k, length, k))
        to = " + ".join("tng_i%d * (%s)" % (k, self.product(loops[k + 1 :])) for k in range(len(loops)))
        come = " + ".join("tng_i%d * (%s)" % (k, stride) for k, stride in enumerate(strides))
        self.body.append("    %s[%s] = (%s)[%s];" % (made.pointer, to, start, come))

    def inc_subtensor(self, node):
        op, (out,), (v, y) = node.op, node.outputs, node.inputs[:2]
        source = self.array(v)
        indices = self.indices(node, 2, source)
        n = self.leading(indices, source)
        same = (
            v.type.dtype == y.type.dtype != "bool"
            or v.type.dtype.startswith("float")
            and y.type.dtype.startswith("float")
        )
        if n is None or not same:
            raise _Impossible
        rest = source.memory[n:]
        if is_number(y):
            value = self.number(y)
        else:
            row = self.array(y)
            if not row.is_plain or len(row.memory) != len(rest):
                raise _Impossible
            self.equate_all(row.memory, rest)
            value = row.pointer + "[tng_i]"
        made = self.result(out, source.dims)
        size = self.product(source.memory)
        self.body += [
            "for (int64_t tng_i = 0; tng_i < %s; ++tng_i) %s[tng_i] = %s[tng_i];"
            % (size, made.pointer, source.pointer),
            "for (int64_t tng_i = 0; tng_i < %s; ++tng_i) %s[%s + tng_i] %s %s;"
            % (
                self.product(rest),
                made.pointer,
                self.offset(indices, source),
                "=" if op.set_instead_of_inc else "+=",
                "(%s)%s" % (_ctype(out), value),
            ),
        ]

    # -- native functions

    def view(self, v):
        """The number of the array that native functions get for a variable; it is filled, or points to where the elements are."""
        if is_number(v):
            key = ("number", v)
            if key not in self.views:
                self.views[key] = self.new_memory(v, (), "x" * v.type.ndim)
            self.body.append("*(%s *)*tng_data[%d] = %s;" % (_ctype(v), self.views[key], self.number(v)))
            return self.views[key]
        source = self.array(v)
        key = source.pointer, source.shown, source.memory
        if key not in self.views:
            self.views[key] = self.new_memory(v, source.memory, ["x" if i is None else i for i in source.shown])
        if source.pointer != "tng_a%d" % self.views[key]:
            self.body.append("*tng_data[%d] = (char *)%s;" % (self.views[key], source.pointer))
        return self.views[key]

    def use(self, node, code, dims_of_outputs, declare=True):
        """Call a native function."""
        if code is None:
            raise _Impossible
        inputs = tuple(self.view(v) for v in node.inputs)
        outputs, loads = [], []
        for v, dims in zip(node.outputs, dims_of_outputs):
            if is_number(v):
                k = self.new_memory(v, (), "x" * v.type.ndim)
                if declare:
                    self.declare(v)
                loads.append("%s = *(const %s *)*tng_data[%d];" % (self.names[v], _ctype(v), k))
            else:
                made = self.arrays[v] = self.own(v, dims)
                k = self.views[made.pointer, made.shown, made.memory]
            outputs.append(k)
        self.body.append("if (!tng_use(tng_tools + %d)) %s" % (len(self.tools), _LEAVE))
        self.body += loads
        self.tools.append(Tool(code, inputs, tuple(outputs)))
        self.kernels += code.kernels

    def declare(self, v):
        """Make a C variable for a number."""
        name = self.names[v] = "tng_z%d" % len(self.names)
        self.body.append("%s %s;" % (_ctype(v), name))
        return name

    def reduced(self, node):
        (v,), (out,), op = node.inputs, node.outputs, node.op
        source, axes = self.array(v), op._axes(v.type.ndim)
        code = native_code_of(node)
        words = op._shipped_words(v.type.dtype, out.type.dtype, v.type.ndim)
        everything = len(axes) == v.type.ndim and words is not None
        accumulator, result = (words["accumulator_type"], words["result_type"]) if everything else (None, None)
        double = np.dtype("float64").num, np.dtype("float32").num
        if not everything or (accumulator, result) != double and accumulator != result:
            self.use(node, code, self.without(axes, source.dims, node))
            return
        name, count, t = (
            self.declare(out),
            self.product(source.memory),
            "double" if accumulator == double[0] else _ctype(out),
        )
        k = len(self.tools)
        self.tools.append(
            Fold(
                words["operation"],
                words["element_type"],
                accumulator,
                words["identity"] if words["has_identity"] else b"",
            )
        )
        self.body += [
            "if (%s <= %d) {" % (count, _UNHALVED),
            "%s tng_acc;" % t,
            "memcpy(&tng_acc, tng_tools[%d].words, sizeof tng_acc);" % k,
            "((tng_fold)tng_tools[%d].function)(%s, (char *)&tng_acc, 0, (const char *)%s, (int64_t)sizeof(%s));"
            % (k, count, source.pointer, _ctype(v)),
            "%s = (%s)tng_acc;" % (name, _ctype(out)),
            "} else {",
        ]
        self.use(node, code, [()], declare=False)
        self.body.append("}")

    def reduced_elemwise(self, node):
        op, (out,) = node.op, node.outputs
        inner = op.elemwise.make_node(*node.inputs)
        (between,) = inner.outputs
        sources = [None if is_number(v) else self.array(v) for v in node.inputs]
        dims = self.broadcast(between, sources)
        code = native_code_of(node)
        if code is None:
            raise _Impossible
        lengths = [i for i in dims if i is not None]
        whole = any(s is not None and self.is_full(s, dims) for s in sources)
        if whole and not code.words["folds"]:
            limits = ["%s > %d / (int64_t)sizeof(%s)" % (self.product(lengths), _BLOCK_BYTES, _ctype(between))]
            limits += ["tng_d%d > %d" % (i, _COLUMNS) for i in lengths]
            self.setup.append("if (%s) %s" % (" || ".join(limits), _LEAVE))
            outer = op.reduction.make_node(between)
            self.elemwise(inner)
            self.reduced(outer)
            (made,) = outer.outputs
            for where in (self.names, self.arrays):
                if made in where:
                    where[out] = where[made]
        elif whole and len(self.loops(dims, [s for s in sources if s is not None])) == 1:
            self.setup.append("if (%s > %d) %s" % (self.product(lengths), _LEAF, _LEAVE))
            t = get_scalar_type(op.reduction._acc_dtype(between.type.dtype)).dtype_specs()[1]
            name = "tng_acc%d" % len(self.body)
            self.body.append("%s %s = 0;" % (t, name))
            divisors = integer_divisors(inner)
            self.call(inner, code.words["kernel"], sources, dims, [(name, t)], divisors)
            self.body.append("%s = (%s)%s;" % (self.declare(out), _ctype(out), name))
        else:
            self.use(node, code, self.without(op.reduction._axes(between.type.ndim), dims, node))

    @staticmethod
    def is_full(source, dims):
        return [i is None for i in source.dims] == [i is None for i in dims]

    def argmax(self, node):
        (v,) = node.inputs
        axes = range(v.type.ndim) if node.op.axis is None else node.op.axis
        self.use(node, native_code_of(node), self.without(axes, self.array(v).dims, node))

    @staticmethod
    def without(axes, dims, node):
        axes = set(axes)
        return [[i for d, i in enumerate(dims) if d not in axes] for _ in node.outputs]

    def softmax(self, node):
        self.use(node, native_code_of(node), [self.array(node.inputs[0]).dims])

    def matrix_by_vector(self, node):
        y, _, a, x, _ = node.inputs
        op = type(node.op)(inplace=False)
        y, a, x = [self.array(v).dims for v in (y, a, x)]
        self.equate_all(a, (y[0], x[0]))
        self.use(node, native_code_of(op.make_node(*node.inputs)), [y])

    def outer_product(self, node):
        a, _, x, y = node.inputs
        op = type(node.op)(destructive=False)
        a, x, y = [self.array(v).dims for v in (a, x, y)]
        self.equate_all(a, (x[0], y[0]))
        self.use(node, native_code_of(op.make_node(*node.inputs)), [a])

    def dot(self, node):
        x, y = [self.array(v).dims for v in node.inputs]
        if len(x) + len(y) not in (2, 3):
            raise _Impossible
        self.equate_all(x[-1:], y[:1])
        if len(x) + len(y) == 2:
            # As native/blas.c has it, which makes arrays for it each time.
            self.row_by_vector(*node.inputs, *node.outputs)
            return
        self.use(node, native_code_of(node), [[*x[:-1], *y[1:]]])

    def row_by_vector(self, x, y, out):
        row = DimShuffle((False,), ("x", 0))(x)
        self.dimshuffle(row.owner)
        start = AllocEmpty(out.type.dtype)(1)
        self.names[start] = "0"
        one, zero = (constant(np.asarray(n, out.type.dtype)) for n in (1, 0))
        product = Gemv(inplace=False)(start, one, row, y, zero)
        self.use(product.owner, native_code_of(product.owner), [[None]])
        self.names[out] = self.names[product]

    # -- the function

    def kernel_of_loop(self):
        op, fgraph = self.op, self.fgraph
        n_in = len(fgraph.inputs)
        outputs = fgraph.outputs[: self.n_sinks]
        operands = [*fgraph.inputs, *outputs]
        numbers = [self.check(v) for v in [*fgraph.inputs, *fgraph.outputs]]
        if op.as_while and not numbers[-1]:
            return None
        self.lengths_of_numbers = {}
        rows = {}
        for state in op.states():
            dims = self.new_lengths(fgraph.inputs[state.inner_inputs[0]])
            rows.update(dict.fromkeys(state.inner_inputs, dims))
            rows.update((n_in + o, dims) for o in state.inner_outputs)
        first_other = n_in - op.n_others
        loads = []
        for k, v in enumerate(fgraph.inputs):
            if k not in rows:
                rows[k] = self.new_lengths(v)
            name, t = "tng_p%d" % k, _ctype(v)
            if k < first_other:
                place = "tng_b%d + tng_r%d * tng_s%d" % (k, k, k)
                loads.append("const %s *const %s = (const %s *)(%s);" % (t, name, t, place))
            else:
                self.setup.append("const %s *const %s = (const %s *)tng_base[%d];" % (t, name, t, k))
            if numbers[k]:
                (self.setup if k >= first_other else loads).append("const %s %s = *%s;" % (t, self.names[v], name))
            else:
                memory = tuple(i for i in rows[k] if i is not None)
                at = iter(range(len(memory)))
                shown = tuple(None if i is None else next(at) for i in rows[k])
                self.arrays[v] = _Array(name, memory, shown, op.n_seqs <= k < first_other)
        for k, v in enumerate(outputs, n_in):
            loads.append(
                "%s *const tng_p%d = (%s *)(tng_b%d + tng_r%d * tng_s%d);" % (_ctype(v), k, _ctype(v), k, k, k)
            )
            if not numbers[k]:
                self.sinks.setdefault(v, k)
        for node in fgraph.toposort():
            self.add_node(node)
        stores = []
        for k, v in enumerate(outputs, n_in):
            if numbers[k]:
                stores.append("*tng_p%d = %s;" % (k, self.number(v)))
                continue
            found = self.array(v)
            if found.of_state or not found.is_plain:
                return None
            self.equate_all(rows.setdefault(k, found.dims), found.dims)
            size = "(size_t)(%s) * sizeof(%s)" % (self.product(found.memory), _ctype(v))
            stores.append(
                "if ((const void *)%s != (const void *)tng_p%d) memcpy(tng_p%d, %s, %s);"
                % (found.pointer, k, k, found.pointer, size)
            )
        rows.update((k, (None,) * v.type.ndim) for k, v in enumerate(outputs, n_in) if numbers[k])
        until = self.number(fgraph.outputs[-1]) if op.as_while else None
        moving = [k for k in range(len(operands)) if k < first_other or k >= n_in]
        source = self.source(moving, loads, stores, until)
        classes = {root: i for i, root in enumerate(dict.fromkeys(map(self.find, range(len(self.parents)))))}

        def numbered(dims):
            return tuple(-1 if i is None else classes[self.find(i)] for i in dims)

        dims = tuple(numbered(rows[k]) for k in range(len(operands)))
        arrays = tuple(
            ArrayMemory(dtype, numbered(memory), order, value) for dtype, memory, order, value in self.memory
        )
        several = any(len([i for i in d if i >= 0]) > 1 for d in [*dims, *(a.dims for a in arrays)])
        layout = Layout(dims, tuple(self.fixed.get(root, -1) for root in classes), several, arrays, tuple(self.tools))
        type_numbers = tuple(np.dtype(v.type.dtype).num for v in operands)
        return LoopKernel(
            self.kernel(source), tuple(numbers[: len(operands)]), type_numbers, layout, tuple(self.kernels)
        )

    def source(self, moving, loads, stores, until):
        """The text of the function. Lengths get their values first."""
        roots = dict.fromkeys(map(self.find, range(len(self.parents))))
        number = {root: i for i, root in enumerate(roots)}
        lines = []
        lines += [
            "int64_t KERNEL(int64_t tng_steps, const int64_t *tng_size, char **tng_base, const int64_t *tng_place,",
            "               char **const *tng_data, const tng_tool *tng_tools, int64_t *tng_left)",
            "{",
            "    (void)tng_size, (void)tng_data, (void)tng_tools, (void)tng_left;",
        ]
        lengths = [
            "const int64_t tng_d%d = tng_size[%d];" % (i, number[self.find(i)]) for i in range(len(self.parents))
        ]
        lines += [
            "    " + line
            for line in [*lengths, "int64_t tng_t = 0;", *declare_rows(moving), *self.constants, *self.setup]
        ]
        lines += ["    while (tng_t < tng_steps) {"]
        lines += ["        " + line for line in [*loads, *self.body, *stores, *advance_rows(moving), "++tng_t;"]]
        if until is not None:
            lines.append("        if (%s) break;" % until)
        return "\n".join([*lines, "    }", "    return tng_t;", "}"]) + "\n"

    def kernel(self, source):
        self.join(dict(language="c", headers=(), support=_SUPPORT, compile_args=(), libraries=()))
        return super().kernel('#pragma GCC diagnostic ignored "-Wunused"\n' + source)


# Which method writes a node.
_WRITERS = {
    Elemwise: _Text.elemwise,
    DimShuffle: _Text.dimshuffle,
    ScalarFromTensor: _Text.same_number,
    TensorFromScalar: _Text.same_number,
    Rebroadcast: _Text.same,
    ViewOp: _Text.same,
    Shape_i: _Text.length_of,
    AllocEmpty: _Text.alloc_empty,
    Alloc: _Text.alloc,
    Subtensor: _Text.subtensor,
    IncSubtensor: _Text.inc_subtensor,
    CAReduce: _Text.reduced,
    ReducedElemwise: _Text.reduced_elemwise,
    MaxAndArgmax: _Text.argmax,
    Argmax: _Text.argmax,
    Softmax: _Text.softmax,
    Gemv: _Text.matrix_by_vector,
    Ger: _Text.outer_product,
    Dot: _Text.dot,
}
