"""Basic, advanced and boolean indices, and assignments and increments at indices."""

import numpy as np

from theano_ng.tests.programs.operations import Operation, both, broadcast_together, dense, numbers, register

CHAPTER = "indexing"


def basic_index(draw, x):
    """Return parameters: the source code of an index with integers and slices for some leading axes."""
    parts = []
    for axis in range(draw.integer(1, x.array.ndim)):
        length = x.array.shape[axis]
        kinds = ["slice"] * 2 + ["integer"] * (length > 0)
        parts.append(
            str(draw.integer(-length, length - 1)) if draw.choice(kinds) == "integer" else some_slice(draw, length)
        )
    return dict(index=", ".join(parts))


def some_slice(draw, length):
    bounds = ["", "", *[str(k) for k in range(-length, length + 1)]]
    step = draw.choice(("", "", ":2", ":-1", ":-2", ":3"))
    return "%s:%s%s" % (draw.choice(bounds), draw.choice(bounds), step)


def advanced_index(draw, x):
    """Return parameters: the source code of an index with an array of integers for one axis, or arrays for two axes."""
    if 0 in x.array.shape[:2]:
        return None
    count, axes = draw.integer(0, 4), draw.integer(1, min(2, x.array.ndim))
    lists = [[draw.integer(-n, n - 1) for _ in range(count)] for n in x.array.shape[:axes]]
    texts = ["np.array(%r, 'int64')" % (one,) for one in lists]
    if axes == 1 and x.array.ndim >= 2 and draw.chance(0.3):
        texts = [":", "np.array(%r, 'int64')" % ([draw.integer(0, x.array.shape[1] - 1) for _ in range(count)],)]
    return dict(index=", ".join(texts))


def boolean_index(draw, x):
    mask = [draw.chance(0.5) for _ in range(x.array.shape[0])]
    return dict(index="np.array(%r, 'bool')" % (mask,))


_ARRAYS = both(dense, lambda v: v.array.ndim >= 1)
_NUMBERS = both(numbers, lambda v: v.array.ndim >= 1)
_KINDS = {"basic": basic_index, "advanced": advanced_index, "boolean": boolean_index}


def _changing(find):
    """Return a function that draws the index of an operation `x[index] = y` or `x[index] += y`.

    The returned function returns None if the shape or dtype of `y` does not fit.
    """

    def parameters(draw, x, y):
        drawn = find(draw, x)
        if drawn is None or not np.can_cast(y.array.dtype, x.array.dtype, "safe"):
            return None
        place = eval("x[%s]" % drawn["index"], {"np": np, "x": x.array})
        try:
            fits = np.broadcast_shapes(place.shape, y.array.shape) == place.shape
        except ValueError:
            return None
        lengths = zip(y.array.shape[::-1], y.broadcastable[::-1], place.shape[::-1])
        known = all([mine == there or broadcast for mine, broadcast, there in lengths])
        return drawn if fits and known else None

    return parameters


for _name, _find in _KINDS.items():
    _weight = 4 if _name == "basic" else 2
    register(
        Operation(
            _name + "_index",
            CHAPTER,
            "{0}[{index}]",
            "{0}[{index}]",
            (_ARRAYS,),
            parameters=_find,
            exact=True,
            weight=_weight,
        )
    )
    register(
        Operation(
            "set_at_" + _name,
            CHAPTER,
            "T.set_subtensor({0}[{index}], {1})",
            "put({0}, np.s_[{index}], {1})",
            (_NUMBERS, numbers),
            # For a repeated index, the graph and NumPy store the last value. Therefore the result is exact.
            parameters=_changing(_find),
            exact=True,
            weight=_weight / 2,
        )
    )
    register(
        Operation(
            "inc_at_" + _name,
            CHAPTER,
            "T.inc_subtensor({0}[{index}], {1})",
            "add_at({0}, np.s_[{index}], {1})",
            (_NUMBERS, numbers),
            parameters=_changing(_find),
            scale="add_at(np.abs({0}), np.s_[{index}], np.abs({1}))",
            weight=_weight / 2,
        )
    )

register(
    Operation(
        "last_row",
        CHAPTER,
        "{0}[-1]",
        "{0}[-1]",
        (both(_ARRAYS, lambda v: v.array.shape[0] > 0),),
        exact=True,
        weight=2,
        loops=True,
    )
)
register(
    Operation(
        "index_by_variable",
        CHAPTER,
        "{0}[{1}]",
        "{0}[{1}]",
        (
            both(_ARRAYS, lambda v: v.array.shape[0] > 0),
            lambda v: v.kind == "dense" and v.array.dtype.kind == "i" and v.array.ndim <= 2,
        ),
        fits=lambda x, i: bool(np.all((i.array >= -len(x.array)) & (i.array < len(x.array)))),
        exact=True,
        weight=3,
    )
)
register(
    Operation(
        "where_mask",
        CHAPTER,
        "{0}[{0} > {1}]",
        "{0}[{0} > {1}]",
        (_NUMBERS, both(numbers, lambda v: v.array.ndim == 0)),
        fits=lambda x, y: x.array.dtype.kind == y.array.dtype.kind == "f",
        exact=True,
    )
)
register(
    Operation(
        "take",
        CHAPTER,
        "T.take({0}, np.array({index!r}, 'int64'), axis={axis})",
        "np.take({0}, np.array({index!r}, 'int64'), axis={axis})",
        (both(_ARRAYS, lambda v: 0 not in v.array.shape),),
        parameters=lambda draw, x: _taken(draw, x, draw.integer(0, x.array.ndim - 1)),
        exact=True,
    )
)


def _taken(draw, x, axis):
    return dict(axis=axis, index=[draw.integer(0, x.array.shape[axis] - 1) for _ in range(draw.integer(0, 3))])


register(
    Operation(
        "set_rows_of_zeros",
        CHAPTER,
        "T.inc_subtensor(T.zeros_like({0})[{index}], {0}[{index}] * {1})",
        "add_at(np.zeros_like({0}), np.s_[{index}], {0}[{index}] * {1})",
        (_NUMBERS, both(numbers, lambda v: v.array.ndim == 0)),
        lambda x, y: broadcast_together(x, y) and x.array.dtype == y.array.dtype,
        parameters=lambda draw, x, y: basic_index(draw, x),
    )
)
