"""Whether a difference between two implementations is more than what rounding explains.

Two right implementations may take a sum in another order. Where huge terms cancel, as in ``1e291 - 1e291 + 1``, what is left is then noise,
which no tolerance relative to the result tells from an error. But noise shows when the inputs move by one unit in the last place: the
result moves about as much. So this is tried, only after a difference was met.
"""

import numpy as np

from theano_ng.audit.context import copied

#: How often the inputs are moved by the smallest step.
TRIALS = 6
#: How much more than one such step two implementations may differ: each rounds several times.
ROUNDINGS = 16
#: A second step, so many times as long. What is smooth moves nearly so many times as far; a jump is as high for both.
LONGER = 64


def explained_by_rounding(run, values, k, one, other):
    """Which elements of an output differ by no more than what the smallest changes of the inputs make of them.

    Parameters
    ----------
    run : callable
        ``run(values)``: the outputs of the implementation to trust.
    values : list
        The inputs.
    k : int
        Which output.
    one, other : object
        Its two values.

    Returns
    -------
    ndarray of bool or None
        None where nothing is explained: values that cannot be compared, or an implementation that refuses the changed inputs.
    """
    if not _inexact(one) or not _inexact(other) or one.dtype != other.dtype or one.shape != other.shape:
        return None
    rng = np.random.RandomState(17)
    with np.errstate(all="ignore"):
        near = _spread(run, values, k, one, 1, rng)
        far = None if near is None else _spread(run, values, k, one, LONGER, rng)
        if far is None:
            return None
        distance = np.abs(
            _wide(one) - _wide(other)
        )  # not a number, or infinite, where one of them is: explained by nothing
        return np.isfinite(distance) & (distance <= ROUNDINGS * near) & (far >= LONGER / 8 * near)


def _inexact(value):
    return isinstance(value, np.ndarray) and value.dtype.kind in "fc"


def _wide(value):
    """In a dtype in which differences of large numbers are finite."""
    return value.astype(np.clongdouble if value.dtype.kind == "c" else np.longdouble)


def _spread(run, values, k, here, steps, rng):
    """How far each element of an output moves at most when each element of the inputs moves up or down; None where it cannot be said."""
    largest = np.zeros(here.shape, np.longdouble)
    for _ in range(TRIALS):
        try:
            there = run([_moved(v, steps, rng) for v in values])[k]
        except Exception:
            return None
        if not _inexact(there) or there.shape != here.shape:
            return None
        distance = np.abs(_wide(there) - _wide(here))
        largest = np.maximum(largest, np.where(np.isfinite(distance), distance, 0))
    return largest


def _moved(value, steps, rng):
    """A copy with each element larger or smaller by so many units in the last place. Zeros stay: what is exact has no rounding to show."""
    if not _inexact(value):
        return copied(value)
    real = value.real.dtype.type
    factors = 1 + real(steps) * np.finfo(real).eps * rng.choice(np.array([-1, 1], real), value.shape)
    return copied(np.asarray(value * factors, value.dtype))
