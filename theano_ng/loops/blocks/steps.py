"""The translation of scalar ops to steps of a program for the interpreter of elementwise operations.

The order of the steps is the order in which compiled kernels compute.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from theano_ng.loops.blocks.complex_steps import COMPLEX_RULES, OF_PARTS, Parts
from theano_ng.loops.blocks.instructions import PARTS, conversion, instruction_module, name_of, operand_dtype
from theano_ng.loops.blocks.superinstructions import combine_steps
from theano_ng.scalar.op import is_complex, is_discrete
from theano_ng.scalar.ops_arith import Identity, Second, Switch
from theano_ng.scalar.ops_compare import IsInf, IsNan
from theano_ng.scalar.ops_complex import Cast

if TYPE_CHECKING:
    from theano_ng.loops.blocks.complex_steps import Pair, Value

    Instruction: TypeAlias = tuple[str, Pair, tuple[Pair, ...]]

_COMPLEX = {part: dtype for dtype, part in PARTS.items()}


class Unsupported(Exception):
    """The exception for a loop program that the interpreter cannot run, for example if an instruction is missing."""


class Writer:
    """The values and steps of a program under construction.

    A value is a pair ``(kind, number)`` with the kind "operand", "constant" or "result", or the `Parts` of a complex
    number. Results are numbered in the order of computation. Registers are assigned when the program is complete.
    """

    def __init__(self, dtypes: Sequence[str]) -> None:
        self.dtypes = {("operand", k): dtype for k, dtype in enumerate(dtypes)}
        self.constants: dict[tuple[str, bytes], Pair] = {}
        self.steps: list[Instruction] = []  # tuples: name of the instruction, its result, its operands

    def emit(self, name: str, dtype: str, *operands: Pair) -> Pair:
        value = ("result", len(self.steps))
        self.dtypes[value] = dtype
        self.steps.append((name, value, operands))
        return value

    def dtype_of(self, value: Value) -> str:
        return _COMPLEX[self.dtypes[value.re]] if isinstance(value, Parts) else self.dtypes[value]

    def operand(self, k: int) -> Value:
        """Return the value of operand `k`.

        The value of a float16 operand is converted to float32. The value of a complex operand is `Parts`.
        """
        value, dtype = ("operand", k), self.dtypes["operand", k]
        if is_complex(dtype):
            return self.split(value, dtype)
        return self.convert(value, "float32") if dtype == "float16" else value

    def split(self, value: Pair, dtype: str) -> Parts:
        return Parts(*[self.emit("%s_%s" % (part, dtype), PARTS[dtype], value) for part in ("Real", "Imag")])

    def join(self, value: Parts) -> Pair:
        """Emit the instruction that joins two parts to a complex number. Return the value of this number."""
        dtype = self.dtype_of(value)
        return self.emit("Complex_" + dtype, dtype, *value)

    def constant(self, dtype: str, data: Any) -> Value:
        """Return the value of a constant. A float16 constant becomes a float32 with the same value."""
        if is_complex(dtype):
            data = np.asarray(data, dtype=dtype)
            return Parts(self.constant(PARTS[dtype], data.real), self.constant(PARTS[dtype], data.imag))
        dtype = "float32" if dtype == "float16" else dtype
        data = np.asarray(data, dtype=dtype)
        value = self.constants.setdefault((dtype, data.tobytes()), ("constant", len(self.constants)))
        self.dtypes[value] = dtype
        return value

    def convert(self, value: Value, dtype: str) -> Value:
        if is_complex(dtype):
            parts = value if isinstance(value, Parts) else Parts(value, self.constant(PARTS[dtype], 0))
            return Parts(*[self.convert(part, PARTS[dtype]) for part in parts])
        if isinstance(value, Parts):
            if dtype != "bool":
                return self.convert(value.re, dtype)
            return self.emit("OR_bool", "bool", *[self.convert(part, "bool") for part in value])
        source = self.dtypes[value]
        return value if source == dtype else self.emit(conversion(source, dtype), dtype, value)

    def apply(self, op: Any, operands: list[Value], dtypes: Sequence[str], out: str) -> Value:
        """Emit the steps that compute a scalar op.

        Parameters
        ----------
        op : ScalarOp
        operands : list of values
            The values of the operands. An operand whose dtype in `dtypes` is float16 is given as float32.
        dtypes : list of str
            The input dtypes of the op.
        out : str
            The output dtype of the op.

        Returns
        -------
        value
            The result. If `out` is float16, it is a float32 that is rounded to the precision of float16.
        """
        wide = [self.dtype_of(v) for v in operands]
        target = "float32" if out == "float16" else out
        computed = op._c_dtype(dtypes, out)
        computed = "float32" if computed == "float16" else computed
        kind = type(op)
        if kind in (Cast, Identity, Second):
            if out == "float16" and wide[-1] not in ("float32",):
                raise Unsupported  # compiled code rounds once; steps would round twice, to another result
            result = self.convert(operands[-1], target)
        elif kind in COMPLEX_RULES and (kind in OF_PARTS or any(map(is_complex, (*wide, computed)))):
            result = self.convert(COMPLEX_RULES[kind](self, op, operands, computed), target)
        elif any(map(is_complex, (*wide, computed))):
            result = self.convert(self.of_complex(op, operands, computed), target)
        elif kind in (IsNan, IsInf) and is_discrete(wide[0]):
            result = self.convert(self.constant("bool", False), target)
        else:
            dtype: Any = operand_dtype(op, wide, computed)
            name = dtype and name_of(op, dtype)
            if name is None or name not in instruction_module().instructions:
                raise Unsupported
            result = self._instruction(op, name, dtype, operands, computed, target)
        if out == "float16" and (kind not in (Identity, Second) or wide[-1] != "float32" or "float16" not in dtypes):
            result = self.emit("round_to_half", "float32", result)
        return result

    def of_complex(self, op: Any, operands: list[Value], computed: str) -> Parts:
        """Emit an instruction on joined complex numbers. Return the parts of its result."""
        name: Any = name_of(op, computed)
        if not is_complex(computed) or name not in instruction_module().instructions:
            raise Unsupported
        return self.split(
            self.emit(name, computed, *[self.join(self.convert(v, computed)) for v in operands]), computed
        )

    def _instruction(self, op: Any, name: str, dtype: str, operands: list[Value], computed: str, target: str) -> Value:
        if isinstance(op, Switch):
            operands = [self.convert(operands[0], "bool"), *[self.convert(v, dtype) for v in operands[1:]]]
        else:
            operands = [self.convert(v, dtype) for v in operands]
        # The result of an instruction is bool, or it has the dtype of the instruction.
        given = "bool" if computed == "bool" else dtype
        if op.nin < 0:
            result = operands[0]
            for other in operands[1:]:
                result = self.emit(name, given, result, other)
        else:
            result = self.emit(name, given, *operands)
        return self.convert(self.convert(result, computed), target)


def needed(writer: Writer, outputs: list[Value]) -> list[Value]:
    """Remove the steps whose results are not used, such as unused parts of complex numbers.

    Steps with integer results remain, because some of them detect divisions by zero.

    Parameters
    ----------
    writer : Writer
    outputs : list of values
        The values that the program must compute.

    Returns
    -------
    list of values
        The outputs, renumbered.
    """
    used = {v for output in outputs for v in single(output)}
    kept = []
    for step in reversed(writer.steps):
        if step[1] in used or is_discrete(writer.dtypes[step[1]]):
            used.update(step[2])
            kept.append(step)
    return _numbered(writer, kept[::-1], outputs)


def chain(writer: Writer, outputs: list[Value], fixed: Set[Pair]) -> list[Value]:
    """Replace each pair of steps for which a combined instruction exists by one step.

    Parameters
    ----------
    writer : Writer
    outputs : list of values
        The values that the program must compute.
    fixed : set of values
        The operands that are the same for all elements.

    Returns
    -------
    list of values
        The outputs, renumbered.
    """
    kept = {v for output in outputs for v in single(output)}
    return _numbered(writer, combine_steps(writer.steps, kept, lambda v: v[0] == "constant" or v in fixed), outputs)


def _numbered(writer: Writer, steps: Sequence[Instruction], outputs: list[Value]) -> list[Value]:
    """Replace the steps of `writer` by `steps`, and renumber the results. Return the renumbered outputs."""
    replaced = [value for _, value, _ in (*writer.steps, *steps)]
    del writer.steps[:]
    names = {}
    for name, value, operands in steps:
        names[value] = ("result", len(writer.steps))
        writer.steps.append((name, names[value], tuple([names.get(v, v) for v in operands])))
    dtypes = {new: writer.dtypes[old] for old, new in names.items()}
    for value in replaced:
        writer.dtypes.pop(value, None)
    writer.dtypes.update(dtypes)
    return [renamed(v, names) for v in outputs]


def single(value: Value) -> tuple[Pair, ...]:
    """Return the values of which a value consists: its two parts if it is complex, otherwise the value itself."""
    return value if isinstance(value, Parts) else (value,)


def renamed(value: Value, names: dict[Pair, Pair]) -> Value:
    return Parts(*[names.get(v, v) for v in value]) if isinstance(value, Parts) else names.get(value, value)
