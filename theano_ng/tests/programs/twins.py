"""Functions for the twins of operations. They compute in the dtype of their arguments, including `numpy.longdouble`."""

import functools
import itertools

import mpmath
import numpy as np
import scipy.special

import theano_ng as theano
from theano_ng.sandbox.rng_mrg import MRG_RandomStreams

__all__ = [
    "add_at",
    "by_steps",
    "cholesky",
    "complex_of",
    "convolution",
    "cross_entropy_of_sigmoid",
    "det",
    "dimshuffle",
    "drawn",
    "drawn_by_mrg",
    "eigen",
    "equal",
    "erf",
    "erfc",
    "exponential",
    "folded",
    "gamma",
    "gammaln",
    "kept",
    "log_softmax",
    "loop",
    "polar",
    "pooling",
    "psi",
    "put",
    "singular_values",
    "softmax",
    "solve",
    "symmetric",
    "with_diagonal",
]


NEAR = 0.1  # relative distance of nearly equal numbers, larger than the relative errors of ordinary programs


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


def nearly_equal(x, y):
    """Return a mask of elements that differ so little that rounding errors may decide which element is larger."""
    return np.abs(x - y) <= NEAR * np.maximum(np.abs(x), np.abs(y))


def equal(x, y):
    """Return a mask of equal elements.

    In extended precision, nearly equal elements count as equal if the first element is larger. Therefore random errors
    change the result for elements whose equality depends on rounding.
    """
    if np.longdouble not in (np.asarray(x).dtype, np.asarray(y).dtype):
        return x == y
    return (x == y) | nearly_equal(x, y) & (x > y)


def complex_of(real, imag):
    """Return complex numbers with the given real and imaginary parts.

    The expression ``real + 1j * imag`` would be NaN for infinite parts.
    """
    result = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), np.result_type(real, imag, np.complex64))
    result.real, result.imag = real, imag
    return result


def symmetric(x):
    return (x + x.T) / 2


# --- loops -------------------------------------------------------------------------------------------------------------------


def loop(step, sequences, states, others, n_steps, backwards):
    """Compute ``scan``, and return the list of outputs. Sequences and states are pairs of array and taps."""
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
    """Fold the rows of x: each step computes ``tanh(a * p) + a`` from a row a and the previous result p."""
    result = np.ones_like(x[0])
    for row in x[::-1] if backwards else x:
        result = np.tanh(row * result) + row
    return result


def kept(x, every):
    """Return the results of `folded` after each block of `every` steps. The last block may be shorter."""
    states = [folded(x[:n], False) for n in range(1, len(x) + 1)]
    return np.array([state for n, state in enumerate(states, 1) if n % every == 0 or n == len(states)])


def _slices_of_taps(x, taps, backwards):
    """Return a list with the slice of the sequence that each tap reads. The rows are in the order of the steps."""
    first = -min(0, *taps, 0)
    length = max(0, len(x) - first - max(0, *taps, 0))
    slices = [x[first + tap : first + tap + length] for tap in taps]
    return [one[::-1] for one in slices] if backwards else slices


# --- linear algebra ----------------------------------------------------------------------------------------------------------


def _eliminated(a, b):
    """Return the matrix and the right-hand side after elimination with pivoting, and the sign of the permutation."""
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


def _rotation(difference, product):
    """Return the cosine and sine of the smaller rotation angle in Jacobi's method.

    `difference` is the difference of the diagonal elements. `product` is the off-diagonal element, which becomes zero.
    """
    ratio = difference / (2 * product)
    tangent = (1 if ratio >= 0 else -1) / (abs(ratio) + np.sqrt(1 + ratio * ratio))
    cosine = 1 / np.sqrt(1 + tangent * tangent)
    return cosine, cosine * tangent


SWEEPS = 12  # number of sweeps of Jacobi's method, sufficient for a few rows


def _rotated(x, p, q, cosine, sine):
    """Rotate two columns of a matrix in place."""
    x[:, p], x[:, q] = cosine * x[:, p] - sine * x[:, q], sine * x[:, p] + cosine * x[:, q]


def eigen(a):
    """Return the eigenvalues of a symmetric matrix in ascending order, and its eigenvectors, by Jacobi's method."""
    a, vectors = np.array(a), np.eye(len(a), dtype=a.dtype)
    for _ in range(SWEEPS):
        for p, q in itertools.combinations(range(len(a)), 2):
            if a[p, q]:
                rotation = _rotation(a[q, q] - a[p, p], a[p, q])
                _rotated(a, p, q, *rotation)
                _rotated(a.T, p, q, *rotation)
                _rotated(vectors, p, q, *rotation)
    order = np.argsort(np.diag(a))
    return np.diag(a)[order], vectors[:, order]


def singular_values(a):
    """Return the singular values in descending order, by the one-sided Jacobi method."""
    columns = np.array(a if a.shape[0] >= a.shape[1] else a.T)
    for _ in range(SWEEPS):
        for p, q in itertools.combinations(range(columns.shape[1]), 2):
            first, second = columns[:, p], columns[:, q]
            product = np.sum(first * second)
            if product:
                _rotated(columns, p, q, *_rotation(np.sum(second * second) - np.sum(first * first), product))
    return np.sort(np.sqrt(np.sum(columns * columns, axis=0)))[::-1]


def polar(a):
    """Return the orthogonal matrix that is nearest to a matrix of full rank."""
    values, vectors = eigen(symmetric(np.dot(a.T, a)))
    return np.dot(a, np.dot(vectors / np.sqrt(values), vectors.T))


def exponential(a):
    """Return the exponential of a matrix.

    A series computes the exponential of a fraction of the matrix. The result is squared repeatedly.
    """
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


def convolution(x, w, border, step, flip):
    """Return a convolution of images or volumes with filters. If `flip` is True, the filters are flipped.

    A convolution flips its filters by definition.
    """
    lengths = w.shape[2:]
    axes = tuple(range(2, x.ndim))
    pad = {
        "valid": [0] * len(lengths),
        "full": [length - 1 for length in lengths],
        "half": [length // 2 for length in lengths],
    }.get(border, border)
    x = np.pad(x, [(0, 0), (0, 0), *[(n, n) for n in pad]])
    windows = np.lib.stride_tricks.sliding_window_view(x, lengths, axis=axes)
    windows = windows[(slice(None), slice(None), *[slice(None, None, n) for n in step])]
    inside = [1, *range(x.ndim, x.ndim + len(lengths))]
    found = np.tensordot(windows, np.flip(w, axes) if flip else w, (inside, range(1, w.ndim)))
    return np.moveaxis(found, -1, 1)


def pooling(x, size, ignore_border, stride, mode):
    """Return the pooling of images or volumes without padding."""
    counts = [_windows(n, k, s, ignore_border) for n, k, s in zip(x.shape[2:], size, stride)]
    axes = tuple(range(2, x.ndim))
    result = np.zeros((*x.shape[:2], *counts), x.dtype)
    for place in np.ndindex(*counts):
        part = x[(..., *[slice(i * s, i * s + k) for i, s, k in zip(place, stride, size)])]
        if mode == "max":
            result[(..., *place)] = part.max(axis=axes)
        else:
            result[(..., *place)] = part.sum(axis=axes) / (1 if mode == "sum" else part[0, 0].size)
    return result


def _windows(length, size, stride, ignore_border):
    if ignore_border:
        return max(0, (length - size) // stride + 1)
    return (length - 1) // stride + 1 if stride >= size else max(0, (length - 1 - size + stride) // stride) + 1


# --- special functions -------------------------------------------------------------------------------------------------------


def _special(name, of_scipy):
    """Return a function that computes with scipy.special, or with 30 digits of mpmath.

    The function uses mpmath for longdouble arguments, and for finite arguments for which SciPy returns infinity.
    """

    def computed(x):
        x = np.asarray(x)
        if x.dtype != np.longdouble:
            dtype = x.dtype
            found = np.asarray(
                getattr(scipy.special, of_scipy)(x.astype("float64") if dtype == "float16" else x), dtype
            )
            return np.where(np.isinf(found) & np.isfinite(x), computed(x.astype(np.longdouble)), found).astype(dtype)
        return np.array(
            [_by_mpmath(name, value, bool(np.signbit(value))) for value in x.ravel()], np.longdouble
        ).reshape(x.shape)

    computed.__name__ = name
    return computed


LARGE = 1e6  # for larger arguments, mpmath is slow or fails
TINY = 1e-200  # if abs(x) is smaller, log(abs(gamma(x))) is -log(abs(x))


@functools.lru_cache(maxsize=10000)
def _by_mpmath(name, value, negative):
    # The argument `negative` is not used. It only distinguishes 0.0 from -0.0 in the cache, because they are equal.
    high = float(value)
    if name == "loggamma" and -TINY < high < 0:
        return -np.log(-value)  # SciPy returns infinity for arguments that are this close to zero
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
}  # name in mpmath -> name in scipy.special
erf, erfc, gamma, gammaln, psi = [_special(*names) for names in _NAMES.items()]


# --- random streams ----------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=200)
def _of_numpy(seed, draw):
    """Return a pair: a function that draws the next samples of the first stream of ``RandomStreams(seed)``, and a list.

    The list is empty at first. The caller appends the samples of each call to it.

    As documented, the stream is a NumPy generator, which is seeded with the first sample of another NumPy generator.
    This other generator has the seed `seed`.
    """
    generator = np.random.RandomState(int(np.random.RandomState(seed).randint(2**30)))
    return functools.partial(eval, compile(draw, "<draw>", "eval"), {"g": generator, "np": np}), []


@functools.lru_cache(maxsize=200)
def _of_mrg(seed, draw):
    """Return a pair like `_of_numpy`, for an MRG stream. The function draws in Python, without rewriting the graph."""
    numbers = eval("streams." + draw, {"streams": MRG_RandomStreams(seed), "np": np})
    return theano.function([], numbers, mode=theano.Mode("py", None)), []


def _drawn_by(stream, seed, draw, calls):
    """Return the samples that a stream draws at a call.

    Parameters
    ----------
    stream : callable
        A function of `seed` and `draw`. It returns a function that draws the next samples, and a list to which the
        samples of each call are appended.
    seed : int
    draw : str
        An expression of the generator `g`, or a method call of MRG_RandomStreams.
    calls : int
        The number of the call, counted from 1.
    """
    function, found = stream(seed, draw)
    while len(found) < calls:
        found.append(function())
    return found[calls - 1]


drawn, drawn_by_mrg = functools.partial(_drawn_by, _of_numpy), functools.partial(_drawn_by, _of_mrg)


def by_steps(draw, seed, numbers, steps, call):
    """Return the samples that a loop draws at a call, one row for each step. `draw` is `drawn` or `drawn_by_mrg`."""
    return np.array([draw(seed, numbers, call * steps + step) for step in range(1, steps + 1)])
