"""Rows of ``ops.py``: matrix products in every layout."""

import numpy as np
from ops import Row

from theano_ng import tensor

MATMUL = dict(jax=lambda jnp, x, y: x @ y, torch=lambda torch, x, y: x @ y)
RNG = np.random.RandomState(0)


def _turned(x, turn):
    return np.asfortranarray(x) if turn else x


def rows():
    for dtype in ("float32", "float64", "complex64", "complex128"):
        for n in (8, 64, 512):
            x, y = (
                np.asarray(RNG.randn(n, n) + (1j * RNG.randn(n, n) if dtype[0] == "c" else 0), dtype) for _ in range(2)
            )
            for turns in ((0, 0), (0, 1), (1, 0), (1, 1)):
                yield Row(
                    "dot %s %d %s" % (dtype, n, "".join("CF"[t] for t in turns)),
                    tensor.dot,
                    np.dot,
                    [_turned(x, turns[0]), _turned(y, turns[1])],
                    **MATMUL,
                    rtol=2e-3,
                )
    for n in (32, 320, 3200):
        x, v = RNG.randn(n, n), RNG.randn(n)
        for turn in (0, 1):
            yield Row("matrix vector %d %s" % (n, "CF"[turn]), tensor.dot, np.dot, [_turned(x, turn), v], **MATMUL)
            yield Row("vector matrix %d %s" % (n, "CF"[turn]), tensor.dot, np.dot, [v, _turned(x, turn)], **MATMUL)
        yield Row(
            "outer %d" % n,
            tensor.outer,
            np.outer,
            [v, v],
            jax=lambda jnp, v, w: jnp.outer(v, w),
            torch=lambda torch, v, w: torch.outer(v, w),
        )
        yield Row("vector vector %d" % n, tensor.dot, np.dot, [v, v], **MATMUL)
    for batch, n in ((1000, 4), (100, 32), (16, 256)):
        x, y = RNG.randn(batch, n, n), RNG.randn(batch, n, n)
        yield Row("batched_dot %d of %d" % (batch, n), tensor.batched_dot, np.matmul, [x, y], **MATMUL)
        yield Row(
            "batched_dot %d of %d transposed" % (batch, n), tensor.batched_dot, np.matmul, [x.transpose(0, 2, 1), y]
        )
    x, y = RNG.randn(20, 30, 40), RNG.randn(40, 30, 50)
    yield Row(
        "tensordot (20, 30, 40) (40, 30, 50)",
        lambda x, y: tensor.tensordot(x, y, [[1, 2], [1, 0]]),
        lambda x, y: np.tensordot(x, y, [[1, 2], [1, 0]]),
        [x, y],
    )
