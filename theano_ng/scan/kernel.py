"""Kernels of loops whose steps are elementwise arithmetic. One C function contains the loop over the steps.

States that are scalars stay in registers. The elements of larger states are computed in parallel, as vectors.
"""

import functools
from typing import NamedTuple

import numpy as np

from theano_ng.gof.graph import Constant
from theano_ng.gof.native import Kernel
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.scalar import get_scalar_type
from theano_ng.scalar.divisors import divides
from theano_ng.tensor.elemwise.interpreter import MOVES, InterpretedLoop, interpreted_loop
from theano_ng.tensor.elemwise.kernel import scalar_c_parts, scalar_node
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.type import TensorType

__all__ = ["LoopKernel", "Step", "advance_rows", "declare_rows", "is_number", "loop_kernel", "separated"]

# The number of elements that one node computes before the next node starts: their results stay in the L1 cache.
_BLOCK = 256

# gcc would otherwise replace the negative of a fused multiply-add, even if one node computes the sum and another node
# its negative.
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
    number of steps done.

    Operands are the inner inputs, then the inner outputs that are written to rows. ``base[k]`` is the address of the
    first row of operand k. ``place[3 * k]`` is the distance between rows in bytes, or 0 for an operand that is the same
    in all steps. ``place[3 * k + 1]`` is the number of rows, ``place[3 * k + 2]`` the index of the row of step 0.
    ``length`` is the length of a row. ``place[-1]`` is for the interpreter: the address of its program.

    Attributes
    ----------
    kernel : Kernel
    numbers : tuple of bool
        For each operand, whether it is a scalar in each step.
    type_numbers : tuple of int
        NumPy's type number of each operand.
    layout : Layout or None
        Layout of a kernel of `array_kernel`, which is ``int64_t KERNEL(int64_t steps, const int64_t *size, char **base,
        const int64_t *place, char **const *data, const tng_helper *helpers, int64_t *left)``. `size` has the lengths,
        `data` the addresses of the arrays' data pointers, and `helpers` the native functions. `left` is a flag: the
        machine has to do the remaining steps.
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
    n_sinks = op.n_mit_mot_outs + op.n_mit_sot + op.n_sit_sot + op.n_nit_sot
    operands = [*fgraph.inputs, *fgraph.outputs[:n_sinks]]
    if op.n_shared_outs or not n_sinks or not all(_is_possible(v) for v in [*fgraph.inputs, *fgraph.outputs]):
        return None
    numbers = tuple(is_number(v) for v in operands)
    ranks = {v.type.ndim for v, number in zip(operands, numbers) if not number}
    if len(ranks) > 1 or any(numbers[len(fgraph.inputs) :]) == bool(ranks) or (ranks and op.as_while):
        return None
    step = Step(fgraph)
    if not step.is_arithmetic():
        return None
    kernel = step.kernel(_source(op, fgraph, step, numbers))
    kernel = kernel._replace(interpreted=functools.partial(interpreted_loop, _interpreted(op, fgraph, numbers)))
    return LoopKernel(kernel, numbers, tuple(np.dtype(v.type.dtype).num for v in operands))


def _interpreted(op, fgraph, numbers):
    """Return the loop for the interpreter: the same steps, node by node."""
    n_in, n_sinks = len(fgraph.inputs), len(numbers) - len(fgraph.inputs)
    values = {v: k for k, v in enumerate(fgraph.inputs)}
    nodes, count = [], n_in

    def argument(v):
        if v in values:
            return values[v]
        if v.owner is None:
            return v.type.dtype, v.data.tobytes()
        return argument(v.owner.inputs[0])  # a DimShuffle of a scalar

    for node in fgraph.toposort():
        if type(node.op) is DimShuffle:
            continue
        dtypes = [tuple([v.type.dtype for v in variables]) for variables in (node.inputs, node.outputs)]
        nodes.append((node.op.scalar_op, tuple(map(argument, node.inputs)), *dtypes))
        for v in node.outputs:
            values[v] = count
            count += 1
    # If all rows are scalars, all computed values are scalars, too.
    vectors = not all(numbers)
    kinds = [
        (MOVES if k < n_in - op.n_others or k >= n_in else 0) | (vectors and number) for k, number in enumerate(numbers)
    ]
    return InterpretedLoop(
        tuple(v.type.dtype for v in fgraph.inputs),
        tuple(v.type.dtype for v in fgraph.outputs[:n_sinks]),
        tuple(map(int, kinds)),
        tuple(nodes),
        tuple(map(argument, fgraph.outputs[:n_sinks])),
        argument(fgraph.outputs[-1]) if op.as_while else None,
    )


def _is_possible(v):
    return type(v.type) is TensorType and v.type.dtype != "float16" and (is_number(v) or not any(v.type.broadcastable))


def is_number(v):
    """Return True if a variable has one element."""
    return all(v.type.broadcastable)


class _Part(NamedTuple):
    """The C code of one node for one element, the names that it reads, and names and C types of its results."""

    text: str
    operands: list
    results: dict


class Step:
    """The C code of one step for one element, node by node."""

    def __init__(self, fgraph):
        self.fgraph = fgraph
        self.names = {v: "tng_v%d" % k for k, v in enumerate(fgraph.inputs)}
        self.constants, self.parts = [], []
        self.environment = {"language": "c", "headers": (), "support": _SUPPORT, "compile_args": (), "libraries": ()}

    def is_arithmetic(self):
        """Write the code of all nodes; return whether that was possible."""
        for node in self.fgraph.toposort():
            if type(node.op) is DimShuffle and is_number(node.inputs[0]):
                name = self.name(node.inputs[0])
                if name is None:
                    return False
                self.names[node.outputs[0]] = name
            elif type(node.op) is not Elemwise or not self.add(node):
                return False
        return all(v.owner is not None and v in self.names for v in self.fgraph.outputs)

    def name(self, v):
        """Return the C name of a variable or of a constant with one value; None for others."""
        if v not in self.names and isinstance(v, Constant) and _is_possible(v) and is_number(v):
            kind = get_scalar_type(v.type.dtype)
            name = self.names[v] = "tng_k%d" % len(self.constants)
            literal = kind.c_literal(v.data.reshape(())[()])
            self.constants.append("const %s %s = %s;" % (kind.dtype_specs()[1], name, literal))
        return self.names.get(v)

    def add(self, node):
        """Write the code of an Elemwise node; return False if that is not possible."""
        op, number = node.op.scalar_op, len(self.parts)
        operands = [self.name(v) for v in node.inputs]
        if None in operands or divides(op) or not all(map(_is_possible, [*node.inputs, *node.outputs])):
            return False
        results = ["tng_n%d_%d" % (number, i) for i in range(len(node.outputs))]
        try:
            body, environment, needs_python = scalar_c_parts(
                op, scalar_node(op, node), operands, results, "n%d" % number
            )
        except (MethodNotDefined, NotImplementedError):
            return False
        if needs_python:
            return False
        self.join(environment)
        ctypes = [get_scalar_type(v.type.dtype).dtype_specs()[1] for v in node.outputs]
        self.parts.append(_Part(body, operands, dict(zip(results, ctypes))))
        self.names.update(zip(node.outputs, results))
        return True

    def join(self, environment):
        """Add the compilation environment of a node's code."""
        mine = self.environment
        if environment["language"] != "c":
            mine["language"] = environment["language"]
        if environment["support"] not in mine["support"]:
            mine["support"] += environment["support"] + "\n"
        for words in ("headers", "compile_args", "libraries"):
            mine[words] += tuple(word for word in environment[words] if word not in mine[words])

    def kernel(self, source):
        """Return the kernel with this source code."""
        return Kernel(source=source, **self.environment)


def _source(op, fgraph, step, numbers):
    """Return the source code of the function."""
    n_in, n_out = len(fgraph.inputs), len(numbers) - len(fgraph.inputs)
    variables = [*fgraph.inputs, *fgraph.outputs]
    ctypes = [get_scalar_type(v.type.dtype).dtype_specs()[1] for v in variables]
    local = [step.names[v] for v in variables]
    moving = [k for k in range(len(numbers)) if k < n_in - op.n_others or k >= n_in]
    vectors = not all(numbers)
    first_tap = op.n_seqs
    taps = {}  # operand -> (state, tap)
    for state, read in enumerate(op.tap_array):
        for tap in read:
            taps[first_tap] = (state, tap)
            first_tap += 1
    # Scalars that a step reads back stay in variables: (state, lag) -> name. Rows of mit_mot are changed in memory.
    carried = {}
    if not vectors:
        for state in range(op.n_mit_mot, op.n_states):
            for lag in range(1, op.lead(state) + 1):
                carried[state, lag] = "tng_c%d_%d" % (state, lag)
    from_register = {k: carried[state, -tap] for k, (state, tap) in taps.items() if (state, -tap) in carried}
    lines = ["int64_t KERNEL(int64_t tng_steps, int64_t tng_n, char **tng_base, const int64_t *tng_place)", "{"]
    lines += ["    " + line for line in declare_rows(moving)]
    for k in range(n_in - op.n_others, n_in):
        if numbers[k]:
            lines.append("    const %s tng_h%d = *(const %s *)tng_base[%d];" % (ctypes[k], k, ctypes[k], k))
        else:
            lines.append("    const %s *tng_p%d = (const %s *)tng_base[%d];" % (ctypes[k], k, ctypes[k], k))
    sinks = _sinks_of_states(op, n_in)
    for (state, lag), name in carried.items():
        k = sinks[state]
        row = "((tng_place[%d] - %d + tng_l%d) %% tng_l%d)" % (3 * k + 2, lag, k, k)
        lines.append("    %s %s = *(%s *)(tng_b%d + %s * tng_s%d);" % (ctypes[k], name, ctypes[k], k, row, k))
    lines += ["    " + constant for constant in step.constants]
    lines.append("    int64_t tng_t = 0;")
    lines.append("    while (tng_t < tng_steps) {")
    loads = {}  # name -> the statement that reads it
    for k in range(n_in):
        const = "const %s " % ctypes[k]
        if k in moving and k not in from_register:
            row, pointer = "(%s*)(tng_b%d + tng_r%d * tng_s%d)" % (const, k, k, k), "" if numbers[k] else "*"
            value = "*" + row if numbers[k] else row
            lines.append("        %s%stng_%s%d = %s;" % (const, pointer, "h" if numbers[k] else "p", k, value))
        source = from_register.get(k, "tng_h%d" % k if numbers[k] else "tng_p%d[%s]" % (k, "tng_at + tng_i"))
        loads[local[k]] = "%s%s = %s;" % (const, local[k], source)
    for k in range(n_in, n_in + n_out):
        lines.append("        %s *tng_p%d = (%s *)(tng_b%d + tng_r%d * tng_s%d);" % (ctypes[k], k, ctypes[k], k, k, k))
    stores = {k: local[k] for k in range(n_in, n_in + n_out)}
    if vectors:
        lines += _by_blocks(step, loads, stores)
    else:
        lines += ["        " + load for load in loads.values()]
        for part in step.parts:
            lines += ["        %s %s;" % (ctype, name) for name, ctype in part.results.items()]
            lines += ["        {", part.text, "        }", *(separated(part) if len(step.parts) > 1 else ())]
        lines += ["        tng_p%d[0] = %s;" % store for store in stores.items()]
        lines.append("        (void)tng_n;")
        for state, lag in sorted(carried, reverse=True):
            former = carried.get((state, lag - 1), local[sinks[state]])
            lines.append("        %s = %s;" % (carried[state, lag], former))
    lines += ["        " + line for line in advance_rows(moving)]
    lines.append("        ++tng_t;")
    if op.as_while:
        lines.append("        if (%s) break;" % local[-1])
    lines += ["    }", "    return tng_t;", "}"]
    return "\n".join(lines) + "\n"


def declare_rows(moving):
    """Return declarations for operands with rows: the address b of the first row, the distance s, the number l of rows,
    and the index r of the next row.
    """
    lines = []
    for k in moving:
        lines.append("char *const tng_b%d = tng_base[%d];" % (k, k))
        lines.append("const int64_t tng_s%d = tng_place[%d], tng_l%d = tng_place[%d];" % (k, 3 * k, k, 3 * k + 1))
        lines.append("int64_t tng_r%d = tng_place[%d];" % (k, 3 * k + 2))
    return lines


def separated(part):
    """Return statements that keep compilers from contracting a node's sums with other nodes (`scalar.contraction`)."""
    floats = [name for name, ctype in part.results.items() if ctype in ("npy_float32", "npy_float64")]
    return ["TNG_SEPARATE(%s);" % name for name in floats if "TNG_MUL_ADD" in part.text]


def advance_rows(moving):
    """Return statements that advance to the rows of the next step."""
    return ["if (++tng_r%d == tng_l%d) tng_r%d = 0;" % (k, k, k) for k in moving]


def _sinks_of_states(op, n_in):
    """Return the operand of the inner output of each state of mit_sot and sit_sot."""
    first = n_in + op.n_mit_mot_outs
    return {op.n_mit_mot + i: first + i for i in range(op.n_mit_sot + op.n_sit_sot)}


def _by_blocks(step, loads, stores):
    """Return loops over the elements of a row: one loop per node, on blocks of elements, or a single loop if there is
    only one node.

    Outputs are written last: they may overwrite rows that are read.

    Parameters
    ----------
    step : Step
    loads : dict
        Name of an inner input -> the statement that reads its element.
    stores : dict
        Number of an operand -> the name of the value that is written to it.
    """
    several = len(step.parts) > 1
    lines = ["        for (int64_t tng_at = 0; tng_at < tng_n; tng_at += %s) {" % ("TNG_BLOCK" if several else "tng_n")]
    lines.append(
        "        const int64_t tng_m = %s;"
        % ("tng_n - tng_at < TNG_BLOCK ? tng_n - tng_at : TNG_BLOCK" if several else "tng_n")
    )
    loop = ["#pragma GCC ivdep", "        for (int64_t tng_i = 0; tng_i < tng_m; ++tng_i) {"]
    kept = {}  # result of an earlier node -> the statement that reads it
    for part in step.parts:
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
