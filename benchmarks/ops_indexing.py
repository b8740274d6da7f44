"""Rows of `ops.py`: gathers, scatters, masks, slices and selections.

JAX does not check indices. It also cannot index by a mask with an unknown number of true elements; such rows have no
JAX function.
"""

import numpy as np
from ops import Row, count

from theano_ng import tensor


def _added(x, index, y):
    x = x.copy()
    np.add.at(x, index, y)
    return x


def _put(x, index, y):
    x = x.copy()
    x[index] = y
    return x


def _rows(rng):
    """Yield `Row`s for gathers and scatters of matrix rows of 1 to 512 elements."""
    for length in (1, 8, 64, 512):
        for n in (10**3, 10**5, 10**6):
            if n * length > 10**8:
                continue
            table = rng.rand(max(1000, min(n, 10**7 // length)), length).astype("float32")
            # For rows of one element, use a vector as the table: programs that look up single values do this.
            table = table[:, 0].copy() if length == 1 else table
            for dtype in ("int32", "int64"):
                index = rng.randint(0, len(table), n).astype(dtype)
                name = "rows of %d, %s %s" % (length, count(n), dtype)
                yield Row(
                    "take " + name,
                    lambda x, i: x[i],
                    lambda x, i: np.take(x, i, axis=0),
                    [table, index],
                    jax=lambda jnp, x, i: jnp.take(x, i, axis=0),
                    torch=lambda torch, x, i: torch.index_select(x, 0, i),
                )
                if dtype == "int32" or n * length > 10**7:
                    continue
                y = rng.rand(n, *table.shape[1:]).astype("float32")
                yield Row(
                    "add to " + name,
                    lambda x, i, y: tensor.inc_subtensor(x[i], y),
                    lambda x, i, y: _added(x, i, y),
                    [table, index, y],
                    jax=lambda jnp, x, i, y: x.at[i].add(y),
                    torch=lambda torch, x, i, y: torch.index_add(x, 0, i, y),
                    rtol=1e-4,
                )
                distinct = rng.permutation(len(table))[:n]
                yield Row(
                    "set " + name,
                    lambda x, i, y: tensor.set_subtensor(x[i], y),
                    lambda x, i, y: _put(x, i, y),
                    [table, distinct, y[: len(distinct)]],
                    jax=lambda jnp, x, i, y: x.at[i].set(y),
                    torch=lambda torch, x, i, y: torch.index_copy(x, 0, i, y),
                )


def _places(rng):
    """Yield `Row`s for gathers and scatters of single elements of a matrix, by two index vectors, and of columns."""
    x = rng.rand(1000, 1001).astype("float32")
    for n in (10**3, 10**5, 10**6):
        i, j, y = rng.randint(0, 1000, n), rng.randint(0, 1001, n), rng.rand(n).astype("float32")
        yield Row(
            "x[i, j] " + count(n),
            lambda x, i, j: x[i, j],
            lambda x, i, j: x[i, j],
            [x, i, j],
            jax=lambda jnp, x, i, j: x[i, j],
            torch=lambda torch, x, i, j: x[i, j],
        )
        yield Row(
            "add to x[i, j] " + count(n),
            lambda x, i, j, y: tensor.inc_subtensor(x[i, j], y),
            lambda x, i, j, y: _added(x, (i, j), y),
            [x, i, j, y],
            jax=lambda jnp, x, i, j, y: x.at[i, j].add(y),
            torch=lambda torch, x, i, j, y: x.index_put((i, j), y, accumulate=True),
            rtol=1e-4,
        )
    columns = rng.randint(0, 1001, 1000)
    yield Row(
        "x[:, j]",
        lambda x, j: x[:, j],
        lambda x, j: x[:, j],
        [x, columns],
        jax=lambda jnp, x, j: x[:, j],
        torch=lambda torch, x, j: x[:, j],
    )
    y = rng.rand(1000, 1000).astype("float32")
    yield Row(
        "add to x[:, j]",
        lambda x, j, y: tensor.inc_subtensor(x[:, j], y),
        lambda x, j, y: _added(x, (slice(None), j), y),
        [x, columns, y],
        jax=lambda jnp, x, j, y: x.at[:, j].add(y),
        torch=lambda torch, x, j, y: torch.index_add(x, 1, j, y),
        rtol=1e-4,
    )
    i, j = rng.randint(0, 1000, (300, 1)), rng.randint(0, 1000, (1, 301))
    yield Row(
        "x[i, j] of an open mesh",
        lambda x, i, j: x[i, j],
        lambda x, i, j: x[i, j],
        [x, i, j],
        jax=lambda jnp, x, i, j: x[i, j],
        torch=lambda torch, x, i, j: x[i, j],
    )


def _masks(rng):
    for n in (10**3, 10**5, 10**6):
        for share in (0.01, 0.5, 0.99):
            x, mask = rng.rand(n), rng.rand(n) < share
            name = "%s, %g true" % (count(n), share)
            yield Row(
                "x[mask] " + name, lambda x, m: x[m], lambda x, m: x[m], [x, mask], torch=lambda torch, x, m: x[m]
            )
            yield Row(
                "set x[mask] to 0 " + name,
                lambda x, m: tensor.set_subtensor(x[m], 0.0),
                lambda x, m: _put(x, m, 0.0),
                [x, mask],
                jax=lambda jnp, x, m: jnp.where(m, 0.0, x),
                torch=lambda torch, x, m: torch.where(m, 0.0, x),
            )
            yield Row(
                "flatnonzero " + name,
                tensor.flatnonzero,
                np.flatnonzero,
                [mask],
                torch=lambda torch, m: torch.nonzero(m)[:, 0],
            )
    x = rng.rand(1000, 1001)
    yield Row("nonzero of a matrix, 1e6", lambda x: list((x > 0.5).nonzero()), lambda x: list(np.nonzero(x > 0.5)), [x])
    yield Row(
        "rows by a mask",
        lambda x, m: x[m],
        lambda x, m: x[m],
        [x, rng.rand(1000) < 0.5],
        torch=lambda torch, x, m: x[m],
    )


def _parts(rng):
    x = rng.rand(1000, 1001)
    small = rng.rand(10, 10)
    for name, z in (("1e6", x), ("1e2", small)):
        yield Row(
            "copy of x[1:-1, ::2], " + name,
            lambda x: -x[1:-1, ::2],
            lambda x: -x[1:-1, ::2],
            [z],
            jax=lambda jnp, x: -x[1:-1, ::2],
            torch=lambda torch, x: -x[1:-1, ::2],
        )
        yield Row(
            "set x[1:-1] to 0, " + name,
            lambda x: tensor.set_subtensor(x[1:-1], 0.0),
            lambda x: _put(x, slice(1, -1), 0.0),
            [z],
            jax=lambda jnp, x: x.at[1:-1].set(0.0),
        )
        yield Row(
            "add 1 to x[1:-1], " + name,
            lambda x: tensor.inc_subtensor(x[1:-1], 1.0),
            lambda x: _put(x, slice(1, -1), x[1:-1] + 1),
            [z],
            jax=lambda jnp, x: x.at[1:-1].add(1.0),
        )


def _selections(rng):
    for n in (10**3, 10**6):
        a = rng.randint(0, 4, n)
        choices = [rng.rand(n) for _ in range(4)]
        yield Row(
            "choose of 4, " + count(n),
            lambda a, *c: tensor.choose(a, c),
            lambda a, *c: np.choose(a, c),
            [a, *choices],
            jax=lambda jnp, a, *c: jnp.choose(a, list(c), mode="clip"),
        )
        i = rng.randint(-n, 2 * n, n)
        yield Row(
            "take wrap, " + count(n),
            lambda x, i: x.take(i, mode="wrap"),
            lambda x, i: x.take(i, mode="wrap"),
            [choices[0], i],
            jax=lambda jnp, x, i: jnp.take(x, i, mode="wrap"),
        )
        yield Row(
            "take clip, " + count(n),
            lambda x, i: x.take(i, mode="clip"),
            lambda x, i: x.take(i, mode="clip"),
            [choices[0], i],
            jax=lambda jnp, x, i: jnp.take(x, i, mode="clip"),
        )
        yield Row("compress, " + count(n), lambda c, x: tensor.compress(c, x), np.compress, [a > 1, choices[0]])


def rows():
    rng = np.random.RandomState(0)
    for make in (_rows, _places, _masks, _parts, _selections):
        yield from make(rng)
