"""The C code of reduction loops, for native/reductions/reduce.c."""

from __future__ import annotations

from typing import TYPE_CHECKING

from theano_ng.gof.native import Kernel
from theano_ng.loops.source import joined_environment, scalar_apply, scalar_source
from theano_ng.scalar.types import c_type

if TYPE_CHECKING:
    from theano_ng.loops.program import LoopProgram

_SOURCE = """void KERNEL(int64_t tng_n, char *tng_acc, int64_t tng_as, const char *tng_x, int64_t tng_xs)
{
    if (tng_as == 0) {
        %(T)s tng_a = *(%(T)s *)tng_acc;
        for (int64_t tng_i = 0; tng_i < tng_n; ++tng_i) {
            %(load)s
            %(T)s tng_z;
            {
%(body)s
            }
            tng_a = tng_z;
        }
        *(%(T)s *)tng_acc = tng_a;
        return;
    }
#pragma GCC ivdep
    for (int64_t tng_i = 0; tng_i < tng_n; ++tng_i) {
        const %(T)s tng_a = *(%(T)s *)(tng_acc + tng_i * tng_as);
        %(load)s
        %(T)s tng_z;
        {
%(body)s
        }
        *(%(T)s *)(tng_acc + tng_i * tng_as) = tng_z;
    }
}
"""


def fold_kernel(program: LoopProgram) -> Kernel | None:
    """Return the kernel of a reduction.

    Parameters
    ----------
    program : LoopProgram
        A program with one input and a fold. It has no steps, or one step, which converts the input.

    Returns
    -------
    Kernel or None
        None if the C code uses Python's C API.

    Raises
    ------
    MethodNotDefined or NotImplementedError
        If the scalar op has no C code for this dtype.
    """
    (operand,), (op, accumulator, _) = program.inputs, program.fold  # type: ignore[misc]
    node = scalar_apply(op, (accumulator, accumulator), (accumulator,))
    body, environment, needs_python = scalar_source(op, node, ["tng_a", "tng_b"], ["tng_z"])
    if needs_python:
        return None
    names = dict(T=c_type(accumulator), S=c_type(operand.dtype), body=body)
    element = "*(const %(S)s *)(tng_x + tng_i * tng_xs)" % names
    if program.steps:
        ((convert, _, dtypes),) = program.steps
        cast = scalar_source(convert, scalar_apply(convert, (operand.dtype,), dtypes), ["tng_e"], ["tng_b"], "c")
        load = "const %(S)s tng_e = %(element)s; %(T)s tng_b; %(cast)s"
        names["load"] = load % dict(names, element=element, cast=cast.body)
        environment = joined_environment(cast.environment, environment)
    else:
        names["load"] = "const %s tng_b = %s;" % (names["T"], element)
    return Kernel(source=_SOURCE % names, program=program, **environment)
