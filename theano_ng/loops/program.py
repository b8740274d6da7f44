"""Loop programs: the computation of an inner loop, independent of the language in which it is written.

A rewritten graph is compiled in two stages, with a `LoopProgram` in between. Nodes are translated to loop programs
(`tensor.elemwise.kernel`, `scan.kernel`, `gpuarray.kernels`). Writers translate loop programs to C code, to device
code, and to instructions of the interpreter.

>>> from theano_ng import scalar
>>> from theano_ng.loops.program import Access, LoopProgram, Operand, Step
>>> print(LoopProgram(
...     inputs=(Operand("float64"), Operand("float64", Access.HOISTED)),
...     steps=(Step(scalar.mul, (0, 1), ("float64",)), Step(scalar.exp, (2,), ("float64",))),
...     stores=(3,),
...     outputs=(Operand("float32"),),
... ))
v0 = load float64
v1 = load float64, once
v2 = mul(v0, v1) float64
v3 = exp(v2) float64
store v3 as float32
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np


class Access(enum.IntEnum):
    """The way in which a loop accesses an operand.

    native/elementwise/elemwise_params.h and the interpreter use the same numbers.
    """

    #: The loop reads or writes one element in each iteration.
    VARYING = 0
    #: All elements are equal. The loop reads the value only once.
    HOISTED = 1
    #: The stride of the operand determines at run time if the operand is VARYING or HOISTED.
    MAYBE_BROADCAST = 2


class Operand(NamedTuple):
    """An array from which a loop reads, or to which it writes.

    Attributes
    ----------
    dtype : str
    access : Access
    moves : bool
        Whether the operand has one row for each iteration of an outer loop.
    """

    dtype: str
    access: Access = Access.VARYING
    moves: bool = False


class Literal(NamedTuple):
    """A constant in a program.

    Attributes
    ----------
    dtype : str
    data : bytes
        The bytes of the value. A comparison of bytes distinguishes 0.0 from -0.0, and finds a NaN equal to itself.
    """

    dtype: str
    data: bytes

    @classmethod
    def of(cls, dtype: str, value: Any) -> Self:
        """Return the literal of a value."""
        return cls(dtype, np.asarray(value, dtype=dtype).tobytes())

    @property
    def value(self) -> Any:
        """The value, a NumPy scalar."""
        return np.frombuffer(self.data, self.dtype)[0]

    def __str__(self) -> str:
        return str(self.value)


class Step(NamedTuple):
    """The application of a scalar op to values of the program.

    Attributes
    ----------
    op : ScalarOp
    arguments : tuple of int and Literal
        The arguments of the op. Each one is the number of a value, or a Literal.
    dtypes : tuple of str
        The dtypes of the results.
    """

    op: Any
    arguments: tuple[int | Literal, ...]
    dtypes: tuple[str, ...]


class Fold(NamedTuple):
    """A reduction of the values that a loop computes.

    Attributes
    ----------
    op : ScalarOp
        A binary op that is associative and commutative.
    dtype : str
        The dtype of the accumulator.
    separate : bool
        Whether the driver may request a separate accumulator for each iteration. This is only possible for additions.
    """

    op: Any
    dtype: str
    separate: bool = False


class Guards(NamedTuple):
    """The integer divisors of a program, which must not be zero.

    Attributes
    ----------
    inputs : tuple of int
        The inputs that are divisors.
    computed : bool
        Whether a step divides by a value that the program itself computes.
    first : bool
        Whether the driver may request that the loop checks the divisors in `inputs` before it writes an output.
    """

    inputs: tuple[int, ...] = ()
    computed: bool = False
    first: bool = False

    def __bool__(self) -> bool:
        return bool(self.inputs or self.computed)


NO_GUARDS = Guards()


class LoopProgram(NamedTuple):
    """The computation of one iteration of a loop.

    Values are numbered: first the inputs, then the results of all steps.

    Attributes
    ----------
    inputs : tuple of Operand
    steps : tuple of Step
        The steps in the order of computation.
    stores : tuple of int and Literal
        For each output, the value that is stored in it.
    outputs : tuple of Operand
        The outputs. A stored value is converted to the dtype of its output.
    fold : Fold, optional
        If a fold is given, `stores` contains one value. The op of the fold combines this value with an accumulator, and
        the value is not stored.
    guards : Guards
    until : int or Literal, optional
        A value. The outer loop ends if this value is true.
    """

    inputs: tuple[Operand, ...]
    steps: tuple[Step, ...]
    stores: tuple[int | Literal, ...]
    outputs: tuple[Operand, ...]
    fold: Fold | None = None
    guards: Guards = NO_GUARDS
    until: int | Literal | None = None

    @property
    def accesses(self) -> list[Access]:
        """The `Access` to each input."""
        return [operand.access for operand in self.inputs]

    def dtypes(self) -> list[str]:
        """Return the dtypes of all values."""
        found = [operand.dtype for operand in self.inputs]
        for step in self.steps:
            found += step.dtypes
        return found

    def with_access(self, access: Access) -> LoopProgram:
        """Return a copy of the program in which all inputs that are MAYBE_BROADCAST have the given access."""
        return self._replace(
            inputs=tuple([x._replace(access=access) if x.access == Access.MAYBE_BROADCAST else x for x in self.inputs])
        )

    def has_several_operations(self) -> bool:
        """Return True if the loop has more than one operation. The inner ops of a Composite and a fold count, too."""
        return len(flattened(self).steps) + (self.fold is not None) > 1

    def __str__(self) -> str:
        """Return the text of the program, one line for each operation. Composites are flattened."""
        lines = ["v%d = load %s" % (k, _operand_text(operand)) for k, operand in enumerate(self.inputs)]
        number, flat = len(self.inputs), flattened(self)
        for op, arguments, dtypes in flat.steps:
            results = ", ".join(["v%d" % k for k in range(number, number + len(dtypes))])
            number += len(dtypes)
            lines.append("%s = %s(%s) %s" % (results, op, ", ".join(map(_value_text, arguments)), ", ".join(dtypes)))
        if self.guards.inputs:
            lines.append("refuse zero in %s" % ", ".join(map(_value_text, self.guards.inputs)))
        if self.guards.computed:
            lines.append("refuse computed divisors that are zero")
        for value, operand in zip(flat.stores, self.outputs):
            if self.fold is None:
                lines.append("store %s as %s" % (_value_text(value), _operand_text(operand)))
            else:
                separate = ", or separately for each element" if self.fold.separate else ""
                lines.append("fold %s by %s in %s%s" % (_value_text(value), self.fold.op, self.fold.dtype, separate))
        if flat.until is not None:
            lines.append("stop if %s" % _value_text(flat.until))
        return "\n".join(lines)


_ACCESS_TEXTS = {Access.VARYING: "", Access.HOISTED: ", once", Access.MAYBE_BROADCAST: ", once if its stride is 0"}


def _operand_text(operand: Operand) -> str:
    return operand.dtype + _ACCESS_TEXTS[operand.access] + (", a row for each step" if operand.moves else "")


def _value_text(value: int | Literal) -> str:
    return str(value) if isinstance(value, Literal) else "v%d" % value


def operand_accesses(patterns: Iterable[Sequence[bool]], pattern: Sequence[bool]) -> list[Access]:
    """Return the `Access` to each input of an elementwise loop.

    The inner loop runs over the last dimension that is not broadcastable in the result, or over all dimensions if the
    driver merges them.

    Parameters
    ----------
    patterns : sequence of tuple of bool
        The broadcast patterns of the inputs.
    pattern : tuple of bool
        The broadcast pattern of the result.

    Returns
    -------
    list of Access
    """
    loops = [d for d, b in enumerate(pattern) if not b]
    accesses = []
    for broadcast in patterns:
        if not loops:
            accesses.append(Access.VARYING)
        elif all(broadcast):
            accesses.append(Access.HOISTED)
        else:
            accesses.append(Access.MAYBE_BROADCAST if broadcast[loops[-1]] else Access.VARYING)
    return accesses


def elementwise_program(
    op: Any,
    in_dtypes: Sequence[str],
    out_dtypes: Sequence[str],
    accesses: Sequence[Access] | None = None,
    fold: Fold | None = None,
    guards: Guards = NO_GUARDS,
) -> LoopProgram:
    """Return the program that applies a scalar op to each element.

    Parameters
    ----------
    op : ScalarOp
    in_dtypes, out_dtypes : sequence of str
    accesses : sequence of Access, optional
        By default, all inputs are VARYING.
    fold : Fold, optional
    guards : Guards, optional

    Returns
    -------
    LoopProgram
    """
    n, out_dtypes = len(in_dtypes), tuple(out_dtypes)
    return LoopProgram(
        inputs=tuple(map(Operand, in_dtypes, accesses or [Access.VARYING] * n)),
        steps=(Step(op, tuple(range(n)), out_dtypes),),
        stores=tuple(range(n, n + len(out_dtypes))),
        outputs=tuple(map(Operand, out_dtypes)),
        fold=fold,
        guards=guards,
    )


def fold_program(
    fold: Fold, dtype: str, op: Any = None, result: str | None = None, out: str | None = None
) -> LoopProgram:
    """Return the program that reduces elements.

    >>> from theano_ng import scalar
    >>> print(fold_program(Fold(scalar.add, "float64"), "float32", scalar.sqr, "float32"))
    v0 = load float32
    v1 = sqr(v0) float32
    fold v1 by add in float64

    Parameters
    ----------
    fold : Fold
    dtype : str
        The dtype of the elements.
    op : ScalarOp, optional
        An op that is applied to each element before the reduction.
    result : str, optional
        The dtype of the result of `op`.
    out : str, optional
        The dtype of the output. By default, the dtype of the accumulator.

    Returns
    -------
    LoopProgram
    """
    steps = () if op is None else (Step(op, (0,), (result,)),)  # type: ignore[arg-type]
    return LoopProgram((Operand(dtype),), steps, (len(steps),), (Operand(out or fold.dtype),), fold)


def flattened(program: LoopProgram) -> LoopProgram:
    """Return an equivalent program without Composites. Their inner ops become steps, in the order of computation.

    Products and sums are combined in the same way as in `Composite.lowered`.

    >>> from theano_ng import scalar
    >>> x, y = scalar.float64("x"), scalar.float64("y")
    >>> both = scalar.Composite([x, y], [(x + y) * 2.5])
    >>> operands = (Operand("float64"), Operand("float64"))
    >>> print(flattened(LoopProgram(operands, (Step(both, (0, 1), ("float64",)),), (2,), operands[:1])))
    v0 = load float64
    v1 = load float64
    v2 = add(v0, v1) float64
    v3 = mul(v2, 2.5) float64
    store v3 as float64
    """
    values: list[int | Literal] = list(
        range(len(program.inputs))
    )  # values[k] is the new number of value k, or the Literal that replaces it
    steps, count = [], len(program.inputs)

    def renamed(value: int | Literal) -> int | Literal:
        return value if isinstance(value, Literal) else values[value]

    for op, arguments, dtypes in program.steps:
        arguments = tuple(map(renamed, arguments))
        lowered = getattr(op, "lowered", None)
        if lowered is None:
            steps.append(Step(op, arguments, dtypes))
            values += range(count, count + len(dtypes))
            count += len(dtypes)
            continue
        slots = dict(enumerate(arguments))
        slots.update((slot, Literal.of(type_.dtype, data)) for slot, (type_, data) in lowered.constants.items())
        for inner, inner_arguments, results, types in lowered.instructions:
            steps.append(Step(inner, tuple([slots[a] for a in inner_arguments]), tuple([t.dtype for t in types])))
            slots.update(zip(results, range(count, count + len(results))))
            count += len(results)
        values += [slots[o] for o in lowered.outputs]
    until = None if program.until is None else renamed(program.until)
    return program._replace(steps=tuple(steps), stores=tuple(map(renamed, program.stores)), until=until)
