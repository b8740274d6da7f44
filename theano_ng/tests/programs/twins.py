"""Functions that the twins of operations are written with. They compute in the dtype that they are given, `numpy.longdouble` included."""

import functools

import mpmath
import numpy as np
import scipy.special

import theano_ng as theano
from theano_ng.sandbox.rng_mrg import MRG_RandomStreams

__all__ = [
    "add_at",
    "cholesky",
    "conv2d",
    "cross_entropy_of_sigmoid",
    "det",
    "dimshuffle",
    "drawn",
    "drawn_by_mrg",
    "equal",
    "erf",
    "erfc",
    "exponential",
    "folded",
    "gamma",
    "gammaln",
    "log_softmax",
    "loop",
    "pool_2d",
    "psi",
    "put",
    "softmax",
    "solve",
    "symmetric",
    "with_diagonal",
]


NEAR = 0.1  # more than the errors of ordinary programs are


def dimshuffle(x, order):
    dropped = tuple([axis for axis in range(x.ndim) if axis not in order])
    kept = [axis for axis in order if axis != "x"]
    x = np.transpose(x, [*kept, *dropped]).reshape([x.shape[axis] for axis in kept])
    return x[tuple([None if axis == "x" else slice(None) for axis in order])]


def put(x, index, value):
    x = np.array(x)
    x[index] = value
    return x


def add_at(x, index, value):
    x = np.array(x)
    np.add.at(x, index, value)
    return x


def with_diagonal(x, value):
    x = np.array(x)
    np.fill_diagonal(x, value)
    return x


def equal(x, y):
    """Where elements are equal. Of nearly equal ones in extended precision: where the first is larger, which errors change where they change equality."""
    if np.longdouble not in (np.asarray(x).dtype, np.asarray(y).dtype):
        return x == y
    near = np.abs(x - y) <= NEAR * np.maximum(np.abs(x), np.abs(y))
    return (x == y) | near & (x > y)


def symmetric(x):
    return (x + x.T) / 2


# --- loops -------------------------------------------------------------------------------------------------------------------


def loop(step, sequences, states, others, n_steps, backwards):
    """``scan``: sequences and states are pairs of array and taps; returns the list of outputs."""
    slices = [one for x, taps in sequences for one in _slices_of_taps(x, taps, backwards)]
    steps = min([*[len(one) for one in slices], *[n_steps] * (n_steps is not None)])
    rows = [[initial] if taps == (-1,) else list(initial[: -min(taps)]) for initial, taps in states]
    leads = [len(one) for one in rows]
    more = None
    for t in range(steps):
        read = [one[t] for one in slices]
        known = [one[tap] for one, (_, taps) in zip(rows, states) for tap in taps]
        results, stop = step(*read, *known, *others)
        more = more if more is not None else [[] for _ in results[len(rows) :]]
        for one, result in zip([*rows, *more], results):
            one.append(result)
        if stop:
            break
    return [np.array(one[lead:]) for one, lead in zip(rows, leads)] + [np.array(one) for one in more]


def folded(x, backwards):
    """The fold of the rows of x by ``tanh(a * p) + a``."""
    result = np.ones_like(x[0])
    for row in x[::-1] if backwards else x:
        result = np.tanh(row * result) + row
    return result


def _slices_of_taps(x, taps, backwards):
    """What each tap of a sequence reads, step by step; a loop backwards reads the same from the end."""
    first = -min(0, *taps, 0)
    length = max(0, len(x) - first - max(0, *taps, 0))
    slices = [x[first + tap : first + tap + length] for tap in taps]
    return [one[::-1] for one in slices] if backwards else slices


# --- linear algebra ----------------------------------------------------------------------------------------------------------


def _eliminated(a, b):
    """The matrix and the right-hand side after elimination with pivots, and the sign of the permutation."""
    a, b, sign = np.array(a), np.array(b), 1
    for k in range(len(a)):
        pivot = k + int(np.argmax(np.abs(a[k:, k])))
        if pivot != k:
            a[[k, pivot]], b[[k, pivot]], sign = a[[pivot, k]], b[[pivot, k]], -sign
        for i in range(k + 1, len(a)):
            factor = a[i, k] / a[k, k]
            a[i] = a[i] - factor * a[k]
            b[i] = b[i] - factor * b[k]
    return a, b, sign


def det(a):
    eliminated, _, sign = _eliminated(a, np.zeros(len(a), a.dtype))
    return sign * np.prod(np.diag(eliminated))


def solve(a, b):
    eliminated, x, _ = _eliminated(a, b)
    for k in reversed(range(len(a))):
        x[k] = (x[k] - np.dot(eliminated[k, k + 1 :], x[k + 1 :])) / eliminated[k, k]
    return x


def cholesky(a):
    lower = np.zeros_like(a)
    for j in range(len(a)):
        lower[j, j] = np.sqrt(a[j, j] - np.dot(lower[j, :j], lower[j, :j]))
        for i in range(j + 1, len(a)):
            lower[i, j] = (a[i, j] - np.dot(lower[i, :j], lower[j, :j])) / lower[j, j]
    return lower


def exponential(a):
    """The exponential of a matrix: a series for a part of it, squared."""
    halvings = 10
    part, term, total = a / 2**halvings, np.eye(len(a), dtype=a.dtype), np.eye(len(a), dtype=a.dtype)
    for k in range(1, 12):
        term = np.dot(term, part) / k
        total = total + term
    for _ in range(halvings):
        total = np.dot(total, total)
    return total


# --- networks ----------------------------------------------------------------------------------------------------------------


def log_softmax(x):
    x = x - np.max(x, axis=-1, keepdims=True)
    return x - np.log(np.sum(np.exp(x), axis=-1, keepdims=True))


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def cross_entropy_of_sigmoid(x, target):
    return target * np.logaddexp(x.dtype.type(0), -x) + (1 - target) * np.logaddexp(x.dtype.type(0), x)


def conv2d(x, w, border, step, flip):
    """A convolution of images with filters; `flip` is that of the mathematical definition."""
    rows, columns = w.shape[2:]
    pad = {"valid": (0, 0), "full": (rows - 1, columns - 1), "half": (rows // 2, columns // 2)}.get(border, border)
    x = np.pad(x, [(0, 0), (0, 0), (pad[0], pad[0]), (pad[1], pad[1])])
    w = w[:, :, ::-1, ::-1] if flip else w
    windows = np.lib.stride_tricks.sliding_window_view(x, (rows, columns), axis=(2, 3))[:, :, :: step[0], :: step[1]]
    return np.einsum("nchwij,ocij->nohw", windows, w)


def pool_2d(x, size, ignore_border, stride, mode):
    """Pooling without padding."""
    counts = [_windows(n, k, s, ignore_border) for n, k, s in zip(x.shape[2:], size, stride)]
    result = np.zeros((*x.shape[:2], *counts), x.dtype)
    for i in range(counts[0]):
        for j in range(counts[1]):
            part = x[:, :, i * stride[0] : i * stride[0] + size[0], j * stride[1] : j * stride[1] + size[1]]
            if mode == "max":
                result[:, :, i, j] = part.max(axis=(2, 3))
            else:
                count = 1 if mode == "sum" else part.shape[2] * part.shape[3]
                result[:, :, i, j] = part.sum(axis=(2, 3)) / count
    return result


def _windows(length, size, stride, ignore_border):
    if ignore_border:
        return max(0, (length - size) // stride + 1)
    return (length - 1) // stride + 1 if stride >= size else max(0, (length - 1 - size + stride) // stride) + 1


# --- special functions -------------------------------------------------------------------------------------------------------


def _special(name, of_scipy):
    """A function of scipy.special; of longer floats that of mpmath, with 30 digits."""

    def computed(x):
        x = np.asarray(x)
        if x.dtype != np.longdouble:
            dtype = x.dtype
            return np.asarray(getattr(scipy.special, of_scipy)(x.astype("float64") if dtype == "float16" else x), dtype)
        return np.array([_by_mpmath(name, value) for value in x.ravel()], np.longdouble).reshape(x.shape)

    computed.__name__ = name
    return computed


LARGE = 1e6  # beyond which mpmath takes long, or fails


@functools.lru_cache(maxsize=10000)
def _by_mpmath(name, value):
    high = float(value)
    if name in ("erf", "erfc") and abs(high) < LARGE or 0 < high < LARGE:
        with mpmath.workdps(30):
            result = getattr(mpmath, name)(mpmath.mpf(high) + mpmath.mpf(float(value - high)))
            if abs(result) < np.finfo(float).max:
                return np.longdouble(float(result)) + np.longdouble(float(result - float(result)))
    return np.longdouble(getattr(scipy.special, _NAMES[name])(high))


_NAMES = {
    "erf": "erf",
    "erfc": "erfc",
    "gamma": "gamma",
    "loggamma": "gammaln",
    "digamma": "psi",
}  # of mpmath: of SciPy
erf, erfc, gamma, gammaln, psi = [_special(*names) for names in _NAMES.items()]


# --- random streams ----------------------------------------------------------------------------------------------------------


def drawn(seed, kind, shape, call):
    """The numbers of the first stream of ``RandomStreams(seed)`` at a call, as the manual says: NumPy's, with a seed that is NumPy's first number."""
    generator = np.random.RandomState(int(np.random.RandomState(seed).randint(2**30)))
    for _ in range(call + 1):
        numbers = getattr(generator, kind)(size=shape)
    return numbers


@functools.lru_cache(maxsize=200)
def drawn_by_mrg(seed, kind, shape, call):
    """The numbers of an MRG stream at a call, by the implementation in Python without rewrites."""
    function = theano.function([], getattr(MRG_RandomStreams(seed), kind)(shape), mode=theano.Mode("py", None))
    return [function() for _ in range(call + 1)][-1]
