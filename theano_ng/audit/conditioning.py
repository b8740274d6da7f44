"""A test of whether rounding errors explain the difference between the results of two implementations.

Two correct implementations may sum in different orders. If huge terms cancel, as in ``1e291 - 1e291 + 1``, the result
consists of rounding errors, so a tolerance relative to the result does not help. The test changes the inputs by one
unit in the last place. If the result then changes by about as much as the implementations differ, rounding explains
the difference. The audit runs this test only after it has found a difference.
"""

import numpy as np

from theano_ng.audit.forms import copied

#: The number of random changes of the inputs, for each size of the change.
TRIALS = 6
#: Rounding errors explain a difference if it is at most this many times as large as the effect of changing the inputs
#: by one unit in the last place. The factor is greater than 1, because each implementation rounds several times.
ROUNDINGS = 16
#: The inputs are changed by one unit in the last place, and then by LONGER units. The second change moves the output of
#: a smooth function nearly LONGER times as far as the first. At a jump, both changes move the output equally far, so
#: rounding explains no difference there.
LONGER = 64


def explained_by_rounding(run, values, k, one, other):
    """Find the elements of an output for which rounding errors explain the difference between two values.

    Parameters
    ----------
    run : callable
        ``run(values)`` returns the outputs of the trusted implementation.
    values : list
        The inputs.
    k : int
        Index of the output.
    one, other : object
        The values of output `k` for the unchanged inputs, from two runs. The values for changed inputs are compared
        with `one`.

    Returns
    -------
    ndarray of bool or None
        True for the elements whose difference is explained. None if the values cannot be compared, or if the
        implementation refuses the changed inputs.
    """
    if not _inexact(one) or not _inexact(other) or one.dtype != other.dtype or one.shape != other.shape:
        return None
    rng = np.random.RandomState(17)
    with np.errstate(all="ignore"):
        near = output_change(run, values, k, one, 1, rng)
        far = None if near is None else output_change(run, values, k, one, LONGER, rng)
        if far is None:
            return None
        distance = np.abs(
            _wide(one) - _wide(other)
        )  # an element is not finite if one of the values is not; rounding never explains such a difference
        return np.isfinite(distance) & (distance <= ROUNDINGS * near) & (far >= LONGER / 8 * near)


def _inexact(value):
    return isinstance(value, np.ndarray) and value.dtype.kind in "fc"


def _wide(value):
    """Convert an array to a dtype in which differences of large numbers are finite."""
    return value.astype(np.clongdouble if value.dtype.kind == "c" else np.longdouble)


def output_change(run, values, k, here, steps, rng, unit=None):
    """Return the largest change of each element of an output when the elements of the inputs change at random.

    Each element of the inputs is increased or decreased by `steps` units in the last place. `here` is the output for
    the unchanged inputs. `unit` is the relative size of a unit in the last place; by default, it depends on the dtype
    of the input. Return None if the implementation refuses the changed inputs, or if the shape of the output changes.
    """
    largest = np.zeros(here.shape, np.longdouble)
    for _ in range(TRIALS):
        try:
            there = run([_perturbed(v, steps, rng, unit) for v in values])[k]
        except Exception:
            return None
        if not _inexact(there) or there.shape != here.shape:
            return None
        distance = np.abs(_wide(there) - _wide(here))
        largest = np.maximum(largest, np.where(np.isfinite(distance), distance, 0))
    return largest


def _perturbed(value, steps, rng, unit=None):
    """Return a copy of an array in which each element is larger or smaller by `steps` units in the last place.

    `rng` chooses the direction for each element. Zeros are regarded as exact and do not change. A value that is not an
    array of floats or complex numbers is copied unchanged.
    """
    if not _inexact(value):
        return copied(value)
    real = value.real.dtype.type
    unit = np.finfo(real).eps if unit is None else real(unit)
    factors = 1 + real(steps) * unit * rng.choice(np.array([-1, 1], real), value.shape)
    return copied(np.asarray(value * factors, value.dtype))
