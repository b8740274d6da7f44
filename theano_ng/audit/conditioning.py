"""Test whether rounding explains a difference between two implementations.

Two correct implementations may sum in different orders. If huge terms cancel, as in ``1e291 - 1e291 + 1``, the result
is noise. No tolerance relative to the result separates this noise from an error. But the noise shows if the inputs move
by one unit in the last place: then the result moves by about as much as the difference. This test runs only after a
difference was found.
"""

import numpy as np

from theano_ng.audit.context import copied

#: Number of times that the inputs are moved by the smallest step.
TRIALS = 6
#: Allowed difference of two implementations, as a multiple of the effect of such a step. Each implementation rounds
#: several times.
ROUNDINGS = 16
#: Length of a second step, as a multiple of the first. A smooth function moves nearly this many times as far; a jump
#: has the same height.
LONGER = 64


def explained_by_rounding(run, values, k, one, other):
    """Find the elements of an output whose difference is no larger than the effect of minimal changes of the inputs.

    Parameters
    ----------
    run : callable
        ``run(values)`` returns the outputs of the trusted implementation.
    values : list
        The inputs.
    k : int
        Index of the output.
    one, other : object
        The two values of the output.

    Returns
    -------
    ndarray of bool or None
        True for the explained elements. None if nothing is explained: the values cannot be compared, or the
        implementation refuses the changed inputs.
    """
    if not _inexact(one) or not _inexact(other) or one.dtype != other.dtype or one.shape != other.shape:
        return None
    rng = np.random.RandomState(17)
    with np.errstate(all="ignore"):
        near = _output_change(run, values, k, one, 1, rng)
        far = None if near is None else _output_change(run, values, k, one, LONGER, rng)
        if far is None:
            return None
        distance = np.abs(
            _wide(one) - _wide(other)
        )  # NaN or infinite if one of the values is; such a difference is never explained
        return np.isfinite(distance) & (distance <= ROUNDINGS * near) & (far >= LONGER / 8 * near)


def _inexact(value):
    return isinstance(value, np.ndarray) and value.dtype.kind in "fc"


def _wide(value):
    """Convert an array to a dtype in which differences of large numbers are finite."""
    return value.astype(np.clongdouble if value.dtype.kind == "c" else np.longdouble)


def _output_change(run, values, k, here, steps, rng):
    """Return how far each element of an output moves at most when the elements of the inputs move up or down.

    The result is None if an implementation refuses the changed inputs.
    """
    largest = np.zeros(here.shape, np.longdouble)
    for _ in range(TRIALS):
        try:
            there = run([_perturbed(v, steps, rng) for v in values])[k]
        except Exception:
            return None
        if not _inexact(there) or there.shape != here.shape:
            return None
        distance = np.abs(_wide(there) - _wide(here))
        largest = np.maximum(largest, np.where(np.isfinite(distance), distance, 0))
    return largest


def _perturbed(value, steps, rng):
    """Return a copy whose elements are larger or smaller by `steps` units in the last place.

    Zeros do not move, because exact values have no rounding errors.
    """
    if not _inexact(value):
        return copied(value)
    real = value.real.dtype.type
    factors = 1 + real(steps) * np.finfo(real).eps * rng.choice(np.array([-1, 1], real), value.shape)
    return copied(np.asarray(value * factors, value.dtype))
