"""Rows of ``ops.py``: factorizations and systems of equations, compared with NumPy and SciPy."""

import numpy as np
import scipy.linalg
from ops import Row

from theano_ng.tensor import nlinalg, slinalg

RNG = np.random.RandomState(0)
LENGTHS = (4, 32, 256, 1024)


def rows():
    for n in LENGTHS:
        a = RNG.randn(n, n)
        positive = a.dot(a.T) + n * np.eye(n)
        triangle = np.tril(a) + n * np.eye(n)
        indefinite = a + a.T
        for order in "CF":

            def given(x):
                return np.array(x, order=order)

            name = "%d %s" % (n, order)
            yield Row(
                "cholesky " + name,
                slinalg.cholesky,
                np.linalg.cholesky,
                [given(positive)],
                jax=lambda jnp, x: jnp.linalg.cholesky(x),
            )
            yield Row("det " + name, nlinalg.det, np.linalg.det, [given(a)], jax=lambda jnp, x: jnp.linalg.det(x))
            yield Row(
                "inverse " + name,
                nlinalg.matrix_inverse,
                np.linalg.inv,
                [given(a)],
                jax=lambda jnp, x: jnp.linalg.inv(x),
            )
            for b in (RNG.randn(n), RNG.randn(n, 3), RNG.randn(n, n)):
                which = "%s, %s" % (name, b.shape)
                yield Row(
                    "solve " + which,
                    slinalg.solve,
                    np.linalg.solve,
                    [given(a), b],
                    jax=lambda jnp, x, b: jnp.linalg.solve(x, b),
                )
                yield Row(
                    "solve_symmetric positive " + which, slinalg.solve_symmetric, np.linalg.solve, [given(positive), b]
                )
                yield Row(
                    "solve_symmetric indefinite " + which,
                    slinalg.solve_symmetric,
                    np.linalg.solve,
                    [given(indefinite), b],
                )
                yield Row(
                    "solve_lower_triangular " + which,
                    slinalg.solve_lower_triangular,
                    lambda x, b: scipy.linalg.solve_triangular(x, b, lower=True, check_finite=False),
                    [given(triangle), b],
                )
        yield Row("eigvalsh %d" % n, lambda x: slinalg.eigvalsh(x, None), np.linalg.eigvalsh, [positive])
        yield Row(
            "eigvalsh of two %d" % n,
            slinalg.eigvalsh,
            lambda x, b: scipy.linalg.eigvalsh(x, b, check_finite=False),
            [indefinite, positive],
        )
        if n <= 256:
            yield Row("expm %d" % n, slinalg.expm, scipy.linalg.expm, [a / n])
    x, y = RNG.randn(30, 40), RNG.randn(50, 20)
    yield Row("kron (30, 40) (50, 20)", slinalg.kron, np.kron, [x, y], jax=lambda jnp, x, y: jnp.kron(x, y))
    yield Row("kron (3, 4) (5, 2)", slinalg.kron, np.kron, [x[:3, :4], y[:5, :2]], jax=lambda jnp, x, y: jnp.kron(x, y))
