"""Random arguments of Ops for tests, and tables of them for `makeTester`.

Floating point numbers have dtype floatX unless a name says otherwise. Everything draws from `numpy.random`, which `utt.seed_rng` seeds.
Their documented home is `theano_ng.tensor.tests.test_basic`, which re-exports every name of this module.
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
    """Numbers of [-1, 1)."""
    return np.asarray(np.random.rand(*shape) * 2 - 1, dtype=config.floatX)


def rand_nonzero(shape, eps=3e-4):
    """Numbers of [-1, 1), none of them nearer to 0 than `eps`."""
    drawn = np.asarray(np.random.rand(*shape), dtype=config.floatX)
    return drawn * (1 - eps) + eps * (drawn >= 0.5) - (drawn < 0.5)


def rand_ranged(min, max, shape):
    """Numbers of [min, max)."""
    return np.asarray(np.random.rand(*shape) * (max - min) + min, dtype=config.floatX)


def randint(*shape):
    """Integers from -5 to 5, dtype int64."""
    return np.random.randint(-5, 6, shape)


def randuint32(*shape):
    """Integers from 0 to 4, dtype uint32."""
    return np.array(np.random.randint(5, size=shape), dtype=np.uint32)


def randint_ranged(min, max, shape):
    """Integers from `min` to `max`, which is one of them; dtype int64."""
    return np.random.randint(min, max + 1, shape)


def randint_nonzero(*shape):
    """Integers from -5 to 5 without 0, dtype int64."""
    drawn = np.random.randint(-5, 5, shape)
    return drawn + (drawn >= 0)


def randcomplex(*shape):
    """Complex numbers, both parts of [-1, 1); complex128."""
    return np.random.uniform(-1, 1, shape) + 1j * np.random.uniform(-1, 1, shape)


def randcomplex_nonzero(shape, eps=1e-4):
    """Complex numbers whose absolute value is at least `eps`; complex128."""
    drawn = randcomplex(*shape)
    return np.where(np.abs(drawn) < eps, drawn + 2 * eps, drawn)


def randc128_ranged(min, max, shape):
    """Complex numbers, both parts of [min, max); complex128."""
    return np.random.uniform(min, max, shape) + 1j * np.random.uniform(min, max, shape)


def rand_of_dtype(shape, dtype):
    """Random numbers of a dtype: as `randint`, `rand` or `randcomplex`, or of both truth values.

    Parameters
    ----------
    shape : tuple of int
    dtype : str
        Unsigned integers are from 0 to 5.

    Raises
    ------
    TypeError
        For anything but a number or bool.
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
    """Pairs of arguments of every two different dtypes, each pair once.

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
    """An argument of every dtype with every other dtype to cast it to.

    Yields
    ------
    (str, tuple)
        A name such as "prefix_int8_float32", and an array with the name of a dtype.
    """
    for source, target in itertools.permutations(dtypes, 2):
        name = "_".join((nameprefix,) * bool(nameprefix) + (str(source), str(target)))
        yield name, (rand_of_dtype(shape, source), target)


def upcast_float16_ufunc(fn):
    """A NumPy function that computes in float32 at least, as the graph does: some ufuncs lose digits, or have no loop, in float16.

    Parameters
    ----------
    fn : callable

    Returns
    -------
    callable
        Where all arguments are narrower than float32, or integers that NumPy would compute in float16, they become float32.
    """

    def ret(*args, **kwargs):
        wide = np.result_type(np.float16, *[np.asarray(a).dtype for a in args])
        if wide == np.float16:
            args = [np.asarray(a, "float32") for a in args]
        return fn(*args, **kwargs)

    ret.__name__ = getattr(fn, "__name__", "ret")
    return ret


def upcast_int8_nfunc(fn):
    """A NumPy function of bytes that computes in floatX, as the graph does: NumPy's ufuncs take int8 and uint8 to float16.

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
    """`numpy.true_divide` whose result has the graph's dtype: floatX for integers."""
    out = np.true_divide(x, y)
    if x.dtype.kind in "biu" and y.dtype.kind in "biu":
        out = out.astype(config.floatX)
    return out


def _pairs(low=-5, high=5, nonzero=False):
    """Arguments of a binary Op: every way to broadcast, several dtypes, nothing at all."""
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


# Drawn when the module is imported, by a generator that nothing else uses: tables are the same in every run.
_state = np.random.get_state()
np.random.seed(8264)

#: Arguments of binary Ops that accept all numbers; the second has no zeros.
_good_broadcast_binary_normal = _pairs(nonzero=True)

#: Points to check gradients of binary Ops at.
_grad_broadcast_binary_normal = dict(
    same_shapes=(rand(2, 3), rand(2, 3)),
    scalar=(rand(2, 3), rand(1, 1)),
    row=(rand(2, 3), rand(1, 3)),
    column=(rand(2, 3), rand(2, 1)),
)

#: Arguments of unary Ops of floating point numbers.
_good_broadcast_unary_normal_float_no_complex = dict(
    normal=(rand_ranged(-5, 5, (2, 3)),),
    no_dimensions=(rand_ranged(-5, 5, ()),),
    large=(rand_ranged(-50, 50, (4, 1)),),
    special=(np.asarray([0.0, -0.0, 0.5, -0.5, 1.5, -2.5], dtype=config.floatX),),
    strided=(rand_ranged(-5, 5, (4, 6))[::-1, ::2],),
    empty=(np.asarray([], dtype=config.floatX),),
)

#: The same with integers.
_good_broadcast_unary_normal_no_complex = dict(
    _good_broadcast_unary_normal_float_no_complex,
    integers=(randint_ranged(-5, 5, (2, 3)),),
    int8=(np.arange(-5, 6, dtype="int8"),),
    uint8=(np.arange(0, 11, dtype="uint8"),),
    uint16=(np.arange(0, 11, dtype="uint16"),),
)

#: The same with complex numbers.
_good_broadcast_unary_normal = dict(
    _good_broadcast_unary_normal_no_complex,
    complex=(randcomplex(2, 3),),
    empty_complex=(np.asarray([], dtype="complex128"),),
)

#: Points to check gradients of unary Ops at.
_grad_broadcast_unary_normal = dict(normal=(rand_ranged(-5, 5, (2, 3)),))

np.random.set_state(_state)
