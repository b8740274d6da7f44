"""The precisions in which twins are evaluated, and the error that a correct function may have.

A twin is evaluated in the dtypes of its variables (plainly), in `numpy.longdouble`, and several times in
`numpy.longdouble` with random errors. The random errors move each rounded result by a few units in the last place of
its dtype, relative to the scale of the operation. The changes of the outputs show how strongly rounding errors affect
the program for these values. The allowed error of an output is a small multiple of its change, plus a few units in the
last place of the output.
"""

import functools
import random

import numpy as np

EXTENDED, EXTENDED_COMPLEX = np.longdouble, np.clongdouble
NOISE = 4.0  # size of the random errors, in multiples of the `ulps` of the operation
SAMPLES = 4
ALLOWED = 6.0  # allowed error, in multiples of the largest observed deviation
OWN_UNITS = 16.0  # additional allowed error, in units in the last place of the output


@functools.cache
def unit(dtype):
    """Return the spacing of the floats of a dtype at 1. Return 0 for integers."""
    dtype = np.dtype(dtype)
    return float(np.finfo(dtype).eps) if dtype.kind in "fc" else 0.0


def settle_plainly(value, dtype, ulps=0.0, scale=None):
    """Round a result to the dtype of its variable."""
    return np.asarray(value).astype(dtype)


class Plain:
    """An object whose method ``settle`` rounds results, and records whether all results were finite.

    Attributes
    ----------
    finite : bool
    """

    def __init__(self):
        self.finite = True

    def settle(self, value, dtype, ulps=0.0, scale=None):
        value = settle_plainly(value, dtype)
        if value.dtype.kind in "fc" and not np.isfinite(value).all():
            self.finite = False
        return value


def cast_plainly(value, dtype):
    return np.asarray(value).astype(dtype) if isinstance(value, np.ndarray) else np.dtype(dtype).type(value)


@functools.cache
def _extended(dtype):
    return {"f": EXTENDED, "c": EXTENDED_COMPLEX}.get(np.dtype(dtype).kind, np.dtype(dtype))


def cast_extended(value, dtype):
    return cast_plainly(value, _extended(dtype))


def settle_extended(value, dtype, ulps=0.0, scale=None):
    return np.asarray(value).astype(_extended(dtype))


def _errors(count):
    """Return random factors of both signs and of different magnitudes, so that two errors do not cancel."""
    numbers = random.Random("errors")
    return np.array([numbers.choice((-1.0, 1.0)) * numbers.uniform(0.5, 1.0) for _ in range(count)])


ERRORS = _errors(2**14)
STRIDE = 5003  # distance in `ERRORS` between the starts of two samples


class Noise:
    """An object whose method ``settle`` adds errors.

    Zeros get random signs, because rewriting rules do not keep the sign of zero.

    Parameters
    ----------
    number : int
        The number of the sample. The errors of an odd number are the negatives of the errors of the previous number.
        Therefore a comparison of equal values has a different result in one of these two samples.
    """

    def __init__(self, number):
        self.place = STRIDE * (number // 2)
        self.sign = 1.0 - 2.0 * (number % 2)

    def settle(self, value, dtype, ulps=0.0, scale=None):
        value = settle_extended(value, dtype)
        if value.dtype.kind not in "fc":
            return value
        if value.dtype.kind == "f" and not value.all():
            value = np.where(value == 0, np.copysign(value, self._signed(value)), value)
        if not ulps:
            return value
        size = np.abs(value) if scale is None else np.maximum(np.abs(value), np.abs(scale()))
        error = (unit(dtype) * NOISE * ulps) * self._signed(value) * np.where(np.isfinite(size), size, 0)
        return np.where(error == 0, value, value + error)  # without an error, keep the sign of -0.0: -0.0 + 0.0 is 0.0

    def _signed(self, value):
        """Return the next errors, with the shape of a value."""
        places = np.arange(self.place, self.place + value.size) % ERRORS.size
        self.place = int(places[-1]) + 1 if value.size else self.place
        return self.sign * ERRORS[places].reshape(value.shape)


def extended(one):
    """Return an array in extended precision."""
    return np.asarray(one, _extended(one.dtype))


class Judged:
    """The expected values of an array: rounded, and in extended precision. The allowed error is also computed.

    Attributes
    ----------
    plain, exact : ndarray
    error : ndarray or None
        The allowed error of each element. None if the array cannot be judged, because its shape depends on rounding.
    """

    def __init__(self, plain, exact, noisy):
        self.plain, self.exact = np.asarray(plain), np.asarray(exact)
        self.error = None
        if all([np.shape(n) == self.exact.shape for n in noisy]) and self.exact.shape == self.plain.shape:
            self.error = self._error(noisy)

    def _error(self, noisy):
        exact, dtype = self.exact, self.plain.dtype
        if dtype.kind not in "fc":
            differ = [np.asarray(n) != exact for n in noisy] + [self.plain != exact]
            return np.where(np.any(differ, axis=0), np.inf, 0.0)
        # If an infinity depends on the sign of a zero or on rounding, it cannot be judged.
        self._steady = np.all([_structure(np.asarray(n)) == _structure(exact) for n in noisy], axis=0)
        with np.errstate(all="ignore"):
            moved = np.max([np.abs(np.asarray(n) - exact) for n in noisy] + [0 * np.abs(exact)], axis=0)
            moved = np.maximum(moved, np.abs(self.plain.astype(exact.dtype) - exact))
            tiny = np.finfo(dtype).tiny
            error = ALLOWED * moved + OWN_UNITS * unit(dtype) * np.abs(exact) + 4 * tiny
        # For elements that are NaN, infinite or beyond the range of the dtype, only the structure is known.
        known = np.isfinite(error) & np.isfinite(exact) & (np.abs(exact) < np.finfo(dtype).max / 2)
        return np.where(known, error, np.inf)

    def wrong(self, got, as_written, finite=True):
        """Return a mask of the wrong elements of a result. Return None if its shape or dtype is wrong.

        Parameters
        ----------
        got : ndarray
        as_written : bool
            True if the graph is not rewritten. Then NaN and infinities must be at the expected positions. In a
            rewritten graph, the operations that produce them may be missing.
        finite : bool
            Whether all values of the program are finite. If False, the integers and booleans of a rewritten graph are
            not judged, because they may depend on operations that rewriting removed.
        """
        got = np.asarray(got)
        if self.error is None:
            return np.zeros(got.shape, bool)
        if got.shape != self.exact.shape or got.dtype != self.plain.dtype:
            return None
        with np.errstate(all="ignore"):
            off = np.abs(got.astype(self.exact.dtype) - self.exact) if got.dtype.kind in "fc" else (got != self.exact)
            bad = ~(off <= self.error) if got.dtype.kind in "fc" else off & (self.error == 0)
            bad &= ~_same(got, self.plain)
            judged = np.isfinite(self.error)
            if as_written and got.dtype.kind in "fc":
                bad = np.where(judged, bad, self._steady & (_structure(got) != _structure(self.plain)))
                return bad
        if not finite and not as_written and got.dtype.kind not in "fc":
            return np.zeros(got.shape, bool)
        return bad & judged


def _same(a, b):
    """Return a mask of equal elements. Two NaNs count as equal."""
    return (a == b) | (a != a) & (b != b)


def _structure(array):
    """Return an array: 0 for each finite element, 1 for each infinite element, and 2 for each NaN."""
    return np.where(np.isnan(array), 2, np.where(np.isinf(array), 1, 0))
