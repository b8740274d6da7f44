"""Instructions of the interpreter that combine two cheap operations on floats.

The intermediate result of such a pair is not stored in memory. An operand that is the same for all elements is read
only once. The combination does not change any rounding: a product and a sum that are rounded together are already a
single step (`scalar.contraction`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Any

from theano_ng.scalar.contraction import MulAdd, MulSub, SubMul

if TYPE_CHECKING:
    from theano_ng.loops.blocks.complex_steps import Pair
    from theano_ng.loops.blocks.steps import Instruction

# The C expression of each step, as a function of the names of its operands and their dtype.
_SINGLE = {
    "Add": lambda args, dtype: "%s + %s" % args,
    "Sub": lambda args, dtype: "%s - %s" % args,
    "Mul": lambda args, dtype: "%s * %s" % args,
    **{kind.__name__: kind.c_text for kind in (MulAdd, MulSub, SubMul)},
}
_COMMUTATIVE = ("Add", "Mul", "MulAdd", "MulSub", "SubMul")
_PLACES = "abcd"


def _arity(name: str) -> int:
    return 2 if name in ("Add", "Sub", "Mul") else 3


def _pairs() -> dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    """Return a dict: instruction -> (first step, second step, operands of the first step, operands of the second step).

    In the operands of the second step, ``t`` is the result of the first step.
    """
    found = {}
    for first, second in itertools.product(_SINGLE, _SINGLE):
        n = _arity(first)
        for at in (0, 2) if _arity(second) == 3 else (0, 1) if second == "Sub" else (0,):
            # Skip a product followed by a sum: `scalar.contraction` has already combined such pairs into one step.
            if n + _arity(second) - 1 > 4 or (first == "Mul" and second in ("Add", "Sub")):
                continue
            others = ["x%d" % k for k in range(n, n + _arity(second) - 1)]
            others.insert(at, "t")
            found["%s_then_%s%d" % (first, second, at)] = (first, second, _names(n), tuple(others))
    found["horner"] = ("MulAdd", "MulAdd", _names(3), ("t", "x1", "x3"))
    return found


def _names(n: int) -> tuple[str, ...]:
    return tuple(["x%d" % k for k in range(n)])


PAIRS = _pairs()


def _masks(name: str) -> tuple[str, ...]:
    """Return the variants of an instruction.

    Each variant is a string of the letters of the operands that are read once.
    """
    if name in PAIRS:
        n = _arity(PAIRS[name][0]) + _arity(PAIRS[name][1]) - 1 - (name == "horner")
        return {3: ("bc", "c", ""), 4: ("cd", "d", "")}[n]
    return {"Add": ("b",), "Mul": ("b",), "Sub": ("a", "b")}.get(name, ("bc", "c", "b"))


def c_source(c_types: dict[str, str]) -> list[str]:
    """Return the C source of the instructions.

    Parameters
    ----------
    c_types : dict
        dtype -> C type.
    """
    lines = []
    for dtype, number in c_types.items():
        for name in (*_SINGLE, *PAIRS):
            if name in PAIRS:
                first, second, inner, outer = PAIRS[name]
                n = _arity(first) + _arity(second) - 1 - (name == "horner")
                text = "const %s t = %s; z = %s;" % (
                    number,
                    _SINGLE[first](inner, dtype),
                    _SINGLE[second](outer, dtype),
                )
            else:
                n = _arity(name)
                text = "z = %s;" % _SINGLE[name](_names(n), dtype)
            for mask in _masks(name):
                loads: dict[bool, list[str]] = {True: [], False: []}
                for k, place in enumerate(_PLACES[:n]):
                    one = place in mask
                    loads[one].append(
                        "const %s x%d = ((const %s *)%s)[%s];" % (number, k, number, place, "0" if one else "i")
                    )
                lines.append(
                    "CHAIN(%s, %s, %s, %s %s)"
                    % (instruction_name(name, mask, dtype), number, " ".join(loads[True]), " ".join(loads[False]), text)
                )
    return lines


def instruction_name(name: str, mask: str, dtype: str) -> str:
    return "%s_%s%s" % (name, mask + "_" if mask else "", dtype)


# Name of an instruction -> the indices of the operands that the instruction reads only once.
READ_ONCE = {
    instruction_name(name, mask, dtype): frozenset(map(_PLACES.index, mask))
    for name in (*_SINGLE, *PAIRS)
    for mask in _masks(name)
    for dtype in ("float32", "float64")
}


def _split(name: str) -> tuple[Any, Any]:
    """Return the operation and the dtype of an instruction on floats, or (None, None) for other instructions."""
    operation, _, dtype = name.rpartition("_")
    return (operation, dtype) if operation in _SINGLE and dtype in ("float32", "float64") else (None, None)


def combine_steps(steps: Sequence[Instruction], kept: Set[Pair], fixed: Callable[[Pair], bool]) -> list[Instruction]:
    """Combine pairs of steps into single steps.

    Parameters
    ----------
    steps : list
        The steps, in the format of `steps.Writer`.
    kept : set of values
        The results that must remain because the outputs use them.
    fixed : callable
        A function that returns True for a value that is the same for all elements.

    Returns
    -------
    list
    """
    uses: dict[Pair, list[int]] = {}
    for k, (_, _, operands) in enumerate(steps):
        for value in operands:
            uses.setdefault(value, []).append(k)
    made, gone = list(steps), set()
    place = {value: k for k, (_, value, _) in enumerate(steps)}
    for k, (name, value, operands) in enumerate(steps):
        second, dtype = _split(name)
        for v in operands if second else ():
            j = place.get(v)
            if j is None or j in gone or v in kept or len(uses[v]) != 1 or made[j] is not steps[j]:
                continue
            first, of = _split(steps[j][0])
            pair = of == dtype and _pair(first, second, steps[j][2], operands, operands.index(v))
            if pair:
                made[k] = ("%s_%s" % (pair[0], dtype), value, pair[1])
                gone.add(j)
                break
    return [_read_once(step, fixed) for k, step in enumerate(made) if k not in gone]


def _pair(
    first: str, second: str, inner: tuple[Pair, ...], outer: tuple[Pair, ...], at: int
) -> tuple[str, tuple[Pair, ...]] | None:
    """Return the instruction that combines two steps, and its operands.

    Return None if this instruction does not exist.
    """
    others = [v for i, v in enumerate(outer) if i != at]
    if at == 1 and second in _COMMUTATIVE:
        at = 0
    if first == second == "MulAdd" and at == 0 and others[0] in inner[:2]:
        x, y, z = inner
        return "horner", ((y, x) if others[0] == x else (x, y)) + (z, others[1])
    name = "%s_then_%s%d" % (first, second, at)
    return (name, (*inner, *others)) if name in PAIRS else None


def _read_once(step: Instruction, fixed: Callable[[Pair], bool]) -> Instruction:
    """Return a variant of a step whose instruction reads only once the operands that are the same for all elements.

    If there is no such variant, return a step with the same instruction.
    """
    name, value, operands = step
    operation, _, dtype = name.rpartition("_")
    if (operation not in _SINGLE and operation not in PAIRS) or dtype not in ("float32", "float64"):
        return step
    if operation in _COMMUTATIVE and fixed(operands[0]) and not fixed(operands[1]):
        operands = (operands[1], operands[0], *operands[2:])
    for mask in _masks(operation):
        if mask and all(fixed(operands[_PLACES.index(place)]) for place in mask):
            return instruction_name(operation, mask, dtype), value, operands
    return name, value, operands
