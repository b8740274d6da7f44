"""The values of the inputs with which a graph is computed before and after a rule."""

import itertools

import numpy as np
import scipy.sparse

from theano_ng.audit.rewrites import special_values
from theano_ng.audit.rewrites.vocabulary import VARIABLES
from theano_ng.scalar import Scalar

#: The lengths of axes that are tried.
LENGTHS = (3, 0, 1, 2)

#: The maximum number of combinations of shapes for a pointwise graph, in addition to combinations of element values.
MAX_LENGTHS = 16

#: The maximum number of combinations of values for an elementwise graph that `contents` treats with ``wide=False``.
NARROW = 1 << 11

#: The maximum number of combinations of values for those inputs of a pointwise graph that have no last axis, or a
#: broadcastable last axis. Each combination needs a separate set of values.
MAX_IN_TURN = 1 << 8

#: The number of sparsity patterns (`_patterns`) of a variable with three rows and three columns.
PATTERNS = 18

#: Values of integer scalars. Such a scalar may be an axis, an index or a length.
PLACES = (0, 1, 2, 3, -1, -2)

#: Variables that always keep their values: a positive definite matrix, states of generators, and arrays that belong
#: together.
FIXED = frozenset("S streams blocks places signs ends state lengths columns starts extent".split())


def contents(instance, rng, most, wide):
    """Return values for the inputs of an instance.

    Parameters
    ----------
    instance : Instance
    rng : numpy.random.Generator
    most : int
        The maximum number of combinations of shapes and values of integer scalars.
    wide : bool
        Whether a pointwise graph (`Instance.is_pointwise`) is computed for all pairs of values of a small dtype.

    Returns
    -------
    list of list
        Sets of values. Each set has one value per input.
    str
        Description of the values and lengths that are covered completely, or "" if some combinations are left out.
    """
    if instance.is_pointwise and (instance.is_elementwise or wide):
        found, over = _values_of_elements(instance, rng, *([] if wide else [NARROW]))
        sets, _ = shapes_and_values(instance.inputs, rng, min(most, MAX_LENGTHS))
        return [*found, *sets], over
    sets, over = shapes_and_values(instance.inputs, rng, most)
    if instance.needs_regular_matrices:
        sets = [[_regular(value) for value in values] for values in sets]
    return sets, "" if instance.is_pointwise else over


def _values_of_elements(instance, rng, *most):
    """Return sets of input values for a pointwise graph, and a description of these values.

    The sets contain all combinations of the described values. The description is "" if combinations are left out.
    `most` is the maximum number of combinations, or absent.
    """
    # An input whose last axis is missing or broadcastable gets one value per set. The other inputs get all their values
    # in one array.
    inputs = sorted(instance.inputs, key=_has_last_axis)
    vectors, over = special_values.combinations([v.dtype for v in inputs], rng, *most)
    starts = _changes(vectors[: sum(not _has_last_axis(v) for v in inputs)])
    length = len(vectors[0]) // len(starts)
    if len(starts) > MAX_IN_TURN:
        starts, over = starts[:: -(-len(starts) // MAX_IN_TURN)], ""
    sets = []
    for start in starts:
        filled = {}
        for v, vector in zip(inputs, vectors):
            part = vector[start : start + length] if _has_last_axis(v) else vector[start : start + 1]
            filled[v] = part.reshape((1,) * (v.ndim - 1) + (-1,) if v.ndim else ())
        sets.append([filled[v] for v in instance.inputs])
    return sets, over


def _has_last_axis(v):
    """Return True if a variable has a last axis that is not broadcastable."""
    return v.ndim >= 1 and not v.broadcastable[-1]


def _changes(vectors):
    """Return index 0 and each index at which an element of one of the vectors differs from the preceding element."""
    if not vectors:
        return [0]
    changed = np.zeros(len(vectors[0]), bool)
    changed[0] = True
    for vector in vectors:
        bits = np.ascontiguousarray(vector).view("u1").reshape(len(vector), -1)
        changed[1:] |= np.any(bits[1:] != bits[:-1], axis=1)
    return np.nonzero(changed)[0].tolist()


def shapes_and_values(inputs, rng, most):
    """Return sets of input values: first small integers in arrays of many shapes, then special values in one shape.

    The values of integer scalars are taken from `PLACES`. Sums and products of the small integers are exact.

    Parameters
    ----------
    inputs : list of Variable
    rng : numpy.random.Generator
    most : int
        The maximum number of combinations of shapes and integer scalars. If there are more, length 3 is left out, then
        length 0 is left out, too. If there are still more, combinations are drawn at random.

    Returns
    -------
    list of list
        Sets of values. Each set has one value per input.
    str
        Description of the lengths and integers that are covered completely, or "" if some combinations are left out.
    """
    over = ""
    for lengths in (LENGTHS, LENGTHS[1:], LENGTHS[2:]):
        choices = [_shapes(v, lengths) for v in inputs]
        total = int(np.prod([float(len(one)) for one in choices]))
        if total <= most:
            over = _describe_coverage(inputs, choices, lengths)
            break
    if total <= most:
        chosen = list(itertools.product(*choices))
    else:
        choices = [_shapes(v) for v in inputs]
        chosen = [tuple(one[0] for one in choices)]
        chosen += [tuple(one[rng.integers(len(one))] for one in choices) for _ in range(most - 1)]
    sets = [[_filled(v, shape, rng, exact=True) for v, shape in zip(inputs, shapes)] for shapes in chosen]
    first = tuple(_shapes(v)[0] for v in inputs)
    for _ in range(min(6, most // 4)):
        sets.append([_filled(v, shape, rng, exact=False) for v, shape in zip(inputs, first)])
    return sets, over


def varies(inputs):
    """Return True if one of the variables has more than one shape, integer value or sparsity pattern to try."""
    return any(len(_shapes(v)) > 1 for v in inputs)


def _describe_coverage(inputs, choices, lengths):
    """Describe the lengths, integers and sparsity patterns in `choices`, and name the variables with a fixed value.

    Return "" if all variables have fixed values.
    """
    places = any(isinstance(one[0], int) for one in choices)
    axes = any(isinstance(one[0], tuple) and any(map(len, one)) for one in choices)
    patterns = any(isinstance(one[0], scipy.sparse.spmatrix) for one in choices)
    told = ["all lengths from %d to %d" % (min(lengths), max(lengths))] * axes
    told += ["all whole numbers from %d to %d" % (min(PLACES), max(PLACES))] * places
    told += ["%d patterns of a sparse matrix" % PATTERNS] * patterns
    given = sorted(v.name for v, one in zip(inputs, choices) if one == [None])
    return " and ".join(told) + (" for given %s" % ", ".join(given) if told and given else "")


def _regular(value):
    """Return a square matrix of floats in a form that is far from singular. Return other values unchanged.

    Elements of large magnitude are replaced by 1, and 16 is added to the diagonal.
    """
    value = np.asarray(value) if not scipy.sparse.issparse(value) else value
    if value.ndim != 2 or value.shape[0] != value.shape[1] or value.dtype.kind not in "fc":
        return value
    small = np.where(np.abs(value) <= 4, value, 1)
    return (small + 16 * np.eye(len(value))).astype(value.dtype)


def _base(v):
    """Return the value of `vocabulary` for a variable, or None. Variables on devices have no such values."""
    known, value = VARIABLES.get(v.name, (v, None))
    return value if type(known.type) is type(v.type) else None


def _is_changed(v):
    """Return True unless `vocabulary.VARIABLES` contains a variable with the same name and the same type."""
    return v.name not in VARIABLES or VARIABLES[v.name][0].type != v.type


def _shapes(v, lengths=LENGTHS):
    """Return the shapes with which a variable is tried. Its natural shape, from `vocabulary`, comes first.

    For an integer scalar, return integers instead. For a sparse matrix, return matrices with various patterns. For a
    variable with a fixed value, return [None].
    """
    base = _base(v)
    if scipy.sparse.issparse(base):
        return _patterns(base)
    if not hasattr(v.type, "broadcastable") or (v.name in FIXED and base is not None):
        return [None]
    if v.ndim == 0 and v.dtype[0] in "iu":
        return [number for number in PLACES if number >= 0 or v.dtype[0] == "i"]
    natural = tuple(np.shape(base)) if base is not None and not _is_changed(v) else (3,) * v.ndim
    natural = tuple(1 if b else n for b, n in zip(v.broadcastable, natural))
    axes = [(1,) if b else _with_first(n, lengths) for b, n in zip(v.broadcastable, natural)]
    return list(itertools.product(*axes))


def _with_first(natural, lengths):
    """Return the lengths to try for an axis, the natural length first.

    If `lengths` is not `LENGTHS`, the natural length is left out unless `lengths` contains it.
    """
    first = (natural,) if lengths == LENGTHS or natural in lengths else ()
    return (*first, *[other for other in lengths if other != natural])


def _patterns(base):
    """Return sparse matrices of one shape: `base`, no elements, all elements, and each row, column and element alone."""
    places = np.arange(base.shape[0] * base.shape[1]).reshape(base.shape)
    masks = [np.zeros(base.shape, bool), np.ones(base.shape, bool)]
    masks += [places // base.shape[1] == i for i in range(base.shape[0])]
    masks += [places % base.shape[1] == i for i in range(base.shape[1])]
    masks += [places == i for i in range(places.size)]
    return [base, *[scipy.sparse.csr_matrix(mask.astype(float)).asformat(base.format) for mask in masks]]


def _filled(v, shape, rng, exact):
    """Return a value of a variable for one of its `_shapes`. If `exact`, random elements are small integers."""
    if shape is None:
        return _base(v) if not isinstance(v.type, Scalar) else _number(v, rng, exact)
    if scipy.sparse.issparse(shape):
        return _sparse(shape, rng)
    if isinstance(shape, (int, np.integer)):
        return np.array(shape, v.dtype)
    if not exact:
        values = (
            special_values.special(v.dtype) if v.dtype[0] in "fc" else special_values.random_values(v.dtype, 20, rng)
        )
        return rng.choice(values, shape).astype(v.dtype)
    low = 0 if v.dtype[0] in "ub" else -3
    values = rng.integers(low, 4, shape)
    if v.dtype[0] == "c":
        values = values + 1j * rng.integers(-3, 4, shape)
    return np.asarray(values).astype(v.dtype)


def _number(v, rng, exact):
    values = np.arange(-3, 4) if exact else special_values.special(v.dtype)
    return np.asarray(rng.choice(values)).astype(v.dtype)[()]


def _sparse(pattern, rng):
    """Return a sparse matrix of small integers with the pattern of another matrix."""
    made = pattern.copy()
    made.data = rng.choice([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0], made.data.shape)
    return made
