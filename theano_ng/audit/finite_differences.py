"""Finite differences: estimates of derivatives, with which the audit compares gradients and results of R_op."""

import numpy as np

from theano_ng.audit.forms import copied, dense, elements, with_elements

#: The step of difference quotients: their points are x - STEP, x and x + STEP.
STEP = 1e-5
#: The factor between STEP and a second, smaller step. The second step distinguishes a slope from a jump of the
#: function.
FINER = 1000


def is_continuous(v):
    """Return True if a variable contains real floating-point numbers."""
    return getattr(v.type, "dtype", "") in ("float16", "float32", "float64")


def outputs_at(context, built, values):
    """Return the outputs for values, or None if the Op raises an exception."""
    try:
        with np.errstate(all="ignore"):
            return context.runner(built, "any")([copied(v) for v in values])
    except Exception:
        return None


def differences_of(outputs, others, outs):
    """Return `others` minus `outputs` in float64, for the outputs with the indices `outs`.

    Return None if a shape changed, or if a value is not finite.
    """
    result = []
    for k in outs:
        a, b = np.asarray(dense(outputs[k]), "float64"), np.asarray(dense(others[k]), "float64")
        if a.shape != b.shape or not np.isfinite(a).all() or not np.isfinite(b).all():
            return None
        result.append(b - a)
    return result


def largest(output):
    """Return the largest absolute value of an output."""
    return float(np.abs(np.asarray(dense(output), "float64")).max(initial=0))


class Slopes:
    """The one-sided derivatives of ``sum(weight * output)`` in a direction, from finite differences.

    Attributes
    ----------
    value : float
        The mean of both derivatives.
    low, high : float
        The limits of a subgradient: the sums of the smaller and of the larger derivative of each term.
    size : float
        The sum of the absolute values of the terms.
    noise : float
        The uncertainty of the derivatives.
    smooth : bool
        True if the two derivatives agree. At a kink or a jump, they differ.
    """

    def __init__(self, rights, lefts, weights, level, step):
        pairs = [(w * r, w * x) for w, r, x in zip(weights, rights, lefts)]
        self.value = sum(float((r + x).sum()) / 2 for r, x in pairs)
        self.low = sum(float(np.minimum(r, x).sum()) for r, x in pairs)
        self.high = sum(float(np.maximum(r, x).sum()) for r, x in pairs)
        self.size = sum(float(np.abs(r).sum()) + float(np.abs(x).sum()) for r, x in pairs) / 2
        bend = max([float(np.abs(r - x).max(initial=0)) for r, x in zip(rights, lefts)], default=0)
        # The two one-sided slopes of a smooth function differ by the step times the curvature. At a kink or a jump they
        # differ by more.
        self.smooth = bend <= 1e-2 * max(1.0, self.size)
        self.noise = 1e-15 * level / step * 50 + bend * 1e-3

    def __str__(self):
        return "%.6g" % self.value if self.smooth else "%.6g to %.6g at a kink" % (self.low, self.high)

    def agrees(self, symbolic, tolerance):
        """Return True if the gradient `symbolic` is a derivative within the tolerance, or a subgradient at a kink."""
        # A small kink counts as smooth, but its subgradients, too, are between the one-sided derivatives.
        room = tolerance * max(self.size, abs(symbolic), 1e-2) + self.noise
        return self.low - room <= symbolic <= self.high + room

    def confirm(self, other, symbolic, tolerance):
        """Return True if the slopes of a smaller step, `other`, are the same, so that they show a wrong gradient."""
        if other is None or self.smooth is not other.smooth:
            return False
        if not self.smooth:
            same = 1e-2 * max(1.0, self.size)
            return abs(self.low - other.low) <= same and abs(self.high - other.high) <= same
        apart = abs(self.value - symbolic) if np.isfinite(symbolic) else tolerance * max(self.size, 1e-2) + self.noise
        return abs(self.value - other.value) <= apart / 4


def one_sided_slopes(context, built, values, moved, outs, outputs, weights, step=STEP):
    """Estimate the one-sided derivatives of ``sum(weight * output)`` in a direction by finite differences.

    Parameters
    ----------
    moved : callable
        ``moved(t)`` returns the values after a step t in the direction.
    step : float

    Returns
    -------
    Slopes or None
        None if the Op raises an exception, or if a value is not finite.
    """
    sides = []
    for t in (step, -step):
        there = outputs_at(context, built, moved(t))
        differences = None if there is None else differences_of(outputs, there, outs)
        if differences is None:
            return None
        sides.append([d / t for d in differences])
    level = max([largest(outputs[k]) for k in outs], default=0)
    return Slopes(*sides, weights, level, step)


def stepped(values, step, directions):
    """Return values after a step.

    Parameters
    ----------
    values : list
    step : float
    directions : dict
        Index of a value -> direction, in the form of `elements`.
    """
    return [
        with_elements(v, elements(v) + step * directions[i]) if i in directions else v for i, v in enumerate(values)
    ]


def is_additive(context, built, values, outs, outputs):
    """Return True if the derivative in the sum of two directions is the sum of the derivatives in these directions.

    It is not at points where a function is not differentiable although all difference quotients exist. An example is
    the median of equal numbers: it does not change if a single number changes.
    """
    rng = np.random.RandomState(7)
    free = [i for i, v in enumerate(built.variables) if is_continuous(v)]

    def slope(directions):
        outcome = outputs_at(context, built, stepped(values, STEP, directions))
        differences = None if outcome is None else differences_of(outputs, outcome, outs)
        return None if differences is None else [d / STEP for d in differences]

    for _ in range(4):
        whole = {i: rng.uniform(-1, 1, np.shape(elements(values[i]))) for i in free}
        first = {i: d * rng.randint(0, 2, d.shape) for i, d in whole.items()}
        slopes = [slope(d) for d in (whole, first, {i: whole[i] - first[i] for i in free})]
        if any(one is None for one in slopes):
            continue
        for k, a, b, c in zip(outs, *slopes):
            size = max(float(np.abs(slope).max(initial=0)) for slope in (a, b, c))
            noise = 5e-14 * largest(outputs[k]) / STEP
            if (np.abs(a - b - c) > 1e-3 * size + noise).any():
                return False
    return True
