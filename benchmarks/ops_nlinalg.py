"""Rows of ``ops.py``: inverses, determinants and decompositions. Operations without C code here call NumPy."""

import numpy as np
from ops import Row

from theano_ng.tensor import nlinalg

RNG = np.random.RandomState(0)


def rows():
    for dtype in ("float32", "float64", "complex128"):
        for n in (3, 30, 300):
            x = (
                np.asarray(
                    RNG.randn(n, n) + (1j * RNG.randn(n, n) if dtype[0] == "c" else 0) + n**0.5 * np.eye(n), dtype
                )
                / n**0.5
            )
            for layout, x in (("C", x), ("F", np.asfortranarray(x))):  # noqa: B020, reads x before the loop sets it
                yield Row(
                    "inverse %s %d %s" % (dtype, n, layout),
                    nlinalg.matrix_inverse,
                    np.linalg.inv,
                    [x],
                    jax=lambda jnp, x: jnp.linalg.inv(x),
                    rtol=1e-2,
                )
                yield Row(
                    "det %s %d %s" % (dtype, n, layout),
                    nlinalg.det,
                    np.linalg.det,
                    [x],
                    jax=lambda jnp, x: jnp.linalg.det(x),
                    rtol=1e-2,
                )
    for n in (3, 100):
        x = RNG.randn(n, n) + np.diag(np.arange(n))
        yield Row("pinv %d" % n, nlinalg.pinv, np.linalg.pinv, [x], jax=lambda jnp, x: jnp.linalg.pinv(x))
        yield Row("eigenvalues of eigh %d" % n, lambda x: nlinalg.eigh(x)[0], lambda x: np.linalg.eigh(x)[0], [x])
        yield Row("svd %d" % n, lambda x: nlinalg.svd(x)[1], lambda x: np.linalg.svd(x)[1], [x])
        yield Row("qr %d" % n, nlinalg.qr, lambda x: list(np.linalg.qr(x)), [x])
        yield Row("tensorsolve %d" % n, nlinalg.tensorsolve, np.linalg.tensorsolve, [x, RNG.randn(n)])
    for n in (30, 300, 3000):
        x = RNG.randn(n, n)
        yield Row("trace %d" % n, nlinalg.trace, np.trace, [x], jax=lambda jnp, x: jnp.trace(x))
        yield Row("alloc_diag %d" % n, nlinalg.alloc_diag, np.diag, [x[0]], jax=lambda jnp, x: jnp.diag(x))
        yield Row(
            "norm %d" % n, lambda x: nlinalg.norm(x, None), np.linalg.norm, [x], jax=lambda jnp, x: jnp.linalg.norm(x)
        )
        yield Row(
            "norm inf %d" % n,
            lambda x: nlinalg.norm(x, np.inf),
            lambda x: np.linalg.norm(x, np.inf),
            [x],
            jax=lambda jnp, x: jnp.linalg.norm(x, np.inf),
        )
        yield Row(
            "norm 1 %d" % n,
            lambda x: nlinalg.norm(x, 1),
            lambda x: np.linalg.norm(x, 1),
            [x],
            jax=lambda jnp, x: jnp.linalg.norm(x, 1),
        )
        yield Row(
            "vector norm 3 %d" % n, lambda x: nlinalg.norm(x.flatten(), 3), lambda x: np.linalg.norm(x.ravel(), 3), [x]
        )
