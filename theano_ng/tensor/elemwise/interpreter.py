"""The translation of scalar ops to programs for the interpreter of elementwise operations in native/blocks.

The interpreter has the interface of a compiled kernel (`elemwise.kernel`), so that the driver in native/elemwise.c can
call either. It computes the same results as compiled kernels, in the same order: it executes one instruction after the
other, each for a block of elements.
"""

import functools
from typing import NamedTuple

import numpy as np

from theano_ng.gof.compiler.standin import Interpretation
from theano_ng.tensor.elemwise.instructions import conversion, instruction_module
from theano_ng.tensor.elemwise.steps import Parts, Unsupported, Writer, chain, needed, renamed, single
from theano_ng.tensor.elemwise.superinstructions import READ_ONCE

# The kinds of operands, as in native/blocks/interpreter.c.
_ELEMENTS, _REPEATED, _MAYBE_BROADCAST, _READ_ONCE = 0, 1, 2, 8
MOVES = 4  # a flag of operands of loops: the operand has a row for each step
LOOP = "loop"

_CACHE = 24576
_BLOCKS = (1024, 512, 256, 128)


def _write(writer, op, operands, dtypes, outs):
    """Write the steps of an op; return the values of its outputs.

    Parameters
    ----------
    writer : Writer
    op : ScalarOp
    operands : list of values
    dtypes, outs : sequence of str
    """
    program = getattr(op, "lowered", None)
    if program is None:
        if len(outs) != 1:
            raise Unsupported
        return [writer.apply(op, operands, dtypes, outs[0])]
    values = dict(enumerate(operands))
    types = {slot: type_.dtype for slot, type_ in program.slot_types().items()}
    for slot, (type_, data) in program.constants.items():
        values[slot] = writer.constant(type_.dtype, data)
    for inner, args, results, _ in program.instructions:
        if len(results) != 1:
            raise Unsupported
        values[results[0]] = writer.apply(inner, [values[a] for a in args], [types[a] for a in args], types[results[0]])
    return [values[o] for o in program.outputs]


def _finish(writer, outputs, targets, nin, fixed):
    """Emit the conversions and copies that store results in the output operands.

    A step whose result is an output stores it directly if possible. An output may share the memory of an input, so no
    step reads an input after an output has been written.

    Returns
    -------
    place : dict
        For each value that is stored, the number of the output operand.
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


def _copy(writer, value):
    dtype = writer.dtypes[value]
    return writer.emit("copy_%d" % (8 * np.dtype(dtype).itemsize), dtype, value)


def _registers(writer, place, kept):
    """Assign registers to the results that are not in `place`, the dict of results that are stored in output operands.

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
    registers, free, count = {}, [], 0
    for k, (_, value, operands) in enumerate(writer.steps):
        done = [v for v in dict.fromkeys(operands) if v in registers and last[v] == k]
        # A result may overwrite an operand of equal item size. If the items of the operand were smaller, the result
        # would overwrite elements that are still to be read.
        size = np.dtype(writer.dtypes[value]).itemsize
        same = [np.dtype(writer.dtypes[v]).itemsize == size for v in done]
        free += [registers[v] for v, fits in zip(done, same) if fits]
        if value not in place:
            registers[value] = free.pop() if free else count
            count = max(count, registers[value] + 1)
        free += [registers[v] for v, fits in zip(done, same) if not fits]
    return registers, count


def _or_none(write):
    """Decorate a function that writes a program: cache its results, and return None if an instruction is missing."""

    @functools.cache
    @functools.wraps(write)  # kernels are pickled; pickle stores their `interpreted` by its name
    def written(*arguments):
        try:
            return write(*arguments)
        except Unsupported:
            return None

    return written


@_or_none
def interpreted(op, dtypes, outs, classes, divisors, summed=None):
    """Return a program for the interpreter that replaces an elementwise kernel.

    Parameters
    ----------
    op : ScalarOp
    dtypes, outs : tuple of str
        The dtypes of the inputs and of the outputs.
    classes : tuple of int
        From `elemwise.kernel.operand_classes`.
    divisors : tuple of int
        The inputs that are integer divisors and may have to be checked before an input is overwritten.
    summed : str, optional
        As for `elemwise.kernel.elemwise_kernel`.

    Returns
    -------
    Interpretation or None
        None if an instruction for the op is missing.
    """
    return _assemble(op, list(dtypes), list(outs), classes, divisors, summed)


class InterpretedLoop(NamedTuple):
    """A loop whose steps are elementwise (scan/kernel.py).

    The values of a step are numbered: first the inner inputs, then the results of the nodes.

    Attributes
    ----------
    dtypes : tuple of str
        The dtypes of the inner inputs.
    dtypes_of_outputs : tuple of str
    kinds : tuple of int
        The flags of each inner input and output: `MOVES` if it has a row for each step, 1 if it has the same value for
        all elements.
    nodes : tuple
        ``(scalar op, arguments, dtypes of arguments, dtypes of results)``. An argument is the number of a value, or a
        constant: a pair of dtype and bytes.
    outputs : tuple of int
        The numbers of the values that are stored in rows.
    until : int or None
        The number of the value that ends the loop if it is true.
    """

    dtypes: tuple
    dtypes_of_outputs: tuple
    kinds: tuple
    nodes: tuple
    outputs: tuple
    until: object


def _assemble(op, dtypes, outs, classes, divisors, summed):
    """Return the program of an op.

    Whether an operand of the kind `_MAYBE_BROADCAST` is the same for all elements is known only at run time. If there
    is such an operand, there is a program for each case.
    """
    alternates = [k for k, kind in enumerate(classes) if kind == _MAYBE_BROADCAST]
    other = None
    if alternates:
        fixed = [_REPEATED if kind == _MAYBE_BROADCAST else kind for kind in classes]
        other = _assemble(op, dtypes, outs, fixed, divisors, summed)
        classes = [_ELEMENTS if kind == _MAYBE_BROADCAST else kind for kind in classes]
    writer = Writer([*dtypes, *outs])
    fixed = {("operand", k) for k, kind in enumerate(classes) if kind == _REPEATED}
    outputs = _write(writer, op, [writer.operand(k) for k in range(len(dtypes))], dtypes, outs)
    if summed is not None:
        if outs[0] == "float16" or isinstance(outputs[0], Parts):
            raise Unsupported
        outs = [summed]
    place, _ = _finish(writer, outputs, outs, len(dtypes), fixed)
    kinds = [*classes, *[_ELEMENTS] * len(outs)]
    look = [len(divisors), *divisors]
    return _program(
        summed or "", writer, place, [*dtypes, *outs], kinds, len(outs), look, (alternates or [-1])[0], other
    )


@_or_none
def interpreted_loop(loop):
    """Return a program for the interpreter that replaces the kernel of a loop.

    Parameters
    ----------
    loop : InterpretedLoop

    Returns
    -------
    Interpretation or None
        None if an instruction is missing.
    """
    nin, outs = len(loop.dtypes), loop.dtypes_of_outputs
    writer = Writer([*loop.dtypes, *outs])
    values = [writer.operand(k) for k in range(nin)]

    fixed = {("operand", k) for k, kind in enumerate(loop.kinds) if kind & _REPEATED}

    def value(argument):
        if isinstance(argument, int):
            return values[argument]
        dtype, data = argument
        return writer.constant(dtype, np.frombuffer(data, dtype)[0])

    for op, arguments, dtypes, results in loop.nodes:
        values += _write(writer, op, [value(a) for a in arguments], dtypes, results)
    until = [] if loop.until is None else [writer.convert(values[loop.until], "bool")]
    outputs = [values[k] for k in loop.outputs]
    place, outputs = _finish(writer, [*outputs, *until], outs, nin, fixed)
    return _program("loop", writer, place, [*loop.dtypes, *outs], loop.kinds, len(outs), outputs[len(outs) :])


def _program(kernel, writer, place, dtypes, kinds, n_outputs, divisors, alternate=-1, other=None):
    """Return a program as packed parameters.

    Parameters
    ----------
    kernel : str
        The kernel of the interpreter that executes the program.
    writer : Writer
    place : dict
        Value -> the operand to which it is written.
    dtypes : list of str
        The dtypes of the operands.
    kinds : sequence of int
        The kind of each operand.
    n_outputs : int
    divisors : list
        The last table of the program: the inputs that are divisors; for a loop, the value that ends it, if any.
    alternate : int
        The index of an input of the kind `_MAYBE_BROADCAST`; -1 if there is none.
    other : Interpretation, optional
        The program for the case that this input is the same for all elements.

    Returns
    -------
    Interpretation
    """
    instructions = instruction_module().instructions
    nop, n_constants = len(dtypes), len(writer.constants)
    items = [np.dtype(d).itemsize for d in dtypes]
    registers, count = _registers(writer, place, divisors if kernel == LOOP else ())
    item = max([np.dtype(writer.dtypes[value]).itemsize for value in registers], default=1)
    read = {v for name, _, operands in writer.steps for k, v in enumerate(operands) if k not in READ_ONCE.get(name, ())}
    kinds = [
        _READ_ONCE | kind & MOVES if kind & _REPEATED and ("operand", k) not in read else kind
        for k, kind in enumerate(kinds)
    ]
    in_use = (
        count * item
        + 8 * sum(v[0] == "constant" for v in read)
        + sum(n for n, kind in zip(items, kinds) if not kind & _READ_ONCE)
    )
    block = next((b for b in _BLOCKS if b * in_use <= _CACHE), _BLOCKS[-1])

    def number(value):
        if value in place:
            return place[value]
        kind, k = value
        return k if kind == "operand" else nop + k if kind == "constant" else nop + n_constants + registers[value]

    steps, zeros = [], nop + n_constants + count
    for name, value, operands in writer.steps:
        steps.append(
            [
                instructions[name],
                number(value),
                *[number(v) for v in operands],
                *[0] * (3 - len(operands)),
                *[zeros] * (len(operands) < 4),
            ]
        )
    blocks = []
    for dtype, data in writer.constants:
        blocks.append(_aligned(np.frombuffer(data, dtype=dtype), block))
    repeated = sum(n for n, kind in zip(items, kinds) if kind & _REPEATED)
    head = [0, block, nop - n_outputs, n_outputs, n_constants, count, item, repeated, len(steps)]
    head += [alternate, other.words.ctypes.data if other else 0]
    tables = [
        [word for step in steps for word in step],
        items,
        kinds,
        [b.ctypes.data for b in blocks],
        ([number(v) for v in divisors] or [-1]) if kernel == LOOP else divisors,
    ]
    at = len(head) + len(tables)
    for table in tables:
        head.append(at)
        at += len(table)
    words = np.array([word for table in (head, *tables) for word in table], dtype=np.int64)
    return Interpretation(instruction_module().kernels[kernel], words, (blocks, other))


def _aligned(value, length):
    """Return a block whose elements are all equal to `value`, aligned to a cache line."""
    room = np.empty(length * value.itemsize + 64, dtype=np.uint8)
    start = -room.ctypes.data % 64
    block = room[start : start + length * value.itemsize].view(value.dtype)
    block[:] = value[0]
    return block
