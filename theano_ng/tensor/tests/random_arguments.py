"""Random arguments of Ops for tests, and tables of arguments for `makeTester`.

Floating point numbers have dtype floatX unless the function's name contains another dtype. All functions draw from
`numpy.random`, which `utt.seed_rng` seeds. The documented home of the names is `theano_ng.tensor.tests.test_basic`,
which re-exports every name of this module.
"""

import itertools

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.scalar import all_types

__all__ = [
    "_good_broadcast_binary_normal",
    "_good_broadcast_unary_normal",
    "_good_broadcast_unary_normal_float_no_complex",
    "_good_broadcast_unary_normal_no_complex",
    "_grad_broadcast_binary_normal",
    "_grad_broadcast_unary_normal",
    "_numpy_true_div",
    "multi_dtype_cast_checks",
    "multi_dtype_checks",
    "rand",
    "rand_nonzero",
    "rand_of_dtype",
    "rand_ranged",
    "randc128_ranged",
    "randcomplex",
    "randcomplex_nonzero",
    "randint",
    "randint_nonzero",
    "randint_ranged",
    "randuint32",
    "upcast_float16_ufunc",
    "upcast_int8_nfunc",
]


def rand(*shape):
    """Return random numbers in [-1, 1)."""
    return np.asarray(np.random.rand(*shape) * 2 - 1, dtype=config.floatX)


def rand_nonzero(shape, eps=3e-4):
    """Return random numbers in [-1, 1) whose absolute value is at least `eps`."""
    drawn = np.asarray(np.random.rand(*shape), dtype=config.floatX)
    return drawn * (1 - eps) + eps * (drawn >= 0.5) - (drawn < 0.5)


def rand_ranged(min, max, shape):
    """Return random numbers in [min, max)."""
    return np.asarray(np.random.rand(*shape) * (max - min) + min, dtype=config.floatX)


def randint(*shape):
    """Return random integers from -5 to 5, dtype int64."""
    return np.random.randint(-5, 6, shape)


def randuint32(*shape):
    """Return random integers from 0 to 4, dtype uint32."""
    return np.array(np.random.randint(5, size=shape), dtype=np.uint32)


def randint_ranged(min, max, shape):
    """Return random integers from `min` to `max` inclusive, dtype int64."""
    return np.random.randint(min, max + 1, shape)


def randint_nonzero(*shape):
    """Return random integers from -5 to 5 without 0, dtype int64."""
    drawn = np.random.randint(-5, 5, shape)
    return drawn + (drawn >= 0)


def randcomplex(*shape):
    """Return random complex128 numbers, both parts in [-1, 1)."""
    return np.random.uniform(-1, 1, shape) + 1j * np.random.uniform(-1, 1, shape)


def randcomplex_nonzero(shape, eps=1e-4):
    """Return random complex128 numbers whose absolute value is at least `eps`."""
    drawn = randcomplex(*shape)
    return np.where(np.abs(drawn) < eps, drawn + 2 * eps, drawn)


def randc128_ranged(min, max, shape):
    """Return random complex128 numbers, both parts in [min, max)."""
    return np.random.uniform(min, max, shape) + 1j * np.random.uniform(min, max, shape)


def rand_of_dtype(shape, dtype):
    """Return random numbers of a dtype, drawn as by `randint`, `rand` or `randcomplex`; booleans have both values.

    Parameters
    ----------
    shape : tuple of int
    dtype : str
        Unsigned integers are from 0 to 5.

    Raises
    ------
    TypeError
        If the dtype is neither a number nor bool.
    """
    kind = np.dtype(dtype).kind
    if kind not in "biufc":
        raise TypeError("random numbers of dtype %s cannot be drawn; numbers and bool can" % (dtype,))
    if kind == "b":
        return np.random.randint(0, 2, shape).astype(dtype)
    if kind in "iu":
        drawn = randint(*shape)
        return (np.abs(drawn) if kind == "u" else drawn).astype(dtype)
    return np.asarray(randcomplex(*shape) if kind == "c" else rand(*shape)).astype(dtype)


def _check_table(shapes, pairs, nameprefix):
    for dtypes in pairs:
        name = "_".join((nameprefix,) * bool(nameprefix) + tuple(str(dtype) for dtype in dtypes))
        yield name, tuple(rand_of_dtype(shape, dtype) for shape, dtype in zip(shapes, dtypes))


def multi_dtype_checks(shape1, shape2, dtypes=all_types, nameprefix=""):
    """Yield two arguments for each combination of two different dtypes, regardless of their order.

    Parameters
    ----------
    shape1, shape2 : tuple of int
    dtypes : sequence of str
    nameprefix : str

    Yields
    ------
    (str, tuple of ndarray)
        A name such as "prefix_int8_float32", and the arguments; ``dict`` of the pairs is a table for `makeTester`.
    """
    return _check_table((shape1, shape2), itertools.combinations(dtypes, 2), nameprefix)


def multi_dtype_cast_checks(shape, dtypes=all_types, nameprefix=""):
    """Yield arguments of casts: an array of each dtype, with the name of each other dtype.

    Yields
    ------
    (str, tuple)
        A name such as "prefix_int8_float32", and an array with the name of a dtype.
    """
    for source, target in itertools.permutations(dtypes, 2):
        name = "_".join((nameprefix,) * bool(nameprefix) + (str(source), str(target)))
        yield name, (rand_of_dtype(shape, source), target)


def upcast_float16_ufunc(fn):
    """Wrap a NumPy function so that it computes at least in float32, as the graph does.

    Some ufuncs lose digits in float16, or have no loop for it.

    Parameters
    ----------
    fn : callable

    Returns
    -------
    callable
        It converts arguments to float32 if NumPy would compute in float16.
    """

    def ret(*args, **kwargs):
        wide = np.result_type(np.float16, *[np.asarray(a).dtype for a in args])
        if wide == np.float16:
            args = [np.asarray(a, "float32") for a in args]
        return fn(*args, **kwargs)

    ret.__name__ = getattr(fn, "__name__", "ret")
    return ret


def upcast_int8_nfunc(fn):
    """Wrap a NumPy function so that it computes int8 and uint8 in floatX, as the graph does; NumPy's ufuncs return
    float16.

    Parameters
    ----------
    fn : callable
    """

    def ret(*args, **kwargs):
        args = [
            np.asarray(a, config.floatX) if getattr(a, "dtype", None) in (np.dtype("int8"), np.dtype("uint8")) else a
            for a in args
        ]
        return fn(*args, **kwargs)

    ret.__name__ = getattr(fn, "__name__", "ret")
    return ret


def _numpy_true_div(x, y):
    """Divide by `numpy.true_divide`; the result has the graph's dtype, which is floatX for integers."""
    out = np.true_divide(x, y)
    if x.dtype.kind in "biu" and y.dtype.kind in "biu":
        out = out.astype(config.floatX)
    return out


def _pairs(low=-5, high=5, nonzero=False):
    """Return arguments of a binary Op: every way to broadcast, several dtypes, empty arrays."""
    second = rand_nonzero if nonzero else lambda shape: rand(*shape)
    second_int = randint_nonzero if nonzero else randint
    return {
        "same_shapes": (rand(2, 3), second((2, 3))),
        "not_same_dimensions": (rand(2, 2), second((2,))),
        "scalar": (rand(2, 3), second((1, 1))),
        "row": (rand(2, 3), second((1, 3))),
        "column": (rand(2, 3), second((2, 1))),
        "both_broadcast": (rand(1, 3), second((2, 1))),
        "no_dimensions": (rand(2, 3), second(())),
        "integers": (randint(2, 3), second_int(2, 3)),
        "uinteger": (np.abs(randint(2, 3)).astype("uint8"), np.abs(randint_nonzero(2, 3)).astype("uint8")),
        "dtype_mixup_1": (rand(2, 3), second_int(2, 3)),
        "dtype_mixup_2": (randint(2, 3), second((2, 3))),
        "complex1": (randcomplex(2, 3), randcomplex_nonzero((2, 3))),
        "complex2": (randcomplex(2, 3), second((2, 3))),
        "empty": (np.asarray([], dtype=config.floatX), np.asarray([1], dtype=config.floatX)),
    }


def _without_complex(table):
    return {name: arguments for name, arguments in table.items() if "complex" not in name}


# Draw on import from a separate seed, so that the tables are the same in every run.
_state = np.random.get_state()
np.random.seed(8264)

#: Arguments of binary Ops that accept all numbers; the second argument has no zeros.
_good_broadcast_binary_normal = _pairs(nonzero=True)

#: Points at which to check gradients of binary Ops.
_grad_broadcast_binary_normal = dict(
    same_shapes=(rand(2, 3), rand(2, 3)),
    scalar=(rand(2, 3), rand(1, 1)),
    row=(rand(2, 3), rand(1, 3)),
    column=(rand(2, 3), rand(2, 1)),
)

#: Floating point arguments of unary Ops.
_good_broadcast_unary_normal_float_no_complex = dict(
    normal=(rand_ranged(-5, 5, (2, 3)),),
    no_dimensions=(rand_ranged(-5, 5, ()),),
    large=(rand_ranged(-50, 50, (4, 1)),),
    special=(np.asarray([0.0, -0.0, 0.5, -0.5, 1.5, -2.5], dtype=config.floatX),),
    strided=(rand_ranged(-5, 5, (4, 6))[::-1, ::2],),
    empty=(np.asarray([], dtype=config.floatX),),
)

#: Floating point and integer arguments of unary Ops.
_good_broadcast_unary_normal_no_complex = dict(
    _good_broadcast_unary_normal_float_no_complex,
    integers=(randint_ranged(-5, 5, (2, 3)),),
    int8=(np.arange(-5, 6, dtype="int8"),),
    uint8=(np.arange(0, 11, dtype="uint8"),),
    uint16=(np.arange(0, 11, dtype="uint16"),),
)

#: Floating point, integer and complex arguments of unary Ops.
_good_broadcast_unary_normal = dict(
    _good_broadcast_unary_normal_no_complex,
    complex=(randcomplex(2, 3),),
    empty_complex=(np.asarray([], dtype="complex128"),),
)

#: Points at which to check gradients of unary Ops.
_grad_broadcast_unary_normal = dict(normal=(rand_ranged(-5, 5, (2, 3)),))

np.random.set_state(_state)
