"""Operations that move elements: joins, splits, reshapes, permutations of axes, repetitions, allocations."""

from theano_ng.tests.programs.operations import Operation, both, dense, numbers, of_ndim, register

CHAPTER = "shaping"


def permutation(draw, x):
    order = list(range(x.array.ndim))
    draw.random.shuffle(order)
    for _ in range(draw.integer(0, 1)):
        order.insert(draw.integer(0, len(order)), "x")
    return dict(order=tuple(order)) if len(order) <= 4 else None


def new_shape(draw, x):
    size, wanted = x.array.size, []
    if size == 0:
        return dict(shape=draw.choice(((0,), (0, 3), (2, 0))))
    while len(wanted) < 2 and draw.chance(0.7):
        wanted.append(draw.choice([n for n in range(1, size + 1) if size % n == 0]))
        size //= wanted[-1]
    return dict(shape=tuple([*wanted, draw.choice((size, -1))]))


def joined(draw, *values):
    axis = draw.integer(0, values[0].array.ndim - 1)
    shapes = {v.array.shape[:axis] + v.array.shape[axis + 1 :] for v in values}
    patterns = {v.broadcastable[:axis] + v.broadcastable[axis + 1 :] for v in values}
    return dict(axis=axis) if len(shapes) == 1 and len(patterns) == 1 else None


def same_rank(*values):
    return len({v.array.ndim for v in values}) == 1


def two_parts(draw, x):
    axis = draw.integer(0, x.array.ndim - 1)
    first = draw.integer(0, x.array.shape[axis])
    return dict(axis=axis, sizes=[first, x.array.shape[axis] - first])


_ARRAYS = both(dense, lambda v: v.array.ndim >= 1)
_SMALL = both(dense, lambda v: v.array.size <= 30)
register(
    Operation(
        "dimshuffle",
        CHAPTER,
        "{0}.dimshuffle({order!r})",
        "dimshuffle({0}, {order!r})",
        (dense,),
        parameters=permutation,
        exact=True,
        weight=4,
    )
)
register(Operation("transpose", CHAPTER, "{0}.T", "{0}.T", (of_ndim(2),), exact=True, weight=2))
register(
    Operation(
        "reshape",
        CHAPTER,
        "{0}.reshape({shape!r})",
        "{0}.reshape({shape!r})",
        (dense,),
        parameters=new_shape,
        exact=True,
        weight=3,
    )
)
register(Operation("flatten", CHAPTER, "{0}.flatten()", "{0}.reshape(-1)", (dense,), exact=True))
register(
    Operation(
        "join",
        CHAPTER,
        "T.join({axis}, {0}, {1})",
        "np.concatenate([cast({0}, {out}), cast({1}, {out})], {axis})",
        (both(_ARRAYS, numbers), both(_ARRAYS, numbers)),
        same_rank,
        parameters=joined,
        exact=True,
        weight=4,
    )
)
register(
    Operation(
        "join_with_itself",
        CHAPTER,
        "T.concatenate([{0}, {0}], axis={axis})",
        "np.concatenate([{0}, {0}], {axis})",
        (_ARRAYS,),
        parameters=lambda draw, x: dict(axis=draw.integer(0, x.array.ndim - 1)),
        exact=True,
    )
)
register(
    Operation(
        "stack",
        CHAPTER,
        "T.stack([{0}, {1}, {0}], axis=0)",
        "np.stack([cast({0}, {out}), cast({1}, {out}), cast({0}, {out})])",
        (numbers, numbers),
        lambda a, b: a.array.shape == b.array.shape and a.broadcastable == b.broadcastable and a.array.ndim < 3,
        exact=True,
    )
)
register(
    Operation(
        "split",
        CHAPTER,
        "list(T.split({0}, {sizes!r}, 2, axis={axis}))",
        "np.split({0}, [{sizes!r}[0]], {axis})",
        (_ARRAYS,),
        parameters=two_parts,
        exact=True,
        weight=2,
    )
)
register(
    Operation(
        "tile",
        CHAPTER,
        "T.tile({0}, {times!r})",
        "np.tile({0}, {times!r})",
        (both(_SMALL, of_ndim(1, 2)),),
        parameters=lambda draw, x: dict(times=tuple([draw.integer(1, 2) for _ in range(x.array.ndim)])),
        exact=True,
    )
)
register(
    Operation(
        "repeat",
        CHAPTER,
        "T.repeat({0}, {times}, axis={axis})",
        "np.repeat({0}, {times}, axis={axis})",
        (both(_SMALL, of_ndim(1, 2)),),
        parameters=lambda draw, x: dict(times=draw.integer(0, 2), axis=draw.integer(0, x.array.ndim - 1)),
        exact=True,
    )
)
register(
    Operation(
        "alloc",
        CHAPTER,
        "T.alloc({0}, {length}, *[{0}.shape[k] for k in range({0}.ndim)])",
        "np.broadcast_to({0}, ({length}, *{0}.shape))",
        (both(_SMALL, of_ndim(0, 1, 2)),),
        parameters=lambda draw, x: dict(length=draw.integer(1, 3)),
        exact=True,
        weight=2,
    )
)
register(
    Operation("zeros_like", CHAPTER, "T.zeros_like({0})", "np.zeros_like({0})", (numbers,), exact=True, weight=0.7)
)
register(Operation("ones_like", CHAPTER, "T.ones_like({0})", "np.ones_like({0})", (numbers,), exact=True, weight=0.7))
register(Operation("shape", CHAPTER, "{0}.shape", "np.array({0}.shape)", (_ARRAYS,), exact=True, weight=0.7))
register(
    Operation(
        "roll",
        CHAPTER,
        "T.roll({0}, {shift}, axis={axis})",
        "np.roll({0}, {shift}, axis={axis})",
        (both(_ARRAYS, lambda v: v.array.size > 0),),
        parameters=lambda draw, x: dict(shift=draw.integer(-3, 3), axis=draw.integer(0, x.array.ndim - 1)),
        exact=True,
    )
)
register(
    Operation(
        "swapaxes",
        CHAPTER,
        "T.swapaxes({0}, 0, -1)",
        "np.swapaxes({0}, 0, -1)",
        (of_ndim(2, 3),),
        exact=True,
        weight=0.5,
    )
)
register(
    Operation(
        "specify_shape",
        CHAPTER,
        "T.specify_shape({0}, {shape!r})",
        "{0}",
        (_ARRAYS,),
        parameters=lambda draw, x: dict(shape=x.array.shape),
        exact=True,
        weight=0.5,
    )
)
register(
    Operation(
        "diff",
        CHAPTER,
        "T.extra_ops.diff({0}, axis=0)",
        "np.diff({0}, axis=0)",
        (both(numbers, of_ndim(1, 2)),),
        scale="2 * (np.max(np.abs({0})) if {0}.size else 0)",
    )
)
for _name, _graph, _twin in (
    ("tril", "T.tril({0}, {k})", "np.tril({0}, {k})"),
    ("triu", "T.triu({0}, {k})", "np.triu({0}, {k})"),
):
    register(
        Operation(
            _name,
            CHAPTER,
            _graph,
            _twin,
            (both(numbers, of_ndim(2)),),
            parameters=lambda draw, x: dict(k=draw.integer(-1, 2)),
            exact=True,
            weight=0.5,
        )
    )
register(
    Operation(
        "fill_diagonal",
        CHAPTER,
        "T.fill_diagonal({0}, {1})",
        "with_diagonal({0}, {1})",
        (both(numbers, of_ndim(2), lambda v: v.array.size > 0), both(numbers, of_ndim(0))),
        lambda x, y: x.array.dtype == y.array.dtype,
        exact=True,
        weight=0.5,
    )
)
register(
    Operation(
        "unbroadcast",
        CHAPTER,
        "T.unbroadcast({0}, {axis})",
        "{0}",
        (_ARRAYS,),
        parameters=lambda draw, x: dict(axis=draw.integer(0, x.array.ndim - 1)),
        exact=True,
        weight=0.5,
    )
)
register(
    Operation(
        "addbroadcast",
        CHAPTER,
        "T.addbroadcast({0}, {axis})",
        "{0}",
        (both(_ARRAYS, lambda v: 1 in v.array.shape),),
        parameters=lambda draw, x: dict(axis=x.array.shape.index(1)),
        exact=True,
        weight=0.5,
    )
)
register(
    Operation(
        "arange_of_length",
        CHAPTER,
        "T.arange({0}.shape[0]) * {step}",
        "np.arange({0}.shape[0]) * {step}",
        (_ARRAYS,),
        parameters=lambda draw, x: dict(step=draw.choice((1, 2, -1))),
        exact=True,
        weight=0.7,
    )
)
