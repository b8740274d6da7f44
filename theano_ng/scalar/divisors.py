"""Search for the integer divisors of a scalar op that may be zero.

An integer division or modulus by zero raises ZeroDivisionError. A divisor is an input of the op, or a value that a
Composite computes. This module also recognizes ops whose results cannot be zero. Divisors that such ops compute need no
check.
"""

from typing import NamedTuple

import numpy as np

from theano_ng.scalar.op import is_discrete
from theano_ng.scalar.ops_arith import Clip, Maximum, RealDivision, Switch
from theano_ng.scalar.ops_compare import EQ

# All elements of a value are known to be positive, nonzero, or zero. None: nothing is known about them.
POSITIVE, NONZERO, ZERO = "positive", "nonzero", "zero"
_NOT_ZERO = (POSITIVE, NONZERO)


class IsZero(NamedTuple):
    """The fact that a value is true exactly where a second value is zero.

    The attribute `value` identifies the second value: it is any object that can be compared for equality.
    """

    value: object


class Division(NamedTuple):
    """An integer division whose divisor may be zero.

    Attributes
    ----------
    instruction : int
        The index of the division in the program of a Composite. It is 0 for an op that is not a Composite.
    divisor : int
        The slot of the divisor. The slot of an input is its position.
    operation : {"division", "modulo"}
    """

    instruction: int
    divisor: int
    operation: str


def known_of(data):
    """Return the fact that is known about a constant.

    Parameters
    ----------
    data : array_like

    Returns
    -------
    {POSITIVE, NONZERO, ZERO} or None
    """
    data = np.asarray(data)
    if data.dtype.kind not in "biu":
        return None
    if data.all():
        return POSITIVE if (data > 0).all() else NONZERO
    return None if data.any() else ZERO


def keeps_from_zero(op):
    """Return True if a scalar op can guarantee a nonzero result, or can test if one of its inputs is zero."""
    return isinstance(op, (Maximum, Clip, Switch, EQ))


def divides(op):
    """Return True if a scalar op is a floor division or a modulus, or contains such an op."""
    program = getattr(op, "_program", None)
    return isinstance(op, RealDivision) or (
        program is not None and any(isinstance(i.op, RealDivision) for i in program.instructions)
    )


def divisions(op, dtypes, out, known=None, names=None):
    """Find the integer divisions of an op whose divisors may be zero.

    Parameters
    ----------
    op : ScalarOp
    dtypes : list of str
        The dtypes of the inputs.
    out : str
        The dtype of the first output.
    known : list, optional
        The fact that is known about each input, or None. By default, no facts are known.
    names : list, optional
        Objects that identify the inputs in `IsZero`. The default is the positions of the inputs.

    Returns
    -------
    divisions : list of Division
    results : list
        The fact that is known about each output, or None.
    """
    known = dict(enumerate(known or [None] * len(dtypes)))
    names = dict(enumerate(names)) if names is not None else {}
    program = getattr(op, "_program", None)
    if program is None:
        n = len(dtypes)
        types, steps, outputs = dict(enumerate([*dtypes, out])), [(op, tuple(range(n)), (n,))], (n,)
    else:
        types = {slot: type_.dtype for slot, type_ in program.slot_types().items()}
        steps, outputs = [(i.op, i.args, i.outs) for i in program.instructions], program.outputs
        known.update((slot, known_of(data)) for slot, (_, data) in program.constants.items())
    found = []
    for k, (inner, args, outs) in enumerate(steps):
        computed = inner._c_dtype([types[a] for a in args], types[outs[0]])
        if isinstance(inner, RealDivision):
            if is_discrete(computed) and known.get(args[1]) not in _NOT_ZERO:
                found.append(Division(k, args[1], inner.operation))
        elif len(outs) == 1 and computed == types[outs[0]]:  # a conversion to fewer bits could yield zero
            known[outs[0]] = _result(inner, [known.get(a) for a in args], [names.get(a, a) for a in args])
    return found, [known.get(o) for o in outputs]


def _result(op, known, names):
    """Return the fact that is known about the result of an op that is not a division."""
    if isinstance(op, Maximum):
        return POSITIVE if POSITIVE in known else None
    if isinstance(op, Clip):
        return POSITIVE if known[1] == known[2] == POSITIVE else None
    if isinstance(op, EQ) and ZERO in known:
        return IsZero(names[1 - known.index(ZERO)])
    if isinstance(op, Switch):
        condition, *branches = known
        if condition == IsZero(names[2]) and branches[1] not in _NOT_ZERO:
            branches[1] = NONZERO
        if all(branch in _NOT_ZERO for branch in branches):
            return POSITIVE if branches == [POSITIVE, POSITIVE] else NONZERO
    return None
