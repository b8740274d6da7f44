"""Kernels of loops whose steps are elementwise arithmetic. One C function contains the loop over the steps.

States that are scalars stay in registers. The elements of larger states are computed in parallel, as vectors.
"""

from typing import NamedTuple

import numpy as np

from theano_ng.gof.graph import Constant
from theano_ng.gof.native import Kernel
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.loops.blocks.interpreter import interpreted
from theano_ng.loops.program import Access, Literal, LoopProgram, Operand, Step
from theano_ng.loops.source import joined_environment, scalar_apply, scalar_source
from theano_ng.scalar.divisors import divides
from theano_ng.scalar.types import c_literal, c_type
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.type import TensorType

__all__ = ["LoopKernel", "StepWriter", "advance_rows", "declare_rows", "is_number", "loop_kernel", "separated"]

# The number of elements in a block. The loop of one node computes a block of results before the loop of the next node
# starts, so that the block stays in the L1 cache.
_BLOCK = 256

# TNG_SEPARATE keeps gcc from merging two nodes. gcc would otherwise replace the negative of a fused multiply-add by one
# instruction, even if one node computes the sum and another node computes its negative.
_SUPPORT = (
    """\
#define TNG_BLOCK %d
#if defined(__x86_64__)
#define TNG_SEPARATE(x) __asm__("" : "+x"(x))
#elif defined(__aarch64__)
#define TNG_SEPARATE(x) __asm__("" : "+w"(x))
#else
#define TNG_SEPARATE(x) __asm__("" : "+m"(x))
#endif
"""
    % _BLOCK
)


class LoopKernel(NamedTuple):
    """A loop in C: ``int64_t KERNEL(int64_t steps, int64_t length, char **base, const int64_t *place)`` returns the
    number of steps that were executed.

    Operands are the inner inputs, then the inner outputs that are written to rows. ``base[k]`` is the address of the
    first row of operand k. ``place[3 * k]`` is the distance between rows in bytes, or 0 for an operand that is the same
    in all steps. ``place[3 * k + 1]`` is the number of rows. ``place[3 * k + 2]`` is the index of the row of step 0.
    ``length`` is the length of a row. ``place[-1]`` is the address of the kernel's program if an interpreter executes
    the program instead of compiled code.

    Attributes
    ----------
    kernel : Kernel
    numbers : tuple of bool
        For each operand, whether it is a scalar in each step.
    type_numbers : tuple of int
        NumPy's type number of each operand.
    layout : Layout or None
        The layout of a kernel of `array_kernel`. Such a kernel is a function ``int64_t KERNEL(int64_t steps, const
        int64_t *size, char **base, const int64_t *place, char **const *data, const tng_helper *helpers, int64_t
        *left)``. `size` contains the lengths, `data` the addresses of the arrays' data pointers, and `helpers` the
        native functions. The function sets the flag `left` if the virtual machine has to execute the remaining steps.
    others : tuple of Kernel
        Kernels that native functions call.
    """

    kernel: Kernel
    numbers: tuple
    type_numbers: tuple
    layout: object = None
    others: tuple = ()


def loop_kernel(op, fgraph):
    """Return the kernel of a loop, or None if a step contains more than elementwise arithmetic.

    Parameters
    ----------
    op : Scan
    fgraph : FunctionGraph
        The rewritten graph of a step.
    """
    program = loop_program(op, fgraph)
    if program is None:
        return None
    writer = StepWriter()
    names = ["tng_v%d" % k for k in range(len(program.inputs))]

    def name(value):
        return writer.constant(value) if isinstance(value, Literal) else names[value]

    dtypes = program.dtypes()
    for step in program.steps:
        given = [a.dtype if isinstance(a, Literal) else dtypes[a] for a in step.arguments]
        part = writer.write(step.op, given, step.dtypes, [name(a) for a in step.arguments])
        if part is None:
            return None
        names += part.results
    stores = [name(value) for value in program.stores]
    until = None if program.until is None else name(program.until)
    numbers = tuple([is_number(v) for v in [*fgraph.inputs, *fgraph.outputs[: len(program.outputs)]]])
    kernel = writer.kernel(_source(op, program, numbers, writer, stores, until))
    kernel = kernel._replace(program=program, interpreter=interpreted)
    type_numbers = [np.dtype(x.dtype).num for x in (*program.inputs, *program.outputs)]
    return LoopKernel(kernel, numbers, tuple(type_numbers))


def loop_program(op, fgraph):
    """Return the program of the steps of a loop, or None if a step contains more than elementwise arithmetic.

    Parameters
    ----------
    op : Scan
    fgraph : FunctionGraph
        The rewritten graph of a step.

    Returns
    -------
    LoopProgram or None
        A program for the elements of a row. If all rows are scalars, all operands are VARYING. Otherwise the inputs
        that are scalars are HOISTED (see `Access`).
    """
    n_in, n_sinks = len(fgraph.inputs), op.n_mit_mot_outs + op.n_mit_sot + op.n_sit_sot + op.n_nit_sot
    if op.n_shared_outs or not n_sinks or not all(_is_possible(v) for v in [*fgraph.inputs, *fgraph.outputs]):
        return None
    operands = [*fgraph.inputs, *fgraph.outputs[:n_sinks]]
    numbers = [is_number(v) for v in operands]
    ranks = {v.type.ndim for v, number in zip(operands, numbers) if not number}
    if len(ranks) > 1 or any(numbers[n_in:]) == bool(ranks) or (ranks and op.as_while):
        return None
    values = dict(zip(fgraph.inputs, range(n_in)))  # variable -> its number in the program, or a Literal
    steps, count = [], n_in

    def value(v):
        if v not in values and isinstance(v, Constant) and _is_possible(v) and is_number(v):
            values[v] = Literal(v.type.dtype, v.data.tobytes())
        return values.get(v)

    for node in fgraph.toposort():
        arguments = tuple(map(value, node.inputs))
        if None in arguments:
            return None
        if type(node.op) is DimShuffle and is_number(node.inputs[0]):
            values[node.outputs[0]] = arguments[0]
        elif type(node.op) is Elemwise and all(map(_is_possible, [*node.inputs, *node.outputs])):
            steps.append(Step(node.op.scalar_op, arguments, tuple([v.type.dtype for v in node.outputs])))
            values.update(zip(node.outputs, range(count, count + len(node.outputs))))
            count += len(node.outputs)
        else:
            return None
    if not all(v.owner is not None and v in values for v in fgraph.outputs):
        return None
    inputs = [
        Operand(v.type.dtype, Access.HOISTED if ranks and number else Access.VARYING, k < n_in - op.n_others)
        for k, (v, number) in enumerate(zip(fgraph.inputs, numbers))
    ]
    return LoopProgram(
        inputs=tuple(inputs),
        steps=tuple(steps),
        stores=tuple([values[v] for v in fgraph.outputs[:n_sinks]]),
        outputs=tuple([Operand(v.type.dtype, moves=True) for v in fgraph.outputs[:n_sinks]]),
        until=values[fgraph.outputs[-1]] if op.as_while else None,
    )


def _is_possible(v):
    return type(v.type) is TensorType and v.type.dtype != "float16" and (is_number(v) or not any(v.type.broadcastable))


def is_number(v):
    """Return True if a variable has one element."""
    return all(v.type.broadcastable)


class _Part(NamedTuple):
    """The C code of one node for one element, the names that it reads, and the names and C types of its results."""

    text: str
    operands: list
    results: dict


class StepWriter:
    """A writer of the C code of the steps of a loop, for one element.

    Attributes
    ----------
    constants : list of str
        The definitions of constants.
    parts : list of _Part
    """

    def __init__(self):
        self.constants, self.parts = [], []
        self.environment = {"language": "c", "headers": (), "support": _SUPPORT, "compile_args": (), "libraries": ()}
        self._named = {}

    def constant(self, literal):
        """Return the C name of a constant."""
        if literal not in self._named:
            name = self._named[literal] = "tng_k%d" % len(self.constants)
            text = c_literal(literal.dtype, literal.value)
            self.constants.append("const %s %s = %s;" % (c_type(literal.dtype), name, text))
        return self._named[literal]

    def write(self, op, in_dtypes, out_dtypes, operands):
        """Write the code of a scalar op.

        Parameters
        ----------
        op : ScalarOp
        in_dtypes, out_dtypes : sequence of str
        operands : list of str
            C names.

        Returns
        -------
        _Part or None
            None if the op may fail, or if it has no C code that works without the Python interpreter.
        """
        if divides(op):
            return None
        number = len(self.parts)
        results = ["tng_n%d_%d" % (number, i) for i in range(len(out_dtypes))]
        try:
            node = scalar_apply(op, in_dtypes, out_dtypes)
            body, environment, needs_python = scalar_source(op, node, operands, results, "n%d" % number)
        except (MethodNotDefined, NotImplementedError):
            return None
        if needs_python:
            return None
        self.join(environment)
        self.parts.append(_Part(body, operands, dict(zip(results, map(c_type, out_dtypes)))))
        return self.parts[-1]

    def join(self, environment):
        """Add the compilation environment of other code."""
        self.environment = joined_environment(self.environment, environment)

    def kernel(self, source):
        """Return the kernel with this source code."""
        return Kernel(source=source, **self.environment)


def _source(op, program, numbers, writer, stored, until):
    """Return the source code of the function `KERNEL`; see `LoopKernel`.

    Parameters
    ----------
    op : Scan
    program : LoopProgram
    numbers : tuple of bool
        As in `LoopKernel`.
    writer : StepWriter
        The writer, after it has written the steps.
    stored : list of str
        The C names of the values to store.
    until : str or None
        The C name of the value that ends the loop.
    """
    n_in, operands = len(program.inputs), [*program.inputs, *program.outputs]
    ctypes = [c_type(x.dtype) for x in operands]
    local = [*["tng_v%d" % k for k in range(n_in)], *stored]
    moving = [k for k, x in enumerate(operands) if x.moves]
    vectors = not all(numbers)
    first_tap = op.n_seqs
    taps = {}  # operand -> (state, tap)
    for state, read in enumerate(op.tap_array):
        for tap in read:
            taps[first_tap] = (state, tap)
            first_tap += 1
    # (state, lag) -> name of a C variable. Scalar states stay in C variables between steps. The exception is the group
    # mit_mot: each step changes rows of this group in memory.
    carried = {}
    if not vectors:
        for state in range(op.n_mit_mot, op.n_states):
            for lag in range(1, op.lead(state) + 1):
                carried[state, lag] = "tng_c%d_%d" % (state, lag)
    from_register = {k: carried[state, -tap] for k, (state, tap) in taps.items() if (state, -tap) in carried}
    lines = ["int64_t KERNEL(int64_t tng_steps, int64_t tng_n, char **tng_base, const int64_t *tng_place)", "{"]
    lines += ["    " + line for line in declare_rows(moving)]
    for k in range(n_in):
        if operands[k].moves:
            continue
        if numbers[k]:
            lines.append("    const %s tng_h%d = *(const %s *)tng_base[%d];" % (ctypes[k], k, ctypes[k], k))
        else:
            lines.append("    const %s *tng_p%d = (const %s *)tng_base[%d];" % (ctypes[k], k, ctypes[k], k))
    sinks = _sinks_of_states(op, n_in)
    for (state, lag), name in carried.items():
        k = sinks[state]
        row = "((tng_place[%d] - %d + tng_l%d) %% tng_l%d)" % (3 * k + 2, lag, k, k)
        lines.append("    %s %s = *(%s *)(tng_b%d + %s * tng_s%d);" % (ctypes[k], name, ctypes[k], k, row, k))
    lines += ["    " + constant for constant in writer.constants]
    lines.append("    int64_t tng_t = 0;")
    lines.append("    while (tng_t < tng_steps) {")
    loads = {}  # name of a value -> the C statement that loads the value
    for k in range(n_in):
        const = "const %s " % ctypes[k]
        if k in moving and k not in from_register:
            row, pointer = "(%s*)(tng_b%d + tng_r%d * tng_s%d)" % (const, k, k, k), "" if numbers[k] else "*"
            value = "*" + row if numbers[k] else row
            lines.append("        %s%stng_%s%d = %s;" % (const, pointer, "h" if numbers[k] else "p", k, value))
        source = from_register.get(k, "tng_h%d" % k if numbers[k] else "tng_p%d[%s]" % (k, "tng_at + tng_i"))
        loads[local[k]] = "%s%s = %s;" % (const, local[k], source)
    for k in range(n_in, len(operands)):
        lines.append("        %s *tng_p%d = (%s *)(tng_b%d + tng_r%d * tng_s%d);" % (ctypes[k], k, ctypes[k], k, k, k))
    stores = dict(enumerate(stored, n_in))
    if vectors:
        lines += _by_blocks(writer.parts, loads, stores)
    else:
        lines += ["        " + load for load in loads.values()]
        for part in writer.parts:
            lines += ["        %s %s;" % (ctype, name) for name, ctype in part.results.items()]
            lines += ["        {", part.text, "        }", *(separated(part) if len(writer.parts) > 1 else ())]
        lines += ["        tng_p%d[0] = %s;" % store for store in stores.items()]
        lines.append("        (void)tng_n;")
        for state, lag in sorted(carried, reverse=True):
            former = carried.get((state, lag - 1), local[sinks[state]])
            lines.append("        %s = %s;" % (carried[state, lag], former))
    lines += ["        " + line for line in advance_rows(moving)]
    lines.append("        ++tng_t;")
    if until is not None:
        lines.append("        if (%s) break;" % until)
    lines += ["    }", "    return tng_t;", "}"]
    return "\n".join(lines) + "\n"


def declare_rows(moving):
    """Return declarations for operands with rows: the address b of the first row, the distance s between rows, the
    number l of rows, and the index r of the next row.
    """
    lines = []
    for k in moving:
        lines.append("char *const tng_b%d = tng_base[%d];" % (k, k))
        lines.append("const int64_t tng_s%d = tng_place[%d], tng_l%d = tng_place[%d];" % (k, 3 * k, k, 3 * k + 1))
        lines.append("int64_t tng_r%d = tng_place[%d];" % (k, 3 * k + 2))
    return lines


def separated(part):
    """Return statements that keep compilers from merging the multiply-adds of a node with operations of other nodes;
    see `scalar.contraction`.
    """
    floats = [name for name, ctype in part.results.items() if ctype in ("npy_float32", "npy_float64")]
    return ["TNG_SEPARATE(%s);" % name for name in floats if "TNG_MUL_ADD" in part.text]


def advance_rows(moving):
    """Return statements that advance to the rows of the next step."""
    return ["if (++tng_r%d == tng_l%d) tng_r%d = 0;" % (k, k, k) for k in moving]


def _sinks_of_states(op, n_in):
    """Return a dict: number of a state in mit_sot or sit_sot -> number of the operand that is its inner output."""
    first = n_in + op.n_mit_mot_outs
    return {op.n_mit_mot + i: first + i for i in range(op.n_mit_sot + op.n_sit_sot)}


def _by_blocks(parts, loads, stores):
    """Return C code that loops over the elements of a row. If there are several nodes, the code works on blocks of
    elements, and each node has its own loop over a block. A single node has one loop over the whole row.

    Outputs are written last, because they may overwrite rows that the nodes read.

    Parameters
    ----------
    parts : list of _Part
    loads : dict
        Name of an inner input -> the statement that reads its element.
    stores : dict
        Number of an operand -> the name of the value that is written to it.
    """
    several = len(parts) > 1
    lines = ["        for (int64_t tng_at = 0; tng_at < tng_n; tng_at += %s) {" % ("TNG_BLOCK" if several else "tng_n")]
    lines.append(
        "        const int64_t tng_m = %s;"
        % ("tng_n - tng_at < TNG_BLOCK ? tng_n - tng_at : TNG_BLOCK" if several else "tng_n")
    )
    loop = ["#pragma GCC ivdep", "        for (int64_t tng_i = 0; tng_i < tng_m; ++tng_i) {"]
    kept = {}  # name of an earlier node's result -> the C statement that loads it
    for part in parts:
        if several:
            lines += ["        %s tng_w_%s[TNG_BLOCK];" % (ctype, name) for name, ctype in part.results.items()]
        lines += loop
        for name in dict.fromkeys(part.operands):
            if name in loads or name in kept:
                lines.append("        " + (loads.get(name) or kept[name]))
        lines += ["        %s %s;" % (ctype, name) for name, ctype in part.results.items()]
        lines += ["        {", part.text, "        }"]
        if several:
            lines += ["        tng_w_%s[tng_i] = %s;" % (name, name) for name in part.results]
            lines.append("        }")
        kept.update({name: "const %s %s = tng_w_%s[tng_i];" % (t, name, name) for name, t in part.results.items()})
    if several:
        lines += loop
        lines += ["        tng_p%d[tng_at + tng_i] = tng_w_%s[tng_i];" % store for store in stores.items()]
    else:
        lines += ["        tng_p%d[tng_at + tng_i] = %s;" % store for store in stores.items()]
    return [*lines, "        }", "        }"]
