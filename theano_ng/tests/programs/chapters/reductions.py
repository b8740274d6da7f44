"""Reductions and cumulative operations, along all axes, with and without kept dimensions."""

import numpy as np

from theano_ng.tests.programs.operations import Operation, booleans, both, floats, numbers, reals, register

CHAPTER = "reductions"


def some_axis(draw, x):
    """Return parameters: one axis, several axes or all axes, and whether their dimensions are kept."""
    axes = [None, *range(x.array.ndim), *[-1] * (x.array.ndim > 0)]
    if x.array.ndim >= 2:
        axes += [(0, 1), (0, x.array.ndim - 1)]
    return dict(axis=draw.choice(axes), keepdims=draw.chance(0.3))


def one_axis(draw, x):
    return dict(axis=draw.choice(range(-x.array.ndim, x.array.ndim))) if x.array.ndim else None


def some_twice(a):
    """Return True if two elements are equal, so that the largest element may not be unique."""
    return len(np.unique(a)) < a.size


def not_empty(a):
    return a.size > 0


def reduction(name, twin, operand=numbers, **settings):
    settings.setdefault("parameters", some_axis)
    graph = settings.pop("graph", "T.%s({{0}}, axis={{axis!r}}, keepdims={{keepdims!r}})" % name)
    register(Operation(name, CHAPTER, graph, twin, (operand,), **settings))


_SETTINGS = "axis={axis!r}, keepdims={keepdims!r}"
_SIZES = "np.sum(np.abs(cast({0}, {out})), %s)" % _SETTINGS
_GRAPH = "T.%s({0}, " + _SETTINGS + ")"
reduction(
    "sum", "np.sum(cast({0}, {out}), %s)" % _SETTINGS, graph=_GRAPH % "sum", scale=_SIZES, ulps=4, weight=4, loops=True
)
reduction("prod", "np.prod(cast({0}, {out}), %s)" % _SETTINGS, graph=_GRAPH % "prod", ulps=16)
reduction(
    "mean",
    "np.mean(cast({0}, {out}), %s)" % _SETTINGS,
    both(floats, lambda v: v.array.size > 0),
    graph=_GRAPH % "mean",
    scale="np.mean(np.abs(cast({0}, {out})), %s)" % _SETTINGS,
    ulps=8,
    weight=2,
)
reduction(
    "var",
    "np.var(cast({0}, {out}), %s)" % _SETTINGS,
    both(floats, lambda v: v.array.size > 0),
    graph=_GRAPH % "var",
    scale="np.mean(np.square(cast({0}, {out})), %s)" % _SETTINGS,
    ulps=16,
)
for _name in ("max", "min"):
    reduction(
        _name,
        "np.%s({0}, %s)" % (_name, _SETTINGS),
        reals,
        graph=_GRAPH % _name,
        domain=not_empty,
        exact=True,
        weight=2,
        kink=some_twice,
    )
for _name in ("any", "all"):
    reduction(_name, "np.%s({0}, %s)" % (_name, _SETTINGS), booleans, graph=_GRAPH % _name, exact=True)
for _name in ("argmax", "argmin"):
    reduction(
        _name,
        "np.%s({0}, axis={axis!r})" % _name,
        reals,
        graph="T.%s({0}, axis={axis!r})" % _name,
        parameters=one_axis,
        domain=not_empty,
        exact=True,
    )
register(
    Operation(
        "max_and_argmax",
        CHAPTER,
        "list(T.max_and_argmax({0}, axis={axis!r}))",
        "[np.max({0}, axis={axis!r}), np.argmax({0}, axis={axis!r})]",
        (reals,),
        domain=not_empty,
        parameters=one_axis,
        exact=True,
        kink=some_twice,
    )
)
register(
    Operation(
        "cumsum",
        CHAPTER,
        "T.cumsum({0}, axis={axis!r})",
        "np.cumsum(cast({0}, {out}), axis={axis!r})",
        (floats,),
        parameters=one_axis,
        scale="np.cumsum(np.abs(cast({0}, {out})), axis={axis!r})",
        ulps=4,
    )
)
register(
    Operation(
        "cumprod",
        CHAPTER,
        "T.cumprod({0}, axis={axis!r})",
        "np.cumprod(cast({0}, {out}), axis={axis!r})",
        (floats,),
        parameters=one_axis,
        ulps=16,
    )
)
register(
    Operation(
        "norm",
        CHAPTER,
        "{0}.norm(2, axis={axis!r})",
        "np.sqrt(np.sum(cast({0}, {out}) ** 2, axis={axis!r}))",
        (floats,),
        parameters=one_axis,
        # The sum of squares must not overflow.
        domain=lambda a: (
            a.size > 0 and bool(np.all(np.abs(a) > 1e-2)) and np.linalg.norm(a) < np.finfo(a.dtype).max ** 0.5
        ),
        ulps=8,
    )
)
register(
    Operation(
        "sort",
        CHAPTER,
        "T.sort({0}, axis={axis!r})",
        "np.sort({0}, axis={axis!r})",
        (reals,),
        parameters=one_axis,
        kink=some_twice,
        exact=True,
    )
)
register(
    Operation(
        "log_of_sum_of_exp",
        CHAPTER,
        "T.log(T.sum(T.exp({0}), axis={axis!r}))",
        "np.log(np.sum(np.exp(cast({0}, {out})), axis={axis!r}))",
        (floats,),
        domain=lambda a: a.size > 0 and bool(np.all(np.abs(a) < 8)),
        parameters=one_axis,
        scale="1 + np.max(np.abs(cast({0}, {out})), axis={axis!r})",
        ulps=16,
    )
)
