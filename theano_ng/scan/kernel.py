"""Loops whose steps are elementwise arithmetic: one C function, with the loop over the steps inside.

States of loops over numbers stay in registers; the elements of larger states are computed side by side, as vectors.
"""

from typing import NamedTuple

import numpy as np

from theano_ng.gof.graph import Constant
from theano_ng.gof.native import Kernel
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.scalar import ScalarConstant, get_scalar_type
from theano_ng.scalar.composite import Composite
from theano_ng.scalar.divisors import divides
from theano_ng.tensor.elemwise.kernel import scalar_c_parts, scalar_node
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.type import TensorType

__all__ = ["LoopKernel", "loop_kernel"]


class LoopKernel(NamedTuple):
    """A loop in C: ``int64_t KERNEL(int64_t steps, int64_t length, char **base, const int64_t *place)`` returns how many steps it did.

    Operands are the inner inputs, then the inner outputs that are written to rows. ``base[k]`` is where the first row of operand k is;
    ``place[3 * k]`` is the distance between rows in bytes, 0 for what is the same in all steps, ``place[3 * k + 1]`` the number of rows, and
    ``place[3 * k + 2]`` the row of step 0. ``length`` is that of a row.

    Attributes
    ----------
    kernel : Kernel
    numbers : tuple of bool
        For each operand, whether it is one number in each step.
    type_numbers : tuple of int
        NumPy's type number of each operand.
    """

    kernel: Kernel
    numbers: tuple
    type_numbers: tuple


def loop_kernel(op, fgraph):
    """The kernel of a loop, or None where a step is something else than elementwise arithmetic.

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
    numbers = tuple(_is_number(v) for v in operands)
    ranks = {v.type.ndim for v, number in zip(operands, numbers) if not number}
    if len(ranks) > 1 or any(numbers[len(fgraph.inputs) :]) == bool(ranks) or (ranks and op.as_while):
        return None
    arithmetic = _as_scalars(fgraph)
    if arithmetic is None or divides(arithmetic):
        return None
    try:
        source, environment = _source(op, fgraph, arithmetic, numbers)
    except (MethodNotDefined, NotImplementedError):
        return None
    if source is None:
        return None
    return LoopKernel(
        Kernel(source=source, **environment), numbers, tuple(np.dtype(v.type.dtype).num for v in operands)
    )


def _is_possible(v):
    return type(v.type) is TensorType and v.type.dtype != "float16" and (_is_number(v) or not any(v.type.broadcastable))


def _is_number(v):
    return all(v.type.broadcastable)


def _as_scalars(fgraph):
    """The step as one scalar Op with the graph's inputs and outputs; None if it is more than that."""
    scalars = {v: get_scalar_type(v.type.dtype).make_variable() for v in fgraph.inputs}
    for node in fgraph.toposort():
        if type(node.op) is DimShuffle and _is_number(node.inputs[0]):
            operands = [_scalar(scalars, node.inputs[0])]
            results = operands
        elif type(node.op) is Elemwise and all(map(_is_possible, node.outputs)):
            operands = [_scalar(scalars, v) for v in node.inputs]
            results = None if None in operands else node.op.scalar_op.make_node(*operands).outputs
        else:
            return None
        if None in operands:
            return None
        if [r.type.dtype for r in results] != [v.type.dtype for v in node.outputs]:
            return None
        scalars.update(zip(node.outputs, results))
    outputs = [scalars.get(v) for v in fgraph.outputs]
    inputs = [scalars[v] for v in fgraph.inputs]
    if any(v is None or v.owner is None for v in outputs):
        return None
    return Composite(inputs, outputs)


def _scalar(scalars, v):
    """The scalar that stands for a variable, or for a constant of one value; None for others."""
    if isinstance(v, Constant) and v not in scalars and _is_number(v) and type(v.type) is TensorType:
        kind = get_scalar_type(v.type.dtype)
        scalars[v] = ScalarConstant(kind, kind.filter(v.data.reshape(())[()]))
    return scalars.get(v)


def _source(op, fgraph, arithmetic, numbers):
    """The C text and what `Kernel` takes beside it; (None, None) for arithmetic that asks for Python."""
    n_in, n_out = len(fgraph.inputs), len(numbers) - len(fgraph.inputs)
    variables = [*fgraph.inputs, *fgraph.outputs]
    ctypes = [get_scalar_type(v.type.dtype).dtype_specs()[1] for v in variables]
    local = ["tng_v%d" % k for k in range(len(variables))]
    node = scalar_node(arithmetic, fgraph)
    body, environment, needs_python = scalar_c_parts(arithmetic, node, local[:n_in], local[n_in:])
    if needs_python:
        return None, None
    moving = [k for k in range(len(numbers)) if k < n_in - op.n_others or k >= n_in]
    vectors = not all(numbers)
    first_tap = op.n_seqs
    taps = {}  # operand -> (state, tap)
    for state, read in enumerate(op.tap_array):
        for tap in read:
            taps[first_tap] = (state, tap)
            first_tap += 1
    # Numbers that a step reads back stay in variables: (state, lag) -> name. Rows of mit_mot are changed in memory.
    carried = {}
    if not vectors:
        for state in range(op.n_mit_mot, op.n_states):
            for lag in range(1, op.lead(state) + 1):
                carried[state, lag] = "tng_c%d_%d" % (state, lag)
    from_register = {k: carried[state, -tap] for k, (state, tap) in taps.items() if (state, -tap) in carried}
    lines = ["int64_t KERNEL(int64_t tng_steps, int64_t tng_n, char **tng_base, const int64_t *tng_place)", "{"]
    for k in moving:
        lines.append("    char *const tng_b%d = tng_base[%d];" % (k, k))
        lines.append("    const int64_t tng_s%d = tng_place[%d], tng_l%d = tng_place[%d];" % (k, 3 * k, k, 3 * k + 1))
        lines.append("    int64_t tng_r%d = tng_place[%d];" % (k, 3 * k + 2))
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
    lines.append("    int64_t tng_t = 0;")
    lines.append("    while (tng_t < tng_steps) {")
    inner = []
    for k in range(n_in):
        const = "const %s " % ctypes[k]
        if k in from_register:
            inner.append("%s%s = %s;" % (const, local[k], from_register[k]))
        elif numbers[k]:
            if k in moving:
                lines.append("        %stng_h%d = *(%s*)(tng_b%d + tng_r%d * tng_s%d);" % (const, k, const, k, k, k))
            inner.append("%s%s = tng_h%d;" % (const, local[k], k))
        else:
            if k in moving:
                lines.append("        %s*tng_p%d = (%s*)(tng_b%d + tng_r%d * tng_s%d);" % (const, k, const, k, k, k))
            inner.append("%s%s = tng_p%d[tng_i];" % (const, local[k], k))
    for k in range(n_in, n_in + n_out):
        lines.append("        %s *tng_p%d = (%s *)(tng_b%d + tng_r%d * tng_s%d);" % (ctypes[k], k, ctypes[k], k, k, k))
    if vectors:
        # An output may overwrite a row that is read: each element after it was read.
        lines += ["#pragma GCC ivdep", "        for (int64_t tng_i = 0; tng_i < tng_n; ++tng_i) {"]
    lines += ["        " + line for line in inner]
    lines += ["        %s %s;" % (ctypes[k], local[k]) for k in range(n_in, len(variables))]
    lines += ["        {", body, "        }"]
    at = "tng_i" if vectors else "0"
    lines += ["        tng_p%d[%s] = %s;" % (k, at, local[k]) for k in range(n_in, n_in + n_out)]
    if vectors:
        lines.append("        }")
    else:
        lines.append("        (void)tng_n;")
        for state, lag in sorted(carried, reverse=True):
            former = carried.get((state, lag - 1), local[sinks[state]])
            lines.append("        %s = %s;" % (carried[state, lag], former))
    for k in moving:
        lines.append("        if (++tng_r%d == tng_l%d) tng_r%d = 0;" % (k, k, k))
    lines.append("        ++tng_t;")
    if op.as_while:
        lines.append("        if (%s) break;" % local[-1])
    lines += ["    }", "    return tng_t;", "}"]
    return "\n".join(lines) + "\n", environment


def _sinks_of_states(op, n_in):
    """Operand of the inner output of each of mit_sot and sit_sot."""
    first = n_in + op.n_mit_mot_outs
    return {op.n_mit_mot + i: first + i for i in range(op.n_mit_sot + op.n_sit_sot)}
