"""Values on which rules are compared: special values, at which arithmetic changes its behavior, and random values."""

import numpy as np

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
DTYPES = ("bool", *INTEGERS, *FLOATS, *COMPLEX)

#: The maximum number of combinations of input values for one graph.
MAX_COMBINATIONS = 1 << 16


def _floats(dtype):
    """Return some sixty numbers of a float dtype, among them both zeros, infinities and NaN."""
    info = np.finfo(dtype)
    eps, tiny, largest = float(info.eps), float(info.tiny), float(info.max)
    least = float(info.smallest_subnormal)
    positive = [
        *(1.0, 2.0, 3.0, 0.5, 0.25, 1 / 3, 0.1, 0.7, 1.5, 4.0, 5.0, 10.0, np.e, np.pi),
        *(1 + eps, 1 - eps / 2, eps, 1 / eps, 1 / eps + 1, np.sqrt(eps)),
        *(tiny, tiny / 2, least, 3 * least, 4 * tiny, np.sqrt(tiny)),
        *(largest, largest / 2, np.sqrt(largest), 1 / largest),
        *(np.log(largest), np.log(largest) * 1.01, -np.log(least), 9.1, 26.5, 20.0, 36.8),
    ]
    numbers = [0.0, -0.0, np.nan, np.inf, -np.inf, *positive, *(-number for number in positive)]
    with np.errstate(all="ignore"):
        return np.unique(np.array(numbers, dtype).view("u%d" % info.dtype.itemsize)).view(dtype)


def _integers(dtype):
    """Return small integers, integers at the limits of a dtype, and powers of two with their neighbors."""
    info = np.iinfo(dtype)
    found = {
        0,
        1,
        2,
        3,
        4,
        5,
        7,
        10,
        100,
        info.max,
        info.max - 1,
        info.min,
        info.min + 1,
        info.max // 2,
        info.max // 2 + 1,
    }
    found.update(2**k + d for k in (7, 8, 15, 16, 24, 31, 32, 53) for d in (-1, 0, 1))
    found.update([-number for number in found])
    return np.array(sorted(number for number in found if info.min <= number <= info.max), dtype)


def special(dtype):
    """Return the special values of a dtype in one array."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in FLOATS:
        return _floats(dtype)
    if dtype in INTEGERS:
        return _integers(dtype)
    # Leave out complex infinities, because libraries disagree about their results.
    part = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -0.75, 3.0, 1e10, 1e-10]
    return np.array([complex(a, b) for a in part for b in part] + [complex(np.nan, np.nan)], dtype)


def constants(dtype):
    """Return the constants that may replace a variable of a dtype."""
    if dtype == "bool":
        return [False, True]
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return [0, 1, 2, 3, info.max, info.min] + ([-1] if info.min < 0 else [])
    if dtype in COMPLEX:
        return [0, 1, -1, 2, 1j, complex(np.nan, 0)]
    info = np.finfo(dtype)
    return [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, np.nan, np.inf, -np.inf, float(info.tiny) / 4, float(info.max)]


def everything(dtype):
    """Return all values of a dtype of one or two bytes, or None for a wider dtype."""
    if dtype == "bool":
        return special(dtype)
    size = np.dtype(dtype).itemsize
    return None if size > 2 else np.arange(1 << 8 * size, dtype="u%d" % size).view(dtype)


def small_floats():
    """Return the 256 values of the eight-bit float format E5M2, as float16.

    They include both zeros, subnormals, infinities and NaN.
    """
    return (np.arange(256, dtype="uint16") << 8).view("float16")


def random_values(dtype, count, rng):
    """Return random numbers: floats of many magnitudes, integers with random bits."""
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    scale = np.where(rng.random(count) < 0.5, 1.0, 10.0 ** rng.uniform(-4, 4, count))
    numbers = rng.normal(size=count) * scale
    return (numbers + 1j * rng.normal(size=count) if dtype in COMPLEX else numbers).astype(dtype)


def _thinned(values, count, rng):
    return values if len(values) <= count else np.sort(rng.choice(values, count, replace=False))


def _few(dtype, count):
    """Return `count` special values of a dtype: zeros, infinities, NaN, and the numbers nearest to one."""
    values = special(dtype)
    if len(values) <= count:
        return values
    with np.errstate(all="ignore"):
        far = np.abs(np.log(np.abs(values.astype(np.clongdouble if dtype in COMPLEX else np.longdouble))))
    order = np.argsort(np.where(np.isfinite(far), far, 0), kind="stable")
    return values[np.sort(order[:count])]


def _candidates(dtype, variables, rng):
    """Return the values to try for one of several variables, and a name for the set of these values."""
    whole = everything(dtype)
    if whole is not None and (variables == 1 or dtype == "bool"):
        return whole, "values of %s" % dtype
    if variables == 2 and dtype == "float16":
        return small_floats(), "eight-bit floats (E5M2)"
    if whole is not None and len(whole) <= 256 and variables <= 2:
        return whole, "values of %s" % dtype
    chosen = special(dtype) if variables <= 2 else _few(dtype, int(MAX_COMBINATIONS ** (1 / variables) + 1e-6))
    name = "%d special values of %s" % (len(chosen), dtype)
    return (np.concatenate([chosen, random_values(dtype, 200, rng)]) if variables == 1 else chosen), name


_TUPLES = {1: "all %s", 2: "all pairs of %s", 3: "all triples of %s"}


def _describe_combinations(names):
    """Return a description of all combinations of values from sets with the given names."""
    if len(set(names)) > 1:
        return "all combinations of %s" % " and ".join(sorted(set(names)))
    return _TUPLES.get(len(names), "all combinations of %d of %%s" % len(names)) % names[0]


def combinations(dtypes, rng, most=MAX_COMBINATIONS):
    """Return all combinations of the candidate values of several variables, or fewer if there are too many.

    Parameters
    ----------
    dtypes : sequence of str
    rng : numpy.random.Generator
    most : int
        The maximum number of combinations. It is doubled for one boolean variable, and multiplied by 4 for several. If
        there are more combinations, candidates are left out at random.

    Returns
    -------
    list of ndarray
        One vector per variable, all of equal length.
    str
        Description of the values whose combinations are covered completely, or "" if candidates were left out.
    """
    if not dtypes:
        return [], "the only value"
    numbers = sum(dtype != "bool" for dtype in dtypes)
    most <<= min(len(dtypes) - numbers, 2)
    found = [_candidates(dtype, numbers, rng) for dtype in dtypes]
    over = _describe_combinations([name for _, name in found])
    lists = [values for values, _ in found]
    while np.prod([float(len(values)) for values in lists]) > most:
        longest = max(range(len(lists)), key=lambda i: len(lists[i]))
        lists[longest] = _thinned(lists[longest], max(len(lists[longest]) * 3 // 4, 1), rng)
        over = ""
    return [one.ravel() for one in np.meshgrid(*lists, indexing="ij")], over
