"""Programs for the interpreter of elementwise operations: from a scalar op to the words that native/blocks reads.

The interpreter is a kernel like those that are compiled (`elemwise.kernel`), so the driver in native/elemwise.c does not know which it
calls. It computes what they compute, in the same order: one instruction after the other, each for a block of elements.
"""

import numpy as np

from theano_ng.gof.native import LoadedKernel
from theano_ng.scalar.op import is_complex, is_discrete
from theano_ng.scalar.ops_arith import Identity, Second, Switch
from theano_ng.scalar.ops_complex import Cast
from theano_ng.scalar.ops_compare import IsInf, IsNan
from theano_ng.tensor.elemwise.primitives import conversion, library, name_of, operand_dtype

# As in native/blocks/rows.c.
_ELEMENTS, _ONE_VALUE, _ALTERNATE = 0, 1, 2

_CACHE = 24576
_BLOCKS = (1024, 512, 256, 128)
_FOLDED_BLOCK = 1024  # TNG_SUM_BLOCK; shorter blocks divide it


class Unsupported(Exception):
    """A scalar op has no instructions."""


class _Writer:
    """Values and steps, as they are written down.

    Values are ``(kind, number)`` with kinds "operand", "constant" and "result"; results are numbered as they are computed, and get registers when
    all is known.
    """

    def __init__(self, dtypes):
        self.dtypes = {("operand", k): dtype for k, dtype in enumerate(dtypes)}
        self.constants = {}
        self.steps = []  # name of the instruction, its result, its operands

    def emit(self, name, dtype, *operands):
        value = ("result", len(self.steps))
        self.dtypes[value] = dtype
        self.steps.append((name, value, operands))
        return value

    def constant(self, dtype, data):
        """A constant; of float16 the float of the same value."""
        dtype = "float32" if dtype == "float16" else dtype
        data = np.asarray(data, dtype=dtype)
        value = self.constants.setdefault((dtype, data.tobytes()), ("constant", len(self.constants)))
        self.dtypes[value] = dtype
        return value

    def convert(self, value, dtype):
        source = self.dtypes[value]
        return value if source == dtype else self.emit(conversion(source, dtype), dtype, value)

    def apply(self, op, operands, dtypes, out):
        """Emit what computes a scalar op.

        Parameters
        ----------
        op : ScalarOp
        operands : list of values
            Where the dtype of the op is float16 they are float32.
        dtypes : list of str
            Those that the op has.
        out : str

        Returns
        -------
        value
            float32 for float16, rounded.
        """
        if any(is_complex(d) for d in (*dtypes, out)):
            raise Unsupported
        wide = [self.dtypes[v] for v in operands]
        target = "float32" if out == "float16" else out
        computed = op._c_dtype(dtypes, out)
        computed = "float32" if computed == "float16" else computed
        kind = type(op)
        if kind in (Cast, Identity, Second):
            if out == "float16" and wide[-1] not in ("float32",):
                raise Unsupported  # rounded once, by way of float64
            result = self.convert(operands[-1], target)
        elif kind in (IsNan, IsInf) and is_discrete(wide[0]):
            result = self.convert(self.constant("bool", False), target)
        else:
            dtype = operand_dtype(op, wide, computed)
            name = dtype and name_of(op, dtype)
            if name is None or not (name in library().instructions):
                raise Unsupported
            result = self._instruction(op, name, dtype, operands, computed, target)
        if out == "float16" and (kind not in (Identity, Second) or wide[-1] != "float32" or "float16" not in dtypes):
            result = self.emit("round_to_half", "float32", result)
        return result

    def _instruction(self, op, name, dtype, operands, computed, target):
        if isinstance(op, Switch):
            operands = [self.convert(operands[0], "bool"), *[self.convert(v, dtype) for v in operands[1:]]]
        else:
            operands = [self.convert(v, dtype) for v in operands]
        # What an instruction gives is of its dtype, or bool.
        given = "bool" if computed == "bool" else dtype
        if op.nin < 0:
            result = operands[0]
            for other in operands[1:]:
                result = self.emit(name, given, result, other)
        else:
            result = self.emit(name, given, *operands)
        return self.convert(self.convert(result, computed), target)


def _write(op, dtypes, outs):
    """The `_Writer` with the steps of an op, and the values of its outputs."""
    writer = _Writer(dtypes)
    operands = [("operand", k) for k in range(len(dtypes))]
    values = {}
    for k, (value, dtype) in enumerate(zip(operands, dtypes)):
        if is_complex(dtype):
            raise Unsupported
        values[k] = writer.convert(value, "float32") if dtype == "float16" else value
    program = getattr(op, "_program", None)
    if program is None:
        if len(outs) != 1:
            raise Unsupported
        return writer, [writer.apply(op, [values[k] for k in range(len(dtypes))], dtypes, outs[0])]
    types = {slot: type_.dtype for slot, type_ in program.slot_types().items()}
    for slot, (type_, data) in program.constants.items():
        values[slot] = writer.constant(type_.dtype, data)
    for inner, args, results, _ in program.instructions:
        if len(results) != 1:
            raise Unsupported
        values[results[0]] = writer.apply(inner, [values[a] for a in args], [types[a] for a in args], types[results[0]])
    return writer, [values[o] for o in program.outputs]


def _contract(writer, outputs):
    """Make one step of a product and the sum or difference that it goes into, as compilers do in kernels.

    That is done with a product all of whose uses are sums or differences, with something else, of its dtype; in the order of the products, and in
    all the uses. So the bits are those of kernels.

    Returns
    -------
    list of values
        The outputs, as they are called now.
    """
    uses = {}
    for k, (_, _, operands) in enumerate(writer.steps):
        for value in operands:
            uses.setdefault(value, []).append(k)
    kept = set(outputs)
    steps, gone = list(writer.steps), set()
    for k, (name, value, operands) in enumerate(writer.steps):
        operation, _, dtype = name.partition("_")
        if operation not in ("Mul", "Sqr") or dtype not in ("float32", "float64") or value in kept or value not in uses:
            continue
        x, y = operands * 2 if operation == "Sqr" else operands
        sums = {at: steps[at] for at in uses[value]}
        if len(sums) < len(uses[value]) or any(s[0] not in ("Add_" + dtype, "Sub_" + dtype) for s in sums.values()):
            continue
        for at, (_, result, (left, right)) in sums.items():
            if steps[at][0].startswith("Add"):
                steps[at] = ("mul_add_" + dtype, result, (x, y, right if left == value else left))
            elif left == value:
                steps[at] = ("mul_sub_" + dtype, result, (x, y, right))
            else:
                steps[at] = ("sub_mul_" + dtype, result, (x, y, left))
        gone.add(value)
    # Results are numbered by their steps.
    names = {}
    writer.steps = []
    for name, value, operands in steps:
        if value in gone:
            continue
        names[value] = ("result", len(writer.steps))
        writer.steps.append((name, names[value], tuple([names.get(v, v) for v in operands])))
    dtypes = {new: writer.dtypes[old] for old, new in names.items()}
    writer.dtypes = {**{v: d for v, d in writer.dtypes.items() if v[0] != "result"}, **dtypes}
    return [names.get(v, v) for v in outputs]


def _finish(writer, outputs, targets, nin):
    """Emit what brings results to the outputs' places; steps whose result is an output write there themselves where they may.

    An output may lie in the memory of an input: nothing reads inputs after one has been written.
    """
    if len(outputs) > 1:
        outputs = [_copy(writer, value) if value[0] == "operand" else value for value in outputs]
    last_read = max([k for k, step in enumerate(writer.steps) for v in step[2] if v[0] == "operand"], default=-1)
    place, count = {}, len(writer.steps)
    for j, (value, dtype) in enumerate(zip(outputs, targets)):
        source = writer.dtypes[value]
        if dtype == "float16" or source != dtype:
            value = writer.emit(conversion(source, dtype), dtype, value)
            place[value] = nin + j
        elif value[0] == "result" and last_read <= value[1] < count and value not in place:
            place[value] = nin + j
        else:
            place[_copy(writer, value)] = nin + j
    return place


def _copy(writer, value):
    dtype = writer.dtypes[value]
    return writer.emit("copy_%d" % (8 * np.dtype(dtype).itemsize), dtype, value)


def _registers(writer, place):
    """Give results registers: place (operand number) or register of each.

    Returns
    -------
    registers : dict
        Result -> number of its register.
    count : int
    """
    last = {}
    for k, (_, _, operands) in enumerate(writer.steps):
        for value in operands:
            last[value] = k
    registers, free, count = {}, [], 0
    for k, (_, value, operands) in enumerate(writer.steps):
        done = [v for v in dict.fromkeys(operands) if v in registers and last[v] == k]
        # A result may overwrite an operand of its size; it would overwrite elements to come of a smaller one.
        size = np.dtype(writer.dtypes[value]).itemsize
        same = [np.dtype(writer.dtypes[v]).itemsize == size for v in done]
        free += [registers[v] for v, fits in zip(done, same) if fits]
        if value not in place:
            registers[value] = free.pop() if free else count
            count = max(count, registers[value] + 1)
        free += [registers[v] for v, fits in zip(done, same) if not fits]
    return registers, count


_kept = {}  # program -> the arrays that it lies in, for good, as compiled kernels do


def interpreted(op, dtypes, outs, classes, divisors, summed=None, alone=False):
    """Return the interpreter and a program for it in place of a compiled kernel.

    Parameters
    ----------
    op : ScalarOp
    dtypes, outs : tuple of str
        Of inputs and outputs.
    classes : tuple of int
        From `elemwise.kernel.operand_classes`.
    divisors : tuple
        The numbers of inputs that are integer divisors and may have to be looked at before anything is overwritten, then what else decides which
        kernel takes the program's place.
    summed : str, optional
        As of `elemwise.kernel.elemwise_kernel`.
    alone : bool
        A program for the caller alone: no compiled kernel takes its place.

    Returns
    -------
    LoadedKernel or None
        None when there are no instructions for the op.
    """
    key = (op, dtypes, outs, classes, divisors, summed, alone)
    if key not in _kept:
        try:
            _kept[key] = _assemble(op, list(dtypes), list(outs), classes, divisors[0], summed)
        except Unsupported:
            _kept[key] = None
    return _kept[key] and _kept[key][0]


def _assemble(op, dtypes, outs, classes, divisors, summed):
    instructions, kernels = library().instructions, library().kernels
    writer, outputs = _write(op, dtypes, outs)
    nin = len(dtypes)
    if summed is not None:
        if outs[0] == "float16":
            raise Unsupported
        outs = [summed]
    outputs = _contract(writer, outputs)
    place = _finish(writer, outputs, outs, nin)
    registers, count = _registers(writer, place)
    item = max([np.dtype(writer.dtypes[value]).itemsize for value in registers], default=1)
    nop, n_constants = nin + len(outs), len(writer.constants)
    live = count * item + sum(np.dtype(d).itemsize for d in (*dtypes, *outs)) + sum(8 for _ in writer.constants)
    block = next((b for b in _BLOCKS if b * live <= _CACHE), _BLOCKS[-1])

    def number(value):
        if value in place:
            return place[value]
        kind, k = value
        return k if kind == "operand" else nop + k if kind == "constant" else nop + n_constants + registers[value]

    steps = []
    for name, value, operands in writer.steps:
        steps.append([instructions[name], number(value), *[number(v) for v in operands], *[0] * (3 - len(operands))])
    blocks = []
    for dtype, data in writer.constants:
        blocks.append(_aligned(np.frombuffer(data, dtype=dtype), block))
    alternates = [k for k, kind in enumerate(classes) if kind == _ALTERNATE]
    head = [0, block, nin, len(outs), n_constants, count, item, len(steps), alternates[0] if alternates else -1]
    tables = [
        [word for step in steps for word in step],
        [np.dtype(d).itemsize for d in (*dtypes, *outs)],
        list(classes),
        [b.ctypes.data for b in blocks],
        [len(divisors), *divisors],
    ]
    at = len(head) + len(tables)
    for table in tables:
        head.append(at)
        at += len(table)
    words = np.array([word for table in (head, *tables) for word in table], dtype=np.int64)
    return LoadedKernel(kernels[summed or ""], words.ctypes.data), words, blocks


def _aligned(value, length):
    """A block full of one value, at the beginning of a cache line."""
    room = np.empty(length * value.itemsize + 64, dtype=np.uint8)
    start = -room.ctypes.data % 64
    block = room[start : start + length * value.itemsize].view(value.dtype)
    block[:] = value[0]
    return block
