"""The translation of loop programs to programs for the interpreter in tensor/native/elementwise/blocks.

The interpreter has the interface of a compiled kernel, so that drivers such as native/elementwise/elemwise.c can call
either of them. It computes the same results as compiled kernels, in the same order: it executes one instruction after
the other, each for a block of elements.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from theano_ng.gof.compiler.standin import Interpretation
from theano_ng.loops.blocks.instructions import conversion, instruction_module
from theano_ng.loops.blocks.steps import Parts, Unsupported, Writer, chain, needed, renamed, single
from theano_ng.loops.blocks.superinstructions import READ_ONCE
from theano_ng.loops.program import Access, Literal, flattened

if TYPE_CHECKING:
    from theano_ng.loops.blocks.complex_steps import Pair, Value
    from theano_ng.loops.program import LoopProgram

# Flags of operands in addition to their `Access`. native/elementwise/blocks/interpreter.c defines the same flags.
_MOVES, _READ_ONCE = 4, 8

_LOOP = "loop"
_CACHE = 24576
_BLOCKS = (1024, 512, 256, 128)


@functools.cache
def interpreted(program: LoopProgram) -> Interpretation | None:
    """Translate a loop program to a program of the interpreter, which then runs in place of a compiled kernel.

    Parameters
    ----------
    program : LoopProgram

    Returns
    -------
    Interpretation or None
        None if the interpreter cannot run the program, for example because an instruction is missing.
    """
    try:
        return _translated(flattened(program))
    except Unsupported:
        return None


def _translated(program: LoopProgram) -> Interpretation:
    """Return the Interpretation of a program without Composites.

    Only at run time is it known whether a MAYBE_BROADCAST input is the same for all elements. If the program has such
    an input, the Interpretation contains a second program, which is run if the input is the same for all elements.
    """
    alternate = next((k for k, x in enumerate(program.inputs) if x.access == Access.MAYBE_BROADCAST), -1)
    other = None
    if alternate >= 0:
        other = _translated(program.with_access(Access.HOISTED))
        program = program.with_access(Access.VARYING)
    writer = Writer([x.dtype for x in (*program.inputs, *program.outputs)])
    value = _write(writer, program)
    stored = [value(v) for v in program.stores]
    dtypes = [x.dtype for x in program.outputs]
    if program.fold is not None:
        if dtypes[0] == "float16" or isinstance(stored[0], Parts):
            raise Unsupported
        dtypes = [program.fold.dtype]
    until = [] if program.until is None else [writer.convert(value(program.until), "bool")]
    fixed = {("operand", k) for k, x in enumerate(program.inputs) if x.access == Access.HOISTED}
    place, values = _finish(writer, [*stored, *until], dtypes, len(program.inputs), fixed)
    return _packed(program, writer, place, dtypes, values[len(stored) :], alternate, other)


def _write(writer: Writer, program: LoopProgram) -> Callable[[int | Literal], Value]:
    """Write the steps of a program. Return a function from the values of the program to the values of the writer."""
    dtypes, values = program.dtypes(), [writer.operand(k) for k in range(len(program.inputs))]

    def value(v: int | Literal) -> Value:
        return writer.constant(v.dtype, v.value) if isinstance(v, Literal) else values[v]

    for op, arguments, results in program.steps:
        if len(results) != 1:
            raise Unsupported
        given = [a.dtype if isinstance(a, Literal) else dtypes[a] for a in arguments]
        values.append(writer.apply(op, [value(a) for a in arguments], given, results[0]))
    return value


def _finish(
    writer: Writer, outputs: list[Value], targets: list[str], nin: int, fixed: set[Pair]
) -> tuple[dict[Pair, int], list[Value]]:
    """Emit the conversions and copies that store results in the output operands.

    If possible, a step whose result is an output stores this result directly in the operand. Because an output may
    share memory with an input, no step stores an output before the last step that reads an input.

    Returns
    -------
    place : dict
        Stored value -> the number of the output operand.
    outputs : list of values
        The outputs, renumbered.
    """
    outputs = chain(writer, needed(writer, outputs), fixed)
    if len(outputs) > 1:
        read = dict.fromkeys([v for output in outputs for v in single(output) if v[0] == "operand"])
        copies = {v: _copy(writer, v) for v in read}
        outputs = [renamed(value, copies) for value in outputs]
    last_read = max([k for k, step in enumerate(writer.steps) for v in step[2] if v[0] == "operand"], default=-1)
    place, count = {}, len(writer.steps)
    for j, (value, dtype) in enumerate(zip(outputs, targets)):
        source = writer.dtype_of(value)
        if isinstance(value, Parts):
            place[writer.join(value)] = nin + j
        elif dtype == "float16" or source != dtype:
            value = writer.emit(conversion(source, dtype), dtype, value)
            place[value] = nin + j
        elif value[0] == "result" and last_read <= value[1] < count and value not in place:
            place[value] = nin + j
        else:
            place[_copy(writer, value)] = nin + j
    return place, outputs


def _copy(writer: Writer, value: Value) -> Pair:
    dtype = writer.dtypes[value]
    return writer.emit("copy_%d" % (8 * np.dtype(dtype).itemsize), dtype, value)


def _registers(writer: Writer, place: dict[Pair, int], kept: Iterable[Pair]) -> tuple[dict[Pair, int], int]:
    """Assign registers to results. Results in the dict `place` are stored in output operands and need no register.

    Results in `kept` keep their registers to the end.

    Returns
    -------
    registers : dict
        Result -> number of its register.
    count : int
        The number of registers.
    """
    last = {}
    for k, (_, _, operands) in enumerate(writer.steps):
        for value in operands:
            last[value] = k
    last.update(dict.fromkeys(kept, len(writer.steps)))
    registers: dict[Pair, int] = {}
    free: list[int] = []
    count = 0
    for k, (_, value, operands) in enumerate(writer.steps):
        done = [v for v in dict.fromkeys(operands) if v in registers and last[v] == k]
        # A result may overwrite an operand of the same item size. If the items of the operand were smaller, the result
        # would overwrite elements that have not been read yet.
        size = np.dtype(writer.dtypes[value]).itemsize
        same = [np.dtype(writer.dtypes[v]).itemsize == size for v in done]
        free += [registers[v] for v, fits in zip(done, same) if fits]
        if value not in place:
            registers[value] = free.pop() if free else count
            count = max(count, registers[value] + 1)
        free += [registers[v] for v, fits in zip(done, same) if not fits]
    return registers, count


def _packed(
    program: LoopProgram,
    writer: Writer,
    place: dict[Pair, int],
    dtypes: list[str],
    until: list[Pair],
    alternate: int,
    other: Interpretation | None,
) -> Interpretation:
    """Return the Interpretation that contains the program for the interpreter as packed parameters.

    Parameters
    ----------
    program : LoopProgram
    writer : Writer
        The written steps.
    place : dict
        Value -> the number of the output operand to which the value is written.
    dtypes : list of str
        The dtypes of the outputs.
    until : list of values
        The value that ends an outer loop, in a list. The list is empty if no value ends the loop.
    alternate : int
        The index of a MAYBE_BROADCAST input, or -1 if there is no such input.
    other : Interpretation or None
        The program for the case that the input `alternate` is the same for all elements.

    Returns
    -------
    Interpretation
    """
    operands = [*program.inputs, *program.outputs]
    is_loop = any([x.moves for x in operands])
    dtypes = [*[x.dtype for x in program.inputs], *dtypes]
    instructions = instruction_module().instructions
    nop, n_constants = len(dtypes), len(writer.constants)
    items = [np.dtype(d).itemsize for d in dtypes]
    registers, count = _registers(writer, place, until)
    item = max([np.dtype(writer.dtypes[value]).itemsize for value in registers], default=1)
    read = {v for name, _, given in writer.steps for k, v in enumerate(given) if k not in READ_ONCE.get(name, ())}
    kinds = [
        _MOVES * x.moves | (_READ_ONCE if x.access == Access.HOISTED and ("operand", k) not in read else int(x.access))
        for k, x in enumerate(operands)
    ]
    in_use = (
        count * item
        + 8 * sum(v[0] == "constant" for v in read)
        + sum(n for n, kind in zip(items, kinds) if not kind & _READ_ONCE)
    )
    block = next((b for b in _BLOCKS if b * in_use <= _CACHE), _BLOCKS[-1])

    def number(value: Pair) -> int:
        if value in place:
            return place[value]
        kind, k = value
        return k if kind == "operand" else nop + k if kind == "constant" else nop + n_constants + registers[value]

    checked = program.guards.inputs if program.guards.first else ()
    steps, zeros = [], nop + n_constants + count
    for name, value, given in writer.steps:
        steps.append(
            [
                instructions[name],
                number(value),
                *[number(v) for v in given],
                *[0] * (3 - len(given)),
                *[zeros] * (len(given) < 4),
            ]
        )
    blocks = []
    for dtype, data in writer.constants:
        blocks.append(_aligned(np.frombuffer(data, dtype=dtype), block))
    repeated = sum(n for n, kind in zip(items, kinds) if kind & Access.HOISTED)
    head = [0, block, len(program.inputs), len(program.outputs), n_constants, count, item, repeated, len(steps)]
    head += [alternate, other.words.ctypes.data if other else 0]
    tables = [
        [word for step in steps for word in step],
        items,
        kinds,
        [b.ctypes.data for b in blocks],
        ([number(v) for v in until] or [-1]) if is_loop else [len(checked), *checked],
    ]
    at = len(head) + len(tables)
    for table in tables:
        head.append(at)
        at += len(table)
    kernel = _LOOP if is_loop else "" if program.fold is None else program.fold.dtype
    words = np.array([word for table in (head, *tables) for word in table], dtype=np.int64)
    return Interpretation(instruction_module().kernels[kernel], words, (blocks, other))


def _aligned(value: np.ndarray, length: int) -> np.ndarray:
    """Return a block that is aligned to a cache line. All its elements are equal to ``value[0]``."""
    room: np.ndarray = np.empty(length * value.itemsize + 64, dtype=np.uint8)
    start = -room.ctypes.data % 64
    block = room[start : start + length * value.itemsize].view(value.dtype)
    block[:] = value[0]
    return block
