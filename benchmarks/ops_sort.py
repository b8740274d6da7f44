"""Rows of ``ops.py``: sorting, selection, searching, counting, repeating."""

import numpy as np
from ops import SIZES, Row, count, layouts, square

from theano_ng import tensor
from theano_ng.tensor import extra_ops

RNG = np.random.RandomState(0)


def best(x, k, axis=-1):
    """Return the k largest elements and their indices, computed with NumPy."""
    n = x.shape[axis]
    index = np.argpartition(x, n - k, axis).take(range(n - k, n), axis)
    values = np.take_along_axis(x, index, axis)
    order = np.flip(np.argsort(values, axis), axis)
    return [np.take_along_axis(values, order, axis), np.take_along_axis(index, order, axis)]


def sorting(axis=-1):
    """Return the functions for `sort` in JAX and PyTorch, as arguments of `Row`."""
    return dict(jax=lambda jnp, x: jnp.sort(x, axis), torch=lambda torch, x: torch.sort(x, dim=axis))


def index_sorting(axis=-1):
    """Return the functions for `argsort` in JAX and PyTorch, as arguments of `Row`. They are stable, as in this
    package.
    """
    return dict(jax=lambda jnp, x: jnp.argsort(x, axis), torch=lambda torch, x: torch.argsort(x, dim=axis, stable=True))


def selecting(k, axis=-1):
    """Return the functions for `topk` in JAX and PyTorch, as arguments of `Row`. JAX supports only the last axis."""

    def top_k(jnp, x):
        import jax

        return jax.lax.top_k(x, k)

    return dict(jax=top_k if axis in (-1, 1) else None, torch=lambda torch, x: torch.topk(x, k, dim=axis))


def unique_parts(x):
    return list(np.unique(x, return_index=True, return_inverse=True, return_counts=True))


def lines(n):
    """Yield `Row`s for vectors of n elements."""
    x = RNG.randn(n)
    for dtype in ("float64", "float32", "int64", "int32", "float16", "int8", "complex64"):
        if dtype[0] == "i" and dtype != "int8":
            values = RNG.randint(np.iinfo(dtype).min, np.iinfo(dtype).max, n, dtype=dtype)
        elif dtype == "float32":
            values = RNG.permutation(n).astype(dtype)  # distinct, as np.argpartition may choose any of equal values
        else:
            values = (x * 40).astype(dtype) if dtype != "complex64" else (x + 1j * x[::-1]).astype(dtype)
        kind = "stable" if dtype in ("int8", "float16") else None
        name = "%s %s" % (dtype, count(n))
        peers = {} if dtype == "complex64" else sorting()
        yield Row("sort " + name, tensor.sort, np.sort, [values], **peers)
        yield Row(
            "argsort " + name,
            tensor.argsort,
            lambda x, kind=kind: np.argsort(x, kind=kind),
            [values],
            **(index_sorting() if peers else {}),
        )
        if dtype in ("float64", "float32"):
            for k in (10, n // 4):
                yield Row(
                    "topk %d of %s" % (k, name),
                    lambda x, k=k: tensor.topk_and_argtopk(x, k),
                    lambda x, k=k: best(x, k),
                    [values],
                    **selecting(k),
                )
    yield Row("unique of floats " + count(n), lambda x: extra_ops.Unique()(x), np.unique, [x])
    small = RNG.randint(0, 1000, n)
    yield Row("unique of few " + count(n), lambda x: extra_ops.Unique()(x), np.unique, [small])
    yield Row("unique with all " + count(n), lambda x: extra_ops.Unique(True, True, True)(x), unique_parts, [small])
    yield Row(
        "searchsorted " + count(n),
        extra_ops.searchsorted,
        np.searchsorted,
        [np.sort(RNG.randn(1000)), x],
        torch=lambda torch, a, v: torch.searchsorted(a, v),
    )
    yield Row(
        "bincount " + count(n), extra_ops.bincount, np.bincount, [small], torch=lambda torch, x: torch.bincount(x)
    )
    yield Row("bincount with weights " + count(n), extra_ops.bincount, np.bincount, [small, x])
    yield Row("repeat " + count(n), lambda x: extra_ops.repeat(x, 3), lambda x: np.repeat(x, 3), [x[: n // 3]])
    yield Row("repeat by vector " + count(n), extra_ops.repeat, np.repeat, [x[: n // 2], RNG.randint(0, 5, n // 2)])
    yield Row("diff " + count(n), extra_ops.diff, np.diff, [x])
    yield Row("diff 3 " + count(n), lambda x: extra_ops.diff(x, 3), lambda x: np.diff(x, 3), [x])
    yield Row("compress " + count(n), extra_ops.compress, np.compress, [x > 0, x])
    yield Row(
        "unravel_index " + count(n),
        lambda i: list(extra_ops.unravel_index(i, (10, 20, 5))),
        lambda i: list(np.unravel_index(i, (10, 20, 5))),
        [small],
    )
    yield Row(
        "ravel_multi_index " + count(n),
        lambda i, j: extra_ops.ravel_multi_index((i, j), (1000, 1000)),
        lambda i, j: np.ravel_multi_index((i, j), (1000, 1000)),
        [small, small[::-1].copy()],
    )
    yield Row("bartlett " + count(n), extra_ops.bartlett, lambda n: np.bartlett(int(n)), [np.array(n)])
    yield Row(
        "one hot " + count(n), lambda y: extra_ops.to_one_hot(y, 10), lambda y: np.eye(10)[y], [small[: n // 10] % 10]
    )


def tables(n):
    """Yield `Row`s for matrices of n elements, in several layouts."""
    for layout, x in layouts(RNG.randn(*square(n))):
        for axis in (0, 1):
            name = "axis %d %s %s" % (axis, count(n), layout)
            yield Row(
                "sort " + name,
                lambda x, axis=axis: tensor.sort(x, axis),
                lambda x, axis=axis: np.sort(x, axis),
                [x],
                **sorting(axis),
            )
            yield Row(
                "argsort " + name,
                lambda x, axis=axis: tensor.argsort(x, axis),
                lambda x, axis=axis: np.argsort(x, axis),
                [x],
                **index_sorting(axis),
            )
            yield Row(
                "topk 10 " + name,
                lambda x, axis=axis: tensor.topk_and_argtopk(x, 10, axis),
                lambda x, axis=axis: best(x, 10, axis),
                [x],
                **selecting(10, axis),
            )
            yield Row(
                "diff " + name,
                lambda x, axis=axis: extra_ops.diff(x, 1, axis),
                lambda x, axis=axis: np.diff(x, 1, axis),
                [x],
            )
            yield Row(
                "repeat " + name,
                lambda x, axis=axis: extra_ops.repeat(x, 2, axis),
                lambda x, axis=axis: np.repeat(x, 2, axis),
                [x],
            )
        yield Row("fill_diagonal %s %s" % (count(n), layout), lambda x: extra_ops.fill_diagonal(x, 1.0), filled, [x])


def filled(x):
    x = x.copy()
    np.fill_diagonal(x, 1.0)
    return x


def rows():
    for n in SIZES:
        yield from lines(n)
        yield from tables(n)
