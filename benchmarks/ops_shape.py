"""Rows of ``ops.py``: operations that join, split, repeat, reshape and create tensors."""

import numpy as np
from ops import SIZES, Row, count, square

from theano_ng import tensor

RNG = np.random.RandomState(0)


def _inverse(x, p):
    result = np.empty_like(x)
    np.put_along_axis(result, p, x, -1)
    return result


def _of_arrays(dtype, n):
    """Yield (name, build, reference, values) for operations on arrays of n elements."""
    x, y = ((RNG.rand(*square(n)) * 100).astype(dtype) for _ in range(2))
    flat = x.ravel()
    rows, columns = x.shape
    for axis in (0, 1):
        for order, a, b in (
            ("C", x, y),
            ("F", np.asfortranarray(x), np.asfortranarray(y)),
            ("C and F", x, np.asfortranarray(y)),
        ):
            yield (
                "join %s axis %d" % (order, axis),
                lambda a, b, k=axis: tensor.join(k, a, b),
                lambda a, b, k=axis: np.concatenate([a, b], k),
                [a, b],
            )
        yield (
            "stack axis %d" % axis,
            lambda a, b, k=axis: tensor.stack([a, b], k),
            lambda a, b, k=axis: np.stack([a, b], k),
            [x, y],
        )
        half = x.shape[axis] // 2
        yield (
            "split axis %d" % axis,
            lambda a, k=axis, h=half, n=x.shape[axis]: tensor.split(a, [h, n - h], 2, k),
            lambda a, k=axis, h=half: [part.copy() for part in np.split(a, [h], k)],
            [x],
        )
        yield "roll axis %d" % axis, lambda a, k=axis: tensor.roll(a, 7, k), lambda a, k=axis: np.roll(a, 7, k), [x]
    yield "join vectors", lambda a, b: tensor.join(0, a, b), lambda a, b: np.concatenate([a, b]), [flat, flat]
    yield "roll vector", lambda a: tensor.roll(a, -5), lambda a: np.roll(a, -5), [flat]
    # Compiled functions return copies instead of views. For a fair comparison, the NumPy functions copy, too.
    yield "transpose copy", lambda a: a.T, lambda a: np.ascontiguousarray(a.T), [x]
    yield "flatten F", lambda a: a.flatten(), lambda a: a.flatten(), [np.asfortranarray(x)]
    cube = x[:, : columns // 4 * 4].reshape(rows, -1, 4)
    yield (
        "transpose copy (2, 0, 1)",
        lambda a: a.dimshuffle(2, 0, 1),
        lambda a: np.ascontiguousarray(a.transpose(2, 0, 1)),
        [cube],
    )
    yield (
        "transpose copy (1, 0, 2)",
        lambda a: a.dimshuffle(1, 0, 2),
        lambda a: np.ascontiguousarray(a.transpose(1, 0, 2)),
        [cube],
    )
    yield (
        "tile",
        lambda a: tensor.tile(a, (2, 3)),
        lambda a: np.tile(a, (2, 3)),
        [x[: rows // 2, : columns // 3].copy()],
    )
    yield "tile of 4", lambda a, n: tensor.tile(a, [n]), lambda a, n: np.tile(a, n), [flat[:4].copy(), np.int64(n // 4)]
    yield "diag of a matrix", lambda a: tensor.diag(a), lambda a: np.diagonal(a).copy(), [x]
    yield "diag of a vector", lambda v: tensor.diag(v), np.diag, [flat[:rows].copy()]
    yield "tril", lambda a: tensor.tril(a), np.tril, [x]
    yield "zeros_like", tensor.zeros_like, lambda a: np.full_like(a, 0), [x]
    order = np.argsort(RNG.rand(*x.shape), axis=1)
    yield "permute rows", tensor.permute_row_elements, lambda a, p: np.take_along_axis(a, p, 1), [x, order]
    yield "permute rows inversely", lambda a, p: tensor.permute_row_elements(a, p, 1), _inverse, [x, order]
    sizes = [np.int64(size) for size in x.shape]
    yield "alloc a number", tensor.alloc, lambda a, n, m: np.full((n, m), a), [x[0, 0] + 1, *sizes]
    yield "alloc a row", tensor.alloc, lambda a, n, m: np.broadcast_to(a, (n, m)).copy(), [x[0].copy(), *sizes]
    yield (
        "alloc a column",
        tensor.alloc,
        lambda a, n, m: np.broadcast_to(a, (n, m)).copy("C"),
        [x[:, :1].copy(), *sizes],
    )


def _of_numbers(dtype, n):
    """Yield (name, build, reference, values) for operations whose inputs are only lengths.

    The reference uses np.full instead of np.zeros, because the operating system provides the memory pages of np.zeros
    only when they are first accessed, after the time measurement.
    """
    rows, columns = (np.int64(size) for size in square(n))
    yield "zeros", lambda n, m: tensor.zeros((n, m), dtype), lambda n, m: np.full((n, m), 0, dtype), [rows, columns]
    yield "eye", lambda n, m: tensor.eye(n, m, 1, dtype), lambda n, m: np.eye(n, m, 1, dtype), [rows, columns]
    yield "tri", lambda n, m: tensor.tri(n, m, 1, dtype), lambda n, m: np.tri(n, m, 1, dtype), [rows, columns]
    if dtype != "int8":
        yield "arange", lambda n: tensor.arange(n, dtype=dtype), lambda n: np.arange(n, dtype=dtype), [np.int64(n)]


def rows():
    for n in SIZES:
        for dtype in ("float64", "float32", "int8"):
            for name, build, reference, values in (*_of_arrays(dtype, n), *_of_numbers(dtype, n)):
                yield Row("%s %s %s" % (name, dtype, count(n)), build, reference, [np.asarray(v) for v in values])
        yield Row("arange int64 %s" % count(n), tensor.arange, np.arange, [np.asarray(n)])
