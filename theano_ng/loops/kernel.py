"""The C code of loops over the elements of contiguous operands.

These loops are kernels for native/elementwise/elemwise.c and other drivers.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from theano_ng.gof.native import Kernel
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.loops.blocks.interpreter import interpreted
from theano_ng.loops.program import Access
from theano_ng.loops.source import FAIL, scalar_apply, scalar_source
from theano_ng.scalar.divisors import divides
from theano_ng.scalar.op import support_text
from theano_ng.scalar.types import c_type, discrete_dtypes

if TYPE_CHECKING:
    from theano_ng.loops.program import LoopProgram
    from theano_ng.loops.source import ScalarSource

_LOCAL = "tng_v%d"
_POINTER = "tng_p%d"
_HOISTED = "tng_h%d"
_ZEROS = "tng_zeros_%s"
_CALL = r"\b(?!if\b|for\b|while\b|sizeof\b)[A-Za-z_]\w* ?\("


class _Result(NamedTuple):
    """The storage of a value that is summed: the C type of the value, the array, and the operator of the assignment."""

    ctype: str
    array: str
    assignment: str


def elemwise_kernel(program: LoopProgram) -> tuple[Kernel, bool]:
    """Return the kernel of a loop program.

    Parameters
    ----------
    program : LoopProgram
        A program of one step, whose results are stored in their order. Its fold, if any, is an addition: the kernel
        then adds the sum of the results to an accumulator. If the fold is `separate` and the stride of the output is
        not 0, the kernel adds each result to a separate accumulator. The pointer of the output is the address of the
        first accumulator; see native/reductions/reduce_elemwise.h.

    Returns
    -------
    kernel : Kernel
    needs_python : bool
        Whether the kernel uses Python's C API.

    Raises
    ------
    MethodNotDefined or NotImplementedError
        If the scalar op has no C code for these dtypes.
    """
    writer = _ElementLoops(program)
    kernel = Kernel(source=writer.source(), program=program, interpreter=interpreted, **writer.environment)
    return kernel, writer.needs_python


class _ElementLoops:
    """A writer of the C function for a loop program.

    Operand k has the pointer ``tng_pk`` and the value ``tng_vk``. If it is read only once, its value is ``tng_hk``,
    which is loaded before the loop.

    Attributes
    ----------
    wide : set of int
        The float16 operands that are converted block by block.
    """

    def __init__(self, program: LoopProgram) -> None:
        self.program = program
        (step,) = program.steps
        self.op, self.nin = step.op, len(program.inputs)
        self.operands = [*program.inputs, *program.outputs]
        self.ctypes = [c_type(x.dtype) for x in self.operands]
        self.node = scalar_apply(self.op, [x.dtype for x in program.inputs], step.dtypes)
        halves = {k for k, x in enumerate(self.operands) if x.dtype == "float16"}
        self.wide = set() if getattr(self.op, "on_half_bits", False) else halves
        self.sub = {"zeros": _ZEROS if program.guards else None} if divides(self.op) else {}
        try:
            self.body, self.environment, self.needs_python = self._scalar_source(self.sub)
        except (MethodNotDefined, AttributeError):  # if a user's op lacks c_code_wide, do not convert blocks
            if not self.wide:
                raise
            self.wide = set()
            self.body, self.environment, self.needs_python = self._scalar_source(self.sub)
        if self.wide:
            self._support("half_blocks.h")
        if program.guards.first:
            self.checked_body = self._scalar_source({"zeros": None}).body
            self._support("zero_in.h")
        self.accumulator = None
        if program.fold is not None:
            dtype = program.fold.dtype
            # The overflow of signed integers is undefined in C. The sum of unsigned integers is defined and has the
            # same bits, so accumulate integers as unsigned integers.
            self.accumulator = c_type(dtype.replace("int", "uint") if dtype.startswith("int") else dtype)
            self._support("sum_blocks.h")
            self.ctypes[self.nin] = self.accumulator

    def _scalar_source(self, sub: dict[str, Any]) -> ScalarSource:
        return scalar_source(self.op, self.node, *self._names(), wide=bool(self.wide), **sub)

    def _support(self, file: str) -> None:
        self.environment["support"] = support_text(file) + self.environment["support"]

    def _names(self) -> tuple[list[str], list[str]]:
        names = [_LOCAL % k for k in range(len(self.operands))]
        return names[: self.nin], names[self.nin :]

    def source(self) -> str:
        """Return the C source code."""
        summed, flag = self.accumulator is not None, len(self.operands)
        lines = [
            "void KERNEL(int64_t %s, char **tng_ptr, const int64_t *tng_stride)" % ("tng_total" if summed else "tng_n"),
            "{",
        ]
        for k, ctype in enumerate(self.ctypes):
            const = "const " if k < self.nin else ""
            name = "tng_acc" if summed and k == self.nin else _POINTER % k
            lines.append("    %s%s *%s = (%s%s *)tng_ptr[%d];" % (const, ctype, name, const, ctype, k))
        # The variables that record zero divisors have the dtype of the divisors, so that SIMD vectors of both have the
        # same number of elements.
        zeros = [dtype for dtype in discrete_dtypes if _ZEROS % dtype in self.body]
        lines += ["    %s %s = 0;" % (c_type(dtype), _ZEROS % dtype) for dtype in zeros]
        # Copy the values of HOISTED operands into local variables. An output may share memory with such an operand, so
        # without the copy the compiler would read the operand again in each iteration.
        hoisted, alternates = self._accessed(Access.HOISTED), self._accessed(Access.MAYBE_BROADCAST)
        lines += ["    " + self._hoist(k) for k in hoisted]
        separate = self.program.fold is not None and self.program.fold.separate
        if separate:
            lines += [
                "    if (tng_stride[%d] != 0) {" % self.nin,
                *self._separate_sums(hoisted, alternates),
                "    } else {",
            ]
        if summed:
            lines.append("    TNG_SUM_BEGIN(%s, %s)" % (self.accumulator, _POINTER % self.nin))
        lines += self._either_loop(hoisted, alternates)
        if not alternates:
            lines.append("    (void)tng_stride;")
        if summed:
            lines += self._advance()
            lines.append("    TNG_SUM_END(%s, %s, tng_acc)" % (self.accumulator, _POINTER % self.nin))
        if separate:
            lines.append("    }")
        lines += ["    if (%s) *(int *)tng_ptr[%d] = 1;" % (_ZEROS % dtype, flag) for dtype in zeros]
        return "\n".join([*lines, "}"]) + "\n"

    def _separate_sums(self, hoisted: list[int], alternates: list[int]) -> list[str]:
        """Return the lines of a loop that adds each value to a separate accumulator.

        The compiler vectorizes a loop with function calls only if all values have the same size. If a loop contains
        calls, and the accumulators have another dtype than the values, the loop therefore stores a block of values, and
        a second loop adds the block to the accumulators.
        """
        dtype, pointer = c_type(self.program.outputs[0].dtype), _POINTER % self.nin
        if dtype == self.accumulator or not re.search(_CALL, self.body):
            result = _Result(self.ctypes[self.nin], "tng_acc", "+=")
            return ["    const int64_t tng_n = tng_total;", *self._either_loop(hoisted, alternates, result)]
        return [
            "    TNG_ADD_BEGIN(%s, %s)" % (dtype, pointer),
            *self._either_loop(hoisted, alternates, _Result(dtype, pointer, "=")),
            *self._advance(),
            "    TNG_ADD_END(%s, tng_acc)" % pointer,
        ]

    def _either_loop(self, hoisted: list[int], alternates: list[int], result: _Result | None = None) -> list[str]:
        """Return the lines of the loop. If there are operands in `alternates`, return two loops: at run time, the
        stride of the first of these operands selects one of the loops.
        """
        if not alternates:
            return self._loops({*hoisted}, " " * 4, result)
        return [
            "    if (tng_stride[%d] == 0) {" % alternates[0],
            *["        " + self._hoist(k) for k in alternates],
            *self._loops({*hoisted, *alternates}, " " * 8, result),
            "    } else {",
            *self._loops({*hoisted}, " " * 4, result),
            "    }",
        ]

    def _accessed(self, access: Access) -> list[int]:
        return [k for k, x in enumerate(self.program.inputs) if x.access == access]

    def _advance(self) -> list[str]:
        """Return statements that advance the inputs to the next block of a sum."""
        lines = []
        for k, x in enumerate(self.program.inputs):
            if x.access == Access.VARYING:
                lines.append("    %s += tng_n;" % (_POINTER % k))
            elif x.access == Access.MAYBE_BROADCAST:
                lines.append("    %s += tng_stride[%d] ? tng_n : 0;" % (_POINTER % k, k))
        return lines

    def _hoist(self, k: int) -> str:
        """Return a C declaration of the value of an operand that is read only once."""
        if k in self.wide:
            return "const npy_float32 %s = tng_half_to_float(*%s);" % (_HOISTED % k, _POINTER % k)
        return "const %s %s = *%s;" % (self.ctypes[k], _HOISTED % k, _POINTER % k)

    def _loops(self, hoisted: Set[int], indent: str, result: _Result | None) -> list[str]:
        """Return the lines of the loop.

        If the driver may request a check of the divisors before the loop, return two branches: the check followed by a
        loop without checks, and a loop with checks.
        """
        if not self.program.guards.first:
            return self._loop(hoisted, indent, self.body, self.sub, result)
        return [
            indent + "if (*(int *)tng_ptr[%d]) {" % len(self.operands),
            *[self._divisor_check(k, k in hoisted, indent + "    ") for k in self.program.guards.inputs],
            *self._loop(hoisted, indent + "    ", self.checked_body, {"zeros": None}, result),
            indent + "} else {",
            *self._loop(hoisted, indent + "    ", self.body, self.sub, result),
            indent + "}",
        ]

    def _divisor_check(self, k: int, hoisted: bool, indent: str) -> str:
        """Return C code that checks the divisor `k`. If it contains a zero, the kernel sets a flag and returns."""
        bits = 8 * np.dtype(self.operands[k].dtype).itemsize
        if hoisted:
            # The empty asm hides the test from the compiler: gcc 12 generates slower code if it knows that no divisor
            # is 0.
            found = 'int tng_zero = %s == 0; __asm__("" : "+r"(tng_zero));' % (_HOISTED % k)
        else:
            found = "int tng_zero = tng_zero_in_uint%d_t((const uint%d_t *)%s, tng_n);" % (bits, bits, _POINTER % k)
        return "%s{ %s *(int *)tng_ptr[%d] = tng_zero; if (tng_zero) return; }" % (indent, found, len(self.operands))

    def _loop(
        self, hoisted: Set[int], indent: str, body: str, sub: dict[str, Any], result: _Result | None
    ) -> list[str]:
        """Return the lines of one C loop.

        Operands in `hoisted` are single values. The other operands are contiguous arrays. If `result` is given, it
        describes the storage of the first output in place of the array of this output.

        The iterations are independent (ivdep) even if an output overwrites an input: either each iteration reads and
        writes the same element, or the driver has copied the input.
        """
        fixed = {k: _HOISTED % k for k in hoisted}
        specialized = self.op.c_code_fixed(self.node, "n", *self._names(), dict(fail=FAIL, **sub), fixed)
        start, body = specialized or ("", body)
        before, after, count, at = [indent + start] * bool(start), [], "tng_n", "tng_i"
        if self.wide:
            count, at, after = "tng_m", "tng_at + tng_i", [indent + "}"]
            before += [
                indent + "for (int64_t tng_at = 0; tng_at < tng_n; tng_at += TNG_HALF_BLOCK) {",
                indent + "const int64_t tng_m = tng_n - tng_at < TNG_HALF_BLOCK ? tng_n - tng_at : TNG_HALF_BLOCK;",
            ]
        for k in sorted(self.wide - hoisted):
            before.append(indent + "npy_float32 tng_w%d[TNG_HALF_BLOCK];" % k)
            if k < self.nin:
                before.append(indent + "tng_widen(tng_m, %s + tng_at, tng_w%d);" % (_POINTER % k, k))
            else:
                after.insert(0, indent + "tng_narrow(tng_m, tng_w%d, %s + tng_at);" % (k, _POINTER % k))
        inner = indent + "    "
        loads, stores = [], []
        for k, ctype in enumerate(self.ctypes):
            pointer, assignment = _POINTER % k, "="
            if k == self.nin and result is not None:
                ctype, pointer, assignment = result
            ctype = "npy_float32" if k in self.wide else ctype
            element = "tng_w%d[tng_i]" % k if k in self.wide else "%s[%s]" % (pointer, at)
            if k >= self.nin:
                loads.append("%s%s %s;" % (inner, ctype, _LOCAL % k))
                stores.append("%s%s %s %s;" % (inner, element, assignment, _LOCAL % k))
            else:
                source = _HOISTED % k if k in hoisted else element
                loads.append("%sconst %s %s = %s;" % (inner, ctype, _LOCAL % k, source))
        return [
            *before,
            "#pragma GCC ivdep",
            indent + "for (int64_t tng_i = 0; tng_i < %s; ++tng_i) {" % count,
            *loads,
            "%s{" % inner,
            body,
            "%s}" % inner,
            *stores,
            indent + "}",
            *after,
        ]
