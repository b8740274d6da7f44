"""The values with which a graph is computed before and after a rule."""

import itertools

import numpy as np
import scipy.sparse

from theano_ng.audit.rewrites import special
from theano_ng.audit.rewrites.vocabulary import VARIABLES
from theano_ng.scalar import Scalar

#: Lengths of axes.
LENGTHS = (3, 0, 1, 2)

#: Sets of lengths for an elementwise graph.
MOST_LENGTHS = 16

#: Combinations of values of an elementwise graph that is a variation of another one.
NARROW = 1 << 11

#: Values of whole numbers that may be axes, indices or lengths.
PLACES = (0, 1, 2, 3, -1, -2)

#: Variables whose values have to be what they are: a positive definite matrix, states of generators, arrays that fit each other.
FIXED = frozenset("S streams blocks places signs ends state lengths columns starts extent".split())


def contents(instance, rng, most, wide):
    """Values for the inputs of an instance.

    Parameters
    ----------
    instance : Instance
    rng : numpy.random.Generator
    most : int
        Sets of values.
    wide : bool
        Whether an elementwise graph is computed for all pairs of the values of a small dtype.

    Returns
    -------
    list of list
        Sets of values.
    bool
        Whether they are all there are: of a small dtype for an elementwise graph, all lengths from 0 to 3 for others.
    """
    if instance.is_elementwise:
        vectors, complete = special.combinations([v.dtype for v in instance.inputs], rng, *([] if wide else [NARROW]))
        sets, _ = shapes_and_values(instance.inputs, rng, min(most, MOST_LENGTHS))
        return [[v.reshape((1,) * (i.ndim - 1) + (-1,)) for v, i in zip(vectors, instance.inputs)], *sets], complete
    sets, complete = shapes_and_values(instance.inputs, rng, most)
    if instance.needs_regular_matrices:
        sets = [[_regular(value) for value in values] for values in sets]
    return sets, complete and not instance.is_pointwise


def shapes_and_values(inputs, rng, most):
    """Arrays of all lengths, filled with small whole numbers, whose sums and products are exact; then some with special values.

    Parameters
    ----------
    inputs : list of Variable
    rng : numpy.random.Generator
    most : int
        Sets of values.

    Returns
    -------
    list of list
    bool
        Whether all lengths from 0 to 3 occur, with all small whole numbers.
    """
    choices = [_shapes(v) for v in inputs]
    total = int(np.prod([float(len(one)) for one in choices]))
    complete = total <= most
    if complete:
        chosen = list(itertools.product(*choices))
    else:
        chosen = [tuple(one[0] for one in choices)]
        chosen += [tuple(one[rng.integers(len(one))] for one in choices) for _ in range(most - 1)]
    sets = [[_filled(v, shape, rng, exact=True) for v, shape in zip(inputs, shapes)] for shapes in chosen]
    first = chosen[0]
    for _ in range(min(6, most // 4)):
        sets.append([_filled(v, shape, rng, exact=False) for v, shape in zip(inputs, first)])
    return sets, complete


def _regular(value):
    """A square matrix with numbers on its diagonal by which it is far from singular; other values as they are."""
    value = np.asarray(value) if not scipy.sparse.issparse(value) else value
    if value.ndim != 2 or value.shape[0] != value.shape[1] or value.dtype.kind not in "fc":
        return value
    small = np.where(np.abs(value) <= 4, value, 1)
    return (small + 16 * np.eye(len(value))).astype(value.dtype)


def _base(v):
    return VARIABLES[v.name][1] if v.name in VARIABLES else None


def _is_changed(v):
    """Whether a variable is of another type than the vocabulary's one of that name."""
    return v.name not in VARIABLES or VARIABLES[v.name][0].type != v.type


def _shapes(v):
    """The shapes that a variable may have, the natural one first; for a whole number, its values; None for a value that stays."""
    base = _base(v)
    if scipy.sparse.issparse(base):
        return ["as it is", "empty", "full"]
    if not hasattr(v.type, "broadcastable") or v.name in FIXED:
        return [None]
    if v.ndim == 0 and v.dtype[0] in "iu":
        return [number for number in PLACES if number >= 0 or v.dtype[0] == "i"]
    natural = tuple(np.shape(base)) if base is not None and not _is_changed(v) else (3,) * v.ndim
    natural = tuple(1 if b else n for b, n in zip(v.broadcastable, natural))
    axes = [(1,) if b else (n, *[other for other in LENGTHS if other != n]) for b, n in zip(v.broadcastable, natural)]
    return list(itertools.product(*axes))


def _filled(v, shape, rng, exact):
    """A value of a variable with a shape."""
    if shape is None:
        return _base(v) if not isinstance(v.type, Scalar) else _number(v, rng, exact)
    if isinstance(shape, str):
        return _sparse(_base(v), shape, rng)
    if isinstance(shape, (int, np.integer)):
        return np.array(shape, v.dtype)
    if not exact:
        values = special.special(v.dtype) if v.dtype[0] in "fc" else special.random_values(v.dtype, 20, rng)
        return rng.choice(values, shape).astype(v.dtype)
    low = 0 if v.dtype[0] in "ub" else -3
    values = rng.integers(low, 4, shape)
    if v.dtype[0] == "c":
        values = values + 1j * rng.integers(-3, 4, shape)
    return np.asarray(values).astype(v.dtype)


def _number(v, rng, exact):
    values = np.arange(-3, 4) if exact else special.special(v.dtype)
    return np.asarray(rng.choice(values)).astype(v.dtype)[()]


def _sparse(base, kind, rng):
    """A sparse matrix of the format of another one."""
    if kind == "as it is":
        return base
    dense = np.zeros(base.shape) if kind == "empty" else rng.integers(-3, 4, base.shape).astype(float)
    return scipy.sparse.csr_matrix(dense).asformat(base.format)
